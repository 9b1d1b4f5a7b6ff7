//! One body of tests on both stacks: every plan (conditions, run, check) is executed on the simulator and on
//! Linux.
//!
//! `simulator::<plan>` runs in virtual time everywhere. `linux::<plan>` runs in real time on this machine's
//! kernel, and `both::<plan>` compares the two. `linux` and `both` need root, iperf3 and /dev/net/tun, and
//! are skipped with the reason without them, and where this machine gave too much of its processors to other
//! programs or machines at every attempt to make a run in time: the runner measures that share. The check is
//! the same. All runs on Linux that the wanted trials need are made side by side before the first of them is
//! judged. `--nocapture` shows every number that was checked, and its bound. The test program is also the
//! agent's process (`agent --config FILE`).

mod conditions;
mod findings;
mod flows;
mod granted;
mod mechanism;
mod plan;
mod radio;
mod runs;
mod throughput;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use linkhold_results::Program;

use findings::Findings;
use plan::Plan;
use runs::Bench;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|word| word == "agent") {
        return be_the_agent(words.last().map(std::path::PathBuf::from).unwrap_or_default());
    }
    let mut arguments = Arguments::from_args();
    // The simulator would take the processor from the runs in real time.
    arguments.test_threads = Some(1);
    let plans: Vec<Plan> =
        [radio::plans(), granted::plans(), throughput::plans(), mechanism::plans(), flows::plans()]
            .into_iter()
            .flatten()
            .collect();
    let missing = linkhold_linux::testbed::cells::missing_requirement();
    let skipped = missing.is_some();
    match &missing {
        Some(reason) => eprintln!("the plans run on the simulator only: {reason}"),
        None => {
            for stale in linkhold_linux::netns::reap_stale() {
                eprintln!("removed the stale namespace {stale}");
            }
        }
    }
    // Which plans run on Linux is known before the first does: theirs are the runs to make.
    let is_wanted = |name: &str| !arguments.is_filtered_out(&Trial::test(name, || Ok(())));
    let on_linux = |plan: &Plan| {
        let beside = plan.agree.is_some() && is_wanted(&format!("both::{}", plan.name));
        !skipped && (beside || is_wanted(&format!("linux::{}", plan.name)))
    };
    // Before any thread starts: Ctrl-C ends the runs on Linux in order.
    let stop = match linkhold_linux::testbed::signals::stop_on_signals(|| {}) {
        Ok(stop) => stop,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let bench = match Bench::new(&plans, on_linux, stop) {
        Ok(bench) => Arc::new(bench),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let told = arguments.nocapture || arguments.show_output;
    let mut trials = Vec::new();
    for &plan in &plans {
        let bench = bench.clone();
        trials.push(Trial::test(format!("simulator::{}", plan.name), move || match bench.simulated(&plan) {
            Ok(runs) => judge(&plan, told, |findings| (plan.check)(&runs, findings)),
            Err(missing) => missing.verdict().map(|_| ()),
        }));
    }
    for &plan in &plans {
        let (runs, reason) = (bench.clone(), missing.clone());
        trials.push(Trial::ignorable_test(format!("linux::{}", plan.name), move || match reason {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => match runs.measured(&plan) {
                Ok(runs) => judge(&plan, told, |findings| (plan.check)(&runs, findings))
                    .map(|()| Completion::Completed),
                Err(missing) => missing.verdict(),
            },
        }));
        let Some(agree) = plan.agree else { continue };
        let (runs, reason) = (bench.clone(), missing.clone());
        trials.push(Trial::ignorable_test(format!("both::{}", plan.name), move || match reason {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => match (runs.simulated(&plan), runs.measured(&plan)) {
                (Ok(simulated), Ok(measured)) => {
                    judge(&plan, told, |findings| agree(&simulated, &measured, findings))
                        .map(|()| Completion::Completed)
                }
                (Err(missing), _) | (_, Err(missing)) => missing.verdict(),
            },
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn be_the_agent(config: std::path::PathBuf) -> ExitCode {
    match linkhold_linux::agent::run_agent(&config, None, &Program::new("test", "unknown")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What a check answers: an error where what it looks for is not there at all.
type Answer = Result<(), Failed>;

fn judge(plan: &Plan, told: bool, check: impl FnOnce(&mut Findings) -> Answer) -> Answer {
    let mut findings = Findings::default();
    check(&mut findings)?;
    if told {
        println!("\n{}", findings.all());
    }
    findings.verdict().map_err(|failures| format!("{} {failures}", plan.shows).into())
}
