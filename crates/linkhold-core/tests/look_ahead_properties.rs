//! What look-ahead must keep, whatever passes and whatever the radio tells.

use core::net::IpAddr;

use linkhold_core::action::{Action, Actions, Rewrite, Verdict};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::look_ahead::{FramesAhead, Lock, LookAhead, LookAheadConfig};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{Bytes, Fraction, Seq};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Any packet at all.
    Packet {
        flow: u16,
        down: bool,
        tcp: TcpSegment,
        len: u32,
    },
    /// A segment, and its ACK this much later.
    Answered {
        flow: u16,
        after: u64,
    },
    /// A grant whose turn is this far from now (negative: over), us.
    Grant {
        turn: i64,
        bytes: u64,
    },
    Unused {
        bytes: u64,
    },
    Frames {
        us: u64,
    },
    Silence {
        cause: Cause,
        on: bool,
    },
    Left,
    /// Time passes, us; the timer runs when it is due, this late.
    Wait {
        us: u64,
        late: u64,
    },
}

fn segment() -> impl Strategy<Value = TcpSegment> {
    (any::<u32>(), any::<u32>(), prop_oneof![Just(0), Just(1448), any::<u32>()], any::<u8>()).prop_map(
        |(seq, ack, payload_len, flags)| TcpSegment {
            seq: Seq(seq),
            ack: Seq(ack),
            payload_len,
            flags: TcpFlags(flags),
            ..TcpSegment::default()
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let flow = 0u16..12;
    prop_oneof![
        4 => (flow.clone(), any::<bool>(), segment(), prop_oneof![0u32..2_000, any::<u32>()])
            .prop_map(|(flow, down, tcp, len)| Step::Packet { flow, down, tcp, len }),
        8 => (flow, prop_oneof![Just(0), Just(40_000), 0u64..250_000])
            .prop_map(|(flow, after)| Step::Answered { flow, after }),
        4 => (prop_oneof![0i64..60_000, any::<i64>()], prop_oneof![0u64..200, any::<u64>()])
            .prop_map(|(turn, bytes)| Step::Grant { turn, bytes }),
        2 => prop_oneof![0u64..200, any::<u64>()].prop_map(|bytes| Step::Unused { bytes }),
        1 => prop_oneof![
            prop::sample::select(vec![2_000, 2_500, 4_000, 5_000, 8_000, 10_000, 12_000]),
            any::<u64>(),
        ].prop_map(|us| Step::Frames { us }),
        1 => (prop::sample::select(Cause::ALL.to_vec()), any::<bool>())
            .prop_map(|(cause, on)| Step::Silence { cause, on }),
        1 => Just(Step::Left),
        8 => (prop_oneof![0u64..30_000, 0u64..2_000_000], 0u64..20_000)
            .prop_map(|(us, late)| Step::Wait { us, late }),
    ]
}

fn config() -> impl Strategy<Value = LookAheadConfig> {
    let lock = prop::sample::select(vec![Lock::Printed, Lock::Beats, Lock::Learned]);
    let n = prop_oneof![Just(FramesAhead::Measured), (1u32..=40).prop_map(FramesAhead::Fixed)];
    (lock, n, 1u32..5, 0f64..=1.0, 1u32..8).prop_map(|(lock, n, k, worst, max_flows)| LookAheadConfig {
        lock,
        n,
        k,
        worst: Fraction::clamped(worst),
        max_flows,
        ..LookAheadConfig::default()
    })
}

struct World {
    look: LookAhead,
    now: Instant,
    out: Actions,
    frame: Duration,
    last: Option<Instant>,
    requests: u64,
    max_flows: u64,
}

impl World {
    fn new(config: &LookAheadConfig) -> Self {
        Self {
            look: LookAhead::new(config),
            now: Instant::from_millis(3),
            out: Actions::new(),
            frame: config.frame,
            last: None,
            requests: 0,
            max_flows: u64::from(config.max_flows),
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for action in self.out.drain() {
            let Action::RequestUplink { station, bytes } = action else {
                return Err(TestCaseError::fail(format!("{action:?} is not for look-ahead to ask")));
            };
            prop_assert_eq!(station, StationId(7));
            prop_assert!((1..=1500).contains(&bytes.0), "{bytes}");
            if let Some(last) = self.last {
                prop_assert!(self.now.since(last) >= self.frame, "two requests in a frame");
            }
            self.last = Some(self.now);
            self.requests += 1;
        }
        let metrics = self.look.metrics();
        prop_assert_eq!(metrics.uplink_requests, self.requests);
        prop_assert!(metrics.uplink_requests_wrong <= metrics.uplink_requests);
        prop_assert!(metrics.flows <= self.max_flows);
        prop_assert!(!self.look.is_holding());
        Ok(())
    }

    fn packet(
        &mut self,
        flow: u16,
        direction: Direction,
        tcp: &TcpSegment,
        len: u32,
    ) -> Result<(), TestCaseError> {
        let key = FlowKey {
            correspondent: Endpoint { addr: IpAddr::from([192, 0, 2, 1]), port: 443 },
            station: Endpoint { addr: IpAddr::from([10, 0, 0, 2]), port: flow },
        };
        let view = PacketView {
            id: PacketId(1),
            direction,
            origin: Origin::Arrival,
            station: StationId(7),
            flow: &key,
            tcp,
            len,
            ecn: Ecn::NotEct,
        };
        let verdict = self.look.on_packet(self.now, &view, &mut self.out);
        prop_assert_eq!(verdict, Verdict::Forward(Rewrite::NONE));
        self.check()
    }

    fn link(&mut self, kind: LinkEventKind) -> Result<(), TestCaseError> {
        self.look.on_link(self.now, LinkEvent::at(self.now, kind), &mut self.out);
        self.check()
    }

    fn wait(&mut self, us: u64, late: u64) -> Result<(), TestCaseError> {
        let until = self.now + Duration::from_micros(us);
        for _ in 0..2_000 {
            let Some(due) = self.look.next_timeout().filter(|due| *due <= until) else { break };
            self.now = self.now.max(due + Duration::from_micros(late));
            self.look.on_timeout(self.now, &mut self.out);
            prop_assert!(
                self.look.next_timeout().is_none_or(|next| next > self.now),
                "a timeout in the past"
            );
            self.check()?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let station = StationId(7);
        match *step {
            Step::Packet { flow, down, tcp, len } => {
                let direction = if down { Direction::Downlink } else { Direction::Uplink };
                self.packet(flow, direction, &tcp, len)
            }
            Step::Answered { flow, after } => {
                let data = TcpSegment { payload_len: 1448, flags: TcpFlags::ACK, ..TcpSegment::default() };
                self.packet(flow, Direction::Downlink, &data, 1500)?;
                self.wait(after, 0)?;
                self.packet(flow, Direction::Uplink, &TcpSegment { payload_len: 0, ..data }, 52)
            }
            Step::Grant { turn, bytes } => {
                let from_now = Duration::from_micros(turn.unsigned_abs());
                let at = if turn < 0 { self.now - from_now } else { self.now + from_now };
                self.link(LinkEventKind::Grant { station, at, bytes: Bytes(bytes) })
            }
            Step::Unused { bytes } => self.link(LinkEventKind::GrantUnused { station, bytes: Bytes(bytes) }),
            Step::Frames { us } => {
                let period = Duration::from_micros(us);
                // What was asked in a longer frame may be followed by a request in the next, shorter one.
                (self.frame, self.last) = (if us == 0 { self.frame } else { period }, None);
                self.link(LinkEventKind::GrantFrames { period })
            }
            Step::Silence { cause, on } => {
                let scope = Scope::Network;
                self.link(if on {
                    LinkEventKind::FreezeStarted { scope, cause, expected: None }
                } else {
                    LinkEventKind::FreezeEnded { scope, cause }
                })
            }
            Step::Left => self.link(LinkEventKind::StationLeft { station }),
            Step::Wait { us, late } => self.wait(us, late),
        }
    }
}

proptest! {
    /// Packets pass as they are, requests are few and small, counters and tables keep their bounds, and
    /// timers advance, whatever happens.
    #[test]
    fn it_only_watches_and_asks_within_bounds(config in config(), steps in prop::collection::vec(step(), 1..300)) {
        let mut world = World::new(&config);
        for step in &steps {
            world.run(step)?;
        }
        // It asks for nothing for ever on behalf of packets that do not come, where waste is bounded.
        if config.worst.get() < 0.9 {
            world.wait(60_000_000, 0)?;
            let asked = world.requests;
            world.wait(20_000_000, 0)?;
            prop_assert_eq!(world.requests, asked, "after a minute without a packet");
        }
    }

    /// After `flush` it knows nothing: no timer, no connection, and no request before an ACK has taught it.
    #[test]
    fn flush_forgets(config in config(), steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new(&config);
        for step in &steps {
            world.run(step)?;
        }
        world.look.flush(world.now, &mut world.out);
        world.check()?;
        prop_assert_eq!(world.look.next_timeout(), None);
        prop_assert_eq!(world.look.metrics().flows, 0);
        let asked = world.requests;
        let data = TcpSegment { payload_len: 1448, flags: TcpFlags::ACK, ..TcpSegment::default() };
        for flow in 0..4 {
            world.packet(flow, Direction::Downlink, &data, 1500)?;
            world.wait(500_000, 0)?;
        }
        prop_assert_eq!(world.requests, asked);
    }
}
