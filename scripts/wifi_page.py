#!/usr/bin/env python3
"""Measures what the agent is worth to downloads over real Wi-Fi in an emulated machine, and fills docs/router.md with it (as root;
about three minutes a round on a machine that does nothing else).

A round is four downloads of 15 Mbit/s through six channel switches each: with the agent and without, in turns, over a short
round trip and one that is 30 ms longer. `make test-wifi` has the machine (scripts/wifi/run.sh).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from estimates import PROGRAM, ROOT, program_commit
from marks import fill

sys.path.append(str(ROOT / "scripts" / "wifi"))
from aims import AIM_REPEATED, MOST_REPEATED  # noqa: E402

PAGE = ROOT / "docs" / "router.md"
FOLDER = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "wifi"
LONGER_MS = (0, 30)


def downloads(out, rounds):
    """(Bytes, retransmissions) without the agent and with it, of each round, by how much longer the round trip is."""

    def one(name):
        end = json.loads((out / f"iperf-{name}.json").read_text())["end"]
        return end["sum_received"]["bytes"], end["sum_sent"]["retransmits"]

    return {
        longer: [tuple(one(f"{longer}-{number}-{who}") for who in ("without", "with")) for number in range(1, rounds + 1)]
        for longer in LONGER_MS
    }


def spread(values, digits=0):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def block(measured, rounds, commit):
    lines = [
        f"Program built from {commit}, {rounds} rounds: median, least and greatest of each.",
        "",
        "| round trip | | carried, MB | retransmissions |",
        "|---|---|---|---|",
    ]
    words = []
    for longer, pairs in measured.items():
        trip = f"{longer} ms longer" if longer else "short"
        for index, who in enumerate(("without the agent", "with it")):
            carried, repeated = zip(*(pair[index] for pair in pairs))
            lines.append(f"| {trip} | {who} | {spread([one / 1e6 for one in carried], 1)} | {spread(repeated)} |")
        more = sum(having[0] >= without[0] for without, having in pairs)
        fewer = sum(having[1] <= without[1] * AIM_REPEATED for without, having in pairs)
        where = f"in those {longer} ms longer" if longer else "In the rows of the short round trip"
        words.append(f"{where}: at least as many bytes in {more} of {len(pairs)} pairs, at most {AIM_REPEATED} of the retransmissions in {fewer}")
    aim = f"The aim in every pair: as many bytes as without the agent, and at most {AIM_REPEATED} of the retransmissions without it. "
    return "\n" + "\n".join(lines) + "\n\n" + aim + "; ".join(words) + ".\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--known", action="store_true", help="run nothing; take what the last run left")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    commit = program_commit(options.program)
    if not options.known:
        subprocess.run([ROOT / "scripts" / "wifi" / "run.sh", options.program, FOLDER, str(options.rounds)], check=True)
    out = FOLDER / "out"
    if not (out / "done").exists():
        sys.exit(f"{out}: the machine left no result; scripts/wifi/run.sh says why")
    measured = downloads(out, options.rounds)
    fill(PAGE, {"wifi": block(measured, options.rounds, commit)}, False, others=None)
    without, having = (sum(pair[index][1] for pairs in measured.values() for pair in pairs) for index in (0, 1))
    print(f"retransmissions in {options.rounds} rounds: {without} without the agent, {having} with it")
    if having > without * MOST_REPEATED:
        sys.exit(f"more than {MOST_REPEATED} of those without the agent")


if __name__ == "__main__":
    main()
