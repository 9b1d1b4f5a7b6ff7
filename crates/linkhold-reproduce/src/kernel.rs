//! The papers' figures against a kernel's own TCP, claim by claim beside the simulator's.
//!
//! This crate knows the figures and no kernel; whoever calls [`reproduce_on`] brings a [`Testbed`]. All runs
//! of all figures are one list, so that the testbed can make them side by side. Figures that share a scenario
//! (3, 4 and 5 of dsasync) share its runs, as they do in the simulator, where one seed gives one result. The
//! simulator runs the same variants with the same seeds.
//!
//! Values are paired by seed, so a figure counts only repetitions of which it has every run. A variant that
//! the testbed cannot run is left out whole, by name and with the reason, from both columns.

use std::collections::HashMap;
use std::ops::Range;

use linkhold_results::{
    Claim, Figure, FigureRow, KernelPart, Program, ReproduceReport, RunRecord, RunSeries, Simulated,
};
use linkhold_scenario::Case;

use crate::figure::{FigureSpec, KernelSpec, PaperSpec, judged};
use crate::grid::{Grid, Point, Variant};
use crate::options::{Options, Progress, ReproduceError};
use crate::paper::{Paper, PaperFigure};
use crate::selection::{Selection, chosen, every, id};

/// Runs scenarios against a kernel.
pub trait Testbed: Sync {
    /// The kernel's release, as `uname -r` has it.
    fn release(&self) -> String;

    /// Why `case` cannot run there with this congestion control; `None` if it can.
    fn refuses(&self, case: &Case, congestion: &str) -> Option<String>;

    /// Makes all runs, and answers them in the order given.
    ///
    /// # Errors
    /// Why nothing is to be reported: it was stopped, or has nowhere to keep results.
    fn run(&self, runs: &[KernelRun]) -> Result<Measured, String>;
}

/// A run to make.
#[derive(Clone, Debug)]
pub struct KernelRun {
    /// Figure, stack and direction that ask for it (the first, if several do), for messages.
    pub wanted_by: String,
    /// The case.
    pub case: Case,
    /// Congestion control, as the kernel calls it.
    pub congestion: String,
    /// Seed.
    pub seed: u64,
}

/// What became of the runs.
#[derive(Debug, Default)]
pub struct Measured {
    /// A result for each, or why there is none.
    pub outcomes: Vec<Result<(RunRecord, RunSeries), String>>,
    /// Runs that were late, and made again.
    pub repeated: u64,
}

/// One figure's share of the runs.
struct PlannedFigure {
    paper: &'static PaperSpec,
    figure: &'static FigureSpec,
    kernel: &'static KernelSpec,
    variants: Vec<Variant>,
    points: Vec<PlannedPoint>,
}

/// One case of one variant.
struct PlannedPoint {
    variant: usize,
    case: String,
    /// Where its runs stand among all, one for each repetition.
    runs: Vec<usize>,
}

#[derive(Default)]
struct Plan {
    figures: Vec<PlannedFigure>,
    runs: Vec<KernelRun>,
    /// Where the runs of a case stand, by all that decides their results.
    known: HashMap<String, Vec<usize>>,
    left_out: Vec<String>,
}

/// Refuses a selection of which nothing can run against a kernel, before a testbed is made ready.
///
/// # Errors
/// [`ReproduceError::Unknown`], [`ReproduceError::NotOnAKernel`].
pub fn check_selection(selection: &Selection<'_>) -> Result<(), ReproduceError> {
    let wanted = chosen(selection)?;
    if wanted.iter().any(|(paper, figure)| runs_on_a_kernel(paper, figure)) {
        return Ok(());
    }
    let reasons = wanted.iter().filter_map(|(paper, figure)| {
        let mut left_out = paper.kernel?.left_out.iter();
        left_out.find(|(name, _)| *name == figure.id).map(|(_, reason)| *reason)
    });
    Err(not_on_a_kernel(&wanted, &reasons.collect::<Vec<_>>().join("; ")))
}

fn not_on_a_kernel(wanted: &[(&PaperSpec, &FigureSpec)], why: &str) -> ReproduceError {
    let ids = |figures: &mut dyn Iterator<Item = (&PaperSpec, &FigureSpec)>| {
        figures.map(|(paper, figure)| id(paper, figure)).collect::<Vec<_>>().join(", ")
    };
    ReproduceError::NotOnAKernel {
        wanted: ids(&mut wanted.iter().copied()),
        known: ids(&mut every().filter(|(paper, figure)| runs_on_a_kernel(paper, figure))),
        why: why.to_owned(),
    }
}

/// Measures the figures that `selection` names on `testbed`, and in the simulator beside it.
///
/// # Errors
/// [`ReproduceError`]: nothing has that name, or it cannot run against a kernel; or the simulator or the
/// testbed failed. A run without a result is none: the report names it.
pub fn reproduce_on(
    testbed: &dyn Testbed,
    selection: &Selection<'_>,
    options: Options,
    progress: &dyn Progress,
    program: Program,
) -> Result<ReproduceReport, ReproduceError> {
    let plan = Plan::new(testbed, selection, options)?;
    let simulated = plan
        .figures
        .iter()
        .map(|planned| {
            let variants = planned.variants.clone();
            let figure = planned.id();
            let seeds = options.seeds(planned.paper.seeds);
            let grid = Grid::run(&figure, planned.figure.scenario, variants, seeds, progress)?;
            Ok(Grid { judged_on: Some(planned.kernel.stack), ..grid })
        })
        .collect::<Result<Vec<_>, ReproduceError>>()?;
    let measured = testbed.run(&plan.runs).map_err(ReproduceError::Testbed)?;
    let mut figures = Vec::with_capacity(plan.figures.len());
    for (planned, simulated) in plan.figures.iter().zip(&simulated) {
        figures.push(planned.report(&measured, simulated, options)?);
    }
    let mut report = ReproduceReport::new(program, figures);
    report.kernel = Some(plan.notes(testbed, &measured));
    Ok(report)
}

impl Plan {
    fn new(
        testbed: &dyn Testbed,
        selection: &Selection<'_>,
        options: Options,
    ) -> Result<Self, ReproduceError> {
        let mut plan = Self::default();
        let wanted = chosen(selection)?;
        for &(paper, figure) in &wanted {
            if let Some(kernel) = paper.kernel {
                plan.add_figure(testbed, paper, figure, kernel, options)?;
            }
        }
        if plan.figures.is_empty() {
            return Err(not_on_a_kernel(&wanted, &plan.left_out.join("; ")));
        }
        Ok(plan)
    }

    fn add_figure(
        &mut self,
        testbed: &dyn Testbed,
        paper: &'static PaperSpec,
        figure: &'static FigureSpec,
        kernel: &'static KernelSpec,
        options: Options,
    ) -> Result<(), ReproduceError> {
        let name = id(paper, figure);
        if let Some((_, reason)) = kernel.left_out.iter().find(|(left_out, _)| *left_out == figure.id) {
            self.left_out.push(format!("{name}: {reason}"));
            return Ok(());
        }
        let mut planned = PlannedFigure { paper, figure, kernel, variants: Vec::new(), points: Vec::new() };
        for variant in (kernel.variants)(figure, options.quick) {
            let cases = variant.cases(&name, figure.scenario)?;
            let refused = cases.iter().find_map(|case| {
                let reason = (kernel.refuses)(case).or_else(|| testbed.refuses(case, &congestion(case)));
                reason.map(|reason| format!("{name}, {}: {reason}", variant.stack))
            });
            if let Some(refused) = refused {
                // Both directions of a stack, and all its positions on the x axis, have the same reason.
                if !self.left_out.contains(&refused) {
                    self.left_out.push(refused);
                }
                continue;
            }
            for case in cases {
                let runs = self.runs_of(&name, &variant, &case, options.seeds(paper.seeds));
                planned.points.push(PlannedPoint { variant: planned.variants.len(), case: case.name, runs });
            }
            planned.variants.push(variant);
        }
        if !planned.variants.is_empty() {
            self.figures.push(planned);
        }
        Ok(())
    }

    /// Where the runs of `case` stand, which are added if nothing has asked for them before.
    fn runs_of(&mut self, figure: &str, variant: &Variant, case: &Case, seeds: Range<u64>) -> Vec<usize> {
        let mut scenario = case.scenario.clone();
        // Neither changes a result.
        scenario.name.clear();
        scenario.description.clear();
        let key = format!("{} {scenario:?}", case.name);
        if let Some(runs) = self.known.get(&key) {
            return runs.clone();
        }
        let at = variant.x.map_or_else(String::new, |x| format!(" at {x}"));
        let wanted_by = format!("{figure} [{}], {}{at}", variant.stack, variant.direction);
        let runs: Vec<usize> = seeds
            .map(|seed| {
                self.runs.push(KernelRun {
                    wanted_by: wanted_by.clone(),
                    case: case.clone(),
                    congestion: congestion(case),
                    seed,
                });
                self.runs.len() - 1
            })
            .collect();
        self.known.insert(key, runs.clone());
        runs
    }

    fn notes(&self, testbed: &dyn Testbed, measured: &Measured) -> KernelPart {
        let missing: Vec<String> = self
            .runs
            .iter()
            .enumerate()
            .filter_map(|(index, run)| {
                let KernelRun { wanted_by, case, seed, .. } = run;
                let reason = match measured.outcomes.get(index) {
                    Some(Ok(_)) => return None,
                    Some(Err(reason)) => reason,
                    None => "the testbed answered nothing",
                };
                Some(format!("{wanted_by}, case {}, seed {seed}: {reason}", case.name))
            })
            .collect();
        let mut kernels: Vec<&'static KernelSpec> = Vec::new();
        for planned in &self.figures {
            if !kernels.iter().any(|known| std::ptr::eq(*known, planned.kernel)) {
                kernels.push(planned.kernel);
            }
        }
        KernelPart {
            release: testbed.release(),
            judged_on: kernels.iter().map(|kernel| kernel.stack).collect::<Vec<_>>().join("; "),
            runs: (self.runs.len() - missing.len()) as u64,
            repeated: measured.repeated,
            told: kernels.iter().flat_map(|kernel| kernel.told).map(|&line| line.to_owned()).collect(),
            left_out: self.left_out.clone(),
            missing,
        }
    }
}

impl PlannedFigure {
    fn id(&self) -> String {
        id(self.paper, self.figure)
    }

    /// What the testbed measured, of the repetitions that are whole.
    fn grid(&self, measured: &Measured, seeds: u32) -> Grid {
        let outcome = |point: &PlannedPoint, repetition: usize| {
            let index = *point.runs.get(repetition)?;
            measured.outcomes.get(index)?.as_ref().ok()
        };
        let whole: Vec<usize> = (0..seeds as usize)
            .filter(|&repetition| self.points.iter().all(|point| outcome(point, repetition).is_some()))
            .collect();
        let points = self.points.iter().map(|point| Point {
            variant: point.variant,
            case: point.case.clone(),
            runs: whole.iter().filter_map(|&repetition| outcome(point, repetition).cloned()).collect(),
            acks: Vec::new(),
        });
        Grid { variants: self.variants.clone(), points: points.collect(), judged_on: Some(self.kernel.stack) }
    }

    fn report(
        &self,
        measured: &Measured,
        simulated: &Grid,
        options: Options,
    ) -> Result<Figure, ReproduceError> {
        let paper = Paper::parse(self.paper.numbers)?;
        let printed = paper.figure(self.figure.id)?;
        let grid = self.grid(measured, options.repetitions(self.paper.seeds));
        let seeds = grid.points.first().map_or(0, |point| point.runs.len());
        let mut rows = if seeds > 0 { self.rows(&grid, "kernel") } else { Vec::new() };
        for row in &mut rows {
            for (ours, theirs) in self.kernel.renamed {
                row.metric = row.metric.replace(ours, theirs);
            }
        }
        rows.extend(self.rows(simulated, "simulator"));
        Ok(Figure {
            id: self.id(),
            title: options.title(&printed.full_title(), self.paper.seeds),
            seeds: seeds as u64,
            x_label: self.figure.x_label.to_owned(),
            rows,
            claims: self.claims(printed, &grid, simulated, options),
        })
    }

    /// The figure's rows, whose cases name where they ran.
    fn rows(&self, grid: &Grid, ran: &str) -> Vec<FigureRow> {
        let mut rows = (self.figure.rows)(grid);
        for row in &mut rows {
            row.case = match row.case.split_once(" [") {
                Some((case, stack)) => format!("{case} ({ran}) [{stack}"),
                None => format!("{} ({ran})", row.case),
            };
        }
        rows
    }

    /// The kernel's verdicts, with the simulator's beside them.
    fn claims(&self, printed: &PaperFigure, grid: &Grid, simulated: &Grid, options: Options) -> Vec<Claim> {
        let mut claims = judged(self.figure, printed, grid);
        let is_empty = grid.points.iter().any(|point| point.runs.is_empty());
        for (claim, beside) in claims.iter_mut().zip(judged(self.figure, printed, simulated)) {
            if is_empty {
                (claim.measured, claim.ci95, claim.holds) = (None, None, None);
                claim.criterion = format!("not measured: no repetition is whole; in {}", claim.unit);
            }
            claim.simulated = Some(Simulated {
                measured: beside.measured,
                ci95: beside.ci95,
                holds: beside.holds,
                seeds: u64::from(options.repetitions(self.paper.seeds)),
            });
        }
        claims
    }
}

/// The case's congestion control, as the kernel calls it.
fn congestion(case: &Case) -> String {
    format!("{:?}", case.scenario.tcp.congestion).to_lowercase()
}

fn runs_on_a_kernel(paper: &PaperSpec, figure: &FigureSpec) -> bool {
    let left_out = |kernel: &KernelSpec| kernel.left_out.iter().any(|(name, _)| *name == figure.id);
    paper.kernel.is_some_and(|kernel| !left_out(kernel))
}

#[cfg(test)]
mod tests;
