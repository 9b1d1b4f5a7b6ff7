//! Numbers with their unit, as users write them: `25ms`, `24Mbit/s`, `256KiB`, `100pkt`. Scenario files, the
//! agent's configuration and the command line all read them here.
//!
//! Read exactly (no floating point), so `0.1s` is 100,000,000 ns.
//!
//! ```
//! use linkhold_core::time::Duration;
//! use linkhold_core::quantity::duration;
//!
//! assert_eq!(duration("0.1s"), Ok(Duration::from_millis(100)));
//! assert_eq!(
//!     duration("100").unwrap_err().to_string(),
//!     "\"100\" has no unit; write a duration such as \"25ms\" (units: ns, us, ms, s, min, h)"
//! );
//! ```

use std::fmt;

use crate::text::{shorten, write_line};
use crate::time::Duration;
use crate::units::{BitRate, Bytes};

/// Why a value is not what is wanted. As text it is one line, `what; right`, with control characters escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// What is wrong.
    pub what: String,
    /// What would be right; empty where `what` says it.
    pub right: String,
}

impl ValueError {
    /// An error that says what is wrong and what would be right.
    pub fn new(what: impl Into<String>, right: impl Into<String>) -> Self {
        Self { what: what.into(), right: right.into() }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, right } = self;
        let text = if right.is_empty() { what.clone() } else { format!("{what}; {right}") };
        write_line(f, &text)
    }
}

impl std::error::Error for ValueError {}

/// A kind of quantity: its units, and how a user would write one.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// For messages: "a duration".
    pub noun: &'static str,
    /// For messages: how it is written.
    pub example: &'static str,
    /// How zero is written.
    zero: &'static str,
    /// Units by their size in the base unit, which is the type's own (ns, bit/s, bytes, packets). Of units
    /// with one size the first is the one that is written.
    units: &'static [(&'static str, u64)],
    /// Largest value, in the base unit, and how it is called.
    max: (u64, &'static str),
}

/// Durations, in nanoseconds.
pub const DURATION: Kind = Kind {
    noun: "a duration",
    example: "\"25ms\" (units: ns, us, ms, s, min, h)",
    zero: "0s",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    max: (100 * 24 * 3_600_000_000_000, "2400h"),
};

/// Bit rates, in bits per second.
pub const BIT_RATE: Kind = Kind {
    noun: "a bit rate",
    example: "\"24Mbit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s)",
    zero: "0bit/s",
    units: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Mb/s", 1_000_000),
    ],
    max: (10_000_000_000_000, "10000Gbit/s"),
};

/// Numbers of bytes.
pub const BYTES: Kind = Kind {
    noun: "a number of bytes",
    example: "\"256KiB\" (units: B, kB, MB, GB, KiB, MiB, GiB)",
    zero: "0B",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    max: (1 << 40, "1024GiB"),
};

/// Numbers of packets.
pub const PACKETS: Kind = Kind {
    noun: "a number of packets",
    example: "\"100pkt\"",
    zero: "0pkt",
    units: &[("pkt", 1), ("packets", 1), ("packet", 1)],
    max: (10_000_000, "10000000pkt"),
};

impl Kind {
    fn error(&self, what: impl Into<String>) -> ValueError {
        ValueError { what: what.into(), right: format!("write {} such as {}", self.noun, self.example) }
    }

    /// The value in the base unit, rounded to the nearest.
    fn parse(&self, text: &str) -> Result<u64, ValueError> {
        let shown = shorten(text);
        let trimmed = text.trim();
        if trimmed.starts_with(['-', '\u{2212}']) {
            return Err(self.error(format!("\"{shown}\" is negative")));
        }
        let number_len =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(number_len);
        let unit = unit.trim();
        let (mantissa, decimals) =
            decimal(number).ok_or_else(|| self.error(format!("\"{shown}\" is not {}", self.noun)))?;
        if unit.is_empty() {
            return Err(self.error(format!("\"{shown}\" has no unit")));
        }
        let Some(&(_, size)) = self.units.iter().find(|(name, _)| *name == unit) else {
            return Err(self.error(format!("\"{shown}\" has the unknown unit `{}`", shorten(unit))));
        };
        let scale = 10u128.pow(decimals);
        let value = (mantissa * u128::from(size) + scale / 2) / scale;
        match u64::try_from(value) {
            Ok(value) if value <= self.max.0 => Ok(value),
            _ => Err(ValueError {
                what: format!("\"{shown}\" is too large"),
                right: format!("at most {}", self.max.1),
            }),
        }
    }

    /// `value`, in the base unit, with the largest unit that keeps it whole: read again it is the same
    /// number.
    #[must_use]
    pub fn write(&self, value: u64) -> String {
        if value == 0 {
            return self.zero.to_owned();
        }
        let fits = |&&(_, size): &&(&str, u64)| value.is_multiple_of(size);
        let largest = self.units.iter().filter(fits).rev().max_by_key(|(_, size)| *size);
        let (unit, size) = largest.unwrap_or(&self.units[0]);
        format!("{}{unit}", value / size)
    }

    /// What is written in it, as a regular expression for a JSON Schema.
    #[must_use]
    pub fn pattern(&self) -> String {
        let units: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        format!("^[0-9_]+(\\.[0-9_]+)? ?({})$", units.join("|"))
    }
}

/// Digits without the point, and how many stand behind it. At most 27 digits, so that no unit overflows.
fn decimal(text: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let point_without_digits = text.contains('.') && fraction.is_empty();
    if whole.is_empty() || point_without_digits || whole.len() + fraction.len() > 24 {
        return None;
    }
    let mut mantissa = 0u128;
    let mut decimals = 0u32;
    for (index, byte) in whole.bytes().chain(fraction.bytes()).enumerate() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + u128::from(byte - b'0');
                decimals += u32::from(index >= whole.len());
            }
            b'_' => {}
            _ => return None,
        }
    }
    text.bytes().any(|byte| byte.is_ascii_digit()).then_some((mantissa, decimals))
}

/// Reads a duration such as `25ms`: units ns, us (µs), ms, s, min, h; at most 2400 h; rounded to the nearest
/// nanosecond.
///
/// # Errors
/// [`ValueError`] without a number, with no unit or an unknown one, below zero, or too large.
pub fn duration(text: &str) -> Result<Duration, ValueError> {
    DURATION.parse(text).map(Duration::from_nanos)
}

/// Reads a bit rate such as `24Mbit/s`: units bit/s, kbit/s, Mbit/s, Gbit/s and their usual short forms
/// (`Mbps`, `Mb/s`); at most 10,000 Gbit/s; rounded to the nearest bit a second.
///
/// # Errors
/// [`ValueError`] without a number, with no unit or an unknown one, below zero, or too large.
pub fn bit_rate(text: &str) -> Result<BitRate, ValueError> {
    BIT_RATE.parse(text).map(BitRate)
}

/// Reads a number of bytes such as `256KiB`: units B, kB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of
/// 1024); at most 1024 GiB; rounded to the nearest byte.
///
/// # Errors
/// [`ValueError`] without a number, with no unit or an unknown one, below zero, or too large.
pub fn bytes(text: &str) -> Result<Bytes, ValueError> {
    BYTES.parse(text).map(Bytes)
}

/// Reads a number of packets such as `100pkt`; at most ten million.
///
/// # Errors
/// [`ValueError`] without a number, with no unit or an unknown one, below zero, or too large.
pub fn packets(text: &str) -> Result<u32, ValueError> {
    // The kind's maximum fits 32 bits.
    PACKETS.parse(text).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        for (text, nanos) in [
            ("25ms", 25_000_000),
            ("0.1s", 100_000_000),
            ("20 s", 20_000_000_000),
            ("1.5us", 1_500),
            ("0s", 0),
            ("0.4ns", 0),
            ("1_000ms", 1_000_000_000),
            ("2min", 120_000_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        assert_eq!(bit_rate("24Mbit/s"), Ok(BitRate(24_000_000)));
        assert_eq!(bit_rate("1.544 Mbps"), Ok(BitRate(1_544_000)));
        assert_eq!(bytes("256KiB"), Ok(Bytes(262_144)));
        assert_eq!(bytes("500MB"), Ok(Bytes(500_000_000)));
        assert_eq!(packets("100pkt"), Ok(100));
    }

    #[test]
    fn what_is_written_is_read_again_exactly() {
        for (nanos, text) in [
            (25_000_000, "25ms"),
            (0, "0s"),
            (1_500, "1500ns"),
            (120_000_000_000, "2min"),
            (90_000_000_000, "90s"),
            (100 * 24 * 3_600_000_000_000, "2400h"),
        ] {
            assert_eq!(DURATION.write(nanos), text);
            assert_eq!(DURATION.parse(text), Ok(nanos));
        }
        assert_eq!(BIT_RATE.write(24_000_000), "24Mbit/s");
        for (count, text) in [(64_000_000, "64MB"), (1 << 20, "1MiB"), (1_048_577, "1048577B")] {
            assert_eq!((BYTES.write(count).as_str(), BYTES.parse(text)), (text, Ok(count)));
        }
        assert_eq!(PACKETS.write(131_072), "131072pkt");
    }

    #[test]
    fn what_is_not_a_quantity_is_named() {
        for (text, what) in [
            ("20", "has no unit"),
            ("-20s", "is negative"),
            ("\u{2212}20s", "is negative"),
            ("20parsec", "unknown unit `parsec`"),
            ("", "is not a duration"),
            ("s", "is not a duration"),
            ("1.2.3s", "is not a duration"),
            (".5s", "is not a duration"),
            ("5.s", "is not a duration"),
            ("_s", "is not a duration"),
            ("1e9s", "unknown unit"),
            ("99999999999s", "is too large"),
            ("99999999999999999999999999999999s", "is not a duration"),
            ("NaN", "is not a duration"),
        ] {
            let error = duration(text).expect_err(text);
            assert!(error.what.contains(what), "{text}: {error:?}");
        }
        assert_eq!(
            duration("2\u{1b}[2J\n").unwrap_err().to_string(),
            "\"2\\u{1b}[2J\\n\" has the unknown unit `\\u{1b}[2J`; \
             write a duration such as \"25ms\" (units: ns, us, ms, s, min, h)"
        );
        assert!(bit_rate("24MB/s").expect_err("bytes are not bits").what.contains("unknown unit"));
    }
}
