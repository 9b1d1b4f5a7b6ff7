#!/usr/bin/env python3
"""Fills the numbers of README.md and docs/testbed/README.md with those that were measured, which are in docs/testbed.

What stands between <!-- measured NAME --> and <!-- /measured --> is written anew; everything else is left. With --check it
writes nothing and fails if a page says something else than the measurement. Means and intervals are the command's own
(`linkhold estimate`; LINKHOLD names the program).
"""

import argparse
import json
import math
import pathlib
import re
import sys

import both_ways_table
import raw_parts
import testbed_numbers
from estimates import ROOT, at_most, built_from, simulated_runs
from marks import fill, listed, paragraph
from measured import Measured

README = ROOT / "README.md"
DOCS = ROOT / "docs" / "testbed"
# Parts of raw.json, and the case of each row of the table in the README with its words.
FAR, NEAR, LATE_UNTOLD, LATE = "burst0.3-rtt100", "burst0.3-rtt3", "late-untold-rtt100", "late-rtt100"
LATE_NO_COPIES = "late-no-copies-rtt100"
# The aim for linkhold's 99th percentile of delay: no more than this beyond fq_codel's, ms.
AIM_MS = 25
# A cell of simulator.md that is off by more counts as far.
FAR_OFF = 0.2
# What the base station is told, from least to most.
COLUMNS = {
    LATE_UNTOLD: "each burst {late_ms} late, rate untold",
    LATE: "each burst {late_ms} late, rate told",
    FAR: "everything told at once",
}
ROWS = {
    "drop": "drops what arrives in a silence",
    "fifo-100": "fifo of 100 packets",
    "fifo-5000": "fifo of 5,000 packets",
    "fq_codel": "fq_codel",
    "dsasync": "**fq_codel and linkhold**",
}


def table(measured, late_ms):
    columns = [words.format(late_ms=late_ms) for words in COLUMNS.values()]
    lines = [f"| the base station | {' | '.join(columns)} |", "|---" * (1 + len(COLUMNS)) + "|"]
    for case, words in ROWS.items():
        cells = []
        for part in COLUMNS:
            goodput, half = measured.mean_and_half(part, case, "limit_share")
            delay = measured.mean(part, case, "delay_p99_outside_silence_s")
            cells.append(f"{goodput:.3f} ± {half:.3f}, {delay * 1e3:.0f} ms")
        if case == "dsasync":
            cells = [f"**{cell}**" for cell in cells]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n"


def aim(measured):
    """Whether the 99th percentile is at most what the aim allows beyond fq_codel's, by the 95 % interval of the excess. Both rows of a
    column have the same silences in the same seed, so that they are compared seed by seed."""
    names, excess = ("first", "second", "last"), []
    where = dict.fromkeys(("met", "undecided", "missed"))
    for name, part in zip(names, COLUMNS, strict=True):
        beyond = [1e3 * one for one in measured.beyond_by_seed(part, "dsasync", "fq_codel", "delay_p99_outside_silence_s")]
        mean, half = measured.estimate(beyond)
        found = at_most(mean, half, AIM_MS)
        where[found] = [*(where[found] or []), name]
        excess.append(f"{mean:.1f}" if half is None else f"{mean:.1f} ± {half:.1f}")
    columns = {found: "every column" if len(some) == len(names) else f"the {listed(some)} column" for found, some in where.items() if some}
    words = listed([f"is {found} in {which}" for found, which in columns.items()])
    return f"at most {AIM_MS} ms beyond fq_codel's, {words}: seed by seed the excess is {listed(excess)} ms (± half a 95 % interval)"


def near(measured):
    """The least share of the limit at 3 ms, rounded down."""
    least = min(measured.mean(NEAR, case, "limit_share") for case in ROWS)
    return f"{math.floor(least * 100) / 100:.2f}"


def silent(measured):
    shares = [measured.mean(FAR, case, "silent_fraction") for case in ROWS]
    return f"{sum(shares) / len(shares):.0%}".replace("%", " %")


def demo_silent():
    """How much of the demo's time is silent, over the seeds of `make demo`."""
    seeds = re.search(r"run scenarios/demo.toml --seeds (\d+)", (ROOT / "Makefile").read_text())[1]
    shares = [run["link"]["silent_fraction"] for run in simulated_runs("scenarios/demo.toml", int(seeds))]
    return f"{sum(shares) / len(shares):.0%}".replace("%", " %")


def program(docs):
    """What measured the cells that this page has from the kernel, all of them CUBIC's, in a sentence."""
    measured = raw_parts.read(docs / "raw.json")[raw_parts.MEASURED]
    names = dict.fromkeys(COLUMNS, "the table") | {LATE_NO_COPIES: "the runs without copies", NEAR: "those at 3 ms"}
    groups = {}
    for part, name in names.items():
        told = measured[part]["cubic"]
        release = told["kernel"].partition("-")[0]
        groups.setdefault(f"{told['seeds']} seeds on Linux {release}, {built_from(told)}", {})[name] = None
    sentences = (f"{listed(list(found))} {'was' if found == {'the table': None} else 'were'} measured with {words}." for words, found in groups.items())
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)


def late_ms(docs):
    """How late bursts are told where they are told late."""
    return f"{json.loads((docs / 'told.json').read_text())['late_ms']} ms"


def no_copies(measured):
    """The least and the greatest share of the limit without copies: an interval over so few runs would say nothing."""
    shares = [run["limit_share"] for run in measured.runs(LATE_NO_COPIES, "dsasync")]
    return f"{min(shares):.2f} to {max(shares):.2f} of the limit in {len(shares)} runs"


def model_error(docs, cells):
    """The median error of the simulator against the kernel, from the page that the measurement wrote."""
    found = re.search(rf"^\| {cells} \| \d+ \| ([\d.]+)% \|", (docs / "simulator.md").read_text(), re.MULTILINE)
    if not found:
        sys.exit(f"simulator.md has no row `{cells}`")
    return f"{found.group(1)} %"


def model_far(docs):
    """How many cells of simulator.md are farther off than FAR_OFF, and which kinds they are."""
    cells, kinds = 0, {"over a router that drops what arrives in a silence": 0, "of plain routers and `hold` where bursts are told late": 0}
    for line in (docs / "simulator.md").read_text().splitlines():
        columns = [column.strip() for column in line.strip("|").split("|")]
        if len(columns) != 8 or not columns[5].endswith("%"):
            continue
        part, _, case, _, _, error, _, _ = columns
        cells += 1
        if abs(float(error.rstrip("%"))) <= FAR_OFF * 100:
            continue
        dropping, late = kinds
        if case in ("drop", "dsasync-drop"):
            kinds[dropping] += 1
        elif part.startswith("late-") and case in ("fifo-100", "fifo-5000", "fq_codel", "hold"):
            kinds[late] += 1
        else:
            kinds["of other kinds"] = kinds.get("of other kinds", 0) + 1
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    return f"{sum(kinds.values())} of {cells} cells are off by more than {100 * FAR_OFF:.0f} %" + (f": {counted}" if counted else "")


def both_ways(docs):
    """What plain routers leave downloads beside uploads, and linkhold, on the kernel."""
    part = "20 Mbit/s, three stations with two of each"
    runs = json.loads((docs / "both-ways.json").read_text())["runs"]

    def mean(case, way):
        return both_ways_table.mean(both_ways_table.cells(runs, part, case, "kernel"), way)

    routers = [mean(case, "down") for case in ("fifo", "fq_codel", "mac80211")]
    whole = mean("fifo", "down") + mean("fifo", "up")
    return (
        f"a FIFO of 100 packets, fq_codel and mac80211's queue leave the downloads of three stations {min(routers):.2f} to {max(routers):.2f} Mbit/s "
        f"of {whole:.1f}, and linkhold over the FIFO, told nothing, {mean('dsasync', 'down'):.1f}, with {mean('dsasync', 'up'):.1f} for the uploads"
    )


def contents(docs):
    measured, late = Measured(docs), late_ms(docs)
    return {
        "table": table(measured, late),
        "aim": aim(measured),
        "program": paragraph(program(docs)),
        "near": near(measured),
        "both-ways": both_ways(docs.parent),
        "demo-silent": demo_silent(),
        "silent": silent(measured),
        "late-ms": late,
        "late-no-copies": no_copies(measured),
        "model-error": model_error(docs, "all"),
        "model-error-told-less": model_error(docs, "told less, any"),
        "model-far": model_far(docs),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a number is not the measured one")
    parser.add_argument("--readme", type=pathlib.Path, default=README)
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS, help="where the measurement is, and its README.md")
    options = parser.parse_args()
    pages = {
        options.readme: contents(options.docs),
        options.docs / "README.md": testbed_numbers.contents(options.docs),
    }
    others = [str(page) for page, numbers in pages.items() if not fill(page, numbers, options.check)]
    if others:
        sys.exit(f"{', '.join(others)}: not what was measured: run scripts/readme_numbers.py")


if __name__ == "__main__":
    main()
