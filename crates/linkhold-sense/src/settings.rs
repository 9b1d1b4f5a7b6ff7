//! What is sensed and how, as a user says it, and the same in samples and bins.

use linkhold_core::time::Duration;

use crate::floor::{FEWEST_BLOCKS, MOST_BLOCKS};

/// Largest block, samples: bounds the memory at 256 MiB.
const LONGEST_BLOCK: f64 = (1u64 << 24) as f64;
/// Highest sample rate, Hz.
const HIGHEST_RATE: f64 = 1e10;
/// Sizes of the transform.
const FFT_SIZES: std::ops::RangeInclusive<usize> = 8..=65_536;

/// Weighting of a frame before its Fourier transform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// Keeps strong neighbours out of the band, for 1.4 dB of sensitivity.
    #[default]
    Hann,
    /// None: every sample counts alike, and neighbours leak in.
    Rectangular,
}

/// Where the noise floor is known from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FloorSource {
    /// Power of the noise in the band, dB of full scale.
    Given(f64),
    /// The first stretch of the input. Nothing is detected in it.
    Calibrate(Duration),
}

/// What is sensed and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Sample rate, Hz.
    pub rate: f64,
    /// Lowest and highest frequency, Hz from the centre; `None` is all that was sampled.
    pub band: Option<(f64, f64)>,
    /// Weighting of frames, where there is a band.
    pub window: Window,
    /// Samples of a Fourier transform, where there is a band; a power of two.
    pub fft: usize,
    /// Leaves out the centre frequency and its neighbouring bins, where cheap radios have an offset.
    pub notch_dc: bool,
    /// Time of one decision; with a band, rounded to whole transforms.
    pub block: Duration,
    /// Time without a detection after which the primary user has gone: T_idle.
    pub idle: Duration,
    /// Probability that noise alone is taken for a signal in one block.
    pub false_alarm: f64,
    /// The true floor may be as much above the known one, dB.
    pub uncertainty_db: f64,
    /// Where the floor is known from.
    pub floor: FloorSource,
}

impl Settings {
    /// Default settings at a sample rate in Hz.
    ///
    /// T_idle is that of cr-aware, section 5.1. The paper names no detector, so the rest is chosen: a false
    /// freeze costs T_idle of silence, and 10⁻⁶ a block of 1 ms makes one in 17 minutes. A floor known to
    /// half a decibel is what a calibrated radio keeps while its temperature settles (Tandra and Sahai, "SNR
    /// walls for signal detection", 2008, take 1 dB for one that is not calibrated on the spot).
    #[must_use]
    pub fn at(rate: f64) -> Self {
        Self {
            rate,
            band: None,
            window: Window::Hann,
            fft: 256,
            notch_dc: false,
            block: Duration::from_millis(1),
            idle: Duration::from_secs(1),
            false_alarm: 1e-6,
            uncertainty_db: 0.5,
            floor: FloorSource::Calibrate(Duration::from_secs(1)),
        }
    }

    /// The same in samples and bins.
    ///
    /// # Errors
    /// [`SettingsError`] names the first setting that cannot be.
    pub fn plan(&self) -> Result<Plan, SettingsError> {
        let wrong =
            |key, what: String, right: &str| Err(SettingsError { key, what, right: right.to_owned() });
        let Self { rate, idle, .. } = *self;
        if !(1.0..=HIGHEST_RATE).contains(&rate) {
            return wrong(
                "rate",
                format!("{rate} Hz is no sample rate"),
                "give 1 Hz to 10 GHz, such as 2.4MHz",
            );
        }
        if idle.is_zero() {
            return wrong("idle", "T_idle is 0".to_owned(), "give a time above 0, such as 1s");
        }
        if !(1e-15..=0.5).contains(&self.false_alarm) {
            let what = format!("{} is no probability of a false alarm", self.false_alarm);
            return wrong("false-alarm", what, "give 1e-15 to 0.5, such as 1e-6");
        }
        if !(0.0..=20.0).contains(&self.uncertainty_db) {
            return wrong("uncertainty", format!("{} dB", self.uncertainty_db), "give 0 to 20, such as 0.5");
        }
        let bins = self.bins()?;
        let wanted = rate * self.block.as_secs_f64();
        let block = match &bins {
            None => wanted.round(),
            Some(_) => (wanted / self.fft as f64).round() * self.fft as f64,
        };
        if block < 1.0 {
            let least =
                if bins.is_some() { format!("one transform of {}", self.fft) } else { "one".to_owned() };
            let what = format!("{} is {wanted:.1} samples, less than {least}", self.block);
            return wrong("block", what, "give a longer block, or a smaller --fft");
        }
        if block > LONGEST_BLOCK {
            return wrong(
                "block",
                format!("{} is {block} samples", self.block),
                "give at most 16,777,216 samples",
            );
        }
        let seconds = block / rate;
        if idle.as_secs_f64() < seconds * 0.999 {
            let what =
                format!("T_idle, {idle}, is shorter than a block, {}", Duration::from_secs_f64(seconds));
            return wrong("idle", what, "give at least a block's time, or a shorter --block");
        }
        let calibrate = match self.floor {
            FloorSource::Given(db) if (-300.0..=100.0).contains(&db) => 0,
            FloorSource::Given(db) => {
                return wrong("floor", format!("{db} dB"), "give dB of full scale, such as -42.5");
            }
            FloorSource::Calibrate(time) => {
                let blocks = (time.as_secs_f64() / seconds).floor();
                if !(blocks >= FEWEST_BLOCKS as f64 && blocks <= MOST_BLOCKS as f64) {
                    let what = format!("{time} is {blocks} blocks of {}", Duration::from_secs_f64(seconds));
                    let right = format!(
                        "give {FEWEST_BLOCKS} to {MOST_BLOCKS} blocks, or the floor itself with --floor"
                    );
                    return wrong("calibrate", what, &right);
                }
                blocks as usize
            }
        };
        Ok(Plan {
            bins,
            window: self.window,
            fft: self.fft,
            block: block as usize,
            idle: (idle.as_secs_f64() * rate).round() as u64,
            calibrate,
        })
    }

    /// The bins of the band, ascending; `None` if everything is sensed.
    fn bins(&self) -> Result<Option<Vec<usize>>, SettingsError> {
        let wrong = |key, what: String, right: String| Err(SettingsError { key, what, right });
        let Some((low, high)) = self.band else {
            if self.notch_dc {
                let right = "give a --band, too".to_owned();
                return wrong("notch-dc", "it needs a Fourier transform".to_owned(), right);
            }
            return Ok(None);
        };
        if !(FFT_SIZES.contains(&self.fft) && self.fft.is_power_of_two()) {
            let right = "give a power of two from 8 to 65536, such as 256".to_owned();
            return wrong("fft", format!("{} is no size of a transform", self.fft), right);
        }
        let half = self.rate / 2.0;
        // A NaN fails this, too.
        if !(low < high && low >= -half && high <= half) {
            let what =
                format!("{low} Hz to {high} Hz is not within what {} samples a second hold", self.rate);
            return wrong(
                "band",
                what,
                format!("give frequencies from {} Hz to {half} Hz off the centre", -half),
            );
        }
        let width = self.rate / self.fft as f64;
        let frequency = |bin: usize| {
            let signed = if bin < self.fft / 2 { bin as f64 } else { bin as f64 - self.fft as f64 };
            signed * width
        };
        let notched = |bin: usize| self.notch_dc && bin.min(self.fft - bin) <= 1;
        let bins: Vec<usize> =
            (0..self.fft).filter(|&bin| (low..=high).contains(&frequency(bin)) && !notched(bin)).collect();
        if bins.is_empty() {
            let what = format!("{low} Hz to {high} Hz holds no bin; bins are {width} Hz apart");
            return wrong("band", what, "give a wider band, or a larger --fft".to_owned());
        }
        Ok(Some(bins))
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{key}: {what}; {right}")]
pub struct SettingsError {
    /// The setting, as the command line calls it.
    pub key: &'static str,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

/// [`Settings`] in samples and bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bins of the band, ascending; `None` is everything.
    pub bins: Option<Vec<usize>>,
    /// Weighting of frames.
    pub window: Window,
    /// Samples of a frame.
    pub fft: usize,
    /// Samples of a block; with bins, whole frames.
    pub block: usize,
    /// T_idle, samples.
    pub idle: u64,
    /// Blocks of the calibration; 0 if the floor is given.
    pub calibrate: usize,
}

impl Default for Plan {
    /// One sample a block and everything sensed: to be changed.
    fn default() -> Self {
        Self { bins: None, window: Window::Hann, fft: 256, block: 1, idle: 1, calibrate: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_counts_samples_and_bins() {
        let settings = Settings { band: Some((-50e3, 50e3)), notch_dc: true, ..Settings::at(2.56e6) };
        let plan = settings.plan().expect("it can be");
        // Bins are 10 kHz apart: ten a side... the innermost of each is notched, with the centre.
        assert_eq!(plan.bins, Some(vec![2, 3, 4, 5, 251, 252, 253, 254]));
        assert_eq!((plan.block, plan.idle, plan.calibrate), (2560, 2_560_000, 1000));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let ok = Settings::at(1e6);
        let band = |low, high| Settings { band: Some((low, high)), ..ok.clone() };
        let ms = Duration::from_millis;
        for (settings, message) in [
            (Settings::at(0.0), "--rate: 0 Hz is no sample rate"),
            (Settings::at(f64::NAN), "--rate: NaN Hz"),
            (Settings { idle: Duration::ZERO, ..ok.clone() }, "--idle: T_idle is 0; give a time above 0"),
            (
                Settings { block: ms(5), idle: ms(2), ..ok.clone() },
                "--idle: T_idle, 2ms, is shorter than a block",
            ),
            (Settings { block: Duration::from_nanos(100), ..ok.clone() }, "--block: 100ns is 0.1 samples"),
            (
                Settings { block: Duration::from_micros(100), ..band(0.0, 1e5) },
                "less than one transform of 256",
            ),
            (Settings { block: Duration::from_secs(100), ..ok.clone() }, "--block: "),
            (Settings { false_alarm: 0.0, ..ok.clone() }, "--false-alarm: 0 is no probability"),
            (Settings { false_alarm: f64::NAN, ..ok.clone() }, "--false-alarm: "),
            (Settings { uncertainty_db: -1.0, ..ok.clone() }, "--uncertainty: -1 dB"),
            (Settings { floor: FloorSource::Given(f64::NAN), ..ok.clone() }, "--floor: NaN dB"),
            (
                Settings { floor: FloorSource::Calibrate(ms(5)), ..ok.clone() },
                "--calibrate: 5ms is 5 blocks of 1ms",
            ),
            (Settings { notch_dc: true, ..ok.clone() }, "--notch-dc: it needs a Fourier transform"),
            (Settings { fft: 100, ..band(0.0, 1e5) }, "--fft: 100 is no size"),
            (band(0.0, 6e5), "--band: 0 Hz to 600000 Hz is not within"),
            (band(f64::NAN, 6e5), "--band: "),
            (band(10.0, 20.0), "holds no bin; bins are 3906.25 Hz apart"),
        ] {
            let error = settings.plan().expect_err(message).to_string();
            assert!(error.contains(message), "should tell {message:?}, told {error:?}");
        }
    }
}
