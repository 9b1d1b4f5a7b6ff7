//! The law of a block's energy when the band holds noise alone.
//!
//! The sum of M squared complex Gaussian samples is chi-square with 2M degrees of freedom (Urkowitz 1967,
//! section II), that is, a gamma variable of shape M. This holds for plain samples, and for the bins of a
//! Fourier transform without a window, which are independent.
//!
//! Under a Hann window neighbouring bins are correlated, and the sum is no longer chi-square. Its first three
//! cumulants follow from the correlation matrix R of the bins: κ₁ = tr R, κ₂ = tr R², κ₃ = 2·tr R³ a frame. A
//! shifted gamma law with the same three is taken (Buckley and Eagleson, "An approximation to the
//! distribution of quadratic forms in normal random variables", 1988). In blocks worth only 66 independent
//! samples the true probability is 1.04, 1.08 and 1.24 times the stated one at 10⁻³, 10⁻⁶ and 10⁻⁹ (test
//! below), and nearer in longer blocks; the usual fit of two cumulants (Satterthwaite 1946) is off by 1.6 at
//! 10⁻⁶.

use crate::marcum::{gamma_above, marcum_q};

/// The law of (energy in a block) / (its mean under noise): a gamma variable, shifted and scaled to mean 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseLaw {
    shape: f64,
    scale: f64,
    shift: f64,
}

impl NoiseLaw {
    /// The law of a sum of `samples` independent samples or bins: chi-square, exactly.
    #[must_use]
    pub fn chi_square(samples: f64) -> Self {
        Self { shape: samples, scale: 1.0 / samples, shift: 0.0 }
    }

    /// The law that has these second and third cumulants.
    #[must_use]
    pub fn with_cumulants(second: f64, third: f64) -> Self {
        let shape = 4.0 * second.powi(3) / third.powi(2);
        let scale = third / (2.0 * second);
        Self { shape, scale, shift: 1.0 - shape * scale }
    }

    /// The law of bins under a periodic Hann window, summed over `frames` frames. `bins` are the transform's
    /// bins that count, ascending, out of `length`.
    #[must_use]
    pub fn hann(bins: &[usize], length: usize, frames: usize) -> Self {
        // Correlation of bins that are so many bins apart, from the Fourier coefficients of the squared
        // window: 3/8, -1/4 and 1/16, over the first. Bins at opposite ends of the transform are neighbours,
        // too.
        let correlation = |one: usize, other: usize| {
            let apart = one.abs_diff(other);
            match apart.min(length - apart) {
                0 => 1.0,
                1 => -2.0 / 3.0,
                2 => 1.0 / 6.0,
                _ => 0.0,
            }
        };
        let near = |index: usize| {
            let count = bins.len();
            // Every bin within two of the transform lies within two places of the list, as a circle. A list
            // so short that a place would come twice is taken whole.
            let reach = if count <= 5 { 0..count } else { 0..5 };
            reach.map(move |step| if count <= 5 { step } else { (index + count + step - 2) % count })
        };
        let (mut second, mut third) = (0.0, 0.0);
        for (i, &one) in bins.iter().enumerate() {
            for j in near(i) {
                let ij = correlation(one, bins[j]);
                second += ij * ij;
                if ij != 0.0 {
                    third += ij
                        * near(i)
                            .map(|k| correlation(bins[j], bins[k]) * correlation(bins[k], one))
                            .sum::<f64>();
                }
            }
        }
        let (count, frames) = (bins.len() as f64, frames as f64);
        Self::with_cumulants(
            second / (count.powi(2) * frames),
            2.0 * third / (count.powi(3) * frames.powi(2)),
        )
    }

    /// Probability that noise alone gives more than `ratio` times its mean.
    #[must_use]
    pub fn above(&self, ratio: f64) -> f64 {
        gamma_above(self.shape, (ratio - self.shift) / self.scale)
    }

    /// The ratio that noise alone passes with this probability, between 0 and 1 (both excluded).
    #[must_use]
    pub fn ratio_passed_with(&self, probability: f64) -> f64 {
        let (mut low, mut high) = (self.shift.max(0.0), 1.0 + self.deviation());
        while self.above(high) > probability {
            (low, high) = (high, 2.0 * high);
        }
        // Halving more often than an f64 has bits changes nothing.
        for _ in 0..80 {
            let middle = f64::midpoint(low, high);
            if self.above(middle) > probability { low = middle } else { high = middle }
        }
        high
    }

    /// Standard deviation, as a share of the mean.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.shape.sqrt() * self.scale
    }

    /// Independent samples that have the same deviation; exact for [`chi_square`](Self::chi_square).
    #[must_use]
    pub fn samples(&self) -> f64 {
        self.deviation().powi(-2)
    }

    /// Probability that a block passes `ratio` when it holds a signal of `snr` (power over the noise's, both
    /// in the band) throughout: Digham et al. 2007, eq. (5). Exact for [`chi_square`](Self::chi_square);
    /// otherwise of as many samples as have the same deviation.
    ///
    /// Under a Hann window its mean and deviation are true and its skewness is not. To the first order this
    /// makes it wrong by 0.024/√n at most in a block of n bins times frames: by 0.0043 where n is 32 (0.0041
    /// was measured), and by 0.0008 where n is 1000. It says too little of weak signals, 0.0051 for 0.0062,
    /// and too much where P_d is about a half, 0.530 for 0.526. The bound is derived beside its test,
    /// `under_a_hann_window_signals_are_found_nearly_as_often_as_stated` in tests/rates.rs.
    #[must_use]
    pub fn detection(&self, ratio: f64, snr: f64) -> f64 {
        let samples = self.samples();
        marcum_q(samples, (2.0 * samples * snr).sqrt(), (2.0 * samples * ratio).sqrt())
    }

    /// The least SNR that is found with this probability in one block.
    #[must_use]
    pub fn snr_found_with(&self, ratio: f64, probability: f64) -> f64 {
        let (mut low, mut high) = (0.0, 0.5 * self.deviation());
        while self.detection(ratio, high) < probability {
            (low, high) = (high, 2.0 * high);
        }
        // A thousandth of the answer is 0.004 dB.
        while high - low > 1e-3 * high {
            let middle = f64::midpoint(low, high);
            if self.detection(ratio, middle) < probability { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chi_square_has_the_tables_quantiles() {
        // Chi-square tables: 2 degrees of freedom pass 13.816 with 0.001, 20 degrees 45.315, 100 degrees
        // 149.449.
        for (degrees, bound) in [(2.0, 13.816), (20.0, 45.315), (100.0, 149.449)] {
            let law = NoiseLaw::chi_square(degrees / 2.0);
            assert!((law.ratio_passed_with(1e-3) * degrees - bound).abs() < 1e-3, "{degrees}");
        }
    }

    #[test]
    fn a_quantile_is_passed_with_its_probability() {
        let bins: Vec<usize> = (10..42).collect();
        for law in [NoiseLaw::chi_square(1.0), NoiseLaw::chi_square(1e6), NoiseLaw::hann(&bins, 256, 3)] {
            for probability in [1e-12, 1e-6, 0.01, 0.5, 0.75, 0.999] {
                let passed = law.above(law.ratio_passed_with(probability));
                // At shape 1e6 a step of the ratio's last bit moves the tail by 1e-9 of itself.
                assert!((passed / probability - 1.0).abs() < 1e-6, "{law:?}, {probability}: {passed}");
            }
        }
    }

    /// Over all bins, the energy is that of the windowed samples (Parseval), whose weights are known.
    #[test]
    fn all_bins_of_a_hann_window_are_the_samples_weighted_by_it() {
        let length = 64;
        let bins: Vec<usize> = (0..length).collect();
        let weights: Vec<f64> = (0..length)
            .map(|n| (0.5 - 0.5 * (std::f64::consts::TAU * n as f64 / length as f64).cos()).powi(2))
            .collect();
        let moment = |power: i32| weights.iter().map(|weight| weight.powi(power)).sum::<f64>();
        let expected = NoiseLaw::with_cumulants(
            moment(2) / moment(1).powi(2) / 5.0,
            2.0 * moment(3) / moment(1).powi(3) / 25.0,
        );
        let law = NoiseLaw::hann(&bins, length, 5);
        assert!((law.shape / expected.shape - 1.0).abs() < 1e-9, "{law:?} {expected:?}");
        assert!((law.scale / expected.scale - 1.0).abs() < 1e-9, "{law:?} {expected:?}");
    }

    /// The tail of the true law far out, by importance sampling: a weighted sum of exponential variables,
    /// drawn so that the bound is their mean, and each draw weighted by what makes it likelier (Siegmund
    /// 1976).
    #[test]
    fn the_tail_under_a_hann_window_is_right_where_alarms_are_rare() {
        let (length, frames, draws) = (64usize, 2usize, 20_000);
        let turn = |n: usize| std::f64::consts::TAU * n as f64 / length as f64;
        let weights: Vec<f64> = (0..length).map(|n| (0.5 - 0.5 * turn(n).cos()).powi(2)).collect();
        let total = weights.iter().sum::<f64>() * frames as f64;
        let shares: Vec<f64> = weights.iter().cycle().take(length * frames).map(|w| w / total).collect();
        let law = NoiseLaw::hann(&(0..length).collect::<Vec<_>>(), length, frames);
        let satterthwaite = NoiseLaw::chi_square(law.samples());
        let mut noise = crate::synthetic::Noise::new(61);
        // In blocks of only 66 independent samples' worth. The error falls with their number.
        for (stated, off) in [(1e-3, 0.08), (1e-6, 0.15), (1e-9, 0.35)] {
            let bound = law.ratio_passed_with(stated);
            let mean = |tilt: f64| shares.iter().map(|s| s / (1.0 - tilt * s)).sum::<f64>();
            let (mut low, mut high) = (0.0, 1.0 / shares.iter().fold(0.0, |most: f64, &s| most.max(s)));
            for _ in 0..100 {
                let tilt = f64::midpoint(low, high);
                if mean(tilt) < bound { low = tilt } else { high = tilt }
            }
            let cumulant: f64 = shares.iter().map(|s| -(1.0 - low * s).ln()).sum();
            let drawn = (0..draws).map(|_| {
                let sum: f64 = shares
                    .iter()
                    .map(|s| f64::from(noise.sample(1.0).norm_sqr()) * s / (1.0 - low * s))
                    .sum();
                if sum > bound { (cumulant - low * sum).exp() } else { 0.0 }
            });
            let truth = drawn.sum::<f64>() / f64::from(draws);
            println!("stated {stated:e}, in truth {truth:.3e}");
            assert!((truth / stated - 1.0).abs() < off, "stated {stated:e}, in truth {truth:e}");
        }
        // What the fit of two cumulants states as 1e-6 is half as much again, as far as this law knows.
        let others = satterthwaite.ratio_passed_with(1e-6);
        assert!(law.above(others) > 1.5e-6, "{:e}", law.above(others));
    }

    #[test]
    fn one_bin_or_bins_far_apart_are_independent() {
        for bins in [&[7usize][..], &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]] {
            let (law, exact) = (NoiseLaw::hann(bins, 128, 4), NoiseLaw::chi_square(4.0 * bins.len() as f64));
            assert!((law.shape / exact.shape - 1.0).abs() < 1e-12 && law.shift.abs() < 1e-12, "{law:?}");
        }
    }

    #[test]
    fn the_least_snr_is_found_with_its_probability() {
        let law = NoiseLaw::chi_square(2400.0);
        let ratio = law.ratio_passed_with(1e-6);
        let snr = law.snr_found_with(ratio, 0.9);
        assert!((law.detection(ratio, snr) - 0.9).abs() < 2e-3);
        // Known shape: about (z_fa + z_d) / sqrt(M) = (4.75 + 1.28) / 49, so -9 dB.
        assert!((crate::decibel::to_db(snr) + 9.0).abs() < 0.4, "{}", crate::decibel::to_db(snr));
    }
}
