//! The papers' figures, measured again.
//!
//! Each figure is a folder `reproductions/<paper>/<figure>/` with its scenario and a README on how to read
//! it. The paper's numbers and their source are in `reproductions/<paper>/paper.toml`. Scenarios and numbers
//! are compiled in, so an installed command needs no checkout. Whether a claim holds is computed here from
//! the measurement.
#![forbid(unsafe_code)]

mod activation;
mod cr_aware;
mod crahn;
mod dsasync;
mod figure;
mod finding;
mod grid;
mod kernel;
mod lookahead;
mod paper;

use linkhold_results::{Program, ReproduceReport};

use figure::{FigureSpec, PaperSpec};
pub use kernel::{KernelRun, Measured, Testbed, check_selection, reproduce_on};
use paper::Paper;
pub use paper::PaperError;

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Repetitions of every point, each with its own seed. `None`: three if quick, otherwise as many as the
    /// paper's claims take.
    pub seeds: Option<u32>,
    /// Run the paper's own stack only, for a first look; every claim is still computed.
    pub quick: bool,
}

impl Options {
    /// The paper's number of seeds, every stack.
    pub const FULL: Self = Self { seeds: None, quick: false };
    /// Three seeds, the paper's stack only.
    pub const QUICK: Self = Self { seeds: None, quick: true };

    /// Repetitions of every point of a paper whose claims take `papers` of them.
    fn repetitions(self, papers: u32) -> u32 {
        self.seeds.unwrap_or(if self.quick { QUICK_SEEDS } else { papers })
    }
}

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
    #[error("no figure called `{wanted}`; there are: {known}")]
    Unknown {
        /// The name that was asked for.
        wanted: String,
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

/// Every paper.
const PAPERS: [&PaperSpec; 5] =
    [&dsasync::PAPER, &cr_aware::PAPER, &crahn::PAPER, &activation::PAPER, &lookahead::PAPER];

fn id(paper: &PaperSpec, figure: &FigureSpec) -> String {
    format!("{}/{}", paper.name, figure.id)
}

fn every() -> impl Iterator<Item = (&'static PaperSpec, &'static FigureSpec)> {
    PAPERS.into_iter().flat_map(|paper| paper.figures.iter().map(move |figure| (paper, figure)))
}

/// Ids of every figure that can be reproduced, in the papers' order.
#[must_use]
pub fn figure_ids() -> Vec<String> {
    every().map(|(paper, figure)| id(paper, figure)).collect()
}

/// What to measure: a paper (`dsasync`), one figure (`dsasync/fig4`), or everything; of that, some figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// The paper or the figure; `None`: everything.
    pub selector: Option<&'a str>,
    /// Names of figures (`fig4`, or `dsasync/fig4`); empty: all of them.
    pub figures: &'a [String],
}

/// The figures that `selection` names, in the papers' order.
fn chosen(
    selection: &Selection<'_>,
) -> Result<Vec<(&'static PaperSpec, &'static FigureSpec)>, ReproduceError> {
    let of_selector = |paper: &PaperSpec, figure: &FigureSpec| match selection.selector {
        None => true,
        Some(selector) => selector == paper.name || selector == id(paper, figure),
    };
    let is_called =
        |name: &str, paper: &PaperSpec, figure: &FigureSpec| name == figure.id || name == id(paper, figure);
    let all: Vec<_> = every().filter(|(paper, figure)| of_selector(paper, figure)).collect();
    let unknown = |wanted: &str, known: Vec<String>| {
        Err(ReproduceError::Unknown { wanted: wanted.to_owned(), known: known.join(", ") })
    };
    if all.is_empty() {
        return unknown(selection.selector.unwrap_or_default(), figure_ids());
    }
    if let Some(name) = selection
        .figures
        .iter()
        .find(|name| !all.iter().any(|(paper, figure)| is_called(name, paper, figure)))
    {
        return unknown(name, all.iter().map(|(paper, figure)| id(paper, figure)).collect());
    }
    let is_wanted = |paper: &PaperSpec, figure: &FigureSpec| {
        selection.figures.is_empty() || selection.figures.iter().any(|name| is_called(name, paper, figure))
    };
    Ok(all.into_iter().filter(|(paper, figure)| is_wanted(paper, figure)).collect())
}

/// Name and text of the scenario file behind each figure that `selection` names, for a report.
#[must_use]
pub fn scenario_texts(selection: &Selection<'_>) -> Vec<(String, String)> {
    let text = |(paper, figure): (&PaperSpec, &FigureSpec)| {
        let name = format!("reproductions/{}/scenario.toml", id(paper, figure));
        (name, figure.scenario.to_owned())
    };
    chosen(selection).unwrap_or_default().into_iter().map(text).collect()
}

/// Measures the figures that `selection` names, in the simulator. `program` stands in the report as what
/// measured them.
///
/// # Errors
/// [`ReproduceError::Unknown`] if nothing has that name; otherwise a failed run.
pub fn reproduce(
    selection: &Selection<'_>,
    options: Options,
    progress: &dyn Progress,
    program: Program,
) -> Result<ReproduceReport, ReproduceError> {
    let wanted = chosen(selection)?;
    let mut figures = Vec::with_capacity(wanted.len());
    for (paper, figure) in wanted {
        let numbers = Paper::parse(paper.numbers)?;
        figures.push(figure::measure(paper, figure, &numbers, options, progress)?);
    }
    Ok(ReproduceReport::new(program, figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_seeds_is_what_was_asked_for_or_three_if_quick_or_the_papers() {
        let asked = Options { seeds: Some(7), ..Options::FULL };
        for (options, dsasync, activation) in
            [(Options::FULL, 10, 100), (Options::QUICK, 3, 3), (asked, 7, 7)]
        {
            assert_eq!(options.repetitions(dsasync::PAPER.seeds), dsasync, "{options:?}");
            assert_eq!(options.repetitions(activation::PAPER.seeds), activation, "{options:?}");
        }
    }
}
