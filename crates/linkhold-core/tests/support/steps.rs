//! What may happen around a base station, as proptest makes it up.

use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::packet::{StationId, TcpFlags, TcpSegment, TcpTimestamp};
use linkhold_core::time::Duration;
use linkhold_core::units::Seq;
use proptest::prelude::*;

use super::flow::FlowPlan;

pub const STATIONS: u32 = 3;
pub const MAX_FLOWS: usize = 8;

#[derive(Clone, Debug)]
pub enum Step {
    /// Time passes, µs; timers run when due.
    Advance(u64),
    /// The correspondent sends as much as its window allows, up to this many segments.
    Send {
        flow: usize,
        segments: u32,
    },
    Retransmit {
        flow: usize,
        nth: u32,
    },
    Probe {
        flow: usize,
    },
    End {
        flow: usize,
        reset: bool,
    },
    /// The station acknowledges (and sends `payload` bytes).
    Acknowledge {
        flow: usize,
        grow: u32,
        payload: u32,
        hole: bool,
        copies: u32,
    },
    Garbage {
        flow: usize,
        downlink: bool,
        tcp: TcpSegment,
        len: u32,
    },
    /// A stranger sends a SYN, or a SYN-ACK, that looks like the flow's.
    Forge {
        flow: usize,
        downlink: bool,
        answer: bool,
        seq: u32,
        ack: u32,
        scale: Option<u8>,
    },
    /// A sender that heeds no window sends this many segments of `payload` bytes, `gap` µs apart: on the
    /// flow, or each from a new port.
    Flood {
        flow: usize,
        segments: u32,
        payload: u32,
        gap: u64,
        new_ports: bool,
    },
    /// The station sends one of its latest segments with payload once more.
    Resend {
        flow: usize,
        nth: usize,
    },
    /// The flow's station leaves and is never heard on it again; the radio may tell.
    Leave {
        flow: usize,
        told: bool,
    },
    /// The correspondent acknowledges what it has, with nothing else to say.
    Answer {
        flow: usize,
    },
    /// The air takes up to this many frames out of the transmit queue.
    Air(u32),
    /// The air loses up to this many frames out of the transmit queue, whether it is silent or not.
    Lose(u32),
    /// The driver tells the room in its transmit queue.
    TellRoom,
    FreezeStart {
        scope: Scope,
        cause: Cause,
        expected: Option<u64>,
        late: u64,
    },
    FreezeEnd {
        scope: Scope,
        cause: Cause,
        late: u64,
    },
    /// A freeze announced ahead, with its end if `told_end`.
    Announce {
        scope: Scope,
        cause: Cause,
        ahead: u64,
        length: u64,
        told_end: bool,
    },
    Schedule {
        scope: Scope,
        period: u64,
        duration: u64,
    },
    Switch {
        /// 0: no longer known.
        mbps: u64,
        efficiency: f64,
    },
}

/// What a third party sends around a handshake that it does not see.
#[derive(Clone, Copy, Debug)]
pub struct Forgery {
    pub flow: usize,
    pub when: When,
    pub seq: Number,
    pub ack: Number,
    /// The rest of it.
    pub tcp: TcpSegment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    BeforeTheSyn,
    BetweenTheSyns,
    BehindTheAnswer,
}

/// A number that is made up.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Any(u32),
    /// The connection's own, missed by so much.
    Near(i32),
}

/// Forged segments: SYNs and SYN-ACKs, and before the answer others, too (later a number within a window is
/// believed, whoever sent it). Three at most are SYNs before the flow's answer: of more than five SYNs one is
/// forgotten, and that may be the real one.
pub fn forgeries() -> impl Strategy<Value = Vec<Forgery>> {
    let number = || {
        prop_oneof![
            2 => any::<u32>().prop_map(Number::Any),
            1 => prop_oneof![2i32..100_000, -100_000i32..-1].prop_map(Number::Near),
        ]
    };
    let flags = prop::sample::select(vec![
        TcpFlags::SYN,
        TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
        TcpFlags::SYN | TcpFlags::ACK,
        TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE,
        TcpFlags::ACK,
        TcpFlags::ACK | TcpFlags::FIN,
        TcpFlags::RST,
        TcpFlags::RST | TcpFlags::ACK,
        TcpFlags::default(),
    ]);
    let when = prop::sample::select(vec![When::BeforeTheSyn, When::BetweenTheSyns, When::BehindTheAnswer]);
    let one = (0..MAX_FLOWS, when, number(), number(), flags, segment(), any::<[bool; 2]>()).prop_map(
        |(flow, when, seq, ack, flags, tcp, [signed, sack_permitted])| {
            let flags = match when {
                When::BeforeTheSyn | When::BetweenTheSyns => flags,
                // An ACK becomes a SYN-ACK, and nothing ends.
                When::BehindTheAnswer => {
                    TcpFlags(flags.0 & (TcpFlags::ACK | TcpFlags::ECE | TcpFlags::CWR).0) | TcpFlags::SYN
                }
            };
            let carries = flags == TcpFlags::ACK || flags == TcpFlags::default();
            let mut tcp =
                TcpSegment { flags, signed, payload_len: if carries { tcp.payload_len } else { 0 }, ..tcp };
            tcp.syn.window_scale = tcp.syn.window_scale.map(|scale| scale % 15);
            tcp.syn.sack_permitted = sack_permitted;
            Forgery { flow, when, seq, ack, tcp }
        },
    );
    prop::collection::vec(one, 0..24).prop_map(|mut all| {
        let mut left = [3; MAX_FLOWS];
        all.retain(|forgery| {
            let flags = forgery.tcp.flags;
            let asks = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
            let counts = asks && forgery.when != When::BehindTheAnswer;
            left[forgery.flow] -= i32::from(counts);
            !counts || left[forgery.flow] >= 0
        });
        all
    })
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        2 => Just(Scope::Network),
        3 => (0..STATIONS).prop_map(|id| Scope::Station(StationId(id))),
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(Cause::ALL.to_vec())
}

fn segment() -> impl Strategy<Value = TcpSegment> {
    (
        any::<u32>(),
        any::<u32>(),
        0u32..3_000,
        any::<u16>(),
        any::<u8>(),
        any::<Option<(u32, u32)>>(),
        any::<Option<u8>>(),
    )
        .prop_map(|(seq, ack, payload_len, window, flags, timestamp, scale)| {
            let mut tcp = TcpSegment {
                seq: Seq(seq),
                ack: Seq(ack),
                payload_len,
                window,
                flags: TcpFlags(flags),
                timestamp: timestamp.map(|(value, echo)| TcpTimestamp { value, echo }),
                ..TcpSegment::default()
            };
            tcp.syn.window_scale = scale;
            tcp
        })
}

fn step() -> impl Strategy<Value = Step> {
    let flow = || 0..MAX_FLOWS;
    prop_oneof![
        8 => (1u64..30_000).prop_map(Step::Advance),
        1 => (30_000u64..2_000_000).prop_map(Step::Advance),
        10 => (flow(), 1u32..20).prop_map(|(flow, segments)| Step::Send { flow, segments }),
        3 => (flow(), 0u32..64).prop_map(|(flow, nth)| Step::Retransmit { flow, nth }),
        2 => flow().prop_map(|flow| Step::Probe { flow }),
        1 => (flow(), any::<bool>()).prop_map(|(flow, reset)| Step::End { flow, reset }),
        10 => (flow(), prop_oneof![Just(0), 0u32..200_000], prop_oneof![4 => Just(0), 1 => 1u32..1_448], any::<bool>(), 1u32..4)
            .prop_map(|(flow, grow, payload, hole, copies)| Step::Acknowledge { flow, grow, payload, hole, copies }),
        2 => (flow(), any::<bool>(), any::<bool>(), any::<u32>(), any::<u32>(), prop::option::of(0u8..15))
            .prop_map(|(flow, downlink, answer, seq, ack, scale)| Step::Forge { flow, downlink, answer, seq, ack, scale }),
        3 => flow().prop_map(|flow| Step::Answer { flow }),
        2 => (flow(), 0usize..4).prop_map(|(flow, nth)| Step::Resend { flow, nth }),
        8 => (1u32..40).prop_map(Step::Air),
        3 => Just(Step::TellRoom),
        4 => (scope(), cause(), any::<bool>(), 0u64..400_000, prop_oneof![Just(0), 0u64..50_000])
            .prop_map(|(scope, cause, told, expected, late)| Step::FreezeStart { scope, cause, expected: told.then_some(expected), late }),
        5 => (scope(), cause(), prop_oneof![Just(0), 0u64..50_000]).prop_map(|(scope, cause, late)| Step::FreezeEnd { scope, cause, late }),
        1 => (scope(), cause(), 0u64..100_000, 1u64..100_000, any::<bool>())
            .prop_map(|(scope, cause, ahead, length, told_end)| Step::Announce { scope, cause, ahead, length, told_end }),
        1 => (scope(), 0u64..500_000, 0u64..100_000).prop_map(|(scope, period, duration)| Step::Schedule { scope, period, duration }),
        1 => (prop_oneof![1 => Just(0u64), 3 => 1u64..50], 0.1f64..1.0).prop_map(|(mbps, efficiency)| Step::Switch { mbps, efficiency }),
    ]
}

/// Steps without garbage.
pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..most)
}

/// Steps of an air that loses frames.
pub fn steps_with_losses(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let lose = prop_oneof![3 => 1u32..4, 1 => 4u32..40].prop_map(Step::Lose);
    prop::collection::vec(prop_oneof![8 => step(), 1 => lose], 1..most)
}

/// Steps with floods among them: segments beyond any window, and segments from ever new ports.
pub fn steps_with_hogs(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop_oneof![6 => step(), 1 => flood()], 1..most)
}

fn flood() -> impl Strategy<Value = Step> {
    let payload = prop_oneof![2 => Just(1_448u32), 1 => 1u32..1_448, 1 => 1_448u32..20_000];
    let gap = prop_oneof![3 => Just(0u64), 1 => 1u64..3_000];
    (0..MAX_FLOWS, 1u32..200, payload, gap, any::<bool>()).prop_map(
        |(flow, segments, payload, gap, new_ports)| Step::Flood { flow, segments, payload, gap, new_ports },
    )
}

/// Steps of connections that carry data both ways: requests, responses, and both sent again.
pub fn steps_both_ways(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let flow = || 0..MAX_FLOWS;
    let request = (flow(), 0u32..60_000, 1u32..1_449, 1u32..4).prop_map(|(flow, grow, payload, copies)| {
        Step::Acknowledge { flow, grow, payload, hole: false, copies }
    });
    let more = prop_oneof![
        4 => request,
        2 => (flow(), 0usize..4).prop_map(|(flow, nth)| Step::Resend { flow, nth }),
        3 => (flow(), 1u32..8).prop_map(|(flow, segments)| Step::Send { flow, segments }),
        2 => flow().prop_map(|flow| Step::Answer { flow }),
        3 => (1u64..20_000).prop_map(Step::Advance),
    ];
    prop::collection::vec(prop_oneof![2 => step(), 1 => more], 1..most)
}

/// Steps in which stations leave in the middle, but not that of the first flow, which goes on.
pub fn steps_with_ghosts(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let leave = (1..MAX_FLOWS, any::<bool>()).prop_map(|(flow, told)| Step::Leave { flow, told });
    let step =
        step().prop_filter("the first flow goes on", |step| !matches!(step, Step::End { flow: 0, .. }));
    prop::collection::vec(prop_oneof![12 => step, 1 => leave], 1..most)
}

/// Steps with garbage packets among them, on the same flows.
pub fn wild_steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let garbage = (0..MAX_FLOWS, any::<bool>(), segment(), 20u32..70_000)
        .prop_map(|(flow, downlink, tcp, len)| Step::Garbage { flow, downlink, tcp, len });
    prop::collection::vec(prop_oneof![5 => step(), 1 => garbage], 1..most)
}

pub fn plans() -> impl Strategy<Value = Vec<FlowPlan>> {
    let plan = (
        0..STATIONS,
        any::<bool>(),
        prop::option::of(0u8..10),
        any::<[bool; 4]>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.8),
        prop_oneof![any::<u32>(), Just(u32::MAX - 5_000)],
        prop_oneof![Just(0), 1u64..80_000].prop_map(Duration::from_micros),
        // RFC 7323 section 5.4: between 1 ms and 1 s.
        prop::sample::select(vec![1, 10, 100]).prop_map(Duration::from_millis),
    )
        .prop_map(
            |(station, v6, shift, [timestamps, sack, ecn, pushed], signed, handshake, iss, wire, tick)| {
                FlowPlan {
                    station,
                    v6,
                    shift,
                    timestamps,
                    sack,
                    ecn,
                    signed,
                    handshake,
                    pushed,
                    iss,
                    wire,
                    tick,
                }
            },
        );
    prop::collection::vec(plan, MAX_FLOWS)
}
