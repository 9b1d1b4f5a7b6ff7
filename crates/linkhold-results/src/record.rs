//! The objects that `--json` prints: `linkhold.run/1` and `linkhold.reproduce/1`.
//!
//! The keys are a contract: keys may be added, but none is removed or renamed. Keys are written in the order
//! of declaration, so equal results are equal bytes. A key ends with its unit: `_bps` is bits per second,
//! `_s` is seconds. A number that is not finite is written as `null`.

use std::collections::BTreeMap;

use linkhold_core::action::DropReason;
use linkhold_core::mechanism::{Metrics, Place};
use linkhold_core::packet::Direction;
use serde::{Deserialize, Serialize};

use crate::delay::{DelayHistogram, PooledDelays};
use crate::finite;
use crate::kernel::{KernelPart, Simulated};
use crate::mesh::MeshRecord;
use crate::told::ToldRecord;
use crate::traffic::{FlowTransport, MediaRecord, QuicRecord, UdpRecord, WebRecord};
use crate::uplink::UplinkRecord;

/// The value of [`RunReport::schema`].
pub const RUN_SCHEMA: &str = "linkhold.run/1";
/// The value of [`ReproduceReport::schema`].
pub const REPRODUCE_SCHEMA: &str = "linkhold.reproduce/1";

/// The results of one `run` or `testbed` command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Always [`RUN_SCHEMA`].
    pub schema: String,
    /// What made the report.
    #[serde(default)]
    pub program: Program,
    /// What was run.
    pub scenario: ScenarioInfo,
    /// One entry for each case and seed: cases in the order of the scenario, seeds ascending within a case.
    pub runs: Vec<RunRecord>,
    /// Every case but the baseline against the baseline, which is the first case if no other was asked for.
    pub compare: Vec<CompareRow>,
}

/// The program that made a report, so that the report can be made again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its version, as `linkhold --version` prints it.
    pub version: String,
    /// The commit it was built from, with `-dirty` at the end if its sources had changes that were not
    /// committed; `unknown` if it was not built in a Git checkout.
    pub commit: String,
}

impl Program {
    /// The program of that version and commit.
    #[must_use]
    pub fn new(version: &str, commit: &str) -> Self {
        Self { version: version.to_owned(), commit: commit.to_owned() }
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "linkhold {} (commit {})", self.version, self.commit)
    }
}

impl RunReport {
    /// A report over `runs`; `compare` holds each other case against the baseline.
    #[must_use]
    pub fn new(
        program: Program,
        scenario: ScenarioInfo,
        runs: Vec<RunRecord>,
        compare: Vec<CompareRow>,
    ) -> Self {
        Self { schema: RUN_SCHEMA.to_owned(), program, scenario, runs, compare }
    }

    /// The case that the others are compared with. `None` if each group of cases has its own (the testbed
    /// compares within a congestion control), and where nothing is compared: there is one case, or the
    /// baseline has no result.
    #[must_use]
    pub fn baseline(&self) -> Option<&str> {
        let (first, rest) = self.compare.split_first()?;
        rest.iter().all(|row| row.baseline == first.baseline).then_some(first.baseline.as_str())
    }

    /// Case names in the order of their first run.
    #[must_use]
    pub fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !cases.contains(&run.case.as_str()) {
                cases.push(&run.case);
            }
        }
        cases
    }

    /// The runs of one case, in the report's order.
    pub fn runs_of<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a RunRecord> {
        self.runs.iter().filter(move |run| run.case == case)
    }
}

/// The scenario in short; its full text goes into the HTML report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioInfo {
    /// `name` of the file.
    pub name: String,
    /// `description` of the file.
    pub description: String,
    /// Path as given on the command line; empty if there was none.
    pub file: String,
    /// Simulated time of each run, s.
    #[serde(with = "finite")]
    pub duration_s: f64,
    /// Time at the start of each run that no rate counts, s.
    #[serde(with = "finite")]
    pub warm_up_s: f64,
    /// `--set` overrides as given, in order.
    pub overrides: Vec<String>,
    /// The radio and the path in plain words, one fact in each entry ("shared channel of 24 Mbit/s, MAC
    /// efficiency 0.65").
    pub facts: Vec<String>,
}

/// The TCP implementation that carried the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// linkhold's own TCP endpoints, in virtual time.
    Simulated,
    /// The kernel's TCP, in real time.
    Linux,
}

/// One case with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name of the case.
    pub case: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// The TCP implementation.
    pub stack: Stack,
    /// Simulated (or, on the testbed, real) time, s.
    #[serde(with = "finite")]
    pub sim_s: f64,
    /// Time that the run took on this machine, s. Two simulations of one scenario and seed differ in this key
    /// only.
    #[serde(with = "finite")]
    pub wall_s: f64,
    /// Events the engine handled.
    pub events: u64,
    /// One entry for each flow, by id.
    pub flows: Vec<FlowRecord>,
    /// The radio link.
    pub link: LinkRecord,
    /// Sums and pooled delays over all flows.
    pub totals: RunTotals,
    /// The counters of the mechanisms, in the order of the case; empty for the plain router.
    pub mechanisms: Vec<MechanismRecord>,
}

/// Which way a flow's data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowDirection {
    /// To the station.
    Downlink,
    /// From the station.
    Uplink,
}

impl FlowDirection {
    /// The name as in JSON and Parquet.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Downlink => "downlink",
            Self::Uplink => "uplink",
        }
    }
}

impl From<Direction> for FlowDirection {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Downlink => Self::Downlink,
            Direction::Uplink => Self::Uplink,
        }
    }
}

/// One flow of one run.
///
/// Rates count from the flow's start or the end of the warm-up, whichever is later, to the flow's end or the
/// end of the run. Delays are one-way, from the sending transport to the receiving one; of a segment that was
/// sent again, a delay starts at the transmission of the copy that arrived (on the testbed, at the segment's
/// latest transmission). "Outside silence" counts only the segments that met no silence on their way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Number of the flow, from 0 in the order of the scenario.
    pub id: u32,
    /// Which way its data goes.
    pub direction: FlowDirection,
    /// Application bytes received in order, as a rate, bit/s.
    #[serde(with = "finite")]
    pub goodput_bps: f64,
    /// Payload bytes sent again, as a rate, bit/s.
    #[serde(with = "finite")]
    pub retransmit_bps: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts of data; `null` if they were not measured. The kernel does not count those
    /// that fire while the receiver's window is zero. Before Linux 6.7 it counts by namespace: they are known
    /// only if no other flow of TCP sends from the flow's host.
    #[serde(default)]
    pub rto_events: Option<u64>,
    /// Mean one-way delay, s.
    #[serde(with = "finite")]
    pub delay_mean_s: f64,
    /// Standard deviation of the one-way delay, s.
    #[serde(with = "finite")]
    pub delay_std_s: f64,
    /// Application bytes received in order.
    pub bytes: u64,
    /// Length of the time that this flow's rates count, s; 0 if it was over before the warm-up was.
    #[serde(with = "finite")]
    pub active_s: f64,
    /// The station at the radio end; in a mesh, the node that sends.
    pub station: u32,
    /// In a mesh, the node that receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// When the flow started, s.
    #[serde(with = "finite")]
    pub start_s: f64,
    /// Median one-way delay, s.
    #[serde(with = "finite")]
    pub delay_p50_s: f64,
    /// 95th percentile of the one-way delay, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub delay_p95_s: f64,
    /// 99th percentile of the one-way delay, s.
    #[serde(with = "finite")]
    pub delay_p99_s: f64,
    /// Median delay of segments that met no silence, s.
    #[serde(with = "finite")]
    pub delay_p50_outside_silence_s: f64,
    /// 95th percentile of the delay of segments that met no silence, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub delay_p95_outside_silence_s: f64,
    /// 99th percentile of the delay of segments that met no silence, s.
    #[serde(with = "finite")]
    pub delay_p99_outside_silence_s: f64,
    /// Least one-way delay of the counted time, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub delay_min_s: f64,
    /// Median queueing delay, s: the one-way delay less `delay_min_s`.
    #[serde(with = "finite", default = "finite::missing")]
    pub queueing_delay_p50_s: f64,
    /// 95th percentile of the queueing delay, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub queueing_delay_p95_s: f64,
    /// 99th percentile of the queueing delay, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub queueing_delay_p99_s: f64,
    /// Time from the flow's start to its last byte, s; `null` if the flow has no end or did not reach it.
    #[serde(with = "finite::option")]
    pub completion_s: Option<f64>,
    /// Timeouts that F-RTO or timestamps found to be spurious and undid. The kernel counts them by namespace
    /// (`TCPLossUndo`): `null` if another flow of TCP sends from the flow's host.
    #[serde(default)]
    pub spurious_rtos: Option<u64>,
    /// Reductions of the window for a timeout that were not undone; `null` on the kernel, which does not
    /// count them.
    #[serde(default)]
    pub kept_rtos: Option<u64>,
    /// Times fast recovery was entered. `null` as `spurious_rtos` is; the kernel's counters are
    /// `TCPSackRecovery` and `TCPRenoRecovery`.
    #[serde(default)]
    pub fast_recoveries: Option<u64>,
    /// Median time from a silence's end to the first new data after it, s; `null` if no data followed one.
    #[serde(with = "finite::option")]
    pub resume_p50_s: Option<f64>,
    /// Its transport, unless it is TCP. With UDP, goodput is the payload of the datagrams that arrived; with
    /// QUIC, the bytes of its stream that the receiver's application read.
    #[serde(default, skip_serializing_if = "FlowTransport::is_tcp")]
    pub transport: FlowTransport,
    /// Its datagrams, with UDP and QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpRecord>,
    /// What its sender counted, with QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicRecord>,
    /// Its player, if it carries media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaRecord>,
    /// Its pages, if it is a user of the web.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebRecord>,
}

impl Default for FlowRecord {
    fn default() -> Self {
        Self {
            id: 0,
            direction: FlowDirection::Downlink,
            goodput_bps: 0.0,
            retransmit_bps: 0.0,
            retransmits: 0,
            rto_events: None,
            delay_mean_s: f64::NAN,
            delay_std_s: f64::NAN,
            bytes: 0,
            active_s: 0.0,
            station: 0,
            to: None,
            start_s: 0.0,
            delay_p50_s: f64::NAN,
            delay_p95_s: f64::NAN,
            delay_p99_s: f64::NAN,
            delay_p50_outside_silence_s: f64::NAN,
            delay_p95_outside_silence_s: f64::NAN,
            delay_p99_outside_silence_s: f64::NAN,
            delay_min_s: f64::NAN,
            queueing_delay_p50_s: f64::NAN,
            queueing_delay_p95_s: f64::NAN,
            queueing_delay_p99_s: f64::NAN,
            completion_s: None,
            spurious_rtos: None,
            kept_rtos: None,
            fast_recoveries: None,
            resume_p50_s: None,
            transport: FlowTransport::Tcp,
            udp: None,
            quic: None,
            media: None,
            web: None,
        }
    }
}

impl FlowRecord {
    /// Fills the delay fields from the delays of all segments and of those that met no silence.
    pub fn set_delays(&mut self, all: &DelayHistogram, outside_silence: &DelayHistogram) {
        self.delay_mean_s = all.mean_s();
        self.delay_std_s = all.std_s();
        self.delay_p50_s = all.quantile_s(0.50);
        self.delay_p95_s = all.quantile_s(0.95);
        self.delay_p99_s = all.quantile_s(0.99);
        self.delay_p50_outside_silence_s = outside_silence.quantile_s(0.50);
        self.delay_p95_outside_silence_s = outside_silence.quantile_s(0.95);
        self.delay_p99_outside_silence_s = outside_silence.quantile_s(0.99);
        let queueing = all.above_minimum();
        self.delay_min_s = all.min_s();
        self.queueing_delay_p50_s = queueing.quantile_s(0.50);
        self.queueing_delay_p95_s = queueing.quantile_s(0.95);
        self.queueing_delay_p99_s = queueing.quantile_s(0.99);
    }
}

/// The radio link over one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Share of the counted time in which the whole network was silent, 0 to 1.
    #[serde(with = "finite")]
    pub silent_fraction: f64,
    /// Mean capacity over the counted time, bit/s; in a silence it is zero.
    #[serde(with = "finite")]
    pub capacity_mean_bps: f64,
    /// Goodput that a perfect transport would reach in the directions that the scenario's flows use, bit/s:
    /// the time integral of capacity outside silences, times the protocol efficiency, over the counted time.
    #[serde(with = "finite")]
    pub goodput_limit_bps: f64,
    /// Silences of the whole network.
    pub silences: u64,
    /// For each station, the share of the counted time in which it could not be reached: its own silences and
    /// the network's.
    pub station_silent_fraction: Vec<f64>,
    /// Packets that the queues of the router, the stations and the wired path dropped.
    pub queue_drops: u64,
    /// Packets that a queue marked congestion-experienced (RFC 3168) in the place of dropping them, and that
    /// arrived, on flows that negotiated ECN. Not there if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queue_marks: u64,
    /// Packets lost on the air.
    pub air_losses: u64,
    /// What mechanisms could know of the silences. Not there if each radio overhears primary users by itself,
    /// and in a mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<ToldRecord>,
    /// What the stations' radios took, if the scenario states their powers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyRecord>,
    /// Requests and grants, if the medium access grants the uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<UplinkRecord>,
    /// What happened in the mesh, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<MeshRecord>,
}

/// The energy of the stations' radios, from the end of the warm-up on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyRecord {
    /// Energy of all stations' radios for each application byte delivered, J: they are on from the first
    /// flow's start to the last flow's end, or the run's.
    #[serde(with = "finite")]
    pub j_per_byte: f64,
    /// For how long they are on, s.
    #[serde(with = "finite")]
    pub on_s: f64,
    /// For each station, how long it sent, s.
    pub transmit_s: Vec<f64>,
    /// For each station, how long it received, s.
    pub receive_s: Vec<f64>,
}

/// Sums over the flows of one run, and the pooled delays of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTotals {
    /// Application data that all flows received in order, over the whole counted time, bit/s. It is less than
    /// the sum of the flows' own rates if a flow does not last the whole time.
    #[serde(with = "finite")]
    pub goodput_bps: f64,
    /// `goodput_bps` divided by `link.goodput_limit_bps`.
    #[serde(with = "finite")]
    pub limit_share: f64,
    /// Payload bytes sent again by all flows, over the whole counted time, bit/s.
    #[serde(with = "finite")]
    pub retransmit_bps: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts; `null` if those of a flow are.
    #[serde(default)]
    pub rto_events: Option<u64>,
    /// Timeouts found to be spurious and undone; `null` if those of a flow are.
    #[serde(default)]
    pub spurious_rtos: Option<u64>,
    /// Reductions of the window for a timeout that were not undone; `null` on the kernel, which does not
    /// count them.
    #[serde(default)]
    pub kept_rtos: Option<u64>,
    /// Mean one-way delay of all data segments, s.
    #[serde(with = "finite")]
    pub delay_mean_s: f64,
    /// Standard deviation of the delay, s.
    #[serde(with = "finite")]
    pub delay_std_s: f64,
    /// Median delay, s.
    #[serde(with = "finite")]
    pub delay_p50_s: f64,
    /// 95th percentile of the delay, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub delay_p95_s: f64,
    /// 99th percentile of the delay, s.
    #[serde(with = "finite")]
    pub delay_p99_s: f64,
    /// Median delay of the segments that met no silence, s.
    #[serde(with = "finite")]
    pub delay_p50_outside_silence_s: f64,
    /// 95th percentile of the delay of the segments that met no silence, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub delay_p95_outside_silence_s: f64,
    /// 99th percentile of the delay of the segments that met no silence, s.
    #[serde(with = "finite")]
    pub delay_p99_outside_silence_s: f64,
    /// Median queueing delay, s: each segment's one-way delay less the least one of its flow.
    #[serde(with = "finite", default = "finite::missing")]
    pub queueing_delay_p50_s: f64,
    /// 95th percentile of the queueing delay, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub queueing_delay_p95_s: f64,
    /// 99th percentile of the queueing delay, s.
    #[serde(with = "finite", default = "finite::missing")]
    pub queueing_delay_p99_s: f64,
    /// Jain's fairness index of the flows' goodput; 1 means equal shares. Flows that were over before the
    /// warm-up was have none.
    #[serde(with = "finite")]
    pub jain_index: f64,
    /// Mean completion time of the flows that ended after the warm-up, s; `null` if none did.
    #[serde(with = "finite::option")]
    pub completion_mean_s: Option<f64>,
    /// The datagrams of all flows over UDP, if there are any: those of QUIC too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpRecord>,
    /// What the senders of all QUIC flows counted, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicRecord>,
    /// The players of all flows with media that were not over before the warm-up was, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaRecord>,
    /// The pages of all users of the web together, if there are any. Whoever makes the totals sets it, for
    /// percentiles cannot be had from those of single flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebRecord>,
}

impl Default for RunTotals {
    fn default() -> Self {
        Self::new(&[], 0.0, &LinkRecord::default(), &PooledDelays::default())
    }
}

impl RunTotals {
    /// Totals of `flows` over `counted_s` seconds (the run without its warm-up) with the `delays` of all.
    #[must_use]
    pub fn new(flows: &[FlowRecord], counted_s: f64, link: &LinkRecord, delays: &PooledDelays) -> Self {
        let PooledDelays { all, outside_silence, queueing } = delays;
        // A flow that was over before counting began has no goodput, rather than one of zero.
        let counted = || flows.iter().filter(|flow| flow.active_s > 0.0);
        let goodputs: Vec<f64> = counted().map(|flow| flow.goodput_bps).collect();
        // A run without counted time has no rates: the division gives not-a-number, which is written as null.
        let over_all = |rate: fn(&FlowRecord) -> f64| {
            flows.iter().map(|flow| rate(flow) * flow.active_s).sum::<f64>() / counted_s
        };
        let goodput_bps = over_all(|flow| flow.goodput_bps);
        let completions: Vec<f64> = counted().filter_map(|flow| flow.completion_s).collect();
        let completion_mean_s =
            (!completions.is_empty()).then(|| completions.iter().sum::<f64>() / completions.len() as f64);
        Self {
            goodput_bps,
            limit_share: goodput_bps / link.goodput_limit_bps,
            retransmit_bps: over_all(|flow| flow.retransmit_bps),
            retransmits: flows.iter().map(|flow| flow.retransmits).sum(),
            rto_events: flows.iter().map(|flow| flow.rto_events).sum(),
            spurious_rtos: flows.iter().map(|flow| flow.spurious_rtos).sum(),
            kept_rtos: flows.iter().map(|flow| flow.kept_rtos).sum(),
            delay_mean_s: all.mean_s(),
            delay_std_s: all.std_s(),
            delay_p50_s: all.quantile_s(0.50),
            delay_p95_s: all.quantile_s(0.95),
            delay_p99_s: all.quantile_s(0.99),
            delay_p50_outside_silence_s: outside_silence.quantile_s(0.50),
            delay_p95_outside_silence_s: outside_silence.quantile_s(0.95),
            delay_p99_outside_silence_s: outside_silence.quantile_s(0.99),
            queueing_delay_p50_s: queueing.quantile_s(0.50),
            queueing_delay_p95_s: queueing.quantile_s(0.95),
            queueing_delay_p99_s: queueing.quantile_s(0.99),
            jain_index: jain_index(&goodputs),
            completion_mean_s,
            udp: UdpRecord::sum(flows.iter().filter_map(|flow| flow.udp.as_ref())),
            quic: QuicRecord::sum(flows.iter().filter_map(|flow| flow.quic.as_ref())),
            media: MediaRecord::sum(counted().filter_map(|flow| flow.media.as_ref())),
            web: None,
        }
    }
}

/// Jain's fairness index (sum x)^2 / (n · sum x^2): 1 for equal shares, 1/n if one takes all; not-a-number
/// without flows or without traffic.
#[must_use]
pub fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Counters of a mechanism at the end of a run: [`Metrics`] with names for the drop reasons. For a mechanism
/// that stands at every station each counter is the sum over the stations, peaks included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MechanismRecord {
    /// Name of the mechanism.
    pub name: String,
    /// Where it stands: `base-station`, `stations` or `correspondent`.
    pub at: String,
    /// The counters by name, except those of drops.
    #[serde(flatten)]
    pub counters: BTreeMap<String, u64>,
    /// Packets dropped or discarded, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl MechanismRecord {
    /// The counters of `metrics` of the mechanism `name` at `place`.
    #[must_use]
    pub fn new(name: &str, place: Place, metrics: &Metrics) -> Self {
        let (counters, dropped) = by_name(metrics);
        Self { name: name.to_owned(), at: place.name().to_owned(), counters, dropped }
    }

    /// The counter of that name; 0 if there is none, since some are written only where something was counted.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// For `skip_serializing_if`, which hands a reference over.
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The counters of a mechanism by name, and the packets that it dropped or discarded by reason.
#[must_use]
pub fn by_name(metrics: &Metrics) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let shown = metrics.counted().into_iter().filter(|one| one.is_shown);
    let dropped = DropReason::ALL
        .iter()
        .zip(metrics.dropped)
        .filter(|&(&reason, _)| reason != DropReason::TooOld || metrics.datagrams > 0)
        .map(|(&reason, count)| (drop_reason_name(reason).to_owned(), count))
        .collect();
    (shown.map(|one| (one.name.to_owned(), one.value)).collect(), dropped)
}

/// The reason's name in JSON.
#[must_use]
pub const fn drop_reason_name(reason: DropReason) -> &'static str {
    match reason {
        DropReason::BufferFull => "buffer_full",
        DropReason::Superseded => "superseded",
        DropReason::FlowEvicted => "flow_evicted",
        DropReason::StandingQueue => "standing_queue",
        DropReason::RepairedHere => "repaired_here",
        DropReason::TooOld => "too_old",
    }
}

/// One case against the baseline in one metric, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// The case.
    pub case: String,
    /// The case it is compared with.
    pub baseline: String,
    /// The metric: a key of [`RunTotals`].
    pub metric: String,
    /// Unit of the two values; empty for a bare number.
    pub unit: String,
    /// Mean over the seeds of the baseline.
    #[serde(with = "finite")]
    pub baseline_value: f64,
    /// Mean over the seeds of the case.
    #[serde(with = "finite")]
    pub value: f64,
    /// `value / baseline_value`; `null` if `baseline_value` is zero.
    #[serde(with = "finite::option")]
    pub ratio: Option<f64>,
    /// 95 % confidence interval of `ratio`, paired by seed; `null` with fewer than two seeds.
    #[serde(with = "finite::interval")]
    pub ci95: Option<[f64; 2]>,
}

/// The results of one `reproduce` command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproduceReport {
    /// Always [`REPRODUCE_SCHEMA`].
    pub schema: String,
    /// What made the report.
    #[serde(default)]
    pub program: Program,
    /// The figures, in the paper's order.
    pub figures: Vec<Figure>,
    /// The kernel that the figures were run against; absent where all of them ran in the simulator. With it,
    /// `measured` and `holds` of a claim are the kernel's, and `simulated` has the simulator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelPart>,
}

impl ReproduceReport {
    /// A report over `figures`, all of them simulated.
    #[must_use]
    pub fn new(program: Program, figures: Vec<Figure>) -> Self {
        Self { schema: REPRODUCE_SCHEMA.to_owned(), program, figures, kernel: None }
    }
}

/// One figure or table of a paper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the figure, for example `dsasync/fig4`.
    pub id: String,
    /// What the figure shows.
    pub title: String,
    /// Seeds behind every measured value.
    pub seeds: u64,
    /// Label of the x axis, with its unit; empty if the rows have no `x`.
    pub x_label: String,
    /// The measured points.
    pub rows: Vec<FigureRow>,
    /// What the paper says about the figure, put to the test.
    pub claims: Vec<Claim>,
}

/// One point of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FigureRow {
    /// The case, with stack and round trip in brackets.
    pub case: String,
    /// The metric.
    pub metric: String,
    /// Unit of `paper`, `measured` and `ci95`.
    pub unit: String,
    /// Position on the figure's x axis; `null` if it has none.
    #[serde(with = "finite::option")]
    pub x: Option<f64>,
    /// The paper's number; `null` where its text gives none.
    #[serde(with = "finite::option")]
    pub paper: Option<f64>,
    /// Mean over the seeds.
    #[serde(with = "finite")]
    pub measured: f64,
    /// 95 % confidence interval of `measured`; `null` with fewer than two seeds.
    #[serde(with = "finite::interval")]
    pub ci95: Option<[f64; 2]>,
}

/// A sentence of the paper put to the test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim in short, with its section.
    pub text: String,
    /// The paper's number; `null` where it gives none.
    #[serde(with = "finite::option")]
    pub paper: Option<f64>,
    /// The measured number; `null` if nothing could be measured.
    #[serde(with = "finite::option")]
    pub measured: Option<f64>,
    /// 95 % confidence interval of `measured`; `null` if the measurement gives none.
    #[serde(with = "finite::interval")]
    pub ci95: Option<[f64; 2]>,
    /// Unit of `paper`, `measured` and `ci95`.
    pub unit: String,
    /// Whether the measurement bears the claim out; `null` if it cannot be told: the interval reaches from
    /// where the claim holds to where it does not; nothing was measured, and then `measured` is `null` as
    /// well; or the criterion needs a number that the paper lacks.
    pub holds: Option<bool>,
    /// How `holds` was computed, and the unit of the numbers.
    pub criterion: String,
    /// What the simulator measures, where `measured` is a kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_run_object_has_the_keys_of_the_contract() {
        let (report, _) = sample::run(2);
        let json = serde_json::to_value(&report).unwrap();
        let keys = |value: &serde_json::Value, wanted: &[&str]| {
            for key in wanted {
                assert!(value.get(key).is_some(), "{key} in {value}");
            }
        };
        assert_eq!(json["schema"], "linkhold.run/1");
        keys(&json, &["schema", "program", "scenario", "runs", "compare"]);
        keys(&json["program"], &["version", "commit"]);
        keys(&json["runs"][0], &["case", "seed", "stack", "sim_s", "wall_s", "events", "flows", "link"]);
        let flow = [
            "id",
            "direction",
            "goodput_bps",
            "retransmit_bps",
            "retransmits",
            "rto_events",
            "delay_mean_s",
            "delay_std_s",
            "bytes",
        ];
        keys(&json["runs"][0]["flows"][0], &flow);
        keys(&json["runs"][0]["link"], &["silent_fraction", "capacity_mean_bps", "goodput_limit_bps"]);
        let row = ["case", "baseline", "metric", "unit", "baseline_value", "value", "ratio", "ci95"];
        keys(&json["compare"][0], &row);
        assert_eq!(json["compare"][0]["ci95"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn the_reproduce_object_has_the_keys_of_the_contract() {
        let json = serde_json::to_value(sample::reproduce()).unwrap();
        assert_eq!(json["schema"], "linkhold.reproduce/1");
        let figure = &json["figures"][0];
        for key in ["id", "title", "rows", "claims"] {
            assert!(figure.get(key).is_some(), "{key}");
        }
        for key in ["case", "metric", "unit", "x", "paper", "measured", "ci95"] {
            assert!(figure["rows"][0].get(key).is_some(), "{key}");
        }
        for key in ["text", "paper", "measured", "holds", "ci95", "unit", "criterion"] {
            assert!(figure["claims"][0].get(key).is_some(), "{key}");
        }
        for key in ["version", "commit"] {
            assert!(json["program"][key].is_string(), "{key}");
        }
        let holds: Vec<_> = json["figures"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|figure| figure["claims"].as_array().unwrap())
            .map(|claim| claim["holds"].as_bool())
            .collect();
        assert_eq!(holds, [Some(false), None, Some(true)]);
        assert!(figure["rows"][1]["paper"].is_null());
    }

    #[test]
    fn a_number_that_is_not_finite_is_null_and_reads_back() {
        let record =
            FlowRecord { goodput_bps: f64::INFINITY, completion_s: Some(f64::NAN), ..FlowRecord::default() };
        let json = serde_json::to_value(&record).unwrap();
        assert!(
            json["delay_mean_s"].is_null() && json["goodput_bps"].is_null() && json["completion_s"].is_null()
        );
        let back: FlowRecord = serde_json::from_value(json).unwrap();
        assert!(back.delay_mean_s.is_nan() && back.completion_s.is_none());
    }

    #[test]
    fn a_report_reads_back_and_writes_the_same_bytes() {
        let (report, _) = sample::run(2);
        let text = serde_json::to_string(&report).unwrap();
        let back: RunReport = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn a_report_from_before_a_key_was_added_is_read() {
        let mut json = serde_json::to_value(FlowRecord::default()).unwrap();
        for key in ["delay_p95_s", "delay_p95_outside_silence_s", "delay_min_s", "queueing_delay_p95_s"] {
            assert!(json.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
        let old: FlowRecord = serde_json::from_value(json).unwrap();
        assert!(old.delay_p95_s.is_nan() && old.queueing_delay_p95_s.is_nan());
    }

    #[test]
    fn a_flow_that_was_over_before_counting_began_is_no_unfair_share_and_no_completion() {
        let flow = |goodput_bps, active_s, took| FlowRecord {
            goodput_bps,
            active_s,
            completion_s: Some(took),
            ..FlowRecord::default()
        };
        let flows = [flow(0.0, 0.0, 9.0), flow(8e6, 0.5, 1.0), flow(8e6, 0.5, 3.0)];
        let totals = RunTotals::new(&flows, 10.0, &LinkRecord::default(), &PooledDelays::default());
        assert_eq!((totals.jain_index, totals.completion_mean_s), (1.0, Some(2.0)));
    }

    #[test]
    fn a_run_of_short_flows_carries_what_they_received_over_the_whole_time() {
        let flow = |goodput_bps, active_s| FlowRecord { goodput_bps, active_s, ..FlowRecord::default() };
        let link = LinkRecord { goodput_limit_bps: 10e6, ..LinkRecord::default() };
        // Two downloads of half a second at 8 Mbit/s each in a run of 10 s.
        let totals = RunTotals::new(&[flow(8e6, 0.5), flow(8e6, 0.5)], 10.0, &link, &PooledDelays::default());
        assert!((totals.goodput_bps - 0.8e6).abs() < 1.0);
        assert!((totals.limit_share - 0.08).abs() < 1e-9);
    }
}
