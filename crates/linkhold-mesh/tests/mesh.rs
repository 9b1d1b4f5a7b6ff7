//! The mesh as a link: packets in at one node, out at another, each once.

mod driver;

use driver::{Driver, config, line, seconds, spectrum, walking};
use linkhold_core::link_event::{Cause, LinkEventKind};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_mesh::config::{Channels, Movement, Routing, Users};
use linkhold_mesh::places::Reach;
use linkhold_mesh::routing::Message;
use linkhold_mesh::{Mesh, MeshConfig, MeshError, Node, Point};
use linkhold_radio::dcf::{DcfConfig, Phy};
use linkhold_radio::spectrum::PuActivity;
use linkhold_radio::{AirDrop, DcfKind, MacFrame, RadioId};
use proptest::prelude::*;

#[test]
fn a_packet_finds_its_way_over_three_hops_and_back() {
    let mut driver = Driver::new(&config(&line(4), Routing::Aodv), 1);
    driver.send(0, 3);
    driver.run(seconds(1));
    assert_eq!(driver.delivered(), 1, "{:?}", driver.drops);
    assert_eq!(driver.mesh.path(driver.now, Node(0), Node(3)), [0, 1, 2, 3].map(Node));
    assert_eq!(driver.mesh.counters().forwarded, 2);
    let messages = driver.mesh.counters().route_messages;
    driver.send(3, 0);
    driver.run(seconds(2));
    assert_eq!(driver.delivered(), 2);
    assert_eq!(driver.mesh.counters().route_messages, messages, "the way back was known");
    assert_eq!(driver.mesh.packets_inside(), 0);
}

/// 0 asks, 1 passes the question on, 2 answers; then the packet. The first question reaches one hop only, and
/// each that reads a question with hops left repeats it.
#[test]
fn each_transmission_is_told_with_its_message() {
    let run = |tells: bool| {
        let mut driver = Driver::new(&config(&line(3), Routing::Aodv), 1);
        assert!(!tells || driver.mesh.tell_transmissions());
        driver.send(0, 2);
        driver.run(seconds(1));
        driver
    };
    let driver = run(true);
    let mut seen = Vec::new();
    for (one, message) in &driver.transmitted {
        let MacFrame::Dcf(dcf) = one.mac else { panic!("{one:?}") };
        let node = |radio: RadioId| radio.station().expect("a node").0;
        let what = match (dcf.kind, message) {
            (DcfKind::Data, Some(Message::Request(_))) => "RREQ",
            (DcfKind::Data, Some(Message::Reply(_))) => "RREP",
            (DcfKind::Data, None) => "data",
            (DcfKind::Ack, None) => "ACK",
            (kind, message) => panic!("{kind:?} {message:?}"),
        };
        assert_eq!(one.packet.map(|packet| packet.0), (what == "data").then_some(0));
        assert_eq!(dcf.rate, BitRate::from_mbps(if one.to.is_none() || what == "ACK" { 1 } else { 2 }));
        seen.push((what, node(one.from), one.to.map(node)));
    }
    let first = seen.iter().position(|(what, ..)| *what == "RREP").expect("it is answered");
    assert!(seen[..first].iter().all(|(what, _, to)| *what == "RREQ" && to.is_none()), "{seen:?}");
    let expected = [("RREP", 2, Some(1)), ("ACK", 1, Some(2)), ("RREP", 1, Some(0)), ("ACK", 0, Some(1))];
    let rest: Vec<_> = seen[first..].iter().copied().filter(|(what, ..)| *what != "RREQ").collect();
    assert_eq!(rest[..4], expected, "{seen:?}");
    let packet = [("data", 0, Some(1)), ("ACK", 1, Some(0)), ("data", 1, Some(2)), ("ACK", 2, Some(1))];
    assert_eq!(rest[4..], packet, "{seen:?}");
    let silent = run(false);
    assert!(silent.transmitted.is_empty());
    assert_eq!(silent.arrivals, driver.arrivals);
}

#[test]
fn the_mac_publishes_its_channel_with_its_time() {
    let channels = spectrum(2, "1 100 100 1 10\n1 0 2\n");
    let mut driver = Driver::new(&MeshConfig { channels, ..config(&line(3), Routing::Aodv) }, 1);
    driver.send(0, 2);
    driver.run(seconds(1));
    let repository = driver.mesh.repository();
    // Sense, change, sense: 100 + 10 + 100 ms to the second band's channel.
    let channel = repository.channel(1).expect("the MAC has published it");
    assert_eq!((channel.value, channel.age(driver.now)), (1, seconds(1).since(Instant::from_millis(210))));
    assert_eq!(driver.mesh.channel_rate(channel.value), BitRate::from_mbps(1));
}

#[test]
fn a_channel_of_their_own_is_told_and_published_at_the_start() {
    let mut driver = Driver::new(&config(&line(2), Routing::Direct), 1);
    driver.run(seconds(1));
    let capacity = BitRate::from_mbps(2);
    let told = LinkEventKind::ChannelSwitched { capacity, efficiency: Fraction::ONE };
    assert_eq!(driver.told, [(Instant::ZERO, told)], "once");
    let published = driver.mesh.repository().channel(1).map(|channel| (channel.value, channel.at));
    assert_eq!(published, Some((0, Instant::ZERO)));
    assert_eq!(driver.mesh.next_event(), None);
}

/// 0, 1, 2, 3 in a line, and 4 beside 2. Node 2 or 4, whichever the route takes, leaves at 5 s; the other one
/// stays.
#[test]
fn a_source_is_told_when_its_router_loses_a_route_and_has_one_again() {
    let places = [(100.0, 100.0), (300.0, 100.0), (500.0, 100.0), (700.0, 100.0), (500.0, 200.0)];
    for routing in [Routing::Aodv, Routing::Search] {
        let still = MeshConfig { routes_told: true, ..config(&places, routing) };
        let mut driver = Driver::new(&still, 1);
        driver.send(0, 3);
        driver.run(seconds(4));
        let relay = driver.mesh.path(driver.now, Node(0), Node(3))[2];
        assert_eq!(driver.mesh.take_route_news(), None, "the first route is no news");
        let mut script = String::new();
        for (node, (x, y)) in places.iter().enumerate() {
            script.push_str(&format!("$node_({node}) set X_ {x}\n$node_({node}) set Y_ {y}\n"));
        }
        script.push_str(&format!("$ns_ at 5.0 \"$node_({}) setdest 500 1900 2000\"\n", relay.0));
        let leaves = MeshConfig { movement: Movement::Script(script.into()), ..still };
        let mut driver = Driver::new(&leaves, 1);
        let mut news = Vec::new();
        for tick in 0..120_u64 {
            // Nothing is sent from the loss on: the router seeks by itself.
            if news.is_empty() {
                driver.send(0, 3);
            }
            driver.run(Instant::from_millis(100 * (tick + 1)));
            while let Some(one) = driver.mesh.take_route_news() {
                news.push((driver.now, one.found));
                assert_eq!((one.source, one.destination), (Node(0), Node(3)));
            }
        }
        let [(lost, false), (found, true)] = news[..] else { panic!("{routing:?}: {news:?}") };
        assert!(lost > seconds(5) && lost < Instant::from_millis(5700), "{routing:?}: {lost:?}");
        assert!(found.since(lost) <= Duration::from_millis(1500), "{routing:?}: {found:?}");
        let path = driver.mesh.path(found, Node(0), Node(3));
        assert_eq!(path, [Node(0), Node(1), Node(6 - relay.0), Node(3)]);
    }
}

/// Ten packets wait for a neighbour that has gone: the MAC tries the first one only, and the router gets all
/// of them back. Where every destination is a neighbour, there is no router to find another way.
#[test]
fn what_waits_for_a_neighbour_that_is_gone_is_not_tried() {
    let leaves = "$node_(0) set X_ 100\n$node_(0) set Y_ 100\n$node_(1) set X_ 300\n$node_(1) set Y_ 100\n\
                  $ns_ at 5.0 \"$node_(1) setdest 300 1900 2000\"\n";
    for (routing, tried) in [(Routing::Aodv, 1), (Routing::Search, 1), (Routing::Direct, 10)] {
        let movement = Movement::Script(leaves.into());
        let mut driver = Driver::new(&MeshConfig { movement, ..config(&line(2), routing) }, 1);
        driver.send(0, 1);
        driver.run(Instant::from_millis(4900));
        assert_eq!(driver.delivered(), 1, "{routing:?}: the route is known");
        driver.send(0, 1);
        driver.run(Instant::from_millis(5500));
        for _ in 0..10 {
            driver.send(0, 1);
        }
        driver.run(Instant::from_millis(6500));
        assert_eq!(driver.mesh.counters().given_up, tried, "{routing:?}");
        driver.run(seconds(60));
        assert_eq!((driver.delivered(), driver.drops.len()), (2, 10), "{routing:?}");
        assert_eq!(driver.mesh.packets_inside(), 0, "{routing:?}");
    }
}

#[test]
fn search_finds_the_same_way_from_places() {
    let mut driver = Driver::new(&config(&line(4), Routing::Search), 1);
    driver.send(0, 3);
    driver.run(seconds(5));
    assert_eq!(driver.delivered(), 1, "{:?}", driver.drops);
    assert_eq!(driver.mesh.path(driver.now, Node(0), Node(3)), [0, 1, 2, 3].map(Node));
}

#[test]
fn a_destination_out_of_reach_costs_packets_and_no_hang() {
    for routing in [Routing::Direct, Routing::Aodv, Routing::Search] {
        let mut driver =
            Driver::new(&config(&[(100.0, 100.0), (1900.0, 1900.0), (300.0, 100.0)], routing), 1);
        for _ in 0..100 {
            driver.send(0, 1);
        }
        driver.run(seconds(60));
        assert_eq!((driver.delivered(), driver.drops.len()), (0, 100), "{routing:?}");
        assert_eq!(driver.mesh.packets_inside(), 0, "{routing:?}");
        assert!(driver.mesh.next_event().is_none_or(|at| at > seconds(60)), "{routing:?}");
    }
}

#[test]
fn what_a_full_queue_cannot_take_is_dropped_at_once() {
    let mut driver = Driver::new(&config(&line(2), Routing::Direct), 1);
    for _ in 0..60 {
        driver.send(0, 1);
    }
    // One is with the radio, fifty wait.
    assert_eq!(driver.drops, [AirDrop::QueueFull; 9]);
    driver.run(seconds(2));
    assert_eq!(driver.delivered(), 51);
}

#[test]
fn nodes_sense_together_and_send_nothing_meanwhile() {
    // The only user is far from everybody.
    let channels = spectrum(2, "1 1900 1900 1 0.000001\n1 0 100\n");
    let mut driver = Driver::new(&MeshConfig { channels, ..config(&line(2), Routing::Direct) }, 1);
    for tick in 1..200_u64 {
        driver.send(0, 1);
        driver.run(Instant::from_millis(50 * tick));
    }
    let accounting = driver.mesh.accounting(seconds(10));
    assert!((accounting.silent_fraction() - 0.2).abs() < 0.011, "{}", accounting.silent_fraction());
    // 1 Mb/s outside silences.
    let share = accounting.capacity_bits as f64 / 10e6 + accounting.silent_fraction();
    assert!((share - 1.0).abs() < 1e-6);
    assert!(driver.delivered() >= 197);
    let in_silence =
        driver.arrivals.iter().filter(|(at, _)| at.as_nanos() % 500_000_000 < 100_000_000).count();
    assert_eq!(in_silence, 0, "{:?}", driver.arrivals);
    assert_eq!(driver.mesh.counters().handoffs, 0);
}

#[test]
fn a_user_that_is_heard_drives_the_nodes_to_the_next_band() {
    // Band 1 is taken for 5 s, band 2 for ever; band 3 is free.
    let log = "1 100 100 1 10\n2 100 100 2 10\n1 0 5\n2 0 1000\n";
    let channels = spectrum(3, log);
    let mut driver = Driver::new(&MeshConfig { channels, ..config(&line(2), Routing::Direct) }, 1);
    driver.send(0, 1);
    driver.run(seconds(4));
    assert_eq!((driver.delivered(), driver.mesh.map(driver.now).band), (1, 2));
    // Sense, change, sense, change, sense: 3 x 100 + 2 x 10 ms.
    assert!(driver.arrivals[0].0 > Instant::from_millis(320));
    let causes: Vec<(bool, Cause)> = driver
        .told
        .iter()
        .filter_map(|(_, kind)| match kind {
            LinkEventKind::FreezeStarted { cause, .. } => Some((true, *cause)),
            LinkEventKind::FreezeEnded { cause, .. } => Some((false, *cause)),
            _ => None,
        })
        .take(10)
        .collect();
    use Cause::{ChannelSwitch, Sensing};
    let search = [
        (true, Sensing),
        (true, ChannelSwitch),
        (false, Sensing),
        (true, Sensing),
        (false, ChannelSwitch),
        (true, ChannelSwitch),
        (false, Sensing),
        (true, Sensing),
        (false, ChannelSwitch),
        (false, Sensing),
    ];
    assert_eq!(causes, search, "one silence begins before the other ends");
    assert_eq!(driver.mesh.counters().handoffs, 1);
}

/// Band 2 is taken for ever, and band 1 for a second: the search goes round, and ends where it began.
#[test]
fn a_search_that_ends_where_it_began_is_no_handoff() {
    let channels = spectrum(2, "1 100 100 1 10\n2 100 100 2 10\n1 0 1\n2 0 1000\n");
    let mut driver = Driver::new(&MeshConfig { channels, ..config(&line(2), Routing::Direct) }, 1);
    driver.send(0, 1);
    driver.run(seconds(4));
    assert_eq!((driver.delivered(), driver.mesh.map(driver.now).band), (1, 0));
    // Eleven times 100 ms of sensing, with ten changes of 10 ms between them.
    assert!(driver.arrivals[0].0 > Instant::from_millis(1200), "{:?}", driver.arrivals);
    assert_eq!(driver.mesh.counters().handoffs, 0);
}

#[test]
fn users_on_every_band_leave_the_nodes_silent_and_nothing_hangs() {
    let channels = spectrum(2, "1 100 100 1 10\n2 100 100 2 10\n1 0 1000\n2 0 1000\n");
    let mut driver = Driver::new(&MeshConfig { channels, ..config(&line(2), Routing::Direct) }, 1);
    driver.send(0, 1);
    driver.run(seconds(100));
    assert_eq!(driver.delivered(), 0);
    assert!(driver.mesh.is_silent(StationId(0)));
    assert!((driver.mesh.accounting(seconds(100)).silent_fraction() - 1.0).abs() < 1e-9);
    assert_eq!(driver.mesh.packets_inside(), 1);
}

#[test]
fn a_user_that_nobody_senses_disturbs_receptions() {
    // It begins just after the nodes have sensed, and ends before they do again.
    let channels = spectrum(1, "1 200 100 1 10\n1 0.11 0.49\n");
    let mut driver = Driver::new(&MeshConfig { channels, ..config(&line(2), Routing::Direct) }, 1);
    driver.run(Instant::from_millis(120));
    driver.send(0, 1);
    driver.run(Instant::from_millis(480));
    assert_eq!(driver.delivered(), 0);
    assert!(driver.mesh.counters().given_up >= 1, "seven tries fit into the burst");
    assert_eq!(driver.drops, [AirDrop::RetryLimit]);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let right = config(&line(2), Routing::Direct);
    let refused = |config: MeshConfig| Mesh::new(&config, 1).expect_err("it is wrong");
    assert_eq!(refused(MeshConfig { nodes: 1, ..right.clone() }), MeshError::TooFew);
    assert_eq!(refused(MeshConfig { nodes: 3, ..right.clone() }), MeshError::Places { places: 2, nodes: 3 });
    let far = Reach { transmission: 600.0, ..right.reach };
    let text = refused(MeshConfig { reach: far, ..right.clone() }).to_string();
    assert_eq!(text, "frames would be read at 600 m, but keep others from sending at 550 m only");
    let dcf = DcfConfig::new(Phy::Ieee80211a);
    assert_eq!(refused(MeshConfig { dcf, ..right.clone() }), MeshError::Rate(BitRate::from_mbps(2)));
    let outside = Movement::Standing(vec![Point { x: -1.0, y: 0.0 }, Point { x: 0.0, y: 0.0 }]);
    assert!(matches!(refused(MeshConfig { movement: outside, ..right }), MeshError::Mobility(_)));
}

fn moving(nodes: u32, routing: Routing, shared: bool) -> MeshConfig {
    let channels = if shared {
        let Channels::Shared(mut spectrum) = spectrum(3, "1 0 0 1 1\n1 0 1\n") else { unreachable!() };
        spectrum.users = Users::Drawn {
            activity: PuActivity::new(0.5, 0.5).expect("rates"),
            per_band: 1,
            spread: 1000.0,
            range: 500.0,
            duration: Duration::from_secs(30),
        };
        Channels::Shared(spectrum)
    } else {
        Channels::Own(BitRate::from_mbps(2))
    };
    walking(nodes, routing, channels)
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(120))]

    /// Whatever moves and disturbs, each packet is delivered once or dropped once, and none stays for ever.
    #[test]
    fn every_packet_has_one_fate(
        seed in 0u64..1000,
        nodes in 2u32..20,
        shared: bool,
        search: bool,
        sends in proptest::collection::vec((0u32..20, 0u32..20, 1u64..40), 1..150),
    ) {
        let routing = if search { Routing::Search } else { Routing::Aodv };
        let mut driver = Driver::new(&moving(nodes, routing, shared), seed);
        driver.scatter(nodes, &sends);
        driver.each_has_one_fate()?;
        prop_assert_eq!(driver.mesh.packets_inside(), 0);
    }

    /// The same seed gives the same run; another does not move the users' radio alone.
    #[test]
    fn one_seed_is_one_run(seed in 0u64..1000) {
        let run = || {
            let mut driver = Driver::new(&moving(12, Routing::Aodv, true), seed);
            for tick in 1..200_u64 {
                driver.send((tick % 12) as u32, ((tick * 7 + 1) % 12) as u32);
                driver.run(Instant::from_millis(20 * tick));
            }
            (driver.arrivals, driver.mesh.counters())
        };
        prop_assert_eq!(run(), run());
    }
}
