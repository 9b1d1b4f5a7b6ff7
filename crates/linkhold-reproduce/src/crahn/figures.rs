//! What varies in each figure, and its rows.

use linkhold_results::stats::Estimate;
use linkhold_results::{FigureRow, RunRecord, RunSeries};

use crate::figure::{self, metric_rows, row_of, rows_of};
use crate::grid::{Grid, Point, Variant};

/// The curve of a figure on which the claims are tested, where there are others.
pub(super) const BY_DEFINITION: &str = "ON and OFF 2 s in the mean";
/// The same where the paper's 1 s is taken in place of its alpha and beta of 0.5.
const BY_TEXT: &str = "ON and OFF 1 s in the mean";
/// Detectors of figure 3 beside the assumed one of -21 dB, with the keys that make them.
const WORSE_DETECTORS: [(&str, &[&str]); 3] = [
    ("detector of -24 dB", &[ENERGY, "mesh.spectrum.detector_snr=\"-24dB\""]),
    ("detector of -27 dB", &[ENERGY, "mesh.spectrum.detector_snr=\"-27dB\""]),
    ("detector that never errs", &["mesh.spectrum.detector=\"perfect\""]),
];
const ENERGY: &str = "mesh.spectrum.detector=\"energy\"";

/// The two halves of figures 9 and 10.
pub(super) const ON: &str = "CRAHN model on";
pub(super) const OFF: &str = "CRAHN model off";
/// The scenario of the half without the model.
const OFF_SCENARIO: &str = include_str!("../../../../reproductions/crahn/fig9/off.toml");

/// Sensing times of figure 3, s: the paper has 0.025 to 3.
const SENSING: [f64; 11] = [0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0, 3.0];
/// Sensing times of a first look.
const FEW_SENSING: [f64; 4] = [0.025, 0.2, 0.3, 1.0];
/// Transmitting times of figure 2, s.
const TRANSMITTING: [f64; 6] = [0.2, 0.6, 1.0, 1.4, 2.0, 3.0];
/// Rates of figure 6, 1/s: two regions lie at 1 and below, two above.
const RATES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// M of figures 7.
const DIFFERENCES: [f64; 8] = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6];

fn variant(stack: &str, x: Option<f64>, set: Vec<String>) -> Variant {
    Variant { stack: stack.to_owned(), direction: "mesh", x, set, ..Variant::default() }
}

fn sensing_key(seconds: f64) -> String {
    format!("mesh.spectrum.sensing_time=\"{}ms\"", (seconds * 1e3).round())
}

pub(super) fn one(_quick: bool) -> Vec<Variant> {
    vec![variant("M 1.6", None, Vec::new())]
}

/// Every sensing time of a list, with more keys.
fn by_sensing(stack: &str, times: &[f64], more: &[&str]) -> Vec<Variant> {
    let keys = |time: f64| {
        core::iter::once(sensing_key(time)).chain(more.iter().map(|&key| key.to_owned())).collect()
    };
    times.iter().map(|&time| variant(stack, Some(time), keys(time))).collect()
}

/// Every pair of a sensing and a transmitting time.
fn by_both(sensing: &[f64], transmitting: &[f64]) -> Vec<Variant> {
    let curve = |time: &f64| {
        let key = format!("mesh.spectrum.transmitting_time=\"{}ms\"", (time * 1e3).round());
        by_sensing(&format!("T_p {time} s"), sensing, &[&key])
    };
    transmitting.iter().flat_map(curve).collect()
}

pub(super) fn sensing_and_transmitting(quick: bool) -> Vec<Variant> {
    if quick { by_both(&FEW_SENSING, &TRANSMITTING[1..3]) } else { by_both(&SENSING[..9], &TRANSMITTING) }
}

pub(super) fn sensing(quick: bool) -> Vec<Variant> {
    if quick {
        return by_sensing(BY_DEFINITION, &FEW_SENSING, &[]);
    }
    let twice_as_fast = ["mesh.spectrum.users.alpha=\"1/s\"", "mesh.spectrum.users.beta=\"1/s\""];
    let mut all = by_sensing(BY_DEFINITION, &SENSING, &[]);
    all.extend(by_sensing(BY_TEXT, &SENSING, &twice_as_fast));
    // What the best sensing time hangs on: how well a node detects in a short time.
    for (name, set) in WORSE_DETECTORS {
        all.extend(by_sensing(name, &SENSING, set));
    }
    all
}

pub(super) fn few_sensing_times(quick: bool) -> Vec<Variant> {
    by_sensing(BY_DEFINITION, if quick { &FEW_SENSING[..2] } else { &FEW_SENSING[..] }, &[])
}

pub(super) fn three_sensing_times(_quick: bool) -> Vec<Variant> {
    let curve = |time: f64| variant(&format!("t_s {time} s"), None, vec![sensing_key(time)]);
    [0.025, 0.2, 0.3].map(curve).into()
}

pub(super) fn activity(quick: bool) -> Vec<Variant> {
    let rates = if quick { &RATES[1..4] } else { &RATES[..] };
    let point = |alpha: f64, beta: f64| {
        let key = |name: &str, rate: f64| format!("mesh.spectrum.users.{name}=\"{rate}/s\"");
        variant(&format!("beta {beta}"), Some(alpha), vec![key("alpha", alpha), key("beta", beta)])
    };
    rates.iter().flat_map(|&beta| rates.iter().map(move |&alpha| point(alpha, beta))).collect()
}

fn by_difference(all: &[f64]) -> Vec<Variant> {
    let key = |m: f64| vec![format!("mesh.spectrum.differentiation={m:.1}")];
    all.iter().map(|&m| variant("t_s 0.025 s", Some(m), key(m))).collect()
}

pub(super) fn differences(quick: bool) -> Vec<Variant> {
    by_difference(if quick { &[0.2, 1.6] } else { &DIFFERENCES })
}

pub(super) fn connections(quick: bool) -> Vec<Variant> {
    let counts = if quick { &[2, 8][..] } else { &[2, 3, 4, 5, 6, 7, 8][..] };
    let off =
        by_connections(OFF, counts).into_iter().map(|one| Variant { scenario: Some(OFF_SCENARIO), ..one });
    by_connections(ON, counts).into_iter().chain(off).collect()
}

fn by_connections(stack: &str, counts: &[u32]) -> Vec<Variant> {
    let point = |&count: &u32| variant(stack, Some(f64::from(count)), vec![format!("flows.0.count={count}")]);
    counts.iter().map(point).collect()
}

/// Sensing and transmitting times, s, rates, M and connections of the same figures with senders that are
/// told: fewer points of figures 2, 6, 7 and 9, for five senders each.
const TOLD_TRANSMITTING: [f64; 3] = [0.6, 1.0, 2.0];
const TOLD_DIFFERENCES: [f64; 3] = [0.2, 0.8, 1.6];
const TOLD_CONNECTIONS: [u32; 3] = [2, 5, 8];
/// What a trace over time needs: points more often than once a second.
const OFTEN: &str = "output.series_interval=\"100ms\"";
/// t_s and T_p of figures 7 and 8, which are not those of figure 3.
const OF_FIGURE_7: [&str; 2] =
    ["mesh.spectrum.sensing_time=\"25ms\"", "mesh.spectrum.transmitting_time=\"1s\""];

fn with(mut all: Vec<Variant>, keys: &[&str]) -> Vec<Variant> {
    for variant in &mut all {
        variant.set.extend(keys.iter().map(|&key| key.to_owned()));
    }
    all
}

/// Figure 2, told.
pub(super) fn told_sensing_and_transmitting(quick: bool) -> Vec<Variant> {
    by_both(if quick { &FEW_SENSING[..2] } else { &FEW_SENSING }, &TOLD_TRANSMITTING)
}

/// Figures 4 and 5, told.
pub(super) fn told_over_time(quick: bool) -> Vec<Variant> {
    with(three_sensing_times(quick), &[OFTEN])
}

/// Figure 6, told.
pub(super) fn told_activity(_quick: bool) -> Vec<Variant> {
    activity(true)
}

/// Figure 7, told.
pub(super) fn told_differences(_quick: bool) -> Vec<Variant> {
    with(by_difference(&TOLD_DIFFERENCES), &OF_FIGURE_7)
}

/// Figure 8, told.
pub(super) fn told_one(quick: bool) -> Vec<Variant> {
    with(with(one(quick), &OF_FIGURE_7), &["mesh.spectrum.differentiation=1.6", OFTEN])
}

/// Figures 9 and 10 with the model on, told.
pub(super) fn told_connections(quick: bool) -> Vec<Variant> {
    by_connections(ON, if quick { &TOLD_CONNECTIONS[..1] } else { &TOLD_CONNECTIONS })
}

/// What the applications got, kbit/s: all connections together.
pub(super) fn throughput(run: &RunRecord) -> f64 {
    run.totals.goodput_bps / 1e3
}

/// Retransmission timeouts a second, of all connections together.
pub(super) fn timeouts(run: &RunRecord) -> f64 {
    let seconds = run.flows.iter().map(|flow| flow.active_s).fold(0.0, f64::max);
    figure::timeouts(run) / seconds
}

/// Equation (4): throughput over the mean capacity of the working channel, silences counted as none.
pub(super) fn efficiency(run: &RunRecord) -> f64 {
    run.totals.goodput_bps / run.link.capacity_mean_bps
}

fn silent(run: &RunRecord) -> f64 {
    run.link.silent_fraction
}

pub(super) fn throughput_rows(grid: &Grid) -> Vec<FigureRow> {
    let metrics = [
        ("throughput", "kbit/s", throughput as fn(&RunRecord) -> f64),
        ("timeouts", "1/s", timeouts),
        ("silent share of time", "", silent),
    ];
    rows_of(grid, |variant, point| metric_rows(variant, point, &metrics))
}

pub(super) fn timeout_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| metric_rows(variant, point, &[("timeouts", "1/s", timeouts)]))
}

pub(super) fn efficiency_rows(grid: &Grid) -> Vec<FigureRow> {
    let metrics = [
        ("efficiency", "", efficiency as fn(&RunRecord) -> f64),
        ("throughput", "kbit/s", throughput),
        ("timeouts", "1/s", timeouts),
    ];
    rows_of(grid, |variant, point| metric_rows(variant, point, &metrics))
}

/// The part of a trace that a chart shows, s: the first minute after the warm-up.
const TRACE: core::ops::Range<f64> = 10.0..70.0;

/// A series of the first seed's run over time.
fn trace(
    variant: &Variant,
    point: &Point,
    metric: &str,
    unit: &str,
    of: impl Fn(&RunSeries) -> (&[f64], &[f64]),
    scale: f64,
) -> Vec<FigureRow> {
    let Some((_, series)) = point.runs.first() else { return Vec::new() };
    let (times, values) = of(series);
    let shown = times.iter().zip(values).filter(|(time, value)| TRACE.contains(*time) && value.is_finite());
    let rows = shown.map(|(time, value)| {
        let row = row_of(variant, point, metric, unit, &[]);
        FigureRow { x: Some(*time), measured: value * scale, ci95: None, ..row }
    });
    rows.collect()
}

/// The bytes of a segment.
const SEGMENT: f64 = 1000.0;

fn window(series: &RunSeries) -> (&[f64], &[f64]) {
    series.flows.first().map_or((&[], &[]), |flow| (&flow.t_s, &flow.cwnd_bytes))
}

fn round_trip(series: &RunSeries) -> (&[f64], &[f64]) {
    series.flows.first().map_or((&[], &[]), |flow| (&flow.t_s, &flow.rtt_s))
}

fn bandwidth(series: &RunSeries) -> (&[f64], &[f64]) {
    (&series.router.t_s, &series.router.limit_bps)
}

pub(super) fn window_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let mut rows = metric_rows(variant, point, &[("timeouts", "1/s", timeouts)]);
        rows.extend(trace(variant, point, "window (first seed)", "segments", window, 1.0 / SEGMENT));
        rows
    })
}

pub(super) fn round_trip_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let deviations = deviations(point);
        let mut rows =
            vec![row_of(variant, point, "standard deviation of the round-trip time", "s", &deviations)];
        rows.extend(trace(variant, point, "round trip (first seed)", "s", round_trip, 1.0));
        rows
    })
}

pub(super) fn bandwidth_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let mut rows =
            vec![row_of(variant, point, "correlation of window and bandwidth", "", &correlations(point))];
        rows.extend(trace(variant, point, "window (first seed)", "segments", window, 1.0 / SEGMENT));
        rows.extend(trace(variant, point, "bandwidth (first seed)", "kbit/s", bandwidth, 1e-3));
        rows
    })
}

/// By seed: standard deviation of the smoothed round-trip time, s.
pub(super) fn deviations(point: &Point) -> Vec<f64> {
    let deviation = |(_, series): &(RunRecord, RunSeries)| {
        let known: Vec<f64> = round_trip(series).1.iter().copied().filter(|rtt| rtt.is_finite()).collect();
        Estimate::of(&known).std
    };
    point.runs.iter().map(deviation).collect()
}

/// By seed: correlation of the congestion window with the available bandwidth.
pub(super) fn correlations(point: &Point) -> Vec<f64> {
    let correlation = |(_, series): &(RunRecord, RunSeries)| {
        let pairs: Vec<(f64, f64)> =
            window(series).1.iter().copied().zip(bandwidth(series).1.iter().copied()).collect();
        let count = pairs.len() as f64;
        let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), pair| (x + pair.0 / count, y + pair.1 / count));
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
        let together = sum(&|pair| (pair.0 - x) * (pair.1 - y));
        together / (sum(&|pair| (pair.0 - x).powi(2)) * sum(&|pair| (pair.1 - y).powi(2))).sqrt()
    };
    point.runs.iter().map(correlation).collect()
}
