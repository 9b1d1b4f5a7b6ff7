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
    pub signed: bool,
}

impl Syn {
    pub fn new(tcp: &TcpSegment, downlink: bool) -> Self {
        let (seq, end) = (tcp.seq, tcp.seq_end());
        Self { downlink, flags: tcp.flags, seq, end, options: tcp.syn, signed: tcp.signed }
    }

    /// True if this SYN-ACK answers it.
    pub fn is_answered_by(&self, tcp: &TcpSegment, downlink: bool) -> bool {
        // With TCP Fast Open (RFC 7413) data of the SYN may be acknowledged, too.
        self.downlink != downlink && tcp.ack.after(self.seq) && !tcp.ack.after(self.end)
    }

    /// True if this reset refuses it, or is from the end that sent it: the number that it must have (RFC 9293
    /// section 3.10.7.3 and 3.5.2).
    pub fn is_reset_by(&self, tcp: &TcpSegment, downlink: bool) -> bool {
        if self.downlink == downlink {
            tcp.seq == self.end
        } else {
            tcp.flags.contains(TcpFlags::ACK) && self.is_answered_by(tcp, downlink)
        }
    }
}

/// SYNs that came though there was another, each of which the other end may yet answer. Somebody who makes
/// SYNs up can push the real one out only with as many as there are places.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rivals {
    syns: [Option<Syn>; Self::MOST],
    next: usize,
}

impl Rivals {
    const MOST: usize = 4;

    /// Notes a SYN in the place of the oldest, or of its own copy.
    pub fn note(&mut self, syn: Syn) {
        let is_copy =
            |old: &Option<Syn>| old.is_some_and(|old| (old.downlink, old.seq) == (syn.downlink, syn.seq));
        let place = self.syns.iter().position(is_copy).unwrap_or_else(|| {
            let oldest = self.next;
            self.next = (oldest + 1) % Self::MOST;
            oldest
        });
        self.syns[place] = Some(syn);
    }

    pub fn all(&self) -> impl Iterator<Item = &Syn> {
        self.syns.iter().flatten()
    }

    /// Takes out the SYN that this SYN-ACK answers.
    pub fn take_answered(&mut self, tcp: &TcpSegment, downlink: bool) -> Option<Syn> {
        let answered = |syn: &mut Syn| syn.is_answered_by(tcp, downlink);
        self.syns.iter_mut().find_map(|syn| syn.take_if(answered))
    }
}
