//! What has come through of one connection's data, as the radio's receiving end sees it pass: where the first
//! hole is, and what lies beyond it.
//!
//! Paper: `cr-aware` section 4.2: the base station "snoops the sequence number" and reports up to three
//! non-contiguous blocks. More than eight are not remembered: the oldest is then reported missing again.

use crate::packet::{SackBlock, SackBlocks};
use crate::units::Seq;

/// Blocks remembered.
const MOST: usize = 8;
/// Blocks reported (section 4.2).
const REPORTED: usize = 3;

/// The data of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Everything before this has come; `None` before the first segment of a connection whose SYN was
    /// not seen.
    next: Option<Seq>,
    /// What has come beyond, the latest first.
    blocks: [SackBlock; MOST],
    len: u8,
}

impl Watch {
    /// Nothing has come, and `first` is the first byte that will.
    pub fn from(first: Seq) -> Self {
        Self { next: Some(first), ..Self::default() }
    }

    fn blocks(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// True if something is missing.
    pub fn has_hole(&self) -> bool {
        self.len > 0
    }

    /// The first byte that is missing, and up to three blocks beyond it.
    pub fn report(&self) -> Option<(Seq, SackBlocks)> {
        let next = self.next.filter(|_| self.has_hole())?;
        let mut blocks = SackBlocks::EMPTY;
        for block in self.blocks().iter().take(REPORTED) {
            blocks.push(*block);
        }
        Some((next, blocks))
    }

    /// A segment `seq .. end` has come. True if it shows a hole that no segment has shown before.
    pub fn arrived(&mut self, seq: Seq, end: Seq) -> bool {
        let Some(next) = self.next else {
            self.next = Some(end);
            return false;
        };
        if !seq.after(next) {
            if end.after(next) {
                self.next = Some(end);
                self.close_up();
            }
            return false;
        }
        let before = self.len;
        let touched = self.blocks().iter().any(|block| !seq.after(block.right) && !end.before(block.left));
        self.insert(SackBlock { left: seq, right: end });
        !touched && (self.len > before || usize::from(before) == MOST)
    }

    /// The block joins those that it touches, and becomes the first.
    fn insert(&mut self, mut block: SackBlock) {
        let mut kept = [SackBlock::default(); MOST];
        let mut count = 0;
        for &old in self.blocks() {
            if !block.left.after(old.right) && !block.right.before(old.left) {
                if old.left.before(block.left) {
                    block.left = old.left;
                }
                if old.right.after(block.right) {
                    block.right = old.right;
                }
            } else if let Some(place) = kept.get_mut(count + 1) {
                *place = old;
                count += 1;
            }
        }
        kept[0] = block;
        self.blocks = kept;
        self.len = count as u8 + 1;
    }

    /// Takes blocks in that begin at or before `next`.
    fn close_up(&mut self) {
        let Some(mut next) = self.next else { return };
        let mut again = true;
        while core::mem::replace(&mut again, false) {
            let mut kept = [SackBlock::default(); MOST];
            let mut count = 0;
            for &block in self.blocks() {
                if block.left.after(next) {
                    if let Some(place) = kept.get_mut(count) {
                        *place = block;
                        count += 1;
                    }
                } else if block.right.after(next) {
                    next = block.right;
                    again = true;
                }
            }
            self.blocks = kept;
            self.len = count as u8;
        }
        self.next = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrive(watch: &mut Watch, seq: u32) -> bool {
        watch.arrived(Seq(seq), Seq(seq.wrapping_add(10)))
    }

    fn blocks(watch: &Watch) -> (u32, Vec<(u32, u32)>) {
        let (next, blocks) = watch.report().expect("a hole");
        (next.0, blocks.as_slice().iter().map(|block| (block.left.0, block.right.0)).collect())
    }

    #[test]
    fn a_hole_is_told_once_and_closed_by_what_fills_it() {
        let mut watch = Watch::default();
        assert!(!arrive(&mut watch, 100));
        assert!(arrive(&mut watch, 120), "110 is missing");
        assert!(!arrive(&mut watch, 130), "no other hole");
        assert_eq!(blocks(&watch), (110, vec![(120, 140)]));
        assert!(arrive(&mut watch, 150));
        assert_eq!(blocks(&watch), (110, vec![(150, 160), (120, 140)]));
        assert!(!arrive(&mut watch, 110));
        assert_eq!(blocks(&watch), (140, vec![(150, 160)]));
        assert!(!arrive(&mut watch, 140));
        assert_eq!(watch.report(), None);
    }

    #[test]
    fn numbers_wrap() {
        let mut watch = Watch::default();
        arrive(&mut watch, u32::MAX - 14);
        assert!(arrive(&mut watch, 5));
        assert_eq!(blocks(&watch), (u32::MAX - 4, vec![(5, 15)]));
        arrive(&mut watch, u32::MAX - 4);
        assert_eq!(watch.report(), None);
    }

    proptest! {
        /// What is reported as come has come, in any order of arrivals. The first missing byte has not, as
        /// long as there are no more blocks than are remembered.
        #[test]
        fn reports_say_nothing_that_has_not_come(arrivals in prop_oneof![
            prop::collection::vec(0u32..17, 1..60),
            prop::collection::vec(0u32..60, 1..200),
        ]) {
            let mut watch = Watch::default();
            let mut come = std::collections::BTreeSet::new();
            let (first, few) = (arrivals[0], arrivals.iter().all(|&segment| segment < 17));
            for segment in arrivals {
                come.insert(segment);
                arrive(&mut watch, segment * 10);
                let Some((next, blocks)) = watch.report() else { continue };
                prop_assert!(!few || !come.contains(&(next.0 / 10)) || next.0 / 10 < first);
                for block in blocks.as_slice() {
                    for segment in block.left.0 / 10..block.right.0 / 10 {
                        prop_assert!(come.contains(&segment), "{block:?}");
                    }
                    prop_assert!(block.left.after(next));
                }
            }
        }
    }
}
