//! Routes across the mesh, sans-IO: one router a node, which is told of packets, messages and broken links,
//! and answers with actions.
//!
//! Source: RFC 3561 (AODV, `aodv/`); crahn section 4 names SEARCH (`search/`).
//!
//! # The driver's contract
//!
//! - Time never goes back between two calls on one router. After every call the driver carries out all
//!   actions, in their order, and asks [`Router::next`] when [`Router::on_timeout`] is due.
//! - A packet for the node itself is the driver's to deliver. Every other packet that a router is given comes
//!   back exactly once, at once or later, as [`RouteAction::Send`] or [`RouteAction::Drop`]. What the MAC
//!   could not send is given again, with [`Router::on_failure`], and comes back likewise.
//! - The driver counts a data packet's hops and drops it at 64 or so: routers keep no list of packets that
//!   passed.
//! - When the MAC gives up a frame, the driver calls [`Router::on_failure`] for it, and, where the router
//!   [`finds_ways`](Router::finds_ways), for each packet that waits in the MAC's queue for the same neighbour
//!   (ns-2 drops them).

mod action;
pub mod aodv;
mod held;
pub mod message;
mod rate;
pub mod search;
mod seqno;
mod surroundings;

use linkhold_core::time::Instant;

use crate::Node;
pub use action::{Data, RouteAction, RouteDrop};
pub use aodv::{Aodv, AodvConfig};
pub use held::Sizes;
pub use message::Message;
pub use search::{Search, SearchConfig};
pub use seqno::SeqNo;
pub use surroundings::{Neighbour, Surroundings};

/// A node's router.
#[derive(Clone, Debug)]
pub enum Router {
    /// RFC 3561.
    Aodv(Box<Aodv>),
    /// The geographic one for cognitive radios.
    Search(Box<Search>),
    /// Every destination is a neighbour.
    Direct,
}

impl Router {
    /// A data packet of this node (`from` is `None`) or one to pass on, which came from the neighbour `from`.
    pub fn on_packet<S: Surroundings>(
        &mut self,
        now: Instant,
        data: Data,
        from: Option<Node>,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        match self {
            Self::Aodv(aodv) => aodv.on_packet(now, data, from, out),
            Self::Search(search) => search.on_packet(now, data, from, around, out),
            Self::Direct => {
                out.push(RouteAction::Send { packet: data.packet, to: data.destination, channel: None });
            }
        }
    }

    /// A message of the neighbour `from`.
    pub fn on_message<S: Surroundings>(
        &mut self,
        now: Instant,
        from: Node,
        message: &Message,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        match (self, message) {
            (Self::Aodv(aodv), message) => aodv.on_message(now, from, message, out),
            (Self::Search(search), Message::Search(message)) => {
                search.on_message(now, from, message, around, out);
            }
            (Self::Search(_) | Self::Direct, _) => {}
        }
    }

    /// The MAC gave up a frame to `to`: with a data packet in it, or a message of the router.
    pub fn on_failure<S: Surroundings>(
        &mut self,
        now: Instant,
        to: Node,
        data: Option<Data>,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        match (self, data) {
            (Self::Aodv(aodv), data) => aodv.on_failure(now, to, data, out),
            (Self::Search(search), data) => search.on_failure(now, to, data, around, out),
            (Self::Direct, Some(data)) => {
                out.push(RouteAction::Drop { packet: data.packet, reason: RouteDrop::LinkBroken });
            }
            (Self::Direct, None) => {}
        }
    }

    /// True if a neighbour that does not take a packet is taken for gone, and other ways are looked for.
    #[must_use]
    pub const fn finds_ways(&self) -> bool {
        !matches!(self, Self::Direct)
    }

    /// A layer above waits for a route to `destination`, and sends nothing until there is one.
    pub fn seek<S: Surroundings>(
        &mut self,
        now: Instant,
        destination: Node,
        around: &S,
        out: &mut Vec<RouteAction>,
    ) {
        match self {
            Self::Aodv(aodv) => aodv.seek(now, destination, out),
            Self::Search(search) => search.seek(now, destination, around, out),
            Self::Direct => {}
        }
    }

    /// A frame of `from` was heard, or one to it was acknowledged.
    pub fn on_heard(&mut self, now: Instant, from: Node) {
        match self {
            Self::Aodv(aodv) => aodv.on_heard(now, from),
            Self::Search(_) | Self::Direct => {}
        }
    }

    /// When [`Router::on_timeout`] is due.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        match self {
            Self::Aodv(aodv) => aodv.next(),
            Self::Search(search) => search.next(),
            Self::Direct => None,
        }
    }

    /// Time has come to `now`.
    pub fn on_timeout<S: Surroundings>(&mut self, now: Instant, around: &S, out: &mut Vec<RouteAction>) {
        match self {
            Self::Aodv(aodv) => aodv.on_timeout(now, out),
            Self::Search(search) => search.on_timeout(now, around, out),
            Self::Direct => {}
        }
    }

    /// Where a packet from `source` to `destination` would go now, if a route is known.
    #[must_use]
    pub fn next_hop(&self, now: Instant, source: Node, destination: Node) -> Option<Node> {
        match self {
            Self::Aodv(aodv) => aodv.next_hop(now, destination),
            Self::Search(search) => search.next_hop(now, source, destination),
            Self::Direct => Some(destination),
        }
    }
}
