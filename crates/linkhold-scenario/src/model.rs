//! The scenario as the simulator uses it: typed, with every default filled in and every check passed.
//!
//! A value of these types is valid by construction when it comes from `Scenario::cases`:
//! indices are in range, rates and durations that must not be zero are not, and thresholds are in order. The
//! file format (keys, units, defaults) is described in `file.rs`.

use std::path::PathBuf;
use std::sync::Arc;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::Trace;
use linkhold_tcp::TcpConfig;

/// One case to compare: a name and the whole scenario as this case sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name in results; unique in its scenario.
    pub name: String,
    /// The scenario with the case's own settings applied.
    pub scenario: ResolvedScenario,
}

/// Everything one run needs but the seed's repetition number.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedScenario {
    /// Name of the scenario, also the default output folder.
    pub name: String,
    /// One or two sentences for the report.
    pub description: String,
    /// Simulated time from start to end, warm-up included.
    pub duration: Duration,
    /// Time at the start that goodput and delay do not count; shorter than `duration`.
    pub warm_up: Duration,
    /// Seed of the first repetition.
    pub seed: u64,
    /// Between correspondent hosts and base station.
    pub wired: Wired,
    /// The air between base station and stations.
    pub radio: Radio,
    /// The base station's downlink transmit queue.
    pub router: Queue,
    /// The mechanism is told the room in the router's queue and can take packets back from it (the testbed: never).
    pub router_visible: bool,
    /// Each station's own uplink transmit queue.
    pub station: Queue,
    /// The stack that `tcp` started from.
    pub tcp_profile: Profile,
    /// Both ends of every connection: the profile with the file's keys applied.
    pub tcp: TcpConfig,
    /// The connections.
    pub flows: Vec<FlowGroup>,
    /// What runs at the base station.
    pub mechanism: Mechanism,
    /// What to record.
    pub output: Output,
}

/// The wired segment, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wired {
    /// Rate of each direction.
    pub rate: BitRate,
    /// Propagation of one direction: half the base round-trip time.
    pub one_way_delay: Duration,
    /// DropTail limit of each direction, packets.
    pub queue: u32,
}

/// The radio cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Radio {
    /// Number of stations, numbered from 0; at least 1.
    pub stations: u32,
    /// How frames get their turn, and at which rate.
    pub mac: Mac,
    /// Quiet periods of the whole cell.
    pub sensing: Option<Sensing>,
    /// Quiet periods of single stations, at most one schedule a station, sorted by station.
    pub station_sensing: Vec<StationSensing>,
}

/// How frames get their turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Mac {
    /// One channel for both directions and all stations, as in a Wi-Fi cell (half duplex).
    Shared(Cell),
    /// Downlink and uplink each have the full rate, as with frequency-division duplex.
    Duplex(Cell),
    /// Measured delivery opportunities (mahimahi traces), one for each direction.
    Trace(TraceLink),
}

/// Channels and how the cell moves between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The channels, at least one.
    pub channels: Vec<Channel>,
    /// Index of the channel the run starts on.
    pub initial_channel: u32,
    /// Collisions with a primary user after which a frame is given up, less one.
    pub retry_limit: u32,
    /// Silence of one channel switch.
    pub switching_delay: Duration,
    /// Scripted switches, sorted by time; within the run.
    pub switches: Vec<Switch>,
    /// What else makes the cell change channel.
    pub switch_policy: SwitchPolicy,
}

/// One channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// Raw physical-layer rate, the paper's C.
    pub phy_rate: BitRate,
    /// Share of the rate that the MAC leaves for IP packets, the paper's e; above 0.
    pub mac_efficiency: Fraction,
    /// The licensed user of this channel, if any.
    pub primary_user: Option<PrimaryUser>,
}

/// A primary user that comes and goes: exponential ON and OFF times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrimaryUser {
    /// Mean length of a burst.
    pub on_mean: Duration,
    /// Mean length of the pause between bursts.
    pub off_mean: Duration,
    /// How long after a burst's start the cell falls silent (and the mechanism is told); frames sent in between are lost.
    pub detection_delay: Duration,
    /// How long after a burst's end the cell transmits again.
    pub end_detection_delay: Duration,
}

/// A scripted channel switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When the old channel is left.
    pub at: Instant,
    /// Index of the new channel.
    pub to_channel: u32,
}

/// What makes the cell change channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchPolicy {
    /// Only the scripted switches.
    Scripted,
    /// Besides, a detected primary user: to the free channel of the highest usable rate, lowest index first;
    /// stays where it is while no channel is free.
    OnPrimaryUser,
}

/// A periodic quiet period: silent during `[phase + k·period, phase + k·period + duration)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensing {
    /// From one quiet period's start to the next.
    pub period: Duration,
    /// Length of one; shorter than `period`.
    pub duration: Duration,
    /// Start of the first.
    pub phase: Duration,
    /// Whether the mechanism is told the schedule in advance.
    pub announced: bool,
}

/// A quiet period of one station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationSensing {
    /// The station.
    pub station: u32,
    /// Its schedule.
    pub sensing: Sensing,
}

/// A link that plays measured delivery opportunities; all stations share it, each direction on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceLink {
    /// Opportunities from base station to stations.
    pub down: TraceFile,
    /// Opportunities from stations to base station.
    pub up: TraceFile,
    /// A gap between downlink opportunities longer than this is a silence.
    pub silence_threshold: Duration,
    /// How long after its start the mechanism is told of a silence; 0 is an oracle.
    pub detection_delay: Duration,
    /// Each repetition starts at a place of the trace that its seed draws, the same in both directions.
    pub random_start: bool,
}

/// A delivery trace, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// What it says. Cases and repetitions share it.
    pub trace: Arc<Trace>,
}

/// A transmit queue and what becomes of arrivals during a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The discipline.
    pub discipline: Discipline,
    /// What becomes of a packet that arrives while its station is silent.
    pub in_silence: InSilence,
}

/// A queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out; an arrival at a full queue is dropped.
    Fifo {
        /// Most packets in it.
        limit: u32,
    },
    /// Fair queueing with controlled delay (RFC 8290).
    FqCodel {
        /// Packets in all its queues together.
        limit: u32,
        /// Bytes in all its queues together.
        memory_limit: Bytes,
        /// Acceptable standing delay (RFC 8290 section 5.2.2).
        target: Duration,
        /// How long the delay may exceed the target before the first drop (section 5.2.1).
        interval: Duration,
        /// Bytes a queue sends per round (section 5.2.4).
        quantum: u32,
        /// Number of hash buckets (section 5.2.5).
        flows: u32,
        /// Mark ECN-capable packets instead of dropping them (section 5.2.6).
        ecn: bool,
    },
}

/// What becomes of a packet that arrives while its station is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InSilence {
    /// It is queued as at any other time.
    Queue,
    /// It is dropped: the radio refuses it.
    Drop,
    /// It is dropped, and so is all that was queued when a silence of the whole network began.
    Flush,
}

/// A stack whose defaults apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Linux of the 2020s: CUBIC, RACK-TLP, F-RTO, PRR, timestamps, initial window 10, automatic buffers.
    Linux,
    /// Linux of 2009, the paper's: SACK, no RACK, F-RTO that only decreases less, 256 KiB windows.
    Linux2009,
    /// The textbook: RFC 5681 and 6582, no SACK, no timestamps.
    Classic,
}

/// A group of alike connections.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowGroup {
    /// Which way the data flows.
    pub direction: Direction,
    /// The stations, in order; `count` connections each.
    pub stations: Vec<u32>,
    /// Connections per station; ignored where `arrivals` is set.
    pub count: u32,
    /// When the first connection opens.
    pub start: Instant,
    /// Added to the start of each further connection of the group.
    pub stagger: Duration,
    /// When the application stops offering data; `None`: never.
    pub stop: Option<Instant>,
    /// What the application sends.
    pub source: Source,
    /// Connections arriving at random instead of a fixed count.
    pub arrivals: Option<Arrivals>,
    /// Internet protocol.
    pub ip: IpVersion,
}

/// What the application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// As much as TCP takes.
    Bulk,
    /// This much, then FIN.
    Finite(Bytes),
    /// At a steady rate, written in chunks.
    Paced {
        /// The rate.
        rate: BitRate,
        /// Size of one write.
        chunk: Bytes,
    },
}

/// Connections that arrive at random: a Poisson process from `start` to the end (or `stop`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Mean number of new connections a second per station.
    pub per_second: f64,
}

/// Version of the Internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4: 20-byte header.
    V4,
    /// IPv6: 40-byte header.
    V6,
}

/// What runs at the base station.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mechanism {
    /// The plain router.
    None,
    /// DSASync with these settings, valid by [`DsaSyncConfig::validate`].
    DsaSync(DsaSyncConfig),
}

/// What to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Width of one point of a time series.
    pub series_interval: Duration,
}
