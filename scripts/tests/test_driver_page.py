"""What scripts/driver_page.py compares, and when it finds a difference. `make pages` runs this; LINKHOLD names the
program, which computes means and intervals here."""

import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import driver_page  # noqa: E402
import raw_parts  # noqa: E402
from estimates import Estimates  # noqa: E402

PART, SHARE, DELAY, RESUME = "burst0.3-rtt3", *(driver_page.QUANTITIES[index] for index in (0, 1, 3))
OLD, NEW = "12cce1e", "0123456789ab"


def runs(shares, delays=(0.010, 0.011, 0.012)):
    """The runs of a cell of a plain router, as raw.json keeps them: seeds differ in their silences."""
    same = {"case": "fifo-100", "cc": "cubic", "resume_p50_s": 0.001, "retransmits": 7, "counters": {}, "event_late_p99_s": 2e-5}
    delays = [{"delay_p50_outside_silence_s": delay, "delay_p99_outside_silence_s": delay} for delay in delays]
    return [
        same | delay | {"seed": seed, "limit_share": share, "silent_fraction": seed / 10}
        for seed, (share, delay) in enumerate(zip(shares, delays), start=1)
    ]


def documents(before, now, commit=NEW):
    """before.json and raw.json of these runs."""
    told = {"kernel": "6.18", "seeds": len(before)}
    records = [{"part": PART, "cc": cc, "case": case, **record} for (cc, case), record in driver_page.cells(before).items()]
    raw = {raw_parts.MEASURED: {PART: {"cubic": told | {"commit": commit}}}, PART: now}
    return {"measured": told | {"commit": OLD}, "cells": records}, raw


class Compared(unittest.TestCase):
    estimates = Estimates()

    def differences(self, before, now):
        (cell,), left = driver_page.compared(*documents(before, now), self.estimates)
        self.assertEqual(left, [])
        return cell.differences

    def test_shares_within_their_intervals_overlap(self):
        one = self.differences(runs([0.90, 0.91, 0.92]), runs([0.92, 0.90, 0.91]))[SHARE]
        self.assertFalse(one.apart or one.moved)
        # 95 % of three: 4.303 standard errors.
        self.assertAlmostEqual(one.before[1], 4.303 * 0.01 / 3**0.5, places=5)
        self.assertAlmostEqual(one.reach, 2 * one.before[1], places=6)

    def test_shares_farther_apart_than_both_halves_do_not(self):
        for now, apart in (([0.855, 0.865, 0.875], False), ([0.845, 0.855, 0.865], True)):
            # Either direction.
            for pair in ((runs([0.90, 0.91, 0.92]), runs(now)), (runs(now), runs([0.90, 0.91, 0.92]))):
                self.assertEqual(self.differences(*pair)[SHARE].apart, apart, now)

    def test_seed_by_seed_finds_what_the_seeds_own_scatter_hides(self):
        one = self.differences(runs([0.50, 0.70, 0.90]), runs([0.51, 0.71, 0.911]))[SHARE]
        self.assertTrue(one.moved)
        self.assertFalse(one.apart)

    def test_a_difference_within_one_bucket_is_none(self):
        # 10 ms lies in a bucket of 0.131 ms: 2^23 ns in 64 parts.
        for more, apart in ((0.000131, False), (0.000132, True)):
            one = self.differences(runs([0.9] * 3, [0.010] * 3), runs([0.9] * 3, [0.010 + more] * 3))[DELAY]
            self.assertEqual((one.apart, one.moved), (apart, apart), more)

    def test_a_column_without_numbers_is_left_out_and_the_others_stay(self):
        differences = self.differences(runs([0.9] * 3, [None] * 3), runs([0.9] * 3))
        self.assertNotIn(DELAY, differences)
        self.assertIn(SHARE, differences)
        self.assertIn(RESUME, differences)

    def test_what_the_same_program_measured_is_not_compared_and_must_be_the_same(self):
        shares = runs([0.90, 0.91, 0.92])
        found, left = driver_page.compared(*documents(shares, shares, commit=OLD), self.estimates)
        self.assertEqual((found, left), ([], [(PART, "cubic")]))
        with self.assertRaisesRegex(SystemExit, "is not what raw.json has"):
            driver_page.compared(*documents(shares, runs([0.90, 0.91, 0.93]), commit=OLD), self.estimates)

    def test_a_seed_with_other_silences_is_refused(self):
        before, now = runs([0.9] * 3), runs([0.9] * 3)
        found, _ = driver_page.compared(*documents(before, now), self.estimates)
        self.assertIn("A seed has the same silences", driver_page.conditions(found))
        now[0]["silent_fraction"], now[1]["silent_fraction"] = now[1]["silent_fraction"], now[0]["silent_fraction"]
        found, _ = driver_page.compared(*documents(before, now), self.estimates)
        with self.assertRaisesRegex(SystemExit, "the silences of a seed are others"):
            driver_page.conditions(found)

    def test_the_verdict_names_the_cell_that_is_apart(self):
        found, _ = driver_page.compared(*documents(runs([0.90, 0.91, 0.92]), runs([0.80, 0.81, 0.82])), self.estimates)
        self.assertIn("overlap in 0 of 1 cells (not in fifo-100 with cubic", " ".join(driver_page.verdict(found).split()))
        self.assertIn("| goodput / limit | 0.910 ± 0.025 | 0.810 ± 0.025 | -0.100 |", driver_page.exceptions(found))


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.docs = pathlib.Path(folder.name)
        for name in (driver_page.BEFORE, "raw.json", "driver.md"):
            shutil.copy(driver_page.DOCS / name, self.docs)

    def check(self):
        words = [str(SCRIPTS / "driver_page.py"), "--check", "--docs", str(self.docs)]
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stderr(io.StringIO()):
            driver_page.main()

    def test_the_page_says_what_was_measured_and_a_changed_measurement_fails_the_check(self):
        self.check()
        kept = raw_parts.read(self.docs / "raw.json")
        kept["burst0.3-rtt100"][0]["limit_share"] += 0.3
        (self.docs / "raw.json").write_text(raw_parts.text(kept))
        with self.assertRaisesRegex(SystemExit, "driver.md: not what"):
            self.check()

    def test_before_json_is_what_the_old_commit_has(self):
        text = (driver_page.DOCS / driver_page.BEFORE).read_text()
        commit = json.loads(text)["measured"]["entered_in"]
        try:
            made = driver_page.take(commit)
        except subprocess.CalledProcessError:
            self.skipTest(f"commit {commit} is not in this repository (a shallow clone, or a copy without Git)")
        self.assertEqual(made, text)


if __name__ == "__main__":
    unittest.main()
