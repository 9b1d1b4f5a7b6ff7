//! The gaps of a delivery trace, one after the other.
//!
//! Sees time. States: between gaps → in a gap → between gaps.

use linkhold_core::time::{Duration, Instant};

use crate::change::{Change, ChangeKind};

/// Walks the gaps of a trace, lap after lap, shifted by a fixed delay.
#[derive(Clone, Debug)]
pub(crate) struct Gaps {
    /// (start, end) within a lap, ms.
    gaps: Vec<(u32, u32)>,
    lap: Duration,
    lap_start: Instant,
    shift: Duration,
    index: usize,
    inside: bool,
}

impl Gaps {
    pub(crate) fn new(gaps: Vec<(u32, u32)>, lap: Duration, shift: Duration) -> Self {
        Self { gaps, lap, lap_start: Instant::ZERO, shift, index: 0, inside: false }
    }

    fn time_of(&self, ms: u32) -> Instant {
        self.lap_start + Duration::from_millis(u64::from(ms)) + self.shift
    }

    /// Start of the gap it is in or that comes next, unshifted.
    pub(crate) fn start(&self) -> Instant {
        self.gaps.get(self.index).map_or(Instant::FAR_FUTURE, |gap| self.time_of(gap.0) - self.shift)
    }

    /// End of that gap, unshifted.
    pub(crate) fn end(&self) -> Instant {
        self.gaps.get(self.index).map_or(Instant::FAR_FUTURE, |gap| self.time_of(gap.1) - self.shift)
    }

    /// True between a gap's start and its end, shifted.
    pub(crate) const fn is_inside(&self) -> bool {
        self.inside
    }

    pub(crate) fn next(&self) -> Change {
        match self.gaps.get(self.index) {
            None => Change::NEVER,
            Some(gap) if self.inside => Change { at: self.time_of(gap.1), kind: ChangeKind::Resume },
            Some(gap) => Change { at: self.time_of(gap.0), kind: ChangeKind::Stop },
        }
    }

    pub(crate) fn step(&mut self) {
        if self.inside {
            self.index += 1;
            if self.index == self.gaps.len() {
                self.index = 0;
                self.lap_start += self.lap;
            }
        }
        self.inside = !self.inside;
    }
}
