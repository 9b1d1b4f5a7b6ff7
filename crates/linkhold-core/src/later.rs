//! Silences that begin or end later, for a mechanism that keeps no [`LinkMonitor`](crate::link_monitor).
//!
//! Of one scope and cause [`MOST_AHEAD`] beginnings are kept, as the link monitor keeps them: those that
//! overlap are one silence, of which the newer word counts. Ends are kept likewise, one after each beginning.
//! The table is bounded: what finds no place counts at once, so that a silence begins too early and not
//! never.

use crate::link_event::{LinkEvent, LinkEventKind};
use crate::link_monitor::{MOST_AHEAD, is_told_twice};
use crate::time::Instant;

/// Most events that are kept.
const MOST: usize = 64;

/// Events whose time is still to come.
#[derive(Debug, Default)]
pub(crate) struct Later {
    events: Vec<(Instant, LinkEvent)>,
}

/// True if both begin, or both end, silences of one scope and cause.
fn is_same(one: &LinkEventKind, other: &LinkEventKind) -> bool {
    match (one, other) {
        (
            LinkEventKind::FreezeStarted { scope, cause, .. },
            LinkEventKind::FreezeStarted { scope: other, cause: of, .. },
        )
        | (
            LinkEventKind::FreezeEnded { scope, cause },
            LinkEventKind::FreezeEnded { scope: other, cause: of },
        ) => (scope, cause) == (other, of),
        _ => false,
    }
}

/// When a silence that begins at `start` is expected to end.
fn end_of(start: Instant, kind: &LinkEventKind) -> Option<Instant> {
    match kind {
        LinkEventKind::FreezeStarted { expected, .. } => expected.map(|length| start + length),
        _ => None,
    }
}

/// True if what takes effect at `at` is what was announced, told once more, as the link monitor decides it:
/// of silences those that overlap are one ([`is_told_twice`]).
fn is_told_again(
    (at, event): (Instant, &LinkEventKind),
    (announced, kind): (Instant, &LinkEventKind),
) -> bool {
    is_same(event, kind)
        && (!matches!(event, LinkEventKind::FreezeStarted { .. })
            || is_told_twice((at, end_of(at, event)), (announced, end_of(announced, kind))))
}

impl Later {
    /// Keeps a silence's beginning or end that takes effect after `now`. False for everything else, which
    /// counts at once.
    pub fn keep(&mut self, now: Instant, event: &LinkEvent) -> bool {
        let is_silences =
            matches!(event.kind, LinkEventKind::FreezeStarted { .. } | LinkEventKind::FreezeEnded { .. });
        let Some(at) = event.effective_at.filter(|at| is_silences && *at > now) else {
            if matches!(event.kind, LinkEventKind::FreezeEnded { .. }) {
                if let Some(index) = self.place_of(now, &event.kind) {
                    self.events.remove(index);
                }
            } else {
                self.events.retain(|(at, known)| !is_told_again((now, &event.kind), (*at, &known.kind)));
            }
            return false;
        };
        if let Some(index) = self.place_of(at, &event.kind) {
            self.events[index] = (at, *event);
        } else if self.events.len() < MOST {
            self.events.push((at, *event));
        } else {
            return false;
        }
        true
    }

    /// Where the event is kept already, or, of too many, the one whose place it takes.
    fn place_of(&self, at: Instant, kind: &LinkEventKind) -> Option<usize> {
        let same = |(_, known): &(Instant, LinkEvent)| is_same(&known.kind, kind);
        if let LinkEventKind::FreezeEnded { scope, cause } = *kind {
            // A beginning between two ends makes them the ends of two silences.
            let start = LinkEventKind::FreezeStarted { scope, cause, expected: None };
            let begins = |from: Instant, to: Instant| {
                let mut starts = self.events.iter().filter(|(_, known)| is_same(&known.kind, &start));
                starts.any(|(begun, _)| from <= *begun && *begun < to)
            };
            return self
                .events
                .iter()
                .position(|known| same(known) && !begins(known.0.min(at), known.0.max(at)));
        }
        let again = self
            .events
            .iter()
            .position(|(known_at, known)| is_told_again((at, kind), (*known_at, &known.kind)));
        again.or_else(|| {
            let kept = || self.events.iter().enumerate().filter(|(_, known)| same(known));
            let last = kept().max_by_key(|(_, (known_at, _))| *known_at);
            last.filter(|_| kept().count() >= MOST_AHEAD).map(|(index, _)| index)
        })
    }

    /// Calls off the first announced silence that this end may be of, and its own end; for an end of no
    /// silence that is under way.
    pub fn withdraw(&mut self, end: &LinkEventKind) {
        let LinkEventKind::FreezeEnded { scope, cause } = *end else { return };
        let start = LinkEventKind::FreezeStarted { scope, cause, expected: None };
        let first = |events: &[(Instant, LinkEvent)], kind: &LinkEventKind| {
            let of_kind = events.iter().enumerate().filter(|(_, (_, known))| is_same(&known.kind, kind));
            of_kind.map(|(index, (at, _))| (*at, index)).min()
        };
        let Some((_, index)) = first(&self.events, &start) else { return };
        self.events.remove(index);
        let next = first(&self.events, &start).map(|(at, _)| at);
        if let Some((at, index)) = first(&self.events, end)
            && next.is_none_or(|next| at <= next)
        {
            self.events.remove(index);
        }
    }

    /// Takes out the first event whose time has come.
    pub fn due(&mut self, now: Instant) -> Option<LinkEvent> {
        let (index, (at, _)) = self.events.iter().enumerate().min_by_key(|(_, (at, _))| *at)?;
        (*at <= now).then(|| self.events.remove(index).1)
    }

    /// When the next one comes.
    pub fn next(&self) -> Option<Instant> {
        self.events.iter().map(|(at, _)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_event::{Cause, Scope};
    use crate::time::Duration;

    const SCOPE: Scope = Scope::Network;
    const CAUSE: Cause = Cause::PrimaryUser;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn start(ms: u64, length: Option<u64>) -> LinkEvent {
        let expected = length.map(Duration::from_millis);
        let kind = LinkEventKind::FreezeStarted { scope: SCOPE, cause: CAUSE, expected };
        LinkEvent { detected_at: at(0), effective_at: Some(at(ms)), kind }
    }

    fn end(ms: u64) -> LinkEvent {
        let kind = LinkEventKind::FreezeEnded { scope: SCOPE, cause: CAUSE };
        LinkEvent { detected_at: at(0), effective_at: Some(at(ms)), kind }
    }

    /// What takes effect, and when, ms.
    fn all(later: &mut Later) -> Vec<(bool, u64)> {
        let mut found = Vec::new();
        while let Some(next) = later.next() {
            let event = later.due(next).expect("its time has come");
            let begins = matches!(event.kind, LinkEventKind::FreezeStarted { .. });
            found.push((begins, next.since(Instant::ZERO).as_millis()));
        }
        found
    }

    #[test]
    fn silences_that_do_not_overlap_are_kept_each_and_one_told_again_moves() {
        let mut later = Later::default();
        assert!(later.keep(at(0), &start(500, Some(200))) && later.keep(at(0), &start(1200, Some(200))));
        assert!(later.keep(at(100), &start(600, Some(200))), "the first, a little later");
        assert_eq!(all(&mut later), [(true, 600), (true, 1200)]);
    }

    #[test]
    fn one_whose_length_nobody_tells_is_followed_by_no_other() {
        let mut later = Later::default();
        assert!(later.keep(at(0), &start(500, None)) && later.keep(at(0), &start(1200, Some(200))));
        assert_eq!(all(&mut later), [(true, 1200)]);
    }

    #[test]
    fn too_many_announcements_take_the_place_of_the_last() {
        let mut later = Later::default();
        for ms in (1..=MOST_AHEAD as u64 + 2).map(|number| 1000 * number) {
            assert!(later.keep(at(0), &start(ms, Some(10))));
        }
        let starts: Vec<u64> = all(&mut later).into_iter().map(|(_, ms)| ms).collect();
        assert_eq!(starts, [1000, 2000, 3000, 6000]);
    }

    #[test]
    fn each_silence_has_an_end_of_its_own() {
        let mut later = Later::default();
        for event in [start(500, Some(200)), end(650), start(1200, Some(200)), end(1450), end(1500)] {
            assert!(later.keep(at(0), &event));
        }
        assert_eq!(all(&mut later), [(true, 500), (false, 650), (true, 1200), (false, 1500)]);
    }

    #[test]
    fn an_end_calls_off_the_first_silence_with_its_end_and_no_other() {
        let mut later = Later::default();
        for event in [start(500, Some(200)), end(700), start(1200, Some(200)), end(1400)] {
            later.keep(at(0), &event);
        }
        later.withdraw(&end(0).kind);
        assert_eq!(all(&mut later), [(true, 1200), (false, 1400)]);
    }

    #[test]
    fn an_end_at_once_takes_only_the_end_that_was_announced_for_the_same_silence() {
        let mut later = Later::default();
        for event in [end(700), start(1200, Some(200)), end(1400)] {
            later.keep(at(0), &event);
        }
        assert!(!later.keep(at(600), &end(600)), "it counts at once");
        assert_eq!(all(&mut later), [(true, 1200), (false, 1400)]);
    }
}
