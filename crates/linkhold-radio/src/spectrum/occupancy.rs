//! When a set of primary users occupies a band, taken together: their bursts merged into one row of ON and
//! OFF times.
//!
//! For who hears the same PUs all the time: a node that stands still, or a cell, which has no place at all.
//! Look-ups are O(log n).

use linkhold_core::time::{Duration, Instant};

use crate::spectrum::bands::Band;
use crate::spectrum::pu_log::{PuLog, User};

/// The ON periods of a set of primary users on one band, in order; between two there is a pause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Start of each ON period, ns.
    starts: Box<[u64]>,
    /// Its end, before the next start.
    ends: Box<[u64]>,
}

impl Occupancy {
    /// The ON periods of those users of `band` that `heard` accepts. Bursts that overlap or touch become one.
    #[must_use]
    pub fn of(log: &PuLog, band: Band, mut heard: impl FnMut(&User) -> bool) -> Self {
        let (mut starts, mut ends): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        for (user, arrival, departure) in log.by_arrival(band) {
            if !heard(user) {
                continue;
            }
            match ends.last_mut() {
                Some(end) if arrival <= *end => *end = departure.max(*end),
                Some(_) | None => {
                    starts.push(arrival);
                    ends.push(departure);
                }
            }
        }
        Self { starts: starts.into_boxed_slice(), ends: ends.into_boxed_slice() }
    }

    /// Number of ON periods.
    #[must_use]
    pub fn periods(&self) -> usize {
        self.starts.len()
    }

    /// ON period number `index`, from 0: its start and its end.
    #[must_use]
    pub fn period(&self, index: usize) -> Option<(Instant, Instant)> {
        Some((Instant::from_nanos(*self.starts.get(index)?), Instant::from_nanos(*self.ends.get(index)?)))
    }

    /// Whether anyone transmits at `at`.
    #[must_use]
    pub fn is_on(&self, at: Instant) -> bool {
        self.is_on_within(at, at)
    }

    /// Whether anyone transmits at some time in [`from`, `to`); the moment `from` if `to` is not after it.
    #[must_use]
    pub fn is_on_within(&self, from: Instant, to: Instant) -> bool {
        let next = self.ends.partition_point(|&end| end <= from.as_nanos());
        let to = to.as_nanos().max(from.as_nanos().saturating_add(1));
        self.starts.get(next).is_some_and(|&start| start < to)
    }

    /// When next after `after` an ON period starts or ends.
    #[must_use]
    pub fn next_change(&self, after: Instant) -> Option<Instant> {
        let next = self.ends.partition_point(|&end| end <= after.as_nanos());
        let (start, end) = self.period(next)?;
        Some(if start > after { start } else { end })
    }

    /// Time with somebody transmitting, from time 0 to `until`.
    #[must_use]
    pub fn on_time(&self, until: Instant) -> Duration {
        let until = until.as_nanos();
        let periods = self.starts.iter().zip(&self.ends).take_while(|(start, _)| **start < until);
        Duration::from_nanos(periods.map(|(start, end)| end.min(&until) - start).sum())
    }

    /// Mean length of an ON period and of a pause between two; `None` where there is none.
    #[must_use]
    pub fn means(&self) -> (Option<Duration>, Option<Duration>) {
        let mean = |total: u64, count: usize| (count > 0).then(|| Duration::from_nanos(total / count as u64));
        let on: u64 = self.starts.iter().zip(&self.ends).map(|(start, end)| end - start).sum();
        let off: u64 = self.ends.iter().zip(self.starts.iter().skip(1)).map(|(end, start)| start - end).sum();
        (mean(on, self.periods()), mean(off, self.periods().saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupancy(text: &str, heard: impl FnMut(&User) -> bool) -> Occupancy {
        let log = PuLog::parse(text.as_bytes(), None).unwrap();
        Occupancy::of(&log, Band::new(1).unwrap(), heard)
    }

    const THREE: &str = "1 0 0 1 1\n2 9 0 1 1\n3 0 0 2 1\n1 1 2\n2 1.5 3\n2 3 4\n1 6 7\n2 6.5 6.6\n3 0 100\n";

    #[test]
    fn bursts_of_several_users_that_overlap_or_touch_are_one_period() {
        let all = occupancy(THREE, |_| true);
        let second = |s: f64| Instant::from_secs_f64(s);
        let periods: Vec<_> = (0..).map_while(|index| all.period(index)).collect();
        assert_eq!(periods, [(second(1.0), second(4.0)), (second(6.0), second(7.0))]);
        assert_eq!(all.on_time(second(6.5)), Duration::from_millis(3500));
        assert_eq!(all.means(), (Some(Duration::from_secs(2)), Some(Duration::from_secs(2))));
        // Who is not heard does not count.
        let near = occupancy(THREE, |user| user.x < 5.0);
        assert_eq!(near.period(0), Some((second(1.0), second(2.0))));
        assert_eq!(near.periods(), 2);
        assert_eq!(occupancy(THREE, |_| false).means(), (None, None));
    }

    #[test]
    fn a_period_includes_its_start_and_not_its_end() {
        let all = occupancy(THREE, |_| true);
        for (at, on, next) in [
            (0.0, false, Some(1.0)),
            (1.0, true, Some(4.0)),
            (3.999, true, Some(4.0)),
            (4.0, false, Some(6.0)),
            (6.0, true, Some(7.0)),
            (7.0, false, None),
        ] {
            let at = Instant::from_secs_f64(at);
            assert_eq!(
                (all.is_on(at), all.next_change(at)),
                (on, next.map(Instant::from_secs_f64)),
                "{at:?}"
            );
        }
        let within = |from, to| all.is_on_within(Instant::from_secs_f64(from), Instant::from_secs_f64(to));
        assert!(!within(0.0, 1.0) && within(0.0, 1.1) && within(2.0, 3.0) && !within(4.0, 6.0));
    }
}
