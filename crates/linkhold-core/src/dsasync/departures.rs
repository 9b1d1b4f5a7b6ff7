//! When what was sent went down, where nobody tells the rate.
//!
//! Beside the paper (`dsasync`). Sees how many bytes go down; answers when a given byte went. The list is
//! bounded and thinned, so that a station costs a fixed amount of memory.

use crate::time::{Duration, Instant};

/// Departures that are remembered, and the time between two of them: together far more than a router's queue
/// should hold. What is older is taken for as old as the oldest.
const DEPARTURES: usize = 128;
const THINNED: Duration = Duration::from_millis(2);

/// When what was sent went down: a bounded, thinned list of (bytes sent by then, time).
#[derive(Clone, Debug)]
pub(super) struct Departures {
    ring: [(u64, Instant); DEPARTURES],
    oldest: usize,
    len: usize,
    /// Bytes that went down.
    sent: u64,
}

impl Default for Departures {
    fn default() -> Self {
        Self { ring: [(0, Instant::ZERO); DEPARTURES], oldest: 0, len: 0, sent: 0 }
    }
}

impl Departures {
    /// Bytes that went down.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// `bytes` go down.
    #[inline]
    pub fn add(&mut self, now: Instant, bytes: u64) {
        self.remember(now, self.sent);
        self.sent += bytes;
    }

    #[inline]
    fn remember(&mut self, now: Instant, sent: u64) {
        if let Some(&(_, at)) = self.len.checked_sub(1).and_then(|last| self.get(last))
            && now.since(at) < THINNED
        {
            return;
        }
        if self.len == DEPARTURES {
            self.oldest = (self.oldest + 1) % DEPARTURES;
            self.len -= 1;
        }
        self.ring[(self.oldest + self.len) % DEPARTURES] = (sent, now);
        self.len += 1;
    }

    fn get(&self, place: usize) -> Option<&(u64, Instant)> {
        (place < self.len).then(|| &self.ring[(self.oldest + place) % DEPARTURES])
    }

    /// How many of those that are remembered come before the others, by a test that is true for these alone.
    fn before(&self, comes_before: impl Fn(&(u64, Instant)) -> bool) -> usize {
        let (mut least, mut most) = (0, self.len);
        while least < most {
            let middle = usize::midpoint(least, most);
            match self.get(middle) {
                Some(departure) if comes_before(departure) => least = middle + 1,
                _ => most = middle,
            }
        }
        least
    }

    /// The first departure after `time`, of those that are remembered: the bytes sent before it, and when it
    /// was.
    pub fn later(&self, time: Instant) -> Option<(u64, Instant)> {
        self.get(self.before(|&(_, at)| at <= time)).copied()
    }

    /// When the last of the first `delivered` bytes went down, as exactly as is remembered.
    pub fn last_of(&self, delivered: u64) -> Option<Instant> {
        let last = self.before(|&(before, _)| before < delivered).checked_sub(1)?;
        self.get(last).map(|&(_, at)| at)
    }

    /// When byte number `delivered` went down, as exactly as is remembered. Forgets older departures.
    pub fn of(&mut self, delivered: u64) -> Option<Instant> {
        while let Some(&(next, _)) = self.get(1)
            && next <= delivered
        {
            self.oldest = (self.oldest + 1) % DEPARTURES;
            self.len -= 1;
        }
        self.get(0).map(|&(_, at)| at)
    }
}
