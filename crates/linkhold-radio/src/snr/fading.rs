//! Rayleigh and Rician fading of a moving station: a sum of sinusoids.
//!
//! Source: Xiao, Zheng and Beaulieu, *Novel Sum-of-Sinusoids Simulation Models for Rayleigh and Rician Fading
//! Channels*, IEEE Trans. Wireless Commun. 5(12), 2006: the improved reference model and, with a line of
//! sight, the Rician model. Sees time and, once, its random stream; answers the gain in dB over the mean.
//!
//! The scattered part is Y(t) = N^-1/2 Σ exp(j(ω_d t cos α_n + φ_n)) with α_n = (2πn + θ_n) / N; with a line
//! of sight, Z(t) = (Y(t) + √K exp(j(ω_d t cos θ_0 + φ_0))) / √(1 + K). Its mean power is 1. A gain needs no
//! state, so it can be asked for at any time and in any order.

use core::f64::consts::TAU;

use linkhold_core::time::Instant;

use crate::rng::Stream;

/// Sinusoids of the scattered part. The cited paper finds eight enough for the statistics of an ensemble;
/// with sixteen a single run is near them, too.
const PATHS: usize = 16;
/// A deeper fade cannot be told from silence, dB.
const DEEPEST_DB: f64 = -60.0;

/// How the paths to a station add up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fading {
    /// They do not: the SNR is that of the distance.
    None,
    /// There is no line of sight.
    Rayleigh,
    /// There is one, this many dB stronger than all other paths together (the K factor).
    Rician(f64),
}

/// One fading process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fader {
    /// Angular Doppler shift in rad/s and phase of each path.
    scattered: [(f64, f64); PATHS],
    /// The same of the line of sight, and its power over that of the scattered paths.
    sight: (f64, f64),
    k: f64,
}

impl Fader {
    /// A process with the largest Doppler shift `doppler_hz`; `None` for [`Fading::None`].
    pub(crate) fn new(fading: Fading, doppler_hz: f64, stream: &mut Stream) -> Option<Self> {
        let k = match fading {
            Fading::None => return None,
            Fading::Rayleigh => 0.0,
            Fading::Rician(k_db) => 10f64.powf(k_db / 10.0),
        };
        let widest = TAU * doppler_hz;
        let mut angle = || TAU * (stream.unit() - 0.5);
        let mut scattered = [(0.0, 0.0); PATHS];
        for (index, path) in scattered.iter_mut().enumerate() {
            let arrival = (TAU * index as f64 + angle()) / PATHS as f64;
            *path = (widest * arrival.cos(), angle());
        }
        let sight = (widest * angle().cos(), angle());
        Some(Self { scattered, sight, k })
    }

    /// The gain at `at`, dB over the mean power.
    pub(crate) fn gain_db(&self, at: Instant) -> f64 {
        let t = at.as_secs_f64();
        let (mut re, mut im) = (0.0, 0.0);
        for &(shift, phase) in &self.scattered {
            let (sin, cos) = (shift * t + phase).sin_cos();
            re += cos;
            im += sin;
        }
        let scale = 1.0 / (PATHS as f64).sqrt();
        let (sin, cos) = (self.sight.0 * t + self.sight.1).sin_cos();
        let strength = self.k.sqrt();
        let (re, im) = (re * scale + strength * cos, im * scale + strength * sin);
        (10.0 * ((re * re + im * im) / (1.0 + self.k)).log10()).max(DEEPEST_DB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Powers of many processes at times far apart.
    fn powers(fading: Fading) -> Vec<f64> {
        (0..400)
            .flat_map(|index| {
                let fader = Fader::new(fading, 8.0, &mut Stream::new(5, "fading", index)).expect("it fades");
                (0..50).map(move |step| 10f64.powf(fader.gain_db(Instant::from_millis(step * 977)) / 10.0))
            })
            .collect()
    }

    fn share_below(powers: &[f64], power: f64) -> f64 {
        powers.iter().filter(|&&x| x < power).count() as f64 / powers.len() as f64
    }

    #[test]
    fn rayleigh_power_is_exponential() {
        let powers = powers(Fading::Rayleigh);
        let mean = powers.iter().sum::<f64>() / powers.len() as f64;
        assert!((mean - 1.0).abs() < 0.03, "mean {mean}");
        // P(power < x) = 1 - exp(-x): a fade of 10 dB takes 9.5 % of the time.
        for (power, share) in [(0.1, 0.0952), (0.5, 0.3935), (1.0, 0.6321), (2.0, 0.8647)] {
            let ours = share_below(&powers, power);
            assert!((ours - share).abs() < 0.02, "below {power}: {ours}, {share}");
        }
    }

    #[test]
    fn a_line_of_sight_makes_fades_rare() {
        let powers = powers(Fading::Rician(10.0));
        let mean = powers.iter().sum::<f64>() / powers.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "mean {mean}");
        // The power's variance is (1 + 2K) / (1 + K)^2 (Rice's law): 0.174 at K = 10.
        let variance = powers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / powers.len() as f64;
        assert!((variance - 0.1736).abs() < 0.02, "variance {variance}");
        assert!(share_below(&powers, 0.1) < 0.002);
    }

    #[test]
    fn the_scattered_part_changes_as_fast_as_its_doppler_shift_lets_it() {
        // Clarke: the real part correlates by J_0(2 pi f_d tau). J_0 has its first zero at 2.405, so after
        // 0.383 / f_d the gain has forgotten what it was; after a hundredth of a period it has not.
        let correlation = |tau_ms: u64| {
            let (mut sum, mut power) = (0.0, 0.0);
            for index in 0..2000 {
                let fader = Fader::new(Fading::Rayleigh, 5.0, &mut Stream::new(9, "fading", index)).unwrap();
                let part = |ms: u64| {
                    let t = Instant::from_millis(ms).as_secs_f64();
                    fader.scattered.iter().map(|&(shift, phase)| (shift * t + phase).cos()).sum::<f64>()
                };
                sum += part(1000) * part(1000 + tau_ms);
                power += part(1000).powi(2);
            }
            sum / power
        };
        assert!(correlation(2) > 0.98, "{}", correlation(2));
        assert!(correlation(77).abs() < 0.07, "{}", correlation(77));
    }
}
