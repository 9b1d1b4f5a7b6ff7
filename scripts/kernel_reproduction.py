#!/usr/bin/env python3
"""Fills the section "Against the kernel" of reproductions/<paper>/README.md from what `linkhold reproduce <paper> --stack
linux --json` printed (or wrote to reproduce.json).

A page keeps its prose: only what stands between <!-- kernel --> and <!-- /kernel --> is written anew. Of several files
the first is the table of all claims; each further one is a table of its own, for figures with more seeds. Nothing is
run: the runs are in real time, need root, and take long.
"""

import argparse
import json
import pathlib
import re
import sys

from marks import between, write
from reproduction_tables import CASES, DIRECTIONS, PAGES, cell, measured_claim, number, table
from reproduction_tables import verdict as judged

OPENING, CLOSING = "<!-- kernel -->", "<!-- /kernel -->"
RAN = ("kernel", "simulator")
# Figure, metric, title: the tables of points under the claims.
POINTS = (
    ("fig4", "goodput", "Goodput of figure 4, Mbit/s"),
    ("fig4", "retransmission rate", "Retransmission rate of figure 4, Mbit/s"),
    ("fig5", "delay deviation", "Standard deviation of one-way delay, figure 5, ms"),
    ("fig8", "goodput", "Goodput of figure 8, Mbit/s"),
    ("fig8", "retransmission rate", "Retransmission rate of figure 8, Mbit/s"),
)
SWEEP = ("fig6", "goodput share of the limit", "Share of the limit, figure 6")


class Figure:
    """One figure of the report, its rows by (case, kernel or simulator, stack, metric, x)."""

    def __init__(self, record):
        self.name = record["id"].split("/")[1]
        self.seeds = record["seeds"]
        self.claims = record["claims"]
        self.rows = {}
        for row in record["rows"]:
            case, ran, stack = re.fullmatch(r"(.*?) \((kernel|simulator)\) \[(.*)\]", row["case"]).groups()
            self.rows[case, ran, stack, row["metric"], row["x"]] = row

    def stacks(self, metric):
        return list(dict.fromkeys(stack for _, _, stack, of, _ in self.rows if of == metric))

    def positions(self, metric):
        return sorted({x for *_, of, x in self.rows if of == metric and x is not None})

    def both(self, case, stack, metric, x=None):
        return [cell(self.rows.get((case, ran, stack, metric, x))) for ran in RAN]


def verdict(claim):
    return "not measured" if claim["measured"] is None else judged(claim)


def seeds_of(figure, claim):
    simulated = claim["simulated"]["seeds"]
    return str(figure.seeds) if figure.seeds == simulated else f"{figure.seeds} / {simulated}"


def counted(number_of, noun):
    return f"{number_of} {noun}" if number_of == 1 else f"{number_of} {noun}s"


def claim_table(figures):
    rows = []
    for figure in figures:
        for claim in figure.claims:
            simulated = claim["simulated"]
            rows.append(
                [
                    f"[{figure.name}]({figure.name}/README.md)",
                    re.sub(r" \(section.*", "", claim["text"]).replace("|", "/"),
                    number(claim["paper"]),
                    measured_claim(claim),
                    measured_claim(simulated),
                    claim["unit"],
                    seeds_of(figure, claim),
                    verdict(claim),
                    verdict(simulated),
                ]
            )
    head = ["figure", "claim", "paper", "kernel", "simulator", "unit", "seeds", "holds on the kernel", "simulated"]
    return table(head, rows, ["---", "---", "---:", "---", "---", "---", "---:", "---", "---"])


def counts(figures):
    every = [claim for figure in figures for claim in figure.claims]

    def told(answers):
        words = (("**yes**", "hold"), ("no", "do not"), ("undecided", "are undecided"), ("not measured", "are not measured"))
        found = [(sum(answer == wanted for answer in answers), word) for wanted, word in words]
        return ", ".join(f"{count} {word}" for count, word in found if count)

    pairs = [(verdict(claim), verdict(claim["simulated"])) for claim in every]
    kernel, simulator = told([one for one, _ in pairs]), told([other for _, other in pairs])
    same = sum(one == other for one, other in pairs)
    return f"Of {len(every)} claims on the kernel {kernel}; in the simulator {simulator}; {same} have the same verdict."


def bar_tables(figures):
    blocks = []
    for name, metric, title in POINTS:
        for figure in figures:
            if figure.name != name:
                continue
            rows = []
            for direction in DIRECTIONS:
                of = f"{direction} {metric}"
                for stack in figure.stacks(of):
                    for case in CASES:
                        rows.append([f"{direction}, {stack}", f"`{case}`", *figure.both(case, stack, of)])
            blocks += [f"{title} ({counted(figure.seeds, 'seed')}):", table(["stack", "case", *RAN], rows, ["---", "---", "---:", "---:"])]
    return blocks


def sweep_tables(figures):
    name, metric, title = SWEEP
    blocks = []
    for figure in figures:
        if figure.name != name:
            continue
        for direction in DIRECTIONS:
            of = f"{direction} {metric}"
            for stack in figure.stacks(of):
                rows = []
                for x in figure.positions(of):
                    rows.append([number(x)] + [text for case in CASES for text in figure.both(case, stack, of, x)])
                head = ["utilisation"] + [f"`{case}`, {ran}" for case in CASES for ran in RAN]
                blocks += [f"{title}, {direction}, {stack} ({counted(figure.seeds, 'seed')}):", table(head, rows)]
    return blocks


def conditions(report):
    """What was measured, told and missed."""
    kernel, program = report["kernel"], report["program"]
    late = f"; {kernel['repeated']} runs of the last command were late and made again" if kernel["repeated"] else ""
    lines = [
        f"{kernel['runs']} runs of linkhold {program['version']} (commit {program['commit']}) against Linux "
        f"{kernel['release']}{late}; claims are judged on \"{kernel['judged_on']}\"."
    ]
    for title, key in (("Told, and different from the paper", "told"), ("Left out", "left_out"), ("Without a result", "missing")):
        if kernel[key]:
            lines += [f"{title}:", "\n".join(f"- {line}" for line in kernel[key])]
    return lines


def section(reports):
    own = [Figure(record) for record in reports[0]["figures"]]
    blocks = [counts(own), claim_table(own)]
    for report in reports[1:]:
        more = [Figure(record) for record in report["figures"]]
        blocks += ["The same with more seeds:", claim_table(more), *bar_tables(more)]
    deeper = {record["id"].split("/")[1] for report in reports[1:] for record in report["figures"]}
    blocks += bar_tables([figure for figure in own if figure.name not in deeper])
    blocks += sweep_tables(own)
    return "\n\n".join(blocks + conditions(reports[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=pathlib.Path, metavar="FILE", help="reproduce.json of a run with --stack linux")
    parser.add_argument("--pages", type=pathlib.Path, default=PAGES, help="where the papers' folders are")
    options = parser.parse_args()
    reports = [json.loads(path.read_text()) for path in options.reports]
    for path, report in zip(options.reports, reports):
        if not report.get("kernel"):
            sys.exit(f"{path}: it is of the simulator alone; run `linkhold reproduce dsasync --stack linux --json`")
    papers = {record["id"].split("/")[0] for report in reports for record in report["figures"]}
    if len(papers) != 1:
        sys.exit(f"the reports are of {', '.join(sorted(papers))}; a page is one paper's")
    page = options.pages / papers.pop() / "README.md"
    write(page, between(page, OPENING, CLOSING, section(reports)))


if __name__ == "__main__":
    main()
