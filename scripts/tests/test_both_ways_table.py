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
        # Downloads and uploads of both cases; in how many cells 0.9 and 0.8 (and 0.95 of all) are met.
        for dsasync, told, fixed, asked in (
            ((5, 5), (5, 5), 14, 14), ((5.5, 4.5), (5, 5), 14, 14), ((5.6, 4.4), (5, 5), 7, 14), ((6.0, 4.0), (5, 5), 7, 14), ((6.1, 3.9), (5, 5), 7, 7),
            ((3.9, 6.1), (3.9, 6.1), 0, 0), ((4.6, 4.6), (5, 5), 14, 7),
        ):  # fmt: skip
            words = table.verdict(rows(dsasync, told), "kernel")
            self.assertIn(f"what was fixed before is met in {fixed} of 14 cells", words)
            self.assertIn(f"What the test asks is met in {asked} of 14 cells", words)
            self.assertEqual(words.count("missed in"), (fixed < 14) + (asked < 14))

    def test_what_was_fixed_before_is_what_the_simulators_test_says(self):
        test = (ROOT / table.TEST).read_text()
        self.assertIn(f"Fixed before measuring were {table.FIXED_BEFORE} for each direction, and that uploads wait no longer.", test)
        self.assertIn(f"const LEAST: f64 = {table.LEAST};", test)
        self.assertIn(f"const LEAST_OF_ALL: f64 = {table.LEAST_OF_ALL};", test)

    def test_uploads_that_wait_longer_miss_what_was_fixed_before(self):
        def waiting(seconds):
            return [row | {"up_delay_s": seconds if row["case"] == "told" else 0.02} for row in rows((5, 5))]

        words = table.verdict(waiting(0.025), "kernel")
        self.assertIn("what was fixed before is met in 7 of 14 cells, and missed in: ", words)
        self.assertIn("(told the rate: uploads wait 5 ms longer)", words)
        self.assertNotIn("not judged", words)
        self.assertIn("what was fixed before is met in 14 of 14 cells. ", table.verdict(waiting(0.02), "kernel"))

    def test_a_wait_that_is_not_known_is_said_to_be_not_judged(self):
        self.assertIn("(how long uploads wait is not known, and not judged, in 14 of them)", table.verdict(rows((5, 5)), "kernel"))

    def test_a_part_that_was_not_measured_is_no_cell(self):
        measured = [row for row in rows((5, 5)) if row["part"] != next(iter(table.PARTS)) or row["stack"] != "kernel"]
        self.assertIn("is met in 12 of 12 cells", table.verdict(measured, "kernel"))

    def test_seeds_are_those_there_are_and_cells_with_fewer_are_named(self):
        self.assertEqual(table.seeds_words(rows((5, 5))), "2 seeds")
        name = next(iter(table.PARTS))
        less = [row for row in rows((5, 5)) if (row["part"], row["case"], row["stack"], row["seed"]) != (name, "fifo", "kernel", 2)]
        self.assertEqual(table.seeds_words(less), f"2 seeds (not whole: {name}, {table.CASES['fifo']} (kernel): 1)")

    def test_what_is_missing_has_a_dash_and_what_does_not_vary_no_interval(self):
        lines = table.part_table(rows((5, 4.5)), next(iter(table.PARTS)))
        self.assertIn("| 5.00 | 5.00 | 4.50 | 4.50 | 20 | 20 | – | – |", next(line for line in lines if "told nothing" in line))


if __name__ == "__main__":
    unittest.main()
