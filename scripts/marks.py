"""Numbers between marks of a page: what stands between <!-- measured NAME --> and <!-- /measured --> is written by a script,
everything else by people."""

import pathlib
import re
import sys
import textwrap

SCRIPTS = pathlib.Path(__file__).resolve().parent
MARK = re.compile(r"<!-- measured (\S+) -->.*?<!-- /measured -->", re.DOTALL)


def wrapped(text):
    """The lines of a paragraph or of an item of a list. A link or a word with hyphens stays on one line."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(text, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def paragraph(text):
    """A paragraph by itself, as it stands between marks."""
    return "\n" + "\n".join(wrapped(text)) + "\n"


def listed(words, last_word="and"):
    """Words as a sentence has them: a, b and c."""
    *most, last = words
    return f"{', '.join(most)} {last_word} {last}" if most else last


def filled(page, text, contents, others=()):
    """`text` with its marks filled. Each mark must have its content or be one of `others`, whose scripts fill them, and each
    content its mark. Where `others` is None, all further marks are others'."""
    if others is None:
        others = [name for name in MARK.findall(text) if name not in contents]
    names = [name for name in MARK.findall(text) if name not in others]
    for name in names:
        if name not in contents:
            sys.exit(f"{page}: nothing measured is called {name}; there are {', '.join(contents)}")
    for name in contents:
        if name not in names:
            sys.exit(f"{page}: there is no place for {name}: <!-- measured {name} --><!-- /measured -->")

    def fresh(mark):
        return mark[0] if mark[1] in others else f"<!-- measured {mark[1]} -->{contents[mark[1]]}<!-- /measured -->"

    now = MARK.sub(fresh, text)
    marks = len(MARK.findall(text))
    if now.count("<!-- measured ") != marks or now.count("<!-- /measured -->") != marks:
        sys.exit(f"{page}: a mark has no beginning or no end")
    return now


def unnamed(text, script):
    """What is wrong with a page that does not name the script of ours which fills it; nothing if it does."""
    if script.resolve().parent != SCRIPTS or f"scripts/{script.name}" in text:
        return None
    return f"the page does not say that scripts/{script.name} fills it"


def fill(page, contents, check, others=()):
    """Whether `page` says what was measured; without `check` it does afterwards."""
    text = page.read_text()
    if wrong := unnamed(text, pathlib.Path(sys.argv[0])):
        sys.exit(f"{page}: {wrong}")
    now = filled(page, text, contents, others)
    if now == text:
        return True
    if check:
        for old, new in zip(text.splitlines(), now.splitlines()):
            if old != new:
                print(f"- {old}\n+ {new}", file=sys.stderr)
        return False
    write(page, now)
    return True


def between(page, opening, closing, text):
    """The page with `text` in place of what stands between `opening` and `closing`."""
    before, opened, rest = page.read_text().partition(opening)
    _, closed, after = rest.partition(closing)
    if not (opened and closed):
        sys.exit(f"{page}: its measured part goes between {opening} and {closing}, which are not there")
    return f"{before}{opening}\n{text}\n{closing}{after}"


def write(page, text):
    """Writes the whole page or nothing."""
    partial = page.with_name(f".{page.name}.partial")
    partial.write_text(text)
    partial.replace(page)


def write_whole(page, text, check, again):
    """Writes a page that a script makes whole; with `check` it ends where the page says something else, and names the command that
    writes it `again`."""
    if not check:
        write(page, text)
    elif page.read_text() != text:
        sys.exit(f"{page} is not what was measured; write it anew: {again}")


def table(head, rows):
    """The lines of a table, and an empty one behind it."""
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows), ""]
