//! What is measured of round trips: the wired part, the radio part, and the bytes that the radio still has.
//!
//! Beside the paper (`dsasync`): the window clamp and the early opening need it. Sees what goes down and what
//! comes up; feeds [`Bdp`] and corrects the [`Pacer`](super::pacer::Pacer); answers how large windows are and
//! how much may go down.
//!
//! - **Wired part**: `round_trip/wired.rs`.
//! - **Radio part**: `round_trip/radio.rs`. What goes down begins a probe (`round_trip/sent.rs`), and what
//!   comes up answers it (`round_trip/acked.rs`).
//! - **Both directions of a station**: `round_trip/both_ways.rs`.
//! - **Outstanding**, the bytes handed to the radio that stations have not acknowledged:
//!   `round_trip/outstanding.rs`.
//! - **Where nobody tells the rate**, each station has an [`Untold`] that is told what goes down, what is
//!   acknowledged and what comes up. Its measurements limit what may go down: `round_trip/below.rs`, and
//!   `round_trip/others.rs` for what nobody acknowledges.

mod acked;
mod below;
mod both_ways;
mod others;
mod outstanding;
mod radio;
mod sent;
mod wired;

use super::bdp::Bdp;
use super::cell::Cell;
use super::config::{Clamp, DsaSyncConfig, Mode};
use super::flow::Flow;
use super::flow_table::FlowId;
use super::per_station::PerStation;
use super::shares::{EPOCH_BYTES, Shares, Tally};
use super::syns::Syns;
use super::unacknowledged::Unacknowledged;
use super::untold::{Among, Limits, Untold};
use super::uplink_rate::{Interruption, UplinkRate};
use super::waits::Waits;
use crate::link_monitor::LinkMonitor;
use crate::packet::StationId;
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Fraction, Seq};

use radio::RadioPart;

pub(super) use radio::waits_in_router;
pub(super) use wired::probe_wired;

/// What lay below when the first connection was seen that was under way has passed after so long, or is lost.
/// Somebody who makes connections up could otherwise keep the radio from ever being believed empty.
const LONGEST_UNSEEN: Duration = Duration::from_secs(10);

/// Measures round trips and what is in the radio.
#[derive(Debug)]
pub(super) struct RoundTrips {
    pub bdp: Bdp,
    /// Bytes in the radio that stations have not acknowledged, over all flows.
    outstanding: u64,
    /// Of those, what flows may withhold because ACKs are delayed.
    first: u64,
    stations: PerStation<StationRecord>,
    limits: Limits,
    /// What several stations may have below together.
    cell: Cell,
    /// What is below and nobody will acknowledge.
    others: Unacknowledged,
    /// When a station last acknowledged something new or was sent something to acknowledge, and which one.
    /// What nobody acknowledges must leave that station its part.
    served: Option<(Instant, StationId)>,
    /// Windows are held down by the measured rate: those of correspondents where none is told, those of
    /// stations always.
    measures: bool,
    /// Nothing more goes down than the measured rate needs.
    keeps_short: bool,
    /// How much waits in the router's queue, as time at the measured rate.
    transmit_queue: Duration,
    /// The part of the cell's bytes that goes to stations that are not silent.
    present: f64,
    /// Stations for which packets are held.
    pub waiting: u32,
    /// Slots whose flow has outstanding bytes, each once, and some whose flow has none any more.
    owing: Vec<u32>,
    /// The place in it of the flow whose station is next looked at: it may be gone.
    hand: usize,
    /// Says how long an answer is waited for across silences, of whatever station.
    waits: Waits,
    /// Everything that went down before this time has come through or is lost, if the hop keeps the order.
    passed: Instant,
    /// When the first connection was seen that was under way before. For some time from then on it is looked
    /// for what had gone down unseen.
    watched_since: Option<Instant>,
    /// When a station last acknowledged something of that.
    unseen: Option<Instant>,
    /// A segment has found the radio empty, at whatever station, where nobody tells the rate.
    knows_empty: bool,
}

/// What of a station's packets waits at the base station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    Nothing,
    Held,
    /// All of them wait, even if the radio could take some: the answer to a copy comes first.
    Withheld,
}

/// What is known of a station.
#[derive(Debug, Default)]
struct StationRecord {
    /// Bytes that it has not acknowledged, and what of them its flows may withhold because ACKs are delayed.
    outstanding: u64,
    first: u64,
    /// Bytes that it did not acknowledge while patience lasted: they may be lost, and keep nothing back for a
    /// while.
    excused: u64,
    excused_until: Instant,
    /// When it last acknowledged something new, or was sent a packet beyond what should be outstanding.
    heard: Instant,
    /// What it had to acknowledge was written off, and it has said nothing since: no packet waits for its
    /// ACKs.
    gone: bool,
    /// Everything that went down to it before this time has come through or is lost, if the hop keeps the
    /// order.
    passed: Instant,
    /// Its outstanding bytes do not count towards the cell's limit.
    aside: bool,
    /// Among how many of its flows its part is shared where the rate is told, and what it is sent of the
    /// cell's bytes.
    flows: Shares,
    share: Tally,
    /// The part that it had of what the cell was sent, averaged at the silences of stations: what is sent
    /// between two of them may be one burst.
    part: f64,
    /// What is measured where nobody tells the rate. On the heap, because most stations never have it.
    untold: Option<Box<Untold>>,
    /// What is measured of the uplink. On the heap as well.
    uplink: Option<Box<UplinkRate>>,
    radio: RadioPart,
    /// Its latest SYNs. On the heap as well.
    syns: Option<Box<Syns>>,
}

impl RoundTrips {
    pub fn new(config: &DsaSyncConfig) -> Self {
        Self {
            bdp: Bdp::new(config.standing_queue),
            outstanding: 0,
            first: 0,
            stations: PerStation::new(config.monitor.max_stations),
            limits: Limits::new(config),
            cell: Cell::default(),
            others: Unacknowledged::default(),
            served: None,
            measures: config.clamp == Clamp::Always && config.mode != Mode::Hold,
            keeps_short: config.clamp == Clamp::Always && !config.transmit_queue.is_zero(),
            transmit_queue: config.transmit_queue,
            present: 1.0,
            waiting: 0,
            owing: Vec::new(),
            hand: 0,
            waits: Waits::default(),
            passed: Instant::ZERO,
            watched_since: None,
            unseen: None,
            knows_empty: false,
        }
    }

    /// A connection is seen for the first time that was under way before.
    #[cold]
    pub fn begins_midstream(&mut self, now: Instant, flow: &mut Flow) {
        self.watched_since.get_or_insert(now);
        flow.midstream = self.may_lie_unseen(now);
    }

    /// True while what went down before anybody looked may still lie below.
    fn may_lie_unseen(&self, now: Instant) -> bool {
        self.watched_since.is_some_and(|since| now < self.waits.over(since, LONGEST_UNSEEN))
    }

    /// True while the radio's own time has to be guessed: something lies below, or lay there, that was not
    /// seen going down, and no segment has found the radio empty.
    fn guesses(&self, now: Instant) -> bool {
        !self.knows_empty
            && self.unseen.is_some()
            && self.measures
            && !self.bdp.is_told()
            && self.may_lie_unseen(now)
            && self.is_clear_of_others(now)
    }

    /// The station acknowledged up to `flow.acked`, and before up to `acked_before`: notes if that is
    /// something that was not seen going down.
    #[cold]
    fn look_for_unseen(&mut self, now: Instant, flow: &mut Flow, acked_before: Option<Seq>) {
        let from = flow.watched.as_ref().and_then(|watched| watched.seen_from);
        // Nobody notes it while a rate is told.
        let began_told = from.is_none() && flow.down_sent.is_some();
        let is_past = from.zip(flow.acked).is_some_and(|(from, acked)| acked.after(from));
        if began_told || is_past || !self.may_lie_unseen(now) {
            flow.midstream = false;
        } else if flow.acked != acked_before {
            self.unseen = Some(now);
        }
    }

    /// Radio part of the station's base round trip; `None` until something of it was measured.
    #[inline]
    pub fn radio_part(&self, station: StationId) -> Option<Duration> {
        self.stations.get(station)?.radio.least()
    }

    /// Radio part of a round trip without a queue as it usually is, where the least is too short to plan
    /// with: ACKs that wait for each other, or for a turn.
    #[inline]
    pub fn usual_radio_part(&self, station: StationId) -> Option<Duration> {
        self.stations.get(station)?.radio.usual()
    }

    /// Radio part of a round trip that begins with an ACK and ends with data from the station. In an upload
    /// nothing else goes down that would be answered.
    #[inline]
    pub fn uplink_radio_part(&self, station: StationId) -> Option<Duration> {
        Some(self.stations.get(station)?.radio.uplink()? + self.downlink_wait(station))
    }

    /// A SYN with this timestamp came up from the station.
    pub fn on_stations_syn(&mut self, now: Instant, station: StationId, flow: FlowId, value: u32) {
        self.stations.at(station).syns.get_or_insert_with(Box::default).note(now, flow, value);
    }

    /// When the connection's SYN came up from the station, and with which timestamp, if that is remembered.
    pub fn syn_of(&self, station: StationId, flow: FlowId) -> Option<(Instant, u32)> {
        self.stations.get(station)?.syns.as_ref()?.of(flow)
    }

    /// A timestamp that went down to the station came back after this time.
    pub fn on_echo(&mut self, now: Instant, station: StationId, took: Duration) {
        self.stations.at(station).radio.echoed.add(now, took);
    }

    /// Bytes in the radio that stations have not acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// True if nothing is in the radio but what stations may have and not acknowledge yet, because ACKs are
    /// delayed.
    pub fn is_idle(&self) -> bool {
        self.outstanding <= self.first
    }

    /// What is measured of a station, where nobody tells the rate.
    #[inline]
    pub fn untold(&self, station: StationId) -> Option<&Untold> {
        if self.bdp.is_told() { None } else { self.stations.get(station)?.untold.as_deref() }
    }

    /// As [`untold`](Self::untold), to be changed; made if need be.
    #[inline]
    pub fn untold_at(&mut self, station: StationId) -> Option<&mut Untold> {
        if self.bdp.is_told() || !self.measures {
            return None;
        }
        let limits = self.limits;
        let record = self.stations.at(station);
        Some(record.untold.get_or_insert_with(|| Box::new(Untold::new(limits))))
    }

    /// Windows are held down by what is measured.
    #[inline]
    pub fn measures(&self) -> bool {
        self.measures
    }

    /// What is measured of a station's uplink.
    #[inline]
    pub fn uplink(&self, station: StationId) -> Option<&UplinkRate> {
        self.stations.get(station)?.uplink.as_deref()
    }

    /// As [`uplink`](Self::uplink), to be changed; made if need be. `None` where windows are not held down.
    pub fn uplink_at(&mut self, station: StationId) -> Option<&mut UplinkRate> {
        if !self.measures {
            return None;
        }
        let limits = self.limits;
        let record = self.stations.at(station);
        Some(record.uplink.get_or_insert_with(|| Box::new(UplinkRate::new(limits))))
    }

    /// How much later than after the least wired round trip windows allow for the flow's data to come.
    #[inline]
    pub fn allows(&self, flow: &Flow) -> Duration {
        flow.late.beyond(self.bdp.standing())
    }

    /// The window of a flow by the rate that is told, bytes; `None` where none is told.
    pub fn told_window(&self, flow: &Flow, wired: Duration, radio: Duration) -> Option<u32> {
        let flows = self.stations.get(flow.station).map_or(1.0, |record| record.flows.count());
        // What silent stations cannot use is the others': they are as many fewer.
        let present = self.present.max(1.0 / self.bdp.stations());
        self.bdp.clamp(wired, radio + self.uplink_wait(flow.station), flow.handshake.mss, flows * present)
    }

    /// The window of a flow by the rate that was measured, bytes; `None` where it is told, or not known yet.
    pub fn measured_window(&self, flow: &Flow, wired: Duration) -> Option<u32> {
        let local = self.usual_radio_part(flow.station)?;
        let wait = self.wait_beside_uploads(flow.station);
        let among = match self.cell.limit() {
            Some(limit) => Among::Stations(limit),
            None if self.others.below() == 0 => Among::Alone,
            None => Among::Others { most: self.most_below(flow.station)?.0 },
        };
        self.untold(flow.station)?.window(wired, local, wait, flow.handshake.mss, among)
    }

    /// True if the measured rate holds the flow down and its sender keeps to the window. When that rate
    /// falls, what is under way waits for as long as it has to: a loss would only make the sender slower
    /// when the rate has risen again.
    pub fn is_held_down(&self, flow: &Flow) -> bool {
        // Where the rate is told, none is measured.
        let keeps = !self.bdp.is_told()
            && flow.told_edge.zip(flow.down_max).is_some_and(|(edge, newest)| !newest.after(edge));
        keeps && flow.wired.get().is_some_and(|wired| self.measured_window(flow, wired).is_some())
    }

    /// What was measured of all stations together, payload bits/s; 0 where the rate is told.
    pub fn measured_rate(&self) -> u64 {
        let rates = self.stations.iter().filter_map(|station| station.untold.as_ref()?.downlink_rate());
        if self.bdp.is_told() { 0 } else { (rates.sum::<f64>() * 8.0) as u64 }
    }

    /// No rate is measured across this.
    pub fn interrupt(&mut self, now: Instant, by: Interruption) {
        if by != Interruption::OpenedGate {
            self.bdp.restart_bin(now, self.outstanding);
        }
        if !self.measures {
            return;
        }
        let told = self.bdp.is_told();
        if let (Some(total), false) = (self.cell.total_mut(), told) {
            total.interrupt(now);
        }
        for station in self.stations.iter_mut() {
            if let (Some(untold), false) = (&mut station.untold, told) {
                untold.interrupt(now);
            }
            if let Some(uplink) = &mut station.uplink {
                uplink.interrupt(now, by);
            }
        }
    }

    /// The channel's rate and efficiency became known or changed; a rate of zero: no longer known.
    pub fn set_capacity(&mut self, capacity: BitRate, efficiency: Fraction) {
        self.bdp.set_capacity(capacity, efficiency);
        if !self.bdp.is_told() {
            // Nobody works it out until a rate is told again.
            self.present = 1.0;
        }
        // Where the rate is told, nobody counts them.
        self.others.forget();
    }

    /// A silence begins: nobody can acknowledge anything in it.
    pub fn silence_began(&mut self, now: Instant) {
        let is_first = !self.waits.is_silent();
        self.interrupt(now, if is_first { Interruption::FirstSilence } else { Interruption::InSilences });
        self.waits.silence_began(now);
    }

    /// A silence is over.
    pub fn silence_ended(&mut self, now: Instant) {
        self.interrupt(now, Interruption::InSilences);
        self.waits.silence_ended(now);
    }

    /// A silence of a station begins or ends: works out anew what part the other stations have, where the
    /// rate is told. Where it is not, windows follow measured rates, and a larger part for the others added
    /// nothing but delay. If all stations are silent, nobody can use what is left.
    pub fn share_anew(&mut self, monitor: &LinkMonitor) {
        if !self.bdp.is_told() {
            return;
        }
        let epoch = self.stations.iter().map(|record| record.share.epoch).max().unwrap_or(0);
        let counted =
            |record: &StationRecord| if record.share.epoch == epoch { record.share.bytes } else { 0 };
        let total: u64 = self.stations.iter().map(|record| u64::from(counted(record))).sum();
        let mut silent = 0.0;
        for (number, record) in self.stations.iter_mut().enumerate() {
            if total >= EPOCH_BYTES {
                record.part = f64::midpoint(record.part, f64::from(counted(record)) / total as f64);
            }
            silent += if monitor.tfp(StationId(number as u32)) { record.part } else { 0.0 };
        }
        let all: f64 = self.stations.iter().map(|record| record.part).sum();
        self.present = if silent < all { 1.0 - silent / all } else { 1.0 };
    }
}
