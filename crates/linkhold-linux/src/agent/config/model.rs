//! The agent's configuration as the agent uses it: typed, with every default filled in and every check
//! passed.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use linkhold_core::chain::Chain;
use linkhold_core::mechanism::{Mechanism, Place, PlainRouter};
use linkhold_core::packet::Direction;
use linkhold_core::registry::{MechanismSettings, NONE};
use linkhold_core::settings::{RouterNeeds, SettingsError};
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_scenario::HostFreeze;

use crate::agent::processor::Processor;
use crate::agent::protocol::{Cause, Target};
use crate::datapath::nfqueue::NfQueueConfig;
use crate::datapath::rules::{BackendChoice, RuleSet, Traffic};

/// The whole file.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Name of this agent, for its rules and sockets.
    pub instance: String,
    /// Interfaces towards correspondent hosts (the internet).
    pub wired: Vec<String>,
    /// Interfaces towards stations, each a radio of its own.
    pub radio: Vec<String>,
    /// What radios are asked for silences that they announce themselves.
    pub radio_events: RadioEvents,
    /// How packets reach the agent.
    pub datapath: DataPathSection,
    /// Keep a child process that lets held packets go if the agent is killed.
    pub guardian: bool,
    /// The control socket.
    pub control: ControlSection,
    /// Prometheus metrics.
    pub metrics: MetricsSection,
    /// What each radio carries when nobody has told yet, in the order of `radio`.
    pub channels: Vec<Option<ChannelSection>>,
    /// Limits of silences.
    pub silence: SilenceSection,
    /// Silences by the clock.
    pub schedules: Vec<ScheduleSection>,
    /// Stations with several addresses.
    pub stations: Vec<StationSection>,
    /// What is done in a silence, from the wire to the radio; none: packets pass.
    pub mechanisms: Vec<MechanismSettings>,
    /// Where the agent runs.
    pub seat: Seat,
}

/// Where the agent runs.
#[derive(Clone, Debug)]
pub enum Seat {
    /// On a router, between senders and radio.
    Router,
    /// On a host, for the senders of its own kernel.
    Host(HostSection),
}

impl Seat {
    /// The direction of what goes to the radio: on a host these are its own segments.
    #[must_use]
    pub const fn towards_the_radio(&self) -> Direction {
        match self {
            Self::Router => Direction::Downlink,
            Self::Host(_) => Direction::Uplink,
        }
    }
}

/// What only a host's file says.
#[derive(Clone, Debug)]
pub struct HostSection {
    /// How senders are frozen.
    pub freeze: FreezeBy,
    /// Where the signal-to-noise ratio comes from.
    pub snr: SnrSection,
    /// What the file asks for that a host cannot do, with file, line and key.
    pub remarks: Vec<String>,
}

/// How a host's senders are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeBy {
    /// Both ways if the kernel takes the eBPF congestion controls, and by window updates if not.
    Auto,
    /// As the file says.
    By(HostFreeze),
}

impl FreezeBy {
    /// True if windows are closed in a silence.
    #[must_use]
    pub const fn closes_windows(self) -> bool {
        match self {
            Self::Auto => true,
            Self::By(freeze) => freeze.closes_windows(),
        }
    }
}

/// `[snr]`
#[derive(Clone, Debug)]
pub struct SnrSection {
    /// A file that a program appends samples to.
    pub file: Option<PathBuf>,
    /// Ask nl80211 how strong the access point is.
    pub nl80211: bool,
    /// From one look to the next.
    pub every: Duration,
    /// Noise where the radio tells none, dBm.
    pub noise_dbm: i8,
}

/// What radios are asked for silences that they announce themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RadioEvents {
    /// Those among them that are Wi-Fi, by way of nl80211.
    Nl80211,
    /// None: every silence is told from outside.
    None,
}

/// `[datapath]`
#[derive(Clone, Debug)]
pub struct DataPathSection {
    /// What puts the rules into the kernel.
    pub backend: BackendChoice,
    /// Number of the first NFQUEUE; each radio uses two.
    pub queue: u16,
    /// Most packets that the kernel keeps per queue; 0: what the mechanism may hold, and some more.
    pub max_packets: u32,
    /// Mark (SO_MARK) of packets that the agent itself sends.
    pub mark: u32,
    /// What becomes of aggregates (GSO, GRO).
    pub aggregates: Aggregates,
    /// The processor that the agent stays on.
    pub processor: Processor,
}

/// What becomes of the packets of up to 64 KiB that network cards make of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregates {
    /// They are split where copies are kept, and where one of them keeps a radio of the stated capacity busy
    /// for longer than the transmit queue is to last.
    Auto,
    /// They pass whole: less work a byte.
    Keep,
    /// The kernel splits them before they come.
    Split,
}

/// `[control]`
#[derive(Clone, Debug)]
pub struct ControlSection {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// Its permissions.
    pub mode: FileMode,
    /// Most clients at once.
    pub max_clients: usize,
}

/// Where `linkhold signal` and `linkhold status` look for the agent if nothing else is said.
pub const DEFAULT_SOCKET: &str = "/run/linkhold/agent.sock";

/// File permissions, written in octal as text: `"0660"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

/// `[metrics]`
#[derive(Clone, Debug, Default)]
pub struct MetricsSection {
    /// Loopback address and port for Prometheus; `None`: no metrics.
    pub listen: Option<SocketAddr>,
}

/// `[channel]`
#[derive(Clone, Copy, Debug)]
pub struct ChannelSection {
    /// Raw physical-layer rate; above zero.
    pub capacity: BitRate,
    /// Share of it that the MAC leaves for IP packets.
    pub efficiency: Fraction,
}

/// `[silence]`
#[derive(Clone, Copy, Debug)]
pub struct SilenceSection {
    /// A silence that nobody ends is over after this time.
    pub max: Duration,
}

/// `[[schedule]]`: a silence every `period`, on the system's wall clock (UTC).
#[derive(Clone, Debug)]
pub struct ScheduleSection {
    /// Name in logs and status.
    pub name: String,
    /// The radio that falls silent; `None`: each one.
    pub radio: Option<String>,
    /// Whom it silences.
    pub scope: Target,
    /// Why.
    pub cause: Cause,
    /// From one silence's start to the next.
    pub period: Duration,
    /// Length of a silence; shorter than `period` and no longer than [`SilenceSection::max`].
    pub duration: Duration,
    /// Start of a silence after midnight UTC of 1 January 1970, modulo the period.
    pub phase: Duration,
}

/// `[[station]]`: addresses of one radio.
#[derive(Clone, Debug)]
pub struct StationSection {
    /// Name in logs and status.
    pub name: String,
    /// Its addresses on the radio side.
    pub addresses: Vec<IpAddr>,
}

/// Most radios of one agent.
pub const MAX_RADIOS: usize = 32;

/// The kernel's queue is never shorter, whatever the buffer: packets wait in it for their verdict as well.
const MIN_QUEUE_PACKETS: u32 = 4096;

/// Largest aggregate, bytes (`GSO_MAX_SIZE`; cards that make larger ones are rare, and fare the same).
const LARGEST_AGGREGATE: Bytes = Bytes(65_536);

impl AgentConfig {
    /// Makes the mechanism. `seed` is for the hash of its tables: secret and random.
    ///
    /// # Errors
    /// What the mechanism finds wrong with its settings; nothing for a configuration that was read from a
    /// file.
    pub fn build_mechanism(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        let place = match self.seat {
            Seat::Router => Place::BaseStation,
            Seat::Host(_) => Place::Stations,
        };
        match &self.mechanisms[..] {
            [] => Ok(Box::new(PlainRouter::default())),
            [settings] => settings.build_at(place, seed),
            several => {
                let members: Result<Vec<_>, _> =
                    several.iter().map(|settings| settings.build_at(place, seed)).collect();
                let mut members = members?;
                if self.seat.towards_the_radio() == Direction::Uplink {
                    // A chain's order is that of downlink packets, which come from the radio here.
                    members.reverse();
                }
                Ok(Box::new(Chain::new(members, seed)))
            }
        }
    }

    /// What the file asks for that cannot be done where it runs, with file, line and key.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        match &self.seat {
            Seat::Router => &[],
            Seat::Host(host) => &host.remarks,
        }
    }

    /// The mechanisms' names, as in status and log.
    #[must_use]
    pub fn mechanism_name(&self) -> String {
        let names: Vec<&str> = self.mechanisms.iter().map(MechanismSettings::name).collect();
        if names.is_empty() { NONE.to_owned() } else { names.join("+") }
    }

    fn needs(&self) -> RouterNeeds {
        self.mechanisms.iter().map(MechanismSettings::needs).reduce(RouterNeeds::and).unwrap_or_default()
    }

    /// True if a mechanism keeps copies of what goes to the radio.
    #[must_use]
    pub fn keeps_copies(&self) -> bool {
        self.needs().kept_bytes.0 > 0
    }

    /// Settings of the queues.
    #[must_use]
    pub fn queues(&self) -> NfQueueConfig {
        let max_packets = match self.datapath.max_packets {
            0 => self.needs().held_packets.saturating_add(MIN_QUEUE_PACKETS),
            chosen => chosen,
        };
        NfQueueConfig {
            queue: self.datapath.queue,
            max_packets,
            mark: self.datapath.mark,
            whole_downlink: self.keeps_copies() && self.seat.towards_the_radio() == Direction::Downlink,
            split_aggregates: self
                .channels
                .iter()
                .map(|channel| self.splits_aggregates(channel.as_ref()))
                .collect(),
        }
    }

    /// True if this radio's aggregates are split. An aggregate goes down whole or not at all, and on a slow
    /// radio a single one takes longer than the queue that is to be kept short.
    fn splits_aggregates(&self, channel: Option<&ChannelSection>) -> bool {
        match self.datapath.aggregates {
            Aggregates::Keep => false,
            Aggregates::Split => true,
            // A copy can be sent again only if it is one packet of the wire's size.
            Aggregates::Auto if self.keeps_copies() => true,
            Aggregates::Auto => channel.is_some_and(|channel| {
                let rate = channel.capacity.mul_f64(channel.efficiency.get());
                let most = self.needs().transmit_queue;
                !most.is_zero() && rate.time_for(LARGEST_AGGREGATE) > most
            }),
        }
    }

    /// True if aggregates of one radio at least come to the agent as they are.
    #[must_use]
    pub fn leaves_aggregates_whole(&self) -> bool {
        self.channels.iter().any(|channel| !self.splits_aggregates(channel.as_ref()))
    }

    /// The rules that bring packets to the queues, where nothing is bridged.
    #[must_use]
    pub fn rules(&self) -> RuleSet {
        RuleSet {
            instance: self.instance.clone(),
            wired: self.wired.clone(),
            radio: self.radio.clone(),
            queue: self.datapath.queue,
            traffic: match self.seat {
                Seat::Router => Traffic::Forwarded,
                Seat::Host(_) => Traffic::Own { mark: self.datapath.mark },
            },
            // A host's own datagrams are also its name look-ups and address leases (DNS, DHCP): they are left
            // alone.
            datagrams: matches!(self.seat, Seat::Router) && self.needs().datagrams,
            bridged: BTreeSet::new(),
        }
    }
}
