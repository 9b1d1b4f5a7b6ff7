//! Quantities with their unit in the configuration file: `25ms`, `24Mbit/s`, `64MB`, and how serde reads them.
//!
//! Read exactly (no floating point), as in scenario files.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

const TIME_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const RATE_UNITS: &[(&str, u64)] =
    &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
const BYTE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

fn parse(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, String> {
    let right = || format!("write a number and its unit, such as \"{example}\"");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || whole.len() + fraction.len() > 20 {
        return Err(format!("\"{}\" is no quantity; {}", text.escape_debug(), right()));
    }
    let Some((_, size)) = units.iter().find(|(name, _)| *name == unit.trim()) else {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "\"{}\" has none of the units {}; {}",
            text.escape_debug(),
            names.join(", "),
            right()
        ));
    };
    let digits: u128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| format!("\"{}\" is no quantity; {}", text.escape_debug(), right()))?;
    // At most 20 digits: the scale fits 128 bits.
    let scale = 10u128.pow(fraction.len() as u32);
    u64::try_from((digits * u128::from(*size) + scale / 2) / scale)
        .map_err(|_| format!("\"{}\" is too large", text.escape_debug()))
}

/// Reads `500ms`.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    parse(text, TIME_UNITS, "25ms").map(Duration::from_nanos)
}

/// Reads `24Mbit/s`.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse_bit_rate(text: &str) -> Result<BitRate, String> {
    parse(text, RATE_UNITS, "24Mbit/s").map(BitRate)
}

/// Reads `64MB`.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse_bytes(text: &str) -> Result<Bytes, String> {
    parse(text, BYTE_UNITS, "64MB").map(Bytes)
}

/// For `#[serde(deserialize_with)]`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// For `#[serde(deserialize_with)]`, beside `default`.
pub(super) fn some_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

/// For `#[serde(deserialize_with)]`.
pub(super) fn bit_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BitRate, D::Error> {
    parse_bit_rate(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// For `#[serde(deserialize_with)]`, beside `default`.
pub(super) fn some_bit_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BitRate>, D::Error> {
    bit_rate(deserializer).map(Some)
}

/// For `#[serde(deserialize_with)]`, beside `default`.
pub(super) fn some_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    parse_bytes(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        assert_eq!(parse_duration("0.1s"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_duration("25 ms"), Ok(Duration::from_millis(25)));
        assert_eq!(parse_bit_rate("1.5Mbit/s"), Ok(BitRate(1_500_000)));
        assert_eq!(parse_bytes("256KiB"), Ok(Bytes(262_144)));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_an_example() {
        for text in ["", "25", "ms", "-1s", "1.2.3s", "1e9s", "25 lightyears", "999999999999999999999999s"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("25ms"), "{text}: {error}");
        }
        assert_eq!(parse_duration("99999999999999h").unwrap_err(), "\"99999999999999h\" is too large");
    }
}
