//! The queues of held packets, the lists of a station's queues, and the stations in their turn.
//!
//! [`hold_buffer`](super::hold_buffer) says who is served when, and what becomes of a queue that runs empty.

use super::codel::CoDel;
use super::flow::Transport;
use super::held::{HeldSegment, NONE};
use super::longest::{Linked, Links, Longest};
use super::virtual_time::{Tag, VirtualTime};

/// The list of its station on which a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnList {
    /// It holds no packet.
    None,
    New,
    Old,
}

/// A first-in first-out queue: a flow's, or that of all other flows of a station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub head: u32,
    pub tail: u32,
    /// Number of its station.
    pub station: u32,
    /// What is in it.
    pub transport: Transport,
    /// What its packets weigh, as [`hold_buffer`](super::hold_buffer) counts them, bytes.
    pub weight: u64,
    pub deficit: i64,
    pub list: OnList,
    pub prev: u32,
    pub next: u32,
    pub links: Links,
    pub codel: CoDel,
    pub tag: Tag,
}

/// A queue without packets, of no station yet.
pub(super) const EMPTY: Queue = Queue {
    head: NONE,
    tail: NONE,
    station: 0,
    transport: Transport::Tcp,
    weight: 0,
    deficit: 0,
    list: OnList::None,
    prev: NONE,
    next: NONE,
    links: Links::NONE,
    codel: CoDel::NEW,
    tag: Tag::NEW,
};

impl Queue {
    /// Takes out the packet between these two, either of which may be none.
    #[inline]
    pub fn unlink(&mut self, slab: &mut [HeldSegment], prev: u32, next: u32) {
        match slab.get_mut(prev as usize) {
            Some(other) => other.next = next,
            None => self.head = next,
        }
        match slab.get_mut(next as usize) {
            Some(other) => other.prev = prev,
            None => self.tail = prev,
        }
    }

    /// Makes a packet the last and returns the one before it. The caller sets the packet's own links.
    #[inline]
    pub fn append(&mut self, slab: &mut [HeldSegment], index: u32) -> u32 {
        let prev = join(&mut self.tail, &mut self.head, index);
        if let Some(other) = slab.get_mut(prev as usize) {
            other.next = index;
        }
        prev
    }
}

impl Linked for Queue {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A list of queues, linked through [`Queue::prev`] and [`Queue::next`].
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
}

impl List {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub fn push_back(&mut self, queues: &mut [Queue], index: u32) {
        (queues[index as usize].prev, queues[index as usize].next) = (self.tail, NONE);
        match queues.get_mut(self.tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    pub fn remove(&mut self, queues: &mut [Queue], index: u32) {
        let Queue { prev, next, .. } = queues[index as usize];
        match queues.get_mut(prev as usize) {
            Some(other) => other.next = next,
            None => self.head = next,
        }
        match queues.get_mut(next as usize) {
            Some(other) => other.prev = prev,
            None => self.tail = prev,
        }
    }
}

/// A list of stations in turn, linked through [`StationQueues::next`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub head: u32,
    pub tail: u32,
}

impl Ring {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub fn push_back(&mut self, stations: &mut [StationQueues], number: u32) {
        stations[number as usize].next = NONE;
        match stations.get_mut(self.tail as usize) {
            Some(last) => last.next = number,
            None => self.head = number,
        }
        self.tail = number;
    }

    pub fn pop_front(&mut self, stations: &[StationQueues]) {
        self.head = stations.get(self.head as usize).map_or(NONE, |first| first.next);
        if self.head == NONE {
            self.tail = NONE;
        }
    }

    /// Nobody has a turn any more.
    pub fn clear(&mut self, stations: &mut [StationQueues]) {
        while let Some(first) = stations.get_mut(self.head as usize) {
            first.turn = Turn::None;
            self.head = first.next;
        }
        self.tail = NONE;
    }
}

/// Whether a station is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It holds nothing, as far as the rings know.
    None,
    /// Its first quantum is not used up.
    New,
    Old,
    /// It holds packets but was silent when its turn came.
    Blocked,
}

/// The queues of one station.
#[derive(Debug)]
pub(super) struct StationQueues {
    pub new: List,
    pub old: List,
    pub held: u32,
    pub turn: Turn,
    /// The next in its ring.
    pub next: u32,
    pub deficit: i64,
    /// What its queues weigh, bytes.
    pub weight: u64,
    pub links: Links,
    pub longest: Longest,
    /// Of its queues.
    pub time: VirtualTime,
    pub tag: Tag,
}

impl StationQueues {
    pub fn idle() -> Self {
        Self {
            new: List::EMPTY,
            old: List::EMPTY,
            held: 0,
            turn: Turn::None,
            next: NONE,
            deficit: 0,
            weight: 0,
            links: Links::NONE,
            longest: Longest::default(),
            time: VirtualTime::default(),
            tag: Tag::NEW,
        }
    }
}

impl Linked for StationQueues {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Puts `index` at `end` of a list whose opposite end is `other`, and returns its neighbour. The caller sets
/// both links.
#[inline]
pub(super) fn join(end: &mut u32, other: &mut u32, index: u32) -> u32 {
    let neighbour = core::mem::replace(end, index);
    if neighbour == NONE {
        *other = index;
    }
    neighbour
}
