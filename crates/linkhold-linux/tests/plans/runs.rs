//! What a run leaves behind, in one form for both stacks, and the making of the runs: each distinct run once
//! on each stack, those on Linux side by side.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Completion, Failed};
use linkhold_core::packet::{Direction, FlowKey, TcpFlags};
use linkhold_core::time::Instant;
use linkhold_linux::testbed::cells::{Cell, CellFailure, Fleet, Progress, run_all};
use linkhold_linux::testbed::host_load::HostLoad;
use linkhold_linux::testbed::outcome::{Completions, Outcome};
use linkhold_linux::testbed::run::available_congestion_controls;
use linkhold_results::{MechanismRecord, RunRecord, RunSeries};
use linkhold_sim::slab::Packet;
use linkhold_sim::{Observer, SeenAt, run_case_observed};

use crate::plan::{Plan, Run};

/// What one run left behind, on either stack.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Name of the conditions.
    pub conditions: &'static str,
    /// Name of the case.
    pub case: String,
    /// Congestion control of the senders.
    pub congestion: &'static str,
    /// Seed.
    pub seed: u64,
    /// Round trip of the wire, s.
    pub rtt_s: f64,
    /// How long its goodput is counted, s.
    pub counted_s: f64,
    /// The contract's record.
    pub record: RunRecord,
    /// Time series and silences.
    pub series: RunSeries,
    /// Zero windows that reached the senders' hosts.
    pub zero_windows: u64,
    /// What this machine did besides; nothing in virtual time.
    pub host: HostLoad,
    /// How the applications of sized flows saw them end; the simulator has none, and no bytes that could be
    /// wrong.
    pub applications: Option<Completions>,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { conditions, case, congestion, seed, .. } = self;
        write!(f, "{conditions}, {case}, {congestion}, seed {seed}")
    }
}

impl Evidence {
    fn new(
        run: &Run,
        record: RunRecord,
        series: RunSeries,
        zero_windows: u64,
        applications: Option<Completions>,
        host: HostLoad,
    ) -> Self {
        let (conditions, case) = (run.conditions, run.case.name.clone());
        let (congestion, seed) = (run.congestion, run.seed);
        let rtt_s = 2.0 * run.case.scenario.wired.one_way_delay.as_secs_f64();
        let counted_s = record.sim_s - run.case.scenario.warm_up.as_secs_f64();
        Self {
            conditions,
            case,
            congestion,
            seed,
            rtt_s,
            counted_s,
            record,
            series,
            zero_windows,
            host,
            applications,
        }
    }

    /// The processor of this machine that stood still the longest did so for this share of the time that is
    /// counted, if all of it fell there.
    pub fn stood_still(&self) -> f64 {
        self.host.worst_s / self.counted_s
    }

    /// Under the name that another plan has for the same run.
    fn named(&self, run: &Run) -> Self {
        Self { conditions: run.conditions, case: run.case.name.clone(), ..self.clone() }
    }

    /// The mechanism's counters.
    ///
    /// # Errors
    /// On a plain router.
    pub fn mechanism(&self) -> Result<Counted<'_>, Failed> {
        self.record
            .mechanisms
            .first()
            .map(Counted)
            .ok_or_else(|| format!("{self}: there is no mechanism").into())
    }

    /// The counters of one of several mechanisms.
    ///
    /// # Errors
    /// Where it does not stand.
    pub fn mechanism_named(&self, name: &str) -> Result<Counted<'_>, Failed> {
        let found = self.record.mechanisms.iter().find(|mechanism| mechanism.name == name);
        found.map(Counted).ok_or_else(|| format!("{self}: there is no {name}").into())
    }
}

/// What a mechanism counted; a counter that a stack does not report is an error, not 0.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a>(&'a MechanismRecord);

impl Counted<'_> {
    /// The counter of that name.
    ///
    /// # Errors
    /// Where there is none.
    pub fn counter(&self, name: &str) -> Result<u64, Failed> {
        self.of(&self.0.counters, name)
    }

    /// Packets dropped for that reason.
    ///
    /// # Errors
    /// Where none are told.
    pub fn dropped(&self, reason: &str) -> Result<u64, Failed> {
        self.of(&self.0.dropped, reason)
    }

    fn of(&self, counters: &BTreeMap<String, u64>, name: &str) -> Result<u64, Failed> {
        let found = counters.get(name).copied();
        found.ok_or_else(|| format!("{} does not report {name}", self.0.name).into())
    }
}

/// The runs of one plan on one stack.
#[derive(Clone, Debug)]
pub struct Runs(Vec<Evidence>);

impl Runs {
    /// All.
    pub fn iter(&self) -> std::slice::Iter<'_, Evidence> {
        self.0.iter()
    }

    /// Those of a case.
    pub fn of<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a Evidence> {
        self.iter().filter(move |one| one.case == case)
    }

    /// Those of a case, each with the run of `other` under the same conditions, congestion control and seed.
    ///
    /// # Errors
    /// If one has no such run.
    pub fn of_with<'a>(
        &'a self,
        case: &'a str,
        other: &str,
    ) -> Result<Vec<(&'a Evidence, &'a Evidence)>, Failed> {
        self.of(case).map(|one| Ok((one, self.same_but(one, other)?))).collect()
    }

    /// These runs, each with the same one of `others`, where it is there too.
    pub fn beside<'a>(&'a self, others: &'a Self) -> Vec<(&'a Evidence, &'a Evidence)> {
        self.iter().filter_map(|one| Some((one, others.same_but(one, &one.case).ok()?))).collect()
    }

    /// The run that differs from `one` in the case.
    ///
    /// # Errors
    /// If there is none.
    pub fn same_but(&self, one: &Evidence, case: &str) -> Result<&Evidence, Failed> {
        let key = |of: &Evidence| (of.conditions, of.congestion, of.seed);
        self.iter()
            .find(|other| other.case == case && key(other) == key(one))
            .ok_or_else(|| format!("{one}: it was not run with case {case}").into())
    }
}

/// Why a run has no evidence.
#[derive(Clone, Debug)]
pub enum Missing {
    /// The host was busy with other things, at every attempt: this tells nothing of what is in the tree.
    Host(String),
    /// Anything else.
    Failed(String),
}

impl Missing {
    fn new(failure: &CellFailure) -> Self {
        let text = failure.to_string();
        if failure.is_of_the_host() { Self::Host(text) } else { Self::Failed(text) }
    }

    /// What becomes of a test that needed the run.
    ///
    /// # Errors
    /// It fails unless the host was at fault.
    pub fn verdict(self) -> Result<Completion, Failed> {
        match self {
            Self::Host(reason) => Ok(Completion::ignored_with(reason)),
            Self::Failed(reason) => Err(reason.into()),
        }
    }
}

impl From<String> for Missing {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// All distinct runs of all plans.
pub struct Bench {
    runs: Vec<Run>,
    simulated: Vec<OnceLock<Result<Evidence, String>>>,
    /// Indices of those that Linux is wanted for and can do.
    wanted: Vec<usize>,
    measured: OnceLock<Result<Vec<Result<Evidence, Missing>>, String>>,
    /// Ends the runs on Linux.
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// The runs of `plans`; on Linux those of the plans that are wanted there.
    ///
    /// # Errors
    /// What is wrong with a plan's conditions.
    pub fn new(
        plans: &[Plan],
        on_linux: impl Fn(&Plan) -> bool,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let has = available_congestion_controls().unwrap_or_default();
        let (mut runs, mut wanted): (Vec<Run>, Vec<usize>) = (Vec::new(), Vec::new());
        for plan in plans {
            let in_real_time = on_linux(plan);
            for run in runs_of(plan)? {
                let index = runs.iter().position(|known| known.is_same_as(&run)).unwrap_or_else(|| {
                    runs.push(run.clone());
                    runs.len() - 1
                });
                if in_real_time && has.iter().any(|name| name == run.congestion) && !wanted.contains(&index) {
                    wanted.push(index);
                }
            }
        }
        let simulated = runs.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { runs, simulated, wanted, measured: OnceLock::new(), stop })
    }

    /// The plan's runs on the simulator.
    ///
    /// # Errors
    /// If one cannot be run.
    pub fn simulated(&self, plan: &Plan) -> Result<Runs, Missing> {
        self.collect(plan, |index, run| {
            run.is_simulated().then(|| self.simulate(index).map_err(Missing::Failed))
        })
    }

    /// The plan's runs on Linux.
    ///
    /// # Errors
    /// If one of the plan's runs could not be made.
    pub fn measured(&self, plan: &Plan) -> Result<Runs, Missing> {
        let all = self.measured.get_or_init(|| measure(&self.runs, &self.wanted, &self.stop)).as_ref();
        let all = all.map_err(|error| Missing::Failed(error.clone()))?;
        self.collect(plan, |index, _| {
            let place = self.wanted.iter().position(|&wanted| wanted == index)?;
            all.get(place).cloned()
        })
    }

    fn collect(
        &self,
        plan: &Plan,
        find: impl Fn(usize, &Run) -> Option<Result<Evidence, Missing>>,
    ) -> Result<Runs, Missing> {
        let (mut found, mut no_time) = (Vec::new(), None);
        for run in runs_of(plan)? {
            let index = self.runs.iter().position(|known| known.is_same_as(&run));
            match index.and_then(|index| find(index, &run)) {
                Some(Ok(evidence)) => found.push(evidence.named(&run)),
                // Behind a run that the host had no time for, there may be one that failed.
                Some(Err(Missing::Host(reason))) => no_time = no_time.or(Some(Missing::Host(reason))),
                Some(Err(failed)) => return Err(failed),
                None => {}
            }
        }
        no_time.map_or(Ok(Runs(found)), Err)
    }

    fn simulate(&self, index: usize) -> Result<Evidence, String> {
        let run = &self.runs[index];
        self.simulated[index].get_or_init(|| simulate(run)).clone()
    }
}

fn runs_of(plan: &Plan) -> Result<Vec<Run>, String> {
    let runs = plan.conditions.iter().map(|conditions| conditions.runs());
    let runs: Result<Vec<Vec<Run>>, String> = runs.collect();
    runs.map(|runs| runs.concat()).map_err(|error| format!("plan {}: {error}", plan.name))
}

/// Counts zero windows where the testbed does: when they reach the host that they are for.
#[derive(Default)]
struct ZeroWindows(u64);

impl Observer for ZeroWindows {
    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, _: Instant, seen_at: SeenAt, _: &FlowKey, packet: &Packet) {
        let arrives = (seen_at, packet.direction) == (SeenAt::Correspondent, Direction::Uplink)
            || (seen_at, packet.direction) == (SeenAt::Station, Direction::Downlink);
        if arrives && packet.segment.window == 0 && !packet.segment.flags.contains(TcpFlags::RST) {
            self.0 += 1;
        }
    }
}

fn simulate(run: &Run) -> Result<Evidence, String> {
    let mut zero_windows = ZeroWindows::default();
    let (record, series) =
        run_case_observed(&run.case, run.seed, &mut zero_windows).map_err(|error| error.to_string())?;
    Ok(Evidence::new(run, record, series, zero_windows.0, None, HostLoad::default()))
}

/// Most runs on Linux at once. A quiet host could do four times as many. On a busy one, senders and receivers
/// would then wait for a processor although the air stays punctual.
fn side_by_side() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// A run whose hosts stood still for a greater share of the time counted tells of this machine's other work.
/// A check that allows a twentieth of the goodput leaves a stall three fifths of that; what allows less
/// counts stalls itself ([`Evidence::stood_still`]).
const MOST_STALLED: f64 = 0.03;

fn measure(
    runs: &[Run],
    wanted: &[usize],
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Result<Evidence, Missing>>, String> {
    let began = std::time::Instant::now();
    let wanted: Vec<&Run> = wanted.iter().map(|&index| &runs[index]).collect();
    let cells: Vec<Cell<'_>> = wanted
        .iter()
        .map(|run| Cell { case: &run.case, congestion: run.congestion.to_owned(), seed: run.seed })
        .collect();
    let results = run_all(&cells, &fleet(stop)?, &tell_lateness).map_err(|error| error.to_string())?;
    nothing_is_left()?;
    let undecided = results.failures.iter().filter(|failure| failure.is_of_the_host()).count();
    println!(
        "{} runs on Linux took {:.0} s; {} were made again, and for {undecided} this host had no time",
        wanted.len(),
        began.elapsed().as_secs_f64(),
        results.repeated
    );
    let evidence = |(place, (run, outcome)): (usize, (&Run, Option<Outcome>))| match outcome {
        Some(Outcome { linux, record, .. }) if linux.host.worst_s > MOST_STALLED * record.sim_s => {
            Err(Missing::Host(format!("case {}: too many pauses; {}", run.case.name, linux.host)))
        }
        Some(Outcome { record, linux, series }) => {
            Ok(Evidence::new(run, record, series, linux.zero_windows, linux.completions, linux.host))
        }
        None => Err(results.failures.iter().find(|failure| failure.cell == place).map_or_else(
            || Missing::Failed(format!("{}: no result, and no reason", run.case.name)),
            Missing::new,
        )),
    };
    Ok(wanted.into_iter().zip(results.outcomes).enumerate().map(evidence).collect())
}

/// On a machine that others take from, every run is late six times, and all of them would take an hour.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(6 * 60);

fn fleet(stop: &Arc<AtomicBool>) -> Result<Fleet, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(Fleet {
        program,
        version: String::new(),
        jobs: Some(side_by_side()),
        store: None,
        resume: false,
        captures: None,
        max_stalled: MOST_STALLED,
        patience: Some(PATIENCE),
        stop: stop.clone(),
    })
}

fn tell_lateness(cell: &Cell<'_>, progress: Progress) {
    if let Progress::Late { jobs, why } = progress {
        println!("{}, {}: {why}; again, {jobs} at once from here on", cell.case.name, cell.congestion);
    }
}

/// No namespace of this process.
fn nothing_is_left() -> Result<(), String> {
    let prefix = format!("lh-{}-", std::process::id());
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Ok(()) };
    let names = entries.flatten().map(|entry| entry.file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(&prefix)).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}
