//! What an ACK does to the sender.
//!
//! Source: RFC 9293 section 3.10.7.4, RFC 5681, 6582, 6675, 8985, 5682, 3522/4015, 3168; the order of steps is that of
//! Linux `tcp_ack` and `tcp_fastretrans_alert`.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;

use super::{Sender, Timer};
use crate::config::{AckCounting, SpuriousResponse, WindowReduction};
use crate::congestion::{AckSample, Window};
use crate::recovery::frto::{FrtoVerdict, LossAck};
use crate::recovery::newreno::NewReno;
use crate::recovery::rack::{Detected, Rack};
use crate::recovery::undo::{Cause, Undo};
use crate::recovery::{CaState, Detector};
use crate::scoreboard::AckSummary;
use crate::stats::Stats;

/// An acceptable segment's acknowledgment, as offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckIn {
    /// SEG.SEQ.
    pub seq: Seq,
    /// Cumulative acknowledgment.
    pub ack: u64,
    /// Scaled window, bytes.
    pub window: u64,
    /// TSecr.
    pub echo: Option<u32>,
    /// SACK blocks above `ack`.
    pub blocks: [(u64, u64); 4],
    /// D-SACK block (RFC 2883).
    pub dsack: Option<(u64, u64)>,
    /// The segment carries nothing but the acknowledgment.
    pub bare: bool,
    /// ECN echo.
    pub ece: bool,
}

/// What the steps of one ACK tell each other.
struct Step<'a> {
    now: Instant,
    echo: Option<u32>,
    acked: u64,
    duplicate: bool,
    /// RTT of the youngest segment that it acknowledges or SACKs, if it tells one.
    rtt: Option<Duration>,
    /// Losses counted before it.
    losses: u64,
    summary: &'a AckSummary,
}

impl Sender {
    /// Takes an ACK in. `ts_now` is the timestamp clock. False if it acknowledges what was never sent.
    pub fn on_ack(&mut self, now: Instant, ts_now: u32, ack: &AckIn, stats: &mut Stats) -> bool {
        // A frozen sender's clock stands still.
        let now = self.frozen.unwrap_or(now);
        if ack.ack == self.nxt + 1 && self.byte_probed && self.board.is_empty() {
            // The receiver took the probe's byte: it was new data.
            self.board.push(self.nxt, self.nxt + 1, now);
            self.nxt += 1;
        }
        if ack.ack > self.nxt {
            return false;
        }
        let change = self.peer.update(ack.seq, ack.ack, ack.window);
        stats.zero_windows_in += u64::from(change.closed);
        if ack.ack < self.una {
            return true;
        }
        if ack.ack > self.una {
            self.byte_probed = false;
        }

        let mut summary = AckSummary {
            echo_before: ack.echo.and_then(|echo| sent_before(now, ts_now, echo)),
            ..AckSummary::default()
        };
        let losses = self.board.losses();
        self.reorder_armed = false;
        self.board.original_limit = self.high_seq;
        if self.sack_ok && ack.blocks[0] != (0, 0) {
            self.board.sack(&ack.blocks, &mut summary);
        }
        let acked = ack.ack - self.una;
        if acked > 0 {
            self.board.acknowledge(ack.ack, &mut summary);
            self.una = ack.ack;
            self.timeouts = 0;
            if !self.sack_ok && summary.retransmission_acked {
                // Without SACK an ACK over a retransmission may stand for it alone (Linux tcp_clean_rtx_queue).
                summary.original_delivered = false;
            }
        }
        // RFC 5681 section 2: outstanding data, no payload, no window change, the same acknowledgment number. With SACK
        // (RFC 6675 section 2): it SACKs something new.
        let duplicate = if self.sack_ok {
            summary.sacked > 0
        } else {
            acked == 0 && ack.bare && !change.changed && !self.board.is_empty()
        };
        stats.dup_acks_in += u64::from(duplicate && acked == 0);
        let rtt = self.take_rtt_sample(now, ts_now, ack, &summary, acked);

        if let Some((_, end)) = ack.dsack {
            self.undo.on_dsack(end);
            if let Detector::Rack(rack) = &mut self.detector {
                rack.on_dsack(self.una, self.nxt);
            }
        }
        if let Detector::Rack(rack) = &mut self.detector {
            if summary.reordered {
                rack.on_reordering();
            }
            if let Some(newest) = &summary.newest {
                rack.on_delivered(now, newest, self.rtt.min_rtt());
            }
        }
        // Linux tcp_clean_rtx_queue: SACKs of what was sent after the head do not put its timeout off.
        let sack_rearms = self.linux
            && self
                .board
                .front()
                .is_some_and(|head| summary.first_sacked_sent.is_some_and(|at| at < head.sent));
        if acked > 0 {
            self.peer.reset_probes();
            if !self.linux || self.frozen.is_some() {
                self.rearm(now);
            }
        }
        if change.opened && self.board.is_empty() {
            self.timer = Timer::Idle;
        }

        if self.frozen.is_some() {
            // What was lost or spurious is found at the first ACK after the thaw; until then nothing moves the window.
            return true;
        }
        let step = Step { now, echo: ack.echo, acked, duplicate, rtt, losses, summary: &summary };
        let bare_duplicate = acked == 0 && ack.bare && summary.sacked == 0;
        if self.tlp.on_ack(ack.ack, ack.dsack.is_some(), bare_duplicate) && self.state == CaState::Open {
            // RFC 8985 section 7.4.2: the probe repaired a loss; that is congestion.
            self.reduce_once();
            self.state = CaState::Open;
        }
        self.alert(&step, ack.ece, stats);
        if self.linux && (acked > 0 || sack_rearms) && !self.reorder_armed {
            // Linux tcp_ack: the timer is set for the state that this ACK leads to.
            self.rearm(now);
        }
        true
    }

    fn take_rtt_sample(
        &mut self,
        now: Instant,
        ts_now: u32,
        ack: &AckIn,
        summary: &AckSummary,
        acked: u64,
    ) -> Option<Duration> {
        if self.frozen.is_some() {
            return None;
        }
        let since = |sent: Option<Instant>| sent.map(|sent| now.since(sent));
        // RFC 6298 section 3, Karn: only segments sent once; RFC 7323 section 4.1 (RTTM): timestamps otherwise, and only
        // when new data is acknowledged.
        // Linux tcp_ack_update_rtt asks SACKed segments before timestamps.
        let sacked = if self.linux { since(summary.first_sacked_sent) } else { None };
        let rtt = if let Some(sent) = summary.first_sent {
            Some(now.since(sent))
        } else if sacked.is_some() {
            sacked
        } else if let (true, Some(echo)) = (acked > 0, ack.echo)
            && self.rtt_from_ts.is_none_or(|from| (echo.wrapping_sub(from) as i32) >= 0)
        {
            Some(Duration::from_millis(u64::from(ts_now.wrapping_sub(echo).max(1))))
        } else {
            summary.sacked_sent.map(|sent| now.since(sent))
        };
        if let Some(rtt) = rtt {
            self.rtt.sample(now, rtt, self.una, self.nxt);
            self.rtt.reset_backoff();
        }
        if self.linux {
            since(summary.sacked_sent).or(since(summary.last_sent)).or(rtt)
        } else {
            since(summary.last_sent)
        }
    }

    /// The congestion state machine, then the window.
    fn alert(&mut self, step: &Step<'_>, ece: bool, stats: &mut Stats) {
        let mut grow = step.acked > 0;
        if self.una >= self.high_seq {
            match self.state {
                CaState::Open | CaState::Loss => {}
                CaState::Cwr => self.state = CaState::Open,
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
                    self.reduce_once();
                    stats.ecn_reductions += 1;
                    grow = false;
                }
                self.detect_losses(step, stats);
            }
            CaState::Recovery => self.in_recovery(step, stats),
            CaState::Loss => self.in_loss(step, stats),
        }
        match self.state {
            CaState::Recovery => {
                if self.use_prr && self.linux {
                    if step.summary.delivered > 0 {
                        let clean = step.acked > 0 && self.board.losses() == step.losses;
                        self.reduce_proportionally(step.summary.delivered, clean);
                    }
                } else if self.use_prr {
                    let (pipe, ssthresh, mss) = (self.pipe(), self.window.ssthresh, self.window.mss);
                    self.window.cwnd = self.prr.on_ack(step.summary.delivered, pipe, ssthresh, mss).max(mss);
                }
            }
            CaState::Open | CaState::Loss if grow => self.grow(step),
            CaState::Open | CaState::Loss | CaState::Cwr => {}
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
            cwnd_limited: self.is_cwnd_limited(),
        };
        self.controller.on_ack(&mut self.window, &sample);
    }

    /// Linux `tcp_cwnd_reduction`.
    pub(super) fn reduce_proportionally(&mut self, delivered: u64, advanced_clean: bool) {
        let (pipe, ssthresh, mss) = (self.pipe(), self.window.ssthresh, self.window.mss);
        self.window.cwnd = self.prr.on_ack_linux(delivered, advanced_clean, pipe, ssthresh, mss).max(mss);
    }

    /// What an undo will bring back. Linux remembers of a window beyond ssthresh what it was good for, 3/4 of it
    /// (`tcp_current_ssthresh`).
    pub(super) fn window_to_restore(&self) -> Window {
        let mut window = self.window;
        if self.linux && !matches!(self.state, CaState::Cwr | CaState::Recovery) {
            window.ssthresh = window.ssthresh.max(window.cwnd / 4 * 3);
        }
        window
    }

    /// Retransmissions whose D-SACKs may still come (Linux `tcp_init_undo`).
    pub(super) fn retransmissions_out(&self) -> u32 {
        self.board.retrans_segments()
    }

    /// One multiplicative decrease without retransmission; state Cwr until this window of data is acknowledged.
    fn reduce_once(&mut self) {
        let basis = self.reduction_basis();
        self.window.ssthresh = self.controller.on_congestion(&self.window, basis);
        self.window.cwnd = self.window.ssthresh;
        self.high_seq = self.nxt;
        self.state = CaState::Cwr;
        self.undo = Undo::NONE;
        self.cwr_due |= self.ecn_ok;
    }

    /// Looks for losses outside recovery, and enters it.
    fn detect_losses(&mut self, step: &Step<'_>, stats: &mut Stats) {
        let path = self.path();
        let detected = match &mut self.detector {
            Detector::Reno(reno) => {
                if step.acked > 0 {
                    reno.reset();
                }
                Detected { lost: step.duplicate && reno.on_duplicate(), wait: None }
            }
            Detector::NewReno(newreno) => {
                if step.acked > 0 {
                    newreno.reno.reset();
                }
                let third = step.duplicate && newreno.reno.on_duplicate();
                Detected { lost: third && NewReno::may_enter(self.una, self.high_seq), wait: None }
            }
            Detector::Sack(sack) => {
                Detected { lost: sack.detect(&mut self.board, step.duplicate, step.acked > 0), wait: None }
            }
            Detector::Rack(rack) => rack.detect_on_ack(&mut self.board, step.now, path),
        };
        self.react_to_detection(step.now, detected, stats);
    }

    pub(super) fn react_to_detection(&mut self, now: Instant, detected: Detected, stats: &mut Stats) {
        if let Some(wait) = detected.wait
            && !self.board.is_empty()
        {
            let slack = if self.linux { Rack::TIMER_SLACK } else { Duration::ZERO };
            self.timer = Timer::Reorder(now + (wait + slack).min(self.rtt.rto()));
            self.reorder_armed = true;
        }
        if detected.lost && matches!(self.state, CaState::Open | CaState::Cwr) {
            self.enter_recovery(now, stats);
        }
    }

    pub(super) fn enter_recovery(&mut self, now: Instant, stats: &mut Stats) {
        stats.fast_recoveries += 1;
        let mss = self.window.mss;
        let reduced_from = if self.linux { self.window.cwnd } else { self.nxt - self.una };
        if self.state == CaState::Cwr {
            // Reduced for ECN in this window already.
            self.undo = Undo::NONE;
        } else {
            let (before, retransmissions) = (self.window_to_restore(), self.retransmissions_out());
            if self.linux && self.state == CaState::Loss {
                self.undo.arm_again(Cause::FastRecovery, self.una, before, self.controller, retransmissions);
            } else {
                self.undo.arm(Cause::FastRecovery, self.una, before, self.controller, retransmissions);
            }
            let basis = self.reduction_basis();
            self.window.ssthresh = self.controller.on_congestion(&self.window, basis);
        }
        self.prr.begin(reduced_from);
        if !self.use_prr {
            self.window.cwnd = self.window.ssthresh;
        }
        self.state = CaState::Recovery;
        self.high_seq = self.nxt;
        self.force = true;
        self.tlp.reset();
        self.tlp_due = false;
        self.frto.stop();
        self.prefer_new = false;
        self.cwr_due |= self.ecn_ok;
        let front = self.board.front_id();
        match &mut self.detector {
            Detector::Reno(reno) => {
                reno.enter(mss);
                front.map(|id| self.board.mark_lost(id));
            }
            Detector::NewReno(newreno) => {
                newreno.enter(mss);
                front.map(|id| self.board.mark_lost(id));
            }
            Detector::Sack(sack) => sack.enter(),
            Detector::Rack(_) => {}
        }
        if matches!(self.timer, Timer::LossProbe(_)) {
            self.timer = Timer::Retransmit(now + self.rtt.rto());
        }
    }

    /// RecoveryPoint is acknowledged.
    fn leave_recovery(&mut self, step: &Step<'_>, stats: &mut Stats) {
        let (flight, mss) = (self.nxt - self.una, self.window.mss);
        if self.may_undo(step.echo) {
            self.take_back(stats);
            return;
        }
        match &mut self.detector {
            Detector::Reno(reno) => {
                reno.reset();
                self.window.cwnd = self.window.ssthresh;
            }
            Detector::NewReno(newreno) => {
                newreno.reno.reset();
                self.window.cwnd = NewReno::window_after(self.window.ssthresh, flight, mss);
            }
            Detector::Sack(sack) => {
                sack.reset();
                self.window.cwnd = self.window.ssthresh;
            }
            Detector::Rack(rack) => {
                rack.on_recovery_exit();
                self.window.cwnd = self.window.ssthresh;
            }
        }
        self.state = CaState::Open;
        self.force = false;
        self.rearm(step.now);
    }

    fn in_recovery(&mut self, step: &Step<'_>, stats: &mut Stats) {
        let mss = self.window.mss;
        if step.acked > 0 && self.cfg.timestamp_undo && self.undo.timestamp_proves(step.echo) {
            // Linux tcp_try_undo_partial: the hole was filled by the delayed original.
            if self.linux
                && let Detector::Rack(rack) = &mut self.detector
            {
                rack.on_reordering();
            }
            if self.board.retrans_segments() == 0 {
                self.take_back(stats);
                if self.linux {
                    self.detect_losses(step, stats);
                }
                return;
            }
            if self.linux {
                return;
            }
        }
        if self.linux && self.cfg.dsack_undo && self.undo.dsacks_prove() {
            // Linux tcp_try_undo_dsack: the losses that are left are found anew below.
            self.restore(stats);
            self.state = CaState::Open;
            self.force = false;
        }
        match &mut self.detector {
            Detector::Reno(reno) => {
                if step.acked > 0 {
                    // RFC 5681 section 3.2 step 6: any ACK of new data ends fast recovery.
                    reno.reset();
                    self.window.cwnd = self.window.ssthresh;
                    self.state = CaState::Open;
                    self.board.unmark_lost();
                } else if step.duplicate {
                    reno.inflate(mss);
                }
            }
            Detector::NewReno(newreno) => {
                if step.acked > 0 {
                    // RFC 6582 section 3.2 step 3: a partial ACK; retransmit the first unacknowledged segment.
                    let restart = newreno.on_partial(step.acked, mss);
                    if let Some(id) = self.board.front_id() {
                        self.force |= self.board.mark_lost(id);
                    }
                    if restart {
                        self.timer = Timer::Retransmit(step.now + self.rtt.rto());
                    }
                } else if step.duplicate {
                    newreno.reno.inflate(mss);
                }
            }
            Detector::Sack(_) | Detector::Rack(_) => self.detect_losses(step, stats),
        }
    }

    fn in_loss(&mut self, step: &Step<'_>, stats: &mut Stats) {
        self.process_loss(step, stats);
        if !self.linux {
            return;
        }
        // Linux tcp_fastretrans_alert: losses that the undo did not take back, and retransmissions lost again, lead to recovery
        // at once.
        let retransmissions = self.board.retrans_segments();
        self.detect_losses(step, stats);
        if self.state == CaState::Loss && self.board.retrans_segments() < retransmissions {
            self.enter_recovery(step.now, stats);
        }
    }

    /// Linux `tcp_process_loss`.
    fn process_loss(&mut self, step: &Step<'_>, stats: &mut Stats) {
        let recovered = self.una >= self.high_seq;
        let frto_first = self.cfg.spurious_response == SpuriousResponse::Decrease && self.frto.is_deciding();
        if step.acked > 0 && !frto_first && self.may_undo(step.echo) {
            self.take_back(stats);
            return;
        }
        self.prefer_new = false;
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
                // RFC 5682 section 2.1 step 2.b; what is acknowledged from here on counts against the new mark.
                self.high_seq = self.nxt;
                self.prefer_new = true;
                self.force = false;
                return;
            }
            FrtoVerdict::Real => {}
        }
        if recovered {
            if self.linux && self.may_undo(step.echo) {
                // tcp_try_undo_recovery.
                self.take_back(stats);
                return;
            }
            self.state = CaState::Open;
            self.frto.stop();
            self.force = false;
            if let Detector::Rack(rack) = &mut self.detector {
                rack.on_recovery_exit();
            }
            self.rearm(step.now);
            return;
        }
        match &self.detector {
            // Duplicates after a timeout tell nothing (RFC 6582 section 3.2 step 2).
            Detector::Reno(_) | Detector::NewReno(_) => {}
            Detector::Sack(_) | Detector::Rack(_) if self.linux => {}
            Detector::Sack(_) | Detector::Rack(_) => self.detect_losses(step, stats),
        }
    }

    fn may_undo(&self, echo: Option<u32>) -> bool {
        (self.cfg.timestamp_undo && self.undo.timestamp_proves(echo))
            || (self.cfg.dsack_undo && self.undo.dsacks_prove())
    }

    fn restore(&mut self, stats: &mut Stats) {
        let cause = if self.linux {
            self.undo.restore_window(&mut self.window)
        } else {
            self.undo.restore(&mut self.window, &mut self.controller)
        };
        count_spurious(cause, stats);
    }

    /// The timeout was needless: one ordinary decrease stands in for it.
    fn decrease_instead(&mut self, stats: &mut Stats) {
        let from_cwnd = self.cfg.window_reduction == WindowReduction::FromCwnd;
        let flight = self.nxt - self.una;
        let cause = self.undo.decrease_instead(&mut self.window, &mut self.controller, |before| {
            if from_cwnd { before.cwnd } else { flight.min(before.cwnd) }
        });
        count_spurious(cause, stats);
        // Disarmed, so that this only leaves the loss state.
        self.take_back(stats);
    }

    /// The reduction was needless: back to the window before it.
    fn take_back(&mut self, stats: &mut Stats) {
        self.restore(stats);
        self.board.unmark_lost();
        match &mut self.detector {
            Detector::Reno(reno) => reno.reset(),
            Detector::NewReno(newreno) => newreno.reno.reset(),
            Detector::Sack(sack) => sack.reset(),
            Detector::Rack(rack) => rack.look_again(),
        }
        self.frto.stop();
        self.force = false;
        self.prefer_new = false;
        self.state = CaState::Open;
        self.timeouts = 0;
        if !self.linux {
            // Linux starts over with a valid RTT sample only (RFC 6298 section 5.7).
            self.rtt.reset_backoff();
        }
    }
}

/// The start of the millisecond after the one that `echo` names: what was sent from then on carries a later timestamp.
fn sent_before(now: Instant, ts_now: u32, echo: u32) -> Option<Instant> {
    let age = u64::from(ts_now.wrapping_sub(echo));
    let now = now.as_nanos() / 1_000_000;
    // An echo from the future, or from before this clock began, says nothing.
    if age > now { None } else { Some(Instant::from_millis(now - age + 1)) }
}

fn count_spurious(cause: Option<Cause>, stats: &mut Stats) {
    match cause {
        None => {}
        Some(Cause::Timeout) => stats.spurious_rtos += 1,
        Some(Cause::FastRecovery) => stats.spurious_recoveries += 1,
    }
}
