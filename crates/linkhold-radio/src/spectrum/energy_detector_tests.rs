use proptest::prelude::*;

use super::*;
use crate::rng::Stream;

fn detector(bandwidth: f64, snr: f64) -> EnergyDetector {
    EnergyDetector::new(bandwidth, snr).unwrap()
}

/// Probability that the sum of `2 m` squares of standard normal numbers is above `x`: the tail of the
/// chi-square law, which for an even number of squares is a finite sum (Erlang).
fn chi_square_tail(m: u32, x: f64) -> f64 {
    let half = x / 2.0;
    let mut logarithm = 0.0;
    (0..m)
        .map(|k| {
            if k > 0 {
                logarithm += half.ln() - f64::from(k).ln();
            }
            (logarithm - half).exp()
        })
        .sum()
}

#[test]
fn the_tail_of_the_normal_law_is_that_of_the_tables() {
    // Abramowitz and Stegun, table 26.1, as 1 - P(x).
    for (x, tail) in [
        (0.0, 0.5),
        (0.5, 0.308_537_538_7),
        (1.0, 0.158_655_253_9),
        (1.644_853_626_951, 0.05),
        (1.959_963_984_540, 0.025),
        (2.0, 0.022_750_131_9),
        (3.0, 0.001_349_898_0),
        (-1.0, 0.841_344_746_1),
    ] {
        assert!((q_function(x) - tail).abs() < 1e-9, "Q({x}) = {}", q_function(x));
    }
    assert_eq!((q_function(f64::INFINITY), q_function(f64::NEG_INFINITY)), (0.0, 1.0));
}

#[test]
fn the_thresholds_are_where_the_weighted_densities_are_equal() {
    let density = |y: f64, n: f64, variance: f64| {
        let (mean, width) = (variance, variance * (2.0 / n).sqrt());
        (-0.5 * ((y - mean) / width).powi(2)).exp() / width
    };
    for (bandwidth, snr, on_share) in [(1e3, 0.5, 0.5), (1e4, 0.1, 0.2), (1e4, 0.1, 0.7), (500.0, 2.0, 0.4)] {
        let sensing = Duration::from_millis(50);
        let found = detector(bandwidth, snr);
        let (y, n) = (found.threshold(sensing, on_share), found.samples(sensing));
        let (on, off) = (on_share * density(y, n, 1.0 + snr), (1.0 - on_share) * density(y, n, 1.0));
        assert!(on > 0.0 && (on / off - 1.0).abs() < 1e-6, "{on} {off}");
    }
}

#[test]
fn a_worked_case_by_hand() {
    // W = 1 kHz for 50 ms: n = 100. SNR 1, so g = 2, A = 3/4, B = 1/2, C = 4/100 ln 2 = 0.0277259.
    // y = (0.5 + sqrt(0.25 + 0.0207944)) / 0.75 = 1.3605055.
    let sensing = Duration::from_millis(50);
    let found = detector(1000.0, 1.0);
    assert!((found.threshold(sensing, 0.5) - 1.360_505_5).abs() < 1e-6, "{}", found.threshold(sensing, 0.5));
    // Given ON: Q((0.6802527 - 1) sqrt(50)) = Q(-2.2610) ; given OFF: Q(0.3605055 sqrt(50)) = Q(2.5492).
    let odds = found.odds(sensing, 0.5);
    assert!((odds.detected_given_on - q_function(-2.260_96)).abs() < 1e-5, "{odds:?}");
    assert!((odds.alarm_given_off - q_function(2.549_16)).abs() < 1e-5, "{odds:?}");
    assert!((odds.joint_detection(0.5) - odds.detected_given_on / 2.0).abs() < 1e-15);
    assert!((odds.joint_false_alarm(0.5) - odds.alarm_given_off / 2.0).abs() < 1e-15);
}

#[test]
fn no_time_leaves_what_is_likelier_and_endless_time_makes_sure() {
    let found = detector(6e6, 0.008);
    let nothing = DetectionOdds { detected_given_on: 0.0, alarm_given_off: 0.0 };
    let everything = DetectionOdds { detected_given_on: 1.0, alarm_given_off: 1.0 };
    for sensing in [Duration::ZERO, Duration::from_nanos(80)] {
        assert_eq!(found.odds(sensing, 0.5), nothing);
        assert_eq!(found.odds(sensing, 0.4), nothing);
        assert_eq!(found.odds(sensing, 0.6), everything);
    }
    for on_share in [0.05, 0.5, 0.95] {
        assert_eq!(found.odds(Duration::from_secs(1000), on_share), DetectionOdds::PERFECT);
    }
    // Few samples and a PU that is nearly always on: ON is always said.
    assert_eq!(detector(100.0, 0.1).odds(Duration::from_millis(50), 0.99), everything);
    assert_eq!(found.odds(Duration::from_secs(1), 1.0), everything);
    assert_eq!(found.odds(Duration::from_secs(1), 0.0), nothing);
}

#[test]
fn the_simplified_form_rises_with_the_sensing_time_alone() {
    let at = |millis| SensingModel::SIMPLIFIED.odds(Duration::from_millis(millis));
    let odds: Vec<_> = [1, 5, 25, 100, 200, 1000].map(at).into();
    for pair in odds.windows(2) {
        assert!(pair[1].detected_given_on > pair[0].detected_given_on, "{pair:?}");
        assert!(pair[1].alarm_given_off < pair[0].alarm_given_off, "{pair:?}");
    }
    // 25 ms is 300,000 samples; the means lie 0.0079 apart, and half of that is 1.53 standard deviations.
    let odds = at(25);
    assert!((odds.detected_given_on - q_function(-1.53)).abs() < 0.003, "{odds:?}");
    assert!((odds.alarm_given_off - q_function(1.53)).abs() < 0.003, "{odds:?}");
    assert_eq!(SensingModel::Fixed(DetectionOdds::PERFECT).odds(Duration::ZERO), DetectionOdds::PERFECT);
    let half = PuActivity::new(3.0, 3.0).unwrap();
    let SensingModel::Simplified(found) = SensingModel::SIMPLIFIED else { panic!("it is simplified") };
    assert_eq!(SensingModel::Exact(found, half).odds(Duration::from_millis(25)), at(25));
}

/// Formula, exact law and a detector that samples noise agree.
#[test]
fn a_sampled_detector_has_the_rates_of_the_formula() {
    const TRIALS: u32 = 4000;
    for (index, (bandwidth, snr, on_share)) in
        [(2000.0, 0.5, 0.5), (4000.0, 0.25, 0.5), (2000.0, 0.3, 0.3), (2000.0, 0.3, 0.7)]
            .into_iter()
            .enumerate()
    {
        let sensing = Duration::from_millis(50);
        let found = detector(bandwidth, snr);
        let odds = found.odds(sensing, on_share);
        let (n, threshold) = (found.samples(sensing).round() as u32, found.threshold(sensing, on_share));
        let mut stream = Stream::new(1, "test", index as u64);
        for (variance, formula) in [(1.0 + snr, odds.detected_given_on), (1.0, odds.alarm_given_off)] {
            let above = |stream: &mut Stream| {
                let energy: f64 = (0..n).map(|_| stream.normal().powi(2) * variance).sum();
                energy > threshold * f64::from(n)
            };
            let hits = (0..TRIALS).filter(|_| above(&mut stream)).count() as f64;
            let exact = chi_square_tail(n / 2, threshold * f64::from(n) / variance);
            // Binomial bounds, four standard deviations: fails once in some 16,000 for a right detector.
            let bound = 4.0 * (exact * (1.0 - exact) / f64::from(TRIALS)).sqrt();
            let rate = hits / f64::from(TRIALS);
            assert!((rate - exact).abs() < bound, "{rate} sampled, {exact} exact, bound {bound}");
            // What the normal law neglects: the first term of Edgeworth's series is skew/6 |1 - z^2| phi(z),
            // at most skew/6 * 0.4, with skew sqrt(8/n).
            let skew = (8.0 / f64::from(n)).sqrt() / 6.0 * 0.4;
            assert!(
                (formula - exact).abs() < 1.1 * skew,
                "{formula} by formula, {exact} exact, bound {skew}"
            );
            assert!((rate - formula).abs() < bound + 1.1 * skew, "{rate} sampled, {formula} by formula");
        }
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    for (bandwidth, snr) in [(0.0, 1.0), (f64::NAN, 1.0), (1e3, 0.0), (1e3, -1.0), (1e3, f64::INFINITY)] {
        assert!(EnergyDetector::new(bandwidth, snr).is_err(), "{bandwidth} {snr}");
    }
    for (alpha, beta) in [(0.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
        assert!(PuActivity::new(alpha, beta).is_err(), "{alpha} {beta}");
    }
    let activity = PuActivity::new(0.5, 0.25).unwrap();
    assert_eq!((activity.on_mean(), activity.off_mean()), (Duration::from_secs(2), Duration::from_secs(4)));
    assert!((activity.on_share() - 1.0 / 3.0).abs() < 1e-15);
}

proptest! {
    #[test]
    fn more_time_never_means_more_errors(
        bandwidth in 1e2..1e7_f64, snr in 1e-3..10.0_f64, on_share in 0.05..0.95_f64,
        micros in 100_u64..1_000_000, factor in 1.0..20.0_f64,
    ) {
        let found = detector(bandwidth, snr);
        let short = Duration::from_micros(micros);
        // With few samples the normal approximation is none, and its error is not that of a detector.
        prop_assume!(found.samples(short) >= 50.0);
        let (few, many) = (found.odds(short, on_share), found.odds(short.mul_f64(factor), on_share));
        for odds in [few, many] {
            prop_assert!((0.0..=1.0).contains(&odds.detected_given_on));
            prop_assert!(odds.alarm_given_off >= 0.0 && odds.alarm_given_off <= odds.detected_given_on);
        }
        prop_assert!(many.error(on_share) <= few.error(on_share) + 1e-9, "{:?} {:?}", few, many);
        // MAP is never worse than saying always what is likelier.
        prop_assert!(few.error(on_share) <= on_share.min(1.0 - on_share) + 1e-9, "{:?}", few);
    }

    #[test]
    fn a_stronger_user_is_told_apart_no_worse(
        bandwidth in 1e3..1e7_f64, snr in 1e-3..1.0_f64, on_share in 0.05..0.95_f64, more in 1.0..10.0_f64,
    ) {
        let sensing = Duration::from_millis(100);
        let error = |snr| detector(bandwidth, snr).odds(sensing, on_share).error(on_share);
        prop_assert!(error(snr * more) <= error(snr) + 1e-9);
    }
}
