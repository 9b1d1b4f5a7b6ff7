#!/usr/bin/env python3
"""Tries the recipe "Add a mechanism" of CONTRIBUTING.md with a dummy, and says which files its diff has.

    try_recipe.py [--keep]

scripts/recipe/ has the dummy: a mechanism that clamps windows, with one setting, and its scenario. A copy of the tree as it stands
(changes that are not committed included) gets the dummy's files, a line in lib.rs and a line in the list of registry.rs. Then the copy
is built and has to know the dummy everywhere: `run` with `--set`, `scenario check`, `scenario --help`, the schema, and the
registry's own tests. The diff must be exactly what CONTRIBUTING says. Nothing of the tree changes; --keep leaves the copy there.

Packages that are not of this workspace are taken from the target folder by hard links, so that only the workspace is built anew,
without optimising. The program is built into the copy: target/debug/linkhold stays that of the tree.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPE = ROOT / "scripts" / "recipe"
CORE = "crates/linkhold-core/src"
NAME, MODULE, TYPE, SETTING = "window-cap", "window_cap", "WindowCapConfig", "most"
LIB, REGISTRY, SCENARIO = f"{CORE}/lib.rs", f"{CORE}/registry.rs", f"scenarios/{NAME}.toml"
# Where the recipe puts each of its files.
FILES = {
    RECIPE / MODULE / "mod.rs": f"{CORE}/{MODULE}/mod.rs",
    RECIPE / MODULE / "settings.rs": f"{CORE}/{MODULE}/settings.rs",
    RECIPE / f"{NAME}.toml": SCENARIO,
}
CARGO = os.environ.get("CARGO", "cargo")
# The tests' profile optimises; here building is what takes time. Other people's packages keep their profile, so that they are not built anew.
QUICK = ("opt-level=0", "debug=false")


class Wrong(Exception):
    """A step of the recipe cannot be taken, or does not do what CONTRIBUTING says."""


def with_module(text):
    """lib.rs with the dummy's line, in its place by the alphabet."""
    lines = text.split("\n")
    modules = [(index, line) for index, line in enumerate(lines) if re.match(r"(pub(\(crate\))? )?mod \w+;$", line)]
    if not modules:
        raise Wrong(f"{LIB} has no list of modules any more")
    after = [index for index, line in modules if re.search(r"mod (\w+);", line)[1] < MODULE]
    lines.insert(after[-1] + 1 if after else modules[0][0], f"pub mod {MODULE};")
    return "\n".join(lines)


def with_entry(text):
    """registry.rs with the dummy's line at the end of its list."""
    lists = re.findall(r"^registry! \{\n(?:    \w+\([\w:]+\);\n)+\}\n", text, re.MULTILINE)
    if len(lists) != 1:
        raise Wrong(f"{REGISTRY} has no one list `registry! {{ Name(path::of::Config); ... }}` any more")
    entry = f"    {TYPE.removesuffix('Config')}(crate::{MODULE}::{TYPE});\n"
    return text.replace(lists[0], lists[0].removesuffix("}\n") + entry + "}\n")


EDITS = {LIB: with_module, REGISTRY: with_entry}


def apply(tree):
    """Takes the recipe's steps in `tree`."""
    for source, target in FILES.items():
        file = tree / target
        if file.exists():
            raise Wrong(f"{target} is there already")
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, file)
    for name, edit in EDITS.items():
        (tree / name).write_text(edit((tree / name).read_text()))


def tracked(tree):
    """The files of the tree as it stands, without what Git ignores."""
    listed = ["git", "-C", tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in names if name and (tree / name).is_file()]


def copy(tree, names):
    """Name -> contents of what was copied: the tree itself may change while the copy is built."""
    copied = {}
    for name in names:
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, file)
        copied[name] = file.read_bytes()
    return copied


def diff(tree, copied):
    """File -> lines added and removed, of what is not as it was copied."""
    changed = {}
    here = {file.relative_to(tree) for file in tree.rglob("*") if file.is_file()}
    here = {str(file) for file in here if file.parts[0] not in ("target", "out")}
    for name in sorted(here | set(copied)):
        old = copied.get(name, b"").split(b"\n")[:-1]
        new = (tree / name).read_bytes().split(b"\n")[:-1] if name in here else []
        if old != new:
            changed[name] = (len([line for line in new if line not in old]) if old else len(new), len([line for line in old if line not in new]))
    return changed


def expected():
    """What the diff must be: whole new files, and one new line each in two."""
    files = {target: (len(source.read_bytes().split(b"\n")) - 1, 0) for source, target in FILES.items()}
    return {**files, **{name: (1, 0) for name in EDITS}}


def check_diff(tree, copied):
    found = diff(tree, copied)
    if found != expected():
        raise Wrong(f"the diff is {found}, and should be {expected()}")
    return found


def share_dependencies(target):
    """Takes what was built of other people's packages into `target`, by hard links; whatever is of this workspace stays behind."""
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "debug"
    ours = re.compile(r"(lib)?linkhold")
    for part in ("deps", ".fingerprint", "build"):
        for folder, folders, files in os.walk(built / part):
            if pathlib.Path(folder) == built / part:
                folders[:] = [name for name in folders if not ours.match(name)]
                files = [name for name in files if not ours.match(name)]
            inside = target / "debug" / pathlib.Path(folder).relative_to(built)
            inside.mkdir(parents=True, exist_ok=True)
            for name in files:
                try:
                    os.link(pathlib.Path(folder) / name, inside / name)
                except OSError:
                    # Another file system: then it is built anew.
                    return


def quick(tree):
    """Arguments that let cargo build the packages of this workspace without optimising them."""
    names = sorted(file.parent.name for file in (tree / "crates").glob("*/Cargo.toml"))
    return [f"--config=profile.dev.package.{name}.{setting}" for name in names for setting in QUICK]


def run(tree, command, wanted=0):
    environment = {**os.environ, "CARGO_TARGET_DIR": str(tree / "target"), "COLUMNS": "120"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != wanted:
        raise Wrong(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def knows(tree):
    """Asks the program for the dummy wherever a mechanism shows."""
    program = tree / "target" / "debug" / "linkhold"
    if f"  {NAME}" not in run(tree, [program, "scenario", "--help"]):
        raise Wrong(f"`linkhold scenario --help` does not list {NAME}")
    schema = run(tree, [program, "scenario", "schema"])
    if f'"{NAME}"' not in schema or "The largest window field that passes" not in schema:
        raise Wrong(f"the schema does not have {NAME}, or not its setting's meaning")
    run(tree, [program, "scenario", "check", SCENARIO])
    for most, least_share, most_share in ((64, 0.05, 0.5), (65535, 0.95, 1.05)):
        change = f'cases.1.mechanism={{ name = "{NAME}", {SETTING} = {most} }}'
        result = json.loads(run(tree, [program, "run", SCENARIO, "--seeds", "1", "--set", change, "--json", "--out", tree / "out"]))
        goodput = {one["case"]: one["totals"]["goodput_bps"] for one in result["runs"]}
        share = goodput["capped"] / goodput["none"]
        print(f"recipe: `run --set {change}`: {share:.2f} of the plain router's goodput")
        if not least_share <= share <= most_share:
            raise Wrong(f"with {SETTING} = {most} the dummy carries {share:.2f} of the plain router's goodput")
    run(tree, [program, "run", SCENARIO, "--set", f'cases.1.mechanism={{ name = "{NAME}", {SETTING} = 0 }}'], wanted=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the copy there")
    options = parser.parse_args()
    began = time.monotonic()
    # Beside the target folder, so that hard links work.
    beside = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    beside.mkdir(parents=True, exist_ok=True)
    tree = pathlib.Path(tempfile.mkdtemp(prefix="recipe-", dir=beside))
    try:
        copied = copy(tree, tracked(ROOT))
        apply(tree)
        found = check_diff(tree, copied)
        share_dependencies(tree / "target")
        run(tree, [CARGO, "fmt", "--all", "--check"])
        run(tree, [CARGO, "clippy", "--locked", "-p", "linkhold-core", "--", "-D", "warnings"])
        run(tree, [CARGO, "build", "--locked", "-p", "linkhold", *quick(tree)])
        knows(tree)
        run(tree, [CARGO, "test", "--locked", "-p", "linkhold-core", "--lib", *quick(tree), "registry"])
        check_diff(tree, copied)
    except Wrong as error:
        print(f"recipe: {error}", file=sys.stderr)
        return 1
    finally:
        if options.keep:
            print(f"recipe: the copy is {tree}")
        else:
            shutil.rmtree(tree, ignore_errors=True)
    print("recipe: the diff of a new mechanism is")
    for name, (added, removed) in found.items():
        print(f"  {name}: +{added} -{removed}")
    print(f"recipe: built, and known everywhere, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
