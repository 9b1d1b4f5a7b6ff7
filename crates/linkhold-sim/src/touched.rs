//! Which links and taps an event has touched: only they are asked for their next wake-up.
//!
//! The first 32 links and the first 32 taps are bits of one word; the others of a larger network are kept
//! in a list. They are taken out in a fixed order (the word's before the list's, links before taps, each kind
//! by number), so that a run repeats exactly.

use crate::path::{LinkId, TapId};

/// How many links, and how many taps, have a bit in the word.
const IN_WORD: u32 = 32;

/// Something with a wake-up of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Component {
    Link(LinkId),
    Tap(TapId),
}

/// The components touched since the last time they were all taken.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    word: u64,
    /// Those without a bit in the word, each as often as it was touched.
    others: Vec<Component>,
}

impl Touched {
    #[inline]
    pub(crate) fn link(&mut self, link: LinkId) {
        if link.0 < IN_WORD {
            self.word |= 1 << link.0;
        } else {
            self.others.push(Component::Link(link));
        }
    }

    #[inline]
    pub(crate) fn tap(&mut self, tap: TapId) {
        if tap.0 < IN_WORD {
            self.word |= 1 << (IN_WORD + tap.0);
        } else {
            self.others.push(Component::Tap(tap));
        }
    }

    /// Takes the next component out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Component> {
        if self.word == 0 {
            return if self.others.is_empty() { None } else { self.pop_other() };
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(if bit < IN_WORD { Component::Link(LinkId(bit)) } else { Component::Tap(TapId(bit - IN_WORD)) })
    }

    #[cold]
    fn pop_other(&mut self) -> Option<Component> {
        // Sorted backwards, so that the last one is the next. If none is added, one sort serves all calls.
        if !self.others.is_sorted_by(|a, b| a > b) {
            self.others.sort_unstable_by(|a, b| b.cmp(a));
            self.others.dedup();
        }
        self.others.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once_and_in_order_of_kind_and_number() {
        let mut touched = Touched::default();
        for tap in [40, 3, 33, 3, 40] {
            touched.tap(TapId(tap));
        }
        for link in [35, 0, 31, 0] {
            touched.link(LinkId(link));
        }
        let taken: Vec<Component> = std::iter::from_fn(|| touched.pop()).collect();
        let expected = [
            Component::Link(LinkId(0)),
            Component::Link(LinkId(31)),
            Component::Tap(TapId(3)),
            Component::Link(LinkId(35)),
            Component::Tap(TapId(33)),
            Component::Tap(TapId(40)),
        ];
        assert_eq!(taken, expected);
        assert_eq!(touched.pop(), None);
    }
}
