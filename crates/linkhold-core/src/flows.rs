//! The connections that a mechanism knows, found by a seeded hash and walked in a fixed order, so that equal
//! inputs give equal outputs.
//!
//! A full table gives up the connection that has been idle longest, of those that may go. (DSASync's table
//! does more and is its own: it keeps what a connection holds.)

use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::packet::FlowKey;
use crate::time::{Duration, Instant};

/// Looking for room walks the whole table. Where all connections have to stay, any packet of an unknown one
/// would do so.
const SEARCH_PAUSE: Duration = Duration::from_millis(10);

/// A connection, with what the mechanism remembers of it.
#[derive(Clone, Debug)]
struct Flow<T> {
    key: FlowKey,
    last_seen: Instant,
    value: T,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Flows<T> {
    known: Vec<Flow<T>>,
    index: HashTable<u32>,
    hasher: FixedState,
    max: usize,
    /// No room is looked for before, among connections that may all have to stay.
    next_search: Instant,
}

/// A connection that a packet passes on, as [`Flows::see`] found it.
pub(crate) struct Seen<'a, T> {
    pub value: &'a mut T,
    /// The connection that made room for it.
    pub evicted: Option<(FlowKey, T)>,
}

impl<T> Flows<T> {
    /// A table of at most `max` connections, at least one. `seed` is for the hash.
    pub fn new(max: u32, seed: u64) -> Self {
        Self {
            known: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            max: max.max(1) as usize,
            next_search: Instant::ZERO,
        }
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&FlowKey, &mut T)> {
        self.known.iter_mut().map(|flow| (&flow.key, &mut flow.value))
    }

    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut T> {
        let slot = self.find(key)?;
        self.known.get_mut(slot).map(|flow| &mut flow.value)
    }

    /// A packet of the connection passes; one that is not known is taken in with what `fresh` makes.
    pub fn see(&mut self, now: Instant, key: &FlowKey, fresh: impl FnOnce() -> T) -> Seen<'_, T> {
        let (slot, evicted) = match self.find(key) {
            Some(slot) => (slot, None),
            None => {
                let evicted = self.room(|_| false).flatten();
                (self.add(now, key, fresh()), evicted)
            }
        };
        self.touch(now, slot, evicted)
    }

    /// As [`see`](Self::see); `None` if the connection is not known, and all that are known stay, or did when
    /// room was last looked for, at most [`SEARCH_PAUSE`] ago.
    pub fn see_unless_full(
        &mut self,
        now: Instant,
        key: &FlowKey,
        stays: impl Fn(&T) -> bool,
        fresh: impl FnOnce() -> T,
    ) -> Option<Seen<'_, T>> {
        let (slot, evicted) = match self.find(key) {
            Some(slot) => (slot, None),
            None => {
                if self.is_full() && now < self.next_search {
                    return None;
                }
                let Some(evicted) = self.room(stays) else {
                    self.next_search = now + SEARCH_PAUSE;
                    return None;
                };
                (self.add(now, key, fresh()), evicted)
            }
        };
        Some(self.touch(now, slot, evicted))
    }

    /// Makes room for one more, and answers who left for it; `None` if there is no room.
    fn room(&mut self, stays: impl Fn(&T) -> bool) -> Option<Option<(FlowKey, T)>> {
        if self.is_full() { self.evict(stays).map(Some) } else { Some(None) }
    }

    fn is_full(&self) -> bool {
        self.known.len() >= self.max
    }

    /// What was found, or just added.
    fn touch(&mut self, now: Instant, slot: usize, evicted: Option<(FlowKey, T)>) -> Seen<'_, T> {
        let flow = &mut self.known[slot];
        flow.last_seen = now;
        Seen { value: &mut flow.value, evicted }
    }

    fn add(&mut self, now: Instant, key: &FlowKey, value: T) -> usize {
        let (hash, slot) = (self.hash(key), self.known.len());
        self.known.push(Flow { key: *key, last_seen: now, value });
        let Self { index, known, hasher, .. } = self;
        index.insert_unique(hash, slot as u32, |&slot| {
            known.get(slot as usize).map_or(0, |flow| hasher.hash_one(flow.key))
        });
        slot
    }

    /// Takes the longest idle connection out of those that may go: a walk over all.
    fn evict(&mut self, stays: impl Fn(&T) -> bool) -> Option<(FlowKey, T)> {
        let may_go = self.known.iter().filter(|flow| !stays(&flow.value));
        let oldest = may_go.min_by_key(|flow| flow.last_seen)?.key;
        self.remove(&oldest).map(|value| (oldest, value))
    }

    /// Takes a connection out.
    pub fn remove(&mut self, key: &FlowKey) -> Option<T> {
        let slot = self.find(key)?;
        let hash = self.hash(key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other as usize == slot) {
            entry.remove();
        }
        let removed = self.known.swap_remove(slot).value;
        // The last connection has moved to the free slot.
        if let Some(moved) = self.known.get(slot) {
            let (hash, from) = (self.hash(&moved.key), self.known.len());
            if let Some(place) = self.index.find_mut(hash, |&other| other as usize == from) {
                *place = slot as u32;
            }
        }
        Some(removed)
    }

    fn hash(&self, key: &FlowKey) -> u64 {
        self.hasher.hash_one(key)
    }

    fn find(&self, key: &FlowKey) -> Option<usize> {
        let same = |&slot: &u32| self.known.get(slot as usize).is_some_and(|flow| flow.key == *key);
        self.index.find(self.hash(key), same).map(|&slot| slot as usize)
    }
}
