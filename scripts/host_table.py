#!/usr/bin/env python3
"""Measures docs/testbed/host.md: what silences cost the sender of a station, and of a host on the wire, with and without `linkhold
host` beside it (linkhold testbed).

All cells run side by side in one fleet. Finished ones are kept in out/host-table, so that it can be stopped and goes on where it
was; with --known it runs nothing and writes the page of what there is. Needs root. Where this machine or this program has no eBPF
congestion controls, the case struct-ops is left out, and linkhold says why.

With --raw it measures nothing and needs no root: it writes the page anew from host-raw.json; with --raw --check it writes nothing
and fails if the page is not what it would write.
"""

import argparse
import math
import pathlib
import statistics
import sys

import raw_parts
from estimates import PROGRAM, ROOT, program_commit
from marks import listed, write
from testbed_table import batch, cells, rounded, share, shown, values

DOCS = ROOT / "docs" / "testbed"
AT_STATION, AT_CORRESPONDENT = "scenarios/host-table.toml", "scenarios/host-correspondent.toml"
RTTS = (3, 50, 100)
SILENCES = (0.3, 1, 2, 5)
# Radio on before each silence, and silences a run: as the scenario's comment says.
ON, COUNT = 4.5, 4
LATE_MS = 20
TOLD = {
    "once": ("Told at once", 0, "The radio notices each burst at its first moment, and so does the station's host: nothing collides."),
    "late": (
        f"Told {LATE_MS} ms late",
        LATE_MS,
        f"The radio itself notices each burst {LATE_MS} ms late, and so does the station's host: until then frames are sent and collide.",
    ),
}
# Where `linkhold host` is: how its parts' names begin, the scenario, the congestion controls, and how the page writes it.
PLACES = {
    "station": ("", AT_STATION, ["cubic", "reno"], "the station"),
    "correspondent": ("correspondent-", AT_CORRESPONDENT, ["cubic", "reno"], "the correspondent"),
}
# The aim of a case in a cell: share of the limit, and time to new data beyond a round trip.
AIM_SHARE, AIM_RESUME_S = 0.97, 0.005
# Where a reduction shows: CUBIC's leaves 0.7 of the window, Reno's 0.5.
REDUCED = 0.75
# The channel's rate for IP packets and the station's queue (AT_STATION), and a full segment on the wire.
CHANNEL_BPS, QUEUE, PACKET_BYTES = 17.5e6, 100, 1500
# What of each silence is kept.
KEPT = ("cwnd_before", "cwnd_at_end", "cwnd_after", "first_new_s", "woken_s", "timeouts")


def part_name(place, told, length, rtt):
    return f"{PLACES[place][0]}{told}-{length}s-rtt{rtt}"


def job(place, told, length, rtt):
    _, scenario, congestion, _ = PLACES[place]
    late_ms = TOLD[told][1]
    overrides = {"wired.rtt": f"{rtt}ms", "radio.primary_user.on_mean": f"{length}s", "duration": f"{ON + COUNT * (length + ON):g}s"}
    if late_ms:
        overrides["radio.primary_user.detection_delay"] = f"{late_ms}ms"
    if scenario == AT_STATION:
        # The gate hears the same silences as dips of the SNR.
        overrides |= {"radio.snr.trace": f"dips/{length}s.csv", "radio.snr.delay": f"{late_ms}ms"}
    sets = [f"{key}={value}" for key, value in overrides.items()]
    return (part_name(place, told, length, rtt), scenario, congestion, sets)


EVERY = [job(place, told, length, rtt) for place in PLACES for told in TOLD for length in SILENCES for rtt in RTTS]


def small(run):
    """What of a run is kept in the repository."""
    told = run["linux"]
    one = {"case": told["case"], "cc": told["congestion"], "seed": run["seed"]}
    one |= {"limit_share": run["totals"]["limit_share"], "retransmits": run["totals"]["retransmits"]}
    one |= {key: told[key] for key in ("edge_late_p99_s", "event_late_p99_s", "stalled_s")}
    one["counters"] = {key: value for key, value in told["counters"].items() if value}
    if run["mechanisms"]:
        one |= {key: run["mechanisms"][0][key] for key in ("silences", "windows_closed", "acks_injected")}
    one["stories"] = [[story[key] and float(f"{story[key]:.6g}") for key in KEPT] for story in told["silences"]]
    return rounded(one)


def from_raw(kept):
    """The reports as far as the page needs them."""
    reports = {}
    for part in (one[0] for one in EVERY if one[0] in kept):
        runs = []
        for one in kept[part]:
            linux = {"case": one["case"], "congestion": one["cc"], "counters": one["counters"]}
            linux["silences"] = [dict(zip(KEPT, story)) for story in one["stories"]]
            runs.append({"seed": one["seed"], "totals": one, "linux": linux})
        reports[part] = {"runs": runs}
    return reports


def silences(runs, *keys):
    """These values of every silence of the runs in which all are known."""
    stories = [story for run in runs for story in run["linux"]["silences"]]
    return [[story[key] for key in keys] for story in stories if all(story[key] is not None for key in keys)]


def collapsed(before, left):
    """Whether a window is no more than half of what it was, or half a segment above that: at less than half, Reno's halving
    would be a collapse where the window is odd and none where it is even."""
    return left <= (before + 1) / 2


def by_rounding(windows):
    """Whether these windows collapsed only by being exactly halved, an even number, or rounded up."""
    halved = [(before, left) for before, left in windows if collapsed(before, left)]
    return bool(halved) and not any(left < before / 2 for before, left in halved)


def reduced(after):
    """Silences, of these pairs of the window before and after, that show a reduction."""
    return [left / before for before, left in after if left < REDUCED * before]


def burst_fits(before, rtt):
    """Whether the queue has room for what the burst of ACKs at the thaw lets out (`why_reduced`)."""
    wire = CHANNEL_BPS * rtt / 1e3 / 8 / PACKET_BYTES
    return before - wire / 2 <= QUEUE


def until(runs, key):
    """When something first happened after each silence of the runs, s: infinitely late where it did not before the next one."""
    stories = [story for run in runs for story in run["linux"]["silences"]]
    return [math.inf if story[key] is None else story[key] for story in stories]


def millis(time, digits=0):
    return "never" if math.isinf(time) else f"{time * 1e3:.{digits}f}"


def milliseconds(times):
    return f"{millis(statistics.median(times))} ({millis(max(times))})" if times else "-"


def row(case, runs, rtt):
    """The columns of a case in a cell, the last one the verdict, and how many of its silences show a reduction."""
    around = silences(runs, "cwnd_before", "cwnd_at_end")
    after = silences(runs, "cwnd_before", "cwnd_after")
    new, woken = until(runs, "first_new_s"), until(runs, "woken_s")
    carried = values(runs, share)
    columns = [case, shown(carried)]
    faults = []
    if statistics.fmean(carried) < AIM_SHARE:
        faults.append("goodput")
    columns.append(f"{statistics.median(one[0] for one in around):.0f}" if around else "-")
    columns += [f"{statistics.median(one[1] for one in pairs):.0f} ({min(one[1] for one in pairs):.0f})" if pairs else "-" for pairs in (around, after)]
    # One silence that costs the window is a collapse, however many others do not.
    if any(collapsed(before, left) for before, left in around + after):
        faults.append("cwnd")
    columns += [f"{len(reduced(after))} of {len(after)}", milliseconds(woken), milliseconds(new)]
    # One silence after which nothing new came is a fault, too, however soon it came after the others.
    if new and (statistics.median(new) > rtt / 1e3 + AIM_RESUME_S or math.inf in new):
        faults.append("new data")
    timeouts = [run["linux"]["counters"].get("TCPTimeouts", 0) for run in runs]
    columns.append(f"{statistics.fmean(timeouts):.1f}")
    return [*columns, "yes" if not faults else "not " + ", ".join(faults)], len(reduced(after))


DSASYNC = [
    "- `dsasync`: `linkhold host` with `dsasync` in place of `cr-aware`: what the station cannot send is held and paced at its source. It is told",
    "  the channel's rate, and each burst as `freeze` is.",
]
TOGETHER = ["- `dsasync-and-struct-ops`: that and `struct-ops` on one host."]
CORRESPONDENT = [
    f"**At the correspondent:** one bulk download, [`{AT_CORRESPONDENT}`](../../{AT_CORRESPONDENT}), over the same channel; the base station's queue of 100",
    "packets keeps its packets in a silence. `plain`, `freeze` and `struct-ops` are as above, with `linkhold host` beside the sender on the wire. `agent`:",
    "`linkhold agent` with `dsasync` at the base station instead, told the channel's rate, and the senders left alone.",
]
BOTH = ["`agent-and-struct-ops`: that agent, and a sender frozen as in `struct-ops`."]


def has_case(reports, place, case):
    return any(case == one for part, report in reports.items() if place_of(part) == place for _, one in cells(report))


def place_of(part):
    # The station's parts have no beginning of their own.
    return "correspondent" if part.startswith(PLACES["correspondent"][0]) else "station"


def measured_at(place, kept, measured):
    """What measured the cells of a place."""
    here = [(part, cc) for part, cc in measured if place_of(part) == place]
    return f"At {PLACES[place][3]}: {raw_parts.measured_by(kept[raw_parts.MEASURED], here, str)}"


def unfinished(reports, place):
    """What a measurement that was stopped has left out, in words."""
    here = [cells(report) for part, report in reports.items() if place_of(part) == place]
    runs = [len(found) for report in here for found in report.values()]
    missing = len(here) * len(set().union(*here)) - len(runs)
    fewer = sum(count < max(runs) for count in runs)
    if not missing and not fewer:
        return ""
    return f" Of {len(runs) + missing} cells at {PLACES[place][3]} {missing} were not measured and {fewer} have fewer seeds."


def measured_silences(reports, place, told, case, cc=None):
    """Pairs of round trip, ms, and runs of each cell of this case, and of this congestion control if one is named."""
    for rtt in RTTS:
        for length in SILENCES:
            report = reports.get(part_name(place, told, length, rtt))
            for (name, one), runs in (cells(report) if report else {}).items():
                if one == case and cc in (None, name):
                    yield rtt, runs


def why_reduced(reports):
    """What a reduction is that struct-ops leaves at the station, in words."""

    def windows(place, cc=None, rtt=None):
        found = measured_silences(reports, place, "once", "struct-ops", cc)
        return [(at, pair) for at, runs in found if rtt in (None, at) for pair in silences(runs, "cwnd_before", "cwnd_after")]

    def counted(found):
        return f"{len(reduced([pair for _, pair in found]))} of {len(found)}"

    every = windows("station")
    with_cubic = {rtt: windows("station", "cubic", rtt) for rtt in (50, 100)}
    shares = reduced([pair for found in with_cubic.values() for _, pair in found])
    if not shares:
        return []
    fit = [one for one in every if burst_fits(one[1][0], one[0])]
    others = [one for one in every if not burst_fits(one[1][0], one[0])]
    words = [
        f"**One reduction is left at the station.** Told at once, with CUBIC and `struct-ops`, {counted(with_cubic[50])} silences at 50 ms and {counted(with_cubic[100])} at",
        f"100 ms end with a reduction all the same: one, to {statistics.median(shares):.2f} of the window (median; least {min(shares):.2f}). It is not the silence's but that of the burst after it.",
        "In the silence all that was on the wire arrives, and its ACKs wait at the base station. At the thaw they come in a burst, each lets out two",
        "segments, and the channel carries one in that time. So the queue ends with the window less half of what fills the wire. The raw data has no count of the",
        f"queue's drops, but it has the windows: where that is at most the queue's {QUEUE} packets, {counted(fit)} silences with `struct-ops` told at once show a",
        f"reduction, and where it is more, {counted(others)} (both congestion controls).",
    ]
    if wired := windows("correspondent"):
        words.append(f"At the correspondent, whose ACKs do not gather in a silence, {counted(wired)} do.")
    return [*words, ""]


def why_reno(reports):
    """In which cells Reno over 100 ms misses its share at the station though `struct-ops` left its window alone, and what the data has of why."""
    missed, reached, words = [], [], []
    for told, (title, *_) in TOLD.items():
        alone = []
        for rtt, runs in measured_silences(reports, "station", told, "struct-ops", "reno"):
            around = silences(runs, "cwnd_before", "cwnd_at_end") + silences(runs, "cwnd_before", "cwnd_after")
            if rtt == max(RTTS) and not any(collapsed(*pair) for pair in around):
                alone.append(runs)
        short = [runs for runs in alone if statistics.fmean(values(runs, share)) < AIM_SHARE]
        missed += short
        reached += [runs for runs in alone if runs not in short]
        if alone:
            words.append(f"{title[0].lower()}{title[1:]} in {len(short)} of {len(alone)} cells")
    if not missed:
        return []

    def reductions(found):
        pairs = [pair for runs in found for pair in silences(runs, "cwnd_before", "cwnd_after")]
        return f"{len(reduced(pairs))} of {len(pairs)}"

    beside = f", where it has its share {reductions(reached)}" if reached else ""
    return [
        f"**Reno over {max(RTTS)} ms misses its share at the station in some cells with `struct-ops` whose windows do not collapse:** {listed(words)}. Where it misses it,",
        f"{reductions(missed)} silences end with a reduction{beside}. The likely cause is the burst of ACKs at the thaw, which lets go more than the queue of {QUEUE} packets has",
        f"room for; Reno grows back by a segment a round trip, and {ON} s of radio are {ON * 1e3 / max(RTTS):.0f} round trips. (In the simulator a queue of 1000 packets ends it:",
        f"`linkhold run {AT_STATION} --set tcp.congestion=reno --set wired.rtt=100ms --set station.limit=1000pkt`.) A mechanism",
        "that only stops and wakes the sender cannot help; `dsasync` on the station, a case of the scenario, holds what its queue has no room for.",
        "",
    ]


def told_apart(reports):
    """How many cells a bound of less than half would tell otherwise."""
    odd = sum(
        by_rounding(silences(runs, "cwnd_before", "cwnd_at_end") + silences(runs, "cwnd_before", "cwnd_after"))
        for place in PLACES
        for told in TOLD
        for _, runs in measured_silences(reports, place, told, "struct-ops")
    )
    return f"({odd} {'cell' if odd == 1 else 'cells'} of `struct-ops` have a collapse only by windows that are exactly half.)"


def why_late(reports, places):
    """What of the time to new data is the sender's waiting, when it was told late, in words."""
    found = []
    for place in places:
        for rtt in RTTS:
            runs = [one for at, cell in measured_silences(reports, place, "late", "struct-ops") if at == rtt for one in cell]
            if runs:
                woken, new = (statistics.median(until(runs, key)) for key in ("woken_s", "first_new_s"))
                found.append(f"{PLACES[place][3]}, {rtt} ms: {millis(woken, 1)} and {millis(new)} ms")
    if not found:
        return []
    return [
        f"**Told {LATE_MS} ms late, it is not the sender that waits.** From the silence's end to the sender's first data, and to the first new data at the receiver,",
        f"take with `struct-ops` in the median (at, round trip: both): {'; '.join(found)}.",
        "At the station the sender goes on at once, at the correspondent when it hears of the end, half a round trip later. What is late is what collided: the receiver has",
        "a hole, which a retransmission mends [a round trip after that](../host.md), and the retransmission waits behind what the queue holds.",
        "",
    ]


def tables(reports, place, reached):
    """The tables of one place; what each case reached goes to `reached`."""
    lines = []
    _, _, congestion, at = PLACES[place]
    for told, (title, *_) in TOLD.items():
        for cc in congestion:
            table = []
            for rtt in RTTS:
                for length in SILENCES:
                    report = reports.get(part_name(place, told, length, rtt))
                    for (name, case), runs in (cells(report) if report else {}).items():
                        if name != cc:
                            continue
                        columns, reductions = row(case, runs, rtt)
                        table.append("| " + " | ".join([str(rtt), f"{length}", *columns]) + " |")
                        reached.setdefault((at, title, case), []).append(
                            (statistics.fmean(values(runs, share)), f"{cc}, {rtt} ms, {length} s", columns[-1], reductions)
                        )
            if table:
                lines += [
                    f"## At {at}: {title[0].lower()}{title[1:]}, {cc}",
                    "",
                    "| RTT, ms | silence, s | case | goodput / limit | cwnd before | at its end | after | with a reduction | woken, ms | new data, ms | timeouts | aim |",
                    "|---" * 12 + "|",
                    *table,
                    "",
                ]
    return lines


def page(kept):
    reports = from_raw(kept)
    measured = [(part, cc) for part, report in reports.items() for cc in dict.fromkeys(key[0] for key in cells(report))]
    places = dict.fromkeys(map(place_of, reports))
    lines = [
        "# A host's own sender across silences",
        "",
        " ".join([raw_parts.by("host-table"), *(measured_at(place, kept, measured) + unfinished(reports, place) for place in places)]),
        "",
        f"**At the station:** one bulk upload, [`{AT_STATION}`](../../{AT_STATION}): a shared 24 Mbit/s channel (17.5 Mbit/s for IP packets), on which a",
        f"primary user transmits for the time named, {COUNT} times a run, with {ON} s before each time. The station's interface has a queue of 100 packets, and keeps",
        "it in a silence.",
        "",
        "- `plain`: the kernel's sender, and nothing else.",
        "- `freeze`: [`linkhold host`](../host.md) on the station, `cr-aware` by window updates.",
        "- `snr-gate`: `linkhold host` with the gate of `activation` in place of `cr-aware`. It hears no burst but the SNR, every 10 ms: 40 dB, and",
        "  0 dB for as long as a burst lasts. It closes the window below 20 dB and opens it above 23 dB.",
        "- `snr-gate-zero`: the same gate with the paper's window, zero (`closed = \"zero\"`); that of the others is full and ends with what was sent.",
        "- `struct-ops`: as `freeze`, and the sender uses the eBPF congestion control around its own (`freeze = \"both\"`). After a timeout in a silence",
        "  it shows one segment more than is in flight as its cwnd until an ACK brings news, which brings the whole window back: so where a least cwnd of 2",
        "  stands at a silence's end, it is this display and not a lost window.",
        *(DSASYNC if has_case(reports, "station", "dsasync") else []),
        *(TOGETHER if has_case(reports, "station", "dsasync-and-struct-ops") else []),
        "",
        *(CORRESPONDENT if "correspondent" in places else []),
        *(BOTH if has_case(reports, "correspondent", "agent-and-struct-ops") else []),
        *([""] if "correspondent" in places else []),
        "**What was told.** "
        + " ".join(f"{title}: {words[0].lower()}{words[1:]}" for title, _, words in TOLD.values()),
        "The host is told of each burst's end at once, and nobody tells a burst ahead. The gate's samples are as late as the bursts, at a dip's start",
        "and at its end." + (" A host at the correspondent hears of each burst's start and end half a round trip later still." if "correspondent" in places else ""),
        "",
        "Goodput is a share of what a perfect transport would carry, with its 95 % interval over the seeds. cwnd is in segments, medians over",
        "the silences (and the least): before a silence, at its end, and two round trips and 50 ms after it. With a reduction: silences after which",
        f"the window is then below {REDUCED} of what it was (CUBIC's reduction leaves 0.7, Reno's 0.5: RFC 9438, RFC 5681; a window that has grown back by then does not count). Woken:",
        "from the silence's end to the sender's first data (with `dsasync` on the host, to the first that it lets go), and new data: to the first data at the receiver that moves the stream on, both in ms,",
        "median (greatest; `never`: not before the next silence, which the median takes for infinitely late). Timeouts: `TCPTimeouts` of a run. Aim: at least",
        f"{AIM_SHARE} of the limit, no collapse of cwnd (at every silence's end, and after it, above half of what it was, so that Reno's halving is a",
        f"collapse whether the number of segments is odd or even), new data after every silence, within the wire's round trip and {AIM_RESUME_S * 1e3:.0f} ms (median).",
        f"{told_apart(reports)} One reduction alone is no collapse; the last table counts the cells without any, too.",
        "",
        *why_reduced(reports),
        *why_late(reports, places),
        *why_reno(reports),
    ]
    reached = {}
    for place in places:
        lines += tables(reports, place, reached)
    head = "| at | told | case | cells that reach it | without any reduction | least goodput | miss goodput | miss cwnd | miss new data |"
    lines += ["## The aim", "", head, "|---" * 9 + "|"]
    for (at, title, case), found in reached.items():
        least, where, *_ = min(found)
        missed = [sum(fault in told for *_, told, _ in found) for fault in ("goodput", "cwnd", "new data")]
        whole = [reductions for *_, told, reductions in found if told == "yes"]
        lines.append(
            f"| {at} | {title} | {case} | {len(whole)} of {len(found)} | {whole.count(0)} | {least:.3f} ({where}) | " + " | ".join(map(str, missed)) + " |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "host-table", help="finished cells")
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS, help="where the page goes")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, help="cells side by side (default: as many as the host keeps up with)")
    parser.add_argument("--only", help="names of the parts to run, or their beginnings, with commas between")
    parser.add_argument("--known", action="store_true", help="run nothing, write the page of what there is")
    parser.add_argument("--raw", action="store_true", help="measure nothing, write the page from host-raw.json")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, fail if the page differs")
    options = parser.parse_args()
    if options.check and not options.raw:
        parser.error("--check goes with --raw")
    file, document = options.docs / "host-raw.json", options.docs / "host.md"
    if options.raw:
        if options.check and not file.exists() and not document.exists():
            # Nobody has measured yet, so no page can be wrong.
            return
        text = page(raw_parts.read(file))
        if not options.check:
            write(document, text)
        elif document.read_text() != text:
            sys.exit(f"{document}: not what host-raw.json says: run scripts/host_table.py --raw")
        return
    wanted = tuple(options.only.split(",")) if options.only else ("",)
    jobs = [one for one in EVERY if one[0].startswith(wanted)]
    if not jobs:
        sys.exit(f"--only {options.only}: the parts are {', '.join(one[0] for one in EVERY)}")
    commit = program_commit(options.program)
    reports = batch(options, jobs)
    runs = {part: [small(run) for run in report["runs"]] for part, report in reports.items()}
    # `unfinished` says what is not whole.
    measured = raw_parts.measured_now(reports, jobs, commit, name_fewer=False)
    kept = raw_parts.beside_others(raw_parts.read(file), runs, measured, EVERY)
    options.docs.mkdir(parents=True, exist_ok=True)
    write(file, raw_parts.text(kept))
    # From the rounded numbers, as --raw has them, so that both write the same page.
    write(document, page(kept))


if __name__ == "__main__":
    main()
