//! Ways through the network: paths are lists of hops, and a flow names one path in each direction.
//!
//! ```text
//! path = hop, hop, ..., last hop        hop = at a node: [tap], then what comes next
//! ```
//! A packet stands at one hop at a time. The hop's tap, if it has one, decides about the packet first; then
//! the packet crosses the hop's link to the next hop, or goes on at the same node (a second tap there), or
//! leaves the network. All hops of all paths lie in one list, each path's side by side, so that a packet
//! carries nothing but its hop's number.

use linkhold_core::packet::{Direction, StationId};
use linkhold_radio::RadioId;

/// A place where packets enter, leave, or are handed from link to link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeId {
    /// The hosts on the wire.
    Correspondent,
    /// The base station.
    BaseStation,
    /// A station.
    Station(StationId),
}

impl NodeId {
    /// The station that stands there, if one does.
    #[must_use]
    pub const fn station(self) -> Option<StationId> {
        match self {
            Self::Station(station) => Some(station),
            Self::Correspondent | Self::BaseStation => None,
        }
    }
}

/// A link's number in its network, in the order of [`Network::add_link`](crate::network::Network::add_link).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A tap's number in its network, in the order of [`Network::add_tap`](crate::network::Network::add_tap).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TapId(pub u32);

impl TapId {
    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// What comes after a hop's tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The next hop, at the same node.
    Here,
    /// Over a link, to the next hop's node.
    Link(LinkId),
    /// Out of the network: to the host or the port at this node.
    Out,
}

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where the packet is.
    pub node: NodeId,
    /// Who decides about the packet there; `None` for a plain router or host.
    pub tap: Option<TapId>,
    /// What comes next.
    pub onward: Onward,
}

/// A hop's number among all hops of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HopIndex(u32);

impl HopIndex {
    /// The hop after this one on the same path.
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A route's number in its network, in the order of
/// [`Network::add_route`](crate::network::Network::add_route).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub u32);

impl RouteId {
    /// The route of a cell's station.
    #[must_use]
    pub const fn of(station: StationId) -> Self {
        Self(station.0)
    }

    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// The two paths of a flow, by the hop where each begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// From the correspondent's side to the station's.
    pub down: HopIndex,
    /// From the station's side to the correspondent's.
    pub up: HopIndex,
}

impl Route {
    pub(crate) const fn entry(&self, direction: Direction) -> HopIndex {
        match direction {
            Direction::Downlink => self.down,
            Direction::Uplink => self.up,
        }
    }
}

/// What comes after a tap, as the network follows it packet by packet. Whether a link is a wire or an air,
/// and which radios send and receive, is looked up once, when the path is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Here,
    Wire(LinkId),
    Air { link: LinkId, from: RadioId, to: RadioId },
    Out,
}

/// A hop as the network follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) tap: Option<TapId>,
    pub(crate) next: Next,
    pub(crate) node: NodeId,
}

/// The radio of a node.
///
/// # Panics
/// If the node has none.
fn radio_at(node: NodeId) -> RadioId {
    match node {
        NodeId::Station(station) => station.into(),
        NodeId::BaseStation => RadioId::BASE_STATION,
        NodeId::Correspondent => panic!("a correspondent has no radio; its hops lead over wires"),
    }
}

/// All hops of a network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hops(Vec<Step>);

impl Hops {
    /// Adds a path and returns its first hop; `is_air` tells which links are airs.
    ///
    /// # Panics
    /// If the last hop does not lead out (packets would walk into the next path), or another hop does, or a
    /// hop leads over the air from or to a node without a radio.
    pub(crate) fn add(&mut self, path: &[Hop], is_air: impl Fn(LinkId) -> bool) -> HopIndex {
        let outs = path.iter().filter(|hop| hop.onward == Onward::Out).count();
        let ends_outside = path.last().is_some_and(|hop| hop.onward == Onward::Out);
        assert!(ends_outside && outs == 1, "a path's last hop, and no other, leads out of the network");
        let first = HopIndex(self.0.len() as u32);
        for (number, hop) in path.iter().enumerate() {
            let next = match hop.onward {
                Onward::Here => Next::Here,
                Onward::Out => Next::Out,
                Onward::Link(link) if is_air(link) => {
                    let (from, to) = (radio_at(hop.node), radio_at(path[number + 1].node));
                    Next::Air { link, from, to }
                }
                Onward::Link(link) => Next::Wire(link),
            };
            self.0.push(Step { tap: hop.tap, next, node: hop.node });
        }
        first
    }

    #[inline]
    pub(crate) fn get(&self, index: HopIndex) -> &Step {
        &self.0[index.0 as usize]
    }

    /// The hop of `tap` on the path that begins at `first`.
    pub(crate) fn of_tap(&self, first: HopIndex, tap: TapId) -> Option<HopIndex> {
        let mut index = first;
        loop {
            let hop = self.get(index);
            if hop.tap == Some(tap) {
                return Some(index);
            }
            if hop.next == Next::Out {
                return None;
            }
            index = index.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATION: NodeId = NodeId::Station(StationId(0));

    #[test]
    fn a_tap_is_found_on_its_own_path_only() {
        let mut hops = Hops::default();
        let is_air = |link| link == LinkId(0);
        let first = [
            Hop { node: NodeId::Correspondent, tap: None, onward: Onward::Link(LinkId(1)) },
            Hop { node: NodeId::BaseStation, tap: Some(TapId(0)), onward: Onward::Link(LinkId(0)) },
            Hop { node: STATION, tap: None, onward: Onward::Out },
        ];
        let first = hops.add(&first, is_air);
        let second = [
            Hop { node: STATION, tap: Some(TapId(1)), onward: Onward::Link(LinkId(0)) },
            Hop { node: NodeId::BaseStation, tap: None, onward: Onward::Out },
        ];
        let second = hops.add(&second, is_air);
        assert_eq!(hops.of_tap(first, TapId(0)), Some(first.next()));
        assert_eq!(hops.of_tap(first, TapId(1)), None);
        assert_eq!(hops.of_tap(second, TapId(1)), Some(second));
        assert_eq!(hops.get(first.next().next()).node, STATION);
        let (from, to) = (RadioId::BASE_STATION, RadioId::from(StationId(0)));
        assert_eq!(hops.get(first.next()).next, Next::Air { link: LinkId(0), from, to });
        assert_eq!(hops.get(first).next, Next::Wire(LinkId(1)));
    }

    #[test]
    #[should_panic(expected = "leads out")]
    fn a_path_that_does_not_lead_out_is_refused() {
        let path = [Hop { node: STATION, tap: None, onward: Onward::Link(LinkId(0)) }];
        Hops::default().add(&path, |_| true);
    }
}
