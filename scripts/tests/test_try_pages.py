"""What scripts/try_pages.py and scripts/try_router_page.py count, and what scripts/setup.sh says is missing."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import page_blocks  # noqa: E402
import try_pages  # noqa: E402
import try_router_page  # noqa: E402


def without(missing):
    """`shutil.which` on a machine that has all programs but one."""
    return lambda program: None if program == missing else f"/usr/bin/{program}"


class Counted(unittest.TestCase):
    def test_a_block_without_its_program_does_not_do_what_its_page_says(self):
        todo = [page_blocks.Block("commands", [], "sh", text, line) for line, text in enumerate(("true", "echo {} | jq ."))]
        page = mock.Mock(commands=lambda _block: None)
        with (
            mock.patch.multiple(try_pages, blocks=lambda _page: todo, check_named=lambda *_: None, Page=lambda *_: page),
            mock.patch.object(try_pages.shutil, "which", without("jq")),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            self.assertEqual(try_pages.try_page(pathlib.Path("linkhold"), try_pages.ROOT / "README.md"), (1, 1))
        self.assertIn("README.md:1 skipped: `jq` is not installed", said.getvalue())

    def test_the_lab_counts_a_skipped_block_apart(self):
        todo = [page_blocks.Block(name, [], "sh", "curl", 1) for name in ("lab", "metrics")]
        lab = mock.Mock()
        with mock.patch.object(try_router_page.shutil, "which", without("curl")), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(try_router_page.try_blocks(lab, todo), (1, 1))
        self.assertIn("skipped: `curl` is not installed", said.getvalue())

    def test_a_testbed_that_cannot_be_had_skips_all_of_its_blocks(self):
        lab = mock.Mock()
        lab.linkhold.return_value.returncode = 1
        with contextlib.redirect_stdout(io.StringIO()):
            tried, skipped = try_router_page.try_testbed(lab)
        self.assertEqual(tried, 0)
        self.assertGreater(skipped, 0)

    def test_the_last_line_says_both(self):
        self.assertEqual(page_blocks.sum_of([(3, 0), (2, 1)]), "5 blocks do what the pages say; 1 not tried here, or undecided")
        self.assertEqual(page_blocks.sum_of([(3, 0)]), "3 blocks do what the pages say")


class SetUp(unittest.TestCase):
    def run_without(self, *missing):
        """setup.sh for the tests, not as root, on a machine that lacks these commands."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder).chmod(0o755)
            script = shutil.copy(SCRIPTS / "setup.sh", folder)
            programs = pathlib.Path(folder) / "bin"
            programs.mkdir()
            for name in ("cargo", "cc", "clang", "bpftool", "ip", "ss", "iptables", "nft", "iperf3", "jq", "tshark", "python3", "sysctl", "curl"):
                if name not in missing:
                    (programs / name).write_text("#!/bin/sh\n")
                    (programs / name).chmod(0o755)
            as_nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
            done = subprocess.run(["/bin/bash", script, "test"], env={"PATH": str(programs)}, capture_output=True, text=True, **as_nobody)
            return done.returncode, done.stderr

    def test_what_no_test_skips_for_ends_it(self):
        for command, package in (("cc", "gcc"), ("python3", "python3-venv")):
            status, said = self.run_without(command)
            self.assertEqual(status, 1, said)
            self.assertIn(f"setup: not without {package}", said)
            self.assertNotIn("going on", said)

    def test_what_tests_skip_for_does_not(self):
        status, said = self.run_without("tshark", "jq")
        self.assertEqual(status, 0, said)
        self.assertIn("going on", said)

    def test_commands_of_the_pages_are_needs(self):
        if pathlib.Path("/usr/sbin/sysctl").exists():
            self.skipTest("setup.sh looks for it in /usr/sbin, too")
        self.assertIn("procps", self.run_without("sysctl")[1])

    def test_curl_is_a_need(self):
        self.assertIn("curl", self.run_without("curl")[1])


if __name__ == "__main__":
    unittest.main()
