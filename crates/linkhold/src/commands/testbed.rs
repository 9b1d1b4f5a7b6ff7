//! `linkhold testbed`: cases × congestion controls × seeds in real time against the kernel's TCP.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::{Args, ValueHint};
use linkhold_linux::testbed::cells::{Cell, Fleet, FleetError, Progress, missing_requirement, run_all};
use linkhold_linux::testbed::outcome::{LinuxRecord, Outcome};
use linkhold_linux::testbed::run::{available_congestion_controls, check};
use linkhold_linux::testbed::signals::stop_on_signals;
use linkhold_results::table::run_table;
use linkhold_results::{CompareRow, RunRecord, RunReport, compare};
use linkhold_scenario::{Case, Scenario};
use serde_json::Value;

use crate::Failure;
use crate::output::{OutputFolder, print};
use crate::progress::bar;

/// `linkhold testbed`.
#[derive(Debug, Args)]
#[command(
    long_about = "Run a scenario in real time against this machine's kernel and compare its cases.\n\n\
        Builds network namespaces (correspondent host, base station, stations), runs the simulator's radio on a real \
        clock as the air between them, starts `linkhold agent` in the base station, and makes traffic with iperf3. \
        Every case sees the same silences. Prints what `linkhold run` prints, with stack \"linux\", and under `linux` \
        what the kernel says: retransmissions, timeouts, spurious timeouts, the congestion window before and after each \
        silence, receive windows. A case's name carries the congestion control: none/cubic; cases are compared with the \
        scenario's first under the same congestion control.\n\n\
        A run whose air was handled late (99th percentile above 1 ms) is refused and run again with fewer beside it; \
        it is never reported. Everything made is removed again, also on Ctrl-C.\n\n\
        Needs root, iperf3 and /dev/net/tun; `linkhold doctor` says what is missing.",
    after_long_help = "Examples:\n  \
        linkhold testbed scenarios/demo.toml\n  \
        linkhold testbed scenarios/dsasync-downlink.toml --cc reno,cubic,bbr --seeds 3 --resume\n  \
        linkhold testbed scenarios/demo.toml --set wired.rtt=100ms --json | jq '.runs[].linux.counters'\n  \
        linkhold testbed scenarios/demo.toml --pcap --jobs 1\n\n\
        Exit codes:\n  \
        0  it worked\n  \
        1  a run failed, the host was too slow, or it was stopped; finished cells are kept for --resume\n  \
        2  bad input: the command line, the scenario or a trace; nothing was written"
)]
pub struct TestbedArgs {
    /// The scenario file (TOML); `linkhold scenario schema` documents it.
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,
    /// Congestion controls of the senders, as the kernel calls them [default: the scenario's tcp.congestion].
    #[arg(long = "cc", value_name = "NAMES", value_delimiter = ',')]
    pub cc: Vec<String>,
    /// Change a key of the file, as in router.limit=1000pkt or flows.0.count=4; see `linkhold run --help`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Repetitions, each with its own seed; two or more give 95 % confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: u32,
    /// Runs side by side [default: as many as this machine keeps up with, starting with one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Do not run again what a run into the same folder has finished before.
    #[arg(long)]
    pub resume: bool,
    /// Print one JSON object (linkhold.run/1) and nothing else; writes files only with --out, --pcap or --resume.
    #[arg(long)]
    pub json: bool,
    /// Folder for report and data [default: out/NAME-linux].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Also write every run's packets as pcapng, as both sides see them, for Wireshark.
    #[arg(long, conflicts_with = "resume")]
    pub pcap: bool,
}

/// Does it.
pub fn run(args: &TestbedArgs) -> Result<(), Failure> {
    let scenario =
        Scenario::load(&args.scenario, &args.set).map_err(|error| Failure::BadInput(error.to_string()))?;
    let cases = scenario.cases();
    for case in &cases {
        check(&case.scenario)
            .map_err(|error| Failure::BadInput(format!("{}: {error}", args.scenario.display())))?;
    }
    let congestion = congestion_controls(&args.cc, &cases)?;
    if let Some(reason) = missing_requirement() {
        return Err(Failure::Failed(reason));
    }
    // Before any other thread starts.
    let stop = stop_on_signals().map_err(|error| Failure::Failed(error.to_string()))?;
    for stale in linkhold_linux::netns::reap_stale() {
        eprintln!("removed the network namespace {stale}, left behind by a process that is gone");
    }
    let out = match &args.out {
        Some(out) => Some(out.clone()),
        None if args.json && !args.pcap && !args.resume => None,
        None => Some(Path::new("out").join(format!("{}-linux", scenario.name()))),
    };
    let folder = out.as_deref().map(OutputFolder::prepare).transpose()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find this program's own file: {error}")))?;
    let fleet = Fleet {
        program,
        jobs: args.jobs.map(usize::from),
        store: out.as_deref().map(|out| out.join("cells")),
        resume: args.resume,
        captures: folder.as_ref().filter(|_| args.pcap).map(|folder| folder.path().to_path_buf()),
        stop,
    };
    let cells: Vec<Cell<'_>> = congestion
        .iter()
        .flat_map(|name| cases.iter().map(move |case| (case, name)))
        .flat_map(|(case, name)| {
            (0..u64::from(args.seeds)).map(move |repetition| Cell {
                case,
                congestion: name.clone(),
                seed: case.scenario.seed + repetition,
            })
        })
        .collect();
    let outcomes = measure(&cells, &fleet)?;
    let mut records = Vec::with_capacity(outcomes.len());
    let (mut linux, mut series) = (Vec::new(), Vec::new());
    for Outcome { record, linux: told, series: one } in outcomes {
        records.push(record);
        linux.push(told);
        series.push(one);
    }
    let comparison = compare_by_congestion(&records, &linux, &congestion);
    let info = linkhold_sim::scenario_info(&scenario, &args.scenario.display().to_string(), &args.set);
    let report = RunReport::new(info, records, comparison);
    let json = with_linux(&report, &linux)?;
    if let Some(folder) = folder {
        super::run::write(&args.scenario, &folder, &report, &series, &json)?;
        folder.finish()?;
    }
    if args.json {
        return print(&json);
    }
    print(&run_table(&report))?;
    match out {
        Some(out) => print(&format!("\nReport: {}\n", out.join("report.html").display())),
        None => Ok(()),
    }
}

/// The congestion controls to use, each one that the kernel has.
fn congestion_controls(asked: &[String], cases: &[Case]) -> Result<Vec<String>, Failure> {
    let known = available_congestion_controls()
        .map_err(|error| Failure::Failed(format!("cannot read the kernel's congestion controls: {error}")))?;
    let mut wanted = asked.to_vec();
    if wanted.is_empty() {
        // A case may set its own in the simulator; here --cc decides for all.
        wanted.extend(cases.first().map(|case| format!("{:?}", case.scenario.tcp.congestion).to_lowercase()));
    }
    let mut names: Vec<String> = Vec::new();
    for name in wanted {
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(Failure::BadInput(format!(
                "--cc: this kernel has no congestion control \"{name}\"; it has: {known} (others may come by modprobe tcp_NAME)"
            )));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn measure(cells: &[Cell<'_>], fleet: &Fleet) -> Result<Vec<Outcome>, Failure> {
    let progress = bar("measuring", cells.len() as u64);
    // One at a time, so that lines do not mix.
    let told = Mutex::new(());
    let tell = |cell: &Cell<'_>, what: Progress| {
        let _one_at_a_time = told.lock();
        match what {
            Progress::Known | Progress::Done | Progress::Failed => progress.inc(1),
            Progress::Late { jobs } => progress.suspend(|| {
                eprintln!(
                    "{}/{}, seed {}: the host was late; again, with at most {jobs} side by side",
                    cell.case.name, cell.congestion, cell.seed
                );
            }),
        }
    };
    let outcomes = run_all(cells, fleet, &tell);
    progress.finish_and_clear();
    outcomes.map_err(|error| match error {
        FleetError::Cells(_) | FleetError::Stopped { .. } | FleetError::Store(_) => {
            Failure::Failed(error.to_string())
        }
    })
}

/// Every case against the scenario's first under the same congestion control.
fn compare_by_congestion(
    records: &[RunRecord],
    linux: &[LinuxRecord],
    congestion: &[String],
) -> Vec<CompareRow> {
    let rows = congestion.iter().flat_map(|name| {
        let of_name = records.iter().zip(linux).filter(|(_, linux)| linux.congestion == *name);
        compare(&of_name.map(|(record, _)| record.clone()).collect::<Vec<_>>())
    });
    rows.collect()
}

/// The contract's object, each run with the key `linux`.
fn with_linux(report: &RunReport, linux: &[LinuxRecord]) -> Result<String, Failure> {
    let fail =
        |error: serde_json::Error| Failure::Failed(format!("cannot write the results as JSON: {error}"));
    let mut object = serde_json::to_value(report).map_err(fail)?;
    let runs = object.get_mut("runs").and_then(Value::as_array_mut);
    for (run, linux) in runs.into_iter().flatten().zip(linux) {
        if let Some(run) = run.as_object_mut() {
            run.insert("linux".to_owned(), serde_json::to_value(linux).map_err(fail)?);
        }
    }
    super::to_json(&object)
}
