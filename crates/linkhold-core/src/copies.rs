//! The copies of one connection's forwarded segments, in sequence order, until they are known to have come
//! through.
//!
//! Paper: `cr-aware` section 4.2 (the buffer of PHY-LR); Balakrishnan et al. 1995 (Snoop) for the downlink.
//! A copy is sent again only on evidence: something sent later has come through (as RFC 8985 judges, but on
//! one radio hop, which keeps a connection's order), or nothing has for a while. All sequence numbers are
//! compared in sequence space, and nothing here acknowledges anything.
//!
//! Two mechanisms use it: `local_recovery` sends at once what ACKs show lost; `dsasync` lines copies up,
//! because it knows when silences began and ended, and paces what goes to the radio (`copies/suspects.rs`).

pub(crate) mod round_trip;
pub(crate) mod suspects;

use std::collections::VecDeque;

use crate::action::{Action, Actions, Rewrite, Verdict};
use crate::mechanism::Metrics;
use crate::packet::{PacketId, PacketView, SackBlock};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, Seq};

/// A forwarded segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copy {
    id: PacketId,
    seq: Seq,
    end: Seq,
    bytes: u32,
    /// When the sender's own packet went.
    first: Instant,
    /// When it, or a copy of it, went last.
    sent: Instant,
    /// Place of the first transmission in the order of transmissions.
    kept: u64,
    /// Place of the latest.
    order: u64,
    /// Copies sent.
    tries: u8,
    standing: Standing,
    /// It may have gone before this was kept.
    again: bool,
    /// Its sender has sent it again.
    by_sender: bool,
    /// It went down after something with a higher number had.
    out_of_order: bool,
    /// TSval of the sender's own packet.
    tick: Option<u32>,
}

/// What is thought of a segment that has not been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is on its way.
    Fine,
    /// A silence may have taken it, or has taken it before.
    Suspect,
    /// Something sent later has come through: a copy is due at that time.
    Lost(Instant),
    /// A copy is to go as soon as the radio takes it.
    Due,
}

impl Copy {
    const fn new(now: Instant, id: PacketId, (seq, end): (Seq, Seq), bytes: u32, order: u64) -> Self {
        Self {
            id,
            seq,
            end,
            bytes,
            first: now,
            sent: now,
            kept: order,
            order,
            tries: 0,
            standing: Standing::Fine,
            again: false,
            by_sender: false,
            out_of_order: false,
            tick: None,
        }
    }

    /// It was sent once.
    fn went_once(&self) -> bool {
        self.order == self.kept && !self.again
    }

    /// It was sent once, and no silence came in between.
    fn tells_time(&self) -> bool {
        self.went_once() && self.standing == Standing::Fine
    }

    /// True if the station throws it away: it has taken a later timestamp (`echo`). By RFC 7323 section 5.3
    /// (R1) any later one counts, for Linux only one that is later by more than a tick
    /// (`TCP_PAWS_WINDOW`).
    fn is_stale(&self, echo: u32) -> bool {
        self.tick.is_some_and(|tick| echo.wrapping_sub(tick) as i32 > 1)
    }

    fn is_inside(&self, block: &SackBlock) -> bool {
        !self.seq.before(block.left) && !self.end.after(block.right)
    }
}

/// What bounds copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Most segments kept of one connection.
    pub packets: u32,
    /// Most bytes kept of all connections.
    pub bytes: Bytes,
    /// A copy is let go of after this long, whatever has become of it.
    pub age: Duration,
    /// Most copies sent of one segment.
    pub tries: u8,
}

/// What came of evidence, in segments and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Copies sent again.
    pub sent: u32,
    /// Bytes of copies let go of.
    pub freed: u64,
    /// How long the segment took that came through last, if it was sent once.
    pub took: Option<Duration>,
    /// When that segment went first, however often it has gone since.
    pub first: Option<Instant>,
}

impl Metrics {
    /// What became of copies.
    pub(crate) fn count(&mut self, done: Done) {
        self.copies_sent += u64::from(done.sent);
        self.kept_bytes = self.kept_bytes.saturating_sub(done.freed);
    }
}

/// The copies of one connection in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    list: VecDeque<Copy>,
    /// Transmissions so far.
    order: u64,
    /// Where the data ends that has gone ([`forward`](Self::forward)).
    highest: Option<Seq>,
    /// The latest transmission that is certain to have come through: of a segment sent twice, the first
    /// is meant.
    certain: u64,
    /// The latest copy that seems to have come through, and since when it seems so.
    likely: Option<(u64, Instant)>,
    /// No segment is acknowledged sooner after it was sent.
    least_round_trip: Duration,
    /// Some of the copies may be of what went down out of order.
    any_out_of_order: bool,
    /// Some may not be fine, or went before one with a lower number did: [`judge`](Self::judge) has to look
    /// at all of them.
    any_to_judge: bool,
}

impl Copies {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forwards a segment, and keeps a copy of it if there is place for one.
    pub fn forward(
        &mut self,
        now: Instant,
        packet: &PacketView<'_>,
        bounds: &Bounds,
        metrics: &mut Metrics,
        out: &mut Actions,
    ) -> Verdict {
        let fits = metrics.kept_bytes + u64::from(packet.len) <= bounds.bytes.0;
        let copy = self.goes(now, packet);
        if !self.keep(copy, fits, bounds, metrics, out) {
            return Verdict::Forward(Rewrite::NONE);
        }
        metrics.kept_bytes += u64::from(packet.len);
        metrics.kept_bytes_peak = metrics.kept_bytes_peak.max(metrics.kept_bytes);
        Verdict::ForwardAndKeep(Rewrite::NONE)
    }

    /// A segment goes, whether or not a copy of it will be kept.
    fn goes(&mut self, now: Instant, packet: &PacketView<'_>) -> Copy {
        self.order += 1;
        let (seq, end) = (packet.tcp.seq, packet.tcp.seq_end());
        let again = self.highest.is_some_and(|highest| seq.before(highest));
        self.highest = Some(self.highest.map_or(end, |highest| highest.max(end)));
        Copy { again, ..Copy::new(now, packet.id, (seq, end), packet.len, self.order) }
    }

    /// False if there is no place. A segment that the sender sends again takes the place of its older copy.
    /// `fits`: its bytes are within the bound of all.
    fn keep(
        &mut self,
        copy: Copy,
        fits: bool,
        bounds: &Bounds,
        metrics: &mut Metrics,
        out: &mut Actions,
    ) -> bool {
        let seq = copy.seq;
        let place = self.list.partition_point(|copy| copy.seq.before(seq));
        if let Some(old) = self.list.get_mut(place).filter(|old| old.seq == seq) {
            // Which of the two comes through nobody will know.
            if !fits {
                old.again = true;
                return false;
            }
            metrics.count(Done { freed: u64::from(old.bytes), ..Done::default() });
            out.push(Action::Forget { packet: old.id });
            *old = Copy { kept: old.kept, again: old.again, ..copy };
            return true;
        }
        let room = fits && self.list.len() < bounds.packets as usize;
        if room {
            self.list.insert(place, copy);
        }
        room
    }

    /// What `ack` acknowledges has gone.
    pub fn sent_up_to(&self, ack: Seq) -> bool {
        self.highest.is_some_and(|highest| !ack.after(highest + 1))
    }

    /// Everything before `ack` has come through.
    pub fn acknowledge(&mut self, now: Instant, ack: Seq, out: &mut Actions) -> Done {
        let mut done = Done::default();
        while let Some(copy) = self.list.front().copied().filter(|copy| !copy.end.after(ack)) {
            self.came_through(now, &copy);
            done.freed += u64::from(copy.bytes);
            // Karn: of a segment sent twice nobody knows which one arrived.
            done.took = copy.tells_time().then(|| now.since(copy.sent));
            done.first = Some(copy.first);
            out.push(Action::Forget { packet: copy.id });
            self.list.pop_front();
        }
        done
    }

    /// A segment has come through, by one of its transmissions.
    fn came_through(&mut self, now: Instant, copy: &Copy) {
        if !copy.again {
            self.certain = self.certain.max(copy.kept);
        }
        if !copy.went_once() {
            // RFC 8985 section 6.2 step 2: what is acknowledged too soon for the copy was the original.
            if now.since(copy.sent) >= self.least_round_trip
                && self.likely.is_none_or(|(order, _)| order < copy.order)
            {
                self.likely = Some((copy.order, now));
            }
        } else if self.likely.is_some_and(|(order, _)| copy.kept < order) {
            // One hop keeps the order: had the copy come through first, this would not have come now.
            self.likely = None;
        }
    }

    /// A segment that was sent once was acknowledged after this time.
    pub fn note_round_trip(&mut self, took: Duration) {
        let least = self.least_round_trip;
        self.least_round_trip = if least.is_zero() { took } else { least.min(took) };
    }

    /// The latest copy that has seemed to have come through for so long.
    fn likely_for(&self, now: Instant, doubt: Duration) -> Option<u64> {
        self.likely.filter(|&(_, since)| now.since(since) >= doubt).map(|(order, _)| order)
    }

    /// What `blocks` hold has come through.
    pub fn received(&mut self, now: Instant, blocks: &[SackBlock], out: &mut Actions) -> Done {
        let mut done = Done::default();
        for block in blocks {
            let from = self.list.partition_point(|copy| copy.seq.before(block.left));
            let mut until = from;
            while let Some(copy) = self.list.get(until).copied().filter(|copy| copy.is_inside(block)) {
                self.came_through(now, &copy);
                done.freed += u64::from(copy.bytes);
                out.push(Action::Forget { packet: copy.id });
                until += 1;
            }
            self.list.drain(from..until);
        }
        done
    }

    /// Sends what was sent before something that has come through, and has not come through itself. A copy is
    /// not sent again within the guard, and counts as come through when it has seemed so for `doubt`.
    pub fn repair(
        &mut self,
        now: Instant,
        guard: Duration,
        doubt: Duration,
        bounds: &Bounds,
        out: &mut Actions,
    ) -> Done {
        let mut done = Done::default();
        let likely = self.likely_for(now, doubt).unwrap_or_default();
        let latest = self.certain.max(likely);
        for copy in &mut self.list {
            let lost = copy.order < latest;
            if !lost || copy.tries >= bounds.tries || (copy.tries > 0 && now.since(copy.sent) < guard) {
                continue;
            }
            self.order += 1;
            send(copy, now, self.order, out);
            done.sent += 1;
        }
        done
    }

    /// Sends the first segment if a copy of it may still go: a duplicate ACK without SACK says that it is
    /// missing and something later is not.
    pub fn repair_first(
        &mut self,
        now: Instant,
        ack: Seq,
        guard: Duration,
        bounds: &Bounds,
        out: &mut Actions,
    ) -> Done {
        let mut done = Done::default();
        let fresh = |copy: &&mut Copy| copy.tries == 0 || now.since(copy.sent) >= guard;
        if let Some(copy) =
            self.list.front_mut().filter(|copy| copy.seq == ack && copy.tries < bounds.tries).filter(fresh)
        {
            self.order += 1;
            send(copy, now, self.order, out);
            done.sent = 1;
        }
        done
    }

    /// The segment that begins at `seq` has been sent again from here, and may yet come through.
    pub fn is_repairing(&self, seq: Seq) -> bool {
        self.list.front().is_some_and(|copy| copy.seq == seq && copy.tries > 0)
    }

    /// Lets go of what is too old, and sends the first segment again if nothing of it has been heard for
    /// `patience` since `not_before`.
    pub fn tick(
        &mut self,
        now: Instant,
        not_before: Instant,
        patience: Option<Duration>,
        bounds: &Bounds,
        out: &mut Actions,
    ) -> Done {
        let mut done = Done::default();
        self.list.retain(|copy| {
            let old = now.since(copy.first) >= bounds.age;
            if old {
                done.freed += u64::from(copy.bytes);
                out.push(Action::Forget { packet: copy.id });
            }
            !old
        });
        let (Some(patience), Some(copy)) = (patience, self.list.front_mut()) else { return done };
        // Doubled with every try: the other end may be away.
        let patience = patience * (1 << copy.tries.min(6));
        if copy.tries < bounds.tries && now.since(copy.sent.max(not_before)) >= patience {
            self.order += 1;
            send(copy, now, self.order, out);
            done.sent = 1;
        }
        done
    }

    /// Lets go of everything.
    pub fn clear(&mut self, out: &mut Actions) -> Done {
        let mut done = Done::default();
        (self.likely, self.highest, self.least_round_trip) = (None, None, Duration::ZERO);
        for copy in self.list.drain(..) {
            done.freed += u64::from(copy.bytes);
            out.push(Action::Forget { packet: copy.id });
        }
        done
    }
}

fn send(copy: &mut Copy, now: Instant, order: u64, out: &mut Actions) {
    copy.tries += 1;
    copy.sent = now;
    copy.order = order;
    out.push(Action::SendCopy { packet: copy.id });
}
