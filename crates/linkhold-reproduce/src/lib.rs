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
mod options;
mod paper;
mod selection;

use linkhold_results::{Program, ReproduceReport};

use figure::{FigureSpec, PaperSpec};
pub use kernel::{KernelRun, Measured, Testbed, check_selection, reproduce_on};
pub use options::{FIRST_SEED, Options, Progress, ReproduceError, Silent};
use paper::Paper;
pub use paper::PaperError;
pub use selection::{Selection, figure_ids};
use selection::{chosen, id};

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

    #[test]
    fn a_title_names_the_seeds_that_no_page_has() {
        let title = |seeds, first_seed| Options { seeds, first_seed, ..Options::FULL }.title("Figure 3", 100);
        assert_eq!(title(None, 1), "Figure 3");
        assert_eq!(title(Some(7), 1), "Figure 3", "the number stands beside it");
        assert_eq!(title(None, 101), "Figure 3, seeds 101 to 200");
        assert_eq!(title(Some(1), 5), "Figure 3, seed 5");
    }

    /// The seeds asked for take the place of the scenario's own, so both must begin alike: otherwise
    /// `linkhold run` with a figure's scenario would show other runs than the figure.
    #[test]
    fn every_figures_scenario_has_the_first_seed() {
        for (paper, figure) in selection::every() {
            for variant in (figure.variants)(false) {
                let cases = variant.cases(&id(paper, figure), figure.scenario).expect("it is valid");
                let others = cases.iter().filter(|case| case.scenario.seed != FIRST_SEED);
                assert_eq!(others.count(), 0, "{} [{}]", id(paper, figure), variant.stack);
            }
        }
    }

    #[test]
    fn the_first_seed_decides_which_runs_a_figure_shows() {
        let fig4 = Selection { selector: Some("cr-aware/fig4"), figures: &[] };
        let rows = |seeds, first_seed| {
            let options = Options { seeds: Some(seeds), first_seed, quick: true };
            let report = reproduce(&fig4, options, &Silent, Program::default()).expect("it runs");
            let last = report.figures[0].rows.iter().filter(|row| row.x == Some(600.0));
            last.map(|row| row.measured).collect::<Vec<_>>()
        };
        let (first, second, both) = (rows(1, 1), rows(1, 2), rows(2, 1));
        assert_eq!(first.len(), 6);
        assert_ne!(first, second);
        for ((first, second), both) in first.iter().zip(second).zip(both) {
            assert!((f64::midpoint(*first, second) - both).abs() < 1e-6, "{first} {second} {both}");
        }
    }
}
