//! Silences that begin or end later, for a mechanism that keeps no [`LinkMonitor`](crate::link_monitor).
//!
//! Of one scope and cause one beginning and one end are kept; told again, the newer word counts. The table is
//! bounded: what finds no place counts at once, so that a silence begins too early and not never.

use crate::link_event::{LinkEvent, LinkEventKind};
use crate::link_monitor::is_told_twice;
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

/// True if what counts at once is what was announced for later, as the link monitor decides it: of silences
/// those that overlap are one ([`is_told_twice`]), and an end leaves no end to come.
fn is_told_again(now: Instant, event: &LinkEventKind, at: Instant, announced: &LinkEventKind) -> bool {
    let end = |start: Instant, kind: &LinkEventKind| match kind {
        LinkEventKind::FreezeStarted { expected, .. } => expected.map(|length| start + length),
        _ => None,
    };
    is_same(event, announced)
        && (!matches!(event, LinkEventKind::FreezeStarted { .. })
            || is_told_twice((now, end(now, event)), (at, end(at, announced))))
}

impl Later {
    /// Keeps a silence's beginning or end that takes effect after `now`. False for everything else, which
    /// counts at once.
    pub fn keep(&mut self, now: Instant, event: &LinkEvent) -> bool {
        let is_silences =
            matches!(event.kind, LinkEventKind::FreezeStarted { .. } | LinkEventKind::FreezeEnded { .. });
        let Some(at) = event.effective_at.filter(|at| is_silences && *at > now) else {
            self.events.retain(|(at, known)| !is_told_again(now, &event.kind, *at, &known.kind));
            return false;
        };
        if let Some(known) = self.events.iter_mut().find(|(_, known)| is_same(&known.kind, &event.kind)) {
            *known = (at, *event);
        } else if self.events.len() < MOST {
            self.events.push((at, *event));
        } else {
            return false;
        }
        true
    }

    /// Calls off the announced silence that this end is of; for an end of no silence that is under way.
    pub fn withdraw(&mut self, end: &LinkEventKind) {
        let LinkEventKind::FreezeEnded { scope, cause } = *end else { return };
        let start = LinkEventKind::FreezeStarted { scope, cause, expected: None };
        self.events.retain(|(_, known)| !is_same(&known.kind, &start));
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
