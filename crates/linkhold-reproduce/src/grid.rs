//! Runs a figure's scenario for every variant, case and seed, side by side, and keeps all runs.
//!
//! Results are ordered by variant, case and seed, never by completion, so a report is the same on any number
//! of threads.

use std::ops::Range;

use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::Instant;
use linkhold_results::{RunRecord, RunSeries};
use linkhold_scenario::{Case, Scenario};
use linkhold_sim::slab::Packet;
use linkhold_sim::{Observer, SeenAt};
use rayon::prelude::*;

use crate::options::{Progress, ReproduceError};

/// One setting of the scenario: a curve of the figure, or a point on its x axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Variant {
    /// Name of the setting in the rows: the stack and round trip, or the assumption that was changed.
    pub stack: String,
    /// `downlink` or `uplink`.
    pub direction: &'static str,
    /// Position on the x axis, if the figure has one.
    pub x: Option<f64>,
    /// A scenario to run in place of the figure's.
    pub scenario: Option<&'static str>,
    /// Keys to change, as for `--set`.
    pub set: Vec<String>,
    /// The stations' ACKs are watched ([`Point::acks`]).
    pub watches_acks: bool,
}

impl Variant {
    /// The cases of `toml`, the scenario of `figure`, with this variant's settings.
    pub(crate) fn cases(&self, figure: &str, toml: &str) -> Result<Vec<Case>, ReproduceError> {
        let name = format!("reproductions/{figure}/scenario.toml");
        let scenario = Scenario::from_toml(self.scenario.unwrap_or(toml), &name, &self.set);
        scenario.map(|scenario| scenario.cases()).map_err(|errors| ReproduceError::Scenario {
            figure: figure.to_owned(),
            message: errors.to_string(),
        })
    }
}

/// All runs of one case in one variant.
pub(crate) struct Point {
    pub variant: usize,
    pub case: String,
    /// One entry for each seed, ascending.
    pub runs: Vec<(RunRecord, RunSeries)>,
    /// By seed; empty where the variant does not ask for it.
    pub acks: Vec<Acks>,
}

/// The pure ACKs of a run's stations, of all connections together.
#[derive(Default)]
pub(crate) struct Acks {
    wanted: bool,
    last: Option<Instant>,
    /// From one to the next, where they leave the hosts, seconds.
    pub gaps: Vec<f64>,
    /// From leaving the host to reaching the correspondent, seconds.
    pub delays: Vec<f64>,
}

impl Observer for Acks {
    fn wants_packets(&self) -> bool {
        self.wanted
    }

    fn on_packet(&mut self, now: Instant, seen_at: SeenAt, _flow: &FlowKey, packet: &Packet) {
        if packet.direction == Direction::Downlink || packet.segment.payload_len > 0 {
            return;
        }
        match seen_at {
            SeenAt::Station => {
                self.gaps.extend(self.last.map(|last| now.since(last).as_secs_f64()));
                self.last = Some(now);
            }
            SeenAt::Correspondent => self.delays.push(now.since(packet.sent_at).as_secs_f64()),
        }
    }
}

impl Point {
    /// `metric` of each run, in the order of the seeds.
    pub(crate) fn values(&self, metric: impl Fn(&RunRecord) -> f64) -> Vec<f64> {
        self.runs.iter().map(|(record, _)| metric(record)).collect()
    }
}

/// All runs of a figure.
pub(crate) struct Grid {
    pub variants: Vec<Variant>,
    pub points: Vec<Point>,
    /// The stack on which claims are judged; `None`: the paper's.
    pub judged_on: Option<&'static str>,
}

impl Grid {
    /// Runs the scenario `toml` in every variant and every case, each with each of `seeds`.
    pub(crate) fn run(
        figure: &str,
        toml: &str,
        variants: Vec<Variant>,
        seeds: Range<u64>,
        progress: &dyn Progress,
    ) -> Result<Self, ReproduceError> {
        let mut jobs: Vec<(usize, Case)> = Vec::new();
        for (index, variant) in variants.iter().enumerate() {
            jobs.extend(variant.cases(figure, toml)?.into_iter().map(|case| (index, case)));
        }
        progress.begin(figure, jobs.len() as u64 * (seeds.end - seeds.start));
        let points = jobs
            .into_par_iter()
            .map(|(variant, case)| {
                let wanted = variants.get(variant).is_some_and(|variant| variant.watches_acks);
                let (runs, acks) = seeds
                    .clone()
                    .into_par_iter()
                    .map(|seed| {
                        let mut acks = Acks { wanted, ..Acks::default() };
                        let run = linkhold_sim::run_case_observed(&case, seed, &mut acks);
                        progress.tick();
                        let run = run.map_err(|error| ReproduceError::Run {
                            figure: figure.to_owned(),
                            message: error.to_string(),
                        })?;
                        Ok((run, acks))
                    })
                    .collect::<Result<Vec<_>, ReproduceError>>()?
                    .into_iter()
                    .unzip();
                Ok(Point { variant, case: case.name, runs, acks })
            })
            .collect::<Result<Vec<_>, ReproduceError>>()?;
        progress.end();
        Ok(Self { variants, points, judged_on: None })
    }

    /// The runs of `case` in the first variant that `wanted` accepts.
    pub(crate) fn find(&self, case: &str, wanted: impl Fn(&Variant) -> bool) -> Option<&Point> {
        self.points
            .iter()
            .find(|point| point.case == case && self.variants.get(point.variant).is_some_and(&wanted))
    }
}
