//! p_s that changes in a run: the paper's future work asks what look-ahead does then (lookahead, section V).

use linkhold_core::time::Instant;
use linkhold_core::units::Fraction;

/// Most changes in a run: few enough that a MAC's settings stay cheap to copy.
pub const MOST_SUCCESS_CHANGES: usize = 8;

/// From a time on, p_s has another value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessChange {
    /// When: requests whose uplink subframe ends now or later.
    pub at: Instant,
    /// The value from then on.
    pub success: Fraction,
}

/// The changes of a run, in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessChanges {
    /// From the front on; [`NONE`] behind the last.
    changes: [SuccessChange; MOST_SUCCESS_CHANGES],
}

/// No change: with a chance of zero no request would ever be received.
const NONE: SuccessChange = SuccessChange { at: Instant::ZERO, success: Fraction::ZERO };

impl Default for SuccessChanges {
    fn default() -> Self {
        Self { changes: [NONE; MOST_SUCCESS_CHANGES] }
    }
}

impl SuccessChanges {
    /// Adds a change, and says whether it could: the list is not full, the change comes after the others, and
    /// requests still can be received.
    pub fn push(&mut self, change: SuccessChange) -> bool {
        let later = self.iter().last().is_none_or(|last| last.at < change.at);
        match self.changes.iter_mut().find(|place| **place == NONE) {
            Some(place) if later && change.success > Fraction::ZERO => {
                *place = change;
                true
            }
            _ => false,
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &SuccessChange> {
        self.changes.iter().take_while(|change| **change != NONE)
    }

    /// The value that the last change before `now`, or at `now`, has set; `None` before the first.
    #[must_use]
    pub fn at(&self, now: Instant) -> Option<Fraction> {
        self.iter().take_while(|change| change.at <= now).last().map(|change| change.success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_before_counts_and_what_cannot_be_is_refused() {
        let change =
            |ms, success| SuccessChange { at: Instant::from_millis(ms), success: Fraction::clamped(success) };
        let mut changes = SuccessChanges::default();
        assert!(changes.push(change(10, 0.5)) && changes.push(change(20, 1.0)));
        assert!(!changes.push(change(20, 0.3)), "there is one at that time");
        assert!(!changes.push(change(19, 0.3)), "it comes before the last");
        assert!(!changes.push(change(30, 0.0)), "no request would ever be received");
        let at = |ms| changes.at(Instant::from_millis(ms)).map(|success| success.get());
        assert_eq!(
            (at(9), at(10), at(19), at(20), at(99)),
            (None, Some(0.5), Some(0.5), Some(1.0), Some(1.0))
        );
        for ms in 30..36 {
            assert!(changes.push(change(ms, 0.1)));
        }
        assert_eq!(changes.iter().count(), MOST_SUCCESS_CHANGES);
        assert!(!changes.push(change(50, 0.1)), "it is full");
    }
}
