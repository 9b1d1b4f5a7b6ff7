//! The last ACK before an announced silence, kept back so that a zero window can leave on an ACK number that
//! is new.
//!
//! Not in the paper (`dsasync`). Linux before 6.6 ignores a zero window that repeats ACK and sequence number;
//! on an ACK that it has not seen yet it takes the window.
//!
//! An ACK: kept → released with a zero window (the silence begins), or as it came (another uplink packet of
//! its flow, or the silence does not begin in time).

use super::Mode;
use super::flow::{Kept, KeptAck};
use super::flow_table::FlowId;
use super::shared::Shared;
use crate::action::{Action, Actions, Rewrite, Verdict};
use crate::link_event::Scope;
use crate::packet::PacketView;
use crate::time::{Duration, Instant};

/// After the announced start of a silence that does not come, a kept ACK waits no longer than this.
const GRACE: Duration = Duration::from_millis(1);

/// The flows that have an ACK kept back, each once. Some may have released it since.
#[derive(Debug)]
pub(super) struct KeptAcks {
    flows: Vec<FlowId>,
    /// No ACK has waited long enough before this. Not looked up for each packet: there may be as many as
    /// there are flows.
    first: Instant,
}

impl Default for KeptAcks {
    fn default() -> Self {
        Self { flows: Vec::new(), first: Instant::FAR_FUTURE }
    }
}

impl KeptAcks {
    /// Keeps the ACK back, or forwards it with `rewrite`.
    #[inline]
    pub fn keep_back(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        rewrite: Rewrite,
    ) -> Verdict {
        if !shared.config.keep_back || shared.config.mode != Mode::FreezeNudge {
            return Verdict::Forward(rewrite);
        }
        self.keep_back_before_silence(now, shared, slot, packet, rewrite)
    }

    fn keep_back_before_silence(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        rewrite: Rewrite,
    ) -> Verdict {
        let tells_window = packet.tcp.is_pure_ack() && packet.tcp.window > 0;
        if !tells_window || shared.monitor.tfp(packet.station) {
            return Verdict::Forward(rewrite);
        }
        let flow = shared.flows.at(slot);
        if !flow.has_data || flow.window.is_closed() || flow.signed {
            return Verdict::Forward(rewrite);
        }
        let Some((start, _)) = shared.monitor.next_announced_silence(now, packet.station) else {
            return Verdict::Forward(rewrite);
        };
        if start.since(now) > shared.config.keep_back_delay || !shared.space.fits(packet.len, 0) {
            return Verdict::Forward(rewrite);
        }
        let deadline = start.max(now) + GRACE;
        let ack = KeptAck { packet: packet.id, rewrite, len: packet.len, deadline };
        let before = core::mem::replace(&mut flow.kept, Kept::Ack(ack));
        if matches!(before, Kept::No) {
            self.flows.push(shared.flows.id(slot));
        }
        self.first = self.first.min(deadline);
        shared.space.take(packet.len);
        shared.metrics.holds += 1;
        Verdict::Hold
    }

    /// Releases the ACKs that have waited long enough.
    #[inline]
    pub fn expire(&mut self, now: Instant, shared: &mut Shared, out: &mut Actions) {
        if self.first <= now {
            self.release_expired(now, shared, out);
        }
    }

    #[cold]
    fn release_expired(&mut self, now: Instant, shared: &mut Shared, out: &mut Actions) {
        self.retain(shared, |shared, id, ack| {
            if ack.deadline <= now {
                release_kept(shared, id.slot, out);
            }
        });
    }

    /// Calls `close` for each flow of `scope` that has an ACK kept back, and releases the ACK if `close` did
    /// not.
    pub fn close_all(
        &mut self,
        shared: &mut Shared,
        scope: Scope,
        out: &mut Actions,
        mut close: impl FnMut(&mut Shared, u32, &mut Actions),
    ) {
        self.retain(shared, |shared, id, _| {
            if scope.covers(shared.flows.at(id.slot).station) {
                close(shared, id.slot, out);
                // The station had closed the window itself: the ACK goes as it is.
                release_kept(shared, id.slot, out);
            }
        });
    }

    /// Calls `look` for each flow that has an ACK kept back, and drops those from the list that have none
    /// then.
    fn retain(&mut self, shared: &mut Shared, mut look: impl FnMut(&mut Shared, FlowId, &KeptAck)) {
        self.first = Instant::FAR_FUTURE;
        self.flows.retain(|&id| {
            if let Some(ack) = shared.flows.by_id(id).and_then(|flow| flow.kept.ack()) {
                look(shared, id, &ack);
            }
            // `look` may have forgotten the flow.
            let Some(flow) = shared.flows.by_id(id) else { return false };
            let Some(ack) = flow.kept.ack() else {
                shared.flows.at(id.slot).kept = Kept::No;
                return false;
            };
            self.first = self.first.min(ack.deadline);
            true
        });
    }

    /// When an ACK may have waited long enough: no later than the first has.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        (self.first < Instant::FAR_FUTURE).then_some(self.first)
    }

    /// How many ACKs are kept.
    pub fn count(&self, shared: &Shared) -> usize {
        self.flows
            .iter()
            .filter(|&&id| shared.flows.by_id(id).is_some_and(|flow| flow.kept.ack().is_some()))
            .count()
    }
}

/// Releases a flow's kept ACK as it would have left when it came. False if it has none.
#[inline]
pub(super) fn release_kept(shared: &mut Shared, slot: u32, out: &mut Actions) -> bool {
    matches!(shared.flows.at(slot).kept, Kept::Ack(_)) && release(shared, slot, None, out)
}

/// Releases a flow's kept ACK with a zero window. False if it has none.
pub(super) fn release_kept_closed(shared: &mut Shared, slot: u32, out: &mut Actions) -> bool {
    release(shared, slot, Some(0), out)
}

#[cold]
fn release(shared: &mut Shared, slot: u32, window: Option<u16>, out: &mut Actions) -> bool {
    let flow = shared.flows.at(slot);
    let Some(kept) = flow.kept.ack() else { return false };
    flow.kept = Kept::Gone;
    shared.space.give_back(kept.len);
    shared.metrics.released += 1;
    let rewrite = Rewrite { window: window.or(kept.rewrite.window), ..kept.rewrite };
    out.push(Action::Release { packet: kept.packet, rewrite });
    true
}
