//! What a cell's medium access can be.

use std::sync::Arc;

use linkhold_core::time::Duration;

use super::dcf::DcfConfig;
use super::grants::config::GrantsConfig;
use super::ieee802154::config::Ieee802154Config;
use crate::rng::Stream;
use crate::trace::Trace;

/// The medium access of the cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Mac {
    /// One half-duplex medium, as in a Wi-Fi cell; base station and stations with something to send take
    /// turns, a frame each.
    Shared,
    /// An independent transmitter each way, as with frequency-division duplex.
    Duplex,
    /// Measured delivery opportunities each way; rate and efficiency of the channels are not used.
    Trace(TraceLink),
    /// Every radio contends by itself, at 250 kb/s. One channel, whose efficiency is
    /// [`Ieee802154Config::efficiency`]; its primary user's detection delays are not used, since each radio
    /// overhears it by itself; no sensing, no channel switch.
    Ieee802154(Ieee802154Config),
    /// Base station and stations contend by IEEE 802.11's DCF, and everybody hears everybody. The air time's
    /// model and the channels' efficiency are not used, nor is the cell's retry limit.
    Dcf(DcfConfig),
    /// The base station grants the stations their turns, in frames. Frames count per byte.
    Grants(GrantsConfig),
}

/// How the MACs `Shared` and `Duplex` time a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AirTimeModel {
    /// Length over rate times efficiency: the efficiency stands for everything that is not the packet.
    #[default]
    PerByte,
    /// The exchange of IEEE 802.11a: DIFS, backoff, preamble, data, SIFS and ACK. The channels' efficiency is
    /// not used.
    Ieee80211a,
}

/// A link that plays measured delivery opportunities. All stations share it; each direction has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLink {
    /// Opportunities from the base station to the stations.
    pub down: Arc<Trace>,
    /// Opportunities from the stations to the base station (may be the same trace).
    pub up: Arc<Trace>,
    /// A gap between opportunities longer than this is a silence (cause `Fade`).
    pub silence_threshold: Duration,
    /// From a silence's start (or end) to the link event that tells it; 0 = oracle. Only the downlink's
    /// silences are told: a link event has no direction, and what a base station holds is downlink.
    pub detection_delay: Duration,
    /// Each repetition enters the trace at a place that its seed draws, the same share of the length in both
    /// directions. Otherwise every repetition starts at the beginning.
    pub random_start: bool,
}

impl TraceLink {
    /// The link as the repetition with `seed` plays it, from its first opportunity on.
    pub(crate) fn entered(&self, seed: u64) -> Self {
        if !self.random_start {
            return self.clone();
        }
        let place = Stream::new(seed, "trace-start", 0).unit();
        let enter = |trace: &Trace| Arc::new(trace.from(place));
        Self { down: enter(&self.down), up: enter(&self.up), random_start: false, ..self.clone() }
    }
}
