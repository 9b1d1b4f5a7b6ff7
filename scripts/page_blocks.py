"""The code blocks of a page, and who runs each.

Before every block stands a comment that is not shown:

    <!-- try NAME -->            a script runs it; NAME says how
    <!-- try NAME
    DIRECTIVE                    with more for the script, a line each
    -->
    <!-- tried by WHO -->        it is run elsewhere: `make TARGET`, or a file of the repository and words in it
"""

import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
# `directives` are the lines of its comment; `line` is where it begins, counted from 1.
Block = collections.namedtuple("Block", "name directives language text line")
COMMENT = re.compile(r"<!-- (try|tried by)\s+(.*?)\s*-->\Z", re.DOTALL)


class Wrong(Exception):
    """What the page says is not what happens, or nothing runs what it says."""


def check_who(who):
    """Fails if there is no such target or file that is said to run something."""
    words = who.strip().split(maxsplit=1)
    if words[:1] == ["make"]:
        target = words[1] if len(words) > 1 else ""
        if not re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
            raise Wrong(f"`{who}`: the Makefile has no such target")
        return
    file = ROOT / words[0] if words else ROOT
    if not file.is_file():
        raise Wrong(f"`{who}`: there is no such file")
    if len(words) > 1 and words[1] not in file.read_text():
        raise Wrong(f"`{who}`: the file has no such words")


def blocks(page):
    """The blocks of `page` that have a script, in its order. Fails at one that nobody runs."""
    found, text = [], page.read_text()
    for fence in re.finditer(r"^```(\w*)\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, fence.start()) + 1
        before = text[: fence.start()].rstrip("\n")
        comment = COMMENT.search(before[before.rfind("<!--") :]) if "<!--" in before else None
        if comment is None:
            raise Wrong(f"line {line}: no comment says who runs this block (scripts/page_blocks.py)")
        if comment[1] == "tried by":
            for who in comment[2].split(", "):
                check_who(who)
            continue
        first, *directives = [one.strip() for one in comment[2].split("\n")]
        found.append(Block(first, directives, fence[1], fence[2], line))
    if len(found) != len(re.findall(r"^<!-- try\s", text, re.MULTILINE)):
        raise Wrong("a `<!-- try -->` comment stands before no code block")
    return found
