"""Which programs scripts/page_commits.py finds on pages, and which of them it takes."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import page_commits  # noqa: E402

PAGES = {
    "docs/a.md": "Program built\nfrom `0123456789ab`, and (commit fd95c64-dirty), and built from 2e1a518-dirty; `-dirty`: it had changes.",
    "docs/b.md": "measured with commit 12cce1e",
}


class PageCommits(unittest.TestCase):
    def test_programs_are_found_with_their_changes(self):
        found = [("docs/a.md", "0123456789ab", False), ("docs/a.md", "fd95c64", True), ("docs/a.md", "2e1a518", True), ("docs/b.md", "12cce1e", False)]
        self.assertEqual(page_commits.named(PAGES), found)

    def test_a_program_with_changes_is_named(self):
        faults = page_commits.with_changes(page_commits.named(PAGES))
        self.assertEqual(len(faults), 2)
        self.assertIn("docs/a.md: a program built from 2e1a518 with changes", faults[1])
        self.assertEqual(page_commits.with_changes(page_commits.named({"docs/b.md": PAGES["docs/b.md"]})), [])


if __name__ == "__main__":
    unittest.main()
