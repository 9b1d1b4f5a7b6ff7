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


class Directives:
    """The lines of a block's comment; scripts/try_pages.py says what each asks for."""

    def __init__(self, lines):
        known = ("replace", "elsewhere", "before", "after", "stands-in", "shows", "base", "line", "more")
        self._lines = [line.split(maxsplit=1) for line in lines if line]
        for line in self._lines:
            if line[0] not in known or len(line) < 2:
                raise Wrong(f"no directive: {' '.join(line)}")

    def all(self, name):
        return [rest for word, rest in self._lines if word == name]

    def pairs(self, name):
        for rest in self.all(name):
            old, arrow, new = rest.partition(" => ")
            if not arrow:
                raise Wrong(f"`{name} {rest}` has no =>")
            yield old, new

    def replaced(self, text):
        """The block's text with what its comment puts in the place of parts of it."""
        for old, new in self.pairs("replace"):
            if old not in text:
                raise Wrong(f"{old} is not in the block")
            text = text.replace(old, new)
        return text

    def check_shown(self, text, said):
        """Fails if what was printed lacks what the block must print."""
        for wanted in self.all("shows"):
            if not re.search(wanted, said, re.MULTILINE):
                raise Wrong(f"nothing printed is like {wanted}:\n{text}\n{said[-4000:]}")


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


def sum_of(counts):
    """These pairs of blocks that did what their page says and of those that were skipped or undecided, together and in words."""
    tried, skipped = (sum(column) for column in zip(*counts))
    return f"{tried} blocks do what the pages say" + (f"; {skipped} not tried here, or undecided" if skipped else "")
