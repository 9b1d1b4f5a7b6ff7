//! What must hold for datagrams whatever happens: every one that is held is released or dropped with a
//! reason, each flow's leave in the order in which they came, datagrams stay within their quota, none leaves
//! that is too old, and none closes a window. Segments cross among them, and a log of it all replays.

use std::collections::{BTreeMap, BTreeSet};

use linkhold_core::action::{Action, Actions, DropReason, Verdict};
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig, Queues};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::log::{Recorder, replay};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{
    DatagramView, Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags,
    TcpSegment,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction, Seq};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    /// Datagrams go down on a flow.
    Down {
        flow: u16,
        count: u32,
        len: u32,
    },
    /// The station sends one.
    Up {
        flow: u16,
    },
    /// A segment goes down on a connection, or an ACK comes up.
    Segment {
        flow: u16,
        up: bool,
    },
    Freeze {
        station: Option<u32>,
        start: bool,
    },
    Switch {
        mbps: u64,
    },
    Room {
        packets: u32,
    },
    /// The radio sends up to so many frames of its queue.
    Air(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let flow = || 0u16..9;
    prop_oneof![
        6 => (1u64..20_000).prop_map(Step::Advance),
        1 => (20_000u64..800_000).prop_map(Step::Advance),
        8 => (flow(), 1u32..40, prop_oneof![1 => 28u32..100, 3 => 1000u32..1500, 1 => 1500u32..65_000])
            .prop_map(|(flow, count, len)| Step::Down { flow, count, len }),
        2 => flow().prop_map(|flow| Step::Up { flow }),
        5 => (flow(), any::<bool>()).prop_map(|(flow, up)| Step::Segment { flow, up }),
        4 => (prop::option::of(0u32..3), any::<bool>()).prop_map(|(station, start)| Step::Freeze { station, start }),
        1 => (0u64..60).prop_map(|mbps| Step::Switch { mbps }),
        2 => (0u32..20).prop_map(|packets| Step::Room { packets }),
        4 => (1u32..30).prop_map(Step::Air),
    ]
}

fn config() -> impl Strategy<Value = DsaSyncConfig> {
    (
        prop_oneof![Just(4_000_000u64), 20_000u64..300_000],
        prop_oneof![Just(65_536u32), 1u32..24],
        any::<[bool; 4]>(),
        prop_oneof![Just(0u64), 1u64..500],
    )
        .prop_map(|(b_alloc, max_flows, [by_flow, short, recover, few], age)| DsaSyncConfig {
            queues: if by_flow { Queues::Flow } else { Queues::Station },
            transmit_queue: Duration::from_millis(if short { 2 } else { 0 }),
            max_flows,
            recover,
            max_held_packets: if few { 30 } else { 131_072 },
            datagram_max_age: Duration::from_millis(age),
            ..DsaSyncConfig::default().with_b_alloc(Bytes(b_alloc))
        })
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    flow: u16,
    datagram: bool,
    rank: u64,
    len: u32,
    at: Instant,
}

struct Driver<'m, M: Mechanism> {
    mechanism: &'m mut M,
    config: DsaSyncConfig,
    now: Instant,
    out: Actions,
    packets: BTreeMap<PacketId, Sent>,
    held: BTreeSet<PacketId>,
    kept: BTreeSet<PacketId>,
    /// Rank of the last datagram of each flow that left.
    last: BTreeMap<u16, u64>,
    /// Datagrams in the transmit queue.
    queue: Vec<PacketId>,
    next: u64,
    flushing: bool,
}

fn key(flow: u16) -> FlowKey {
    let end = |last: u8, port| Endpoint { addr: [10, 0, 0, last].into(), port };
    FlowKey { correspondent: end(1, 443), station: end(2 + (flow % 3) as u8, 5000 + flow) }
}

impl<M: Mechanism> Driver<'_, M> {
    fn hand_in(&mut self, id: PacketId, origin: Origin) {
        let sent = self.packets[&id];
        let flow = key(sent.flow);
        let station = StationId(u32::from(sent.flow) % 3);
        let direction = Direction::Downlink;
        let verdict = if sent.datagram {
            let view =
                DatagramView { id, direction, origin, station, flow: &flow, len: sent.len, ecn: Ecn::NotEct };
            self.mechanism.on_datagram(self.now, &view, &mut self.out)
        } else {
            let tcp = TcpSegment {
                seq: Seq(sent.rank as u32),
                payload_len: sent.len - 40,
                flags: TcpFlags::ACK,
                ..TcpSegment::default()
            };
            let view = PacketView {
                id,
                direction,
                origin,
                station,
                flow: &flow,
                tcp: &tcp,
                len: sent.len,
                ecn: Ecn::NotEct,
            };
            self.mechanism.on_packet(self.now, &view, &mut self.out)
        };
        match verdict {
            Verdict::Forward(rewrite) => {
                assert!(!sent.datagram || rewrite.is_none(), "a datagram was rewritten");
                self.leave(id);
            }
            Verdict::ForwardAndKeep(_) => {
                assert!(!sent.datagram, "a copy of a datagram is kept");
                self.kept.insert(id);
            }
            Verdict::Hold => assert!(self.held.insert(id)),
            Verdict::Drop(_) => {}
        }
        self.drain();
    }

    fn leave(&mut self, id: PacketId) {
        let sent = self.packets[&id];
        if !sent.datagram {
            return;
        }
        let last = self.last.insert(sent.flow, sent.rank);
        assert!(last.is_none_or(|last| last < sent.rank), "flow {} is out of order", sent.flow);
        self.queue.push(id);
    }

    fn drain(&mut self) {
        let mut reclaims = Vec::new();
        for action in std::mem::take(&mut self.out).drain() {
            match action {
                Action::Release { packet, .. } => {
                    assert!(self.held.remove(&packet), "{packet:?} is released and not held");
                    let sent = self.packets[&packet];
                    let age = self.config.datagram_max_age;
                    assert!(
                        !sent.datagram || self.flushing || age.is_zero() || self.now.since(sent.at) <= age,
                        "{sent:?} left at {}",
                        self.now
                    );
                    self.leave(packet);
                }
                Action::ReleaseAndKeep { packet, .. } => {
                    assert!(self.held.remove(&packet) && !self.packets[&packet].datagram);
                    self.kept.insert(packet);
                }
                Action::Discard { packet, reason } => {
                    assert!(self.held.remove(&packet), "{packet:?} is discarded and not held");
                    assert!(self.packets[&packet].datagram || reason != DropReason::TooOld);
                }
                Action::SendCopy { packet } => assert!(self.kept.contains(&packet)),
                Action::Forget { packet } => assert!(self.kept.remove(&packet)),
                Action::Reclaim { scope } => reclaims.push(scope),
                Action::InjectAck(_)
                | Action::Report(_)
                | Action::RequestUplink { .. }
                | Action::Sender { .. } => {}
            }
        }
        for scope in reclaims {
            let packets = &self.packets;
            let covered = |id: &PacketId| scope.covers(StationId(u32::from(packets[id].flow) % 3));
            let (back, stays): (Vec<PacketId>, Vec<PacketId>) =
                std::mem::take(&mut self.queue).into_iter().partition(covered);
            self.queue = stays;
            for id in back.into_iter().rev() {
                let sent = self.packets.get_mut(&id).expect("it was sent");
                // It begins to wait now, and takes its old place in its flow.
                sent.at = self.now;
                let before = sent.rank - 1;
                self.last.insert(sent.flow, before);
                self.hand_in(id, Origin::TransmitQueue);
            }
        }
        let held = |datagram: bool| {
            let of = |id: &&PacketId| !datagram || self.packets[*id].datagram;
            self.held.iter().filter(of).map(|id| u64::from(self.packets[id].len)).sum::<u64>()
        };
        assert!(held(false) <= self.config.b_alloc.0, "more is held than B_alloc");
        assert!(held(true) <= self.config.datagram_quota.0, "datagrams hold more than their quota");
        assert!(self.held.len() as u32 <= self.config.max_held_packets);
        assert_eq!(self.mechanism.metrics().held_packets, self.held.len() as u64);
    }

    fn advance(&mut self, micros: u64) {
        let until = self.now + Duration::from_micros(micros);
        let mut calls = 0;
        while let Some(at) =
            self.mechanism.next_timeout().map(|due| due.max(self.now)).filter(|&at| at <= until)
        {
            calls = if at > self.now { 0 } else { calls + 1 };
            assert!(calls < 10_000, "the timer is due for ever");
            self.now = at;
            self.mechanism.on_timeout(at, &mut self.out);
            self.drain();
        }
        self.now = until;
    }

    fn link(&mut self, kind: LinkEventKind) {
        self.mechanism.on_link(self.now, LinkEvent::at(self.now, kind), &mut self.out);
        self.drain();
    }

    fn down(&mut self, flow: u16, datagram: bool, len: u32) {
        self.next += 1;
        let id = PacketId(self.next);
        self.packets.insert(id, Sent { flow, datagram, rank: self.next, len, at: self.now });
        self.hand_in(id, Origin::Arrival);
    }

    fn step(&mut self, step: &Step) {
        let cause = Cause::PrimaryUser;
        match *step {
            Step::Advance(micros) => self.advance(micros),
            Step::Down { flow, count, len } => (0..count).for_each(|_| self.down(flow, true, len)),
            Step::Up { flow } => {
                let (flow, station) = (key(flow), StationId(u32::from(flow) % 3));
                let (id, direction, origin) = (PacketId(0), Direction::Uplink, Origin::Arrival);
                let view =
                    DatagramView { id, direction, origin, station, flow: &flow, len: 60, ecn: Ecn::NotEct };
                let verdict = self.mechanism.on_datagram(self.now, &view, &mut self.out);
                assert!(matches!(verdict, Verdict::Forward(_)), "what a station sends passes");
                self.drain();
            }
            Step::Segment { flow, up: false } => self.down(flow, false, 1040),
            Step::Segment { flow, up: true } => {
                let (flow, station) = (key(flow), StationId(u32::from(flow) % 3));
                let tcp = TcpSegment { window: 60_000, flags: TcpFlags::ACK, ..TcpSegment::default() };
                self.next += 1;
                let id = PacketId(self.next);
                let view = PacketView {
                    id,
                    direction: Direction::Uplink,
                    origin: Origin::Arrival,
                    station,
                    flow: &flow,
                    tcp: &tcp,
                    len: 40,
                    ecn: Ecn::NotEct,
                };
                self.packets.insert(id, Sent { flow: 99, datagram: false, rank: 0, len: 40, at: self.now });
                if self.mechanism.on_packet(self.now, &view, &mut self.out) == Verdict::Hold {
                    self.held.insert(id);
                }
                self.drain();
            }
            Step::Freeze { station, start } => {
                let scope = station.map_or(Scope::Network, |station| Scope::Station(StationId(station)));
                self.link(if start {
                    LinkEventKind::FreezeStarted { scope, cause, expected: None }
                } else {
                    LinkEventKind::FreezeEnded { scope, cause }
                });
            }
            Step::Switch { mbps } => self.link(LinkEventKind::ChannelSwitched {
                capacity: BitRate::from_mbps(mbps),
                efficiency: Fraction::clamped(0.9),
            }),
            Step::Room { packets } => {
                self.link(LinkEventKind::TransmitRoom { packets, bytes: Bytes(1_000_000) });
            }
            Step::Air(frames) => {
                let sent = (frames as usize).min(self.queue.len());
                self.queue.drain(..sent);
            }
        }
    }
}

fn drive(config: &DsaSyncConfig, steps: &[Step]) {
    let mut log = Vec::new();
    let agent = || DsaSync::new(config).expect("a valid configuration");
    let mut recorder = Recorder::new(agent(), config, &mut log).expect("a Vec takes all");
    let mut driver = Driver {
        mechanism: &mut recorder,
        config: *config,
        now: Instant::from_millis(1),
        out: Actions::new(),
        packets: BTreeMap::new(),
        held: BTreeSet::new(),
        kept: BTreeSet::new(),
        last: BTreeMap::new(),
        queue: Vec::new(),
        next: 0,
        flushing: false,
    };
    for step in steps {
        driver.step(step);
    }
    // The radio works again, and nothing stays.
    for station in [None, Some(0), Some(1), Some(2)] {
        driver.step(&Step::Freeze { station, start: false });
    }
    for _ in 0..4 {
        driver.step(&Step::Room { packets: 1_000_000 });
        driver.advance(30_000_000);
    }
    assert_eq!(driver.held.len(), 0, "packets stay held though the radio works");
    driver.step(&Step::Freeze { station: None, start: true });
    driver.step(&Step::Down { flow: 1, count: 3, len: 1000 });
    driver.flushing = true;
    driver.mechanism.flush(driver.now, &mut driver.out);
    driver.drain();
    assert!(driver.held.is_empty() && driver.kept.is_empty(), "a flush leaves nothing");
    recorder.finish().expect("a Vec takes all");
    let report = replay(&log[..], &mut agent()).expect("a good log");
    assert!(report.is_identical() && !report.truncated, "{:?}", report.divergence);
}

proptest! {
    #[test]
    fn every_datagram_leaves_in_order_or_is_dropped_with_a_reason(
        config in config(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        drive(&config, &steps);
    }

    /// Datagrams in any number, from any number of ports, beside connections that hold little: no window is
    /// closed.
    #[test]
    fn datagrams_close_no_window(
        config in config(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut agent = DsaSync::new(&config).expect("a valid configuration");
        let mut out = Actions::new();
        let now = Instant::from_millis(1);
        let tell = |agent: &mut DsaSync, kind| agent.on_link(now, LinkEvent::at(now, kind), &mut Actions::new());
        let cause = Cause::PrimaryUser;
        tell(&mut agent, LinkEventKind::FreezeStarted { scope: Scope::Network, cause, expected: None });
        for (id, step) in steps.iter().enumerate() {
            let (number, count, len, direction) = match *step {
                Step::Down { flow, count, len } => (flow, count, len, Direction::Downlink),
                Step::Up { flow } => (flow, 1, 60, Direction::Uplink),
                _ => continue,
            };
            let (flow, station, origin) = (key(number), StationId(u32::from(number) % 3), Origin::Arrival);
            for n in 0..u64::from(count) {
                let id = PacketId(id as u64 * 1000 + n);
                let view = DatagramView { id, direction, origin, station, flow: &flow, len, ecn: Ecn::NotEct };
                let _ = agent.on_datagram(now, &view, &mut out);
                out.clear();
            }
        }
        // One connection of each station holds one segment.
        for number in 20..23u16 {
            let flow = key(number);
            let tcp = TcpSegment { payload_len: 1000, flags: TcpFlags::ACK, ..TcpSegment::default() };
            let ack = TcpSegment { window: 60_000, flags: TcpFlags::ACK, ..TcpSegment::default() };
            for (direction, tcp) in [(Direction::Uplink, &ack), (Direction::Downlink, &tcp)] {
                let id = PacketId(1_000_000 + u64::from(number) * 2 + u64::from(direction == Direction::Uplink));
                let (origin, station) = (Origin::Arrival, StationId(u32::from(number) % 3));
                let view =
                    PacketView { id, direction, origin, station, flow: &flow, tcp, len: 1040, ecn: Ecn::NotEct };
                let _ = agent.on_packet(now, &view, &mut out);
                out.clear();
            }
        }
        prop_assert_eq!(agent.metrics().windows_closed, 0);
    }
}
