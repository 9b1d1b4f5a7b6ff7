//! The silences of the network and of stations, for a mechanism that asks only who is silent now and needs no
//! history.
//!
//! Which announcements are one silence, which end belongs to which, and when a silence that nobody ends is
//! over, is decided by the link monitor's own [`FreezeSet`], so that no mechanism takes an announcement for
//! something else than another does.
//!
//! Bounded: a station takes memory only while it is silent or a silence of its own is announced, and of
//! [`MAX_STATIONS`] at most.

use crate::link_event::{LinkEvent, LinkEventKind, Scope};
use crate::link_monitor::{FreezeSet, MAX_STATIONS, SilenceChange};
use crate::packet::StationId;
use crate::time::{Duration, Instant};

/// Past silences that are remembered: none is asked for, and one tells where the next can begin.
const HISTORY: usize = 1;

/// What one event, or the time that has come, did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing yet: it was announced for later, is none of silences, or met no silence.
    Nothing,
    /// A silence begins, or is told again. `is_new`: the scope was not silent by itself.
    Begun { scope: Scope, is_new: bool },
    /// A silence is over. `is_last`: the scope is not silent by itself any more.
    Over { scope: Scope, is_last: bool },
}

/// Who is silent, and who will be.
#[derive(Debug)]
pub(crate) struct Silences {
    network: FreezeSet,
    /// By number: those that are silent or will be, each by a cause of its own.
    stations: Vec<(StationId, Box<FreezeSet>)>,
    /// How many of them are silent.
    silent: usize,
    longest: Duration,
    untracked: u64,
    next_timeout: Option<Instant>,
}

impl Silences {
    /// No silence. One that nobody ends is over `longest` after it was told last.
    pub fn new(longest: Duration) -> Self {
        Self {
            network: FreezeSet::new(HISTORY, longest),
            stations: Vec::new(),
            silent: 0,
            longest,
            untracked: 0,
            next_timeout: None,
        }
    }

    /// No silence, none of which is over before somebody ends it.
    pub fn without_limit() -> Self {
        Self::new(Duration::from_nanos(u64::MAX))
    }

    /// Takes in an event of the radio.
    pub fn on_event(&mut self, now: Instant, event: &LinkEvent) -> Told {
        let at = event.takes_effect(now);
        match event.kind {
            LinkEventKind::FreezeStarted { scope, cause, expected } => self.change(scope, |freezes| {
                let change = freezes.start(now, cause, at, expected);
                if at > now {
                    return Told::Nothing;
                }
                Told::Begun { scope, is_new: change == SilenceChange::Began }
            }),
            LinkEventKind::FreezeEnded { scope, cause } => self.change(scope, |freezes| {
                let lasted = freezes.is_active(cause);
                let change = freezes.end(now, cause, at);
                if at > now || !lasted {
                    return Told::Nothing;
                }
                if freezes.is_active(cause) {
                    // The next one had begun meanwhile.
                    return Told::Begun { scope, is_new: false };
                }
                Told::Over { scope, is_last: change == SilenceChange::Ended }
            }),
            LinkEventKind::StationLeft { station } => {
                let scope = Scope::Station(station);
                let silent = self.is_silent(scope);
                self.stations.retain(|(known, _)| *known != station);
                self.look();
                if silent { Told::Over { scope, is_last: true } } else { Told::Nothing }
            }
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::TransmitRoom { .. } => Told::Nothing,
        }
    }

    /// Carries out the first announcement that is due, or the end of a silence that nobody ended. Call it
    /// until it answers `None`.
    pub fn on_timeout(&mut self, now: Instant) -> Option<Told> {
        let due = self.next_timeout.filter(|due| *due <= now)?;
        let is_due = |freezes: &FreezeSet| freezes.next_timeout() == Some(due);
        let scope = if is_due(&self.network) {
            Scope::Network
        } else {
            Scope::Station(self.stations.iter().find(|(_, freezes)| is_due(freezes))?.0)
        };
        Some(self.change(scope, |freezes| {
            let Some(due) = freezes.on_timeout(now) else { return Told::Nothing };
            if due.begun {
                return Told::Begun { scope, is_new: due.change == SilenceChange::Began };
            }
            Told::Over { scope, is_last: due.change == SilenceChange::Ended }
        }))
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    /// The station, or the whole network, is silent.
    #[inline]
    pub fn covers(&self, station: StationId) -> bool {
        self.network.is_silent() || (self.silent > 0 && self.is_silent(Scope::Station(station)))
    }

    /// The scope is silent by a cause of its own.
    pub fn is_silent(&self, scope: Scope) -> bool {
        self.of(scope).is_some_and(FreezeSet::is_silent)
    }

    /// Events of stations of which too many are silent already.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }

    fn place(&self, station: StationId) -> Result<usize, usize> {
        self.stations.binary_search_by_key(&station.0, |(known, _)| known.0)
    }

    fn of(&self, scope: Scope) -> Option<&FreezeSet> {
        match scope {
            Scope::Network => Some(&self.network),
            Scope::Station(station) => self.place(station).ok().map(|place| self.stations[place].1.as_ref()),
        }
    }

    fn change(&mut self, scope: Scope, apply: impl FnOnce(&mut FreezeSet) -> Told) -> Told {
        let freezes = match scope {
            Scope::Network => &mut self.network,
            Scope::Station(station) => {
                let place = match self.place(station) {
                    Ok(place) => place,
                    Err(_) if self.stations.len() >= MAX_STATIONS as usize => {
                        self.untracked += 1;
                        return Told::Nothing;
                    }
                    Err(place) => {
                        let fresh = Box::new(FreezeSet::new(HISTORY, self.longest));
                        self.stations.insert(place, (station, fresh));
                        place
                    }
                };
                &mut self.stations[place].1
            }
        };
        let told = apply(freezes);
        self.stations.retain(|(_, freezes)| freezes.is_silent() || freezes.next_timeout().is_some());
        self.look();
        told
    }

    fn look(&mut self) {
        self.silent = self.stations.iter().filter(|(_, freezes)| freezes.is_silent()).count();
        let stations = self.stations.iter().filter_map(|(_, freezes)| freezes.next_timeout());
        let next = stations.chain(self.network.next_timeout()).min();
        self.next_timeout = next.filter(|at| *at < Instant::FAR_FUTURE);
    }
}

#[cfg(test)]
mod tests;
