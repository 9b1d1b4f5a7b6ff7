//! How long a frame occupies the medium: the whole exchange, until the next may begin.
//!
//! Sources: dsasync section III-A (`per-byte`: rate C and MAC efficiency e); IEEE Std 802.11-2020, clause 17
//! (`802.11a`). The parts of an exchange of IEEE 802.11 stand in `dcf/phy.rs`.
//! Sees a frame's length and the MAC's own random stream. The silences' streams are others, so that the draws
//! made here, which depend on the traffic, change no silence. What depends on the channel alone is worked out
//! once, when the channel is made.
//!
//! An `802.11a` exchange, with the frame body as RFC 1042 puts an IP packet into it:
//!
//! ```text
//! DIFS 34 us │ backoff, 0..15 slots of 9 us
//!   │ preamble, SIGNAL 20 us │ data, symbols of 4 us │ SIFS 16 us │ ACK
//! ```
//! Simplifications: each frame draws its backoff anew from the smallest contention window, whether others
//! contend or not, since collisions among contenders are not modelled; a frame counts as delivered when its
//! ACK has ended. With `mac = "dcf"` nothing of that holds, for its radios contend; there the mean says what
//! a sender gets that is alone and always has a frame.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};

use super::config::AirTimeModel;
use super::dcf::{AROUND_IP, DcfConfig, Phy};
use crate::rng::Stream;

/// Bytes of the IP packet that a channel's effective rate is told for.
const FULL_SIZE: u32 = 1500;

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
    /// An exchange of IEEE 802.11.
    Exchange(Exchange),
}

/// The parts of an exchange of IEEE 802.11 at one data rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exchange {
    /// All of it but backoff and data, ns.
    fixed: u64,
    /// Bits at the data rate around the octets.
    extra_bits: u64,
    /// Bits times this, over the divisor: units of time.
    scale: u64,
    divide: Divisor,
    /// A unit, ns: a symbol or a microsecond.
    unit: u64,
    /// A slot of the backoff, ns.
    slot: u64,
    /// The largest backoff of a first transmission, slots: a power of two less one.
    window: u64,
    /// A longer frame goes behind RTS and CTS, which take `asking`, ns.
    rts_threshold: u32,
    asking: u64,
}

impl Exchange {
    fn new(config: &DcfConfig, rate: BitRate) -> Option<Self> {
        let phy = config.phy;
        let fixed = phy.difs() + phy.head() + phy.sifs() + config.ack(rate);
        // Of OFDM's rates each has a whole number of bits in a symbol, so nothing needs scaling.
        let (scale, by) = match phy {
            Phy::Ieee80211a => (1, rate.as_bps() / phy.units_per_second()),
            Phy::Ieee80211b => (phy.units_per_second(), rate.as_bps()),
        };
        Some(Self {
            fixed: fixed.as_nanos(),
            extra_bits: phy.extra_bits(),
            scale,
            divide: Divisor::new(by)?,
            unit: phy.unit().as_nanos(),
            slot: phy.slot().as_nanos(),
            window: phy.cw_min().into(),
            rts_threshold: config.rts_threshold,
            asking: config.asking(rate).as_nanos(),
        })
    }

    #[inline]
    fn without_backoff(&self, len: u64) -> u64 {
        let frame = len + u64::from(AROUND_IP);
        let bits = self.extra_bits + 8 * frame;
        // A last symbol is filled with pad bits (equation 17-11).
        let units = self.divide.round_up(bits * self.scale);
        let asking = if frame > u64::from(self.rts_threshold) { self.asking } else { 0 };
        self.fixed + units * self.unit + asking
    }
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
            AirTimeModel::Ieee80211a => Self::of_dcf(&DcfConfig::new(Phy::Ieee80211a), phy_rate),
        }
    }

    /// The mean times of a sender that is alone on a DCF's channel and always has a frame: DIFS, mean first
    /// backoff, exchange. `None` if the standard does not have `phy_rate`.
    #[must_use]
    pub fn of_dcf(config: &DcfConfig, phy_rate: BitRate) -> Option<Self> {
        if !config.phy.has(phy_rate) {
            return None;
        }
        let form = Form::Exchange(Exchange::new(config, phy_rate)?);
        let mut air_time = Self { phy_rate, efficiency: Fraction::ONE, effective_rate: phy_rate, form };
        let full = air_time.mean(FULL_SIZE).as_secs_f64();
        air_time.effective_rate = BitRate((f64::from(8 * FULL_SIZE) / full).round() as u64);
        let effective = air_time.effective_rate.as_bps() as f64;
        air_time.efficiency = Fraction::clamped(effective / phy_rate.as_bps() as f64);
        Some(air_time)
    }

    /// How long an IP packet of `len` bytes takes this time.
    #[inline]
    pub(crate) fn draw(&self, len: u32, stream: &mut Stream) -> Duration {
        match self.form {
            Form::PerByte { .. } => self.mean(len),
            Form::Exchange(exchange) => {
                // The backoff is uniform over the values that the uppermost bits have.
                let slots = stream.bits() >> (exchange.window.leading_zeros());
                self.without_backoff(len) + Duration::from_nanos(exchange.slot * slots)
            }
        }
    }

    /// How long an IP packet of `len` bytes takes on average.
    #[must_use]
    #[inline]
    pub fn mean(&self, len: u32) -> Duration {
        match self.form {
            Form::PerByte { .. } => self.without_backoff(len),
            Form::Exchange(exchange) => {
                self.without_backoff(len) + Duration::from_nanos(exchange.slot * exchange.window / 2)
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
            Form::Exchange(exchange) => Duration::from_nanos(exchange.without_backoff(len)),
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

    /// DSSS, worked out by hand: 50 + 192 + ceil(8 x (length + 36) / rate) + 10 + 304, and a mean backoff of
    /// 310 us. With RTS at 1 Mbit/s 352 + 10 + 304 + 10 us more.
    #[test]
    fn an_802_11b_exchange_takes_what_the_standard_adds_up() {
        let config = DcfConfig::new(Phy::Ieee80211b);
        let asks = DcfConfig { rts_threshold: 1000, ..config };
        #[rustfmt::skip]
        let table = [
            // bit/s, us without backoff for 40, 52, 576 and 1500 bytes
            ( 1_000_000, [1164, 1260, 5452, 12_844]),
            ( 2_000_000, [ 860,  908, 3004,  6700]),
            ( 5_500_000, [ 667,  684, 1447,  2791]),
            (11_000_000, [ 612,  620, 1002,  1674]),
        ];
        for (bps, row) in table {
            for (len, us) in [40, 52, 576, 1500].into_iter().zip(row) {
                let mean = |config| AirTime::of_dcf(config, BitRate(bps)).map(|time| time.mean(len));
                assert_eq!(mean(&config), Some(Duration::from_micros(us + 310)), "{len} B at {bps}");
                let more = if len + 36 > 1000 { 676 } else { 0 };
                assert_eq!(mean(&asks), Some(Duration::from_micros(us + 310 + more)), "{len} B at {bps}");
            }
        }
        assert_eq!(AirTime::of_dcf(&config, BitRate::from_mbps(6)), None);
    }

    proptest! {
        /// What is worked out once is what `phy.rs` adds up.
        #[test]
        fn an_exchange_is_the_sum_of_its_frames(
            len in 0u32..10_000, a: bool, index: prop::sample::Index, rts_threshold in 0u32..3000,
        ) {
            let phy = if a { Phy::Ieee80211a } else { Phy::Ieee80211b };
            let rate = *index.get(phy.rates());
            let config = DcfConfig { rts_threshold, ..DcfConfig::new(phy) };
            let backoff = Duration::from_nanos(phy.slot().as_nanos() * u64::from(phy.cw_min()) / 2);
            let sum = phy.difs() + backoff + config.exchange(len, rate);
            prop_assert_eq!(AirTime::of_dcf(&config, rate).map(|time| time.mean(len)), Some(sum));
        }
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
