//! `linkhold run`: cases × seeds in the simulator, side by side. Results come in the order of cases and
//! seeds.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use linkhold_radio::{Mac, UserFrames};
use linkhold_results::{RunRecord, RunReport, RunSeries, compare};
use linkhold_scenario::Case;
use linkhold_sim::{Capture, NoObserver, Observer, run_case_observed};
use rayon::prelude::*;

use super::deliver::deliver;
use crate::cli::RunArgs;
use crate::output::OutputFolder;
use crate::program::program;
use crate::progress::bar;
use crate::{Failure, interrupt};

type Run = (RunRecord, RunSeries);

/// Runs `linkhold run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let scenario = super::load(&args.scenario, &args.set)?;
    super::check_baseline(args.baseline.as_deref(), &scenario)?;
    let cases = scenario.cases();
    for case in &cases {
        linkhold_sim::check(&case.scenario).map_err(|error| super::unsupported(&scenario, case, &error))?;
    }
    interrupt::watch()?;
    let out = match &args.out {
        Some(out) => Some(out.clone()),
        None if args.json && !args.pcap => None,
        None => Some(Path::new("out").join(scenario.name())),
    };
    let folder = out.as_deref().map(OutputFolder::prepare).transpose()?;
    let captures = folder.as_ref().filter(|_| args.pcap).map(|folder| folder.path().to_path_buf());
    let runs = simulate(args, &cases, captures.as_deref())?;
    let (records, series): (Vec<RunRecord>, Vec<RunSeries>) = runs.into_iter().unzip();
    let comparison = compare(&records, args.baseline.as_deref());
    let info = linkhold_sim::scenario_info(&scenario, &args.scenario.display().to_string(), &args.set);
    let report = RunReport::new(program(), info, records, comparison);
    let json = super::to_json(&report)?;
    let command = super::deliver::command("run", args.seeds, args.baseline.as_deref());
    deliver(&scenario, &command, folder, &report, &series, &json, args.json)
}

fn simulate(args: &RunArgs, cases: &[Case], captures: Option<&Path>) -> Result<Vec<Run>, Failure> {
    let jobs: Vec<(&Case, u64)> = cases
        .iter()
        .flat_map(|case| {
            (0..u64::from(args.seeds)).map(move |repetition| (case, case.scenario.seed + repetition))
        })
        .collect();
    let steps: u64 = jobs.iter().map(|(case, _)| steps(case)).sum();
    let progress = bar("simulating", steps);
    let runs = super::on_pool(args.threads, || {
        jobs.par_iter().map(|&(case, seed)| simulate_one(case, seed, captures, &progress)).collect()
    })?;
    progress.finish_and_clear();
    runs
}

/// Number of `on_progress` calls that one run makes.
fn steps(case: &Case) -> u64 {
    let interval = case.scenario.output.series_interval.as_nanos().max(1);
    case.scenario.duration.as_nanos() / interval
}

fn simulate_one(
    case: &Case,
    seed: u64,
    captures: Option<&Path>,
    progress: &ProgressBar,
) -> Result<Run, Failure> {
    let fail = |error: String| Failure::Failed(format!("case {}, seed {seed}: {error}", case.name));
    let Some(folder) = captures else {
        let mut watched = Watched { inner: NoObserver, progress };
        return run_case_observed(case, seed, &mut watched).map_err(|error| fail(error.to_string()));
    };
    let path: PathBuf = folder.join(format!("{}-seed{seed}.pcapng", case.name));
    let file = File::create(&path).map_err(|error| fail(format!("cannot write the capture: {error}")))?;
    let comment = format!("{}: {}, case {}, seed {seed}", program(), case.scenario.name, case.name);
    let file = BufWriter::new(file);
    let capture = match (&case.scenario.mesh, &case.scenario.radio.mac) {
        (Some(mesh), _) => Capture::of_mesh(file, &comment, mesh.dcf.phy),
        (None, Mac::Ieee802154(mac)) => {
            let user = UserFrames::new(&case.scenario.radio, seed);
            Capture::of_ieee802154(file, &comment, mac.acknowledged, user)
        }
        (None, Mac::Dcf(dcf)) => Capture::of_dcf(file, &comment, dcf.phy),
        (None, Mac::Shared | Mac::Duplex | Mac::Trace(_) | Mac::Grants(_)) => Capture::new(file, &comment),
    };
    let capture = capture.map_err(|error| fail(error.to_string()))?;
    let mut watched = Watched { inner: capture, progress };
    let run = run_case_observed(case, seed, &mut watched).map_err(|error| fail(error.to_string()))?;
    watched.inner.finish().map_err(|error| fail(format!("cannot write the capture: {error}")))?;
    Ok(run)
}

/// An observer that moves the progress bar and passes every call on to `inner`.
struct Watched<'a, O> {
    inner: O,
    progress: &'a ProgressBar,
}

impl<O: Observer> Observer for Watched<'_, O> {
    fn wants_packets(&self) -> bool {
        self.inner.wants_packets()
    }

    fn on_packet(
        &mut self,
        now: linkhold_core::time::Instant,
        seen_at: linkhold_sim::SeenAt,
        flow: &linkhold_core::packet::FlowKey,
        packet: &linkhold_sim::slab::Packet,
    ) {
        self.inner.on_packet(now, seen_at, flow, packet);
    }

    fn wants_transmissions(&self) -> bool {
        self.inner.wants_transmissions()
    }

    fn on_transmission(
        &mut self,
        sent: &linkhold_sim::network::Sent,
        flow: Option<&linkhold_core::packet::FlowKey>,
    ) {
        self.inner.on_transmission(sent, flow);
    }

    fn on_silence(&mut self, silence: &linkhold_radio::Silence) {
        self.inner.on_silence(silence);
    }

    fn on_progress(&mut self, now: linkhold_core::time::Instant) {
        self.progress.inc(1);
        self.inner.on_progress(now);
    }
}
