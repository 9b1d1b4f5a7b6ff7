"""Means and 95 % intervals for the scripts that write pages, computed by the command (`linkhold estimate`), so that a page
and a report never differ in their statistics."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("LINKHOLD") or str(ROOT / "target" / "release" / "linkhold")


# What a program is made from, as crates/linkhold/build.rs has it, and what it runs.
SOURCES = ["crates", "reproductions", "Cargo.toml", "Cargo.lock", "scenarios"]


def this_commit():
    """What measured numbers are of: the commit, with -dirty if what was run differs from it. A page that was just filled does not count."""
    git = ["git", "-C", ROOT]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    if not commit:
        return "an unknown commit"
    differs = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *SOURCES], check=False).returncode != 0
    return f"{commit}-dirty" if differs else commit


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
