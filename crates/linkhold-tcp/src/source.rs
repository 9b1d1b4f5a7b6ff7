//! The application at the sending side: how many bytes it has written by a point in time.
//!
//! A source never drops: what the connection cannot carry yet waits in the send queue.

use linkhold_core::time::Instant;
use linkhold_core::units::{BitRate, Bytes};

use crate::schedule::Schedule;

/// What the application sends. The connection's other end reads it as it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nothing. The endpoint answers the peer's FIN with its own.
    #[default]
    None,
    /// As much as the connection carries, without end.
    Bulk,
    /// This many bytes, written at once when the connection is up; a FIN follows them.
    Finite(Bytes),
    /// A chunk at a time by a schedule that begins when the connection is up, without end.
    Scheduled(Schedule),
    /// This many bytes so far; the application adds to them with
    /// [`Endpoint::write`](crate::Endpoint::write). The endpoint answers the peer's FIN with its own, behind
    /// what has been written.
    Written(Bytes),
}

/// More than any run writes, and far from overflow when added to a sequence offset.
const ENDLESS: u64 = 1 << 62;

impl Source {
    /// `chunk` bytes at a time, the first when the connection is up, then at `rate`, without end.
    #[must_use]
    pub fn paced(rate: BitRate, chunk: Bytes) -> Self {
        Self::Scheduled(Schedule::live(chunk, rate.time_for(chunk)))
    }

    /// Bytes written by `now` when the connection came up at `start`.
    #[inline]
    pub(crate) fn written(&self, start: Instant, now: Instant) -> u64 {
        match *self {
            Self::None => 0,
            Self::Bulk => ENDLESS,
            Self::Finite(bytes) | Self::Written(bytes) => bytes.0,
            Self::Scheduled(schedule) => schedule.bytes_by(now.since(start)).0.min(ENDLESS),
        }
    }

    /// When the application writes next, if it will.
    #[inline]
    pub(crate) fn next_write(&self, start: Instant, now: Instant) -> Option<Instant> {
        match *self {
            Self::None | Self::Bulk | Self::Finite(_) | Self::Written(_) => None,
            Self::Scheduled(schedule) => {
                let elapsed = now.since(start);
                Some(start + schedule.time_of(schedule.chunks_by(elapsed)))
            }
        }
    }

    /// True if the clock says what has been written.
    #[inline]
    pub(crate) const fn is_by_the_clock(&self) -> bool {
        matches!(self, Self::Scheduled(_))
    }

    /// True if a FIN follows the last byte.
    #[inline]
    pub(crate) const fn ends(&self) -> bool {
        matches!(self, Self::Finite(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_source_writes_one_chunk_at_once_and_then_at_its_rate() {
        let source = Source::paced(BitRate::from_mbps(8), Bytes(1000));
        let start = Instant::from_millis(5);
        for (at_ms, written) in [(5, 1000), (6, 2000), (15, 11_000)] {
            assert_eq!(source.written(start, Instant::from_millis(at_ms)), written, "at {at_ms} ms");
        }
        assert_eq!(source.next_write(start, Instant::from_millis(5)), Some(Instant::from_millis(6)));
        assert_eq!(source.next_write(start, Instant::from_nanos(5_999_999)), Some(Instant::from_millis(6)));
        assert_eq!(source.next_write(start, Instant::from_millis(6)), Some(Instant::from_millis(7)));
    }

    #[test]
    fn a_finite_source_writes_everything_at_once_and_then_ends() {
        let source = Source::Finite(Bytes(7));
        assert_eq!(source.written(Instant::ZERO, Instant::ZERO), 7);
        assert_eq!(source.next_write(Instant::ZERO, Instant::ZERO), None);
        assert!(source.ends() && !Source::Bulk.ends() && !Source::None.ends());
    }
}
