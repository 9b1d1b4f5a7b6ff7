//! When the next segment may leave, at a pacing rate.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00 section 4.2.1 (next_send_time), as Linux's internal
//! pacing does it (`tcp_update_skb_after_send`, `tcp_pacing_check`): bursts of some segments, each followed
//! by the time that it takes at the rate; the first ten segments of a connection are not paced; what was late
//! is made up for, by half of a burst's time at most.

use linkhold_core::time::{Duration, Instant};

/// Segments that leave unpaced at the start.
const UNPACED: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// The next burst leaves then, at the earliest.
    departure: Instant,
    /// The burst under way: when it left, segments that may still join it, lateness to make up for.
    began: Instant,
    left: u64,
    late: Duration,
    /// Segments sent, up to [`UNPACED`].
    sent: u64,
}

impl Pacer {
    pub const fn new() -> Self {
        Self { departure: Instant::ZERO, began: Instant::ZERO, left: 0, late: Duration::ZERO, sent: 0 }
    }

    pub fn departure(&self) -> Instant {
        self.departure
    }

    /// True if a segment may leave now, in this burst or in one of `burst` segments that begins.
    #[inline]
    pub fn may_send(&mut self, now: Instant, burst: u64) -> bool {
        if self.left > 0 && self.began == now {
            return true;
        }
        if now < self.departure {
            return false;
        }
        self.left = burst;
        self.began = now;
        self.late = now.since(self.departure);
        true
    }

    /// The sender was stopped until now: it may go on at once.
    pub fn restart(&mut self, now: Instant) {
        self.departure = self.departure.min(now);
    }

    /// A segment of `bytes` leaves, allowed or not, at `rate`, bytes a second.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: f64) {
        self.left = self.left.saturating_sub(1);
        if self.sent < UNPACED {
            self.sent += 1;
            return;
        }
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1.0));
        let made_up = self.late.min(Duration::from_nanos(takes.as_nanos() / 2));
        self.late = self.late.saturating_sub(made_up);
        self.departure = self.departure.max(now) + takes.saturating_sub(made_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1e6;

    /// Sends all that may go at `now` in bursts of two; answers how many of 1000 bytes went.
    fn send(pacer: &mut Pacer, now: Instant) -> u32 {
        let mut sent = 0;
        while pacer.may_send(now, 2) && sent < 100 {
            pacer.on_sent(now, 1000, RATE);
            sent += 1;
        }
        sent
    }

    #[test]
    fn ten_segments_go_unpaced_and_the_rest_in_bursts_at_the_rate() {
        let mut pacer = Pacer::new();
        // The burst under way at the tenth segment has one more, which is paced.
        assert!((10..=12).contains(&send(&mut pacer, Instant::ZERO)));
        let mut sent = 0;
        for _ in 0..500 {
            let at = pacer.departure();
            sent += send(&mut pacer, at);
        }
        assert_eq!(sent, 1000);
        let expected = Duration::from_millis(1000);
        let took = pacer.departure().since(Instant::ZERO);
        assert!(took >= expected && took <= expected + Duration::from_millis(3), "{took:?}");
    }

    #[test]
    fn half_of_a_bursts_time_at_most_is_made_up_for() {
        let mut pacer = Pacer::new();
        send(&mut pacer, Instant::ZERO);
        let at = pacer.departure() + Duration::from_micros(300);
        assert_eq!(send(&mut pacer, at), 2);
        assert_eq!(pacer.departure().since(at), Duration::from_micros(1700), "2 ms less what was late");
        let at = pacer.departure() + Duration::from_secs(1);
        assert_eq!(send(&mut pacer, at), 2);
        assert_eq!(pacer.departure().since(at), Duration::from_micros(1000));
    }
}
