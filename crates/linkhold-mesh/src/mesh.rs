//! The mesh as one link: a packet goes in at one node and comes out at another.
//!
//! ```text
//! enqueue ─► router ─► queue of the node ─► DCF ─► air ─► DCF of the next hop ─► router ─► ... ─► Delivered
//! ```
//! Source: crahn section 4 (Figure 1's blocks). Inside are the nodes' places, routing, queues and medium
//! access, and what leaves the channel to primary users ([`spectrum`](crate::spectrum)). Nothing above knows
//! of hops.
//!
//! The calling contract is that of [`Air`](linkhold_radio::Air). Silences, places and primary users follow
//! from the seed alone; what depends on traffic (backoffs) draws from streams of its own.
//!
//! Choices:
//! - a packet of the routing protocol goes before all data of its node, as in ns-2's `PriQueue`;
//! - the queue holds `queue` packets of data and drops what comes when it is full (DropTail). Messages of the
//!   routing protocol are not among them; they are bounded by [`MAX_MESSAGES`];
//! - a node that has a packet for an address knows the neighbour's (no ARP);
//! - what is different where nodes have a channel each: `homes.rs`, `mesh/visiting.rs`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use linkhold_core::link_event::{LinkEvent, Scope};
use linkhold_core::packet::{PacketId, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};
use linkhold_radio::dcf::{Dcf, Kind, Mpdu, Told};
use linkhold_radio::spectrum::Repository;
use linkhold_radio::wakeups::Wakeups;
use linkhold_radio::{AirAccounting, AirDrop, AirOutput, Frame, RadioId, Silence};

use crate::accounting::{Meter, Meters, Together};
use crate::config::{MeshConfig, MeshError, Routing};
use crate::licensed::Change;
use crate::local::Local;
use crate::map::Map;
use crate::node::Node;
use crate::packets::{Cargo, Packet, Packets};
use crate::places::Places;
use crate::routing::search::HopChannels;
use crate::routing::{Message, RouteAction, RouteDrop, Router};
use crate::spectrum::Spectrum;
use crate::watched::{RouteNews, Watched};

mod environment;
#[cfg(test)]
mod tests;
mod visiting;

/// Most messages of the routing protocol in a node's queue. Where nodes have a channel each, a broadcast is a
/// copy for each channel, and the bound is this times the number of channels.
const MAX_MESSAGES: usize = 64;
/// Most neighbours of whom a node's layers publish something.
const MAX_NEIGHBOURS: usize = 128;
/// Stands in the list of delayed messages for none: the node is to look at its queue again.
const LOOK: PacketId = PacketId(u64::MAX);
/// Hops that a packet may go over (RFC 1812's default TTL).
const MAX_HOPS: u8 = 64;

/// A mesh. See the module's documentation.
#[derive(Debug)]
pub struct Mesh {
    config: MeshConfig,
    dcf: Dcf,
    nodes: Nodes,
    /// When the last event was due.
    now: Instant,
    next_at: Instant,
    next: Source,
    started: bool,
}

/// What has something to do next; at one instant in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Spectrum,
    Dcf,
    Router,
    Delayed,
}

/// A node above its radio.
#[derive(Debug)]
struct NodeState {
    router: Router,
    messages: VecDeque<PacketId>,
    data: VecDeque<PacketId>,
    queued_bytes: u64,
    /// A frame that the radio gave back, for it would not have ended before a silence.
    waiting: Option<Mpdu>,
    /// Frames given back because their receivers are silent, or will be too soon, and when those are back.
    put_off: Vec<(Mpdu, Instant)>,
}

/// The DCF's environment: the nodes without their radios.
#[derive(Debug)]
struct Nodes {
    places: Places,
    states: Vec<NodeState>,
    packets: Packets,
    spectrum: Spectrum,
    meters: Meters,
    /// By node: when its router wakes.
    timers: Wakeups,
    /// Messages that wait out their jitter, by time and order.
    delayed: BinaryHeap<Reverse<(Instant, u64, u32, PacketId)>>,
    delayed_count: u64,
    /// Nodes whose queue has got something.
    kicked: Vec<u32>,
    /// What a geographic router sees; AODV asks for nothing of it.
    local: Local,
    geographic: bool,
    repository: Repository,
    actions: Vec<RouteAction>,
    changes: Vec<Change>,
    out: AirOutput,
    queue: usize,
    counters: Counters,
    tells_transmissions: bool,
    /// The pairs whose routes are told of, if they are.
    watched: Option<Watched>,
    /// The messages in the transmissions told, in order; whoever asked for these takes them.
    told: VecDeque<Message>,
}

/// What happened in a mesh, by totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets of data that a node sent on for another, and that arrived at the next hop: each of these hops
    /// counts.
    pub forwarded: u64,
    /// Messages of the routing protocol that radios sent, also in vain; where nodes have a channel each, also
    /// beacons, and each copy.
    pub route_messages: u64,
    /// Messages that a full queue did not take, likewise.
    pub messages_dropped: u64,
    /// Frames that a radio gave up.
    pub given_up: u64,
    /// Handoffs to another channel. A search for a free one that ends where it began is none.
    pub handoffs: u64,
    /// Transmissions on the air: frames, their repetitions, RTS, CTS and ACKs.
    pub transmissions: u64,
    /// How often a node noticed one: over `transmissions`, the mean number of nodes in carrier-sense range.
    pub noticed: u64,
}

impl Counters {
    /// What happened between `earlier` and this.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            forwarded: self.forwarded - earlier.forwarded,
            route_messages: self.route_messages - earlier.route_messages,
            messages_dropped: self.messages_dropped - earlier.messages_dropped,
            given_up: self.given_up - earlier.given_up,
            handoffs: self.handoffs - earlier.handoffs,
            transmissions: self.transmissions - earlier.transmissions,
            noticed: self.noticed - earlier.noticed,
        }
    }
}

impl Mesh {
    /// A mesh at time 0. The same `config` and `seed` give the same places, primary users and silences,
    /// whatever is sent.
    ///
    /// # Errors
    /// [`MeshError`] when the configuration does not fit together.
    pub fn new(config: &MeshConfig, seed: u64) -> Result<Self, MeshError> {
        config.check_numbers()?;
        let mobility = config.mobility(seed)?;
        let places = Places::new(mobility, config.nodes, config.reach);
        let spectrum = Spectrum::new(config, seed)?;
        let hops = if spectrum.homes().is_some() { HopChannels::Homes } else { HopChannels::Any };
        let state = |node| NodeState {
            router: config.router(Node(node), hops, seed),
            messages: VecDeque::new(),
            data: VecDeque::with_capacity(config.queue as usize),
            queued_bytes: 0,
            waiting: None,
            put_off: Vec::new(),
        };
        let mut mesh = Self {
            config: config.clone(),
            dcf: Dcf::new(&config.dcf, config.nodes, seed),
            nodes: Nodes {
                places,
                states: (0..config.nodes).map(state).collect(),
                packets: Packets::default(),
                meters: meters(config.nodes, &spectrum),
                spectrum,
                timers: Wakeups::new(config.nodes as usize),
                delayed: BinaryHeap::new(),
                delayed_count: 0,
                kicked: Vec::new(),
                local: Local::default(),
                geographic: config.routing == Routing::Search,
                repository: Repository::new(config.nodes as usize, MAX_NEIGHBOURS),
                actions: Vec::new(),
                changes: Vec::new(),
                out: AirOutput::new(),
                queue: config.queue as usize,
                counters: Counters::default(),
                tells_transmissions: false,
                watched: config.routes_told.then(Watched::default),
                told: VecDeque::new(),
            },
            now: Instant::ZERO,
            next_at: Instant::ZERO,
            next: Source::Spectrum,
            started: false,
        };
        for node in 0..config.nodes {
            mesh.nodes.arm(Node(node));
        }
        mesh.find_next();
        Ok(mesh)
    }

    /// Takes a packet in at the node that sends it (`frame.from`), for the node that it is to reach
    /// (`frame.to`); both are stations' radios.
    ///
    /// # Panics
    /// If one of them is no node of this mesh.
    pub fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) {
        let (source, destination) = (node_of(frame.from), node_of(frame.to));
        let count = self.nodes.states.len();
        assert!(
            source.get() < count && destination.get() < count,
            "{frame:?} is not between nodes of the mesh"
        );
        if let Some(watched) = &mut self.nodes.watched {
            watched.add((source, destination));
        }
        self.with_output(out, |mesh| {
            let packet = Packet {
                cargo: Cargo::Data(frame),
                source,
                destination,
                to: None,
                channel: None,
                since: now,
                hops: 0,
                arrived: false,
            };
            let id = mesh.nodes.packets.insert(packet);
            mesh.nodes.route(now, source, id, None);
            mesh.settle(now);
        });
    }

    /// When [`on_event`](Self::on_event) wants to be called next. O(1).
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        (self.next_at != Instant::FAR_FUTURE).then_some(self.next_at)
    }

    /// Handles the next event if it is due at `now`. A late call handles it as of the time it was due.
    pub fn on_event(&mut self, now: Instant, out: &mut AirOutput) {
        if self.next_at > now || self.next_at == Instant::FAR_FUTURE {
            return;
        }
        let (at, next) = (self.next_at, self.next);
        self.now = at;
        self.with_output(out, |mesh| {
            match next {
                Source::Spectrum => mesh.spectrum_event(at),
                Source::Dcf => mesh.dcf.step(&mut mesh.nodes),
                Source::Router => mesh.nodes.router_wakes(at),
                Source::Delayed => mesh.nodes.send_delayed(),
            }
            mesh.settle(at);
        });
    }

    /// Runs `act` with `out` in place of the nodes' own output, then finds the next event.
    #[inline]
    fn with_output(&mut self, out: &mut AirOutput, act: impl FnOnce(&mut Self)) {
        std::mem::swap(out, &mut self.nodes.out);
        act(self);
        std::mem::swap(out, &mut self.nodes.out);
        self.find_next();
    }

    /// Lets radios know of what their queues have got.
    fn settle(&mut self, now: Instant) {
        while let Some(node) = self.nodes.kicked.pop() {
            self.dcf.on_enqueue(now, node, &mut self.nodes);
        }
    }

    fn find_next(&mut self) {
        let delayed = self.nodes.delayed.peek().map_or(Instant::FAR_FUTURE, |Reverse((at, ..))| *at);
        // The first event is at time 0 also where the spectrum never has one: it tells the channel.
        let spectrum = if self.started { self.nodes.spectrum.next() } else { Instant::ZERO };
        let candidates = [
            (spectrum, Source::Spectrum),
            (self.dcf.next(), Source::Dcf),
            (self.nodes.timers.next(), Source::Router),
            (delayed, Source::Delayed),
        ];
        (self.next_at, self.next) =
            candidates.into_iter().min().unwrap_or((Instant::FAR_FUTURE, Source::Dcf));
    }

    /// The channel, the sensing or the primary users change.
    fn spectrum_event(&mut self, now: Instant) {
        if !self.started {
            self.started = true;
            for node in 0..self.nodes.states.len() as u32 {
                self.nodes.publish_channel(now, Node(node));
            }
            let kind = self.nodes.spectrum.capacity();
            self.nodes.out.link(LinkEvent::at(now, kind));
            if self.nodes.spectrum.next() > now {
                return;
            }
        }
        let nodes = &mut self.nodes;
        let mut changes = std::mem::take(&mut nodes.changes);
        let one = nodes.spectrum.step(&mut nodes.places, &mut changes);
        let concerned = match one {
            Some(Node(node)) => node..node + 1,
            None => 0..nodes.states.len() as u32,
        };
        // Nodes that share a channel have one meter, which any of them stands for.
        let metered = one.unwrap_or(Node(0));
        for change in changes.drain(..) {
            match change {
                Change::Silent(cause) => {
                    let was_open = !self.nodes.meters.is_silent(metered);
                    self.nodes.meters.fall_silent(metered, now, cause);
                    if was_open {
                        concerned.clone().for_each(|radio| self.dcf.suspend(now, radio, &mut self.nodes));
                    }
                }
                Change::Retuned { from } => {
                    let nodes = &mut self.nodes;
                    let channel = nodes.spectrum.channel(metered);
                    nodes.counters.handoffs += u64::from(channel != from);
                    nodes.meters.retune(metered, now, channel, nodes.spectrum.rate_of(channel));
                    concerned.clone().for_each(|node| nodes.publish_channel(now, Node(node)));
                    if let Some(homes) = nodes.spectrum.homes_mut() {
                        homes.moved(metered);
                    } else {
                        let kind = nodes.spectrum.capacity();
                        nodes.out.link(LinkEvent::at(now, kind));
                    }
                }
                Change::Open => {
                    self.nodes.meters.speak(metered, now);
                    if let Some(node) = one {
                        self.nodes.come_home(now, node);
                    }
                    concerned.clone().for_each(|radio| self.dcf.resume(now, radio, &mut self.nodes));
                }
                Change::Tell(kind) => self.nodes.out.link(LinkEvent::at(now, kind)),
            }
        }
        self.nodes.changes = changes;
    }

    /// Tells every transmission from now on, before what becomes of it. The radio of a node is that of the
    /// station with its number. Whoever asks for this takes the message of each transmission of data without
    /// a packet, with [`take_told`](Self::take_told).
    pub fn tell_transmissions(&mut self) -> bool {
        self.nodes.tells_transmissions = true;
        true
    }

    /// The next news of a source's route, if the configuration asks for them.
    pub fn take_route_news(&mut self) -> Option<RouteNews> {
        self.nodes.watched.as_mut()?.take()
    }

    /// The message in the next transmission that was told and had one, in the order of the transmissions.
    pub fn take_told(&mut self) -> Option<Message> {
        self.nodes.told.pop_front()
    }

    /// Packets and bytes that wait at all nodes.
    #[must_use]
    pub fn backlog(&self) -> (u32, Bytes) {
        let states = self.nodes.states.iter();
        let sum = states.fold((0, 0), |(packets, bytes), state| {
            (packets + state.data.len() as u32, bytes + state.queued_bytes)
        });
        (sum.0, Bytes(sum.1))
    }

    /// Packets inside: of the driver's and of the routing protocol, those waiting for an acknowledgment
    /// included.
    #[must_use]
    pub fn packets_inside(&self) -> usize {
        self.nodes.packets.count()
    }

    /// True while the node senses or changes channel.
    #[must_use]
    pub fn is_silent(&self, node: StationId) -> bool {
        self.nodes.meters.is_silent(Node(node.0))
    }

    /// Totals from time 0 to `until` (not before the last event's time).
    #[must_use]
    pub fn accounting(&self, until: Instant) -> AirAccounting {
        self.nodes.meters.snapshot(until)
    }

    /// Moves the silences that ended since the last call to the end of `into`.
    pub fn take_silences(&mut self, into: &mut Vec<Silence>) {
        self.nodes.meters.take_silences(into);
    }

    /// Adds the silence still going on at `until`, cut there, to the end of `into`.
    pub fn open_silences(&self, until: Instant, into: &mut Vec<Silence>) {
        self.nodes.meters.open_silences(until, into);
    }

    /// Totals since time 0.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.nodes.counters
    }

    /// Where everybody is at `now` and what the mesh knows, for a picture.
    pub fn map(&mut self, now: Instant) -> Map {
        let nodes = &mut self.nodes;
        let count = nodes.states.len() as u32;
        let places = (0..count).map(|node| nodes.places.position(Node(node), now)).collect();
        Map {
            band: nodes.commonest_band(),
            silent: nodes.meters.are_all_silent(),
            nodes: places,
            users: nodes.spectrum.users_on_map(now),
        }
    }

    /// When the last event was due.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// What the nodes' layers have published of channels, neighbours and links, each with its time.
    #[must_use]
    pub const fn repository(&self) -> &Repository {
        &self.nodes.repository
    }

    /// The rate of a channel, counted over all bands.
    #[must_use]
    pub fn channel_rate(&self, channel: usize) -> BitRate {
        self.nodes.spectrum.rate_of(channel)
    }

    /// What it was made from.
    #[must_use]
    pub const fn config(&self) -> &MeshConfig {
        &self.config
    }

    /// The nodes that a packet from `source` to `destination` would pass now, both ends included, as far as
    /// their routers know a route.
    #[must_use]
    pub fn path(&self, now: Instant, source: Node, destination: Node) -> Vec<Node> {
        self.walk(now, source, destination).collect()
    }

    /// Whether that path goes over `node`.
    #[must_use]
    pub fn goes_over(&self, now: Instant, (source, destination): (Node, Node), node: Node) -> bool {
        self.walk(now, source, destination).any(|one| one == node)
    }

    /// The nodes of a path, one after another.
    fn walk(&self, now: Instant, source: Node, destination: Node) -> impl Iterator<Item = Node> + '_ {
        let next = move |at: &Node| {
            let router = self.nodes.states.get(at.get()).map(|state| &state.router);
            let router = router.filter(|_| *at != destination);
            router.and_then(|router| router.next_hop(now, source, destination))
        };
        std::iter::successors(Some(source), next).take(usize::from(MAX_HOPS) + 1)
    }
}

/// One meter for all, or one for each node.
fn meters(nodes: u32, spectrum: &Spectrum) -> Meters {
    let meter = |scope, node| {
        let channel = spectrum.channel(node);
        Meter::new(scope, spectrum.channels(), channel, spectrum.rate_of(channel))
    };
    if spectrum.homes().is_none() {
        return Meters::Common { meter: meter(Scope::Network, Node(0)), nodes };
    }
    let of = |node| meter(Scope::Station(StationId(node)), Node(node));
    Meters::Each { meters: (0..nodes).map(of).collect(), together: Together::default() }
}

/// A router's reason as a link tells it.
const fn drop_reason(reason: RouteDrop) -> AirDrop {
    match reason {
        RouteDrop::NoRoute | RouteDrop::Unreachable | RouteDrop::AtDestination => AirDrop::NoRoute,
        RouteDrop::BufferFull => AirDrop::QueueFull,
        RouteDrop::LinkBroken => AirDrop::RetryLimit,
    }
}

/// The node of a station's radio.
fn node_of(radio: RadioId) -> Node {
    radio.station().map_or(Node(u32::MAX), |station| Node(station.0))
}

impl Nodes {
    fn arm(&mut self, node: Node) {
        match self.states[node.get()].router.next() {
            Some(at) => self.timers.set(node.get(), at, 0),
            None => self.timers.clear(node.get()),
        }
    }

    /// The MAC layer publishes the channel that a node works on.
    fn publish_channel(&mut self, now: Instant, node: Node) {
        let channel = self.spectrum.channel(node);
        self.repository.publish_channel(node.get(), channel, now);
        self.repository.publish_transmit_power(node.get(), self.places.reach().power, now);
    }

    /// The band that most nodes work on, of equally many the lowest.
    fn commonest_band(&self) -> u32 {
        if self.spectrum.homes().is_none() {
            return self.spectrum.band(Node(0));
        }
        let mut counts: Vec<(u32, u32)> = Vec::new();
        for node in 0..self.states.len() as u32 {
            let band = self.spectrum.band(Node(node));
            match counts.iter_mut().find(|(_, one)| *one == band) {
                Some((count, _)) => *count += 1,
                None => counts.push((1, band)),
            }
        }
        counts.into_iter().max_by_key(|&(count, band)| (count, Reverse(band))).map_or(0, |(_, band)| band)
    }

    /// Looks around from `node`, for a router that wants to know.
    fn look(&mut self, now: Instant, node: Node) {
        if self.geographic {
            let nodes = self.states.len() as u32;
            match self.spectrum.homes() {
                None => self.local.look(node, nodes, now, &mut self.places),
                Some(homes) => {
                    self.local.look_at_homes(node, nodes, now, &mut self.places, &self.repository, homes);
                }
            }
        }
    }

    /// Asks a node's router about a packet of data.
    fn route(&mut self, now: Instant, node: Node, id: PacketId, from: Option<Node>) {
        let Some(packet) = self.packets.get(id) else { return };
        let data = packet.as_data(id);
        self.look(now, node);
        let router = &mut self.states[node.get()].router;
        router.on_packet(now, data, from, &self.local, &mut self.actions);
        self.act(now, node);
    }

    fn router_wakes(&mut self, now: Instant) {
        let Some((node, _)) = self.timers.first() else { return };
        self.look(now, Node(node as u32));
        self.states[node].router.on_timeout(now, &self.local, &mut self.actions);
        self.act(now, Node(node as u32));
    }

    fn send_delayed(&mut self) {
        match self.delayed.pop() {
            Some(Reverse((_, _, node, LOOK))) => self.kicked.push(node),
            Some(Reverse((_, _, node, id))) => self.push_message(Node(node), id),
            None => {}
        }
    }

    /// Does what a node's router asks for.
    fn act(&mut self, now: Instant, node: Node) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                RouteAction::Send { packet, to, channel } => self.push_data(node, packet, to, channel),
                RouteAction::Control { message, to: None, channel: None, after }
                    if self.spectrum.homes().is_some() =>
                {
                    self.broadcast(now, node, &message, after);
                }
                RouteAction::Control { message, to, channel, after } => {
                    self.send_message(now, node, message, (to, channel), after);
                }
                RouteAction::Drop { packet, reason } => self.lose(packet, drop_reason(reason)),
            }
        }
        self.actions = actions;
        self.arm(node);
        if self.watched.is_some() {
            self.watch_routes(now, node);
        }
    }

    /// Looks which routes of `node` are lost or found, and seeks the lost: whoever is told sends nothing, so
    /// that no packet would make the router seek them.
    #[inline(never)]
    fn watch_routes(&mut self, now: Instant, node: Node) {
        let Some(watched) = &mut self.watched else { return };
        let router = &self.states[node.get()].router;
        let has_route = |destination| router.next_hop(now, node, destination).is_some();
        // Each that is lost is told once, so this ends.
        if let Some(lost) = watched.look(node, has_route) {
            self.look(now, node);
            self.states[node.get()].router.seek(now, lost, &self.local, &mut self.actions);
            self.act(now, node);
        }
    }

    /// Sends a message of `node`, to a neighbour or to all, on a channel.
    fn send_message(
        &mut self,
        now: Instant,
        node: Node,
        message: Message,
        (to, channel): (Option<Node>, Option<u8>),
        after: Duration,
    ) {
        let packet = Packet {
            cargo: Cargo::Control(message),
            source: node,
            destination: to.unwrap_or(node),
            to,
            channel,
            since: now,
            hops: 0,
            arrived: false,
        };
        let id = self.packets.insert(packet);
        if after.is_zero() {
            self.push_message(node, id);
        } else {
            self.delayed_count += 1;
            self.delayed.push(Reverse((now + after, self.delayed_count, node.0, id)));
        }
    }

    fn push_data(&mut self, node: Node, id: PacketId, to: Node, channel: Option<u8>) {
        let state = &mut self.states[node.get()];
        if state.data.len() >= self.queue {
            self.lose(id, AirDrop::QueueFull);
            return;
        }
        let Some(packet) = self.packets.get_mut(id) else { return };
        (packet.to, packet.channel) = (Some(to), channel);
        state.queued_bytes += u64::from(packet.len());
        state.data.push_back(id);
        self.kicked.push(node.0);
    }

    fn push_message(&mut self, node: Node, id: PacketId) {
        let copies = if self.spectrum.homes().is_some() { self.spectrum.channels() } else { 1 };
        let state = &mut self.states[node.get()];
        if state.messages.len() >= MAX_MESSAGES * copies {
            self.packets.remove(id);
            self.counters.messages_dropped += 1;
            return;
        }
        state.messages.push_back(id);
        self.kicked.push(node.0);
    }

    /// A packet is gone; what is lost of the driver's is told.
    fn lose(&mut self, id: PacketId, reason: AirDrop) {
        if let Some(Packet { cargo: Cargo::Data(frame), arrived: false, .. }) = self.packets.remove(id) {
            self.out.dropped(frame, reason);
        }
    }

    /// The MAC gives up a packet. What waits for the same neighbour goes back to the router with it (as ns-2
    /// has it): each would be tried seven times for nothing. Not where every destination is a neighbour: no
    /// other way can be found there, and the neighbour may only have missed this one.
    fn give_up(&mut self, now: Instant, node: Node, id: PacketId) {
        self.counters.given_up += 1;
        let to = self.packets.get(id).and_then(|packet| packet.to);
        self.fail(now, node, id);
        let Some(to) = to.filter(|_| self.states[node.get()].router.finds_ways()) else { return };
        for id in self.take_waiting_for(node, to) {
            self.fail(now, node, id);
        }
    }

    /// Takes the frames of `node` for its neighbour `to` out of its queues, the oldest of the data first.
    fn take_waiting_for(&mut self, node: Node, to: Node) -> Vec<PacketId> {
        let (states, packets) = (&mut self.states, &self.packets);
        let Some(state) = states.get_mut(node.get()) else { return Vec::new() };
        let is_for = |id: &PacketId| packets.get(*id).is_some_and(|packet| packet.to == Some(to));
        let mut taken = Vec::new();
        if let Some(mpdu) = state.waiting.take_if(|mpdu| mpdu.to == Some(to.0)) {
            taken.push(PacketId(mpdu.token));
        }
        let put_off = state.put_off.extract_if(.., |(mpdu, _)| mpdu.to == Some(to.0));
        taken.extend(put_off.map(|(mpdu, _)| PacketId(mpdu.token)));
        let mut queued = Vec::new();
        for queue in [&mut state.messages, &mut state.data] {
            queued.extend(queue.iter().copied().filter(&is_for));
            queue.retain(|id| !is_for(id));
        }
        let data = queued.iter().filter_map(|id| packets.get(*id)).filter(|packet| packet.is_data());
        state.queued_bytes -= data.map(|packet| u64::from(packet.len())).sum::<u64>();
        taken.append(&mut queued);
        taken
    }

    /// A neighbour did not take a packet, or what waited behind it.
    fn fail(&mut self, now: Instant, node: Node, id: PacketId) {
        let Some(packet) = self.packets.get(id) else { return };
        let Some(to) = packet.to else { return };
        let lost = packet.is_data() && !packet.arrived;
        let data = packet.as_data(id);
        let lost = lost.then_some(data);
        if lost.is_none() {
            self.packets.remove(id);
        }
        if self.spectrum.homes().is_some() {
            self.repository.withdraw_neighbour(node.get(), to.0);
        }
        self.look(now, node);
        self.states[node.get()].router.on_failure(now, to, lost, &self.local, &mut self.actions);
        self.act(now, node);
    }

    fn data_received(&mut self, now: Instant, at: Node, from: Node, id: PacketId) {
        let Some(packet) = self.packets.get_mut(id) else { return };
        packet.arrived = true;
        let Cargo::Data(frame) = packet.cargo else { return };
        // It counts when it arrives: a node that is to send it on may have no route, or find the link broken.
        self.counters.forwarded += u64::from(packet.source != from);
        if packet.destination == at {
            self.out.delivered(frame, false);
            return;
        }
        let onward = Packet { to: None, hops: packet.hops + 1, arrived: false, ..packet.clone() };
        if onward.hops >= MAX_HOPS {
            self.out.dropped(frame, AirDrop::HopLimit);
            return;
        }
        let id = self.packets.insert(onward);
        self.route(now, at, id, Some(from));
    }

    fn message_received(&mut self, now: Instant, at: Node, from: Node, id: PacketId) {
        if self.beacon_received(now, at, from, id) {
            return;
        }
        self.look(now, at);
        if let Some(Packet { cargo: Cargo::Control(message), .. }) = self.packets.get(id) {
            let router = &mut self.states[at.get()].router;
            router.on_message(now, from, message, &self.local, &mut self.actions);
        }
        self.act(now, at);
    }

    /// Tells a transmission. Its packet is still here: it leaves when its sender is done with it.
    #[inline(never)]
    fn tell(&mut self, told: &Told) {
        debug_assert_eq!(told.kind == Kind::Data, told.token.is_some(), "data has a token");
        let cargo =
            told.token.and_then(|token| self.packets.get(PacketId(token))).map(|packet| &packet.cargo);
        let packet = match cargo {
            Some(Cargo::Data(frame)) => Some(frame.packet),
            Some(Cargo::Control(message)) => {
                self.told.push_back(message.clone());
                None
            }
            None => None,
        };
        let channel = self.spectrum.tuned(Node(told.from)) as u32;
        self.out.transmitted(told.transmission(packet, channel, |node| StationId(node).into()));
    }
}
