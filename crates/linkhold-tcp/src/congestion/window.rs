//! What an algorithm works on: the window, and an ACK.

use linkhold_core::time::{Duration, Instant};

/// cwnd and ssthresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes.
    pub ssthresh: u64,
    /// Payload bytes of a full segment.
    pub mss: u64,
}

impl Window {
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// An ACK of new data, as the algorithms see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    pub now: Instant,
    /// Bytes that count for growth (already limited where `AckCounting::PerAck`).
    pub acked: u64,
    /// RTT of the youngest segment it acknowledges, if unambiguous.
    pub rtt: Option<Duration>,
    pub srtt: Option<Duration>,
    /// SND.UNA and SND.NXT after it.
    pub una: u64,
    pub nxt: u64,
    /// False when something other than cwnd kept the sender from sending more.
    pub cwnd_limited: bool,
}
