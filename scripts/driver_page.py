#!/usr/bin/env python3
"""Fills docs/testbed/driver.md: the cells of table.md before and since the testbed drives the simulator's network.

Before is docs/testbed/before.json, now is raw.json; a cell is compared if another program than before's measured it
since. It measures nothing. With --check it writes nothing and fails if the page says something else. --take COMMIT makes
before.json anew from the raw.json of that commit. Means and intervals are the command's own (`linkhold estimate`;
LINKHOLD names the program).
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

import raw_parts
from estimates import ROOT, Estimates, built_from
from marks import fill, listed, paragraph, wrapped, write
from testbed_table import DOCS, GRID, part_words

BEFORE = "before.json"
SILENT, LATE = "silent_fraction", "event_late_p99_s"
PLAIN, WITH_MECHANISM = "plain routers", "with DSASync"
# Far below what any quantity is kept with.
ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A column of table.md: its name, its key in a run, and how it is shown."""

    name: str
    key: str
    scale: float = 1.0
    digits: int = 3
    # A percentile of delays is the middle of a bucket of a histogram.
    in_buckets: bool = False

    def of(self, run):
        return run["counters"].get("TCPTimeouts", 0) if self.key == "timeouts" else run[self.key]

    def shown(self, value, sign="", more=0):
        return f"{value * self.scale:{sign}.{self.digits + more}f}"

    def with_half(self, estimate, sign=""):
        mean, half = estimate
        return f"{self.shown(mean, sign)} ± {self.shown(half)}"


SHARE = Quantity("goodput / limit", "limit_share")
QUANTITIES = (
    SHARE,
    Quantity("delay p50, ms", "delay_p50_outside_silence_s", 1e3, 1, in_buckets=True),
    Quantity("delay p99, ms", "delay_p99_outside_silence_s", 1e3, 1, in_buckets=True),
    Quantity("resume, ms", "resume_p50_s", 1e3, 3, in_buckets=True),
    Quantity("retransmitted", "retransmits", digits=0),
    Quantity("timeouts", "timeouts", digits=1),
)


def buckets():
    """Buckets of the delays' histogram for each power of two, as the program has them."""
    source = (ROOT / "crates" / "linkhold-results" / "src" / "delay.rs").read_text()
    return 2 ** int(re.search(r"^const SUB_BITS: u32 = (\d+);", source, re.MULTILINE)[1])


def bucket_width(seconds):
    """Width of the bucket that holds this delay, s."""
    return 2.0 ** math.floor(math.log2(seconds * 1e9)) / buckets() / 1e9


def cells(runs):
    """What before.json keeps of the runs of a part, a record a cell."""
    found = {}
    for run in runs:
        record = found.setdefault((run["cc"], run["case"]), {"mechanism": "held_bytes_peak" in run, "seeds": []})
        record["seeds"].append(run["seed"])
        for quantity in QUANTITIES:
            record.setdefault(quantity.key, []).append(quantity.of(run))
        for key in (SILENT, LATE):
            record.setdefault(key, []).append(run[key])
    return found


def taken(commit, kept, table):
    """The text of before.json: the table's cells of `kept`, the raw.json of `commit`, of which `table` was written.
    Such an old raw.json does not say what measured it; the page does."""
    told = re.search(r"^Written by .* Linux (\S+), (\d+) seeds, program built from (\w+)\.$", table, re.MULTILINE)
    if not told:
        sys.exit(f"table.md of {commit} does not name one program that measured all of it")
    measured = {"kernel": told[1], "seeds": int(told[2]), "commit": told[3], "entered_in": commit}
    parts = [job[0] for job in GRID]
    records = [
        {"part": part, "cc": cc, "case": case, **record} for part in parts for (cc, case), record in cells(kept[part]).items()
    ]
    lines = ",\n".join(json.dumps(record) for record in records)
    return f'{{\n"measured": {json.dumps(measured)},\n"cells": [\n{lines}\n]\n}}\n'


def take(commit):
    def file(name):
        command = ["git", "-C", ROOT, "show", f"{commit}:docs/testbed/{name}"]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    return taken(commit, json.loads(file("raw.json")), file("table.md"))


@dataclasses.dataclass(frozen=True)
class Difference:
    """A quantity of a cell before and now: means with half of their 95 % intervals, and the same of the differences
    seed by seed."""

    quantity: Quantity
    before: tuple
    now: tuple
    by_seed: tuple
    bucket: float

    @property
    def mean(self):
        return self.now[0] - self.before[0]

    @property
    def reach(self):
        """The least difference at which the two intervals are apart."""
        return self.before[1] + self.now[1] + self.bucket

    @property
    def reach_by_seed(self):
        """The least difference at which the interval of the differences seed by seed leaves out zero."""
        return self.by_seed[1] + self.bucket

    @property
    def apart(self):
        return abs(self.mean) > self.reach + ROUNDING

    @property
    def moved(self):
        return abs(self.by_seed[0]) > self.reach_by_seed + ROUNDING


@dataclasses.dataclass(frozen=True)
class Cell:
    part: str
    cc: str
    case: str
    before: dict
    now: dict
    differences: dict

    @property
    def kind(self):
        return WITH_MECHANISM if self.now["mechanism"] else PLAIN

    @property
    def names(self):
        return [self.part, self.cc, self.case]


def difference(quantity, before, now, estimates):
    """The difference of a quantity in a cell; nothing if one side has too few numbers for an interval (`-` in table.md)."""
    old, new = (
        {seed: value for seed, value in zip(side["seeds"], side[quantity.key]) if value is not None} for side in (before, now)
    )
    both = [new[seed] - old[seed] for seed in old if seed in new]
    if min(len(old), len(new), len(both)) < 2:
        return None
    old_estimate, new_estimate = estimates.of(list(old.values())), estimates.of(list(new.values()))
    bucket = bucket_width(max(old_estimate[0], new_estimate[0])) if quantity.in_buckets else 0.0
    return Difference(quantity, old_estimate, new_estimate, estimates.of(both), bucket)


def compared(before, raw, estimates):
    """The cells that were measured again, and the names of those that were not. Of these raw.json still has what
    before.json has; if not, before.json is not that measurement."""
    found, left = [], []
    now = {part: cells(raw[part]) for part in dict.fromkeys(cell["part"] for cell in before["cells"])}
    for record in before["cells"]:
        part, cc, case = (record[key] for key in ("part", "cc", "case"))
        current = now[part].get((cc, case))
        if current is None:
            sys.exit(f"{BEFORE} has {part}, {cc}, {case}, which raw.json has not")
        old = {key: record[key] for key in current}
        if raw[raw_parts.MEASURED][part][cc]["commit"] == before["measured"]["commit"]:
            if old != current:
                sys.exit(f"{BEFORE}: {part}, {cc}, {case} is not what raw.json has of the same program")
            left.append((part, cc))
            continue
        differences = {quantity: difference(quantity, old, current, estimates) for quantity in QUANTITIES}
        found.append(Cell(part, cc, case, old, current, {key: one for key, one in differences.items() if one}))
    return found, left


def programs(before, raw, found, left):
    """What measured the cells, before and now, and what was not measured again."""
    then, measured = before["measured"], raw[raw_parts.MEASURED]
    again, rest = (list(dict.fromkeys(some)) for some in ([(cell.part, cell.cc) for cell in found], left))
    groups = {}
    for part, cc in again:
        groups.setdefault(tuple(measured[part][cc].items()), []).append((part, cc))

    def which(some):
        return raw_parts.which(some, again + rest, part_words)

    sentences = [f"Before: {measured_with(then)}."]
    sentences += [f"Now: {measured_with(dict(group))}: {which(some)}." for group, some in groups.items()]
    sentences.append(f"{len(found)} of the {len(found) + len(left)} cells of table.md were measured again.")
    if rest:
        sentences.append(f"Not again, so that only the old engine measured them: {which(rest)}.")
    return paragraph(" ".join(sentences))


def measured_with(told):
    return f"Linux {told['kernel']}, {told['seeds']} seeds, {built_from(told)}"


def conditions(found):
    """Whether a seed had the same silences before and now, and how late the host handled what was due."""
    between_times, between_seeds = [], []
    for cell in found:
        old, new = (dict(zip(side["seeds"], side[SILENT])) for side in (cell.before, cell.now))
        times = [abs(new[seed] - old[seed]) for seed in old if seed in new]
        shares = sorted(new.values())
        seeds = [later - earlier for earlier, later in zip(shares, shares[1:])]
        if max(times) >= min(seeds):
            sys.exit(f"{', '.join(cell.names)}: the silences of a seed are others than before, by {max(times):g} of the time")
        between_times += times
        between_seeds += seeds
    before = statistics.median(late * 1e3 for cell in found for late in cell.before[LATE])
    now = statistics.median(late * 1e3 for cell in found for late in cell.now[LATE])
    return paragraph(
        "A seed has the same silences before and now: the share of a run's time in which the radio was silent differs by at most "
        f"{max(between_times):.4f}, and between two seeds of a cell by at least {min(between_seeds):.4f}. The engine handled its events "
        f"{before:.2f} ms late before and {now:.2f} ms late now (99th percentile of a run, median of the runs). That may come from the "
        "new engine or from the machine; these measurements cannot tell."
    )


def verdict(found):
    """What the intervals of the shares say, in a sentence a kind of cells."""
    sentences = []
    for kind in (PLAIN, WITH_MECHANISM):
        shares = [(cell, cell.differences[SHARE]) for cell in found if cell.kind == kind and SHARE in cell.differences]
        apart, moved = ([cell for cell, one in shares if getattr(one, what)] for what in ("apart", "moved"))
        words = f"**Goodput, {kind}**: the intervals overlap in {len(shares) - len(apart)} of {len(shares)} cells"
        words += f" (not in {named(apart)})" if apart else ""
        words += f"; seed by seed, the difference is other than zero in {len(moved)}"
        words += f" ({named(moved)})" if moved else ""
        sentences.append(words + f"; by chance it would be in {0.05 * len(shares):.1f}.")
    return "\n" + "\n".join(line for words in sentences for line in wrapped(f"- {words}")) + "\n"


def named(some):
    return listed([f"{cell.case} with {cell.cc}, {part_words(cell.part)}" for cell in some])


def summary(found):
    lines = [
        "| cells | column | number | intervals overlap | apart | from | moved seed by seed | from |",
        "|---" * 8 + "|",
    ]
    for kind in (PLAIN, WITH_MECHANISM):
        for quantity in QUANTITIES:
            each = [cell.differences[quantity] for cell in found if cell.kind == kind and quantity in cell.differences]
            if not each:
                continue
            apart, moved = sum(one.apart for one in each), sum(one.moved for one in each)
            reaches = [median_and_greatest(quantity, [getattr(one, what) for one in each]) for what in ("reach", "reach_by_seed")]
            row = [kind, quantity.name, len(each), len(each) - apart, apart, reaches[0], moved, reaches[1]]
            lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n" + "\n".join(lines) + "\n"


def median_and_greatest(quantity, reaches):
    return f"{quantity.shown(statistics.median(reaches))} (at most {quantity.shown(max(reaches))})"


def exceptions(found):
    """The cells and columns whose intervals are apart, or that moved seed by seed."""
    lines = ["| cells | cell | cc | case | column | before | now | difference | seed by seed | apart by |", "|---" * 10 + "|"]
    for kind in (PLAIN, WITH_MECHANISM):
        for cell in (cell for cell in found if cell.kind == kind):
            for quantity, one in cell.differences.items():
                if one.apart or one.moved:
                    gap = quantity.shown(abs(one.mean) - one.reach, more=1) if one.apart else "they overlap"
                    row = [kind, *cell.names, quantity.name, quantity.with_half(one.before), quantity.with_half(one.now)]
                    row += [quantity.shown(one.mean, "+"), quantity.with_half(one.by_seed, "+"), gap]
                    lines.append("| " + " | ".join(row) + " |")
    return "\n" + "\n".join(lines) + "\n"


def every_cell(found):
    lines = [
        "| cells | cell | cc | case | goodput before | now | difference | seed by seed | p50 before, ms | now | p99 before, ms | now |",
        "|---" * 12 + "|",
    ]
    for kind in (PLAIN, WITH_MECHANISM):
        for cell in (cell for cell in found if cell.kind == kind):
            share = cell.differences[SHARE]
            row = [kind, *cell.names, SHARE.with_half(share.before), SHARE.with_half(share.now)]
            row += [SHARE.shown(share.mean, "+"), SHARE.with_half(share.by_seed, "+")]
            for quantity in QUANTITIES[1:3]:
                one = cell.differences.get(quantity)
                row += [quantity.with_half(one.before), quantity.with_half(one.now)] if one else ["-", "-"]
            lines.append("| " + " | ".join(row) + " |")
    return "\n" + "\n".join(lines) + "\n"


def contents(docs):
    before, raw = json.loads((docs / BEFORE).read_text()), raw_parts.read(docs / "raw.json")
    found, left = compared(before, raw, Estimates())
    return {
        "programs": programs(before, raw, found, left),
        "conditions": conditions(found),
        "buckets": f"1/{buckets()}",
        "verdict": verdict(found),
        "summary": summary(found),
        "exceptions": exceptions(found),
        "cells": every_cell(found),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page says something else")
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS, help="where before.json, raw.json and the page are")
    parser.add_argument("--take", metavar="COMMIT", help=f"make {BEFORE} anew from the raw.json of COMMIT")
    options = parser.parse_args()
    if options.take:
        write(options.docs / BEFORE, take(options.take))
    if not fill(options.docs / "driver.md", contents(options.docs), options.check):
        sys.exit(f"{options.docs / 'driver.md'}: not what {BEFORE} and raw.json say: run scripts/driver_page.py")


if __name__ == "__main__":
    main()
