//! The collecting process: the last samples of the SNR.
//!
//! Paper: `activation` section 3.1 ("gather the SNR information"). Sees samples with the time at which they
//! were taken; answers how strong the signal is and whether it changes. Bounded, and without allocation.
//!
//! A source may be wrong: a sample that is no number, or not newer than the newest, is refused. A sample from
//! the future counts as taken now, so that it cannot shut out those that follow.

use crate::time::{Duration, Instant};

/// Most samples kept: 6.4 s of the paper's.
pub(super) const MOST: usize = 64;
/// Samples below which nothing is said of a change: two on each side.
pub(super) const FEWEST: usize = 4;

/// The last samples, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    /// What was sampled before so long without a sample says nothing of the level any more.
    longest_gap: Duration,
    ring: [(Instant, f32); MOST],
    /// Where the next one goes.
    next: usize,
    len: usize,
}

impl Samples {
    /// No samples yet.
    pub fn new(longest_gap: Duration) -> Self {
        Self { longest_gap, ring: [(Instant::ZERO, 0.0); MOST], next: 0, len: 0 }
    }

    /// Adds a sample that was taken at `taken`. False if it was refused.
    pub fn add(&mut self, now: Instant, taken: Instant, db: f32) -> bool {
        let taken = taken.min(now);
        if !db.is_finite() || self.newest().is_some_and(|(newest, _)| taken <= newest) {
            return false;
        }
        if let Some(place) = self.ring.get_mut(self.next) {
            *place = (taken, db);
        }
        self.next = (self.next + 1) % MOST;
        self.len = (self.len + 1).min(MOST);
        true
    }

    /// The samples, newest first.
    fn back(&self) -> impl Iterator<Item = (Instant, f32)> + '_ {
        (1..=self.len).filter_map(|back| self.ring.get((self.next + MOST - back) % MOST).copied())
    }

    fn newest(&self) -> Option<(Instant, f32)> {
        self.back().next()
    }

    /// Mean of the last `count` samples since the last gap, dB; `None` before the first.
    pub fn level(&self, count: u32) -> Option<f64> {
        let (mut next, _) = self.newest()?;
        let near = self.back().take_while(|&(taken, _)| {
            let gap = next.since(taken);
            next = taken;
            gap < self.longest_gap
        });
        mean(near.take(count.max(1) as usize).map(|(_, db)| db))
    }

    /// Mean of the newer half of the samples in `window` less that of the older, dB: how the signal changes.
    /// `None` if there are too few samples to say.
    pub fn change(&self, window: Duration) -> Option<f64> {
        let (newest, _) = self.newest()?;
        let within = || self.back().take_while(move |(taken, _)| newest.since(*taken) < window);
        let count = within().count();
        if count < FEWEST {
            return None;
        }
        let values = || within().map(|(_, db)| db);
        Some(mean(values().take(count / 2))? - mean(values().skip(count / 2))?)
    }
}

fn mean(values: impl Iterator<Item = f32>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        sum += f64::from(value);
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn the_level_is_the_mean_of_the_last_ones_and_the_change_that_of_the_halves() {
        let mut samples = Samples::new(Duration::from_secs(1));
        assert_eq!((samples.level(1), samples.change(Duration::from_secs(1))), (None, None));
        for (index, db) in [9.0, 9.0, 9.0, 9.0, 9.0, 6.0, 6.0, 6.0, 6.0, 6.0].into_iter().enumerate() {
            let at = ms(100 * index as u64);
            assert!(samples.add(at, at, db));
        }
        assert_eq!(
            (samples.level(1), samples.level(10), samples.level(99)),
            (Some(6.0), Some(7.5), Some(7.5))
        );
        assert_eq!(samples.change(Duration::from_secs(1)), Some(-3.0));
        assert_eq!(samples.change(Duration::from_millis(400)), Some(0.0));
        assert_eq!(samples.change(Duration::from_millis(200)), None, "too few");
    }

    #[test]
    fn wrong_late_and_doubled_samples_are_refused() {
        let mut samples = Samples::new(Duration::from_secs(1));
        assert!(samples.add(ms(100), ms(100), 5.0));
        for (taken, db) in [(100, 6.0), (50, 6.0), (150, f32::NAN), (150, f32::INFINITY)] {
            assert!(!samples.add(ms(200), ms(taken), db), "{taken} {db}");
        }
        // From the future: taken as of now, and the next one is heard.
        assert!(samples.add(ms(200), ms(9_000_000), 7.0));
        assert!(samples.add(ms(300), ms(300), 8.0));
        assert_eq!(samples.level(3), Some(20.0 / 3.0));
    }

    #[test]
    fn a_level_is_of_no_sample_before_a_gap() {
        let mut samples = Samples::new(Duration::from_secs(1));
        for (at, db) in [(0, 1.0), (100, 1.0), (1_099, 4.0), (2_099, 8.0), (2_199, 10.0)] {
            assert!(samples.add(ms(at), ms(at), db));
        }
        assert_eq!(samples.level(3), Some(9.0), "the gap before them is a whole second");
    }

    #[test]
    fn old_samples_leave() {
        let mut samples = Samples::new(Duration::from_secs(1));
        for index in 0..1000 {
            samples.add(ms(index), ms(index), index as f32);
        }
        assert_eq!(samples.level(1000), Some((1000.0 - 64.0 + 999.0) / 2.0));
    }
}
