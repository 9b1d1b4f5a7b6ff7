//! Packet error rates looked up instead of computed: what a frame asks on its way.
//!
//! Sees an SNR in dB and a length; [`PhyRate`] has the formulas. A curve is the logarithm of a bit's failure
//! (−ln of its success) every 1/32 dB, and straight between two points: within 1e-4 of the formula's packet
//! error rate (tested). Each rate's curve is made once in a process.

use std::sync::OnceLock;

use crate::snr::per::PhyRate;

/// The curve's first point, dB. Below it nothing gets through at any rate.
const FROM_DB: f64 = -20.0;
/// The curve's last point, dB. From there on every rate works.
const TO_DB: f64 = 40.0;
/// Points in a dB.
const PER_DB: f64 = 32.0;
/// Bounds of what is kept, so that no point is infinite: a bit is wrong almost surely, or almost never.
const WORST: f64 = 10.0;
const BEST: f64 = -100.0;

/// The error rates of one [`PhyRate`].
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    points: &'static [f64],
}

impl Curve {
    /// The curve of `rate`.
    #[must_use]
    pub fn of(rate: PhyRate) -> Self {
        static CURVES: [OnceLock<Box<[f64]>>; PhyRate::ALL.len()] =
            [const { OnceLock::new() }; PhyRate::ALL.len()];
        Self { points: CURVES[rate as usize].get_or_init(|| points(rate)) }
    }

    /// The probability that a frame of `bits` bits has an error at an SNR of `snr_db` dB.
    #[must_use]
    pub fn packet_error_rate(&self, snr_db: f64, bits: u32) -> f64 {
        // Not a number is read as the worst SNR.
        let db = if snr_db.is_nan() { FROM_DB } else { snr_db.clamp(FROM_DB, TO_DB) };
        let place = (db - FROM_DB) * PER_DB;
        let index = place as usize;
        let (Some(&low), high) = (self.points.get(index), self.points.get(index + 1)) else { return 0.0 };
        let high = high.copied().unwrap_or(low);
        let ln_failure = low + (high - low) * place.fract();
        -(-f64::from(bits) * ln_failure.exp()).exp_m1()
    }
}

fn points(rate: PhyRate) -> Box<[f64]> {
    let count = ((TO_DB - FROM_DB) * PER_DB) as u32;
    let at = |index: u32| {
        let db = FROM_DB + f64::from(index) / PER_DB;
        (-rate.ln_bit_success(10f64.powf(db / 10.0))).ln().clamp(BEST, WORST)
    };
    (0..=count).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_within_a_ten_thousandth_of_its_formula() {
        for rate in PhyRate::ALL {
            let curve = Curve::of(rate);
            for step in 0..1500 {
                let db = -8.0 + f64::from(step) * 0.0231;
                for bits in [320, 8_000, 12_000] {
                    let (ours, formula) =
                        (curve.packet_error_rate(db, bits), rate.packet_error_rate(db, bits));
                    assert!((ours - formula).abs() < 1e-4, "{} at {db} dB: {ours}, {formula}", rate.name());
                }
            }
        }
    }

    #[test]
    fn beyond_its_ends_a_curve_goes_on_as_it_ends() {
        let curve = Curve::of(PhyRate::Cck5);
        assert_eq!(curve.packet_error_rate(f64::NEG_INFINITY, 8_000), 1.0);
        assert_eq!(curve.packet_error_rate(f64::NAN, 8_000), 1.0);
        assert!(curve.packet_error_rate(f64::INFINITY, 8_000) < 1e-30);
        assert_eq!(curve.packet_error_rate(3.0, 0), 0.0);
    }
}
