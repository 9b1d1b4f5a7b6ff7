"""Cells that are drawn (scripts/drawn_cells.py) are scenarios, and what is behind in them is found."""

import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import drawn_cells  # noqa: E402

PROGRAM = os.environ.get("LINKHOLD", str(ROOT / "target" / "debug" / "linkhold"))


class DrawnCells(unittest.TestCase):
    def test_the_same_seed_draws_the_same_cells_and_each_is_a_scenario(self):
        self.assertNotEqual(drawn_cells.cell(1, 0), drawn_cells.cell(2, 0))
        for number in range(30):
            text, group_of = drawn_cells.cell(1, number)
            self.assertEqual((text, group_of), drawn_cells.cell(1, number))
            checked = subprocess.run([PROGRAM, "scenario", "check", "-"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual(checked.returncode, 0, f"{text}\n{checked.stderr}")
            self.assertGreaterEqual(len(group_of), text.count("[[flows]]"))

    def test_each_flow_is_counted_in_its_group(self):
        text, group_of = next(cell for cell in (drawn_cells.cell(1, number) for number in range(100)) if len(set(cell[1])) == 2)
        text = text.replace(f'"{drawn_cells.SECONDS}s"', '"2s"').replace(f'"{drawn_cells.WARM_UP}s"', '"1s"')
        found = drawn_cells.simulate(PROGRAM, text, group_of, 1, 1)
        self.assertEqual(set(found), {"plain", "dsasync"}, found)
        self.assertEqual(set(found["plain"]), {"0", "1", "cell"})
        self.assertAlmostEqual(sum(found["plain"][name] for name in "01"), found["plain"]["cell"])

    def test_a_group_is_behind_below_the_share_and_not_if_it_carries_next_to_nothing(self):
        plain = {"0": 1e6, "1": 2e6, "2": 1e4, "cell": 3.01e6}
        ours = {"0": 0.89e6, "1": 1.9e6, "2": 0.0, "cell": 2.79e6}
        groups, whole = drawn_cells.behind({"plain": plain, "dsasync": ours}, 0.9)
        self.assertEqual([name for name, _ in groups], ["0"])
        self.assertAlmostEqual(whole, 2.79 / 3.01)


if __name__ == "__main__":
    unittest.main()
