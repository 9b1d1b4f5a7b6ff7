//! The samples of the SNR that mechanisms are told.
//!
//! Paper: `activation` section 4.2 (a sample every 100 ms). Sees time, the SNR and a random stream for each
//! station; emits [`LinkEventKind::Snr`]. No radio tells its SNR exactly or at once: a sample has an error,
//! normally distributed and new with every sample, and is told late; its `effective_at` is when it was taken.

use std::sync::Arc;

use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};

use crate::frame::AirOutput;
use crate::rng::Stream;
use crate::snr::config::{SnrConfig, SnrReport};
use crate::snr::signal::Signal;

/// The samples of every station.
#[derive(Clone, Debug)]
pub(crate) struct SnrReports {
    config: SnrReport,
    signal: Arc<Signal>,
    /// By station: its samples' errors.
    errors: Vec<Stream>,
    /// When the next sample is taken.
    taken: Instant,
}

impl SnrReports {
    pub(crate) fn new(config: &SnrConfig, signal: Arc<Signal>, stations: u32, seed: u64) -> Self {
        let errors = (0..stations).map(|station| Stream::new(seed, "snr-error", u64::from(station)));
        Self { config: config.report, signal, errors: errors.collect(), taken: Instant::ZERO }
    }

    /// When the next sample is told.
    pub(crate) fn next(&self) -> Instant {
        self.taken + self.config.delay
    }

    /// Tells a sample of each station.
    pub(crate) fn step(&mut self, out: &mut AirOutput) {
        let (now, taken) = (self.next(), self.taken);
        for (station, errors) in (0..).map(StationId).zip(&mut self.errors) {
            let db = self.signal.db_at(station, taken) + self.config.error_db * errors.normal();
            let kind = LinkEventKind::Snr { station, db: db as f32 };
            out.link(LinkEvent { detected_at: now, effective_at: Some(taken), kind });
        }
        // An interval of zero would tell for ever.
        self.taken = taken + self.config.interval.max(Duration::from_micros(1));
    }
}
