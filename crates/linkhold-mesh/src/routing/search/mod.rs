//! SEARCH: requests go through the geography, on every channel that is free, around primary users, and the
//! destination chooses path and channels at once.
//!
//! Source: K. R. Chowdhury and M. Di Felice, "SEARCH: A Routing Protocol for Mobile Cognitive Radio Ad-Hoc
//! Networks", Computer Communications 32, 2009. crahn (section 4) has it as its network protocol for CRAHNs.
//! We know the paper's ideas from what others write of it, and from memory; its text was not at hand. From
//! the paper:
//!
//! - A request goes on each channel by itself, from node to node, straight to the destination: to the
//!   neighbour with the greatest advance in the focus region, a sector around the straight way
//!   (`forward.rs`).
//! - Where no relay is in the focus region, because a primary user took the channel there or nobody is, the
//!   request goes around (the PU avoidance phase) until it can go straight again. The nodes where this begins
//!   and ends are anchors.
//! - The destination gathers the requests and optimises path and channels together (`choose.rs`).
//!
//! Our reading, and our additions:
//!
//! - The focus region's width, waiting times and message formats (`config.rs`, `message.rs`).
//! - A request begins to go around on both sides, and each copy takes the neighbour on its side that deviates
//!   least. It is straight again where the focus region has a relay and the destination is nearer than it was
//!   at the beginning.
//! - The last attempt goes to everybody, on every channel: no rule of the plane finds every path of a sparse
//!   mesh, and where no channel is free all the way, no request that stays on one arrives.
//! - The route is the chosen path itself, kept by its nodes (`table.rs`), not a list of anchors between which
//!   packets go greedily. The anchors stand in the reply; nothing else uses them.
//! - Where each node listens on one channel only ([`HopChannels::Homes`]), a request cannot stay on one
//!   channel: it takes each hop on the channel of the relay, and the choice is one of relays with their
//!   channels. A node that found a primary user on its channel lately relays nothing, so that requests go
//!   around the user's region also while the user pauses; the destination itself is sought where it is. A
//!   route follows a relay to its new channel.
//! - Where a primary user takes a hop's channel, the node changes to another one that both ends have free.
//!   Only if there is none, the route is broken; an error goes back to the source, which searches anew.
//! - Left out: the prediction of the destination's movement by a Kalman filter, and the improvement of a
//!   route while it is in use.
//!
//! ```text
//! a packet, no route ─► straight ─► straight again ─► to everybody ─► held packets are dropped
//!                          └──────────────┴───────────────┴─► route: held packets go
//! ```

mod choose;
mod config;
mod forward;
pub mod message;
mod table;

use std::collections::VecDeque;

use linkhold_core::time::{Duration, Instant};
use linkhold_radio::rng::Stream;

use super::action::{Data, RouteAction, RouteDrop};
use super::held::{Held, Sizes};
use super::message::Message;
use super::rate::Rate;
use super::seqno::SeqNo;
use super::surroundings::{Surroundings, channels, has_channel};
use crate::Node;
use choose::{Arrived, choose};
pub use config::{HopChannels, SearchConfig};
use forward::{Relay, Standing};
use message::{Hop, MAX_HOPS, Phase, SearchError, SearchMessage, SearchReply, SearchRequest};
use table::{Route, Table};

/// Most copies of requests that are remembered, so that each is passed on once.
const MAX_SEEN: usize = 512;
/// Most searches whose requests a destination gathers at once.
const MAX_GATHERED: usize = 32;
/// Most requests of one search that it looks at.
const MAX_ARRIVED: usize = 32;

/// The router of one node.
#[derive(Clone, Debug)]
pub struct Search {
    me: Node,
    config: SearchConfig,
    focus_cosine: f64,
    jitter: Stream,
    last_id: SeqNo,
    table: Table,
    seen: VecDeque<Copy>,
    discoveries: Vec<Discovery>,
    gathered: Vec<Gathered>,
    /// By source: the last search that this node answered, or will.
    answered: Vec<(Node, SeqNo)>,
    held: Held,
    requests: Rate,
    errors: Rate,
}

/// A copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copy {
    source: Node,
    id: SeqNo,
    channel: u8,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
struct Discovery {
    destination: Node,
    /// Attempts before this one.
    before: u8,
    wait: Wait,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    /// The rate limit allows the request at this time.
    Postponed(Instant),
    /// The request went out, and has until this time to be answered.
    Asked(Instant),
}

impl Wait {
    const fn due(self) -> Instant {
        match self {
            Self::Postponed(at) | Self::Asked(at) => at,
        }
    }
}

/// Requests of one search that came to their destination.
#[derive(Clone, Debug)]
struct Gathered {
    source: Node,
    id: SeqNo,
    until: Instant,
    arrived: Vec<Arrived>,
}

impl Search {
    /// The router of node `me` in the run with `seed`.
    #[must_use]
    pub fn new(me: Node, config: &SearchConfig, seed: u64) -> Self {
        Self {
            me,
            config: *config,
            focus_cosine: config.focus_degrees.clamp(0.0, 180.0).to_radians().cos(),
            jitter: Stream::new(seed, "search", u64::from(me.0)),
            last_id: SeqNo(0),
            table: Table::new(config.max_routes, config.route_timeout),
            seen: VecDeque::new(),
            discoveries: Vec::new(),
            gathered: Vec::new(),
            answered: Vec::new(),
            held: Held::new(config.max_held),
            requests: Rate::new(config.request_rate),
            errors: Rate::new(config.error_rate),
        }
    }

    /// Where a packet from `source` to `destination` would go.
    #[must_use]
    pub fn next_hop(&self, now: Instant, source: Node, destination: Node) -> Option<Node> {
        self.table.active(now, source, destination).map(|route| route.next)
    }

    /// How full the tables are.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let (routes, seen) = (self.table.len(), self.seen.len());
        Sizes { routes, seen, discoveries: self.discoveries.len(), held: self.held.len() }
    }

    /// A data packet of this node (`from` is `None`) or one to pass on.
    pub fn on_packet<S: Surroundings>(
        &mut self,
        now: Instant,
        data: Data,
        from: Option<Node>,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        let Data { packet, source, destination, .. } = data;
        if destination == self.me {
            out.push(RouteAction::Drop { packet, reason: RouteDrop::AtDestination });
            return;
        }
        if let Some((to, channel)) = self.hop(now, source, destination, around, out) {
            out.push(RouteAction::Send { packet, to, channel: Some(channel) });
            return;
        }
        match from {
            None => self.hold(now, data, around, out),
            Some(from) => {
                out.push(RouteAction::Drop { packet, reason: RouteDrop::NoRoute });
                self.tell(now, from, SearchError { source, destination, id: None }, out);
            }
        }
    }

    /// A message of the neighbour `from`.
    pub fn on_message<S: Surroundings>(
        &mut self,
        now: Instant,
        from: Node,
        message: &SearchMessage,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        match message {
            SearchMessage::Request(request) => self.on_request(now, request, around, out),
            SearchMessage::Reply(reply) => self.on_reply(now, from, reply, out),
            SearchMessage::Error(error) => {
                let ends = (error.source, error.destination);
                if let Some(route) = self.table.invalidate(now, ends, from, error.id) {
                    self.tell_source(now, &route, out);
                }
            }
        }
    }

    /// The MAC gave up a frame to `to`, with a data packet in it or a message.
    pub fn on_failure<S: Surroundings>(
        &mut self,
        now: Instant,
        to: Node,
        data: Option<Data>,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        for at in 0..self.table.len() {
            if let Some(route) = self.table.invalidate_at(now, at, to) {
                self.tell_source(now, &route, out);
            }
        }
        let Some(data) = data else { return };
        if self.config.salvage && data.is_kept(now, self.me) {
            self.on_packet(now, data, None, around, out);
        } else {
            out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::LinkBroken });
        }
    }

    /// When [`Search::on_timeout`] is due.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let discoveries = self.discoveries.iter().map(|discovery| discovery.wait.due());
        discoveries.chain(self.gathered.iter().map(|gathered| gathered.until)).min()
    }

    /// Time has come to `now`.
    pub fn on_timeout<S: Surroundings>(&mut self, now: Instant, around: &S, out: &mut Vec<RouteAction>) {
        while let Some(at) = self.gathered.iter().position(|gathered| gathered.until <= now) {
            let gathered = self.gathered.remove(at);
            self.answer(&gathered, out);
        }
        let mut at = 0;
        while let Some(discovery) = self.discoveries.get(at).copied() {
            if discovery.wait.due() > now {
                at += 1;
                continue;
            }
            let before = match discovery.wait {
                Wait::Postponed(_) => discovery.before,
                Wait::Asked(_) => discovery.before + 1,
            };
            if before <= self.config.attempts {
                self.discoveries[at].before = before;
                self.ask(now, at, around, out);
                at += 1;
            } else {
                self.discoveries.remove(at);
                self.held.take(discovery.destination, |data| {
                    out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::Unreachable });
                });
            }
        }
    }

    /// The next hop of a route and a channel that is free at both ends; breaks the route if there is none.
    fn hop<S: Surroundings>(
        &mut self,
        now: Instant,
        source: Node,
        destination: Node,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) -> Option<(Node, u8)> {
        let route = self.table.use_route(now, source, destination)?;
        let ours = around.free_channels();
        let neighbour = around.neighbours().iter().find(|neighbour| neighbour.node == route.next);
        if self.config.hops == HopChannels::Homes {
            // The MAC follows the neighbour to its channel, and tells if it is on none.
            let home = neighbour.and_then(|neighbour| channels(neighbour.free_channels).next());
            route.channel = home.unwrap_or(route.channel);
            return Some((route.next, route.channel));
        }
        // Of a neighbour whose beacons are missing nothing is known: the MAC will tell if it is gone.
        let common = ours & neighbour.map_or(u64::MAX, |neighbour| neighbour.free_channels);
        // Where this node has no free channel at all, no other route helps: the packet waits in the MAC.
        if ours != 0 && !has_channel(common, route.channel) {
            match channels(common).next() {
                Some(other) => route.channel = other,
                None => {
                    let next = route.next;
                    if let Some(route) = self.table.invalidate(now, (source, destination), next, None) {
                        self.tell_source(now, &route, out);
                    }
                    return None;
                }
            }
        }
        Some((route.next, route.channel))
    }

    /// Holds a packet of this node until its destination is found.
    fn hold<S: Surroundings>(&mut self, now: Instant, data: Data, around: &S, out: &mut Vec<RouteAction>) {
        let destination = data.destination;
        let sought = self.discoveries.iter().any(|discovery| discovery.destination == destination);
        if !sought && self.discoveries.len() >= self.config.max_discoveries {
            out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::BufferFull });
            return;
        }
        self.held.push(data, out);
        if !sought {
            self.discoveries.push(Discovery { destination, before: 0, wait: Wait::Postponed(now) });
            self.ask(now, self.discoveries.len() - 1, around, out);
        }
    }

    /// Seeks a route that a packet of this node's will need, if there is none and it is not sought yet.
    pub fn seek<S: Surroundings>(
        &mut self,
        now: Instant,
        destination: Node,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        let sought = self.discoveries.iter().any(|discovery| discovery.destination == destination);
        let known = destination == self.me || self.table.active(now, self.me, destination).is_some();
        if !known && !sought && self.discoveries.len() < self.config.max_discoveries {
            self.discoveries.push(Discovery { destination, before: 0, wait: Wait::Postponed(now) });
            self.ask(now, self.discoveries.len() - 1, around, out);
        }
    }

    /// Sends the requests of the discovery at a place of the list, or postpones them.
    fn ask<S: Surroundings>(&mut self, now: Instant, at: usize, around: &S, out: &mut Vec<RouteAction>) {
        if let Err(free) = self.requests.take(now) {
            self.discoveries[at].wait = Wait::Postponed(free);
            return;
        }
        let Discovery { destination, before, .. } = self.discoveries[at];
        self.last_id = self.last_id.next();
        let place = around.place(destination);
        let mut straight = false;
        for phase in [Phase::Greedy, Phase::Flood] {
            // To everybody: on the last attempt, or where the request cannot go straight.
            if straight || phase == Phase::Greedy && before >= self.config.attempts {
                continue;
            }
            // One that goes to everybody takes every channel by itself, and one to relays' channels changes
            // with them.
            let one = phase == Phase::Flood || self.config.hops == HopChannels::Homes;
            let most = if one { 1 } else { 64 };
            for channel in channels(around.usable_channels()).take(most) {
                let request = SearchRequest {
                    ttl: MAX_HOPS as u8,
                    id: self.last_id,
                    source: self.me,
                    destination,
                    place,
                    channel,
                    phase,
                    leave_within: 0.0,
                    path: Vec::new(),
                };
                straight |= self.pass_on(now, &request, around, out) && phase == Phase::Greedy;
            }
        }
        if !straight {
            self.discoveries[at].before = self.config.attempts;
        }
        let patience = if straight { self.config.patience } else { self.config.flood_patience };
        self.discoveries[at].wait = Wait::Asked(now + patience);
    }

    fn on_request<S: Surroundings>(
        &mut self,
        now: Instant,
        request: &SearchRequest,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        let SearchRequest { source, id, channel, phase, .. } = *request;
        let passed = request.path.iter().any(|hop| hop.node == self.me);
        if source == self.me || passed || request.path.is_empty() || request.path.len() > MAX_HOPS {
            return;
        }
        if request.destination == self.me {
            self.gather(now, request);
            return;
        }
        // One that goes to everybody does so from each node once, whatever its channel was; one that takes
        // the channel of each relay likewise.
        let any = phase == Phase::Flood || self.config.hops == HopChannels::Homes;
        let copy = Copy { source, id, channel: if any { 0 } else { channel }, phase };
        if self.seen.contains(&copy) || request.ttl <= 1 {
            return;
        }
        if self.seen.len() >= MAX_SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(copy);
        let free = around.free_channels();
        let relays = match (self.config.hops, phase) {
            (HopChannels::Any, Phase::Flood) => true,
            (HopChannels::Any, _) => has_channel(free, channel),
            // It came on this node's channel. Where a primary user was found lately, nobody relays.
            (HopChannels::Homes, _) => has_channel(free & around.usable_channels(), channel),
        };
        if relays {
            self.pass_on(now, request, around, out);
        }
    }

    /// Sends a request on, with this node in its path. True if there was a relay.
    fn pass_on<S: Surroundings>(
        &mut self,
        now: Instant,
        request: &SearchRequest,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) -> bool {
        let SearchRequest { channel, phase, destination, leave_within, .. } = *request;
        let own = around.own();
        let ttl = request.ttl.saturating_sub(1).max(1);
        let further = |phase: Phase, channel: u8, leave_within: f64, after: Duration| {
            let mut path = Vec::with_capacity(request.path.len() + 1);
            path.extend_from_slice(&request.path);
            let anchor = phase != request.phase;
            path.push(Hop { node: self.me, place: own, at: now + after, channel, anchor });
            let further = SearchRequest { ttl, phase, channel, leave_within, path, ..request.clone() };
            Message::Search(SearchMessage::Request(Box::new(further)))
        };
        if phase == Phase::Flood {
            let first = request.path.is_empty();
            let after = if first { Duration::ZERO } else { self.config.jitter.mul_f64(self.jitter.unit()) };
            let mut any = false;
            for channel in channels(around.usable_channels()) {
                let message = further(phase, channel, leave_within, after);
                out.push(RouteAction::Control { message, to: None, channel: Some(channel), after });
                any = true;
            }
            return any;
        }
        let Some(place) = around.place(destination).or(request.place) else { return false };
        let (hops, focus_cosine) = (self.config.hops, self.focus_cosine);
        let standing = Standing { own, destination, place, channel, hops, focus_cosine };
        let visited = |node| node == self.me || request.path.iter().any(|hop| hop.node == node);
        let relays = standing.relays(phase, leave_within, around.neighbours(), visited);
        let mut any = false;
        for Relay { node, phase: next, channel } in relays.into_iter().flatten() {
            let leave_within = match (phase, next) {
                (Phase::Greedy, Phase::AvoidLeft | Phase::AvoidRight) => own.distance(place),
                _ => leave_within,
            };
            let message = further(next, channel, leave_within, Duration::ZERO);
            let (to, after) = (Some(node), Duration::ZERO);
            out.push(RouteAction::Control { message, to, channel: Some(channel), after });
            any = true;
        }
        any
    }

    /// Keeps a request that is for this node until it is answered.
    fn gather(&mut self, now: Instant, request: &SearchRequest) {
        let SearchRequest { source, id, .. } = *request;
        let arrived = || Arrived { path: request.path.clone(), at: now };
        let known = self.gathered.iter_mut().find(|gathered| (gathered.source, gathered.id) == (source, id));
        if let Some(gathered) = known {
            if gathered.arrived.len() < MAX_ARRIVED {
                gathered.arrived.push(arrived());
            }
            return;
        }
        // Each search is answered once: two answers with one number could make a circle.
        let slot = self.answered.binary_search_by_key(&source, |(source, _)| *source);
        if slot.is_ok_and(|at| !id.is_after(self.answered[at].1)) || self.gathered.len() >= MAX_GATHERED {
            return;
        }
        match slot {
            Ok(at) => self.answered[at].1 = id,
            Err(at) if self.answered.len() < self.config.max_routes => self.answered.insert(at, (source, id)),
            Err(_) => return,
        }
        let until = now + self.config.gather;
        self.gathered.push(Gathered { source, id, until, arrived: vec![arrived()] });
    }

    /// Chooses among the requests of a search, and answers it.
    fn answer(&self, gathered: &Gathered, out: &mut Vec<RouteAction>) {
        let Gathered { source, id, arrived, .. } = gathered;
        let Some(path) = choose(*source, self.me, arrived, self.config.switching_delay) else { return };
        let Some(at) = path.len().checked_sub(2).and_then(|at| u8::try_from(at).ok()) else { return };
        send_reply(SearchReply { id: *id, at, path }, out);
    }

    fn on_reply(&mut self, now: Instant, from: Node, reply: &SearchReply, out: &mut Vec<RouteAction>) {
        let at = usize::from(reply.at);
        let (Some(here), Some(next)) = (reply.path.get(at), reply.path.get(at + 1)) else { return };
        let (Some(first), Some(last)) = (reply.path.first(), reply.path.last()) else { return };
        if here.node != self.me || next.node != from || reply.path.len() > MAX_HOPS + 1 {
            return;
        }
        let before = at.checked_sub(1).map(|before| reply.path[before].node);
        let route = Route {
            source: first.node,
            destination: last.node,
            id: reply.id,
            next: next.node,
            channel: here.channel,
            before,
            valid: true,
            expires: now,
        };
        if !self.table.install(now, route) {
            return;
        }
        match reply.at.checked_sub(1) {
            Some(at) => send_reply(SearchReply { at, ..reply.clone() }, out),
            None => self.release(&route, out),
        }
    }

    /// Ends the search for a route's destination, and lets the packets go.
    fn release(&mut self, route: &Route, out: &mut Vec<RouteAction>) {
        self.discoveries.retain(|discovery| discovery.destination != route.destination);
        let (to, channel) = (route.next, Some(route.channel));
        self.held.take(route.destination, |data| {
            out.push(RouteAction::Send { packet: data.packet, to, channel });
        });
    }

    /// Tells the node before on a route that broke, if this is not the source.
    fn tell_source(&mut self, now: Instant, route: &Route, out: &mut Vec<RouteAction>) {
        let Route { source, destination, id, .. } = *route;
        if let Some(before) = route.before {
            self.tell(now, before, SearchError { source, destination, id: Some(id) }, out);
        }
    }

    /// Sends an error, if the rate allows it. One that it forbids is lost; the next packet causes another.
    fn tell(&mut self, now: Instant, to: Node, error: SearchError, out: &mut Vec<RouteAction>) {
        if self.errors.take(now).is_ok() {
            let message = Message::Search(SearchMessage::Error(error));
            out.push(RouteAction::Control { message, to: Some(to), channel: None, after: Duration::ZERO });
        }
    }
}

/// Sends an answer to the node at its place of the path.
fn send_reply(reply: SearchReply, out: &mut Vec<RouteAction>) {
    let Some(step) = reply.path.get(usize::from(reply.at)).copied() else { return };
    let message = Message::Search(SearchMessage::Reply(Box::new(reply)));
    let (to, channel) = (Some(step.node), Some(step.channel));
    out.push(RouteAction::Control { message, to, channel, after: Duration::ZERO });
}
