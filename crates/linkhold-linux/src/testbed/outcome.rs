//! Turns what a run left behind into its record: the contract's object, and what only a kernel can tell.

mod linux;
mod quic;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration as StdDuration;

use linkhold_core::packet::{Direction, FlowKey, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_results::{
    DelayHistogram, FlowDirection, FlowRecord, FlowSeries, FlowTransport, LinkRecord, PooledDelays,
    RouterSeries, RunRecord, RunSeries, RunTotals, SilenceRecord, Stack,
};
use linkhold_scenario::{Case, ResolvedScenario, Source};
use linkhold_sim::network::Network;

use super::clock::instant;
use super::error::RunError;
use super::ether::EtherReport;
use super::flowlog::Flow;
use super::host_load::{HostLoad, MAX_LATENESS};
use super::kernel::{self, Counters};
use super::quic::QuicEnd;
use super::records::mechanism_records;
use super::repairs::{Sender, tell_of_datagrams, timeouts_over_time};
use super::seats::{Seats, Statuses};
use super::silence_story::{Known, SilenceStory, merged, stories};
use super::silence_summary::SilenceSummary;
use super::topology::HostAt;
use super::traffic::{Completion, Finished};
use super::watched::{Watched, WindowSample};
use super::workload::{MAX_FLOWS, SIZED_PORT, Workload};

pub use linux::{Completions, LinuxRecord, SilenceWindow};

/// Most flows with a series of their own.
const MAX_SERIES: usize = 64;

/// What one run found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The contract's record.
    pub record: RunRecord,
    /// What the kernel, the clock and the daemons say.
    pub linux: LinuxRecord,
    /// Time series.
    pub series: RunSeries,
}

impl Outcome {
    /// Itself, unless the hosts' programs, or the agent and hosts under test, stood still for want of a
    /// processor for more than a share `most` of the time that is counted (what comes after the warm-up), or
    /// a processor stood still for as long at once. A stall falls into that time as likely as not, and costs
    /// it that share. A program cannot tell that its processor was taken away, so pauses are refused by
    /// themselves: of any processor that this process may run on, since nobody knows where what was late
    /// would have run.
    ///
    /// # Errors
    /// [`RunError::Stalled`] or [`RunError::StoodStill`], and such a run counts as late.
    pub fn without_stalls(self, case: &Case, most: f64) -> Result<Self, RunError> {
        let LinuxRecord { stalled_s, host, .. } = self.linux;
        let counted_s = self.record.sim_s - case.scenario.warm_up.as_secs_f64();
        let limit_s = most * counted_s;
        if stalled_s > limit_s {
            return Err(RunError::Stalled { stalled_s, limit_s, daemons: self.linux.daemon_stalls, host });
        }
        if host.longest_s > limit_s {
            return Err(RunError::StoodStill { limit_s, host });
        }
        Ok(self)
    }
}

/// All that a run left behind.
pub(super) struct Found {
    pub report: EtherReport,
    pub watched: Watched,
    pub daemons: Statuses,
    pub wall: StdDuration,
    pub host: HostLoad,
}

/// A flow that carries the scenario's data.
struct DataFlow<'a> {
    flow: &'a Flow,
    direction: Direction,
    /// Bytes of a flow that ends.
    total: Option<u64>,
    /// What the ends of a QUIC flow told.
    quic: Option<&'a QuicEnd>,
    /// When the application of a flow without end stops: with its last arrival, or then, the flow is over.
    stop: Option<Instant>,
}

impl DataFlow<'_> {
    /// The host that sends its data.
    fn sender(&self) -> HostAt {
        HostAt::sending(self.direction, self.flow.station)
    }

    /// When all of a flow that ends had arrived.
    fn completed_at(&self) -> Option<Instant> {
        let track = self.flow.track(self.direction);
        self.total.filter(|&total| track.delivered() >= total).map(|_| track.last_delivered_at)
    }

    /// When it was over, or the run was.
    fn over_at(&self, until: Instant) -> Instant {
        let last = self.flow.track(self.direction).last_delivered_at;
        let stopped_at = self.stop.map(|stop| stop.max(last).min(until));
        self.completed_at().or(stopped_at).unwrap_or(until)
    }
}

pub(super) fn outcome(
    case: &Case,
    seed: u64,
    congestion: &str,
    workload: &Workload,
    found: Found,
) -> Result<Outcome, RunError> {
    let scenario = &case.scenario;
    let Found { mut report, watched, daemons, wall, host } = found;
    for (what, lateness) in
        [("edges of silences", &report.edge_lateness), ("frames and packets", &report.event_lateness)]
    {
        let p99_s = lateness.quantile_s(0.99);
        if p99_s > MAX_LATENESS.as_secs_f64() {
            let limit_ms = MAX_LATENESS.as_secs_f64() * 1e3;
            let events = lateness.count();
            let busy = report.busy;
            return Err(RunError::Late { what, events, p99_ms: p99_s * 1e3, limit_ms, busy, host });
        }
    }
    if report.log.has_left_out() {
        return Err(RunError::TooManyFlows { limit: MAX_FLOWS });
    }
    for end in &watched.traffic.quic {
        report.log.tell_reads(&end.key, end.flow.direction, &end.reads, &report.silences);
    }
    let completions: Vec<Completion> =
        watched.traffic.completions.iter().copied().chain(quic::completions(&watched.traffic.quic)).collect();
    let data = data_flows(report.log.flows(), workload, &watched.traffic, scenario);
    let mut flows = Vec::with_capacity(data.len());
    let (mut delays, mut resumes) = (PooledDelays::default(), DelayHistogram::new());
    let mut zero_windows = 0;
    let (looks, counted) = (Looks::new(&watched.windows), counted_of_one_flow(&data, &watched));
    for (id, one) in data.iter().enumerate() {
        let mut record = flow_record(id as u32, one, Instant::ZERO + scenario.warm_up, report.until);
        if one.flow.datagrams().is_some() {
            let warm_up = Instant::ZERO + scenario.warm_up;
            add_datagrams(&mut record, one, (warm_up, report.until), &report.network);
        } else {
            let alone = counted.get(&one.sender()).copied();
            add_repairs(&mut record, one, looks.of(one), alone, scenario.warm_up, report.until);
        }
        flows.push(record);
        let track = one.flow.track(one.direction);
        delays.add(&track.delays, &track.delays_outside_silence);
        resumes.merge(&track.resumes);
        zero_windows += track.zero_windows;
    }
    flows.extend(never_begun(&data, workload, &watched.traffic, scenario, report.until));
    let link = link_record(scenario, seed, &report)?;
    let counted_s = report.until.since(Instant::ZERO + scenario.warm_up).as_secs_f64();
    let totals = RunTotals::new(&flows, counted_s, &link, &delays);
    let record = RunRecord {
        case: format!("{}/{congestion}", case.name),
        seed,
        stack: Stack::Linux,
        sim_s: scenario.duration.as_secs_f64(),
        wall_s: wall.as_secs_f64(),
        events: report.events,
        flows,
        link,
        totals,
        mechanisms: mechanism_records(scenario, &daemons, &report.network)?,
    };
    let some = |value: f64| value.is_finite().then_some(value);
    let heard: Vec<u32> = watched.windows.iter().filter_map(|sample| sample.send_window).collect();
    let first = data.iter().find(|one| one.flow.datagrams().is_none());
    let silences = first
        .map(|one| told_silences(one, &report, looks.of(one), scenario))
        .transpose()?
        .unwrap_or_default();
    let linux = LinuxRecord {
        congestion: congestion.to_owned(),
        case: case.name.clone(),
        kernel: Some(kernel::release()),
        edge_late_p99_s: some(report.edge_lateness.quantile_s(0.99)).unwrap_or(0.0),
        event_late_p99_s: some(report.event_lateness.quantile_s(0.99)).unwrap_or(0.0),
        stalled_s: watched.stalled.as_secs_f64(),
        daemon_stalls: watched.daemon_stalls,
        host,
        overruns: report.overruns,
        transit_p50_s: some(report.log.transit().quantile_s(0.5)),
        transit_p99_s: some(report.log.transit().quantile_s(0.99)),
        resumes: resumes.count(),
        resume_p50_s: some(resumes.quantile_s(0.5)),
        resume_p99_s: some(resumes.quantile_s(0.99)),
        completions: workload.has_sized().then(|| Completions::of(&completions, watched.traffic.corrupt)),
        windows: first.map(|one| silence_windows(&report, looks.of(one))).unwrap_or_default(),
        silence_summary: (!silences.is_empty()).then(|| SilenceSummary::new(&silences)),
        silences,
        silences_told_until_s: first.and(report.log.seen_until()).map(Instant::as_secs_f64),
        send_window: heard.iter().copied().min().zip(heard.iter().copied().max()).map(|(a, b)| [a, b]),
        zero_windows,
        counters: watched.kernel,
        agent: daemons.agent,
        hosts: daemons.hosts,
    };
    let series = series(&record, scenario, &data, &report, &looks, delays);
    Ok(Outcome { record, linux, series })
}

/// The flows that carry the scenario's data, in its order: without iperf3's control connections, which are
/// the first to each of its servers.
fn data_flows<'a>(
    flows: &'a [Flow],
    workload: &Workload,
    traffic: &'a Finished,
    scenario: &ResolvedScenario,
) -> Vec<DataFlow<'a>> {
    let ends: HashMap<FlowKey, &QuicEnd> = traffic.quic.iter().map(|end| (end.key, end)).collect();
    let mut has_control = vec![false; workload.iperf.len()];
    let sized: HashMap<(u32, u16), usize> =
        traffic.completions.iter().map(|one| ((one.station, one.port), one.group)).collect();
    let mut found: Vec<(usize, u16, DataFlow<'a>)> = Vec::new();
    for flow in flows {
        let port = flow.key.correspondent.port;
        if let Some(datagrams) = flow.datagrams() {
            let quic = ends.get(&flow.key).copied();
            let total = quic.and_then(|end| end.flow.bytes);
            let stop = stop_of(scenario, datagrams.group());
            let one = DataFlow { flow, direction: datagrams.direction(), total, quic, stop };
            // Their ports are in the scenario's order; which of them sends first is chance.
            found.push((datagrams.group(), port, one));
        } else if let Some((index, client)) = workload.client_of(port) {
            if std::mem::replace(&mut has_control[index], true) {
                let stop = stop_of(scenario, client.group);
                let one = DataFlow { flow, direction: client.direction, total: None, quic: None, stop };
                found.push((client.group, 0, one));
            }
        } else if port == SIZED_PORT {
            let group = sized.get(&(flow.station, flow.key.station.port));
            let Some(spec) = group.and_then(|&group| {
                workload.sized.iter().find(|one| (one.group, one.station) == (group, flow.station))
            }) else {
                continue;
            };
            let one =
                DataFlow { flow, direction: spec.direction, total: Some(spec.bytes), quic: None, stop: None };
            found.push((spec.group, 0, one));
        }
    }
    found.sort_by_key(|(group, port, _)| (*group, *port));
    found.into_iter().map(|(_, _, one)| one).collect()
}

/// A connection that was to be, and of which no packet was seen.
struct NeverBegun {
    group: usize,
    station: u32,
    direction: Direction,
    start: StdDuration,
}

/// Connections of which no SYN was ever sent: iperf3's, whose control connection did not come about in the
/// time of the run, and those of flows of a given size that their host could not even ask for. They are flows
/// that carried nothing, as in the simulator, and come after all others.
fn never_begun(
    data: &[DataFlow<'_>],
    workload: &Workload,
    traffic: &Finished,
    scenario: &ResolvedScenario,
    until: Instant,
) -> Vec<FlowRecord> {
    let (mut seen, mut sized_seen) = (vec![0; workload.iperf.len()], HashSet::new());
    for one in data.iter().filter(|one| one.flow.datagrams().is_none()) {
        match workload.client_of(one.flow.key.correspondent.port) {
            Some((index, _)) => seen[index] += 1,
            None => {
                sized_seen.insert((one.flow.station, one.flow.key.station.port));
            }
        }
    }
    let iperf = workload.iperf.iter().zip(seen).flat_map(|(client, seen)| {
        let (group, station) = (client.group, client.station);
        let (direction, start) = (client.direction, client.start);
        (seen..client.count).map(move |_| NeverBegun { group, station, direction, start })
    });
    let sized = traffic.completions.iter().filter(|one| !sized_seen.contains(&(one.station, one.port)));
    let sized = sized.filter_map(|one| {
        let (group, station, start) = (one.group, one.station, StdDuration::from_secs_f64(one.start_s));
        let direction = scenario.flows.get(group)?.direction;
        Some(NeverBegun { group, station, direction, start })
    });
    let of = |(id, one): (usize, NeverBegun)| {
        let start = instant(one.start);
        let end = stop_of(scenario, one.group).map_or(until, |stop| stop.min(until));
        let mut record = FlowRecord {
            id: id as u32,
            direction: FlowDirection::from(one.direction),
            station: one.station,
            start_s: start.as_secs_f64(),
            active_s: end.since(start.max(Instant::ZERO + scenario.warm_up)).as_secs_f64(),
            ..FlowRecord::default()
        };
        record.set_delays(&DelayHistogram::new(), &DelayHistogram::new());
        record
    };
    (data.len()..).zip(iperf.chain(sized)).map(of).collect()
}

/// When the application of a group stops, if its source has no end: an amount is sent all the same.
fn stop_of(scenario: &ResolvedScenario, group: usize) -> Option<Instant> {
    let group = scenario.flows.get(group)?;
    group.stop.filter(|_| !matches!(group.source, Source::Finite(_)))
}

fn flow_record(id: u32, one: &DataFlow<'_>, warm_up: Instant, until: Instant) -> FlowRecord {
    let flow = one.flow;
    let track = flow.track(one.direction);
    let counted_from = flow.start.max(warm_up);
    let counted_s = one.over_at(until).since(counted_from).as_secs_f64();
    let rate = |bytes: u64| if counted_s > 0.0 { bytes as f64 * 8.0 / counted_s } else { 0.0 };
    let bytes = track.delivered().saturating_sub(track.delivered_at_warm_up);
    let mut record = FlowRecord {
        id,
        direction: FlowDirection::from(one.direction),
        goodput_bps: rate(bytes),
        retransmit_bps: rate(track.retransmit_bytes),
        retransmits: track.retransmits,
        bytes,
        station: flow.station,
        start_s: flow.start.as_secs_f64(),
        active_s: counted_s,
        completion_s: one.completed_at().map(|at| at.since(flow.start).as_secs_f64()),
        resume_p50_s: (track.resumes.count() > 0).then(|| track.resumes.quantile_s(0.5)),
        ..FlowRecord::default()
    };
    record.set_delays(&track.delays, &track.delays_outside_silence);
    record
}

/// What a flow of TCP sent again because of a timeout, and why.
fn add_repairs(
    record: &mut FlowRecord,
    one: &DataFlow<'_>,
    looks: &[&WindowSample],
    alone: Option<&Counters>,
    warm_up: Duration,
    until: Instant,
) {
    let lived = one.over_at(until).since(one.flow.start);
    Sender { looks, alone, lived }.tell(record, Instant::ZERO + warm_up);
}

/// What each host counted from which one flow of TCP sends.
fn counted_of_one_flow<'a>(data: &[DataFlow<'_>], watched: &'a Watched) -> BTreeMap<HostAt, &'a Counters> {
    let mut flows: BTreeMap<HostAt, u32> = BTreeMap::new();
    for one in data.iter().filter(|one| one.flow.datagrams().is_none()) {
        *flows.entry(one.sender()).or_insert(0) += 1;
    }
    let alone = watched.counted.iter().filter(|(host, _)| flows.get(host) == Some(&1));
    alone.map(|(host, counters)| (*host, counters)).collect()
}

/// What only a flow over UDP has.
fn add_datagrams(
    record: &mut FlowRecord,
    one: &DataFlow<'_>,
    (warm_up, until): (Instant, Instant),
    network: &Network,
) {
    let Some(datagrams) = one.flow.datagrams() else { return };
    let index = network.flow_of(&one.flow.key);
    let inside = index.map_or(0, |index| network.inside(index, one.direction));
    tell_of_datagrams(record);
    record.udp = Some(datagrams.record(inside));
    if datagrams.is_quic() {
        record.transport = FlowTransport::Quic;
        record.quic = one.quic.map(|end| quic::record(end, datagrams.never_arrived(inside), warm_up));
    } else {
        record.transport = FlowTransport::Udp;
        record.media = datagrams.media(until);
    }
}

fn link_record(scenario: &ResolvedScenario, seed: u64, report: &EtherReport) -> Result<LinkRecord, RunError> {
    let plan = linkhold_sim::plan::Plan::new(scenario, seed)?;
    let limit = linkhold_sim::build::goodput_limit(scenario, &plan);
    let accounting = &report.accounting;
    let warm_up = Instant::ZERO + scenario.warm_up;
    let network = |silence: &&linkhold_radio::Silence| {
        silence.scope == linkhold_core::link_event::Scope::Network && silence.end > warm_up
    };
    Ok(LinkRecord {
        silent_fraction: accounting.silent_fraction(),
        capacity_mean_bps: limit.capacity_mean_bps(accounting),
        goodput_limit_bps: limit.bps(accounting),
        silences: report.silences.iter().filter(network).count() as u64,
        station_silent_fraction: (0..scenario.radio.stations)
            .map(|station| accounting.station_silent_fraction(station))
            .collect(),
        queue_drops: report.losses.dropped(),
        queue_marks: report.losses.marked,
        air_losses: report.losses.air,
        told: report
            .network
            .radio(linkhold_sim::cell::AIR)
            .air()
            .told()
            .map(|told| linkhold_sim::recorder::told_record(&told)),
        // The testbed does not count what its radios are busy with.
        energy: None,
        uplink: report.uplink.as_ref().map(linkhold_sim::recorder::uplink_record),
        mesh: None,
    })
}

/// The looks at each sender's socket, in the order of time.
struct Looks<'a>(HashMap<(Option<u32>, u16, u16), Vec<&'a WindowSample>>);

impl<'a> Looks<'a> {
    fn new(samples: &'a [WindowSample]) -> Self {
        let mut looks: HashMap<_, Vec<&WindowSample>> = HashMap::new();
        for sample in samples {
            let key = (sample.station, sample.station_port, sample.correspondent_port);
            looks.entry(key).or_default().push(sample);
        }
        Self(looks)
    }

    fn of(&self, one: &DataFlow<'_>) -> &[&'a WindowSample] {
        let key = &one.flow.key;
        let found = self.0.get(&(Some(one.flow.station), key.station.port, key.correspondent.port));
        found.map(Vec::as_slice).unwrap_or_default()
    }
}

fn silence_windows(report: &EtherReport, samples: &[&WindowSample]) -> Vec<SilenceWindow> {
    let window = |silence: &linkhold_radio::Silence| {
        let (start_s, end_s) = (silence.start.as_secs_f64(), silence.end.as_secs_f64());
        let before = samples.iter().rfind(|sample| sample.told_s <= start_s)?;
        let after = samples.iter().find(|sample| sample.at_s > end_s + before.rtt_s)?;
        let meanwhile = samples.iter().filter(|sample| (start_s..=after.at_s).contains(&sample.at_s));
        Some(SilenceWindow {
            start_s,
            end_s,
            cwnd_before: before.cwnd,
            cwnd_after: after.cwnd,
            ssthresh_before: before.ssthresh,
            ssthresh_after: after.ssthresh,
            least_send_window: meanwhile.filter_map(|sample| sample.send_window).min(),
        })
    };
    report.silences.iter().filter_map(window).collect()
}

/// The silences of a flow's station and what they did to it.
fn told_silences(
    one: &DataFlow<'_>,
    report: &EtherReport,
    samples: &[&WindowSample],
    scenario: &ResolvedScenario,
) -> Result<Vec<SilenceStory>, RunError> {
    let Some(number) = report.log.flows().iter().position(|flow| flow.key == one.flow.key) else {
        return Ok(Vec::new());
    };
    let of_station =
        report.silences.iter().filter(|silence| silence.scope.covers(StationId(one.flow.station)));
    let spans = merged(of_station.map(|silence| (silence.start, silence.end)).collect());
    let seen = report.log.seen(number, one.direction);
    let until = report.log.seen_until().map_or(report.until, |full| full.min(report.until));
    let beside_host = Seats::of(scenario)?.has_host_at(one.sender());
    let known = Known { seen: &seen, samples, beside_host };
    Ok(stories(&spans, known, Instant::ZERO + scenario.warm_up, until))
}

fn series(
    record: &RunRecord,
    scenario: &ResolvedScenario,
    data: &[DataFlow<'_>],
    report: &EtherReport,
    looks: &Looks<'_>,
    delays: PooledDelays,
) -> RunSeries {
    let interval_s = scenario.output.series_interval.as_secs_f64();
    // What the kernel counts in segments: without the timestamps' option, as in the simulator.
    let options = if scenario.tcp.timestamps { 12 } else { 0 };
    let payload = f64::from(scenario.tcp.mss - options);
    let mut router = RouterSeries::default();
    let plan = linkhold_sim::plan::Plan::new(scenario, record.seed).ok();
    let limit = plan.map(|plan| linkhold_sim::build::goodput_limit(scenario, &plan));
    for (index, sample) in report.samples.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| report.samples.get(before));
        let air =
            before.map_or_else(|| sample.accounting.clone(), |b| sample.accounting.since(&b.accounting));
        router.t_s.push((index + 1) as f64 * interval_s);
        router.goodput_bps.push(0.0);
        router.limit_bps.push(limit.as_ref().map_or(f64::NAN, |limit| limit.bps(&air)));
        router.held_bytes.push(f64::NAN);
        router.queue_bytes.push(sample.queue_bytes as f64);
    }
    let mut flows = Vec::new();
    for (id, one) in data.iter().enumerate() {
        let mut series = FlowSeries::new(id as u32, FlowDirection::from(one.direction));
        let all = looks.of(one);
        let mut next_look = all.iter().copied().peekable();
        let (mut before, mut look) = (0, None);
        let points = &one.flow.track(one.direction).series;
        for (index, &delivered) in points.iter().enumerate() {
            let goodput_bps = (delivered - before) as f64 * 8.0 / interval_s;
            before = delivered;
            let end_s = (index + 1) as f64 * interval_s;
            while let Some(next) = next_look.next_if(|sample| sample.at_s <= end_s) {
                look = Some(next);
            }
            let seen = |value: fn(&WindowSample) -> f64| look.map_or(f64::NAN, value);
            series.t_s.push(end_s);
            series.goodput_bps.push(goodput_bps);
            series.cwnd_bytes.push(seen(|sample| f64::from(sample.cwnd)) * payload);
            series.ssthresh_bytes.push(seen(|sample| sample.ssthresh.map_or(f64::NAN, f64::from)) * payload);
            series.rtt_s.push(seen(|sample| sample.rtt_s));
            series.in_flight_bytes.push(seen(|sample| f64::from(sample.in_flight)) * payload);
            if let Some(total) = router.goodput_bps.get_mut(index) {
                *total += goodput_bps;
            }
        }
        series.rto_events = match one.flow.datagrams() {
            None => timeouts_over_time(all, interval_s, points.len()),
            Some(_) => vec![0; points.len()],
        };
        if let Some(end) = one.quic {
            quic::look_over_time(end, &mut series);
        }
        if flows.len() < MAX_SERIES {
            flows.push(series);
        }
    }
    let mut silences: Vec<SilenceRecord> = report
        .silences
        .iter()
        .map(|silence| SilenceRecord {
            start_s: silence.start.as_secs_f64(),
            end_s: silence.end.as_secs_f64(),
            cause: silence.cause,
            scope: silence.scope,
        })
        .collect();
    silences.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    RunSeries {
        case: record.case.clone(),
        seed: record.seed,
        flows,
        router,
        mesh: None,
        silences,
        delays: delays.all,
        delays_outside_silence: delays.outside_silence,
    }
}
