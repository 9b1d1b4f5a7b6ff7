//! The scenario as the simulator uses it: typed, with every default filled in and every check passed.
//!
//! A value of these types is valid by construction when it comes from `Scenario::cases`:
//! indices are in range, rates and durations that must not be zero are not, and thresholds are in order. The
//! file format (keys, units, defaults) is described in `file.rs`.

use std::path::PathBuf;

use linkhold_core::mechanism::Place;
use linkhold_core::packet::Direction;
use linkhold_core::registry::MechanismSettings;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};
use linkhold_radio::AirConfig;
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
    /// The air between base station and stations, with the transmit queues at both ends. `Air::new` takes it.
    pub radio: AirConfig,
    /// Where the traces come from that the radio plays, if it plays any.
    pub traces: Option<TraceFiles>,
    /// The mechanism is told the room in the router's queue and can take packets back from it (the testbed:
    /// never).
    pub router_visible: bool,
    /// How `linkhold host` freezes senders on the testbed; `None`: by window updates.
    pub host_freeze: Option<HostFreeze>,
    /// The stack that `tcp` started from.
    pub tcp_profile: Profile,
    /// Both ends of every connection: the profile with the file's keys applied.
    pub tcp: TcpConfig,
    /// The connections.
    pub flows: Vec<FlowGroup>,
    /// The mechanisms, in the file's order; none is the plain router. No mechanism stands twice at one place.
    pub mechanisms: Vec<PlacedMechanism>,
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

/// The files whose traces a radio plays; what they say is in the radio's `mac`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFiles {
    /// Where the downlink's was read from.
    pub down: PathBuf,
    /// Where the uplink's was read from.
    pub up: PathBuf,
}

/// How `linkhold host` freezes a kernel's senders on the testbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostFreeze {
    /// By window updates.
    #[default]
    Window,
    /// By the eBPF congestion controls, which the senders must use.
    Kernel,
    /// By both.
    Both,
}

impl HostFreeze {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Kernel => "kernel",
            Self::Both => "both",
        }
    }

    /// True if it takes the eBPF congestion controls.
    #[must_use]
    pub const fn takes_ebpf(self) -> bool {
        match self {
            Self::Window => false,
            Self::Kernel | Self::Both => true,
        }
    }
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

/// A mechanism and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedMechanism {
    /// Where it stands: a place where the mechanism can.
    pub place: Place,
    /// Its settings, valid by [`MechanismSettings::validate`].
    pub settings: MechanismSettings,
}

impl<T: Into<MechanismSettings>> From<T> for PlacedMechanism {
    /// The mechanism at its natural place.
    fn from(settings: T) -> Self {
        let settings = settings.into();
        Self { place: settings.entry().natural_place(), settings }
    }
}

/// What to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Width of one point of a time series.
    pub series_interval: Duration,
}
