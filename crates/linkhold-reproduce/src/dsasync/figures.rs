//! What varies in each figure, and its rows.

use linkhold_results::stats::Estimate;
use linkhold_results::{FigureRow, RunRecord};

use crate::grid::{Grid, Point, Variant};

/// The paper's stack at its own (LAN) round trip: what its claims are about.
pub(super) const PAPER_STACK: &str = "linux-2009, 3 ms";

/// Today's kernel in place of the paper's.
const TODAY: [&str; 3] =
    ["tcp.profile=\"linux\"", "tcp.receive_buffer=\"128KiB\"", "tcp.receive_autotune=\"6MiB\""];

/// The stacks and round trips of every figure: the paper's, and today's at 3, 50 and 100 ms.
fn stacks(quick: bool) -> Vec<(String, Vec<String>)> {
    let mut stacks = vec![(PAPER_STACK.to_owned(), Vec::new())];
    if !quick {
        for rtt in ["3ms", "50ms", "100ms"] {
            let mut set: Vec<String> = TODAY.iter().map(|&key| key.to_owned()).collect();
            set.push(format!("wired.rtt=\"{rtt}\""));
            stacks.push((format!("linux, {}", rtt.replace("ms", " ms")), set));
        }
    }
    stacks
}

fn variants(quick: bool, directions: &[&'static str]) -> Vec<Variant> {
    let mut variants = Vec::new();
    for (stack, set) in stacks(quick) {
        for &direction in directions {
            let mut set = set.clone();
            set.push(format!("flows.0.direction=\"{direction}\""));
            variants.push(Variant { stack: stack.clone(), direction, set, ..Variant::default() });
        }
    }
    variants
}

pub(super) fn downlink_on_every_stack(quick: bool) -> Vec<Variant> {
    variants(quick, &["downlink"])
}

pub(super) fn both_directions_on_every_stack(quick: bool) -> Vec<Variant> {
    variants(quick, &["downlink", "uplink"])
}

/// Share of time the incumbent must be on, with 5 % sensing beside it, for the radio to be silent a share of
/// `utilisation`: the two are independent, so silent = 1 - (1 - sensing)(1 - incumbent).
fn incumbent_share(utilisation: f64) -> f64 {
    1.0 - (1.0 - utilisation) / 0.95
}

/// Figure 6's x axis. The mean burst stays 200 ms; the pauses between bursts shrink.
const UTILISATIONS: [f64; 8] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];

pub(super) fn utilisation_sweep(quick: bool) -> Vec<Variant> {
    let mut sweep = Vec::new();
    for base in both_directions_on_every_stack(quick) {
        // The undisturbed channel is the reference for "drops significantly".
        sweep.push(Variant { x: Some(0.0), scenario: Some(super::UNDISTURBED), ..base.clone() });
        for utilisation in UTILISATIONS {
            let on = incumbent_share(utilisation);
            let off_us = (200_000.0 * (1.0 - on) / on).round();
            let mut variant = base.clone();
            variant.x = Some(utilisation);
            variant.set.push(format!("radio.primary_user.off_mean=\"{off_us}us\""));
            sweep.push(variant);
        }
    }
    sweep
}

pub(super) fn macro_variants(quick: bool) -> Vec<Variant> {
    let mut all = both_directions_on_every_stack(quick);
    for direction in ["downlink", "uplink"] {
        all.push(Variant {
            stack: format!("{PAPER_STACK}, stay"),
            direction,
            set: vec![
                format!("flows.0.direction=\"{direction}\""),
                "radio.switch_policy=\"scripted\"".to_owned(),
            ],
            ..Variant::default()
        });
    }
    all
}

/// One row of the mean over the seeds.
fn row(
    variant: &Variant,
    point: &Point,
    metric: &str,
    unit: &str,
    value: impl Fn(&RunRecord) -> f64,
) -> FigureRow {
    let values = point.values(value);
    FigureRow {
        case: format!("{} [{}]", point.case, variant.stack),
        metric: format!("{} {metric}", variant.direction),
        unit: unit.to_owned(),
        x: variant.x,
        paper: None,
        measured: Estimate::of(&values).mean,
        ci95: Estimate::of(&values).ci95,
    }
}

fn rows_of(grid: &Grid, make: impl Fn(&Variant, &Point) -> Vec<FigureRow>) -> Vec<FigureRow> {
    grid.points
        .iter()
        .filter_map(|point| grid.variants.get(point.variant).map(|variant| make(variant, point)))
        .flatten()
        .collect()
}

pub(super) fn goodput_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
            row(variant, point, "goodput share of the limit", "", |run| run.totals.limit_share),
        ]
    })
}

pub(super) fn goodput_and_retransmission_rows(grid: &Grid) -> Vec<FigureRow> {
    let mut rows = rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
            row(variant, point, "goodput share of the limit", "", |run| run.totals.limit_share),
            row(variant, point, "retransmission rate", "Mbit/s", |run| run.totals.retransmit_bps / 1e6),
            row(variant, point, "timeouts", "", |run| run.totals.rto_events as f64),
            row(variant, point, "p99 delay outside silences", "ms", |run| {
                run.totals.delay_p99_outside_silence_s * 1e3
            }),
        ]
    });
    // Section VI-C2 prints these two for one client; figure 8's values are only drawn.
    let single = grid.points.iter().all(|point| point.runs.iter().all(|(record, _)| record.flows.len() == 1));
    if single {
        for (case, rate) in [("regular", 3.1), ("dsasync-paper", 0.018)] {
            let case = format!("{case} [{PAPER_STACK}]");
            for row in &mut rows {
                if row.case == case && row.metric == "downlink retransmission rate" {
                    row.paper = Some(rate);
                }
            }
        }
    }
    rows
}

pub(super) fn overhead_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
            row(variant, point, "mean delay", "ms", |run| run.totals.delay_mean_s * 1e3),
        ]
    })
}

pub(super) fn deviation_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "delay deviation", "ms", |run| run.totals.delay_std_s * 1e3),
            row(variant, point, "mean delay", "ms", |run| run.totals.delay_mean_s * 1e3),
            row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
        ]
    })
}

/// Goodput of each second, averaged over the seeds.
pub(super) fn over_time_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let times = point.runs.first().map(|(_, series)| series.router.t_s.clone()).unwrap_or_default();
        times
            .iter()
            .enumerate()
            .map(|(index, &t_s)| {
                let values = per_second(point, index);
                FigureRow {
                    case: format!("{} [{}]", point.case, variant.stack),
                    metric: format!("{} goodput", variant.direction),
                    unit: "Mbit/s".to_owned(),
                    x: Some(t_s),
                    paper: None,
                    measured: Estimate::of(&values).mean,
                    ci95: Estimate::of(&values).ci95,
                }
            })
            .collect()
    })
}

/// Goodput of the series' interval `index`, Mbit/s, by seed.
pub(super) fn per_second(point: &Point, index: usize) -> Vec<f64> {
    point
        .runs
        .iter()
        .filter_map(|(_, series)| series.router.goodput_bps.get(index).map(|bps| bps / 1e6))
        .collect()
}
