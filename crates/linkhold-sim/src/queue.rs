//! The event queue: a lane for the busiest components and a 4-ary heap of small events for all others,
//! first-in first-out among equal times.
//!
//! The key is (time, insertion epoch), so two events of one instant leave in the order they were put in, on
//! every machine and in every run. Four children a node keep the heap half as deep as a binary one, and the
//! siblings that a removal compares lie side by side.
//!
//! A link's wake-up moves with nearly every packet, and there are few links: the lane keeps one time for each
//! of the first eight components that ask for a slot in it, and finding the earliest of those is cheaper
//! than a heap.

use linkhold_core::time::Instant;

/// Children of a node.
const ARITY: usize = 4;

/// Slots of the lane.
const LANE: usize = 8;

/// When an event is due, and how many were put in before it.
#[derive(Clone, Copy, Debug)]
struct Key {
    at: Instant,
    epoch: u64,
}

impl Key {
    const NEVER: Self = Self { at: Instant::FAR_FUTURE, epoch: u64::MAX };

    #[inline]
    fn before(self, other: Self) -> bool {
        // As one number: a comparison without a branch.
        let number = |key: Self| u128::from(key.at.as_nanos()) << 64 | u128::from(key.epoch);
        number(self) < number(other)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    key: Key,
    event: E,
}

impl<E> Entry<E> {
    #[inline]
    fn before(&self, other: &Self) -> bool {
        self.key.before(other.key)
    }
}

/// A component's slot of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSlot(u8);

/// A priority queue of `(Instant, E)`, earliest first, equal times in insertion order.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: Vec<Entry<E>>,
    next_epoch: u64,
    /// By slot: when its component wants to be called; [`Key::NEVER`] if it does not.
    lane: [Key; LANE],
    /// By slot: the component's event.
    lane_events: Vec<E>,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            heap: Vec::with_capacity(64),
            next_epoch: 0,
            lane: [Key::NEVER; LANE],
            lane_events: Vec::with_capacity(LANE),
        }
    }

    /// A slot of the lane for a component with `event`; `None` if all are taken.
    pub fn slot(&mut self, event: E) -> Option<LaneSlot> {
        if self.lane_events.len() == LANE {
            return None;
        }
        self.lane_events.push(event);
        Some(LaneSlot(self.lane_events.len() as u8 - 1))
    }

    fn key(&mut self, at: Instant) -> Key {
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        Key { at, epoch }
    }

    /// Lets the event of a slot come out at `at`, instead of any time that was set before.
    #[inline(always)]
    fn put(&mut self, slot: LaneSlot, at: Instant) {
        let key = self.key(at);
        self.lane[usize::from(slot.0)] = key;
    }

    /// Adds an event.
    #[inline(never)]
    pub fn push(&mut self, at: Instant, event: E) {
        let entry = Entry { key: self.key(at), event };
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1, entry);
    }

    /// The slot of the lane that is due first, and when.
    #[inline(always)]
    fn first_of_lane(&self) -> (usize, Key) {
        let mut first = (0, self.lane[0]);
        for index in 1..self.lane_events.len().min(LANE) {
            let key = self.lane[index];
            first = if key.before(first.1) { (index, key) } else { first };
        }
        first
    }

    /// When the earliest event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        let lane = self.first_of_lane().1;
        let first =
            self.heap.first().map_or(lane, |entry| if entry.key.before(lane) { entry.key } else { lane });
        (first.at != Instant::FAR_FUTURE).then_some(first.at)
    }

    /// Takes the earliest event out.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        self.pop_due(Instant::FAR_FUTURE)
    }

    /// Takes the earliest event out if it is due at `now` or before.
    #[inline(always)]
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, E)> {
        let (index, key) = self.first_of_lane();
        if let Some(entry) = self.heap.first()
            && entry.key.before(key)
        {
            let Entry { key, event } = *entry;
            if key.at > now {
                return None;
            }
            self.remove_first();
            return Some((key.at, event));
        }
        if key.at > now || key.at == Instant::FAR_FUTURE {
            return None;
        }
        self.lane[index] = Key::NEVER;
        Some((key.at, self.lane_events[index]))
    }

    #[inline(never)]
    fn remove_first(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        let in_lane = self.lane.iter().filter(|key| key.at != Instant::FAR_FUTURE).count();
        self.heap.len() + in_lane
    }

    /// True if none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves `entry` from the free place `index` towards the root.
    fn sift_up(&mut self, mut index: usize, entry: Entry<E>) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[index] = self.heap[parent];
            index = parent;
        }
        self.heap[index] = entry;
    }

    /// Puts `entry` in the root's place and moves it down.
    fn sift_down(&mut self, entry: Entry<E>) {
        let mut index = 0;
        loop {
            let first = index * ARITY + 1;
            let end = (first + ARITY).min(self.heap.len());
            if first >= end {
                break;
            }
            let mut least = first;
            for child in first + 1..end {
                if self.heap[child].before(&self.heap[least]) {
                    least = child;
                }
            }
            if !self.heap[least].before(&entry) {
                break;
            }
            self.heap[index] = self.heap[least];
            index = least;
        }
        self.heap[index] = entry;
    }
}

/// The one live wake-up of a component, armed lazily.
///
/// A component (a pipe, the air, a TCP endpoint) says when it wants to be called next, and that time changes
/// with nearly every packet. Moving the deadline later costs nothing: the armed event fires early, finds
/// nothing due and arms the new deadline. Only an earlier deadline puts a new event in the queue; the one it
/// overtakes is recognised as stale when it comes out. (In the lane the new deadline replaces the old one.)
#[derive(Clone, Copy, Debug)]
pub struct Wakeup {
    armed: Instant,
    slot: Option<LaneSlot>,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Wakeup {
    /// A wake-up that is not armed, of a component with or without a slot of the queue's lane.
    #[must_use]
    pub const fn new(slot: Option<LaneSlot>) -> Self {
        Self { armed: Instant::FAR_FUTURE, slot }
    }

    /// Makes sure that `event` comes out of the queue at `deadline` or before.
    #[inline(always)]
    pub fn arm<E: Copy>(&mut self, queue: &mut EventQueue<E>, deadline: Option<Instant>, event: E) {
        if let Some(at) = deadline
            && at < self.armed
        {
            self.armed = at;
            match self.slot {
                Some(slot) => queue.put(slot, at),
                None => queue.push(at, event),
            }
        }
    }

    /// The event came out at `at`: true if it is the live one, false if an earlier one has overtaken it.
    #[inline]
    pub fn fire(&mut self, at: Instant) -> bool {
        if self.armed != at {
            return false;
        }
        self.armed = Instant::FAR_FUTURE;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_leave_in_the_order_they_came() {
        let mut queue = EventQueue::new();
        for event in 0..100u32 {
            queue.push(Instant::from_millis(u64::from(event % 3)), event);
        }
        let mut last = (Instant::ZERO, 0);
        let mut count = 0;
        while let Some((at, event)) = queue.pop() {
            assert!(count == 0 || (at, event) > last, "{event} at {at} after {last:?}");
            last = (at, event);
            count += 1;
        }
        assert_eq!(count, 100);
    }

    #[test]
    fn only_what_is_due_leaves() {
        let mut queue = EventQueue::new();
        queue.push(Instant::from_millis(5), 'b');
        queue.push(Instant::from_millis(4), 'a');
        assert_eq!(queue.pop_due(Instant::from_millis(4)), Some((Instant::from_millis(4), 'a')));
        assert_eq!(queue.pop_due(Instant::from_millis(4)), None);
        assert_eq!(queue.next_at(), Some(Instant::from_millis(5)));
    }

    #[test]
    fn a_later_deadline_costs_no_event_and_an_earlier_one_makes_the_old_one_stale() {
        let (mut queue, mut wakeup) = (EventQueue::new(), Wakeup::default());
        wakeup.arm(&mut queue, Some(Instant::from_millis(10)), ());
        wakeup.arm(&mut queue, Some(Instant::from_millis(20)), ());
        wakeup.arm(&mut queue, None, ());
        assert_eq!(queue.len(), 1);
        wakeup.arm(&mut queue, Some(Instant::from_millis(3)), ());
        let (at, ()) = queue.pop().unwrap();
        assert!(wakeup.fire(at));
        let (at, ()) = queue.pop().unwrap();
        assert!(!wakeup.fire(at));
    }

    #[test]
    fn the_lane_and_the_heap_are_one_queue() {
        let mut queue = EventQueue::new();
        let mut slots: Vec<Wakeup> = (0..9).map(|n| Wakeup::new(queue.slot(n))).collect();
        assert!(slots[7].slot.is_some() && slots[8].slot.is_none(), "the lane has eight slots");
        let at = Instant::from_millis(5);
        queue.push(at, 100);
        slots[3].arm(&mut queue, Some(at), 3);
        slots[8].arm(&mut queue, Some(at), 8);
        queue.push(at, 101);
        slots[0].arm(&mut queue, Some(at), 0);
        // Moved ahead: in the lane the earlier time replaces the later.
        slots[3].arm(&mut queue, Some(Instant::from_millis(4)), 3);
        assert_eq!((queue.len(), queue.next_at()), (5, Some(Instant::from_millis(4))));
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, [3, 100, 8, 101, 0]);
        assert!(queue.is_empty() && queue.next_at().is_none() && queue.pop_due(at).is_none());
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_stable_sort(
            operations in proptest::collection::vec((0u64..50, proptest::bool::ANY, 0usize..6), 1..300),
        ) {
            let mut queue = EventQueue::new();
            let slots: Vec<Option<LaneSlot>> = (0..3).map(|n| queue.slot(1000 + n)).collect();
            let mut model: Vec<(u64, usize)> = Vec::new();
            // The model's order is time, then this number: it stands for the insertion epoch of a lane's
            // event.
            let mut names: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
            for (number, (at, pop, to)) in operations.into_iter().enumerate() {
                let event = match slots.get(to) {
                    Some(&Some(slot)) => {
                        queue.put(slot, Instant::from_nanos(at));
                        // What stood there before is overtaken.
                        model.retain(|(_, other)| names.get(other) != Some(&(1000 + to)));
                        1000 + to
                    }
                    _ => {
                        queue.push(Instant::from_nanos(at), number);
                        number
                    }
                };
                names.insert(number, event);
                model.push((at, number));
                if pop {
                    model.sort();
                    let (at, number) = model.remove(0);
                    prop_assert_eq!(queue.pop(), Some((Instant::from_nanos(at), names[&number])));
                }
            }
            prop_assert_eq!(queue.len(), model.len());
        }
    }
}
