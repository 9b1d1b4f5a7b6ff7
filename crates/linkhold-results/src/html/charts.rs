//! Charts as plotly.js figures.
//!
//! The first seven colours are those of Okabe and Ito ("Color Universal Design", 2008), which colour-blind
//! readers can tell apart; the next nine are darker and lighter ones between them, and further ones are made.
//! No two cases have the same colour. Lines differ in their dashes as well, so that no line is told by its
//! colour alone.

use linkhold_core::link_event::Scope;
use serde_json::{Value, json};

use super::escape;
use crate::offer::{Offer, Offers};
use crate::record::{Figure, FigureRow, RunReport};
use crate::series::{RunSeries, SilenceRecord};
use crate::stats::{Metric, ROUNDING, estimate};

const COLOURS: [&str; 16] = [
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#332288",
    "#999933", "#CC6677", "#117733", "#7F4F24", "#6C757D", "#DDCC77", "#AA44DD",
];
const DASHES: [&str; 4] = ["solid", "dash", "dot", "dashdot"];
const SYMBOLS: [&str; 6] = ["circle", "square", "diamond", "triangle-up", "cross", "x"];
const GREY: &str = "#57606a";
const GRID: &str = "#e6e9ed";
/// Most points of one line; more cannot be told apart on a screen and make the page heavy.
const MAX_POINTS: usize = 2000;
/// Most points of one line of goodput. Goodput swings with every silence: with more points, lines hide each
/// other.
const MAX_GOODPUT_POINTS: usize = 150;

/// The colour of the case at that index: one of its own, however many cases there are.
pub(super) fn colour(index: usize) -> String {
    match COLOURS.get(index) {
        Some(colour) => (*colour).to_owned(),
        // Steps of the golden angle never come back to a hue, and stay far from those just before.
        None => format!("hsl({:.1}, 65%, 42%)", (index as f64 * 137.508) % 360.0),
    }
}

fn line(index: usize) -> Value {
    json!({"color": colour(index), "width": 2, "dash": DASHES[index % DASHES.len()]})
}

/// An axis; `title` is escaped.
pub(super) fn axis(title: &str) -> Value {
    json!({"title": {"text": title, "standoff": 8}, "gridcolor": GRID, "zeroline": false, "automargin": true,
        "linecolor": GREY, "ticks": "outside", "tickcolor": GREY})
}

/// A figure of traces and axes.
pub(super) fn figure(data: Vec<Value>, x: Value, y: Value, height: usize) -> Value {
    json!({"data": data, "layout": {
        "height": height, "xaxis": x, "yaxis": y, "margin": {"l": 70, "r": 20, "t": 56, "b": 60},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#1b1f24"},
        "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff", "hovermode": "x unified", "dragmode": "zoom",
        "modebar": {"bgcolor": "rgba(255,255,255,0)"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}}})
}

/// Sets a key in one of the figure's objects; `path` is a JSON pointer, and its last part is the key.
pub(super) fn set(figure: &mut Value, path: &str, value: Value) {
    let (parent, key) = path.rsplit_once('/').unwrap_or(("", path));
    if let Some(Value::Object(object)) = figure.pointer_mut(parent) {
        object.insert(key.to_owned(), value);
    }
}

/// Goodput of each case as a bar with its 95 % interval, and the limit as a line, or as a mark for each bar
/// where cases have different ones.
pub(super) fn case_against_case(report: &RunReport, offers: &Offers<'_>) -> Value {
    let mut data = Vec::new();
    let mut labels = Vec::new();
    let mut words = Vec::new();
    for (index, case) in report.cases().into_iter().enumerate() {
        let goodput = estimate(&report.runs, case, Metric::Goodput);
        let share = estimate(&report.runs, case, Metric::LimitShare).mean * 100.0;
        let half = goodput.half_width().filter(|half| half.is_finite());
        labels.push(escape(case));
        data.push(json!({"type": "bar", "orientation": "h", "x": [goodput.mean / 1e6], "y": [escape(case)],
            "name": escape(case), "showlegend": false, "width": 0.6, "marker": {"color": colour(index), "opacity": 0.7},
            "hovertemplate": "%{x:.3f} Mbit/s<extra>%{y}</extra>",
            "error_x": {"type": "data", "array": [half.map(|half| half / 1e6)], "visible": half.is_some(),
                "color": "#1b1f24", "thickness": 2, "width": 7}}));
        // The numbers stand beside the chart, where no bar or whisker reaches.
        words.push(json!({"x": 1.01, "xref": "paper", "xanchor": "left", "y": escape(case), "yref": "y",
            "showarrow": false, "align": "left",
            "text": format!("{:.2} Mbit/s<br>{share:.1} % of the limit", goodput.mean / 1e6)}));
    }
    let limit = match offers {
        Offers::Alike(all) => Some(all.limit_bps / 1e6).filter(|limit| limit.is_finite()),
        Offers::ByCase(each) => {
            data.push(limit_marks(each));
            None
        }
    };
    let mut x = axis("goodput of all flows (Mbit/s)");
    x["rangemode"] = json!("tozero");
    let mut y = axis("");
    y["categoryorder"] = json!("array");
    labels.reverse();
    let height = 156 + 62 * labels.len();
    y["categoryarray"] = json!(labels);
    let mut out = figure(data, x, y, height);
    set(&mut out, "/layout/hovermode", json!("closest"));
    // Room for the limit's label between the chart and the buttons at the top.
    set(&mut out, "/layout/margin/t", json!(66));
    set(&mut out, "/layout/margin/r", json!(150));
    if let Some(limit) = limit {
        set(
            &mut out,
            "/layout/shapes",
            json!([{"type": "line", "xref": "x", "yref": "paper", "x0": limit, "x1": limit,
            "y0": 0, "y1": 1, "line": {"color": "#1b1f24", "width": 2, "dash": "dash"}}]),
        );
        words.push(json!({"x": limit, "y": 1, "xref": "x", "yref": "paper",
            "yanchor": "bottom", "xanchor": "right", "showarrow": false, "text": format!("limit {limit:.2} Mbit/s")}));
    }
    set(&mut out, "/layout/annotations", json!(words));
    out
}

/// The limit of each case, as an upright line across its bar.
fn limit_marks(each: &[(&str, Offer)]) -> Value {
    let known = each.iter().filter(|(_, offer)| offer.limit_bps.is_finite());
    let (x, y): (Vec<f64>, Vec<String>) =
        known.map(|(case, offer)| (offer.limit_bps / 1e6, escape(case))).unzip();
    json!({"type": "scatter", "mode": "markers", "x": x, "y": y, "name": "limit", "showlegend": false,
        "marker": {"symbol": "line-ns", "size": 40, "color": "#1b1f24", "line": {"color": "#1b1f24", "width": 2}},
        "cliponaxis": false, "hovertemplate": "limit %{x:.3f} Mbit/s<extra>%{y}</extra>"})
}

/// The first seed's series of every case, with the case's index in the report.
pub(super) fn one_seed<'a>(report: &RunReport, series: &'a [RunSeries]) -> Vec<(usize, &'a RunSeries)> {
    let Some(seed) = report.runs.first().map(|run| run.seed) else { return Vec::new() };
    let of = |case: &str| series.iter().find(|series| series.case == case && series.seed == seed);
    report.cases().into_iter().enumerate().filter_map(|(index, case)| Some((index, of(case)?))).collect()
}

/// Length of the interval that one point of [`goodput_over_time`] covers, s.
pub(super) fn goodput_interval_s(run: &RunSeries) -> f64 {
    let t = &run.router.t_s;
    let step = match t.as_slice() {
        [first, second, ..] => second - first,
        [one] => *one,
        [] => f64::NAN,
    };
    step * t.len().div_ceil(MAX_GOODPUT_POINTS).max(1) as f64
}

/// Goodput of every case over time, the limit (that of each case where they are not `alike`), and the
/// silences shaded.
pub(super) fn goodput_over_time(series: &[(usize, &RunSeries)], alike: bool) -> Value {
    let limit = |run: &RunSeries, name: &str, colour: &str| {
        let (mut t, mut limit) =
            thin(&run.router.t_s, &scale(&run.router.limit_bps, 1e-6), MAX_GOODPUT_POINTS);
        // A point is the end of its interval, and the first one's begins with the run.
        if let Some(&first) = limit.first() {
            t.insert(0, 0.0);
            limit.insert(0, first);
        }
        json!({"type": "scatter", "mode": "lines", "x": t, "y": limit, "name": name,
            "line": {"color": colour, "width": 1.5, "dash": "dash", "shape": "vh"}, "hovertemplate": "%{y:.2f}"})
    };
    let mut data: Vec<Value> = if alike {
        series.first().map(|(_, first)| limit(first, "limit", GREY)).into_iter().collect()
    } else {
        let own = |(index, run): &(usize, &RunSeries)| {
            limit(run, &format!("limit of {}", escape(&run.case)), &colour(*index))
        };
        series.iter().map(own).collect()
    };
    data.extend(series.iter().map(|(index, run)| {
        lines(
            *index,
            &run.case,
            thin(&run.router.t_s, &scale(&run.router.goodput_bps, 1e-6), MAX_GOODPUT_POINTS),
            "%{y:.2f} Mbit/s",
        )
    }));
    over_time(data, series, "goodput (Mbit/s)")
}

/// Congestion window of the first flow of every case.
pub(super) fn cwnd_over_time(series: &[(usize, &RunSeries)]) -> Option<Value> {
    let data: Vec<Value> = series
        .iter()
        .filter_map(|(index, run)| {
            let flow = run.flows.iter().find(|flow| flow.cwnd_bytes.iter().any(|cwnd| cwnd.is_finite()))?;
            Some(lines(
                *index,
                &run.case,
                thin(&flow.t_s, &scale(&flow.cwnd_bytes, 1e-3), MAX_POINTS),
                "%{y:.1f} kB",
            ))
        })
        .collect();
    (!data.is_empty()).then(|| over_time(data, series, "congestion window (kB)"))
}

/// Bytes held over time, for every case whose mechanisms ever hold any; `None` if there is no such case.
pub(super) fn held_over_time(series: &[(usize, &RunSeries)]) -> Option<Value> {
    let holding: Vec<_> =
        series.iter().filter(|(_, run)| run.router.held_bytes.iter().any(|&held| held > 0.0)).collect();
    if holding.is_empty() {
        return None;
    }
    let data = holding
        .iter()
        .map(|(index, run)| {
            lines(
                *index,
                &run.case,
                thin(&run.router.t_s, &scale(&run.router.held_bytes, 1e-3), MAX_POINTS),
                "%{y:.1f} kB",
            )
        })
        .collect();
    Some(over_time(data, series, "held at the base station (kB)"))
}

fn lines(index: usize, name: &str, (t, y): (Vec<f64>, Vec<Option<f64>>), hover: &str) -> Value {
    json!({"type": "scatter", "mode": "lines", "x": t, "y": y, "name": escape(name), "line": line(index),
        "hovertemplate": hover})
}

fn over_time(mut data: Vec<Value>, series: &[(usize, &RunSeries)], y_title: &str) -> Value {
    let mut shades = Vec::new();
    let mut end: f64 = 0.0;
    if let Some((_, first)) = series.first() {
        end = first.router.t_s.last().copied().unwrap_or(0.0);
        let network = |silence: &&SilenceRecord| silence.scope == Scope::Network;
        let station = |silence: &&SilenceRecord| silence.scope != Scope::Network;
        shades.extend(shade(
            &mut first.silences.iter().filter(network),
            end,
            "silence, whole network",
            "#d3d9e0",
        ));
        shades.extend(shade(
            &mut first.silences.iter().filter(station),
            end,
            "silence, one station",
            "#dfd0ee",
        ));
    }
    for trace in &mut data {
        trace["yaxis"] = json!("y2");
    }
    shades.append(&mut data);
    let mut x = axis("time (s)");
    x["range"] = json!([0, end]);
    let mut y = axis(y_title);
    y["rangemode"] = json!("tozero");
    // The silences are drawn on the lower of two axes, so that they lie below the lines.
    y["overlaying"] = json!("y");
    y["side"] = json!("left");
    let hidden = json!({"range": [0, 1], "visible": false, "fixedrange": true});
    let mut out = figure(shades, x, hidden, 400);
    set(&mut out, "/layout/yaxis2", y);
    out
}

/// All silences as one trace of rectangles. Silences nearer to each other than a pixel are drawn as one.
fn shade(
    silences: &mut dyn Iterator<Item = &SilenceRecord>,
    end: f64,
    name: &str,
    fill: &str,
) -> Option<Value> {
    let pixel = end / 3000.0;
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for silence in silences {
        match spans.last_mut() {
            Some((_, last)) if silence.start_s <= *last + pixel => *last = last.max(silence.end_s),
            _ => spans.push((silence.start_s, silence.end_s)),
        }
    }
    if spans.is_empty() {
        return None;
    }
    let mut x: Vec<Option<f64>> = Vec::new();
    let mut y: Vec<Option<f64>> = Vec::new();
    for (start, stop) in spans {
        x.extend(
            [Some(start), Some(start), Some(stop), Some(stop), Some(start), None].map(|v| v.map(rounded)),
        );
        y.extend([Some(0.0), Some(1.0), Some(1.0), Some(0.0), Some(0.0), None]);
    }
    Some(json!({"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "fill": "toself",
        "fillcolor": fill, "line": {"width": 0}, "hoverinfo": "skip"}))
}

/// Share of segments that took longer than a delay, over all seeds that have series. Both axes are
/// logarithmic, because cases differ in the last per cent of segments.
pub(super) fn delay_distribution(report: &RunReport, series: &[RunSeries]) -> Option<Value> {
    let mut data = Vec::new();
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (index, case) in report.cases().into_iter().enumerate() {
        let mut delays = crate::delay::DelayHistogram::new();
        series.iter().filter(|run| run.case == case).for_each(|run| delays.merge(&run.delays));
        // The last share is zero, which a logarithmic axis cannot show; the filter removes it.
        let points: Vec<(f64, f64)> = delays
            .cdf()
            .into_iter()
            .map(|(delay, share)| (rounded(delay * 1e3), (1.0 - share) * 100.0))
            .filter(|(_, share)| *share >= LEAST_SHARE)
            .collect();
        let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
        if let (Some(first), Some(last)) = (x.first(), x.last()) {
            least = least.min(*first);
            most = most.max(*last);
            data.push(json!({"type": "scatter", "mode": "lines", "x": x, "y": y, "name": escape(case),
                "line": line(index), "hovertemplate": "%{y:.3g} % later than %{x:.1f} ms"}));
        }
    }
    if data.is_empty() {
        return None;
    }
    let mut x = axis("one-way delay (ms, logarithmic)");
    x["type"] = json!("log");
    let ticks = one_two_five(least.max(1e-3), most);
    x["tickvals"] = json!(ticks);
    x["ticktext"] = json!(ticks.iter().map(f64::to_string).collect::<Vec<_>>());
    let mut y = axis("segments later than that (%)");
    y["type"] = json!("log");
    let shares = [0.01, 0.1, 1.0, 10.0, 50.0, 100.0];
    y["tickvals"] = json!(shares);
    y["ticktext"] = json!(shares.map(|share| format!("{share} %")));
    let mut out = figure(data, x, y, 400);
    set(&mut out, "/layout/hovermode", json!("closest"));
    Some(out)
}

/// Smallest share of segments that the delay chart shows, per cent; a smaller one is a handful of segments.
const LEAST_SHARE: f64 = 0.005;

/// Tick values 1, 2, 5, 10, ... from the power of ten below `least` to five times the power of ten above
/// `most`.
fn one_two_five(least: f64, most: f64) -> Vec<f64> {
    let first = least.log10().floor() as i32;
    let last = most.log10().ceil() as i32;
    let decade = |exponent: i32| [1.0, 2.0, 5.0].map(|step| rounded(step * 10_f64.powi(exponent)));
    (first..=last).flat_map(decade).collect()
}

/// The chart of one metric of a paper's figure: measured values with intervals, and the paper's numbers as
/// open diamonds.
pub(super) fn paper_figure(paper: &Figure, metric: &str, unit: &str) -> Value {
    let rows: Vec<&FigureRow> =
        paper.rows.iter().filter(|row| row.metric == metric && row.unit == unit).collect();
    let label = label_of(metric, unit);
    if rows.iter().any(|row| row.x.is_some()) {
        paper_sweep(&rows, &escape(&paper.x_label), &label)
    } else {
        paper_cases(&rows, &label)
    }
}

/// A metric with its unit, escaped.
pub(super) fn label_of(metric: &str, unit: &str) -> String {
    if unit.is_empty() { escape(metric) } else { format!("{} ({})", escape(metric), escape(unit)) }
}

fn paper_sweep(rows: &[&FigureRow], x_label: &str, y_label: &str) -> Value {
    let mut cases: Vec<&str> = Vec::new();
    for row in rows {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    let apart = whisker_distance(rows, cases.len());
    let mut data = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let of: Vec<&&FigureRow> = rows.iter().filter(|row| row.case == *case && row.x.is_some()).collect();
        let aside = apart * (index as f64 - (cases.len() as f64 - 1.0) / 2.0);
        let real: Vec<Option<f64>> = of.iter().map(|row| row.x).collect();
        let x: Vec<Option<f64>> = real.iter().map(|x| x.map(|x| rounded(x + aside))).collect();
        let y: Vec<f64> = of.iter().map(|row| row.measured).collect();
        let hover = format!("{}: %{{y:.4g}} at %{{customdata}}<extra></extra>", escape(case));
        data.push(json!({"type": "scatter", "mode": "lines+markers", "x": x, "y": y, "customdata": real,
            "name": escape(case), "line": line(index),
            "marker": {"symbol": SYMBOLS[index % SYMBOLS.len()], "size": 8},
            "error_y": error_bars(&of), "hovertemplate": hover}));
        let told: Vec<&&&FigureRow> = of.iter().filter(|row| row.paper.is_some()).collect();
        if !told.is_empty() {
            let x: Vec<Option<f64>> = told.iter().map(|row| row.x).collect();
            let y: Vec<Option<f64>> = told.iter().map(|row| row.paper).collect();
            data.push(json!({"type": "scatter", "mode": "markers", "x": x, "y": y,
                "name": format!("paper: {}", escape(case)), "hovertemplate": "%{y:.4g}",
                "marker": {"symbol": "diamond-open", "size": 13, "color": colour(index), "line": {"width": 2}}}));
        }
    }
    let mut y = axis(y_label);
    y["rangemode"] = json!("tozero");
    let mut out = figure(data, axis(x_label), y, 420);
    set(&mut out, "/layout/hovermode", json!("closest"));
    out
}

/// How far neighbouring cases are moved aside from each other, so that their whiskers at one x do not lie on
/// each other: all together they take half of the least distance between two x.
fn whisker_distance(rows: &[&FigureRow], cases: usize) -> f64 {
    let mut x: Vec<f64> = rows.iter().filter_map(|row| row.x).collect();
    x.sort_by(f64::total_cmp);
    x.dedup();
    let least = x.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    if least.is_finite() && cases > 1 { 0.5 * least / cases as f64 } else { 0.0 }
}

fn paper_cases(rows: &[&FigureRow], label: &str) -> Value {
    let names: Vec<String> = rows.iter().map(|row| escape(&row.case)).collect();
    let measured: Vec<f64> = rows.iter().map(|row| row.measured).collect();
    let wrapped: Vec<&&FigureRow> = rows.iter().collect();
    let mut data = vec![
        json!({"type": "scatter", "mode": "markers", "x": measured, "y": names, "name": "measured, 95 % interval",
        "marker": {"color": COLOURS[1], "size": 10}, "error_x": error_bars(&wrapped), "hovertemplate": "%{x:.4g}"}),
    ];
    let told: Vec<&&FigureRow> = rows.iter().filter(|row| row.paper.is_some()).collect();
    if !told.is_empty() {
        let x: Vec<Option<f64>> = told.iter().map(|row| row.paper).collect();
        let y: Vec<String> = told.iter().map(|row| escape(&row.case)).collect();
        data.push(json!({"type": "scatter", "mode": "markers", "x": x, "y": y, "name": "paper", "hovertemplate": "%{x:.4g}",
            "marker": {"symbol": "diamond-open", "size": 14, "color": COLOURS[0], "line": {"width": 2}}}));
    }
    let mut y = axis("");
    let mut order = names.clone();
    order.reverse();
    let height = 150 + 34 * order.len();
    y["categoryorder"] = json!("array");
    y["categoryarray"] = json!(order);
    let mut out = figure(data, axis(label), y, height);
    set(&mut out, "/layout/hovermode", json!("closest"));
    out
}

fn error_bars(rows: &[&&FigureRow]) -> Value {
    // An axis would be scaled to what rounding leaves of equal seeds.
    let length = |row: &FigureRow, length: f64| {
        if length < ROUNDING * row.measured.abs() { 0.0 } else { length }
    };
    let above: Vec<Option<f64>> =
        rows.iter().map(|row| row.ci95.map(|[_, high]| length(row, high - row.measured))).collect();
    let below: Vec<Option<f64>> =
        rows.iter().map(|row| row.ci95.map(|[low, _]| length(row, row.measured - low))).collect();
    json!({"type": "data", "symmetric": false, "array": above, "arrayminus": below, "thickness": 1.5, "width": 5})
}

fn scale(values: &[f64], factor: f64) -> Vec<f64> {
    values.iter().map(|value| value * factor).collect()
}

/// Reduces a line to at most `most` points. Each is the mean of the same number of neighbours and stands at
/// the time of the last of them.
fn thin(t: &[f64], y: &[f64], most: usize) -> (Vec<f64>, Vec<Option<f64>>) {
    let run = t.len().div_ceil(most).max(1);
    let finite = |value: f64| value.is_finite().then(|| rounded(value));
    let times = t.chunks(run).map(|part| rounded(part.last().copied().unwrap_or(0.0))).collect();
    let values = y.chunks(run).map(|part| finite(part.iter().sum::<f64>() / part.len() as f64)).collect();
    (times, values)
}

/// Rounds to six decimals: a chart shows fewer, and the page is half as large.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn sixteen() -> Figure {
        let mut figure = Figure { seeds: 10, x_label: "x".into(), ..Figure::default() };
        for case in 0..16 {
            for x in [0.1, 0.2, 0.4] {
                figure.rows.push(FigureRow {
                    case: format!("case {case}"),
                    metric: "goodput".into(),
                    unit: "Mbit/s".into(),
                    x: Some(x),
                    paper: None,
                    measured: 10.0,
                    ci95: Some([9.0, 11.0]),
                });
            }
        }
        figure
    }

    #[test]
    fn no_two_of_many_cases_have_the_same_colour() {
        let colours: BTreeSet<String> = (0..64).map(colour).collect();
        assert_eq!(colours.len(), 64);
    }

    #[test]
    fn whiskers_of_sixteen_cases_stand_beside_each_other_and_near_their_x() {
        let chart = paper_figure(&sixteen(), "goodput", "Mbit/s");
        let traces = chart["data"].as_array().unwrap();
        assert_eq!(traces.len(), 16);
        let mut places = BTreeSet::new();
        for trace in traces {
            for (x, real) in
                trace["x"].as_array().unwrap().iter().zip(trace["customdata"].as_array().unwrap())
            {
                let (x, real) = (x.as_f64().unwrap(), real.as_f64().unwrap());
                assert!((x - real).abs() < 0.05, "{x} is nearer to another x than to {real}");
                places.insert(format!("{x:.6}"));
            }
        }
        assert_eq!(places.len(), 48, "each whisker has a place of its own");
    }

    #[test]
    fn an_interval_that_only_rounding_makes_has_no_length() {
        let row = |low: f64, high: f64| FigureRow {
            measured: 0.9983,
            ci95: Some([0.9983 - low, 0.9983 + high]),
            ..FigureRow::default()
        };
        let (equal, apart) = (row(3e-16, 2e-16), row(0.001, 0.002));
        let bars = error_bars(&[&&equal, &&apart]);
        for side in ["array", "arrayminus"] {
            assert_eq!(bars[side][0], json!(0.0), "{bars}");
            assert!(bars[side][1].as_f64().unwrap() > 5e-4, "{bars}");
        }
    }

    #[test]
    fn numbers_stand_beside_the_bars_and_not_on_them() {
        let (report, _) = crate::sample::run(5);
        let chart = case_against_case(&report, &Offers::of(&report));
        for bar in chart["data"].as_array().unwrap() {
            assert!(bar.get("text").is_none(), "{bar}");
        }
        let words = chart["layout"]["annotations"].as_array().unwrap();
        assert_eq!(words.iter().filter(|word| word["xref"] == "paper").count(), 3, "{words:?}");
    }

    #[test]
    fn where_limits_differ_each_bar_has_its_own_and_so_has_each_line() {
        let (mut report, series) = crate::sample::run(3);
        let one = one_seed(&report, &series);
        let limits = |chart: &Value| -> Vec<String> {
            let names = chart["data"].as_array().unwrap().iter().filter_map(|trace| trace["name"].as_str());
            names.filter(|name| name.starts_with("limit")).map(str::to_owned).collect()
        };
        let chart = case_against_case(&report, &Offers::of(&report));
        assert!(chart["layout"]["shapes"].is_array() && limits(&chart).is_empty());
        let over_time = goodput_over_time(&one, true);
        assert_eq!(limits(&over_time), ["limit"]);
        let traces = over_time["data"].as_array().unwrap();
        let line = traces.iter().find(|trace| trace["name"] == "limit").unwrap();
        assert!(line["x"][0] == 0.0 && line["y"][0] == line["y"][1], "its first interval is drawn whole");

        let cases = report.cases().into_iter().map(str::to_owned).collect::<Vec<_>>();
        crate::sample::with_a_case_of_twice_the_rate(&mut report);
        let chart = case_against_case(&report, &Offers::of(&report));
        assert!(chart["layout"]["shapes"].is_null(), "no line for all");
        let marks = chart["data"].as_array().unwrap().iter().find(|trace| trace["name"] == "limit").unwrap();
        assert_eq!(marks["y"], json!(cases));
        let of = |index: usize| marks["x"][index].as_f64().unwrap();
        let hold = cases.iter().position(|case| case == "hold").unwrap();
        assert!((of(hold) / of(0) - 2.0).abs() < 1e-9, "{marks}");
        let words = chart["layout"]["annotations"].as_array().unwrap();
        assert!(words.iter().all(|word| word["xref"] == "paper"), "{words:?}");
        assert_eq!(
            limits(&goodput_over_time(&one, false)),
            cases.iter().map(|case| format!("limit of {case}")).collect::<Vec<_>>()
        );
    }
}
