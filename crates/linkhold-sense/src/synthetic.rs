//! Recordings with known bursts in known noise, for tests and benchmarks, and to try a set-up without a
//! radio.
//!
//! Noise is complex white Gaussian (Box and Muller 1958); a burst is a tone of constant amplitude, which is
//! the deterministic signal of Digham et al. 2007. One seed gives one recording.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::sample::Sample;

/// White Gaussian noise.
#[derive(Clone, Debug)]
pub struct Noise(Xoshiro256PlusPlus);

impl Noise {
    /// The noise of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A sample of noise of this power.
    pub fn sample(&mut self, power: f64) -> Sample {
        let radius = (-power * self.unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        Sample::new((radius * cos) as f32, (radius * sin) as f32)
    }

    /// Fills `out` with noise of this power.
    pub fn fill(&mut self, out: &mut [Sample], power: f64) {
        out.iter_mut().for_each(|slot| *slot = self.sample(power));
    }
}

/// A transmission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// First sample.
    pub start: u64,
    /// Samples.
    pub length: u64,
    /// Power.
    pub power: f64,
    /// Frequency, cycles a sample: -0.5 to 0.5.
    pub frequency: f64,
}

/// Noise and bursts, sample by sample.
#[derive(Clone, Debug)]
pub struct Air {
    noise: Noise,
    power: f64,
    bursts: Vec<Burst>,
    at: u64,
}

impl Air {
    /// Noise of this seed and power, with these bursts.
    #[must_use]
    pub fn new(seed: u64, power: f64, bursts: Vec<Burst>) -> Self {
        Self { noise: Noise::new(seed), power, bursts, at: 0 }
    }

    /// Fills `out` with what comes next.
    pub fn fill(&mut self, out: &mut [Sample]) {
        self.noise.fill(out, self.power);
        let end = self.at + out.len() as u64;
        for burst in &self.bursts {
            let (from, to) = (burst.start.max(self.at), (burst.start + burst.length).min(end));
            for at in from..to {
                let turns = (burst.frequency * (at - burst.start) as f64).fract();
                let tone =
                    Sample::from_polar(burst.power.sqrt() as f32, (std::f64::consts::TAU * turns) as f32);
                if let Some(slot) = out.get_mut((at - self.at) as usize) {
                    *slot += tone;
                }
            }
        }
        self.at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_power_in_both_parts() {
        let (mut noise, count) = (Noise::new(3), 200_000);
        let (mut re, mut im, mut fourth) = (0.0, 0.0, 0.0);
        for _ in 0..count {
            let sample = noise.sample(4.0);
            re += f64::from(sample.re).powi(2);
            im += f64::from(sample.im).powi(2);
            fourth += f64::from(sample.norm_sqr()).powi(2);
        }
        let mean = |sum: f64| sum / f64::from(count);
        // Four standard errors: a part's square has the deviation 2·√2, the fourth moment 2·16·√5.
        assert!((mean(re) - 2.0).abs() < 0.026 && (mean(im) - 2.0).abs() < 0.026);
        assert!((mean(fourth) - 32.0).abs() < 0.7, "{}", mean(fourth));
    }

    #[test]
    fn a_burst_lies_where_it_was_put_however_it_is_read() {
        let burst = Burst { start: 70, length: 60, power: 9.0, frequency: 0.1 };
        let (mut whole, mut parts) = (vec![Sample::default(); 200], Vec::new());
        Air::new(1, 0.0, vec![burst]).fill(&mut whole);
        let mut air = Air::new(1, 0.0, vec![burst]);
        for length in [1, 69, 7, 100, 23] {
            let mut part = vec![Sample::default(); length];
            air.fill(&mut part);
            parts.extend(part);
        }
        assert_eq!(whole, parts);
        for (index, sample) in whole.iter().enumerate() {
            let expected = if (70..130).contains(&index) { 9.0 } else { 0.0 };
            assert!((sample.norm_sqr() - expected).abs() < 1e-4, "sample {index}");
        }
    }
}
