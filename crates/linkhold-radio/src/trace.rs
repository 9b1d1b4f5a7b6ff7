//! Delivery traces in mahimahi's format: one millisecond stamp a line, each line one 1500-byte opportunity.
//!
//! Source: mahimahi `mm-link` (Netravali et al., USENIX ATC 2015); traces by Winstein et al. (NSDI 2013). A
//! repeated stamp is several opportunities at once; the trace wraps, its last stamp being its length.

use linkhold_core::time::Duration;
use linkhold_core::units::BitRate;

/// Bytes one delivery opportunity carries.
pub const OPPORTUNITY_BYTES: u32 = 1500;
/// Most lines a trace may have (some 45 hours at the mean rate of a 4G link): bounds memory on hostile input.
pub const MAX_LINES: u32 = 1 << 26;

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
    /// More than [`MAX_LINES`] lines.
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
        TraceErrorKind::TooLong => "the trace has too many lines (at most 67,108,864)",
    }
}

impl Trace {
    /// Parses a trace. Empty lines at the end and carriage returns are ignored.
    ///
    /// # Errors
    /// [`TraceError`] names the first line that cannot be used.
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceError> {
        let mut times: Vec<u32> = Vec::new();
        let mut cumulative: Vec<u32> = Vec::new();
        let mut total = 0u32;
        let mut line_no = 0u32;
        for line in bytes.split(|&byte| byte == b'\n') {
            if line_no == MAX_LINES {
                return Err(TraceError { line: line_no, kind: TraceErrorKind::TooLong });
            }
            line_no += 1;
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            let stamp = number(text).ok_or(TraceError { line: line_no, kind: TraceErrorKind::NotANumber })?;
            total += 1;
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
            None => Err(TraceError { line: line_no.max(1), kind: TraceErrorKind::Empty }),
            Some(0) => Err(TraceError { line: line_no, kind: TraceErrorKind::ZeroLength }),
            Some(_) => {
                Ok(Self { times: times.into_boxed_slice(), cumulative: cumulative.into_boxed_slice() })
            }
        }
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

    fn lap_ms(&self) -> u32 {
        self.times.last().copied().unwrap_or(0)
    }
}

fn number(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0u32, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u32::from(digit)) }
    })
}
