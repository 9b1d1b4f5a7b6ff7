//! What lies below and nobody will acknowledge, where nobody tells the rate.
//!
//! Beside the paper (`dsasync`). Datagrams, segments of connections that their station has never answered (a
//! flood), and segments that add nothing to what a station has to acknowledge take the radio's time as all
//! others do. If only what is acknowledged counted, they would pass the gates that hold the others to the
//! measured rate, and what they take would be missing in that rate. Each estimate would be lower than the one
//! before, windows and gates would follow it down, and a flood would have the radio to itself.
//!
//! Nobody says when such a packet has left. Two things do:
//!
//! - A hop keeps the order of what it does not lose: when a segment is acknowledged, what went down before it
//!   has passed. It counts as delivered in the rate of the station that said so.
//! - It has passed once the radio has had the time for it: by the measured rate, or after [`LONGEST_BELOW`]
//!   if acknowledgments are still to come. Then it does not count in a rate until the next one.
//!
//! The first is wrong for a hop with a queue for each flow or station: then more lies below than is thought,
//! but in queues that keep nobody else's segments waiting.
//!
//! All of this is there to leave others their part, so it keeps packets back only while others are served.
//!
//! What it cannot do: before the first acknowledgments nobody knows the rate, and a queue of the router that
//! is full by then loses most of what a connection begins with. Beside a connection that sends little, what
//! passes is measured seldom, and up to a quarter of an overloaded radio stays unused.

use super::departures::Departures;
use crate::time::{Duration, Instant};

/// What nobody acknowledges is kept back for at most so long after a station was last served, if nothing of
/// its data is under way: longer than an ACK is delayed by Linux (40 ms, `TCP_DELACK_MIN`). Not longer: a
/// stream that nobody answers would be held to a rate that was measured before its link became faster.
pub(super) const HEARD: Duration = Duration::from_millis(100);

/// As [`HEARD`], where an acknowledgment is to come: what it is to acknowledge may be lost, and is sent again
/// when a timer has expired (RFC 6298 section 2: after a second at first, after two then).
pub(super) const AWAITED: Duration = Duration::from_secs(3);

/// What went down longer ago has passed, if no acknowledgment is to come: as long as a router's queue of 100
/// packets at 12 Mbit/s.
pub(super) const LONGEST_BELOW: Duration = Duration::from_millis(100);

/// Where time says what has passed, packets are taken to pass so much faster than the measured rate:
/// otherwise a rate that has risen would never be seen (BBR's pacing gain while it probes).
pub(super) const AHEAD: f64 = 1.25;

/// What went down and will not be acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Unacknowledged {
    departures: Departures,
    /// Bytes that have passed, of those that went down.
    passed: u64,
    /// Of those, bytes that went down before the present sample of a rate began.
    before: u64,
    /// When the last of them went down.
    sent: Instant,
}

impl Unacknowledged {
    /// `bytes` go down.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.departures.add(now, bytes);
        self.sent = now;
    }

    /// True if some went down in this time.
    #[inline]
    pub fn went_down_since(&self, now: Instant, time: Duration) -> bool {
        self.departures.sent() > 0 && now.since(self.sent) <= time
    }

    /// Bytes that may be below.
    #[inline]
    pub fn below(&self) -> u64 {
        self.departures.sent() - self.passed
    }

    /// Of these, what went down after `time`.
    pub fn below_since(&self, time: Instant) -> u64 {
        let before = self.departures.later(time).map_or(self.departures.sent(), |(before, _)| before);
        self.departures.sent() - before.max(self.passed)
    }

    /// When the first of what went down after `time` did.
    pub fn next_after(&self, time: Instant) -> Option<Instant> {
        self.departures.later(time).map(|(_, at)| at)
    }

    /// What went down by `time` has passed. Answers how many bytes that is beyond what was known, of those
    /// that count in a sample.
    pub fn pass(&mut self, time: Instant) -> u64 {
        let known = self.passed.max(self.before);
        self.passed = self.departures.sent() - self.below_since(time);
        self.passed.saturating_sub(known)
    }

    /// A sample of a rate begins in which nothing counts that went down until now.
    pub fn begin_sample(&mut self) {
        self.before = self.departures.sent();
    }

    /// `bytes` came back from the transmit queue.
    pub fn taken_back(&mut self, bytes: u64) {
        self.passed += bytes.min(self.below());
    }

    /// All has passed, or what is below does not matter any more.
    pub fn forget(&mut self) {
        self.passed = self.departures.sent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn what_went_down_before_what_is_acknowledged_has_passed_once() {
        let mut below = Unacknowledged::default();
        for n in 0..10 {
            below.on_sent(at(100 + 3 * n), 1000);
        }
        assert_eq!((below.below(), below.below_since(at(99))), (10_000, 10_000));
        assert_eq!([99, 103, 103].map(|ms| below.pass(at(ms))), [0, 2000, 0]);
        assert_eq!(
            (below.below(), below.below_since(at(109)), below.below_since(at(100))),
            (8000, 6000, 8000)
        );
        below.taken_back(1000);
        // An older acknowledgment than the last one says nothing.
        assert_eq!((below.pass(at(100)), below.below()), (0, 7000));
        below.begin_sample();
        below.on_sent(at(130), 500);
        assert_eq!((below.pass(at(1000)), below.below()), (500, 0));
        below.on_sent(at(2000), 1500);
        below.taken_back(2000);
        assert_eq!(below.below(), 0);
        below.on_sent(at(2010), 1500);
        below.forget();
        assert_eq!((below.below(), below.below_since(at(0)), below.pass(at(3000))), (0, 0, 0));
    }
}
