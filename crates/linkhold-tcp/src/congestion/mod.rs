//! Congestion control: how cwnd grows per ACK, and what a congestion event leaves of it. One file per
//! algorithm.
//!
//! The sender owns cwnd and ssthresh ([`Window`]) and decides *when*; an algorithm decides *how much*.
//! Dispatch is by enum, so a copy is cheap: undo restores the algorithm with the window (RFC 9438 section
//! 4.9.2).

mod cubic;
mod hystart;
mod reno;
mod tp_crahn;
mod vegas;

use linkhold_core::time::{Duration, Instant};

use crate::config;
pub(crate) use cubic::Cubic;
pub(crate) use reno::Reno;
pub(crate) use tp_crahn::{TpCrahn, shifted};
pub(crate) use vegas::Vegas;

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

/// The algorithm and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Controller {
    Reno(Reno),
    Vegas(Vegas),
    Cubic(Cubic),
    TpCrahn(TpCrahn),
}

impl Controller {
    pub fn new(kind: config::Congestion, hystart: bool, details: config::Details) -> Self {
        match kind {
            config::Congestion::Reno => Self::Reno(Reno::default()),
            config::Congestion::Vegas => Self::Vegas(Vegas::default()),
            config::Congestion::Cubic => Self::Cubic(Cubic::new(hystart, details)),
            config::Congestion::TpCrahn => Self::TpCrahn(TpCrahn::default()),
        }
    }

    /// New data was acknowledged outside fast recovery.
    #[inline]
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        match self {
            Self::Reno(reno) => reno.on_ack(window, ack),
            Self::Vegas(vegas) => vegas.on_ack(window, ack),
            Self::Cubic(cubic) => cubic.on_ack(window, ack),
            Self::TpCrahn(tp_crahn) => tp_crahn.on_ack(window, ack),
        }
    }

    /// Congestion: the new ssthresh, from `basis` (cwnd or FlightSize).
    pub fn on_congestion(&mut self, window: &Window, basis: u64) -> u64 {
        match self {
            Self::Reno(reno) => reno.on_congestion(window, basis),
            Self::Vegas(vegas) => vegas.on_congestion(window, basis),
            Self::Cubic(cubic) => cubic.on_congestion(window, basis),
            Self::TpCrahn(tp_crahn) => tp_crahn.on_congestion(window, basis),
        }
    }

    /// A retransmission timeout, after `on_congestion` and with cwnd set to the loss window.
    pub fn on_timeout(&mut self) {
        match self {
            Self::Reno(reno) => reno.on_timeout(),
            Self::Vegas(vegas) => vegas.on_timeout(),
            Self::Cubic(cubic) => cubic.on_timeout(),
            Self::TpCrahn(tp_crahn) => tp_crahn.on_timeout(),
        }
    }

    /// The sender starts to send with nothing in flight, `quiet` after its last segment.
    pub fn on_transmit_start(&mut self, quiet: Duration) {
        match self {
            Self::Reno(_) | Self::Vegas(_) | Self::TpCrahn(_) => {}
            Self::Cubic(cubic) => cubic.on_transmit_start(quiet),
        }
    }

    /// The sender was stopped for `quiet`.
    pub fn on_quiet(&mut self, quiet: Duration) {
        match self {
            Self::Reno(_) | Self::Vegas(_) | Self::TpCrahn(_) => {}
            Self::Cubic(cubic) => cubic.on_quiet(quiet),
        }
    }
}
