//! Power in the band, block by block.
//!
//! The whole band needs no transform: by Parseval's theorem the energy is that of the samples. A part of it
//! is taken from a Fourier transform of each frame of the block. A Hann window keeps a strong neighbour out
//! of the band: a bin that is d bins away from a tone hears it by about 1/d³ in amplitude instead of 1/d.
//! Frames do not overlap, so that they are independent; with the window this costs 1.4 dB of sensitivity.
//!
//! It sees blocks of one length and emits the power of each, full scale being 1. Nothing is allocated after
//! [`EnergyMeter::new`].

use std::sync::Arc;

use rustfft::{Fft, FftPlanner};

use crate::law::NoiseLaw;
use crate::sample::Sample;
use crate::settings::{Plan, Window};

/// Measures the power in a band.
pub struct EnergyMeter {
    block: usize,
    method: Method,
    law: NoiseLaw,
}

enum Method {
    Whole,
    Bins(Box<Spectrum>),
}

struct Spectrum {
    fft: Arc<dyn Fft<f32>>,
    length: usize,
    /// Empty without a window.
    window: Vec<f32>,
    bins: Vec<usize>,
    frame: Vec<Sample>,
    scratch: Vec<Sample>,
    /// From the sum of squared bins to power.
    scale: f64,
}

impl EnergyMeter {
    /// A meter for blocks as planned.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let Some(bins) = &plan.bins else {
            let law = NoiseLaw::chi_square(plan.block as f64);
            return Self { block: plan.block, method: Method::Whole, law };
        };
        let (length, frames) = (plan.fft, plan.block / plan.fft);
        let fft = FftPlanner::new().plan_fft_forward(length);
        let (window, law): (Vec<f32>, NoiseLaw) = match plan.window {
            Window::Rectangular => (Vec::new(), NoiseLaw::chi_square((bins.len() * frames) as f64)),
            Window::Hann => {
                let turn = |n: usize| std::f64::consts::TAU * n as f64 / length as f64;
                let window = (0..length).map(|n| (0.5 - 0.5 * turn(n).cos()) as f32).collect();
                (window, NoiseLaw::hann(bins, length, frames))
            }
        };
        let weight: f64 = match plan.window {
            Window::Rectangular => length as f64,
            Window::Hann => window.iter().map(|&w| f64::from(w).powi(2)).sum(),
        };
        let scratch = vec![Sample::default(); fft.get_inplace_scratch_len()];
        let spectrum = Spectrum {
            length,
            window,
            bins: bins.clone(),
            frame: vec![Sample::default(); length],
            scratch,
            scale: 1.0 / (frames as f64 * length as f64 * weight),
            fft,
        };
        Self { block: plan.block, method: Method::Bins(Box::new(spectrum)), law }
    }

    /// Law of the power under noise alone.
    #[must_use]
    pub fn law(&self) -> NoiseLaw {
        self.law
    }

    /// Power in the band, full scale being 1; not finite if a sample is not, or is beyond 1e19.
    ///
    /// `block` has the planned length; of a shorter one the missing samples count as zero.
    pub fn measure(&mut self, block: &[Sample]) -> f64 {
        match &mut self.method {
            Method::Whole => energy(block) / self.block as f64,
            Method::Bins(spectrum) => spectrum.measure(block),
        }
    }
}

impl Spectrum {
    fn measure(&mut self, block: &[Sample]) -> f64 {
        let mut sum = 0.0;
        for frame in block.chunks_exact(self.length) {
            if self.window.is_empty() {
                self.frame.copy_from_slice(frame);
            } else {
                for ((slot, sample), weight) in self.frame.iter_mut().zip(frame).zip(&self.window) {
                    *slot = sample * weight;
                }
            }
            self.fft.process_with_scratch(&mut self.frame, &mut self.scratch);
            // Most bands are runs of neighbouring bins, so this reads memory in order.
            let power: f32 =
                self.bins.iter().filter_map(|&bin| self.frame.get(bin)).map(Sample::norm_sqr).sum();
            sum += f64::from(power);
        }
        sum * self.scale
    }
}

/// Sum of squares. Short runs are added as `f32`, in lanes that the compiler makes vectors of, and the runs
/// as `f64`, so that a long block loses nothing.
fn energy(block: &[Sample]) -> f64 {
    const LANES: usize = 8;
    const RUN: usize = 16 * LANES;
    block
        .chunks(RUN)
        .map(|run| {
            let (groups, rest) = run.as_chunks::<LANES>();
            let mut lanes = [0f32; LANES];
            for group in groups {
                for (lane, sample) in lanes.iter_mut().zip(group) {
                    *lane += sample.norm_sqr();
                }
            }
            f64::from(lanes.iter().sum::<f32>() + rest.iter().map(Sample::norm_sqr).sum::<f32>())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tone(cycles: f64, length: usize) -> Vec<Sample> {
        let turn = std::f64::consts::TAU * cycles / length as f64;
        (0..length).map(|n| Sample::from_polar(0.5, (turn * n as f64) as f32)).collect()
    }

    fn plan(window: Window, bins: Vec<usize>, block: usize) -> Plan {
        Plan { bins: Some(bins), window, fft: 64, block, ..Plan::default() }
    }

    #[test]
    fn a_tone_in_the_band_has_its_power_and_one_outside_little() {
        for (window, leaks) in [(Window::Rectangular, 1e-2), (Window::Hann, 1e-6)] {
            let mut meter = EnergyMeter::new(&plan(window, (8..25).collect(), 256));
            let inside = meter.measure(&tone(4.0 * 16.3, 256));
            let outside = meter.measure(&tone(4.0 * 40.5, 256));
            assert!((inside / 0.25 - 1.0).abs() < 0.05, "{window:?}: {inside}");
            assert!(outside / 0.25 < leaks, "{window:?}: {outside}");
        }
    }

    #[test]
    fn a_sample_that_is_no_number_shows() {
        let mut block = tone(3.0, 128);
        block[77].im = f32::NAN;
        let mut whole = EnergyMeter::new(&Plan { block: 128, ..Plan::default() });
        assert!(!whole.measure(&block).is_finite());
        assert!(!EnergyMeter::new(&plan(Window::Hann, vec![1, 2], 128)).measure(&block).is_finite());
    }

    proptest! {
        /// Parseval: all bins without a window hold the energy of the samples.
        #[test]
        fn all_bins_hold_the_energy_of_the_samples(parts in proptest::collection::vec(-1f32..1.0, 256)) {
            let block: Vec<Sample> = parts.chunks(2).map(|pair| Sample::new(pair[0], pair[1])).collect();
            let whole = EnergyMeter::new(&Plan { block: 128, ..Plan::default() }).measure(&block);
            let bins = EnergyMeter::new(&plan(Window::Rectangular, (0..64).collect(), 128)).measure(&block);
            prop_assert!((whole - bins).abs() <= 1e-5 * whole.max(1e-9), "{whole} {bins}");
        }
    }
}
