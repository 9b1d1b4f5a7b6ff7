//! What a radio's SNR is made of, and what is told of it.

use std::sync::Arc;

use linkhold_core::time::Duration;

use crate::snr::per::PhyRate;
use crate::snr::trace::SnrTrace;
use crate::snr::walk::WalkConfig;

/// The SNR of every station of a cell, and what follows from it. The SNR is the same in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct SnrConfig {
    /// Where the SNR comes from.
    pub source: SnrSource,
    /// By channel: the modulation whose error rate a frame has.
    pub rates: Vec<PhyRate>,
    /// What mechanisms are told.
    pub report: SnrReport,
}

/// Where an SNR comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum SnrSource {
    /// A file.
    Trace {
        /// What it says.
        trace: Arc<SnrTrace>,
        /// Each repetition and station starts at a place of the file that its seed draws.
        random_start: bool,
    },
    /// A walk, an own one for each station.
    Walk(WalkConfig),
}

/// The samples that mechanisms are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SnrReport {
    /// From one sample to the next; above zero.
    pub interval: Duration,
    /// How late a sample is told.
    pub delay: Duration,
    /// Standard deviation of a sample's error, dB.
    pub error_db: f64,
}
