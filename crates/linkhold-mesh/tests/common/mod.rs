//! A tiny network for routers: a disk graph, one delay a hop, losses drawn from a stream.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use linkhold_core::packet::PacketId;
use linkhold_core::time::{Duration, Instant};
use linkhold_mesh::routing::{Data, Message, Neighbour, RouteAction, RouteDrop, Router, Surroundings};
use linkhold_mesh::{Node, Point};
use linkhold_radio::rng::Stream;

/// One hop of anything.
pub const HOP: Duration = Duration::from_millis(2);
/// How long the MAC tries in vain.
pub const GIVE_UP: Duration = Duration::from_millis(15);
/// Hops after which a packet is in a loop.
const MAX_HOPS: u32 = 64;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pending,
    Delivered {
        hops: u32,
    },
    Dropped(RouteDrop),
    /// It went round until its hops were over.
    Looped,
}

#[derive(Clone, Debug)]
enum Event {
    Message { from: Node, to: Node, message: Message },
    Packet { from: Node, to: Node, data: Data },
    Failure { at: Node, to: Node, data: Option<Data> },
    Timeout(Node),
}

/// The surroundings of one node.
#[derive(Default)]
pub struct Around {
    own: Point,
    places: Vec<Point>,
    neighbours: Vec<Neighbour>,
    free: u64,
}

impl Surroundings for Around {
    fn own(&self) -> Point {
        self.own
    }
    fn place(&self, node: Node) -> Option<Point> {
        self.places.get(node.get()).copied()
    }
    fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }
    fn free_channels(&self) -> u64 {
        self.free
    }
}

/// The network.
pub struct Net {
    pub now: Instant,
    pub routers: Vec<Router>,
    /// By node.
    pub places: Vec<Point>,
    /// By node: is it switched on?
    pub on: Vec<bool>,
    /// By node: the channels without a primary user.
    pub free: Vec<u64>,
    pub range: f64,
    /// Which nodes hear each other, in place of those within range; each pair once.
    pub links: Option<BTreeSet<(u32, u32)>>,
    /// Broadcasts of the first do not reach the second.
    pub unheard: BTreeSet<(u32, u32)>,
    /// Share of messages that a neighbour does not hear, and of unicasts that fail.
    pub loss: f64,
    /// Share of unicasts that arrive although the MAC reports a failure.
    pub lost_ack: f64,
    /// Whether frames with data arrive.
    pub takes_data: bool,
    /// Up to so much more delay for each frame, so that frames overtake each other.
    pub spread: Duration,
    pub fates: BTreeMap<u64, Fate>,
    /// Control messages sent, and their bytes.
    pub messages: u64,
    pub bytes: u64,
    /// Data packets sent on a hop, by channel.
    pub channels: BTreeMap<Option<u8>, u64>,
    pub events_handled: u64,
    /// By number: the packet, and its hops.
    packets: Vec<Option<(Data, u32)>>,
    /// When an event is due, its number, and its place in `events`.
    queue: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    events: Vec<Option<Event>>,
    /// Places in `events` that are free.
    free_places: Vec<usize>,
    epoch: u64,
    /// Destinations whose routes may have changed in this event, a bit each.
    changed: u128,
    // Properties call routers millions of times: these are kept for the next call.
    before: Vec<Option<Node>>,
    after: Vec<Option<Node>>,
    around: Around,
    actions: Vec<RouteAction>,
    stream: Stream,
}

impl Net {
    /// The hops over which a packet came to its destination, if it did.
    pub fn delivered(&self, packet: u64) -> Option<u32> {
        match self.fates[&packet] {
            Fate::Delivered { hops } => Some(hops),
            _ => None,
        }
    }

    pub fn new(routers: Vec<Router>, places: Vec<Point>, range: f64, seed: u64) -> Self {
        let count = routers.len();
        assert_eq!(count, places.len());
        assert!(count <= 128, "`check_loops` has a bit for each");
        let mut net = Self {
            now: Instant::ZERO,
            routers,
            places,
            on: vec![true; count],
            free: vec![1; count],
            range,
            links: None,
            unheard: BTreeSet::new(),
            loss: 0.0,
            lost_ack: 0.0,
            takes_data: true,
            spread: Duration::ZERO,
            fates: BTreeMap::new(),
            messages: 0,
            bytes: 0,
            channels: BTreeMap::new(),
            events_handled: 0,
            packets: Vec::new(),
            queue: BinaryHeap::new(),
            events: Vec::new(),
            free_places: Vec::new(),
            epoch: 0,
            changed: 0,
            before: Vec::new(),
            after: Vec::new(),
            around: Around::default(),
            actions: Vec::new(),
            stream: Stream::new(seed, "test-net", 0),
        };
        for node in 0..count as u32 {
            net.arm(Node(node));
        }
        net
    }

    pub fn linked(&self, one: Node, other: Node) -> bool {
        self.on[one.get()]
            && self.on[other.get()]
            && match &self.links {
                Some(links) => links.contains(&(one.0, other.0)) || links.contains(&(other.0, one.0)),
                None => {
                    let (one, other) = (self.places[one.get()], self.places[other.get()]);
                    (one.x - other.x).powi(2) + (one.y - other.y).powi(2) <= self.range.powi(2)
                }
            }
    }

    /// The MAC of a node gives up a frame without data.
    pub fn give_up(&mut self, at: u32, to: u32) {
        self.call(Node(at), |router, now, around, out| router.on_failure(now, Node(to), None, around, out));
    }

    fn look(&self, node: Node, around: &mut Around) {
        around.own = self.places[node.get()];
        around.free = self.free[node.get()];
        around.places.clone_from(&self.places);
        around.neighbours.clear();
        around.neighbours.extend(
            (0..self.places.len() as u32)
                .map(Node)
                .filter(|&other| other != node && self.linked(node, other))
                .map(|other| Neighbour {
                    node: other,
                    place: self.places[other.get()],
                    free_channels: self.free[other.get()],
                }),
        );
    }

    fn post(&mut self, after: Duration, event: Event) {
        self.epoch += 1;
        let place = self.free_places.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.queue.push(Reverse((self.now + after, self.epoch, place)));
    }

    fn arm(&mut self, node: Node) {
        if let Some(at) = self.routers[node.get()].next() {
            self.post(at.since(self.now), Event::Timeout(node));
        }
    }

    /// `source` sends a packet.
    pub fn send(&mut self, packet: u64, source: u32, destination: u32) {
        let (source, destination) = (Node(source), Node(destination));
        let data = Data { packet: PacketId(packet), source, destination, since: self.now };
        self.fates.insert(packet, Fate::Pending);
        if self.packets.len() <= packet as usize {
            self.packets.resize(packet as usize + 1, None);
        }
        self.packets[packet as usize] = Some((data, 0));
        self.call(source, |router, now, around, out| router.on_packet(now, data, None, around, out));
    }

    /// Handles every event until `end`, and looks for loops to where it may have changed routes.
    pub fn run(&mut self, end: Instant) {
        while let Some(&Reverse((at, _, place))) = self.queue.peek() {
            if at > end {
                break;
            }
            self.queue.pop();
            let event = self.events[place].take().expect("each event is queued once");
            self.free_places.push(place);
            assert!(at >= self.now);
            self.now = at;
            self.changed = 0;
            self.handle(event);
            self.events_handled += 1;
            // Time alone only takes routes away.
            self.check_loops();
        }
        self.now = end;
    }

    pub fn run_for(&mut self, millis: u64) {
        self.run(self.now + Duration::from_millis(millis));
    }

    /// True if nothing is under way and no router wants to be woken.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Hops to the destination by the tables of now; `None` if some node has no route.
    pub fn path(&self, source: u32, destination: u32) -> Option<Vec<u32>> {
        let mut path = vec![source];
        let (source, destination) = (Node(source), Node(destination));
        let mut at = source;
        while at != destination {
            at = self.routers[at.get()].next_hop(self.now, source, destination)?;
            path.push(at.0);
            assert!(path.len() <= self.routers.len(), "a loop: {path:?}");
        }
        Some(path)
    }

    /// Where a node sends what is for each destination; false if that depends on who sent it.
    fn next_hops(&self, node: Node, hops: &mut Vec<Option<Node>>) -> bool {
        let router = &self.routers[node.get()];
        hops.clear();
        hops.extend(
            (0..self.routers.len() as u32)
                .map(|destination| router.next_hop(self.now, node, Node(destination))),
        );
        matches!(router, Router::Aodv(_))
    }

    fn check_loops(&self) {
        let count = self.routers.len();
        for destination in (0..count).filter(|destination| self.changed >> destination & 1 == 1) {
            // Nodes whose way is known to end, a bit each. A node of AODV asks for no source: what follows it
            // is known with it.
            let mut ends = 0u128;
            for source in 0..count {
                let mut at = source;
                let mut hops = 0;
                while at != destination && ends >> at & 1 == 0 {
                    let router = &self.routers[at];
                    let next = router.next_hop(self.now, Node(source as u32), Node(destination as u32));
                    let Some(next) = next else { break };
                    at = next.get();
                    hops += 1;
                    assert!(hops < count, "a loop from {source} to {destination}, at {at}");
                }
                ends |= u128::from(matches!(self.routers[source], Router::Aodv(_))) << source;
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Timeout(node) => {
                if self.routers[node.get()].next().is_some_and(|at| at <= self.now) {
                    self.call(node, |router, now, around, out| router.on_timeout(now, around, out));
                }
            }
            Event::Message { from, to, message } => {
                if self.on[to.get()] {
                    self.call(to, |router, now, around, out| {
                        router.on_message(now, from, &message, around, out);
                    });
                }
            }
            Event::Failure { at, to, data } => {
                self.call(at, |router, now, around, out| router.on_failure(now, to, data, around, out));
            }
            Event::Packet { from, to, data } => {
                let (_, hops) = self.packets[data.packet.0 as usize].expect("only packets that were sent");
                if data.destination == to {
                    self.settle(data.packet, Fate::Delivered { hops });
                } else if hops >= MAX_HOPS {
                    self.settle(data.packet, Fate::Looped);
                } else {
                    self.call(to, |router, now, around, out| {
                        router.on_packet(now, data, Some(from), around, out);
                    });
                }
            }
        }
    }

    fn call(&mut self, node: Node, step: impl FnOnce(&mut Router, Instant, &Around, &mut Vec<RouteAction>)) {
        let (mut before, mut after) = (std::mem::take(&mut self.before), std::mem::take(&mut self.after));
        let (mut around, mut out) = (std::mem::take(&mut self.around), std::mem::take(&mut self.actions));
        self.look(node, &mut around);
        let known = self.next_hops(node, &mut before);
        step(&mut self.routers[node.get()], self.now, &around, &mut out);
        self.next_hops(node, &mut after);
        for (destination, (old, new)) in before.iter().zip(&after).enumerate() {
            self.changed |= u128::from(!known || old != new) << destination;
        }
        for action in out.drain(..) {
            self.act(node, action);
        }
        (self.before, self.after) = (before, after);
        (self.around, self.actions) = (around, out);
        self.arm(node);
    }

    fn settle(&mut self, packet: PacketId, fate: Fate) {
        // Of a packet whose ACK was lost there may be two: what becomes of the first counts.
        let slot = self.fates.get_mut(&packet.0).expect("only packets that were sent");
        match *slot {
            Fate::Pending => *slot = fate,
            Fate::Dropped(_) if matches!(fate, Fate::Delivered { .. }) => *slot = fate,
            _ => assert!(self.lost_ack > 0.0, "packet {} came back twice: {slot:?}, {fate:?}", packet.0),
        }
    }

    fn act(&mut self, node: Node, action: RouteAction) {
        match action {
            RouteAction::Drop { packet, reason } => self.settle(packet, Fate::Dropped(reason)),
            RouteAction::Send { packet, to, channel } => {
                *self.channels.entry(channel).or_default() += 1;
                let (data, hops) =
                    self.packets[packet.0 as usize].as_mut().expect("only packets that were sent");
                *hops += 1;
                let data = *data;
                self.unicast(node, to, channel, Some(data), Event::Packet { from: node, to, data });
            }
            RouteAction::Control { message, to: Some(to), channel, .. } => {
                self.count(&message);
                self.unicast(node, to, channel, None, Event::Message { from: node, to, message });
            }
            RouteAction::Control { message, to: None, after, channel } => {
                self.count(&message);
                for other in (0..self.places.len() as u32).map(Node) {
                    let is_heard =
                        self.hears(node, other, channel) && !self.unheard.contains(&(node.0, other.0));
                    if other != node && is_heard && self.stream.unit() >= self.loss {
                        let message = message.clone();
                        let delay = self.delay();
                        self.post(after + delay, Event::Message { from: node, to: other, message });
                    }
                }
            }
        }
    }

    fn delay(&mut self) -> Duration {
        HOP + self.spread.mul_f64(self.stream.unit())
    }

    fn count(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += u64::from(message.len());
        assert!(message.ttl() > 0 && message.len() > 28);
    }

    /// True if a frame on the channel reaches the other node, and disturbs no primary user.
    fn hears(&self, node: Node, other: Node, channel: Option<u8>) -> bool {
        let both = self.free[node.get()] & self.free[other.get()];
        self.linked(node, other) && channel.is_none_or(|channel| both >> channel & 1 == 1)
    }

    fn unicast(&mut self, node: Node, to: Node, channel: Option<u8>, data: Option<Data>, arrival: Event) {
        let arrives = self.hears(node, to, channel) && self.stream.unit() >= self.loss;
        let arrives = arrives && (self.takes_data || data.is_none());
        if arrives {
            let delay = self.delay();
            self.post(delay, arrival);
        }
        if !arrives || self.stream.unit() < self.lost_ack {
            self.post(GIVE_UP, Event::Failure { at: node, to, data });
        }
    }
}

/// `count` nodes in a line, `gap` metres apart.
pub fn line(count: u32, gap: f64) -> Vec<Point> {
    (0..count).map(|node| Point { x: f64::from(node) * gap, y: 0.0 }).collect()
}

/// A grid of `side` by `side` nodes, `gap` metres apart.
pub fn grid(side: u32, gap: f64) -> Vec<Point> {
    let place = |node: u32| Point { x: f64::from(node % side) * gap, y: f64::from(node / side) * gap };
    (0..side * side).map(place).collect()
}

/// A ring of nodes, `gap` metres from neighbour to neighbour.
pub fn ring(count: u32, gap: f64) -> Vec<Point> {
    let step = core::f64::consts::TAU / f64::from(count);
    let radius = gap / (2.0 * (step / 2.0).sin());
    let place = |node: u32| {
        let (sin, cos) = (f64::from(node) * step).sin_cos();
        Point { x: 1000.0 + radius * cos, y: 1000.0 + radius * sin }
    };
    (0..count).map(place).collect()
}
