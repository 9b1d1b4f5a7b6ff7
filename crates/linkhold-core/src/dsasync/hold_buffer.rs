//! The hold buffer: packets of silent stations, in queues (Algorithms 1 and 2).
//!
//! Paper: `dsasync` section IV-B a, Algorithms 1 (line 9) and 2 (lines 6 to 13). Keeps packets; [`Downlink`]
//! decides what is held and when it leaves.
//!
//! One first-in first-out queue a station, served round-robin. What is taken back from the transmit queue
//! goes to the front. A station's queue: empty → filling (silence) → draining (released in order, new
//! arrivals behind) → empty.
//!
//! Deviation: the copy to replace is looked for among the first and last 32 held packets of the flow only (a
//! retransmission is of the oldest or of the newest), so that a stranger cannot make us walk a long list.
//!
//! [`Downlink`]: super::downlink::Downlink

use std::collections::VecDeque;

use super::flow::Flow;
use super::per_station::PerStation;
use crate::packet::{PacketId, PacketView, StationId};
use crate::time::Instant;
use crate::units::Seq;

/// No slot, no packet: the end of an intrusive list.
pub(super) const NONE: u32 = u32::MAX;

/// In place of a count of silences: no count equals it.
pub(super) const IN_SILENCE: u64 = u64::MAX;

/// How many held packets of a flow are looked at from each end for an older copy.
const COPY_SEARCH: u32 = 32;

/// A held downlink packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldSegment {
    pub packet: PacketId,
    pub slot: u32,
    pub seq: Seq,
    pub seq_len: u32,
    pub len: u32,
    /// When it came.
    pub arrived: Instant,
    /// How many silences there had been; [`IN_SILENCE`] if it came in one, or back from the transmit queue.
    pub silences: u64,
    probe: bool,
    station: u32,
    prev: u32,
    next: u32,
    flow_prev: u32,
    flow_next: u32,
}

/// How a packet came to be held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub at: Instant,
    /// As [`HeldSegment::silences`].
    pub silences: u64,
    /// A window probe.
    pub probe: bool,
    /// Taken back from the transmit queue: to the front.
    pub front: bool,
}

/// The held packets of one station.
#[derive(Debug)]
struct StationQueue {
    head: u32,
    tail: u32,
    held: u32,
    in_ring: bool,
}

impl Default for StationQueue {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, held: 0, in_ring: false }
    }
}

/// Queues of held packets.
#[derive(Debug)]
pub(super) struct HoldBuffer {
    slab: Vec<HeldSegment>,
    free: u32,
    stations: PerStation<StationQueue>,
    /// Stations that hold packets, in turn; some may have become empty since.
    ring: VecDeque<u32>,
    packets: u32,
}

impl HoldBuffer {
    pub fn new(max_stations: u32) -> Self {
        Self {
            slab: Vec::new(),
            free: NONE,
            stations: PerStation::new(max_stations),
            ring: VecDeque::new(),
            packets: 0,
        }
    }

    /// Packets held.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// True while packets of the station are held: later ones must queue behind.
    pub fn has(&self, station: StationId) -> bool {
        self.packets > 0 && self.stations.get(station).is_some_and(|queue| queue.held > 0)
    }

    /// A held copy of this segment that the new one may stand in for: same sequence number, and not longer. A
    /// window probe stands in for an earlier one of its kind.
    #[inline(never)]
    pub fn older_copy(&self, flow: &Flow, packet: &PacketView<'_>, probe: bool) -> Option<u32> {
        let (seq, seq_len) = (packet.tcp.seq, packet.tcp.seq_len());
        if flow.held == 0 || (seq_len == 0 && !probe) {
            return None;
        }
        let is_copy = |held: &HeldSegment| {
            held.seq == seq
                && if seq_len == 0 { held.probe } else { held.seq_len > 0 && held.seq_len <= seq_len }
        };
        let (mut front, mut back) = (flow.held_head, flow.held_tail);
        for _ in 0..COPY_SEARCH.min(flow.held) {
            let (first, last) = (self.slab.get(front as usize)?, self.slab.get(back as usize)?);
            if is_copy(last) {
                return Some(back);
            }
            if is_copy(first) {
                return Some(front);
            }
            (front, back) = (first.flow_next, last.flow_prev);
        }
        None
    }

    /// Puts the newer copy in the older one's place; returns the older packet.
    pub fn replace(&mut self, index: u32, packet: &PacketView<'_>) -> PacketId {
        let held = &mut self.slab[index as usize];
        let older = held.packet;
        held.packet = packet.id;
        held.len = packet.len;
        held.seq_len = packet.tcp.seq_len();
        older
    }

    /// Length of a held packet, bytes.
    pub fn len_of(&self, index: u32) -> u32 {
        self.slab[index as usize].len
    }

    /// Adds a packet at the end of its station's queue, or at the front if it was taken back.
    #[inline]
    pub fn push(&mut self, flow: &mut Flow, slot: u32, packet: &PacketView<'_>, how: Arrived) {
        let unused = self.slab.get(self.free as usize);
        let index = if unused.is_some() { self.free } else { self.slab.len() as u32 };
        let after = unused.map_or(NONE, |unused| unused.next);
        let station = self.stations.number(packet.station);
        let queue = self.stations.at(packet.station);
        queue.held += 1;
        flow.held += 1;
        if !queue.in_ring {
            queue.in_ring = true;
            self.ring.push_back(station);
        }
        let (prev, next) = join(&mut queue.head, &mut queue.tail, index, how.front);
        let (flow_prev, flow_next) = join(&mut flow.held_head, &mut flow.held_tail, index, how.front);
        if let Some(other) = self.slab.get_mut(prev as usize) {
            other.next = index;
        }
        if let Some(other) = self.slab.get_mut(next as usize) {
            other.prev = index;
        }
        if let Some(other) = self.slab.get_mut(flow_prev as usize) {
            other.flow_next = index;
        }
        if let Some(other) = self.slab.get_mut(flow_next as usize) {
            other.flow_prev = index;
        }
        let held = HeldSegment {
            packet: packet.id,
            slot,
            seq: packet.tcp.seq,
            seq_len: packet.tcp.seq_len(),
            len: packet.len,
            arrived: how.at,
            silences: how.silences,
            probe: how.probe,
            station,
            prev,
            next,
            flow_prev,
            flow_next,
        };
        match self.slab.get_mut(index as usize) {
            Some(place) => {
                *place = held;
                self.free = after;
            }
            None => self.slab.push(held),
        }
        self.packets += 1;
    }

    /// Takes a packet out of the middle of its queues. It can be looked at until the next `push`.
    pub fn remove(&mut self, flow: &mut Flow, index: u32) -> &HeldSegment {
        let HeldSegment { station, prev, next, flow_prev, flow_next, .. } = self.slab[index as usize];
        let queue = self.stations.at(StationId(station));
        match self.slab.get_mut(prev as usize) {
            Some(other) => other.next = next,
            None => queue.head = next,
        }
        match self.slab.get_mut(next as usize) {
            Some(other) => other.prev = prev,
            None => queue.tail = prev,
        }
        match self.slab.get_mut(flow_prev as usize) {
            Some(other) => other.flow_next = flow_next,
            None => flow.held_head = flow_next,
        }
        match self.slab.get_mut(flow_next as usize) {
            Some(other) => other.flow_prev = flow_prev,
            None => flow.held_tail = flow_prev,
        }
        flow.held -= 1;
        queue.held -= 1;
        self.packets -= 1;
        self.slab[index as usize].next = self.free;
        self.free = index;
        if self.packets == 0 {
            self.reset_ring();
        }
        &self.slab[index as usize]
    }

    #[inline(never)]
    fn reset_ring(&mut self) {
        while let Some(station) = self.ring.pop_front() {
            self.stations.at(StationId(station)).in_ring = false;
        }
    }

    /// The next packet to leave: the first of the next station in turn that may receive.
    #[inline]
    pub fn next(&mut self, may_receive: impl Fn(StationId) -> bool) -> Option<u32> {
        for _ in 0..self.ring.len() {
            let station = *self.ring.front()?;
            let queue = self.stations.at(StationId(station));
            if queue.held == 0 {
                queue.in_ring = false;
                self.ring.pop_front();
            } else if may_receive(StationId(station)) {
                return Some(queue.head);
            } else {
                self.ring.rotate_left(1);
            }
        }
        None
    }

    /// Ends the turn of the station that `next` chose.
    pub fn end_turn(&mut self) {
        if !self.ring.is_empty() {
            self.ring.rotate_left(1);
        }
    }

    /// True if a packet could leave now but for the pace.
    #[inline(never)]
    pub fn any_may_leave(&self, may_receive: impl Fn(StationId) -> bool) -> bool {
        let may_leave =
            |station| self.stations.get(station).is_some_and(|queue| queue.held > 0) && may_receive(station);
        self.ring.iter().any(|&station| may_leave(StationId(station)))
    }

    /// The flow that a held packet belongs to.
    pub fn slot_of(&self, index: u32) -> u32 {
        self.slab[index as usize].slot
    }
}

/// Makes a packet the first (`front`) or last of a list, and answers its neighbours before and behind it.
/// Their own links are still to be set.
fn join(head: &mut u32, tail: &mut u32, index: u32, front: bool) -> (u32, u32) {
    let (prev, next) = if front { (NONE, *head) } else { (*tail, NONE) };
    if prev == NONE {
        *head = index;
    }
    if next == NONE {
        *tail = index;
    }
    (prev, next)
}
