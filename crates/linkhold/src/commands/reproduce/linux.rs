//! The testbed that `linkhold reproduce --stack linux` hands to the figures.

use std::path::Path;
use std::sync::Arc;

use linkhold_linux::testbed::cells::{Cell, Fleet, known};
use linkhold_linux::testbed::kernel;
use linkhold_linux::testbed::outcome::Outcome;
use linkhold_linux::testbed::run::{available_congestion_controls, check, check_congestion};
use linkhold_linux::testbed::seats::missing_for;
use linkhold_reproduce::{KernelRun, Measured, Testbed};
use linkhold_results::{RunRecord, RunSeries};
use linkhold_scenario::Case;

use crate::Failure;
use crate::cli::ReproduceArgs;
use crate::commands::testbed::{FleetArgs, measure, prepare};

/// This machine's kernel.
pub struct Kernel {
    fleet: Fleet,
    /// Congestion controls that it has.
    congestion: Vec<String>,
    /// Runs nothing.
    only_known: bool,
}

impl Kernel {
    /// Checks that this machine can run the testbed. To be called before any other thread starts.
    pub fn prepare(args: &ReproduceArgs, out: Option<&Path>) -> Result<Self, Failure> {
        let fleet = FleetArgs { jobs: args.jobs, resume: args.resume, out };
        let fleet = if args.known {
            crate::interrupt::watch()?;
            fleet.with(Arc::default())?
        } else {
            prepare(fleet)?
        };
        let congestion = available_congestion_controls().map_err(|error| {
            Failure::Failed(format!("cannot read the kernel's congestion controls: {error}"))
        })?;
        Ok(Self { fleet, congestion, only_known: args.known })
    }
}

impl Testbed for Kernel {
    fn release(&self) -> String {
        kernel::release()
    }

    fn refuses(&self, case: &Case, congestion: &str) -> Option<String> {
        if !self.congestion.iter().any(|known| known == congestion) {
            let known = self.congestion.join(", ");
            return Some(format!("this kernel has no congestion control \"{congestion}\"; it has: {known}"));
        }
        let fits = check(&case.scenario).and_then(|()| check_congestion(&case.scenario, congestion));
        let missing = || missing_for(&case.scenario).map(|missing| missing.to_string());
        fits.err().map(|error| error.to_string()).or_else(missing)
    }

    fn run(&self, runs: &[KernelRun]) -> Result<Measured, String> {
        let cells: Vec<Cell<'_>> = runs
            .iter()
            .map(|run| Cell { case: &run.case, congestion: run.congestion.clone(), seed: run.seed })
            .collect();
        let (found, reasons, repeated) = if self.only_known {
            let known = known(&cells, &self.fleet).map_err(|error| error.to_string())?;
            let kept = known.of_another_kernel.into_iter();
            let reasons = kept.map(|(cell, kernel)| (cell, format!("what is kept of it is from {kernel}")));
            (known.outcomes, reasons.collect(), 0)
        } else {
            self.announce(&cells);
            let results = measure(&cells, &self.fleet).map_err(|failure| failure.to_string())?;
            let reasons = results.failures.iter().map(|failure| (failure.cell, failure.reason()));
            (results.outcomes, reasons.collect::<Vec<_>>(), results.repeated)
        };
        Ok(Measured { outcomes: outcomes(found, reasons), repeated })
    }
}

impl Kernel {
    /// Says before it begins how long it takes at least.
    fn announce(&self, cells: &[Cell<'_>]) {
        let all_s: f64 = cells.iter().map(|cell| cell.case.scenario.duration.as_secs_f64()).sum();
        let beside = self.fleet.jobs.map_or_else(String::new, |jobs| {
            format!(", {jobs} side by side: at least {:.0} min", (all_s / jobs as f64 / 60.0).ceil())
        });
        tell!("{} runs of {all_s:.0} s together{beside}", cells.len());
    }
}

/// What the figures take: a run's record and series, or why there is none, as far as `reasons` has it by the
/// run's number.
fn outcomes(
    found: Vec<Option<Outcome>>,
    reasons: Vec<(usize, String)>,
) -> Vec<Result<(RunRecord, RunSeries), String>> {
    let mut outcomes: Vec<_> = found
        .into_iter()
        .map(|outcome| match outcome {
            Some(outcome) => Ok((outcome.record, outcome.series)),
            None => Err("it was not run yet".to_owned()),
        })
        .collect();
    for (cell, reason) in reasons {
        if let Some(outcome) = outcomes.get_mut(cell) {
            *outcome = Err(reason);
        }
    }
    outcomes
}
