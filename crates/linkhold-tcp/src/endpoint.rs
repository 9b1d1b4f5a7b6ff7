//! One end of a connection: handshake, both directions' data, FIN.
//!
//! Source: RFC 9293 section 3.10, RFC 7323 sections 2.5 and 4.2, RFC 3168 section 6.1.1 (ECN set-up).
//! closed -> SYN sent / listening -> SYN received -> established -> closed (both FINs acknowledged, or RST).
//! Deviations: no simultaneous open and no TIME-WAIT (addresses are not reused here); a RST is obeyed without
//! a sequence check, and none is ever sent.

mod on_path;
mod path;

use linkhold_core::action::Resend;
use linkhold_core::packet::{
    Ecn, MAX_WINDOW_SHIFT, SackBlocks, SynOptions, TcpFlags, TcpSegment, TcpTimestamp,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{Bytes, Seq};

use crate::config::TcpConfig;
use crate::linux::Quirks;
use crate::receiver::Receiver;
use crate::sender::{AckIn, Agreed, Kind, Sender};
use crate::source::Source;
use crate::stats::Stats;
use crate::wheel;
use on_path::OnPath;

/// Bytes that the timestamps option takes in every segment (RFC 7323 appendix A).
const TIMESTAMP_BYTES: u32 = 12;
/// RFC 9293 section 3.7.1: MSS when the peer names none.
const DEFAULT_MSS: u16 = 536;

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The segment.
    pub segment: TcpSegment,
    /// The IP header's ECN field.
    pub ecn: Ecn,
    /// True if it repeats data sent before.
    pub retransmit: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SynSent,
    Listen,
    SynReceived,
    Established,
    Closed,
}

/// The handshake's own retransmission.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    send: bool,
    /// Since then nothing goes, and the timer stands still.
    frozen: Option<Instant>,
    /// The TSval clock at the last thaw. What was sent before gives no RTT.
    first_echo: Option<u32>,
    /// When it first went.
    sent_at: Option<Instant>,
    timeout: Duration,
    expires: Option<Instant>,
    retries: u32,
    /// How often our SYN-ACK was sent again because the peer's SYN came again.
    repeated: u32,
}

/// One end of a TCP connection. The calling contract stands in the crate's documentation.
#[derive(Clone, Debug)]
pub struct Endpoint {
    cfg: TcpConfig,
    state: State,
    iss: Seq,
    handshake: Handshake,
    sender: Sender,
    receiver: Receiver,
    /// Options that both ends agreed to use.
    timestamps: bool,
    sack: bool,
    ecn: bool,
    peer_scale: u8,
    peer_syn: SynOptions,
    /// Time of the last call. A paced source's next write comes after it.
    clock: Instant,
    stats: Stats,
    /// What the path's nodes told; `None` unless they told a TP-CRAHN sender something.
    on_path: Option<Box<OnPath>>,
}

/// The TSval clock: milliseconds, never 0 (RFC 7323 section 5.4 allows 1 ms to 1 s a tick).
#[inline]
pub(crate) fn ts_clock(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32 + 1
}

impl Endpoint {
    /// Active open: the first `poll_transmit` gives the SYN. `iss` is the initial sequence number.
    #[must_use]
    pub fn connect(config: &TcpConfig, source: Source, iss: Seq) -> Self {
        Self::new(config, source, iss, State::SynSent)
    }

    /// Passive open: waits for a SYN.
    #[must_use]
    pub fn listen(config: &TcpConfig, source: Source, iss: Seq) -> Self {
        Self::new(config, source, iss, State::Listen)
    }

    fn new(config: &TcpConfig, source: Source, iss: Seq, state: State) -> Self {
        Self {
            state,
            iss,
            handshake: Handshake {
                frozen: None,
                first_echo: None,
                send: state == State::SynSent,
                sent_at: None,
                timeout: config.rto_initial,
                expires: None,
                retries: 0,
                repeated: 0,
            },
            sender: Sender::new(config, source),
            receiver: Receiver::new(config),
            timestamps: config.timestamps,
            sack: config.sack,
            ecn: config.ecn,
            peer_scale: 0,
            peer_syn: SynOptions::default(),
            clock: Instant::ZERO,
            stats: Stats::default(),
            on_path: None,
            cfg: config.clone(),
        }
    }

    /// A segment arrived; `ecn` is its IP header's ECN field.
    #[inline]
    pub fn on_segment(&mut self, now: Instant, segment: &TcpSegment, ecn: Ecn) {
        self.clock = now;
        self.stats.segments_in += 1;
        if self.state == State::Established && !segment.flags.contains(TcpFlags::RST) {
            self.on_established(now, segment, ecn);
        } else {
            self.on_other(now, segment, ecn);
        }
    }

    /// A segment outside the established state, or a reset.
    #[cold]
    fn on_other(&mut self, now: Instant, segment: &TcpSegment, ecn: Ecn) {
        if segment.flags.contains(TcpFlags::RST) {
            if self.state != State::Listen {
                self.state = State::Closed;
            }
            return;
        }
        match self.state {
            State::Listen => self.on_syn(now, segment),
            State::SynSent => self.on_syn_ack(now, segment),
            State::SynReceived => {
                if segment.flags.contains(TcpFlags::SYN) {
                    self.handshake.send = true;
                    self.handshake.repeated += 1;
                } else if segment.flags.contains(TcpFlags::ACK) && segment.ack == self.iss + 1 {
                    self.establish(now, segment, segment.seq);
                    self.on_established(now, segment, ecn);
                }
            }
            State::Established => self.on_established(now, segment, ecn),
            State::Closed => {
                // The peer may have missed our last ACK.
                if segment.seq_len() > 0 {
                    self.receiver.request_ack();
                }
            }
        }
    }

    fn on_syn(&mut self, now: Instant, segment: &TcpSegment) {
        if !segment.flags.contains(TcpFlags::SYN) || segment.flags.contains(TcpFlags::ACK) {
            return;
        }
        self.take_options(now, segment);
        // RFC 3168 section 6.1.1: an ECN-setup SYN has both ECE and CWR.
        self.ecn &= segment.flags.contains(TcpFlags::ECE | TcpFlags::CWR);
        self.state = State::SynReceived;
        self.handshake.send = true;
    }

    fn on_syn_ack(&mut self, now: Instant, segment: &TcpSegment) {
        if !segment.flags.contains(TcpFlags::SYN | TcpFlags::ACK) || segment.ack != self.iss + 1 {
            return;
        }
        self.take_options(now, segment);
        // An ECN-setup SYN-ACK has ECE and not CWR.
        self.ecn &= segment.flags.contains(TcpFlags::ECE) && !segment.flags.contains(TcpFlags::CWR);
        self.establish(now, segment, segment.seq);
        self.receiver.request_ack();
    }

    fn take_options(&mut self, now: Instant, segment: &TcpSegment) {
        // RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2: used when both SYNs carry the option.
        self.timestamps &= segment.timestamp.is_some();
        self.sack &= segment.syn.sack_permitted;
        self.peer_syn = segment.syn;
        self.receiver.on_syn(now, segment.seq, segment.timestamp.map(|ts| ts.value));
    }

    fn establish(&mut self, now: Instant, segment: &TcpSegment, seq: Seq) {
        self.state = State::Established;
        self.handshake.expires = None;
        (self.handshake.send, self.handshake.frozen) = (false, None);
        let scaled = self.cfg.window_scale.is_some() && self.peer_syn.window_scale.is_some();
        // RFC 7323 section 2.3: at most 14.
        let own_scale = if scaled { self.cfg.window_scale.unwrap_or(0).min(MAX_WINDOW_SHIFT) } else { 0 };
        self.peer_scale =
            if scaled { self.peer_syn.window_scale.unwrap_or(0).min(MAX_WINDOW_SHIFT) } else { 0 };
        let mss = u32::from(self.peer_syn.mss.unwrap_or(DEFAULT_MSS).min(self.cfg.mss));
        let payload = mss - if self.timestamps { TIMESTAMP_BYTES.min(mss - 1) } else { 0 };
        // RFC 7323 section 2.2: the window of a SYN is never scaled.
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let window = u64::from(segment.window) << if is_syn { 0 } else { self.peer_scale };
        self.receiver.negotiated(own_scale, self.sack, payload);
        self.sender.establish(
            now,
            &Agreed { mss: payload, sack: self.sack, ecn: self.ecn, window, seq, iss: self.iss },
        );
        if let Some(rtt) = self.handshake_rtt(now, segment) {
            self.sender.handshake_rtt(now, rtt);
        }
        let again = self.handshake.retries + self.handshake.repeated;
        if again > 0 {
            let echo = segment.timestamp.filter(|_| self.timestamps).map(|ts| ts.echo);
            let first = self.handshake.sent_at.map(ts_clock);
            self.sender.syn_went_again(again, self.handshake.retries, echo.is_some() && echo == first);
        }
        // What was told before the connection came up holds now.
        self.follow_path(now, true);
    }

    /// RTT that the answer to our SYN tells: of one that was sent once (RFC 6298 section 3, Karn), or of the
    /// copy that the echo names (RFC 7323 section 4.1), unless it waited for the end of a freeze.
    fn handshake_rtt(&self, now: Instant, segment: &TcpSegment) -> Option<Duration> {
        let first_echo = self.handshake.first_echo;
        if self.handshake.retries + self.handshake.repeated == 0 && first_echo.is_none() {
            return self.handshake.sent_at.map(|sent| now.since(sent));
        }
        let echo = segment.timestamp.filter(|ts| self.timestamps && ts.echo != 0)?.echo;
        if first_echo.is_some_and(|from| (echo.wrapping_sub(from) as i32) < 0) {
            return None;
        }
        Some(Duration::from_millis(u64::from(ts_clock(now).wrapping_sub(echo).max(1))))
    }

    fn on_established(&mut self, now: Instant, segment: &TcpSegment, ecn: Ecn) {
        let ts_now = ts_clock(now);
        let start = self.receiver.offset(segment.seq);
        if segment.flags.contains(TcpFlags::SYN) {
            // The peer missed the handshake's last ACK.
            self.receiver.request_ack();
            return;
        }
        let timestamp = segment.timestamp.filter(|_| self.timestamps);
        if let Some(ts) = timestamp {
            if self.receiver.fails_paws(ts.value) {
                // RFC 7323 section 5.3 R1: drop, and acknowledge. A pure ACK is dropped in silence, as an
                // answer would only start a dialogue of ACKs (Linux tcp_disordered_ack lets it pass).
                if segment.seq_len() > 0 {
                    self.stats.paws_drops += 1;
                    self.receiver.request_ack();
                    return;
                }
            } else {
                let end = start + u64::from(segment.seq_len());
                self.receiver.note_timestamp(start, end, ts.value);
            }
        }
        let len = u64::from(segment.payload_len);
        let fin = segment.flags.contains(TcpFlags::FIN);
        if len == 0 && !fin && !self.receiver.accepts_empty(start) {
            // RFC 9293 section 3.10.7.4, first step: answered, and not heard. Linux's window probe lives by
            // the answer.
            self.receiver.request_ack();
            return;
        }
        if segment.flags.contains(TcpFlags::ACK) && !self.on_ack(now, ts_now, segment, timestamp) {
            self.receiver.request_ack();
            return;
        }
        if len > 0 || fin {
            if self.ecn {
                let ce = ecn == Ecn::Ce;
                self.stats.ce_marks_in += u64::from(ce);
                self.receiver.note_ecn(ce, segment.flags.contains(TcpFlags::CWR));
            }
            let age = timestamp
                .map(|ts| Duration::from_millis(u64::from((ts_now.wrapping_sub(ts.echo)).clamp(1, 1 << 30))));
            self.receiver.on_data(now, start, len, fin, age, &mut self.stats);
            if self.receiver.fin_received() {
                self.sender.close();
            }
        }
        if self.receiver.fin_received() && self.sender.fin_acknowledged() {
            self.state = State::Closed;
        }
    }

    /// False if the segment acknowledges what was never sent.
    #[inline(always)]
    fn on_ack(
        &mut self,
        now: Instant,
        ts_now: u32,
        segment: &TcpSegment,
        timestamp: Option<TcpTimestamp>,
    ) -> bool {
        if self.sender.is_silent() && segment.sack.is_empty() && !segment.flags.contains(TcpFlags::ECE) {
            let window = u64::from(segment.window) << self.peer_scale;
            return self.sender.hear_window(segment.seq, self.offset(segment.ack), window, &mut self.stats);
        }
        self.on_ack_of_data(now, ts_now, segment, timestamp)
    }

    fn on_ack_of_data(
        &mut self,
        now: Instant,
        ts_now: u32,
        segment: &TcpSegment,
        timestamp: Option<TcpTimestamp>,
    ) -> bool {
        let ack = self.ack_in(segment, timestamp);
        self.sender.on_ack(now, ts_now, &ack, &mut self.stats)
    }

    /// Offset in our stream of a sequence number of ours; numbers before our SYN give 0.
    #[inline]
    fn offset(&self, seq: Seq) -> u64 {
        let una = self.sender.una();
        una.saturating_add_signed(i64::from(seq.minus(self.iss + una as u32)))
    }

    #[inline]
    fn ack_in(&self, segment: &TcpSegment, timestamp: Option<TcpTimestamp>) -> AckIn {
        let offset = |seq: Seq| self.offset(seq);
        let ack = offset(segment.ack);
        let mut blocks = [(0, 0); 4];
        let mut dsack = None;
        let mut used = 0;
        let all = segment.sack.as_slice();
        for (index, block) in all.iter().enumerate() {
            let (left, right) = (offset(block.left), offset(block.right));
            if left >= right || right > self.sender.nxt() {
                continue;
            }
            // RFC 2883 section 4: the first block is a D-SACK if it is below the cumulative ACK, or inside
            // the second.
            let inside_second =
                all.get(1).is_some_and(|second| offset(second.left) <= left && right <= offset(second.right));
            if index == 0 && (right <= ack || inside_second) {
                dsack = Some((left, right));
            } else if left >= ack {
                blocks[used] = (left, right);
                used += 1;
            }
        }
        AckIn {
            seq: segment.seq,
            ack,
            window: u64::from(segment.window) << self.peer_scale,
            echo: timestamp.map(|ts| ts.echo),
            blocks,
            dsack,
            bare: segment.payload_len == 0 && !segment.flags.contains(TcpFlags::FIN),
            ece: segment.flags.contains(TcpFlags::ECE),
        }
    }

    /// The next segment to send now, if any.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.clock = now;
        if self.state == State::Established && self.sender.is_silent() && !self.receiver.ack_due() {
            return None;
        }
        self.next_transmit(now)
    }

    fn next_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let plan = match self.state {
            State::Listen => return None,
            State::SynSent | State::SynReceived => return self.poll_handshake(now),
            State::Established => self.sender.poll(now, &mut self.stats),
            State::Closed => None,
        };
        let start = match &plan {
            Some(plan) => plan.start,
            None if self.receiver.ack_due() => self.sender.nxt(),
            None => return None,
        };
        self.stats.segments_sent += 1;
        let mut segment = self.segment(now, self.iss + start as u32);
        let Some(plan) = plan else {
            self.stats.acks_out += 1;
            // RFC 3168 section 6.1.4: pure ACKs are not ECN-capable.
            return Some(Transmit { segment, ecn: Ecn::NotEct, retransmit: false });
        };
        segment.payload_len = plan.payload;
        if plan.fin {
            segment.flags = segment.flags | TcpFlags::FIN;
        }
        if plan.cwr {
            segment.flags = segment.flags | TcpFlags::CWR;
        }
        if plan.payload > 0 || plan.fin {
            self.stats.data_segments_sent += 1;
            self.stats.bytes_sent += u64::from(plan.payload);
        }
        let retransmit = plan.kind == Kind::Retransmission;
        if retransmit {
            self.stats.retransmits += 1;
            self.stats.retransmit_bytes += u64::from(plan.payload);
        }
        // RFC 3168 section 6.1.5: retransmissions are not ECN-capable, nor (6.1.6) are window probes.
        let capable = self.ecn && plan.payload > 0 && plan.kind == Kind::New;
        let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
        Some(Transmit { segment, ecn, retransmit })
    }

    #[cold]
    fn poll_handshake(&mut self, now: Instant) -> Option<Transmit> {
        if self.handshake.frozen.is_some() || !core::mem::replace(&mut self.handshake.send, false) {
            return None;
        }
        let again = self.handshake.sent_at.is_some();
        if again {
            self.stats.syn_retransmits += 1;
        } else {
            self.handshake.sent_at = Some(now);
        }
        let at = now + self.handshake.timeout;
        self.handshake.expires = Some(self.cfg.timer_tick.map_or(at, |tick| wheel::fires_at(now, at, tick)));
        let passive = self.state == State::SynReceived;
        let mut flags = TcpFlags::SYN;
        if passive {
            flags = flags | TcpFlags::ACK;
            if self.ecn {
                flags = flags | TcpFlags::ECE;
            }
        } else if self.ecn {
            flags = flags | TcpFlags::ECE | TcpFlags::CWR;
        }
        // A SYN-ACK carries what the SYN carried (RFC 7323 section 2.2, RFC 2018 section 2).
        let scale = self.cfg.window_scale.filter(|_| !passive || self.peer_syn.window_scale.is_some());
        let window = if passive {
            self.receiver.offer(now, true)
        } else {
            u16::try_from(self.cfg.receive_buffer.0).unwrap_or(u16::MAX)
        };
        let echo = if passive { self.receiver.ts_recent() } else { 0 };
        let segment = TcpSegment {
            seq: self.iss,
            ack: if passive { self.receiver.ack_number() } else { Seq(0) },
            payload_len: 0,
            window,
            flags,
            timestamp: self.timestamps.then_some(TcpTimestamp { value: ts_clock(now), echo }),
            sack: SackBlocks::EMPTY,
            syn: SynOptions { mss: Some(self.cfg.mss), window_scale: scale, sack_permitted: self.sack },
            signed: false,
        };
        self.stats.segments_sent += 1;
        Some(Transmit { segment, ecn: Ecn::NotEct, retransmit: again })
    }

    /// A segment that carries the acknowledgment, so that no ACK is owed after it.
    #[inline]
    fn segment(&mut self, now: Instant, seq: Seq) -> TcpSegment {
        let timestamp =
            self.timestamps.then(|| TcpTimestamp { value: ts_clock(now), echo: self.receiver.ts_recent() });
        let window = self.receiver.offer(now, false);
        // RFC 2018 section 3: 40 bytes of options hold four blocks, three beside timestamps.
        let sack = self.receiver.sack_blocks(if self.timestamps { 3 } else { 4 });
        let mut flags = TcpFlags::ACK;
        if self.ecn && self.receiver.ece() {
            flags = flags | TcpFlags::ECE;
        }
        self.receiver.ack_sent();
        TcpSegment {
            seq,
            ack: self.receiver.ack_number(),
            payload_len: 0,
            window,
            flags,
            timestamp,
            sack,
            syn: SynOptions::default(),
            signed: false,
        }
    }

    /// When `on_timeout` is due, if ever.
    #[inline]
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Listen | State::Closed => None,
            State::SynSent | State::SynReceived => {
                self.handshake.expires.filter(|_| self.handshake.frozen.is_none())
            }
            State::Established => {
                let timers = match (self.sender.next_timeout(self.clock), self.receiver.next_timeout()) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                match &self.on_path {
                    None => timers,
                    Some(on_path) => timers.into_iter().chain(on_path.next()).min(),
                }
            }
        }
    }

    /// Time has come to `now`. Harmless when nothing is due.
    pub fn on_timeout(&mut self, now: Instant) {
        self.clock = now;
        match self.state {
            State::Listen | State::Closed => {}
            State::SynSent | State::SynReceived => {
                if self.handshake.frozen.is_none() && self.handshake.expires.is_some_and(|at| at <= now) {
                    self.handshake.expires = None;
                    self.handshake.retries += 1;
                    let linear = Quirks::new(self.cfg.details).linear_syn_timeouts();
                    if self.state != State::SynSent || self.handshake.retries > linear {
                        // RFC 6298 (5.5): double for each retransmission.
                        self.handshake.timeout = (self.handshake.timeout * 2).min(self.cfg.rto_max);
                    }
                    self.handshake.send = true;
                }
            }
            State::Established => {
                if self.on_path.is_some() {
                    self.path_timeout(now);
                }
                self.sender.on_timeout(now, &mut self.stats);
                self.receiver.on_timeout(now);
            }
        }
    }

    /// Stops the sending direction: cwnd, ssthresh, RTT estimate and RTO stay as they are, timers stand
    /// still, ACKs are still taken in and sent. Freezing twice is freezing once. A handshake stands still,
    /// too.
    pub fn freeze(&mut self, now: Instant) {
        self.clock = now;
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.handshake.frozen.get_or_insert(now);
        }
        self.sender.freeze(now);
    }

    /// Goes on from the frozen state: cwnd as it was, the timer anew with the frozen RTO, and what `resend`
    /// names goes again at once (cr-aware section 3). Does nothing to a sender that is not frozen.
    pub fn thaw(&mut self, now: Instant, resend: Resend) {
        self.clock = now;
        self.thaw_handshake(now, resend);
        self.sender.thaw(now, resend);
    }

    fn thaw_handshake(&mut self, now: Instant, resend: Resend) {
        let Some(since) = self.handshake.frozen.take() else { return };
        // The clock stood still: the silence is no part of what is left of the timer. Where silences come
        // more often than it expires, it must not begin anew.
        let by = now.since(since);
        // Only what was out in the silence took longer by it.
        if self.handshake.sent_at.is_some() {
            self.handshake.first_echo = Some(ts_clock(now));
        }
        self.handshake.expires = self.handshake.expires.map(|at| at + by);
        if self.handshake.expires.is_some() && resend != Resend::Nothing {
            self.handshake.send = true;
        }
    }

    /// A base station has `blocks` of what was sent, and misses what lies before them (cr-aware section 4.2,
    /// TCP-LR): that goes again at once and, while it is missing, all of it at every timeout. Nothing is
    /// acknowledged by it, and no window moves.
    pub fn missing(&mut self, now: Instant, blocks: &SackBlocks) {
        self.clock = now;
        if self.state != State::Established {
            return;
        }
        let mut at = [(0, 0); 4];
        for (place, block) in at.iter_mut().zip(blocks.as_slice()) {
            *place = (self.offset(block.left), self.offset(block.right));
        }
        self.sender.missing(now, &at);
    }

    /// The application writes `more` bytes; they go when the connection is up. Poll for what to send next.
    ///
    /// # Panics
    /// In debug builds, if the source is not [`Source::Written`] (any more): a bug of the caller.
    pub fn write(&mut self, now: Instant, more: Bytes) {
        self.clock = now;
        let written = self.sender.write(more);
        debug_assert!(written, "an application wrote to a source that is not its own");
    }

    /// The application stops writing; a FIN follows what it has written, once the connection is up. Does
    /// nothing to a finite source, which ends by itself.
    pub fn end_source(&mut self, now: Instant) {
        self.clock = now;
        self.sender.end_source(now);
    }

    /// What the application does: as it was given, or what has become of it.
    #[must_use]
    pub fn source(&self) -> Source {
        self.sender.source()
    }

    /// Application bytes received in order so far.
    #[inline]
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Application bytes sent and cumulatively acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.sender.acknowledged()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Congestion window, bytes, without the inflation of fast recovery.
    #[must_use]
    pub fn cwnd_bytes(&self) -> u64 {
        self.sender.window().cwnd
    }

    /// Slow start threshold, bytes; `u64::MAX` before the first reduction.
    #[must_use]
    pub fn ssthresh_bytes(&self) -> u64 {
        self.sender.window().ssthresh
    }

    /// Smoothed round-trip time, once measured.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.sender.rtt().srtt()
    }

    /// Retransmission timeout now, backoff included.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.sender.rtt().rto()
    }

    /// Bytes sent and neither acknowledged nor taken for lost (RFC 6675 pipe).
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.sender.in_flight()
    }

    /// The peer's window, bytes, as last accepted.
    #[must_use]
    pub fn send_window_bytes(&self) -> u64 {
        self.sender.peer_window()
    }

    /// True once the handshake is done (and for good).
    #[must_use]
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Closed)
    }

    /// True once both FINs are sent, received and acknowledged, or the peer reset the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }
}
