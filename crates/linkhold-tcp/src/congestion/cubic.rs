//! CUBIC: the window follows a cubic of the time since the last reduction.
//!
//! Source: RFC 9438. What Linux `tcp_cubic.c` does otherwise is in `linux.rs`; HyStart is in `hystart.rs`.
//! Sees ACKs, RTT samples, congestion events; slow start -> (HyStart or loss) -> congestion avoidance, in the
//! Reno-friendly, concave or convex region.
//! Time in which cwnd was not the limit, or nothing was in flight, does not count (RFC 9438 section 5.8
//! leaves the how open). Linux before 4.3 counted both (commit 30927520dbae); the profile `linux-2009` counts
//! time with nothing in flight, unless cwnd was not the limit before it.

use linkhold_core::time::{Duration, Instant};

use super::hystart::HyStart;
use super::reno::slow_start;
use super::{AckSample, Window};
use crate::config::Details;
use crate::linux::Quirks;

/// RFC 9438 section 4.1: multiplicative decrease factor.
const BETA: f64 = 0.7;
/// RFC 9438 section 5: constant of aggressiveness, segments per second cubed.
const C: f64 = 0.4;
/// RFC 9438 section 4.3: alpha_cubic = 3 * (1 - beta) / (1 + beta), Reno's average with CUBIC's decrease.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Linux `bictcp_update`: while no maximum is known, cwnd grows by at least this share a round trip.
const UNKNOWN_GROWTH: f64 = 1.0 / 20.0;

/// Linux `cubictcp_acked`: RTTs are left out for as long after an epoch began.
const AFTER_EPOCH_BEGAN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cubic {
    /// Window, in segments, at the last reduction.
    w_max: f64,
    /// Start of this congestion avoidance phase.
    epoch: Option<Instant>,
    /// Seconds from `epoch` to the plateau.
    k: f64,
    /// The plateau of this epoch: `w_max`, or the window that the epoch began with if that is larger.
    origin: f64,
    /// Reno's window, for the friendly region.
    w_est: f64,
    /// Fraction of a byte that cwnd is owed.
    credit: f64,
    /// cwnd at the last reduction, segments: W_est grows with slope 1 beyond it (section 4.3).
    cwnd_prior: f64,
    /// Since when cwnd has not been the limit.
    unlimited_since: Option<Instant>,
    quirks: Quirks,
    /// Time with nothing in flight counts, where cwnd was the limit before it.
    counts_idle: bool,
    /// The least RTT since the last timeout.
    least_rtt: Option<Duration>,
    hystart: Option<HyStart>,
}

impl Cubic {
    pub fn new(hystart: bool, details: Details, counts_idle: bool) -> Self {
        let quirks = Quirks::new(details);
        Self {
            w_max: 0.0,
            epoch: None,
            k: 0.0,
            origin: 0.0,
            w_est: 0.0,
            credit: 0.0,
            cwnd_prior: 0.0,
            unlimited_since: None,
            quirks,
            counts_idle,
            least_rtt: None,
            hystart: hystart.then(|| HyStart::new(quirks.hystart_judges_trains())),
        }
    }

    /// An ACK told an RTT, whatever the sender's state.
    #[inline]
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        if self.epoch.is_none_or(|epoch| now.since(epoch) >= AFTER_EPOCH_BEGAN) {
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
    }

    #[inline]
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        if window.in_slow_start()
            && let Some(hystart) = &mut self.hystart
            && hystart.on_ack(window, ack)
        {
            window.ssthresh = window.cwnd;
        }
        if !ack.cwnd_limited {
            // RFC 9438 section 5.8: "the time ... not counted", else the cubic leaps after it.
            if !self.quirks.cubic_counts_unlimited_time() {
                self.unlimited_since.get_or_insert(ack.now);
            }
            return;
        }
        if let Some(since) = self.unlimited_since.take() {
            self.on_quiet(ack.now.since(since));
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = slow_start(window, acked);
        }
        if acked > 0 {
            self.avoid(window, ack, acked);
        }
    }

    fn avoid(&mut self, window: &mut Window, ack: &AckSample, acked: u64) {
        let mss = window.mss as f64;
        let cwnd = window.cwnd as f64 / mss;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin_epoch(cwnd);
                self.epoch = Some(ack.now);
                ack.now
            }
        };
        let acked = acked as f64 / mss;
        let t = ack.now.since(epoch).as_secs_f64();
        let least = self.least_rtt.filter(|_| self.quirks.cubic_looks_the_least_rtt_ahead());
        let rtt = least.or(ack.srtt).unwrap_or(Duration::ZERO).as_secs_f64();

        // RFC 9438 section 4.3 equation 4: W_est = W_est + alpha * segments_acked / cwnd; Reno's own slope
        // beyond the last maximum.
        let reno_slope = self.w_est >= self.cwnd_prior && !self.quirks.cubic_has_one_slope();
        let alpha = if reno_slope { 1.0 } else { ALPHA };
        self.w_est += alpha * acked / cwnd;

        let grown = if self.at(t) < self.w_est {
            // RFC 9438 section 4.3, Reno-friendly region: cwnd SHOULD be set to W_est.
            (self.w_est - cwnd).max(0.0)
        } else {
            // RFC 9438 section 4.2 equation 1: W_cubic(t) = C * (t - K)^3 + W_max, looked at one RTT ahead.
            let target = self.at(t + rtt).clamp(cwnd, 1.5 * cwnd);
            // RFC 9438 sections 4.4 and 4.5: (target - cwnd) / cwnd per segment acknowledged.
            (target - cwnd) / cwnd * acked
        };
        let grown = if self.quirks.cubic_bounds_growth() {
            // cnt at most 20 while last_max_cwnd is 0; never more than a segment for two.
            let least = if self.w_max == 0.0 { UNKNOWN_GROWTH * acked } else { 0.0 };
            grown.max(least).min(acked / 2.0)
        } else {
            grown
        };
        self.credit += grown.min(acked) * mss;
        let whole = self.credit as u64;
        self.credit -= whole as f64;
        window.cwnd += whole;
    }

    fn at(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.origin
    }

    fn begin_epoch(&mut self, cwnd: f64) {
        self.w_est = cwnd;
        self.credit = 0.0;
        if cwnd < self.w_max {
            // RFC 9438 section 4.2 equation 2: K = cbrt ((W_max - cwnd_epoch) / C).
            self.k = ((self.w_max - cwnd) / C).cbrt();
            self.origin = self.w_max;
        } else {
            // RFC 9438 section 4.8: without a reduction behind it the epoch begins at its plateau.
            self.k = 0.0;
            self.origin = cwnd;
        }
    }

    pub fn on_congestion(&mut self, window: &Window, basis: u64) -> u64 {
        let mss = window.mss as f64;
        let cwnd = window.cwnd as f64 / mss;
        // RFC 9438 section 4.7, fast convergence: a maximum below the last one leaves room for others.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.cwnd_prior = cwnd;
        self.epoch = None;
        self.unlimited_since = None;
        // RFC 9438 section 4.6: ssthresh = flight * beta_cubic, at least two segments.
        ((basis as f64 * BETA) as u64).max(2 * window.mss)
    }

    pub fn on_timeout(&mut self) {
        self.least_rtt = None;
        // RFC 9438 section 4.8: the first congestion avoidance after a timeout has K = 0 and W_max = cwnd at
        // its start.
        self.w_max = 0.0;
        self.epoch = None;
        if self.quirks.cubic_timeout_forgets_all() {
            self.cwnd_prior = 0.0;
        }
        if let Some(hystart) = &mut self.hystart {
            hystart.restart();
        }
    }

    /// Sending starts with nothing in flight, `quiet` after the last segment.
    pub fn on_transmit_start(&mut self, quiet: Duration) {
        if !self.counts_idle {
            self.on_quiet(quiet);
        }
    }

    /// Time that does not count: nothing was, or could be, sent. A time in which cwnd is not the limit goes
    /// on after it, and is shorter by as much.
    pub fn on_quiet(&mut self, quiet: Duration) {
        for start in [&mut self.epoch, &mut self.unlimited_since].into_iter().flatten() {
            *start += quiet;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reno::tests::sample;
    use super::*;

    const MSS: u64 = 1000;

    /// Acknowledges `segments` segments spread over `rtt_ms`, a cwnd per round trip, for `seconds`.
    fn run(cubic: &mut Cubic, w: &mut Window, rtt_ms: u64, start_ms: u64, seconds: f64) -> u64 {
        let mut now = Instant::from_millis(start_ms);
        let end = now + Duration::from_secs_f64(seconds);
        let rtt = Duration::from_millis(rtt_ms);
        while now < end {
            let segments = (w.cwnd / MSS).max(1);
            for _ in 0..segments {
                now += Duration::from_nanos(rtt.as_nanos() / segments);
                cubic.on_ack(w, &AckSample { now, srtt: Some(rtt), ..sample(MSS) });
            }
        }
        now.as_nanos() / 1_000_000
    }

    #[test]
    fn the_window_is_back_at_its_maximum_after_k_seconds() {
        let mut cubic = Cubic::new(false, Details::Rfc, false);
        let mut w = Window { cwnd: 1000 * MSS, ssthresh: 1000 * MSS, mss: MSS };
        w.ssthresh = cubic.on_congestion(&w, w.cwnd);
        w.cwnd = w.ssthresh;
        assert_eq!(w.cwnd, 700 * MSS, "beta = 0.7");
        // K = cbrt (300 / 0.4) = 9.086 s.
        run(&mut cubic, &mut w, 100, 0, 9.086);
        let segments = w.cwnd / MSS;
        assert!((990..=1003).contains(&segments), "{segments}");
    }

    #[test]
    fn growth_is_concave_then_convex() {
        let mut cubic = Cubic::new(false, Details::Rfc, false);
        let mut w = Window { cwnd: 1000 * MSS, ssthresh: 1000 * MSS, mss: MSS };
        w.ssthresh = cubic.on_congestion(&w, w.cwnd);
        w.cwnd = w.ssthresh;
        let mut at = 0;
        let mut sizes = vec![w.cwnd];
        for _ in 0..4 {
            at = run(&mut cubic, &mut w, 100, at, 4.5);
            sizes.push(w.cwnd);
        }
        let steps: Vec<u64> = sizes.windows(2).map(|p| p[1] - p[0]).collect();
        assert!(steps[0] > steps[1] && steps[2] < steps[3] && steps[1] < steps[3], "{steps:?}");
    }

    #[test]
    fn on_a_short_path_it_grows_like_reno() {
        // RTT 2 ms, 100 segments: the cubic is flat there, W_est leads with alpha = 0.529 a round trip.
        let mut cubic = Cubic::new(false, Details::Rfc, false);
        let mut w = Window { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS };
        w.ssthresh = cubic.on_congestion(&w, w.cwnd);
        w.cwnd = w.ssthresh;
        run(&mut cubic, &mut w, 2, 0, 0.08);
        let segments = w.cwnd as f64 / MSS as f64;
        assert!((segments - (70.0 + 40.0 * ALPHA)).abs() < 2.0, "{segments}");
    }

    #[test]
    fn fast_convergence_gives_way_when_maxima_fall() {
        let mut cubic = Cubic::new(false, Details::Rfc, false);
        let w = Window { cwnd: 1000 * MSS, ssthresh: u64::MAX, mss: MSS };
        cubic.on_congestion(&w, w.cwnd);
        let lower = Window { cwnd: 800 * MSS, ..w };
        cubic.on_congestion(&lower, lower.cwnd);
        assert!((cubic.w_max - 680.0).abs() < 1e-9, "800 * 1.7 / 2");
    }

    #[test]
    fn quiet_time_does_not_make_the_window_leap() {
        let mut cubic = Cubic::new(false, Details::Rfc, false);
        let mut w = Window { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS };
        let at = run(&mut cubic, &mut w, 50, 0, 1.0);
        let before = w.cwnd;
        let idle = |at| AckSample {
            now: Instant::from_millis(at),
            srtt: Some(Duration::from_millis(50)),
            cwnd_limited: false,
            ..sample(MSS)
        };
        cubic.on_ack(&mut w, &idle(at));
        run(&mut cubic, &mut w, 50, at + 60_000, 0.05);
        assert!(w.cwnd - before < 10 * MSS, "{before} -> {}", w.cwnd);
    }

    #[test]
    fn time_with_nothing_in_flight_does_not_make_the_window_leap_unless_the_profile_is_old() {
        for (details, counts_idle) in [(Details::Rfc, false), (Details::Linux, false), (Details::Rfc, true)] {
            let mut cubic = Cubic::new(false, details, counts_idle);
            let mut w = Window { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS };
            let at = run(&mut cubic, &mut w, 50, 0, 1.0);
            let before = w.cwnd;
            // cwnd was the limit to the last ACK.
            cubic.on_transmit_start(Duration::from_secs(60));
            run(&mut cubic, &mut w, 50, at + 60_000, 0.05);
            assert_eq!(w.cwnd >= before * 5 / 4, counts_idle, "{details:?}: {before} -> {}", w.cwnd);
        }
    }

    #[test]
    fn a_freeze_within_a_time_that_does_not_count_is_left_out_once() {
        let mut cubic = Cubic::new(false, Details::Rfc, false);
        let mut w = Window { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS };
        let at = run(&mut cubic, &mut w, 50, 0, 1.0);
        let ack = |ms, cwnd_limited| AckSample {
            now: Instant::from_millis(ms),
            srtt: Some(Duration::from_millis(50)),
            cwnd_limited,
            ..sample(MSS)
        };
        let epoch = cubic.epoch.expect("in congestion avoidance");
        // 1 s in which cwnd is not the limit, then a freeze of 3 s, then 2 s more of the first.
        cubic.on_ack(&mut w, &ack(at, false));
        cubic.on_quiet(Duration::from_secs(3));
        cubic.on_ack(&mut w, &ack(at + 6000, true));
        assert_eq!(cubic.epoch, Some(epoch + Duration::from_secs(6)));
    }

    #[test]
    fn after_a_timeout_linux_grows_by_a_twentieth_a_round_trip_until_it_loses() {
        for (details, more) in [(Details::Linux, true), (Details::Rfc, false)] {
            let mut cubic = Cubic::new(false, details, false);
            let mut w = Window { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS };
            w.ssthresh = cubic.on_congestion(&w, w.cwnd);
            cubic.on_timeout();
            w.cwnd = 100 * MSS;
            run(&mut cubic, &mut w, 100, 0, 0.3);
            // The cubic alone: 0.4 * 0.4^3 of a segment; W_est: 0.53 a round trip.
            let segments = w.cwnd / MSS;
            assert_eq!(segments >= 115, more, "{segments}");
        }
    }

    /// Linux `bictcp_update` adds `delay_min` to the time since the epoch began; `cubictcp_acked` leaves RTTs
    /// of an epoch's first second out, and `bictcp_reset` forgets the least.
    #[test]
    fn linux_looks_the_least_rtt_since_the_last_timeout_ahead() {
        // Congestion avoidance for 3 s from 70 segments on; queues make the smoothed RTT ten times the least.
        let grown = |details, timeout: bool| {
            let mut cubic = Cubic::new(false, details, false);
            let mut w = Window { cwnd: 100 * MSS, ssthresh: 100 * MSS, mss: MSS };
            cubic.on_rtt(Instant::ZERO, Duration::from_millis(100));
            if timeout {
                cubic.on_timeout();
                cubic.on_rtt(Instant::from_millis(1), Duration::from_millis(1000));
            }
            w.cwnd = 100 * MSS;
            w.ssthresh = cubic.on_congestion(&w, w.cwnd);
            w.cwnd = w.ssthresh;
            for n in 0..300 {
                let now = Instant::from_millis(1000 + 10 * n);
                cubic.on_rtt(now, Duration::from_millis(1000));
                cubic.on_ack(
                    &mut w,
                    &AckSample { now, srtt: Some(Duration::from_millis(1000)), ..sample(MSS) },
                );
            }
            w.cwnd
        };
        assert!(grown(Details::Linux, false) < grown(Details::Rfc, false));
        assert!(grown(Details::Linux, false) < grown(Details::Linux, true));
    }

    #[test]
    fn hystart_leaves_slow_start_when_the_delay_rises() {
        for (hystart, leaves) in [(true, true), (false, false)] {
            let mut cubic = Cubic::new(hystart, Details::Rfc, false);
            let mut w = Window { cwnd: 20 * MSS, ssthresh: u64::MAX, mss: MSS };
            for i in 0..40u64 {
                let rtt = if i < 20 { 20 } else { 30 };
                let ack = AckSample {
                    rtt: Some(Duration::from_millis(rtt)),
                    una: i * MSS,
                    nxt: i * MSS + 20 * MSS,
                    ..sample(MSS)
                };
                cubic.on_ack(&mut w, &ack);
            }
            assert_eq!(!w.in_slow_start() || w.ssthresh < u64::MAX, leaves);
        }
    }
}
