//! Frames that noise spoils.
//!
//! Paper: `activation` section 4.2: a frame's error rate follows from the SNR. Sees a frame, its channel and
//! the middle of its transmission; answers whether it is lost, from a random stream of its own.
//! What counts is the SNR in the middle of the frame, so a frame longer than the fading is quick is too
//! simple: at 5.5 Mbit/s 1500 bytes take 2 ms, in which walking changes nothing.

use std::sync::Arc;

use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;

use crate::rng::Stream;
use crate::snr::config::SnrConfig;
use crate::snr::curve::Curve;
use crate::snr::signal::Signal;

/// Octets around an IP packet: LLC and SNAP headers (RFC 1042) 8, MAC header 24, FCS 4.
const AROUND_IP: u32 = 8 + 24 + 4;

/// Decides which frames are lost.
#[derive(Clone, Debug)]
pub(crate) struct FrameLosses {
    signal: Arc<Signal>,
    /// By channel.
    curves: Vec<Curve>,
    stream: Stream,
}

impl FrameLosses {
    pub(crate) fn new(config: &SnrConfig, signal: Arc<Signal>, seed: u64) -> Self {
        let curves = config.rates.iter().map(|&rate| Curve::of(rate)).collect();
        Self { signal, curves, stream: Stream::new(seed, "frame-loss", 0) }
    }

    /// Whether noise spoils an IP packet of `len` bytes to or from `station`.
    pub(crate) fn spoils(&mut self, channel: usize, station: StationId, len: u32, middle: Instant) -> bool {
        let Some(curve) = self.curves.get(channel) else { return false };
        let bits = len.saturating_add(AROUND_IP).saturating_mul(8);
        let rate = curve.packet_error_rate(self.signal.db_at(station, middle), bits);
        self.stream.unit() < rate
    }
}
