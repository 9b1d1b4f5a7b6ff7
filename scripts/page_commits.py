#!/usr/bin/env python3
"""Checks that every commit that a page names as the program of a measurement is in this repository, and an ancestor of
HEAD: nobody could build another. Nor could anybody build a program with changes that were not committed (`-dirty`), so
no page may name one. Pages are README.md and those of docs/ and reproductions/. A shallow clone, or a copy without Git,
does not have the commits; there the script checks only for changes, and says so."""

import re
import subprocess
import sys

from estimates import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "reproductions").rglob("*.md"))]
# A line may end between the words.
NAMED = re.compile(r"(?:commit|built\s+from)\s+`?([0-9a-f]{7,40})(-dirty)?\b")


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)


def named(pages):
    """(Page, commit, whether the program had changes) of each program that a page names; pages are texts by name."""
    return [(page, commit, bool(dirty)) for page, text in pages.items() for commit, dirty in NAMED.findall(text)]


def with_changes(found):
    """What is wrong with the programs with changes that pages name."""
    return [f"{page}: a program built from {commit} with changes that were not committed: measure the block anew" for page, commit, dirty in found if dirty]


def main():
    found = named({str(page.relative_to(ROOT)): page.read_text() for page in PAGES})
    if faults := with_changes(found):
        sys.exit("\n".join(faults))
    shallow = git("rev-parse", "--is-shallow-repository").stdout.strip()
    if shallow != "false":
        where = "a shallow clone" if shallow == "true" else "no Git repository"
        print(f"pages: the commits that pages name cannot be checked: this is {where}")
        return
    pages = {commit: page for page, commit, _ in reversed(found)}
    lost = [commit for commit in pages if git("merge-base", "--is-ancestor", commit, "HEAD").returncode]
    for commit in lost:
        print(f"{pages[commit]}: commit {commit} is no ancestor of HEAD in this repository", file=sys.stderr)
    if lost:
        sys.exit("say with which commit the numbers came instead (`entered_in` in the raw data)")
    print(f"pages: {len(pages)} commits that pages name are ancestors of HEAD")


if __name__ == "__main__":
    main()
