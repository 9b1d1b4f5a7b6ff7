//! What is outstanding: a ring of the segments between SND.UNA and SND.NXT and what is known of each.
//!
//! Source: RFC 6675 section 3 (scoreboard, pipe), RFC 8985 section 5.2 (per-segment state), and the counters
//! of Linux (`sacked_out`, `lost_out`, `retrans_out`), from which pipe is a sum rather than a walk.
//!
//! Positions are 64-bit offsets into the stream (SYN is offset 0), so nothing wraps. A segment has an id that
//! stays its own while it is outstanding. Segments are also chained in the order of their last transmission,
//! which is the order RACK looks at them (Linux `tsorted_sent_queue`).

mod record;
mod ring;

use linkhold_core::time::Instant;

use record::{CHAINED, EVER_RETRANS, LASTING, LOST, RETRANS, Record, SACKED, UNTIMED};
use ring::Ring;

/// No segment. Ids wrap after 2^32 segments (6 TB), which no run reaches.
const NIL: u32 = u32::MAX;

/// A segment that an ACK newly reported as arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    /// Its id, which it had while it was outstanding.
    pub id: u32,
    pub end: u64,
    pub sent: Instant,
    pub ever_retransmitted: bool,
    /// False if the sender stood still since it was sent: that time is shifted, and tells no rate.
    pub timed: bool,
}

/// What one ACK newly told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSummary {
    /// Bytes newly known to have arrived: cumulatively or by SACK.
    pub delivered: u64,
    /// Bytes newly SACKed.
    pub sacked: u64,
    /// Oldest transmission time among the segments newly cumulatively acknowledged that were sent once, and
    /// not before a freeze: the RTT sample of RFC 6298 (Karn's rule).
    pub first_sent: Option<Instant>,
    /// A retransmitted segment was cumulatively acknowledged: the ACK is ambiguous, and what it covers beyond
    /// may have waited behind the hole (Karn; Linux FLAG_RETRANS_DATA_ACKED).
    pub retransmission_acked: bool,
    /// Latest transmission time among the segments that `first_sent` is the oldest of.
    pub last_sent: Option<Instant>,
    /// The youngest newly SACKed segment that was sent once, and not before a freeze.
    pub sacked_sent: Option<Instant>,
    /// A segment that was sent once, and ends at or before the mark, is newly (S)ACKed (RFC 5682's test).
    pub original_delivered: bool,
    /// The most recently transmitted segment among those newly delivered, by RACK's order.
    pub newest: Option<Delivered>,
    /// The first newly SACKed segment that was sent once, and whether it tells an RTT (Linux `first_sackt`).
    pub first_sacked: Option<(Instant, bool)>,
    /// Where a cumulative ACK covers a segment retransmitted at or after this, the ACK is the original's: its
    /// echoed timestamp is older (RFC 8985 section 6.2 step 2, Linux `tcp_skb_spurious_retrans`). A SACK's
    /// echo tells nothing of the SACKed segment: it is that of the last segment in order (RFC 7323 section
    /// 4.3).
    pub echo_before: Option<Instant>,
    /// A never retransmitted segment was delivered below the highest one delivered: the path reorders.
    pub reordered: bool,
}

impl AckSummary {
    /// A segment is newly delivered; `cumulative` if it is not by SACK.
    fn note(&mut self, id: u32, record: &Record, cumulative: bool) {
        self.delivered += record.len();
        let retransmitted = record.ever_retransmitted();
        let original =
            cumulative && retransmitted && self.echo_before.is_some_and(|before| record.sent >= before);
        if !original {
            self.note_newest(Delivered {
                id,
                end: record.end(),
                sent: record.sent,
                ever_retransmitted: retransmitted,
                timed: record.is_timed(),
            });
        }
    }

    /// RFC 8985 section 6.2 step 2: keeps the most recently sent, the higher sequence at equal times.
    #[inline]
    fn note_newest(&mut self, delivered: Delivered) {
        let newer = match self.newest {
            None => true,
            Some(best) => (delivered.sent, delivered.end) > (best.sent, best.end),
        };
        if newer {
            self.newest = Some(delivered);
        }
    }
}

/// The ring. See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    ring: Ring,
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
    /// Highest SACKed offset. SND.UNA may have passed it.
    highest_sacked: u64,
    /// RFC 6675 IsLost has been applied below this id.
    lost_mark: u32,
    /// The blocks of the last ACK: what they cover is marked already.
    seen: [(u64, u64); 4],
    /// Segments taken for lost so far, retransmissions again (Linux `tp->lost`).
    losses: u64,
    /// A segment that ends beyond this offset does not set `original_delivered`.
    pub original_limit: u64,
}

impl Scoreboard {
    pub fn new() -> Self {
        Self {
            ring: Ring::new(),
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
        self.ring.len() == 0
    }
    /// True if no segment is lost and not retransmitted since.
    #[inline]
    pub fn none_waits(&self) -> bool {
        self.waiting == 0
    }
    #[inline]
    pub fn segments(&self) -> u32 {
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
    #[inline]
    pub fn front(&self) -> Option<&Record> {
        self.ring.get(self.ring.base())
    }
    pub fn back_id(&self) -> Option<u32> {
        if self.is_empty() { None } else { Some(self.ring.id(self.ring.len() - 1)) }
    }
    pub fn front_id(&self) -> Option<u32> {
        if self.is_empty() { None } else { Some(self.ring.base()) }
    }
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Record> {
        self.ring.get(id)
    }

    /// RFC 6675 pipe: what is outstanding, less what has left the network, plus what was sent again.
    #[inline]
    pub fn pipe(&self, una: u64, nxt: u64) -> u64 {
        // Sacked and lost segments are disjoint parts of [una, nxt); retransmitted ones are among the lost or
        // the sent, so the sum cannot fall below zero.
        (nxt - una + self.retrans_bytes).saturating_sub(self.sacked_bytes + self.lost_bytes)
    }

    /// Puts a segment at the end of the order of transmission.
    fn chain(&mut self, id: u32) {
        let tail = self.chain_tail;
        if let Some(record) = self.ring.get_mut(id) {
            record.prev = tail;
            record.next = NIL;
            record.flags |= CHAINED;
        }
        self.append(id);
    }

    #[inline]
    fn append(&mut self, id: u32) {
        let tail = core::mem::replace(&mut self.chain_tail, id);
        if tail == NIL {
            self.chain_head = id;
        } else if let Some(record) = self.ring.get_mut(tail) {
            record.next = id;
        }
    }

    /// Takes a segment out of the order of transmission.
    #[inline(never)]
    fn unchain(&mut self, id: u32) {
        let Some(record) = self.ring.get_mut(id) else { return };
        if record.flags & CHAINED == 0 {
            return;
        }
        record.flags &= !CHAINED;
        let (prev, next) = (record.prev, record.next);
        // The head's `prev` may name a segment that is gone.
        if id == self.chain_head {
            self.chain_head = next;
        } else if let Some(record) = self.ring.get_mut(prev) {
            record.next = next;
        }
        if id == self.chain_tail {
            self.chain_tail = if self.chain_head == NIL { NIL } else { prev };
        } else if let Some(record) = self.ring.get_mut(next) {
            record.prev = prev;
        }
    }

    /// A new segment `start .. end` was sent. Answers its id.
    #[inline]
    pub fn push(&mut self, start: u64, end: u64, now: Instant) -> u32 {
        let id = self.ring.next_id();
        let len = (end - start) as u32;
        self.ring.push(Record { start, sent: now, len, prev: self.chain_tail, next: NIL, flags: CHAINED });
        self.append(id);
        id
    }

    /// The last segment, which begins at `start`, was sent more than once.
    #[cold]
    pub fn was_sent_again(&mut self, start: u64) {
        let last = self.ring.next_id().wrapping_sub(1);
        if let Some(record) = self.ring.get_mut(last).filter(|record| record.start == start) {
            record.flags |= EVER_RETRANS;
        }
    }

    /// Everything below `ack` arrived.
    pub fn acknowledge(&mut self, ack: u64, summary: &mut AckSummary) {
        let mut delivered = 0;
        let mut last_plain = None;
        let mut last_end = 0;
        loop {
            let id = self.ring.base();
            let Some(record) = self.ring.get(id) else { break };
            let (end, sent) = (record.end(), record.sent);
            if end > ack {
                if record.start < ack {
                    self.trim_front(ack, summary);
                }
                break;
            }
            last_end = end;
            if record.flags != CHAINED {
                self.acknowledge_marked(id, summary);
                continue;
            }
            // Sent once, and nothing else is known of it: the usual case. Times of such transmissions rise
            // with the offsets, so that only the first and the last tell more than their length.
            delivered += record.len();
            if id == self.chain_head {
                self.chain_head = record.next;
            } else {
                self.unchain(id);
            }
            self.ring.pop();
            if summary.first_sent.is_none() {
                summary.first_sent = Some(sent);
                summary.original_delivered |= end <= self.original_limit;
                summary.reordered |= end < self.fack;
            }
            last_plain = Some((id, end, sent));
        }
        if self.chain_head == NIL {
            self.chain_tail = NIL;
        }
        summary.delivered += delivered;
        if let Some((id, end, sent)) = last_plain {
            summary.last_sent = summary.last_sent.max(Some(sent));
            summary.note_newest(Delivered { id, end, sent, ever_retransmitted: false, timed: true });
        }
        self.fack = self.fack.max(last_end);
        if summary.retransmission_acked {
            summary.first_sent = None;
            summary.last_sent = None;
        }
    }

    /// Takes the first segment away, of which more is known than that it was sent.
    #[cold]
    fn acknowledge_marked(&mut self, id: u32, summary: &mut AckSummary) {
        let Some(&record) = self.ring.get(id) else { return };
        self.unchain(id);
        self.ring.pop();
        self.forget(&record);
        let sent_once = !record.ever_retransmitted();
        summary.retransmission_acked |= !sent_once;
        if record.is_sacked() {
            return;
        }
        summary.note(id, &record, true);
        if sent_once {
            summary.reordered |= record.end() < self.fack;
            summary.original_delivered |= record.end() <= self.original_limit;
        }
        if sent_once && record.is_timed() {
            summary.last_sent = Some(record.sent);
            summary.first_sent.get_or_insert(record.sent);
        }
    }

    /// The peer acknowledged part of the first segment (its buffer held no more).
    #[cold]
    fn trim_front(&mut self, ack: u64, summary: &mut AckSummary) {
        let Some(record) = self.ring.get_mut(self.ring.base()) else { return };
        let cut = ack - record.start;
        record.start = ack;
        record.len -= cut as u32;
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
    fn first_from(&self, offset: u64) -> u32 {
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
                self.sack_range(left, from, right, summary);
            }
        }
        self.seen = *blocks;
    }

    #[inline(never)]
    fn sack_range(&mut self, left: u64, from: u64, right: u64, summary: &mut AckSummary) {
        let mut index = self.first_from(from);
        // The last ACK may have told of a part of the segment before, which the whole block now covers.
        if index > 0 && self.ring[index - 1].end() > from && self.ring[index - 1].start >= left {
            index -= 1;
        }
        while index < self.ring.len() {
            let record = self.ring[index];
            // A segment counts only when it is covered whole (RFC 6675 section 4 Update, Linux alike).
            let end = record.end();
            if end > right {
                break;
            }
            if !record.is_sacked() {
                self.unchain(self.ring.id(index));
                self.forget_transmission(&record);
                let flags = &mut self.ring[index].flags;
                *flags = *flags & LASTING | SACKED;
                let len = record.len();
                self.sacked_bytes += len;
                self.sacked_segments += 1;
                summary.sacked += len;
                summary.note(self.ring.id(index), &record, false);
                if !record.ever_retransmitted() {
                    if end < self.fack {
                        summary.reordered = true;
                    }
                    if end <= self.original_limit {
                        summary.original_delivered = true;
                    }
                    if record.is_timed() {
                        summary.sacked_sent = Some(record.sent);
                    }
                    summary.first_sacked.get_or_insert((record.sent, record.is_timed()));
                }
                self.fack = self.fack.max(end);
                self.highest_sacked = self.highest_sacked.max(end);
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
    #[inline(never)]
    pub fn mark_lost(&mut self, id: u32) -> bool {
        let Some(&record) = self.ring.get(id) else { return false };
        if record.is_sacked() || record.waits_for_retransmission() {
            return false;
        }
        self.unchain(id);
        let len = record.len();
        if record.retransmission_outstanding() {
            self.retrans_bytes -= len;
            self.retrans_segments -= 1;
        }
        if !record.is_lost() {
            self.lost_bytes += len;
        }
        let index = self.ring.index(id);
        let flags = &mut self.ring[index].flags;
        *flags = *flags & LASTING | LOST;
        if self.ring.index(self.hint) >= self.ring.len() {
            // The hint's segment was acknowledged meanwhile; what waits may be anywhere.
            self.hint = self.ring.base();
        }
        if self.waiting == 0 || index < self.ring.index(self.hint) {
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
        let mut index = self.ring.index(self.hint);
        if index >= self.ring.len() {
            index = 0;
        }
        while index < self.ring.len() {
            if self.ring[index].waits_for_retransmission() {
                self.hint = self.ring.id(index);
                return Some(self.hint);
            }
            index += 1;
        }
        None
    }

    /// RFC 6675 NextSeg rule 3: the first segment below the highest SACKed one that is neither SACKed nor
    /// retransmitted.
    pub fn next_unsacked_below_highest(&self) -> Option<u32> {
        for index in 0..self.ring.len() {
            let record = &self.ring[index];
            if record.end() > self.highest_sacked {
                return None;
            }
            if record.flags & (SACKED | LOST | RETRANS) == 0 {
                return Some(self.ring.id(index));
            }
        }
        None
    }

    /// The segment was sent again.
    pub fn retransmitted(&mut self, id: u32, now: Instant) {
        let Some(&record) = self.ring.get(id) else { return };
        if record.waits_for_retransmission() {
            self.waiting -= 1;
        }
        if !record.retransmission_outstanding() {
            self.retrans_bytes += record.len();
            self.retrans_segments += 1;
        }
        self.unchain(id);
        if let Some(record) = self.ring.get_mut(id) {
            record.flags = record.flags & !UNTIMED | RETRANS | EVER_RETRANS;
            record.sent = now;
        }
        self.chain(id);
    }

    /// RFC 6675 section 4 IsLost, for every segment: lost when `dup_thresh` segments above it are SACKED.
    /// Each segment is looked at once, as SACKs move the line up. True if any is newly lost.
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
        let mark = self.ring.index(self.lost_mark);
        let from = if mark > self.ring.len() { 0 } else { mark };
        let mut news = false;
        for i in from..index {
            if self.ring[i].flags & (SACKED | LOST | RETRANS) == 0 {
                news |= self.mark_lost(self.ring.id(i));
            }
        }
        if index > from {
            self.lost_mark = self.ring.id(index);
        }
        news
    }

    /// Everything not SACKed is lost (RFC 5681 timeout), save what `spare` says.
    #[cold]
    pub fn mark_all_lost(&mut self, mut spare: impl FnMut(&Record) -> bool) {
        // RFC 2018 section 8: the receiver may have thrown SACKed data away; a head that it reported and did
        // not acknowledge proves it (Linux tcp_timeout_mark_lost).
        if self.front().is_some_and(Record::is_sacked) {
            self.forget_sacks();
        }
        for index in 0..self.ring.len() {
            if index > 0 && spare(&self.ring[index]) {
                continue;
            }
            self.mark_lost(self.ring.id(index));
        }
    }

    /// Every segment before `offset` that is not SACKed is lost; one whose retransmission is out, only where
    /// `overdue` says so of the time at which it went. True if any is newly lost.
    #[cold]
    pub fn mark_lost_below(&mut self, offset: u64, overdue: impl Fn(Instant) -> bool) -> bool {
        let mut news = false;
        for index in 0..self.ring.len() {
            let record = &self.ring[index];
            if record.end() > offset {
                break;
            }
            if !record.retransmission_outstanding() || overdue(record.sent) {
                news |= self.mark_lost(self.ring.id(index));
            }
        }
        news
    }

    fn forget_sacks(&mut self) {
        self.ring.for_each(|record| record.flags &= !SACKED);
        self.sacked_bytes = 0;
        self.sacked_segments = 0;
        self.highest_sacked = 0;
        self.seen = [(0, 0); 4];
    }

    /// The losses were none: no segment waits for retransmission any more (Linux `tcp_undo_cwnd_reduction`).
    #[cold]
    pub fn unmark_lost(&mut self) {
        for index in 0..self.ring.len() {
            let flags = self.ring[index].flags;
            self.ring[index].flags &= !LOST;
            if flags & (LOST | CHAINED) == LOST {
                // Back in the order of transmission as a late arrival: RACK may judge it again.
                self.chain(self.ring.id(index));
            }
        }
        self.lost_bytes = 0;
        self.waiting = 0;
        self.lost_mark = self.ring.base();
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
        self.ring.for_each(|record| record.sent += by);
    }

    /// The path went on while the clock stood still. What is out may have arrived meanwhile, and its ACK may
    /// have waited before the silent hop: its transmission time orders it, and tells no round trip.
    pub fn leave_untimed(&mut self) {
        self.ring.for_each(|record| record.flags |= UNTIMED);
    }
}

#[cfg(test)]
mod tests;
