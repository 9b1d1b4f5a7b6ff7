#!/usr/bin/env python3
"""Fills numbers of docs/ that can be had again in seconds: simulated ones, and those that tests print.

docs/mesh.md, docs/router.md, docs/jitter.md and docs/signals.md have simulations' (`linkhold run`, LINKHOLD names the program); docs/lookahead.md
and docs/sense.md have what their tests print with --nocapture (CARGO and STRUCT_OPS as the Makefile has them, so that nothing is built anew after
`make unit`). One seed gives one result, so --check, which writes nothing, fails if a page says something else. --printed FILE reads
what the tests printed before; --speed measures nothing of all that, but how fast `linkhold sense` is (`cargo bench -p
linkhold-sense`, minutes on a machine that does nothing else), and fills that alone. So do --beside, --killed and --lab, which run tests
of the kernel as root as often as told.
"""

import argparse
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

from estimates import ROOT, Estimates, program_commit, simulated_runs
from marks import fill, wrapped

DOCS = ROOT / "docs"
MESH = "scenarios/mesh.toml"
OWN = ["mesh.spectrum.working_channel=own"]
SEARCH = ["mesh.routing=search"]
MESH_SEEDS, LATE_SEEDS, JITTER_SEEDS = 20, 10, 10
JITTERS_MS, JITTER_RTTS_MS = (0, 2, 5, 10, 20), (3, 20, 50, 100)
# The project's aims for silences told up to 20 ms late.
LEAST_SHARE, MOST_BEYOND_MS = 0.97, 25
JITTER_CASES = ("fq_codel", "fifo", "dsasync", "told")
# Of the bursts, how many are told; false silences a minute, and how long each is.
WRONG_SEEDS, WRONG_MISSED, WRONG_ALARMS = 10, (0.1, 0.3, 1), (("6/min", "80ms"), ("6/min", "300ms"), ("30/min", "300ms"), ("60/min", "300ms"))
WRONG_SPREADS = (40, 100)
WRONG_CASES = ("fifo", "no-copies", "dsasync")
# Words of a row, and for each of its columns (AODV, SEARCH) the settings.
MESH_ROWS = [
    ("common channel", [[], SEARCH]),
    ("a channel each", [OWN, OWN + SEARCH]),
    ('a channel each, `rts_threshold = "0B"`', [[*OWN, "mesh.rts_threshold=0B"]]),
    ('a channel each, `retune_time = "0ms"`', [[*OWN, "mesh.spectrum.retune_time=0ms"]]),
]


def values(told, case, key):
    return [run["totals"][key] for run in told if run["case"] == case]


def mesh(estimates):
    lines = ["| | AODV | SEARCH |", "|---|---|---|"]
    for words, columns in MESH_ROWS:
        shown = []
        for settings in columns:
            mean, half = estimates.of(values(simulated_runs(MESH, MESH_SEEDS, settings), "none", "goodput_bps"))
            shown.append(f"{mean / 1e3:.0f} ± {half / 1e3:.0f} kbit/s")
        shown += [""] * (2 - len(shown))
        lines.append(f"| {words} | {' | '.join(shown)} |".replace("|  |", "| |"))
    return {"channels": block(lines)}


def router(estimates):
    told = simulated_runs("scenarios/told-late.toml", LATE_SEEDS)
    return {f"late-{case}": f"{estimates.of(values(told, case, 'limit_share'))[0]:.2f}" for case in ("both", "dsasync", "no-copies")}


def jitter_table(estimates, head, rows):
    """Share of the limit and 99th percentile of the delay of what met no silence: a row for each words and settings."""
    lines = [f"| {head} | " + " | ".join(f"`{case}`" for case in JITTER_CASES) + " |", "|---" * (1 + len(JITTER_CASES)) + "|"]
    misses = {"least share": [], "most delay": []}
    for words, settings in rows:
        told = simulated_runs("scenarios/jitter.toml", JITTER_SEEDS, settings)
        shown = []
        for case in JITTER_CASES:
            share, half = estimates.of(values(told, case, "limit_share"))
            delay, spread = estimates.of(values(told, case, "delay_p99_outside_silence_s"))
            shown.append(f"{share:.3f} ± {half:.3f}, {delay * 1e3:.0f} ± {spread * 1e3:.0f} ms")
            if case == "fq_codel":
                beside = delay
            elif case != "fifo":
                misses["least share"] += [f"{words} (`{case}`)"] * (share < LEAST_SHARE)
                misses["most delay"] += [f"{words} (`{case}`)"] * (delay - beside > MOST_BEYOND_MS / 1e3)
        lines.append(f"| {words} | {' | '.join(shown)} |")
    for name, aim in (("least share", f"at least {LEAST_SHARE} of the limit"), ("most delay", f"at most {MOST_BEYOND_MS} ms beyond `fq_codel`")):
        missed = f"missed at {', '.join(misses[name])}" if misses[name] else "met in every row"
        lines += ["", f"Aim of `dsasync` and `told`, {aim} (means): {missed}."]
    return block(lines)


def jitter(estimates):
    means = [(f"{mean} ms", [f"wired.jitter={mean}ms"]) for mean in JITTERS_MS]
    paths = [(f"{rtt} ms", ["wired.jitter=10ms", f"wired.rtt={rtt}ms"]) for rtt in JITTER_RTTS_MS]
    return {"jitter": jitter_table(estimates, "jitter each way", means), "paths": jitter_table(estimates, "round trip", paths)}


def wrong(estimates):
    """What bursts that nobody tells of and silences that are none cost; each row has the same bursts."""
    rows = [("each burst told, and no other", [])]
    # The radio itself falls silent 20 ms after a burst began.
    rows += [(f"each told 20 to {20 + spread} ms late", [f"radio.told.late_spread={spread}ms"]) for spread in WRONG_SPREADS]
    rows += [(f"{100 * missed:.0f} % of the bursts not told" if missed < 1 else "no burst told", [f"radio.told.missed={missed}"]) for missed in WRONG_MISSED]
    rows += [
        (f"{rate.replace('/min', '')} false silences of {length.replace('ms', ' ms')} a minute", [f"radio.told.false_alarms={rate}", f"radio.told.false_length={length}"])
        for rate, length in WRONG_ALARMS
    ]
    lines = ["| | " + " | ".join(f"`{case}`" for case in WRONG_CASES) + " |", "|---" * (1 + len(WRONG_CASES)) + "|"]
    for words, settings in rows:
        told = simulated_runs("scenarios/told-late.toml", WRONG_SEEDS, settings)
        shown = []
        for case in WRONG_CASES:
            share, half = estimates.of(values(told, case, "limit_share"))
            delay, spread = estimates.of(values(told, case, "delay_p99_outside_silence_s"))
            shown.append(f"{share:.3f} ± {half:.3f}, {delay * 1e3:.0f} ± {spread * 1e3:.0f} ms")
        lines.append(f"| {words} | {' | '.join(shown)} |")
    return {"wrong": block(lines)}


def block(lines):
    return "\n" + "\n".join(lines) + "\n"


def cargo_test():
    """How `make unit` runs tests, so that nothing is built anew after it."""
    return [os.environ.get("CARGO", "cargo"), "test", "--locked", "--workspace", *os.environ.get("STRUCT_OPS", "").split()]


def printed():
    """What the tests print whose numbers stand on a page."""
    cargo = cargo_test()
    told = ["--", "--nocapture", "--test-threads=1"]
    parts = [[*cargo, "--test", "look_ahead", "--test", "rates", *told]]
    parts += [[*cargo, "--lib", name, *told] for name in ("look_ahead::tests::closed_loop", "law::tests::the_tail_under_a_hann_window")]
    return "".join(subprocess.run(part, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout for part in parts)


def one(pattern, text):
    """The only match of `pattern`, or of several all alike."""
    found = set(re.findall(pattern, text, re.MULTILINE))
    if len(found) != 1:
        sys.exit(f"the tests print {len(found)} lines like {pattern}")
    return found.pop()


def lookahead(text):
    def cell(settings, case):
        return one(rf"{re.escape(settings)} {case}: ([\d.]+) frames instead of ([\d.]+);", text)

    plain, linux, weak = "[]", r'["tcp.delayed_ack=\"linux\""]', '["radio.grants.success=0.5"]'
    simulated = ["| receiver | without | paper | recommended |", "|---|---|---|---|"]
    for words, settings, cases in (
        ("heartbeat only (figure 3)", plain, ("paper", "recommended")),
        ("Linux, 40 ms", linux, ("paper", "recommended")),
        ("heartbeat only, p_s = 0.5", weak, (None, "recommended")),
    ):
        told = [cell(settings, case) if case else None for case in cases]
        without = {both[1] for both in told if both}
        if len(without) != 1:
            sys.exit(f"{words}: without look-ahead the tests print {without}")
        simulated.append(f"| {words} | {without.pop()} | {' | '.join(both[0] if both else '–' for both in told)} |")
    closed = ["| receiver | without | recommended |", "|---|---|---|"]
    for words, name in (
        ("heartbeat only, 12 ms between segments", "heartbeat"),
        ("lone segments, 40 ms", "40 ms"),
        ("lone segments, 200 ms after the segment", "200 ms after the segment"),
        ("the same in connections of 3 segments, 40 ms", "short, 40 ms"),
        ("every second segment of a steady stream, 12 ms between segments", "every second segment"),
    ):
        pattern = rf"(?:^|\.\.\. ){re.escape(name)}: ([\d.]+) frames without\n(?:  .*\n)*?  Learned Measured: Result {{ wait: ([\d.]+),"
        closed.append(f"| {words} | {' | '.join(one(pattern, text))} |")
    wait = r"Result {{ wait: ([\d.]+),[^}}]*}}".replace("{{", "{").replace("}}", "}")
    waits = one(rf"without {wait}, measured {wait}, n = 15 {wait}", text)
    names = ("varies-without", "varies-measured", "varies-15")
    varies = {name: f"{float(number):.1f}" for name, number in zip(names, waits)}
    return {"simulated": block(simulated), "closed-loop": block(closed), **varies}


def sense(text):
    rows = ["| what | measured | closed form |", "|---|---|---|"]

    def counted(words, name):
        count, trials, mean, deviation = one(rf"{re.escape(name)}: (\d+) of (\d+), ([\d.]+) ± ([\d.]+) expected", text)
        rows.append(f"| {words} | {int(count):,} of {int(trials):,} | {float(mean):,.1f} ± {deviation} |")

    counted("false alarms, P_fa 10⁻³, everything sensed", "everything, P_fa 0.001")
    counted("false alarms, P_fa 10⁻³, a band under a Hann window", "a band under a Hann window, P_fa 0.001")
    for snr in (-9, -6, -4):
        counted(f"found at {snr} dB SNR", f"everything, SNR {snr} dB")
    for snr in (-9, -4, 0):
        # Its form is an approximation, so it is "stated" and not "expected".
        count, trials, mean, deviation = one(rf"a band under a Hann window, SNR {snr} dB: (\d+) of (\d+), ([\d.]+) ± ([\d.]+) stated", text)
        rows.append(
            f"| found at {snr} dB SNR, a band under a Hann window | {int(count):,} of {int(trials):,} | {float(mean):,.1f} ± {deviation}, approximately |"
        )

    def delayed(words, pattern):
        delay, law, spread, bursts = one(pattern + r", delay ([\d.]+) blocks, ([\d.]+) ± ([\d.]+) expected, (\d+) bursts", text)
        closed = f"{float(law):.2f} ± {float(spread):.2f}" if float(spread) >= 0.005 else f"{float(law):.2f}"
        rows.append(f"| {words}, P_fa 10⁻⁶, {bursts} bursts | {float(delay):.2f} blocks | {closed} |")

    for snr in (-4, 0):
        delayed(f"mean delay at {snr} dB", rf"(?:^|\s){snr} dB: P_d [\d.]+")
    for snr in (-4, 0, 6):
        delayed(f"mean delay at {snr} dB from anywhere in a block", rf"from anywhere, {snr} dB: P_d [\d.]+, [\d.]+ in the first block")
    for gap in (1, 2, 5):
        counted(f"splits at -4 dB, T_idle of {gap} block{'s' * (gap > 1)}, of blocks above the threshold", f"splits, SNR -4 dB, T_idle {gap} blocks")
    off, allowed = one(r"P_d under a Hann window is off by ([\d.]+) points at most, ([\d.]+) allowed", text)
    hann, rectangular = one(r"alarms by a neighbour in 2000 blocks: (\d+) with Hann's window, (\d+) without", text)
    numbers = {"rates": block(rows), "neighbour": hann, "neighbour-without": rectangular, "hann-off": off, "hann-bound": allowed}
    for stated in ("1e-3", "1e-6", "1e-9"):
        numbers[f"tail-{stated}"] = f"{float(one(rf'stated {stated}, in truth ([0-9.e-]+)$', text)) / float(stated):.2f}"
    return numbers


def speed():
    """Millions of samples a second, as criterion's middle estimate."""
    commit = program_commit()
    command = [os.environ.get("CARGO", "cargo"), "bench", "--locked", "-p", "linkhold-sense"]
    text = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    units = {"Kelem/s": 1e-3, "Melem/s": 1, "Gelem/s": 1e3}

    def rate(name):
        number, unit = one(rf"^sense/{name}\s+time:.*\n\s+thrpt:\s+\[\S+ \S+ (\S+) (\S+) \S+ \S+\]", text)
        return f"{float(number) * units[unit]:,.0f}"

    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return (
        f"\nMillions of samples a second on one core ({model[1] if model else platform.machine()}, commit {commit}): "
        f"{rate('cf32/everything')} of `cf32` with\neverything sensed, {rate('cf32/band')} with a band and 256-sample transforms, "
        f"{rate('cu8/band')} of `cu8` with a band.\n"
    )


def beside(runs):
    """How late `linkhold sense` makes an agent and a host silent, from so many runs of its test. A run that fails ends it."""
    commit = program_commit()
    command = [os.environ.get("CARGO", "cargo"), "test", "--locked", "-p", "linkhold", "--test", "sense_beside", "--", "--nocapture", "--test-threads=1"]
    starts, ends, again = [], [], []
    for number in range(1, runs + 1):
        text = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        pairs = [pair for line in re.findall(r"after its end, ms: (.*); T_idle 50 ms", text) for pair in line.split("; ")]
        for pair in pairs:
            start, end = map(float, pair.split(" and "))
            starts.append(start)
            ends.append(end)
        again += [float(late) for late in re.findall(r"knows of the burst after (\d+) ms", text)]
        if len(pairs) != 6 or len(again) != number:
            sys.exit(f"run {number} tells of {len(pairs)} bursts and not of 6, or of no new agent: was it skipped?")
        print(f"\r{number} of {runs} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    def spread(values):
        low, *_, high = statistics.quantiles(values, n=20)
        # Few values say nothing of the twentieth part at each end.
        middle = f"{low:.0f} to {high:.0f} in nine of ten, " if len(values) > 40 else ""
        return f"{statistics.median(values):.0f} ms in the median ({middle}{max(values):.0f} at most)"

    return block(
        wrapped(
            f"In {runs} runs, each with three bursts for an agent and three for a host ({len(starts)} bursts, all of which became silences; commit {commit}), "
            f"from the first sample of a burst to seeing the silence in the status took {spread(starts)}. The test writes samples every 5 ms and reads the "
            "status every 2 ms, so up to 7 ms of that are its own. From the last sample of a burst to seeing the end it took "
            f"{spread(ends)}, with a T_idle of 50 ms. An agent that starts again in a burst knows of it after {spread(again)}."
        )
    )


def heard():
    """What docs/signals.md says of `linkhold sense`, by mark: the numbers of docs/sense.md."""
    text = " ".join((DOCS / "sense.md").read_text().split())
    pattern = (
        r"commit (?P<commit>\w+)\), from the first sample .*? took (?P<start>\d+) ms in the median \(.*?(?P<most>\d+) at most\)"
        r".*? up to (?P<own>\d+) ms of that are its own.*? end it took (?P<end>\d+) ms in the median"
    )
    found = re.search(pattern, text)
    if not found:
        sys.exit("docs/sense.md: its block `beside` is not as scripts/page_numbers.py --beside writes it")
    return {f"sense-{name}": value for name, value in found.groupdict().items()}


def namespace_test(name):
    """The command that runs a test of hosts in namespaces, and shows what it prints."""
    return [*cargo_test(), "--test", "namespaces", "--", "--nocapture", "--exact", name]


FLOOD_TESTS = {"told": "a_hog_leaves_a_flow_its_share", "untold": "a_hog_leaves_a_flow_its_share_where_nobody_tells_the_rate"}
FLOOD = re.compile(r"\b(One|Each), (\d) times the rate: ([\d.]+) of [\d.]+ Mbit/s, then ([\d.]+) of ")
SIGNED = re.compile(r"\b50 MB signed in ([\d.]+) s: 0 refused; of the flow beside it (\d+) windows closed, (\d+) clamped, (\d+) packets")
RADIOS = re.compile(
    r"\bradio0 beside a silent radio1: ([\d.]+) of its goodput, ([+-][\d.]+) ms; beside a slow one: ([\d.]+) of its goodput, ([+-][\d.]+) ms$",
    re.MULTILINE,
)


def lab(runs):
    """A flood, signed segments and a second radio on the lab, from so many runs of their tests. A run that fails ends it."""
    commit = program_commit()
    names = [*FLOOD_TESTS.values(), "a_signed_flow_is_not_touched", "two_radios_do_not_disturb_each_other"]
    printed = {name: "" for name in names}
    for number in range(1, runs + 1):
        for name in names:
            printed[name] += subprocess.run(namespace_test(name), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        print(f"\r{number} of {runs} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return lab_text(commit, runs, printed)


def lab_text(commit, runs, printed):
    """The block `lab` of docs/router.md, of what these tests printed."""
    rows, ports = [], {"One": "one", "Each": "each segment another"}
    for told, name in FLOOD_TESTS.items():
        seen = FLOOD.findall(printed[name])
        for which, load in ((which, load) for which in ports for load in ("1", "2")):
            shares = [(float(during), float(after)) for one, times, during, after in seen if (one, times) == (which, load)]
            if not shares:
                sys.exit(f"{name} tells nothing of ports {which} at {load} times the rate: was it skipped?")
            during, after = (sorted(column) for column in zip(*shares))
            rows.append(
                f"| {told} | {ports[which]} | {load} | {statistics.median(during):.2f} ({during[0]:.2f}) | {statistics.median(after):.2f} ({after[0]:.2f}) |"
            )
    signed, radios = SIGNED.findall(printed["a_signed_flow_is_not_touched"]), RADIOS.findall(printed["two_radios_do_not_disturb_each_other"])
    if not signed or not radios:
        sys.exit("the tests of signed segments and of two radios tell nothing: were they skipped?")
    closed, clamped, rewritten = (min(int(run[column]) for run in signed) for column in (1, 2, 3))
    silent, slow = ([(float(run[at]), float(run[at + 1])) for run in radios] for at in (0, 2))

    def least(parts):
        return f"{min(share for share, _ in parts):.2f} of its goodput at least and {round(max(delay for _, delay in parts), 1) + 0.0:+.1f} ms at most"

    return "\n".join(
        [
            "",
            f"Measured with {runs} runs of the tests on this lab (`make lab-numbers`, commit {commit}); in brackets the least of them.",
            "",
            "| rate | ports of the flood | times the rate | the flow's share meanwhile | and from 1 s after it |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "No window of the flow was closed for it, and the buffer was never short of space. Of hogs that fill it",
            "[`shares.rs`](../crates/linkhold-core/src/dsasync/tests/shares.rs) tells: they close no window but their own.",
            "",
            f"- **TCP-MD5**: 50 MB over a signed connection took {max(float(run[0]) for run in signed):.1f} s at most, four silences of 50 ms included, and the",
            "  stations refused no segment (0 `TCPMD5Failure`). Of an unsigned flow beside it the agent meanwhile closed a window",
            f"  {closed} times, clamped one {clamped} times and changed {rewritten} headers, at least.",
            f"- **Two radios**: beside a silence of the other radio a flow keeps {least(silent)} at",
            f"  its 90th percentile of delay; beside one told to be slow, {least(slow)}.",
            "",
        ]
    )


def killed(runs):
    """How soon traffic goes on when an agent was killed in a silence, from so many runs of its test. A run that fails ends it."""
    commit = program_commit()
    command = namespace_test("traffic_flows_at_the_radios_return_although_the_agent_was_killed")
    units = {"s": 1e3, "ms": 1, "µs": 1e-3, "ns": 1e-6}
    old, new = [], []
    for number in range(1, runs + 1):
        text = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        told = re.findall(r"data arrives after ([\d.]+)(\S+), new data is sent after ([\d.]+)(\S+)$", text, re.MULTILINE)
        if len(told) != 2:
            sys.exit(f"run {number} tells of {len(told)} kills and not of 2: was it skipped?")
        for arrived, unit, sent, sent_unit in told:
            old.append(float(arrived) * units[unit])
            new.append(float(sent) * units[sent_unit])
        print(f"\r{number} of {runs} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    def spread(values):
        return f"{statistics.median(values):.1f} ms in the median and {max(values):.1f} at most"

    return (
        f"\n  In {len(old)} kills in a silence of 1 s (commit {commit}), data arrived {spread(old)} after the radio's return,\n"
        f"  and the sender sent new data after {spread(new)} (`make killed-times`).\n  "
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page says something else")
    parser.add_argument("--printed", type=pathlib.Path, help="what the tests printed")
    parser.add_argument("--speed", action="store_true", help="measure and fill the speed of `linkhold sense` only")
    parser.add_argument("--beside", type=int, metavar="RUNS", help="measure and fill how soon `linkhold sense` is heard only (as root)")
    parser.add_argument("--killed", type=int, metavar="RUNS", help="measure and fill how soon traffic goes on after a kill only (as root)")
    parser.add_argument("--lab", type=int, metavar="RUNS", help="measure and fill what a flood, signed flows and a second radio do only (as root)")
    options = parser.parse_args()
    if options.speed:
        fill(DOCS / "sense.md", {"speed": speed()}, False, others=None)
        return
    if options.beside:
        fill(DOCS / "sense.md", {"beside": beside(options.beside)}, False, others=None)
        fill(DOCS / "signals.md", heard(), False, others=None)
        return
    if options.killed:
        fill(DOCS / "router.md", {"killed": killed(options.killed)}, False, others=None)
        return
    if options.lab:
        fill(DOCS / "router.md", {"lab": lab(options.lab)}, False, others=None)
        return
    estimates, text = Estimates(), options.printed.read_text() if options.printed else printed()
    pages = {
        "mesh.md": (mesh(estimates), ()),
        "jitter.md": (jitter(estimates), ()),
        "router.md": (router(estimates), ("costs", "killed", "lab", "wifi", "wifi-judged", "wifi-returns")),
        "lookahead.md": (lookahead(text), ()),
        "sense.md": (sense(text), ("speed", "beside")),
        # Its other marks are scripts/wifi_page.py's.
        "signals.md": (heard() | wrong(estimates), None),
    }
    differ = [name for name, (contents, others) in pages.items() if not fill(DOCS / name, contents, options.check, others)]
    if options.check and differ:
        sys.exit(f"{', '.join(differ)}: not what is measured now: run scripts/page_numbers.py")


if __name__ == "__main__":
    main()
