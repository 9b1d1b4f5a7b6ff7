//! Sensing quiet periods: a fixed schedule, network-wide or of one station.
//!
//! Source: dsasync section III-A, "Sensing interruptions" (TV bands: some 25 ms each).
//! Sees nothing but time. States: open → quiet → open.

use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};

use crate::change::{Change, ChangeKind};

/// A quiet period of `duration` starts at `phase`, `phase + period`, `phase + 2 period`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensingConfig {
    /// From one quiet period's start to the next; zero means no sensing.
    pub period: Duration,
    /// Length of a quiet period; at most `period` is used.
    pub duration: Duration,
    /// Start of the first quiet period.
    pub phase: Duration,
    /// The schedule is told at time 0 (`SensingSchedule`); each quiet period's start and end are told anyway.
    pub announced: bool,
}

/// A station's own sensing schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationSensing {
    /// The station.
    pub station: StationId,
    /// Its schedule.
    pub sensing: SensingConfig,
}

/// One schedule at work.
#[derive(Clone, Debug)]
pub(crate) struct Sensing {
    config: SensingConfig,
    next_start: Instant,
    quiet_until: Option<Instant>,
}

impl Sensing {
    /// `None` if the schedule has no quiet period.
    pub(crate) fn new(mut config: SensingConfig) -> Option<Self> {
        if config.period.is_zero() || config.duration.is_zero() {
            return None;
        }
        config.duration = config.duration.min(config.period);
        Some(Self { config, next_start: Instant::ZERO + config.phase, quiet_until: None })
    }

    pub(crate) const fn config(&self) -> &SensingConfig {
        &self.config
    }

    pub(crate) const fn is_quiet(&self) -> bool {
        self.quiet_until.is_some()
    }

    /// Start of the next quiet period that has not begun.
    pub(crate) const fn next_start(&self) -> Instant {
        self.next_start
    }

    pub(crate) fn next(&self) -> Change {
        match self.quiet_until {
            Some(at) => Change { at, kind: ChangeKind::Resume },
            None => Change { at: self.next_start, kind: ChangeKind::Stop },
        }
    }

    pub(crate) fn step(&mut self) {
        if self.quiet_until.take().is_none() {
            self.quiet_until = Some(self.next_start + self.config.duration);
            self.next_start += self.config.period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn quiet_periods_come_at_phase_plus_multiples_of_the_period() {
        let config = SensingConfig { period: MS(500), duration: MS(25), phase: MS(100), announced: true };
        let mut sensing = Sensing::new(config).unwrap();
        for expected in [100, 125, 600, 625, 1100, 1125] {
            assert_eq!(sensing.next().at, Instant::from_millis(expected));
            sensing.step();
            assert_eq!(sensing.is_quiet(), expected % 100 == 0);
        }
    }

    #[test]
    fn a_schedule_without_quiet_periods_is_none() {
        let config = SensingConfig { period: MS(500), duration: MS(0), phase: MS(0), announced: true };
        assert!(Sensing::new(config).is_none());
        assert!(Sensing::new(SensingConfig { period: MS(0), duration: MS(5), ..config }).is_none());
    }
}
