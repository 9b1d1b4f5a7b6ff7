//! A primary user (incumbent) on one channel: ON and OFF times, exponential or fixed, seen with a detection
//! delay.
//!
//! Source: dsasync section VI-A ("The incumbent produces ON/OFF patterns of random durations according to an
//! exponential distribution"). Fixed times are our choice, for what a silence of a given length costs where
//! it is told late. Times from a PU log (crahn, section 4.1) take the place of drawn ones: the log's bursts
//! are the same for every seed, and after its last one the user is silent.
//! Sees nothing but time and its own random stream; the channel set reads `is_on` and `is_detected`.
//! States: clear → on, undetected (frames collide) → detected (radio silent) → off, not yet noticed → clear;
//! a burst shorter than the detection delay is never detected, a pause shorter than the end's never noticed.

use std::sync::Arc;

use linkhold_core::time::{Duration, Instant};

use crate::change::{Change, ChangeKind};
use crate::rng::Stream;
use crate::spectrum::occupancy::Occupancy;

/// A primary user's habits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryUserConfig {
    /// Mean length of a burst; zero: it never transmits.
    pub on_mean: Duration,
    /// Mean length of the pause between bursts; zero: it always transmits.
    pub off_mean: Duration,
    /// Every burst and every pause has exactly its mean's length; a pause comes first.
    pub fixed: bool,
    /// From a burst's start to its detection. Until then frames are sent and collide; 0 = silent at once.
    pub detection_delay: Duration,
    /// From a burst's end to the radio's resuming.
    pub end_detection_delay: Duration,
}

/// The ON/OFF process of one primary user and what the radio knows of it.
#[derive(Clone, Debug)]
pub(crate) struct PrimaryUser {
    config: PrimaryUserConfig,
    /// Where its times come from a log.
    measured: Option<Arc<Occupancy>>,
    stream: Stream,
    on: bool,
    toggles_at: Instant,
    detected: bool,
    /// When `detected` follows `on`; far future while they agree.
    notices_at: Instant,
}

impl PrimaryUser {
    /// The process in its stationary state at time 0: ON with probability on / (on + off), and then detected
    /// long ago. (The remaining time of a burst is exponential too.) With fixed times it is at the start of a
    /// pause. With measured times it is what they say, and its means mean nothing.
    pub(crate) fn new(
        config: PrimaryUserConfig,
        measured: Option<Arc<Occupancy>>,
        seed: u64,
        channel: usize,
    ) -> Self {
        let mut stream = Stream::new(seed, "primary-user", channel as u64);
        let (on_mean, off_mean) = (config.on_mean.as_secs_f64(), config.off_mean.as_secs_f64());
        let draw = stream.unit();
        let on = if let Some(measured) = &measured {
            measured.is_on(Instant::ZERO)
        } else if config.fixed {
            config.off_mean.is_zero()
        } else {
            !config.on_mean.is_zero() && draw * (on_mean + off_mean) < on_mean
        };
        let mut user = Self {
            config,
            measured,
            stream,
            on,
            toggles_at: Instant::ZERO,
            detected: on,
            notices_at: Instant::FAR_FUTURE,
        };
        user.toggles_at = user.draw_toggle(Instant::ZERO);
        user
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// When its burst or pause ends.
    pub(crate) const fn toggles_at(&self) -> Instant {
        self.toggles_at
    }

    pub(crate) const fn is_detected(&self) -> bool {
        self.detected
    }

    pub(crate) fn next(&self) -> Change {
        // On a tie the detection comes first: the burst lasted long enough to be seen.
        if self.notices_at <= self.toggles_at {
            Change { at: self.notices_at, kind: if self.on { ChangeKind::Stop } else { ChangeKind::Resume } }
        } else {
            Change { at: self.toggles_at, kind: if self.on { ChangeKind::Resume } else { ChangeKind::Stop } }
        }
    }

    pub(crate) fn step(&mut self) {
        if self.notices_at <= self.toggles_at {
            self.detected = self.on;
            self.notices_at = Instant::FAR_FUTURE;
            return;
        }
        let at = self.toggles_at;
        self.on = !self.on;
        self.toggles_at = self.draw_toggle(at);
        let delay = if self.on { self.config.detection_delay } else { self.config.end_detection_delay };
        self.notices_at = Instant::FAR_FUTURE;
        if self.on != self.detected {
            if delay.is_zero() {
                self.detected = self.on;
            } else {
                self.notices_at = at + delay;
            }
        }
    }

    fn draw_toggle(&mut self, at: Instant) -> Instant {
        if let Some(measured) = &self.measured {
            return measured.next_change(at).unwrap_or(Instant::FAR_FUTURE);
        }
        let (mean, next_mean) = if self.on {
            (self.config.on_mean, self.config.off_mean)
        } else {
            (self.config.off_mean, self.config.on_mean)
        };
        if next_mean.is_zero() {
            Instant::FAR_FUTURE
        } else if self.config.fixed {
            at + mean
        } else {
            at + self.stream.exponential(mean)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn config(on: u64, off: u64, delay: u64) -> PrimaryUserConfig {
        PrimaryUserConfig {
            on_mean: MS(on),
            off_mean: MS(off),
            fixed: false,
            detection_delay: MS(delay),
            end_detection_delay: MS(delay),
        }
    }

    #[test]
    fn the_duty_cycle_converges_to_on_over_on_plus_off() {
        for (on, off) in [(200, 800), (50, 950), (500, 500), (900, 100)] {
            let mut user = PrimaryUser::new(config(on, off, 0), None, 3, 0);
            let (mut busy, mut last) = (0.0, 0.0);
            while last < 20_000.0 {
                let was_on = user.is_on();
                let at = user.next().at.as_secs_f64();
                busy += if was_on { at - last } else { 0.0 };
                last = at;
                user.step();
            }
            let expected = on as f64 / (on + off) as f64;
            assert!((busy / last - expected).abs() < 0.02, "{on}/{off}: {}", busy / last);
        }
    }

    #[test]
    fn it_starts_in_the_stationary_state() {
        let on = (0..2000)
            .filter(|&seed| PrimaryUser::new(config(200, 800, 0), None, seed, 0).is_on())
            .count() as f64;
        assert!((on / 2000.0 - 0.2).abs() < 0.03, "{on}");
    }

    #[test]
    fn detection_follows_the_burst_by_the_delay_and_misses_shorter_bursts() {
        let mut user = PrimaryUser::new(config(20, 200, 10), None, 5, 0);
        let (mut started, mut ended) = (Instant::ZERO, Instant::ZERO);
        let (mut seen, mut missed) = (0, 0);
        for _ in 0..4000 {
            let (was_on, was_detected, at) = (user.is_on(), user.is_detected(), user.next().at);
            user.step();
            match (was_on, user.is_on()) {
                (false, true) => started = at,
                (true, false) => {
                    ended = at;
                    if !was_detected {
                        missed += 1;
                        assert!(at.since(started) < MS(10));
                    }
                }
                _ => {}
            }
            if !was_detected && user.is_detected() {
                seen += 1;
                assert_eq!(at, started + MS(10));
            }
            if was_detected && !user.is_detected() {
                assert_eq!(at, ended + MS(10));
            }
        }
        assert!(seen > 100 && missed > 100, "{seen} seen, {missed} missed");
    }

    #[test]
    fn a_measured_user_is_on_and_detected_when_its_log_says_so_whatever_the_seed() {
        use crate::spectrum::bands::Band;
        use crate::spectrum::pu_log::PuLog;
        let log = b"1 0 0 1 1\n2 0 0 1 1\n1 0 1\n2 0.5 2\n1 3 3.015\n2 5 6\n";
        let log = PuLog::parse(log, None).unwrap();
        let measured = Arc::new(Occupancy::of(&log, Band::new(1).unwrap(), |_| true));
        for seed in [1, 2] {
            // The means are not looked at.
            let mut user = PrimaryUser::new(config(0, 0, 20), Some(measured.clone()), seed, 0);
            assert!(user.is_on() && user.is_detected());
            let mut seen = Vec::new();
            while user.next().at < Instant::FAR_FUTURE {
                let at = user.next().at.as_nanos() / 1_000_000;
                user.step();
                seen.push((at, user.is_on(), user.is_detected()));
            }
            // The burst of 15 ms is shorter than the detection delay.
            assert_eq!(
                seen,
                [
                    (2000, false, true),
                    (2020, false, false),
                    (3000, true, false),
                    (3015, false, false),
                    (5000, true, false),
                    (5020, true, true),
                    (6000, false, true),
                    (6020, false, false),
                ]
            );
        }
    }

    #[test]
    fn fixed_times_are_the_same_for_every_seed_and_begin_with_a_pause() {
        for seed in [1, 2] {
            let mut user =
                PrimaryUser::new(PrimaryUserConfig { fixed: true, ..config(300, 4500, 20) }, None, seed, 0);
            assert!(!user.is_on() && !user.is_detected());
            let mut changes = Vec::new();
            for _ in 0..8 {
                changes.push(user.next().at.since(Instant::ZERO).as_millis());
                user.step();
            }
            assert_eq!(changes, [4500, 4520, 4800, 4820, 9300, 9320, 9600, 9620], "seed {seed}");
        }
        let always = PrimaryUser::new(PrimaryUserConfig { fixed: true, ..config(300, 0, 20) }, None, 1, 0);
        assert!(always.is_on() && always.next().at == Instant::FAR_FUTURE);
        let never = PrimaryUser::new(PrimaryUserConfig { fixed: true, ..config(0, 300, 20) }, None, 1, 0);
        assert!(!never.is_on() && never.next().at == Instant::FAR_FUTURE);
    }

    #[test]
    fn a_user_that_never_or_always_transmits_has_no_events() {
        let never = PrimaryUser::new(config(0, 800, 0), None, 1, 0);
        assert!(!never.is_on() && never.next().at == Instant::FAR_FUTURE);
        let always = PrimaryUser::new(config(200, 0, 0), None, 1, 0);
        assert!(always.is_on() && always.is_detected() && always.next().at == Instant::FAR_FUTURE);
    }
}
