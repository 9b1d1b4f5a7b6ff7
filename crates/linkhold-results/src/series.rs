//! Values over the time of a run, for Parquet and the charts; they are no part of the JSON.

use linkhold_core::link_event::{Cause, Scope};
use serde::{Deserialize, Serialize};

use crate::delay::DelayHistogram;
use crate::mesh::MeshMaps;
use crate::record::FlowDirection;

/// The time series of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSeries {
    /// Name of the case.
    pub case: String,
    /// Seed of the run.
    pub seed: u64,
    /// One entry for each flow, by id. A driver with very many flows may leave out all but the first few.
    pub flows: Vec<FlowSeries>,
    /// The router and the air.
    pub router: RouterSeries,
    /// The mesh, if it is one. Never left out: the testbed keeps series in a format without names.
    pub mesh: Option<MeshMaps>,
    /// Silences, by start. The simulator keeps the first 20,000.
    pub silences: Vec<SilenceRecord>,
    /// One-way delays of all data segments.
    pub delays: DelayHistogram,
    /// One-way delays of the segments that met no silence.
    pub delays_outside_silence: DelayHistogram,
}

/// One flow over time. Every vector has one entry for each interval, unless it says otherwise. Intervals
/// before the flow's start have no goodput and no timeouts; what is read of the sender is not-a-number there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSeries {
    /// Number of the flow.
    pub flow: u32,
    /// Which way its data goes.
    pub direction: FlowDirection,
    /// End of the interval, s.
    pub t_s: Vec<f64>,
    /// Application bytes received in order during the interval, as a rate, bit/s.
    pub goodput_bps: Vec<f64>,
    /// Congestion window at the end of the interval, bytes.
    pub cwnd_bytes: Vec<f64>,
    /// Slow-start threshold at the end of the interval, bytes; not-a-number while it is infinite.
    pub ssthresh_bytes: Vec<f64>,
    /// Smoothed round-trip time at the end of the interval, s; not-a-number before the first sample.
    pub rtt_s: Vec<f64>,
    /// Bytes in flight at the end of the interval.
    pub in_flight_bytes: Vec<f64>,
    /// Retransmission timeouts since the start; empty if the kernel does not tell them.
    pub rto_events: Vec<u64>,
}

impl FlowSeries {
    /// An empty series.
    #[must_use]
    pub const fn new(flow: u32, direction: FlowDirection) -> Self {
        Self {
            flow,
            direction,
            t_s: Vec::new(),
            goodput_bps: Vec::new(),
            cwnd_bytes: Vec::new(),
            ssthresh_bytes: Vec::new(),
            rtt_s: Vec::new(),
            in_flight_bytes: Vec::new(),
            rto_events: Vec::new(),
        }
    }
}

/// The router over time. Every vector has one entry for each interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouterSeries {
    /// End of the interval, s.
    pub t_s: Vec<f64>,
    /// Goodput of all flows during the interval, bit/s.
    pub goodput_bps: Vec<f64>,
    /// Goodput that a perfect transport would have reached in the interval, bit/s.
    pub limit_bps: Vec<f64>,
    /// Bytes that the mechanisms held at the end of the interval, all places together.
    pub held_bytes: Vec<f64>,
    /// Bytes in the router's downlink queue at the end of the interval.
    pub queue_bytes: Vec<f64>,
}

/// One silence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SilenceRecord {
    /// Start, s.
    pub start_s: f64,
    /// End, s; the end of the run if the silence outlasted it.
    pub end_s: f64,
    /// Why the radio was silent.
    pub cause: Cause,
    /// Who was silent: the network or one station.
    pub scope: Scope,
}

/// The cause's name in Parquet and reports.
#[must_use]
pub const fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Sensing => "sensing",
        Cause::PrimaryUser => "primary_user",
        Cause::ChannelSwitch => "channel_switch",
        Cause::Fade => "fade",
        Cause::Grant => "grant",
    }
}
