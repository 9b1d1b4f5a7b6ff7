//! The receiving half: reassembly, acknowledgments, the offered window.
//!
//! Source: RFC 9293 sections 3.10.7.4 and 3.8.6, RFC 5681 section 4.2 and RFC 1122 section 4.2.3.2 (delayed
//! ACK), RFC 2018 and 2883 (SACK, D-SACK), RFC 7323 section 4.3 (TS.Recent), RFC 3168 section 6.1.3 (ECN
//! echo); Linux `tcp_event_data_recv` and `__tcp_ack_snd_check` (quickack), `tcp_rcv_space_adjust`
//! (autotuning).
//! Deviations: the offered window starts at the whole buffer, without Linux's `rcv_ssthresh` ramp; the buffer
//! counts payload, not the memory its packets take.

use linkhold_core::packet::{SackBlock, SackBlocks};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{Bytes, Seq};

use crate::config::{DelayedAck, TcpConfig};
use crate::stats::Stats;

/// Linux TCP_DELACK_MIN and TCP_ATO_MIN.
const LINUX_DELAY: Duration = Duration::from_millis(40);
/// Linux TCP_MAX_QUICKACKS.
const LINUX_QUICKACKS: u32 = 16;
/// After a gap longer than this, quickack mode begins anew. Linux compares with the RTO, whose floor this is.
const LINUX_IDLE: Duration = Duration::from_millis(200);

/// A stretch of data beyond a hole.
#[derive(Clone, Copy, Debug)]
struct Range {
    left: u64,
    right: u64,
    /// Larger is more recent.
    stamp: u64,
}

/// Whether an acknowledgment is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckDue {
    Nothing,
    /// With the next segment, or by then (RFC 1122 section 4.2.3.2).
    By(Instant),
    Now,
}

/// The peer's FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    Unknown,
    /// It has this offset; data before it is missing.
    At(u64),
    Received,
}

#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    mode: DelayedAck,
    read_rate: Option<linkhold_core::units::BitRate>,
    /// Initial receive sequence number: offset 0.
    irs: Seq,
    /// RCV.NXT.
    nxt: u64,
    /// Data beyond `nxt`, in order, disjoint and not touching.
    ranges: Vec<Range>,
    stamp: u64,
    fin: Fin,
    /// Right edge of the window as offered; never moves left.
    right_edge: u64,
    buffer: u64,
    tune: Option<Autotune>,
    scale: u8,
    mss: u64,
    sack_ok: bool,
    dsack: Option<(u64, u64)>,
    /// In-order bytes not acknowledged yet.
    unacked: u64,
    due: AckDue,
    quickacks: u32,
    last_data: Option<Instant>,
    /// Last.ACK.sent.
    last_ack_sent: u64,
    ts_recent: u32,
    ece: bool,
    read: u64,
    read_at: Instant,
    update_at: Option<Instant>,
}

/// Linux dynamic right sizing.
#[derive(Clone, Debug)]
struct Autotune {
    max: u64,
    space: u64,
    seq: u64,
    since: Instant,
    rtt: Option<Duration>,
    /// Without timestamps: when this offset arrives, a window's worth has.
    window_end: u64,
    window_since: Instant,
}

/// The next tick of a clock that has run freely since time 0.
fn next_tick(now: Instant, period: Duration) -> Instant {
    let period = period.as_nanos().max(1);
    Instant::from_nanos((now.as_nanos() / period + 1).saturating_mul(period))
}

impl Receiver {
    pub fn new(cfg: &TcpConfig) -> Self {
        let mss = u64::from(cfg.mss);
        Self {
            mode: cfg.delayed_ack,
            read_rate: cfg.application_read_rate,
            irs: Seq(0),
            nxt: 0,
            ranges: Vec::new(),
            stamp: 0,
            fin: Fin::Unknown,
            right_edge: 0,
            buffer: cfg.receive_buffer.0,
            tune: cfg.receive_autotune.map(|max| Autotune {
                max: max.0,
                space: cfg.receive_buffer.0.min(10 * mss).max(1),
                seq: 1,
                since: Instant::ZERO,
                rtt: None,
                window_end: 1,
                window_since: Instant::ZERO,
            }),
            scale: 0,
            mss,
            sack_ok: false,
            dsack: None,
            unacked: 0,
            due: AckDue::Nothing,
            quickacks: LINUX_QUICKACKS,
            last_data: None,
            last_ack_sent: 1,
            ts_recent: 0,
            ece: false,
            read: 1,
            read_at: Instant::ZERO,
            update_at: None,
        }
    }

    /// The peer's SYN arrived.
    pub fn on_syn(&mut self, now: Instant, irs: Seq, ts_value: Option<u32>) {
        self.irs = irs;
        self.nxt = 1;
        self.right_edge = 1 + self.buffer.min(u64::from(u16::MAX));
        self.read_at = now;
        if let Some(value) = ts_value {
            self.ts_recent = value;
        }
    }

    pub fn negotiated(&mut self, scale: u8, sack: bool, mss: u32) {
        self.scale = scale;
        self.sack_ok = sack;
        self.mss = u64::from(mss);
    }

    /// Offset of a sequence number of the peer; numbers before its SYN give 0.
    #[inline]
    pub fn offset(&self, seq: Seq) -> u64 {
        self.nxt.saturating_add_signed(i64::from(seq.minus(self.ack_number())))
    }

    /// True if a segment of no length at this offset is acceptable (RFC 9293 section 3.10.7.4). One that the
    /// last ACK crossed is, as in Linux (`tcp_sequence`, from `rcv_wup` on): reordered, it still tells.
    pub fn accepts_empty(&self, start: u64) -> bool {
        (self.last_ack_sent..=self.right_edge.max(self.nxt)).contains(&start)
    }

    /// RCV.NXT as a sequence number.
    pub fn ack_number(&self) -> Seq {
        self.irs + self.nxt as u32
    }

    pub fn ts_recent(&self) -> u32 {
        self.ts_recent
    }

    /// RFC 7323 section 5.3 R1, PAWS: an older timestamp than the last one.
    pub fn fails_paws(&self, ts_value: u32) -> bool {
        (ts_value.wrapping_sub(self.ts_recent) as i32) < 0
    }

    /// RFC 7323 section 4.3 (2): TS.Recent from a segment that passes PAWS and reaches Last.ACK.sent. One
    /// that ends before it lies outside the window, and section 5.3 rejects it (R2) before its timestamp
    /// counts (R3), as Linux does (`tcp_sequence`, from `rcv_wup` on): else a late copy of old data would
    /// make PAWS drop new data that left before the copy.
    pub fn note_timestamp(&mut self, start: u64, end: u64, ts_value: u32) {
        if start <= self.last_ack_sent && end >= self.last_ack_sent {
            self.ts_recent = ts_value;
        }
    }

    pub fn request_ack(&mut self) {
        self.due = AckDue::Now;
    }

    /// RFC 3168 section 6.1.3: echo congestion until the sender says it reduced.
    pub fn note_ecn(&mut self, ce: bool, cwr: bool) {
        if cwr {
            self.ece = false;
        }
        if ce {
            self.ece = true;
        }
    }

    pub fn ece(&self) -> bool {
        self.ece
    }

    /// Payload `start .. start + len`, then perhaps a FIN. `rtt_hint` is the age of the timestamp it echoes.
    #[inline]
    pub fn on_data(
        &mut self,
        now: Instant,
        start: u64,
        len: u64,
        fin: bool,
        rtt_hint: Option<Duration>,
        stats: &mut Stats,
    ) {
        let mut end = start + len + u64::from(fin);
        if end <= self.nxt {
            if len > 0 || fin {
                // RFC 2883 section 4.1.1: all of it is here already.
                self.duplicate(start, end, stats);
            }
            self.due = AckDue::Now;
            return;
        }
        if start > self.right_edge || (start == self.right_edge && len > 0) {
            // Beyond the window (a zero-window probe lands here): say where the window is.
            self.due = AckDue::Now;
            return;
        }
        let mut fin = fin;
        if end > self.right_edge + u64::from(fin) {
            end = self.right_edge;
            fin = false;
        }
        if fin && self.fin != Fin::Received {
            self.fin = Fin::At(end - 1);
        }
        let gap = self.last_data.map(|at| now.since(at));
        self.last_data = Some(now);
        if start <= self.nxt {
            if start < self.nxt {
                self.dsack = Some((start, self.nxt));
            }
            self.in_order(now, end, gap, rtt_hint);
        } else {
            stats.out_of_order_in += 1;
            self.ahead_of_hole(start, end, stats);
        }
    }

    #[cold]
    fn duplicate(&mut self, start: u64, end: u64, stats: &mut Stats) {
        stats.duplicate_segments_in += 1;
        self.dsack = Some((start, end));
        // Linux tcp_send_dupack: the sender's ACKs got lost, be quick for a while.
        self.quickacks = LINUX_QUICKACKS;
        self.due = AckDue::Now;
    }

    #[inline(always)]
    fn in_order(&mut self, now: Instant, end: u64, gap: Option<Duration>, rtt_hint: Option<Duration>) {
        let before = self.nxt;
        self.nxt = end;
        let had_hole = !self.ranges.is_empty();
        if had_hole {
            self.absorb_ranges();
        }
        if let Fin::At(at) = self.fin
            && self.nxt > at
        {
            self.fin = Fin::Received;
            self.due = AckDue::Now;
        }
        self.autotune(now, rtt_hint);
        self.unacked += self.nxt - before;
        if had_hole {
            // RFC 5681 section 4.2: at once when a segment fills all or part of a gap.
            self.due = AckDue::Now;
        }
        self.schedule_ack(now, gap);
    }

    /// Moves what has become in order out of the ranges.
    #[cold]
    fn absorb_ranges(&mut self) {
        let mut taken = 0;
        for range in &self.ranges {
            if range.left > self.nxt {
                break;
            }
            self.nxt = self.nxt.max(range.right);
            taken += 1;
        }
        self.ranges.drain(..taken);
    }

    /// In-order data arrived, `gap` after the last.
    #[inline]
    fn schedule_ack(&mut self, now: Instant, gap: Option<Duration>) {
        if self.due == AckDue::Now {
            return;
        }
        let (at_once, by) = match self.mode {
            DelayedAck::Off => (true, now),
            // RFC 5681 section 4.2: at least every second full-sized segment.
            DelayedAck::Timer(delay) => (self.unacked >= 2 * self.mss, now + delay),
            DelayedAck::Heartbeat(period) => (self.unacked >= 2 * self.mss, next_tick(now, period)),
            DelayedAck::HeartbeatOnly(period) => (false, next_tick(now, period)),
            DelayedAck::Linux => {
                if gap.is_none_or(|gap| gap > LINUX_IDLE) {
                    // tcp_event_data_recv: the first data, or data after a long gap: the sender is in slow
                    // start.
                    self.quickacks = LINUX_QUICKACKS;
                }
                // __tcp_ack_snd_check: more than one full segment, or quickack mode.
                let wanted = self.unacked > self.mss;
                if wanted && self.quickacks == 0 && self.unread_narrows_window() {
                    self.due = AckDue::By(now);
                    return;
                }
                (wanted || self.quickacks > 0, now + LINUX_DELAY)
            }
        };
        if at_once {
            self.due = AckDue::Now;
        } else if self.due == AckDue::Nothing {
            self.due = AckDue::By(by);
        }
    }

    /// True if what the application has not read yet makes the window smaller than the one last offered.
    /// Linux then leaves the ACK to the read that follows (`__tcp_ack_snd_check`, `tcp_cleanup_rbuf`), so
    /// what arrives in one burst is acknowledged together, however many segments it has. Here the application
    /// reads once everything of an instant has arrived. A window that autotuning moves is taken to have room:
    /// what the kernel compares it with (`rcv_ssthresh`) is not modelled.
    #[inline]
    fn unread_narrows_window(&self) -> bool {
        self.tune.is_none()
    }

    #[inline(never)]
    fn ahead_of_hole(&mut self, start: u64, end: u64, stats: &mut Stats) {
        // RFC 5681 section 4.2: an immediate duplicate ACK.
        self.due = AckDue::Now;
        self.stamp += 1;
        let first = self.ranges.partition_point(|range| range.right < start);
        let mut merged = Range { left: start, right: end, stamp: self.stamp };
        let mut last = first;
        while let Some(range) = self.ranges.get_mut(last) {
            if range.left > end {
                break;
            }
            if range.left <= start && end <= range.right {
                range.stamp = self.stamp;
                // RFC 2883 section 4.1.2: a duplicate above the cumulative ACK.
                self.duplicate(start, end, stats);
                return;
            }
            merged.left = merged.left.min(range.left);
            merged.right = merged.right.max(range.right);
            last += 1;
        }
        if last == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
    }

    /// Linux `tcp_rcv_space_adjust`: room for twice what arrives in a round trip, and more while that grows.
    fn autotune(&mut self, now: Instant, rtt_hint: Option<Duration>) {
        let (nxt, mss, buffer, right_edge) = (self.nxt, self.mss, self.buffer, self.right_edge);
        let Some(tune) = &mut self.tune else { return };
        match rtt_hint {
            // tcp_rcv_rtt_measure_ts, smoothed by an eighth.
            Some(sample) => {
                let sample = sample.as_nanos();
                let rtt = tune.rtt.map_or(sample, |rtt| (7 * rtt.as_nanos() + sample) / 8);
                tune.rtt = Some(Duration::from_nanos(rtt));
            }
            // tcp_rcv_rtt_measure: a window's worth takes a round trip at least.
            None if nxt >= tune.window_end => {
                if tune.window_end > 1 {
                    let took = now.since(tune.window_since);
                    tune.rtt = Some(tune.rtt.map_or(took, |rtt| rtt.min(took)));
                }
                tune.window_end = right_edge.max(nxt + 1);
                tune.window_since = now;
            }
            None => {}
        }
        let Some(rtt) = tune.rtt else { return };
        if now.since(tune.since) < rtt {
            return;
        }
        let copied = nxt - tune.seq;
        if copied > tune.space {
            let window = 2 * copied + 16 * mss;
            // "grow" of the kernel: window * (copied - space) / space, twice.
            let grow = u128::from(window) * u128::from(copied - tune.space) / u128::from(tune.space) * 2;
            let wanted = window.saturating_add(u64::try_from(grow).unwrap_or(u64::MAX)).min(tune.max);
            self.buffer = buffer.max(wanted);
            tune.space = copied;
        }
        tune.seq = nxt;
        tune.since = now;
    }

    /// Lets the application read up to `now`.
    #[inline]
    fn read_on(&mut self, now: Instant) {
        match self.read_rate {
            None => self.read = self.nxt,
            Some(rate) => {
                let Bytes(could) = rate.bytes_in(now.since(self.read_at));
                if self.read + could >= self.nxt {
                    self.read = self.nxt;
                    self.read_at = now;
                } else if could > 0 {
                    // Only whole bytes move the mark, by the time they took.
                    self.read += could;
                    self.read_at = (self.read_at + rate.time_for(Bytes(could))).min(now);
                }
            }
        }
    }

    /// The window field of a segment sent now; `unscaled` for a SYN.
    #[inline(always)]
    pub fn offer(&mut self, now: Instant, unscaled: bool) -> u16 {
        self.read_on(now);
        let free = self.buffer.saturating_sub(self.nxt - self.read);
        let scale = if unscaled { 0 } else { self.scale };
        let limit = u64::from(u16::MAX) << scale;
        let candidate = self.nxt + free.min(limit);
        // RFC 9293 section 3.8.6.2.2: the right edge moves by a segment or half the buffer, or not at all.
        let step = self.mss.min(self.buffer / 2).max(1);
        self.update_at = None;
        if candidate >= self.right_edge + step {
            // Rounded down to what the field can say, unless that moves the edge left.
            let said = (candidate - self.nxt) >> scale << scale;
            self.right_edge = self.right_edge.max(self.nxt + said);
        } else if self.right_edge.saturating_sub(self.nxt) < step
            && let Some(rate) = self.read_rate
        {
            // The window is (nearly) closed: an update follows when the application has made room.
            let missing = self.right_edge + step - candidate;
            self.update_at = Some(now + rate.time_for(Bytes(missing)).max(Duration::from_nanos(1)));
        }
        let window = self.right_edge.saturating_sub(self.nxt).min(limit);
        // No more than the limit, so that the field holds it rounded up.
        let field = window.div_ceil(1 << scale);
        // The peer's view of the edge is what counts (Linux aligns up as well).
        self.right_edge = self.right_edge.max(self.nxt + (field << scale));
        field as u16
    }

    /// Up to `room` SACK blocks: the D-SACK, then the most recently changed first (RFC 2018 section 4).
    #[inline]
    pub fn sack_blocks(&mut self, room: usize) -> SackBlocks {
        if self.dsack.is_none() && self.ranges.is_empty() {
            return SackBlocks::EMPTY;
        }
        self.blocks(room)
    }

    #[inline(never)]
    fn blocks(&mut self, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let dsack = self.dsack.take();
        if !self.sack_ok {
            return blocks;
        }
        let mut left = room;
        if let Some((from, to)) = dsack {
            blocks.push(self.block(from, to));
            left -= 1;
        }
        let mut below = u64::MAX;
        while left > 0 {
            let next = self.ranges.iter().filter(|range| range.stamp < below).max_by_key(|range| range.stamp);
            let Some(range) = next else { break };
            blocks.push(self.block(range.left, range.right));
            below = range.stamp;
            left -= 1;
        }
        blocks
    }

    fn block(&self, left: u64, right: u64) -> SackBlock {
        SackBlock { left: self.irs + left as u32, right: self.irs + right as u32 }
    }

    #[inline]
    pub fn ack_due(&self) -> bool {
        self.due == AckDue::Now
    }

    /// A segment with the acknowledgment went out.
    #[inline]
    pub fn ack_sent(&mut self) {
        self.due = AckDue::Nothing;
        self.unacked = 0;
        self.last_ack_sent = self.nxt;
        self.quickacks = self.quickacks.saturating_sub(1);
    }

    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        let delayed = match self.due {
            AckDue::By(at) => Some(at),
            AckDue::Nothing | AckDue::Now => None,
        };
        match (delayed, self.update_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub fn on_timeout(&mut self, now: Instant) {
        if let AckDue::By(at) = self.due
            && at <= now
        {
            self.due = AckDue::Now;
        }
        if self.update_at.is_some_and(|at| at <= now) {
            self.update_at = None;
            self.due = AckDue::Now;
        }
    }

    /// Application bytes received in order.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.nxt.saturating_sub(1 + u64::from(self.fin_received()))
    }

    #[inline]
    pub fn fin_received(&self) -> bool {
        self.fin == Fin::Received
    }
}
