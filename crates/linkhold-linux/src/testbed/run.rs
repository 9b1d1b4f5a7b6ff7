//! One run of the testbed: a case of a scenario, one congestion control, one seed, in real time.
//!
//! Build the namespaces, start the air, start the agent in the base station (unless the case is the plain router),
//! start the traffic, wait for the end, read everything, remove everything. A run whose air was late is an error,
//! not a result.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_results::{
    DelayHistogram, FlowDirection, FlowRecord, FlowSeries, LinkRecord, RouterSeries, RunRecord, RunSeries,
    RunTotals, SilenceRecord, Stack,
};
use linkhold_scenario::{Case, IpVersion, Mechanism, ResolvedScenario, Source};

use super::ether::{self, Capture, EtherParts, EtherReport, LinkSink, NoSink};
use super::flowlog::{Flow, FlowLog};
use super::kernel::{self, Counters};
use super::link::AgentLink;
use super::topology::{BS_RADIO, BS_WIRE, Family, MAX_STATIONS, Topology};
use super::traffic::{Completion, Iperf, ShortFlows, Traffic, TrafficError};
use crate::command::CommandError;
use crate::netns::NetNsError;

/// A run whose silence edges were handled later than this, at the 99th percentile, is refused.
pub const MAX_EDGE_LATENESS: Duration = Duration::from_millis(1);
/// A connection with less data than this is iperf3's own control connection.
const CONTROL_BYTES: u64 = 64 * 1024;
/// How often the senders' windows are looked at.
const SOCKET_INTERVAL: StdDuration = StdDuration::from_millis(100);

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `linkhold` program, for the agent.
    pub program: PathBuf,
    /// Congestion control of the data senders, as the kernel calls it.
    pub congestion: String,
    /// Set to end the run early.
    pub stop: Arc<AtomicBool>,
}

/// What one run found.
pub struct Outcome {
    /// The contract's record.
    pub record: RunRecord,
    /// Time series.
    pub series: RunSeries,
    /// What the kernel counted, senders' side.
    pub kernel: Counters,
    /// Short flows.
    pub completions: Vec<Completion>,
    /// Short flows whose bytes were wrong.
    pub corrupt: u64,
    /// 99th percentile of the lateness of silence edges, s.
    pub edge_lateness_p99_s: f64,
    /// Senders' windows over time: (s after start, local port, cwnd in segments).
    pub windows: Vec<(f64, u16, u64)>,
    /// What the agent said last, as JSON; absent on the plain router.
    pub agent: Option<serde_json::Value>,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Namespaces or devices.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A program.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The scenario cannot be built.
    #[error(transparent)]
    Scenario(#[from] linkhold_sim::SimError),
    /// The scenario asks for what the testbed has not got.
    #[error("{0}")]
    Unsupported(String),
    /// The kernel has no such congestion control.
    #[error("this kernel has no congestion control `{wanted}`; it has: {known}")]
    Congestion {
        /// As asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// The engine's ports.
    #[error("the testbed's air: {0}")]
    Ether(std::io::Error),
    /// The agent.
    #[error("agent: {0}")]
    Agent(String),
    /// The host was too slow.
    #[error(
        "this host was too slow: edges of silences came {p99_ms:.2} ms late (99th percentile; {limit_ms} ms is the \
         limit). Close other programs, or run fewer cells side by side."
    )]
    Late {
        /// Measured, ms.
        p99_ms: f64,
        /// Limit, ms.
        limit_ms: f64,
    },
    /// Stopped before the end.
    #[error("stopped")]
    Stopped,
}

/// Runs `case` with `seed`, watched by `capture` if given.
///
/// # Errors
/// [`RunError`]; whatever happens, nothing is left behind.
pub fn run(
    case: &Case,
    seed: u64,
    options: &Options,
    capture: Option<Box<dyn Capture>>,
) -> Result<Outcome, RunError> {
    let scenario = &case.scenario;
    check(scenario)?;
    let (iperf, short) = traffic_of(scenario, seed, &options.congestion)?;
    let topology = Topology::build(scenario.radio.stations)?;
    check_congestion(&topology, &options.congestion)?;
    let family =
        iperf.first().map(|client| client.family).or(short.first().map(|s| s.family)).unwrap_or(Family::V4);
    let agent = match &scenario.mechanism {
        Mechanism::None => None,
        Mechanism::DsaSync(_) => Some(AgentProcess::start(&topology, scenario, options, family)?),
    };
    run_on(case, seed, options, topology, agent, (iperf, short), capture)
}

fn run_on(
    case: &Case,
    seed: u64,
    options: &Options,
    topology: Topology,
    agent: Option<AgentProcess>,
    (iperf, short): (Vec<Iperf>, Vec<ShortFlows>),
    capture: Option<Box<dyn Capture>>,
) -> Result<Outcome, RunError> {
    let scenario = &case.scenario;
    let began = std::time::Instant::now();
    let sink: Box<dyn LinkSink> = match &agent {
        Some(agent) => Box::new(agent.link()?),
        None => Box::new(NoSink),
    };
    let Topology { ch, wan, bs, stations, tuns } = topology;
    let end = Instant::ZERO + scenario.duration;
    let parts = EtherParts {
        air: linkhold_sim::build::air(scenario, seed)?,
        down: linkhold_sim::build::wired_pipe(scenario),
        up: linkhold_sim::build::wired_pipe(scenario),
        tuns,
        log: FlowLog::new(
            scenario.radio.stations,
            Instant::ZERO + scenario.warm_up,
            scenario.output.series_interval,
        ),
        sink,
        capture,
    };
    let stop = options.stop.clone();
    let engine = std::thread::Builder::new()
        .name("air".to_owned())
        .spawn(move || ether::run(parts, end, &stop))
        .map_err(RunError::Ether)?;
    let hosts = Hosts { ch: &ch, stations: &stations };
    let result = hosts.drive(scenario, options, &iperf, &short);
    if result.is_err() {
        options.stop.store(true, Ordering::Relaxed);
    }
    let joined = engine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let agent_status = agent.as_ref().and_then(AgentProcess::status);
    drop(agent);
    let (report, tuns) = joined.map_err(RunError::Ether)?;
    drop((tuns, wan, bs));
    let watched = result?;
    if options.stop.load(Ordering::Relaxed) {
        return Err(RunError::Stopped);
    }
    outcome(case, seed, options, report, watched, agent_status, began.elapsed())
}

/// What the hosts' side of a run saw.
struct Watched {
    kernel: Counters,
    completions: Vec<Completion>,
    corrupt: u64,
    windows: Vec<(f64, u16, u64)>,
}

struct Hosts<'a> {
    ch: &'a crate::netns::NetNs,
    stations: &'a [crate::netns::NetNs],
}

impl Hosts<'_> {
    fn drive(
        &self,
        scenario: &ResolvedScenario,
        options: &Options,
        iperf: &[Iperf],
        short: &[ShortFlows],
    ) -> Result<Watched, RunError> {
        let uplink = iperf.iter().any(|client| client.direction == Direction::Uplink);
        let senders: Vec<_> = if uplink { self.stations.iter().collect() } else { vec![self.ch] };
        let before: Vec<Counters> =
            senders.iter().map(|netns| kernel::counters(netns)).collect::<Result<_, _>>()?;
        let traffic = Traffic::start(self.ch, self.stations, iperf, short)?;
        let began = std::time::Instant::now();
        let length = StdDuration::from_nanos(scenario.duration.as_nanos());
        let mut windows = Vec::new();
        while began.elapsed() < length && !options.stop.load(Ordering::Relaxed) {
            std::thread::sleep(SOCKET_INTERVAL.min(length.saturating_sub(began.elapsed())));
            // A sample missed is no fault of the run.
            for socket in senders.first().and_then(|netns| kernel::sockets(netns).ok()).unwrap_or_default() {
                windows.push((began.elapsed().as_secs_f64(), socket.local_port, socket.cwnd));
            }
        }
        let mut total = Counters::new();
        for (netns, before) in senders.iter().zip(&before) {
            for (name, count) in kernel::difference(before, &kernel::counters(netns)?) {
                *total.entry(name).or_insert(0) += count;
            }
        }
        let (completions, corrupt) = traffic.finish();
        Ok(Watched { kernel: total, completions, corrupt, windows })
    }
}

fn check(scenario: &ResolvedScenario) -> Result<(), RunError> {
    if scenario.radio.stations > MAX_STATIONS {
        return Err(RunError::Unsupported(format!(
            "radio.stations: the testbed has room for {MAX_STATIONS} stations, the scenario asks for {}",
            scenario.radio.stations
        )));
    }
    Ok(())
}

fn check_congestion(topology: &Topology, wanted: &str) -> Result<(), RunError> {
    let known = topology
        .ch
        .enter(|| std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control"))?
        .unwrap_or_default();
    if known.split_whitespace().any(|name| name == wanted) {
        return Ok(());
    }
    Err(RunError::Congestion { wanted: wanted.to_owned(), known: known.trim().to_owned() })
}

/// The scenario's flows as programs to start.
fn traffic_of(
    scenario: &ResolvedScenario,
    seed: u64,
    congestion: &str,
) -> Result<(Vec<Iperf>, Vec<ShortFlows>), RunError> {
    let (mut iperf, mut short) = (Vec::new(), Vec::new());
    let end = Instant::ZERO + scenario.duration;
    for (number, group) in scenario.flows.iter().enumerate() {
        let family = match group.ip {
            IpVersion::V4 => Family::V4,
            IpVersion::V6 => Family::V6,
        };
        let stop = group.stop.unwrap_or(end).min(end);
        for &station in &group.stations {
            let start = StdDuration::from_nanos(group.start.as_nanos());
            if let Some(arrivals) = group.arrivals {
                let Source::Finite(bytes) = group.source else {
                    return Err(RunError::Unsupported(format!(
                        "flows.{number}.source: flows that arrive at random need a size, such as \"100kB\""
                    )));
                };
                let mut stream = linkhold_radio::rng::Stream::new(
                    seed,
                    "testbed-arrivals",
                    (number as u64) << 32 | u64::from(station),
                );
                let mean = Duration::from_secs_f64(1.0 / arrivals.per_second);
                let mut starts = Vec::new();
                let mut at = group.start + stream.exponential(mean);
                while at < stop {
                    starts.push(StdDuration::from_nanos(at.as_nanos()));
                    at += stream.exponential(mean);
                }
                short.push(ShortFlows { station, bytes: bytes.0, starts, family });
                continue;
            }
            iperf.push(Iperf {
                station,
                direction: group.direction,
                count: group.count,
                start,
                duration: StdDuration::from_nanos(stop.since(group.start).as_nanos()),
                congestion: congestion.to_owned(),
                rate_bps: match group.source {
                    Source::Paced { rate, .. } => Some(rate.as_bps()),
                    Source::Bulk | Source::Finite(_) => None,
                },
                bytes: match group.source {
                    Source::Finite(bytes) => Some(bytes.0),
                    Source::Bulk | Source::Paced { .. } => None,
                },
                window: None,
                family,
            });
        }
    }
    Ok((iperf, short))
}

/// The agent under test, a process of its own in the base station's namespace.
struct AgentProcess {
    child: Child,
    folder: tempfile::TempDir,
    family: Family,
}

impl AgentProcess {
    fn start(
        topology: &Topology,
        scenario: &ResolvedScenario,
        options: &Options,
        family: Family,
    ) -> Result<Self, RunError> {
        let fail = |what: &str, error: std::io::Error| RunError::Agent(format!("{what}: {error}"));
        let folder = tempfile::tempdir().map_err(|error| fail("make a folder", error))?;
        let config = folder.path().join("agent.toml");
        let text = agent_config(scenario, &folder.path().join("agent.sock"))?;
        std::fs::File::create(&config)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| fail("write its configuration", error))?;
        let log = std::fs::File::create(folder.path().join("agent.log"))
            .map_err(|error| fail("open its log", error))?;
        let child = topology
            .bs
            .command(&options.program.display().to_string())
            .args(["agent", "--config", &config.display().to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| fail("start it", error))?;
        let agent = Self { child, folder, family };
        agent.link()?;
        Ok(agent)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    fn link(&self) -> Result<AgentLink, RunError> {
        AgentLink::connect(&self.socket(), self.family).map_err(|error| {
            let log = std::fs::read_to_string(self.folder.path().join("agent.log")).unwrap_or_default();
            RunError::Agent(format!("it did not open its control socket ({error}); it said:\n{log}"))
        })
    }

    fn status(&self) -> Option<serde_json::Value> {
        let status = crate::agent::status(&self.socket()).ok()?;
        serde_json::to_value(status).ok()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let began = std::time::Instant::now();
        while began.elapsed() < StdDuration::from_secs(2) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(StdDuration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The agent's configuration for a scenario: its interfaces here, and the very settings the simulator uses.
fn agent_config(scenario: &ResolvedScenario, socket: &Path) -> Result<String, RunError> {
    #[derive(serde::Serialize)]
    struct Config {
        wired: [&'static str; 1],
        radio: [&'static str; 1],
        control: Control,
        mechanism: Settings,
    }
    #[derive(serde::Serialize)]
    struct Control {
        socket: PathBuf,
    }
    #[derive(serde::Serialize)]
    struct Settings {
        settings: linkhold_core::dsasync::DsaSyncConfig,
    }
    let Mechanism::DsaSync(settings) = &scenario.mechanism else {
        return Err(RunError::Agent("the plain router has no agent".to_owned()));
    };
    let config = Config {
        wired: [BS_WIRE],
        radio: [BS_RADIO],
        control: Control { socket: socket.to_owned() },
        mechanism: Settings { settings: *settings },
    };
    toml::to_string(&config).map_err(|error| RunError::Agent(format!("write its configuration: {error}")))
}

fn outcome(
    case: &Case,
    seed: u64,
    options: &Options,
    report: EtherReport,
    watched: Watched,
    agent: Option<serde_json::Value>,
    wall: StdDuration,
) -> Result<Outcome, RunError> {
    let scenario = &case.scenario;
    let edge_lateness_p99_s = report.edge_lateness.quantile_s(0.99);
    if edge_lateness_p99_s > MAX_EDGE_LATENESS.as_secs_f64() {
        return Err(RunError::Late {
            p99_ms: edge_lateness_p99_s * 1e3,
            limit_ms: MAX_EDGE_LATENESS.as_secs_f64() * 1e3,
        });
    }
    let counted_s = scenario.duration.saturating_sub(scenario.warm_up).as_secs_f64();
    let data: Vec<&Flow> = report
        .log
        .flows()
        .iter()
        .filter(|flow| flow.track(flow.data_direction()).delivered > CONTROL_BYTES)
        .collect();
    let mut flows = Vec::with_capacity(data.len());
    let (mut all, mut outside) = (DelayHistogram::new(), DelayHistogram::new());
    for (id, flow) in data.iter().enumerate() {
        flows.push(flow_record(id as u32, flow, counted_s));
        all.merge(&flow.track(flow.data_direction()).delays);
        outside.merge(&flow.track(flow.data_direction()).delays_outside_silence);
    }
    // The kernel tells timeouts of the host, not of the flow: they stand with the first.
    if let Some(first) = flows.first_mut() {
        first.rto_events = watched.kernel.get("TCPTimeouts").copied().unwrap_or(0);
        first.spurious_rtos = watched.kernel.get("TCPSpuriousRTOs").copied().unwrap_or(0);
    }
    let plan = linkhold_sim::plan::Plan::new(scenario, seed)?;
    let limit = linkhold_sim::build::goodput_limit(scenario, &plan);
    let accounting = &report.accounting;
    let link = LinkRecord {
        silent_fraction: accounting.silent_fraction(),
        capacity_mean_bps: limit.capacity_mean_bps(accounting),
        goodput_limit_bps: limit.bps(accounting),
        silences: report.silences.len() as u64,
        station_silent_fraction: (0..scenario.radio.stations)
            .map(|station| accounting.station_silent_fraction(station))
            .collect(),
        queue_drops: report.queue_drops,
        air_losses: report.air_losses,
    };
    let totals = RunTotals::new(&flows, &link, &all, &outside);
    let record = RunRecord {
        case: format!("{}/{}", case.name, options.congestion),
        seed,
        stack: Stack::Linux,
        sim_s: scenario.duration.as_secs_f64(),
        wall_s: wall.as_secs_f64(),
        events: report.packets,
        flows,
        link,
        totals,
        mechanism: None,
    };
    let series = series(&record.case, seed, scenario, &data, &report, all, outside);
    Ok(Outcome {
        record,
        series,
        kernel: watched.kernel,
        completions: watched.completions,
        corrupt: watched.corrupt,
        edge_lateness_p99_s,
        windows: watched.windows,
        agent,
    })
}

fn flow_record(id: u32, flow: &Flow, counted_s: f64) -> FlowRecord {
    let direction = flow.data_direction();
    let track = flow.track(direction);
    let mut record = FlowRecord {
        id,
        direction: FlowDirection::from(direction),
        goodput_bps: track.delivered.saturating_sub(track.delivered_at_warm_up) as f64 * 8.0 / counted_s,
        retransmit_bps: track.retransmit_bytes as f64 * 8.0 / counted_s,
        retransmits: track.retransmits,
        bytes: track.delivered,
        station: flow.station,
        start_s: flow.start.as_secs_f64(),
        resume_p50_s: (track.resumes.count() > 0).then(|| track.resumes.quantile_s(0.5)),
        ..FlowRecord::default()
    };
    record.set_delays(&track.delays, &track.delays_outside_silence);
    record
}

fn series(
    case: &str,
    seed: u64,
    scenario: &ResolvedScenario,
    data: &[&Flow],
    report: &EtherReport,
    delays: DelayHistogram,
    delays_outside_silence: DelayHistogram,
) -> RunSeries {
    let interval_s = scenario.output.series_interval.as_secs_f64();
    let mut router = RouterSeries::default();
    let mut flows = Vec::new();
    for (id, flow) in data.iter().enumerate() {
        let direction = flow.data_direction();
        let mut one = FlowSeries::new(id as u32, FlowDirection::from(direction));
        let mut before = 0;
        for (index, &delivered) in flow.track(direction).series.iter().enumerate() {
            let goodput_bps = (delivered - before) as f64 * 8.0 / interval_s;
            before = delivered;
            one.t_s.push((index + 1) as f64 * interval_s);
            one.goodput_bps.push(goodput_bps);
            for unknown in
                [&mut one.cwnd_bytes, &mut one.ssthresh_bytes, &mut one.rtt_s, &mut one.in_flight_bytes]
            {
                unknown.push(f64::NAN);
            }
            one.rto_events.push(0);
            if router.t_s.len() <= index {
                router.t_s.push((index + 1) as f64 * interval_s);
                router.goodput_bps.push(0.0);
                for unknown in [&mut router.limit_bps, &mut router.held_bytes, &mut router.queue_bytes] {
                    unknown.push(f64::NAN);
                }
            }
            router.goodput_bps[index] += goodput_bps;
        }
        flows.push(one);
    }
    let silences = report
        .silences
        .iter()
        .map(|silence| SilenceRecord {
            start_s: silence.start.as_secs_f64(),
            end_s: silence.end.as_secs_f64(),
            cause: silence.cause,
            scope: silence.scope,
        })
        .collect();
    RunSeries { case: case.to_owned(), seed, flows, router, silences, delays, delays_outside_silence }
}
