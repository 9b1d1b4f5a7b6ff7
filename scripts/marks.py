"""Numbers between marks of a page: what stands between <!-- measured NAME --> and <!-- /measured --> is written by a script,
everything else by people."""

import re
import sys
import textwrap

MARK = re.compile(r"<!-- measured (\S+) -->.*?<!-- /measured -->", re.DOTALL)


def wrapped(text):
    """The lines of a paragraph or of an item of a list. A link or a word with hyphens stays on one line."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(text, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


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


def fill(page, contents, check, others=()):
    """Whether `page` says what was measured; without `check` it does afterwards."""
    text = page.read_text()
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
