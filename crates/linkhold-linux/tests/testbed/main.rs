//! The testbed's own conduct: what it does when a run is disturbed, and who carries out a case's mechanisms.
//! What runs must show is in `tests/plans`.
//!
//! Needs root, iperf3 and /dev/net/tun; without them every test is skipped and says why. The test program is
//! also the agent's and the host's process (`agent --config FILE`, `host --config FILE`).

mod hosts;
mod quic;
mod repairs;
mod stops;
mod watcher;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use linkhold_linux::agent::{AgentError, Recording};
use linkhold_linux::testbed::cells::missing_requirement;
use linkhold_linux::testbed::error::{LateAttempts, Lateness, RunError, TrafficError};
use linkhold_linux::testbed::outcome::Outcome;
use linkhold_linux::testbed::run::{Options, run};
use linkhold_results::Program;
use linkhold_scenario::Scenario;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A test that may find that it cannot be made here.
type Answer = Result<Completion, Failed>;
/// How often a run is made anew whose air was late, because this machine had other things to do.
const ATTEMPTS: u32 = 6;
/// As in the plans: hosts that stood still for a greater share of the time counted tell of this machine's
/// other work.
const MOST_STALLED: f64 = 0.03;

/// Runs as one of the program's daemons.
type Daemon = fn(&Path, Option<&Recording>, &Program) -> Result<(), AgentError>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    // One word alone is a filter of tests.
    let daemon: Option<Daemon> = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "agent", "--config", _] => Some(linkhold_linux::agent::run_agent),
        [_, "host", "--config", _] => Some(linkhold_linux::host::run_host),
        _ => None,
    };
    if let Some(run_daemon) = daemon {
        let config = words.last().map(std::path::PathBuf::from).unwrap_or_default();
        return match run_daemon(&config, None, &Program::new("test", "unknown")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    // The time counts from here.
    is_out_of_patience();
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
    let trial =
        |name: &str, test: fn() -> Answer| Trial::ignorable_test(name, test).with_ignored_flag(skipped);
    let trials = vec![
        trial("a_killed_client_is_an_error_and_leaves_nothing", killed_client),
        trial("a_stopped_run_leaves_nothing", stopped_run),
        trial("each_station_has_a_host_that_hears_its_own_silences", hosts::at_each_station),
        trial(
            "a_host_at_the_correspondent_runs_beside_the_agent",
            hosts::at_the_correspondent_beside_the_agent,
        ),
        trial("dsasync_at_a_station_holds_its_own_hosts_segments", hosts::dsasync_at_a_station),
        trial("two_mechanisms_stand_at_a_station", hosts::two_at_a_station),
        trial("dsasync_stands_at_the_stations_and_at_the_base_station", hosts::dsasync_at_both_ends),
        trial("a_gate_at_a_station_hears_the_signal", hosts::a_gate_hears_the_signal),
        trial("a_case_asks_for_senders_frozen_by_ebpf", hosts::by_ebpf),
        trial(
            "a_case_asks_for_senders_at_the_correspondent_frozen_by_ebpf",
            hosts::by_ebpf_at_the_correspondent,
        ),
        trial("timeouts_are_told_of_the_flow_that_had_them", repairs::of_two_flows_in_a_namespace),
        trial("a_lone_flow_has_its_namespaces_counters", repairs::of_one_flow_in_a_namespace),
        trial(
            "a_quic_download_through_dsasync_arrives_whole_and_loses_no_more",
            quic::arrives_whole_and_loses_no_more,
        ),
        trial("quic_uploads_too_and_counts_from_the_warm_up", quic::uploads_and_counts_from_the_warm_up),
        trial("a_congestion_control_that_quinn_lacks_is_refused", quic::refuses_what_quinn_does_not_have),
        trial("rates_of_what_stops_end_with_it_whatever_carries_it", stops::rates_end_with_the_flow),
        trial("what_only_watches_stands_beside_a_kernel", watcher::stands_beside_a_kernel),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

const SCENARIO: &str = r#"
schema = "linkhold.scenario/1"
name = "disturbed"
duration = "30s"
[radio]
phy_rate = "24Mbit/s"
[[flows]]
direction = "downlink"
[[cases]]
name = "agent"
mechanism = "dsasync"
"#;

/// No namespace of this process.
fn nothing_is_left() -> Result<(), Failed> {
    let prefix = format!("lh-{}-", std::process::id());
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Ok(()) };
    let left: Vec<_> = entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with(&prefix))
        .collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}").into()) }
}

fn ensure(holds: bool, otherwise: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(otherwise.into().into()) }
}

fn options() -> Result<Options, Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    Ok(Options {
        program: std::env::current_exe()?,
        version: "the program".to_owned(),
        congestion: "cubic".to_owned(),
        capture: None,
        stop,
    })
}

/// After so long no run is made again, in any test, that was late because this machine had other things to
/// do.
const PATIENCE: Duration = Duration::from_secs(180);
/// After so many such runs in a row, and [`PATIENCE`], none is made for the first time either.
const IN_A_ROW: usize = 3;

/// The runs in a row, of all tests, that this machine had no time for, and what the last one told.
static NO_TIME: Mutex<(usize, String)> = Mutex::new((0, String::new()));

/// True when the tests have gone on for longer than [`PATIENCE`], which begins with the first call.
fn is_out_of_patience() -> bool {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed() > PATIENCE
}

/// The run of the first case of a scenario, made again if its air was late or its hosts stood still. `Err` in
/// it: this machine had other things to do each time.
fn in_time(text: &str) -> Result<Result<Outcome, Completion>, Failed> {
    let scenario = Scenario::from_toml(text, "test.toml", &[])?;
    let no_time = || NO_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let (IN_A_ROW.., last) = &*no_time()
        && is_out_of_patience()
    {
        let why = format!("it was not tried: this machine had no time for others, of which the last: {last}");
        return Ok(Err(Completion::ignored_with(why)));
    }
    let mut late = LateAttempts::default();
    loop {
        let case = &scenario.cases()[0];
        let result = run(case, 1, &options()?).and_then(|outcome| outcome.without_stalls(case, MOST_STALLED));
        nothing_is_left()?;
        let error = match result {
            Ok(outcome) => {
                no_time().0 = 0;
                return Ok(Ok(outcome));
            }
            Err(error) => error,
        };
        let Some(lateness) = error.lateness() else { return Err(error.to_string().into()) };
        late = late.and(lateness);
        let is_hosts = lateness == Lateness::Hosts;
        let in_a_row = no_time().0;
        *no_time() = if is_hosts { (in_a_row + 1, error.to_string()) } else { (0, String::new()) };
        if late.number >= ATTEMPTS || (is_hosts && is_out_of_patience()) {
            return if late.are_the_hosts() {
                Ok(Err(Completion::ignored_with(error.to_string())))
            } else {
                Err(error.to_string().into())
            };
        }
    }
}

/// What the testbed says of a scenario whose case it does not run.
fn refused(text: &str) -> Result<String, Failed> {
    let scenario = Scenario::from_toml(text, "test.toml", &[])?;
    match run(&scenario.cases()[0], 1, &options()?) {
        Err(RunError::Unsupported(unsupported)) => Ok(unsupported.to_string()),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("it was run".into()),
    }
}

/// Longer than any set-up of a run takes.
const SET_UP: Duration = Duration::from_secs(20);

/// The iperf3 clients that run at this process's first station.
fn clients() -> Vec<Pid> {
    let prefix = format!("lh-{}-", std::process::id());
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let pids = names.filter(|name| name.starts_with(&prefix) && name.ends_with("-sh0")).flat_map(|name| {
        let pids = linkhold_linux::command::run("ip", &["netns", "pids", &name]).unwrap_or_default();
        pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
    });
    // Before its time comes, a client is a shell.
    let is_client = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "iperf3")
    };
    pids.filter(is_client).map(Pid::from_raw).collect()
}

/// Runs the scenario, with `meddle` beside it when traffic flows.
fn disturbed(meddle: impl FnOnce(&Options) + Send) -> Result<Result<Outcome, RunError>, Failed> {
    let scenario = Scenario::from_toml(SCENARIO, "test.toml", &[])?;
    let folder = tempfile::tempdir()?;
    let capture = folder.path().join("packets.pcapng");
    let options = Options { capture: Some(capture.clone()), ..options()? };
    let mut says_what_it_is = false;
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Whatever the set-up takes. If nothing came of it, the run's error tells why.
            let deadline = Instant::now() + SET_UP;
            while clients().is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            // The first packets fill the file's buffer.
            let told = b"the program, testbed: disturbed, case agent, seed 1";
            let is_said = || {
                std::fs::read(&capture).is_ok_and(|file| file.windows(told.len()).any(|part| part == told))
            };
            while !is_said() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            says_what_it_is = is_said();
            meddle(&options);
        });
        run(&scenario.cases()[0], 1, &options)
    });
    nothing_is_left()?;
    ensure(says_what_it_is, "the capture does not say what it is of")?;
    ensure(result.is_ok() || !capture.exists(), "a run without a result left its capture")?;
    Ok(result)
}

fn killed_client() -> Answer {
    let result = disturbed(|_| {
        for client in clients() {
            let _ = kill(client, Signal::SIGKILL);
        }
    })?;
    match result {
        Err(RunError::Traffic(TrafficError::Ended { .. })) => Ok(Completion::Completed),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("the run was reported".into()),
    }
}

fn stopped_run() -> Answer {
    let mut stopped = None;
    let result = disturbed(|options| {
        options.stop.store(true, Ordering::Relaxed);
        stopped = Some(Instant::now());
    })?;
    // Of the run's 30 s.
    ensure(stopped.is_some_and(|at| at.elapsed() < Duration::from_secs(20)), "it went on")?;
    match result {
        Err(RunError::Stopped) => Ok(Completion::Completed),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("the run was reported".into()),
    }
}
