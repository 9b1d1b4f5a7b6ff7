"""By what the runs over emulated Wi-Fi are judged (scripts/wifi/aims.py): the agent's own constants, and each bound on its own."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "wifi")]

import aims  # noqa: E402
import check  # noqa: E402
import wifi_page  # noqa: E402


def iperf(retransmits, carried=10**6):
    return {"end": {"sum_received": {"bytes": carried}, "sum_sent": {"retransmits": retransmits}}}


class Constants(unittest.TestCase):
    def test_they_are_those_of_the_agents_source(self):
        text = aims.TRANSLATOR.read_text()
        self.assertIn("pub const BEACON_INTERVAL: Duration = Duration::from_micros(102_400);", text)
        self.assertEqual(check.BEACON, 0.1024)
        self.assertTrue(0 < check.LEAD < check.FOLLOW < check.BEACON < check.LATE_SWITCH)

    def test_one_that_is_not_there_ends_the_script(self):
        for name in ("NO_SUCH", "PASSIVE_CHANNEL"):
            with self.assertRaises(SystemExit):
                aims.agents(name)


class Bounds(unittest.TestCase):
    def holds(self, without, having):
        """Whether one pair of downloads of `make test-wifi` passes."""
        with tempfile.TemporaryDirectory() as folder:
            for name, retransmits in (("without", without), ("with", having)):
                (pathlib.Path(folder) / f"iperf-{name}.json").write_text(json.dumps(iperf(retransmits)))
            run = check.Run.__new__(check.Run)
            run.folder = pathlib.Path(folder)
            findings = check.Findings()
            with contextlib.redirect_stdout(io.StringIO()) as said:
                check.judge_downloads(run, findings)
        self.assertIn("1/6", said.getvalue())
        return findings.late == 0

    def test_a_pair_of_the_test_may_have_a_sixth(self):
        self.assertTrue(self.holds(90, 15))
        self.assertFalse(self.holds(90, 16))
        self.assertTrue(self.holds(0, 0))

    def test_the_page_counts_pairs_with_an_eighth(self):
        pairs = [((10, 80), (10, 10)), ((10, 80), (10, 11)), ((10, 80), (9, 0))]
        block = wifi_page.downloads_block({"commit": "abc1234", "kernel": "6.1", "rounds": {"0": pairs}})
        self.assertIn("at least as many bytes in 2 of 3 pairs, at most 1/8 of the retransmissions in 2", " ".join(block.split()))


if __name__ == "__main__":
    unittest.main()
