//! What comes up: evidence for the copies, and what of it the sender hears.
//!
//! Source and rules: `recover.rs`, `recover/hide.rs`. Sees believed uplink packets; emits `Forget`, verdicts
//! on ACKs, and the release of those kept back.

use super::hide::{Blocks, Covered, Hidden, MOST_HIDDEN, MOST_HIDING, may_wait};
use super::state::{Mute, Phase};
use super::{Heard, Recover};
use crate::action::{Action, Actions, DropReason, Rewrite};
use crate::copies::suspects::Judging;
use crate::dsasync::pacer::Pacer;
use crate::dsasync::round_trip::RoundTrips;
use crate::dsasync::shared::Shared;
use crate::dsasync::uplink::UplinkMode;
use crate::dsasync::windows::Windows;
use crate::packet::{PacketView, TcpFlags, TcpSegment};
use crate::time::Instant;
use crate::units::Seq;

impl Recover {
    /// A believed segment came from the station, where copies are kept.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "three of them are other parts that it reads")]
    pub fn on_uplink(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        pacer: &Pacer,
        slot: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> Heard {
        let tcp = packet.tcp;
        *self.heard.at(packet.station) = now;
        let heard_any = core::mem::replace(&mut self.heard_any, now);
        let Some(state) = self.states.get_mut(slot as usize) else { return Heard::Pass };
        if !tcp.flags.contains(TcpFlags::ACK) || tcp.flags.intersects(TcpFlags::RST | TcpFlags::SYN) {
            return Heard::Pass;
        }
        let before = state.last;
        if before.is_some_and(|(acked, _)| tcp.ack.before(acked)) {
            return Heard::Pass;
        }
        state.last = Some((tcp.ack, tcp.window));
        state.repeated.take_if(|(_, last)| !last.after(tcp.ack));
        if state.is_mute(now.since(state.heard.max(heard_any))) && state.copies.suspect_fine() {
            // A silence that nobody has told of may have taken what these are copies of.
            if state.phase == Phase::Quiet {
                state.phase = Phase::Watching { until: now + state.tail(), waits: 0 };
            }
        }
        state.heard = now;
        if state.mute != Mute::No {
            self.end_mute(slot, Mute::No);
        }
        let state = &mut self.states[slot as usize];
        state.sacks |= !tcp.sack.is_empty();
        if state.is_idle() {
            return Heard::Pass;
        }
        self.judge_by(now, shared, round_trips, pacer, slot, packet, before, out)
    }

    #[expect(clippy::too_many_arguments, reason = "three of them are other parts that it reads")]
    fn judge_by(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        pacer: &Pacer,
        slot: u32,
        packet: &PacketView<'_>,
        before: Option<(Seq, u16)>,
        out: &mut Actions,
    ) -> Heard {
        let tcp = packet.tcp;
        let blocks = Blocks::of(tcp);
        let state = &mut self.states[slot as usize];
        let done = state.copies.acknowledge(now, tcp.ack, out);
        state.measured(now, done.took, done.first);
        shared.metrics.count(done);
        if let Some(timestamp) = tcp.timestamp {
            shared.metrics.count(state.copies.taken_timestamp(timestamp.echo, out));
        }
        let received = state.copies.received(now, blocks.above, out);
        let arrived = received.freed > 0;
        shared.metrics.count(received);
        let advances = before.is_none_or(|(acked, _)| tcp.ack.after(acked));
        let says_new = advances || before.is_some_and(|(_, window)| tcp.window != window);
        let repeats = !says_new && tcp.is_pure_ack() && tcp.sack.is_empty() && !state.sacks;
        let how = self.judging(now, shared, pacer, slot);
        let state = &mut self.states[slot as usize];
        if repeats && !shared.flows.known(slot).handshake.sack() {
            state.copies.first_is_missing(now, tcp.ack, &how, state.ack_patience());
        }
        // Data of the station repeats an acknowledgment for as long as its window lasts, and answers no copy.
        let answers = advances || arrived || blocks.d_sack.is_some() || tcp.is_pure_ack();
        self.look(now, slot, &how, answers);
        let state = &mut self.states[slot as usize];
        let tells_of_hole = !blocks.above.is_empty() || repeats;
        // No block is left. A copy of what is merely under way repairs no hole, whatever losses count.
        let under_repair = Judging { all: false, ..how };
        if !tells_of_hole && !state.copies.repairs(tcp.ack, &under_repair) {
            state.hide_until = None;
        }
        if tells_of_hole && self.hide(now, shared, round_trips, slot, packet, &blocks, &how) {
            return Heard::Hidden;
        }
        self.hear_double(now, shared, slot, tcp, &blocks, says_new)
    }

    /// Keeps the ACK from the sender if the hole that it tells of is being repaired. False if it may pass.
    #[expect(clippy::too_many_arguments, reason = "two of them are other parts that it reads")]
    fn hide(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        slot: u32,
        packet: &PacketView<'_>,
        blocks: &Blocks<'_>,
        how: &Judging,
    ) -> bool {
        let (tcp, state) = (packet.tcp, &mut self.states[slot as usize]);
        // A D-SACK of the sender's own copy is news that must not get lost with an ACK that another covers.
        let own = |double| !state.explains(now, &double);
        if shared.config.uplink.mode != UplinkMode::Off
            || !may_wait(tcp)
            || blocks.d_sack.is_some_and(own)
            || !state.copies.repairs(tcp.ack, how)
            || state.hidden.len() >= MOST_HIDDEN
            || !shared.space.fits(packet.len, 0)
        {
            return false;
        }
        let flow = shared.flows.at(slot);
        let (Some(wired), Some(radio)) = (flow.wired.get(), round_trips.radio_part(flow.station)) else {
            return false;
        };
        let most = (wired + radio).mul_f64(0.5).min(MOST_HIDING);
        let until = *state.hide_until.get_or_insert(now + most);
        if until <= now {
            return false;
        }
        state.hidden.push_back(Hidden {
            packet: packet.id,
            len: packet.len,
            ack: tcp.ack,
            highest: blocks.highest(tcp.ack),
            window: tcp.window,
            shift: flow.handshake.shift_of(tcp),
            signed: flow.signed,
            counts: flow.counts,
        });
        flow.shaped += u32::from(flow.counts);
        self.hidden += 1;
        shared.space.take(packet.len);
        shared.metrics.holds += 1;
        self.plan(slot, until);
        true
    }

    /// What becomes of an ACK that may pass: a D-SACK that a copy of ours explains is not for the sender.
    fn hear_double(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        tcp: &TcpSegment,
        blocks: &Blocks<'_>,
        says_new: bool,
    ) -> Heard {
        let state = &self.states[slot as usize];
        let Some(double) = blocks.d_sack.filter(|_| blocks.above.is_empty() && may_wait(tcp)) else {
            return Heard::Pass;
        };
        if !state.explains(now, &double) {
            return Heard::Pass;
        }
        // This ACK says all that those kept back say, so the sender has to hear it.
        if !says_new && state.hidden.is_empty() {
            shared.metrics.dropped[DropReason::RepairedHere as usize] += 1;
            return Heard::Dropped;
        }
        let flow = shared.flows.known(slot);
        let open = !flow.window.is_closed() && !shared.space.is_low();
        if open && !flow.signed { Heard::Stripped } else { Heard::Pass }
    }

    /// A packet of the flow passes now: ACKs that were kept back go before it, or are covered by it.
    /// `believed`: its ACK number is the station's.
    #[expect(
        clippy::too_many_arguments,
        reason = "two of them are other parts, which show what was kept back"
    )]
    #[inline]
    pub fn before_passing(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        slot: u32,
        tcp: &TcpSegment,
        believed: bool,
        out: &mut Actions,
    ) {
        if self.hidden == 0 {
            return;
        }
        let tells = believed && tcp.flags.contains(TcpFlags::ACK) && !tcp.flags.contains(TcpFlags::RST);
        let counts = shared.flows.known(slot).counts;
        let covered = tells.then_some(Covered { ack: tcp.ack, counts });
        self.show(now, shared, windows, round_trips, slot, covered, out);
    }

    /// Releases the ACKs of a flow that were kept back, but throws away those that `covered` makes needless.
    #[expect(clippy::too_many_arguments, reason = "two of them are other parts that it reads")]
    #[cold]
    pub(super) fn show(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        slot: u32,
        covered: Option<Covered>,
        out: &mut Actions,
    ) {
        let Some(state) = self.states.get_mut(slot as usize) else { return };
        for ack in state.hidden.drain(..) {
            self.hidden -= 1;
            shared.space.give_back(ack.len);
            shared.flows.at(slot).shaped -= u32::from(ack.counts);
            if covered.is_some_and(|covered| covered.covers(&ack)) {
                shared.discard(ack.packet, DropReason::RepairedHere, out);
                continue;
            }
            let mut rewrite = Rewrite::NONE;
            if !ack.signed && shared.flows.known(slot).has_data {
                rewrite.window =
                    windows.on_leaving_shaper(now, shared, round_trips, slot, ack.ack, ack.window, ack.shift);
            }
            shared.flows.at(slot).passed = rewrite.window.unwrap_or(ack.window);
            shared.metrics.released += 1;
            out.push(Action::Release { packet: ack.packet, rewrite });
        }
    }
}
