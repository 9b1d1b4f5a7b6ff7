//! When the primary user is there: energy above the threshold, until none was for T_idle.
//!
//! cr-aware, section 3: the signal comes when its transmission is detected, and again when none is detected
//! for T_idle. It sees the power of each block and emits the changes.
//!
//! ```text
//! Quiet ─ block above the threshold ─► Busy ─ T_idle without one ─► Quiet
//! ```
//!
//! The paper says "periodically overhears"; here every block is looked at. T_idle counts from the end of the
//! last block above the threshold.

/// Whether the primary user is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Quiet,
    Busy {
        /// End of the block that showed it, in samples.
        since: u64,
        /// End of the last block above the threshold, in samples.
        heard: u64,
    },
}

/// What a block changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The primary user was detected.
    Busy,
    /// It was not heard for T_idle.
    Idle {
        /// End of the block that showed it, in samples.
        since: u64,
        /// End of the last block above the threshold, in samples.
        heard: u64,
    },
}

/// Detects a primary user by the power of blocks.
#[derive(Clone, Debug)]
pub struct Detector {
    threshold: f64,
    idle: u64,
    state: State,
}

impl Detector {
    /// A detector that takes more than `threshold` for a signal, and `idle` samples without for its end.
    #[must_use]
    pub fn new(threshold: f64, idle: u64) -> Self {
        Self { threshold, idle, state: State::Quiet }
    }

    /// Whether this power is a signal's.
    #[must_use]
    pub fn is_above(&self, power: f64) -> bool {
        power > self.threshold
    }

    /// Whether the primary user is taken to be there.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy { .. })
    }

    /// The block that ended at sample `end` had this power.
    pub fn on_block(&mut self, end: u64, power: f64) -> Option<Change> {
        match (self.state, self.is_above(power)) {
            (State::Quiet, true) => {
                self.state = State::Busy { since: end, heard: end };
                Some(Change::Busy)
            }
            (State::Busy { since, .. }, true) => {
                self.state = State::Busy { since, heard: end };
                None
            }
            (State::Busy { heard, .. }, false) if end.saturating_sub(heard) >= self.idle => self.end(),
            (State::Quiet | State::Busy { .. }, false) => None,
        }
    }

    /// The input is over: nobody will hear the end of what is under way.
    pub fn end(&mut self) -> Option<Change> {
        match std::mem::replace(&mut self.state, State::Quiet) {
            State::Busy { since, heard } => Some(Change::Idle { since, heard }),
            State::Quiet => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_transmission_begins_with_a_block_and_ends_after_t_idle() {
        let mut detector = Detector::new(2.0, 30);
        for (end, power, expected) in [
            (10, 1.0, None),
            (20, 2.0, None), // the threshold itself is not above it
            (30, 2.1, Some(Change::Busy)),
            (40, 9.0, None),
            (50, 1.0, None),
            (60, 1.0, None),
            (70, 3.0, None), // heard again within T_idle: still the same
            (80, 1.0, None),
            (90, 1.0, None),
            (100, 1.0, Some(Change::Idle { since: 30, heard: 70 })),
            (110, 1.0, None),
            (120, 5.0, Some(Change::Busy)),
        ] {
            assert_eq!(detector.on_block(end, power), expected, "block that ends at {end}");
        }
        assert_eq!(detector.end(), Some(Change::Idle { since: 120, heard: 120 }));
        assert_eq!(detector.end(), None);
    }

    proptest! {
        /// Whatever is heard, a busy time begins with a block above the threshold, none ends less than T_idle
        /// after one, and changes alternate.
        #[test]
        fn changes_alternate_and_wait_for_t_idle(heard in proptest::collection::vec(any::<bool>(), 0..200), idle in 1u64..60) {
            let mut detector = Detector::new(1.0, idle);
            let mut last = None;
            let mut busy = false;
            for (index, &above) in heard.iter().enumerate() {
                let end = 10 * (index as u64 + 1);
                let change = detector.on_block(end, if above { 2.0 } else { 0.5 });
                if above { last = Some(end) }
                match change {
                    Some(Change::Busy) => { prop_assert!(above && !busy); busy = true; }
                    Some(Change::Idle { heard, .. }) => {
                        prop_assert!(busy && !above && Some(heard) == last && end - heard >= idle);
                        busy = false;
                    }
                    None => prop_assert!(busy || !above),
                }
                prop_assert_eq!(busy, detector.is_busy());
                prop_assert!(!busy || last.is_some_and(|last| end - last < idle.next_multiple_of(10)));
            }
        }
    }
}
