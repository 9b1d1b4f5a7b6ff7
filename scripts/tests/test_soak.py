"""What scripts/soak.py takes for clean, here and on other machines, and the page that says so."""

import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import soak  # noqa: E402

WIRE = {"sources": "0123", "cases": 300_000, "tests": 2, "when": "2026-11-26"}


class Clean(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, file in [("ROOT", ""), ("SHARED", "soak.json"), ("PAGE", "soak.md"), ("KEPT", ""), ("RECORD", "clean.json")]:
            patch = mock.patch.object(soak, name, self.folder / file)
            patch.start()
            self.addCleanup(patch.stop)

    def test_a_package_is_shared_only_when_all_of_it_is_clean(self):
        soak.share("linkhold-wire", {**WIRE, "clean": {"a one": 1800.0}})
        self.assertFalse(soak.SHARED.exists())
        soak.share("linkhold-wire", {**WIRE, "clean": {"a one": 1800.0, "a two": 1800.0}})
        self.assertEqual(soak.shared(), {"linkhold-wire": {**WIRE, "hours": 1.0}})
        self.assertIn("| `linkhold-wire` | 2 | 300000 | 0 | 1.00 | `0123` | 2026-11-26 |\n", soak.PAGE.read_text())

    def test_what_was_shared_holds_for_its_own_sources_and_no_more_cases(self):
        soak.share("linkhold-wire", {**WIRE, "clean": {"a one": 1.0, "a two": 1.0}})
        clean = soak.shared()
        self.assertTrue(soak.is_recorded(clean, "linkhold-wire", "0123", 300_000))
        self.assertFalse(soak.is_recorded(clean, "linkhold-wire", "4567", 300_000))
        self.assertFalse(soak.is_recorded(clean, "linkhold-wire", "0123", 300_001))
        self.assertFalse(soak.is_recorded(clean, "linkhold-tcp", "0123", 1))

    def test_a_failed_test_keeps_its_package_from_being_clean(self):
        record = {"linkhold-wire": {**WIRE, "clean": {}}}
        good, bad = (self.folder / name for name in ("good", "bad"))
        good.write_text("#!/bin/sh\necho '1 passed'\n")
        bad.write_text("#!/bin/sh\necho '0 passed; 1 failed'\nexit 101\n")
        for program in (good, bad):
            program.chmod(0o755)
        tests = [("linkhold-wire", self.folder, "a", str(program), name) for program, name in ((good, "one"), (bad, "two"))]
        with mock.patch("builtins.print"), soak.concurrent.futures.ThreadPoolExecutor(1) as pool:
            self.assertEqual(soak.soak_in_order(tests, record, 10, pool), 1)
        self.assertEqual(list(record["linkhold-wire"]["clean"]), ["a one"])
        self.assertFalse(soak.SHARED.exists())


class Complete(unittest.TestCase):
    # Its cases are the same in every run; `cargo fuzz` draws new ones.
    NOT_DRAWN = {"linkhold": {"fuzz_smoke"}}

    def test_every_target_with_a_property_is_run(self):
        found = {}
        for file in (soak.ROOT / "crates").rglob("*.rs"):
            if re.search(r"\bproptest! *[{(]|\bTestRunner::new", file.read_text()):
                crate, kind, target = file.relative_to(soak.ROOT / "crates").parts[:3]
                target = crate.replace("-", "_") if kind == "src" else target.removesuffix(".rs")
                found.setdefault(crate, set()).add(target)
        self.assertGreater(len(found), 8)
        for crate, targets in found.items():
            with self.subTest(crate):
                left = targets - self.NOT_DRAWN.get(crate, set())
                run = soak.PACKAGES.get(crate, set())
                self.assertLessEqual(left, left if run is None else run)

    def test_what_is_left_out_of_a_library_is_built_for_tests_only(self):
        left_out = 0
        for crate in (soak.ROOT / "crates").iterdir():
            for file in sorted((crate / "src").rglob("*.rs")):
                inside = file.relative_to(crate)
                if not soak.NOT_IN_A_LIBRARY.search(str(inside)) or soak.NOT_IN_A_LIBRARY.search(str(inside.parent) + "/"):
                    continue
                left_out += 1
                # Declared beside it (`mod_tests.rs`, or `folder/tests.rs` in folder/mod.rs or folder.rs).
                declaring = [file.parent / "mod.rs", file.parent.with_suffix(".rs"), file.parent / "lib.rs", *file.parent.glob("*.rs")]
                only = rf'#\[cfg\(test\)\]\n(#\[path = "{file.name}"\]\n)?mod {file.stem}\b|#\[cfg\(test\)\]\n#\[path = "{file.name}"\]\nmod '
                self.assertTrue(any(one.exists() and re.search(only, one.read_text()) for one in declaring), inside)
        self.assertGreater(left_out, 10)

    def test_which_targets_are_run_is_part_of_the_sources(self):
        packages = soak.metadata()
        with mock.patch.dict(soak.PACKAGES, {"linkhold-sim": {"linkhold_sim"}}):
            fewer = soak.sources("linkhold-sim", packages)
        self.assertNotEqual(fewer, soak.sources("linkhold-sim", packages))


class Page(unittest.TestCase):
    def test_the_page_is_what_the_results_say(self):
        if soak.SHARED.exists():
            self.assertEqual(soak.PAGE.read_text(), soak.page(soak.shared()))


if __name__ == "__main__":
    unittest.main()
