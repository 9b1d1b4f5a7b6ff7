//! How well a radio that measures energy for a time t_s tells a primary user from noise: P_d and P_f.
//!
//! Source: crahn, section 3, which refers to W. Y. Lee and I. F. Akyildiz, "Optimal Spectrum Sensing
//! Framework for Cognitive Radio Networks", IEEE TWC 7(10), 2008 (here: the framework). The framework's text
//! could not be looked up: the formulas below are from memory, not checked against it. They are checked
//! against their derivation: the tests compare them with the exact law of a sum of squares, and that with a
//! sampled detector.
//!
//! The detector sums the squares of n = 2 t_s W samples. Without a PU each has variance s_n^2, with one
//! s_s^2 + s_n^2. By the central limit theorem the sum Y is normal with mean n s^2 and variance 2 n s^4, so
//! that
//!
//! ```text
//! P_f = P_off Q((lambda - 2 t_s W s_n^2) / sqrt(4 t_s W s_n^4))
//! P_d = P_on  Q((lambda - 2 t_s W (s_s^2 + s_n^2)) / sqrt(4 t_s W (s_s^2 + s_n^2)^2))
//! P_on = beta / (alpha + beta),  P_off = alpha / (alpha + beta)
//! ```
//!
//! with the maximum a posteriori threshold lambda, where P_on f(lambda | ON) = P_off f(lambda | OFF). The P_d
//! and P_f of the framework are joint probabilities: "ON and detected". A simulation knows whether the PU is
//! on, and draws with the conditional ones, the Q alone; [`DetectionOdds`] has these and gives the joint ones
//! by name.
//!
//! Choices:
//! - Two normal laws of different width cross twice. The threshold is the upper crossing, since an energy
//!   detector says ON above it; the lower one is an artefact of the approximation. If the PU is so likely ON
//!   that they never cross, or that always saying ON is wrong less often, ON is always said.
//! - With less than one sample (t_s < 1 / 2W) nothing was measured: what is likelier beforehand is said, OFF
//!   on a tie. The formula itself would go on to separate the hypotheses with no sample at all.
//! - What happens to a PU that comes or goes while t_s runs is not in the formula. crahn's look-up takes a PU
//!   that is on at any time within t_s as ON; so does [`crate::spectrum::cycle`].
//!
//! crahn simulated "a simplified version of equations for P_d and P_f, as a function of sensing time interval
//! only" (section 4.3) and does not print it. [`SensingModel::Simplified`] is the formula above at alpha =
//! beta with W and SNR of IEEE 802.22's sensing requirement for digital television: 6 MHz and -116 dBm, which
//! is -21 dB with a noise figure of 11 dB (numbers from memory, not checked). They come from a standard for
//! cognitive radios, not from the paper's result that t_s = 0.2 s is best.

use linkhold_core::time::Duration;

/// Highest rate of a PU's changes, 1/s, and the reciprocal of the lowest.
const MAX_RATE: f64 = 1e6;

/// The tail of the standard normal distribution: the probability of a value above `x`.
#[must_use]
pub fn q_function(x: f64) -> f64 {
    0.5 * libm::erfc(x * core::f64::consts::FRAC_1_SQRT_2)
}

/// How often a primary user comes and goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PuActivity {
    alpha: f64,
    beta: f64,
}

/// Rates that no primary user has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("alpha {0} and beta {1} are rates a second, from 1e-6 to 1e6")]
pub struct NoSuchActivity(pub f64, pub f64);

impl PuActivity {
    /// A PU with death rate `alpha` and birth rate `beta`, 1/s: ON for 1/alpha on average, OFF for 1/beta.
    ///
    /// # Errors
    /// [`NoSuchActivity`] if a rate is not from 1e-6 to 1e6.
    pub fn new(alpha: f64, beta: f64) -> Result<Self, NoSuchActivity> {
        let range = 1.0 / MAX_RATE..=MAX_RATE;
        let right = range.contains(&alpha) && range.contains(&beta);
        if right { Ok(Self { alpha, beta }) } else { Err(NoSuchActivity(alpha, beta)) }
    }

    /// Death rate, 1/s.
    #[must_use]
    pub const fn alpha(self) -> f64 {
        self.alpha
    }

    /// Birth rate, 1/s.
    #[must_use]
    pub const fn beta(self) -> f64 {
        self.beta
    }

    /// Mean ON time.
    #[must_use]
    pub fn on_mean(self) -> Duration {
        Duration::from_secs_f64(1.0 / self.alpha)
    }

    /// Mean OFF time.
    #[must_use]
    pub fn off_mean(self) -> Duration {
        Duration::from_secs_f64(1.0 / self.beta)
    }

    /// P_on: the share of the time that it is ON.
    #[must_use]
    pub fn on_share(self) -> f64 {
        self.beta / (self.alpha + self.beta)
    }
}

/// How sure a detection is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectionOdds {
    /// Probability of saying ON if the PU is ON.
    pub detected_given_on: f64,
    /// Probability of saying ON if the PU is OFF.
    pub alarm_given_off: f64,
}

impl DetectionOdds {
    /// A detector that is never wrong.
    pub const PERFECT: Self = Self { detected_given_on: 1.0, alarm_given_off: 0.0 };

    /// The framework's P_d for a PU that is ON for `on_share` of the time: ON, and detected.
    #[must_use]
    pub fn joint_detection(self, on_share: f64) -> f64 {
        on_share * self.detected_given_on
    }

    /// The framework's P_f: OFF, and taken for ON.
    #[must_use]
    pub fn joint_false_alarm(self, on_share: f64) -> f64 {
        (1.0 - on_share) * self.alarm_given_off
    }

    /// The probability of being wrong: ON and missed, or OFF and taken for ON. This is what MAP makes
    /// smallest.
    #[must_use]
    pub fn error(self, on_share: f64) -> f64 {
        on_share * (1.0 - self.detected_given_on) + self.joint_false_alarm(on_share)
    }

    /// The probability that ON is said.
    #[must_use]
    pub fn of_saying_on(self, is_on: bool) -> f64 {
        if is_on { self.detected_given_on } else { self.alarm_given_off }
    }
}

/// What an energy detector has to work with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyDetector {
    bandwidth: f64,
    snr: f64,
}

/// A detector that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "a bandwidth of {0} Hz (1 to 1e12) and a power ratio of {1} (above 1e-9, below 1e9) do not make a detector"
)]
pub struct NoSuchDetector(pub f64, pub f64);

impl EnergyDetector {
    /// A detector of bandwidth `bandwidth` Hz (W), where a PU arrives with `snr` times the power of the noise
    /// (a ratio, not dB: s_s^2 / s_n^2).
    ///
    /// # Errors
    /// [`NoSuchDetector`] if either is out of range.
    pub fn new(bandwidth: f64, snr: f64) -> Result<Self, NoSuchDetector> {
        let right = (1.0..=1e12).contains(&bandwidth) && snr > 1e-9 && snr < 1e9;
        if right { Ok(Self { bandwidth, snr }) } else { Err(NoSuchDetector(bandwidth, snr)) }
    }

    /// Samples that it takes in `sensing`: n = 2 t_s W.
    #[must_use]
    pub fn samples(self, sensing: Duration) -> f64 {
        2.0 * sensing.as_secs_f64() * self.bandwidth
    }

    /// The MAP threshold for the mean square of a sample, as a multiple of the noise's: lambda / (n s_n^2).
    /// Zero: ON is always said; infinity: never.
    #[must_use]
    pub fn threshold(self, sensing: Duration, on_share: f64) -> f64 {
        let n = self.samples(sensing);
        if n < 1.0 {
            return if on_share > 0.5 { 0.0 } else { f64::INFINITY };
        }
        // With g = 1 + SNR and y = lambda / n, equal densities mean A y^2 - 2 B y = C.
        let g = 1.0 + self.snr;
        // 1 - 1/g and 1 - 1/g^2, without the cancellation of a small SNR.
        let b = self.snr / g;
        let a = b * (1.0 + 1.0 / g);
        let c = 4.0 / n * (libm::log1p(self.snr) + libm::log((1.0 - on_share) / on_share));
        let discriminant = b * b + a * c;
        if discriminant < 0.0 {
            return 0.0;
        }
        let crossing = (b + discriminant.sqrt()) / a;
        // Of one-sided detectors the upper crossing is the best, or always saying ON.
        if self.odds_above(crossing, n).error(on_share) > 1.0 - on_share { 0.0 } else { crossing }
    }

    /// The conditional probabilities after sensing for `sensing` (t_s) a PU that is ON for `on_share` of the
    /// time.
    #[must_use]
    pub fn odds(self, sensing: Duration, on_share: f64) -> DetectionOdds {
        let threshold = self.threshold(sensing, on_share);
        if threshold == 0.0 {
            return DetectionOdds { detected_given_on: 1.0, alarm_given_off: 1.0 };
        }
        if !threshold.is_finite() {
            return DetectionOdds { detected_given_on: 0.0, alarm_given_off: 0.0 };
        }
        self.odds_above(threshold, self.samples(sensing))
    }

    /// Probabilities that the sum of `n` squares is above n times `threshold`.
    fn odds_above(self, threshold: f64, n: f64) -> DetectionOdds {
        // (lambda - n s^2) / sqrt(2 n s^4), with s^2 in units of the noise's.
        let root = (n / 2.0).sqrt();
        let g = 1.0 + self.snr;
        DetectionOdds {
            detected_given_on: q_function((threshold / g - 1.0) * root),
            alarm_given_off: q_function((threshold - 1.0) * root),
        }
    }
}

/// Where P_d and P_f come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SensingModel {
    /// The framework's formula, for a PU of this activity (crahn, section 3: functions of alpha, beta, W and
    /// t_s).
    Exact(EnergyDetector, PuActivity),
    /// crahn's "function of t_s only", our reading: the formula at alpha = beta with fixed bandwidth and SNR.
    Simplified(EnergyDetector),
    /// The same at any t_s.
    Fixed(DetectionOdds),
}

impl SensingModel {
    /// [`Simplified`](Self::Simplified) with 6 MHz and -21 dB, see the head of this file.
    pub const SIMPLIFIED: Self =
        Self::Simplified(EnergyDetector { bandwidth: 6e6, snr: 0.007_943_282_347_242_816 });

    /// The conditional probabilities at sensing time `sensing`.
    #[must_use]
    pub fn odds(self, sensing: Duration) -> DetectionOdds {
        match self {
            Self::Exact(detector, activity) => detector.odds(sensing, activity.on_share()),
            Self::Simplified(detector) => detector.odds(sensing, 0.5),
            Self::Fixed(odds) => odds,
        }
    }
}

#[cfg(test)]
#[path = "energy_detector_tests.rs"]
mod tests;
