//! Quantities with their unit in the type: bytes, bit rates, probabilities, TCP sequence numbers.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

use crate::time::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// This many bytes less `other`, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Bytes {
    type Output = Self;
    /// Panics in debug builds when `rhs` is larger: an accounting bug of ours, never of the input.
    fn sub(self, rhs: Self) -> Self {
        Self(self.0 - rhs.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, rhs: Self) {
        *self = *self - rhs;
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 1_000 => write!(f, "{n} B"),
            n if n < 1_000_000 => write!(f, "{:.1} kB", n as f64 / 1e3),
            n if n < 1_000_000_000 => write!(f, "{:.1} MB", n as f64 / 1e6),
            n => write!(f, "{:.2} GB", n as f64 / 1e9),
        }
    }
}

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BitRate(pub u64);

impl BitRate {
    /// `mbps` megabits (10^6 bits) per second.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }

    /// Rate in bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded up to the nanosecond; `Duration::MAX` at rate zero.
    #[must_use]
    pub fn time_for(self, bytes: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        match bytes.0.checked_mul(8_000_000_000) {
            Some(bit_nanos) => Duration::from_nanos(bit_nanos.div_ceil(self.0)),
            None => {
                let nanos = (u128::from(bytes.0) * 8_000_000_000).div_ceil(u128::from(self.0));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }

    /// How many whole bytes this rate carries in `time`.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(time.as_nanos()) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// This rate times `factor`; a negative or not-a-number factor gives zero.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 1_000 => write!(f, "{n} bit/s"),
            n if n < 1_000_000 => write!(f, "{:.1} kbit/s", n as f64 / 1e3),
            n if n < 1_000_000_000 => write!(f, "{:.2} Mbit/s", n as f64 / 1e6),
            n => write!(f, "{:.2} Gbit/s", n as f64 / 1e9),
        }
    }
}

/// A number in `[0, 1]`: a probability, an efficiency or a share of time.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Fraction(f64);

/// A number that is not in `[0, 1]` where a [`Fraction`] is wanted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not between 0 and 1")]
pub struct NotAFraction(pub f64);

impl Fraction {
    /// 0
    pub const ZERO: Self = Self(0.0);
    /// 1
    pub const ONE: Self = Self(1.0);

    /// `value` as a fraction.
    ///
    /// # Errors
    /// [`NotAFraction`] when `value` is outside `[0, 1]` or not a number.
    pub fn new(value: f64) -> Result<Self, NotAFraction> {
        if (0.0..=1.0).contains(&value) { Ok(Self(value)) } else { Err(NotAFraction(value)) }
    }

    /// The nearest fraction to `value`; not-a-number becomes 0.
    #[must_use]
    pub fn clamped(value: f64) -> Self {
        if value.is_nan() { Self(0.0) } else { Self(value.clamp(0.0, 1.0)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Fraction {
    type Error = NotAFraction;
    fn try_from(value: f64) -> Result<Self, NotAFraction> {
        Self::new(value)
    }
}

impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> Self {
        fraction.0
    }
}

/// A TCP sequence number: 32 bits, compared modulo 2^32 (RFC 9293 section 3.4).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seq(pub u32);

impl Seq {
    /// True if this number comes before `other` in sequence space.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// True if this number comes after `other` in sequence space.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// Signed distance from `other` to this number, in bytes.
    #[must_use]
    pub const fn minus(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The later of the two in sequence space.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of the two in sequence space.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, rhs: u32) -> Self {
        Self(self.0.wrapping_add(rhs))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, rhs: u32) {
        *self = *self + rhs;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, rhs: u32) -> Self {
        Self(self.0.wrapping_sub(rhs))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seq({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_compare_across_the_wrap() {
        let before = Seq(u32::MAX - 5);
        let after = before + 10;
        assert!(before.before(after) && after.after(before) && !after.before(before));
        assert_eq!(after.minus(before), 10);
        assert_eq!(before.max(after), after);
        assert_eq!(before.min(after), before);
    }

    #[test]
    fn a_packet_takes_its_serialisation_time() {
        assert_eq!(BitRate::from_mbps(24).time_for(Bytes(1500)), Duration::from_micros(500));
        assert_eq!(BitRate(0).time_for(Bytes(1)), Duration::MAX);
        assert_eq!(BitRate(1).time_for(Bytes(u64::MAX)), Duration::MAX);
        assert_eq!(BitRate::from_mbps(24).bytes_in(Duration::from_micros(500)), Bytes(1500));
    }

    #[test]
    fn a_fraction_is_between_zero_and_one() {
        assert!(
            Fraction::new(1.01).is_err() && Fraction::new(-0.1).is_err() && Fraction::new(f64::NAN).is_err()
        );
        assert_eq!(Fraction::clamped(7.0), Fraction::ONE);
    }
}
