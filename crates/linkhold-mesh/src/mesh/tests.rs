//! The queue of messages and the counters, on nodes whose radios do nothing by themselves.

use std::sync::Arc;

use linkhold_radio::AirEvent;
use linkhold_radio::dcf::{DcfConfig, Environment, Phy, Sent};
use linkhold_radio::spectrum::{
    Bands, ChannelLog, CycleConfig, DetectionOdds, Policy, Propagation, PuLog, SensingModel,
};

use super::*;
use crate::config::{Channels, Movement, OwnChannels, SpectrumConfig, Users, WorkingChannel};
use crate::mobility::Area;
use crate::node::Point;
use crate::places::Reach;
use crate::routing::message::{Beacon, RouteError};

/// Three nodes in a line, 200 m apart, with AODV.
fn three_nodes(channels: Channels) -> Mesh {
    let places = [100.0, 300.0, 500.0].map(|x| Point { x, y: 100.0 });
    let config = MeshConfig {
        nodes: 3,
        area: Area::new(1000.0, 1000.0).expect("an area"),
        movement: Movement::Standing(places.to_vec()),
        reach: Reach {
            power: 0.1,
            propagation: Propagation::default(),
            transmission: 250.0,
            carrier_sense: 550.0,
        },
        dcf: DcfConfig::new(Phy::Ieee80211b),
        queue: 50,
        routing: Routing::Aodv,
        local_repair: false,
        routes_told: false,
        channels,
    };
    Mesh::new(&config, 1).expect("a mesh")
}

fn one_channel() -> Channels {
    Channels::Own(BitRate::from_mbps(2))
}

/// So many channels, of which each node has one.
fn homes(channels: u16) -> Channels {
    let bands = Bands::new(channels, 1).expect("bands");
    let log = ChannelLog::heterogeneous(bands, BitRate::from_mbps(1), 0.0, 0.0).expect("channels");
    let users = PuLog::parse(b"1 900 900 1 0.0000001\n1 0 0.001\n", None).expect("a log");
    Channels::Shared(Box::new(SpectrumConfig {
        log: Arc::new(log),
        cycle: CycleConfig {
            sensing: Duration::from_millis(100),
            transmitting: Duration::from_millis(400),
            switching_delay: Duration::from_millis(10),
        },
        sensing: SensingModel::Fixed(DetectionOdds::PERFECT),
        policy: Policy::RoundRobin,
        users: Users::Log(Arc::new(users)),
        working: WorkingChannel::Own(OwnChannels::new()),
    }))
}

#[test]
fn a_queue_takes_as_many_broadcasts_on_many_channels_as_on_one() {
    for (channels, copies) in [(one_channel(), 1_usize), (homes(16), 16)] {
        let mut mesh = three_nodes(channels);
        let nodes = &mut mesh.nodes;
        let mut broadcast = || {
            let (message, after) = (Message::Beacon(Beacon { free_channels: 1 }), Duration::ZERO);
            nodes.actions.push(RouteAction::Control { message, to: None, channel: None, after });
            nodes.act(Instant::ZERO, Node(0));
            (nodes.states[0].messages.len(), nodes.counters.messages_dropped)
        };
        for count in 1..=MAX_MESSAGES {
            assert_eq!(broadcast(), (count * copies, 0));
        }
        assert_eq!(broadcast(), (MAX_MESSAGES * copies, copies as u64));
        assert_eq!(mesh.packets_inside(), MAX_MESSAGES * copies, "what is dropped is gone");
    }
}

#[test]
fn messages_that_are_taken_back_were_not_sent() {
    let mut mesh = three_nodes(one_channel());
    let nodes = &mut mesh.nodes;
    let send = |nodes: &mut Nodes, to: Option<Node>| {
        let message = Message::Error(RouteError::new());
        nodes.send_message(Instant::ZERO, Node(0), message, (to, None), Duration::ZERO);
    };
    for _ in 0..3 {
        send(nodes, Some(Node(1)));
    }
    let first = nodes.take(Instant::ZERO, 0).expect("there are three");
    nodes.sent(Instant::ZERO, 0, first, Sent::GaveUp { arrived: false });
    assert!(nodes.states[0].messages.is_empty(), "the router has the other two back");
    assert_eq!((nodes.counters.given_up, nodes.counters.route_messages), (1, 1));
    send(nodes, None);
    let second = nodes.take(Instant::ZERO, 0).expect("a broadcast");
    nodes.sent(Instant::ZERO, 0, second, Sent::Broadcast);
    assert_eq!(nodes.counters.route_messages, 2);
}

/// A packet of node 0 for node 2, on the air.
fn packet(nodes: &mut Nodes) -> PacketId {
    let [from, to] = [0, 2].map(|node| RadioId::from(StationId(node)));
    let (packet, len, headers) = (PacketId(7), 1040, 40);
    let frame = Frame { packet, from, to, len, headers, flow_hash: 0, ecn_capable: false };
    nodes.packets.insert(Packet {
        cargo: Cargo::Data(frame),
        source: Node(0),
        destination: Node(2),
        to: None,
        channel: None,
        since: Instant::ZERO,
        hops: 0,
        arrived: false,
    })
}

#[test]
fn a_packet_that_finds_no_route_is_not_forwarded() {
    let mut mesh = three_nodes(one_channel());
    let nodes = &mut mesh.nodes;
    let lost = packet(nodes);
    nodes.data_received(Instant::ZERO, Node(1), Node(0), lost);
    let told: Vec<AirEvent> = nodes.out.drain().collect();
    assert!(matches!(told[..], [AirEvent::Dropped { reason: AirDrop::NoRoute, .. }]), "{told:?}");
    assert_eq!(nodes.counters.forwarded, 0);
    let passed_on = packet(nodes);
    nodes.data_received(Instant::ZERO, Node(2), Node(1), passed_on);
    assert_eq!(nodes.counters.forwarded, 1);
}
