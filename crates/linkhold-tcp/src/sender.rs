//! The sending half: what to send now. How ACKs and timers move it is in `sender/ack.rs` and `sender/timers.rs`.
//!
//! Source: RFC 9293 section 3.8 (windows, silly-window avoidance), RFC 5681 (congestion window, restart after idle),
//! RFC 6675 section 5 (what to send in recovery), Linux `tcp_write_xmit` and `tcp_cwnd_validate`.
//! Deviations: no Nagle (as with TCP_NODELAY): the sources write in large pieces, and a held-back tail would only blur
//! completion times. The receiver's RFC 9293 3.8.6.2.1 override timer is the persist timer, as in Linux.
//!
//! Positions are 64-bit offsets into the stream: SYN at 0, data from 1, FIN after the data.

mod ack;
mod timers;

use linkhold_core::time::{Duration, Instant};

use crate::config::{Details, IdleRestart, Recovery, TcpConfig, WindowProbe, WindowReduction};
use crate::congestion::{Controller, Window};
use crate::persist::SendWindow;
use crate::recovery::frto::Frto;
use crate::recovery::prr::Prr;
use crate::recovery::rack::{Rack, Tlp};
use crate::recovery::undo::Undo;
use crate::recovery::{CaState, Detector, newreno, reno, sack};
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::source::Source;
use crate::stats::Stats;
use crate::wheel;

pub(crate) use ack::AckIn;

/// The sender's one timer (Linux `icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    Idle,
    /// RFC 6298 retransmission timeout.
    Retransmit(Instant),
    /// RFC 8985 section 7 tail loss probe.
    LossProbe(Instant),
    /// RFC 8985 section 6 reordering timer.
    Reorder(Instant),
    /// RFC 9293 section 3.8.6.1 zero-window probe.
    Persist(Instant),
}

impl Timer {
    #[inline]
    pub fn at(self) -> Option<Instant> {
        match self {
            Self::Idle => None,
            Self::Retransmit(at) | Self::LossProbe(at) | Self::Reorder(at) | Self::Persist(at) => Some(at),
        }
    }
}

/// What to put into the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Offset of its first byte.
    pub start: u64,
    pub payload: u32,
    pub fin: bool,
    pub retransmit: bool,
    pub probe: bool,
    /// Carries CWR (RFC 3168 section 6.1.2).
    pub cwr: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    cfg: TcpConfig,
    source: Source,
    /// When the connection came up.
    started: Instant,
    board: Scoreboard,
    /// SND.UNA and SND.NXT.
    una: u64,
    nxt: u64,
    window: Window,
    controller: Controller,
    peer: SendWindow,
    state: CaState,
    /// [`Details::Linux`].
    linux: bool,
    /// Timeouts since SND.UNA last moved, those in a zero window apart (Linux `icsk_retransmits`).
    timeouts: u32,
    /// This ACK has armed the reordering timer, which then stays (Linux clears FLAG_SET_XMIT_TIMER).
    reorder_armed: bool,
    /// SND.NXT at the last reduction (RFC 6582 recover, RFC 6675 RecoveryPoint, Linux high_seq).
    high_seq: u64,
    detector: Detector,
    prr: Prr,
    frto: Frto,
    undo: Undo,
    tlp: Tlp,
    rtt: RttEstimator,
    timer: Timer,
    /// The timer as it was last put into the wheel, and when it fires there.
    wheel: (Timer, Option<Instant>),
    use_prr: bool,
    sack_ok: bool,
    ecn_ok: bool,
    /// The next retransmission does not ask cwnd: fast retransmit, partial ACK, timeout.
    force: bool,
    /// F-RTO wants new data out before retransmissions.
    prefer_new: bool,
    probe_due: bool,
    tlp_due: bool,
    /// Classic window probe: one byte beyond SND.NXT may come back acknowledged.
    byte_probed: bool,
    cwr_due: bool,
    /// The application asked for a FIN after what it has written.
    closing: bool,
    /// Linux tcp_cwnd_validate.
    cwnd_limited: bool,
    max_flight: u64,
    usage_end: u64,
    sent_new: bool,
    last_sent: Instant,
    /// The application had nothing to send since `last_sent`.
    starved: bool,
    frozen: Option<Instant>,
    /// Echoes of timestamps before this are from before a freeze and give no RTT sample.
    rtt_from_ts: Option<u32>,
}

impl Sender {
    pub fn new(cfg: &TcpConfig, source: Source) -> Self {
        let mss = u64::from(cfg.mss);
        Self {
            source,
            started: Instant::ZERO,
            board: Scoreboard::new(),
            una: 0,
            nxt: 0,
            window: Window { cwnd: cfg.initial_window(u32::from(cfg.mss)), ssthresh: u64::MAX, mss },
            controller: Controller::new(cfg.congestion, cfg.hystart, cfg.details),
            peer: SendWindow::new(cfg.accept_window_shrink_same_ack),
            state: CaState::Open,
            linux: cfg.details == Details::Linux,
            timeouts: 0,
            reorder_armed: false,
            high_seq: 0,
            detector: Detector::Reno(reno::Reno::default()),
            prr: Prr::default(),
            frto: Frto::default(),
            undo: Undo::NONE,
            tlp: Tlp::default(),
            rtt: RttEstimator::new(cfg.rto_initial, cfg.rto_min, cfg.rto_min_on_variance, cfg.rto_max),
            timer: Timer::Idle,
            wheel: (Timer::Idle, None),
            use_prr: false,
            sack_ok: false,
            ecn_ok: false,
            force: false,
            prefer_new: false,
            probe_due: false,
            tlp_due: false,
            byte_probed: false,
            cwr_due: false,
            closing: false,
            cwnd_limited: false,
            max_flight: 0,
            usage_end: 0,
            sent_new: false,
            last_sent: Instant::ZERO,
            starved: true,
            frozen: None,
            rtt_from_ts: None,
            cfg: cfg.clone(),
        }
    }

    /// The handshake is done: `mss` payload bytes a segment, the peer's window from a segment with sequence `seq`.
    pub fn establish(
        &mut self,
        now: Instant,
        mss: u32,
        sack: bool,
        ecn: bool,
        window: u64,
        seq: linkhold_core::units::Seq,
    ) {
        self.started = now;
        self.last_sent = now;
        self.una = 1;
        self.nxt = 1;
        self.high_seq = 0;
        self.usage_end = 1;
        self.sack_ok = sack;
        self.ecn_ok = ecn;
        self.use_prr = sack && self.cfg.prr;
        let mss = mss.max(1);
        self.window.mss = u64::from(mss);
        self.window.cwnd = self.cfg.initial_window(mss);
        self.peer.open(window, seq, 1);
        self.detector = match self.cfg.recovery {
            Recovery::Reno => Detector::Reno(reno::Reno::default()),
            Recovery::NewReno => Detector::NewReno(newreno::NewReno::default()),
            Recovery::Sack if sack => Detector::Sack(sack::Sack::default()),
            Recovery::RackTlp if sack => Detector::Rack(Rack::default()),
            Recovery::Sack | Recovery::RackTlp => Detector::NewReno(newreno::NewReno::default()),
        };
    }

    /// RTT of the handshake (RFC 6298 section 3 counts a SYN sent once).
    pub fn handshake_rtt(&mut self, now: Instant, rtt: Duration) {
        self.rtt.sample(now, rtt, self.una, self.nxt);
    }

    /// The SYN was lost: RFC 5681 section 3.1 starts with one segment.
    pub fn syn_was_lost(&mut self) {
        self.window.cwnd = self.window.mss;
    }

    /// Sends a FIN after what the application has written (the peer has closed its side).
    pub fn close(&mut self) {
        if self.source == Source::None {
            self.closing = true;
        }
    }

    /// The application stops: what it has written so far is all there will be, and a FIN follows. A bulk source has
    /// written what was sent.
    pub fn end_source(&mut self, now: Instant) {
        let written = match self.source {
            Source::None | Source::Finite(_) => return,
            // A window probe's byte may have been taken: it is data, and the FIN comes after it.
            Source::Bulk => self.nxt.saturating_sub(1) + u64::from(self.byte_probed),
            Source::Paced { .. } => self.source.written(self.started, now),
        };
        self.source = Source::Finite(linkhold_core::units::Bytes(written));
    }

    /// End of what may be sent: data written, and the FIN.
    #[inline]
    fn limit(&self, now: Instant) -> u64 {
        let data_end = 1 + self.source.written(self.started, now);
        data_end + u64::from(self.has_fin())
    }

    #[inline]
    fn has_fin(&self) -> bool {
        self.closing || self.source.ends()
    }

    /// Offset of the FIN, if there will be one. A source that ends has written everything from the start.
    #[inline]
    fn fin_at(&self) -> Option<u64> {
        if self.has_fin() { Some(1 + self.source.written(self.started, self.started)) } else { None }
    }

    fn pipe(&self) -> u64 {
        self.board.pipe(self.una, self.nxt)
    }

    /// cwnd and what duplicate ACKs add to it.
    #[inline]
    fn usable_window(&self) -> u64 {
        let recovering = self.state == CaState::Recovery;
        let allowance = match &self.detector {
            Detector::Reno(reno) => reno.allowance(recovering, self.window.mss),
            Detector::NewReno(newreno) => newreno.reno.allowance(recovering, self.window.mss),
            Detector::Sack(_) | Detector::Rack(_) => 0,
        };
        self.window.cwnd.saturating_add_signed(allowance)
    }

    fn window_end(&self) -> u64 {
        self.una + self.peer.window()
    }

    fn plan(&self, start: u64, end: u64, retransmit: bool) -> Plan {
        let fin = self.fin_at().is_some_and(|at| end > at);
        let payload = (end - start) as u32 - u32::from(fin);
        Plan { start, payload, fin, retransmit, probe: false, cwr: false }
    }

    /// The next data segment or probe to send. `ts_value` is the TSval it will carry.
    pub fn poll(&mut self, now: Instant, ts_value: u32, stats: &mut Stats) -> Option<Plan> {
        if self.frozen.is_some() {
            return None;
        }
        if self.probe_due {
            self.probe_due = false;
            if let Some(plan) = self.probe(now, stats) {
                return Some(plan);
            }
        }
        if self.tlp_due {
            self.tlp_due = false;
            if let Some(plan) = self.tail_loss_probe(now, ts_value, stats) {
                return Some(plan);
            }
        }
        if !self.prefer_new
            && let Some(plan) = self.retransmission(now, ts_value)
        {
            return Some(plan);
        }
        if let Some(plan) = self.new_data(now) {
            return Some(plan);
        }
        if self.prefer_new && self.nxt <= self.high_seq {
            // F-RTO could not send new data after all (Linux tcp_xmit_recovery).
            self.prefer_new = false;
            self.frto.stop();
            if let Some(plan) = self.retransmission(now, ts_value) {
                return Some(plan);
            }
        }
        if let Some(plan) = self.without_new_data(now, ts_value) {
            return Some(plan);
        }
        self.settle(now);
        if let Some(tick) = self.cfg.timer_tick
            && self.wheel.0 != self.timer
        {
            self.wheel = (self.timer, self.timer.at().map(|at| wheel::fires_at(now, at, tick)));
        }
        None
    }

    /// RFC 6675 NextSeg rule 1; after a timeout, slow start through what is lost.
    fn retransmission(&mut self, now: Instant, ts_value: u32) -> Option<Plan> {
        let id = self.board.next_lost()?;
        let record = *self.board.get(id)?;
        if !self.force && self.pipe() + record.len() > self.usable_window() {
            return None;
        }
        self.retransmit(now, ts_value, id)
    }

    fn retransmit(&mut self, now: Instant, ts_value: u32, id: u32) -> Option<Plan> {
        let record = *self.board.get(id)?;
        // A receiver that shrank its window gets the first segment only: it serves as a probe (Linux
        // __tcp_retransmit_skb).
        if record.start >= self.window_end() && record.start != self.una {
            return None;
        }
        self.force = false;
        self.board.retransmitted(id, now);
        if matches!(self.state, CaState::Recovery | CaState::Loss) {
            // A tail loss probe is no part of an episode that undo could take back.
            self.undo.on_retransmit(ts_value);
        }
        self.sent(now, record.len());
        // Linux tcp_xmit_retransmit_queue: the head's retransmission gets a timeout of its own.
        let head_again = self.linux && record.start == self.una && !matches!(self.timer, Timer::Reorder(_));
        if self.timer == Timer::Idle || head_again {
            self.timer = Timer::Retransmit(now + self.rtt.rto());
        }
        Some(self.plan(record.start, record.end, true))
    }

    /// RFC 6675 NextSeg rules 3 and 4: nothing is lost for sure, and there is no new data.
    fn without_new_data(&mut self, now: Instant, ts_value: u32) -> Option<Plan> {
        if self.state != CaState::Recovery || self.pipe() + self.window.mss > self.usable_window() {
            return None;
        }
        if self.sendable(now) > 0 {
            return None;
        }
        let Detector::Sack(sack) = &mut self.detector else { return None };
        let id = sack.next_without_new_data(&self.board)?;
        self.retransmit(now, ts_value, id)
    }

    /// Bytes of new data that the application and the peer's window allow in one segment now.
    fn sendable(&self, now: Instant) -> u64 {
        let available = self.limit(now).saturating_sub(self.nxt);
        let end = self.window_end().min(self.una + self.cfg.send_buffer.0.max(self.window.mss));
        let room = end.saturating_sub(self.nxt);
        let mut segment = self.window.mss.min(available).min(room);
        // The FIN rides on a full last segment: it takes sequence space, not payload.
        if available == segment + 1 && segment == self.window.mss && room > segment && self.has_fin() {
            segment += 1;
        }
        // RFC 9293 section 3.8.6.2.1: a segment that only the window cuts short is sent if it is half of the largest
        // window; else data in flight, or the persist timer, will bring a better time.
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
        if self.pipe() + segment > self.usable_window() {
            self.note_usage(true);
            return None;
        }
        Some(self.send_new(now, segment))
    }

    fn send_new(&mut self, now: Instant, segment: u64) -> Plan {
        let start = self.nxt;
        let end = start + segment;
        if self.linux && self.pipe() == 0 {
            // Linux CA_EVENT_TX_START: the quiet before it does not count for the cubic.
            self.controller.on_quiet(now.since(self.last_sent));
        }
        self.board.push(start, end, now);
        self.nxt = end;
        self.sent_new = true;
        self.sent(now, segment);
        self.arm_after_new_data(now);
        let mut plan = self.plan(start, end, false);
        // RFC 3168 section 6.1.2: CWR on the first new data packet after the reduction.
        plan.cwr = core::mem::replace(&mut self.cwr_due, false);
        plan
    }

    fn sent(&mut self, now: Instant, bytes: u64) {
        self.last_sent = now;
        self.starved = false;
        if self.use_prr && self.state == CaState::Recovery {
            self.prr.on_sent(bytes);
        }
    }

    /// RFC 5681 section 4.1 and Linux `tcp_cwnd_restart`.
    fn restart_after_idle(&mut self, now: Instant) {
        let quiet = now.since(self.last_sent);
        let rto = self.rtt.rto();
        if quiet <= rto {
            return;
        }
        let initial = self.cfg.initial_window(self.window.mss as u32);
        let restart = initial.min(self.window.cwnd);
        match self.cfg.idle_restart {
            IdleRestart::Off => {}
            IdleRestart::RestartWindow => self.window.cwnd = restart,
            IdleRestart::HalveAtWrite if !self.starved => {}
            IdleRestart::HalveAtSend | IdleRestart::HalveAtWrite => {
                // tcp_current_ssthresh: what the window was good for is remembered, 3/4 of it.
                self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
                let mut left = quiet;
                while left > rto && self.window.cwnd > restart {
                    left = left.saturating_sub(rto);
                    self.window.cwnd /= 2;
                }
                self.window.cwnd = self.window.cwnd.max(restart);
            }
        }
        self.last_sent = now;
    }

    /// RFC 8985 section 7.3: new data if the peer's window allows, else the last segment again; cwnd is not asked.
    fn tail_loss_probe(&mut self, now: Instant, ts_value: u32, stats: &mut Stats) -> Option<Plan> {
        let segment = self.sendable(now);
        let plan = if segment > 0 {
            Some(self.send_new(now, segment))
        } else {
            self.board.back_id().and_then(|id| self.retransmit(now, ts_value, id))
        };
        if let Some(plan) = &plan {
            self.tlp.sent(self.nxt, plan.retransmit);
            stats.tlp_probes += 1;
        } else if self.linux {
            // Linux tcp_send_loss_probe: a probe that could not go (a closed window) does not put the timeout off.
            self.arm_rto_from_head(now);
            return None;
        }
        // Section 7.3: the RTO starts anew after the probe.
        self.timer = Timer::Retransmit(now + self.rtt.rto());
        plan
    }

    fn probe(&mut self, now: Instant, stats: &mut Stats) -> Option<Plan> {
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
            plan.probe = true;
            return Some(plan);
        }
        Some(match self.cfg.window_probe {
            WindowProbe::OldSequence => Plan {
                start: self.una - 1,
                payload: 0,
                fin: false,
                retransmit: false,
                probe: true,
                cwr: false,
            },
            WindowProbe::OneByte => {
                self.byte_probed = true;
                let mut plan = self.plan(self.nxt, self.nxt + 1, false);
                plan.probe = true;
                plan
            }
        })
    }

    /// Everything that may go has gone.
    fn settle(&mut self, now: Instant) {
        if core::mem::replace(&mut self.sent_new, false) {
            self.note_usage(self.pipe() + self.window.mss > self.usable_window());
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

    /// Linux `tcp_cwnd_validate`: was cwnd the limit during the last window of data?
    fn note_usage(&mut self, limited: bool) {
        let flight = self.nxt - self.una;
        if self.una >= self.usage_end || limited || (!self.cwnd_limited && flight > self.max_flight) {
            self.cwnd_limited = limited;
            self.max_flight = flight;
            self.usage_end = self.nxt;
        }
    }

    /// Linux `tcp_is_cwnd_limited`: slow start may grow to twice what was used.
    #[inline]
    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited || (self.window.in_slow_start() && self.window.cwnd < 2 * self.max_flight)
    }

    /// What a decrease starts from.
    fn reduction_basis(&self) -> u64 {
        match self.cfg.window_reduction {
            WindowReduction::FromCwnd => self.window.cwnd,
            WindowReduction::FromFlight => (self.nxt - self.una).min(self.window.cwnd),
        }
    }

    pub fn una(&self) -> u64 {
        self.una
    }
    pub fn nxt(&self) -> u64 {
        self.nxt
    }
    pub fn window(&self) -> &Window {
        &self.window
    }
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    pub fn in_flight(&self) -> u64 {
        self.pipe()
    }
    pub fn peer_window(&self) -> u64 {
        self.peer.window()
    }

    /// True once a FIN is sent and acknowledged.
    pub fn fin_acknowledged(&self) -> bool {
        self.fin_at().is_some_and(|at| self.una > at)
    }

    /// Application bytes acknowledged.
    pub fn acknowledged(&self) -> u64 {
        let end = self.fin_at().map_or(self.una, |at| self.una.min(at));
        end.saturating_sub(1)
    }
}
