#!/usr/bin/env python3
"""Measures docs/late.md: what is left of the gain when silences are told late and nobody tells the rate.

Every cell runs in the simulator (minutes), and those of dsasync once more with the bursts' ends told as late as their beginnings. With --kernel cells run on this machine's kernel too, as root: cubic in all, reno and bbr where
bursts are told 20 ms late; finished ones are kept in out/late-table, so that it can be stopped and goes on where it was. What was
measured of either stays in docs/late.json until it is measured again, and of the kernel by cell and case, with its program. With --raw nothing is run and the page is written anew from there; with
--raw --check nothing is written, and it fails if the page is not what it would write.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import sys

from estimates import PROGRAM, ROOT, Estimates, program_commit, simulated_runs
from marks import listed, wrapped, write_whole
from raw_parts import lacking, named
from testbed_table import OUTSIDE, batch, rounded

SCENARIO = "scenarios/lateness.toml"
PAGE, RAW = ROOT / "docs" / "late.md", ROOT / "docs" / "late.json"
LATE_MS, RTTS = (0, 5, 20, 50), (3, 50, 100)
# Where a beginning is told at once, so is an end. What runs then: dsasync, and what its delay is compared with.
ENDS_LATE_MS, ENDS_CASES = LATE_MS[1:], ("fq_codel", "dsasync-")
# The pause after a burst is four times as long in the mean: the scenario's, and these.
BURSTS = {"0.3": [], "2": ["radio.primary_user.on_mean=2s", "radio.primary_user.off_mean=8s", "duration=43s"]}
PAUSE_PER_BURST = 4
TOLD = {"told": "true", "untold": "false"}
ROUTERS = ("fifo", "fq_codel", "mac80211", "drop")
# In the simulator; the kernel runs what is not cubic at this lateness only. Only the window of the first two is losses'.
CONGESTION, LOSS_BASED, ALSO, ALSO_AT_MS = ("cubic", "reno", "bbr"), ("cubic", "reno"), ("reno", "bbr"), 20
# Fixed before measuring: least share of the limit by lateness, most delay beyond fq_codel's, most that is sent for nothing.
AIM_SHARE, AIM_DELAY_S, AIM_DUPLICATES = {0: 0.97, 5: 0.97, 20: 0.97, 50: 0.95}, 0.025, 0.02
# BBR is compared with what it has over a deep FIFO without a mechanism, which hears nothing and therefore has no cells untold.
DEEP, DEEP_LIMIT = "fifo", "router.limit=1000pkt"


def cell(burst, rtt, late, told, ends=False):
    """The name of a cell; with `ends` the ends of bursts are told late, too."""
    return f"bursts of {burst} s, {rtt} ms, {late} ms late{' at both ends' * ends}, rate {told}"


def alike(late, told, ends=False):
    """The cells that are told so, and so late: name, router, and what else tells them apart."""
    for burst in BURSTS:
        for rtt in RTTS:
            for router in ROUTERS:
                yield cell(burst, rtt, late, told, ends), router, f"{burst} s, {rtt} ms, over {router}"


def every(ends=False):
    """Name and settings of each cell."""
    for burst, longer in BURSTS.items():
        for rtt in RTTS:
            for late in ENDS_LATE_MS if ends else LATE_MS:
                for told, answer in TOLD.items():
                    yield cell(burst, rtt, late, told, ends), late, [
                        *longer,
                        f"wired.rtt={rtt}ms",
                        f"radio.primary_user.detection_delay={late}ms",
                        *([f"radio.primary_user.told.end_late={late}ms"] if ends else []),
                        f"radio.rate_told={answer}",
                    ]


def left_by_late_ends(burst, late):
    """The share of the limit that is left to who sends nothing from a burst's detection until its end is told. Bursts and pauses
    are exponential: a burst that is over before it is detected is told of neither end, and a pause that is shorter than the
    lateness is lost whole."""
    burst_ms = 1e3 * float(burst)
    return 1 - math.exp(-late / burst_ms) * (1 - math.exp(-late / (PAUSE_PER_BURST * burst_ms)))


def told_at(late_ms):
    """Name and settings of the cells that are told the rate, and bursts so late."""
    names = {cell(burst, rtt, late_ms, "told") for burst in BURSTS for rtt in RTTS}
    return [(name, settings) for name, _, settings in every() if name in names]


def deep(name):
    """The cell over a deep FIFO that is like `name`, told or untold: without a mechanism nobody is told anything."""
    return f"{name.replace('rate untold', 'rate told')}, over a deep FIFO"


def small(run):
    """What is kept of a run. Of what was sent again, `twice` is what was not lost on the air, as a share of what was carried. Lost ACKs
    count as lost there, too, so that it may be too low; `twice_less_lost` has it as it is, also below 0, where more was lost."""
    totals = run["totals"]
    one = {"seed": run["seed"], "share": totals["limit_share"], "outside": totals[OUTSIDE]}
    segments = totals["goodput_bps"] * run["flows"][0]["active_s"] / 8 / 1448
    copies = sum(mechanism.get("copies_sent", 0) for mechanism in run["mechanisms"])
    one["kept_rtos"] = totals["kept_rtos"]
    one["twice_less_lost"] = (copies + totals["retransmits"] - run["link"]["air_losses"]) / max(segments, 1)
    return one | {"twice": max(0, one["twice_less_lost"])}


def simulate(job):
    """The runs of one cell for one congestion control, by case."""
    scenario, seeds, congestion, name, settings = job
    cases = {}
    for run in simulated_runs(scenario, seeds, [f"tcp.congestion={congestion}", *settings]):
        cases.setdefault(run["case"], []).append(rounded(small(run)))
    return name, congestion, cases


def simulated(options, commit):
    seeds = options.seeds
    jobs = [(SCENARIO, seeds, congestion, name, settings) for name, _, settings in every() for congestion in CONGESTION]
    few = reduced(SCENARIO, ENDS_CASES, options.out / "ends")
    jobs += [(few, seeds, congestion, name, settings) for name, _, settings in every(ends=True) for congestion in LOSS_BASED]
    deep_fifo = reduced(SCENARIO, [f'{DEEP}"'], options.out / "deep")
    jobs += [(deep_fifo, seeds, "bbr", deep(name), [*settings, DEEP_LIMIT]) for late in LATE_MS for name, settings in told_at(late)]
    found = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for count, (name, congestion, cases) in enumerate(pool.map(simulate, jobs), 1):
            found.setdefault(congestion, {})[name] = cases
            print(f"\r{count} of {len(jobs)} cells", end="" if count < len(jobs) else "\n", file=sys.stderr)
    return {"seeds": seeds, "commit": commit, "cells": found}


def reduced(scenario, cases, folder):
    """A copy of the scenario in `folder` with the cases alone whose names begin so."""
    head, *blocks = (ROOT / scenario).read_text().split("[[cases]]\n")
    kept = [block for block in blocks if block.startswith(tuple(f'name = "{case}' for case in cases))]
    if not kept:
        sys.exit(f"--cases {','.join(cases)}: no case of {scenario} has a name that begins so")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / pathlib.Path(scenario).name
    file.write_text("[[cases]]\n".join([head, *kept]))
    return str(file)


def measured(options, commit):
    """The same cells on the kernel. A router alone is told nothing, so it runs in the cells with the rate told only."""
    cases = options.cases.split(",") if options.cases else [*ROUTERS, "dsasync-", "no-copies-"]
    scenarios = {"told": reduced(SCENARIO, cases, options.out)}
    mechanisms = [case for case in cases if case not in ROUTERS]
    if mechanisms:
        scenarios["untold"] = reduced(SCENARIO, mechanisms, options.out / "mechanisms")
    jobs = []
    for name, late, settings in every():
        told = next(told for told in TOLD if name.endswith(f"rate {told}"))
        if told in scenarios:
            jobs.append((name, scenarios[told], ["cubic", *(ALSO if late == ALSO_AT_MS else ())], settings))
    deep_fifo = reduced(SCENARIO, [f'{DEEP}"'], options.out / "deep")
    for name, settings in told_at(ALSO_AT_MS):
        jobs.append((deep(name), deep_fifo, ["bbr"], [*settings, DEEP_LIMIT]))
    options.sweep_seeds = options.seeds
    found = {}
    reports = batch(options, jobs)
    if not reports:
        sys.exit(f"{options.out} has no finished runs of these cells")
    for name, report in reports.items():
        for run in report["runs"]:
            told = run["linux"]
            one = {"seed": run["seed"], "share": run["totals"]["limit_share"], "outside": run["totals"][OUTSIDE]}
            found.setdefault(told["congestion"], {}).setdefault(name, {}).setdefault(told["case"], []).append(rounded(one))
    seeds, fewer = most_runs(found), []
    for job in jobs:
        name, _, congestion, _ = job
        if name in reports:
            fewer += [(cc, name, case, count) for (cc, case), count in lacking(job, reports[name], seeds)[1].items()]
        else:
            fewer += [(cc, name, None, 0) for cc in congestion]
    group = {"seeds": seeds, "commit": commit, "cells": found}
    return group | ({"fewer": fewer} if fewer else {})


def most_runs(cells):
    """How many seeds the cells have: those of a measurement that was stopped are fewer than what was asked for."""
    return max(len(runs) for names in cells.values() for cases in names.values() for runs in cases.values())


def groups_of(kernel):
    """What the kernel ran, by measurement: each has its program and its cells. The file has one alone as it is."""
    return kernel if isinstance(kernel, list) else [kernel] if kernel else []


def beside_earlier(kernel, new):
    """The kernel's measurements with a new one, whose cells take the place of the same cells of earlier ones; the others stay, with the
    program that measured them."""
    kept = []

    def is_new(congestion, name, case):
        found = new["cells"].get(congestion, {}).get(name, {})
        return bool(found) if case is None else case in found

    for group in groups_of(kernel):
        left, fewer = {}, [one for one in group.get("fewer", []) if not is_new(*one[:3])]
        for congestion, names in group["cells"].items():
            for name, cases in names.items():
                for case, runs in cases.items():
                    if not is_new(congestion, name, case):
                        left.setdefault(congestion, {}).setdefault(name, {})[case] = runs
        if left:
            kept.append({key: value for key, value in group.items() if key != "fewer"} | {"cells": left} | ({"fewer": fewer} if fewer else {}))
    return [*kept, new] if kept else new


def together(groups):
    """The cells of all measurements."""
    cells = {}
    for group in groups:
        for congestion, names in group["cells"].items():
            for name, cases in names.items():
                cells.setdefault(congestion, {}).setdefault(name, {}).update(cases)
    return cells


def measured_by(groups):
    """What measured the kernel's cells, in sentences."""
    sentences = []
    for group in groups:
        seeds = most_runs(group["cells"])
        words = f"{seeds} seed{'s' * (seeds != 1)}, program built from {group['commit']}"
        if len(groups) > 1:
            cases = [case for names in group["cells"].values() for found in names.values() for case in found]
            words += f": {len(cases)} cells of {listed([f'`{case}`' for case in sorted(set(cases))])}"
        if group.get("fewer"):
            cells = [f"{name}, {cc}{', ' + case if case else ''}: {count}" for cc, name, case, count in group["fewer"]]
            words += f"; not whole (fewer seeds: {named(cells)})"
        sentences.append(words)
    return f"On the kernel: {'; '.join(sentences)}."


def number(estimate, scale=1.0, digits=3):
    mean, half = estimate
    if mean is None:
        return "–"
    return f"{mean * scale:.{digits}f}" + ("" if half is None else f" ± {half * scale:.{digits}f}")


def more_or_less(difference):
    return f"{abs(difference):.3f} {'less' if difference < 0 else 'more'}"


def shared_words(compared, congestions, simulated_ones):
    """How many of the cells that both stacks ran are alike, those with a mechanism and those of a router alone, and which differ most.
    `compared` has (difference, congestion control, case, words); `congestions` are the kernel's."""
    only = [one.upper() for one in congestions if one not in simulated_ones]
    without = f"; the simulator has no {listed(only)}" if only else ""
    lines = []
    for is_router, kind in ((False, "with a mechanism"), (True, "of a router alone")):
        found = sorted([one for one in compared if (one[2] in ROUTERS) == is_router], reverse=True)
        if not found:
            continue
        within = sum(difference <= 0.05 for difference, *_ in found)
        cases = listed([f"`{case}`" for case in sorted({case for _, _, case, _ in found})])
        ran = listed([one for one in congestions if any(one == congestion for _, congestion, *_ in found)])
        cell_or_cells, is_or_are = "cells" if len(found) > 1 else "cell", "is" if within == 1 else "are"
        words = f"Of {len(found)} {cell_or_cells} {kind} ({cases}; {ran}{without}) {within} {is_or_are} within 5 % of the simulator. Those that differ most:"
        lines += [*wrapped(words), "", *(f"- {words}" for *_, words in found[:10]), ""]
    return [*lines, *wrapped("[testbed/simulator.md](testbed/simulator.md) compares more plain routers with the kernel.")]


class Page:
    def __init__(self, raw):
        self.raw, self.estimates = raw, Estimates()

    def cells(self, stack):
        if stack == "kernel":
            return together(groups_of(self.raw.get("kernel")))
        return self.raw.get(stack, {}).get("cells", {})

    def values(self, congestion, name, case, key, stack="simulator"):
        runs = self.cells(stack).get(congestion, {}).get(name, {}).get(case, [])
        return [run[key] for run in runs if run[key] is not None]

    def of(self, *words, **named):
        found = self.values(*words, **named)
        return self.estimates.of(found) if found else (None, None)

    def beyond(self, congestion, name, case):
        """p99 outside silences beyond that over fq_codel without a mechanism, paired by seed."""
        return self.differences(congestion, "outside", (name, case), (name, "fq_codel"))

    def beyond_deep(self, name, case):
        """BBR's share of the limit beyond what it has over a deep FIFO without a mechanism, paired by seed."""
        return self.differences("bbr", "share", (name, case), (deep(name), DEEP))

    def differences(self, congestion, key, ours, theirs):
        """A number of some cell's runs beyond that of another's with the same seeds. Each is a name and a case."""
        numbers = []
        for name, case in (ours, theirs):
            runs = self.cells("simulator").get(congestion, {}).get(name, {}).get(case, [])
            # Runs that were kept without their seeds are those of all seeds, in their order.
            numbers.append({run.get("seed", place): run[key] for place, run in enumerate(runs, 1) if run[key] is not None})
        if numbers[0].keys() != numbers[1].keys():
            sys.exit(f"{', '.join(ours)}: {key} is known of the seeds {sorted(numbers[0])}, and of {', '.join(theirs)} of {sorted(numbers[1])}")
        return self.estimates.of([number - numbers[1][seed] for seed, number in numbers[0].items()])

    def verdicts(self, mechanism, told, late, ends=False, among=LOSS_BASED):
        """By aim: how many cells of a lateness meet it: yes, undecided, no; the worst mean, and where."""
        # What is to be low has its sign turned, so that every aim is a least.
        aims = {"share": (AIM_SHARE[late], 1), "delay": (AIM_DELAY_S, -1), "twice": (AIM_DUPLICATES, -1), "kept_rtos": (0, -1)}
        found = {key: ([0, 0, 0], []) for key in aims}
        for congestion in among:
            for name, router, where in alike(late, told, ends):
                case = f"{mechanism}-{router}"
                for key, (aim, sign) in aims.items():
                    if key == "share" and congestion == "bbr":
                        aim, (mean, half) = 0, self.beyond_deep(name, case)
                    else:
                        mean, half = self.beyond(congestion, name, case) if key == "delay" else self.of(congestion, name, case, key)
                    counts, means = found[key]
                    low, high = sign * (mean - aim) - (half or 0), sign * (mean - aim) + (half or 0)
                    if key == "kept_rtos":
                        # Every timeout is to be undone: one that was not is a miss, whatever an interval of the means has.
                        low = high = -max(self.values(congestion, name, case, key))
                    counts[0 if low >= 0 else 2 if high < 0 else 1] += 1
                    means.append((sign * mean, f"{congestion}, {where}"))
        return {key: (", ".join(map(str, counts)), aims[key][1] * min(means)[0], min(means)[1]) for key, (counts, means) in found.items()}

    AIMS_HEAD = (
        "share of the limit | least | p99 outside silences beyond fq_codel's | at most | sent for nothing | at most | timeouts not undone | a run, at most |"
    )

    def judged(self, mechanism, told, late, ends=False, among=LOSS_BASED):
        """The aims of a row of cells, and the worst of them."""
        found = self.verdicts(mechanism, told, late, ends, among)
        (share, least, where), (delay, most, _), (twice, dear, _), (kept, often, _) = (found[key] for key in ("share", "delay", "twice", "kept_rtos"))
        shown = f"{least:+.3f}" if among == ("bbr",) else f"{least:.3f}"
        return f"{share} | {shown} ({where}) | {delay} | {1e3 * most:+.1f} ms | {twice} | {100 * dear:.1f} % | {kept} | {often:.1f} |"

    def aims(self):
        lines = [f"| | told, late | {self.AIMS_HEAD}", "|---" * 10 + "|"]
        for mechanism in ("dsasync", "no-copies"):
            for told in TOLD:
                for late in LATE_MS:
                    lines.append(f"| {mechanism}, rate {told} | {late} ms | {self.judged(mechanism, told, late)}")
        return lines

    def bbr_aims(self):
        """The same for BBR, whose goodput is judged by what it has over a deep FIFO."""
        if not self.raw["simulator"]["cells"].get("bbr"):
            return ["BBR has not been measured in the simulator (`make late-table`).", ""]
        head = self.AIMS_HEAD.replace("share of the limit", "share of the limit beyond the deep FIFO's")
        lines = [BBR, "", f"| | told, late | {head}", "|---" * 10 + "|"]
        for told in TOLD:
            for late in LATE_MS:
                lines.append(f"| dsasync, rate {told} | {late} ms | {self.judged('dsasync', told, late, among=('bbr',))}")
        alone = [self.of("bbr", deep(name), DEEP, "outside") for late in LATE_MS for name, _ in told_at(late)]
        over = [1e3 * mean for mean, _ in alone]
        return [*lines, "", f"Over the deep FIFO BBR's own 99th percentile outside silences is {min(over):.0f} to {max(over):.0f} ms.", ""]

    def ends_late(self):
        """What is left where the ends of bursts are told as late as their beginnings."""
        name, router, _ = next(alike(ENDS_LATE_MS[0], "told", ends=True))
        if not self.values(CONGESTION[0], name, f"dsasync-{router}", "share"):
            return ["Ends told late have not been measured (`make late-table`).", ""]
        lines = [ENDS, "", f"| | told, late | left ({' s, '.join(BURSTS)} s) | {self.AIMS_HEAD}", "|---" * 11 + "|"]
        for told in TOLD:
            for late in ENDS_LATE_MS:
                left = ", ".join(f"{left_by_late_ends(burst, late):.3f}" for burst in BURSTS)
                lines.append(f"| dsasync, rate {told} | {late} ms | {left} | {self.judged('dsasync', told, late, ends=True)}")
        columns = [(router, told) for router in ROUTERS for told in ("untold", "told")]
        heads = [router if told == "told" else f"{router}, rate untold" for router, told in columns]
        lines += ["", "| bursts, round trip, congestion control, told late by | " + " | ".join(heads) + " |", "|---" * (1 + len(columns)) + "|"]
        for burst in BURSTS:
            for rtt in RTTS:
                for congestion in LOSS_BASED:
                    for late in ENDS_LATE_MS:
                        row = [f"{burst} s, {rtt} ms, {congestion}, {late} ms"]
                        row += [self.shown(congestion, cell(burst, rtt, late, told, ends=True), f"dsasync-{router}") for router, told in columns]
                        lines.append("| " + " | ".join(row) + " |")
        return [*lines, ""]

    def shown(self, congestion, name, case):
        """A cell of the tables: share of the limit and 99th percentile."""
        return f"{number(self.of(congestion, name, case, 'share'))}, {number(self.of(congestion, name, case, 'outside'), 1e3, 0).split(' ')[0]} ms"

    def tables(self):
        lines = []
        for burst in BURSTS:
            for rtt in RTTS:
                for congestion in CONGESTION:
                    if congestion not in self.raw["simulator"]["cells"]:
                        continue
                    lines += [f"## Bursts of {burst} s, {rtt} ms, {congestion}", ""]
                    lines += ["| router, told late by | no mechanism | dsasync, rate untold | dsasync | no-copies, rate untold | no-copies |", "|---|---|---|---|---|---|"]
                    for router in ROUTERS:
                        for late in LATE_MS:
                            row = [f"{router}, {late} ms"]
                            for case, told in ((router, "told"), (f"dsasync-{router}", "untold"), (f"dsasync-{router}", "told"), (f"no-copies-{router}", "untold"), (f"no-copies-{router}", "told")):
                                name = cell(burst, rtt, late, told)
                                shown = self.shown(congestion, name, case)
                                kernel, _ = self.of(congestion, name, case, "share", stack="kernel")
                                row.append(shown + ("" if kernel is None else f"; kernel {kernel:.3f}"))
                            lines.append("| " + " | ".join(row) + " |")
                    if congestion == "bbr":
                        lines += [self.over_deep(cell(burst, rtt, late, "told"), late) for late in LATE_MS]
                    lines.append("")
        return lines

    def over_deep(self, name, late):
        """A row of BBR over a deep FIFO, which has no mechanism."""
        kernel, _ = self.of("bbr", deep(name), DEEP, "share", stack="kernel")
        shown = self.shown("bbr", deep(name), DEEP) + ("" if kernel is None else f"; kernel {kernel:.3f}")
        return f"| fifo of 1000, {late} ms | {shown} | | | | |"

    def kernel(self):
        """What the kernel carried beside the simulator, and what only the kernel has."""
        groups, every_cell = groups_of(self.raw.get("kernel")), self.cells("kernel")
        if not groups:
            return ["The kernel has not been measured (`make late-table-kernel`).", ""]
        lines = [measured_by(groups), ""]
        compared = []
        for congestion, names in every_cell.items():
            for name, cases in names.items():
                for case in cases:
                    ours, theirs = self.of(congestion, name, case, "share")[0], self.of(congestion, name, case, "share", stack="kernel")[0]
                    if ours and theirs is not None:
                        words = f"{congestion}, {name}, {case}: kernel {theirs:.3f}, simulator {ours:.3f}"
                        compared.append((abs(theirs / ours - 1), congestion, case, words))
        beyond = self.beyond_the_simulators(every_cell)
        return [*lines, *self.kernel_aims(), "", *(wrapped(beyond) + [""] if beyond else []), *shared_words(compared, list(every_cell), self.raw["simulator"]["cells"]), ""]

    def beyond_the_simulators(self, cells):
        """What can be said of the kernel's delay where it ran no fq_codel alone: how far it is beyond the simulator's there."""
        if any("fq_codel" in cases for names in cells.values() for cases in names.values()):
            return ""
        found = []
        for congestion in [one for one in LOSS_BASED if one in cells]:
            for told in TOLD:
                for late in LATE_MS:
                    for name, router, where in alike(late, told):
                        ours, _ = self.of(congestion, name, f"dsasync-{router}", "outside", stack="kernel")
                        theirs, _ = self.of(congestion, name, "fq_codel", "outside")
                        if ours is not None and theirs is not None:
                            found.append((ours - theirs, f"{congestion}, rate {told}, {late} ms late, {where}"))
        if not found:
            return ""
        met = sum(beyond <= AIM_DELAY_S for beyond, _ in found)
        most, where = max(found)
        return (
            "The kernel ran no fq_codel alone, so the aim for delay, which is relative to that, has no verdict. "
            f"Beside the simulator's fq_codel the kernel's delay is within the aim in {met} of {len(found)} cells; the most is {1e3 * most:+.1f} ms ({where})."
        )

    def kernel_aims(self):
        """The aims for goodput and delay on the kernel, by the mean of the seeds: they are too few for an interval."""
        cells, beyond_deep = self.cells("kernel"), []
        by = "one seed" if most_runs(cells) == 1 else "by the mean of the seeds"
        lines = [
            f"| | told, late | cells at or above the aim, {by} | least share | p99 outside silences, at most | at most 25 ms beyond fq_codel's | the most |",
            "|---|---|---|---|---|---|---|",
        ]
        for congestion in cells:
            for told in TOLD:
                for late in LATE_MS:
                    found, delays, beyond = [], [], []
                    for (name, router, where), (alone, _, _) in zip(alike(late, told), alike(late, "told")):
                        case = f"dsasync-{router}"
                        share, _ = self.of(congestion, name, case, "share", stack="kernel")
                        if share is None:
                            continue
                        aim = AIM_SHARE[late]
                        if congestion == "bbr":
                            aim, _ = self.of(congestion, deep(name), DEEP, "share", stack="kernel")
                            if aim is None:
                                continue
                            beyond_deep.append(share - aim)
                        found.append((share, where, share >= aim))
                        delays.append((self.of(congestion, name, case, "outside", stack="kernel")[0], where))
                        fair, _ = self.of(congestion, alone, "fq_codel", "outside", stack="kernel")
                        if fair is not None:
                            beyond.append((delays[-1][0] - fair, where))
                    if found:
                        met = sum(is_met for _, _, is_met in found)
                        (least, where, _), (delay, slowest) = min(found), max(delays)
                        judged = f"{sum(more <= AIM_DELAY_S for more, _ in beyond)} of {len(beyond)} | {1e3 * max(beyond)[0]:+.1f} ms ({max(beyond)[1]})" if beyond else "not measured | –"
                        lines.append(
                            f"| dsasync, {congestion}, rate {told} | {late} ms | {met} of {len(found)} | {least:.3f} ({where}) | {1000 * delay:.0f} ms ({slowest}) | {judged} |"
                        )
        if beyond_deep:
            over = [self.of("bbr", deep(name), DEEP, "outside", stack="kernel")[0] for name, _ in told_at(ALSO_AT_MS)]
            lines += [
                "",
                "For BBR the aim is the goodput that it has over a FIFO of 1000 packets without a mechanism, whose 99th percentile outside silences is "
                f"{1000 * min(over):.0f} to {1000 * max(over):.0f} ms. `dsasync` has between {more_or_less(min(beyond_deep))} and {more_or_less(max(beyond_deep))} than that.",
            ]
        return lines

    def text(self):
        told = self.raw["simulator"]
        lines = WORDS.format(seeds=told["seeds"], commit=told["commit"], scenario=SCENARIO).split("\n")
        lines += ["## What was aimed at", "", AIMS, "", *self.aims(), "", "## BBR", "", *self.bbr_aims(), "## Ends late, too", "", *self.ends_late(), "## Beside the kernel", "", *self.kernel(), *self.tables()]
        return "\n".join(lines)


WORDS = """# Silences told late, rates told by nobody

Written by `make late-table` and, as to the kernel, `make late-table-kernel`; do not edit. {seeds} seeds in the simulator, program built from {commit}; intervals are 95 %.

One bulk download over a radio on which a primary user transmits a fifth of the time ([`{scenario}`](../{scenario})), over four
routers: a FIFO of 100 packets, fq_codel, fq_codel as Wi-Fi has it (mac80211), and a FIFO that drops what arrives in a silence. **What is told**: each
burst's beginning late by what the row says (nobody knows before; until then the radio sends into the burst, and what it sends collides and is given
up), its end at once (as late in [one part](#ends-late-too)), and the channel's exact rate or no rate. The row of 0 ms with the rate told is an oracle.

- `dsasync`: the default, which keeps copies and sends again what a silence took before it was told; `no-copies`: the same with `recover = false`.

A cell is goodput as a share of the limit (what a perfect transport would carry in the time that is not silent), and the 99th percentile of delay of
segments that met no silence.
"""
AIMS = (
    "Fixed before measuring: at least 0.97 of the limit where bursts are told up to 20 ms late and 0.95 at 50 ms, in every cell of cubic and "
    "reno; the 99th percentile of delay outside silences at most 25 ms beyond that over fq_codel without a mechanism; at most 2 % sent for nothing; "
    "every timeout undone (a reduction of the window for a timeout counts as not undone until the sender finds that the timeout was needless). "
    "Each row below sums up 48 cells: three round trips, two lengths of bursts, two congestion controls and four routers; for each aim it counts the cells that meet the aim, are "
    "undecided, and miss the aim, by the 95 % interval over the seeds, and has the worst cell's mean. "
    "\"Sent for nothing\" is all that was sent again, less all frames that were lost on the air, ACKs among them, and not below 0. So it may be too low, by up to "
    "as many segments as ACKs were lost; and too high, since the mechanism's copies of the warm-up count, and what was lost in it does not. A timeout is judged by itself: a cell misses that aim if one run has a timeout that was not undone."
)
BBR = (
    "BBR (version 1, the kernel's) takes no loss for congestion, so that its aim is another, fixed before measuring like the rest: at least the "
    "goodput that it has over a FIFO of 1000 packets without a mechanism, in the same cell, seed by seed. Each row sums up 24 cells."
)
ENDS = (
    "Here the mechanism is told each burst's end as late as its beginning; the radio itself sends again at once. A sender that waits until it is told the end loses "
    "that lateness from every pause that follows a burst it was told of. \"Left\" is what remains of the limit after that, computed from the means of bursts and pauses "
    "for a mechanism that sends nothing until the end is told. The aims and verdicts are those above: in every row more is left than they ask for. "
    "The cells below the verdicts are goodput as a share of the limit and the 99th percentile, as in the tables further down."
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="default: 10 in the simulator, 2 on the kernel")
    parser.add_argument("--kernel", action="store_true", help="measure on the kernel instead of in the simulator (as root)")
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "late-table", help="with --kernel: finished cells")
    parser.add_argument("--jobs", type=int, help="with --kernel: cells side by side (default: as many as the host keeps up with)")
    parser.add_argument("--cases", help="with --kernel: cases to run, or how their names begin, with commas between (default: all)")
    parser.add_argument("--known", action="store_true", help="with --kernel: run nothing, write the page of what there is")
    parser.add_argument("--raw", action="store_true", help="run nothing; write the page from docs/late.json")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, fail if the page differs")
    options = parser.parse_args()
    raw = json.loads(RAW.read_text()) if RAW.exists() else {}
    if not options.raw:
        options.seeds = options.seeds or (2 if options.kernel else 10)
        if options.kernel:
            raw["kernel"] = beside_earlier(raw.get("kernel"), measured(options, program_commit(options.program)))
        else:
            raw["simulator"] = simulated(options, program_commit())
        RAW.write_text(json.dumps(raw, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    text = Page(raw).text()
    write_whole(PAGE, text, options.check, "scripts/late_table.py --raw")


if __name__ == "__main__":
    main()
