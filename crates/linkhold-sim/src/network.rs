//! The cell of one run: wired pipes, mechanism, router queue and air, and the packets inside them.
//!
//! ```text
//! correspondent ─ wired pipe ─► mechanism ─► router queue ─► air ─► station
//! correspondent ◄─ wired pipe ─ mechanism ◄──────── air ◄─ station queue ─ station
//! ```
//! [`Network`] is the driver of a [`Mechanism`] (its duties stand in `linkhold_core::mechanism`): it builds the
//! packet views, applies verdicts, drains every action after every call, hands reclaimed frames back last first,
//! and tells the room in the transmit queue. It knows no TCP endpoint and no clock, so the simulator's endpoints
//! and the testbed's ports use the same one.

use std::collections::{HashMap, VecDeque};

use linkhold_core::action::{AckSpec, Action, Actions, DropReason, Rewrite, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind, Scope};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{
    Direction, Ecn, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment,
};
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;
use linkhold_radio::{Air, AirDrop, AirEvent, AirOutput, Frame, Silence, WiredPipe};

use crate::contract::ContractCheck;
use crate::queue::{EventQueue, Wakeup};
use crate::silence::SilenceTracker;
use crate::slab::{FlowIndex, Packet, PacketSlab};

/// One in this many places of the router queue is not told as room. Releases stop short of the queue's limit, so that
/// packets forwarded in the moments after the last release find a place and are not dropped.
const RESERVED_SHARE: u32 = 8;

/// What can wake the engine. Eight bytes, so the heap stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The air has something to do.
    Air,
    /// A packet arrives at the base station from the wire.
    WiredDown,
    /// A packet arrives at the correspondent from the wire.
    WiredUp,
    /// The mechanism's timeout.
    Mechanism,
    /// Something of the edge's own; the number is the edge's.
    Edge(u32),
}

/// What the cell knows of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowInfo {
    /// Addresses and ports.
    pub key: FlowKey,
    /// The station at its radio end.
    pub station: StationId,
    /// Bytes of IP header: 20 or 40.
    pub ip_header: u32,
    /// What `fq_codel` sorts it by.
    flow_hash: u32,
    /// Packets of the flow inside the cell.
    in_flight: u32,
}

impl FlowInfo {
    /// A flow with no packet yet.
    #[must_use]
    pub fn new(key: FlowKey, station: StationId) -> Self {
        let ip_header = if key.station.addr.is_ipv6() { 40 } else { 20 };
        Self { key, station, ip_header, flow_hash: hash_of(&key), in_flight: 0 }
    }

    /// Packets of the flow inside the cell; a flow's number may be given to another flow only at 0.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }
}

/// FNV-1a over addresses and ports, finished by a multiplicative mix: the same on every machine.
fn hash_of(key: &FlowKey) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut byte = |b: u8| hash = (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    for end in [key.correspondent, key.station] {
        match end.addr {
            std::net::IpAddr::V4(v4) => v4.octets().into_iter().for_each(&mut byte),
            std::net::IpAddr::V6(v6) => v6.octets().into_iter().for_each(&mut byte),
        }
        end.port.to_be_bytes().into_iter().for_each(&mut byte);
    }
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Packets that got lost inside the cell, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// On the wire's DropTail queues.
    pub wired: u64,
    /// In the router's or a station's queue: full, in a silence, or by CoDel.
    pub queue: u64,
    /// On the air.
    pub air: u64,
    /// By the mechanism, with a reason of its own.
    pub mechanism: u64,
}

/// The cell. See the module's documentation.
#[derive(Debug)]
pub struct Network {
    /// Events to come.
    pub(crate) queue: EventQueue<Event>,
    /// Packets inside.
    slab: PacketSlab,
    flows: Vec<FlowInfo>,
    by_key: HashMap<FlowKey, FlowIndex>,
    air: Air,
    wired_down: WiredPipe,
    wired_up: WiredPipe,
    mechanism: MechanismSlot,
    /// Packets that have reached an end and wait for the engine to hand them over.
    arrived: VecDeque<PacketId>,
    air_output: AirOutput,
    actions: Actions,
    reclaim: VecDeque<Scope>,
    frames: Vec<Frame>,
    forwarded: Vec<PacketId>,
    silences: SilenceTracker,
    /// The mechanism is told the room in the router queue, and its reclaims are served.
    queue_visible: bool,
    /// Room never told: see [`RESERVED_SHARE`].
    reserve: (u32, Bytes),
    /// The room last told to the mechanism.
    room_told: (u32, Bytes),
    wake_air: Wakeup,
    wake_wired_down: Wakeup,
    wake_wired_up: Wakeup,
    wake_mechanism: Wakeup,
    losses: Losses,
    check: ContractCheck,
}

/// A mechanism; its own type so that `Network` can be printed.
struct MechanismSlot(Box<dyn Mechanism>);

impl std::fmt::Debug for MechanismSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Network {
    /// An empty cell.
    #[must_use]
    pub fn new(
        air: Air,
        stations: u32,
        wired_down: WiredPipe,
        wired_up: WiredPipe,
        mechanism: Box<dyn Mechanism>,
    ) -> Self {
        let mut network = Self {
            queue: EventQueue::new(),
            slab: PacketSlab::new(),
            flows: Vec::new(),
            by_key: HashMap::new(),
            reserve: {
                let (packets, bytes) = air.room();
                let unlimited = bytes.0 == u64::MAX;
                let reserved_bytes = if unlimited { 0 } else { bytes.0 / u64::from(RESERVED_SHARE) };
                (packets / RESERVED_SHARE, Bytes(reserved_bytes))
            },
            room_told: (0, Bytes::ZERO),
            queue_visible: true,
            air,
            wired_down,
            wired_up,
            mechanism: MechanismSlot(mechanism),
            arrived: VecDeque::with_capacity(64),
            air_output: AirOutput::new(),
            actions: Actions::new(),
            reclaim: VecDeque::new(),
            frames: Vec::new(),
            forwarded: Vec::new(),
            silences: SilenceTracker::new(stations),
            wake_air: Wakeup::default(),
            wake_wired_down: Wakeup::default(),
            wake_wired_up: Wakeup::default(),
            wake_mechanism: Wakeup::default(),
            losses: Losses::default(),
            check: ContractCheck::default(),
        };
        network.rearm();
        network
    }

    /// The mechanism neither hears of room in the router queue nor gets packets back from it, as before most drivers.
    #[must_use]
    pub fn with_hidden_queue(mut self) -> Self {
        self.queue_visible = false;
        self
    }

    /// Registers a flow; its number counts up from 0.
    pub fn add_flow(&mut self, key: FlowKey, station: StationId) -> FlowIndex {
        let index = FlowIndex(self.flows.len() as u32);
        self.flows.push(FlowInfo::new(key, station));
        self.by_key.insert(key, index);
        self.check.reset(index);
        index
    }

    /// Gives the number of a flow with no packet left inside to a new flow.
    ///
    /// # Panics
    /// If a packet of the old flow is still inside.
    pub fn replace_flow(&mut self, index: FlowIndex, key: FlowKey, station: StationId) {
        let flow = &mut self.flows[index.get()];
        assert_eq!(flow.in_flight, 0, "a flow's number is reused only when none of its packets is inside");
        self.by_key.remove(&flow.key);
        *flow = FlowInfo::new(key, station);
        self.by_key.insert(key, index);
        self.check.reset(index);
    }

    /// A flow.
    #[must_use]
    pub fn flow(&self, index: FlowIndex) -> &FlowInfo {
        &self.flows[index.get()]
    }

    /// Sends a segment from the correspondent (`Downlink`) or the station (`Uplink`) of a flow.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        flow: FlowIndex,
        direction: Direction,
        segment: TcpSegment,
        ecn: Ecn,
        retransmit: bool,
    ) {
        let (id, len) = self.admit(now, flow, direction, segment, ecn, retransmit);
        match direction {
            Direction::Downlink => {
                if self.wired_down.enqueue(now, id, len).is_err() {
                    self.losses.wired += 1;
                    self.forget(id);
                }
            }
            Direction::Uplink => self.transmit(now, id),
        }
    }

    fn admit(
        &mut self,
        now: Instant,
        flow: FlowIndex,
        direction: Direction,
        segment: TcpSegment,
        ecn: Ecn,
        retransmit: bool,
    ) -> (PacketId, u32) {
        let info = &mut self.flows[flow.get()];
        info.in_flight += 1;
        let packet = Packet::new(now, flow, info, direction, segment, ecn, retransmit);
        let len = packet.len;
        (self.slab.insert(packet), len)
    }

    /// Takes a packet out of the cell.
    #[inline]
    fn forget(&mut self, id: PacketId) -> Packet {
        let packet = self.slab.remove(id);
        self.flows[packet.flow.get()].in_flight -= 1;
        packet
    }

    /// The next packet that has reached its end.
    #[inline]
    pub fn pop_arrived(&mut self) -> Option<Packet> {
        let id = self.arrived.pop_front()?;
        Some(self.forget(id))
    }

    /// Handles what is due at `at` for the event armed for `armed`; false if an earlier one has overtaken it.
    pub(crate) fn on_event(&mut self, armed: Instant, at: Instant, event: Event) -> bool {
        match event {
            // The engine has settled the air before every event.
            Event::Air => return self.wake_air.fire(armed),
            Event::WiredDown => {
                if !self.wake_wired_down.fire(armed) {
                    return false;
                }
                while let Some(id) = self.wired_down.pop(at) {
                    self.base_station(at, id, Origin::Arrival);
                    self.serve_reclaims(at);
                }
            }
            Event::WiredUp => {
                if !self.wake_wired_up.fire(armed) {
                    return false;
                }
                while let Some(id) = self.wired_up.pop(at) {
                    self.arrived.push_back(id);
                }
            }
            Event::Mechanism => {
                if !self.wake_mechanism.fire(armed) {
                    return false;
                }
                if self.mechanism.0.next_timeout().is_some_and(|due| due <= at) {
                    self.mechanism.0.on_timeout(at, &mut self.actions);
                    self.run_actions(at);
                    self.serve_reclaims(at);
                }
            }
            Event::Edge(_) => {}
        }
        true
    }

    /// Lets every component that wants an earlier call have it. After every event.
    #[inline]
    pub(crate) fn rearm(&mut self) {
        self.wake_air.arm(&mut self.queue, self.air.next_event(), Event::Air);
        self.wake_wired_down.arm(&mut self.queue, self.wired_down.next_arrival(), Event::WiredDown);
        self.wake_wired_up.arm(&mut self.queue, self.wired_up.next_arrival(), Event::WiredUp);
        self.wake_mechanism.arm(&mut self.queue, self.mechanism.0.next_timeout(), Event::Mechanism);
    }

    /// Lets the air handle everything due by `now`: its contract before any other call at that time.
    #[inline]
    pub(crate) fn settle_air(&mut self, now: Instant) {
        while self.air.next_event().is_some_and(|due| due <= now) {
            self.air.on_event(now, &mut self.air_output);
            self.run_air_output(now);
        }
    }

    fn run_air_output(&mut self, now: Instant) {
        if self.air_output.is_empty() {
            return;
        }
        self.silences.update(&mut self.air);
        // Taken out so that what follows may use the air; `enqueue` writes to the empty list put in its place.
        let mut output = std::mem::take(&mut self.air_output);
        let mut freeze_ended = false;
        for event in output.drain() {
            match event {
                AirEvent::Delivered { frame, ce } => self.delivered(now, frame, ce),
                AirEvent::Dropped { frame, reason } => self.air_dropped(frame, reason),
                AirEvent::Link(link) => {
                    freeze_ended |= matches!(link.kind, LinkEventKind::FreezeEnded { .. });
                    self.tell(now, link);
                }
            }
        }
        debug_assert!(self.air_output.is_empty(), "what an enqueue put out has been handled");
        self.air_output = output;
        if self.queue_visible && (freeze_ended || self.mechanism.0.is_holding()) {
            self.tell_room(now, freeze_ended);
        }
    }

    #[inline]
    fn delivered(&mut self, now: Instant, frame: Frame, ce: bool) {
        if ce {
            self.slab.get_mut(frame.packet).ecn = Ecn::Ce;
        }
        match frame.direction {
            Direction::Downlink => self.arrived.push_back(frame.packet),
            Direction::Uplink => {
                self.base_station(now, frame.packet, Origin::Arrival);
                self.serve_reclaims(now);
            }
        }
    }

    fn air_dropped(&mut self, frame: Frame, reason: AirDrop) {
        match reason {
            AirDrop::QueueFull | AirDrop::Silence | AirDrop::Codel => self.losses.queue += 1,
            AirDrop::RetryLimit => self.losses.air += 1,
        }
        self.forget(frame.packet);
    }

    fn tell(&mut self, now: Instant, event: LinkEvent) {
        self.mechanism.0.on_link(now, event, &mut self.actions);
        self.run_actions(now);
        self.serve_reclaims(now);
    }

    /// The room in the router queue that releases may fill: what is free, less a reserve.
    fn room(&self) -> (u32, Bytes) {
        let (packets, bytes) = self.air.room();
        (packets.saturating_sub(self.reserve.0), bytes.saturating_sub(self.reserve.1))
    }

    /// Tells the mechanism the room in the router queue if it has changed (or in any case if `always`).
    fn tell_room(&mut self, now: Instant, always: bool) {
        let (packets, bytes) = self.room();
        if !always && (packets, bytes) == self.room_told {
            return;
        }
        self.tell(now, LinkEvent::at(now, LinkEventKind::TransmitRoom { packets, bytes }));
        self.room_told = self.room();
    }

    /// A packet at the base station: from the wire, from the air, or back from the transmit queue.
    #[inline]
    fn base_station(&mut self, now: Instant, id: PacketId, origin: Origin) {
        let packet = self.slab.get(id);
        self.check.seen(packet);
        let view = PacketView {
            id,
            direction: packet.direction,
            origin,
            station: packet.station,
            flow: &self.flows[packet.flow.get()].key,
            tcp: &packet.segment,
            len: packet.len,
            ecn: packet.ecn,
        };
        let verdict = self.mechanism.0.on_packet(now, &view, &mut self.actions);
        // The verdict comes before the actions: an action may name the packet just held.
        match verdict {
            Verdict::Forward(rewrite) => match origin {
                Origin::Arrival => self.onward(now, id, rewrite),
                Origin::TransmitQueue => {
                    self.rewrite(id, rewrite);
                    self.forwarded.push(id);
                }
            },
            Verdict::Hold => self.slab.get_mut(id).held = true,
            Verdict::Drop(reason) => self.mechanism_drop(id, reason),
        }
        self.run_actions(now);
    }

    fn mechanism_drop(&mut self, id: PacketId, _reason: DropReason) {
        self.losses.mechanism += 1;
        self.forget(id);
    }

    /// Drains the mechanism's actions in order.
    #[inline]
    fn run_actions(&mut self, now: Instant) {
        if self.actions.is_empty() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain() {
            match action {
                Action::Release { packet, rewrite } => {
                    self.let_go(packet);
                    self.onward(now, packet, rewrite);
                }
                Action::Discard { packet, reason } => {
                    self.let_go(packet);
                    self.mechanism_drop(packet, reason);
                }
                Action::InjectAck(spec) => self.inject(now, &spec),
                Action::Reclaim { scope } => {
                    if self.queue_visible {
                        self.reclaim.push_back(scope);
                    }
                }
                // Endpoints of this cell are not on the base station; nobody here takes commands.
                Action::Sender { .. } => {}
            }
        }
        self.actions = actions;
    }

    fn let_go(&mut self, id: PacketId) {
        let packet = self.slab.get_mut(id);
        debug_assert!(packet.held, "a mechanism named a packet that it does not hold");
        packet.held = false;
    }

    /// Takes back what the mechanism asked for and hands it over, last first.
    #[inline]
    fn serve_reclaims(&mut self, now: Instant) {
        while let Some(scope) = self.reclaim.pop_front() {
            let mut frames = std::mem::take(&mut self.frames);
            self.air.reclaim(scope, &mut frames);
            for frame in frames.drain(..).rev() {
                self.base_station(now, frame.packet, Origin::TransmitQueue);
            }
            self.frames = frames;
            // What it does not want goes back in its old order.
            while let Some(id) = self.forwarded.pop() {
                self.transmit(now, id);
            }
        }
    }

    fn rewrite(&mut self, id: PacketId, rewrite: Rewrite) {
        if rewrite.is_none() {
            return;
        }
        let packet = self.slab.get_mut(id);
        if let Some(window) = rewrite.window {
            debug_assert!(window <= packet.segment.window, "a mechanism made a window larger");
            packet.segment.window = window;
        }
        if rewrite.set_ece {
            packet.segment.flags = packet.segment.flags | TcpFlags::ECE;
        }
        if rewrite.mark_ce {
            debug_assert!(packet.ecn != Ecn::NotEct, "a mechanism marked a packet that is not ECN-capable");
            packet.ecn = Ecn::Ce;
        }
    }

    /// From the base station on: downlink to the transmit queue, uplink to the wire.
    #[inline]
    fn onward(&mut self, now: Instant, id: PacketId, rewrite: Rewrite) {
        self.rewrite(id, rewrite);
        let packet = self.slab.get(id);
        match packet.direction {
            Direction::Downlink => self.transmit(now, id),
            Direction::Uplink => {
                let len = packet.len;
                if self.wired_up.enqueue(now, id, len).is_err() {
                    self.losses.wired += 1;
                    self.forget(id);
                }
            }
        }
    }

    /// Into the transmit queue at its end of the radio.
    #[inline]
    fn transmit(&mut self, now: Instant, id: PacketId) {
        let packet = self.slab.get(id);
        let frame = Frame {
            packet: id,
            station: packet.station,
            len: packet.len,
            flow_hash: self.flows[packet.flow.get()].flow_hash,
            direction: packet.direction,
            ecn_capable: matches!(packet.ecn, Ecn::Ect0 | Ecn::Ect1),
        };
        self.air.enqueue(now, frame, &mut self.air_output);
        if self.air_output.is_empty() {
            return;
        }
        let mut output = std::mem::take(&mut self.air_output);
        for event in output.drain() {
            match event {
                AirEvent::Dropped { frame, reason } => self.air_dropped(frame, reason),
                AirEvent::Delivered { .. } | AirEvent::Link(_) => {
                    unreachable!("the air delivers and reports in on_event, never in enqueue")
                }
            }
        }
        self.air_output = output;
    }

    fn inject(&mut self, now: Instant, spec: &AckSpec) {
        let Some(&flow) = self.by_key.get(&spec.flow) else {
            debug_assert!(false, "a mechanism acknowledged on an unknown flow");
            return;
        };
        self.check.injected(flow, spec);
        let mut flags = TcpFlags::ACK;
        if spec.ece {
            flags = flags | TcpFlags::ECE;
        }
        let segment = TcpSegment {
            seq: spec.seq,
            ack: spec.ack,
            window: spec.window,
            flags,
            timestamp: spec.timestamp,
            ..TcpSegment::default()
        };
        let (id, _) = self.admit(now, flow, spec.direction, segment, Ecn::NotEct, false);
        self.onward(now, id, Rewrite::NONE);
    }

    /// Ends the run for the mechanism: everything it holds goes on its way.
    pub fn flush(&mut self, now: Instant) {
        self.settle_air(now);
        self.mechanism.0.flush(now, &mut self.actions);
        self.run_actions(now);
        self.serve_reclaims(now);
        self.rearm();
    }

    /// The mechanism.
    #[must_use]
    pub fn mechanism(&self) -> &dyn Mechanism {
        self.mechanism.0.as_ref()
    }

    /// The air.
    #[must_use]
    pub const fn air(&self) -> &Air {
        &self.air
    }

    /// Silences so far.
    #[must_use]
    pub const fn silences(&self) -> &SilenceTracker {
        &self.silences
    }

    /// Takes the silences that ended since the last call, in order of their end.
    pub fn take_silences(&mut self) -> impl Iterator<Item = Silence> + '_ {
        self.silences.take()
    }

    /// Packets lost so far.
    #[must_use]
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// Places for flows ever needed at once.
    #[must_use]
    pub const fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Packets inside the cell.
    #[must_use]
    pub fn packets_inside(&self) -> usize {
        self.slab.len()
    }
}
