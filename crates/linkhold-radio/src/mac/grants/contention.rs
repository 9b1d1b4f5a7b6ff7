//! The opportunities of one frame's contention part: who drew which.
//!
//! An opportunity is a code in a slot of a subchannel. All codes are orthogonal, so two requests disturb each
//! other only if they have drawn the same one; then the base station reads neither.

use crate::rng::Stream;

/// How many have drawn each opportunity of the frame.
#[derive(Clone, Debug)]
pub(super) struct Opportunities {
    drawn: Vec<u32>,
}

impl Opportunities {
    pub(super) fn new(count: usize) -> Self {
        Self { drawn: vec![0; count] }
    }

    /// Draws one, uniformly.
    pub(super) fn draw(&mut self, stream: &mut Stream) -> usize {
        let drawn = below(stream, self.drawn.len() as u64) as usize;
        self.drawn[drawn] += 1;
        drawn
    }

    /// Whether somebody else has drawn it too.
    pub(super) fn collided(&self, opportunity: usize) -> bool {
        self.drawn[opportunity] > 1
    }

    /// Makes it free for the next frame.
    pub(super) fn clear(&mut self, opportunity: usize) {
        self.drawn[opportunity] = 0;
    }
}

/// A number below `count` (at least 1, below 2^32), uniform.
pub(super) fn below(stream: &mut Stream, count: u64) -> u64 {
    ((stream.bits() >> 32) * count) >> 32
}
