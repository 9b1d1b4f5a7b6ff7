//! The sender's timers: retransmission (RFC 6298), loss probe and reordering (RFC 8985), persist (RFC 9293),
//! the application's next write; freeze and thaw.
//!
//! When the RTO fires while the peer's window is zero and data is in flight, the sender enters loss and
//! retransmits the head all the same, as Linux `tcp_retransmit_timer` does: its retransmissions become the
//! window probes.

use linkhold_core::action::Resend;
use linkhold_core::time::{Duration, Instant};

use super::{Due, Motion, Order, Reduction, Sender, Timer};
use crate::endpoint::ts_clock;
use crate::recovery::CaState;
use crate::recovery::rack::{PathTimes, Tlp};
use crate::recovery::undo::Cause;
use crate::scoreboard::AckSummary;
use crate::stats::Stats;

impl Sender {
    /// When `on_timeout` is due, if ever.
    #[inline]
    pub fn next_timeout(&self, now_hint: Instant) -> Option<Instant> {
        if self.is_silent() || self.motion.is_frozen() {
            return None;
        }
        let timer = match &self.model {
            None => self.timer_at(),
            Some(model) => [self.timer_at(), model.held_until].into_iter().flatten().min(),
        };
        if !self.source.is_by_the_clock() {
            return timer;
        }
        // The next write matters only when everything written has been sent.
        let write = if self.limit(now_hint) <= self.nxt {
            self.source.next_write(self.started, now_hint)
        } else {
            None
        };
        match (timer, write) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// When the timer fires, by the kernel's wheel if there is one.
    #[inline]
    fn timer_at(&self) -> Option<Instant> {
        match self.cfg.timer_tick {
            Some(_) if self.wheel.0 == self.timer => self.wheel.1,
            // Set since the last transmission: the wheel follows when everything has been sent.
            Some(_) | None => self.timer.at(),
        }
    }

    pub fn on_timeout(&mut self, now: Instant, stats: &mut Stats) {
        if self.motion.is_frozen() || self.timer_at().is_none_or(|at| at > now) {
            return;
        }
        match self.timer {
            Timer::Idle => {}
            Timer::Retransmit(_) => self.retransmission_timeout(now, stats),
            Timer::LossProbe(_) => {
                // RFC 8985 section 7.3: one probe at a time.
                let may_go = !self.tlp.outstanding() && !self.board.is_empty();
                if may_go {
                    self.due = Due::TailProbe;
                }
                if !may_go && self.quirks.blocked_probe_keeps_timeout() {
                    self.arm_rto_from_head(now);
                } else {
                    self.timer = Timer::Retransmit(now + self.rtt.rto());
                }
            }
            Timer::Reorder(_) => {
                self.arm_rto_from_head(now);
                self.reordering_timeout(now, stats);
            }
            Timer::Persist(_) => {
                self.timer = Timer::Idle;
                self.due = Due::WindowProbe;
            }
        }
    }

    /// RFC 8985 section 6.3: what has had its time to arrive is lost.
    fn reordering_timeout(&mut self, now: Instant, stats: &mut Stats) {
        let path = self.path();
        let mut detected = self.detector.detect_late(&mut self.board, now, path);
        let at_once = self.quirks.reordering_timeout_acts_at_once();
        if at_once {
            detected.wait = None;
            if detected.lost && self.state == CaState::Loss {
                self.enter_recovery(now, stats);
            }
        }
        let before = self.state;
        self.react_to_detection(now, detected, stats);
        let entered = before != CaState::Recovery && self.state == CaState::Recovery;
        if at_once && entered && self.reduction != Reduction::ByModel {
            self.reduce_proportionally(self.window.mss, false);
        }
    }

    fn retransmission_timeout(&mut self, now: Instant, stats: &mut Stats) {
        if self.board.is_empty() {
            self.timer = Timer::Idle;
            return;
        }
        stats.rto_events += 1;
        if self.peer.window() == 0 {
            stats.rto_in_zero_window += 1;
        }
        self.enter_loss(now, stats);
        if self.peer.window() > 0 {
            // tcp_retransmit_timer: in a zero window the retransmission passes for a probe and is not
            // counted.
            self.timeouts += 1;
        }
        // RFC 6298 (5.4) to (5.6): retransmit the earliest segment, back off, start the timer.
        self.rtt.back_off();
        self.timer = Timer::Retransmit(now + self.rtt.rto());
    }

    fn enter_loss(&mut self, now: Instant, stats: &mut Stats) {
        let path = self.path();
        let ask_frto = self.cfg.frto && self.quirks.timeout_asks_frto(self.state, self.timeouts);
        if self.una >= self.high_seq || self.quirks.timeout_reduces(self.state, self.timeouts) {
            self.arm_undo(Cause::Timeout);
            stats.timeout_reductions += 1;
            stats.timeouts_undecided = 1;
            let basis = self.reduction_basis();
            self.window.ssthresh = self.new_ssthresh(basis);
            self.controller.on_timeout();
        } else if self.quirks.every_timeout_resets_controller() {
            self.controller.on_timeout();
        }
        self.detector.on_timeout(&mut self.board, now, self.nxt, path, self.quirks);
        // RFC 5681 section 3.1 equation: loss window of one full segment, beside what is still in the
        // network.
        self.window.cwnd = self.pipe() + self.window.mss;
        self.state = CaState::Loss;
        self.model_hears_timeout(now);
        self.high_seq = self.nxt;
        self.order = if self.hears_base_station { Order::AllLostAtOnce } else { Order::LostAtOnce };
        self.tlp.reset();
        self.drop_tail_probe();
        self.cwr_due |= self.ecn_ok;
        if ask_frto {
            self.frto.begin();
        } else {
            self.frto.stop();
        }
    }

    pub(super) fn path(&self) -> PathTimes {
        PathTimes {
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
            recovering: matches!(self.state, CaState::Recovery | CaState::Loss),
        }
    }

    /// RFC 6298 (5.1): the timer runs whenever data is outstanding; RFC 8985 section 7.2: a probe comes
    /// first.
    pub(super) fn arm_after_new_data(&mut self, now: Instant) {
        match self.timer {
            Timer::Idle | Timer::Persist(_) | Timer::LossProbe(_) => {
                if self.schedule_probe(now, false) {
                    return;
                }
                if !matches!(self.timer, Timer::LossProbe(_)) {
                    self.timer = Timer::Retransmit(now + self.rtt.rto());
                } else if self.quirks.timeout_counts_from_head() {
                    self.arm_rto_from_head(now);
                }
            }
            Timer::Retransmit(_) => {
                self.schedule_probe(now, false);
            }
            Timer::Reorder(_) => {}
        }
    }

    /// RFC 6298 (5.3): new data is acknowledged, the timer starts anew, or stops with nothing outstanding
    /// (5.2).
    pub(super) fn rearm(&mut self, now: Instant) {
        if self.board.is_empty() {
            if !matches!(self.timer, Timer::Persist(_)) {
                self.timer = Timer::Idle;
            }
        } else if !self.schedule_probe(now, true) {
            let put_off = matches!(self.timer, Timer::LossProbe(_) | Timer::Reorder(_));
            if put_off && self.quirks.timeout_counts_from_head() {
                self.arm_rto_from_head(now);
            } else {
                self.timer = Timer::Retransmit(now + self.rtt.rto());
            }
        }
    }

    /// Arms the tail loss probe if its conditions hold (RFC 8985 section 7.2). `advancing`: for an ACK of new
    /// data.
    fn schedule_probe(&mut self, now: Instant, advancing: bool) -> bool {
        let in_the_way = if self.quirks.probe_wants_clean_board() {
            self.board.sacked_segments() > 0 || self.board.lost_bytes() > 0
        } else {
            self.tlp.outstanding()
        };
        if !self.detector.probes_tails() || !matches!(self.state, CaState::Open | CaState::Cwr) || in_the_way
        {
            return false;
        }
        let Some(head) = self.board.front() else { return false };
        let worst_delayed_ack = self.quirks.worst_delayed_ack(self.cfg.rto_min);
        let pto = now + Tlp::timeout(self.rtt.srtt(), self.board.segments(), worst_delayed_ack);
        // Section 7.2: never later than the RTO.
        let from_now = advancing && self.quirks.probe_bound_restarts_at_ack();
        let rto = if from_now { now } else { head.sent } + self.rtt.rto();
        self.timer = Timer::LossProbe(if rto > now { pto.min(rto) } else { pto });
        true
    }

    /// Arms the timeout counted from the head's transmission (Linux `tcp_rearm_rto`).
    pub(super) fn arm_rto_from_head(&mut self, now: Instant) {
        self.timer = match self.board.front() {
            None => Timer::Idle,
            Some(head) => Timer::Retransmit((head.sent + self.rtt.rto()).max(now + Duration::from_millis(1))),
        };
    }

    /// Stops sending and timers. cwnd, ssthresh, RTT and RTO stay, and ACKs are still taken in.
    pub fn freeze(&mut self, now: Instant) {
        if !self.motion.is_frozen() {
            self.motion = Motion::Frozen { since: now };
        }
    }

    /// Goes on from the frozen state (cr-aware section 3): the retransmission timer starts anew with the
    /// frozen RTO, cwnd is what it was, and what `resend` names goes again at once.
    pub fn thaw(&mut self, now: Instant, resend: Resend) {
        let Some(by) = self.wake(now) else { return };
        // Only the radio stood still: ACKs may have waited before it, and come at once.
        self.board.leave_untimed();
        if let Some(probe) = &mut self.byte_probe {
            probe.untimed = true;
        }
        self.timer = match self.timer {
            Timer::Idle => Timer::Idle,
            Timer::Retransmit(_) | Timer::LossProbe(_) | Timer::Reorder(_) => {
                Timer::Retransmit(now + self.rtt.rto())
            }
            Timer::Persist(at) => Timer::Persist(at + by),
        };
        self.resend(resend);
    }

    /// Goes on as if the clock had stood still, as it did on the whole path: every timer keeps what was left
    /// of it, and ACKs of what was out tell an RTT without the silence. Nothing goes again by itself, so the
    /// retransmission timer must not begin anew: where silences come more often than the RTO it would never
    /// expire, and a sender whose last retransmission was lost would stand for good.
    pub fn go_on(&mut self, now: Instant) {
        let Some(by) = self.wake(now) else { return };
        self.timer = match self.timer {
            Timer::Idle => Timer::Idle,
            Timer::Retransmit(at) => Timer::Retransmit(at + by),
            Timer::LossProbe(at) => Timer::LossProbe(at + by),
            Timer::Reorder(at) => Timer::Reorder(at + by),
            Timer::Persist(at) => Timer::Persist(at + by),
        };
    }

    /// Ends a freeze and says how long it was; `None` if there was none.
    fn wake(&mut self, now: Instant) -> Option<Duration> {
        let Motion::Frozen { since } = self.motion else { return None };
        let by = now.since(since);
        self.board.shift_times(by);
        self.detector.shift_times(by);
        self.controller.on_quiet(by);
        if let Some(model) = &mut self.model {
            model.wake(now, by);
        }
        self.last_sent += by;
        self.motion = Motion::Thawed { first_echo: ts_clock(now) };
        Some(by)
    }

    /// Marks for retransmission what may have been lost in the silence. That is no congestion: neither cwnd
    /// nor the congestion state changes.
    fn resend(&mut self, resend: Resend) {
        let marked = match (resend, self.board.front_id()) {
            (Resend::Nothing, _) | (_, None) => false,
            // One that an ACK of the silence has already marked, and cwnd had no room for, goes as well.
            (Resend::First, Some(head)) => self.board.mark_lost(head) || self.board.next_lost() == Some(head),
            (Resend::All, Some(_)) => {
                self.board.mark_all_lost(|_| false);
                true
            }
        };
        if marked {
            // One goes whatever the window says: after a thaw something must fly, or no ACK ever comes.
            self.send_marked(Order::LostAtOnce);
        }
    }

    /// Sends what was marked lost, which is no sign of congestion.
    fn send_marked(&mut self, order: Order) {
        self.order = order;
        self.tlp.reset();
        self.drop_tail_probe();
        if matches!(self.state, CaState::Open | CaState::Cwr) {
            // RFC 6582 section 3.2 (recover): duplicate ACKs for what was sent before are answers to these
            // retransmissions, and no sign of another loss.
            self.detector.ignore_duplicates_below(self.nxt);
        }
    }

    /// A base station has `blocks`, and misses what was sent before them (cr-aware section 4.2, TCP-LR).
    ///
    /// A loss of the radio is no congestion: neither cwnd nor the congestion state changes, and duplicate
    /// ACKs for what is out now start no recovery (RFC 6582 section 3.2, recover). The blocks count as SACKs
    /// of the receiver do, which may take them back: a timeout at a segment that is marked forgets them.
    pub fn missing(&mut self, now: Instant, blocks: &[(u64, u64); 4]) {
        let fits = |&(left, right): &(u64, u64)| left >= self.una && left < right && right <= self.nxt;
        let blocks = blocks.map(|block| if fits(&block) { block } else { (0, 0) });
        let highest = blocks.iter().map(|block| block.1).max().unwrap_or(0);
        if highest == 0 || self.board.is_empty() {
            return;
        }
        self.hears_base_station = true;
        self.board.sack(&blocks, &mut AckSummary::default());
        // A frozen sender's clock stands still.
        let now = self.motion.clock(now);
        // A report may have crossed the retransmission that it asks for.
        let patience = self.rtt.srtt().unwrap_or(Duration::ZERO);
        if self.board.mark_lost_below(highest, |sent_again| now.since(sent_again) >= patience) {
            self.send_marked(Order::AllLostAtOnce);
        }
    }
}
