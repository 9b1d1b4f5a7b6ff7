//! One file for each command; `completions` and `man` are both in [`manual`].

pub mod agent;
pub mod doctor;
pub mod manual;
pub mod reproduce;
pub mod run;
pub mod scenario;
pub mod signal;
pub mod status;
pub mod testbed;

use crate::Failure;

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
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| Failure::Failed(format!("cannot write the results as JSON: {error}")))?;
    Ok(json + "\n")
}
