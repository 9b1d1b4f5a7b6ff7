//! Made-up results for tests and for looking at the reports (`examples/sample_report.rs`).

use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::mechanism::{Metrics, Place};
use linkhold_core::packet::StationId;
use linkhold_core::time::Duration;

use crate::delay::{DelayHistogram, PooledDelays};
use crate::mesh::{MapFrame, MapUser, MeshMaps};
use crate::record::{
    Claim, Figure, FigureRow, FlowDirection, FlowRecord, LinkRecord, MechanismRecord, Program,
    ReproduceReport, RunRecord, RunReport, RunTotals, ScenarioInfo, Stack,
};
use crate::series::{FlowSeries, RouterSeries, RunSeries, SilenceRecord};
use crate::stats::compare;
use crate::traffic::{FlowTransport, MediaRecord, QuicRecord, UdpRecord, WebRecord};

/// Simulated time of the made-up runs, s.
const SECONDS: u32 = 60;

/// A number in [0, 1) that looks random and depends on `a` and `b` only.
fn noise(a: u64, b: u64) -> f64 {
    let mixed =
        (a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xbf58_476d_1ce4_e5b9)).rotate_left(31);
    (mixed.wrapping_mul(0x94d0_49bb_1331_11eb) >> 11) as f64 / (1_u64 << 53) as f64
}

fn program() -> Program {
    Program::new("9.8.7", "0123456789ab")
}

/// A report on three cases with `seeds` seeds each, and the series of its runs.
#[must_use]
pub fn run(seeds: u64) -> (RunReport, Vec<RunSeries>) {
    let mut runs = Vec::new();
    let mut series = Vec::new();
    for (index, (case, share)) in [("none", 0.83), ("hold", 0.93), ("dsasync", 0.975)].into_iter().enumerate()
    {
        for seed in 1..=seeds {
            let (record, over_time) = one(case, index as u64, share, seed);
            runs.push(record);
            series.push(over_time);
        }
    }
    let scenario = ScenarioInfo {
        name: "made-up <sample>".into(),
        description: "A laptop downloads over a cognitive radio that a licensed user interrupts.".into(),
        file: "scenarios/sample.toml".into(),
        duration_s: f64::from(SECONDS),
        warm_up_s: 0.0,
        overrides: vec!["router.limit=200pkt".into()],
        facts: vec![
            "one station on a shared channel of 24 Mbit/s, MAC efficiency 0.65".into(),
            "a primary user: bursts of 0.2 s on average, 0.8 s apart on average".into(),
            "a sensing quiet period of 25 ms every 0.5 s, announced".into(),
            "wired part: 100 Mbit/s, 50 ms base round trip".into(),
            "router queue: FIFO of 100 packets; TCP: Linux profile, CUBIC".into(),
        ],
    };
    let comparison = compare(&runs, None);
    (RunReport::new(program(), scenario, runs, comparison), series)
}

fn one(case: &str, index: u64, share: f64, seed: u64) -> (RunRecord, RunSeries) {
    let limit = 11.4e6 * (1.0 + 0.05 * (noise(seed, 77) - 0.5));
    let silences = silences(seed);
    let silent = |t: f64| silences.iter().any(|s| s.start_s < t && t <= s.end_s);
    let mut flow = FlowSeries::new(0, FlowDirection::Downlink);
    let mut router = RouterSeries::default();
    let mut cwnd = 30_000.0;
    for step in 1..=SECONDS * 4 {
        let t = f64::from(step) / 4.0;
        let wobble = noise(seed * 1000 + u64::from(step), 5);
        cwnd = if index == 0 && wobble > 0.96 { cwnd * 0.4 } else { (cwnd + 4_000.0_f64).min(180_000.0) };
        let rate = limit * share * (0.8 + 0.4 * wobble) * if silent(t) { 0.3 } else { 1.05 };
        flow.t_s.push(t);
        flow.goodput_bps.push(rate);
        flow.cwnd_bytes.push(cwnd);
        flow.ssthresh_bytes.push(if step < 20 { f64::NAN } else { cwnd * 0.7 });
        flow.rtt_s.push(0.06 + 0.05 * wobble);
        flow.in_flight_bytes.push(cwnd * 0.9);
        flow.rto_events.push(0);
        router.t_s.push(t);
        router.goodput_bps.push(rate);
        router.limit_bps.push(limit * if silent(t) { 0.4 } else { 1.1 });
        router.held_bytes.push(if index > 0 && silent(t) { 90_000.0 * wobble } else { 0.0 });
        router.queue_bytes.push(60_000.0 * wobble);
    }
    let mut delays = DelayHistogram::new();
    let mut outside = DelayHistogram::new();
    for n in 0..4000 {
        let base = 0.03 + 0.05 * noise(n, seed + index * 31);
        let extra = if n % 20 == 0 { 0.2 * noise(n, 3) * (1.0 + 1.5 / (1.0 + index as f64)) } else { 0.0 };
        delays.record(Duration::from_secs_f64(base + extra));
        if n % 20 != 0 {
            outside.record(Duration::from_secs_f64(base));
        }
    }
    let link = LinkRecord {
        silent_fraction: 0.25 + 1e-5 * noise(seed, 78),
        capacity_mean_bps: 18e6,
        goodput_limit_bps: limit,
        silences: silences.len() as u64,
        station_silent_fraction: vec![0.25],
        queue_drops: 40,
        queue_marks: 0,
        air_losses: 0,
        told: None,
        energy: None,
        uplink: None,
        mesh: None,
    };
    let goodput = limit * (share + 0.02 * (noise(seed, index) - 0.5));
    let mut record = FlowRecord {
        goodput_bps: goodput,
        retransmit_bps: 3e4,
        retransmits: (120.0 * (1.02 - share) + 10.0 * noise(seed, 9)) as u64,
        rto_events: Some(if index == 0 { 3 + seed % 3 } else { 0 }),
        bytes: (goodput * f64::from(SECONDS) / 8.0) as u64,
        active_s: f64::from(SECONDS),
        resume_p50_s: Some(0.02),
        ..FlowRecord::default()
    };
    record.set_delays(&delays, &outside);
    let flows = vec![record];
    let mut pooled = PooledDelays::default();
    pooled.add(&delays, &outside);
    let totals = RunTotals::new(&flows, f64::from(SECONDS), &link, &pooled);
    let run = RunRecord {
        case: case.into(),
        seed,
        stack: Stack::Simulated,
        sim_s: f64::from(SECONDS),
        wall_s: 0.05,
        events: 123_456,
        flows,
        link,
        totals,
        mechanisms: (index > 0)
            .then(|| {
                let metrics = Metrics { holds: 400, ..Metrics::default() };
                MechanismRecord::new(case, Place::BaseStation, &metrics)
            })
            .into_iter()
            .collect(),
    };
    let over_time = RunSeries {
        case: case.into(),
        seed,
        flows: vec![flow],
        router,
        mesh: None,
        silences,
        delays,
        delays_outside_silence: outside,
    };
    (run, over_time)
}

/// Gives every run of a report datagrams, a player and pages.
pub fn with_traffic(report: &mut RunReport) {
    for (index, run) in report.runs.iter_mut().enumerate() {
        let udp =
            UdpRecord { sent: 1010, delivered: 980, lost: 20, inside: 10, reordered: 3, jitter_s: 0.002 };
        let media = MediaRecord {
            startup_s: Some(1.25),
            stalls: 3 + index as u64 % 2,
            stalled_s: 4.5,
            played_bytes: 1_000_000,
            buffered_bytes: 20_000,
            lost_bytes: 5_000,
            late_bytes: 400,
        };
        let web = WebRecord { pages: 17, objects: 90, page_mean_s: 0.9, page_p50_s: 0.7, page_p95_s: 2.5 };
        if let Some(flow) = run.flows.first_mut() {
            flow.transport = FlowTransport::Udp;
            flow.udp = Some(udp.clone());
            flow.media = Some(media.clone());
            flow.web = Some(web.clone());
        }
        run.totals.udp = Some(udp);
        run.totals.media = Some(media);
        run.totals.web = Some(web);
    }
}

/// Gives the case "hold" a radio of its own: twice the rate, and silent for longer.
pub fn with_a_case_of_twice_the_rate(report: &mut RunReport) {
    for run in report.runs.iter_mut().filter(|run| run.case == "hold") {
        run.link.goodput_limit_bps *= 2.0;
        run.link.capacity_mean_bps *= 2.0;
        run.link.silent_fraction = 0.4;
    }
}

/// Makes the first flow of every run one of QUIC.
pub fn with_quic(report: &mut RunReport) {
    for run in &mut report.runs {
        let udp = UdpRecord { sent: 990, delivered: 975, lost: 10, inside: 5, reordered: 0, jitter_s: 0.003 };
        let quic = QuicRecord {
            sent: 1000,
            declared_lost: 25,
            spurious: 15,
            congestion_events: 7,
            persistent_congestion: 1,
            probe_timeouts: 41,
            rtt_s: 0.0625,
        };
        if let Some(flow) = run.flows.first_mut() {
            flow.transport = FlowTransport::Quic;
            flow.udp = Some(udp.clone());
            flow.quic = Some(quic.clone());
        }
        run.totals.udp = Some(udp);
        run.totals.quic = Some(quic);
    }
}

fn silences(seed: u64) -> Vec<SilenceRecord> {
    let mut all = Vec::new();
    for n in 0..SECONDS {
        let start_s = f64::from(n) + 0.7 * noise(seed, u64::from(n));
        let end_s = start_s + 0.4 * noise(seed + 99, u64::from(n));
        all.push(SilenceRecord { start_s, end_s, cause: Cause::PrimaryUser, scope: Scope::Network });
        let start_s = f64::from(n) + 0.95;
        let scope = Scope::Station(StationId(0));
        all.push(SilenceRecord { start_s, end_s: start_s + 0.025, cause: Cause::Sensing, scope });
    }
    all
}

/// A report on two figures, one with an x axis and one without, and a study without claims.
#[must_use]
pub fn reproduce() -> ReproduceReport {
    let mut sweep = Figure {
        id: "dsasync/fig7".into(),
        title: "Goodput against channel utilisation".into(),
        seeds: 10,
        x_label: "primary-user utilisation (%)".into(),
        claims: vec![Claim {
            text: "DSASync gains more the busier the primary user is (section VI-C)".into(),
            paper: Some(1.8),
            measured: Some(1.74),
            ci95: Some([1.7, 1.78]),
            unit: "times".into(),
            holds: Some(true),
            criterion: "holds if within 10 % of the paper's number; in times".into(),
            simulated: None,
        }],
        ..Figure::default()
    };
    for (case, slope) in [("none, linux-2009, 3 ms", 0.16), ("dsasync, linux-2009, 3 ms", 0.11)] {
        for x in [0.0, 10.0, 20.0, 30.0, 40.0] {
            let measured = 14.0 - slope * x;
            sweep.rows.push(FigureRow {
                case: case.into(),
                metric: "goodput".into(),
                unit: "Mbit/s".into(),
                x: Some(x),
                paper: (x == 20.0 || x == 40.0).then_some(measured * 0.96),
                measured,
                ci95: Some([measured - 0.3, measured + 0.3]),
            });
        }
    }
    let mut bars = Figure {
        id: "dsasync/fig4".into(),
        title: "One client, downlink".into(),
        seeds: 10,
        claims: vec![
            Claim {
                text: "goodput rises by 10 % (section VI-C)".into(),
                paper: Some(1.10),
                measured: Some(1.02),
                ci95: None,
                unit: "times".into(),
                holds: Some(false),
                criterion: "holds if at least 1.08; in times".into(),
                simulated: None,
            },
            Claim {
                text: "goodput rises by 10 % on the uplink (section VI-C)".into(),
                paper: Some(10.0),
                measured: Some(-18.7),
                ci95: Some([-60.0, 23.0]),
                unit: "%".into(),
                holds: None,
                criterion: "holds if within 20 % of the paper's number; in %".into(),
                simulated: None,
            },
        ],
        ..Figure::default()
    };
    for (case, measured, paper) in
        [("none", 12.1, Some(12.0)), ("hold", 12.2, None), ("dsasync", 12.4, Some(13.2))]
    {
        bars.rows.push(FigureRow {
            case: case.into(),
            metric: "goodput".into(),
            unit: "Mbit/s".into(),
            x: None,
            paper,
            measured,
            ci95: Some([measured - 0.2, measured + 0.2]),
        });
    }
    let study = Figure {
        id: "dsasync/sensitivity".into(),
        title: "What the assumptions decide".into(),
        seeds: 10,
        rows: vec![FigureRow {
            case: "none".into(),
            metric: "gain".into(),
            unit: "%".into(),
            ..FigureRow::default()
        }],
        ..Figure::default()
    };
    ReproduceReport::new(program(), vec![bars, sweep, study])
}

/// The report of [`reproduce`] as if its first figure had been run against a kernel.
#[must_use]
pub fn reproduce_on_a_kernel() -> ReproduceReport {
    let mut report = reproduce();
    report.figures.truncate(1);
    for (index, claim) in report.figures.iter_mut().flat_map(|figure| &mut figure.claims).enumerate() {
        claim.simulated = Some(crate::kernel::Simulated {
            measured: Some(1.12),
            ci95: Some([1.1, 1.14]),
            holds: (index == 0).then_some(true),
            seeds: 10,
        });
    }
    report.kernel = Some(crate::kernel::KernelPart {
        release: "6.18.0".into(),
        judged_on: "linux, 3 ms".into(),
        runs: 12,
        repeated: 3,
        told: vec!["Each silence is told at once.".into()],
        left_out: vec!["dsasync/fig8, linux, 3 ms, DCF: the reason".into()],
        missing: vec!["hold, cubic, seed 2: this host was too slow".into()],
    });
    report
}

/// A figure with two parameters: curves with a number in their names. Its greatest value lies inside, at 0.2
/// s and T_p 0.6 s; its rows come in no order.
#[must_use]
pub fn surface() -> Figure {
    let mut figure = Figure {
        id: "crahn/fig2".into(),
        title: "Throughput by sensing and transmitting time".into(),
        seeds: 5,
        x_label: "sensing time (s)".into(),
        ..Figure::default()
    };
    for transmitting in [3.0, 0.2, 1.0, 0.6, 2.0_f64] {
        for sensing in [0.2, 0.05, 1.0, 0.025, 0.5, 0.1_f64] {
            let away = (sensing / 0.2).ln().powi(2) * 0.4 + (transmitting / 0.6).ln().powi(2) * 0.3;
            let row = |metric: &str, unit: &str, measured: f64| FigureRow {
                case: format!("newreno [T_p {transmitting} s]"),
                metric: metric.into(),
                unit: unit.into(),
                x: Some(sensing),
                paper: None,
                measured,
                ci95: Some([measured * 0.95, measured * 1.05]),
            };
            figure.rows.push(row("mesh throughput", "kbit/s", 420.0 / (1.0 + away)));
            figure.rows.push(row("mesh timeouts", "1/s", 0.05 * (1.0 + away)));
        }
    }
    figure
}

/// Gives every run a mesh: `nodes` nodes that move, three routes that hop from node to node, and six primary
/// users on three bands.
pub fn with_mesh(series: &mut [RunSeries], nodes: u32, frames: u32) {
    let users = (0..6_u32).map(|user| MapUser {
        x: 700.0 * noise(u64::from(user), 101),
        y: 500.0 * noise(u64::from(user), 102),
        band: user % 3,
        range_m: 180.0,
    });
    let users: Vec<MapUser> = users.collect();
    let last = nodes.saturating_sub(1);
    let pairs = vec![(0, last), (1, last), (last, 2)];
    for run in series {
        let frame = |step: u32| {
            let walk = |node: u32, axis: u64| {
                let (start, end) = (noise(u64::from(node), axis), noise(u64::from(node), axis + 9));
                start + (end - start) * f64::from(step) / f64::from(frames.max(1))
            };
            // No route is known at the start, and later one breaks off now and then.
            let path = |&(from, to): &(u32, u32)| match step {
                0 => vec![from],
                step if step % 7 == 3 => vec![from, (from + step) % nodes.max(1)],
                step => vec![from, (step * 3 + from + 3) % nodes.max(1), to],
            };
            MapFrame {
                t_s: f64::from(step) * 0.5,
                band: step / 10 % 3,
                silent: step % 5 == 4,
                nodes: (0..nodes).map(|node| (700.0 * walk(node, 7), 500.0 * walk(node, 8))).collect(),
                users_on: (0..6).map(|user| noise(user, u64::from(step / 3) + run.seed) > 0.5).collect(),
                paths: pairs.iter().map(path).collect(),
            }
        };
        run.mesh = Some(MeshMaps {
            width_m: 700.0,
            height_m: 500.0,
            transmission_range_m: 250.0,
            users: users.clone(),
            pairs: pairs.clone(),
            frames: (0..frames).map(frame).collect(),
        });
    }
}
