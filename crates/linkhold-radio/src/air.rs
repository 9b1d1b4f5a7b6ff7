//! The air of one cell: queues, medium access and silences behind one sans-IO face, [`Air`].
//!
//! # Calling contract
//! - Time never runs backwards from one call to the next.
//! - Before any other call at time `t`, the driver calls [`on_event`](Air::on_event) until
//!   [`next_event`](Air::next_event) is later than `t` (each call handles one event, at the time it was due).
//! - After every call the driver drains [`AirOutput`] completely and in order.
//! - The first event is due at time 0 and tells the channel's capacity and announced sensing schedules.

use linkhold_core::link_event::Scope;
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use crate::accounting::{AirAccounting, Silence};
use crate::channel::{ChannelConfig, Switching};
use crate::frame::{AirOutput, Frame};
use crate::mac::Mac;
use crate::queue::QueueConfig;
use crate::sensing::{SensingConfig, StationSensing};

/// Everything that makes up the radio of a cell.
#[derive(Clone, Debug)]
pub struct AirConfig {
    /// Number of stations; ids run from 0.
    pub stations: u32,
    /// Medium access.
    pub mac: Mac,
    /// The channels; at least one.
    pub channels: Vec<ChannelConfig>,
    /// Index of the channel it starts on.
    pub initial_channel: usize,
    /// Channel changes.
    pub switching: Switching,
    /// Network-wide sensing.
    pub sensing: Option<SensingConfig>,
    /// Sensing of single stations.
    pub station_sensing: Vec<StationSensing>,
    /// Transmissions of a frame that may collide before it is dropped, less one (802.11: 7).
    pub retry_limit: u32,
    /// The base station's downlink queue.
    pub router: QueueConfig,
    /// Every station's uplink queue.
    pub station_queue: QueueConfig,
}

/// What is wrong with an [`AirConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AirConfigError {
    /// There is no station.
    #[error("a cell needs at least one station")]
    NoStation,
    /// There is no channel, or a channel index points past the last.
    #[error("channel {0} does not exist")]
    NoChannel(usize),
    /// A station's sensing names a station that does not exist.
    #[error("station {0} does not exist")]
    NoSuchStation(u32),
}

/// The air of one cell.
#[derive(Clone, Debug)]
pub struct Air {
    config: AirConfig,
}

impl Air {
    /// A cell's air at time 0. The same `config` and `seed` give the same silences, whatever is sent.
    ///
    /// # Errors
    /// [`AirConfigError`] when the configuration names something that is not there.
    pub fn new(config: AirConfig, _seed: u64) -> Result<Self, AirConfigError> {
        Ok(Self { config })
    }

    /// Queues a frame: downlink at the base station, uplink at its station.
    pub fn enqueue(&mut self, _now: Instant, _frame: Frame, _out: &mut AirOutput) {}

    /// When [`on_event`](Self::on_event) wants to be called next. O(1).
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        None
    }

    /// Handles the next event, which is due at or before `now`.
    pub fn on_event(&mut self, _now: Instant, _out: &mut AirOutput) {}

    /// Takes every downlink frame of the scope's stations out of the base station's queue, in queue order
    /// (`fq_codel`: order of arrival). A frame on the air is not taken.
    pub fn reclaim(&mut self, _scope: Scope, _into: &mut Vec<Frame>) {}

    /// Room in the downlink queue: packets and bytes that fit now (`Bytes(u64::MAX)` where only packets count).
    #[must_use]
    pub fn room(&self) -> (u32, Bytes) {
        (0, Bytes(self.config.channels.len() as u64))
    }

    /// Packets and bytes queued downlink.
    #[must_use]
    pub fn downlink_backlog(&self) -> (u32, Bytes) {
        (0, Bytes::ZERO)
    }

    /// Frames inside: queued in either direction or on the air.
    #[must_use]
    pub fn frames_inside(&self) -> u64 {
        0
    }

    /// True while `station` cannot be served: its own silence or the network's.
    #[must_use]
    pub fn is_silent(&self, _station: linkhold_core::packet::StationId) -> bool {
        false
    }

    /// Totals from time 0 to `until` (not before the last call's time).
    #[must_use]
    pub fn accounting(&self, until: Instant) -> AirAccounting {
        AirAccounting { until, ..AirAccounting::default() }
    }

    /// Moves the silences that ended since the last call to the end of `into`, in order of their end. At most
    /// 65,536 are kept between calls; beyond that the newest are counted only in the totals.
    pub fn take_silences(&mut self, _into: &mut Vec<Silence>) {}

    /// The silences still going on at `until`, cut there (for the end of a run).
    pub fn open_silences(&self, _until: Instant, _into: &mut Vec<Silence>) {}
}
