//! What a geographic router knows of the nodes around it.
//!
//! Choice: a node knows its neighbours' places and, as from a location service, any node's, at most
//! [`REFRESH`] old. What the beacons and the service cost on the air is not modelled. Where all nodes work on
//! one channel, to a router there is one, number 0, and it is always free.
//!
//! Where nodes have a channel each ([`Local::look_at_homes`]), beacons are on the air, and a node's
//! neighbours are those in its repository whose frames it has read lately. Places still come from the
//! service. A neighbour is a relay on its home channel if it told that no primary user was there lately, and
//! if its last frame came with [`MARGIN`] to spare: what is known of it is some seconds old, and one at the
//! edge of the range may have left it.

use linkhold_core::time::{Duration, Instant};

use linkhold_radio::spectrum::{Neighbour as Known, Repository};

use crate::homes::Homes;
use crate::node::{Node, Point};
use crate::places::Places;
use crate::routing::{Neighbour, Surroundings};

/// How old a place may be.
const REFRESH: Duration = Duration::from_millis(100);

/// How much more than the least power that can be read a relay's last frame had to come with: 1 dB. Our
/// choice; with an attenuation factor of 4 it is the outer 6 % of the range.
const MARGIN: f64 = 1.259;

/// The surroundings of the node that was asked about last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    /// The channels without primary users, and those that may be sent on.
    free: u64,
    usable: u64,
    own: Point,
    places: Vec<Point>,
    until: Instant,
    neighbours: Vec<Neighbour>,
}

impl Local {
    /// Looks around from `node`.
    pub(crate) fn look(&mut self, node: Node, nodes: u32, now: Instant, places: &mut Places) {
        self.find_places(node, nodes, now, places);
        (self.free, self.usable) = (1, 1);
        self.neighbours.clear();
        let read = places.hearers(node, now).iter().filter(|hearer| hearer.reads);
        self.neighbours.extend(read.filter_map(|hearer| {
            let place = *self.places.get(hearer.node.get())?;
            Some(Neighbour { node: hearer.node, place, free_channels: 1 })
        }));
    }

    fn find_places(&mut self, node: Node, nodes: u32, now: Instant, places: &mut Places) {
        if self.until <= now {
            self.until = now + REFRESH;
            self.places.clear();
            self.places.extend((0..nodes).map(|node| places.position(Node(node), now)));
        }
        self.own = self.places.get(node.get()).copied().unwrap_or_default();
    }

    /// The same where nodes have a channel each: by what `node` sensed, and what its neighbours told.
    pub(crate) fn look_at_homes(
        &mut self,
        node: Node,
        nodes: u32,
        now: Instant,
        places: &mut Places,
        repository: &Repository,
        homes: &Homes,
    ) {
        self.find_places(node, nodes, now, places);
        (self.free, self.usable) = (homes.clear(node, now), homes.usable(node, now));
        let (keep, least) = (homes.keep(), MARGIN * places.reach().sensitivity());
        let neighbour = |known: &Known| {
            let home = *known.channel?.fresh(now, keep)?;
            let place = *self.places.get(known.node as usize)?;
            let bit = 1_u64.checked_shl(u32::try_from(home).ok()?)?;
            let told = known.free_channels.and_then(|free| free.fresh(now, keep).copied()).unwrap_or(0);
            let strong = known.quality.is_some_and(|quality| quality.value.received_power >= least);
            let free_channels = if strong { told & bit } else { 0 };
            Some(Neighbour { node: Node(known.node), place, free_channels })
        };
        self.neighbours.clear();
        self.neighbours.extend(repository.neighbours(node.get()).iter().filter_map(neighbour));
    }
}

impl Surroundings for Local {
    fn own(&self) -> Point {
        self.own
    }

    fn place(&self, node: Node) -> Option<Point> {
        self.places.get(node.get()).copied()
    }

    fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    fn free_channels(&self) -> u64 {
        self.free
    }

    fn usable_channels(&self) -> u64 {
        self.usable
    }
}
