"""What scripts/late_table.py says of the kernel beside the simulator, from raw data of a few cells."""

import pathlib
import statistics
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import late_table  # noqa: E402

NAME = late_table.cell("0.3", 3, 20, "told")


class Means:
    """Means without intervals, in the place of the command's."""

    def of(self, numbers):
        return statistics.fmean(numbers), None


def page(kernel, seeds=1):
    """A page whose simulator carried 0.98 in each of the kernel's cells but those of bbr, and 0.96 over a router alone."""
    simulator = {}
    for congestion, cases in kernel.items():
        if congestion != "bbr":
            one = {case: [{"share": 0.98 if case.startswith("dsasync") else 0.96, "outside": 0.01}] for case in cases}
            simulator[congestion] = {NAME: one}
    cells = {
        congestion: {NAME: {case: [{"share": share, "outside": 0.01}] * seeds for case, share in cases.items()}}
        for congestion, cases in kernel.items()
    }
    found = late_table.Page({
        "simulator": {"seeds": 10, "commit": "0123456", "cells": simulator},
        "kernel": {"seeds": seeds, "commit": "0123456", "cells": cells},
    })
    found.estimates = Means()
    return found


class Kernel(unittest.TestCase):
    def test_it_names_the_cases_that_both_stacks_ran(self):
        found = page({"cubic": {"dsasync-fifo": 0.98, "dsasync-drop": 0.90}, "reno": {"dsasync-fifo": 0.97}, "bbr": {"fifo": 0.9}})
        text = " ".join(found.kernel())
        self.assertIn(
            "Of 3 cells with a mechanism (`dsasync-drop` and `dsasync-fifo`; cubic and reno; the simulator has no BBR) 2 are within 5 % of the simulator.", text
        )
        self.assertNotIn("of a router alone (", text)
        self.assertIn("| 10 ms (0.3 s, 3 ms, over fifo) | not measured | – |", text)
        self.assertIn(f"- cubic, {NAME}, dsasync-drop: kernel 0.900, simulator 0.980", text)

    def test_a_router_alone_is_compared_apart_and_fq_codel_gives_the_delay_its_verdict(self):
        text = " ".join(page({"cubic": {"dsasync-fq_codel": 0.98, "fq_codel": 0.80}}).kernel())
        self.assertIn("Of 1 cell with a mechanism (`dsasync-fq_codel`; cubic) 1 is within 5 % of the simulator.", text)
        self.assertIn("Of 1 cell of a router alone (`fq_codel`; cubic) 0 are within 5 % of the simulator.", text)
        self.assertIn("| 1 of 1 | +0.0 ms (0.3 s, 3 ms, over fq_codel) |", text)
        self.assertNotIn("no verdict", text)

    def test_one_seed_is_no_mean(self):
        cells = {"cubic": {"dsasync-fifo": 0.98}}
        self.assertIn("cells at or above the aim, one seed |", page(cells).kernel_aims()[0])
        self.assertIn("cells at or above the aim, by the mean of the seeds |", page(cells, seeds=2).kernel_aims()[0])


class Merged(unittest.TestCase):
    def group(self, commit, seeds=1, **cases):
        return {"seeds": seeds, "commit": commit, "cells": {"cubic": {NAME: {case.replace("_", "-"): [{"share": share, "outside": 0.01}] * seeds for case, share in cases.items()}}}}

    def test_cases_that_are_not_measured_again_stay_with_their_program(self):
        old = self.group("0123456", dsasync_fifo=0.98, fifo=0.5)
        both = late_table.beside_earlier(old, self.group("89abcde", seeds=2, fifo=0.6, fq=0.7))
        self.assertEqual([(group["commit"], list(group["cells"]["cubic"][NAME])) for group in both], [("0123456", ["dsasync-fifo"]), ("89abcde", ["fifo", "fq"])])
        found = late_table.Page({"simulator": {"seeds": 10, "commit": "0123456", "cells": {}}, "kernel": both})
        found.estimates = Means()
        self.assertEqual([found.of("cubic", NAME, case, "share", stack="kernel")[0] for case in ("dsasync-fifo", "fifo")], [0.98, 0.6])
        self.assertEqual(
            found.kernel()[0],
            "On the kernel: 1 seed, program built from 0123456: 1 cells of `dsasync-fifo`; 2 seeds, program built from 89abcde: 2 cells of `fifo` and `fq`.",
        )

    def test_what_is_measured_whole_again_is_alone(self):
        new = self.group("89abcde", dsasync_fifo=0.97)
        self.assertEqual(late_table.beside_earlier(self.group("0123456", dsasync_fifo=0.98), new), new)
        self.assertEqual(late_table.beside_earlier(None, new), new)

    def test_seeds_are_those_there_are_and_what_is_not_whole_is_named(self):
        def run(case, seed):
            return {"totals": {"limit_share": 0.9, late_table.OUTSIDE: 0.01}, "linux": {"congestion": "cubic", "case": case}, "seed": seed}

        name = late_table.cell("0.3", 3, 5, "told")
        report = {"runs": [run("fifo", 1), run("fifo", 2), run("fq_codel", 1)]}
        other = late_table.cell("0.3", 50, 5, "told")
        reports = {name: report, other: {"runs": [run("fifo", 1), run("fq_codel", 1)]}}
        cells = {"every": lambda: [(one, 5, []) for one in (name, other, "gone, rate told")], "told_at": lambda _late: [], "batch": lambda *_: reports}
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(late_table, **cells):
            group = late_table.measured(mock.Mock(cases="fifo,fq_codel", out=pathlib.Path(folder), seeds=3), "0123456")
        self.assertEqual(group["seeds"], 2)
        less = [f"{name}, cubic, fq_codel: 1", f"{other}, cubic, fifo: 1", f"{other}, cubic, fq_codel: 1", "gone, rate told, cubic: 0"]
        said = f"On the kernel: 2 seeds, program built from 0123456; not whole (fewer seeds: {', '.join(less)})."
        self.assertEqual(late_table.measured_by([group]), said)
        new = {"seeds": 2, "commit": "89abcde", "cells": {"cubic": {name: {"fq_codel": []}}}}
        left = late_table.beside_earlier(group, new)[0]["fewer"]
        self.assertEqual(len(left), 3, "one cell was measured again")


class EndsLate(unittest.TestCase):
    def test_what_a_late_end_takes_is_airtime_and_leaves_more_than_the_aims_ask_for(self):
        # 20 ms of each pause of 1.2 s is a sixtieth; the few bursts and pauses shorter than that make it less.
        self.assertAlmostEqual(late_table.left_by_late_ends("0.3", 20), 1 - 1 / 60, delta=0.002)
        self.assertEqual(late_table.left_by_late_ends("2", 0), 1)
        for burst in late_table.BURSTS:
            for late in late_table.ENDS_LATE_MS:
                self.assertGreater(late_table.left_by_late_ends(burst, late), late_table.AIM_SHARE[late])

    def test_ends_are_told_late_in_cells_of_their_own(self):
        at_once, late = dict((name, settings) for name, _, settings in late_table.every()), list(late_table.every(ends=True))
        self.assertEqual(len(late), 36)
        for name, millis, settings in late:
            self.assertNotIn(name, at_once)
            self.assertIn(f"radio.primary_user.told.end_late={millis}ms", settings)
        self.assertFalse(any("end_late" in setting for settings in at_once.values() for setting in settings))

    def test_the_page_judges_them_by_the_same_aims_or_says_that_they_were_not_measured(self):
        one = [{"share": 0.96, "outside": 0.07, "kept_rtos": 0, "twice": 0.0}] * 2
        alone = [{**run, "outside": 0.06} for run in one]
        cases = {"fq_codel": alone} | {f"dsasync-{router}": one for router in late_table.ROUTERS}
        cells = {congestion: {name: cases for name, _, _ in late_table.every(ends=True)} for congestion in late_table.CONGESTION}
        found = late_table.Page({"simulator": {"seeds": 2, "commit": "0123456", "cells": cells}})
        found.estimates = Means()
        text = "\n".join(found.ends_late())
        self.assertIn("| dsasync, rate told | 50 ms | 0.965, 0.994 | 48, 0, 0 | 0.960 (cubic, 0.3 s, 100 ms, over drop) | 48, 0, 0 | +10.0 ms |", text)
        self.assertIn("| dsasync, rate untold | 20 ms | 0.985, 0.998 | 0, 0, 48 |", text)
        found.raw["simulator"]["cells"] = {}
        self.assertIn("have not been measured", found.ends_late()[0])


class Timeouts(unittest.TestCase):
    def test_one_run_with_a_timeout_that_is_not_undone_is_a_miss(self):
        fine = {"share": 0.98, "outside": 0.01, "kept_rtos": 0, "twice": 0.0}
        cells = {
            congestion: {name: {"fq_codel": [fine] * 3} | {f"dsasync-{router}": [fine] * 3 for router in late_table.ROUTERS} for name, _, _ in late_table.every()}
            for congestion in late_table.LOSS_BASED
        }
        found = late_table.Page({"simulator": {"seeds": 3, "commit": "0123456", "cells": cells}})

        class Wide:
            """Means with an interval that has 0 in it."""

            def of(self, numbers):
                return statistics.fmean(numbers), max(numbers) - min(numbers)

        found.estimates = Wide()
        self.assertEqual(found.verdicts("dsasync", "told", 20)["kept_rtos"][0], "48, 0, 0")
        cells["reno"][NAME]["dsasync-drop"] = [fine, {**fine, "kept_rtos": 1}, fine]
        self.assertEqual(found.verdicts("dsasync", "told", 20)["kept_rtos"][0], "47, 0, 1")


class Pairs(unittest.TestCase):
    def test_runs_are_compared_seed_by_seed_and_what_lacks_one_is_refused(self):
        def found(ours, theirs):
            cases = {"dsasync-fifo": ours, "fq_codel": theirs}
            one = late_table.Page({"simulator": {"seeds": 2, "commit": "0123456", "cells": {"cubic": {NAME: cases}}}})
            one.estimates = Means()
            return one.beyond("cubic", NAME, "dsasync-fifo")

        runs = [{"seed": 1, "outside": 0.03}, {"seed": 2, "outside": 0.01}]
        self.assertAlmostEqual(found(runs, list(reversed(runs)))[0], 0)
        self.assertAlmostEqual(found([{"outside": 0.03}, {"outside": 0.02}], [{"outside": 0.01}] * 2)[0], 0.015)
        with self.assertRaises(SystemExit):
            found(runs, [runs[0], {"seed": 3, "outside": 0.01}])
        with self.assertRaises(SystemExit):
            found(runs, [runs[0], {"seed": 2, "outside": None}])


class SentForNothing(unittest.TestCase):
    def kept(self, retransmits, copies, lost):
        totals = {"limit_share": 0.9, late_table.OUTSIDE: 0.01, "goodput_bps": 1448 * 8 * 10.0, "kept_rtos": 0, "retransmits": retransmits}
        run = {"seed": 1, "totals": totals, "flows": [{"active_s": 10}], "mechanisms": [{"copies_sent": copies}], "link": {"air_losses": lost}}
        one = late_table.small(run)
        return one["twice"], one["twice_less_lost"]

    def test_what_is_left_below_zero_is_kept_beside_it(self):
        self.assertEqual(self.kept(retransmits=3, copies=7, lost=5), (0.05, 0.05))
        self.assertEqual(self.kept(retransmits=3, copies=1, lost=5), (0, -0.01))


if __name__ == "__main__":
    unittest.main()
