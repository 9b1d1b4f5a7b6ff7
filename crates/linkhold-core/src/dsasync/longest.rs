//! Which queue is the longest, to within a quarter of its length, in constant time.
//!
//! RFC 8290 section 4.1 drops from the longest queue when the buffer is full. A search would take a step a
//! queue, and strangers choose how many queues there are. So queues are kept in lists by size, four lists for
//! each doubling; the longest is one of the highest list in use. A queue that is alone changes its list only
//! when another joins it.

use super::held::NONE;

/// How many lists there are.
const CLASSES: usize = 128;

/// Bits of a machine word.
const WORD: usize = 64;

/// A weight of less than this, bytes, is in the first list.
const LEAST: u64 = 256;

/// A queue's place in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// Number of its list; `None`: the queue is empty.
    class: Option<u8>,
    prev: u32,
    next: u32,
}

impl Links {
    pub const NONE: Self = Self { class: None, prev: NONE, next: NONE };
}

/// Something that has a place in a list.
pub(super) trait Linked {
    fn links(&mut self) -> &mut Links;
}

/// Lists of queues by their weight.
#[derive(Debug)]
pub(super) struct Longest {
    heads: [u32; CLASSES],
    /// Bit n of word m: list 64 m + n is not empty.
    used: [u64; CLASSES / WORD],
    queues: u32,
    /// The only queue that is not empty, and its weight, if the queue may be in the list of another weight.
    alone: Option<(u32, u64)>,
}

impl Default for Longest {
    fn default() -> Self {
        Self { heads: [NONE; CLASSES], used: [0; CLASSES / WORD], queues: 0, alone: None }
    }
}

/// The list for a weight.
fn class_of(weight: u64) -> Option<u8> {
    if weight == 0 {
        return None;
    }
    if weight < LEAST {
        return Some(0);
    }
    let octave = weight.ilog2();
    let quarter = (weight >> (octave - 2)) & 3;
    let class = 1 + u64::from(octave - LEAST.ilog2()) * 4 + quarter;
    Some(class.min(CLASSES as u64 - 1) as u8)
}

impl Longest {
    /// Notes the weight of a queue.
    #[inline]
    pub fn update<Q: Linked>(&mut self, queues: &mut [Q], index: u32, weight: u64) {
        let old = queues[index as usize].links().class;
        if self.queues == 1 && old.is_some() && weight > 0 {
            self.alone = Some((index, weight));
            return;
        }
        let class = class_of(weight);
        if self.alone.is_some() || class != old {
            self.change(queues, index, class);
        }
    }

    #[inline(never)]
    fn change<Q: Linked>(&mut self, queues: &mut [Q], index: u32, class: Option<u8>) {
        if let Some((alone, weight)) = self.alone.take() {
            self.relist(queues, alone, class_of(weight));
        }
        let old = queues[index as usize].links().class;
        self.queues = self.queues + u32::from(class.is_some()) - u32::from(old.is_some());
        self.relist(queues, index, class);
    }

    /// Takes a queue out of its list and puts it into that of its new class.
    fn relist<Q: Linked>(&mut self, queues: &mut [Q], index: u32, class: Option<u8>) {
        let Links { class: old, prev, next } = *queues[index as usize].links();
        if old == class {
            return;
        }
        if let Some(old) = old {
            match queues.get_mut(prev as usize) {
                Some(other) => other.links().next = next,
                None => {
                    self.heads[usize::from(old)] = next;
                    if next == NONE {
                        self.used[usize::from(old) / WORD] &= !(1 << (usize::from(old) % WORD));
                    }
                }
            }
            if let Some(other) = queues.get_mut(next as usize) {
                other.links().prev = prev;
            }
        }
        let mut links = Links { class, ..Links::NONE };
        if let Some(class) = class {
            let head = &mut self.heads[usize::from(class)];
            links.next = *head;
            *head = index;
            self.used[usize::from(class) / WORD] |= 1 << (usize::from(class) % WORD);
            if let Some(other) = queues.get_mut(links.next as usize) {
                other.links().prev = index;
            }
        }
        *queues[index as usize].links() = links;
    }

    /// A queue that no other exceeds by more than a quarter; `None` if all are empty.
    pub fn longest(&self) -> Option<u32> {
        let word = self.used.iter().rposition(|&word| word != 0)?;
        let class = word * WORD + self.used[word].ilog2() as usize;
        Some(self.heads[class])
    }

    /// Queues that are not empty.
    pub fn queues(&self) -> u32 {
        self.queues
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Queue(u64, Links);

    impl Linked for Queue {
        fn links(&mut self) -> &mut Links {
            &mut self.1
        }
    }

    proptest! {
        #[test]
        fn none_is_a_quarter_longer_than_the_longest(
            steps in prop::collection::vec(
                (prop_oneof![0usize..2, 0usize..20], prop_oneof![Just(0u64), 1u64..2_000, 1u64..1 << 36]),
                1..300,
            ),
        ) {
            let mut queues: Vec<Queue> = (0..20).map(|_| Queue(0, Links::NONE)).collect();
            let mut longest = Longest::default();
            for (index, weight) in steps {
                queues[index].0 = weight;
                longest.update(&mut queues, index as u32, weight);
                let most = queues.iter().map(|queue| queue.0).max().unwrap_or(0);
                let in_use = queues.iter().filter(|queue| queue.0 > 0).count();
                prop_assert_eq!(longest.queues() as usize, in_use);
                match longest.longest() {
                    None => prop_assert_eq!(most, 0),
                    Some(found) => {
                        let found = queues[found as usize].0;
                        prop_assert!(found > 0 && (most < LEAST || most - found <= found / 4 + 1), "{} of {}", found, most);
                    }
                }
            }
        }
    }
}
