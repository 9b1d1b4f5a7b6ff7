//! The kernel's sender as a congestion control sees it: which calls come, in which order, and what the kernel
//! does to the window between them.
//!
//! Sources: RFC 6675 and RFC 8985 (what counts as lost; here: three segments sent later have arrived; loss
//! probes), RFC 6937 (PRR), RFC 5681 section 4.1 (restart after idle time), RFC 7661 and RFC 2861 (a window
//! that is not used). The order of the calls is Linux's (`tcp_ack`, `tcp_fastretrans_alert`,
//! `tcp_enter_loss`, `tcp_write_xmit`): from memory and from what tests on 6.18 showed, not checked against
//! its source line by line.
//!
//! A segment is one number long. Acknowledgments carry all that the receiver has. The network keeps the
//! order; whether a retransmission proves spurious (an undo) is the test's choice, not derived.

use std::collections::{BTreeSet, VecDeque};

use super::{Board, Call, Program};

pub(super) const OPEN: u32 = 0;
pub(super) const DISORDER: u32 = 1;
pub(super) const CWR: u32 = 2;
pub(super) const RECOVERY: u32 = 3;
pub(super) const LOSS: u32 = 4;

const TX_START: u32 = 0;
const CWND_RESTART: u32 = 1;
const COMPLETE_CWR: u32 = 2;
const EVENT_LOSS: u32 = 3;

/// TCP_INFINITE_SSTHRESH.
pub(super) const INFINITE: u32 = 0x7fff_ffff;
/// The first RTO, ms, and the longest; one jiffy of a kernel with HZ=250.
const RTO_MS: u64 = 200;
const RTO_MAX_MS: u64 = 120_000;
const JIFFY_MS: u64 = 4;
const INITIAL_WINDOW: u32 = 10;
/// What the receiver's window and the sender's buffer allow, segments.
const ROOM: usize = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Lost,
    Sacked,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    fate: Fate,
    /// Number of its last transmission, counted over the connection.
    order: u64,
    /// When it was sent; `None` once it was sent again, which says nothing of the round trip (Karn).
    sent_ms: Option<u64>,
}

/// Which congestion control the sender has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    pub cubic: bool,
    /// True: the eBPF program around the algorithm; false: the algorithm itself.
    pub shield: bool,
}

pub(super) struct Sender<'a> {
    program: &'a Program,
    pub control: Control,
    pub board: Board,
    /// Segments from snd_una to snd_nxt.
    flight: VecDeque<Segment>,
    transmitted: u64,
    /// Segments that the application has given and nobody has sent.
    pub backlog: u64,
    /// Whether the radio carries nothing.
    pub silent: bool,
    /// What is under way: sequence number and transmission.
    air: VecDeque<(u32, u64)>,
    received: BTreeSet<u32>,
    next_expected: u32,
    newest: u64,
    high_seq: u32,
    undo_possible: bool,
    prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    /// Segments sent and neither acknowledged nor SACKed: before the ACK or echo that is looked at, and
    /// before the one that began the last reduction.
    outstanding_before: u32,
    outstanding_then: u32,
    retransmits: u32,
    rto_ms: u64,
    timer_ms: Option<u64>,
    last_sent_ms: u64,
    /// Most in flight since the window was last checked or used up.
    used: u32,
    /// Most in flight of this round trip, where the round trip ends, and whether cwnd was the limit in it.
    most_out: u32,
    most_until: u32,
    filled: bool,
    /// Reductions that the kernel asked the threshold for, and timeouts.
    pub reductions: u64,
    pub timeouts: u64,
}

impl<'a> Sender<'a> {
    /// A new connection at this sequence number and these jiffies.
    pub(super) fn new(program: &'a Program, control: Control, seq: u32, jiffies: u64) -> Self {
        let board = Board {
            now_ns: 5_000_000_000,
            jiffies,
            memory: 1,
            ifindex: 3,
            radio: 3,
            cwnd: INITIAL_WINDOW,
            ssthresh: INFINITE,
            cwnd_stamp: jiffies as u32,
            snd_nxt: seq,
            snd_una: seq,
            ..Board::default()
        };
        let mut this = Self {
            program,
            control,
            board,
            flight: VecDeque::new(),
            transmitted: 0,
            backlog: 0,
            silent: false,
            air: VecDeque::new(),
            received: BTreeSet::new(),
            next_expected: seq,
            newest: 0,
            high_seq: seq,
            undo_possible: false,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            outstanding_before: 0,
            outstanding_then: 0,
            retransmits: 0,
            rto_ms: RTO_MS,
            timer_ms: None,
            last_sent_ms: 0,
            used: 0,
            most_out: 0,
            most_until: seq,
            filled: false,
            reductions: 0,
            timeouts: 0,
        };
        this.call(Call::Init, 0);
        this
    }

    fn call(&mut self, call: Call, with: u32) -> u32 {
        let count = |fate| self.flight.iter().filter(|segment| segment.fate == fate).count() as u32;
        (self.board.packets_out, self.board.sacked_out) = (self.flight.len() as u32, count(Fate::Sacked));
        // What is sent again counts as under way here, and no more as lost.
        (self.board.lost_out, self.board.retrans_out) = (count(Fate::Lost), 0);
        self.program.call(&mut self.board, self.control.cubic, self.control.shield, call, with)
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.board.now_ns / 1_000_000
    }

    pub(super) fn state(&self) -> u32 {
        self.board.ca_state
    }

    /// Segments sent and not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.flight.len()
    }

    /// Transmissions that have not arrived and are not lost.
    pub(super) fn under_way(&self) -> usize {
        self.air.len()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.flight.iter().filter(|segment| segment.fate == Fate::UnderWay).count() as u32
    }

    fn outstanding(&self) -> u32 {
        self.flight.iter().filter(|segment| segment.fate != Fate::Sacked).count() as u32
    }

    /// The largest window to which PRR (RFC 6937) can set cwnd now, where ssthresh is at most `most`; `None`
    /// outside of a reduction. Below ssthresh it fills up to ssthresh. Above it sends at most one segment for
    /// one that was delivered, as long as ssthresh is no larger than the window was when the reduction began;
    /// so there is never more in flight than was outstanding then. The one segment more is the first
    /// retransmission, which goes whatever is in flight.
    pub(super) fn most_by_prr(&self, most: u32) -> Option<u32> {
        self.reducing().then(|| most.max(self.outstanding_then) + 1)
    }

    fn set_state(&mut self, state: u32) {
        self.call(Call::SetState, state);
        self.board.ca_state = state;
    }

    fn reducing(&self) -> bool {
        matches!(self.state(), CWR | RECOVERY)
    }

    /// tcp_current_ssthresh.
    fn current_ssthresh(&self) -> u32 {
        if self.reducing() {
            self.board.ssthresh
        } else {
            self.board.ssthresh.max(self.board.cwnd / 2 + self.board.cwnd / 4)
        }
    }

    /// The application writes.
    pub(super) fn write(&mut self, segments: u64) {
        let idle_ms = self.now_ms() - self.last_sent_ms;
        if self.flight.is_empty() && idle_ms > self.rto_ms {
            self.call(Call::CwndEvent, CWND_RESTART);
            self.board.ssthresh = self.current_ssthresh();
            let least = INITIAL_WINDOW.min(self.board.cwnd);
            let halvings = (idle_ms / self.rto_ms).saturating_sub(1).min(31);
            self.board.cwnd = (self.board.cwnd >> halvings).max(least);
            self.stamp();
            self.used = 0;
        }
        self.backlog += segments;
        self.transmit();
    }

    fn stamp(&mut self) {
        self.board.cwnd_stamp = self.board.jiffies as u32;
    }

    /// Sends what cwnd allows: what is lost first.
    fn transmit(&mut self) {
        let mut sent = false;
        while self.in_flight() < self.board.cwnd {
            let lost = self.flight.iter().position(|segment| segment.fate == Fate::Lost);
            if lost.is_none() && (self.backlog == 0 || self.flight.len() >= ROOM) {
                break;
            }
            self.put_on_air(lost);
            sent = true;
        }
        self.look_at_use();
        if sent {
            self.validate();
        }
    }

    fn put_on_air(&mut self, lost: Option<usize>) {
        if self.in_flight() == 0 {
            self.call(Call::CwndEvent, TX_START);
        }
        self.transmitted += 1;
        let sent_ms = lost.is_none().then(|| self.now_ms());
        let segment = Segment { fate: Fate::UnderWay, order: self.transmitted, sent_ms };
        let seq = match lost {
            Some(index) => {
                self.flight[index] = segment;
                self.board.snd_una.wrapping_add(index as u32)
            }
            None => {
                self.flight.push_back(segment);
                self.backlog -= 1;
                self.board.snd_nxt = self.board.snd_nxt.wrapping_add(1);
                self.board.snd_nxt.wrapping_sub(1)
            }
        };
        self.prr_out += 1;
        self.last_sent_ms = self.now_ms();
        if self.timer_ms.is_none() {
            self.timer_ms = Some(self.now_ms() + self.rto_ms);
        }
        if !self.silent {
            self.air.push_back((seq, self.transmitted));
        }
    }

    /// tcp_is_cwnd_limited: in slow start a window counts as used while more than half of it was, in a round
    /// trip.
    fn look_at_use(&mut self) {
        let (out, full) = (self.flight.len() as u32, self.in_flight() >= self.board.cwnd);
        let over = (self.board.snd_una.wrapping_sub(self.most_until) as i32) >= 0;
        if over || full || (!self.filled && out > self.most_out) {
            (self.most_out, self.most_until, self.filled) = (out, self.board.snd_nxt, full);
        }
        let slow_start = self.board.cwnd < self.board.ssthresh;
        let limited = self.filled || (slow_start && self.board.cwnd < 2 * self.most_out);
        self.board.cwnd_limited = u32::from(limited);
    }

    /// tcp_cwnd_validate: a window that is not used for an RTO is cut, and no callback says so.
    fn validate(&mut self) {
        if self.board.cwnd_limited != 0 {
            self.used = 0;
            self.stamp();
            return;
        }
        self.used = self.used.max(self.flight.len() as u32);
        let age = (self.board.jiffies as u32).wrapping_sub(self.board.cwnd_stamp);
        if u64::from(age) * JIFFY_MS >= self.rto_ms && age < 1 << 31 {
            let used = self.used.max(INITIAL_WINDOW);
            if self.state() == OPEN && used < self.board.cwnd {
                self.board.ssthresh = self.current_ssthresh();
                self.board.cwnd = (self.board.cwnd + used) / 2;
            }
            self.used = 0;
            self.stamp();
        }
    }

    /// The next `count` transmissions arrive, but for those whose bit of `lose` is set; `spurious`: what
    /// comes back proves the last reduction unnecessary.
    pub(super) fn deliver(&mut self, count: usize, lose: u64, ack_lost: bool, spurious: bool) {
        for at in 0..count {
            let Some((seq, order)) = self.air.pop_front() else { return };
            if lose >> (at % 64) & 1 == 1 {
                continue;
            }
            self.newest = self.newest.max(order);
            if (seq.wrapping_sub(self.next_expected) as i32) >= 0 {
                self.received.insert(seq);
            }
            while self.received.remove(&self.next_expected) {
                self.next_expected = self.next_expected.wrapping_add(1);
            }
            if !ack_lost {
                self.on_ack(spurious);
            }
        }
    }

    fn on_ack(&mut self, spurious: bool) {
        self.outstanding_before = self.outstanding();
        let (mut acked, mut delivered) = (0, 0);
        while self.board.snd_una != self.next_expected {
            let Some(segment) = self.flight.pop_front() else { break };
            delivered += u32::from(segment.fate != Fate::Sacked);
            acked += 1;
            if let Some(sent_ms) = segment.sent_ms {
                self.measure(self.now_ms() - sent_ms);
            }
            self.board.snd_una = self.board.snd_una.wrapping_add(1);
        }
        let una = self.board.snd_una;
        for (index, segment) in self.flight.iter_mut().enumerate() {
            let there = self.received.contains(&una.wrapping_add(index as u32));
            if there && segment.fate != Fate::Sacked {
                segment.fate = Fate::Sacked;
                delivered += 1;
            }
        }
        if acked > 0 {
            self.retransmits = 0;
            self.rto_ms = RTO_MS;
            self.timer_ms = (!self.flight.is_empty()).then(|| self.now_ms() + self.rto_ms);
        }
        if delivered > 0 {
            self.call(Call::Acked, delivered);
        }
        let newest = self.newest;
        let mut found = false;
        for segment in &mut self.flight {
            if segment.fate == Fate::UnderWay && segment.order + 3 <= newest {
                segment.fate = Fate::Lost;
                found = true;
            }
        }
        self.call(Call::InAckEvent, 0);
        self.judge_probe();
        self.alert(spurious);
        if self.reducing() {
            self.reduce(delivered, found);
        } else if acked > 0 {
            self.call(Call::CongAvoid, acked);
        }
        self.transmit();
    }

    /// RFC 6298, section 2. The timer stays as it is here.
    fn measure(&mut self, round_trip_ms: u64) {
        let sample = round_trip_ms as u32 * 1_000;
        let smoothed = &mut self.board.srtt_us;
        *smoothed = if *smoothed == 0 { sample * 8 } else { *smoothed - *smoothed / 8 + sample };
    }

    /// tcp_send_loss_probe: the last segment again.
    pub(super) fn probe(&mut self) {
        if self.flight.is_empty() || self.state() > DISORDER || self.board.tlp_high_seq != 0 {
            return;
        }
        self.board.tlp_high_seq = self.board.snd_nxt;
        let last = self.flight.len() - 1;
        if self.flight[last].fate == Fate::UnderWay {
            self.put_on_air(Some(last));
        }
    }

    /// tcp_process_tlp_ack, without a D-SACK: what is acknowledged beyond a probe says that the probe mended
    /// a loss.
    fn judge_probe(&mut self) {
        let probe = self.board.tlp_high_seq;
        if probe == 0 || (self.board.snd_una.wrapping_sub(probe) as i32) < 0 {
            return;
        }
        if self.board.snd_una != probe {
            self.begin_reduction(CWR);
            self.end_reduction(CWR);
            self.keep_open();
        }
    }

    /// tcp_fastretrans_alert: the state after an ACK.
    fn alert(&mut self, spurious: bool) {
        let reached = (self.board.snd_una.wrapping_sub(self.high_seq) as i32) >= 0;
        let lost = self.flight.iter().any(|segment| segment.fate == Fate::Lost);
        match self.state() {
            CWR if reached && self.board.snd_una != self.high_seq => {
                self.end_reduction(CWR);
                self.set_state(OPEN);
            }
            RECOVERY if reached => {
                if spurious {
                    self.undo();
                }
                // The state is open before the reduction ends.
                self.set_state(OPEN);
                self.end_reduction(RECOVERY);
            }
            RECOVERY => {
                if spurious && self.undo() {
                    self.keep_open();
                }
                return;
            }
            LOSS if reached || (spurious && self.undo_possible) => {
                if spurious {
                    self.undo();
                }
                self.set_state(OPEN);
            }
            LOSS => return,
            _ => {}
        }
        if lost && self.state() != RECOVERY {
            self.begin_reduction(RECOVERY);
        } else if self.state() != CWR {
            self.keep_open();
        }
    }

    fn keep_open(&mut self) {
        let left = self.flight.iter().any(|segment| segment.fate != Fate::UnderWay);
        let state = if left { DISORDER } else { OPEN };
        if self.state() != state {
            self.set_state(state);
            self.high_seq = self.board.snd_nxt;
        }
    }

    /// tcp_enter_recovery and tcp_enter_cwr.
    fn begin_reduction(&mut self, state: u32) {
        let by_loss = state == RECOVERY;
        self.prior_ssthresh = if by_loss && !self.reducing() { self.current_ssthresh() } else { 0 };
        self.undo_possible = by_loss;
        self.high_seq = self.board.snd_nxt;
        self.board.prior_cwnd = self.board.cwnd;
        self.board.tlp_high_seq = 0;
        (self.prr_delivered, self.prr_out) = (0, 0);
        self.outstanding_then = self.outstanding_before;
        self.board.ssthresh = self.call(Call::Ssthresh, 0);
        self.reductions += 1;
        self.set_state(state);
    }

    /// An ECN echo.
    pub(super) fn echo(&mut self) {
        if self.state() < CWR {
            self.outstanding_before = self.outstanding();
            self.begin_reduction(CWR);
        }
    }

    /// PRR (RFC 6937 section 3).
    fn reduce(&mut self, delivered: u32, found: bool) {
        if delivered == 0 || self.board.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered += delivered;
        let in_flight = self.in_flight();
        let room = i64::from(self.board.ssthresh) - i64::from(in_flight);
        let send = if room < 0 {
            let due = u64::from(self.board.ssthresh) * u64::from(self.prr_delivered)
                + u64::from(self.board.prior_cwnd)
                - 1;
            (due / u64::from(self.board.prior_cwnd)) as i64 - i64::from(self.prr_out)
        } else {
            let behind = i64::from(self.prr_delivered) - i64::from(self.prr_out);
            room.min(behind.max(i64::from(delivered)) + i64::from(!found))
        };
        let send = send.max(i64::from(self.prr_out == 0));
        self.board.cwnd = (i64::from(in_flight) + send).max(1) as u32;
    }

    /// tcp_end_cwnd_reduction, whose event comes even where the window stays.
    fn end_reduction(&mut self, state: u32) {
        if self.board.ssthresh < INFINITE && (state == CWR || self.undo_possible) {
            self.board.cwnd = self.board.ssthresh;
            self.stamp();
        }
        self.call(Call::CwndEvent, COMPLETE_CWR);
    }

    fn undo(&mut self) -> bool {
        if !self.undo_possible {
            return false;
        }
        if self.prior_ssthresh != 0 {
            self.board.cwnd = self.call(Call::UndoCwnd, 0);
            self.board.ssthresh = self.board.ssthresh.max(self.prior_ssthresh);
        }
        for segment in &mut self.flight {
            if segment.fate == Fate::Lost {
                segment.fate = Fate::UnderWay;
            }
        }
        self.stamp();
        self.undo_possible = false;
        true
    }

    /// Time passes, and the retransmission timer with it.
    pub(super) fn advance(&mut self, ms: u64) {
        let end = self.now_ms() + ms;
        while let Some(due) = self.timer_ms.filter(|&due| due <= end) {
            self.go_to(due.max(self.now_ms()));
            self.time_out();
        }
        self.go_to(end);
    }

    fn go_to(&mut self, ms: u64) {
        let before = self.now_ms();
        self.board.now_ns += (ms - before) * 1_000_000;
        self.board.jiffies += ms / JIFFY_MS - before / JIFFY_MS;
    }

    /// tcp_retransmit_timer and tcp_enter_loss.
    fn time_out(&mut self) {
        if self.flight.is_empty() {
            self.timer_ms = None;
            return;
        }
        self.timeouts += 1;
        self.board.tlp_high_seq = 0;
        let reached = (self.board.snd_una.wrapping_sub(self.high_seq) as i32) >= 0;
        for segment in &mut self.flight {
            if segment.fate == Fate::UnderWay {
                segment.fate = Fate::Lost;
            }
        }
        if self.state() <= DISORDER || reached || (self.state() == LOSS && self.retransmits == 0) {
            self.prior_ssthresh = self.current_ssthresh();
            self.board.prior_cwnd = self.board.cwnd;
            self.board.ssthresh = self.call(Call::Ssthresh, 0);
            self.call(Call::CwndEvent, EVENT_LOSS);
            self.undo_possible = true;
            self.reductions += 1;
        }
        self.board.cwnd = 1;
        self.board.cwnd_cnt = 0;
        self.stamp();
        self.set_state(LOSS);
        self.high_seq = self.board.snd_nxt;
        self.retransmits += 1;
        self.rto_ms = (self.rto_ms * 2).min(RTO_MAX_MS);
        if let Some(index) = self.flight.iter().position(|segment| segment.fate == Fate::Lost) {
            self.put_on_air(Some(index));
        }
        self.timer_ms = Some(self.now_ms() + self.rto_ms);
    }

    /// The acknowledgment that user space injects at a thaw: the last one again.
    pub(super) fn wake(&mut self) {
        self.on_ack(false);
    }
}
