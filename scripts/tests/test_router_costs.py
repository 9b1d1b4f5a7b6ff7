"""What scripts/router_costs.py writes of a log of the benchmark."""

import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import router_costs  # noqa: E402

LOG = """# program built from 0123456, Linux 6.18.44, 4 processors

At 24 Mb/s, 5 rounds of 3s each way, in turns:
goodput, plain router                    22.960 Mb/s  (22.960 to 22.960)
goodput, agent                           22.930 Mb/s  (22.930 to 22.930)
cost in goodput, of each pair             0.130 %     (0.120 to 0.180)
round trip beside 20 Mb/s, plain router   1.650 ms    (1.650 to 1.650)
round trip beside 20 Mb/s, agent          1.450 ms    (1.450 to 1.450)
added delay one way, of each pair        -0.100 ms    (-0.310 to 0.130)
goodput, agent without copies            22.930 Mb/s  (22.930 to 22.930)
processor of the agent beside 20 Mb/s     4.800 %     (4.000 to 7.200)
processor of the agent without copies     5.400 %     (3.900 to 6.600)
added delay one way in pairs of 1s, ms: -0.1 -0.1

At full rate, one flow with segmentation offload, 5 rounds of 3s:
plain forwarding                         25.400 Gb/s  (25.400 to 25.400)
agent, DSASync                            2.390 Gb/s  (2.390 to 2.390)
agent, local recovery                     2.350 Gb/s  (2.350 to 2.350)
agent, DSASync without copies            12.700 Gb/s  (12.700 to 12.700)
share of plain, DSASync                   0.091       (0.086 to 0.103)
share of plain, local recovery            0.091       (0.084 to 0.103)
share of plain, DSASync without copies    0.460       (0.440 to 0.590)
passing flow while 0 packets are held     2.500 Gb/s  (2.500 to 2.500)
"""


def written(log):
    with mock.patch.object(router_costs.Estimates, "of", return_value=(-0.066 if "-0.1 -0.1" in log else 0.05, 0.023)):
        return " ".join(router_costs.block(log).split())


class Block(unittest.TestCase):
    def test_a_cost_below_zero_is_explained(self):
        below = "Below zero the round trip was shorter with the agent"
        self.assertIn(f"it added -0.066 ± 0.023 ms one way (mean and its 95 % interval). The aim is at most 0.2 ms: met. {below}", written(LOG))
        self.assertNotIn(below, written(LOG.replace("-0.1", "0.1")))

    def test_it_says_whether_processor_time_with_and_without_copies_can_be_told_apart(self):
        self.assertIn("with and without copies overlap", written(LOG))
        self.assertIn("do not overlap: copies take more", written(LOG.replace("(3.900 to 6.600)", "(2.000 to 3.000)")))
        self.assertIn("do not overlap: copies take less", written(LOG.replace("(3.900 to 6.600)", "(8.000 to 9.000)")))

    def test_a_log_says_itself_what_measured_it(self):
        self.assertIn("Linux 6.18.44, 4 processors, program built from 0123456;", written(LOG))
        with self.assertRaisesRegex(SystemExit, "does not begin with what measured it"):
            written(LOG.split("\n", 1)[1])
        self.assertRegex(router_costs.head("0123456"), router_costs.HEAD)

    def test_times_have_a_space_before_their_unit(self):
        self.assertIn("range of 5 rounds of 3 s.", written(LOG))
        self.assertIn("In 2 more pairs of 1 s each", written(LOG))


if __name__ == "__main__":
    unittest.main()
