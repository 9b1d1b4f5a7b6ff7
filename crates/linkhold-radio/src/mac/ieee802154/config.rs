//! What an IEEE 802.15.4 radio is set to, and the times that follow from the standard.
//!
//! Sources: IEEE Std 802.15.4-2006, O-QPSK PHY at 2450 MHz (clause 6.5: 250 kb/s, 62.5 ksymbol/s, so a symbol
//! takes 16 us and an octet two symbols); cr-aware section 5.1 for the sizes of a frame's parts.
//!
//! ```text
//! SHR 5 │ PHR 1 │ MAC header 19 │ transport header 12 │ options and data │ FCS 2        octets
//!       PHY      └──────────────────────── MPDU ─────────────────────────────┘
//! ```
//! The paper's MPDU has 128 octets, 95 of them user data. The standard's largest is 127 (aMaxPHYPacketSize,
//! table 22), which the 7 bits of the PHR can express; a scenario that follows the paper sets `mpdu` to 128.
//! The paper has no IP layer, and its transport header is 12 octets: they stand in place of the IP header and
//! the fixed part of the TCP header, as a header compression would have them. TCP options are carried whole.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Fraction};

use super::header::{ExtendedAddress, USER_HEADER};
use crate::detector::OverhearConfig;
use crate::frame::{Frame, RadioId};

/// O-QPSK at 2450 MHz (clause 6.5.1).
pub const RATE: BitRate = BitRate(250_000);
/// Octets of MAC header in the paper: frame control 2, sequence number 1, two extended addresses of 8.
pub const MAC_HEADER: u32 = 19;
/// Octets of the frame check sequence (clause 7.2.1.9).
pub const FCS: u32 = 2;
/// Octets of the paper's transport header: sequence number 4, RTT 8.
pub const TRANSPORT_HEADER: u32 = 12;
/// aMaxPHYPacketSize (table 22), octets.
pub const MAX_PHY_PACKET_SIZE: u32 = 127;

const SYMBOL: u64 = 16_000;
/// Preamble 4 and start-of-frame delimiter 1 (phySHRDuration, 10 symbols), and PHR 1; octets.
const SHR_AND_PHR: u32 = 5 + 1;
/// Octets of an acknowledgment frame (clause 7.2.2.3).
const ACK: u32 = 5;
/// aMaxSIFSFrameSize (table 85): a longer MPDU is followed by a long interframe spacing.
const MAX_SIFS_FRAME_SIZE: u32 = 18;

const fn symbols(count: u64) -> Duration {
    Duration::from_nanos(count * SYMBOL)
}

/// aUnitBackoffPeriod (table 85).
pub(crate) const UNIT_BACKOFF: Duration = symbols(20);
/// CCA detection time (clause 6.9.9).
pub(crate) const CCA: Duration = symbols(8);
/// aTurnaroundTime (table 22).
pub(crate) const TURNAROUND: Duration = symbols(12);
/// macAckWaitDuration (clause 7.4.2): aUnitBackoffPeriod + aTurnaroundTime + phySHRDuration + 6 octets.
pub(crate) const ACK_WAIT: Duration = symbols(20 + 12 + 10 + 12);
/// macMinLIFSPeriod and macMinSIFSPeriod (clause 7.5.1.3; 40 and 12 symbols in this PHY).
const LIFS: Duration = symbols(40);
const SIFS: Duration = symbols(12);
/// An acknowledgment on the air.
pub(crate) const ACK_TIME: Duration = on_air(ACK);

/// Which radios of the cell hear the primary user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeardBy {
    /// All of them.
    #[default]
    All,
    /// The stations, but not the base station.
    Stations,
    /// The base station, but no station: the user is hidden from who sends uplink.
    BaseStation,
}

impl HeardBy {
    /// Whether `radio` hears it.
    #[must_use]
    pub fn includes(self, radio: RadioId) -> bool {
        match self {
            Self::All => true,
            Self::Stations => radio != RadioId::BASE_STATION,
            Self::BaseStation => radio == RadioId::BASE_STATION,
        }
    }
}

/// An IEEE 802.15.4 cell without beacons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ieee802154Config {
    /// macMinBE: exponent of the first backoff, 0 to `max_be`.
    pub min_be: u8,
    /// macMaxBE: largest exponent of a backoff, 3 to 8.
    pub max_be: u8,
    /// macMaxCSMABackoffs: how often a busy medium is met with another backoff, 0 to 5.
    pub max_csma_backoffs: u8,
    /// macMaxFrameRetries: how often a frame is sent again, 0 to 7.
    pub max_frame_retries: u8,
    /// Whether a receiver acknowledges frames, and a sender repeats those that are not acknowledged.
    pub acknowledged: bool,
    /// Longest MPDU, octets.
    pub mpdu: u32,
    /// How long a radio rests after a CCA that found the medium busy, before its next backoff begins: 0 where
    /// the receiver stays on. 192 us makes a look fill a whole backoff period, which is how a radio behaves
    /// that turns its receiver on for each CCA.
    pub after_busy: Duration,
    /// How far a radio's clock may be off, parts in a million. Each has an error of its own, which stretches
    /// its backoffs: with perfect clocks, radios that once started together would meet at the same instants
    /// for ever.
    pub clock_tolerance: f64,
    /// What the sender does with a frame before it may be sent.
    pub processing_time: Duration,
    /// Chance that a frame, or an acknowledgment, that met no other transmission cannot be read.
    pub frame_loss: Fraction,
    /// Who hears the primary user.
    pub user_heard_by: HeardBy,
    /// The source address of the primary user's frames.
    pub user_address: ExtendedAddress,
    /// How those who hear it notice it.
    pub overhearing: OverhearConfig,
}

impl Default for Ieee802154Config {
    fn default() -> Self {
        Self {
            // Table 86.
            min_be: 3,
            max_be: 5,
            max_csma_backoffs: 4,
            max_frame_retries: 3,
            acknowledged: true,
            mpdu: MAX_PHY_PACKET_SIZE,
            after_busy: Duration::ZERO,
            // Symbol rate tolerance (clause 6.5.3.2).
            clock_tolerance: 40.0,
            // 127 octets over a serial bus of 1 Mbit/s to the transceiver's buffer.
            processing_time: Duration::from_millis(1),
            // What defines the receiver's sensitivity (clause 6.1.7; there for 20 octets).
            frame_loss: Fraction::clamped(0.01),
            user_heard_by: HeardBy::All,
            user_address: ExtendedAddress::PRIMARY_USER,
            overhearing: OverhearConfig::default(),
        }
    }
}

impl Ieee802154Config {
    /// Most octets of options and data in a packet: the largest `tcp.mss` that fits.
    #[must_use]
    pub const fn largest_payload(&self) -> u32 {
        self.mpdu.saturating_sub(MAC_HEADER + TRANSPORT_HEADER + FCS)
    }

    /// Octets of the MPDU that carries a packet of `len` bytes, `headers` of them IP and transport header.
    #[must_use]
    pub const fn mpdu_of(len: u32, headers: u32) -> u32 {
        MAC_HEADER + TRANSPORT_HEADER + len.saturating_sub(headers) + FCS
    }

    pub(crate) const fn mpdu_of_frame(frame: &Frame) -> u32 {
        Self::mpdu_of(frame.len, frame.headers)
    }

    /// Mean time from one frame to the next of a sender that always has one, alone on the medium, whose MPDUs
    /// have `mpdu` octets: backoff, CCA, turnaround, frame, acknowledgment, spacing, processing. No loss.
    #[must_use]
    pub fn mean_exchange(&self, mpdu: u32) -> Duration {
        let slots = (1_u64 << self.min_be.min(63)) - 1;
        let backoff = Duration::from_nanos(UNIT_BACKOFF.as_nanos() * slots / 2);
        let pause = spacing(mpdu).max(self.processing_time);
        backoff + CCA + TURNAROUND + on_air(mpdu) + self.acknowledgment() + pause
    }

    /// Least time that a frame that arrives takes from all other senders: CCA, turnaround, the frame and its
    /// acknowledgment.
    #[must_use]
    pub fn least_occupancy(&self, mpdu: u32) -> Duration {
        CCA + TURNAROUND + on_air(mpdu) + self.acknowledgment()
    }

    fn acknowledgment(&self) -> Duration {
        if self.acknowledged { TURNAROUND + ACK_TIME } else { Duration::ZERO }
    }

    /// Share of the raw rate at which a sender alone gets its longest packets through, each counted as an
    /// IPv4 packet with 40 bytes of headers.
    #[must_use]
    pub fn efficiency(&self) -> Fraction {
        let bits = f64::from(8 * (self.largest_payload() + 40));
        Fraction::clamped(bits / self.mean_exchange(self.mpdu).as_secs_f64() / RATE.as_bps() as f64)
    }
}

/// An MPDU on the air, with what the PHY puts before it.
#[must_use]
pub const fn on_air(mpdu: u32) -> Duration {
    symbols(2 * (SHR_AND_PHR + mpdu) as u64)
}

/// Interframe spacing after an MPDU, or after its acknowledgment (clause 7.5.1.3).
pub(crate) const fn spacing(mpdu: u32) -> Duration {
    if mpdu > MAX_SIFS_FRAME_SIZE { LIFS } else { SIFS }
}

/// The shortest frame of a primary user: its header and the check sequence, octets.
const LEAST_USER_MPDU: u32 = USER_HEADER + FCS;
/// The least time from one of a primary user's frames to the next: the shortest frame and its spacing.
pub const LEAST_USER_INTERVAL: Duration =
    Duration::from_nanos(on_air(LEAST_USER_MPDU).as_nanos() + spacing(LEAST_USER_MPDU).as_nanos());

/// Octets of the longest MPDU that, with its spacing, fits into a primary user's `interval` from frame to
/// frame; not below the shortest of its frames.
pub(crate) fn user_mpdu(interval: Duration) -> u32 {
    let fits = |mpdu: &u32| on_air(*mpdu) + spacing(*mpdu) <= interval;
    (LEAST_USER_MPDU..=MAX_PHY_PACKET_SIZE).rev().find(fits).unwrap_or(LEAST_USER_MPDU)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    #[test]
    fn times_are_what_the_standard_adds_up() {
        assert_eq!([UNIT_BACKOFF, CCA, TURNAROUND], [US(320), US(128), US(192)]);
        assert_eq!(ACK_WAIT, US(864));
        // 11 octets of 32 us.
        assert_eq!(ACK_TIME, US(352));
        // (6 + octets) x 32 us.
        for (mpdu, us) in [(127, 4256), (128, 4288), (33, 1248), (18, 768), (5, 352)] {
            assert_eq!(on_air(mpdu), US(us), "{mpdu} octets");
        }
        assert_eq!([spacing(18), spacing(19)], [US(192), US(640)]);
    }

    #[test]
    fn a_users_frame_is_the_longest_that_leaves_its_spacing() {
        // A longest frame: 4256 us and 640. Up to 18 octets the spacing is 192 us, above it 640.
        for (interval, mpdu) in [(5000, 127), (4896, 127), (4895, 126), (1440, 19), (1439, 18), (959, 17)] {
            assert_eq!(user_mpdu(US(interval)), mpdu, "{interval} us");
        }
        assert_eq!(LEAST_USER_INTERVAL, US(928));
    }

    #[test]
    fn the_papers_frame_carries_95_bytes() {
        let paper = Ieee802154Config { mpdu: 128, ..Ieee802154Config::default() };
        assert_eq!(paper.largest_payload(), 95);
        assert_eq!(Ieee802154Config::default().largest_payload(), 94);
        // 95 bytes behind headers of IPv4 and IPv6; an ACK without and with a SACK option.
        for (len, headers, mpdu) in [(135, 40, 128), (155, 60, 128), (40, 40, 33), (52, 40, 45)] {
            assert_eq!(Ieee802154Config::mpdu_of(len, headers), mpdu);
        }
    }

    #[test]
    fn a_sender_alone_takes_a_mean_backoff_an_exchange_and_a_pause() {
        let config =
            Ieee802154Config { mpdu: 128, processing_time: Duration::ZERO, ..Ieee802154Config::default() };
        // 3.5 x 320 + 128 + 192 + 4288 + 192 + 352 + 640.
        assert_eq!(config.mean_exchange(128), US(6912));
        assert_eq!(config.least_occupancy(128), US(128 + 192 + 4288 + 192 + 352));
        let plain = Ieee802154Config { acknowledged: false, processing_time: US(20_000), ..config };
        assert_eq!(plain.mean_exchange(128), US(3 * 320 + 160 + 128 + 192 + 4288 + 20_000));
        assert_eq!(plain.least_occupancy(33), US(128 + 192 + 1248));
    }
}
