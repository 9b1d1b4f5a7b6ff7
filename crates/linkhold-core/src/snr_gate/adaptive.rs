//! A threshold that is learned from what gets lost.
//!
//! Paper: `activation` names this as future work (sections 3.1 and 6). Sees at which strength of the signal
//! segments are sent, and which of them are sent again; has the threshold of a [`ByHysteresis`] follow.
//!
//! Which SNR is too low depends on modulation, packet length and receiver, which a thin layer above the
//! driver does not know; how many segments had to be sent again it does. So each decibel has its loss rate.
//! The threshold stands just above the strongest signal that loses more than `target`, which is what TCP does
//! not take in its stride: at 2 % Reno is down to a window of 9 segments (Mathis et al., 1997, eq. 3).
//!
//! - A decibel says something from [`EVIDENCE`] segments on.
//! - Loss that has nothing to do with the signal (a full queue) is everywhere. So a decibel is bad only if it
//!   loses twice as much as all stronger ones together, and the strongest of all is never bad.
//! - Below the threshold nothing is sent, so nothing is learned there. Therefore evidence ages: every
//!   [`AGEING`] counts are halved. When the bad decibel's have faded, the threshold goes down to the weakest
//!   decibel that is known to be good, and one below it, which is tried anew.
//! - The threshold moves by at most 1 dB a second, so that one burst of losses does not throw it.

use super::decision::{Bin, ByHysteresis, Decision, Order};
use super::samples::Samples;
use crate::time::{Duration, Instant};

/// Segments from which on a loss rate is believed.
const EVIDENCE: u32 = 20;
/// After this time evidence counts half.
const AGEING: Duration = Duration::from_secs(10);
/// dB in a second.
const FASTEST: f64 = 1.0;

/// Segments of one decibel.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: u32,
    lost: u32,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self { sent: self.sent.saturating_add(other.sent), lost: self.lost.saturating_add(other.lost) }
    }

    /// The share of losses, if there is evidence.
    fn rate(self) -> Option<f64> {
        (self.sent >= EVIDENCE).then(|| f64::from(self.lost.min(self.sent)) / f64::from(self.sent))
    }
}

/// The rule.
#[derive(Debug)]
pub(super) struct Adaptive {
    rule: ByHysteresis,
    /// Loss rate above which a signal is too weak.
    target: f64,
    /// Bounds of the threshold, dB.
    bounds: [f64; 2],
    tallies: [Tally; Bin::COUNT],
    aged: Instant,
    moved: Instant,
}

impl Adaptive {
    /// `rule` with the threshold to start from; it stays within `bounds`.
    pub fn new(rule: ByHysteresis, target: f64, bounds: [f64; 2]) -> Self {
        let tallies = [Tally::default(); Bin::COUNT];
        Self { rule, target, bounds, tallies, aged: Instant::ZERO, moved: Instant::ZERO }
    }

    /// Where the threshold should stand; `None` if nothing is known.
    fn goal(&self) -> Option<f64> {
        let mut above = Tally::default();
        let mut weakest_good = None;
        for (&tally, index) in self.tallies.iter().rev().zip((0..Bin::COUNT as u8).rev()) {
            if let Some(rate) = tally.rate() {
                let stands_out = above.rate().is_some_and(|usual| rate > 2.0 * usual);
                if rate > self.target && stands_out {
                    return Some(Bin(index).lower_db() + 1.0);
                }
                weakest_good = Some(Bin(index).lower_db());
            }
            above = above.plus(tally);
        }
        weakest_good.map(|edge| edge - 1.0)
    }

    fn learn(&mut self, now: Instant) {
        if now.since(self.aged) >= AGEING {
            self.aged = now;
            for tally in &mut self.tallies {
                *tally = Tally { sent: tally.sent / 2, lost: tally.lost / 2 };
            }
        }
        let step = FASTEST * now.since(self.moved).as_secs_f64().min(1.0);
        self.moved = now;
        if let Some(goal) = self.goal() {
            let threshold = self.rule.threshold;
            let [least, most] = self.bounds;
            self.rule.threshold = goal.clamp(threshold - step, threshold + step).max(least).min(most);
        }
    }
}

impl Decision for Adaptive {
    fn decide(&mut self, now: Instant, samples: &Samples) -> Order {
        self.learn(now);
        self.rule.decide(now, samples)
    }

    fn sent(&mut self, bin: Bin) {
        if let Some(tally) = self.tallies.get_mut(usize::from(bin.0)) {
            tally.sent = tally.sent.saturating_add(1);
        }
    }

    fn sent_again(&mut self, first: Bin) {
        if let Some(tally) = self.tallies.get_mut(usize::from(first.0)) {
            tally.lost = tally.lost.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Adaptive {
        Adaptive::new(ByHysteresis { threshold: 4.0, margin: 1.0, averaged: 1 }, 0.02, [0.0, 12.0])
    }

    /// A minute in which each second 50 segments are sent at each of the levels, of which so many are lost.
    /// What the threshold forbids is not sent.
    fn after_a_minute(rule: &mut Adaptive, from: u64, levels: &[(f64, u32)]) -> f64 {
        for second in from..from + 60 {
            let threshold = rule.rule.threshold;
            for &(level, lost) in levels.iter().filter(|(level, _)| *level >= threshold) {
                (0..50).for_each(|_| rule.sent(Bin::of(level)));
                (0..lost).for_each(|_| rule.sent_again(Bin::of(level)));
            }
            rule.decide(
                Instant::from_millis(1000 * second),
                &Samples::new(crate::time::Duration::from_secs(1)),
            );
        }
        rule.rule.threshold
    }

    #[test]
    fn the_threshold_rises_above_what_loses() {
        let mut rule = rule();
        let levels = [(9.5, 0), (8.5, 0), (7.5, 0), (6.5, 10), (5.5, 25), (4.5, 40)];
        let learned = after_a_minute(&mut rule, 1, &levels);
        assert!((6.0..=7.1).contains(&learned), "{learned}");
    }

    #[test]
    fn the_threshold_goes_down_to_what_does_not_lose() {
        let mut rule = rule();
        let levels = [(5.5, 0), (4.5, 0), (3.5, 0), (2.5, 0), (1.5, 20)];
        let learned = after_a_minute(&mut rule, 1, &levels);
        assert!((1.0..=2.1).contains(&learned), "{learned}");
        // The signal has become a better one: after the evidence has faded, the threshold falls.
        let better = [(5.5, 0), (4.5, 0), (3.5, 0), (2.5, 0), (1.5, 0), (0.5, 0)];
        let learned = after_a_minute(&mut rule, 61, &better);
        assert!(learned < 1.0, "{learned}");
    }

    #[test]
    fn losses_that_are_everywhere_are_not_the_signals() {
        let mut rule = rule();
        let learned = after_a_minute(&mut rule, 1, &[(9.5, 4), (8.5, 4), (7.5, 5), (6.5, 4), (5.5, 5)]);
        assert!(learned <= 4.6, "{learned}");
    }

    #[test]
    fn without_evidence_the_threshold_stays_and_it_never_leaves_its_bounds() {
        let mut rule = rule();
        assert_eq!(after_a_minute(&mut rule, 1, &[]), 4.0);
        let learned = after_a_minute(&mut rule, 61, &[(30.5, 0), (20.5, 50)]);
        assert_eq!(learned, 12.0);
    }
}
