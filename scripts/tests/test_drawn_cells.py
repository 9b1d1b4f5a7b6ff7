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
            text, group_of, short = drawn_cells.cell(1, number)
            self.assertEqual((text, group_of, short), drawn_cells.cell(1, number))
            self.assertEqual(bool(short), "stagger" in text)
            checked = subprocess.run([PROGRAM, "scenario", "check", "-"], input=text, capture_output=True, text=True, check=False)
            self.assertEqual(checked.returncode, 0, f"{text}\n{checked.stderr}")
            self.assertGreaterEqual(len(group_of), text.count("[[flows]]"))

    def test_each_flow_is_counted_in_its_group_and_short_ones_until_they_are_complete(self):
        cells = (drawn_cells.cell(1, number) for number in range(100))
        text, group_of, short = next(cell for cell in cells if len(set(cell[1])) == 2 and len(cell[2]) == 1)
        found = drawn_cells.simulate(PROGRAM, text, group_of, short, 1, 1)
        self.assertEqual(set(found), {"plain", "dsasync"}, found)
        carried, took = found["plain"]
        self.assertEqual(set(carried), {"0", "1", "cell"})
        self.assertAlmostEqual(sum(carried[name] for name in "01"), carried["cell"])
        self.assertEqual(set(took), short)
        self.assertTrue(all(0 < time <= drawn_cells.SECONDS for time in took.values()), took)

    def test_a_group_is_behind_with_fewer_bytes_unless_they_are_next_to_nothing_and_if_it_takes_much_longer(self):
        plain = ({"0": 1e6, "1": 2e6, "2": 1e4, "cell": 3.01e6}, {"1": 3.0, "2": 0.3})
        ours = ({"0": 0.89e6, "1": 1.9e6, "2": 0.0, "cell": 2.79e6}, {"1": 6.1, "2": 1.2})
        said, whole = drawn_cells.behind({"plain": plain, "dsasync": ours}, 0.9)
        self.assertEqual(said, ["group 0 0.89 of plain", "group 1 takes 6.1 s for 3.0"])
        self.assertAlmostEqual(whole, 2.79 / 3.01)


if __name__ == "__main__":
    unittest.main()
