//! What goes down: what is held, and when it leaves (Algorithms 1 and 2, the queues).
//!
//! Paper: `dsasync` section IV-B a, Algorithms 1 (line 9) and 2 (lines 6 to 10). Sees downlink packets; emits
//! `Hold`, `Drop` and `Discard`, and answers what may leave now. A [`HoldBuffer`] keeps the packets; a
//! [`Pacer`] says when the next may leave.
//!
//! Deviations: Algorithm 2 runs on "a sufficiently frequent timer" and moves a packet of each station a turn;
//! here a packet leaves when there is room, as told by the driver or else by the pace, so that a release
//! never overflows the queue it feeds.
//!
//! What the paper does not say is what becomes of a packet that does not fit into B_alloc. With
//! [`Queues::Station`] (the preset `paper`) it is dropped. With [`Queues::Flow`] the longest queue of the
//! station that has most here loses its first packets instead, unless the packet would go to that queue; a
//! flow that has more than its quota here gets its packets dropped; and a queue that stands outside silences
//! is cut ([`codel`](super::codel)).

use core::cell::Cell;

use super::config::{DsaSyncConfig, Duplicates, Queues};
use super::flow::{Flow, Transport};
use super::gates::Gates;
use super::held::{Arrived, HeldSegment, IN_SILENCE, NONE};
use super::hold_buffer::{Among, HoldBuffer};
use super::pacer::Pacer;
use super::probes::SentDown;
use super::round_trip::RoundTrips;
use super::shared::Shared;
use crate::action::{Actions, DropReason, Verdict};
use crate::packet::{Origin, PacketId, PacketView, StationId, TcpFlags};
use crate::time::Instant;
use crate::units::Seq;

/// Most packets of other flows dropped for one arrival, and most dropped by CoDel in one call: a hostile
/// packet must not cost more work than this.
pub(super) const MOST_DROPS: u32 = 64;

/// All flows that a station has not answered share a queue, whose quota is a flow's divided by this. Before
/// its first answer a flow sends no more than an initial window.
pub(super) const COMMON_PART: u64 = 8;

/// SYNs of such flows have a queue beside that one, with a quarter of its quota: room for 2,000 by
/// default, and for fewer while not all of B_alloc is allotted.
pub(super) const OPENING_PART: u64 = 4 * COMMON_PART;

/// A held packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub packet: PacketId,
    /// Its flow.
    pub slot: u32,
    pub transport: Transport,
    /// Its ACK number and window field, if it has them.
    pub tells: Option<(Seq, u16)>,
    /// It has payload that may be sent again.
    pub is_data: bool,
    /// How it goes down, or why it is dropped.
    pub sent: Result<SentDown, DropReason>,
}

/// Held downlink packets and the pace at which they leave.
#[derive(Debug)]
pub(super) struct Downlink {
    pub(super) buffer: HoldBuffer,
    pub pacer: Pacer,
    /// When the first of the stations that have enough outstanding is sent something all the same.
    pub(super) patient: Instant,
    /// The last release ended because of [`MOST_DROPS`]: there may be more to drop, or to release.
    pub unfinished: bool,
    /// Flows that [`hold`](Self::hold) took packets from to make room. Its memory is kept.
    pub cut: Vec<u32>,
}

impl Downlink {
    pub fn new(config: &DsaSyncConfig) -> Self {
        Self {
            buffer: HoldBuffer::new(config),
            pacer: Pacer::new(config.assumed_capacity, config.transmit_queue),
            patient: Instant::FAR_FUTURE,
            unfinished: false,
            cut: Vec::new(),
        }
    }

    /// Packets held.
    pub fn packets(&self) -> u32 {
        self.buffer.packets()
    }

    /// Stations of which packets are held.
    pub fn stations(&self) -> u32 {
        self.buffer.stations()
    }

    /// True while packets of the station are held.
    pub fn has(&self, station: StationId) -> bool {
        self.buffer.has(station)
    }

    /// True if an arrival has to wait though the radio works: behind packets of its own flow, or the flow
    /// would be reordered; behind whoever waits for a turn; or because the transmit queue holds enough. The
    /// paper has it wait behind packets of its station only.
    #[inline]
    pub fn must_wait(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        gates: &Gates,
        slot: u32,
        packet: &PacketView<'_>,
    ) -> bool {
        let station = packet.station;
        if self.pacer.must_wait(now) {
            return true;
        }
        let full = round_trips.below_is_full(now, station).or_else(|| round_trips.cell_is_full(now));
        if let Some(at) = full {
            // What is sent again adds nothing to what is under way, and may be what its station waits for,
            // unless the station has it. Nor does an ACK without data that the station waits for. Kept here,
            // ACKs of uploads went down all at once when the gate opened, before the data, which then found
            // no turn until the next ones were here.
            let flow = shared.flows.known(slot);
            let adds_nothing = match (flow.transport, packet.tcp.seq_len()) {
                (Transport::Tcp, 0) => flow.owes_ack(),
                (Transport::Tcp, _) => flow.may_repeat(packet.tcp.seq_end()),
                (Transport::Udp, _) => false,
            };
            if flow.held > 0 || !adds_nothing {
                self.patient = self.patient.min(at);
                return true;
            }
        }
        if self.buffer.packets() == 0 {
            return false;
        }
        match shared.config.queues {
            // A flow may hold packets under the number that its station had before.
            Queues::Station => shared.flows.at(slot).held > 0 || self.buffer.has(station),
            Queues::Flow => shared.flows.at(slot).held > 0 || self.settle(now, shared, round_trips, gates),
        }
    }

    /// Brings a station that may be sent something to the front. False if there is none.
    #[inline(always)]
    fn settle(&mut self, now: Instant, shared: &Shared, round_trips: &RoundTrips, gates: &Gates) -> bool {
        // Usually nobody has to wait, and the first in turn is served.
        let all_may = !shared.monitor.any_tfp() && gates.are_open() && round_trips.below_is_never_full();
        (all_may && self.buffer.first_has_turn()) || self.look_for_station(now, shared, round_trips, gates)
    }

    /// Goes through the ring for a station that may be sent something.
    #[inline(never)]
    fn look_for_station(
        &mut self,
        now: Instant,
        shared: &Shared,
        round_trips: &RoundTrips,
        gates: &Gates,
    ) -> bool {
        let patient = Cell::new(self.patient);
        let found = self.buffer.settle(|station| {
            shared.monitor.tfp(station)
                || gates.is_shut(station)
                || round_trips.below_is_full(now, station).is_some_and(|at| {
                    patient.set(patient.get().min(at));
                    true
                })
        });
        self.patient = patient.get();
        found
    }

    /// True if all stations together have as much outstanding as they may; notes in `patient` until when.
    #[inline]
    fn waits_for_cell(&mut self, now: Instant, round_trips: &RoundTrips) -> bool {
        let full = round_trips.cell_is_full(now);
        if let Some(at) = full {
            self.patient = self.patient.min(at);
        }
        full.is_some()
    }

    /// The station acknowledged something, so it may be sent something again. True if held packets may leave
    /// now.
    #[inline]
    pub fn relieve(&mut self, now: Instant, round_trips: &RoundTrips, station: StationId) -> bool {
        if self.patient == Instant::FAR_FUTURE {
            return false;
        }
        if round_trips.counts_others(now) {
            // What this station acknowledged made room also for what nobody acknowledges.
            self.buffer.unblock();
            return self.packets() > 0;
        }
        let relieved = self.has(station) && round_trips.below_is_full(now, station).is_none();
        if relieved {
            self.buffer.unblock_one(station);
        }
        relieved || (self.packets() > 0 && round_trips.is_shared())
    }

    /// Once `patient` has come, gives the blocked stations a turn again, whatever they have outstanding.
    pub fn lose_patience(&mut self, now: Instant) {
        if self.patient <= now {
            self.patient = Instant::FAR_FUTURE;
            self.buffer.unblock();
        }
    }

    /// Algorithm 1 line 9.
    #[inline]
    pub fn hold(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        let arrival = packet.origin == Origin::Arrival;
        let flow = shared.flows.at(slot);
        let probe = flow.is_probe(packet.tcp);
        let replaces = match shared.config.duplicates {
            Duplicates::ReplaceOlder => true,
            Duplicates::Adaptive => probe || !flow.detects_spurious(),
        };
        let older = if arrival && replaces { self.buffer.older_copy(flow, packet, probe) } else { None };
        if let Some(index) = older {
            return self.replace(shared, slot, index, packet, out);
        }
        if (arrival && self.is_over_quota(shared, slot, packet, 0))
            || !self.make_room(shared, slot, packet, out)
        {
            return shared.drop_packet(DropReason::BufferFull);
        }
        self.enqueue(now, shared, slot, packet, probe);
        shared.space.take(packet.len);
        Verdict::Hold
    }

    /// The packet takes the place of an older copy.
    #[cold]
    fn replace(
        &mut self,
        shared: &mut Shared,
        slot: u32,
        index: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        let freed = self.buffer.segment(index).len;
        // A copy that is longer, as of a sender that puts segments together, may not fit: the older one goes.
        if self.is_over_quota(shared, slot, packet, freed) || !shared.space.fits(packet.len, freed) {
            return shared.drop_packet(DropReason::BufferFull);
        }
        let older = self.buffer.replace(shared.flows.at(slot), index, packet);
        shared.space.give_back(freed);
        shared.space.take(packet.len);
        shared.discard(older, DropReason::Superseded, out);
        shared.metrics.holds += 1;
        Verdict::Hold
    }

    /// Puts a packet into its queue, which is that of the station that the flow was at before if the flow
    /// holds packets there.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        probe: bool,
    ) {
        let arrival = packet.origin == Origin::Arrival;
        let counts = arrival && !shared.monitor.tfp(packet.station);
        let silences = if counts { shared.monitor.silences_of(packet.station) } else { IN_SILENCE };
        let opens = self.opens(shared, packet);
        let flow = shared.flows.at(slot);
        let how = Arrived { at: now, silences, probe, front: !arrival, opens };
        if self.buffer.push(flow, slot, packet, how) {
            let queued = flow.held_tail;
            self.note_queues(shared, queued);
        }
        shared.metrics.holds += 1;
    }

    /// True if holding the packet in place of one of `freed` bytes (0: in place of none) would put its flow
    /// above the quota. All flows that their station has not answered share one quota.
    #[inline]
    fn is_over_quota(&self, shared: &mut Shared, slot: u32, packet: &PacketView<'_>, freed: u32) -> bool {
        let quota = shared.space.part(shared.config.flow_quota.0);
        // A packet that adds nothing may be held, though what came back from the transmit queue has put the
        // queue above its quota.
        if quota == 0 || shared.config.queues == Queues::Station || packet.len <= freed {
            return false;
        }
        let opens = self.opens(shared, packet);
        let (weight, own) = self.buffer.weight_before(shared.flows.at(slot), slot, packet.station, opens);
        let others = if freed == 0 { weight } else { weight - self.buffer.weight(freed) };
        others + u64::from(packet.len) > if own { quota } else { quota / COMMON_PART }
    }

    /// True for a SYN, if the queue of SYNs has room for it: otherwise it is one of the common queue's. A
    /// SYN that carries data (RFC 7413) is one of those, too.
    #[inline]
    fn opens(&self, shared: &Shared, packet: &PacketView<'_>) -> bool {
        packet.tcp.flags.contains(TcpFlags::SYN)
            && packet.tcp.payload_len == 0
            && shared.config.queues == Queues::Flow
            && self.has_room_for_syn(shared, packet)
    }

    #[cold]
    fn has_room_for_syn(&self, shared: &Shared, packet: &PacketView<'_>) -> bool {
        let quota = shared.config.flow_quota.0;
        let part = if quota == 0 { u64::MAX } else { shared.space.part(quota) / OPENING_PART };
        self.buffer.opening_weight(packet.station) + self.buffer.weight(packet.len) <= part
    }

    /// True if holding the packet would put the flow's station above its quota.
    #[inline]
    fn is_station_over_quota(&self, shared: &mut Shared, slot: u32, packet: &PacketView<'_>) -> bool {
        let quota = shared.space.part(shared.config.station_quota.0);
        // Most often all stations together hold less.
        let most = shared.space.held() + u64::from(self.buffer.packets()) * self.buffer.weight(0);
        if quota == 0 || most + u64::from(packet.len) <= quota || shared.config.queues == Queues::Station {
            return false;
        }
        let held = self.buffer.station_weight(shared.flows.at(slot), slot, packet.station);
        held + u64::from(packet.len) > quota
    }

    /// A flow that is known is this station's from now on.
    #[inline]
    pub fn follow(&mut self, shared: &mut Shared, slot: u32, station: StationId) {
        if let Some(before) = self.buffer.follow(shared.flows.known(slot), slot, station) {
            for station in [before, station] {
                shared.space.note_queues(station, self.buffer.shared_by(station));
            }
        }
    }

    /// Tells [`Space`](super::shared::Space) how many queues share it, now that the queue which this packet
    /// is in, or was just taken out of, has come into use or run empty.
    #[inline(never)]
    fn note_queues(&self, shared: &mut Shared, index: u32) {
        let station = self.buffer.station_of(index);
        shared.space.note_queues(station, self.buffer.shared_by(station));
    }

    /// Drops held packets until this one fits: while the buffer is full, from the longest queue of the
    /// heaviest station; while the packet's own station is above its quota, from the longest queue there.
    /// False if the packet does not fit all the same.
    #[inline]
    fn make_room(
        &mut self,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> bool {
        let mut drops = 0;
        loop {
            let is_full =
                !shared.space.fits(packet.len, 0) || self.buffer.packets() >= shared.config.max_held_packets;
            if !is_full && !self.is_station_over_quota(shared, slot, packet) {
                return true;
            }
            if shared.config.queues == Queues::Station || drops == MOST_DROPS {
                return false;
            }
            drops += 1;
            let opens = self.opens(shared, packet);
            let flow = shared.flows.at(slot);
            let among = if is_full { Among::All } else { Among::OwnStation };
            let longer = self.buffer.first_of_longer(flow, slot, packet, opens, among);
            let Some(index) = longer else { return false };
            self.cut_off(shared, index, out);
        }
    }

    /// Drops a held packet to make room.
    #[inline]
    pub(super) fn cut_off(&mut self, shared: &mut Shared, index: u32, out: &mut Actions) {
        let cut = self.buffer.segment(index).slot;
        let flow = shared.flows.at(cut);
        let transport = flow.transport;
        let (held, is_last) = self.buffer.remove(flow, index);
        shared.space.give_back_of(transport, held.len);
        shared.discard(held.packet, DropReason::BufferFull, out);
        if is_last {
            self.note_queues(shared, index);
        }
        self.cut.push(cut);
    }

    /// Algorithm 2 lines 6 to 10: takes out the next packet that may leave now.
    #[inline]
    pub fn pop(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        gates: &Gates,
    ) -> Option<Leaving> {
        if self.buffer.packets() == 0 || !self.settle(now, shared, round_trips, gates) {
            return None;
        }
        let index = self.buffer.next()?;
        let held = *self.buffer.segment(index);
        if !self.pacer.allows(now, held.len) || self.waits_for_cell(now, round_trips) {
            return None;
        }
        if let Some(reason) = self.cut_short(now, shared, round_trips, &held) {
            return Some(Leaving { sent: Err(reason), ..self.take(shared, index) });
        }
        self.buffer.charge(&held);
        Some(self.take(shared, index))
    }

    /// Why the packet is dropped though it could go down: it is too old, or its queue stands.
    #[inline]
    fn cut_short(
        &mut self,
        now: Instant,
        shared: &Shared,
        round_trips: &RoundTrips,
        held: &HeldSegment,
    ) -> Option<DropReason> {
        let flow = shared.flows.known(held.slot);
        if flow.transport == Transport::Udp && Self::is_too_old(now, shared, held) {
            return Some(DropReason::TooOld);
        }
        self.stands(now, shared, round_trips, flow, held).then_some(DropReason::StandingQueue)
    }

    /// True if the packet is to be dropped, because its queue stands though the radio works.
    #[inline]
    fn stands(
        &mut self,
        now: Instant,
        shared: &Shared,
        round_trips: &RoundTrips,
        flow: &Flow,
        held: &HeldSegment,
    ) -> bool {
        let target = shared.config.standing_limit;
        if target.is_zero() || shared.config.queues == Queues::Station {
            return false;
        }
        if round_trips.is_held_down(flow) {
            return false;
        }
        // A flow that loses half its share to others has a round trip's worth of packets too many here, until
        // the clamp takes them back without a loss. While data is in time, what windows allow for late data
        // stands here.
        let target = target + flow.wired.get().unwrap_or_default() + round_trips.allows(flow);
        let (codel, station, is_long) = self.buffer.codel_of(held);
        let met_silence = held.silences != shared.monitor.silences_of(station);
        let wait = (!met_silence).then(|| now.since(held.arrived));
        codel.drops(now, target, wait, is_long, held.len)
    }

    /// Takes out the next packet, whatever radio and pace say.
    pub fn pop_any(&mut self, shared: &mut Shared) -> Option<Leaving> {
        if self.buffer.packets() == 0 {
            return None;
        }
        let index = self.buffer.any()?;
        Some(self.take(shared, index))
    }

    #[inline]
    fn take(&mut self, shared: &mut Shared, index: u32) -> Leaving {
        let slot = self.buffer.segment(index).slot;
        let station = self.buffer.station_of(index);
        let flow = shared.flows.at(slot);
        let transport = flow.transport;
        let (held, is_last) = self.buffer.remove(flow, index);
        // What a silence kept here says nothing of the queue that stands outside silences.
        let arrived = (held.silences == shared.monitor.silences_of(station)).then_some(held.arrived);
        let (end, seq_len, len) = (held.seq + held.seq_len, held.seq_len, held.len);
        let sent = Ok(SentDown { tick: held.tick, end, seq_len, len, arrived });
        let (tells, is_data) = (held.tells, held.is_data);
        let leaving = Leaving { packet: held.packet, slot, transport, tells, is_data, sent };
        shared.space.give_back_of(transport, len);
        if is_last {
            self.note_queues(shared, index);
        }
        leaving
    }

    /// A silence is over, or a gate was opened: blocked stations have a turn again.
    pub fn unblock(&mut self) {
        self.buffer.unblock();
    }

    /// Discards what is held of a flow that leaves the table.
    pub fn forget(&mut self, shared: &mut Shared, slot: u32, out: &mut Actions) {
        let head = |flow: &mut Flow| Some(flow.held_head).filter(|&head| head != NONE);
        let transport = shared.flows.known(slot).transport;
        while let Some(index) = head(shared.flows.at(slot)) {
            let (held, is_last) = self.buffer.remove(shared.flows.at(slot), index);
            shared.space.give_back_of(transport, held.len);
            shared.discard(held.packet, DropReason::FlowEvicted, out);
            if is_last {
                self.note_queues(shared, index);
            }
        }
        self.buffer.forget(slot);
    }

    /// When the next packet may leave, if that is a matter of time.
    #[inline]
    pub fn next_timeout(
        &mut self,
        now: Instant,
        shared: &Shared,
        round_trips: &RoundTrips,
        gates: &Gates,
    ) -> Option<Instant> {
        if self.buffer.packets() == 0 {
            self.patient = Instant::FAR_FUTURE;
            return None;
        }
        if self.unfinished {
            return Some(now);
        }
        let at = self.pacer.next_time();
        let at = at.filter(|_| self.settle(now, shared, round_trips, gates));
        let at = at.filter(|_| !self.waits_for_cell(now, round_trips));
        Some(at.unwrap_or(Instant::FAR_FUTURE).min(self.patient)).filter(|&at| at < Instant::FAR_FUTURE)
    }
}
