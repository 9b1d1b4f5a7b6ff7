//! Makes one run of the testbed: one case of a scenario, one congestion control and one seed, in real time.
//!
//! Build the namespaces, start the daemons that carry out the case's mechanisms (none for the plain router),
//! the servers, the air, the clients; wait for the end, read everything, remove everything. A run whose air
//! was late is an error, not a result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use linkhold_core::packet::Direction;
use linkhold_core::time::Instant;
use linkhold_scenario::{Case, FlowGroup, Profile, ResolvedScenario, Transport};

use super::air_thread::beside_the_air;
use super::capture::PcapCapture;
use super::datagrams::Datagrams;
use super::error::{RunError, Unsupported};
use super::ether::{self, EtherParts};
use super::flowlog::FlowLog;
use super::host_load::HostMeter;
use super::kernel::{self, Counters, Sockets};
use super::link::DaemonLink;
use super::outcome::{self, Outcome};
use super::ports::Capture;
use super::quic::{CONGESTION_CONTROLS, has_congestion};
use super::seats::{Daemons, Seats, missing_for};
use super::topology::{HostAt, MAX_STATIONS, Topology};
use super::traffic::Traffic;
use super::watched::{SOCKET_INTERVAL, Stalls, Watched, WindowSample};
use super::workload::Workload;
use crate::netns::{NetNs, NetNsError};

/// What the kernel takes for the MSS on a device with an MTU of 1500 bytes ([`tun::MTU`](super::tun)) and
/// IPv4. With IPv6 it takes 20 less, which the simulator leaves out.
const MSS: u16 = 1460;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `linkhold` program, for the daemons.
    pub program: PathBuf,
    /// Its name, version and commit, for captures.
    pub version: String,
    /// Congestion control of the data senders, as the kernel calls it.
    pub congestion: String,
    /// Where to write the packets as pcapng, if at all.
    pub capture: Option<PathBuf>,
    /// Set to end the run early.
    pub stop: Arc<AtomicBool>,
}

/// The congestion controls that the kernel has.
///
/// # Errors
/// The system's.
pub fn available_congestion_controls() -> std::io::Result<Vec<String>> {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
}

/// Refuses a scenario that no testbed can run, before anything is built. What only this machine lacks,
/// [`missing_for`] tells.
///
/// # Errors
/// [`RunError::Unsupported`].
pub fn check(scenario: &ResolvedScenario) -> Result<(), RunError> {
    if scenario.mesh.is_some() {
        return Err(Unsupported::new(
            "mesh",
            "the testbed has no mesh",
            "run this scenario with linkhold run",
        )
        .into());
    }
    if scenario.radio.stations > MAX_STATIONS {
        let what = format!("the testbed has no room for {} stations", scenario.radio.stations);
        return Err(Unsupported::new("radio.stations", what, format!("write at most {MAX_STATIONS}")).into());
    }
    if scenario.tcp.mss != MSS {
        let what =
            format!("the kernel's senders have an MSS of {MSS} bytes here, not of {}", scenario.tcp.mss);
        return Err(Unsupported::new("tcp.mss", what, "remove it, or simulate it with `linkhold run`").into());
    }
    Seats::of(scenario)?;
    Workload::new(scenario, 0, "").map(|_| ())
}

/// Refuses a congestion control that the senders of a scenario cannot use.
///
/// # Errors
/// [`RunError::Unsupported`].
pub fn check_congestion(scenario: &ResolvedScenario, name: &str) -> Result<(), RunError> {
    let over_quic = |group: &FlowGroup| matches!(group.transport, Transport::Quic { .. });
    if let Some(group) = scenario.flows.iter().position(over_quic)
        && !has_congestion(name)
    {
        let what = format!("quinn has no congestion control {name:?} for QUIC");
        let right = format!("use one of {}", CONGESTION_CONTROLS.join(", "));
        return Err(Unsupported::new(format!("flows[{group}].transport"), what, right).into());
    }
    Seats::of(scenario)?.congestion(scenario, name).map(|_| ())
}

/// Runs `case` with `seed`.
///
/// # Errors
/// [`RunError`]; whatever happens, nothing is left behind.
pub fn run(case: &Case, seed: u64, options: &Options) -> Result<Outcome, RunError> {
    let Some(path) = &options.capture else { return run_with(case, seed, options, None) };
    let comment =
        format!("{}, testbed: {}, case {}, seed {seed}", options.version, case.scenario.name, case.name);
    let (capture, packets) = PcapCapture::create(path, &comment).map_err(RunError::Capture)?;
    match run_with(case, seed, options, Some(Box::new(capture))) {
        Ok(outcome) => {
            let missed = packets.finish().map_err(RunError::Capture)?;
            if missed > 0 {
                let file = path.file_name().unwrap_or_default().display();
                tracing::warn!("{file} lacks {missed} packets, for which the disk was too slow");
            }
            Ok(outcome)
        }
        Err(error) => {
            packets.discard();
            Err(error)
        }
    }
}

/// As [`run`]; the engine, and `capture` with it, is gone in the end.
fn run_with(
    case: &Case,
    seed: u64,
    options: &Options,
    capture: Option<Box<dyn Capture>>,
) -> Result<Outcome, RunError> {
    let entered = std::time::Instant::now();
    let scenario = &case.scenario;
    check(scenario)?;
    if let Some(missing) = missing_for(scenario) {
        return Err(missing.into());
    }
    let seats = Seats::of(scenario)?;
    let mut workload = Workload::new(scenario, seed, &options.congestion)?;
    workload.congestion = seats.congestion(scenario, &options.congestion)?;
    let topology = Topology::build(scenario.radio.stations)?;
    for host in std::iter::once(&topology.ch).chain(&topology.stations) {
        tune(host, scenario)?;
    }
    let mut daemons = seats.start(&topology, scenario, &options.program)?;
    let links = daemons.links(scenario)?;
    let faults: Vec<_> = links.iter().map(DaemonLink::faults).collect();
    let warm_up = Instant::ZERO + scenario.warm_up;
    let (network, wire) = linkhold_sim::build::open_network(scenario, seed)?;
    let Topology { ch, wan, bs, stations, tuns } = topology;
    let traffic = Traffic::prepare(&ch, &stations, &workload, scenario)?;
    let hosts = Hosts { ch: &ch, stations: &stations };
    let senders = hosts.senders(&workload)?;
    let mut log = FlowLog::new(warm_up, scenario.output.series_interval);
    for (key, flow) in workload.udp_keys() {
        log.expect(key, Datagrams::new(flow));
    }
    for (key, flow) in workload.quic_keys() {
        log.expect(key, Datagrams::of_quic(flow.group, flow.direction));
    }
    let host = HostMeter::start();
    let began = std::time::Instant::now();
    let parts = EtherParts { network, wire, tuns, log, warm_up, sink: Box::new(links), capture, began };
    let end = Instant::ZERO + scenario.duration;
    let started = Started { began, traffic, senders, daemons: &daemons };
    let (joined, watched) = beside_the_air(
        move |stop| ether::run(parts, end, stop),
        || hosts.drive(scenario, options, &workload, started),
    )
    .map_err(RunError::Ether)?;
    let host = host.load();
    let statuses = daemons.statuses();
    let who: Vec<String> = daemons.names().map(str::to_owned).collect();
    drop(daemons);
    let (report, tuns) = joined.map_err(RunError::Ether)?;
    drop((tuns, wan, bs));
    let watched = watched?;
    let statuses = statuses?;
    for (who, faults) in who.into_iter().zip(&faults) {
        let missed = faults.load(Ordering::Relaxed);
        if missed > 0 {
            let what = format!("it did not take {missed} of the radio's events");
            return Err(RunError::Daemon { who, what });
        }
    }
    let found = outcome::Found { report, watched, daemons: statuses, wall: entered.elapsed(), host };
    outcome::outcome(case, seed, &options.congestion, &workload, found)
}

/// Settings of a host's TCP that the scenario decides. What it leaves open stays as the kernel has it.
fn tune(host: &NetNs, scenario: &ResolvedScenario) -> Result<(), NetNsError> {
    let tcp = &scenario.tcp;
    let switch = |on: bool| if on { "1" } else { "0" };
    // The programs choose the scenario's congestion control by socket, since a namespace's default may only
    // be one that this machine allows to everybody. But a connection begins with the default, and one that
    // began with BBR stays paced all its life, whatever it changes to. So the default here is Reno, which
    // every kernel has and allows.
    host.sysctl("net/ipv4/tcp_congestion_control", "reno")?;
    host.sysctl("net/ipv4/tcp_sack", switch(tcp.sack))?;
    host.sysctl("net/ipv4/tcp_timestamps", switch(tcp.timestamps))?;
    if tcp.ecn {
        host.sysctl("net/ipv4/tcp_ecn", "1")?;
    }
    if tcp.receive_autotune.is_none() {
        let buffer = receive_memory(tcp.receive_buffer.0, &kernel::release());
        host.sysctl("net/ipv4/tcp_rmem", &format!("4096 {buffer} {buffer}"))?;
        host.sysctl("net/ipv4/tcp_moderate_rcvbuf", "0")?;
    }
    match scenario.tcp_profile {
        Profile::Linux => Ok(()),
        // An old stack in today's kernel: without RACK and tail loss probes, timeouts as the profile says. It
        // keeps PRR and today's initial window.
        Profile::Linux2009 | Profile::Classic => {
            host.sysctl("net/ipv4/tcp_recovery", "0")?;
            host.sysctl("net/ipv4/tcp_early_retrans", "0")?;
            host.sysctl("net/ipv4/tcp_frto", if tcp.frto { "2" } else { "0" })
        }
    }
}

/// Memory that the kernel takes for a full segment from a TUN device, bytes: 2 KiB of data with its headers
/// and 256 for the `sk_buff`.
const SEGMENT_MEMORY: u64 = 2304;

/// The buffer, bytes, with which a kernel of this release offers a receive window of `window` bytes.
///
/// Up to Linux 6.5 the window is half of the buffer (`tcp_adv_win_scale` = 1). Later, half is the beginning;
/// from the first full segment on it is the buffer's share that is payload in such a segment, in 256ths
/// (`tcp_measure_rcv_mss`), and the segment just arrived has taken its part (`tcp_grow_window`).
fn receive_memory(window: u64, release: &str) -> u64 {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 6) {
        return window.saturating_mul(2);
    }
    // 1448 bytes of 2304 are 160 of 256.
    window.saturating_mul(8).div_ceil(5).saturating_add(SEGMENT_MEMORY)
}

struct Hosts<'a> {
    ch: &'a NetNs,
    stations: &'a [NetNs],
}

/// A host with senders.
struct Sender<'a> {
    at: HostAt,
    netns: &'a NetNs,
    direction: Direction,
    sockets: Sockets,
    /// What was counted before the start, and by the end of the warm-up.
    before: Counters,
    at_warm_up: Option<Counters>,
}

/// What is there when a run's time begins.
struct Started<'a> {
    /// Time 0, of engine and hosts alike.
    began: std::time::Instant,
    traffic: Traffic,
    senders: Vec<Sender<'a>>,
    daemons: &'a Daemons,
}

impl<'n> Hosts<'n> {
    fn senders(&self, workload: &Workload) -> Result<Vec<Sender<'n>>, NetNsError> {
        let iperf = workload.iperf.iter().map(|client| (client.station, client.direction));
        let sized = workload.sized.iter().map(|flows| (flows.station, flows.direction));
        let mut hosts: Vec<HostAt> =
            iperf.chain(sized).map(|(station, direction)| HostAt::sending(direction, station)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let mut senders = Vec::with_capacity(hosts.len());
        for at in hosts {
            let (netns, direction) = match at {
                HostAt::Correspondent => (self.ch, Direction::Downlink),
                HostAt::Station(station) => match self.stations.get(station as usize) {
                    Some(netns) => (netns, Direction::Uplink),
                    None => continue,
                },
            };
            let (sockets, before) = (Sockets::open(netns)?, kernel::counters(netns)?);
            senders.push(Sender { at, netns, direction, sockets, before, at_warm_up: None });
        }
        Ok(senders)
    }

    fn drive(
        &self,
        scenario: &ResolvedScenario,
        options: &Options,
        workload: &Workload,
        started: Started<'_>,
    ) -> Result<Watched, RunError> {
        let Started { began, mut traffic, mut senders, daemons } = started;
        traffic.start(self.stations, workload, began)?;
        let length = StdDuration::from_nanos(scenario.duration.as_nanos());
        let warm_up = StdDuration::from_nanos(scenario.warm_up.as_nanos());
        let mut windows = Vec::new();
        let mut stalls = Stalls::new(std::time::Instant::now(), traffic.waits(), &daemons.waits());
        while began.elapsed() < length {
            if options.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            let now = began.elapsed();
            let next = if now < warm_up { warm_up } else { length };
            let next = traffic.next_stop().map_or(next, |stop| stop.min(next));
            std::thread::sleep(SOCKET_INTERVAL.min(next.saturating_sub(now)));
            let warm = began.elapsed() >= warm_up;
            for sender in senders.iter_mut().filter(|sender| warm && sender.at_warm_up.is_none()) {
                sender.at_warm_up = Some(kernel::counters(sender.netns)?);
            }
            traffic.check()?;
            // The daemons' first: it takes a while to ask for those of many programs.
            let (looked, waits) = (std::time::Instant::now(), daemons.waits());
            stalls.look(looked, traffic.waits(), &waits);
            for sender in &mut senders {
                let at_s = began.elapsed().as_secs_f64();
                // A missed sample does not spoil the run.
                let sockets = sender.sockets.read().unwrap_or_default();
                let told_s = began.elapsed().as_secs_f64();
                for socket in sockets {
                    windows.push(WindowSample::new((at_s, told_s), sender.direction, &socket));
                }
            }
        }
        let (mut total, mut counted) = (Counters::new(), Vec::with_capacity(senders.len()));
        for sender in &senders {
            let after = kernel::counters(sender.netns)?;
            for (name, count) in kernel::difference(&sender.before, &after) {
                *total.entry(name).or_insert(0) += count;
            }
            let base = sender.at_warm_up.as_ref().unwrap_or(&after);
            counted.push((sender.at, kernel::difference(base, &after)));
        }
        let traffic = traffic.finish();
        let (stalled, daemon_stalls) = (stalls.total(), stalls.of_daemons(daemons.names()));
        Ok(Watched { kernel: total, counted, traffic, windows, stalled, daemon_stalls })
    }
}

/// The file for the packets of one run.
#[must_use]
pub fn capture_path(folder: &Path, case: &str, congestion: &str, seed: u64) -> PathBuf {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_+.".contains(c), "_");
    folder.join(format!("{}-{}-seed{seed}.pcapng", plain(case), plain(congestion)))
}

#[cfg(test)]
mod tests {
    use super::receive_memory;

    #[test]
    fn the_buffer_for_a_window_follows_the_kernels_rule() {
        for (release, window, buffer) in [
            ("5.15.0-91-generic", 32_768, 65_536),
            ("6.5.13", 32_768, 65_536),
            // Measured on 6.18: 65,536 gave a window of 39,552, which is 39,520 in steps of 128; 131,072 gave
            // 80,512.
            ("6.18.44-fc-v445", 39_520, 65_536),
            ("6.18.44-fc-v445", 80_480, 131_072),
            ("7.0-rc1", 32_768, 54_733),
        ] {
            assert_eq!(receive_memory(window, release), buffer, "{release}, {window}");
        }
    }
}
