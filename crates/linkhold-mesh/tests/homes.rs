//! Nodes that choose a channel each, in a running mesh.

mod driver;

use driver::{Driver, config, line, seconds, spectrum, walking};
use linkhold_core::link_event::{Cause, LinkEventKind, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_mesh::config::{Channels, OwnChannels, Routing, Users, WorkingChannel};
use linkhold_mesh::routing::Message;
use linkhold_mesh::{MeshConfig, MeshError, Node};
use linkhold_radio::spectrum::{Band, DetectionOdds, Propagation, PuActivity, PuLog, SensingModel};
use linkhold_radio::{DcfKind, MacFrame};
use proptest::prelude::*;

/// Nobody owns anything.
const NOBODY: &str = "1 1900 1900 1 0.0000001\n1 0 0.001\n";

/// Bands as a log says, in which each node has a channel: `homes` at first.
fn own(bands: u16, log: &str, homes: &[u32]) -> Channels {
    let Channels::Shared(mut spectrum) = spectrum(bands, log) else { unreachable!() };
    spectrum.working = WorkingChannel::Own(OwnChannels { homes: homes.to_vec(), ..OwnChannels::new() });
    Channels::Shared(spectrum)
}

fn mesh(places: &[(f64, f64)], routing: Routing, channels: Channels) -> MeshConfig {
    MeshConfig { channels, ..config(places, routing) }
}

/// Keeps the queue of `from` filled for `to` until `until`.
fn saturate(driver: &mut Driver, pairs: &[(u32, u32)], until: Instant) {
    let mut at = driver.now;
    while at < until {
        for &(from, to) in pairs {
            driver.send(from, to);
        }
        at += Duration::from_millis(5);
        driver.run(at);
    }
}

/// Packets that arrived from a time on.
fn arrived_since(driver: &Driver, from: Instant) -> usize {
    driver.arrivals.iter().filter(|(at, _)| *at >= from).count()
}

#[test]
fn each_node_is_silent_alone_and_by_its_own_clock() {
    let mut driver = Driver::new(&mesh(&line(3), Routing::Direct, own(2, NOBODY, &[0, 0, 0])), 1);
    driver.run(seconds(10));
    let mut starts: Vec<Vec<Instant>> = vec![Vec::new(); 3];
    for (at, kind) in &driver.told {
        match kind {
            LinkEventKind::FreezeStarted { scope: Scope::Station(station), cause, expected } => {
                assert_eq!((*cause, *expected), (Cause::Sensing, Some(Duration::from_millis(100))));
                starts[station.0 as usize].push(*at);
            }
            LinkEventKind::FreezeEnded { scope, .. } => assert_ne!(*scope, Scope::Network),
            LinkEventKind::ChannelSwitched { capacity, .. } => {
                assert_eq!(
                    (*capacity, *at),
                    (BitRate(0), Instant::ZERO),
                    "a sender's rate is its receivers'"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    for own in &starts {
        assert!(own.len() >= 19 && own[0] < Instant::from_millis(500), "{own:?}");
        assert!(own.windows(2).all(|pair| pair[1].since(pair[0]) == Duration::from_millis(500)));
    }
    assert!(starts[0][0] != starts[1][0] && starts[1][0] != starts[2][0]);
    let accounting = driver.mesh.accounting(seconds(10));
    for node in 0..3 {
        let share = accounting.station_silent[node].as_secs_f64() / 10.0;
        assert!((share - 0.2).abs() < 0.011, "{share}");
        // 1 Mb/s at home, unless silent.
        let capacity = accounting.station_capacity_bits[node] as f64 / 10e6;
        assert!((capacity + share - 1.0).abs() < 1e-6, "{capacity} {share}");
    }
    assert!(accounting.network_silent < Duration::from_secs(2), "all at once is rarer");
}

/// 0 and 1 talk on one channel and 2 and 3 on another, all in reach of each other.
#[test]
fn two_pairs_on_two_channels_carry_more_than_on_one() {
    let places = [(100.0, 100.0), (200.0, 100.0), (100.0, 200.0), (200.0, 200.0)];
    let carried = |homes: &[u32]| {
        let mut driver = Driver::new(&mesh(&places, Routing::Direct, own(2, NOBODY, homes)), 1);
        saturate(&mut driver, &[(0, 1), (2, 3)], seconds(20));
        arrived_since(&driver, seconds(2)) as f64 / 18.0
    };
    let (together, apart) = (carried(&[0, 0, 0, 0]), carried(&[0, 0, 1, 1]));
    assert!(apart > 1.5 * together, "{apart} packets a second on two channels, {together} on one");
    // Who sends on another channel than its own is there and back for each packet, and listens at home for as
    // long.
    let visits = carried(&[0, 1, 1, 0]);
    assert!(visits > 0.5 * together && visits < 0.8 * apart, "{visits}, {apart} without visits");
}

#[test]
fn a_channel_is_heard_on_its_neighbours_and_not_read_there() {
    let places = [(100.0, 100.0), (200.0, 100.0), (100.0, 200.0), (200.0, 200.0)];
    let carried = |bands: u16, per_band: u16, homes: &[u32]| {
        let Channels::Shared(mut spectrum) = own(1, NOBODY, homes) else { unreachable!() };
        let bands = linkhold_radio::spectrum::Bands::new(bands, per_band).expect("bands");
        let log = linkhold_radio::spectrum::ChannelLog::heterogeneous(bands, BitRate::from_mbps(1), 0.0, 0.0);
        spectrum.log = std::sync::Arc::new(log.expect("channels"));
        // Few beacons, which go to the channels between.
        spectrum.cycle.transmitting = Duration::from_secs(5);
        let mut driver = Driver::new(&mesh(&places, Routing::Direct, Channels::Shared(spectrum)), 1);
        saturate(&mut driver, &[(0, 1), (2, 3)], seconds(10));
        arrived_since(&driver, seconds(2)) as f64 / 8.0
    };
    let same = carried(1, 4, &[0, 0, 0, 0]);
    let (beside, far) = (carried(1, 4, &[0, 0, 1, 1]), carried(1, 4, &[0, 0, 3, 3]));
    assert!(far > 1.5 * same && beside < 1.2 * same, "{same} on one, {beside} beside, {far} three apart");
}

/// The nodes are on three channels; requests, answers and packets cross them.
#[test]
fn routes_are_found_over_nodes_on_different_channels() {
    for routing in [Routing::Aodv, Routing::Search] {
        let config = mesh(&line(5), routing, own(3, NOBODY, &[0, 2, 1, 2, 0]));
        let mut driver = Driver::new(&config, 1);
        // Beacons first.
        driver.run(seconds(2));
        for tick in 0..20 {
            driver.send(0, 4);
            driver.run(seconds(2) + Duration::from_millis(250 * (tick + 1)));
        }
        driver.run(seconds(12));
        assert!(driver.delivered() >= 18, "{routing:?}: {} {:?}", driver.delivered(), driver.drops);
        assert_eq!(driver.mesh.path(driver.now, Node(0), Node(4)), [0, 1, 2, 3, 4].map(Node), "{routing:?}");
    }
}

#[test]
fn what_a_frame_and_a_beacon_tell_is_published_with_its_time() {
    // A primary user takes band 1 from node 0 for the first 3 s; nodes 1 and 2 do not notice it.
    let log = "1 100 100 1 0.05\n1 0 3\n";
    let mut driver = Driver::new(&mesh(&line(3), Routing::Direct, own(3, log, &[0, 0, 2])), 1);
    driver.run(seconds(2));
    assert_eq!((driver.mesh.repository().channel(0).map(|channel| channel.value)), Some(1));
    let of_node_1: Vec<u32> = driver.mesh.repository().neighbours(1).iter().map(|known| known.node).collect();
    assert_eq!(of_node_1, [0, 2]);
    let known = *driver.mesh.repository().neighbour(1, 0).expect("it was heard");
    let channel = known.channel.expect("its channel");
    assert!(channel.value == 1 && channel.age(driver.now) <= Duration::from_secs(1), "{known:?}");
    let free = known.free_channels.expect("its beacon");
    assert_eq!((free.value, free.age(driver.now) <= Duration::from_secs(1)), (0b110, true));
    let next = known.next_silence.expect("its next silence");
    assert!(next.value > next.at && next.value.since(next.at) <= Duration::from_millis(400), "{next:?}");
    let quality = known.quality.expect("how it came").value;
    let expected = Propagation::default().received(0.1, 200.0, 1.0);
    assert!((quality.received_power / expected - 1.0).abs() < 1e-9);
    assert!(driver.mesh.repository().neighbour(0, 2).is_none(), "400 m away");
    let of_2 = driver.mesh.repository().neighbour(1, 2).and_then(|known| known.free_channels);
    assert_eq!(of_2.map(|free| free.value), Some(0b111));
}

/// Node 1 changes channel while node 0 sends to it. What node 0 knows is wrong until node 1's next beacon.
#[test]
fn a_neighbour_that_changed_channel_costs_retries_until_it_is_heard_again() {
    // Heard by node 1 only, from 2 s on. What node 0 receives stands 10 dB above it.
    let log = "1 400 100 1 0.02\n1 2 1000\n";
    let mut driver = Driver::new(&mesh(&line(2), Routing::Direct, own(2, log, &[0, 0])), 1);
    saturate(&mut driver, &[(0, 1)], seconds(4));
    let homes = [0, 1].map(|node| driver.mesh.repository().channel(node).map(|channel| channel.value));
    assert_eq!((homes, driver.mesh.counters().handoffs), ([Some(0), Some(1)], 1));
    let between = |from: u64, to: u64| {
        driver.arrivals.iter().filter(|(at, _)| *at >= seconds(from) && *at < seconds(to)).count()
    };
    let (before, after) = (between(1, 2), between(3, 4));
    assert!(before > 50 && after > 20, "{before} packets in a second at home, {after} with visits");
}

#[test]
fn a_node_whose_channels_are_all_taken_is_silent_and_the_others_are_not() {
    // Heard by nodes 2 and 3 of four.
    let log = "1 800 100 1 0.25\n2 800 100 2 0.25\n1 0 1000\n2 0 1000\n";
    let mut driver = Driver::new(&mesh(&line(4), Routing::Aodv, own(2, log, &[0, 1, 0, 1])), 1);
    driver.run(seconds(2));
    driver.send(0, 1);
    driver.send(0, 3);
    driver.run(seconds(60));
    assert_eq!(driver.delivered(), 1, "{:?}", driver.drops);
    let silent = [0, 1, 2, 3].map(|node| driver.mesh.accounting(seconds(60)).station_silent[node]);
    assert!(silent[0] < Duration::from_secs(14) && silent[3] > Duration::from_secs(58), "{silent:?}");
    assert!(driver.mesh.is_silent(StationId(3)));
    assert!(driver.mesh.packets_inside() <= 4, "beacons of nodes 0 and 1");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refused = |channels: Channels| {
        let config = mesh(&line(2), Routing::Direct, channels);
        linkhold_mesh::Mesh::new(&config, 1).expect_err("it is wrong")
    };
    assert_eq!(refused(own(65, NOBODY, &[])), MeshError::TooManyChannels(65));
    assert_eq!(refused(own(2, NOBODY, &[0])), MeshError::Homes { homes: 1, nodes: 2 });
    let text = refused(own(2, NOBODY, &[0, 2])).to_string();
    assert_eq!(text, "there is no channel 2 to begin on; there are 2, counted from 0 over all bands");
}

/// A user of both bands in the middle of a grid, on for 0.6 s of every 2 s.
fn region() -> (String, PuLog) {
    let mut log = String::from("1 700 500 1 0.1\n2 700 500 2 0.1\n");
    for burst in 0..30 {
        let start = 2 * burst + 1;
        log.push_str(&format!("1 {start} {start}.6\n2 {start} {start}.6\n"));
    }
    let parsed = PuLog::parse(log.as_bytes(), None).expect("a log");
    (log, parsed)
}

/// 7 x 5 nodes, 200 m apart.
fn grid() -> Vec<(f64, f64)> {
    (0..35).map(|node| (100.0 + 200.0 * f64::from(node % 7), 100.0 + 200.0 * f64::from(node / 7))).collect()
}

/// Packets from the middle of the left side to that of the right, straight through the region; those who
/// carried them, and how many receptions of them a user was on for whom the receiver notices.
fn across(routing: Routing, seed: u64) -> (Vec<u32>, usize, usize, usize) {
    let (text, users) = region();
    let places = grid();
    let homes: Vec<u32> = (0..35).map(|node| node % 2).collect();
    let config = mesh(&places, routing, own(2, &text, &homes));
    let mut driver = Driver::new(&config, seed);
    assert!(driver.mesh.tell_transmissions());
    // Some bursts, to learn of the region.
    driver.run(seconds(20));
    for tick in 0..300_u64 {
        driver.send(14, 20);
        driver.run(seconds(20) + Duration::from_millis(100 * (tick + 1)));
    }
    driver.run(seconds(60));
    let threshold = config.reach.sensitivity();
    let noticed = |node: usize| -> Vec<Band> {
        let near = |user: &&linkhold_radio::spectrum::User| {
            let distance = (user.x - places[node].0).hypot(user.y - places[node].1);
            config.reach.propagation.received(user.power, distance, 1.0) >= threshold
        };
        users.users().iter().filter(near).map(|user| user.band).collect()
    };
    let mut carried: Vec<u32> = Vec::new();
    let (mut receptions, mut disturbed) = (0, 0);
    for (one, _) in &driver.transmitted {
        let (MacFrame::Dcf(dcf), Some(_), Some(to)) = (&one.mac, one.packet, one.to) else { continue };
        assert_eq!(dcf.kind, DcfKind::Data);
        let to = to.station().expect("a node").0;
        carried.push(to);
        receptions += 1;
        let end = one.since + Duration::from_millis(10);
        let on = |band: &Band| {
            usize::from(band.number()) == dcf.channel as usize + 1
                && users.any_on(*band, one.since, end, |_| true)
        };
        disturbed += usize::from(noticed(to as usize).iter().any(on));
    }
    carried.sort_unstable();
    carried.dedup();
    (carried, receptions, disturbed, driver.delivered())
}

/// The user is noticed within 250 m: by the nodes around the middle of the grid.
#[test]
fn search_goes_around_a_region_that_aodv_goes_through() {
    let inside = |node: &u32| {
        let (x, y) = grid()[*node as usize];
        (x - 700.0).hypot(y - 500.0) <= 250.0
    };
    for seed in 1..4 {
        let (search, receptions, disturbed, delivered) = across(Routing::Search, seed);
        assert!(!search.iter().any(inside), "seed {seed}: {search:?}");
        assert_eq!(disturbed, 0, "seed {seed}, of {receptions}");
        let (aodv, all, aodv_disturbed, aodv_delivered) = across(Routing::Aodv, seed);
        assert!(aodv.iter().any(inside), "seed {seed}: {aodv:?}");
        assert!(aodv_disturbed > 0, "seed {seed}, of {all}");
        assert!(delivered > aodv_delivered, "seed {seed}: {delivered}, AODV {aodv_delivered}");
    }
}

fn moving(nodes: u32, routing: Routing, per_band: u32) -> MeshConfig {
    let Channels::Shared(mut spectrum) = own(3, NOBODY, &[]) else { unreachable!() };
    spectrum.sensing = SensingModel::Fixed(DetectionOdds { detected_given_on: 0.9, alarm_given_off: 0.1 });
    spectrum.users = Users::Drawn {
        activity: PuActivity::new(0.5, 0.5).expect("rates"),
        per_band,
        spread: 1000.0,
        range: 300.0,
        duration: Duration::from_secs(30),
    };
    MeshConfig { local_repair: true, ..walking(nodes, routing, Channels::Shared(spectrum)) }
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(120))]

    /// Whatever moves and disturbs, each packet is delivered once or dropped once, and none stays for ever.
    #[test]
    fn every_packet_has_one_fate(
        seed in 0u64..1000,
        nodes in 2u32..16,
        search: bool,
        sends in proptest::collection::vec((0u32..16, 0u32..16, 1u64..40), 1..150),
    ) {
        let routing = if search { Routing::Search } else { Routing::Aodv };
        let mut driver = Driver::new(&moving(nodes, routing, 2), seed);
        driver.run(seconds(1));
        driver.scatter(nodes, &sends);
        driver.each_has_one_fate()?;
        // Beacons go on: of each node a copy for each of three channels, and one of the beacon before that
        // its MAC still has.
        prop_assert!(driver.mesh.packets_inside() <= 4 * nodes as usize);
    }

    /// The same seed gives the same run; silences do not depend on traffic.
    #[test]
    fn one_seed_is_one_run_and_silences_are_free_of_traffic(seed in 0u64..1000) {
        let run = |sends: bool| {
            let mut driver = Driver::new(&moving(10, Routing::Aodv, 1), seed);
            for tick in 1..150_u64 {
                if sends {
                    driver.send((tick % 10) as u32, ((tick * 7 + 1) % 10) as u32);
                }
                driver.run(Instant::from_millis(20 * tick));
            }
            (driver.arrivals, driver.mesh.counters(), driver.told)
        };
        let (one, again, idle) = (run(true), run(true), run(false));
        prop_assert_eq!(&one, &again);
        prop_assert_eq!(one.2, idle.2);
    }
}

#[test]
fn beacons_are_on_the_air_on_every_channel() {
    let mut driver = Driver::new(&mesh(&line(2), Routing::Direct, own(3, NOBODY, &[0, 1])), 1);
    assert!(driver.mesh.tell_transmissions());
    driver.run(seconds(5));
    let mut of_node_0 = [0; 3];
    for (one, message) in &driver.transmitted {
        let MacFrame::Dcf(dcf) = one.mac else { panic!("{one:?}") };
        assert!(matches!(message, Some(Message::Beacon(_))) && one.to.is_none(), "{one:?}");
        if one.from.station() == Some(StationId(0)) {
            of_node_0[dcf.channel as usize] += 1;
        }
    }
    assert!(of_node_0.iter().all(|&count| (8..=10).contains(&count)), "{of_node_0:?}");
}
