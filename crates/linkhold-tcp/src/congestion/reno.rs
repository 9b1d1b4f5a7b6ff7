//! Slow start and congestion avoidance, with multiplicative decrease by half.
//!
//! Source: RFC 5681 section 3.1.
//! Sees ACKs and congestion events; gives cwnd and ssthresh.
//! slow start -> congestion avoidance -> (loss) slow start or congestion avoidance.

use super::{AckSample, Window};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reno {
    /// Bytes acknowledged towards the next segment of growth.
    credit: u64,
}

impl Reno {
    #[inline]
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        // RFC 7661 section 4.1's concern, by Linux's rule: a window that is not used is not grown.
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = slow_start(window, acked);
        }
        self.avoid(window, acked);
    }

    /// Congestion avoidance with `acked` bytes: one segment per window's worth.
    #[inline]
    pub fn avoid(&mut self, window: &mut Window, acked: u64) {
        // RFC 5681 section 3.1: "increase cwnd by at most SMSS bytes ... per RTT", counted in bytes as it
        // recommends.
        self.credit += acked;
        if self.credit >= window.cwnd {
            self.credit -= window.cwnd;
            window.cwnd += window.mss;
        }
    }

    pub fn on_congestion(&mut self, window: &Window, basis: u64) -> u64 {
        self.credit = 0;
        halve(window, basis)
    }

    pub fn on_timeout(&mut self) {
        self.credit = 0;
    }
}

/// RFC 5681 equation 4: ssthresh = max (FlightSize / 2, 2*SMSS).
pub(super) fn halve(window: &Window, basis: u64) -> u64 {
    (basis / 2).max(2 * window.mss)
}

/// RFC 5681 section 3.1: cwnd grows by what is acknowledged, up to ssthresh. Answers what is left of `acked`.
#[inline]
pub(super) fn slow_start(window: &mut Window, acked: u64) -> u64 {
    let grown = (window.cwnd + acked).min(window.ssthresh);
    let left = acked - (grown - window.cwnd);
    window.cwnd = grown;
    left
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use linkhold_core::time::Instant;

    pub fn sample(acked: u64) -> AckSample {
        AckSample { now: Instant::ZERO, acked, rtt: None, srtt: None, una: 0, nxt: 0, cwnd_limited: true }
    }

    #[test]
    fn slow_start_doubles_per_window_and_stops_at_ssthresh() {
        let mut w = Window { cwnd: 4000, ssthresh: 8500, mss: 1000 };
        let mut reno = Reno::default();
        for _ in 0..4 {
            reno.on_ack(&mut w, &sample(1000));
        }
        assert_eq!(w.cwnd, 8000);
        reno.on_ack(&mut w, &sample(1000));
        assert_eq!(w.cwnd, 8500, "half of it to ssthresh, half is credit in congestion avoidance");
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_per_window() {
        let mut w = Window { cwnd: 10_000, ssthresh: 10_000, mss: 1000 };
        let mut reno = Reno::default();
        for _ in 0..9 {
            reno.on_ack(&mut w, &sample(1000));
        }
        assert_eq!(w.cwnd, 10_000);
        reno.on_ack(&mut w, &sample(1000));
        assert_eq!(w.cwnd, 11_000);
    }

    #[test]
    fn a_window_that_is_not_the_limit_does_not_grow() {
        let mut w = Window { cwnd: 10_000, ssthresh: u64::MAX, mss: 1000 };
        let ack = AckSample { cwnd_limited: false, ..sample(1000) };
        Reno::default().on_ack(&mut w, &ack);
        assert_eq!(w.cwnd, 10_000);
    }

    #[test]
    fn a_loss_halves_but_leaves_two_segments() {
        let w = Window { cwnd: 10_000, ssthresh: u64::MAX, mss: 1000 };
        let mut reno = Reno::default();
        assert_eq!(reno.on_congestion(&w, 9_000), 4_500);
        assert_eq!(reno.on_congestion(&w, 3_000), 2_000);
    }
}
