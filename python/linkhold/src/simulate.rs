//! Runs points × cases × seeds side by side, without the interpreter's lock, until done or interrupted.
//!
//! Results come in the order of points, cases and seeds, whichever run ends first. The calling thread only
//! waits and asks now and then whether the user pressed Ctrl-C; if so, it sets a flag that every run reads
//! before each slice of simulated time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration as WallDuration;

use linkhold_core::time::{Duration, Instant};
use linkhold_results::{RunRecord, RunReport, RunSeries, compare};
use linkhold_scenario::{Case, Scenario};
use linkhold_sim::{NoObserver, Simulation, Unsupported};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::error::{RunError, scenario_error, unsupported_error};
use crate::results::{Run, program};
use crate::source::Source;

/// Longest time until Ctrl-C is noticed.
const PATIENCE: WallDuration = WallDuration::from_millis(50);
/// Simulated time between two looks at the flag: a few milliseconds of work.
const SLICE: Duration = Duration::from_millis(100);

struct Job<'a> {
    case: &'a Case,
    seed: u64,
}

type Outcome = (RunRecord, Option<RunSeries>);

enum Failure {
    /// The user interrupted.
    Stopped,
    /// The run could not start.
    Failed(String),
}

/// Refuses cases that no simulator can run.
fn refuse_unsupported(py: Python<'_>, scenario: &Scenario, cases: &[Case]) -> PyResult<()> {
    for case in cases {
        linkhold_sim::check(&case.scenario).map_err(|Unsupported { key, what, right }| {
            unsupported_error(py, &scenario.problem(&case.name, &key, &what, &right))
        })?;
    }
    Ok(())
}

/// Refuses a scenario that is wrong, or that no simulator can run; returns its hints.
#[pyfunction]
pub fn check_simulated(
    py: Python<'_>,
    file: Option<String>,
    text: Option<String>,
    set: Vec<String>,
) -> PyResult<Vec<String>> {
    let scenario = Source::new(file, text).load(&set).map_err(|problems| scenario_error(py, &problems))?;
    refuse_unsupported(py, &scenario, &scenario.cases())?;
    Ok(scenario.hints())
}

/// Runs a scenario at every point: a point is a list of `key=value` overrides. `tell` is called with the
/// hints of all points before the first run.
#[pyfunction]
#[pyo3(signature = (file, text, points, seeds, threads, keep_series, baseline=None, tell=None))]
#[allow(clippy::too_many_arguments, reason = "called by the Python half only, which names them")]
pub fn run_points(
    py: Python<'_>,
    file: Option<String>,
    text: Option<String>,
    points: Vec<Vec<String>>,
    seeds: u64,
    threads: Option<usize>,
    keep_series: bool,
    baseline: Option<&str>,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Run>> {
    let source = Source::new(file, text);
    // Every point is checked before the first run.
    let scenarios = points
        .iter()
        .map(|set| source.load(set).map_err(|problems| scenario_error(py, &problems)))
        .collect::<PyResult<Vec<Scenario>>>()?;
    let cases: Vec<Vec<Case>> = scenarios.iter().map(Scenario::cases).collect();
    for (scenario, cases) in scenarios.iter().zip(&cases) {
        refuse_unsupported(py, scenario, cases)?;
    }
    if let Some(baseline) = baseline {
        for cases in &cases {
            let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            if !names.contains(&baseline) {
                let known = names.join(", ");
                return Err(PyKeyError::new_err(format!("there is no case {baseline:?}; there are {known}")));
            }
        }
    }
    if let Some(tell) = tell {
        // What it raises, if warnings are errors, ends this before a run begins.
        tell.call1((scenarios.iter().flat_map(Scenario::hints).collect::<Vec<String>>(),))?;
    }
    let jobs: Vec<Job<'_>> = cases
        .iter()
        .flatten()
        .flat_map(|case| {
            (0..seeds).map(move |repetition| Job { case, seed: case.scenario.seed + repetition })
        })
        .collect();
    let mut outcomes = simulate(py, &jobs, threads, keep_series)?.into_iter();
    let runs = scenarios.iter().zip(&cases).zip(&points).map(|((scenario, cases), set)| {
        let of_point = outcomes.by_ref().take(cases.len() * seeds as usize);
        let (records, series): (Vec<RunRecord>, Vec<Option<RunSeries>>) = of_point.unzip();
        let comparison = compare(&records, baseline);
        let report = RunReport::new(program(), source.info(scenario, set), records, comparison);
        Run::new(report, series.into_iter().flatten().collect(), scenario.as_run().to_owned())
    });
    Ok(runs.collect())
}

fn simulate(
    py: Python<'_>,
    jobs: &[Job<'_>],
    threads: Option<usize>,
    keep_series: bool,
) -> PyResult<Vec<Outcome>> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .thread_name(|index| format!("linkhold-{index}"))
        .build()
        .map_err(|error| RunError::new_err(format!("cannot start threads: {error}")))?;
    let stop = AtomicBool::new(false);
    let work = || -> Vec<Result<Outcome, Failure>> {
        pool.install(|| jobs.par_iter().map(|job| run_one(job, keep_series, &stop)).collect())
    };
    let results = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                // `done` is dropped at the end, or when a run panics; either ends the wait below.
                let _done = done;
                work()
            });
            let mut interrupt = None;
            while finished.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    stop.store(true, Ordering::Relaxed);
                    interrupt = Some(error);
                    break;
                }
            }
            let results = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            interrupt.map_or(Ok(results), Err)
        })
    })?;
    results
        .into_iter()
        .map(|result| {
            result.map_err(|failure| match failure {
                Failure::Stopped => RunError::new_err("interrupted"),
                Failure::Failed(message) => RunError::new_err(message),
            })
        })
        .collect()
}

fn run_one(job: &Job<'_>, keep_series: bool, stop: &AtomicBool) -> Result<Outcome, Failure> {
    let started = std::time::Instant::now();
    let mut observer = NoObserver;
    let mut simulation = Simulation::new(job.case, job.seed, &mut observer)
        .map_err(|error| Failure::Failed(format!("case {}, seed {}: {error}", job.case.name, job.seed)))?;
    let end = Instant::ZERO + job.case.scenario.duration;
    let mut until = Instant::ZERO;
    while until < end {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        until = (until + SLICE).min(end);
        simulation.advance(until);
    }
    let (mut record, series) = simulation.finish();
    record.wall_s = started.elapsed().as_secs_f64();
    Ok((record, keep_series.then_some(series)))
}
