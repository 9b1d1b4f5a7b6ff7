//! What the metrics need to know of silences: when a station's last silences ended, and for how long it has
//! been silent in all.
//!
//! A station is silent while any silence of its own or of the network goes on; causes overlap freely, so its
//! silence ends when the last of them does.

use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::Silence;

use crate::medium::Medium;

/// How many ends a station remembers: a flow that got nothing through more silences than this is measured
/// from the oldest remembered.
const REMEMBERED: usize = 32;

/// One silence's end at a station.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    at: Instant,
    /// Time the station had been silent in all by then.
    total: Duration,
}

/// One station's silences.
#[derive(Clone, Debug)]
struct StationSilences {
    silent: bool,
    /// Start of the earliest, end of the latest silence since the station could last be served.
    span: Option<(Instant, Instant)>,
    /// Silences ended, overlapping ones counted as one.
    ended: u64,
    /// The last ends: the k-th, from 0, at `k % REMEMBERED`.
    ends: [End; REMEMBERED],
    last: End,
}

impl StationSilences {
    /// Number of the oldest end that is remembered.
    const fn oldest(&self) -> u64 {
        self.ended.saturating_sub(REMEMBERED as u64)
    }

    /// The end number `number`, which is remembered.
    const fn end(&self, number: u64) -> End {
        self.ends[(number % REMEMBERED as u64) as usize]
    }
}

/// The silences of every station.
#[derive(Debug)]
pub struct SilenceTracker {
    stations: Vec<StationSilences>,
    /// Silences that have ended and that the recorder has not taken yet.
    fresh: Vec<Silence>,
}

impl SilenceTracker {
    /// A tracker in which nobody has been silent yet.
    #[must_use]
    pub fn new(stations: u32) -> Self {
        let station = StationSilences {
            silent: false,
            span: None,
            ended: 0,
            ends: [End::default(); REMEMBERED],
            last: End::default(),
        };
        Self { stations: vec![station; stations as usize], fresh: Vec::new() }
    }

    /// Takes in the silences that have ended on the air.
    #[inline]
    pub fn update(&mut self, air: &mut Medium) {
        let before = self.fresh.len();
        air.take_silences(&mut self.fresh);
        if self.fresh.len() > before {
            self.take_in(before, |station| air.is_silent(station));
        }
    }

    #[cold]
    fn take_in(&mut self, before: usize, is_silent: impl Fn(StationId) -> bool) {
        for silence in &self.fresh[before..] {
            for (index, station) in self.stations.iter_mut().enumerate() {
                if silence.scope.covers(StationId(index as u32)) {
                    let (start, end) = station.span.unwrap_or((silence.start, silence.end));
                    station.span = Some((start.min(silence.start), end.max(silence.end)));
                }
            }
        }
        for (index, station) in self.stations.iter_mut().enumerate() {
            station.silent = is_silent(StationId(index as u32));
            if station.silent {
                continue;
            }
            if let Some((start, end)) = station.span.take() {
                station.last = End { at: end, total: station.last.total + end.since(start) };
                station.ends[(station.ended % REMEMBERED as u64) as usize] = station.last;
                station.ended += 1;
            }
        }
    }

    /// Silences ended at a station, overlapping ones counted as one.
    #[must_use]
    pub fn ended(&self, station: StationId) -> u64 {
        self.stations[station.0 as usize].ended
    }

    /// As [`ended`](Self::ended), but by the time `at`. Those that are no longer remembered count as ended.
    #[must_use]
    pub fn ended_by(&self, station: StationId, at: Instant) -> u64 {
        let station = &self.stations[station.0 as usize];
        let oldest = station.oldest();
        let by_then = (oldest..station.ended).rev().find(|&number| station.end(number).at <= at);
        by_then.map_or(oldest, |number| number + 1)
    }

    /// Time outside silences from the end of the station's silence number `number` (from 0) until `at`, when
    /// none was going on; `None` if it had not ended by then, or nothing of that time is remembered.
    #[must_use]
    pub fn served_since(&self, station: StationId, number: u64, at: Instant) -> Option<Duration> {
        let ended = self.ended_by(station, at);
        let station = &self.stations[station.0 as usize];
        let number = number.max(station.oldest());
        if number >= ended {
            return None;
        }
        let (from, last) = (station.end(number), station.end(ended - 1));
        let silent_since = last.total.saturating_sub(from.total);
        Some(at.since(from.at).saturating_sub(silent_since))
    }

    /// True if some silence of the station went on at any time from `since` until now.
    #[inline]
    #[must_use]
    pub fn met_since(&self, station: StationId, since: Instant) -> bool {
        let station = &self.stations[station.0 as usize];
        station.silent || station.span.is_some() || (station.ended > 0 && station.last.at > since)
    }

    /// Takes the silences ended since the last call.
    pub fn take(&mut self) -> impl Iterator<Item = Silence> + '_ {
        self.fresh.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkhold_core::link_event::{Cause, Scope};

    const A: StationId = StationId(0);
    const B: StationId = StationId(1);

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    /// A silence of `scope` from `start` to `end` ms is over; `still` are silent for another cause.
    fn ended(tracker: &mut SilenceTracker, scope: Scope, start: u64, end: u64, still: &[StationId]) {
        let before = tracker.fresh.len();
        tracker.fresh.push(Silence { start: ms(start), end: ms(end), scope, cause: Cause::Sensing });
        tracker.take_in(before, |station| still.contains(&station));
    }

    #[test]
    fn a_silence_of_one_station_is_not_the_others() {
        let mut tracker = SilenceTracker::new(2);
        ended(&mut tracker, Scope::Station(A), 10, 20, &[]);
        ended(&mut tracker, Scope::Network, 50, 60, &[]);
        assert_eq!((tracker.ended(A), tracker.ended(B)), (2, 1));
        assert!(tracker.met_since(B, ms(59)) && !tracker.met_since(B, ms(60)));
        assert_eq!(tracker.take().count(), 2);
        assert_eq!(tracker.take().count(), 0);
    }

    #[test]
    fn overlapping_silences_end_as_one_when_the_last_of_them_does() {
        let mut tracker = SilenceTracker::new(2);
        ended(&mut tracker, Scope::Network, 20, 30, &[A, B]);
        assert_eq!(tracker.ended(A), 0);
        assert!(tracker.met_since(A, ms(25)), "it is still silent");
        ended(&mut tracker, Scope::Network, 10, 40, &[]);
        assert_eq!(tracker.ended(A), 1);
        assert_eq!(tracker.served_since(A, 0, ms(45)), Some(Duration::from_millis(5)));
    }

    #[test]
    fn time_since_a_silence_leaves_later_silences_out() {
        let mut tracker = SilenceTracker::new(1);
        ended(&mut tracker, Scope::Network, 0, 100, &[]);
        ended(&mut tracker, Scope::Network, 150, 400, &[]);
        // 50 ms between the two, and 7 after the second.
        assert_eq!(tracker.served_since(A, 0, ms(407)), Some(Duration::from_millis(57)));
        assert_eq!(tracker.served_since(A, 1, ms(407)), Some(Duration::from_millis(7)));
        assert_eq!(tracker.served_since(A, 2, ms(407)), None);
    }

    #[test]
    fn what_had_ended_at_an_earlier_time_is_told_as_it_was_then() {
        let mut tracker = SilenceTracker::new(1);
        for k in 0..40 {
            ended(&mut tracker, Scope::Network, 100 * k + 50, 100 * k + 60, &[]);
        }
        // The last 32 ends are remembered: from that of silence number 8, at 860 ms, on.
        for (at, ended, served) in
            [(4_000, 40, Some(2_830)), (3_960, 40, Some(2_790)), (3_940, 39, Some(2_780)), (900, 9, Some(40))]
        {
            assert_eq!(tracker.ended_by(A, ms(at)), ended, "by {at} ms");
            let since = tracker.served_since(A, 8, ms(at));
            assert_eq!(since, served.map(Duration::from_millis), "until {at} ms");
            assert_eq!(tracker.served_since(A, ended, ms(at)), None);
        }
        assert_eq!((tracker.ended_by(A, ms(859)), tracker.served_since(A, 0, ms(859))), (8, None));
    }
}
