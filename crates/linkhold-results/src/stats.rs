//! Means, 95 % confidence intervals, and comparisons of one case with another, paired by seed.
//!
//! Intervals of means are Student's: mean ± t(0.975, n − 1) · s / √n, with s the sample standard deviation.
//! With fewer than two seeds there is no interval.
//!
//! **Case against baseline.** Every case sees the same random radio, so seed i gives a pair (x_i, y_i). The
//! ratio reported is that of the means, R = ȳ / x̄. Its variance is the classical one of a ratio estimator
//! (Cochran, "Sampling Techniques", section 6.3; a first-order expansion): with residuals d_i = y_i − R·x_i,
//! which sum to zero, Var(R) ≈ Σ d_i² / ((n − 1) · n · x̄²). What is particular to a seed is in both x_i and
//! y_i and cancels in d_i, so differences between seeds do not hide an effect that every seed shows.
//!
//! The interval is taken of ln R, whose standard deviation is √Var(R) / R to first order, and carried back: R
//! · exp(± t(0.975, n − 1) · √Var(R) / R). A ratio of two positive quantities is skewed to the right, and its
//! logarithm much less (Katz et al., "Obtaining confidence intervals for the risk ratio in cohort studies",
//! Biometrics 34, 1978, take the interval of a ratio so). R ± t · √Var(R) would reach below zero, where no
//! ratio can be; Fieller's interval ("Some problems in interval estimation", J. R. Stat. Soc. B 16, 1954) is
//! exact for normal values, but has no end where x̄ is within its own interval of zero.
//!
//! **Any other statistic of the seeds**, such as a ratio of ratios, gets its interval by the jackknife
//! ([`Estimate::jackknife`]).

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::record::{CompareRow, RunRecord, RunTotals};

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of values.
    pub n: usize,
    /// Their mean; not-a-number without values.
    pub mean: f64,
    /// Sample standard deviation; not-a-number with fewer than two values.
    pub std: f64,
    /// 95 % confidence interval of the mean; `None` with fewer than two values, or where an end of it is no
    /// finite number.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// The estimate from `values`.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let std = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0)).sqrt();
        let std = if n < 2 { f64::NAN } else { std };
        let ci95 = t_quantile_975(n).and_then(|t| around(mean, t * std / (n as f64).sqrt()));
        Self { n, mean, std, ci95 }
    }

    /// The estimate of any `statistic` of `n` repetitions, which it computes from all of them (`None`) or
    /// from all but one (`Some(index)`).
    ///
    /// The interval is the statistic ± t(0.975, n − 1) · √((n − 1)/n · Σ (s_i − s̄)²), with s_i the statistic
    /// without repetition i (Tukey's jackknife; Efron and Tibshirani, "An Introduction to the Bootstrap",
    /// chapter 11). For a mean that is Student's interval. `None` with fewer than two repetitions, or where
    /// leaving one out leaves nothing to compute.
    #[must_use]
    pub fn jackknife(n: usize, statistic: impl Fn(Option<usize>) -> f64) -> Self {
        let value = statistic(None);
        let partial: Vec<f64> = (0..n).map(|left_out| statistic(Some(left_out))).collect();
        let centre = partial.iter().sum::<f64>() / n as f64;
        let squares: f64 = partial.iter().map(|v| (v - centre).powi(2)).sum();
        let error = ((n as f64 - 1.0) / n as f64 * squares).sqrt();
        let ci95 = t_quantile_975(n).and_then(|t| around(value, t * error));
        let std = if ci95.is_some() { error * (n as f64).sqrt() } else { f64::NAN };
        Self { n, mean: value, std, ci95 }
    }

    /// Half the width of the interval.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        self.ci95.map(|[low, high]| (high - low) / 2.0)
    }
}

/// The interval of this half width, if both of its ends are finite.
fn around(middle: f64, half: f64) -> Option<[f64; 2]> {
    let ends = [middle - half, middle + half];
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}

/// The 97.5 % quantile of Student's t with `n − 1` degrees of freedom; `None` below two values.
fn t_quantile_975(n: usize) -> Option<f64> {
    if n < 2 {
        return None;
    }
    StudentsT::new(0.0, 1.0, (n - 1) as f64).ok().map(|t| t.inverse_cdf(0.975))
}

/// What is smaller than this share of a value is its rounding.
pub(crate) const ROUNDING: f64 = 1e-9;

/// The ratio of the means of `(baseline, value)` pairs and its 95 % interval (see the module), whose lower
/// end is never below zero. `None` if the baseline's mean is zero or not finite. A ratio that is not positive
/// has an interval only if no pair differs from it.
#[must_use]
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<(f64, Option<[f64; 2]>)> {
    let n = pairs.len() as f64;
    let base = pairs.iter().map(|(x, _)| x).sum::<f64>() / n;
    let value = pairs.iter().map(|(_, y)| y).sum::<f64>() / n;
    let ratio = value / base;
    if !ratio.is_finite() {
        return None;
    }
    let ci95 = t_quantile_975(pairs.len()).and_then(|t| {
        let residuals: f64 = pairs.iter().map(|(x, y)| (y - ratio * x).powi(2)).sum();
        // Seeds that gave the same run differ by the rounding of `ratio * x` at most.
        let values: f64 = pairs.iter().map(|(_, y)| y.powi(2)).sum();
        if residuals.sqrt() <= ROUNDING * values.sqrt() {
            return Some([ratio, ratio]);
        }
        let deviation = (residuals / ((n - 1.0) * n)).sqrt() / base.abs();
        let factor = (t * deviation / ratio).exp();
        (ratio > 0.0 && factor.is_finite()).then(|| [ratio / factor, ratio * factor])
    });
    Some((ratio, ci95))
}

/// The value that a share `q` of the values does not exceed (nearest rank); not-a-number without values.
/// Sorts `values`.
#[must_use]
pub fn percentile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (q.clamp(0.0, 1.0) * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// A number in which cases are compared: a key of [`RunTotals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// `goodput_bps`
    Goodput,
    /// `limit_share`
    LimitShare,
    /// `retransmit_bps`
    RetransmitRate,
    /// `retransmits`
    Retransmits,
    /// `rto_events`
    RtoEvents,
    /// `delay_mean_s`
    DelayMean,
    /// `delay_std_s`
    DelayStd,
    /// `delay_p50_s`
    DelayP50,
    /// `delay_p95_s`
    DelayP95,
    /// `delay_p99_s`
    DelayP99,
    /// `delay_p50_outside_silence_s`
    DelayP50OutsideSilence,
    /// `delay_p95_outside_silence_s`
    DelayP95OutsideSilence,
    /// `delay_p99_outside_silence_s`
    DelayP99OutsideSilence,
    /// `queueing_delay_p50_s`
    QueueingDelayP50,
    /// `queueing_delay_p95_s`
    QueueingDelayP95,
    /// `queueing_delay_p99_s`
    QueueingDelayP99,
    /// `jain_index`
    JainIndex,
    /// `completion_mean_s`
    CompletionMean,
}

impl Metric {
    /// Every metric, in the order of the report.
    pub const ALL: [Self; 18] = [
        Self::Goodput,
        Self::LimitShare,
        Self::RetransmitRate,
        Self::Retransmits,
        Self::RtoEvents,
        Self::DelayMean,
        Self::DelayStd,
        Self::DelayP50,
        Self::DelayP95,
        Self::DelayP99,
        Self::DelayP50OutsideSilence,
        Self::DelayP95OutsideSilence,
        Self::DelayP99OutsideSilence,
        Self::QueueingDelayP50,
        Self::QueueingDelayP95,
        Self::QueueingDelayP99,
        Self::JainIndex,
        Self::CompletionMean,
    ];

    /// The key in [`RunTotals`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_bps",
            Self::LimitShare => "limit_share",
            Self::RetransmitRate => "retransmit_bps",
            Self::Retransmits => "retransmits",
            Self::RtoEvents => "rto_events",
            Self::DelayMean => "delay_mean_s",
            Self::DelayStd => "delay_std_s",
            Self::DelayP50 => "delay_p50_s",
            Self::DelayP95 => "delay_p95_s",
            Self::DelayP99 => "delay_p99_s",
            Self::DelayP50OutsideSilence => "delay_p50_outside_silence_s",
            Self::DelayP95OutsideSilence => "delay_p95_outside_silence_s",
            Self::DelayP99OutsideSilence => "delay_p99_outside_silence_s",
            Self::QueueingDelayP50 => "queueing_delay_p50_s",
            Self::QueueingDelayP95 => "queueing_delay_p95_s",
            Self::QueueingDelayP99 => "queueing_delay_p99_s",
            Self::JainIndex => "jain_index",
            Self::CompletionMean => "completion_mean_s",
        }
    }

    /// The unit; empty for a bare number.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Goodput | Self::RetransmitRate => "bit/s",
            Self::DelayMean
            | Self::DelayStd
            | Self::DelayP50
            | Self::DelayP95
            | Self::DelayP99
            | Self::DelayP50OutsideSilence
            | Self::DelayP95OutsideSilence
            | Self::DelayP99OutsideSilence
            | Self::QueueingDelayP50
            | Self::QueueingDelayP95
            | Self::QueueingDelayP99
            | Self::CompletionMean => "s",
            Self::LimitShare | Self::Retransmits | Self::RtoEvents | Self::JainIndex => "",
        }
    }

    /// The value of one run; not-a-number if the run has none.
    #[must_use]
    pub fn of(self, totals: &RunTotals) -> f64 {
        match self {
            Self::Goodput => totals.goodput_bps,
            Self::LimitShare => totals.limit_share,
            Self::RetransmitRate => totals.retransmit_bps,
            Self::Retransmits => totals.retransmits as f64,
            Self::RtoEvents => totals.rto_events.map_or(f64::NAN, |count| count as f64),
            Self::DelayMean => totals.delay_mean_s,
            Self::DelayStd => totals.delay_std_s,
            Self::DelayP50 => totals.delay_p50_s,
            Self::DelayP95 => totals.delay_p95_s,
            Self::DelayP99 => totals.delay_p99_s,
            Self::DelayP50OutsideSilence => totals.delay_p50_outside_silence_s,
            Self::DelayP95OutsideSilence => totals.delay_p95_outside_silence_s,
            Self::DelayP99OutsideSilence => totals.delay_p99_outside_silence_s,
            Self::QueueingDelayP50 => totals.queueing_delay_p50_s,
            Self::QueueingDelayP95 => totals.queueing_delay_p95_s,
            Self::QueueingDelayP99 => totals.queueing_delay_p99_s,
            Self::JainIndex => totals.jain_index,
            Self::CompletionMean => totals.completion_mean_s.unwrap_or(f64::NAN),
        }
    }
}

/// The estimate of `metric` over the runs of `case`.
#[must_use]
pub fn estimate(runs: &[RunRecord], case: &str, metric: Metric) -> Estimate {
    let values: Vec<f64> = runs
        .iter()
        .filter(|run| run.case == case)
        .map(|run| metric.of(&run.totals))
        .filter(|value| value.is_finite())
        .collect();
    Estimate::of(&values)
}

/// Compares every case but the `baseline` with it, in every metric that both have, paired by seed. The first
/// case is the baseline if none is named; there are no rows if no run is of that case.
#[must_use]
pub fn compare(runs: &[RunRecord], baseline: Option<&str>) -> Vec<CompareRow> {
    let mut cases: Vec<&str> = Vec::new();
    for run in runs {
        if !cases.contains(&run.case.as_str()) {
            cases.push(&run.case);
        }
    }
    let Some(baseline) = baseline.or(cases.first().copied()) else { return Vec::new() };
    let mut rows = Vec::new();
    for case in cases.into_iter().filter(|case| *case != baseline) {
        rows.extend(Metric::ALL.iter().filter_map(|&metric| compare_one(runs, baseline, case, metric)));
    }
    rows
}

fn compare_one(runs: &[RunRecord], baseline: &str, case: &str, metric: Metric) -> Option<CompareRow> {
    let pairs: Vec<(f64, f64)> = runs
        .iter()
        .filter(|run| run.case == baseline)
        .filter_map(|base| {
            let run = runs.iter().find(|run| run.case == case && run.seed == base.seed)?;
            let pair = (metric.of(&base.totals), metric.of(&run.totals));
            (pair.0.is_finite() && pair.1.is_finite()).then_some(pair)
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let n = pairs.len() as f64;
    let ratio = paired_ratio(&pairs);
    Some(CompareRow {
        case: case.to_owned(),
        baseline: baseline.to_owned(),
        metric: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        baseline_value: pairs.iter().map(|(x, _)| x).sum::<f64>() / n,
        value: pairs.iter().map(|(_, y)| y).sum::<f64>() / n,
        ratio: ratio.map(|(ratio, _)| ratio),
        ci95: ratio.and_then(|(_, ci95)| ci95),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::jain_index;

    /// Normal values. A linear congruential generator (Numerical Recipes) is enough here, and it is
    /// deterministic.
    fn normals(mut state: u32) -> impl FnMut() -> f64 {
        let mut uniform = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24)
        };
        move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }

    #[test]
    fn the_interval_is_students() {
        // t(0.975, 9) = 2.262157 (any table); values 1..=10: mean 5.5, s = 3.02765.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let estimate = Estimate::of(&values);
        let [low, high] = estimate.ci95.unwrap();
        assert!((estimate.mean - 5.5).abs() < 1e-12);
        assert!((high - 5.5 - 2.262_157 * 3.027_650_35 / 10_f64.sqrt()).abs() < 1e-5);
        assert!((high + low - 11.0).abs() < 1e-12);
        // t(0.975, 1) = 12.7062.
        assert!((Estimate::of(&[0.0, 2.0]).half_width().unwrap() - 12.7062).abs() < 1e-3);
    }

    #[test]
    fn one_value_has_no_interval_and_none_has_no_mean() {
        let one = Estimate::of(&[3.0]);
        assert_eq!((one.mean, one.ci95), (3.0, None));
        assert!(one.std.is_nan() && Estimate::of(&[]).mean.is_nan());
        assert_eq!(paired_ratio(&[(2.0, 3.0)]), Some((1.5, None)));
    }

    #[test]
    fn what_is_too_large_to_compute_with_has_no_interval() {
        for values in [[1e308, 1e308], [1e308, -1e308], [f64::INFINITY, 1.0], [f64::NAN, 1.0]] {
            assert_eq!(Estimate::of(&values).ci95, None, "{values:?}");
        }
        // Without the first repetition there is nothing to compute, or too much.
        for partial in [f64::NAN, f64::INFINITY, 1e308] {
            let statistic = |left_out: Option<usize>| if left_out == Some(0) { partial } else { -1e308 };
            assert_eq!(Estimate::jackknife(3, statistic).ci95, None, "{partial}");
        }
    }

    #[test]
    fn an_effect_equal_in_every_seed_is_certain_however_much_seeds_differ() {
        let pairs = [(1.0, 1.2), (10.0, 12.0), (100.0, 120.0)];
        let (ratio, ci95) = paired_ratio(&pairs).unwrap();
        let [low, high] = ci95.unwrap();
        assert!((ratio - 1.2).abs() < 1e-12 && high - low < 1e-9);
    }

    #[test]
    fn the_paired_interval_covers_the_true_ratio_as_often_as_it_says() {
        let mut normal = normals(1);
        let trials = 4000;
        let mut covered = 0;
        for _ in 0..trials {
            let pairs: Vec<(f64, f64)> = (0..10)
                .map(|_| {
                    let x = 10.0 + normal();
                    (x, 1.3 * x + 0.5 * normal())
                })
                .collect();
            let [low, high] = paired_ratio(&pairs).unwrap().1.unwrap();
            covered += i32::from(low <= 1.3 && 1.3 <= high);
        }
        let share = f64::from(covered) / f64::from(trials);
        assert!((0.935..0.965).contains(&share), "{share}");
    }

    #[test]
    fn the_interval_of_a_ratio_never_reaches_below_zero_and_covers_skewed_values() {
        // Three seeds of a baseline that nearly starves: R ± t · √Var(R) would reach from -3 to 11.
        let pairs = [(0.2, 3.1), (1.9, 3.4), (0.3, 3.2)];
        let (ratio, ci95) = paired_ratio(&pairs).unwrap();
        let [low, high] = ci95.unwrap();
        assert!(0.0 < low && low < ratio && ratio < high, "{low} {ratio} {high}");
        assert!((low * high - ratio * ratio).abs() < 1e-9, "symmetric as a factor");
        // Without values of its own a case has nothing to take the logarithm of.
        assert_eq!(paired_ratio(&[(1.0, 0.0), (2.0, 0.0)]), Some((0.0, Some([0.0, 0.0]))));

        let mut normal = normals(7);
        let trials = 4000;
        let mut covered = 0;
        for _ in 0..trials {
            // Both are lognormal with the same mean, so that the true ratio is 1.
            let pairs: Vec<(f64, f64)> =
                (0..5).map(|_| ((0.5 * normal()).exp(), (0.5 * normal()).exp())).collect();
            let [low, high] = paired_ratio(&pairs).unwrap().1.unwrap();
            covered += i32::from(low <= 1.0 && 1.0 <= high);
        }
        let share = f64::from(covered) / f64::from(trials);
        assert!((0.93..0.98).contains(&share), "{share}");
    }

    #[test]
    fn the_jackknife_of_a_mean_is_students_interval() {
        let values = [3.0, 4.5, 9.0, 1.0, 2.5];
        let mean = |left_out: Option<usize>| {
            let kept: Vec<f64> =
                values.iter().enumerate().filter(|(i, _)| Some(*i) != left_out).map(|(_, v)| *v).collect();
            kept.iter().sum::<f64>() / kept.len() as f64
        };
        let (jackknife, student) = (Estimate::jackknife(values.len(), mean), Estimate::of(&values));
        let ([a, b], [c, d]) = (jackknife.ci95.unwrap(), student.ci95.unwrap());
        assert!((a - c).abs() < 1e-12 && (b - d).abs() < 1e-12, "{jackknife:?} {student:?}");
        assert!((jackknife.std - student.std).abs() < 1e-12);
        assert_eq!(Estimate::jackknife(1, |_| 2.0).ci95, None);
    }

    #[test]
    fn a_named_baseline_takes_the_place_of_the_first_case() {
        let (report, _) = crate::sample::run(3);
        let rows = compare(&report.runs, Some("hold"));
        let cases: Vec<&str> = rows
            .iter()
            .filter(|row| row.metric == "goodput_bps")
            .map(|row| {
                assert_eq!(row.baseline, "hold");
                row.case.as_str()
            })
            .collect();
        assert_eq!(cases, ["none", "dsasync"]);
        assert_eq!(compare(&report.runs, None), compare(&report.runs, Some("none")));
        assert!(compare(&report.runs, Some("nothing")).is_empty());
    }

    #[test]
    fn a_baseline_of_zero_has_no_ratio() {
        assert_eq!(paired_ratio(&[(0.0, 3.0), (0.0, 4.0)]), None);
        // 49 times the nearest number to 1/49 is not 1: equal seeds leave a rounding, and no interval.
        let (ratio, ci95) = paired_ratio(&[(49.0, 1.0), (49.0, 1.0)]).unwrap();
        assert_eq!(ci95, Some([ratio, ratio]));
        assert_eq!(paired_ratio(&[]), None);
    }

    #[test]
    fn fairness_is_one_for_equal_shares_and_one_nth_if_one_takes_all() {
        assert!((jain_index(&[5.0, 5.0, 5.0]) - 1.0).abs() < 1e-12);
        assert!((jain_index(&[9.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
        assert!(jain_index(&[]).is_nan());
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentile(&mut values, 0.5), 2.0);
        assert_eq!(percentile(&mut values, 0.99), 4.0);
        assert_eq!(percentile(&mut values, 0.0), 1.0);
        assert!(percentile(&mut [], 0.5).is_nan());
    }
}
