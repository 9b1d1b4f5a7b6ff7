//! Copies that wait for their turn: what a silence may have taken, and what ACKs show lost.
//!
//! Source: RFC 8985 (RACK) sections 6.2 and 7.2, on one radio hop.
//! A segment: fine → suspect (a silence was noticed) → due → sent again, then suspect once more; fine or
//! suspect → lost (something that was sent later has come through) → due, after some patience. Whatever its
//! standing, it is let go of once it has come through.
//!
//! What counts as sent later:
//! - **For certain** only the first transmission of a segment. Of a segment sent twice nobody can tell which
//!   of them was acknowledged, and the first stands for less.
//! - **In all likelihood** the copy itself, if the answer took at least the shortest round trip seen, and if
//!   nothing that was sent before it comes through for a while afterwards: one hop keeps a connection's
//!   order. RFC 8985 section 6.2 stops at the first of the two conditions. Here the router's queue may hold
//!   the originals, which come through one after another when the radio returns.

use super::{Copies, Copy, Done, Standing};
use crate::action::{Action, Actions};
use crate::packet::PacketId;
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// Copies further apart than this are not of one window (RFC 7323 section 2.3: at most 2^30).
const SPAN: u32 = 1 << 30;

/// A segment that goes down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded {
    pub id: PacketId,
    pub seq: Seq,
    pub end: Seq,
    /// Length on the wire, bytes.
    pub bytes: u32,
    /// Its sender has sent it before.
    pub again: bool,
    /// Something with a higher number has gone down before.
    pub out_of_order: bool,
    /// Its TSval.
    pub tick: Option<u32>,
}

/// What [`Copies::remember`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remembered {
    /// It is kept, under this number.
    Kept(u64),
    /// The first copy of it is kept already, or there is no place.
    No,
}

/// A copy that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resent {
    pub seq: Seq,
    pub end: Seq,
    pub bytes: u32,
    /// Its sender has sent it again, too.
    pub by_sender: bool,
}

/// How losses are judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judging {
    /// From certain evidence to the copy.
    pub patience: Duration,
    /// From likely evidence to the copy.
    pub doubt: Duration,
    /// Losses of segments that no silence threatened count, too.
    pub all: bool,
    /// Most copies sent of one segment.
    pub tries: u8,
}

impl Copies {
    /// A segment goes down. The first transmission is the one to keep: its timestamp tells the sender that a
    /// timeout was spurious (RFC 3522).
    pub fn remember(&mut self, now: Instant, segment: &Forwarded, most: usize) -> Remembered {
        self.order += 1;
        let order = self.order;
        let Forwarded { id, seq, end, bytes, again, out_of_order, tick } = *segment;
        let newest = self.list.back().is_none_or(|last| !seq.before(last.end));
        if !newest && self.sent_by_sender(now, seq, end, order) {
            return Remembered::No;
        }
        let far = self.list.front().is_some_and(|first| end.minus(first.seq).unsigned_abs() > SPAN);
        if far || self.list.len() >= most {
            return Remembered::No;
        }
        let copy = Copy {
            again,
            by_sender: again,
            out_of_order,
            tick,
            ..Copy::new(now, id, (seq, end), bytes, order)
        };
        self.any_out_of_order = out_of_order || (self.any_out_of_order && !self.list.is_empty());
        if newest {
            self.list.push_back(copy);
        } else {
            let place = self.list.partition_point(|copy| copy.seq.before(seq));
            self.list.insert(place, copy);
            self.any_to_judge = true;
        }
        Remembered::Kept(order)
    }

    /// The sender sends `seq .. end` again. True if a copy of some of it is kept.
    fn sent_by_sender(&mut self, now: Instant, seq: Seq, end: Seq, order: u64) -> bool {
        let from = self.list.partition_point(|copy| !copy.end.after(seq));
        let mut any = false;
        for copy in self.list.iter_mut().skip(from).take_while(|copy| copy.seq.before(end)) {
            any = true;
            copy.by_sender = true;
            (copy.sent, copy.order) = (now, order);
        }
        self.any_to_judge |= any;
        any
    }

    /// When the first segment, or a copy of it, went last.
    pub fn first_sent(&self) -> Option<Instant> {
        self.list.front().map(|first| first.sent)
    }

    /// Gives back the memory of more than `room` copies, if they are not there.
    pub fn shrink_to(&mut self, room: usize) {
        self.list.shrink_to(room);
    }

    /// Segments kept.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The sender sends `seq .. end` again; that segment may still be held.
    pub fn note_sender(&mut self, seq: Seq, end: Seq) {
        let from = self.list.partition_point(|copy| !copy.end.after(seq));
        for copy in self.list.iter_mut().skip(from).take_while(|copy| copy.seq.before(end)) {
            copy.by_sender = true;
        }
    }

    /// A duplicate ACK without blocks: what begins at `ack` is missing, and something later is not (RFC 5681
    /// section 2). A copy that went within `guard` may still come.
    pub fn first_is_missing(&mut self, now: Instant, ack: Seq, how: &Judging, guard: Duration) {
        let Some(first) = self.list.front_mut().filter(|copy| copy.seq == ack && copy.tries < how.tries)
        else {
            return;
        };
        let counts = match first.standing {
            Standing::Fine => how.all,
            Standing::Suspect => first.tries == 0 || now.since(first.sent) >= guard,
            Standing::Lost(_) | Standing::Due => false,
        };
        if counts {
            first.standing = Standing::Lost(now + how.patience);
            self.any_to_judge = true;
        }
    }

    /// Nothing is to be judged.
    pub fn is_settled(&self) -> bool {
        self.likely.is_none() && !self.any_to_judge
    }

    /// The least time from a segment to its ACK.
    pub fn set_least_round_trip(&mut self, least: Duration) {
        self.least_round_trip = least;
    }

    /// A silence was noticed: whatever is not acknowledged may be lost. True if there is any.
    pub fn suspect_all(&mut self) -> bool {
        for copy in &mut self.list {
            copy.standing = Standing::Suspect;
        }
        self.likely = None;
        self.any_to_judge = !self.list.is_empty();
        self.any_to_judge
    }

    /// A silence may have gone by unnoticed: what nothing is known of may be lost. True if there is any.
    pub fn suspect_fine(&mut self) -> bool {
        let mut any = false;
        for copy in self.list.iter_mut().filter(|copy| copy.standing == Standing::Fine) {
            copy.standing = Standing::Suspect;
            any = true;
        }
        self.any_to_judge |= any;
        any
    }

    /// A silence may have taken something.
    pub fn has_suspects(&self) -> bool {
        self.list.iter().any(|copy| copy.standing != Standing::Fine)
    }

    /// Nothing is known of a suspect, and no copy of it has been sent.
    pub fn has_untried(&self) -> bool {
        self.list.iter().any(|copy| copy.standing == Standing::Suspect && copy.tries == 0)
    }

    /// The station has taken a segment with the timestamp `echo`. What it would throw away for an older one
    /// is let go of: only what the sender sends again can fill the hole.
    pub fn taken_timestamp(&mut self, echo: u32, out: &mut Actions) -> Done {
        let mut done = Done::default();
        // Most often the first has the oldest timestamp, and is not stale.
        if !self.any_to_judge && self.list.front().is_none_or(|first| !first.is_stale(echo)) {
            return done;
        }
        self.list.retain(|copy| {
            let stale = copy.is_stale(echo);
            if stale {
                done.freed += u64::from(copy.bytes);
                out.push(Action::Forget { packet: copy.id });
            }
            !stale
        });
        done
    }

    /// Lines up the first `count` suspects of which copies may still be sent. Answers how many there were.
    pub fn line_up(&mut self, count: usize, tries: u8) -> u32 {
        let suspects =
            self.list.iter_mut().filter(|copy| copy.standing == Standing::Suspect && copy.tries < tries);
        let mut lined_up = 0;
        for copy in suspects.take(count) {
            copy.standing = Standing::Due;
            lined_up += 1;
        }
        lined_up
    }

    /// Judges by what has come through. Answers how many more copies are due now.
    pub fn judge(&mut self, now: Instant, how: &Judging) -> u32 {
        let Some(first) = self.list.front() else {
            (self.likely, self.any_to_judge) = (None, false);
            return 0;
        };
        if first.order >= self.certain && self.is_settled() {
            return 0;
        }
        let likely = self.likely_for(now, how.doubt);
        let certain = self.certain;
        let (mut due, mut before, mut settled) = (0, 0, true);
        for copy in &mut self.list {
            let counts = match copy.standing {
                Standing::Fine => how.all,
                Standing::Suspect => true,
                Standing::Lost(_) | Standing::Due => false,
            };
            if counts && copy.tries < how.tries {
                if likely.is_some_and(|likely| copy.order < likely) {
                    copy.standing = Standing::Lost(now);
                } else if copy.order < certain {
                    copy.standing = Standing::Lost(now + how.patience);
                }
            }
            if matches!(copy.standing, Standing::Lost(at) if at <= now) {
                copy.standing = Standing::Due;
                due += 1;
            }
            settled &= copy.standing == Standing::Fine && copy.order >= before;
            before = copy.order;
        }
        self.any_to_judge = !settled;
        if likely.is_some() {
            self.likely = None;
        }
        due
    }

    /// When [`judge`](Self::judge) has something to find without another ACK.
    pub fn next_judgement(&self, how: &Judging) -> Option<Instant> {
        let lost = self.list.iter().filter_map(|copy| match copy.standing {
            Standing::Lost(at) => Some(at),
            Standing::Fine | Standing::Suspect | Standing::Due => None,
        });
        let doubt = self.likely.map(|(_, since)| since + how.doubt);
        lost.chain(doubt).min()
    }

    /// Length of the first copy that is due, bytes.
    pub fn first_due(&self) -> Option<u32> {
        self.list.iter().find(|copy| copy.standing == Standing::Due).map(|copy| copy.bytes)
    }

    /// Sends the first copy that is due.
    pub fn send_due(&mut self, now: Instant, out: &mut Actions) -> Option<Resent> {
        let copy = self.list.iter_mut().find(|copy| copy.standing == Standing::Due)?;
        self.order += 1;
        super::send(copy, now, self.order, out);
        copy.standing = Standing::Suspect;
        let Copy { seq, end, bytes, by_sender, .. } = *copy;
        Some(Resent { seq, end, bytes, by_sender })
    }

    /// A copy will repair a hole that begins at `seq`.
    pub fn repairs(&self, seq: Seq, how: &Judging) -> bool {
        self.list.front().is_some_and(|copy| {
            !copy.seq.after(seq)
                && copy.end.after(seq)
                && match copy.standing {
                    Standing::Fine => how.all,
                    Standing::Suspect => copy.tries > 0 || copy.order < self.certain,
                    Standing::Lost(_) | Standing::Due => true,
                }
        })
    }

    /// Lets go of the copy that begins at `seq` and was kept under this number.
    pub fn let_go(&mut self, seq: Seq, kept: u64, out: &mut Actions) -> Done {
        let mut done = Done::default();
        let place = self.list.partition_point(|copy| copy.seq.before(seq));
        if let Some(copy) = self.list.get(place).filter(|copy| copy.seq == seq && copy.kept == kept) {
            done.freed = u64::from(copy.bytes);
            out.push(Action::Forget { packet: copy.id });
            self.list.remove(place);
        }
        done
    }

    /// The copy that begins at `seq` and was kept under this number is there: since when.
    pub fn since(&self, seq: Seq, kept: u64) -> Option<Instant> {
        // Most often it is the first, or was before that came through.
        let first = self.list.front()?;
        let copy = if seq.after(first.seq) {
            let place = self.list.partition_point(|copy| copy.seq.before(seq));
            self.list.get(place)?
        } else {
            first
        };
        (copy.seq == seq && copy.kept == kept).then_some(copy.first)
    }

    /// What begins at `seq` came back from the transmit queue: it has not been sent, and will go as it is. No
    /// copy of what follows it may go before it. That is what has a higher number, and what went down after
    /// it though its number is lower.
    pub fn taken_back(&mut self, seq: Seq, out: &mut Actions) -> Done {
        let mut done = Done::default();
        let from = self.list.partition_point(|copy| copy.seq.before(seq));
        if self.any_out_of_order {
            self.forget_stragglers(from, seq, &mut done, out);
            return done;
        }
        for copy in self.list.drain(from..) {
            done.freed += u64::from(copy.bytes);
            out.push(Action::Forget { packet: copy.id });
        }
        done
    }

    /// The same if some copies are of what went down out of order; `from` is the first place with that number
    /// or a higher one.
    #[cold]
    fn forget_stragglers(&mut self, from: usize, seq: Seq, done: &mut Done, out: &mut Actions) {
        // If its sender has sent it again, either transmission may have come back, or one of which no copy
        // was kept.
        let since =
            self.list.get(from).filter(|copy| copy.seq == seq && !copy.by_sender).map(|copy| copy.kept);
        let (mut place, mut any) = (0, false);
        self.list.retain(|copy| {
            let is_after = place >= from;
            place += 1;
            let follows = is_after || (copy.out_of_order && since.is_none_or(|since| copy.kept > since));
            if follows {
                done.freed += u64::from(copy.bytes);
                out.push(Action::Forget { packet: copy.id });
            }
            any |= copy.out_of_order && !follows;
            !follows
        });
        self.any_out_of_order = any;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::SackBlock;

    const HOW: Judging =
        Judging { patience: Duration::from_millis(5), doubt: Duration::from_millis(5), all: true, tries: 3 };

    fn segment(number: u32, again: bool) -> Forwarded {
        let seq = Seq(number * 1000);
        Forwarded {
            id: PacketId(u64::from(number)),
            seq,
            end: seq + 1000,
            bytes: 1040,
            again,
            out_of_order: again,
            tick: Some(100 + number),
        }
    }

    /// Copies of these segments, which went at time 0.
    fn kept(numbers: core::ops::RangeInclusive<u32>) -> Copies {
        let mut copies = Copies::default();
        for number in numbers {
            assert_ne!(copies.remember(Instant::ZERO, &segment(number, false), 100), Remembered::No);
        }
        copies
    }

    /// The station tells of the one segment alone.
    fn received(copies: &mut Copies, now: Instant, number: u32) {
        let Forwarded { seq, end, .. } = segment(number, false);
        let _ = copies.received(now, &[SackBlock { left: seq, right: end }], &mut Actions::new());
    }

    /// The sender repairs the first hole itself: the second is judged all the same.
    #[test]
    fn a_hole_is_found_though_the_first_segment_has_just_been_sent_again() {
        let at = Instant::from_millis;
        let mut copies = kept(1..=4);
        assert_eq!(copies.remember(at(9), &segment(1, true), 100), Remembered::No);
        received(&mut copies, at(10), 4);
        assert_eq!(copies.judge(at(10), &HOW), 0, "patience comes first");
        assert_eq!(copies.next_judgement(&HOW), Some(at(15)));
        assert_eq!(copies.judge(at(15), &HOW), 2, "the second and third");
        assert_eq!(copies.next_judgement(&HOW), None);
    }

    /// A copy that could not be kept comes again, and goes before what has been judged.
    #[test]
    fn what_is_lost_becomes_due_though_a_segment_is_put_before_it() {
        let at = Instant::from_millis;
        let mut copies = kept(2..=3);
        received(&mut copies, at(10), 3);
        assert_eq!(copies.judge(at(10), &HOW), 0);
        assert_ne!(copies.remember(at(12), &segment(1, true), 100), Remembered::No);
        assert_eq!(copies.judge(at(15), &HOW), 1, "no timeout is asked for that nothing follows");
        assert_eq!(copies.next_judgement(&HOW), None);
    }
}
