//! The queues in front of the air: one at the base station (downlink), one at each station (uplink).
//!
//! There is no queue below them: a frame leaves its queue when its transmission starts (what byte queue
//! limits strive for in a real driver). Frames that are queued when a silence starts wait in their queue.

pub(crate) mod blocked;
pub(crate) mod config;
mod fifo;
mod fq_codel;

use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use config::QueueKind;
use fifo::Fifo;
use fq_codel::FqCodel;

use crate::frame::{AirDrop, AirOutput, Frame};

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

    #[inline]
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

    /// The next frame to a radio that is not blocked, and whether it is to be marked congestion-experienced.
    #[inline]
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

    /// Some radio may be sent to again.
    pub(crate) fn unblock(&mut self) {
        match self {
            Self::Fifo(queue) => queue.unblock(),
            Self::FqCodel(queue) => queue.unblock(),
        }
    }

    /// Takes out the frames that are `wanted`, in order of arrival.
    pub(crate) fn reclaim(&mut self, wanted: impl Fn(&Frame) -> bool, into: &mut Vec<Frame>) {
        match self {
            Self::Fifo(queue) => queue.reclaim(wanted, into),
            Self::FqCodel(queue) => queue.reclaim(wanted, into),
        }
    }

    /// It has no frame, and to ask it for one would change nothing.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        match self {
            Self::Fifo(queue) => queue.packets() == 0,
            // An attempt to dequeue ends the turn of a flow that ran empty (RFC 8290 section 4.2).
            Self::FqCodel(_) => false,
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
