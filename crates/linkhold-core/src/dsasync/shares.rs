//! Among how many equal stations the cell is shared, and among how many equal flows a station's part.
//!
//! Beside the paper (`dsasync`). Sees the length of each packet and the tally of its flow or station;
//! answers `n = bytes of all flows / bytes of the largest` over a short epoch: the number of flows if they
//! are equal. Thin flows beside a bulk flow hardly count, so the bulk flow keeps what they leave. Stations
//! count in the same way, by the bytes of all their flows. A station that has less than its part is not
//! kept there: its window is as large as the largest station's, until it has as much. Where the rate is
//! told, a silent station does not count
//! ([`RoundTrips::share_anew`](super::round_trip::RoundTrips::share_anew)): what it cannot use is left to
//! the others.

use crate::time::{Duration, Instant};

/// Shares are measured over at least this time.
const EPOCH: Duration = Duration::from_millis(500);
/// Shares are measured over at least this many bytes: fewer say nothing.
pub(super) const EPOCH_BYTES: u64 = 32 * 1500;

/// One flow's or station's bytes in an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub epoch: u32,
    pub bytes: u32,
}

/// The count of flows, or stations, that share.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    epoch: u32,
    epoch_start: Instant,
    total: u64,
    largest: u64,
    pub(super) count: f64,
}

impl Default for Shares {
    fn default() -> Self {
        Self { epoch: 1, epoch_start: Instant::ZERO, total: 0, largest: 0, count: 1.0 }
    }
}

impl Shares {
    /// Counts a packet of the flow or station that the tally belongs to.
    pub fn add(&mut self, now: Instant, len: u32, tally: &mut Tally) {
        if now.since(self.epoch_start) >= EPOCH && self.total >= EPOCH_BYTES {
            self.end_epoch(now);
        }
        if tally.epoch != self.epoch {
            *tally = Tally { epoch: self.epoch, bytes: 0 };
        }
        tally.bytes = tally.bytes.saturating_add(len);
        self.total += u64::from(len);
        self.largest = self.largest.max(u64::from(tally.bytes));
    }

    #[cold]
    fn end_epoch(&mut self, now: Instant) {
        let shares = self.total as f64 / self.largest.max(1) as f64;
        // Half the old value: one epoch is often one burst of one flow.
        self.count = f64::midpoint(self.count, shares).max(1.0);
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch_start = now;
        self.total = 0;
        self.largest = 0;
    }

    /// The number of equal flows or stations that they count as; at least 1.
    pub fn count(&self) -> f64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_flows_share_equally_and_thin_ones_hardly_count() {
        // (bytes of each flow per round, share)
        for (flows, expected) in [(vec![1500; 4], 4.0), (vec![15_000, 150, 150, 150], 1.03)] {
            let mut shares = Shares::default();
            let mut tallies = vec![Tally::default(); flows.len()];
            for round in 0..2000u64 {
                for (len, tally) in flows.iter().zip(&mut tallies) {
                    shares.add(Instant::from_millis(10 * round), *len, tally);
                }
            }
            assert!((shares.count() - expected).abs() < 0.05, "{} for {flows:?}", shares.count());
        }
    }
}
