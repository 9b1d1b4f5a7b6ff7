//! What a router asks of its driver.

use linkhold_core::packet::PacketId;
use linkhold_core::time::{Duration, Instant};

use super::message::Message;
use crate::Node;

/// A data packet, as a router sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The driver's token.
    pub packet: PacketId,
    /// The node that sent it first.
    pub source: Node,
    /// The node that it is for.
    pub destination: Node,
    /// When its source sent it.
    pub since: Instant,
}

/// A packet of a node's own is kept for a new route (`salvage`) for so long after it was sent, and then
/// dropped: ns-2's queue of packets that wait for routes keeps them so long. On a lossy hop it would
/// otherwise be kept for ever.
pub(super) const SALVAGED_FOR: Duration = Duration::from_secs(30);

impl Data {
    /// The node may keep the packet, which its next hop did not take.
    pub(super) fn is_kept(&self, now: Instant, me: Node) -> bool {
        self.source == me && now.since(self.since) < SALVAGED_FOR
    }
}

/// What the driver does, in the order of the list.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteAction {
    /// Hand a data packet to the MAC.
    Send {
        /// The packet.
        packet: PacketId,
        /// The next hop.
        to: Node,
        /// The channel that the route has on this hop; `None` for the one that both nodes are on.
        channel: Option<u8>,
    },
    /// Send a message of the router.
    Control {
        /// The message. The driver puts [`Message::len`] bytes on the air.
        message: Message,
        /// Its receiver; `None` for every neighbour.
        to: Option<Node>,
        /// The channel; `None` for the one that the node is on.
        channel: Option<u8>,
        /// How long to wait first, so that neighbours that answer one broadcast do not collide.
        after: Duration,
    },
    /// Forget a data packet.
    Drop {
        /// The packet.
        packet: PacketId,
        /// Why.
        reason: RouteDrop,
    },
}

/// Why a router gives up a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteDrop {
    /// A node on the way has no route any more.
    NoRoute,
    /// Discovery found no route.
    Unreachable,
    /// Too many packets, or too many destinations, wait for a route.
    BufferFull,
    /// The next hop did not take it.
    LinkBroken,
    /// It is for this node, so there is nothing to route. The driver delivers such packets itself.
    AtDestination,
}
