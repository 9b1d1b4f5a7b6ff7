"""Tests of scripts/failures_last.py."""

import subprocess
import sys
import unittest
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "failures_last.py"

LIBTEST = """running 3 tests
test a::b ... FAILED

failures:

---- a::b stdout ----

thread 'a::b' (7) panicked at src/x.rs:3:5:
assertion `left == right` failed: one too many
  left: 1

---- c stdout ----
Error: gone


failures:
    a::b
    c

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

"""
MIMIC = """failures:

---- linux::d ----
late

---- both::d ----
late


failures:
    linux::d
    both::d


test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
GOOD = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"


def told(text):
    command = [sys.executable, SCRIPT]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


class FailuresLast(unittest.TestCase):
    def test_each_failure_has_its_reason_in_a_line_at_the_end(self):
        text = LIBTEST + GOOD + MIMIC + GOOD
        told_of = told(text)
        self.assertTrue(told_of.startswith(text))
        self.assertEqual(
            told_of[len(text) :].strip().splitlines(),
            [
                "WHAT FAILED, once more:",
                "a::b: assertion `left == right` failed: one too many",
                "c: Error: gone",
                "linux::d, both::d: late",
            ],
        )

    def test_nothing_is_added_where_nothing_failed(self):
        self.assertEqual(told(GOOD), GOOD)

    def test_a_test_that_said_nothing_and_a_log_that_breaks_off(self):
        end = told("failures:\n\n---- a stdout ----\n\n\nfailures:\n    a\n\ntest result: FAILED.\n")
        self.assertTrue(end.endswith("a: no reason was printed\n"))
        self.assertTrue(told("---- a ----\nbroken").endswith("a: broken\n"))


if __name__ == "__main__":
    unittest.main()
