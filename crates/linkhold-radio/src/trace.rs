//! Delivery traces in mahimahi's format: one millisecond stamp a line, each line one 1500-byte opportunity.
//!
//! Source: mahimahi `mm-link` (Netravali et al., USENIX ATC 2015); traces by Winstein et al. (NSDI 2013). A
//! repeated stamp is several opportunities at once; the trace wraps, its last stamp being its length.

use std::sync::Arc;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

/// Bytes one delivery opportunity carries.
pub const OPPORTUNITY_BYTES: u32 = 1500;
/// Most opportunities that a trace may have (11 hours at 5 Mbit/s), each of 8 bytes: bounds memory on hostile
/// input.
pub const MAX_OPPORTUNITIES: u32 = 1 << 24;

/// A delivery trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The distinct stamps, ms, ascending.
    times: Box<[u32]>,
    /// By stamp: opportunities up to and including it.
    cumulative: Box<[u32]>,
}

/// What is wrong with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceErrorKind {
    /// No stamp in it.
    Empty,
    /// The line is not a whole number of milliseconds below 2^32.
    NotANumber,
    /// The stamp is smaller than the one before it.
    NotSorted,
    /// The last stamp is 0, so the trace has no length.
    ZeroLength,
    /// More than [`MAX_OPPORTUNITIES`] stamps.
    TooLong,
}

/// A trace that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}", describe(.kind))]
pub struct TraceError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub kind: TraceErrorKind,
}

fn describe(kind: &TraceErrorKind) -> &'static str {
    match kind {
        TraceErrorKind::Empty => "the trace has no delivery opportunity",
        TraceErrorKind::NotANumber => "not a millisecond stamp (a whole number below 2^32)",
        TraceErrorKind::NotSorted => "the stamp is smaller than the one before it; stamps must not go back",
        TraceErrorKind::ZeroLength => "the last stamp is 0, so the trace has no length; it must be above 0",
        TraceErrorKind::TooLong => "the trace has too many stamps (at most 16,777,216)",
    }
}

impl Trace {
    /// Parses a trace. Empty lines and carriage returns are ignored.
    ///
    /// # Errors
    /// [`TraceError`] names the first line that cannot be used.
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceError> {
        Self::parse_bounded(bytes, MAX_OPPORTUNITIES)
    }

    fn parse_bounded(bytes: &[u8], most: u32) -> Result<Self, TraceError> {
        let mut times: Vec<u32> = Vec::new();
        let mut cumulative: Vec<u32> = Vec::new();
        let mut total = 0u32;
        let mut line_no = 0u32;
        let mut last_line = 0u32;
        for line in bytes.split(|&byte| byte == b'\n') {
            line_no = line_no.saturating_add(1);
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            let stamp = number(text).ok_or(TraceError { line: line_no, kind: TraceErrorKind::NotANumber })?;
            if total == most {
                return Err(TraceError { line: line_no, kind: TraceErrorKind::TooLong });
            }
            total += 1;
            last_line = line_no;
            match (times.last(), cumulative.last_mut()) {
                (Some(&last), _) if stamp < last => {
                    return Err(TraceError { line: line_no, kind: TraceErrorKind::NotSorted });
                }
                (Some(&last), Some(count)) if stamp == last => *count = total,
                _ => {
                    times.push(stamp);
                    cumulative.push(total);
                }
            }
        }
        match times.last() {
            None => Err(TraceError { line: 1, kind: TraceErrorKind::Empty }),
            Some(0) => Err(TraceError { line: last_line, kind: TraceErrorKind::ZeroLength }),
            Some(_) => {
                Ok(Self { times: times.into_boxed_slice(), cumulative: cumulative.into_boxed_slice() })
            }
        }
    }

    /// The same lap entered at `place`, a share of its length: the first opportunity there or later becomes
    /// time 0. The number of opportunities, the gaps and the length stay what they are.
    #[must_use]
    pub fn from(&self, place: f64) -> Self {
        let lap = self.lap_ms();
        let wanted = (f64::from(lap) * place.clamp(0.0, 1.0)) as u32;
        let first = self.times.partition_point(|&time| time < wanted).min(self.times.len() - 1);
        let (before, after) = self.times.split_at(first + 1);
        let start = before[first];
        // The opportunity at the start itself comes round as the last stamp, which is the lap's length again.
        let times = after.iter().map(|time| time - start).chain(before.iter().map(|time| lap - start + time));
        let counts = (0..self.cumulative.len()).map(|index| match index {
            0 => self.cumulative[0],
            _ => self.cumulative[index] - self.cumulative[index - 1],
        });
        let counts: Vec<u32> = counts.collect();
        let mut total = 0;
        let cumulative = counts[first + 1..].iter().chain(&counts[..=first]).map(|count| {
            total += count;
            total
        });
        // A stamp of 0 is the same moment as the lap's last one. Where both are there, they become one.
        let mut merged = Self { times: times.collect(), cumulative: cumulative.collect() };
        merged.merge_equal();
        merged
    }

    /// Makes one stamp of equal neighbours.
    fn merge_equal(&mut self) {
        let mut times: Vec<u32> = Vec::with_capacity(self.times.len());
        let mut cumulative: Vec<u32> = Vec::with_capacity(self.times.len());
        for (&time, &count) in self.times.iter().zip(&self.cumulative) {
            match (times.last(), cumulative.last_mut()) {
                (Some(&last), Some(total)) if last == time => *total = count,
                _ => {
                    times.push(time);
                    cumulative.push(count);
                }
            }
        }
        self.times = times.into_boxed_slice();
        self.cumulative = cumulative.into_boxed_slice();
    }

    /// Length of one lap.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_millis(u64::from(self.lap_ms()))
    }

    /// Opportunities in one lap.
    #[must_use]
    pub fn opportunities(&self) -> u32 {
        self.cumulative.last().copied().unwrap_or(0)
    }

    /// Mean rate over one lap.
    #[must_use]
    pub fn mean_rate(&self) -> BitRate {
        let bits = u64::from(self.opportunities()) * u64::from(OPPORTUNITY_BYTES) * 8;
        BitRate(bits * 1000 / u64::from(self.lap_ms().max(1)))
    }

    /// Gaps between opportunities longer than `threshold` in one lap, as (start, end) in ms. The time from
    /// the lap's start to its first opportunity is such a gap too: the lap before ends with an opportunity.
    #[must_use]
    pub fn gaps(&self, threshold: Duration) -> Vec<(u32, u32)> {
        let mut last = 0;
        let mut gaps = Vec::new();
        for &time in &self.times {
            if Duration::from_millis(u64::from(time - last)) > threshold {
                gaps.push((last, time));
            }
            last = time;
        }
        gaps
    }

    /// Opportunities from time 0 (the start of the first lap) up to `at`, those at `at` itself included or
    /// not.
    #[must_use]
    pub fn opportunities_until(&self, at: Instant, included: bool) -> u64 {
        let lap = self.lap_ms();
        let per_lap = u64::from(self.opportunities());
        let (at_ms, on_stamp) = (at.as_nanos() / NANOS_PER_MS, at.as_nanos().is_multiple_of(NANOS_PER_MS));
        // `at_ms % lap` would put the end of a lap at the start of the next; the last stamp is part of this
        // one.
        let laps = at_ms.saturating_sub(1) / u64::from(lap);
        let rest = at_ms - laps * u64::from(lap);
        let within = self.times.partition_point(|&time| {
            let time = u64::from(time);
            if included || !on_stamp { time <= rest } else { time < rest }
        });
        let counted = within.checked_sub(1).map_or(0, |last| u64::from(self.cumulative[last]));
        // At the very end of a lap the next lap's opportunities at stamp 0 are due as well.
        let next_lap = if rest == u64::from(lap) && (included || !on_stamp) { self.at_zero() } else { 0 };
        laps * per_lap + counted + next_lap
    }

    fn at_zero(&self) -> u64 {
        if self.times.first() == Some(&0) { u64::from(self.cumulative[0]) } else { 0 }
    }

    pub(crate) fn lap_ms(&self) -> u32 {
        self.times.last().copied().unwrap_or(0)
    }
}

/// Nanoseconds in a stamp's unit.
pub(crate) const NANOS_PER_MS: u64 = 1_000_000;

/// A place in a trace that only moves forward: the next distinct stamp not yet passed.
#[derive(Clone, Debug)]
pub(crate) struct TraceCursor {
    trace: Arc<Trace>,
    index: usize,
    /// Start of the lap it is in, ms.
    lap_start: u64,
}

impl TraceCursor {
    pub(crate) const fn new(trace: Arc<Trace>) -> Self {
        Self { trace, index: 0, lap_start: 0 }
    }

    /// When the stamp comes.
    pub(crate) fn at(&self) -> Instant {
        Instant::from_millis(self.lap_start + u64::from(self.trace.times[self.index]))
    }

    /// Opportunities at the stamp.
    pub(crate) fn opportunities(&self) -> u32 {
        let before = self.index.checked_sub(1).map_or(0, |last| self.trace.cumulative[last]);
        self.trace.cumulative[self.index] - before
    }

    /// Goes to the next stamp (the next lap's stamp 0 comes at the time of this lap's last).
    pub(crate) fn advance(&mut self) {
        self.index += 1;
        if self.index == self.trace.times.len() {
            self.index = 0;
            self.lap_start += u64::from(self.trace.lap_ms());
        }
    }

    /// Passes every stamp before `now`, and those at `now` unless `keep_now`.
    pub(crate) fn seek(&mut self, now: Instant, keep_now: bool) {
        let passed = |at: Instant| if keep_now { at < now } else { at <= now };
        // Nearly always the next stamp is close by.
        for _ in 0..8 {
            if !passed(self.at()) {
                return;
            }
            self.advance();
        }
        let lap = u64::from(self.trace.lap_ms());
        let now_ms = now.as_nanos() / NANOS_PER_MS;
        let lap_start = (now_ms.saturating_sub(1) / lap) * lap;
        if lap_start > self.lap_start {
            (self.lap_start, self.index) = (lap_start, 0);
        }
        let start = self.lap_start;
        let index =
            self.trace.times.partition_point(|&time| passed(Instant::from_millis(start + u64::from(time))));
        self.index = self.index.max(index);
        if self.index == self.trace.times.len() {
            self.index -= 1;
            self.advance();
        }
        while passed(self.at()) {
            self.advance();
        }
    }
}

fn number(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0u32, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u32::from(digit)) }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(text: &str) -> Arc<Trace> {
        Arc::new(Trace::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_lap_entered_in_its_middle_keeps_its_opportunities_gaps_and_length() {
        let whole = trace("10\n10\n30\n70\n100\n");
        let turned = whole.from(0.25);
        // From the two opportunities at 30 on: 70, 100, then 10 twice and 30 of the next lap.
        assert_eq!(turned, *trace("40\n70\n80\n80\n100\n"));
        assert_eq!(whole.from(0.0), *trace("20\n60\n90\n100\n100\n"), "the first opportunity is the start");
        assert_eq!(whole.from(1.0), *whole, "the last stamp is the lap's start");
        // A stamp of 0 is the same moment as the lap's end.
        assert_eq!(trace("0\n50\n100\n").from(0.4), *trace("50\n50\n100\n"));
    }

    proptest! {
        #[test]
        fn entering_a_lap_elsewhere_changes_neither_rate_nor_length(
            mut stamps in proptest::collection::vec(1_u32..5_000, 1..200),
            place in 0.0_f64..=1.0,
        ) {
            stamps.sort_unstable();
            let text: String = stamps.iter().map(|stamp| format!("{stamp}\n")).collect();
            let whole = trace(&text);
            let turned = whole.from(place);
            prop_assert_eq!(turned.duration(), whole.duration());
            prop_assert_eq!(turned.opportunities(), whole.opportunities());
            prop_assert!(turned.times.is_sorted());
        }
    }

    #[test]
    fn each_kind_of_bad_trace_is_named_with_its_line() {
        use TraceErrorKind::{Empty, NotANumber, NotSorted, ZeroLength};
        for (text, line, kind) in [
            ("", 1, Empty),
            ("\n\n", 1, Empty),
            ("1\n2\nx\n", 3, NotANumber),
            ("1\n-2\n", 2, NotANumber),
            ("1\n2.5\n", 2, NotANumber),
            ("4294967296\n", 1, NotANumber),
            ("1\n7\n5\n9\n", 3, NotSorted),
            ("0\n0\n", 2, ZeroLength),
        ] {
            assert_eq!(Trace::parse(text.as_bytes()), Err(TraceError { line, kind }), "{text:?}");
        }
        let message = Trace::parse(b"1\n7\n5\n").unwrap_err().to_string();
        assert!(message.starts_with("line 3: "), "{message}");
    }

    #[test]
    fn a_trace_that_is_too_long_is_refused_at_the_first_stamp_too_many() {
        assert_eq!(Trace::parse_bounded(b"1\n2\n3\n", 3).map(|trace| trace.opportunities()), Ok(3));
        let error = TraceError { line: 5, kind: TraceErrorKind::TooLong };
        assert_eq!(Trace::parse_bounded(b"1\n\n2\n3\n4\n", 3), Err(error));
    }

    #[test]
    fn stamps_repeat_lines_may_end_in_carriage_returns() {
        let trace = trace("0\r\n5\r\n5\r\n10");
        assert_eq!((trace.opportunities(), trace.duration()), (4, Duration::from_millis(10)));
        // 4 opportunities of 12,000 bits in 10 ms.
        assert_eq!(trace.mean_rate(), BitRate(4_800_000));
    }

    #[test]
    fn a_cursor_wraps_with_the_last_stamp_as_the_length() {
        let mut cursor = TraceCursor::new(trace("0\n4\n4\n10\n"));
        let mut seen = Vec::new();
        for _ in 0..7 {
            seen.push((cursor.at().as_nanos() / NANOS_PER_MS, cursor.opportunities()));
            cursor.advance();
        }
        assert_eq!(seen, [(0, 1), (4, 2), (10, 1), (10, 1), (14, 2), (20, 1), (20, 1)]);
    }

    #[test]
    fn gaps_include_the_one_before_the_first_stamp_and_exclude_the_threshold_itself() {
        let trace = trace("150\n250\n351\n400\n900\n");
        let gaps = trace.gaps(Duration::from_millis(100));
        assert_eq!(gaps, [(0, 150), (250, 351), (400, 900)]);
    }

    proptest! {
        #[test]
        fn seeking_and_counting_agree_with_walking(
            steps in prop::collection::vec(0u32..40, 1..60),
            times in prop::collection::vec(0u64..3_000_000_000, 1..20),
            keep_now: bool,
        ) {
            let mut stamp = 0;
            let mut text = String::new();
            for step in &steps {
                stamp += step;
                text.push_str(&format!("{stamp}\n"));
            }
            prop_assume!(stamp > 0);
            let trace = trace(&text);
            // Whole milliseconds are where the edges are.
            let mut times: Vec<u64> =
                times.iter().map(|&at| if at % 2 == 0 { at } else { at / NANOS_PER_MS * NANOS_PER_MS }).collect();
            times.sort_unstable();
            let (mut seeking, mut walking) = (TraceCursor::new(trace.clone()), TraceCursor::new(trace.clone()));
            let mut count = 0;
            for at in times {
                let at = Instant::from_nanos(at);
                while walking.at() < at || (walking.at() == at && !keep_now) {
                    count += u64::from(walking.opportunities());
                    walking.advance();
                }
                seeking.seek(at, keep_now);
                prop_assert_eq!((seeking.at(), seeking.index), (walking.at(), walking.index));
                prop_assert_eq!(trace.opportunities_until(at, !keep_now), count);
            }
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Trace::parse(&bytes);
        }
    }
}
