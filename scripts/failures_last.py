#!/usr/bin/env python3
"""Passes on what `cargo test` prints, and says at the end in a line each what failed, and why.

A log of 5000 lines ends with the name of a test program; who sees the end alone, as CI shows it, learns nothing.

    cargo test 2>&1 | scripts/failures_last.py
"""

import sys

# Most characters of a reason, and most reasons.
REASON = 160
MOST = 20


def reason(lines):
    """The first line that tells something: after `panicked at`, or the first at all."""
    lines = [line.strip() for line in lines if line.strip()]
    for place, line in enumerate(lines[:-1]):
        if "panicked at" in line:
            return lines[place + 1]
    return lines[0] if lines else "no reason was printed"


def failures(lines):
    """Tests that failed, each with what it printed, from lines of test programs."""
    found, name, told = [], None, []
    for line in lines:
        line = line.rstrip("\n")
        if line.startswith("---- ") and line.endswith(" ----"):
            if name is not None:
                found.append((name, told))
            name, told = line[5:-5].removesuffix(" stdout"), []
        elif name is not None and line == "failures:" and told[-1:] in ([], [""]):
            found.append((name, told))
            name, told = None, []
        elif name is not None:
            told.append(line)
    if name is not None:
        found.append((name, told))
    return found


def summary(found):
    """Lines for the end; tests with the same reason share one."""
    of_reason = {}
    for name, told in found:
        of_reason.setdefault(reason(told)[:REASON], []).append(name)
    lines = []
    for why, names in list(of_reason.items())[:MOST]:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"{shown}: {why}")
    if len(of_reason) > MOST:
        lines.append(f"and {len(of_reason) - MOST} more reasons")
    return lines


def main():
    # Tests may print anything.
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(errors="surrogateescape")
    log = []
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
        log.append(line)
    lines = summary(failures(log))
    if lines:
        print("\nWHAT FAILED, once more:")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
