//! The messages of SEARCH, with their lengths on the wire.
//!
//! Source: Chowdhury and Di Felice (2009) list what a request gathers: node, place, time and a flag at each
//! hop. The paper gives no formats that we know of, so the lengths are our reading: 4 bytes for a node, an id
//! or a time, 8 for a place, 1 for a channel or a flag.

use linkhold_core::time::Instant;

use crate::routing::seqno::SeqNo;
use crate::{Node, Point};

/// Most hops of a path. A request that went further is dropped.
pub const MAX_HOPS: usize = 32;

/// A message from one SEARCH router to another.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchMessage {
    /// Looks for the destination.
    Request(Box<SearchRequest>),
    /// Goes back from the destination over the path that it chose.
    Reply(Box<SearchReply>),
    /// Goes back to the source of a route that broke.
    Error(SearchError),
}

/// How a request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Straight to the destination, from focus region to focus region.
    Greedy,
    /// Around a region without relays, keeping it on the right.
    AvoidLeft,
    /// Around it, keeping it on the left.
    AvoidRight,
    /// To every neighbour, on every channel that is free: the last attempt.
    Flood,
}

/// A node that a request passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    /// The node.
    pub node: Node,
    /// Where it was.
    pub place: Point,
    /// When it sent the request on.
    pub at: Instant,
    /// The channel on which it did.
    pub channel: u8,
    /// An anchor: here the request began to go around a region, or was straight again.
    pub anchor: bool,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    /// IP's time to live.
    pub ttl: u8,
    /// Numbers the searches of one source.
    pub id: SeqNo,
    /// The node that seeks.
    pub source: Node,
    /// The node that is sought.
    pub destination: Node,
    /// Where the source believes it to be; `None` if it does not know.
    pub place: Option<Point>,
    /// The channel on which this copy is sent. Only one that goes to everybody ever changes it.
    pub channel: u8,
    /// How it goes on.
    pub phase: Phase,
    /// Nearer than this to the destination, metres, the request goes straight again: the distance of the node
    /// where it had to begin to go around.
    pub leave_within: f64,
    /// The nodes behind it, the source first.
    pub path: Vec<Hop>,
}

/// A hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The node.
    pub node: Node,
    /// The channel from here to the next node; of no meaning at the destination.
    pub channel: u8,
    /// See [`Hop::anchor`].
    pub anchor: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchReply {
    /// The search that it answers.
    pub id: SeqNo,
    /// The receiver's place in the path.
    pub at: u8,
    /// The whole path, from the source to the destination.
    pub path: Vec<Step>,
}

/// A broken route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchError {
    /// The route's source.
    pub source: Node,
    /// The route's destination.
    pub destination: Node,
    /// The search that found it; `None` if the sender does not remember it.
    pub id: Option<SeqNo>,
}

impl SearchMessage {
    /// Bytes behind the headers of IP and UDP.
    #[must_use]
    pub fn len(&self) -> u32 {
        match self {
            // Type, phase, channel, count; id, source, destination, distance; place; a hop: node, place,
            // time, channel, flag.
            Self::Request(request) => 4 + 16 + 8 + 18 * request.path.len() as u32,
            // Type, index, count, reserved; id; a step: node, channel, flag.
            Self::Reply(reply) => 4 + 4 + 6 * reply.path.len() as u32,
            Self::Error(_) => 4 + 12,
        }
    }

    /// Never: a message has a type.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// IP's time to live.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        match self {
            Self::Request(request) => request.ttl,
            Self::Reply(_) | Self::Error(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_grow_with_the_path() {
        let hop =
            Hop { node: Node(0), place: Point::default(), at: Instant::ZERO, channel: 0, anchor: false };
        let request = SearchRequest {
            ttl: 32,
            id: SeqNo(1),
            source: Node(0),
            destination: Node(1),
            place: None,
            channel: 0,
            phase: Phase::Greedy,
            leave_within: 0.0,
            path: vec![hop; 3],
        };
        assert_eq!(SearchMessage::Request(Box::new(request)).len(), 82);
        let step = Step { node: Node(0), channel: 0, anchor: false };
        let reply = SearchReply { id: SeqNo(1), at: 0, path: vec![step; 4] };
        assert_eq!(SearchMessage::Reply(Box::new(reply)).len(), 32);
        let error = SearchError { source: Node(0), destination: Node(1), id: None };
        assert_eq!(SearchMessage::Error(error).len(), 16);
    }
}
