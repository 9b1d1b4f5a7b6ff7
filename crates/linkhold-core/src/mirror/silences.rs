//! The silences of a host and of its network as those of one scope, which is all that a turned mechanism
//! knows.
//!
//! While only one of the two has a silence of a cause, under way or announced, what is told of it goes on as
//! it is. While both have, it is decided here when their common silence begins and ends, and the mechanism is
//! told that as it happens: it would take the end of the one for the end of both, and could not call the one
//! off while the other lasts. Which announcement is which is decided by the link monitor's own [`FreezeSet`].
//!
//! Of a cause: of one (all goes on) → mixed (both have some) → of one, once no silence lasts and one of them
//! has nothing announced: then the mechanism's announcements are called off, and told anew.
//!
//! What was announced before both had some stays with the mechanism while a silence lasts, though the one
//! that announced it may have put something else in its place. So what the mechanism was told is kept as
//! well, and the silence is told again before anything that the mechanism plans by it.

use crate::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use crate::link_monitor::{Announced, FreezeSet, MOST_AHEAD};
use crate::time::{Duration, Instant};

/// Nobody but their sources ends silences here.
const NO_LIMIT: Duration = Duration::from_nanos(u64::MAX);

/// The silences of the host and of its network.
pub(super) struct BothSilences {
    network: FreezeSet,
    own: FreezeSet,
    /// What the mechanism was told.
    told: FreezeSet,
    /// A bit for each cause that is mixed.
    mixed: u8,
}

/// A silence of the cause is under way or announced.
fn has(set: &FreezeSet, cause: Cause) -> bool {
    set.is_active(cause) || !set.ahead(cause).is_empty()
}

const fn started(cause: Cause, expected: Option<Duration>) -> LinkEventKind {
    LinkEventKind::FreezeStarted { scope: Scope::Network, cause, expected }
}

const fn ended(cause: Cause) -> LinkEventKind {
    LinkEventKind::FreezeEnded { scope: Scope::Network, cause }
}

const fn later(now: Instant, at: Instant, kind: LinkEventKind) -> LinkEvent {
    LinkEvent { detected_at: now, effective_at: Some(at), kind }
}

/// The mechanism, which is not silent for this cause, is to forget what was announced.
fn call_off(now: Instant, cause: Cause, mut tell: impl FnMut(LinkEvent)) {
    // An end before any of them begins, and after the last silence, is of none but the first that is
    // announced.
    let at = now + Duration::from_nanos(1);
    for _ in 0..MOST_AHEAD {
        tell(later(now, at, ended(cause)));
    }
}

impl BothSilences {
    pub fn new() -> Self {
        let [network, own, told] = core::array::from_fn(|_| FreezeSet::new(1, NO_LIMIT));
        Self { network, own, told, mixed: 0 }
    }

    fn both(&self) -> [&FreezeSet; 2] {
        [&self.network, &self.own]
    }

    fn of(&mut self, scope: Scope) -> &mut FreezeSet {
        match scope {
            Scope::Network => &mut self.network,
            Scope::Station(_) => &mut self.own,
        }
    }

    fn lasts(&self, cause: Cause) -> bool {
        self.both().iter().any(|set| set.is_active(cause))
    }

    fn is_of_both(&self, cause: Cause) -> bool {
        self.both().iter().all(|set| has(set, cause))
    }

    /// True if an end is of no silence of its scope, so that it must not end the other scope's.
    fn is_of_the_other(&self, scope: Scope, cause: Cause) -> bool {
        let [network, own] = self.both().map(|set| has(set, cause));
        match scope {
            Scope::Network => own && !network,
            Scope::Station(_) => network && !own,
        }
    }

    /// How long the silence that lasts will go on, if both told it that are silent.
    fn remaining(&self, now: Instant, cause: Cause) -> Option<Duration> {
        let mut latest = now;
        for set in self.both().into_iter().filter(|set| set.is_active(cause)) {
            latest = latest.max(set.told_end(cause)?);
        }
        Some(latest.since(now))
    }

    /// A silence of the host or the network begins or ends, now or later. `tell` is given what the mechanism
    /// is to hear, in order.
    pub fn on_event(&mut self, now: Instant, event: &LinkEvent, tell: impl FnMut(LinkEvent)) {
        let mut said = Vec::new();
        self.hear(now, event, |event| said.push(event));
        self.say(now, said, tell);
    }

    /// The mechanism is told.
    fn say(&mut self, now: Instant, said: Vec<LinkEvent>, mut tell: impl FnMut(LinkEvent)) {
        for event in said {
            let at = event.takes_effect(now);
            if let LinkEventKind::FreezeStarted { cause, expected, .. } = event.kind {
                let _ = self.told.start(now, cause, at, expected);
            } else if let LinkEventKind::FreezeEnded { cause, .. } = event.kind {
                let _ = self.told.end(now, cause, at);
            }
            tell(event);
        }
    }

    /// As [`on_event`](Self::on_event).
    fn hear(&mut self, now: Instant, event: &LinkEvent, mut tell: impl FnMut(LinkEvent)) {
        let at = event.takes_effect(now);
        let (cause, kind, lasted) = match event.kind {
            LinkEventKind::FreezeStarted { scope, cause, expected } => {
                let lasted = self.lasts(cause);
                let _ = self.of(scope).start(now, cause, at, expected);
                (cause, started(cause, expected), lasted)
            }
            LinkEventKind::FreezeEnded { scope, cause } => {
                if self.is_of_the_other(scope, cause) {
                    return;
                }
                let lasted = self.lasts(cause);
                let _ = self.of(scope).end(now, cause, at);
                (cause, ended(cause), lasted)
            }
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::TransmitRoom { .. }
            | LinkEventKind::StationLeft { .. } => return,
        };
        if self.is_of_both(cause) {
            self.mixed |= 1 << cause as u8;
        }
        let calls_off = matches!(kind, LinkEventKind::FreezeEnded { .. }) && at <= now && !lasted;
        if calls_off {
            // To the mechanism an end that is older than the other scope's last one would come late.
            self.announce(now, cause, tell);
        } else if self.mixed & (1 << cause as u8) == 0 {
            tell(LinkEvent { kind, ..*event });
        } else if self.lasts(cause) {
            // What is announced for later is told when it comes; until then nobody may send anyway.
            if !lasted {
                call_off(now, cause, &mut tell);
            }
            if at <= now {
                tell(LinkEvent { kind: started(cause, self.remaining(now, cause)), ..*event });
            }
        } else {
            if lasted {
                tell(LinkEvent { kind, ..*event });
            }
            self.announce(now, cause, tell);
        }
    }

    /// Carries out all that is due, as [`on_event`](Self::on_event) tells it. What the mechanism planned is
    /// due for it after this.
    pub fn on_timeout(&mut self, now: Instant, mut tell: impl FnMut(LinkEvent)) {
        let mut said = Vec::new();
        self.carry_out(now, |event| said.push(event));
        self.say(now, said, &mut tell);
        if self.told.next_timeout().is_some_and(|at| at <= now) {
            let lasting = |cause: &Cause| self.mixed & (1 << *cause as u8) != 0 && self.lasts(*cause);
            let again = |cause| later(now, now, started(cause, self.remaining(now, cause)));
            let said = Cause::ALL.into_iter().filter(lasting).map(again).collect();
            self.say(now, said, tell);
            while self.told.on_timeout(now).is_some() {}
        }
    }

    /// Carries out what the host and the network planned.
    fn carry_out(&mut self, now: Instant, mut tell: impl FnMut(LinkEvent)) {
        while let Some(at) = self.next_planned().filter(|at| *at <= now) {
            let set = if self.network.next_timeout() == Some(at) { &mut self.network } else { &mut self.own };
            let Some(due) = set.on_timeout(now) else { return };
            let cause = due.cause;
            if self.mixed & (1 << cause as u8) == 0 {
                continue;
            }
            if self.lasts(cause) {
                // Told again, so that an end that was planned for the one does not end both.
                tell(later(now, at, started(cause, self.remaining(now, cause))));
            } else {
                tell(later(now, at, ended(cause)));
                self.announce(now, cause, &mut tell);
            }
        }
    }

    /// No silence of the cause lasts: what the mechanism knows to be announced is called off, and told anew.
    fn announce(&mut self, now: Instant, cause: Cause, mut tell: impl FnMut(LinkEvent)) {
        call_off(now, cause, &mut tell);
        if self.is_of_both(cause) {
            // Of those that overlap the first must be told last, for its word to count.
            let mut starts: Vec<Announced> =
                self.both().iter().flat_map(|set| set.ahead(cause)).copied().collect();
            starts.sort_unstable_by_key(|announced| core::cmp::Reverse(announced.start));
            for Announced { start, expected, .. } in starts {
                tell(later(now, start, started(cause, expected)));
            }
            return;
        }
        self.mixed &= !(1 << cause as u8);
        for &Announced { start, expected, end } in self.both().iter().flat_map(|set| set.ahead(cause)) {
            tell(later(now, start, started(cause, expected)));
            if let Some(end) = end {
                tell(later(now, end, ended(cause)));
            }
        }
    }

    fn next_planned(&self) -> Option<Instant> {
        self.both().iter().filter_map(|set| set.next_timeout()).min()
    }

    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        let next = self.next_planned().into_iter().chain(self.told.next_timeout()).min();
        next.filter(|at| *at < Instant::FAR_FUTURE)
    }
}
