//! The report of `reproduce`: each figure of a paper beside what was measured here.

use super::page::{Page, folded, table};
use super::surface::Surface;
use super::{charts, escape, numbers as format};
use crate::claims::{Verdict, verdicts};
use crate::kernel::KernelPart;
use crate::record::{Claim, Figure, ReproduceReport};

/// What the cases of dsasync's figures are.
const DSASYNC_CASES: &str = "In dsasync's figures <b>regular</b> is the plain router, <b>dsasync-paper</b> the paper's algorithms \
as printed, on which its claims are judged, and <b>dsasync</b> what linkhold recommends. ";

/// The report as one HTML page. `scenarios` holds name and text of each scenario file behind the figures; the
/// page shows them folded at its end.
#[must_use]
pub fn render_reproduce(report: &ReproduceReport, scenarios: &[(String, String)]) -> String {
    let mut page = Page::new("linkhold: a paper reproduced");
    page.html("<p class=\"soft\">linkhold report</p><h1>A paper's figures, measured again</h1>");
    let claims: Vec<&Claim> = report.figures.iter().flat_map(|figure| &figure.claims).collect();
    page.html(&format!(
        "<p class=\"lead\">{} {}; in this measurement {}.</p>\
         <p>Each figure of the paper was rebuilt as a scenario and run with several seeds, which vary everything that is random. \
         Filled marks are what was measured, with 95 % intervals (Student's t over the seeds). Open diamonds are the paper's numbers, \
         where its text gives one. A claim is the paper's sentence put to the test: the last column says how. A claim that does not hold is \
         reported as such; the README of its figure says why. A claim is undecided where the interval reaches from where it holds \
         to where it does not: more seeds would tell.</p><p>{}Brackets name the sender's TCP stack and what was changed besides: a \
         round trip, or one assumption.</p>",
        report.figures.len(),
        if report.figures.len() == 1 { "figure" } else { "figures" },
        escape(&verdicts(report, &claims)),
        if report.figures.iter().any(|figure| figure.id.starts_with("dsasync/")) { DSASYNC_CASES } else { "" },
    ));
    page.html(&format!("<p class=\"soft\">Measured by {}.</p>", escape(&report.program.to_string())));
    if let Some(kernel) = &report.kernel {
        add_kernel(&mut page, kernel);
    }
    for figure in &report.figures {
        add_figure(&mut page, figure);
    }
    if !scenarios.is_empty() {
        page.html("<h2>The scenarios</h2>");
        for (name, text) in scenarios {
            page.html(&folded(name, text));
        }
    }
    page.finish()
}

/// What was run against the kernel, and what is different there.
fn add_kernel(page: &mut Page, kernel: &KernelPart) {
    page.html(&format!(
        "<p>{}. A claim's verdict is the kernel's; the simulator's number and verdict on the same stack stand beside it. \
         In charts and tables each case stands twice, as <b>(kernel)</b> and as <b>(simulator)</b>.</p>",
        escape(&kernel.ran())
    ));
    for (title, lines) in kernel.lists() {
        if !lines.is_empty() {
            let items: String = lines.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
            page.html(&format!("<p>{}:</p><ul>{items}</ul>", escape(title)));
        }
    }
}

fn add_figure(page: &mut Page, figure: &Figure) {
    page.html(&format!(
        "<h2>{} <span class=\"soft\">({})</span></h2>",
        escape(&figure.title),
        escape(&figure.id)
    ));
    if !figure.claims.is_empty() {
        page.html(&claim_table(&figure.claims));
    }
    for surface in Surface::of(figure) {
        page.chart(&surface.chart(), &format!("{}: {}", figure.title, surface.spoken()), &surface.caption());
    }
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for row in &figure.rows {
        let metric = (row.metric.as_str(), row.unit.as_str());
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    for (metric, unit) in metrics {
        for (stack, part) in by_stack(figure, metric) {
            let told = part.rows.iter().any(|row| row.metric == metric && row.paper.is_some());
            let sweep = part.rows.iter().any(|row| row.metric == metric && row.x.is_some());
            let caption = format!(
                "<b>{}</b>{}, mean of {} {}. Whiskers: 95 % intervals.{}{}",
                escape(metric),
                stack.map_or_else(String::new, |stack| format!(" ({})", escape(stack))),
                figure.seeds,
                if figure.seeds == 1 { "seed" } else { "seeds" },
                if told { " Open diamonds: the paper." } else { "" },
                if sweep {
                    " Cases are drawn a little aside of their x, so that whiskers do not cover each other."
                } else {
                    ""
                },
            );
            page.chart(
                &charts::paper_figure(&part, metric, unit),
                &format!("{}: {metric}", figure.title),
                &caption,
            );
        }
    }
    page.html(&row_table(figure));
}

/// Splits the figure so that each part makes a legible chart. It stays whole for up to six lines; beyond
/// that, each stack (the text in brackets after a case's name) is a part of its own.
fn by_stack<'a>(figure: &'a Figure, metric: &str) -> Vec<(Option<&'a str>, Figure)> {
    let of_case = |case: &'a str| case.split_once(" [").and_then(|(_, stack)| stack.strip_suffix(']'));
    let rows = || figure.rows.iter().filter(|row| row.metric == metric && row.x.is_some());
    let (mut cases, mut stacks) = (Vec::new(), Vec::new());
    for row in rows() {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
        let stack = of_case(&row.case);
        if !stacks.contains(&stack) {
            stacks.push(stack);
        }
    }
    if cases.len() <= 6 || stacks.len() < 2 {
        return vec![(None, figure.clone())];
    }
    stacks
        .into_iter()
        .map(|stack| {
            let rows = rows().filter(|row| of_case(&row.case) == stack).cloned().collect();
            (stack, Figure { rows, ..figure.clone() })
        })
        .collect()
}

fn claim_table(claims: &[Claim]) -> String {
    let beside = claims.iter().any(|claim| claim.simulated.is_some());
    let number = |value: Option<f64>| value.map_or_else(|| format::MISSING.to_owned(), format::number);
    let with_interval = |value: Option<f64>, ci95: Option<[f64; 2]>| {
        number(value)
            + &ci95.map_or_else(String::new, |[low, high]| format!("<br>{}", format::interval(low, high)))
    };
    let verdict = |holds: Option<bool>, measured: Option<f64>| match Verdict::of(holds, measured) {
        Verdict::Holds => "<span class=\"holds\">✓ holds</span>",
        Verdict::DoesNotHold => "<span class=\"fails\">✗ does not hold</span>",
        Verdict::Undecided => "<span class=\"soft name\">? undecided</span>",
        Verdict::NotMeasured => "<span class=\"soft name\">? not measured</span>",
    };
    let rows: Vec<Vec<String>> = claims
        .iter()
        .map(|claim| {
            let mut row = vec![
                escape(&claim.text),
                verdict(claim.holds, claim.measured).to_owned(),
                number(claim.paper),
                with_interval(claim.measured, claim.ci95),
            ];
            if beside {
                let simulated = claim.simulated.clone().unwrap_or_default();
                row.push(with_interval(simulated.measured, simulated.ci95));
                row.push(verdict(simulated.holds, simulated.measured).to_owned());
            }
            row.push(escape(&claim.criterion));
            row
        })
        .collect();
    if beside {
        let head =
            ["claim", "on the kernel", "paper", "kernel", "simulator", "simulated", "how it is judged"];
        return table(&head, &rows, &[0, 1, 5, 6]);
    }
    table(&["claim", "verdict", "paper", "measured", "how it is judged"], &rows, &[0, 1, 4])
}

fn row_table(figure: &Figure) -> String {
    let rows: Vec<Vec<String>> = figure
        .rows
        .iter()
        .map(|row| {
            vec![
                escape(&row.case),
                escape(&row.metric),
                row.x.map_or_else(String::new, format::number),
                row.paper.map_or_else(
                    || format::MISSING.to_owned(),
                    |paper| escape(&format::with_unit(paper, &row.unit)),
                ),
                escape(&format::with_unit(row.measured, &row.unit)),
                row.ci95
                    .map_or_else(|| format::MISSING.to_owned(), |[low, high]| format::interval(low, high)),
            ]
        })
        .collect();
    let x = if figure.x_label.is_empty() { "x".to_owned() } else { escape(&figure.x_label) };
    let inner = table(&["case", "metric", &x, "paper", "measured", "95 % interval"], &rows, &[0, 1]);
    format!("<details><summary>All numbers</summary>{inner}</details>")
}
