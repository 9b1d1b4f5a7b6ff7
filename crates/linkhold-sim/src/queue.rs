//! The event queue: a 4-ary heap of small events, first-in first-out among equal times.
//!
//! The key is (time, insertion epoch), so two events of one instant leave in the order they were put in, on every
//! machine and in every run. Four children a node keep the heap half as deep as a binary one, and the
//! siblings that a removal compares lie side by side.

use linkhold_core::time::Instant;

/// Children of a node.
const ARITY: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: Instant,
    epoch: u64,
    event: E,
}

impl<E> Entry<E> {
    fn before(&self, other: &Self) -> bool {
        (self.at, self.epoch) < (other.at, other.epoch)
    }
}

/// A priority queue of `(Instant, E)`, earliest first, equal times in insertion order.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: Vec<Entry<E>>,
    next_epoch: u64,
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
        Self { heap: Vec::with_capacity(64), next_epoch: 0 }
    }

    /// Adds an event.
    pub fn push(&mut self, at: Instant, event: E) {
        let entry = Entry { at, epoch: self.next_epoch, event };
        self.next_epoch += 1;
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1, entry);
    }

    /// When the earliest event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Takes the earliest event out.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else {
            return Some((last.at, last.event));
        };
        self.sift_down(last);
        Some((first.at, first.event))
    }

    /// Takes the earliest event out if it is due at `now` or before.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, E)> {
        if self.next_at()? <= now { self.pop() } else { None }
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True if none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
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
/// A component (a pipe, the air, a TCP endpoint) says when it wants to be called next, and that time changes with
/// nearly every packet. Moving the deadline later costs nothing: the armed event fires early, finds nothing due and
/// arms the new deadline. Only an earlier deadline puts a new event in the queue; the one it overtakes is recognised
/// as stale when it comes out.
#[derive(Clone, Copy, Debug)]
pub struct Wakeup {
    armed: Instant,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { armed: Instant::FAR_FUTURE }
    }
}

impl Wakeup {
    /// Makes sure that `event` comes out of the queue at `deadline` or before.
    #[inline]
    pub fn arm<E: Copy>(&mut self, queue: &mut EventQueue<E>, deadline: Option<Instant>, event: E) {
        if let Some(at) = deadline
            && at < self.armed
        {
            self.armed = at;
            queue.push(at, event);
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

    proptest! {
        #[test]
        fn it_agrees_with_a_stable_sort(operations in proptest::collection::vec((0u64..50, proptest::bool::ANY), 1..300)) {
            let mut queue = EventQueue::new();
            let mut model: Vec<(u64, usize)> = Vec::new();
            for (index, (at, pop)) in operations.into_iter().enumerate() {
                queue.push(Instant::from_nanos(at), index);
                model.push((at, index));
                if pop {
                    model.sort();
                    let (at, index) = model.remove(0);
                    prop_assert_eq!(queue.pop(), Some((Instant::from_nanos(at), index)));
                }
            }
            prop_assert_eq!(queue.len(), model.len());
        }
    }
}
