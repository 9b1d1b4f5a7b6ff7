//! What a sender keeps whose cwnd and pace come from a model of the path (BBR). `sender/by_model.rs` has what
//! the sender does with it.

use linkhold_core::time::{Duration, Instant};

use crate::congestion::{Bbr, Totals, Window};
use crate::delivery_rate::DeliveryRate;
use crate::pacing::Pacer;
use crate::scoreboard::AckSummary;

/// The model, and what measures and paces for it.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub bbr: Bbr,
    pub rate: DeliveryRate,
    pub pacer: Pacer,
    /// All that the application has written went, and the window had room for more.
    pub ran_out: bool,
    /// Something could be sent, but for the pace.
    pub held_until: Option<Instant>,
}

impl Model {
    pub fn new(now: Instant, window: &mut Window, seed: u64) -> Self {
        Self {
            bbr: Bbr::new(now, window, seed),
            rate: DeliveryRate::new(now),
            pacer: Pacer::new(),
            ran_out: false,
            held_until: None,
        }
    }

    /// The connection's totals, of which `lost` bytes were taken for lost.
    pub fn totals(&self, lost: u64) -> Totals {
        Totals { delivered: self.rate.delivered(), delivered_at: self.rate.delivered_at(), lost }
    }

    /// The handshake's RTT.
    pub fn on_handshake(&mut self, now: Instant, window: &Window, rtt: Duration) {
        self.bbr.on_handshake(now, window, rtt);
    }

    /// An ACK while the sender is frozen.
    pub fn on_frozen_ack(&mut self, summary: &AckSummary) {
        self.rate.on_frozen_ack(summary);
    }

    /// The sender's clock stood still for `by`, until `now`. The pace holds nothing up then: what is sent
    /// again goes at once (cr-aware section 3).
    pub fn wake(&mut self, now: Instant, by: Duration) {
        self.bbr.shift_times(by);
        self.rate.shift_times(by);
        self.pacer.restart(now);
    }
}
