//! Congestion control: how cwnd grows per ACK, and what a congestion event leaves of it. One file per
//! algorithm.
//!
//! The sender owns cwnd and ssthresh ([`Window`]) and decides *when*; an algorithm decides *how much*.
//! Dispatch is by enum, so a copy is cheap: undo restores the algorithm with the window (RFC 9438 section
//! 4.9.2).

mod bbr;
mod cubic;
mod hystart;
mod reno;
mod tp_crahn;
mod vegas;
mod window;

use linkhold_core::time::{Duration, Instant};

use crate::config;
pub(crate) use bbr::{Bbr, ModelAck, Repair, Totals};
pub(crate) use cubic::Cubic;
pub(crate) use reno::Reno;
pub(crate) use tp_crahn::{TpCrahn, shifted};
pub(crate) use vegas::Vegas;
pub(crate) use window::{AckSample, Window};

/// The algorithm and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Controller {
    Reno(Reno),
    Vegas(Vegas),
    Cubic(Cubic),
    TpCrahn(TpCrahn),
    /// cwnd is [`Bbr`]'s, a model that the sender keeps: undo does not take it back.
    Bbr,
}

impl Controller {
    pub fn new(config: &config::TcpConfig) -> Self {
        match config.congestion {
            config::Congestion::Reno => Self::Reno(Reno::default()),
            config::Congestion::Vegas => Self::Vegas(Vegas::default()),
            config::Congestion::Cubic => {
                Self::Cubic(Cubic::new(config.hystart, config.details, config.cubic_counts_idle))
            }
            config::Congestion::TpCrahn => Self::TpCrahn(TpCrahn::default()),
            config::Congestion::Bbr => Self::Bbr,
        }
    }

    /// An ACK told an RTT, whatever the sender's state.
    #[inline]
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        match self {
            Self::Reno(_) | Self::Vegas(_) | Self::TpCrahn(_) | Self::Bbr => {}
            Self::Cubic(cubic) => cubic.on_rtt(now, rtt),
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
            Self::Bbr => {}
        }
    }

    /// Congestion: the new ssthresh, from `basis` (cwnd or FlightSize).
    pub fn on_congestion(&mut self, window: &Window, basis: u64) -> u64 {
        match self {
            Self::Reno(reno) => reno.on_congestion(window, basis),
            Self::Vegas(vegas) => vegas.on_congestion(window, basis),
            Self::Cubic(cubic) => cubic.on_congestion(window, basis),
            Self::TpCrahn(tp_crahn) => tp_crahn.on_congestion(window, basis),
            Self::Bbr => window.ssthresh,
        }
    }

    /// A retransmission timeout, after `on_congestion` and with cwnd set to the loss window.
    pub fn on_timeout(&mut self) {
        match self {
            Self::Reno(reno) => reno.on_timeout(),
            Self::Vegas(vegas) => vegas.on_timeout(),
            Self::Cubic(cubic) => cubic.on_timeout(),
            Self::TpCrahn(tp_crahn) => tp_crahn.on_timeout(),
            Self::Bbr => {}
        }
    }

    /// The sender starts to send with nothing in flight, `quiet` after its last segment.
    pub fn on_transmit_start(&mut self, quiet: Duration) {
        match self {
            Self::Reno(_) | Self::Vegas(_) | Self::TpCrahn(_) | Self::Bbr => {}
            Self::Cubic(cubic) => cubic.on_transmit_start(quiet),
        }
    }

    /// The sender was stopped for `quiet`.
    pub fn on_quiet(&mut self, quiet: Duration) {
        match self {
            Self::Reno(_) | Self::Vegas(_) | Self::TpCrahn(_) | Self::Bbr => {}
            Self::Cubic(cubic) => cubic.on_quiet(quiet),
        }
    }
}
