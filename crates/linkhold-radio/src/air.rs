//! The air of one cell: queues, medium access and silences behind one sans-IO face, [`Air`].
//!
//! # Calling contract
//! - Time never runs backwards from one call to the next.
//! - Before any other call at time `t`, the driver calls [`on_event`](Air::on_event) until
//!   [`next_event`](Air::next_event) is later than `t` (each call handles one event, at the time it was due).
//! - After every call the driver drains [`AirOutput`] completely and in order.
//! - The first event is due at time 0 and tells the channel's capacity and the announced sensing schedules,
//!   and before them the length of frames where the medium access grants. A trace has no rate that stands, so
//!   a radio that plays one tells no capacity.

use std::sync::Arc;

use linkhold_core::link_event::Scope;
use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use crate::accounting::{AirAccounting, Silence};
use crate::cell;
use crate::change::ChangeKind;
use crate::config::{AirConfig, AirConfigError};
use crate::energy::{StationTime, Usage};
use crate::frame::{AirDrop, AirOutput, Frame, RadioId};
use crate::mac::Access;
use crate::mac::config::Mac;
use crate::mac::contenders::Contenders;
use crate::mac::context::Context;
use crate::mac::grants::accounting::UplinkAccounting;
use crate::queue::config::InSilence;
use crate::signals::ToldAccounting;
use crate::snr::losses::FrameLosses;
use crate::snr::reports::SnrReports;
use crate::snr::signal::Signal;
use crate::timeline::Timeline;

/// The air of one cell. See the module's calling contract.
#[derive(Clone, Debug)]
pub struct Air {
    timeline: Timeline,
    contenders: Contenders,
    access: Access,
    retry_limit: u32,
    losses: Option<Box<FrameLosses>>,
    usage: Option<Usage>,
    router_in_silence: InSilence,
    station_in_silence: InSilence,
    /// When the next event is due, and whether it is the timeline's or the MAC's.
    next_at: Instant,
    next_is_radio: bool,
}

impl Air {
    /// A cell's air at time 0. The same `config` and `seed` give the same silences, whatever is sent.
    ///
    /// # Errors
    /// [`AirConfigError`] when the configuration names something that is not there.
    pub fn new(mut config: AirConfig, seed: u64) -> Result<Self, AirConfigError> {
        config.check()?;
        let air_times = config.air_times()?;
        if let Mac::Trace(link) = &mut config.mac {
            *link = link.entered(seed);
        }
        let signal = config.snr.as_ref().map(|snr| (snr, Arc::new(Signal::new(snr, config.stations, seed))));
        let losses =
            signal.as_ref().map(|(snr, signal)| Box::new(FrameLosses::new(snr, signal.clone(), seed)));
        let reports =
            signal.map(|(snr, signal)| Box::new(SnrReports::new(snr, signal, config.stations, seed)));
        let mut air = Self {
            timeline: Timeline::new(&config, air_times, reports, seed),
            contenders: Contenders::new(config.stations, config.router.kind, config.station_queue.kind),
            access: Access::new(&config.mac, config.stations, seed),
            retry_limit: config.retry_limit,
            losses,
            usage: config.power.is_some().then(|| Usage::new(config.stations)),
            router_in_silence: config.router.in_silence,
            station_in_silence: config.station_queue.in_silence,
            next_at: Instant::ZERO,
            next_is_radio: true,
        };
        air.find_next();
        Ok(air)
    }

    /// Queues a frame at the radio that sends it.
    ///
    /// # Panics
    /// If the frame is not one between the base station and a station below [`AirConfig::stations`].
    pub fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) {
        assert!(cell::is_star(&frame), "{frame:?} is not between a station and the base station");
        let downlink = frame.from == RadioId::BASE_STATION;
        let in_silence = if downlink { self.router_in_silence } else { self.station_in_silence };
        if in_silence.drops_arrivals() && self.timeline.is_silent(cell::station_of(&frame), downlink) {
            out.dropped(frame, AirDrop::Silence);
            return;
        }
        self.contenders.enqueue(now, frame, out);
        if self.access.is_busy(frame.from) {
            return;
        }
        let mut context = Context {
            contenders: &mut self.contenders,
            radio: &self.timeline,
            retry_limit: self.retry_limit,
            losses: self.losses.as_deref_mut(),
            usage: self.usage.as_mut(),
            out,
        };
        self.access.on_enqueue(now, frame.from, frame.len, &mut context);
        self.find_next();
    }

    /// `station` asks for leave to send `bytes` uplink, ahead of the frames that will need it. Nothing
    /// happens where the medium access grants nothing.
    pub fn request_uplink(&mut self, now: Instant, station: StationId, bytes: Bytes) {
        self.access.on_request(now, station, bytes);
        self.find_next();
    }

    /// When [`on_event`](Self::on_event) wants to be called next. O(1).
    #[must_use]
    pub const fn next_event(&self) -> Option<Instant> {
        if self.next_at.as_nanos() == Instant::FAR_FUTURE.as_nanos() { None } else { Some(self.next_at) }
    }

    /// Handles the next event if it is due at `now`. A late call handles it as of the time it was due.
    pub fn on_event(&mut self, now: Instant, out: &mut AirOutput) {
        if self.next_at > now || self.next_at == Instant::FAR_FUTURE {
            return;
        }
        if self.next_is_radio && self.timeline.next_is_signal() {
            self.timeline.step(out);
            self.find_next();
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
        let mut context = Context {
            contenders: &mut self.contenders,
            radio: &self.timeline,
            retry_limit: self.retry_limit,
            losses: self.losses.as_deref_mut(),
            usage: self.usage.as_mut(),
            out,
        };
        if self.next_is_radio {
            self.access.on_radio_change(self.next_at, &mut context);
        } else {
            self.access.step(&mut context);
        }
        self.find_next();
    }

    /// At the same time: silences end, then frames arrive, then silences start.
    fn find_next(&mut self) {
        let radio = self.timeline.next();
        let access = self.access.next();
        self.next_is_radio = radio.at < access || (radio.at == access && radio.kind == ChangeKind::Resume);
        self.next_at = if self.next_is_radio { radio.at } else { access };
    }

    /// Tells every transmission from now on ([`AirEvent::Transmitted`](crate::AirEvent::Transmitted)), before
    /// what becomes of it. False if the medium access has no transmissions that could be told.
    pub fn tell_transmissions(&mut self) -> bool {
        self.access.tell_transmissions()
    }

    /// Takes every downlink frame of the scope's stations out of the base station's queue, in queue order
    /// (`fq_codel`: order of arrival). A frame whose transmission was aborted or postponed comes before the
    /// others of its station. A frame on the air is not taken, nor is one that its radio contends for.
    pub fn reclaim(&mut self, scope: Scope, into: &mut Vec<Frame>) {
        self.contenders.reclaim(scope, into);
    }

    /// Room in the downlink queue: packets and bytes that fit now (`Bytes(u64::MAX)` where only packets
    /// count). A queue that drops what arrives in a silence has no room in a silence of the whole network.
    #[must_use]
    pub fn room(&self) -> (u32, Bytes) {
        if self.router_in_silence.drops_arrivals() && self.timeline.is_network_silent() {
            return (0, Bytes::ZERO);
        }
        self.contenders.downlink().room()
    }

    /// Packets and bytes that wait at the base station, without those on the air.
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

    /// True while the radio sends `station` nothing: its own silence, the network's, or a gap in the downlink
    /// trace.
    #[must_use]
    pub fn is_silent(&self, station: StationId) -> bool {
        self.timeline.is_silent(station, true)
    }

    /// By station: what its radio was busy with, in transmissions that have ended. Empty if
    /// [`AirConfig::power`] does not ask for it.
    #[must_use]
    pub fn station_times(&self) -> &[StationTime] {
        self.usage.as_ref().map_or(&[], Usage::stations)
    }

    /// What those who listen were told of the silences so far; `None` where each radio overhears by itself.
    #[must_use]
    pub const fn told(&self) -> Option<ToldAccounting> {
        self.timeline.told()
    }

    /// What became of uplink requests and grants so far; `None` where the medium access grants nothing.
    #[must_use]
    pub fn uplink(&self) -> Option<UplinkAccounting> {
        self.access.uplink()
    }

    /// Totals from time 0 to `until` (not before the last event's time).
    #[must_use]
    pub fn accounting(&self, until: Instant) -> AirAccounting {
        self.timeline.accounting(until)
    }

    /// Moves the silences that ended since the last call to the end of `into`, in order of their end. At most
    /// 65,536 are kept between calls; later ones count only in the totals.
    #[inline]
    pub fn take_silences(&mut self, into: &mut Vec<Silence>) {
        self.timeline.take_silences(into);
    }

    /// Adds the silences still going on at `until`, cut there, to the end of `into` (for the end of a run).
    pub fn open_silences(&self, until: Instant, into: &mut Vec<Silence>) {
        self.timeline.meter().open_silences(until, into);
    }
}
