//! The sender's timers: retransmission (RFC 6298), loss probe and reordering (RFC 8985), persist (RFC 9293), the
//! application's next write; and standing still (freeze and thaw).
//!
//! When the RTO fires while the peer's window is zero and data is in flight, the sender enters loss and retransmits the
//! head all the same, as Linux `tcp_retransmit_timer` does: its retransmissions become the window probes.

use linkhold_core::time::{Duration, Instant};

use super::{Sender, Timer};
use crate::recovery::rack::{Path, Tlp};
use crate::recovery::undo::Cause;
use crate::recovery::{CaState, Detector};
use crate::stats::Stats;

impl Sender {
    /// When something is due.
    #[inline]
    pub fn next_timeout(&self, now_hint: Instant) -> Option<Instant> {
        if self.frozen.is_some() {
            return None;
        }
        let timer = self.timer_at();
        // A paced source's next write matters only when everything written has been sent.
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

    /// When the timer fires.
    #[inline]
    fn timer_at(&self) -> Option<Instant> {
        match self.cfg.timer_tick {
            Some(_) if self.wheel.0 == self.timer => self.wheel.1,
            // Set since the last transmission: the wheel follows when everything has been sent.
            Some(_) | None => self.timer.at(),
        }
    }

    pub fn on_timeout(&mut self, now: Instant, stats: &mut Stats) {
        if self.frozen.is_some() || self.timer_at().is_none_or(|at| at > now) {
            return;
        }
        match self.timer {
            Timer::Idle => {}
            Timer::Retransmit(_) => self.retransmission_timeout(now, stats),
            Timer::LossProbe(_) => {
                // RFC 8985 section 7.3: one probe at a time.
                self.tlp_due = !self.tlp.outstanding() && !self.board.is_empty();
                if self.linux && !self.tlp_due {
                    self.arm_rto_from_head(now);
                } else {
                    self.timer = Timer::Retransmit(now + self.rtt.rto());
                }
            }
            Timer::Reorder(_) => {
                self.arm_rto_from_head(now);
                let path = self.path();
                if let Detector::Rack(rack) = &mut self.detector {
                    let mut detected = rack.detect(&mut self.board, now, path);
                    if self.linux {
                        // Linux tcp_rack_reo_timeout does not wait a second time, and leaves the loss state for recovery.
                        detected.wait = None;
                        if detected.lost && self.state == CaState::Loss {
                            self.enter_recovery(now, stats);
                        }
                    }
                    let before = self.state;
                    self.react_to_detection(now, detected, stats);
                    if self.linux && before != CaState::Recovery && self.state == CaState::Recovery {
                        // tcp_cwnd_reduction (sk, 1, 1, 0): one retransmission now, the rest as ACKs come.
                        self.reduce_proportionally(self.window.mss, false);
                    }
                }
            }
            Timer::Persist(_) => {
                self.timer = Timer::Idle;
                self.probe_due = true;
            }
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
        self.enter_loss(now);
        if self.peer.window() > 0 {
            // tcp_retransmit_timer: in a zero window the retransmission passes for a probe and is not counted.
            self.timeouts += 1;
        }
        // RFC 6298 (5.4) to (5.6): retransmit the earliest segment, back off, start the timer.
        self.rtt.back_off();
        self.timer = Timer::Retransmit(now + self.rtt.rto());
    }

    fn enter_loss(&mut self, now: Instant) {
        let fresh = matches!(self.state, CaState::Open | CaState::Cwr);
        let path = self.path();
        // Linux tcp_enter_loss: once more after any progress in the loss state, and for every timeout in a zero window.
        let again = self.linux && self.state == CaState::Loss && self.timeouts == 0;
        let first = fresh && !(self.linux && self.state == CaState::Cwr);
        // RFC 5682 section 2.1 step 1: not in a recovery that is under way, save by timeouts of the same segment.
        let ask_frto = self.cfg.frto && (!self.linux || fresh || self.timeouts > 0);
        // RFC 5681 section 4.3: one reduction per window of data.
        if first || self.una >= self.high_seq || again {
            let (before, retransmissions) = (self.window_to_restore(), self.retransmissions_out());
            if self.linux && !fresh {
                self.undo.arm_again(Cause::Timeout, self.una, before, self.controller, retransmissions);
            } else {
                self.undo.arm(Cause::Timeout, self.una, before, self.controller, retransmissions);
            }
            // A window already reduced for ECN is not reduced again.
            let basis = self.reduction_basis();
            self.window.ssthresh = self.controller.on_congestion(&self.window, basis);
            self.controller.on_timeout();
        } else if self.linux || self.state == CaState::Recovery {
            self.controller.on_timeout();
        }
        match &self.detector {
            Detector::Rack(rack) => {
                // tcp_timeout_mark_lost gives no time for reordering.
                let reo_wnd =
                    if self.linux { Duration::ZERO } else { rack.timeout_reo_wnd(&self.board, path) };
                let rack = *rack;
                self.board.mark_all_lost(|record| rack.spare_on_timeout(record.sent, now, reo_wnd));
            }
            Detector::Reno(_) | Detector::NewReno(_) | Detector::Sack(_) => {
                self.board.mark_all_lost(|_| false)
            }
        }
        match &mut self.detector {
            Detector::Reno(reno) => reno.reset(),
            Detector::NewReno(newreno) => newreno.reno.reset(),
            Detector::Sack(sack) => sack.reset(),
            Detector::Rack(_) => {}
        }
        // RFC 5681 section 3.1 equation: loss window of one full segment, beside what is still in the network.
        self.window.cwnd = self.pipe() + self.window.mss;
        self.state = CaState::Loss;
        self.high_seq = self.nxt;
        self.force = true;
        self.prefer_new = false;
        self.tlp.reset();
        self.tlp_due = false;
        self.cwr_due |= self.ecn_ok;
        if ask_frto {
            self.frto.begin();
        } else {
            self.frto.stop();
        }
    }

    pub(super) fn path(&self) -> Path {
        Path {
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
            recovering: matches!(self.state, CaState::Recovery | CaState::Loss),
        }
    }

    /// RFC 6298 (5.1): the timer runs whenever data is outstanding; RFC 8985 section 7.2: a probe comes first.
    pub(super) fn arm_after_new_data(&mut self, now: Instant) {
        match self.timer {
            Timer::Idle | Timer::Persist(_) | Timer::LossProbe(_) => {
                if self.schedule_probe(now, false) {
                    return;
                }
                if !matches!(self.timer, Timer::LossProbe(_)) {
                    self.timer = Timer::Retransmit(now + self.rtt.rto());
                } else if self.linux {
                    self.arm_rto_from_head(now);
                }
            }
            Timer::Retransmit(_) => {
                self.schedule_probe(now, false);
            }
            Timer::Reorder(_) => {}
        }
    }

    /// RFC 6298 (5.3): new data is acknowledged, the timer starts anew, or stops with nothing outstanding (5.2).
    pub(super) fn rearm(&mut self, now: Instant) {
        if self.board.is_empty() {
            if !matches!(self.timer, Timer::Persist(_)) {
                self.timer = Timer::Idle;
            }
        } else if !self.schedule_probe(now, true) {
            if self.linux && matches!(self.timer, Timer::LossProbe(_) | Timer::Reorder(_)) {
                // Linux tcp_rearm_rto: those timers had put the timeout off already.
                self.arm_rto_from_head(now);
            } else {
                self.timer = Timer::Retransmit(now + self.rtt.rto());
            }
        }
    }

    /// Arms the tail loss probe if its conditions hold (RFC 8985 section 7.2). `advancing`: for an ACK of new data.
    fn schedule_probe(&mut self, now: Instant, advancing: bool) -> bool {
        // Linux asks about the outstanding probe when the timer fires, and probes in no doubtful state (Disorder: anything
        // SACKed or lost).
        let in_the_way = if self.linux {
            self.board.sacked_segments() > 0 || self.board.lost_bytes() > 0
        } else {
            self.tlp.outstanding()
        };
        if !matches!(self.detector, Detector::Rack(_))
            || !matches!(self.state, CaState::Open | CaState::Cwr)
            || in_the_way
        {
            return false;
        }
        let Some(head) = self.board.front() else { return false };
        let pto = now + Tlp::timeout(self.rtt.srtt(), self.board.segments());
        // Never later than the RTO (section 7.2), which counts from the head's transmission; for Linux, which sets it anew
        // at every ACK, from now.
        let rto = if self.linux && advancing { now } else { head.sent } + self.rtt.rto();
        self.timer = Timer::LossProbe(if rto > now { pto.min(rto) } else { pto });
        true
    }

    /// Linux `tcp_rearm_rto` after a reordering timeout: the RTO still counts from the head's transmission.
    pub(super) fn arm_rto_from_head(&mut self, now: Instant) {
        self.timer = match self.board.front() {
            None => Timer::Idle,
            Some(head) => Timer::Retransmit((head.sent + self.rtt.rto()).max(now + Duration::from_millis(1))),
        };
    }

    /// Stops: nothing is sent, no timer runs, cwnd, ssthresh, RTT and RTO stay. ACKs are still taken in.
    pub fn freeze(&mut self, now: Instant) {
        self.frozen.get_or_insert(now);
    }

    /// Goes on as if no time had passed. `ts_value` is the TSval clock now.
    pub fn thaw(&mut self, now: Instant, ts_value: u32) {
        let Some(since) = self.frozen.take() else { return };
        let by = now.since(since);
        self.timer = match self.timer {
            Timer::Idle => Timer::Idle,
            Timer::Retransmit(at) => Timer::Retransmit(at + by),
            Timer::LossProbe(at) => Timer::LossProbe(at + by),
            Timer::Reorder(at) => Timer::Reorder(at + by),
            Timer::Persist(at) => Timer::Persist(at + by),
        };
        self.board.shift_times(by);
        if let Detector::Rack(rack) = &mut self.detector {
            rack.shift_times(by);
        }
        self.controller.on_quiet(by);
        self.last_sent += by;
        self.rtt_from_ts = Some(ts_value);
    }
}
