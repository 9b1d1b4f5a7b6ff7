//! Power ratios in decibels.

/// A power ratio in decibels.
#[must_use]
pub fn to_db(ratio: f64) -> f64 {
    10.0 * ratio.log10()
}

/// Decibels as a power ratio.
#[must_use]
pub fn from_db(db: f64) -> f64 {
    10f64.powf(db / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_decibels_are_a_factor_of_two() {
        assert!((from_db(3.0103) - 2.0).abs() < 1e-4 && (to_db(0.5) + 3.0103).abs() < 1e-4);
    }
}
