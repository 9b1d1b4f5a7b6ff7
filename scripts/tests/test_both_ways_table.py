"""docs/both-ways.md judges what was measured (scripts/both_ways_table.py)."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import both_ways_table as table  # noqa: E402

PROGRAM = os.environ.get("LINKHOLD", str(ROOT / "target" / "debug" / "linkhold"))


def rows(dsasync, told=(5.0, 5.0)):
    """Two seeds of every part: downloads and uploads of a fifo, of `dsasync`, and of it told the rate, Mbit/s."""
    of_case = {"fifo": (0.5, 9.5), "fq_codel": (1.0, 9.0), "mac80211": (1.0, 9.0), "dsasync": dsasync, "told": told}
    return [
        {"part": name, "case": case, "seed": seed, "stack": stack, "down": down, "up": up, "down_delay_s": 0.02, "up_delay_s": None}
        for name in table.PARTS
        for case, (down, up) in of_case.items()
        for seed in (1, 2)
        for stack in ("kernel", "simulator")
    ]


class BothWays(unittest.TestCase):
    def test_each_part_is_a_scenario_and_has_every_case(self):
        for settings in table.PARTS.values():
            command = [PROGRAM, "scenario", "check", str(ROOT / table.SCENARIO)]
            for setting in settings:
                command += ["--set", setting]
            checked = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr)
            for case in table.CASES:
                self.assertRegex(checked.stdout, rf"case +{case}:")

    def test_the_lesser_direction_is_judged_by_half_of_what_the_fifo_carries(self):
        for dsasync, told, met in (((5, 5), (5, 5), 14), ((6.0, 4.0), (5, 5), 14), ((6.1, 3.9), (5, 5), 7), ((3.9, 6.1), (3.9, 6.1), 0), ((4.6, 4.6), (5, 5), 7)):
            words = table.verdict(rows(dsasync, told), "kernel")
            self.assertIn(f"it is met in {met} of 14 cells", words)
            self.assertEqual("missed in" in words, met < 14)

    def test_a_part_that_was_not_measured_is_no_cell(self):
        measured = [row for row in rows((5, 5)) if row["part"] != next(iter(table.PARTS)) or row["stack"] != "kernel"]
        self.assertIn("it is met in 12 of 12 cells", table.verdict(measured, "kernel"))

    def test_what_is_missing_has_a_dash_and_what_does_not_vary_no_interval(self):
        lines = table.part_table(rows((5, 4.5)), next(iter(table.PARTS)))
        self.assertIn("| 5.00 | 5.00 | 4.50 | 4.50 | 20 | 20 | – | – |", next(line for line in lines if "told nothing" in line))


if __name__ == "__main__":
    unittest.main()
