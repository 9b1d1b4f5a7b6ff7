//! The file format: every table and key, with its unit, default and documentation. Nothing else defines a
//! default but `linkhold-tcp`'s profiles, which `[tcp]` starts from, and the presets of `linkhold-core`'s
//! mechanisms.

use linkhold_core::packet::Direction;
use linkhold_core::settings::{Decibels, Distance, Frequency as Hertz, Power as Watts, Speed};
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::dcf::Phy;
use linkhold_radio::{AirTimeModel, ExtendedAddress, HeardBy, InSilence, PhyRate, Standard, SwitchPolicy};
use linkhold_tcp::{Congestion, DelayedAck, Recovery};

use crate::grants_keys::Grants;
use crate::mechanism::{MechanismValue, MisplacedKeys, SharedSettings};
use crate::mesh_keys::Mesh;
use crate::model::{HostFreeze, IpVersion, Profile, WebConnection};
use crate::read::{At, file_enum, file_table};
use crate::scalar::{
    Ahead, By, Exponent, FormatVersion, Frequency, Name, NodeOrDrawn, OrOff, Overrides, Packets, Positive,
    Ratio, Spread, Stations,
};
use crate::source_value::SourceValue;

file_table! {
    /// A linkhold scenario: one radio cell, its traffic, and the cases to compare.
    File + shared: SharedSettings {
        /// Version of this format.
        required schema: FormatVersion;
        /// Name of the scenario; also the default output folder.
        required name: Name;
        /// One or two sentences for the report.
        default description: String = "";
        /// Simulated time, warm-up included.
        required duration: Positive<Duration>;
        /// Time at the start that goodput and delay do not count.
        default warm_up: Duration = "0s";
        /// Seed of the first repetition; repetition k uses seed + k.
        default seed: u64 = 1;
        /// The wired segment between correspondent hosts and base station.
        section wired: Wired;
        /// The radio between base station and stations.
        section radio: Radio;
        /// A mesh of cognitive radios, in place of the cell.
        optional mesh: Mesh;
        /// The base station's downlink transmit queue.
        section router: Queue;
        /// Each station's uplink transmit queue.
        section station: Queue;
        /// The hosts that carry out a mechanism at the stations or the correspondent: how `linkhold host`
        /// freezes senders (testbed), and how long a host takes (simulator).
        section host: Host;
        /// TCP of both ends of every connection.
        section tcp: Tcp;
        /// The connections.
        list flows: Flows;
        /// The cases to compare; without any, one case `none`. The first is what the others are compared
        /// with.
        list cases: CaseTable;
        /// What is recorded.
        section output: Output;
    }
}

file_table! {
    /// The wired segment, the same in both directions.
    Wired {
        /// Rate of each direction.
        default rate: Positive<BitRate> = "100Mbit/s";
        /// Base round-trip time of the wired part, split evenly between the directions.
        default rtt: Duration = "3ms";
        /// Mean time that packets of each direction wait behind traffic of others, beside the round-trip
        /// time; 0 or at least 100us. Half of them wait for nothing; the 95th percentile is 4.6 times the
        /// mean. No packet overtakes another.
        default jitter: Duration = "0ms";
        /// DropTail limit of each direction.
        default queue: Positive<Packets> = "1000pkt";
    }
}

file_table! {
    /// The radio cell.
    Radio {
        /// How frames get their turn.
        default mac: MacName = "shared";
        /// How long a frame occupies the medium.
        default air_time: AirTimeModel = "per-byte";
        /// Number of stations, numbered from 0.
        default stations: Positive<u32> = 1;
        /// Raw physical-layer rate of the only channel. Required unless `channels` or a trace is given. With
        /// air_time = "802.11a" it is one of 6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s; with mac = "dcf" it is
        /// one of those that radio.dcf.phy has.
        optional phy_rate: Positive<BitRate>;
        /// Share of the rate that the MAC leaves for IP packets, with air_time = "per-byte". Default: IEEE
        /// 802.11a at 24 Mbit/s without collisions, where 500 us of a 1500-byte packet's 681.5 us are its
        /// bits; and 1 with mac = "802.16", "docsis" or "5g", whose overheads have keys of their own.
        default mac_efficiency: Positive<Fraction> = 0.73;
        /// Whether the mechanism is told the rate of the working channel, as only a driver with a fixed rate
        /// can. False, as with most radios: it has to measure. A trace's rate is never told.
        default rate_told: bool = false;
        /// What mechanisms are told of silences, beside what the radio itself notices late; each source of
        /// silences may have a table of its own. Whatever is told, the silences are the same.
        section told: Told;
        /// The licensed user of the only channel.
        optional primary_user: PrimaryUser;
        /// The channels, where there is more than one.
        list channels: Channel;
        /// Index of the channel the run starts on.
        default channel: u32 = 0;
        /// How often a frame that collided with an undetected primary user, or that noise spoiled, is sent
        /// again before it is given up (802.11: 7).
        default retry_limit: u32 = 7;
        /// Silence of one channel switch.
        default switching_delay: Duration = "20ms";
        /// What is told of channel switches.
        section switching: SwitchSignals;
        /// What makes the cell change channel besides `switches`.
        default switch_policy: SwitchPolicy = "scripted";
        /// Scripted channel switches.
        list switches: Switch;
        /// Quiet periods of the whole cell.
        optional sensing: Sensing;
        /// Quiet periods of single stations.
        list station_sensing: StationSensing;
        /// Measured delivery traces, with mac = "trace".
        optional trace: Trace;
        /// The radios, with mac = "dcf".
        section dcf: Dcf;
        /// The radios, with mac = "802.15.4".
        section ieee802154: Ieee802154;
        /// Frames, requests and grants, with mac = "802.16", "docsis" or "5g".
        section grants: Grants;
        /// The stations' signal-to-noise ratio, which costs frames and is told to mechanisms. Without it
        /// noise spoils nothing.
        optional snr: Snr;
        /// What a station's radio takes; the results then have its energy for each byte delivered.
        optional power: Power;
    }
}

/// `radio.mac`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MacName {
    Shared,
    Duplex,
    Trace,
    Dcf,
    Ieee802154,
    Grants(Standard),
}

file_enum!(MacName {
    "shared" => Self::Shared, "One half-duplex channel for both directions and all stations, as in Wi-Fi.";
    "duplex" => Self::Duplex, "Downlink and uplink each have the full rate.";
    "trace" => Self::Trace, "Measured delivery opportunities, see [radio.trace].";
    "dcf" => Self::Dcf,
        "Base station and stations contend by IEEE 802.11's DCF, with collisions, see [radio.dcf].";
    "802.15.4" => Self::Ieee802154,
        "Every radio contends by unslotted CSMA-CA at 250 kbit/s, see [radio.ieee802154].";
    "802.16" => Self::Grants(Standard::Ieee80216),
        "IEEE 802.16d/e (WiMAX, WiBro): the base station grants uplink turns in TDD frames, see [radio.grants].";
    "docsis" => Self::Grants(Standard::Docsis),
        "A cable modem's upstream: a contention request tells the bytes, a MAP grants, see [radio.grants].";
    "5g" => Self::Grants(Standard::FiveG),
        "5G: scheduling request on a slot of the station's own, buffer status report, grant, see [radio.grants].";
});

file_enum!(AirTimeModel {
    "per-byte" => Self::PerByte, "Its length over phy_rate x mac_efficiency.";
    "802.11a" => Self::Ieee80211a,
        "A whole IEEE 802.11a exchange: DIFS, backoff, preamble, data, SIFS and ACK.";
});

file_enum!(SwitchPolicy {
    "scripted" => Self::Scripted, "Only the switches in the file.";
    "on-primary-user" => Self::OnPrimaryUser,
        "Besides, leave for the free channel with the most capacity when a primary user is detected.";
});

file_table! {
    /// One channel.
    Channel {
        /// Raw physical-layer rate.
        required phy_rate: Positive<BitRate>;
        /// Share of the rate that the MAC leaves for IP packets, with air_time = "per-byte".
        default mac_efficiency: Positive<Fraction> = 0.73;
        /// The licensed user of this channel.
        optional primary_user: PrimaryUser;
    }
}

file_table! {
    /// A licensed (primary) user, on and off by turns: with drawn times, or with those of a log.
    PrimaryUser {
        /// Mean length of a burst. Required without log.
        optional on_mean: Positive<Duration>;
        /// Mean length of the pause between bursts. Required without log.
        optional off_mean: Positive<Duration>;
        /// PU log with the users' bursts, the same for every seed. Relative to the scenario file; may start
        /// with ${LINKHOLD_DATA}. Channel i hears all users of band i + 1, wherever they are; bursts that
        /// overlap are one. radio.primary_user.log beside radio.channels holds for all channels.
        optional log: String;
        /// Whether every burst and every pause has exactly its mean length, a pause first. False: both are
        /// exponential.
        default fixed: bool = false;
        /// From a burst's start to its detection. Until then frames are sent and collide; 0s: the cell is
        /// silent at once, as an oracle's. Detectors of radars take 2 to 35 ms; docs/signals.md has what
        /// other radios take.
        default detection_delay: Duration = "20ms";
        /// From a burst's end to the cell's resuming. 0s: as a radio that listens before it sends.
        default end_detection_delay: Duration = "0s";
        /// Which radios hear it, with mac = "802.15.4": these find the medium busy, cannot read frames while
        /// it transmits, and detect it.
        default heard_by: HeardBy = "all";
        /// Source address of its frames, with mac = "802.15.4": eight octets, not 02:00:00:00 and a number,
        /// which radios of the cell have. A capture shows it.
        default address: ExtendedAddress = "02:00:00:01:00:00:00:01";
        /// How a radio that hears it detects it, with mac = "802.15.4".
        section overhear: Overhear;
        /// What the mechanism is told of it, counted from its detection; a key that is missing is as in
        /// radio.told.
        section told: Told;
    }
}

file_enum!(HeardBy {
    "all" => Self::All, "All radios of the cell.";
    "stations" => Self::Stations, "The stations, but not the base station.";
    "base-station" => Self::BaseStation,
        "The base station only: stations send into a burst, and the base station cannot read them.";
});

file_table! {
    /// Detection of a primary user by overhearing its frames. Only the host of the radio that overheard
    /// knows.
    Overhear {
        /// The source address that the radios know as the user's: they take no other frames for its own.
        /// Default: primary_user.address.
        optional address: ExtendedAddress;
        /// Time from one of its frames to the next, in a burst; at least 928us. A frame has as many octets as
        /// fit into it with an interframe spacing, at most 127.
        default frame_interval: Positive<Duration> = "5ms";
        /// Chance that one of its frames is not overheard.
        default missed: Fraction = 0.1;
        /// From the end of a frame to its being understood.
        default delay: Duration = "10ms";
        /// How long after the last frame the user is believed gone (the paper's T_idle).
        default idle_time: Positive<Duration> = "1s";
        /// How often a radio believes to have overheard a frame that nobody sent, or "off".
        default false_alarms: OrOff<Frequency> = "0.001/s";
    }
}

file_enum!(Phy {
    "802.11a" => Self::Ieee80211a, "6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s; slots of 9 us, CW 15 to 1023.";
    "802.11b" => Self::Ieee80211b,
        "1, 2, 5.5 and 11 Mbit/s, long preamble, ACKs at 1 Mbit/s; slots of 20 us, CW 31 to 1023.";
});

file_table! {
    /// Radios that contend by the distributed coordination function of IEEE 802.11. All hear each other
    /// equally well, so what starts in one slot collides.
    Dcf {
        /// Physical layer, with its times and rates.
        default phy: Phy = "802.11a";
        /// dot11RTSThreshold: a longer data frame goes behind RTS and CTS; of a frame 36 bytes are around the
        /// IP packet. 2347B never asks.
        default rts_threshold: Bytes = "2347B";
        /// dot11ShortRetryLimit: attempts of a frame (without RTS, or of its RTS) before it is given up.
        default short_retry_limit: u8 = 7;
        /// dot11LongRetryLimit: attempts of a frame behind RTS and CTS.
        default long_retry_limit: u8 = 4;
    }
}

file_table! {
    /// Radios of IEEE 802.15.4 without beacons (2450 MHz, O-QPSK).
    Ieee802154 {
        /// macMinBE: a first backoff is below 2^min_be units of 320 us.
        default min_be: u8 = 3;
        /// macMaxBE: the largest such exponent.
        default max_be: u8 = 5;
        /// macMaxCSMABackoffs: how often a busy medium is met with another backoff before a frame is given
        /// up.
        default max_csma_backoffs: u8 = 4;
        /// macMaxFrameRetries: how often a frame that is not acknowledged is sent again.
        default max_frame_retries: u8 = 3;
        /// Whether receivers acknowledge frames. A software radio cannot answer within the 192 us that the
        /// standard gives it.
        default acknowledged: bool = true;
        /// Longest MPDU, bytes: 19 of MAC header, 12 of transport header, tcp.mss, 2 of check sequence. The
        /// standard's is 127, the cr-aware paper's 128.
        default mpdu: u32 = 127;
        /// What the sender does with each frame before it contends. 1 ms: 127 bytes over a serial bus of
        /// 1 Mbit/s to the transceiver.
        default processing_time: Duration = "1ms";
        /// How long a radio rests after it found the medium busy, before its next backoff begins. 0s where
        /// the receiver stays on; with 192us a look fills a whole backoff period, as in published models
        /// and in radios that turn their receiver on for each look.
        default after_busy: Duration = "0s";
        /// Chance that a frame or an acknowledgment cannot be read though nobody disturbed it. 0.01 is what
        /// defines the sensitivity of a receiver.
        default frame_loss: Fraction = 0.01;
    }
}

file_table! {
    /// A scripted channel switch.
    Switch {
        /// When the old channel is left.
        required at: Duration;
        /// Index of the new channel.
        required to_channel: u32;
    }
}

file_table! {
    /// What a source of silences tells of them. A silence that ends before it would be told is never told. If
    /// its end would be told only after the next one has begun, the two are told as one.
    Told {
        /// How long after the radio notices a silence the mechanism is told. Default: 0s, as by an oracle.
        optional late: Duration;
        /// The same for a silence's end, and for a new channel's rate. Default: 0s.
        optional end_late: Duration;
        /// How much later than `late` at most, drawn evenly for each silence. Default: 0s, always as late.
        optional late_spread: Duration;
        /// How much later than `end_late` at most, drawn evenly for each silence and each new channel's rate.
        /// Default: 0s.
        optional end_late_spread: Duration;
        /// Whether the message also says when the silence began or ended, as a source with a clock of its own
        /// can. Default: false: most sources tell only that the radio is silent, or no longer is.
        optional start_known: bool;
        /// Whether the message of a start also says how long the silence will be, if that is fixed: of quiet
        /// periods and channel switches. Default: as `announced` of the quiet periods; false of switches.
        optional length_known: bool;
        /// Chance that a silence is not told. Default: 0.
        optional missed: Fraction;
        /// How often a silence is told that is none, at random, or "off"; at most 100/s. Default: "off".
        optional false_alarms: OrOff<Frequency>;
        /// How long such a silence lasts. Default: 100ms.
        optional false_length: Positive<Duration>;
    }
}

file_table! {
    /// Signals of channel switches.
    SwitchSignals {
        /// What the mechanism is told of a switch; a key that is missing is as in radio.told.
        section told: Told;
    }
}

file_table! {
    /// A periodic quiet period of the whole cell.
    Sensing {
        /// From one quiet period's start to the next.
        required period: Positive<Duration>;
        /// Length of one.
        required duration: Positive<Duration>;
        /// Start of the first.
        default phase: Duration = "0s";
        /// Whether the mechanism is told the schedule in advance.
        default announced: bool = true;
        /// What the mechanism is told of it; a key that is missing is as in radio.told.
        section told: Told;
    }
}

file_table! {
    /// A periodic quiet period of one station.
    StationSensing {
        /// The station, from 0.
        required station: u32;
        /// From one quiet period's start to the next.
        required period: Positive<Duration>;
        /// Length of one.
        required duration: Positive<Duration>;
        /// Start of the first.
        default phase: Duration = "0s";
        /// Whether the mechanism is told the schedule in advance.
        default announced: bool = true;
        /// What the mechanism is told of it; a key that is missing is as in radio.told.
        section told: Told;
    }
}

file_table! {
    /// Measured delivery opportunities (mahimahi format: a line has a millisecond stamp and is one packet of
    /// 1500 bytes).
    Trace {
        /// File of the downlink. Relative to the scenario file; may start with ${LINKHOLD_DATA}.
        required down: String;
        /// File of the uplink. Default: the downlink's.
        optional up: String;
        /// A gap between downlink opportunities longer than this is a silence.
        default silence_threshold: Positive<Duration> = "100ms";
        /// How long after its start (or end) the mechanism is told of a silence. 0s: at once, as by an
        /// oracle.
        default detection_delay: Duration = "20ms";
        /// What the mechanism is told of silences, later than that; a key that is missing is as in
        /// radio.told.
        section told: Told;
        /// Start each repetition at a place of the trace that its seed draws, so that repetitions differ.
        /// Otherwise every repetition starts at the beginning.
        default random_start: bool = false;
    }
}

file_table! {
    /// What a station's radio takes, the whole interface in each state.
    Power {
        /// Sending.
        required transmit: By<Watts>;
        /// Receiving.
        required receive: By<Watts>;
        /// Neither.
        required idle: By<Watts>;
    }
}

file_table! {
    /// The signal-to-noise ratio (SNR) of every station, the same in both directions: from a file or of a
    /// walk. A frame is lost with the error rate that its modulation has at the SNR in the frame's middle.
    Snr {
        /// CSV file of a measured SNR. Relative to the scenario file; may start with ${LINKHOLD_DATA}. Its
        /// first row is time 0, between rows the SNR goes straight, and after the last the file begins anew.
        optional trace: String;
        /// Heading of the file's column of times: seconds, or dates with a time of day. Default: "time".
        optional time_column: String;
        /// Heading of the file's column of SNR values, dB. Default: "snr".
        optional snr_column: String;
        /// A file whose rows lie further apart has a gap, and is refused. Default: 60s.
        optional max_gap: Positive<Duration>;
        /// Start each repetition and station at a place of the file that its seed draws. Default: false.
        optional random_start: bool;
        /// Stations that walk, in place of a file.
        optional walk: Walk;
        /// Modulation whose error rate frames have. Default: that of the channel's phy_rate.
        optional rate: PhyRate;
        /// From one sample that mechanisms are told to the next.
        default interval: Positive<Duration> = "100ms";
        /// How late a sample is told. Default: half an interval, because a driver that is asked every
        /// interval answers with the value of its last frame, which is half an interval old in the mean.
        default delay: Duration = "50ms";
        /// Standard deviation of a sample's error. Default: that of an interface that tells whole decibels of
        /// a single frame.
        default error: By<Decibels> = "1dB";
    }
}

file_table! {
    /// Stations that walk from `near` to `far` and back, each with a fading of its own.
    Walk {
        /// SNR at one metre.
        required snr_at_1m: By<Decibels>;
        /// Path-loss exponent: 2 in free space, 3 among walls.
        default exponent: Exponent = 3.0;
        /// Nearest point; at least 1m.
        default near: By<Distance> = "5m";
        /// Farthest point.
        default far: By<Distance> = "25m";
        /// Speed.
        default speed: By<Speed> = "1.2m/s";
        /// What many paths do to the signal.
        default fading: FadingName = "none";
        /// fading = "rician": power of the line of sight over that of all other paths. Default: 6dB.
        optional k_factor: By<Decibels>;
        /// Largest Doppler shift. Default: what the speed makes of a carrier at 2.437 GHz.
        optional doppler: By<Hertz>;
        /// Start each repetition and station at a place of the walk that its seed draws; otherwise near.
        default random_start: bool = true;
    }
}

/// `radio.snr.walk.fading`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FadingName {
    None,
    Rayleigh,
    Rician,
}

file_enum!(FadingName {
    "none" => Self::None, "Nothing: the SNR is that of the distance.";
    "rayleigh" => Self::Rayleigh, "There is no line of sight.";
    "rician" => Self::Rician, "There is a line of sight, see k_factor.";
});

file_enum!(PhyRate {
    "dsss-1" => Self::Dsss1, "DBPSK over the Barker sequence, 1 Mbit/s.";
    "dsss-2" => Self::Dsss2, "DQPSK over the Barker sequence, 2 Mbit/s.";
    "cck-5.5" => Self::Cck5, "Complementary codes, 5.5 Mbit/s.";
    "cck-11" => Self::Cck11, "Complementary codes, 11 Mbit/s.";
    "ofdm-6" => Self::Ofdm6, "BPSK, code rate 1/2.";
    "ofdm-9" => Self::Ofdm9, "BPSK, code rate 3/4.";
    "ofdm-12" => Self::Ofdm12, "QPSK, code rate 1/2.";
    "ofdm-18" => Self::Ofdm18, "QPSK, code rate 3/4.";
    "ofdm-24" => Self::Ofdm24, "16-QAM, code rate 1/2.";
    "ofdm-36" => Self::Ofdm36, "16-QAM, code rate 3/4.";
    "ofdm-48" => Self::Ofdm48, "64-QAM, code rate 2/3.";
    "ofdm-54" => Self::Ofdm54, "64-QAM, code rate 3/4.";
});

file_table! {
    /// A transmit queue.
    Queue {
        /// The discipline.
        default queue: QueueName = "fifo";
        /// Most packets in it. Default: 100pkt with fifo, 10240pkt with fq_codel, 8192pkt with mac80211.
        optional limit: Positive<Packets>;
        /// What becomes of a packet that arrives while its station is silent.
        default in_silence: InSilence = "queue";
        /// Router only: the mechanism is told the room in this queue and can take packets back from it.
        /// Default: false, as with most drivers, which offer neither. In the testbed it is always false.
        optional visible: bool;
        /// fq_codel: acceptable standing delay. Default: 5ms; 20ms with mac80211, 50ms with mac80211-slow.
        optional target: Positive<Duration>;
        /// fq_codel: time the delay must stand before the first drop. Default: 100ms; 300ms with
        /// mac80211-slow.
        optional interval: Positive<Duration>;
        /// fq_codel: bytes a flow sends per round. Default: 1514B; 300B with mac80211.
        optional quantum: Positive<Bytes>;
        /// fq_codel: number of hash buckets. Default: 1024; 4096 with mac80211.
        optional flows: Positive<u32>;
        /// fq_codel: most bytes in it. Default: 32MiB; 16MiB with mac80211.
        optional memory_limit: Positive<Bytes>;
        /// fq_codel: mark ECN-capable packets instead of dropping them. Default: true; false with
        /// mac80211-slow.
        optional ecn: bool;
    }
}

file_table! {
    /// The stations' hosts.
    Host {
        /// How `linkhold host` freezes the kernel's senders on the testbed, where its mechanism freezes them
        /// (`cr-aware`). The simulator's senders are frozen as the mechanism says, and need none of this.
        /// Default: "window".
        optional freeze: HostFreeze;
        /// Time that a host takes until what it sends is at its radio: interrupt, protocol, waking the
        /// application. Some 0.1 to 0.3 ms on a PC. It decides whether the answer to what arrives at the end
        /// of a TDD subframe still gets into the next one. Simulator only: the testbed's hosts are real and
        /// take their own. Default: 0s.
        optional delay: Duration;
    }
}

file_enum!(HostFreeze {
    "window" => Self::Window, "By window updates.";
    "kernel" => Self::Kernel,
        "By eBPF: the host's senders use linkhold_cubic or linkhold_reno in place of cubic or reno, and windows stay open.";
    "both" => Self::Both, "By both.";
});

/// `router.queue` and `station.queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueName {
    Fifo,
    FqCodel,
    Mac80211,
    Mac80211Slow,
}

file_enum!(QueueName {
    "fifo" => Self::Fifo, "First in, first out; drops arrivals when full.";
    "fq_codel" => Self::FqCodel, "Fair queueing with controlled delay (RFC 8290).";
    "mac80211" => Self::Mac80211,
        "fq_codel as Linux's Wi-Fi stack sets it: target 20ms, interval 100ms, quantum 300B.";
    "mac80211-slow" => Self::Mac80211Slow,
        "The same as it was until 2025 for slow stations: target 50ms, interval 300ms, no ECN.";
});

file_enum!(InSilence {
    "queue" => Self::Queue, "It is queued as at any other time.";
    "drop" => Self::Drop, "It is dropped.";
    "flush" => Self::Flush,
        "It is dropped, and so is what the router had queued when a silence of the whole network began.";
});

file_table! {
    /// TCP of both ends. What is left open comes from the profile: each key's default has the profiles in
    /// brackets.
    Tcp {
        /// The stack to start from.
        default profile: Profile = "linux";
        /// Congestion control.
        default congestion: Congestion = "cubic";
        /// Loss recovery. Default: rack-tlp (linux), sack (linux-2009), newreno (classic).
        optional recovery: Recovery;
        /// Maximum segment size, payload bytes. IPv6 flows use 20 less, so that packets keep their size.
        /// Default: 1460.
        optional mss: Positive<u16>;
        /// Receive buffer. Stated alone it is fixed, as SO_RCVBUF is; with receive_autotune it is where
        /// growth starts. Default: 64KiB (linux), 256KiB (linux-2009, classic).
        optional receive_buffer: Positive<Bytes>;
        /// How far the receive buffer grows by itself, or "off". Default: 6MiB (linux), off (linux-2009,
        /// classic).
        optional receive_autotune: OrOff<Positive<Bytes>>;
        /// Most bytes in flight. Default: 4MiB (linux, classic), 256KiB (linux-2009).
        optional send_buffer: Positive<Bytes>;
        /// Window scale shift to offer, or "off". Default: the profile's (7 with linux, 3 with the
        /// others), or the smallest that can express a stated receive buffer where that is larger.
        optional window_scale: OrOff<u8>;
        /// Selective acknowledgments (RFC 2018). The recoveries reno and newreno do not look at them. In
        /// classic the recoveries sack and rack-tlp turn them on. Default: true (linux, linux-2009), false
        /// (classic).
        optional sack: bool;
        /// Timestamps (RFC 7323). In classic the recovery rack-tlp turns them on. Default: true (linux,
        /// linux-2009), false (classic).
        optional timestamps: bool;
        /// Explicit congestion notification (RFC 3168). Default: false.
        optional ecn: bool;
        /// Initial window, segments, or "off" for RFC 3390's formula. Default: 10 (linux), off (linux-2009,
        /// classic).
        optional initial_window: OrOff<Positive<u32>>;
        /// Floor of the retransmission timeout. Default: 200ms (linux, linux-2009), 1s (classic).
        optional rto_min: Positive<Duration>;
        /// Retransmission timeout before the first round-trip sample. Default: 1s (linux, classic), 3s
        /// (linux-2009).
        optional rto_initial: Positive<Duration>;
        /// Ceiling of the retransmission timeout. Default: 120s (linux, linux-2009), 60s (classic).
        optional rto_max: Positive<Duration>;
        /// Delayed acknowledgments. Default: linux (linux, linux-2009), 200ms (classic).
        optional delayed_ack: DelayedAck;
        /// F-RTO (RFC 5682). Default: true (linux, linux-2009), false (classic).
        optional frto: bool;
        /// Undo needless reductions proven by timestamps (RFC 3522). Default: true (linux, linux-2009),
        /// false (classic).
        optional timestamp_undo: bool;
        /// Undo needless reductions proven by D-SACK (RFC 3708). Default: true (linux, linux-2009), false
        /// (classic).
        optional dsack_undo: bool;
        /// Proportional rate reduction (RFC 6937); the recoveries reno and newreno have their own. Default:
        /// true (linux), false (linux-2009, classic).
        optional prr: bool;
        /// HyStart with CUBIC. Default: true (linux), false (linux-2009, classic).
        optional hystart: bool;
        /// Accept a zero window in an ACK that repeats sequence and acknowledgment number (Linux since
        /// 6.6). Default: true (linux), false (linux-2009, classic).
        optional accept_window_shrink_same_ack: bool;
    }
}

file_enum!(Profile {
    "linux" => Self::Linux, "Linux of the 2020s: RACK-TLP, F-RTO, PRR, timestamps, initial window 10.";
    "linux-2009" => Self::Linux2009, "Linux 2.6.2x: SACK, no RACK, F-RTO that halves, 256 KiB windows.";
    "classic" => Self::Classic, "RFC 5681 and 6582 as a textbook has them.";
});

file_enum!(Congestion {
    "cubic" => Self::Cubic, "RFC 9438.";
    "reno" => Self::Reno, "RFC 5681.";
    "vegas" => Self::Vegas, "Brakmo and Peterson 1995.";
    "bbr" => Self::Bbr, "Version 1, as Linux has it.";
    "tp-crahn" => Self::TpCrahn, "Chowdhury, Di Felice and Akyildiz 2009: Reno that a mesh tells of its nodes.";
});

file_enum!(Recovery {
    "reno" => Self::Reno, "RFC 5681.";
    "newreno" => Self::NewReno, "RFC 6582.";
    "sack" => Self::Sack, "RFC 6675.";
    "rack-tlp" => Self::RackTlp, "RFC 8985.";
});

file_table! {
    /// A group of alike connections.
    Flows {
        /// Which way the data flows. Required in a cell; a mesh has `from` and `to`.
        optional direction: Direction;
        /// The station: an index from 0, a list of them, or "all".
        default station: Stations = 0;
        /// In a mesh, the node that sends: an index from 0, or "drawn" by the seed.
        optional from: NodeOrDrawn;
        /// In a mesh, the node that receives: an index from 0, or "drawn" by the seed.
        optional to: NodeOrDrawn;
        /// Connections per station, or between `from` and `to`.
        default count: Positive<u32> = 1;
        /// When the first connection opens.
        default start: Duration = "0s";
        /// Added to the start of each further connection of the group.
        default stagger: Duration = "0s";
        /// When the application stops offering data; the group opens no connection from then on. A source
        /// that is an amount is sent all the same. Default: never.
        optional stop: Positive<Duration>;
        /// What carries the data.
        default transport: TransportName = "tcp";
        /// UDP and QUIC: most payload of a datagram; QUIC's is at least 1200B. Default: what makes its packet
        /// as long as TCP's longest, 1472B over Ethernet.
        optional datagram: Positive<Bytes>;
        /// What the application sends: "bulk" (as much as TCP takes), an amount such as "100kB",
        /// { rate = "2Mbit/s" }, "media" (see media) or "web" (see web). UDP takes a rate or "media", QUIC
        /// "bulk" or an amount.
        default source: SourceValue = "bulk";
        /// The stream and its player, with source = "media".
        optional media: Media;
        /// The user, with source = "web".
        optional web: Web;
        /// Connections arrive at random (Poisson) this often per station, instead of `count` of them.
        optional arrivals: Frequency;
        /// Version of the Internet protocol.
        default ip: IpVersion = "v4";
    }
}

/// `flows.transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportName {
    Tcp,
    Udp,
    Quic,
}

file_enum!(TransportName {
    "tcp" => Self::Tcp, "Connections of TCP.";
    "udp" => Self::Udp,
        "Datagrams at the source's rate: no window, no retransmission. Mechanisms see them pass.";
    "quic" => Self::Quic,
        "Connections of QUIC (quinn) with a stream each, on the testbed only. Congestion control is tcp.congestion: cubic, \
         reno (quinn's NewReno) or bbr (which quinn calls experimental). Mechanisms see datagrams pass.";
});

file_table! {
    /// Media at a constant bit rate, and the player at the receiver.
    Media {
        /// Rate of the content.
        required rate: Positive<BitRate>;
        /// Time of a frame: the server writes one of rate x interval each interval. Default: 40ms.
        optional interval: Positive<Duration>;
        /// Size of a frame, in place of its time.
        optional chunk: Positive<Bytes>;
        /// How far the server may be ahead of real time, as time or bytes of the content; 0s is a live
        /// server.
        default send_ahead: Ahead = "0s";
        /// Rate at which the server sends until it is that far ahead; above `rate`. Default: as fast as TCP
        /// takes it; UDP needs it.
        optional ahead_rate: Positive<BitRate>;
        /// The player starts with this much in its buffer.
        default startup: Duration = "5s";
        /// After a stall it goes on with this much. Default: as startup.
        optional resume: Duration;
    }
}

file_table! {
    /// A user of the web: a request, the page's main object, its embedded objects one after another, time to
    /// read, the next page. The flow's direction is that of the objects. Defaults: IEEE 802.16m-08/004r5,
    /// HTTP traffic model.
    Web {
        /// How often the user connects.
        default connection: WebConnection = "page";
        /// Size of a request.
        default request: Positive<Bytes> = "350B";
        /// Sizes of main objects. Default: { median = "4316B", sigma = 1.37, min = "100B", max = "2MB" },
        /// mean 11.1 kB.
        optional main_object: ObjectSizes;
        /// Sizes of embedded objects. Default: { median = "478B", sigma = 2.36, min = "50B", max = "2MB" },
        /// mean 8.2 kB.
        optional embedded_object: ObjectSizes;
        /// How many embedded objects a page has. Default: { shape = 1.1, scale = 2.0, most = 53 }, mean 5.64.
        optional embedded_objects: ObjectCounts;
        /// Mean time, exponential, from the main object to the request for the first embedded one.
        default parsing_time: Duration = "130ms";
        /// Mean time, exponential, from a page's last byte to the next page.
        default reading_time: Duration = "30s";
    }
}

file_enum!(WebConnection {
    "page" => Self::Page, "Once for each page.";
    "persistent" => Self::Persistent, "Once: all pages come over one connection.";
});

file_table! {
    /// A truncated lognormal law of sizes.
    ObjectSizes {
        /// Median before truncation.
        required median: Positive<Bytes>;
        /// Standard deviation of the size's logarithm; 0 makes all alike.
        required sigma: Spread;
        /// Smallest.
        default min: Positive<Bytes> = "1B";
        /// Largest.
        default max: Positive<Bytes> = "2MB";
    }
}

file_table! {
    /// A truncated Pareto law of counts: a number of at least `scale`, less `scale`.
    ObjectCounts {
        /// The law's exponent.
        required shape: Ratio;
        /// The law's least number.
        required scale: Ratio;
        /// Most objects.
        required most: u32;
    }
}

file_enum!(Direction {
    "downlink" => Self::Downlink, "From the correspondent host to the station.";
    "uplink" => Self::Uplink, "From the station to the correspondent host.";
});

file_enum!(IpVersion {
    "v4" => Self::V4, "IPv4: 20-byte header.";
    "v6" => Self::V6, "IPv6: 40-byte header.";
});

file_table! {
    /// One case to compare.
    CaseTable + _misplaced: MisplacedKeys {
        /// Its name; unique.
        required name: Name;
        /// The mechanism that runs: its name, or a table with its name, preset, place and settings. Default:
        /// "none".
        optional mechanism: MechanismValue;
        /// The preset of `mechanism`, where that is written as a name.
        optional preset: String;
        /// Several mechanisms, in place of `mechanism`.
        optional mechanisms: Vec<At<MechanismValue>>;
        /// Other keys of the file that this case changes, as { "router.queue" = "fq_codel" }.
        optional set: Overrides;
    }
}

file_table! {
    /// What is recorded.
    Output {
        /// Width of one point of a time series. The first 64 flows have series. In the simulator a series has
        /// fewer than 512 points: when it is full, every two neighbours become one, and the width doubles.
        default series_interval: Positive<Duration> = "1s";
    }
}
