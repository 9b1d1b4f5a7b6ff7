//! A station's side of the uplink: what it has to send, what it has asked for, and where its access stands.
//!
//! ```text
//! idle → contending ─ its frame ─► on the air ─ received ──► assigned ─ its frame ─► idle (bytes are told)
//!            ▲                         │                        (one step: idle, the bytes are told already)
//!            └─ backoff ◄─ T3 ◄────────┘ collided or lost; after the last try: given up
//! ```
//! How many bytes to ask for is never counted along, but worked out: what waits and what was asked for ahead,
//! less what has been asked for already. So a packet that a queue drops, or a burst that is cut, sets nothing
//! wrong for good.

use std::collections::VecDeque;

use linkhold_core::time::Instant;

use super::burst::Partial;
use crate::mac::contenders::Pending;

/// Where a random access stands. Frames are uplink frames, counted from time 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Access {
    #[default]
    Idle,
    /// It sends a request in `frame`.
    Contending { attempt: Attempt, frame: u64 },
    /// The request is on the air.
    OnAir,
    /// Nobody answered; T3 ends in `frame`.
    Unanswered { attempt: Attempt, frame: u64 },
    /// The base station has room for the message that tells the bytes, in `frame`.
    Assigned { since: Instant, frame: u64 },
}

/// The tries of one access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// When the station wanted to send.
    pub(super) since: Instant,
    /// Frame of the first try.
    pub(super) first: u64,
    /// Tries made.
    pub(super) tries: u32,
}

impl Access {
    /// The uplink frame in which something is to be done.
    pub(super) const fn frame(&self) -> Option<u64> {
        match self {
            Self::Idle | Self::OnAir => None,
            Self::Contending { frame, .. }
            | Self::Unanswered { frame, .. }
            | Self::Assigned { frame, .. } => Some(*frame),
        }
    }
}

/// Bytes that the base station knows of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) bytes: u64,
    /// First uplink frame that can have their burst.
    pub(super) frame: u64,
    /// When the station wanted to send, if this came of a random access.
    pub(super) since: Option<Instant>,
}

/// One station.
#[derive(Clone, Debug, Default)]
pub(super) struct Station {
    pub(super) access: Access,
    /// What the base station has still to grant it, oldest first.
    pub(super) demands: VecDeque<Demand>,
    /// Bytes asked for whose burst has not passed, those on their way to the base station included.
    pub(super) asked: u64,
    /// Bytes wanted for packets that are not there yet.
    pub(super) ahead: u64,
    /// Packets that have to be sent again, before any queued one.
    pub(super) again: VecDeque<Pending>,
    /// A packet that is partly sent; younger than those in `again` never, for then it would be among them.
    pub(super) partial: Option<Partial>,
    /// It has a burst in the uplink subframe that is on the air.
    pub(super) in_burst: bool,
    /// It fell silent in that subframe.
    pub(super) cut: bool,
    /// Its waiting for a grant has been told.
    pub(super) waiting_told: bool,
}

impl Station {
    /// Bytes of bursts that its packets outside of its queue need.
    pub(super) fn held_bytes(&self, header: u64) -> u64 {
        let again: u64 = self.again.iter().map(|pending| u64::from(pending.frame.len) + header).sum();
        again + self.partial.map_or(0, |partial| u64::from(partial.left) + header)
    }

    /// Packets outside of its queue.
    pub(super) fn held(&self) -> u64 {
        self.again.len() as u64 + u64::from(self.partial.is_some())
    }

    /// Its oldest packet outside of the queue.
    pub(super) fn take_held(&mut self) -> Option<Partial> {
        self.partial.take().or_else(|| self.again.pop_front().map(Partial::whole))
    }

    /// Takes packets back that were sent in vain, oldest first. A packet partly sent is younger and starts
    /// anew. Returns the bytes that all of them need once more.
    pub(super) fn give_back(&mut self, back: impl DoubleEndedIterator<Item = Pending>, header: u64) -> u64 {
        let mut needed = 0;
        if let Some(Partial { pending, left }) = self.partial.take() {
            needed += u64::from(pending.frame.len - left);
            self.again.push_front(pending);
        }
        for pending in back.rev() {
            needed += u64::from(pending.frame.len) + header;
            self.again.push_front(pending);
        }
        needed
    }

    /// Bytes that the base station could grant in uplink frame `frame`.
    pub(super) fn demanded(&self, frame: u64) -> u64 {
        self.demands.iter().filter(|demand| demand.frame <= frame).map(|demand| demand.bytes).sum()
    }

    /// The base station grants `bytes` of what it knows of. Returns since when their access had lasted, and
    /// adds the header of one more fragment to a demand that is not met whole.
    pub(super) fn meet(&mut self, mut bytes: u64, header: u64) -> Option<Instant> {
        let mut since = None;
        while bytes > 0
            && let Some(demand) = self.demands.front_mut()
        {
            since = since.or(demand.since.take());
            if demand.bytes > bytes {
                demand.bytes = demand.bytes - bytes + header;
                self.asked += header;
                break;
            }
            bytes -= demand.bytes;
            self.demands.pop_front();
        }
        since
    }
}
