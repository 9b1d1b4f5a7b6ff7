//! Bytes of the packets inside the testbed's network, each beside the network's own record of the packet.

use linkhold_core::packet::PacketId;
use linkhold_sim::slab::slot_of;

use super::tun::MTU;

struct Buffer {
    bytes: [u8; MTU as usize],
    len: u16,
}

/// Buffers by the slot that the network gave the packet. A slot that is used again overwrites its buffer, so
/// nothing has to be freed; there are as many as packets were ever inside at once.
#[derive(Default)]
pub struct Packets {
    buffers: Vec<Buffer>,
}

impl Packets {
    /// Keeps a copy of a packet's bytes; false if they are longer than an MTU.
    pub fn keep(&mut self, id: PacketId, bytes: &[u8]) -> bool {
        let slot = slot_of(id);
        while self.buffers.len() <= slot {
            self.buffers.push(Buffer { bytes: [0; MTU as usize], len: 0 });
        }
        let (Some(buffer), Ok(len)) = (self.buffers.get_mut(slot), u16::try_from(bytes.len())) else {
            return false;
        };
        let Some(room) = buffer.bytes.get_mut(..bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        buffer.len = len;
        true
    }

    /// The packet's bytes, to change.
    pub fn bytes_mut(&mut self, id: PacketId) -> &mut [u8] {
        match self.buffers.get_mut(slot_of(id)) {
            Some(buffer) => buffer.bytes.get_mut(..usize::from(buffer.len)).unwrap_or_default(),
            None => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_used_again_holds_the_new_packet() {
        let mut packets = Packets::default();
        assert!(packets.keep(PacketId(3), b"first"));
        assert!(packets.keep(PacketId(0), b"other"));
        // The same slot in its next generation.
        assert!(packets.keep(PacketId(1 << 32 | 3), b"2nd"));
        assert_eq!(packets.bytes_mut(PacketId(1 << 32 | 3)), b"2nd");
        assert_eq!(packets.bytes_mut(PacketId(0)), b"other");
        assert!(packets.bytes_mut(PacketId(9)).is_empty());
        assert!(!packets.keep(PacketId(1), &[0; MTU as usize + 1]), "longer than an MTU");
    }
}
