//! Nobody takes another's share: queues a flow, quotas, drops from the longest, and windows closed only for
//! those who take the space.

use std::collections::VecDeque;

use super::*;

/// The first packet of a hog has this number; the victim's have lower ones.
const HOG: u64 = 1_000_000;

/// Who sends beside the victim, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hog {
    Nobody,
    /// Each packet from a new port, as `hping3` does. Nobody answers.
    NewPorts,
    /// One connection that the station answers, whose sender heeds no window.
    OneFlow,
    /// The same, four of them.
    FourFlows,
}

/// A radio that takes 1 ms for a packet, a victim that keeps 8 segments under way, and a hog, all at one
/// station.
struct Cell {
    b: Bench,
    air: VecDeque<(u64, u64)>,
    free: Instant,
    next: u32,
    acked: u32,
    hog_sent: u64,
    /// Zero windows that were injected for the victim.
    closed: u32,
}

const VICTIM: u16 = 1;

impl Cell {
    fn new(config: &DsaSyncConfig) -> Self {
        let mut b = Bench::new(config);
        told(&mut b);
        b.open(VICTIM, 50_000);
        for hog in 2..6 {
            b.at(u64::from(hog) * 10).open(hog, 50_000);
        }
        let (air, free) = (VecDeque::new(), Instant::ZERO);
        Self { b, air, free, next: 0, acked: 0, hog_sent: 0, closed: 0 }
    }

    fn config() -> DsaSyncConfig {
        DsaSyncConfig { transmit_queue: Duration::from_millis(2), ..plain(Mode::FreezeNudge) }
    }

    fn take(&mut self, id: u64, verdict: Option<Verdict>, actions: &[Action]) {
        let forwarded = verdict.filter(|verdict| matches!(verdict, Verdict::Forward(_))).map(|_| id);
        for id in forwarded.into_iter().chain(released(actions)) {
            self.free = self.free.max(self.b.now) + Duration::from_millis(1);
            self.air.push_back((self.free.as_nanos(), id));
        }
        let victim = key(VICTIM, false);
        self.closed +=
            injected(actions).iter().filter(|ack| ack.flow == victim && ack.window == 0).count() as u32;
    }

    fn hog(&mut self, hog: Hog) {
        self.hog_sent += 1;
        let n = self.hog_sent;
        let id = HOG + n;
        let key = match hog {
            Hog::Nobody => return,
            Hog::NewPorts => {
                let mut key = key(9, false);
                key.correspondent.port = n as u16;
                key
            }
            Hog::OneFlow => key(2, false),
            Hog::FourFlows => key(2 + (n % 4) as u16, false),
        };
        let seq = Seq(1000 + (n / if hog == Hog::FourFlows { 4 } else { 1 }) as u32 * MSS);
        let tcp = TcpSegment { seq, payload_len: MSS, flags: TcpFlags::ACK, ..TcpSegment::default() };
        let packet = PacketView {
            id: PacketId(id),
            direction: Direction::Downlink,
            origin: Origin::Arrival,
            station: StationId(0),
            flow: &key,
            tcp: &tcp,
            len: MSS + 40,
            ecn: crate::packet::Ecn::NotEct,
        };
        let verdict = self.b.agent.on_packet(self.b.now, &packet, &mut self.b.out);
        let actions: Vec<Action> = self.b.out.drain().collect();
        self.take(id, Some(verdict), &actions);
    }

    /// Lets `ms` pass with a hog that sends a packet every `every` µs; answers the victim's segments
    /// acknowledged in the time.
    fn run(&mut self, ms: u64, hog: Hog, every: u64) -> u32 {
        let before = self.acked;
        for step in 0..ms * 10 {
            self.b.now += Duration::from_micros(100);
            if self.b.agent.next_timeout().is_some_and(|due| due <= self.b.now) {
                let actions = self.b.timeout();
                self.take(0, None, &actions);
            }
            if (step * 100) % every < 100 {
                self.hog(hog);
            }
            while self.next < self.acked + 8 {
                let id = 100 + u64::from(self.next);
                let (verdict, actions) = self.b.down(id, VICTIM, 1000 + self.next * MSS, MSS);
                self.next += 1;
                self.take(id, Some(verdict), &actions);
            }
            let now = self.b.now.as_nanos();
            while let Some((_, id)) = self.air.front().copied().filter(|(done, _)| *done <= now) {
                self.air.pop_front();
                if id < HOG {
                    assert_eq!(id, 100 + u64::from(self.acked), "the victim's order is broken");
                    self.acked += 1;
                    let (_, actions) = self.b.ack(1, VICTIM, 1000 + self.acked * MSS, 50_000);
                    self.take(0, None, &actions);
                }
            }
        }
        self.acked - before
    }
}

#[test]
fn a_hog_at_once_and_at_twice_the_rate_of_the_radio_leaves_the_others_their_share() {
    for hog in [Hog::NewPorts, Hog::OneFlow] {
        for every in [1000, 500, 100] {
            let mut cell = Cell::new(&Cell::config());
            let alone = cell.run(1000, Hog::Nobody, 1000);
            assert!((980..=1001).contains(&alone), "{alone} of 1000 ms");
            cell.run(500, hog, every);
            let beside = cell.run(4000, hog, every);
            assert!(beside >= 1960, "{hog:?} each {every} us: {beside} of 4000 ms");
            let metrics = cell.b.agent.metrics();
            assert_eq!((cell.closed, metrics.held_bytes < 8_000_000), (0, true), "{hog:?}: {metrics:?}");
            // Back at the full rate a second after the hog ends.
            cell.run(1000, Hog::Nobody, 1000);
            let after = cell.run(1000, Hog::Nobody, 1000);
            assert!(after >= 980, "{hog:?} each {every} us: {after} of 1000 ms");
        }
    }
}

#[test]
fn hogs_that_fill_the_buffer_close_no_window_but_their_own() {
    // 400 kB: four hogs at ten times the rate fill it again and again.
    let config = DsaSyncConfig { standing_limit: Duration::ZERO, ..Cell::config() };
    let mut cell = Cell::new(&config.with_b_alloc(Bytes(400_000)));
    let beside = cell.run(4000, Hog::FourFlows, 100);
    let metrics = cell.b.agent.metrics();
    assert!(beside >= 780, "{beside} of 4000 ms, among five");
    assert!(metrics.windows_closed > 0 && metrics.dropped[DropReason::BufferFull as usize] > 1000);
    assert_eq!(cell.closed, 0);
    assert!(metrics.held_bytes <= 400_000);
    // Everything is open again once nobody takes space.
    cell.run(2000, Hog::Nobody, 1000);
    assert_eq!(cell.b.agent.metrics().windows_closed_now, 0);
}

#[test]
fn in_a_full_buffer_the_longest_queue_makes_room_and_its_order_stays() {
    let mut b = Bench::new(&tight(Mode::Hold));
    b.open(1, 50_000);
    b.open(2, 50_000);
    b.at(10).freeze(Scope::Network);
    for n in 0..5 {
        assert_eq!(b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS).0, Verdict::Hold);
    }
    let dropped = |id| Action::Discard { packet: PacketId(id), reason: DropReason::BufferFull };
    assert_eq!(b.down(20, 2, 1000, MSS), (Verdict::Hold, vec![dropped(10)]));
    assert_eq!(b.down(21, 2, 2000, MSS), (Verdict::Hold, vec![dropped(11)]));
    // Two and three: neither is longer with one more than the other.
    assert_eq!(b.down(22, 2, 3000, MSS), (Verdict::Drop(DropReason::BufferFull), vec![]));
    b.room(9);
    assert_eq!(released(&b.at(20).thaw(Scope::Network)), [12, 13, 20, 21, 14]);
}

#[test]
fn a_flow_has_a_quota_and_flows_that_nobody_answered_an_eighth_of_it_together() {
    let config = DsaSyncConfig { flow_quota: Bytes(16_640), ..plain(Mode::Hold) };
    let mut b = Bench::new(&config);
    b.open(1, 50_000);
    b.at(10).freeze(Scope::Network);
    let held = (0..40).filter(|n| b.down(10 + n, 1, 1000 + *n as u32 * MSS, MSS).0 == Verdict::Hold).count();
    assert_eq!(held, 16);
    let held = (0..40).filter(|n| b.down(100 + n, 20 + *n as u16, 1000, MSS).0 == Verdict::Hold).count();
    assert_eq!(held, 2);
}

/// A flood with ever new ports stands before the radio. A SYN-ACK that comes behind it leaves among the
/// first, and finds room though the flood has none left. Data behind it finds none.
#[test]
fn a_connection_that_begins_does_not_wait_in_a_flood_of_strangers() {
    let config = DsaSyncConfig { flow_quota: Bytes(166_400), ..plain(Mode::Hold) };
    let mut b = Bench::new(&config);
    b.at(10).freeze(Scope::Network);
    let held = (0..40).filter(|n| b.down(100 + n, 20 + *n as u16, 1000, MSS).0 == Verdict::Hold).count();
    assert_eq!(held, 20, "an eighth of 166,400");
    let answer = TcpSegment { flags: TcpFlags::SYN | TcpFlags::ACK, ack: Seq(1), ..TcpSegment::default() };
    for (id, flow) in [(10, 1), (11, 2)] {
        let held = b.packet(Direction::Downlink, Origin::Arrival, id, flow, &answer);
        assert_eq!(held, (Verdict::Hold, vec![]));
    }
    assert_eq!(b.down(12, 2, 1, MSS).0, Verdict::Drop(DropReason::BufferFull), "no SYN makes room for data");
    b.room(9);
    let released = released(&b.at(20).thaw(Scope::Network));
    assert_eq!(released[..4], [100, 101, 10, 11], "a turn of the flood, and theirs");
    // Another flood is of SYNs, which weigh 488 bytes each: 10 have their own room, and 43 the strangers'.
    let mut b = Bench::new(&config);
    b.at(10).freeze(Scope::Network);
    let ask = TcpSegment { flags: TcpFlags::SYN, ..TcpSegment::default() };
    let held = (0..2000u16)
        .filter(|&n| {
            let id = 100 + u64::from(n);
            // Ports of station 0.
            let port = n % 100 + 1000 * (n / 100);
            b.packet(Direction::Downlink, Origin::Arrival, id, port, &ask).0 == Verdict::Hold
        })
        .count();
    assert_eq!(held, 53);
}

/// Flows 1 and 2 are of one station, flow 100 of another.
#[test]
fn beyond_its_quota_a_station_makes_room_itself_by_its_longest_queue() {
    let config = DsaSyncConfig { station_quota: Bytes(6 * 1040), dynamic_buffer: false, ..plain(Mode::Hold) };
    let mut b = Bench::new(&config);
    for flow in [1, 2, 100] {
        b.open(flow, 50_000);
    }
    b.at(10).freeze(Scope::Network);
    let seq = |n: u64| 1000 + n as u32 * MSS;
    for n in 0..6 {
        assert_eq!(b.down(10 + n, 1, seq(n), MSS), (Verdict::Hold, vec![]));
    }
    let full = Verdict::Drop(DropReason::BufferFull);
    assert_eq!(b.down(16, 1, seq(6), MSS), (full, vec![]), "no other queue of its station is longer");
    let dropped = |id| Action::Discard { packet: PacketId(id), reason: DropReason::BufferFull };
    assert_eq!(b.down(20, 2, seq(0), MSS), (Verdict::Hold, vec![dropped(10)]));
    // Another station has its own quota, and takes nothing from this one.
    for n in 0..6 {
        assert_eq!(b.down(30 + n, 100, seq(n), MSS), (Verdict::Hold, vec![]));
    }
    assert_eq!(b.down(36, 100, seq(6), MSS), (full, vec![]));
}

/// 8.32 Mbit/s are 1040 bytes a millisecond.
#[test]
fn the_buffer_follows_the_silences_seen_within_b_alloc() {
    let limit = |b: &Bench| b.agent.metrics().held_bytes_limit;
    let wanted = |ms: u64| 4_000_000 + 4 * 1040 * (ms + 250);
    let mut b = Bench::new(&plain(Mode::Hold));
    told(&mut b);
    b.open(1, 50_000);
    assert_eq!(limit(&b), 64_000_000, "all of it, as long as no silence was seen");
    b.at(1000).freeze(Scope::Network);
    assert_eq!(limit(&b), wanted(0));
    // What comes at twice the rate fits, and nothing is dropped for it: the buffer grows with the silence.
    for n in 0..4000u64 {
        b.now = Instant::from_nanos(1_000_000_000 + n * 500_000);
        assert_eq!(b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS).0, Verdict::Hold, "packet {n}");
        assert!(limit(&b) >= 2 * b.agent.metrics().held_bytes);
    }
    b.at(3000).thaw(Scope::Network);
    assert_eq!(limit(&b), wanted(2000));
    for _ in 0..5 {
        b.room(5000);
    }
    assert_eq!(b.agent.metrics().held_packets, 0);
    // A hog at twenty times the rate gets no more than its quota of it, half.
    b.at(9000).freeze(Scope::Network);
    let hog = |n: u64| 4_001_000 + n as u32 * MSS;
    let held = (0..10_000).filter(|&n| b.down(5000 + n, 1, hog(n), MSS).0 == Verdict::Hold).count() as u64;
    assert_eq!(held, wanted(2000) / 2 / 1040);
    // A station's own silence that ends in the network's leaves none that lasts.
    let mut b = Bench::new(&plain(Mode::Hold));
    told(&mut b);
    let own = Scope::Station(StationId(0));
    b.at(1000).freeze(own);
    b.at(1010).freeze(Scope::Network);
    b.at(1020).thaw(own);
    b.at(1100).thaw(Scope::Network);
    assert_eq!(limit(&b), wanted(100));
    b.at(90_000).freeze(Scope::Network);
    b.at(90_010).thaw(Scope::Network);
    assert_eq!(limit(&b), wanted(100));
    // One that follows no silence is fixed.
    let mut b = Bench::new(&DsaSyncConfig { dynamic_buffer: false, ..plain(Mode::Hold) });
    b.at(10).freeze(Scope::Network);
    b.at(20).thaw(Scope::Network);
    assert_eq!(limit(&b), 64_000_000);
}

#[test]
fn a_longer_copy_of_a_held_segment_is_held_to_the_quota_too() {
    let config = DsaSyncConfig { flow_quota: Bytes(16_640), ..plain(Mode::Hold) };
    let mut b = Bench::new(&config);
    b.open(1, 50_000);
    b.at(10).freeze(Scope::Network);
    let full = Verdict::Drop(DropReason::BufferFull);
    let superseded = |id| Action::Discard { packet: PacketId(id), reason: DropReason::Superseded };
    // The quota of flows that nobody answered is 2080 bytes, and 40 are headers.
    assert_eq!(b.down(10, 20, 1000, MSS), (Verdict::Hold, vec![]));
    assert_eq!(b.down(11, 20, 1000, 2041), (full, vec![]));
    assert_eq!(b.down(12, 20, 1000, 2040), (Verdict::Hold, vec![superseded(10)]));
    // Another of the same length adds nothing.
    assert_eq!(b.down(13, 20, 1000, 2040), (Verdict::Hold, vec![superseded(12)]));
    // A flow's own is 16,640 bytes.
    assert_eq!(b.down(30, 1, 1000, 15_000), (Verdict::Hold, vec![]));
    assert_eq!(b.down(31, 1, 16_000, MSS), (Verdict::Hold, vec![]));
    assert_eq!(b.down(32, 1, 16_000, 1561), (full, vec![]));
    assert_eq!(b.down(33, 1, 16_000, 1560), (Verdict::Hold, vec![superseded(31)]));
    b.room(9);
    let mut leaves = released(&b.at(20).thaw(Scope::Network));
    leaves.sort_unstable();
    assert_eq!(leaves, [13, 30, 33]);
}

#[test]
fn a_queue_that_stands_is_cut_but_what_a_silence_kept_is_not() {
    for silence in [false, true] {
        let mut b =
            Bench::new(&DsaSyncConfig { transmit_queue: Duration::from_millis(2), ..plain(Mode::Hold) });
        told(&mut b);
        b.open(1, 50_000);
        b.at(100);
        if silence {
            b.freeze(Scope::Network);
        }
        // 400 ms of packets at once.
        for n in 0..400 {
            let _ = b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS);
        }
        if silence {
            b.at(300).thaw(Scope::Network);
        }
        while let Some(at) = b.agent.next_timeout().filter(|_| b.agent.is_holding()) {
            b.now = at;
            b.timeout();
        }
        let cut = b.agent.metrics().dropped[DropReason::StandingQueue as usize];
        assert_eq!(cut > 0, !silence, "{cut} cut, silence: {silence}");
    }
}

/// The preset `paper`: Algorithm 1 closes every window, Algorithm 2 has one queue a station.
#[test]
fn the_papers_one_queue_serves_who_came_first() {
    let config = DsaSyncConfig { queues: Queues::Station, ..Cell::config() };
    let mut cell = Cell::new(&config);
    cell.run(500, Hog::OneFlow, 500);
    assert!(cell.run(2000, Hog::OneFlow, 500) < 400);
}
