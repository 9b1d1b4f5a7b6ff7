//! What predicts a connection's next ACK, and how well each predictor has done of late.

use crate::time::Duration;

/// Where a prediction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predictor {
    /// The free-running timer of the host's TCP (lookahead section III).
    Heartbeat,
    /// The delay of each connection's own timer, or the segment at which its receiver answers at once.
    Timer,
    /// The spacing of a steady stream's ACKs, with the segments that they will acknowledge.
    Stream,
}

impl Predictor {
    pub const ALL: [Self; 3] = [Self::Heartbeat, Self::Timer, Self::Stream];
    pub const COUNT: usize = Self::ALL.len();
}

/// Mean and mean deviation, with the weights of RFC 6298 section 2.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    mean: Duration,
    deviation: Duration,
    /// How many samples, up to 255.
    samples: u8,
}

impl Estimate {
    pub fn add(&mut self, sample: Duration) {
        let (mean, sample) = (self.mean.as_nanos(), sample.as_nanos());
        if self.samples == 0 {
            self.mean = Duration::from_nanos(sample);
        } else {
            let deviation = self.deviation.as_nanos();
            self.deviation = Duration::from_nanos(deviation - deviation / 4 + mean.abs_diff(sample) / 4);
            self.mean = Duration::from_nanos(mean - mean / 8 + sample / 8);
        }
        self.samples = self.samples.saturating_add(1);
    }

    /// The mean; zero before the first sample.
    pub const fn mean(&self) -> Duration {
        self.mean
    }

    pub const fn deviation(&self) -> Duration {
        self.deviation
    }

    pub const fn samples(&self) -> u8 {
        self.samples
    }
}

/// A share, in 255ths, that follows its last eight samples or so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share(pub u8);

impl Share {
    pub const ALL: u8 = u8::MAX;

    pub fn add(&mut self, sample: u8) {
        let (share, sample) = (i16::from(self.0), i16::from(sample));
        let step = (sample - share) / 8;
        // The last seven 255ths would otherwise never be made up.
        let step = if step == 0 { (sample - share).signum() } else { step };
        // Between the share and the sample, so within the bounds.
        self.0 = (share + step).clamp(0, 255) as u8;
    }
}

/// Of each predictor: which share of an ACK's wait it saves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores([Share; Predictor::COUNT]);

impl Scores {
    /// Predictors of which nothing is known.
    pub const NEW: Self = Self([Share(128); Predictor::COUNT]);
    /// A predictor that saves less than a sixteenth is not worth its requests.
    const LEAST: Share = Share(16);

    pub const fn of(&self, predictor: Predictor) -> Share {
        self.0[predictor as usize]
    }

    pub fn add(&mut self, predictor: Predictor, saved: u8) {
        self.0[predictor as usize].add(saved);
    }

    /// The best of those that can say something, if it is of use.
    pub fn best(&self, can: [bool; Predictor::COUNT]) -> Option<Predictor> {
        let able = Predictor::ALL.into_iter().filter(|predictor| can[*predictor as usize]);
        // Of equals the first: `max_by_key` would take the last.
        able.rev().max_by_key(|predictor| self.of(*predictor)).filter(|best| self.of(*best) >= Self::LEAST)
    }
}
