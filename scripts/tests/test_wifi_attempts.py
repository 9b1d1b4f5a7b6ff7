"""When `make test-wifi` tries again, and what it excuses (scripts/wifi/attempts.sh, check.py)."""

import contextlib
import io
import pathlib
import subprocess
import sys
import unittest

WIFI = pathlib.Path(__file__).resolve().parent.parent / "wifi"
sys.path.insert(0, str(WIFI))

import check  # noqa: E402

HOLDS, FAULT, NO_END, STOOD_STILL, LATE = range(5)


def concluded(*attempts):
    """How many attempts were made, and the exit status and words, where each answers (status, seconds of its boot)."""
    script = f"""
        set -euo pipefail
        folder=FOLDER count=0 statuses=({' '.join(str(status) for status, _ in attempts)})
        boots=({' '.join(str(boot) for _, boot in attempts)})
        skip() {{ echo "skipped: $*"; exit 0; }}
        attempt() {{ boot=${{boots[count]}}; count=$((count + 1)); echo attempt; return "${{statuses[count - 1]}}"; }}
        . {WIFI}/attempts.sh
        conclude
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    words = done.stdout + done.stderr
    return words.splitlines().count("attempt"), done.returncode, words


class Attempts(unittest.TestCase):
    def test_a_run_that_holds_is_made_once(self):
        made, status, words = concluded((HOLDS, 15))
        self.assertEqual((made, status), (1, 0))
        self.assertIn("passed", words)

    def test_a_fault_fails_at_once_whatever_the_boot_took(self):
        for boot in (15, 90):
            made, status, words = concluded((FAULT, boot), (HOLDS, 15))
            self.assertEqual((made, status), (1, 1), words)

    def test_a_fault_in_the_second_attempt_is_not_excused_by_a_slow_boot(self):
        made, status, words = concluded((NO_END, 90), (FAULT, 90))
        self.assertEqual((made, status), (2, 1), words)

    def test_what_time_ran_out_for_is_tried_once_more(self):
        for first in (NO_END, STOOD_STILL, LATE):
            made, status, words = concluded((first, 15), (HOLDS, 15))
            self.assertEqual((made, status), (2, 0), words)

    def test_an_attempt_without_an_end_says_nothing_of_times(self):
        for order in ((LATE, NO_END), (NO_END, LATE)):
            before = [(status, 15) for status in order]
            self.assertEqual(concluded(*before, (HOLDS, 15))[:2], (3, 0))
            self.assertEqual(concluded(*before, (LATE, 15), (LATE, 15))[:2], (4, 1))
            self.assertEqual(concluded(*before, (LATE, 15), (HOLDS, 15))[:2], (4, 0))
            self.assertEqual(concluded(*before, (NO_END, 15))[:2], (3, 1))
            self.assertEqual(concluded(*before, (FAULT, 15))[:2], (3, 1))

    def test_times_that_do_not_hold_are_tried_three_times(self):
        for before in ((LATE, 15), (STOOD_STILL, 15)):
            self.assertEqual(concluded(before, (LATE, 15), (HOLDS, 15))[:2], (3, 0))
            self.assertEqual(concluded(before, (LATE, 15), (LATE, 15))[:2], (3, 1))

    def test_times_of_a_machine_that_stood_still_each_time_are_undecided(self):
        made, status, words = concluded(*[(STOOD_STILL, 15)] * 3)
        self.assertEqual((made, status), (3, 0))
        self.assertIn("undecided", words)

    def test_only_a_slow_boot_excuses_a_missing_end_or_wrong_times(self):
        for late, times in ((NO_END, 2), (LATE, 3)):
            self.assertEqual(concluded(*[(late, 15)] * times)[:2], (times, 1))
            for boot in (90, "never"):
                made, status, words = concluded(*[(late, boot)] * times)
                self.assertEqual((made, status), (times, 0))
                self.assertIn("skipped: the emulated machine is too slow", words)


class Statuses(unittest.TestCase):
    def status(self, findings, share):
        judged = check.Findings()
        with contextlib.redirect_stdout(io.StringIO()):
            for holds, of_time in findings:
                judged.hold("it", holds, of_time=of_time)
        return judged.status(share)

    def test_a_fault_is_told_from_a_time_whether_or_not_the_machine_stood_still(self):
        fault, late, fine = (False, False), (False, True), (True, False)
        for share in (0.0, 0.9):
            self.assertEqual(self.status([fine], share), HOLDS)
            self.assertEqual(self.status([fine, late, fault], share), FAULT)
        self.assertEqual(self.status([fine, late], 0.0), LATE)
        self.assertEqual(self.status([fine, late], 0.9), STOOD_STILL)


if __name__ == "__main__":
    unittest.main()
