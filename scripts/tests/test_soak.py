"""What scripts/soak.py takes for clean, here and on other machines, and the page that says so."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import soak  # noqa: E402

WIRE = {"program": "89ab", "sources": "0123", "cases": 300_000, "tests": 2, "when": "2026-11-26"}
ROW = {**WIRE, "ignored": 0, "hours": 1.0}


def compiled(source, program):
    """A program of C, with its names and debug information."""
    subprocess.run(["cc", "-g", "-x", "c", "-", "-o", program, "-Wl,--build-id"], input=source, text=True, check=True)


class Clean(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, file in [("ROOT", ""), ("SHARED", "soak.json"), ("PAGE", "soak.md"), ("KEPT", ""), ("RECORD", "clean.json")]:
            patch = mock.patch.object(soak, name, self.folder / file)
            patch.start()
            self.addCleanup(patch.stop)
        soak.change_shared(lambda clean: clean.update({"linkhold-wire": {"programs": ["a"], "clean": {}}}))

    def rows(self):
        return soak.rows_of(soak.shared(), "linkhold-wire")

    def test_a_program_is_shared_only_when_all_of_it_is_clean(self):
        soak.share("linkhold-wire", "a", {**WIRE, "clean": {"one": 1800.0}})
        self.assertEqual(self.rows(), {})
        self.assertIn("| `linkhold-wire` | `a` | not clean yet: 1 of 2 so far | – | 300000 | – | `89ab` | – | 2026-11-26 |\n", soak.PAGE.read_text())
        # Another machine, which has no record, goes on; not with another program, nor with more cases.
        for program, cases, clean in [("89ab", 300_000, {"one": 1800.0}), ("cdef", 300_000, {}), ("89ab", 300_001, {})]:
            self.assertEqual(soak.clean_before({}, "linkhold-wire", "a", program, cases)["clean"], clean)
        soak.share("linkhold-wire", "a", {**WIRE, "clean": {"one": 1800.0, "two": 1800.0}})
        self.assertEqual((self.rows(), soak.begun_of(soak.shared(), "linkhold-wire")), ({"a": ROW}, {}))
        self.assertIn("| `linkhold-wire` | `a` | 2 | 0 | 300000 | 1.00 | `89ab` | `0123` | 2026-11-26 |\n", soak.PAGE.read_text())

    def test_a_program_that_is_not_clean_stands_on_the_page_as_such(self):
        soak.change_shared(lambda clean: clean.update({"linkhold-tcp": {"programs": ["b", "c"], "clean": {"c": {**ROW, "ignored": 3}}}}))
        page = soak.PAGE.read_text()
        self.assertIn("| `linkhold-wire` | `a` | not clean yet |", page)
        self.assertIn("| `linkhold-tcp` | `b` | not clean yet |", page)
        self.assertIn("| `linkhold-tcp` | `c` | 2 | 3 | 300000 | 1.00 |", page)
        self.assertIn("| `linkhold-radio` | – | not run yet |", page)
        self.assertNotIn("failed |", page)

    def test_an_ignored_test_is_neither_run_nor_clean(self):
        program = self.folder / "program"
        program.write_text("#!/bin/sh\ncase \"$*\" in *--ignored*) ;; *--list*) echo 'runs: test' ;; esac\ncase \"$*\" in *--list*) echo 'slow: test' ;; *) echo '0 passed; 1 ignored' ;; esac\n")
        program.chmod(0o755)
        self.assertEqual(soak.tests_of(program), (["runs"], ["slow"]))
        self.assertIsNotNone(soak.run(self.folder, str(program), "slow", 1)[1])

    def test_what_was_shared_holds_for_its_own_program_and_no_more_cases(self):
        self.assertTrue(soak.is_clean(ROW, "89ab", 300_000))
        self.assertFalse(soak.is_clean(ROW, "cdef", 300_000))
        self.assertFalse(soak.is_clean(ROW, "89ab", 300_001))
        self.assertFalse(soak.is_clean({}, "89ab", 1))

    def test_a_package_is_unchanged_if_all_its_programs_are_clean_with_these_sources(self):
        clean = {"linkhold-wire": {"programs": ["a", "b"], "clean": {"a": ROW, "b": ROW}}}
        self.assertTrue(soak.is_unchanged(clean, "linkhold-wire", "0123", 300_000))
        self.assertFalse(soak.is_unchanged(clean, "linkhold-wire", "4567", 300_000))
        self.assertFalse(soak.is_unchanged(clean, "linkhold-wire", "0123", 300_001))
        self.assertFalse(soak.is_unchanged(clean, "linkhold-tcp", "0123", 1))
        del clean["linkhold-wire"]["clean"]["b"]
        self.assertFalse(soak.is_unchanged(clean, "linkhold-wire", "0123", 300_000))

    def test_sources_that_build_another_program_are_run_and_others_are_not(self):
        program = self.folder / "program"
        compiled("int main(int count, char **words) { return count; }", program)
        built = soak.hash_of(program)
        names = {"linkhold-wire": {"manifest_path": str(self.folder / "Cargo.toml")}}
        instead = {"build": {"a": program}, "tests_of": (["one", "two"], []), "sources": "4567"}
        for name, answer in instead.items():
            patch = mock.patch.object(soak, name, return_value=answer)
            patch.start()
            self.addCleanup(patch.stop)
        for before, left in ((built, []), ("89ab", ["one", "two"])):
            row = {**ROW, "program": before}
            soak.change_shared(lambda clean, row=row: clean.update({"linkhold-wire": {"programs": ["a", "gone"], "clean": {"a": row, "gone": ROW}}}))
            record = {}
            with mock.patch("builtins.print"):
                self.assertEqual([test for *_, test in soak.opened("linkhold-wire", names, record, 300_000)], left)
            # A row of another program would pass for one of this.
            self.assertEqual(self.rows(), {} if left else {"a": {**row, "sources": "4567"}})
            part = {"program": before, "cases": 300_000, "tests": 2, "when": "2026-11-26", "clean": {"one": 1.0}}
            soak.change_shared(lambda clean, part=part: clean["linkhold-wire"].update({"begun": {"a": part}, "clean": {}}))
            with mock.patch("builtins.print"):
                self.assertEqual([test for *_, test in soak.opened("linkhold-wire", names, {}, 300_000)], ["two"] if not left else left)
            self.assertEqual(set(soak.begun_of(soak.shared(), "linkhold-wire")), set() if left else {"a"})
        # What a run that was stopped left clean is run again only in another program.
        record["linkhold-wire"]["a"]["clean"]["one"] = 1.0
        for source, left in (("int main(int count, char **words) { return count; }", ["two"]), ("int main(void) { return 1; }", ["one", "two"])):
            compiled(source, program)
            with mock.patch("builtins.print"):
                self.assertEqual([test for *_, test in soak.opened("linkhold-wire", names, record, 300_000)], left)

    def test_names_and_lines_are_no_part_of_a_program_and_code_is(self):
        first, second, other = (self.folder / name for name in ("first", "second", "other"))
        compiled("static int f(int n) { return n + 1; }\nint main(int count, char **words) { return f(count); }", first)
        compiled("// Lines.\n\nstatic int g(int m) { return m + 1; }\nint main(int number, char **words) { return g(number); }", second)
        compiled("static int f(int n) { return n + 2; }\nint main(int count, char **words) { return f(count); }", other)
        self.assertNotEqual(first.read_bytes(), second.read_bytes())
        self.assertEqual(soak.hash_of(first), soak.hash_of(second))
        self.assertNotEqual(soak.hash_of(first), soak.hash_of(other))

    def test_processor_time_is_counted_and_not_the_time_that_passed(self):
        for name, body, least, most in (("works", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", 0.05, 60), ("waits", "sleep 0.5", 0, 0.3)):
            program = self.folder / name
            program.write_text(f"#!/bin/sh\n{body}\necho '1 passed'\n")
            program.chmod(0o755)
            seconds, failed = soak.run(self.folder, str(program), "it", 1)
            self.assertIsNone(failed)
            self.assertTrue(least <= seconds <= most, (name, seconds))

    def test_a_test_without_cases_is_not_expected_to_grow_with_them(self):
        self.assertEqual(soak.expected_seconds(5.0, 5.005, 300, 300_000), 5.005)
        self.assertAlmostEqual(soak.expected_seconds(2.0, 2.299, 300, 300_000), 2 + 299.999)
        self.assertEqual(soak.expected_seconds(2.0, 2.5, 1, 10), 2.5)

    def test_short_programs_are_run_first_and_of_each_the_longest_test(self):
        tests = [("core", "", target, "", test) for target, test in (("long", "a"), ("long", "b"), ("short", "c"), ("short", "d"), ("long", "e"))]
        self.assertEqual([test for *_, test in soak.in_order(tests, [5, 9, 2, 3, 0.1])], ["d", "c", "b", "a", "e"])

    def test_a_failed_test_keeps_its_program_from_being_clean(self):
        record = {"linkhold-wire": {"a": {**WIRE, "clean": {}}}}
        good, bad = (self.folder / name for name in ("good", "bad"))
        good.write_text("#!/bin/sh\necho '1 passed'\n")
        bad.write_text("#!/bin/sh\necho '0 passed; 1 failed'\nexit 101\n")
        for program in (good, bad):
            program.chmod(0o755)
        tests = [("linkhold-wire", self.folder, "a", str(program), name) for program, name in ((good, "one"), (bad, "two"))]
        with mock.patch("builtins.print"), soak.concurrent.futures.ThreadPoolExecutor(1) as pool:
            self.assertEqual(soak.soak_in_order(tests, record, 10, pool), 1)
        self.assertEqual(list(record["linkhold-wire"]["a"]["clean"]), ["one"])
        self.assertEqual(self.rows(), {})


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
