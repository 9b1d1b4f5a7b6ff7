//! Speed and memory of the simulator, each comparison within one run: `cargo bench -p linkhold-sim`.
//!
//! - Events per second, ns per event and simulated seconds per wall second, for one flow at 24 Mb/s over 100
//!   s and for 24 flows.
//! - The same with `dsasync` in place of the plain router, as a ratio.
//! - 600 s of cr-aware's 802.15.4 network against 100 s of the one flow, as a ratio.
//! - 20 s of a cell of 802.11a's DCF with 24 flows against 100 s of the one flow, as a ratio.
//! - The granted uplink of 802.16 with look-ahead at 1 and 50 stations, against the one flow, as ratios.
//! - 100 s of a mesh of 25 walking nodes against the one flow, as a ratio; and time per notice of a
//!   transmission in grids of 100 and 1,000 nodes with the same going on around each, as a ratio.
//! - 500 short runs on all processors against as many on one, as a ratio.
//! - A PU log of 10,000 users and a million bursts: made and written, read and checked, against the one flow,
//!   as ratios.
//! - Peak memory (VmHWM) of 1000 simulated seconds against 100, as a ratio, each in a process of its own.
//! - The engine alone, with hosts that only count packets: the difference from the first is what TCP costs.
//!
//! Every time is that of the best of several runs, which was disturbed least. Without cargo's `--bench`
//! argument (`cargo test --bench engine`) every part runs once over a simulated second, which shows only that
//! the bench works.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/toy.rs"]
mod toy;

use std::process::Command;
use std::time::Instant as Wall;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::dcf::{DcfConfig, Phy};
use linkhold_radio::spectrum::{Generator, Places, PuActivity, PuLog};
use linkhold_radio::{
    Air, AirConfig, AirTimeModel, ChannelConfig, Mac, QueueConfig, SignalsConfig, Switching, WiredPipe,
};
use linkhold_scenario::{Case, Scenario};
use linkhold_sim::cell::{AIR, CellBuilder};
use linkhold_sim::{Engine, run_case};
use linkhold_tcp::{Congestion, TcpConfig};
use rayon::prelude::*;

const RTT: Duration = Duration::from_millis(2);
/// Environment variable that asks for one run and its peak memory instead of the whole bench: seconds to
/// simulate.
const MEMORY_CHILD: &str = "LINKHOLD_BENCH_SECONDS";

/// Environment variable that asks for the mesh's memory instead of the cell's.
const MEMORY_OF_MESH: &str = "LINKHOLD_BENCH_MESH";

/// How much is simulated.
struct Extent {
    seconds: u64,
    runs_of_one_flow: u32,
    runs_of_many: u32,
}

/// What `cargo bench` measures.
const WHOLE: Extent = Extent { seconds: 100, runs_of_one_flow: 5, runs_of_many: 3 };
/// What `cargo test` tries.
const SHORT: Extent = Extent { seconds: 1, runs_of_one_flow: 1, runs_of_many: 1 };

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

/// Four downloads to each of six stations, in a cell whose radios contend by 802.11a's DCF.
fn contending(seconds: u64) -> Case {
    let mut case = many_flows(seconds);
    case.scenario.radio.mac = Mac::Dcf(DcfConfig::new(Phy::Ieee80211a));
    case
}

fn with_dsasync(mut case: Case) -> Case {
    case.name = "dsasync".to_owned();
    case.scenario.mechanisms = vec![DsaSyncConfig::default().into()];
    case
}

/// The network of the paper cr-aware with the mechanisms that carry most there, TCP-LR and CR-aware.
fn sensors(seconds: u64) -> Case {
    let text = include_str!("../../../reproductions/cr-aware/fig3/scenario.toml");
    let duration = [format!("duration=\"{seconds}s\"")];
    let scenario =
        Scenario::from_toml(text, "scenario.toml", &duration).expect("the figure's scenario is valid");
    scenario.cases().pop().expect("six cases")
}

/// The stream of the paper lookahead to so many stations over 802.16, with the mechanism that learns.
fn subscribers(seconds: u64, stations: u32) -> Case {
    let text = include_str!("../../../reproductions/lookahead/sweep/scenario.toml");
    let set = [
        format!("duration=\"{seconds}s\""),
        "warm_up=\"0s\"".to_owned(),
        format!("radio.stations={stations}"),
        "flows.0.station=\"all\"".to_owned(),
        // Grants to fifty stations do not fit into every frame.
        "cases.no-random-access.set={\"radio.grants.proactive_period\"=9}".to_owned(),
    ];
    let scenario = Scenario::from_toml(text, "scenario.toml", &set).expect("the figure's scenario is valid");
    let learning = |case: &Case| case.name == "look-ahead-learning";
    scenario.cases().into_iter().find(learning).expect("the figure has this case")
}

/// A mesh of walking nodes, 25 of them on a square kilometre, with a flow for about every sixth; AODV, 2
/// Mb/s.
fn mesh(seconds: u64, nodes: u32) -> Case {
    let side = (f64::from(nodes) / 25.0).sqrt() * 1000.0;
    let text = format!(
        "schema = \"linkhold.scenario/1\"\nname = \"mesh\"\nduration = \"{seconds}s\"\n[mesh]\nnodes = {nodes}\n\
         width = \"{side:.0}m\"\nheight = \"{side:.0}m\"\nwalk = {{}}\nrate = \"2Mbit/s\"\n[tcp]\nmss = 1000\n[[flows]]\n\
         from = \"drawn\"\nto = \"drawn\"\ncount = {}\n",
        (nodes / 6).max(1)
    );
    let scenario = Scenario::from_toml(&text, "mesh.toml", &[]).expect("the bench's mesh is valid");
    scenario.cases().swap_remove(0)
}

/// Nodes that stand 200 m apart, with a flow from every sixth to the next: what goes on around a node does
/// not depend on how many there are.
fn grid(seconds: u64, nodes: u32) -> Case {
    let columns = f64::from(nodes).sqrt().ceil() as u32;
    let side = f64::from(columns) * 200.0;
    let place = |node: u32| {
        format!("{{ x = \"{}m\", y = \"{}m\" }}", node % columns * 200 + 100, node / columns * 200 + 100)
    };
    let places: Vec<String> = (0..nodes).map(place).collect();
    // No flow from the end of a row to the start of the next.
    let ends = (0..nodes - 1).step_by(6).filter(|node| node % columns + 1 < columns);
    let flows: String = ends.map(|node| format!("[[flows]]\nfrom = {node}\nto = {}\n", node + 1)).collect();
    let text = format!(
        "schema = \"linkhold.scenario/1\"\nname = \"grid\"\nduration = \"{seconds}s\"\n[mesh]\nnodes = {nodes}\n\
         width = \"{side}m\"\nheight = \"{side}m\"\nplaces = [{}]\nrate = \"2Mbit/s\"\nrouting = \"direct\"\n\
         [tcp]\nmss = 1000\n{flows}",
        places.join(", ")
    );
    let scenario = Scenario::from_toml(&text, "grid.toml", &[]).expect("the bench's grid is valid");
    scenario.cases().swap_remove(0)
}

/// Wall time of a grid for each time that a node noticed a transmission, ns; and the mean number of those
/// that did.
fn per_notice(seconds: u64, nodes: u32, runs: u32) -> (f64, f64) {
    let case = grid(seconds, nodes);
    let (mut best, mut neighbours) = (f64::INFINITY, 0.0);
    for _ in 0..runs {
        let started = Wall::now();
        let (record, _) = run_case(&case, 1).expect("the bench's mesh is valid");
        let wall = started.elapsed().as_secs_f64();
        let counted = record.link.mesh.expect("a mesh counts");
        best = best.min(wall * 1e9 / counted.noticed.max(1) as f64);
        neighbours = counted.noticed as f64 / counted.transmissions.max(1) as f64;
    }
    println!(
        "grid of {nodes:>5} nodes, {seconds} s: {best:>5.0} ns per notice, {neighbours:.1} nodes notice a transmission"
    );
    (best, neighbours)
}

/// Wall time of `count` short runs one after the other, over that of as many on all processors.
fn sweep(count: u64) -> f64 {
    let case = mesh(2, 12);
    let one = |seed: u64| run_case(&case, seed).expect("the bench's mesh is valid").0.events;
    let started = Wall::now();
    let alone: u64 = (0..count).map(one).sum();
    let serial = started.elapsed().as_secs_f64();
    let started = Wall::now();
    let together: u64 = (0..count).into_par_iter().map(one).sum();
    assert_eq!(alone, together, "runs do not depend on threads");
    serial / started.elapsed().as_secs_f64()
}

/// Best wall times of making the text of a PU log of 10,000 users on 100 bands that covers `seconds`, and of
/// reading it, as `linkhold pu-log generate` and `check` do; and its bursts.
fn pu_log(seconds: u64, runs: u32) -> (f64, f64, usize) {
    let activity = PuActivity::new(1.0, 1.0).expect("they are rates");
    let generator = Generator {
        bands: vec![activity; 100],
        users_per_band: 100,
        places: Places::Random { width: 1000.0, height: 1000.0 },
        power: 1.0,
        duration: Duration::from_secs(seconds),
    };
    let (mut made, mut read, mut bursts) = (f64::INFINITY, f64::INFINITY, 0);
    for _ in 0..runs {
        let started = Wall::now();
        let text = generator.generate(1).expect("all is in range").to_string();
        made = made.min(started.elapsed().as_secs_f64());
        let started = Wall::now();
        let log = PuLog::parse(text.as_bytes(), None).expect("what is written can be read");
        read = read.min(started.elapsed().as_secs_f64());
        bursts = log.bursts();
    }
    (made, read, bursts)
}

/// Best wall time of `runs` runs, and the events of one.
fn time(case: &Case, runs: u32) -> (f64, u64, f64) {
    let mut best = f64::INFINITY;
    let (mut events, mut goodput) = (0, 0.0);
    for _ in 0..runs {
        let started = Wall::now();
        let (record, _) = run_case(case, 1).expect("the bench's scenario is valid");
        assert!(record.totals.goodput_bps > 0.0, "nothing arrived");
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

/// One packet every 0.5 ms and an ACK for every second one, without TCP.
fn engine_alone(extent: &Extent) {
    let config = AirConfig {
        stations: 1,
        mac: Mac::Duplex,
        air_time: AirTimeModel::PerByte,
        measured_users: Vec::new(),
        channels: vec![ChannelConfig {
            phy_rate: BitRate::from_mbps(25),
            efficiency: Fraction::ONE,
            primary_user: None,
        }],
        initial_channel: 0,
        rate_told: true,
        switching: Switching::default(),
        signals: SignalsConfig::default(),
        sensing: None,
        station_sensing: Vec::new(),
        power: None,
        snr: None,
        retry_limit: 7,
        router: QueueConfig::fifo(100),
        station_queue: QueueConfig::fifo(100),
    };
    let mut best = f64::INFINITY;
    let mut events = 0;
    for _ in 0..extent.runs_of_one_flow {
        let started = Wall::now();
        let pipe = || WiredPipe::new(Some(BitRate::from_mbps(1000)), Duration::from_millis(1), 1000);
        let air = Air::new(config.clone(), 1).expect("the bench's radio is valid");
        let mut network = CellBuilder::new(air, 1, pipe(), pipe()).build();
        debug_assert_eq!(network.radio(AIR).silences().ended(StationId(0)), 0);
        let stop = Instant::from_millis(extent.seconds * 1000);
        let stream = toy::SteadyStream::new(Duration::from_micros(500), stop, &mut network);
        let mut engine = Engine::new(network, stream);
        engine.advance(stop);
        best = best.min(started.elapsed().as_secs_f64());
        events = engine.events();
    }
    println!(
        "{:<44} {best:>7.3} s wall  {:>7.0} simulated s per s  {:>6.2} M events/s  {:>5.0} ns/event  ({events} events)",
        format!("engine alone, {} s of 24 Mb/s, no TCP", extent.seconds),
        extent.seconds as f64 / best,
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
fn peak_of_run(seconds: u64, of_mesh: bool) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new(program);
    command.env(MEMORY_CHILD, seconds.to_string());
    if of_mesh {
        command.env(MEMORY_OF_MESH, "1");
    }
    let output = command.output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Ratios against their aims. A short run says nothing of speed and judges nothing.
struct Aims {
    measures: bool,
    missed: Vec<String>,
}

impl Aims {
    fn at_most(&mut self, what: &str, value: f64, aim: f64) {
        self.judge(what, value, value <= aim, &format!("<= {aim}"));
    }

    fn at_least(&mut self, what: &str, value: f64, aim: f64) {
        self.judge(what, value, value >= aim, &format!(">= {aim}"));
    }

    fn judge(&mut self, what: &str, value: f64, met: bool, aim: &str) {
        if !self.measures {
            return;
        }
        println!("{what}: {value:.2} (aim {aim}: {})", if met { "met" } else { "MISSED" });
        if !met {
            self.missed.push(format!("{what}: {value:.2}, aim {aim}"));
        }
    }
}

fn main() -> std::process::ExitCode {
    if let Some(seconds) = std::env::var(MEMORY_CHILD).ok().and_then(|text| text.parse().ok()) {
        let case = match std::env::var(MEMORY_OF_MESH) {
            Ok(_) => mesh(seconds, 25),
            Err(_) => with_dsasync(many_flows(seconds)),
        };
        run_case(&case, 1).expect("the bench's scenario is valid");
        println!("{}", peak_kb().unwrap_or(0));
        return std::process::ExitCode::SUCCESS;
    }
    // cargo passes it to what `cargo bench` runs, and not to what `cargo test` runs.
    let measures = std::env::args().any(|arg| arg == "--bench");
    let extent = if measures { WHOLE } else { SHORT };
    let mut aims = Aims { measures, missed: Vec::new() };
    let seconds = extent.seconds;
    engine_alone(&extent);
    let (case, runs) = (one_flow(seconds), extent.runs_of_one_flow);
    let one = report(&format!("one flow, 24 Mb/s, {seconds} s"), &case, runs);
    let one_dsasync = report("  with dsasync", &with_dsasync(case), runs);
    let (case, runs) = (many_flows(seconds), extent.runs_of_many);
    let many = report(&format!("24 flows, 6 stations, 24 Mb/s, {seconds} s"), &case, runs);
    let many_dsasync = report("  with dsasync", &with_dsasync(case), runs);
    if measures {
        println!("one flow: aim <= 0.13 s; reached {one:.3} s ({:.2} of the aim)", one / 0.13);
    }
    // A primary user may keep the channel for seconds, so a short run is not too short.
    let slow = (6 * seconds).max(60);
    let radios = report(&format!("802.15.4 beside a primary user, {slow} s"), &sensors(slow), runs);
    let what = format!("802.15.4 for {slow} s / one flow for {seconds} s, wall time");
    aims.at_most(&what, radios / one, 1.2);
    let brief = (seconds / 5).max(1);
    let contended = report(&format!("DCF, 24 flows, 6 stations, {brief} s"), &contending(brief), runs);
    let what = format!("DCF for {brief} s / one flow for {seconds} s, wall time");
    aims.at_most(&what, contended / one, 1.25);
    let walking = report(&format!("mesh, 25 nodes, 4 flows, {seconds} s"), &mesh(seconds, 25), runs);
    let what = format!("mesh for {seconds} s / one flow for {seconds} s, wall time");
    aims.at_most(&what, walking / one, 1.5);
    let brief = (seconds / 10).max(2);
    let [few, many_nodes] = [100, 1000].map(|nodes| per_notice(brief, nodes, extent.runs_of_many));
    println!(
        "time per notice, 1,000 nodes / 100: {:.2} (neighbours: {:.2})",
        many_nodes.0 / few.0,
        many_nodes.1 / few.1
    );
    report(&format!("mesh, 1,000 walking nodes, 166 flows, {brief} s"), &mesh(brief, 1000), 1);
    aims.at_least("short runs, one processor / all (at least two)", sweep(5 * seconds), 1.9);
    for (stations, aim) in [(1, 1.2), (50, 12.0)] {
        let what = format!("802.16, {stations} stations, look-ahead, {seconds} s");
        let granted = report(&what, &subscribers(seconds, stations), extent.runs_of_many);
        let what = format!("802.16 with {stations} stations / one flow, wall time");
        aims.at_most(&what, granted / one, aim);
    }
    // A user is on and off for a second each: 100 bursts in 200 s.
    let (made, read, bursts) = pu_log(2 * seconds, extent.runs_of_many);
    println!("PU log of 10,000 users, {bursts} bursts: made in {made:.3} s, read and checked in {read:.3} s");
    if measures {
        println!("PU log / one flow, wall time: made {:.2}, read and checked {:.2}", made / one, read / one);
    }
    println!(
        "dsasync / none, wall time: {:.2} with one flow, {:.2} with 24 (aim with one flow: 1.3)",
        one_dsasync / one,
        many_dsasync / many
    );
    // The aim is missed (ARCHITECTURE.md, "Speed"); what is judged is that it gets no worse.
    aims.at_most("dsasync / none, wall time, one flow, no slower than it was", one_dsasync / one, 2.5);
    aims.at_most("dsasync / none, wall time, 24 flows, no slower than it was", many_dsasync / many, 2.4);
    for (what, of_mesh) in [("24 flows", false), ("mesh of 25 nodes", true)] {
        match (peak_of_run(seconds, of_mesh), peak_of_run(10 * seconds, of_mesh)) {
            (Some(short), Some(long)) if short > 0 => println!(
                "peak memory, {what}: {short} kB for {seconds} s, {long} kB for {} s: ratio {:.2}",
                10 * seconds,
                long as f64 / short as f64
            ),
            _ => println!("peak memory: not known on this system (no /proc/self/status)"),
        }
    }
    if aims.missed.is_empty() {
        return std::process::ExitCode::SUCCESS;
    }
    eprintln!("missed on this machine:\n  {}", aims.missed.join("\n  "));
    std::process::ExitCode::FAILURE
}
