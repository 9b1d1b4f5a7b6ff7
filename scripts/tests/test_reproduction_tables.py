"""scripts/reproduction_tables.py: claims beside what fresh seeds say of them, and the order of cr-aware's six in every
row. `make pages` runs this."""

import pathlib
import re
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import reproduction_tables as tables  # noqa: E402


def claim(text, holds, measured=1.5, criterion="holds if at least 1; in ratio"):
    return {"text": f"{text} (section 5)", "holds": holds, "measured": measured, "ci95": None, "unit": "ratio", "criterion": criterion, "paper": None}


def figure(claims, rows=(), first_seed=1, seeds=100):
    return tables.Figure({"seeds": seeds, "first_seed": first_seed, "claims": claims, "rows": list(rows)})


def row(case, stack, measured, ci95):
    return {"case": f"{case} [{stack}]", "metric": tables.AHEAD, "x": None, "unit": "ratio", "measured": measured, "ci95": ci95}


class Fresh(unittest.TestCase):
    def confirmed(self, first, again):
        return tables.confirmation("cr-aware", {"fig3": figure(first)}, {"fig3": figure(again, first_seed=101)}, {"commit": "abc"})

    def test_verdicts_stand_beside_each_other_and_the_changed_ones_are_counted(self):
        first = [claim("A", True), claim("B", None), claim("C", False)]
        title, rows = self.confirmed(first, [claim("A", False), claim("B", None), claim("C", False)])
        self.assertIn("seeds 101 to 200", title)
        self.assertIn("Of 3 claims 0 hold, 2 do not and 1 is undecided, and 1 has another verdict than on seeds 1 to 100", title)
        self.assertIn("| A | 1.50 ratio | **yes** | 1.50 ratio | no |", rows)

    def test_seeds_are_fresh_to_the_program_that_ran_them_first_and_to_no_other(self):
        first, found, since = tables.FIRST_RUN["cr-aware"]
        again = self.confirmed([claim("A", True)], [claim("A", True)])[0]
        self.assertIn(f"first run with a program built from {first}, after", again)
        self.assertIn(f": then {found}. Since then {since}. Here they were run again, program built from abc, so that they are not fresh to that. Of", again)
        alone = tables.freshness("cr-aware", {"commit": f"{first}0123"})
        self.assertIn(f"Since then {since}; the table is of before", alone)
        self.assertNotIn("again", alone)

    def test_the_pages_say_it_of_the_program_that_they_name(self):
        for paper, begins in tables.FRESH.items():
            said = re.search(r"on seeds (\d+) to \d+, (.*)\. Of \d+ claims", (tables.PAGES / paper / "README.md").read_text())
            program = re.search(r"run again, program built from (\w+)", said[2])
            self.assertEqual(int(said[1]), begins)
            self.assertEqual(said[2], tables.freshness(paper, {"commit": program[1] if program else tables.FIRST_RUN[paper][0]}))

    def test_a_page_that_is_confirmed_says_so(self):
        self.assertIn("and none has another verdict than on seeds 1 to 100", self.confirmed([claim("A", True)], [claim("A", True)])[0])

    def test_other_claims_or_criteria_confirm_nothing(self):
        for other in (claim("B", True), claim("A", True, criterion="holds if at least 2; in ratio")):
            with self.assertRaises(SystemExit):
                self.confirmed([claim("A", True)], [other])

    def test_the_seeds_must_be_the_fresh_ones(self):
        figures = {"fig3": figure([claim("A", True)])}

        def options(first_seed, seeds):
            record = {"id": "cr-aware/fig3", "seeds": seeds, "first_seed": first_seed, "claims": [claim("A", True)], "rows": []}
            report = {"program": {"commit": "abc"}, "figures": [record]}
            original, tables.report = tables.report, lambda *_: report
            self.addCleanup(setattr, tables, "report", original)
            return type("Options", (), {"fresh_json": None})

        for first_seed, seeds in ((1, 100), (101, 10)):
            with self.assertRaises(SystemExit):
                tables.confirmed(options(first_seed, seeds), "cr-aware", figures)
        self.assertIn("program built from abc", tables.confirmed(options(101, 100), "cr-aware", figures)[0])


class Order(unittest.TestCase):
    SURE, UNSURE, TURNED = (1.2, [1.1, 1.3]), (1.1, [0.9, 1.3]), (0.8, [0.7, 0.9])

    def test_a_ratio_is_judged_as_the_command_judges_a_bound_of_one(self):
        for (measured, ci95), verdict in {
            (1.2, (1.1, 1.3)): True,
            (1.0, (1.0, 1.0)): True,
            (1.1, (0.9, 1.3)): None,
            (0.8, (0.7, 0.9)): False,
            (1.2, None): True,
            (0.9, None): False,
            (None, None): False,
        }.items():
            self.assertIs(tables.is_at_least_one({"measured": measured, "ci95": ci95 and list(ci95)}), verdict, (measured, ci95))

    def written(self, of_paper, of_other, claimed=None):
        """The order's text where each case has this ratio on the paper's stack, and these by case on another."""
        rows = [row(case, "NewReno", *of_paper) for case in tables.ORDER]
        rows += [row(case, "20 % lost", *(self.UNSURE if case == "tcp-lr" else self.SURE)) for case in tables.ORDER]
        rows += [row(case, "linux", *of_other.get(case, self.SURE)) for case in tables.ORDER]
        measured, low = of_paper[0], of_paper[1][0]
        holds = True if low >= 1 else None if claimed is None else claimed
        claims = {"fig3": [], "fig4": []}
        for name, begins, _ in tables.ORDER.values():
            claims[name].append(claim(begins, holds, measured))
        return tables.order(figure([], rows), {name: figure(of) for name, of in claims.items()})

    def test_each_row_has_its_verdicts_and_the_sentence_counts_them(self):
        title, rows = self.written(self.SURE, {"phy-lr": self.TURNED, "tcp-lr+cr": self.UNSURE})
        self.assertIn("hold in 1 of 3 rows (NewReno); in 1 at least one does not (linux):", title)
        self.assertIn("| linux | 0.80 [0.70, 0.90] no | 1.20 [1.10, 1.30] **yes** |", rows)
        self.assertIn("| yes / no / undecided | 2 / 1 / 0 | 2 / 0 / 1 | 3 / 0 / 0 | 3 / 0 / 0 | 2 / 0 / 1 |", rows)

    def test_it_ends_where_the_commands_own_verdict_is_another(self):
        self.written(self.UNSURE, {})
        with self.assertRaises(SystemExit):
            self.written(self.UNSURE, {}, claimed=False)


if __name__ == "__main__":
    unittest.main()
