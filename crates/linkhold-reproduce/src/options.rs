//! How much to measure, who hears of the progress, and what can go wrong.

use std::ops::Range;

use crate::paper::PaperError;

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Repetitions of every point, each with its own seed. `None`: three if quick, otherwise as many as the
    /// paper's claims take.
    pub seeds: Option<u32>,
    /// Run the paper's own stack only, for a first look; every claim is still computed.
    pub quick: bool,
    /// Seed of the first repetition; each further one takes the next.
    pub first_seed: u64,
}

impl Options {
    /// The paper's number of seeds, every stack.
    pub const FULL: Self = Self { seeds: None, quick: false, first_seed: FIRST_SEED };
    /// Three seeds, the paper's stack only.
    pub const QUICK: Self = Self { quick: true, ..Self::FULL };

    /// Repetitions of every point of a paper whose claims take `papers` of them.
    pub(crate) fn repetitions(self, papers: u32) -> u32 {
        self.seeds.unwrap_or(if self.quick { QUICK_SEEDS } else { papers })
    }

    /// The seeds of these repetitions.
    pub(crate) fn seeds(self, papers: u32) -> Range<u64> {
        self.first_seed..self.first_seed + u64::from(self.repetitions(papers))
    }

    /// A figure's title, with the seeds where they are not those of the papers' pages.
    pub(crate) fn title(self, title: &str, papers: u32) -> String {
        let Range { start, end } = self.seeds(papers);
        match end - start {
            _ if start == FIRST_SEED => title.to_owned(),
            0 | 1 => format!("{title}, seed {start}"),
            _ => format!("{title}, seeds {start} to {}", end - 1),
        }
    }
}

/// Where the seeds of the papers' pages begin; every figure's scenario has this seed.
pub const FIRST_SEED: u64 = 1;

/// Repetitions for a first look.
const QUICK_SEEDS: u32 = 3;

/// Receives the progress of the work.
pub trait Progress: Sync {
    /// `runs` runs of `figure` begin.
    fn begin(&self, figure: &str, runs: u64);
    /// One run is done.
    fn tick(&self);
    /// The figure is done.
    fn end(&self);
}

/// Ignores the progress.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _figure: &str, _runs: u64) {}
    fn tick(&self) {}
    fn end(&self) {}
}

/// Why nothing was reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No figure has that name.
    #[error("no figure called `{wanted}`; {} are: {known}", match .near { Some(near) => format!("did you mean `{near}`? There"), None => "there".to_owned() })]
    Unknown {
        /// The name that was asked for.
        wanted: String,
        /// The name that it may be a slip of.
        near: Option<String>,
        /// Every id, comma-separated.
        known: String,
    },
    /// Nothing of what was asked for can run against a kernel.
    #[error("`{wanted}` cannot run against a kernel; these can: {known}{}", if .why.is_empty() { String::new() } else { format!(" ({why})") })]
    NotOnAKernel {
        /// The ids that were asked for.
        wanted: String,
        /// Every id that can, comma-separated.
        known: String,
        /// The reasons, where there are some.
        why: String,
    },
    /// The testbed could not be used, or was stopped.
    #[error("{0}")]
    Testbed(String),
    /// A compiled-in scenario is not valid: a bug of this program.
    #[error("scenario of {figure}: {message}")]
    Scenario {
        /// The figure's id.
        figure: String,
        /// What the check said.
        message: String,
    },
    /// A run failed.
    #[error("{figure}: {message}")]
    Run {
        /// The figure's id.
        figure: String,
        /// What the simulator said.
        message: String,
    },
    /// The compiled-in numbers of the paper cannot be read: a bug of this program.
    #[error(transparent)]
    Paper(#[from] PaperError),
}
