//! What the radio tells a mechanism: the cross-layer interface of all five papers.
//!
//! Each event carries when it was detected and, where known, when it takes effect: how early an event is
//! known decides what a mechanism can do with it.

use serde::{Deserialize, Serialize};

use crate::packet::StationId;
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Bytes, Fraction};

/// Whom a radio event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Every station of the cell.
    Network,
    /// One station.
    Station(StationId),
}

impl Scope {
    /// True if `station` is concerned.
    #[must_use]
    pub fn covers(self, station: StationId) -> bool {
        match self {
            Self::Network => true,
            Self::Station(one) => one == station,
        }
    }
}

/// Why the radio falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// A sensing quiet period.
    Sensing,
    /// A primary user transmits.
    PrimaryUser,
    /// The radio changes channel.
    ChannelSwitch,
    /// The signal is too weak.
    Fade,
    /// Waiting for a transmit grant.
    Grant,
}

impl Cause {
    /// Every cause, in declaration order.
    pub const ALL: [Self; 5] =
        [Self::Sensing, Self::PrimaryUser, Self::ChannelSwitch, Self::Fade, Self::Grant];
}

/// What happened on the radio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum LinkEventKind {
    /// Transmission stops (start of the paper's transmission freeze period, TFP). Freezes of different causes
    /// and scopes overlap freely; a repeated start of the same scope and cause only refreshes `expected`. One
    /// announced for later is another freeze, unless the two overlap as far as their lengths are known.
    FreezeStarted {
        /// Who is silent.
        scope: Scope,
        /// Why.
        cause: Cause,
        /// How long it will last, where known.
        expected: Option<Duration>,
    },
    /// The freeze of this scope and cause is over. The end of a freeze that never started is ignored.
    FreezeEnded {
        /// Who may send again.
        scope: Scope,
        /// The cause that ended.
        cause: Cause,
    },
    /// The cell works on another channel, or the channel's capacity became known or changed. Said only where
    /// the rate stands until the next such event; `capacity` zero says that from now on it is unknown, or
    /// varies too fast to be told (cellular, rate adaptation), and mechanisms measure for themselves.
    ChannelSwitched {
        /// Raw physical-layer rate, the paper's C.
        capacity: BitRate,
        /// Share of the rate that the MAC leaves for IP packets, the paper's e.
        efficiency: Fraction,
    },
    /// A sensing schedule was announced; `period` zero withdraws it.
    SensingSchedule {
        /// Who senses.
        scope: Scope,
        /// Time from one quiet period's start to the next.
        period: Duration,
        /// Length of one quiet period.
        duration: Duration,
        /// Start of the next quiet period.
        next: Instant,
    },
    /// A signal-to-noise sample, dB.
    Snr {
        /// The station heard.
        station: StationId,
        /// The ratio, dB.
        db: f32,
    },
    /// An uplink grant, said when the station hears of it.
    Grant {
        /// The station that may send.
        station: StationId,
        /// When the station's turn begins.
        at: Instant,
        /// How much the station may send.
        bytes: Bytes,
    },
    /// A granted turn ended with room left: nothing, or too little, waited to be sent.
    GrantUnused {
        /// The station whose turn it was.
        station: StationId,
        /// The room that was left.
        bytes: Bytes,
    },
    /// The medium access works in frames of this length, in each of which a station can be granted a turn
    /// (lookahead section II-A). Said before anything else by a radio that grants.
    GrantFrames {
        /// From one frame's start to the next.
        period: Duration,
    },
    /// Room in the transmit queue that downlink releases feed. A driver that can see its queue says this when
    /// a freeze ends and whenever room grows while the mechanism holds packets; a mechanism never releases
    /// more than the room last told, less what it has sent down since. A driver that cannot see its queue
    /// never says it, and releases are paced by the channel's capacity; so they are after a driver said it,
    /// and then let packets wait for a second without a word. A driver whose queue may stand still for longer
    /// says it again.
    TransmitRoom {
        /// Packets that fit.
        packets: u32,
        /// Bytes that fit.
        bytes: Bytes,
    },
    /// The driver gives this station's number back, and another station may get it later: what is known of
    /// the station is forgotten. A driver says so only while none of the station's packets are held.
    StationLeft {
        /// The station that left.
        station: StationId,
    },
}

impl LinkEventKind {
    /// Whom it concerns: what is said of the channel or the transmit queue concerns the whole cell.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        match *self {
            Self::FreezeStarted { scope, .. }
            | Self::FreezeEnded { scope, .. }
            | Self::SensingSchedule { scope, .. } => scope,
            Self::Snr { station, .. }
            | Self::Grant { station, .. }
            | Self::GrantUnused { station, .. }
            | Self::StationLeft { station } => Scope::Station(station),
            Self::ChannelSwitched { .. } | Self::GrantFrames { .. } | Self::TransmitRoom { .. } => {
                Scope::Network
            }
        }
    }
}

/// One event from the radio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEvent {
    /// When the source noticed it.
    pub detected_at: Instant,
    /// When it takes or took effect on the air, where known; may lie ahead of `detected_at` (announced) or
    /// behind it (detected late).
    pub effective_at: Option<Instant>,
    /// What happened.
    pub kind: LinkEventKind,
}

impl LinkEvent {
    /// An event detected and effective at `now`.
    #[must_use]
    pub const fn at(now: Instant, kind: LinkEventKind) -> Self {
        Self { detected_at: now, effective_at: Some(now), kind }
    }

    /// When it takes or took effect, as one who hears of it at `now` has to take it. A time of detection that
    /// lies ahead is a wrong clock, not an announcement.
    #[must_use]
    pub fn takes_effect(&self, now: Instant) -> Instant {
        self.effective_at.unwrap_or(self.detected_at.min(now))
    }
}
