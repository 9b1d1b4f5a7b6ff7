//! What a geographic router knows of places and channels. The driver fills it; AODV asks for nothing of it.

use crate::{Node, Point};

/// A neighbour, as its beacons tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Its number.
    pub node: Node,
    /// Where it is.
    pub place: Point,
    /// The channels on which it hears no primary user: bit `c` for channel `c`.
    pub free_channels: u64,
}

/// What a node knows of the world when it routes.
pub trait Surroundings {
    /// Where the node is.
    fn own(&self) -> Point;
    /// Where another node is, as a location service knows it; `None` if it does not.
    fn place(&self, node: Node) -> Option<Point>;
    /// The neighbours within range, in a fixed order.
    fn neighbours(&self) -> &[Neighbour];
    /// The channels on which this node hears no primary user: bit `c` for channel `c`.
    fn free_channels(&self) -> u64;
    /// The channels on which it may send something now. It may know of a primary user that comes and goes,
    /// and so not count a channel as free, and yet send there in a pause.
    fn usable_channels(&self) -> u64 {
        self.free_channels()
    }
}

/// True if a set of channels has this one.
pub(super) fn has_channel(set: u64, channel: u8) -> bool {
    set.checked_shr(u32::from(channel)).is_some_and(|rest| rest & 1 == 1)
}

/// The channels of a set, the lowest first.
pub(super) fn channels(set: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |&channel| has_channel(set, channel))
}

/// Nothing is known: enough for a router that asks for nothing.
impl Surroundings for () {
    fn own(&self) -> Point {
        Point::default()
    }

    fn place(&self, _node: Node) -> Option<Point> {
        None
    }

    fn neighbours(&self) -> &[Neighbour] {
        &[]
    }

    fn free_channels(&self) -> u64 {
        1
    }
}
