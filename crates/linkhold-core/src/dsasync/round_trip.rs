//! What is measured of round trips: the wired part, the radio part, and the bytes that the radio still has.
//!
//! Beside the paper (`dsasync`): the window clamp and the early opening need it. Sees what goes down and what
//! comes up; feeds [`Bdp`] and corrects the [`Pacer`].
//!
//! - **Wired part**: from an uplink packet that passes to the correspondent's answer. One probe a flow at a
//!   time. What answers is the echo of a timestamp that was new, or else the acknowledgment of bytes that
//!   were new: any ACK "answers" bytes that it has covered before. Bytes that are sent again measure nothing
//!   (Karn and Partridge 1987; RFC 6298 section 3), nor does an answer that takes more than [`PROBE_LIFE`]:
//!   then the correspondent had nothing to say, and its thinking was measured. How late answers usually are
//!   beyond the least is [`Lateness`](super::lateness::Lateness)'s.
//! - **Radio part**: from a segment that goes down to an empty radio to its ACK. One probe a flow at a time.
//!   The radio is empty if next to nothing is outstanding, or if the channel's rate says that all has been
//!   sent. For a station that was never seen so, the least time from any segment to its ACK stands in: too
//!   long by what was queued before that segment, so that the window is rather too large than too small.
//!   How long it usually takes leaves out what says nothing of the radio: a hole that is filled before the
//!   ACK comes, a segment sent again, a delayed ACK. With them it was 20 ms at a radio of 2, as much lay
//!   below as passes in that time, CoDel dropped from it, and each drop left another hole.
//! - **Outstanding**: bytes handed to the radio that stations have not acknowledged. A flow whose station
//!   says nothing for [`GONE`] though the radio works is taken to be gone: its bytes are written off. So are
//!   those of a flow whose sender had a timeout, if they keep what it sends again from going down
//!   ([`RoundTrips::counts_anew`]).
//!   Where nobody tells the rate, what lies below the highest SACK block is taken for delivered or lost,
//!   since one hop keeps the order of what it does not lose; what is sent again, by its sender or from a
//!   copy, is under way once more, and what comes back from the transmit queue is not. Else a hole would shut
//!   the gate below. For the same reason a flow's bytes are written off that its station has not acknowledged
//!   for 50 ms, though it has what went down to it later: where one of several hosts behind a station leaves,
//!   its senders' timeouts would keep the gate shut for the others.
//! - **Where nobody tells the rate**, each station has an [`Untold`] that is told what goes down, what is
//!   acknowledged and what comes up.
//!
//! A silence within a radio probe's time spoils the sample.

use core::cmp::Ordering;

use super::bdp::{self, Bdp};
use super::cell::{Cell, STALE, Sum};
use super::codel;
use super::config::{Clamp, DsaSyncConfig, Mode};
use super::flow::{Flow, Watched};
use super::min_filter::MinFilter;
use super::pacer::{AQM_TARGET, Pacer};
use super::per_station::PerStation;
use super::probes::{Answer, Departure, EMPTY_RADIO, PROBE_LIFE, RadioProbe, WiredProbe};
use super::shared::Shared;
use super::shares::{EPOCH_BYTES, Shares, Tally};
use super::unacknowledged::{AHEAD, AWAITED, HEARD, LONGEST_BELOW, Unacknowledged};
use super::untold::{Among, Limits, PATIENCE, Untold};
use super::waits::Waits;
use super::withheld::{Arrived, first_of};
use crate::link_monitor::LinkMonitor;
use crate::packet::{PacketView, StationId, TcpFlags, TcpSegment};
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Fraction, Seq};

/// A station that acknowledges nothing for this long has left, or what it has yet to acknowledge is lost. An
/// ACK is delayed by 0.5 s at most (RFC 1122 section 4.2.3.2).
const GONE: Duration = Duration::from_secs(2);

/// A flow that has waited below for longer than that for so long waits in the router's queue: half the time
/// after which CoDel begins to drop (RFC 8289 section 3.2, `INTERVAL`).
const AQM_PATIENCE: Duration = Duration::from_nanos(codel::INTERVAL.as_nanos() / 2);

/// So much of what nobody acknowledges may be below beside what a station needs there, bytes: two full
/// packets. A low rate leaves room for two, which a receiver acknowledges at once. If one of them were
/// another's, the one left would wait for the receiver's timer (RFC 1122 section 4.2.3.2), and the rate would
/// stay low.
const BESIDE: u64 = 3000;

/// No SYN is longer, bytes: headers with all their options (RFC 9293 section 3.1; RFC 8200 section 3).
const LONGEST_SYN: u32 = 100;

/// Bytes of a segment's headers without options (IPv4; those of IPv6 are longer by 20).
const HEADERS: u32 = 40;

/// A packet as it goes down.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentDown {
    /// Its TSval.
    pub tick: Option<u32>,
    /// Sequence number just after it.
    pub end: Seq,
    /// Sequence space it takes.
    pub seq_len: u32,
    /// Length on the wire, bytes.
    pub len: u32,
    /// When it came to the base station; `None` if a silence kept it here.
    pub arrived: Option<Instant>,
}

/// Measures round trips and what is in the radio.
#[derive(Debug)]
pub(super) struct RoundTrips {
    pub bdp: Bdp,
    /// Bytes in the radio that stations have not acknowledged, over all flows.
    outstanding: u64,
    /// Of those, what flows may withhold because ACKs are delayed.
    first: u64,
    stations: PerStation<Station>,
    limits: Limits,
    /// What several stations may have below together.
    cell: Cell,
    /// What is below and nobody will acknowledge.
    others: Unacknowledged,
    /// When a station last acknowledged something new or was sent something to acknowledge, and which one:
    /// what nobody acknowledges must leave it its part.
    served: Option<(Instant, StationId)>,
    /// Windows are held down by the measured rate where none is told.
    measures: bool,
    /// Nothing more goes down than the measured rate needs.
    keeps_short: bool,
    /// How much waits in the router's queue, as time at the measured rate.
    transmit_queue: Duration,
    /// The part of what the cell is sent that stations have which are not silent.
    present: f64,
    /// Stations for which packets are held.
    pub waiting: u32,
    /// The next slot whose flow is asked if its station is gone.
    hand: u32,
    /// The silences, of whatever station, and what waits for an answer across them.
    waits: Waits,
    /// Everything that went down before this time has come through or is lost, if the hop keeps the order.
    passed: Instant,
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
struct Station {
    /// Bytes that it has not acknowledged, and what of them its flows may withhold because ACKs are delayed.
    outstanding: u64,
    first: u64,
    /// Bytes that it has not acknowledged, and for which patience was lost: they may be lost themselves, and
    /// keep nothing back for a while.
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
    /// What is measured where nobody tells the rate. On the heap, because most stations have it in no run.
    untold: Option<Box<Untold>>,
    /// Smoothed time from a segment that found the radio empty to its ACK: the least time says what the radio
    /// can do, this what it does.
    usual: Option<Duration>,
    /// Least time from a segment that found the radio empty to its ACK.
    empty: MinFilter,
    /// Least time from any segment to its ACK.
    any: MinFilter,
    /// Least time from a timestamp that went down to data from the station that repeats it.
    echoed: MinFilter,
}

impl Station {
    /// Radio part of its base round trip; `None` until something of it was measured.
    fn least(&self) -> Option<Duration> {
        self.empty.get().or_else(|| self.any.get())
    }
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
            hand: 0,
            waits: Waits::default(),
            passed: Instant::ZERO,
        }
    }

    /// Radio part of the station's base round trip; `None` until something of it was measured.
    #[inline]
    pub fn radio_part(&self, station: StationId) -> Option<Duration> {
        self.stations.get(station)?.least()
    }

    /// Radio part of a round trip without a queue as it usually is, where the least is too short to plan
    /// with: ACKs that wait for each other, or for a turn.
    #[inline]
    pub fn usual_radio_part(&self, station: StationId) -> Option<Duration> {
        self.stations.get(station)?.usual.or_else(|| self.radio_part(station))
    }

    /// Radio part of a round trip that begins with an ACK and ends with data from the station. In an upload
    /// nothing else goes down that would be answered, and the handshake alone says too little. A station
    /// without timestamps has its usual one.
    #[inline]
    pub fn uplink_radio_part(&self, station: StationId) -> Option<Duration> {
        let echoed = self.stations.get(station)?.echoed.get();
        let usual = self.usual_radio_part(station)?;
        Some(echoed.map_or(usual, |echoed| echoed.min(usual)))
    }

    /// A timestamp that went down to the station came back after this time.
    pub fn on_echo(&mut self, now: Instant, station: StationId, took: Duration) {
        self.stations.at(station).echoed.add(now, took);
    }

    /// As [`radio_part`](Self::radio_part), only if the radio was empty when it was measured.
    fn measured_radio_part(&self, station: StationId) -> Option<Duration> {
        self.stations.get(station)?.empty.get()
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

    /// True if [`below_is_full`](Self::below_is_full) is `None` for every station: the rate is told, or
    /// nothing is kept short.
    #[inline]
    pub fn below_is_never_full(&self) -> bool {
        !self.keeps_short || self.bdp.is_told()
    }

    /// Until when nothing may go down to the station unless it acknowledges something first, because it has
    /// as many bytes outstanding as its rate needs; `None`: something may go now.
    #[inline(always)]
    pub fn below_is_full(&self, now: Instant, station: StationId) -> Option<Instant> {
        if self.below_is_never_full() { None } else { self.full_below(now, station).filter(|at| now < *at) }
    }

    /// As [`below_is_full`](Self::below_is_full), where nobody tells the rate; the time may have come
    /// already.
    #[inline(never)]
    fn full_below(&self, now: Instant, station: StationId) -> Option<Instant> {
        let shared = self.cell.limit();
        let Some((most, local)) = self.most_below(station) else {
            return self.full_of_others(now, station);
        };
        let untold = self.untold(station)?;
        let record = self.stations.get(station)?;
        let excused = if now < record.excused_until { record.excused } else { 0 };
        // What all stations have below together counts in the cell's limit.
        let (others, until) =
            if shared.is_none() { self.others_below(now) } else { (0, Instant::FAR_FUTURE) };
        let outstanding = record.outstanding.saturating_sub(excused);
        if outstanding + others < most || record.gone {
            return None;
        }
        let patient = self.waits.over(record.heard, PATIENCE);
        let arrived = self.arrived(record.passed, record.least().unwrap_or(local), most);
        let withheld = untold.rate.withheld(now, outstanding, record.first, arrived);
        if outstanding + others < most + withheld.bytes.saturating_sub(untold.delayed() as u64) {
            return None;
        }
        let patient = if outstanding < most { patient.min(until) } else { patient };
        Some(withheld.grows.map_or(patient, |at| patient.min(at)))
    }

    /// Most that may be outstanding at the station, and its usual local round trip; `None` before its rate is
    /// known.
    fn most_below(&self, station: StationId) -> Option<(u64, Duration)> {
        let shared = self.cell.limit();
        let fair = match (shared, self.waiting) {
            (Some(_), _) => Some(f64::INFINITY),
            (None, stations @ 2..) => {
                Some(self.bdp.carried_in(Duration::from_nanos(1)) / f64::from(stations))
            }
            (None, _) => None,
        };
        let queued = self.bdp.carried_in(self.transmit_queue);
        let untold = self.untold(station)?;
        let local = self.usual_radio_part(station)?;
        let own = untold.most_below(local, queued, fair)?;
        Some((shared.map_or(own, |cell| own.max(cell.most_of_one + untold.delayed() as u64)), local))
    }

    /// Bytes below that nobody will acknowledge, while others are heard that they could keep waiting; and the
    /// time from which they are fewer, if nothing happens until then.
    fn others_below(&self, now: Instant) -> (u64, Instant) {
        let none = (0, Instant::FAR_FUTURE);
        if self.others.below() == 0 {
            return none;
        }
        let Some((served, station)) = self.served else { return none };
        let lasts = if self.is_idle() { HEARD } else { AWAITED };
        let until = self.waits.over(served, lasts);
        if now >= until {
            return none;
        }
        let (bytes, fewer) = self.others_under_way(now, station);
        (bytes.saturating_sub(BESIDE), until.min(fewer))
    }

    /// Bytes that are thought to be below and that nobody will acknowledge, by the rate of `station`; and the
    /// time from which they are fewer, if nothing happens until then.
    fn others_under_way(&self, now: Instant, station: StationId) -> (u64, Instant) {
        if self.others.below() == 0 {
            return (0, Instant::FAR_FUTURE);
        }
        // If no acknowledgment is to come, time has to say what has passed. In a silence nothing does.
        let takes = if self.is_idle() { self.others_take(station) } else { LONGEST_BELOW };
        let aged = now - takes;
        let ended = self.waits.latest_end();
        if aged < ended {
            return (self.others.below(), ended + takes);
        }
        let next = self.others.next_after(aged).map_or(Instant::FAR_FUTURE, |at| at + takes);
        (self.others.below_since(aged), next)
    }

    /// Time in which a packet passes that nobody acknowledges: by the rate of a station that does, or by that
    /// of all stations where they share a limit.
    fn others_take(&self, station: StationId) -> Duration {
        let (most, rate, local) = if let Some(limit) = self.cell.limit() {
            (limit.most, self.cell.passes(), limit.local)
        } else {
            let slow = self.untold(station).map_or(0.0, |untold| untold.rate.rates.slow());
            let (most, local) = self.most_below(station).unwrap_or_default();
            (most, slow, local)
        };
        if most == 0 || rate <= 0.0 {
            return LONGEST_BELOW;
        }
        Duration::from_nanos((most as f64 / (rate * AHEAD)) as u64).max(local).min(LONGEST_BELOW)
    }

    /// As [`below_is_full`](Self::below_is_full) for a station whose rate is not known: what nobody will
    /// acknowledge may go there while the station that was served last may be sent something.
    fn full_of_others(&self, now: Instant, station: StationId) -> Option<Instant> {
        let (others, until) = self.others_below(now);
        let (_, served) = self.served?;
        if others == 0 || self.is_shared() || served == station {
            return None;
        }
        Some(self.full_below(now, served)?.min(until))
    }

    /// True if the station has as many bytes outstanding as its rate needs, however long ago it was heard.
    #[inline]
    fn has_all_below(&self, now: Instant, station: StationId) -> bool {
        !self.below_is_never_full() && self.full_below(now, station).is_some()
    }

    /// What is taken for arrived of what went down, if `most` bytes may be outstanding and a round trip
    /// without a queue takes `local`. The last of so many bytes arrives when all of them have passed.
    fn arrived(&self, passed: Instant, local: Duration, most: u64) -> Arrived {
        let passes = self.bdp.passes_in(most).unwrap_or(PATIENCE);
        Arrived { passed, takes: local + passes, since: self.waits.latest_end() }
    }

    /// Until when nothing may go down to any station unless one acknowledges something first, because all of
    /// them together have as many bytes outstanding as their rates need; `None`: the cell's limit keeps
    /// nothing back.
    #[inline(always)]
    pub fn cell_is_full(&self, now: Instant) -> Option<Instant> {
        if self.is_shared() { self.full_cell(now) } else { None }
    }

    /// True if several stations have traffic whose rate nobody tells.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.cell.limit().is_some()
    }

    /// As [`cell_is_full`](Self::cell_is_full), where several stations have traffic.
    #[inline(never)]
    fn full_cell(&self, now: Instant) -> Option<Instant> {
        if self.below_is_never_full() {
            return None;
        }
        let (others, until) = self.others_below(now);
        if !self.cell.is_full(self.outstanding + others) {
            return None;
        }
        let patient = self.waits.over(self.cell.heard, PATIENCE);
        if now >= patient {
            return None;
        }
        let limit = self.cell.limit()?;
        let arrived = self.arrived(self.passed, limit.local, limit.most);
        let withheld = self.cell.withheld(now, self.outstanding, self.first, arrived);
        let counted = self.outstanding.saturating_sub(withheld.bytes);
        if !self.cell.is_full(counted + others) {
            return None;
        }
        let patient = if self.cell.is_full(self.outstanding) { patient } else { patient.min(until) };
        Some(withheld.grows.map_or(patient, |at| patient.min(at)))
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
        self.bdp.clamp(wired, radio, flow.handshake.mss, flows * present)
    }

    /// The window of a flow by the rate that was measured, bytes; `None` where it is told, or not known yet.
    pub fn measured_window(&self, flow: &Flow, wired: Duration) -> Option<u32> {
        let local = self.usual_radio_part(flow.station)?;
        let among = match self.cell.limit() {
            Some(limit) => Among::Stations(limit),
            None if self.others.below() == 0 => Among::Alone,
            None => Among::Others { most: self.most_below(flow.station)?.0 },
        };
        self.untold(flow.station)?.window(wired, local, flow.handshake.mss, among)
    }

    /// True if the flow is held down by the measured rate, and its sender keeps to the window. When such a
    /// rate falls, what is under way waits for as long as it has to: a loss would only make the sender slower
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

    /// A silence begins or ends: what is measured across it says nothing.
    pub fn interrupt(&mut self, now: Instant) {
        self.bdp.restart_bin(now, self.outstanding);
        self.interrupt_untold(now);
    }

    /// A silence begins or ends, or what was withheld may go down: no rate is measured across that.
    pub fn interrupt_untold(&mut self, now: Instant) {
        if self.measures && !self.bdp.is_told() {
            if let Some(total) = self.cell.total_mut() {
                total.interrupt(now);
            }
            for station in self.stations.iter_mut() {
                if let Some(untold) = &mut station.untold {
                    untold.interrupt(now);
                }
            }
        }
    }

    /// The channel's rate and efficiency became known or changed; a rate of zero: no longer known.
    pub fn set_capacity(&mut self, capacity: BitRate, efficiency: Fraction) {
        self.bdp.set_capacity(capacity, efficiency);
        // Where the rate is told, nobody counts them.
        self.others.forget();
    }

    /// A silence begins: nobody can acknowledge anything in it.
    pub fn silence_began(&mut self, now: Instant) {
        self.waits.silence_began(now);
    }

    /// A silence is over.
    pub fn silence_ended(&mut self, now: Instant) {
        self.waits.silence_ended(now);
    }

    /// Looks at the next flow, in slot order: at one for each uplink packet, so that every flow is looked at
    /// again and again and no packet costs more than another. Writes off the flow's outstanding bytes if its
    /// station is gone, or if they cannot be below any more.
    #[inline]
    fn look_for_gone(&mut self, now: Instant, shared: &mut Shared) {
        let slot = self.hand;
        self.hand = if slot + 1 >= shared.flows.slot_count() { 0 } else { slot + 1 };
        let Some(flow) = shared.flows.get(slot) else { return };
        if flow.outstanding() > 0 && !shared.monitor.tfp(flow.station) {
            let gone = now > self.waits.over(flow.heard, GONE);
            if gone || self.has_passed(now, flow) {
                self.write_off(shared.flows.at(slot), gone);
            }
        }
    }

    /// True if the flow's station has acknowledged what went down after all of the flow's segments, but none
    /// of those.
    #[inline]
    fn has_passed(&self, now: Instant, flow: &Flow) -> bool {
        if self.bdp.is_told() {
            return false;
        }
        // What went down while the rate was told is not watched.
        let (sent, progressed) =
            flow.watched.as_ref().map_or((flow.heard, flow.heard), |it| (it.sent, it.progressed));
        let passed = self.stations.get(flow.station).is_some_and(|record| record.passed > sent);
        passed && now > self.waits.over(sent.max(progressed), STALE)
    }

    /// Writes off the flow's outstanding bytes; `gone`: its station is taken to have left too.
    #[cold]
    fn write_off(&mut self, flow: &mut Flow, gone: bool) {
        let _ = self.account(flow, Flow::write_off);
        self.stations.at(flow.station).gone |= gone;
    }

    /// Changes a flow so that its outstanding bytes may change, and keeps the sum. Answers the bytes before
    /// and after.
    #[inline]
    fn account(&mut self, flow: &mut Flow, change: impl FnOnce(&mut Flow)) -> (u64, u64) {
        let before = flow.outstanding();
        change(flow);
        let after = flow.outstanding();
        self.outstanding = self.outstanding + after - before;
        // A flow may have moved to another station, and a station's number may have gone to another.
        let (old, bytes) = flow.booked;
        let booked = u32::try_from(after).unwrap_or(u32::MAX);
        if old != flow.station || bytes != booked {
            self.unbook(old, bytes);
            let to = self.stations.at(flow.station);
            to.outstanding += u64::from(booked);
            to.excused = to.excused.min(to.outstanding);
            to.first += first_of(booked);
            self.first += first_of(booked);
            if to.aside {
                self.cell.put_aside(u64::from(booked));
            }
            flow.booked = (flow.station, booked);
        }
        (before, after)
    }

    /// Bytes that were booked for a station are outstanding there no more.
    #[inline]
    fn unbook(&mut self, station: StationId, bytes: u32) {
        let record = self.stations.at(station);
        record.outstanding = record.outstanding.saturating_sub(u64::from(bytes));
        record.first = record.first.saturating_sub(first_of(bytes));
        self.first -= first_of(bytes);
        if record.aside {
            self.cell.take_back(u64::from(bytes));
        }
    }

    /// A segment came from the correspondent.
    #[inline]
    pub fn on_arrival(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
        if tcp.flags.contains(TcpFlags::SYN) {
            self.on_syn(now, flow, tcp);
        } else if flow.on_downlink(tcp) {
            answer_wired(now, flow, tcp);
        }
    }

    #[cold]
    fn on_syn(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
        let mut believed = true;
        // A connection that starts anew on its ports has nothing in the radio.
        self.account(flow, |flow| believed = flow.on_downlink(tcp));
        if believed {
            answer_wired(now, flow, tcp);
        }
    }

    /// A downlink packet goes to the transmit queue, where it is thought to wait for `ahead`.
    #[inline]
    pub fn on_sent(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        sent: &SentDown,
        ahead: Duration,
    ) {
        let flow = shared.flows.at(slot);
        let told = self.bdp.is_told();
        if flow.is_answered() && (told || self.measures) {
            let record = self.stations.at(flow.station);
            if told {
                record.flows.add(now, sent.len, &mut flow.share);
            }
            self.bdp.on_sent(now, sent.len, &mut record.share);
        }
        let was_sent = flow.was_sent(sent.end);
        // A segment beyond all that was learned of is one that was not believed.
        if sent.seq_len == 0 || was_sent || flow.down_max.is_none_or(|highest| sent.end.after(highest)) {
            if flow.is_owed(sent.end) {
                self.on_sent_again(now, flow, sent.end, sent.seq_len);
                // Karn, and what else is under way may be acknowledged together with it.
                flow.radio_probe = None;
            } else if sent.seq_len > 0 || !flow.is_answered() {
                self.on_sent_beside(now, sent);
            }
            return;
        }
        let told_empty = told && ahead.is_zero();
        let is_clear = self.is_clear_of_others(now);
        let empty = told_empty || (self.outstanding <= EMPTY_RADIO && is_clear);
        let station = flow.station;
        let under_way = self.stations.get(station).map_or(0, |record| record.outstanding);
        let below_was_full = self.below_is_full(now, station).is_some();
        if !below_was_full && self.has_all_below(now, station) {
            // Patience is lost: as much goes down as should lie there, and not all that is held.
            let record = self.stations.at(station);
            (record.excused, record.excused_until) = (record.outstanding, now + PATIENCE);
            record.heard = now;
        }
        let cell_was_full = self.cell_is_full(now).is_some();
        if !told {
            self.measure_sent(now, flow, sent, under_way);
        }
        // With sequence numbers from nowhere, half the space away, fewer may be outstanding than before.
        let (before, _) = self.account(flow, |flow| flow.down_sent = Some(sent.end));
        if flow.acked.is_none() {
            self.on_sent_beside(now, sent);
        }
        if before == 0 {
            // The time that its station has to answer begins now.
            flow.heard = now;
            if let Some(watched) = &mut flow.watched {
                watched.progressed = now;
            }
        }
        if under_way == 0 || (!below_was_full && self.below_is_full(now, station).is_some()) {
            // The time that is waited for the station begins with the first segment, and anew with one that
            // reaches the limit.
            self.stations.at(station).heard = now;
        }
        if !cell_was_full && self.cell.is_full(self.outstanding) {
            self.cell.heard = now;
        }
        let departure = Departure::new(now, sent.end, ahead);
        let silences = shared.monitor.silences();
        match &mut flow.radio_probe {
            Some(old) if old.silences == silences && (old.empty || !empty) => {
                // What follows a segment that found the radio empty finds what came in between.
                if old.next.is_none() && (is_clear || !old.empty) {
                    old.next = Some(departure);
                }
            }
            // A probe with a silence in its time is of no use: this segment takes its place.
            probe => {
                let full = flow.handshake.mss + HEADERS;
                let shorter = full.saturating_sub(sent.len);
                *probe = Some(RadioProbe::new(empty, silences, sent.arrived, departure, shorter));
            }
        }
    }

    /// A segment goes down that adds nothing to what its station has to acknowledge. A SYN does not count:
    /// the connection that it begins will be heard.
    #[inline]
    fn on_sent_beside(&mut self, now: Instant, sent: &SentDown) {
        let is_syn = sent.seq_len == 1 && sent.len <= LONGEST_SYN;
        if !is_syn {
            self.on_unacknowledged(now, if sent.seq_len > 0 { sent.seq_len } else { sent.len });
        }
    }

    /// `bytes` go down that nobody will acknowledge.
    #[inline]
    pub fn on_unacknowledged(&mut self, now: Instant, bytes: u32) {
        if self.measures && !self.below_is_never_full() {
            self.others.on_sent(now, u64::from(bytes));
        }
    }

    /// `bytes` that nobody will acknowledge came back from the transmit queue.
    pub fn on_unacknowledged_back(&mut self, bytes: u32) {
        self.others.taken_back(u64::from(bytes));
    }

    /// True if something goes down that nobody will acknowledge, and shares what a station may have there.
    #[inline]
    pub fn counts_others(&self, now: Instant) -> bool {
        self.others.went_down_since(now, AWAITED) && !self.is_shared()
    }

    /// True if of what nobody will acknowledge next to nothing is below.
    #[inline]
    fn is_clear_of_others(&self, now: Instant) -> bool {
        self.others.below() <= EMPTY_RADIO || !self.others.went_down_since(now, AWAITED)
    }

    /// A segment was held though the radio works. True if what lies below counts anew from now on: the sender
    /// sends again what its station has not acknowledged, nor anything else on the connection for
    /// [`PATIENCE`]. Then a timer of the sender has expired, and all that is outstanding is taken to be lost,
    /// as the sender itself takes it (RFC 5681 section 3.1: it starts again with one segment under way),
    /// until what it had sent by then is acknowledged (RFC 6582 section 3.2, `recover`).
    ///
    /// Else what is lost would keep the gate shut, and what is sent again would wait behind all that its
    /// connection has here, one packet each [`PATIENCE`]. A station that reports a hole opens the gate
    /// itself, but not every station does. Where the station was merely away, each timeout lets no more go
    /// down than should lie there.
    #[inline]
    pub fn counts_anew(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) -> bool {
        !self.below_is_never_full() && self.repairs(now, flow, tcp)
    }

    /// As [`counts_anew`](Self::counts_anew), where the gate below may be shut.
    #[inline(never)]
    fn repairs(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) -> bool {
        let Some(acked) = flow.acked.filter(|&acked| tcp.seq_end().after(acked)) else { return false };
        let is_again = tcp.seq_len() > 0 && flow.was_sent(tcp.seq_end());
        if !is_again || flow.outstanding() == 0 || self.untold(flow.station).is_none() {
            return false;
        }
        let newest = flow.down_max;
        let Some(watched) = &mut flow.watched else { return false };
        if now > self.waits.over(watched.progressed, PATIENCE) {
            watched.repairs_to = newest;
        }
        let repairs = watched.repairs_to.is_some_and(|end| end.after(acked));
        if repairs {
            self.account(flow, Flow::write_off);
        }
        repairs
    }

    /// Tells the measurement of the untold rate that a segment goes down; `under_way`: the station's
    /// outstanding bytes before it.
    #[inline(never)]
    fn measure_sent(&mut self, now: Instant, flow: &mut Flow, sent: &SentDown, under_way: u64) {
        let local = self.usual_radio_part(flow.station).unwrap_or_default();
        let bytes = flow.down_sent.map_or(0, |highest| u64::try_from(sent.end.minus(highest)).unwrap_or(0));
        self.cell.on_sent(now, bytes);
        let (others, _) = self.others_under_way(now, flow.station);
        let begins = under_way == 0 && !self.others.went_down_since(now, LONGEST_BELOW);
        if begins {
            self.others.begin_sample();
        }
        self.measure_cell_sent(now, bytes, others, local);
        let Some(untold) = self.untold_at(flow.station) else { return };
        if begins {
            untold.rate.begin_sample(now);
        }
        untold.rate.on_sent(now, bytes, untold.under_way(under_way, others, local));
        flow.watched
            .get_or_insert_with(|| Box::new(Watched { progressed: now, ..Watched::default() }))
            .sent = now;
        if flow.is_answered() {
            untold.shares.add(now, sent.len, &mut flow.share);
        }
    }

    /// As [`measure_sent`](Self::measure_sent), for all stations together; `others`: bytes below that nobody
    /// will acknowledge.
    #[inline]
    fn measure_cell_sent(&mut self, now: Instant, bytes: u64, others: u64, local: Duration) {
        if self.stations.len() < 2 || self.bdp.is_told() || !self.measures {
            return;
        }
        let begins = self.outstanding == 0 && !self.others.went_down_since(now, LONGEST_BELOW);
        let under_way = self.cell.under_way(self.outstanding, self.first, others, local);
        let limits = self.limits;
        let total = self.cell.total_or(|| limits.rate());
        if begins {
            total.begin_sample(now);
        }
        total.on_sent(now, bytes, under_way);
    }

    /// The station acknowledged something new: what nobody acknowledges and went down before that has passed.
    /// Answers its bytes, as far as they count in the present sample.
    #[inline]
    fn pass_others(&mut self, now: Instant, flow: &mut Flow) -> u64 {
        let station = flow.station;
        self.served = Some((now, station));
        let (acked, watched) = (flow.acked, flow.watched.as_mut());
        // A segment that was sent again is known by its first departure otherwise.
        let again = watched.and_then(|watched| {
            watched.again.take_if(|(end, _)| acked.is_some_and(|acked| !acked.before(*end)))
        });
        if self.others.below() == 0 {
            return 0;
        }
        let Some(record) = self.stations.get(station) else { return 0 };
        let Some(untold) = &record.untold else { return 0 };
        let first = untold.rate.passed(record.outstanding);
        first.max(again.map(|(_, at)| at)).map_or(0, |passed| self.others.pass(passed))
    }

    /// The pace at which held packets leave; `beside`: bytes that passed and nobody acknowledged. Those are
    /// in the rate of the station, or of all that share a limit, and not in the pace that acknowledgments
    /// make.
    fn pace(&self, beside: u64, station: StationId) -> Option<BitRate> {
        let acked = self.bdp.pace();
        let rate = if self.is_shared() {
            Some(self.cell.passes())
        } else {
            let own = self.untold(station).filter(|untold| untold.rate.is_filled());
            own.map(|untold| untold.rate.rates.slow())
        };
        let all = rate.filter(|&rate| beside > 0 && rate > 0.0).map(bdp::pace_of);
        acked.max(all)
    }

    /// Tells the measurement that the station acknowledged `delivered` bytes, and that `beside` more passed
    /// that nobody acknowledges; `here`: what of its packets still waits here.
    #[inline(never)]
    fn measure_acked(&mut self, now: Instant, station: StationId, delivered: u64, beside: u64, here: Here) {
        let left = self.stations.get(station).map_or(0, |record| record.outstanding);
        let local = self.usual_radio_part(station).unwrap_or_default();
        let (others, _) = self.others_under_way(now, station);
        if self.cell.total_mut().is_some() {
            let mut of_all = self.cell.under_way(self.outstanding, self.first, others, local);
            of_all.dry &= here == Here::Nothing && self.waiting == 0;
            if let Some(total) = self.cell.total_mut() {
                total.on_acked(now, delivered, beside, of_all);
            }
        }
        let Some(untold) = self.untold_at(station) else { return };
        let mut under_way = untold.under_way(left, others, local);
        under_way.dry &= here == Here::Nothing;
        untold.rate.on_acked(now, delivered, beside, under_way);
        untold.look(now, under_way.dry);
    }

    /// A packet that had been sent down came back: its flow's probe is void, and where nobody tells the rate
    /// it is not below any more.
    pub fn on_taken_back(&mut self, flow: &mut Flow, tcp: &TcpSegment) {
        flow.radio_probe = None;
        if flow.acked.is_none() {
            self.on_unacknowledged_back(tcp.seq_len());
        }
        let was_sent = flow.was_sent(tcp.seq_end());
        let is_out = flow.acked.is_some_and(|acked| !tcp.seq.before(acked));
        if !self.bdp.is_told() && was_sent && is_out {
            let _ = self.account(flow, |flow| flow.taken_back(tcp.seq_len()));
        }
    }

    /// A segment came from the station. False if it is not believed.
    #[inline]
    pub fn on_uplink(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        here: Here,
        pacer: &mut Pacer,
    ) -> bool {
        let silent = shared.monitor.tfp(packet.station);
        self.look_for_gone(now, shared);
        let flow = shared.flows.at(slot);
        let mut believed = true;
        let told = self.bdp.is_told();
        let (before, after) = self.account(flow, |flow| {
            believed = flow.on_uplink(packet.tcp);
            if !told && believed {
                flow.pass_holes(packet.tcp);
            }
        });
        if !believed {
            return false;
        }
        flow.heard = now;
        if let (Some(watched), Some(acked)) = (&mut flow.watched, flow.acked) {
            // Half the sequence space further on it would lie ahead again.
            watched.repairs_to.take_if(|end| !end.after(acked));
        }
        let record = self.stations.at(packet.station);
        let lost = if told { 0 } else { flow.lost };
        let delivered = before.saturating_sub(after).saturating_sub(u64::from(lost));
        if delivered > 0 {
            (record.heard, record.gone) = (now, false);
            self.cell.heard = now;
            if let Some(watched) = &mut flow.watched {
                watched.progressed = now;
            }
        }
        if delivered > 0 && !self.below_is_never_full() {
            self.set_aside(packet.station, false);
            self.look_at_cell(now);
        }
        let beside = if delivered > 0 && !told { self.pass_others(now, flow) } else { 0 };
        // What comes up while nothing may go down says nothing of the rate.
        if !silent && here != Here::Withheld && !self.bdp.is_told() {
            self.measure_acked(now, packet.station, delivered, beside, here);
        }
        if !silent
            && (self.bdp.on_delivered(now, delivered, self.outstanding) || beside > 0)
            && let Some(pace) = self.pace(beside, packet.station)
        {
            pacer.set_rate(now, pace, false);
        }
        if !silent && here == Here::Held && delivered > 0 && !told && self.outstanding <= EMPTY_RADIO {
            pacer.hurry(now);
        }
        let (Some(probe), Some(acked)) = (&flow.radio_probe, flow.acked) else { return true };
        if acked.before(probe.first.end) {
            // Behind a hole a segment is acknowledged when the hole is filled.
            if !packet.tcp.sack.is_empty() {
                flow.radio_probe = None;
            }
            return true;
        }
        let newest = probe.next.filter(|next| !acked.before(next.end)).unwrap_or(probe.first);
        let record = self.stations.at(packet.station);
        record.passed = record.passed.max(newest.at);
        self.passed = self.passed.max(newest.at);
        if !silent && probe.silences == shared.monitor.silences() {
            // A full segment would have taken longer, and windows are made of those.
            let shorter = self.bdp.takes(probe.shorter);
            let part = self.stations.at(packet.station);
            let took = now.since(probe.first.at) + shorter;
            part.any.add(now, took);
            if probe.empty {
                part.empty.add(now, took);
                // A segment that nothing followed may have waited for the station's delayed ACK, and one that
                // another followed late did.
                if probe.next.is_some() {
                    let took = now.since(newest.at);
                    let usual = part.usual.unwrap_or(took).as_nanos();
                    part.usual = Some(Duration::from_nanos(usual - usual / 8 + took.as_nanos() / 8));
                }
            }
            if let Some(answered) = probe.answered(acked)
                && let Some(radio) = self.measured_radio_part(packet.station)
            {
                let waited = now.since(answered.at).saturating_sub(radio);
                pacer.on_waited(now, answered.at, answered.ahead(), waited);
                let is_long = waited.saturating_sub(answered.ahead()) > AQM_TARGET;
                flow.waits_since = if is_long { flow.waits_since.min(now) } else { Instant::FAR_FUTURE };
                if waits_in_router(now, flow, pacer) {
                    pacer.shorten(now);
                }
            }
            if let Some(arrived) = probe.arrived() {
                self.bdp.on_radio_time(now, now.since(arrived) + shorter);
            }
        }
        flow.radio_probe = None;
        true
    }

    /// What had gone down goes down again: sent again by its sender, from a copy, or after it came back.
    pub fn on_sent_again(&mut self, now: Instant, flow: &mut Flow, end: Seq, bytes: u32) {
        if !self.bdp.is_told() {
            let _ = self.account(flow, |flow| flow.sent_again(bytes));
            if !self.stations.at(flow.station).gone {
                self.served = Some((now, flow.station));
            }
            if let Some(total) = self.cell.total_mut() {
                total.on_sent_again(bytes);
            }
            if let Some(untold) = self.untold_at(flow.station) {
                untold.rate.on_sent_again(bytes);
            }
            if let Some(watched) = &mut flow.watched {
                watched.sent = now;
                watched.again.get_or_insert((end, now));
            }
        }
    }

    /// A station falls silent: what lies below for it leaves the cell's limit at once, since it acknowledges
    /// nothing now. Else the others would be sent nothing, once they have acknowledged all of theirs, until
    /// [`PATIENCE`] is lost: who is set aside is looked at when something is acknowledged. It counts again
    /// when the station acknowledges something.
    pub fn station_fell_silent(&mut self, station: StationId) {
        if !self.below_is_never_full() {
            self.set_aside(station, true);
        }
    }

    /// A silence of a station begins or ends: works out anew what part the others have, where the rate is
    /// told. Where it is not, windows are made by rates that were measured, and a larger part for the others
    /// added nothing but delay. If all are silent, nobody can use what is left.
    pub fn share_anew(&mut self, monitor: &LinkMonitor) {
        if !self.bdp.is_told() {
            return;
        }
        let epoch = self.stations.iter().map(|record| record.share.epoch).max().unwrap_or(0);
        let counted = |record: &Station| if record.share.epoch == epoch { record.share.bytes } else { 0 };
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

    /// Takes the station's outstanding bytes out of the cell's limit (`aside`), or counts them again.
    fn set_aside(&mut self, station: StationId, aside: bool) {
        let record = self.stations.at(station);
        if record.aside != aside {
            record.aside = aside;
            if aside {
                self.cell.put_aside(record.outstanding);
            } else {
                self.cell.take_back(record.outstanding);
            }
        }
    }

    /// Looks whether the next station, by number, is to be set aside, and from time to time works out anew
    /// what all stations need below.
    #[inline(never)]
    fn look_at_cell(&mut self, now: Instant) {
        let ended = self.waits.latest_end();
        if let Some(number) = self.cell.next(self.stations.len()) {
            let station = StationId(number);
            let record = self.stations.at(station);
            if record.outstanding > 0 && !record.aside && Cell::is_stale(now, record.heard.max(ended)) {
                self.set_aside(station, true);
            }
        }
        if !self.cell.is_due(now) {
            return;
        }
        let mut sum = Sum::NONE;
        for record in self.stations.iter() {
            let local = record.usual.or_else(|| record.least());
            let active = Cell::is_active(now, record.outstanding, record.heard.max(ended));
            if let Some(untold) = &record.untold
                && let (Some(needs), Some(local), true) = (untold.needs(), local, active)
            {
                sum.add(needs, local);
            }
        }
        self.cell.set(&sum, self.bdp.carried_in(self.transmit_queue), self.bdp.stations());
    }

    /// The station's number goes to another, to which nothing of what lies below is counted.
    pub fn forget_station(&mut self, shared: &mut Shared, station: StationId) {
        for slot in 0..shared.flows.slot_count() {
            if shared.flows.get(slot).is_some_and(|flow| flow.booked.0 == station && flow.booked.1 > 0) {
                self.write_off(shared.flows.at(slot), false);
            }
        }
        self.set_aside(station, false);
        self.stations.forget(station);
    }

    /// The flow leaves the table.
    pub fn forget(&mut self, flow: &Flow) {
        self.outstanding -= flow.outstanding();
        let (station, bytes) = flow.booked;
        self.unbook(station, bytes);
    }
}

/// True if the flow's segments have long waited below for longer than was thought, and others have not. They
/// share one queue of a router with fair queueing: two flows whose hash is the same (RFC 8290 section 6.1)
/// get the turns of one, and all that waits below waits there. What is lost of them may be the router's word
/// of congestion.
#[inline]
pub(super) fn waits_in_router(now: Instant, flow: &Flow, pacer: &Pacer) -> bool {
    now > flow.waits_since + AQM_PATIENCE && pacer.some_do_not_wait()
}

/// Starts measuring the wired round trip with an uplink segment that passes now.
#[inline]
pub(super) fn probe_wired(now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
    if let Some(old) = &flow.wired_probe {
        // Karn: what is sent again, or after what was sent again, cannot tell which copy was answered.
        let again = matches!(old.answer, Answer::Sequence(_)) && tcp.seq_len() > 0 && !flow.sends_new;
        if again {
            flow.wired_probe = None;
            return;
        }
        if now.since(old.at) <= PROBE_LIFE {
            return;
        }
    }
    let answer = if let Some(timestamp) = tcp.timestamp.filter(|_| flow.new_tick) {
        // Only the first segment of a timestamp tick: answers to the others look the same.
        Answer::Timestamp(timestamp.value)
    } else if tcp.seq_len() > 0 && flow.sends_new {
        Answer::Sequence(tcp.seq_end())
    } else {
        return;
    };
    flow.wired_probe = Some(WiredProbe { at: now, answer, edge: flow.told_edge });
}

/// Takes the sample if the segment from the correspondent is the answer.
#[inline]
fn answer_wired(now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
    let Some(probe) = flow.wired_probe else { return };
    let answered = match probe.answer {
        Answer::Timestamp(value) => {
            // Only a segment that this very ACK set off: one that echoes a later tick says nothing of it.
            let Some(timestamp) = tcp.timestamp else { return };
            let order = timestamp.echo_against(value);
            if order == Ordering::Greater {
                flow.wired_probe = None;
            }
            order == Ordering::Equal
        }
        Answer::Sequence(end) => tcp.flags.contains(TcpFlags::ACK) && !tcp.ack.before(end),
    };
    if answered {
        flow.wired_probe = None;
        if now.since(probe.at) <= PROBE_LIFE {
            let took = now.since(probe.at);
            flow.wired.add(now, took);
            note_lateness(flow, &probe, tcp, took);
        }
    }
}

/// Takes the sample for a lateness if the sender waited for the window: what it sends then ends just below
/// the edge. A delayed ACK may answer bytes, so only a timestamp counts.
#[inline]
fn note_lateness(flow: &mut Flow, probe: &WiredProbe, tcp: &TcpSegment, took: Duration) {
    let (Some(edge), Some(least), Answer::Timestamp(_)) = (probe.edge, flow.wired.get(), probe.answer) else {
        return;
    };
    if tcp.payload_len > 0 && flow.handshake.ends_at(tcp.seq_end(), edge) {
        flow.late.add(took, least);
    }
}
