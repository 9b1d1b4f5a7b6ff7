//! Named random streams: one per component and index, so that no component's draws shift another's.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64 as its authors advise.

use linkhold_core::time::Duration;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers that depends on (seed, component, index) only.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of `component` number `index` in the run with `seed`.
    #[must_use]
    pub fn new(seed: u64, component: &str, index: u64) -> Self {
        let named = component.bytes().fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)));
        Self(Xoshiro256PlusPlus::seed_from_u64(mix(named ^ mix(index))))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `[0, 1)`, uniform.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number from the standard normal distribution (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        // 1 - unit() is in (0, 1], so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (core::f64::consts::TAU * self.unit()).cos()
    }

    /// An exponentially distributed time of the given mean; at least 1 ns, so that a process always moves on.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        // 1 - unit() is in (0, 1], so the logarithm is finite.
        let draw = mean.mul_f64(-(1.0 - self.unit()).ln());
        draw.max(Duration::from_nanos(1))
    }
}

/// The finaliser of splitmix64 (Steele, Lea and Flood, 2014) after one step of its Weyl sequence.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_component_and_index() {
        let first = |seed, component, index| Stream::new(seed, component, index).bits();
        assert_eq!(first(1, "primary-user", 0), first(1, "primary-user", 0));
        let others = [first(2, "primary-user", 0), first(1, "primary-user", 1), first(1, "arrivals", 0)];
        assert!(!others.contains(&first(1, "primary-user", 0)));
    }

    #[test]
    fn normal_numbers_have_the_mean_spread_and_tail_of_their_law() {
        let mut stream = Stream::new(3, "test", 0);
        let draws: Vec<f64> = (0..200_000).map(|_| stream.normal()).collect();
        let share = |wanted: fn(f64) -> bool| {
            draws.iter().filter(|&&x| wanted(x)).count() as f64 / draws.len() as f64
        };
        assert!((draws.iter().sum::<f64>() / draws.len() as f64).abs() < 0.01);
        assert!((draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64 - 1.0).abs() < 0.02);
        assert!((share(|x| x.abs() < 1.0) - 0.6827).abs() < 0.005);
        assert!((share(|x| x > 2.0) - 0.0228).abs() < 0.002);
    }

    #[test]
    fn exponential_times_have_the_mean_and_spread_of_their_law() {
        let mut stream = Stream::new(7, "test", 0);
        let draws: Vec<f64> =
            (0..200_000).map(|_| stream.exponential(Duration::from_millis(200)).as_secs_f64()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.2).abs() < 0.002, "mean {mean}");
        // The standard deviation of an exponential law equals its mean.
        assert!((variance.sqrt() - 0.2).abs() < 0.004, "deviation {}", variance.sqrt());
    }
}
