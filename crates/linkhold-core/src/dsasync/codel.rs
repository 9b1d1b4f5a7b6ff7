//! Cuts a queue that stands outside silences (CoDel, RFC 8289), of one flow of the hold buffer.
//!
//! Sees for each packet about to leave how long it waited; answers if it is dropped instead. A packet that
//! met a silence counts as one that did not wait, and stops the clock. So do the packets that came behind it,
//! up to [`EXCUSED`] times as many bytes as met the silence: they wait for what the silence kept here, and a
//! queue that has not drained once since the silence is not a standing one.
//!
//! Queue: good → above target (for less than an interval) → dropping → good.
//!
//! Deviations: a packet that waited for five intervals is dropped at once. The control law alone takes
//! minutes to master a sender that does not react (the time between its drops shrinks by the square root of
//! their number), and all the while the sender's packets, which nobody wants any more, take their share of
//! the radio. Congestion is not marked in place of a drop, for the verdict on a held packet was given when it
//! came.

use crate::time::{Duration, Instant};

/// A queue is standing that has been above target for this long (RFC 8289 section 4.2).
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// Longest that a packet waits outside silences, whatever the control law says.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// How many bytes behind each byte that met a silence are excused. A sender that offers three quarters of
/// what its queue is served with, all the time, needs three until the queue is empty again.
const EXCUSED: u64 = 3;

/// The control law of one queue (RFC 8289 section 5.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct CoDel {
    /// When the wait will have been above target for an interval; zero: it is not.
    first_above: Instant,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// Bytes that may still leave with a long wait because a silence kept what was before them.
    excused: u64,
}

impl CoDel {
    pub const NEW: Self = Self {
        first_above: Instant::ZERO,
        drop_next: Instant::ZERO,
        count: 0,
        last_count: 0,
        dropping: false,
        excused: 0,
    };

    /// The packet of `len` bytes about to leave waited for `wait` (`None`: it met a silence). `is_long`: its
    /// queue is long enough to be cut. True if the packet is to be dropped.
    #[inline]
    pub fn drops(
        &mut self,
        now: Instant,
        target: Duration,
        wait: Option<Duration>,
        is_long: bool,
        len: u32,
    ) -> bool {
        let len = u64::from(len);
        match wait {
            None => self.excused += EXCUSED * len,
            Some(wait) if wait < target || !is_long => self.excused = 0,
            Some(_) if self.excused >= len => self.excused -= len,
            Some(wait) => return self.drops_above(now, wait),
        }
        self.first_above = Instant::ZERO;
        self.dropping = false;
        false
    }

    #[cold]
    fn drops_above(&mut self, now: Instant, wait: Duration) -> bool {
        if self.first_above == Instant::ZERO {
            self.first_above = now + INTERVAL;
        }
        let late = wait >= LONGEST_WAIT;
        if self.dropping {
            if now < self.drop_next {
                return late;
            }
            self.count = self.count.saturating_add(1);
            self.drop_next = self.control_law(self.drop_next);
            return true;
        }
        if now < self.first_above {
            return late;
        }
        self.dropping = true;
        // Dropping goes on at the rate that it had reached, if it stopped only a short time ago.
        let drops = self.count.saturating_sub(self.last_count);
        let lately = now.since(self.drop_next) < INTERVAL * 16;
        self.count = if drops > 1 && lately { drops } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        true
    }

    fn control_law(&self, from: Instant) -> Instant {
        from + Duration::from_nanos((INTERVAL.as_nanos() as f64 / f64::from(self.count).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(20);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1000 + ms)
    }

    fn above(codel: &mut CoDel, ms: u64) -> bool {
        codel.drops(at(ms), TARGET, Some(TARGET), true, 1000)
    }

    #[test]
    fn a_standing_queue_is_cut_at_growing_rate_after_an_interval() {
        let mut codel = CoDel::NEW;
        let drops: Vec<u64> = (0..500).filter(|ms| above(&mut codel, *ms)).collect();
        // 100 ms, then 100/sqrt(1), 100/sqrt(2), ... apart
        assert_eq!(drops, [100, 200, 271, 329, 379, 424, 464]);
    }

    #[test]
    fn a_short_wait_a_short_queue_and_a_silence_stop_the_clock() {
        // Behind a packet that met a silence three more are excused, as long as none finds the queue short.
        let short = Some(Duration::from_millis(19));
        for (wait, is_long, next) in [(short, true, 200), (Some(TARGET), false, 200), (None, true, 203)] {
            let mut codel = CoDel::NEW;
            assert!((0..99).all(|ms| !above(&mut codel, ms)));
            assert!(!codel.drops(at(99), TARGET, wait, is_long, 1000));
            assert!((100..next).all(|ms| !above(&mut codel, ms)));
            assert!(above(&mut codel, next));
        }
    }

    #[test]
    fn nothing_waits_for_longer_than_five_intervals_but_across_a_silence() {
        let mut codel = CoDel::NEW;
        assert!(codel.drops(at(0), TARGET, Some(LONGEST_WAIT), true, 1000));
        assert!(!codel.drops(at(0), TARGET, None, true, 1000));
    }
}
