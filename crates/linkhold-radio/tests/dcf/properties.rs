//! What holds in any world.

use std::collections::BTreeSet;

use linkhold_core::time::{Duration, Instant};
use linkhold_radio::dcf::{DcfConfig, Phy, Sent};
use proptest::prelude::*;

use crate::world::{MBPS, Net, Seen, World, us};

#[derive(Clone, Debug)]
enum Act {
    Send { from: u32, to: Option<u32>, len: u32 },
    Suspend(u32),
    Resume(u32),
    Recall(u32),
    Move { a: u32, b: u32, power: f64 },
}

fn act() -> impl Strategy<Value = Act> {
    let radio = || 0u32..6;
    prop_oneof![
        6 => (radio(), prop::option::weighted(0.9, 0u32..7), 1u32..2000)
            .prop_map(|(from, to, len)| Act::Send { from, to, len }),
        1 => radio().prop_map(Act::Suspend),
        2 => radio().prop_map(Act::Resume),
        1 => radio().prop_map(Act::Recall),
        1 => (radio(), radio(), prop::sample::select(vec![0.0, 0.1, 1.0, 20.0]))
            .prop_map(|(a, b, power)| Act::Move { a, b, power }),
    ]
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(200))]

    /// Every frame taken is sent, given up or held; each receiver has each frame at most once, and what an
    /// acknowledged frame's receiver has of one sender is in order.
    #[test]
    fn frames_are_kept_told_once_and_in_order(
        acts in prop::collection::vec((act(), 0u64..1500), 1..120),
        powers in prop::collection::vec(prop::sample::select(vec![0.0, 0.1, 1.0, 1.0, 20.0]), 15),
        rts_threshold in prop::sample::select(vec![0, 500, 2347]),
        noise in prop::sample::select(vec![0.0, 0.05, 1.0]),
        seed: u64,
    ) {
        let mut world = World::cell(6, MBPS(24));
        let mut powers = powers.into_iter();
        for a in 0..6 {
            for b in a + 1..6 {
                world.set(a, b, powers.next().unwrap_or(0.0));
            }
        }
        world.noise = noise;
        let config = DcfConfig { rts_threshold, ..DcfConfig::new(Phy::Ieee80211a) };
        let mut net = Net::new(&config, world, seed);
        let (mut now, mut token) = (us(0), 0);
        for (act, gap) in acts {
            now += Duration::from_micros(gap);
            net.run(now);
            match act {
                Act::Send { from, to, len } => {
                    net.send(now, from, token, to, len);
                    token += 1;
                }
                Act::Suspend(radio) => net.dcf.suspend(now, radio, &mut net.world),
                Act::Resume(radio) => net.dcf.resume(now, radio, &mut net.world),
                Act::Recall(radio) => {
                    if let Some(frame) = net.dcf.recall(now, radio, &mut net.world) {
                        net.world.queues[radio as usize].push_front(frame);
                        net.dcf.on_enqueue(now, radio, &mut net.world);
                    }
                }
                Act::Move { a, b, power } if a != b => net.world.set(a, b, power),
                Act::Move { .. } => {}
            }
            let queued: usize = net.world.queues.iter().map(|queue| queue.len()).sum();
            // Told, waiting in a queue, or under way.
            let under_way = (0..6).filter(|&radio| !net.dcf.is_idle(radio)).count();
            prop_assert_eq!(net.world.outcomes().len() + queued + under_way, token as usize);
            prop_assert!(net.dcf.held() <= under_way as u64);
        }
        for radio in 0..6 {
            net.dcf.resume(now, radio, &mut net.world);
            net.dcf.on_enqueue(now, radio, &mut net.world);
        }
        net.run(now + Duration::from_secs(20));
        prop_assert_eq!(net.dcf.next(), Instant::FAR_FUTURE);
        prop_assert_eq!(net.dcf.held(), 0);
        let told: BTreeSet<u64> = net.world.outcomes().iter().map(|outcome| outcome.0).collect();
        prop_assert_eq!(net.world.outcomes().len(), token as usize);
        prop_assert_eq!(told.len(), token as usize);
        let mut pairs: BTreeSet<(u32, u64)> = BTreeSet::new();
        let mut last = [[None::<u64>; 6]; 6];
        for (_, seen) in &net.world.seen {
            if let Seen::Received { at, from, token } = *seen {
                prop_assert!(pairs.insert((at, token)), "frame {} twice at {}", token, at);
                let last = &mut last[from as usize][at as usize];
                prop_assert!(last.is_none_or(|last| last < token), "frame {} late at {}", token, at);
                *last = Some(token);
            }
        }
        for (token, outcome) in net.world.outcomes() {
            let arrivals = pairs.iter().filter(|pair| pair.1 == token).count();
            match outcome {
                Sent::Acknowledged => prop_assert_eq!(arrivals, 1),
                Sent::GaveUp { arrived } => prop_assert_eq!(arrivals, usize::from(arrived)),
                Sent::Broadcast => {}
            }
        }
        prop_assert!(net.dcf.next() == Instant::FAR_FUTURE);
    }

    /// Radios that hear each other never overlap, but for those that start together and for answers.
    #[test]
    fn in_a_cell_only_what_starts_together_overlaps(stations in 2u32..12, seed: u64) {
        let mut world = World::cell(stations, MBPS(54));
        world.saturated = Some((700, (0..stations).map(|radio| Some((radio + 1) % stations)).collect()));
        let mut net = Net::new(&DcfConfig::new(Phy::Ieee80211a), world, seed);
        for radio in 0..stations {
            net.dcf.on_enqueue(us(0), radio, &mut net.world);
        }
        let mut until = us(0);
        let mut since = us(0);
        while net.dcf.next() < Instant::from_millis(100) {
            let at = net.dcf.next();
            let before = net.world.told.len();
            net.dcf.step(&mut net.world);
            for told in &net.world.told[before..] {
                prop_assert!(told.since >= until || told.since == since, "{:?} in one until {:?}", told, until);
                (since, until) = (told.since, at);
            }
        }
    }
}
