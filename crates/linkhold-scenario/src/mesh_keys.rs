//! The keys of `[mesh]`.

use linkhold_core::settings::{Distance, Speed};
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes};
use linkhold_mesh::config::Routing;
use linkhold_radio::dcf::Phy;
use linkhold_radio::spectrum::Policy;

use crate::read::{At, file_enum, file_table};
use crate::scalar::{By, Differentiation, Exponent, Frequency, OrOff, Packets, Positive};

file_table! {
    /// A mesh of cognitive radios in place of the cell: nodes that carry each other's packets. Flows then say
    /// `from` and `to`. `wired`, `radio`, `router`, `station` and `host` do nothing.
    Mesh {
        /// Number of nodes, numbered from 0; at least 2.
        required nodes: Positive<u32>;
        /// Width of the area (x).
        default width: By<Distance> = "1000m";
        /// Height of the area (y).
        default height: By<Distance> = "1000m";
        /// Where nodes stand, one entry for each. Without it, and without walk and movements, each stands
        /// where its seed draws.
        list places: NodePlace;
        /// Nodes that walk at random.
        optional walk: MeshWalk;
        /// File of movements in ns-2's setdest format. Relative to the scenario file; may start with
        /// ${LINKHOLD_DATA}.
        optional movements: String;
        /// Physical layer of IEEE 802.11, whose DCF gives nodes their turn.
        default phy: Phy = "802.11b";
        /// Data rate, where there is no spectrum. With "802.11b" any rate will do: what surrounds the data
        /// has the standard's 1 Mbit/s.
        optional rate: Positive<BitRate>;
        /// How far a frame can be read where nothing disturbs it.
        default transmission_range: By<Distance> = "250m";
        /// How far a frame keeps others from sending; not below transmission_range. Default: ns-2's.
        default carrier_sense_range: By<Distance> = "550m";
        /// Attenuation factor: received power falls with the distance to this power.
        default attenuation: Exponent = 2.0;
        /// A longer frame is preceded by RTS and CTS, or "off".
        default rts_threshold: OrOff<Bytes> = "off";
        /// How often a frame without RTS is sent before its node gives it up (dot11ShortRetryLimit).
        default retry_limit: u8 = 7;
        /// Most packets of data that wait at a node.
        default queue: Positive<Packets> = "50pkt";
        /// How packets find their way.
        default routing: Routing = "aodv";
        /// With routing = "aodv": a node on the way seeks a new route itself when its next hop is gone (RFC
        /// 3561, section 6.12). Without it the source does.
        default local_repair: bool = false;
        /// A TP-CRAHN sender is told by its own node's router when its route is lost and when there is one
        /// again.
        default routes_told: bool = false;
        /// Bands of primary users in which the nodes are guests: sensing, handoffs. Without it the nodes have
        /// one channel of their own.
        optional spectrum: Spectrum;
    }
}

file_table! {
    /// Where a node stands.
    NodePlace {
        /// From the area's left.
        required x: By<Distance>;
        /// From the area's bottom.
        required y: By<Distance>;
    }
}

file_table! {
    /// Random waypoint: each node goes straight to a place of the area, pauses, goes to another.
    MeshWalk {
        /// Least speed.
        default speed_min: By<Speed> = "2.5m/s";
        /// Highest speed.
        default speed_max: By<Speed> = "4m/s";
        /// Mean pause, exponential.
        default pause: Duration = "3s";
    }
}

file_enum!(Routing {
    "direct" => Self::Direct, "None: every node sends straight to the receiver.";
    "aodv" => Self::Aodv, "Ad hoc On-Demand Distance Vector (RFC 3561).";
    "search" => Self::Search, "SEARCH: geographic, around the regions of primary users.";
});

file_table! {
    /// Bands of primary users, and how the nodes live in them.
    Spectrum {
        /// Number of bands.
        default bands: Positive<u32> = 5;
        /// Channels in each band.
        default channels_per_band: Positive<u32> = 1;
        /// Rate of a channel, the paper's gamma.
        default capacity: Positive<BitRate> = "1Mbit/s";
        /// How much channels differ, the paper's M (equation 5): those with an even number have capacity x
        /// (1 + M/2), the others capacity x (1 - M/2).
        default differentiation: Differentiation = 0.0;
        /// File of channels (the paper's channel log), in place of the keys above. Relative to the scenario
        /// file; may start with ${LINKHOLD_DATA}.
        optional channel_log: String;
        /// How long the nodes sense, t_s.
        default sensing_time: Positive<Duration> = "200ms";
        /// How long they transmit until they sense again, T_p.
        default transmitting_time: Positive<Duration> = "1s";
        /// Time of a change of channel. Not in the paper; our choice.
        default switching_delay: Duration = "10ms";
        /// How well a node that senses detects a primary user.
        default detector: DetectorName = "energy";
        /// SNR of a primary user at a node that senses, with detector = "energy". Default: -21dB, what IEEE
        /// 802.22 asks for with digital television.
        optional detector_snr: By<linkhold_core::settings::Decibels>;
        /// Bandwidth that is sensed, with detector = "energy". Default: 6MHz, a channel of television.
        optional detector_bandwidth: By<linkhold_core::settings::Frequency>;
        /// The channel after one that a primary user has taken.
        default policy: Policy = "round-robin";
        /// Who works on which channel.
        default working_channel: WorkingName = "common";
        /// With working_channel = "own": each node's channel at the start, counted from 0 over all bands.
        /// Without it the seed draws them.
        optional home_channels: Vec<At<u32>>;
        /// With working_channel = "own": how long a radio is deaf on its way to another channel, and back.
        /// Default: 224us, that of the MMAC paper for 802.11 radios.
        optional retune_time: Duration;
        /// With working_channel = "own": how long after it found a primary user on a channel a node counts
        /// itself in that user's region, where SEARCH takes no relays. Default: 10s, our choice.
        optional user_memory: Duration;
        /// Primary users that come and go at random.
        optional users: Users;
        /// File of primary users (the paper's PU log), in place of `users`. Relative to the scenario file;
        /// may start with ${LINKHOLD_DATA}. Every repetition has the same.
        optional pu_log: String;
        /// With `users`: how far a primary user is detected, and disturbs.
        default user_range: By<Distance> = "500m";
    }
}

/// `mesh.spectrum.working_channel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkingName {
    Common,
    Own,
}

file_enum!(WorkingName {
    "common" => Self::Common, "All nodes work on one channel, sense together and change channel together; that they agree costs nothing.";
    "own" => Self::Own, "Each node senses for itself and listens on a home channel of its own. Senders go to the receiver's, deaf at home meanwhile; broadcasts go out on every channel.";
});

file_table! {
    /// Primary users, on and off by turns, exponential. Every band has as many.
    Users {
        /// Death rate: bursts last 1/alpha in the mean.
        required alpha: Frequency;
        /// Birth rate: pauses last 1/beta in the mean.
        required beta: Frequency;
        /// Primary users in each band.
        default per_band: Positive<u32> = 1;
        /// Where they stand: drawn by the seed in the whole area, or in a middle part of it.
        default spread: By<Distance> = "1000m";
    }
}

/// `mesh.spectrum.detector`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetectorName {
    Energy,
    Simplified,
    Perfect,
}

file_enum!(DetectorName {
    "energy" => Self::Energy, "The energy detector of Lee and Akyildiz, the paper's [13], with alpha and beta.";
    "simplified" => Self::Simplified, "Rates that depend on sensing_time only, as the paper's own simulator has them.";
    "perfect" => Self::Perfect, "It never errs: an oracle, to compare with.";
});

file_enum!(Policy {
    "round-robin" => Self::RoundRobin, "The next number (equation 3).";
    "longest-idle" => Self::LongestExpectedIdle, "The one with the longest expected idle time, from what was sensed.";
    "least-recently-occupied" => Self::LeastRecentlyOccupied, "The one where the last primary user was seen longest ago.";
});
