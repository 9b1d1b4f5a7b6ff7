//! Several mechanisms at one node as one: what a driver with a single place for a mechanism (the agent) runs.
//!
//! They stand in order from the wire to the radio. A downlink packet passes them in that order, an uplink
//! packet the other way; a packet that one of them holds goes on to the next when that one lets it go. To
//! each of them the chain is the driver of the [contract](crate::mechanism): a verdict takes effect before
//! the actions of the same call, and what comes last answers first.
//!
//! Where the simulator gives each mechanism a tap of its own, it runs the same packets through the same
//! mechanisms (`linkhold-sim/tests/chain.rs` holds both against each other). Two things differ from taps:
//! - an injected ACK leaves the node at once: the others do not see it;
//! - a mechanism that answers [`Verdict::ForwardAndKeep`] has to be the last that the packet passes, so that
//!   the copy is what left the node. [`Chain::new`] cannot see who will; a configuration checks it
//!   ([`RouterNeeds::kept_bytes`](crate::settings::RouterNeeds)).

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::action::{Action, Actions, DropReason, Report, Rewrite, Verdict};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::log::{OwnedDatagram, OwnedPacket};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{DatagramView, Direction, Origin, PacketId, PacketView};
use crate::time::Instant;

/// Mechanisms at one node, from the wire to the radio. See the module's documentation.
pub struct Chain {
    members: Vec<Member>,
    /// Lists that no call uses.
    spare: Vec<Actions>,
    spare_asked: Vec<Vec<Asked>>,
}

struct Member {
    mechanism: Box<dyn Mechanism>,
    /// The packets that it holds; the mechanism itself bounds them.
    held: HashMap<PacketId, Parked, FixedState>,
}

/// A packet on its way through the chain.
#[derive(Clone, Copy)]
enum Passing {
    Segment(OwnedPacket),
    Datagram(OwnedDatagram),
}

impl Passing {
    const fn id(&self) -> PacketId {
        match self {
            Self::Segment(packet) => packet.id,
            Self::Datagram(datagram) => datagram.id,
        }
    }

    const fn direction(&self) -> Direction {
        match self {
            Self::Segment(packet) => packet.direction,
            Self::Datagram(datagram) => datagram.direction,
        }
    }

    const fn origin(&self) -> Origin {
        match self {
            Self::Segment(packet) => packet.origin,
            Self::Datagram(datagram) => datagram.origin,
        }
    }

    /// Asks a mechanism.
    fn ask(&self, now: Instant, mechanism: &mut dyn Mechanism, answers: &mut Actions) -> Verdict {
        match self {
            Self::Segment(packet) => mechanism.on_packet(now, &packet.view(), answers),
            Self::Datagram(datagram) => mechanism.on_datagram(now, &datagram.view(), answers),
        }
    }

    /// Changes it as a mechanism wants; nothing is changed in a datagram.
    fn change(&mut self, rewrite: Rewrite) {
        match self {
            Self::Segment(packet) => rewrite.apply(&mut packet.tcp, &mut packet.ecn),
            Self::Datagram(_) => debug_assert!(rewrite.is_none(), "a mechanism rewrote a datagram"),
        }
    }
}

/// A held packet as its mechanism was handed it, and what had been changed of it by then.
struct Parked {
    packet: Passing,
    rewrite: Rewrite,
}

/// A mechanism that was asked, and what it wants done.
struct Asked {
    index: usize,
    answers: Actions,
}

/// What became of a packet that went from mechanism to mechanism.
enum Fate {
    /// It leaves, with these changes altogether; `keep`: the driver keeps a copy.
    Leaves { rewrite: Rewrite, keep: bool },
    /// A mechanism holds it.
    Held,
    /// A mechanism dropped it.
    Dropped(DropReason),
}

impl Chain {
    /// The mechanisms as one. `seed` is for the hash of what they hold.
    #[must_use]
    pub fn new(mechanisms: Vec<Box<dyn Mechanism>>, seed: u64) -> Self {
        let member =
            |mechanism| Member { mechanism, held: HashMap::with_hasher(FixedState::with_seed(seed)) };
        let members = mechanisms.into_iter().map(member).collect();
        Self { members, spare: Vec::new(), spare_asked: Vec::new() }
    }

    /// The one that a packet passes after `index`.
    fn after(&self, index: usize, direction: Direction) -> Option<usize> {
        match direction {
            Direction::Downlink => (index + 1 < self.members.len()).then_some(index + 1),
            Direction::Uplink => index.checked_sub(1),
        }
    }

    /// The one that a packet passes first.
    fn first(&self, packet: &Passing) -> Option<usize> {
        let last = self.members.len().checked_sub(1)?;
        Some(match (packet.direction(), packet.origin()) {
            (Direction::Downlink, Origin::Arrival) => 0,
            // Only the one next to the radio takes packets back from its queue.
            (Direction::Downlink, Origin::TransmitQueue) | (Direction::Uplink, _) => last,
        })
    }

    /// Lets a packet go from `index` on until one of them does not forward it. `asked` gets whom it passed,
    /// in that order, with what each wants done.
    fn walk(
        &mut self,
        now: Instant,
        mut packet: Passing,
        from: Option<usize>,
        before: Rewrite,
        asked: &mut Vec<Asked>,
    ) -> Fate {
        let (mut rewrite, mut keep, mut at) = (before, false, from);
        while let Some(index) = at {
            at = self.after(index, packet.direction());
            let mut answers = self.spare.pop().unwrap_or_default();
            let member = &mut self.members[index];
            let verdict = packet.ask(now, &mut *member.mechanism, &mut answers);
            asked.push(Asked { index, answers });
            match verdict {
                Verdict::Forward(more) => {
                    packet.change(more);
                    rewrite = rewrite.and_then(more);
                }
                Verdict::ForwardAndKeep(more) => {
                    debug_assert!(at.is_none(), "only the last that a packet passes keeps a copy of it");
                    rewrite = rewrite.and_then(more);
                    keep = true;
                }
                Verdict::Hold => {
                    member.held.insert(packet.id(), Parked { packet, rewrite });
                    return Fate::Held;
                }
                Verdict::Drop(reason) => return Fate::Dropped(reason),
            }
        }
        Fate::Leaves { rewrite, keep }
    }

    /// Hands a packet that the driver brings to those it passes.
    fn pass(&mut self, now: Instant, packet: Passing, out: &mut Actions) -> Verdict {
        let mut asked = self.spare_asked.pop().unwrap_or_default();
        let from = self.first(&packet);
        let verdict = match self.walk(now, packet, from, Rewrite::NONE, &mut asked) {
            Fate::Leaves { rewrite, keep: false } => Verdict::Forward(rewrite),
            Fate::Leaves { rewrite, keep: true } => Verdict::ForwardAndKeep(rewrite),
            Fate::Held => Verdict::Hold,
            Fate::Dropped(reason) => Verdict::Drop(reason),
        };
        self.settle(now, asked, out);
        verdict
    }

    /// Does what those asked want done, the last first: its actions may name what the ones before let go.
    fn settle(&mut self, now: Instant, mut asked: Vec<Asked>, out: &mut Actions) {
        while let Some(Asked { index, answers }) = asked.pop() {
            self.carry_out(now, index, answers, out);
        }
        self.spare_asked.push(asked);
    }

    /// Carries out what a mechanism wants done, or passes it on to the driver.
    fn carry_out(&mut self, now: Instant, index: usize, mut answers: Actions, out: &mut Actions) {
        for action in answers.drain() {
            match action {
                Action::Release { packet, rewrite } => self.let_go(now, index, packet, rewrite, out),
                Action::ReleaseAndKeep { packet, rewrite } => {
                    let parked = self.members[index].held.remove(&packet);
                    let before = parked.map_or(Rewrite::NONE, |parked| parked.rewrite);
                    out.push(Action::ReleaseAndKeep { packet, rewrite: before.and_then(rewrite) });
                }
                Action::Discard { packet, reason: _ } => {
                    self.members[index].held.remove(&packet);
                    out.push(action);
                }
                // Only the one next to the radio sees the radio's queue.
                Action::Reclaim { scope: _ } if index + 1 < self.members.len() => {}
                Action::Reclaim { .. }
                | Action::SendCopy { .. }
                | Action::Forget { .. }
                | Action::Report(_)
                | Action::InjectAck(_)
                | Action::RequestUplink { .. }
                | Action::Sender { .. } => out.push(action),
            }
        }
        self.spare.push(answers);
    }

    /// A mechanism lets a packet go: the next one gets it.
    fn let_go(&mut self, now: Instant, index: usize, id: PacketId, rewrite: Rewrite, out: &mut Actions) {
        let Some(mut parked) = self.members[index].held.remove(&id) else {
            // The mechanism lets go of a packet that this chain never gave it; the driver counts the error.
            out.push(Action::Release { packet: id, rewrite });
            return;
        };
        parked.packet.change(rewrite);
        let (next, before) = (self.after(index, parked.packet.direction()), parked.rewrite.and_then(rewrite));
        let mut asked = self.spare_asked.pop().unwrap_or_default();
        match self.walk(now, parked.packet, next, before, &mut asked) {
            Fate::Leaves { rewrite, keep: false } => out.push(Action::Release { packet: id, rewrite }),
            Fate::Leaves { rewrite, keep: true } => out.push(Action::ReleaseAndKeep { packet: id, rewrite }),
            Fate::Held => {}
            Fate::Dropped(reason) => out.push(Action::Discard { packet: id, reason }),
        }
        self.settle(now, asked, out);
    }

    /// Calls each of them and does what it wants done before the next is called.
    fn each(
        &mut self,
        now: Instant,
        order: impl Iterator<Item = usize>,
        out: &mut Actions,
        call: impl Fn(&mut dyn Mechanism, &mut Actions),
    ) {
        for index in order {
            let mut answers = self.spare.pop().unwrap_or_default();
            call(&mut *self.members[index].mechanism, &mut answers);
            self.carry_out(now, index, answers, out);
        }
    }
}

impl Mechanism for Chain {
    fn name(&self) -> &'static str {
        "several"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.pass(now, Passing::Segment(packet.into()), out)
    }

    fn on_datagram(&mut self, now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        self.pass(now, Passing::Datagram(datagram.into()), out)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        let first = match event.kind {
            LinkEventKind::TransmitRoom { .. } => self.members.len().saturating_sub(1),
            LinkEventKind::FreezeStarted { .. }
            | LinkEventKind::FreezeEnded { .. }
            | LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::StationLeft { .. } => 0,
        };
        self.each(now, first..self.members.len(), out, |mechanism, answers| {
            mechanism.on_link(now, event, answers);
        });
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        self.members.iter().any(|member| member.mechanism.listens_to(kind))
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        self.each(now, 0..self.members.len(), out, |mechanism, answers| {
            if mechanism.next_timeout().is_some_and(|due| due <= now) {
                mechanism.on_timeout(now, answers);
            }
        });
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        for index in 0..self.members.len() {
            let mut answers = self.spare.pop().unwrap_or_default();
            let taken = self.members[index].mechanism.on_report(now, report, &mut answers);
            self.carry_out(now, index, answers, out);
            if taken {
                return true;
            }
        }
        false
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.mechanism.next_timeout()).min()
    }

    fn is_holding(&self) -> bool {
        // Room in the radio's queue is told to the last one only.
        self.members.last().is_some_and(|member| member.mechanism.is_holding())
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        // What one lets go the next may hold: once along each direction, and nothing is left.
        let back = (0..self.members.len().saturating_sub(1)).rev();
        self.each(now, (0..self.members.len()).chain(back), out, |mechanism, answers| {
            mechanism.flush(now, answers);
        });
    }

    fn metrics(&self) -> Metrics {
        let all = self.members.iter().map(|member| member.mechanism.metrics());
        all.reduce(|sum, one| Metrics {
            // They see the same packets, connections and silences.
            packets: sum.packets.max(one.packets),
            datagrams: sum.datagrams.max(one.datagrams),
            flows: sum.flows.max(one.flows),
            midstream_flows: sum.midstream_flows.max(one.midstream_flows),
            silences: sum.silences.max(one.silences),
            untracked_events: sum.untracked_events.max(one.untracked_events),
            ..sum.plus(&one)
        })
        .unwrap_or_default()
    }

    fn members(&self) -> Vec<(&'static str, Metrics)> {
        self.members.iter().flat_map(|member| member.mechanism.members()).collect()
    }
}

#[cfg(test)]
mod tests;
