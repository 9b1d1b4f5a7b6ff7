//! What is measured of one flow, streaming: memory does not grow with simulated time.
//!
//! - Goodput counts application bytes delivered in order from the flow's start or the end of the warm-up,
//!   whichever is later, to the flow's completion or the end of the run. A flow that is over before the
//!   warm-up is counts nothing.
//! - Delay is one-way: from the moment the sender's TCP sent this copy of the segment (for data sent again:
//!   its latest transmission) to its arrival at the receiver's TCP, for every segment with payload,
//!   duplicates included. "Outside silence" are the segments whose station met no silence meanwhile.
//! - With UDP, delivered are all bytes of payload that arrived, and delay is that of every datagram.
//! - Resume is the time from a silence's end to the first data segment at the receiver that moved the stream
//!   on, less silences in between.

use linkhold_core::packet::Direction;
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
        let series = |thinning| {
            let mut series = Series::new(interval, thinning);
            // All series of a run begin at time 0, so that their points lie at the same times.
            for _ in 0..skipped {
                series.push(0.0);
            }
            series
        };
        Self {
            last_delivered: 0,
            goodput: series(Thinning::Mean),
            cwnd: series(Thinning::Last),
            ssthresh: series(Thinning::Last),
            rtt: series(Thinning::Last),
            in_flight: series(Thinning::Last),
            rto_events: series(Thinning::Last),
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
        if self.counting {
            let delay = now.since(packet.sent_at);
            self.delays.record(delay);
            if !silences.met_since(station, packet.sent_at) {
                self.outside_silence.record(delay);
            }
        }
        let delivered = self.earlier_delivered + delivered;
        if delivered == self.delivered {
            return;
        }
        self.delivered = delivered;
        let ended = silences.ended(station);
        if ended != self.silences_seen {
            if self.counting
                && let Some(waited) = silences.served_since(station, self.silences_seen, now)
            {
                self.resume.record(waited);
            }
            self.silences_seen = ended;
        }
        if self.total.is_some_and(|total| delivered >= total) && self.completed_at.is_none() {
            self.completed_at = Some(now);
        }
    }

    /// Adds one more interval to the series, if they are kept; `sender` is that of a TCP connection.
    pub fn sample(&mut self, sender: Option<&Endpoint>, interval: Duration) {
        let Some(columns) = self.columns.as_deref_mut() else {
            return;
        };
        let bytes = self.delivered - columns.last_delivered;
        columns.last_delivered = self.delivered;
        columns.goodput.push(bytes as f64 * 8.0 / interval.as_secs_f64());
        let of = |value: fn(&Endpoint) -> f64| sender.map_or(f64::NAN, value);
        columns.cwnd.push(of(|sender| sender.cwnd_bytes() as f64));
        columns.ssthresh.push(of(|sender| match sender.ssthresh_bytes() {
            u64::MAX => f64::NAN,
            bytes => bytes as f64,
        }));
        columns.rtt.push(of(|sender| sender.srtt().map_or(f64::NAN, Duration::as_secs_f64)));
        columns.in_flight.push(of(|sender| sender.in_flight_bytes() as f64));
        columns
            .rto_events
            .push(sender.map_or(0.0, |sender| (self.earlier.rto_events + sender.stats().rto_events) as f64));
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

    /// The flow's results at `now`; counting has begun.
    #[must_use]
    pub fn record(&self, now: Instant, sender: &Stats) -> FlowRecord {
        let end = self.completed_at.unwrap_or(now);
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
        let columns = self.columns.take()?;
        let mut series = FlowSeries::new(self.id, FlowDirection::from(self.direction));
        series.t_s = columns.goodput.times_s();
        series.goodput_bps = columns.goodput.into_points();
        series.cwnd_bytes = columns.cwnd.into_points();
        series.ssthresh_bytes = columns.ssthresh.into_points();
        series.rtt_s = columns.rtt.into_points();
        series.in_flight_bytes = columns.in_flight.into_points();
        series.rto_events = columns.rto_events.points().iter().map(|n| *n as u64).collect();
        Some(series)
    }
}
