//! A held packet, and the end of the lists that it is in.
//!
//! Part of Algorithms 1 and 2 (`dsasync`): a record only. What becomes of it is
//! [`hold_buffer`](super::hold_buffer)'s.

use crate::packet::{PacketId, PacketView, TcpFlags, TcpSegment};
use crate::time::Instant;
use crate::units::Seq;

/// Number of no slot and of no packet: the end of an intrusive list.
pub(super) const NONE: u32 = u32::MAX;

/// Stands for a count of silences that no real count equals.
pub(super) const IN_SILENCE: u64 = u64::MAX;

/// A held downlink packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldSegment {
    pub packet: PacketId,
    pub slot: u32,
    /// Its ACK number and window field, if it has them.
    pub tells: Option<(Seq, u16)>,
    pub seq: Seq,
    pub seq_len: u32,
    pub len: u32,
    /// Its TSval.
    pub tick: Option<u32>,
    /// It has payload that may be sent again: no SYN.
    pub is_data: bool,
    /// When it came to the base station.
    pub arrived: Instant,
    /// How many silences there had been when it came; [`IN_SILENCE`] if it came in one, or back from the
    /// transmit queue.
    pub silences: u64,
    /// It is a window probe.
    pub probe: bool,
    pub queue: u32,
    pub prev: u32,
    pub next: u32,
    pub flow_prev: u32,
    pub flow_next: u32,
}

/// How a packet came to be held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub at: Instant,
    /// As [`HeldSegment::silences`].
    pub silences: u64,
    /// It is a window probe.
    pub probe: bool,
    /// It was taken back from the transmit queue and goes to the front.
    pub front: bool,
}

/// The ACK number and window of a segment; `None` for SYN, RST and segments without ACK.
pub(super) fn tells(packet: &PacketView<'_>) -> Option<(Seq, u16)> {
    let is_plain = packet.tcp.flags.contains(TcpFlags::ACK)
        && !packet.tcp.flags.intersects(TcpFlags::SYN.union(TcpFlags::RST));
    is_plain.then_some((packet.tcp.ack, packet.tcp.window))
}

/// True if the segment has payload and neither opens nor resets a connection.
pub(super) fn is_data(tcp: &TcpSegment) -> bool {
    tcp.payload_len > 0 && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST)
}

/// The segment's TSval.
pub(super) fn tick(tcp: &TcpSegment) -> Option<u32> {
    tcp.timestamp.map(|timestamp| timestamp.value)
}
