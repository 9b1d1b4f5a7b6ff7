//! SEARCH on scripted topologies, with primary users, and on random ones for what must always hold.

mod common;

use common::{Fate, Net, grid, line, ring};
use linkhold_core::time::{Duration, Instant};
use linkhold_mesh::mobility::{Area, Mobility, WaypointConfig};
use linkhold_mesh::routing::{RouteDrop, Router, Search, SearchConfig};
use linkhold_mesh::{Node, Point};
use linkhold_radio::rng::Stream;
use proptest::prelude::*;

fn net(places: Vec<Point>, config: &SearchConfig, seed: u64) -> Net {
    let router = |node| Router::Search(Box::new(Search::new(Node(node), config, seed)));
    let routers = (0..places.len() as u32).map(router).collect();
    Net::new(routers, places, 250.0, seed)
}

fn plain(places: Vec<Point>) -> Net {
    net(places, &SearchConfig::default(), 1)
}

#[test]
fn one_common_channel_finds_the_straight_way_with_a_message_a_hop() {
    let mut net = plain(line(6, 200.0));
    net.send(1, 0, 5);
    net.run_for(100);
    assert_eq!(net.delivered(1), Some(5));
    assert_eq!(net.path(0, 5), Some(vec![0, 1, 2, 3, 4, 5]));
    // Five hops there and five back.
    assert_eq!(net.messages, 10);
}

#[test]
fn a_route_goes_around_the_region_of_a_primary_user() {
    // 7 x 7 nodes; the user takes the only channel from the middle of the grid.
    let mut net = plain(grid(7, 200.0));
    let taken: Vec<u32> =
        (0..49).filter(|node| (2..5).contains(&(node % 7)) && (2..5).contains(&(node / 7))).collect();
    for &node in &taken {
        net.free[node as usize] = 0;
    }
    net.send(1, 21, 27);
    net.run_for(200);
    let path = net.path(21, 27).expect("a way around");
    assert!(path.iter().all(|node| !taken.contains(node)), "{path:?}");
    assert_eq!(net.delivered(1), Some(path.len() as u32 - 1));
    assert!(path.len() <= 12, "{path:?}");
}

#[test]
fn a_path_takes_the_channel_that_each_region_has_free() {
    // Channel 0 is free on the left, channel 1 on the right; the middle has both.
    let mut net = plain(line(7, 200.0));
    net.free = vec![1, 1, 1, 3, 2, 2, 2];
    net.send(1, 0, 6);
    net.run_for(5000);
    // No request that stays on one channel arrives; the last attempt changes at node 3.
    assert_eq!(net.delivered(1), Some(6));
    assert_eq!((net.channels[&Some(0)], net.channels[&Some(1)]), (3, 3));
    let mut net = plain(line(7, 200.0));
    net.free = vec![3; 7];
    net.send(1, 0, 6);
    net.run_for(1000);
    assert_eq!((net.delivered(1), net.channels[&Some(0)]), (Some(6), 6), "one channel does: no change");
    // A primary user takes channel 0 at node 5: the hops to and from it change, the route stays.
    net.free[5] = 2;
    net.send(2, 0, 6);
    net.run_for(1000);
    assert_eq!((net.delivered(2), net.channels[&Some(0)], net.channels[&Some(1)]), (Some(6), 10, 2));
}

#[test]
fn a_hop_without_a_common_channel_breaks_the_route_and_another_is_found() {
    let mut net = plain(grid(3, 200.0));
    net.free = vec![3; 9];
    net.send(1, 3, 5);
    net.run_for(1000);
    assert_eq!(net.path(3, 5), Some(vec![3, 4, 5]));
    net.free[4] = 4;
    net.send(2, 3, 5);
    net.run_for(2000);
    assert_eq!(net.delivered(2), Some(4));
    assert!(net.path(3, 5).is_some_and(|path| !path.contains(&4)));
}

#[test]
fn a_ring_goes_round_the_other_way_when_a_link_breaks() {
    let mut net = plain(ring(8, 200.0));
    net.send(1, 0, 3);
    net.run_for(4000);
    assert_eq!(net.delivered(1), Some(3));
    net.on[2] = false;
    net.send(2, 0, 3);
    net.run_for(100);
    assert_eq!(net.fates[&2], Fate::Dropped(RouteDrop::LinkBroken));
    assert_eq!(net.path(0, 3), None, "the error reached node 0");
    net.send(3, 0, 3);
    net.run_for(5000);
    assert_eq!(net.delivered(3), Some(5));
}

#[test]
fn an_unreachable_destination_is_given_up() {
    let mut places = line(4, 200.0);
    places.push(Point { x: 9000.0, y: 0.0 });
    let mut net = plain(places);
    for packet in 0..100 {
        net.send(packet, 0, 4);
    }
    net.run_for(1000 + 1000 + 2800);
    let count = |reason| net.fates.values().filter(|fate| **fate == Fate::Dropped(reason)).count();
    assert_eq!((count(RouteDrop::BufferFull), count(RouteDrop::Unreachable)), (36, 64));
    net.run_for(60_000);
    assert!(net.is_idle());
}

#[test]
fn a_node_that_leaves_and_returns_is_found_again_and_an_idle_route_expires() {
    let mut net = plain(line(4, 200.0));
    net.send(1, 0, 3);
    net.run_for(1000);
    net.on[3] = false;
    net.send(2, 0, 3);
    net.run_for(1000);
    assert_eq!(net.fates[&2], Fate::Dropped(RouteDrop::LinkBroken));
    net.send(3, 0, 3);
    net.run_for(10_000);
    assert_eq!(net.fates[&3], Fate::Dropped(RouteDrop::Unreachable));
    net.on[3] = true;
    net.send(4, 0, 3);
    net.run_for(5000);
    assert_eq!(net.delivered(4), Some(3));
    assert!(net.path(0, 3).is_some());
    net.run_for(2000);
    assert_eq!(net.path(0, 3), None);
}

#[test]
fn without_a_free_channel_nothing_is_sent_and_the_packet_is_given_up() {
    let mut net = plain(line(3, 200.0));
    net.free = vec![0; 3];
    net.send(1, 0, 2);
    net.run_for(10_000);
    assert_eq!((net.fates[&1], net.messages), (Fate::Dropped(RouteDrop::Unreachable), 0));
    assert!(net.is_idle());
}

/// Nodes walk, primary users come and go, messages and ACKs are lost, packets go between random pairs.
fn wander(
    seed: u64,
    nodes: u32,
    loss: f64,
    busy: f64,
    spread: Duration,
    config: &SearchConfig,
    seconds: u64,
) -> Net {
    let walk = WaypointConfig {
        area: Area::new(700.0, 700.0).expect("a square"),
        nodes: nodes as usize,
        min_speed: 5.0,
        max_speed: 40.0,
        pause: Duration::from_secs(1),
    };
    let mut mobility = Mobility::random_waypoint(&walk, seed).expect("a walk");
    let places = (0..nodes).map(|node| mobility.position(Node(node), Instant::ZERO)).collect();
    let mut net = net(places, config, seed);
    (net.loss, net.lost_ack) = (loss, loss / 4.0);
    net.spread = spread;
    let mut stream = Stream::new(seed, "pairs", 0);
    let pick = |stream: &mut Stream| (stream.unit() * f64::from(nodes)) as u32;
    let mut packet = 0;
    let mut pairs: Vec<(u32, u32)> = (0..4).map(|_| (pick(&mut stream), pick(&mut stream))).collect();
    net.free = vec![0b111; nodes as usize];
    for _ in 0..seconds * 10 {
        for node in 0..nodes {
            net.places[node as usize] = mobility.position(Node(node), net.now);
            if stream.unit() < busy {
                net.free[node as usize] = (stream.unit() * 8.0) as u64;
            }
        }
        for pair in &mut pairs {
            if stream.unit() < 0.02 {
                *pair = (pick(&mut stream), pick(&mut stream));
            }
            if pair.0 != pair.1 && stream.unit() < 0.7 {
                net.send(packet, pair.0, pair.1);
                packet += 1;
            }
        }
        net.run_for(100);
        for router in &net.routers {
            let Router::Search(search) = router else { unreachable!() };
            let sizes = search.sizes();
            assert!(sizes.routes <= config.max_routes && sizes.seen <= 512, "{sizes:?}");
            assert!(sizes.held <= config.max_held && sizes.discoveries <= config.max_discoveries);
        }
    }
    net.run_for(60_000);
    net
}

fn share_delivered(net: &Net) -> f64 {
    let delivered = net.fates.values().filter(|fate| matches!(fate, Fate::Delivered { .. })).count();
    delivered as f64 / net.fates.len() as f64
}

#[test]
fn most_packets_of_a_moving_mesh_arrive_and_a_run_repeats_byte_for_byte() {
    let config = SearchConfig { salvage: true, ..SearchConfig::default() };
    let calm = wander(7, 14, 0.0, 0.0, Duration::ZERO, &config, 100);
    assert!(share_delivered(&calm) > 0.85, "{}", share_delivered(&calm));
    let one = wander(7, 14, 0.05, 0.02, Duration::ZERO, &config, 60);
    let again = wander(7, 14, 0.05, 0.02, Duration::ZERO, &config, 60);
    assert_eq!((&one.fates, one.messages, one.bytes), (&again.fates, again.messages, again.bytes));
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(200))]

    /// The network looks for loops after every event, and each packet comes back once (`common`).
    #[test]
    fn routes_never_close_a_circle_and_every_packet_ends(
        seed in any::<u64>(),
        nodes in 4u32..12,
        loss in 0.0..0.5f64,
        spread in prop_oneof![Just(0u64), 0..800u64],
        salvage in any::<bool>(),
        max_routes in prop_oneof![Just(1024usize), 4usize..12],
    ) {
        let config = SearchConfig { salvage, max_routes, ..SearchConfig::default() };
        let net = wander(seed, nodes, loss, 0.02, Duration::from_millis(spread), &config, 25);
        for (packet, fate) in &net.fates {
            prop_assert!(!matches!(fate, Fate::Pending | Fate::Looped), "{packet}: {fate:?}");
        }
    }
}
