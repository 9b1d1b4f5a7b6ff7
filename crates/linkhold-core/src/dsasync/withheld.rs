//! How much of what is outstanding has arrived and waits at its stations for their delayed ACKs.
//!
//! Beside the paper (`dsasync`), where nobody tells the rate. Sees what went down and what is outstanding;
//! answers how much of that should not count. A receiver acknowledges every second segment (RFC 1122
//! section 4.2.3.2), so each flow may have one segment that has arrived and is not acknowledged. The limit
//! on what lies below allows for half of those. But where flows are sent one segment each in turn, all of
//! them have such a segment at the same time: then nothing would go down until the receivers' timers expire
//! (40 ms in Linux), and the low rate that is measured then would limit them further.
//!
//! A segment has arrived, or is lost, if a later one of its station is acknowledged, or if it went down
//! longer ago than a round trip to the station takes with the queue that should be there. Neither is certain:
//! a hop may have queues of its own, or be slower than it was. So no more than one segment of a flow is
//! believed to have arrived: the one that the flow may withhold in any case.

use super::departures::Departures;
use crate::time::{Duration, Instant};

/// Bytes of a full packet.
pub(super) const FULL_PACKET: f64 = 1500.0;

/// The longest segment that a flow withholds, bytes on the wire.
const SEGMENT: u32 = FULL_PACKET as u32;

/// How many of its outstanding bytes a flow may withhold.
#[inline]
pub(super) fn first_of(outstanding: u32) -> u64 {
    u64::from(outstanding.min(SEGMENT))
}

/// What is withheld of the bytes outstanding at a station, or at all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Withheld {
    /// Bytes.
    pub bytes: u64,
    /// When the next segment will have gone down long enough ago to be taken for arrived, if that can matter.
    pub grows: Option<Instant>,
}

impl Withheld {
    /// What is withheld of `outstanding` bytes, of which `first` are the flows' first segments, if what
    /// `arrived` says has arrived.
    ///
    /// One segment is not counted: what should be under way allows for it.
    pub fn of(now: Instant, departures: &Departures, outstanding: u64, first: u64, arrived: Arrived) -> Self {
        let most = first.saturating_sub(u64::from(SEGMENT));
        let Arrived { passed, takes, since } = arrived;
        // Nothing arrives in a silence.
        let aged = now - takes;
        let by = if aged >= since { passed.max(aged) } else { passed };
        let later = departures.later(by);
        let under_way = later.map_or(0, |(before, _)| departures.sent().saturating_sub(before));
        let bytes = outstanding.saturating_sub(under_way).min(most);
        let grows = later.filter(|_| bytes < most).map(|(_, at)| at.max(since) + takes);
        Self { bytes, grows }
    }
}

/// What is taken for arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    /// Everything that went down until then has arrived or is lost: something later is acknowledged.
    pub passed: Instant,
    /// What went down at least so long ago, and after `since`, has arrived.
    pub takes: Duration,
    pub since: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Ten flows are sent a segment each, 3 ms apart, from 1000 ms on.
    fn ten() -> (Departures, u64) {
        let mut departures = Departures::default();
        for n in 0..10 {
            departures.add(at(1000 + 3 * n), 1448);
        }
        (departures, 14_480)
    }

    #[test]
    fn what_went_down_before_what_is_acknowledged_or_long_ago_has_arrived() {
        let (departures, sent) = ten();
        let far = Duration::from_secs(1);
        // (now, passed, takes, since) to segments and when one more is.
        let rows = [
            ((1028, 0, far, 0), 0, Some(1000 + 1000)),
            ((1028, 1011, far, 0), 4, Some(1012 + 1000)),
            ((1028, 0, Duration::from_millis(10), 0), 7, Some(1021 + 10)),
            ((1028, 1024, Duration::from_millis(10), 0), 9, None),
            // A silence ended 4 ms ago: nothing was acknowledged in it, and nothing arrived.
            ((1028, 1011, Duration::from_millis(10), 1024), 4, Some(1024 + 10)),
            ((1034, 1011, Duration::from_millis(10), 1024), 9, None),
        ];
        for ((now, passed, takes, since), segments, grows) in rows {
            let arrived = Arrived { passed: at(passed), takes, since: at(since) };
            let withheld = Withheld::of(at(now), &departures, sent, sent, arrived);
            // One of the ten is allowed for.
            let most = sent - u64::from(SEGMENT);
            assert_eq!(withheld.bytes, (segments * 1448).min(most), "{now} {arrived:?}");
            assert_eq!(withheld.grows, grows.map(at), "{now} {arrived:?}");
        }
    }

    #[test]
    fn a_flow_withholds_one_segment_at_most_and_one_alone_none() {
        let (departures, sent) = ten();
        let arrived = Arrived { passed: at(2000), takes: Duration::from_secs(1), since: at(0) };
        for (flows, bytes) in [([14_480, 0], 0), ([13_032, 1448], 1448), ([7240, 7240], 1500)] {
            let first = flows.map(first_of).iter().sum();
            let withheld = Withheld::of(at(2000), &departures, sent, first, arrived);
            assert_eq!(withheld.bytes, bytes, "{flows:?}");
            assert_eq!(withheld.grows, None);
        }
    }
}
