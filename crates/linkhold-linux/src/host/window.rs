//! Freezes the local senders by window updates: carries a mechanism's freeze and thaw out with what any TCP
//! understands, the receiver's window.
//!
//! Papers: cr-aware section 3 (stop sending at the signal, resume at the next one); the way of activation
//! section 3 (a window update made up on the host itself). It is a [`Mechanism`] around another one: sees
//! what that one sees, and passes on what it answers. For each `Freeze` of a connection it closes the
//! sender's window by acknowledgments made up on the host, keeps it closed in every acknowledgment that
//! passes down meanwhile, and for a `Thaw` repeats the last acknowledgment with the window that the receiver
//! offered.
//!
//! A connection: sending → frozen (Freeze) → sending (Thaw, or [`flush`](Mechanism::flush)).
//!
//! Deviations from cr-aware section 3, because a window update says what the receiver takes, and nothing
//! more:
//! - The retransmission timer is not cancelled. It runs on in a silence and backs off, and each expiry sends
//!   a segment into it.
//! - cwnd and RTO are neither frozen nor restored: a timeout in the silence makes cwnd one segment, and the
//!   RTO stays backed off until new data is acknowledged. The eBPF side keeps cwnd ([`super::kernel`]);
//!   nothing keeps the RTO.
//! - [`Resend`] is ignored. A sender in the loss state retransmits at the thaw's acknowledgment what its cwnd
//!   allows; any other waits for its timer with what the silence took. `linkhold host` says so at start if
//!   its configuration asks for another value than `first`.
//! - A window that is full stops new data only. What was under way is not held back.
//!
//! Decisions that the papers leave open:
//! - A closed window is full, not zero, where something is under way: it ends with what is sent. Behind a
//!   zero window Linux does not count timeouts and reduces ssthresh at each of them (`tcp_retransmit_timer`):
//!   measured once, by hand, from 72 to 2 segments in a silence of one second. Behind a full window 0.78 of
//!   ssthresh was left (the table of docs/host.md).
//!   Linux takes a smaller window without new data only if it is zero, and then any larger one
//!   (`tcp_may_update_window`), so closing takes two acknowledgments.
//! - The acknowledgment at the thaw is sent whether or not this mechanism closed the window. Where the sender
//!   is in the loss state, any acknowledgment lets it retransmit at once, as much as its window allows
//!   (`tcp_process_loss`), so this is also what wakes senders that the kernel side has frozen
//!   ([`super::kernel`]). Without the kernel side the loss state leaves no room in cwnd for the
//!   retransmission.
//! - `closes = false` keeps the windows open, and leaves the wake-up.
//! - Another mechanism of the host (`snr-gate`, `dsasync`) may hold the same windows down. What it tells a
//!   frozen sender is closed as well, also by an acknowledgment that it held and lets go in the silence, and
//!   the thaw repeats the last acknowledgment with the window that it told last.
//! - A connection whose handshake and acknowledgments were never seen has nothing to repeat, and is left
//!   alone. So is one that is signed, and one whose far end has all that its sender will ever send: its
//!   socket may be gone, and a kernel answers an acknowledgment for no socket with a RST.
//! - Linux before 6.6 ignores a zero window without new data, too; there, windows close with the next
//!   acknowledgment that brings some.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use linkhold_core::action::{AckSpec, Action, Actions, Report, Resend, Rewrite, SenderCommand, Verdict};
use linkhold_core::connection::{Connection, Segment};
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::{Direction, FlowKey, PacketId, PacketView, TcpFlags};
use linkhold_core::registry;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;

/// Most connections known. One beyond them is not frozen by its window.
const MAX_FLOWS: usize = 16_384;
/// A connection without a packet for this long makes room, if the table is full and its window is open.
const IDLE: Duration = Duration::from_secs(60);
/// Looking for idle connections walks the whole table, so a full table is looked through once in this time.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// One connection.
#[derive(Debug)]
struct Flow {
    connection: Connection,
    last_seen: Instant,
    frozen: bool,
    /// Its window was closed in this silence: each reopening has its closing.
    closed: bool,
    /// The window field that the inner mechanism told last; `None`: the far end's own.
    told: Option<u16>,
}

impl Flow {
    /// The window field of an acknowledgment repeated, of which the inner mechanism lets no more pass than it
    /// told last.
    fn let_through(&self, window: u16) -> u16 {
        self.told.map_or(window, |told| told.min(window))
    }

    /// The window field that an acknowledgment must have instead of its own, if it must.
    fn closed(&mut self, key: &FlowKey, (ack, window): (Seq, u16), metrics: &mut Metrics) -> Option<u16> {
        if !self.frozen || self.connection.last_ack(*key).is_none() {
            return None;
        }
        // Of a connection that opened in the silence, this is the first window that is closed.
        if !self.closed {
            self.closed = true;
            metrics.windows_closed += 1;
        }
        let closed = self.connection.full(ack, window);
        (closed != window).then_some(closed)
    }

    /// True if this is the newest acknowledgment: an older one changes no window (RFC 9293 section 3.10.7.4).
    fn is_newest(&self, key: &FlowKey, told: (Seq, u16)) -> bool {
        self.connection.last_ack(*key).is_none_or(|newest| (newest.ack, newest.window) == told)
    }
}

/// What a packet tells the local sender.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// It is an acknowledgment that the sender believes.
    tells: bool,
    /// It is the newest such one.
    is_newest: bool,
    /// The window that it must have instead of its own, if it must.
    closed: Option<u16>,
}

/// An acknowledgment that the inner mechanism holds, and what it tells.
#[derive(Clone, Copy, Debug)]
struct Held {
    flow: FlowKey,
    ack: Seq,
    window: u16,
}

/// Header changes that let a window pass only as far as `closed` allows.
fn within(rewrite: Rewrite, closed: Option<u16>) -> Rewrite {
    let window = match (closed, rewrite.window) {
        (Some(closed), Some(window)) => Some(window.min(closed)),
        (closed, window) => closed.or(window),
    };
    Rewrite { window, ..rewrite }
}

/// A mechanism's freezes and thaws, as window updates to the local stack.
pub struct WindowSenders<M> {
    inner: M,
    /// The inner mechanism's answers, before window updates are added.
    answers: Actions,
    /// Thawed senders, which are woken once the call's last thaw is passed on.
    waking: Vec<FlowKey>,
    flows: HashMap<FlowKey, Flow, FixedState>,
    /// Acknowledgments that the inner mechanism holds, no more than it does.
    held: HashMap<PacketId, Held, FixedState>,
    next_sweep: Instant,
    /// False: windows stay open, and only the thaw's acknowledgment is sent.
    closes: bool,
    metrics: Metrics,
}

impl<M: Mechanism> WindowSenders<M> {
    /// Puts window updates around a mechanism. `seed` is for the hash of the table: secret and random.
    #[must_use]
    pub fn new(inner: M, closes: bool, seed: u64) -> Self {
        Self {
            inner,
            answers: Actions::new(),
            waking: Vec::new(),
            flows: HashMap::with_hasher(FixedState::with_seed(seed)),
            held: HashMap::with_hasher(FixedState::with_seed(seed)),
            next_sweep: Instant::ZERO,
            closes,
            metrics: Metrics::default(),
        }
    }

    /// Notes what a packet tells.
    fn see(&mut self, now: Instant, packet: &PacketView<'_>) -> Seen {
        let (tcp, key) = (packet.tcp, packet.flow);
        if tcp.flags.contains(TcpFlags::RST) {
            // One that is not believed ends nothing.
            if let Some(flow) = self.flows.get_mut(key)
                && flow.connection.pass(packet.direction, tcp) != Segment::Doubted
            {
                self.flows.remove(key);
            }
            return Seen::default();
        }
        if !self.flows.contains_key(key) {
            self.make_room(now);
            if self.flows.len() >= MAX_FLOWS {
                return Seen::default();
            }
            let connection = Connection::default();
            let flow = Flow { connection, last_seen: now, frozen: false, closed: false, told: None };
            self.flows.insert(*key, flow);
        }
        let Some(flow) = self.flows.get_mut(key) else { return Seen::default() };
        flow.last_seen = now;
        let segment = flow.connection.pass(packet.direction, tcp);
        if segment == Segment::Begins {
            flow.told = None;
        }
        let is_believed = segment != Segment::Doubted;
        // A SYN's own window is not scaled (RFC 7323 section 2.2), and opens nothing yet.
        let tells = is_believed
            && packet.direction == Direction::Downlink
            && tcp.flags.contains(TcpFlags::ACK)
            && !tcp.flags.contains(TcpFlags::SYN);
        let told = (tcp.ack, tcp.window);
        let closed = if tells && self.closes { flow.closed(key, told, &mut self.metrics) } else { None };
        Seen { tells, is_newest: tells && flow.is_newest(key, told), closed }
    }

    /// Lets idle connections go if the table is full.
    fn make_room(&mut self, now: Instant) {
        if self.flows.len() < MAX_FLOWS || now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_PAUSE;
        let before = self.flows.len();
        self.flows.retain(|_, flow| flow.frozen || now < flow.last_seen + IDLE);
        self.metrics.flow_evictions += (before - self.flows.len()) as u64;
    }

    /// Passes the inner mechanism's actions on, with window updates beside its commands. All thaws go before
    /// the acknowledgments that wake: the kernel side thaws a radio at its last one ([`super::senders`]), and
    /// a sender that is woken before that goes on with a frozen window.
    fn pass_on(&mut self, out: &mut Actions) {
        let Self { answers, waking, flows, held, metrics, closes, .. } = self;
        for action in answers.drain() {
            match action {
                Action::Sender { flow: key, command: SenderCommand::Freeze } => {
                    // The window that an acknowledgment has opened is to be closed, not the other way round.
                    wake(waking, flows, metrics, out);
                    out.push(action);
                    if let Some(flow) = flows.get_mut(&key)
                        && !flow.frozen
                    {
                        flow.frozen = true;
                        if *closes && let Some(last) = flow.connection.last_ack(key) {
                            let mut tell = |window| {
                                metrics.acks_injected += 1;
                                out.push(Action::InjectAck(AckSpec { window, ..last }));
                            };
                            tell(0);
                            let closed = flow.let_through(flow.connection.full(last.ack, last.window));
                            if closed != 0 {
                                tell(closed);
                            }
                            metrics.windows_closed += 1;
                            flow.closed = true;
                        }
                    }
                }
                Action::Sender { flow: key, command: SenderCommand::Thaw { resend: _ } } => {
                    out.push(action);
                    if let Some(flow) = flows.get_mut(&key)
                        && flow.frozen
                    {
                        flow.frozen = false;
                        let was_closed = core::mem::take(&mut flow.closed);
                        if flow.connection.last_ack(key).is_some() {
                            metrics.windows_reopened += u64::from(was_closed);
                            waking.push(key);
                        }
                    }
                }
                Action::InjectAck(mut spec) => {
                    if spec.direction == Direction::Downlink
                        && let Some(flow) = flows.get_mut(&spec.flow)
                    {
                        flow.told = Some(spec.window);
                        if flow.frozen && *closes {
                            spec.window = spec.window.min(flow.connection.full(spec.ack, spec.window));
                        }
                    }
                    out.push(Action::InjectAck(spec));
                }
                Action::Release { packet, rewrite } => {
                    let closed = held.remove(&packet).and_then(|Held { flow: key, ack, window }| {
                        let flow = flows.get_mut(&key)?;
                        if flow.is_newest(&key, (ack, window)) {
                            flow.told = rewrite.window;
                        }
                        if *closes { flow.closed(&key, (ack, window), metrics) } else { None }
                    });
                    out.push(Action::Release { packet, rewrite: within(rewrite, closed) });
                }
                Action::Discard { packet, .. } => {
                    held.remove(&packet);
                    out.push(action);
                }
                // Only the host's own segments are kept, whose windows are not touched.
                Action::Sender { flow: _, command: SenderCommand::Missing { .. } }
                | Action::ReleaseAndKeep { .. }
                | Action::SendCopy { .. }
                | Action::Forget { .. }
                | Action::Report(_)
                | Action::Reclaim { .. }
                | Action::RequestUplink { .. } => out.push(action),
            }
        }
        wake(waking, flows, metrics, out);
    }

    fn own_metrics(&self) -> Metrics {
        let closed =
            |(key, flow): &(&FlowKey, &Flow)| flow.closed && flow.connection.last_ack(**key).is_some();
        let windows_closed_now = self.flows.iter().filter(closed).count() as u64;
        Metrics { windows_closed_now, ..self.metrics }
    }
}

/// Sends the acknowledgments that wake thawed senders, with the windows that the inner mechanism told last.
fn wake(
    waking: &mut Vec<FlowKey>,
    flows: &HashMap<FlowKey, Flow, FixedState>,
    metrics: &mut Metrics,
    out: &mut Actions,
) {
    for key in waking.drain(..) {
        if let Some(flow) = flows.get(&key)
            && let Some(last) = flow.connection.last_ack(key)
        {
            metrics.acks_injected += 1;
            out.push(Action::InjectAck(AckSpec { window: flow.let_through(last.window), ..last }));
        }
    }
}

impl<M: Mechanism> Mechanism for WindowSenders<M> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        // Before the mechanism, so that a connection's first packet can already be repeated.
        let Seen { tells, is_newest, closed } = self.see(now, packet);
        let verdict = self.inner.on_packet(now, packet, &mut self.answers);
        match verdict {
            Verdict::Forward(rewrite) if is_newest => {
                if let Some(flow) = self.flows.get_mut(packet.flow) {
                    flow.told = rewrite.window;
                }
            }
            Verdict::Hold if tells => {
                let held = Held { flow: *packet.flow, ack: packet.tcp.ack, window: packet.tcp.window };
                self.held.insert(packet.id, held);
            }
            Verdict::Forward(_) | Verdict::ForwardAndKeep(_) | Verdict::Hold | Verdict::Drop(_) => {}
        }
        // It may be let go in the call that held it.
        self.pass_on(out);
        match verdict {
            Verdict::Forward(rewrite) => Verdict::Forward(within(rewrite, closed)),
            // Only the host's own segments are kept, whose windows are not touched.
            Verdict::ForwardAndKeep(_) | Verdict::Hold | Verdict::Drop(_) => verdict,
        }
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        let taken = self.inner.on_report(now, report, &mut self.answers);
        self.pass_on(out);
        taken
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        self.inner.on_link(now, event, &mut self.answers);
        self.pass_on(out);
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        self.inner.listens_to(kind)
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        self.inner.on_timeout(now, &mut self.answers);
        self.pass_on(out);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
    }

    fn is_holding(&self) -> bool {
        self.inner.is_holding()
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        self.inner.flush(now, &mut self.answers);
        self.pass_on(out);
        // Thaws whatever the mechanism forgot.
        let mut frozen: Vec<FlowKey> =
            self.flows.iter().filter(|(_, flow)| flow.frozen).map(|(key, _)| *key).collect();
        frozen.sort_unstable();
        for flow in frozen {
            let command = SenderCommand::Thaw { resend: Resend::Nothing };
            self.answers.push(Action::Sender { flow, command });
        }
        self.pass_on(out);
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics().plus(&self.own_metrics())
    }

    /// The windows count with the mechanism that froze the senders.
    fn members(&self) -> Vec<(&'static str, Metrics)> {
        let mut members = self.inner.members();
        let freezes = |name: &str| registry::find(name).is_some_and(|entry| entry.freezes_senders);
        let freezes = members.iter().position(|(name, _)| freezes(name)).unwrap_or(0);
        if let Some((_, metrics)) = members.get_mut(freezes) {
            *metrics = metrics.plus(&self.own_metrics());
        }
        members
    }
}

#[cfg(test)]
mod tests;
