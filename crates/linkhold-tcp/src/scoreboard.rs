//! What is outstanding: a ring of the segments between SND.UNA and SND.NXT and what is known of each.
//!
//! Source: RFC 6675 section 3 (scoreboard, pipe), RFC 8985 section 5.2 (per-segment state), and the counters of Linux
//! (`sacked_out`, `lost_out`, `retrans_out`), from which pipe is a sum rather than a walk.
//!
//! Positions are 64-bit offsets into the stream (SYN is offset 0), so nothing wraps. A segment has an id that stays
//! its own while it is outstanding. Segments are also chained in the order of their last transmission, which is the
//! order RACK looks at them (Linux `tsorted_sent_queue`).

use std::collections::VecDeque;

use linkhold_core::time::Instant;

const SACKED: u8 = 1;
const LOST: u8 = 2;
/// Retransmitted, and that retransmission is outstanding.
const RETRANS: u8 = 4;
/// Retransmitted at least once.
const EVER_RETRANS: u8 = 8;
const CHAINED: u8 = 16;

/// No segment. Ids wrap after 2^32 segments (6 TB), which no run reaches.
const NIL: u32 = u32::MAX;

/// One outstanding segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub start: u64,
    pub end: u64,
    /// Last transmission.
    pub sent: Instant,
    prev: u32,
    next: u32,
    flags: u8,
}

impl Record {
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
    pub fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }
    pub fn is_lost(&self) -> bool {
        self.flags & LOST != 0
    }
    pub fn retransmission_outstanding(&self) -> bool {
        self.flags & RETRANS != 0
    }
    pub fn ever_retransmitted(&self) -> bool {
        self.flags & EVER_RETRANS != 0
    }
    fn waits_for_retransmission(&self) -> bool {
        self.flags & (SACKED | LOST | RETRANS) == LOST
    }
}

/// A segment that an ACK newly reported as arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub end: u64,
    pub sent: Instant,
    pub ever_retransmitted: bool,
}

/// What one ACK newly told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSummary {
    /// Bytes newly known to have arrived: cumulatively or by SACK.
    pub delivered: u64,
    /// Bytes newly SACKed.
    pub sacked: u64,
    /// Oldest transmission time among the segments newly cumulatively acknowledged that were sent once: the RTT
    /// sample of RFC 6298 (Karn's rule).
    pub first_sent: Option<Instant>,
    /// A retransmitted segment was cumulatively acknowledged: the ACK is ambiguous, and what it covers beyond may have
    /// waited behind the hole (Karn; Linux FLAG_RETRANS_DATA_ACKED).
    pub retransmission_acked: bool,
    /// The youngest of them.
    pub last_sent: Option<Instant>,
    /// The youngest newly SACKed segment that was sent once.
    pub sacked_sent: Option<Instant>,
    /// A segment that was sent once, and ends at or before the mark, is newly (S)ACKed (RFC 5682's test).
    pub original_delivered: bool,
    /// The most recently transmitted segment among those newly delivered, by RACK's order.
    pub newest: Option<Delivered>,
    /// The first newly SACKed segment that was sent once (Linux `first_sackt`).
    pub first_sacked_sent: Option<Instant>,
    /// Where a cumulative ACK covers a segment retransmitted at or after this, the ACK is the original's: its echoed timestamp is
    /// older (RFC 8985 section 6.2 step 2, Linux `tcp_skb_spurious_retrans`). A SACK's echo tells nothing of the SACKed
    /// segment: it is that of the last segment in order (RFC 7323 section 4.3).
    pub echo_before: Option<Instant>,
    /// A never retransmitted segment was delivered below the highest one delivered: the path reorders.
    pub reordered: bool,
}

impl AckSummary {
    /// A segment is newly delivered; `cumulative` if it is not by SACK.
    fn note(&mut self, record: &Record, cumulative: bool) {
        self.delivered += record.len();
        if cumulative
            && record.ever_retransmitted()
            && self.echo_before.is_some_and(|before| record.sent >= before)
        {
            return;
        }
        // RFC 8985 section 6.2 step 2: keep the most recently sent, the higher sequence at equal times.
        let newer = match self.newest {
            None => true,
            Some(best) => (record.sent, record.end) > (best.sent, best.end),
        };
        if newer {
            self.newest = Some(Delivered {
                end: record.end,
                sent: record.sent,
                ever_retransmitted: record.ever_retransmitted(),
            });
        }
    }
}

/// The ring. See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    ring: VecDeque<Record>,
    /// Id of the ring's first record.
    base: u32,
    chain_head: u32,
    chain_tail: u32,
    sacked_bytes: u64,
    sacked_segments: u32,
    lost_bytes: u64,
    retrans_bytes: u64,
    retrans_segments: u32,
    /// Lost segments not retransmitted since.
    waiting: u32,
    /// No segment with a lower id waits for retransmission.
    hint: u32,
    /// Highest offset (S)ACKed so far (RFC 8985 RACK.fack).
    fack: u64,
    /// Highest SACKed offset above SND.UNA, or lower.
    highest_sacked: u64,
    /// RFC 6675 IsLost has been applied below this id.
    lost_mark: u32,
    /// The blocks of the last ACK: what they cover is marked already.
    seen: [(u64, u64); 4],
    /// Segments taken for lost so far, retransmissions again (Linux `tp->lost`).
    losses: u64,
    /// `original_delivered` counts up to here.
    pub original_limit: u64,
}

impl Scoreboard {
    pub fn new() -> Self {
        Self {
            ring: VecDeque::new(),
            base: 0,
            chain_head: NIL,
            chain_tail: NIL,
            sacked_bytes: 0,
            sacked_segments: 0,
            lost_bytes: 0,
            retrans_bytes: 0,
            retrans_segments: 0,
            waiting: 0,
            hint: 0,
            fack: 0,
            highest_sacked: 0,
            lost_mark: 0,
            seen: [(0, 0); 4],
            losses: 0,
            original_limit: 0,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
    pub fn segments(&self) -> usize {
        self.ring.len()
    }
    pub fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }
    pub fn losses(&self) -> u64 {
        self.losses
    }
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }
    pub fn retrans_segments(&self) -> u32 {
        self.retrans_segments
    }
    pub fn front(&self) -> Option<&Record> {
        self.ring.front()
    }
    pub fn back_id(&self) -> Option<u32> {
        if self.ring.is_empty() { None } else { Some(self.base.wrapping_add(self.ring.len() as u32 - 1)) }
    }
    pub fn front_id(&self) -> Option<u32> {
        if self.ring.is_empty() { None } else { Some(self.base) }
    }
    #[inline]
    fn index(&self, id: u32) -> usize {
        id.wrapping_sub(self.base) as usize
    }
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Record> {
        self.ring.get(self.index(id))
    }

    /// RFC 6675 pipe: what is outstanding, less what has left the network, plus what was sent again.
    #[inline]
    pub fn pipe(&self, una: u64, nxt: u64) -> u64 {
        // Sacked and lost segments are disjoint parts of [una, nxt); retransmitted ones are among the lost or the
        // sent, so the sum cannot fall below zero.
        (nxt - una + self.retrans_bytes).saturating_sub(self.sacked_bytes + self.lost_bytes)
    }

    fn chain(&mut self, id: u32) {
        let tail = self.chain_tail;
        let index = self.index(id);
        if let Some(record) = self.ring.get_mut(index) {
            record.prev = tail;
            record.next = NIL;
            record.flags |= CHAINED;
        }
        if tail == NIL {
            self.chain_head = id;
        } else {
            let tail_index = self.index(tail);
            if let Some(record) = self.ring.get_mut(tail_index) {
                record.next = id;
            }
        }
        self.chain_tail = id;
    }

    fn unchain(&mut self, prev: u32, next: u32) {
        if prev == NIL {
            self.chain_head = next;
        } else {
            let index = self.index(prev);
            if let Some(record) = self.ring.get_mut(index) {
                record.next = next;
            }
        }
        if next == NIL {
            self.chain_tail = prev;
        } else {
            let index = self.index(next);
            if let Some(record) = self.ring.get_mut(index) {
                record.prev = prev;
            }
        }
    }

    fn unchain_id(&mut self, id: u32) {
        let index = self.index(id);
        if let Some(record) = self.ring.get_mut(index)
            && record.flags & CHAINED != 0
        {
            record.flags &= !CHAINED;
            let (prev, next) = (record.prev, record.next);
            self.unchain(prev, next);
        }
    }

    /// A new segment `start .. end` was sent.
    pub fn push(&mut self, start: u64, end: u64, now: Instant) {
        let id = self.base.wrapping_add(self.ring.len() as u32);
        self.ring.push_back(Record { start, end, sent: now, prev: NIL, next: NIL, flags: 0 });
        self.chain(id);
    }

    /// Everything below `ack` arrived.
    pub fn acknowledge(&mut self, ack: u64, summary: &mut AckSummary) {
        while let Some(record) = self.ring.front().copied() {
            if record.start >= ack {
                break;
            }
            if record.end > ack {
                self.trim_front(ack, summary);
                break;
            }
            if record.flags & CHAINED != 0 {
                self.unchain(record.prev, record.next);
            }
            self.ring.pop_front();
            self.base = self.base.wrapping_add(1);
            self.forget(&record);
            summary.retransmission_acked |= record.ever_retransmitted();
            if !record.is_sacked() {
                summary.note(&record, true);
                if record.end < self.fack && !record.ever_retransmitted() {
                    summary.reordered = true;
                }
                if !record.ever_retransmitted() {
                    if record.end <= self.original_limit {
                        summary.original_delivered = true;
                    }
                    summary.last_sent = Some(record.sent);
                    if summary.first_sent.is_none() {
                        summary.first_sent = Some(record.sent);
                    }
                }
            }
            self.fack = self.fack.max(record.end);
        }
        if summary.retransmission_acked {
            summary.first_sent = None;
            summary.last_sent = None;
        }
    }

    /// The peer acknowledged part of the first segment (its buffer held no more).
    fn trim_front(&mut self, ack: u64, summary: &mut AckSummary) {
        let Some(record) = self.ring.front_mut() else { return };
        let cut = ack - record.start;
        record.start = ack;
        let flags = record.flags;
        if flags & SACKED != 0 {
            self.sacked_bytes -= cut;
        } else {
            summary.delivered += cut;
        }
        if flags & LOST != 0 {
            self.lost_bytes -= cut;
        }
        if flags & RETRANS != 0 {
            self.retrans_bytes -= cut;
        }
    }

    /// Takes a departing record out of the counters.
    fn forget(&mut self, record: &Record) {
        if record.flags == CHAINED {
            return;
        }
        if record.is_sacked() {
            self.sacked_bytes -= record.len();
            self.sacked_segments -= 1;
        }
        self.forget_transmission(record);
    }

    /// Index of the first record that starts at or after `offset`.
    fn first_from(&self, offset: u64) -> usize {
        self.ring.partition_point(|record| record.start < offset)
    }

    /// The SACK blocks of one ACK, all above SND.UNA, as offsets; unused places are (0, 0).
    pub fn sack(&mut self, blocks: &[(u64, u64); 4], summary: &mut AckSummary) {
        for &(left, right) in blocks {
            if left >= right {
                continue;
            }
            // A block usually repeats one of the last ACK and extends it: skip what is marked.
            let mut from = left;
            for &(seen_left, seen_right) in &self.seen {
                if seen_left <= from && from < seen_right {
                    from = seen_right;
                }
            }
            if from < right {
                self.sack_range(from, right, summary);
            }
        }
        self.seen = *blocks;
    }

    fn sack_range(&mut self, left: u64, right: u64, summary: &mut AckSummary) {
        let mut index = self.first_from(left);
        while let Some(record) = self.ring.get(index).copied() {
            // A segment counts only when it is covered whole (RFC 6675 section 4 Update, Linux alike).
            if record.end > right {
                break;
            }
            if !record.is_sacked() {
                let id = self.base.wrapping_add(index as u32);
                self.unchain_id(id);
                self.forget_transmission(&record);
                let flags = &mut self.ring[index].flags;
                *flags = *flags & EVER_RETRANS | SACKED;
                let len = record.len();
                self.sacked_bytes += len;
                self.sacked_segments += 1;
                summary.sacked += len;
                summary.note(&record, false);
                if !record.ever_retransmitted() {
                    if record.end < self.fack {
                        summary.reordered = true;
                    }
                    if record.end <= self.original_limit {
                        summary.original_delivered = true;
                    }
                    summary.sacked_sent = Some(record.sent);
                    summary.first_sacked_sent.get_or_insert(record.sent);
                }
                self.fack = self.fack.max(record.end);
                self.highest_sacked = self.highest_sacked.max(record.end);
            }
            index += 1;
        }
    }

    /// Takes a record's lost and retransmitted marks out of the counters.
    #[inline]
    fn forget_transmission(&mut self, record: &Record) {
        let len = record.len();
        if record.waits_for_retransmission() {
            self.waiting -= 1;
        }
        if record.is_lost() {
            self.lost_bytes -= len;
        }
        if record.retransmission_outstanding() {
            self.retrans_bytes -= len;
            self.retrans_segments -= 1;
        }
    }

    /// Takes a segment for lost: the original, or its outstanding retransmission. True if that is news.
    pub fn mark_lost(&mut self, id: u32) -> bool {
        let index = self.index(id);
        let Some(record) = self.ring.get(index).copied() else { return false };
        if record.is_sacked() || record.waits_for_retransmission() {
            return false;
        }
        self.unchain_id(id);
        let len = record.len();
        if record.retransmission_outstanding() {
            self.retrans_bytes -= len;
            self.retrans_segments -= 1;
        }
        if !record.is_lost() {
            self.lost_bytes += len;
        }
        let flags = &mut self.ring[index].flags;
        *flags = *flags & EVER_RETRANS | LOST;
        if self.index(self.hint) >= self.ring.len() {
            // The hint's segment was acknowledged meanwhile; what waits may be anywhere.
            self.hint = self.base;
        }
        if self.waiting == 0 || index < self.index(self.hint) {
            self.hint = id;
        }
        self.waiting += 1;
        self.losses += 1;
        true
    }

    /// The first segment that is lost and not retransmitted since.
    pub fn next_lost(&mut self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        // Ids below the base belong to segments acknowledged meanwhile.
        let mut index = self.index(self.hint);
        if index >= self.ring.len() {
            index = 0;
        }
        while let Some(record) = self.ring.get(index) {
            if record.waits_for_retransmission() {
                self.hint = self.base.wrapping_add(index as u32);
                return Some(self.hint);
            }
            index += 1;
        }
        None
    }

    /// RFC 6675 NextSeg rule 3: the first segment below the highest SACKed one that is neither SACKed nor
    /// retransmitted.
    pub fn next_unsacked_below_highest(&self) -> Option<u32> {
        for (index, record) in self.ring.iter().enumerate() {
            if record.end > self.highest_sacked {
                return None;
            }
            if record.flags & (SACKED | LOST | RETRANS) == 0 {
                return Some(self.base.wrapping_add(index as u32));
            }
        }
        None
    }

    /// The segment was sent again.
    pub fn retransmitted(&mut self, id: u32, now: Instant) {
        let index = self.index(id);
        let Some(record) = self.ring.get(index).copied() else { return };
        if record.waits_for_retransmission() {
            self.waiting -= 1;
        }
        if !record.retransmission_outstanding() {
            self.retrans_bytes += record.len();
            self.retrans_segments += 1;
        }
        self.unchain_id(id);
        let slot = &mut self.ring[index];
        slot.flags |= RETRANS | EVER_RETRANS;
        slot.sent = now;
        self.chain(id);
    }

    /// RFC 6675 section 4 IsLost, for every segment: lost when `dup_thresh` segments above it are SACKED. Each
    /// segment is looked at once, as SACKs move the line up. True if any is newly lost.
    pub fn mark_lost_below_sacked(&mut self, dup_thresh: u32) -> bool {
        if self.sacked_segments < dup_thresh || dup_thresh == 0 {
            return false;
        }
        let mut index = self.first_from(self.highest_sacked);
        let mut above = 0;
        while index > 0 && above < dup_thresh {
            index -= 1;
            if self.ring[index].is_sacked() {
                above += 1;
            }
        }
        if above < dup_thresh {
            return false;
        }
        // Everything below `index` has dup_thresh SACKed segments above it.
        let mark = self.index(self.lost_mark);
        let from = if mark > self.ring.len() { 0 } else { mark };
        let mut news = false;
        for i in from..index {
            if self.ring[i].flags & (SACKED | LOST | RETRANS) == 0 {
                news |= self.mark_lost(self.base.wrapping_add(i as u32));
            }
        }
        if index > from {
            self.lost_mark = self.base.wrapping_add(index as u32);
        }
        news
    }

    /// Everything not SACKed is lost (RFC 5681 timeout), save what `spare` says.
    pub fn mark_all_lost(&mut self, mut spare: impl FnMut(&Record) -> bool) {
        // RFC 2018 section 8: the receiver may have thrown SACKed data away; a head that it reported and did not
        // acknowledge proves it (Linux tcp_timeout_mark_lost).
        if self.ring.front().is_some_and(Record::is_sacked) {
            self.forget_sacks();
        }
        for index in 0..self.ring.len() {
            if index > 0 && spare(&self.ring[index]) {
                continue;
            }
            self.mark_lost(self.base.wrapping_add(index as u32));
        }
    }

    fn forget_sacks(&mut self) {
        for record in &mut self.ring {
            record.flags &= !SACKED;
        }
        self.sacked_bytes = 0;
        self.sacked_segments = 0;
        self.highest_sacked = 0;
        self.seen = [(0, 0); 4];
    }

    /// The losses were none: no segment waits for retransmission any more (Linux `tcp_undo_cwnd_reduction`).
    pub fn unmark_lost(&mut self) {
        for index in 0..self.ring.len() {
            let flags = self.ring[index].flags;
            self.ring[index].flags &= !LOST;
            if flags & (LOST | CHAINED) == LOST {
                // Back in the order of transmission as a late arrival: RACK may judge it again.
                self.chain(self.base.wrapping_add(index as u32));
            }
        }
        self.lost_bytes = 0;
        self.waiting = 0;
        self.lost_mark = self.base;
    }

    /// The first segment by time of last transmission, among those RACK may judge.
    pub fn oldest(&self) -> Option<u32> {
        if self.chain_head == NIL { None } else { Some(self.chain_head) }
    }

    /// The one transmitted after `id`.
    pub fn after(&self, id: u32) -> Option<u32> {
        match self.get(id) {
            Some(record) if record.next != NIL => Some(record.next),
            _ => None,
        }
    }

    /// Moves every transmission time later: the clock stood still meanwhile.
    pub fn shift_times(&mut self, by: linkhold_core::time::Duration) {
        for record in &mut self.ring {
            record.sent += by;
        }
    }
}

#[cfg(test)]
mod tests;
