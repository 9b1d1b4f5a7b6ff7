//! How much of a transmitter's power arrives: the generalised free-space model, and the threshold of being
//! heard.
//!
//! Source: crahn, section 4.3, equations (1) and (2): P_r = P_t / d^a * k, heard if P_r >= P_th.
//!
//! Below one metre the law would give more power than was sent; there the distance counts as one metre. The
//! paper names neither `a` nor a threshold, but ranges (250 m for a CRU, 500 m for a PU, table 1), so a
//! threshold is made from a range. The attenuation factor of 4 that stands as default is that of ns-2's
//! two-ray model far out; our choice, since with thresholds from ranges it decides only how interference
//! falls off.

/// The path loss law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Propagation {
    attenuation: f64,
}

/// An attenuation factor that no place has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("an attenuation factor of {0} is out of range (1 to 8)")]
pub struct NoSuchAttenuation(pub f64);

impl Default for Propagation {
    fn default() -> Self {
        Self { attenuation: 4.0 }
    }
}

impl Propagation {
    /// The law with attenuation factor `attenuation` (the paper's a).
    ///
    /// # Errors
    /// [`NoSuchAttenuation`] if it is not from 1 to 8.
    pub fn new(attenuation: f64) -> Result<Self, NoSuchAttenuation> {
        if (1.0..=8.0).contains(&attenuation) {
            Ok(Self { attenuation })
        } else {
            Err(NoSuchAttenuation(attenuation))
        }
    }

    /// The attenuation factor.
    #[must_use]
    pub const fn attenuation(self) -> f64 {
        self.attenuation
    }

    /// Equation (2): what arrives, W, of `power` W over `distance` m on a channel with overlap factor
    /// `overlap`.
    #[must_use]
    pub fn received(self, power: f64, distance: f64, overlap: f64) -> f64 {
        // `max` also takes 1 for a distance that is not a number.
        power / libm::pow(distance.max(1.0), self.attenuation) * overlap
    }

    /// The threshold P_th of equation (1), W, with which `power` W is heard as far as `range` m.
    #[must_use]
    pub fn threshold(self, power: f64, range: f64) -> f64 {
        self.received(power, range, 1.0)
    }

    /// How far `power` W is heard with the threshold `threshold` W, m, at overlap factor `overlap`; at
    /// least 1.
    #[must_use]
    pub fn range(self, power: f64, threshold: f64, overlap: f64) -> f64 {
        libm::pow(power * overlap / threshold, 1.0 / self.attenuation).max(1.0)
    }
}

/// Equation (1): whether what arrives is enough.
#[must_use]
pub fn is_heard(received: f64, threshold: f64) -> bool {
    received >= threshold
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn power_falls_with_the_distance_to_the_power_of_a() {
        let free_space = Propagation::new(2.0).unwrap();
        for (distance, overlap, expected) in
            [(10.0, 1.0, 0.01), (10.0, 0.5, 0.005), (100.0, 1.0, 1e-4), (1.0, 1.0, 1.0), (0.0, 0.25, 0.25)]
        {
            let received = free_space.received(1.0, distance, overlap);
            assert!((received / expected - 1.0).abs() < 1e-12, "{distance}: {received}");
        }
        assert_eq!(free_space.received(0.3, 0.1, 1.0), 0.3, "no more arrives than was sent");
        assert_eq!(free_space.received(0.3, f64::NAN, 1.0), 0.3);
    }

    #[test]
    fn the_papers_ranges_are_heard_to_the_metre() {
        let law = Propagation::default();
        for (power, range) in [(0.2818, 250.0), (1.0, 500.0)] {
            let threshold = law.threshold(power, range);
            let heard = |distance| is_heard(law.received(power, distance, 1.0), threshold);
            assert!(heard(range) && heard(range - 0.001) && !heard(range + 0.001));
            // A channel that gets half the power hears it 2^(1/4) less far.
            let half = law.range(power, threshold, 0.5);
            assert!((half / range - 0.5_f64.powf(0.25)).abs() < 1e-12, "{half}");
        }
    }

    #[test]
    fn an_attenuation_out_of_range_is_refused() {
        for attenuation in [0.5, 9.0, f64::NAN, f64::INFINITY, -2.0] {
            assert!(Propagation::new(attenuation).is_err());
        }
    }

    proptest! {
        #[test]
        fn nearer_is_never_weaker(
            a in 1.0..8.0, power in 1e-6..1e3, near in 0.0..1e4, more in 0.0..1e4, overlap in 0.0..=1.0,
        ) {
            let law = Propagation::new(a).unwrap();
            let (strong, weak) = (law.received(power, near, overlap), law.received(power, near + more, overlap));
            prop_assert!(strong >= weak && strong <= power && weak >= 0.0);
        }
    }
}
