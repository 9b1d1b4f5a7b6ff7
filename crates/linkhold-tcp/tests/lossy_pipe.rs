//! Two endpoints over a pipe that loses, reorders, delays and closes windows: whatever it does, every byte
//! arrives once and in order, the FINs complete, nothing is sent beyond the offered window, and nothing
//! hangs.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Fate, LinkConfig, Net, at, ms};
use linkhold_core::action::Resend;
use linkhold_core::packet::TcpFlags;
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Seq};
use linkhold_tcp::{Congestion, DelayedAck, Recovery, Source, TcpConfig};
use proptest::prelude::*;

fn config(profile: usize, congestion: Congestion) -> TcpConfig {
    match profile {
        0 => TcpConfig::classic(Recovery::Reno, congestion),
        1 => TcpConfig::classic(Recovery::NewReno, congestion),
        2 => TcpConfig::classic(Recovery::Sack, congestion),
        3 => TcpConfig::classic(Recovery::RackTlp, congestion),
        4 => TcpConfig::linux(congestion),
        _ => TcpConfig::linux_2009(congestion),
    }
}

#[derive(Clone, Debug)]
struct Case {
    profile: usize,
    congestion: Congestion,
    receiver: usize,
    delayed_ack: DelayedAck,
    bytes: u64,
    seed: u64,
    loss: u32,
    reorder: u32,
    /// (start, length) in ms.
    silence: (u64, u64),
    /// The silence also rewrites windows to zero, as a base station would.
    zero_window: bool,
    queue: usize,
    delay: u64,
    buffer: u64,
    read_rate: Option<u64>,
    ecn: bool,
    freeze: Option<(u64, u64)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let path =
        (any::<u64>(), 0u32..25, 0u32..20, (0u64..3000, 0u64..2500), any::<bool>(), 3usize..60, 1u64..80);
    let ends = (
        0usize..6,
        prop_oneof![
            Just(Congestion::Reno),
            Just(Congestion::Vegas),
            Just(Congestion::Cubic),
            Just(Congestion::Bbr)
        ],
        0usize..6,
        prop_oneof![
            Just(DelayedAck::Off),
            Just(DelayedAck::Timer(Duration::from_millis(100))),
            Just(DelayedAck::Heartbeat(Duration::from_millis(200))),
            Just(DelayedAck::HeartbeatOnly(Duration::from_millis(200))),
            Just(DelayedAck::Linux)
        ],
        prop_oneof![1u64..5000, 5000u64..400_000],
        prop_oneof![Just(100u64), 3000u64..300_000],
        proptest::option::of(20_000u64..4_000_000),
        any::<bool>(),
        proptest::option::of((0u64..2000, 1u64..2000)),
    );
    (path, ends).prop_map(|(path, ends)| {
        let (seed, loss, reorder, silence, zero_window, queue, delay) = path;
        let (profile, congestion, receiver, delayed_ack, bytes, buffer, read_rate, ecn, freeze) = ends;
        Case {
            profile,
            congestion,
            receiver,
            delayed_ack,
            bytes,
            seed,
            loss,
            reorder,
            silence,
            zero_window,
            queue,
            delay,
            buffer: if buffer == 100 { 300_000 } else { buffer },
            read_rate,
            ecn,
            freeze,
        }
    })
}

/// A small generator of the test's own (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What the wire saw.
#[derive(Default)]
struct Seen {
    /// Right edges offered by end 1, as sequence numbers of end 0 (largest so far).
    edge: Option<Seq>,
    scale: u8,
    beyond: Option<String>,
    shrunk: Option<String>,
    last_edge: Option<Seq>,
}

fn run(case: &Case) {
    let mut sender = config(case.profile, case.congestion);
    sender.ecn = case.ecn;
    sender.rto_max = Duration::from_secs(10);
    let mut receiver = config(case.receiver, case.congestion);
    receiver.delayed_ack = case.delayed_ack;
    receiver.receive_buffer = Bytes(case.buffer);
    receiver.application_read_rate = case.read_rate.map(BitRate);
    receiver.ecn = case.ecn;
    receiver.rto_max = Duration::from_secs(10);
    let link = LinkConfig { rate: BitRate::from_mbps(10), delay: ms(case.delay), queue: case.queue };
    let mut net = Net::new((&sender, Source::Finite(Bytes(case.bytes))), (&receiver, Source::None), link);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let (hook_seen, hook_case) = (Rc::clone(&seen), case.clone());
    let mut random = case.seed;
    let one_byte = sender.window_probe == linkhold_tcp::WindowProbe::OneByte;
    net.hook = Box::new(move |now, end, segment, _| {
        let (case, mut seen) = (&hook_case, hook_seen.borrow_mut());
        let silent = now >= at(case.silence.0) && now < at(case.silence.0 + case.silence.1);
        if end == 1 && segment.flags.contains(TcpFlags::ACK) {
            let is_syn = segment.flags.contains(TcpFlags::SYN);
            if is_syn {
                seen.scale = segment.syn.window_scale.unwrap_or(0);
            }
            let edge = segment.ack + (u32::from(segment.window) << if is_syn { 0 } else { seen.scale });
            if seen.last_edge.is_some_and(|last| edge.before(last)) {
                seen.shrunk = Some(format!("at {now}: {edge:?} after {:?}", seen.last_edge));
            }
            seen.last_edge = Some(edge);
            // What the sender gets to see: the base station may close the window, and then the edge is the
            // ack.
            let mut told = edge;
            if case.zero_window && silent && !is_syn {
                segment.window = 0;
                told = segment.ack;
            }
            seen.edge = Some(seen.edge.map_or(told, |old| old.max(told)));
        }
        if end == 0
            && segment.payload_len > 0
            && let Some(edge) = seen.edge
        {
            // The classic probe is one byte beyond the window, by its RFC.
            let slack = u32::from(one_byte && segment.payload_len == 1);
            if (segment.seq + segment.payload_len).after(edge + slack) {
                seen.beyond = Some(format!("at {now}: {segment:?} beyond {edge:?}"));
            }
        }
        let dice = next(&mut random) % 100;
        if dice < u64::from(case.loss) || (silent && !case.zero_window) {
            Fate::Drop
        } else if dice < u64::from(case.loss + case.reorder) {
            Fate::Delay(ms(next(&mut random) % 60))
        } else {
            Fate::Pass
        }
    });
    if let Some((start, length)) = case.freeze {
        net.run(at(start));
        let now = net.now;
        net.ends[0].freeze(now);
        net.run(at(start + length));
        let now = net.now.max(at(start + length));
        net.now = now;
        net.ends[0].thaw(now, Resend::All);
    }
    // Karn's rule keeps a backed-off RTO until something gets through at once, so heavy loss costs minutes a
    // segment; with a ceiling of 10 s an hour is ample.
    let limit = at(3_600_000);
    let alive = net.run_while(limit, |net| !(net.ends[0].is_closed() && net.ends[1].is_closed()));
    let seen = seen.borrow();
    assert!(seen.beyond.is_none(), "{:?}", seen.beyond);
    assert!(seen.shrunk.is_none(), "the offered right edge moved left: {:?}", seen.shrunk);
    assert!(net.ends[1].delivered() <= case.bytes, "more arrived than was sent");
    if alive && net.now < limit {
        assert!(net.ends[0].is_closed() && net.ends[1].is_closed());
        assert_eq!(net.ends[1].delivered(), case.bytes);
        assert_eq!(net.ends[0].acknowledged(), case.bytes);
        assert_eq!(net.ends[0].in_flight_bytes(), 0);
    } else {
        // No TIME-WAIT: once one end is closed its last ACK may be lost with nobody to answer but a
        // retransmission, which the other end's timer sends.
        panic!("stuck at {}: {:?}", net.now, net.ends);
    }
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::at_least(4000))]
    #[test]
    fn every_byte_arrives_once_and_the_connection_closes(case in cases()) {
        run(&case);
    }
}

#[test]
fn every_recovery_with_every_congestion_control_survives_the_same_mishaps() {
    for profile in 0..6 {
        for congestion in [Congestion::Reno, Congestion::Vegas, Congestion::Cubic, Congestion::Bbr] {
            for (loss, reorder, zero_window) in [(0, 0, false), (5, 0, false), (0, 15, false), (3, 5, true)] {
                for seed in 0..4 {
                    run(&Case {
                        profile,
                        congestion,
                        receiver: profile,
                        delayed_ack: DelayedAck::Linux,
                        bytes: 700_000,
                        seed,
                        loss,
                        reorder,
                        silence: (300, 700),
                        zero_window,
                        queue: 30,
                        delay: 10,
                        buffer: 200_000,
                        read_rate: None,
                        ecn: false,
                        freeze: None,
                    });
                }
            }
        }
    }
}
