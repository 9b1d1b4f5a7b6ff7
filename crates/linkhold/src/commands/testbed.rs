//! `linkhold testbed`: cases × congestion controls × seeds in real time against the kernel's TCP and UDP, of
//! one scenario or of many side by side (`--batch`).

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use linkhold_linux::json;
use linkhold_linux::testbed::cells::{
    Cell, Fleet, FleetError, MAX_STALLED, Progress, Results, known, missing_requirement, run_all,
};
use linkhold_linux::testbed::error::RunError;
use linkhold_linux::testbed::outcome::{LinuxRecord, Outcome};
use linkhold_linux::testbed::run::{available_congestion_controls, check, check_congestion};
use linkhold_linux::testbed::seats::missing_for;
use linkhold_linux::testbed::signals::stop_on_signals;
use linkhold_linux::testbed::warnings::print_warnings;
use linkhold_results::table::run_table;
use linkhold_results::{CompareRow, Program, RunRecord, RunReport, RunSeries, ScenarioInfo, compare};
use linkhold_scenario::{Case, Scenario, input};
use serde::{Deserialize, Serialize};

use crate::numbers::whole;
use crate::output::{OutputFolder, print, width};
use crate::program::program;
use crate::progress::{AboveBar, bar};
use crate::{Failure, interrupt};

/// `linkhold testbed`.
#[derive(Debug, Args)]
#[command(
    long_about = "Run a scenario in real time against this machine's kernel and compare its cases.\n\n\
        Builds network namespaces (correspondent host, base station, stations), runs the simulator's radio on a real \
        clock as the air between them, starts `linkhold agent` in the base station and `linkhold host` where a case has a \
        mechanism at the stations or the correspondent, and makes traffic with iperf3 and, over UDP and QUIC, with senders of its own \
        (QUIC is quinn's, with cubic, reno or bbr, the last of which quinn calls experimental). \
        A case that only this machine cannot run (host.freeze = \"kernel\" without eBPF) is skipped with its reason. Every case sees the same silences. Prints what `linkhold run` prints, with stack \"linux\", and under `linux` \
        what the kernel says: retransmissions, timeouts, spurious timeouts, the congestion window before and after each \
        silence, receive windows. A case's name carries the congestion control: none/cubic; cases are compared with the \
        scenario's first, or --baseline, under the same congestion control.\n\n\
        A run in which the radio's events were handled late (99th percentile above 1 ms) is never reported: the run is made \
        again with fewer beside it, in the end alone. What is finished is reported even where other runs failed. \
        Everything made is removed again, also on Ctrl-C.\n\n\
        Needs root, iperf3 and /dev/net/tun; `linkhold doctor` says what is missing.",
    after_long_help = "Examples:\n  \
        linkhold testbed scenarios/demo.toml\n  \
        linkhold testbed scenarios/dsasync-downlink.toml --cc reno,cubic,bbr --seeds 3 --resume\n  \
        linkhold testbed scenarios/demo.toml --set wired.rtt=50ms --json | jq '.runs[].linux.counters'\n  \
        linkhold testbed scenarios/demo.toml --pcap --jobs 1\n  \
        linkhold testbed --batch many.json --out out/many --resume --json\n\n\
        A batch is a JSON file: a list with an object for each scenario, whose keys mean what those options mean:\n  \
        [{\"name\": \"far\", \"scenario\": \"scenarios/demo.toml\", \"cc\": [\"bbr\"], \"set\": [\"wired.rtt=200ms\"], \"seeds\": 3}]\n\n\
        Exit codes:\n  \
        0  it worked\n  \
        1  a run failed, the host was too slow, or it was stopped; finished cells are reported, and kept for --resume\n  \
        2  bad input: the command line, the scenario or a trace; nothing was written\n  \
        130  stopped by a second Ctrl-C (SIGTERM: 143, SIGHUP: 129), or 10 s after the first one;\n       \
             nothing was reported, and finished cells are kept for --resume"
)]
pub struct TestbedArgs {
    /// The scenario file (TOML), or - for standard input; `linkhold scenario schema` documents it.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "batch")]
    pub scenario: Option<PathBuf>,
    /// Run the cells of many scenarios side by side, the longest first; prints one report a line (with
    /// --json) or one table each.
    ///
    /// Scenario files are named from where the command runs. Finished cells are kept in --out.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "out",
          conflicts_with_all = ["scenario", "cc", "set", "seeds", "baseline", "pcap"])]
    pub batch: Option<PathBuf>,
    /// With --batch and --resume: run nothing, and report the cells of the batch that are finished on this
    /// release of the kernel.
    #[arg(long, requires_all = ["batch", "resume"])]
    pub known: bool,
    /// Congestion controls of the senders, as the kernel calls them [default: the scenario's tcp.congestion].
    #[arg(long = "cc", value_name = "NAMES", value_delimiter = ',')]
    pub cc: Vec<String>,
    /// Change a key of the file, as in router.limit=1000pkt or flows.0.count=4; see `linkhold run --help`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Repetitions, each with its own seed; two or more give 95 % confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u32>(SEEDS))]
    pub seeds: u32,
    #[arg(long, hide = true, allow_hyphen_values = true, value_parser = crate::cli::one_seed)]
    pub seed: Option<u64>,
    /// The case that the others are compared with [default: the scenario's first].
    #[arg(long, value_name = "CASE")]
    pub baseline: Option<String>,
    /// Runs side by side [default: as many as this machine keeps up with, starting with one per core].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u16>(1..=1024))]
    pub jobs: Option<u16>,
    /// Do not run again what a run into the same folder has finished before on this release of the kernel.
    #[arg(long)]
    pub resume: bool,
    /// Print one JSON object (linkhold.run/1) and nothing else; writes files only with --out, --pcap or
    /// --resume.
    #[arg(long)]
    pub json: bool,
    /// Folder for report and data [default: out/NAME-linux]; --batch has no default, and keeps only finished
    /// cells there.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Also write every run's packets as pcapng, as both sides see them, for Wireshark.
    #[arg(long, conflicts_with = "resume")]
    pub pcap: bool,
}

/// Repetitions that can be asked for.
const SEEDS: RangeInclusive<u64> = 1..=10_000;

/// One entry of a batch, or the command line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Name of the entry's report.
    name: String,
    scenario: PathBuf,
    #[serde(default)]
    cc: Vec<String>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default = "one")]
    seeds: u32,
    #[serde(default)]
    baseline: Option<String>,
}

const fn one() -> u32 {
    1
}

/// An entry whose scenario was read and can run on the testbed.
struct Job {
    entry: Entry,
    scenario: Scenario,
    cases: Vec<Case>,
    congestion: Vec<String>,
}

impl Job {
    fn new(entry: Entry) -> Result<Self, Failure> {
        let scenario = super::load(&entry.scenario, &entry.set)?;
        super::check_baseline(entry.baseline.as_deref(), &scenario)?;
        let mut cases = scenario.cases();
        let file = entry.scenario.display();
        for case in &cases {
            check(&case.scenario).map_err(|error| refused(&scenario, case, error))?;
        }
        let congestion = congestion_controls(&entry.cc, &scenario, &cases)?;
        for (case, name) in cases.iter().flat_map(|case| congestion.iter().map(move |name| (case, name))) {
            check_congestion(&case.scenario, name).map_err(|error| refused(&scenario, case, error))?;
        }
        let mut reasons = Vec::new();
        cases.retain(|case| {
            let missing = missing_for(&case.scenario);
            reasons.extend(missing.iter().map(|reason| format!("case {} is skipped: {reason}", case.name)));
            missing.is_none()
        });
        if cases.is_empty() {
            return Err(Failure::Failed(format!("{file}: no case is left\n{}", reasons.join("\n"))));
        }
        for reason in reasons {
            tell!("{file}: {reason}");
        }
        let job = Self { entry, scenario, cases, congestion };
        let baseline = job.baseline();
        if job.cases.iter().all(|case| case.name != baseline) {
            tell!(
                "{}: nothing is compared with a case that is skipped: name a baseline",
                job.entry.scenario.display()
            );
        }
        Ok(job)
    }

    /// The case that the others are compared with: the one asked for, or else the scenario's first.
    fn baseline(&self) -> String {
        let first = || self.scenario.cases().into_iter().next().map(|case| case.name);
        self.entry.baseline.clone().or_else(first).unwrap_or_default()
    }

    /// The command with what the kept scenario does not say.
    fn command(&self) -> String {
        let name = format!("testbed --cc {}", self.congestion.join(","));
        super::deliver::command(&name, self.entry.seeds, self.entry.baseline.as_deref())
    }

    /// The scenario's facts under the congestion controls of the senders.
    fn facts(&self) -> Vec<String> {
        let facts = self.scenario.facts_under(&self.congestion.join(" or "));
        facts.into_iter().map(|(label, value)| format!("{label}: {value}")).collect()
    }

    fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let named = self.congestion.iter().flat_map(|name| self.cases.iter().map(move |case| (case, name)));
        named.flat_map(|(case, name)| {
            (0..u64::from(self.entry.seeds)).map(move |repetition| Cell {
                case,
                congestion: name.clone(),
                seed: case.scenario.seed + repetition,
            })
        })
    }

    /// The report on `outcomes`, the same with the key `linux`, and the time series.
    fn report(&self, outcomes: Vec<Outcome>) -> Result<(RunReport, WithLinux, Vec<RunSeries>), Failure> {
        let mut records = Vec::with_capacity(outcomes.len());
        let (mut linux, mut series) = (Vec::new(), Vec::new());
        for Outcome { record, linux: told, series: one } in outcomes {
            if let Some(full_s) = told.silences_told_until_s {
                let (name, seed) = (&record.case, record.seed);
                tell!("{name}, seed {seed}: {}", told_until(full_s));
            }
            records.push(record);
            linux.push(told);
            series.push(one);
        }
        let baseline = self.baseline();
        let names: Vec<(&str, &str)> =
            linux.iter().map(|told| (told.congestion.as_str(), told.case.as_str())).collect();
        let comparison = compare_by_congestion(&records, &names, &self.congestion, &baseline);
        let path = self.entry.scenario.display().to_string();
        let mut info = linkhold_sim::scenario_info(&self.scenario, &path, &self.entry.set);
        info.facts = self.facts();
        let report = RunReport::new(program(), info, records, comparison);
        let json = with_linux(&report, linux);
        Ok((report, json, series))
    }
}

/// What to say where the packets of a run were too many to remember.
fn told_until(full_s: f64) -> String {
    format!(
        "from {full_s:.0} s on there was no room to remember packets, and silences that ended later have no story; \
         a shorter run has them all"
    )
}

/// Runs `linkhold testbed`.
pub fn run(args: &TestbedArgs) -> Result<(), Failure> {
    match (&args.batch, &args.scenario) {
        (Some(file), _) => run_batch(args, file),
        (None, Some(scenario)) => run_one(args, scenario),
        (None, None) => Err(Failure::BadInput("name a scenario, or a batch of them".to_owned())),
    }
}

fn run_one(args: &TestbedArgs, path: &Path) -> Result<(), Failure> {
    let job = Job::new(Entry {
        name: String::new(),
        scenario: path.to_path_buf(),
        cc: args.cc.clone(),
        set: args.set.clone(),
        seeds: args.seeds,
        baseline: args.baseline.clone(),
    })?;
    let out = match &args.out {
        Some(out) => Some(out.clone()),
        None if args.json && !args.pcap && !args.resume => None,
        None => Some(Path::new("out").join(format!("{}-linux", job.scenario.name()))),
    };
    let mut fleet = prepare(args.fleet(out.as_deref()))?;
    let folder = out.as_deref().map(OutputFolder::prepare).transpose()?;
    fleet.captures = folder.as_ref().filter(|_| args.pcap).map(|folder| folder.path().to_path_buf());
    let measured = measure(&job.cells().collect::<Vec<_>>(), &fleet);
    deliver_finished(&job, measured, &fleet, folder, args.json)
}

/// Delivers what is finished; an error where some cells have no result.
fn deliver_finished(
    job: &Job,
    measured: Result<Results, FleetError>,
    fleet: &Fleet,
    folder: Option<OutputFolder>,
    json_only: bool,
) -> Result<(), Failure> {
    let (outcomes, failure) = finished(measured, fleet)?;
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    if !outcomes.is_empty() {
        let (report, json, series) = job.report(outcomes)?;
        let json = super::to_json(&json)?;
        super::deliver::deliver(&job.scenario, &job.command(), folder, &report, &series, &json, json_only)?;
    }
    failure.map_or(Ok(()), Err)
}

/// What is finished, also where the fleet was stopped, and what to say where some cells have no result.
fn finished(
    measured: Result<Results, FleetError>,
    fleet: &Fleet,
) -> Result<(Vec<Option<Outcome>>, Option<Failure>), Failure> {
    match measured {
        Ok(results) => {
            let failure = failure(&results, fleet);
            Ok((results.outcomes, failure))
        }
        Err(FleetError::Stopped { results, kept }) => {
            // Cells that the stop cut short are told by the count.
            let failed = results.failures.iter().filter(|one| !matches!(one.error, RunError::Stopped));
            let failed: String = failed.map(|one| format!("\n{one}")).collect();
            let outcomes = results.outcomes;
            let done = outcomes.iter().flatten().count();
            let way = if kept { "the same command with --resume runs the others" } else { NOT_KEPT };
            let told = format!("stopped: {done} of {} cells are done; {way}{failed}", outcomes.len());
            Ok((outcomes, Some(Failure::Failed(told))))
        }
        Err(error @ FleetError::Store(_)) => Err(Failure::Failed(error.to_string())),
    }
}

/// How to go on where no cells are kept.
const NOT_KEPT: &str = "with --out DIR finished cells are kept, and --resume runs the others alone";

/// What to say where some cells have no result: the others are reported.
fn failure(results: &Results, fleet: &Fleet) -> Option<Failure> {
    let failures = &results.failures;
    let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let way = if fleet.store.is_some() {
        "the same command with --resume runs these alone again"
    } else {
        NOT_KEPT
    };
    let (failed, all) = (failures.len(), results.outcomes.len());
    (failed > 0).then(|| {
        Failure::Failed(format!("{failed} of {all} cells have no result; {way}\n{}", lines.join("\n")))
    })
}

/// The jobs of a batch's entries, each of which is checked as its options are on a command line. An error
/// says which entry it is of.
fn jobs_of(file: &Path, entries: Vec<Entry>) -> Result<Vec<Job>, Failure> {
    let mut names: Vec<String> = Vec::with_capacity(entries.len());
    let mut jobs = Vec::with_capacity(entries.len());
    for entry in entries {
        let name = entry.name.clone();
        let job = if names.contains(&name) {
            let told = "there is an entry of that name already; give each a name of its own";
            Err(Failure::BadInput(told.to_owned()))
        } else if SEEDS.contains(&u64::from(entry.seeds)) {
            Job::new(entry)
        } else {
            let told = format!("seeds: {} is too few or too many; write 1 to {}", entry.seeds, SEEDS.end());
            Err(Failure::BadInput(told))
        };
        let place = format!("{}: entry {name:?}: ", file.display());
        jobs.push(job.map_err(|failure| failure.of_entry(&place))?);
        names.push(name);
    }
    Ok(jobs)
}

/// Reads the file of a batch.
fn entries_of(file: &Path) -> Result<Vec<Entry>, Failure> {
    let shown = input::shown(file);
    let bytes = input::read(file, input::MAX_WRITTEN)
        .map_err(|error| Failure::BadInput(format!("{shown}: cannot read it: {error}")))?;
    let text = input::text(bytes, &shown).map_err(|error| Failure::BadInput(error.to_string()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    json::read(text.as_bytes())
        .map_err(|error| Failure::BadInput(format!("{shown}:{}:{}: {error}", error.line, error.column)))
}

/// Runs the cells of all entries in one fleet, so that the last cells of an entry do not run alone.
fn run_batch(args: &TestbedArgs, file: &Path) -> Result<(), Failure> {
    let jobs = jobs_of(file, entries_of(file)?)?;
    let cells: Vec<Cell<'_>> = jobs.iter().flat_map(Job::cells).collect();
    let (outcomes, failure) = if args.known {
        let fleet = args.fleet(args.out.as_deref()).with(Arc::default())?;
        let known = known(&cells, &fleet).map_err(|error| Failure::Failed(error.to_string()))?;
        if let Some(left_out) = known.left_out() {
            tell!("{left_out}");
        }
        (known.outcomes, None)
    } else {
        let fleet = prepare(args.fleet(args.out.as_deref()))?;
        finished(measure(&cells, &fleet), &fleet)?
    };
    print(&tell_finished(&jobs, outcomes, args.json)?)?;
    failure.map_or(Ok(()), Err)
}

/// What is finished of each entry, whose cells follow each other: a line of JSON, or a table.
fn tell_finished(jobs: &[Job], outcomes: Vec<Option<Outcome>>, json_only: bool) -> Result<String, Failure> {
    let mut outcomes = outcomes.into_iter();
    let mut told = String::new();
    for job in jobs {
        let count = job.cells().count();
        let (report, mut json, _) = job.report(outcomes.by_ref().take(count).flatten().collect())?;
        if json_only {
            json.name = Some(job.entry.name.clone());
            told += &super::to_json_line(&json)?;
        } else {
            told += &format!("{}\n{}\n", job.entry.name, run_table(&report, width()));
        }
    }
    Ok(told)
}

/// What a command says of its fleet.
pub(super) struct FleetArgs<'a> {
    /// Runs side by side.
    pub jobs: Option<u16>,
    /// Finished cells are taken.
    pub resume: bool,
    /// Folder of the results.
    pub out: Option<&'a Path>,
}

impl TestbedArgs {
    fn fleet<'a>(&self, out: Option<&'a Path>) -> FleetArgs<'a> {
        FleetArgs { jobs: self.jobs, resume: self.resume, out }
    }
}

/// Checks that this machine can run the testbed, and removes namespaces that dead processes left behind.
pub(super) fn prepare(args: FleetArgs<'_>) -> Result<Fleet, Failure> {
    if let Some(reason) = missing_requirement() {
        return Err(Failure::Failed(reason));
    }
    print_warnings(|| AboveBar);
    // Called before any other thread starts, because threads inherit the blocked signals.
    let stop =
        stop_on_signals(interrupt::remove_unfinished).map_err(|error| Failure::Failed(error.to_string()))?;
    for stale in linkhold_linux::netns::reap_stale() {
        tell!("removed the network namespace {stale}, left behind by a process that is gone");
    }
    args.with(stop)
}

impl FleetArgs<'_> {
    /// A fleet that `stop` ends, on a machine that may lack what the testbed needs.
    pub(super) fn with(self, stop: Arc<AtomicBool>) -> Result<Fleet, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::Failed(format!("cannot find this program's own file: {error}")))?;
        Ok(Fleet {
            program,
            version: crate::program::program().to_string(),
            jobs: self.jobs.map(usize::from),
            store: self.out.map(|out| out.join("cells")),
            resume: self.resume,
            captures: None,
            max_stalled: MAX_STALLED,
            patience: None,
            stop,
        })
    }
}

/// Why the testbed does not run `case`.
fn refused(scenario: &Scenario, case: &Case, error: RunError) -> Failure {
    match error {
        RunError::Unsupported(unsupported) => super::unsupported(scenario, case, &unsupported),
        other => Failure::BadInput(format!("case {}: {other}", case.name)),
    }
}

/// The congestion controls to use, without repeats; refuses one that the kernel does not have.
fn congestion_controls(
    asked: &[String],
    scenario: &Scenario,
    cases: &[Case],
) -> Result<Vec<String>, Failure> {
    let known = available_congestion_controls()
        .map_err(|error| Failure::Failed(format!("cannot read the kernel's congestion controls: {error}")))?;
    if asked.is_empty() {
        return own_congestion_control(scenario, cases, &known).map(|name| name.into_iter().collect());
    }
    let mut names: Vec<String> = Vec::new();
    for name in asked {
        if !known.contains(name) {
            let known = known.join(", ");
            return Err(Failure::BadInput(format!(
                "--cc: this kernel has no congestion control \"{name}\"; it has: {known} (others may come by modprobe tcp_NAME)"
            )));
        }
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// The congestion control that the file asks for: the same in all cases, for they are compared with each
/// other under one.
fn own_congestion_control(
    scenario: &Scenario,
    cases: &[Case],
    known: &[String],
) -> Result<Option<String>, Failure> {
    let Some(first) = cases.first() else { return Ok(None) };
    let name = first.scenario.tcp.congestion.name();
    let refused = |case: &Case, what: &str, right: &str| {
        Failure::BadInput(scenario.problem(&case.name, "tcp.congestion", what, right).to_string())
    };
    for case in cases {
        let own = case.scenario.tcp.congestion.name();
        if own != name {
            let what = format!("it has \"{own}\", and case {} has \"{name}\"", first.name);
            let right = "the testbed runs all cases under the same one: name one or several with --cc";
            return Err(refused(case, &what, right));
        }
    }
    if !known.iter().any(|known| known == name) {
        let what = format!("this kernel has no congestion control \"{name}\"");
        let right = format!("use one that it has, here or with --cc: {}", known.join(", "));
        return Err(refused(first, &what, &right));
    }
    Ok(Some(name.to_owned()))
}

/// Runs `cells` with progress: a bar, or lines where standard error is no terminal.
pub(super) fn measure(cells: &[Cell<'_>], fleet: &Fleet) -> Result<Results, FleetError> {
    let progress = bar("measuring", cells.len() as u64);
    // The lock lets one cell report at a time, so that lines do not mix.
    let told = Mutex::new(Pace::new(cells));
    let tell = |cell: &Cell<'_>, what: Progress| {
        let mut pace = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match what {
            Progress::Known | Progress::Done | Progress::Failed => {
                pace.over(cell, what == Progress::Known);
                progress.inc(1);
                if let Some(line) = pace.line().filter(|_| progress.is_hidden()) {
                    tell!("{line}");
                }
            }
            Progress::OfAnotherKernel => progress.suspend(|| {
                tell!(
                    "{}/{}, seed {}: it is kept from another kernel; again, on this one",
                    cell.case.name,
                    cell.congestion,
                    cell.seed
                );
            }),
            Progress::Late { jobs, why } => progress.suspend(|| {
                tell!(
                    "{}/{}, seed {}: {why}; again, with at most {jobs} side by side",
                    cell.case.name,
                    cell.congestion,
                    cell.seed
                );
            }),
        }
    };
    let results = run_all(cells, fleet, &tell);
    progress.finish_and_clear();
    results
}

/// Progress of a fleet in lines of text, where standard error is no terminal. Cells differ in length, so the
/// time left is estimated from seconds of scenario and not from the number of cells.
struct Pace {
    began: Instant,
    told: Option<Instant>,
    all: usize,
    over: usize,
    left_ms: u64,
    run_ms: u64,
}

/// Least time between two lines.
const PACE_INTERVAL: Duration = Duration::from_secs(15);

impl Pace {
    fn new(cells: &[Cell<'_>]) -> Self {
        let left_ms = cells.iter().map(length_ms).sum();
        Self { began: Instant::now(), told: None, all: cells.len(), over: 0, left_ms, run_ms: 0 }
    }

    fn over(&mut self, cell: &Cell<'_>, known: bool) {
        self.over += 1;
        self.left_ms -= length_ms(cell);
        if !known {
            self.run_ms += length_ms(cell);
        }
    }

    fn line(&mut self) -> Option<String> {
        let due = self.told.is_none_or(|told| told.elapsed() >= PACE_INTERVAL) || self.over == self.all;
        if self.run_ms == 0 || !due {
            return None;
        }
        self.told = Some(Instant::now());
        let left_s = self.began.elapsed().as_secs_f64() * self.left_ms as f64 / self.run_ms as f64;
        Some(format!("{} of {} cells, about {:.0} min left", self.over, self.all, (left_s / 60.0).ceil()))
    }
}

fn length_ms(cell: &Cell<'_>) -> u64 {
    cell.case.scenario.duration.as_millis()
}

/// Compares every case with `baseline` under the same congestion control. Where none of the baseline's cells
/// has a result, nothing is compared: another case in its place would pass for it. `names` are the congestion
/// control and the case of each record, whose own name for its case carries both.
fn compare_by_congestion(
    records: &[RunRecord],
    names: &[(&str, &str)],
    congestion: &[String],
    baseline: &str,
) -> Vec<CompareRow> {
    let rows = congestion.iter().flat_map(|name| {
        let of_name: Vec<(&RunRecord, &str)> = records
            .iter()
            .zip(names)
            .filter(|(_, (congestion, _))| congestion == name)
            .map(|(record, (_, case))| (record, *case))
            .collect();
        let found = of_name.iter().find(|(_, case)| *case == baseline);
        let Some(full_name) = found.map(|(record, _)| record.case.clone()) else { return Vec::new() };
        let records: Vec<RunRecord> = of_name.into_iter().map(|(record, _)| record.clone()).collect();
        compare(&records, Some(&full_name))
    });
    rows.collect()
}

/// The object of `linkhold.run/1`, its keys in the order of [`RunReport`], with the key `linux` in each run
/// and the entry's name in a batch.
#[derive(Serialize)]
struct WithLinux {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    schema: String,
    program: Program,
    scenario: ScenarioInfo,
    runs: Vec<RunOnLinux>,
    compare: Vec<CompareRow>,
}

/// A run with what only a kernel tells.
#[derive(Serialize)]
struct RunOnLinux {
    #[serde(flatten)]
    record: RunRecord,
    linux: LinuxRecord,
}

fn with_linux(report: &RunReport, linux: Vec<LinuxRecord>) -> WithLinux {
    let RunReport { schema, program, scenario, runs, compare } = report.clone();
    let runs = runs.into_iter().zip(linux).map(|(record, linux)| RunOnLinux { record, linux }).collect();
    WithLinux { name: None, schema, program, scenario, runs, compare }
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use linkhold_linux::testbed::cells::CellFailure;
    use linkhold_linux::testbed::error::{LateAttempts, Lateness};
    use linkhold_linux::testbed::host_load::HostLoad;
    use serde_json::Value;

    use super::*;

    fn fleet_with(store: Option<PathBuf>) -> Fleet {
        Fleet {
            program: PathBuf::new(),
            version: String::new(),
            jobs: None,
            store,
            resume: false,
            captures: None,
            max_stalled: MAX_STALLED,
            patience: None,
            stop: Arc::default(),
        }
    }

    /// Three cells, of which the middle one found the host busy.
    fn one_of_three_was_late() -> Results {
        let error = RunError::Late {
            what: "the air",
            events: 4000,
            p99_ms: 3.5,
            limit_ms: 1.0,
            busy: 0.2,
            host: HostLoad { stolen: 0.25, ..HostLoad::default() },
        };
        let (case, congestion) = ("dsasync".to_owned(), "cubic".to_owned());
        let failures = vec![CellFailure {
            cell: 1,
            case,
            congestion,
            seed: 7,
            error,
            late: LateAttempts::default().and(Lateness::Hosts),
        }];
        Results { outcomes: vec![None, None, None], failures, repeated: 0 }
    }

    #[test]
    fn a_cell_that_failed_ends_with_exit_code_1_its_reason_and_how_to_go_on() {
        let told = |store: Option<PathBuf>| failure(&one_of_three_was_late(), &fleet_with(store)).unwrap();
        let kept = told(Some(PathBuf::from("out/cells")));
        assert_eq!(format!("{:?}", kept.exit_code()), format!("{:?}", ExitCode::from(1)));
        let text = kept.to_string();
        let wanted = "1 of 3 cells have no result; the same command with --resume runs these alone again\n\
                      case dsasync, cubic, seed 7: this host was too slow: the air came 3.50 ms late";
        assert!(text.starts_with(wanted), "{text}");
        assert!(text.contains("other machines took 25.0 %"), "{text}");
        let text = told(None).to_string();
        assert!(
            text.contains("with --out DIR finished cells are kept, and --resume runs the others"),
            "{text}"
        );
    }

    /// A job of three cases, one cell each; the first is none.
    fn job() -> Job {
        let scenario = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/streaming.toml"));
        let scenario = super::super::load(scenario, &[]).unwrap();
        let cases = scenario.cases().into_iter().take(3).collect();
        let entry = Entry {
            name: "three".to_owned(),
            scenario: PathBuf::from("streaming.toml"),
            cc: Vec::new(),
            set: Vec::new(),
            seeds: 1,
            baseline: None,
        };
        Job { entry, scenario, cases, congestion: vec!["cubic".to_owned()] }
    }

    /// What the testbed makes of a run under cubic.
    fn outcome(record: RunRecord, series: RunSeries) -> Outcome {
        let linux = serde_json::json!({
            "congestion": "cubic", "case": record.case, "counters": {}, "edge_late_p99_s": 0.0,
            "event_late_p99_s": 0.0, "overruns": 0, "resumes": 0, "windows": [], "zero_windows": 0
        });
        let record = RunRecord { case: format!("{}/cubic", record.case), ..record };
        Outcome { record, linux: serde_json::from_value(linux).unwrap(), series }
    }

    /// The same, with the two cells that are finished.
    fn two_of_three() -> Results {
        let (report, series) = linkhold_results::sample::run(1);
        let finished = report.runs.into_iter().zip(series);
        let finished = finished.map(|(record, series)| Some(outcome(record, series)));
        let mut results = one_of_three_was_late();
        results.outcomes = finished.collect();
        assert!(results.outcomes[1].take().is_some_and(|outcome| outcome.record.case == "hold/cubic"));
        results
    }

    /// The cases of a report's runs, each of which must have the kernel's words.
    fn cases(json: &Value) -> Vec<&str> {
        let runs = json["runs"].as_array().unwrap();
        assert!(runs.iter().all(|run| run["linux"]["congestion"] == "cubic"), "{json}");
        runs.iter().map(|run| run["case"].as_str().unwrap()).collect()
    }

    #[test]
    fn where_a_cell_failed_the_finished_ones_are_delivered_and_the_exit_code_is_1() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let fleet = fleet_with(Some(out.join("cells")));
        let prepared = OutputFolder::prepare(&out).unwrap();
        let told = deliver_finished(&job(), Ok(two_of_three()), &fleet, Some(prepared), false).unwrap_err();
        assert_eq!(format!("{:?}", told.exit_code()), format!("{:?}", ExitCode::from(1)));
        assert!(told.to_string().starts_with("1 of 3 cells have no result; the same command with --resume"));
        let json: Value = serde_json::from_slice(&std::fs::read(out.join("run.json")).unwrap()).unwrap();
        assert_eq!(cases(&json), ["none/cubic", "dsasync/cubic"]);
        assert!(out.join("report.html").is_file() && out.join("scenario.toml").is_file());
    }

    #[test]
    fn where_it_was_stopped_the_finished_cells_are_delivered_and_it_says_how_many_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        for (kept, way) in [(true, "the same command with --resume runs the others"), (false, NOT_KEPT)] {
            let fleet = fleet_with(kept.then(|| out.join("cells")));
            let prepared = OutputFolder::prepare(&out).unwrap();
            let mut results = two_of_three();
            results.failures[0].error = RunError::Stopped;
            let measured = Err(FleetError::Stopped { results, kept });
            let told = deliver_finished(&job(), measured, &fleet, Some(prepared), false).unwrap_err();
            assert_eq!(format!("{:?}", told.exit_code()), format!("{:?}", ExitCode::from(1)));
            assert_eq!(told.to_string(), format!("stopped: 2 of 3 cells are done; {way}"));
            let json: Value = serde_json::from_slice(&std::fs::read(out.join("run.json")).unwrap()).unwrap();
            assert_eq!(cases(&json), ["none/cubic", "dsasync/cubic"]);
        }
        // A cell that had failed before is named.
        let measured = Err(FleetError::Stopped { results: two_of_three(), kept: false });
        let (_, told) = finished(measured, &fleet_with(None)).unwrap();
        let told = told.unwrap().to_string();
        assert!(told.contains("\ncase dsasync, cubic, seed 7: this host was too slow: "), "{told}");
    }

    /// Of the cases none, hold and dsasync the first has no result.
    #[test]
    fn where_the_baseline_has_no_result_no_other_case_stands_in_for_it() {
        for baseline in [None, Some("none".to_owned())] {
            let mut job = job();
            assert_eq!(job.cases[0].name, "none");
            job.entry.baseline = baseline.clone();
            let (report, series) = linkhold_results::sample::run(1);
            let outcomes = report.runs.into_iter().zip(series).filter(|(record, _)| record.case != "none");
            let outcomes = outcomes.map(|(record, series)| outcome(record, series)).collect();
            let (report, json, _) = job.report(outcomes).unwrap();
            assert_eq!(report.cases(), ["hold/cubic", "dsasync/cubic"]);
            assert!(json.compare.is_empty(), "{baseline:?}: {:?}", json.compare.first());
            let table = run_table(&report, None);
            assert!(!table.contains("/ hold/cubic"), "{baseline:?}: {table}");
        }
    }

    #[test]
    fn a_batch_tells_of_the_finished_cells_of_each_entry() {
        let outcomes = || two_of_three().outcomes.into_iter().chain(two_of_three().outcomes).collect();
        let jobs = [job(), job()];
        let text = tell_finished(&jobs, outcomes(), true).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        for line in &lines {
            assert_eq!(
                (line["name"].as_str(), cases(line)),
                (Some("three"), vec!["none/cubic", "dsasync/cubic"])
            );
        }
        let table = tell_finished(&jobs, outcomes(), false).unwrap();
        assert_eq!(table.lines().filter(|line| *line == "three").count(), 2, "{table}");
        assert!(table.contains("dsasync/cubic") && !table.contains("hold/cubic"), "{table}");
    }

    #[test]
    fn where_no_cell_failed_there_is_nothing_to_say() {
        let results = Results { outcomes: vec![None], failures: vec![], repeated: 0 };
        assert!(failure(&results, &fleet_with(None)).is_none());
    }

    #[test]
    fn cases_are_compared_with_the_baseline_under_their_own_congestion_control() {
        let (report, _) = linkhold_results::sample::run(2);
        let mut records = Vec::new();
        let mut names = Vec::new();
        for congestion in ["reno", "cubic"] {
            for run in &report.runs {
                records.push(RunRecord { case: format!("{}/{congestion}", run.case), ..run.clone() });
                names.push((congestion, run.case.as_str()));
            }
        }
        let congestion = ["reno".to_owned(), "cubic".to_owned()];
        let pairs = |baseline| {
            let rows = compare_by_congestion(&records, &names, &congestion, baseline);
            let goodput = rows.into_iter().filter(|row| row.metric == "goodput_bps");
            goodput.map(|row| format!("{} {}", row.case, row.baseline)).collect::<Vec<_>>()
        };
        let first = [
            "hold/reno none/reno",
            "dsasync/reno none/reno",
            "hold/cubic none/cubic",
            "dsasync/cubic none/cubic",
        ];
        assert_eq!(pairs("none"), first);
        let named = [
            "none/reno hold/reno",
            "dsasync/reno hold/reno",
            "none/cubic hold/cubic",
            "dsasync/cubic hold/cubic",
        ];
        assert_eq!(pairs("hold"), named);
        assert!(pairs("fifo").is_empty(), "cells of the baseline are not finished yet");
    }

    /// What is said of a scenario with those lines that the testbed does not run.
    fn refusal(lines: &str, cc: &[&str]) -> String {
        let text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"20s\"\n[radio]\nphy_rate = \"24Mbit/s\"\n{lines}"
        );
        let scenario = Scenario::from_toml(&text, "t.toml", &[]).unwrap();
        let cases = scenario.cases();
        let cc: Vec<String> = cc.iter().map(|name| (*name).to_owned()).collect();
        let check = |case: &Case| check(&case.scenario).map_err(|error| refused(&scenario, case, error));
        let told =
            cases.iter().try_for_each(check).and_then(|()| congestion_controls(&cc, &scenario, &cases));
        told.unwrap_err().to_string()
    }

    #[test]
    fn a_refusal_names_line_key_and_case() {
        let flow = "[[flows]]\ndirection = \"downlink\"\n";
        let media = format!("{flow}source = \"media\"\nmedia = {{ rate = \"1Mbit/s\" }}\n");
        let told = refusal(&media, &[]);
        let wanted =
            "t.toml:8:10: flows[0].source: case none: the testbed has no \"media\" yet; write a rate";
        assert!(told.starts_with(wanted), "{told}");
        let by_case = format!(
            "{flow}[[cases]]\nname = \"none\"\n[[cases]]\nname = \"film\"\n[cases.set]\n\
             \"flows.0.source\" = \"web\"\n"
        );
        let told = refusal(&by_case, &[]);
        let wanted = "t.toml:13:20: flows[0].source: case film: the testbed has no \"web\" yet; ";
        assert!(told.starts_with(wanted), "{told}");
        let seat = format!(
            "{flow}[[cases]]\nname = \"c\"\nmechanism = {{ name = \"local-resend\", at = \"stations\" }}\n"
        );
        let told = refusal(&seat, &[]);
        assert!(told.starts_with("t.toml:10:1: cases[0].mechanism: case c: local-resend "), "{told}");
    }

    #[test]
    fn a_congestion_control_is_refused_where_it_is_asked_for() {
        let flow = "[[flows]]\ndirection = \"downlink\"\n[tcp]\ncongestion = ";
        let told = refusal(&format!("{flow}\"tp-crahn\"\n"), &[]);
        let wanted =
            "t.toml:9:14: tcp.congestion: case none: this kernel has no congestion control \"tp-crahn\"; use";
        assert!(told.starts_with(wanted), "{told}");
        let own =
            "[[cases]]\nname = \"a\"\n[[cases]]\nname = \"b\"\nset = { \"tcp.congestion\" = \"vegas\" }\n";
        let told = refusal(&format!("{flow}\"reno\"\n{own}"), &[]);
        let wanted = "t.toml:14:28: tcp.congestion: case b: it has \"vegas\", and case a has \"reno\"; the testbed runs";
        assert!(told.starts_with(wanted), "{told}");
        let told = refusal(&format!("{flow}\"reno\"\n{own}"), &["no-such"]);
        assert!(told.starts_with("--cc: this kernel has no congestion control \"no-such\""), "{told}");
    }

    #[test]
    fn the_keys_of_a_report_are_those_of_a_simulation_in_their_order_and_linux() {
        let (report, _) = linkhold_results::sample::run(2);
        let linux: LinuxRecord = serde_json::from_value(serde_json::json!({
            "congestion": "cubic", "case": "none", "counters": {}, "edge_late_p99_s": 0.0, "event_late_p99_s": 0.0,
            "overruns": 0, "resumes": 0, "windows": [], "zero_windows": 0,
        }))
        .unwrap();
        let mut told = with_linux(&report, vec![linux.clone(); report.runs.len()]);
        told.name = Some("far".to_owned());
        let added = format!(",\"linux\":{}", serde_json::to_string(&linux).unwrap());
        let text = crate::commands::to_json_line(&told).unwrap();
        assert_eq!(text.matches(&added).count(), report.runs.len());
        let plain = format!("{}\n", serde_json::to_string(&report).unwrap());
        assert_eq!(text.replace(&added, "").replacen("\"name\":\"far\",", "", 1), plain);
    }
}
