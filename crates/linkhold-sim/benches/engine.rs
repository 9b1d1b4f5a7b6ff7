//! Speed and memory of the simulator, each comparison within one run: `cargo bench -p linkhold-sim`.
//!
//! - events a second, ns an event, and simulated seconds per wall second for one flow at 24 Mb/s over 100 s, and
//!   for 24 flows;
//! - the same with `dsasync` in place of the plain router, as a ratio;
//! - peak memory (VmHWM) of 1000 simulated seconds against 100, as a ratio, each in a process of its own;
//! - the engine alone, with an edge that only counts: what TCP adds to it.
//!
//! Every time is the best of several runs: the least disturbed one.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/toy.rs"]
mod toy;

use std::process::Command;
use std::time::Instant as Wall;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::mechanism::PlainRouter;
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::{Air, AirConfig, ChannelConfig, Mac, QueueConfig, Switching, WiredPipe};
use linkhold_scenario::{Case, Mechanism};
use linkhold_sim::network::Network;
use linkhold_sim::{Engine, run_case};
use linkhold_tcp::{Congestion, TcpConfig};

const RTT: Duration = Duration::from_millis(2);
/// Asks for one run and its peak memory instead of the whole bench: seconds to simulate.
const MEMORY_CHILD: &str = "LINKHOLD_BENCH_SECONDS";

fn one_flow(seconds: u64) -> Case {
    let tcp = TcpConfig::linux(Congestion::Cubic);
    common::case("none", common::clean(tcp, RTT, Duration::from_secs(seconds)))
}

fn many_flows(seconds: u64) -> Case {
    let mut case = one_flow(seconds);
    case.scenario.radio.stations = 6;
    case.scenario.flows[0].stations = (0..6).collect();
    case.scenario.flows[0].count = 4;
    case
}

fn with_dsasync(mut case: Case) -> Case {
    case.name = "dsasync".to_owned();
    case.scenario.mechanism = Mechanism::DsaSync(DsaSyncConfig::default());
    case
}

/// Best wall time of `runs` runs, and the events of one.
fn time(case: &Case, runs: u32) -> (f64, u64, f64) {
    let mut best = f64::INFINITY;
    let (mut events, mut goodput) = (0, 0.0);
    for _ in 0..runs {
        let started = Wall::now();
        let (record, _) = run_case(case, 1).expect("the bench's scenario is valid");
        best = best.min(started.elapsed().as_secs_f64());
        (events, goodput) = (record.events, record.totals.goodput_bps);
    }
    (best, events, goodput)
}

fn report(what: &str, case: &Case, runs: u32) -> f64 {
    let (wall, events, goodput) = time(case, runs);
    let simulated = case.scenario.duration.as_secs_f64();
    println!(
        "{what:<44} {wall:>7.3} s wall  {:>7.0} simulated s per s  {:>6.2} M events/s  {:>5.0} ns/event  ({events} events, {:.2} Mb/s)",
        simulated / wall,
        events as f64 / wall / 1e6,
        wall * 1e9 / events as f64,
        goodput / 1e6,
    );
    wall
}

/// 100 s of one packet every 0.5 ms and an ACK for every second one, without TCP.
fn engine_alone() {
    let config = AirConfig {
        stations: 1,
        mac: Mac::Duplex,
        channels: vec![ChannelConfig {
            phy_rate: BitRate::from_mbps(25),
            efficiency: Fraction::ONE,
            primary_user: None,
        }],
        initial_channel: 0,
        switching: Switching::default(),
        sensing: None,
        station_sensing: Vec::new(),
        retry_limit: 7,
        router: QueueConfig::fifo(100),
        station_queue: QueueConfig::fifo(100),
    };
    let mut best = f64::INFINITY;
    let mut events = 0;
    for _ in 0..5 {
        let started = Wall::now();
        let pipe = || WiredPipe::new(Some(BitRate::from_mbps(1000)), Duration::from_millis(1), 1000);
        let air = Air::new(config.clone(), 1).expect("the bench's radio is valid");
        let mut network = Network::new(air, 1, pipe(), pipe(), Box::new(PlainRouter::default()));
        debug_assert_eq!(network.silences().ended(StationId(0)), 0);
        let stop = Instant::from_millis(100_000);
        let stream = toy::SteadyStream::new(Duration::from_micros(500), stop, &mut network);
        let mut engine = Engine::new(network, stream);
        engine.advance(stop);
        best = best.min(started.elapsed().as_secs_f64());
        events = engine.events();
    }
    println!(
        "{:<44} {best:>7.3} s wall  {:>7.0} simulated s per s  {:>6.2} M events/s  {:>5.0} ns/event  ({events} events)",
        "engine alone, 100 s of 24 Mb/s, no TCP",
        100.0 / best,
        events as f64 / best / 1e6,
        best * 1e9 / events as f64,
    );
}

/// Peak resident memory of this process, kB.
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Peak memory of a fresh process that simulates `seconds`, kB.
fn peak_of_run(seconds: u64) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).env(MEMORY_CHILD, seconds.to_string()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn main() {
    if let Some(seconds) = std::env::var(MEMORY_CHILD).ok().and_then(|text| text.parse().ok()) {
        run_case(&with_dsasync(many_flows(seconds)), 1).expect("the bench's scenario is valid");
        println!("{}", peak_kb().unwrap_or(0));
        return;
    }
    engine_alone();
    let one = report("one flow, 24 Mb/s, 100 s", &one_flow(100), 5);
    let one_dsasync = report("  with dsasync", &with_dsasync(one_flow(100)), 5);
    let many = report("24 flows, 6 stations, 24 Mb/s, 100 s", &many_flows(100), 3);
    let many_dsasync = report("  with dsasync", &with_dsasync(many_flows(100)), 3);
    println!("one flow: aim <= 0.13 s; reached {one:.3} s ({:.2} of the aim)", one / 0.13);
    println!(
        "dsasync / none, wall time: {:.2} with one flow, {:.2} with 24",
        one_dsasync / one,
        many_dsasync / many
    );
    match (peak_of_run(100), peak_of_run(1000)) {
        (Some(short), Some(long)) if short > 0 => println!(
            "peak memory, 24 flows: {short} kB for 100 s, {long} kB for 1000 s: ratio {:.2}",
            long as f64 / short as f64
        ),
        _ => println!("peak memory: not known on this system (no /proc/self/status)"),
    }
}
