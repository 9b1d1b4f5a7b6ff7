//! What a geographic router knows of the nodes around it.
//!
//! Choice: a node knows its neighbours' places and, as from a location service, any node's, at most
//! [`REFRESH`] old. What the beacons and the service cost on the air is not modelled. All nodes work on one channel, so to a
//! router there is one, number 0, and it is always free.

use linkhold_core::time::{Duration, Instant};

use crate::node::{Node, Point};
use crate::places::Places;
use crate::routing::{Neighbour, Surroundings};

/// How old a place may be.
const REFRESH: Duration = Duration::from_millis(100);

/// The surroundings of the node that was asked about last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    own: Point,
    places: Vec<Point>,
    until: Instant,
    neighbours: Vec<Neighbour>,
}

impl Local {
    /// Looks around from `node`.
    pub(crate) fn look(&mut self, node: Node, nodes: u32, now: Instant, places: &mut Places) {
        if self.until <= now {
            self.until = now + REFRESH;
            self.places.clear();
            self.places.extend((0..nodes).map(|node| places.position(Node(node), now)));
        }
        self.own = self.places.get(node.get()).copied().unwrap_or_default();
        self.neighbours.clear();
        let read = places.hearers(node, now).iter().filter(|hearer| hearer.reads);
        self.neighbours.extend(read.filter_map(|hearer| {
            let place = *self.places.get(hearer.node.get())?;
            Some(Neighbour { node: hearer.node, place, free_channels: 1 })
        }));
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
        1
    }
}
