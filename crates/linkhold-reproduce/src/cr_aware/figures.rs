//! What varies in each figure, and its rows.

use linkhold_results::{FigureRow, FlowSeries, RunRecord};

use crate::figure::{row, row_of, rows_of, timeouts};
use crate::grid::{Grid, Point, Variant};

/// The paper's TCP, NewReno in user space, with what the scenario assumes of the radio.
pub(super) const PAPER_STACK: &str = "NewReno";

/// Bytes of user data in a full segment (section 5.1), which the paper counts packets by.
pub(super) const SEGMENT: f64 = 95.0;

fn variant(stack: &str, set: &[&str]) -> Variant {
    Variant {
        stack: stack.to_owned(),
        direction: "uplink",
        set: set.iter().map(|&key| key.to_owned()).collect(),
        ..Variant::default()
    }
}

/// Today's TCP: CUBIC with SACK and RACK, RTO from 200 ms.
const TODAY: &[&str] = &[
    "tcp.profile=\"linux\"",
    "tcp.congestion=\"cubic\"",
    "tcp.recovery=\"rack-tlp\"",
    "tcp.delayed_ack=\"linux\"",
];

pub(super) fn papers_stack_and_todays(quick: bool) -> Vec<Variant> {
    let mut all = vec![variant(PAPER_STACK, &[])];
    if !quick {
        all.push(variant("linux", TODAY));
    }
    all
}

/// The stacks, and beside them what the paper leaves open, each changed alone.
pub(super) fn assumptions(quick: bool) -> Vec<Variant> {
    let mut all = papers_stack_and_todays(quick);
    if !quick {
        for (name, key) in [
            ("NewReno, 1 % of frames lost", "radio.ieee802154.frame_loss=0.01"),
            ("NewReno, 20 % of frames lost", "radio.ieee802154.frame_loss=0.2"),
            ("NewReno, MAC acknowledges", "radio.ieee802154.acknowledged=true"),
            ("NewReno, processing 5 ms", "radio.ieee802154.processing_time=\"5ms\""),
            ("NewReno, station does not hear the PU", "radio.primary_user.heard_by=\"base-station\""),
            ("NewReno, base station does not hear the PU", "radio.primary_user.heard_by=\"stations\""),
            ("NewReno, T_idle 0.1 s", "radio.primary_user.overhear.idle_time=\"100ms\""),
            ("NewReno, copies kept 60 s", "local-resend.keep_for=\"60s\""),
            ("NewReno, copies sent up to 10 times", "local-resend.tries=10"),
            ("NewReno, copies 300 ms apart", "local-resend.guard=\"300ms\""),
        ] {
            all.push(variant(name, &[key]));
        }
    }
    all
}

fn delivered(run: &RunRecord) -> f64 {
    run.flows.iter().map(|flow| flow.bytes as f64).sum::<f64>() / SEGMENT
}

/// Full segments delivered in order, by seed.
pub(super) fn packets(point: &Point) -> Vec<f64> {
    point.values(delivered)
}

pub(super) fn goodput_rows(grid: &Grid) -> Vec<FigureRow> {
    let mut rows = rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "goodput", "B/s", |run| run.totals.goodput_bps / 8.0),
            row(variant, point, "packets delivered", "", delivered),
            row(variant, point, "retransmissions", "", |run| run.totals.retransmits as f64),
            row(variant, point, "timeouts", "", timeouts),
        ]
    });
    for (case, delivered) in [("newreno", 26.0), ("phy-lr", 163.0)] {
        let case = format!("{case} [{PAPER_STACK}]");
        for row in rows.iter_mut().filter(|row| row.case == case && row.metric.ends_with("packets delivered"))
        {
            row.paper = Some(delivered);
        }
    }
    rows
}

/// End of each interval of `flow`'s series, s, and the full segments delivered up to it. A series halves its
/// resolution when it is full, so an interval of a long run lasts several seconds.
fn sequence(flow: &FlowSeries) -> Vec<(f64, f64)> {
    let begins = core::iter::once(&0.0).chain(&flow.t_s);
    let intervals = begins.zip(&flow.t_s).zip(&flow.goodput_bps);
    let up_to = |bytes: &mut f64, ((begin, end), bps): ((&f64, &f64), &f64)| {
        *bytes += bps * (end - begin) / 8.0;
        Some((*end, *bytes / SEGMENT))
    };
    intervals.scan(0.0, up_to).collect()
}

/// Packets delivered up to each minute.
pub(super) fn sequence_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let flows = point.runs.iter().filter_map(|(_, series)| series.flows.first());
        let sequences: Vec<_> = flows.map(sequence).collect();
        let Some(first) = sequences.first() else { return Vec::new() };
        let minutes = first.iter().enumerate().filter(|(_, (t, _))| (t / 60.0).fract() < 1e-9);
        minutes
            .map(|(index, &(t, _))| {
                let up_to_now = sequences.iter().filter_map(|sequence| sequence.get(index));
                let packets: Vec<f64> = up_to_now.map(|&(_, packets)| packets).collect();
                let row = row_of(variant, point, "packets delivered", "", &packets);
                FigureRow { x: Some(t), ..row }
            })
            .collect()
    })
}
