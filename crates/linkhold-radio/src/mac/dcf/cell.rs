//! The cell as a world of the DCF: everybody hears everybody, on one channel.
//!
//! Sees queues and the radio's condition; emits deliveries and drops. Who contends: the base station, which
//! is radio 0, with all of its downlink, and every station.
//!
//! - In a silence its radios are suspended, and their frames go back to the heads of their queues, where a
//!   mechanism may reclaim them. A frame that had arrived, and only lacked its ACK, does not: it is done;
//! - while a primary user transmits and has not been detected, nobody reads anything. Senders do not sense
//!   it: the channel's detector does, `detection_delay` later;
//! - noise spoils data frames only, as with `mac = "shared"`;
//! - each transmission is told if asked for;
//! - a station's energy counts what it sends (data and ACKs), and what others send to it.

use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_core::units::BitRate;

use super::config::DcfConfig;
use super::engine::Dcf;
use super::environment::{Environment, Hearing, History, Kind, Mpdu, Sent, Told};
use crate::cell::station_of;
use crate::frame::{AirDrop, RadioId};
use crate::mac::contenders::Pending;
use crate::mac::context::Context;

const BASE_STATION: u32 = RadioId::BASE_STATION.0;

/// Every signal is as strong as every other, so none captures a receiver.
const POWER: f64 = 1.0;

/// The radios of a cell.
#[derive(Clone, Debug)]
pub(crate) struct DcfCell {
    dcf: Dcf,
    /// By radio: the frame that the engine has of it.
    frames: Vec<Option<Pending>>,
    /// By radio: noise spoiled its frame's last attempt that no other signal did.
    noisy: Vec<bool>,
    /// By radio: it is in a silence.
    silent: Vec<bool>,
    all: ForAll,
}

/// What is the same for all radios.
#[derive(Clone, Copy, Debug)]
struct ForAll {
    /// A primary user transmits unnoticed.
    collides: bool,
    /// If none does: when the last did.
    collided_until: Instant,
    tells_transmissions: bool,
}

/// The cell's world during one call.
struct World<'a, 'b> {
    frames: &'a mut [Option<Pending>],
    noisy: &'a mut [bool],
    all: ForAll,
    context: &'a mut Context<'b>,
}

impl DcfCell {
    pub(crate) fn new(config: &DcfConfig, stations: u32, seed: u64) -> Self {
        let radios = stations as usize + 1;
        Self {
            dcf: Dcf::new(config, stations + 1, seed),
            frames: vec![None; radios],
            noisy: vec![false; radios],
            silent: vec![false; radios],
            all: ForAll { collides: false, collided_until: Instant::ZERO, tells_transmissions: false },
        }
    }

    pub(crate) const fn tell_transmissions(&mut self) {
        self.all.tells_transmissions = true;
    }

    /// The engine, and what it works on.
    fn split<'a, 'b>(&'a mut self, context: &'a mut Context<'b>) -> (&'a mut Dcf, World<'a, 'b>) {
        let Self { dcf, frames, noisy, all, .. } = self;
        (dcf, World { frames, noisy, all: *all, context })
    }

    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.dcf.next()
    }

    pub(crate) const fn held(&self) -> u64 {
        self.dcf.held()
    }

    pub(crate) fn step(&mut self, context: &mut Context<'_>) {
        let (dcf, mut world) = self.split(context);
        dcf.step(&mut world);
    }

    pub(crate) fn on_enqueue(&mut self, now: Instant, sender: RadioId, context: &mut Context<'_>) {
        let (dcf, mut world) = self.split(context);
        dcf.on_enqueue(now, sender.0, &mut world);
    }

    pub(crate) fn on_radio_change(&mut self, now: Instant, context: &mut Context<'_>) {
        let collides = context.radio.collides();
        if self.all.collides && !collides {
            self.all.collided_until = now;
        }
        self.all.collides = collides;
        let everybody = context.radio.stops_network();
        for radio in 0..self.silent.len() as u32 {
            let own = RadioId(radio).station().is_some_and(|station| context.radio.stops_station(station));
            let was = core::mem::replace(&mut self.silent[radio as usize], everybody || own);
            if (everybody || own) && !was {
                self.call_back(now, radio, context);
                let (dcf, mut world) = self.split(context);
                dcf.suspend(now, radio, &mut world);
            }
        }
        // What the base station sends to a station that is silent now.
        let receiver = self.frames[BASE_STATION as usize].map(|pending| station_of(&pending.frame));
        if receiver.is_some_and(|station| context.radio.stops_station(station)) {
            self.call_back(now, BASE_STATION, context);
        }
        for radio in 0..self.silent.len() as u32 {
            if !self.silent[radio as usize] {
                let (dcf, mut world) = self.split(context);
                dcf.resume(now, radio, &mut world);
            }
        }
        // Frames that could not start before may now.
        let radios = self.silent.len();
        let mut from = 0;
        while let Some(ready) = context.contenders.next_ready(&(from..radios), from) {
            let (dcf, mut world) = self.split(context);
            dcf.on_enqueue(now, ready as u32, &mut world);
            from = ready + 1;
        }
    }

    /// Takes a radio's frame back from the engine, to the head of its queue.
    fn call_back(&mut self, now: Instant, radio: u32, context: &mut Context<'_>) {
        let (dcf, mut world) = self.split(context);
        if let Some(mpdu) = dcf.recall(now, radio, &mut world) {
            world.put_back(radio, &mpdu);
        }
    }
}

impl World<'_, '_> {
    fn put_back(&mut self, radio: u32, mpdu: &Mpdu) {
        let Some(mut pending) = self.frames[radio as usize].take() else { return };
        if !mpdu.arrived() {
            pending.failures = mpdu.history.packed();
            self.context.contenders.put_back(pending);
        }
    }
}

impl Environment for World<'_, '_> {
    #[inline]
    fn take(&mut self, now: Instant, radio: u32) -> Option<Mpdu> {
        if self.context.radio.stops_network() {
            return None;
        }
        let pending = self.context.contenders.take(radio as usize, now, self.context.out)?;
        let mut mpdu = Mpdu::new(0, Some(pending.frame.to.0), pending.frame.len);
        mpdu.history = History::unpacked(pending.failures);
        self.frames[radio as usize] = Some(pending);
        Some(mpdu)
    }

    #[inline]
    fn received(&mut self, _now: Instant, _at: u32, from: u32, _mpdu: &Mpdu) {
        if let Some(Pending { frame, ce, .. }) = self.frames[from as usize] {
            self.context.out.delivered(frame, ce);
        }
    }

    #[inline]
    fn sent(&mut self, _now: Instant, radio: u32, _mpdu: Mpdu, outcome: Sent) {
        let pending = self.frames[radio as usize].take();
        let noisy = core::mem::take(&mut self.noisy[radio as usize]);
        match (outcome, pending) {
            (Sent::GaveUp { arrived: false }, Some(pending)) => {
                let reason = if noisy { AirDrop::Noise } else { AirDrop::RetryLimit };
                self.context.out.dropped(pending.frame, reason);
            }
            (Sent::Acknowledged | Sent::Broadcast | Sent::GaveUp { .. }, _) => {}
        }
    }

    /// What becomes of a frame is said of its last attempt, which noise spoils only where it reaches the
    /// receiver without a collision.
    #[inline]
    fn begins(&mut self, radio: u32) {
        self.noisy[radio as usize] = false;
    }

    fn postponed(&mut self, now: Instant, radio: u32, mpdu: Mpdu) -> Option<Mpdu> {
        if let Some(pending) = self.frames[radio as usize] {
            self.put_back(radio, &mpdu);
            self.context.contenders.block(station_of(&pending.frame));
        }
        self.take(now, radio)
    }

    #[inline]
    fn hearers(&mut self, _now: Instant, from: u32, into: &mut Vec<Hearing>) {
        let others = (0..self.frames.len() as u32).filter(|&radio| radio != from);
        into.extend(others.map(|radio| Hearing::new(radio, POWER, true)));
    }

    fn hearing(&mut self, _now: Instant, _from: u32, at: u32) -> Option<Hearing> {
        Some(Hearing::new(at, POWER, true))
    }

    #[inline]
    fn interference(&mut self, _at: u32, since: Instant, _until: Instant) -> f64 {
        if self.all.collides || self.all.collided_until > since { f64::INFINITY } else { 0.0 }
    }

    #[inline]
    fn spoils(&mut self, now: Instant, _at: u32, from: u32, _mpdu: &Mpdu, since: Instant) -> bool {
        let (Some(losses), Some(pending)) = (&mut self.context.losses, self.frames[from as usize]) else {
            return false;
        };
        let middle = since + now.since(since).mul_f64(0.5);
        let frame = pending.frame;
        let spoils = losses.spoils(self.context.radio.channel(), station_of(&frame), frame.len, middle);
        self.noisy[from as usize] = spoils;
        spoils
    }

    #[inline]
    fn rate(&self, _radio: u32) -> BitRate {
        self.context.radio.air_time().phy_rate()
    }

    #[inline]
    fn quiet_at(&self, _now: Instant, radio: u32, to: Option<u32>) -> Instant {
        // One end is the base station's 0.
        let station = radio.max(to.unwrap_or(BASE_STATION)).saturating_sub(1);
        self.context.radio.quiet_at(StationId(station))
    }

    #[inline]
    fn transmitted(&mut self, now: Instant, told: Told) {
        if self.all.tells_transmissions {
            let carried = (told.kind == Kind::Data).then(|| self.frames[told.from as usize]).flatten();
            let packet = carried.map(|pending| pending.frame.packet);
            let channel = self.context.radio.channel() as u32;
            self.context.out.transmitted(told.transmission(packet, channel, RadioId));
        }
        if let Some(usage) = &mut self.context.usage {
            usage.sent(RadioId(told.from), told.to.map(RadioId), now.since(told.since));
        }
    }
}
