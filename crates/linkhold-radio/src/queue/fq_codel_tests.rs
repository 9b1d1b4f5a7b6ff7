//! `fq_codel` against the behaviour that RFC 8290 and RFC 8289 describe.

use linkhold_core::packet::PacketId;

use super::*;
use crate::frame::{AirEvent, RadioId};

const LEN: u32 = 1500;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn frame(id: u64, flow: u32) -> Frame {
    Frame {
        packet: PacketId(id),
        from: RadioId(9),
        to: RadioId(flow % 4),
        len: LEN,
        headers: 40,
        flow_hash: flow,
        ecn_capable: false,
    }
}

/// A queue, and what it dropped: (time in ms, packet, reason).
struct Bench {
    queue: FqCodel,
    out: AirOutput,
    drops: Vec<(u64, u64, AirDrop)>,
    ids: u64,
}

impl Bench {
    fn new(config: FqCodelConfig) -> Self {
        Self { queue: FqCodel::new(config), out: AirOutput::new(), drops: Vec::new(), ids: 0 }
    }

    fn put(&mut self, ms: u64, flow: u32) -> u64 {
        self.put_frame(ms, frame(self.ids, flow))
    }

    fn put_frame(&mut self, ms: u64, frame: Frame) -> u64 {
        self.ids += 1;
        self.queue.enqueue(at(ms), frame, &mut self.out);
        self.note(ms);
        frame.packet.0
    }

    fn get(&mut self, ms: u64, blocked: &[bool]) -> Option<(u64, bool)> {
        let got = self.queue.dequeue(at(ms), blocked, &mut self.out);
        self.note(ms);
        got.map(|(frame, ce)| (frame.packet.0, ce))
    }

    fn note(&mut self, ms: u64) {
        for event in self.out.drain() {
            match event {
                AirEvent::Dropped { frame, reason } => self.drops.push((ms, frame.packet.0, reason)),
                AirEvent::Delivered { .. }
                | AirEvent::Link(_)
                | AirEvent::Overheard { .. }
                | AirEvent::Transmitted(_) => panic!("a queue only drops"),
            }
        }
    }
}

#[test]
fn a_sparse_flow_passes_a_bulk_flow() {
    let mut bench = Bench::new(FqCodelConfig::default());
    for _ in 0..50 {
        bench.put(0, 1);
    }
    assert_eq!(bench.get(0, &[]), Some((0, false)));
    let sparse = bench.put(0, 2);
    // The bulk flow has 14 bytes of its quantum left, so one more packet; then the new flow comes.
    assert_eq!(bench.get(0, &[]), Some((1, false)));
    assert_eq!(bench.get(0, &[]), Some((sparse, false)));
    assert_eq!(bench.get(0, &[]), Some((2, false)));
}

#[test]
fn a_flow_that_ran_empty_goes_to_the_old_list_before_it_may_be_new_again() {
    let mut bench = Bench::new(FqCodelConfig::default());
    for _ in 0..20 {
        bench.put(0, 1);
    }
    // Move flow 1 to the old list, then let flow 2 send a packet every time it is served.
    let (mut from_bulk, mut from_greedy) = (0, 0);
    bench.get(0, &[]);
    bench.get(0, &[]);
    for _ in 0..20 {
        let greedy = bench.put(0, 2);
        match bench.get(0, &[]) {
            Some((id, _)) if id == greedy => from_greedy += 1,
            Some(_) => from_bulk += 1,
            None => panic!("there are packets"),
        }
    }
    assert!(from_bulk >= 9, "bulk {from_bulk}, greedy {from_greedy}: the old flow starves");
}

#[test]
fn backlogged_flows_share_by_bytes() {
    let mut bench = Bench::new(FqCodelConfig::default());
    for _ in 0..300 {
        bench.put(0, 1);
    }
    for _ in 0..1500 {
        let small = Frame { len: 300, ..frame(bench.ids, 2) };
        bench.put_frame(0, small);
    }
    let mut bytes = [0u32; 2];
    for _ in 0..600 {
        let (id, _) = bench.get(0, &[]).unwrap();
        if id < 300 { bytes[0] += LEN } else { bytes[1] += 300 }
    }
    assert!(bytes[0].abs_diff(bytes[1]) <= 2 * 1514, "{bytes:?}");
}

/// Keeps a standing queue of `depth` packets of one flow, one packet in and out a millisecond.
fn drops_under_standing_queue(config: FqCodelConfig, depth: u64, for_ms: u64) -> Vec<u64> {
    let mut bench = Bench::new(config);
    for _ in 0..depth {
        bench.put(0, 1);
    }
    for ms in 1..=for_ms {
        bench.get(ms, &[]);
        while u64::from(bench.queue.packets()) < depth {
            bench.put(ms, 1);
        }
    }
    assert!(bench.drops.iter().all(|drop| drop.2 == AirDrop::Codel));
    bench.drops.iter().map(|drop| drop.0).collect()
}

#[test]
fn codel_drops_at_interval_over_root_count_once_the_delay_stood_for_an_interval() {
    let drops = drops_under_standing_queue(FqCodelConfig::default(), 50, 1000);
    // Sojourn first reaches 5 ms at 5 ms; an interval later the first drop; the next follow the control law.
    let mut expected = vec![105.0];
    let mut next = 205.0;
    let mut count = 1.0f64;
    while next <= 1000.0 {
        expected.push(next);
        count += 1.0;
        next += 100.0 / count.sqrt();
    }
    assert_eq!(drops.len(), expected.len(), "{drops:?} for {expected:?}");
    for (drop, expected) in drops.iter().zip(&expected) {
        assert!((*drop as f64 - expected).abs() <= 1.0, "{drops:?} for {expected:?}");
    }
}

#[test]
fn codel_leaves_a_delay_below_target_alone() {
    assert_eq!(drops_under_standing_queue(FqCodelConfig::default(), 4, 1000), []);
}

#[test]
fn a_silence_counts_as_a_standing_queue() {
    // 250 packets arrive, then nothing is served for 500 ms; then one a millisecond.
    let mut bench = Bench::new(FqCodelConfig::default());
    for _ in 0..250 {
        bench.put(0, 1);
    }
    for ms in 500..700 {
        bench.get(ms, &[]);
    }
    // The delay is first seen at 500 ms, and has stood for an interval at 600 ms.
    assert_eq!(bench.drops.first().map(|drop| drop.0), Some(600));
    // Had it been seen before the silence, the first packet after it is dropped.
    let mut bench = Bench::new(FqCodelConfig::default());
    for _ in 0..250 {
        bench.put(0, 1);
    }
    bench.get(10, &[]);
    bench.get(500, &[]);
    assert_eq!(bench.drops, [(500, 1, AirDrop::Codel)]);
}

#[test]
fn an_ecn_capable_frame_is_marked_and_not_dropped() {
    let run = |ecn| {
        let mut bench = Bench::new(FqCodelConfig { ecn, ..FqCodelConfig::default() });
        for id in 0..50 {
            bench.put_frame(0, Frame { ecn_capable: true, ..frame(id, 1) });
        }
        let marked: Vec<u64> = [10, 200]
            .into_iter()
            .filter_map(|ms| bench.get(ms, &[]))
            .filter(|got| got.1)
            .map(|got| got.0)
            .collect();
        (marked, bench.drops.len())
    };
    assert_eq!(run(true), (vec![1], 0));
    assert_eq!(run(false), (vec![], 1));
}

#[test]
fn an_overflow_takes_from_the_longest_queue() {
    let mut bench = Bench::new(FqCodelConfig { limit: 100, ..FqCodelConfig::default() });
    let thin = bench.put(0, 2);
    for _ in 0..100 {
        bench.put(0, 1);
    }
    // Half of the 100 packets of flow 1, from its head.
    let dropped: Vec<u64> = bench.drops.iter().map(|drop| drop.1).collect();
    assert_eq!(dropped, (1..=50).collect::<Vec<_>>());
    assert!(bench.drops.iter().all(|drop| drop.2 == AirDrop::QueueFull));
    assert_eq!(bench.queue.packets(), 51);
    assert!(core::iter::from_fn(|| bench.get(1, &[])).any(|got| got.0 == thin));
}

/// Linux `fq_codel_drop`, but not `fq_tin_enqueue` of its Wi-Fi stack.
#[test]
fn an_overflow_makes_codel_drop_faster_where_it_counts() {
    // After the first two drops CoDel counts 2, or 66 with the 64 that overflow: 100 ms / sqrt(66) is 12.3
    // ms.
    for (overflow_counts, expected) in [(true, [218, 230, 242]), (false, [276, 334, 384])] {
        let mut bench = Bench::new(FqCodelConfig { limit: 200, overflow_counts, ..FqCodelConfig::default() });
        for _ in 0..150 {
            bench.put(0, 1);
        }
        for ms in 1..400 {
            bench.get(ms, &[]);
            bench.put(ms, 1);
            while ms == 150 && bench.drops.len() < 65 {
                bench.put(ms, 1);
            }
        }
        let codel = |reason| bench.drops.iter().filter(move |drop| drop.2 == reason).map(|drop| drop.0);
        assert_eq!(codel(AirDrop::QueueFull).collect::<Vec<_>>(), [150; 64]);
        let drops: Vec<u64> = codel(AirDrop::Codel).take(5).collect();
        assert_eq!((drops[..2].to_vec(), drops[2..].to_vec()), (vec![105, 205], expected.to_vec()));
    }
}

#[test]
fn the_memory_limit_holds_as_well() {
    let mut bench = Bench::new(FqCodelConfig { memory_limit: Bytes(15_000), ..FqCodelConfig::default() });
    for _ in 0..100 {
        bench.put(0, 1);
        assert!(bench.queue.bytes() <= 15_000);
    }
    assert_eq!(bench.queue.packets() as usize + bench.drops.len(), 100);
}

#[test]
fn a_blocked_stations_flows_wait_and_others_pass() {
    let mut bench = Bench::new(FqCodelConfig::default());
    let (a, b) = (bench.put(0, 0), bench.put(0, 1));
    assert_eq!(bench.get(0, &[true, false]), Some((b, false)));
    assert_eq!(bench.get(0, &[true, false]), None);
    let again = bench.put(0, 0);
    assert_eq!(bench.get(1, &[true, false]), None);
    bench.queue.unblock();
    assert_eq!(
        (bench.get(1, &[]), bench.get(1, &[]), bench.get(1, &[])),
        (Some((a, false)), Some((again, false)), None)
    );
}

#[test]
fn reclaim_takes_the_scope_in_order_of_arrival_over_all_flows() {
    let mut bench = Bench::new(FqCodelConfig::default());
    // Flows 0 and 4 are of station 0, flow 1 of station 1.
    for flow in [0, 1, 4, 0, 1, 4, 4] {
        bench.put(0, flow);
    }
    let mut taken = Vec::new();
    bench.queue.reclaim(|frame| frame.to == RadioId(0), &mut taken);
    assert_eq!(taken.iter().map(|frame| frame.packet.0).collect::<Vec<_>>(), [0, 2, 3, 5, 6]);
    assert_eq!((bench.queue.packets(), bench.queue.bytes()), (2, 3000));
    assert_eq!(
        (bench.get(0, &[]), bench.get(0, &[]), bench.get(0, &[])),
        (Some((1, false)), Some((4, false)), None)
    );
}

/// When a standing queue loses its first packet, ms: one packet arrives and one leaves each millisecond,
/// behind `standing` that are there.
fn first_drop(config: FqCodelConfig, standing: u64, ecn_capable: bool) -> Option<u64> {
    let mut bench = Bench::new(config);
    for _ in 0..standing {
        bench.put(0, 1);
    }
    for ms in 1..2000 {
        bench.put_frame(ms, Frame { ecn_capable, ..frame(bench.ids, 1) });
        bench.get(ms, &[]);
        if !bench.drops.is_empty() {
            return Some(ms);
        }
    }
    None
}

#[test]
fn the_named_parameters_drop_when_their_target_has_stood_for_their_interval() {
    let rfc = FqCodelConfig::default();
    let (wifi, slow) = (FqCodelConfig::MAC80211, FqCodelConfig::MAC80211_SLOW);
    for (name, config, standing, expected) in [
        // The first packet that has waited the target long leaves `target` ms on; an interval later one is
        // dropped.
        ("rfc 8290", rfc, 80, Some(105)),
        ("mac80211", wifi, 80, Some(120)),
        ("mac80211, slow", slow, 80, Some(350)),
        // A queue below the target stands for ever.
        ("rfc 8290", rfc, 10, Some(105)),
        ("mac80211", wifi, 10, None),
        ("mac80211, slow", slow, 30, None),
        ("mac80211", wifi, 30, Some(120)),
    ] {
        assert_eq!(first_drop(config, standing, false), expected, "{name}, {standing} packets stand");
    }
    // The packets that stood there at first could not be marked; those that arrive later can.
    assert_eq!(first_drop(FqCodelConfig { target: at(150).since(at(0)), ..wifi }, 200, true), None);
    assert_eq!(first_drop(FqCodelConfig { ecn: false, ..wifi }, 80, true), Some(120));
}

#[test]
fn a_quantum_below_a_packet_is_fair_all_the_same() {
    let mut bench = Bench::new(FqCodelConfig::MAC80211);
    for _ in 0..100 {
        bench.put(0, 1);
        bench.put(0, 2);
    }
    let mut from_first = 0;
    for _ in 0..100 {
        let (id, _) = bench.get(0, &[]).expect("there are packets");
        from_first += u32::from(id % 2 == 0);
    }
    assert!((49..=51).contains(&from_first), "{from_first}");
}
