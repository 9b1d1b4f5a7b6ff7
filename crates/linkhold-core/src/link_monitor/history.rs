//! A bounded memory of past silences, and how much of a window they cover.
//!
//! Source: `dsasync` section IV-A ("simple history-based estimates") and IV-B b (the moving window ΔT).

use std::collections::VecDeque;

use crate::time::{Duration, Instant};

/// A stretch of time, `start .. end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

impl Interval {
    pub(crate) fn len(self) -> Duration {
        self.end.since(self.start)
    }

    /// The part inside `window`.
    fn clip(self, window: Self) -> Self {
        Self { start: self.start.max(window.start), end: self.end.min(window.end) }
    }
}

/// The latest intervals of one kind, sorted and disjoint.
#[derive(Debug)]
pub(crate) struct History {
    ring: VecDeque<Interval>,
    limit: usize,
    forgotten_until: Instant,
}

impl History {
    /// Remembers up to `limit` intervals; memory is taken only as they come.
    pub(crate) fn new(limit: usize) -> Self {
        Self { ring: VecDeque::new(), limit, forgotten_until: Instant::ZERO }
    }

    /// Adds an interval that ends no earlier than the last one. What overlaps the last one is cut off, so
    /// that a silence reported late cannot be counted twice.
    pub(crate) fn push(&mut self, interval: Interval) {
        let start = interval.start.max(self.last_end());
        if start >= interval.end {
            return;
        }
        if self.ring.len() >= self.limit
            && let Some(oldest) = self.ring.pop_front()
        {
            self.forgotten_until = oldest.end;
        }
        self.ring.push_back(Interval { start, end: interval.end });
    }

    /// End of the latest interval, or the epoch.
    pub(crate) fn last_end(&self) -> Instant {
        self.ring.back().map_or(self.forgotten_until, |interval| interval.end)
    }

    /// Before this time the memory is incomplete: a share must be computed over the time after it only.
    pub(crate) fn complete_from(&self) -> Instant {
        self.forgotten_until
    }

    /// The parts of the remembered intervals inside `window`, in order.
    pub(crate) fn within(&self, window: Interval) -> impl Iterator<Item = Interval> + '_ {
        self.uncut_within(window).map(move |interval| interval.clip(window))
    }

    /// The remembered intervals that reach into `window`, whole, in order.
    pub(crate) fn uncut_within(&self, window: Interval) -> impl Iterator<Item = Interval> + '_ {
        let first = self.ring.partition_point(|interval| interval.end <= window.start);
        self.ring.range(first..).copied().take_while(move |interval| interval.start < window.end)
    }

    /// The latest intervals, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = Interval> + '_ {
        self.ring.iter().rev().copied()
    }
}

/// Time covered by either of two sorted sequences of intervals; where both cover it, it counts once.
pub(crate) fn union_time(a: impl Iterator<Item = Interval>, b: impl Iterator<Item = Interval>) -> Duration {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    let mut covered = Duration::ZERO;
    let mut until = Instant::ZERO;
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if y.start < x.start => b.next(),
            (Some(_), _) => a.next(),
            (None, _) => b.next(),
        };
        let Some(interval) = next else { return covered };
        let start = interval.start.max(until);
        covered += interval.end.since(start);
        until = until.max(interval.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(start: u64, end: u64) -> Interval {
        Interval { start: Instant::from_millis(start), end: Instant::from_millis(end) }
    }

    #[test]
    fn overlapping_silences_count_once() {
        let a = [ms(0, 10), ms(20, 30), ms(50, 60)];
        let b = [ms(5, 25), ms(28, 29), ms(40, 45)];
        let total = union_time(a.into_iter(), b.into_iter());
        assert_eq!(total, Duration::from_millis(30 + 5 + 10));
    }

    #[test]
    fn a_full_memory_says_from_when_on_it_is_complete() {
        let mut history = History::new(2);
        for start in [0, 10, 20] {
            history.push(ms(start, start + 5));
        }
        assert_eq!(history.complete_from(), Instant::from_millis(5));
        assert_eq!(history.within(ms(0, 22)).collect::<Vec<_>>(), [ms(10, 15), ms(20, 22)]);
    }

    #[test]
    fn a_silence_reported_late_is_cut_at_the_one_before() {
        let mut history = History::new(8);
        history.push(ms(0, 10));
        history.push(ms(4, 8));
        history.push(ms(8, 12));
        assert_eq!(history.within(ms(0, 100)).collect::<Vec<_>>(), [ms(0, 10), ms(10, 12)]);
    }
}
