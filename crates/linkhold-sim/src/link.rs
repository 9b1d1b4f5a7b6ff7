//! What a hop crosses: a wire or the air.

use linkhold_core::link_event::Scope;
use linkhold_core::time::Instant;
use linkhold_radio::{AirOutput, Frame, WiredPipe};

use crate::medium::Medium;
use crate::path::TapId;
use crate::queue::Wakeup;
use crate::silence_tracker::SilenceTracker;

/// A link. An enum and not a trait object, because every packet crosses links.
#[derive(Debug)]
pub enum Link {
    /// One direction of a wire.
    Wire(WiredPipe),
    /// The air of a cell, both directions, or a mesh.
    Air(Box<AirLink>),
}

impl Link {
    /// When the link has something to do next.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        match self {
            Self::Wire(pipe) => pipe.next_arrival(),
            Self::Air(link) => link.air.next_event(),
        }
    }
}

impl From<WiredPipe> for Link {
    fn from(pipe: WiredPipe) -> Self {
        Self::Wire(pipe)
    }
}

/// The air, and who hears what happens on it.
#[derive(Debug)]
pub struct AirLink {
    pub(crate) air: Medium,
    /// What the last call of the air put out.
    pub(crate) output: AirOutput,
    pub(crate) silences: SilenceTracker,
    /// The taps that are told the radio's events, in the order in which they were added.
    pub(crate) listeners: Vec<TapId>,
    /// The tap that sees the base station's transmit queue, if one does.
    pub(crate) queue_seen_by: Option<TapId>,
    /// Scratch for frames taken back from a queue.
    pub(crate) frames: Vec<Frame>,
}

impl AirLink {
    /// The air of a cell of `stations` stations, or a mesh of as many nodes.
    #[must_use]
    pub fn new(air: impl Into<Medium>, stations: u32) -> Self {
        Self {
            air: air.into(),
            output: AirOutput::new(),
            silences: SilenceTracker::new(stations),
            listeners: Vec::new(),
            queue_seen_by: None,
            frames: Vec::new(),
        }
    }

    /// What carries the frames.
    #[must_use]
    pub const fn air(&self) -> &Medium {
        &self.air
    }

    /// The radio's silences so far.
    #[must_use]
    pub const fn silences(&self) -> &SilenceTracker {
        &self.silences
    }

    /// Takes the scope's frames out of the base station's queue, in queue order.
    pub(crate) fn reclaim(&mut self, scope: Scope) -> Vec<Frame> {
        let mut frames = std::mem::take(&mut self.frames);
        self.air.reclaim(scope, &mut frames);
        frames
    }
}

/// A link with its wake-up in the event queue.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) link: Link,
    pub(crate) wake: Wakeup,
}
