//! Settings of the SNR gate.

use super::adaptive::Adaptive;
use super::decision::{ByHysteresis, ByThreshold, Decision};
use crate::time::Duration;
use crate::units::Fraction;

/// Which decision process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The paper's: stop if the signal falls and is below the threshold, send above it.
    Threshold,
    /// Stop below the threshold whoever moves, send from a margin above it.
    Hysteresis,
    /// Hysteresis, with a threshold that follows what gets lost.
    Adaptive,
}

/// The window that stops a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It ends with what was sent; zero where nothing is under way or a SYN was not seen.
    Full,
    /// The paper's: zero.
    Zero,
}

/// Settings of [`SnrGate`](super::SnrGate).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SnrGateConfig {
    /// Which decision process runs.
    pub rule: Rule,
    /// SNR below which sending stops, dB; with [`Rule::Adaptive`] the one to start from.
    pub threshold: f64,
    /// [`Rule::Hysteresis`] and [`Rule::Adaptive`]: dB above the threshold from which on it sends again.
    pub margin: f64,
    /// Samples whose mean is compared with the threshold.
    pub averaged: u32,
    /// [`Rule::Threshold`]: in which time a change shows that the host moves.
    pub window: Duration,
    /// [`Rule::Threshold`]: the change that shows it, dB.
    pub noticeable: f64,
    /// [`Rule::Adaptive`]: share of segments sent again above which a signal is too weak.
    pub target_loss: Fraction,
    /// [`Rule::Adaptive`]: bounds of the threshold, dB.
    pub least: f64,
    /// See `least`.
    pub most: f64,
    /// The window behind a shut gate.
    pub closed: Closed,
    /// A gate that stood shut this long opens.
    pub max_gate: Duration,
    /// A shut gate that has heard no sample for this long opens.
    pub lost_signal: Duration,
    /// Most connections known; of those whose window is open, the longest idle one makes room.
    pub max_flows: u32,
    /// Seed of the connection table's hash.
    pub flow_seed: u64,
}

impl Default for SnrGateConfig {
    fn default() -> Self {
        Self {
            // Of the three rules the one that gained most with the paper's TCP on a walk, and that cost least
            // with samples as a radio tells them (reproductions/activation/signal).
            rule: Rule::Threshold,
            // The paper's first that gains much (section 5): CCK-5.5 loses a hundredth of 1000-byte packets.
            threshold: 5.0,
            // Twice the error of the mean of three samples with an error of 1 dB.
            margin: 1.0,
            averaged: 1,
            window: Duration::from_secs(1),
            noticeable: 1.0,
            target_loss: Fraction::clamped(0.02),
            least: 0.0,
            most: 30.0,
            closed: Closed::Full,
            // Longer than a walk past an obstacle takes, and short of what a user takes for a dead
            // connection.
            max_gate: Duration::from_secs(10),
            // Ten samples of the paper's.
            lost_signal: Duration::from_secs(1),
            max_flows: 1024,
            flow_seed: 0,
        }
    }
}

impl SnrGateConfig {
    /// The paper's: zero windows.
    #[must_use]
    pub fn paper() -> Self {
        Self { closed: Closed::Zero, ..Self::default() }
    }

    /// Hysteresis around a threshold at which CCK-5.5 loses a tenth of 1000-byte packets.
    #[must_use]
    pub fn hysteresis() -> Self {
        Self { rule: Rule::Hysteresis, threshold: 4.0, averaged: 3, ..Self::default() }
    }

    /// A threshold that is learned, from that of [`hysteresis`](Self::hysteresis) on.
    #[must_use]
    pub fn adaptive() -> Self {
        Self { rule: Rule::Adaptive, ..Self::hysteresis() }
    }

    /// The decision process.
    pub(super) fn decision(&self) -> Box<dyn Decision> {
        let Self { threshold, margin, averaged, noticeable, window, .. } = *self;
        let hysteresis = ByHysteresis { threshold, margin, averaged };
        match self.rule {
            Rule::Threshold => Box::new(ByThreshold { threshold, noticeable, window, averaged }),
            Rule::Hysteresis => Box::new(hysteresis),
            Rule::Adaptive => {
                Box::new(Adaptive::new(hysteresis, self.target_loss.get(), [self.least, self.most]))
            }
        }
    }
}
