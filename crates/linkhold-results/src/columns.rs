//! The columns of the case tables that only some scenarios have: whose the goodput is, what was told late or
//! wrong, datagrams, players, pages.

use crate::format;
use crate::record::{FlowDirection, FlowRecord, RunRecord, RunReport};
use crate::told::ToldRecord;
use crate::traffic::{FlowTransport, MediaRecord, QuicRecord, UdpRecord, WebRecord};

/// How a column's numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A share of 1.
    Share,
    /// A number of things.
    Count,
    /// Seconds.
    Time,
    /// bit/s.
    Rate,
}

impl Form {
    /// A number with its unit.
    pub(crate) fn text(self, number: f64) -> String {
        match self {
            Self::Share => format::percent(number),
            Self::Count => format::count(number),
            Self::Time => format::time(number),
            Self::Rate => format::rate(number),
        }
    }
}

/// How long a column stays where a table is too wide for its terminal: the lowest rank goes first, and of one
/// rank what stands further left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// What was told late or wrong.
    Told,
    Timeouts,
    Resent,
    MedianDelay,
    /// What datagrams, QUIC, players and pages have of their own.
    Traffic,
    /// The goodput of some flows.
    Part,
    /// The goodput against the baseline.
    Ratio,
    TailDelay,
    LimitShare,
}

/// A column.
pub(crate) struct Column {
    /// Its head, in two lines.
    pub head: [&'static str; 2],
    /// Its name in a sentence.
    pub name: &'static str,
    pub form: Form,
    pub rank: Rank,
    /// Its number in one run; `None` where the run has no such flows, or nobody who was told.
    of: fn(&RunRecord) -> Option<f64>,
    /// Whether the run is worth a column.
    shows: fn(&RunRecord) -> bool,
}

fn udp(run: &RunRecord, of: fn(&UdpRecord) -> f64) -> Option<f64> {
    run.totals.udp.as_ref().map(of)
}

fn quic(run: &RunRecord, of: fn(&QuicRecord) -> f64) -> Option<f64> {
    run.totals.quic.as_ref().map(of)
}

fn media(run: &RunRecord, of: fn(&MediaRecord) -> f64) -> Option<f64> {
    run.totals.media.as_ref().map(of)
}

fn web(run: &RunRecord, of: fn(&WebRecord) -> f64) -> Option<f64> {
    run.totals.web.as_ref().map(of)
}

/// A mechanism that could be told, and what there was to tell.
fn told(run: &RunRecord, of: fn(&ToldRecord) -> f64) -> Option<f64> {
    run.link.told.as_ref().filter(|_| !run.mechanisms.is_empty()).map(of)
}

/// That everything is told as it happens is said in the scenario's facts, and needs no column.
fn told_otherwise(run: &RunRecord) -> bool {
    !run.mechanisms.is_empty() && run.link.told.as_ref().is_some_and(|told| !told.is_exact())
}

/// The part of the goodput that is of such flows.
fn part(run: &RunRecord, is_such: impl Fn(&FlowRecord) -> bool) -> Option<f64> {
    let bytes = |flow: &FlowRecord| flow.bytes as f64;
    let all: f64 = run.flows.iter().map(bytes).sum();
    let such: f64 = run.flows.iter().filter(|flow| is_such(flow)).map(bytes).sum();
    let share = if all > 0.0 { such / all } else { 0.0 };
    run.flows.iter().any(&is_such).then_some(run.totals.goodput_bps * share)
}

fn of_direction(run: &RunRecord, direction: FlowDirection) -> Option<f64> {
    part(run, |flow| flow.direction == direction)
}

fn of_transport(run: &RunRecord, transport: FlowTransport) -> Option<f64> {
    part(run, |flow| flow.transport == transport)
}

/// One direction starves beside the other without moving their sum. A mesh has no directions.
fn goes_both_ways(run: &RunRecord) -> bool {
    let first = run.flows.first().map(|flow| flow.direction);
    run.link.mesh.is_none() && run.flows.iter().any(|flow| Some(flow.direction) != first)
}

/// And so does one transport beside another.
fn mixes(run: &RunRecord, transport: FlowTransport) -> bool {
    let has = |transport| run.flows.iter().any(|flow| flow.transport == transport);
    has(transport) && run.flows.iter().any(|flow| flow.transport != transport)
}

const COLUMNS: [Column; 21] = [
    Column {
        head: ["goodput", "down"],
        name: "goodput of downloads",
        form: Form::Rate,
        rank: Rank::Part,
        of: |run| of_direction(run, FlowDirection::Downlink),
        shows: goes_both_ways,
    },
    Column {
        head: ["goodput", "up"],
        name: "goodput of uploads",
        form: Form::Rate,
        rank: Rank::Part,
        of: |run| of_direction(run, FlowDirection::Uplink),
        shows: goes_both_ways,
    },
    Column {
        head: ["goodput", "TCP"],
        name: "goodput of TCP",
        form: Form::Rate,
        rank: Rank::Part,
        of: |run| of_transport(run, FlowTransport::Tcp),
        shows: |run| mixes(run, FlowTransport::Tcp),
    },
    Column {
        head: ["goodput", "UDP"],
        name: "goodput of UDP",
        form: Form::Rate,
        rank: Rank::Part,
        of: |run| of_transport(run, FlowTransport::Udp),
        shows: |run| mixes(run, FlowTransport::Udp),
    },
    Column {
        head: ["goodput", "QUIC"],
        name: "goodput of QUIC",
        form: Form::Rate,
        rank: Rank::Part,
        of: |run| of_transport(run, FlowTransport::Quic),
        shows: |run| mixes(run, FlowTransport::Quic),
    },
    Column {
        head: ["told", "late"],
        name: "mean time from a silence's start to its being told",
        form: Form::Time,
        rank: Rank::Told,
        of: |run| told(run, |told| told.start_late_mean_s.unwrap_or(f64::NAN)),
        shows: told_otherwise,
    },
    Column {
        head: ["not", "told"],
        name: "share of silences not told",
        form: Form::Share,
        rank: Rank::Told,
        of: |run| told(run, |told| told.missed as f64 / told.silences as f64),
        shows: told_otherwise,
    },
    Column {
        head: ["told", "false"],
        name: "silences told that were none",
        form: Form::Count,
        rank: Rank::Told,
        of: |run| told(run, |told| told.false_silences as f64),
        shows: told_otherwise,
    },
    Column {
        head: ["UDP", "lost"],
        name: "share of datagrams lost",
        form: Form::Share,
        rank: Rank::Traffic,
        of: |run| udp(run, UdpRecord::loss),
        shows: |run| run.totals.udp.is_some(),
    },
    Column {
        head: ["UDP", "jitter"],
        name: "jitter of datagrams",
        form: Form::Time,
        rank: Rank::Traffic,
        of: |run| udp(run, |udp| udp.jitter_s),
        shows: |run| run.totals.udp.is_some(),
    },
    Column {
        head: ["QUIC", "lost"],
        name: "share of QUIC packets declared lost",
        form: Form::Share,
        rank: Rank::Traffic,
        of: |run| quic(run, QuicRecord::loss),
        shows: |run| run.totals.quic.is_some(),
    },
    Column {
        head: ["QUIC", "spurious"],
        name: "QUIC packets declared lost that were not",
        form: Form::Count,
        rank: Rank::Traffic,
        of: |run| quic(run, |quic| quic.spurious as f64),
        shows: |run| run.totals.quic.is_some(),
    },
    Column {
        head: ["QUIC", "reductions"],
        name: "reductions of QUIC's congestion window",
        form: Form::Count,
        rank: Rank::Traffic,
        of: |run| quic(run, |quic| quic.congestion_events as f64),
        shows: |run| run.totals.quic.is_some(),
    },
    Column {
        head: ["QUIC", "PTOs"],
        name: "probe timeouts of QUIC",
        form: Form::Count,
        rank: Rank::Traffic,
        of: |run| quic(run, |quic| quic.probe_timeouts as f64),
        shows: |run| run.totals.quic.is_some(),
    },
    Column {
        head: ["QUIC", "RTT"],
        name: "smoothed round trip of QUIC",
        form: Form::Time,
        rank: Rank::Traffic,
        of: |run| quic(run, |quic| quic.rtt_s),
        shows: |run| run.totals.quic.is_some(),
    },
    Column {
        head: ["media", "start-up"],
        name: "time to the first frame played",
        form: Form::Time,
        rank: Rank::Traffic,
        of: |run| media(run, |media| media.startup_s.unwrap_or(f64::NAN)),
        shows: |run| run.totals.media.is_some(),
    },
    Column {
        head: ["media", "stalls"],
        name: "stalls of the players",
        form: Form::Count,
        rank: Rank::Traffic,
        of: |run| media(run, |media| media.stalls as f64),
        shows: |run| run.totals.media.is_some(),
    },
    Column {
        head: ["media", "stalled"],
        name: "time stalled",
        form: Form::Time,
        rank: Rank::Traffic,
        of: |run| media(run, |media| media.stalled_s),
        shows: |run| run.totals.media.is_some(),
    },
    Column {
        head: ["web", "pages"],
        name: "pages",
        form: Form::Count,
        rank: Rank::Traffic,
        of: |run| web(run, |web| web.pages as f64),
        shows: |run| run.totals.web.is_some(),
    },
    Column {
        head: ["page", "p50"],
        name: "median page load time",
        form: Form::Time,
        rank: Rank::Traffic,
        of: |run| web(run, |web| web.page_p50_s),
        shows: |run| run.totals.web.is_some(),
    },
    Column {
        head: ["page", "p95"],
        name: "95th percentile of the page load time",
        form: Form::Time,
        rank: Rank::Traffic,
        of: |run| web(run, |web| web.page_p95_s),
        shows: |run| run.totals.web.is_some(),
    },
];

impl Column {
    /// The mean over the runs of `case` that have such a number; not-a-number if none has.
    pub(crate) fn mean(&self, report: &RunReport, case: &str) -> f64 {
        let numbers = report.runs_of(case).filter_map(self.of);
        let finite: Vec<f64> = numbers.filter(|number| number.is_finite()).collect();
        finite.iter().sum::<f64>() / finite.len() as f64
    }
}

/// The columns that the report has something for.
pub(crate) fn present(report: &RunReport) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| report.runs.iter().any(column.shows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The heads and numbers of the columns of goodput, of the first case.
    fn goodputs(report: &RunReport) -> Vec<(&'static str, f64)> {
        let case = &report.runs[0].case;
        let of_goodput = present(report).filter(|column| column.form == Form::Rate);
        of_goodput.map(|column| (column.head[1], column.mean(report, case))).collect()
    }

    #[test]
    fn the_goodput_of_flows_that_may_starve_each_other_is_told_apart() {
        let (mut report, _) = crate::sample::run(2);
        assert_eq!(goodputs(&report), [], "downloads of TCP alone");
        for run in &mut report.runs {
            let mut upload = run.flows[0].clone();
            (run.totals.goodput_bps, run.flows[0].bytes) = (8e6, 300);
            (upload.bytes, upload.direction) = (100, FlowDirection::Uplink);
            run.flows = vec![run.flows[0].clone(), upload];
        }
        assert_eq!(goodputs(&report), [("down", 6e6), ("up", 2e6)]);
        for run in &mut report.runs {
            (run.flows[1].direction, run.flows[1].transport) = (FlowDirection::Downlink, FlowTransport::Udp);
        }
        assert_eq!(goodputs(&report), [("TCP", 6e6), ("UDP", 2e6)]);
        for run in &mut report.runs {
            run.flows.iter_mut().for_each(|flow| flow.bytes = 0);
        }
        assert_eq!(goodputs(&report), [("TCP", 0.0), ("UDP", 0.0)], "nothing came");
    }
}
