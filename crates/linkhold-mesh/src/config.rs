//! What a mesh is made of, and whether it fits together.

use std::sync::Arc;

use linkhold_core::time::Duration;
use linkhold_core::units::BitRate;
use linkhold_radio::dcf::{DcfConfig, Phy};
use linkhold_radio::rng::Stream;
use linkhold_radio::spectrum::{
    ChannelLog, CycleConfig, CycleConfigError, GenerateError, Policy, PuActivity, PuLog, SensingModel,
};

use crate::mobility::setdest::SetdestError;
use crate::mobility::{Area, Mobility, MobilityError, WaypointConfig};
use crate::node::{Node, Point};
use crate::places::Reach;
use crate::routing::search::HopChannels;
use crate::routing::{Aodv, AodvConfig, Router, Search, SearchConfig};

/// Everything that makes up a mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshConfig {
    /// Number of nodes; at least 2.
    pub nodes: u32,
    /// Where they may be.
    pub area: Area,
    /// How they move.
    pub movement: Movement,
    /// What the air does with their signals.
    pub reach: Reach,
    /// Their medium access.
    pub dcf: DcfConfig,
    /// Most packets of data that wait at a node.
    pub queue: u32,
    /// How packets find their way.
    pub routing: Routing,
    /// With AODV: nodes on the way repair broken routes (RFC 3561, section 6.12).
    pub local_repair: bool,
    /// A source's transport is told when its route is lost and found; its router seeks a lost one at once.
    pub routes_told: bool,
    /// What they send on.
    pub channels: Channels,
}

/// How packets find their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Every node sends straight to the receiver.
    Direct,
    /// RFC 3561.
    Aodv,
    /// SEARCH.
    Search,
}

/// How nodes move.
#[derive(Clone, Debug, PartialEq)]
pub enum Movement {
    /// They stand at these places, one for each node.
    Standing(Vec<Point>),
    /// They stand where the seed draws.
    Drawn,
    /// They walk at random.
    Walk {
        /// Least speed, m/s.
        least: f64,
        /// Highest speed, m/s.
        most: f64,
        /// Mean pause, exponential.
        pause: Duration,
    },
    /// They move as a file in ns-2's `setdest` format says.
    Script(Arc<str>),
}

/// What nodes send on.
#[derive(Clone, Debug, PartialEq)]
pub enum Channels {
    /// One channel of their own, at this rate.
    Own(BitRate),
    /// Bands of primary users.
    Shared(Box<SpectrumConfig>),
}

/// Bands of primary users, and how nodes live in them.
#[derive(Clone, Debug, PartialEq)]
pub struct SpectrumConfig {
    /// The channels.
    pub log: Arc<ChannelLog>,
    /// The times of sensing, transmitting and changing channel.
    pub cycle: CycleConfig,
    /// How well a node detects.
    pub sensing: SensingModel,
    /// The channel after one that is taken.
    pub policy: Policy,
    /// Who owns the bands.
    pub users: Users,
    /// Who works on which channel.
    pub working: WorkingChannel,
}

/// Who works on which channel.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkingChannel {
    /// All nodes on one: they sense together, and change channel together.
    Common,
    /// Each node on its own: it senses alone, listens on its home channel, and sends on the receiver's.
    Own(OwnChannels),
}

/// How nodes live with a home channel each.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnChannels {
    /// By node: where it begins, counted from 0 over all bands. Empty: the seed draws.
    pub homes: Vec<u32>,
    /// How long a radio is deaf when it goes to another channel to send, or returns.
    pub retune: Duration,
    /// How long after a node found a primary user on a channel it counts itself in this user's region.
    pub memory: Duration,
}

impl OwnChannels {
    /// Homes that the seed draws, and the defaults of the scenario file. 224 us: what So and Vaidya's MMAC
    /// takes for 802.11 radios (2004; from memory, not checked). 10 s is our choice: some cycles, and several
    /// bursts of a user that comes and goes within seconds.
    #[must_use]
    pub fn new() -> Self {
        Self { homes: Vec::new(), retune: Duration::from_micros(224), memory: Duration::from_secs(10) }
    }
}

impl Default for OwnChannels {
    fn default() -> Self {
        Self::new()
    }
}

/// Most channels among which nodes choose one each: what nodes tell each other of them is a set of 64.
pub const MAX_HOME_CHANNELS: usize = 64;

/// Who owns the bands.
#[derive(Clone, Debug, PartialEq)]
pub enum Users {
    /// As a PU log says: every repetition has the same.
    Log(Arc<PuLog>),
    /// They come and go at random; the seed decides.
    Drawn {
        /// How long bursts and pauses last.
        activity: PuActivity,
        /// In each band.
        per_band: u32,
        /// Side of the square in the middle of the area where they stand, metres.
        spread: f64,
        /// How far each is received at the threshold, metres.
        range: f64,
        /// Activity is drawn for this long; afterwards they are silent.
        duration: Duration,
    },
}

/// What is wrong with a [`MeshConfig`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeshError {
    /// There are fewer than two nodes.
    #[error("a mesh needs at least two nodes")]
    TooFew,
    /// The number of places is not that of the nodes.
    #[error("there are {places} places for {nodes} nodes")]
    Places {
        /// Places given.
        places: usize,
        /// Nodes.
        nodes: u32,
    },
    /// A frame would be read beyond where it is noticed.
    #[error(
        "frames would be read at {transmission} m, but keep others from sending at {carrier_sense} m only"
    )]
    Reach {
        /// Transmission range, metres.
        transmission: f64,
        /// Carrier-sense range, metres.
        carrier_sense: f64,
    },
    /// Nodes tell each other of channels up to number 63.
    #[error("nodes with a channel each can choose among {MAX_HOME_CHANNELS} channels, not {0}")]
    TooManyChannels(usize),
    /// The number of home channels is not that of the nodes.
    #[error("there are {homes} home channels for {nodes} nodes")]
    Homes {
        /// Home channels given.
        homes: usize,
        /// Nodes.
        nodes: u32,
    },
    /// There is no such channel to begin on.
    #[error("there is no channel {channel} to begin on; there are {channels}, counted from 0 over all bands")]
    HomeChannel {
        /// The channel.
        channel: u32,
        /// How many there are.
        channels: usize,
    },
    /// The physical layer has no such rate.
    #[error("the physical layer has no rate of {0}")]
    Rate(BitRate),
    /// Where nodes are, or how they move.
    #[error(transparent)]
    Mobility(#[from] MobilityError),
    /// The file of movements.
    #[error(transparent)]
    Script(#[from] SetdestError),
    /// The primary users.
    #[error(transparent)]
    Users(#[from] GenerateError),
    /// The cycle of sensing.
    #[error(transparent)]
    Cycle(#[from] CycleConfigError),
}

impl MeshConfig {
    /// Whether it fits together.
    ///
    /// # Errors
    /// [`MeshError`].
    pub fn check(&self) -> Result<(), MeshError> {
        self.check_numbers()?;
        // Whatever the seed, places and movements are right or wrong.
        self.mobility(0).map(drop)
    }

    /// All but the places.
    pub(crate) fn check_numbers(&self) -> Result<(), MeshError> {
        if self.nodes < 2 {
            return Err(MeshError::TooFew);
        }
        if let Movement::Standing(places) = &self.movement
            && places.len() != self.nodes as usize
        {
            return Err(MeshError::Places { places: places.len(), nodes: self.nodes });
        }
        let Reach { transmission, carrier_sense, .. } = self.reach;
        if carrier_sense < transmission {
            return Err(MeshError::Reach { transmission, carrier_sense });
        }
        if let Channels::Shared(spectrum) = &self.channels
            && let WorkingChannel::Own(own) = &spectrum.working
        {
            self.check_homes(own, spectrum.log.bands().channels())?;
        }
        let any_rate = self.dcf.phy == Phy::Ieee80211b;
        match self
            .rates()
            .into_iter()
            .find(|&rate| rate.as_bps() == 0 || !(any_rate || self.dcf.phy.has(rate)))
        {
            Some(rate) => Err(MeshError::Rate(rate)),
            None => Ok(()),
        }
    }

    fn check_homes(&self, own: &OwnChannels, channels: usize) -> Result<(), MeshError> {
        if channels > MAX_HOME_CHANNELS {
            return Err(MeshError::TooManyChannels(channels));
        }
        if !own.homes.is_empty() && own.homes.len() != self.nodes as usize {
            return Err(MeshError::Homes { homes: own.homes.len(), nodes: self.nodes });
        }
        match own.homes.iter().find(|&&channel| channel as usize >= channels) {
            Some(&channel) => Err(MeshError::HomeChannel { channel, channels }),
            None => Ok(()),
        }
    }

    /// The router of a node, where requests look for relays on `hops`.
    pub(crate) fn router(&self, node: Node, hops: HopChannels, seed: u64) -> Router {
        // A route to each node, so that no number is lost for want of room.
        let nodes = self.nodes as usize;
        let search = SearchConfig { hops, ..SearchConfig::default() };
        let search = SearchConfig { max_routes: search.max_routes.max(nodes), ..search };
        let aodv = AodvConfig { local_repair: self.local_repair, ..AodvConfig::default() };
        let aodv = AodvConfig { max_routes: aodv.max_routes.max(nodes), ..aodv };
        match self.routing {
            Routing::Direct => Router::Direct,
            Routing::Search => Router::Search(Box::new(Search::new(node, &search, seed))),
            Routing::Aodv => Router::Aodv(Box::new(Aodv::new(node, &aodv, seed))),
        }
    }

    /// The rates of all channels.
    #[must_use]
    pub fn rates(&self) -> Vec<BitRate> {
        match &self.channels {
            Channels::Own(rate) => vec![*rate],
            Channels::Shared(spectrum) => {
                let log = &spectrum.log;
                (0..log.bands().channels()).map(|channel| log.bandwidth(channel)).collect()
            }
        }
    }

    /// Where nodes are in the repetition with `seed`.
    pub(crate) fn mobility(&self, seed: u64) -> Result<Mobility, MeshError> {
        let nodes = self.nodes as usize;
        Ok(match &self.movement {
            Movement::Standing(places) => Mobility::standing(self.area, places.clone())?,
            Movement::Drawn => {
                let place = |node| {
                    let mut stream = Stream::new(seed, "place", node);
                    Point { x: stream.unit() * self.area.width(), y: stream.unit() * self.area.height() }
                };
                Mobility::standing(self.area, (0..u64::from(self.nodes)).map(place).collect())?
            }
            &Movement::Walk { least, most, pause } => {
                let config =
                    WaypointConfig { area: self.area, nodes, min_speed: least, max_speed: most, pause };
                Mobility::random_waypoint(&config, seed)?
            }
            Movement::Script(text) => Mobility::setdest(text, self.area, nodes)?,
        })
    }
}
