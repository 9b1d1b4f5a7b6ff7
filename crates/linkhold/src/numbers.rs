//! Numbers among the arguments.

use std::ops::RangeInclusive;

/// Reads a whole number within `range`. What clap says of one that is not whole would not say what is right.
pub fn whole<T: TryFrom<u64> + 'static>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("write a whole number from {} to {}", range.start(), range.end()))
    }
}
