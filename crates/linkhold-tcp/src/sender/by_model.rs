//! A sender whose cwnd and pace come from a model of the path (BBR): what the model is told, and what it
//! holds up.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00 and Linux (`tcp_cong_control`, `tcp_pacing_check`,
//! `tcp_rate_check_app_limited`). The congestion states stay the sender's; none of them moves cwnd, save that
//! a timeout leaves one segment more than is in flight (`tcp_enter_loss`). Pacing holds up new data and
//! retransmissions, but no probe and not what a timeout sends again at once.

use linkhold_core::time::Instant;

use super::ack::Step;
use super::{Order, Sender};
use crate::congestion::{ModelAck, Repair};
use crate::recovery::CaState;

impl Sender {
    /// ssthresh after congestion. The model remembers cwnd, which it brings back itself.
    pub(super) fn new_ssthresh(&mut self, basis: u64) -> u64 {
        if let Some(model) = &mut self.model {
            model.bbr.save_window(&self.window);
        }
        self.controller.on_congestion(&self.window, basis)
    }

    /// A reduction is undone; `cwnd` is from before that. The model sets cwnd itself.
    pub(super) fn model_undoes(&mut self, cwnd: u64) {
        if let Some(model) = &mut self.model {
            self.window.cwnd = cwnd;
            model.bbr.on_undo();
        }
    }

    /// A timeout has begun the loss state.
    pub(super) fn model_hears_timeout(&mut self, now: Instant) {
        if let Some(model) = &mut self.model {
            let lost = self.board.losses() * self.window.mss;
            model.bbr.on_timeout(model.totals(lost), now);
        }
    }

    /// Bytes in flight, for a model that takes the next ACK in. `None` if there is none, or if nothing is out
    /// that an ACK could tell of.
    #[inline]
    pub(super) fn flight_for_model(&self) -> Option<u64> {
        if self.model.is_none() || self.board.is_empty() { None } else { Some(self.pipe()) }
    }

    /// Lets the model set cwnd and the pace after an ACK (Linux `tcp_rate_gen`, `tcp_cong_control`).
    pub(super) fn ask_model(&mut self, step: &Step<'_>, flight_before: u64) {
        let flight = self.pipe();
        let mss = self.window.mss;
        let Some(model) = &mut self.model else { return };
        let sample = model.rate.on_ack(step.now, step.summary, self.rtt.min_rtt());
        let in_order = matches!(self.state, CaState::Open | CaState::Cwr);
        let ack = ModelAck {
            now: step.now,
            acked: step.summary.delivered,
            lost: (self.board.losses() - step.losses) * mss,
            totals: model.totals(self.board.losses() * mss),
            rtt: step.rtt,
            may_be_delayed: in_order
                && (1..mss).contains(&step.acked)
                && sample.is_some_and(|sample| sample.delivered == step.acked),
            sample,
            flight_before,
            flight,
            repair: match self.state {
                CaState::Open | CaState::Cwr => Repair::Nothing,
                CaState::Recovery => Repair::Recovery,
                CaState::Loss => Repair::Loss,
            },
            departure: model.pacer.departure(),
        };
        if model.bbr.on_ack(&mut self.window, &ack) {
            model.rate.limit_by_application(flight.max(1));
        }
    }

    /// New data is about to be sent.
    pub(super) fn model_hears_new_data(&mut self, now: Instant) {
        let flight = self.pipe();
        let Some(model) = &mut self.model else { return };
        if core::mem::replace(&mut model.ran_out, false) {
            model.rate.limit_by_application(flight.max(1));
        }
        if flight == 0 && model.rate.is_app_limited() {
            model.bbr.on_restart(now, &mut self.window);
        }
    }

    /// Segment `id` of `bytes` has been sent, first or again.
    pub(super) fn model_hears_segment(&mut self, now: Instant, id: u32, bytes: u64, begins_flight: bool) {
        let first = self.board.front_id().unwrap_or(id);
        if let Some(model) = &mut self.model {
            model.rate.on_sent(now, id, first, begins_flight);
            model.pacer.on_sent(now, bytes, model.bbr.pacing_rate());
        }
    }

    /// Everything that may go has gone.
    pub(super) fn model_hears_that_all_went(&mut self, now: Instant) {
        let few = self.limit(now).saturating_sub(self.nxt) < self.window.mss;
        let room = self.pipe() < self.window.cwnd;
        let nothing_lost = self.board.none_waits();
        if let Some(model) = &mut self.model {
            model.ran_out = few && room && nothing_lost;
        }
    }

    /// True if the pace holds up what could be sent now.
    pub(super) fn waits_for_pace(&mut self, now: Instant) -> bool {
        let at_once = self.state == CaState::Loss && self.order == Order::LostAtOnce;
        let something = !self.board.none_waits() || self.sendable(now) > 0;
        let mss = self.window.mss;
        let Some(model) = &mut self.model else { return false };
        let burst = model.bbr.burst(mss);
        let waits = something && !at_once && !model.pacer.may_send(now, burst);
        model.held_until = waits.then(|| model.pacer.departure());
        waits
    }

    /// True if the last look for something to send ended at the pace.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.model.as_ref().is_some_and(|model| model.held_until.is_some())
    }
}
