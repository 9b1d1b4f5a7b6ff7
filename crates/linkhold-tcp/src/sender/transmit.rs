//! What the sender sends now, segment by segment.
//!
//! Source: RFC 9293 section 3.8.6.2 (silly-window avoidance), RFC 5681 section 4.1 (restart after idle), RFC
//! 6675 section 5 (NextSeg), RFC 8985 section 7.3 (tail loss probe), Linux `tcp_write_xmit`.
//! A probe that a timer asked for -> what is lost -> new data -> nothing. F-RTO puts new data before what is
//! lost.

use linkhold_core::time::Instant;

use super::{ByteProbe, Due, Kind, Order, Plan, Reduction, Sender, Timer};
use crate::config::{IdleRestart, WindowProbe};
use crate::endpoint::ts_clock;
use crate::recovery::CaState;
use crate::stats::Stats;
use crate::wheel;

impl Sender {
    #[inline]
    fn plan(&self, start: u64, end: u64, kind: Kind) -> Plan {
        let fin = self.fin_at().is_some_and(|at| end > at);
        let payload = (end - start) as u32 - u32::from(fin);
        Plan { start, payload, fin, kind, cwr: false }
    }

    /// The next data segment or probe to send.
    #[inline]
    pub fn poll(&mut self, now: Instant, stats: &mut Stats) -> Option<Plan> {
        if self.is_silent() || self.motion.is_frozen() {
            return None;
        }
        self.next(now, stats)
    }

    #[inline(always)]
    fn next(&mut self, now: Instant, stats: &mut Stats) -> Option<Plan> {
        let plan = self.probe_due(now, stats).or_else(|| self.next_segment(now));
        if plan.is_some() {
            return plan;
        }
        if !self.is_paced() {
            self.settle(now);
        }
        if let Some(tick) = self.cfg.timer_tick
            && self.wheel.0 != self.timer
        {
            self.wheel = (self.timer, self.timer.at().map(|at| wheel::fires_at(now, at, tick)));
        }
        None
    }

    /// The probe that a timer asked for, if there is still something to probe for.
    fn probe_due(&mut self, now: Instant, stats: &mut Stats) -> Option<Plan> {
        match core::mem::replace(&mut self.due, Due::Nothing) {
            Due::Nothing => None,
            Due::WindowProbe => self.window_probe(now, stats),
            Due::TailProbe => self.tail_loss_probe(now, stats),
        }
    }

    /// The next lost segment or new data.
    fn next_segment(&mut self, now: Instant) -> Option<Plan> {
        if self.model.is_some() && self.waits_for_pace(now) {
            return None;
        }
        if self.order != Order::NewFirst
            && let Some(plan) = self.retransmission(now)
        {
            return Some(plan);
        }
        if let Some(plan) = self.new_data(now) {
            return Some(plan);
        }
        if self.order == Order::NewFirst && self.nxt <= self.high_seq {
            // F-RTO could not send new data after all (Linux tcp_xmit_recovery).
            self.order = Order::LostFirst;
            self.frto.stop();
            if let Some(plan) = self.retransmission(now) {
                return Some(plan);
            }
        }
        self.without_new_data(now)
    }

    /// RFC 6675 NextSeg rule 1; after a timeout, slow start through what is lost.
    #[inline]
    fn retransmission(&mut self, now: Instant) -> Option<Plan> {
        if self.board.none_waits() { None } else { self.next_lost(now) }
    }

    fn next_lost(&mut self, now: Instant) -> Option<Plan> {
        let id = self.board.next_lost()?;
        let record = *self.board.get(id)?;
        let at_once = matches!(self.order, Order::LostAtOnce | Order::AllLostAtOnce);
        if !at_once && !self.has_room(record.len(), record.end()) {
            return None;
        }
        self.retransmit(now, id)
    }

    #[cold]
    fn retransmit(&mut self, now: Instant, id: u32) -> Option<Plan> {
        let record = *self.board.get(id)?;
        // A receiver that shrank its window gets the first segment only: it serves as a probe (Linux
        // __tcp_retransmit_skb).
        if record.start >= self.window_end() && record.start != self.una {
            return None;
        }
        if self.order == Order::LostAtOnce {
            self.order = Order::LostFirst;
        }
        self.board.retransmitted(id, now);
        if self.model.is_some() {
            self.model_hears_segment(now, id, record.len(), false);
        }
        if matches!(self.state, CaState::Recovery | CaState::Loss) {
            // A tail loss probe is no part of an episode that undo could take back.
            self.undo.on_retransmit(ts_clock(now));
        }
        self.sent(now, record.len());
        let head_again = record.start == self.una && !matches!(self.timer, Timer::Reorder(_));
        if self.timer == Timer::Idle || (head_again && self.quirks.head_retransmission_restarts_timer()) {
            self.timer = Timer::Retransmit(now + self.rtt.rto());
        }
        Some(self.plan(record.start, record.end(), Kind::Retransmission))
    }

    /// RFC 6675 NextSeg rules 3 and 4: nothing is lost for sure, and there is no new data.
    fn without_new_data(&mut self, now: Instant) -> Option<Plan> {
        if self.state != CaState::Recovery || !self.has_room(self.window.mss, self.nxt) {
            return None;
        }
        if self.sendable(now) > 0 {
            return None;
        }
        let id = self.detector.next_without_new_data(&self.board)?;
        self.retransmit(now, id)
    }

    /// True if cwnd has room for a segment of `len` that ends at `end`. cwnd limits data (RFC 5681 section
    /// 2), which a FIN is not: in Linux, which counts packets, it rides on the last. Its byte counts in `len`
    /// and, once it is out, in the pipe. A FIN alone is a packet of its own, and waits for room (since Linux
    /// 6.10, "tcp: remove dubious FIN exception from tcp_cwnd_test()").
    #[inline]
    fn has_room(&self, len: u64, end: u64) -> bool {
        let fin = u64::from(len > 1 && self.fin_at().is_some_and(|at| end.max(self.nxt) > at));
        self.pipe() + len <= self.usable_window() + fin
    }

    /// Bytes of new data that the application and the peer's window allow in one segment now.
    #[inline]
    pub(super) fn sendable(&self, now: Instant) -> u64 {
        let available = self.limit(now).saturating_sub(self.nxt);
        let end = self.una + self.peer.window().min(self.send_buffer);
        let room = end.saturating_sub(self.nxt);
        if room >= self.window.mss && available > self.window.mss + 1 {
            return self.window.mss;
        }
        self.short_segment(available, room)
    }

    /// The same where data or window end about here.
    #[cold]
    fn short_segment(&self, available: u64, room: u64) -> u64 {
        let mut segment = self.window.mss.min(available).min(room);
        // The FIN rides on a full last segment: it takes sequence space, not payload.
        if available == segment + 1 && segment == self.window.mss && room > segment && self.has_fin() {
            segment += 1;
        }
        // RFC 9293 section 3.8.6.2.1: a segment that only the window cuts short is sent if it is half of the
        // largest window; else data in flight, or the persist timer, will bring a better time.
        if segment < self.window.mss && segment < available && segment < self.peer.largest() / 2 {
            return 0;
        }
        segment
    }

    fn new_data(&mut self, now: Instant) -> Option<Plan> {
        let segment = self.sendable(now);
        if segment == 0 {
            return None;
        }
        if self.board.is_empty() {
            self.restart_after_idle(now);
        }
        if !self.has_room(segment, self.nxt + segment) {
            self.usage.note(true, self.una, self.nxt);
            return None;
        }
        Some(self.send_new(now, segment))
    }

    #[inline(always)]
    fn send_new(&mut self, now: Instant, segment: u64) -> Plan {
        let start = self.nxt;
        let end = start + segment;
        if self.pipe() == 0 {
            self.controller.on_transmit_start(now.since(self.last_sent));
        }
        if self.model.is_some() {
            self.model_hears_new_data(now);
        }
        let begins_flight = self.board.is_empty();
        let id = self.board.push(start, end, now);
        self.nxt = end;
        if self.model.is_some() {
            self.model_hears_segment(now, id, segment, begins_flight);
        }
        self.sent_new = true;
        self.sent(now, segment);
        self.arm_after_new_data(now);
        let mut plan = self.plan(start, end, Kind::New);
        // RFC 3168 section 6.1.2: CWR on the first new data packet after the reduction.
        plan.cwr = core::mem::replace(&mut self.cwr_due, false);
        plan
    }

    fn sent(&mut self, now: Instant, bytes: u64) {
        self.last_sent = now;
        self.starved = false;
        if self.reduction != Reduction::AtOnce && matches!(self.state, CaState::Recovery | CaState::Cwr) {
            self.prr.on_sent(bytes);
        }
    }

    /// RFC 5681 section 4.1 and Linux `tcp_cwnd_restart`.
    #[cold]
    fn restart_after_idle(&mut self, now: Instant) {
        let quiet = now.since(self.last_sent);
        let rto = self.rtt.rto();
        if quiet <= rto || self.reduction == Reduction::ByModel {
            return;
        }
        let initial = self.cfg.initial_window(self.window.mss as u32);
        let restart = initial.min(self.window.cwnd);
        match self.cfg.idle_restart {
            IdleRestart::Off => {}
            IdleRestart::RestartWindow => self.window.cwnd = restart,
            IdleRestart::HalveAtWrite if !self.starved => {}
            IdleRestart::HalveAtSend | IdleRestart::HalveAtWrite => {
                self.window.ssthresh = self.current_ssthresh();
                let mut left = quiet;
                while left > rto && self.window.cwnd > restart {
                    left = left.saturating_sub(rto);
                    self.window.cwnd /= 2;
                }
                self.window.cwnd = self.window.cwnd.max(restart);
            }
        }
    }

    /// RFC 8985 section 7.3: new data if the peer's window allows, else the last segment again; cwnd is not
    /// asked.
    #[cold]
    fn tail_loss_probe(&mut self, now: Instant, stats: &mut Stats) -> Option<Plan> {
        let segment = self.sendable(now);
        let plan = if segment > 0 {
            Some(self.send_new(now, segment))
        } else {
            self.board.back_id().and_then(|id| self.retransmit(now, id))
        };
        if let Some(plan) = &plan {
            self.tlp.sent(self.nxt, plan.kind == Kind::Retransmission);
            stats.tlp_probes += 1;
        } else if self.quirks.blocked_probe_keeps_timeout() {
            self.arm_rto_from_head(now);
            return None;
        }
        // Section 7.3: the RTO starts anew after the probe.
        self.timer = Timer::Retransmit(now + self.rtt.rto());
        plan
    }

    #[cold]
    fn window_probe(&mut self, now: Instant, stats: &mut Stats) -> Option<Plan> {
        if !self.board.is_empty() || self.limit(now) <= self.nxt {
            return None;
        }
        self.peer.probed();
        stats.zero_window_probes += 1;
        let interval = self.peer.probe_interval(self.rtt.rto(), self.cfg.rto_max);
        self.timer = Timer::Persist(now + interval);
        // A small window is open: what fits is the probe (Linux tcp_write_wakeup).
        let room = self.window_end().saturating_sub(self.nxt);
        if room > 0 {
            let segment = self.window.mss.min(room).min(self.limit(now) - self.nxt);
            let mut plan = self.send_new(now, segment);
            self.timer = Timer::Retransmit(now + self.rtt.rto());
            plan.kind = Kind::WindowProbe;
            return Some(plan);
        }
        Some(match self.cfg.window_probe {
            WindowProbe::OldSequence => {
                Plan { start: self.una - 1, payload: 0, fin: false, kind: Kind::WindowProbe, cwr: false }
            }
            WindowProbe::OneByte => {
                self.byte_probe = Some(ByteProbe {
                    sent: self.byte_probe.map_or(now, |probe| probe.sent),
                    untimed: self.byte_probe.is_some(),
                });
                self.plan(self.nxt, self.nxt + 1, Kind::WindowProbe)
            }
        })
    }

    /// Everything that may go has gone.
    fn settle(&mut self, now: Instant) {
        if self.model.is_some() {
            self.model_hears_that_all_went(now);
        }
        if self.order == Order::AllLostAtOnce {
            self.order = Order::LostFirst;
        }
        if core::mem::replace(&mut self.sent_new, false) {
            let limited = self.pipe() + self.window.mss > self.usable_window();
            self.usage.note(limited, self.una, self.nxt);
        }
        if !self.board.is_empty() {
            return;
        }
        if self.limit(now) <= self.nxt {
            self.starved = true;
            self.timer = Timer::Idle;
        } else if !matches!(self.timer, Timer::Persist(_)) {
            // Data waits, nothing is in flight: only the peer's window can be in the way.
            let interval = self.peer.probe_interval(self.rtt.rto(), self.cfg.rto_max);
            self.timer = Timer::Persist(now + interval);
        }
    }
}
