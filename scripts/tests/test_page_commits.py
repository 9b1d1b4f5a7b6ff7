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
KNOWN = [("docs/a.md", "fd95c64"), ("docs/a.md", "2e1a518")]


class PageCommits(unittest.TestCase):
    def test_programs_are_found_with_their_changes(self):
        found = [("docs/a.md", "0123456789ab", False), ("docs/a.md", "fd95c64", True), ("docs/a.md", "2e1a518", True), ("docs/b.md", "12cce1e", False)]
        self.assertEqual(page_commits.named(PAGES), found)
        self.assertEqual(page_commits.with_changes(found, KNOWN), [])

    def test_a_program_with_changes_that_is_not_known_is_named(self):
        faults = page_commits.with_changes(page_commits.named(PAGES), KNOWN[:1])
        self.assertEqual(len(faults), 1)
        self.assertIn("docs/a.md: a program built from 2e1a518 with changes", faults[0])

    def test_a_second_block_of_a_known_program_is_named(self):
        faults = page_commits.with_changes(page_commits.named(PAGES | {"docs/c.md": "commit fd95c64-dirty"}), KNOWN)
        self.assertIn("docs/c.md: a program built from fd95c64 with changes", faults[0])
        twice = {"docs/a.md": PAGES["docs/a.md"] + " built from fd95c64-dirty"}
        self.assertEqual(len(page_commits.with_changes(page_commits.named(twice), KNOWN)), 1)

    def test_an_entry_that_is_no_longer_on_its_page_is_named(self):
        faults = page_commits.with_changes(page_commits.named(PAGES), [*KNOWN, ("docs/b.md", "12cce1e")])
        self.assertEqual(len(faults), 1)
        self.assertIn("docs/b.md: no block names 12cce1e-dirty any more", faults[0])


if __name__ == "__main__":
    unittest.main()
