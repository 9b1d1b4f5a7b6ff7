//! A histogram of delays in buckets of fixed relative width; its memory does not grow with the run.
//!
//! The buckets are log-linear as in HdrHistogram: 64 for each power of two of nanoseconds, so a percentile is
//! at most 1/128 off. Mean and standard deviation come from sums of the values themselves, not from the
//! buckets: whole numbers, so that they are exact and adding a delay divides nothing.

use linkhold_core::time::Duration;
use serde::{Deserialize, Serialize};

/// Base-2 logarithm of [`SUB`].
const SUB_BITS: u32 = 6;
/// Buckets for each power of two.
const SUB: u64 = 1 << SUB_BITS;

/// A histogram of delays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DelayHistogram {
    counts: Vec<u64>,
    count: u64,
    /// Of the delays, ns.
    sum: u128,
    /// Of their squares, ns^2.
    squares: u128,
    /// The greatest and the least delay, ns; `u64::MAX` is the least of none.
    max_ns: u64,
    min_ns: u64,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl DelayHistogram {
    /// No delays yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { counts: Vec::new(), count: 0, sum: 0, squares: 0, max_ns: 0, min_ns: u64::MAX }
    }

    /// Adds one delay.
    #[inline]
    pub fn record(&mut self, delay: Duration) {
        let nanos = delay.as_nanos();
        let bucket = bucket_of(nanos);
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.open(bucket),
        }
        self.count += 1;
        self.max_ns = self.max_ns.max(nanos);
        self.min_ns = self.min_ns.min(nanos);
        let nanos = u128::from(nanos);
        self.sum = self.sum.saturating_add(nanos);
        self.squares = self.squares.saturating_add(nanos * nanos);
    }

    /// The first delay of a bucket beyond the last.
    #[cold]
    fn open(&mut self, bucket: usize) {
        self.counts.resize(bucket, 0);
        self.counts.push(1);
    }

    /// Adds every delay of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
    }

    /// The queueing delays: every delay less the least one. A bucket's delays move by its middle, so a
    /// percentile of the result is off by as much time as one of this histogram, and by 1/128 of itself more.
    /// Mean and standard deviation stay exact.
    #[must_use]
    pub fn above_minimum(&self) -> Self {
        if self.count == 0 {
            return Self::new();
        }
        let mut above = Self::new();
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let middle = middle_of(bucket).clamp(self.min_ns, self.max_ns);
            above.add_to_bucket(bucket_of(middle - self.min_ns), count);
        }
        let (count, min) = (u128::from(self.count), u128::from(self.min_ns));
        above.count = self.count;
        above.sum = self.sum.saturating_sub(count * min);
        // The sum of (x - min)^2, from the sums of x and x^2.
        let added = self.squares.saturating_add(count.saturating_mul(min * min));
        above.squares = added.saturating_sub(min.saturating_mul(self.sum).saturating_mul(2));
        above.max_ns = self.max_ns - self.min_ns;
        above.min_ns = 0;
        above
    }

    fn add_to_bucket(&mut self, bucket: usize, count: u64) {
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(own) = self.counts.get_mut(bucket) {
            *own += count;
        }
    }

    /// Number of delays.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Mean, s; not-a-number without delays.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.sum as f64 / self.count as f64 / 1e9 }
    }

    /// Standard deviation, s, in the population form, because every delay was recorded; not-a-number without
    /// delays.
    #[must_use]
    pub fn std_s(&self) -> f64 {
        if self.count == 0 {
            return f64::NAN;
        }
        let (count, n) = (u128::from(self.count), self.count as f64);
        // The difference of two large numbers: exact unless they are too large for an integer.
        let exact = count
            .checked_mul(self.squares)
            .zip(self.sum.checked_mul(self.sum))
            .map(|(squares, square)| squares.saturating_sub(square) as f64 / (n * n));
        let (mean, mean_square) = (self.sum as f64 / n, self.squares as f64 / n);
        exact.unwrap_or(mean_square - mean * mean).max(0.0).sqrt() / 1e9
    }

    /// Largest delay, s; not-a-number without delays.
    #[must_use]
    pub fn max_s(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.max_ns as f64 / 1e9 }
    }

    /// Least delay, s; not-a-number without delays.
    #[must_use]
    pub fn min_s(&self) -> f64 {
        if self.min_ns == u64::MAX { f64::NAN } else { self.min_ns as f64 / 1e9 }
    }

    /// The delay that a share `q` of all delays does not exceed, s: the middle of the bucket that holds the
    /// nearest rank; not-a-number without delays.
    #[must_use]
    pub fn quantile_s(&self, q: f64) -> f64 {
        if self.count == 0 {
            return f64::NAN;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let (low, high) = bounds_of(bucket);
                return (low as f64 + (high - low) as f64 / 2.0).min(self.max_ns as f64) / 1e9;
            }
        }
        self.max_s()
    }

    /// The cumulative distribution: for every bucket that holds a delay, its upper end in s and the share of
    /// delays up to there.
    #[must_use]
    pub fn cdf(&self) -> Vec<(f64, f64)> {
        let mut seen = 0;
        let mut points = Vec::new();
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            seen += count;
            let (_, high) = bounds_of(bucket);
            points.push((high.min(self.max_ns) as f64 / 1e9, seen as f64 / self.count as f64));
        }
        points
    }
}

/// The delays of all flows of a run together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PooledDelays {
    /// Of every segment with data.
    pub all: DelayHistogram,
    /// Of those that met no silence.
    pub outside_silence: DelayHistogram,
    /// Of every segment, less the least delay of its flow: flows may have paths of different lengths.
    pub queueing: DelayHistogram,
}

impl PooledDelays {
    /// Adds one flow's delays.
    pub fn add(&mut self, all: &DelayHistogram, outside_silence: &DelayHistogram) {
        self.all.merge(all);
        self.outside_silence.merge(outside_silence);
        self.queueing.merge(&all.above_minimum());
    }
}

/// The bucket of `nanos`: one for each value below `SUB`, then `SUB` for each power of two.
fn bucket_of(nanos: u64) -> usize {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(SUB_BITS + 1);
    (u64::from(shift) * SUB + (nanos >> shift)) as usize
}

/// Least and greatest value of a bucket, ns.
fn bounds_of(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    let shift = (bucket / SUB).saturating_sub(1);
    let low = (bucket - shift * SUB) << shift;
    (low, low + ((1 << shift) - 1))
}

/// The middle of a bucket, ns, rounded down.
fn middle_of(bucket: usize) -> u64 {
    let (low, high) = bounds_of(bucket);
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_delays_nothing_is_a_number() {
        let none = DelayHistogram::new();
        assert!(none.mean_s().is_nan() && none.std_s().is_nan() && none.quantile_s(0.5).is_nan());
        assert!(none.cdf().is_empty());
    }

    #[test]
    fn flows_of_different_paths_are_pooled_without_their_paths() {
        let flow = |millis: [u64; 3]| {
            let mut delays = DelayHistogram::new();
            millis.into_iter().for_each(|ms| delays.record(Duration::from_millis(ms)));
            delays
        };
        let mut pooled = PooledDelays::default();
        pooled.add(&flow([10, 11, 12]), &DelayHistogram::new());
        pooled.add(&flow([200, 201, 202]), &DelayHistogram::new());
        assert!((pooled.all.quantile_s(1.0) - 0.202).abs() < 1e-9);
        assert!(
            (pooled.queueing.quantile_s(1.0) - 0.002).abs() < 1e-9,
            "{}",
            pooled.queueing.quantile_s(1.0)
        );
        assert_eq!((pooled.queueing.count(), pooled.outside_silence.count()), (6, 0));
        assert!(DelayHistogram::new().above_minimum().min_s().is_nan());
    }

    #[test]
    fn mean_and_deviation_are_exact() {
        let mut delays = DelayHistogram::new();
        for millis in [2, 4, 4, 4, 5, 5, 7, 9] {
            delays.record(Duration::from_millis(millis));
        }
        assert!((delays.mean_s() - 0.005).abs() < 1e-12);
        assert!((delays.std_s() - 0.002).abs() < 1e-12);
        assert!((delays.max_s() - 0.009).abs() < 1e-12);
    }

    #[test]
    fn the_longest_delays_overflow_nothing() {
        let mut delays = DelayHistogram::new();
        (0..4).for_each(|_| delays.record(Duration::MAX));
        let longest = Duration::MAX.as_secs_f64();
        assert!((delays.mean_s() - longest).abs() < longest / 1e9);
        assert!(delays.std_s() < longest / 1e3, "{}", delays.std_s());
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(nanos: u64) {
            let (low, high) = bounds_of(bucket_of(nanos));
            prop_assert!(low <= nanos && nanos <= high);
            prop_assert!((high - low) as f64 <= nanos as f64 / 32.0);
        }

        #[test]
        fn quantiles_are_within_one_percent_of_the_sorted_values(
            mut nanos in proptest::collection::vec(1_000_u64..10_000_000_000, 1..200),
            q in 0.0_f64..1.0,
        ) {
            let mut delays = DelayHistogram::new();
            for &n in &nanos {
                delays.record(Duration::from_nanos(n));
            }
            nanos.sort_unstable();
            let rank = ((q * nanos.len() as f64).ceil() as usize).max(1);
            let exact = nanos[rank - 1] as f64 / 1e9;
            prop_assert!((delays.quantile_s(q) - exact).abs() <= exact * 0.01);
        }

        #[test]
        fn queueing_delays_are_those_above_the_least(
            mut nanos in proptest::collection::vec(1_000_u64..10_000_000_000, 1..200),
            q in 0.0_f64..1.0,
        ) {
            let mut delays = DelayHistogram::new();
            for &n in &nanos {
                delays.record(Duration::from_nanos(n));
            }
            nanos.sort_unstable();
            let above = delays.above_minimum();
            let rank = ((q * nanos.len() as f64).ceil() as usize).max(1);
            let (exact, whole) = ((nanos[rank - 1] - nanos[0]) as f64 / 1e9, nanos[rank - 1] as f64 / 1e9);
            prop_assert!((above.quantile_s(q) - exact).abs() <= (whole + exact) * 0.01);
            prop_assert!((above.mean_s() - (delays.mean_s() - delays.min_s())).abs() < 1e-9);
            prop_assert!((above.std_s() - delays.std_s()).abs() < 1e-6);
            prop_assert_eq!(above.min_s(), 0.0);
            prop_assert!((delays.min_s() - nanos[0] as f64 / 1e9).abs() < 1e-12);
        }

        #[test]
        fn merging_is_the_same_as_recording_all(
            a in proptest::collection::vec(0_u64..1_000_000_000, 0..50),
            b in proptest::collection::vec(0_u64..1_000_000_000, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut delays = DelayHistogram::new();
                values.iter().for_each(|&n| delays.record(Duration::from_nanos(n)));
                delays
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all = of(&[a, b].concat());
            prop_assert_eq!(&merged, &all);
        }
    }
}
