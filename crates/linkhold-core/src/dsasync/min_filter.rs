//! The least of the samples of the last while.

use crate::time::{Duration, Instant};

/// Least sample of the last one to two half-windows, microseconds; survives a time without samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinFilter {
    current: u32,
    previous: u32,
    since: Instant,
}

/// Half of the window of a [`MinFilter`]: long against silences, short against route changes (Linux BBR takes
/// 10 s, `bbr_min_rtt_win_sec`).
pub(super) const HALF_WINDOW: Duration = Duration::from_secs(10);

impl Default for MinFilter {
    fn default() -> Self {
        Self { current: u32::MAX, previous: u32::MAX, since: Instant::ZERO }
    }
}

impl MinFilter {
    /// Adds a sample.
    pub fn add(&mut self, now: Instant, sample: Duration) {
        let micros = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX - 1);
        if now.since(self.since) > HALF_WINDOW {
            self.previous = self.current;
            self.current = micros;
            self.since = now;
        } else {
            self.current = self.current.min(micros);
        }
    }

    /// The least sample, if there was one.
    pub fn get(&self) -> Option<Duration> {
        let least = self.current.min(self.previous);
        (least != u32::MAX).then(|| Duration::from_micros(u64::from(least)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_forgets_an_old_minimum_but_not_its_last_sample() {
        let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
        let ms = Duration::from_millis;
        let mut filter = MinFilter::default();
        assert_eq!(filter.get(), None);
        for (time, sample, least) in [(0, 30, 30), (1, 10, 10), (2, 40, 10), (12, 40, 10), (23, 40, 40)] {
            filter.add(at(time), ms(sample));
            assert_eq!(filter.get(), Some(ms(least)), "at {time} s");
        }
        assert_eq!(filter.get(), Some(ms(40)));
    }
}
