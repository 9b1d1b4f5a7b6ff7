//! The queues in front of the air: one at the base station (downlink), one at each station (uplink).
//!
//! There is no queue below them: a frame leaves its queue when its transmission starts (what byte queue limits
//! strive for in a real driver). Frames that are queued when a silence starts wait in their queue.

pub(crate) mod fifo;
pub mod fq_codel;

use linkhold_core::link_event::Scope;
use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use crate::frame::{AirDrop, AirOutput, Frame};
use fifo::Fifo;
use fq_codel::{FqCodel, FqCodelConfig};

/// What a queue does with a frame that arrives while its station is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InSilence {
    /// Queue it as at any other time.
    #[default]
    Queue,
    /// Drop it.
    Drop,
    /// Drop it, and with it what was queued when a silence of the whole network began: a radio that is switched
    /// off or reset, and loses its transmit queue. A silence of one station only drops arrivals.
    Flush,
}

impl InSilence {
    /// True if what arrives in a silence is lost.
    #[must_use]
    pub const fn drops_arrivals(self) -> bool {
        match self {
            Self::Queue => false,
            Self::Drop | Self::Flush => true,
        }
    }
}

/// The discipline of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out, DropTail.
    Fifo {
        /// Most packets in it.
        limit: u32,
    },
    /// Flow-queueing CoDel.
    FqCodel(FqCodelConfig),
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its discipline.
    pub kind: QueueKind,
    /// What becomes of arrivals in a silence.
    pub in_silence: InSilence,
}

impl QueueConfig {
    /// A DropTail FIFO of `limit` packets that queues in silences.
    #[must_use]
    pub const fn fifo(limit: u32) -> Self {
        Self { kind: QueueKind::Fifo { limit }, in_silence: InSilence::Queue }
    }
}

/// Whether `station` may not be served now; stations past the slice's end may.
pub(crate) fn is_blocked(blocked: &[bool], station: StationId) -> bool {
    blocked.get(station.0 as usize).copied().unwrap_or(false)
}

/// A queue of either discipline.
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Fifo(Fifo),
    FqCodel(Box<FqCodel>),
}

impl Queue {
    pub(crate) fn new(kind: QueueKind) -> Self {
        match kind {
            QueueKind::Fifo { limit } => Self::Fifo(Fifo::new(limit)),
            QueueKind::FqCodel(config) => Self::FqCodel(Box::new(FqCodel::new(config))),
        }
    }

    pub(crate) fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) {
        match self {
            Self::Fifo(queue) => {
                if !queue.enqueue(frame) {
                    out.dropped(frame, AirDrop::QueueFull);
                }
            }
            Self::FqCodel(queue) => queue.enqueue(now, frame, out),
        }
    }

    /// The next frame of a station that is not blocked, and whether it is to be marked congestion-experienced.
    pub(crate) fn dequeue(
        &mut self,
        now: Instant,
        blocked: &[bool],
        out: &mut AirOutput,
    ) -> Option<(Frame, bool)> {
        match self {
            Self::Fifo(queue) => queue.dequeue(blocked).map(|frame| (frame, false)),
            Self::FqCodel(queue) => queue.dequeue(now, blocked, out),
        }
    }

    /// Some station may be served again.
    pub(crate) fn unblock(&mut self) {
        match self {
            Self::Fifo(queue) => queue.unblock(),
            Self::FqCodel(queue) => queue.unblock(),
        }
    }

    /// Takes the scope's frames out, in order of arrival.
    pub(crate) fn reclaim(&mut self, scope: Scope, into: &mut Vec<Frame>) {
        match self {
            Self::Fifo(queue) => queue.reclaim(scope, into),
            Self::FqCodel(queue) => queue.reclaim(scope, into),
        }
    }

    pub(crate) fn packets(&self) -> u32 {
        match self {
            Self::Fifo(queue) => queue.packets(),
            Self::FqCodel(queue) => queue.packets(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fifo(queue) => queue.bytes(),
            Self::FqCodel(queue) => queue.bytes(),
        }
    }

    pub(crate) fn room(&self) -> (u32, Bytes) {
        match self {
            Self::Fifo(queue) => queue.room(),
            Self::FqCodel(queue) => queue.room(),
        }
    }
}
