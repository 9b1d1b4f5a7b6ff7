//! What was measured for a claim, and the test that decides whether the claim holds.
//!
//! Each claim has a criterion: where the measured value must lie for the claim to hold. A claim is undecided
//! where the 95 % interval of the measured value reaches from where the claim holds to where it does not. The
//! interval is Student's for a mean over the seeds, and the jackknife's for what is computed from several
//! means.

use linkhold_results::stats::Estimate;

/// The measurement for a claim, and the test that decides whether the claim holds.
pub(crate) struct Finding {
    pub measured: f64,
    pub ci95: Option<[f64; 2]>,
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
            (Self::Near | Self::AtMostPaper, None) => None,
        }
    }
}

impl Finding {
    /// Whether the claim holds; `None` if the interval of the measured value contains a bound of the
    /// criterion, so that it cannot be told. Without an interval the measured value decides.
    pub(crate) fn holds(&self, paper: Option<f64>) -> Option<bool> {
        let Some([least, greatest]) = self.test.bounds(paper) else { return Some(false) };
        let [low, high] = self.ci95.unwrap_or([self.measured; 2]);
        if least <= low && high <= greatest {
            Some(true)
        } else if high < least || greatest < low || !self.measured.is_finite() {
            Some(false)
        } else {
            None
        }
    }

    pub(crate) fn criterion(&self) -> String {
        match self.test {
            Test::Near => "holds if within 20 % of the paper's number".to_owned(),
            Test::AtMostPaper => "holds if not above the paper's number".to_owned(),
            Test::AtLeast(bound) => format!("holds if at least {bound}"),
            Test::AtMost(bound) => format!("holds if at most {bound}"),
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

fn finding(estimate: Estimate, test: Test) -> Finding {
    // Adding zero turns a negative zero into a positive one.
    Finding { measured: estimate.mean + 0.0, ci95: estimate.ci95, test }
}

/// The mean of `values` but the one at `left_out`.
pub(crate) fn mean_without(values: &[f64], left_out: Option<usize>) -> f64 {
    let kept =
        values.iter().enumerate().filter(|(index, _)| Some(*index) != left_out).map(|(_, value)| *value);
    mean(&kept.collect::<Vec<_>>())
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    Estimate::of(values).mean
}
