//! The way of an uplink packet: its window, the shaper, and the ACK kept back before a silence.
//!
//! Paper: `dsasync` section IV-B b ("buffers the inbound ACKs"), Algorithms 3 and 4 by way of `uplink.rs`. Sees uplink
//! packets; emits verdicts and `Release`. An ACK: arrived → (shaped | kept back) → passed on, with the window that is
//! right when it leaves.
//!
//! Deviation: keeping the last ACK back is not in the paper. Linux before 6.6 ignores a zero window that repeats ACK and
//! sequence number; on an ACK it has not yet seen it takes it.

use super::flows::KeptAck;
use super::uplink::{UplinkMode, UplinkVerdict};
use super::{DsaSync, Mode};
use crate::action::{Action, Actions, DropReason, Rewrite, Verdict};
use crate::link_event::Scope;
use crate::packet::{PacketId, PacketView, TcpFlags};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// After the announced start of a silence that does not come, a kept ACK waits no longer than this.
const KEEP_BACK_GRACE: Duration = Duration::from_millis(1);

/// An uplink packet in the shaper. The shaper knows it by its index here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaped {
    packet: PacketId,
    slot: u32,
    generation: u32,
    ack: Seq,
    window: u16,
    /// ACK and window mean something (not on a RST).
    tells: bool,
    shift: Option<u8>,
    rewrite: Rewrite,
}

impl DsaSync {
    pub(super) fn on_uplink(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let Some(slot) = self.flow_of(now, packet, out) else {
            return Verdict::Forward(Rewrite::NONE);
        };
        let before = self.flows.at(slot).outstanding();
        self.flows.at(slot).on_uplink(packet.tcp);
        let after = self.flows.at(slot).outstanding();
        self.outstanding = self.outstanding + after - before;
        if !self.monitor.tfp(packet.station)
            && self.bdp.on_delivered(now, before.saturating_sub(after), self.outstanding)
            && let Some(pace) = self.bdp.pace()
        {
            self.pacer.set_rate(now, pace, false);
        }
        let flow = self.flows.at(slot);
        if let (Some(probe), Some(acked)) = (flow.radio_probe, flow.acked)
            && !acked.before(probe.end)
        {
            flow.radio_probe = None;
            if probe.silences == self.monitor.silences() && !self.monitor.tfp(packet.station) {
                let time = now.since(probe.at);
                if probe.empty {
                    self.buffer.station(packet.station).radio.add(now, time);
                }
                if let Some((at, ahead)) = probe.answered(acked)
                    && let Some(radio) = self.buffer.radio_part(packet.station)
                {
                    self.pacer.on_waited(now, at, ahead, now.since(at).saturating_sub(radio));
                }
                if let Some(arrived) = probe.arrived {
                    self.bdp.on_radio_time(now, now.since(arrived));
                }
            }
        }
        if let Some(kept) = self.flows.at(slot).kept.take() {
            self.release_kept(kept, kept.rewrite, out);
        }
        let rewrite = self.pass_uplink(slot, packet.tcp);
        let verdict = if self.config.uplink.mode == UplinkMode::Off {
            self.probe_wired(now, slot, packet.tcp);
            self.keep_back(now, slot, packet, rewrite)
        } else {
            self.shape(now, slot, packet, rewrite, out)
        };
        let flow = self.flows.at(slot);
        if flow.is_over() && flow.held == 0 {
            self.forget(now, slot, out);
        }
        match verdict {
            // The verdict takes effect before the actions: forwarded, it would overtake what this call releases.
            Verdict::Forward(rewrite)
                if out.as_slice().iter().any(|action| matches!(action, Action::Release { .. })) =>
            {
                self.metrics.holds += 1;
                self.metrics.released += 1;
                out.push(Action::Release { packet: packet.id, rewrite });
                Verdict::Hold
            }
            Verdict::Forward(_) | Verdict::Hold | Verdict::Drop(_) => verdict,
        }
    }

    /// Hands an uplink packet to the shaper (Algorithms 3 and 4).
    pub(super) fn shape(
        &mut self,
        now: Instant,
        slot: u32,
        packet: &PacketView<'_>,
        rewrite: Rewrite,
        out: &mut Actions,
    ) -> Verdict {
        let alpha = match self.config.uplink.mode {
            UplinkMode::Off => return Verdict::Forward(rewrite),
            UplinkMode::PerStation => self.monitor.alpha(now, packet.station),
            UplinkMode::Pooled => self.monitor.alpha_network(now),
        };
        let flow = self.flows.at(slot);
        let entry = Shaped {
            packet: packet.id,
            slot,
            generation: flow.generation,
            ack: packet.tcp.ack,
            window: packet.tcp.window,
            tells: packet.tcp.flags.contains(TcpFlags::ACK) && !packet.tcp.flags.contains(TcpFlags::RST),
            // The window of a SYN is never held down.
            shift: flow.shift_of(packet.tcp).filter(|_| !packet.tcp.flags.contains(TcpFlags::SYN)),
            rewrite,
        };
        if self.free_bytes() < u64::from(packet.len) {
            // B_alloc bounds both directions; what waits here goes first, in order.
            self.shaper.flush(|id| self.due.push(id));
            self.release_due(out);
            return Verdict::Forward(self.leaving(&entry));
        }
        let index = self.shaped_free.pop().unwrap_or(self.shaped.len() as u32);
        match self.shaped.get_mut(index as usize) {
            Some(place) => *place = entry,
            None => self.shaped.push(entry),
        }
        let id = PacketId(u64::from(index));
        let mut rewrite = rewrite;
        let mut verdict = self.shaper.on_packet(now, packet.station, id, packet.len, alpha);
        if verdict == UplinkVerdict::Full {
            self.shaper.make_room(now, packet.len, |id| self.due.push(id));
            self.release_due(out);
            rewrite = self.leaving(&entry);
            verdict = self.shaper.on_packet(now, packet.station, id, packet.len, alpha);
        }
        match verdict {
            UplinkVerdict::Hold => {
                self.flows.at(slot).shaped += 1;
                self.metrics.holds += 1;
                self.note_peak();
                Verdict::Hold
            }
            UplinkVerdict::Forward => {
                self.shaped_free.push(index);
                self.probe_wired(now, slot, packet.tcp);
                Verdict::Forward(rewrite)
            }
            UplinkVerdict::Full => {
                self.shaped_free.push(index);
                self.drop_packet(DropReason::BufferFull)
            }
        }
    }

    /// What becomes of an ACK that leaves now, whatever was decided when it came: ACKs released since have told the
    /// correspondent more.
    fn leaving(&mut self, entry: &Shaped) -> Rewrite {
        let mut rewrite = entry.rewrite;
        if !entry.tells {
            return rewrite;
        }
        if entry.window > 0 && self.flows.at(entry.slot).has_data {
            rewrite.window = self.window_on_release(entry);
        }
        self.flows.at(entry.slot).passed = rewrite.window.unwrap_or(entry.window);
        rewrite
    }

    /// Releases what the shaper has let go, with the window that is right now.
    pub(super) fn release_due(&mut self, out: &mut Actions) {
        let mut due = core::mem::take(&mut self.due);
        for id in due.drain(..) {
            let index = id.0 as u32;
            let entry = self.shaped[index as usize];
            self.shaped_free.push(index);
            let own = self.flows.get(entry.slot).is_some_and(|flow| flow.generation == entry.generation);
            let rewrite = if own {
                self.flows.at(entry.slot).shaped -= 1;
                self.leaving(&entry)
            } else {
                // The flow is forgotten, and what was decided when this ACK came with it: by now the correspondent may
                // know of a further edge. The station's own window is never below that.
                Rewrite { window: None, ..entry.rewrite }
            };
            self.metrics.released += 1;
            out.push(Action::Release { packet: entry.packet, rewrite });
        }
        self.due = due;
    }

    /// The window of an ACK that leaves the shaper: zero if its flow is closed now, else what the station offered,
    /// held down as ever; none if that is the window it came with.
    pub(super) fn window_on_release(&mut self, entry: &Shaped) -> Option<u16> {
        if self.must_stay_closed(entry.slot) {
            self.mark_closed(entry.slot);
            return Some(0);
        }
        // Decided anew: by now the correspondent may know of a further edge than when this ACK came.
        let shift = entry.shift?;
        let window = self.clamped(entry.slot, entry.ack, entry.window, shift);
        let flow = self.flows.at(entry.slot);
        let edge = entry.ack + (u32::from(window) << shift);
        flow.edge = Some(flow.edge.map_or(edge, |old| old.max(edge)));
        (window < entry.window).then_some(window)
    }

    /// Keeps the last ACK before an announced silence back (`keep_back`).
    pub(super) fn keep_back(
        &mut self,
        now: Instant,
        slot: u32,
        packet: &PacketView<'_>,
        rewrite: Rewrite,
    ) -> Verdict {
        let wanted = self.config.keep_back
            && self.config.mode == Mode::FreezeNudge
            && packet.tcp.is_pure_ack()
            && packet.tcp.window > 0;
        let flow = self.flows.at(slot);
        if !wanted || !flow.has_data || flow.closed || self.monitor.tfp(packet.station) {
            return Verdict::Forward(rewrite);
        }
        let Some((start, _)) = self.monitor.next_announced_silence(now, packet.station) else {
            return Verdict::Forward(rewrite);
        };
        let room = self.free_bytes() >= u64::from(packet.len);
        if start.since(now) > self.config.keep_back_delay || !room {
            return Verdict::Forward(rewrite);
        }
        let deadline = start.max(now) + KEEP_BACK_GRACE;
        let flow = self.flows.at(slot);
        flow.kept = Some(KeptAck { packet: packet.id, rewrite, len: packet.len, deadline });
        let generation = flow.generation;
        if !self.kept.contains(&(slot, generation)) {
            self.kept.push((slot, generation));
        }
        self.kept_bytes += u64::from(packet.len);
        self.metrics.holds += 1;
        self.note_peak();
        Verdict::Hold
    }

    /// The announced silence is there: the kept ACKs go out as zero windows on a new ACK number.
    pub(super) fn close_kept(&mut self, now: Instant, scope: Scope, out: &mut Actions) {
        let mut kept = core::mem::take(&mut self.kept);
        kept.retain(|&(slot, generation)| {
            let Some(flow) = self.flows.get(slot) else { return false };
            if flow.generation != generation || flow.kept.is_none() {
                return false;
            }
            if !scope.covers(flow.station) {
                return true;
            }
            self.close(now, slot, out);
            // The station had closed the window itself: the ACK goes as it is.
            if let Some(kept) = self.flows.at(slot).kept.take() {
                self.release_kept(kept, kept.rewrite, out);
            }
            false
        });
        self.kept = kept;
    }

    pub(super) fn expire_kept(&mut self, now: Instant, out: &mut Actions) {
        let mut kept = core::mem::take(&mut self.kept);
        kept.retain(|&(slot, generation)| {
            let Some(flow) = self.flows.get(slot).filter(|flow| flow.generation == generation) else {
                return false;
            };
            match flow.kept {
                None => false,
                Some(ack) if ack.deadline > now => true,
                Some(ack) => {
                    self.flows.at(slot).kept = None;
                    self.release_kept(ack, ack.rewrite, out);
                    false
                }
            }
        });
        self.kept = kept;
    }

    pub(super) fn next_kept(&self) -> Option<Instant> {
        self.kept.iter().filter_map(|&(slot, _)| self.flows.get(slot)?.kept.map(|kept| kept.deadline)).min()
    }
}
