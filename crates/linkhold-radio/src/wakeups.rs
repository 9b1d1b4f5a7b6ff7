//! Which of many components wakes first: a tournament over their times.
//!
//! Setting a time takes at most O(log n), finding the first O(1), and neither allocates. At one instant the
//! lower rank comes first, then the lower slot, so that the order never depends on history.

use linkhold_core::time::Instant;

/// When a component wakes, and its place among those that wake at the same instant.
type Wake = (Instant, u8);

const NEVER: Wake = (Instant::FAR_FUTURE, u8::MAX);

/// One wake-up for each slot, numbered from 0.
#[derive(Clone, Debug)]
pub struct Wakeups {
    wakes: Vec<Wake>,
    /// A binary tree, the root at 1 and the children of `n` at `2n` and `2n + 1`: in each node the slot that
    /// wakes first below it. The second half are the slots themselves.
    winners: Vec<u32>,
}

impl Wakeups {
    /// `slots` slots, none of which wakes.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let leaves = slots.max(1).next_power_of_two();
        let mut winners = vec![0; 2 * leaves];
        for node in (1..2 * leaves).rev() {
            winners[node] = if node >= leaves { (node - leaves) as u32 } else { winners[2 * node] };
        }
        Self { wakes: vec![NEVER; leaves], winners }
    }

    /// Wakes `slot` at `at`, and no longer at the time set before.
    pub fn set(&mut self, slot: usize, at: Instant, rank: u8) {
        if self.wakes[slot] == (at, rank) {
            return;
        }
        self.wakes[slot] = (at, rank);
        let mut node = (self.wakes.len() + slot) / 2;
        while node > 0 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let right_is_first = self.wakes[right as usize] < self.wakes[left as usize];
            let winner = if right_is_first { right } else { left };
            // Another slot that still wins here did so with the same time: nothing changes further up.
            if winner == self.winners[node] && winner as usize != slot {
                return;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    /// Lets `slot` sleep.
    pub fn clear(&mut self, slot: usize) {
        self.set(slot, NEVER.0, NEVER.1);
    }

    /// When the first wakes; far future if none does.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.wakes[self.winners[1] as usize].0
    }

    /// The slot that wakes first, and when; `None` if none does.
    #[must_use]
    pub fn first(&self) -> Option<(usize, Instant)> {
        let slot = self.winners[1] as usize;
        let at = self.wakes[slot].0;
        (at != Instant::FAR_FUTURE).then_some((slot, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_least_by_time_rank_and_slot(
            slots in 1usize..20,
            sets in prop::collection::vec((any::<prop::sample::Index>(), 0u64..6, 0u8..3, any::<bool>()), 0..60),
        ) {
            let (mut wakeups, mut plain) = (Wakeups::new(slots), vec![None; slots]);
            for (slot, at, rank, clears) in sets {
                let (slot, at) = (slot.index(slots), Instant::from_nanos(at));
                if clears {
                    wakeups.clear(slot);
                    plain[slot] = None;
                } else {
                    wakeups.set(slot, at, rank);
                    plain[slot] = Some((at, rank));
                }
                let first = (0..slots).filter_map(|slot| plain[slot].map(|wake| (wake, slot))).min();
                prop_assert_eq!(wakeups.first(), first.map(|((at, _), slot)| (slot, at)));
                prop_assert_eq!(wakeups.next(), first.map_or(Instant::FAR_FUTURE, |((at, _), _)| at));
            }
        }
    }
}
