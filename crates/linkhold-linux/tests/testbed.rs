//! The testbed between namespaces: the kernel's TCP over the simulator's radio on a real clock.
//!
//! Needs root, iperf3 and /dev/net/tun; without them every test is skipped and says why. The test program is also the
//! agent's process (`agent --config FILE`).

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use linkhold_linux::testbed::cells::{Cell, Fleet, missing_requirement, run_all};
use linkhold_linux::testbed::outcome::Outcome;
use linkhold_linux::testbed::run::{Options, RunError, available_congestion_controls, run};
use linkhold_linux::testbed::traffic::TrafficError;
use linkhold_scenario::{Case, Scenario};

type Answer = Result<(), Failed>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|word| word == "agent") {
        let config = words.last().map(std::path::PathBuf::from).unwrap_or_default();
        return match linkhold_linux::agent::run_agent(&config) {
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
        trial("a_radio_without_silences_is_full_at_any_round_trip", full_without_silences),
        trial("every_kind_of_flow_is_carried_and_measured", every_kind_of_flow),
        trial("a_killed_client_is_an_error_and_leaves_nothing", killed_client),
        trial("a_stopped_run_leaves_nothing", stopped_run),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

const CLEAN: &str = r#"
schema = "linkhold.scenario/1"
name = "clean"
duration = "5s"
warm_up = "2s"
[wired]
rate = "1Gbit/s"
rtt = "20ms"
[radio]
mac = "duplex"
phy_rate = "24Mbit/s"
mac_efficiency = 1.0
[router]
limit = "600pkt"
in_silence = "queue"
[station]
limit = "600pkt"
[tcp]
profile = "linux"
receive_buffer = "512KiB"  # between the path's BDP and what the queues hold: nothing is lost, a few seconds tell all
[[flows]]
direction = "downlink"
source = "bulk"
"#;

fn cases(cases: &str) -> Vec<Case> {
    match Scenario::from_toml(&format!("{CLEAN}{cases}"), "test.toml", &[]) {
        Ok(scenario) => scenario.cases(),
        Err(error) => panic!("{error}"),
    }
}

fn measure(cells: &[Cell<'_>]) -> Result<Vec<Outcome>, Failed> {
    let fleet = Fleet {
        program: std::env::current_exe()?,
        jobs: None,
        store: None,
        resume: false,
        captures: None,
        stop: Arc::new(AtomicBool::new(false)),
    };
    let outcomes = run_all(cells, &fleet, &|_, _| {})?;
    for outcome in &outcomes {
        println!(
            "{}: {:.3} of the limit, {:.3} ms late",
            outcome.record.case,
            outcome.record.totals.limit_share,
            outcome.linux.event_late_p99_s * 1e3
        );
    }
    nothing_is_left()?;
    Ok(outcomes)
}

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

fn full_without_silences() -> Answer {
    let cases = cases(
        "[[cases]]\nname = \"3ms\"\nset = { \"wired.rtt\" = \"3ms\" }\n\
         [[cases]]\nname = \"50ms\"\nset = { \"wired.rtt\" = \"50ms\" }\n\
         [[cases]]\nname = \"100ms\"\nset = { \"wired.rtt\" = \"100ms\" }\n",
    );
    let known = available_congestion_controls()?;
    let wanted = ["reno", "cubic", "bbr"].into_iter().filter(|name| known.iter().any(|have| have == name));
    let cells: Vec<Cell<'_>> = wanted
        .flat_map(|name| cases.iter().map(move |case| Cell { case, congestion: name.to_owned(), seed: 1 }))
        .collect();
    for outcome in measure(&cells)? {
        let share = outcome.record.totals.limit_share;
        ensure((0.97..1.02).contains(&share), format!("{}: {share:.3} of the limit", outcome.record.case))?;
    }
    Ok(())
}

fn every_kind_of_flow() -> Answer {
    let cases = cases(
        r#"
[[cases]]
name = "uplink"
set = { "flows.0.direction" = "uplink" }
[[cases]]
name = "ipv6"
# A new namespace may answer its first IPv6 packet late: a SYN sent again after a second is over before counting starts.
set = { "flows.0.ip" = "v6", "warm_up" = "3s", "duration" = "6s" }
[[cases]]
name = "many"
set = { "radio.stations" = 3, "flows.0.station" = "all", "flows.0.count" = 2 }
[[cases]]
name = "sized"
set = { "flows.0.source" = "100kB", "flows.0.arrivals" = "4/s", "flows.0.stop" = "3s" }
[[cases]]
name = "agent"
mechanism = "dsasync"
[[cases]]
name = "silences"
set = { "radio.sensing" = { period = "400ms", duration = "100ms" } }
[[cases]]
name = "silences-agent"
mechanism = "dsasync-freeze-nudge"
set = { "radio.sensing" = { period = "400ms", duration = "100ms" } }
"#,
    );
    let cells: Vec<Cell<'_>> =
        cases.iter().map(|case| Cell { case, congestion: "reno".to_owned(), seed: 1 }).collect();
    for Outcome { record, linux, .. } in measure(&cells)? {
        let share = record.totals.limit_share;
        let flows = record.flows.len();
        let told = format!("{}: {share:.3} of the limit, {flows} flows, {linux:?}", record.case);
        match linux.case.as_str() {
            "uplink" | "ipv6" | "agent" => ensure(share > 0.97 && flows == 1, told)?,
            "many" => ensure(share > 0.95 && flows == 6, told)?,
            "sized" => {
                let done = linux.completions.as_ref().ok_or("no completions")?;
                let bytes = record.flows.iter().all(|flow| flow.completion_s.is_some());
                ensure(bytes && done.finished >= 4 && done.corrupt == 0 && done.unfinished == 0, told)?;
            }
            "silences" => ensure(record.link.silences >= 7 && linux.resumes >= 6 && share > 0.9, told)?,
            "silences-agent" => {
                let agent = linux.agent.as_ref().ok_or("no status")?;
                let saw = agent.silences >= 11 && agent.packets.holds > 0 && agent.packets.held == 0;
                ensure(saw && share > 0.9 && linux.zero_windows > 0, told)?;
            }
            other => return Err(format!("unexpected case {other}").into()),
        }
    }
    Ok(())
}

fn options() -> Result<Options, Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    Ok(Options { program: std::env::current_exe()?, congestion: "reno".to_owned(), capture: None, stop })
}

/// Runs the first case, with `meddle` beside it after a second.
fn disturbed(meddle: impl FnOnce(&Options) + Send) -> Result<Result<Outcome, RunError>, Failed> {
    let (cases, options) = (cases("[[cases]]\nname = \"agent\"\nmechanism = \"dsasync\"\n"), options()?);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(2500));
            meddle(&options);
        });
        run(&cases[0], 1, &options)
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
