#!/usr/bin/env python3
"""Runs the property tests on very many new cases each (`make soak`), and goes on where it was.

Every test of these packages runs alone, the built program optimised and with its assertions, as many side by side as there are processors.
What was clean stays in out/soak/clean.json with a hash of the program that it was run with, without names and debug information: it is run
again when the sources build another program. A failed test's output is printed and kept in out/soak/. A program of which all tests are clean goes
into docs/soak.json and docs/soak.md, which are committed: it is not run again elsewhere, either. Of one that was stopped, docs/soak.json has the tests
that are clean, so that another machine goes on where it was. These also keep a hash of the sources (the
package, the packages of this workspace that it uses, the lock file), by which --state knows without a build that nothing has changed.

  soak.py                  all packages, 300,000 cases
  soak.py --package linkhold-mesh --cases 3000
  soak.py --state          which packages are clean as they stand here; builds and runs nothing, exit status 1 if one is not
  soak.py --raw           writes docs/soak.md from docs/soak.json; with --check it writes nothing, and fails if the page is another
"""

import argparse
import collections
import concurrent.futures
import contextlib
import ctypes
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from marks import wrapped

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "out" / "soak"
RECORD = KEPT / "clean.json"
# Packages of which all was clean, for other machines.
SHARED = ROOT / "docs" / "soak.json"
PAGE = ROOT / "docs" / "soak.md"
# The targets with property tests, and None where all of a package's tests are to run: scenario tests without drawn cases take minutes
# in linkhold-sim and need root in linkhold-linux.
PACKAGES = {
    "linkhold-core": None,
    "linkhold-wire": None,
    "linkhold-tcp": None,
    "linkhold-radio": None,
    "linkhold-results": None,
    "linkhold-sense": None,
    "linkhold-linux": {"linkhold_linux"},
    "linkhold-mesh": None,
    "linkhold-sim": {"linkhold_sim", "cr_aware_told", "told", "udp_accounting"},
}
# By how this project names them; `test_soak.py` looks that such modules are built for tests only.
NOT_IN_A_LIBRARY = re.compile(r"^(tests|benches|examples)/|(^|/)(\w+_)?tests(\.rs|/)")
CARGO = os.environ.get("CARGO", "cargo")


def metadata():
    out = subprocess.run([CARGO, "metadata", "--locked", "--no-deps", "--format-version", "1"], cwd=ROOT, check=True, capture_output=True)
    return {package["name"]: package for package in json.loads(out.stdout)["packages"]}


def used(name, packages):
    """This package and those of the workspace that it is built or tested with."""
    found, new = set(), [name]
    while new:
        package = new.pop()
        if package not in found:
            found.add(package)
            new += [dependency["name"] for dependency in packages[package]["dependencies"] if dependency["name"] in packages]
    return sorted(found)


def sources(name, packages):
    """A hash of which of this package's tests are run, and of what they are built from."""
    digest = hashlib.sha256(" ".join(sorted(PACKAGES[name] or ())).encode())
    files = [ROOT / "Cargo.toml", ROOT / "Cargo.lock"]
    for package in used(name, packages):
        folder = pathlib.Path(packages[package]["manifest_path"]).parent
        # Of the others only what is in their libraries: no folder of tests, and no module that is built for tests only.
        own = package == name
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."], cwd=folder, check=True, capture_output=True)
        names = sorted(file for file in listed.stdout.decode().split("\0") if file)
        files += [folder / file for file in names if own or not NOT_IN_A_LIBRARY.search(file)]
    for file in files:
        if file.is_file():
            digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def build(name, wanted):
    """The package's test programs, by target."""
    command = [CARGO, "test", "--profile", "soak", "--locked", "-p", name, "--no-run", "--message-format", "json-render-diagnostics"]
    if wanted is None:
        command += ["--lib", "--tests"]
    else:
        command += ["--lib"] + [part for target in sorted(wanted - {name.replace("-", "_")}) for part in ("--test", target)]
    out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    messages = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {m["target"]["name"]: m["executable"] for m in messages if m["reason"] == "compiler-artifact" and m.get("executable") and m["profile"]["test"]}


def listed_by(program, *options):
    listed = subprocess.run([program, "--list", "--format", "terse", *options], check=True, capture_output=True).stdout.decode()
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


def tests_of(program):
    """The tests of a program that are run, and those that are ignored and therefore never clean."""
    ignored = listed_by(program, "--ignored")
    return [test for test in listed_by(program) if test not in ignored], ignored


def die_with_parent():
    """A test that runs for an hour must not outlive a run that was killed (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run(folder, program, test, cases):
    """Seconds of processor time, and the output if it failed."""
    environment = dict(os.environ, PROPTEST_CASES=str(cases))
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([program, "--exact", test], cwd=folder, env=environment, stdout=output, stderr=output, preexec_fn=die_with_parent)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode(errors="replace")
    # A test that did not run, as an ignored one, ends without a fault, too.
    return usage.ru_utime + usage.ru_stime, None if process.returncode == 0 and "1 passed" in said else said


def hash_of(program):
    """A hash of the code and data of a built program. Names, debug information and what the linker computes from them also change with sources
    that this program does not use: of two builds of linkhold-mesh beside another DSASync nothing else was different."""
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "program"
        subprocess.run(["objcopy", "--strip-all", "--remove-section=.note.gnu.build-id", program, stripped], check=True)
        return hashlib.sha256(stripped.read_bytes()).hexdigest()[:16]


@contextlib.contextmanager
def alone():
    """Two at once would build programs under each other's tests, and each write its own record."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("another soak runs on this working tree: wait for it, or end it")
        yield


def load():
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def store(record):
    KEPT.mkdir(parents=True, exist_ok=True)
    RECORD.with_suffix(".part").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    RECORD.with_suffix(".part").replace(RECORD)


def shared():
    return json.loads(SHARED.read_text()) if SHARED.exists() else {}


def is_clean(row, program, cases):
    """True if all tests of the program were clean, by a row of docs/soak.json."""
    return row.get("program") == program and row.get("cases", 0) >= cases


def rows_of(clean, name):
    """A package's rows of docs/soak.json, by program."""
    return clean.get(name, {}).get("clean", {})


def is_unchanged(clean, name, hashed, cases):
    """True if all programs of a package were clean and were built from these sources, by docs/soak.json."""
    rows = rows_of(clean, name)
    return name in clean and set(rows) == set(clean[name]["programs"]) and all(row["sources"] == hashed and row["cases"] >= cases for row in rows.values())


def page(clean):
    lines = [
        "# Property tests on many cases",
        "",
        "Written by `make soak`; do not edit.",
        "",
        *wrapped(
            "[`scripts/soak.py`](../scripts/soak.py) runs every test of a package with as many cases for each property as stand here, drawn anew, the program "
            "optimised and with its assertions. A row with a hash is of a test program of which all *tests* passed; *ignored* ones are not run, and not among these. "
            "*Not clean yet* is a program of which a test failed, or has not been run to its end as it is built now. *Hash* is of its code and data: sources that "
            "build the same program need not be run again. *Sources* is a hash of what it was last built from: the package, the packages of this workspace that "
            "it uses, the lock file. `scripts/soak.py --state` says which packages have the same sources as they are; of others `scripts/soak.py` builds the "
            "programs and compares. Properties whose cases are whole simulations draw fewer, in proportion. The rows are kept in [soak.json](soak.json)."
        ),
        "",
        "| package | program | tests | ignored | cases | processor hours | hash | sources | date |",
        "|---" * 9 + "|",
    ]
    for name in PACKAGES:
        rows = rows_of(clean, name)
        for target in sorted({*rows, *clean.get(name, {}).get("programs", [])}):
            words = "not clean yet | – | – | – | – | – | –"
            if begun := begun_of(clean, name).get(target):
                words = f"not clean yet: {len(begun['clean'])} of {begun['tests']} so far | – | {begun['cases']} | – | `{begun['program']}` | – | {begun['when']}"
            if row := rows.get(target):
                words = f"{row['tests']} | {row.get('ignored', 0)} | {row['cases']} | {row['hours']:.2f} | `{row['program']}` | `{row['sources']}` | {row['when']}"
            lines.append(f"| `{name}` | `{target}` | {words} |")
        if name not in clean:
            lines.append(f"| `{name}` | – | not run yet | – | – | – | – | – | – |")
    return "\n".join(lines) + "\n"


def begun_of(clean, name):
    """Of a package's programs in docs/soak.json those of which some tests are clean, by program."""
    return clean.get(name, {}).get("begun", {})


def share(name, target, kept):
    """Takes a program into docs/soak.json, and writes the page, as far as it is clean."""
    if kept["tests"] != len(kept["clean"]):
        part = {key: kept[key] for key in ("program", "cases", "tests", "when", "clean")}
        if kept["clean"]:
            change_shared(lambda clean: clean[name].setdefault("begun", {}).update({target: part}))
        return
    change_shared(lambda clean: clean[name].get("begun", {}).pop(target, None))
    row = {key: kept[key] for key in ("program", "sources", "cases", "tests", "when")} | {"ignored": kept.get("ignored", 0), "hours": round(sum(kept["clean"].values()) / 3600, 3)}
    change_shared(lambda clean: clean[name]["clean"].update({target: row}))


def change_shared(change):
    clean = shared()
    change(clean)
    SHARED.write_text(json.dumps(clean, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(clean))


def clean_before(record, name, target, program, cases):
    """The tests that were clean in this program, with at least as many cases."""
    found = [record.get(name, {}).get(target, {}), begun_of(shared(), name).get(target, {})]
    found = [kept for kept in found if is_clean(kept, program, cases)]
    new = {"program": program, "cases": cases, "clean": {}, "tests": None, "when": datetime.date.today().isoformat()}
    return max(found, key=lambda kept: len(kept["clean"]), default=new)


def forget_others(package, target, built):
    """Leaves in a package's part of docs/soak.json nothing of another program than the one that was built."""
    for rows in (package["clean"], package.get("begun", {})):
        if rows.get(target, {}).get("program", built) != built:
            del rows[target]


def opened(name, packages, record, cases):
    """What this package still has to run; its part of the record is brought up to the programs that these sources build."""
    hashed = sources(name, packages)
    programs = build(name, PACKAGES[name])
    folder = pathlib.Path(packages[name]["manifest_path"]).parent
    rows, left = rows_of(shared(), name), []
    # What is no longer built is no longer said to be clean.
    known = {target: row for target, row in rows.items() if target in programs}
    begun = {target: part for target, part in begun_of(shared(), name).items() if target in programs}
    change_shared(lambda clean: clean.update({name: {"programs": sorted(programs), "clean": known, "begun": begun}}))
    for target, program in sorted(programs.items()):
        built, (tests, ignored) = hash_of(program), tests_of(program)
        if is_clean(rows.get(target, {}), built, cases):
            change_shared(lambda clean: rows_of(clean, name)[target].update(sources=hashed))
            print(f"{name} {target}: the program that docs/soak.md calls clean", flush=True)
            continue
        # What was clean, or begun, as it was built then says nothing of the program as it is built now.
        change_shared(lambda clean: forget_others(clean[name], target, built))
        kept = clean_before(record, name, target, built, cases) | {"tests": len(tests), "ignored": len(ignored), "sources": hashed}
        # A record of before this script left ignored tests out has them, too.
        kept["clean"] = {test: seconds for test, seconds in kept["clean"].items() if test in tests}
        record.setdefault(name, {})[target] = kept
        new = [(name, folder, target, program, test) for test in tests if test not in kept["clean"]]
        print(f"{name} {target}: {len(tests)} tests, {len(tests) - len(new)} clean before", flush=True)
        share(name, target, kept)
        left += new
    return left


def soak(names, packages, cases, jobs):
    """The number of tests that failed."""
    record, left = load(), []
    for name in names:
        if is_unchanged(shared(), name, sources(name, packages), cases):
            print(f"{name}: clean, as docs/soak.md says", flush=True)
            continue
        left += opened(name, packages, record, cases)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            few = max(1, cases // 1000)
            tried = [pool.map(lambda each, n=n: run(each[1], each[3], each[4], n)[0], left) for n in (1, few)]
            expected = [expected_seconds(one, some, few, cases) for one, some in zip(*tried, strict=True)]
            print(f"{len(left)} tests, about {sum(expected) / 3600:.1f} processor hours", flush=True)
            return soak_in_order(in_order(left, expected), record, cases, pool)
        except KeyboardInterrupt:
            print("\nstopped; run it again and it goes on", file=sys.stderr)
            os._exit(130)  # not sys.exit: it would wait for the tests that run


def expected_seconds(one, some, few, cases):
    """How long a test will take, by how long it took with one case and with a few. What is less than a program's start differs by is no test's."""
    grown = some - one
    return some if few == 1 or grown < 0.01 else one + grown * (cases - 1) / (few - 1)


def in_order(tests, expected):
    """The tests as they are to be run, by the time that each is expected to take: the shortest program first, since a program that is clean
    is kept on other machines, too; of a program the longest test first, so that none runs alone at the end."""
    took = collections.Counter()
    for (name, _, target, *_), seconds in zip(tests, expected, strict=True):
        took[name, target] += seconds
    order = sorted(zip(tests, expected, strict=True), key=lambda each: (took[each[0][0], each[0][2]], each[0][0], each[0][2], -each[1]))
    return [test for test, _ in order]


def soak_in_order(tests, record, cases, pool):
    failed, said = 0, time.monotonic()
    asked = {pool.submit(run, folder, program, test, cases): (name, target, test) for name, folder, target, program, test in tests}
    for done, future in enumerate(concurrent.futures.as_completed(asked), 1):
        name, target, test = asked[future]
        seconds, output = future.result()
        kept = record[name][target]
        if output is None:
            kept["clean"][test] = round(seconds, 1)
        else:
            failed += 1
            place = KEPT / (re.sub(r"\W+", "_", f"{name} {target} {test}") + ".txt")
            place.write_text(output)
            print(f"FAILED {name} {target} {test}, {seconds:.0f} s; {place.relative_to(ROOT)}:\n{output[-3000:]}", flush=True)
        if seconds > 20 or time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"  {done} of {len(tests)}; {name} {target} {test}: {seconds:.0f} s", flush=True)
        kept["when"] = datetime.date.today().isoformat()
        store(record)
        share(name, target, kept)
    return failed


def state(packages, cases):
    """Prints what is clean as it stands here, as far as sources tell; true if all is."""
    record, recorded, all_clean = load(), shared(), True
    for name in PACKAGES:
        hashed, rows = sources(name, packages), rows_of(recorded, name)
        if is_unchanged(recorded, name, hashed, cases):
            hours, when = sum(row["hours"] for row in rows.values()), max(row["when"] for row in rows.values())
            print(f"{name:18} clean, {min(row['cases'] for row in rows.values())} cases, {hours:.2f} processor hours, {when}")
            continue
        all_clean = False
        targets = record.get(name, {})
        fits = {target: kept for target, kept in targets.items() if kept["sources"] == hashed and kept["cases"] >= cases}
        if fits:
            clean, tests = (sum(count(kept) for kept in fits.values()) for count in (lambda kept: len(kept["clean"]), lambda kept: kept["tests"]))
            print(f"{name:18} {clean} of {tests} clean")
        elif rows:
            clean = sum(row["cases"] >= cases for row in rows.values())
            when = max(row["when"] for row in rows.values())
            print(f"{name:18} {clean} of {len(recorded[name]['programs'])} programs clean, {when}; since then its sources have changed: whether these have, is seen when they are built")
        else:
            print(f"{name:18} never run" if not targets else f"{name:18} changed since, or run with fewer cases")
    return all_clean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300_000, metavar="N", help="cases each property draws (300000); properties whose cases are whole simulations grow in proportion")
    parser.add_argument("--package", action="append", choices=PACKAGES, help="only this one; may be given several times")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="tests side by side (the number of processors)")
    parser.add_argument("--state", action="store_true", help="say what is clean as it stands here, and run nothing")
    parser.add_argument("--raw", action="store_true", help="write docs/soak.md from docs/soak.json, and run nothing")
    parser.add_argument("--check", action="store_true", help="with --raw: write nothing, and fail if the page is another")
    arguments = parser.parse_args()
    if arguments.raw:
        if not arguments.check:
            PAGE.write_text(page(shared()))
        sys.exit(0 if PAGE.read_text() == page(shared()) else f"{PAGE}: not what scripts/soak.py --raw writes")
    packages = metadata()
    if arguments.state:
        sys.exit(0 if state(packages, arguments.cases) else 1)
    # In the background of a shell SIGINT is ignored, also by Python; then nothing would stop it but SIGKILL.
    for told in (signal.SIGINT, signal.SIGTERM):
        signal.signal(told, signal.default_int_handler)
    with alone():
        failed = soak(arguments.package or list(PACKAGES), packages, arguments.cases, arguments.jobs)
    state(packages, arguments.cases)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
