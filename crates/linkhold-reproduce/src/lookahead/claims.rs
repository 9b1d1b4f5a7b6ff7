//! The paper's claims put to the test, on what the scenario assumes of its testbed.
//!
//! Criteria were fixed before anything was measured. A number holds within a fifth of it, as everywhere.
//! "Close to" is taken as at least 95 %. That UDP carries the content's rate was given to the scenario, so it
//! is no claim.

use linkhold_results::RunRecord;

use super::figures::{PAPER_STACK, rate};
use crate::finding::{Finding, Test, mean_without, of, ratio_over_seeds};
use crate::grid::Grid;

/// No claim.
pub(super) fn none(_grid: &Grid, _claim: &str) -> Option<Finding> {
    None
}

fn values(grid: &Grid, case: &str, metric: fn(&RunRecord) -> f64) -> Option<Vec<f64>> {
    Some(grid.find(case, |variant| variant.stack == PAPER_STACK)?.values(metric))
}

/// The rate of one case over that of another, both in the mean over the seeds.
fn ratio(grid: &Grid, case: &str, to: &str, test: Test) -> Option<Finding> {
    let (case, to) = (values(grid, case, rate)?, values(grid, to, rate)?);
    ratio_over_seeds(case.len(), test, |left_out| mean_without(&case, left_out) / mean_without(&to, left_out))
}

pub(super) fn fig5(grid: &Grid, claim: &str) -> Option<Finding> {
    match claim {
        "tcp" | "look-ahead" => of(&values(grid, claim, rate)?, Test::Near),
        "gain" => ratio(grid, "look-ahead", "tcp", Test::Near),
        "close-to-ideal" => ratio(grid, "look-ahead", "no-random-access", Test::AtLeast(0.95)),
        "tcp-a-third" => ratio(grid, "tcp", "udp", Test::Near),
        "ideal-two-thirds" => ratio(grid, "no-random-access", "udp", Test::Near),
        _ => None,
    }
}
