//! The SNR gate: keeps the senders of its own host from sending while the radio's signal is bad.
//!
//! Paper: `activation` (Lilakiatsakun and Seneviratne), sections 3.1 (collecting process, decision process)
//! and 3.2 (control layer). Sees samples of the SNR and the packets of its host; emits closed windows: ACKs
//! that pass to the host's sender have their window closed, and ACKs of the gate's own, which repeat the
//! receiver's last, close at once. Another one, with the receiver's last window, opens.
//!
//! Closed is full ([`Closed`]): the window ends with what was sent. The paper's is zero, which a sender must
//! obey as well, but behind which Linux reduces ssthresh at each timeout and counts none
//! (`tcp_retransmit_timer`). Linux takes a smaller window without new data only if it is zero, and then any
//! larger one (`tcp_may_update_window`), so closing takes two ACKs where something is under way. What both
//! cost is in docs/host.md and docs/testbed/host.md.
//!
//! The gate: open → shut → open. If it stood shut for `max_gate`, or no sample came for `lost_signal`, it is
//! overruled: open whatever the signal, until the decision is to send again. A gate whose source of samples
//! has died therefore opens, and one in a place where the signal stays bad does not starve its host.
//!
//! Where the paper says nothing:
//! - *Segments sent before the gate shut* are in the driver's queue and go out, as section 3.2 says. So do
//!   retransmissions: a sender's timeout asks for them, and a bad signal is not always too bad.
//! - *Window probes* pass. A probe is a frame of 40 bytes, of which noise spoils few (at 4 dB CCK-5.5 loses
//!   1 % of them and 13 % of full packets); its answer comes back with a closed window and keeps the
//!   connection alive. To answer it here, the gate would have to drop it, and its byte with it.
//! - *Senders before Linux 6.6* ignore a zero window that repeats sequence and ACK number (RFC 9293 takes
//!   it). They stop with the next ACK that acknowledges something, whose window is closed on its way.
//! - *No new ACK*: a repeated ACK is a duplicate to a sender that ignored its window. There is one for each
//!   closing (two if it is full) and one for each opening. Three duplicates in a row are what a sender
//!   without SACK takes for a loss; since these change the window, they are none to one that obeys RFC 5681
//!   section 2.
//!
//! A receiver's own zero window stays its own. Signed connections are left alone. [`Metrics::silences`]
//! counts how often the gate shut.

mod adaptive;
mod config;
mod decision;
mod flows;
mod samples;
mod settings;

#[cfg(test)]
mod tests;

use crate::action::{AckSpec, Action, Actions, Rewrite, Verdict};
use crate::flows::{Flows, Seen};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{Direction, PacketView, TcpFlags};
use crate::time::Instant;

pub use config::{Closed, Rule, SnrGateConfig};
use decision::{Bin, Decision, Order};
use flows::{Flow, Sent, Told};
use samples::Samples;

/// Whether the host's senders may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// Shut, at the latest until this time.
    Shut {
        until: Instant,
    },
    /// Open though the signal is not good, until it is.
    Overruled,
}

/// The SNR gate as a [`Mechanism`].
#[derive(Debug)]
pub struct SnrGate {
    config: SnrGateConfig,
    samples: Samples,
    /// When the last sample came.
    heard: Instant,
    decision: Box<dyn Decision>,
    gate: Gate,
    flows: Flows<Flow>,
    metrics: Metrics,
}

impl SnrGate {
    /// A gate that has seen nothing.
    #[must_use]
    pub fn new(config: &SnrGateConfig) -> Self {
        Self {
            config: *config,
            samples: Samples::new(config.lost_signal),
            heard: Instant::ZERO,
            decision: config.decision(),
            gate: Gate::Open,
            flows: Flows::new(config.max_flows, config.flow_seed),
            metrics: Metrics::default(),
        }
    }

    const fn is_shut(&self) -> bool {
        matches!(self.gate, Gate::Shut { .. })
    }

    fn shut(&mut self, now: Instant, out: &mut Actions) {
        self.gate = Gate::Shut { until: now + self.config.max_gate };
        self.metrics.silences += 1;
        for (_, flow) in self.flows.iter_mut() {
            close(flow, self.config.closed, &mut self.metrics, out);
        }
    }

    /// Opens a gate that is shut, and every window that it closed.
    fn open(&mut self, next: Gate, out: &mut Actions) {
        let was_shut = self.is_shut();
        self.gate = next;
        if was_shut {
            for (_, flow) in self.flows.iter_mut() {
                reopen(flow, &mut self.metrics, out);
            }
        }
    }

    fn on_sample(&mut self, now: Instant, taken: Instant, db: f32, out: &mut Actions) {
        if !self.samples.add(now, taken, db) {
            return;
        }
        self.heard = now;
        let order = self.decision.decide(now, &self.samples);
        match (self.gate, order) {
            (Gate::Open, Order::Stop) => self.shut(now, out),
            (Gate::Shut { .. } | Gate::Overruled, Order::Send) => self.open(Gate::Open, out),
            (Gate::Open, Order::Send | Order::Keep)
            | (Gate::Shut { .. } | Gate::Overruled, Order::Stop | Order::Keep) => {}
        }
    }

    /// When a gate that is shut opens by itself.
    fn deadline(&self) -> Option<Instant> {
        match self.gate {
            Gate::Shut { until } => Some(until.min(self.heard + self.config.lost_signal)),
            Gate::Open | Gate::Overruled => None,
        }
    }

    fn learn(&mut self, sent: Sent, bin: Option<Bin>) {
        match (sent, bin) {
            (Sent::New, Some(bin)) => self.decision.sent(bin),
            (Sent::Again(Some(first)), _) => self.decision.sent_again(first),
            (Sent::Nothing | Sent::New | Sent::Again(None), _) => {}
        }
    }
}

/// Tells the sender of a connection a closed window, unless it knows or cannot be told.
fn close(flow: &mut Flow, closed: Closed, metrics: &mut Metrics, out: &mut Actions) {
    if flow.told == Told::Closed || !flow.is_gated() {
        return;
    }
    if let Some(ack) = flow.repeated().filter(|ack| ack.window > 0) {
        let mut tell = |window| {
            out.push(Action::InjectAck(AckSpec { window, ..ack }));
            metrics.acks_injected += 1;
        };
        tell(0);
        let window = flow.closed_window(closed, ack.ack, ack.window);
        if window > 0 {
            tell(window);
        }
        note_closed(flow, metrics);
    }
}

fn note_closed(flow: &mut Flow, metrics: &mut Metrics) {
    if flow.told == Told::Open {
        flow.told = Told::Closed;
        metrics.windows_closed += 1;
        metrics.windows_closed_now += 1;
    }
}

/// Tells the sender of a connection the receiver's window again, if the gate had closed it.
fn reopen(flow: &mut Flow, metrics: &mut Metrics, out: &mut Actions) {
    if flow.told == Told::Open {
        return;
    }
    flow.told = Told::Open;
    metrics.windows_reopened += 1;
    metrics.windows_closed_now -= 1;
    // A receiver that has closed its window itself opens it itself, and after the end nobody listens.
    if flow.is_gated()
        && let Some(ack) = flow.repeated().filter(|ack| ack.window > 0)
    {
        out.push(Action::InjectAck(ack));
        metrics.acks_injected += 1;
    }
}

impl Mechanism for SnrGate {
    fn name(&self) -> &'static str {
        "snr-gate"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        let (shut, closed) = (self.is_shut(), self.config.closed);
        // Where the source is silent, nobody knows at what level this was sent.
        let is_heard = now.since(self.heard) < self.config.lost_signal;
        let bin = self.samples.level(self.config.averaged).filter(|_| is_heard).map(Bin::of);
        // One whose window is closed makes no room: opened, it would send, be new itself, and open the next.
        let stays = |flow: &Flow| flow.told == Told::Closed;
        let seen = self.flows.see_unless_full(now, packet.flow, stays, || Flow::new(*packet.flow));
        let Some(Seen { value: flow, evicted }) = seen else {
            return Verdict::Forward(Rewrite::NONE);
        };
        self.metrics.flow_evictions += u64::from(evicted.is_some());
        match packet.direction {
            Direction::Downlink => {
                let tells_window = flow.on_receiver(packet.tcp)
                    && packet.tcp.flags.contains(TcpFlags::ACK)
                    && !packet.tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST);
                if !shut || !tells_window || !flow.is_gated() || packet.tcp.window == 0 {
                    return Verdict::Forward(Rewrite::NONE);
                }
                note_closed(flow, &mut self.metrics);
                let window = flow.closed_window(closed, packet.tcp.ack, packet.tcp.window);
                let changes = window != packet.tcp.window;
                Verdict::Forward(if changes { Rewrite::window(window) } else { Rewrite::NONE })
            }
            Direction::Uplink => {
                let sent = flow.on_sender(packet.tcp, bin);
                if shut {
                    // A connection that began, or first sent data, behind a shut gate.
                    close(flow, closed, &mut self.metrics, out);
                }
                self.learn(sent, bin);
                Verdict::Forward(Rewrite::NONE)
            }
        }
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        match event.kind {
            LinkEventKind::Snr { db, .. } => {
                self.on_sample(now, event.effective_at.unwrap_or(event.detected_at), db, out);
            }
            LinkEventKind::StationLeft { .. } => self.open(Gate::Open, out),
            LinkEventKind::FreezeStarted { .. }
            | LinkEventKind::FreezeEnded { .. }
            | LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::TransmitRoom { .. } => {}
        }
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        matches!(kind, LinkEventKind::Snr { .. } | LinkEventKind::StationLeft { .. })
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        if self.deadline().is_some_and(|due| due <= now) {
            self.open(Gate::Overruled, out);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.deadline()
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        self.open(Gate::Open, out);
    }

    fn metrics(&self) -> Metrics {
        Metrics { flows: self.flows.len() as u64, ..self.metrics }
    }
}
