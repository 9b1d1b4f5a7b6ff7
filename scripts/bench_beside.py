#!/usr/bin/env python3
"""Speed of this tree beside that of another commit, in turns (`make bench-beside COMMIT=abc1234`).

Builds the other commit in target/beside/, then runs the same simulations with both programs, now one first and now the other, and
compares their processor time run by run. Printed are the ratio of this tree's time to the other's (a geometric mean) and its 95 %
interval. The exit status is 1 if one ratio is above --limit even at the lower end of its interval.

  bench_beside.py HEAD~1
  bench_beside.py c95b089 --rounds 31 --limit 0.7
"""

import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import sys

from estimates import PROGRAM, ROOT, Estimates
from page_commits import git

BESIDE = ROOT / "target" / "beside"
# Of keys that programs have had from the first on.
SCENARIO = """schema = "linkhold.scenario/1"
name = "bench-beside"
description = "Downloads over a radio of 24 Mbit/s with bursts of a primary user."
duration = "300s"
seed = 1
[wired]
rate = "100Mbit/s"
rtt = "50ms"
queue = "1000pkt"
[radio]
mac = "shared"
stations = 1
rate_told = true
[[radio.channels]]
phy_rate = "24Mbit/s"
mac_efficiency = 0.73
primary_user = { on_mean = "300ms", off_mean = "1200ms", detection_delay = "0s" }
[router]
queue = "fifo"
limit = "100pkt"
visible = true
[tcp]
profile = "linux"
congestion = "cubic"
[[flows]]
direction = "downlink"
source = "bulk"
[[cases]]
name = "%s"
mechanism = "%s"
"""
# One flow, and four for each of six stations; without a mechanism, and with it.
FLOWS = {"one flow": [], "24 flows": ["radio.stations=6", "flows.0.station=all", "flows.0.count=4"]}
CASES = ("none", "dsasync")


def asked(*words):
    done = git(*words)
    if done.returncode:
        sys.exit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def other_program(commit):
    """The program of `commit`, built in a checkout of its own."""
    checkout = BESIDE / commit
    if not checkout.exists():
        asked("worktree", "prune")
        asked("worktree", "add", "--detach", str(checkout), commit)
    build = BESIDE / "build"
    print(f"building {commit} in {checkout}", file=sys.stderr)
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked", "-p", "linkhold", "--quiet"]
    subprocess.run(command, cwd=checkout, env={**os.environ, "CARGO_TARGET_DIR": str(build)}, check=True)
    # The next commit is built in the same place.
    program = BESIDE / f"linkhold-{commit}"
    program.write_bytes((build / "release" / "linkhold").read_bytes())
    program.chmod(0o755)
    return program


def processor_time(program, case, settings):
    """Processor time of one run, s, and what it carried, bit/s."""
    command = [program, "run", "-", "--threads", "1", "--json"]
    for setting in settings:
        command += ["--set", setting]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, cwd=ROOT, input=SCENARIO % (case, case), capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        sys.exit(f"{program} refuses the simulation, so nothing can be compared:\n{ran.stderr}")
    carried = json.loads(ran.stdout)["runs"][0]["totals"]["goodput_bps"]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, carried


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what to compare with, as git names it")
    parser.add_argument("--rounds", type=int, default=15, help="runs of each program in each simulation (default: 15)")
    parser.add_argument("--seconds", type=float, default=300, help="simulated time of a run, s (default: 300)")
    parser.add_argument("--limit", type=float, default=1.03, help="greatest ratio that is no failure (default: 1.03)")
    options = parser.parse_args()
    if options.rounds < 2 or not options.seconds > 0:
        parser.error("an interval takes two rounds or more, of some length")
    commit = asked("rev-parse", "--short=12", f"{options.commit}^{{commit}}")
    programs = (PROGRAM, str(other_program(commit)))
    estimates, slower = Estimates(), []
    for words, settings in FLOWS.items():
        settings = [*settings, f"duration={options.seconds}s"]
        for case in CASES:
            ratios, carried = [], [set(), set()]
            for number in range(-1, options.rounds):
                times = [0.0, 0.0]
                for which in (0, 1) if number % 2 else (1, 0):
                    times[which], bits = processor_time(programs[which], case, settings)
                    carried[which].add(bits)
                # The first round fills caches and does not count.
                if number >= 0:
                    ratios.append(math.log(times[0] / times[1]))
            mean, half = estimates.of(ratios)
            low, high = math.exp(mean - half), math.exp(mean + half)
            same = "" if carried[0] == carried[1] else "; what they carry differs, so they did not do the same work"
            print(f"{words}, {case}: {math.exp(mean):.3f} ({low:.3f} to {high:.3f}) of {commit}'s time{same}", flush=True)
            if low > options.limit:
                slower.append(f"{words}, {case}")
    if slower:
        sys.exit(f"slower than {options.limit} times {commit}: {'; '.join(slower)}")


if __name__ == "__main__":
    main()
