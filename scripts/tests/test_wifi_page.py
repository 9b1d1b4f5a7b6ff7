"""What scripts/wifi_page.py writes of a run over emulated Wi-Fi that held, and that a page which says something
else is found."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import wifi_page  # noqa: E402

JUDGED = {
    "commit": "0123456789ab", "kernel": "6.1.0-56-amd64", "still": 0.013,
    "silences": [["wlan0", "ChannelSwitch", 111.2, 1.5, -10.6], ["wlan3", "PrimaryUser", 412.9, 0.0, 0.2]],
    "counters": {"silences_begun": 12, "silences_now": 0, "silences_announced": 0, "silences_ended": 4, "silences_timed": 8, "silences_overdue": 0},
    "beside_radar": {
        "quiet, first half": {"share": 1.0, "delay_ms": 12.0}, "quiet, second half": {"share": 0.991, "delay_ms": 17.0},
        "during": {"share": 0.995, "delay_ms": 23.0}, "after": {"share": 1.0, "delay_ms": 9.0},
    },
    "downloads": {"without": [35.6e6, 400], "with": [35.7e6, 12]},
    "returns_ms": [33.0, 34.0, 35.0, 110.0, 34.5], "follow_ms": 45.0, "follow_bounds_ms": [35.0, 58.0],
    "lead": {"datagrams": 577, "lost": 0, "on_the_way_ms": 0.7, "room_ms": [64.8, 12.1]},
    "air_ms": {"plain": [138.7, 124.8], "blocktx": [452.0, 473.5], "ahead": [307.2, 409.6]},
    "signal": {"samples": 72, "ratios_db": {"strong": 55, "weak": 35}},
    "lengths_ms": {"scan": 78.8, "passive scan": 123.6, "station scan": 74.5, "away": 310.1, "radar sending": 144.9, "radar silent": 374.5, "check": 61022.9},
}  # fmt: skip
DOWNLOADS = {"commit": "0123456789ab", "kernel": "6.1.0-56-amd64", "rounds": {"0": [[[35_700_000, 400], [35_700_000, 10]]], "30": [[[35_700_000, 300], [35_700_000, 1]]]}}
KEPT = {"judged": JUDGED, "downloads": DOWNLOADS}
MARKS = {"router.md": ("wifi", "wifi-judged", "wifi-returns"), "signals.md": ("wifi-returns", "wifi-away", "another")}


class Written(unittest.TestCase):
    said = " ".join(wifi_page.judged_block(JUDGED).split())

    def test_each_silence_has_its_cause_and_how_far_off_it_was(self):
        self.assertIn("| `wlan0` | channel switch | 111 | +1.5 | -10.6 |", self.said)
        self.assertIn("| `wlan3` | radar | 413 | +0.0 | +0.2 |", self.said)

    def test_counters_flow_returns_and_downloads_are_told(self):
        for words in (
            "Program built from 0123456789ab, Linux 6.1.0-56-amd64", "4 ended by an event, 8 at the time that their source asked for, 0 that nobody ended",
            "34 (33 to 110) ms after the access point had switched", "may end 35 to 58 ms after it, and end 45 ms after it", "0 were lost on the air",
            "the last left 12 to 65 ms before", "0.991 and 17 ms in the worse half of the quiet time before, 0.995 and 23 ms during the radar and 1.000 and 9 ms after",
            "400 retransmissions without the agent and 12 with it, 35.6 MB carried without it and 35.7 MB with it",
        ):  # fmt: skip
            self.assertIn(words, self.said)

    def test_numbers_in_sentences(self):
        found = wifi_page.inline(JUDGED)
        self.assertEqual(found["wifi-returns"], "34 (33 to 110) ms")
        self.assertEqual((found["wifi-application"], found["wifi-blocktx"], found["wifi-ahead"]), ("125 to 139 ms", "452 to 474 ms", "3.0 to 4.0"))
        self.assertEqual((found["wifi-radar-sending"], found["wifi-check"]), ("0.14 s", "61 s"))

    def test_what_is_kept_is_read_again(self):
        self.assertEqual(json.loads(wifi_page.text(KEPT)), KEPT)


class Known(unittest.TestCase):
    def test_downloads_of_another_program_are_not_taken_for_this_ones(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(wifi_page, "FOLDER", pathlib.Path(folder)):
            out = pathlib.Path(folder) / "out"
            out.mkdir()
            (out / "done").touch()
            (out / "kernel").write_text("6.1\n")
            for longer in wifi_page.LONGER_MS:
                for who in ("without", "with"):
                    (out / f"iperf-{longer}-1-{who}.json").write_text('{"end": {"sum_received": {"bytes": 5}, "sum_sent": {"retransmits": 1}}}')
            options = mock.Mock(known=True, rounds=1)
            with self.assertRaisesRegex(SystemExit, "not noted, and not from 0123456789ab"):
                wifi_page.measured("downloads", options, "0123456789ab")
            (out / "commit").write_text("fedcba987654\n")
            with self.assertRaisesRegex(SystemExit, "built from fedcba987654, and not from 0123456789ab"):
                wifi_page.measured("downloads", options, "0123456789ab")
            (out / "commit").write_text("0123456789ab\n")
            self.assertEqual(wifi_page.measured("downloads", options, "0123456789ab")["rounds"]["0"], [((5, 1), (5, 1))])


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.docs = pathlib.Path(folder.name)
        for page, marks in MARKS.items():
            (self.docs / page).write_text("\n".join(f"<!-- measured {mark} -->old<!-- /measured -->" for mark in marks))

    def filled(self, kept, check):
        with contextlib.redirect_stderr(io.StringIO()):
            return wifi_page.fill_pages(kept, check, self.docs)

    def test_a_page_that_was_not_filled_or_was_changed_is_found(self):
        self.assertFalse(self.filled(KEPT, check=True))
        self.assertTrue(self.filled(KEPT, check=False))
        self.assertTrue(self.filled(KEPT, check=True))
        self.assertIn("<!-- measured another -->old<", (self.docs / "signals.md").read_text())
        router = self.docs / "router.md"
        router.write_text(router.read_text().replace(">34 (33", ">33 (33"))
        self.assertFalse(self.filled(KEPT, check=True))

    def test_a_page_with_a_number_that_nobody_measured_is_found(self):
        for part in KEPT:
            kept = {part: KEPT[part]}
            self.filled(kept, check=False)
            self.assertFalse(self.filled(kept, check=True))

    def test_the_projects_pages_have_a_place_for_all_that_is_written(self):
        marks = {name for page in ("router.md", "signals.md") for name in wifi_page.MARK.findall((wifi_page.DOCS / page).read_text())}
        self.assertEqual(set(wifi_page.contents(KEPT)) - marks, set())


if __name__ == "__main__":
    unittest.main()
