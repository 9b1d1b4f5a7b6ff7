//! The messages of routers: AODV's, and SEARCH's from its own file, with their lengths on the wire.
//!
//! Source: RFC 3561, sections 5.1 to 5.3 (formats), over UDP (port 654) and IPv4.

use linkhold_core::time::Duration;

use super::search::message::SearchMessage;
use super::seqno::SeqNo;
use crate::Node;

/// Bytes of the headers of IPv4 (without options) and UDP before each message.
pub const HEADERS: u32 = 20 + 8;
/// Most destinations that one RERR of ours names; more of them become more messages.
pub const MAX_UNREACHABLE: usize = 8;

/// A message from router to router.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// RREQ.
    Request(RouteRequest),
    /// RREP; with `destination` the sender and `ttl` 1 it is a HELLO (section 6.9).
    Reply(RouteReply),
    /// RERR.
    Error(RouteError),
    /// One of SEARCH.
    Search(SearchMessage),
    /// A node's, after it sensed. No router sends or reads it: it is a message here because it waits and goes
    /// as one.
    Beacon(Beacon),
}

/// What a node tells its neighbours after it sensed, where nodes have a channel each. Its home channel and
/// its next silence are in its frame, as in each data frame. A format of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// The channels on which it found no primary user lately: bit `c` for channel `c`, counted over all
    /// bands.
    pub free_channels: u64,
}

/// RREQ, section 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRequest {
    /// IP's time to live: the nodes that may still pass it on, plus one.
    pub ttl: u8,
    /// Hops behind it.
    pub hops: u8,
    /// Numbers the requests of one originator.
    pub id: u32,
    /// The node that is sought.
    pub destination: Node,
    /// The freshest number known of it; `None` is the U flag.
    pub destination_seq: Option<SeqNo>,
    /// The node that seeks.
    pub originator: Node,
    /// Its own number.
    pub originator_seq: SeqNo,
    /// The G flag: who answers for the destination tells the destination too.
    pub gratuitous: bool,
    /// The D flag: only the destination answers.
    pub destination_only: bool,
}

/// RREP, section 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteReply {
    /// IP's time to live.
    pub ttl: u8,
    /// Hops from the sender to the destination.
    pub hops: u8,
    /// The node to which this is a route.
    pub destination: Node,
    /// Its number.
    pub destination_seq: SeqNo,
    /// The node that asked.
    pub originator: Node,
    /// How long the route is good for.
    pub lifetime: Duration,
}

/// RERR, section 5.3. Its time to live is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteError {
    /// The N flag: the sender repaired the routes itself (section 6.12), and nobody deletes them.
    pub no_delete: bool,
    list: [Unreachable; MAX_UNREACHABLE],
    len: u8,
}

/// A destination that the sender of a RERR no longer reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The destination.
    pub destination: Node,
    /// Its number. One that is not known is 0, which any receiver takes for old.
    pub seq: SeqNo,
}

impl RouteError {
    /// One that names nobody yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            no_delete: false,
            list: [Unreachable { destination: Node(0), seq: SeqNo(0) }; MAX_UNREACHABLE],
            len: 0,
        }
    }

    /// Names one more; false if there is no room.
    pub fn push(&mut self, unreachable: Unreachable) -> bool {
        let Some(slot) = self.list.get_mut(usize::from(self.len)) else { return false };
        *slot = unreachable;
        self.len += 1;
        true
    }

    /// The destinations.
    #[must_use]
    pub fn unreachable(&self) -> &[Unreachable] {
        &self.list[..usize::from(self.len)]
    }
}

impl Default for RouteError {
    fn default() -> Self {
        Self::new()
    }
}

impl Message {
    /// Bytes on the wire, from the IP header on.
    #[must_use]
    pub fn len(&self) -> u32 {
        HEADERS
            + match self {
                Self::Request(_) => 24,
                Self::Reply(_) => 20,
                Self::Error(error) => 4 + 8 * u32::from(error.len),
                Self::Search(message) => message.len(),
                Self::Beacon(_) => 8,
            }
    }

    /// Never: a message has headers.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// IP's time to live.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        match self {
            Self::Request(request) => request.ttl,
            Self::Reply(reply) => reply.ttl,
            Self::Error(_) | Self::Beacon(_) => 1,
            Self::Search(message) => message.ttl(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_rfc() {
        let request = RouteRequest {
            ttl: 5,
            hops: 0,
            id: 0,
            destination: Node(1),
            destination_seq: None,
            originator: Node(0),
            originator_seq: SeqNo(0),
            gratuitous: false,
            destination_only: false,
        };
        let reply = RouteReply {
            ttl: 1,
            hops: 0,
            destination: Node(1),
            destination_seq: SeqNo(0),
            originator: Node(0),
            lifetime: Duration::ZERO,
        };
        let mut error = RouteError::new();
        for seq in 0..MAX_UNREACHABLE as u32 {
            assert_eq!(Message::Error(error).len(), 28 + 4 + 8 * seq);
            assert!(error.push(Unreachable { destination: Node(seq), seq: SeqNo(seq) }));
        }
        assert!(!error.push(Unreachable { destination: Node(9), seq: SeqNo(9) }));
        assert_eq!(error.unreachable().len(), MAX_UNREACHABLE);
        assert_eq!((Message::Request(request).len(), Message::Reply(reply).len()), (52, 48));
        assert_eq!((Message::Request(request).ttl(), Message::Error(error).ttl()), (5, 1));
    }
}
