//! What is held, in which order and at what pace it leaves (Algorithms 1 and 2).

use super::*;

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
fn the_pause_of_a_tdd_downlink_is_a_turn_and_not_a_silence() {
    let pause = |scope, expected| LinkEventKind::FreezeStarted { scope, cause: Cause::Grant, expected };
    let over = |scope| LinkEventKind::FreezeEnded { scope, cause: Cause::Grant };
    let length = |millis| Some(Duration::from_millis(millis));
    let own = Scope::Station(StationId(0));
    for (scope, expected, holds) in [
        (Scope::Network, length(2), false),
        (Scope::Network, length(20), false),
        (Scope::Network, length(21), true),
        // How long nobody knows can be for ever.
        (Scope::Network, None, true),
        // A station's own turn: it can be sent to.
        (own, length(100), false),
        (own, None, false),
    ] {
        let mut b = Bench::new(&DsaSyncConfig { reclaim: true, ..plain(Mode::Freeze) });
        b.open(1, 5000);
        let told = b.at(10).link(pause(scope, expected));
        assert_eq!(told.is_empty(), !holds, "{scope:?}, {expected:?}: {told:?}");
        let verdict = b.at(11).down(10, 1, 1000, MSS).0;
        assert_eq!(verdict, if holds { Verdict::Hold } else { FORWARD }, "{scope:?}, {expected:?}");
        let ended = b.at(12).link(over(scope));
        assert_eq!(released(&ended), if holds { vec![10] } else { vec![] }, "{scope:?}, {expected:?}");
        assert_eq!(b.agent.metrics().silences, u64::from(holds));
        // A silence of another cause counts all the same, within a turn too.
        b.at(20).link(pause(scope, expected));
        b.freeze(Scope::Network);
        assert_eq!(b.down(11, 1, 2000, MSS).0, Verdict::Hold);
        b.at(21).link(over(scope));
        assert!(b.agent.is_holding());
        assert_eq!(released(&b.at(30).thaw(Scope::Network)), [11]);
    }
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
    // Less than 4 ms as the pacer counts, and the radio takes 4 % longer for each.
    assert!(longest <= 5, "{longest} segments in the transmit queue");
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
    // A packet each in turn with the paper's queues, else a quantum each: two packets of 1040 bytes.
    for (queues, order) in
        [(Queues::Station, [1010, 2010, 1011, 2011]), (Queues::Flow, [1010, 1011, 2010, 2011])]
    {
        served_in_turn(queues, &order);
    }
}

fn served_in_turn(queues: Queues, order: &[u64]) {
    let mut b = Bench::new(&DsaSyncConfig { queues, ..plain(Mode::Hold) });
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
    assert_eq!(released(&b.room(20)), order);
    assert_eq!(released(&b.thaw(Scope::Station(StationId(3)))), [3010, 3011]);
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

/// A flood from ever new ports, and a connection that was idle all the while: it is known, and its window
/// still follows the radio.
#[test]
fn a_flood_of_new_ports_evicts_no_connection_that_a_station_has() {
    let mut b =
        Bench::new(&DsaSyncConfig { max_flows: 4, close_at: CloseAt::SilenceStart, ..plain(Mode::Freeze) });
    b.open(1, 500);
    for port in 10..30 {
        assert_eq!(b.down(u64::from(port), port, 1000, MSS).0, FORWARD);
    }
    let metrics = b.agent.metrics();
    assert_eq!((metrics.flows, metrics.flow_evictions, metrics.midstream_flows), (4, 17, 20));
    assert_eq!(b.down(100, 1, 1000, MSS).0, FORWARD);
    assert_eq!(b.agent.metrics().midstream_flows, 20, "it was forgotten");
    assert_eq!(injected(&b.at(10).freeze(Scope::Network)).len(), 1);
}

/// An agent gives an address a number of its own when it hears from it; until then all such addresses are one
/// station. What is held of a flow goes along, in its order, and has its station's turn.
#[test]
fn what_is_held_of_a_flow_follows_it_to_another_station() {
    for queues in [Queues::Flow, Queues::Station] {
        let mut b = Bench::new(&DsaSyncConfig { queues, ..plain(Mode::Hold) });
        let hold = |b: &mut Bench, id: u64, flow: u16, seq: u32, station: u32| {
            b.station = Some(StationId(station));
            let held = b.down(id, flow, seq, MSS).0;
            b.station = None;
            assert_eq!(held, Verdict::Hold);
        };
        told(&mut b);
        for flow in [101, 201].into_iter().chain(900..910) {
            b.open(flow, 50_000);
        }
        b.at(100).freeze(Scope::Network);
        // Ten other flows wait under the shared number, then three packets of flow 101.
        for n in 0..10 {
            hold(&mut b, 50 + n, 900 + n as u16, 1000, 9);
        }
        for n in 0..3 {
            hold(&mut b, 10 + n, 101, 1000 + n as u32 * MSS, 9);
        }
        hold(&mut b, 20, 201, 1000, 2);
        hold(&mut b, 13, 101, 1000 + 3 * MSS, 1);
        let mut order = released(&b.at(200).thaw(Scope::Network));
        // Under the new number nothing is held but this flow's.
        hold(&mut b, 14, 101, 1000 + 4 * MSS, 1);
        for millis in 201..260 {
            order.extend(released(&b.at(millis).timeout()));
        }
        let of_flow: Vec<u64> = order.iter().copied().filter(|id| (10..20).contains(id)).collect();
        assert_eq!(of_flow, [10, 11, 12, 13, 14], "{queues:?}: {order:?}");
        assert_eq!(order.len(), 16);
        if queues == Queues::Flow {
            let last = order.iter().position(|id| *id == 13).unwrap();
            let others = order[..last].iter().filter(|id| **id >= 50).count();
            assert!(others <= 5, "of three stations each has its turn: {order:?}");
        }
        let metrics = b.agent.metrics();
        assert_eq!((metrics.held_bytes, metrics.held_packets), (0, 0));
    }
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
