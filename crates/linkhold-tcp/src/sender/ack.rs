//! What an ACK does to the sender.
//!
//! Source: RFC 9293 section 3.10.7.4, RFC 5681, 6582, 6675, 8985, 5682, 3522/4015, 3168; the order of steps
//! is that of Linux `tcp_ack` and `tcp_fastretrans_alert`.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;

use super::{AckIn, Motion, Order, Reduction, Sender, Timer};
use crate::congestion::Window;
use crate::persist::WindowChange;
use crate::recovery::CaState;
use crate::scoreboard::AckSummary;
use crate::stats::Stats;

/// What the steps that one ACK takes tell each other.
pub(super) struct Step<'a> {
    pub now: Instant,
    pub echo: Option<u32>,
    pub acked: u64,
    pub duplicate: bool,
    /// RTT of the youngest segment that it acknowledges or SACKs, if it tells one.
    pub rtt: Option<Duration>,
    /// Losses counted before it.
    pub losses: u64,
    /// It has set the reordering timer, which then stays (Linux clears FLAG_SET_XMIT_TIMER).
    pub reordering_timer: bool,
    pub summary: &'a AckSummary,
}

impl Sender {
    /// Takes an ACK without options in while the sender [is silent](Self::is_silent). False if it
    /// acknowledges what was never sent.
    #[inline]
    pub fn hear_window(&mut self, seq: Seq, ack: u64, window: u64, stats: &mut Stats) -> bool {
        if ack > self.nxt {
            return false;
        }
        let change = self.peer.update(seq, ack, window);
        stats.zero_windows_in += u64::from(change == WindowChange::Closed);
        true
    }

    /// Takes an ACK in. `ts_now` is the timestamp clock. False if it acknowledges what was never sent.
    #[inline(always)]
    pub fn on_ack(&mut self, now: Instant, ts_now: u32, ack: &AckIn, stats: &mut Stats) -> bool {
        // A frozen sender's clock stands still.
        let (now, frozen) = (self.motion.clock(now), self.motion.is_frozen());
        self.take_probed_byte(ack);
        if ack.ack > self.nxt {
            return false;
        }
        let change = self.peer.update(ack.seq, ack.ack, ack.window);
        stats.zero_windows_in += u64::from(change == WindowChange::Closed);
        if ack.ack < self.una {
            return true;
        }
        if ack.ack > self.una {
            self.byte_probe = None;
        }
        let flight_before = self.flight_for_model();

        let mut summary = AckSummary {
            echo_before: ack.echo.and_then(|echo| sent_before(now, ts_now, echo)),
            ..AckSummary::default()
        };
        let losses = self.board.losses();
        let acked = self.update_board(ack, &mut summary);
        let duplicate = self.is_duplicate(ack, acked, change, &summary);
        stats.dup_acks_in += u64::from(duplicate && acked == 0);
        let rtt = self.take_rtt_sample(now, ts_now, ack, &summary, acked);

        let probe_came_twice = ack.dsack.is_some_and(|dsack| self.hear_dsack(dsack, stats));
        self.detector.on_delivered(now, &summary, self.rtt.min_rtt());
        let sack_rearms = self.quirks.sack_of_older_restarts_timer()
            && self
                .board
                .front()
                .is_some_and(|head| summary.first_sacked.is_some_and(|(at, _)| at < head.sent));
        if acked > 0 {
            self.peer.reset_probes();
            if (frozen || !self.quirks.timer_follows_state()) && !self.partial_ack_keeps_timer() {
                self.rearm(now);
            }
        }
        if change == WindowChange::Opened && self.board.is_empty() {
            self.timer = Timer::Idle;
        }

        if frozen {
            // What was lost or spurious is found at the first ACK after the thaw; until then nothing moves
            // the window.
            if let Some(model) = &mut self.model {
                model.on_frozen_ack(&summary);
            }
            if acked > 0 {
                self.forget_acknowledged(acked);
            }
            return true;
        }
        let mut step = Step {
            now,
            echo: ack.echo,
            acked,
            duplicate,
            rtt,
            losses,
            reordering_timer: false,
            summary: &summary,
        };
        let bare_duplicate = acked == 0 && ack.bare && summary.sacked == 0;
        if self.tlp.on_ack(ack.ack, probe_came_twice, bare_duplicate) && self.state == CaState::Open {
            // RFC 8985 section 7.4.2: the probe repaired a loss; that is congestion.
            self.reduce_once();
            self.state = CaState::Open;
        }
        self.alert(&mut step, ack.ece, stats);
        if (acked > 0 || sack_rearms) && !step.reordering_timer && self.quirks.timer_follows_state() {
            self.rearm(now);
        }
        if let Some(flight_before) = flight_before {
            self.ask_model(&step, flight_before);
        }
        true
    }

    /// What waited for this ACK of a frozen sender is over: a tail loss probe, duplicates counted, a recovery
    /// without SACK, whose inflated window a thaw would otherwise send at once. The window stays as it is.
    #[cold]
    fn forget_acknowledged(&mut self, acked: u64) {
        self.tlp.answer_below(self.una);
        let recovering = self.state == CaState::Recovery;
        let mss = self.window.mss;
        if self.detector.on_frozen_advance(acked, recovering, self.una >= self.high_seq, mss) {
            self.state = CaState::Open;
            self.order = Order::LostFirst;
        }
        if self.state == CaState::Cwr && self.reduction == Reduction::Conserving {
            // What was delivered reduces the window, and would do so no more after the thaw.
            let Window { cwnd, ssthresh, .. } = self.window;
            self.window.cwnd = cwnd.min(ssthresh.max(self.pipe()));
        }
    }

    /// If the receiver took the byte of a window probe, it was new data.
    #[inline(always)]
    fn take_probed_byte(&mut self, ack: &AckIn) {
        if ack.ack == self.nxt + 1
            && let Some(probe) = self.byte_probe
            && self.board.is_empty()
        {
            self.board.push(self.nxt, self.nxt + 1, probe.sent);
            if probe.untimed {
                self.board.was_sent_again(self.nxt);
            }
            self.nxt += 1;
        }
    }

    /// Moves SND.UNA, and notes on the scoreboard what the ACK tells of. Answers the bytes that it newly
    /// acknowledges cumulatively; what else is new is added to `summary`.
    #[inline(always)]
    fn update_board(&mut self, ack: &AckIn, summary: &mut AckSummary) -> u64 {
        self.board.original_limit = self.high_seq;
        if self.hears_sacks && ack.blocks[0] != (0, 0) {
            self.board.sack(&ack.blocks, summary);
        }
        let acked = ack.ack - self.una;
        if acked > 0 {
            self.board.acknowledge(ack.ack, summary);
            self.una = ack.ack;
            self.timeouts = 0;
            if !self.hears_sacks && summary.retransmission_acked {
                // Without SACK an ACK over a retransmission may stand for it alone (Linux
                // tcp_clean_rtx_queue).
                summary.original_delivered = false;
            }
        }
        acked
    }

    /// A segment, or several, arrived twice. True if it is the tail loss probe (RFC 8985 section 7.4.2: the
    /// block ends where the probe does).
    #[cold]
    fn hear_dsack(&mut self, (start, end): (u64, u64), stats: &Stats) -> bool {
        if !self.quirks.doubts_dsacks() {
            self.undo.on_dsack(end, 1);
            self.detector.on_dsack(self.una, self.nxt);
            return self.tlp.ends_at(end);
        }
        if end - start > self.peer.largest() {
            // More than was ever on its way.
            return false;
        }
        let segments = (end - start).div_ceil(self.window.mss);
        let of_probe = segments == 1 && self.tlp.ends_at(end);
        self.dsacked += segments;
        if self.dsacked > stats.retransmits + stats.syn_retransmits {
            return of_probe;
        }
        self.undo.on_dsack(end, segments);
        if self.detector.has_seen_reordering() && !of_probe {
            self.detector.on_dsack(self.una, self.nxt);
        }
        of_probe
    }

    /// RFC 6582 section 3.2 step 3: of the partial ACKs of one recovery only the first restarts the timer,
    /// which [`Detector::on_partial`](crate::recovery::Detector::on_partial) says. A recovery that would take
    /// long is so cut short by the timeout.
    #[inline]
    fn partial_ack_keeps_timer(&self) -> bool {
        self.state == CaState::Recovery
            && self.una < self.high_seq
            && self.detector.times_partial_acks()
            && !self.quirks.partial_ack_restarts_timer()
    }

    /// RFC 5681 section 2: outstanding data, no payload, no window change, the same acknowledgment number.
    /// With SACK (RFC 6675 section 2): it SACKs something new.
    #[inline(always)]
    fn is_duplicate(&self, ack: &AckIn, acked: u64, change: WindowChange, summary: &AckSummary) -> bool {
        if self.hears_sacks {
            summary.sacked > 0
        } else {
            acked == 0 && ack.bare && change == WindowChange::None && !self.board.is_empty()
        }
    }

    fn take_rtt_sample(
        &mut self,
        now: Instant,
        ts_now: u32,
        ack: &AckIn,
        summary: &AckSummary,
        acked: u64,
    ) -> Option<Duration> {
        let first_echo = match self.motion {
            Motion::Frozen { .. } => return None,
            Motion::Running => None,
            Motion::Thawed { first_echo } => Some(first_echo),
        };
        let since = |sent: Option<Instant>| sent.map(|sent| now.since(sent));
        // RFC 6298 section 3, Karn: only segments sent once; RFC 7323 section 4.1 (RTTM): timestamps
        // otherwise, and only when new data is acknowledged.
        let first_sacked = summary.first_sacked.and_then(|(sent, timed)| timed.then_some(sent));
        let sacked = if self.quirks.sacks_time_before_timestamps() { since(first_sacked) } else { None };
        let rtt = if let Some(sent) = summary.first_sent {
            Some(now.since(sent))
        } else if sacked.is_some() {
            sacked
        } else if let (true, Some(echo)) = (acked > 0, ack.echo)
            && first_echo.is_none_or(|from| (echo.wrapping_sub(from) as i32) >= 0)
        {
            Some(Duration::from_millis(u64::from(ts_now.wrapping_sub(echo).max(1))))
        } else {
            summary.sacked_sent.map(|sent| now.since(sent))
        };
        if let Some(rtt) = rtt {
            self.rtt.sample(now, rtt, self.una, self.nxt);
            self.rtt.reset_backoff();
        }
        if self.quirks.controller_hears_every_rtt() {
            since(summary.sacked_sent).or(since(summary.last_sent)).or(rtt)
        } else {
            since(summary.last_sent)
        }
    }
}

/// The start of the millisecond after the one that `echo` names: what was sent from then on carries a later
/// timestamp.
fn sent_before(now: Instant, ts_now: u32, echo: u32) -> Option<Instant> {
    let age = u64::from(ts_now.wrapping_sub(echo));
    let now = now.as_nanos() / 1_000_000;
    // An echo from the future, or from before this clock began, says nothing.
    if age > now { None } else { Some(Instant::from_millis(now - age + 1)) }
}
