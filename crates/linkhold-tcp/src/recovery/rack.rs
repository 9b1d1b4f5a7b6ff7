//! RACK-TLP: losses are found by transmission time, tail losses by a probe.
//!
//! Source: RFC 8985, sections 6 (RACK) and 7 (TLP); the probe timeout's constants are Linux's
//! (`tcp_schedule_loss_probe`).
//! Sees what each ACK newly delivered; marks segments lost, or asks for a reordering timer. The reordering
//! window is zero in recovery, or with DupThresh segments SACKed, until reordering has been seen, as in the
//! RFC and in Linux.

use linkhold_core::time::{Duration, Instant};

use super::DUP_THRESH;
use crate::scoreboard::{Delivered, Scoreboard};

/// RFC 8985 section 6.2 step 4: recoveries for which a widened reordering window persists.
const REO_WND_PERSIST: u32 = 16;
/// Linux TCP_TIMEOUT_MIN_US: 2 ms. Added to a probe's two round trips, and by Linux to the reordering timer.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(2);
/// RFC 8985 section 7.2 WCDelAckT, the worst delayed ACK. Linux takes its rto_min.
pub(crate) const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);
/// RFC 8985 section 7.2: PTO before any RTT sample.
const PTO_INITIAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rack {
    /// RACK.segment: the most recently sent segment that was delivered.
    latest: Option<Delivered>,
    rtt: Duration,
    reordering_seen: bool,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    /// RACK.dsack_round: no second widening until this offset is acknowledged.
    dsack_round: Option<u64>,
    /// The latest segment moved on since the last detection.
    advanced: bool,
}

/// What RACK knows of the path when it sizes the reordering window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathTimes {
    pub min_rtt: Option<Duration>,
    pub srtt: Option<Duration>,
    pub recovering: bool,
}

/// Outcome of a look at the outstanding segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Detected {
    pub lost: bool,
    /// Look again after this long.
    pub wait: Option<Duration>,
}

impl Rack {
    /// Section 6.2 step 2: the latest delivered segment and its RTT.
    pub fn on_delivered(&mut self, now: Instant, newest: &Delivered, min_rtt: Option<Duration>) {
        let rtt = now.since(newest.sent);
        // "If the segment was retransmitted ... and RTT < min_RTT: the ACK was for the original": ignore.
        if newest.ever_retransmitted && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        let newer = match self.latest {
            None => true,
            Some(latest) => (newest.sent, newest.end) > (latest.sent, latest.end),
        };
        if newer {
            self.latest = Some(*newest);
            self.rtt = rtt;
            self.advanced = true;
        }
    }

    /// Section 6.2 step 3: a segment came after one sent later.
    pub fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    pub const fn has_seen_reordering(&self) -> bool {
        self.reordering_seen
    }

    /// Section 6.2 step 4: a D-SACK widens the window, once per round trip.
    pub fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|round| una < round) {
            return;
        }
        self.dsack_round = Some(nxt);
        self.reo_wnd_mult = (self.reo_wnd_mult.max(1) + 1).min(255);
        self.reo_wnd_persist = REO_WND_PERSIST;
    }

    /// Section 6.2 step 4: sixteen recoveries without D-SACK take the widening back.
    pub fn on_recovery_exit(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Section 6.2 step 4: RACK_update_reo_wnd.
    fn reo_wnd(&self, board: &Scoreboard, path: PathTimes) -> Duration {
        if !self.reordering_seen && (path.recovering || board.sacked_segments() >= DUP_THRESH) {
            return Duration::ZERO;
        }
        let quarter = path.min_rtt.map_or(0, |min| min.as_nanos() / 4);
        let wnd = Duration::from_nanos(quarter.saturating_mul(u64::from(self.reo_wnd_mult.max(1))));
        path.srtt.map_or(wnd, |srtt| wnd.min(srtt))
    }

    /// Detection after an ACK: nothing to do unless the latest delivered segment moved on.
    #[inline]
    pub fn detect_on_ack(&mut self, board: &mut Scoreboard, now: Instant, path: PathTimes) -> Detected {
        if !core::mem::replace(&mut self.advanced, false) {
            return Detected::default();
        }
        self.detect(board, now, path)
    }

    /// Section 6.2 step 5: RACK_detect_loss.
    pub fn detect(&mut self, board: &mut Scoreboard, now: Instant, path: PathTimes) -> Detected {
        let mut detected = Detected::default();
        let Some(latest) = self.latest else { return detected };
        let mut at = board.oldest();
        // Most ACKs find every earlier transmission gone.
        let oldest = at.and_then(|id| board.get(id));
        if oldest.is_none_or(|record| (record.sent, record.end()) >= (latest.sent, latest.end)) {
            return detected;
        }
        let allowed = self.rtt + self.reo_wnd(board, path);
        while let Some(id) = at {
            let Some(record) = board.get(id) else { break };
            if (record.sent, record.end()) >= (latest.sent, latest.end) {
                break;
            }
            at = board.after(id);
            let deadline = record.sent + allowed;
            if deadline <= now {
                detected.lost |= board.mark_lost(id);
            } else {
                // Nanosecond ties would fire just before the deadline: one more makes it pass.
                let wait = deadline.since(now) + Duration::from_nanos(1);
                detected.wait = Some(detected.wait.map_or(wait, |longest| longest.max(wait)));
            }
        }
        detected
    }

    /// RFC 8985 section 6.3: on a timeout the head is lost, and what RACK gives no more time.
    pub fn spare_on_timeout(&self, sent: Instant, now: Instant, board_reo_wnd: Duration) -> bool {
        sent + self.rtt + board_reo_wnd > now
    }

    pub fn timeout_reo_wnd(&self, board: &Scoreboard, path: PathTimes) -> Duration {
        self.reo_wnd(board, path)
    }

    /// Looks at everything again at the next ACK (losses were taken back).
    pub fn look_again(&mut self) {
        self.advanced = true;
    }

    /// The clock stood still for `by`.
    pub fn shift_times(&mut self, by: Duration) {
        if let Some(latest) = &mut self.latest {
            latest.sent += by;
        }
    }
}

/// Tail loss probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tlp {
    /// TLP.end_seq: SND.NXT when the outstanding probe was sent.
    end_seq: Option<u64>,
    /// TLP.is_retrans.
    is_retransmission: bool,
    /// It is acknowledged, by which copy nobody can tell any more.
    answered: bool,
}

impl Tlp {
    pub fn outstanding(&self) -> bool {
        self.end_seq.is_some() && !self.answered
    }

    /// Section 7.3: the probe was sent.
    pub fn sent(&mut self, nxt: u64, retransmission: bool) {
        self.end_seq = Some(nxt);
        self.is_retransmission = retransmission;
        self.answered = false;
    }

    /// True if a probe is outstanding that ended at `end`.
    pub fn ends_at(&self, end: u64) -> bool {
        self.end_seq == Some(end)
    }

    pub fn reset(&mut self) {
        self.end_seq = None;
    }

    /// Everything up to `una` is acknowledged, and nothing follows from that.
    pub fn answer_below(&mut self, una: u64) {
        self.answered |= self.end_seq.is_some_and(|end| end <= una);
    }

    /// Section 7.4.2, TLP_process_ack: true if the probe repaired a loss, which wants a congestion response.
    pub fn on_ack(&mut self, ack: u64, dsack: bool, duplicate_without_sack: bool) -> bool {
        let Some(end) = self.end_seq else { return false };
        if ack < end {
            return false;
        }
        if self.answered {
            // A D-SACK may still come, and is the probe's.
            self.end_seq.take_if(|end| ack > *end);
            return false;
        }
        if !self.is_retransmission || dsack {
            // Steps 1 and 2: nothing was repeated, or both copies arrived.
            self.end_seq = None;
        } else if ack > end {
            // Step 3: new data beyond the probe, and no D-SACK: only the probe got through.
            self.end_seq = None;
            return true;
        } else if duplicate_without_sack {
            // Step 4: a duplicate ACK for the probe: both copies arrived.
            self.end_seq = None;
        }
        false
    }

    /// Section 7.2, TLP_calc_PTO: 2*SRTT, plus the worst delayed ACK when a single segment is out.
    pub fn timeout(srtt: Option<Duration>, segments: u32, worst_delayed_ack: Duration) -> Duration {
        match srtt {
            None => PTO_INITIAL,
            Some(srtt) => srtt * 2 + if segments == 1 { worst_delayed_ack } else { TIMEOUT_MIN },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoreboard::AckSummary;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    const PATH: PathTimes = PathTimes {
        min_rtt: Some(Duration::from_millis(40)),
        srtt: Some(Duration::from_millis(40)),
        recovering: false,
    };

    /// Four segments sent 1 ms apart from t = 0; the ACK at `now` SACKs the segments `sacked`.
    fn sacked(sacked: core::ops::Range<u64>, now: Instant) -> (Rack, Scoreboard) {
        let mut board = Scoreboard::new();
        for i in 0..6 {
            board.push(i * 1000, (i + 1) * 1000, at(i));
        }
        let mut summary = AckSummary::default();
        board.sack(&[(sacked.start * 1000, sacked.end * 1000), (0, 0), (0, 0), (0, 0)], &mut summary);
        let mut rack = Rack::default();
        rack.on_delivered(now, &summary.newest.unwrap(), PATH.min_rtt);
        (rack, board)
    }

    #[test]
    fn one_later_delivery_waits_a_quarter_of_the_rtt_for_reordering() {
        // Segment 1 arrives without segment 0 (RFC 8985 section 3.1's case of few packets).
        let (mut rack, mut board) = sacked(1..2, at(41));
        let detected = rack.detect_on_ack(&mut board, at(41), PATH);
        // Segment 0 has until sent (0) + RTT (40) + reo_wnd (10) = 50 ms.
        assert_eq!(detected, Detected { lost: false, wait: Some(ms(9) + Duration::from_nanos(1)) });
        assert!(rack.detect(&mut board, at(51), PATH).lost);
        assert_eq!(board.next_lost(), Some(0));
    }

    #[test]
    fn three_sacked_segments_need_no_wait_while_no_reordering_was_seen() {
        let (mut rack, mut board) = sacked(1..4, at(43));
        assert!(rack.detect_on_ack(&mut board, at(43), PATH).lost);
        let (mut rack, mut board) = sacked(1..4, at(43));
        rack.on_reordering();
        assert!(!rack.detect_on_ack(&mut board, at(43), PATH).lost);
    }

    #[test]
    fn a_lost_retransmission_is_found_by_a_later_delivery() {
        let (mut rack, mut board) = sacked(1..4, at(43));
        rack.detect_on_ack(&mut board, at(43), PATH);
        board.retransmitted(0, at(43));
        board.push(6000, 7000, at(44));
        let mut summary = AckSummary::default();
        board.sack(&[(1000, 7000), (0, 0), (0, 0), (0, 0)], &mut summary);
        rack.on_delivered(at(84), &summary.newest.unwrap(), PATH.min_rtt);
        let path = PathTimes { recovering: true, ..PATH };
        assert!(rack.detect_on_ack(&mut board, at(84), path).lost, "sent at 43, and one sent at 44 is there");
    }

    #[test]
    fn the_ack_of_an_original_does_not_pass_for_its_retransmission() {
        let mut rack = Rack::default();
        let early = Delivered { id: 0, end: 1000, sent: at(100), ever_retransmitted: true, timed: true };
        rack.on_delivered(at(110), &early, Some(ms(40)));
        assert!(rack.latest.is_none(), "10 ms after the retransmission on a 40 ms path");
    }

    #[test]
    fn a_dsack_widens_the_window_for_sixteen_recoveries() {
        let mut rack = Rack::default();
        let board = Scoreboard::new();
        rack.on_reordering();
        assert_eq!(rack.reo_wnd(&board, PATH), ms(10));
        rack.on_dsack(0, 5000);
        rack.on_dsack(100, 5000);
        assert_eq!(rack.reo_wnd(&board, PATH), ms(20), "once per round trip");
        for _ in 0..16 {
            rack.on_recovery_exit();
        }
        assert_eq!(rack.reo_wnd(&board, PATH), ms(10));
    }

    #[test]
    fn what_a_probe_answered() {
        // (probe repeats data, ack, D-SACK, bare duplicate, congestion response): probe outstanding at 5000.
        let table = [
            (false, 5000, false, false, false),
            (true, 6000, false, false, true),
            (true, 6000, true, false, false),
            (true, 5000, false, true, false),
            (true, 4000, false, false, false),
        ];
        for (repeats, ack, dsack, duplicate, response) in table {
            let mut tlp = Tlp::default();
            tlp.sent(5000, repeats);
            assert_eq!(tlp.on_ack(ack, dsack, duplicate), response, "{repeats} {ack} {dsack} {duplicate}");
        }
    }

    #[test]
    fn the_probe_waits_longer_for_a_single_segment() {
        assert_eq!(Tlp::timeout(Some(ms(40)), 1, WORST_DELAYED_ACK), ms(280));
        assert_eq!(Tlp::timeout(Some(ms(40)), 1, ms(1000)), ms(1080));
        assert_eq!(Tlp::timeout(Some(ms(40)), 5, ms(1000)), ms(82));
        assert_eq!(Tlp::timeout(None, 5, WORST_DELAYED_ACK), ms(1000));
    }
}
