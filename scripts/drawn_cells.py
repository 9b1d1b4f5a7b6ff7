#!/usr/bin/env python3
"""Draws cells at random and looks for those in which DSASync carries less than a plain router (`make drawn-cells`).

A cell is a scenario: a radio of 0.25 to 54 Mbit/s, 3 to 200 ms of wire, up to six stations, downloads, uploads, short flows and
streams of datagrams, a queue, silences of several kinds or none, and what the base station is told. Each is simulated with a plain
router and with `dsasync` as it is by default, for the same seeds. Of each of its groups of flows the delivered bytes are compared, and
of short flows the mean time until they were complete (until the run's end, where they were not). A cell in which `dsasync` has less than LEAST
of a group's bytes, or takes longer than SLOWER times as long and LONGER seconds more, is run again with other seeds; if that holds
again, it is listed with both numbers, and its scenario stays in out/drawn/, for `linkhold run`. The same --seed draws the same cells.

A group whose flows share the radio with others may have less because the others have more (a plain router serves who sends most), so
the whole cell's bytes stand beside it: `cell` is their ratio. The exit status is 1 if any cell is listed.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "drawn"
# All of it counts: short flows may be over before a warm-up with one router, and after it with the other.
SECONDS = 30
# A group that carries less than this over a plain router is too little to compare, bit/s.
LEAST_BPS = 20e3
# Short flows are slow if they take more than so many times as long, and more than so many seconds longer.
SLOWER, LONGER = 2, 1
QUEUES = ['queue = "fifo"\nlimit = "100pkt"', 'queue = "fifo"\nlimit = "1000pkt"', 'queue = "fq_codel"', 'queue = "mac80211"']


def log_uniform(draw, least, most):
    return least * (most / least) ** draw.random()


def flows_of(draw, rate, stations):
    """Groups of flows: the lines of each, and how many flows it has."""
    groups = []
    for _ in range(draw.choice((1, 1, 2, 2, 3))):
        station = draw.choice(('"all"', str(draw.randrange(stations))))
        share = log_uniform(draw, 0.02, 0.8) * rate / (stations if station == '"all"' else 1)
        kind, count = draw.choice(("bulk", "bulk", "bulk", "up", "paced", "short", "udp")), 1
        lines = ["[[flows]]", f'direction = "{"uplink" if kind == "up" else "downlink"}"', f"station = {station}"]
        if kind in ("bulk", "up"):
            count = draw.choice((1, 1, 2, 4, 8))
            lines.append(f"count = {count}")
        elif kind == "paced":
            lines.append(f'source = {{ rate = "{share / 1e3:.0f}kbit/s" }}')
        elif kind == "short":
            count = draw.choice((10, 20))
            size, stagger = draw.choice((10, 30, 100)), draw.choice((300, 1000))
            # The last of them starts within the run.
            stagger = min(stagger, 25_000 // (count * (stations if station == '"all"' else 1)))
            lines += [f'source = "{size}kB"', f"count = {count}", f'stagger = "{stagger}ms"']
        else:
            lines += ['transport = "udp"', f'datagram = "{draw.choice((200, 500, 1200))}B"', f'source = {{ rate = "{share / 1e3:.0f}kbit/s" }}']
        groups.append(("\n".join(lines), count * (stations if station == '"all"' else 1)))
    return groups


def silences_of(draw):
    kind = draw.choice(("none", "none", "sensing", "users", "users", "both"))
    lines = []
    if kind in ("sensing", "both"):
        period = draw.choice((200, 500, 1000))
        duration = int(period * draw.choice((0.05, 0.1)))
        announced = draw.choice(("true", "false"))
        lines.append(f'sensing = {{ period = "{period}ms", duration = "{duration}ms", announced = {announced} }}')
    if kind in ("users", "both"):
        on = draw.choice((50, 300, 1000))
        late = draw.choice((0, 5, 20, 50))
        lines.append(f'primary_user = {{ on_mean = "{on}ms", off_mean = "{on * draw.choice((2, 4))}ms", detection_delay = "{late}ms" }}')
    return lines


def cell(seed, number):
    """The text of a scenario, the group of each of its flows, and which groups are of short ones."""
    draw = random.Random(f"{seed} {number}")
    rate = log_uniform(draw, 250e3, 54e6)
    stations = draw.choice((1, 1, 2, 3, 6))
    radio = [f'phy_rate = "{rate / 1e3:.0f}kbit/s"', f"mac_efficiency = {draw.choice((0.6, 0.73, 1.0))}", f"stations = {stations}"]
    radio.append(f"rate_told = {draw.choice(('true', 'false', 'false'))}")
    radio += silences_of(draw)
    groups = flows_of(draw, rate, stations)
    parts = [
        'schema = "linkhold.scenario/1"',
        f'name = "cell-{number}"',
        f'duration = "{SECONDS}s"\nwarm_up = "0s"',
        f'[wired]\nrate = "200Mbit/s"\nrtt = "{log_uniform(draw, 3, 200):.0f}ms"',
        "[radio]\n" + "\n".join(radio),
        "[router]\n" + (queue := draw.choice(QUEUES)),
        f'[tcp]\ncongestion = "{draw.choice(("cubic", "cubic", "reno"))}"',
        *(lines for lines, _ in groups),
        '[[cases]]\nname = "plain"\n\n[[cases]]\nname = "dsasync"\nmechanism = "dsasync"',
    ]
    # The last draw, so that a seed draws the cells that it drew before; in those the mechanism saw the router's queue.
    router = parts.index("[router]\n" + queue)
    parts[router] += f"\nvisible = {draw.choice(('true', 'false', 'false'))}"
    group_of = [str(number) for number, (_, count) in enumerate(groups) for _ in range(count)]
    short = {str(number) for number, (lines, _) in enumerate(groups) if "kB" in lines}
    return "\n\n".join(parts) + "\n", group_of, short


def simulate(program, text, group_of, short, seeds, first):
    """Of each case the means over the seeds of what each group of flows carries, and all, bit/s, and of how long each short one takes,
    s; or what the program says is wrong."""
    args = [program, "run", "-", "--json", "--seeds", str(seeds), "--threads", "1", "--set", f"seed={first}"]
    ran = subprocess.run(args, input=text, capture_output=True, text=True, check=False)
    if ran.returncode:
        return ran.stderr.strip()
    found, flows_of_group = {}, collections.Counter(group_of)
    for run in json.loads(ran.stdout)["runs"]:
        carried, took = found.setdefault(run["case"], ({}, {}))
        for flow in run["flows"]:
            group = group_of[flow["id"]]
            for name in (group, "cell"):
                carried[name] = carried.get(name, 0.0) + flow["bytes"] * 8 / SECONDS / seeds
            if group in short:
                time = flow["completion_s"] if flow["completion_s"] is not None else SECONDS - flow["start_s"]
                took[group] = took.get(group, 0.0) + time / flows_of_group[group] / seeds
    return found


def behind(found, least):
    """What is said of the groups that have less than `least` of what they have over a plain router, or take much longer; and the ratio
    of all that the cell carries."""
    (plain, plain_took), (ours, took) = found["plain"], found["dsasync"]
    ratios = {name: ours.get(name, 0.0) / bps for name, bps in plain.items() if bps >= LEAST_BPS}
    said = [f"group {name} {ratio:.2f} of plain" for name, ratio in ratios.items() if name != "cell" and ratio < least]
    for name, before in plain_took.items():
        if took[name] > max(SLOWER * before, before + LONGER):
            said.append(f"group {name} takes {took[name]:.1f} s for {before:.1f}")
    return said, ratios.get("cell", 1.0)


def look(program, seed, number, least):
    text, group_of, short = cell(seed, number)
    for first in (1, 101):
        found = simulate(program, text, group_of, short, 2, first)
        if isinstance(found, str):
            return number, found, None
        said, whole = behind(found, least)
        if not said:
            return number, None, None
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / f"{seed}-{number}.toml"
    file.write_text(text)
    return number, f"{file.relative_to(ROOT)}: cell {whole:.2f}; {', '.join(said)}", whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=200, metavar="N", help="cells to draw (default: 200, some minutes)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what they are drawn from (default: 1)")
    parser.add_argument("--least", type=float, default=0.9, metavar="SHARE", help="share of a plain router's bytes (default: 0.9)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="cells at once (default: one for each processor)")
    parser.add_argument("--cell", type=int, metavar="N", help="print this cell's scenario, and run nothing")
    options = parser.parse_args()
    if options.cell is not None:
        print(cell(options.seed, options.cell)[0], end="")
        return
    program = os.environ.get("LINKHOLD", str(ROOT / "target" / "release" / "linkhold"))
    listed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        looks = [pool.submit(look, program, options.seed, number, options.least) for number in range(options.cells)]
        for done, one in enumerate(concurrent.futures.as_completed(looks), 1):
            _, words, _ = one.result()
            if words:
                listed += 1
                print(words, flush=True)
            if sys.stderr.isatty():
                print(f"{done} of {options.cells} cells", end="\r", file=sys.stderr, flush=True)
    print(f"{options.cells} cells drawn from {options.seed}: {listed} in which a group has less than {options.least} of a plain router's bytes or takes much longer")
    sys.exit(1 if listed else 0)


if __name__ == "__main__":
    main()
