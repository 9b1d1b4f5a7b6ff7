"""The block `lab` of docs/router.md, from what the tests on the lab print."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import page_numbers

TOLD, UNTOLD = page_numbers.FLOOD_TESTS.values()


def printed(after="0.99"):
    flood = "".join(
        f"{ports}, {load} times the rate: {share} of 50.1 Mbit/s, then {after} of 49.9, 47.5 Mbit/s of data; others took 0 %\n"
        for ports in ("One", "Each")
        for load in (1, 2)
        for share in ("0.512", "0.482")
    )
    return {
        TOLD: "running 1 test\ntest [timed] a_hog ... " + flood,
        UNTOLD: flood,
        "a_signed_flow_is_not_touched": "test a_signed ... 50 MB signed in 2.4 s: 0 refused; of the flow beside it 7 windows closed, 90 clamped, 95 packets rewritten\n"
        "50 MB signed in 2.6 s: 0 refused; of the flow beside it 8 windows closed, 80 clamped, 99 packets rewritten\n",
        "two_radios_do_not_disturb_each_other": "radio0 beside a silent radio1: 1.001 of its goodput, -0.02 ms; beside a slow one: 0.994 of its goodput, +0.11 ms\n",
    }


class Lab(unittest.TestCase):
    def test_medians_and_the_least_are_told(self):
        text = page_numbers.lab_text("abc1234", 2, printed())
        self.assertIn("with 2 runs", text)
        self.assertIn("commit abc1234", text)
        self.assertIn("| told | one | 1 | 0.50 (0.48) | 0.99 (0.99) |", text)
        self.assertIn("| untold | each segment another | 2 | 0.50 (0.48) | 0.99 (0.99) |", text)
        self.assertIn("took 2.6 s at most", text)
        self.assertIn("7 times, clamped one 80 times and changed 95 headers", text)
        self.assertIn("1.00 of its goodput at least and +0.0 ms at most", text)
        self.assertIn("0.99 of its goodput at least and +0.1 ms at most", text)

    def test_what_was_skipped_is_not_taken_for_measured(self):
        for name in printed():
            with self.subTest(name), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                page_numbers.lab_text("abc1234", 2, printed() | {name: "ignored\n"})


if __name__ == "__main__":
    unittest.main()
