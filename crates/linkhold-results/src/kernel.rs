//! What the contract of `reproduce` says where figures were run against a kernel's TCP, beside the simulator.

use serde::{Deserialize, Serialize};

use crate::finite;

/// What a report says of the kernel that its figures were run against.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelPart {
    /// Its release, as `uname -r` has it.
    pub release: String,
    /// The stack, of those in the rows' brackets, on which claims are judged.
    pub judged_on: String,
    /// Runs that the figures are made of. Figures with one scenario share its runs.
    pub runs: u64,
    /// Runs that were late, and made again.
    pub repeated: u64,
    /// What the mechanism was told, and what differs from the paper and from the simulator.
    pub told: Vec<String>,
    /// What the testbed cannot run, each with the reason.
    pub left_out: Vec<String>,
    /// Runs without a result, each with the reason. What they belong to counts with fewer seeds.
    pub missing: Vec<String>,
}

impl KernelPart {
    /// How many runs there were.
    #[must_use]
    pub fn ran(&self) -> String {
        let noun = if self.runs == 1 { "run" } else { "runs" };
        let verb = if self.repeated == 1 { "was" } else { "were" };
        format!(
            "{} {noun} against Linux {}; {} {verb} late and made again",
            self.runs, self.release, self.repeated
        )
    }

    /// Its lists with their titles.
    #[must_use]
    pub fn lists(&self) -> [(&'static str, &[String]); 3] {
        [
            ("Told, and different from the paper", &self.told),
            ("Left out", &self.left_out),
            ("Without a result", &self.missing),
        ]
    }
}

/// The simulator's answer to a claim that was measured against a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// As [`crate::Claim::measured`].
    #[serde(with = "finite::option")]
    pub measured: Option<f64>,
    /// As [`crate::Claim::ci95`].
    #[serde(with = "finite::interval")]
    pub ci95: Option<[f64; 2]>,
    /// As [`crate::Claim::holds`].
    pub holds: Option<bool>,
    /// Seeds behind it.
    pub seeds: u64,
}
