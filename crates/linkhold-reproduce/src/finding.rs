//! What a measurement says of a claim: the value, its interval, and the criterion that decides.

use linkhold_results::stats::Estimate;

/// The measurement for a claim, and the test that decides whether the claim holds.
pub(crate) struct Finding {
    pub measured: f64,
    pub ci95: Option<[f64; 2]>,
    /// Of how many seeds.
    pub seeds: usize,
    pub test: Test,
}

/// The condition under which a claim holds.
pub(crate) enum Test {
    /// Within a fifth of the paper's number.
    Near,
    /// Not above the paper's number.
    AtMostPaper,
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// At least the one, at most the other.
    Between(f64, f64),
}

impl Test {
    /// Least and greatest value with which the claim holds; `None` if it needs a number that the paper lacks.
    fn bounds(&self, paper: Option<f64>) -> Option<[f64; 2]> {
        match (self, paper) {
            (Self::Near, Some(paper)) => {
                let fifth = 0.2 * paper.abs();
                Some([paper - fifth, paper + fifth])
            }
            (Self::AtMostPaper, Some(paper)) => Some([f64::NEG_INFINITY, paper]),
            (Self::AtLeast(bound), _) => Some([*bound, f64::INFINITY]),
            (Self::AtMost(bound), _) => Some([f64::NEG_INFINITY, *bound]),
            (Self::Between(least, greatest), _) => Some([*least, *greatest]),
            (Self::Near | Self::AtMostPaper, None) => None,
        }
    }
}

impl Finding {
    /// Whether the claim holds; `None` if the interval of the measured value contains a bound of the
    /// criterion, so that it cannot be told, if the value is not a number, or if the paper lacks the number
    /// that the criterion needs.
    ///
    /// The measured value of a single seed decides. Of several seeds it decides nothing where they have no
    /// interval (a statistic that cannot be computed without one of them): but for an infinite value, which
    /// no interval would bring within bounds.
    pub(crate) fn holds(&self, paper: Option<f64>) -> Option<bool> {
        let [least, greatest] = self.test.bounds(paper)?;
        if self.measured.is_nan() {
            return None;
        }
        let undecided = self.seeds > 1 && self.ci95.is_none();
        let [low, high] = self.ci95.unwrap_or([self.measured; 2]);
        if undecided {
            let outside = self.measured < least || greatest < self.measured;
            return (self.measured.is_infinite() && outside).then_some(false);
        }
        if least <= low && high <= greatest {
            Some(true)
        } else if high < least || greatest < low {
            Some(false)
        } else {
            None
        }
    }

    pub(crate) fn criterion(&self, paper: Option<f64>) -> String {
        match self.test {
            _ if self.test.bounds(paper).is_none() => {
                "cannot be judged, because the paper gives no number".to_owned()
            }
            Test::Near => "holds if within 20 % of the paper's number".to_owned(),
            Test::AtMostPaper => "holds if not above the paper's number".to_owned(),
            Test::AtLeast(bound) => format!("holds if at least {bound}"),
            Test::AtMost(bound) => format!("holds if at most {bound}"),
            Test::Between(least, greatest) => format!("holds if from {least} to {greatest}"),
        }
    }
}

/// A mean over the seeds, with Student's interval.
pub(crate) fn of(values: &[f64], test: Test) -> Option<Finding> {
    (!values.is_empty()).then(|| finding(Estimate::of(values), test))
}

/// What `statistic` computes from all seeds (`None`) or from all but one, with the jackknife's interval.
pub(crate) fn over_seeds(
    seeds: usize,
    test: Test,
    statistic: impl Fn(Option<usize>) -> f64,
) -> Option<Finding> {
    (seeds > 0).then(|| finding(Estimate::jackknife(seeds, statistic), test))
}

/// As [`over_seeds`], of a statistic that is a ratio: the interval is that of its logarithm, so that its
/// lower end is never below zero, as in every comparison ([`linkhold_results::stats::paired_ratio`]).
/// A ratio that is not positive, of all seeds or without one of them, has no logarithm: then the interval is
/// the plain one from zero on.
pub(crate) fn ratio_over_seeds(
    seeds: usize,
    test: Test,
    statistic: impl Fn(Option<usize>) -> f64,
) -> Option<Finding> {
    let logarithm = Estimate::jackknife(seeds, |left_out| statistic(left_out).ln());
    let plain = over_seeds(seeds, test, statistic)?;
    let from_zero = |[low, high]: [f64; 2]| [low.max(0.0), high];
    let ci95 = match logarithm.ci95 {
        Some([low, high]) => Some([low.exp(), high.exp()]).filter(|[_, high]| high.is_finite()),
        None => plain.ci95.map(from_zero),
    };
    Some(Finding { ci95, ..plain })
}

fn finding(estimate: Estimate, test: Test) -> Finding {
    // Adding zero turns a negative zero into a positive one.
    Finding { measured: estimate.mean + 0.0, ci95: estimate.ci95, seeds: estimate.n, test }
}

/// The mean of `values` but the one at `left_out`.
pub(crate) fn mean_without(values: &[f64], left_out: Option<usize>) -> f64 {
    let kept =
        values.iter().enumerate().filter(|(index, _)| Some(*index) != left_out).map(|(_, value)| *value);
    mean(&kept.collect::<Vec<_>>())
}

/// Mean over the seeds.
pub(crate) fn mean(values: &[f64]) -> f64 {
    Estimate::of(values).mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(measured: f64, ci95: Option<[f64; 2]>, test: Test, paper: Option<f64>) -> Option<bool> {
        Finding { measured, ci95, seeds: if ci95.is_some() { 3 } else { 1 }, test }.holds(paper)
    }

    #[test]
    fn a_wide_interval_neither_confirms_nor_refutes() {
        // A claim of +10 % that three seeds measure at -18.7 % somehow.
        let wide = Some([-60.0, 23.0]);
        assert_eq!(judged(-18.7, wide, Test::Near, Some(10.0)), None);
        assert_eq!(judged(10.0, wide, Test::Near, Some(10.0)), None, "nor where the mean is right");
        assert_eq!(judged(-18.7, Some([-25.0, -12.0]), Test::Near, Some(10.0)), Some(false));
        assert_eq!(judged(10.5, Some([9.0, 12.0]), Test::Near, Some(10.0)), Some(true));
        assert_eq!(
            judged(-9.0, Some([-11.0, -8.5]), Test::Near, Some(-10.0)),
            Some(true),
            "a negative number"
        );
        assert_eq!(
            judged(10.5, Some([7.9, 11.0]), Test::Near, Some(10.0)),
            None,
            "the lower bound is inside"
        );
    }

    #[test]
    fn a_ratios_interval_is_never_below_zero() {
        // One seed of three carries nearly all: the plain interval would be [-0.4, 2.4] or so.
        let (ours, theirs) = ([1.0, 90.0, 2.0], [40.0, 30.0, 20.0]);
        let ratio = |left_out: Option<usize>| mean_without(&ours, left_out) / mean_without(&theirs, left_out);
        let found = ratio_over_seeds(3, Test::AtLeast(1.0), ratio).unwrap();
        let [low, high] = found.ci95.unwrap();
        assert!(over_seeds(3, Test::AtLeast(1.0), ratio).unwrap().ci95.unwrap()[0] < 0.0);
        assert!(0.0 < low && low < found.measured && found.measured < high, "{low} {high}");
        assert!((low * high / found.measured.powi(2) - 1.0).abs() < 1e-9, "even on a logarithmic scale");
        assert_eq!(found.holds(None), None);

        // Where ours is nothing without the first seed there is no logarithm.
        let ours = [90.0, 0.0, 0.0];
        let ratio = |left_out: Option<usize>| mean_without(&ours, left_out) / mean_without(&theirs, left_out);
        let found = ratio_over_seeds(3, Test::AtLeast(1.0), ratio).unwrap();
        let [low, high] = found.ci95.unwrap();
        assert!(low >= 0.0 && high > 1.0, "{low} {high}");

        let same = ratio_over_seeds(4, Test::Near, |_| 1.75).unwrap();
        assert!(same.ci95.unwrap().iter().all(|end| (end - 1.75).abs() < 1e-12), "no spread, no width");
        assert!(
            ratio_over_seeds(1, Test::Near, |left_out| left_out.map_or(1.75, |_| f64::NAN))
                .unwrap()
                .ci95
                .is_none()
        );
    }

    #[test]
    fn a_bound_decides_where_the_whole_interval_is_on_one_side() {
        for (measured, ci95, at_least, at_most) in [
            (2.0, Some([1.5, 2.5]), Some(true), Some(false)),
            (0.5, Some([0.1, 0.9]), Some(false), Some(true)),
            (1.2, Some([0.8, 1.6]), None, None),
            // A bound belongs to where the claim holds.
            (1.0, Some([1.0, 1.0]), Some(true), Some(true)),
            (2.0, None, Some(true), Some(false)),
            (f64::NAN, None, None, None),
            (f64::INFINITY, None, Some(true), Some(false)),
        ] {
            assert_eq!(judged(measured, ci95, Test::AtLeast(1.0), None), at_least, "{measured} {ci95:?}");
            assert_eq!(judged(measured, ci95, Test::AtMost(1.0), None), at_most, "{measured} {ci95:?}");
        }
        for (measured, ci95, between) in [
            (26.0, Some([20.0, 30.0]), Some(true)),
            (0.0, Some([0.0, 0.0]), Some(false)),
            (1200.0, Some([1000.0, 1400.0]), Some(false)),
            (12.0, Some([5.0, 19.0]), None),
            (990.0, Some([900.0, 1080.0]), None),
        ] {
            assert_eq!(judged(measured, ci95, Test::Between(10.0, 999.0), None), between, "{measured}");
        }
        assert_eq!(judged(0.0, None, Test::AtMostPaper, Some(1.9)), Some(true));
    }

    #[test]
    fn several_seeds_without_an_interval_decide_nothing_but_what_is_infinite() {
        // Without the first seed theirs is nothing, and the ratio infinite.
        let theirs = [5.0, 0.0, 0.0];
        let ratio = |ours: [f64; 3]| {
            move |left_out: Option<usize>| mean_without(&ours, left_out) / mean_without(&theirs, left_out)
        };
        let found = ratio_over_seeds(3, Test::AtLeast(1.0), ratio([9.0, 9.0, 9.0])).unwrap();
        assert_eq!((found.ci95, found.holds(None)), (None, None), "{}", found.measured);
        let most = ratio_over_seeds(3, Test::AtMost(1.0), ratio([9.0, 9.0, 9.0])).unwrap();
        assert_eq!(most.holds(None), None);
        // Theirs is nothing in every seed.
        let infinite = |test| over_seeds(3, test, |_| f64::INFINITY).unwrap();
        assert_eq!(infinite(Test::AtMost(1.0)).holds(None), Some(false));
        assert_eq!(infinite(Test::Near).holds(Some(2.0)), Some(false));
        assert_eq!(infinite(Test::AtLeast(1.0)).holds(None), None);
    }

    #[test]
    fn without_the_papers_number_a_claim_is_neither_confirmed_nor_denied() {
        for test in [Test::Near, Test::AtMostPaper] {
            let found = Finding { measured: 3.0, ci95: Some([2.0, 4.0]), seeds: 3, test };
            assert_eq!(found.holds(None), None);
            assert_eq!(found.criterion(None), "cannot be judged, because the paper gives no number");
            assert!(found.criterion(Some(3.0)).starts_with("holds if "));
        }
        let bound = Finding { measured: 3.0, ci95: None, seeds: 1, test: Test::AtLeast(1.0) };
        assert_eq!((bound.holds(None), bound.criterion(None).as_str()), (Some(true), "holds if at least 1"));
    }
}
