//! First in, first out, with a limit in packets (DropTail). Frames to a silent radio let others pass.
//!
//! Sees frames and which radios are blocked. A frame to a radio that is blocked when its turn comes is
//! parked. Parked frames are all older than those in the main line, so they go first once their radio may be
//! sent to again, and the order of frames to one radio never changes. Each frame is parked at most once, and
//! looked at once more per [`unblock`](Fifo::unblock).

use std::collections::VecDeque;

use linkhold_core::units::Bytes;

use super::blocked::is_blocked;
use crate::frame::Frame;

/// The queue.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    limit: u32,
    bytes: u64,
    main: VecDeque<Frame>,
    /// Older than `main`; front first.
    parked: VecDeque<Frame>,
    /// Parked frames looked at since the last `unblock` and still blocked; older than `parked`.
    still_parked: VecDeque<Frame>,
    /// `parked` is worth looking at.
    look: bool,
}

impl Fifo {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            bytes: 0,
            main: VecDeque::new(),
            parked: VecDeque::new(),
            still_parked: VecDeque::new(),
            look: false,
        }
    }

    pub(crate) fn packets(&self) -> u32 {
        // The limit is a u32 and bounds the sum.
        (self.main.len() + self.parked.len() + self.still_parked.len()) as u32
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn room(&self) -> (u32, Bytes) {
        (self.limit.saturating_sub(self.packets()), Bytes(u64::MAX))
    }

    /// False if the queue is full.
    #[must_use]
    pub(crate) fn enqueue(&mut self, frame: Frame) -> bool {
        if self.packets() >= self.limit {
            return false;
        }
        self.bytes += u64::from(frame.len);
        self.main.push_back(frame);
        true
    }

    #[inline]
    pub(crate) fn dequeue(&mut self, blocked: &[bool]) -> Option<Frame> {
        let parked = if self.look { self.next_parked(blocked) } else { None };
        let frame = parked.or_else(|| self.next_in_line(blocked))?;
        self.bytes -= u64::from(frame.len);
        Some(frame)
    }

    #[cold]
    fn next_parked(&mut self, blocked: &[bool]) -> Option<Frame> {
        while let Some(frame) = self.parked.pop_front() {
            if !is_blocked(blocked, frame.to) {
                return Some(frame);
            }
            self.still_parked.push_back(frame);
        }
        core::mem::swap(&mut self.parked, &mut self.still_parked);
        self.look = false;
        None
    }

    #[inline]
    fn next_in_line(&mut self, blocked: &[bool]) -> Option<Frame> {
        while let Some(frame) = self.main.pop_front() {
            if !is_blocked(blocked, frame.to) {
                return Some(frame);
            }
            self.parked.push_back(frame);
        }
        None
    }

    /// Some radio may be sent to again.
    pub(crate) fn unblock(&mut self) {
        while let Some(frame) = self.still_parked.pop_back() {
            self.parked.push_front(frame);
        }
        self.look = !self.parked.is_empty();
    }

    /// Takes out the frames that are `wanted`, oldest first.
    pub(crate) fn reclaim(&mut self, wanted: impl Fn(&Frame) -> bool, into: &mut Vec<Frame>) {
        for line in [&mut self.still_parked, &mut self.parked, &mut self.main] {
            line.retain(|frame| {
                let taken = wanted(frame);
                if taken {
                    self.bytes -= u64::from(frame.len);
                    into.push(*frame);
                }
                !taken
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::PacketId;

    use super::*;
    use crate::frame::RadioId;

    fn frame(id: u64, receiver: u32) -> Frame {
        Frame {
            packet: PacketId(id),
            from: RadioId(9),
            to: RadioId(receiver),
            len: 100,
            headers: 40,
            flow_hash: receiver,
            ecn_capable: false,
        }
    }

    fn filled(receivers: &[u32]) -> Fifo {
        let mut fifo = Fifo::new(100);
        for (id, &receiver) in (0..).zip(receivers) {
            assert!(fifo.enqueue(frame(id, receiver)));
        }
        fifo
    }

    fn drained(fifo: &mut Fifo, blocked: &[bool]) -> Vec<u64> {
        core::iter::from_fn(|| fifo.dequeue(blocked)).map(|frame| frame.packet.0).collect()
    }

    #[test]
    fn the_limit_counts_parked_frames_too() {
        let mut fifo = Fifo::new(2);
        assert!(fifo.enqueue(frame(0, 0)) && fifo.enqueue(frame(1, 0)) && !fifo.enqueue(frame(2, 0)));
        assert_eq!(fifo.dequeue(&[true]), None);
        assert!(!fifo.enqueue(frame(3, 0)));
        assert_eq!((fifo.packets(), fifo.bytes(), fifo.room().0), (2, 200, 0));
    }

    #[test]
    fn frames_to_a_silent_radio_let_others_pass_and_go_first_afterwards() {
        let mut fifo = filled(&[0, 1, 0, 1, 2]);
        assert_eq!(fifo.dequeue(&[true, false, false]).map(|frame| frame.packet.0), Some(1));
        fifo.unblock();
        assert_eq!(drained(&mut fifo, &[false, true, false]), [0, 2, 4]);
        fifo.unblock();
        assert_eq!(drained(&mut fifo, &[]), [3]);
        assert_eq!((fifo.packets(), fifo.bytes()), (0, 0));
    }

    #[test]
    fn an_unblock_in_the_middle_of_a_look_keeps_the_order() {
        let mut fifo = filled(&[0, 1, 0, 1, 2]);
        assert_eq!(drained(&mut fifo, &[true, true, false]), [4]);
        fifo.unblock();
        assert_eq!(fifo.dequeue(&[true, false]).map(|frame| frame.packet.0), Some(1));
        fifo.unblock();
        assert_eq!(drained(&mut fifo, &[]), [0, 2, 3]);
    }

    #[test]
    fn reclaim_takes_what_is_wanted_in_order_of_arrival() {
        let mut fifo = filled(&[0, 1, 0, 1, 2]);
        assert_eq!(fifo.dequeue(&[true, true, false]).map(|frame| frame.packet.0), Some(4));
        assert!(fifo.enqueue(frame(5, 1)));
        let mut taken = Vec::new();
        fifo.reclaim(|frame| frame.to == RadioId(1), &mut taken);
        assert_eq!(taken.iter().map(|frame| frame.packet.0).collect::<Vec<_>>(), [1, 3, 5]);
        fifo.reclaim(|_| true, &mut taken);
        assert_eq!(taken[3..].iter().map(|frame| frame.packet.0).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((fifo.packets(), fifo.bytes()), (0, 0));
    }
}
