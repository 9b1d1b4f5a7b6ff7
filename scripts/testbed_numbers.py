"""The numbers in the text of docs/testbed/README.md, from what was measured (scripts/readme_numbers.py fills them in)."""

import math
import re
import statistics
import sys

from measured import Measured

LOSS_BASED, EVERY = ("reno", "cubic"), ("reno", "cubic", "bbr")
DEFAULT = ("dsasync", "dsasync-fifo")
BURSTS_50, BURSTS_100 = "burst0.3-rtt50", "burst0.3-rtt100"
SHARE, DELAY = "limit_share", "delay_p99_outside_silence_s"
# Lengths, s, and round trips, ms, of the parts silences-*.
LENGTHS, RTTS = ("0.1", "0.3", "1", "2", "5"), (3, 50, 100)


def span(values, digits=2, scale=1.0):
    """`least to greatest`, or one number if both look alike."""
    ends = dict.fromkeys(f"{end * scale:.{digits}f}" for end in (min(values), max(values)))
    return " to ".join(ends)


def missed(docs):
    """In how many cells the default misses the aim, and in which and how, from the page that says so of every mode."""
    head, reached, why = [], {}, []
    for line in (docs / "table.md").read_text().splitlines():
        columns = [column.strip() for column in line.strip("|").split("|")]
        if columns[0] == "cell":
            head = columns
        elif head and columns[0] == "reached in":
            reached = dict(zip(head, columns))
        elif head and not reached:
            verdict = dict(zip(head, columns)).get("dsasync", "")
            cell = re.fullmatch(r"burst([\d.]+)-rtt(\d+), (\w+)", columns[0])
            if cell and verdict != "yes":
                bursts = "" if cell[1] == "0.3" else f" with bursts of {cell[1]} s"
                why.append(f"{cell[3]} at {cell[2]} ms{bursts} ({verdict})")
    found = re.fullmatch(r"(\d+) of (\d+)", reached.get("dsasync", ""))
    if not found or int(found[2]) - int(found[1]) != len(why):
        sys.exit("table.md does not say in how many cells dsasync reaches the aim, or does not name as many")
    return f"{len(why)} of {found[2]}", "; ".join(why)


def table(measured, docs):
    every_part = measured.parts("burst")
    at_100 = [part for part in every_part if part.endswith("rtt100")]
    slow = [part for part in every_part if not part.endswith("rtt3")]
    held = [run["held_bytes_peak"] for part in every_part for case in DEFAULT for cc in EVERY
            for run in measured.runs(part, case, cc)]
    resumes = measured.means(every_part, DEFAULT, "resume_p50_s", EVERY)
    bbr = [BURSTS_50, BURSTS_100]
    in_how_many, in_which = missed(docs)

    def least(case):
        return f"{min(measured.means(at_100, [case], SHARE, LOSS_BASED)):.2f}"

    def delay(part, case, cc="cubic"):
        return f"{measured.mean(part, case, DELAY, cc) * 1e3:.0f}"

    return {
        "default-share": span(measured.means(every_part, DEFAULT, SHARE, LOSS_BASED), 3),
        "fifo-least": least("fifo-100"),
        "codel-least": least("fq_codel"),
        "drop-least": least("drop"),
        "delay-50": delay(BURSTS_50, "dsasync"),
        "deep-delay-50": delay(BURSTS_50, "fifo-5000"),
        "held-most": f"{max(held) / 1e6:.2f}",
        "resume": span(resumes, 1, 1e3),
        "missed": in_how_many,
        "missed-cells": in_which,
        "bbr-share": span(measured.means(bbr, ["dsasync"], SHARE, ["bbr"])),
        "bbr-deep-share": span(measured.means(bbr, ["fifo-5000"], SHARE, ["bbr"])),
        "delay-100": span(measured.means([BURSTS_100], ["dsasync"], DELAY, LOSS_BASED), 0, 1e3),
        "fifo-delay-100-reno": delay(BURSTS_100, "fifo-100", "reno"),
        "fifo-delay-100-cubic": delay(BURSTS_100, "fifo-100"),
        "fifo-share-100-reno": f"{measured.mean(BURSTS_100, 'fifo-100', SHARE, 'reno'):.2f}",
        "fifo-share-100-cubic": f"{measured.mean(BURSTS_100, 'fifo-100', SHARE):.2f}",
        "over-drop": span(measured.means(slow, ["dsasync-drop"], SHARE, EVERY)),
        "over-drop-copies": span(measured.means([BURSTS_100], ["dsasync-drop"], SHARE, LOSS_BASED)),
        "drop-alone": span(measured.means(slow, ["drop"], SHARE, EVERY)),
    }


def others(measured):
    many, short, uplink, clean = "many-stations", "short-flows", "uplink", "clean"

    def flows_p99(case):
        return measured.mean_of([run["completions"]["p99_s"] for run in measured.runs(short, case)])

    def ratio(part, case, base, key):
        return measured.mean(part, case, key) / measured.mean(part, base, key)

    shaped = ("dsasync-alg3", "dsasync-alg4")
    lost = [1 - measured.mean(clean, "dsasync", SHARE, cc) / measured.mean(clean, "none", SHARE, cc) for cc in EVERY]
    held = max(run["held_bytes_peak"] for run in measured.runs(many, "dsasync"))
    return {
        "many-share": f"{measured.mean(many, 'dsasync', SHARE):.3f}",
        "many-jain": f"{measured.mean(many, 'dsasync', 'jain_index'):.3f}",
        "many-delay": f"{ratio(many, 'dsasync', 'fq_codel', DELAY) * 100:.0f} %",
        "many-retransmits": f"{measured.mean(many, 'dsasync', 'retransmits'):.0f}",
        "many-codel-retransmits": f"{measured.mean(many, 'fq_codel', 'retransmits'):.0f}",
        "many-held": f"{held / 1e6:.2f}",
        "short-p99": f"{flows_p99('dsasync'):.1f} s",
        "short-codel-p99": f"{flows_p99('fq_codel'):.1f} s",
        "short-none-p99": f"{flows_p99('none'):.1f} s",
        "short-share": f"{measured.mean(short, 'dsasync', SHARE):.2f}",
        "short-codel-share": f"{measured.mean(short, 'fq_codel', SHARE):.2f}",
        "agent-p50": span(measured.means([clean], ["dsasync-pass"], "transit_p50_s", EVERY), 2, 1e3),
        "agent-p99": f"{max(measured.means([clean], ['dsasync-pass'], 'transit_p99_s', EVERY)) * 1e3:.2f}",
        "clean-lost": f"{span(lost, 1, 100)} %",
        "clean-delay": span(measured.means([clean], ["dsasync"], "delay_p50_s", LOSS_BASED), 0, 1e3),
        "clean-none-delay": span(measured.means([clean], ["none"], "delay_p50_s", LOSS_BASED), 0, 1e3),
        "uplink-deviation": f"{span([1 - ratio(uplink, case, 'none', 'delay_std_s') for case in shaped], 0, 100)} %",
        "uplink-lost": f"{span([1 - ratio(uplink, case, 'none', SHARE) for case in shaped], 0, 100)} %",
    }


class Sweep:
    """The parts silences-*."""

    def __init__(self, measured):
        self._measured = measured

    def runs(self, case, ccs=EVERY, lengths=LENGTHS, rtts=RTTS):
        parts = [f"silences-{length}s-rtt{rtt}" for length in lengths for rtt in rtts]
        return [run for part in parts for cc in ccs for run in self._measured.runs(part, case, cc)]

    def count(self, key, case, **which):
        return sum(run["silences"][key] for run in self.runs(case, **which))

    def of(self, key, among, case, **which):
        return f"{self.count(key, case, **which)} of {self.count(among, case, **which)}"

    def zero_window(self, rtt):
        """When the sender heard of the zero window, ms: the median over the runs."""
        heard = [run["silences"]["zero_window_p50_s"] for run in self.runs("freeze+nudge", rtts=[rtt])]
        return f"{statistics.median(time for time in heard if time is not None) * 1e3:.0f}"

    def timeouts_from(self, rtt):
        """The shortest silence in which the default's senders had a timeout, s."""
        for length in LENGTHS:
            if self.count("with_timeout", "dsasync", lengths=[length], rtts=[rtt]):
                return length
        sys.exit(f"raw.json: no timeout of dsasync at {rtt} ms")

    def least(self, case, ccs=LOSS_BASED):
        parts = self._measured.parts("silences-")
        return min(self._measured.means(parts, [case], SHARE, ccs))

    def bbr_spread(self):
        """The greatest difference between deep queue, freeze+nudge and default in a cell of BBR, and of fifo-100 to the best
        of them, in shares of the limit."""
        among, behind = [], []
        for part in self._measured.parts("silences-"):
            shares = self._measured.means([part], ["fifo-5000", "freeze+nudge", "dsasync"], SHARE, ["bbr"])
            among.append(max(shares) - min(shares))
            behind.append(max(shares) - self._measured.mean(part, "fifo-100", SHARE, "bbr"))
        return max(among), max(behind)


def silences(measured):
    sweep = Sweep(measured)
    nudged, long = "freeze+nudge", ("1", "2", "5")
    timed_out = {key: sum(sweep.count(key, case) for case in (nudged, "dsasync")) for key in ("with_spurious", "with_timeout")}
    among, behind = sweep.bbr_spread()
    return {
        **{f"zero-window-{rtt}": sweep.zero_window(rtt) for rtt in RTTS},
        "woken-ack": sweep.of("woken_by_acknowledgment", "silences", nudged),
        "woken-nudge": str(sweep.count("woken_by_nudge", nudged)),
        "woken-timer": str(sweep.count("woken_by_timer", nudged)),
        "spurious": "{with_spurious} of {with_timeout}".format(**timed_out),
        **{f"timeouts-from-{rtt}": f"{sweep.timeouts_from(rtt)} s" for rtt in RTTS},
        "restored-short": sweep.of("restored", "with_cwnd", nudged, ccs=LOSS_BASED, lengths=("0.1", "0.3")),
        "restored-long-50": sweep.of("restored", "with_cwnd", nudged, ccs=LOSS_BASED, lengths=long, rtts=[50]),
        "restored-long-100": sweep.of("restored", "with_cwnd", nudged, ccs=LOSS_BASED, lengths=long, rtts=[100]),
        "nudged-least": f"{sweep.least(nudged):.2f}",
        "restored-default": sweep.of("restored", "with_cwnd", "dsasync", ccs=LOSS_BASED),
        # Rounded down: the text says "or more".
        "default-least": f"{math.floor(sweep.least('dsasync') * 1000) / 1000:.3f}",
        "bbr-among": f"{among * 100:.1f} %",
        "bbr-behind": f"{behind * 100:.0f} %",
    }


def contents(docs):
    measured = Measured(docs)
    return {**table(measured, docs), **others(measured), **silences(measured)}
