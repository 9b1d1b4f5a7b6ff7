//! AODV on scripted topologies, and on random ones for what must always hold.

mod common;

use common::{Fate, Net, grid, line, ring};
use linkhold_core::time::{Duration, Instant};
use linkhold_mesh::mobility::{Area, Mobility, WaypointConfig};
use linkhold_mesh::routing::aodv::{Aodv, AodvConfig, Hello};
use linkhold_mesh::routing::{RouteDrop, Router};
use linkhold_mesh::{Node, Point};
use linkhold_radio::rng::Stream;
use proptest::prelude::*;

fn net(places: Vec<Point>, config: &AodvConfig, seed: u64) -> Net {
    let router = |node| Router::Aodv(Box::new(Aodv::new(Node(node), config, seed)));
    let routers = (0..places.len() as u32).map(router).collect();
    Net::new(routers, places, 250.0, seed)
}

fn plain(places: Vec<Point>) -> Net {
    net(places, &AodvConfig::default(), 1)
}

#[test]
fn a_line_finds_its_only_route_and_the_way_back_needs_no_search() {
    let mut net = plain(line(6, 200.0));
    net.send(1, 0, 5);
    net.run_for(2000);
    assert_eq!(net.delivered(1), Some(5));
    assert_eq!(net.path(0, 5), Some(vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(net.path(5, 0), Some(vec![5, 4, 3, 2, 1, 0]));
    let messages = net.messages;
    net.send(2, 5, 0);
    net.run_for(100);
    assert_eq!((net.delivered(2), net.messages), (Some(5), messages));
}

#[test]
fn a_near_destination_is_found_by_a_small_ring() {
    let mut net = plain(grid(7, 200.0));
    net.send(1, 0, 1);
    net.run_for(1000);
    // One request and one answer.
    assert_eq!((net.delivered(1), net.messages), (Some(1), 2));
}

#[test]
fn a_ring_goes_round_the_other_way_when_a_link_breaks() {
    let mut net = plain(ring(8, 200.0));
    net.send(1, 0, 3);
    net.run_for(2000);
    assert_eq!(net.delivered(1), Some(3));
    net.places[2].x += 5000.0;
    net.send(2, 0, 3);
    net.run_for(100);
    assert_eq!(net.fates[&2], Fate::Dropped(RouteDrop::LinkBroken), "node 1 finds the link broken");
    assert_eq!(net.path(0, 3), None, "the error reached node 0");
    net.send(3, 0, 3);
    net.run_for(3000);
    assert_eq!(net.delivered(3), Some(5));
    assert_eq!(net.path(0, 3), Some(vec![0, 7, 6, 5, 4, 3]));
}

#[test]
fn packets_wait_for_the_route_and_leave_in_order() {
    let mut net = plain(line(4, 200.0));
    for packet in 0..10 {
        net.send(packet, 0, 3);
    }
    net.run_for(2000);
    assert!((0..10).all(|packet| net.delivered(packet) == Some(3)));
}

#[test]
fn an_unreachable_destination_is_given_up_after_three_searches_of_the_network() {
    let mut places = line(4, 200.0);
    places.push(Point { x: 9000.0, y: 0.0 });
    let mut net = plain(places);
    for packet in 0..100 {
        net.send(packet, 0, 4);
    }
    net.run_for(21_400);
    assert_eq!(net.fates[&99], Fate::Pending);
    net.run_for(200);
    // 240 + 400 + 560 + 720 + 2800 + 5600 + 11,200 ms.
    let count = |reason| net.fates.values().filter(|fate| **fate == Fate::Dropped(reason)).count();
    assert_eq!((count(RouteDrop::BufferFull), count(RouteDrop::Unreachable)), (36, 64));
    net.run_for(60_000);
    assert!(net.is_idle(), "nothing goes on");
}

#[test]
fn a_node_that_leaves_and_returns_is_found_again() {
    let mut net = plain(line(4, 200.0));
    net.send(1, 0, 3);
    net.run_for(1000);
    net.on[3] = false;
    net.send(2, 0, 3);
    net.run_for(30_000);
    assert_eq!(net.fates[&2], Fate::Dropped(RouteDrop::LinkBroken));
    net.send(3, 0, 3);
    net.run_for(30_000);
    assert_eq!(net.fates[&3], Fate::Dropped(RouteDrop::Unreachable));
    net.on[3] = true;
    net.send(4, 0, 3);
    net.run_for(5000);
    assert_eq!(net.delivered(4), Some(3));
}

#[test]
fn a_route_that_nothing_uses_expires() {
    let mut net = plain(line(3, 200.0));
    net.send(1, 0, 2);
    net.run_for(19_000);
    assert!(net.path(0, 2).is_some());
    // MY_ROUTE_TIMEOUT is 20 s.
    net.run_for(2000);
    assert_eq!(net.path(0, 2), None);
}

#[test]
fn a_node_on_the_way_answers_and_the_destination_learns_the_way_back() {
    // Node 5 hears node 0 only.
    let mut places = line(5, 200.0);
    places.push(Point { x: -200.0, y: 0.0 });
    let mut net = plain(places);
    net.send(1, 0, 4);
    net.run_for(2000);
    let messages = net.messages;
    net.send(2, 5, 4);
    net.run_for(300);
    assert_eq!(net.delivered(2), Some(5));
    // A request, node 0's answer, and its word to node 4 over four hops.
    assert_eq!(net.messages - messages, 6);
    assert!(net.path(4, 5).is_some(), "gratuitous answer");
}

#[test]
fn without_a_macs_feedback_hello_finds_the_broken_link() {
    let config = AodvConfig::with_hello();
    let mut net = net(line(4, 200.0), &config, 1);
    net.send(1, 0, 3);
    // Somebody has to use the route, else it expires anyway.
    for packet in 2..7 {
        net.run_for(900);
        net.send(packet, 0, 3);
    }
    net.on[3] = false;
    net.run_for(2100);
    assert_eq!(net.routers[2].next_hop(net.now, Node(0), Node(3)), None);
    assert_eq!(net.path(0, 3), None);
}

#[test]
fn a_source_may_keep_the_packet_that_its_neighbour_did_not_take() {
    let config = AodvConfig { salvage: true, ..AodvConfig::default() };
    let mut net = net(ring(6, 200.0), &config, 1);
    net.send(1, 0, 2);
    net.run_for(2000);
    net.on[1] = false;
    net.send(2, 0, 2);
    net.run_for(3000);
    // Its first hop failed, then four hops the other way.
    assert_eq!(net.delivered(2), Some(5));
}

/// Every node of a route answers requests, and takes no packet.
#[test]
fn a_source_keeps_its_packet_for_half_a_minute_and_no_longer() {
    let config = AodvConfig { salvage: true, ..AodvConfig::default() };
    let mut net = net(line(2, 200.0), &config, 1);
    net.takes_data = false;
    net.send(1, 0, 1);
    net.run_for(29_900);
    assert_eq!(net.fates[&1], Fate::Pending);
    net.run_for(1_000);
    assert_eq!(net.fates[&1], Fate::Dropped(RouteDrop::LinkBroken));
}

fn repairing() -> AodvConfig {
    AodvConfig { local_repair: true, ..AodvConfig::default() }
}

/// 0, 1, 2, 3 in a line, and 4 beside 2.
fn fork() -> Vec<Point> {
    let mut places = line(4, 200.0);
    places.push(Point { x: 400.0, y: 100.0 });
    places
}

#[test]
fn a_node_on_the_way_repairs_the_route_and_the_source_never_knows() {
    let mut net = net(fork(), &repairing(), 1);
    net.send(1, 0, 3);
    net.run_for(2000);
    let path = net.path(0, 3).expect("a route");
    assert_eq!((path.len(), path[1]), (4, 1), "{path:?}");
    let (gone, other) = (path[2], 6 - path[2]);
    net.on[gone as usize] = false;
    let messages = net.messages;
    for packet in 2..5 {
        net.send(packet, 0, 3);
    }
    net.run_for(18);
    assert!(net.path(0, 3).is_none() && net.fates[&2] == Fate::Pending, "node 1 has found out");
    net.run_for(500);
    // Two hops, one more sent in vain.
    assert!((2..5).all(|packet| net.delivered(packet) == Some(4)), "{:?}", net.fates);
    assert_eq!(net.path(0, 3), Some(vec![0, 1, other, 3]));
    // The request of node 1, passed on by 0 and the other one; two hops of an answer. No error.
    assert!(net.messages - messages <= 6, "{}", net.messages - messages);
}

#[test]
fn without_local_repair_the_same_packet_is_lost() {
    let mut net = plain(fork());
    net.send(1, 0, 3);
    net.run_for(2000);
    let gone = net.path(0, 3).expect("a route")[2];
    net.on[gone as usize] = false;
    net.send(2, 0, 3);
    net.run_for(500);
    assert_eq!(net.fates[&2], Fate::Dropped(RouteDrop::LinkBroken));
    assert_eq!(net.path(0, 3), None);
}

#[test]
fn a_route_that_is_longer_after_its_repair_is_told_of_and_kept() {
    // 1 - 2 - 3 becomes 1 - 4 - 5 - 3.
    let mut places = line(4, 200.0);
    places.extend([Point { x: 250.0, y: 180.0 }, Point { x: 450.0, y: 190.0 }]);
    let mut net = net(places, &repairing(), 1);
    net.send(1, 0, 3);
    net.run_for(2000);
    assert_eq!(net.path(0, 3), Some(vec![0, 1, 2, 3]));
    net.on[2] = false;
    net.send(2, 0, 3);
    net.run_for(600);
    assert_eq!(net.delivered(2), Some(5), "one hop in vain");
    assert_eq!(net.path(0, 3), Some(vec![0, 1, 4, 5, 3]), "the error with the N flag deleted nothing");
    net.send(3, 0, 3);
    net.run_for(100);
    assert_eq!(net.delivered(3), Some(4));
}

#[test]
fn a_route_that_cannot_be_repaired_ends_with_an_error_and_the_source_seeks() {
    // The other way round is six hops, beyond the request's four.
    let mut net = net(ring(8, 200.0), &repairing(), 1);
    net.send(1, 0, 3);
    net.run_for(2000);
    assert_eq!(net.path(0, 3), Some(vec![0, 1, 2, 3]));
    net.on[2] = false;
    net.send(2, 0, 3);
    // 2 x 40 ms x (4 + 2), and what it took to find out.
    net.run_for(480);
    assert_eq!(net.fates[&2], Fate::Pending);
    net.run_for(50);
    assert_eq!(net.fates[&2], Fate::Dropped(RouteDrop::NoRoute));
    assert_eq!(net.path(0, 3), None, "the error reached node 0");
    net.send(3, 0, 3);
    net.run_for(3000);
    assert_eq!(net.delivered(3), Some(5));
    net.run_for(60_000);
    assert!(net.is_idle());
}

#[test]
fn a_destination_that_is_too_far_is_left_to_the_source() {
    // 0.3 x 35 = 10 hops: node 1 of a line of 14 is 12 from its end.
    let mut places = line(14, 200.0);
    places.push(Point { x: 400.0, y: 100.0 });
    let mut net = net(places, &repairing(), 1);
    net.send(1, 0, 13);
    net.run_for(9000);
    let gone = net.path(0, 13).expect("a route")[2];
    net.on[gone as usize] = false;
    net.send(2, 0, 13);
    net.run_for(100);
    assert_eq!(net.fates[&2], Fate::Dropped(RouteDrop::LinkBroken));
}

#[test]
fn requests_keep_to_their_rate() {
    let mut net = plain(line(2, 9000.0));
    for destination in 2..62u32 {
        net.send(u64::from(destination), 0, destination);
    }
    net.run_for(999);
    assert_eq!(net.messages, 10);
    net.run_for(2000);
    assert_eq!(net.messages, 30);
    net.run_for(200_000);
    assert!(net.fates.values().all(|fate| *fate == Fate::Dropped(RouteDrop::Unreachable)), "{:?}", net.fates);
    assert!(net.is_idle());
}

/// Six nodes with these links.
fn six(links: &[(u32, u32)]) -> Net {
    let mut net = plain(line(6, 1.0));
    net.links = Some(links.iter().copied().collect());
    net
}

/// Sends a packet every 100 ms for so long; their numbers begin at `next`.
fn feed(net: &mut Net, next: &mut u64, source: u32, destination: u32, millis: u64) {
    for _ in 0..millis / 100 {
        net.send(*next, source, destination);
        *next += 1;
        net.run_for(100);
    }
}

/// The network looks for loops after every event: in each of these tests there was one, between a node that
/// had forgotten its number and those behind it.
#[test]
fn a_packet_keeps_no_route_to_its_last_hop_that_leads_elsewhere() {
    let [x, a, b, y, z, w] = [0, 1, 2, 3, 4, 5];
    let mut net = six(&[(b, a), (b, x), (x, a), (a, z), (x, w)]);
    let mut next = 0;
    feed(&mut net, &mut next, b, z, 2000);
    // What b asks reaches a over x alone.
    net.unheard.insert((b, a));
    net.send(10_000, b, w);
    net.run_for(1500);
    net.unheard.clear();
    assert_eq!(net.path(a, b), Some(vec![a, x, b]));
    feed(&mut net, &mut next, b, z, 72_000);
    net.links = Some([(b, a), (x, a), (a, z), (x, w), (x, y), (y, a)].into());
    net.unheard.insert((x, a));
    feed(&mut net, &mut next, b, z, 200);
    net.send(10_001, x, b);
    feed(&mut net, &mut next, b, z, 2000);
    assert!(net.delivered(10_001).is_some());
}

#[test]
fn a_packet_keeps_no_route_to_its_next_hop_that_leads_elsewhere() {
    let [x, a, t, y, d, w] = [0, 1, 2, 3, 4, 5];
    let mut net = six(&[(t, a), (t, x), (x, a), (t, d), (x, w)]);
    let mut next = 0;
    feed(&mut net, &mut next, a, d, 2000);
    net.unheard.insert((t, a));
    net.send(10_000, t, w);
    net.run_for(1500);
    net.unheard.clear();
    assert_eq!(net.path(a, t), Some(vec![a, x, t]));
    feed(&mut net, &mut next, a, d, 72_000);
    net.links = Some([(t, a), (x, a), (t, d), (x, w), (x, y), (y, a)].into());
    net.unheard.insert((x, a));
    net.send(10_001, x, t);
    feed(&mut net, &mut next, a, d, 2000);
    assert!(net.delivered(10_001).is_some());
}

#[test]
fn a_packet_keeps_the_number_of_a_route_to_its_source_that_has_ended() {
    let [s, c, b, a, d, x] = [0, 1, 2, 3, 4, 5];
    let mut net = six(&[(s, c), (c, b), (b, a), (a, d), (b, x), (x, a)]);
    net.unheard = [(b, x), (x, b), (a, x), (x, a)].into();
    let mut next = 0;
    feed(&mut net, &mut next, s, d, 3000);
    // A frame of b's to c is lost for good: its route to s has ended, and a is not told.
    net.give_up(b, c);
    feed(&mut net, &mut next, s, d, 57_000);
    net.unheard = [(b, a), (b, c)].into();
    net.send(10_000, b, s);
    feed(&mut net, &mut next, s, d, 2500);
    assert_ne!(net.fates[&10_000], Fate::Looped);
}

/// A node that is heard revives the routes of its neighbours, and gives them no number. However often that
/// happens, its next request has a number that they take.
#[test]
fn a_neighbour_that_was_heard_for_long_and_left_finds_the_way_back() {
    let [x, d, y, z] = [0, 1, 2, 3];
    let mut net = six(&[(x, d), (d, z)]);
    net.send(0, d, x);
    for packet in 1..12 {
        // All routes expire meanwhile, so that z asks again, and d passes its request on to x.
        net.run_for(30_000);
        net.send(packet, z, x);
    }
    net.run_for(30_000);
    net.links = Some([(d, y), (y, x)].into());
    net.send(100, d, x);
    net.run_for(5000);
    assert_eq!(net.delivered(100), Some(2));
}

#[test]
fn a_node_answers_for_a_neighbour_only_with_a_number_that_the_neighbour_gave() {
    let [x, d, z, u, v] = [0, 1, 2, 3, 4];
    let mut net = six(&[(x, d), (d, z), (x, u)]);
    net.send(0, d, x);
    net.run_for(30_000);
    // d passes z's request on, so that x has a route to d again, with the number that it ended with.
    net.send(1, z, x);
    net.run_for(1000);
    assert_eq!(net.path(x, d), Some(vec![x, d]));
    let messages = net.messages;
    net.send(2, u, d);
    net.run_for(1000);
    // A request that reaches x only; one that x passes on; the answer of d over two hops.
    assert_eq!((net.delivered(2), net.messages - messages), (Some(2), 5));
    let messages = net.messages;
    net.links = Some([(x, d), (x, v)].into());
    net.send(3, v, d);
    net.run_for(1000);
    // The answer had d's number: now a request, the answer of x, and its word to d.
    assert_eq!((net.delivered(3), net.messages - messages), (Some(2), 3));
}

/// How often a pair of nodes that send gives way to another, at each look.
const CHANGES: f64 = 0.02;

/// Nodes walk, messages and ACKs are lost, packets go between random pairs.
fn wander(seed: u64, nodes: u32, loss: f64, spread: Duration, config: &AodvConfig, seconds: u64) -> Net {
    wander_with(seed, nodes, (loss, spread), config, seconds, CHANGES)
}

fn wander_with(
    seed: u64,
    nodes: u32,
    (loss, spread): (f64, Duration),
    config: &AodvConfig,
    seconds: u64,
    changes: f64,
) -> Net {
    let area = Area::new(700.0, 700.0).expect("a square");
    let walk = WaypointConfig {
        area,
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
    // A few pairs at a time, so that routes are used and broken; each pair changes now and then.
    let mut pairs: Vec<(u32, u32)> = (0..4).map(|_| (pick(&mut stream), pick(&mut stream))).collect();
    for _ in 0..seconds * 10 {
        for node in 0..nodes {
            net.places[node as usize] = mobility.position(Node(node), net.now);
        }
        for pair in &mut pairs {
            if stream.unit() < changes {
                *pair = (pick(&mut stream), pick(&mut stream));
            }
            if pair.0 != pair.1 && stream.unit() < 0.7 {
                net.send(packet, pair.0, pair.1);
                packet += 1;
            }
        }
        net.run_for(100);
        for router in &net.routers {
            let Router::Aodv(aodv) = router else { unreachable!() };
            let sizes = aodv.sizes();
            assert!(sizes.routes < nodes as usize && sizes.seen < nodes as usize, "{sizes:?}");
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
fn most_packets_of_a_moving_mesh_arrive() {
    let config = AodvConfig { salvage: true, ..AodvConfig::default() };
    let net = wander(7, 14, 0.0, Duration::ZERO, &config, 100);
    assert!(share_delivered(&net) > 0.85, "{}", share_delivered(&net));
    let again = wander(7, 14, 0.0, Duration::ZERO, &config, 100);
    assert_eq!((&net.fates, net.messages, net.bytes), (&again.fates, again.messages, again.bytes));
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(40))]

    /// The same where nobody stops sending, for longer than a route is remembered.
    #[test]
    fn steady_flows_close_no_circle(
        seed in any::<u64>(),
        nodes in 4u32..12,
        loss in 0.0..0.5f64,
        (salvage, gratuitous, hello, local_repair) in any::<(bool, bool, bool, bool)>(),
    ) {
        let hello = hello.then(Hello::default);
        let active_route_timeout = Duration::from_secs(1);
        let config =
            AodvConfig { salvage, gratuitous, hello, local_repair, active_route_timeout, ..AodvConfig::default() };
        let net = wander_with(seed, nodes, (loss, Duration::ZERO), &config, 75, 0.0);
        for (packet, fate) in &net.fates {
            prop_assert!(!matches!(fate, Fate::Pending | Fate::Looped), "{packet}: {fate:?}");
        }
    }
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
        (salvage, gratuitous, hello, local_repair) in any::<(bool, bool, bool, bool)>(),
        timeout in prop_oneof![Just(1u64), Just(3), Just(10)],
    ) {
        let hello = hello.then(Hello::default);
        let config = AodvConfig {
            salvage,
            gratuitous,
            hello,
            local_repair,
            active_route_timeout: Duration::from_secs(timeout),
            ..AodvConfig::default()
        };
        let net = wander(seed, nodes, loss, Duration::from_millis(spread), &config, 25);
        for (packet, fate) in &net.fates {
            prop_assert!(!matches!(fate, Fate::Pending | Fate::Looped), "{packet}: {fate:?}");
        }
    }
}
