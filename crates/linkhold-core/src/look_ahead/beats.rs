//! Phase 1: finds the free-running timer at which the host's TCP sends its delayed ACKs.
//!
//! Source: lookahead section III, left part of figure 4. The timer is the kernel's and not a connection's, so
//! a station has one lock, which the ACKs of all its host's connections feed.
//!
//! Counting → (more than K ACKs on the beat) locked → (more than K off it) counting.
//!
//! As printed ([`Lock::Printed`]) every ACK that is not about a period after the one before it resets the
//! counter. An ACK of every second segment (RFC 5681 section 4.2), a beat without anything to acknowledge,
//! and a second connection's ACK at the same beat all do, so it locks only onto a lone connection whose every
//! ACK is the timer's, as in the paper's figure 3. Otherwise ([`Lock::Beats`], [`Lock::Learned`]) an ACK
//! counts only if a timer sent it, that is if it did not follow a segment at once, and it is compared with
//! the nearest beat.

use super::config::{Lock, LookAheadConfig};
use super::predict::Estimate;
use crate::time::{Duration, Instant};

/// While it counts, an ACK this many periods after the last beat begins anew: of a clock that is wrong by 100
/// parts in a million they are 1.3 ms at 200 ms each.
const LONGEST_GAP: u64 = 64;

#[derive(Clone, Copy, Debug)]
enum Synch {
    /// No ACK yet.
    Start,
    /// The paper's Synch Counter, and the arrival that it compares with.
    Counting { beat: Instant, counter: u32 },
    /// The timer is known. `misses` are the ACKs off the beat since one was on it.
    Locked { beat: Instant, misses: u32 },
}

/// An arrival beside the nearest beat.
#[derive(Clone, Copy, Debug)]
struct Nearest {
    /// How many periods after the last.
    periods: u64,
    beat: Instant,
    /// How far the arrival is from it.
    error: Duration,
}

/// The host's timer.
#[derive(Clone, Debug)]
pub(super) struct Beats {
    printed: bool,
    period: Duration,
    tolerance: Duration,
    k: u32,
    synch: Synch,
    errors: Estimate,
}

impl Beats {
    pub fn new(config: &LookAheadConfig) -> Self {
        Self {
            printed: config.lock == Lock::Printed,
            period: config.period,
            tolerance: config.tolerance,
            k: config.k,
            synch: Synch::Start,
            errors: Estimate::default(),
        }
    }

    pub fn forget(&mut self) {
        self.synch = Synch::Start;
        self.errors = Estimate::default();
    }

    /// A pure ACK passes. `by_timer`: it did not follow a segment at once.
    pub fn on_ack(&mut self, now: Instant, by_timer: bool) {
        if self.printed {
            self.on_any(now);
        } else if by_timer {
            self.on_timed(now);
        }
    }

    fn on_any(&mut self, now: Instant) {
        let (beat, counter) = match self.synch {
            Synch::Start => {
                self.synch = Synch::Counting { beat: now, counter: 0 };
                return;
            }
            Synch::Counting { beat, counter } => (beat, counter),
            Synch::Locked { beat, .. } => (beat, self.k),
        };
        let gap = now.since(beat);
        let error = gap.saturating_sub(self.period) + self.period.saturating_sub(gap);
        self.synch = if error > self.tolerance {
            Synch::Counting { beat: now, counter: 0 }
        } else {
            self.errors.add(error);
            self.counted(now, counter.saturating_add(1))
        };
    }

    /// The counter has gone up: the paper moves its timer to the new arrival.
    const fn counted(&self, now: Instant, counter: u32) -> Synch {
        if counter > self.k {
            Synch::Locked { beat: now, misses: 0 }
        } else {
            Synch::Counting { beat: now, counter }
        }
    }

    fn on_timed(&mut self, now: Instant) {
        self.synch = match self.synch {
            Synch::Start => Synch::Counting { beat: now, counter: 0 },
            Synch::Counting { beat, counter } => {
                let nearest = self.nearest(beat, now);
                if nearest.error > self.tolerance || nearest.periods > LONGEST_GAP {
                    Synch::Counting { beat: now, counter: 0 }
                } else if nearest.periods == 0 {
                    // Another connection's ACK at the same beat.
                    Synch::Counting { beat, counter }
                } else {
                    self.errors.add(nearest.error);
                    self.counted(now, counter + 1)
                }
            }
            Synch::Locked { beat, misses } => {
                let nearest = self.nearest(beat, now);
                if nearest.error <= self.tolerance {
                    self.errors.add(nearest.error);
                    // Half way to the arrival: it follows a clock that drifts, and halves what shakes.
                    let half = Duration::from_nanos(nearest.error.as_nanos() / 2);
                    let beat = if now < nearest.beat { nearest.beat - half } else { nearest.beat + half };
                    Synch::Locked { beat, misses: 0 }
                } else if misses >= self.k {
                    Synch::Counting { beat: now, counter: 0 }
                } else {
                    Synch::Locked { beat, misses: misses + 1 }
                }
            }
        };
    }

    fn nearest(&self, beat: Instant, now: Instant) -> Nearest {
        let period = self.period.as_nanos().max(1);
        let elapsed = now.since(beat).as_nanos();
        let periods = elapsed.saturating_add(period / 2) / period;
        let beat = beat + Duration::from_nanos(periods.saturating_mul(period));
        Nearest { periods, beat, error: now.since(beat) + beat.since(now) }
    }

    pub const fn is_locked(&self) -> bool {
        matches!(self.synch, Synch::Locked { .. })
    }

    /// The first beat after `time`; `None` unless the timer is known.
    pub fn next(&self, time: Instant) -> Option<Instant> {
        let Synch::Locked { beat, .. } = self.synch else { return None };
        if time < beat {
            return Some(beat);
        }
        let period = self.period.as_nanos().max(1);
        let periods = (time.since(beat).as_nanos() / period).saturating_add(1);
        Some(beat + Duration::from_nanos(periods.saturating_mul(period)))
    }

    /// How far ACKs usually are from their beat.
    pub const fn errors(&self) -> Duration {
        self.errors.mean()
    }
}
