//! The two parts of the round trip are neither measured too short nor forgotten, whatever passes: two-way
//! flows, copies, long thoughts, and stations that leave in the middle.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::dsasync::probes::PROBE_LIFE;
use crate::packet::{SackBlock, SackBlocks};

const FLOW: u16 = 1;

/// What a station does in a millisecond.
#[derive(Clone, Copy, Debug)]
enum Up {
    Nothing,
    /// Sends new bytes.
    New,
    /// Sends its latest bytes again.
    Copy,
    /// Acknowledges, and nothing else.
    Ack,
}

/// A connection with data both ways: `wired` ms to the correspondent and back, `radio` ms to the station and
/// back. The correspondent sends a segment in each of `busy` ms, then thinks for `idle` ms, and so on.
#[derive(Clone, Copy, Debug)]
struct TwoWay {
    wired: u64,
    radio: u64,
    timestamps: bool,
    busy: u64,
    idle: u64,
}

/// Runs it. Answers the wired part as measured, and the smallest window told once there was one, bytes.
fn run(plan: TwoWay, ups: &[Up]) -> (Option<Duration>, Option<u32>) {
    let mut b = Bench::new(&DsaSyncConfig {
        clamp: Clamp::Always,
        standing_queue: Duration::from_millis(5),
        ..plain(Mode::FreezeNudge)
    });
    told(&mut b);
    // What of the station's bytes passed, when, and with which timestamp; what of it has not reached the
    // correspondent; and the highest of what has.
    let mut passed: VecDeque<(u64, u32, u32)> = VecDeque::new();
    let mut known = (1, 0);
    let syn = SynOptions { mss: Some(1000), window_scale: Some(SHIFT), sack_permitted: true };
    let stamp = |value, echo| plan.timestamps.then_some(TcpTimestamp { value, echo });
    let ask = TcpSegment {
        flags: TcpFlags::SYN,
        syn,
        window: 60_000,
        timestamp: stamp(1, 0),
        ..Default::default()
    };
    let answer = TcpSegment {
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ack: Seq(1),
        syn,
        timestamp: stamp(1, 1),
        ..Default::default()
    };
    let start = 1000;
    let _ = b.at(start).packet(Direction::Uplink, Origin::Arrival, 1, FLOW, &ask);
    let _ = b.at(start + plan.wired).packet(Direction::Downlink, Origin::Arrival, 2, FLOW, &answer);
    let first = start + plan.wired + plan.radio;
    let (mut sent, mut own) = (1u32, 1u32);
    // The same for the correspondent's bytes.
    let mut went: VecDeque<(u64, u32)> = VecDeque::new();
    let mut acked = 1;
    let mut least = None;
    for (step, up) in ups.iter().enumerate() {
        let now = first + step as u64;
        b.at(now);
        let _ = b.timeout();
        while let Some(&(time, end, value)) = passed.front()
            && time + plan.wired <= now
        {
            passed.pop_front();
            known = (known.0.max(end), known.1.max(value));
        }
        let (got, echo) = known;
        if step as u64 % (plan.busy + plan.idle) < plan.busy {
            let data = TcpSegment {
                seq: Seq(sent),
                ack: Seq(got),
                payload_len: MSS,
                window: 60_000,
                flags: TcpFlags::ACK,
                timestamp: stamp(now as u32, echo),
                ..Default::default()
            };
            let _ = b.packet(Direction::Downlink, Origin::Arrival, 10, FLOW, &data);
            sent += MSS;
            went.push_back((now, sent));
        }
        while let Some(&(time, end)) = went.front()
            && time + plan.radio <= now
        {
            went.pop_front();
            acked = end;
        }
        let (seq, len) = match up {
            Up::Nothing => continue,
            Up::New => (own, 100),
            Up::Copy if own > 1 => (own - 100, 100),
            Up::Copy | Up::Ack => (own, 0),
        };
        own = own.max(seq + len);
        let tcp = TcpSegment {
            seq: Seq(seq),
            ack: Seq(acked),
            payload_len: len,
            window: 60_000,
            flags: TcpFlags::ACK,
            timestamp: stamp(now as u32, 0),
            ..Default::default()
        };
        let (verdict, _) = b.packet(Direction::Uplink, Origin::Arrival, 11, FLOW, &tcp);
        passed.push_back((now, seq + len, now as u32));
        let Verdict::Forward(rewrite) = verdict else { panic!("{verdict:?}") };
        if step > 1000 {
            let window = u32::from(rewrite.window.unwrap_or(60_000)) << SHIFT;
            least = Some(least.map_or(window, |least: u32| least.min(window)));
        }
    }
    let slot = b.agent.shared.flows.find(&key(FLOW, false)).expect("the flow is known");
    (b.agent.shared.flows.known(slot).wired.get(), least)
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(320))]

    #[test]
    fn no_copy_and_no_thought_is_taken_for_a_round_trip(
        wired in 2u64..300,
        radio in 0u64..20,
        timestamps: bool,
        (busy, idle) in prop_oneof![Just((1u64, 0u64)), (1u64..400, 0u64..3000)],
        ups in prop::collection::vec(
            prop::sample::select(&[Up::Nothing, Up::Nothing, Up::Nothing, Up::New, Up::Copy, Up::Ack]),
            3000,
        ),
    ) {
        let (measured, least) = run(TwoWay { wired, radio, timestamps, busy, idle }, &ups);
        let measured = measured.expect("the handshake was seen");
        prop_assert!(measured >= Duration::from_millis(wired), "{measured} of {wired} ms");
        prop_assert!(measured <= PROBE_LIFE, "{measured}");
        // 1 MB/s, of which the clamp believes in 0.8 and trims away half at most; the rest is slack.
        let least = least.expect("the station said something");
        prop_assert!(least as u64 >= 350 * (wired + radio).min(240), "{least} bytes for {wired} + {radio} ms");
    }
}

#[test]
fn what_a_station_that_left_has_not_acknowledged_is_written_off() {
    let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
    b.open(101, 50_000);
    b.open(201, 50_000);
    // Station 1 leaves with 20 segments under way; its sender sends the first of them again.
    for n in 0..20 {
        let _ = b.at(1000 + n).down(10, 101, 1000 + n as u32 * MSS, MSS);
    }
    assert_eq!(b.agent.round_trips.outstanding(), 20_000);
    // Station 2 goes on, 3 ms from here. A silence of 3 s gives nobody a chance to answer.
    let mut acked = 1000;
    let mut turn = |b: &mut Bench, at: u64| {
        let _ = b.at(at).down(11, 201, acked, MSS);
        acked += MSS;
        let _ = b.at(at + 3).ack(12, 201, acked, 50_000);
    };
    b.at(1100).freeze(Scope::Network);
    b.at(4100).thaw(Scope::Network);
    turn(&mut b, 4200);
    let _ = b.at(4300).down(10, 101, 1000, MSS);
    assert_eq!(b.agent.round_trips.outstanding(), 20_000);
    for n in 0..30 {
        turn(&mut b, 6000 + n * 10);
    }
    assert_eq!(b.agent.round_trips.outstanding(), 0);
    // It comes back after all: what it acknowledges then is no news, and what it gets counts again.
    let _ = b.at(7000).ack(13, 101, 6000, 50_000);
    let _ = b.down(14, 101, 21_000, MSS);
    assert_eq!(b.agent.round_trips.outstanding(), 1000);
    let _ = b.ack(13, 101, 22_000, 50_000);
    assert_eq!(b.agent.round_trips.outstanding(), 0);
}

#[test]
fn what_lies_below_for_a_station_that_left_is_not_counted_to_who_gets_its_number() {
    let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
    b.open(101, 50_000);
    for n in 0..20 {
        let _ = b.at(1000 + n).down(10, 101, 1000 + n as u32 * MSS, MSS);
    }
    b.at(1100).link(LinkEventKind::StationLeft { station: StationId(1) });
    assert_eq!(b.agent.round_trips.outstanding(), 0);
    b.open(102, 50_000);
    for n in 0..5 {
        let _ = b.at(1200 + n).down(11, 102, 1000 + n as u32 * MSS, MSS);
    }
    // What the old one says after all takes nothing off.
    let _ = b.at(1300).ack(12, 101, 21_000, 50_000);
    assert_eq!(b.agent.round_trips.outstanding(), 5_000);
}

/// Where nobody tells the rate, a connection that its station left has nothing below any more once the
/// station has what went down later, on another connection; a delayed ACK is waited for.
#[test]
fn what_the_station_must_have_or_never_gets_is_below_no_more() {
    let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
    b.open(101, 50_000);
    b.open(102, 50_000);
    for n in 0..3 {
        let _ = b.at(1000).down(10, 101, 1000 + n * MSS, MSS);
    }
    assert_eq!(b.agent.round_trips.outstanding(), 3_000);
    let mut acked = 1000;
    // Each answer is 3 ms later; what goes down first is none that the connection left could be behind.
    for (at, outstanding) in [(1001, 3_000), (1020, 3_000), (1040, 3_000), (1055, 0), (1070, 0)] {
        let _ = b.at(at).down(11, 102, acked, MSS);
        acked += MSS;
        for turn in 0..2 {
            let _ = b.at(at + 3 + turn).ack(12, 102, acked, 50_000);
        }
        assert_eq!(b.agent.round_trips.outstanding(), outstanding, "after {at} ms");
    }
    // Its sender has a timeout: that counts, until the station has what went down after it.
    let _ = b.at(1200).down(10, 101, 1000, MSS);
    let _ = b.at(1201).down(11, 102, acked, MSS);
    acked += MSS;
    assert_eq!(b.agent.round_trips.outstanding(), 2_000);
    for at in [1204, 1205, 1252, 1253] {
        let _ = b.at(at).ack(12, 102, acked, 50_000);
        assert_eq!(b.agent.round_trips.outstanding(), if at > 1250 { 0 } else { 1_000 }, "at {at} ms");
    }
}

/// What says that a window is too small is a sender that has used it up, not the ACKs of uploads after it.
#[test]
fn a_download_that_has_ended_holds_nobody_down() {
    let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
    b.open(101, 50_000);
    let span = Duration::from_millis(100);
    let now = Instant::from_millis(1000);
    let untold = |b: &mut Bench| -> bool {
        b.agent.round_trips.untold_at(StationId(1)).expect("nobody tells the rate").rate.used_up
    };
    b.agent
        .round_trips
        .untold_at(StationId(1))
        .expect("nobody tells the rate")
        .rate
        .saw_edge(now, 0, true, span);
    let _ = b.at(1050).ack(12, 101, 1000, 50_000);
    assert!(untold(&mut b));
    // A silence is no time in which anybody could have shown it again.
    b.at(1060).freeze(Scope::Network);
    b.at(1300).thaw(Scope::Network);
    let _ = b.at(1310).ack(12, 101, 1000, 50_000);
    assert!(untold(&mut b));
    let _ = b.at(1500).ack(12, 101, 1000, 50_000);
    assert!(!untold(&mut b));
}

/// The same beside thousands of connections that owe nothing: a router that runs for days has a full table.
#[test]
fn what_a_station_left_is_written_off_as_soon_where_the_table_is_full() {
    let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
    for flow in 300..3_300 {
        b.open(flow, 50_000);
    }
    b.open(101, 50_000);
    b.open(102, 50_000);
    for n in 0..3 {
        let _ = b.at(1000).down(10, 101, 1000 + n * MSS, MSS);
    }
    let mut acked = 1000;
    for turn in 0..20 {
        let _ = b.at(1001 + 5 * turn).down(11, 102, acked, MSS);
        acked += MSS;
        let _ = b.at(1004 + 5 * turn).ack(12, 102, acked, 50_000);
    }
    assert_eq!(b.agent.round_trips.outstanding(), 0);
    // All of it leaves the list that is walked.
    for turn in 0..3_000 {
        let _ = b.at(1200 + turn).ack(12, 102, acked, 50_000);
    }
    let _ = b.at(5000).down(10, 300, 1000, MSS);
    assert_eq!(b.agent.round_trips.outstanding(), 1_000);
}

/// How long the radio usually takes decides how much lies below where nobody tells the rate.
#[test]
fn what_fills_a_hole_or_delays_an_ack_is_not_the_radios_usual_time() {
    let bench = || {
        let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
        b.open(101, 50_000);
        // Pairs that take 2 ms.
        for n in 0..20u64 {
            let seq = 1000 + n as u32 * 2 * MSS;
            let _ = b.at(1000 + n * 10).down(10, 101, seq, MSS);
            let _ = b.down(10, 101, seq + MSS, MSS);
            let _ = b.at(1002 + n * 10).ack(11, 101, seq + 2 * MSS, 50_000);
        }
        (b, 1000 + 40 * MSS)
    };
    let usual = |b: &Bench| b.agent.round_trips.usual_radio_part(StationId(1)).unwrap();
    let holed = |ack: u32, left: u32| {
        let mut tcp = TcpSegment {
            ack: Seq(ack),
            seq: Seq(1),
            window: 50_000,
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        };
        tcp.sack.push(crate::packet::SackBlock { left: Seq(left), right: Seq(left + MSS) });
        tcp
    };
    // From the least, which the handshake had, towards the pairs' two.
    let near = |b: &Bench| usual(b).as_micros().abs_diff(2000) < 200;
    let (b, _) = bench();
    assert!(near(&b), "{}", usual(&b));
    // The first of a pair is lost, and comes again 80 ms later.
    let (mut b, seq) = bench();
    for n in 0..2 {
        let _ = b.at(2000).down(10, 101, seq + n * MSS, MSS);
    }
    let _ = b.at(2002).packet(Direction::Uplink, Origin::Arrival, 12, 101, &holed(seq, seq + MSS));
    let _ = b.at(2080).down(10, 101, seq, MSS);
    let _ = b.at(2082).ack(13, 101, seq + 2 * MSS, 50_000);
    assert!(near(&b), "{}", usual(&b));
    // No ACK says so.
    let (mut b, seq) = bench();
    for n in 0..2 {
        let _ = b.at(2000).down(10, 101, seq + n * MSS, MSS);
    }
    let _ = b.at(2080).down(10, 101, seq, MSS);
    let _ = b.at(2082).ack(13, 101, seq + 2 * MSS, 50_000);
    assert!(near(&b), "{}", usual(&b));
    // A single segment waits for the delayed ACK.
    let (mut b, seq) = bench();
    let _ = b.at(2000).down(10, 101, seq, MSS);
    let _ = b.at(2042).ack(13, 101, seq + MSS, 50_000);
    assert!(near(&b), "{}", usual(&b));
    // Or for the next one.
    let _ = b.at(3000).down(10, 101, seq + MSS, MSS);
    let _ = b.at(3030).down(10, 101, seq + 2 * MSS, MSS);
    let _ = b.at(3032).ack(13, 101, seq + 3 * MSS, 50_000);
    assert!(near(&b), "{}", usual(&b));
    // A radio that became slower is one.
    for n in 0..30u64 {
        let seq = seq + (3 + n as u32 * 2) * MSS;
        let _ = b.at(4000 + n * 50).down(10, 101, seq, MSS);
        let _ = b.down(10, 101, seq + MSS, MSS);
        let _ = b.at(4010 + n * 50).ack(11, 101, seq + 2 * MSS, 50_000);
    }
    assert!(usual(&b) > Duration::from_millis(9), "{}", usual(&b));
}

/// A download whose pairs take 2 ms, and then a queue that never runs empty; and the number of what comes
/// next. The other connections of its station are opened before.
pub(super) fn behind_a_queue(others: &[u16]) -> (Bench, u32) {
    let mut b = Bench::new(&DsaSyncConfig {
        clamp: Clamp::Always,
        transmit_queue: Duration::from_millis(2),
        standing_limit: Duration::ZERO,
        ..plain(Mode::FreezeNudge)
    });
    for flow in others {
        b.open(*flow, 50_000);
    }
    b.open(101, 50_000);
    for n in 0..300u64 {
        let seq = 1000 + n as u32 * 2 * MSS;
        let queued = if n < 20 { 0 } else { 20 };
        let _ = b.at(1000 + n * 2).down(10, 101, seq, MSS);
        let _ = b.down(11, 101, seq + MSS, MSS);
        if !(20..40).contains(&n) {
            let _ = b.at(1002 + n * 2).ack(12, 101, seq + 2 * MSS - queued * 2 * MSS, 50_000);
        }
    }
    (b, 1000 + 600 * MSS)
}

/// A gap that nobody tells of: what is held does not go below at once when patience is over, but each time
/// as much as should lie there.
#[test]
fn to_a_station_that_says_nothing_no_more_goes_each_200_ms_than_should_lie_below() {
    let (mut b, first) = behind_a_queue(&[]);
    let held =
        (0..250).filter(|&n| b.at(1602).down(100 + n, 101, first + n as u32 * MSS, MSS).0 == Verdict::Hold);
    let held = held.count();
    assert!(held > 40, "{held} are held");
    let mut went = Vec::new();
    for at in (1605..3500).step_by(5) {
        let released = released(&b.at(at).timeout()).len();
        went.extend(core::iter::repeat_n(at, released));
    }
    let most = went.iter().filter(|at| **at < 1900).count();
    assert!((1..20).contains(&most), "{went:?}");
    for from in (1800..3400).step_by(200) {
        let count = went.iter().filter(|at| (from..from + 195).contains(*at)).count();
        assert!(count <= most + 1, "{count} of {most} from {from}: {went:?}");
    }
    assert!(went.len() > 2 * most, "{went:?}");
    // It answers, and the rest goes at its pace.
    let _ = b.at(3500).ack(200, 101, first + (250 - held as u32 + went.len() as u32) * MSS, 50_000);
    let rest = (3501..3900).map(|at| released(&b.at(at).timeout()).len()).sum::<usize>();
    assert!(rest > 1, "{rest}");
}

/// Held at the gate, the ACKs of uploads would go down together and before the data. Not before the
/// connection is known, and not past what is held of it.
#[test]
fn an_ack_without_data_passes_the_gate_that_holds_data() {
    let (mut b, first) = behind_a_queue(&[102, 103]);
    let hold = |b: &mut Bench, n: u32| b.at(1602).down(100, 101, first + n * MSS, MSS).0 == Verdict::Hold;
    assert!((0..250).filter(|&n| hold(&mut b, n)).count() > 40);
    let ack = |b: &mut Bench, flow, seq| {
        let flags = TcpFlags::ACK;
        let tcp = TcpSegment { seq: Seq(seq), ack: Seq(1), window: 60_000, flags, ..Default::default() };
        b.packet(Direction::Downlink, Origin::Arrival, 500, flow, &tcp).0
    };
    assert!(matches!(ack(&mut b, 102, 1000), Verdict::Forward(_)));
    assert_eq!(ack(&mut b, 104, 1000), Verdict::Hold, "of a stranger");
    assert_eq!(b.down(501, 103, 1000, MSS).0, Verdict::Hold, "data of another connection");
    assert_eq!(ack(&mut b, 103, 2000), Verdict::Hold, "behind that");
}

/// Otherwise anybody to whom a station has a connection could fill what lies below, unseen.
#[test]
fn no_more_acks_pass_the_gate_than_what_the_station_sent_asked_for() {
    let (mut b, first) = behind_a_queue(&[103, 104, 105]);
    let ack = |b: &mut Bench, flow| {
        let flags = TcpFlags::ACK;
        let tcp = TcpSegment { seq: Seq(1000), ack: Seq(1), window: 60_000, flags, ..Default::default() };
        matches!(b.packet(Direction::Downlink, Origin::Arrival, 500, flow, &tcp).0, Verdict::Forward(_))
    };
    b.at(1602);
    assert!((0..250).any(|n| b.down(100, 101, first + n * MSS, MSS).0 == Verdict::Hold));
    // Two for each segment that the station sent: it has sent two, but for what comes now.
    let sends = |b: &mut Bench, flow, payload_len| {
        let flags = TcpFlags::ACK;
        let tcp = TcpSegment {
            seq: Seq(1),
            ack: Seq(1000),
            window: 50_000,
            payload_len,
            flags,
            ..Default::default()
        };
        let _ = b.packet(Direction::Uplink, Origin::Arrival, 501, flow, &tcp);
    };
    let passes = |b: &mut Bench, flow| (0..300).filter(|_| ack(b, flow)).count();
    assert_eq!(passes(&mut b, 103), 4);
    sends(&mut b, 104, 100);
    assert_eq!(passes(&mut b, 104), 6);
    // An aggregate of 40 segments asks for as many.
    sends(&mut b, 105, 40 * MSS);
    assert_eq!(passes(&mut b, 105), 4 + 2 + 40 * MSS as usize / 512);
}

/// An ACK without data has the number that comes next, which is where the data ends that the station owes.
#[test]
fn an_ack_without_data_is_no_copy_of_the_data_before_it() {
    let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
    b.open(102, 50_000);
    assert_eq!(b.at(10).down(5, 102, 1000, MSS).0, FORWARD);
    let flow = |b: &Bench| {
        let slot = b.agent.shared.flows.find(&key(102, false)).expect("known");
        let flow = b.agent.shared.flows.known(slot);
        (flow.radio_probe.is_some(), flow.watched.as_ref().expect("nobody tells the rate").again)
    };
    let before = flow(&b);
    let flags = TcpFlags::ACK;
    let tcp = TcpSegment { seq: Seq(2000), ack: Seq(1), window: 60_000, flags, ..Default::default() };
    assert_eq!(b.at(11).packet(Direction::Downlink, Origin::Arrival, 6, 102, &tcp).0, FORWARD);
    assert_eq!((before, flow(&b)), ((true, None), (true, None)));
}

/// What is sent again may be what its station waits for, so it passes the gate; but not from a sender that
/// repeats one segment as fast as it can.
#[test]
fn no_more_passes_the_gate_again_than_a_sender_repeats_until_something_is_acknowledged() {
    let (mut b, first) = behind_a_queue(&[]);
    let of = |b: &mut Bench, repeated: u32| {
        let flow = b.agent.shared.flows.at(0);
        flow.watched.as_mut().expect("nobody tells the rate").repeated = repeated;
        (flow.may_repeat(Seq(first - 39 * MSS)), flow.may_repeat(Seq(first + MSS)))
    };
    let flow = b.agent.shared.flows.known(0);
    let owed = flow.down_sent.expect("data").minus(flow.acked.expect("an ACK")).unsigned_abs();
    assert!(owed > 5 * MSS);
    assert_eq!(of(&mut b, 0), (true, false), "what never went down is no repetition");
    assert_eq!(of(&mut b, 2 * owed), (true, false));
    assert_eq!(of(&mut b, 2 * owed + 1), (false, false));
    // A repetition is answered by a duplicate ACK, which says that something has arrived, and nothing of the
    // hole.
    let acked = b.agent.shared.flows.known(0).acked.expect("an ACK");
    assert_eq!(of(&mut b, 4 * owed), (false, false));
    let mut sack = SackBlocks::EMPTY;
    sack.push(SackBlock { left: acked + MSS, right: acked + 2 * MSS });
    let flags = TcpFlags::ACK;
    let tcp = TcpSegment { seq: Seq(1), ack: acked, window: 50_000, flags, sack, ..Default::default() };
    let _ = b.at(1603).packet(Direction::Uplink, Origin::Arrival, 13, 101, &tcp);
    assert!(!b.agent.shared.flows.known(0).may_repeat(Seq(first - 39 * MSS)));
    let _ = b.at(1604).ack(12, 101, first - 39 * MSS, 50_000);
    assert!(b.agent.shared.flows.known(0).may_repeat(Seq(first - 38 * MSS)));
}

/// A D-SACK (RFC 2883) tells of a segment that had arrived before.
#[test]
fn a_d_sack_counts_nothing_as_arrived() {
    let (mut b, _) = behind_a_queue(&[]);
    let (acked, before) = {
        let flow = b.agent.shared.flows.known(0);
        (flow.acked.expect("an ACK"), flow.outstanding())
    };
    let mut sack = SackBlocks::EMPTY;
    sack.push(SackBlock { left: Seq(acked.0 - MSS), right: acked });
    let flags = TcpFlags::ACK;
    let tcp = TcpSegment { seq: Seq(1), ack: acked, window: 50_000, flags, sack, ..Default::default() };
    for _ in 0..3 {
        let _ = b.at(1603).packet(Direction::Uplink, Origin::Arrival, 13, 101, &tcp);
    }
    assert_eq!(b.agent.shared.flows.known(0).outstanding(), before);
}

/// What lies below for a silent station is none of the others' limit: also where an ACK of it was under way
/// when the silence was told, and where the silence began in one of the whole network.
#[test]
fn a_silent_station_stays_set_aside_until_its_silence_is_over() {
    let (mut b, first) = behind_a_queue(&[201]);
    let aside = |b: &Bench| b.agent.round_trips.is_aside(StationId(1));
    let own = Scope::Station(StationId(1));
    b.at(1602).freeze(own);
    assert!(aside(&b));
    let _ = b.at(1603).ack(12, 101, first - 39 * MSS, 50_000);
    assert!(aside(&b), "an ACK that was under way");
    let _ = b.at(1700).thaw(own);
    let _ = b.at(1701).ack(13, 101, first - 38 * MSS, 50_000);
    assert!(!aside(&b));
    b.at(1710).freeze(Scope::Network);
    b.at(1715).freeze(own);
    let _ = b.at(1720).thaw(Scope::Network);
    assert!(aside(&b), "its own silence goes on");
}

/// What a sender repairs after its timeout is at an end once it is acknowledged: the mark that stood there
/// would come alive again with the numbers half the sequence space on.
#[test]
fn a_timeouts_repair_is_over_once_all_is_acknowledged_that_was_sent_by_then() {
    let (mut b, first) = behind_a_queue(&[]);
    let hold = |b: &mut Bench, n: u32| b.at(1602).down(100, 101, first + n * MSS, MSS).0 == Verdict::Hold;
    let mut went = (0..150).filter(|&n| !hold(&mut b, n)).count() as u32;
    let repairs_to =
        |b: &Bench| b.agent.shared.flows.known(0).watched.as_ref().expect("nobody tells the rate").repairs_to;
    let unanswered = first - 39 * MSS;
    let again = b.at(1850).down(500, 101, unanswered, MSS);
    assert_eq!((again.0, repairs_to(&b)), (Verdict::Hold, Some(Seq(first + 150 * MSS))));
    went += released(&again.1).iter().filter(|id| **id == 100).count() as u32;
    for at in (1855..8000).step_by(5) {
        went += released(&b.at(at).timeout()).iter().filter(|id| **id == 100).count() as u32;
        let answered = b.ack(200, 101, first + went * MSS, 50_000);
        went += released(&answered.1).iter().filter(|id| **id == 100).count() as u32;
    }
    let _ = b.at(8000).ack(201, 101, first + went * MSS, 50_000);
    assert_eq!((went, repairs_to(&b)), (150, None));
}

#[test]
fn a_radio_that_is_never_empty_is_measured_too() {
    let mut b = Bench::new(&DsaSyncConfig {
        clamp: Clamp::Always,
        standing_queue: Duration::from_millis(5),
        ..plain(Mode::FreezeNudge)
    });
    told(&mut b);
    // Station 1 keeps ten segments under way all the time.
    b.open(101, 50_000);
    let mut seq = 1000;
    b.at(999);
    for n in 0..40 {
        let _ = b.down(1, 101, seq, MSS);
        seq += MSS;
        if n >= 10 {
            let _ = b.ack(2, 101, seq - 10 * MSS, 50_000);
        }
    }
    // Station 2 opens: 40 ms wired, 13 ms on the radio, of which 10 are the queue.
    let syn = SynOptions { mss: Some(1000), window_scale: Some(SHIFT), sack_permitted: true };
    let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..Default::default() };
    let answer = TcpSegment {
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ack: Seq(1),
        window: 0,
        syn,
        ..Default::default()
    };
    let _ = b.at(1000).packet(Direction::Downlink, Origin::Arrival, 1, 201, &ask);
    let _ = b.at(1013).packet(Direction::Uplink, Origin::Arrival, 2, 201, &answer);
    let mut window = None;
    for n in 0..100u64 {
        let now = 1053 + n * 14;
        for _ in 0..14 {
            let _ = b.at(now).down(1, 101, seq, MSS);
            seq += MSS;
            let _ = b.ack(2, 101, seq - 10 * MSS, 50_000);
        }
        let tcp = TcpSegment {
            seq: Seq(1 + n as u32 * MSS),
            ack: Seq(1),
            payload_len: MSS,
            flags: TcpFlags::ACK,
            ..Default::default()
        };
        let _ = b.packet(Direction::Downlink, Origin::Arrival, 3, 201, &tcp);
        let (verdict, _) = b.at(now + 13).ack(4, 201, 1 + (n as u32 + 1) * MSS, 50_000);
        let Verdict::Forward(rewrite) = verdict else { panic!("{verdict:?}") };
        window = rewrite.window;
    }
    assert_eq!(b.agent.round_trips.radio_part(StationId(2)), Some(Duration::from_millis(13)));
    assert!(window.is_some());
}

/// Whatever comes from the wire with the right ports, and a number that the station has not sent.
#[test]
fn an_acknowledgment_of_what_was_never_sent_measures_nothing_and_moves_no_edge() {
    let mut b = Bench::new(&DsaSyncConfig { clamp: Clamp::Always, ..plain(Mode::FreezeNudge) });
    b.open(1, 50_000);
    let segment = |seq, ack, payload_len| TcpSegment {
        seq: Seq(seq),
        ack: Seq(ack),
        payload_len,
        window: 60_000,
        flags: TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let wired = |b: &Bench| {
        let slot = b.agent.shared.flows.find(&key(1, false)).expect("known");
        b.agent.shared.flows.known(slot).wired.get()
    };
    let edge = |b: &Bench| {
        let slot = b.agent.shared.flows.find(&key(1, false)).expect("known");
        b.agent.shared.flows.known(slot).up.as_ref().expect("it uploads").edge
    };
    let before = wired(&b);
    let _ = b.at(2000).packet(Direction::Uplink, Origin::Arrival, 10, 1, &segment(1, 1000, 100));
    let _ = b.at(2001).packet(Direction::Downlink, Origin::Arrival, 11, 1, &segment(1000, 1 << 29, 0));
    assert_eq!(wired(&b), before, "a millisecond was measured");
    // The real one.
    let _ = b.at(2100).packet(Direction::Downlink, Origin::Arrival, 12, 1, &segment(1000, 101, 0));
    assert_eq!(wired(&b), Some(Duration::from_millis(100)));
    let told = edge(&b);
    assert!(told.is_some());
    let (verdict, _) =
        b.at(2101).packet(Direction::Downlink, Origin::Arrival, 13, 1, &segment(1000, 1 << 29, 0));
    assert_eq!(edge(&b), told);
    assert_eq!(
        verdict,
        Verdict::Forward(Rewrite { window: Some(0), ..Rewrite::NONE }),
        "no more than was told"
    );
}

/// Stations that had traffic once have no part of what lies below, and of windows, however often silences
/// end.
#[test]
fn who_has_had_nothing_for_long_shares_nothing_across_frequent_silences() {
    let (mut b, first) = behind_a_queue(&[]);
    let mut next = [first, 1000];
    b.open(201, 50_000);
    let mut now = 1610;
    // Both download; each segment is acknowledged 20 ms later.
    let mut download = |b: &mut Bench, flows: &[u16], until: u64, silences: bool| {
        let mut under_way = VecDeque::new();
        while now < until {
            b.at(now);
            let _ = b.timeout();
            if silences && now % 500 == 0 {
                b.freeze(Scope::Network);
            }
            if silences && now % 500 == 20 {
                let _ = b.thaw(Scope::Network);
            }
            for (&flow, next) in flows.iter().zip(&mut next) {
                let _ = b.down(20, flow, *next, MSS);
                *next += MSS;
                under_way.push_back((now + 20, flow, *next));
            }
            while let Some(&(_, flow, end)) = under_way.front().filter(|(due, ..)| *due <= now) {
                under_way.pop_front();
                let _ = b.ack(21, flow, end, 50_000);
            }
            now += 2;
        }
        for (_, flow, end) in under_way {
            let _ = b.ack(21, flow, end, 50_000);
        }
    };
    download(&mut b, &[101, 201], 6000, false);
    assert!(b.agent.round_trips.is_shared(), "two stations have traffic");
    download(&mut b, &[101], 16_000, true);
    assert!(!b.agent.round_trips.is_shared(), "one has had none for 10 s");
}
