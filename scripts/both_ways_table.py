#!/usr/bin/env python3
"""Writes docs/both-ways.md: downloads and uploads of the same stations, on the testbed and in the simulator.

    both_ways_table.py                measures docs/both-ways.json and writes the page (root; a quarter of an hour): make both-ways
    both_ways_table.py --known        runs nothing on the testbed: takes the runs that are finished
    both_ways_table.py --raw          measures nothing: writes the page from the file
    both_ways_table.py --raw --check  writes nothing: fails if the page is not what it would write
"""

import argparse
import json
import pathlib
import platform
import statistics

from estimates import PROGRAM, ROOT, Estimates, built_from, program_commit, simulated_runs
from marks import table, wrapped, write_whole
from testbed_table import batch

PAGE, RAW = ROOT / "docs" / "both-ways.md", ROOT / "docs" / "both-ways.json"
SCENARIO, SEEDS = "scenarios/both-ways.toml", 3
TEST = "crates/linkhold-sim/tests/both_ways.rs"
BURSTS = 'radio.primary_user={ on_mean = "300ms", off_mean = "1200ms", detection_delay = "20ms" }'
CASES = {
    "fifo": "fifo of 100, no mechanism",
    "fq_codel": "`fq_codel`, no mechanism",
    "mac80211": "mac80211's `fq_codel`, no mechanism",
    "dsasync": "`dsasync` over the fifo, told nothing",
    "told": "... told the rate",
}
# As crates/linkhold-sim/tests/both_ways.rs has them: what a direction should have was fixed before measuring, as was that uploads wait no
# longer; the test asks less since. Of half of what both directions have over the fifo, and of all.
FIXED_BEFORE, LEAST, LEAST_OF_ALL = 0.9, 0.8, 0.95
ESTIMATES = Estimates()


def part(stations, each, mbit, *more):
    """Settings of a part: so many stations with `each` downloads and uploads, a radio of so many Mbit/s."""
    return [f"radio.stations={stations}", f"flows.0.count={each}", f"flows.1.count={each}", f"radio.phy_rate={mbit}Mbit/s", *more]


PARTS = {
    **{f"{mbit} Mbit/s, one station with one download and one upload": part(1, 1, mbit) for mbit in (5, 20)},
    **{f"{mbit} Mbit/s, one station with eight of each": part(1, 8, mbit) for mbit in (5, 20)},
    **{f"{mbit} Mbit/s, three stations with two of each": part(3, 2, mbit) for mbit in (5, 20)},
    "20 Mbit/s, three stations with two of each, bursts told 20 ms late": part(3, 2, 20, BURSTS),
}


def small(name, run, case, stack):
    """What is kept of a run: of each direction Mbit/s, and the mean of its flows' median delays, s."""
    kept = {"part": name, "case": case, "seed": run["seed"], "stack": stack}
    for way, direction in (("down", "downlink"), ("up", "uplink")):
        flows = [flow for flow in run["flows"] if flow["direction"] == direction]
        delays = [flow["delay_p50_s"] for flow in flows if flow["delay_p50_s"] is not None]
        kept[way] = sum(flow["goodput_bps"] for flow in flows) / 1e6
        kept[f"{way}_delay_s"] = statistics.fmean(delays) if delays else None
    return kept


def measure(options):
    jobs = [(name, SCENARIO, ["cubic"], settings) for name, settings in PARTS.items()]
    reports = batch(argparse.Namespace(**vars(options) | {"seeds": SEEDS, "sweep_seeds": SEEDS}), jobs)
    rows = []
    for name, settings in PARTS.items():
        rows += [small(name, run, run["linux"]["case"], "kernel") for run in reports.get(name, {"runs": []})["runs"]]
        rows += [small(name, run, run["case"], "simulator") for run in simulated_runs(SCENARIO, SEEDS, settings, options.program)]
    return rows


def estimate(values, digits):
    """As text; what does not vary, as where nothing is random, has no interval."""
    return ESTIMATES.text(values if len(set(values)) > 1 else values[:1], digits)


def cells(rows, name, case, stack):
    return [row for row in rows if (row["part"], row["case"], row["stack"]) == (name, case, stack)]


def mean(rows, key):
    return statistics.fmean(row[key] for row in rows)


def wait(rows):
    """The mean delay of uploads, ms, and None where a run does not know it."""
    return None if any(row["up_delay_s"] is None for row in rows) else 1e3 * mean(rows, "up_delay_s")


def shares(rows, stack):
    """Of each part and case of `dsasync`: the part, the case, the lesser direction's share of half of what both have over the fifo, the
    share that both have of all of it, and how much longer uploads wait than over the fifo, ms (None: not known)."""
    found = []
    for name in PARTS:
        plain = cells(rows, name, "fifo", stack)
        for case in ("dsasync", "told"):
            ours = cells(rows, name, case, stack)
            if plain and ours:
                whole = mean(plain, "down") + mean(plain, "up")
                down, up = mean(ours, "down"), mean(ours, "up")
                waits = wait(ours), wait(plain)
                longer = None if None in waits else waits[0] - waits[1]
                found.append((name, case, 2 * min(down, up) / whole, (down + up) / whole, longer))
    return found


def met_in(found, faults):
    """In how many of these cells a criterion is met, and which miss it and by what. `faults` has what a cell misses, in words."""
    missed = [f"{name} ({CASES[case].removeprefix('... ')}: {' and '.join(why)})" for name, case, *told in found if (why := faults(*told))]
    return f"is met in {len(found) - len(missed)} of {len(found)} cells" + (f", and missed in: {'; '.join(missed)}" if missed else "")


def verdict(rows, stack):
    found = shares(rows, stack)

    def fixed_before(least, _, longer):
        return [f"{least:.2f}"] * (least < FIXED_BEFORE) + [f"uploads wait {longer or 0:.0f} ms longer"] * (longer is not None and longer > 0)

    def asked_since(least, whole, _):
        return [f"{least:.2f} and {whole:.2f} of all"] * (least < LEAST or whole < LEAST_OF_ALL)

    unknown = sum(longer is None for *_, longer in found)
    judged = f" (how long uploads wait is not known, and not judged, in {unknown} of them)" if unknown else ""
    where = "On the kernel" if stack == "kernel" else "In the simulator"
    return f"{where} what was fixed before {met_in(found, fixed_before)}{judged}. What the test asks {met_in(found, asked_since)}."


def seeds_words(rows):
    """How many seeds the cells have, and which have fewer than others: a measurement that was stopped leaves such."""
    counts = {(name, case, stack): len(cells(rows, name, case, stack)) for stack in ("kernel", "simulator") for name in PARTS for case in CASES}
    seeds = max(counts.values())
    fewer = [f"{name}, {CASES[case]} ({stack}): {count}" for (name, case, stack), count in counts.items() if count < seeds]
    return f"{seeds} seeds" + (f" (not whole: {'; '.join(fewer)})" if fewer else "")


def part_table(rows, name):
    head = ["case", "downloads, Mbit/s: kernel", "simulator", "uploads, Mbit/s: kernel", "simulator", "downloads' delay, ms: kernel", "simulator", "uploads' delay, ms: kernel", "simulator"]
    body = []
    for case, words in CASES.items():
        row = [words]
        for key, digits, scale in (("down", 2, 1), ("up", 2, 1), ("down_delay_s", 0, 1e3), ("up_delay_s", 0, 1e3)):
            for stack in ("kernel", "simulator"):
                row.append(estimate([one[key] * scale for one in cells(rows, name, case, stack) if one[key] is not None], digits))
        body.append(row)
    return table(head, body)


def page(data):
    rows = data["runs"]
    lines = [
        "# Downloads beside uploads", "",
        *wrapped(
            "Written by `make both-ways` ([`scripts/both_ways_table.py`](../scripts/both_ways_table.py)); do not edit. Intervals are 95 % (Student's t over the runs). Most of "
            "the simulator's parts without bursts have nothing random in them, and their numbers no interval."
        ),
        "",
        *wrapped(
            "On a radio that both directions share, a base station has one turn on the air for each turn of each of its stations. The ACKs of uploads take its turns, and those of downloads wait at the "
            "stations behind the uploads' data. With several stations a plain router leaves downloads next to nothing, whatever its queue. `dsasync` tells each station how much it may send "
            "([`uplink_windows.rs`](../crates/linkhold-core/src/dsasync/uplink_windows.rs)) and keeps as many bytes of downlink on the way to that station "
            "([`both_ways.rs`](../crates/linkhold-core/src/dsasync/round_trip/both_ways.rs)), so that both directions carry about the same, and wait less than over the fifo. "
            "Downloads of one station wait longer than over `fq_codel`."
        ),
        "",
        *wrapped(
            f"CUBIC, 20 ms of wired round trip, 25 s of which the last 20 count, {seeds_words(rows)}; the router's queue is not visible to the agent, and each station's own queue is a fifo, too "
            f"([`{SCENARIO}`](../{SCENARIO})). The kernel's own TCP on Linux {data['kernel']}, {built_from(data)}. **Told**: the plain routers nothing; `dsasync` nothing but, in the last part, "
            "each burst 20 ms after it began and its end at once; and where the page says so the channel's exact rate. Delays are the means of the flows' medians, one way, the wired half of 10 ms included."
        ),
        "",
        *wrapped(
            f"Fixed before measuring, in [`both_ways.rs`](../{TEST}): each direction has at least {FIXED_BEFORE} of half of what both together have over the fifo, and uploads "
            f"wait no longer than there. Since it was measured, that test asks {LEAST}, and of both together {LEAST_OF_ALL} of all that they have over the fifo. (Where a "
            "direction has less than half over the fifo, the test takes that; here it is half in all cells.) By the means of the seeds:"
        ),
        "",
        *wrapped(f"- {verdict(rows, 'kernel')}"),
        *wrapped(f"- {verdict(rows, 'simulator')}"),
        "",
        *wrapped(
            "Over a queue that serves flows in turn (`fq_codel`, mac80211's) below, ACKs pass before data, and `dsasync` leaves downloads of several stations little more than the router does. "
            f"Not measured here are links whose directions share nothing ({TEST}) and stations without timestamps (there as well)."
        ),
        "",
    ]
    for name in PARTS:
        lines += [f"## {name}", "", *part_table(rows, name)]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "both-ways", help="finished cells")
    parser.add_argument("--jobs", type=int, help="cells side by side (default: as many as the host keeps up with)")
    parser.add_argument("--known", action="store_true", help="run nothing on the testbed: take the runs that are finished")
    parser.add_argument("--raw", action="store_true", help="run nothing; write the page from the file")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, fail if the page differs")
    options = parser.parse_args()
    if options.check and not options.raw:
        parser.error("--check goes with --raw")
    if not options.raw:
        commit = program_commit(options.program)
        data = {"commit": commit, "kernel": platform.release(), "runs": measure(options)}
        RAW.write_text(json.dumps(data, separators=(",", ":"), sort_keys=True) + "\n")
    text = page(json.loads(RAW.read_text()))
    write_whole(PAGE, text, options.check, "scripts/both_ways_table.py --raw")


if __name__ == "__main__":
    main()
