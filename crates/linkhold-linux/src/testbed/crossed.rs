//! How data crossed the air: what silences mean to it ends there, and a wire may be longer than they are
//! apart.

use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_sim::silence_tracker::SilenceTracker;

/// How a packet crossed the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossed {
    /// When it left the air.
    pub at: Instant,
    /// A silence of its station went on at some time before, since it was sent.
    pub met_silence: bool,
}

impl Crossed {
    /// As of what leaves the air when it arrives, like all that goes down; `sent`: when it was sent, if that
    /// is known.
    #[must_use]
    pub fn on_arrival(
        now: Instant,
        sent: Option<Instant>,
        station: StationId,
        silences: &SilenceTracker,
    ) -> Self {
        Self { at: now, met_silence: sent.is_some_and(|sent| silences.met_since(station, sent)) }
    }
}
