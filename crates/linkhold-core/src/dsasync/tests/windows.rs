//! What senders are told: windows closed, reopened and held down, and the loss of capacity (Algorithms 1, 2
//! and 5).

use super::*;

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
fn algorithm_1_lines_11_to_15_low_space_closes_every_window_and_algorithm_2_lines_1_to_5_open_them() {
    let mut b = Bench::new(&DsaSyncConfig { queues: Queues::Station, ..tight(Mode::Freeze) });
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

/// RFC 9293 section 3.10.7.4: a sender does not hear an ACK whose sequence number is not the one it expects.
#[test]
fn a_made_up_ack_carries_the_stations_next_number_wherever_its_numbers_begin() {
    for isn in [0, 1 << 31, (1 << 31) + 5, u32::MAX] {
        let mut b = Bench::new(&DsaSyncConfig { close_at: CloseAt::SilenceStart, ..plain(Mode::Freeze) });
        let syn = TcpSegment { flags: TcpFlags::SYN, ..TcpSegment::default() };
        let answer = TcpSegment {
            seq: Seq(isn),
            ack: Seq(1),
            window: 5000,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            ..TcpSegment::default()
        };
        let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &syn);
        let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
        let _ = b.down(3, 1, 1, MSS);
        let acks = injected(&b.at(10).freeze(Scope::Network));
        assert_eq!(acks.iter().map(|ack| (ack.seq, ack.window)).collect::<Vec<_>>(), [(Seq(isn) + 1, 0)]);
    }
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
    // Linux: empty, one before what is acknowledged.
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

/// A connection whose SYN-ACK passes at 0, its answer at 30 ms: the wired part.
fn opened_30_ms_away(config: &DsaSyncConfig) -> Bench {
    let mut b = Bench::new(config);
    let syn = SynOptions { mss: None, window_scale: Some(SHIFT), sack_permitted: true };
    let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..Default::default() };
    let flags = TcpFlags::SYN | TcpFlags::ACK;
    let answer = TcpSegment { flags, ack: Seq(1), window: 2000, syn, ..Default::default() };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &ask);
    let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
    let data =
        TcpSegment { seq: Seq(1), ack: Seq(1), payload_len: MSS, flags: TcpFlags::ACK, ..Default::default() };
    let _ = b.at(30).packet(Direction::Downlink, Origin::Arrival, 3, 1, &data);
    let _ = b.at(35).ack(4, 1, 1001, 500);
    b
}

#[test]
fn freeze_nudge_opens_one_wired_round_trip_early_and_repeats_until_heard() {
    let config = DsaSyncConfig { close_at: CloseAt::SilenceStart, ..plain(Mode::FreezeNudge) };
    for heard in [false, true] {
        let mut b = opened_30_ms_away(&config);
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

/// 25 ms of every 500 ms, first at 100 ms.
fn announce_sensing(b: &mut Bench) {
    b.link(LinkEventKind::SensingSchedule {
        scope: Scope::Network,
        period: Duration::from_millis(500),
        duration: Duration::from_millis(25),
        next: ms(100),
    });
}

#[test]
fn the_ack_kept_back_before_an_announced_silence_closes_the_window_with_a_new_number() {
    let mut b = Bench::new(&DsaSyncConfig { keep_back: true, ..plain(Mode::FreezeNudge) });
    b.open(1, 500);
    announce_sensing(&mut b);
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
fn acks_kept_back_for_a_silence_that_does_not_come_are_counted_once_a_flow_and_let_go() {
    let mut b = Bench::new(&DsaSyncConfig { keep_back: true, ..plain(Mode::FreezeNudge) });
    b.open(1, 500);
    b.open(2, 500);
    announce_sensing(&mut b);
    for n in 0..5 {
        assert_eq!(b.at(97).ack(20 + n, 1, 2000 + n as u32, 500).0, Verdict::Hold);
    }
    assert_eq!(b.at(98).ack(30, 2, 2000, 500).0, Verdict::Hold);
    assert_eq!(b.agent.metrics().held_packets, 2);
    let mut went = Vec::new();
    while let Some(at) = b.agent.next_timeout().filter(|at| *at < ms(110)) {
        b.now = at;
        went.extend(released(&b.timeout()).iter().map(|id| (at, *id)));
    }
    assert_eq!(went, [(ms(101), 24), (ms(101), 30)]);
    assert_eq!(b.agent.metrics().held_packets, 0);
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
    let syn = SynOptions { window_scale: Some(4), ..SynOptions::default() };
    let ask = TcpSegment { flags: TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR, syn, ..Default::default() };
    let answer = TcpSegment {
        flags: TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE,
        ack: Seq(1),
        window: 500,
        syn,
        ..Default::default()
    };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &ask);
    let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
    assert_eq!(b.ack(3, 1, 1, 50_000).0, FORWARD);
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

/// A flow with 50 ms of wired round trip, held down to a radio of 1 MB/s (rate · (50 + 20) ms and a segment:
/// 71,000 bytes), after so many ACKs, one each millisecond from 51 ms on.
fn held_down(config: &DsaSyncConfig, acks: u32) -> Bench {
    let clamp = DsaSyncConfig { clamp: Clamp::Always, standing_queue: Duration::from_millis(20), ..*config };
    let mut b = Bench::new(&clamp);
    b.link(LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(16),
        efficiency: Fraction::clamped(0.5),
    });
    b.link(LinkEventKind::SensingSchedule {
        scope: Scope::Network,
        period: Duration::from_millis(1000),
        duration: Duration::from_millis(25),
        next: ms(1400),
    });
    let syn = SynOptions { mss: Some(1000), window_scale: Some(SHIFT), sack_permitted: true };
    let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..Default::default() };
    let (flags, ack, window) = (TcpFlags::SYN | TcpFlags::ACK, Seq(1), 10_000);
    let answer = TcpSegment { flags, ack, window, syn, ..Default::default() };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &ask);
    let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
    let tcp =
        TcpSegment { seq: Seq(1), ack: Seq(1), payload_len: MSS, flags: TcpFlags::ACK, ..Default::default() };
    let _ = b.at(50).packet(Direction::Downlink, Origin::Arrival, 3, 1, &tcp);
    for n in 1..=acks {
        passed(&mut b, n);
    }
    b
}

/// ACK number `n`, a millisecond after the one before. How far the sender may go after it, bytes.
fn passed(b: &mut Bench, n: u32) -> u32 {
    passed_at(b, 50 + u64::from(n), n)
}

fn passed_at(b: &mut Bench, millis: u64, n: u32) -> u32 {
    let ack = 1 + n * MSS;
    b.at(millis);
    let _ = b.down(10, 1, ack, MSS);
    let (verdict, _) = b.ack(11, 1, ack, 50_000);
    let Verdict::Forward(rewrite) = verdict else { panic!("{verdict:?}") };
    ack + (u32::from(rewrite.window.expect("the clamp holds")) << SHIFT)
}

fn sensing(b: &mut Bench, began: bool) -> Vec<Action> {
    let (scope, cause) = (Scope::Network, Cause::Sensing);
    b.link(if began {
        LinkEventKind::FreezeStarted { scope, cause, expected: None }
    } else {
        LinkEventKind::FreezeEnded { scope, cause }
    })
}

/// What is told in a silence at each of its timeouts until `end`: when, and how far the sender may go.
fn told_until(b: &mut Bench, end: Instant) -> Vec<(u64, u32)> {
    let mut told = Vec::new();
    while let Some(at) = b.agent.next_timeout().filter(|&at| at < end) {
        b.now = b.now.max(at);
        for ack in injected(&b.timeout()) {
            told.push((b.now.as_nanos() / 1_000_000, ack.ack.0 + (u32::from(ack.window) << SHIFT)));
        }
    }
    told
}

/// Sensing is due from 1400 to 1425 ms. What is told before 1350 ms or from 1375 ms on arrives outside of it.
#[test]
fn nothing_is_let_go_that_would_arrive_in_announced_sensing() {
    let mut b = held_down(&plain(Mode::Freeze), 1290);
    let edge = passed(&mut b, 1291);
    // Until a look (2.5 ms) ahead of 1350 ms the edge moves with every ACK; then it stands for 25 ms.
    let edges: Vec<u32> = (1292..1350).map(|n| (passed(&mut b, n) - edge) / MSS).collect();
    let before: Vec<u32> = (1..=6).collect();
    assert_eq!(edges[..6], before);
    assert!(edges[6..31].iter().all(|&moved| moved == 6), "{edges:?}");
    assert_eq!(edges[33..57], (9..33).collect::<Vec<u32>>(), "{edges:?}");
    // In the quiet period it goes on, although no ACK comes, as if they did: 25 segments in 25 ms.
    let stood = edge + edges[57] * MSS;
    assert_eq!(injected(&sensing(b.at(1400), true)), []);
    let told = told_until(&mut b, ms(1425));
    assert!(told.len() >= 8 && told.iter().all(|(at, _)| (1400..1425).contains(at)), "{told:?}");
    let last = told.last().expect("some").1;
    assert!((24 * MSS..=26 * MSS).contains(&(last - stood)), "{} bytes in the silence", last - stood);
    for pair in told.windows(2) {
        assert!((MSS..=4 * MSS).contains(&(pair[1].1 - pair[0].1)), "{told:?}");
    }
    assert_eq!(injected(&sensing(b.at(1425), false)), []);
    assert_eq!(told_until(&mut b, ms(1500)), []);
}

/// Data that comes 10 ms after two quiet periods and finds the radio with nothing to send was late by that:
/// in the third the edge stands for 10 ms less. After one period it may be chance.
#[test]
fn as_much_as_data_was_late_twice_is_let_go_into_the_next_quiet_period() {
    for (late, stands) in [(1, [25, 25, 24]), (10, [25, 25, 15])] {
        let mut b = held_down(&plain(Mode::Freeze), 1290);
        let mut n = 1290;
        let mut at = 1341;
        for (begin, stands) in [1400, 2400, 3400].into_iter().zip(stands) {
            let mut edges = Vec::new();
            while at < begin {
                n += 1;
                edges.push(passed_at(&mut b, at, n));
                at += 1;
            }
            // In the last 100 ms before sensing.
            let last = &edges[edges.len().saturating_sub(100)..];
            let stood = last.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert!(stood.abs_diff(stands) <= 1, "{stood} ms instead of {stands}, {late} ms late");
            sensing(b.at(begin), true);
            let _ = told_until(&mut b, ms(begin + 25));
            sensing(b.at(begin + 25), false);
            at = begin + 25 + late;
        }
    }
}

/// Nor with the mode `hold`, which touches no window because of a silence.
#[test]
fn without_foresight_edges_move_all_the_time() {
    for config in [DsaSyncConfig { foresee: false, ..plain(Mode::Freeze) }, plain(Mode::Hold)] {
        let mut b = held_down(&config, 1290);
        let edge = passed(&mut b, 1291);
        for n in 1292..1350 {
            assert_eq!(passed(&mut b, n) - edge, (n - 1291) * MSS);
        }
        sensing(b.at(1400), true);
        assert_eq!(told_until(&mut b, ms(1425)), []);
    }
}

/// A primary user comes before the sensing that was announced: nobody knows when the radio will be back, and
/// what is missing from the window then would be missing for a round trip.
#[test]
fn a_silence_that_was_not_announced_gives_the_whole_window_back() {
    let mut b = held_down(&plain(Mode::Freeze), 1290);
    let edge = passed(&mut b, 1325);
    b.at(1380).freeze(Scope::Network);
    let told = told_until(&mut b, ms(1390));
    let whole = 1 + 1325 * MSS + 72_000;
    assert!(
        matches!(told[..], [(1380, now)] if now > edge + 15 * MSS && now.abs_diff(whole) < 4),
        "{told:?}"
    );
}

/// Sensing that is not where it was announced: the schedule is believed no longer.
#[test]
fn a_schedule_that_is_not_kept_holds_nothing_down() {
    let mut b = held_down(&plain(Mode::Freeze), 1290);
    let mut n = 1290;
    // Between 5400 and 5425 ms the fifth one would be due, and none came.
    while n < 5300 {
        n += 1;
        passed(&mut b, n);
    }
    let edge = passed(&mut b, n + 1);
    for next in n + 2..n + 60 {
        assert_eq!(passed(&mut b, next) - edge, (next - n - 1) * MSS);
    }
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

/// RFC 7323 section 2.2: the window in a SYN is not scaled. The ACKs that close and reopen it are no SYNs.
#[test]
fn a_window_offered_in_a_syn_is_repeated_in_the_units_of_an_ack() {
    let mut b = Bench::new(&tight(Mode::Freeze));
    let syn = SynOptions { mss: Some(1460), window_scale: Some(SHIFT), sack_permitted: false };
    let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..TcpSegment::default() };
    let answer = TcpSegment {
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ack: Seq(1),
        window: 50_001,
        syn,
        ..TcpSegment::default()
    };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, 1, &ask);
    let _ = b.packet(Direction::Uplink, Origin::Arrival, 2, 1, &answer);
    b.room(0);
    b.at(10).freeze(Scope::Network);
    let closed = (0..4).flat_map(|n| injected(&b.down(10 + n, 1, 1 + n as u32 * MSS, MSS).1));
    let closed: Vec<_> = closed.collect();
    assert_eq!(closed.iter().map(|a| (a.ack, a.window)).collect::<Vec<_>>(), [(Seq(1), 0)]);
    b.at(20).thaw(Scope::Network);
    let opened = injected(&b.room(9));
    assert_eq!(opened.iter().map(|a| (a.ack, a.window)).collect::<Vec<_>>(), [(Seq(1), 50_001 >> SHIFT)]);
}

/// RFC 2385, RFC 5925: a signed segment with a changed header, or a made-up one, is thrown away.
#[test]
fn a_signed_connection_is_held_and_paced_but_nothing_is_changed_or_made_up() {
    for signed in [false, true] {
        let config = DsaSyncConfig {
            clamp: Clamp::Always,
            close_at: CloseAt::SilenceStart,
            capacity: CapacityResponse::DuplicateAcks,
            keep_back: true,
            standing_queue: Duration::ZERO,
            ..tight(Mode::FreezeNudge)
        };
        let mut b = Bench::new(&config);
        told(&mut b);
        let syn = SynOptions { mss: Some(1000), window_scale: Some(SHIFT), sack_permitted: true };
        let segment = |flags, seq, ack, len| TcpSegment {
            seq: Seq(seq),
            ack: Seq(ack),
            payload_len: len,
            window: 50_000,
            flags,
            syn: if flags == TcpFlags::ACK { SynOptions::default() } else { syn },
            signed,
            ..TcpSegment::default()
        };
        let (mut touched, mut held) = (0, 0);
        let mut count = |verdict: Verdict, actions: &[Action]| {
            held += u32::from(verdict == Verdict::Hold);
            touched += u32::from(matches!(verdict, Verdict::Forward(rewrite) if !rewrite.is_none()));
            touched += injected(actions).len() as u32;
            for action in actions {
                touched += u32::from(matches!(action, Action::Release { rewrite, .. } if !rewrite.is_none()));
            }
        };
        let mut send = |b: &mut Bench, direction, tcp: &TcpSegment| {
            let (verdict, actions) = b.packet(direction, Origin::Arrival, 1, 1, tcp);
            count(verdict, &actions);
        };
        send(&mut b, Direction::Downlink, &segment(TcpFlags::SYN, 0, 0, 0));
        send(&mut b, Direction::Uplink, &segment(TcpFlags::SYN | TcpFlags::ACK, 0, 1, 0));
        for n in 0..40 {
            b.at(10 + n);
            send(&mut b, Direction::Downlink, &segment(TcpFlags::ACK, 1 + n as u32 * MSS, 1, MSS));
            send(&mut b, Direction::Uplink, &segment(TcpFlags::ACK, 1, 1 + n as u32 * MSS, 0));
        }
        let actions = b.at(60).freeze(Scope::Network);
        count(FORWARD, &actions);
        let mut send = |b: &mut Bench, direction, tcp: &TcpSegment| {
            let (verdict, actions) = b.packet(direction, Origin::Arrival, 1, 1, tcp);
            count(verdict, &actions);
        };
        for n in 0..6 {
            send(&mut b, Direction::Downlink, &segment(TcpFlags::ACK, 40_001 + n * MSS, 1, MSS));
            send(&mut b, Direction::Uplink, &segment(TcpFlags::ACK, 1, 40_001, 0));
        }
        // A window probe.
        send(&mut b, Direction::Downlink, &segment(TcpFlags::ACK, 40_000, 1, 0));
        let slower = LinkEventKind::ChannelSwitched { capacity: BitRate(100_000), efficiency: Fraction::ONE };
        let mut actions = b.link(slower);
        actions.extend(b.at(80).thaw(Scope::Network));
        b.agent.flush(b.now, &mut b.out);
        actions.extend(b.out.drain());
        count(FORWARD, &actions);
        assert!(held >= 5);
        assert_eq!(touched == 0, signed, "{touched} touched, signed: {signed}");
    }
}

/// A window that was opened early in a station's silence stays open in it though another station falls
/// silent.
#[test]
fn a_window_opened_early_is_not_closed_because_of_another_stations_silence() {
    let config = DsaSyncConfig { close_at: CloseAt::SilenceStart, ..plain(Mode::FreezeNudge) };
    for another in [false, true] {
        let mut b = opened_30_ms_away(&config);
        let closed = b.at(100).link(LinkEventKind::FreezeStarted {
            scope: Scope::Station(StationId(0)),
            cause: Cause::Sensing,
            expected: Some(Duration::from_millis(200)),
        });
        assert_eq!(injected(&closed)[0].window, 0);
        assert_eq!(injected(&b.at(270).timeout())[0].window, 500);
        if another {
            b.at(280).freeze(Scope::Station(StationId(1)));
        }
        assert_eq!(b.at(285).down(10, 1, 1001, 2000), (Verdict::Hold, vec![]), "another: {another}");
    }
}
