//! A measured SNR over time: a CSV file with a heading, of which two columns are read.
//!
//! Paper: `activation` section 4.2 (the SNR that a WaveLAN interface told every 100 ms; the file is not
//! published). A time is a number of seconds, or a date with a time of day (`2025-01-21 09:41:58.93`); the
//! first row is time 0. Between two rows the SNR goes straight, in dB. After the last row the file begins
//! anew.
//!
//! A file that cannot be played is refused whole, with the line that shows why: a value that is missing or no
//! number, a time that does not grow, rows so far apart that nobody knows what was between them.

use linkhold_core::time::{Duration, Instant};

/// Most rows, each of 16 bytes: bounds memory on hostile input.
pub const MAX_ROWS: usize = 1 << 22;
/// SNR values that a radio can have measured, dB.
const PLAUSIBLE_DB: core::ops::RangeInclusive<f64> = -50.0..=120.0;

/// A measured SNR.
#[derive(Clone, Debug, PartialEq)]
pub struct SnrTrace {
    /// Nanoseconds since the first row, ascending; the first is 0.
    times: Box<[u64]>,
    /// By row: the SNR, dB.
    values: Box<[f64]>,
}

/// The columns of a file that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns<'a> {
    /// Heading of the time.
    pub time: &'a str,
    /// Heading of the SNR.
    pub snr: &'a str,
    /// Rows further apart than this are a gap.
    pub max_gap: Duration,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnrTraceErrorKind {
    /// There is nothing in it, or nothing but empty lines.
    Empty,
    /// No heading has this name; the headings that are there.
    NoColumn(String, Vec<String>),
    /// Less than two rows.
    TooShort,
    /// More than [`MAX_ROWS`].
    TooLong,
    /// The row ends before the column of this name, or has nothing in it.
    Missing(String),
    /// The time is neither seconds nor a date.
    NotATime(String),
    /// The SNR is not a number.
    NotANumber(String),
    /// No radio measures such an SNR.
    Implausible(String),
    /// The time is not after the row before.
    NotAfter,
    /// Gap to the row before, ns; largest allowed, ns.
    Gap(u64, u64),
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct SnrTraceError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: SnrTraceErrorKind,
}

impl core::fmt::Display for SnrTraceErrorKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::NoColumn(wanted, known) => {
                write!(f, "there is no column `{wanted}`; there are {}", known.join(", "))
            }
            Self::TooShort => f.write_str("an SNR trace needs at least two rows below its heading"),
            Self::TooLong => write!(f, "the file has too many rows (at most {MAX_ROWS})"),
            Self::Missing(column) => write!(f, "the row has no value in the column `{column}`"),
            Self::NotATime(text) => write!(f, "{text:?} is no time: neither seconds nor a date"),
            Self::NotANumber(text) => write!(f, "{text:?} is not an SNR in dB"),
            Self::Implausible(text) => {
                let (least, most) = (PLAUSIBLE_DB.start(), PLAUSIBLE_DB.end());
                write!(f, "no radio measures an SNR of {text} dB ({least} to {most})")
            }
            Self::NotAfter => f.write_str("the time is not after that of the row before"),
            Self::Gap(gap, most) => {
                let (gap, most) = (Duration::from_nanos(*gap), Duration::from_nanos(*most));
                write!(f, "there is a gap of {gap} before this row (at most {most})")
            }
        }
    }
}

impl SnrTrace {
    /// Parses a file. Empty lines and carriage returns are ignored.
    ///
    /// # Errors
    /// [`SnrTraceError`] names the first line that cannot be used.
    pub fn parse(text: &str, columns: Columns<'_>) -> Result<Self, SnrTraceError> {
        let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let empty = SnrTraceError { line: 1, kind: SnrTraceErrorKind::Empty };
        let (heading, heading_line) = lines.next().ok_or(empty)?;
        let find = |wanted: &str| {
            Fields::of(heading).position(|field| field == wanted).ok_or_else(|| {
                let known: Vec<String> = Fields::of(heading).take(64).map(shortened).collect();
                let kind = SnrTraceErrorKind::NoColumn(wanted.to_owned(), known);
                SnrTraceError { line: heading_line, kind }
            })
        };
        let (time_column, snr_column) = (find(columns.time)?, find(columns.snr)?);
        let (mut times, mut values) = (Vec::new(), Vec::new());
        let mut first = None;
        let mut last_line = heading_line;
        for (line, number) in lines {
            last_line = number;
            let wrong = |kind| SnrTraceError { line: number, kind };
            let field = |index: usize, name: &str| {
                let found = Fields::of(line).nth(index).filter(|field| !field.is_empty());
                found.ok_or_else(|| wrong(SnrTraceErrorKind::Missing(name.to_owned())))
            };
            let (time, snr) = (field(time_column, columns.time)?, field(snr_column, columns.snr)?);
            let at = nanoseconds(time).ok_or_else(|| wrong(SnrTraceErrorKind::NotATime(shortened(time))))?;
            let not_a_number = || wrong(SnrTraceErrorKind::NotANumber(shortened(snr)));
            let value: f64 = snr.parse().map_err(|_| not_a_number())?;
            if value.is_nan() {
                return Err(not_a_number());
            }
            if !PLAUSIBLE_DB.contains(&value) {
                return Err(wrong(SnrTraceErrorKind::Implausible(shortened(snr))));
            }
            let since_first = at - *first.get_or_insert(at);
            let since_first = u64::try_from(since_first).map_err(|_| wrong(SnrTraceErrorKind::NotAfter))?;
            if let Some(&last) = times.last() {
                if since_first <= last {
                    return Err(wrong(SnrTraceErrorKind::NotAfter));
                }
                let (gap, most) = (since_first - last, columns.max_gap.as_nanos());
                if gap > most {
                    return Err(wrong(SnrTraceErrorKind::Gap(gap, most)));
                }
            }
            if times.len() == MAX_ROWS {
                return Err(wrong(SnrTraceErrorKind::TooLong));
            }
            times.push(since_first);
            values.push(value);
        }
        if times.len() < 2 {
            return Err(SnrTraceError { line: last_line, kind: SnrTraceErrorKind::TooShort });
        }
        Ok(Self { times: times.into_boxed_slice(), values: values.into_boxed_slice() })
    }

    /// From the first row to the last.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.times.last().copied().unwrap_or(0))
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// From one row to the next: the median and the longest.
    #[must_use]
    pub fn spacing(&self) -> (Duration, Duration) {
        let mut steps: Vec<u64> =
            self.times.iter().zip(self.times.iter().skip(1)).map(|(a, b)| b - a).collect();
        steps.sort_unstable();
        let at = |index: usize| Duration::from_nanos(steps.get(index).copied().unwrap_or(0));
        (at(steps.len() / 2), at(steps.len().saturating_sub(1)))
    }

    /// The smallest and the largest SNR, dB.
    #[must_use]
    pub fn range_db(&self) -> (f64, f64) {
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least, most)
    }

    /// The SNR at `at`, dB, if time 0 lies `entered` after the first row.
    #[must_use]
    pub fn db_at(&self, at: Instant, entered: Duration) -> f64 {
        // The parser takes no file of less than two rows with growing times, so a lap is longer than nothing.
        let lap = self.duration().as_nanos().max(1);
        let place = ((u128::from(at.as_nanos()) + u128::from(entered.as_nanos())) % u128::from(lap)) as u64;
        let after = self.times.partition_point(|&time| time <= place);
        let row = |index: usize| Some((*self.times.get(index)?, *self.values.get(index)?));
        match (after.checked_sub(1).and_then(row), row(after)) {
            (Some((from, low)), Some((to, high))) => {
                low + (high - low) * ((place - from) as f64 / (to - from) as f64)
            }
            (Some((_, value)), None) | (None, Some((_, value))) => value,
            (None, None) => f64::NEG_INFINITY,
        }
    }
}

/// The fields of a line, without the quotes around them. A comma in quotes is part of its field.
struct Fields<'a> {
    rest: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Self {
        Self { rest: Some(line) }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let line = self.rest?;
        let mut quoted = false;
        let end = line.find(|c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        let (field, rest) = match end {
            Some(end) => (line.get(..end)?, line.get(end + 1..)),
            None => (line, None),
        };
        self.rest = rest;
        Some(field.trim().trim_matches('"').trim())
    }
}

/// The beginning of a text, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A time in nanoseconds: seconds as a decimal number, or a date with a time of day, counted from 1970.
fn nanoseconds(text: &str) -> Option<i128> {
    match text.split_once([' ', 'T']) {
        None => decimal(text, 9),
        Some((date, time)) => {
            let mut parts = date.splitn(3, '-').map(|part| digits(part, 4));
            let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
            let mut parts = time.trim_end_matches('Z').splitn(3, ':');
            let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
            let second = decimal(parts.next()?, 9)?;
            let right = (1..=12).contains(&month)
                && (1..=31).contains(&day)
                && hour < 24
                && minute < 60
                && (0..61_000_000_000).contains(&second);
            right.then(|| {
                let minutes = (days(year, month, day) * 24 + i128::from(hour)) * 60 + i128::from(minute);
                minutes * 60_000_000_000 + second
            })
        }
    }
}

/// A whole number of at most `most` digits.
fn digits(text: &str, most: usize) -> Option<u32> {
    let right = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if right { text.parse().ok() } else { None }
}

/// A decimal number times 10^`places`; further places are cut.
fn decimal(text: &str, places: usize) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 12
        || fraction.len() > 30
        || !all_digits(whole)
        || !all_digits(fraction)
    {
        return None;
    }
    let shown = fraction.bytes().chain(core::iter::repeat(b'0')).take(places);
    Some(whole.bytes().chain(shown).fold(0, |value, byte| value * 10 + i128::from(byte - b'0')))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar: a year begins in March, so that the leap day is
/// its last, and 400 years have 146,097 days.
fn days(year: u32, month: u32, day: u32) -> i128 {
    let year = i128::from(year) - i128::from(month <= 2);
    let month_from_march = i128::from((month + 9) % 12);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + i128::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
