//! Requests that were made ahead, until it is known whether a packet came for them.

use std::collections::VecDeque;

use super::predict::{Predictor, Share};
use crate::time::{Duration, Instant};
use crate::units::Fraction;

/// Most requests under way. One is made a frame at most, and none lives much longer than the timer's period.
const MOST_OPEN: usize = 128;

/// A request as it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// How much will be sent, bytes.
    pub bytes: u32,
    /// When the last of its packets is expected.
    pub expected: Instant,
    pub by: Predictor,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    ask: Ask,
    /// Its bytes that no packet has used yet.
    left: u32,
    /// It has its turn when this many bytes have been granted in all.
    until: u64,
    /// When its turn starts, once the radio has told.
    turn: Option<Instant>,
}

impl Open {
    const fn is_untouched(&self) -> bool {
        self.left == self.ask.bytes
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub by: Predictor,
    /// No packet came for it.
    pub wrong: bool,
}

/// The requests under way, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    open: VecDeque<Open>,
    /// After its turn and the expected time a request is given up after `tolerance`, and in any case after
    /// `longest`.
    tolerance: Duration,
    longest: Duration,
}

impl Requests {
    pub fn new(tolerance: Duration, longest: Duration) -> Self {
        Self { open: VecDeque::with_capacity(MOST_OPEN), tolerance, longest }
    }

    pub fn is_full(&self) -> bool {
        self.open.len() >= MOST_OPEN
    }

    pub fn forget(&mut self) {
        self.open.clear();
    }

    /// A request is made. Not to be called when it [is full](Self::is_full).
    ///
    /// `until`: how many bytes have to be granted in all until this one has its turn.
    pub fn add(&mut self, ask: Ask, until: u64) {
        self.open.push_back(Open { ask, left: ask.bytes, until, turn: None });
    }

    /// A packet of `len` bytes wants to go up: it uses the oldest requests whose turn has not passed.
    pub fn on_uplink(&mut self, now: Instant, len: u32) {
        let mut rest = len;
        for open in self.open.iter_mut().filter(|open| open.turn.is_none_or(|turn| turn >= now)) {
            let used = open.left.min(rest);
            open.left -= used;
            rest -= used;
            if rest == 0 {
                break;
            }
        }
    }

    /// A turn that starts `at` is granted, with which `granted` bytes have been granted in all.
    pub fn on_grant(&mut self, at: Instant, granted: u64) {
        let served = |open: &&mut Open| open.turn.is_none() && open.until <= granted;
        for open in self.open.iter_mut().filter(served) {
            open.turn = Some(at);
        }
    }

    /// A turn ended with this room left. If it is as much as the oldest request that was served had asked
    /// for, and nothing has used it, the request was for nothing.
    pub fn on_unused(&mut self, now: Instant, bytes: u64) -> Option<Outcome> {
        let served = |open: &Open| {
            open.turn.is_some_and(|turn| turn <= now)
                && open.is_untouched()
                && bytes >= u64::from(open.ask.bytes)
        };
        let place = self.open.iter().position(served)?;
        self.open.remove(place).map(|open| Outcome { by: open.ask.by, wrong: true })
    }

    /// Takes out the oldest request if its fate is known.
    pub fn settle(&mut self, now: Instant) -> Option<Outcome> {
        let open = self.open.front()?;
        let expected = open.ask.expected;
        let turn = open.turn.unwrap_or(expected).max(expected).min(expected + self.longest);
        if open.left > 0 && now <= turn + self.tolerance {
            return None;
        }
        let outcome = Outcome { by: open.ask.by, wrong: open.is_untouched() };
        self.open.pop_front();
        Some(outcome)
    }
}

/// Of each predictor: which share of its requests of late was for nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waste {
    shares: [Share; Predictor::COUNT],
    /// The share above which a predictor may not ask.
    worst: Share,
}

impl Waste {
    pub fn new(worst: Fraction) -> Self {
        // A fraction of 255 is a byte.
        let worst = Share((worst.get() * f64::from(Share::ALL)) as u8);
        Self { shares: [Share(0); Predictor::COUNT], worst }
    }

    pub fn forget(&mut self) {
        self.shares = [Share(0); Predictor::COUNT];
    }

    pub fn add(&mut self, outcome: Outcome) {
        self.shares[outcome.by as usize].add(if outcome.wrong { Share::ALL } else { 0 });
    }

    /// The predictor may ask. One that may not goes on predicting, and what would have become of its requests
    /// counts the same, so it may ask again once it is right.
    pub fn allows(&self, predictor: Predictor) -> bool {
        self.shares[predictor as usize] <= self.worst
    }
}
