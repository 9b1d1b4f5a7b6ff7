//! The paper's claims put to the test, on the paper's TCP over the generated walk, with the paper's rule.
//!
//! Criteria were fixed before anything was measured, but for `connection-time-falls`, a claim that was added
//! after the first tables. A claim with a number holds within a fifth of it, as
//! everywhere. "Up to" is the threshold of the four with the largest mean. "Rises with" and "falls linearly"
//! hold if every step between neighbouring thresholds goes that way. All gains are paired by seed: off and
//! gated runs of a seed meet the same SNR.

use super::figures::{PAPER_STACK, connection_time, overhead, throughput};
use crate::finding::{Finding, Test, mean_without, of, over_seeds};
use crate::grid::Grid;
use linkhold_results::RunRecord;

/// The paper's thresholds, as cases.
const THRESHOLDS: [&str; 4] = ["3dB", "4dB", "5dB", "6dB"];

/// No claim.
pub(super) fn none(_grid: &Grid, _claim: &str) -> Option<Finding> {
    None
}

/// `metric` of each seed with the case.
fn values(grid: &Grid, case: &str, metric: fn(&RunRecord) -> f64) -> Option<Vec<f64>> {
    Some(grid.find(case, |variant| variant.stack == PAPER_STACK)?.values(metric))
}

/// By threshold: `change` of (off, gated) of each seed.
fn changes(grid: &Grid, metric: fn(&RunRecord) -> f64, change: fn(f64, f64) -> f64) -> Option<Vec<Vec<f64>>> {
    let off = values(grid, "off", metric)?;
    let of_case = |case: &&str| {
        let gated = values(grid, case, metric)?;
        Some(off.iter().zip(&gated).map(|(&off, &gated)| change(off, gated)).collect())
    };
    THRESHOLDS.iter().map(of_case).collect()
}

/// The largest of the thresholds' means.
fn best(changes: &[Vec<f64>]) -> Option<Finding> {
    let seeds = changes.first()?.len();
    over_seeds(seeds, Test::Near, |left_out| {
        changes.iter().map(|values| mean_without(values, left_out)).fold(f64::NEG_INFINITY, f64::max)
    })
}

/// How many steps between neighbours of `curve` rise.
fn rising_steps(curve: &[Vec<f64>]) -> Option<Finding> {
    let seeds = curve.first()?.len();
    let all = curve.len() as f64 - 1.0;
    over_seeds(seeds, Test::AtLeast(all), |left_out| {
        let rises = |pair: &&[Vec<f64>]| match pair {
            [lower, higher] => mean_without(higher, left_out) > mean_without(lower, left_out),
            _ => false,
        };
        curve.windows(2).filter(rises).count() as f64
    })
}

pub(super) fn fig4(grid: &Grid, claim: &str) -> Option<Finding> {
    let percent = |off: f64, gated: f64| 100.0 * (gated / off - 1.0);
    let more = |off: f64, gated: f64| gated - off;
    match claim {
        "throughput-gain" => best(&changes(grid, throughput, percent)?),
        "throughput-3dB" => of(changes(grid, throughput, more)?.first()?, Test::Near),
        "throughput-4dB" => of(changes(grid, throughput, more)?.get(1)?, Test::Near),
        "throughput-rises" => rising_steps(&changes(grid, throughput, more)?),
        "connection-time-falls" => rising_steps(&changes(grid, connection_time, |off, gated| off - gated)?),
        "connection-time" => best(&changes(grid, connection_time, |off, gated| 100.0 * (1.0 - gated / off))?),
        _ => None,
    }
}

pub(super) fn fig5(grid: &Grid, claim: &str) -> Option<Finding> {
    let saved = changes(grid, overhead, |off, gated| off - gated)?;
    match claim {
        "overhead-saved" => best(&saved),
        "overhead-falls" => {
            let seeds = saved.first()?.len();
            let curve: Vec<Vec<f64>> = core::iter::once(vec![0.0; seeds]).chain(saved).collect();
            rising_steps(&curve)
        }
        _ => None,
    }
}
