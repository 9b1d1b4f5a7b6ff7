//! What varies in each figure, and its rows.

use linkhold_results::stats::Estimate;
use linkhold_results::{FigureRow, RunRecord};

use crate::figure::{row, rows_of, timeouts};
use crate::finding::mean;
use crate::grid::{Grid, Point, Variant};

/// The overhead's scenario, which has no silences: also figure 6's point at utilisation 0.
const UNDISTURBED_SCENARIO: &str = include_str!("../../../../reproductions/dsasync/overhead/scenario.toml");
/// Figure 4's scenario, with which the overhead and figure 8 are compared.
const ONE_CLIENT_SCENARIO: &str = include_str!("../../../../reproductions/dsasync/fig4/scenario.toml");
/// Figure 8 where radios contend by 802.11's DCF instead of taking turns.
const CONTENDING_SCENARIO: &str = include_str!("../../../../reproductions/dsasync/fig8/dcf.toml");

/// The paper's TCP stack at its own (LAN) round trip, on which its claims are tested.
pub(super) const PAPER_STACK: &str = "linux-2009, 3 ms";

/// After the stack's name: figure 4's scenario as a variant of figure 8.
pub(super) const ONE_CLIENT: &str = ", one client";
/// After the stack's name: figure 4's scenario as a variant of the overhead.
pub(super) const DISTURBED: &str = ", DSA active";

/// The stack on which the claims are tested.
pub(super) fn judged_on(grid: &Grid) -> &'static str {
    grid.judged_on.unwrap_or(PAPER_STACK)
}

/// The plain router loses its transmit queue when a silence begins. DSASync takes the queued packets back
/// before that (Algorithm 2 line 11), so only the first case, `regular`, is changed.
const FLUSH: &str = "cases.0.set={\"router.in_silence\"=\"flush\"}";

/// The cell stays on its channel while the incumbent is on, instead of switching to another.
const STAY: &str = "radio.switch_policy=\"scripted\"";

/// The TCP of today's kernel in place of the paper's.
pub(super) const TODAY: [&str; 3] =
    ["tcp.profile=\"linux\"", "tcp.receive_buffer=\"128KiB\"", "tcp.receive_autotune=\"6MiB\""];

/// The stacks and round trips of every figure: the paper's stack, and today's at 3, 50 and 100 ms.
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

/// The overhead's variants, and one that runs figure 4's scenario: the overhead is compared with the gain
/// there.
pub(super) fn overhead_variants(quick: bool) -> Vec<Variant> {
    let mut all = downlink_on_every_stack(quick);
    all.push(Variant {
        stack: format!("{PAPER_STACK}{DISTURBED}"),
        direction: "downlink",
        scenario: Some(ONE_CLIENT_SCENARIO),
        ..Variant::default()
    });
    all
}

/// Figure 7's variants: the stacks, older senders, and other conditions under which a switch might cost more
/// goodput than the change of capacity explains.
pub(super) fn switch_variants(quick: bool) -> Vec<Variant> {
    let mut all = downlink_on_every_stack(quick);
    if quick {
        return all;
    }
    let classic = |recovery: &str| {
        vec![
            "tcp.profile=\"classic\"".to_owned(),
            "tcp.congestion=\"reno\"".to_owned(),
            format!("tcp.recovery=\"{recovery}\""),
        ]
    };
    let one = |key: &str| vec![key.to_owned()];
    for (stack, set) in [
        ("NewReno, RTO floor 1 s, 3 ms".to_owned(), classic("newreno")),
        ("Reno, RTO floor 1 s, 3 ms".to_owned(), classic("reno")),
        (format!("{PAPER_STACK}, transmit queue lost at the switch"), one(FLUSH)),
        (format!("{PAPER_STACK}, switch takes 500 ms"), one("radio.switching_delay=\"500ms\"")),
        (format!("{PAPER_STACK}, queue of 20 packets"), one("router.limit=\"20pkt\"")),
        (format!("{PAPER_STACK}, queue of 1000 packets"), one("router.limit=\"1000pkt\"")),
        ("linux-2009, 10 ms".to_owned(), one("wired.rtt=\"10ms\"")),
        ("linux-2009, 50 ms".to_owned(), one("wired.rtt=\"50ms\"")),
        ("Reno, RTO floor 1 s, 10 ms, transmit queue lost at the switch".to_owned(), {
            let mut set = classic("reno");
            set.extend(["wired.rtt=\"10ms\"".to_owned(), FLUSH.to_owned()]);
            set
        }),
    ] {
        all.push(Variant { stack, direction: "downlink", set, ..Variant::default() });
    }
    all
}

pub(super) fn downlink_on_every_stack(quick: bool) -> Vec<Variant> {
    variants(quick, &["downlink"])
}

pub(super) fn both_directions_on_every_stack(quick: bool) -> Vec<Variant> {
    variants(quick, &["downlink", "uplink"])
}

/// Share of time that the incumbent has to be on so that, with 5 % sensing, the radio is silent for a share
/// `utilisation`. The two are independent, so silent = 1 - (1 - sensing)(1 - incumbent).
fn incumbent_share(utilisation: f64) -> f64 {
    1.0 - (1.0 - utilisation) / 0.95
}

/// Figure 6's x axis. The mean burst is 200 ms at every point; the pauses between bursts shrink.
const UTILISATIONS: [f64; 8] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];

pub(super) fn utilisation_sweep(quick: bool) -> Vec<Variant> {
    let mut sweep = Vec::new();
    for base in both_directions_on_every_stack(quick) {
        // The undisturbed channel is the reference for "drops significantly".
        sweep.push(Variant { x: Some(0.0), scenario: Some(UNDISTURBED_SCENARIO), ..base.clone() });
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
    // The claim "even better in a larger-scale situation" compares with figure 4.
    all.push(Variant {
        stack: format!("{PAPER_STACK}{ONE_CLIENT}"),
        direction: "downlink",
        scenario: Some(ONE_CLIENT_SCENARIO),
        ..Variant::default()
    });
    if !quick {
        for base in both_directions_on_every_stack(quick) {
            let stack = format!("{}, DCF", base.stack);
            all.push(Variant { stack, scenario: Some(CONTENDING_SCENARIO), ..base });
        }
        for (stack, set) in [
            (format!("{PAPER_STACK}, transmit queue lost too"), vec![FLUSH]),
            ("linux-2009, 10 ms".to_owned(), vec!["wired.rtt=\"10ms\""]),
            (format!("{PAPER_STACK}, stay, transmit queue lost too"), vec![FLUSH, STAY]),
            ("linux-2009, 10 ms, stay".to_owned(), vec!["wired.rtt=\"10ms\"", STAY]),
        ] {
            let set = set.into_iter().map(str::to_owned).collect();
            all.push(Variant { stack, direction: "downlink", set, ..Variant::default() });
        }
    }
    for direction in ["downlink", "uplink"] {
        all.push(Variant {
            stack: format!("{PAPER_STACK}, stay"),
            direction,
            set: vec![format!("flows.0.direction=\"{direction}\""), STAY.to_owned()],
            ..Variant::default()
        });
    }
    all
}

pub(super) fn goodput_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
            row(variant, point, "goodput share of the limit", "", |run| run.totals.limit_share),
            row(variant, point, "most bytes held", "kB", |run| held_peak(run) / 1e3),
        ]
    })
}

/// Most bytes that the case's first mechanism held; 0 for the plain router.
pub(super) fn held_peak(run: &RunRecord) -> f64 {
    run.mechanisms
        .first()
        .and_then(|mechanism| mechanism.counters.get("held_bytes_peak"))
        .map_or(0.0, |&bytes| bytes as f64)
}

pub(super) fn goodput_and_retransmission_rows(grid: &Grid) -> Vec<FigureRow> {
    let mut rows = rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
            row(variant, point, "goodput share of the limit", "", |run| run.totals.limit_share),
            row(variant, point, "retransmission rate", "Mbit/s", |run| run.totals.retransmit_bps / 1e6),
            row(variant, point, "timeouts", "", timeouts),
            row(variant, point, "p99 delay outside silences", "ms", |run| {
                run.totals.delay_p99_outside_silence_s * 1e3
            }),
        ]
    });
    // Section VI-C2 prints these two numbers for one client; the paper only draws those of figure 8.
    let single = grid.points.iter().all(|point| point.runs.iter().all(|(record, _)| record.flows.len() == 1));
    if single {
        for (case, rate) in [("regular", 3.1), ("dsasync-paper", 0.018)] {
            let case = format!("{case} [{}]", judged_on(grid));
            for row in &mut rows {
                if row.case == case && row.metric == "downlink retransmission rate" {
                    row.paper = Some(rate);
                }
            }
        }
        // "Transmission freeze periods take 25 % of the runtime" (VI-C2) is what the scenario was given, so
        // it is shown and not judged.
        let given = |variant: &Variant| variant.stack == judged_on(grid) && variant.direction == "downlink";
        if let Some(point) = grid.find("regular", given)
            && let Some(variant) = grid.variants.get(point.variant)
        {
            let mut share =
                row(variant, point, "silent share, as given", "%", |run| run.link.silent_fraction * 100.0);
            share.paper = Some(25.0);
            rows.push(share);
        }
    }
    rows
}

pub(super) fn overhead_rows(grid: &Grid) -> Vec<FigureRow> {
    let mut rows = rows_of(grid, |variant, point| {
        vec![
            row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
            row(variant, point, "mean delay", "ms", |run| run.totals.delay_mean_s * 1e3),
        ]
    });
    // The paper's two costs (VI-C1) are processing time, for which the simulator charges nothing. They are
    // shown beside what the algorithms alone cost, and not judged.
    let on_judged_stack = |case| grid.find(case, |variant| variant.stack == judged_on(grid));
    if let (Some(regular), Some(dsasync)) = (on_judged_stack("regular"), on_judged_stack("dsasync-paper"))
        && let Some(variant) = grid.variants.get(dsasync.variant)
    {
        let lost: Vec<f64> = gains_of(regular, dsasync).iter().map(|gain| -gain).collect();
        let delay = |point: &Point| point.values(|run| run.totals.delay_mean_s * 1e3);
        let added: Vec<f64> =
            delay(dsasync).iter().zip(delay(regular)).map(|(with, without)| with - without).collect();
        for (metric, unit, values, paper) in [
            ("goodput lost, processing not charged", "%", lost, 1.9),
            ("mean delay added, processing not charged", "ms", added, 1.1),
        ] {
            let estimate = Estimate::of(&values);
            let mut cost = row(variant, dsasync, metric, unit, |_| f64::NAN);
            // Adding zero turns a negative zero into a positive one.
            (cost.measured, cost.ci95, cost.paper) = (estimate.mean + 0.0, estimate.ci95, Some(paper));
            rows.push(cost);
        }
    }
    rows
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

/// Gain in goodput over `regular`, %, by seed. Each seed's difference is divided by the mean of `regular`
/// over all seeds, because the paper compares averages.
pub(super) fn gains_of(regular: &Point, other: &Point) -> Vec<f64> {
    let regular = regular.values(|run| run.totals.goodput_bps);
    let base = Estimate::of(&regular).mean;
    let other = other.values(|run| run.totals.goodput_bps);
    other.iter().zip(&regular).map(|(other, regular)| (other - regular) / base * 100.0).collect()
}

/// Figure 4's numbers under each assumption: those of regular DSA, and the gains of the other cases over it.
pub(super) fn sensitivity_rows(grid: &Grid) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| {
        if point.case == "regular" {
            let mut rows = vec![
                row(variant, point, "goodput", "Mbit/s", |run| run.totals.goodput_bps / 1e6),
                row(variant, point, "goodput share of the limit", "", |run| run.totals.limit_share),
                row(variant, point, "retransmission rate", "Mbit/s", |run| run.totals.retransmit_bps / 1e6),
                row(variant, point, "timeouts", "", timeouts),
            ];
            if variant.direction == "downlink" {
                rows[2].paper = Some(3.1);
            }
            return rows;
        }
        let same = |other: &Variant| other.stack == variant.stack && other.direction == variant.direction;
        let Some(regular) = grid.find("regular", same) else { return Vec::new() };
        let gains = Estimate::of(&gains_of(regular, point));
        let mut gain = row(variant, point, "gain over regular", "%", |_| f64::NAN);
        (gain.measured, gain.ci95) = (gains.mean, gains.ci95);
        if point.case == "dsasync-paper" {
            gain.paper = Some(if variant.direction == "downlink" { 74.0 } else { 10.0 });
        }
        vec![gain]
    })
}

/// Changes one assumption at a time that the paper leaves open; the first variant of each direction is figure
/// 4 itself.
pub(super) fn sensitivity_variants(_quick: bool) -> Vec<Variant> {
    let mut all = Vec::new();
    let mut add = |direction: &'static str, stack: &str, set: &[&str]| {
        let mut set: Vec<String> = set.iter().map(|&key| key.to_owned()).collect();
        set.push(format!("flows.0.direction=\"{direction}\""));
        all.push(Variant { stack: stack.to_owned(), direction, set, ..Variant::default() });
    };
    const CLASSIC: &str = "tcp.profile=\"classic\"";
    const RENO: &str = "tcp.congestion=\"reno\"";
    add("downlink", "as figure 4", &[]);
    for (label, on, off) in [
        ("bursts of 50 ms", "50ms", "200ms"),
        ("bursts of 1 s", "1s", "4s"),
        ("bursts of 2 s", "2s", "8s"),
        ("bursts of 5 s", "5s", "20s"),
    ] {
        let (on, off) = (
            format!("radio.primary_user.on_mean=\"{on}\""),
            format!("radio.primary_user.off_mean=\"{off}\""),
        );
        add("downlink", label, &[&on, &off]);
    }
    for rtt in ["1ms", "7ms", "10ms", "12ms", "15ms", "20ms", "50ms"] {
        let label = format!("round trip {}", rtt.replace("ms", " ms"));
        add("downlink", &label, &[&format!("wired.rtt=\"{rtt}\"")]);
    }
    add("downlink", "arrivals queue in a silence", &["router.in_silence=\"queue\""]);
    add("downlink", "transmit queue lost too", &[FLUSH]);
    add("downlink", "transmit queue lost too, 1000 packets", &[FLUSH, "router.limit=\"1000pkt\""]);
    add("downlink", "transmit queue lost too, round trip 10 ms", &[FLUSH, "wired.rtt=\"10ms\""]);
    add("downlink", "queue of 20 packets", &["router.limit=\"20pkt\""]);
    add("downlink", "incumbent detected after 20 ms", &["radio.primary_user.detection_delay=\"20ms\""]);
    add("downlink", "incumbent detected after 100 ms", &["radio.primary_user.detection_delay=\"100ms\""]);
    add(
        "downlink",
        "no undo, no F-RTO",
        &["tcp.timestamp_undo=false", "tcp.dsack_undo=false", "tcp.frto=false"],
    );
    add("downlink", "SACK, RTO floor 1 s", &[CLASSIC, RENO, "tcp.recovery=\"sack\""]);
    add("downlink", "NewReno, RTO floor 1 s", &[CLASSIC, RENO, "tcp.recovery=\"newreno\""]);
    add(
        "downlink",
        "NewReno, RTO floor 200 ms",
        &[CLASSIC, RENO, "tcp.recovery=\"newreno\"", "tcp.rto_min=\"200ms\""],
    );
    add("downlink", "Reno, RTO floor 1 s", &[CLASSIC, RENO, "tcp.recovery=\"reno\""]);
    add(
        "downlink",
        "NewReno, RTO floor 1 s, transmit queue lost too",
        &[CLASSIC, RENO, "tcp.recovery=\"newreno\"", FLUSH],
    );
    add("uplink", "as figure 4", &[]);
    add("uplink", "station drops what it cannot send", &["station.in_silence=\"drop\""]);
    add("uplink", "alpha_min 1: nothing is slowed down", &["dsasync.alpha_min=1.0"]);
    add(
        "uplink",
        "windows of 4 MiB, station queue of 3000 packets",
        &["tcp.receive_buffer=\"4MiB\"", "tcp.send_buffer=\"4MiB\"", "station.limit=\"3000pkt\""],
    );
    add("uplink", "round trip 10 ms", &["wired.rtt=\"10ms\""]);
    add("uplink", "NewReno, RTO floor 1 s", &[CLASSIC, RENO, "tcp.recovery=\"newreno\""]);
    all
}

/// Time of the channel switch in figure 7, s.
pub(super) const SWITCH_S: f64 = 5.0;

/// Mean goodput over the intervals that end in `(from, to]`, Mbit/s, by seed.
pub(super) fn mean_between(point: &Point, from: f64, to: f64) -> Vec<f64> {
    point
        .runs
        .iter()
        .map(|(_, series)| {
            let inside: Vec<f64> = series
                .router
                .t_s
                .iter()
                .zip(&series.router.goodput_bps)
                .filter(|(t, _)| **t > from + 1e-6 && **t <= to + 1e-6)
                .map(|(_, bps)| bps / 1e6)
                .collect();
            mean(&inside)
        })
        .collect()
}

/// Figure 7: goodput of each second, and goodput, losses and delay around the switch.
pub(super) fn switch_rows(grid: &Grid) -> Vec<FigureRow> {
    let mut rows = rows_of(grid, |variant, point| {
        let mut drop = row(variant, point, "goodput in the two seconds after the switch", "Mbit/s", |_| 0.0);
        let after = Estimate::of(&mean_between(point, SWITCH_S, SWITCH_S + 2.0));
        (drop.measured, drop.ci95) = (after.mean, after.ci95);
        vec![
            drop,
            row(variant, point, "retransmissions", "", |run| run.totals.retransmits as f64),
            row(variant, point, "timeouts", "", timeouts),
            row(variant, point, "p99 delay", "ms", |run| run.totals.delay_p99_s * 1e3),
        ]
    });
    rows.extend(over_time_rows(grid));
    rows
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
