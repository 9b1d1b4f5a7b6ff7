//! The network of one cell: correspondents on a wire, a base station, stations on the air.
//!
//! ```text
//! correspondent ─ wire down ─► base station ─┐
//!       ▲                                    ├─ air ─ stations
//!       └──────── wire up ◄── base station ──┘
//! ```
//! A mechanism may tap any node. Several at one node stand in the order given, from the wire to the radio,
//! and each of a station's packets passes all of them.

use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::StationId;
use linkhold_core::time::Duration;
use linkhold_radio::{Air, WiredPipe};

use crate::link::{AirLink, Link};
use crate::network::Network;
use crate::path::{Hop, LinkId, NodeId, Onward, Route, TapId};
use crate::tap::Tap;

/// The air's number in a cell: the link that is added first.
pub const AIR: LinkId = LinkId(0);

/// The parts of a cell before they are a network.
pub struct Cell {
    air: Air,
    stations: u32,
    wire_down: WiredPipe,
    wire_up: WiredPipe,
    taps: Vec<PlannedTap>,
    queue_visible: bool,
}

struct PlannedTap {
    node: NodeId,
    mechanism: Box<dyn Mechanism>,
    signal_delay: Duration,
}

impl Cell {
    /// A cell of plain routers and hosts.
    #[must_use]
    pub fn new(air: Air, stations: u32, wire_down: WiredPipe, wire_up: WiredPipe) -> Self {
        Self { air, stations, wire_down, wire_up, taps: Vec::new(), queue_visible: true }
    }

    /// Puts a mechanism at a node, where it hears the radio's events as they happen. Of several at one node,
    /// the one added last stands next to the radio.
    #[must_use]
    pub fn tap(self, node: NodeId, mechanism: Box<dyn Mechanism>) -> Self {
        self.tap_told_late(node, mechanism, Duration::ZERO)
    }

    /// As [`tap`](Self::tap), but the mechanism hears every event of the radio `signal_delay` late.
    #[must_use]
    pub fn tap_told_late(
        mut self,
        node: NodeId,
        mechanism: Box<dyn Mechanism>,
        signal_delay: Duration,
    ) -> Self {
        self.taps.push(PlannedTap { node, mechanism, signal_delay });
        self
    }

    /// No mechanism hears of room in the base station's queue or gets packets back from it, as with most
    /// real drivers.
    #[must_use]
    pub fn with_hidden_queue(mut self) -> Self {
        self.queue_visible = false;
        self
    }

    /// The network cut open at the base station, where something outside (a kernel) forwards packets from the
    /// wire to the air and back. The stations' routes cross only the air; the route returned beside the
    /// network crosses only the wire.
    ///
    /// # Panics
    /// If a mechanism was put at a node: the mechanisms of an open cell stand outside the network.
    #[must_use]
    pub fn build_open(self) -> (Network, Route) {
        let Self { air, stations, wire_down, wire_up, taps, queue_visible: _ } = self;
        assert!(taps.is_empty(), "the mechanisms of an open cell stand outside");
        let (mut network, [air, down, up]) = links(air, stations, wire_down, wire_up);
        let over = |network: &mut Network, from: NodeId, link: LinkId, to: NodeId| {
            let first = Hop { node: from, tap: None, onward: Onward::Link(link) };
            network.add_path(&[first, Hop { node: to, tap: None, onward: Onward::Out }])
        };
        let wire = Route {
            down: over(&mut network, NodeId::Correspondent, down, NodeId::BaseStation),
            up: over(&mut network, NodeId::BaseStation, up, NodeId::Correspondent),
        };
        for station in (0..stations).map(|station| NodeId::Station(StationId(station))) {
            let down = over(&mut network, NodeId::BaseStation, air, station);
            let up = over(&mut network, station, air, NodeId::BaseStation);
            network.add_route(Route { down, up });
        }
        (network, wire)
    }

    /// The network, with a route for every station.
    #[must_use]
    pub fn build(self) -> Network {
        let Self { air, stations, wire_down, wire_up, taps, queue_visible } = self;
        let (mut network, [air, down, up]) = links(air, stations, wire_down, wire_up);
        // Only the tap next to the radio sees the queue. If another took packets back, the taps between it
        // and the radio would see them twice.
        let next_to_radio = taps.iter().rposition(|planned| planned.node == NodeId::BaseStation);
        let mut at_node: Vec<(NodeId, TapId)> = Vec::with_capacity(taps.len());
        for (number, planned) in taps.into_iter().enumerate() {
            let mut tap = Tap::new(planned.mechanism, planned.node, air);
            if queue_visible && next_to_radio == Some(number) {
                tap = tap.seeing_queue_of(network.radio(air).air());
            }
            at_node.push((planned.node, network.add_tap(tap.with_signal_delay(planned.signal_delay))));
        }
        // Sorted, so that each station's taps are found without a walk over all of them. The sort is stable,
        // so the taps of one node keep their order.
        at_node.sort_by_key(|&(node, _)| rank(node));
        let taps_at = |node: NodeId| {
            let from = at_node.partition_point(|&(other, _)| rank(other) < rank(node));
            let to = at_node.partition_point(|&(other, _)| rank(other) <= rank(node));
            &at_node[from..to]
        };
        let mut path = Vec::new();
        for station in (0..stations).map(StationId) {
            let nodes = [NodeId::Correspondent, NodeId::BaseStation, NodeId::Station(station)];
            path.clear();
            for (node, onward) in nodes.into_iter().zip([Onward::Link(down), Onward::Link(air), Onward::Out])
            {
                push_hops(&mut path, node, taps_at(node).iter().map(|&(_, tap)| tap), onward);
            }
            let down = network.add_path(&path);
            path.clear();
            let onwards = [Onward::Link(air), Onward::Link(up), Onward::Out];
            for (node, onward) in nodes.into_iter().rev().zip(onwards) {
                push_hops(&mut path, node, taps_at(node).iter().rev().map(|&(_, tap)| tap), onward);
            }
            let up = network.add_path(&path);
            network.add_route(Route { down, up });
        }
        network
    }
}

/// A network of a cell's links: the air, the wire down and the wire up.
fn links(air: Air, stations: u32, wire_down: WiredPipe, wire_up: WiredPipe) -> (Network, [LinkId; 3]) {
    let mut network = Network::new();
    let air = network.add_link(Link::Air(Box::new(AirLink::new(air, stations))));
    debug_assert_eq!(air, AIR, "the air is added first");
    let (down, up) = (network.add_link(wire_down), network.add_link(wire_up));
    (network, [air, down, up])
}

/// A node's place in a total order of all nodes.
fn rank(node: NodeId) -> u64 {
    match node {
        NodeId::Correspondent => 0,
        NodeId::BaseStation => 1,
        NodeId::Station(station) => 2 + u64::from(station.0),
    }
}

/// Adds the hops at one node: one for each tap, or one without.
fn push_hops(path: &mut Vec<Hop>, node: NodeId, taps: impl ExactSizeIterator<Item = TapId>, onward: Onward) {
    let count = taps.len();
    for (number, tap) in taps.enumerate() {
        let onward = if number + 1 == count { onward } else { Onward::Here };
        path.push(Hop { node, tap: Some(tap), onward });
    }
    if count == 0 {
        path.push(Hop { node, tap: None, onward });
    }
}
