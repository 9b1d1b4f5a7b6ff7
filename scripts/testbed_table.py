#!/usr/bin/env python3
"""Measures docs/testbed: the same scenarios against the kernel (linkhold testbed) and in the simulator (linkhold run).

All cells of all parts run side by side in one fleet. Finished ones are kept in out/testbed-table, so that it can be stopped and
goes on where it was; with --known it runs nothing and writes the pages of what there is. Needs root.

With --raw it measures nothing and needs no root: it writes the pages anew from raw.json, for when only their words have
changed; with --raw --check it writes nothing and fails if a page is not what it would write. What the simulator answered is not
in raw.json: simulator.md keeps it. The numbers that the HTML report quotes go to TOLD_LESS, too.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tomllib

import raw_parts
from estimates import PROGRAM, ROOT, Estimates, program_commit, simulated_runs
from marks import listed, wrapped, write
from raw_parts import MEASURED

DOCS = ROOT / "docs" / "testbed"
TOLD_LESS = ROOT / "crates" / "linkhold-results" / "src" / "html" / "told_less.rs"
RTTS = (3, 50, 100)
TABLE = "scenarios/testbed-table.toml"
SWEEP = "scenarios/silence-sweep.toml"
SILENCES = (0.1, 0.3, 1, 2, 5)
# Radio on after each silence, silences a run, and the start of the first, s: as the scenario's comment says.
SWEEP_ON, SWEEP_COUNT, SWEEP_START = 4.5, 4, 5
LONG = ["radio.primary_user.on_mean=2s", "radio.primary_user.off_mean=8s", "duration=43s"]
# Name, scenario, congestion controls, overrides.
GRID = [(f"burst0.3-rtt{rtt}", TABLE, ["reno", "cubic", "bbr"], [f"wired.rtt={rtt}ms"]) for rtt in RTTS]
GRID += [(f"burst2-rtt{rtt}", TABLE, ["cubic"], [f"wired.rtt={rtt}ms", *LONG]) for rtt in RTTS]
# What the front page's cell is worth where less is told: in the file's order, and how `told_words` calls it.
LATE_UNTOLD, LATE, UNTOLD, LATE_NO_COPIES = "late-untold-rtt100", "late-rtt100", "untold-rtt100", "late-no-copies-rtt100"
LATE_MS = 20
# Many parts are this program's.
BEFORE_COPIES = "12cce1e"
AT_100, LATER = "wired.rtt=100ms", f"radio.primary_user.detection_delay={LATE_MS}ms"
TOLD = [
    (LATE_UNTOLD, TABLE, ["cubic"], [AT_100, LATER, "radio.rate_told=false"]),
    (LATE, TABLE, ["cubic"], [AT_100, LATER]),
    (UNTOLD, TABLE, ["cubic"], [AT_100, "radio.rate_told=false"]),
    (LATE_NO_COPIES, TABLE, ["cubic"], [AT_100, LATER, "dsasync.recover=false"]),
]
TOLD_TITLES = {
    LATE_UNTOLD: f"Each burst {LATE_MS} ms late, and nobody tells the rate",
    LATE: f"Each burst {LATE_MS} ms late, the rate told",
    UNTOLD: "Each burst at once, and nobody tells the rate",
    LATE_NO_COPIES: f"Each burst {LATE_MS} ms late, the rate told, without copies (`recover = false`)",
}
OTHERS = [
    ("clean", "scenarios/clean.toml", ["reno", "cubic", "bbr"], ["duration=25s"]),
    ("short-flows", "scenarios/short-flows.toml", ["cubic"], []),
    ("many-stations", "scenarios/many-stations.toml", ["cubic"], ["warm_up=3s", "duration=23s"]),
    ("uplink", "scenarios/dsasync-uplink.toml", ["cubic"], ["warm_up=3s", "duration=23s"]),
]


def sweep_job(length, rtt):
    period = length + SWEEP_ON
    overrides = {"wired.rtt": f"{rtt}ms", "radio.sensing.duration": f"{length}s", "radio.sensing.period": f"{period}s"}
    overrides["duration"] = f"{SWEEP_START + SWEEP_COUNT * period:g}s"
    sets = [f"{key}={value}" for key, value in overrides.items()]
    return (f"silences-{length}s-rtt{rtt}", SWEEP, ["reno", "cubic", "bbr"], sets)


# What the presets of `dsasync` do, for a reader of a page who has not their code.
PRESETS = {
    "hold": "holds packets in a silence, and closes no window",
    "freeze": "holds packets; holds windows down to the bandwidth-delay product; closes a window that its sender has used up in a silence "
    "(Algorithm 1), and reopens it when the silence ends",
    "freeze+nudge": "as `freeze`, but reopens a window ahead of an end that is known, and repeats that until the sender is heard",
    "recommended": "holds packets; holds windows down to the bandwidth-delay product; closes them only when space runs low",
    "paper": "as the paper prints it, with the paper's values",
}
# Programs whose parts could be simulated by another one, which was not noted.
SIMULATOR_NOT_NOTED = ("12cce1e", "e0d7c40", "8baee09")

# The delay that the pages compare: of segments that met no silence, 99th percentile.
OUTSIDE = "delay_p99_outside_silence_s"
SWEEPS = [sweep_job(length, rtt) for length in SILENCES for rtt in RTTS]
EVERY = GRID + TOLD + OTHERS + SWEEPS
ESTIMATES = Estimates()


def batch(options, jobs):
    """The reports of `jobs` by name: cells that are not known yet are run first, all together."""
    entries = []
    for name, scenario, congestion, overrides in jobs:
        seeds = options.sweep_seeds if scenario == SWEEP else options.seeds
        entries.append({"name": name, "scenario": scenario, "cc": congestion, "set": overrides, "seeds": seeds})
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "batch.json"
    file.write_text(json.dumps(entries, indent=1) + "\n")
    command = [options.program, "testbed", "--batch", file, "--out", options.out, "--resume", "--json"]
    if options.known:
        command.append("--known")
    if options.jobs:
        command += ["--jobs", str(options.jobs)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = process.stdout.readlines()
        except KeyboardInterrupt:
            # linkhold got the interrupt, too, and removes its namespaces.
            process.wait()
            sys.exit("stopped; the same command goes on, --known writes the pages of what there is")
    if process.returncode != 0:
        sys.exit("linkhold testbed failed; the same command goes on, --known writes the pages of what there is")
    reports = {}
    for line in lines:
        report = json.loads(line)
        if report["runs"]:
            reports[report["name"]] = report
    return reports


def average(numbers):
    return statistics.fmean(numbers) if numbers else math.nan


def simulate(program, seeds, job):
    """The same cells in the simulator."""
    _, scenario, congestion, overrides = job
    runs = []
    for name in congestion:
        for run in simulated_runs(scenario, seeds, [f"tcp.congestion={name}", *overrides], program):
            run["linux"] = {"congestion": name, "case": run["case"]}
            runs.append(run)
    return {"runs": runs}


def from_raw(kept):
    """The reports as far as the pages need them, from what raw.json keeps of each run."""
    reports = {}
    for part in (job[0] for job in EVERY if job[0] in kept):
        runs = []
        for one in kept[part]:
            told = {"case": one["case"], "congestion": one["cc"], "silence_summary": one.get("silences"), **one}
            held = [{"held_bytes_peak": one["held_bytes_peak"]}] if "held_bytes_peak" in one else []
            runs.append({"seed": one["seed"], "totals": one, "linux": told, "mechanisms": held})
        reports[part] = {"runs": runs}
    return reports


def radio_of(scenario):
    with (ROOT / scenario).open("rb") as file:
        return tomllib.load(file)["radio"]


def announced(scenario):
    """Whether `scenario` tells the mechanism ahead when the radio will sense."""
    radio = radio_of(scenario)
    sensing = [*radio.get("station_sensing", []), *([radio["sensing"]] if "sensing" in radio else [])]
    return any(one.get("announced", True) for one in sensing)


def ahead_words(scenarios):
    return "The times of sensing were told ahead. " if any(map(announced, scenarios)) else ""


def length_words(scenarios):
    known = any(radio_of(scenario).get("sensing", {}).get("told", {}).get("length_known") for scenario in scenarios)
    return ", with how long it would be (which `freeze+nudge` alone uses)" if known else ""


def told_words(scenarios, less):
    """What was told in the cells of `scenarios`, and what the default carries otherwise (`less`)."""
    return [
        "**What was told.** In every cell with a mechanism the agent knew the channel's exact rate and was told of every silence at its",
        f"first moment{length_words(scenarios)}. {ahead_words(scenarios)}[told.md](told.md) has what less is worth (at 100 ms with cubic and bursts of 0.3 s, over",
        f"fq_codel, program built from {less['commit']}): where each burst is told {less['late_ms']} ms late, the default carries {less['late']} of the limit,",
        f"and {less['late_untold']} where nobody tells the rate either; without copies (`recover = false`) it carries {less['late_no_copies']}. A program built",
        f"from {BEFORE_COPIES} keeps no copies.",
        "",
    ]


def told_less(reports, measured):
    """What the default carries where less is told: what the pages, the README and the HTML report quote."""

    def of(part):
        return shown(values(cells(reports[part])["cubic", "dsasync"], share), digits=3)

    return {
        "what": "Goodput of dsasync over fq_codel as a share of the limit, on the kernel, where less is told than in table.md",
        "measured": "by make testbed-table (told.md): cubic, 100 ms round trip, bursts of 0.3 s and sensing",
        "late_ms": LATE_MS,
        "late_untold": of(LATE_UNTOLD),
        "late": of(LATE),
        "rate_untold": of(UNTOLD),
        "late_no_copies": of(LATE_NO_COPIES),
        "commit": measured[LATE]["cubic"]["commit"],
    }


def told_less_rust(less, runs):
    """The same for the HTML report, as far as it quotes it."""
    return f"""//! Written by scripts/testbed_table.py; do not edit. What the default carried where less was told.

/// How late each burst was told, ms.
pub(super) const LATE_MS: u32 = {less["late_ms"]};
/// Runs of each cell.
pub(super) const RUNS: u32 = {runs};
/// Share of the limit where nobody told the rate, either.
pub(super) const LATE_UNTOLD: &str = "{less["late_untold"]}";
/// Share of the limit where the rate was told.
pub(super) const LATE: &str = "{less["late"]}";
"""


def told_page(reports, written):
    page = [
        "# What the modes carry where less is told",
        "",
        written,
        "",
        f"The cell of [table.md](table.md) with cubic at 100 ms and bursts of 0.3 s ([`{TABLE}`](../../{TABLE})). The first table is how most radios are:",
        f"the base station hears of each burst {LATE_MS} ms late (`radio.primary_user.detection_delay`), so that {LATE_MS} ms of packets are sent into the",
        "burst and collide, and nobody tells it the channel's rate (`radio.rate_told = false`). A burst's end is told at once. In the next two tables one of the two is told. The last table",
        "is without copies at the base station (`recover = false`). In all of them the sensing is told ahead.",
        "What the plain routers carry does not depend on what is told, but on how soon the radio itself falls silent.",
        "Columns and cases are those of table.md.",
        "",
        *case_list(TABLE),
        "",
    ]
    for part, report in reports.items():
        page += [f"## {TOLD_TITLES[part]}", "", *cell_table(report, "cubic"), ""]
    return "\n".join(page)


def cells(report):
    """Runs by (congestion control, case), in order."""
    found = {}
    for run in report["runs"]:
        found.setdefault((run["linux"]["congestion"], run["linux"]["case"]), []).append(run)
    return found


def values(runs, get):
    found = []
    for run in runs:
        value = get(run)
        if value is not None:
            found.append(value)
    return found


def interval(numbers):
    """Mean and half of its 95 % interval (None with fewer than two)."""
    return ESTIMATES.of(numbers)


def share(run):
    return run["totals"]["limit_share"]


def shown(numbers, scale=1.0, digits=3):
    mean, half = interval(numbers)
    if mean is None:
        return "-"
    text = f"{mean * scale:.{digits}f}"
    return text if half is None else f"{text} ± {half * scale:.{digits}f}"


def milliseconds(runs, get):
    numbers = values(runs, get)
    if not numbers:
        return "-"
    mean = statistics.fmean(numbers) * 1e3
    return f"{mean:.0f}" if mean >= 10 else f"{mean:.1f}"


def total(key):
    return lambda run: run["totals"][key]


def linux(key):
    return lambda run: run["linux"][key]


def counter(key):
    return lambda run: run["linux"]["counters"].get(key, 0)


def rounded(record):
    """Six digits are more than three seeds can tell."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in record.items()}


def small(runs, alike):
    """What of each run is kept in the repository."""
    kept = []
    for run in runs:
        told = run["linux"]
        keys = ("limit_share", "goodput_bps", "retransmits", "delay_p50_s", "delay_p99_s", "delay_std_s", "jain_index")
        keys += ("delay_p50_outside_silence_s", "delay_p99_outside_silence_s")
        keys += ("delay_p95_s", "delay_p95_outside_silence_s", "queueing_delay_p50_s", "queueing_delay_p95_s")
        one = {"case": told["case"], "cc": told["congestion"], "seed": run["seed"]}
        one |= {key: run["totals"][key] for key in keys}
        one["silent_fraction"] = run["link"]["silent_fraction"]
        one["goodput_limit_bps"] = run["link"]["goodput_limit_bps"]
        one |= {key: told[key] for key in ("resumes", "resume_p50_s", "edge_late_p99_s", "event_late_p99_s")}
        one |= {key: told[key] for key in ("transit_p50_s", "transit_p99_s", "zero_windows", "counters")}
        if told["completions"]:
            one["completions"] = {key: value for key, value in told["completions"].items() if key != "all_s"}
        # What single silences did would be most of the file; where they are all alike, their sum is kept.
        if alike and told["silence_summary"]:
            one["silences"] = rounded(told["silence_summary"])
        if run["link"].get("told"):
            one["told"] = rounded(run["link"]["told"])
        if run["mechanisms"]:
            one["held_bytes_peak"] = run["mechanisms"][0]["held_bytes_peak"]
        one["counters"] = {key: value for key, value in one["counters"].items() if value}
        kept.append(rounded(one))
    return kept


def raw(reports):
    """What is kept of each part."""
    return {part: small(report["runs"], part.startswith("silences-")) for part, report in reports.items()}


def head(title, written, scenarios, less):
    return [f"# {title}", "", written, "", *told_words(scenarios, less)]


def preset_list(presets):
    """What these presets do; `freeze`, too, where another is said in its words."""
    named = presets | {"freeze"} if "freeze+nudge" in presets else presets
    names = {preset: f"`{preset}`" + ", the default mode" * (preset == "recommended") for preset in PRESETS}
    items = [wrapped(f"- {names[preset]}: {words}") for preset, words in PRESETS.items() if preset in named]
    return ["The presets of `dsasync`:", "", *(line for item in items for line in item)]


def case_list(scenario):
    """What each case of `scenario` is, and what the presets of the cases do."""
    lines, presets = cases_of(scenario)
    return [*lines, "", *preset_list(presets)]


def cases_of(scenario):
    """What each case of `scenario` is, in the scenario's own words; and the presets that the cases have."""
    with (ROOT / scenario).open("rb") as file:
        document = tomllib.load(file)
    router = document["router"]
    lines, presets = [], set()
    for case in document["cases"]:
        changed = case.get("set", {})
        queue = changed.get("router.queue", router["queue"])
        if queue == "fifo":
            queue += f" of {changed.get('router.limit', router['limit']).removesuffix('pkt')} packets"
        in_silence = changed.get("router.in_silence", router.get("in_silence"))
        words = [f"over {queue}" if "mechanism" in case else queue]
        settings = {}
        if "mechanism" in case:
            # A name, or a table of name, preset and settings.
            mechanism = case["mechanism"]
            settings = {"name": mechanism} if isinstance(mechanism, str) else dict(mechanism)
            name, preset = settings.pop("name"), settings.pop("preset", case.get("preset"))
            words.insert(0, f"`{name}` with preset `{preset}`" if preset else "the default mode")
            presets.add(preset or "recommended")
        if in_silence == "drop":
            words.append("that drops what arrives in a silence")
        own = [f"`{key} = {json.dumps(value)}`" for key, value in settings.items()]
        others = [key for key in changed if key not in ("router.queue", "router.limit", "router.in_silence")]
        own += [f"`{key} = {json.dumps(changed[key])}`" for key in others]
        settings_words = f", with {' and '.join(own)}" if own else ""
        lines.append(f"- `{case['name']}`: {' '.join(words)}{settings_words}")
    return lines, presets


def mechanism_cases(reports):
    """The cases with a mechanism, in the order in which they are met."""
    runs = [run for report in reports.values() for run in report["runs"]]
    return list(dict.fromkeys(run["linux"]["case"] for run in runs if run["mechanisms"]))


def cell_table(report, congestion):
    """The runs of `report` with this congestion control, a row a case."""
    lines = [
        "| case | goodput / limit | delay p50, ms | delay p99, ms | resume, ms | retransmitted | timeouts (undone) | held peak, kB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (cc, case), runs in cells(report).items():
        if cc != congestion:
            continue
        held = [run["mechanisms"][0]["held_bytes_peak"] for run in runs if run["mechanisms"]]
        columns = [
            case,
            shown(values(runs, share)),
            milliseconds(runs, total("delay_p50_outside_silence_s")),
            milliseconds(runs, total("delay_p99_outside_silence_s")),
            milliseconds(runs, linux("resume_p50_s")),
            f"{average(values(runs, total('retransmits'))):.0f}",
            f"{average(values(runs, counter('TCPTimeouts'))):.1f} ({average(values(runs, counter('TCPLossUndo'))):.1f})",
            f"{max(held) / 1e3:.0f}" if held else "",
        ]
        lines.append("| " + " | ".join(columns) + " |")
    return lines


def silent_words(reports):
    """How much of the time the radio was silent, by length of bursts."""
    silent = {}
    for name, report in reports.items():
        burst, _ = burst_and_rtt(name)
        silent.setdefault(burst, []).extend(values(report["runs"], total("silent_fraction")))
    return " and ".join(f"{100 * average(shares):.0f} % with bursts of {burst} s" for burst, shares in silent.items())


def burst_and_rtt(part):
    burst, rtt = part.removeprefix("burst").split("-rtt")
    return burst, rtt


def table_page(reports, written, less):
    page = head("Plain routers and DSASync's modes against the senders of today's kernel", written, [TABLE], less)
    page += [
        f"One bulk download, [`{TABLE}`](../../{TABLE}): a shared 24 Mbit/s channel (17.5 Mbit/s for IP packets). In the long run a primary",
        "user transmits 20 % of the time, and the radio senses for 25 ms every 0.5 s; the share of the time for which it was silent in these runs",
        f"is {silent_words(reports)}. An ACK is charged by its bytes, 24 us of air, where a whole exchange of 802.11a takes some 194 us. 20 s count",
        "(bursts of 2 s: 40 s). Goodput is a",
        "share of what a perfect transport would carry, with its 95 % interval over the seeds. Delays are one-way, of segments",
        "that met no silence (`-`: every segment met one, because the queue never empties between two silences). Resume is the median time from a silence's end to the first data that moves the stream on.",
        "Timeouts are `TCPTimeouts` of a whole run; in brackets is `TCPLossUndo`, how often the sender found that a timeout had been needless. It",
        "also counts timeouts behind a zero window, which are not in `TCPTimeouts`.",
        "",
        *case_list(TABLE),
        "",
    ]
    for name, report in reports.items():
        burst, rtt = burst_and_rtt(name)
        for congestion in dict.fromkeys(key[0] for key in cells(report)):
            page += [f"## {congestion}, {rtt} ms, bursts of {burst} s", "", *cell_table(report, congestion), ""]
    page += aims(reports)
    return "\n".join(page) + "\n"


def aims(reports):
    """Which mode reaches the aim where; computed, not argued."""
    modes = mechanism_cases(reports)
    page = [
        "## The aim",
        "",
        "A mode reaches it in a cell if goodput is at least 0.97 of the limit and not below fifo-5000's beyond the intervals,",
        "p99 delay outside silences is no worse than fifo-100's or fq_codel's (the greater, and 1 ms for the buckets), and it",
        "resumes within a round trip and 5 ms.",
        "",
        "| cell | " + " | ".join(modes) + " |",
        "|---|" + "---|" * len(modes),
    ]
    reached = dict.fromkeys(modes, 0)
    count = 0
    for name, report in reports.items():
        rtt = int(burst_and_rtt(name)[1])
        by_case = cells(report)
        for congestion in dict.fromkeys(key[0] for key in by_case):
            # In an unfinished table, cells may lack their plain routers.
            if any((congestion, case) not in by_case for case in ("fifo-100", "fifo-5000", "fq_codel")):
                continue
            count += 1
            row = []
            deep, deep_half = interval(values(by_case[congestion, "fifo-5000"], share))
            p99 = total("delay_p99_outside_silence_s")
            routers = [known for case in ("fifo-100", "fq_codel") if (known := values(by_case[congestion, case], p99))]
            short = max(map(average, routers), default=None)
            for mode in modes:
                runs = by_case.get((congestion, mode))
                if runs is None:
                    row.append("-")
                    continue
                goodput, half = interval(values(runs, share))
                faults = []
                if goodput < 0.97:
                    faults.append(f"goodput {goodput:.3f}")
                elif goodput + (half or 0) < deep - (deep_half or 0):
                    faults.append(f"goodput {goodput:.3f} below fifo-5000's {deep:.3f}")
                # A run without one of them does not reach it: every segment met a silence, or nothing new came after one.
                delays, resumes = values(runs, p99), values(runs, linux("resume_p50_s"))
                if len(delays) < len(runs):
                    faults.append(f"no p99 in {len(runs) - len(delays)} of {len(runs)} runs")
                elif short is None:
                    faults.append("p99 beside none of a router")
                elif average(delays) > short + 0.001:
                    faults.append(f"p99 {average(delays) * 1e3:.0f} ms over {short * 1e3:.0f} ms")
                if len(resumes) < len(runs):
                    faults.append(f"no resume in {len(runs) - len(resumes)} of {len(runs)} runs")
                elif average(resumes) > rtt / 1e3 + 0.005:
                    faults.append(f"resume {average(resumes) * 1e3:.0f} ms")
                reached[mode] += not faults
                row.append("; ".join(faults) or "yes")
            page.append(f"| {name}, {congestion} | " + " | ".join(row) + " |")
    page += ["| reached in | " + " | ".join(f"{reached[mode]} of {count}" for mode in modes) + " |", ""]
    return page


def story(key):
    return lambda run: (run["linux"].get("silence_summary") or {}).get(key)


def counted(runs, key):
    return sum(values(runs, story(key)))


def silence_row(case, runs):
    silences, known = counted(runs, "silences"), counted(runs, "with_cwnd")
    wakers = {
        "ack": "woken_by_acknowledgment",
        "nudge": "woken_by_nudge",
        "timer": "woken_by_timer",
        "went on": "went_on",
    }
    woken = {short: counted(runs, key) for short, key in wakers.items()}
    timed_out, spurious = counted(runs, "with_timeout"), counted(runs, "with_spurious")
    return [
        case,
        shown(values(runs, share)),
        milliseconds(runs, total("delay_p99_outside_silence_s")),
        *(milliseconds(runs, story(key)) for key in ("first_delivery_p50_s", "first_new_p50_s", "woken_p50_s")),
        ", ".join(f"{short} {count}" for short, count in woken.items() if count) or "-",
        f"{timed_out / silences:.2f} ({spurious / timed_out:.0%})" if timed_out and silences else "0",
        f"{counted(runs, 'restored') / known:.2f}" if known else "-",
        milliseconds(runs, story("zero_window_p50_s")),
        milliseconds(runs, story("held_last_p50_s")),
    ]


def silences_page(reports, written, less):
    page = head("One silence at a time", written, [SWEEP], less)
    page += [
        f"One bulk download, [`{SWEEP}`](../../{SWEEP}): four silences of the same length a run, 4.5 s of radio after each. First one table of",
        "goodput, then for every congestion control and round trip what happened around the silences.",
        "",
        *case_list(SWEEP),
        "",
        "- delay p99: one-way, of segments that met no silence (`-`: every segment met one), ms.",
        "- delivery, new data, sender: median time from the silence's end to the first segment at the receiver, the first that moves the",
        "  stream on, and the first data that the sender sends, ms.",
        "- woken by: what the sender heard last in the 10 ms before its first data: an acknowledgment of new data, a nudge (window update or repeated",
        "  acknowledgment), or nothing (its timer woke it). `went on`: the sender had not stopped.",
        "- timeouts: share of silences with a timeout, seen on the wire, also behind a closed window (in brackets: the share of those in which",
        "  the segment that timed out had not been lost).",
        "- cwnd back: share of silences after which cwnd was 0.9 of what it had been, two round trips and 50 ms after the end.",
        "- zero window: when the sender first heard of it after the silence's start, ms. held left: when the last packet that the base",
        "  station had held left it, after the end, ms. Medians; `-`: never.",
        "",
        "## Goodput / limit",
        "",
    ]
    order = list(dict.fromkeys(run["linux"]["case"] for report in reports.values() for run in report["runs"]))
    page += ["| cc | RTT, ms | silence, s | " + " | ".join(order) + " |", "|---|---|---|" + "---|" * len(order)]
    rows, details = {}, {}
    for length in SILENCES:
        for rtt in RTTS:
            report = reports.get(f"silences-{length}s-rtt{rtt}")
            for (cc, case), runs in (cells(report) if report else {}).items():
                rows.setdefault((cc, rtt), {}).setdefault(length, {})[case] = shown(values(runs, share))
                details.setdefault((cc, rtt), {}).setdefault(length, []).append(silence_row(case, runs))
    names = dict.fromkeys(cc for job in SWEEPS for cc in job[2])
    keys = [(cc, rtt) for cc in names for rtt in RTTS if (cc, rtt) in rows]
    for cc, rtt in keys:
        for length, shares in rows[cc, rtt].items():
            columns = [cc, str(rtt), f"{length}", *(shares.get(case, "-") for case in order)]
            page.append("| " + " | ".join(columns) + " |")
    for cc, rtt in keys:
        page += [
            "",
            f"## {cc}, {rtt} ms",
            "",
            "| silence, s | case | goodput / limit | delay p99 | delivery | new data | sender | woken by | timeouts | cwnd back | zero window"
            " | held left |",
            "|---" * 12 + "|",
        ]
        for length, found in details[cc, rtt].items():
            page += ["| " + " | ".join([f"{length}", *row]) + " |" for row in found]
    return "\n".join(page) + "\n"


def compare(pairs):
    """The cells of simulator.md, both sides run: name, congestion control and case, then what its columns show."""
    rows = []
    for name, measured, simulated in pairs:
        here = cells(simulated)
        for key, runs in cells(measured).items():
            if key not in here:
                continue
            real, model = statistics.fmean(values(runs, share)), statistics.fmean(values(here[key], share))
            simulated_delay = milliseconds(here[key], total(OUTSIDE))
            rows.append((name, *key, f"{model:.3f}", f"{(model - real) / real:+.1%}", simulated_delay, runs))
    return rows


def kept_by(page, reports):
    """The same cells, the simulator's side and the errors as `page` has them and the measured side from `reports`."""
    rows = []
    if not page.exists():
        return rows
    for line in page.read_text().splitlines():
        columns = [column.strip() for column in line.strip("|").split("|")]
        if len(columns) != 8 or columns[0] not in reports:
            continue
        name, cc, case, model, _, error, simulated_delay, _ = columns
        runs = cells(reports[name]).get((cc, case))
        if not runs:
            sys.exit(f"{page} has {name}, {cc}, {case}, which raw.json has not")
        # The simulated share has three digits, the error one, and both are rounded.
        real = statistics.fmean(values(runs, share))
        if abs((float(model) - real) / real - float(error.rstrip("%")) / 100) > 0.00051 + 0.00051 / real:
            sys.exit(f"{page}: {name}, {cc}, {case}: {model} beside {real:.3f} is no error of {error}")
        rows.append((name, cc, case, model, error, simulated_delay, runs))
    return rows


def programs_words(commits):
    """Which programs simulated the parts that `commits` measured."""
    words = "The first lines name the program that measured each part; the same program simulated it"
    other = [commit for commit in SIMULATOR_NOT_NOTED if commit in commits]
    if not other:
        return words + "."
    return f"{words}, except where that is {listed(other, 'or')}: there the program that simulated was not noted, and may be another."


def simulator_page(rows, written, commits):
    page = [
        "# Simulator against kernel",
        "",
        written,
        "",
        f"**What was told.** In the rows of {UNTOLD} nobody tells a mechanism the channel's rate. In those of {LATE} each burst is told {LATE_MS} ms late,",
        f"in those of {LATE_UNTOLD} both, and in those of {LATE_NO_COPIES} each burst is late and the base station keeps no copies ([told.md](told.md)). In all",
        "other rows with a mechanism it knew the exact rate and was told of every silence at its first moment. "
        + ahead_words([TABLE, *(job[1] for job in OTHERS)]).rstrip(),
        "",
        *wrapped(
            "Goodput of the simulator's `linux` profile beside the testbed's in the same cells: same scenario, same seeds, same silences. "
            f"{programs_words(commits)} The error is (simulated - measured) / measured, in the means over the seeds. The 99th percentile of the delay "
            "is that of segments that met no silence, in the rows of uplink, too, where [others.md](others.md) counts all segments. Neither mechanism "
            "sees the router's queue. The simulator's mechanism learns of a silence as soon as it is told, the testbed's agent a little later; over a "
            "router that drops, the delay costs the agent packets."
        ),
        "",
    ]
    errors = {"plain routers": [], "with DSASync": [], "told less, any": []}
    shown_rows = []
    for name, cc, case, model, error, simulated_delay, runs in rows:
        # As the row shows it, so that the summary follows from the rows.
        kind = "with DSASync" if runs[0]["mechanisms"] else "plain routers"
        errors["told less, any" if name in (LATE_UNTOLD, LATE, UNTOLD, LATE_NO_COPIES) else kind].append(abs(float(error.rstrip("%"))) / 100)
        real = statistics.fmean(values(runs, share))
        shown_rows.append((name, cc, case, model, f"{real:.3f}", error, simulated_delay, milliseconds(runs, total(OUTSIDE))))
    every = [error for found in errors.values() for error in found]
    page += ["| cells | number | median error | 90th percentile | within 10 % |", "|---|---|---|---|---|"]
    for kind, found in [*errors.items(), ("all", every)]:
        if found:
            ordered = sorted(found)
            ninety = ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]
            within = sum(error <= 0.1 for error in found)
            page.append(f"| {kind} | {len(found)} | {statistics.median(found):.1%} | {ninety:.1%} | {within} |")
    page += ["", "| cell | cc | case | simulated | measured | error | p99 simulated, ms | p99 measured, ms |"]
    page += ["|---|---|---|---|---|---|---|---|"]
    page += ["| " + " | ".join(row) + " |" for row in shown_rows]
    return "\n".join(page) + "\n"


def round_trip(scenario):
    with (ROOT / scenario).open("rb") as file:
        return f"wired round trip of {tomllib.load(file)['wired']['rtt'].replace('ms', ' ms')}"


def others_page(reports, written, less):
    page = head("Short flows, many flows, uplink, no silence", written, [job[1] for job in OTHERS], less)
    scenarios = {job[0]: job[1] for job in OTHERS if job[0] in reports}
    cases = {part: cases_of(scenario) for part, scenario in scenarios.items()}
    page += [*preset_list(set().union(*(presets for _, presets in cases.values()))), ""]
    if "short-flows" in reports:
        page += [
            "## Short flows",
            "",
            *wrapped(
                "Downloads of 100 kB arriving at random (2 a second) beside one bulk download, "
                f"{round_trip(scenarios['short-flows'])}, cubic, [scenario](../../scenarios/short-flows.toml). *Finished*, *unfinished* and *with wrong "
                "bytes* are numbers of short flows, of all seeds together; completion times are theirs, too; goodput is that of all flows."
            ),
            "",
            *cases["short-flows"][0],
            "",
            "| case | finished | unfinished | with wrong bytes | completion time p50, s | completion time p99, s | completion time, mean, s | goodput / limit |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for (_, case), runs in cells(reports["short-flows"]).items():
            done = [run["linux"]["completions"] for run in runs]
            row = [case] + [str(sum(one[key] for one in done)) for key in ("finished", "unfinished", "corrupt")]
            row += [shown([one[key] for one in done], digits=2) for key in ("p50_s", "p99_s", "mean_s")]
            page.append("| " + " | ".join([*row, shown(values(runs, share))]) + " |")
        page.append("")
    if "many-stations" in reports:
        page += [
            "## 24 flows on six stations",
            "",
            *wrapped(
                f"Downloads, {round_trip(scenarios['many-stations'])}, cubic, [scenario](../../scenarios/many-stations.toml), 20 s after 3 s of warm-up. "
                "B_alloc is 64 MB. Delays are one-way, of segments that met no silence."
            ),
            "",
            *cases["many-stations"][0],
            "",
            "| case | goodput / limit | Jain's index | delay p50, ms | delay p99, ms | retransmitted | timeouts | held peak, MB |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for (_, case), runs in cells(reports["many-stations"]).items():
            held = [run["mechanisms"][0]["held_bytes_peak"] for run in runs if run["mechanisms"]]
            row = [
                case,
                shown(values(runs, share)),
                shown(values(runs, total("jain_index"))),
                milliseconds(runs, total("delay_p50_outside_silence_s")),
                milliseconds(runs, total("delay_p99_outside_silence_s")),
                f"{average(values(runs, total('retransmits'))):.0f}",
                f"{average(values(runs, counter('TCPTimeouts'))):.0f}",
                f"{max(held) / 1e6:.2f}" if held else "",
            ]
            page.append("| " + " | ".join(row) + " |")
        page.append("")
    if "uplink" in reports:
        page += [
            "## Uplink",
            "",
            *wrapped(
                f"One bulk upload, {round_trip(scenarios['uplink'])}, cubic, [scenario](../../scenarios/dsasync-uplink.toml). Delays are one-way, at the "
                "correspondent host, of all segments, also of those that met a silence; [simulator.md](simulator.md) has the 99th percentile of those "
                "that met none. The queues named are the base station's; the station has a fifo of 100 packets."
            ),
            "",
            *cases["uplink"][0],
            "",
            "| case | goodput / limit | delay p50, ms | delay deviation, ms | delay p99, ms |",
            "|---|---|---|---|---|",
        ]
        for (_, case), runs in cells(reports["uplink"]).items():
            delays = [milliseconds(runs, total(key)) for key in ("delay_p50_s", "delay_std_s", "delay_p99_s")]
            page.append("| " + " | ".join([case, shown(values(runs, share)), *delays]) + " |")
        page.append("")
    if "clean" in reports:
        page += [
            "## No silence: what the agent costs",
            "",
            *wrapped(
                f"One bulk download at 24 Mbit/s that never falls silent, {round_trip(scenarios['clean'])}, [scenario](../../scenarios/clean.toml). "
                "Transit is the time that a data packet spends in the base station before the radio's queue. With `dsasync` it contains the queue that "
                "would otherwise stand before the radio, so compare the delay from end to end; with `dsasync-pass` nothing waits, and what is left is the "
                "agent's own time."
            ),
            "",
            *cases["clean"][0],
            "",
            "| cc | case | goodput / limit | transit p50, ms | transit p99, ms | delay p50, ms |",
            "|---|---|---|---|---|---|",
        ]
        for (cc, case), runs in cells(reports["clean"]).items():
            row = [cc, case, shown(values(runs, share), digits=4)]
            row += [shown(values(runs, linux(key)), 1e3) for key in ("transit_p50_s", "transit_p99_s")]
            page.append("| " + " | ".join([*row, milliseconds(runs, total("delay_p50_s"))]) + " |")
        page.append("")
    return "\n".join(page) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "testbed-table", help="finished cells")
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS, help="where the pages go")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sweep-seeds", type=int, default=2, help="seeds of the part silences")
    parser.add_argument("--jobs", type=int, help="cells side by side (default: as many as the host keeps up with)")
    parser.add_argument("--only", help="names of the parts to run, or their beginnings, with commas between")
    parser.add_argument("--known", action="store_true", help="run nothing, write the pages of what there is")
    parser.add_argument("--raw", action="store_true", help="measure nothing, write the pages from raw.json")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, fail if a page differs")
    options = parser.parse_args()
    if options.check and not options.raw:
        parser.error("--check goes with --raw")
    if options.raw:
        kept = raw_parts.read(options.docs / "raw.json")
        publish(options.docs, kept, kept_by(options.docs / "simulator.md", from_raw(kept)), options.check)
        return
    wanted = tuple(options.only.split(",")) if options.only else ("",)
    jobs = [job for job in EVERY if job[0].startswith(wanted)]
    if not jobs:
        sys.exit(f"--only {options.only}: the parts are {', '.join(job[0] for job in EVERY)}")
    commit = program_commit(options.program)
    reports = batch(options, jobs)
    measured = raw_parts.measured_now(reports, jobs, commit)
    kept = raw_parts.beside_others(raw_parts.read(options.docs / "raw.json"), raw(reports), measured, EVERY)
    rows = simulator_rows(options, jobs, kept, reports)
    options.docs.mkdir(parents=True, exist_ok=True)
    write(options.docs / "raw.json", raw_parts.text(kept))
    publish(options.docs, kept, rows, check=False)


def simulator_rows(options, jobs, kept, now):
    """The rows of simulator.md: both sides anew of the parts measured now, the others as the page has them."""
    # From the rounded numbers, as --raw has them, so that both write the same pages.
    reports, order = from_raw(kept), [job[0] for job in EVERY]
    old = kept_by(options.docs / "simulator.md", {part: report for part, report in reports.items() if part not in now})
    compared = [job for job in jobs if job in GRID + TOLD + OTHERS and job[0] in now and job[0] != "short-flows"]
    new = compare([(job[0], reports[job[0]], simulate(options.program, options.seeds, job)) for job in compared])
    return sorted(old + new, key=lambda row: order.index(row[0]))


def publish(docs, kept, rows, check):
    """Writes the pages of `kept` and of the simulator's rows; with `check` it fails if one says something else."""
    reports = from_raw(kept)
    table, told, others, sweeps = (
        {job[0]: reports[job[0]] for job in part if job[0] in reports} for part in (GRID, TOLD, OTHERS, SWEEPS)
    )
    if len(told) < len(TOLD):
        sys.exit(f"{docs / 'raw.json'} lacks parts that every page quotes: measure {', '.join(job[0] for job in TOLD)} first")
    less = told_less(told, kept[MEASURED])

    def written(cells_there, words):
        return raw_parts.written_by("testbed-table", kept[MEASURED], list(dict.fromkeys(cells_there)), words)

    def written_of(part_reports, words):
        return written([(part, key[0]) for part, report in part_reports.items() for key in cells(report)], words)

    texts = {
        docs / "told.json": json.dumps(less, indent=2, ensure_ascii=False) + "\n",
        docs / "told.md": told_page(told, written_of(told, lambda part: f'"{TOLD_TITLES[part]}"')),
    }
    if table:
        texts[docs / "table.md"] = table_page(table, written_of(table, part_words), less)
    if others:
        texts[docs / "others.md"] = others_page(others, written_of(others, part_words), less)
    if sweeps:
        texts[docs / "silences.md"] = silences_page(sweeps, written_of(sweeps, part_words), less)
    if rows:
        commits = {kept[MEASURED][part][cc].get("commit") for part, cc, *_ in rows}
        texts[docs / "simulator.md"] = simulator_page(rows, written([row[:2] for row in rows], str), commits)
    if docs.resolve() == DOCS:
        texts[TOLD_LESS] = told_less_rust(less, len(cells(told[LATE])["cubic", "dsasync"]))
    differ = []
    for file, text in texts.items():
        if file.exists() and file.read_text() == text:
            # Its time stays, too: one of the files is a source.
            continue
        if check:
            differ.append(str(file))
        else:
            write(file, text)
    if differ:
        sys.exit(f"{', '.join(differ)}: not what raw.json says: run scripts/testbed_table.py --raw")


def part_words(part):
    """A part as table.md and silences.md call it in their headings; the others have names."""
    found = re.fullmatch(r"(burst|silence)s?-?([\d.]+)s?-rtt(\d+)", part)
    return f"{found[1]}s of {found[2]} s at {found[3]} ms" if found else part


if __name__ == "__main__":
    main()
