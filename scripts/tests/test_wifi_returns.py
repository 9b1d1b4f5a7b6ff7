"""When stations are back after a switch, and what is lost around it (scripts/wifi/returns.py), and how check.py
judges the agent's FOLLOW and LEAD by it."""

import contextlib
import io
import pathlib
import sys
import unittest
import unittest.mock

WIFI = pathlib.Path(__file__).resolve().parent.parent / "wifi"
sys.path.insert(0, str(WIFI))

import check  # noqa: E402
import returns  # noqa: E402

# Six switches, 3 s apart. Every other one is with blocktx.
MOMENTS = [10 + 3 * number for number in range(6)]
# How long before a switch the agent lets go of nothing more, and how long a datagram is on its way.
STOPS, ON_THE_WAY = 0.07, 0.002


def air(back, late=()):
    """What is heard on the air of datagrams every 5 ms of each kind, at the access point and at a station. It is away
    for `back` seconds from a switch on, and for longer from those in `late` on, by their number."""
    late, heard = dict(late), {"point": [], "station": []}
    for number in range(4000):
        time = 8 + number * 0.005
        place = max((index for index, moment in enumerate(MOMENTS) if moment - 0.5 <= time), default=0)
        over = MOMENTS[place] + late.get(place, back)
        if not MOMENTS[place] - STOPS <= time < over:
            heard["point"].append(f"out 7004 {number} {time:.6f}")
            heard["station"].append(f"in 7004 {number} {time + ON_THE_WAY:.6f}")
        # The access point's own broadcasts are seen when they leave, too.
        heard["point"].append(f"out 7005 {number} {time:.6f}")
        if not MOMENTS[place] <= time < over:
            heard["station"].append(f"in 7005 {number} {time + 0.0001:.6f}")
    return {what: "\n".join(lines) for what, lines in heard.items()}


class Seen(unittest.TestCase):
    point, station = air(0.033).values()
    sent, came, broadcast = returns.read(point, 7004), returns.read(station, 7004), returns.read(station, 7005)

    def test_the_first_datagram_after_a_switch_tells_when_the_station_is_back(self):
        self.assertAlmostEqual(returns.first_after(self.broadcast, MOMENTS[2]), 0.0351, delta=1e-5)

    def test_what_came_just_before_and_was_handed_up_late_is_no_return(self):
        early = [*self.broadcast, returns.Datagram("in", 9999, MOMENTS[2] + 0.001)]
        self.assertAlmostEqual(returns.first_after(early, MOMENTS[2]), 0.0351, delta=1e-5)

    def test_what_left_is_no_return(self):
        self.assertIsNone(returns.first_after(self.sent, MOMENTS[2]))

    def test_a_station_that_stays_away_has_no_return(self):
        self.assertIsNone(returns.first_after(self.broadcast, 100.0))
        self.assertIsNone(returns.first_after([], 1.0))

    def test_the_longest_gap_is_that_of_the_switch(self):
        self.assertAlmostEqual(returns.longest_gap(self.came, MOMENTS[0]), 0.11, delta=1e-5)
        self.assertIsNone(returns.longest_gap(self.came, 100.0))

    def test_what_left_and_never_came_is_lost(self):
        self.assertEqual(returns.lost(self.sent, self.came, 8, MOMENTS[0]), [])
        gone = self.came[100].number
        self.assertEqual(returns.lost(self.sent, [one for one in self.came if one.number != gone], 8, MOMENTS[0]), [gone])

    def test_how_long_datagrams_were_on_their_way(self):
        on_the_way = returns.on_the_way(self.sent, self.came, MOMENTS[0] - 1, MOMENTS[0])
        self.assertTrue(len(on_the_way) > 100 and all(abs(time - ON_THE_WAY) < 1e-5 for time in on_the_way))

    def test_three_quarters_are_the_usual_case_and_a_timer_and_an_aim_the_rest(self):
        times = [0.03, 0.031, 0.032] * 3
        least, most = returns.follow_bounds([*times, *[0.2] * 2], 0.015)
        self.assertEqual((least, round(most, 6)), (0.032, 0.055))
        self.assertEqual(returns.follow_bounds([*times, *[0.2] * 3], 0.015)[0], 0.2)


class Run:
    """What judge_returns takes of a run."""

    def __init__(self, without, having):
        self.texts = {f"air-{phase}-{what}": text for phase, found in (("without", without), ("with", having)) for what, text in found.items()}

    def text(self, name):
        return self.texts[name]

    def switches(self, _phase, _end):
        def spoken(time):
            return check.Spoken(time, time)

        return [check.Switch(spoken(moment - 0.35), spoken(moment), 5, bool(number % 2)) for number, moment in enumerate(MOMENTS)]


class Judged(unittest.TestCase):
    def findings(self, back=0.033, late=(), follow=0.045, lead=0.01, having=None):
        without, found = air(back, late), check.Findings()
        run = Run(without, having or without)
        with unittest.mock.patch.multiple(check, FOLLOW=follow, LEAD=lead), contextlib.redirect_stdout(io.StringIO()) as said:
            check.judge_returns(run, found)
        return found, said.getvalue()

    def test_a_follow_that_covers_the_return_and_little_more_holds(self):
        found, said = self.findings()
        self.assertEqual((found.failed, found.late), (0, 0), said)
        self.assertEqual(len(found.found["returns_ms"]), 12)
        self.assertEqual(found.found["lead"]["lost"], 0)
        self.assertEqual(found.found["lead"]["room_ms"], [75.0] * 3)
        self.assertEqual([len(found.found["air_ms"][what]) for what in ("plain", "blocktx", "ahead")], [3, 3, 12])

    def test_a_follow_that_is_too_short_or_too_long_does_not(self):
        for follow in (0.030, 0.060):
            self.assertEqual(self.findings(follow=follow)[0].late, 1, follow)

    def test_outliers_are_not_the_usual_case(self):
        self.assertEqual(self.findings(late={0: 0.12}, having=air(0.033))[0].late, 0)
        self.assertEqual(self.findings(late={number: 0.12 for number in range(4)}, having=air(0.033))[0].late, 1)

    def test_stations_that_never_came_back_or_nobody_listened_are_a_fault(self):
        nobody = {what: "" for what in ("point", "station")}
        for having in (nobody, None):
            self.assertGreaterEqual(self.findings(late={number: 2.4 for number in range(6)}, having=having)[0].failed, 1)

    def test_what_is_lost_before_the_silence_is_told(self):
        having = air(0.033)
        gone = returns.read(having["station"], 7004)[300]
        # It left half a second before the first switch.
        self.assertTrue(MOMENTS[0] - 1 < gone.time < MOMENTS[0])
        having["station"] = "\n".join(line for line in having["station"].splitlines() if not line.startswith(f"in 7004 {gone.number} "))
        found, said = self.findings(having=having)
        self.assertEqual((found.late, found.found["lead"]["lost"]), (1, 1), said)

    def test_a_lead_shorter_than_datagrams_are_on_their_way_does_not_hold(self):
        self.assertEqual(self.findings(lead=0.001)[0].late, 1)


if __name__ == "__main__":
    unittest.main()
