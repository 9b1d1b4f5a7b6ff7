//! Closing, holding down and reopening the windows that senders are told.
//!
//! Paper: `dsasync` section IV-B a, Algorithm 1 (lines 10 to 25) and "overwrites the rwin field to 0 in outgoing
//! packets". Sees the ACKs that pass; emits window rewrites and ACKs that repeat what the station acknowledged.
//!
//! A flow's window: open → closed (a zero we made up) → open (an update of ours, or the station's next ACK).
//!
//! Deviations: windows are reopened as soon as the silence is over and space is there; the paper leaves them to the sender's
//! persist timer. Only flows with downlink data are closed: the others have nothing to stop. While a flow's ACKs
//! wait in the uplink shaper no ACK is made up for it, since it would overtake them; they carry the window.
//! Repeated reopenings go to SACK senders up to the configured number, to others once: three equal ACKs would be
//! taken for a loss.
//!
//! Never: an ACK number the station did not send, a window larger than the station last offered, a right edge below
//! one already told (but for zero).

use core::cmp::Reverse;

use super::flows::ProbeKind;
use super::{Clamp, DsaSync, Mode};
use crate::action::{AckSpec, Action, Actions, Rewrite};
use crate::link_event::Scope;
use crate::packet::{Direction, PacketView, StationId, TcpFlags, TcpSegment};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// A probe that found no answer by then makes room for another.
const PROBE_LIFE: Duration = Duration::from_secs(1);

impl DsaSync {
    /// Sends a copy of the flow's last ACK with this window. True if one could be made.
    pub(super) fn inject(&mut self, slot: u32, window: u16, ece: bool, out: &mut Actions) -> bool {
        let flow = self.flows.at(slot);
        let (Some(ack), Some(seq)) = (flow.acked, flow.up_next) else { return false };
        debug_assert!(window <= flow.offer || window <= flow.passed, "never larger than what was offered");
        out.push(Action::InjectAck(AckSpec {
            flow: flow.key,
            direction: Direction::Uplink,
            seq,
            ack,
            window,
            timestamp: flow.up_timestamp,
            ece,
        }));
        flow.passed = window;
        self.metrics.acks_injected += 1;
        true
    }

    pub(super) fn mark_closed(&mut self, slot: u32) {
        let flow = self.flows.at(slot);
        if !flow.closed {
            flow.closed = true;
            let generation = flow.generation;
            self.closed.push((slot, generation));
            self.metrics.windows_closed += 1;
            self.metrics.windows_closed_now += 1;
        }
    }

    fn mark_open(&mut self, slot: u32) {
        let flow = self.flows.at(slot);
        if flow.closed {
            flow.closed = false;
            self.metrics.windows_reopened += 1;
            self.metrics.windows_closed_now -= 1;
        }
    }

    /// Advertises a zero window for one flow (Algorithm 1 lines 14 and 18).
    pub(super) fn close(&mut self, now: Instant, slot: u32, out: &mut Actions) {
        let Some(flow) = self.flows.get(slot) else { return };
        // A window that the station itself has closed is its own to open.
        if flow.closed || !flow.has_data || flow.offer == 0 || flow.is_over() {
            return;
        }
        let station = flow.station;
        if flow.shaped == 0 {
            if let Some(kept) = self.flows.at(slot).kept.take() {
                self.release_kept(kept, Rewrite { window: Some(0), ..kept.rewrite }, out);
                self.flows.at(slot).passed = 0;
            } else if !self.inject(slot, 0, false, out) {
                return;
            }
        }
        self.mark_closed(slot);
        self.plan_early_opening(now, slot, station);
    }

    /// Closes every flow of the scope, in slot order.
    pub(super) fn close_all(&mut self, now: Instant, scope: Scope, out: &mut Actions) {
        for slot in 0..self.flows.slot_count() {
            if self.flows.get(slot).is_some_and(|flow| scope.covers(flow.station)) {
                self.close(now, slot, out);
            }
        }
    }

    /// `freeze+nudge`: the window should be open again one wired round trip before the silence ends, so that the
    /// sender's next data arrives as the radio comes back.
    fn plan_early_opening(&mut self, now: Instant, slot: u32, station: StationId) {
        if self.config.mode != Mode::FreezeNudge || self.low_space {
            return;
        }
        let Some(end) = self.monitor.expected_end(station) else { return };
        let flow = self.flows.at(slot);
        let Some(wired) = flow.wired.get() else { return };
        let at = end - wired;
        if at > now {
            self.plan_nudge(slot, at);
        }
    }

    fn plan_nudge(&mut self, slot: u32, at: Instant) {
        let flow = self.flows.at(slot);
        flow.nudge_at = at;
        let generation = flow.generation;
        self.nudges.push(Reverse((at, slot, generation)));
    }

    /// What the sender may be told now: the station's last offer, held down to the clamp.
    fn reopened_window(&self, slot: u32) -> u16 {
        let Some(flow) = self.flows.get(slot) else { return 0 };
        match (flow.acked, flow.offer_shift) {
            (Some(acked), Some(shift)) => self.clamped(slot, acked, flow.offer, shift),
            (Some(_), None) => flow.offer,
            (None, _) => 0,
        }
    }

    /// Opens a closed window again.
    pub(super) fn reopen(&mut self, now: Instant, slot: u32, out: &mut Actions) {
        let Some(flow) = self.flows.get(slot) else { return };
        if !flow.closed {
            return;
        }
        let (shaped, over) = (flow.shaped, flow.is_over());
        let window = self.reopened_window(slot);
        self.mark_open(slot);
        // In the shaper wait ACKs with a window of their own; after a RST nobody listens.
        if window > 0 && shaped == 0 && !over && self.inject(slot, window, false, out) {
            self.note_edge(slot, window);
            let flow = self.flows.at(slot);
            flow.nudges_sent = 1;
            if self.config.mode == Mode::FreezeNudge {
                self.plan_nudge(slot, now + self.config.nudge_backoff);
            }
        }
    }

    fn note_edge(&mut self, slot: u32, window: u16) {
        let flow = self.flows.at(slot);
        if let (Some(acked), Some(shift)) = (flow.acked, flow.offer_shift) {
            let edge = acked + (u32::from(window) << shift);
            flow.edge = Some(flow.edge.map_or(edge, |old| old.max(edge)));
        }
    }

    /// Opens every closed window that nothing keeps closed any more. `force`: whatever the radio's state.
    pub(super) fn reopen_all(&mut self, now: Instant, force: bool, out: &mut Actions) {
        let mut closed = core::mem::take(&mut self.closed);
        closed.retain(|&(slot, generation)| {
            let Some(flow) = self.flows.get(slot) else { return false };
            if flow.generation != generation || !flow.closed {
                return false;
            }
            if !force && (self.low_space || self.monitor.tfp(flow.station)) {
                return true;
            }
            self.reopen(now, slot, out);
            false
        });
        closed.append(&mut self.closed);
        self.closed = closed;
    }

    /// Early and repeated openings that are due.
    pub(super) fn run_nudges(&mut self, now: Instant, out: &mut Actions) {
        while let Some(&Reverse((at, slot, generation))) = self.nudges.peek() {
            if at > now {
                break;
            }
            self.nudges.pop();
            let Some(flow) = self.flows.get(slot) else { continue };
            if flow.generation != generation || flow.nudge_at != at {
                continue;
            }
            let (closed, sent, sack, shaped) = (flow.closed, flow.nudges_sent, flow.sack(), flow.shaped);
            let silent = self.monitor.tfp(flow.station);
            self.flows.at(slot).nudge_at = Instant::FAR_FUTURE;
            if closed {
                if !self.low_space {
                    self.flows.at(slot).opened_early = silent.then(|| self.monitor.silences());
                    self.reopen(now, slot, out);
                }
                continue;
            }
            let limit = if sack { self.config.nudges } else { self.config.nudges.min(2) };
            let window = self.reopened_window(slot);
            if sent < limit && window > 0 && shaped == 0 && self.inject(slot, window, false, out) {
                self.note_edge(slot, window);
                let flow = self.flows.at(slot);
                flow.nudges_sent = sent + 1;
                let pause = self.config.nudge_backoff * (1 << u32::from(sent).min(16));
                self.plan_nudge(slot, now + pause);
            }
        }
    }

    /// The sender is heard, or an ACK of its station passed: no further opening is needed.
    pub(super) fn stop_nudging(&mut self, slot: u32) {
        let flow = self.flows.at(slot);
        if !flow.closed {
            flow.nudge_at = Instant::FAR_FUTURE;
            flow.nudges_sent = 0;
        }
    }

    /// When the first early or repeated opening is due (it may have been called off since).
    pub(super) fn next_nudge(&self) -> Option<Instant> {
        self.nudges.peek().map(|Reverse((at, ..))| *at)
    }

    /// A window held down to the clamp: never above `window`, never below an edge already told.
    pub(super) fn clamped(&self, slot: u32, ack: Seq, window: u16, shift: u8) -> u16 {
        let Some(flow) = self.flows.get(slot) else { return window };
        let wanted = match self.config.clamp {
            Clamp::Off => false,
            Clamp::OnSwitch => flow.clamp_on,
            Clamp::Always => true,
        };
        let Some(wired) = flow.wired.get().filter(|_| wanted && flow.has_data) else { return window };
        let radio = self.radio_part(flow.station);
        let Some(bytes) = self.bdp.clamp(wired, radio, flow.mss) else { return window };
        // Both are rounded up: the told edge so that it never recedes, the clamp so that its least of two segments
        // stays two. With one and a bit a sender sends one and waits for the delayed ACK.
        let told = flow.edge.map_or(0, |edge| u32::try_from(edge.minus(ack)).unwrap_or(0));
        let field = bytes.div_ceil(1 << shift).max(told.div_ceil(1 << shift)).max(1);
        u16::try_from(field).unwrap_or(u16::MAX).min(window)
    }

    /// What becomes of the window of an uplink segment that passes now, and of the flow's state with it.
    pub(super) fn pass_uplink(&mut self, slot: u32, tcp: &TcpSegment) -> Rewrite {
        let flow = self.flows.at(slot);
        if !tcp.flags.contains(TcpFlags::ACK) || tcp.flags.intersects(TcpFlags::RST) {
            return Rewrite::NONE;
        }
        let shift = flow.shift_of(tcp);
        let set_ece = flow.ece_pending && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::ECE);
        let mut rewrite = Rewrite { set_ece, ..Rewrite::NONE };
        if tcp.flags.contains(TcpFlags::SYN) || !flow.has_data {
            flow.passed = tcp.window;
            flow.edge = shift.map(|shift| tcp.ack + (u32::from(tcp.window) << shift));
            return rewrite;
        }
        if self.must_stay_closed(slot) {
            self.flows.at(slot).passed = 0;
            if tcp.window > 0 {
                rewrite.window = Some(0);
                self.mark_closed(slot);
            }
            return rewrite;
        }
        let flow = self.flows.at(slot);
        let (wired, station) = (flow.wired.get(), flow.station);
        if let Some(wired) = wired {
            self.bdp.note_base(wired, self.radio_part(station));
        }
        let window = match shift {
            Some(shift) => self.clamped(slot, tcp.ack, tcp.window, shift),
            None => tcp.window,
        };
        if window < tcp.window {
            rewrite.window = Some(window);
            self.metrics.windows_clamped += 1;
        }
        self.mark_open(slot);
        let flow = self.flows.at(slot);
        flow.passed = window;
        if let Some(shift) = shift {
            let edge = tcp.ack + (u32::from(window) << shift);
            flow.edge = Some(flow.edge.map_or(edge, |old| old.max(edge)));
        }
        if window > 0 {
            self.stop_nudging(slot);
        }
        rewrite
    }

    /// A zero window is due on whatever passes: space is low (the paper's `hold`), or the flow was closed in a
    /// silence that still lasts.
    pub(super) fn must_stay_closed(&self, slot: u32) -> bool {
        if self.config.mode == Mode::Hold {
            return false;
        }
        let Some(flow) = self.flows.get(slot) else { return false };
        self.low_space || (flow.closed && self.monitor.tfp(flow.station))
    }

    /// Starts or ends measuring the wired round trip with an uplink segment that passes now.
    pub(super) fn probe_wired(&mut self, now: Instant, slot: u32, tcp: &TcpSegment) {
        let flow = self.flows.at(slot);
        let probe = if tcp.seq_len() > 0 {
            (tcp.seq_end().0, ProbeKind::Sequence)
        } else if let Some(timestamp) = tcp.timestamp.filter(|_| flow.new_tick) {
            // Only the first ACK of a timestamp tick: answers to the others look the same.
            (timestamp.value, ProbeKind::Timestamp)
        } else {
            return;
        };
        if flow.wired_probe.is_none_or(|old| now.since(old.at) > PROBE_LIFE) {
            flow.wired_probe = Some(super::flows::WiredProbe { at: now, value: probe.0, kind: probe.1 });
        }
    }

    /// Takes the sample when the correspondent's answer comes.
    pub(super) fn answer_wired(&mut self, now: Instant, slot: u32, packet: &PacketView<'_>) {
        let flow = self.flows.at(slot);
        let Some(probe) = flow.wired_probe else { return };
        let answered = match probe.kind {
            ProbeKind::Timestamp => {
                // Only a segment that this very ACK set off: one that echoes a later tick says nothing of it.
                let Some(timestamp) = packet.tcp.timestamp else { return };
                let distance = timestamp.echo.wrapping_sub(probe.value) as i32;
                if distance > 0 {
                    flow.wired_probe = None;
                }
                distance == 0
            }
            ProbeKind::Sequence => {
                packet.tcp.flags.contains(TcpFlags::ACK) && !packet.tcp.ack.before(Seq(probe.value))
            }
        };
        if answered {
            flow.wired.add(now, now.since(probe.at));
            flow.wired_probe = None;
        }
    }
}
