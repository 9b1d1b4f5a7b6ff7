//! The noise floor, from a stretch of the input that is mostly quiet.
//!
//! A mean over the stretch would count every burst in it. The lower quartile of the blocks' powers does not:
//! with bursts in half of the blocks it is the median of the quiet ones, which is 0.67 deviations of a block
//! too high (0.06 dB for blocks of 2400 samples). Its own bias is known from the law of the noise and taken
//! out.
//!
//! How well n blocks tell the floor follows from the variance of a sample quantile, q(1-q)/(n·f²) (David and
//! Nagaraja, "Order Statistics", section 10.2).

use crate::law::NoiseLaw;

/// The quantile that is taken.
const QUANTILE: f64 = 0.25;
/// Fewest blocks of a calibration: below, the quantile's variance is not that of many blocks.
pub const FEWEST_BLOCKS: usize = 40;
/// Most blocks of a calibration: 8 MiB of powers.
pub const MOST_BLOCKS: usize = 1 << 20;

/// A noise floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Power of the noise in the band, full scale being 1.
    pub power: f64,
    /// Standard error, as a share of it; 0 if it was given.
    pub error: f64,
}

/// The floor that the `powers` of blocks show; sorts them. `None` without blocks, or if more than a quarter
/// of them have no power at all, so that there is no noise.
#[must_use]
pub fn estimate(powers: &mut [f64], law: &NoiseLaw) -> Option<Floor> {
    powers.sort_unstable_by(f64::total_cmp);
    let count = powers.len() as f64;
    // The r-th of n is on average near the quantile r/(n + 1).
    let rank = (QUANTILE * (count + 1.0)).ceil().max(1.0);
    let quantile = rank / (count + 1.0);
    let seen = *powers.get(rank as usize - 1)?;
    if seen <= 0.0 {
        return None;
    }
    let expected = law.ratio_passed_with(1.0 - quantile);
    let step = 0.01 * law.deviation();
    let density = (law.above(expected - step) - law.above(expected + step)) / (2.0 * step);
    let error = (quantile * (1.0 - quantile) / count).sqrt() / (density * expected);
    Some(Floor { power: seen / expected, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::EnergyMeter;
    use crate::settings::Plan;
    use crate::synthetic::Noise;

    /// Powers of blocks of noise of power 1, a share of them with a burst of 10.
    fn powers(seed: u64, blocks: usize, busy: usize) -> (Vec<f64>, NoiseLaw) {
        let mut noise = Noise::new(seed);
        let mut meter = EnergyMeter::new(&Plan { block: 50, ..Plan::default() });
        let mut block = vec![crate::Sample::default(); 50];
        let powers = (0..blocks).map(|index| {
            noise.fill(&mut block, 1.0);
            meter.measure(&block) + if index % 4 < busy { 10.0 } else { 0.0 }
        });
        (powers.collect(), meter.law())
    }

    #[test]
    fn the_floor_is_within_its_stated_error() {
        let trials = 200;
        let (mut sum, mut square, mut stated) = (0.0, 0.0, 0.0);
        for seed in 0..trials {
            let (mut powers, law) = powers(seed, 400, 0);
            let floor = estimate(&mut powers, &law).expect("there is noise");
            sum += floor.power - 1.0;
            square += (floor.power - 1.0).powi(2);
            stated = floor.error;
        }
        let (bias, spread) = (sum / trials as f64, (square / trials as f64).sqrt());
        // The bias is within three of its standard errors; the spread within three of its own (5 % each).
        assert!(bias.abs() < 3.0 * stated / (trials as f64).sqrt(), "bias {bias}, stated error {stated}");
        assert!((spread / stated - 1.0).abs() < 0.15, "spread {spread}, stated {stated}");
    }

    #[test]
    fn bursts_in_half_of_the_stretch_raise_it_by_two_thirds_of_a_deviation() {
        let (mut powers, law) = powers(5, 4000, 2);
        let floor = estimate(&mut powers, &law).expect("there is noise");
        let deviations = (floor.power - 1.0) / law.deviation();
        assert!((0.4..1.0).contains(&deviations), "{deviations} deviations");
    }

    #[test]
    fn silence_is_no_noise() {
        let law = NoiseLaw::chi_square(10.0);
        assert_eq!(estimate(&mut [], &law), None);
        assert_eq!(estimate(&mut [0.0; 100], &law), None);
    }
}
