//! What the SNR gate must keep, whatever it is told and whatever passes.

use core::net::IpAddr;
use std::collections::BTreeMap;

use linkhold_core::action::{Action, Actions, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, SynOptions, TcpFlags,
    TcpSegment,
};
use linkhold_core::snr_gate::{Closed, Rule, SnrGate, SnrGateConfig};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A sample that is this many ms old (negative: from the future).
    Sample { age: i64, db: f32 },
    /// The host of a connection sends a segment, new or again.
    Data { flow: usize, again: bool },
    /// Its receiver acknowledges everything, with this window.
    Ack { flow: usize, window: u16 },
    /// Its host or receiver ends it.
    End { flow: usize, reset: bool },
    /// Time passes; the gate's timer runs when it is due, this late.
    Wait { ms: u64, late: u64 },
}

/// What a receiver has said, and what its sender believes.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sent: u32,
    acked: Option<u32>,
    offer: u16,
    /// The window that the sender was last told.
    believes: u16,
    over: bool,
}

fn db() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -5f32..15f32,
        1 => prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0]),
    ]
}

fn step(flows: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (-2_000i64..2_000, db()).prop_map(|(age, db)| Step::Sample { age, db }),
        6 => db().prop_map(|db| Step::Sample { age: 0, db }),
        4 => (0..flows, any::<bool>()).prop_map(|(flow, again)| Step::Data { flow, again }),
        4 => (0..flows, 0u16..2_000).prop_map(|(flow, window)| Step::Ack { flow, window }),
        1 => (0..flows, any::<bool>()).prop_map(|(flow, reset)| Step::End { flow, reset }),
        6 => (1u64..400, 0u64..50).prop_map(|(ms, late)| Step::Wait { ms, late }),
    ]
}

fn key(flow: usize) -> FlowKey {
    FlowKey {
        correspondent: Endpoint { addr: IpAddr::from([192, 0, 2, 1]), port: 443 },
        station: Endpoint { addr: IpAddr::from([10, 0, 0, 2]), port: flow as u16 },
    }
}

struct World {
    gate: SnrGate,
    now: Instant,
    out: Actions,
    flows: Vec<Seen>,
    ids: BTreeMap<FlowKey, usize>,
    /// The gate saw the SYNs, which had this scale.
    scale: Option<u8>,
}

impl Seen {
    /// The window field on a segment that acknowledges `acked` lets nothing out that was not sent.
    fn is_closed(&self, acked: u32, window: u16, scale: Option<u8>) -> bool {
        window == 0 || (u32::from(window) << scale.unwrap_or(0)) <= self.sent.wrapping_sub(acked)
    }
}

impl World {
    fn new(config: &SnrGateConfig, flows: usize, scale: Option<u8>) -> Self {
        let ids = (0..flows).map(|flow| (key(flow), flow)).collect();
        let flows = vec![Seen { sent: 1_000, ..Seen::default() }; flows];
        let now = Instant::from_millis(5_000);
        let mut world = Self { gate: SnrGate::new(config), now, out: Actions::new(), flows, ids, scale };
        if scale.is_some() {
            (0..world.flows.len()).for_each(|flow| world.shake_hands(flow));
        }
        world
    }

    fn shake_hands(&mut self, flow: usize) {
        let syn = SynOptions { window_scale: self.scale, ..SynOptions::default() };
        let tcp = TcpSegment { seq: Seq(999), flags: TcpFlags::SYN, syn, ..TcpSegment::default() };
        self.packet(flow, Direction::Uplink, &tcp).expect("a SYN passes");
        let flags = TcpFlags::SYN | TcpFlags::ACK;
        let answer = TcpSegment { seq: Seq(499), ack: Seq(1_000), flags, window: 1_000, ..tcp };
        self.packet(flow, Direction::Downlink, &answer).expect("and its answer");
        let seen = &mut self.flows[flow];
        seen.acked = Some(1_000);
        // The window of a SYN is not scaled; an ACK that repeats it is.
        seen.offer = 1_000 >> self.scale.unwrap_or(0);
        seen.believes = seen.offer;
    }

    fn packet(&mut self, flow: usize, direction: Direction, tcp: &TcpSegment) -> Result<(), TestCaseError> {
        let view = PacketView {
            id: PacketId(1),
            direction,
            origin: Origin::Arrival,
            station: StationId(0),
            flow: &key(flow),
            tcp,
            len: tcp.payload_len + 40,
            ecn: Ecn::NotEct,
        };
        match self.gate.on_packet(self.now, &view, &mut self.out) {
            Verdict::Forward(rewrite) => {
                prop_assert!(!rewrite.set_ece && !rewrite.mark_ce);
                let window = rewrite.window.unwrap_or(tcp.window);
                if window != tcp.window {
                    let is_closed = self.flows[flow].is_closed(tcp.ack.0, window, self.scale);
                    prop_assert!(
                        is_closed && window < tcp.window,
                        "a window is the receiver's or a closed one"
                    );
                }
                if direction == Direction::Downlink {
                    self.flows[flow].believes = window;
                } else {
                    prop_assert!(rewrite.is_none(), "the host's own segments pass as they are");
                }
            }
            Verdict::ForwardAndKeep(_) | Verdict::Hold | Verdict::Drop(_) => {
                prop_assert!(false, "the gate keeps and drops nothing");
            }
        }
        self.drain()
    }

    /// Every ACK that the gate makes repeats its receiver's.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        for action in self.out.drain() {
            let Action::InjectAck(ack) = action else {
                return Err(TestCaseError::fail(format!("{action:?} is not the gate's to ask for")));
            };
            let Some(seen) = self.ids.get(&ack.flow).and_then(|&flow| self.flows.get_mut(flow)) else {
                return Err(TestCaseError::fail("an ACK on a connection that there is not"));
            };
            prop_assert_eq!(Some(ack.ack.0), seen.acked, "what the receiver acknowledged last");
            let is_closed = seen.is_closed(ack.ack.0, ack.window, self.scale);
            prop_assert!((is_closed && ack.window <= seen.offer) || ack.window == seen.offer, "{:?}", seen);
            prop_assert!(!seen.over, "nobody listens any more");
            prop_assert_eq!(ack.direction, Direction::Downlink);
            seen.believes = ack.window;
        }
        Ok(())
    }

    fn sample(&mut self, taken: Instant, db: f32) -> Result<(), TestCaseError> {
        let kind = LinkEventKind::Snr { station: StationId(0), db };
        let event = LinkEvent { detected_at: self.now, effective_at: Some(taken), kind };
        self.gate.on_link(self.now, event, &mut self.out);
        self.drain()
    }

    fn wait(&mut self, ms: u64, late: u64) -> Result<(), TestCaseError> {
        let until = self.now + Duration::from_millis(ms);
        for _ in 0..100 {
            let Some(due) = self.gate.next_timeout().filter(|due| *due <= until) else { break };
            self.now = self.now.max(due + Duration::from_millis(late));
            self.gate.on_timeout(self.now, &mut self.out);
            self.drain()?;
        }
        prop_assert!(self.gate.next_timeout().is_none_or(|due| due > until), "a timer that runs for ever");
        self.now = self.now.max(until);
        Ok(())
    }

    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Sample { age, db } => {
                let age = Duration::from_millis(age.unsigned_abs());
                // Half of the range is before now, half after it.
                let taken = if matches!(step, Step::Sample { age, .. } if *age >= 0) {
                    self.now - age
                } else {
                    self.now + age
                };
                self.sample(taken, db)
            }
            Step::Data { flow, again } => {
                let seen = &mut self.flows[flow];
                if seen.over {
                    return Ok(());
                }
                let seq = if again { seen.acked.unwrap_or(1_000) } else { seen.sent };
                let payload_len = if again { seen.sent.wrapping_sub(seq) } else { 1_000 };
                seen.sent = seq.wrapping_add(payload_len);
                let flags = TcpFlags::ACK;
                let tcp = TcpSegment {
                    seq: Seq(seq),
                    ack: Seq(500),
                    payload_len,
                    window: 9,
                    flags,
                    ..TcpSegment::default()
                };
                self.packet(flow, Direction::Uplink, &tcp)
            }
            Step::Ack { flow, window } => {
                let seen = &mut self.flows[flow];
                if seen.over {
                    return Ok(());
                }
                (seen.acked, seen.offer) = (Some(seen.sent), window);
                let flags = TcpFlags::ACK;
                let tcp =
                    TcpSegment { seq: Seq(500), ack: Seq(seen.sent), window, flags, ..TcpSegment::default() };
                self.packet(flow, Direction::Downlink, &tcp)
            }
            Step::End { flow, reset } => {
                let seen = &mut self.flows[flow];
                if seen.over {
                    return Ok(());
                }
                let flags = if reset { TcpFlags::RST } else { TcpFlags::FIN | TcpFlags::ACK };
                let fin = TcpSegment { seq: Seq(seen.sent), ack: Seq(500), flags, ..TcpSegment::default() };
                self.packet(flow, Direction::Uplink, &fin)?;
                let seen = &mut self.flows[flow];
                seen.over = true;
                if reset {
                    return Ok(());
                }
                seen.acked = Some(seen.sent + 1);
                let ack = TcpSegment {
                    seq: Seq(500),
                    ack: Seq(seen.sent + 1),
                    window: 9,
                    flags: TcpFlags::ACK,
                    ..TcpSegment::default()
                };
                self.packet(flow, Direction::Downlink, &ack)
            }
            Step::Wait { ms, late } => self.wait(ms, late),
        }
    }
}

fn config() -> impl Strategy<Value = SnrGateConfig> {
    let rule = prop::sample::select(vec![Rule::Threshold, Rule::Hysteresis, Rule::Adaptive]);
    let closed = prop::sample::select(vec![Closed::Full, Closed::Zero]);
    (rule, closed, -2.0f64..10.0, 1u32..8, 1u32..5).prop_map(
        |(rule, closed, threshold, averaged, max_flows)| SnrGateConfig {
            rule,
            closed,
            threshold,
            averaged,
            max_flows,
            ..SnrGateConfig::default()
        },
    )
}

fn scale() -> impl Strategy<Value = Option<u8>> {
    prop::option::of(0u8..9)
}

proptest! {
    /// Windows are the receiver's or let nothing new out, nothing else is made up, the table is bounded, and
    /// once the samples have stopped every sender is told its receiver's window again.
    #[test]
    fn every_sender_is_reopened_whatever_is_told(
        config in config(), scale in scale(), steps in prop::collection::vec(step(6), 1..200),
    ) {
        let mut world = World::new(&config, 6, scale);
        for step in &steps {
            world.run(step)?;
            prop_assert!(world.gate.metrics().flows <= u64::from(config.max_flows));
        }
        world.wait(config.max_gate.as_millis() + 1, 0)?;
        prop_assert_eq!(world.gate.metrics().windows_closed_now, 0);
        prop_assert_eq!(world.gate.next_timeout(), None);
        for seen in world.flows.iter().filter(|seen| !seen.over && seen.acked.is_some()) {
            prop_assert_eq!(seen.believes, seen.offer, "{:?}", seen);
        }
    }

    /// A signal that stays bad shuts the gate for no longer than `max_gate`.
    #[test]
    fn a_bad_signal_for_ever_does_not_starve(
        config in config(), scale in scale(), period in 20u64..900, db in -40f32..-10f32,
    ) {
        // Of samples rarer than its window the paper's rule cannot tell a motion.
        let config = SnrGateConfig { window: Duration::from_millis(10 * period), ..config };
        let mut world = World::new(&config, 1, scale);
        world.run(&Step::Ack { flow: 0, window: 60_000 })?;
        world.run(&Step::Data { flow: 0, again: false })?;
        let mut shut = Duration::ZERO;
        for index in 0..(60_000 / period) {
            // It falls at first, as the paper's rule asks.
            world.sample(world.now, if index < 40 { -(index as f32) } else { db })?;
            if world.flows[0].believes < 60_000 {
                shut += Duration::from_millis(period);
            }
            world.wait(period, 0)?;
        }
        prop_assert!(shut <= config.max_gate + Duration::from_millis(period), "{shut}");
        prop_assert!(shut > Duration::ZERO, "it never shut");
    }

    /// `flush` opens at once, whatever the state.
    #[test]
    fn flush_leaves_no_window_closed(
        config in config(), scale in scale(), steps in prop::collection::vec(step(4), 1..100),
    ) {
        let mut world = World::new(&config, 4, scale);
        for step in &steps {
            world.run(step)?;
        }
        world.gate.flush(world.now, &mut world.out);
        world.drain()?;
        prop_assert_eq!(world.gate.metrics().windows_closed_now, 0);
        for seen in world.flows.iter().filter(|seen| !seen.over && seen.acked.is_some()) {
            prop_assert_eq!(seen.believes, seen.offer, "{:?}", seen);
        }
    }
}
