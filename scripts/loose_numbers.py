#!/usr/bin/env python3
"""Finds numbers of the pages that look measured and that no script writes, and judges each by
scripts/loose_numbers.txt.

    loose_numbers.py             fails at a number without an entry or not as its entry says, and at an entry
                                 without a number
    loose_numbers.py --list      prints entries for the numbers that have none, each with `?` for a reason

Pages are README.md, those of docs/ and reproductions/, and that of python/linkhold. A number looks measured
if a unit follows it (rates, times, sizes, %, dB, packets, ...), if it counts (`3 of 12`) or if it has a
decimal point (`0.97`). Left out is what stands between `measured` marks, in code, in comments and in
addresses of links. Of pages that a script writes whole the sentences that were typed into the script are
searched instead. A number in words ("a third") is not found, nor one without a unit (`beside 377 to 434`).

An entry is a line below the heading of its page: `reason | words «number» words`. The words are the page's,
around the number. Reasons:

    setting       somebody chose it, and the sentence alone has it: an example, a way to speak. What a scenario, an
                  option or the code has is read there (`at`), so that the page cannot stay behind
    definition    it follows by arithmetic, or is a criterion or a bound that was fixed and not found
    cited         it is a paper's or another source's, which the page names
    here          it was measured, and its paragraph names what measured it: a commit, a `make` target, a
                  command of linkhold, or a file
    = EXPRESSION  it was measured, or a file of the repository decides it; the expression makes it from tables
                  that scripts wrote on pages, and from numbers that stand in files (`Tables` below)
"""

import argparse
import ast
import dataclasses
import math
import pathlib
import re
import sys

from marks import MARK
from page_blocks import ROOT

LIST = ROOT / "scripts" / "loose_numbers.txt"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "reproductions").rglob("*.md")),
    ROOT / "python" / "linkhold" / "README.md",
]
# The scripts that write pages whole.
WRITERS = [ROOT / "scripts" / f"{name}.py" for name in ("testbed_table", "host_table", "late_table", "trace_table", "udp_table", "both_ways_table", "repeats_page", "soak")]
REASONS = ("setting", "definition", "cited", "here")
# Words that a script which writes a whole page begins it with.
WHOLE = re.compile(r"\AWritten by `make ", re.MULTILINE)
NUMBER = r"[-−+±]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
# How code and scenarios write one: with underscores, and without commas, which stand between numbers there. It is read whole.
WRITTEN = r"(?<![\d_])(?<!\d\.)[-−+]?\d[\d_]*(?:\.\d[\d_]*)?(?!\d|\.\d)"
GAP = "«»"
UNIT = (
    r"(?:[GMk]?(?:bit|b|B)/s|MS/s|[munµ]?s|min|minutes?|seconds?|hours?|%|percentage points?|points?|[kMG]B|[KMG]iB|dB|[MG]?Hz|frames|packets|segments"
    r"|datagrams|retransmissions|timeouts|alarms|blocks|kills|bursts|silences|times|of the (?:limit|throughput|goodput|capacity|time))(?![\w/])"
)
JOIN = r"\s*(?:,|to|and|or|beside|over|±|×|in place of|instead of)\s*"
# Decimals that are names: of sections, standards and versions.
NAMED = re.compile(
    r"\b802(?:\.\d+)+[a-z]?|(?:\b(?:[Ss]ections?|tables?|TS|TR|CFR|DOCSIS|Linux(?: before)?|kernels:)|Debian's) \d+(?:\.\d+)*"
    r"(?:(?:,| and| or) (?:T[SR] )?\d+\.\d+(?! ?[a-zµ%]))*"
)
LOOSE = re.compile(
    rf"(?<![\w.,:/^·(=-])(?<!\d )\(?(?:{NUMBER}(?:\s*{UNIT})?{JOIN})*?{NUMBER}\s*{UNIT}"
    rf"|(?<![\w.,])\d+ of \d+(?![\w.])"
    rf"|(?<![\w.,/-])[-−]?\d+\.\d+(?:{JOIN}[-−]?\d+\.\d+)*(?![\w.-]*\d)"
)


@dataclasses.dataclass
class Loose:
    """A number on a page: the page's text as it is searched, and where in it the number stands."""

    text: str
    start: int
    end: int

    @property
    def shown(self):
        return self.text[self.start : self.end]

    @property
    def line(self):
        return self.text.count("\n", 0, self.start)

    def with_words(self, count=4):
        """The number with some words around it, as an entry has it."""
        before = " ".join(self.text[: self.start].split("\n")[-1].split(" ")[-count - 1 :])
        after = " ".join(self.text[self.end :].split("\n")[0].split(" ")[: count + 1])
        return f"{before}«{self.shown}»{after}".strip()


def searched(page_text, with_code=False):
    """What of a page is searched for numbers: a paragraph, an item of a list or a table's row is a line."""
    text = re.sub(r"^```.*?^```$", "", page_text, flags=re.DOTALL | re.MULTILINE)
    text = MARK.sub("…", text)
    text = re.sub(r"<!-- (measured|kernel) -->.*?<!-- /\1 -->", "…", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    # Commands that are indented and not fenced.
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n)+", "", text)
    if not with_code:
        text = re.sub(r"`[^`]*`", "`…`", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<?https?://\S+", "", text)
    lines = re.sub(r"\n(?!\n|\s*[-*|#] |\s*\d+\. |\|)", " ", text).split("\n")
    text = "\n".join(" ".join(line.split()) for line in lines)
    text = NAMED.sub("…", text)
    # How wide the project's intervals are is said on every page.
    return re.sub(r"95 % (intervals?)", r"\1", text)


def typed(script_text):
    """The sentences that were typed into a script which writes a page, each a paragraph; without its own documentation and help."""
    tree, own = ast.parse(script_text), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            own.add(node.body[0].value)
        elif isinstance(node, ast.keyword) and node.arg in ("help", "description"):
            own.update(ast.walk(node))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in own]
    # A few words alone are keys; a closing tag is of a drawing, and an = without blanks of a setting.
    sentences = [text for text in texts if len(text.split()) > 3 and not re.search(r"</|\w=\S", text)]
    # What a sentence has computed parts it: a backtick may be left alone, and would hide what comes after it.
    parts = [text.replace("`", "") if text.count("`") % 2 else text for text in sentences]
    # The first part is no page's title with "Written by" below it.
    return "\n\n".join(["Typed into a script:", "", *parts])


def loose(page_text):
    """The numbers of a page that look measured and that no script writes."""
    if WHOLE.search(page_text.partition("\n\n")[2]):
        return []
    text = searched(page_text)
    found = []
    for match in LOOSE.finditer(text):
        start = match.start() + (match[0].startswith("("))
        found.append(Loose(text, start, match.end()))
    return found


@dataclasses.dataclass
class Entry:
    page: str
    reason: str
    words: str

    def covers(self, number):
        before, _, rest = self.words.partition("«")
        shown, _, after = rest.partition("»")
        return number.shown == shown and number.text[: number.start].endswith(before) and number.text[number.end :].startswith(after)


def entries(text):
    page, found = "", []
    for line in text.splitlines():
        if line.startswith("## "):
            page = line[3:]
        elif line and not line.startswith("#"):
            reason, bar, words = line.partition(" | ")
            if not bar or not re.search(r"«[^»]+»", words):
                sys.exit(f"{LIST.name}: no entry: {line}")
            found.append(Entry(page, reason, words))
    return found


class Between:
    """A number of a table, which was rounded: what it may have been before."""

    def __init__(self, least, most):
        self.least, self.most = min(least, most), max(least, most)

    @classmethod
    def of(cls, other):
        return other if isinstance(other, Between) else cls(other, other)

    @classmethod
    def shown(cls, text):
        """What is rounded to `text`."""
        digits = text.replace("−", "-").replace("+", "").replace("±", "").replace(",", "")
        half = 0.5 * 10 ** -len(digits.partition(".")[2])
        return cls(float(digits) - half, float(digits) + half)

    def _ends(self, other, operation):
        other = Between.of(other)
        ends = [operation(mine, its) for mine in (self.least, self.most) for its in (other.least, other.most)]
        return Between(min(ends), max(ends))

    def __add__(self, other):
        return self._ends(other, lambda mine, its: mine + its)

    def __sub__(self, other):
        return self._ends(other, lambda mine, its: mine - its)

    def __mul__(self, other):
        return self._ends(other, lambda mine, its: mine * its)

    def __truediv__(self, other):
        return self._ends(other, lambda mine, its: mine / its)

    def __rsub__(self, other):
        return Between.of(other) - self

    def __rtruediv__(self, other):
        return Between.of(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1

    def __round__(self, digits=0):
        return Between(round(self.least, digits), round(self.most, digits))

    @property
    def exact(self):
        return self.least == self.most

    def __str__(self):
        return f"{self.least:.12g}" if self.exact else f"{self.least:.4g} to {self.most:.4g}"

    def is_said_by(self, said):
        """Whether `said`, a page's number, is this one. Both may be rounded; what is exact is to be said as it is."""
        if self.exact:
            return math.isclose((said.least + said.most) / 2, self.least, rel_tol=1e-9, abs_tol=1e-9)
        return said.least <= self.most and self.least <= said.most


def least(*values):
    return Between(min(value.least for value in values), min(value.most for value in values))


def most(*values):
    return Between(max(value.least for value in values), max(value.most for value in values))


class Tables:
    """The tables of a page that a script wrote, as expressions see them. Words that name a caption, a row or a
    column are the whole of it, or a part that no other has.

    t(caption, row, column, n=0)   the cell's number, or of several the one at n
    half(caption, row, column)     the number behind its ±
    row(caption, row), column(caption, column, n=0)    lists of numbers; least(*list), most(*list)
    best(caption, row)             the number in the name of the column that has the row's greatest
    best_row(caption, column)      the number in the name of the row that has the column's greatest
    claim(words)                   what was measured of a claim
    of(folder)                     the tables of the page in another folder: of("../fig4").t(...)
    at(path, words)                the number in a file of the repository that stands in the gap «» of the words, which
                                   the file has once; a blank is any white space: at("Makefile", "--seeds «»"). It is
                                   exact, and the page must say it as it is, unless it is rounded: round(at(...) / 7, 1)
    """

    def __init__(self, page):
        self.page = page
        written = re.findall(r"<!-- (?:measured|kernel)\b[^>]*-->(.*?)<!-- /(?:measured|kernel) -->", page.read_text(), re.DOTALL)
        self.tables = {}
        for text in written:
            caption = ""
            for line in text.split("\n"):
                if not line.startswith("|"):
                    caption = line.strip() or caption
                elif not set(line) <= set("|-: "):
                    cells = [cell.strip().replace("`", "").replace("**", "") for cell in line.strip().strip("|").split("|")]
                    self.tables.setdefault(caption, []).append(cells)

    def of(self, folder):
        return Tables((self.page.parent / folder / "README.md").resolve())

    def _table(self, caption):
        head, *rows = self.tables[only(caption, self.tables, "caption")]
        return head, {one[0]: one for one in rows}

    def _cell(self, caption, row, column):
        head, rows = self._table(caption)
        return rows[only(row, rows, "row")][head.index(only(column, head, "column"))]

    def t(self, caption, row, column, n=0):
        return numbers(self._cell(caption, row, column))[n]

    def half(self, caption, row, column):
        return numbers(self._cell(caption, row, column).partition("±")[2])[0]

    def row(self, caption, row):
        _, rows = self._table(caption)
        return [numbers(cell)[0] for cell in rows[only(row, rows, "row")][1:]]

    def column(self, caption, column, n=0):
        head, rows = self._table(caption)
        return [numbers(one[head.index(only(column, head, "column"))])[n] for one in rows.values()]

    def best(self, caption, row):
        head, _ = self._table(caption)
        return numbers(max(zip(head[1:], self.row(caption, row)), key=lambda pair: pair[1].most)[0])[0]

    def best_row(self, caption, column):
        _, rows = self._table(caption)
        return numbers(max(zip(rows, self.column(caption, column)), key=lambda pair: pair[1].most)[0])[0]

    def claim(self, words):
        claims = {}
        for head, *rows in self.tables.values():
            # Beside what fresh seeds say a claim stands a second time, with the seeds in place of "measured".
            if {"claim", "measured"} <= set(head):
                claims |= {one[head.index("claim")]: one[head.index("measured")] for one in rows}
        return numbers(claims[only(words, claims, "claim")])[0]

    def at(self, path, words):
        before, *after = " ".join(words.split()).split(GAP)
        if len(after) != 1:
            raise LookupError(f"{words!r} must have the gap {GAP} once")
        if not (ROOT / path).is_file():
            raise LookupError(f"there is no file {path}")
        found = re.findall(f"{re.escape(before)}({WRITTEN}){re.escape(after[0])}", " ".join((ROOT / path).read_text().split()))
        if len(found) != 1:
            raise LookupError(f"{path} has {len(found)} times {words!r}, which it must have once")
        digits = found[0].replace("_", "").replace("−", "-")
        return Between.of(float(digits) if "." in digits else int(digits))

    def value(self, expression):
        """What the expression gives, as a list."""
        known = {name: getattr(self, name) for name in ("t", "half", "row", "column", "best", "best_row", "claim", "of", "at")}
        known |= {"str": str, "round": round, "least": least, "most": most}
        got = eval(expression, {"__builtins__": {}, **known})  # noqa: S307
        return [Between.of(one) for one in (got if isinstance(got, (tuple, list)) else [got])]


def only(words, names, what):
    """The one of `names` that is `words`, or that alone has them."""
    found = [name for name in names if name == words] or [name for name in names if words in name]
    if len(found) != 1:
        raise LookupError(f"{len(found)} {what}s are called {words!r}, of {', '.join(names)}")
    return found[0]


def numbers(text):
    return [Between.shown(one) for one in re.findall(NUMBER, text)]


def is_said(shown, values):
    """Whether the numbers in `shown` are `values`, as far as both are rounded. One number may stand for several that are alike."""
    said = numbers(shown)
    if len(said) == 1:
        said *= len(values)
    return len(said) == len(values) and all(value.is_said_by(one) for one, value in zip(said, values))


# What a paragraph must name if it has a number that was measured once.
NAMES = re.compile(r"commit [0-9a-f]{7}|built from [0-9a-f]{7}|`make [a-z-]+|`linkhold (?:run|reproduce|testbed) |[\w/]+\.(?:rs|py|sh)\b")


def fault(entry, number, tables, paragraph):
    """What is wrong with a number that has an entry; nothing if it is as the entry says."""
    if entry.reason.startswith("= "):
        try:
            values = tables.value(entry.reason[2:])
        except (LookupError, ValueError, TypeError, NameError, AttributeError, SyntaxError, ZeroDivisionError) as error:
            return f"{entry.reason} cannot be had: {error}"
        return None if is_said(number.shown, values) else f"the tables and files say {', '.join(map(str, values))}"
    if entry.reason not in REASONS:
        return f"there is no reason {entry.reason!r}"
    if entry.reason == "here" and not NAMES.search(paragraph):
        return "its paragraph names nothing that measured it"
    return None


def faults(pages, listed):
    """Every number without an entry, each that is not as its entry says, and every entry without a number."""
    found, used = [], set()
    for name, path in pages.items():
        text, tables = read(path), None
        paragraphs = searched(text, with_code=True).split("\n")
        own = [(index, entry) for index, entry in enumerate(listed) if entry.page == name]
        for number in loose(text):
            fitting = [(index, entry) for index, entry in own if entry.covers(number)]
            used.update(index for index, _ in fitting)
            if not fitting:
                found.append(f"{name}: no script writes: {number.with_words()}")
                continue
            tables = tables or Tables(path)
            entry = fitting[0][1]
            if wrong := fault(entry, number, tables, paragraphs[number.line]):
                found.append(f"{name}: {entry.words}: {wrong}")
    found += [f"{LIST.name}: {entry.page} has no longer: {entry.words}" for index, entry in enumerate(listed) if index not in used]
    return found


def read(path):
    return typed(path.read_text()) if path.suffix == ".py" else path.read_text()


def named_pages():
    return {str(path.relative_to(ROOT)): path for path in [*PAGES, *WRITERS]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print entries for the numbers that have none")
    parser.add_argument("pages", type=pathlib.Path, nargs="*", help="only these")
    options = parser.parse_args()
    listed = entries(LIST.read_text()) if LIST.exists() else []
    pages = {str(path.resolve().relative_to(ROOT)): path for path in options.pages} or named_pages()
    if options.list:
        for name, path in pages.items():
            own = [entry for entry in listed if entry.page == name]
            new = [number for number in loose(read(path)) if not any(entry.covers(number) for entry in own)]
            if new:
                print("\n".join([f"## {name}", *(f"? | {number.with_words()}" for number in new), ""]))
        return
    if wrong := faults(pages, [entry for entry in listed if entry.page in pages]):
        sys.exit("\n".join(wrong))
    print(f"pages: the {len(listed)} numbers that no script writes are as scripts/loose_numbers.txt says")


if __name__ == "__main__":
    main()
