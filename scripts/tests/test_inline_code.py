"""What scripts/inline_code.py finds wrong with commands, targets, files and links of pages, and that the real pages have none of it."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import inline_code  # noqa: E402
from inline_code import ROOT, Command, Wrong, check_link, check_span, faults, headings  # noqa: E402

PROGRAM = os.environ.get("LINKHOLD") or str(ROOT / "target" / "debug" / "linkhold")
PAGE = ROOT / "docs" / "router.md"
GOOD = (
    "linkhold status",
    "sudo linkhold signal freeze --radio wlan1 ...",
    "linkhold signal --in 80ms freeze --for 120ms",
    "linkhold run scenarios/demo.toml --seeds 10 --set wired.rtt=100ms",
    "linkhold reproduce dsasync/fig4 --quick",
    "--set radio.primary_user.on_mean=5s",
    "--set cases.1.name=x",
    "--record-limit",
    "make bench-beside COMMIT=HEAD~1",
    "crates/linkhold-core/src/{registry,settings}.rs",
    "sim/tests/datagrams.rs",
    "scenarios/",
    "codel.rs",
    "out/demo/report.html",
    "a_queue_that_stands_is_cut_but_what_a_silence_kept_is_not",
    "with_an_access_delay_that_varies_*",
    "cwnd",
)
BAD = {
    "linkhold statuss": "no subcommand statuss",
    "linkhold run scenarios/demo.toml --sedes 10": "no option --sedes",
    "linkhold status --seeds 3": "no option --seeds",
    "linkhold run scenarios/demo.toml --set wired.rrt=100ms": "no key wired.rrt",
    "linkhold reproduce dsasync/fig99": "no such folder",
    "--set radio.primary_user.mean=5s": "no key radio.primary_user.mean",
    "--set wired.rtt": "has no =",
    "--no-such-option": "no subcommand has it",
    "make bensh": "no such target",
    "crates/linkhold-core/src/{registry,setings}.rs": "setings.rs is not in the repository",
    "scenarios/demmo.toml": "is not in the repository",
    # In two parts, so that this file does not have the name.
    "a_queue_that_stands_" + "is_cut_but_not_here": "no source has this name",
    "with_an_access_delay_" + "that_never_varies_*": "no source has this name",
    "codell.rs": "is not in the repository",
}


class Spans(unittest.TestCase):
    def setUp(self):
        self.command = Command(PROGRAM)

    def check(self, span):
        check_span(self.command, PAGE, "a page that names no script", span)

    def test_what_there_is_may_be_named(self):
        for span in GOOD:
            with self.subTest(span):
                self.check(span)

    def test_what_there_is_not_is_found(self):
        for span, words in BAD.items():
            with self.subTest(span), self.assertRaisesRegex(Wrong, words):
                self.check(span)


class Links(unittest.TestCase):
    def test_files_and_headings_must_be_there(self):
        self.assertIn("what-it-costs", headings(PAGE))
        for target in ("signals.md", "#what-it-costs", "../README.md#start", "https://example.org/x"):
            check_link(PAGE, target)
        for target in ("signal.md", "#what-it-cost", "../README.md#begin"):
            with self.subTest(target), self.assertRaises(Wrong):
                check_link(PAGE, target)


class Pages(unittest.TestCase):
    def test_the_pages_name_what_there_is(self):
        command, wrong, looked = Command(PROGRAM), [], 0
        for page in inline_code.PAGES:
            found, count = faults(command, page)
            wrong += found
            looked += count
        self.assertEqual(wrong, [])
        self.assertGreater(looked, 1000)


if __name__ == "__main__":
    unittest.main()
