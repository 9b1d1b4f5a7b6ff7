//! Dialogues with [`DsaSync`]: each line is an input, and what it must answer. Comments name the algorithm's line.

use core::net::IpAddr;

use super::*;
use crate::action::AckSpec;
use crate::link_event::Cause;
use crate::link_monitor::LinkMonitorConfig;
use crate::packet::{Endpoint, FlowKey, SynOptions, TcpSegment, TcpTimestamp};
use crate::units::{BitRate, Bytes, Fraction};

const MSS: u32 = 1000;
const SHIFT: u8 = 2;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

struct Bench {
    agent: DsaSync,
    out: Actions,
    now: Instant,
}

fn key(n: u16, v6: bool) -> FlowKey {
    let addr = |last: u8| {
        if v6 {
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)])
        } else {
            IpAddr::from([10, 0, 0, last])
        }
    };
    FlowKey {
        correspondent: Endpoint { addr: addr(1), port: 80 },
        station: Endpoint { addr: addr(2), port: n },
    }
}

/// Settings under which nothing but the tested thing happens.
fn plain(mode: Mode) -> DsaSyncConfig {
    DsaSyncConfig {
        mode,
        close_at: CloseAt::UsedUp,
        capacity: CapacityResponse::Off,
        clamp: Clamp::Off,
        transmit_queue: Duration::ZERO,
        uplink: uplink::UplinkConfig { mode: UplinkMode::Off, ..Default::default() },
        reclaim: false,
        ..DsaSyncConfig::default()
    }
}

impl Bench {
    fn new(config: &DsaSyncConfig) -> Self {
        Self { agent: DsaSync::new(config).unwrap(), out: Actions::new(), now: Instant::ZERO }
    }

    fn at(&mut self, millis: u64) -> &mut Self {
        self.now = ms(millis);
        self
    }

    fn packet(
        &mut self,
        direction: Direction,
        origin: Origin,
        id: u64,
        flow: u16,
        tcp: &TcpSegment,
    ) -> (Verdict, Vec<Action>) {
        let key = key(flow, flow >= 1000);
        let view = PacketView {
            id: PacketId(id),
            direction,
            origin,
            station: StationId(u32::from(flow) / 100 % 10),
            flow: &key,
            tcp,
            len: tcp.payload_len + 40,
            ecn: crate::packet::Ecn::NotEct,
        };
        let verdict = self.agent.on_packet(self.now, &view, &mut self.out);
        (verdict, self.out.drain().collect())
    }

    fn down(&mut self, id: u64, flow: u16, seq: u32, len: u32) -> (Verdict, Vec<Action>) {
        let tcp =
            TcpSegment { seq: Seq(seq), payload_len: len, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(Direction::Downlink, Origin::Arrival, id, flow, &tcp)
    }

    fn back(&mut self, id: u64, flow: u16, seq: u32) -> (Verdict, Vec<Action>) {
        let tcp =
            TcpSegment { seq: Seq(seq), payload_len: MSS, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(Direction::Downlink, Origin::TransmitQueue, id, flow, &tcp)
    }

    fn ack(&mut self, id: u64, flow: u16, ack: u32, window: u16) -> (Verdict, Vec<Action>) {
        let tcp =
            TcpSegment { ack: Seq(ack), seq: Seq(1), window, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(Direction::Uplink, Origin::Arrival, id, flow, &tcp)
    }

    /// Handshake from the correspondent (its SYN has number 0), then the first ACK of data up to 1000.
    fn open(&mut self, flow: u16, window: u16) {
        let syn = SynOptions { mss: Some(1460), window_scale: Some(SHIFT), sack_permitted: false };
        let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..TcpSegment::default() };
        let answer = TcpSegment {
            flags: TcpFlags::SYN | TcpFlags::ACK,
            ack: Seq(1),
            window,
            syn,
            ..TcpSegment::default()
        };
        let _ = self.packet(Direction::Downlink, Origin::Arrival, 1, flow, &ask);
        let _ = self.packet(Direction::Uplink, Origin::Arrival, 2, flow, &answer);
        assert_eq!(self.down(3, flow, 0, MSS).0, Verdict::Forward(Rewrite::NONE));
        assert_eq!(self.ack(4, flow, 1000, window).0, Verdict::Forward(Rewrite::NONE));
    }

    fn link(&mut self, kind: LinkEventKind) -> Vec<Action> {
        self.agent.on_link(self.now, LinkEvent::at(self.now, kind), &mut self.out);
        self.out.drain().collect()
    }

    fn freeze(&mut self, scope: Scope) -> Vec<Action> {
        self.link(LinkEventKind::FreezeStarted { scope, cause: Cause::PrimaryUser, expected: None })
    }

    fn thaw(&mut self, scope: Scope) -> Vec<Action> {
        self.link(LinkEventKind::FreezeEnded { scope, cause: Cause::PrimaryUser })
    }

    fn room(&mut self, packets: u32) -> Vec<Action> {
        self.link(LinkEventKind::TransmitRoom { packets, bytes: Bytes(1_000_000) })
    }

    fn timeout(&mut self) -> Vec<Action> {
        self.agent.on_timeout(self.now, &mut self.out);
        self.out.drain().collect()
    }
}

fn released(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Release { packet, .. } => Some(packet.0),
            _ => None,
        })
        .collect()
}

fn injected(actions: &[Action]) -> Vec<AckSpec> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::InjectAck(ack) => Some(*ack),
            _ => None,
        })
        .collect()
}

const FORWARD: Verdict = Verdict::Forward(Rewrite::NONE);

#[test]
fn algorithm_1_line_7_without_a_silence_packets_pass() {
    let mut b = Bench::new(&plain(Mode::Freeze));
    b.open(1, 5000);
    assert_eq!(b.down(10, 1, 1000, MSS), (FORWARD, vec![]));
    assert!(!b.agent.is_holding());
}

#[test]
fn algorithm_1_line_9_a_silence_holds_and_its_end_releases_in_order() {
    let mut b = Bench::new(&plain(Mode::Hold));
    b.open(1, 50_000);
    b.room(10);
    b.at(10).freeze(Scope::Network);
    for n in 0..4 {
        assert_eq!(b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS), (Verdict::Hold, vec![]));
    }
    // Algorithm 2 line 9: no more than the room told.
    b.at(20);
    let mut actions = b.thaw(Scope::Network);
    actions.extend(b.room(2));
    assert_eq!(released(&actions), [10, 11, 12, 13]);
    assert!(!b.agent.is_holding());
}

#[test]
fn algorithm_2_line_9_a_release_never_exceeds_the_room_told_and_arrivals_queue_behind() {
    let mut b = Bench::new(&plain(Mode::Hold));
    b.open(1, 50_000);
    b.room(0);
    b.at(10).freeze(Scope::Network);
    for n in 0..4 {
        let _ = b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS);
    }
    assert!(released(&b.at(20).thaw(Scope::Network)).is_empty());
    assert_eq!(released(&b.room(2)), [10, 11]);
    // The station still has packets waiting: a new one must not overtake them.
    assert_eq!(b.down(14, 1, 5000, MSS).0, Verdict::Hold);
    assert_eq!(released(&b.room(1)), [12]);
    assert_eq!(released(&b.room(9)), [13, 14]);
    assert_eq!(b.down(15, 1, 6000, MSS).0, FORWARD);
}

#[test]
fn without_sight_of_the_queue_releases_are_paced_by_capacity_and_efficiency() {
    let mut b = Bench::new(&plain(Mode::Hold));
    b.link(LinkEventKind::ChannelSwitched {
        capacity: BitRate(16_640_000),
        efficiency: Fraction::clamped(0.5),
    });
    b.open(1, 50_000);
    b.at(100).freeze(Scope::Network);
    for n in 0..20 {
        let _ = b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS);
    }
    // 1040 bytes at 8.32 Mb/s are 1 ms; up to 2 ms of credit go at once.
    let mut order = released(&b.at(200).thaw(Scope::Network));
    assert!(order.len() <= 3, "{order:?}");
    let mut last = 200;
    while let Some(at) = b.agent.next_timeout().filter(|_| b.agent.is_holding()) {
        b.now = at;
        last = at.as_nanos().div_ceil(1_000_000);
        order.extend(released(&b.timeout()));
    }
    assert_eq!(order, (10..30).collect::<Vec<_>>());
    assert!((216..=221).contains(&last), "{last}");
}

/// 1040 bytes at 8.32 Mb/s are 1 ms.
fn told(b: &mut Bench) {
    b.link(LinkEventKind::ChannelSwitched {
        capacity: BitRate(16_640_000),
        efficiency: Fraction::clamped(0.5),
    });
}

#[test]
fn a_burst_leaves_no_more_than_two_milliseconds_in_a_transmit_queue_that_nobody_sees() {
    let mut b =
        Bench::new(&DsaSyncConfig { transmit_queue: Duration::from_millis(2), ..plain(Mode::Freeze) });
    told(&mut b);
    b.open(1, 50_000);
    b.at(100);
    // One goes into the radio and two wait behind it; the others wait here.
    let verdicts: Vec<Verdict> = (0..10).map(|n| b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS).0).collect();
    assert_eq!(verdicts[..3], [FORWARD; 3]);
    assert_eq!(verdicts[3..], [Verdict::Hold; 7]);
    let mut order = Vec::new();
    for n in 1..=7 {
        assert_eq!(b.agent.next_timeout(), Some(ms(100 + n)));
        b.at(100 + n);
        order.extend(released(&b.timeout()));
    }
    assert_eq!(order, (13..20).collect::<Vec<_>>());
    assert!(!b.agent.is_holding());
    // A silence stops the queue: what it held before, it holds after.
    b.at(107).freeze(Scope::Network);
    assert_eq!(b.down(20, 1, 11_000, MSS).0, Verdict::Hold);
    assert_eq!(released(&b.at(500).thaw(Scope::Network)), []);
    assert_eq!(released(&b.at(501).timeout()), [20]);
}

#[test]
fn what_segments_really_wait_corrects_the_pace_at_which_they_go_down() {
    let mut b =
        Bench::new(&DsaSyncConfig { transmit_queue: Duration::from_millis(2), ..plain(Mode::Freeze) });
    told(&mut b);
    b.open(1, 50_000);
    // An empty radio takes 1 ms from here to the ACK: the radio's part.
    for n in 0..5u32 {
        let at = 100 + u64::from(n) * 10;
        assert_eq!(b.at(at).down(10, 1, 1000 + n * MSS, MSS).0, FORWARD);
        let _ = b.at(at + 1).ack(11, 1, 2000 + n * MSS, 50_000);
    }
    // ACKs take 4 % of the channel, which nobody told; the sender keeps 40 segments under way.
    let took = 1_042_000;
    let (mut waiting, mut next, mut acked, mut free_at) = (std::collections::VecDeque::new(), 0u32, 0u32, 0);
    let mut longest = 0;
    for step in 0..40_000u64 {
        b.now = ms(200) + Duration::from_micros(step * 100);
        let mut down = released(&b.timeout());
        while next < acked + 40 {
            let id = 100 + u64::from(next);
            if b.down(id, 1, 6000 + next * MSS, MSS).0 == FORWARD {
                down.push(id);
            }
            next += 1;
        }
        for id in down {
            free_at = free_at.max(b.now.as_nanos()) + took;
            waiting.push_back((id, free_at));
        }
        while let Some((id, _)) = waiting.front().copied().filter(|&(_, done)| done <= b.now.as_nanos()) {
            waiting.pop_front();
            acked = (id - 100) as u32 + 1;
            let _ = b.ack(1, 1, 6000 + acked * MSS, 50_000);
        }
        if step > 10_000 {
            longest = longest.max(waiting.len());
            assert!(!waiting.is_empty(), "the radio ran dry at {:?}", b.now);
        }
    }
    assert!(longest <= 4, "{longest} segments in the transmit queue");
}

#[test]
fn a_window_that_is_used_up_stays_full_and_is_not_closed_unless_asked() {
    let mut b = Bench::new(&DsaSyncConfig { close_at: CloseAt::SpaceLow, ..plain(Mode::FreezeNudge) });
    b.open(1, 750);
    b.room(9);
    b.at(10).freeze(Scope::Network);
    for n in 0..3 {
        assert_eq!(b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS), (Verdict::Hold, vec![]));
    }
    // Nor does the sender's timeout change that.
    assert_eq!(injected(&b.at(300).down(13, 1, 1000, MSS).1), []);
    let actions = b.at(400).thaw(Scope::Network);
    assert_eq!(injected(&actions), []);
    assert_eq!(b.agent.metrics().windows_closed, 0);
}

#[test]
fn algorithm_2_line_11_the_transmit_queue_comes_back_to_the_front() {
    let mut b = Bench::new(&DsaSyncConfig { reclaim: true, ..plain(Mode::Hold) });
    b.open(1, 50_000);
    for n in 0..3 {
        assert_eq!(b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS).0, FORWARD);
    }
    assert_eq!(b.at(10).freeze(Scope::Network), [Action::Reclaim { scope: Scope::Network }]);
    assert_eq!(b.down(13, 1, 4000, MSS).0, Verdict::Hold);
    for (id, seq) in [(12, 3000), (11, 2000), (10, 1000)] {
        assert_eq!(b.back(id, 1, seq), (Verdict::Hold, vec![]));
    }
    b.at(20).room(9);
    assert_eq!(released(&b.thaw(Scope::Network)), [10, 11, 12, 13]);
}

#[test]
fn the_transmit_queue_stays_where_the_radio_works_again_before_that_is_known() {
    let mut b = Bench::new(&DsaSyncConfig { reclaim: true, ..plain(Mode::Hold) });
    let began = LinkEventKind::FreezeStarted { scope: Scope::Network, cause: Cause::Fade, expected: None };
    let ended = LinkEventKind::FreezeEnded { scope: Scope::Network, cause: Cause::Fade };
    let told = |at, event| LinkEvent { detected_at: ms(at), effective_at: Some(ms(event)), kind: began };
    // (ended at, noticed at, what the next fade does)
    let back = vec![Action::Reclaim { scope: Scope::Network }];
    for (round, (at, noticed, expected)) in
        [(180, 200, vec![]), (185, 200, vec![]), (200, 200, back.clone())].into_iter().enumerate()
    {
        let base = 1000 * round as u64;
        b.agent.on_link(ms(base + 120), told(base + 120, base + 100), &mut b.out);
        let _ = b.out.drain().count();
        let end = LinkEvent { kind: ended, ..told(base + noticed, base + at) };
        b.agent.on_link(ms(base + noticed), end, &mut b.out);
        // A primary user's bursts are another matter.
        assert_eq!(b.at(base + 300).freeze(Scope::Network), back);
        b.at(base + 320).thaw(Scope::Network);
        b.agent.on_link(ms(base + 420), told(base + 420, base + 400), &mut b.out);
        assert_eq!(b.out.drain().collect::<Vec<_>>(), expected, "round {round}");
        b.agent.on_link(
            ms(base + 440),
            LinkEvent { kind: ended, ..told(base + 440, base + at + 240 - noticed + 200) },
            &mut b.out,
        );
        let _ = b.out.drain().count();
    }
}

#[test]
fn stations_are_served_in_turn_and_a_silent_one_waits_alone() {
    let mut b = Bench::new(&plain(Mode::Hold));
    for flow in [101, 201, 301] {
        b.open(flow, 50_000);
    }
    b.room(0);
    b.at(10).freeze(Scope::Network);
    b.freeze(Scope::Station(StationId(3)));
    for n in 0..2 {
        for flow in [101u16, 201, 301] {
            let _ = b.down(u64::from(flow) * 10 + n, flow, 1000 + n as u32 * MSS, MSS);
        }
    }
    b.at(20).thaw(Scope::Network);
    assert_eq!(released(&b.room(20)), [1010, 2010, 1011, 2011]);
    assert_eq!(released(&b.thaw(Scope::Station(StationId(3)))), [3010, 3011]);
}

/// Room for five packets of 1040 bytes; windows close when the fourth is held and open when three or more fit again.
fn tight(mode: Mode) -> DsaSyncConfig {
    DsaSyncConfig { b_alloc: Bytes(5200), b_high: Bytes(3000), b_low: Bytes(2000), ..plain(mode) }
}

#[test]
fn algorithm_1_lines_11_to_15_low_space_closes_every_window_and_algorithm_2_lines_1_to_5_open_them() {
    let mut b = Bench::new(&tight(Mode::Freeze));
    b.open(1, 50_000);
    b.open(2, 40_000);
    b.room(0);
    b.at(10).freeze(Scope::Network);
    for n in 0..3 {
        assert_eq!(b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS), (Verdict::Hold, vec![]));
    }
    let (verdict, actions) = b.down(13, 1, 4000, MSS);
    assert_eq!(verdict, Verdict::Hold);
    let acks = injected(&actions);
    assert_eq!(
        acks.iter().map(|a| (a.flow.station.port, a.ack, a.window)).collect::<Vec<_>>(),
        [(1, Seq(1000), 0), (2, Seq(1000), 0)]
    );
    // "overwrites the rwin field to 0 in outgoing packets"
    assert_eq!(b.ack(20, 2, 1000, 40_000).0, Verdict::Forward(Rewrite::window(0)));
    // The silence ends, but space is still low: windows stay closed until B_free > B_high.
    assert_eq!(b.at(20).thaw(Scope::Network), []);
    assert_eq!(injected(&b.room(1)), []);
    let acks = injected(&b.room(1));
    assert_eq!(
        acks.iter().map(|a| (a.flow.station.port, a.ack, a.window)).collect::<Vec<_>>(),
        [(1, Seq(1000), 50_000), (2, Seq(1000), 40_000)]
    );
    assert_eq!(b.agent.metrics().windows_closed_now, 0);
}

#[test]
fn held_bytes_never_exceed_b_alloc() {
    let mut b = Bench::new(&tight(Mode::Hold));
    b.open(1, 50_000);
    b.at(10).freeze(Scope::Network);
    for n in 0..5 {
        assert_eq!(b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS).0, Verdict::Hold);
    }
    assert_eq!(b.down(15, 1, 6000, MSS).0, Verdict::Drop(DropReason::BufferFull));
    assert_eq!(b.agent.metrics().held_bytes, 5200);
}

#[test]
fn algorithm_1_lines_17_to_19_a_used_up_window_closes_one_connection() {
    for v6 in [0, 1000] {
        let mut b = Bench::new(&plain(Mode::Freeze));
        // 750 << 2 = 3000 bytes from 1000 on
        b.open(1 + v6, 750);
        b.open(2 + v6, 750);
        b.room(9);
        b.at(10).freeze(Scope::Network);
        assert_eq!(b.down(10, 1 + v6, 1000, MSS).1, []);
        assert_eq!(b.down(11, 1 + v6, 2000, MSS).1, []);
        let acks = injected(&b.down(12, 1 + v6, 3000, MSS).1);
        assert_eq!(acks.len(), 1);
        assert_eq!(
            (acks[0].flow, acks[0].seq, acks[0].ack, acks[0].window),
            (key(1 + v6, v6 > 0), Seq(1), Seq(1000), 0)
        );
        // What the paper leaves out: the window is open again when the silence is over.
        let actions = b.at(20).thaw(Scope::Network);
        assert_eq!(injected(&actions)[0].window, 750);
        assert_eq!(released(&actions), [10, 11, 12]);
    }
}

#[test]
fn algorithm_1_lines_22_to_24_probes_are_answered_with_the_last_ack_and_no_window() {
    let mut b = Bench::new(&plain(Mode::Freeze));
    b.open(1, 250);
    b.at(10).freeze(Scope::Network);
    assert_eq!(injected(&b.down(10, 1, 1000, MSS).1).len(), 1);
    // Linux: empty, one below what is acknowledged.
    let (verdict, actions) = b.down(11, 1, 999, 0);
    assert_eq!(
        (verdict, injected(&actions)[0].ack, injected(&actions)[0].window),
        (Verdict::Hold, Seq(1000), 0)
    );
    // The next one takes its place.
    let (_, actions) = b.down(12, 1, 999, 0);
    assert!(actions.contains(&Action::Discard { packet: PacketId(11), reason: DropReason::Superseded }));
    // Classic: one byte beyond the window.
    assert_eq!(injected(&b.down(13, 1, 2000, 1).1).len(), 1);
    assert_eq!(b.agent.metrics().probes_answered, 3);
}

#[test]
fn a_newer_copy_takes_the_older_ones_place() {
    let mut b = Bench::new(&DsaSyncConfig { duplicates: Duplicates::ReplaceOlder, ..plain(Mode::Hold) });
    b.open(1, 50_000);
    b.room(9);
    b.at(10).freeze(Scope::Network);
    for n in 0..3 {
        let _ = b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS);
    }
    let (verdict, actions) = b.down(20, 1, 1000, MSS);
    assert_eq!(verdict, Verdict::Hold);
    assert_eq!(actions, [Action::Discard { packet: PacketId(10), reason: DropReason::Superseded }]);
    // A shorter one would lose bytes that the older one carries.
    assert_eq!(b.down(21, 1, 2000, 10).1, []);
    assert_eq!(released(&b.at(20).thaw(Scope::Network)), [20, 11, 12, 21]);
}

#[test]
fn a_sender_that_can_tell_a_spurious_timeout_gets_both_copies() {
    let mut b = Bench::new(&plain(Mode::Hold));
    b.open(1, 50_000);
    b.room(9);
    b.at(10).freeze(Scope::Network);
    let timestamp = Some(TcpTimestamp { value: 1, echo: 1 });
    let tcp = TcpSegment {
        seq: Seq(1000),
        payload_len: MSS,
        flags: TcpFlags::ACK,
        timestamp,
        ..Default::default()
    };
    for id in [10, 11] {
        assert_eq!(b.packet(Direction::Downlink, Origin::Arrival, id, 1, &tcp), (Verdict::Hold, vec![]));
    }
    assert_eq!(released(&b.at(20).thaw(Scope::Network)), [10, 11]);
}

#[test]
fn a_flow_seen_from_the_middle_is_closed_only_for_space_and_reopened_with_its_own_window() {
    let mut b = Bench::new(&tight(Mode::Freeze));
    let _ = b.down(1, 1, 0, MSS);
    let _ = b.ack(2, 1, 1000, 1);
    b.room(9);
    b.at(10).freeze(Scope::Network);
    for n in 0..3 {
        assert_eq!(injected(&b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS).1), []);
    }
    assert_eq!(injected(&b.down(13, 1, 4000, MSS).1)[0].window, 0);
    assert_eq!(injected(&b.at(20).thaw(Scope::Network))[0].window, 1);
    assert_eq!(b.agent.metrics().windows_closed_now, 0);
    assert_eq!(b.agent.metrics().midstream_flows, 1);
}

#[test]
fn hold_mode_touches_no_window() {
    let mut b = Bench::new(&tight(Mode::Hold));
    b.open(1, 250);
    b.at(10).freeze(Scope::Network);
    for n in 0..9 {
        assert_eq!(injected(&b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS).1), []);
    }
    assert_eq!(b.ack(30, 1, 1000, 250).0, FORWARD);
}

#[test]
fn silence_start_closes_at_once_and_only_whom_it_concerns() {
    let mut b = Bench::new(&DsaSyncConfig { close_at: CloseAt::SilenceStart, ..plain(Mode::Freeze) });
    b.open(101, 500);
    b.open(201, 500);
    let acks = injected(&b.at(10).freeze(Scope::Station(StationId(1))));
    assert_eq!(acks.iter().map(|a| (a.flow.station.port, a.window)).collect::<Vec<_>>(), [(101, 0)]);
    let acks = injected(&b.at(20).thaw(Scope::Station(StationId(1))));
    assert_eq!(acks.iter().map(|a| (a.flow.station.port, a.window)).collect::<Vec<_>>(), [(101, 500)]);
}

#[test]
fn freeze_nudge_opens_one_wired_round_trip_early_and_repeats_until_heard() {
    let config = DsaSyncConfig { close_at: CloseAt::SilenceStart, ..plain(Mode::FreezeNudge) };
    for heard in [false, true] {
        let mut b = Bench::new(&config);
        // The SYN-ACK passes at 0, its answer at 30 ms: the wired part.
        let syn = SynOptions { mss: None, window_scale: Some(SHIFT), sack_permitted: true };
        let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..Default::default() };
        let answer = TcpSegment {
            flags: TcpFlags::SYN | TcpFlags::ACK,
            ack: Seq(1),
            window: 500,
            syn,
            ..Default::default()
        };
        let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &ask);
        let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
        let data = TcpSegment {
            seq: Seq(1),
            ack: Seq(1),
            payload_len: MSS,
            flags: TcpFlags::ACK,
            ..Default::default()
        };
        let _ = b.at(30).packet(Direction::Downlink, Origin::Arrival, 3, 1, &data);
        let _ = b.at(35).ack(4, 1, 1001, 500);
        let acks = injected(&b.at(100).link(LinkEventKind::FreezeStarted {
            scope: Scope::Network,
            cause: Cause::Sensing,
            expected: Some(Duration::from_millis(200)),
        }));
        assert_eq!(acks[0].window, 0);
        assert_eq!(injected(&b.at(269).timeout()), []);
        assert_eq!(b.agent.next_timeout(), Some(ms(270)));
        assert_eq!(injected(&b.at(270).timeout())[0].window, 500);
        if heard {
            // Used up again, but not closed again in this silence.
            assert_eq!(b.at(300).down(10, 1, 1001, 2000), (Verdict::Hold, vec![]));
        }
        let mut times = vec![];
        while let Some(at) = b.agent.next_timeout().filter(|at| *at < ms(2000)) {
            b.now = at;
            times.extend(injected(&b.timeout()).iter().map(|ack| (at, ack.window)));
        }
        assert_eq!(times, if heard { vec![] } else { vec![(ms(320), 500), (ms(420), 500)] });
    }
}

#[test]
fn the_ack_kept_back_before_an_announced_silence_closes_the_window_with_a_new_number() {
    let mut b = Bench::new(&DsaSyncConfig { keep_back: true, ..plain(Mode::FreezeNudge) });
    b.open(1, 500);
    b.link(LinkEventKind::SensingSchedule {
        scope: Scope::Network,
        period: Duration::from_millis(500),
        duration: Duration::from_millis(25),
        next: ms(100),
    });
    assert_eq!(b.at(90).ack(10, 1, 2000, 500).0, FORWARD);
    assert_eq!(b.at(97).ack(11, 1, 3000, 500), (Verdict::Hold, vec![]));
    // A later one lets it go first.
    let release = |id| Action::Release { packet: PacketId(id), rewrite: Rewrite::NONE };
    assert_eq!(b.at(98).ack(12, 1, 4000, 500), (Verdict::Hold, vec![release(11)]));
    let actions = b.at(100).freeze(Scope::Network);
    assert_eq!(actions, [Action::Release { packet: PacketId(12), rewrite: Rewrite::window(0) }]);
    assert_eq!(injected(&b.at(125).thaw(Scope::Network))[0].window, 500);
}

#[test]
fn algorithm_5_as_printed_sends_three_duplicate_acks_once() {
    let mut b =
        Bench::new(&DsaSyncConfig { capacity: CapacityResponse::DuplicateAcks, ..plain(Mode::Freeze) });
    let channel = |mbps| LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(mbps),
        efficiency: Fraction::clamped(0.5),
    };
    b.link(channel(24));
    b.open(101, 50_000);
    b.open(201, 50_000);
    // Station 1 gets 8.3 Mb/s, station 2 hardly anything.
    for n in 0..500 {
        let _ = b.at(n).down(10, 101, 1000 + n as u32 * MSS, MSS);
    }
    let _ = b.down(11, 201, 1000, MSS);
    // line 2: not above e·C
    assert_eq!(b.link(channel(20)), []);
    let acks = injected(&b.link(channel(12)));
    assert_eq!(acks.len(), 3);
    assert!(acks.iter().all(|a| a.flow.station.port == 101 && a.ack == Seq(1000) && a.window == 50_000));
    assert_eq!(b.link(channel(12)), []);
}

#[test]
fn algorithm_5_modern_echoes_congestion_until_the_sender_has_answered() {
    let mut b = Bench::new(&DsaSyncConfig { capacity: CapacityResponse::Modern, ..plain(Mode::Freeze) });
    let channel = |mbps| LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(mbps),
        efficiency: Fraction::ONE,
    };
    b.link(channel(24));
    let ask = TcpSegment { flags: TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR, ..Default::default() };
    let answer = TcpSegment {
        flags: TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE,
        ack: Seq(1),
        window: 500,
        ..Default::default()
    };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &ask);
    let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
    for n in 0..500 {
        let _ = b.at(n).down(10, 1, 1 + n as u32 * MSS, MSS);
    }
    assert_eq!(b.ack(11, 1, 1001, 500).0, FORWARD);
    b.link(channel(1));
    let ece = Verdict::Forward(Rewrite { set_ece: true, ..Rewrite::NONE });
    assert_eq!(b.ack(12, 1, 2001, 500).0, ece);
    let cwr = TcpSegment {
        flags: TcpFlags::ACK | TcpFlags::CWR,
        seq: Seq(600_001),
        payload_len: MSS,
        ..Default::default()
    };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 13, 1, &cwr);
    assert_eq!(b.ack(14, 1, 3001, 500).0, FORWARD);
}

#[test]
fn the_clamp_holds_the_window_to_the_bandwidth_delay_product_and_never_takes_an_edge_back() {
    let mut b = Bench::new(&DsaSyncConfig {
        clamp: Clamp::Always,
        standing_queue: Duration::from_millis(20),
        ..plain(Mode::Freeze)
    });
    b.link(LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(16),
        efficiency: Fraction::clamped(0.5),
    });
    let syn = SynOptions { mss: Some(1000), window_scale: Some(SHIFT), sack_permitted: true };
    let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..Default::default() };
    let answer = TcpSegment {
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ack: Seq(1),
        window: 65_000,
        syn,
        ..Default::default()
    };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &ask);
    let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
    // 10 ms wired, 0 ms radio, 20 ms standing queue at 1 MB/s: 30,000 bytes, and a segment.
    let tcp =
        TcpSegment { seq: Seq(1), ack: Seq(1), payload_len: MSS, flags: TcpFlags::ACK, ..Default::default() };
    let _ = b.at(10).packet(Direction::Downlink, Origin::Arrival, 3, 1, &tcp);
    let mut edge = 65_001;
    for n in 1..80 {
        let ack = 1 + n * MSS;
        let _ = b.down(10, 1, ack, MSS);
        let (verdict, _) = b.ack(11, 1, ack, 50_000);
        let Verdict::Forward(rewrite) = verdict else { panic!("{verdict:?}") };
        let window = u32::from(rewrite.window.unwrap());
        assert!(ack + (window << SHIFT) >= edge, "the edge went back");
        edge = ack + (window << SHIFT);
        if n >= 40 {
            assert_eq!(window, 31_000 >> SHIFT);
        }
    }
    // Never above what the station offers.
    let _ = b.down(10, 1, 80_001, MSS);
    assert_eq!(b.ack(12, 1, 80_001, 2000).0, FORWARD);
}

#[test]
fn an_evicted_flow_is_discarded_and_reopened() {
    let mut b =
        Bench::new(&DsaSyncConfig { max_flows: 1, close_at: CloseAt::SilenceStart, ..plain(Mode::Freeze) });
    b.open(1, 500);
    b.at(10).freeze(Scope::Network);
    let _ = b.down(10, 1, 1000, MSS);
    let (verdict, actions) = b.down(11, 2, 1000, MSS);
    assert_eq!(verdict, Verdict::Hold);
    assert_eq!(actions[0], Action::Discard { packet: PacketId(10), reason: DropReason::FlowEvicted });
    assert_eq!(injected(&actions)[0].window, 500);
    let metrics = b.agent.metrics();
    assert_eq!((metrics.flows, metrics.flow_evictions, metrics.windows_closed_now), (1, 1, 0));
}

#[test]
fn a_silence_that_nobody_ends_is_ended_and_everything_reopened() {
    let monitor = LinkMonitorConfig { max_silence: Duration::from_secs(2), ..Default::default() };
    let mut b =
        Bench::new(&DsaSyncConfig { monitor, close_at: CloseAt::SilenceStart, ..plain(Mode::Freeze) });
    b.open(1, 500);
    b.room(9);
    b.at(10).freeze(Scope::Network);
    let _ = b.down(10, 1, 1000, MSS);
    assert_eq!(b.at(2000).timeout(), []);
    let actions = b.at(2010).timeout();
    assert_eq!((released(&actions), injected(&actions)[0].window), (vec![10], 500));
}

#[test]
fn flush_lets_everything_go_in_a_silence() {
    let mut b = Bench::new(&DsaSyncConfig { close_at: CloseAt::SilenceStart, ..tight(Mode::FreezeNudge) });
    b.open(1, 500);
    b.room(0);
    b.at(10).freeze(Scope::Network);
    for n in 0..5 {
        let _ = b.down(10 + n, 1, 1000 + n as u32 * MSS, MSS);
    }
    b.agent.flush(b.now, &mut b.out);
    let actions: Vec<_> = b.out.drain().collect();
    assert_eq!((released(&actions), injected(&actions)[0].window), ((10..15).collect(), 500));
    let metrics = b.agent.metrics();
    assert_eq!((metrics.held_bytes, metrics.held_packets, metrics.windows_closed_now), (0, 0, 0));
}

#[test]
fn a_reset_keeps_its_place_behind_the_data_and_ends_the_flow() {
    let mut b = Bench::new(&plain(Mode::Hold));
    b.open(1, 500);
    b.room(9);
    b.at(10).freeze(Scope::Network);
    let _ = b.down(10, 1, 1000, MSS);
    let rst = TcpSegment { seq: Seq(2000), flags: TcpFlags::RST, ..Default::default() };
    assert_eq!(b.packet(Direction::Downlink, Origin::Arrival, 11, 1, &rst).0, Verdict::Hold);
    assert_eq!(b.agent.metrics().flows, 1);
    assert_eq!(released(&b.at(20).thaw(Scope::Network)), [10, 11]);
    assert_eq!(b.agent.metrics().flows, 0);
}

#[test]
fn shaped_acks_carry_the_window_that_is_right_when_they_leave() {
    let uplink = uplink::UplinkConfig { mode: UplinkMode::Pooled, ..Default::default() };
    let config = DsaSyncConfig { uplink, close_at: CloseAt::SilenceStart, ..plain(Mode::Freeze) };
    let mut b = Bench::new(&config);
    b.open(1, 500);
    // Silent half of the time, so that ACKs are shaped; ACKs come in the other half.
    let (mut held, mut closed_seen, mut open_seen) = (0, 0, 0);
    let mut check = |silent: bool, actions: &[Action]| {
        for action in actions {
            if let Action::Release { rewrite, .. } = action {
                let closed = rewrite.window == Some(0);
                assert_eq!(closed, silent);
                closed_seen += usize::from(closed);
                open_seen += usize::from(!closed);
            }
        }
    };
    let mut seq = 1000;
    for round in 0..60 {
        let start = round * 200;
        b.at(start);
        for step in 0..100 {
            b.at(start + step);
            let actions = b.timeout();
            check(false, &actions);
            seq += MSS;
            let _ = b.down(1, 1, seq - MSS, MSS);
            let (verdict, actions) = b.ack(2, 1, seq, 500);
            held += usize::from(verdict == Verdict::Hold);
            check(false, &actions);
        }
        b.at(start + 100).freeze(Scope::Network);
        for step in 101..200 {
            let actions = b.at(start + step).timeout();
            check(true, &actions);
        }
        let actions = b.at(start + 200).thaw(Scope::Network);
        check(false, &actions);
    }
    assert!(held > 100 && closed_seen > 100 && open_seen > 100, "{held} {closed_seen} {open_seen}");
    assert!(b.agent.metrics().windows_closed_now <= 1);
}
