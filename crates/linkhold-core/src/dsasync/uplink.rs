//! Uplink shaping: spreads the packets of stations over their silences.
//!
//! Paper: `dsasync` section IV-B b, Algorithms 3 and 4, equation (2).

use serde::{Deserialize, Serialize};

use crate::packet::{PacketId, StationId};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, Fraction};

/// Which shaper runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UplinkMode {
    /// No shaping.
    Off,
    /// Algorithm 3: every station by its own α_i and D_i.
    PerStation,
    /// Algorithm 4: one queue by α_dsan and D_dsan.
    #[default]
    Pooled,
}

/// Settings of an [`UplinkShaper`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UplinkConfig {
    /// Which algorithm.
    pub mode: UplinkMode,
    /// α_min: shaping never slows a station below this share of its rate.
    pub alpha_min: Fraction,
    /// ΔT over which D is measured; should equal the link monitor's window.
    pub window: Duration,
    /// Most bytes held.
    pub limit: Bytes,
    /// Longest that a packet is held.
    pub max_delay: Duration,
    /// Most stations with a queue of their own; one numbered higher is not shaped.
    pub max_stations: u32,
}

impl Default for UplinkConfig {
    fn default() -> Self {
        Self {
            mode: UplinkMode::Pooled,
            alpha_min: Fraction::clamped(0.5),
            window: Duration::from_secs(10),
            limit: Bytes(4_000_000),
            max_delay: Duration::from_millis(250),
            max_stations: 1024,
        }
    }
}

/// What becomes of an uplink packet.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkVerdict {
    /// On its way now.
    Forward,
    /// Held until released.
    Hold,
    /// Does not fit; nothing changed. Call [`UplinkShaper::make_room`] and hand it in again (loses nothing), or
    /// drop it. Never forward it: packets of its flow may be held.
    Full,
}

/// Holds uplink packets and releases them at the shaped rate.
#[derive(Debug)]
pub struct UplinkShaper {}

#[allow(unused_variables, clippy::unused_self)]
impl UplinkShaper {
    /// An empty shaper.
    #[must_use]
    pub fn new(config: &UplinkConfig) -> Self {
        Self {}
    }
    /// A packet of `len` bytes came from the station. `alpha` is α_i (`PerStation`) or α_dsan (`Pooled`).
    pub fn on_packet(
        &mut self,
        now: Instant,
        station: StationId,
        id: PacketId,
        len: u32,
        alpha: Fraction,
    ) -> UplinkVerdict {
        UplinkVerdict::Forward
    }
    /// Releases the longest held packets until `len` more bytes of `station` fit.
    pub fn make_room(&mut self, now: Instant, len: u32, release: impl FnMut(PacketId)) {}
    /// When `on_timeout` wants to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }
    /// Releases what is due. `alpha` answers as in `on_packet` (with `Pooled` for any station α_dsan).
    pub fn on_timeout(
        &mut self,
        now: Instant,
        alpha: impl Fn(StationId) -> Fraction,
        release: impl FnMut(PacketId),
    ) {
    }
    /// Releases everything, in order.
    pub fn flush(&mut self, release: impl FnMut(PacketId)) {}
    /// Bytes held.
    #[must_use]
    pub fn held_bytes(&self) -> Bytes {
        Bytes::ZERO
    }
    /// Packets held.
    #[must_use]
    pub fn held_packets(&self) -> u64 {
        0
    }
}
