//! The whole detector: calibrates, sets the threshold, detects.
//!
//! ```text
//! Calibrating ─ enough blocks ─► Sensing
//! ```
//!
//! It sees blocks of samples and emits [`Event`]s; [`Sensor::finish`] ends what is under way and sums up. A
//! sensor whose floor is given senses from the first block on.

use crate::decibel::{from_db, to_db};
use crate::detector::{Change, Detector};
use crate::energy::EnergyMeter;
use crate::floor::{Floor, estimate};
use crate::law::NoiseLaw;
use crate::sample::Sample;
use crate::settings::{FloorSource, Settings, SettingsError};

/// Probability with which the [least SNR](Calibrated::least_snr_db) is found in a block.
pub const FOUND_WITH: f64 = 0.9;
/// Largest amplitude of a sample: its square is a number.
const LARGEST: f32 = 1e12;

/// Why samples cannot be sensed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// A sample is not finite, or beyond 1e12.
    #[error("sample {sample} is no number (or beyond 1e12); is the format right?")]
    NotANumber {
        /// Its place, from 0.
        sample: u64,
    },
    /// The stretch for the calibration has no noise, only zeros.
    #[error(
        "the calibration found no noise: a quarter of the blocks or more are zero; use --floor, or raise the gain"
    )]
    NoNoise,
}

/// What the detector knows once the floor is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// When, in samples.
    pub at: u64,
    /// Power of the noise in the band.
    pub floor: Floor,
    /// Power above which a block holds a signal.
    pub threshold: f64,
    /// Probability of a false alarm a block, if the floor is as far off as the uncertainty allows.
    pub false_alarm: f64,
    /// The same if the floor is exactly the known one.
    pub false_alarm_exact: f64,
    /// The same if the floor is off by the uncertainty and two standard errors of the calibration.
    pub false_alarm_worst: f64,
    /// The least SNR in the band that a block finds with probability [`FOUND_WITH`], dB.
    pub least_snr_db: f64,
    /// Below this SNR no block is long enough, dB: Tandra and Sahai 2008, section III. `None` without
    /// uncertainty.
    pub wall_db: Option<f64>,
}

/// What was detected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The floor is known; detection begins.
    Calibrated(Calibrated),
    /// The primary user transmits.
    Busy {
        /// End of the block that showed it, in samples.
        at: u64,
        /// Power in the band over the floor, dB.
        above_floor_db: f64,
    },
    /// The primary user has gone.
    Idle {
        /// When this was known, in samples.
        at: u64,
        /// When it was detected.
        since: u64,
        /// End of the last block that held a signal.
        heard: u64,
        /// Whether the input is over, before T_idle was.
        input_over: bool,
    },
}

/// What was seen in all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Samples in whole blocks.
    pub samples: u64,
    /// Samples of a block.
    pub block: usize,
    /// Blocks decided on.
    pub decisions: u64,
    /// Of them, above the threshold.
    pub above: u64,
    /// Times that the primary user was detected.
    pub detections: u64,
    /// Samples during which it was taken to be there.
    pub busy: u64,
    /// The floor and what follows from it; `None` if the input ended before.
    pub calibrated: Option<Calibrated>,
}

/// Detects a primary user in blocks of samples.
pub struct Sensor {
    meter: EnergyMeter,
    block: usize,
    idle: u64,
    false_alarm: f64,
    uncertainty: f64,
    phase: Phase,
    summary: Summary,
}

enum Phase {
    Calibrating { powers: Vec<f64>, wanted: usize },
    Sensing { detector: Detector, floor: f64 },
}

impl Sensor {
    /// A sensor with these settings.
    ///
    /// # Errors
    /// [`SettingsError`] names a setting that cannot be.
    pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let plan = settings.plan()?;
        let summary = Summary {
            samples: 0,
            block: plan.block,
            decisions: 0,
            above: 0,
            detections: 0,
            busy: 0,
            calibrated: None,
        };
        let mut sensor = Self {
            meter: EnergyMeter::new(&plan),
            block: plan.block,
            idle: plan.idle,
            false_alarm: settings.false_alarm,
            uncertainty: from_db(settings.uncertainty_db),
            phase: Phase::Calibrating { powers: Vec::with_capacity(plan.calibrate), wanted: plan.calibrate },
            summary,
        };
        if let FloorSource::Given(db) = settings.floor {
            sensor.sense(Floor { power: from_db(db), error: 0.0 });
        }
        Ok(sensor)
    }

    /// Samples of a block.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// What is known of the floor; `None` while it calibrates.
    #[must_use]
    pub fn calibrated(&self) -> Option<&Calibrated> {
        self.summary.calibrated.as_ref()
    }

    /// Law of a block's power under noise alone.
    #[must_use]
    pub fn law(&self) -> NoiseLaw {
        self.meter.law()
    }

    fn sense(&mut self, floor: Floor) -> Calibrated {
        let law = self.meter.law();
        let ratio = law.ratio_passed_with(self.false_alarm);
        let (known, unsure) = (ratio * self.uncertainty, self.uncertainty);
        let threshold = floor.power * known;
        let calibrated = Calibrated {
            at: self.summary.samples,
            floor,
            threshold,
            false_alarm: self.false_alarm,
            false_alarm_exact: law.above(known),
            false_alarm_worst: law.above(ratio / (1.0 + 2.0 * floor.error)),
            least_snr_db: to_db(law.snr_found_with(known, FOUND_WITH)),
            wall_db: (unsure > 1.0).then(|| to_db(unsure - 1.0 / unsure)),
        };
        self.summary.calibrated = Some(calibrated);
        self.phase = Phase::Sensing { detector: Detector::new(threshold, self.idle), floor: floor.power };
        calibrated
    }

    /// Takes a block, which has [`block`](Self::block) samples.
    ///
    /// # Errors
    /// [`SampleError`] names a sample that is no number. The sensor can only be finished then.
    pub fn on_block(&mut self, block: &[Sample]) -> Result<Option<Event>, SampleError> {
        let power = self.meter.measure(block);
        // What one sample that is too large adds to a block's power, at least, whatever its share of the
        // band.
        let suspicious = (f64::from(LARGEST) / block.len().max(1) as f64).powi(2);
        if !power.is_finite() || power > suspicious {
            let bad = |sample: &Sample| !(sample.re.abs() <= LARGEST && sample.im.abs() <= LARGEST);
            let found = block.iter().position(bad);
            if found.is_some() || !power.is_finite() {
                let sample = self.summary.samples + found.unwrap_or(0) as u64;
                return Err(SampleError::NotANumber { sample });
            }
        }
        self.summary.samples += self.block as u64;
        let at = self.summary.samples;
        match &mut self.phase {
            Phase::Calibrating { powers, wanted } => {
                powers.push(power);
                if powers.len() < *wanted {
                    return Ok(None);
                }
                let law = self.meter.law();
                let floor = estimate(powers, &law).ok_or(SampleError::NoNoise)?;
                Ok(Some(Event::Calibrated(self.sense(floor))))
            }
            Phase::Sensing { detector, floor } => {
                let summary = &mut self.summary;
                summary.decisions += 1;
                summary.above += u64::from(detector.is_above(power));
                // A block counts as busy if the primary user was taken to be there when it began.
                summary.busy += if detector.is_busy() { self.block as u64 } else { 0 };
                let event = match detector.on_block(at, power) {
                    None => None,
                    Some(Change::Busy) => {
                        summary.detections += 1;
                        Some(Event::Busy { at, above_floor_db: to_db(power / *floor) })
                    }
                    Some(Change::Idle { since, heard }) => {
                        Some(Event::Idle { at, since, heard, input_over: false })
                    }
                };
                Ok(event)
            }
        }
    }

    /// The input is over: ends what is under way and sums up.
    pub fn finish(mut self) -> (Option<Event>, Summary) {
        let at = self.summary.samples;
        let change = match &mut self.phase {
            Phase::Calibrating { .. } => None,
            Phase::Sensing { detector, .. } => detector.end(),
        };
        let event = match change {
            Some(Change::Idle { since, heard }) => Some(Event::Idle { at, since, heard, input_over: true }),
            Some(Change::Busy) | None => None,
        };
        (event, self.summary)
    }
}
