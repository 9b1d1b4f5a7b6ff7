#!/usr/bin/env python3
"""Runs the commands of README.md, all pages of docs/ and python/linkhold/README.md that need no root, as they stand.

    try_pages.py [PATH-OF-LINKHOLD] [PAGE...]

Every page gets an empty folder with the repository's scenarios in it, and every block a script (page_blocks.py): `try commands`
is run by bash, `try file NAME` is written down, `try scenario` is checked by `linkhold scenario check`. A block fails if one of
its commands ends with an error, or if what it prints lacks what the page promises. No block is without a comment, so none is
forgotten; other blocks name who runs them. A page with blocks must name the script that runs them. Directives of a block:

    replace A => B        run B where the page says A: fewer seeds, a file of the folder in the place of one of /etc
    elsewhere A => WHO    the line that begins with A is run by another: `make TARGET`, or a file and words in it
    before COMMAND        run before the block (a file that a reader has), not shown on the page
    after COMMAND         run after the block, in the same shell: checks what it left behind
    stands-in NAME COMMAND  a program that this machine may not have, played by a shell command
    shows REGEX           what the block must print
    base FILE             a scenario without the tables that the block has; the block is put to the rest of it
    line TEXT             of a scenario, too, before the block
    more TEXT             of a scenario, too, after the block
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from page_blocks import ROOT, Directives, Wrong, blocks, check_who, sum_of

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "python" / "linkhold" / "README.md"]
# Blocks that need root, and a lab or the testbed: scripts/try_router_page.py runs these.
AS_ROOT = {
    "README.md": ("testbed",),
    "docs/router.md": ("lab", "agent", "flow", "signals", "socket", "watch", "metrics", "record", "config", "rules"),
    "docs/host.md": ("congestion",),
    "docs/testbed/README.md": ("testbed",),
}
# No block takes this long, s.
TIME_LIMIT = 120


class Page:
    """A page's folder, and what its blocks have in common."""

    def __init__(self, program, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "linkhold").symlink_to(program)
        (folder / "target" / "release").mkdir(parents=True)
        (folder / "target" / "release" / "linkhold").symlink_to(program)
        for name in ("scenarios", "packaging"):
            shutil.copytree(ROOT / name, folder / name)
        search = f"{folder / 'bin'}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        self.environment = {**os.environ, "PATH": search, "HOME": str(folder), "COLUMNS": "120"}
        self.environment.pop("LINKHOLD_DATA", None)

    def run(self, text):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT,
        )  # fmt: skip
        if done.returncode:
            raise Wrong(f"exit status {done.returncode}:\n{text}\n{done.stdout[-4000:]}")
        return done.stdout

    def stand_in(self, told):
        name, _, command = told.partition(" ")
        file = self.folder / "bin" / name
        file.write_text(f"#!/bin/sh\n{command}\n")
        file.chmod(0o755)

    def commands(self, block):
        told, text = Directives(block.directives), block.text
        for old, who in told.pairs("elsewhere"):
            check_who(who)
            lines = text.split("\n")
            left = [line for line in lines if not line.lstrip().startswith(old)]
            if len(left) == len(lines):
                raise Wrong(f"no line begins with {old}")
            text = "\n".join(left)
        text = told.replaced(text)
        for stand_in in told.all("stands-in"):
            self.stand_in(stand_in)
        for command in told.all("before"):
            self.run(command)
        told.check_shown(text, self.run("\n".join([text, *told.all("after")])))

    def scenario(self, block):
        told, text = Directives(block.directives), block.text
        text = "\n".join([*told.all("line"), text, *told.all("more")])
        for base in told.all("base"):
            text = put_to((ROOT / base).read_text(), text)
        file = self.folder / f"block-{block.line}.toml"
        file.write_text(text + "\n")
        self.run(f"linkhold scenario check {file.name}")


def put_to(base, text):
    """`base` without the tables that `text` has, and `text` after it. A line that begins with `[` begins a table."""

    def tables(toml):
        name, parts = "", {}
        for line in toml.split("\n"):
            header = re.match(r"\[\[?\s*(\w+)", line)
            name = header[1] if header else name
            parts.setdefault(name, []).append(line)
        return parts

    old, new = tables(base), tables(text)
    given = keys(new.get("", []))
    head = [line for line in old.pop("", []) if line.partition("=")[0].strip() not in given]
    kept = [line for name, lines in old.items() if name not in new for line in lines]
    return "\n".join([*head, *new.pop("", []), *kept, *(line for lines in new.values() for line in lines)])


def keys(lines):
    return [line.partition("=")[0].strip() for line in lines if "=" in line and not line.startswith("#")]


def check_named(page, todo, as_root):
    """Fails if a page does not name the scripts that run its blocks."""
    text = page.read_text()
    for block in todo:
        script = "scripts/try_router_page.py" if block.name.split()[0] in as_root else "scripts/try_pages.py"
        if script not in text:
            raise Wrong(f"line {block.line}: the page does not say that {script} runs this block")


def try_page(program, page):
    """Runs a page's blocks; answers how many, and how many were skipped for want of a program."""
    todo = blocks(page)
    as_root = AS_ROOT.get(str(page.relative_to(ROOT)), ())
    check_named(page, todo, as_root)
    tried = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        here = Page(program, pathlib.Path(folder))
        files = [(block, block.name.split()[1:]) for block in todo if block.name.split()[0] == "file"]
        for block, name in files:
            # Before all commands: a page may name a file before it shows it.
            (here.folder / name[0]).write_text(block.text + "\n")
        for block in todo:
            kind, began = block.name.split()[0], time.monotonic()
            if re.search(r"\bjq\b", block.text + "".join(block.directives)) and not shutil.which("jq"):
                print(f"pages: {page.relative_to(ROOT)}:{block.line} skipped: `jq` is not installed")
                skipped += kind not in as_root
                continue
            try:
                if kind == "commands":
                    here.commands(block)
                elif kind == "scenario":
                    here.scenario(block)
                elif kind == "file":
                    for command in Directives(block.directives).all("after"):
                        here.run(command)
                elif kind not in as_root:
                    raise Wrong(f"no block is tried as {kind}")
                else:
                    continue
            except (Wrong, subprocess.TimeoutExpired) as error:
                raise Wrong(f"line {block.line}: {error}") from error
            tried += 1
            print(f"pages: {page.relative_to(ROOT)}:{block.line} {kind}, {time.monotonic() - began:.1f} s", flush=True)
    return tried, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, nargs="?", default=ROOT / "target" / "debug" / "linkhold")
    parser.add_argument("pages", type=pathlib.Path, nargs="*", default=PAGES)
    options = parser.parse_args()
    counts = []
    for page in options.pages:
        try:
            counts.append(try_page(options.program.resolve(), page.resolve()))
        except Wrong as error:
            print(f"pages: {page.resolve().relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
    print(f"pages: {sum_of(counts)} ({len(options.pages)} pages)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
