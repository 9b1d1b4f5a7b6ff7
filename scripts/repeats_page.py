#!/usr/bin/env python3
"""Writes docs/repeats.md: how often Linux tests failed that were run again and again
(scripts/repeat_tests.sh, `make repeat-linux`).

    repeats_page.py commit
    repeats_page.py add NAME --commit COMMIT --runs N --failed N --skipped N [--busy] [--failures TEST...] [--skips TEST...]
    repeats_page.py --raw [--check]

`commit` prints the commit whose sources are those of this tree, and nothing if it has changes: what is built
from it now. `add` puts a result of a program built from that into docs/repeats.json, in the place of an older
one of the same tests under the same load, and writes the page. Without a commit it is not taken: nobody could
build it again. `--raw` writes the page from docs/repeats.json; with `--check` it writes nothing, and fails if
the page is another.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

from estimates import FILLED, ROOT, SOURCES
from marks import wrapped, write

DOCS = ROOT / "docs"
# Names that repeat_tests.sh takes for whole programs of tests, and how the page writes them.
PROGRAMS = {"suite": "namespace suite", "plans": "plans", "testbed": "testbed tests"}


def commit():
    """The commit whose sources are those of this tree, or nothing."""
    if subprocess.run(["git", "-C", ROOT, "diff", "--quiet", "HEAD", "--", *SOURCES, *FILLED], check=False).returncode:
        return None
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def with_result(kept, new):
    """`kept` with `new` in the place of the same tests under the same load; whole programs first, then tests by name."""

    def which(one):
        return (list(PROGRAMS).index(one["what"]) if one["what"] in PROGRAMS else len(PROGRAMS), one["what"], one["busy"])

    return sorted([one for one in kept if which(one) != which(new)] + [new], key=which)


def counted(tests):
    return ", ".join(f"`{name}` ({count})" for name, count in sorted(tests.items())) or "–"


def page(kept):
    lines = [
        "# Linux tests, run again and again",
        "",
        "Written by `make repeat-linux`; do not edit.",
        "",
        *wrapped(
            "[`scripts/repeat_tests.sh`](../scripts/repeat_tests.sh) runs the tests of the Linux kernel's side many times, and counts the runs that "
            "failed. A run is of a whole program of tests, or of the one test that is named. *Builds*: compilers ran beside it, one build after another, "
            "with as many jobs as there are processors. *Nothing of ours*: the script started nothing else; what others did on the machine is not known. "
            "In a run that *skipped*, every other test passed, and one or more said that this machine lacked something, or gave them too little of its "
            "processors; of those tests the run says nothing. In brackets stands in how many runs that was. The results are kept in "
            "[repeats.json](repeats.json); of the same tests under the same load the last counts."
        ),
        "",
        "| tests | beside them | runs | failed | skipped | tests that failed | tests that were skipped | program | date | kernel | processors |",
        "|---" * 11 + "|",
    ]
    for one in kept:
        what = PROGRAMS.get(one["what"], f"`{one['what']}`")
        cells = [what, "builds" if one["busy"] else "nothing of ours", *(one[key] for key in ("runs", "failed", "skipped"))]
        cells += [counted(one["failures"]), counted(one["skips"])]
        # In the words that page_commits.py looks for.
        cells += [f"commit {one['commit']}", *(one[key] for key in ("date", "kernel", "processors"))]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def read(file):
    return json.loads(file.read_text()) if file.exists() else []


def text(kept):
    return "[\n" + ",\n".join(json.dumps(one) for one in kept) + "\n]\n"


def add(options):
    if not options.commit:
        print("repeats_page.py: the tree had changes that were not committed, so docs/repeats.md does not take this result", file=sys.stderr)
        return
    new = {
        "what": options.what,
        "busy": options.busy,
        "runs": options.runs,
        "failed": options.failed,
        "skipped": options.skipped,
        "failures": dict(collections.Counter(options.failures)),
        "skips": dict(collections.Counter(options.skips)),
        "commit": options.commit,
        "date": datetime.date.today().isoformat(),
        "kernel": platform.release(),
        "processors": os.cpu_count(),
    }
    kept = with_result(read(options.docs / "repeats.json"), new)
    write(options.docs / "repeats.json", text(kept))
    write(options.docs / "repeats.md", page(kept))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", action="store_true", help="write the page from docs/repeats.json")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, fail if the page differs")
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS, help="where the page is")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("commit", help="the commit that is built from this tree")
    adding = commands.add_parser("add", help="a result that repeat_tests.sh has")
    adding.add_argument("what")
    adding.add_argument("--commit", required=True, help="what the tests were built from, as `commit` said then; empty if it said nothing")
    adding.add_argument("--runs", type=int, required=True)
    adding.add_argument("--failed", type=int, required=True)
    adding.add_argument("--skipped", type=int, required=True)
    adding.add_argument("--busy", action="store_true")
    adding.add_argument("--failures", nargs="*", default=[], metavar="TEST", help="the tests that failed, each as often as it did")
    adding.add_argument("--skips", nargs="*", default=[], metavar="TEST", help="the tests that were skipped in runs without a failure, likewise")
    options = parser.parse_args()
    if options.command == "commit":
        print(commit() or "")
        return
    if options.command == "add":
        add(options)
        return
    if not options.raw:
        parser.error("nothing to do: add or --raw")
    now = page(read(options.docs / "repeats.json"))
    if not options.check:
        write(options.docs / "repeats.md", now)
    elif (options.docs / "repeats.md").read_text() != now:
        sys.exit("docs/repeats.md: not what repeats.json says: run scripts/repeats_page.py --raw")


if __name__ == "__main__":
    main()
