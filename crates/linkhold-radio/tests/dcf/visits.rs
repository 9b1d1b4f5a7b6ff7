//! Radios that listen on a channel each, and send on their receivers'.

use linkhold_core::time::{Duration, Instant};
use linkhold_radio::dcf::{DcfConfig, Kind, Phy, Sent};
use proptest::prelude::*;

use crate::world::{MBPS, Net, Seen, World, micros, us};

/// 802.11b at 1 Mbit/s: DIFS 50 us, slot 20 us, 1040 + 36 bytes 192 + 8608 us, SIFS 10, ACK 304.
const DATA: u64 = 192 + 8608;

fn net(homes: &[u32]) -> Net {
    let world = World::cell(homes.len() as u32, MBPS(1)).with_homes(homes);
    Net::new(&DcfConfig::new(Phy::Ieee80211b), world, 1)
}

#[test]
fn a_visit_is_retuning_a_backoff_one_exchange_and_the_way_home() {
    let mut net = net(&[0, 1]);
    net.send(us(1000), 0, 7, Some(1), 1040);
    net.run(us(1000 + 223));
    assert_eq!((net.world.tuned[0], net.dcf.is_idle(0)), (0, false), "on its way");
    net.run(us(1000 + 224));
    assert_eq!(net.world.tuned[0], 1);
    net.run(us(100_000));
    let [(at, Seen::Received { at: 1, from: 0, token: 7 }), (acked, Seen::Sent { outcome, .. })] =
        net.world.seen[..]
    else {
        panic!("{:?}", net.world.seen)
    };
    assert_eq!((outcome, acked), (Sent::Acknowledged, at + micros(10 + 304)));
    let backoff = at.since(us(1000 + 224 + 50 + DATA));
    assert!(backoff <= micros(31 * 20) && backoff.as_nanos() % 20_000 == 0, "{backoff:?}");
    assert_eq!(net.world.tuned[0], 0, "it came home");
    // 2 x 224 us of retuning; after a visit it listens for a while, at most twice as long as it was away.
    let away = acked.since(us(1000)) + micros(224);
    net.send(us(100_001), 0, 8, Some(1), 1040);
    net.run(us(200_000));
    assert!(net.world.seen[2].0 >= us(100_001), "the time at home passed long ago");
    let back = acked + micros(224);
    let mut again = self::net(&[0, 1]);
    again.send(us(1000), 0, 7, Some(1), 1040);
    again.send(us(1001), 0, 8, Some(1), 1040);
    again.run(us(100_000));
    let second = again.world.seen[2].0;
    let latest = back + micros(50) + away + away + micros(224 + 50 + 31 * 20 + DATA);
    assert!(second > back + micros(224 + DATA) && second <= latest, "{second:?}, {latest:?}");
}

/// 0 and 2 listen on channel 0. While 0 visits 1, it misses what 2 sends it.
#[test]
fn who_visits_is_deaf_at_home() {
    let mut net = net(&[0, 1, 0]);
    net.send(us(1000), 0, 7, Some(1), 1040);
    net.send(us(1500), 2, 8, Some(0), 10);
    net.run(us(5000));
    assert_eq!(net.world.arrived(0), [0; 0]);
    let tries = net.world.told.iter().filter(|told| told.from == 2).count();
    assert!(tries >= 2, "it is tried again: {tries}");
    net.run(us(1_000_000));
    assert_eq!((net.world.arrived(1), net.world.arrived(0)), (vec![7], vec![8]));
}

/// The visitor arrives in the middle of a frame on that channel: it waits for its end, and for EIFS or DIFS.
#[test]
fn who_arrives_in_a_transmission_waits_and_reads_nothing_of_it() {
    let mut net = net(&[0, 1, 1]);
    net.send(us(1000), 2, 5, None, 1040);
    net.send(us(1100), 0, 7, Some(1), 1040);
    net.run(us(1000 + DATA));
    assert_eq!(net.world.arrived(0), [0; 0]);
    assert_eq!(net.world.arrived(1), [5]);
    net.run(us(100_000));
    let first = net.world.told.iter().find(|told| told.from == 0).expect("it sends");
    assert!(first.since >= us(1000 + DATA + 50) && first.received, "{first:?}");
}

#[test]
fn nobody_at_home_costs_a_retry_each_and_then_the_frame() {
    let mut net = net(&[0, 1]);
    net.dcf.suspend(us(500), 1, &mut net.world);
    net.send(us(1000), 0, 7, Some(1), 10);
    net.run(us(1_000_000));
    assert_eq!(net.world.outcomes(), [(7, Sent::GaveUp { arrived: false })]);
    assert_eq!(net.world.told.iter().filter(|told| told.kind == Kind::Data).count(), 7);
    assert_eq!((net.world.tuned[0], net.dcf.held()), (0, 0));
}

#[test]
fn a_silence_ends_a_visit_wherever_it_is() {
    // While it retunes, backs off, sends, waits for the ACK, returns.
    for at in [1100, 1250, 4000, 11_000] {
        let mut net = net(&[0, 1]);
        net.send(us(1000), 0, 7, Some(1), 1040);
        net.run(us(at));
        net.dcf.suspend(us(at), 0, &mut net.world);
        net.world.tuned[0] = 0;
        net.run(us(50_000));
        let before = net.world.told.len();
        net.run(us(60_000));
        assert_eq!(net.world.told.len(), before, "silent, {at}");
        net.dcf.resume(us(60_000), 0, &mut net.world);
        net.run(us(200_000));
        assert_eq!(net.world.arrived(1), [7], "{at}");
        assert_eq!((net.world.outcomes(), net.dcf.held()), (vec![(7, Sent::Acknowledged)], 0), "{at}");
        assert_eq!(net.world.tuned, [0, 1]);
    }
}

#[test]
fn a_visit_that_would_not_end_before_a_silence_is_not_begun() {
    let mut net = net(&[0, 1]);
    // Two ways of 224 us and the exchange.
    net.world.quiet_at = us(1000 + 2 * 224 + DATA + 10 + 304 - 1);
    net.send(us(1000), 0, 7, Some(1), 1040);
    net.run(us(100_000));
    assert!(net.world.told.is_empty() && net.world.queues[0].len() == 1 && net.dcf.is_idle(0));
    assert_eq!(net.world.tuned[0], 0);
}

/// Each always has a frame for the other, who is often away: still both get through, and hardly a frame is
/// given up.
#[test]
fn two_that_visit_each_other_meet() {
    let mut net = net(&[0, 1]);
    net.world.saturated = Some((1040, vec![Some(1), Some(0)]));
    for radio in 0..2 {
        net.dcf.on_enqueue(Instant::ZERO, radio, &mut net.world);
    }
    net.run(us(60_000_000));
    let arrived = [0, 1].map(|radio| net.world.arrived(radio).len());
    let outcomes = net.world.outcomes();
    let lost =
        outcomes.iter().filter(|(_, outcome)| matches!(outcome, Sent::GaveUp { arrived: false })).count();
    // One after the other on one channel: 60 s / 9.6 ms = 6250.
    assert!(arrived.iter().all(|&count| count > 600), "{arrived:?}");
    assert!(lost * 20 < outcomes.len(), "{lost} of {}", outcomes.len());
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(48))]

    /// Wherever radios listen and whenever they are silenced, every frame has one fate, and none arrives
    /// twice.
    #[test]
    fn every_frame_has_one_fate(
        homes in prop::collection::vec(0u32..3, 2..6),
        sends in prop::collection::vec((0u32..6, 0u32..6, 0u64..3000, 10u32..1500), 1..60),
        silences in prop::collection::vec((0u32..6, 0u64..200_000, 1u64..30_000), 0..8),
        seed in any::<u64>(),
    ) {
        let count = homes.len() as u32;
        let world = World::cell(count, MBPS(2)).with_homes(&homes);
        let mut net = Net::new(&DcfConfig::new(Phy::Ieee80211b), world, seed);
        let mut silences: Vec<(u64, u64, u32)> =
            silences.iter().map(|&(radio, at, length)| (at, length, radio % count)).collect();
        silences.sort_unstable();
        let mut at = 0;
        let mut token = 0;
        let mut broadcasts = Vec::new();
        for (from, to, gap, len) in sends {
            at += gap;
            while let Some(&(start, length, radio)) = silences.first().filter(|silence| silence.0 <= at) {
                silences.remove(0);
                net.run(us(start.max(at)));
                net.dcf.suspend(us(at), radio, &mut net.world);
                net.world.tuned[radio as usize] = homes[radio as usize];
                at += length;
                net.run(us(at));
                net.dcf.resume(us(at), radio, &mut net.world);
            }
            let (from, to) = (from % count, to % count);
            let to = (from != to).then_some(to);
            if to.is_none() {
                broadcasts.push(token);
            }
            net.send(us(at), from, token, to, len);
            token += 1;
        }
        net.run(us(at) + Duration::from_secs(60));
        let mut ended: Vec<u64> = net.world.outcomes().iter().map(|outcome| outcome.0).collect();
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..token).collect::<Vec<u64>>());
        prop_assert_eq!((net.dcf.held(), net.dcf.next()), (0, Instant::FAR_FUTURE));
        prop_assert_eq!(&net.world.tuned, &net.world.homes);
        let mut unicast: Vec<u64> = (0..count).flat_map(|radio| net.world.arrived(radio)).collect();
        unicast.retain(|token| !broadcasts.contains(token));
        let arrived = unicast.len();
        unicast.sort_unstable();
        unicast.dedup();
        prop_assert_eq!(unicast.len(), arrived);
    }
}
