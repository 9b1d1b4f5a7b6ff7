//! The hold buffer: packets that wait, in queues served fairly (Algorithms 1 and 2, RFC 8290).
//!
//! Paper: `dsasync` section IV-B a, Algorithms 1 (line 9) and 2 (lines 6 to 13); RFC 8290 sections 4.1 and
//! 4.2; who is new: [`virtual_time`](super::virtual_time). Keeps packets; [`Downlink`] decides what is held
//! and when it leaves.
//!
//! Stations are served by deficit round robin, and within a station its queues, new ones first in both: a
//! station or flow that seldom has anything here hardly waits, and none has more than its part for having
//! more flows or longer packets. A flow of which the station has acknowledged something has a queue of its
//! own; all other flows of a station share one, so that a flood with ever new ports is one queue's worth of
//! traffic. SYNs of such flows have a small one beside it, or a connection that begins would wait in the
//! flood. Datagrams of flows that the station has not answered share another. With [`Queues::Station`] (the
//! paper's) every flow of a station is in that one queue, which is then first-in first-out over the station,
//! and stations are served in turn, a packet each (Algorithm 2). What is taken back from the transmit queue
//! goes to the front.
//!
//! A queue: empty → new (its first packet) → old (its quantum is used up) → empty. If it has had more than an
//! equal part lately, it goes from empty to old, with what is left of its quantum; if it has not, it goes
//! from old to new when it gets a packet after it ran empty. A station: empty → new → old → empty or empty →
//! old → empty in the same way; new or old → blocked (silent) → old. A flow stays in its queue until it holds
//! nothing, so that its order is kept; from the common queue it moves to its own, with all that it holds,
//! when its station has answered. (A flow that always holds something would stay among strangers for ever.)
//! With what is no SYN it moves from the SYNs' queue to the common one. When its station gets another number
//! it moves along: an agent gives an address a number of its own once it has heard from it.
//!
//! Room is made by the longest queue of the station that has most here, so that a station cannot push another
//! out by its number of flows. A packet counts with its bytes, but at least as many as there are in the
//! buffer for each of the most packets: so the longest queue is also the one that costs most memory.
//!
//! Deviation: the copy to replace is looked for among the first and last 32 held packets of the flow only (a
//! retransmission is of the oldest or of the newest), so that a stranger cannot make us walk a long list.
//!
//! [`Downlink`]: super::downlink::Downlink
//! [`Queues::Station`]: super::config::Queues::Station

use super::codel::CoDel;
use super::config::{DsaSyncConfig, Queues};
use super::flow::{Flow, Transport};
use super::held::{Arrived, HeldSegment, NONE, is_data, tells, tick};
use super::longest::Longest;
use super::queues::{EMPTY, OnList, Queue, Ring, StationQueues, Turn, join};
use super::virtual_time::{Tag, VirtualTime};
use crate::packet::{PacketId, PacketView, StationId};

/// How many held packets of a flow are looked at from each end for an older copy.
const COPY_SEARCH: u32 = 32;

/// Least quantum, bytes: a full packet (RFC 8290 section 5.2.3). A longer packet raises the quantum to its
/// length, so that a turn always sends one.
const QUANTUM: u32 = 1514;

/// Whose packets may give way to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    All,
    OwnStation,
}

/// Held packets.
#[derive(Debug)]
pub(super) struct HoldBuffer {
    slab: Vec<HeldSegment>,
    free: u32,
    kind: Queues,
    /// First the common queue of each station, then that of its datagrams, then that of its SYNs, then the
    /// queue of each flow by its slot.
    queues: Vec<Queue>,
    /// Stations from this number on share one record.
    max_stations: u32,
    stations: Vec<StationQueues>,
    /// New and old stations that hold packets and may be served, in turn. Some may have become empty or
    /// silent since.
    fresh: Ring,
    ring: Ring,
    /// Stations that were silent when their turn came.
    blocked: Vec<u32>,
    /// Stations by the weight of the segments held for them.
    heaviest: Longest,
    /// Queues of datagrams, of all stations.
    longest_datagrams: Longest,
    /// What all queues of datagrams weigh, bytes.
    datagrams: u64,
    /// Of the stations.
    time: VirtualTime,
    quantum: u32,
    /// Least that a packet weighs.
    least: u64,
    packets: u32,
}

impl HoldBuffer {
    pub fn new(config: &DsaSyncConfig) -> Self {
        Self {
            slab: Vec::new(),
            free: NONE,
            kind: config.queues,
            queues: Vec::new(),
            max_stations: config.monitor.max_stations,
            stations: Vec::new(),
            fresh: Ring::EMPTY,
            ring: Ring::EMPTY,
            blocked: Vec::new(),
            heaviest: Longest::default(),
            longest_datagrams: Longest::default(),
            datagrams: 0,
            time: VirtualTime::default(),
            quantum: QUANTUM,
            least: config.b_alloc.0 / u64::from(config.max_held_packets),
            packets: 0,
        }
    }

    /// Packets held.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// True while packets of the station are held.
    pub fn has(&self, station: StationId) -> bool {
        self.packets > 0
            && self.stations.get(self.number(station) as usize).is_some_and(|station| station.held > 0)
    }

    fn number(&self, station: StationId) -> u32 {
        station.0.min(self.max_stations)
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

    /// What a packet of this length counts as, bytes.
    pub fn weight(&self, len: u32) -> u64 {
        u64::from(len).max(self.least)
    }

    /// Puts the newer copy in the older one's place; returns the older packet.
    pub fn replace(&mut self, flow: &mut Flow, index: u32, packet: &PacketView<'_>) -> PacketId {
        let HeldSegment { packet: older, len, queue, .. } = self.slab[index as usize];
        let (before, after) = (self.weight(len), self.weight(packet.len));
        let held = &mut self.slab[index as usize];
        (held.packet, held.len, held.seq_len) = (packet.id, packet.len, packet.tcp.seq_len());
        held.tells = tells(packet.tcp);
        held.is_data = is_data(packet.tcp);
        held.tick = tick(packet.tcp);
        self.quantum = self.quantum.max(packet.len);
        flow.held_weight = flow.held_weight - before + after;
        let weight = self.queues[queue as usize].weight - before + after;
        self.weigh(queue, weight);
        older
    }

    /// A held packet.
    pub fn segment(&self, index: u32) -> &HeldSegment {
        &self.slab[index as usize]
    }

    /// The station of the queue that a held packet is in.
    pub fn station_of(&self, index: u32) -> StationId {
        StationId(self.queues[self.slab[index as usize].queue as usize].station)
    }

    /// The CoDel state of the held packet's queue, the queue's station, and whether the queue holds more than
    /// two full packets: CoDel leaves a shorter queue alone, since its sender needs it.
    pub fn codel_of(&mut self, held: &HeldSegment) -> (&mut CoDel, StationId, bool) {
        let queue = &mut self.queues[held.queue as usize];
        let is_long = queue.weight > 2 * u64::from(self.quantum);
        (&mut queue.codel, StationId(queue.station), is_long)
    }

    /// What all held datagrams weigh, bytes.
    pub fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Index of the queue of station 0's SYNs.
    fn first_opening(&self) -> u32 {
        2 * (self.max_stations + 1)
    }

    /// Index of the queue of the flow in slot 0.
    fn first_own(&self) -> u32 {
        3 * (self.max_stations + 1)
    }

    fn is_of_openings(&self, queue: u32) -> bool {
        (self.first_opening()..self.first_own()).contains(&queue)
    }

    /// What all SYNs of connections that the station has not answered weigh, bytes.
    pub fn opening_weight(&self, station: StationId) -> u64 {
        let queue = self.first_opening() + self.number(station);
        self.queues.get(queue as usize).map_or(0, |queue| queue.weight)
    }

    /// Stations that hold segments of connections.
    pub fn stations(&self) -> u32 {
        self.heaviest.queues()
    }

    /// Stations that hold segments of connections, and queues of this station that do.
    pub fn shared_by(&self, station: StationId) -> (u32, u32) {
        let of = self.stations.get(self.number(station) as usize);
        (self.heaviest.queues(), of.map_or(0, |station| station.longest.queues()))
    }

    /// The queue that a packet of this flow goes to, and that queue's station. `opens`: it goes to the queue
    /// of SYNs, unless its flow has a queue of its own.
    fn queue_for(&self, flow: &Flow, slot: u32, station: StationId, opens: bool) -> (u32, u32) {
        if let Some(held) = self.slab.get(flow.held_tail as usize).filter(|_| flow.held > 0) {
            let (queue, station) = (held.queue, self.queues[held.queue as usize].station);
            let leaves = !opens && self.is_of_openings(queue);
            return (if leaves { station } else { queue }, station);
        }
        self.queue_of_none(flow, slot, self.number(station), opens)
    }

    /// The same for a flow that holds nothing.
    #[inline]
    fn queue_of_none(&self, flow: &Flow, slot: u32, station: u32, opens: bool) -> (u32, u32) {
        let own = match self.kind {
            Queues::Flow => flow.is_answered(),
            Queues::Station => false,
        };
        let common = match flow.transport {
            Transport::Tcp if opens && self.kind == Queues::Flow => self.first_opening() + station,
            Transport::Tcp => station,
            Transport::Udp => self.max_stations + 1 + station,
        };
        (if own { self.first_own() + slot } else { common }, station)
    }

    /// Weight of the queue that this flow's next packet would join, with what would move there before it, and
    /// whether that queue is the flow's own.
    pub fn weight_before(&self, flow: &Flow, slot: u32, station: StationId, opens: bool) -> (u64, bool) {
        let (queue, _) = self.queue_for(flow, slot, station, opens);
        let held = self.slab.get(flow.held_tail as usize).filter(|_| flow.held > 0);
        let moves = if held.is_some_and(|held| held.queue != queue) { flow.held_weight } else { 0 };
        (self.queues.get(queue as usize).map_or(0, |queue| queue.weight) + moves, queue >= self.first_own())
    }

    /// Weight of all segments held for the station whose queue this flow's next packet would join.
    pub fn station_weight(&self, flow: &Flow, slot: u32, station: StationId) -> u64 {
        let (_, station) = self.queue_for(flow, slot, station, false);
        self.stations.get(station as usize).map_or(0, |station| station.weight)
    }

    /// The held packet that gives way to a segment of this flow.
    ///
    /// With [`Among::All`]: if the heaviest station is another and holds more than this flow's would with the
    /// segment, the head of its longest queue. Otherwise the head of the longest queue of this flow's
    /// station, if it is another and longer than the flow's would become.
    pub fn first_of_longer(
        &self,
        flow: &Flow,
        slot: u32,
        packet: &PacketView<'_>,
        opens: bool,
        among: Among,
    ) -> Option<u32> {
        let (own, station) = self.queue_for(flow, slot, packet.station, opens);
        let weight = self.weight(packet.len);
        let heaviest = self.heaviest.longest()?;
        let own_station = self.stations.get(station as usize);
        let others = &self.stations[heaviest as usize];
        if among == Among::All
            && heaviest != station
            && others.weight > own_station.map_or(0, |own| own.weight) + weight
        {
            return Some(self.queues[others.longest.longest()? as usize].head);
        }
        let longest = own_station?.longest.longest()?;
        let own_weight = self.queues.get(own as usize).map_or(0, |queue| queue.weight);
        let queue = &self.queues[longest as usize];
        (longest != own && queue.weight > own_weight + weight).then_some(queue.head)
    }

    /// The head of the queue that this flow's next packet would join.
    pub fn first_of_own(&self, flow: &Flow, slot: u32, station: StationId) -> Option<u32> {
        let (own, _) = self.queue_for(flow, slot, station, false);
        self.queues.get(own as usize).map(|queue| queue.head).filter(|&head| head != NONE)
    }

    /// The head of the longest queue of a transport: of all queues of datagrams, or of the heaviest station's
    /// queues of segments.
    pub fn first_of_longest(&self, transport: Transport) -> Option<u32> {
        let longest = match transport {
            Transport::Udp => self.longest_datagrams.longest()?,
            Transport::Tcp => self.stations[self.heaviest.longest()? as usize].longest.longest()?,
        };
        Some(self.queues[longest as usize].head)
    }

    /// Adds a packet at the end of its queue, or at the front if it was taken back. True if queues came into
    /// use or ran empty by it.
    #[inline]
    pub fn push(&mut self, flow: &mut Flow, slot: u32, packet: &PacketView<'_>, how: Arrived) -> bool {
        let moved = flow.held > 0
            && (flow.is_answered() && self.leave_common(flow, slot)
                || !how.opens && self.leave_openings(flow));
        let (queue, station) = self.queue_for(flow, slot, packet.station, how.opens);
        self.make_room(queue, station);
        let index = if self.free == NONE { self.slab.len() as u32 } else { self.free };
        let weight = self.weight(packet.len);
        self.quantum = self.quantum.max(packet.len);
        let to = &mut self.queues[queue as usize];
        to.transport = flow.transport;
        let total = to.weight + weight;
        flow.held += 1;
        flow.held_weight += weight;
        let (mut prev, mut next, mut flow_prev, mut flow_next) = (NONE, NONE, NONE, NONE);
        if how.front {
            next = join(&mut to.head, &mut to.tail, index);
            flow_next = join(&mut flow.held_head, &mut flow.held_tail, index);
            if let Some(other) = self.slab.get_mut(next as usize) {
                other.prev = index;
            }
            if let Some(other) = self.slab.get_mut(flow_next as usize) {
                other.flow_prev = index;
            }
        } else {
            prev = to.append(&mut self.slab, index);
            flow_prev = join(&mut flow.held_tail, &mut flow.held_head, index);
            if let Some(other) = self.slab.get_mut(flow_prev as usize) {
                other.flow_next = index;
            }
        }
        let held = HeldSegment {
            packet: packet.id,
            slot,
            tells: tells(packet.tcp),
            seq: packet.tcp.seq,
            seq_len: packet.tcp.seq_len(),
            len: packet.len,
            tick: tick(packet.tcp),
            is_data: is_data(packet.tcp),
            arrived: how.at,
            silences: how.silences,
            probe: how.probe,
            queue,
            prev,
            next,
            flow_prev,
            flow_next,
        };
        match self.slab.get_mut(index as usize) {
            Some(place) => {
                self.free = place.next;
                *place = held;
            }
            None => self.slab.push(held),
        }
        self.packets += 1;
        self.enlist(queue, station, total == weight);
        self.weigh(queue, total);
        moved || total == weight
    }

    /// An answered flow that holds packets leaves the common queue. True if it was in that.
    #[inline]
    fn leave_common(&mut self, flow: &Flow, slot: u32) -> bool {
        let from = self.slab[flow.held_tail as usize].queue;
        let leaves = self.kind == Queues::Flow && from < self.first_own();
        if leaves {
            let station = self.queues[from as usize].station;
            self.change_queue(flow, from, self.first_own() + slot, station);
        }
        leaves
    }

    /// A flow is this station's from now on, and moves there with all that it holds. Answers whose it was, if
    /// it was another's.
    #[inline]
    pub fn follow(&mut self, flow: &Flow, slot: u32, station: StationId) -> Option<StationId> {
        let from = self.slab.get(flow.held_tail as usize).filter(|_| flow.held > 0)?.queue;
        let (home, station) = (self.queues[from as usize].station, self.number(station));
        if home == station || self.kind == Queues::Station {
            return None;
        }
        let (to, _) = self.queue_of_none(flow, slot, station, self.is_of_openings(from));
        self.change_queue(flow, from, to, station);
        Some(StationId(home))
    }

    /// A flow gets a packet that is no SYN, and leaves the queue of SYNs. True if it was in that.
    #[inline]
    fn leave_openings(&mut self, flow: &Flow) -> bool {
        let from = self.slab[flow.held_tail as usize].queue;
        let leaves = self.is_of_openings(from);
        if leaves {
            let station = from - self.first_opening();
            self.change_queue(flow, from, station, station);
        }
        leaves
    }

    /// Moves all that a flow holds from one queue to the end of another, which is `station`'s. Its own queue
    /// may go with it from one station to another.
    #[inline(never)]
    fn change_queue(&mut self, flow: &Flow, from: u32, to: u32, station: u32) {
        self.make_room(to, station);
        let home = self.queues[from as usize].station;
        let left = self.queues[from as usize].weight - flow.held_weight;
        if from == to {
            self.weigh(from, left);
            self.end(from);
            self.delist(from);
        } else {
            self.queues[to as usize].transport = flow.transport;
            let mut index = flow.held_head;
            while let Some(&HeldSegment { prev, next, flow_next, .. }) = self.slab.get(index as usize) {
                self.queues[from as usize].unlink(&mut self.slab, prev, next);
                let prev = self.queues[to as usize].append(&mut self.slab, index);
                let held = &mut self.slab[index as usize];
                (held.queue, held.prev, held.next) = (to, prev, NONE);
                index = flow_next;
            }
        }
        if home != station {
            self.hand_over(home, station, flow.held);
        }
        let before = self.queues[to as usize].weight;
        if before == 0 {
            self.begin(to, station);
        }
        if from != to {
            self.weigh(from, left);
        }
        self.weigh(to, before + flow.held_weight);
        if from != to && left == 0 {
            self.end(from);
        }
    }

    /// So many packets that were one station's are another's.
    fn hand_over(&mut self, from: u32, to: u32, packets: u32) {
        let old = &mut self.stations[from as usize];
        old.held -= packets;
        if old.held == 0 {
            self.time.end(&mut old.tag);
        }
        let new = &mut self.stations[to as usize];
        let is_first = new.held == 0;
        new.held += packets;
        if is_first {
            self.enlist_station(to);
        }
    }

    /// Makes sure that the records of a queue and its station are there.
    #[inline]
    fn make_room(&mut self, queue: u32, station: u32) {
        if queue as usize >= self.queues.len() || station as usize >= self.stations.len() {
            self.grow(queue, station);
        }
    }

    #[cold]
    fn grow(&mut self, queue: u32, station: u32) {
        let queues = self.queues.len().max(queue as usize + 1);
        let stations = self.stations.len().max(station as usize + 1);
        self.queues.resize(queues, EMPTY);
        self.stations.resize_with(stations, StationQueues::idle);
    }

    /// Puts a queue that got a packet, its `first`, on its station's list, and the station into a ring.
    #[inline]
    fn enlist(&mut self, index: u32, station: u32, first: bool) {
        let owner = &mut self.stations[station as usize];
        owner.held += 1;
        if owner.held == 1 {
            self.enlist_station(station);
        }
        if first {
            self.begin(index, station);
        }
    }

    /// Puts a station that got its first packet into a ring, unless it is still in one.
    #[inline(never)]
    fn enlist_station(&mut self, number: u32) {
        let station = &mut self.stations[number as usize];
        let is_new = self.time.begin(&station.tag);
        if station.turn != Turn::None {
            return;
        }
        if is_new || self.kind == Queues::Station {
            station.deficit = i64::from(self.quantum);
        }
        if is_new && self.kind == Queues::Flow {
            station.turn = Turn::New;
            self.fresh.push_back(&mut self.stations, number);
        } else {
            station.turn = Turn::Old;
            self.ring.push_back(&mut self.stations, number);
        }
    }

    /// Puts a queue that got its first packet on a list of the station's. If it has had more than its part
    /// lately, it keeps its turn among the old ones, or gets the last.
    #[inline(never)]
    fn begin(&mut self, index: u32, station: u32) {
        let queue = &mut self.queues[index as usize];
        if queue.station != station {
            queue.tag = Tag::NEW;
        }
        let owner = &mut self.stations[station as usize];
        if owner.time.begin(&queue.tag) {
            // It may still be on a list, if it ran empty there.
            self.delist(index);
            let queue = &mut self.queues[index as usize];
            queue.list = OnList::New;
            queue.station = station;
            queue.deficit = i64::from(self.quantum);
            self.stations[station as usize].new.push_back(&mut self.queues, index);
        } else if queue.list == OnList::None {
            queue.list = OnList::Old;
            owner.old.push_back(&mut self.queues, index);
        }
    }

    /// A queue has run empty.
    #[inline(never)]
    fn end(&mut self, index: u32) {
        let queue = &mut self.queues[index as usize];
        self.stations[queue.station as usize].time.end(&mut queue.tag);
    }

    /// Notes the weight of a queue, which knows its station.
    #[inline]
    fn weigh(&mut self, index: u32, weight: u64) {
        let queue = &mut self.queues[index as usize];
        let old = core::mem::replace(&mut queue.weight, weight);
        if queue.transport == Transport::Udp {
            self.datagrams = self.datagrams + weight - old;
            self.longest_datagrams.update(&mut self.queues, index, weight);
            return;
        }
        let number = queue.station;
        let station = &mut self.stations[number as usize];
        let total = station.weight - old + weight;
        station.weight = total;
        station.longest.update(&mut self.queues, index, weight);
        self.heaviest.update(&mut self.stations, number, total);
    }

    /// Takes a packet out of the middle of its queue. It can be looked at until the next `push`. True if its
    /// queue is empty now.
    pub fn remove(&mut self, flow: &mut Flow, index: u32) -> (&HeldSegment, bool) {
        let HeldSegment { queue, prev, next, flow_prev, flow_next, len, .. } = self.slab[index as usize];
        let weight = self.weight(len);
        let from = &mut self.queues[queue as usize];
        from.unlink(&mut self.slab, prev, next);
        match self.slab.get_mut(flow_prev as usize) {
            Some(other) => other.flow_next = flow_next,
            None => flow.held_head = flow_next,
        }
        match self.slab.get_mut(flow_next as usize) {
            Some(other) => other.flow_prev = flow_prev,
            None => flow.held_tail = flow_prev,
        }
        let (left, station) = (from.weight - weight, from.station);
        flow.held -= 1;
        flow.held_weight -= weight;
        let owner = &mut self.stations[station as usize];
        owner.held -= 1;
        if owner.held == 0 {
            self.time.end(&mut owner.tag);
        }
        self.packets -= 1;
        self.slab[index as usize].next = self.free;
        self.free = index;
        self.weigh(queue, left);
        if left == 0 {
            self.end(queue);
        }
        if self.packets == 0 {
            self.reset();
        }
        (&self.slab[index as usize], left == 0)
    }

    /// Nothing is held any more: takes every station's turn away.
    #[inline(never)]
    fn reset(&mut self) {
        self.fresh.clear(&mut self.stations);
        self.ring.clear(&mut self.stations);
        for station in self.blocked.drain(..) {
            self.stations[station as usize].turn = Turn::None;
        }
        self.quantum = QUANTUM;
    }

    /// A flow leaves the table: its slot's queue, which is empty, may go to another flow.
    pub fn forget(&mut self, slot: u32) {
        let index = self.first_own() + slot;
        let Some(&queue) = self.queues.get(index as usize) else { return };
        debug_assert!(queue.head == NONE, "a flow leaves only once it holds nothing");
        self.delist(index);
        self.queues[index as usize] = EMPTY;
    }

    /// Takes a queue off its station's list.
    fn delist(&mut self, index: u32) {
        let Queue { list, station, .. } = self.queues[index as usize];
        match list {
            OnList::None => return,
            OnList::New => self.stations[station as usize].new.remove(&mut self.queues, index),
            OnList::Old => self.stations[station as usize].old.remove(&mut self.queues, index),
        }
        self.queues[index as usize].list = OnList::None;
    }

    #[inline]
    fn make_old(&mut self, index: u32) {
        let Queue { list, station, prev, next, .. } = self.queues[index as usize];
        // The only old queue is the last of them already.
        if list != OnList::Old || prev != NONE || next != NONE {
            self.move_to_old(index, station);
        }
    }

    /// Puts a queue at the end of its station's old ones.
    #[inline(never)]
    fn move_to_old(&mut self, index: u32, station: u32) {
        self.delist(index);
        self.queues[index as usize].list = OnList::Old;
        self.stations[station as usize].old.push_back(&mut self.queues, index);
    }

    /// The station that is next in turn: the first of the new ones, or else of the old ones.
    fn first(&self) -> Option<u32> {
        let first = if self.fresh.head == NONE { self.ring.head } else { self.fresh.head };
        (first != NONE).then_some(first)
    }

    /// Brings a station to the front that holds packets, has a part of its quantum left and is not silent.
    /// False if there is none.
    #[inline]
    pub fn settle(&mut self, silent: impl Fn(StationId) -> bool) -> bool {
        while let Some(number) = self.first() {
            let station = &mut self.stations[number as usize];
            let next = if station.held == 0 {
                // One that ran empty while new becomes an old one first, as a queue does (see `next`).
                if station.turn == Turn::New && self.ring.head != NONE { Turn::Old } else { Turn::None }
            } else if silent(StationId(number)) {
                Turn::Blocked
            } else if station.deficit <= 0 {
                station.deficit += i64::from(self.quantum);
                Turn::Old
            } else {
                return true;
            };
            let turn = core::mem::replace(&mut station.turn, next);
            let ring = if turn == Turn::New { &mut self.fresh } else { &mut self.ring };
            ring.pop_front(&self.stations);
            match next {
                Turn::Old => self.ring.push_back(&mut self.stations, number),
                Turn::Blocked => self.blocked.push(number),
                Turn::None | Turn::New => {}
            }
        }
        false
    }

    /// True if the first station in turn holds packets and may be served. One that is alone gets its next
    /// quantum at once, since no other would have a turn before it.
    #[inline]
    pub fn first_has_turn(&mut self) -> bool {
        let Some(number) = self.first() else { return false };
        let alone = self.fresh.head == NONE && self.ring.head == self.ring.tail;
        let station = &mut self.stations[number as usize];
        if alone && station.held > 0 && station.deficit <= 0 {
            station.deficit += i64::from(self.quantum);
        }
        station.held > 0 && station.deficit > 0
    }

    /// A silence is over: stations that were blocked have a turn again.
    pub fn unblock(&mut self) {
        for number in self.blocked.drain(..) {
            self.stations[number as usize].turn = Turn::Old;
            self.ring.push_back(&mut self.stations, number);
        }
    }

    /// Gives the station a turn again if it was blocked. Its caller knows that it may be served now.
    pub fn unblock_one(&mut self, station: StationId) {
        let number = self.number(station);
        if self.stations.get(number as usize).is_some_and(|station| station.turn == Turn::Blocked)
            && let Some(index) = self.blocked.iter().position(|&blocked| blocked == number)
        {
            self.blocked.remove(index);
            self.stations[number as usize].turn = Turn::Old;
            self.ring.push_back(&mut self.stations, number);
        }
    }

    /// The next packet to leave, of the station that [`settle`](Self::settle) brought to the front (RFC 8290
    /// section 4.2).
    #[inline]
    pub fn next(&mut self) -> Option<u32> {
        let station = self.first()? as usize;
        loop {
            let StationQueues { new, old, .. } = &self.stations[station];
            let (new, old) = (*new, *old);
            let (index, is_new) = if new.head == NONE { (old.head, false) } else { (new.head, true) };
            let queue = self.queues.get_mut(index as usize)?;
            if queue.head == NONE {
                // A new queue that ran empty becomes an old one first: coming back as new at once, it could
                // starve the old ones.
                if is_new && old.head != NONE {
                    self.make_old(index);
                } else {
                    self.delist(index);
                }
            } else if queue.deficit <= 0 {
                queue.deficit += i64::from(self.quantum);
                self.make_old(index);
            } else {
                return Some(queue.head);
            }
        }
    }

    /// Some held packet: the next one of the first station in turn, silent or not.
    pub fn any(&mut self) -> Option<u32> {
        self.unblock();
        if self.settle(|_| false) { self.next() } else { None }
    }

    /// Charges the packet that `next` chose, which is about to leave, to its queue and station.
    #[inline]
    pub fn charge(&mut self, held: &HeldSegment) {
        let HeldSegment { queue, len, .. } = *held;
        let from = &mut self.queues[queue as usize];
        from.deficit -= i64::from(len);
        let station = &mut self.stations[from.station as usize];
        station.time.serve(&mut from.tag, len, self.quantum);
        self.time.serve(&mut station.tag, len, self.quantum);
        station.deficit = match self.kind {
            Queues::Flow => station.deficit - i64::from(len),
            // A packet each.
            Queues::Station => 0,
        };
    }
}
