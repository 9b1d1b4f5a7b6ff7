//! The air of one cell: queues, medium access and silences behind one sans-IO face, [`Air`].
//!
//! # Calling contract
//! - Time never runs backwards from one call to the next.
//! - Before any other call at time `t`, the driver calls [`on_event`](Air::on_event) until
//!   [`next_event`](Air::next_event) is later than `t` (each call handles one event, at the time it was due).
//! - After every call the driver drains [`AirOutput`] completely and in order.
//! - The first event is due at time 0 and tells the channel's capacity (none where a trace is played: it has no rate
//!   that stands) and announced sensing schedules.

use linkhold_core::link_event::Scope;
use linkhold_core::packet::{Direction, StationId};
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use crate::accounting::{AirAccounting, Silence};
use crate::channel::{ChannelConfig, Switching};
use crate::frame::{AirDrop, AirOutput, Frame};
use crate::mac::{Access, Cell, Contenders, Mac};
use crate::queue::{InSilence, QueueConfig};
use crate::sensing::{SensingConfig, StationSensing};
use crate::silence::{Rank, Timeline};

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
    /// How often a frame that collided with a primary user is sent again before it is dropped (802.11: 7).
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
    /// Two sensing schedules for one station.
    #[error("station {0} has two sensing schedules; it can have one")]
    TwoSchedules(u32),
}

/// The air of one cell. See the module's calling contract.
#[derive(Clone, Debug)]
pub struct Air {
    timeline: Timeline,
    contenders: Contenders,
    access: Access,
    retry_limit: u32,
    router_in_silence: InSilence,
    station_in_silence: InSilence,
    /// The next event, and whether it is the radio's own.
    next_at: Instant,
    next_is_radio: bool,
}

impl Air {
    /// A cell's air at time 0. The same `config` and `seed` give the same silences, whatever is sent.
    ///
    /// # Errors
    /// [`AirConfigError`] when the configuration names something that is not there.
    pub fn new(config: AirConfig, seed: u64) -> Result<Self, AirConfigError> {
        check(&config)?;
        let mut air = Self {
            timeline: Timeline::new(&config, seed),
            contenders: Contenders::new(config.stations, config.router.kind, config.station_queue.kind),
            access: Access::new(&config.mac, config.stations),
            retry_limit: config.retry_limit,
            router_in_silence: config.router.in_silence,
            station_in_silence: config.station_queue.in_silence,
            next_at: Instant::ZERO,
            next_is_radio: true,
        };
        air.find_next();
        Ok(air)
    }

    /// Queues a frame: downlink at the base station, uplink at its station.
    ///
    /// # Panics
    /// If the frame's station is not below [`AirConfig::stations`].
    pub fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) {
        let in_silence = match frame.direction {
            Direction::Downlink => self.router_in_silence,
            Direction::Uplink => self.station_in_silence,
        };
        if in_silence.drops_arrivals()
            && self.timeline.is_silent(frame.station, frame.direction == Direction::Downlink)
        {
            out.dropped(frame, AirDrop::Silence);
            return;
        }
        let contender = self.contenders.enqueue(now, frame, out);
        let mut cell = Cell {
            contenders: &mut self.contenders,
            radio: &self.timeline,
            retry_limit: self.retry_limit,
            out,
        };
        self.access.on_enqueue(now, contender, &mut cell);
        self.find_next();
    }

    /// When [`on_event`](Self::on_event) wants to be called next. O(1).
    #[must_use]
    pub const fn next_event(&self) -> Option<Instant> {
        if self.next_at.as_nanos() == Instant::FAR_FUTURE.as_nanos() { None } else { Some(self.next_at) }
    }

    /// Handles the next event if it is due at `now`; late calls handle it as of the time it was due.
    pub fn on_event(&mut self, now: Instant, out: &mut AirOutput) {
        if self.next_at > now || self.next_at == Instant::FAR_FUTURE {
            return;
        }
        if self.next_is_radio {
            let was_silent = self.timeline.is_network_silent();
            self.timeline.step(out);
            self.contenders.on_radio_change(&self.timeline);
            if !was_silent && self.timeline.is_network_silent() && self.router_in_silence == InSilence::Flush
            {
                let mut lost = Vec::new();
                self.contenders.reclaim(Scope::Network, &mut lost);
                for frame in lost {
                    out.dropped(frame, AirDrop::Silence);
                }
            }
        }
        let mut cell = Cell {
            contenders: &mut self.contenders,
            radio: &self.timeline,
            retry_limit: self.retry_limit,
            out,
        };
        if self.next_is_radio {
            self.access.on_radio_change(self.next_at, &mut cell);
        } else {
            self.access.step(&mut cell);
        }
        self.find_next();
    }

    /// At the same time: silences end, then frames arrive, then silences start.
    fn find_next(&mut self) {
        let radio = self.timeline.next();
        let access = self.access.next();
        self.next_is_radio = radio.at < access || (radio.at == access && radio.rank == Rank::End);
        self.next_at = if self.next_is_radio { radio.at } else { access };
    }

    /// Takes every downlink frame of the scope's stations out of the base station's queue, in queue order
    /// (`fq_codel`: order of arrival); one whose transmission was aborted or postponed comes before its station's
    /// others. A frame on the air is not taken.
    pub fn reclaim(&mut self, scope: Scope, into: &mut Vec<Frame>) {
        self.contenders.reclaim(scope, into);
    }

    /// Room in the downlink queue: packets and bytes that fit now (`Bytes(u64::MAX)` where only packets count).
    /// None in a silence of the whole network if the queue drops what arrives in one.
    #[must_use]
    pub fn room(&self) -> (u32, Bytes) {
        if self.router_in_silence.drops_arrivals() && self.timeline.is_network_silent() {
            return (0, Bytes::ZERO);
        }
        self.contenders.downlink().room()
    }

    /// Packets and bytes waiting downlink, those on the air not counted.
    #[must_use]
    pub fn downlink_backlog(&self) -> (u32, Bytes) {
        let (packets, bytes) = self.contenders.downlink_backlog();
        (packets, Bytes(bytes))
    }

    /// Frames inside: waiting in either direction or on the air.
    #[must_use]
    pub fn frames_inside(&self) -> u64 {
        self.contenders.frames() + self.access.on_air()
    }

    /// True while the radio sends `station` nothing: its own silence, the network's, or a gap in the downlink trace.
    #[must_use]
    pub fn is_silent(&self, station: StationId) -> bool {
        self.timeline.is_silent(station, true)
    }

    /// Totals from time 0 to `until` (not before the last event's time).
    #[must_use]
    pub fn accounting(&self, until: Instant) -> AirAccounting {
        self.timeline.meter().snapshot(until, self.timeline.rate())
    }

    /// Moves the silences that ended since the last call to the end of `into`, in order of their end. At most
    /// 65,536 are kept between calls; beyond that the newest are counted only in the totals.
    pub fn take_silences(&mut self, into: &mut Vec<Silence>) {
        self.timeline.take_silences(into);
    }

    /// Adds the silences still going on at `until`, cut there, to the end of `into` (for the end of a run).
    pub fn open_silences(&self, until: Instant, into: &mut Vec<Silence>) {
        self.timeline.meter().open_silences(until, into);
    }
}

fn check(config: &AirConfig) -> Result<(), AirConfigError> {
    if config.stations == 0 {
        return Err(AirConfigError::NoStation);
    }
    let targets = config.switching.scripted.iter().map(|switch| switch.to_channel);
    if let Some(channel) =
        core::iter::once(config.initial_channel).chain(targets).find(|&index| index >= config.channels.len())
    {
        return Err(AirConfigError::NoChannel(channel));
    }
    for (index, own) in config.station_sensing.iter().enumerate() {
        if own.station.0 >= config.stations {
            return Err(AirConfigError::NoSuchStation(own.station.0));
        }
        if config.station_sensing[..index].iter().any(|other| other.station == own.station) {
            return Err(AirConfigError::TwoSchedules(own.station.0));
        }
    }
    Ok(())
}
