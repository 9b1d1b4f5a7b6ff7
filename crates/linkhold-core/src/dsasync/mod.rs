//! DSASync at the base station: holds packets in a silence, and manages the windows of the senders meanwhile.
//!
//! Paper: `dsasync` (Kumar and Shin), sections III and IV. Sees every TCP packet of both directions and the radio's
//! events; emits verdicts, releases, ACKs that repeat what a station acknowledged, and `Reclaim`.
//!
//! | Algorithm | File |
//! |---|---|
//! | 1 and 2, what is held and when it leaves | this file, `downlink.rs`, `pacer.rs` |
//! | 1 and 2, what windows senders are told | `windows.rs` |
//! | 3 and 4, uplink shaping | `uplink.rs`, and `uplink_path.rs`, which feeds it |
//! | 5, loss of capacity | `capacity.rs` |
//! | beside the paper: window clamp | `bdp.rs` |
//!
//! A station: forwarding → silent (TFP: hold) → draining (silence over, queue not yet empty) → forwarding.
//! Space: plenty → low (B_free < B_low: the paper's `hold`, all windows closed) → plenty (B_free > B_high).
//!
//! Deviations are recorded in the file they concern. Common to all: Algorithm 2 is run on events, not on a
//! periodic timer, and a packet that does not fit into B_alloc is dropped (the paper does not say). Nothing is taken back
//! from the transmit queue (line 11) for a cause whose silences end more than 2 ms before that is noticed.

mod bdp;
mod capacity;
pub mod config;
mod downlink;
mod flows;
mod pacer;
pub mod uplink;
mod uplink_path;
mod windows;

#[cfg(test)]
mod tests;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::action::{Action, Actions, DropReason, Rewrite, Verdict};
use crate::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use crate::link_monitor::{LinkMonitor, TfpChange};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{Direction, Origin, PacketId, PacketView, StationId, TcpFlags};
use crate::time::{Duration, Instant};
use crate::units::Seq;

use bdp::Bdp;
use downlink::{Arrived, HoldBuffer};
use flows::{FlowTable, KeptAck, NONE, RadioProbe, Touched};
use pacer::Pacer;
use uplink::{UplinkMode, UplinkShaper};
use uplink_path::Shaped;

pub use config::{CapacityResponse, Clamp, CloseAt, ConfigError, DsaSyncConfig, Duplicates, Mode};

/// Bytes in the radio below which a segment is taken to find it empty: two full packets.
const EMPTY_RADIO: u64 = 3000;

/// A silence's end that is noticed later than this is late: the timer slack of a general-purpose kernel, twice.
const LATE: Duration = Duration::from_millis(2);

/// DSASync: Algorithms 1 to 5 as one [`Mechanism`].
#[derive(Debug)]
pub struct DsaSync {
    config: DsaSyncConfig,
    monitor: LinkMonitor,
    flows: FlowTable,
    buffer: HoldBuffer,
    pacer: Pacer,
    bdp: Bdp,
    shaper: UplinkShaper,
    shaped: Vec<Shaped>,
    shaped_free: Vec<u32>,
    due: Vec<PacketId>,
    /// The paper's `hold`: space ran low.
    low_space: bool,
    closed: Vec<(u32, u32)>,
    nudges: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    kept: Vec<(u32, u32)>,
    kept_bytes: u64,
    /// By cause: the last silence's end was noticed late, so the next one's will be.
    ends_late: [bool; Cause::ALL.len()],
    /// Bytes in the radio that stations have not acknowledged, over all flows.
    outstanding: u64,
    metrics: Metrics,
}

impl DsaSync {
    /// An agent that has seen nothing.
    ///
    /// # Errors
    /// What [`DsaSyncConfig::validate`] finds.
    pub fn new(config: &DsaSyncConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config: *config,
            monitor: LinkMonitor::new(&config.monitor),
            flows: FlowTable::new(config.max_flows, config.flow_seed),
            buffer: HoldBuffer::new(config.monitor.max_stations),
            pacer: Pacer::new(config.assumed_capacity, config.transmit_queue),
            bdp: Bdp::new(config.standing_queue),
            shaper: UplinkShaper::new(&config.uplink),
            shaped: Vec::new(),
            shaped_free: Vec::new(),
            due: Vec::new(),
            low_space: false,
            closed: Vec::new(),
            nudges: BinaryHeap::new(),
            kept: Vec::new(),
            kept_bytes: 0,
            ends_late: [false; Cause::ALL.len()],
            outstanding: 0,
            metrics: Metrics::default(),
        })
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &DsaSyncConfig {
        &self.config
    }

    /// What it knows of the radio.
    #[must_use]
    pub fn monitor(&self) -> &LinkMonitor {
        &self.monitor
    }

    fn held_bytes(&self) -> u64 {
        self.buffer.bytes() + self.shaper.held_bytes().0 + self.kept_bytes
    }

    fn free_bytes(&self) -> u64 {
        self.config.b_alloc.0.saturating_sub(self.held_bytes())
    }

    fn note_peak(&mut self) {
        self.metrics.held_bytes_peak = self.metrics.held_bytes_peak.max(self.held_bytes());
    }

    fn radio_part(&self, station: StationId) -> Duration {
        self.buffer.radio_part(station).unwrap_or(Duration::ZERO)
    }

    /// The packet's flow, made if need be; `None` only for a reset that goes on at once, of a flow that is not known.
    fn flow_of(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Option<u32> {
        // A reset needs no flow, and a flood of them must evict none; but one that has to be held does, or it
        // would go into the silence, or overtake what is held, or taken back from the transmit queue after it.
        let held = match packet.direction {
            Direction::Downlink => {
                packet.origin == Origin::TransmitQueue
                    || self.monitor.tfp(packet.station)
                    || self.buffer.has(packet.station)
            }
            Direction::Uplink => self.shaper.has(packet.station),
        };
        if packet.tcp.flags.contains(TcpFlags::RST) && !held {
            return self.flows.find(packet.flow);
        }
        loop {
            match self.flows.touch(packet.flow, packet.station) {
                Touched::Known(slot) => return Some(slot),
                Touched::New(slot) => {
                    self.monitor.learn_station(packet.station);
                    if !packet.tcp.flags.contains(TcpFlags::SYN) {
                        self.metrics.midstream_flows += 1;
                    }
                    return Some(slot);
                }
                Touched::Full => {
                    let oldest = self.flows.oldest()?;
                    self.metrics.flow_evictions += 1;
                    self.forget(now, oldest, out);
                }
            }
        }
    }

    /// Takes a flow out of the table: what it holds is discarded, what we closed is reopened.
    fn forget(&mut self, now: Instant, slot: u32, out: &mut Actions) {
        while let Some(head) = self.flows.get(slot).map(|flow| flow.held_head).filter(|&head| head != NONE) {
            let held = self.buffer.remove(self.flows.at(slot), head);
            self.discard(held.packet, DropReason::FlowEvicted, out);
        }
        if let Some(kept) = self.flows.at(slot).kept.take() {
            self.release_kept(kept, kept.rewrite, out);
        }
        self.reopen(now, slot, out);
        self.outstanding -= self.flows.at(slot).outstanding();
        self.flows.remove(slot);
    }

    fn discard(&mut self, packet: PacketId, reason: DropReason, out: &mut Actions) {
        self.metrics.dropped[reason as usize] += 1;
        out.push(Action::Discard { packet, reason });
    }

    fn drop_packet(&mut self, reason: DropReason) -> Verdict {
        self.metrics.dropped[reason as usize] += 1;
        Verdict::Drop(reason)
    }

    fn release_kept(&mut self, kept: KeptAck, rewrite: Rewrite, out: &mut Actions) {
        self.kept_bytes -= u64::from(kept.len);
        self.metrics.released += 1;
        out.push(Action::Release { packet: kept.packet, rewrite });
    }

    // ---- downlink: Algorithm 1 ----

    fn on_downlink(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let station = packet.station;
        let Some(slot) = self.flow_of(now, packet, out) else {
            self.pacer.on_sent(now, packet.len);
            return Verdict::Forward(Rewrite::NONE);
        };
        let arrival = packet.origin == Origin::Arrival;
        if arrival {
            self.buffer.station(station).rate.add(now, self.config.rate_window, packet.len);
            let before = self.flows.at(slot).outstanding();
            self.flows.at(slot).on_downlink(packet.tcp);
            // Only a reused connection, which starts anew, has less in the radio now.
            self.outstanding -= before - self.flows.at(slot).outstanding();
            self.answer_wired(now, slot, packet);
            self.stop_nudging(slot);
        } else {
            self.pacer.on_taken_back(packet.len);
            self.flows.at(slot).radio_probe = None;
        }
        // line 5
        let silent = self.monitor.tfp(station);
        // lines 6 and 7; behind a queue that still drains it waits its turn, or the flow would be reordered.
        if arrival && !silent && !self.buffer.has(station) && !self.pacer.must_wait(now) {
            self.sent_down(now, slot, packet.tcp.seq_end(), packet.tcp.seq_len(), packet.len, Some(now));
            if self.flows.at(slot).is_over() {
                self.forget(now, slot, out);
            }
            return Verdict::Forward(Rewrite::NONE);
        }
        let verdict = self.hold_downlink(now, slot, packet, out);
        if self.config.mode != Mode::Hold {
            self.close_as_needed(now, slot, packet, silent, out);
        }
        verdict
    }

    /// Algorithm 1 line 9.
    fn hold_downlink(
        &mut self,
        now: Instant,
        slot: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        let arrival = packet.origin == Origin::Arrival;
        let flow = self.flows.at(slot);
        let probe = flow.is_probe(packet.tcp);
        let replaces = match self.config.duplicates {
            Duplicates::ReplaceOlder => true,
            Duplicates::Adaptive => probe || !flow.detects_spurious(),
        };
        let older = if arrival && replaces { self.buffer.older_copy(flow, packet, probe) } else { None };
        let freed = older.map_or(0, |index| u64::from(self.buffer.len_of(index)));
        if self.held_bytes() - freed + u64::from(packet.len) > self.config.b_alloc.0
            || (older.is_none() && self.buffer.packets() >= self.config.max_held_packets)
        {
            return self.drop_packet(DropReason::BufferFull);
        }
        match older {
            Some(index) => {
                let packet = self.buffer.replace(index, packet);
                self.discard(packet, DropReason::Superseded, out);
            }
            None => {
                let silent = self.monitor.tfp(packet.station);
                let at = (arrival && !silent).then(|| (now, self.monitor.silences()));
                self.buffer.push(self.flows.at(slot), slot, packet, Arrived { at, probe, front: !arrival });
            }
        }
        self.metrics.holds += 1;
        self.note_peak();
        Verdict::Hold
    }

    /// Algorithm 1 lines 10 to 25.
    fn close_as_needed(
        &mut self,
        now: Instant,
        slot: u32,
        packet: &PacketView<'_>,
        silent: bool,
        out: &mut Actions,
    ) {
        if !self.low_space && self.free_bytes() < self.config.b_low.0 {
            // lines 11 to 15
            self.low_space = true;
            self.close_all(now, Scope::Network, out);
            return;
        }
        if packet.origin == Origin::TransmitQueue {
            return;
        }
        let flow = self.flows.at(slot);
        if flow.closed {
            // lines 22 to 24; also when only this flow was closed.
            if flow.is_probe(packet.tcp) && flow.shaped == 0 && self.inject(slot, 0, false, out) {
                self.metrics.probes_answered += 1;
            }
        } else if self.low_space {
            // A flow that began after the others were closed.
            self.close(now, slot, out);
        } else if silent && flow.opened_early != Some(self.monitor.silences()) {
            let close = match self.config.close_at {
                CloseAt::SpaceLow => false,
                // lines 17 to 19
                CloseAt::UsedUp => flow.is_window_used_up(packet.tcp.payload_len),
                CloseAt::SilenceStart => true,
            };
            if close {
                self.close(now, slot, out);
            }
        }
    }

    /// A downlink packet goes to the transmit queue now.
    fn sent_down(
        &mut self,
        now: Instant,
        slot: u32,
        end: Seq,
        seq_len: u32,
        len: u32,
        arrived: Option<Instant>,
    ) {
        let ahead = self.pacer.on_sent(now, len);
        let (flow, bdp) = (self.flows.at(slot), &mut self.bdp);
        bdp.on_sent(now, len, &mut flow.epoch, &mut flow.epoch_bytes);
        if seq_len == 0 {
            return;
        }
        let before = flow.outstanding();
        let is_new = flow.down_sent.is_none_or(|sent| end.after(sent));
        if is_new {
            flow.down_sent = Some(end);
            let empty = self.outstanding <= EMPTY_RADIO;
            // A time with a silence in it is of no use: the next segment takes its place.
            let silences = self.monitor.silences();
            if flow.radio_probe.is_none_or(|old| (empty && !old.empty) || old.silences != silences) {
                flow.radio_probe =
                    Some(RadioProbe { at: now, end, empty, silences, arrived, ahead, next: None });
            } else if let Some(probe) = &mut flow.radio_probe
                && probe.next.is_none()
            {
                probe.next = Some((now, end, ahead));
            }
        }
        // Less than before is possible with sequence numbers from nowhere, half the space away.
        let after = flow.outstanding();
        self.outstanding = self.outstanding + after - before;
    }

    // ---- downlink: Algorithm 2 ----

    /// Lines 6 to 10: releases what may leave, and lines 1 to 5.
    fn release(&mut self, now: Instant, out: &mut Actions) {
        while let Some(index) = self.buffer.next(|station| !self.monitor.tfp(station)) {
            if !self.pacer.allows(now, self.buffer.get(index).len) {
                break;
            }
            self.release_one(now, index, out);
        }
        self.check_space(now, out);
    }

    fn release_one(&mut self, now: Instant, index: u32, out: &mut Actions) {
        let slot = self.buffer.get(index).slot;
        let held = self.buffer.remove(self.flows.at(slot), index);
        self.buffer.end_turn();
        // What a silence kept here says nothing of the queue that stands outside silences.
        let silences = self.monitor.silences();
        let arrived = held.arrived.filter(|&(_, before)| before == silences).map(|(at, _)| at);
        self.sent_down(now, slot, held.seq + held.seq_len, held.seq_len, held.len, arrived);
        self.metrics.released += 1;
        out.push(Action::Release { packet: held.packet, rewrite: Rewrite::NONE });
        let flow = self.flows.at(slot);
        if flow.held == 0 && flow.is_over() {
            self.forget(now, slot, out);
        }
    }

    /// Algorithm 2 lines 1 to 5.
    fn check_space(&mut self, now: Instant, out: &mut Actions) {
        if self.low_space && self.free_bytes() > self.config.b_high.0 {
            self.low_space = false;
            self.reopen_all(now, false, out);
        }
    }

    /// `cause`: of the event that changed it; `None` if an announced time came.
    fn on_tfp_change(&mut self, now: Instant, change: TfpChange, cause: Option<Cause>, out: &mut Actions) {
        let late = cause.is_some_and(|cause| self.ends_late[cause as usize]);
        match change {
            TfpChange::None => {}
            TfpChange::NetworkBegan => self.silence_began(now, Scope::Network, late, out),
            TfpChange::StationBegan(station) => self.silence_began(now, Scope::Station(station), late, out),
            TfpChange::NetworkEnded | TfpChange::StationEnded(_) => {
                if change == TfpChange::NetworkEnded {
                    self.pacer.resume(now);
                }
                self.bdp.restart_bin(now);
                self.reopen_all(now, false, out);
                self.release(now, out);
            }
        }
    }

    fn silence_began(&mut self, now: Instant, scope: Scope, ends_late: bool, out: &mut Actions) {
        self.bdp.restart_bin(now);
        if scope == Scope::Network {
            self.pacer.pause(now);
        }
        // line 11: back from the transmit queue, if there is room for it. Not if the radio will work again before we
        // know: what is left there is all that it can send until then.
        if self.config.reclaim && !ends_late && self.free_bytes() >= self.config.b_low.0 {
            out.push(Action::Reclaim { scope });
        }
        self.close_kept(now, scope, out);
        if self.config.mode != Mode::Hold && self.config.close_at == CloseAt::SilenceStart {
            self.close_all(now, scope, out);
        }
    }

    fn next_release(&self) -> Option<Instant> {
        let at = self.pacer.next_time()?;
        self.buffer.any_may_leave(|station| !self.monitor.tfp(station)).then_some(at)
    }
}

impl Mechanism for DsaSync {
    fn name(&self) -> &'static str {
        "dsasync"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        match (packet.direction, packet.origin) {
            (Direction::Downlink, Origin::TransmitQueue) => self.on_downlink(now, packet, out),
            (Direction::Downlink, Origin::Arrival) => {
                self.metrics.packets += 1;
                self.on_downlink(now, packet, out)
            }
            (Direction::Uplink, _) => {
                self.metrics.packets += 1;
                self.on_uplink(now, packet, out)
            }
        }
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        let old = self.monitor.capacity();
        let change = self.monitor.on_event(now, &event);
        let cause = match event.kind {
            LinkEventKind::FreezeStarted { cause, .. } => Some(cause),
            LinkEventKind::FreezeEnded { cause, .. } => {
                self.ends_late[cause as usize] = event.effective_at.is_some_and(|at| now.since(at) > LATE);
                Some(cause)
            }
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::TransmitRoom { .. } => None,
        };
        self.on_tfp_change(now, change, cause, out);
        match event.kind {
            LinkEventKind::ChannelSwitched { capacity, efficiency } => {
                self.on_capacity(now, old, (capacity, efficiency), out);
            }
            LinkEventKind::TransmitRoom { packets, bytes } => {
                self.pacer.set_room(packets, bytes);
                self.release(now, out);
            }
            LinkEventKind::FreezeStarted { .. }
            | LinkEventKind::FreezeEnded { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. } => {}
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        while self.monitor.next_timeout().is_some_and(|at| at <= now) {
            let change = self.monitor.on_timeout(now);
            self.on_tfp_change(now, change, None, out);
        }
        let (monitor, due) = (&self.monitor, &mut self.due);
        match self.config.uplink.mode {
            UplinkMode::Off => {}
            UplinkMode::PerStation => {
                self.shaper.on_timeout(now, |station| monitor.alpha(now, station), |id| due.push(id));
            }
            UplinkMode::Pooled => {
                self.shaper.on_timeout(now, |_| monitor.alpha_network(now), |id| due.push(id));
            }
        }
        self.release_due(out);
        self.expire_kept(now, out);
        self.run_nudges(now, out);
        self.release(now, out);
    }

    fn next_timeout(&self) -> Option<Instant> {
        [
            self.monitor.next_timeout(),
            self.shaper.next_timeout(),
            self.next_kept(),
            self.next_nudge(),
            self.next_release(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn is_holding(&self) -> bool {
        self.buffer.packets() > 0
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        while let Some(index) = self.buffer.next(|_| true) {
            self.release_one(now, index, out);
        }
        self.low_space = false;
        self.expire_kept(Instant::FAR_FUTURE, out);
        // A flow opens before its ACKs leave the shaper, so that they pass with the windows they came with.
        self.shaper.flush(|id| self.due.push(id));
        self.reopen_all(now, true, out);
        self.release_due(out);
        self.nudges.clear();
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            held_packets: u64::from(self.buffer.packets())
                + self.shaper.held_packets()
                + self
                    .kept
                    .iter()
                    .filter(|&&(slot, generation)| {
                        self.flows.get(slot).is_some_and(|f| f.generation == generation && f.kept.is_some())
                    })
                    .count() as u64,
            held_bytes: self.held_bytes(),
            flows: self.flows.len() as u64,
            silences: self.monitor.silences(),
            ..self.metrics
        }
    }
}
