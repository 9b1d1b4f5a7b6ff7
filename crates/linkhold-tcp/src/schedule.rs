//! When an application writes: equal chunks at equal intervals, by a server that may be ahead of real time.
//!
//! Chunk `n` (from 0) is the content of the time `n x interval` after the start. A live server has it then. A
//! server of stored content may send it up to `ahead` earlier, and no faster than one chunk every `spacing`:
//!
//! ```text
//! time of chunk n = max(n x interval - ahead, n x spacing), at least 0
//! ```
//! Windows Media Services send so (Fast Start and Fast Cache: faster than the content's rate until the player
//! has a buffer, then at that rate). The formula is our choice; it has a closed inverse.

use linkhold_core::time::Duration;
use linkhold_core::units::Bytes;

/// A schedule of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    chunk: Bytes,
    interval: Duration,
    ahead: Duration,
    spacing: Duration,
}

impl Schedule {
    /// `chunk` bytes every `interval`, live. A chunk or an interval of zero is taken for 1 byte or 1 ns.
    #[must_use]
    pub fn live(chunk: Bytes, interval: Duration) -> Self {
        let (chunk, interval) = (Bytes(chunk.0.max(1)), interval.max(Duration::from_nanos(1)));
        Self { chunk, interval, ahead: Duration::ZERO, spacing: Duration::ZERO }
    }

    /// The same by a server that may be `ahead` of real time, and gets there with a chunk every `spacing`; a
    /// spacing of zero writes all that it may at once.
    #[must_use]
    pub const fn sent_ahead(self, ahead: Duration, spacing: Duration) -> Self {
        Self { ahead, spacing, ..self }
    }

    /// Size of a chunk.
    #[must_use]
    pub const fn chunk(&self) -> Bytes {
        self.chunk
    }

    /// How long after the start chunk `n` (from 0) is written.
    #[must_use]
    #[inline]
    pub fn time_of(&self, n: u64) -> Duration {
        let after = |step: Duration| Duration::from_nanos(step.as_nanos().saturating_mul(n));
        after(self.interval).saturating_sub(self.ahead).max(after(self.spacing))
    }

    /// Chunks written by `elapsed` after the start, the one due then included.
    #[must_use]
    #[inline]
    pub fn chunks_by(&self, elapsed: Duration) -> u64 {
        let by = |time: u64, step: Duration| (time / step.as_nanos()).saturating_add(1);
        let elapsed = elapsed.as_nanos();
        let content = by(elapsed.saturating_add(self.ahead.as_nanos()), self.interval);
        if self.spacing.is_zero() { content } else { content.min(by(elapsed, self.spacing)) }
    }

    /// Bytes written by `elapsed` after the start.
    #[must_use]
    #[inline]
    pub fn bytes_by(&self, elapsed: Duration) -> Bytes {
        Bytes(self.chunks_by(elapsed).saturating_mul(self.chunk.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_live_server_has_each_chunk_at_its_time() {
        let live = Schedule::live(Bytes(1000), MS(40));
        for (at, bytes) in [(0, 1000), (39, 1000), (40, 2000), (400, 11_000)] {
            assert_eq!(live.bytes_by(MS(at)), Bytes(bytes), "at {at} ms");
        }
    }

    #[test]
    fn a_server_ahead_writes_at_once_or_at_its_rate_and_then_as_the_content_goes() {
        let at_once = Schedule::live(Bytes(1000), MS(40)).sent_ahead(MS(400), Duration::ZERO);
        let paced = Schedule::live(Bytes(1000), MS(40)).sent_ahead(MS(400), MS(10));
        // At 10 ms a chunk it is 400 ms ahead after 13 chunks: 13 x 40 - 400 = 120 < 130.
        for (at, once, slowly) in [(0, 11, 1), (40, 12, 5), (100, 13, 11), (130, 14, 14), (160, 15, 15)] {
            assert_eq!((at_once.chunks_by(MS(at)), paced.chunks_by(MS(at))), (once, slowly), "at {at} ms");
        }
    }

    proptest! {
        #[test]
        fn chunks_by_and_time_of_are_inverse(
            interval in 1_u64..100_000,
            ahead in 0_u64..1_000_000,
            spacing in 0_u64..100_000,
            n in 1_u64..1_000,
        ) {
            let nanos = Duration::from_nanos;
            let schedule = Schedule::live(Bytes(7), nanos(interval)).sent_ahead(nanos(ahead), nanos(spacing));
            let at = schedule.time_of(n);
            prop_assert!(schedule.chunks_by(at) > n);
            if !at.is_zero() {
                prop_assert!(schedule.chunks_by(at.saturating_sub(nanos(1))) <= n);
            }
            prop_assert!(schedule.time_of(n) >= schedule.time_of(n - 1));
        }
    }
}
