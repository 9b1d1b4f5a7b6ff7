//! Packet bytes inside the testbed's engine: fixed buffers, reused, named by [`PacketId`].

use linkhold_core::packet::PacketId;
use linkhold_core::time::Instant;

use super::tun::MTU;

/// One packet on its way through the engine.
pub struct Held {
    /// Its bytes, from the IP header on.
    pub bytes: [u8; MTU as usize],
    /// How many of them are used.
    pub len: u16,
    /// When the engine read it.
    pub read_at: Instant,
}

/// Buffers, grown on demand up to a bound and reused.
pub struct Packets {
    slots: Vec<Held>,
    free: Vec<u32>,
    limit: usize,
}

impl Packets {
    /// No packets; at most `limit` at once.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit }
    }

    /// Takes a copy of `bytes`; `None` if it is longer than an MTU or `limit` packets are inside.
    pub fn insert(&mut self, bytes: &[u8], read_at: Instant) -> Option<PacketId> {
        if bytes.len() > usize::from(MTU) {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.limit => {
                self.slots.push(Held { bytes: [0; MTU as usize], len: 0, read_at });
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.bytes[..bytes.len()].copy_from_slice(bytes);
        slot.len = bytes.len() as u16;
        slot.read_at = read_at;
        Some(PacketId(u64::from(index)))
    }

    /// The packet's bytes.
    #[must_use]
    pub fn bytes(&self, id: PacketId) -> &[u8] {
        self.slots.get(id.0 as usize).map_or(&[], |slot| &slot.bytes[..usize::from(slot.len)])
    }

    /// The packet's bytes, to change.
    pub fn bytes_mut(&mut self, id: PacketId) -> &mut [u8] {
        self.slots.get_mut(id.0 as usize).map_or(&mut [], |slot| &mut slot.bytes[..usize::from(slot.len)])
    }

    /// Gives the buffer back.
    pub fn remove(&mut self, id: PacketId) {
        self.free.push(id.0 as u32);
    }

    /// Packets inside.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
