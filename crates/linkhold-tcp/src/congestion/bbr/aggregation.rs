//! How much more than the bandwidth says is acknowledged at once, where ACKs come in bunches.
//!
//! Source: Linux `tcp_bbr.c` (`bbr_update_ack_aggregation`); the first draft has no such part. The greatest
//! excess of the last 5 to 10 round trips is added to the window, so that the sender does not stop between
//! two bunches.

use linkhold_core::time::{Duration, Instant};

/// Round trips after which the older of two maxima is forgotten.
const WINDOW_ROUNDS: u32 = 5;
/// Most bytes counted of one stretch of ACKs (Linux counts 2^20 packets).
const STRETCH_MAX: u64 = 1 << 30;
/// At most what the bandwidth carries in this time is added (`bbr_extra_acked_max_us`).
const MOST: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    /// A stretch of ACKs that are ahead of the bandwidth: since when, and what they acknowledged.
    since: Instant,
    acked: u64,
    /// Greatest excess of this and of the window before, bytes.
    most: [u64; 2],
    current: usize,
    rounds: u32,
}

impl Aggregation {
    pub const fn new(now: Instant) -> Self {
        Self { since: now, acked: 0, most: [0; 2], current: 0, rounds: 0 }
    }

    /// The sender begins to send after a pause.
    pub fn restart(&mut self, now: Instant) {
        self.since = now;
        self.acked = 0;
    }

    /// `acked` bytes are newly delivered at `now`, over a path of `bandwidth`, bytes a second.
    pub fn on_ack(&mut self, now: Instant, acked: u64, bandwidth: f64, cwnd: u64, round_start: bool) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                self.rounds = 0;
                self.current ^= 1;
                self.most[self.current] = 0;
            }
        }
        let mut expected = (bandwidth * now.since(self.since).as_secs_f64()) as u64;
        if self.acked <= expected || self.acked + acked >= STRETCH_MAX {
            self.restart(now);
            expected = 0;
        }
        self.acked += acked;
        let extra = (self.acked - expected).min(cwnd);
        self.most[self.current] = self.most[self.current].max(extra);
    }

    /// Bytes to add to the window.
    pub fn extra(&self, bandwidth: f64) -> u64 {
        let most = (bandwidth * MOST.as_secs_f64()) as u64;
        self.most[0].max(self.most[1]).min(most)
    }

    /// The sender's clock stood still for `by`.
    pub fn shift_times(&mut self, by: Duration) {
        self.since += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_of_a_bunch_is_remembered_for_five_to_ten_rounds() {
        // 1 MB/s: 1000 bytes a millisecond, but acknowledged 10 ms at a time.
        let mut aggregation = Aggregation::new(Instant::ZERO);
        for n in 1..=4_u64 {
            aggregation.on_ack(Instant::from_millis(10 * n), 10_000, 1e6, 100_000, true);
        }
        assert_eq!(aggregation.extra(1e6), 10_000);
        let mut rounds = 0;
        while aggregation.extra(1e6) >= 10_000 {
            rounds += 1;
            let now = Instant::from_millis(40 + 2 * rounds);
            aggregation.on_ack(now, 500, 1e6, 100_000, true);
        }
        assert!((5..=10).contains(&rounds), "{rounds}");
    }

    #[test]
    fn no_more_is_added_than_a_tenth_of_a_second_carries() {
        let mut aggregation = Aggregation::new(Instant::ZERO);
        aggregation.on_ack(Instant::from_millis(1), 500_000, 1e6, 1_000_000, true);
        assert_eq!(aggregation.extra(1e6), 100_000);
    }
}
