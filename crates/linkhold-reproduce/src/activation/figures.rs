//! What varies in each figure, and its rows.

use linkhold_radio::PhyRate;
use linkhold_results::{FigureRow, FlowRecord, RunRecord};

use crate::figure::{Metric, metric_rows, rows_of, timeouts};
use crate::grid::{Grid, Variant};

/// The paper's TCP.
pub(super) const CLASSIC: &str = "classic Reno";
/// The paper's TCP on the generated walk, on which its claims are tested.
pub(super) const PAPER_STACK: &str = "classic Reno, walk";
/// Today's TCP.
pub(super) const TODAY: &str = "linux";

/// What a gate is told in the figure `signal` where a claim is about it.
pub(super) const EXACT: &str = "exact, at once";
pub(super) const LATE: &str = "exact, 100ms late";
pub(super) const WRONG: &str = "at once, error 3dB";
/// As a radio tells it: the defaults of `[radio.snr]`.
pub(super) const REAL: &str = "error 1dB, 50ms late";

/// What today's TCP does by itself.
const TODAY_KEYS: [&str; 4] = [
    "tcp.profile=\"linux\"",
    "tcp.congestion=\"cubic\"",
    "tcp.recovery=\"rack-tlp\"",
    "tcp.receive_buffer=\"64KiB\"",
];
const AUTOTUNE: &str = "tcp.receive_autotune=\"6MiB\"";

/// The measured link, if its file is there: it is not part of the project.
pub(super) const MEASURED: &str = "wifi-link-s1_s4.csv";

/// The SNR's sources: name, and keys to change.
fn sources() -> Vec<(&'static str, Vec<String>)> {
    let set = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
    let mut sources = vec![
        ("walk", Vec::new()),
        // 10 dB on average, as deep as Rayleigh fading goes.
        (
            "standing in Rayleigh fading",
            set(&[
                "radio.snr.walk.near=\"10m\"",
                "radio.snr.walk.far=\"10m\"",
                "radio.snr.walk.speed=\"0m/s\"",
                "radio.snr.walk.fading=\"rayleigh\"",
            ]),
        ),
    ];
    let here = std::env::var("LINKHOLD_DATA")
        .is_ok_and(|folder| std::path::Path::new(&folder).join(MEASURED).is_file());
    if here {
        let mut keys = set(&[
            "radio.snr.walk=\"none\"",
            "radio.snr.time_column=\"timestamp\"",
            // What the receiver of the data hears of its sender.
            "radio.snr.snr_column=\"receiver_sender_SNR\"",
            "radio.snr.random_start=true",
        ]);
        keys.push(format!("radio.snr.trace=\"${{LINKHOLD_DATA}}/{MEASURED}\""));
        sources.push(("measured link", keys));
    }
    sources
}

/// The stacks: name, and keys to change.
fn stacks(quick: bool) -> Vec<(&'static str, Vec<String>)> {
    let mut stacks = vec![(CLASSIC, Vec::new())];
    if !quick {
        let keys = TODAY_KEYS.iter().chain([&AUTOTUNE]).map(|&key| key.to_owned());
        stacks.push((TODAY, keys.collect()));
    }
    stacks
}

fn variant(stack: String, set: Vec<String>) -> Variant {
    Variant { stack, direction: "uplink", set, ..Variant::default() }
}

/// Each stack on each source; quick: the paper's on the walk.
pub(super) fn on_every_source(quick: bool) -> Vec<Variant> {
    let mut all = Vec::new();
    for (source, keys) in sources().into_iter().take(if quick { 1 } else { usize::MAX }) {
        for (stack, more) in stacks(quick) {
            all.push(variant(format!("{stack}, {source}"), keys.iter().cloned().chain(more).collect()));
        }
    }
    if !quick {
        let wide = vec!["tcp.receive_buffer=\"64KiB\"".to_owned()];
        all.push(variant(format!("{PAPER_STACK}, window of 64 KiB"), wide));
    }
    all
}

/// Each stack on the walk.
pub(super) fn on_the_walk(quick: bool) -> Vec<Variant> {
    let stack = |(stack, keys): (&str, Vec<String>)| variant(format!("{stack}, walk"), keys);
    stacks(quick).into_iter().map(stack).collect()
}

/// Both stacks on the walk, quick or not: each has claims.
pub(super) fn both_on_the_walk(_quick: bool) -> Vec<Variant> {
    on_the_walk(false)
}

/// What a gate may be told: later and later, more and more wrongly, both as a real radio has it, and of a
/// signal that changes faster than samples come. Quick: what the claims are about.
pub(super) fn signals(quick: bool) -> Vec<Variant> {
    let late = |delay: &str| (format!("exact, {delay} late"), vec![format!("radio.snr.delay=\"{delay}\"")]);
    let wrong =
        |error: &str| (format!("at once, error {error}"), vec![format!("radio.snr.error=\"{error}\"")]);
    let real = vec!["radio.snr.delay=\"50ms\"".to_owned(), "radio.snr.error=\"1dB\"".to_owned()];
    let fast = "radio.snr.walk.doppler=\"9.8Hz\"".to_owned();
    let both = real.iter().cloned().chain([fast.clone()]).collect();
    let mut told: Vec<(String, Vec<String>)> = vec![
        (EXACT.to_owned(), Vec::new()),
        late("100ms"),
        late("300ms"),
        late("1s"),
        wrong("1dB"),
        wrong("3dB"),
        (REAL.to_owned(), real),
        (format!("{EXACT}, fading at 9.8 Hz"), vec![fast]),
        (format!("{REAL}, fading at 9.8 Hz"), both),
    ];
    if quick {
        told.retain(|(name, _)| [EXACT, LATE, WRONG, REAL].contains(&name.as_str()));
    }
    let mut all = Vec::new();
    for (stack, more) in stacks(false) {
        for (name, keys) in &told {
            all.push(variant(format!("{stack}, {name}"), keys.iter().cloned().chain(more.clone()).collect()));
        }
    }
    all
}

/// The transfer.
fn flow(run: &RunRecord) -> FlowRecord {
    run.flows.first().cloned().unwrap_or_default()
}

/// The paper's connection time, s. A transfer that did not end counts as the whole run, which is too short.
pub(super) fn connection_time(run: &RunRecord) -> f64 {
    let flow = flow(run);
    flow.completion_s.unwrap_or(run.sim_s - flow.start_s)
}

/// The paper's throughput, kB/s: what the receiver's TCP got, over the connection's time.
pub(super) fn throughput(run: &RunRecord) -> f64 {
    flow(run).bytes as f64 / connection_time(run) / 1e3
}

/// The paper's overhead, %: payload bytes sent beyond those of the file, over those of the file.
pub(super) fn overhead(run: &RunRecord) -> f64 {
    let flow = flow(run);
    100.0 * flow.retransmit_bps * flow.active_s / 8.0 / flow.bytes as f64
}

/// Rows of every metric.
fn rows(grid: &Grid, metrics: &[Metric]) -> Vec<FigureRow> {
    rows_of(grid, |variant, point| metric_rows(variant, point, metrics))
}

fn unfinished(run: &RunRecord) -> f64 {
    f64::from(u8::from(flow(run).completion_s.is_none()))
}

/// Times that the gate shut.
fn shut(run: &RunRecord) -> f64 {
    run.mechanisms.first().map_or(0.0, |gate| gate.counter("silences") as f64)
}

/// Energy of the station's radio for each byte delivered, uJ.
fn energy(run: &RunRecord) -> f64 {
    run.link.energy.as_ref().map_or(f64::NAN, |energy| 1e6 * energy.j_per_byte)
}

const TRANSFER: &[Metric] = &[
    ("throughput", "kB/s", throughput),
    ("connection time", "s", connection_time),
    ("overhead", "%", overhead),
    ("energy", "uJ/B", energy),
    ("timeouts", "", timeouts),
    ("times shut", "", shut),
    ("share unfinished", "", unfinished),
];

pub(super) fn transfer_rows(grid: &Grid) -> Vec<FigureRow> {
    rows(grid, TRANSFER)
}

pub(super) fn overhead_rows(grid: &Grid) -> Vec<FigureRow> {
    rows(
        grid,
        &[("overhead", "%", overhead), ("segments sent again", "", |run| run.totals.retransmits as f64)],
    )
}

/// Bits of the packet at which the paper reads its curve.
const PAPER_BITS: u32 = 8_000;

/// The curve of figure 3, and what the plain host's frames met.
pub(super) fn error_rate_rows(grid: &Grid) -> Vec<FigureRow> {
    let curve = (0..=20).map(|half| {
        let db = f64::from(half) / 2.0;
        FigureRow {
            case: "formula [CCK-5.5, 1000 bytes]".to_owned(),
            metric: "packet error rate".to_owned(),
            unit: String::new(),
            x: Some(db),
            paper: None,
            measured: PhyRate::Cck5.packet_error_rate(db, PAPER_BITS),
            ci95: None,
        }
    });
    let lost = |run: &RunRecord| run.link.air_losses as f64;
    curve.chain(rows(grid, &[("frames lost to noise", "", lost), ("overhead", "%", overhead)])).collect()
}
