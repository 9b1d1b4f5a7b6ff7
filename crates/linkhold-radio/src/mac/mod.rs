//! Who may send when: the shared half-duplex medium, a duplex pair, or a measured delivery trace.

use std::sync::Arc;

use linkhold_core::time::Duration;

use crate::trace::Trace;

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
