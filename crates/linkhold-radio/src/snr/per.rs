//! Packet error rates of IEEE 802.11's DSSS, CCK and OFDM rates in white Gaussian noise.
//!
//! Paper: `activation` section 4.2, which takes the error rate from the SNR by CCK-5.5's curve at 1000 bytes
//! (Heegard et al., IEEE Communications Magazine 39(11), 2001; printed as a drawing only). The formulas here
//! are those that ns-3 validated and prints numbers for (Pei and Henderson, *Validation of OFDM error rate
//! model in ns-3*, 2010, and *Validation of ns-3 802.11b PHY model*, 2009):
//!
//! | rates | bit or symbol error | source |
//! |---|---|---|
//! | DSSS 1 | DBPSK | Proakis, *Digital Communications*, 4th ed. (2001), eq. 5.2-69 |
//! | DSSS 2 | DQPSK | Ferrari and Corazza, Electronics Letters 40(20), 2004, eq. 8 |
//! | CCK 5.5, 11 | 16 biorthogonal signals, and two such sets | Pursley and Royster, IEEE Trans. Commun. 57(2), 2009, eq. 18 and 17 |
//! | OFDM | K = 7 convolutional code, hard decisions, union bound | Miller, NIST report (2003), tables 3.1.1 and 3.1.2 |
//!
//! The SNR is the signal's power over that of the noise in the receiver's bandwidth: 22 MHz for DSSS and CCK,
//! 20 MHz for OFDM. ns-3 counts noise so for DSSS, which leaves CCK 3 dB above what its symbols alone need;
//! equally, CCK's SNR is then that of a chip at 11 Mchip/s. Preamble and header are more robust than the
//! data and are not counted; errors do not come in bursts within a frame.

use linkhold_core::units::BitRate;

/// Hertz of noise that a DSSS or CCK receiver takes in.
const DSSS_NOISE_BANDWIDTH: f64 = 22e6;
/// Symbols of DSSS 1 and 2 in a second.
const DSSS_SYMBOLS: f64 = 1e6;
/// Chips of a CCK symbol.
const CCK_CHIPS: f64 = 8.0;

/// A rate of the physical layer with its modulation and coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhyRate {
    /// 1 Mbit/s, DBPSK over the Barker sequence.
    Dsss1,
    /// 2 Mbit/s, DQPSK over the Barker sequence.
    Dsss2,
    /// 5.5 Mbit/s, complementary codes of 4 bits.
    Cck5,
    /// 11 Mbit/s, complementary codes of 8 bits.
    Cck11,
    /// 6 Mbit/s, BPSK, code rate 1/2.
    Ofdm6,
    /// 9 Mbit/s, BPSK, code rate 3/4.
    Ofdm9,
    /// 12 Mbit/s, QPSK, code rate 1/2.
    Ofdm12,
    /// 18 Mbit/s, QPSK, code rate 3/4.
    Ofdm18,
    /// 24 Mbit/s, 16-QAM, code rate 1/2.
    Ofdm24,
    /// 36 Mbit/s, 16-QAM, code rate 3/4.
    Ofdm36,
    /// 48 Mbit/s, 64-QAM, code rate 2/3.
    Ofdm48,
    /// 54 Mbit/s, 64-QAM, code rate 3/4.
    Ofdm54,
}

/// A constellation of OFDM's subcarriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constellation {
    Bpsk,
    Qpsk,
    Qam16,
    Qam64,
}

/// A rate of the K = 7 code with generators 133 and 171 (octal), punctured as IEEE Std 802.11-2020, clause
/// 17.3.5.6, has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Half,
    TwoThirds,
    ThreeQuarters,
}

impl PhyRate {
    /// Every rate, in declaration order.
    pub const ALL: [Self; 12] = [
        Self::Dsss1,
        Self::Dsss2,
        Self::Cck5,
        Self::Cck11,
        Self::Ofdm6,
        Self::Ofdm9,
        Self::Ofdm12,
        Self::Ofdm18,
        Self::Ofdm24,
        Self::Ofdm36,
        Self::Ofdm48,
        Self::Ofdm54,
    ];

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dsss1 => "dsss-1",
            Self::Dsss2 => "dsss-2",
            Self::Cck5 => "cck-5.5",
            Self::Cck11 => "cck-11",
            Self::Ofdm6 => "ofdm-6",
            Self::Ofdm9 => "ofdm-9",
            Self::Ofdm12 => "ofdm-12",
            Self::Ofdm18 => "ofdm-18",
            Self::Ofdm24 => "ofdm-24",
            Self::Ofdm36 => "ofdm-36",
            Self::Ofdm48 => "ofdm-48",
            Self::Ofdm54 => "ofdm-54",
        }
    }

    /// The rate of data bits.
    #[must_use]
    pub const fn bit_rate(self) -> BitRate {
        BitRate(match self {
            Self::Dsss1 => 1_000_000,
            Self::Dsss2 => 2_000_000,
            Self::Cck5 => 5_500_000,
            Self::Cck11 => 11_000_000,
            Self::Ofdm6 => 6_000_000,
            Self::Ofdm9 => 9_000_000,
            Self::Ofdm12 => 12_000_000,
            Self::Ofdm18 => 18_000_000,
            Self::Ofdm24 => 24_000_000,
            Self::Ofdm36 => 36_000_000,
            Self::Ofdm48 => 48_000_000,
            Self::Ofdm54 => 54_000_000,
        })
    }

    /// The rate of that many bits a second. No two have the same.
    #[must_use]
    pub fn of(bit_rate: BitRate) -> Option<Self> {
        Self::ALL.into_iter().find(|rate| rate.bit_rate() == bit_rate)
    }

    /// The natural logarithm of the probability that one bit of a frame is right, at an SNR given as a ratio.
    /// A frame of n bits is right with the n-th power.
    pub(crate) fn ln_bit_success(self, snr: f64) -> f64 {
        let snr = snr.max(0.0);
        match self {
            Self::Dsss1 => (-dbpsk_ber(snr * DSSS_NOISE_BANDWIDTH / DSSS_SYMBOLS)).ln_1p(),
            Self::Dsss2 => (-dqpsk_ber(snr * DSSS_NOISE_BANDWIDTH / DSSS_SYMBOLS / 2.0)).ln_1p(),
            // A symbol of 4 bits is one of 16 biorthogonal signals.
            Self::Cck5 => (-biorthogonal16_ser(CCK_CHIPS * snr)).ln_1p() / 4.0,
            // A symbol of 8 bits is a pair of them, each with half of the energy (eq. 17).
            Self::Cck11 => (-biorthogonal16_ser(CCK_CHIPS / 2.0 * snr)).ln_1p() / 4.0,
            Self::Ofdm6 => ofdm(snr, Constellation::Bpsk, Code::Half),
            Self::Ofdm9 => ofdm(snr, Constellation::Bpsk, Code::ThreeQuarters),
            Self::Ofdm12 => ofdm(snr, Constellation::Qpsk, Code::Half),
            Self::Ofdm18 => ofdm(snr, Constellation::Qpsk, Code::ThreeQuarters),
            Self::Ofdm24 => ofdm(snr, Constellation::Qam16, Code::Half),
            Self::Ofdm36 => ofdm(snr, Constellation::Qam16, Code::ThreeQuarters),
            Self::Ofdm48 => ofdm(snr, Constellation::Qam64, Code::TwoThirds),
            Self::Ofdm54 => ofdm(snr, Constellation::Qam64, Code::ThreeQuarters),
        }
    }

    /// The probability that a frame of `bits` bits has an error at an SNR of `snr_db` dB: the formula itself.
    /// CCK's is an integral, so a busy caller asks a [`Curve`](crate::snr::curve::Curve).
    #[must_use]
    pub fn packet_error_rate(self, snr_db: f64, bits: u32) -> f64 {
        if bits == 0 {
            return 0.0;
        }
        let ln = f64::from(bits) * self.ln_bit_success(10f64.powf(snr_db / 10.0));
        (-ln.exp_m1()).clamp(0.0, 1.0)
    }
}

/// Proakis, eq. 5.2-69; `ratio` is E_b / N_0.
fn dbpsk_ber(ratio: f64) -> f64 {
    0.5 * (-ratio).exp()
}

/// Ferrari and Corazza, eq. 8. An approximation for large `ratio` (E_b / N_0): below it grows past any
/// probability, and is cut at that of a guess.
fn dqpsk_ber(ratio: f64) -> f64 {
    let root2 = core::f64::consts::SQRT_2;
    let scale = (root2 + 1.0) / (8.0 * core::f64::consts::PI * root2).sqrt();
    (scale / ratio.sqrt() * (-(2.0 - root2) * ratio).exp()).min(0.5)
}

/// The probability of a wrong symbol among 16 biorthogonal signals (Pursley and Royster, eq. 18); `ratio` is
/// E_s / N_0.
///
/// The signal is right if its correlator's output x + β is above the size of the seven others:
/// P = ∫ (2Φ(x + β) − 1)^7 φ(x) dx over x > −β, with β² = 2 E_s / N_0. What is integrated here is 1 − P,
/// which keeps its digits where it is small.
fn biorthogonal16_ser(ratio: f64) -> f64 {
    /// Step of Simpson's rule. Halving it changes no printed digit.
    const STEP: f64 = 0.05;
    /// φ has no more digits beyond.
    const FAR: f64 = 38.0;
    let root2 = core::f64::consts::SQRT_2;
    let beta = (2.0 * ratio).sqrt();
    let (from, to) = ((-beta).max(-FAR), 10.0);
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * core::f64::consts::PI).sqrt();
    let wrong = |x: f64| -(7.0 * (-libm::erfc((x + beta) / root2)).ln_1p()).exp_m1();
    let steps = 2 * ((to - from) / (2.0 * STEP)).ceil() as u32;
    let width = (to - from) / f64::from(steps);
    let mut sum = 0.0;
    for index in 0..=steps {
        let x = from + f64::from(index) * width;
        let weight = if index == 0 || index == steps {
            1.0
        } else if index % 2 == 1 {
            4.0
        } else {
            2.0
        };
        sum += weight * density(x) * wrong(x);
    }
    let below = if beta < FAR { 0.5 * libm::erfc(beta / root2) } else { 0.0 };
    (below + sum * width / 3.0).min(1.0)
}

/// As [`PhyRate::ln_bit_success`].
fn ofdm(snr: f64, constellation: Constellation, code: Code) -> f64 {
    // Coded bits of the constellation (Proakis, eq. 5.2-57 and 5.2-78 with Gray mapping).
    let ber = match constellation {
        Constellation::Bpsk => 0.5 * libm::erfc(snr.sqrt()),
        Constellation::Qpsk => 0.5 * libm::erfc((snr / 2.0).sqrt()),
        Constellation::Qam16 => 3.0 / 8.0 * libm::erfc((snr / 10.0).sqrt()),
        Constellation::Qam64 => 7.0 / 24.0 * libm::erfc((snr / 42.0).sqrt()),
    };
    (-code.event_probability(ber).min(1.0)).ln_1p()
}

impl Code {
    /// The union bound on the probability that an error event starts at a data bit, with coded bits wrong
    /// with probability `ber`: Σ c_d D^d / 2b, D² = 4 p (1 − p), for a code of rate b / (b + 1).
    fn event_probability(self, ber: f64) -> f64 {
        let (bits, step, free, weights): (f64, i32, i32, &[f64]) = match self {
            // Table 3.1.1: distances 10, 12, 14, ...
            Self::Half => (
                1.0,
                2,
                10,
                &[
                    36.0,
                    211.0,
                    1_404.0,
                    11_633.0,
                    77_433.0,
                    502_690.0,
                    3_322_763.0,
                    21_292_910.0,
                    134_365_911.0,
                ],
            ),
            // Table 3.1.2: distances 6, 7, 8, ...
            Self::TwoThirds => (
                2.0,
                1,
                6,
                &[
                    3.0,
                    70.0,
                    285.0,
                    1_276.0,
                    6_160.0,
                    27_128.0,
                    117_019.0,
                    498_860.0,
                    2_103_891.0,
                    8_784_123.0,
                ],
            ),
            // Table 3.1.2: distances 5, 6, 7, ...
            Self::ThreeQuarters => (
                3.0,
                1,
                5,
                &[
                    42.0,
                    201.0,
                    1_492.0,
                    10_469.0,
                    62_935.0,
                    379_644.0,
                    2_253_373.0,
                    13_073_811.0,
                    75_152_755.0,
                    428_005_675.0,
                ],
            ),
        };
        let d = (4.0 * ber * (1.0 - ber)).sqrt();
        let terms = weights.iter().zip(0..).map(|(weight, index)| weight * d.powi(free + step * index));
        terms.sum::<f64>() / (2.0 * bits)
    }
}

#[cfg(test)]
#[path = "per_tests.rs"]
mod tests;
