//! One outstanding segment, and the flags that say what is known of it.

use linkhold_core::time::Instant;

pub(super) const SACKED: u32 = 1;
pub(super) const LOST: u32 = 2;
/// Retransmitted, and that retransmission is outstanding.
pub(super) const RETRANS: u32 = 4;
/// Retransmitted at least once.
pub(super) const EVER_RETRANS: u32 = 8;
pub(super) const CHAINED: u32 = 16;
/// The sender stood still since its last transmission, so nobody knows how long that took.
pub(super) const UNTIMED: u32 = 32;
/// What stays known of a segment when it is SACKed, or taken for lost.
pub(super) const LASTING: u32 = EVER_RETRANS | UNTIMED;

/// One outstanding segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Offset of its first byte.
    pub start: u64,
    /// Last transmission.
    pub sent: Instant,
    pub(super) len: u32,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) flags: u32,
}

impl Record {
    #[inline]
    pub fn len(&self) -> u64 {
        u64::from(self.len)
    }
    /// Offset just after its last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start + self.len()
    }
    pub fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }
    pub fn is_lost(&self) -> bool {
        self.flags & LOST != 0
    }
    pub fn retransmission_outstanding(&self) -> bool {
        self.flags & RETRANS != 0
    }
    pub fn ever_retransmitted(&self) -> bool {
        self.flags & EVER_RETRANS != 0
    }
    /// True if the time from its last transmission to its ACK is a round trip.
    pub(super) fn is_timed(&self) -> bool {
        self.flags & UNTIMED == 0
    }
    pub(super) fn waits_for_retransmission(&self) -> bool {
        self.flags & (SACKED | LOST | RETRANS) == LOST
    }
}
