//! Conservative loss recovery with SACK.
//!
//! Source: RFC 6675. IsLost and pipe are the scoreboard's; here are the entry test and rules 3 and 4
//! of NextSeg.
//! counting -> (DupThresh duplicates, or IsLost of the first segment) recovering -> (RecoveryPoint) counting.

use super::DUP_THRESH;
use crate::scoreboard::Scoreboard;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sack {
    dup_acks: u32,
    /// RescueRxt: the rescue retransmission of this recovery is spent.
    rescued: bool,
}

impl Sack {
    /// An ACK came; `duplicate` as section 2 defines it (it SACKs something new). True if segments are newly
    /// lost.
    pub fn detect(&mut self, board: &mut Scoreboard, duplicate: bool, advanced: bool) -> bool {
        if advanced {
            self.dup_acks = 0;
        }
        if duplicate {
            self.dup_acks += 1;
        }
        // Section 4: IsLost by DupThresh discontiguous SACKed sequences.
        let mut lost = board.mark_lost_below_sacked(DUP_THRESH);
        // Section 5 (1): DupAcks >= DupThresh retransmits the first segment even if IsLost does not hold yet.
        if self.dup_acks >= DUP_THRESH
            && let Some(front) = board.front()
            && !front.is_sacked()
            && !front.is_lost()
            && !front.retransmission_outstanding()
            && let Some(id) = board.front_id()
        {
            lost |= board.mark_lost(id);
        }
        lost
    }

    pub fn enter(&mut self) {
        self.rescued = false;
    }

    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// NextSeg (section 4) when rule 1 (lost) and rule 2 (new data) gave nothing.
    pub fn next_without_new_data(&mut self, board: &Scoreboard) -> Option<u32> {
        // Rule 3: an unSACKed segment below the highest SACKed one, even if not yet deemed lost.
        if let Some(id) = board.next_unsacked_below_highest() {
            return Some(id);
        }
        // Rule 4: once per recovery, the highest outstanding unSACKed segment.
        if self.rescued {
            return None;
        }
        let id = board.back_id()?;
        let record = board.get(id)?;
        if record.is_sacked() || record.retransmission_outstanding() || record.is_lost() {
            return None;
        }
        self.rescued = true;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoreboard::AckSummary;
    use linkhold_core::time::Instant;

    fn board() -> Scoreboard {
        let mut board = Scoreboard::new();
        for i in 0..8 {
            board.push(i * 1000, (i + 1) * 1000, Instant::ZERO);
        }
        board
    }

    #[test]
    fn three_sacked_segments_above_a_hole_make_it_lost() {
        let (mut sack, mut board) = (Sack::default(), board());
        for (right, lost) in [(2000, false), (3000, false), (4000, true)] {
            board.sack(&[(1000, right), (0, 0), (0, 0), (0, 0)], &mut AckSummary::default());
            assert_eq!(sack.detect(&mut board, true, false), lost, "SACK up to {right}");
        }
        assert_eq!(board.lost_bytes(), 1000);
    }

    #[test]
    fn without_new_data_unsacked_holes_are_filled_and_then_the_tail_is_rescued_once() {
        let (mut sack, mut board) = (Sack::default(), board());
        board.sack(&[(1000, 2000), (3000, 4000), (0, 0), (0, 0)], &mut AckSummary::default());
        for expected in [Some(0), Some(2), Some(7), None] {
            let next = sack.next_without_new_data(&board);
            assert_eq!(next, expected);
            if let Some(id) = next {
                board.retransmitted(id, Instant::ZERO);
            }
        }
    }
}
