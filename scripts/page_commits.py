#!/usr/bin/env python3
"""Checks that every commit that a page names as the program of a measurement is in this repository, and an ancestor of
HEAD: nobody could build another. Pages are README.md and those of docs/ and reproductions/. A shallow clone, or a copy
without Git, does not have the commits; there the script checks nothing, and says so."""

import re
import subprocess
import sys

from estimates import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "reproductions").rglob("*.md"))]
# A line may end between the words.
NAMED = re.compile(r"(?:commit|built\s+from)\s+`?([0-9a-f]{7,40})\b")


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)


def main():
    shallow = git("rev-parse", "--is-shallow-repository").stdout.strip()
    if shallow != "false":
        where = "a shallow clone" if shallow == "true" else "no Git repository"
        print(f"pages: the commits that pages name cannot be checked: this is {where}")
        return
    named = {}
    for page in PAGES:
        for commit in NAMED.findall(page.read_text()):
            named.setdefault(commit, page.relative_to(ROOT))
    lost = [commit for commit in named if git("merge-base", "--is-ancestor", commit, "HEAD").returncode]
    for commit in lost:
        print(f"{named[commit]}: commit {commit} is no ancestor of HEAD in this repository", file=sys.stderr)
    if lost:
        sys.exit("say with which commit the numbers came instead (`entered_in` in the raw data)")
    print(f"pages: {len(named)} commits that pages name are ancestors of HEAD")


if __name__ == "__main__":
    main()
