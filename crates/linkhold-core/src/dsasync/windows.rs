//! Closing, holding down and reopening the windows that senders are told.
//!
//! Paper: `dsasync` section IV-B a, Algorithm 1 (lines 10 to 25) and "overwrites the rwin field to 0 in
//! outgoing packets". Sees the ACKs that pass; emits window rewrites and ACKs that repeat what the station
//! acknowledged.
//!
//! The states of a flow's window are in `window.rs`.
//!
//! Deviations: windows are reopened as soon as the silence is over and space is there; the paper leaves them
//! to the sender's persist timer. Only flows with downlink data are closed: the others have nothing to stop.
//! While a flow's ACKs wait in the uplink shaper no ACK is made up for it, since it would overtake them; they
//! carry the window. Repeated reopenings go to SACK senders up to the configured number, to others once:
//! three equal ACKs would be taken for a loss.
//!
//! With [`Queues::Flow`], low space closes only the windows of flows that hold their share of it, and a flow
//! that holds half of its quota has its window closed whatever space is left. So a sender that ignores
//! windows closes its own and nobody else's. Such a window opens again when the flow holds at most half of
//! the amount that closes it. With [`Queues::Station`] (the preset `paper`) low space closes every window, as
//! Algorithm 1 says.
//!
//! A flow whose segments are signed (RFC 2385, RFC 5925) is left alone: its windows pass as they are.
//!
//! A sender is never told an ACK number that the station did not send, a window larger than the station last
//! offered, or a right edge before one it was told earlier (but for a window of zero).

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::edge::{clamped, look_at_edge, quiet_ahead, tell_window};
use super::flow::Flow;
use super::flow_table::FlowId;
use super::handshake::EcnEcho;
use super::keep_back::{KeptAcks, release_kept_closed};
use super::round_trip::RoundTrips;
use super::shared::Shared;
use super::window::{Nudge, Window};
use super::{CloseAt, Mode, Queues};
use crate::action::{Actions, Rewrite};
use crate::link_event::Scope;
use crate::packet::{Origin, PacketView, TcpFlags, TcpSegment};
use crate::time::Instant;
use crate::units::Seq;

/// Closes and reopens windows.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// The flows whose window is closed, each once ([`Flow::listed`]). Some may have been opened since.
    closed: Vec<FlowId>,
    /// Openings that are planned. One that its flow does not know any more was called off.
    nudges: BinaryHeap<Reverse<(Instant, FlowId)>>,
    pub kept: KeptAcks,
}

impl Windows {
    /// Changes the state of a flow's window. Nothing else counts closed windows.
    #[cold]
    fn transition_to(&mut self, shared: &mut Shared, slot: u32, next: Window) {
        let window = &mut shared.flows.at(slot).window;
        let was_closed = window.is_closed();
        window.transition_to(next);
        match (was_closed, next.is_closed()) {
            (false, true) => {
                self.list(shared, slot);
                shared.metrics.windows_closed += 1;
                shared.metrics.windows_closed_now += 1;
            }
            (true, false) => {
                shared.metrics.windows_reopened += 1;
                shared.metrics.windows_closed_now -= 1;
            }
            (true, true) | (false, false) => {}
        }
    }

    fn list(&mut self, shared: &mut Shared, slot: u32) {
        if shared.flows.at(slot).listed {
            return;
        }
        if self.closed.len() == self.closed.capacity() {
            // Before the list grows, flows that are gone or open leave it.
            self.closed.retain(|&id| {
                let stays = shared.flows.by_id(id).is_some_and(|flow| flow.window.is_closed());
                if !stays && shared.flows.by_id(id).is_some() {
                    shared.flows.at(id.slot).listed = false;
                }
                stays
            });
        }
        shared.flows.at(slot).listed = true;
        self.closed.push(shared.flows.id(slot));
    }

    fn mark_closed(&mut self, shared: &mut Shared, slot: u32) {
        let window = shared.flows.at(slot).window;
        if !window.is_closed() {
            self.transition_to(shared, slot, Window::Closed(window.nudge()));
        }
    }

    fn mark_open(&mut self, shared: &mut Shared, slot: u32) {
        if let Window::Closed(nudge) = shared.flows.at(slot).window {
            self.transition_to(shared, slot, Window::Reopening(nudge));
        }
    }

    /// Advertises a zero window for one flow (Algorithm 1 lines 14 and 18).
    #[cold]
    fn close(&mut self, now: Instant, shared: &mut Shared, slot: u32, out: &mut Actions) {
        let flow = shared.flows.at(slot);
        // A window that the station itself has closed is its own to open.
        if flow.window.is_closed() || !flow.has_data || flow.offer == 0 || flow.is_over() || flow.signed {
            return;
        }
        if flow.shaped == 0 {
            if release_kept_closed(shared, slot, out) {
                shared.flows.at(slot).passed = 0;
            } else if !shared.inject(slot, 0, out) {
                return;
            }
        }
        self.mark_closed(shared, slot);
        self.plan_early_opening(now, shared, slot);
    }

    /// Closes every flow of the scope, in slot order.
    #[cold]
    fn close_all(&mut self, now: Instant, shared: &mut Shared, scope: Scope, out: &mut Actions) {
        for slot in 0..shared.flows.slot_count() {
            if shared.flows.get(slot).is_some_and(|flow| scope.covers(flow.station)) {
                self.close(now, shared, slot, out);
            }
        }
    }

    /// Algorithm 1 lines 10 to 25, for a packet that was just held or dropped. Usually there is nothing to
    /// close.
    #[inline]
    pub fn close_as_needed(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) {
        if shared.space.runs_low() {
            return self.close_for_space(now, shared, out);
        }
        let flow = shared.flows.known(slot);
        let may_close =
            flow.window.is_closed() || takes_space(shared, flow) || shared.monitor.tfp(packet.station);
        if may_close && packet.origin == Origin::Arrival {
            self.close_one(now, shared, slot, packet, out);
        }
    }

    /// Closes every flow that takes too much space (Algorithm 1 lines 11 to 15).
    #[cold]
    fn close_for_space(&mut self, now: Instant, shared: &mut Shared, out: &mut Actions) {
        for slot in 0..shared.flows.slot_count() {
            if shared.flows.get(slot).is_some_and(|flow| takes_space(shared, flow)) {
                self.close(now, shared, slot, out);
            }
        }
    }

    /// Closes this flow if need be, or answers its probe (Algorithm 1 lines 16 to 25).
    #[inline(never)]
    fn close_one(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) {
        let flow = shared.flows.known(slot);
        if flow.window.is_closed() {
            // lines 22 to 24; also when only this flow was closed.
            if flow.is_probe(packet.tcp) && flow.shaped == 0 && shared.inject(slot, 0, out) {
                shared.metrics.probes_answered += 1;
            }
        } else if takes_space(shared, shared.flows.known(slot)) {
            // A flow that began, or came to hold much, after the others were closed.
            self.close(now, shared, slot, out);
        } else if shared.monitor.tfp(packet.station)
            && !flow.window.was_opened_early_in(shared.monitor.silences_of(packet.station))
        {
            let close = match shared.config.close_at {
                CloseAt::SpaceLow => false,
                // lines 17 to 19
                CloseAt::UsedUp => flow.is_window_used_up(packet.tcp.payload_len),
                CloseAt::SilenceStart => true,
            };
            if close {
                self.close(now, shared, slot, out);
            }
        }
    }

    /// A silence begins. Kept ACKs go out as zero windows on a new ACK number.
    pub fn silence_began(&mut self, now: Instant, shared: &mut Shared, scope: Scope, out: &mut Actions) {
        let mut kept = core::mem::take(&mut self.kept);
        kept.close_all(shared, scope, out, |shared, slot, out| self.close(now, shared, slot, out));
        self.kept = kept;
        if shared.config.mode != Mode::Hold && shared.config.close_at == CloseAt::SilenceStart {
            self.close_all(now, shared, scope, out);
        }
    }

    /// `freeze+nudge`: the window should be open again one wired round trip before the silence ends, so that
    /// the sender's next data arrives as the radio comes back.
    fn plan_early_opening(&mut self, now: Instant, shared: &mut Shared, slot: u32) {
        if shared.config.mode != Mode::FreezeNudge || lacks_space(shared, shared.flows.known(slot)) {
            return;
        }
        let flow = shared.flows.at(slot);
        let Some(end) = shared.monitor.expected_end(flow.station) else { return };
        let Some(wired) = flow.wired.get() else { return };
        let at = end - wired;
        if at > now {
            let sent = flow.window.nudge().sent;
            self.plan_nudge(shared, slot, at, sent);
        }
    }

    fn plan_nudge(&mut self, shared: &mut Shared, slot: u32, at: Instant, sent: u8) {
        let id = shared.flows.id(slot);
        let window = &mut shared.flows.at(slot).window;
        *window = window.with_nudge(Nudge { at: Some(at), sent });
        self.nudges.push(Reverse((at, id)));
    }

    /// Opens a closed window again.
    pub fn reopen(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        slot: u32,
        out: &mut Actions,
    ) {
        if let Window::Closed(nudge) = shared.flows.at(slot).window {
            self.open_as(Window::Reopening(nudge), now, shared, round_trips, slot, out);
        }
    }

    /// Opens a closed window; `state` is the one that it has afterwards.
    fn open_as(
        &mut self,
        state: Window,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        slot: u32,
        out: &mut Actions,
    ) {
        self.transition_to(shared, slot, state);
        let flow = shared.flows.at(slot);
        // ACKs that wait in the shaper carry a window of their own; after a RST nobody listens.
        if flow.shaped > 0 || flow.is_over() || !tell_window(now, shared, round_trips, slot, out) {
            return;
        }
        let nudge = Nudge { sent: 1, ..state.nudge() };
        shared.flows.at(slot).window = state.with_nudge(nudge);
        if shared.config.mode == Mode::FreezeNudge {
            self.plan_nudge(shared, slot, now + shared.config.nudge_backoff, nudge.sent);
        }
    }

    /// Opens every closed window that nothing keeps closed any more.
    #[inline(never)]
    pub fn reopen_all(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        out: &mut Actions,
    ) {
        self.reopen_where(now, shared, round_trips, out, |shared, flow| {
            !lacks_space(shared, flow) && !shared.monitor.tfp(flow.station)
        });
    }

    /// Opens the window of a flow that holds less than before, if that was what kept it closed.
    #[inline]
    pub fn reopen_relieved(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        slot: u32,
        out: &mut Actions,
    ) {
        let flow = shared.flows.known(slot);
        if flow.window.is_closed()
            && shared.config.queues == Queues::Flow
            && !lacks_space(shared, flow)
            && !shared.monitor.tfp(flow.station)
        {
            self.reopen(now, shared, round_trips, slot, out);
        }
    }

    /// Opens every closed window, whatever the radio's state, and plans nothing any more.
    pub fn flush(&mut self, now: Instant, shared: &mut Shared, round_trips: &RoundTrips, out: &mut Actions) {
        self.reopen_where(now, shared, round_trips, out, |_, _| true);
        self.nudges.clear();
    }

    fn reopen_where(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        out: &mut Actions,
        may_open: impl Fn(&Shared, &Flow) -> bool,
    ) {
        let mut closed = core::mem::take(&mut self.closed);
        closed.retain(|&id| {
            let Some(flow) = shared.flows.by_id(id) else { return false };
            if !flow.window.is_closed() {
                shared.flows.at(id.slot).listed = false;
                return false;
            }
            let opens = may_open(shared, flow);
            if opens {
                shared.flows.at(id.slot).listed = false;
                self.reopen(now, shared, round_trips, id.slot, out);
            }
            !opens
        });
        debug_assert!(self.closed.is_empty(), "opening closes nothing");
        self.closed = closed;
    }

    /// Sends the early and repeated openings that are due.
    pub fn run_nudges(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        out: &mut Actions,
    ) {
        while let Some(&Reverse((at, id))) = self.nudges.peek().filter(|Reverse((at, _))| *at <= now) {
            self.nudges.pop();
            let Some(flow) = shared.flows.by_id(id) else { continue };
            if flow.window.nudge().at != Some(at) {
                continue;
            }
            let (station, sack) = (flow.station, flow.handshake.sack());
            let flow = shared.flows.at(id.slot);
            let nudge = Nudge { at: None, ..flow.window.nudge() };
            flow.window = flow.window.with_nudge(nudge);
            if flow.window.is_closed() {
                if !lacks_space(shared, shared.flows.known(id.slot)) {
                    let state = if shared.monitor.tfp(station) {
                        Window::OpenedEarly { silence: shared.monitor.silences_of(station), nudge }
                    } else {
                        Window::Reopening(nudge)
                    };
                    self.open_as(state, now, shared, round_trips, id.slot, out);
                }
                continue;
            }
            let limit = if sack { shared.config.nudges } else { shared.config.nudges.min(2) };
            if nudge.sent < limit && flow.shaped == 0 && tell_window(now, shared, round_trips, id.slot, out) {
                let pause = shared.config.nudge_backoff * (1 << u32::from(nudge.sent).min(16));
                self.plan_nudge(shared, id.slot, now + pause, nudge.sent + 1);
            }
        }
    }

    /// When the first early or repeated opening is due (it may have been called off since).
    #[inline]
    pub fn next_nudge(&self) -> Option<Instant> {
        self.nudges.peek().map(|Reverse((at, _))| *at)
    }

    /// What becomes of the window of an uplink segment that passes now, and of the flow's state with it.
    #[inline]
    pub fn pass_uplink(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &mut RoundTrips,
        slot: u32,
        tcp: &TcpSegment,
    ) -> Rewrite {
        if !tcp.flags.contains(TcpFlags::ACK) || tcp.flags.intersects(TcpFlags::RST) {
            return Rewrite::NONE;
        }
        let flow = shared.flows.at(slot);
        if flow.signed {
            flow.passed = tcp.window;
            return Rewrite::NONE;
        }
        let shift = flow.handshake.shift_of(tcp);
        let set_ece =
            flow.handshake.ecn == EcnEcho::Due && !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::ECE);
        let mut rewrite = Rewrite { set_ece, ..Rewrite::NONE };
        if tcp.flags.contains(TcpFlags::SYN) || !flow.has_data {
            flow.passed = tcp.window;
            flow.told_edge = shift.map(|shift| tcp.ack + (u32::from(tcp.window) << shift));
            return rewrite;
        }
        if must_stay_closed(shared, slot) {
            shared.flows.at(slot).passed = 0;
            if tcp.window > 0 {
                rewrite.window = Some(0);
                self.mark_closed(shared, slot);
            }
            return rewrite;
        }
        let flow = shared.flows.at(slot);
        if flow.window.is_closed() && !flow.counts {
            // Data sent again is older than the ACK that closed the window: the correspondent does not take
            // its window (RFC 9293 section 3.10.7.4), and the one that reopens it is still to come.
            return rewrite;
        }
        self.mark_open(shared, slot);
        let quiet = quiet_ahead(now, shared, slot);
        let flow = shared.flows.at(slot);
        if let (Some(wired), Some(radio)) = (flow.wired.get(), round_trips.radio_part(flow.station)) {
            let late = round_trips.allows(flow);
            round_trips.bdp.note_base(wired, radio, late);
        }
        let mut window = tcp.window;
        if let Some(shift) = shift {
            window = clamped(shared.config.clamp, round_trips, flow, quiet, tcp.ack, tcp.window, shift);
            flow.note_edge(tcp.ack, window, shift);
            look_at_edge(now, round_trips, flow);
        }
        if window < tcp.window {
            rewrite.window = Some(window);
            shared.metrics.windows_clamped += 1;
        }
        flow.passed = window;
        if window > 0 {
            flow.window.heard();
        }
        rewrite
    }

    /// The window of an ACK that leaves the shaper: zero if its flow is closed now, else what the station
    /// offered, held down as ever; none if that is the window it came with.
    #[expect(clippy::too_many_arguments, reason = "three of them are the ACK's own")]
    pub fn on_leaving_shaper(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        slot: u32,
        ack: Seq,
        window: u16,
        shift: Option<u8>,
    ) -> Option<u16> {
        if shared.flows.known(slot).signed {
            return None;
        }
        if must_stay_closed(shared, slot) {
            self.mark_closed(shared, slot);
            return Some(0);
        }
        // Decided anew: by now the correspondent may know of a further edge than when this ACK came.
        let shift = shift?;
        let quiet = quiet_ahead(now, shared, slot);
        let flow = shared.flows.at(slot);
        let told = clamped(shared.config.clamp, round_trips, flow, quiet, ack, window, shift);
        flow.note_edge(ack, told, shift);
        (told < window).then_some(told)
    }
}

/// True if the flow's window is to be closed for the space that the flow takes.
fn takes_space(shared: &Shared, flow: &Flow) -> bool {
    match shared.config.queues {
        Queues::Station => shared.space.is_low(),
        Queues::Flow => {
            let quota = shared.space.part(shared.config.flow_quota.0);
            (shared.space.is_low() && flow.held_weight >= shared.space.share(flow.station))
                || (quota > 0 && flow.held_weight > quota / 2)
        }
    }
}

/// True if the flow's window, once closed, is to stay closed for the space that the flow takes.
fn lacks_space(shared: &Shared, flow: &Flow) -> bool {
    match shared.config.queues {
        Queues::Station => shared.space.is_low(),
        Queues::Flow => {
            let quota = shared.space.part(shared.config.flow_quota.0);
            (shared.space.is_low() && flow.held_weight > shared.space.share(flow.station) / 2)
                || (quota > 0 && flow.held_weight > quota / 4)
        }
    }
}

/// True if a zero window is due on whatever passes: space is low (the paper's `hold`), or the flow was closed
/// for the space that it takes, or in a silence that still lasts.
fn must_stay_closed(shared: &Shared, slot: u32) -> bool {
    let flow = shared.flows.known(slot);
    let closed = match shared.config.queues {
        Queues::Station if shared.space.is_low() => true,
        Queues::Station => flow.window.is_closed() && shared.monitor.tfp(flow.station),
        Queues::Flow => {
            flow.window.is_closed() && (lacks_space(shared, flow) || shared.monitor.tfp(flow.station))
        }
    };
    shared.config.mode != Mode::Hold && closed
}
