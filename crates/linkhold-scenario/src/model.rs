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
use linkhold_mesh::MeshConfig;
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
    /// A mesh in place of the cell. Then `wired` is not used, and of `radio` nothing but the number of
    /// stations, which is that of the nodes.
    pub mesh: Option<Box<MeshConfig>>,
    /// Where the traces come from that the radio plays, if it plays any.
    pub traces: Option<TraceFiles>,
    /// The mechanism is told the room in the router's queue and can take packets back from it (the testbed:
    /// never).
    pub router_visible: bool,
    /// Time until what a station's host sends is at its radio.
    pub host_delay: Duration,
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
    /// Mean wait of each direction's packets behind traffic of others.
    pub jitter: Duration,
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

/// How `linkhold host` freezes a kernel's senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostFreeze {
    /// By window updates.
    #[default]
    Window,
    /// By the eBPF congestion controls, which the senders must use; windows stay open.
    Kernel,
    /// By both.
    Both,
}

impl HostFreeze {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Window, Self::Kernel, Self::Both];

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Kernel => "kernel",
            Self::Both => "both",
        }
    }

    /// True if windows are closed in a silence.
    #[must_use]
    pub const fn closes_windows(self) -> bool {
        match self {
            Self::Window | Self::Both => true,
            Self::Kernel => false,
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
    /// The stations, in order; `count` connections each. In a mesh, the nodes that send; none where `to`
    /// draws them.
    pub stations: Vec<u32>,
    /// In a mesh, who receives.
    pub to: Option<Receiver>,
    /// Connections per station (or pair of nodes); ignored where `arrivals` is set.
    pub count: u32,
    /// When the first connection opens.
    pub start: Instant,
    /// Added to the start of each further connection of the group.
    pub stagger: Duration,
    /// When the application stops offering data; `None`: never.
    pub stop: Option<Instant>,
    /// What carries the data.
    pub transport: Transport,
    /// What the application sends.
    pub source: Source,
    /// Connections arriving at random instead of a fixed count.
    pub arrivals: Option<Arrivals>,
    /// Internet protocol.
    pub ip: IpVersion,
}

/// Who receives the data of a mesh's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// This node.
    Node(u32),
    /// The seed draws both ends of each connection. Nobody is an end of two connections while there are nodes
    /// left.
    Drawn,
}

/// What carries a flow's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp {
        /// Most payload of a datagram, bytes; its packet is no longer than TCP's longest.
        datagram: u32,
    },
    /// QUIC, which the simulator does not have.
    Quic {
        /// Payload of a full datagram, bytes: at least 1200, and its packet is no longer than TCP's longest.
        datagram: u32,
    },
}

/// What the application sends. UDP carries `Paced` and `Media`, QUIC `Bulk` and `Finite`, TCP all.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Media at a constant bit rate, with a player at the receiver.
    Media(Media),
    /// A user of the web: requests one way, objects the other, and time to read.
    Web(Web),
}

/// A stream of media, and its player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// Rate of the content, at which the player plays.
    pub rate: BitRate,
    /// Size of a frame: what the server writes at a time.
    pub chunk: Bytes,
    /// Time of a frame, at `rate`.
    pub interval: Duration,
    /// How far the server may be ahead of real time; 0 is live.
    pub ahead: Duration,
    /// The rate at which it sends until it is that far ahead; `None`: as fast as the transport takes it.
    pub ahead_rate: Option<BitRate>,
    /// What the player needs to start, as time of the content.
    pub startup: Duration,
    /// What it needs to go on after a stall.
    pub resume: Duration,
}

/// How often a user of the web connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebConnection {
    /// Once for each page.
    Page,
    /// Once.
    Persistent,
}

/// A user of the web. The flow's direction is that of the objects; the requests go the other way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Web {
    /// How often the user connects.
    pub connection: WebConnection,
    /// Size of a request.
    pub request: Bytes,
    /// Sizes of main objects.
    pub main_object: ObjectSizes,
    /// Sizes of embedded objects.
    pub embedded_object: ObjectSizes,
    /// How many embedded objects a page has.
    pub embedded_objects: ObjectCounts,
    /// Mean time, exponential, from the main object to the first request for an embedded one.
    pub parsing_time: Duration,
    /// Mean time, exponential, from a page's last byte to the next page.
    pub reading_time: Duration,
}

impl Default for Web {
    /// The keys' defaults (IEEE 802.16m-08/004r5, HTTP traffic model).
    fn default() -> Self {
        let sizes = |median, sigma, min| ObjectSizes {
            median: Bytes(median),
            sigma,
            min: Bytes(min),
            max: Bytes(2_000_000),
        };
        Self {
            connection: WebConnection::Page,
            request: Bytes(350),
            main_object: sizes(4_316, 1.37, 100),
            embedded_object: sizes(478, 2.36, 50),
            embedded_objects: ObjectCounts { shape: 1.1, scale: 2.0, most: 53 },
            parsing_time: Duration::from_millis(130),
            reading_time: Duration::from_secs(30),
        }
    }
}

/// A truncated lognormal law of sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectSizes {
    /// Median before truncation: e to the power of mu.
    pub median: Bytes,
    /// Standard deviation of the size's logarithm.
    pub sigma: f64,
    /// Smallest; not above `median`.
    pub min: Bytes,
    /// Largest; not below `median`.
    pub max: Bytes,
}

/// A truncated Pareto law of counts: a number of at least `scale`, less `scale`, and at most `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectCounts {
    /// The law's exponent.
    pub shape: f64,
    /// Its least number.
    pub scale: f64,
    /// Most objects.
    pub most: u32,
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
