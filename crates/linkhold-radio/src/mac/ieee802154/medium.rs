//! The medium as its radios share it: who transmits over whom, and what a look at it finds.
//!
//! Sees starts and ends of transmissions and of the primary user's bursts. All radios of the cell hear each
//! other, and none has a signal strong enough to be read under another: two transmissions that overlap are
//! both lost, wherever they go to.

use linkhold_core::time::Instant;

/// Transmissions on the air and the last of those before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Medium {
    on_air: u32,
    /// When a transmission ended last.
    ended_at: Instant,
    /// When a transmission started last while another was on the air.
    overlapped_at: Option<Instant>,
}

impl Medium {
    /// A transmission starts.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.on_air > 0 {
            self.overlapped_at = Some(now);
        }
        self.on_air += 1;
    }

    /// The transmission that started at `since` ends. True if it had the air for itself.
    pub(crate) fn end(&mut self, now: Instant, since: Instant) -> bool {
        debug_assert!(self.on_air > 0, "a transmission ends once");
        self.on_air -= 1;
        self.ended_at = now;
        self.overlapped_at.is_none_or(|at| at < since)
    }

    /// Whether somebody transmitted at some time between `since` and now.
    pub(crate) fn was_busy(&self, since: Instant) -> bool {
        self.on_air > 0 || self.ended_at > since
    }
}

/// The primary user as a radio that hears it does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct User {
    on: bool,
    off_since: Instant,
}

impl User {
    /// It transmits from now on, or no longer.
    pub(crate) fn turn(&mut self, now: Instant, on: bool) {
        if self.on && !on {
            self.off_since = now;
        }
        self.on = on;
    }

    /// Whether it transmitted at some time between `since` and now.
    pub(crate) fn was_on(&self, since: Instant) -> bool {
        self.on || self.off_since > since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    #[test]
    fn what_overlaps_is_lost_and_what_only_touches_is_not() {
        let mut medium = Medium::default();
        medium.start(MS(0));
        assert!(medium.end(MS(4), MS(0)));
        medium.start(MS(4));
        medium.start(MS(6));
        assert!(!medium.end(MS(8), MS(4)));
        assert!(!medium.end(MS(10), MS(6)));
        medium.start(MS(10));
        assert!(medium.end(MS(12), MS(10)));
        // Two that start at one instant.
        medium.start(MS(20));
        medium.start(MS(20));
        assert!(!medium.end(MS(24), MS(20)));
        assert!(!medium.end(MS(24), MS(20)));
    }

    #[test]
    fn a_look_covers_its_whole_window() {
        let mut medium = Medium::default();
        assert!(!medium.was_busy(MS(0)));
        medium.start(MS(1));
        assert!(medium.was_busy(MS(1)));
        medium.end(MS(5), MS(1));
        assert!(medium.was_busy(MS(4)) && !medium.was_busy(MS(5)));
        let mut user = User::default();
        assert!(!user.was_on(MS(0)));
        user.turn(MS(2), true);
        assert!(user.was_on(MS(2)));
        user.turn(MS(3), false);
        user.turn(MS(4), false);
        assert!(user.was_on(MS(2)) && !user.was_on(MS(3)));
    }
}
