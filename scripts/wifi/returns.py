"""When stations are back after a channel switch, and what is lost around it: from datagrams that `probe.py air`
saw on the radios of the access point and of a station.

The times are the kernel's own, and mac80211_hwsim hands a frame over at once, to whoever is on its channel.
- *Broadcasts* are the access point's own, 200 a second: no agent holds them, and nobody acknowledges them or puts them in
  order. So the first that comes in after the access point has switched tells when the station is there,
  whatever an agent thinks.
- *Datagrams from the wire*, 100 a second, are acknowledged on the air and come in order. One that is lost keeps those behind
  it waiting at the receiver for 100 ms (mac80211, HT_RX_REORDER_BUF_TIMEOUT). That is why applications hear
  nothing for much longer than the station is away, if anything is sent to it too early.

By this the agent's FOLLOW and LEAD are judged (crates/linkhold-linux/src/agent/nl80211/translator.rs).
- FOLLOW should be over when stations are back, in the usual case, and not much later. A station counts the
  beacons by a timer of its own, which Linux rounds up to the next of eight ticks (the timer wheel: 32 ms at
  250 ticks a second, for 256 ms and more). So returns lie anywhere in 32 ms: 32 switches on a quiet access
  point gave 7 to 41 ms, evenly. Beyond are outliers, of 100 ms and more: a station that missed the beacons
  with the count, or a machine that stood still. An agent that waited for the last of them would keep all
  others waiting. So FOLLOW must cover three quarters of a run's returns, which leaves three of twelve to be
  outliers; what a late one misses goes again. It may be longer by the last quarter of the 32 ms, and by what
  issue 8 allows the end of a silence to be off.
- LEAD is to empty the driver's queue before the switch. So nothing that the agent let go before the silence
  may be lost on the air, and LEAD must be longer than datagrams usually take from the access point's queue to
  the station.
"""

import bisect
import collections

# What has just come over the old channel may be handed up this late.
HANDED_UP = 0.002
# A return that takes longer is none: the station was lost.
LONGEST = 1.5
COVERED = 0.75
TIMER = 0.032

# The ports of guest.sh.
FROM_WIRE, BROADCAST = 7004, 7005

Datagram = collections.namedtuple("Datagram", "place number time")


def read(text, wanted):
    """What `probe.py air` wrote of a port, in its order: place (in or out), number, time."""
    fields = (line.split() for line in text.splitlines())
    return [Datagram(place, int(number), float(time)) for place, port, number, time in fields if int(port) == wanted]


def came(seen):
    """When each number came in first."""
    first = {}
    for place, number, time in seen:
        if place == "in":
            first.setdefault(number, time)
    return first


def left(seen, start, end):
    """(Number, time) of what was put to the air in this time."""
    return [(number, time) for place, number, time in seen if place == "out" and start <= time < end]


def first_after(seen, moment):
    """How long after `moment` the first datagram came in, seconds; None if none did for long."""
    times = sorted(time for place, _, time in seen if place == "in")
    at = bisect.bisect_left(times, moment + HANDED_UP)
    return times[at] - moment if at < len(times) and times[at] - moment < LONGEST else None


def longest_gap(seen, moment):
    """The longest time between two datagrams that came in around `moment`, seconds; None without two."""
    times = sorted(time for place, _, time in seen if place == "in" and abs(time - moment) < LONGEST)
    return max((after - before for before, after in zip(times, times[1:])), default=None)


def lost(sent, arrived, start, end):
    """Numbers of the datagrams that left in this time and never came."""
    there = came(arrived)
    return [number for number, _ in left(sent, start, end) if number not in there]


def on_the_way(sent, arrived, start, end):
    """For how long the datagrams that left in this time were on their way, seconds, in order of length."""
    there = came(arrived)
    return sorted(there[number] - time for number, time in left(sent, start, end) if number in there)


def covered(returns):
    """The time by which the usual share of the returns is over."""
    return sorted(returns)[min(int(len(returns) * COVERED), len(returns) - 1)]


def follow_bounds(returns, off):
    """Least and greatest that FOLLOW may be, where the end of a silence may be `off` seconds off."""
    least = covered(returns)
    return least, least + TIMER * (1 - COVERED) + off
