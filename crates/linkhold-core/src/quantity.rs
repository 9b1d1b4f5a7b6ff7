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

/// Distances, in millimetres.
pub const DISTANCE: Kind = Kind {
    noun: "a distance",
    example: "\"25m\" (units: mm, cm, m, km)",
    zero: "0m",
    units: &[("mm", 1), ("cm", 10), ("m", 1_000), ("km", 1_000_000)],
    max: (1_000_000_000, "1000km"),
};

/// Speeds, in millimetres per second.
pub const SPEED: Kind = Kind {
    noun: "a speed",
    example: "\"1.2m/s\" (units: mm/s, m/s)",
    zero: "0m/s",
    units: &[("mm/s", 1), ("m/s", 1_000)],
    max: (1_000_000, "1000m/s"),
};

/// Frequencies, in thousandths of a hertz.
pub const FREQUENCY: Kind = Kind {
    noun: "a frequency",
    example: "\"8Hz\" (units: mHz, Hz, kHz)",
    zero: "0Hz",
    units: &[("mHz", 1), ("Hz", 1_000), ("kHz", 1_000_000)],
    max: (1_000_000_000, "1000kHz"),
};

/// Powers, in microwatts.
pub const POWER: Kind = Kind {
    noun: "a power",
    example: "\"1.35W\" (units: uW, mW, W)",
    zero: "0W",
    units: &[("uW", 1), ("mW", 1_000), ("W", 1_000_000)],
    max: (10_000_000_000, "10000W"),
};

/// Ratios without their sign, in thousandths of a decibel.
const DECIBEL: Kind = Kind {
    noun: "a number of decibels",
    example: "\"5dB\" or \"-3dB\"",
    zero: "0dB",
    units: &[("dB", 1_000)],
    max: (200_000, "200dB"),
};

impl Kind {
    fn error(&self, what: impl Into<String>) -> ValueError {
        ValueError { what: what.into(), right: format!("write {} such as {}", self.noun, self.example) }
    }

    /// The value in the base unit, rounded to the nearest.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, ValueError> {
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

/// Reads a ratio such as `5dB` or `-3dB`, which may be negative; at most 200 dB; rounded to the nearest
/// thousandth of a decibel.
///
/// # Errors
/// [`ValueError`] without a number, with no unit or an unknown one, or too large.
pub fn decibels(text: &str) -> Result<f64, ValueError> {
    let trimmed = text.trim();
    let (negative, size) = match trimmed.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    if size.starts_with(['-', '\u{2212}', '+']) {
        return Err(DECIBEL.error(format!("\"{}\" is not {}", shorten(text), DECIBEL.noun)));
    }
    let thousandths = DECIBEL.parse(size)? as f64;
    Ok(if negative && thousandths > 0.0 { -thousandths } else { thousandths } / 1000.0)
}

/// Writes a ratio so that [`decibels`] gives it back.
#[must_use]
pub fn write_decibels(db: f64) -> String {
    format!("{db}dB")
}

/// What a ratio is written in, as a regular expression for a JSON Schema, and how to say so.
pub const DECIBEL_PATTERN: &str = "^[-+]?[0-9_]+(\\.[0-9_]+)? ?dB$";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decibels_have_a_sign_and_a_unit() {
        for (text, db) in
            [("5dB", 5.0), ("-3 dB", -3.0), ("\u{2212}0.5dB", -0.5), ("+4.25dB", 4.25), ("-0dB", 0.0)]
        {
            let read = decibels(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((read, decibels(&write_decibels(read))), (db, Ok(db)), "{text}");
        }
        for text in ["5", "5dBm", "--5dB", "-+5dB", "dB", "", "201dB", "nan dB", "1e3dB"] {
            assert!(decibels(text).is_err(), "{text}");
        }
    }

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
