//! The channel that the nodes share, and when they leave it to primary users.
//!
//! Source: crahn sections 3 and 4.3. The cycle of sensing, changing channel and transmitting is that of
//! [`Cycle`]; here it gets its look-up in the PU log (equations (1) and (2)). What primary users disturb:
//! `licensed.rs`.
//!
//! Choices, where the paper is open:
//! - two ways of working ([`WorkingChannel`]). All nodes work on one channel, sense at the same time, and
//!   change channel together ([`Shared`]); or each has a channel of its own (`homes.rs`). The paper's
//!   pseudocode is a single node's, and says nothing of how neighbours with one radio each meet again; its
//!   section 5.2 says that they must agree. What the agreement of a group costs on the air is not modelled;
//! - a primary user counts as on for a group if any node receives it above the threshold; then the group
//!   detects it as one detector would, with one P_d. Where nobody does, there is one P_f.

use linkhold_core::link_event::{LinkEventKind, Scope};
use linkhold_core::time::Instant;
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::rng::Stream;
use linkhold_radio::spectrum::{Cycle, Decision};

use crate::config::{Channels, MeshConfig, MeshError, SpectrumConfig, WorkingChannel};
use crate::homes::Homes;
use crate::licensed::{Change, Licensed, changes, until_silent};
use crate::map::MapUser;
use crate::node::Node;
use crate::places::Places;

/// The nodes' channels.
#[derive(Clone, Debug)]
pub(crate) enum Spectrum {
    /// One of their own.
    Own(BitRate),
    /// Bands of primary users, all on one channel.
    Shared(Box<Shared>),
    /// Bands of primary users, each on its own channel.
    Homes(Box<Homes>),
}

/// Bands of primary users, and the channel in them on which all nodes work.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    licensed: Licensed,
    cycle: Cycle,
}

impl Spectrum {
    pub(crate) fn new(config: &MeshConfig, seed: u64) -> Result<Self, MeshError> {
        match &config.channels {
            Channels::Own(rate) => Ok(Self::Own(*rate)),
            Channels::Shared(shared) => match &shared.working {
                WorkingChannel::Common => {
                    Shared::new(config, shared, seed).map(|shared| Self::Shared(Box::new(shared)))
                }
                WorkingChannel::Own(own) => {
                    Homes::new(config, shared, own, seed).map(|homes| Self::Homes(Box::new(homes)))
                }
            },
        }
    }

    /// What nodes with a channel each do; `None` if they work on one.
    #[inline]
    pub(crate) fn homes(&self) -> Option<&Homes> {
        match self {
            Self::Homes(homes) => Some(homes),
            Self::Own(_) | Self::Shared(_) => None,
        }
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn homes_mut(&mut self) -> Option<&mut Homes> {
        match self {
            Self::Homes(homes) => Some(homes),
            Self::Own(_) | Self::Shared(_) => None,
        }
    }

    fn licensed(&self) -> Option<&Licensed> {
        match self {
            Self::Own(_) => None,
            Self::Shared(shared) => Some(&shared.licensed),
            Self::Homes(homes) => Some(homes.licensed()),
        }
    }

    /// When [`step`](Self::step) is due; far future if never.
    pub(crate) fn next(&self) -> Instant {
        match self {
            Self::Own(_) => Instant::FAR_FUTURE,
            Self::Shared(shared) => shared.cycle.next(),
            Self::Homes(homes) => homes.next(),
        }
    }

    /// How many channels there are.
    pub(crate) fn channels(&self) -> usize {
        self.licensed().map_or(1, |licensed| licensed.channels().bands().channels())
    }

    /// The channel that `node` works on, from 0.
    pub(crate) fn channel(&self, node: Node) -> usize {
        match self {
            Self::Own(_) => 0,
            Self::Shared(shared) => shared.cycle.channel(),
            Self::Homes(homes) => homes.home(node),
        }
    }

    /// The channel that the radio of `node` is tuned to, from 0.
    #[inline]
    pub(crate) fn tuned(&self, node: Node) -> usize {
        match self {
            Self::Own(_) => 0,
            Self::Shared(shared) => shared.cycle.channel(),
            Self::Homes(homes) => homes.tuned(node),
        }
    }

    /// The band that `node` works on, from 0.
    pub(crate) fn band(&self, node: Node) -> u32 {
        self.licensed()
            .map_or(0, |licensed| licensed.channels().bands().band_of(self.channel(node)).index() as u32)
    }

    /// The rate where the radio of `node` is tuned to.
    #[inline]
    pub(crate) fn rate(&self, node: Node) -> BitRate {
        self.rate_of(self.tuned(node))
    }

    /// A channel's rate.
    #[inline]
    pub(crate) fn rate_of(&self, channel: usize) -> BitRate {
        match self {
            Self::Own(rate) => *rate,
            Self::Shared(shared) => shared.licensed.channels().bandwidth(channel),
            Self::Homes(homes) => homes.licensed().channels().bandwidth(channel),
        }
    }

    /// The working channel's rate, as upper layers are told it. Where each node has its own channel, a
    /// sender's rate changes with the receiver, so it counts as unknown.
    pub(crate) fn capacity(&self) -> LinkEventKind {
        let capacity = match self {
            Self::Own(_) | Self::Shared(_) => self.rate(Node(0)),
            Self::Homes(_) => BitRate(0),
        };
        LinkEventKind::ChannelSwitched { capacity, efficiency: Fraction::ONE }
    }

    /// Nothing of `node` starts that would not end by then.
    #[inline]
    pub(crate) fn quiet_at(&self, node: Node) -> Instant {
        match self {
            Self::Own(_) => Instant::FAR_FUTURE,
            Self::Shared(shared) => until_silent(&shared.cycle),
            Self::Homes(homes) => homes.quiet_at(node),
        }
    }

    /// Goes on at [`next`](Self::next), and adds what changes to `changes`. The node that it changes for;
    /// `None`: for all.
    pub(crate) fn step(&mut self, places: &mut Places, changes: &mut Vec<Change>) -> Option<Node> {
        match self {
            Self::Own(_) => None,
            Self::Shared(shared) => {
                shared.step(places, changes);
                None
            }
            Self::Homes(homes) => homes.step(places, changes),
        }
    }

    /// Noise and primary users at `node` in a time, W: the sum of all that transmitted in it.
    #[inline]
    pub(crate) fn disturbance(&self, node: Node, since: Instant, until: Instant, places: &mut Places) -> f64 {
        self.licensed().map_or(0.0, |licensed| {
            licensed.disturbance(self.tuned(node), places.position(node, until), since, until)
        })
    }

    /// The primary users at `now`.
    pub(crate) fn users_on_map(&self, now: Instant) -> Vec<MapUser> {
        self.licensed().map_or(Vec::new(), |licensed| licensed.users_on_map(now))
    }
}

impl Shared {
    fn new(config: &MeshConfig, spectrum: &SpectrumConfig, seed: u64) -> Result<Self, MeshError> {
        let licensed = Licensed::new(config, spectrum, seed)?;
        let channels = licensed.channels().bands().channels();
        let odds = vec![spectrum.sensing.odds(spectrum.cycle.sensing); channels];
        let decision = Decision::new(spectrum.policy, channels);
        let stream = Stream::new(seed, "sensing", 0);
        let cycle = Cycle::new(spectrum.cycle, odds, decision, 0, Instant::ZERO, stream)?;
        Ok(Self { licensed, cycle })
    }

    fn step(&mut self, places: &mut Places, into: &mut Vec<Change>) {
        let Self { licensed, cycle } = self;
        let handing_off = cycle.is_in_handoff();
        let events = cycle.step(|lookup| {
            licensed.is_on(lookup, |signal| places.any(lookup.to, |place| signal.is_noticed_at(place)))
        });
        changes(events, Scope::Network, handing_off, into);
    }
}
