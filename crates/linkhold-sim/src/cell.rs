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
use crate::watcher::Watcher;

/// The air's number in a cell: the link that is added first.
pub const AIR: LinkId = LinkId(0);

/// The parts of a cell before they are a network.
pub struct CellBuilder {
    air: Air,
    stations: u32,
    wire_down: WiredPipe,
    wire_up: WiredPipe,
    taps: Vec<PlannedTap>,
    queue_visible: bool,
    host_delay: Duration,
}

struct PlannedTap {
    node: NodeId,
    mechanism: Box<dyn Mechanism>,
    signal_delay: Duration,
}

impl CellBuilder {
    /// A cell of plain routers and hosts.
    #[must_use]
    pub fn new(air: Air, stations: u32, wire_down: WiredPipe, wire_up: WiredPipe) -> Self {
        Self {
            air,
            stations,
            wire_down,
            wire_up,
            taps: Vec::new(),
            queue_visible: false,
            host_delay: Duration::ZERO,
        }
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

    /// The mechanism next to the radio hears of room in the base station's queue and can get packets back
    /// from it; most real drivers offer neither.
    #[must_use]
    pub fn with_visible_queue(mut self) -> Self {
        self.queue_visible = true;
        self
    }

    /// What a station's host sends takes `delay` to its radio, and to the mechanisms at the station.
    #[must_use]
    pub fn with_host_delay(mut self, delay: Duration) -> Self {
        self.host_delay = delay;
        self
    }

    /// The network cut open at the base station, where something outside (a kernel) forwards packets from the
    /// wire to the air and back. The stations' routes cross only the air; the route returned beside the
    /// network crosses only the wire.
    ///
    /// Mechanisms may stand at stations: in the radio, below the station's own kernel. They only watch there:
    /// the network carries the kernel's packets, of which it has no more than the headers, so of a mechanism
    /// it takes nothing but requests to the radio.
    ///
    /// # Panics
    /// If a mechanism was put at another node: what decides over packets or senders stands outside the
    /// network.
    #[must_use]
    pub fn build_open(self) -> (Network, Route) {
        let Self { air, stations, wire_down, wire_up, taps, queue_visible: _, host_delay: _ } = self;
        let (mut network, [air, down, up]) = links(air, stations, wire_down, wire_up);
        let mut placed = PlacedTaps::default();
        for PlannedTap { node, mechanism, signal_delay } in taps {
            assert!(
                node.station().is_some(),
                "in an open cell a mechanism stands at a station, not at {node:?}"
            );
            let tap = Tap::new(Box::new(Watcher::new(mechanism)), node, air).with_signal_delay(signal_delay);
            placed.add(node, network.add_tap(tap));
        }
        placed.sort();
        let plain = |node: NodeId, onward: Onward| Hop { node, tap: None, onward };
        let wire = Route {
            down: network.add_path(&[
                plain(NodeId::Correspondent, Onward::Link(down)),
                plain(NodeId::BaseStation, Onward::Out),
            ]),
            up: network.add_path(&[
                plain(NodeId::BaseStation, Onward::Link(up)),
                plain(NodeId::Correspondent, Onward::Out),
            ]),
        };
        let mut path = Vec::new();
        for station in (0..stations).map(|station| NodeId::Station(StationId(station))) {
            path.clear();
            path.push(plain(NodeId::BaseStation, Onward::Link(air)));
            push_hops(&mut path, station, placed.at(station), Onward::Out);
            let down = network.add_path(&path);
            path.clear();
            push_hops(&mut path, station, placed.at(station).rev(), Onward::Link(air));
            path.push(plain(NodeId::BaseStation, Onward::Out));
            let up = network.add_path(&path);
            network.add_route(Route { down, up });
        }
        (network, wire)
    }

    /// The network, with a route for every station.
    #[must_use]
    pub fn build(self) -> Network {
        let Self { air, stations, wire_down, wire_up, taps, queue_visible, host_delay } = self;
        let (mut network, [air, down, up]) = links(air, stations, wire_down, wire_up);
        // Only the tap next to the radio sees the queue. If another took packets back, the taps between it
        // and the radio would see them twice.
        let next_to_radio = taps.iter().rposition(|planned| planned.node == NodeId::BaseStation);
        let mut placed = PlacedTaps::default();
        for (number, planned) in taps.into_iter().enumerate() {
            let mut tap = Tap::new(planned.mechanism, planned.node, air);
            if queue_visible && next_to_radio == Some(number) {
                tap = tap.seeing_queue_of(network.radio(air).air());
            }
            placed.add(planned.node, network.add_tap(tap.with_signal_delay(planned.signal_delay)));
        }
        placed.sort();
        // One link for all hosts: what is sent later arrives later.
        let hosts =
            (!host_delay.is_zero()).then(|| network.add_link(WiredPipe::new(None, host_delay, u32::MAX)));
        let mut path = Vec::new();
        for station in (0..stations).map(StationId) {
            let nodes = [NodeId::Correspondent, NodeId::BaseStation, NodeId::Station(station)];
            path.clear();
            for (node, onward) in nodes.into_iter().zip([Onward::Link(down), Onward::Link(air), Onward::Out])
            {
                push_hops(&mut path, node, placed.at(node), onward);
            }
            let down = network.add_path(&path);
            path.clear();
            if let Some(hosts) = hosts {
                path.push(Hop { node: NodeId::Station(station), tap: None, onward: Onward::Link(hosts) });
            }
            let onwards = [Onward::Link(air), Onward::Link(up), Onward::Out];
            for (node, onward) in nodes.into_iter().rev().zip(onwards) {
                push_hops(&mut path, node, placed.at(node).rev(), onward);
            }
            let up = network.add_path(&path);
            network.add_route(Route { down, up });
        }
        network
    }
}

/// The taps of a cell by their nodes.
#[derive(Default)]
struct PlacedTaps(Vec<(NodeId, TapId)>);

impl PlacedTaps {
    fn add(&mut self, node: NodeId, tap: TapId) {
        self.0.push((node, tap));
    }

    /// Sorts the taps, so that each station's are found without a walk over all. The sort is stable, so the
    /// taps of one node keep their order.
    fn sort(&mut self) {
        self.0.sort_by_key(|&(node, _)| rank(node));
    }

    /// The taps at a node, from the wire to the radio (or, at a station, on to its host).
    fn at(&self, node: NodeId) -> impl DoubleEndedIterator<Item = TapId> + ExactSizeIterator + '_ {
        let from = self.0.partition_point(|&(other, _)| rank(other) < rank(node));
        let to = self.0.partition_point(|&(other, _)| rank(other) <= rank(node));
        self.0[from..to].iter().map(|&(_, tap)| tap)
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
pub(crate) fn push_hops(
    path: &mut Vec<Hop>,
    node: NodeId,
    taps: impl ExactSizeIterator<Item = TapId>,
    onward: Onward,
) {
    let count = taps.len();
    for (number, tap) in taps.enumerate() {
        let onward = if number + 1 == count { onward } else { Onward::Here };
        path.push(Hop { node, tap: Some(tap), onward });
    }
    if count == 0 {
        path.push(Hop { node, tap: None, onward });
    }
}
