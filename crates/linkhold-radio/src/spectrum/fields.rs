//! The lines of both logs: `<a, b, c>`, the brackets optional, commas or blanks between the fields, `#`
//! comments.
//!
//! Source: crahn, sections 4.1 and 4.2, which print tuples in angle brackets and no byte of a file. What a
//! shell script writes (`printf "%d %f %f\n"`) is read as well as what a person copies from the paper.

/// Longest time that a log may name, s: 31 years, so that sums stay inside a 64-bit count of nanoseconds.
pub(crate) const MAX_SECONDS: u64 = 1_000_000_000;
const NANOS: u64 = 1_000_000_000;

/// What is wrong with a line, or with one of its numbers. Both logs have these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The line is not UTF-8.
    NotText,
    /// An angle bracket without its partner.
    Bracket,
    /// A number of fields that no entry has; the entries that there are.
    Count(usize, &'static str),
    /// Nothing between two commas.
    EmptyField,
    /// A field that is not what it should be: its name, its text, and what would be right.
    Field {
        /// The field's name.
        name: &'static str,
        /// What stands there.
        text: String,
        /// What should stand there.
        right: &'static str,
    },
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotText => f.write_str("this is not text (UTF-8)"),
            Self::Bracket => f.write_str("`<` and `>` stand around a whole entry or not at all"),
            Self::Count(found, entries) => {
                let fields = if *found == 1 { "field" } else { "fields" };
                write!(f, "an entry of {found} {fields} means nothing here; there are {entries}")
            }
            Self::EmptyField => f.write_str("there is nothing between two commas"),
            Self::Field { name, text, right } => write!(f, "{name} {text:?} is not {right}"),
        }
    }
}

/// The fields of one line; at most `N`.
pub(crate) struct Fields<'a, const N: usize> {
    fields: [&'a str; N],
    count: usize,
}

impl<'a, const N: usize> Fields<'a, N> {
    /// The fields of a line; none if it is empty or a comment.
    pub(crate) fn of(line: &'a [u8], entries: &'static str) -> Result<Self, Malformed> {
        let text = core::str::from_utf8(line).map_err(|_| Malformed::NotText)?;
        let text = text.split_once('#').map_or(text, |(before, _)| before).trim();
        let inner = match (text.strip_prefix('<'), text.strip_suffix('>')) {
            (Some(_), Some(_)) => text.get(1..text.len() - 1).unwrap_or("").trim(),
            (None, None) => text,
            (Some(_), None) | (None, Some(_)) => return Err(Malformed::Bracket),
        };
        let mut found = Self { fields: [""; N], count: 0 };
        if text.is_empty() {
            return Ok(found);
        }
        if inner.contains(',') {
            inner.split(',').try_for_each(|field| found.push(field.trim()))?;
        } else {
            inner.split_whitespace().try_for_each(|field| found.push(field))?;
        }
        if found.count == 0 || found.count > N {
            return Err(Malformed::Count(found.count, entries));
        }
        Ok(found)
    }

    fn push(&mut self, field: &'a str) -> Result<(), Malformed> {
        if field.is_empty() {
            return Err(Malformed::EmptyField);
        }
        if field.contains(['<', '>']) {
            return Err(Malformed::Bracket);
        }
        if let Some(place) = self.fields.get_mut(self.count) {
            *place = field;
        }
        self.count += 1;
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[&'a str] {
        self.fields.get(..self.count).unwrap_or(&[])
    }
}

fn wrong(name: &'static str, text: &str, right: &'static str) -> Malformed {
    let text = text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    Malformed::Field { name, text, right }
}

/// A whole number between `least` and `most`.
pub(crate) fn whole(
    name: &'static str,
    text: &str,
    range: core::ops::RangeInclusive<u32>,
    right: &'static str,
) -> Result<u32, Malformed> {
    // `parse` takes a leading plus, which no log has.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let value = if digits { text.parse().ok() } else { None };
    value.filter(|value| range.contains(value)).ok_or_else(|| wrong(name, text, right))
}

/// A number in `range`; neither NaN nor infinity is in any.
pub(crate) fn number(
    name: &'static str,
    text: &str,
    range: core::ops::RangeInclusive<f64>,
    right: &'static str,
) -> Result<f64, Malformed> {
    let value: Option<f64> = text.parse().ok();
    // Minus zero becomes zero.
    value
        .filter(|value| range.contains(value))
        .map(|value| value + 0.0)
        .ok_or_else(|| wrong(name, text, right))
}

/// A time in seconds, as nanoseconds. A plain decimal is exact; one with an exponent passes through a double.
pub(crate) fn seconds(name: &'static str, text: &str) -> Result<u64, Malformed> {
    let right = "a time in seconds, from 0 to 1e9";
    let value = decimal_nanos(text).or_else(|| {
        let value: f64 = text.parse().ok()?;
        (0.0..=MAX_SECONDS as f64).contains(&value).then(|| (value * 1e9).round() as u64)
    });
    value.filter(|&nanos| nanos <= MAX_SECONDS * NANOS).ok_or_else(|| wrong(name, text, right))
}

/// `digits[.digits]` seconds in nanoseconds, rounded at the tenth place.
fn decimal_nanos(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 10 || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let digit = |byte: u8| u64::from(byte - b'0');
    let seconds = whole.bytes().fold(0, |value, byte| value * 10 + digit(byte));
    let places = fraction.bytes().chain(core::iter::repeat(b'0'));
    let nanos = places.take(9).fold(0, |value, byte| value * 10 + digit(byte));
    let round = fraction.as_bytes().get(9).is_some_and(|&byte| byte >= b'5');
    Some(seconds * NANOS + nanos + u64::from(round))
}

/// Writes nanoseconds as seconds: exact, without zeros at the end.
pub(crate) fn write_seconds(out: &mut impl core::fmt::Write, nanos: u64) -> core::fmt::Result {
    let (whole, mut rest) = (nanos / NANOS, nanos % NANOS);
    write!(out, "{whole}")?;
    if rest == 0 {
        return Ok(());
    }
    let mut places = 9;
    while rest.is_multiple_of(10) {
        rest /= 10;
        places -= 1;
    }
    write!(out, ".{rest:0places$}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(line: &str) -> Result<Vec<&str>, Malformed> {
        Fields::<3>::of(line.as_bytes(), "entries of 3").map(|found| found.as_slice().to_vec())
    }

    #[test]
    fn brackets_commas_blanks_and_comments_are_read_alike() {
        for line in ["<1, 2.5, 3>", "1,2.5,3", "1 2.5\t3", " < 1 2.5 3 > # why", "<1,2.5,3>\r"] {
            assert_eq!(fields(line), Ok(vec!["1", "2.5", "3"]), "{line:?}");
        }
        for line in ["", "  ", "# all of it", "\r"] {
            assert_eq!(fields(line), Ok(vec![]), "{line:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_entry_is_refused() {
        for (line, wrong) in [
            ("<1, 2", Malformed::Bracket),
            ("1, 2>", Malformed::Bracket),
            ("1, <2>, 3", Malformed::Bracket),
            ("1,,3", Malformed::EmptyField),
            ("1,2,", Malformed::EmptyField),
            ("1 2 3 4", Malformed::Count(4, "entries of 3")),
            ("<>", Malformed::Count(0, "entries of 3")),
            // One character that is both brackets cannot be.
            ("<", Malformed::Bracket),
        ] {
            assert_eq!(fields(line), Err(wrong), "{line:?}");
        }
    }

    #[test]
    fn times_are_exact_to_the_nanosecond_and_bounded() {
        for (text, nanos) in [
            ("0", 0),
            ("1.5", 1_500_000_000),
            ("0.000000001", 1),
            ("0.0000000014", 1),
            ("0.0000000015", 2),
            ("123456789.123456789", 123_456_789_123_456_789),
            ("1.5e-3", 1_500_000),
            ("1000000000", 1_000_000_000_000_000_000),
        ] {
            assert_eq!(seconds("t", text), Ok(nanos), "{text}");
        }
        for text in ["-1", "nan", "inf", "1e10", "1000000000.1", "", "1s", "99999999999999999999", "0x1"] {
            assert!(seconds("t", text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_that_is_written_is_read_again(nanos in 0..=MAX_SECONDS * NANOS) {
            let mut text = String::new();
            write_seconds(&mut text, nanos).unwrap();
            prop_assert_eq!(seconds("t", &text), Ok(nanos));
        }

        #[test]
        fn no_line_makes_the_reader_panic(line in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(found) = Fields::<5>::of(&line, "") {
                for text in found.as_slice() {
                    let _ = (seconds("", text), number("", text, 0.0..=1.0, ""), whole("", text, 0..=9, ""));
                }
            }
        }
    }
}
