#!/usr/bin/env python3
"""Fills the costs in docs/router.md with what `cargo bench -p linkhold-linux --bench agent` measures here (as root, about four
minutes on a machine that does nothing else). What it printed stays in out/router-costs.log, with a first line of what measured
it; with --log it runs nothing and reads such a file, so that an old one is not taken for today's."""

import argparse
import os
import pathlib
import platform
import re
import subprocess
import sys

from estimates import ROOT, Estimates, program_commit
from marks import between, wrapped, write

PAGE = ROOT / "docs" / "router.md"
# Issue 12: what the agent may add to the delay one way beside 20 Mb/s, ms.
MOST_ADDED = 0.2
OPENING, CLOSING = "<!-- measured costs -->", "<!-- /measured -->"
LOG = ROOT / "out" / "router-costs.log"
HEAD = re.compile(r"\A# program built from (\w+), Linux (\S+), (\d+) processors\n")
LINE = re.compile(r"^(\S.*?)\s+(-?[\d.]+) (\S*)\s*\((-?[\d.]+) to (-?[\d.]+)\)$", re.MULTILINE)


def measured(text):
    """Median, least and greatest of each line, by its name."""
    return {name: tuple(map(float, numbers)) for name, *numbers in ((m[1], m[2], m[4], m[5]) for m in LINE.finditer(text))}


def head(commit):
    """The first line of a log: what measures it."""
    return f"# program built from {commit}, Linux {platform.release()}, {os.cpu_count()} processors\n"


def block(text):
    by = HEAD.match(text)
    if not by:
        sys.exit(f"the log does not begin with what measured it: put a line before it like this one, as it was then: {head('COMMIT')}")
    commit, kernel, processors = by.groups()
    found = measured(text)

    def get(name):
        if name not in found:
            sys.exit(f"the benchmark printed no line {name!r}")
        return found[name]

    def spread(name, digits, sign=""):
        median, low, high = get(name)
        return f"{median:{sign}.{digits}f} ({low:{sign}.{digits}f} to {high:{sign}.{digits}f})"

    rounds = re.search(r"At full rate, .*?, (\d+) rounds of (\S+):", text)
    rows = [
        ("goodput through 24 Mb/s, 100-packet queue", f"{get('goodput, plain router')[0]:.2f} Mb/s",
         f"{get('goodput, agent')[0]:.2f} Mb/s", f"{spread('cost in goodput, of each pair', 2)} % lost"),
        ("round trip beside 20 Mb/s", f"{get('round trip beside 20 Mb/s, plain router')[0]:.2f} ms",
         f"{get('round trip beside 20 Mb/s, agent')[0]:.2f} ms", f"one way {spread('added delay one way, of each pair', 2, '+')} ms"),
        ("goodput through 24 Mb/s without copies (`recover = false`)", f"{get('goodput, plain router')[0]:.2f} Mb/s",
         f"{get('goodput, agent without copies')[0]:.2f} Mb/s", ""),
        ("processor of the agent beside 20 Mb/s, `dsasync`", "", f"{spread('processor of the agent beside 20 Mb/s', 1)} % of one", ""),
        ("the same without copies (`recover = false`)", "", f"{spread('processor of the agent without copies', 1)} % of one", ""),
        ("highest rate, one flow with segmentation offload, `dsasync`", f"{get('plain forwarding')[0]:.1f} Gb/s",
         f"{get('agent, DSASync')[0]:.2f} Gb/s", f"{spread('share of plain, DSASync', 3)} of plain"),
        ("the same, `local-recovery`", f"{get('plain forwarding')[0]:.1f} Gb/s",
         f"{get('agent, local recovery')[0]:.2f} Gb/s", f"{spread('share of plain, local recovery', 3)} of plain"),
        ("the same, `dsasync` without copies (`recover = false`)", f"{get('plain forwarding')[0]:.1f} Gb/s",
         f"{get('agent, DSASync without copies')[0]:.1f} Gb/s", f"{spread('share of plain, DSASync without copies', 2)} of plain"),
    ]
    pairs = re.search(r"^added delay one way in pairs of (\S+), ms: (.*)$", text, re.MULTILINE)
    added = [float(value) for value in pairs[2].split()]
    mean, half = Estimates().of(added)
    half = half or 0.0
    verdict = "met" if mean + half <= MOST_ADDED else "missed" if mean - half > MOST_ADDED else "undecided"
    held = [(int(found_name.split()[3]), get(found_name)[0]) for found_name in found if found_name.startswith("passing flow while")]
    pairs_words = (
        f"In {len(added)} more pairs of {spaced(pairs[1])} each, without and with the agent first in turn, it added {mean:+.3f} ± {half:.3f} ms one way "
        f"(mean and its 95 % interval). The aim is at most {MOST_ADDED} ms: {verdict}."
    )
    if mean < 0 or get("added delay one way, of each pair")[0] < 0:
        pairs_words += " Below zero the round trip was shorter with the agent; why was not examined."
    lines = [
        *wrapped(
            f"Linux {kernel}, {processors} processors, program built from {commit}; with and without the agent in turns, median "
            f"and range of {rounds[1]} rounds of {spaced(rounds[2])}."
        ),
        "",
        "| | plain router | agent | difference |",
        "|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        *wrapped(
            "`dsasync` with copies and `local-recovery` need each packet whole: the kernel splits aggregates into packets of the wire's size, and the agent "
            f"copies each. {processor_words(get('processor of the agent beside 20 Mb/s'), get('processor of the agent without copies'))}"
        ),
        "",
        *wrapped(pairs_words),
        "",
        *wrapped(
            "How fast packets of one MTU pass to one station while packets are held for another: "
            + ", ".join(f"{rate:.1f} Gb/s with {count} held" for count, rate in held) + "."
        ),
    ]
    return "\n".join(lines)


def spaced(time):
    """A time as the benchmark prints it, with a space before the unit."""
    return re.sub(r"(?<=\d)(?=[a-zµ])", " ", time)


def processor_words(copies, none):
    """Whether the ranges of processor time, (median, least, greatest), with copies and without tell the two apart."""
    (_, low, high), (_, other_low, other_high) = copies, none
    if low <= other_high and other_low <= high:
        return "The ranges of processor time with and without copies overlap, so these rounds do not tell the two apart."
    return f"The ranges of processor time do not overlap: copies take {'more' if low > other_high else 'less'}."


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=pathlib.Path, help="what the benchmark printed")
    options = parser.parse_args()
    if options.log:
        text = options.log.read_text()
    else:
        begins = head(program_commit())
        command = ["cargo", "bench", "--locked", "-p", "linkhold-linux", "--bench", "agent"]
        text = begins + subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        LOG.parent.mkdir(exist_ok=True)
        LOG.write_text(text)
    write(PAGE, between(PAGE, OPENING, CLOSING, block(text)))


if __name__ == "__main__":
    main()
