#!/usr/bin/env python3
"""Writes docs/udp.md: datagrams and QUIC with the hold buffer, in the simulator and on the testbed.

    udp_table.py --sim            measures docs/udp.json and writes the page (a test of linkhold-sim; a few minutes): make udp-table
    udp_table.py --kernel         measures docs/udp-kernel.json and writes the page (root; ten minutes): make udp-kernel
    udp_table.py --quic           measures docs/udp-quic.json and writes the page (root; half an hour): make udp-quic
    udp_table.py --quic --known   runs nothing: takes the runs of --quic that are finished
    udp_table.py --raw            measures nothing: writes the page from the files
    udp_table.py --raw --check    writes nothing: fails if the page is not what it would write
"""

import argparse
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import raw_parts
from estimates import PROGRAM, ROOT, Estimates, built_from, program_commit, simulated_runs
from marks import table, wrapped, write_whole
from testbed_table import batch

PAGE, SIM, KERNEL, QUIC = (ROOT / "docs" / name for name in ("udp.md", "udp.json", "udp-kernel.json", "udp-quic.json"))
ESTIMATES = Estimates()
estimate = ESTIMATES.text
CASES = {
    "fifo": "no mechanism, fifo of 100",
    "fq_codel": "no mechanism, `fq_codel`",
    "pass": '`dsasync`, `datagrams = "pass"`',
    "hold": '`dsasync`, `datagrams = "hold"` (default)',
    "untold": "... the rate not told (the agent's default)",
    "200ms": "... `datagram_max_age` 200 ms",
    "1s": "... 1 s (default)",
    "0s": "... no limit",
}


# The testbed's part: a world's name, as in the simulator's, and its settings over the scenario.
SCENARIO, KERNEL_SEEDS = "scenarios/udp.toml", 3
HOGS = {f"hog {times}.0, {rtt} ms": [f"wired.rtt={rtt}ms", f'flows.1.source={{ rate = "{24 * times}Mbit/s" }}'] for rtt in (20, 100) for times in (1, 2)}
MEDIA = {
    f"media, bursts of 0.3 s, {rtt} ms": [
        f"wired.rtt={rtt}ms", 'flows.1.source={ rate = "2Mbit/s" }', 'radio.primary_user={ on_mean = "300ms", off_mean = "1s", detection_delay = "0s" }',
    ]
    for rtt in (20, 100)
}


# QUIC on the testbed: a part is a round trip. The router alone comes first, twice; each other case is compared with both.
QUIC_SCENARIO, QUIC_SEEDS = "scenarios/quic.toml", 5
QUIC_PARTS = {f"rtt{rtt}": [f"wired.rtt={rtt}ms"] for rtt in (20, 100)}
QUIC_ALONE = ("fifo", "fq_codel")
QUIC_CASES = {
    "fifo": "router alone, fifo of 100",
    "fq_codel": "router alone, `fq_codel`",
    "dsasync": "`dsasync` over the fifo",
    "oracle": "`dsasync` told at once, and the rate (an oracle)",
}


def measure(command, variable):
    """What a test writes to the file that `variable` names."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "measured.json"
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, variable: str(file)})
        return json.loads(file.read_text())


def keep(path, measured):
    path.write_text(json.dumps(measured, separators=(",", ":"), sort_keys=True) + "\n")


def world_words(world):
    """A world as the page calls it: the number of a hog and the round trip stand bare in the raw data."""
    what, *bursts, rtt = world.split(", ")
    what = re.sub(r"^hog ([\d.]+)$", r"a hog of \1 times the radio's rate", what)
    bursts = ["begun 2 s after the download" if words == "2 s later" else words for words in bursts]
    return ", ".join([what, *bursts, f"wired round trip of {rtt}"])


def heading(world):
    words = world_words(world)
    return words[0].upper() + words[1:]


def simulated(rows):
    out = []
    for world in dict.fromkeys(row["world"] for row in rows):
        here = [row for row in rows if row["world"] == world]
        out += [f"### {heading(world)}", ""]
        body = []
        for case in dict.fromkeys(row["case"] for row in here):
            of = [row for row in here if row["case"] == case]

            def column(key, digits=3, scale=1.0):
                return estimate([row[key] for row in of], digits, scale)

            lost = estimate([row["lost"] / row["sent"] for row in of], 2, 100)
            body.append([
                CASES[case], column("tcp"), column("udp"), lost, column("udp_p99_s", 0, 1e3), column("tcp_p99_s", 0, 1e3),
                column("too_old", 0), column("windows_closed", 0),
            ])
        out += table(
            [
                "case", "TCP, share of limit", "UDP, share of limit", "datagrams lost, %", "UDP delay p99, ms", "TCP delay p99, ms",
                "too old, datagrams a run", "windows closed, times a run",
            ],
            body,
        )
    return out


def small(world, run, case, stack):
    """What is kept of a run."""
    mechanism = run["mechanisms"][0] if run["mechanisms"] else {}
    limit = run["link"]["goodput_limit_bps"]
    [udp] = [flow for flow in run["flows"] if flow.get("udp")]
    # A connection that never came about is no flow.
    tcp = next((flow for flow in run["flows"] if not flow.get("udp")), {"goodput_bps": 0, "delay_p99_s": None})
    counted = udp["udp"]
    return {
        "world": world, "case": case, "seed": run["seed"], "stack": stack, "tcp": tcp["goodput_bps"] / limit, "udp": udp["goodput_bps"] / limit,
        "sent": counted["sent"], "lost": counted["lost"], "reordered": counted["reordered"], "udp_p99_s": udp["delay_p99_s"],
        "tcp_p99_s": tcp["delay_p99_s"], "windows_closed": mechanism.get("windows_closed", 0), "too_old": mechanism.get("dropped", {}).get("too_old", 0),
    }


def on_the_kernel(options):
    """The cells on both stacks."""
    options = argparse.Namespace(**vars(options) | {"seeds": KERNEL_SEEDS, "sweep_seeds": KERNEL_SEEDS, "known": False})
    jobs = [(world, SCENARIO, ["cubic"], settings) for world, settings in {**HOGS, **MEDIA}.items()]
    reports = batch(options, jobs)
    rows = []
    for world, _, _, settings in jobs:
        rows += [small(world, run, run["linux"]["case"], "kernel") for run in reports[world]["runs"]]
        rows += [small(world, run, run["case"], "simulator") for run in simulated_runs(SCENARIO, KERNEL_SEEDS, settings, options.program)]
    return rows


def on_both(data):
    out = []
    for world in dict.fromkeys(row["world"] for row in data["runs"]):
        out += [f"### On the kernel: {world_words(world)}", ""]
        body = []
        for case in dict.fromkeys(row["case"] for row in data["runs"]):

            def pair(value, digits=3, scale=1.0):
                of = [[value(row) for row in data["runs"] if (row["world"], row["case"], row["stack"]) == (world, case, stack)] for stack in ("kernel", "simulator")]
                return [estimate(values, digits, scale) for values in of]

            body.append([
                CASES[case], *pair(lambda row: row["tcp"]), *pair(lambda row: row["udp"]), *pair(lambda row: row["lost"] / row["sent"], 2, 100),
                *pair(lambda row: row["udp_p99_s"], 0, 1e3),
            ])
        out += table(
            [
                "case", "TCP, share of limit: kernel", "simulator", "UDP, share of limit: kernel", "simulator", "datagrams lost, %: kernel", "simulator",
                "UDP delay p99, ms: kernel", "simulator",
            ],
            body,
        )
    return out


def kernel_part(data):
    rows = data["runs"]
    held = [row for row in rows if row["case"] == "hold" and row["stack"] == "kernel"]
    hogs = [row["tcp"] for row in held if row["world"] in HOGS]
    # Fixed before measuring, as in the simulator.
    met = min(hogs) >= 0.45
    closed, reordered = (sum(row[key] for row in held) for key in ("windows_closed", "reordered"))
    return [
        "## The kernel", "",
        *wrapped(
            f"The same download and UDP flow between the kernel's own sockets ([`{SCENARIO}`](../{SCENARIO}), `linkhold testbed`), through `linkhold agent`, with the same "
            f"scenario in the simulator beside it: Linux {data['kernel']}, {KERNEL_SEEDS} seeds, {built_from(data)}. What is told is as above. Datagrams are sent by the simulator's own "
            "schedule. When a run ends, the testbed does not learn which of the last datagrams the agent still holds and which it has dropped: all of these count as on their way."
        ),
        "",
        *wrapped(
            f"Criterion, fixed before: with `datagrams = \"hold\"` the download has at least 0.45 of the limit beside every hog. {'Met' if met else 'Missed'}: {min(hogs):.3f} is the least of "
            f"{len(hogs)} runs. In all of the kernel's runs with it {closed} windows were closed, and {reordered} datagrams came out of order."
        ),
        "",
        *on_both(data),
    ]


def small_quic(run):
    """What is kept of a run with QUIC."""
    [flow] = run["flows"]
    mechanism = run["mechanisms"][0] if run["mechanisms"] else {}
    one = {"case": run["linux"]["case"], "cc": run["linux"]["congestion"], "seed": run["seed"], "limit_share": run["totals"]["limit_share"]}
    one |= {"goodput_bps": flow["goodput_bps"], "delay_p50_s": flow["delay_p50_s"], "delay_p99_s": flow["delay_p99_s"]}
    one |= {"resume_p50_s": flow["resume_p50_s"], "silences": run["link"]["silences"]}
    one |= {"datagrams_sent": flow["udp"]["sent"], "datagrams_lost": flow["udp"]["lost"], **flow["quic"]}
    one |= {"datagram_holds": mechanism.get("datagram_holds", 0), "too_old": mechanism.get("dropped", {}).get("too_old", 0)}
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in one.items()}


def quic_on_the_testbed(options, commit):
    """Runs what is not finished; writes the parts that are whole into the file, beside those that it has."""
    seeds = options.seeds or QUIC_SEEDS
    options = argparse.Namespace(**vars(options) | {"seeds": seeds, "sweep_seeds": seeds, "out": options.out.with_name("udp-quic")})
    jobs = [(part, QUIC_SCENARIO, ["cubic"], [*settings, *options.set]) for part, settings in QUIC_PARTS.items()]
    count = len(jobs) * len(QUIC_CASES) * seeds
    print(f"udp_table: QUIC, {len(jobs)} round trips x {len(QUIC_CASES)} cases x {seeds} seeds: {count} runs; finished ones are in {options.out}", file=sys.stderr)
    reports = batch(options, jobs)
    whole = {part: report for part, report in reports.items() if len(report["runs"]) == len(QUIC_CASES) * seeds}
    for part in sorted(reports.keys() - whole.keys()):
        print(f"udp_table: {part} has {len(reports[part]['runs'])} of its runs and is left as it was", file=sys.stderr)
    if not whole:
        sys.exit("udp_table: no round trip is whole; the same command goes on")
    measured = raw_parts.measured_now(whole, lambda _: seeds, commit)
    if options.set:
        measured = {part: {cc: told | {"set": options.set} for cc, told in by.items()} for part, by in measured.items()}
    runs = {part: [small_quic(run) for run in report["runs"]] for part, report in whole.items()}
    old = json.loads(QUIC.read_text()) if QUIC.exists() else {}
    old = old if raw_parts.MEASURED in old else {raw_parts.MEASURED: {}}
    QUIC.write_text(raw_parts.text(raw_parts.beside_others(old, runs, measured, jobs)))


def against(rows, case, alone):
    """Goodput of `case` over that of `alone`: geometric mean over pairs of one seed, and its interval; None where nothing arrived."""
    by_seed = [{row["seed"]: row["goodput_bps"] for row in rows if row["case"] == name} for name in (case, alone)]
    pairs = [(ours, by_seed[1].get(seed)) for seed, ours in by_seed[0].items()]
    if not all(ours and theirs for ours, theirs in pairs):
        return None
    middle, half = ESTIMATES.of([math.log(ours / theirs) for ours, theirs in pairs])
    return None if middle is None else [math.exp(middle), *([] if half is None else [math.exp(middle - half), math.exp(middle + half)])]


def against_words(rows, case, alone):
    found = against(rows, case, alone)
    beside = QUIC_CASES[alone].split(", ")[1]
    if found is None:
        return f"over {beside}: –"
    if len(found) == 1:
        return f"over {beside}: {found[0]:.2f} (one pair)"
    word = "more" if found[1] > 1 else "less" if found[2] < 1 else "undecided"
    return f"over {beside}: {found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f}), {word}"


def quic_tables(data):
    out = []
    for part, rows in data.items():
        if part == raw_parts.MEASURED:
            continue
        out += [f"### QUIC at a wired round trip of {part.removeprefix('rtt')} ms", ""]
        body = []
        for case in dict.fromkeys(row["case"] for row in rows):
            of = [row for row in rows if row["case"] == case]

            def column(value, digits=0, scale=1.0):
                return estimate([value(row) for row in of], digits, scale)

            body.append([
                QUIC_CASES[case], column(lambda row: row["limit_share"], 3), column(lambda row: row["datagrams_lost"]),
                column(lambda row: row["declared_lost"]), column(lambda row: row["spurious"]), column(lambda row: row["congestion_events"], 1),
                column(lambda row: row["persistent_congestion"], 1), column(lambda row: row["probe_timeouts"], 1), column(lambda row: row["rtt_s"], 0, 1e3),
                column(lambda row: row["delay_p99_s"], 0, 1e3), column(lambda row: row["datagram_holds"]) if case not in QUIC_ALONE else "–",
            ])
        out += table(
            [
                "case", "goodput, share of limit", "datagrams that did not arrive", "packets declared lost", "of these spurious", "reductions of the window",
                "of these for persistent congestion", "PTOs", "smoothed round trip, ms", "delay p99, ms", "datagrams held",
            ],
            body,
        )
        words = "; ".join(f"{case} {against_words(rows, case, alone)}" for case in QUIC_CASES if case not in QUIC_ALONE for alone in QUIC_ALONE)
        out += wrapped(f"Goodput over that of the router alone, geometric mean over pairs of one seed with its 95 % interval: {words}.") + [""]
    return out


def quic_part(data):
    """QUIC on the testbed."""
    measured = data[raw_parts.MEASURED]
    cells = [(part, cc) for part, by in measured.items() for cc in by]
    changed = sorted({setting for part, cc in cells for setting in measured[part][cc].get("set", [])})
    tried = f" **Measured with {', '.join(f'`{setting}`' for setting in changed)}.**" if changed else ""
    told = {part: {cc: {key: value for key, value in told.items() if key != "set"} for cc, told in by.items()} for part, by in measured.items()}
    return [
        "## A real QUIC download", "",
        *wrapped(
            f"One download over QUIC between the hosts of the testbed ([`{QUIC_SCENARIO}`](../{QUIC_SCENARIO}), `linkhold testbed`): quinn at both ends with its CUBIC, on the real "
            "clock, across bursts of a primary user of 0.3 s in 1.3 s on average; 20 s counted. "
            + raw_parts.measured_by(told, cells, lambda part: f"round trip of {part.removeprefix('rtt')} ms") + tried
        ),
        "",
        *wrapped(
            "**What is told**: each burst 20 ms after it began, so that what is sent meanwhile collides, its end at once, and no rate; the oracle is told each burst at its first "
            "moment, and the channel's exact rate; the router alone is told nothing, and its radio notices each burst as late as `dsasync`'s."
        ),
        "",
        *wrapped(
            "*Did not arrive* is counted at the hosts' ports: datagrams from the sender of the data that the receiver's host never got. *Declared lost* is what quinn took for lost, "
            "*spurious* what it took for lost beyond what did not arrive; what was lost just before counting began may be declared after it, and is not spurious. *Reductions* are those of its congestion window, *PTOs* its probe timeouts (RFC 9002); the round trip is its "
            "smoothed estimate, mean over time. Delays are one-way, of the datagrams that arrived."
        ),
        "",
        *quic_tables(data),
    ]


# What follows writes the part that was measured with aioquic through namespaces, as long as the file has its numbers.
def quic_runs(data, longer, agent):
    return [run for run in data["runs"] if run["longer_ms"] == longer and run["agent"] == agent]


def quic_paths(data):
    return list(dict.fromkeys(run["longer_ms"] for run in data["runs"]))


def path_name(longer):
    return f"{2 * longer} ms longer" if longer else "short"


def quic(data):
    body = []
    for longer in quic_paths(data):
        for agent in (False, True):
            of = quic_runs(data, longer, agent)

            def column(value, digits=0):
                return estimate([float(value(run)) for run in of], digits)

            really = [run["server"]["sent"] - run["client"]["received"] for run in of]
            spurious = [max(0, run["server"]["lost"] - lost) for run, lost in zip(of, really)]
            body.append([
                path_name(longer), f"{of[0]['bytes'] / 1e6:.0f}", "agent" if agent else "router alone",
                column(lambda run: run["client"]["seconds"], 2), column(lambda run: run["silences"]), estimate(map(float, really), 0),
                column(lambda run: run["server"]["lost"]), estimate(map(float, spurious), 0), column(lambda run: run["server"]["ptos"], 1),
                column(lambda run: run["server"]["persistent"], 1), column(lambda run: run["holds"], 0) if agent else "–",
            ])
    return table(
        [
            "path", "download, MB", "case", "time, s", "silences", "datagrams that did not arrive", "datagrams declared lost", "of these spurious", "PTOs",
            "times of persistent congestion", "datagrams held",
        ],
        body,
    )


def quic_verdicts(data):
    """Of each path: the agent's time over the router's, in pairs of runs, and what that says."""
    said = []
    for longer in quic_paths(data):
        pairs = zip(quic_runs(data, longer, True), quic_runs(data, longer, False))
        ratios = [math.log(agent["client"]["seconds"] / alone["client"]["seconds"]) for agent, alone in pairs]
        middle, half = ESTIMATES.of(ratios)
        low, high = math.exp(middle - half), math.exp(middle + half)
        word = "less time" if high < 1 else "more time" if low > 1 else "undecided"
        said.append(f"{path_name(longer)}: {math.exp(middle):.2f} ({low:.2f} to {high:.2f}), {word}")
    return "Time with the agent over time without it, geometric mean over pairs of runs with its 95 % interval: " + "; ".join(said) + "."


def mean_of(sim, world, case, key):
    values = [row[key] for row in sim if row["world"] == world and row["case"] == case]
    return sum(values) / len(values)


def conclusions(sim):
    """What the tables show, in words; stops where they do not bear the words out."""
    worlds = list(dict.fromkeys(row["world"] for row in sim))
    hogs = [world for world in worlds if world.startswith("hog")]
    media = [world for world in worlds if world.startswith("media")]
    assert all(mean_of(sim, world, "hold", "tcp") >= 0.45 > 10 * mean_of(sim, world, "pass", "tcp") for world in hogs)
    assert all(row["windows_closed"] == 0 for row in sim if row["case"] == "hold")
    assert all(mean_of(sim, world, "hold", "lost") < mean_of(sim, world, "pass", "lost") for world in media)
    assert all(row["reordered"] == 0 for row in sim if row["case"] == "hold")
    long = [world for world in media if "2 s" in world]
    for key, more in (("lost", lambda a, b: a > b), ("udp_p99_s", lambda a, b: a < b)):
        assert all(more(mean_of(sim, world, "200ms", key), mean_of(sim, world, "1s", key)) for world in long)
        assert all(more(mean_of(sim, world, "1s", key), mean_of(sim, world, "0s", key)) for world in long)
    untold = {world: mean_of(sim, world, "untold", "tcp") for world in hogs}
    missed = [f"{world_words(world)} ({share:.3f})" for world, share in untold.items() if share < 0.45]
    assert all(row["windows_closed"] == 0 for row in sim if row["case"] == "untold")
    return [
        *wrapped(
            f"Where the rate is not told, the download has at least 0.45 of the limit beside {len(untold) - len(missed)} of {len(untold)} hogs"
            + (f", and less beside {'; '.join(missed)}" if missed else "")
            + ". Before the first acknowledgments nobody knows the rate, and what a hog's full queue loses then takes CUBIC long to get back over a long round trip. The "
            "download's delay is greater than where the rate is told, because its window is of the whole rate and the turns give it half."
        ),
        "",
        *wrapped(
            '`datagrams = "hold"` is the default because in every cell with a hog it leaves the download at least 0.45 of the limit (the criterion, fixed before) where the rate is told '
            'and closes no window, where `datagrams = "pass"` leaves the download next to nothing; because it loses fewer datagrams in every cell with media; and '
            "because it reorders no flow. Its price is delay: what a silence kept arrives late instead of never, a hog's own datagrams wait behind each other, and "
            "flows that their station never answers, as here, share one queue. A shorter `datagram_max_age` trades losses for delay, down to the last rows."
        ),
        "",
    ]


def page(simulator, kernel_data, quic_data):
    sim = simulator["runs"]
    by_aioquic = quic_data and raw_parts.MEASURED not in quic_data
    of_quic = "`make udp-quic`"
    if by_aioquic:
        of_quic = "the test `a_quic_download_crosses_silences` ([`datagrams.rs`](../crates/linkhold-linux/tests/namespaces/datagrams.rs); `make udp-quic` puts quinn's numbers in their place)"
    lines = [
        "# UDP and QUIC in the hold buffer", "",
        f"Written by `make udp-table`, as to the kernel `make udp-kernel`, and as to QUIC {of_quic}; do not edit. Intervals are 95 % (Student's t over the runs).", "",
        "`dsasync` holds a datagram that goes down in a silence and paces it beside segments, in the same queues ([`datagrams.rs`](../crates/linkhold-core/src/dsasync/datagrams.rs)).",
        "There is no window and no acknowledgment to manage: nothing can be said to the sender. A datagram that waited for longer than `datagram_max_age`",
        "(1 s) is dropped and counted as `too_old`; all of them together weigh at most `datagram_quota` (8 MB, or a quarter of what the buffer has at present if that is less), and what they take closes no window.", "",
        "## Simulator", "",
        *wrapped(
            "One CUBIC download (Linux profile) and one UDP flow at the same station, 24 Mbit/s, router's queue not visible (fifo of 100 below the mechanism unless named), "
            f"20 s counted, 5 seeds; {built_from(simulator)}. **`dsasync` is told** the channel's rate exactly, and each silence as it begins and as it ends; the rows without "
            "a mechanism are told nothing, and where *the rate is not told* only the silences are. The UDP sender heeds nothing: it is the share of the download that tells whether it is kept."
        ),
        "",
        *wrapped(
            "A **hog** is a UDP sender whose payload is 1.0 or 2.0 times the radio's rate, without silences. **Media** are 2 Mbit/s of UDP, across the bursts of a primary "
            "user. Bursts and the pauses between them are exponential with the means named (bursts of 0.3 s in 1.3 s; of 2 s in 6 s). Delays are one-way; those of datagrams "
            "count the ones that arrived. *Too old* and *windows closed* are counts of a whole run, its 5 s of warm-up included. Cells without silences have nothing random: "
            "their intervals are zero."
        ),
        "",
        *wrapped(
            "The limit is the mean of what a TCP flow alone and a UDP flow alone could carry ([`limit.rs`](../crates/linkhold-sim/src/limit.rs)). UDP alone can carry more than "
            "that mean, because a datagram's header is shorter than a segment's and no ACK takes time on the air. So a hog that takes the whole radio has a share above 1."
        ),
        "",
    ]
    lines += conclusions(sim) + simulated(sim)
    if kernel_data:
        lines += kernel_part(kernel_data)
    if quic_data and not by_aioquic:
        lines += quic_part(quic_data)
    elif quic_data:
        lines += [
            "## A real QUIC download", "",
            f"aioquic {quic_data['aioquic']} (its Reno) at both ends, through namespaces on one kernel: a radio that is silent for {quic_data['silent_s']} s of each second and keeps 100 packets",
            f"meanwhile ([`radio.rs`](../crates/linkhold-linux/tests/namespaces/radio.rs)); {len(quic_runs(quic_data, 0, True))} runs each, in turns. The round trip is below 1 ms but for the ends'",
            "own processing, or longer: then the server sends and hears each datagram half of that later ([`quic_transfer.py`](../scripts/quic_transfer.py));",
            f"{built_from(quic_data)}.",
            "**The agent is told** the rate at which it paces (100 Mbit/s; the radio itself has none) and each silence's beginning and end as they happen; the router alone is told nothing.",
            "Lost and PTOs (RFC 9002) are the server's counts, all of the connection; *did not arrive* is what the server sent less what the client got, *spurious* what was declared lost beyond that.", "",
        ]
        lines += quic(quic_data)
        lines += [
            quic_verdicts(quic_data), "",
            "The server's probe timeouts fire in a silence either way, since nothing can answer.", "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sim", action="store_true", help="measure in the simulator")
    parser.add_argument("--kernel", action="store_true", help="measure on the testbed, and in the simulator beside it (as root)")
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "udp-kernel", help="finished cells of --kernel; those of --quic are beside it, in udp-quic")
    parser.add_argument("--jobs", type=int, help="cells side by side (default: as many as the host keeps up with)")
    parser.add_argument("--quic", action="store_true", help="measure QUIC downloads on the testbed (as root)")
    parser.add_argument("--known", action="store_true", help="with --quic: run nothing, take the runs that are finished")
    parser.add_argument("--seeds", type=int, help=f"with --quic (default: {QUIC_SEEDS})")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="with --quic: a setting over the scenario, to try the script; the page says so")
    parser.add_argument("--raw", action="store_true", help="run nothing; write the page from the files")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, fail if the page differs")
    options = parser.parse_args()
    if options.raw == (options.sim or options.kernel or options.quic):
        parser.error("say what to measure, --sim, --kernel or --quic or several, or --raw for nothing")
    if options.check and not options.raw:
        parser.error("--check goes with --raw")
    if (options.known or options.seeds or options.set) and not options.quic:
        parser.error("--known, --seeds and --set go with --quic")
    test = [os.environ.get("CARGO", "cargo"), "test", "-j1", "--locked"]
    commit = None if options.raw else program_commit()
    if options.sim:
        name = ["-p", "linkhold-sim", "--test", "datagrams", "--", "--ignored", "the_numbers_of_docs_udp"]
        runs = measure(["chrt", "--idle", "0", *test, *name], "LINKHOLD_UDP_OUT")
        keep(SIM, {"commit": commit, "runs": runs})
    if options.kernel:
        keep(KERNEL, {"commit": commit, "kernel": platform.release(), "runs": on_the_kernel(options)})
    if options.quic:
        quic_on_the_testbed(options, commit)
    quic_data = json.loads(QUIC.read_text()) if QUIC.exists() else None
    kernel_data = json.loads(KERNEL.read_text()) if KERNEL.exists() else None
    text = page(json.loads(SIM.read_text()), kernel_data, quic_data)
    write_whole(PAGE, text, options.check, "scripts/udp_table.py --raw")


if __name__ == "__main__":
    main()
