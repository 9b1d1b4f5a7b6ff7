//! What goes down: what is held, and when it leaves (Algorithms 1 and 2, the queues).
//!
//! Paper: `dsasync` section IV-B a, Algorithms 1 (line 9) and 2 (lines 6 to 10). Sees downlink packets; emits
//! `Hold`, `Drop` and `Discard`, and answers what may leave now. The packets are in a [`HoldBuffer`], the
//! time is a [`Pacer`]'s.
//!
//! Deviations: Algorithm 2 runs on "a sufficiently frequent timer" and moves a packet of each station a turn;
//! here a packet leaves when there is room, as told by the driver or else by the pace, so that a release
//! never overflows the queue it feeds. A packet that does not fit into B_alloc is dropped (the paper does not
//! say).

use super::config::{DsaSyncConfig, Duplicates};
use super::flow::Flow;
use super::hold_buffer::{Arrived, HoldBuffer, IN_SILENCE, NONE};
use super::pacer::Pacer;
use super::round_trip::SentDown;
use super::shared::Shared;
use crate::action::{Actions, DropReason, Verdict};
use crate::packet::{Origin, PacketId, PacketView, StationId};
use crate::time::Instant;

/// A held packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub packet: PacketId,
    /// Its flow.
    pub slot: u32,
    pub sent: SentDown,
}

/// Held downlink packets and the pace at which they leave.
#[derive(Debug)]
pub(super) struct Downlink {
    buffer: HoldBuffer,
    pub pacer: Pacer,
}

impl Downlink {
    pub fn new(config: &DsaSyncConfig) -> Self {
        Self {
            buffer: HoldBuffer::new(config.monitor.max_stations),
            pacer: Pacer::new(config.assumed_capacity, config.transmit_queue),
        }
    }

    /// Packets held.
    pub fn packets(&self) -> u32 {
        self.buffer.packets()
    }

    /// True while packets of the station are held.
    pub fn has(&self, station: StationId) -> bool {
        self.buffer.has(station)
    }

    /// An arrival for the station has to wait though the radio works: behind a queue that still drains, or
    /// the flow would be reordered, or because the transmit queue holds enough.
    #[inline]
    pub fn must_wait(&self, now: Instant, station: StationId) -> bool {
        self.buffer.has(station) || self.pacer.must_wait(now)
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
        let freed = older.map_or(0, |index| self.buffer.len_of(index));
        if !shared.space.fits(packet.len, freed)
            || (older.is_none() && self.buffer.packets() >= shared.config.max_held_packets)
        {
            return shared.drop_packet(DropReason::BufferFull);
        }
        if let Some(index) = older {
            let older = self.buffer.replace(index, packet);
            shared.space.give_back(freed);
            shared.discard(older, DropReason::Superseded, out);
        } else {
            let counts = arrival && !shared.monitor.tfp(packet.station);
            let silences = if counts { shared.monitor.silences() } else { IN_SILENCE };
            self.buffer.push(flow, slot, packet, Arrived { at: now, silences, probe, front: !arrival });
        }
        shared.space.take(packet.len);
        shared.metrics.holds += 1;
        Verdict::Hold
    }

    /// Algorithm 2 lines 6 to 10: takes out the next packet that may leave now.
    #[inline]
    pub fn pop(&mut self, now: Instant, shared: &mut Shared) -> Option<Leaving> {
        if self.buffer.packets() == 0 {
            return None;
        }
        let monitor = &shared.monitor;
        let index = self.buffer.next(|station| !monitor.tfp(station))?;
        if !self.pacer.allows(now, self.buffer.len_of(index)) {
            return None;
        }
        Some(self.take(shared, index))
    }

    /// Takes out the next packet, whatever radio and pace say.
    pub fn pop_any(&mut self, shared: &mut Shared) -> Option<Leaving> {
        let index = self.buffer.next(|_| true)?;
        Some(self.take(shared, index))
    }

    #[inline]
    fn take(&mut self, shared: &mut Shared, index: u32) -> Leaving {
        let slot = self.buffer.slot_of(index);
        let held = self.buffer.remove(shared.flows.at(slot), index);
        // What a silence kept here says nothing of the queue that stands outside silences.
        let arrived = (held.silences == shared.monitor.silences()).then_some(held.arrived);
        let (end, seq_len, len) = (held.seq + held.seq_len, held.seq_len, held.len);
        let leaving = Leaving { packet: held.packet, slot, sent: SentDown { end, seq_len, len, arrived } };
        self.buffer.end_turn();
        shared.space.give_back(len);
        leaving
    }

    /// Discards what is held of a flow that leaves the table.
    pub fn forget(&mut self, shared: &mut Shared, slot: u32, out: &mut Actions) {
        let head = |flow: &mut Flow| Some(flow.held_head).filter(|&head| head != NONE);
        while let Some(index) = head(shared.flows.at(slot)) {
            let held = self.buffer.remove(shared.flows.at(slot), index);
            shared.space.give_back(held.len);
            shared.discard(held.packet, DropReason::FlowEvicted, out);
        }
    }

    /// When the next packet may leave, if that is a matter of time.
    #[inline]
    pub fn next_timeout(&self, shared: &Shared) -> Option<Instant> {
        if self.buffer.packets() == 0 {
            return None;
        }
        let at = self.pacer.next_time()?;
        let monitor = &shared.monitor;
        let may_leave = !monitor.any_tfp() || self.buffer.any_may_leave(|station| !monitor.tfp(station));
        may_leave.then_some(at)
    }
}
