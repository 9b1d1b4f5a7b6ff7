"""scripts/testbed_table.py on a copy of docs/testbed: each part keeps what measured it. And which programs may measure.
`make pages` runs this; LINKHOLD names the program, which only computes means and intervals here."""

import contextlib
import io
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import estimates  # noqa: E402
import raw_parts  # noqa: E402
import testbed_table  # noqa: E402

# Older runs lack these.
LATER = ("delay_p95_s", "delay_p95_outside_silence_s", "queueing_delay_p50_s", "queueing_delay_p95_s")


def report(runs):
    """A report as `linkhold testbed` gives it, with these runs of raw.json."""
    whole = []
    for run in runs:
        told = run | {"congestion": run["cc"], "completions": run.get("completions"), "silence_summary": run.get("silences")}
        held = [{"held_bytes_peak": run["held_bytes_peak"]}] if "held_bytes_peak" in run else []
        totals = dict.fromkeys(LATER) | run
        whole.append({"seed": run["seed"], "case": run["case"], "totals": totals, "link": run, "linux": told, "mechanisms": held})
    return {"runs": whole}


def header(page):
    return page.read_text().splitlines()[2]


class Only(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.docs = pathlib.Path(folder.name) / "testbed"
        shutil.copytree(testbed_table.DOCS, self.docs)
        self.before = raw_parts.read(self.docs / "raw.json")

    def run_script(self, *arguments):
        words = ["testbed_table.py", "--docs", str(self.docs), *arguments]
        with mock.patch.object(sys, "argv", words), contextlib.redirect_stderr(io.StringIO()):
            testbed_table.main()

    def measure(self, part, left_out=lambda _run: False):
        """A run with --only, on another kernel, that measures what raw.json has already, but for some runs."""
        now = report([run for run in self.before[part] if not left_out(run)])
        with (
            mock.patch.object(testbed_table, "program_commit", return_value="0123456789ab"),
            mock.patch.object(testbed_table, "batch", return_value={part: now}),
            mock.patch.object(testbed_table, "simulate", return_value=now),
            mock.patch.object(raw_parts.platform, "release", return_value="9.9"),
        ):
            self.run_script("--only", part)

    def test_the_other_parts_keep_what_measured_them(self):
        pages = ("table.md", "told.md", "others.md", "silences.md", "simulator.md")
        old = {page: header(self.docs / page) for page in pages}
        self.measure("clean")
        kept = raw_parts.read(self.docs / "raw.json")
        measured, now = kept[raw_parts.MEASURED], {"kernel": "9.9", "seeds": 3, "commit": "0123456789ab"}
        self.assertEqual(measured, self.before[raw_parts.MEASURED] | {"clean": dict.fromkeys(("reno", "cubic", "bbr"), now)})
        self.assertEqual([part for part in kept if kept[part] != self.before[part]], [raw_parts.MEASURED, "clean"])
        for page in ("table.md", "told.md", "silences.md"):
            self.assertEqual(header(self.docs / page), old[page])
        for page in ("others.md", "simulator.md"):
            self.assertIn("Linux 9.9, 3 seeds, program built from 0123456789ab: clean.", header(self.docs / page))
            self.assertIn(": the rest.", header(self.docs / page))
        self.run_script("--raw", "--check")

    def test_seeds_are_those_there_are_and_cases_with_fewer_are_named(self):
        self.measure("clean", lambda run: run["seed"] == 3 or (run["cc"], run["case"], run["seed"]) == ("reno", "dsasync", 2))
        measured = raw_parts.read(self.docs / "raw.json")[raw_parts.MEASURED]["clean"]
        self.assertEqual({cc: (told["seeds"], told.get("fewer")) for cc, told in measured.items()}, {"reno": (2, "dsasync 1"), "cubic": (2, None), "bbr": (2, None)})
        self.assertIn("Linux 9.9, 2 seeds, program built from 0123456789ab, not whole (fewer seeds: dsasync 1): clean with reno.", header(self.docs / "others.md"))

    def test_a_header_that_is_not_what_raw_json_says_fails_the_check(self):
        self.run_script("--raw", "--check")
        for name in ("table.md", "told.md", "others.md", "silences.md", "simulator.md"):
            page = self.docs / name
            text = page.read_text()
            page.write_text(text.replace("program built from ", "program built from f", 1))
            with self.assertRaises(SystemExit) as stopped:
                self.run_script("--raw", "--check")
            self.assertIn(name, str(stopped.exception))
            page.write_text(text)


class Aims(unittest.TestCase):
    def verdict(self, *modes, routers=0.06):
        """The verdict on a mode whose runs have these pairs of 99th percentile and time to new data, s."""
        def runs(case, told, mechanisms=()):
            return [
                {"totals": {"limit_share": 0.98 + seed / 1e3, testbed_table.OUTSIDE: delay}, "linux": {"congestion": "cubic", "case": case, "resume_p50_s": resume}, "mechanisms": mechanisms}
                for seed, (delay, resume) in enumerate(told)
            ]

        plain = [run for case in ("fifo-100", "fifo-5000", "fq_codel") for run in runs(case, [(routers, 0.05)] * len(modes))]
        report = {"runs": plain + runs("dsasync", modes, [{}])}
        return next(line for line in testbed_table.aims({"burst0.3-rtt50": report}) if line.startswith("| burst")).split(" | ")[1].removesuffix(" |")

    def test_a_mode_reaches_the_aim_by_what_all_of_its_runs_have(self):
        self.assertEqual(self.verdict((0.05, 0.05), (0.06, 0.054)), "yes")
        self.assertEqual(self.verdict((0.07, 0.05), (0.08, 0.07)), "p99 75 ms over 60 ms; resume 60 ms")

    def test_runs_without_a_percentile_or_without_new_data_do_not_reach_it(self):
        self.assertEqual(self.verdict((None, 0.05), (None, 0.05)), "no p99 in 2 of 2 runs")
        self.assertEqual(self.verdict((0.05, 0.05), (0.05, None)), "no resume in 1 of 2 runs")
        self.assertEqual(self.verdict((0.05, 0.05), (0.05, 0.05), routers=None), "p99 beside none of a router")


class ProgramCommit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.source, self.page = self.root / "crates" / "main.rs", self.root / "crates" / "README.md"
        self.source.parent.mkdir()
        self.source.write_text("a program")
        self.page.write_text("a page")
        self.git("init", "--quiet")
        self.git("add", "crates")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "a")
        self.commit = self.git("rev-parse", "--short=12", "HEAD")

    def git(self, *arguments):
        done = estimates.subprocess.run(["git", "-C", self.root, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def said_by(self, version):
        program = self.root / "linkhold"
        program.write_text(f"#!/bin/sh\necho 'linkhold 0.1.0 (commit {version})'\n")
        program.chmod(0o755)
        with mock.patch.object(estimates, "ROOT", self.root):
            return estimates.program_commit(str(program))

    def test_the_program_says_its_commit_and_a_page_may_have_changed(self):
        self.page.write_text("a page with numbers")
        self.assertEqual(self.said_by(self.commit), self.commit)

    def test_other_sources_than_the_programs_are_refused(self):
        self.source.write_text("another program")
        with self.assertRaisesRegex(SystemExit, "make build"):
            self.said_by(self.commit)

    def test_a_program_with_changes_or_of_no_commit_is_refused(self):
        for version in (f"{self.commit}-dirty", "unknown"):
            with self.assertRaisesRegex(SystemExit, "make build"):
                self.said_by(version)


if __name__ == "__main__":
    unittest.main()
