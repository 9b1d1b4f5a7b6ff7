//! What varies in each figure, and its rows.

use linkhold_results::stats::Estimate;
use linkhold_results::{FigureRow, RunRecord};

use crate::figure::{row, rows_of};
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
            row(variant, point, "timeouts", "", |run| run.totals.rto_events as f64),
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

/// Packets delivered up to each minute.
pub(super) fn sequence_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        let Some((_, first)) = point.runs.first() else { return Vec::new() };
        let minutes = first.router.t_s.iter().enumerate().filter(|(_, t)| (**t / 60.0).fract() < 1e-9);
        let at = |index: usize| {
            let up_to_now = point.runs.iter().map(|(_, series)| {
                let flow = series.flows.first();
                let bits: f64 = flow.map_or(0.0, |flow| flow.goodput_bps.iter().take(index + 1).sum());
                bits / 8.0 / SEGMENT
            });
            Estimate::of(&up_to_now.collect::<Vec<f64>>())
        };
        minutes
            .map(|(index, &t)| {
                let estimate = at(index);
                let mut row = row(variant, point, "packets delivered", "", |_| f64::NAN);
                (row.x, row.measured, row.ci95) = (Some(t), estimate.mean, estimate.ci95);
                row
            })
            .collect()
    })
}
