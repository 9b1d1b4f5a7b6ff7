//! The network of one run: links, paths over them, and the mechanisms that tap them.
//!
//! ```text
//! correspondent ─ wire ─► [tap] base station ─ air ─► [tap] station ─► its host
//! correspondent ◄─ wire ─ base station [tap] ◄─ air ─ station [tap] ◄─ its host
//! ```
//! [`Network`] is the driver of every [`Mechanism`](linkhold_core::mechanism::Mechanism) in it (a driver's
//! duties stand in `linkhold_core::mechanism`): it builds the packet views, applies verdicts, drains every
//! action after every call, hands over frames taken back from the transmit queue (the last one first), and
//! tells how much room that queue has. It knows no TCP endpoint and no clock, so the simulator's endpoints
//! and the testbed's ports use the same network.
//!
//! A node without a mechanism has no tap: a plain router costs nothing but its links.

use std::collections::VecDeque;

use linkhold_core::action::{AckSpec, Action, Actions, DropReason, Report, SenderCommand, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind, Scope};
use linkhold_core::packet::{
    DatagramView, Direction, Ecn, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment,
};
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;
use linkhold_mesh::RouteNews;
use linkhold_mesh::map::Map;
use linkhold_mesh::routing::Message;
use linkhold_radio::{AirEvent, DcfFrame, DcfKind, Frame, MacFrame, RadioId, Silence, Transmission};

use crate::carrier::Carrier;
use crate::flow::{FlowIndex, FlowInfo};
use crate::link::{AirLink, Armed, Link};
use crate::path::{Hop, HopIndex, LinkId, Next, NodeId, Route, RouteId, TapId};
use crate::queue::{EventQueue, Wakeup};
use crate::slab::{Packet, PacketKind, Sending, SendingDatagram};
use crate::tap::Tap;
use crate::touched::Component;

pub use crate::carrier::Losses;

/// What can wake the engine. Eight bytes, so the heap stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link has something to do.
    Link(LinkId),
    /// A mechanism's timeout, or a signal of its radio that reaches it.
    Tap(TapId),
    /// An event of the hosts; the number is their own token.
    Host(u32),
}

/// A transmission on the air that has ended.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When it ended.
    pub at: Instant,
    /// The transmission.
    pub transmission: Transmission,
    /// The packet that it carried. `None` for a MAC's own frames and the messages of a mesh's routers, and
    /// for a repetition of a frame that had arrived, whose packet may have left the network.
    pub packet: Option<Packet>,
    /// The message of a mesh's router that it carried.
    pub message: Option<Message>,
}

/// A command of a mechanism to the TCP sender at its own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCommand {
    /// The connection.
    pub flow: FlowIndex,
    /// Which way the sender's data goes.
    pub direction: Direction,
    /// What the sender is to do.
    pub command: SenderCommand,
}

/// The network. See the module's documentation.
#[derive(Debug, Default)]
pub struct Network {
    /// Events to come.
    pub(crate) queue: EventQueue<Event>,
    carrier: Carrier,
    /// The links that are airs.
    airs: Vec<LinkId>,
    /// When the first of the airs has something to do.
    next_air: Instant,
    taps: Vec<Tap>,
    /// The routes: those of a cell by station, those of a mesh by pair of nodes.
    routes: Vec<Route>,
    /// Of the hash by which queues sort flows.
    hash_seed: u64,
    /// Scratch for frames that a mechanism did not want back.
    forwarded: Vec<PacketId>,
    commands: VecDeque<HostCommand>,
    /// The radios' events for the hosts, if they asked for them.
    reports: Option<VecDeque<LinkEvent>>,
    /// What was sent on the airs, if the hosts asked for it.
    transmissions: VecDeque<Sent>,
}

impl Network {
    /// A network without links.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The seed of the hash by which queues sort the flows that are added from now on.
    pub(crate) fn seed_hash(mut self, seed: u64) -> Self {
        self.hash_seed = seed;
        self
    }

    // ---- building ----

    /// Adds a link; numbers count up from 0.
    pub fn add_link(&mut self, link: impl Into<Link>) -> LinkId {
        let id = LinkId(self.carrier.links.len() as u32);
        let link = link.into();
        if matches!(link, Link::Air(_)) {
            self.airs.push(id);
        }
        let wake = Wakeup::new(self.queue.slot(Event::Link(id)));
        self.carrier.links.push(Armed { link, wake });
        self.carrier.touched.link(id);
        self.rearm();
        id
    }

    /// Adds a mechanism; numbers count up from 0. Paths added afterwards may lead through it.
    ///
    /// # Panics
    /// If the tap's radio is no air of this network.
    pub fn add_tap(&mut self, mut tap: Tap) -> TapId {
        let id = TapId(self.taps.len() as u32);
        tap.wake = Wakeup::new(self.queue.slot(Event::Tap(id)));
        let air = self.carrier.air_mut(tap.radio);
        air.listeners.push(id);
        if tap.sees_queue() {
            debug_assert!(air.queue_seen_by.is_none(), "a queue is shown to one tap, the one next to it");
            air.queue_seen_by = Some(id);
        }
        self.taps.push(tap);
        self.carrier.touched.tap(id);
        self.rearm();
        id
    }

    /// Adds a path and returns its first hop.
    ///
    /// # Panics
    /// If its last hop does not lead out of the network, or another hop does.
    pub fn add_path(&mut self, path: &[Hop]) -> HopIndex {
        let Carrier { hops, links, .. } = &mut self.carrier;
        hops.add(path, |link| matches!(links[link.get()].link, Link::Air(_)))
    }

    /// Adds a route; numbers count up from 0, as a cell's stations do.
    pub fn add_route(&mut self, route: Route) -> RouteId {
        self.routes.push(route);
        RouteId(self.routes.len() as u32 - 1)
    }

    /// Registers a flow between the correspondent and a station of a cell; its number counts up from 0.
    ///
    /// # Panics
    /// If the station has no route.
    pub fn add_flow(&mut self, key: FlowKey, station: StationId) -> FlowIndex {
        self.add_flow_over(key, RouteId::of(station), station)
    }

    /// As [`add_flow`](Self::add_flow), over a route that is not the station's own.
    ///
    /// # Panics
    /// If there is no such route.
    pub fn add_flow_over(&mut self, key: FlowKey, route: RouteId, station: StationId) -> FlowIndex {
        let index = FlowIndex(self.carrier.flows.len() as u32);
        self.carrier.flows.push(FlowInfo::new(key, station, route, self.routes[route.get()], self.hash_seed));
        self.begin(index, key);
        index
    }

    /// Gives the number of a flow with no packet left inside to a new flow.
    ///
    /// # Panics
    /// If a packet of the old flow is still inside, or there is no such route.
    pub fn replace_flow(&mut self, index: FlowIndex, key: FlowKey, route: RouteId, station: StationId) {
        let info = FlowInfo::new(key, station, route, self.routes[route.get()], self.hash_seed);
        let flow = &mut self.carrier.flows[index.get()];
        assert_eq!(flow.in_flight, 0, "a flow's number is reused only when none of its packets is inside");
        let old = std::mem::replace(flow, info);
        self.carrier.by_key.remove(&old.key);
        self.begin(index, key);
    }

    fn begin(&mut self, index: FlowIndex, key: FlowKey) {
        self.carrier.by_key.insert(key, index);
        for tap in &mut self.taps {
            tap.check.reset(index);
        }
    }

    /// Keeps the radios' events for the hosts: see [`pop_report`](Self::pop_report).
    pub fn report_links(&mut self) {
        self.reports.get_or_insert_default();
    }

    /// Keeps what is sent on the airs for the hosts ([`pop_transmission`](Self::pop_transmission)), as far as
    /// their medium access can tell it.
    pub fn tell_transmissions(&mut self) {
        for index in 0..self.airs.len() {
            self.carrier.air_mut(self.airs[index]).air.tell_transmissions();
        }
    }

    // ---- packets ----

    /// Sends a segment from the correspondent (`Downlink`) or the station (`Uplink`) of a flow.
    #[inline]
    pub fn send(&mut self, now: Instant, sending: &Sending) -> PacketId {
        let at = self.carrier.flows[sending.flow.get()].entry(sending.direction);
        self.send_from(now, at, sending)
    }

    /// Sends a segment of a flow from the hop `at`, which may be any hop of any path.
    #[inline]
    pub fn send_from(&mut self, now: Instant, at: HopIndex, sending: &Sending) -> PacketId {
        let id = self.carrier.admit(now, at, sending);
        self.advance(now, id);
        id
    }

    /// Sends a datagram from the correspondent (`Downlink`) or the station (`Uplink`) of a flow.
    pub fn send_datagram(&mut self, now: Instant, sending: &SendingDatagram) -> PacketId {
        let at = self.carrier.flows[sending.flow.get()].entry(sending.direction);
        self.send_datagram_from(now, at, sending)
    }

    /// Sends a datagram of a flow from the hop `at`, which may be any hop of any path.
    pub fn send_datagram_from(&mut self, now: Instant, at: HopIndex, sending: &SendingDatagram) -> PacketId {
        let id = self.carrier.admit_datagram(now, at, sending);
        self.advance(now, id);
        id
    }

    /// The next packet that has reached its end, with the token it had.
    #[inline]
    pub fn pop_arrived(&mut self) -> Option<(PacketId, Packet)> {
        let id = self.carrier.arrived.pop_front()?;
        Some((id, self.carrier.forget(id)))
    }

    /// True if there may be something for the hosts beside packets that have arrived.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.commands.is_empty() || !self.transmissions.is_empty() || self.reports.is_some()
    }

    /// The next command of a mechanism to a sender at its node.
    #[inline]
    pub fn pop_command(&mut self) -> Option<HostCommand> {
        self.commands.pop_front()
    }

    /// The next event of a radio, if the hosts asked for them.
    #[inline]
    pub fn pop_report(&mut self) -> Option<LinkEvent> {
        self.reports.as_mut()?.pop_front()
    }

    /// The next news of a route in a mesh, if the hosts asked for reports.
    #[inline]
    pub fn pop_route_news(&mut self) -> Option<RouteNews> {
        self.reports.as_ref()?;
        let air = self.airs.first().map(|&link| self.carrier.air_mut(link))?;
        air.air.take_route_news()
    }

    /// The next transmission on an air, if the hosts asked for them.
    #[inline]
    pub fn pop_transmission(&mut self) -> Option<Sent> {
        self.transmissions.pop_front()
    }

    fn transmitted(&mut self, now: Instant, link: LinkId, transmission: Transmission) {
        let slab = &self.carrier.slab;
        let inside = transmission.packet.filter(|&id| slab.contains(id));
        let packet = inside.map(|id| *slab.get(id));
        let message = match (transmission.mac, transmission.packet) {
            (MacFrame::Dcf(DcfFrame { kind: DcfKind::Data, .. }), None) => {
                self.carrier.air_mut(link).air.take_told()
            }
            (MacFrame::Dcf(_) | MacFrame::Ieee802154 { .. }, _) => None,
        };
        self.transmissions.push_back(Sent { at: now, transmission, packet, message });
    }

    /// Lets a packet that has come to its hop go on from there: through the hop's tap, then onward.
    #[inline]
    fn advance(&mut self, now: Instant, id: PacketId) {
        let packet = self.carrier.slab.get(id);
        let hop = self.carrier.hops.get(packet.hop);
        match packet.kind {
            PacketKind::Segment | PacketKind::Datagram => {}
            PacketKind::Report => return self.reported(now, id, hop.tap, hop.next),
        }
        match hop.tap {
            None => self.onward(now, id, hop.next),
            Some(tap) => self.tapped(now, id, tap),
        }
    }

    #[inline(never)]
    fn tapped(&mut self, now: Instant, id: PacketId, tap: TapId) {
        self.tap_packet(now, tap, id, Origin::Arrival);
        self.serve_reclaims(now, tap);
        // A mechanism that began to hold may believe the queue full, though it has emptied meanwhile. No
        // frame would end then, so nothing else would tell the mechanism of room.
        self.tell_room(now, tap, false);
    }

    /// Lets a packet go on behind the tap of its hop.
    #[inline]
    fn onward(&mut self, now: Instant, id: PacketId, next: Next) {
        match next {
            Next::Wire(link) => self.carrier.send_wire(now, id, link),
            Next::Air { link, from, to } => self.carrier.send_air(now, id, link, from, to),
            Next::Out => self.carrier.arrived.push_back(id),
            Next::Here => self.next_here(now, id),
        }
    }

    /// Lets a packet go on to the next hop at the same node. A function of its own, because hardly any path
    /// has such a hop.
    #[inline(never)]
    fn next_here(&mut self, now: Instant, id: PacketId) {
        self.step(id);
        self.advance(now, id);
    }

    /// Moves a packet to the next hop of its path.
    #[inline]
    fn step(&mut self, id: PacketId) {
        let packet = self.carrier.slab.get_mut(id);
        packet.hop = packet.hop.next();
    }

    // ---- events ----

    /// Lets every air handle what is due by `now`, as `Air`'s contract asks before any other call at that
    /// time. The engine calls this before every event.
    #[inline(always)]
    pub(crate) fn settle_airs(&mut self, now: Instant) {
        if self.next_air <= now {
            self.run_airs(now);
        }
    }

    #[inline(never)]
    fn run_airs(&mut self, now: Instant) {
        for index in 0..self.airs.len() {
            self.air_event(now, self.airs[index]);
        }
        // Each air that had something to do is touched now, so `rearm` brings `next_air` up to date.
    }

    /// When the first of several airs has something to do.
    #[cold]
    fn first_of_airs(&self) -> Instant {
        let due = |&link: &LinkId| self.carrier.links[link.get()].link.next_event();
        self.airs.iter().filter_map(due).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Handles at `now` an event that was armed for the time `armed`. False if the event is stale, because an
    /// earlier wake-up of the same component has overtaken it.
    #[inline(always)]
    pub(crate) fn on_event(&mut self, armed: Instant, now: Instant, event: Event) -> bool {
        match event {
            Event::Link(link) => {
                if !self.carrier.links[link.get()].wake.fire(armed) {
                    return false;
                }
                self.carrier.touched.link(link);
                // An air has nothing left to do here: `settle_airs` ran before this event.
                self.wire_event(now, link);
            }
            Event::Tap(tap) => {
                if !self.taps[tap.get()].wake.fire(armed) {
                    return false;
                }
                self.carrier.touched.tap(tap);
                self.tap_event(now, tap);
            }
            Event::Host(_) => {}
        }
        true
    }

    #[inline]
    fn wire_event(&mut self, at: Instant, link: LinkId) {
        while let Link::Wire(pipe) = &mut self.carrier.links[link.get()].link
            && let Some(id) = pipe.pop(at)
        {
            self.step(id);
            self.advance(at, id);
        }
    }

    #[inline]
    fn air_event(&mut self, at: Instant, link: LinkId) {
        while let Link::Air(air) = &mut self.carrier.links[link.get()].link
            && air.air.next_event().is_some_and(|due| due <= at)
        {
            self.carrier.touched.link(link);
            air.air.on_event(at, &mut air.output);
            if !air.output.is_empty() {
                self.run_air_output(at, link);
            }
        }
    }

    #[inline]
    fn run_air_output(&mut self, now: Instant, link: LinkId) {
        let air = self.carrier.air_mut(link);
        air.silences.update(&mut air.air);
        let (seen_by, only) = (air.queue_seen_by, air.output.take_only_delivery());
        let silence_ended = match only {
            Some((frame, ce)) => {
                self.delivered(now, link, frame, ce);
                false
            }
            None => self.run_air_events(now, link),
        };
        if let Some(tap) = seen_by {
            self.tell_room(now, tap, silence_ended);
        }
    }

    /// A frame has arrived at the other end of an air.
    #[inline]
    fn delivered(&mut self, now: Instant, link: LinkId, frame: Frame, ce: bool) {
        if ce {
            self.carrier.slab.get_mut(frame.packet).ecn = Ecn::Ce;
            self.carrier.losses.marked += 1;
        }
        self.carrier.left_air(now, link, frame.packet);
        self.step(frame.packet);
        self.advance(now, frame.packet);
    }

    /// Handles all that an air put out. True if a silence has ended.
    #[inline(never)]
    fn run_air_events(&mut self, now: Instant, link: LinkId) -> bool {
        let air = self.carrier.air_mut(link);
        // Taken out so that what follows may use the air; `enqueue` writes to the empty list put in its
        // place.
        let mut output = std::mem::take(&mut air.output);
        let mut silence_ended = false;
        for event in output.drain() {
            match event {
                AirEvent::Delivered { frame, ce } => self.delivered(now, link, frame, ce),
                AirEvent::Dropped { frame, reason } => self.carrier.air_dropped(frame, reason),
                AirEvent::Link(event) => {
                    silence_ended |= matches!(event.kind, LinkEventKind::FreezeEnded { .. });
                    self.radio_reports(now, link, event, None);
                }
                AirEvent::Overheard { by, event } => self.radio_reports(now, link, event, Some(by)),
                AirEvent::Transmitted(transmission) => self.transmitted(now, link, transmission),
            }
        }
        let air = self.carrier.air_mut(link);
        debug_assert!(air.output.is_empty(), "what an enqueue put out has been handled");
        air.output = output;
        silence_ended
    }

    /// Tells a tap that sees the transmit queue what room there is, if it should hear of it now.
    #[inline]
    fn tell_room(&mut self, now: Instant, id: TapId, silence_ended: bool) {
        if self.taps[id.get()].wants_room(silence_ended) {
            self.tell_new_room(now, id, silence_ended);
        }
    }

    #[inline(never)]
    fn tell_new_room(&mut self, now: Instant, id: TapId, silence_ended: bool) {
        let tap = &self.taps[id.get()];
        let radio = tap.radio;
        if let Some((packets, bytes)) = tap.room_to_tell(self.carrier.air(radio).air(), silence_ended) {
            let kind = LinkEventKind::TransmitRoom { packets, bytes };
            self.tell(now, id, LinkEvent::at(now, kind));
            self.taps[id.get()].room_told(self.carrier.air(radio).air());
        }
    }

    /// Tells the taps an event of a radio: all that listen, or those at the node of the radio that overheard
    /// it (`by`). The hosts hear of what the base station overhears, too, since it can pass that on over its
    /// wire.
    fn radio_reports(&mut self, now: Instant, link: LinkId, event: LinkEvent, by: Option<RadioId>) {
        let own = by.map(RadioId::station);
        if let Some(reports) = &mut self.reports
            && own.is_none_or(|station| station.is_none())
        {
            reports.push_back(event);
        }
        for index in 0..self.carrier.air(link).listeners.len() {
            let id = self.carrier.air(link).listeners[index];
            let tap = &mut self.taps[id.get()];
            if !tap.hears(event.kind.scope()) || own.is_some_and(|station| station != tap.node.station()) {
                continue;
            }
            self.carrier.touched.tap(id);
            if let Some(event) = tap.signal(now, event) {
                self.tell(now, id, event);
            }
        }
    }

    // ---- taps ----

    fn tap_event(&mut self, now: Instant, id: TapId) {
        while let Some(event) = self.taps[id.get()].arrived_signal(now) {
            self.tell(now, id, event);
        }
        let tap = &mut self.taps[id.get()];
        if tap.mechanism.next_timeout().is_some_and(|due| due <= now) {
            tap.mechanism.on_timeout(now, &mut tap.actions);
            self.run_actions(now, id);
            self.serve_reclaims(now, id);
        }
    }

    fn tell(&mut self, now: Instant, id: TapId, event: LinkEvent) {
        let tap = &mut self.taps[id.get()];
        tap.mechanism.on_link(now, event, &mut tap.actions);
        self.carrier.touched.tap(id);
        self.run_actions(now, id);
        self.serve_reclaims(now, id);
    }

    /// Asks a tap's mechanism about a packet at the tap's hop.
    #[inline(always)]
    fn tap_packet(&mut self, now: Instant, id: TapId, packet_id: PacketId, origin: Origin) {
        let packet = self.carrier.slab.get(packet_id);
        let tap = &mut self.taps[id.get()];
        tap.check.seen(packet);
        let flow = &self.carrier.flows[packet.flow.get()].key;
        let Packet { direction, station, len, ecn, .. } = *packet;
        let verdict = if packet.kind == PacketKind::Datagram {
            let view = DatagramView { id: packet_id, direction, origin, station, flow, len, ecn };
            tap.mechanism.on_datagram(now, &view, &mut tap.actions)
        } else {
            let tcp = &packet.segment;
            let view = PacketView { id: packet_id, direction, origin, station, flow, tcp, len, ecn };
            tap.mechanism.on_packet(now, &view, &mut tap.actions)
        };
        // Forwarding the packet may make the next mechanism send something back through this tap. So the
        // actions of this call are set aside, and carried out after the verdict.
        let answers = if tap.actions.is_empty() { None } else { Some(std::mem::take(&mut tap.actions)) };
        self.carrier.touched.tap(id);
        // The verdict comes before the actions: an action may name the packet just held.
        match verdict {
            Verdict::Forward(rewrite) => {
                if direction == Direction::Downlink {
                    tap.sent_down(len);
                }
                self.carrier.rewrite(packet_id, rewrite);
                match origin {
                    Origin::Arrival => self.behind_tap(now, packet_id),
                    Origin::TransmitQueue => self.forwarded.push(packet_id),
                }
            }
            Verdict::ForwardAndKeep(rewrite) => {
                debug_assert!(origin == Origin::Arrival, "what comes back from the queue is not kept");
                self.carrier.rewrite(packet_id, rewrite);
                self.carrier.slab.get_mut(packet_id).held = true;
                self.send_copy(now, id, packet_id);
            }
            Verdict::Hold => self.carrier.slab.get_mut(packet_id).held = true,
            Verdict::Drop(reason) => self.mechanism_drop(packet_id, reason),
        }
        if let Some(answers) = answers {
            self.carry_out(now, id, answers);
        }
    }

    /// Lets a packet go on from the hop it stands at, whose tap has decided.
    #[inline]
    fn behind_tap(&mut self, now: Instant, id: PacketId) {
        let next = self.carrier.hops.get(self.carrier.slab.get(id).hop).next;
        self.onward(now, id, next);
    }

    fn mechanism_drop(&mut self, id: PacketId, _reason: DropReason) {
        self.carrier.losses.mechanism += 1;
        self.carrier.forget(id);
    }

    /// Drains a mechanism's actions in order.
    #[inline]
    fn run_actions(&mut self, now: Instant, id: TapId) {
        let actions = &mut self.taps[id.get()].actions;
        if !actions.is_empty() {
            let actions = std::mem::take(actions);
            self.carry_out(now, id, actions);
        }
    }

    #[inline(never)]
    fn carry_out(&mut self, now: Instant, id: TapId, mut actions: Actions) {
        for action in actions.as_slice() {
            match *action {
                Action::Release { packet, rewrite } => {
                    let (direction, len) = self.let_go(packet);
                    if direction == Direction::Downlink {
                        self.taps[id.get()].sent_down(len);
                    }
                    self.carrier.rewrite(packet, rewrite);
                    self.behind_tap(now, packet);
                }
                Action::ReleaseAndKeep { packet, rewrite } => {
                    self.carrier.rewrite(packet, rewrite);
                    // The packet stays with the driver, as a copy.
                    self.send_copy(now, id, packet);
                }
                Action::Discard { packet, reason } => {
                    self.let_go(packet);
                    self.mechanism_drop(packet, reason);
                }
                Action::SendCopy { packet } => self.send_copy(now, id, packet),
                Action::Forget { packet } => {
                    self.let_go(packet);
                    self.carrier.forget(packet);
                }
                Action::Report(ref report) => self.report(now, id, report),
                Action::InjectAck(ref spec) => self.inject(now, id, spec),
                Action::Reclaim { scope } => {
                    let tap = &mut self.taps[id.get()];
                    if tap.sees_queue() {
                        tap.reclaims.push_back(scope);
                    }
                }
                Action::RequestUplink { station, bytes } => self.request_uplink(now, id, station, bytes),
                Action::Sender { ref flow, command } => self.command(id, flow, command),
            }
        }
        actions.clear();
        self.taps[id.get()].actions = actions;
    }

    /// Sends a packet on from the hop where a mechanism keeps it.
    fn send_copy(&mut self, now: Instant, id: TapId, kept: PacketId) {
        let Packet { direction, len, held, .. } = *self.carrier.slab.get(kept);
        debug_assert!(held, "a mechanism sent a copy that it does not keep");
        if direction == Direction::Downlink {
            self.taps[id.get()].sent_down(len);
        }
        let copy = self.carrier.copy(kept);
        self.behind_tap(now, copy);
    }

    /// Sends a mechanism's report to the other end of the radio.
    fn report(&mut self, now: Instant, id: TapId, report: &Report) {
        let Some(&flow) = self.carrier.by_key.get(&report.flow) else { return };
        let direction = report.direction.opposite();
        let entry = self.carrier.flows[flow.get()].entry(direction);
        let Some(at) = self.carrier.hops.of_tap(entry, id) else { return };
        let segment = TcpSegment {
            ack: report.next,
            flags: TcpFlags::ACK,
            sack: report.blocks,
            ..TcpSegment::default()
        };
        let sending = Sending { flow, direction, segment, ecn: Ecn::NotEct, retransmit: false };
        let packet = self.carrier.admit(now, at, &sending);
        self.carrier.slab.get_mut(packet).kind = PacketKind::Report;
        self.behind_tap(now, packet);
    }

    /// A report has come to a hop: the first tap there that it is for takes it. It goes no further than the
    /// node at the other end of the radio.
    fn reported(&mut self, now: Instant, id: PacketId, tap: Option<TapId>, next: Next) {
        let packet = *self.carrier.slab.get(id);
        let taken = tap.is_some_and(|tap_id| {
            let report = Report {
                flow: self.carrier.flows[packet.flow.get()].key,
                direction: packet.direction.opposite(),
                next: packet.segment.ack,
                blocks: packet.segment.sack,
            };
            let tap = &mut self.taps[tap_id.get()];
            let taken = tap.mechanism.on_report(now, &report, &mut tap.actions);
            self.carrier.touched.tap(tap_id);
            self.run_actions(now, tap_id);
            taken
        });
        match next {
            Next::Here if !taken => self.next_here(now, id),
            Next::Here | Next::Wire(_) | Next::Air { .. } | Next::Out => {
                self.carrier.forget(id);
            }
        }
    }

    /// Direction and length of a packet that a mechanism holds no longer.
    fn let_go(&mut self, id: PacketId) -> (Direction, u32) {
        let packet = self.carrier.slab.get_mut(id);
        debug_assert!(packet.held, "a mechanism named a packet that it does not hold");
        packet.held = false;
        (packet.direction, packet.len)
    }

    /// A station's mechanism asks its own radio for a turn.
    #[inline(never)]
    fn request_uplink(&mut self, now: Instant, id: TapId, station: StationId, bytes: Bytes) {
        let Tap { node, radio, .. } = self.taps[id.get()];
        debug_assert!(node == NodeId::Station(station), "only a station's own radio can ask for its turn");
        self.carrier.touched.link(radio);
        self.carrier.air_mut(radio).air.request_uplink(now, station, bytes);
    }

    /// A command reaches the sender only where mechanism and sender are on one host.
    fn command(&mut self, id: TapId, key: &FlowKey, command: SenderCommand) {
        let direction = match self.taps[id.get()].node {
            NodeId::Correspondent => Direction::Downlink,
            NodeId::Station(_) => Direction::Uplink,
            NodeId::BaseStation => {
                debug_assert!(false, "a mechanism commanded a sender that is not on its host");
                return;
            }
        };
        // The sender may be gone: a mechanism does not see every connection end.
        if let Some(&flow) = self.carrier.by_key.get(key) {
            self.commands.push_back(HostCommand { flow, direction, command });
        }
    }

    /// Takes back the frames that a mechanism asked for, and hands them to it, the last one first.
    #[inline]
    fn serve_reclaims(&mut self, now: Instant, id: TapId) {
        while let Some(scope) = self.taps[id.get()].reclaims.pop_front() {
            self.serve_reclaim(now, id, scope);
        }
    }

    #[cold]
    fn serve_reclaim(&mut self, now: Instant, id: TapId, scope: Scope) {
        let radio = self.taps[id.get()].radio;
        self.carrier.touched.link(radio);
        let mut frames = self.carrier.air_mut(radio).reclaim(scope);
        for frame in frames.drain(..).rev() {
            self.tap_packet(now, id, frame.packet, Origin::TransmitQueue);
        }
        self.carrier.air_mut(radio).frames = frames;
        // Frames that the mechanism forwards go back into the queue in their old order.
        while let Some(packet) = self.forwarded.pop() {
            self.behind_tap(now, packet);
        }
    }

    fn inject(&mut self, now: Instant, id: TapId, spec: &AckSpec) {
        let Some(&flow) = self.carrier.by_key.get(&spec.flow) else {
            debug_assert!(false, "a mechanism acknowledged on an unknown flow");
            return;
        };
        let tap = &self.taps[id.get()];
        tap.check.injected(flow, spec);
        let entry = self.carrier.flows[flow.get()].entry(spec.direction);
        let Some(at) = self.carrier.hops.of_tap(entry, id) else {
            debug_assert!(false, "a mechanism acknowledged on a flow that does not pass it");
            return;
        };
        let flags = if spec.ece { TcpFlags::ACK | TcpFlags::ECE } else { TcpFlags::ACK };
        let segment = TcpSegment {
            seq: spec.seq,
            ack: spec.ack,
            window: spec.window,
            flags,
            timestamp: spec.timestamp,
            ..TcpSegment::default()
        };
        let sending =
            Sending { flow, direction: spec.direction, segment, ecn: Ecn::NotEct, retransmit: false };
        let packet = self.carrier.admit(now, at, &sending);
        self.behind_tap(now, packet);
    }

    /// Arms the wake-ups of the links and taps that this event touched. The engine calls this after every
    /// event.
    #[inline(always)]
    pub(crate) fn rearm(&mut self) {
        while let Some(component) = self.carrier.touched.pop() {
            match component {
                Component::Link(id) => {
                    let armed = &mut self.carrier.links[id.get()];
                    let next = armed.link.next_event();
                    armed.wake.arm(&mut self.queue, next, Event::Link(id));
                    if matches!(armed.link, Link::Air(_)) {
                        let alone = self.airs.len() == 1;
                        self.next_air =
                            if alone { next.unwrap_or(Instant::FAR_FUTURE) } else { self.first_of_airs() };
                    }
                }
                Component::Tap(id) => {
                    let tap = &mut self.taps[id.get()];
                    let next = tap.next_event();
                    tap.wake.arm(&mut self.queue, next, Event::Tap(id));
                }
            }
        }
    }

    /// Flushes the mechanisms at the end of a run: every packet that they hold goes on its way.
    pub fn flush(&mut self, now: Instant) {
        for id in (0..self.taps.len() as u32).map(TapId) {
            let tap = &mut self.taps[id.get()];
            tap.mechanism.flush(now, &mut tap.actions);
            self.carrier.touched.tap(id);
            self.run_actions(now, id);
            self.serve_reclaims(now, id);
        }
        self.rearm();
    }

    // ---- what is there ----

    /// The mechanisms and where they stand.
    #[must_use]
    pub fn taps(&self) -> &[Tap] {
        &self.taps
    }

    /// The number of a flow that is registered.
    #[must_use]
    pub fn flow_of(&self, key: &FlowKey) -> Option<FlowIndex> {
        self.carrier.by_key.get(key).copied()
    }

    /// The node of a hop: for a packet that has left, where it came out.
    #[must_use]
    pub fn node(&self, hop: HopIndex) -> NodeId {
        self.carrier.hops.get(hop).node
    }

    /// A flow.
    #[must_use]
    pub fn flow(&self, index: FlowIndex) -> &FlowInfo {
        &self.carrier.flows[index.get()]
    }

    /// The air of link `link`.
    ///
    /// # Panics
    /// If it is a wire.
    #[must_use]
    pub fn radio(&self, link: LinkId) -> &AirLink {
        self.carrier.air(link)
    }

    /// Where the nodes of a mesh are at `now`; `None` for a cell.
    pub fn mesh_map(&mut self, now: Instant) -> Option<Map> {
        let air = self.airs.first().map(|&link| self.carrier.air_mut(link))?;
        air.air.map(now)
    }

    /// Takes a radio's silences that ended since the last call, in order of their end.
    ///
    /// # Panics
    /// If the link is a wire.
    pub fn take_silences(&mut self, link: LinkId) -> impl Iterator<Item = Silence> + '_ {
        self.carrier.air_mut(link).silences.take()
    }

    /// Packets lost so far.
    #[must_use]
    pub const fn losses(&self) -> Losses {
        self.carrier.losses
    }

    /// How many numbers flows have needed: the most flows that had one at the same time.
    #[must_use]
    pub const fn flow_count(&self) -> usize {
        self.carrier.flows.len()
    }

    /// Packets of a flow that are inside the network and go in `direction`.
    #[must_use]
    pub fn inside(&self, flow: FlowIndex, direction: Direction) -> u32 {
        let packets = self.carrier.slab.iter();
        packets.filter(|packet| (packet.flow, packet.direction) == (flow, direction)).count() as u32
    }

    /// Packets inside the network.
    #[must_use]
    pub fn packets_inside(&self) -> usize {
        self.carrier.slab.len()
    }
}
