#!/usr/bin/env python3
"""Fills the two tables of docs/host.md: what a silence costs a host's sender (scripts/host_silence.py, five minutes as root on a
machine that does nothing else), and what this kernel refuses an eBPF congestion control (scripts/host_refusals.sh, seconds, as root,
with clang and bpftool). LINKHOLD names the program, built with eBPF congestion controls."""

import argparse
import os
import platform
import re
import subprocess
import sys

from estimates import PROGRAM, ROOT, program_commit
from marks import fill

PAGE = ROOT / "docs" / "host.md"
REPEATS = 3
# What the paper wants, what is tried and how the page writes it, and a word on it.
WANTED = [
    ("the RTO as it was", "icsk->icsk_rto = 200", "icsk->icsk_rto = 200", ""),
    ("no backoff", "icsk->icsk_backoff = 0", "icsk->icsk_backoff = 0", ""),
    ("no sample across the silence", "tp->srtt_us = 1", "tp->srtt_us = 1", ""),
    ("an undo to the kept window", "tp->prior_cwnd = 10", "tp->prior_cwnd = 10", ""),
    ("the timer cancelled", "tcp_reset_xmit_timer(sk, 1, 200, 0)", "tcp_reset_xmit_timer(...)", " (it is inline)"),
    ("retransmission at the thaw", "tcp_retransmit_timer(sk)", "tcp_retransmit_timer(sk)", ""),
]


def silences(commit):
    command = [str(ROOT / "scripts" / "host_silence.py"), PROGRAM, "--repeats", str(REPEATS)]
    table = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return (
        f"\nMedians of {REPEATS} runs; Linux {platform.release()}, {os.cpu_count()} cores; 20 Mbit/s, a queue of 150 kB, the host told 2 ms\n"
        f"before the silence and at its end; program built from {commit}:\n\n{table}\n"
    )


def refusals():
    text = subprocess.run([ROOT / "scripts" / "host_refusals.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = ["| the paper wants | tried | refusal |", "|---|---|---|"]
    for wanted, tried, shown, remark in WANTED:
        said = re.search(rf"^{re.escape(tried)};\s+(?:libbpf: )?(.*)$", text, re.MULTILINE)
        if not said:
            sys.exit(f"host_refusals.sh says nothing of {tried}")
        if said[1].startswith("Registered"):
            sys.exit(f"this kernel takes {tried}: the page's words are no longer true")
        lines.append(f"| {wanted} | `{shown}` | `{said[1]}`{remark} |")
    return "\n".join([f"\nOn Linux {text.splitlines()[0].partition('-')[0]}:", "", *lines, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refusals", action="store_true", help="only what the kernel refuses")
    parser.add_argument("--check", action="store_true", help="with --refusals: write nothing, fail if the page says something else")
    options = parser.parse_args()
    if options.check and not options.refusals:
        parser.error("--check goes with --refusals")
    contents = {"refusals": refusals()}
    if not options.refusals:
        contents["silences"] = silences(program_commit())
    if not fill(PAGE, contents, options.check, others=None) and options.check:
        sys.exit(f"{PAGE}: not what this kernel says: run scripts/host_page.py --refusals")


if __name__ == "__main__":
    main()
