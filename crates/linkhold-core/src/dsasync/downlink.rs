//! The hold buffer: packets of silent stations, and the pace at which they leave (Algorithms 1 and 2, the queues).
//!
//! Paper: `dsasync` section IV-B a, Algorithms 1 (line 9) and 2 (lines 6 to 13). Sees downlink packets and the room
//! in the transmit queue; emits `Release` and `Discard`.
//!
//! One first-in first-out queue a station, served round-robin. What is taken back from the transmit queue goes to
//! the front. A station's queue: empty → filling (silence) → draining (released in order, new arrivals behind) → empty.
//!
//! Deviations: Algorithm 2 runs on "a sufficiently frequent timer" and moves a packet of each station a turn; here a
//! packet leaves when there is room: as told by the driver, or else paced at the channel's rate, so that a release
//! never overflows the queue it feeds. The copy to replace is looked for among the first and last 32 held packets of
//! the flow only (a retransmission is of the oldest or of the newest), so that a stranger cannot make us walk a long list.

use std::collections::VecDeque;

use super::flows::{Flow, NONE};
use crate::packet::{PacketId, PacketView, StationId};
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Seq};

/// How many held packets of a flow are looked at from each end for an older copy.
const COPY_SEARCH: u32 = 32;

/// A held downlink packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub packet: PacketId,
    pub slot: u32,
    pub seq: Seq,
    pub seq_len: u32,
    pub len: u32,
    /// When it came, and how many silences there had been; `None` if it came in one.
    pub arrived: Option<(Instant, u64)>,
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
    /// As [`Held::arrived`].
    pub at: Option<(Instant, u64)>,
    /// A window probe.
    pub probe: bool,
    /// Taken back from the transmit queue: to the front.
    pub front: bool,
}

/// Bytes over a moving window, in eight steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateWindow {
    buckets: [u64; 8],
    sum: u64,
    step: u64,
}

impl RateWindow {
    fn advance(&mut self, now: Instant, window: Duration) {
        let step = now.as_nanos() / (window.as_nanos() / 8).max(1);
        let old = (self.step + 1)..=step;
        if step >= self.step + 8 {
            *self = Self::default();
        } else {
            for expired in old {
                let bucket = &mut self.buckets[(expired % 8) as usize];
                self.sum -= *bucket;
                *bucket = 0;
            }
        }
        self.step = self.step.max(step);
    }

    pub fn add(&mut self, now: Instant, window: Duration, len: u32) {
        self.advance(now, window);
        self.buckets[(self.step % 8) as usize] += u64::from(len);
        self.sum += u64::from(len);
    }

    pub fn rate(&mut self, now: Instant, window: Duration) -> BitRate {
        self.advance(now, window);
        BitRate((self.sum as f64 * 8.0 / window.as_secs_f64()) as u64)
    }
}

/// What is kept of a station.
#[derive(Clone, Debug)]
pub(super) struct Station {
    head: u32,
    tail: u32,
    held: u32,
    in_ring: bool,
    /// D_i^in.
    pub rate: RateWindow,
    /// Radio part of the base round trip.
    pub radio: super::bdp::MinFilter,
}

impl Default for Station {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            held: 0,
            in_ring: false,
            rate: RateWindow::default(),
            radio: super::bdp::MinFilter::default(),
        }
    }
}

/// Queues of held packets.
#[derive(Debug)]
pub(super) struct HoldBuffer {
    slab: Vec<Held>,
    free: u32,
    stations: Vec<Station>,
    ring: VecDeque<u32>,
    bytes: u64,
    packets: u32,
    max_stations: u32,
}

impl HoldBuffer {
    pub fn new(max_stations: u32) -> Self {
        Self {
            slab: Vec::new(),
            free: NONE,
            stations: Vec::new(),
            ring: VecDeque::new(),
            bytes: 0,
            packets: 0,
            max_stations,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// The station's record; those numbered beyond the limit share the last one.
    pub fn station(&mut self, station: StationId) -> &mut Station {
        let index = station.0.min(self.max_stations) as usize;
        if index >= self.stations.len() {
            self.stations.resize(index + 1, Station::default());
        }
        &mut self.stations[index]
    }

    /// Radio part of the station's base round trip, once measured.
    pub fn radio_part(&self, station: StationId) -> Option<Duration> {
        self.stations.get(station.0.min(self.max_stations) as usize)?.radio.get()
    }

    /// True while packets of the station are held: later ones must queue behind.
    pub fn has(&self, station: StationId) -> bool {
        self.packets > 0
            && self
                .stations
                .get(station.0.min(self.max_stations) as usize)
                .is_some_and(|station| station.held > 0)
    }

    /// A held copy of this segment that the new one may stand in for: same sequence number, and not longer. A
    /// window probe stands in for an earlier one of its kind.
    pub fn older_copy(&self, flow: &Flow, packet: &PacketView<'_>, probe: bool) -> Option<u32> {
        let (seq, seq_len) = (packet.tcp.seq, packet.tcp.seq_len());
        if flow.held == 0 || (seq_len == 0 && !probe) {
            return None;
        }
        let is_copy = |held: &Held| {
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
        self.bytes = self.bytes - u64::from(held.len) + u64::from(packet.len);
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
    pub fn push(&mut self, flow: &mut Flow, slot: u32, packet: &PacketView<'_>, how: Arrived) {
        let station = packet.station.0.min(self.max_stations);
        self.station(packet.station);
        let held = Held {
            packet: packet.id,
            slot,
            seq: packet.tcp.seq,
            seq_len: packet.tcp.seq_len(),
            len: packet.len,
            arrived: how.at,
            probe: how.probe,
            station,
            prev: NONE,
            next: NONE,
            flow_prev: NONE,
            flow_next: NONE,
        };
        let index = match self.slab.get(self.free as usize) {
            Some(unused) => {
                let index = self.free;
                self.free = unused.next;
                self.slab[index as usize] = held;
                index
            }
            None => {
                self.slab.push(held);
                (self.slab.len() - 1) as u32
            }
        };
        self.link(index, how.front);
        self.link_flow(flow, index, how.front);
        self.bytes += u64::from(held.len);
        self.packets += 1;
        let record = &mut self.stations[station as usize];
        record.held += 1;
        if !record.in_ring {
            record.in_ring = true;
            self.ring.push_back(station);
        }
    }

    fn link(&mut self, index: u32, front: bool) {
        let record = &mut self.stations[self.slab[index as usize].station as usize];
        if front {
            let old = core::mem::replace(&mut record.head, index);
            self.slab[index as usize].next = old;
            match self.slab.get_mut(old as usize) {
                Some(other) => other.prev = index,
                None => record.tail = index,
            }
        } else {
            let old = core::mem::replace(&mut record.tail, index);
            self.slab[index as usize].prev = old;
            match self.slab.get_mut(old as usize) {
                Some(other) => other.next = index,
                None => record.head = index,
            }
        }
    }

    fn link_flow(&mut self, flow: &mut Flow, index: u32, front: bool) {
        flow.held += 1;
        if front {
            let old = core::mem::replace(&mut flow.held_head, index);
            self.slab[index as usize].flow_next = old;
            match self.slab.get_mut(old as usize) {
                Some(other) => other.flow_prev = index,
                None => flow.held_tail = index,
            }
        } else {
            let old = core::mem::replace(&mut flow.held_tail, index);
            self.slab[index as usize].flow_prev = old;
            match self.slab.get_mut(old as usize) {
                Some(other) => other.flow_next = index,
                None => flow.held_head = index,
            }
        }
    }

    /// Takes a packet out of the middle of its queues.
    pub fn remove(&mut self, flow: &mut Flow, index: u32) -> Held {
        let held = self.slab[index as usize];
        let record = &mut self.stations[held.station as usize];
        match self.slab.get_mut(held.prev as usize) {
            Some(other) => other.next = held.next,
            None => record.head = held.next,
        }
        match self.slab.get_mut(held.next as usize) {
            Some(other) => other.prev = held.prev,
            None => record.tail = held.prev,
        }
        match self.slab.get_mut(held.flow_prev as usize) {
            Some(other) => other.flow_next = held.flow_next,
            None => flow.held_head = held.flow_next,
        }
        match self.slab.get_mut(held.flow_next as usize) {
            Some(other) => other.flow_prev = held.flow_prev,
            None => flow.held_tail = held.flow_prev,
        }
        flow.held -= 1;
        record.held -= 1;
        self.bytes -= u64::from(held.len);
        self.packets -= 1;
        self.slab[index as usize].next = self.free;
        self.free = index;
        if self.packets == 0 {
            self.reset_ring();
        }
        held
    }

    fn reset_ring(&mut self) {
        while let Some(station) = self.ring.pop_front() {
            self.stations[station as usize].in_ring = false;
        }
    }

    /// The next packet to leave: the first of the next station in turn that may receive.
    pub fn next(&mut self, may_receive: impl Fn(StationId) -> bool) -> Option<u32> {
        for _ in 0..self.ring.len() {
            let station = *self.ring.front()?;
            let record = &mut self.stations[station as usize];
            if record.held == 0 {
                record.in_ring = false;
                self.ring.pop_front();
            } else if may_receive(StationId(station)) {
                return Some(record.head);
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
    pub fn any_may_leave(&self, may_receive: impl Fn(StationId) -> bool) -> bool {
        self.packets > 0
            && self
                .ring
                .iter()
                .any(|&station| self.stations[station as usize].held > 0 && may_receive(StationId(station)))
    }

    /// The held packet at an index from [`next`](Self::next).
    pub fn get(&self, index: u32) -> Held {
        self.slab[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_window() {
        let window = Duration::from_millis(800);
        let mut rate = RateWindow::default();
        for ms in 0..1600 {
            rate.add(Instant::from_millis(ms), window, 1000);
        }
        let full = rate.rate(Instant::from_millis(1600), window).as_bps();
        assert!((7_000_000..=8_000_000).contains(&full), "{full}");
        assert_eq!(rate.rate(Instant::from_millis(2500), window), BitRate(0));
    }
}
