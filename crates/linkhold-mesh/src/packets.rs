//! The packets inside a mesh, by token.

use linkhold_core::packet::PacketId;
use linkhold_core::time::Instant;
use linkhold_radio::Frame;

use crate::node::Node;
use crate::routing::{Data, Message};

/// What a packet carries.
#[derive(Clone, Debug)]
pub(crate) enum Cargo {
    /// A packet of the driver's.
    Data(Frame),
    /// A message of the routing protocol.
    Control(Message),
}

/// A packet at a node.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) cargo: Cargo,
    pub(crate) source: Node,
    pub(crate) destination: Node,
    /// The next hop it was queued for; `None`: all that hear it.
    pub(crate) to: Option<Node>,
    /// The channel that its router chose for it, or the one that this copy of a broadcast is for. Only where
    /// nodes have a channel each.
    pub(crate) channel: Option<u8>,
    /// When its source sent it.
    pub(crate) since: Instant,
    /// Hops that it has come over.
    pub(crate) hops: u8,
    /// Data: the next hop has it. Only the acknowledgment is missing.
    pub(crate) arrived: bool,
}

impl Packet {
    /// What a router sees of it.
    pub(crate) fn as_data(&self, id: PacketId) -> Data {
        Data { packet: id, source: self.source, destination: self.destination, since: self.since }
    }

    pub(crate) const fn is_data(&self) -> bool {
        matches!(self.cargo, Cargo::Data(_))
    }

    /// Bytes from the IP header on.
    pub(crate) fn len(&self) -> u32 {
        match &self.cargo {
            Cargo::Data(frame) => frame.len,
            Cargo::Control(message) => message.len(),
        }
    }
}

/// Packets by token. A token is given again once its packet is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packets {
    places: Vec<Option<Packet>>,
    free: Vec<u32>,
}

impl Packets {
    pub(crate) fn insert(&mut self, packet: Packet) -> PacketId {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(packet);
                PacketId(u64::from(place))
            }
            None => {
                self.places.push(Some(packet));
                PacketId(self.places.len() as u64 - 1)
            }
        }
    }

    pub(crate) fn get(&self, id: PacketId) -> Option<&Packet> {
        self.places.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: PacketId) -> Option<&mut Packet> {
        self.places.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, id: PacketId) -> Option<Packet> {
        let packet = self.places.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0 as u32);
        Some(packet)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
