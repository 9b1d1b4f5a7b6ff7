"""Linux tests that are run again and again: what scripts/repeat_tests.sh counts, and how docs/repeats.md keeps it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import repeats_page  # noqa: E402

# A program of tests, as libtest-mimic prints them: it passes at first, then skips, then fails. One test it
# never runs.
FAKE = """#!/bin/bash
[[ $1 == --list ]] && { printf '[timed] one: test\\ntwo: test\\n'; exit; }
count=$(cat "$COUNTED" 2>/dev/null || echo 0)
echo $((count + 1)) >"$COUNTED"
echo 'test long ... ignored'
case $count in
  1) echo 'test two       ... ignored (no tunnel here)'; echo 'test result: ok. 1 passed; 0 failed; 2 ignored'; ;;
  2) printf 'test [timed] one ... it took ... 5 ms\nFAILED\ntest two ... no line ends here: FAILED\n'; echo 'test result: FAILED. 1 passed; 1 failed; 1 ignored'; exit 101 ;;
  3) echo 'test result: ok. 0 passed; 0 failed; 3 ignored' ;;
  *) echo 'test result: ok. 2 passed; 0 failed; 1 ignored' ;;
esac
"""


def result(what="suite", busy=False, failed=0, **more):
    return {
        "what": what, "busy": busy, "runs": 10, "failed": failed, "skipped": 0, "failures": {}, "skips": {}, "commit": "0123456789ab",
        "date": "2026-11-26", "kernel": "6.18", "processors": 2, **more,
    }  # fmt: skip


@unittest.skipUnless(os.geteuid() == 0, "repeat_tests.sh wants root")
class Counted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "fake").write_text(FAKE)
        (self.folder / "fake").chmod(0o755)

    def repeat(self, *words):
        told = {**os.environ, "PROGRAM": str(self.folder / "fake"), "KEPT": str(self.folder / "kept"), "COUNTED": str(self.folder / "counted")}
        return subprocess.run([SCRIPTS / "repeat_tests.sh", *words], env=told, capture_output=True, text=True)

    def test_failed_and_skipped_runs_are_counted_apart(self):
        done = self.repeat("plans", "3")
        self.assertRegex(done.stdout, r"plans +failed 1 of 3, skipped a test in 1\n")
        self.assertIn("run 2: two skipped: no tunnel here\n", done.stdout)
        self.assertIn("run 3: one\n  run 3: two\n", done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(one.name for one in (self.folder / "kept").iterdir()), ["plans.2.log", "plans.3.log"])

    def test_runs_without_a_failure_are_a_success(self):
        done = self.repeat("testbed", "2")
        self.assertRegex(done.stdout, r"testbed +failed 0 of 2, skipped a test in 1\n")
        self.assertEqual(done.returncode, 0)

    def test_a_run_in_which_nothing_passed_is_an_error(self):
        (self.folder / "counted").write_text("3")
        done = self.repeat("suite", "1")
        self.assertIn("no test ran", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_order_runs_the_timed_tests_alone(self):
        self.assertRegex(self.repeat("order", "1").stdout, r"one +failed 0 of 1\n\Z")

    def test_what_is_not_a_number_of_times_is_refused(self):
        self.assertEqual(self.repeat("suite", "many").returncode, 2)


class Built(unittest.TestCase):
    def test_the_commit_is_taken_when_it_is_built_and_not_when_its_runs_end(self):
        text = (SCRIPTS / "repeat_tests.sh").read_text()
        self.assertLess(text.index("built=$(scripts/repeats_page.py commit)"), text.index("program=$(cargo test"))
        self.assertIn('add "$name" --commit "$built"', text)

    def test_commit_prints_what_the_tree_is(self):
        said = subprocess.run([sys.executable, SCRIPTS / "repeats_page.py", "commit"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.strip(), repeats_page.commit() or "")


class Kept(unittest.TestCase):
    def test_a_result_takes_the_place_of_the_same_tests_under_the_same_load(self):
        kept = [result(), result(busy=True)]
        now = repeats_page.with_result(kept, result(failed=1))
        self.assertEqual([(one["busy"], one["failed"]) for one in now], [(False, 1), (True, 0)])

    def test_programs_come_first_and_tests_by_name(self):
        kept = []
        for what in ("b", "testbed", "a", "suite"):
            kept = repeats_page.with_result(kept, result(what))
        self.assertEqual([one["what"] for one in kept], ["suite", "testbed", "a", "b"])

    def test_the_page_has_every_result_and_what_failed(self):
        text = repeats_page.page([result("plans", True, failed=2, skipped=3, failures={"linux::b": 1, "linux::a": 2}, skips={"both::c": 3})])
        self.assertIn("| plans | builds | 10 | 2 | 3 | `linux::a` (2), `linux::b` (1) | `both::c` (3) | commit 0123456789ab | 2026-11-26 | 6.18 | 2 |", text)
        self.assertIn("| `one` | nothing of ours | 10 | 0 | 0 | – | – |", repeats_page.page([result("one")]))

    def test_add_writes_page_and_data_and_raw_checks_them(self):
        with tempfile.TemporaryDirectory() as folder:
            docs = pathlib.Path(folder)

            def run(*words):
                return subprocess.run([sys.executable, SCRIPTS / "repeats_page.py", "--docs", folder, *words], capture_output=True, text=True)

            words = ("--runs", "3", "--failed", "2", "--skipped", "0", "--busy", "--failures", "one", "one", "two", "--skips", "three")
            done = run("add", "suite", "--commit", "", *words)
            self.assertIn("does not take this result", done.stderr)
            self.assertFalse((docs / "repeats.json").exists())
            done = run("add", "suite", "--commit", "0123456789ab", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            (kept,) = json.loads((docs / "repeats.json").read_text())
            self.assertEqual((kept["failures"], kept["skips"], kept["busy"], kept["runs"]), ({"one": 2, "two": 1}, {"three": 1}, True, 3))
            self.assertEqual(kept["commit"], "0123456789ab", "what was built, whatever the tree has now")
            self.assertEqual(run("--raw", "--check").returncode, 0)
            (docs / "repeats.md").write_text("another")
            self.assertIn("not what repeats.json says", run("--raw", "--check").stderr)


if __name__ == "__main__":
    unittest.main()
