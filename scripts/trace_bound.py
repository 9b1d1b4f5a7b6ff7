"""How far any window told by a base station can come on a recorded link: a model without senders, for scripts/trace_table.py.

A base station tells its sender a window, and what that lets go arrives a wired round trip later. The sender always has data and obeys at
once, the radio loses nothing, and nothing else takes time. What was delivered is heard with the acknowledgments: at once (no uplink), or
when the recorded uplink next carries a packet, which then takes up all of them. The window is
`rate * (wired round trip + margin)`, at least four packets, and its right edge is never taken back. So it must forecast what passes in a round
trip. The rate is measured over the recent past, in one of the ways of RATES; the margin is the greatest that keeps the 95th percentile of
queueing delay at what is aimed at, by bisection with the whole recording known, which no real base station has.

- told: the rate is what the link would have carried, also while nothing waited for it. No base station hears that.
- untold: the rate is what was delivered, in samples of 8 ms. A sample in which the queue ran empty counts only above half of the rate.
"""

from bisect import bisect_right
from collections import deque
from itertools import accumulate

# Rates: (milliseconds, weight) of means over the recent past.
RATES = {
    "160 ms": [(160, 1.0)],
    "300 ms": [(300, 1.0)],
    "500 ms": [(500, 1.0)],
    "0.6 of 160 ms, 0.4 of 1 s": [(160, 0.6), (1000, 0.4)],
}
# Left out at the start, as long as the longest slow start takes.
WARM_UP_MS = 5000
SAMPLE_MS, LEAST_PART = 8, 0.5
LEAST_PACKETS = 4


def opportunities(file):
    """Packets that a recording (mahimahi format) carries in each of its milliseconds."""
    stamps = [int(line) for line in file.read_text().split()]
    carries = [0] * (max(stamps) + 1)
    for stamp in stamps:
        carries[stamp] += 1
    return carries


class Told:
    """Means of what the link would have carried."""

    def __init__(self, carries, rates):
        self._sums = [0, *accumulate(carries)]
        self._rates = rates
        self._now = 0

    def see(self, _delivered, _empty):
        self._now += 1

    def rate(self):
        sums, now = self._sums, self._now
        return sum(weight * (sums[now] - sums[max(0, now - length)]) / max(1, min(length, now)) for length, weight in self._rates)


class Untold:
    """Means of what was delivered."""

    def __init__(self, _carries, rates):
        self._means = [(length, weight, deque(), [0, 0]) for length, weight in rates]
        self._packets, self._time, self._limited = 0, 0, False
        self._rate = 0.0

    def see(self, delivered, empty):
        self._packets += delivered
        self._time += 1
        self._limited |= empty
        if self._time < SAMPLE_MS:
            return
        if not self._limited or self._packets > LEAST_PART * self._rate * self._time:
            for length, _, samples, total in self._means:
                samples.append(self._packets)
                total[0] += self._packets
                while len(samples) * SAMPLE_MS > length:
                    total[0] -= samples.popleft()
            self._rate = sum(weight * total[0] / (len(samples) * SAMPLE_MS) for _, weight, samples, total in self._means)
        self._packets, self._time, self._limited = 0, 0, False

    def rate(self):
        return self._rate


def carried(carries, uplink, known, rates, margin, rtt):
    """Share of the capacity that is used, and the 95th percentile of queueing delay, ms. `uplink`: None, or packets by the millisecond."""
    knows = known(carries, rates)
    edge = delivered = heard = arrived = 0.0
    edges, arrivals, departures = [], [], []
    for now, room in enumerate(carries):
        edge = max(edge, heard + max(LEAST_PACKETS, knows.rate() * (rtt + margin)))
        edges.append(edge)
        arrived = max(arrived, edges[now - rtt] if now >= rtt else LEAST_PACKETS)
        passes = min(arrived - delivered, room)
        delivered += passes
        new = 0.0
        if uplink is None or uplink[now % len(uplink)]:
            new, heard = delivered - heard, delivered
        knows.see(new, arrived - heard < 1)
        arrivals.append(arrived)
        departures.append(delivered)
    first = int(departures[WARM_UP_MS])
    delays = sorted(
        bisect_right(departures, packet) - bisect_right(arrivals, packet) for packet in range(first + 1, int(delivered))
    )
    used = (departures[-1] - departures[WARM_UP_MS]) / sum(carries[WARM_UP_MS + 1 :])
    return used, delays[int(0.95 * len(delays))]


def best(carries, uplink, known, rates, rtt, most):
    """The share used with the greatest margin, ms, that keeps the percentile at `most` ms; None if there is none."""
    found, low, high = None, 0, 512
    while low < high:
        margin = (low + high) // 2
        used, p95 = carried(carries, uplink, known, rates, margin, rtt)
        if p95 <= most:
            found, low = used, margin + 1
        else:
            high = margin
    return found


def bounds(carries, uplink, rtt, most):
    """The greatest share used with each kind of knowledge, and the rate that it was reached with."""
    found = {}
    for name, known in (("told", Told), ("untold", Untold)):
        shares = {rate: best(carries, uplink, known, means, rtt, most) for rate, means in RATES.items()}
        rate = max(shares, key=lambda rate: shares[rate] or 0.0)
        found[name] = {"rate": rate, "share": shares[rate] and round(shares[rate], 4)}
    return found
