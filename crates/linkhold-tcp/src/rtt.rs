//! Round-trip time and retransmission timeout.
//!
//! Source: RFC 6298; with the floor on the variance term, Linux `tcp_rtt_estimator` (RTTVAR follows the
//! largest deviation of the last round trip, falls slowly, and never below the floor).
//! Sees RTT samples, gives SRTT, RTO with backoff, and the smallest RTT of the last 300 s (Linux
//! `tcp_min_rtt`).

use linkhold_core::time::{Duration, Instant};

/// Window of the minimum filter, Linux `tcp_min_rtt_wlen`.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);
/// RFC 6298 (5.7), Linux `TCP_TIMEOUT_FALLBACK`: the RTO of the first data after a SYN that timed out.
const FALLBACK: Duration = Duration::from_secs(3);
/// Clock granularity G of RFC 6298. The simulator's clock counts nanoseconds; 1 ms is what stacks have.
const GRANULARITY: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt: Option<Duration>,
    rttvar: Duration,
    /// Linux only: smoothed deviation, its maximum in this round trip, and where the round trip ends.
    mdev: Duration,
    mdev_max: Duration,
    round_end: u64,
    /// RTO without the backoff.
    base: Duration,
    rto: Duration,
    backoff: u32,
    min_rtt: Option<(Duration, Instant)>,
    floor: Duration,
    floor_on_variance: bool,
    ceiling: Duration,
}

impl RttEstimator {
    pub fn new(initial: Duration, floor: Duration, floor_on_variance: bool, ceiling: Duration) -> Self {
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            mdev: Duration::ZERO,
            mdev_max: Duration::ZERO,
            round_end: 0,
            base: initial,
            rto: initial.min(ceiling),
            backoff: 0,
            min_rtt: None,
            floor,
            floor_on_variance,
            ceiling,
        }
    }

    /// A sample from a segment sent once, or from an echoed timestamp. `una` and `nxt` mark round trips.
    pub fn sample(&mut self, now: Instant, rtt: Duration, una: u64, nxt: u64) {
        let rtt = Duration::from_nanos(rtt.as_nanos().max(1));
        match self.min_rtt {
            Some((min, at)) if rtt > min && now.since(at) <= MIN_RTT_WINDOW => {}
            _ => self.min_rtt = Some((rtt, now)),
        }
        match self.srtt {
            None => {
                // RFC 6298 (2.2): SRTT <- R, RTTVAR <- R/2.
                self.srtt = Some(rtt);
                self.rttvar = Duration::from_nanos(rtt.as_nanos() / 2);
                if self.floor_on_variance {
                    self.mdev = self.rttvar;
                    self.rttvar = self.rttvar.max(Duration::from_nanos(self.floor.as_nanos() / 4));
                    self.mdev_max = self.rttvar;
                    self.round_end = nxt;
                }
            }
            Some(srtt) => {
                let (r, s) = (rtt.as_nanos(), srtt.as_nanos());
                let deviation = r.abs_diff(s);
                if self.floor_on_variance {
                    self.linux_variance(deviation, r < s, una, nxt);
                } else {
                    // RFC 6298 (2.3): RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R'|, before SRTT.
                    self.rttvar = Duration::from_nanos((3 * self.rttvar.as_nanos() + deviation) / 4);
                }
                // RFC 6298 (2.3): SRTT <- 7/8 SRTT + 1/8 R'.
                self.srtt = Some(Duration::from_nanos((7 * s + r) / 8));
            }
        }
        self.base = self.computed();
        self.apply_backoff();
    }

    /// Linux `tcp_rtt_estimator`.
    fn linux_variance(&mut self, deviation: u64, falling: bool, una: u64, nxt: u64) {
        let mdev = self.mdev.as_nanos();
        // A falling RTT beyond the deviation counts an eighth as much, so that the RTO does not rise on good
        // news.
        let mdev = if falling && deviation > mdev {
            mdev + (deviation - mdev) / 32
        } else {
            (3 * mdev + deviation) / 4
        };
        self.mdev = Duration::from_nanos(mdev);
        if self.mdev > self.mdev_max {
            self.mdev_max = self.mdev;
            self.rttvar = self.rttvar.max(self.mdev_max);
        }
        if una > self.round_end {
            if self.mdev_max < self.rttvar {
                let fall = (self.rttvar.as_nanos() - self.mdev_max.as_nanos()) / 4;
                self.rttvar = self.rttvar.saturating_sub(Duration::from_nanos(fall));
            }
            self.round_end = nxt;
            self.mdev_max = Duration::from_nanos(self.floor.as_nanos() / 4);
        }
    }

    fn computed(&self) -> Duration {
        let srtt = self.srtt.unwrap_or(Duration::ZERO);
        // RFC 6298 (2.2): RTO <- SRTT + max (G, K*RTTVAR), K = 4.
        let rto = srtt + (self.rttvar * 4).max(GRANULARITY);
        // RFC 6298 (2.4): at least the floor (1 s in the RFC); (2.5) at most the ceiling.
        let rto = if self.floor_on_variance { rto } else { rto.max(self.floor) };
        rto.min(self.ceiling)
    }

    /// RFC 6298 (5.7): the SYN's timer has expired, and data begin. The RTO is 3 s at least until the next
    /// sample.
    pub fn fall_back(&mut self) {
        self.base = self.base.max(FALLBACK).min(self.ceiling);
        self.apply_backoff();
    }

    /// RFC 6298 (5.5): RTO <- RTO * 2.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
        self.apply_backoff();
    }

    /// New data was acknowledged: the path answers (Linux resets the backoff; RFC 6298 section 5 allows it).
    pub fn reset_backoff(&mut self) {
        if self.backoff > 0 {
            self.backoff = 0;
            self.apply_backoff();
        }
    }

    #[inline]
    fn apply_backoff(&mut self) {
        self.rto = (self.base * (1 << self.backoff)).min(self.ceiling);
    }

    /// The path has another delay: every estimate of a round trip moves with it. What the variance was stays.
    pub fn shift(&mut self, moved: impl Fn(Duration) -> Duration) {
        let moved = |rtt| moved(rtt).max(Duration::from_nanos(1));
        self.srtt = self.srtt.map(moved);
        self.min_rtt = self.min_rtt.map(|(rtt, at)| (moved(rtt), at));
        if self.srtt.is_some() {
            self.base = self.computed();
            self.apply_backoff();
        }
    }

    /// The timeout to arm.
    #[inline]
    pub fn rto(&self) -> Duration {
        self.rto
    }

    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.map(|(rtt, _)| rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn rfc_6298_by_hand() {
        let mut rtt = RttEstimator::new(ms(1000), ms(200), false, ms(60_000));
        assert_eq!(rtt.rto(), ms(1000), "(2.1)");
        rtt.sample(Instant::ZERO, ms(100), 0, 0);
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(100)), ms(300)), "(2.2): 100 + 4 * 50");
        rtt.sample(Instant::ZERO, ms(180), 0, 0);
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110; RTO = 110 + 230.
        assert_eq!((rtt.srtt(), rtt.rto()), (Some(ms(110)), ms(340)), "(2.3)");
        for _ in 0..200 {
            rtt.sample(Instant::ZERO, ms(10), 0, 0);
        }
        assert_eq!(rtt.rto(), ms(200), "(2.4) with the floor at 200 ms");
    }

    #[test]
    fn the_timeout_doubles_up_to_the_ceiling_and_new_data_resets_it() {
        let mut rtt = RttEstimator::new(ms(1000), ms(1000), false, ms(5000));
        for expected in [2000, 4000, 5000, 5000] {
            rtt.back_off();
            assert_eq!(rtt.rto(), ms(expected));
        }
        rtt.reset_backoff();
        assert_eq!(rtt.rto(), ms(1000));
    }

    #[test]
    fn linux_keeps_the_floor_on_the_variance() {
        let mut rtt = RttEstimator::new(ms(1000), ms(200), true, ms(120_000));
        for i in 0..100 {
            rtt.sample(Instant::ZERO, ms(100), i, i + 1);
        }
        assert_eq!(rtt.rto(), ms(300), "SRTT + 200 ms on a steady path");
    }

    #[test]
    fn the_minimum_forgets_after_its_window() {
        let mut rtt = RttEstimator::new(ms(1000), ms(200), true, ms(120_000));
        rtt.sample(Instant::ZERO, ms(2), 0, 1);
        rtt.sample(Instant::from_millis(299_000), ms(50), 0, 1);
        assert_eq!(rtt.min_rtt(), Some(ms(2)));
        rtt.sample(Instant::from_millis(301_000), ms(50), 0, 1);
        assert_eq!(rtt.min_rtt(), Some(ms(50)));
    }
}
