//! Short tables for a terminal, at most 100 columns wide.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::format;
use crate::record::{CompareRow, Figure, ReproduceReport, RunReport};
use crate::stats::{Metric, estimate};

/// Widest table, columns.
const WIDTH: u16 = 100;

/// One row for each case, with means over the seeds: goodput, its share of the limit, retransmissions,
/// timeouts, delays, and goodput against the first case.
#[must_use]
pub fn run_table(report: &RunReport) -> String {
    let cases = report.cases();
    let seeds = cases.first().map_or(0, |case| report.runs_of(case).count());
    let versus = cases.first().map_or_else(String::new, |case| format!("goodput / {case}"));
    let mut table =
        new_table(&["case", "goodput", "of limit", "retransmits", "RTOs", "delay p50", "delay p99", &versus]);
    for case in &cases {
        let mean = |metric| estimate(&report.runs, case, metric).mean;
        let goodput = estimate(&report.runs, case, Metric::Goodput);
        table.add_row(row(&[
            (*case).to_owned(),
            format::rate(goodput.mean),
            format::percent(mean(Metric::LimitShare)),
            format::count(mean(Metric::Retransmits)),
            format::count(mean(Metric::RtoEvents)),
            format::time(mean(Metric::DelayP50)),
            format::time(mean(Metric::DelayP99)),
            versus_text(report, case),
        ]));
    }
    let limit =
        report.runs.iter().map(|run| run.link.goodput_limit_bps).sum::<f64>() / report.runs.len() as f64;
    let silent =
        report.runs.iter().map(|run| run.link.silent_fraction).sum::<f64>() / report.runs.len() as f64;
    let seeds_text = if seeds == 1 {
        "1 seed, so without intervals".to_owned()
    } else {
        format!("{seeds} seeds; ± is half a 95 % interval, paired by seed")
    };
    format!(
        "{table}\nlimit {} (what a perfect transport would carry); radio silent {} of the time\n\
         means of {seeds_text}\n",
        format::rate(limit),
        format::percent(silent),
    )
}

/// The comparison of `case` with the baseline in goodput; `None` for the baseline itself.
pub(crate) fn goodput_row<'a>(report: &'a RunReport, case: &str) -> Option<&'a CompareRow> {
    report.compare.iter().find(|row| row.case == case && row.metric == Metric::Goodput.name())
}

fn versus_text(report: &RunReport, case: &str) -> String {
    match goodput_row(report, case) {
        Some(CompareRow { ratio: Some(ratio), ci95, .. }) => {
            let interval =
                ci95.map_or_else(String::new, |[low, high]| format!(" ± {:.3}", (high - low) / 2.0));
            format!("{ratio:.3}{interval}")
        }
        _ => String::new(),
    }
}

/// A table for each figure, with a row for each claim: the paper's number, the measured number, the verdict.
#[must_use]
pub fn reproduce_table(report: &ReproduceReport) -> String {
    let mut out = String::new();
    for figure in &report.figures {
        out.push_str(&figure_table(figure));
    }
    let claims = report.figures.iter().flat_map(|figure| &figure.claims);
    let (holds, all) = claims.fold((0, 0), |(holds, all), claim| (holds + u32::from(claim.holds), all + 1));
    out.push_str(&format!("{holds} of {all} claims hold\n"));
    out
}

fn figure_table(figure: &Figure) -> String {
    let mut table = new_table(&["claim", "paper", "measured", "holds"]);
    for claim in &figure.claims {
        let number = |value: Option<f64>| value.map_or_else(|| format::MISSING.to_owned(), format::number);
        table.add_row(row(&[
            claim.text.clone(),
            number(claim.paper),
            number(claim.measured),
            if claim.holds { "yes" } else { "NO" }.to_owned(),
        ]));
    }
    let seeds = figure.seeds;
    let rows = figure.rows.len();
    format!("{}: {} ({rows} points, {seeds} seeds)\n{table}\n\n", figure.id, figure.title)
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(header.iter().map(Cell::new));
    table
}

/// A row with its first cell aligned left and the others right.
fn row(cells: &[String]) -> Vec<Cell> {
    let aligned = |(index, text): (usize, &String)| {
        let side = if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    };
    cells.iter().enumerate().map(aligned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_run_table_fits_100_columns_and_says_what_matters() {
        let (report, _) = sample::run(5);
        let text = run_table(&report);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for part in ["dsasync", "of limit", "1.1", " ± ", "5 seeds", "RTOs", "silent"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_claim_that_does_not_hold_is_seen() {
        let text = reproduce_table(&sample::reproduce());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("NO") && text.contains("1 of 2 claims hold"), "{text}");
    }
}
