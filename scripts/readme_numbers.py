#!/usr/bin/env python3
"""Fills the numbers of README.md with those that were measured, which are in docs/testbed.

What stands between <!-- measured NAME --> and <!-- /measured --> is written anew; everything else is left. With --check it
writes nothing and fails if the README says something else than the measurement. Intervals are the command's own
(`linkhold estimate`; LINKHOLD names the program).
"""

import argparse
import json
import math
import pathlib
import re
import sys

from estimates import ROOT, Estimates

README = ROOT / "README.md"
DOCS = ROOT / "docs" / "testbed"
# Parts of raw.json, and the case of each row of the table in the README with its words.
FAR, NEAR = "burst0.3-rtt100", "burst0.3-rtt3"
ROWS = {
    "drop": "drops what arrives in a silence",
    "fifo-100": "fifo of 100 packets",
    "fifo-5000": "fifo of 5,000 packets",
    "fq_codel": "fq_codel",
    "dsasync": "**fq_codel and linkhold**",
}
MARK = re.compile(r"<!-- measured (\S+) -->.*?<!-- /measured -->", re.DOTALL)


class Measured:
    """What was measured, by part and case; CUBIC only."""

    def __init__(self, docs):
        self._runs = json.loads((docs / "raw.json").read_text())
        self._estimates = Estimates()

    def mean_and_half(self, part, case, key):
        values = [run[key] for run in self._runs[part] if (run["case"], run["cc"]) == (case, "cubic")]
        if not values:
            sys.exit(f"raw.json: part {part} has no run of {case} with cubic")
        return self._estimates.of(values)

    def mean(self, part, case, key):
        return self.mean_and_half(part, case, key)[0]


def table(measured):
    lines = ["| the base station | goodput | delay, 99th percentile |", "|---|---|---|"]
    for case, words in ROWS.items():
        goodput, half = measured.mean_and_half(FAR, case, "limit_share")
        delay = measured.mean(FAR, case, "delay_p99_outside_silence_s")
        cells = [f"{goodput:.3f} ± {half:.3f}", f"{delay * 1e3:.0f} ms"]
        if case == "dsasync":
            cells = [f"**{cell}**" for cell in cells]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n"


def near(measured):
    """The least share of the limit at 3 ms, rounded down."""
    least = min(measured.mean(NEAR, case, "limit_share") for case in ROWS)
    return f"{math.floor(least * 100) / 100:.2f}"


def silent(measured):
    shares = [measured.mean(FAR, case, "silent_fraction") for case in ROWS]
    return f"{sum(shares) / len(shares):.0%}".replace("%", " %")


def told(key):
    return lambda docs: f"{json.loads((docs / 'told.json').read_text())[key]:g}"


def model_error(docs):
    """The median error of the simulator against the kernel, from the page that the measurement wrote."""
    found = re.search(r"^\| all \| \d+ \| ([\d.]+)% \|", (docs / "simulator.md").read_text(), re.MULTILINE)
    if not found:
        sys.exit("simulator.md has no row `all`")
    return f"{found.group(1)} %"


def contents(docs):
    measured = Measured(docs)
    return {
        "table": table(measured),
        "near": near(measured),
        "silent": silent(measured),
        "rate-untold": f"{float(told('rate_untold')(docs)):.2f}",
        "late": f"{float(told('late')(docs)):.2f}",
        "late-ms": f"{told('late_ms')(docs)} ms",
        "model-error": model_error(docs),
    }


def filled(text, contents):
    names = [name for name in MARK.findall(text)]
    for name in names:
        if name not in contents:
            sys.exit(f"README.md: nothing measured is called {name}; there are {', '.join(contents)}")
    for name in contents:
        if name not in names:
            sys.exit(f"README.md: there is no place for {name}: <!-- measured {name} --><!-- /measured -->")
    return MARK.sub(lambda mark: f"<!-- measured {mark[1]} -->{contents[mark[1]]}<!-- /measured -->", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a number is not the measured one")
    parser.add_argument("--readme", type=pathlib.Path, default=README)
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS, help="where the measurement is")
    options = parser.parse_args()
    text = options.readme.read_text()
    now = filled(text, contents(options.docs))
    if now == text:
        return
    if options.check:
        for old, new in zip(text.splitlines(), now.splitlines()):
            if old != new:
                print(f"- {old}\n+ {new}", file=sys.stderr)
        sys.exit(f"{options.readme.name} does not say what was measured: run scripts/readme_numbers.py")
    partial = options.readme.with_name(f".{options.readme.name}.partial")
    partial.write_text(now)
    partial.replace(options.readme)


if __name__ == "__main__":
    main()
