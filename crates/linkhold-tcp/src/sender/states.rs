//! The sender's congestion states: what an ACK does in each, entering and leaving them, and undo.
//!
//! Source: RFC 5681, 6582, 6675, 8985, 5682, 3522/4015, 3168; the order of steps is that of Linux
//! `tcp_fastretrans_alert`. The states and their arrows stand at [`CaState`].

use linkhold_core::time::Instant;

use super::ack::Step;
use super::{Due, Order, Reduction, Sender, Timer};
use crate::config::{AckCounting, SpuriousResponse, WindowReduction};
use crate::congestion::{AckSample, Window};
use crate::recovery::frto::{FrtoVerdict, LossAck};
use crate::recovery::rack::Detected;
use crate::recovery::undo::{Cause, Undo};
use crate::recovery::{CaState, Evidence, Partial};
use crate::stats::Stats;

impl Sender {
    /// The congestion state machine, then the window.
    pub(super) fn alert(&mut self, step: &mut Step<'_>, ece: bool, stats: &mut Stats) {
        let mut grow = step.acked > 0;
        if let Some(rtt) = step.rtt {
            self.controller.on_rtt(step.now, rtt);
        }
        if self.una >= self.high_seq {
            match self.state {
                CaState::Open | CaState::Loss => {}
                // RFC 3168 section 6.1.3: echoes go on until CWR arrives, which rides on the segment at
                // high_seq. Up to there an echo is that of the mark that was answered (Linux
                // tcp_fastretrans_alert holds the state alike).
                CaState::Cwr if self.una == self.high_seq => {}
                CaState::Cwr => self.leave_reduction(),
                CaState::Recovery => {
                    self.leave_recovery(step, stats);
                    grow = false;
                }
            }
        }
        match self.state {
            CaState::Open | CaState::Cwr => {
                if self.cfg.dsack_undo && self.undo.dsacks_prove() {
                    // The episode is over, and its last D-SACK is here (Linux tcp_try_undo_dsack).
                    self.restore(stats);
                }
                if ece && self.ecn_ok && self.state == CaState::Open {
                    // RFC 3168 section 6.1.2: react once per window of data.
                    self.begin_reduction();
                    if self.reduction == Reduction::Conserving {
                        // Linux `tcp_enter_cwr`: as in a recovery, the window comes down as data is
                        // delivered.
                        self.prr.begin(self.window.cwnd);
                    } else {
                        self.reduce_to(self.window.ssthresh);
                    }
                    stats.ecn_reductions += 1;
                    grow = false;
                }
                self.detect_losses(step, stats);
            }
            CaState::Recovery => self.in_recovery(step, stats),
            CaState::Loss => self.in_loss(step, stats),
        }
        let delivered = step.summary.delivered;
        match (self.state, self.reduction) {
            (CaState::Recovery, Reduction::Proportional) => {
                let (pipe, Window { ssthresh, mss, .. }) = (self.pipe(), self.window);
                self.window.cwnd = self.prr.on_ack(delivered, pipe, ssthresh, mss).max(mss);
            }
            (CaState::Recovery | CaState::Cwr, Reduction::Conserving) if delivered > 0 => {
                let clean = step.acked > 0 && self.board.losses() == step.losses;
                self.reduce_proportionally(delivered, clean);
            }
            (CaState::Recovery | CaState::Cwr, _) => {}
            (CaState::Open | CaState::Loss, _) if grow => self.grow(step),
            (CaState::Open | CaState::Loss, _) => {}
        }
    }

    fn grow(&mut self, step: &Step<'_>) {
        let counted = match self.cfg.ack_counting {
            AckCounting::Bytes => step.summary.delivered,
            AckCounting::PerAck => step.acked.min(self.window.mss),
        };
        let sample = AckSample {
            now: step.now,
            acked: counted,
            rtt: step.rtt,
            srtt: self.rtt.srtt(),
            una: self.una,
            nxt: self.nxt,
            cwnd_limited: self.usage.cwnd_limited(&self.window),
        };
        self.controller.on_ack(&mut self.window, &sample);
    }

    /// Linux `tcp_cwnd_reduction`.
    pub(super) fn reduce_proportionally(&mut self, delivered: u64, advanced_clean: bool) {
        let (pipe, ssthresh, mss) = (self.pipe(), self.window.ssthresh, self.window.mss);
        self.window.cwnd = self.prr.on_ack_linux(delivered, advanced_clean, pipe, ssthresh, mss).max(mss);
    }

    /// What an undo will bring back.
    fn window_to_restore(&self) -> Window {
        let mut window = self.window;
        if self.quirks.remembers_three_quarters() {
            window.ssthresh = self.current_ssthresh();
        }
        window
    }

    /// Linux `tcp_current_ssthresh`: of a window beyond ssthresh, 3/4 is what it was good for, except during
    /// a reduction.
    pub(super) fn current_ssthresh(&self) -> u64 {
        let Window { cwnd, ssthresh, .. } = self.window;
        match self.state {
            CaState::Cwr | CaState::Recovery => ssthresh,
            CaState::Open | CaState::Loss => ssthresh.max(cwnd / 4 * 3),
        }
    }

    /// A reduction begins: remembers what it would take to take it back. D-SACKs of retransmissions that are
    /// out already may still come (Linux `tcp_init_undo`).
    pub(super) fn arm_undo(&mut self, cause: Cause) {
        let before = self.window_to_restore();
        let retransmissions = self.board.retrans_segments();
        if self.quirks.episode_keeps_first_retransmission(self.state) {
            self.undo.arm_again(cause, self.una, before, self.controller, retransmissions);
        } else {
            self.undo.arm(cause, self.una, before, self.controller, retransmissions);
        }
    }

    /// A congestion state sets cwnd, unless that is a model's.
    fn reduce_to(&mut self, cwnd: u64) {
        if self.reduction != Reduction::ByModel {
            self.window.cwnd = cwnd;
        }
    }

    /// One multiplicative decrease without retransmission.
    #[cold]
    pub(super) fn reduce_once(&mut self) {
        self.begin_reduction();
        self.reduce_to(self.window.ssthresh);
    }

    /// A decrease without retransmission begins: ssthresh is what cwnd comes down to, and the state is Cwr
    /// until this window of data is acknowledged.
    #[cold]
    fn begin_reduction(&mut self) {
        let basis = self.reduction_basis();
        self.window.ssthresh = self.new_ssthresh(basis);
        self.high_seq = self.nxt;
        self.state = CaState::Cwr;
        self.undo = Undo::NONE;
        self.cwr_due |= self.ecn_ok;
    }

    /// The window of data in which an echo was answered is acknowledged. What is left of a reduction by
    /// deliveries is done at once (Linux `tcp_end_cwnd_reduction`).
    #[cold]
    fn leave_reduction(&mut self) {
        if self.reduction == Reduction::Conserving {
            self.window.cwnd = self.window.ssthresh;
        }
        self.state = CaState::Open;
    }

    /// Looks for losses outside recovery, and enters it.
    #[inline]
    fn detect_losses(&mut self, step: &mut Step<'_>, stats: &mut Stats) {
        let evidence = Evidence {
            now: step.now,
            una: self.una,
            acked: step.acked,
            duplicate: step.duplicate,
            path: self.path(),
        };
        let detected = self.detector.detect(&mut self.board, &evidence);
        step.reordering_timer |= self.react_to_detection(step.now, detected, stats);
    }

    /// Enters recovery for losses, waits for reordering to show. True if the reordering timer is set.
    pub(super) fn react_to_detection(&mut self, now: Instant, detected: Detected, stats: &mut Stats) -> bool {
        let mut waits = false;
        if let Some(wait) = detected.wait
            && !self.board.is_empty()
        {
            let wait = wait + self.quirks.reordering_slack();
            self.timer = Timer::Reorder(now + wait.min(self.rtt.rto()));
            waits = true;
        }
        if detected.lost && matches!(self.state, CaState::Open | CaState::Cwr) {
            self.enter_recovery(now, stats);
        }
        waits
    }

    #[cold]
    pub(super) fn enter_recovery(&mut self, now: Instant, stats: &mut Stats) {
        stats.fast_recoveries += 1;
        let from_cwnd = self.quirks.reduction_conserves_packets();
        let reduced_from = if from_cwnd { self.window.cwnd } else { self.nxt - self.una };
        let reduced = self.una < self.high_seq || self.quirks.reduction_for_a_mark_covers_cwr();
        if self.state == CaState::Cwr && reduced {
            // Reduced for ECN in this window already.
            self.undo = Undo::NONE;
        } else {
            self.arm_undo(Cause::FastRecovery);
            let basis = self.reduction_basis();
            self.window.ssthresh = self.new_ssthresh(basis);
        }
        // A reduction by deliveries that is under way goes on (Linux `tcp_enter_recovery`).
        let goes_on = self.state == CaState::Cwr && reduced && self.reduction == Reduction::Conserving;
        if !goes_on {
            self.prr.begin(reduced_from);
        }
        if self.reduction == Reduction::AtOnce {
            self.window.cwnd = self.window.ssthresh;
        }
        self.state = CaState::Recovery;
        stats.timeouts_undecided = 0;
        self.high_seq = self.nxt;
        self.order = Order::LostAtOnce;
        self.tlp.reset();
        self.drop_tail_probe();
        self.frto.stop();
        self.cwr_due |= self.ecn_ok;
        self.detector.enter(&mut self.board, self.window.mss, self.nxt);
        if matches!(self.timer, Timer::LossProbe(_)) {
            self.timer = Timer::Retransmit(now + self.rtt.rto());
        }
    }

    /// Recovery or the loss state begins: what was to be probed for is known.
    pub(super) fn drop_tail_probe(&mut self) {
        if self.due == Due::TailProbe {
            self.due = Due::Nothing;
        }
    }

    /// RecoveryPoint is acknowledged.
    #[cold]
    fn leave_recovery(&mut self, step: &Step<'_>, stats: &mut Stats) {
        if self.may_undo(step.echo) {
            self.take_back(stats);
            return;
        }
        let Window { ssthresh, mss, .. } = self.window;
        let cwnd = self.detector.leave(ssthresh, self.nxt - self.una, mss);
        self.reduce_to(cwnd);
        self.state = CaState::Open;
        self.order = Order::LostFirst;
        self.rearm(step.now);
    }

    #[cold]
    fn in_recovery(&mut self, step: &mut Step<'_>, stats: &mut Stats) {
        if step.acked > 0 && self.cfg.timestamp_undo && self.undo.timestamp_proves(step.echo) {
            // Linux tcp_try_undo_partial: the hole was filled by the delayed original.
            let reordering = self.quirks.partial_undo_is_reordering();
            if reordering {
                self.detector.on_reordering();
            }
            if self.board.retrans_segments() == 0 {
                self.take_back(stats);
                if reordering {
                    self.detect_losses(step, stats);
                } else {
                    // RFC 6298 (5.3): without a recovery this was an ACK of new data like any other.
                    self.rearm(step.now);
                }
                return;
            }
            if reordering {
                return;
            }
        }
        if self.quirks.dsacks_end_recovery() && self.cfg.dsack_undo && self.undo.dsacks_prove() {
            // Linux tcp_try_undo_dsack: the losses that are left are found anew below.
            self.restore(stats);
            self.state = CaState::Open;
            self.order = Order::LostFirst;
        }
        match self.detector.on_partial(step.acked, step.duplicate, self.window.mss) {
            Partial::Stay => {}
            Partial::Leave => {
                self.reduce_to(self.window.ssthresh);
                self.state = CaState::Open;
                self.board.unmark_lost();
            }
            Partial::NextHole { restart_timer } => {
                if let Some(head) = self.board.front_id()
                    && self.board.mark_lost(head)
                {
                    self.order = Order::LostAtOnce;
                }
                if restart_timer {
                    self.timer = Timer::Retransmit(step.now + self.rtt.rto());
                }
            }
            Partial::Detect => self.detect_losses(step, stats),
        }
    }

    #[cold]
    fn in_loss(&mut self, step: &mut Step<'_>, stats: &mut Stats) {
        self.process_loss(step, stats);
        if !self.quirks.loss_state_may_recover() {
            return;
        }
        // Linux tcp_fastretrans_alert: losses that the undo did not take back, and retransmissions lost
        // again, lead to recovery at once.
        let retransmissions = self.board.retrans_segments();
        self.detect_losses(step, stats);
        if self.state == CaState::Loss && self.board.retrans_segments() < retransmissions {
            self.enter_recovery(step.now, stats);
        }
    }

    /// Linux `tcp_process_loss`.
    fn process_loss(&mut self, step: &mut Step<'_>, stats: &mut Stats) {
        let recovered = self.una >= self.high_seq;
        let frto_first = self.cfg.spurious_response == SpuriousResponse::Decrease && self.frto.is_deciding();
        if step.acked > 0 && !frto_first && self.may_undo(step.echo) {
            self.take_back(stats);
            return;
        }
        if self.order == Order::NewFirst {
            self.order = Order::LostFirst;
        }
        let verdict = self.frto.on_ack(&LossAck {
            advanced: step.acked > 0,
            original_delivered: step.summary.original_delivered,
            duplicate: step.duplicate,
            recovered,
            new_data_sent: self.nxt > self.high_seq,
            can_send_new: self.sendable(step.now) > 0,
        });
        match verdict {
            FrtoVerdict::Spurious => {
                match self.cfg.spurious_response {
                    SpuriousResponse::Undo => self.take_back(stats),
                    SpuriousResponse::Decrease => self.decrease_instead(stats),
                }
                return;
            }
            FrtoVerdict::SendNew => {
                // RFC 5682 section 2.1 step 2.b; what is acknowledged from here on counts against the new
                // mark.
                self.high_seq = self.nxt;
                self.order = Order::NewFirst;
                return;
            }
            FrtoVerdict::Real => {}
        }
        if recovered {
            if self.quirks.last_ack_may_undo_loss() && self.may_undo(step.echo) {
                self.take_back(stats);
                return;
            }
            self.state = CaState::Open;
            stats.timeouts_undecided = 0;
            self.frto.stop();
            self.order = Order::LostFirst;
            self.detector.leave_loss();
            self.rearm(step.now);
            return;
        }
        if self.detector.hears_in_loss() && !self.quirks.loss_state_may_recover() {
            self.detect_losses(step, stats);
        }
    }

    fn may_undo(&self, echo: Option<u32>) -> bool {
        (self.cfg.timestamp_undo && self.undo.timestamp_proves(echo))
            || (self.cfg.dsack_undo && self.undo.dsacks_prove())
    }

    #[cold]
    fn restore(&mut self, stats: &mut Stats) {
        let cwnd = self.window.cwnd;
        let cause = if self.quirks.undo_leaves_controller() {
            self.undo.restore_window(&mut self.window)
        } else {
            self.undo.restore(&mut self.window, &mut self.controller)
        };
        count_spurious(cause, stats);
        self.model_undoes(cwnd);
    }

    /// The timeout was needless: one ordinary decrease stands in for it.
    fn decrease_instead(&mut self, stats: &mut Stats) {
        let from_cwnd = self.cfg.window_reduction == WindowReduction::FromCwnd;
        let (flight, cwnd) = (self.nxt - self.una, self.window.cwnd);
        let cause = self.undo.decrease_instead(&mut self.window, &mut self.controller, |before| {
            if from_cwnd { before.cwnd } else { flight.min(before.cwnd) }
        });
        count_spurious(cause, stats);
        self.model_undoes(cwnd);
        // Disarmed, so that this only leaves the loss state.
        self.take_back(stats);
    }

    /// The reduction was needless: back to the window before it.
    #[cold]
    fn take_back(&mut self, stats: &mut Stats) {
        self.restore(stats);
        self.board.unmark_lost();
        self.detector.take_back();
        self.frto.stop();
        self.order = Order::LostFirst;
        self.state = CaState::Open;
        stats.timeouts_undecided = 0;
        self.timeouts = 0;
        if !self.quirks.undo_leaves_backoff() {
            self.rtt.reset_backoff();
        }
    }
}

fn count_spurious(cause: Option<Cause>, stats: &mut Stats) {
    match cause {
        None => {}
        Some(Cause::Timeout) => stats.spurious_rtos += 1,
        Some(Cause::FastRecovery) => stats.spurious_recoveries += 1,
    }
}
