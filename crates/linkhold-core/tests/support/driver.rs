//! Drives a mechanism as the contract says, and checks every answer against it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use linkhold_core::action::{AckSpec, Action, Actions, DropReason, Rewrite, Verdict};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{Direction, Ecn, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction, Seq};

use super::flow::{Flow, FlowPlan, Parts};
use super::steps::{Forgery, Number, Step, When};

/// How the world behaves around the mechanism.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// B_alloc: most bytes held.
    pub b_alloc: u64,
    /// Most bytes of copies.
    pub most_kept: u64,
    /// `max_silence`.
    pub max_silence: Duration,
    /// The driver sees its transmit queue of this many packets; else it sees none, and the queue has no
    /// limit.
    pub queue: Option<usize>,
    /// Timers run this late, µs.
    pub lag: u64,
    /// Every packet that goes down is at the station at once.
    pub no_queue: bool,
    /// What one flow may take of the space, where flows have queues of their own.
    pub shares: Option<Shares>,
}

/// What one flow may take of the hold buffer.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Most bytes of a flow.
    pub quota: u64,
    /// Half of what all may hold before space is low: a queue's share, if there is one queue only.
    pub half: u64,
    /// Least that a packet weighs.
    pub least: u64,
    /// Windows close for space alone, and no ACK of a station is kept or shaped.
    pub only_space_closes: bool,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    flow: usize,
    direction: Direction,
    tcp: TcpSegment,
    len: u32,
    /// Place in its flow's order.
    rank: u64,
    held: bool,
    /// It is no packet of the connection, though it looks like one.
    forged: bool,
    /// It was sent from a copy, or has been on its way once: its place in its flow's order was taken then.
    again: bool,
    /// It came back from the transmit queue.
    came_back: bool,
}

impl Packet {
    fn new(flow: usize, direction: Direction, tcp: TcpSegment, len: u32, rank: u64) -> Self {
        let (held, forged, again, came_back) = (false, false, false, false);
        Self { flow, direction, tcp, len, rank, held, forged, again, came_back }
    }

    /// Its bytes, where they count.
    fn parts(&self) -> Parts {
        let len = u64::from(self.len);
        match self.tcp.flags.contains(TcpFlags::SYN) && self.tcp.payload_len == 0 {
            true if self.came_back => Parts::default(),
            true => Parts { syns: len, ..Parts::default() },
            false => Parts { rest: len, ..Parts::default() },
        }
    }
}

pub struct Driver<'m, M: Mechanism> {
    pub mechanism: &'m mut M,
    world: World,
    pub now: Instant,
    out: Actions,
    pub flows: Vec<Flow>,
    packets: BTreeMap<PacketId, Packet>,
    /// Packets that were sent, of which a copy is kept.
    kept: BTreeMap<PacketId, Packet>,
    /// Numbers of packets that were sent from a copy.
    copies: u64,
    counters: Vec<u64>,
    /// What a third party sends around the handshakes, and which way all of it goes.
    forgeries: Vec<Forgery>,
    forges_down: bool,
    /// Numbers of packets that it sent.
    forged: u64,
    /// Rank of the last packet of each flow that left, by direction.
    left: Vec<[Option<u64>; 2]>,
    queue: VecDeque<PacketId>,
    room_told: Instant,
    /// Active freezes and when they are given up; unknown once one was announced ahead.
    freezes: BTreeMap<(u32, Cause), Instant>,
    exact: bool,
    held_bytes: u64,
    held: [u64; 2],
    /// Bytes held of the flows that their station has not answered, by station: SYNs that arrived, and the
    /// rest without SYNs that came back from the transmit queue.
    unanswered: BTreeMap<u32, Parts>,
    /// The most that a flow's quota has been.
    most_quota: u64,
    kept_bytes: u64,
    /// What each flow met, in order.
    pub journal: Vec<Vec<String>>,
    pub writes_journal: bool,
}

fn slot(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => 0,
        Direction::Uplink => 1,
    }
}

impl<'m, M: Mechanism> Driver<'m, M> {
    pub fn new(mechanism: &'m mut M, world: World, plans: &[FlowPlan]) -> Self {
        let flows: Vec<_> = plans.iter().enumerate().map(|(index, plan)| Flow::new(index, *plan)).collect();
        let mut driver = Self {
            mechanism,
            world,
            now: Instant::from_millis(1),
            out: Actions::new(),
            counters: vec![0; flows.len()],
            forgeries: Vec::new(),
            forges_down: false,
            forged: 0,
            left: vec![[None; 2]; flows.len()],
            journal: vec![Vec::new(); flows.len()],
            writes_journal: false,
            flows,
            packets: BTreeMap::new(),
            kept: BTreeMap::new(),
            copies: 0,
            queue: VecDeque::new(),
            room_told: Instant::ZERO,
            freezes: BTreeMap::new(),
            exact: world.lag == 0,
            held_bytes: 0,
            held: [0; 2],
            unanswered: BTreeMap::new(),
            most_quota: 0,
            kept_bytes: 0,
        };
        driver.tell_room();
        driver
    }

    /// The same beside a third party who forges one direction of the connections: who forges both is
    /// believed.
    pub fn beside(mut self, forgeries: &[Forgery], down: bool) -> Self {
        self.forgeries = forgeries.to_vec();
        self.forges_down = down;
        self
    }

    /// Runs the steps of the flows that `wanted` names.
    pub fn run(&mut self, steps: &[Step], wanted: impl Fn(&Flow) -> bool) {
        self.run_checked(steps, wanted, |_| ());
    }

    /// As [`run`](Self::run), with a look after each step.
    pub fn run_checked(&mut self, steps: &[Step], wanted: impl Fn(&Flow) -> bool, check: impl Fn(&Self)) {
        self.shake_hands(&wanted);
        for step in steps {
            let concerned = match step {
                Step::Send { flow, .. }
                | Step::Retransmit { flow, .. }
                | Step::Probe { flow }
                | Step::End { flow, .. }
                | Step::Acknowledge { flow, .. }
                | Step::Forge { flow, .. }
                | Step::Flood { flow, .. }
                | Step::Resend { flow, .. }
                | Step::Leave { flow, .. }
                | Step::Answer { flow }
                | Step::Garbage { flow, .. } => wanted(&self.flows[*flow]),
                _ => true,
            };
            if concerned {
                self.step(step);
                check(self);
            }
        }
    }

    /// Opens the connections whose handshake is to be seen; a correspondent's answer takes its time.
    fn shake_hands(&mut self, wanted: impl Fn(&Flow) -> bool) {
        let seen = |flow: &Flow| flow.plan.handshake && wanted(flow);
        let wire = self.flows.iter().map(|flow| flow.plan.wire).max().unwrap_or_default();
        self.forge_around_handshakes(When::BeforeTheSyn);
        for index in 0..self.flows.len() {
            if seen(&self.flows[index]) {
                let (station, correspondent) = self.flow(index).handshake();
                if self.flows[index].plan.pushed {
                    self.packet(index, Direction::Downlink, correspondent, 60);
                } else {
                    self.packet(index, Direction::Uplink, station, 60);
                }
            }
        }
        self.forge_around_handshakes(When::BetweenTheSyns);
        for index in 0..self.flows.len() {
            if seen(&self.flows[index]) && self.flows[index].plan.pushed {
                let (station, _) = self.flow(index).handshake();
                self.packet(index, Direction::Uplink, station, 60);
            }
        }
        self.advance(wire);
        for index in 0..self.flows.len() {
            if seen(&self.flows[index]) && !self.flows[index].plan.pushed {
                let (_, correspondent) = self.flow(index).handshake();
                self.packet(index, Direction::Downlink, correspondent, 60);
            }
        }
        // A connection goes on once its station has its SYN, and so what was queued before it.
        if !self.forgeries.is_empty() {
            self.air(u32::MAX);
        }
        self.forge_around_handshakes(When::BehindTheAnswer);
    }

    fn forge_around_handshakes(&mut self, when: When) {
        let now = self.forgeries.iter().filter(|forgery| forgery.when == when);
        for forgery in now.copied().collect::<Vec<_>>() {
            let flow = &self.flows[forgery.flow];
            // Of a flow that was evicted, what is forged may be all that is known.
            if !flow.plan.handshake || self.mechanism.metrics().flow_evictions > 0 {
                continue;
            }
            // Who sends this way, and what it has heard of.
            let (own, other) = (flow.snd_nxt, flow.up_nxt);
            let (own, other) = if self.forges_down { (own, other) } else { (other, own) };
            let number = |number, near: Seq| match number {
                Number::Any(number) => Seq(number),
                Number::Near(by) => Seq(near.0.wrapping_add_signed(by)),
            };
            let (seq, ack) = (number(forgery.seq, own), number(forgery.ack, other));
            // What hits by chance is as good as real.
            let hits = |number: Seq, near: Seq| number.minus(near).unsigned_abs() < 2;
            if !hits(seq, own) && !hits(ack, other) {
                self.slip_in(forgery.flow, self.forges_down, TcpSegment { seq, ack, ..forgery.tcp });
            }
        }
    }

    /// A segment of a third party comes among the flow's own.
    fn slip_in(&mut self, flow: usize, downlink: bool, tcp: TcpSegment) {
        self.forged += 1;
        let id = PacketId(1 << 62 | self.forged);
        // Behind the last of the flow's own, and before the next.
        let rank = self.counters[flow] + 1;
        let direction = if downlink { Direction::Downlink } else { Direction::Uplink };
        let len = 60 + tcp.payload_len;
        let packet = Packet { forged: true, ..Packet::new(flow, direction, tcp, len, rank) };
        self.packets.insert(id, packet);
        self.hand_in(id, Origin::Arrival);
    }

    /// A flow as it is now.
    fn flow(&mut self, index: usize) -> &mut Flow {
        self.flows[index].at(self.now)
    }

    pub fn step(&mut self, step: &Step) {
        let us = Duration::from_micros;
        match *step {
            Step::Advance(time) => self.advance(us(time)),
            Step::Send { flow, segments } => {
                for _ in 0..segments {
                    let Some(tcp) = self.flow(flow).next_data() else { break };
                    self.packet(flow, Direction::Downlink, tcp, tcp.payload_len + 52);
                }
            }
            Step::Retransmit { flow, nth } => {
                if let Some(tcp) = self.flow(flow).retransmit(nth) {
                    self.packet(flow, Direction::Downlink, tcp, tcp.payload_len + 52);
                }
            }
            Step::Probe { flow } => {
                if let Some(tcp) = self.flow(flow).probe() {
                    self.packet(flow, Direction::Downlink, tcp, 52);
                }
            }
            Step::End { flow, reset } => {
                if let Some(tcp) = self.flow(flow).end(reset) {
                    self.packet(flow, Direction::Downlink, tcp, 52);
                }
            }
            Step::Acknowledge { flow, grow, payload, hole, copies } => {
                for _ in 0..if self.flows[flow].gone { 0 } else { copies } {
                    let tcp = self.flow(flow).acknowledge(grow, payload, hole);
                    self.packet(flow, Direction::Uplink, tcp, payload + 52);
                }
            }
            Step::Answer { flow } => {
                if !self.flows[flow].over {
                    let tcp = self.flow(flow).answer();
                    self.packet(flow, Direction::Downlink, tcp, 52);
                }
            }
            Step::Forge { flow, downlink, answer, seq, ack, scale } => {
                self.forge(flow, downlink, answer, seq, ack, scale)
            }
            Step::Flood { flow, segments, payload, gap, new_ports } => {
                for _ in 0..segments {
                    self.flood(flow, payload, new_ports);
                    self.advance(us(gap));
                }
            }
            Step::Resend { flow, nth } => {
                if !self.flows[flow].gone
                    && let Some(tcp) = self.flow(flow).resend(nth)
                {
                    self.packet(flow, Direction::Uplink, tcp, tcp.payload_len + 52);
                }
            }
            Step::Leave { flow, told } => self.leaves(flow, told),
            Step::Garbage { flow, downlink, tcp, len } => {
                self.flows[flow].spoilt = true;
                let direction = if downlink { Direction::Downlink } else { Direction::Uplink };
                self.packet(flow, direction, tcp, len);
            }
            Step::Air(frames) => self.air(frames),
            Step::Lose(frames) => self.lose(frames),
            Step::TellRoom => self.tell_room(),
            Step::FreezeStart { scope, cause, expected, late } => {
                // The downlink's pause in a TDD frame holds nobody: what comes in it waits in the radio's
                // queue.
                let short = expected.is_some_and(|length| length <= 20_000);
                let pause = cause == Cause::Grant && number(scope) == 0 && short;
                if !pause {
                    self.freezes.insert((number(scope), cause), self.now + self.world.max_silence);
                }
                let at = self.now - us(late);
                self.link(at, LinkEventKind::FreezeStarted { scope, cause, expected: expected.map(us) });
            }
            Step::FreezeEnd { scope, cause, late } => {
                self.freezes.remove(&(number(scope), cause));
                let at = self.now - us(late);
                self.link(at, LinkEventKind::FreezeEnded { scope, cause });
                self.tell_room();
            }
            Step::Announce { scope, cause, ahead, length, told_end } => {
                self.exact = false;
                let at = self.now + us(ahead);
                let expected = Some(us(length));
                self.link(at, LinkEventKind::FreezeStarted { scope, cause, expected });
                if told_end {
                    self.link(at + us(length), LinkEventKind::FreezeEnded { scope, cause });
                }
            }
            Step::Schedule { scope, period, duration } => {
                let next = self.now + us(period / 3);
                let (period, duration) = (us(period), us(duration));
                self.link(self.now, LinkEventKind::SensingSchedule { scope, period, duration, next });
            }
            Step::Switch { mbps, efficiency } => {
                let efficiency = Fraction::clamped(efficiency);
                let capacity = BitRate::from_mbps(mbps);
                self.link(self.now, LinkEventKind::ChannelSwitched { capacity, efficiency });
            }
        }
    }

    /// True if nothing may be sent to the station. One that waits for its own grant can be sent to.
    fn is_silent(&self, station: StationId) -> bool {
        self.freezes.iter().any(|((scope, cause), until)| {
            let stops = *scope == 0 || (*scope == station.0 + 1 && *cause != Cause::Grant);
            self.now < *until && stops
        })
    }

    fn link(&mut self, at: Instant, kind: LinkEventKind) {
        let event = LinkEvent { detected_at: self.now, effective_at: Some(at), kind };
        self.mechanism.on_link(self.now, event, &mut self.out);
        self.drain();
    }

    pub fn tell_room(&mut self) {
        self.room_told = self.now;
        let packets = match self.world.queue {
            _ if self.world.no_queue => u32::MAX,
            Some(limit) => (limit - self.queue.len()) as u32,
            None => return,
        };
        self.link(self.now, LinkEventKind::TransmitRoom { packets, bytes: Bytes(u64::MAX) });
    }

    /// Lets time pass; timers run when due, or `lag` later.
    pub fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        let mut calls = 0;
        while let Some(due) = self.mechanism.next_timeout() {
            let at = due.max(self.now) + Duration::from_micros(self.world.lag);
            if at > until {
                break;
            }
            calls = if at > self.now { 0 } else { calls + 1 };
            assert!(calls < 10_000, "the timer is due for ever at {}", self.now);
            self.now = at;
            self.keep_telling_room();
            self.mechanism.on_timeout(self.now, &mut self.out);
            self.drain();
        }
        self.now = until;
        self.keep_telling_room();
    }

    /// A driver that sees its queue says so at least once a second (the contract of `TransmitRoom`), though
    /// nothing leaves the queue, as behind a frame for a silent station.
    fn keep_telling_room(&mut self) {
        if self.now.since(self.room_told) >= Duration::from_millis(900) {
            self.tell_room();
        }
    }

    fn packet(&mut self, flow: usize, direction: Direction, tcp: TcpSegment, len: u32) {
        // Odd ranks are those of forged segments.
        self.counters[flow] += 2;
        let rank = self.counters[flow];
        let id = PacketId(((flow as u64) << 32) | rank);
        let packet = Packet::new(flow, direction, tcp, len, rank);
        self.packets.insert(id, packet);
        if direction == Direction::Downlink && tcp.flags.contains(TcpFlags::ACK) {
            self.flows[flow].down_offers.push((tcp.ack, tcp.window));
        }
        if direction == Direction::Uplink
            && tcp.flags.contains(TcpFlags::ACK)
            && !tcp.flags.contains(TcpFlags::RST)
        {
            let flow = &mut self.flows[flow];
            if !flow.answered && !tcp.flags.contains(TcpFlags::SYN) {
                flow.answered = true;
                *self.unanswered.entry(flow.plan.station).or_default() -= flow.held_parts;
            }
            flow.offers.push((tcp.ack, tcp.window));
            if tcp.flags.contains(TcpFlags::SYN) {
                // The same in the field of an ACK: a SYN's window is not scaled (RFC 7323 section 2.2).
                flow.offers.push((tcp.ack, tcp.window >> flow.shift()));
            }
        }
        self.hand_in(id, Origin::Arrival);
    }

    /// A flow whose handshake passed and that is still known gets a SYN or SYN-ACK from nowhere.
    fn forge(&mut self, flow: usize, downlink: bool, answer: bool, seq: u32, ack: u32, scale: Option<u8>) {
        let known = &self.flows[flow];
        if !known.plan.handshake || known.over || known.spoilt || self.mechanism.metrics().flow_evictions > 0
        {
            return;
        }
        let mut tcp = TcpSegment {
            seq: Seq(seq),
            ack: Seq(ack),
            window: 60_000,
            flags: if answer { TcpFlags::SYN | TcpFlags::ACK } else { TcpFlags::SYN },
            ..TcpSegment::default()
        };
        tcp.syn.window_scale = scale;
        self.slip_in(flow, downlink, tcp);
    }

    fn flood(&mut self, flow: usize, payload: u32, new_ports: bool) {
        if new_ports {
            let plan = self.flows[flow].plan;
            let stranger = Flow::stranger(self.flows.len(), plan);
            self.flows.push(stranger);
            self.counters.push(0);
            self.left.push([None; 2]);
            self.journal.push(Vec::new());
            let last = self.flows.len() - 1;
            let tcp = self.flow(last).unasked(payload);
            self.packet(last, Direction::Downlink, tcp, tcp.payload_len + 52);
        } else if !self.flows[flow].over {
            let tcp = self.flow(flow).unasked(payload);
            self.packet(flow, Direction::Downlink, tcp, tcp.payload_len + 52);
        }
    }

    /// A station leaves in the middle of it; perhaps somebody says so.
    fn leaves(&mut self, flow: usize, told: bool) {
        self.flows[flow].gone = true;
        if told {
            let station = self.flows[flow].station();
            self.freezes.retain(|(scope, _), _| *scope != station.0 + 1);
            self.link(self.now, LinkEventKind::StationLeft { station });
        }
    }

    /// The flow's station offers `offer` bytes again and again, while its correspondent sends all that it may
    /// and what is lost once more. A frame takes `frame` in the air, an ACK takes `radio` to come. Segments
    /// for stations that left go on arriving. Answers the bytes that reached the station.
    pub fn download(
        &mut self,
        flow: usize,
        offer: u32,
        frame: Duration,
        radio: Duration,
        time: Duration,
    ) -> u32 {
        let began = self.flows[flow].rcv_nxt;
        let until = self.now + time;
        let (mut acks, mut rounds) = (VecDeque::from([self.now]), 0u32);
        let mut moved = self.now;
        while self.now < until {
            let before = self.flows[flow].rcv_nxt;
            self.air(1);
            if self.flows[flow].rcv_nxt != before {
                acks.push_back(self.now + radio);
                moved = self.now;
            } else if self.now.since(moved) > Duration::from_millis(400) {
                // What was lost, or a window update that was.
                let mut retried = before;
                moved = self.now;
                acks.push_back(self.now + radio);
                for _ in 0..20 {
                    if !self.flows[flow].snd_nxt.after(retried) {
                        break;
                    }
                    let tcp = self.flow(flow).again(retried);
                    retried = tcp.seq_end();
                    self.packet(flow, Direction::Downlink, tcp, tcp.payload_len + 52);
                }
            }
            while acks.front().is_some_and(|at| *at <= self.now) {
                acks.pop_front();
                self.step(&Step::Acknowledge { flow, grow: offer, payload: 0, hole: false, copies: 1 });
            }
            self.step(&Step::Send { flow, segments: 40 });
            rounds += 1;
            if rounds.is_multiple_of(30) {
                for ghost in (0..self.flows.len()).filter(|&index| self.flows[index].gone).collect::<Vec<_>>()
                {
                    self.step(&Step::Retransmit { flow: ghost, nth: rounds });
                }
            }
            self.advance(frame);
        }
        self.flows[flow].rcv_nxt.minus(began) as u32
    }

    /// The flow's correspondent sends what the station lacks once more, up to `payload` bytes in a segment.
    pub fn go_back(&mut self, flow: usize, payload: u32) {
        let mut seq = self.flows[flow].rcv_nxt;
        while self.flows[flow].snd_nxt.after(seq) {
            let tcp = self.flow(flow).again_of(seq, payload);
            seq = tcp.seq_end();
            self.packet(flow, Direction::Downlink, tcp, tcp.payload_len + 52);
        }
    }

    /// The flow's correspondent sends nothing new, and the station has what was sent; it goes on saying so.
    pub fn idle(&mut self, flow: usize, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let rcv_nxt = self.flows[flow].rcv_nxt;
            if self.flows[flow].snd_nxt.after(rcv_nxt) {
                let tcp = self.flow(flow).again(rcv_nxt);
                self.packet(flow, Direction::Downlink, tcp, tcp.payload_len + 52);
            }
            self.air(u32::MAX);
            self.step(&Step::Acknowledge { flow, grow: 0, payload: 0, hole: false, copies: 1 });
            self.advance(Duration::from_millis(10));
        }
    }

    fn hand_in(&mut self, id: PacketId, origin: Origin) {
        let packet = self.packets[&id];
        let flow = &self.flows[packet.flow];
        let ecn = if flow.plan.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let key = flow.key;
        let view = PacketView {
            id,
            direction: packet.direction,
            origin,
            station: flow.station(),
            flow: &key,
            tcp: &packet.tcp,
            len: packet.len,
            ecn,
        };
        let before = self.held_by(packet.flow);
        let mut held_more = false;
        let verdict = self.mechanism.on_packet(self.now, &view, &mut self.out);
        self.note_of(packet, || format!("{id:?} {origin:?}: {verdict:?}"));
        // The actions were decided before the verdict is carried out, but a copy that takes an older one's
        // place takes its rank first.
        for action in self.out.as_slice() {
            if let Action::Discard { packet: older, reason: DropReason::Superseded } = action {
                let older = self.packets[older];
                assert_eq!(older.flow, packet.flow, "superseded by another flow's packet");
                assert_eq!(older.tcp.seq, packet.tcp.seq, "superseded by another segment");
                let newer = self.packets.get_mut(&id).expect("just handed in");
                newer.rank = older.rank;
                // What takes the place of a copy that came back is sent out of order like that copy.
                newer.again |= older.again;
            }
        }
        match verdict {
            Verdict::Forward(rewrite) => {
                if origin == Origin::TransmitQueue {
                    self.queue.push_front(id);
                    assert!(!self.exact || !self.is_silent(self.flows[packet.flow].station()));
                } else {
                    self.leave(id, rewrite, false);
                }
            }
            Verdict::Hold => {
                self.hold(id);
                if origin == Origin::Arrival && packet.direction == Direction::Downlink {
                    held_more = true;
                }
            }
            Verdict::ForwardAndKeep(rewrite) => {
                assert_eq!(origin, Origin::Arrival, "what comes back from the queue is not kept");
                let sent = self.keep(id, rewrite);
                self.leave(sent, rewrite, false);
            }
            Verdict::Drop(_) => {
                self.packets.remove(&id);
            }
        }
        self.drain();
        if held_more {
            self.check_quota(packet.flow, before);
        }
    }

    /// The driver keeps a packet as it goes on; what goes is another one. Answers its number.
    fn keep(&mut self, id: PacketId, rewrite: Rewrite) -> PacketId {
        let mut packet = self.packets.remove(&id).expect("it was handed in");
        packet.tcp.window = rewrite.window.unwrap_or(packet.tcp.window);
        assert_eq!(packet.direction, Direction::Downlink, "a copy of an ACK");
        self.kept.insert(id, packet);
        self.kept_bytes += u64::from(packet.len);
        self.twin(packet)
    }

    fn twin(&mut self, packet: Packet) -> PacketId {
        self.copies += 1;
        let id = PacketId(1 << 63 | self.copies);
        self.packets.insert(id, packet);
        id
    }

    /// A copy goes once more: what went before it in its flow has gone before.
    fn send_copy(&mut self, id: PacketId) {
        let packet = *self.kept.get(&id).expect("a copy is sent that is not kept");
        let earlier = |other: &Packet| {
            other.flow == packet.flow
                && other.direction == Direction::Downlink
                && other.held
                && !other.again
                && !other.forged
                && other.rank < packet.rank
        };
        assert!(!self.packets.values().any(earlier), "a copy goes before what has not been sent");
        assert!(!packet.forged, "a copy of what was forged");
        self.note(packet.flow, || format!("{id:?}: copy"));
        let sent = self.twin(Packet { again: true, ..packet });
        self.leave(sent, Rewrite::NONE, true);
    }

    /// The air loses the next frames.
    fn lose(&mut self, frames: u32) {
        for _ in 0..frames {
            if let Some(id) = self.queue.pop_front() {
                self.packets.remove(&id);
            }
        }
    }

    /// Bytes held of a flow, and of all flows of its station that the station has not answered.
    fn held_by(&self, index: usize) -> (u64, Parts) {
        let flow = &self.flows[index];
        (flow.held, self.unanswered.get(&flow.plan.station).copied().unwrap_or_default())
    }

    /// What of a quota or threshold there is at present: B_alloc follows the silences seen.
    fn allotted(&self, of_whole: u64) -> u64 {
        let limit = u128::from(self.mechanism.metrics().held_bytes_limit);
        (u128::from(of_whole) * limit / u128::from(self.world.b_alloc)) as u64
    }

    /// An arrival of the flow was held: the flow keeps to its quota, and all flows of a station that it has
    /// not answered keep to an eighth of one, with a quarter of that beside it for SYNs. What came back from
    /// the transmit queue may exceed it, but then nothing is added.
    fn check_quota(&mut self, index: usize, before: (u64, Parts)) {
        let Some(shares) = self.world.shares else { return };
        let (own, common) = self.held_by(index);
        let quota = self.allotted(shares.quota);
        self.most_quota = self.most_quota.max(quota);
        assert!(own <= quota.max(before.0), "flow {index} holds {own} bytes");
        if !self.flows[index].answered {
            assert!(common.rest <= (quota / 8).max(before.1.rest), "unanswered flows hold {common:?}");
            // SYNs that find no room in their own part are among the rest. The quota may have been greater.
            let most = self.most_quota / 8 + self.most_quota / 32;
            assert!(common.syns <= most, "unanswered flows hold {common:?}");
        }
    }

    /// A window that was open is closed for space: then the flow holds a queue's share of it, or half its
    /// quota.
    fn check_closing(&self, index: usize) {
        let Some(shares) = self.world.shares.filter(|shares| shares.only_space_closes) else { return };
        // Stations share the space, and a station's flows what it has.
        let own = self.flows[index].station();
        let holding: Vec<_> =
            self.flows.iter().filter(|flow| flow.held > 0).map(|flow| flow.station()).collect();
        let stations = holding.iter().collect::<BTreeSet<_>>().len().max(1) as u64;
        let flows = holding.iter().filter(|&&station| station == own).count().max(1) as u64;
        let least = self.allotted((shares.half / (stations * flows)).min(shares.quota / 2));
        let weight = self.flows[index].held_weight;
        // The part is rounded down in several places.
        assert!(
            weight + 2 >= least,
            "flow {index} is closed though it holds {weight} bytes only, of {least}"
        );
    }

    fn hold(&mut self, id: PacketId) {
        let packet = self.packets.get_mut(&id).expect("handed in");
        packet.held = true;
        self.held_bytes += u64::from(packet.len);
        self.held[slot(packet.direction)] += 1;
        if packet.direction == Direction::Downlink {
            let least = self.world.shares.map_or(0, |shares| shares.least);
            let flow = &mut self.flows[packet.flow];
            flow.held += u64::from(packet.len);
            flow.held_parts += packet.parts();
            if !flow.answered {
                *self.unanswered.entry(flow.plan.station).or_default() += packet.parts();
            }
            flow.held_weight += u64::from(packet.len).max(least);
        }
    }

    /// A held packet is named by an action.
    fn let_go(&mut self, id: PacketId) -> Packet {
        let packet = self.packets.get_mut(&id).expect("an action names a packet that is not there");
        assert!(packet.held, "{id:?} is named by an action but not held");
        packet.held = false;
        self.held_bytes -= u64::from(packet.len);
        self.held[slot(packet.direction)] -= 1;
        if packet.direction == Direction::Downlink {
            let least = self.world.shares.map_or(0, |shares| shares.least);
            let flow = &mut self.flows[packet.flow];
            flow.held -= u64::from(packet.len);
            flow.held_parts -= packet.parts();
            if !flow.answered {
                *self.unanswered.entry(flow.plan.station).or_default() -= packet.parts();
            }
            flow.held_weight -= u64::from(packet.len).max(least);
        }
        *packet
    }

    fn leave(&mut self, id: PacketId, rewrite: Rewrite, released: bool) {
        let packet = self.packets[&id];
        let flow = &mut self.flows[packet.flow];
        match packet.direction {
            Direction::Downlink => {
                assert!(!rewrite.set_ece && !rewrite.mark_ce, "a downlink header changed: {rewrite:?}");
                let flags = packet.tcp.flags;
                let tells = flags.contains(TcpFlags::ACK) && !flags.intersects(TcpFlags::SYN | TcpFlags::RST);
                if let Some(window) = rewrite.window {
                    assert!(tells && !packet.tcp.signed, "a downlink window changed: {:?}", packet.tcp);
                    assert!(window <= packet.tcp.window, "a downlink window grew to {window}");
                }
                if tells && !packet.forged {
                    let window = rewrite.window.unwrap_or(packet.tcp.window);
                    flow.on_down_told(packet.tcp.ack, window, rewrite.window.is_some());
                }
                let silent = self.exact && self.is_silent(self.flows[packet.flow].station());
                assert!(!silent, "{id:?} was sent into a silence");
                if self.world.no_queue {
                    self.arrive(id);
                    return;
                }
                if let Some(limit) = self.world.queue
                    && self.queue.len() >= limit
                {
                    assert!(!released, "a release overflows the transmit queue");
                    self.packets.remove(&id);
                    return;
                }
                self.queue.push_back(id);
            }
            Direction::Uplink if packet.forged => {
                assert!(rewrite.is_none(), "a forged packet is changed: {rewrite:?}");
                self.in_order(packet);
                self.packets.remove(&id);
            }
            Direction::Uplink => {
                assert!(!packet.tcp.signed || rewrite.is_none(), "a signed header changed: {rewrite:?}");
                if let Some(window) = rewrite.window {
                    assert!(
                        window <= packet.tcp.window,
                        "a window grew from {} to {window}",
                        packet.tcp.window
                    );
                }
                assert!(!rewrite.set_ece || flow.spoilt || flow.plan.ecn, "ECE without ECN");
                assert!(!rewrite.mark_ce || flow.plan.ecn, "CE without ECN");
                flow.on_passed(self.now, packet.tcp.seq_end(), packet.tcp.timestamp);
                let window = rewrite.window.unwrap_or(packet.tcp.window);
                if packet.tcp.flags.contains(TcpFlags::ACK) {
                    let is_syn = packet.tcp.flags.contains(TcpFlags::SYN);
                    self.tell(packet.flow, packet.tcp.seq, packet.tcp.ack, window, is_syn);
                }
                self.in_order(packet);
                self.packets.remove(&id);
            }
        }
    }

    /// The correspondent hears of a window.
    fn tell(&mut self, index: usize, seq: Seq, ack: Seq, window: u16, is_syn: bool) {
        let flow = &mut self.flows[index];
        flow.on_told(seq, ack, window, is_syn);
        let shift = if is_syn { 0 } else { flow.shift() };
        let edge = ack + (u32::from(window) << shift);
        if window > 0 && !flow.spoilt && flow.plan.handshake {
            if let Some(told) = flow.told_edge {
                // Less than one unit of the scaled window is rounding.
                let back = told.minus(edge);
                assert!(back < 1 << flow.shift(), "a right edge receded by {back} bytes");
            }
            flow.told_edge = Some(flow.told_edge.map_or(edge, |told| told.max(edge)));
        }
    }

    fn in_order(&mut self, packet: Packet) {
        let last = &mut self.left[packet.flow][slot(packet.direction)];
        // Several forged segments between two real ones have one rank.
        let follows = *last < Some(packet.rank) || packet.forged && *last == Some(packet.rank);
        assert!(follows, "{:?} order of flow {} broken", packet.direction, packet.flow);
        *last = Some(packet.rank);
    }

    fn air(&mut self, frames: u32) {
        for _ in 0..frames {
            let up = |id: &PacketId| !self.is_silent(self.flows[self.packets[id].flow].station());
            if !self.queue.front().is_some_and(up) {
                break;
            }
            if let Some(id) = self.queue.pop_front() {
                self.arrive(id);
            }
        }
        if self.mechanism.is_holding() {
            self.tell_room();
        }
    }

    fn arrive(&mut self, id: PacketId) {
        let packet = self.packets.remove(&id).expect("it was in the queue");
        if !packet.again {
            self.in_order(packet);
        }
        if !packet.forged {
            self.flows[packet.flow].on_delivered(&packet.tcp);
        }
    }

    fn drain(&mut self) {
        let actions: Vec<_> = self.out.drain().collect();
        let mut reclaims = Vec::new();
        for action in actions {
            match action {
                Action::Release { packet: id, rewrite } => {
                    let packet = self.let_go(id);
                    self.note_of(packet, || format!("{id:?}: released {rewrite:?}"));
                    self.leave(id, rewrite, true);
                }
                Action::ReleaseAndKeep { packet: id, rewrite } => {
                    let packet = self.let_go(id);
                    self.note_of(packet, || format!("{id:?}: released and kept {rewrite:?}"));
                    let sent = self.keep(id, rewrite);
                    self.leave(sent, rewrite, true);
                }
                Action::SendCopy { packet: id } => self.send_copy(id),
                Action::Forget { packet: id } => {
                    let packet = self.kept.remove(&id).expect("what is forgotten is kept");
                    self.kept_bytes -= u64::from(packet.len);
                }
                Action::Discard { packet: id, reason } => {
                    let packet = self.let_go(id);
                    self.note_of(packet, || format!("{id:?}: discarded {reason:?}"));
                    self.packets.remove(&id);
                }
                Action::InjectAck(spec) => self.injected(&spec),
                Action::Reclaim { scope } => reclaims.push(scope),
                Action::Report(_) => panic!("dsasync reports nothing"),
                Action::Sender { .. } | Action::RequestUplink { .. } => panic!("a base station is no sender"),
            }
        }
        self.check_gauges();
        for scope in reclaims {
            // A driver that does not see its queue ignores it.
            if self.world.queue.is_some() {
                self.reclaim(scope);
            }
        }
    }

    fn reclaim(&mut self, scope: Scope) {
        let (taken, kept) = core::mem::take(&mut self.queue)
            .into_iter()
            .partition::<VecDeque<_>, _>(|id| scope.covers(self.flows[self.packets[id].flow].station()));
        self.queue = kept;
        for id in taken.into_iter().rev() {
            self.packets.get_mut(&id).expect("it was in the queue").came_back = true;
            self.hand_in(id, Origin::TransmitQueue);
        }
    }

    /// The station is told that it may send further.
    fn injected_downlink(&mut self, index: usize, spec: &AckSpec) {
        let flow = &mut self.flows[index];
        let offers = &flow.down_offers;
        assert!(offers.iter().any(|(ack, _)| *ack == spec.ack), "an ACK the correspondent did not send");
        assert!(offers.iter().any(|(_, window)| spec.window <= *window), "a window never offered");
        assert!(!spec.ece, "ECE that nobody asked for");
        if !flow.spoilt {
            // A FIN takes a sequence number (RFC 9293 section 3.4).
            let come_to = flow.snd_nxt + u32::from(flow.over);
            assert!(!spec.seq.after(come_to), "a sequence number that the correspondent has not come to");
            assert_eq!(spec.timestamp.is_some(), flow.plan.timestamps);
            flow.on_down_told(spec.ack, spec.window, true);
        }
    }

    fn injected(&mut self, spec: &AckSpec) {
        let index = self.flows.iter().position(|flow| flow.key == spec.flow).expect("of a flow we know");
        self.note(index, || format!("{spec:?}"));
        let flow = &self.flows[index];
        assert!(!flow.plan.signed || flow.spoilt, "an ACK made up on a signed connection");
        if spec.direction == Direction::Downlink {
            self.injected_downlink(index, spec);
            return;
        }
        assert!(flow.offers.iter().any(|(ack, _)| *ack == spec.ack), "an ACK the station did not send");
        let most = flow.offers.iter().map(|(_, window)| *window).max();
        assert!(Some(spec.window) <= most, "a window the station never offered");
        if !flow.spoilt {
            let (ack, window) = *flow.offers.last().expect("there is one");
            let edge = ack.minus(spec.ack) + (i32::from(window) << flow.shift());
            let told = i32::from(spec.window) << flow.shift();
            assert!(told <= edge, "{told} bytes told, {edge} offered");
            assert!(!spec.ack.after(flow.told.ack), "an ACK overtakes one that is held");
            // RFC 9293 section 3.10.7.4: an ACK whose sequence number is not the next expected one is not
            // heard.
            if spec.seq != flow.ch_rcv {
                // Of a flow that was evicted, what came again may be all that is known.
                assert!(self.mechanism.metrics().flow_evictions > 0, "an ACK that the correspondent ignores");
                return;
            }
            assert_eq!(spec.timestamp.is_some(), flow.plan.timestamps);
            assert!(!spec.ece || flow.plan.ecn);
        }
        if spec.window == 0 && flow.told.window > 0 && !flow.spoilt {
            self.check_closing(index);
        }
        self.flows[index].on_passed(self.now, spec.seq, spec.timestamp);
        self.tell(index, spec.seq, spec.ack, spec.window, false);
    }

    fn check_gauges(&self) {
        let metrics = self.mechanism.metrics();
        assert!(self.held_bytes <= self.world.b_alloc, "{} bytes held", self.held_bytes);
        assert!(
            self.held_bytes <= metrics.held_bytes_limit && metrics.held_bytes_limit <= self.world.b_alloc,
            "{} bytes held, {} allotted",
            self.held_bytes,
            metrics.held_bytes_limit
        );
        assert_eq!(metrics.held_bytes, self.held_bytes);
        assert_eq!(metrics.kept_bytes, self.kept_bytes);
        assert!(metrics.kept_bytes <= self.world.most_kept, "{} bytes of copies", metrics.kept_bytes);
        assert_eq!(metrics.held_packets, self.held[0] + self.held[1]);
        // Copies may wait for room as well.
        let (held, holds) = (self.held[slot(Direction::Downlink)] > 0, self.mechanism.is_holding());
        assert!(if holds { held || metrics.kept_bytes > 0 } else { !held }, "{holds}: {metrics:?}");
    }

    /// Ends every freeze and gives the mechanism time to drain.
    pub fn quieten(&mut self) {
        // A rate at which everything drains in the time given.
        self.step(&Step::Switch { mbps: 1_000, efficiency: 1.0 });
        for scope in [Scope::Network, station(0), station(1), station(2)] {
            for cause in Cause::ALL {
                // The one that lasts, and four that may be announced.
                for _ in 0..5 {
                    self.step(&Step::FreezeEnd { scope, cause, late: 0 });
                }
            }
        }
        // The smallest transmit queue takes one packet a round.
        for _ in 0..1_000 + self.held_packets() {
            self.air(u32::MAX);
            self.tell_room();
            self.advance(Duration::from_millis(20));
            if self.held == [0; 2] && self.mechanism.next_timeout().is_none() {
                break;
            }
        }
        self.air(u32::MAX);
    }

    /// Every window that a station offers is open to its sender.
    pub fn assert_windows_open(&self) {
        assert_eq!(self.mechanism.metrics().windows_closed_now, 0);
        for (index, flow) in self.flows.iter().enumerate() {
            if flow.spoilt || flow.over {
                continue;
            }
            let offered = flow.offers.last().is_some_and(|(_, window)| *window > 0);
            assert!(!offered || flow.told.window > 0, "the window of flow {index} stays closed");
        }
    }

    pub fn held_packets(&self) -> u64 {
        self.held[0] + self.held[1]
    }

    pub fn flush(&mut self) {
        // A flush releases whatever the radio's state, and the queue takes what it can.
        self.exact = false;
        self.world.queue = None;
        self.mechanism.flush(self.now, &mut self.out);
        self.drain();
        assert_eq!(self.held_packets(), 0, "flush leaves packets behind");
        assert!(self.kept.is_empty(), "flush leaves copies behind");
        assert_eq!(self.mechanism.metrics().windows_closed_now, 0);
    }

    /// Notes what a packet of the flow's own meets.
    fn note_of(&mut self, packet: Packet, text: impl FnOnce() -> String) {
        if !packet.forged {
            self.note(packet.flow, text);
        }
    }

    fn note(&mut self, flow: usize, text: impl FnOnce() -> String) {
        if !self.writes_journal {
            return;
        }
        let entry = format!("{} {}", self.now, text());
        self.journal[flow].push(entry);
    }
}

fn station(id: u32) -> Scope {
    Scope::Station(StationId(id))
}

fn number(scope: Scope) -> u32 {
    match scope {
        Scope::Network => 0,
        Scope::Station(id) => id.0 + 1,
    }
}
