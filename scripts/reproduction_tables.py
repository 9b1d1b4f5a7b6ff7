#!/usr/bin/env python3
"""Fills the tables of reproductions/<paper> with what `linkhold reproduce <paper>` measures.

A page keeps its prose: only what stands between <!-- measured --> and <!-- /measured --> is written anew. With --json
it runs nothing and takes the report of a finished run, and with --fresh-json, too, that of the seeds on which the claims
of some papers are confirmed (FRESH). Read the change afterwards: prose may quote a number that is no longer there.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

from estimates import built_from, program_commit
from marks import between, write

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "reproductions"
OPENING, CLOSING = "<!-- measured -->", "<!-- /measured -->"
CASES = ("regular", "dsasync-paper", "dsasync")
DIRECTIONS = ("downlink", "uplink")
PAPERS_STACK = "linux-2009, 3 ms"
# Metric, unit, title: of the figures that are claims and one table a metric, cases side by side.
GOODPUT = ("goodput", "Mbit/s", "Goodput")
MEAN_DELAY = ("mean delay", "ms", "Mean one-way delay")
BULK = (
    GOODPUT,
    ("goodput share of the limit", "share", "Share of `goodput_limit_bps`"),
    ("retransmission rate", "Mbit/s", "Retransmission rate"),
    ("p99 delay outside silences", "ms", "99th percentile of one-way delay of packets sent outside silences"),
)
METRICS = {
    "overhead": (GOODPUT, MEAN_DELAY),
    "fig4": BULK,
    "fig5": (("delay deviation", "ms", "Standard deviation of one-way delay"), MEAN_DELAY),
    "fig8": BULK,
}
# activation: its metrics, by figure.
TRANSFER = (
    ("throughput", "kB/s", "Throughput"),
    ("connection time", "s", "Connection time"),
    ("overhead", "%", "Overhead"),
    ("timeouts", "timeouts", "Retransmission timeouts"),
    ("times shut", "times", "How often the gate shut"),
    ("share unfinished", "share", "Share of the transfers that did not end within 600 s"),
)
ACTIVATION = {
    "fig4": TRANSFER,
    "fig5": (("overhead", "%", "Overhead"), ("segments sent again", "segments", "Segments sent again")),
    "harm": TRANSFER,
    "signal": TRANSFER,
}
# The source of the SNR that is not part of the project.
MEASURED_LINK = "measured link"
# Where the seeds begin on which a paper's claims are confirmed, as many as it has: seeds that nobody had run
# when the criteria were as they are. Of `activation` the page itself cites a run of the first 400.
FRESH = {"cr-aware": 101, "activation": 401}
# By which program they were first run, and what that found: to a later one they are not fresh. What changed since. The pages of that
# time are in commits 17ef9a0d (cr-aware) and ff56f0d3 (activation).
FIRST_RUN = {
    "cr-aware": ("5ad162d232c8", "8 held, 0 did not and 1 was undecided", "local recovery was mended (6f3dc8b9, 5df8345d, 1bf75050, d143de7b), and handshakes freeze (d143de7b)"),
    "activation": (
        "5ad162d232c8",
        "5 held, 6 did not and 7 were undecided",
        "the two claims on the least threshold that costs throughput are judged by an interval (2abb0202)",
    ),
}
# cr-aware's claims on the order of the six, by the case ahead: figure, how the claim begins, in short.
ORDER = {
    "phy-lr": ("fig3", "Without CR-aware, PHY-LR carries more", "PHY-LR above NewReno"),
    "tcp-lr": ("fig3", "Without CR-aware, TCP-LR carries more", "TCP-LR best without CR"),
    "newreno+cr": ("fig4", "NewReno with CR-aware slightly", "NewReno+CR above TCP-LR"),
    "phy-lr+cr": ("fig4", "PHY-LR with CR-aware is second", "PHY-LR+CR second"),
    "tcp-lr+cr": ("fig4", "TCP-LR with CR-aware is best", "TCP-LR+CR best"),
}
AHEAD = "uplink packets over the best behind"
CR_AWARE = {
    "fig3": (
        ("goodput", "B/s", "Goodput"),
        ("packets delivered", "packets", "Packets delivered in 600 s"),
        ("retransmissions", "segments", "Segments sent again by TCP"),
        ("timeouts", "timeouts", "Retransmission timeouts"),
    ),
    "fig4": (),
}
WAITING = ("random access delay", "ms", "From a station's wanting to send to the start of its turn, mean")
ACK_DELAY = ("delay of an ACK", "ms", "From the host's sending an ACK to its reaching the server (half of the round trip is the wire's), mean")
UNUSED = ("unused rate of what was granted", "kbit/s", "Granted and not used")
WRONG = ("wrong share of requests ahead", "share", "Requests made ahead whose packet did not come in time")
LOOKAHEAD = {
    "fig5": (
        ("rate", "kbit/s", "Rate of the stream"),
        ("time stalled", "s", "Time for which the player stood still, of 100 s"),
        ACK_DELAY,
        WAITING,
        ("unused share of what was granted", "share", "Granted and not used"),
        WRONG,
    ),
    "sweep": (
        ("rate", "kbit/s", "Rate of the stream, all stations together"),
        ("rate over that of tcp", "ratio", "Rate over that of plain TCP"),
        ACK_DELAY,
        WAITING,
        UNUSED,
        WRONG,
    ),
    "today": (
        ("page time, mean", "ms", "Time of a page, mean"),
        ("page time, p95", "ms", "Time of a page, 95th percentile"),
        ACK_DELAY,
        WAITING,
        UNUSED,
        WRONG,
    ),
}
GAPS = ("p10", "median", "p90")
ENERGY = ("energy", "uJ/B", "Energy of the station's radio for each byte delivered")
# Figure 7: its cases, and the seconds around the switch, by the end of each.
SWITCH_CASES = ("regular", "dsasync-paper", "paper-no-response", "paper-modern-response", "dsasync")
SWITCH_SECONDS = (5.0, 6.0, 7.0, 8.0)


class Figure:
    """One figure of the report, its rows by (case, stack, metric, x)."""

    def __init__(self, record):
        self.seeds = record["seeds"]
        # Older reports lack it.
        self.first_seed = record.get("first_seed", 1)
        self.claims = record["claims"]
        self.rows = {}
        for row in record["rows"]:
            case, stack = re.fullmatch(r"(.*?) \[(.*)\]", row["case"]).groups()
            self.rows[case, stack, row["metric"], row["x"]] = row

    def row(self, case, stack, metric, x=None):
        return self.rows.get((case, stack, metric, x))

    def measured(self, case, stack, metric, x=None):
        return self.rows[case, stack, metric, x]["measured"]

    def curve(self, case, stack, metric):
        """What was measured at every x, in the report's order."""
        return [row["measured"] for key, row in self.rows.items() if key[:3] == (case, stack, metric)]

    def stacks(self, metric):
        return list(dict.fromkeys(stack for _, stack, of, _ in self.rows if of == metric))

    def positions(self, metric):
        return sorted({x for _, _, of, x in self.rows if of == metric})


def number(value):
    """Three digits, but no more than three places."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 100:
        digits = 0
    elif size >= 10:
        digits = 1
    elif size >= 0.1 or size == 0:
        digits = 2
    else:
        digits = 3
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text.replace("-", "−")


def cell(row):
    """Mean and half of its interval, where that is wide enough to be seen."""
    if row is None:
        return "–"
    text = number(row["measured"])
    if row["ci95"]:
        low, high = row["ci95"]
        half = (high - low) / 2
        if half >= 0.0005 * max(1, abs(row["measured"])):
            text += " ± " + number(half)
    return text


def quoted(names):
    return [f"`{name}`" for name in names]


def table(head, rows, align=None):
    """A table whose columns but the first hold numbers, if `align` says nothing else."""
    align = align or ["---"] + ["---:"] * (len(head) - 1)
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(align) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


VERDICTS = {True: "**yes**", False: "no", None: "undecided"}


def verdict(claim):
    return VERDICTS[claim["holds"]]


def is_at_least_one(row):
    """Whether a ratio is at least 1, as the command judges it (crates/linkhold-reproduce/src/finding.rs)."""
    if row["measured"] is None:
        return False
    low, high = row["ci95"] or [row["measured"]] * 2
    return True if low >= 1 else False if high < 1 else None


def measured_claim(claim):
    """The measured value and its interval."""
    text = number(claim["measured"])
    if claim["ci95"]:
        low, high = (number(end) for end in claim["ci95"])
        if low != high:
            text += f" [{low}, {high}]"
    return text


def criterion(claim):
    return claim["criterion"].removeprefix("holds if ").removesuffix(f"; in {claim['unit']}")


def claims(figure):
    rows = []
    for claim in figure.claims:
        row = [claim["text"], number(claim["paper"]), measured_claim(claim), claim["unit"], criterion(claim), verdict(claim)]
        rows.append([text.replace("|", "/") for text in row])
    head = ["claim", "paper", "measured", "unit", "holds if", "holds"]
    return table(head, rows, ["---", "---:", "---:", "---", "---", "---"])


def by_case(figure, metric, unit, title):
    """A line a direction and stack, the cases side by side."""
    rows = []
    for direction in DIRECTIONS:
        of = f"{direction} {metric}"
        for stack in figure.stacks(of):
            rows.append([f"{direction}, {stack}"] + [cell(figure.row(case, stack, of)) for case in CASES])
    return [f"{title}:", table([unit, *quoted(CASES)], rows)]


def plain_page(figure, metrics):
    blocks = [claims(figure)]
    for metric, unit, title in metrics:
        blocks += by_case(figure, metric, unit, title)
    return blocks


def over_time(figure, stack, metric):
    """Mean, worst and best second of each case, and the seconds in which the others beat `regular`."""
    curves = {case: figure.curve(case, stack, metric) for case in CASES}
    texts = []
    for curve in curves.values():
        texts.append(f"{number(sum(curve) / len(curve))} ({number(min(curve))} to {number(max(curve))})")
    regular = curves["regular"]
    wins = []
    for case in CASES[1:]:
        wins.append(str(sum(ours > plain for ours, plain in zip(curves[case], regular, strict=True))))
    return [*texts, f"{' / '.join(wins)} of {len(regular)}"]


def fig3(figure):
    rows = []
    for direction in DIRECTIONS:
        metric = f"{direction} goodput"
        for stack in figure.stacks(metric):
            rows.append([f"{direction}, {stack}", *over_time(figure, stack, metric)])
    title = (
        "Goodput, Mbit/s: mean over the seconds (worst to best second, each a mean over the seeds), "
        "and in how many seconds `dsasync-paper` / `dsasync` is above `regular`:"
    )
    return [claims(figure), title, table(["Mbit/s", *quoted(CASES), "seconds above regular"], rows)]


def papers_utilisations(figure, direction):
    """Figure 6 as the paper has it: goodput and share of the limit at each utilisation."""
    goodput, share = f"{direction} goodput", f"{direction} goodput share of the limit"
    rows = []
    for x in figure.positions(goodput):
        row = [number(x)]
        for case in CASES:
            percent = number(100 * figure.measured(case, PAPERS_STACK, share, x))
            row.append(f"{cell(figure.row(case, PAPERS_STACK, goodput, x))} ({percent} %)")
        rows.append(row)
    title = f"{direction.capitalize()} on the paper's stack, Mbit/s (share of the limit):"
    return [title, table(["utilisation", *quoted(CASES)], rows)]


def fig6(figure):
    blocks = [claims(figure)]
    for direction in DIRECTIONS:
        blocks += papers_utilisations(figure, direction)
    rows = []
    for direction in DIRECTIONS:
        metric = f"{direction} goodput share of the limit"
        for stack in figure.stacks(metric):
            if stack == PAPERS_STACK:
                continue
            for x in (0.2, 0.5, 0.8):
                shares = [cell(figure.row(case, stack, metric, x)) for case in CASES]
                rows.append([f"{direction}, {stack}, {x}", *shares])
    return [*blocks, "Today's stack, share of the limit:", table(["stack, utilisation", *quoted(CASES)], rows)]


def around_switch(figure, case, stack):
    values = [number(figure.measured(case, stack, "downlink goodput", x)) for x in SWITCH_SECONDS]
    return " / ".join(values)


def losses_and_delay(figure, case, stack):
    metrics = ("downlink retransmissions", "downlink p99 delay")
    return " / ".join(number(figure.measured(case, stack, metric)) for metric in metrics)


def fig7(figure):
    blocks = [claims(figure)]
    titles = {
        "Goodput, Mbit/s, of the second before the switch and the three after it:": around_switch,
        "Segments retransmitted in the run / 99th percentile of one-way delay, ms:": losses_and_delay,
    }
    for title, tell in titles.items():
        rows = []
        for stack in figure.stacks("downlink goodput"):
            rows.append([stack, *(tell(figure, case, stack) for case in SWITCH_CASES)])
        blocks += [title, table(["stack", *quoted(SWITCH_CASES)], rows)]
    return blocks


def assumption(figure, direction, stack):
    """What becomes of the plain router, and of each gain over it, under one assumption."""

    def plain(metric):
        return figure.row("regular", stack, f"{direction} {metric}")

    row = [stack, cell(plain("goodput"))]
    row.append(number(100 * plain("goodput share of the limit")["measured"]) + " %")
    row += [cell(plain("retransmission rate")), number(plain("timeouts")["measured"])]
    for case in ("dsasync-paper", "paper-unshaped", "dsasync"):
        row.append(cell(figure.row(case, stack, f"{direction} gain over regular")))
    return row


def sensitivity(figure):
    papers = {"downlink": "gain 74 %, regular retransmits 3.1 Mbit/s", "uplink": "gain 10 %"}
    head = ["assumption", "regular, Mbit/s", "of the limit", "retransmits, Mbit/s", "timeouts"]
    head += ["gain of `dsasync-paper`, %", "of `paper-unshaped`, %", "of `dsasync`, %"]
    blocks = []
    for direction in DIRECTIONS:
        rows = [assumption(figure, direction, stack) for stack in figure.stacks(f"{direction} goodput")]
        blocks += [f"{direction.capitalize()} (the paper: {papers[direction]}):", table(head, rows)]
    return blocks


def summary(figures, where, ours=None):
    """Every claim of every figure, and how many hold: the paper's, and apart from these our own, where `ours` says on what they are
    judged."""
    every = [(name, claim) for name, figure in figures.items() for claim in figure.claims]
    blocks = summed(figures, [one for one in every if not is_ours(one[1])], "", where)
    if ours is not None:
        blocks += summed(figures, [one for one in every if is_ours(one[1])], " beyond the paper", ours)
    return blocks


def judged(every):
    """How many of these claims hold, do not, and are undecided, in words."""
    counts = [sum(claim["holds"] is wanted for claim in every) for wanted in (True, False, None)]
    return f"{counts[0]} hold, {counts[1]} do not and {counts[2]} {'is' if counts[2] == 1 else 'are'} undecided"


def seeds_of(figure):
    return f"seeds {figure.first_seed} to {figure.first_seed + figure.seeds - 1}"


def freshness(paper, program):
    """To which program the seeds were fresh, in sentences. `program` is the one whose results the table has."""
    first, found, since = FIRST_RUN[paper]
    words = f"first run with a program built from {first}, after the last claim was added and the last criterion changed"
    if program.get("commit", "").startswith(first):
        return f"{words}. Since then {since}; the table is of before"
    return f"{words}: then {found}. Since then {since}. Here they were run again, {built_from(program)}, so that they are not fresh to that"


def confirmation(paper, figures, fresh, program):
    """Every claim on the page's seeds and beside it on those that nobody had run before."""
    pairs = []
    for name, figure in figures.items():
        again = fresh[name]
        if [claim["text"] for claim in figure.claims] != [claim["text"] for claim in again.claims]:
            sys.exit(f"{name}: the report of the fresh seeds has other claims")
        if any(claim["criterion"] != other["criterion"] for claim, other in zip(figure.claims, again.claims)):
            sys.exit(f"{name}: the report of the fresh seeds has other criteria")
        pairs += [(name, claim, other) for claim, other in zip(figure.claims, again.claims)]
    rows = []
    for name, claim, other in pairs:
        told = [text for one in (claim, other) for text in (f"{measured_claim(one)} {one['unit']}", verdict(one))]
        rows.append([f"[{name}]({name}/README.md)", re.sub(r" \((section.*|beyond the paper)\)", "", claim["text"]), *told])
    ours, theirs = seeds_of(next(iter(figures.values()))), seeds_of(next(iter(fresh.values())))
    others = sum(claim["holds"] is not other["holds"] for _, claim, other in pairs)
    title = (
        f"**Confirmation.** The same claims and criteria on {theirs}, {freshness(paper, program)}. "
        f"Of {len(pairs)} claims {judged([other for *_, other in pairs])}, and {others or 'none'} "
        f"{'have' if others > 1 else 'has'} another verdict than on {ours}:"
    )
    return [title, table(["figure", "claim", ours, "holds", theirs, "holds"], rows, ["---", "---", "---:", "---", "---:", "---"])]


def is_ours(claim):
    return claim["text"].endswith("(beyond the paper)")


def summed(figures, every, whose, where):
    """These claims in a table, and how many hold."""
    rows = []
    for name, claim in every:
        text = re.sub(r" \((section.*|beyond the paper\))", "", claim["text"])
        measured = f"{measured_claim(claim)} {claim['unit']}"
        rows.append([f"[{name}]({name}/README.md)", text, number(claim["paper"]), measured, verdict(claim)])
    title = (
        f"Of {len(every)} claims{whose} {judged([claim for _, claim in every])}, {where} "
        f"({next(iter(figures.values())).seeds} seeds; in brackets the 95 % interval):"
    )
    head = ["figure", "claim", "paper", "measured", "holds"]
    return [title, table(head, rows, ["---", "---", "---:", "---", "---"])]


def dsasync_pages(figures):
    """What each page's marks hold, by the page's path below reproductions/dsasync."""
    blocks = {name: plain_page(figures[name], metrics) for name, metrics in METRICS.items()}
    for build in (fig3, fig6, fig7, sensitivity):
        blocks[build.__name__] = build(figures[build.__name__])
    texts = {f"{name}/README.md": "\n\n".join(parts) for name, parts in blocks.items()}
    texts["README.md"] = "\n\n".join(summary(figures, "on the paper's stack at 3 ms with the algorithms as printed"))
    return texts


def cases_of(figure, metric):
    """The cases, in the report's order."""
    return list(dict.fromkeys(case for case, _, of, _ in figure.rows if of == metric))


def by_every_case(figure, metric, unit, title, direction="uplink"):
    """A line a stack, all cases of the figure side by side."""
    of = f"{direction} {metric}"
    cases = cases_of(figure, of)
    if not cases:
        return []
    rows = [[stack] + [cell(figure.row(case, stack, of)) for case in cases] for stack in figure.stacks(of)]
    return [f"{title}:", table([unit, *quoted(cases)], rows)]


def error_rates(figure):
    """activation's figure 3: the curve, and what the plain host met."""
    rates = {x: row["measured"] for (case, _, _, x), row in figure.rows.items() if case == "formula"}
    rows = [["packet error rate"] + [f"{rate:.2g}" if rate < 0.995 else "1" for rate in rates.values()]]
    blocks = ["CCK-5.5 at 1000 bytes:", table(["SNR, dB"] + [number(x) for x in rates], rows)]
    lost = by_every_case(figure, "frames lost to noise", "frames", "Frames of one transfer that noise spoiled, both directions")
    return blocks + lost


def activation_pages(figures):
    """What each page's marks hold, by the page's path below reproductions/activation."""
    if not any(stack.endswith(MEASURED_LINK) for stack in figures["fig4"].stacks("uplink throughput")):
        sys.exit("the report lacks the measured link, which the pages have: set LINKHOLD_DATA to a folder with wifi-link-s1_s4.csv")
    texts = {"fig3/README.md": "\n\n".join(error_rates(figures["fig3"]))}
    for name, metrics in ACTIVATION.items():
        blocks = [claims(figures[name])] if figures[name].claims else []
        for metric in (*metrics, ENERGY):
            blocks += by_every_case(figures[name], *metric)
        texts[f"{name}/README.md"] = "\n\n".join(blocks)
    where = "with the paper's TCP and rule on the generated walk"
    ours = "with the paper's rule on the generated walk, on the paper's TCP where the claim does not say today's"
    texts["README.md"] = "\n\n".join(summary(figures, where, ours))
    return texts


def order(fig3, claims_of):
    """What becomes of each claim on the order in every row of figure 3's tables."""
    rows, verdicts = [], {}
    for stack in fig3.stacks(AHEAD):
        cells = []
        for case in ORDER:
            row = fig3.row(case, stack, AHEAD)
            verdicts.setdefault(stack, []).append(is_at_least_one(row))
            cells.append(f"{measured_claim(row)} {VERDICTS[verdicts[stack][-1]]}")
        rows.append([stack, *cells])
    # Judged here and by the command alike, or the table is not what the claims are judged by.
    paper = next(iter(verdicts))
    for (case, (name, begins, _)), ours in zip(ORDER.items(), verdicts[paper]):
        claim = next(claim for claim in claims_of[name].claims if claim["text"].startswith(begins))
        if (claim["holds"], claim["measured"]) != (ours, fig3.measured(case, paper, AHEAD)):
            sys.exit(f"{case}: the order says otherwise than the claim that is judged on {paper}")
    counts = [" / ".join(str(sum(of[index] is wanted for of in verdicts.values())) for wanted in VERDICTS) for index in range(len(ORDER))]
    rows.append(["yes / no / undecided", *counts])
    whole = [stack for stack, of in verdicts.items() if all(of)]
    turned = [stack for stack, of in verdicts.items() if False in of]
    title = (
        f"The order in each row of [figure 3](../fig3/README.md): packets delivered over those of the best that the paper has behind, and whether the 95 % interval "
        f"is above 1, as for the claims. All five hold in {len(whole)} of {len(verdicts)} rows ({'; '.join(whole)}); in {len(turned)} at least one does not "
        f"({'; '.join(turned)}):"
    )
    return [title, table(["", *(short for *_, short in ORDER.values())], rows)]


def cr_aware_pages(figures):
    """What each page's marks hold, by the page's path below reproductions/cr-aware."""
    texts = {}
    for name, metrics in CR_AWARE.items():
        figure = figures[name]
        blocks = [claims(figure)]
        for metric in metrics:
            blocks += by_every_case(figure, *metric)
        texts[f"{name}/README.md"] = "\n\n".join(blocks)
    delivered = "uplink packets delivered"
    for stack in figures["fig4"].stacks(delivered):
        cases = cases_of(figures["fig4"], delivered)
        times = list(dict.fromkeys(x for _, of, metric, x in figures["fig4"].rows if (of, metric) == (stack, delivered)))
        rows = [[number(x)] + [cell(figures["fig4"].row(case, stack, delivered, x)) for case in cases] for x in times]
        texts["fig4/README.md"] += f"\n\nPackets delivered, {stack}:\n\n" + table(["time, s", *quoted(cases)], rows)
    texts["fig4/README.md"] += "\n\n" + "\n\n".join(order(figures["fig3"], figures))
    texts["README.md"] = "\n\n".join(summary(figures, "with the paper's NewReno"))
    return texts


def ack_gaps(figure):
    """lookahead's figure 3: how far apart ACKs are, a line for each way to delay them."""
    metrics = [f"downlink time between ACKs, {which}" for which in GAPS]
    metrics.append("downlink share of them within 10 ms of 200 ms")
    rows = []
    for stack in figure.stacks(metrics[0]):
        rows.append([stack] + [cell(figure.row("tcp", stack, metric)) for metric in metrics])
    head = ["the host acknowledges", *(f"{which}, ms" for which in GAPS), "within 10 ms of 200 ms"]
    return ["Time from one ACK to the next, where they leave the host:", table(head, rows)]


def lookahead_pages(figures):
    """What each page's marks hold, by the page's path below reproductions/lookahead."""
    texts = {"fig3/README.md": "\n\n".join(ack_gaps(figures["fig3"]))}
    for name, metrics in LOOKAHEAD.items():
        blocks = [claims(figures[name])] if figures[name].claims else []
        for metric in metrics:
            blocks += by_every_case(figures[name], *metric, direction="downlink")
        texts[f"{name}/README.md"] = "\n\n".join(blocks)
    where = "on what the scenario assumes of the paper's testbed"
    texts["README.md"] = "\n\n".join(summary(figures, where))
    return texts


def by_x(figure, metric, unit, title, columns):
    """A line for each position on the x axis; `columns` are (head, case, stack)."""
    of = f"mesh {metric}"
    rows = []
    for x in figure.positions(of):
        rows.append([f"{x:g}"] + [cell(figure.row(case, stack, of, x)) for _, case, stack in columns])
    return [f"{title}:", table([unit, *(head for head, _, _ in columns)], rows)]


def by_curve(figure, metric):
    """Columns of NewReno's curves."""
    return [(stack, "newreno", stack) for stack in figure.stacks(f"mesh {metric}")]


def of_cases(figure, metric, stack):
    """Columns of every case on one curve."""
    cases = dict.fromkeys(case for case, one, of, _ in figure.rows if one == stack and of == f"mesh {metric}")
    return [(f"`{case}`", case, stack) for case in cases]


def one_line(figure, metric, title, unit):
    """NewReno's curves, a line each, of a metric without a position."""
    of = f"mesh {metric}"
    rows = [[stack, cell(figure.row("newreno", stack, of))] for stack in figure.stacks(of)]
    return [f"{title}:", table(["", unit], rows)]


def by_sender(figure, metric, title, unit):
    """A line for each curve, a column for each sender, of a metric without a position."""
    of = f"mesh {metric}"
    stacks = figure.stacks(of)
    cases = list(dict.fromkeys(case for case, _, one, _ in figure.rows if one == of))
    rows = [[stack, *(cell(figure.row(case, stack, of)) for case in cases)] for stack in stacks]
    return [f"{title}{', ' + unit if unit else ''}:", table(["", *(f"`{case}`" for case in cases)], rows)]


# Figure 3: what the best sensing time hangs on.
DETECTORS = ("detector of -24 dB", "detector of -27 dB", "detector that never errs")


def crahn_pages(figures):
    """What each page's marks hold, by the page's path below reproductions/crahn."""
    throughput, timeouts = ("throughput", "kbit/s by"), ("timeouts", "1/s by")
    definition, text = "ON and OFF 2 s in the mean", "ON and OFF 1 s in the mean"
    blocks = {name: [claims(figure)] if figure.claims else [] for name, figure in figures.items()}
    for name, axis in (("fig2", "t_s, s"), ("fig6", "alpha, 1/s"), ("fig9", "connections")):
        figure = figures[name]
        blocks[name] += by_x(figure, throughput[0], f"{throughput[1]} {axis}", "Throughput", by_curve(figure, "throughput"))
    blocks["fig2"] += by_x(figures["fig2"], timeouts[0], f"{timeouts[1]} t_s, s", "Retransmission timeouts", by_curve(figures["fig2"], "timeouts"))
    for name, stacks in (("fig3", (definition, text, *DETECTORS)), ("notified", (definition,))):
        figure = figures[name]
        for stack in stacks:
            columns = of_cases(figure, "throughput", stack)
            blocks[name] += by_x(figure, throughput[0], f"{throughput[1]} t_s, s", f"Throughput, {stack}", columns)
            blocks[name] += by_x(figure, timeouts[0], f"{timeouts[1]} t_s, s", f"Retransmission timeouts, {stack}", columns)
    blocks["fig4"] += one_line(figures["fig4"], "timeouts", "Retransmission timeouts", "1/s")
    blocks["fig5"] += one_line(figures["fig5"], "standard deviation of the round-trip time", "Standard deviation of the smoothed round-trip time", "s")
    figure = figures["fig7"]
    columns = of_cases(figure, "efficiency", "t_s 0.025 s")
    blocks["fig7"] += by_x(figure, "efficiency", "share by M", "Efficiency (equation 4)", columns)
    blocks["fig7"] += by_x(figure, throughput[0], f"{throughput[1]} M", "Throughput", columns)
    blocks["fig8"] += one_line(figures["fig8"], "correlation of window and bandwidth", "Correlation of congestion window and available bandwidth", "")
    figure = figures["fig10"]
    blocks["fig10"] += by_x(figure, timeouts[0], f"{timeouts[1]} connections", "Retransmission timeouts", by_curve(figure, "timeouts"))
    for name, axis in (("notified-fig2", "t_s, s"), ("notified-fig6", "alpha, 1/s"), ("notified-fig9", "connections")):
        figure = figures[name]
        for stack in figure.stacks("mesh throughput"):
            columns = of_cases(figure, "throughput", stack)
            blocks[name] += by_x(figure, throughput[0], f"{throughput[1]} {axis}", f"Throughput, {stack}", columns)
            blocks[name] += by_x(figure, timeouts[0], f"{timeouts[1]} {axis}", f"Retransmission timeouts, {stack}", columns)
    figure = figures["notified-fig7"]
    columns = of_cases(figure, "efficiency", "t_s 0.025 s")
    blocks["notified-fig7"] += by_x(figure, "efficiency", "share by M", "Efficiency (equation 4)", columns)
    blocks["notified-fig7"] += by_x(figure, throughput[0], f"{throughput[1]} M", "Throughput", columns)
    blocks["notified-fig4"] += by_sender(figures["notified-fig4"], "timeouts", "Retransmission timeouts", "1/s")
    deviation = "standard deviation of the round-trip time"
    blocks["notified-fig5"] += by_sender(figures["notified-fig5"], deviation, "Standard deviation of the smoothed round-trip time", "s")
    correlation = "correlation of window and bandwidth"
    blocks["notified-fig8"] += by_sender(figures["notified-fig8"], correlation, "Correlation of congestion window and available bandwidth", "")
    texts = {f"{name}/README.md": "\n\n".join(block) for name, block in blocks.items()}
    where = "on what the scenarios assume where the paper is open"
    texts["README.md"] = "\n\n".join(summary(figures, where))
    return texts


PAPERS = {
    "dsasync": dsasync_pages,
    "cr-aware": cr_aware_pages,
    "crahn": crahn_pages,
    "activation": activation_pages,
    "lookahead": lookahead_pages,
}


def report(options, paper, known, *arguments):
    """The report of a finished run, the file `known`, or of one that is made now."""
    if options.json:
        return json.loads(known.read_text())
    # What is measured names the commit that it was built from.
    program_commit(options.program)
    command = [options.program, "reproduce", paper, *arguments, "--json"]
    finished = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if finished.returncode != 0:
        sys.exit("linkhold reproduce failed; the pages are as they were")
    return json.loads(finished.stdout)


def figures_of(report, paper):
    own = f"{paper}/"
    records = [record for record in report["figures"] if record["id"].startswith(own)]
    return {record["id"].removeprefix(own): Figure(record) for record in records}


def confirmed(options, paper, figures):
    """The paper's claims beside what fresh seeds say of them. `--quick`: claims are judged on the first stack alone."""
    seeds = next(iter(figures.values())).seeds
    again = report(options, paper, options.fresh_json, "--quick", "--seeds", str(seeds), "--first-seed", str(FRESH[paper]))
    fresh = figures_of(again, paper)
    if missing := [name for name in figures if name not in fresh]:
        sys.exit(f"the report of the fresh seeds lacks {', '.join(missing)}")
    for name, figure in fresh.items():
        if (figure.first_seed, figure.seeds) != (FRESH[paper], seeds):
            sys.exit(f"{name}: fresh are seeds {FRESH[paper]} and on, as many as the page has, and the report has {seeds_of(figure)}")
    return confirmation(paper, figures, fresh, again["program"])


def fill(options, paper):
    """Fills the pages of one paper."""
    figures = figures_of(report(options, paper, options.json), paper)
    pages = options.pages / paper
    missing = sorted(page.parent.name for page in pages.glob("*/README.md") if page.parent.name not in figures)
    if missing:
        sys.exit(f"the report lacks {', '.join(missing)}; it must be of all of `linkhold reproduce {paper}`")
    # All pages or none: a report that does not fit them stops here.
    texts = PAPERS[paper](figures)
    if paper in FRESH:
        texts["README.md"] += "\n\n" + "\n\n".join(confirmed(options, paper, figures))
    done = {pages / name: between(pages / name, OPENING, CLOSING, text) for name, text in texts.items()}
    for page, text in done.items():
        write(page, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"of {', '.join(PAPERS)}; default: all")
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "linkhold"))
    parser.add_argument(
        "--json", type=pathlib.Path, metavar="FILE", help="what `linkhold reproduce PAPER --json` printed"
    )
    parser.add_argument(
        "--fresh-json", type=pathlib.Path, metavar="FILE", help="with --json: what it printed with --quick, and --seeds and --first-seed as FRESH has them"
    )
    parser.add_argument("--pages", type=pathlib.Path, default=PAGES, help="where the papers' folders are")
    options = parser.parse_args()
    papers = options.papers or list(PAPERS)
    if options.json and not options.fresh_json and set(papers) & set(FRESH):
        parser.error(f"--json of {' or '.join(FRESH)} goes with --fresh-json")
    if unknown := [paper for paper in papers if paper not in PAPERS]:
        sys.exit(f"no paper called {', '.join(unknown)}; there are: {', '.join(PAPERS)}")
    for paper in papers:
        fill(options, paper)


if __name__ == "__main__":
    main()
