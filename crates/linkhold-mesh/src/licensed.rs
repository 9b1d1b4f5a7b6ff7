//! The licensed bands as nodes find them: channels, primary users, who notices them, and what they disturb.
//!
//! Source: crahn sections 3, 4.1 to 4.3, equations (1) and (2).
//!
//! Choices, where the paper is open:
//! - a node that carrier-senses does not notice a primary user: only sensing does, as in the paper;
//! - primary users stand still, and disturb every reception that overlaps them, however weak they are.

use std::sync::Arc;

use linkhold_core::link_event::{Cause, LinkEventKind, Scope};
use linkhold_core::time::Instant;
use linkhold_radio::rng::Stream;
use linkhold_radio::spectrum::{
    ChannelLog, Cycle, CycleEvent, CycleEvents, CycleState, Generator, Lookup, Places as UserPlaces,
    Propagation, PuLog,
};

use crate::config::{MeshConfig, MeshError, SpectrumConfig, Users};
use crate::map::MapUser;
use crate::node::Point;

/// What changes for the nodes, or for one of them, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// They fall silent for this cause, or go on to be silent for another.
    Silent(Cause),
    /// They may send.
    Open,
    /// The search for a free channel is over: they work on the one that was found from now on.
    Retuned {
        /// The channel on which it began. It may be the same.
        from: usize,
    },
    /// What upper layers are told.
    Tell(LinkEventKind),
}

/// Adds what the events of a cycle change for those in `scope`. `handing_off`: before the events, they looked
/// for a free channel.
pub(crate) fn changes(events: CycleEvents, scope: Scope, handing_off: bool, into: &mut Vec<Change>) {
    let freeze = |cause, expected| {
        Change::Tell(LinkEventKind::FreezeStarted { scope, cause, expected: Some(expected) })
    };
    let end = |cause| Change::Tell(LinkEventKind::FreezeEnded { scope, cause });
    for event in events {
        match event {
            CycleEvent::SensingBegan { lasting, .. } => {
                into.extend([Change::Silent(Cause::Sensing), freeze(Cause::Sensing, lasting)]);
                // The next silence begins before the last ends, so that nobody believes the radio open.
                if handing_off {
                    into.push(end(Cause::ChannelSwitch));
                }
            }
            CycleEvent::SwitchBegan { lasting, .. } => {
                into.extend([
                    Change::Silent(Cause::ChannelSwitch),
                    freeze(Cause::ChannelSwitch, lasting),
                    end(Cause::Sensing),
                ]);
            }
            CycleEvent::HandoffEnded { from, .. } => into.push(Change::Retuned { from }),
            CycleEvent::TransmittingBegan { .. } => into.extend([Change::Open, end(Cause::Sensing)]),
            CycleEvent::SensingEnded { .. }
            | CycleEvent::HandoffBegan { .. }
            | CycleEvent::SwitchEnded { .. } => {}
        }
    }
}

/// When a cycle's next silence begins; time 0 if it is silent.
pub(crate) fn until_silent(cycle: &Cycle) -> Instant {
    match cycle.state() {
        CycleState::Transmitting { until } => until,
        CycleState::Sensing { .. } | CycleState::Switching { .. } => Instant::ZERO,
    }
}

/// Bands and their primary users.
#[derive(Clone, Debug)]
pub(crate) struct Licensed {
    log: Arc<ChannelLog>,
    users: Arc<PuLog>,
    propagation: Propagation,
    /// P_th of equation (1), W.
    threshold: f64,
}

/// The signal of a primary user on a channel.
pub(crate) struct Signal<'a> {
    licensed: &'a Licensed,
    from: Point,
    power: f64,
    /// The channel's overlap factor.
    k: f64,
}

impl Signal<'_> {
    /// Equation (1): it is received above the threshold at `place`.
    pub(crate) fn is_noticed_at(&self, place: Point) -> bool {
        let Licensed { propagation, threshold, .. } = self.licensed;
        propagation.received(self.power, self.from.distance(place), self.k) >= *threshold
    }
}

impl Licensed {
    pub(crate) fn new(config: &MeshConfig, spectrum: &SpectrumConfig, seed: u64) -> Result<Self, MeshError> {
        let reach = &config.reach;
        let bands = spectrum.log.bands();
        let users = match &spectrum.users {
            Users::Log(log) => log.clone(),
            Users::Drawn { activity, per_band, spread, range, duration } => {
                // So much power that it arrives at the threshold from `range` away.
                let power = reach.sensitivity() / reach.propagation.received(1.0, *range, 1.0);
                let generator = Generator {
                    bands: vec![*activity; usize::from(bands.bands())],
                    users_per_band: *per_band,
                    places: UserPlaces::Given(places(
                        config,
                        *spread,
                        u32::from(bands.bands()) * per_band,
                        seed,
                    )),
                    power,
                    duration: *duration,
                };
                Arc::new(generator.generate(seed)?)
            }
        };
        let (log, propagation) = (spectrum.log.clone(), reach.propagation);
        Ok(Self { log, users, propagation, threshold: reach.sensitivity() })
    }

    /// The channels.
    #[inline]
    pub(crate) fn channels(&self) -> &ChannelLog {
        &self.log
    }

    /// The look-up of line 1: is any primary user on in that time whose signal on the channel is `noticed`?
    pub(crate) fn is_on(&self, lookup: Lookup, mut noticed: impl FnMut(&Signal<'_>) -> bool) -> bool {
        let Lookup { channel, from, to, switching: _ } = lookup;
        let band = self.log.bands().band_of(channel);
        let k = self.log.bands().overlap(band, channel);
        self.users.any_on(band, from, to, |user| {
            let from = Point { x: user.x, y: user.y };
            noticed(&Signal { licensed: self, from, power: user.power, k })
        })
    }

    /// Noise and primary users on `channel` at `place` in a time, W: the sum of all that transmitted in it.
    pub(crate) fn disturbance(&self, channel: usize, place: Point, since: Instant, until: Instant) -> f64 {
        let mut power = self.log.noise(channel, since);
        let band = self.log.bands().band_of(channel);
        let k = self.log.bands().overlap(band, channel);
        if k > 0.0 {
            self.users.for_each_on(band, since, until, |index, _, _| {
                if let Some(user) = self.users.users().get(index) {
                    let own = Point { x: user.x, y: user.y };
                    power += self.propagation.received(user.power, own.distance(place), k);
                }
            });
        }
        power
    }

    /// The primary users at `now`.
    pub(crate) fn users_on_map(&self, now: Instant) -> Vec<MapUser> {
        let users = self.users.users().iter().enumerate();
        users
            .map(|(index, user)| MapUser {
                position: Point { x: user.x, y: user.y },
                band: user.band.index() as u32,
                on: self.users.on_until(index, now).is_some(),
                range: self.propagation.range(user.power, self.threshold, 1.0),
            })
            .collect()
    }
}

/// Places of `count` users in a square in the middle of the area.
fn places(config: &MeshConfig, spread: f64, count: u32, seed: u64) -> Vec<(f64, f64)> {
    let place = |user| {
        let mut stream = Stream::new(seed, "user-place", u64::from(user));
        let mut along = |side: f64| {
            let spread = spread.min(side);
            (side - spread) / 2.0 + stream.unit() * spread
        };
        (along(config.area.width()), along(config.area.height()))
    };
    (0..count).map(place).collect()
}
