//! Who may send when: the shared half-duplex medium, a duplex pair, or a measured delivery trace.

mod contenders;
mod duplex;
mod shared;
mod trace;

use std::sync::Arc;

use linkhold_core::time::{Duration, Instant};

use crate::frame::AirOutput;
use crate::silence::Timeline;
use crate::trace::Trace;

pub(crate) use contenders::{Contenders, Pending};
use duplex::Duplex;
use shared::Medium;
use trace::TraceMac;

/// The medium access of the cell.
#[derive(Clone, Debug)]
pub enum Mac {
    /// One half-duplex medium; base station and stations with something to send take turns, a frame each.
    Shared,
    /// An independent transmitter each way.
    Duplex,
    /// Measured delivery opportunities each way; phy rate and efficiency of the channels are not used.
    Trace {
        /// Base station to stations.
        down: Arc<Trace>,
        /// Stations to base station (may be the same trace).
        up: Arc<Trace>,
        /// A gap between opportunities longer than this is a silence (cause `Fade`).
        silence_threshold: Duration,
        /// From a silence's start (or end) to the link event that tells it; 0 = oracle. Only the downlink's
        /// silences are told: a link event has no direction, and what a base station holds is downlink.
        detection_delay: Duration,
    },
}

/// What a MAC needs to look at and to change.
pub(crate) struct Cell<'a> {
    pub(crate) contenders: &'a mut Contenders,
    pub(crate) radio: &'a Timeline,
    pub(crate) retry_limit: u32,
    pub(crate) out: &'a mut AirOutput,
}

/// One of the three at work.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    Shared(Medium),
    Duplex(Duplex),
    Trace(TraceMac),
}

impl Access {
    pub(crate) fn new(mac: &Mac, stations: u32) -> Self {
        match mac {
            Mac::Shared => Self::Shared(Medium::new(0..stations + 1)),
            Mac::Duplex => Self::Duplex(Duplex::new(stations)),
            Mac::Trace { down, up, .. } => Self::Trace(TraceMac::new(down.clone(), up.clone(), stations)),
        }
    }

    /// When the next transmission ends or opportunity comes that is wanted.
    pub(crate) fn next(&self) -> Instant {
        match self {
            Self::Shared(medium) => medium.next(),
            Self::Duplex(pair) => pair.next(),
            Self::Trace(trace) => trace.next(),
        }
    }

    /// Handles it.
    pub(crate) fn step(&mut self, cell: &mut Cell<'_>) {
        match self {
            Self::Shared(medium) => medium.step(cell),
            Self::Duplex(pair) => pair.step(cell),
            Self::Trace(trace) => trace.step(cell),
        }
    }

    /// A frame was queued for `contender`.
    pub(crate) fn on_enqueue(&mut self, now: Instant, contender: usize, cell: &mut Cell<'_>) {
        match self {
            Self::Shared(medium) => medium.start(now, cell),
            Self::Duplex(pair) => pair.start(now, contender, cell),
            Self::Trace(trace) => trace.on_enqueue(now, contender, cell),
        }
    }

    /// The radio's condition changed.
    pub(crate) fn on_radio_change(&mut self, now: Instant, cell: &mut Cell<'_>) {
        match self {
            Self::Shared(medium) => medium.on_radio_change(now, cell),
            Self::Duplex(pair) => pair.on_radio_change(now, cell),
            Self::Trace(trace) => trace.on_radio_change(now, cell),
        }
    }

    /// Frames out of their queue: on the air, or partly sent.
    pub(crate) fn on_air(&self) -> u64 {
        match self {
            Self::Shared(medium) => u64::from(medium.is_busy()),
            Self::Duplex(pair) => pair.on_air(),
            Self::Trace(trace) => trace.on_air(),
        }
    }
}
