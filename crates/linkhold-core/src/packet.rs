//! A packet as a mechanism sees it: header fields and identity, never payload bytes.
//!
//! A TCP packet is a [`PacketView`]; a datagram of UDP, of which nothing but addresses and length can be
//! read, a [`DatagramView`].
//!
//! The driver owns the packet; a mechanism that wants to keep one remembers its [`PacketId`]. The same types
//! describe simulated segments and packets parsed from a wire, so a mechanism cannot tell the two apart.

use core::cmp::Ordering;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::units::Seq;

/// The driver's token for one packet. A driver never has two live packets with one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PacketId(pub u64);

/// A wireless station (the paper's spectrum-agile host, SH), numbered by the driver from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StationId(pub u32);

/// Which way a packet crosses the base station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the correspondent host (CH, on the wire) to the station (SH, on the radio).
    Downlink,
    /// From the station to the correspondent host.
    Uplink,
}

impl Direction {
    /// The other way.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Downlink => Self::Uplink,
            Self::Uplink => Self::Downlink,
        }
    }
}

/// Where the driver took the packet from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// It arrived at the base station from the network.
    Arrival,
    /// It sat in the transmit queue and was taken back on
    /// [`Action::Reclaim`](crate::action::Action::Reclaim).
    TransmitQueue,
}

/// One end of a TCP connection, or of a flow of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// IPv4 or IPv6 address.
    pub addr: IpAddr,
    /// TCP or UDP port.
    pub port: u16,
}

/// A TCP connection across the base station, the same key for both directions. A flow of UDP datagrams has a
/// key of the same form; a connection and a flow of datagrams with equal keys are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowKey {
    /// The end on the wired side (correspondent host, CH).
    pub correspondent: Endpoint,
    /// The end on the radio side (station, SH).
    pub station: Endpoint,
}

/// TCP header flags (RFC 9293 section 3.1), as the bits of the header's byte 13.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field is valid.
    pub const ACK: Self = Self(0x10);
    /// Urgent.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// True if every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any flag of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets of flags.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl core::ops::BitOr for TcpFlags {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        self.union(rhs)
    }
}

/// The IP header's ECN field (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ecn {
    /// 00: the transport does not use ECN.
    #[default]
    NotEct,
    /// 01: ECN-capable transport, codepoint 1.
    Ect1,
    /// 10: ECN-capable transport, codepoint 0.
    Ect0,
    /// 11: congestion experienced.
    Ce,
}

/// The timestamps option (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TcpTimestamp {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the value it echoes.
    pub echo: u32,
}

impl TcpTimestamp {
    /// Whether it echoes a value before this one (`Less`), this very one, or a later one; clocks wrap around.
    #[must_use]
    pub fn echo_against(self, value: u32) -> Ordering {
        (self.echo.wrapping_sub(value) as i32).cmp(&0)
    }
}

/// One SACK block (RFC 2018 section 3): bytes `left .. right` have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub left: Seq,
    /// Sequence number just after the block.
    pub right: Seq,
}

/// Up to four SACK blocks, in the order of the option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SackBlocks {
    blocks: [SackBlock; 4],
    len: u8,
}

impl SackBlocks {
    /// No block.
    pub const EMPTY: Self = Self { blocks: [SackBlock { left: Seq(0), right: Seq(0) }; 4], len: 0 };

    /// Adds a block at the end; false, and nothing added, if four are there already.
    pub fn push(&mut self, block: SackBlock) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = block;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Largest shift of a window; a larger one counts as this (RFC 7323 section 2.3).
pub const MAX_WINDOW_SHIFT: u8 = 14;

/// Options that only a SYN carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SynOptions {
    /// Maximum segment size, bytes (RFC 9293 section 3.7.1).
    pub mss: Option<u16>,
    /// Window scale shift, 0 to 14 (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// SACK-permitted (RFC 2018 section 2).
    pub sack_permitted: bool,
}

/// A TCP segment: the header, and how many payload bytes follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSegment {
    /// Sequence number of the first payload byte (or of the SYN or FIN).
    pub seq: Seq,
    /// Next sequence number expected; valid with [`TcpFlags::ACK`].
    pub ack: Seq,
    /// Payload bytes.
    pub payload_len: u32,
    /// Window field as on the wire: not yet shifted by the window scale.
    pub window: u16,
    /// Header flags.
    pub flags: TcpFlags,
    /// Timestamps option.
    pub timestamp: Option<TcpTimestamp>,
    /// SACK option.
    pub sack: SackBlocks,
    /// Options of a SYN; default on any other segment.
    pub syn: SynOptions,
    /// The segment carries a signature over its header: TCP-MD5 (option kind 19, RFC 2385) or TCP-AO (kind
    /// 29, RFC 5925). A change to its header, or a segment made up beside it, is thrown away by the receiver,
    /// so a mechanism rewrites and injects nothing on such a connection. It may hold its packets.
    pub signed: bool,
}

impl TcpSegment {
    /// Sequence space the segment takes: payload, plus one each for SYN and FIN.
    #[must_use]
    pub const fn seq_len(&self) -> u32 {
        // Wraps, as sequence space does: a length from a damaged log must not stop the program.
        self.payload_len
            .wrapping_add(self.flags.contains(TcpFlags::SYN) as u32)
            .wrapping_add(self.flags.contains(TcpFlags::FIN) as u32)
    }

    /// Sequence number just after the segment.
    #[must_use]
    pub fn seq_end(&self) -> Seq {
        self.seq + self.seq_len()
    }

    /// True for an acknowledgment that carries nothing else: no payload, no SYN, FIN or RST.
    #[must_use]
    pub const fn is_pure_ack(&self) -> bool {
        self.payload_len == 0
            && self.flags.contains(TcpFlags::ACK)
            && !self.flags.intersects(TcpFlags::SYN.union(TcpFlags::FIN).union(TcpFlags::RST))
    }

    /// Bytes of TCP header this segment has on the wire, options padded to four bytes.
    #[must_use]
    pub fn header_len(&self) -> u32 {
        let mut options = 0u32;
        if self.flags.contains(TcpFlags::SYN) {
            options += if self.syn.mss.is_some() { 4 } else { 0 };
            options += if self.syn.window_scale.is_some() { 4 } else { 0 };
            options += if self.syn.sack_permitted { 2 } else { 0 };
        }
        // A timestamp takes 10 bytes; stacks put two NOPs before it outside a SYN, and SACK-permitted fills
        // the two bytes inside one (Linux, tcp_options_write).
        if self.timestamp.is_some() {
            options += 10;
        }
        if !self.sack.is_empty() {
            options += 2 + 8 * u32::from(self.sack.len);
        }
        20 + options.div_ceil(4) * 4
    }
}

/// A packet at the base station.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    /// The driver's token.
    pub id: PacketId,
    /// Which way it crosses.
    pub direction: Direction,
    /// Where the driver took it from.
    pub origin: Origin,
    /// The station at the radio end.
    pub station: StationId,
    /// The packet's connection.
    pub flow: &'a FlowKey,
    /// The packet's TCP header.
    pub tcp: &'a TcpSegment,
    /// Whole length on the wire from the IP header on, bytes.
    pub len: u32,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}

/// A UDP datagram (RFC 768) at the base station, whatever runs over it: nothing but its addresses and its
/// length is known. It tells no window and acknowledges nothing that could be read (QUIC encrypts both, RFC
/// 9001).
#[derive(Clone, Copy, Debug)]
pub struct DatagramView<'a> {
    /// The driver's token.
    pub id: PacketId,
    /// Which way it crosses.
    pub direction: Direction,
    /// Where the driver took it from.
    pub origin: Origin,
    /// The station at the radio end.
    pub station: StationId,
    /// Its addresses and ports.
    pub flow: &'a FlowKey,
    /// Whole length on the wire from the IP header on, bytes.
    pub len: u32,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}
