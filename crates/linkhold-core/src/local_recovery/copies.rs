//! The copies of one connection's forwarded segments, in sequence order, until they are known to have come
//! through.
//!
//! Paper: `cr-aware` section 4.2 (the buffer of PHY-LR); Balakrishnan et al. 1995 (Snoop) for the downlink.
//! A copy is sent again only on evidence: something sent later has come through (as RFC 8985 judges, but on
//! one radio hop, which keeps a connection's order), or nothing has for a while. All sequence numbers are
//! compared in sequence space, and nothing here acknowledges anything.

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
    /// Its place in the order of transmissions.
    order: u64,
    /// Copies sent.
    tries: u8,
}

impl Copy {
    fn is_inside(&self, block: &SackBlock) -> bool {
        !self.seq.before(block.left) && !self.end.after(block.right)
    }
}

/// What bounds copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
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
pub(super) struct Done {
    /// Copies sent again.
    pub sent: u32,
    /// Bytes of copies let go of.
    pub freed: u64,
    /// How long the segment took that came through last, if it was sent once.
    pub took: Option<Duration>,
}

impl Metrics {
    /// What became of copies.
    pub(super) fn count(&mut self, done: Done) {
        self.copies_sent += u64::from(done.sent);
        self.kept_bytes = self.kept_bytes.saturating_sub(done.freed);
    }
}

/// The copies of one connection in one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    list: VecDeque<Copy>,
    /// Transmissions so far.
    order: u64,
    /// The latest transmission that is known to have come through.
    delivered: u64,
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
        if !fits || !self.keep(now, packet, bounds, metrics, out) {
            return Verdict::Forward(Rewrite::NONE);
        }
        metrics.kept_bytes += u64::from(packet.len);
        metrics.kept_bytes_peak = metrics.kept_bytes_peak.max(metrics.kept_bytes);
        Verdict::ForwardAndKeep(Rewrite::NONE)
    }

    /// False if there is no place. A segment that the sender sends again takes the place of its older copy.
    fn keep(
        &mut self,
        now: Instant,
        packet: &PacketView<'_>,
        bounds: &Bounds,
        metrics: &mut Metrics,
        out: &mut Actions,
    ) -> bool {
        self.order += 1;
        let (seq, end) = (packet.tcp.seq, packet.tcp.seq_end());
        let (id, bytes, order) = (packet.id, packet.len, self.order);
        let copy = Copy { id, seq, end, bytes, first: now, sent: now, order, tries: 0 };
        let place = self.list.partition_point(|copy| copy.seq.before(seq));
        if let Some(old) = self.list.get_mut(place).filter(|old| old.seq == seq) {
            metrics.count(Done { freed: u64::from(old.bytes), ..Done::default() });
            out.push(Action::Forget { packet: old.id });
            *old = copy;
            return true;
        }
        let room = self.list.len() < bounds.packets as usize;
        if room {
            self.list.insert(place, copy);
        }
        room
    }

    /// Everything before `ack` has come through.
    pub fn acknowledge(&mut self, now: Instant, ack: Seq, out: &mut Actions) -> Done {
        let mut done = Done::default();
        while let Some(copy) = self.list.front().filter(|copy| !copy.end.after(ack)) {
            self.delivered = self.delivered.max(copy.order);
            done.freed += u64::from(copy.bytes);
            // Karn: of a segment sent twice nobody knows which one arrived.
            done.took = (copy.tries == 0).then(|| now.since(copy.sent));
            out.push(Action::Forget { packet: copy.id });
            self.list.pop_front();
        }
        done
    }

    /// What `blocks` hold has come through.
    pub fn received(&mut self, blocks: &[SackBlock], out: &mut Actions) -> Done {
        let mut done = Done::default();
        let delivered = &mut self.delivered;
        self.list.retain(|copy| {
            let inside = blocks.iter().any(|block| copy.is_inside(block));
            if inside {
                *delivered = (*delivered).max(copy.order);
                done.freed += u64::from(copy.bytes);
                out.push(Action::Forget { packet: copy.id });
            }
            !inside
        });
        done
    }

    /// Sends what was sent before something that has come through, and has not come through itself. `guard`:
    /// a copy is not sent again within this time.
    pub fn repair(&mut self, now: Instant, guard: Duration, bounds: &Bounds, out: &mut Actions) -> Done {
        let mut done = Done::default();
        let delivered = self.delivered;
        for copy in &mut self.list {
            let lost = copy.order < delivered;
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
