//! A schedule of quiet periods that was announced (sensing; a satellite's reconfiguration), and whether the
//! radio keeps to it.
//!
//! Source: `dsasync` section IV-A, parameters 1 to 4 (f and t of sensing).

use super::parameters::{Frequency, Provenance, Recurrence};
use crate::time::{Duration, Instant};

/// A quiet period came when it was due if it began this part of its length earlier or later at most.
const PUNCTUAL: u64 = 4;

/// A schedule is believed for so many periods after the latest quiet period that came when it was due. A
/// primary user may keep the radio from one or two.
const BELIEVED: u64 = 3;

/// An announced sensing schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) period: Duration,
    pub(crate) duration: Duration,
    /// Start of the first quiet period, or of the latest one that came when it was due.
    pub(crate) next: Instant,
}

impl Schedule {
    /// The first quiet period that starts after `now`.
    pub(crate) fn next_after(&self, now: Instant) -> Option<(Instant, Duration)> {
        let start = if self.next > now {
            self.next
        } else {
            let periods = now.since(self.next).as_nanos().checked_div(self.period.as_nanos())?;
            let ahead = self.period.as_nanos().checked_mul(periods.checked_add(1)?)?;
            self.next + Duration::from_nanos(ahead)
        };
        Some((start, self.duration))
    }

    /// A quiet period has begun. If it is one of the schedule, the schedule goes on from it: so a clock that
    /// is not the radio's may go a little wrong.
    pub(crate) fn came(&mut self, at: Instant) {
        let after = at.since(self.next).as_nanos().checked_rem(self.period.as_nanos()).unwrap_or(0);
        let off = if at < self.next {
            self.next.since(at).as_nanos()
        } else {
            after.min(self.period.as_nanos() - after)
        };
        if off <= self.duration.as_nanos() / PUNCTUAL {
            self.next = at;
        }
    }

    /// True if quiet periods came when they were due, or none was due yet.
    fn is_believed(&self, now: Instant) -> bool {
        now.since(self.next).as_nanos() <= self.period.as_nanos().saturating_mul(BELIEVED)
    }

    /// How much of the time from `now` on, of this length, quiet periods take.
    pub(crate) fn silent_within(&self, now: Instant, length: Duration) -> Duration {
        if !self.is_believed(now) {
            return Duration::ZERO;
        }
        let (period, quiet) = (self.period.as_nanos(), self.duration.min(self.period).as_nanos());
        let quiet_until = |at: Instant| {
            let passed = at.since(self.next).as_nanos();
            let periods = passed.checked_div(period)?;
            Some(periods * quiet + (passed - periods * period).min(quiet))
        };
        let both = quiet_until(now).zip(quiet_until(now + length));
        both.map_or(Duration::ZERO, |(before, after)| Duration::from_nanos(after - before))
    }

    /// End of the quiet period that lasts at `now`.
    pub(crate) fn quiet_until(&self, now: Instant) -> Option<Instant> {
        if now < self.next || !self.is_believed(now) {
            return None;
        }
        let into = now.since(self.next).as_nanos().checked_rem(self.period.as_nanos())?;
        let left = self.duration.as_nanos().checked_sub(into).filter(|left| *left > 0)?;
        Some(now + Duration::from_nanos(left))
    }

    pub(crate) fn recurrence(&self) -> Recurrence {
        Recurrence {
            frequency: Frequency(1.0 / self.period.as_secs_f64()),
            duration: self.duration,
            provenance: Provenance::Announced,
        }
    }

    /// Share of time it takes.
    pub(crate) fn share(&self) -> f64 {
        (self.duration.as_secs_f64() / self.period.as_secs_f64()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_tells_the_next_quiet_period_for_ever() {
        let schedule = Schedule {
            period: Duration::from_millis(500),
            duration: Duration::from_millis(25),
            next: Instant::from_millis(100),
        };
        for (now, next) in [(0, 100), (99, 100), (100, 600), (599, 600), (10_000, 10_100)] {
            let found = schedule.next_after(Instant::from_millis(now)).map(|(at, _)| at);
            assert_eq!(found, Some(Instant::from_millis(next)), "at {now} ms");
        }
        assert!((schedule.share() - 0.05).abs() < 1e-12);
    }

    const MS: fn(u64) -> Instant = Instant::from_millis;

    fn schedule(period: u64, duration: u64, next: u64) -> Schedule {
        let (period, duration) = (Duration::from_millis(period), Duration::from_millis(duration));
        Schedule { period, duration, next: MS(next) }
    }

    /// What [`Schedule::silent_within`] computes, counted millisecond by millisecond.
    #[test]
    fn the_quiet_time_ahead_is_that_of_every_quiet_period_in_it() {
        for (period, duration) in [(500, 25), (40, 10), (30, 30), (20, 50), (1000, 0)] {
            let schedule = schedule(period, duration, 100);
            let is_quiet = |at: u64| at >= 100 && (at - 100) % period < duration;
            for now in (0..100 + 3 * period).step_by(7) {
                assert_eq!(schedule.quiet_until(MS(now)).is_some(), is_quiet(now), "{schedule:?} at {now}");
                for length in [0, 1, 24, 100, 2000] {
                    let quiet = (now..now + length).filter(|&at| is_quiet(at)).count() as u64;
                    let found = schedule.silent_within(MS(now), Duration::from_millis(length));
                    assert_eq!(found, Duration::from_millis(quiet), "{schedule:?}, {length} ms from {now}");
                }
            }
        }
        assert_eq!(schedule(500, 25, 100).quiet_until(MS(610)), Some(MS(625)));
    }

    #[test]
    fn a_schedule_counts_while_its_quiet_periods_come_when_they_are_due() {
        let second = Duration::from_secs(1);
        let mut kept = schedule(500, 25, 100);
        let mut broken = kept;
        for turn in 0..20 {
            // A clock that is 1 ms a period fast: 20 ms in all.
            kept.came(MS(100 + 501 * turn));
            assert_eq!(kept.next, MS(100 + 501 * turn));
            // Sensing at other times than announced.
            broken.came(MS(200 + 500 * turn));
            assert_eq!(broken.next, MS(100));
        }
        let now = MS(100 + 501 * 19 + 400);
        assert_eq!(kept.silent_within(now, second), Duration::from_millis(50));
        assert_eq!((broken.silent_within(now, second), broken.quiet_until(now)), (Duration::ZERO, None));
        // What comes when it is due again counts again, a little early, too.
        broken.came(MS(10_096));
        assert_eq!(broken.quiet_until(MS(10_100)), Some(MS(10_121)));
        // The first one may be early; a schedule of no period, which nobody can announce, does no harm.
        let mut first = schedule(500, 25, 100);
        first.came(MS(95));
        assert_eq!(first.next, MS(95));
        let mut none = schedule(0, 25, 100);
        none.came(MS(300));
        assert_eq!((none.silent_within(MS(300), second), none.quiet_until(MS(300))), (Duration::ZERO, None));
    }
}
