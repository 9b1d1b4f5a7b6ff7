"""scripts/host_table.py: what counts as a collapse and as a reduction, whatever a window's last segment. `make pages`
runs this; LINKHOLD names the program, which only computes means and intervals here."""

import pathlib
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import host_table  # noqa: E402


def runs(*windows):
    """One run whose silences have these windows before, at the end and after, and are otherwise as good as can be."""
    stories = [dict(zip(host_table.KEPT, (*window, 0.052, 0.001, 0))) for window in windows]
    return [{"seed": 1, "totals": {"limit_share": 0.99}, "linux": {"counters": {}, "silences": stories}}]


def verdict(*windows):
    columns, reductions = host_table.row("struct-ops", runs(*windows), 50)
    return columns[-1], reductions


class Collapse(unittest.TestCase):
    def test_a_halving_is_judged_alike_for_odd_and_even_windows(self):
        for before in (140, 173, 7, 8):
            self.assertEqual(verdict((before, before, before // 2)), ("not cwnd", 1), before)
            self.assertEqual(verdict((before, before, before // 2 + 2))[0], "yes", before)

    def test_a_window_below_half_at_the_end_or_after_is_a_collapse(self):
        for window in ((140, 140, 68), (173, 85, 173), (140, 1, 140), (173, 173, 85)):
            self.assertEqual(verdict(window)[0], "not cwnd", window)

    def test_one_silence_of_many_is_enough(self):
        self.assertEqual(verdict(*[(100, 100, 100)] * 9, (100, 100, 30)), ("not cwnd", 1))

    def test_cells_that_only_an_exact_half_decides_are_counted(self):
        self.assertTrue(host_table.by_rounding([(140, 70), (140, 140)]))
        self.assertFalse(host_table.by_rounding([(140, 72)]), "no collapse")
        self.assertFalse(host_table.by_rounding([(140, 70), (140, 1)]), "a collapse by any bound")


class Reduction(unittest.TestCase):
    def test_cubics_and_renos_reductions_count_and_a_smaller_step_does_not(self):
        self.assertEqual(verdict((200, 200, 140), (200, 200, 100), (200, 200, 150), (200, 200, 210))[1], 2)

    def test_each_row_says_of_how_many(self):
        columns, _ = host_table.row("plain", runs((200, 200, 140), (200, 200, 200), (200, 200, None)), 50)
        self.assertIn("1 of 2", columns)

    def test_the_burst_fits_up_to_the_queue_and_half_the_wire(self):
        # 50 ms at 17.5 Mbit/s are 73 segments of 1500 bytes.
        self.assertTrue(host_table.burst_fits(136, 50))
        self.assertFalse(host_table.burst_fits(137, 50))


class Woken(unittest.TestCase):
    def test_the_senders_wait_stands_before_the_receivers(self):
        columns, _ = host_table.row("plain", runs((200, 200, 200)), 50)
        self.assertEqual(columns[columns.index("0 of 1") :][1:3], ["1 (1)", "52 (52)"])


class Reno(unittest.TestCase):
    def why(self, once, late):
        """The paragraph, where Reno over 100 ms has these shares and windows after a silence, told at once and told late."""

        def report(share, after):
            stories = [dict(zip(host_table.KEPT, (160, 160, after, 0.101, 0.001, 0)))] * 4
            linux = {"case": "struct-ops", "congestion": "reno", "counters": {}, "silences": stories}
            return {"runs": [{"seed": 1, "totals": {"limit_share": share}, "linux": linux}]}

        cells = {"once": once, "late": late}
        return " ".join(host_table.why_reno({host_table.part_name("station", told, 2, 100): report(*cell) for told, cell in cells.items()}))

    def test_it_stands_only_where_cells_miss_their_share_and_counts_them(self):
        self.assertEqual(self.why((0.98, 160), (0.99, 160)), "")
        said = self.why((0.93, 101), (0.98, 160))
        self.assertIn("told at once in 1 of 1 cells and told 20 ms late in 0 of 1 cells.", said)
        self.assertIn("4 of 4 silences end with a reduction, where it has its share 0 of 4.", said)

    def test_a_cell_whose_window_collapses_is_none_of_them(self):
        self.assertEqual(self.why((0.93, 79), (0.98, 160)), "")
        self.assertNotIn("told at once", self.why((0.93, 79), (0.93, 101)))


class NoNewData(unittest.TestCase):
    def verdict(self, *firsts):
        stories = [dict(zip(host_table.KEPT, (200, 200, 200, first, 0.001, 0))) for first in firsts]
        columns, _ = host_table.row("plain", [{"seed": 1, "totals": {"limit_share": 0.99}, "linux": {"counters": {}, "silences": stories}}], 50)
        return columns[-3], columns[-1]

    def test_a_silence_after_which_none_came_is_a_fault_and_the_greatest(self):
        self.assertEqual(self.verdict(0.052, 0.052, 0.052), ("52 (52)", "yes"))
        self.assertEqual(self.verdict(0.052, 0.052, None), ("52 (never)", "not new data"))

    def test_the_median_takes_it_for_infinitely_late(self):
        self.assertEqual(self.verdict(0.052, None, None), ("never (never)", "not new data"))
        self.assertEqual(self.verdict(0.04, 0.044, 0.048, None), ("46 (never)", "not new data"))
        self.assertEqual(self.verdict(None), ("never (never)", "not new data"))


if __name__ == "__main__":
    unittest.main()
