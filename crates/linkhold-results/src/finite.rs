//! Serde helper: a number that is not finite is written as JSON `null` and read back as not-a-number.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes `value`, or `null` if it is infinite or not a number.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

/// Reads a number; `null` becomes not-a-number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// The number of a key that an older version did not write: not-a-number.
pub const fn missing() -> f64 {
    f64::NAN
}

/// As the parent module, for a number that may be missing.
pub mod option {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the number, or `null` if it is missing, infinite or not a number.
    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.filter(|v| v.is_finite()).serialize(serializer)
    }

    /// Reads a number or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Option::<f64>::deserialize(deserializer)
    }
}

/// As the parent module, for an interval: `null` unless both ends are finite.
pub mod interval {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes `[low, high]`, or `null` if it is missing or an end is not finite.
    pub fn serialize<S: Serializer>(value: &Option<[f64; 2]>, serializer: S) -> Result<S::Ok, S::Error> {
        value.filter(|ends| ends.iter().all(|v| v.is_finite())).serialize(serializer)
    }

    /// Reads `[low, high]` or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[f64; 2]>, D::Error> {
        Option::<[f64; 2]>::deserialize(deserializer)
    }
}
