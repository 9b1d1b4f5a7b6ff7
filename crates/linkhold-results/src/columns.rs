//! The columns of the case tables that only some scenarios have: datagrams, players, pages.

use crate::record::{RunReport, RunTotals};
use crate::traffic::{MediaRecord, UdpRecord, WebRecord};

/// How a column's numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A share of 1.
    Share,
    /// A number of things.
    Count,
    /// Seconds.
    Time,
}

/// A column.
pub(crate) struct Column {
    /// Its head, in two lines.
    pub head: [&'static str; 2],
    /// Its name in a sentence.
    pub name: &'static str,
    pub form: Form,
    /// Its number in one run; `None` where the run has no such flows.
    of: fn(&RunTotals) -> Option<f64>,
}

fn udp(totals: &RunTotals, of: fn(&UdpRecord) -> f64) -> Option<f64> {
    totals.udp.as_ref().map(of)
}

fn media(totals: &RunTotals, of: fn(&MediaRecord) -> f64) -> Option<f64> {
    totals.media.as_ref().map(of)
}

fn web(totals: &RunTotals, of: fn(&WebRecord) -> f64) -> Option<f64> {
    totals.web.as_ref().map(of)
}

const COLUMNS: [Column; 8] = [
    Column {
        head: ["UDP", "lost"],
        name: "share of datagrams lost",
        form: Form::Share,
        of: |totals| udp(totals, UdpRecord::loss),
    },
    Column {
        head: ["UDP", "jitter"],
        name: "jitter of datagrams",
        form: Form::Time,
        of: |totals| udp(totals, |udp| udp.jitter_s),
    },
    Column {
        head: ["media", "start-up"],
        name: "time to the first frame played",
        form: Form::Time,
        of: |totals| media(totals, |media| media.startup_s.unwrap_or(f64::NAN)),
    },
    Column {
        head: ["media", "stalls"],
        name: "stalls of the players",
        form: Form::Count,
        of: |totals| media(totals, |media| media.stalls as f64),
    },
    Column {
        head: ["media", "stalled"],
        name: "time stalled",
        form: Form::Time,
        of: |totals| media(totals, |media| media.stalled_s),
    },
    Column {
        head: ["web", "pages"],
        name: "pages",
        form: Form::Count,
        of: |totals| web(totals, |web| web.pages as f64),
    },
    Column {
        head: ["page", "p50"],
        name: "median page load time",
        form: Form::Time,
        of: |totals| web(totals, |web| web.page_p50_s),
    },
    Column {
        head: ["page", "p95"],
        name: "95th percentile of the page load time",
        form: Form::Time,
        of: |totals| web(totals, |web| web.page_p95_s),
    },
];

impl Column {
    /// The mean over the runs of `case` that have such a number; not-a-number if none has.
    pub(crate) fn mean(&self, report: &RunReport, case: &str) -> f64 {
        let numbers = report.runs_of(case).filter_map(|run| (self.of)(&run.totals));
        let finite: Vec<f64> = numbers.filter(|number| number.is_finite()).collect();
        finite.iter().sum::<f64>() / finite.len() as f64
    }
}

/// The columns that the report has something for.
pub(crate) fn present(report: &RunReport) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| report.runs.iter().any(|run| (column.of)(&run.totals).is_some()))
}
