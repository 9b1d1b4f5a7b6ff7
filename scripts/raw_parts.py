"""The files docs/testbed/raw.json and host-raw.json: the runs of each part, and what measured them: kernel, number of
seeds and program, by part and congestion control. The first lines of the pages follow from that, whichever parts were
measured last."""

import json
import platform

from estimates import built_from

# The key of what measured the parts; each other key is a part.
MEASURED = "measured"


def measured_now(reports, seeds_of, commit):
    """What measured `reports`, by part and congestion control."""
    found = {}
    for part, report in reports.items():
        now = {"kernel": platform.release(), "seeds": seeds_of(part), "commit": commit}
        found[part] = {run["linux"]["congestion"]: now for run in report["runs"]}
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
