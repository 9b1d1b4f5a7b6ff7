//! What the radios of a DCF are set to, and the times of an exchange that follow.
//!
//! Source: IEEE Std 802.11-2012, clause 9.3 and the MIB of annex C (defaults, from memory, not checked).

use linkhold_core::time::Duration;
use linkhold_core::units::BitRate;

use super::phy::{ACK, AROUND_IP, Phy, RTS};

/// The settings of all radios of one DCF.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcfConfig {
    /// Physical layer.
    pub phy: Phy,
    /// dot11RTSThreshold: a data frame longer than this goes behind RTS and CTS, octets from the MAC header
    /// to the FCS. The default never asks for them.
    pub rts_threshold: u32,
    /// dot11ShortRetryLimit: a frame is given up when it failed this often (RTS frames, and data without
    /// RTS).
    pub short_retry_limit: u8,
    /// dot11LongRetryLimit: the same for data behind RTS and CTS.
    pub long_retry_limit: u8,
    /// How far a signal must stand above noise and all other signals to be read, dB (ns-2's CPThresh).
    pub capture_threshold: f64,
}

impl DcfConfig {
    /// dot11RTSThreshold's largest value, above any frame.
    pub const NO_RTS: u32 = 2347;

    /// The standard's defaults on a physical layer.
    #[must_use]
    pub const fn new(phy: Phy) -> Self {
        Self {
            phy,
            rts_threshold: Self::NO_RTS,
            short_retry_limit: 7,
            long_retry_limit: 4,
            capture_threshold: 10.0,
        }
    }

    /// Whether an IP packet of `len` bytes to one receiver goes behind RTS and CTS.
    #[must_use]
    pub const fn asks_first(&self, len: u32) -> bool {
        len.saturating_add(AROUND_IP) > self.rts_threshold
    }

    /// A data frame with an IP packet of `len` bytes.
    #[must_use]
    pub const fn data(&self, len: u32, rate: BitRate) -> Duration {
        self.phy.frame(len.saturating_add(AROUND_IP), rate)
    }

    /// An ACK, or a CTS, that answers data at `rate`.
    #[must_use]
    pub const fn ack(&self, rate: BitRate) -> Duration {
        self.phy.frame(ACK, self.phy.control_rate(rate))
    }

    /// RTS, SIFS, CTS, SIFS before data at `rate`.
    #[must_use]
    pub const fn asking(&self, rate: BitRate) -> Duration {
        let rts = self.phy.frame(RTS, self.phy.control_rate(rate));
        Duration::from_nanos(rts.as_nanos() + self.ack(rate).as_nanos() + 2 * self.phy.sifs().as_nanos())
    }

    /// A whole exchange that succeeds, from its first bit to the ACK's last. Rate zero: it never ends.
    #[must_use]
    pub fn exchange(&self, len: u32, rate: BitRate) -> Duration {
        let data = self.data(len, rate);
        if data == Duration::MAX {
            return data;
        }
        let asking = if self.asks_first(len) { self.asking(rate) } else { Duration::ZERO };
        asking + data + self.phy.sifs() + self.ack(rate)
    }
}
