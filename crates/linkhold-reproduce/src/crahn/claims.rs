//! The paper's claims put to the test, on what the scenarios assume where the paper is open.
//!
//! Criteria were fixed before anything was measured, but for `falls-beyond` of figure 3. A number holds
//! within a fifth of it, as everywhere; since the sensing times around 0.2 s are 0.15 and 0.25 s, "best at
//! 0.2 s" means just that. "Above" and "below" ask for a ratio on the right side of 1, "falls" for a loss of
//! a tenth (figure 3) or a twentieth (figure 7) at least.

use linkhold_results::RunRecord;

use super::figures::{BY_DEFINITION, OFF, ON, correlations, deviations, efficiency, throughput, timeouts};
use crate::finding::{Finding, Test, mean_without, of, over_seeds, ratio_over_seeds};
use crate::grid::{Grid, Variant};

/// No claim.
pub(super) fn none(_grid: &Grid, _claim: &str) -> Option<Finding> {
    None
}

/// One point of a figure: what is assumed there, and its values by seed.
struct Values<'a> {
    variant: &'a Variant,
    by_seed: Vec<f64>,
}

/// The points of `case` that `wanted` accepts.
fn points<'a>(
    grid: &'a Grid,
    case: &str,
    wanted: impl Fn(&Variant) -> bool,
    metric: fn(&RunRecord) -> f64,
) -> Vec<Values<'a>> {
    let of_case = grid.points.iter().filter(|point| point.case == case);
    let with_variant = of_case.filter_map(|point| Some((grid.variants.get(point.variant)?, point)));
    with_variant
        .filter(|(variant, _)| wanted(variant))
        .map(|(variant, point)| Values { variant, by_seed: point.values(metric) })
        .collect()
}

/// The sum of the points' means.
fn sum(points: &[Values<'_>], left_out: Option<usize>) -> f64 {
    points.iter().map(|point| mean_without(&point.by_seed, left_out)).sum()
}

/// The mean of the points' means.
fn level(points: &[Values<'_>], left_out: Option<usize>) -> f64 {
    sum(points, left_out) / points.len() as f64
}

/// What `of` says of the point with the greatest mean.
fn best(points: &[Values<'_>], of: impl Fn(&Variant) -> f64, test: Test) -> Option<Finding> {
    let seeds = points.first()?.by_seed.len();
    over_seeds(seeds, test, |left_out| {
        let mean = |point: &Values<'_>| mean_without(&point.by_seed, left_out);
        let first = points.iter().max_by(|one, other| mean(one).total_cmp(&mean(other)));
        first.map_or(f64::NAN, |point| of(point.variant))
    })
}

/// One sum over another.
fn ratio(one: &[Values<'_>], other: &[Values<'_>], test: Test) -> Option<Finding> {
    let seeds = one.first()?.by_seed.len();
    if other.is_empty() {
        return None;
    }
    ratio_over_seeds(seeds, test, |left_out| sum(one, left_out) / sum(other, left_out))
}

fn x(variant: &Variant) -> f64 {
    variant.x.unwrap_or(f64::NAN)
}

fn is_at(variant: &Variant, wanted: f64) -> bool {
    (x(variant) - wanted).abs() < 1e-9
}

/// The number in the name of a curve, such as `T_p 0.6 s` or `beta 0.5`.
fn number(variant: &Variant) -> f64 {
    variant.stack.split(' ').find_map(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

pub(super) fn fig2(grid: &Grid, claim: &str) -> Option<Finding> {
    let all = points(grid, "newreno", |_| true, throughput);
    match claim {
        "best-sensing" => best(&all, x, Test::Near),
        "best-transmitting" => best(&all, number, Test::Near),
        _ => None,
    }
}

/// The lowest of the sums of three cases, below one of a fourth.
fn lowest(
    grid: &Grid,
    case: &str,
    others: [&str; 3],
    wanted: impl Fn(&Variant) -> bool + Copy,
    metric: fn(&RunRecord) -> f64,
) -> Option<Finding> {
    let case = points(grid, case, wanted, metric);
    let others = others.map(|other| points(grid, other, wanted, metric));
    let seeds = case.first()?.by_seed.len();
    ratio_over_seeds(seeds, Test::AtMost(1.0), |left_out| {
        let least = others.iter().map(|other| sum(other, left_out)).fold(f64::INFINITY, f64::min);
        sum(&case, left_out) / least
    })
}

/// The kinds of TCP that the paper compares.
const TCPS: [&str; 4] = ["newreno", "reno", "sack", "vegas"];

/// The largest ratio of `after` to `before` over all kinds of TCP, so that an upper bound holds for each.
fn largest_left<'a>(
    of: impl Fn(&'static str, f64) -> Vec<Values<'a>>,
    after: f64,
    before: f64,
    test: Test,
) -> Option<Finding> {
    let cases = TCPS.map(|case| (of(case, after), of(case, before)));
    if cases.iter().any(|(after, before)| after.is_empty() || before.is_empty()) {
        return None;
    }
    let seeds = cases[0].0.first()?.by_seed.len();
    ratio_over_seeds(seeds, test, |left_out| {
        let ratios = cases.iter().map(|(after, before)| sum(after, left_out) / sum(before, left_out));
        ratios.fold(f64::NEG_INFINITY, f64::max)
    })
}

pub(super) fn fig3(grid: &Grid, claim: &str) -> Option<Finding> {
    let wanted = |variant: &Variant| variant.stack == BY_DEFINITION;
    let all = |case| points(grid, case, wanted, throughput);
    let at =
        |case, time: f64| points(grid, case, |variant| wanted(variant) && is_at(variant, time), throughput);
    match claim {
        "best-sensing" => best(&all("newreno"), x, Test::Near),
        "falls-beyond" => largest_left(at, 1.0, 0.2, Test::AtMost(0.9)),
        "newreno-above-reno" => ratio(&all("newreno"), &all("reno"), Test::AtLeast(1.0)),
        "sack-above-reno" => ratio(&all("sack"), &all("reno"), Test::AtLeast(1.0)),
        "vegas-lowest" => lowest(grid, "vegas", ["reno", "newreno", "sack"], wanted, throughput),
        _ => None,
    }
}

pub(super) fn fig4(grid: &Grid, claim: &str) -> Option<Finding> {
    let at = |time: f64| points(grid, "newreno", |variant| number(variant) == time, timeouts);
    match claim {
        "short-more-timeouts" => ratio(&at(0.025), &at(0.2), Test::AtLeast(1.0)),
        "long-more-timeouts" => ratio(&at(0.3), &at(0.2), Test::AtLeast(1.0)),
        _ => None,
    }
}

pub(super) fn fig5(grid: &Grid, claim: &str) -> Option<Finding> {
    let at = |time: f64| Some(deviations(grid.find("newreno", |variant| number(variant) == time)?));
    let (long, short) = (at(0.3)?, at(0.025)?);
    match claim {
        "longer-more-variation" => ratio_over_seeds(long.len(), Test::AtLeast(1.0), |left_out| {
            mean_without(&long, left_out) / mean_without(&short, left_out)
        }),
        _ => None,
    }
}

pub(super) fn fig6(grid: &Grid, claim: &str) -> Option<Finding> {
    // By whether bursts (alpha) and pauses (beta) are short: the paper's four regions.
    let region = |short_bursts: bool, short_pauses: bool| {
        let wanted = move |variant: &Variant| {
            (x(variant) > 1.0) == short_bursts && (number(variant) > 1.0) == short_pauses
        };
        points(grid, "newreno", wanted, throughput)
    };
    let [long, high, low, intermittent] =
        [region(false, false), region(false, true), region(true, false), region(true, true)];
    let seeds = low.first()?.by_seed.len();
    let beside =
        |one: &[Values<'_>], others: [&[Values<'_>]; 3], pick: fn(f64, f64) -> f64, start: f64, test| {
            ratio_over_seeds(seeds, test, |left_out| {
                let other = others.iter().map(|other| level(other, left_out)).fold(start, pick);
                level(one, left_out) / other
            })
        };
    match claim {
        "low-best" => beside(&low, [&long, &high, &intermittent], f64::max, 0.0, Test::AtLeast(1.0)),
        "high-worst" => {
            beside(&high, [&long, &low, &intermittent], f64::min, f64::INFINITY, Test::AtMost(1.0))
        }
        "long-above-intermittent" => ratio_over_seeds(seeds, Test::AtLeast(1.0), |left_out| {
            level(&long, left_out) / level(&intermittent, left_out)
        }),
        _ => None,
    }
}

pub(super) fn fig7(grid: &Grid, claim: &str) -> Option<Finding> {
    let all = |case| points(grid, case, |_| true, efficiency);
    let at = |case, m: f64| points(grid, case, |variant| is_at(variant, m), efficiency);
    match claim {
        "best-difference" => best(&all("newreno"), x, Test::Near),
        "falls-with-difference" => largest_left(at, 1.6, 0.2, Test::AtMost(0.95)),
        "sack-above-newreno" => ratio(&all("sack"), &all("newreno"), Test::AtLeast(1.0)),
        "vegas-lowest" => lowest(grid, "vegas", ["reno", "newreno", "sack"], |_| true, efficiency),
        _ => None,
    }
}

pub(super) fn fig8(grid: &Grid, claim: &str) -> Option<Finding> {
    match claim {
        "does-not-follow" => of(&correlations(grid.find("newreno", |_| true)?), Test::AtMost(0.5)),
        _ => None,
    }
}

/// The points of figures 9 and 10 with the model on or off, by the number of connections.
fn half<'a>(
    grid: &'a Grid,
    stack: &str,
    count: Option<f64>,
    metric: fn(&RunRecord) -> f64,
) -> Vec<Values<'a>> {
    let wanted =
        |variant: &Variant| variant.stack == stack && count.is_none_or(|count| is_at(variant, count));
    points(grid, "newreno", wanted, metric)
}

pub(super) fn fig9(grid: &Grid, claim: &str) -> Option<Finding> {
    let of = |stack, count| half(grid, stack, count, throughput);
    match claim {
        "below-off" => ratio(&of(ON, None), &of(OFF, None), Test::AtMost(1.0)),
        "gap-grows" => {
            let [most_on, most_off] = [of(ON, Some(8.0)), of(OFF, Some(8.0))];
            let [least_on, least_off] = [of(ON, Some(2.0)), of(OFF, Some(2.0))];
            let seeds = most_on.first()?.by_seed.len();
            over_seeds(seeds, Test::AtLeast(1.0), |left_out| {
                let gap = |off: &[Values<'_>], on: &[Values<'_>]| sum(off, left_out) - sum(on, left_out);
                gap(&most_off, &most_on) / gap(&least_off, &least_on)
            })
        }
        "grows-with-connections" => ratio(&of(ON, Some(8.0)), &of(ON, Some(2.0)), Test::AtLeast(1.0)),
        _ => None,
    }
}

pub(super) fn fig10(grid: &Grid, claim: &str) -> Option<Finding> {
    let of = |stack, count| half(grid, stack, count, timeouts);
    match claim {
        "more-timeouts" => ratio(&of(ON, None), &of(OFF, None), Test::AtLeast(1.0)),
        "grows-with-connections" => ratio(&of(ON, Some(8.0)), &of(ON, Some(2.0)), Test::AtLeast(1.0)),
        _ => None,
    }
}
