//! One run of the testbed: a case of a scenario, one congestion control, one seed, in real time.
//!
//! Build the namespaces, start the agent in the base station (unless the case is the plain router), the servers, the
//! air, the clients; wait for the end, read everything, remove everything. A run whose air was late is an error, not
//! a result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_scenario::{Case, Mechanism, Profile, ResolvedScenario};

use super::agent_process::AgentProcess;
use super::capture::PcapCapture;
use super::ether::{self, EtherParts, LinkSink, NoSink};
use super::flowlog::FlowLog;
use super::kernel::{self, Counters, Socket, Sockets};
use super::outcome::{self, Outcome};
use super::topology::{MAX_STATIONS, Topology};
use super::traffic::{Completion, Traffic, TrafficError};
use super::workload::Workload;
use crate::command::CommandError;
use crate::netns::{NetNs, NetNsError};

/// A run whose silence edges were handled later than this, at the 99th percentile, is refused. So is one whose other
/// events were: frames that come late carry less than the link's rate.
pub const MAX_LATENESS: Duration = Duration::from_millis(1);
/// How often the senders' windows are looked at.
const SOCKET_INTERVAL: StdDuration = StdDuration::from_millis(20);

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `linkhold` program, for the agent.
    pub program: PathBuf,
    /// Congestion control of the data senders, as the kernel calls it.
    pub congestion: String,
    /// Where to write the packets as pcapng, if at all.
    pub capture: Option<PathBuf>,
    /// Set to end the run early.
    pub stop: Arc<AtomicBool>,
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
    /// The engine's ports.
    #[error("the testbed's air: {0}")]
    Ether(std::io::Error),
    /// The packet capture.
    #[error("packet capture: {0}")]
    Capture(String),
    /// The agent.
    #[error("agent: {0}")]
    Agent(String),
    /// The host was too slow.
    #[error(
        "this host was too slow: {what} came {p99_ms:.2} ms late (99th percentile; {limit_ms} ms is the limit). \
         Close other programs, or run fewer cells side by side (--jobs)."
    )]
    Late {
        /// What was late.
        what: &'static str,
        /// Measured, ms.
        p99_ms: f64,
        /// Limit, ms.
        limit_ms: f64,
    },
    /// The hosts' programs got no processor.
    #[error(
        "this host was too busy: its senders and receivers got no processor for {stalled_s:.2} s of the run \
         ({limit_percent} % is the limit). Close other programs, or run fewer cells side by side (--jobs)."
    )]
    Stalled {
        /// Measured, s.
        stalled_s: f64,
        /// Limit, percent of the run.
        limit_percent: f64,
    },
    /// The result could not be kept.
    #[error("{0}")]
    Store(String),
    /// Stopped before the end.
    #[error("stopped")]
    Stopped,
}

/// The congestion controls that the kernel has.
///
/// # Errors
/// The system's.
pub fn available_congestion_controls() -> std::io::Result<Vec<String>> {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
}

/// What the testbed cannot do of `scenario`, before anything is built.
///
/// # Errors
/// [`RunError::Unsupported`].
pub fn check(scenario: &ResolvedScenario) -> Result<(), RunError> {
    if scenario.radio.stations > MAX_STATIONS {
        return Err(RunError::Unsupported(format!(
            "radio.stations: the testbed has room for {MAX_STATIONS} stations, the scenario asks for {}",
            scenario.radio.stations
        )));
    }
    Workload::new(scenario, 0, "").map(|_| ())
}

/// Runs `case` with `seed`.
///
/// # Errors
/// [`RunError`]; whatever happens, nothing is left behind.
pub fn run(case: &Case, seed: u64, options: &Options) -> Result<Outcome, RunError> {
    let began = std::time::Instant::now();
    let scenario = &case.scenario;
    check(scenario)?;
    let workload = Workload::new(scenario, seed, &options.congestion)?;
    let topology = Topology::build(scenario.radio.stations)?;
    for host in std::iter::once(&topology.ch).chain(&topology.stations) {
        tune(host, scenario)?;
    }
    let mut agent = match &scenario.mechanism {
        Mechanism::None => None,
        Mechanism::DsaSync(_) => Some(AgentProcess::start(&topology, scenario, &options.program)?),
    };
    let link = agent.as_ref().map(AgentProcess::link).transpose()?;
    let faults = link.as_ref().map(|link| link.faults());
    let sink: Box<dyn LinkSink> = match link {
        Some(link) => Box::new(link),
        None => Box::new(NoSink),
    };
    let (capture, packets) = match &options.capture {
        Some(path) => {
            let comment = format!("linkhold testbed {}: case {}, seed {seed}", scenario.name, case.name);
            let (capture, packets) = PcapCapture::create(path, &comment).map_err(RunError::Capture)?;
            (Some(capture), Some(packets))
        }
        None => (None, None),
    };
    let warm_up = Instant::ZERO + scenario.warm_up;
    let Topology { ch, wan, bs, stations, tuns } = topology;
    let parts = EtherParts {
        air: linkhold_sim::build::air(scenario, seed)?,
        down: linkhold_sim::build::wired_pipe(scenario),
        up: linkhold_sim::build::wired_pipe(scenario),
        tuns,
        log: FlowLog::new(warm_up, scenario.output.series_interval),
        warm_up,
        sink,
        capture: capture.map(|capture| Box::new(capture) as Box<dyn ether::Capture>),
    };
    let traffic = Traffic::prepare(&ch, &workload)?;
    let end = Instant::ZERO + scenario.duration;
    let stop = Arc::new(AtomicBool::new(false));
    let engine_stop = stop.clone();
    let engine = std::thread::Builder::new()
        .name("air".to_owned())
        .spawn(move || ether::run(parts, end, &engine_stop))
        .map_err(RunError::Ether)?;
    let hosts = Hosts { ch: &ch, stations: &stations };
    let watched = hosts.drive(scenario, options, &workload, traffic);
    // Also on an error; on success it is over anyway.
    if watched.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    let joined = engine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let status = agent.as_mut().map(AgentProcess::status).transpose();
    drop(agent);
    let (report, tuns) = joined.map_err(RunError::Ether)?;
    drop((tuns, wan, bs));
    let watched = watched?;
    let agent = status?;
    if let Some(packets) = packets {
        packets.finish().map_err(RunError::Capture)?;
    }
    if let Some(missed) = faults.map(|faults| faults.load(Ordering::Relaxed)).filter(|&missed| missed > 0) {
        return Err(RunError::Agent(format!("it did not take {missed} of the radio's events")));
    }
    let found = outcome::Found { report, watched, agent, wall: began.elapsed() };
    outcome::outcome(case, seed, &options.congestion, &workload, found)
}

/// Settings of a host's TCP that the scenario decides. What it leaves open stays as the kernel has it.
fn tune(host: &NetNs, scenario: &ResolvedScenario) -> Result<(), NetNsError> {
    let tcp = &scenario.tcp;
    let switch = |on: bool| if on { "1" } else { "0" };
    // The programs choose the scenario's congestion control by socket, since a namespace's default may only be one that
    // this machine allows to everybody. But a connection begins with the default, and one that began with BBR stays paced
    // for its life, whatever it changes to: the default here is the one that every kernel has and allows.
    host.sysctl("net/ipv4/tcp_congestion_control", "reno")?;
    host.sysctl("net/ipv4/tcp_sack", switch(tcp.sack))?;
    host.sysctl("net/ipv4/tcp_timestamps", switch(tcp.timestamps))?;
    if tcp.ecn {
        host.sysctl("net/ipv4/tcp_ecn", "1")?;
    }
    if tcp.receive_autotune.is_none() {
        // Half of the buffer is the window (tcp_adv_win_scale 1, and the start of the ratio that replaced it).
        let buffer = tcp.receive_buffer.0.saturating_mul(2);
        host.sysctl("net/ipv4/tcp_rmem", &format!("4096 {buffer} {buffer}"))?;
        host.sysctl("net/ipv4/tcp_moderate_rcvbuf", "0")?;
    }
    match scenario.tcp_profile {
        Profile::Linux => Ok(()),
        // An old stack in today's kernel: without RACK and tail loss probes, timeouts as the profile says. It keeps PRR
        // and today's initial window.
        Profile::Linux2009 | Profile::Classic => {
            host.sysctl("net/ipv4/tcp_recovery", "0")?;
            host.sysctl("net/ipv4/tcp_early_retrans", "0")?;
            host.sysctl("net/ipv4/tcp_frto", if tcp.frto { "2" } else { "0" })
        }
    }
}

/// A sender's connection at one time.
#[derive(Clone, Copy, Debug)]
pub struct WindowSample {
    /// When, s after the start of the run.
    pub at_s: f64,
    /// The station's port.
    pub station_port: u16,
    /// The correspondent host's port.
    pub correspondent_port: u16,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` while infinite.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time, s.
    pub rtt_s: f64,
    /// Segments in flight.
    pub in_flight: u32,
    /// Window last heard from the receiver, bytes.
    pub send_window: Option<u32>,
}

impl WindowSample {
    fn new(at_s: f64, direction: Direction, socket: &Socket) -> Self {
        let (station_port, correspondent_port) = match direction {
            Direction::Downlink => (socket.peer_port, socket.local_port),
            Direction::Uplink => (socket.local_port, socket.peer_port),
        };
        Self {
            at_s,
            station_port,
            correspondent_port,
            cwnd: socket.cwnd,
            ssthresh: socket.ssthresh,
            rtt_s: f64::from(socket.rtt_us) / 1e6,
            in_flight: socket.unacked,
            send_window: socket.send_window,
        }
    }
}

/// What the hosts' side of a run saw.
pub struct Watched {
    /// What the senders' kernels counted.
    pub kernel: Counters,
    /// Sized flows.
    pub completions: Vec<Completion>,
    /// Sized flows whose bytes were wrong.
    pub corrupt: u64,
    /// Senders' windows over time.
    pub windows: Vec<WindowSample>,
    /// How long the hosts' programs stood still for want of a processor.
    pub stalled: StdDuration,
}

/// Adds up the times in which a program that should run did not, as seen from looks a [`SOCKET_INTERVAL`] apart.
struct Stalls {
    looked: std::time::Instant,
    waits: Vec<StdDuration>,
    total: StdDuration,
}

impl Stalls {
    fn new(now: std::time::Instant) -> Self {
        Self { looked: now, waits: Vec::new(), total: StdDuration::ZERO }
    }

    /// A look: `waits` is how long each program has waited so far. Waits of some microseconds are usual; what counts is an
    /// interval's worth between two looks, or a look that comes an interval late itself.
    fn look(&mut self, now: std::time::Instant, waits: Vec<StdDuration>) {
        let before = self.waits.iter().copied().chain(std::iter::repeat(StdDuration::ZERO));
        let waited = waits.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).max();
        let late = now.duration_since(self.looked).saturating_sub(SOCKET_INTERVAL);
        let stalled = waited.unwrap_or_default().max(late);
        if stalled >= SOCKET_INTERVAL {
            self.total += stalled;
        }
        (self.looked, self.waits) = (now, waits);
    }
}

struct Hosts<'a> {
    ch: &'a NetNs,
    stations: &'a [NetNs],
}

/// A host with senders.
struct Sender<'a> {
    netns: &'a NetNs,
    direction: Direction,
    sockets: Sockets,
    before: Counters,
}

impl Hosts<'_> {
    fn senders(&self, workload: &Workload) -> Result<Vec<Sender<'_>>, NetNsError> {
        let iperf = workload.iperf.iter().map(|client| (client.station, client.direction));
        let sized = workload.sized.iter().map(|flows| (flows.station, flows.direction));
        let mut hosts: Vec<Option<u32>> = iperf
            .chain(sized)
            .map(|(station, direction)| match direction {
                Direction::Downlink => None,
                Direction::Uplink => Some(station),
            })
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        let mut senders = Vec::with_capacity(hosts.len());
        for host in hosts {
            let (netns, direction) = match host {
                None => (self.ch, Direction::Downlink),
                Some(station) => match self.stations.get(station as usize) {
                    Some(netns) => (netns, Direction::Uplink),
                    None => continue,
                },
            };
            let (sockets, before) = (Sockets::open(netns)?, kernel::counters(netns)?);
            senders.push(Sender { netns, direction, sockets, before });
        }
        Ok(senders)
    }

    fn drive(
        &self,
        scenario: &ResolvedScenario,
        options: &Options,
        workload: &Workload,
        mut traffic: Traffic,
    ) -> Result<Watched, RunError> {
        let mut senders = self.senders(workload)?;
        let began = std::time::Instant::now();
        traffic.start(self.stations, workload, began)?;
        let length = StdDuration::from_nanos(scenario.duration.as_nanos());
        let mut windows = Vec::new();
        let mut stalls = Stalls::new(std::time::Instant::now());
        while began.elapsed() < length {
            if options.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            std::thread::sleep(SOCKET_INTERVAL.min(length.saturating_sub(began.elapsed())));
            traffic.check()?;
            stalls.look(std::time::Instant::now(), traffic.waits().collect());
            for sender in &mut senders {
                let at_s = began.elapsed().as_secs_f64();
                // A sample missed is no fault of the run.
                for socket in sender.sockets.read().unwrap_or_default() {
                    windows.push(WindowSample::new(at_s, sender.direction, &socket));
                }
            }
        }
        let mut total = Counters::new();
        for sender in &senders {
            for (name, count) in kernel::difference(&sender.before, &kernel::counters(sender.netns)?) {
                *total.entry(name).or_insert(0) += count;
            }
        }
        let (completions, corrupt) = traffic.finish();
        Ok(Watched { kernel: total, completions, corrupt, windows, stalled: stalls.total })
    }
}

/// Whether `path` can be written is known only when it is opened; this names the file of one run.
#[must_use]
pub fn capture_path(folder: &Path, case: &str, congestion: &str, seed: u64) -> PathBuf {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_+.".contains(c), "_");
    folder.join(format!("{}-{}-seed{seed}.pcapng", plain(case), plain(congestion)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_a_long_wait_or_a_late_look() {
        let (start, ms) = (std::time::Instant::now(), StdDuration::from_millis);
        let mut stalls = Stalls::new(start);
        stalls.look(start + ms(20), vec![ms(3), ms(1)]);
        assert_eq!(stalls.total, ms(0), "short waits are usual");
        stalls.look(start + ms(45), vec![ms(8), ms(31)]);
        assert_eq!(stalls.total, ms(30), "the second program waited for 30 ms more");
        stalls.look(start + ms(165), vec![ms(8), ms(31)]);
        assert_eq!(stalls.total, ms(130), "a look 100 ms late");
        stalls.look(start + ms(185), vec![ms(9), ms(32), ms(2)]);
        assert_eq!(stalls.total, ms(130), "a program that is new");
    }
}
