//! How long a frame occupies the medium: the whole exchange, until the next may begin.
//!
//! Sources: dsasync section III-A (`per-byte`: rate C and MAC efficiency e); IEEE Std 802.11-2020, clause 17
//! (`802.11a`).
//! Sees a frame's length and the MAC's own random stream. The silences' streams are others, so that the draws
//! made here, which depend on the traffic, change no silence. What depends on the channel alone is worked out
//! once, when the channel is made.
//!
//! An `802.11a` exchange, with the frame body as RFC 1042 puts an IP packet into it:
//!
//! ```text
//! DIFS 34 us │ backoff, 0..15 slots of 9 us │ preamble, SIGNAL 20 us │ data, symbols of 4 us │ SIFS 16 us │ ACK
//! ```
//! Simplifications: each frame draws its backoff anew from the smallest contention window, whether others
//! contend or not, since collisions among contenders are not modelled; a frame counts as delivered when its
//! ACK has ended.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};

use super::config::AirTimeModel;
use crate::rng::Stream;

/// Bytes of the IP packet that a channel's effective rate is told for.
const FULL_SIZE: u32 = 1500;

/// DIFS: SIFS and two slots (clause 10.3.7), us.
const DIFS: u64 = 34;
/// aSlotTime (table 17-21), us.
const SLOT: u64 = 9;
/// aSIFSTime (table 17-21), us.
const SIFS: u64 = 16;
/// The largest backoff of a first transmission: aCWmin (table 17-21), slots.
const CW_MIN: u64 = 15;
/// PLCP preamble, 16 us, and SIGNAL, 4 us (table 17-5), us.
const PREAMBLE_AND_SIGNAL: u64 = 20;
/// T_SYM (table 17-5), us.
const SYMBOL: u64 = 4;
/// SERVICE and tail bits around the octets of a frame (clauses 17.3.5.2 and 17.3.5.3).
const SERVICE_AND_TAIL_BITS: u64 = 16 + 6;
/// Octets around an IP packet: LLC and SNAP headers (RFC 1042) 8, MAC header 24, FCS 4.
const AROUND_IP: u64 = 8 + 24 + 4;
/// Octets of an ACK frame (clause 9.3.1.4).
const ACK: u64 = 14;

/// The rates of IEEE 802.11a in Mbit/s, each with its data bits per symbol (N_DBPS, table 17-4).
const RATES: [(u64, u64); 8] =
    [(6, 24), (9, 36), (12, 48), (18, 72), (24, 96), (36, 144), (48, 192), (54, 216)];
/// Rates that every station supports, highest first (clause 17.1.1), as in [`RATES`].
const MANDATORY: [(u64, u64); 3] = [(24, 96), (12, 48), (6, 24)];

/// The time that frames take on one channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AirTime {
    phy_rate: BitRate,
    efficiency: Fraction,
    effective_rate: BitRate,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Length over rate.
    PerByte {
        rate: BitRate,
        /// By the rate in bit/s; `None` at rate zero, where no frame ever ends.
        divide: Option<Divisor>,
    },
    /// An exchange of IEEE 802.11a.
    Ieee80211a {
        /// All of it but backoff and data, ns.
        fixed: u64,
        /// By the data bits of a symbol.
        divide: Divisor,
    },
}

impl AirTime {
    /// The times on a channel; `None` if the model does not know `phy_rate`. `efficiency` counts per byte
    /// only.
    #[must_use]
    pub fn new(model: AirTimeModel, phy_rate: BitRate, efficiency: Fraction) -> Option<Self> {
        match model {
            AirTimeModel::PerByte => {
                let rate = phy_rate.mul_f64(efficiency.get());
                let form = Form::PerByte { rate, divide: Divisor::new(rate.as_bps()) };
                Some(Self { phy_rate, efficiency, effective_rate: rate, form })
            }
            AirTimeModel::Ieee80211a => {
                let &(rate, bits) = RATES.iter().find(|(rate, _)| BitRate::from_mbps(*rate) == phy_rate)?;
                // An ACK goes at the highest mandatory rate that the data's does not exceed (clause
                // 10.6.6.5.2).
                let &(_, ack_bits) = MANDATORY.iter().find(|(mandatory, _)| *mandatory <= rate)?;
                let ack_symbols = (SERVICE_AND_TAIL_BITS + 8 * ACK).div_ceil(ack_bits);
                let ack = PREAMBLE_AND_SIGNAL + SYMBOL * ack_symbols;
                let fixed = 1000 * (DIFS + PREAMBLE_AND_SIGNAL + SIFS + ack);
                let form = Form::Ieee80211a { fixed, divide: Divisor::new(bits)? };
                let mut air_time = Self { phy_rate, efficiency, effective_rate: phy_rate, form };
                let full = air_time.mean(FULL_SIZE).as_secs_f64();
                air_time.effective_rate = BitRate((f64::from(8 * FULL_SIZE) / full).round() as u64);
                let effective = air_time.effective_rate.as_bps() as f64;
                air_time.efficiency = Fraction::clamped(effective / phy_rate.as_bps() as f64);
                Some(air_time)
            }
        }
    }

    /// How long an IP packet of `len` bytes takes this time.
    #[inline]
    pub(crate) fn draw(&self, len: u32, stream: &mut Stream) -> Duration {
        match self.form {
            Form::PerByte { .. } => self.mean(len),
            Form::Ieee80211a { .. } => {
                // The backoff is uniform over the 16 values that the four uppermost bits have.
                const { assert!(CW_MIN == 15) };
                self.without_backoff(len) + Duration::from_nanos(1000 * SLOT * (stream.bits() >> 60))
            }
        }
    }

    /// How long an IP packet of `len` bytes takes on average.
    #[must_use]
    #[inline]
    pub fn mean(&self, len: u32) -> Duration {
        match self.form {
            Form::PerByte { .. } => self.without_backoff(len),
            Form::Ieee80211a { .. } => {
                self.without_backoff(len) + Duration::from_nanos(1000 * SLOT * CW_MIN / 2)
            }
        }
    }

    #[inline]
    fn without_backoff(&self, len: u32) -> Duration {
        let len = u64::from(len);
        match self.form {
            Form::PerByte { rate, divide } => match (divide, len.checked_mul(8_000_000_000)) {
                (Some(divide), Some(bit_nanos)) => Duration::from_nanos(divide.round_up(bit_nanos)),
                (Some(_), None) | (None, _) => rate.time_for(Bytes(len)),
            },
            Form::Ieee80211a { fixed, divide } => {
                // Equation 17-11: a last symbol is filled with pad bits.
                let symbols = divide.round_up(SERVICE_AND_TAIL_BITS + 8 * (len + AROUND_IP));
                Duration::from_nanos(fixed + 1000 * SYMBOL * symbols)
            }
        }
    }

    /// The channel's raw rate, the paper's C.
    #[must_use]
    pub const fn phy_rate(&self) -> BitRate {
        self.phy_rate
    }

    /// Share of the raw rate at which full-size packets pass, the paper's e.
    #[must_use]
    pub const fn efficiency(&self) -> Fraction {
        self.efficiency
    }

    /// The rate at which full-size packets, one after the other, pass.
    #[must_use]
    pub const fn effective_rate(&self) -> BitRate {
        self.effective_rate
    }
}

/// Divides by a number that is known long before, with two multiplications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Divisor {
    by: u64,
    /// 2^64 / `by`, rounded down.
    reciprocal: u64,
}

impl Divisor {
    /// `None` for zero.
    const fn new(by: u64) -> Option<Self> {
        match u64::MAX.checked_div(by) {
            None => None,
            Some(reciprocal) => Some(Self { by, reciprocal }),
        }
    }

    /// `number` / `by`, rounded up.
    #[inline]
    const fn round_up(self, number: u64) -> u64 {
        // The reciprocal is too small by less than 1 + 1/by, so the quotient is the true one or one less, and
        // the rest is below 2 x by.
        let quotient = ((number as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = number - quotient * self.by;
        quotient + (rest > 0) as u64 + (rest > self.by) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ieee80211a(mbps: u64) -> AirTime {
        AirTime::new(AirTimeModel::Ieee80211a, BitRate::from_mbps(mbps), Fraction::ONE)
            .expect("one of the rates")
    }

    /// Worked out by hand: 34 + 20 + 4 x ceil((22 + 8 x (length + 36)) / N_DBPS) + 16 + ACK, where the ACK
    /// takes 44 us at 6 Mbit/s, 32 us at 12 Mbit/s and 28 us at 24 Mbit/s.
    #[test]
    fn an_802_11a_exchange_takes_what_the_standard_adds_up() {
        #[rustfmt::skip]
        let table = [
            // Mbit/s, us without backoff for 40, 52, 576 and 1500 bytes
            ( 6, [222, 238, 934, 2166]),
            ( 9, [186, 198, 662, 1482]),
            (12, [158, 166, 514, 1130]),
            (18, [138, 146, 378,  786]),
            (24, [126, 130, 306,  614]),
            (36, [118, 122, 238,  442]),
            (48, [114, 114, 202,  358]),
            (54, [110, 114, 190,  326]),
        ];
        let mut stream = Stream::new(1, "mac", 0);
        for (mbps, row) in table {
            let air_time = ieee80211a(mbps);
            for (len, us) in [40, 52, 576, 1500].into_iter().zip(row) {
                assert_eq!(air_time.mean(len), Duration::from_nanos(us * 1000 + 67_500), "{len} B at {mbps}");
                for _ in 0..50 {
                    let backoff = air_time.draw(len, &mut stream).saturating_sub(Duration::from_micros(us));
                    assert!(
                        backoff.as_nanos().is_multiple_of(9000) && backoff <= Duration::from_micros(135),
                        "{backoff}"
                    );
                }
            }
        }
        // 12,000 bits in 681.5 us.
        assert_eq!(ieee80211a(24).effective_rate(), BitRate(17_608_217));
    }

    #[test]
    fn backoffs_are_uniform_over_sixteen_slots() {
        let (air_time, mut stream) = (ieee80211a(24), Stream::new(7, "mac", 0));
        let mut drawn = [0; 16];
        for _ in 0..16_000 {
            let backoff = air_time.draw(1500, &mut stream).saturating_sub(Duration::from_micros(614));
            drawn[(backoff.as_nanos() / 9000) as usize] += 1;
        }
        // A thousand each, give or take four standard deviations.
        assert!(drawn.iter().all(|count| (878..1122).contains(count)), "{drawn:?}");
    }

    #[test]
    fn only_the_eight_rates_have_an_802_11a_exchange() {
        let known = (0..60).filter(|mbps| {
            AirTime::new(AirTimeModel::Ieee80211a, BitRate::from_mbps(*mbps), Fraction::ONE).is_some()
        });
        assert_eq!(known.collect::<Vec<_>>(), [6, 9, 12, 18, 24, 36, 48, 54]);
    }

    proptest! {
        #[test]
        fn dividing_by_the_reciprocal_is_exact(number: u64, by in 1u64.., small in 1u64..1000) {
            for by in [by, small] {
                let divided = Divisor::new(by).map(|divide| divide.round_up(number));
                prop_assert_eq!(divided, Some(number.div_ceil(by)));
            }
        }

        #[test]
        fn per_byte_a_frame_takes_its_length_over_the_effective_rate(len: u32, bps in 0u64..100_000_000_000) {
            let rate = BitRate(bps);
            let air_time = AirTime::new(AirTimeModel::PerByte, rate, Fraction::ONE).expect("any rate will do");
            let mut stream = Stream::new(1, "mac", 0);
            let expected = air_time.effective_rate().time_for(Bytes(len.into()));
            prop_assert_eq!(air_time.draw(len, &mut stream), expected);
        }
    }
}
