#!/usr/bin/env python3
"""Measures what the agent does over real Wi-Fi in an emulated machine, and fills docs/router.md and
docs/signals.md with it (as root).

    wifi_page.py [--only judged|downloads] [--rounds N] [--known]
    wifi_page.py --raw [--check]

`judged` is one run of what `make test-wifi` judges: two minutes, if all of it holds (scripts/wifi/check.py);
otherwise nothing is kept. `downloads` takes about three minutes a round on a machine that does nothing else: four
downloads of 15 Mbit/s through six channel switches each, with the agent and without, in turns, over a short round
trip and one that is 30 ms longer. What was measured is kept in docs/wifi.json. `--raw` fills the pages from it;
with `--check` it writes nothing, and fails if a page says something else. scripts/wifi/run.sh has the machine.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

from estimates import PROGRAM, ROOT, program_commit
from marks import MARK, fill, listed, wrapped

sys.path.append(str(ROOT / "scripts" / "wifi"))
from aims import AIM_REPEATED, MOST_REPEATED  # noqa: E402

DOCS = ROOT / "docs"
KEPT = DOCS / "wifi.json"
FOLDER = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "wifi"
PARTS = ("judged", "downloads")
LONGER_MS = ("0", "30")
# 100 time units of 1,024 us.
BEACON_MS = 102.4
# What the agent calls a cause, and the page.
CAUSES = {"ChannelSwitch": "channel switch", "Sensing": "scan, or on another channel", "PrimaryUser": "radar"}


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


def of_all(values, digits=0):
    """Least and greatest, or the one value of all."""
    least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def built(kept):
    return f"Program built from {kept['commit']}, Linux {kept['kernel']} in the emulated machine"


def downloads_block(kept):
    measured = kept["rounds"]
    lines = [
        f"{built(kept)}, {len(measured[LONGER_MS[0]])} rounds: median, least and greatest of each.",
        "",
        "| round trip | | carried, MB | retransmissions |",
        "|---|---|---|---|",
    ]
    words = []
    for longer, pairs in measured.items():
        trip = "short" if longer == "0" else f"{longer} ms longer"
        for index, who in enumerate(("without the agent", "with it")):
            carried, repeated = zip(*(pair[index] for pair in pairs))
            lines.append(f"| {trip} | {who} | {spread([one / 1e6 for one in carried], 1)} | {spread(repeated)} |")
        more = sum(having[0] >= without[0] for without, having in pairs)
        fewer = sum(having[1] <= without[1] * AIM_REPEATED for without, having in pairs)
        where = "In the rows of the short round trip" if longer == "0" else f"in those {longer} ms longer"
        words.append(f"{where}: at least as many bytes in {more} of {len(pairs)} pairs, at most {AIM_REPEATED} of the retransmissions in {fewer}")
    aim = f"The aim in every pair: as many bytes as without the agent, and at most {AIM_REPEATED} of the retransmissions without it. "
    return block([*lines, "", *wrapped(aim + "; ".join(words) + ".")])


def judged_block(kept):
    """All that a run that held found, in sentences and a table."""
    lines = [
        *wrapped(
            f"{built(kept)}, which stood still for {kept['still']:.1%} of the time. Each silence: how long it lasts by nl80211's messages (a switch without `blocktx` from when it may come), and how "
            "far from them the agent's began and ended (above zero: later)."
        ),
        "",
        "| radio | cause | silence, ms | start, ms | end, ms |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| `{name}` | {CAUSES[cause]} | {length:.0f} | {start:+.1f} | {end:+.1f} |" for name, cause, length, start, end in kept["silences"]]
    counters, beside, lead = kept["counters"], kept["beside_radar"], kept["lead"]
    number = counters["silences_begun"]
    lines += ["", *wrapped(
        f"{number} silences in the agent's counters, with one that a command told: {counters['silences_ended']} ended by an event, "
        f"{counters['silences_timed']} at the time that their source asked for, {counters['silences_overdue']} that nobody ended, "
        f"{counters['silences_now']} under way at the end and {counters['silences_announced']} announced."
    )]  # fmt: skip
    lines += ["", *wrapped(
        f"A station was back {spread(kept['returns_ms'])} ms after the access point had switched (median, least and greatest of "
        f"{len(kept['returns_ms'])}, seen to within 5 ms; with the agent and without). So the agent's silences may end "
        f"{' to '.join(f'{bound:.0f}' for bound in kept['follow_bounds_ms'])} ms after it, and end {kept['follow_ms']:.0f} ms after it. Of "
        f"{lead['datagrams']} datagrams that the agent let go in the second before switches without `blocktx`, {lead['lost']} were lost on the air; 95 of 100 were "
        f"at the station within {lead['on_the_way_ms']:.1f} ms, and the last left {of_all(lead['room_ms'])} ms before the switch."
    )]  # fmt: skip
    parts = listed([f"{part['share']:.3f} and {part['delay_ms']:.0f} ms {words}" for words, part in beside_words(beside)])
    lines += ["", *wrapped(f"A flow of 5 Mbit/s on `wlan0` beside the radar on `wlan3`, share that came and 99th percentile of its delay: {parts}.")]
    (carried, repeated), (carried_without, repeated_without) = kept["downloads"]["with"], kept["downloads"]["without"]
    lines += ["", *wrapped(
        f"The pair of downloads: {repeated_without} retransmissions without the agent and {repeated} with it, {carried_without / 1e6:.1f} MB carried "
        f"without it and {carried / 1e6:.1f} MB with it. A host's samples of its signal: {kept['signal']['samples']}, all as `iw` had it "
        f"({listed([f'{ratio} dB {strength}' for strength, ratio in kept['signal']['ratios_db'].items()])})."
    )]  # fmt: skip
    return block(lines)


def beside_words(beside):
    quiet = [part for name, part in beside.items() if name.startswith("quiet")]
    worse = {"share": min(part["share"] for part in quiet), "delay_ms": max(part["delay_ms"] for part in quiet)}
    return [("in the worse half of the quiet time before", worse), ("during the radar", beside["during"]), ("after it", beside["after"])]


def block(lines):
    return "\n" + "\n".join(lines) + "\n"


def inline(kept):
    """The numbers of docs/signals.md and docs/router.md that stand in sentences, by mark."""
    air, lengths = kept["air_ms"], kept["lengths_ms"]
    return {
        "wifi-returns": f"{spread(kept['returns_ms'])} ms",
        "wifi-ahead": f"{of_all([one / BEACON_MS for one in air['ahead']], 1)}",
        "wifi-application": f"{of_all(air['plain'])} ms",
        "wifi-blocktx": f"{of_all(air['blocktx'])} ms",
        "wifi-radar-sending": f"{lengths['radar sending'] / 1e3:.2f} s",
        "wifi-radar-silent": f"{lengths['radar silent'] / 1e3:.2f} s",
        "wifi-check": f"{lengths['check'] / 1e3:.0f} s",
        "wifi-scan": f"{lengths['scan']:.0f} ms",
        "wifi-passive-scan": f"{lengths['passive scan']:.0f} ms",
        "wifi-away": f"{lengths['away']:.0f} ms",
        "wifi-station-scan": f"{lengths['station scan']:.0f} ms",
        "wifi-run": f"program built from {kept['commit']}, Linux {kept['kernel']}",
    }


def contents(kept):
    """What goes between marks, by their names, as far as it was measured."""
    found = {}
    if "downloads" in kept:
        found["wifi"] = downloads_block(kept["downloads"])
    if "judged" in kept:
        found |= {"wifi-judged": judged_block(kept["judged"]), **inline(kept["judged"])}
    return found


def fill_pages(kept, check, docs=DOCS):
    """Whether the pages say what is kept; without `check` they do afterwards, as far as it was measured."""
    found, same = contents(kept), True
    for page in (docs / name for name in ("router.md", "signals.md")):
        marks = [name for name in MARK.findall(page.read_text()) if name.startswith("wifi")]
        if check and (missing := [name for name in marks if name not in found]):
            print(f"{page}: wifi.json has nothing for {', '.join(missing)}: run make wifi-page", file=sys.stderr)
            same = False
        same &= fill(page, {name: words for name, words in found.items() if name in marks}, check, others=None)
    return same


def text(kept):
    """The file's text: what was found of one thing is one line."""
    parts = []
    for part in PARTS:
        if part in kept:
            lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in kept[part].items()]
            parts.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def measured(part, options, commit):
    """What a run of the machine found."""
    out = FOLDER / "out"
    if not options.known:
        # Where the machine cannot be had, nothing of an earlier run is taken for this one's.
        shutil.rmtree(out, ignore_errors=True)
        rounds = [str(options.rounds)] if part == "downloads" else []
        subprocess.run([ROOT / "scripts" / "wifi" / "run.sh", options.program, FOLDER, *rounds], check=True)
        # Of a run of downloads nothing else keeps which program it was.
        (out / "commit").write_text(f"{commit}\n")
    if not (out / "done").exists():
        sys.exit(f"{out}: the machine left no result; scripts/wifi/run.sh says why")
    if part == "downloads":
        ran = (out / "commit").read_text().strip() if (out / "commit").exists() else "a commit that was not noted"
        if ran != commit:
            sys.exit(f"{out}: a run of a program built from {ran}, and not from {commit}: measure without --known")
        return {"commit": commit, "kernel": (out / "kernel").read_text().strip(), "rounds": downloads(out, options.rounds)}
    if not (out / "findings.json").exists():
        sys.exit(f"{out}: the run did not hold, or is undecided, so nothing of it is kept")
    found = json.loads((out / "findings.json").read_text())
    if found["commit"] != commit:
        sys.exit(f"{out}: a run of a program built from {found['commit']}, and not from {commit}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--only", choices=PARTS, help="measure only this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--known", action="store_true", help="run nothing; take what the last run left (with --only)")
    parser.add_argument("--raw", action="store_true", help="measure nothing; fill the pages from docs/wifi.json")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, fail if a page differs")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.known and not options.only:
        parser.error("--known takes --only: the last run was of one part")
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if options.raw:
        if not fill_pages(kept, options.check):
            sys.exit("docs: not what wifi.json says: run scripts/wifi_page.py --raw")
        return
    commit = program_commit(options.program)
    for part in [options.only] if options.only else PARTS:
        kept[part] = measured(part, options, commit)
        KEPT.write_text(text(kept))
        fill_pages(kept, False)
    if options.only != "judged":
        pairs = [pair for pairs in kept["downloads"]["rounds"].values() for pair in pairs]
        without, having = (sum(pair[index][1] for pair in pairs) for index in (0, 1))
        print(f"retransmissions in {options.rounds} rounds: {without} without the agent, {having} with it")
        if having > without * MOST_REPEATED:
            sys.exit(f"more than {MOST_REPEATED} of those without the agent")


if __name__ == "__main__":
    main()
