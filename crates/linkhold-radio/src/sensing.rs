//! Sensing quiet periods: a fixed schedule, network-wide or of one station.
//!
//! Source: dsasync section III-A, "Sensing interruptions".

use linkhold_core::packet::StationId;
use linkhold_core::time::Duration;

/// A quiet period of `duration` starts at `phase`, `phase + period`, `phase + 2 period`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensingConfig {
    /// From one quiet period's start to the next; zero means no sensing.
    pub period: Duration,
    /// Length of a quiet period; at most `period` is used.
    pub duration: Duration,
    /// Start of the first quiet period.
    pub phase: Duration,
    /// The schedule is told at time 0 (`SensingSchedule`); each quiet period's start and end are told anyway.
    pub announced: bool,
}

/// A station's own sensing schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationSensing {
    /// The station.
    pub station: StationId,
    /// Its schedule.
    pub sensing: SensingConfig,
}
