//! The queues in front of the air: one at the base station (downlink), one at each station (uplink).

pub mod fq_codel;

use fq_codel::FqCodelConfig;

/// What a queue does with a frame that arrives while its station is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InSilence {
    /// Queue it as at any other time.
    #[default]
    Queue,
    /// Drop it.
    Drop,
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
