//! AODV, the Ad hoc On-Demand Distance Vector routing protocol: a route is sought when a packet needs it, and
//! told of when it breaks.
//!
//! Source: RFC 3561; crahn names no routing protocol for its multi-hop case, and ns-2 has AODV. What is here:
//!
//! | section | what | file |
//! |---|---|---|
//! | 5.1 to 5.3 | messages | `../message.rs` |
//! | 6.1, 6.2 | sequence numbers, routes, lifetimes | `table.rs` |
//! | 6.3, 6.4 | requests, their retries and rate, expanding ring | `discovery.rs`, `../rate.rs` |
//! | 6.5, 6.6 | requests passed on, answered by the destination, by others, and to the destination (G) | here |
//! | 6.7 | answers passed on | here |
//! | 6.9, 6.10 | HELLO as an option; feedback of the MAC | `hello.rs`, here |
//! | 6.11 | errors, with their rate | here |
//! | 6.12 | local repair, as an option | `repair.rs`, here |
//! | 10 | constants | `config.rs` |
//!
//! Left out: multicast, prefixes (6.1's subnets), blacklists and RREP-ACK (6.8; the MAC acknowledges),
//! actions after a reboot (6.13), several interfaces (6.14).
//!
//! ```text
//! a packet, no route ─► asked (ring 1, 3, 5, 7 hops, then the network three times)
//!                         ├─► route: held packets go
//!                         └─► none: held packets are dropped
//! route in use ─► broken, expired or told so: greater number, RERR to the precursors ─► forgotten
//! ```
//!
//! Where this is not the RFC, or it leaves a choice:
//!
//! - What keeps routes free of loops: the head of `table.rs`.
//! - A node on the way back that knows a better route than an answer offers sends its own. The RFC lets the
//!   answer end there, and the node that asked would wait in vain.
//! - A node does not answer a request that comes from the next hop of its own route.
//! - A RERR for a packet without a route goes to the node that sent the packet on; the RFC's precursors may
//!   be forgotten by then.
//! - A packet that the next hop did not take is dropped, as ns-2 does; with `salvage` the source keeps its
//!   own, for 30 s at most.
//! - Local repair: only the route of the packet that failed is repaired; the other routes over that neighbour
//!   end with a RERR (the RFC lets a node repair them too). The discovery period is `RING_TRAVERSAL_TIME` of
//!   the request's TTL. A source that hears of a longer route (N flag) keeps it (the RFC lets it seek anew).
//!   What keeps it free of loops is what does so elsewhere: the route ends with a greater number, which only
//!   the destination, or a node that heard of it since, can answer.

mod config;
mod discovery;
mod hello;
mod repair;
mod seen;
mod table;

use linkhold_core::time::{Duration, Instant};
use linkhold_radio::rng::Stream;

use super::action::{Data, RouteAction, RouteDrop};
use super::held::{Held, Sizes};
use super::message::{MAX_UNREACHABLE, Message, RouteError, RouteReply, RouteRequest, Unreachable};
use super::rate::Rate;
use super::seqno::SeqNo;
use crate::Node;
pub use config::{AodvConfig, Hello};
use discovery::{Discovery, Phase, Reach};
use hello::Watch;
use repair::{Repair, Repairs};

use seen::Seen;
use table::{Precursors, Table};

/// The router of one node.
#[derive(Clone, Debug)]
pub struct Aodv {
    me: Node,
    config: AodvConfig,
    jitter: Stream,
    seq: SeqNo,
    last_id: u32,
    table: Table,
    seen: Seen,
    discoveries: Vec<Discovery>,
    repairs: Repairs,
    held: Held,
    requests: Rate,
    errors: Rate,
    hello: Option<Watch>,
}

/// A RERR that is being made: whom it names, and who should hear it.
struct Report {
    error: RouteError,
    to: Precursors,
}

impl Report {
    const fn new() -> Self {
        Self { error: RouteError::new(), to: Precursors::None }
    }

    fn add(&mut self, destination: Node, seq: Option<SeqNo>, precursors: Precursors) {
        if precursors != Precursors::None {
            self.error.push(Unreachable { destination, seq: seq.unwrap_or(SeqNo(0)) });
            self.to = self.to.with(precursors);
        }
    }
}

impl Aodv {
    /// The router of node `me` in the run with `seed`.
    #[must_use]
    pub fn new(me: Node, config: &AodvConfig, seed: u64) -> Self {
        let mut jitter = Stream::new(seed, "aodv", u64::from(me.0));
        let hello = config.hello.map(|hello| Watch::new(hello, jitter.unit()));
        Self {
            me,
            config: *config,
            jitter,
            seq: SeqNo(0),
            last_id: 0,
            table: Table::new(config.max_routes, config.delete_period()),
            seen: Seen::new(config.max_routes, config.path_discovery_time()),
            discoveries: Vec::new(),
            repairs: Repairs::default(),
            held: Held::new(config.max_held),
            requests: Rate::new(config.rreq_ratelimit),
            errors: Rate::new(config.rerr_ratelimit),
            hello,
        }
    }

    /// Where a packet for `destination` would go.
    #[must_use]
    pub fn next_hop(&self, now: Instant, destination: Node) -> Option<Node> {
        self.table.active(now, destination).map(|route| route.next)
    }

    /// How full the tables are.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let (routes, seen) = (self.table.len(), self.seen.len());
        Sizes { routes, seen, discoveries: self.discoveries.len(), held: self.held.len() }
    }

    /// A data packet of this node (`from` is `None`) or one to pass on.
    pub fn on_packet(&mut self, now: Instant, data: Data, from: Option<Node>, out: &mut Vec<RouteAction>) {
        let Data { packet, source, destination, .. } = data;
        if destination == self.me {
            out.push(RouteAction::Drop { packet, reason: RouteDrop::AtDestination });
            return;
        }
        let until = now + self.config.active_route_timeout;
        // Section 6.2: a packet keeps the routes to both ends, to the next hop and to the last one; here,
        // only where they lead along the packet's way.
        if let Some(from) = from {
            self.table.refresh_along(now, source, from, until);
            self.table.refresh_along(now, from, from, until);
        }
        self.table.refresh(now, destination, until);
        match (self.next_hop(now, destination), from) {
            (Some(to), _) => {
                self.table.refresh_along(now, to, to, until);
                out.push(RouteAction::Send { packet, to, channel: None });
            }
            (None, None) => self.hold(now, data, out),
            (None, Some(from)) if self.repairs.is_used_by(destination, from) => self.held.push(data, out),
            (None, Some(from)) => {
                out.push(RouteAction::Drop { packet, reason: RouteDrop::NoRoute });
                let seq = self.table.known(now, destination).and_then(|route| route.number.least());
                let mut report = Report::new();
                report.add(destination, seq, Precursors::One(from));
                self.announce(now, &mut report, out);
            }
        }
    }

    /// A message of the neighbour `from`.
    pub fn on_message(&mut self, now: Instant, from: Node, message: &Message, out: &mut Vec<RouteAction>) {
        if from == self.me {
            return;
        }
        self.on_heard(now, from);
        match message {
            Message::Request(request) => self.on_request(now, from, request, out),
            Message::Reply(reply) => self.on_reply(now, from, reply, out),
            Message::Error(error) => self.on_error(now, from, error, out),
            Message::Search(_) | Message::Beacon(_) => {}
        }
    }

    /// The MAC gave up a frame to `to`, with a data packet in it or a message (section 6.10).
    pub fn on_failure(&mut self, now: Instant, to: Node, data: Option<Data>, out: &mut Vec<RouteAction>) {
        let repairs = data.is_some_and(|data| self.repair(now, to, data, out));
        self.break_link(now, to, out);
        let Some(data) = data.filter(|_| !repairs) else { return };
        if self.config.salvage && data.is_kept(now, self.me) {
            self.on_packet(now, data, None, out);
        } else {
            out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::LinkBroken });
        }
    }

    /// Seeks a route that a packet of this node's will need, if there is none and it is not sought yet.
    pub fn seek(&mut self, now: Instant, destination: Node, out: &mut Vec<RouteAction>) {
        let sought = self.discoveries.iter().any(|discovery| discovery.destination == destination);
        let known = destination == self.me || self.next_hop(now, destination).is_some();
        if !known && !sought && self.discoveries.len() < self.config.max_discoveries {
            self.discover(now, destination, out);
        }
    }

    fn discover(&mut self, now: Instant, destination: Node, out: &mut Vec<RouteAction>) {
        let hops = self.table.known(now, destination).map(|route| route.hops);
        let reach = Reach::first(&self.config, hops);
        self.discoveries.push(Discovery { destination, reach, phase: Phase::Postponed(now) });
        self.ask(now, self.discoveries.len() - 1, out);
    }

    /// A frame of `from` was heard, or one to it was acknowledged.
    pub fn on_heard(&mut self, now: Instant, from: Node) {
        if let Some(watch) = &mut self.hello {
            watch.on_heard(now, from);
        }
    }

    /// When [`Aodv::on_timeout`] is due.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let discoveries = self.discoveries.iter().map(|discovery| discovery.phase.due()).min();
        let hello = self.hello.as_ref().map(Watch::next);
        [discoveries, hello].into_iter().flatten().min()
    }

    /// Time has come to `now`.
    pub fn on_timeout(&mut self, now: Instant, out: &mut Vec<RouteAction>) {
        let mut at = 0;
        while let Some(discovery) = self.discoveries.get(at).copied() {
            if discovery.phase.due() > now {
                at += 1;
                continue;
            }
            let reach = match discovery.phase {
                Phase::Postponed(_) => Some(discovery.reach),
                Phase::Asked(_) => discovery.reach.wider(&self.config),
            };
            match reach {
                Some(reach) => {
                    self.discoveries[at].reach = reach;
                    self.ask(now, at, out);
                    at += 1;
                }
                None if matches!(discovery.reach, Reach::Repair(_)) => {
                    self.discoveries.remove(at);
                    self.give_up_repair(now, discovery.destination, out);
                }
                None => {
                    self.discoveries.remove(at);
                    self.held.take(discovery.destination, |data| {
                        out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::Unreachable });
                    });
                }
            }
        }
        while let Some(gone) = self.hello.as_mut().and_then(|watch| watch.take_gone(now)) {
            self.break_link(now, gone, out);
        }
        if let Some(watch) = &mut self.hello
            && watch.take_due(now)
            && self.table.any_active(now)
        {
            let hello = RouteReply {
                ttl: 1,
                hops: 0,
                destination: self.me,
                destination_seq: self.seq,
                originator: self.me,
                lifetime: watch.lifetime(),
            };
            self.broadcast(now, Message::Reply(hello), Duration::ZERO, out);
        }
    }

    /// Holds a packet that the next hop did not take, and seeks another route (section 6.12), if this node is
    /// on the way and near enough to the destination. False if not.
    fn repair(&mut self, now: Instant, to: Node, data: Data, out: &mut Vec<RouteAction>) -> bool {
        let Data { source, destination, .. } = data;
        if !self.config.local_repair
            || source == self.me
            || self.discoveries.len() >= self.config.max_discoveries
        {
            return false;
        }
        if self.repairs.has(destination) {
            // One of several packets to the neighbour that is gone.
            self.held.push(data, out);
            return true;
        }
        if self.discoveries.iter().any(|discovery| discovery.destination == destination) {
            return false;
        }
        let to_source = self.table.known(now, source).map_or(0, |route| route.hops);
        let Some(hops) = self.table.active(now, destination).map(|route| route.hops) else { return false };
        if hops > self.config.max_repair_ttl() {
            return false;
        }
        let Some((_, precursors)) = self.table.invalidate(now, destination, to, None) else { return false };
        self.repairs.begin(Repair { destination, hops, precursors });
        self.held.push(data, out);
        let reach = Reach::Repair(self.config.repair_ttl(hops, to_source));
        self.discoveries.push(Discovery { destination, reach, phase: Phase::Postponed(now) });
        self.ask(now, self.discoveries.len() - 1, out);
        true
    }

    /// A local repair found no route: those who sent along the old one are told, and their packets dropped.
    /// Packets of this node's own begin a search.
    fn give_up_repair(&mut self, now: Instant, destination: Node, out: &mut Vec<RouteAction>) {
        let mut own = Vec::new();
        let me = self.me;
        self.held.take(destination, |data| match data.source == me {
            true => own.push(data),
            false => out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::NoRoute }),
        });
        if let Some(repair) = self.repairs.take(destination) {
            let seq = self.table.known(now, destination).and_then(|route| route.number.least());
            let mut report = Report::new();
            report.add(destination, seq, repair.precursors);
            self.announce(now, &mut report, out);
        }
        for data in own {
            self.hold(now, data, out);
        }
    }

    /// A local repair found a route: it has the precursors of the old one, who are told if it is longer.
    fn end_repair(&mut self, now: Instant, destination: Node, out: &mut Vec<RouteAction>) {
        let Some(repair) = self.repairs.take(destination) else { return };
        self.table.add_precursors(now, destination, repair.precursors);
        let Some(&route) = self.table.active(now, destination) else { return };
        if route.hops > repair.hops {
            let mut report = Report::new();
            report.error.no_delete = true;
            report.add(destination, route.number.least(), repair.precursors);
            self.announce(now, &mut report, out);
        }
    }

    /// Holds a packet of this node until its destination is found.
    fn hold(&mut self, now: Instant, data: Data, out: &mut Vec<RouteAction>) {
        let destination = data.destination;
        let sought = self.discoveries.iter().any(|discovery| discovery.destination == destination);
        if !sought && self.discoveries.len() >= self.config.max_discoveries {
            out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::BufferFull });
            return;
        }
        self.held.push(data, out);
        if !sought {
            self.discover(now, destination, out);
        }
    }

    /// Sends the request of the discovery at a place of the list, or postpones it.
    fn ask(&mut self, now: Instant, at: usize, out: &mut Vec<RouteAction>) {
        let Discovery { destination, reach, .. } = self.discoveries[at];
        if let Err(free) = self.requests.take(now) {
            self.discoveries[at].phase = Phase::Postponed(free);
            return;
        }
        self.discoveries[at].phase = Phase::Asked(now + reach.patience(&self.config));
        // Section 6.1: the number grows before each request.
        self.seq = self.seq.next();
        self.last_id = self.last_id.wrapping_add(1);
        let request = RouteRequest {
            ttl: reach.ttl(&self.config),
            hops: 0,
            id: self.last_id,
            destination,
            destination_seq: self.table.known(now, destination).and_then(|route| route.number.least()),
            originator: self.me,
            originator_seq: self.seq,
            gratuitous: self.config.gratuitous,
            destination_only: false,
        };
        self.broadcast(now, Message::Request(request), Duration::ZERO, out);
    }

    fn on_request(&mut self, now: Instant, from: Node, request: &RouteRequest, out: &mut Vec<RouteAction>) {
        let RouteRequest { destination, originator, .. } = *request;
        if originator == self.me {
            return;
        }
        self.learn_neighbour(now, from, out);
        if !self.seen.insert(now, originator, request.id) {
            return;
        }
        let hops = request.hops.saturating_add(1);
        let until = now + self.config.reverse_lifetime(hops);
        self.learn(now, (originator, request.originator_seq), (from, hops), until, out);
        if destination == self.me {
            // Section 6.1: not older than what the originator knows.
            self.seq = request.destination_seq.map_or(self.seq, |seq| self.seq.fresher(seq));
            let lifetime = self.config.my_route_timeout();
            self.reply(now, (destination, self.seq), 0, lifetime, originator, out);
        } else if !self.answer(now, from, request, out) && request.ttl > 1 {
            let known = self.table.known(now, destination).and_then(|route| route.number.least());
            let destination_seq = match (request.destination_seq, known) {
                (Some(asked), Some(known)) => Some(asked.fresher(known)),
                (asked, known) => asked.or(known),
            };
            let further = RouteRequest { ttl: request.ttl - 1, hops, destination_seq, ..*request };
            let after = self.config.jitter.mul_f64(self.jitter.unit());
            self.broadcast(now, Message::Request(further), after, out);
        }
    }

    /// Answers a request in the destination's place, if the route is fresh enough (section 6.6.2).
    fn answer(
        &mut self,
        now: Instant,
        from: Node,
        request: &RouteRequest,
        out: &mut Vec<RouteAction>,
    ) -> bool {
        let RouteRequest { destination, originator, .. } = *request;
        let Some(&route) = self.table.active(now, destination) else { return false };
        let Some(seq) = route.number.given() else { return false };
        let stale = request.destination_seq.is_some_and(|asked| asked.is_after(seq));
        if request.destination_only || stale || route.next == from {
            return false;
        }
        let Some(&back) = self.table.active(now, originator) else { return false };
        self.table.add_precursor(now, destination, back.next);
        self.table.add_precursor(now, originator, route.next);
        let lifetime = route.expires.since(now);
        self.reply(now, (destination, seq), route.hops, lifetime, originator, out);
        if request.gratuitous {
            // Section 6.6.3: as if the destination had asked for the originator. A floor of this node's is
            // above the number that the originator gave, which is told then.
            let seq = back.number.given().unwrap_or(request.originator_seq);
            let lifetime = back.expires.since(now);
            self.reply(now, (originator, seq), back.hops, lifetime, destination, out);
        }
        true
    }

    /// Tells `originator` of a route to a destination.
    fn reply(
        &mut self,
        now: Instant,
        (destination, destination_seq): (Node, SeqNo),
        hops: u8,
        lifetime: Duration,
        originator: Node,
        out: &mut Vec<RouteAction>,
    ) {
        let Some(to) = self.next_hop(now, originator) else { return };
        let ttl = self.config.net_diameter.max(1);
        let reply = RouteReply { ttl, hops, destination, destination_seq, originator, lifetime };
        out.push(unicast(Message::Reply(reply), to));
    }

    fn on_reply(&mut self, now: Instant, from: Node, reply: &RouteReply, out: &mut Vec<RouteAction>) {
        let RouteReply { destination, originator, .. } = *reply;
        if destination == self.me {
            return;
        }
        self.learn_neighbour(now, from, out);
        let hops = reply.hops.saturating_add(1);
        let until = now + reply.lifetime;
        let taken = self.learn(now, (destination, reply.destination_seq), (from, hops), until, out);
        if destination == from && originator == from {
            if let Some(watch) = &mut self.hello {
                watch.on_hello(now, from);
            }
            return;
        }
        if originator == self.me || reply.ttl <= 1 {
            return;
        }
        let (Some(&route), Some(to)) = (self.table.active(now, destination), self.next_hop(now, originator))
        else {
            // Who sent the answer keeps its route to the originator, which leads over this node.
            self.table.refresh(now, originator, now + self.config.active_route_timeout);
            return;
        };
        // If the offer was not taken, the route of this node is better; its receiver must not be its next
        // hop.
        if !taken && route.next == to {
            return;
        }
        // A floor is above the number that the destination gave in this answer, which goes on then.
        let destination_seq = route.number.given().unwrap_or(reply.destination_seq);
        self.table.add_precursor(now, destination, to);
        self.table.add_precursor(now, route.next, to);
        self.table.refresh(now, originator, now + self.config.active_route_timeout);
        let (ttl, lifetime) = (reply.ttl - 1, route.expires.since(now));
        let further =
            RouteReply { ttl, hops: route.hops, destination, destination_seq, originator, lifetime };
        out.push(unicast(Message::Reply(further), to));
    }

    fn on_error(&mut self, now: Instant, from: Node, error: &RouteError, out: &mut Vec<RouteAction>) {
        let mut report = Report::new();
        report.error.no_delete = error.no_delete;
        for unreachable in error.unreachable() {
            let Unreachable { destination, seq } = *unreachable;
            if error.no_delete {
                // Section 6.12: it is only passed on, along the route.
                let route = self.table.active(now, destination).filter(|route| route.next == from);
                if let Some(route) = route {
                    report.add(destination, Some(seq), route.precursors);
                }
                continue;
            }
            if let Some((seq, precursors)) = self.table.invalidate(now, destination, from, Some(seq)) {
                report.add(destination, seq, precursors);
            }
        }
        self.announce(now, &mut report, out);
    }

    /// Ends every route over a neighbour that is gone, and tells who used them (section 6.11).
    fn break_link(&mut self, now: Instant, to: Node, out: &mut Vec<RouteAction>) {
        let mut report = Report::new();
        for at in 0..self.table.len() {
            if let Some((destination, seq, precursors)) = self.table.invalidate_at(now, at, to, None) {
                report.add(destination, seq, precursors);
                if report.error.unreachable().len() == MAX_UNREACHABLE {
                    self.announce(now, &mut report, out);
                }
            }
        }
        self.announce(now, &mut report, out);
    }

    /// Sends a RERR if it names somebody and the rate allows it. One that the rate forbids is lost; the next
    /// packet that comes without a route causes another.
    fn announce(&mut self, now: Instant, report: &mut Report, out: &mut Vec<RouteAction>) {
        let Report { error, to } = core::mem::replace(report, Report::new());
        if to == Precursors::None || self.errors.take(now).is_err() {
            return;
        }
        match to {
            Precursors::One(node) => out.push(unicast(Message::Error(error), node)),
            Precursors::None | Precursors::Many => {
                let after = self.config.jitter.mul_f64(self.jitter.unit());
                self.broadcast(now, Message::Error(error), after, out);
            }
        }
    }

    fn broadcast(&mut self, now: Instant, message: Message, after: Duration, out: &mut Vec<RouteAction>) {
        if let Some(watch) = &mut self.hello {
            watch.on_broadcast(now);
        }
        out.push(RouteAction::Control { message, to: None, channel: None, after });
    }

    fn learn_neighbour(&mut self, now: Instant, node: Node, out: &mut Vec<RouteAction>) {
        self.table.neighbour(now, node, now + self.config.active_route_timeout);
        self.release(now, node, out);
    }

    /// Offers a route to the table; if a packet waited for it, it goes.
    fn learn(
        &mut self,
        now: Instant,
        (destination, seq): (Node, SeqNo),
        hop: (Node, u8),
        until: Instant,
        out: &mut Vec<RouteAction>,
    ) -> bool {
        let taken = self.table.offer(now, destination, seq, hop, until);
        self.release(now, destination, out);
        taken
    }

    /// Ends the search for `destination` if there is a route, and lets its packets go.
    fn release(&mut self, now: Instant, destination: Node, out: &mut Vec<RouteAction>) {
        let Some(at) = self.discoveries.iter().position(|discovery| discovery.destination == destination)
        else {
            return;
        };
        let Some(to) = self.next_hop(now, destination) else { return };
        self.discoveries.remove(at);
        self.table.refresh(now, destination, now + self.config.active_route_timeout);
        self.end_repair(now, destination, out);
        self.held.take(destination, |data| {
            out.push(RouteAction::Send { packet: data.packet, to, channel: None });
        });
    }
}

fn unicast(message: Message, to: Node) -> RouteAction {
    RouteAction::Control { message, to: Some(to), channel: None, after: Duration::ZERO }
}
