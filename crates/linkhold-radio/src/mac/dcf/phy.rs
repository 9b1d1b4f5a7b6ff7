//! How long frames of IEEE 802.11 take on the air, and the times between them.
//!
//! Sources: IEEE Std 802.11-2012, clause 17 (802.11b: DSSS and High Rate, long preamble) and clause 18
//! (802.11a: OFDM at 20 MHz). The numbers of the tables are from memory and from `air_time.rs`, which had
//! those of 802.11a; they agree with what ns-2 and ns-3 use, but were not checked against the standard's
//! text.
//!
//! - DSSS: the preamble of 144 bits and the header of 48 bits take 192 us at 1 Mbit/s; the octets of the
//!   frame follow at the data rate, and their time is rounded up to a whole microsecond (the LENGTH field
//!   counts microseconds).
//! - OFDM: preamble 16 us and SIGNAL 4 us; then symbols of 4 us that hold SERVICE, octets and tail bits.
//!
//! A rate between or beyond those of the standard is timed by the same formulas. The `crahn` paper's channels
//! of 1 Mbit/s +- M/2 need that: their header goes at 1 Mbit/s and their octets at the channel's rate.

use core::fmt;

use linkhold_core::time::Duration;
use linkhold_core::units::BitRate;

/// Octets of an ACK or a CTS frame.
pub const ACK: u32 = 14;
/// Octets of an RTS frame.
pub const RTS: u32 = 20;
/// Octets around an IP packet: LLC and SNAP headers (RFC 1042) 8, MAC header 24, FCS 4.
pub const AROUND_IP: u32 = 8 + 24 + 4;

/// A set of parameters of the physical layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phy {
    /// 802.11b with the long preamble: 1, 2, 5.5 and 11 Mbit/s.
    Ieee80211b,
    /// 802.11a: 6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s.
    Ieee80211a,
}

const DSSS_RATES: [BitRate; 4] =
    [BitRate(1_000_000), BitRate(2_000_000), BitRate(5_500_000), BitRate(11_000_000)];
const OFDM_RATES: [BitRate; 8] = [
    BitRate::from_mbps(6),
    BitRate::from_mbps(9),
    BitRate::from_mbps(12),
    BitRate::from_mbps(18),
    BitRate::from_mbps(24),
    BitRate::from_mbps(36),
    BitRate::from_mbps(48),
    BitRate::from_mbps(54),
];

impl fmt::Display for Phy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ieee80211b => "IEEE 802.11b",
            Self::Ieee80211a => "IEEE 802.11a",
        })
    }
}

const fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

impl Phy {
    /// The rates that it has, lowest first.
    #[must_use]
    pub const fn rates(self) -> &'static [BitRate] {
        match self {
            Self::Ieee80211b => &DSSS_RATES,
            Self::Ieee80211a => &OFDM_RATES,
        }
    }

    /// Whether the standard has that rate.
    #[must_use]
    pub fn has(self, rate: BitRate) -> bool {
        self.rates().contains(&rate)
    }

    /// aSlotTime.
    #[must_use]
    pub const fn slot(self) -> Duration {
        match self {
            Self::Ieee80211b => us(20),
            Self::Ieee80211a => us(9),
        }
    }

    /// aSIFSTime.
    #[must_use]
    pub const fn sifs(self) -> Duration {
        match self {
            Self::Ieee80211b => us(10),
            Self::Ieee80211a => us(16),
        }
    }

    /// SIFS and two slots (clause 9.3.7).
    #[must_use]
    pub const fn difs(self) -> Duration {
        Duration::from_nanos(self.sifs().as_nanos() + 2 * self.slot().as_nanos())
    }

    /// aCWmin: the largest backoff of a first transmission, slots.
    #[must_use]
    pub const fn cw_min(self) -> u32 {
        match self {
            Self::Ieee80211b => 31,
            Self::Ieee80211a => 15,
        }
    }

    /// aCWmax: the largest backoff there is, slots.
    #[must_use]
    pub const fn cw_max(self) -> u32 {
        1023
    }

    /// What stands before a frame's octets: preamble and header.
    #[must_use]
    pub const fn head(self) -> Duration {
        match self {
            Self::Ieee80211b => us(192),
            Self::Ieee80211a => us(20),
        }
    }

    /// Bits that are sent at the data rate besides those of the octets: SERVICE 16 and tail 6.
    #[must_use]
    pub const fn extra_bits(self) -> u64 {
        match self {
            Self::Ieee80211b => 0,
            Self::Ieee80211a => 16 + 6,
        }
    }

    /// The time after the head comes in whole units: microseconds, or symbols.
    #[must_use]
    pub const fn unit(self) -> Duration {
        match self {
            Self::Ieee80211b => us(1),
            Self::Ieee80211a => us(4),
        }
    }

    /// Units in a second.
    #[must_use]
    pub const fn units_per_second(self) -> u64 {
        1_000_000_000 / self.unit().as_nanos()
    }

    /// A frame of `octets`, from its preamble to its end. At rate zero it never ends.
    #[must_use]
    pub const fn frame(self, octets: u32, rate: BitRate) -> Duration {
        let bits = self.extra_bits() + 8 * octets as u64;
        match (bits * self.units_per_second()).checked_rem(rate.as_bps()) {
            None => Duration::MAX,
            Some(_) => {
                let units = (bits * self.units_per_second()).div_ceil(rate.as_bps());
                Duration::from_nanos(
                    self.head().as_nanos().saturating_add(units.saturating_mul(self.unit().as_nanos())),
                )
            }
        }
    }

    /// The rate of ACK, CTS, RTS and broadcasts beside data at `rate`: 802.11b's lowest, the only basic rate
    /// here; 802.11a's highest mandatory rate that the data's does not fall below (clause 9.7.6.5.2).
    #[must_use]
    pub const fn control_rate(self, rate: BitRate) -> BitRate {
        match (self, rate.as_bps()) {
            (Self::Ieee80211b, _) => DSSS_RATES[0],
            (Self::Ieee80211a, 24_000_000..) => BitRate(24_000_000),
            (Self::Ieee80211a, 12_000_000..) => BitRate(12_000_000),
            (Self::Ieee80211a, _) => BitRate(6_000_000),
        }
    }

    /// An ACK, or a CTS, at the lowest rate: what EIFS leaves room for.
    #[must_use]
    pub const fn slowest_ack(self) -> Duration {
        self.frame(ACK, self.rates()[0])
    }

    /// Deferral after a frame that could not be read (clause 9.3.7): SIFS, the slowest ACK, DIFS.
    #[must_use]
    pub const fn eifs(self) -> Duration {
        Duration::from_nanos(self.sifs().as_nanos() + self.slowest_ack().as_nanos() + self.difs().as_nanos())
    }

    /// How long a sender waits for an ACK or a CTS before it takes the frame for lost: SIFS, a slot, and the
    /// longest that the answer can take. See `engine.rs` for why.
    #[must_use]
    pub const fn answer_timeout(self) -> Duration {
        Duration::from_nanos(self.sifs().as_nanos() + self.slot().as_nanos() + self.slowest_ack().as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_frames_are_what_the_standard_adds_up() {
        let times = |phy: Phy| [phy.sifs(), phy.slot(), phy.difs(), phy.slowest_ack(), phy.eifs()];
        // DSSS: 10 + 2 x 20; 192 + 112; 10 + 304 + 50.
        assert_eq!(times(Phy::Ieee80211b), [10, 20, 50, 304, 364].map(us));
        // OFDM: 16 + 2 x 9; 20 + 4 x ceil(134 / 24); 16 + 44 + 34.
        assert_eq!(times(Phy::Ieee80211a), [16, 9, 34, 44, 94].map(us));
        assert_eq!(Phy::Ieee80211b.answer_timeout(), us(10 + 20 + 304));
        assert_eq!(Phy::Ieee80211a.answer_timeout(), us(16 + 9 + 44));
    }

    /// Worked out by hand. DSSS: 192 + 8 x octets / rate. OFDM: 20 + 4 x ceil((22 + 8 x octets) / N_DBPS).
    #[test]
    fn frames_take_what_the_standard_adds_up() {
        #[rustfmt::skip]
        let table = [
            // bit/s, us for 14, 20, 36, 1536 octets
            (Phy::Ieee80211b,  1_000_000, [304, 352, 480, 12_480]),
            (Phy::Ieee80211b,  2_000_000, [248, 272, 336,  6_336]),
            (Phy::Ieee80211b,  5_500_000, [213, 222, 245,  2_427]),
            (Phy::Ieee80211b, 11_000_000, [203, 207, 219,  1_310]),
            // A channel of the crahn paper: 192 + 8 x 1536 / 1.25 = 192 + 9830.4.
            (Phy::Ieee80211b,  1_250_000, [282, 320, 423, 10_023]),
            (Phy::Ieee80211a,  6_000_000, [ 44,  52,  72,  2_072]),
            (Phy::Ieee80211a,  9_000_000, [ 36,  44,  56,  1_388]),
            (Phy::Ieee80211a, 12_000_000, [ 32,  36,  48,  1_048]),
            (Phy::Ieee80211a, 18_000_000, [ 28,  32,  40,    704]),
            (Phy::Ieee80211a, 24_000_000, [ 28,  28,  36,    536]),
            (Phy::Ieee80211a, 36_000_000, [ 24,  28,  32,    364]),
            (Phy::Ieee80211a, 48_000_000, [ 24,  24,  28,    280]),
            (Phy::Ieee80211a, 54_000_000, [ 24,  24,  28,    248]),
        ];
        for (phy, bps, row) in table {
            for (octets, expected) in [14, 20, 36, 1536].into_iter().zip(row) {
                assert_eq!(phy.frame(octets, BitRate(bps)), us(expected), "{octets} octets at {bps}");
            }
        }
        assert_eq!(Phy::Ieee80211a.frame(14, BitRate(0)), Duration::MAX);
        assert!(Phy::Ieee80211b.frame(u32::MAX, BitRate(1)) > Duration::from_secs(1));
    }

    #[test]
    fn control_frames_go_at_a_rate_that_everybody_reads() {
        let control = |phy: Phy| -> Vec<u64> {
            phy.rates().iter().map(|&rate| phy.control_rate(rate).as_bps() / 1_000_000).collect()
        };
        assert_eq!(control(Phy::Ieee80211a), [6, 6, 12, 12, 24, 24, 24, 24]);
        assert_eq!(control(Phy::Ieee80211b), [1, 1, 1, 1]);
    }
}
