//! The report of `run` and `testbed`.

use super::page::{Page, folded, table};
use super::{charts, escape, mesh_map, numbers as format, words};
use crate::columns;
use crate::offer::Offers;
use crate::record::RunReport;
use crate::series::RunSeries;
use crate::stats::{Metric, estimate};
use crate::table::goodput_row;

/// The report as one HTML page. `series` may lack the series of some runs; charts over time show the first
/// seed. `scenario_toml` is the scenario as it was run,
/// overrides included.
#[must_use]
pub fn render_run(report: &RunReport, series: &[RunSeries], scenario_toml: &str) -> String {
    let scenario = &report.scenario;
    let offers = Offers::of(report);
    let mut page = Page::new(&format!("linkhold: {}", scenario.name));
    page.html(&format!("<p class=\"soft\">linkhold report</p><h1>{}</h1>", escape(&scenario.name)));
    page.html("<h2>What was measured</h2>");
    page.html(&words::setting(report));
    page.html("<h2>What came out</h2>");
    page.html(&words::verdict(report));
    if !report.runs.is_empty() {
        page.chart(
            &charts::case_against_case(report, &offers),
            "Goodput of each case beside the limit",
            &format!(
                "<b>Case against case.</b> Mean goodput over the seeds; the whiskers are 95 % intervals, {}. \
                 The closer a bar comes to the line, the less the silences cost beyond the time they take.",
                if offers.are_alike() {
                    "the dashed line is the limit"
                } else {
                    "the line across a bar, or beyond its end, is the case's own limit"
                },
            ),
        );
        page.html(&case_table(report));
    }
    over_time(&mut page, report, series, &offers);
    page.html("<h2>Terms</h2>");
    page.html(&words::terms(&offers));
    page.html("<h2>The scenario</h2>");
    let from = match scenario.file.as_str() {
        "" => String::new(),
        file => format!("From <code>{}</code>. ", escape(file)),
    };
    page.html(&format!(
        "<p>{from}What was run, by {}; <code>linkhold run</code> with this text gives these results again.</p>",
        escape(&report.program.to_string()),
    ));
    page.html(&format!("<pre>{}</pre>", escape(scenario_toml)));
    page.finish()
}

/// The table of cases as HTML: a row for each, with means over the seeds.
#[must_use]
pub fn case_table(report: &RunReport) -> String {
    // With nothing compared there is no baseline to name, and with one flow in each run no fairness to show.
    let compared = !report.compare.is_empty();
    let several = report.runs.iter().any(|run| run.flows.len() > 1);
    let rows: Vec<Vec<String>> = report
        .cases()
        .into_iter()
        .map(|case| {
            let mean = |metric| estimate(&report.runs, case, metric).mean;
            let versus = goodput_row(report, case).and_then(|row| Some(format::ratio(row.ratio?, row.ci95)));
            let mut cells = vec![
                format!("<span class=\"name\">{}</span>", escape(case)),
                format::rate(mean(Metric::Goodput)),
                format::percent(mean(Metric::LimitShare)),
            ];
            if compared {
                cells.push(versus.unwrap_or_else(|| format::MISSING.to_owned()));
            }
            cells.extend([
                format::count(mean(Metric::Retransmits)),
                format::count(mean(Metric::RtoEvents)),
                format::time(mean(Metric::DelayP50)),
                format::time(mean(Metric::DelayP95)),
                format::time(mean(Metric::DelayP99)),
                format::time(mean(Metric::DelayP50OutsideSilence)),
                format::time(mean(Metric::DelayP95OutsideSilence)),
                format::time(mean(Metric::DelayP99OutsideSilence)),
                format::time(mean(Metric::QueueingDelayP95)),
            ]);
            if several {
                cells.push(format::number(mean(Metric::JainIndex)));
            }
            cells.extend(columns::present(report).map(|extra| extra.form.text(extra.mean(report, case))));
            cells
        })
        .collect();
    let versus = format!("goodput<br>/ {}", escape(report.baseline().unwrap_or("baseline")));
    let mut header = vec!["case", "goodput", "of limit"];
    if compared {
        header.push(&versus);
    }
    header.extend([
        "resent",
        "RTOs",
        "delay<br>p50",
        "delay<br>p95",
        "delay<br>p99",
        "p50 outside<br>silences",
        "p95 outside<br>silences",
        "p99 outside<br>silences",
        "queueing<br>p95",
    ]);
    if several {
        header.push("fairness");
    }
    let extra: Vec<String> = columns::present(report).map(|extra| extra.head.join("<br>")).collect();
    header.extend(extra.iter().map(String::as_str));
    let fairness =
        if several { " Fairness: Jain's index of the flows' goodput, 1 if all have the same." } else { "" };
    let extra = columns::present(report).map(|extra| format!("{}: {}", extra.head.join(" "), extra.name));
    let extra: Vec<String> = extra.collect();
    let extra = if extra.is_empty() { String::new() } else { format!(" {}.", extra.join("; ")) };
    let note = format!(
        "<p class=\"soft\">Means over the seeds, per run; in brackets the ratio's 95\u{a0}% interval, paired by seed. Resent: retransmitted segments. \"Outside \
         silences\": only segments that met no silence on their way. Queueing: one-way delay less the least \
         of the flow.{fairness}{extra}</p>"
    );
    table(&header, &rows, &[0]) + &note
}

fn over_time(page: &mut Page, report: &RunReport, series: &[RunSeries], offers: &Offers<'_>) {
    let one = charts::one_seed(report, series);
    if let Some((_, first)) = one.first() {
        page.html(&format!("<h2>Over time (seed {})</h2>", first.seed));
        page.chart(
            &charts::goodput_over_time(&one, offers.are_alike()),
            "Goodput of each case over time, silences shaded",
            &format!(
                "<b>Goodput over time</b>, all flows together, each point the mean of {}. Shaded: the radio is silent{}, \
                 which falls where an interval contains a silence. A case that stays below the line after a silence is still recovering \
                 from it. Drag to zoom, double-click to go back, click a name to hide it.",
                format::time(charts::goodput_interval_s(first)),
                if offers.are_alike() {
                    ". Dashed grey: the limit".to_owned()
                } else {
                    format!(
                        " in {}. Dashed, in the colour of each case: its limit",
                        escape(&first.case)
                    )
                },
            ),
        );
        if let Some(cwnd) = charts::cwnd_over_time(&one) {
            page.chart(
                &cwnd,
                "Congestion window of the first flow over time",
                "<b>Congestion window</b> of the first flow of TCP: how much it dares to have under way. A fall means that TCP took something for \
                 congestion.",
            );
        }
        if let Some(held) = charts::held_over_time(&one) {
            page.chart(
                &held,
                "Bytes held at the base station over time",
                "<b>Held at the base station</b>: packets that the mechanism keeps back during a silence and releases after it.",
            );
        }
    }
    if let Some(map) = mesh_map::mesh_map(&one) {
        page.html("<h2>The mesh</h2>");
        page.styled(&map, mesh_map::STYLE);
    }
    if let Some(delays) = charts::delay_distribution(report, series) {
        page.html("<h2>Delay</h2>");
        page.chart(
            &delays,
            "Share of segments whose one-way delay was longer than a time",
            "<b>One-way delay</b>, all seeds: how many segments took longer than the time on the axis. Lower and further left is better. Where a \
             line crosses 50 % is the median, at 1 % the 99th percentile. The tail to the right is what a user notices: there are the segments that waited \
             for a silence to end or were sent again.",
        );
    }
    if report.runs.iter().any(|run| !run.mechanisms.is_empty()) {
        page.html(&folded("Counters of the mechanisms, per case (first seed)", &mechanism_text(report)));
    }
}

fn mechanism_text(report: &RunReport) -> String {
    let mut out = String::new();
    for case in report.cases() {
        for mechanism in report.runs_of(case).next().iter().flat_map(|run| &run.mechanisms) {
            out.push_str(&format!("{case}: mechanism {} at {}\n", mechanism.name, mechanism.at));
            for (name, value) in &mechanism.counters {
                out.push_str(&format!("  {name:<20} {value:>14}\n"));
            }
            for (name, value) in &mechanism.dropped {
                out.push_str(&format!("  dropped, {name:<11} {value:>14}\n"));
            }
        }
    }
    out
}
