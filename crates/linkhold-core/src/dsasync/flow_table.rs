//! The flow table: finds a connection by its addresses and ports, and bounds how many are known.
//!
//! At `max_flows` the longest idle connection makes room. Strangers, of which no handshake was seen to its
//! end and to which no station has answered, make room first, as long as they have more than a quarter of the
//! places: so a flood from ever new ports evicts no connection that somebody has, however long it has been
//! idle, and a table full of connections leaves room for several that begin. Flows of datagrams have places
//! of their own, a quarter as many, so that datagrams from ever new ports evict no connection. A connection
//! and a flow of datagrams between the same ports are two. Flows are found by a seeded hash, since strangers
//! choose the 5-tuples; every walk over all flows goes by slot number, never by hash, so a run repeats
//! exactly.

use core::hash::{BuildHasher, Hasher};
use core::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::flow::{Flow, Transport};
use super::held::NONE;
use crate::packet::{FlowKey, StationId};

/// A flow for as long as it is in the table: its slot may be given to another one afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowId {
    pub slot: u32,
    generation: u32,
}

/// What [`FlowTable::touch`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// The flow was there.
    Known(u32),
    /// It was added.
    New(u32),
    /// The table is full: evict [`FlowTable::oldest`] and try again.
    Full,
}

/// A place in the table: its flow, and its neighbours in the list of flows by their last use.
#[derive(Debug)]
struct Slot {
    /// How many flows have had this slot before.
    generation: u32,
    live: bool,
    /// The list that it is in.
    list: List,
    newer: u32,
    older: u32,
    flow: Flow,
}

/// Flows that make room for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Connections,
    Datagrams,
    Strangers,
}

impl List {
    fn of(flow: &Flow) -> Self {
        match flow.transport {
            Transport::Udp => Self::Datagrams,
            Transport::Tcp if flow.is_real() => Self::Connections,
            Transport::Tcp => Self::Strangers,
        }
    }
}

/// At most so many flows are looked at for who is to go.
const LOOKS: usize = 8;
/// Strangers keep one place in so many, however many connections there are.
const STRANGERS_PART: usize = 4;
/// Flows of datagrams have one place for this many places of connections.
const DATAGRAM_PART: usize = 4;

/// All flows.
#[derive(Debug)]
pub(super) struct FlowTable {
    index: HashTable<u32>,
    hasher: FixedState,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By list: the slot used last, and the one idle longest.
    newest: [u32; 3],
    oldest: [u32; 3],
    strangers: usize,
    /// By transport: flows, and most flows.
    len: [usize; 2],
    max: [usize; 2],
}

impl FlowTable {
    pub fn new(max_flows: u32, seed: u64) -> Self {
        Self {
            index: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            slots: Vec::new(),
            free: Vec::new(),
            newest: [NONE; 3],
            oldest: [NONE; 3],
            strangers: 0,
            len: [0; 2],
            max: [max_flows as usize, (max_flows as usize / DATAGRAM_PART).max(1)],
        }
    }

    fn hash(&self, transport: Transport, key: &FlowKey) -> u64 {
        hash_with(&self.hasher, transport, key)
    }

    fn find_hashed(&self, hash: u64, transport: Transport, key: &FlowKey) -> Option<u32> {
        let is_it = |flow: &Flow| flow.key == *key && flow.transport == transport;
        self.index.find(hash, |&slot| is_it(&self.slots[slot as usize].flow)).copied()
    }

    /// The connection used last, if it is this one: packets come in trains of one flow.
    #[inline]
    pub fn touch_newest(&self, key: &FlowKey, station: StationId) -> Option<u32> {
        let is_it = |flow: &Flow| flow.key == *key && flow.station == station;
        let [connection, _, stranger] = self.newest;
        if self.slots.get(connection as usize).is_some_and(|newest| is_it(&newest.flow)) {
            return Some(connection);
        }
        // One that has become real changes its list.
        let flow = &self.slots.get(stranger as usize)?.flow;
        (is_it(flow) && !flow.is_real()).then_some(stranger)
    }

    /// Finds a flow, or adds it, and makes it the most recently used. The flow is `station`'s from now on.
    pub fn touch(&mut self, transport: Transport, key: &FlowKey, station: StationId) -> Touched {
        let hash = self.hash(transport, key);
        if let Some(slot) = self.find_hashed(hash, transport, key) {
            self.unlink(slot);
            self.link_newest(slot);
            // A station that was away for long comes back under another number.
            self.slots[slot as usize].flow.station = station;
            return Touched::Known(slot);
        }
        if self.len[transport as usize] >= self.max[transport as usize] {
            self.sort_out();
            return Touched::Full;
        }
        let generation = match self.free.last() {
            Some(&slot) => self.slots[slot as usize].generation + 1,
            None => 0,
        };
        let mut flow = Flow::new(*key, station);
        flow.transport = transport;
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        flow.slot = slot;
        let mut entry =
            Slot { generation, live: true, list: List::of(&flow), newer: NONE, older: NONE, flow };
        match self.slots.get_mut(slot as usize) {
            Some(place) => {
                // The slot may still be in a list of those whose flow owes something.
                entry.flow.is_owing = place.flow.is_owing;
                *place = entry;
            }
            None => self.slots.push(entry),
        }
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index.insert_unique(hash, slot, |&slot| {
            let flow = &slots[slot as usize].flow;
            hash_with(hasher, flow.transport, &flow.key)
        });
        self.len[transport as usize] += 1;
        self.link_newest(slot);
        Touched::New(slot)
    }

    /// Finds a connection. Its place among the recently used stays as it is.
    pub fn find(&self, key: &FlowKey) -> Option<u32> {
        self.find_hashed(self.hash(Transport::Tcp, key), Transport::Tcp, key)
    }

    /// Puts a flow at the newer end of the list that it belongs to now.
    fn link_newest(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.list = List::of(&entry.flow);
        self.strangers += usize::from(entry.list == List::Strangers);
        let which = entry.list as usize;
        let old = self.newest[which];
        entry.newer = NONE;
        entry.older = old;
        match self.slots.get_mut(old as usize) {
            Some(other) => other.newer = slot,
            None => self.oldest[which] = slot,
        }
        self.newest[which] = slot;
    }

    /// Takes the strangers idle longest off their list that have become real since their last packet.
    #[cold]
    fn sort_out(&mut self) {
        // Each once, however long the list.
        loop {
            let slot = self.oldest[List::Strangers as usize];
            if self.get(slot).is_none_or(|flow| !flow.is_real()) {
                return;
            }
            self.unlink(slot);
            self.link_newest(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, list, .. } = self.slots[slot as usize];
        self.strangers -= usize::from(list == List::Strangers);
        let which = list as usize;
        match self.slots.get_mut(newer as usize) {
            Some(other) => other.older = older,
            None => self.newest[which] = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(other) => other.newer = newer,
            None => self.oldest[which] = newer,
        }
    }

    /// The flow to evict: the longest idle, a stranger's while they have more than their part. Of the eight
    /// longest idle, one that holds nothing goes first.
    pub fn oldest(&self, transport: Transport) -> Option<u32> {
        let [connection, datagrams, stranger] = self.oldest;
        let oldest = match transport {
            Transport::Udp => datagrams,
            Transport::Tcp if connection == NONE || self.strangers > self.max[0].div_ceil(STRANGERS_PART) => {
                stranger
            }
            Transport::Tcp => connection,
        };
        let mut slot = oldest;
        for _ in 0..LOOKS {
            let Some(entry) = self.slots.get(slot as usize) else { break };
            let has_become_real = entry.list == List::Strangers && entry.flow.is_real();
            if entry.flow.is_idle() && !has_become_real {
                return Some(slot);
            }
            slot = entry.newer;
        }
        (oldest != NONE).then_some(oldest)
    }

    /// Takes a flow out; its slot is used again.
    pub fn remove(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        debug_assert!(entry.live && entry.flow.held == 0, "a flow leaves only once it holds nothing");
        debug_assert!(!entry.flow.window.is_closed(), "a flow leaves only once its window is open");
        entry.live = false;
        let hash = hash_with(&self.hasher, entry.flow.transport, &entry.flow.key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
        self.unlink(slot);
        self.free.push(slot);
        let transport = self.slots[slot as usize].flow.transport;
        self.len[transport as usize] -= 1;
    }

    /// How many slots were ever used: walk `0..slot_count()` and skip what [`get`](Self::get) does not give.
    pub fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The flow in a slot, if there is one.
    pub fn get(&self, slot: u32) -> Option<&Flow> {
        self.slots.get(slot as usize).filter(|entry| entry.live).map(|entry| &entry.flow)
    }

    /// The flow in a slot that its caller got from this table in the same step.
    #[inline]
    pub fn at(&mut self, slot: u32) -> &mut Flow {
        &mut self.slots[slot as usize].flow
    }

    /// As [`at`](Self::at), to look only.
    #[inline]
    pub fn known(&self, slot: u32) -> &Flow {
        &self.slots[slot as usize].flow
    }

    /// The identity under which the flow in a slot can be remembered.
    pub fn id(&self, slot: u32) -> FlowId {
        FlowId { slot, generation: self.slots[slot as usize].generation }
    }

    /// A remembered flow, if it is still in the table.
    pub fn by_id(&self, id: FlowId) -> Option<&Flow> {
        let entry = self.slots.get(id.slot as usize)?;
        (entry.live && entry.generation == id.generation).then_some(&entry.flow)
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        self.len[0] + self.len[1]
    }
}

/// The hash of a flow's key, as the index has it.
fn hash_with(hasher: &FixedState, transport: Transport, key: &FlowKey) -> u64 {
    let mut hasher = hasher.build_hasher();
    if transport == Transport::Udp {
        hasher.write_u8(1);
    }
    for end in [&key.correspondent, &key.station] {
        match end.addr {
            IpAddr::V4(v4) => hasher.write_u64(u64::from(u32::from(v4)) << 16 | u64::from(end.port)),
            IpAddr::V6(v6) => {
                hasher.write_u128(u128::from(v6));
                hasher.write_u16(end.port);
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
