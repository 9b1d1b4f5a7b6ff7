"""The files docs/testbed/raw.json and host-raw.json: the runs of each part, and what measured them: kernel, number of
seeds and program, by part and congestion control, and cases that have fewer seeds. The first lines of the pages follow
from that, whichever parts were measured last."""

import collections
import json
import platform
import tomllib

from estimates import ROOT, built_from

# The key of what measured the parts; each other key is a part.
MEASURED = "measured"


def lacking(job, report, seeds=None):
    """The greatest number of seeds that a cell of a part has, or `seeds` if that is known, and how many those cells have that have fewer, by
    congestion control and case: a measurement that was stopped leaves such."""
    _, scenario, congestion, _ = job
    found = collections.Counter((run["linux"]["congestion"], run["linux"]["case"]) for run in report["runs"])
    with (ROOT / scenario).open("rb") as file:
        cases = [case["name"] for case in tomllib.load(file)["cases"]]
    seeds = seeds or max(found.values())
    return seeds, {(cc, case): found[cc, case] for cc in congestion for case in cases if found[cc, case] < seeds}


def named(cells, most=10):
    """The words for cells that are not whole, the first ones of many."""
    more = f", and {len(cells) - most} more" if len(cells) > most else ""
    return ", ".join(cells[:most]) + more


def measured_now(reports, jobs, commit, name_fewer=True):
    """What measured `reports`, by part and congestion control; how many seeds is what their runs have, and not what was asked for. Which
    cases have fewer is kept, too, but for a page that says that itself."""
    found, by_name = {}, {job[0]: job for job in jobs}
    for part, report in reports.items():
        seeds, fewer = lacking(by_name[part], report)
        found[part] = {}
        for cc in dict.fromkeys(run["linux"]["congestion"] for run in report["runs"]):
            now = {"kernel": platform.release(), "seeds": seeds, "commit": commit}
            less = [f"{case} {count}" for (of, case), count in fewer.items() if of == cc]
            if less and name_fewer:
                now["fewer"] = named(less)
            found[part][cc] = now
    return found


def read(file):
    """What `file` keeps; nothing if there is none."""
    return json.loads(file.read_text()) if file.exists() else {MEASURED: {}}


def beside_others(old, runs, measured, every):
    """`old` with the parts that were measured now in the place of the same parts; the others stay as they were."""
    order = [job[0] for job in every]
    runs = {part: old_runs for part, old_runs in old.items() if part != MEASURED} | runs
    measured = old[MEASURED] | measured
    parts = sorted(runs, key=order.index)
    return {MEASURED: {part: measured[part] for part in parts}, **{part: runs[part] for part in parts}}


def text(kept):
    """The file's text: one line a run, so that a change of one is a change of one line."""
    blocks = []
    for part, entries in kept.items():
        if part == MEASURED:
            lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
            opening, closing = "{", "}"
        else:
            lines = [json.dumps(run) for run in entries]
            opening, closing = "[", "]"
        blocks.append(f'"{part}": {opening}\n' + ",\n".join(lines) + f"\n{closing}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def written_by(target, measured, cells, words):
    """A page's line that says what measured its cells, pairs of part and congestion control. `words` names a part."""
    return f"{by(target)} {measured_by(measured, cells, words)}"


def by(target):
    return f"Written by `make {target}`; do not edit."


def measured_by(measured, cells, words):
    """What measured these cells, in sentences."""
    groups = {}
    for part, cc in cells:
        groups.setdefault(tuple(measured[part][cc].items()), []).append((part, cc))
    # What most cells were measured with comes last, as "the rest".
    ordered = sorted(groups, key=lambda group: len(groups[group]))
    sentences = []
    for group in ordered:
        told = dict(group)
        sentence = f"Linux {told['kernel']}, {told['seeds']} seed{'s' * (told['seeds'] != 1)}, {built_from(told)}"
        if told.get("fewer"):
            sentence += f", not whole (fewer seeds: {told['fewer']})"
        if len(ordered) > 1:
            sentence += ": " + ("the rest" if group == ordered[-1] else which(groups[group], cells, words))
        sentences.append(sentence + ".")
    return " ".join(sentences)


def which(some, cells, words):
    """These cells in words: a part alone if all of its congestion controls on the page are among them."""
    named = []
    for part in dict.fromkeys(part for part, _ in some):
        ccs = [cc for of, cc in some if of == part]
        whole = len(ccs) == sum(of == part for of, _ in cells)
        named.append(words(part) if whole else f"{words(part)} with {' and '.join(ccs)}")
    return ", ".join(named)
