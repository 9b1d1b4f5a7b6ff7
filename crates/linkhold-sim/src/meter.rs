//! What is measured of one flow, streaming: memory does not grow with simulated time.
//!
//! - Goodput counts application bytes delivered in order from the flow's start or the end of the warm-up,
//!   whichever is later, to the flow's completion or the end of the run. A flow that is over before the
//!   warm-up is counts nothing.
//! - Delay is one-way: from the moment the sender's TCP sent this copy of the segment (for data sent again:
//!   its latest transmission) to its arrival at the receiver's TCP, for every segment with payload,
//!   duplicates included. "Outside silence" are the segments whose station met no silence before they had
//!   crossed the air.
//! - With UDP, delivered are all bytes of payload that arrived, and delay is that of every datagram.
//! - Resume is the time from a silence's end to the arrival of the first data segment that crossed the air
//!   after it and moved the stream on, less silences before the segment crossed. A silence means nothing to
//!   what has left the air, so the wire counts in full.

use linkhold_core::packet::{Direction, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_results::{DelayHistogram, FlowDirection, FlowRecord, FlowSeries, PooledDelays};
use linkhold_tcp::{Endpoint, Stats};

use crate::series::{Series, Thinning};
use crate::silence_tracker::SilenceTracker;
use crate::slab::Packet;

/// One flow's measurements.
#[derive(Clone, Debug)]
pub struct Meter {
    id: u32,
    direction: Direction,
    station: u32,
    /// In a mesh, the node that receives.
    to: Option<u32>,
    start: Instant,
    /// Bytes of a finite source.
    total: Option<u64>,
    /// True if its source is finite, or was stopped.
    ends: bool,
    /// When counting began, and what had been delivered by then; `base` is the sender's counters at that
    /// time.
    counted_from: Instant,
    base_delivered: u64,
    base: Repairs,
    counting: bool,
    delivered: u64,
    /// What connections of the flow that are over had delivered, and what their senders had counted.
    earlier_delivered: u64,
    earlier: Repairs,
    completed_at: Option<Instant>,
    /// Silences of its station that had ended when the stream last moved on.
    silences_seen: u64,
    delays: DelayHistogram,
    outside_silence: DelayHistogram,
    resume: DelayHistogram,
    columns: Option<Box<Columns>>,
}

/// What a sender repaired.
#[derive(Clone, Copy, Debug, Default)]
struct Repairs {
    retransmit_bytes: u64,
    retransmits: u64,
    rto_events: u64,
    /// Without one that may still be undone.
    timeout_reductions: u64,
    spurious_rtos: u64,
    fast_recoveries: u64,
}

impl Repairs {
    fn of(stats: &Stats) -> Self {
        Self {
            retransmit_bytes: stats.retransmit_bytes,
            retransmits: stats.retransmits,
            rto_events: stats.rto_events,
            timeout_reductions: stats.timeout_reductions - stats.timeouts_undecided,
            spurious_rtos: stats.spurious_rtos,
            fast_recoveries: stats.fast_recoveries,
        }
    }

    fn with(self, other: Self, op: fn(u64, u64) -> u64) -> Self {
        Self {
            retransmit_bytes: op(self.retransmit_bytes, other.retransmit_bytes),
            retransmits: op(self.retransmits, other.retransmits),
            rto_events: op(self.rto_events, other.rto_events),
            timeout_reductions: op(self.timeout_reductions, other.timeout_reductions),
            spurious_rtos: op(self.spurious_rtos, other.spurious_rtos),
            fast_recoveries: op(self.fast_recoveries, other.fast_recoveries),
        }
    }
}

/// The series of one flow.
#[derive(Clone, Debug)]
struct Columns {
    last_delivered: u64,
    goodput: Series,
    cwnd: Series,
    ssthresh: Series,
    rtt: Series,
    in_flight: Series,
    rto_events: Series,
}

impl Columns {
    fn new(interval: Duration, skipped: u64) -> Self {
        let mut columns = Self {
            last_delivered: 0,
            goodput: Series::new(interval, Thinning::Mean),
            cwnd: Series::new(interval, Thinning::Last),
            ssthresh: Series::new(interval, Thinning::Last),
            rtt: Series::new(interval, Thinning::Last),
            in_flight: Series::new(interval, Thinning::Last),
            rto_events: Series::new(interval, Thinning::Last),
        };
        // All series of a run begin at time 0, so that their points lie at the same times.
        for _ in 0..skipped {
            columns.push(0, &Gauges::NONE, interval);
        }
        columns
    }
}

/// What is read of a sender at the end of an interval; not-a-number what there is not.
#[derive(Clone, Copy, Debug)]
struct Gauges {
    cwnd: f64,
    ssthresh: f64,
    rtt: f64,
    in_flight: f64,
    rto_events: f64,
}

impl Gauges {
    /// Those of a flow without a TCP connection, or before its start.
    const NONE: Self =
        Self { cwnd: f64::NAN, ssthresh: f64::NAN, rtt: f64::NAN, in_flight: f64::NAN, rto_events: 0.0 };

    fn of(flow: &Meter, sender: &Endpoint) -> Self {
        Self {
            cwnd: sender.cwnd_bytes() as f64,
            ssthresh: match sender.ssthresh_bytes() {
                u64::MAX => f64::NAN,
                bytes => bytes as f64,
            },
            rtt: sender.srtt().map_or(f64::NAN, Duration::as_secs_f64),
            in_flight: sender.in_flight_bytes() as f64,
            rto_events: (flow.earlier.rto_events + sender.stats().rto_events) as f64,
        }
    }
}

impl Meter {
    /// A meter of a flow that starts at `start`.
    #[must_use]
    pub fn new(id: u32, direction: Direction, station: u32, start: Instant, total: Option<u64>) -> Self {
        Self {
            id,
            direction,
            station,
            to: None,
            start,
            total,
            ends: total.is_some(),
            counted_from: start,
            base_delivered: 0,
            base: Repairs::default(),
            counting: false,
            delivered: 0,
            earlier_delivered: 0,
            earlier: Repairs::default(),
            completed_at: None,
            silences_seen: 0,
            delays: DelayHistogram::new(),
            outside_silence: DelayHistogram::new(),
            resume: DelayHistogram::new(),
            columns: None,
        }
    }

    /// In a mesh: `to` is the node that receives.
    #[must_use]
    pub fn received_by(self, to: Option<u32>) -> Self {
        Self { to, ..self }
    }

    /// In a mesh: who sends and who receives.
    #[must_use]
    pub fn mesh_ends(&self) -> Option<(u32, u32)> {
        self.to.map(|to| (self.station, to))
    }

    /// The flow's station.
    #[must_use]
    pub const fn station(&self) -> u32 {
        self.station
    }

    /// The flow's number in the results.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// True if its source ends.
    #[must_use]
    pub const fn is_finite(&self) -> bool {
        self.ends
    }

    /// Its application stops, so a source without end ends all the same.
    pub const fn ends(&mut self) {
        self.ends = true;
    }

    /// When its last byte arrived, for a finite flow that is done.
    #[must_use]
    pub const fn completed_at(&self) -> Option<Instant> {
        self.completed_at
    }

    /// Keeps series of one point every `interval`, `skipped` intervals having passed already.
    pub fn keep_series(&mut self, interval: Duration, skipped: u64) {
        self.columns = Some(Box::new(Columns::new(interval, skipped)));
    }

    /// The flow opens, `ended` silences of its station having passed.
    pub fn opened(&mut self, ended: u64) {
        self.silences_seen = ended;
    }

    /// True once counting has begun.
    #[must_use]
    pub const fn is_counting(&self) -> bool {
        self.counting
    }

    /// Counts from here on (the flow's start, or the end of the warm-up).
    pub fn count_from(&mut self, now: Instant, sender: &Stats) {
        self.counting = true;
        self.counted_from = now;
        self.base_delivered = self.delivered;
        self.base = Repairs::of(sender).with(self.earlier, u64::wrapping_add);
    }

    /// A meter for what is left of a connection whose flow goes on with another connection; nobody reads it.
    #[must_use]
    pub fn left_behind(&self, now: Instant) -> Self {
        Self::new(self.id, self.direction, self.station, now, None).received_by(self.to)
    }

    /// The connection of `sender` is over, and another one of the flow follows.
    pub fn next_connection(&mut self, sender: &Stats) {
        self.earlier_delivered = self.delivered;
        self.earlier = Repairs::of(sender).with(self.earlier, u64::wrapping_add);
    }

    /// A packet with payload arrived at the receiver, which now has `delivered` bytes (of TCP: in order) of
    /// this connection.
    #[inline]
    pub fn data_arrived(&mut self, now: Instant, packet: &Packet, delivered: u64, silences: &SilenceTracker) {
        let station = packet.station;
        let (crossed, met_silence) = match packet.direction {
            Direction::Downlink => (now, silences.met_since(station, packet.sent_at)),
            Direction::Uplink => (packet.left_air, packet.met_silence),
        };
        if self.counting {
            let delay = now.since(packet.sent_at);
            self.delays.record(delay);
            if !met_silence {
                self.outside_silence.record(delay);
            }
        }
        let delivered = self.earlier_delivered + delivered;
        if delivered == self.delivered {
            return;
        }
        self.delivered = delivered;
        if silences.ended(station) != self.silences_seen {
            self.moved_on(now, station, crossed, silences);
        }
        if self.total.is_some_and(|total| delivered >= total) && self.completed_at.is_none() {
            self.completed_at = Some(now);
        }
    }

    /// The stream moved on by a packet that crossed the air at `crossed`, and silences of the station have
    /// ended.
    fn moved_on(&mut self, now: Instant, station: StationId, crossed: Instant, silences: &SilenceTracker) {
        let ended = silences.ended_by(station, crossed);
        if ended <= self.silences_seen {
            return;
        }
        if self.counting
            && let Some(waited) = silences.served_since(station, self.silences_seen, crossed)
        {
            self.resume.record(waited + now.since(crossed));
        }
        self.silences_seen = ended;
    }

    /// Adds one more interval to the series, if they are kept; `sender` is that of a TCP connection.
    pub fn sample(&mut self, sender: Option<&Endpoint>, interval: Duration) {
        let Some(mut columns) = self.columns.take() else {
            return;
        };
        let bytes = self.delivered - columns.last_delivered;
        columns.last_delivered = self.delivered;
        let gauges = sender.map_or(Gauges::NONE, |sender| Gauges::of(self, sender));
        columns.push(bytes, &gauges, interval);
        self.columns = Some(columns);
    }

    /// Bytes delivered in order so far.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Adds this flow's delays to those of all flows.
    pub fn pool_delays(&self, pooled: &mut PooledDelays) {
        pooled.add(&self.delays, &self.outside_silence);
    }

    /// The results of a flow that is over at `end`, or goes on there; counting has begun.
    #[must_use]
    pub fn record(&self, end: Instant, sender: &Stats) -> FlowRecord {
        let end = self.completed_at.unwrap_or(end);
        let seconds = end.since(self.counted_from).as_secs_f64();
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let repairs =
            Repairs::of(sender).with(self.earlier, u64::wrapping_add).with(self.base, u64::wrapping_sub);
        let bytes = self.delivered - self.base_delivered;
        let mut record = FlowRecord {
            id: self.id,
            direction: self.direction.into(),
            goodput_bps: rate(bytes),
            retransmit_bps: rate(repairs.retransmit_bytes),
            retransmits: repairs.retransmits,
            rto_events: Some(repairs.rto_events),
            bytes,
            active_s: seconds,
            station: self.station,
            to: self.to,
            start_s: self.start.as_secs_f64(),
            completion_s: self.completed_at.map(|at| at.since(self.start).as_secs_f64()),
            spurious_rtos: Some(repairs.spurious_rtos),
            kept_rtos: Some(repairs.timeout_reductions.saturating_sub(repairs.spurious_rtos)),
            fast_recoveries: Some(repairs.fast_recoveries),
            resume_p50_s: (self.resume.count() > 0).then(|| self.resume.quantile_s(0.5)),
            ..FlowRecord::default()
        };
        record.set_delays(&self.delays, &self.outside_silence);
        record
    }

    /// Takes the flow's series, if they were kept.
    pub fn take_series(&mut self) -> Option<FlowSeries> {
        Some(self.columns.take()?.into_series(self.id, self.direction))
    }

    /// The flow is over in the middle of an interval: takes its series as they await the interval's end, with
    /// the last readings of `sender`.
    pub fn end_series(&mut self, sender: &Endpoint) -> Option<EndedSeries> {
        let last = Gauges::of(self, sender);
        let columns = self.columns.take()?;
        let bytes = self.delivered - columns.last_delivered;
        Some(EndedSeries { id: self.id, direction: self.direction, columns, bytes, last })
    }
}

/// The series of a flow that is over. Rows lie at the ends of the run's intervals, so the last one waits for
/// an end that the flow does not see; with none to come in the run, there is no such row, as with flows that
/// outlast the run.
#[derive(Debug)]
pub struct EndedSeries {
    id: u32,
    direction: Direction,
    columns: Box<Columns>,
    /// Bytes that arrived in the interval under way.
    bytes: u64,
    last: Gauges,
}

impl EndedSeries {
    /// An interval of the run is over. True if the series have their last row now.
    pub fn sample(&mut self, interval: Duration) -> bool {
        let bytes = std::mem::take(&mut self.bytes);
        self.columns.push(bytes, &self.last, interval);
        self.columns.goodput.is_whole()
    }

    /// The series.
    #[must_use]
    pub fn into_series(self) -> FlowSeries {
        self.columns.into_series(self.id, self.direction)
    }
}

impl Columns {
    fn push(&mut self, bytes: u64, gauges: &Gauges, interval: Duration) {
        self.goodput.push(bytes as f64 * 8.0 / interval.as_secs_f64());
        self.cwnd.push(gauges.cwnd);
        self.ssthresh.push(gauges.ssthresh);
        self.rtt.push(gauges.rtt);
        self.in_flight.push(gauges.in_flight);
        self.rto_events.push(gauges.rto_events);
    }

    fn into_series(self: Box<Self>, id: u32, direction: Direction) -> FlowSeries {
        let columns = *self;
        let mut series = FlowSeries::new(id, FlowDirection::from(direction));
        series.t_s = columns.goodput.times_s();
        series.goodput_bps = columns.goodput.into_points();
        series.cwnd_bytes = columns.cwnd.into_points();
        series.ssthresh_bytes = columns.ssthresh.into_points();
        series.rtt_s = columns.rtt.into_points();
        series.in_flight_bytes = columns.in_flight.into_points();
        series.rto_events = columns.rto_events.points().iter().map(|n| *n as u64).collect();
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_its_start_a_flow_has_no_readings() {
        let second = Duration::from_secs(1);
        let read = Gauges { cwnd: 3000.0, ssthresh: 2000.0, rtt: 0.1, in_flight: 1000.0, rto_events: 1.0 };
        // The second has thinned before the flow starts.
        for (skipped, before) in [(3, 3), (600, 300)] {
            let mut columns = Columns::new(second, skipped);
            for _ in 0..4 {
                columns.push(125, &read, second);
            }
            let series = Box::new(columns).into_series(0, Direction::Downlink);
            let gauges = [&series.cwnd_bytes, &series.ssthresh_bytes, &series.rtt_s, &series.in_flight_bytes];
            for gauge in gauges {
                assert!(gauge[..before].iter().all(|value| value.is_nan()), "{gauge:?}");
                assert!(gauge[before..].iter().all(|value| value.is_finite()), "{gauge:?}");
            }
            assert!(series.goodput_bps[..before].iter().all(|&rate| rate == 0.0));
            assert!(series.goodput_bps[before..].iter().all(|&rate| rate == 1000.0));
            assert!(series.rto_events[..before].iter().all(|&count| count == 0));
            assert!(series.t_s.len() > before && series.cwnd_bytes.len() == series.t_s.len());
        }
    }
}
