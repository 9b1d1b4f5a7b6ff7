#!/usr/bin/env python3
"""Checks what the sentences of pages have in `backticks` and in links: commands of linkhold parse, targets
of the Makefile and files of the repository are there.

    inline_code.py [PATH-OF-LINKHOLD] [PAGE...]

Nothing is run but `linkhold ... --help` and `linkhold scenario schema`. Checked are:

    `linkhold SUB ... --option`   the subcommands and options are in the command's help, and keys of `--set` in the scenario's schema
    `--option`                    some subcommand's help, or a program of the repository that the page names, has it
    `make TARGET`                 the Makefile has the target
    `a/path`, `file.rs`, links    the file is there; a link's part after # is a heading of its page
    `a_name_of_five_words`, `a_name_of_many_words_*`    some source has the name: so are tests called

Code blocks of README.md, docs/ and python/ are run by try_pages.py; of the pages of reproductions/ the
commands in blocks are checked here, like those in sentences.
"""

import argparse
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys

from page_blocks import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "reproductions").rglob("*.md")),
    ROOT / "python" / "linkhold" / "README.md",
]
# What a page calls a file that the reader has, or that a command writes; and folders that only a build makes.
READERS = re.compile(r"^(?:out|target|data|\.venv|~)(?:/|$)|^/")
# Files of other projects that pages cite.
OTHERS = {
    "docs/signals.md": (
        "include/uapi/linux/nl80211.h",
        "drivers/net/wireless/ath/dfs_pattern_detector.c",
        "dfs_pri_detector.c",
        "src/ap/dfs.c",
        "net/mac80211/rx.c",
        "net/mac80211/scan.c",
        "src/harness/testcases/WINNF_FT_S_IPR_testcase.py",
        "gaming/inspect_xtime.py",
        "zoom/plot_xtime_figure.py",
    ),
}


class Wrong(Exception):
    """What a page names is not there."""


class Command:
    """What `linkhold` takes, by its own help."""

    def __init__(self, program):
        self.program = program

    @functools.cache
    def help(self, *path):
        done = subprocess.run([self.program, *path, "--help"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Wrong(f"`linkhold {' '.join(path)} --help` fails: {done.stderr.strip()}")
        return done.stdout

    @functools.cache
    def subcommands(self, *path):
        listed = re.search(r"^Commands:\n((?:  .*\n|\n)*)", self.help(*path), re.MULTILINE)
        return [name for name in re.findall(r"^  ([a-z][\w-]*)", listed[1], re.MULTILINE) if name != "help"] if listed else []

    @functools.cache
    def options(self, *path):
        return set(re.findall(r"^ +(?:-\w, )?(--[a-z][\w-]*)", self.help(*path), re.MULTILINE)) | {"--help"}

    def paths(self, *path):
        yield path
        for name in self.subcommands(*path):
            yield from self.paths(*path, name)

    @functools.cache
    def every_option(self):
        return set().union(*(self.options(*path) for path in self.paths()))

    @functools.cache
    def schema(self):
        return json.loads(subprocess.run([self.program, "scenario", "schema"], capture_output=True, text=True, check=True).stdout)

    def has_key(self, key):
        """Whether the scenario's schema has a key such as radio.primary_user.on_mean."""
        return self._below([self.schema()], key.split("."))

    def _below(self, places, names):
        if not names:
            return True
        places = [one for place in places for one in self._alternatives(place)]
        inner = [place["properties"][names[0]] for place in places if names[0] in place.get("properties", {})]
        if names[0].isdigit():
            inner += [place["items"] for place in places if isinstance(place.get("items"), dict)]
        inner += [place["additionalProperties"] for place in places if isinstance(place.get("additionalProperties"), dict)]
        return bool(inner) and self._below(inner, names[1:])

    def _alternatives(self, place):
        if "$ref" in place:
            target = self.schema()
            for name in place["$ref"].removeprefix("#/").split("/"):
                target = target[name]
            yield from self._alternatives(target)
        yield place
        for key in ("anyOf", "oneOf", "allOf"):
            for one in place.get(key, []):
                yield from self._alternatives(one)

    def check(self, words):
        """Fails unless a command line, without its first word, is one that linkhold takes. `...` and words in capitals stand for more."""
        path, rest = (), list(words)
        options = []
        while rest:
            word = rest.pop(0)
            if word.startswith("--"):
                options.append(word.partition("=")[0])
                if word == "--set" and rest:
                    self.check_setting(rest.pop(0))
            elif word in self.subcommands(*path):
                path += (word,)
            elif self.subcommands(*path) and re.fullmatch(r"[a-z][a-z-]*", word):
                raise Wrong(f"`linkhold {' '.join(path)}` has no subcommand {word}")
        for option in options:
            # Options before a subcommand are the parent's.
            if not any(option in self.options(*path[:end]) for end in range(len(path) + 1)):
                raise Wrong(f"`linkhold {' '.join(path)}` has no option {option}")
        if path[:1] == ("reproduce",):
            self.check_figure(words)

    def check_setting(self, setting):
        key, equals, _ = setting.partition("=")
        if not equals:
            raise Wrong(f"--set {setting} has no =")
        if key != "KEY" and not self.has_key(key):
            raise Wrong(f"--set {setting}: the scenario's schema has no key {key}")

    def check_figure(self, words):
        """Fails unless what stands between `reproduce` and its options is a paper or a figure."""
        for word in words[1:]:
            if word.startswith("-"):
                return
            if not (ROOT / "reproductions" / word).is_dir():
                raise Wrong(f"`linkhold reproduce {word}`: reproductions/ has no such folder")


def sentences(text):
    """A page without its comments and code blocks, and without what scripts/try_recipe.py makes in a copy of the tree."""
    text = re.sub(r"<!-- try-recipe -->.*?<!-- /try-recipe -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def blocks_of(text):
    return re.findall(r"^```(?:sh)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@functools.cache
def files():
    """The repository's files, and their folders; of a copy without Git, those that no build made."""
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    names = set(listed.stdout.splitlines()) or {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and path.relative_to(ROOT).parts[0] not in ("target", "out")
    }
    return names | {str(parent) for name in names for parent in pathlib.PurePath(name).parents}


@functools.cache
def names_in_sources():
    return {
        word for name in files() if name.endswith((".rs", ".py")) and (ROOT / name).is_file() for word in re.findall(r"\w+", (ROOT / name).read_text())
    }


@functools.cache
def tops():
    return {name.partition("/")[0] for name in files() if "/" in name}


def expanded(path):
    """`a/{b,c}.rs` as its paths."""
    found = re.match(r"(.*)\{([^}]*)\}(.*)", path)
    return [one for part in found[2].split(",") for one in expanded(found[1] + part + found[3])] if found else [path]


def is_there(page, path):
    """Whether a path that a page names is in the repository: from its root, from the page, or, for a lone name, anywhere."""
    pattern = re.sub(r"<\w+>|\bNAME\b", "*", path.rstrip("/"))
    if "*" in pattern:
        return any(pathlib.PurePath(name).match(pattern) for name in files())
    beside = (page.parent / pattern).resolve()
    if pattern in files() or (beside.is_relative_to(ROOT) and str(beside.relative_to(ROOT)) in files()):
        return True
    # `sim/src/run.rs` and `sim/run.rs` stand for crates/linkhold-sim/src/run.rs.
    crate, _, rest = pattern.partition("/")
    short = {f"crates/linkhold-{crate}/{rest}", f"crates/linkhold-{crate}/src/{rest}"}
    return bool(short & files()) or any(name.endswith(f"/{pattern}") for name in files())


def names_path(span):
    """Whether a span of code is meant as a path of the repository."""
    if re.search(r"[\s=()<\"'|:\[\]]", re.sub(r"<\w+>", "", span)) or READERS.search(span):
        return False
    if re.fullmatch(r"[\w./*{},<>-]+\.(?:rs|py|sh|c|h|json|md)", span):
        return True
    return "/" in span and span.partition("/")[0] in tops()


@functools.cache
def headings(page):
    """GitHub's anchors of a page's headings."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.replace("`", "").lower()).replace(" ", "-") for line in lines}


def check_link(page, target):
    if re.match(r"[a-z]+:", target):
        return
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        raise Wrong(f"a link leads to {target}, which is not there")
    if anchor and file.suffix == ".md" and anchor not in headings(file):
        raise Wrong(f"a link leads to {target}, and the page has no such heading")


def targets():
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def check_span(command, page, text, span):
    words = span.split()
    if words[:1] == ["sudo"]:
        words = words[1:]
    if not words:
        return
    if words[0] in ("linkhold", "target/release/linkhold"):
        command.check(shlex.split(" ".join(words[1:])))
    elif words[0] == "make":
        target = next((word for word in words[1:] if "=" not in word), "")
        if target not in targets():
            raise Wrong(f"`{span}`: the Makefile has no such target")
    elif re.fullmatch(r"--[a-z][\w-]*", words[0].partition("=")[0]):
        option = words[0].partition("=")[0]
        if option == "--set":
            command.check_setting(shlex.split(span)[1] if len(words) > 1 else "KEY=VALUE")
        elif option not in command.every_option() and not any(option in script.read_text() for script in scripts_of(page, text)):
            raise Wrong(f"`{span}`: no subcommand has it, nor a script that the page names")
    elif name := re.fullmatch(r"(?:\w+::)*([a-z][a-z0-9]*(?:_[a-z0-9]+){4,})(_\*)?", span):
        if not any(word.startswith(name[1]) if name[2] else word == name[1] for word in names_in_sources()):
            raise Wrong(f"`{span}`: no source has this name")
    elif names_path(words[0]):
        written = "\n".join(blocks_of(text))
        for path in expanded(words[0]):
            if not is_there(page, path) and path not in written and path not in OTHERS.get(str(page.relative_to(ROOT)), ()):
                raise Wrong(f"`{span}`: {path} is not in the repository")


def scripts_of(page, text):
    """The scripts that a page names, and those that the targets which it names run."""
    makefile = (ROOT / "Makefile").read_text()
    recipes = "".join(
        found[0] for target in re.findall(r"`make ([a-z-]+)", text) if (found := re.search(rf"^{target}:.*\n(?:\t.*\n)*", makefile, re.MULTILINE))
    )
    return [ROOT / name for name in set(re.findall(r"scripts/[\w/]+\.(?:py|sh)", text + recipes)) if (ROOT / name).is_file()]


def faults(command, page):
    """What is wrong with a page's code in sentences, and with its links; and how many were looked at."""
    raw = page.read_text()
    text = sentences(raw)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    lines = []
    if page.is_relative_to(ROOT / "reproductions"):
        lines = [line for block in blocks_of(raw) for line in block.splitlines()] + re.findall(r"^ {4}((?:sudo|linkhold) .*)$", text, re.MULTILINE)
        lines = [re.split(r"\s+#|\s>\s", line)[0].strip() for line in lines]
    found = []
    for span in [*spans, *lines]:
        try:
            check_span(command, page, raw, span)
        except (Wrong, ValueError) as error:
            found.append(f"{page.relative_to(ROOT)}: {error}")
    links = re.findall(r"\]\(\s*<?([^)>\s]+)>?\s*\)", re.sub(r"`[^`]*`", "", text))
    for target in links:
        try:
            check_link(page, target)
        except Wrong as error:
            found.append(f"{page.relative_to(ROOT)}: {error}")
    return found, len(spans) + len(lines) + len(links)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=str(ROOT / "target" / "debug" / "linkhold"))
    parser.add_argument("pages", type=pathlib.Path, nargs="*", default=PAGES)
    options = parser.parse_args()
    command, wrong, looked = Command(options.program), [], 0
    for page in options.pages:
        found, count = faults(command, page.resolve())
        wrong += found
        looked += count
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"pages: {looked} spans of code, commands and links of {len(options.pages)} pages name what there is")


if __name__ == "__main__":
    main()
