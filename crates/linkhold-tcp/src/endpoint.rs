//! One end of a connection: handshake, both directions' data, FIN.

use linkhold_core::packet::{Ecn, TcpSegment};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;

use crate::config::TcpConfig;
use crate::source::Source;
use crate::stats::Stats;

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The segment.
    pub segment: TcpSegment,
    /// The IP header's ECN field.
    pub ecn: Ecn,
    /// True if it repeats data sent before.
    pub retransmit: bool,
}

/// One end of a TCP connection. The calling contract stands in the crate's documentation.
#[derive(Clone, Debug)]
pub struct Endpoint {
    stats: Stats,
}

impl Endpoint {
    /// Active open: the first `poll_transmit` gives the SYN. `iss` is the initial sequence number.
    #[must_use]
    pub fn connect(_config: &TcpConfig, _source: Source, _iss: Seq) -> Self {
        Self { stats: Stats::default() }
    }
    /// Passive open: waits for a SYN.
    #[must_use]
    pub fn listen(_config: &TcpConfig, _source: Source, _iss: Seq) -> Self {
        Self { stats: Stats::default() }
    }
    /// A segment arrived; `ecn` is its IP header's ECN field.
    pub fn on_segment(&mut self, _now: Instant, _segment: &TcpSegment, _ecn: Ecn) {}
    /// The next segment to send now, if any.
    pub fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit> {
        None
    }
    /// When `on_timeout` is due, if ever.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }
    /// Time has come to `now`.
    pub fn on_timeout(&mut self, _now: Instant) {}
    /// Stops the sending direction: cwnd, ssthresh, RTT estimate and RTO stay as they are, timers stand still.
    pub fn freeze(&mut self, _now: Instant) {}
    /// Goes on from the frozen state.
    pub fn thaw(&mut self, _now: Instant) {}
    /// Application bytes received in order so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        0
    }
    /// Application bytes sent and cumulatively acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        0
    }
    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Congestion window, bytes.
    #[must_use]
    pub fn cwnd_bytes(&self) -> u64 {
        0
    }
    /// Slow start threshold, bytes; `u64::MAX` before the first reduction.
    #[must_use]
    pub fn ssthresh_bytes(&self) -> u64 {
        0
    }
    /// Smoothed round-trip time, once measured.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        None
    }
    /// Retransmission timeout now, backoff included.
    #[must_use]
    pub fn rto(&self) -> Duration {
        Duration::ZERO
    }
    /// Bytes sent and neither acknowledged nor taken for lost (RFC 6675 pipe).
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        0
    }
    /// The peer's window, bytes, as last accepted.
    #[must_use]
    pub fn send_window_bytes(&self) -> u64 {
        0
    }
    /// True once the handshake is done.
    #[must_use]
    pub fn is_established(&self) -> bool {
        false
    }
    /// True once both FINs are sent, received and acknowledged, or the peer reset the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        false
    }
}
