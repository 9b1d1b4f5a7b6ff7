//! The decision process: stop, send, or leave the sender as it is.
//!
//! Paper: `activation` section 3.1. It names one rule and leaves hysteresis and learning to the future; here
//! they stand behind one trait, [`Decision`].
//!
//! [`ByThreshold`] is the paper's rule. The signal is stable, so the host does not move, if the mean of the
//! last window's newer half is nearer to its older half's than `noticeable`; otherwise it moves. The paper
//! gives no numbers: a second of ten samples with a radio's error of 1 dB has halves that differ by 0.6 dB
//! (standard deviation), so 1 dB is noticed in 6 % of the seconds without any motion, and a walk's 3 dB/s
//! always.
//! [`ByHysteresis`] asks for no motion, since a bad signal loses packets whoever moves, and resumes only a
//! margin above the threshold, so that a sample's error cannot open and shut by turns.

use core::fmt::Debug;

use super::samples::Samples;
use crate::time::{Duration, Instant};

/// What the sender is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The paper's STOP.
    Stop,
    /// The paper's SEND.
    Send,
    /// As before.
    Keep,
}

/// The strength of the signal in whole decibels, as an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bin(pub u8);

impl Bin {
    /// How many there are.
    pub const COUNT: usize = 64;
    /// Lower edge of the first, dB.
    const FIRST_DB: f64 = -12.0;

    /// The bin of a level; what lies outside all bins is in the first or the last.
    pub fn of(db: f64) -> Self {
        // A cast saturates, and takes not-a-number for 0.
        Self(((db - Self::FIRST_DB).floor() as u8).min(Self::COUNT as u8 - 1))
    }

    /// Its lower edge, dB.
    pub fn lower_db(self) -> f64 {
        Self::FIRST_DB + f64::from(self.0)
    }
}

/// A rule.
pub(super) trait Decision: Debug + Send {
    /// A sample has come.
    fn decide(&mut self, now: Instant, samples: &Samples) -> Order;

    /// A segment with new data was sent at this strength of the signal.
    fn sent(&mut self, _bin: Bin) {}

    /// A segment was sent again that had first been sent at this strength: it, or its ACK, was lost.
    fn sent_again(&mut self, _first: Bin) {}
}

/// The paper's rule.
#[derive(Debug)]
pub(super) struct ByThreshold {
    /// dB.
    pub threshold: f64,
    /// A change of this many dB within `window` is motion.
    pub noticeable: f64,
    pub window: Duration,
    /// Samples whose mean is compared with the threshold.
    pub averaged: u32,
}

impl Decision for ByThreshold {
    fn decide(&mut self, _now: Instant, samples: &Samples) -> Order {
        let Some(level) = samples.level(self.averaged) else { return Order::Keep };
        let falls = samples.change(self.window).is_some_and(|change| change <= -self.noticeable);
        if level > self.threshold {
            Order::Send
        } else if level < self.threshold && falls {
            Order::Stop
        } else {
            Order::Keep
        }
    }
}

/// Stops below a threshold, and sends from a margin above it on.
#[derive(Debug)]
pub(super) struct ByHysteresis {
    /// dB.
    pub threshold: f64,
    /// dB above the threshold.
    pub margin: f64,
    /// Samples whose mean is compared.
    pub averaged: u32,
}

impl ByHysteresis {
    /// The order at this level of the signal.
    pub fn order(&self, level: f64) -> Order {
        if level < self.threshold {
            Order::Stop
        } else if level > self.threshold + self.margin {
            Order::Send
        } else {
            Order::Keep
        }
    }
}

impl Decision for ByHysteresis {
    fn decide(&mut self, _now: Instant, samples: &Samples) -> Order {
        samples.level(self.averaged).map_or(Order::Keep, |level| self.order(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The orders that a rule gives for samples every 100 ms.
    fn orders(rule: &mut dyn Decision, samples: &[f32]) -> Vec<Order> {
        let mut known = Samples::new(Duration::from_secs(1));
        let decide = |(index, &db): (usize, &f32)| {
            let now = Instant::from_millis(100 * index as u64);
            known.add(now, now, db);
            rule.decide(now, &known)
        };
        samples.iter().enumerate().map(decide).collect()
    }

    const PAPER: ByThreshold =
        ByThreshold { threshold: 5.0, noticeable: 1.0, window: Duration::from_secs(1), averaged: 1 };

    #[test]
    fn the_papers_rule_stops_on_a_falling_signal_below_the_threshold_and_sends_above_it() {
        let falling = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 4.0, 6.0];
        let told = orders(&mut { PAPER }, &falling);
        let (stop, send, keep) = (Order::Stop, Order::Send, Order::Keep);
        assert_eq!(told, [send, send, send, send, keep, stop, stop, send]);
    }

    #[test]
    fn the_papers_rule_leaves_a_host_alone_that_does_not_move_or_comes_nearer() {
        assert!(orders(&mut { PAPER }, &[3.0; 20]).iter().all(|&order| order == Order::Keep));
        let rising = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5];
        assert!(orders(&mut { PAPER }, &rising).iter().all(|&order| order == Order::Keep));
    }

    #[test]
    fn hysteresis_stops_whoever_moves_and_sends_a_margin_later() {
        let mut rule = ByHysteresis { threshold: 4.0, margin: 2.0, averaged: 1 };
        let told = orders(&mut rule, &[5.0, 3.9, 3.9, 4.1, 6.0, 6.1]);
        assert_eq!(told, [Order::Keep, Order::Stop, Order::Stop, Order::Keep, Order::Keep, Order::Send]);
    }

    #[test]
    fn a_bin_is_a_decibel_and_the_last_ones_take_the_rest() {
        assert_eq!((Bin::of(4.9), Bin::of(4.9).lower_db()), (Bin(16), 4.0));
        assert_eq!((Bin::of(-99.0), Bin::of(1e9), Bin::of(f64::NAN)), (Bin(0), Bin(63), Bin(0)));
    }
}
