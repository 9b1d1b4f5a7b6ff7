//! How long a station's data waits at the station, by the station's own clock.
//!
//! Beside the paper (`dsasync`). Sees the timestamp of each segment with data that comes up; answers how much
//! longer than the least that segment took from its sender to here.
//!
//! A timestamp (TSval, RFC 7323 section 3.2) says when TCP sent a segment, before the station's own queue.
//! Two clocks that were never set by each other give no one-way delay, but they give how it changes, and the
//! least is that of an empty queue: RFC 6817 section 3.4.2 (LEDBAT) measures queueing in the same way.
//!
//! - **Tick**: RFC 7323 section 5.4 allows 1 ms to 1 s. Linux, macOS and iOS count milliseconds (from memory,
//!   not checked for the latter two). After [`TRIAL`] it is seen whether a station does. What comes out of a
//!   silence, or of a long queue, was stamped long ago, and looks like a longer tick: so one that was not
//!   seen to count milliseconds is looked at again with each segment. A station whose tick is longer, or that
//!   sends no timestamps (Windows by default), is not measured.
//! - **Drift**: the clocks of two hosts differ in rate. The least rises by [`DRIFT`], so that a clock that is
//!   slower does not look like a queue that grows for ever.

use crate::packet::TcpTimestamp;
use crate::time::{Duration, Instant};

/// A station's tick is judged over at least this time. A queue that grows by half a second in it still passes
/// for a tick of a millisecond, and one of 4 ms does not.
const TRIAL: Duration = Duration::from_secs(2);

/// Ticks in a millisecond, as far as a queue that comes and goes lets them be counted.
const PER_MILLI: core::ops::Range<f64> = 0.75..1.5;

/// By how much of the passed time the least rises: 50 parts in a million, what a free-running clock is off by
/// at most. Clocks that NTP disciplines are off by less than one.
const DRIFT: u64 = 20_000;

/// A wait above this is no wait: the station's clock was set, or it slept.
const LONGEST: i64 = 10_000_000_000;

/// The clock of one of a station's connections against ours. It begins with the connection's SYN, if that was
/// seen, since data may find a queue from the first segment on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneWay {
    /// When the first segment came, and with which timestamp; against these all others are measured.
    first: Option<(Instant, u32)>,
    /// The least lateness against the first, ns, and when it was last looked at.
    least: i64,
    looked: Instant,
    /// It was seen that the clock counts milliseconds.
    counts_millis: bool,
}

impl OneWay {
    /// The connection began with a segment that came up at `at` and had this timestamp.
    pub fn begin(&mut self, at: Instant, value: u32) {
        (self.first, self.looked) = (Some((at, value)), at);
    }

    /// A segment with this timestamp came up. How long it waited on its way; `None` where that cannot be
    /// known.
    pub fn on_segment(&mut self, now: Instant, timestamp: Option<TcpTimestamp>) -> Option<Duration> {
        let value = timestamp?.value;
        let Some((at, first)) = self.first else {
            (self.first, self.least, self.looked) = (Some((now, value)), 0, now);
            return None;
        };
        let (passed, ticks) = (now.since(at), i64::from(value.wrapping_sub(first) as i32));
        if !self.counts_millis && passed > TRIAL {
            self.counts_millis = PER_MILLI.contains(&(ticks as f64 / passed.as_millis() as f64));
        }
        let late = passed.as_nanos() as i64 - ticks * 1_000_000;
        let rise = now.since(self.looked).as_nanos() / DRIFT;
        (self.least, self.looked) = ((self.least + rise as i64).min(late), now);
        let waited = late - self.least;
        if waited > LONGEST || ticks.unsigned_abs() > u64::from(u32::MAX / 4) {
            (self.first, self.least) = (Some((now, value)), 0);
            return None;
        }
        self.counts_millis.then(|| Duration::from_nanos(waited as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a station says that sends a segment each 10 ms and whose clock ticks `per_second` times a second,
    /// if segments wait as `wait` has it at each millisecond: the last answer.
    fn last(start: u32, per_second: f64, millis: u64, wait: impl Fn(u64) -> u64) -> Option<Duration> {
        let mut one_way = OneWay::default();
        let mut answer = None;
        for ms in (0..millis).step_by(10) {
            let value = start.wrapping_add((ms as f64 * per_second / 1e3) as u32);
            let now = Instant::from_millis(5000 + ms + wait(ms));
            answer = one_way.on_segment(now, Some(TcpTimestamp { value, echo: 0 }));
        }
        answer
    }

    #[test]
    fn what_waits_longer_than_the_least_waited_in_a_queue() {
        let ms = Duration::from_millis;
        // The queue begins later, grows, and is there from the start: then only its changes can be seen.
        type Wait = fn(u64) -> u64;
        let rows: [(Wait, u64); 4] =
            [(|_| 0, 0), (|at| if at > 1500 { 30 } else { 0 }, 30), (|at| at / 100, 39), (|_| 30, 0)];
        for (row, (wait, expected)) in rows.into_iter().enumerate() {
            // Timestamps wrap around.
            for start in [7, u32::MAX - 1000] {
                let answer = last(start, 1000.0, 4000, wait).expect("a tick of a millisecond");
                assert!(answer <= ms(expected) && answer + ms(1) >= ms(expected), "row {row}: {answer}");
            }
        }
    }

    #[test]
    fn a_queue_that_was_there_before_the_first_data_is_seen_by_the_syn() {
        let at = |ms: u64| Some(TcpTimestamp { value: ms as u32, echo: 0 });
        let mut one_way = OneWay::default();
        one_way.begin(Instant::from_millis(1000), 0);
        let waited = (0..4000)
            .step_by(10)
            .filter_map(|ms| one_way.on_segment(Instant::from_millis(1000 + ms + 30), at(ms)));
        let waited: Vec<_> = waited.collect();
        let near = |wait: &Duration| (29..=30).contains(&wait.as_millis());
        assert!(waited.len() > 100 && waited.iter().all(near), "{waited:?}");
        // A SYN that waited itself, for the end of a silence, is forgotten with the first data that did not.
        let mut one_way = OneWay::default();
        one_way.begin(Instant::from_millis(1300), 0);
        for ms in (100..4000).step_by(10) {
            let _ = one_way.on_segment(Instant::from_millis(1000 + ms), at(ms));
        }
        let waited = one_way.on_segment(Instant::from_millis(5030), at(4000));
        assert!(waited.as_ref().is_some_and(near), "{waited:?}");
    }

    #[test]
    fn a_clock_that_does_not_count_milliseconds_says_nothing() {
        for (per_second, is_known) in [(1000.0, true), (1000.04, true), (250.0, false), (100.0, false)] {
            assert_eq!(last(1, per_second, 4000, |_| 0).is_some(), is_known, "{per_second} ticks a second");
        }
        // Nor does any before it is known what it counts.
        assert_eq!(last(1, 1000.0, 1900, |_| 0), None);
        assert_eq!(OneWay::default().on_segment(Instant::from_millis(1), None), None);
    }

    #[test]
    fn a_silence_as_the_tick_is_judged_hides_it_for_a_while_only() {
        // A silence from 1.5 to 2.3 s: what was sent in it comes at its end.
        let silence = |at: u64| if (1500..2300).contains(&at) { 2300 - at } else { 0 };
        let answer = last(1, 1000.0, 4000, silence).expect("a tick of a millisecond");
        assert!(answer < Duration::from_millis(2), "{answer}");
        for per_second in [250.0, 100.0] {
            assert_eq!(last(1, per_second, 20_000, silence), None, "{per_second} ticks a second");
        }
    }

    #[test]
    fn a_slower_clock_is_no_queue_and_a_clock_that_was_set_begins_anew() {
        // Ten minutes, 40 parts in a million slower: 24 ms.
        let slower = last(1, 999.96, 600_000, |_| 0).expect("a tick of a millisecond");
        assert!(slower < Duration::from_millis(2), "{slower}");
        let mut one_way = OneWay::default();
        let mut at = |ms: u64, value| {
            one_way.on_segment(Instant::from_millis(ms), Some(TcpTimestamp { value, echo: 0 }))
        };
        for ms in (0..4000).step_by(10) {
            at(ms, ms as u32);
        }
        assert_eq!(at(64_000, 4000), None);
        assert_eq!(at(64_010, 4010), Some(Duration::ZERO));
    }
}
