//! The packets in flight: a slab, so that queues hold 8-byte tokens and slots are used again.
//!
//! A [`PacketId`] is the slot number in its low 32 bits and the slot's generation above, so a token that
//! outlives its packet is caught in debug builds instead of naming somebody else's packet.

use linkhold_core::packet::{Direction, Ecn, PacketId, StationId, TcpSegment};
use linkhold_core::time::Instant;
use linkhold_core::units::Seq;

use crate::flow::{FlowIndex, FlowInfo};
use crate::path::HopIndex;

/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER: u32 = 8;
/// Bytes of a TCP header without options (RFC 9293 section 3.1).
pub const TCP_HEADER: u32 = 20;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// A segment of TCP.
    Segment,
    /// A mechanism's report to the other end of the radio, in the form of a segment: what has come through is
    /// in the acknowledgment number and the SACK blocks. No host gets it.
    Report,
    /// A datagram of UDP: its number (from 0) is the segment's sequence number, and its payload the
    /// segment's; nothing else of the segment counts, and no mechanism sees of it more than its length.
    Datagram,
}

impl PacketKind {
    /// Bytes of the transport's header, without options.
    #[must_use]
    pub const fn transport_header(self) -> u32 {
        match self {
            Self::Segment | Self::Report => TCP_HEADER,
            Self::Datagram => UDP_HEADER,
        }
    }
}

/// A packet somewhere between its two ends.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its TCP header; for other kinds, see [`PacketKind`].
    pub segment: TcpSegment,
    /// When its sender sent it (this copy of it).
    pub sent_at: Instant,
    /// When it left the air, for data that goes up and has done so: a wire may be longer than silences are
    /// apart. What goes down is at its host then.
    pub left_air: Instant,
    /// Its flow.
    pub flow: FlowIndex,
    /// Where it stands.
    pub hop: HopIndex,
    /// The station at the radio end.
    pub station: StationId,
    /// Length on the wire from the IP header on, bytes.
    pub len: u32,
    /// Which way it crosses.
    pub direction: Direction,
    /// ECN field of its IP header.
    pub ecn: Ecn,
    /// True while a mechanism holds it, or keeps it as a copy.
    pub held: bool,
    /// What it is.
    pub kind: PacketKind,
    /// Its sender has sent these bytes before.
    pub retransmit: bool,
    /// A silence of its station went on at some time before it left the air; known with `left_air`.
    pub met_silence: bool,
}

/// What a sender states of a packet that it sends.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Its flow.
    pub flow: FlowIndex,
    /// Which way it goes.
    pub direction: Direction,
    /// Its TCP header.
    pub segment: TcpSegment,
    /// ECN field of its IP header.
    pub ecn: Ecn,
    /// Its sender has sent these bytes before.
    pub retransmit: bool,
}

/// What a sender states of a datagram that it sends.
#[derive(Clone, Copy, Debug)]
pub struct SendingDatagram {
    /// Its flow.
    pub flow: FlowIndex,
    /// Which way it goes.
    pub direction: Direction,
    /// Its number in the flow, from 0.
    pub number: u32,
    /// Bytes of payload.
    pub payload_len: u32,
}

impl Packet {
    /// A datagram of the flow `info` as its sender sends it at `now`, standing at `hop`.
    #[must_use]
    pub fn datagram(now: Instant, hop: HopIndex, info: &FlowInfo, sending: &SendingDatagram) -> Self {
        let SendingDatagram { flow, direction, number, payload_len } = *sending;
        let segment = TcpSegment { seq: Seq(number), payload_len, ..TcpSegment::default() };
        let sending = Sending { flow, direction, segment, ecn: Ecn::NotEct, retransmit: false };
        let len = info.ip_header + UDP_HEADER + payload_len;
        Self { kind: PacketKind::Datagram, len, ..Self::new(now, hop, info, &sending) }
    }

    /// A packet of the flow `info` as its sender sends it at `now`, standing at `hop`.
    #[must_use]
    #[inline]
    pub fn new(now: Instant, hop: HopIndex, info: &FlowInfo, sending: &Sending) -> Self {
        let Sending { flow, direction, segment, ecn, retransmit } = *sending;
        let len = info.ip_header + segment.header_len() + segment.payload_len;
        let station = info.station;
        Self {
            segment,
            sent_at: now,
            left_air: now,
            flow,
            hop,
            station,
            len,
            direction,
            ecn,
            held: false,
            kind: PacketKind::Segment,
            retransmit,
            met_silence: false,
        }
    }
}

#[derive(Debug)]
struct Slot {
    /// `None` while free.
    packet: Option<Packet>,
    generation: u32,
}

/// All packets in flight.
#[derive(Debug, Default)]
pub struct PacketSlab {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// The slot number of a token: no two packets inside have the same, so that a driver can keep something
/// beside each.
#[must_use]
pub const fn slot_of(id: PacketId) -> usize {
    (id.0 & u32::MAX as u64) as usize
}

fn generation_of(id: PacketId) -> u32 {
    (id.0 >> 32) as u32
}

impl PacketSlab {
    /// An empty slab.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a packet in.
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            debug_assert!(slot.packet.is_none(), "a free slot holds a packet");
            slot.packet = Some(packet);
            return PacketId(u64::from(slot.generation) << 32 | u64::from(index));
        }
        let index = self.slots.len() as u64;
        self.slots.push(Slot { packet: Some(packet), generation: 0 });
        PacketId(index)
    }

    /// The packet of a token.
    ///
    /// # Panics
    /// If the packet has left: a bug of the engine or of a mechanism that names a packet twice.
    #[must_use]
    pub fn get(&self, id: PacketId) -> &Packet {
        let slot = &self.slots[slot_of(id)];
        debug_assert_eq!(slot.generation, generation_of(id), "a token outlived its packet");
        slot.packet.as_ref().expect("a packet in flight is in the slab until it is removed once")
    }

    /// The packet of a token, to change.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        let slot = &mut self.slots[slot_of(id)];
        debug_assert_eq!(slot.generation, generation_of(id), "a token outlived its packet");
        slot.packet.as_mut().expect("a packet in flight is in the slab until it is removed once")
    }

    /// True if the token names a packet in flight.
    #[must_use]
    pub fn contains(&self, id: PacketId) -> bool {
        self.slots
            .get(slot_of(id))
            .is_some_and(|slot| slot.packet.is_some() && slot.generation == generation_of(id))
    }

    /// Takes a packet out; its token is dead from here on.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn remove(&mut self, id: PacketId) -> Packet {
        let slot = &mut self.slots[slot_of(id)];
        debug_assert_eq!(slot.generation, generation_of(id), "a token outlived its packet");
        let packet = slot.packet.take().expect("a packet in flight is in the slab until it is removed once");
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(slot_of(id) as u32);
        packet
    }

    /// The packets in flight, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.slots.iter().filter_map(|slot| slot.packet.as_ref())
    }

    /// Packets in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(len: u32) -> Packet {
        Packet {
            segment: TcpSegment::default(),
            sent_at: Instant::ZERO,
            left_air: Instant::ZERO,
            flow: FlowIndex(0),
            hop: HopIndex::default(),
            station: StationId(0),
            len,
            direction: Direction::Downlink,
            ecn: Ecn::NotEct,
            held: false,
            kind: PacketKind::Segment,
            retransmit: false,
            met_silence: false,
        }
    }

    #[test]
    fn slots_are_reused_under_new_tokens() {
        let mut slab = PacketSlab::new();
        let first = slab.insert(packet(1));
        let second = slab.insert(packet(2));
        assert_eq!(slab.remove(first).len, 1);
        let third = slab.insert(packet(3));
        assert_ne!(first, third);
        assert_eq!((slab.get(second).len, slab.get(third).len, slab.len()), (2, 3, 2));
        assert!(!slab.contains(first) && slab.contains(third));
    }

    #[test]
    #[should_panic(expected = "outlived")]
    fn a_token_that_outlives_its_packet_is_caught() {
        let mut slab = PacketSlab::new();
        let id = slab.insert(packet(1));
        slab.remove(id);
        slab.insert(packet(2));
        let _ = slab.get(id);
    }
}
