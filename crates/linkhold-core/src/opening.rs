//! How a connection begins: a SYN, and the SYN-ACK that answers it (RFC 9293 section 3.5).
//!
//! A SYN-ACK counts only as the answer to a SYN that was seen: who does not see a connection can still send
//! one that looks like it.

use crate::packet::{SynOptions, TcpFlags, TcpSegment};
use crate::units::Seq;

/// A SYN of a connection, answered or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syn {
    pub downlink: bool,
    pub flags: TcpFlags,
    pub seq: Seq,
    /// Sequence number after it, and after the data that it may carry (RFC 7413).
    pub end: Seq,
    pub options: SynOptions,
}

impl Syn {
    pub fn new(tcp: &TcpSegment, downlink: bool) -> Self {
        Self { downlink, flags: tcp.flags, seq: tcp.seq, end: tcp.seq_end(), options: tcp.syn }
    }

    /// True if this SYN-ACK answers it.
    pub fn is_answered_by(&self, tcp: &TcpSegment, downlink: bool) -> bool {
        // With TCP Fast Open (RFC 7413) data of the SYN may be acknowledged, too.
        self.downlink != downlink && tcp.ack.after(self.seq) && !tcp.ack.after(self.end)
    }
}
