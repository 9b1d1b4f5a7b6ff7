//! The generalised Marcum Q function: the probability that a non-central chi-square variable passes a bound.
//!
//! Digham, Alouini and Simon, "On the energy detection of unknown signals over fading channels", 2007, eq.
//! (5): an energy detector that adds up M complex samples finds a signal of M·SNR with P_d = Q_M(√(2·M·SNR),
//! √λ). It is computed as a Poisson mixture of central probabilities (Johnson, Kotz and Balakrishnan, volume
//! 2, (29.2)): every term is positive, so nothing cancels.

use statrs::function::gamma::{gamma_ur, ln_gamma};

/// Probability that a gamma variable of this `shape` and scale 1 is above `x`.
#[must_use]
pub fn gamma_above(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        1.0
    } else if x.is_infinite() {
        0.0
    } else {
        gamma_ur(shape, x).clamp(0.0, 1.0)
    }
}

/// Q_m(a, b) for an order `m` above 0, which need not be whole.
///
/// The absolute error is below 1e-9 for orders up to 1e6.
#[must_use]
pub fn marcum_q(m: f64, a: f64, b: f64) -> f64 {
    let (mean, x) = (a * a / 2.0, b * b / 2.0);
    if mean <= 0.0 || x <= 0.0 {
        return gamma_above(m, x);
    }
    // A Poisson count is more than 12 standard deviations from its mean with less than 1e-15.
    let reach = 12.0 * mean.sqrt() + 30.0;
    let first = (mean - reach).max(0.0).floor();
    let last = (mean + reach).ceil();
    let (mut above, mut sum, mut weights) = (gamma_above(m + first, x), 0.0, 0.0);
    let mut count = first;
    while count <= last {
        let weight = (count * mean.ln() - mean - ln_gamma(count + 1.0)).exp();
        sum += weight * above;
        weights += weight;
        // Q(s + 1, x) = Q(s, x) + x^s e^-x / Γ(s + 1); DLMF (8.8.6).
        let shape = m + count;
        above = (above + (shape * x.ln() - x - ln_gamma(shape + 1.0)).exp()).min(1.0);
        count += 1.0;
    }
    (sum / weights).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q_1 by its integral, ∫ t·exp(-(t² + a²)/2)·I₀(a·t) dt from b: another way than the one above.
    fn by_integral(a: f64, b: f64) -> f64 {
        // e^-z I₀(z) by the trapezoidal rule on its integral, which converges exponentially.
        let bessel = |z: f64| -> f64 {
            let steps = 400;
            (0..steps)
                .map(|step| {
                    (z * ((f64::from(step) + 0.5) * std::f64::consts::PI / f64::from(steps)).cos() - z).exp()
                })
                .sum::<f64>()
                / f64::from(steps)
        };
        let density = |t: f64| t * (-(t - a).powi(2) / 2.0).exp() * bessel(a * t);
        let (steps, width) = (20_000, (a.max(b) + 12.0 - b) / 20_000.0);
        let inner: f64 = (1..steps).map(|step| density(b + f64::from(step) * width)).sum();
        width * (inner + (density(b) + density(b + f64::from(steps) * width)) / 2.0)
    }

    #[test]
    fn order_one_is_its_integral() {
        for a in [0.2, 1.0, 2.0, 5.0] {
            for b in [0.5, 1.0, 3.0, 6.0] {
                let (series, integral) = (marcum_q(1.0, a, b), by_integral(a, b));
                assert!((series - integral).abs() < 2e-8, "Q_1({a}, {b}): {series}, by integral {integral}");
            }
        }
    }

    /// Q_{m+1}(a, b) - Q_m(a, b) = (b/a)^m e^{-(a²+b²)/2} I_m(ab), whose right side for m = 1/2 is
    /// elementary.
    #[test]
    fn half_orders_are_those_of_the_normal_law() {
        // Q_{1/2}(a, b) is the probability that |N(a, 1)| passes b.
        let normal_above = |x: f64| statrs::function::erf::erfc(x / 2f64.sqrt()) / 2.0;
        for (a, b) in [(0.5, 1.0), (2.0, 1.0), (3.0, 5.0), (20.0, 21.0)] {
            let expected = normal_above(b - a) + normal_above(b + a);
            assert!((marcum_q(0.5, a, b) - expected).abs() < 1e-10, "Q_1/2({a}, {b})");
            let step =
                (2.0 / std::f64::consts::PI).sqrt() * (-(a * a + b * b) / 2.0).exp() * (a * b).sinh() / a;
            let next = marcum_q(1.5, a, b) - marcum_q(0.5, a, b);
            assert!((next - step).abs() < 1e-9, "Q_3/2({a}, {b})");
        }
    }

    #[test]
    fn edges_are_probabilities() {
        assert!((marcum_q(1.0, 0.0, 2.0) - (-2f64).exp()).abs() < 1e-14);
        assert!((marcum_q(3.0, 2.0, 0.0) - 1.0).abs() < 1e-14);
        assert!(marcum_q(1e6, 10.0, 1e4) < 1e-9);
        assert!(marcum_q(1e6, 2000.0, 1400.0) > 1.0 - 1e-9);
        // At its median, a variable of a large order is half below.
        let (m, a) = (1e5f64, 100.0f64);
        let near = marcum_q(m, a, (2.0 * m + a * a).sqrt());
        assert!((near - 0.5).abs() < 2e-3, "{near}");
    }
}
