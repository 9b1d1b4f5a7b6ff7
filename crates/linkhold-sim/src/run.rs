//! One case with one seed, from scenario to results.

use linkhold_core::mechanism::{Metrics, Place};
use linkhold_core::time::Instant;
use linkhold_results::{MechanismRecord, RunRecord, RunSeries, RunTotals, Stack, WebRecord};
use linkhold_scenario::{Case, PlacedMechanism, ResolvedScenario, Transport};

use crate::build;
use crate::cell::AIR;
use crate::endpoints::Endpoints;
use crate::engine::Engine;
use crate::error::{SimError, Unsupported};
use crate::network::Network;
use crate::observer::{NoObserver, Observer};
use crate::path::NodeId;
use crate::plan::Plan;
use crate::recorder::Recorder;

/// Refuses a scenario that no simulator can run.
///
/// # Errors
/// [`Unsupported`].
pub fn check(scenario: &ResolvedScenario) -> Result<(), Unsupported> {
    match scenario.flows.iter().position(|group| matches!(group.transport, Transport::Quic { .. })) {
        None => Ok(()),
        Some(group) => Err(Unsupported::new(
            format!("flows[{group}].transport"),
            "the simulator has no QUIC",
            "run this scenario with `linkhold testbed`, or write transport = \"tcp\"",
        )),
    }
}

/// Runs `case` with `seed` in virtual time.
///
/// The same case and seed give the same results but for `wall_s`, on any machine and any thread. Runs
/// with one seed see the same radio and the same flow arrivals in every case.
///
/// # Errors
/// [`SimError`] when the scenario cannot be built; a run that has started does not fail.
pub fn run_case(case: &Case, seed: u64) -> Result<(RunRecord, RunSeries), SimError> {
    run_case_observed(case, seed, &mut NoObserver)
}

/// As [`run_case`], watched by `observer`.
///
/// # Errors
/// As [`run_case`].
pub fn run_case_observed<O: Observer>(
    case: &Case,
    seed: u64,
    observer: &mut O,
) -> Result<(RunRecord, RunSeries), SimError> {
    let started = std::time::Instant::now();
    let mut simulation = Simulation::new(case, seed, observer)?;
    simulation.advance(Instant::ZERO + case.scenario.duration);
    let (mut record, series) = simulation.finish();
    record.wall_s = started.elapsed().as_secs_f64();
    Ok((record, series))
}

/// A run in progress.
#[derive(Debug)]
pub struct Simulation<'a, O> {
    case: &'a Case,
    seed: u64,
    engine: Engine<Endpoints<'a, O>>,
}

impl<'a, O: Observer> Simulation<'a, O> {
    /// A run at time 0.
    ///
    /// # Errors
    /// As [`run_case`].
    pub fn new(case: &'a Case, seed: u64, observer: &'a mut O) -> Result<Self, SimError> {
        let scenario = &case.scenario;
        check(scenario)?;
        let plan = Plan::new(scenario, seed)?;
        let mut network = build::network(scenario, &plan, seed)?;
        let limit = build::goodput_limit(scenario, &plan);
        let recorder = Recorder::new(scenario.output.series_interval, limit, &network);
        let endpoints = Endpoints::new(plan, scenario.warm_up, recorder, &mut network, observer);
        Ok(Self { case, seed, engine: Engine::new(network, endpoints) })
    }

    /// Runs up to `until`, that instant's events included.
    pub fn advance(&mut self, until: Instant) {
        self.engine.advance(until);
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine<Endpoints<'a, O>> {
        &self.engine
    }

    /// Flushes the mechanisms: they release everything they hold and reopen every window.
    pub fn flush(&mut self) {
        let now = self.engine.now();
        self.engine.with_hosts(now, |_, network| network.flush(now));
    }

    /// Ends the run at the time reached. `wall_s` is left at 0: a simulation has no real clock.
    #[must_use]
    pub fn finish(self) -> (RunRecord, RunSeries) {
        let scenario = &self.case.scenario;
        let (now, events) = (self.engine.now(), self.engine.events());
        let (mut network, endpoints) = self.engine.into_parts();
        let (flows, mut recorder, observer) = endpoints.finish(now, &network);
        let mut silences: Vec<_> = network.take_silences(AIR).collect();
        network.radio(AIR).air().open_silences(now, &mut silences);
        for silence in silences {
            recorder.silence(silence);
            observer.on_silence(&silence);
        }
        let mut link = recorder.link(now, scenario.radio.stations, &network);
        link.energy =
            (scenario.radio.power.as_ref()).map(|powers| recorder.energy(powers, &flows.records, &network));
        let counted_s = now.since(Instant::ZERO + scenario.warm_up).as_secs_f64();
        let mut totals = RunTotals::new(&flows.records, counted_s, &link, &flows.delays);
        let objects = flows.records.iter().filter_map(|flow| flow.web.as_ref()).map(|web| web.objects).sum();
        totals.web = flows.pages.as_ref().map(|pages| WebRecord::new(pages, objects));
        let mechanisms =
            scenario.mechanisms.iter().map(|placed| mechanism_record(placed, &network)).collect();
        let series = RunSeries {
            case: self.case.name.clone(),
            seed: self.seed,
            flows: flows.series,
            router: flows.router,
            mesh: flows.maps,
            silences: recorder.into_silences(),
            delays: flows.delays.all,
            delays_outside_silence: flows.delays.outside_silence,
        };
        let record = RunRecord {
            case: self.case.name.clone(),
            seed: self.seed,
            stack: Stack::Simulated,
            sim_s: now.as_secs_f64(),
            wall_s: 0.0,
            events,
            flows: flows.records,
            link,
            totals,
            mechanisms,
        };
        (record, series)
    }
}

/// The counters of a mechanism, summed over the nodes of `network` where it stands.
#[must_use]
pub fn mechanism_record(placed: &PlacedMechanism, network: &Network) -> MechanismRecord {
    let is_at = |node: NodeId| match placed.place {
        Place::BaseStation => node == NodeId::BaseStation,
        Place::Correspondent => node == NodeId::Correspondent,
        Place::Stations => matches!(node, NodeId::Station(_)),
    };
    let name = placed.settings.name();
    let taps = network.taps().iter().filter(|tap| is_at(tap.node()) && tap.mechanism().name() == name);
    let metrics = taps.fold(Metrics::default(), |sum, tap| sum.plus(&tap.mechanism().metrics()));
    MechanismRecord::new(name, placed.place, &metrics)
}
