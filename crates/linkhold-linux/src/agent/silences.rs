//! Silences under way: the agent ends those that say how long they last, and those that nobody ends.
//!
//! The mechanism itself follows freezes by scope and cause; this table only knows when each must be over.

use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::time::{Duration, Instant};

/// Most silences under way at once (scopes times causes): more are refused.
const MAX_ACTIVE: usize = 1024;

/// One silence under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Active {
    scope: Scope,
    cause: Cause,
    /// When it takes or took effect.
    from: Instant,
    /// When the agent ends the silence. `asked_for` tells whether its source asked for that end.
    until: Instant,
    asked_for: bool,
}

/// What became of silences. `begun` is the sum of the others and of what is in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SilenceCounts {
    /// Begun or announced, each cause and scope by itself. One that is told again is the same one.
    pub begun: u64,
    /// Ended by an event.
    pub ended: u64,
    /// Ended by the agent at the time that its source asked for.
    pub timed: u64,
    /// Ended by the agent because nobody else did.
    pub overdue: u64,
}

/// The table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_ACTIVE} silences are under way already")]
pub struct TooManySilences;

/// Silences under way.
#[derive(Debug)]
pub struct SilenceTable {
    active: Vec<Active>,
    max: Duration,
    counts: SilenceCounts,
}

impl SilenceTable {
    /// A table without silences. A silence that nobody ends is over after `max`.
    #[must_use]
    pub fn new(max: Duration) -> Self {
        Self { active: Vec::new(), max, counts: SilenceCounts::default() }
    }

    /// A silence begins at `from`, or its source says so again. It lasts `lasting` if the source knows that
    /// for sure.
    ///
    /// # Errors
    /// [`TooManySilences`].
    pub fn begin(
        &mut self,
        scope: Scope,
        cause: Cause,
        from: Instant,
        lasting: Option<Duration>,
    ) -> Result<(), TooManySilences> {
        let (until, asked_for) = match lasting {
            Some(lasting) if lasting <= self.max => (from + lasting, true),
            Some(_) | None => (from + self.max, false),
        };
        let full = self.active.len() >= MAX_ACTIVE;
        match self.active.iter_mut().find(|active| active.scope == scope && active.cause == cause) {
            Some(active) => {
                active.from = active.from.min(from);
                active.until = until;
                active.asked_for = asked_for;
            }
            None if full => return Err(TooManySilences),
            None => {
                self.counts.begun += 1;
                self.active.push(Active { scope, cause, from, until, asked_for });
            }
        }
        Ok(())
    }

    /// The source ends a silence now, or at a later time `at`, which counts only if it is no later than the
    /// end that is planned. True if there was a silence to end; a source may well end it twice.
    pub fn end(&mut self, scope: Scope, cause: Cause, now: Instant, at: Instant) -> bool {
        let concerned = |active: &Active| active.scope == scope && active.cause == cause;
        if at <= now {
            let before = self.active.len();
            self.active.retain(|active| !concerned(active));
            let ended = before - self.active.len();
            self.counts.ended += ended as u64;
            ended > 0
        } else if let Some(active) = self.active.iter_mut().find(|active| concerned(active))
            && at <= active.until
        {
            active.until = at;
            active.asked_for = true;
            true
        } else {
            false
        }
    }

    /// When the next one must be ended.
    #[must_use]
    pub fn next_end(&self) -> Option<Instant> {
        self.active.iter().map(|active| active.until).min()
    }

    /// Ends one silence whose time has come; call it until it returns `None`.
    pub fn end_due(&mut self, now: Instant) -> Option<LinkEvent> {
        let index = self.active.iter().position(|active| active.until <= now)?;
        let Active { scope, cause, from, until, asked_for } = self.active.remove(index);
        if asked_for {
            self.counts.timed += 1;
        } else {
            self.counts.overdue += 1;
            let lasted = now.since(from);
            tracing::warn!(?scope, ?cause, %lasted, "nobody ended this silence: over by `silence.max`");
        }
        let kind = LinkEventKind::FreezeEnded { scope, cause };
        Some(LinkEvent { detected_at: now, effective_at: Some(until), kind })
    }

    /// How many are under way now, without those announced for later.
    #[must_use]
    pub fn under_way(&self, now: Instant) -> usize {
        self.active.iter().filter(|active| active.from <= now).count()
    }

    /// The causes of all in the table.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        self.active.iter().map(|active| active.cause).collect()
    }

    /// How many are announced for later.
    #[must_use]
    pub fn announced(&self, now: Instant) -> usize {
        self.active.iter().filter(|active| active.from > now).count()
    }

    /// What became of them so far.
    #[must_use]
    pub fn counts(&self) -> SilenceCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::StationId;

    use super::*;

    const NET: Scope = Scope::Network;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_silence_with_a_length_ends_by_itself_and_is_not_overdue() {
        let mut silences = SilenceTable::new(Duration::from_secs(10));
        silences.begin(NET, Cause::Sensing, at(100), Some(Duration::from_millis(25))).unwrap();
        assert_eq!(silences.next_end(), Some(at(125)));
        assert_eq!(silences.end_due(at(124)), None);
        let event = silences.end_due(at(126)).unwrap();
        assert_eq!((event.detected_at, event.effective_at), (at(126), Some(at(125))));
        assert_eq!(silences.counts().overdue, 0);
        assert_eq!(silences.under_way(at(126)), 0);
    }

    #[test]
    fn a_silence_that_nobody_ends_is_over_at_the_maximum() {
        let mut silences = SilenceTable::new(Duration::from_millis(500));
        silences.begin(NET, Cause::Fade, at(0), None).unwrap();
        silences.begin(NET, Cause::Grant, at(0), Some(Duration::from_secs(3_600))).unwrap();
        assert!(silences.end_due(at(499)).is_none());
        assert!(silences.end_due(at(500)).is_some() && silences.end_due(at(500)).is_some());
        assert_eq!(silences.counts().overdue, 2);
    }

    #[test]
    fn ending_concerns_one_scope_and_cause() {
        let one = Scope::Station(StationId(1));
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        for (scope, cause) in [(NET, Cause::Fade), (one, Cause::Fade), (NET, Cause::Sensing)] {
            silences.begin(scope, cause, at(0), None).unwrap();
        }
        silences.end(NET, Cause::Fade, at(5), at(5));
        silences.end(NET, Cause::Grant, at(5), at(5));
        assert_eq!(silences.under_way(at(5)), 2);
    }

    #[test]
    fn an_end_announced_for_later_ends_it_then_and_never_after_the_maximum() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        silences.begin(NET, Cause::Fade, at(0), None).unwrap();
        silences.begin(NET, Cause::Grant, at(0), None).unwrap();
        silences.end(NET, Cause::Fade, at(100), at(300));
        silences.end(NET, Cause::Grant, at(100), Instant::from_millis(86_400_000));
        assert_eq!(silences.next_end(), Some(at(300)));
        assert!(silences.end_due(at(300)).is_some());
        assert_eq!((silences.next_end(), silences.counts().overdue), (Some(at(1000)), 0));
        assert!(silences.end_due(at(1000)).is_some());
        assert_eq!(silences.counts().overdue, 1);
    }

    #[test]
    fn a_silence_announced_for_later_is_not_under_way_yet() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        silences.begin(NET, Cause::Fade, at(500), Some(Duration::from_millis(100))).unwrap();
        assert_eq!([at(499), at(500)].map(|now| silences.under_way(now)), [0, 1]);
        assert_eq!(silences.next_end(), Some(at(600)));
    }

    #[test]
    fn said_again_it_is_one_silence_with_a_later_end() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        silences.begin(NET, Cause::Fade, at(0), None).unwrap();
        silences.begin(NET, Cause::Fade, at(900), None).unwrap();
        assert_eq!((silences.under_way(at(900)), silences.next_end()), (1, Some(at(1900))));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        for number in 0..MAX_ACTIVE as u32 {
            silences.begin(Scope::Station(StationId(number)), Cause::Fade, at(0), None).unwrap();
        }
        assert_eq!(silences.begin(NET, Cause::Fade, at(0), None), Err(TooManySilences));
    }

    #[test]
    fn every_silence_is_counted_once_and_by_how_it_ended() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        let timed = Some(Duration::from_millis(50));
        silences.begin(NET, Cause::Sensing, at(0), timed).unwrap();
        silences.begin(NET, Cause::Sensing, at(10), timed).unwrap();
        silences.begin(NET, Cause::Fade, at(0), None).unwrap();
        silences.begin(NET, Cause::Grant, at(0), None).unwrap();
        silences.begin(NET, Cause::PrimaryUser, at(5_000), timed).unwrap();
        assert!(silences.end(NET, Cause::Fade, at(20), at(20)));
        assert!(!silences.end(NET, Cause::Fade, at(21), at(21)), "over already");
        while silences.end_due(at(2_000)).is_some() {}
        let counts = silences.counts();
        assert_eq!(counts, SilenceCounts { begun: 4, ended: 1, timed: 1, overdue: 1 });
        assert_eq!((silences.under_way(at(2_000)), silences.announced(at(2_000))), (0, 1));
    }
}
