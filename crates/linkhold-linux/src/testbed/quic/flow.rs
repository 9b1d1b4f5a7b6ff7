//! A QUIC flow: what is to be started, and what its ends tell of it.

use std::time::Duration;

use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::Instant;

use super::super::topology::Family;
use super::counting::Counts;

/// Port of the first QUIC flow, at both of its ends; each flow has one of its own.
pub const QUIC_PORT: u16 = 21_001;

/// What an application had read at a time: when, and how many bytes in all.
pub type Read = (Instant, u64);

/// A QUIC flow to start.
#[derive(Clone, Debug)]
pub struct QuicFlow {
    /// Number of its group in the scenario.
    pub group: usize,
    /// The station, which is the client.
    pub station: u32,
    /// Which way the data goes.
    pub direction: Direction,
    /// How much data there is; `None`: as much as QUIC takes.
    pub bytes: Option<u64>,
    /// Payload of a full datagram, bytes.
    pub datagram: u16,
    /// When it begins, after the start of the run.
    pub start: Duration,
    /// When its application stops, after the start of the run; `None`: with the run.
    pub stop: Option<Duration>,
    /// Internet protocol.
    pub family: Family,
}

/// The sender at one time.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// When.
    pub at: Instant,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Smoothed round trip.
    pub rtt: Duration,
}

/// What the ends of a flow tell when the run is over.
#[derive(Clone, Debug)]
pub struct QuicEnd {
    /// The flow.
    pub flow: QuicFlow,
    /// Its ends.
    pub key: FlowKey,
    /// What the receiver's application had read, in the order of time.
    pub reads: Vec<Read>,
    /// When all of a flow that has an end had been read.
    pub done: Option<Instant>,
    /// The sender over time.
    pub looks: Vec<Look>,
    /// What the sender had counted by the end of the warm-up, and in all.
    pub counts: [Counts; 2],
}
