"""Means and 95 % intervals for the scripts that write pages, computed by the command (`linkhold estimate`), so that a page
and a report never differ in their statistics."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("LINKHOLD") or str(ROOT / "target" / "release" / "linkhold")


# What a program is made from, as crates/linkhold/build.rs has it, and what it runs; and what of that scripts fill
# in after a measurement.
SOURCES = ["crates", "reproductions", "Cargo.toml", "Cargo.lock", "scenarios"]
FILLED = [":(exclude)*.md", ":(exclude)crates/linkhold-results/src/html/told_less.rs"]


def program_commit(program=PROGRAM):
    """The commit that `program` says it was built from. Ends if the sources of this tree are others: what is
    measured would not be of that commit. A page that was just filled does not count."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{program}: {error}; build it (make build), or name another in LINKHOLD")
    found = re.search(r"\(commit (\w+)(-dirty)?\)", said)
    if not found or found[1] == "unknown":
        sys.exit(f"{program} does not say which commit it was built from: build it in a checkout (make build)")
    commit, dirty = found.groups()
    if dirty:
        sys.exit(f"{program} was built from {commit} with changes: commit them and build it anew (make build)")
    # Git's own words tell of a commit that is not in this repository.
    if subprocess.run(["git", "-C", ROOT, "diff", "--quiet", commit, "--", *SOURCES, *FILLED], check=False).returncode:
        sys.exit(
            f"{program} was built from {commit}, whose sources are not those of this tree: "
            "commit what changed and build it anew (make build)"
        )
    return commit


def built_from(measured):
    """The program that measured a part of a page, in words. Numbers older than the note of it have `entered_in` in place of `commit`."""
    if "commit" in measured:
        return f"program built from {measured['commit']}"
    return f"the program's commit was not noted, its numbers came with commit {measured['entered_in']}"


def simulated_runs(scenario, seeds, settings=(), program=PROGRAM):
    """The runs of `linkhold run`: each case with each seed. May be called side by side."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", str(ROOT / scenario), "--seeds", str(seeds), "--json", "--out", folder]
        for setting in settings:
            command += ["--set", setting]
        return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)["runs"]


def at_most(mean, half, most):
    """Whether a number is at most `most`, by its 95 % interval: `met`, `missed`, or `undecided` where the interval has values of both
    kinds. Of a single run, which has no interval, nothing is decided."""
    if half is None:
        return "undecided"
    return "met" if mean + half <= most else "missed" if mean - half > most else "undecided"


class Estimates:
    """Asks one `linkhold estimate`, which answers line by line."""

    def __init__(self, program=PROGRAM):
        self._program = program
        self._process = None

    def of(self, numbers):
        """Mean of `numbers` and half of its 95 % interval; None for what there are too few numbers for."""
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    [self._program, "estimate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            except OSError as error:
                sys.exit(f"{self._program}: {error}; build it (make build), or name another in LINKHOLD")
        self._process.stdin.write(" ".join(repr(float(number)) for number in numbers) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{self._program} estimate gave no answer")
        told = json.loads(answer)
        half = None if told["ci95"] is None else (told["ci95"][1] - told["ci95"][0]) / 2
        return told["mean"], half

    def text(self, numbers, digits=3, scale=1.0):
        """Mean and half of the interval, as a table has them; a dash where there is no number."""
        mean, half = self.of([number for number in numbers if number is not None and not math.isnan(number)])
        if mean is None:
            return "–"
        text = f"{mean * scale:.{digits}f}"
        return text if half is None else f"{text} ± {half * scale:.{digits}f}"
