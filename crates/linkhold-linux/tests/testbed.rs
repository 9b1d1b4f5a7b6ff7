//! The testbed's own conduct: what it does when a run is disturbed. What runs must show is in `tests/plans`.
//!
//! Needs root, iperf3 and /dev/net/tun; without them every test is skipped and says why. The test program is
//! also the agent's process (`agent --config FILE`).

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use linkhold_linux::testbed::cells::missing_requirement;
use linkhold_linux::testbed::error::{RunError, TrafficError};
use linkhold_linux::testbed::outcome::Outcome;
use linkhold_linux::testbed::run::{Options, run};
use linkhold_scenario::Scenario;

type Answer = Result<(), Failed>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|word| word == "agent") {
        let config = words.last().map(std::path::PathBuf::from).unwrap_or_default();
        return match linkhold_linux::agent::run_agent(&config, None) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut arguments = Arguments::from_args();
    // They share two cores with the traffic they measure.
    arguments.test_threads = Some(1);
    let missing = missing_requirement();
    if let Some(reason) = &missing {
        eprintln!("testbed tests are skipped: {reason}");
    }
    for stale in linkhold_linux::netns::reap_stale() {
        eprintln!("removed the stale namespace {stale}");
    }
    let skipped = missing.is_some();
    let trial = |name: &str, test: fn() -> Answer| Trial::test(name, test).with_ignored_flag(skipped);
    let trials = vec![
        trial("a_killed_client_is_an_error_and_leaves_nothing", killed_client),
        trial("a_stopped_run_leaves_nothing", stopped_run),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

const SCENARIO: &str = r#"
schema = "linkhold.scenario/1"
name = "disturbed"
duration = "5s"
[radio]
phy_rate = "24Mbit/s"
[[flows]]
direction = "downlink"
[[cases]]
name = "agent"
mechanism = "dsasync"
"#;

/// No namespace of this process.
fn nothing_is_left() -> Answer {
    let prefix = format!("lh-{}-", std::process::id());
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Ok(()) };
    let left: Vec<_> = entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with(&prefix))
        .collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}").into()) }
}

fn ensure(holds: bool, otherwise: impl Into<String>) -> Answer {
    if holds { Ok(()) } else { Err(otherwise.into().into()) }
}

fn options() -> Result<Options, Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    Ok(Options { program: std::env::current_exe()?, congestion: "reno".to_owned(), capture: None, stop })
}

/// Runs the scenario, with `meddle` beside it when traffic flows.
fn disturbed(meddle: impl FnOnce(&Options) + Send) -> Result<Result<Outcome, RunError>, Failed> {
    let (scenario, options) = (Scenario::from_toml(SCENARIO, "test.toml", &[])?, options()?);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(2500));
            meddle(&options);
        });
        run(&scenario.cases()[0], 1, &options)
    });
    nothing_is_left()?;
    Ok(result)
}

fn killed_client() -> Answer {
    let result = disturbed(|_| {
        let prefix = format!("lh-{}-", std::process::id());
        let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
        for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            if !(name.starts_with(&prefix) && name.ends_with("-sh0")) {
                continue;
            }
            let pids = linkhold_linux::command::run("ip", &["netns", "pids", &name]).unwrap_or_default();
            for pid in pids.split_whitespace().filter_map(|pid| pid.parse().ok()) {
                if pid != std::process::id().cast_signed() {
                    let _ = nix::sys::signal::kill(
                        nix::unistd::Pid::from_raw(pid),
                        nix::sys::signal::Signal::SIGKILL,
                    );
                }
            }
        }
    })?;
    match result {
        Err(RunError::Traffic(TrafficError::Ended { .. })) => Ok(()),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("the run was reported".into()),
    }
}

fn stopped_run() -> Answer {
    let began = std::time::Instant::now();
    let result = disturbed(|options| options.stop.store(true, Ordering::Relaxed))?;
    ensure(began.elapsed() < Duration::from_secs(5), "it went on")?;
    match result {
        Err(RunError::Stopped) => Ok(()),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("the run was reported".into()),
    }
}
