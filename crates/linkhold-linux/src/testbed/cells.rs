//! Many runs: cells (case × congestion control × seed) side by side, as many as the host keeps up with, kept
//! on disk.
//!
//! A cell's results are stored whole or not at all, under a key of everything that decides them, so that an
//! interrupted table goes on where it was, on the same release of the kernel: what another one did is kept
//! under the same key, and is no result here.
//!
//! How many run at once adapts as TCP's window does: one more after each punctual cell until one is late, a
//! quarter less (at least one) after a late one, then one more after as many punctual cells as may run. TCP
//! halves because a loss hurts others; a late cell costs only its own repetition, and on two processors
//! halving left one cell at a time where several finish sooner. If one hiccup of the host spoils several
//! cells that run side by side, the number is cut only once (as in RFC 6582's recovery). A late cell is run
//! again, after its second attempt alone. Lateness is measured ([`MAX_LATENESS`]), never guessed, and so is
//! what the host did besides ([`super::host_load`]). A cell that fails costs no other cell its result.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use linkhold_results::{RunRecord, RunSeries};
use linkhold_scenario::{Case, FlowGroup, Transport};
use serde::{Deserialize, Serialize};

use super::error::{LateAttempts, Lateness, RunError};
use super::host_load::MAX_LATENESS;
use super::kernel;
use super::outcome::{LinuxRecord, Outcome};
use super::run::{self, Options};
use crate::rights::Rights;

/// The value of `schema` in a cell's file.
const CELL_SCHEMA: &str = "linkhold.cell/1";
/// How often a cell is run before its lateness is an error.
const MAX_ATTEMPTS: u32 = 6;
/// After so many late attempts a cell runs alone.
const ALONE_AFTER: u32 = 2;
/// [`Fleet::max_stalled`] for results that are to be reported. A queue of 5 ms before the radio runs dry if
/// its sender stands still for longer than 5 ms.
pub const MAX_STALLED: f64 = 0.005;
/// After so many late runs in a row the host is taken to go on like that.
const IN_A_ROW: u32 = 3;
/// Patience is over for long when this many times of it are.
const LONG_OVER: f64 = 2.0;
/// Most cells side by side for each core.
const MAX_PER_CORE: usize = 8;

/// One run to do.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The case.
    pub case: &'a Case,
    /// Congestion control.
    pub congestion: String,
    /// Seed.
    pub seed: u64,
}

/// How to run them.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The `linkhold` program.
    pub program: PathBuf,
    /// Its name, version and commit, for captures.
    pub version: String,
    /// Cells side by side; `None`: as many as the host keeps up with.
    pub jobs: Option<usize>,
    /// Folder of finished cells, if they are kept.
    pub store: Option<PathBuf>,
    /// Whether results that are in the store already are taken.
    pub resume: bool,
    /// Folder for packet captures.
    pub captures: Option<PathBuf>,
    /// For how long a run's hosts' programs, its agent and its hosts under test may stand still for want of a
    /// processor, as a share of the time that is counted (what comes after the warm-up); a run beyond it
    /// counts as late.
    pub max_stalled: f64,
    /// After this time no cell is run again that was late because the host was busy with other things, and
    /// none for the first time while the host goes on like that (see [`State::not_tried`]); `None`: each has
    /// all its attempts.
    pub patience: Option<std::time::Duration>,
    /// Set to end early.
    pub stop: Arc<AtomicBool>,
}

/// What becomes of a cell, told as it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It was in the store.
    Known,
    /// What the store had of it is of another kernel, so it will be run.
    OfAnotherKernel,
    /// It was run.
    Done,
    /// The host was late; it will be run again, `jobs` at once.
    Late {
        /// How many run side by side from now on.
        jobs: usize,
        /// What was late, and what the host did besides.
        why: String,
    },
    /// It failed.
    Failed,
}

/// What became of all cells.
#[derive(Debug)]
pub struct Results {
    /// In the order of the cells; `None` where one failed, or was not run before the fleet was stopped.
    pub outcomes: Vec<Option<Outcome>>,
    /// The cells that failed.
    pub failures: Vec<CellFailure>,
    /// Runs that were late, and made again.
    pub repeated: u64,
}

/// What to do where a cell was late at every attempt because of the host, and otherwise.
const ADVICE: &str = ". Close other programs, or run fewer cells side by side (--jobs).";
const NO_ADVICE: &str = ". This host had nothing else to do, so the testbed is too slow for it: run fewer cells side by \
                         side (--jobs), or take a lower rate.";

/// A cell without a result.
#[derive(Debug, thiserror::Error)]
#[error("case {case}, {congestion}, seed {seed}: {}", reason(.error, .late))]
pub struct CellFailure {
    /// Which of the cells.
    pub cell: usize,
    /// Its case.
    pub case: String,
    /// Its congestion control.
    pub congestion: String,
    /// Its seed.
    pub seed: u64,
    /// Why its last attempt failed.
    pub error: RunError,
    /// The attempts that were late, all in all.
    pub late: LateAttempts,
}

fn reason(error: &RunError, late: &LateAttempts) -> String {
    let advice = match error.lateness() {
        Some(_) if late.are_the_hosts() => ADVICE,
        Some(_) => NO_ADVICE,
        None => "",
    };
    format!("{error}{advice}")
}

impl CellFailure {
    /// Why it has no result, and what to do.
    #[must_use]
    pub fn reason(&self) -> String {
        reason(&self.error, &self.late)
    }

    /// True if the host was too busy with other things to run the cell in time, however often.
    #[must_use]
    pub fn is_of_the_host(&self) -> bool {
        self.error.lateness().is_some() && self.late.are_the_hosts()
    }
}

/// What the store has of cells.
#[derive(Debug)]
pub struct KnownCells {
    /// In the order of the cells; `None` where there is nothing of this kernel.
    pub outcomes: Vec<Option<Outcome>>,
    /// Numbers of the cells that are kept from another kernel.
    pub of_another_kernel: Vec<(usize, OtherKernel)>,
}

impl KnownCells {
    /// What to say of cells that are kept and left out.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        let mut kernels: Vec<String> =
            self.of_another_kernel.iter().map(|(_, kernel)| kernel.to_string()).collect();
        kernels.sort_unstable();
        kernels.dedup();
        let (left, all) = (self.of_another_kernel.len(), self.outcomes.len());
        (left > 0).then(|| {
            format!(
                "{left} of {all} cells are kept from {}, and this is Linux {}: they are left out, and run again without \
                 --known",
                kernels.join(" and from "),
                kernel::release()
            )
        })
    }
}

/// A kernel that is not this one; `None`: nobody noted which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherKernel(pub Option<String>);

impl std::fmt::Display for OtherKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(release) => write!(f, "Linux {release}"),
            None => f.write_str("a kernel that was not noted"),
        }
    }
}

/// Why nothing is known of the cells.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Stopped.
    #[error(
        "stopped: {} of {} cells are done{}",
        .results.outcomes.iter().flatten().count(),
        .results.outcomes.len(),
        if *.kept { "; go on with --resume" } else { "" }
    )]
    Stopped {
        /// What was finished until then; cells that were running are among the failures.
        results: Results,
        /// True if the finished cells are in the store.
        kept: bool,
    },
    /// The store.
    #[error("{0}")]
    Store(String),
}

/// What is missing to run the testbed here (privileges, programs, devices), and what helps.
#[must_use]
pub fn missing_requirement() -> Option<String> {
    if let Some(refusal) = Rights::read().refusal_without_root("the testbed", "makes network namespaces") {
        return Some(refusal);
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some(
            "there is no /dev/net/tun: load the module (modprobe tun) or give the container the device"
                .to_owned(),
        );
    }
    let needed = [("ip", "iproute2"), ("iperf3", "iperf3"), ("chrt", "util-linux"), ("nice", "coreutils")];
    needed
        .into_iter()
        .find(|(program, _)| !crate::command::is_installed(program))
        .map(|(program, package)| format!("`{program}` is not installed: apt-get install {package}"))
}

/// Runs `cells`, the longest first so that the last ones do not run alone, and answers their results in the
/// order given. What was finished is in the store, if there is one.
///
/// # Errors
/// [`FleetError`]: the store cannot be opened, or the fleet was stopped.
pub fn run_all(
    cells: &[Cell<'_>],
    fleet: &Fleet,
    told: &(dyn Fn(&Cell<'_>, Progress) + Sync),
) -> Result<Results, FleetError> {
    run_all_by(&run_one, cells, fleet, told)
}

/// Makes one run.
type Step = dyn Fn(&Cell<'_>, &Fleet) -> Result<Outcome, RunError> + Sync;

/// As [`run_all`], each cell by `step`.
fn run_all_by(
    step: &Step,
    cells: &[Cell<'_>],
    fleet: &Fleet,
    told: &(dyn Fn(&Cell<'_>, Progress) + Sync),
) -> Result<Results, FleetError> {
    let (digest, release) = (program_digest(&fleet.program), kernel::release());
    let store = fleet.store.as_deref().map(Store::open).transpose()?;
    let keys: Vec<String> = cells.iter().map(|cell| key(cell, digest)).collect();
    let mut state = State::new(fleet.jobs);
    state.patience = fleet.patience.map(|patience| (std::time::Instant::now(), patience));
    for (index, (cell, key)) in cells.iter().zip(&keys).enumerate() {
        let kept = store.as_ref().filter(|_| fleet.resume).and_then(|store| store.kept(key, &release));
        match kept {
            Some(Ok(outcome)) => {
                told(cell, Progress::Known);
                state.outcomes.push(Some(outcome));
            }
            other => {
                if other.is_some() {
                    told(cell, Progress::OfAnotherKernel);
                }
                state.outcomes.push(None);
                state.waiting.push_back((index, LateAttempts::default()));
            }
        }
    }
    state.waiting.make_contiguous().sort_by_key(|&(index, _)| {
        std::cmp::Reverse(cells.get(index).map(|cell| cell.case.scenario.duration))
    });
    let most = state.most.min(state.waiting.len());
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new() };
    std::thread::scope(|scope| {
        for _ in 0..most {
            scope.spawn(|| {
                while let Some(turn) = shared.take(&fleet.stop) {
                    let Some((cell, key)) = cells.get(turn.index).zip(keys.get(turn.index)) else { return };
                    // Not within the match: its lock would last as long as the run.
                    let not_tried = shared.lock().not_tried(turn.late);
                    let outcome = match not_tried {
                        Some(error) => Err(error),
                        None => without_panic(|| step(cell, fleet)),
                    };
                    let outcome = outcome.and_then(|outcome| match &store {
                        Some(store) => store.save(key, &outcome).map(|()| outcome).map_err(RunError::Store),
                        None => Ok(outcome),
                    });
                    if let (Err(_), Some(capture)) = (&outcome, capture_of(cell, fleet)) {
                        // Where the run has removed it already, there is nothing to do.
                        let _ = std::fs::remove_file(capture);
                    }
                    told(cell, shared.finished(turn, cell, outcome));
                }
            });
        }
    });
    let state = shared.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let results = Results { outcomes: state.outcomes, failures: state.failures, repeated: state.repeated };
    if fleet.stop.load(Ordering::Relaxed) {
        return Err(FleetError::Stopped { results, kept: store.is_some() });
    }
    Ok(results)
}

/// What the store has of `cells`, in their order, without running anything.
///
/// # Errors
/// [`FleetError::Store`].
pub fn known(cells: &[Cell<'_>], fleet: &Fleet) -> Result<KnownCells, FleetError> {
    let (digest, release) = (program_digest(&fleet.program), kernel::release());
    let store = fleet.store.as_deref().map(Store::open).transpose()?;
    let mut known = KnownCells { outcomes: Vec::with_capacity(cells.len()), of_another_kernel: Vec::new() };
    for (index, cell) in cells.iter().enumerate() {
        let kept = store.as_ref().and_then(|store| store.kept(&key(cell, digest), &release));
        let outcome =
            kept.and_then(|kept| kept.map_err(|other| known.of_another_kernel.push((index, other))).ok());
        known.outcomes.push(outcome);
    }
    Ok(known)
}

/// What `run` answers; a panic is the failure of one cell, whose turn must end as any other: the others wait
/// for it.
fn without_panic(run: impl FnOnce() -> Result<Outcome, RunError>) -> Result<Outcome, RunError> {
    // Of what a run changes nothing outlives it.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
        let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(RunError::Panic(words.unwrap_or_else(|| "no message".to_owned())))
    })
}

/// The file for a cell's packets, if they are captured.
fn capture_of(cell: &Cell<'_>, fleet: &Fleet) -> Option<PathBuf> {
    let folder = fleet.captures.as_deref()?;
    Some(run::capture_path(folder, &cell.case.name, &cell.congestion, cell.seed))
}

fn run_one(cell: &Cell<'_>, fleet: &Fleet) -> Result<Outcome, RunError> {
    let options = Options {
        program: fleet.program.clone(),
        version: fleet.version.clone(),
        congestion: cell.congestion.clone(),
        capture: capture_of(cell, fleet),
        stop: fleet.stop.clone(),
    };
    run::run(cell.case, cell.seed, &options)?.without_stalls(cell.case, fleet.max_stalled)
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A cell's turn to run.
#[derive(Clone, Copy, Debug)]
struct Turn {
    index: usize,
    /// The attempts before it.
    late: LateAttempts,
    /// How often the number of cells side by side had been cut when this one began.
    cuts: u32,
}

struct State {
    /// Cells to run, each with its attempts so far.
    waiting: VecDeque<(usize, LateAttempts)>,
    running: usize,
    /// The cell that runs does so alone.
    alone: bool,
    /// How many cells may run at once; it adapts between 1 and `most`.
    jobs: usize,
    most: usize,
    /// How often it was cut.
    cuts: u32,
    /// Punctual cells since `jobs` was last changed.
    punctual: usize,
    outcomes: Vec<Option<Outcome>>,
    failures: Vec<CellFailure>,
    /// See [`Results::repeated`].
    repeated: u64,
    /// The fleet's start, and [`Fleet::patience`].
    patience: Option<(std::time::Instant, std::time::Duration)>,
    /// Runs in a row, up to the last one, that were late because of the host.
    hosts_in_a_row: u32,
    /// What the last run told that was.
    last_late: Option<String>,
}

impl State {
    fn new(jobs: Option<usize>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            waiting: VecDeque::new(),
            running: 0,
            alone: false,
            jobs: jobs.unwrap_or(cores).max(1),
            most: jobs.unwrap_or(cores * MAX_PER_CORE).max(1),
            cuts: 0,
            punctual: 0,
            outcomes: Vec::new(),
            failures: Vec::new(),
            repeated: 0,
            patience: None,
            hosts_in_a_row: 0,
            last_late: None,
        }
    }

    /// Whether a cell is run again after these attempts, of which the last one was late in this way.
    fn tries_again(&self, late: LateAttempts, last: Lateness) -> bool {
        late.number < MAX_ATTEMPTS && !(self.is_beyond(1.0) && last == Lateness::Hosts)
    }

    /// True when so many times the fleet's patience is over.
    fn is_beyond(&self, times: f64) -> bool {
        self.patience.is_some_and(|(began, patience)| began.elapsed() >= patience.mul_f64(times))
    }

    /// Why a cell is not run after these attempts of its own, if it is not. That takes a patience that is
    /// over, and a host that made the last attempt late, or the last runs of all cells: three of them, or one
    /// where patience is over for long.
    fn not_tried(&self, late: LateAttempts) -> Option<RunError> {
        let ((_, patience), last) = self.patience.zip(self.last_late.clone())?;
        let enough = if self.is_beyond(LONG_OVER) { 1 } else { IN_A_ROW };
        let goes_on = self.hosts_in_a_row >= enough;
        let is_over = self.is_beyond(1.0) && (goes_on || late.last() == Some(Lateness::Hosts));
        // One that may be late by itself has all its attempts.
        let may_be_ours = late.last() == Some(Lateness::Unexplained);
        (is_over && !may_be_ours).then_some(RunError::NotTried { patience_s: patience.as_secs_f64(), last })
    }

    /// The next cell, if it may run now.
    fn next(&mut self) -> Option<Turn> {
        let &(index, late) = self.waiting.front()?;
        let is_alone = late.number >= ALONE_AFTER;
        let room = if is_alone { self.running == 0 } else { self.running < self.jobs };
        if !room || self.alone {
            return None;
        }
        self.waiting.pop_front();
        self.running += 1;
        self.alone = is_alone;
        Some(Turn { index, late, cuts: self.cuts })
    }

    /// A cell was punctual beside `beside - 1` others.
    fn on_punctual(&mut self, beside: usize) {
        // Only when as many run as may does a punctual cell tell that there is room for one more.
        if beside != self.jobs {
            return;
        }
        self.punctual += 1;
        if self.cuts == 0 || self.punctual >= self.jobs {
            (self.jobs, self.punctual) = ((self.jobs + 1).min(self.most), 0);
        }
    }

    /// A cell that began after `cuts` cuts was late beside `beside - 1` others.
    fn on_late(&mut self, beside: usize, cuts: u32) {
        // A cell that began before the last cut ran beside the cells that brought it about.
        if cuts == self.cuts {
            let jobs = self.jobs.min(beside);
            self.jobs = jobs.saturating_sub((jobs / 4).max(1)).max(1);
            self.cuts += 1;
            self.punctual = 0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The next cell to run, when there is room for it; `None` when there will be none.
    fn take(&self, stop: &AtomicBool) -> Option<Turn> {
        let mut state = self.lock();
        loop {
            let over = state.waiting.is_empty() && state.running == 0;
            if over || stop.load(Ordering::Relaxed) {
                self.changed.notify_all();
                return None;
            }
            if let Some(turn) = state.next() {
                return Some(turn);
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn finished(&self, turn: Turn, cell: &Cell<'_>, outcome: Result<Outcome, RunError>) -> Progress {
        let Turn { index, mut late, cuts } = turn;
        let mut state = self.lock();
        let beside = state.running;
        state.running -= 1;
        state.alone = false;
        let progress = match outcome {
            Ok(outcome) => {
                state.hosts_in_a_row = 0;
                let late_s = outcome.linux.edge_late_p99_s.max(outcome.linux.event_late_p99_s);
                if late_s < MAX_LATENESS.as_secs_f64() / 4.0 {
                    state.on_punctual(beside);
                }
                state.outcomes[index] = Some(outcome);
                Progress::Done
            }
            Err(error) => {
                let lateness = error.lateness();
                if let Some(lateness) = lateness {
                    late = late.and(lateness);
                }
                match (lateness, &error) {
                    (_, RunError::NotTried { .. }) => {}
                    (Some(Lateness::Hosts), _) => {
                        state.hosts_in_a_row += 1;
                        state.last_late = Some(error.to_string());
                    }
                    _ => state.hosts_in_a_row = 0,
                }
                if lateness.is_some_and(|last| state.tries_again(late, last)) {
                    state.on_late(beside, cuts);
                    state.repeated += 1;
                    state.waiting.push_back((index, late));
                    Progress::Late { jobs: state.jobs, why: error.to_string() }
                } else {
                    let Cell { case, congestion, seed } = cell;
                    let (case, congestion) = (case.name.clone(), congestion.clone());
                    let failure = CellFailure { cell: index, case, congestion, seed: *seed, error, late };
                    state.failures.push(failure);
                    Progress::Failed
                }
            }
        };
        self.changed.notify_all();
        progress
    }
}

/// Changes with the radio's model, and with how anything that a record has is measured: cells that were kept
/// before are measured anew then, a plain router's, too.
const MEASURING: u32 = 2;

/// Everything that decides a cell's results but the kernel, as a name for its file. Results with an agent, or
/// with QUIC, whose senders are in the program, are those of one build of it; a plain router's are the
/// kernel's and the radio model's.
fn key(cell: &Cell<'_>, program: u128) -> String {
    let is_quic = |group: &FlowGroup| matches!(group.transport, Transport::Quic { .. });
    let is_kernels =
        cell.case.scenario.mechanisms.is_empty() && !cell.case.scenario.flows.iter().any(is_quic);
    let program = if is_kernels { 0 } else { program };
    let mut scenario = cell.case.scenario.clone();
    // The description changes no result.
    scenario.description.clear();
    let text = format!(
        "{} {MEASURING} {} {} {} {} {program}",
        env!("CARGO_PKG_VERSION"),
        cell.case.name,
        said(&scenario),
        cell.congestion,
        cell.seed
    );
    format!("{:032x}", fnv(text.as_bytes()))
}

/// What a scenario says, one value a line, without options that are off. So an option that a later version
/// adds, and that this scenario does not use, leaves the key as it was.
fn said(scenario: &impl std::fmt::Debug) -> String {
    let all = format!("{scenario:#?}");
    let off = |line: &&str| line.ends_with(": None,") || line.ends_with(": false,");
    all.lines().filter(|line| !off(line)).collect::<Vec<_>>().join("\n")
}

fn program_digest(program: &Path) -> u128 {
    std::fs::read(program).map_or(0, |bytes| fnv(&bytes))
}

/// FNV-1a, 128 bits: stable, unlike the standard library's hashes.
fn fnv(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
    })
}

/// Finished cells on disk.
struct Store {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    schema: String,
    record: RunRecord,
    linux: LinuxRecord,
}

impl Store {
    fn open(folder: &Path) -> Result<Self, FleetError> {
        std::fs::create_dir_all(folder)
            .map_err(|error| FleetError::Store(format!("{}: {error}", folder.display())))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// A cell's results; a file that is damaged or of another version counts as none.
    fn load(&self, key: &str) -> Option<Outcome> {
        let text = std::fs::read(self.folder.join(format!("{key}.json"))).ok()?;
        let stored: Stored =
            serde_json::from_slice(&text).ok().filter(|s: &Stored| s.schema == CELL_SCHEMA)?;
        let series = std::fs::read(self.folder.join(format!("{key}.series"))).ok()?;
        let series: RunSeries = postcard::from_bytes(&series).ok()?;
        Some(Outcome { record: stored.record, linux: stored.linux, series })
    }

    /// A cell's results on the kernel of this release, or which one they are of.
    fn kept(&self, key: &str, release: &str) -> Option<Result<Outcome, OtherKernel>> {
        let outcome = self.load(key)?;
        Some(match &outcome.linux.kernel {
            Some(kernel) if kernel == release => Ok(outcome),
            other => Err(OtherKernel(other.clone())),
        })
    }

    /// The JSON is written last: where it is, the rest is, too.
    fn save(&self, key: &str, outcome: &Outcome) -> Result<(), String> {
        let series = postcard::to_stdvec(&outcome.series).map_err(|error| error.to_string())?;
        self.write(&format!("{key}.series"), &series)?;
        let stored = Stored {
            schema: CELL_SCHEMA.to_owned(),
            record: outcome.record.clone(),
            linux: outcome.linux.clone(),
        };
        let json = serde_json::to_vec_pretty(&stored).map_err(|error| error.to_string())?;
        self.write(&format!("{key}.json"), &json)
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), String> {
        let path = self.folder.join(name);
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(told)?;
        file.write_all(content).map_err(told)?;
        file.persist(&path).map(|_| ()).map_err(|error| told(error.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::host_load::HostLoad;
    use linkhold_scenario::Scenario;

    fn cases(set: &[&str]) -> Vec<Case> {
        let text = "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"2s\"\n\
                    [radio]\nphy_rate = \"24Mbit/s\"\n[[flows]]\ndirection = \"downlink\"\n\
                    [[cases]]\nname = \"none\"\n[[cases]]\nname = \"dsasync\"\nmechanism = \"dsasync\"\n";
        let set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
        Scenario::from_toml(text, "t.toml", &set).unwrap().cases()
    }

    fn cell(case: &Case, seed: u64) -> Cell<'_> {
        Cell { case, congestion: "cubic".to_owned(), seed }
    }

    fn outcome(case: &str, late_s: f64) -> Outcome {
        let mut record = linkhold_results::sample::run(1).0.runs.remove(0);
        record.case = case.to_owned();
        let linux = LinuxRecord { edge_late_p99_s: late_s, ..LinuxRecord::empty("cubic", case) };
        Outcome { record, linux, series: RunSeries { case: case.to_owned(), ..RunSeries::default() } }
    }

    #[test]
    fn a_key_names_all_that_decides_the_result_and_nothing_else() {
        let (plain, changed) = (cases(&[]), cases(&["wired.rtt=50ms"]));
        let described = cases(&["description=other words"]);
        assert_eq!(key(&cell(&plain[0], 1), 7), key(&cell(&described[0], 1), 7));
        assert_eq!(key(&cell(&plain[0], 1), 7), key(&cell(&plain[0], 1), 8), "a plain router has no agent");
        let quic = cases(&["flows.0.transport=quic"]);
        assert_ne!(key(&cell(&quic[0], 1), 7), key(&cell(&quic[0], 1), 8), "QUIC's senders are ours");
        let different = [
            key(&cell(&plain[0], 1), 7),
            key(&cell(&plain[0], 2), 7),
            key(&cell(&changed[0], 1), 7),
            key(&cell(&plain[1], 1), 7),
            key(&cell(&plain[1], 1), 8),
        ];
        let set: std::collections::BTreeSet<_> = different.iter().collect();
        assert_eq!(set.len(), different.len());
    }

    #[test]
    fn an_option_that_is_off_is_not_part_of_the_key() {
        #[derive(Debug)]
        #[allow(dead_code, reason = "read by Debug")]
        struct Before {
            rate: u32,
        }
        #[derive(Debug)]
        #[allow(dead_code, reason = "read by Debug")]
        struct After {
            rate: u32,
            added: Option<u32>,
            flag: bool,
        }
        let without = said(&Before { rate: 1 }).replace("Before", "After");
        assert_eq!(said(&After { rate: 1, added: None, flag: false }), without);
        let used =
            [After { rate: 1, added: Some(1), flag: false }, After { rate: 1, added: None, flag: true }];
        assert!(used.iter().all(|one| said(one) != without) && said(&used[0]) != said(&used[1]));
    }

    #[test]
    fn a_stored_cell_comes_back_and_a_damaged_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let saved = outcome("none", 0.0);
        store.save("k", &saved).unwrap();
        let loaded = store.load("k").unwrap();
        assert_eq!((&loaded.record, &loaded.series), (&saved.record, &saved.series));
        std::fs::write(folder.path().join("k.series"), b"\xff").unwrap();
        assert!(store.load("k").is_none() && store.load("other").is_none());
    }

    fn fleet(jobs: usize) -> Fleet {
        Fleet {
            program: PathBuf::new(),
            version: String::new(),
            jobs: Some(jobs),
            store: None,
            resume: false,
            captures: None,
            max_stalled: MAX_STALLED,
            patience: None,
            stop: Arc::default(),
        }
    }

    /// The others would wait for the end of that cell's turn for ever.
    #[test]
    fn a_panic_in_one_cell_fails_that_cell_and_ends_its_turn() {
        let (tell, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let cases = cases(&[]);
            let cells = [1, 2, 3].map(|seed| cell(&cases[0], seed));
            let step = |cell: &Cell<'_>, _: &Fleet| match cell.seed {
                1 => panic!("the air of seed {}", cell.seed),
                _ => Ok(outcome("none", 0.0)),
            };
            let _ = tell.send(run_all_by(&step, &cells, &fleet(2), &|_, _| ()));
        });
        let results = ended.recv_timeout(std::time::Duration::from_secs(60)).expect("it ends").unwrap();
        assert_eq!(results.outcomes.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
        let [failure] = &results.failures[..] else { panic!("{:?}", results.failures) };
        let wanted = "case none, cubic, seed 1: a fault of linkhold itself: the air of seed 1";
        assert_eq!(failure.to_string(), wanted);
    }

    #[test]
    fn the_capture_of_a_cell_without_a_result_is_removed_and_that_of_another_kept() {
        let (folder, cases) = (tempfile::tempdir().unwrap(), cases(&[]));
        let fleet = Fleet { captures: Some(folder.path().to_owned()), ..fleet(1) };
        let cells = [1, 2].map(|seed| cell(&cases[0], seed));
        let step = |cell: &Cell<'_>, fleet: &Fleet| {
            std::fs::write(capture_of(cell, fleet).unwrap(), b"packets").unwrap();
            if cell.seed == 1 { Err(RunError::Stopped) } else { Ok(outcome("none", 0.0)) }
        };
        run_all_by(&step, &cells, &fleet, &|_, _| ()).unwrap();
        let kept = cells.iter().map(|cell| capture_of(cell, &fleet).unwrap().exists());
        assert_eq!(kept.collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn what_another_kernel_did_is_no_result_here_and_is_told() {
        let (folder, cases) = (tempfile::tempdir().unwrap(), cases(&[]));
        // Nothing is run.
        let stop = Arc::new(AtomicBool::new(true));
        let fleet = Fleet { store: Some(folder.path().to_owned()), resume: true, stop, ..fleet(1) };
        let cells = [cell(&cases[0], 1), cell(&cases[0], 2), cell(&cases[0], 3), cell(&cases[0], 4)];
        let store = Store::open(folder.path()).unwrap();
        for (cell, kernel) in cells.iter().zip([Some(kernel::release()), Some("5.4.0".to_owned()), None]) {
            let mut kept = outcome("none", 0.0);
            kept.linux.kernel = kernel;
            store.save(&key(cell, 0), &kept).unwrap();
        }
        let known = known(&cells, &fleet).unwrap();
        let found: Vec<bool> = known.outcomes.iter().map(Option::is_some).collect();
        assert_eq!(found, [true, false, false, false]);
        let told = known.left_out().unwrap();
        let wanted =
            "2 of 4 cells are kept from Linux 5.4.0 and from a kernel that was not noted, and this is Linux ";
        assert!(told.starts_with(wanted) && told.contains("run again without --known"), "{told}");
        let nothing = KnownCells { outcomes: vec![None], of_another_kernel: Vec::new() };
        assert_eq!(nothing.left_out(), None, "what was not run is not kept either");
        let progress = Mutex::new(Vec::new());
        let stopped = run_all(&cells, &fleet, &|cell, what| progress.lock().unwrap().push((cell.seed, what)));
        let Err(FleetError::Stopped { results, .. }) = &stopped else { panic!("{stopped:?}") };
        assert_eq!(results.outcomes.iter().flatten().count(), 1);
        let another = Progress::OfAnotherKernel;
        assert_eq!(*progress.lock().unwrap(), [(1, Progress::Known), (2, another.clone()), (3, another)]);
    }

    fn late_cell(
        state: State,
        (host, busy): (HostLoad, f64),
    ) -> (Shared, impl Fn(&Shared, LateAttempts, u32) -> Progress) {
        let finish = move |shared: &Shared, late, cuts| {
            let error = RunError::Late { what: "edges", events: 40, p99_ms: 5.0, limit_ms: 1.0, busy, host };
            let turn = Turn { index: 0, late, cuts };
            shared.finished(turn, &cell(&cases(&[])[0], 1), Err(error))
        };
        (Shared { state: Mutex::new(state), changed: Condvar::new() }, finish)
    }

    /// So many attempts that were late, all for this reason.
    fn late(number: u32, how: Lateness) -> LateAttempts {
        (0..number).fold(LateAttempts::default(), |late, _| late.and(how))
    }

    #[test]
    fn lateness_cuts_the_number_side_by_side_and_is_an_error_in_the_end() {
        let mut state = State::new(None);
        (state.jobs, state.most, state.running, state.outcomes) = (8, 16, 8, vec![None]);
        let (shared, finish) = late_cell(state, (HostLoad { stolen: 0.1, ..HostLoad::default() }, 0.3));
        let hosts = |number| late(number, Lateness::Hosts);
        let jobs = |progress| match progress {
            Progress::Late { jobs, why } if why.contains("5.00 ms late") => jobs,
            other => panic!("{other:?}"),
        };
        assert_eq!(jobs(finish(&shared, hosts(0), 0)), 6);
        assert_eq!(shared.lock().waiting, [(0, hosts(1))]);
        assert_eq!(jobs(finish(&shared, hosts(0), 0)), 6, "spoilt by the same hiccup");
        assert_eq!(jobs(finish(&shared, hosts(1), 1)), 5);
        assert_eq!(finish(&shared, hosts(MAX_ATTEMPTS - 1), 2), Progress::Failed);
        assert_eq!(shared.lock().repeated, 3);
        let failure = shared.lock().failures.remove(0);
        let text = failure.to_string();
        assert!(text.contains("5.00 ms late") && text.contains("machines took 10.0 %"), "{text}");
        assert!(text.ends_with("(--jobs)."), "{text}");
        assert!(failure.is_of_the_host());
    }

    #[test]
    fn a_cell_that_is_late_on_a_quiet_host_fails_and_one_that_the_host_made_late_half_the_time_does_not() {
        // What was due in one moment of 100 came late: every third run of 40 edges is late.
        let hiccups = HostLoad { late: 0.01, hiccups: 20.0, ..HostLoad::default() };
        let mixed = |hosts| {
            (hosts..MAX_ATTEMPTS - 1)
                .fold(late(hosts, Lateness::Hosts), |late, _| late.and(Lateness::Unexplained))
        };
        let quiet = HostLoad::default();
        // (host, share of the time in which the air's thread works, attempts before that were the host's)
        for (host, busy, hosts, is_hosts) in [
            (quiet, 0.3, 0, false),
            (quiet, 0.3, MAX_ATTEMPTS / 2 - 1, false),
            (quiet, 0.3, MAX_ATTEMPTS / 2, true),
            (hiccups, 0.3, 0, true),
            (hiccups, 0.95, 0, false),
        ] {
            let mut state = State::new(None);
            (state.running, state.outcomes) = (1, vec![None]);
            let (shared, finish) = late_cell(state, (host, busy));
            assert_eq!(finish(&shared, mixed(hosts), 0), Progress::Failed);
            assert_eq!(shared.lock().failures[0].is_of_the_host(), is_hosts, "{host:?}, {busy}, {hosts}");
        }
    }

    #[test]
    fn patience_ends_where_the_host_is_busy_with_other_things() {
        let mut state = State::new(None);
        let tries = |state: &State, number, how| state.tries_again(late(number, how), how);
        assert!(tries(&state, 1, Lateness::Hosts) && !tries(&state, MAX_ATTEMPTS, Lateness::Hosts));
        let (now, hour) = (std::time::Instant::now(), std::time::Duration::from_secs(3600));
        state.patience = Some((now, std::time::Duration::ZERO));
        assert!(!tries(&state, 1, Lateness::Hosts) && tries(&state, 1, Lateness::Unexplained));
        state.patience = Some((now, hour));
        assert!(tries(&state, 1, Lateness::Hosts));
    }

    #[test]
    fn after_patience_no_cell_is_begun_while_the_host_goes_on_like_that() {
        let second = std::time::Duration::from_secs(1);
        let (hosts, ours) = (late(1, Lateness::Hosts), late(1, Lateness::Unexplained));
        let never = LateAttempts::default();
        // (seconds since the start with a patience of 30, late runs in a row, attempts, whether it is tried)
        for (since, in_a_row, attempts, is_tried) in [
            (10, 9, never, true),
            (10, 9, hosts, true),
            (35, 0, never, true),
            (35, 2, never, true),
            (35, 3, never, false),
            (35, 0, hosts, false),
            (35, 9, ours, true),
            (55, 2, never, true),
            (65, 0, never, true),
            (65, 1, never, false),
            (65, 0, ours, true),
        ] {
            let mut state = State::new(None);
            state.patience = Some((std::time::Instant::now() - since * second, 30 * second));
            (state.hosts_in_a_row, state.last_late) = (in_a_row, Some("edges came late".to_owned()));
            let why = state.not_tried(attempts);
            assert_eq!(why.is_none(), is_tried, "after {since} s, {in_a_row} in a row, {attempts:?}");
            let told = why.map(|why| (why.lateness(), why.to_string().ends_with("edges came late")));
            assert!(told.is_none_or(|told| told == (Some(Lateness::Hosts), true)), "{told:?}");
            state.last_late = None;
            assert!(state.not_tried(attempts).is_none(), "the host made nothing late");
        }
    }

    #[test]
    fn cells_run_side_by_side() {
        let cases = cases(&[]);
        let cells = [1, 2, 3].map(|seed| cell(&cases[0], seed));
        let running = Arc::new((Mutex::new(0), Condvar::new()));
        let step = move |_: &Cell<'_>, _: &Fleet| {
            let (count, changed) = &*running;
            let mut count = count.lock().unwrap();
            *count += 1;
            changed.notify_all();
            let wait = std::time::Duration::from_secs(20);
            let (count, result) = changed.wait_timeout_while(count, wait, |count| *count < 3).unwrap();
            drop(count);
            if result.timed_out() { Err(RunError::Stopped) } else { Ok(outcome("none", 0.0)) }
        };
        let results = run_all_by(&step, &cells, &fleet(3), &|_, _| ()).unwrap();
        assert_eq!(results.outcomes.iter().flatten().count(), 3, "{:?}", results.failures);
    }

    #[test]
    fn a_host_that_has_no_time_costs_the_cells_that_are_left_no_time_either() {
        let cases = cases(&[]);
        let cells: Vec<Cell<'_>> = (1..=9).map(|seed| cell(&cases[0], seed)).collect();
        let fleet = Fleet { patience: Some(std::time::Duration::ZERO), ..fleet(1) };
        let runs = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counter = runs.clone();
        let step = move |_: &Cell<'_>, _: &Fleet| {
            counter.fetch_add(1, Ordering::Relaxed);
            let host = HostLoad { stolen: 0.3, longest_s: 0.5, ..HostLoad::default() };
            Err(RunError::StoodStill { limit_s: 0.1, host })
        };
        let results = run_all_by(&step, &cells, &fleet, &|_, _| ()).unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 1, "patience is over for long at once");
        assert_eq!((results.failures.len(), results.repeated), (9, 0));
        assert!(results.failures.iter().all(CellFailure::is_of_the_host));
        let last = results.failures.last().map(CellFailure::reason).unwrap_or_default();
        assert!(
            last.starts_with("it was not tried: after 0 s") && last.contains("stood still for 0.500 s"),
            "{last}"
        );
    }

    #[test]
    fn one_more_is_tried_after_a_punctual_run_in_a_full_house() {
        let cases = cases(&[]);
        let mut state = State::new(None);
        (state.jobs, state.most, state.running, state.outcomes) = (2, 4, 2, vec![None]);
        let shared = Shared { state: Mutex::new(state), changed: Condvar::new() };
        let finish = |late_s| {
            let turn = Turn { index: 0, late: LateAttempts::default(), cuts: 0 };
            shared.finished(turn, &cell(&cases[0], 1), Ok(outcome("none", late_s)));
            shared.lock().jobs
        };
        assert_eq!(finish(0.0), 3);
        assert_eq!(finish(0.0), 3, "one alone tells nothing of three");
    }

    #[test]
    fn after_a_late_cell_one_more_is_tried_only_after_a_round_of_punctual_ones() {
        let mut state = State::new(Some(8));
        state.on_late(8, 0);
        assert_eq!(state.jobs, 6);
        (0..5).for_each(|_| state.on_punctual(6));
        assert_eq!(state.jobs, 6);
        state.on_punctual(6);
        assert_eq!(state.jobs, 7);
    }

    #[test]
    fn a_late_cell_among_few_costs_one_place_and_never_the_last() {
        let cut = |jobs: usize| {
            let mut state = State::new(Some(jobs));
            state.on_late(jobs, 0);
            state.jobs
        };
        assert_eq!([1, 2, 3, 4, 5, 8, 16].map(cut), [1, 1, 2, 3, 4, 6, 12]);
    }

    #[test]
    fn a_cell_that_was_late_twice_runs_alone() {
        let mut state = State::new(Some(4));
        state.waiting = [(0, 0), (1, ALONE_AFTER), (2, 0)]
            .map(|(index, times)| (index, late(times, Lateness::Hosts)))
            .into();
        let next = |state: &mut State| state.next().map(|turn| turn.index);
        assert_eq!(next(&mut state), Some(0));
        assert_eq!(next(&mut state), None, "it waits for the end of the other one");
        state.running = 0;
        assert_eq!(next(&mut state), Some(1));
        assert_eq!(next(&mut state), None, "the next one waits for its end");
        (state.running, state.alone) = (0, false);
        assert_eq!(next(&mut state), Some(2));
    }
}
