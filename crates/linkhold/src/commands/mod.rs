//! One file for each command; `completions` and `man` are both in [`manual`], and what `run` and `testbed`
//! share is in [`deliver`].

pub mod agent;
mod deliver;
pub mod doctor;
pub mod estimate;
pub mod host;
pub mod manual;
pub mod pu_log;
pub mod reproduce;
pub mod run;
pub mod scenario;
pub mod sense;
pub mod signal;
pub mod status;
pub mod testbed;

use std::path::Path;

use linkhold_linux::agent::AgentError;
use linkhold_scenario::{Case, Scenario};
use linkhold_sim::Unsupported;

use crate::Failure;

/// How the command ends when an agent, on a router or a host, could not run.
fn agent_failure(error: &AgentError) -> Failure {
    let told = error.to_string();
    if error.is_bad_input() { Failure::BadInput(told) } else { Failure::Failed(told) }
}

/// The name of a file in messages: standard input has the one that errors give it.
fn shown(path: &Path) -> std::path::Display<'_> {
    if path == Path::new("-") { Path::new("<stdin>").display() } else { path.display() }
}

/// Reads a scenario file, or standard input for `-`, and tells on standard error what is probably not meant.
fn load(path: &Path, set: &[String]) -> Result<Scenario, Failure> {
    let scenario = Scenario::load(path, set).map_err(|error| Failure::BadInput(error.to_string()))?;
    for hint in scenario.hints() {
        tell!("hint: {hint}");
    }
    Ok(scenario)
}

/// Refuses a `--baseline` that is none of the scenario's cases.
fn check_baseline(baseline: Option<&str>, scenario: &Scenario) -> Result<(), Failure> {
    let cases = scenario.cases();
    match baseline {
        Some(wanted) if !cases.iter().any(|case| case.name == wanted) => {
            let known: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            let known = known.join(", ");
            Err(Failure::BadInput(format!("--baseline {wanted}: there is no such case; there are {known}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Why `case` is not run, with the place in the file that asks for what is not there.
fn unsupported(scenario: &Scenario, case: &Case, unsupported: &Unsupported) -> Failure {
    let Unsupported { key, what, right } = unsupported;
    Failure::BadInput(scenario.problem(&case.name, key, what, right).to_string())
}

/// Runs `work` on a pool of `threads` threads; `None` means one per core.
fn on_pool<T: Send>(threads: Option<u16>, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or(0, usize::from))
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start threads: {error}")))?;
    Ok(pool.install(work))
}

/// The JSON of a report, with a newline at its end.
fn to_json(report: &impl serde::Serialize) -> Result<String, Failure> {
    written(serde_json::to_string_pretty(report))
}

/// The JSON of a report in one line, with a newline at its end.
fn to_json_line(report: &impl serde::Serialize) -> Result<String, Failure> {
    written(serde_json::to_string(report))
}

fn written(json: serde_json::Result<String>) -> Result<String, Failure> {
    let failed = |error| Failure::Failed(format!("cannot write the results as JSON: {error}"));
    json.map(|json| json + "\n").map_err(failed)
}
