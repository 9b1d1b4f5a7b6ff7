//! What mechanisms were told of the silences: beside every number, because results depend on nothing more.

use serde::{Deserialize, Serialize};

use crate::finite;

/// What was told of the radio's silences over the whole run, the warm-up too: what a mechanism learned then
/// counts later. A silence of which nobody has been told yet when the run ends is neither told nor missed. A
/// correspondent is told one wired delay after that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToldRecord {
    /// Silences that began, of the network and of single stations; of different causes, each counts.
    pub silences: u64,
    /// Those whose start was told.
    pub told: u64,
    /// Those that were not: lost, over before they would have been told, or not noticed by the radio itself.
    pub missed: u64,
    /// Silences that were told and were none.
    #[serde(rename = "false")]
    pub false_silences: u64,
    /// Mean time from a silence's start on the air to its being told, s; `null` if none was told.
    #[serde(with = "finite::option")]
    pub start_late_mean_s: Option<f64>,
    /// The same for ends.
    #[serde(with = "finite::option")]
    pub end_late_mean_s: Option<f64>,
}

impl ToldRecord {
    /// Everything was told as it happened, and nothing else: as by an oracle.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let late = |mean: Option<f64>| mean.is_some_and(|mean| mean > 0.0);
        self.missed == 0
            && self.false_silences == 0
            && !late(self.start_late_mean_s)
            && !late(self.end_late_mean_s)
    }
}
