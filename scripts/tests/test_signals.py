"""docs/signals.md: its rows and sources are those that its tables and the scenarios name."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "signals.md").read_text()
SENSE = (ROOT / "docs" / "sense.md").read_text()
SCENARIOS = {file.stem: file.read_text() for file in sorted((ROOT / "scenarios").glob("*.toml"))}
TABLES, _, SOURCES = PAGE.partition("\n## Sources\n")
RADIOS, _, STANDS_FOR = TABLES.partition("\n## Which row a scenario's latency stands for\n")
ROWS = re.findall(r"^\| `([a-z-]+)` \|", RADIOS, re.MULTILINE)


class Signals(unittest.TestCase):
    def test_every_source_is_named_and_every_name_has_its_source(self):
        listed = [int(number) for number in re.findall(r"^(\d+)\. ", SOURCES, re.MULTILINE)]
        self.assertEqual(listed, list(range(1, len(listed) + 1)))
        self.assertEqual({int(number) for number in re.findall(r"\[(\d+)\]", TABLES)}, set(listed))

    def test_no_row_stands_twice_and_each_row_has_every_column(self):
        self.assertEqual(len(ROWS), len(set(ROWS)))
        for line in re.findall(r"^\| `[a-z-]+` \|.*$", RADIOS, re.MULTILINE):
            self.assertEqual(line.count(" | "), 6, line)

    def test_the_rows_that_scenarios_name_are_there(self):
        named = 0
        for name, text in SCENARIOS.items():
            comments = " ".join(" ".join(re.findall(r"#(.*)$", text, re.MULTILINE)).split())
            if "docs/signals.md" in comments:
                for words in re.findall(r"(?:rows? |\(|signals\.md, |as in )((?:`[a-z-]+`(?:, | and )?)+)", comments):
                    for row in re.findall(r"`([a-z-]+)`", words):
                        named += 1
                        self.assertIn(row, ROWS, name)
        self.assertGreaterEqual(named, 12)

    def test_every_scenario_that_charges_by_bytes_says_what_an_ack_takes(self):
        charged = {name: text for name, text in SCENARIOS.items() if re.search(r"^mac_efficiency", text, re.MULTILINE)}
        self.assertGreaterEqual(len(charged), 18)
        for name, text in charged.items():
            self.assertRegex(text, r"#.*\bACKs?\b", name)

    def test_every_scenario_that_tells_late_is_in_the_page(self):
        for name, text in SCENARIOS.items():
            if re.search(r"(?<!end_)\b(detection_delay|late|delay) = \"[1-9]", text):
                self.assertIn(f"`{name}`", STANDS_FOR)

    def test_the_row_of_sense_has_what_its_page_measured(self):
        beside = " ".join(re.search(r"<!-- measured beside -->(.*?)<!-- /measured -->", SENSE, re.DOTALL)[1].split())
        commit = re.search(r"commit (\w+)", beside)[1]
        (start, start_most), (end, _), _ = re.findall(r"(\d+) ms in the median \((?:\d+ to \d+ in nine of ten, )?(\d+) at most\)", beside)
        row = next(line for line in TABLES.splitlines() if line.startswith("| `sense` |"))
        row, stands_for = (re.sub("<!-- .*? -->", "", text) for text in (row, STANDS_FOR))
        for words in (f"{start} ms late in the median, {start_most} ms at most", f"{end} ms in the median for a T_idle of 50 ms", f"commit {commit}"):
            self.assertIn(words, row)
        self.assertIn(f"`sense` takes {start} ms", stands_for)


if __name__ == "__main__":
    unittest.main()
