//! Silences at times of the wall clock, such as sensing and a satellite's reconfiguration.
//!
//! Waiting for start → silent → waiting for start. Every start is computed anew from the wall clock, so
//! starts follow a clock that NTP adjusts. Within a silence only the monotonic clock counts.

use linkhold_core::link_event::Scope;
use linkhold_core::time::{Duration, Instant};

use super::protocol::Cause;

/// A recurring silence.
#[derive(Debug)]
pub struct Schedule {
    /// Its name, as event source.
    pub name: String,
    /// Index of the radio that falls silent.
    pub radio: usize,
    /// Whom it silences there.
    pub scope: Scope,
    /// Why.
    pub cause: Cause,
    /// From one start to the next.
    pub period: Duration,
    /// Length.
    pub duration: Duration,
    phase: Duration,
    next_start: Instant,
}

impl Schedule {
    /// A schedule whose next start is computed from `now` and the wall clock's `wall`.
    #[must_use]
    pub fn new(
        name: String,
        radio: usize,
        scope: Scope,
        cause: Cause,
        (period, duration, phase): (Duration, Duration, Duration),
        now: Instant,
        wall: Duration,
    ) -> Self {
        let mut this = Self { name, radio, scope, cause, period, duration, phase, next_start: now };
        this.next_start = this.start_after(now, wall);
        this
    }

    /// When the next silence starts.
    #[must_use]
    pub fn next_start(&self) -> Instant {
        self.next_start
    }

    /// True once for every start whose time has come; then waits for the next.
    pub fn starts(&mut self, now: Instant, wall: Duration) -> bool {
        if now < self.next_start {
            return false;
        }
        // Half a period on, so that a start that came a little early by the wall clock is not taken twice.
        let half = Duration::from_nanos(self.period.as_nanos() / 2);
        self.next_start = self.start_after(now + half, wall + half);
        true
    }

    /// First start after `now`, when the wall clock shows `wall`.
    fn start_after(&self, now: Instant, wall: Duration) -> Instant {
        let period = self.period.as_nanos().max(1);
        let into = (wall.as_nanos() % period + period - self.phase.as_nanos() % period) % period;
        now + Duration::from_nanos(period - into)
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::link_event;

    use super::*;

    /// Agent time 0 is wall-clock time 1000.3 s.
    fn wall(now: Instant) -> Duration {
        Duration::from_nanos(1_000_300_000_000 + now.as_nanos())
    }

    fn schedule() -> Schedule {
        let times = (Duration::from_secs(15), Duration::from_millis(120), Duration::from_secs(12));
        let cause = Cause(link_event::Cause::ChannelSwitch);
        Schedule::new(
            "starlink".to_owned(),
            0,
            Scope::Network,
            cause,
            times,
            Instant::ZERO,
            wall(Instant::ZERO),
        )
    }

    #[test]
    fn starts_fall_on_the_wall_clocks_phase() {
        // 1000.3 s is 10.3 s into its period of 15 s; 12 s is 1.7 s later.
        assert_eq!(schedule().next_start(), Instant::from_millis(1_700));
    }

    #[test]
    fn every_start_comes_once() {
        let mut schedule = schedule();
        let mut starts = Vec::new();
        for ms in (0..50_000).step_by(7) {
            let now = Instant::from_millis(ms);
            if schedule.starts(now, wall(now)) {
                starts.push(ms);
            }
        }
        assert_eq!(starts.len(), 4);
        assert!(
            starts.iter().zip([1_700, 16_700, 31_700, 46_700]).all(|(at, due)| (due..due + 7).contains(at))
        );
    }

    #[test]
    fn a_wall_clock_set_back_a_little_repeats_no_start() {
        let mut schedule = schedule();
        let now = Instant::from_millis(1_700);
        let late = Duration::from_nanos(wall(now).as_nanos() - 1_000_000);
        assert!(schedule.starts(now, late));
        assert!(schedule.next_start() > Instant::from_millis(16_000));
    }
}
