//! A flow's window as its correspondent knows it: one state, and the changes that are legal.
//!
//! ```text
//! open → closed → reopening → open
//!        closed → opened early → closed (space runs low, or another silence)
//!                 opened early → reopening (a new connection on the same ports)
//!        reopening → closed
//! ```

use crate::time::Instant;

/// Window updates of ours to a sender that has not been heard since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nudge {
    /// When the next one is due.
    pub at: Option<Instant>,
    /// How many were sent.
    pub sent: u8,
}

/// What the correspondent was told of a flow's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Window {
    /// What the station offers, or the clamp's share of it.
    #[default]
    Open,
    /// A zero that the station did not send. The nudge is due ahead of the silence's expected end, or is left
    /// over from the opening before.
    Closed(Nudge),
    /// Opened ahead of the end of silence number `silence`, so not to be closed again in it.
    OpenedEarly { silence: u64, nudge: Nudge },
    /// Opened, and the sender has not been heard since.
    Reopening(Nudge),
}

impl Window {
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Openings planned and sent.
    pub fn nudge(self) -> Nudge {
        match self {
            Self::Open => Nudge::default(),
            Self::Closed(nudge) | Self::Reopening(nudge) | Self::OpenedEarly { nudge, .. } => nudge,
        }
    }

    /// The same state with another nudge. An open window has none.
    pub fn with_nudge(self, nudge: Nudge) -> Self {
        match self {
            Self::Open => Self::Open,
            Self::Closed(_) => Self::Closed(nudge),
            Self::OpenedEarly { silence, .. } => Self::OpenedEarly { silence, nudge },
            Self::Reopening(_) => Self::Reopening(nudge),
        }
    }

    /// True if it was opened ahead of the end of this silence.
    pub fn was_opened_early_in(self, silence: u64) -> bool {
        matches!(self, Self::OpenedEarly { silence: in_silence, .. } if in_silence == silence)
    }

    /// The sender is heard, or an ACK of its station passed: no further opening is needed. A closed window
    /// stays as it is.
    pub fn heard(&mut self) {
        match *self {
            Self::Open | Self::Closed(_) => {}
            Self::OpenedEarly { silence, .. } => {
                *self = Self::OpenedEarly { silence, nudge: Nudge::default() };
            }
            Self::Reopening(_) => self.transition_to(Self::Open),
        }
    }

    /// The state for a new connection on the same ports: silences of the old one do not count, openings still
    /// do.
    pub fn of_new_connection(self) -> Self {
        match self {
            Self::OpenedEarly { nudge, .. } => Self::Reopening(nudge),
            Self::Open | Self::Closed(_) | Self::Reopening(_) => self,
        }
    }

    /// Changes the state.
    ///
    /// # Panics
    /// In debug builds, if the change is not one of those at the top of this file.
    pub fn transition_to(&mut self, next: Self) {
        debug_assert!(
            matches!(
                (*self, next),
                (Self::Open | Self::Reopening(_) | Self::OpenedEarly { .. }, Self::Closed(_))
                    | (Self::Closed(_), Self::Reopening(_) | Self::OpenedEarly { .. })
                    | (Self::Reopening(_), Self::Open)
            ),
            "a window goes from {self:?} to {next:?}"
        );
        *self = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANNED: Nudge = Nudge { at: Some(Instant::FAR_FUTURE), sent: 1 };

    fn states() -> [Window; 4] {
        let early = Window::OpenedEarly { silence: 7, nudge: PLANNED };
        [Window::Open, Window::Closed(PLANNED), early, Window::Reopening(PLANNED)]
    }

    #[test]
    fn an_opening_is_repeated_until_the_sender_is_heard() {
        let heard = states().map(|mut window| {
            window.heard();
            window
        });
        let early = Window::OpenedEarly { silence: 7, nudge: Nudge::default() };
        assert_eq!(heard, [Window::Open, Window::Closed(PLANNED), early, Window::Open]);
    }

    #[test]
    fn a_window_opened_early_is_spared_in_that_silence_only_and_not_for_the_next_connection() {
        let spared = states().map(|window| window.was_opened_early_in(7));
        assert_eq!(spared, [false, false, true, false]);
        assert!(states().iter().all(|window| !window.was_opened_early_in(8)));
        let restarted = states().map(|window| window.of_new_connection().was_opened_early_in(7));
        assert_eq!(restarted, [false; 4]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a window goes from Closed")]
    fn a_closed_window_is_not_closed_again() {
        Window::Closed(PLANNED).transition_to(Window::Closed(PLANNED));
    }
}
