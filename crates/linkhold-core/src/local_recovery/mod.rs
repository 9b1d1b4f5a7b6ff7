//! Local recovery: losses of the radio are repaired at the radio, before or instead of the sender's own
//! recovery.
//!
//! Paper: `cr-aware` section 4.2, whose direction is the uplink: the base station watches the sequence
//! numbers of what comes off the radio and reports a hole, with up to three blocks beyond it, to the
//! station, whose half is [`LocalResend`]. The downlink is the idea of Snoop (Balakrishnan et al. 1995): the
//! base station keeps copies of what it forwards and sends one again when the station's ACKs show that the
//! radio lost it.
//!
//! Sees packets and silences; emits copies and reports, and takes duplicate ACKs out for a bounded time while
//! a copy is under way. It acknowledges nothing, changes no header, and never puts a segment before one of
//! the same connection that it has not forwarded yet.
//!
//! As in the paper, a segment that is missing is taken to be lost on the radio. The base station's own queue
//! lies between this and the radio, so what that queue drops is sent again into it, and its sender never
//! hears of the congestion. Over a queue that drops, without any loss of the radio, that costs goodput: four
//! downloads over scenarios/clean.toml's FIFO of 100 packets have 0.96 of the plain router's, with 3,590
//! copies in 30 s (`linkhold run scenarios/clean.toml --set cases.1.mechanism=local-recovery --set
//! flows.0.count=4 --set duration=30s`). Below dsasync, which keeps that queue short, nothing is dropped.
//!
//! A copy: kept -> (evidence of loss, or no word for `patience`) sent again, at most `tries` times ->
//! acknowledged, SACKed or too old: let go of.
//!
//! Where the paper is silent:
//! - **A report can get lost.** It is repeated at intervals while the hole is there, a bounded number of
//!   times (preset `paper`: not repeated). A hole behind another is named when it appears, and by itself when
//!   the first is filled: it is another report then, with another first byte.
//! - **What is lost.** Downlink a segment is lost when one that was transmitted after it has come through:
//!   one hop keeps a connection's order, so no reordering has to be allowed for (RFC 8985 needs a quarter of
//!   a round trip for that). Of a segment that went twice the first transmission is meant, as long as nobody
//!   can tell: else a needless copy would prove everything lost that went before it, and there are needless
//!   copies, since Linux leaves blocks out of its ACKs (`tcp_comp_sack_nr`). Where there is no SACK, the
//!   first duplicate ACK says it of the first segment, as in Snoop.
//! - **The sender's own ears.** Duplicate ACKs are kept from it while a copy may still help, at most `hide`;
//!   afterwards they pass. One that carries news besides (ECN echo, D-SACK, another window) always passes.

mod resend;
mod settings;
#[cfg(test)]
mod tests;
mod watch;

pub use resend::{LocalResend, LocalResendConfig, ResendFrom};

use crate::connection::{Connection, Segment};
use crate::copies::round_trip::RoundTrip;
use crate::copies::{Bounds, Copies, Done};
use watch::Watch;

use crate::action::{Action, Actions, DropReason, Report, Rewrite, Verdict};
use crate::flows::{Flows, Seen};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{Direction, FlowKey, PacketView, StationId, TcpFlags, TcpSegment};
use crate::silences::{Silences, Told};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, Seq};

/// Settings of [`LocalRecovery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRecoveryConfig {
    /// Keep and send copies of downlink segments.
    pub downlink: bool,
    /// Most reports of the same hole in the uplink.
    pub reports: u8,
    /// From one report of a hole to the next.
    pub report_interval: Duration,
    /// Most copies sent of one segment.
    pub tries: u8,
    /// Least time without a word of the first segment before a copy of it is sent.
    pub least_patience: Duration,
    /// How long duplicate ACKs are kept from the sender.
    pub hide: Duration,
    /// A copy is let go of after this long.
    pub keep_for: Duration,
    /// Most bytes of copies.
    pub max_bytes: Bytes,
    /// Most copies of one connection.
    pub max_flow_packets: u32,
    /// Most connections known.
    pub max_flows: u32,
    /// Seed of the connection table's hash.
    pub flow_seed: u64,
}

impl Default for LocalRecoveryConfig {
    fn default() -> Self {
        Self {
            downlink: true,
            reports: 3,
            report_interval: Duration::from_millis(50),
            tries: 3,
            least_patience: Duration::from_millis(20),
            hide: Duration::from_millis(50),
            keep_for: Duration::from_secs(2),
            max_bytes: Bytes(16 << 20),
            max_flow_packets: 4096,
            max_flows: 4096,
            flow_seed: 0,
        }
    }
}

/// How often holes, patience and age are looked at while there is something to look at.
const TICK: Duration = Duration::from_millis(10);

/// A connection as the base station sees it.
#[derive(Clone, Debug)]
struct Flow {
    station: StationId,
    /// The correspondent's end of it, by which the station's segments are judged.
    connection: Connection,
    up: Watch,
    /// When the hole was reported last, and how often since its first missing byte was another.
    reported: (Instant, u8),
    reported_next: Option<Seq>,
    down: Copies,
    /// End of the highest segment that the station sent.
    heard: Option<Seq>,
    /// The station's latest ACK, and the window field that it carried.
    acked: Option<(Seq, u16)>,
    /// Right edge of the furthest window that the station has offered.
    edge: Option<Seq>,
    /// The station has shown SACK blocks.
    shows_blocks: bool,
    /// Its SYN permits SACK, and so does the correspondent's.
    permits_sack: (bool, bool),
    round_trip: Option<RoundTrip>,
    /// Duplicate ACKs are kept back until then.
    hide_until: Option<Instant>,
}

impl Flow {
    fn new(station: StationId) -> Self {
        Self {
            station,
            connection: Connection::default(),
            up: Watch::default(),
            reported: (Instant::ZERO, 0),
            reported_next: None,
            down: Copies::default(),
            heard: None,
            acked: None,
            edge: None,
            shows_blocks: false,
            permits_sack: (false, false),
            round_trip: None,
            hide_until: None,
        }
    }

    /// A SYN was seen, after which the data of its direction begins. The other direction's may have begun
    /// already: its SYN may have been the answered one.
    fn begins(&mut self, direction: Direction, syn: &TcpSegment, out: &mut Actions) -> Done {
        let (first, permits) = (syn.seq_end(), syn.syn.sack_permitted);
        match direction {
            Direction::Uplink => {
                self.permits_sack.0 = permits;
                self.up = Watch::from(first);
                self.heard = Some(first);
                self.reported = (Instant::ZERO, 0);
                self.reported_next = None;
                Done::default()
            }
            Direction::Downlink => {
                self.permits_sack.1 = permits;
                (self.acked, self.edge) = (None, None);
                self.shows_blocks = false;
                self.round_trip = None;
                self.hide_until = None;
                self.down.clear(out)
            }
        }
    }

    /// True if a segment can be of this connection. [`Connection`] judges what the station sends, and takes
    /// its host's word for true; but the correspondent's end is far, too: it acknowledges what the station
    /// sent, and sends what the station has room for, or the byte beyond that a probe takes.
    fn can_be(&self, direction: Direction, tcp: &TcpSegment) -> bool {
        let begins = tcp.flags.contains(TcpFlags::SYN);
        let acks = tcp.flags.contains(TcpFlags::ACK).then_some(tcp.ack).zip(self.heard);
        direction == Direction::Uplink
            || begins
            || (acks.is_none_or(|(ack, heard)| !ack.after(heard))
                && self.edge.is_none_or(|edge| !tcp.seq_end().after(edge + 1)))
    }

    /// Forgets both directions of the connection that was on these ports.
    fn forget(&mut self, out: &mut Actions) -> Done {
        let done = self.down.clear(out);
        *self = Self { connection: core::mem::take(&mut self.connection), ..Self::new(self.station) };
        done
    }

    /// What a SYN-ACK says of the SYN that it answers: it permits SACK only if that did (RFC 2018 section 2),
    /// and it acknowledges where the data begins.
    fn is_answered(&mut self, direction: Direction, tcp: &TcpSegment) {
        let permits = tcp.syn.sack_permitted;
        self.permits_sack = (permits, permits);
        if direction == Direction::Downlink {
            self.up = Watch::from(tcp.ack);
        }
    }

    /// The station tells by SACK what is missing.
    fn has_sack(&self) -> bool {
        self.shows_blocks || self.permits_sack == (true, true)
    }

    fn measured(&mut self, took: Option<Duration>) {
        let Some(took) = took else { return };
        self.round_trip = Some(RoundTrip::measured(self.round_trip, took));
        self.down.note_round_trip(took);
    }

    fn patience(&self, least: Duration) -> Option<Duration> {
        Some(self.round_trip?.with_deviations(4).max(least))
    }

    /// How long a copy has to seem to have come through: a quarter of the round trip, which stands for
    /// reordering in RFC 8985, and of the least patience.
    fn doubt(&self, least: Duration) -> Duration {
        let quarter = Duration::from_nanos(least.as_nanos() / 4);
        self.round_trip.map_or(quarter, |measured| measured.quarter().max(quarter))
    }

    fn needs_ticks(&self) -> bool {
        self.up.has_hole() || !self.down.is_empty()
    }
}

/// Local recovery at the base station as a [`Mechanism`].
#[derive(Debug)]
pub struct LocalRecovery {
    flows: Flows<Flow>,
    shared: Shared,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    config: LocalRecoveryConfig,
    bounds: Bounds,
    silences: Silences,
    /// When the last silence ended.
    silence_ended: Instant,
    next_tick: Option<Instant>,
    metrics: Metrics,
}

impl LocalRecovery {
    /// A base station that has seen nothing.
    #[must_use]
    pub fn new(config: &LocalRecoveryConfig) -> Self {
        let LocalRecoveryConfig { max_flow_packets: packets, max_bytes: bytes, keep_for: age, tries, .. } =
            *config;
        let shared = Shared {
            config: *config,
            bounds: Bounds { packets, bytes, age, tries },
            silences: Silences::without_limit(),
            silence_ended: Instant::ZERO,
            next_tick: None,
            metrics: Metrics::default(),
        };
        Self { flows: Flows::new(config.max_flows, config.flow_seed), shared }
    }
}

impl Shared {
    fn note(&mut self, now: Instant, told: Told) {
        match told {
            Told::Nothing => {}
            Told::Begun { is_new, .. } => self.metrics.silences += u64::from(is_new),
            Told::Over { .. } => self.silence_ends(now),
        }
    }

    fn silence_ends(&mut self, now: Instant) {
        self.silence_ended = now;
        self.next_tick.get_or_insert(now + TICK);
    }

    fn downlink(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        let tcp = packet.tcp;
        // What the station has already is a sender's needless copy.
        let arrived = flow.acked.is_some_and(|(acked, _)| !tcp.seq_end().after(acked));
        if !self.config.downlink || tcp.payload_len == 0 || arrived {
            return Verdict::Forward(Rewrite::NONE);
        }
        let verdict = flow.down.forward(now, packet, &self.bounds, &mut self.metrics, out);
        if matches!(verdict, Verdict::ForwardAndKeep(_)) {
            self.next_tick.get_or_insert(now + TICK);
        }
        verdict
    }

    fn uplink(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        let tcp = packet.tcp;
        if tcp.payload_len > 0 && self.config.reports > 0 {
            self.watch(now, flow, packet, out);
        }
        if self.config.downlink && tcp.flags.contains(TcpFlags::ACK) && self.heard(now, flow, tcp, out) {
            return Verdict::Drop(DropReason::RepairedHere);
        }
        Verdict::Forward(Rewrite::NONE)
    }

    /// Uplink data has come off the radio.
    fn watch(&mut self, now: Instant, flow: &mut Flow, packet: &PacketView<'_>, out: &mut Actions) {
        if flow.up.arrived(packet.tcp.seq, packet.tcp.seq_end()) {
            // A hole that nobody has told of: the count begins anew.
            flow.reported.1 = 0;
            report(now, packet.flow, flow, &mut self.metrics, out);
        }
        if flow.up.has_hole() {
            self.next_tick.get_or_insert(now + TICK);
        }
    }

    /// The station acknowledges. True if the sender is not to hear of it now.
    fn heard(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment, out: &mut Actions) -> bool {
        // An ACK of what was never sent is none of the connection's.
        if flow.connection.sent().is_none_or(|sent| tcp.ack.after(sent)) {
            return false;
        }
        let edge = flow.connection.offered(tcp);
        flow.edge = Some(flow.edge.map_or(edge, |furthest| furthest.max(edge)));
        let before = flow.acked;
        let advanced = before.is_none_or(|(acked, _)| tcp.ack.after(acked));
        if before.is_some_and(|(acked, _)| tcp.ack.before(acked)) {
            return false;
        }
        let same_window = before.is_some_and(|(_, window)| window == tcp.window);
        flow.acked = Some((tcp.ack, tcp.window));
        flow.shows_blocks |= !tcp.sack.is_empty();
        let mut done = flow.down.acknowledge(now, tcp.ack, out);
        flow.measured(done.took);
        self.metrics.count(done);
        if flow.down.is_empty() {
            flow.hide_until = None;
            return false;
        }
        let guard = flow.patience(self.config.least_patience).unwrap_or(self.config.least_patience);
        let blocks = tcp.sack.as_slice();
        if self.silences.covers(flow.station) {
            return false;
        }
        done = if blocks.is_empty() {
            if advanced || flow.has_sack() || !is_duplicate(tcp, same_window) {
                return false;
            }
            flow.down.repair_first(now, tcp.ack, guard, &self.bounds, out)
        } else {
            let freed = flow.down.received(now, blocks, out);
            self.metrics.count(freed);
            flow.down.repair(now, guard, flow.doubt(self.config.least_patience), &self.bounds, out)
        };
        self.metrics.count(done);
        if !flow.down.is_repairing(tcp.ack) {
            flow.hide_until = None;
            return false;
        }
        let until = *flow.hide_until.get_or_insert(now + self.config.hide);
        !advanced && is_duplicate(tcp, same_window) && now < until
    }
}

/// An ACK that repeats the one before and says nothing else (RFC 5681 section 2): no data, no other window,
/// no ECN echo, no D-SACK (RFC 2883 section 4: a first block below the acknowledgment, or inside the second).
fn is_duplicate(tcp: &TcpSegment, same_window: bool) -> bool {
    let blocks = tcp.sack.as_slice();
    let d_sack = match blocks {
        [first, second, ..] => {
            let inside = !first.left.before(second.left) && !first.right.after(second.right);
            inside || !first.right.after(tcp.ack)
        }
        [first] => !first.right.after(tcp.ack),
        [] => false,
    };
    tcp.is_pure_ack() && same_window && !d_sack && !tcp.flags.contains(TcpFlags::ECE)
}

fn report(now: Instant, key: &FlowKey, flow: &mut Flow, metrics: &mut Metrics, out: &mut Actions) {
    let Some((next, blocks)) = flow.up.report() else { return };
    flow.reported = (now, flow.reported.1.saturating_add(1));
    flow.reported_next = Some(next);
    metrics.reports += 1;
    out.push(Action::Report(Report { flow: *key, direction: Direction::Uplink, next, blocks }));
}

impl Mechanism for LocalRecovery {
    fn name(&self) -> &'static str {
        "local-recovery"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let Self { flows, shared, .. } = self;
        shared.metrics.packets += 1;
        if packet.tcp.flags.contains(TcpFlags::RST) {
            // One that is not believed ends nothing.
            if let Some(flow) = flows.get_mut(packet.flow)
                && flow.connection.pass(packet.direction.opposite(), packet.tcp) != Segment::Doubted
            {
                shared.metrics.count(flow.down.clear(out));
                flows.remove(packet.flow);
            }
            return Verdict::Forward(Rewrite::NONE);
        }
        let Seen { value: flow, evicted, .. } = flows.see(now, packet.flow, || Flow::new(packet.station));
        flow.station = packet.station;
        if let Some((_, mut flow)) = evicted {
            shared.metrics.flow_evictions += 1;
            shared.metrics.count(flow.down.clear(out));
        }
        if !flow.can_be(packet.direction, packet.tcp) {
            return Verdict::Forward(Rewrite::NONE);
        }
        let segment = flow.connection.pass(packet.direction.opposite(), packet.tcp);
        // Of the station's plain segments what they say is judged one by one: another mechanism may have told
        // it windows that do not pass here.
        let begins = packet.tcp.flags.contains(TcpFlags::SYN);
        if segment == Segment::Doubted && (begins || packet.direction == Direction::Downlink) {
            return Verdict::Forward(Rewrite::NONE);
        }
        if packet.direction == Direction::Uplink {
            let end = packet.tcp.seq_end();
            flow.heard = Some(flow.heard.map_or(end, |heard| heard.max(end)));
        }
        if begins {
            // A connection begins: nothing of an old one under the same addresses counts any more. An answer
            // may be the first of it that is believed.
            if segment == Segment::Begins && packet.tcp.flags.contains(TcpFlags::ACK) {
                shared.metrics.count(flow.forget(out));
                flow.is_answered(packet.direction, packet.tcp);
            }
            shared.metrics.count(flow.begins(packet.direction, packet.tcp, out));
            return Verdict::Forward(Rewrite::NONE);
        }
        let verdict = match packet.direction {
            Direction::Downlink => shared.downlink(now, flow, packet, out),
            Direction::Uplink => shared.uplink(now, flow, packet, out),
        };
        if let Verdict::Drop(reason) = verdict {
            shared.metrics.dropped[reason as usize] += 1;
        }
        verdict
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, _out: &mut Actions) {
        let told = self.shared.silences.on_event(now, &event);
        self.shared.note(now, told);
        // An end whose beginning nobody told ends a silence, too.
        let is_now = event.effective_at.is_none_or(|at| at <= now);
        if matches!(event.kind, LinkEventKind::FreezeEnded { .. }) && is_now {
            self.shared.silence_ends(now);
        }
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        matches!(kind, LinkEventKind::FreezeStarted { .. } | LinkEventKind::FreezeEnded { .. })
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        while let Some(told) = self.shared.silences.on_timeout(now) {
            self.shared.note(now, told);
        }
        if self.shared.next_tick.is_none_or(|due| due > now) {
            return;
        }
        let mut any = false;
        for (key, flow) in self.flows.iter_mut() {
            if !flow.needs_ticks() {
                continue;
            }
            let silent = self.shared.silences.covers(flow.station);
            let patience = flow.patience(self.shared.config.least_patience).filter(|_| !silent);
            let done = flow.down.tick(now, self.shared.silence_ended, patience, &self.shared.bounds, out);
            self.shared.metrics.count(done);
            if let Some((next, _)) = flow.up.report().filter(|_| !silent) {
                if flow.reported_next != Some(next) {
                    flow.reported.1 = 0;
                }
                let due = now.since(flow.reported.0) >= self.shared.config.report_interval;
                if due && flow.reported.1 < self.shared.config.reports {
                    report(now, key, flow, &mut self.shared.metrics, out);
                }
            }
            // In a silence a report would be lost: the silence's end brings the next look.
            let to_report = !silent && flow.up.has_hole() && flow.reported.1 < self.shared.config.reports;
            any |= !flow.down.is_empty() || to_report;
        }
        self.shared.next_tick = any.then(|| now + TICK);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.shared.next_tick.into_iter().chain(self.shared.silences.next_timeout()).min()
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        for (_, flow) in self.flows.iter_mut() {
            self.shared.metrics.count(flow.down.clear(out));
        }
        self.shared.next_tick = None;
    }

    fn metrics(&self) -> Metrics {
        let untracked_events = self.shared.silences.untracked();
        Metrics { flows: self.flows.len() as u64, untracked_events, ..self.shared.metrics }
    }
}
