//! A sensing schedule that was announced.
//!
//! Source: `dsasync` section IV-A, parameters 1 to 4 (f and t of sensing).

use super::parameters::{Frequency, Provenance, Recurrence};
use crate::time::{Duration, Instant};

/// An announced sensing schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) period: Duration,
    pub(crate) duration: Duration,
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
}
