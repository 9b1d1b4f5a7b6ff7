//! A held packet, and the end of the lists that it is in.
//!
//! Part of Algorithms 1 and 2 (`dsasync`): a record only. What becomes of it is
//! [`hold_buffer`](super::hold_buffer)'s.

use crate::packet::{PacketId, TcpFlags, TcpSegment};
use crate::time::Instant;
use crate::units::Seq;

/// Number of no slot and of no packet: the end of an intrusive list.
pub(super) const NONE: u32 = u32::MAX;

/// No segment is overtaken on its way by one that was sent so many ticks later: 17 s where a clock counts
/// microseconds, as Linux may (`tcp_usec_ts`).
const OVERTAKEN: i32 = 1 << 24;

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
    /// It goes to the queue of SYNs, unless its flow has a queue of its own.
    pub opens: bool,
}

/// The ACK number and window of a segment whose window may be changed: `None` for SYN, RST, segments without
/// ACK, and what is signed, even where its flow does not count as signed because the number is an old one.
pub(super) fn tells(tcp: &TcpSegment) -> Option<(Seq, u16)> {
    let is_plain =
        tcp.flags.contains(TcpFlags::ACK) && !tcp.flags.intersects(TcpFlags::SYN.union(TcpFlags::RST));
    (is_plain && !tcp.signed).then_some((tcp.ack, tcp.window))
}

/// True if the segment has payload and neither opens nor resets a connection.
pub(super) fn is_data(tcp: &TcpSegment) -> bool {
    tcp.payload_len > 0 && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST)
}

/// The segment's TSval.
pub(super) fn tick(tcp: &TcpSegment) -> Option<u32> {
    tcp.timestamp.map(|timestamp| timestamp.value)
}

/// True if a TSval is later than the latest that was seen. What seems older by much is later as well: in a
/// pause of the connection its clock went more than halfway round (RFC 7323 section 5.5). Otherwise no tick
/// would be later until the clock has come round: for 36 minutes, or 25 days where it counts milliseconds.
pub(super) fn is_later(tick: u32, latest: u32) -> bool {
    let ahead = tick.wrapping_sub(latest) as i32;
    !(-OVERTAKEN..=0).contains(&ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_told_by_plain_segments_with_an_ack_that_nobody_signed() {
        let plain = TcpSegment { ack: Seq(7), window: 500, flags: TcpFlags::ACK, ..TcpSegment::default() };
        assert_eq!(tells(&plain), Some((Seq(7), 500)));
        for flags in [TcpFlags::default(), TcpFlags::SYN | TcpFlags::ACK, TcpFlags::RST | TcpFlags::ACK] {
            assert_eq!(tells(&TcpSegment { flags, ..plain }), None);
        }
        assert_eq!(tells(&TcpSegment { signed: true, ..plain }), None);
    }
}
