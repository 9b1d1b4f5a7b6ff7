//! The channel that the nodes share, and when they leave it to primary users.
//!
//! Source: crahn sections 3 and 4.3. The cycle of sensing, changing channel and transmitting is that of
//! [`Cycle`]; here it gets its look-up in the PU log (equations (1) and (2)), and primary users disturb receptions.
//!
//! Choices, where the paper is open:
//! - all nodes work on one channel, sense at the same time, and change channel together. The paper's pseudocode is a
//!   single node's, and says nothing of how neighbours with one radio each meet again; its section 5.2 says that they
//!   must agree. What the agreement costs on the air is not modelled;
//! - a primary user counts as on if any node receives it above the threshold; then the group detects it as one
//!   detector would, with one P_d. Where nobody does, there is one P_f;
//! - a node that carrier-senses does not notice a primary user: only sensing does, as in the paper;
//! - primary users stand still, and disturb every reception that overlaps them, however weak they are.

use std::sync::Arc;

use linkhold_core::link_event::{Cause, LinkEventKind, Scope};
use linkhold_core::time::Instant;
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::rng::Stream;
use linkhold_radio::spectrum::{
    ChannelLog, Cycle, CycleEvent, CycleState, Decision, Generator, Lookup, Places as UserPlaces,
    Propagation, PuLog,
};

use crate::config::{Channels, MeshConfig, MeshError, SpectrumConfig, Users};
use crate::map::MapUser;
use crate::node::{Node, Point};
use crate::places::Places;

/// What changes for the nodes, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// They fall silent for this cause, or go on to be silent for another.
    Silent(Cause),
    /// They may send.
    Open,
    /// They work on another channel from now on.
    Retuned,
    /// What upper layers are told.
    Tell(LinkEventKind),
}

/// The nodes' channel.
#[derive(Clone, Debug)]
pub(crate) enum Spectrum {
    /// One of their own.
    Own(BitRate),
    /// Bands of primary users.
    Shared(Box<Shared>),
}

/// Bands of primary users.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    log: Arc<ChannelLog>,
    users: Arc<PuLog>,
    cycle: Cycle,
    propagation: Propagation,
    /// P_th of equation (1), W.
    threshold: f64,
}

impl Spectrum {
    pub(crate) fn new(config: &MeshConfig, seed: u64) -> Result<Self, MeshError> {
        match &config.channels {
            Channels::Own(rate) => Ok(Self::Own(*rate)),
            Channels::Shared(shared) => {
                Shared::new(config, shared, seed).map(|shared| Self::Shared(Box::new(shared)))
            }
        }
    }

    /// When [`step`](Self::step) is due; far future if never.
    pub(crate) fn next(&self) -> Instant {
        match self {
            Self::Own(_) => Instant::FAR_FUTURE,
            Self::Shared(shared) => shared.cycle.next(),
        }
    }

    /// How many channels there are.
    pub(crate) fn channels(&self) -> usize {
        match self {
            Self::Own(_) => 1,
            Self::Shared(shared) => shared.log.bands().channels(),
        }
    }

    /// The working channel, from 0.
    pub(crate) fn channel(&self) -> usize {
        match self {
            Self::Own(_) => 0,
            Self::Shared(shared) => shared.cycle.channel(),
        }
    }

    /// The band of the working channel, from 0.
    pub(crate) fn band(&self) -> u32 {
        match self {
            Self::Own(_) => 0,
            Self::Shared(shared) => shared.log.bands().band_of(shared.cycle.channel()).index() as u32,
        }
    }

    /// The working channel's rate.
    #[inline]
    pub(crate) fn rate(&self) -> BitRate {
        self.rate_of(self.channel())
    }

    /// A channel's rate.
    #[inline]
    pub(crate) fn rate_of(&self, channel: usize) -> BitRate {
        match self {
            Self::Own(rate) => *rate,
            Self::Shared(shared) => shared.log.bandwidth(channel),
        }
    }

    /// The working channel's rate, as upper layers are told it.
    pub(crate) fn capacity(&self) -> LinkEventKind {
        LinkEventKind::ChannelSwitched { capacity: self.rate(), efficiency: Fraction::ONE }
    }

    /// Nothing starts that would not end by then.
    #[inline]
    pub(crate) fn quiet_at(&self) -> Instant {
        match self {
            Self::Own(_) => Instant::FAR_FUTURE,
            Self::Shared(shared) => match shared.cycle.state() {
                CycleState::Transmitting { until } => until,
                CycleState::Sensing { .. } | CycleState::Switching { .. } => Instant::ZERO,
            },
        }
    }

    /// Goes on at [`next`](Self::next), and adds what changes to `changes`.
    pub(crate) fn step(&mut self, places: &mut Places, changes: &mut Vec<Change>) {
        if let Self::Shared(shared) = self {
            shared.step(places, changes);
        }
    }

    /// Noise and primary users at `node` in a time, W: the sum of all that transmitted in it.
    pub(crate) fn disturbance(&self, node: Node, since: Instant, until: Instant, places: &mut Places) -> f64 {
        match self {
            Self::Own(_) => 0.0,
            Self::Shared(shared) => shared.disturbance(places.position(node, until), since, until),
        }
    }

    /// The primary users at `now`.
    pub(crate) fn users_on_map(&self, now: Instant) -> Vec<MapUser> {
        match self {
            Self::Own(_) => Vec::new(),
            Self::Shared(shared) => shared.users_on_map(now),
        }
    }
}

impl Shared {
    fn new(config: &MeshConfig, spectrum: &SpectrumConfig, seed: u64) -> Result<Self, MeshError> {
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
        let channels = bands.channels();
        let odds = vec![spectrum.sensing.odds(spectrum.cycle.sensing); channels];
        let decision = Decision::new(spectrum.policy, channels);
        let cycle =
            Cycle::new(spectrum.cycle, odds, decision, 0, Instant::ZERO, Stream::new(seed, "sensing", 0))?;
        Ok(Self {
            log: spectrum.log.clone(),
            users,
            cycle,
            propagation: reach.propagation,
            threshold: reach.sensitivity(),
        })
    }

    fn step(&mut self, places: &mut Places, changes: &mut Vec<Change>) {
        let Self { log, users, cycle, propagation, threshold } = self;
        let is_on = |Lookup { channel, from, to, switching: _ }: Lookup| {
            let band = log.bands().band_of(channel);
            let k = log.bands().overlap(band, channel);
            users.any_on(band, from, to, |user| {
                let own = Point { x: user.x, y: user.y };
                places.any(to, |place| propagation.received(user.power, own.distance(place), k) >= *threshold)
            })
        };
        let freeze = |cause, expected| {
            Change::Tell(LinkEventKind::FreezeStarted {
                scope: Scope::Network,
                cause,
                expected: Some(expected),
            })
        };
        let end = |cause| Change::Tell(LinkEventKind::FreezeEnded { scope: Scope::Network, cause });
        let handing_off = cycle.is_in_handoff();
        for event in cycle.step(is_on) {
            match event {
                CycleEvent::SensingBegan { lasting, .. } => {
                    changes.extend([Change::Silent(Cause::Sensing), freeze(Cause::Sensing, lasting)]);
                    // The next silence begins before the last ends, so that nobody believes the radio open.
                    if handing_off {
                        changes.push(end(Cause::ChannelSwitch));
                    }
                }
                CycleEvent::SwitchBegan { lasting, .. } => {
                    changes.extend([
                        Change::Silent(Cause::ChannelSwitch),
                        freeze(Cause::ChannelSwitch, lasting),
                        end(Cause::Sensing),
                    ]);
                }
                CycleEvent::HandoffEnded { .. } => changes.push(Change::Retuned),
                CycleEvent::TransmittingBegan { .. } => changes.extend([Change::Open, end(Cause::Sensing)]),
                CycleEvent::SensingEnded { .. }
                | CycleEvent::HandoffBegan { .. }
                | CycleEvent::SwitchEnded { .. } => {}
            }
        }
    }

    fn disturbance(&self, place: Point, since: Instant, until: Instant) -> f64 {
        let channel = self.cycle.channel();
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

    fn users_on_map(&self, now: Instant) -> Vec<MapUser> {
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
