//! How serde reads quantities with their unit in the configuration file: `25ms`, `24Mbit/s`, `64MB`, as in scenario files.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes};
use linkhold_scenario::units::{self, QuantityError};
use serde::de::{Deserialize, Deserializer, Error};

pub(super) trait Quantity: Sized {
    fn read(text: &str) -> Result<Self, QuantityError>;
}

impl Quantity for Duration {
    fn read(text: &str) -> Result<Self, QuantityError> {
        units::duration(text)
    }
}

impl Quantity for BitRate {
    fn read(text: &str) -> Result<Self, QuantityError> {
        units::bit_rate(text)
    }
}

impl Quantity for Bytes {
    fn read(text: &str) -> Result<Self, QuantityError> {
        units::bytes(text)
    }
}

/// For `#[serde(deserialize_with)]`.
pub(super) fn required<'de, D: Deserializer<'de>, T: Quantity>(deserializer: D) -> Result<T, D::Error> {
    T::read(&String::deserialize(deserializer)?).map_err(Error::custom)
}

/// For `#[serde(deserialize_with)]`, beside `default`.
pub(super) fn optional<'de, D: Deserializer<'de>, T: Quantity>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    required(deserializer).map(Some)
}
