//! Silences at times of the wall clock, such as sensing and a satellite's reconfiguration.
//!
//! Waiting for start → silent → waiting for start. Every start is computed anew from the wall clock, so
//! starts follow a clock that NTP adjusts; where the clock was set, the next start is computed at once.
//! Within a silence only the monotonic clock counts.

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

/// Notices that the wall clock was set.
#[derive(Debug)]
pub struct WallClock {
    last: (Instant, Duration),
}

impl WallClock {
    /// What NTP slews between two looks a few seconds apart (500 ppm, ntpd's most) is far less; a clock that
    /// is set is off by more.
    const SET: Duration = Duration::from_millis(50);

    /// The wall clock shows `wall` now.
    #[must_use]
    pub fn new(now: Instant, wall: Duration) -> Self {
        Self { last: (now, wall) }
    }

    /// True if the wall clock, which shows `wall`, did not go on as time did since the last look.
    pub fn was_set(&mut self, now: Instant, wall: Duration) -> bool {
        let (then, shown) = core::mem::replace(&mut self.last, (now, wall));
        let expected = shown + now.since(then);
        wall.max(expected).saturating_sub(wall.min(expected)) > Self::SET
    }
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

    /// The wall clock was set, and shows `wall` now.
    pub fn realign(&mut self, now: Instant, wall: Duration) {
        self.next_start = self.start_after(now, wall);
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
    fn a_wall_clock_that_is_set_moves_the_next_start_at_once() {
        let mut clock = WallClock::new(Instant::ZERO, wall(Instant::ZERO));
        let now = Instant::from_millis(1_000);
        assert!(!clock.was_set(now, wall(now)));
        let slewed = wall(Instant::from_millis(7_000)) + Duration::from_millis(3);
        assert!(!clock.was_set(Instant::from_millis(7_000), slewed), "500 ppm");
        // Years on; 4.5 s into a period of 15 s.
        let set = Duration::from_millis(1_764_000_004_500);
        let now = Instant::from_millis(8_000);
        assert!(clock.was_set(now, set));
        let mut schedule = schedule();
        schedule.realign(now, set);
        assert_eq!(schedule.next_start(), Instant::from_millis(8_000 + 7_500));
        // And back.
        assert!(clock.was_set(Instant::from_millis(9_000), wall(Instant::from_millis(9_000))));
        assert!(!clock.was_set(Instant::from_millis(9_001), wall(Instant::from_millis(9_001))));
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
