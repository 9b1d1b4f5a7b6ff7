//! Traffic of others on a wire: what a packet waits behind it. A path's jitter.
//!
//! Model: bursts of others come to a queue as a Poisson process, and take exponentially distributed times to
//! pass, half of all time together. A packet waits for what is there when it comes: the virtual waiting time
//! of the M/M/1 queue at a load of one half. With a mean burst b it is zero with probability 1/2, otherwise
//! exponentially distributed with mean 2b; so its mean is b, its standard deviation √3·b, and its 95th
//! percentile 2b·ln 10 (the waiting time of M/M/1, as in Kleinrock, Queueing Systems I, 1975; the tests
//! measure it).
//!
//! The wait falls by one second a second at most, so packets never overtake each other: unlike an independent
//! delay for each packet, it makes neither reordering nor packets that gather behind the slowest one. Packets
//! that are sent through take no time of this queue: it belongs to the others.
//!
//! The bursts do not depend on what is sent: one seed gives one cross traffic to every case (common random
//! numbers).

use linkhold_core::time::{Duration, Instant};

use crate::rng::Stream;

/// Mean pause from one burst's beginning to the next, in mean bursts: a load of one half.
const PAUSE: f64 = 2.0;

/// The shortest mean wait: bursts are drawn one by one however long nothing is sent.
pub const LEAST_JITTER: Duration = Duration::from_micros(100);

/// The cross traffic of one direction.
#[derive(Clone, Debug)]
pub struct CrossTraffic {
    stream: Stream,
    burst: Duration,
    next: Instant,
    /// When all that has come so far will have passed.
    clear: Instant,
}

impl CrossTraffic {
    /// Cross traffic that packets wait for `mean` behind; `None` for a mean of zero. `direction` tells the
    /// two ways of a wire apart.
    ///
    /// # Panics
    /// If `mean` is above zero and below [`LEAST_JITTER`].
    #[must_use]
    pub fn new(mean: Duration, seed: u64, direction: u64) -> Option<Self> {
        if mean.is_zero() {
            return None;
        }
        assert!(mean >= LEAST_JITTER, "a mean wait of {mean}");
        let mut stream = Stream::new(seed, "cross-traffic", direction);
        // It has gone on for ever when the run begins.
        let busy = stream.unit() < 0.5;
        let left = stream.exponential(mean.mul_f64(PAUSE));
        let clear = if busy { Instant::ZERO + left } else { Instant::ZERO };
        let next = Instant::ZERO + stream.exponential(mean.mul_f64(PAUSE));
        Some(Self { stream, burst: mean, next, clear })
    }

    /// What a packet that comes at `at` waits. Packets are asked for in the order in which they come.
    #[inline]
    pub fn wait(&mut self, at: Instant) -> Duration {
        while self.next <= at {
            self.clear = self.clear.max(self.next) + self.stream.exponential(self.burst);
            self.next += self.stream.exponential(self.burst.mul_f64(PAUSE));
        }
        self.clear.since(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(10);

    /// Seen at regular moments, the wait has the mean, the deviation and the quantiles of its law from the
    /// first moment on.
    #[test]
    fn waits_have_the_law_of_the_queue() {
        // 20 s hold some 170 relaxation times of the queue: 2000 runs keep the mean's error below 1 %.
        let waits: Vec<f64> = (0..2000)
            .flat_map(|seed| {
                let mut others = CrossTraffic::new(MEAN, seed, 0).unwrap();
                (0..200).map(move |n| others.wait(Instant::from_millis(100 * n)).as_secs_f64())
            })
            .collect();
        check(&waits, 0.02);
        let first: Vec<f64> = (0..100_000)
            .map(|seed| CrossTraffic::new(MEAN, seed, 1).unwrap().wait(Instant::ZERO).as_secs_f64())
            .collect();
        check(&first, 0.02);
    }

    fn check(waits: &[f64], error: f64) {
        let (count, b) = (waits.len() as f64, MEAN.as_secs_f64());
        let mean = waits.iter().sum::<f64>() / count;
        let deviation = (waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>() / count).sqrt();
        let none = waits.iter().filter(|wait| **wait == 0.0).count() as f64 / count;
        let within = waits.iter().filter(|wait| **wait <= 2.0 * b * 10f64.ln()).count() as f64 / count;
        assert!((mean / b - 1.0).abs() < error, "mean {mean}");
        assert!((deviation / (3f64.sqrt() * b) - 1.0).abs() < error, "deviation {deviation}");
        assert!((none - 0.5).abs() < error, "no wait: {none}");
        assert!((within - 0.95).abs() < error / 4.0, "within the 95th percentile: {within}");
    }

    #[test]
    fn the_bursts_are_the_same_whatever_is_sent_and_differ_by_direction_and_seed() {
        let at = |seed, direction, step: usize| -> Vec<Duration> {
            let mut others = CrossTraffic::new(MEAN, seed, direction).unwrap();
            let all: Vec<_> =
                (0..1000).step_by(step).map(|n| (n, others.wait(Instant::from_millis(n)))).collect();
            all.into_iter().filter(|(n, _)| n % 10 == 0).map(|(_, wait)| wait).collect()
        };
        assert_eq!(at(1, 0, 1), at(1, 0, 10));
        assert_ne!(at(1, 0, 10), at(1, 1, 10));
        assert_ne!(at(1, 0, 10), at(2, 0, 10));
        assert!(CrossTraffic::new(Duration::ZERO, 1, 0).is_none());
    }
}
