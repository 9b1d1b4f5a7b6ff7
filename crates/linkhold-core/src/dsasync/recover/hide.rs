//! What the sender does not hear while a hole is repaired from a copy: SACK blocks for a bounded time, and
//! D-SACK blocks of copies that it knows nothing of.
//!
//! Source: RFC 2018, RFC 2883, RFC 8985 section 6.2; Linux `tcp_recovery.c` and `tcp_input.c`, which allow
//! for no reordering until they have seen some, and count every D-SACK as a retransmission of their own.
//!
//! An ACK with blocks above a hole: kept back → thrown away (a later ACK covers all that it says) or released
//! as it came (the time is over, or a packet follows it that must not be kept back). What was shown is never
//! taken back: once the time of a hole is over, everything passes until no block is left.
//! An ACK of which the D-SACK block is all that is new: thrown away. If it acknowledges more besides, an ACK
//! without the block takes its place, with the station's own acknowledgment and window.

use crate::packet::{PacketId, SackBlock, TcpFlags, TcpSegment};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// Longest time that blocks are kept from the sender.
pub(super) const MOST_HIDING: Duration = Duration::from_millis(50);

/// Most ACKs of a flow kept back at once. If one more comes, all are shown.
pub(super) const MOST_HIDDEN: usize = 256;

/// Most copies of a flow whose D-SACK is waited for, and how long it is waited for after the copy went. A
/// copy waits in the router's queue for less than that.
pub(super) const MOST_DOUBLED: usize = 64;
const DOUBLED_FOR: Duration = Duration::from_secs(2);

/// An ACK that is kept back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hidden {
    pub packet: PacketId,
    pub len: u32,
    pub ack: Seq,
    /// End of the highest block.
    pub highest: Seq,
    pub window: u16,
    /// Shift of `window`, if it is known.
    pub shift: Option<u8>,
    pub signed: bool,
    /// The correspondent heeds its window.
    pub counts: bool,
}

/// What an ACK that passes tells the correspondent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered {
    pub ack: Seq,
    /// The correspondent heeds its window.
    pub counts: bool,
}

impl Covered {
    /// True if the correspondent learns from this ACK all that the ACK `kept` back would tell. Data that the
    /// station sends again has the same ACK number, but the correspondent does not take its window (RFC 9293
    /// section 3.10.7.4). If a window was reopened meanwhile, the ACK kept back is the one that says so.
    pub fn covers(self, kept: &Hidden) -> bool {
        !kept.ack.after(self.ack) && !kept.highest.after(self.ack) && (self.counts || !kept.counts)
    }
}

/// A segment of which a copy was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubled {
    pub seq: Seq,
    pub end: Seq,
    pub at: Instant,
    /// The sender has sent the segment again, too: a D-SACK may be of that.
    pub by_sender: bool,
}

impl Doubled {
    /// True if a D-SACK of this byte is of the copy and of nothing else.
    pub fn explains(&self, now: Instant, byte: Seq) -> bool {
        let is_in = !byte.before(self.seq) && byte.before(self.end);
        is_in && !self.by_sender && now.since(self.at) < DOUBLED_FOR
    }

    pub fn overlaps(&self, seq: Seq, end: Seq) -> bool {
        self.seq.before(end) && seq.before(self.end)
    }

    pub fn is_past(&self, now: Instant) -> bool {
        now.since(self.at) >= DOUBLED_FOR
    }
}

/// The blocks of an ACK: a D-SACK (RFC 2883 section 4), and what has arrived above the acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks<'a> {
    pub d_sack: Option<SackBlock>,
    pub above: &'a [SackBlock],
}

impl<'a> Blocks<'a> {
    pub fn of(tcp: &'a TcpSegment) -> Self {
        let blocks = tcp.sack.as_slice();
        let is_double = match blocks {
            [first, second, ..] => {
                let inside = !first.left.before(second.left) && !first.right.after(second.right);
                inside || !first.right.after(tcp.ack)
            }
            [first] => !first.right.after(tcp.ack),
            [] => false,
        };
        match blocks.split_first() {
            Some((first, rest)) if is_double => Self { d_sack: Some(*first), above: rest },
            _ => Self { d_sack: None, above: blocks },
        }
    }

    /// End of the highest block above the acknowledgment.
    pub fn highest(&self, ack: Seq) -> Seq {
        self.above.iter().fold(ack, |highest, block| highest.max(block.right))
    }
}

/// True for an ACK that may be kept back: no data, no ECN echo, a window that is open.
pub(super) fn may_wait(tcp: &TcpSegment) -> bool {
    tcp.is_pure_ack() && !tcp.flags.contains(TcpFlags::ECE) && tcp.window > 0
}
