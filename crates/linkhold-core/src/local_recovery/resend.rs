//! The station's half of local recovery: sends again what the base station reports missing.
//!
//! Paper: `cr-aware` section 4.2. PHY-LR (`from = "link"`): a copy of each uplink segment stays here until
//! the base station or the receiver is known to have it. TCP-LR (`from = "tcp"`): nothing is kept; TCP is
//! told what is missing, and sends it from its own buffer.
//! Sees the host's packets and the base station's reports; emits copies, or commands to the sender. It
//! changes, drops and acknowledges nothing.
//!
//! Not in the paper, which says nothing of it: bounds on copies, tries and age; and a guard, because a report
//! that was sent before a copy arrived names the copy's segment once more.

use crate::action::{Action, Actions, Report, Rewrite, SenderCommand, Verdict};
use crate::copies::{Bounds, Copies};
use crate::flows::{Flows, Seen};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{Direction, PacketView, TcpFlags};
use crate::time::{Duration, Instant};
use crate::units::Bytes;

/// Whose buffer segments are sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResendFrom {
    /// The link's own copies: PHY-LR.
    Link,
    /// TCP's buffer: TCP-LR.
    Tcp,
}

/// Settings of [`LocalResend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalResendConfig {
    /// Whose buffer segments are sent from.
    pub from: ResendFrom,
    /// Most copies sent of one segment.
    pub tries: u8,
    /// A segment is not sent again within this time.
    pub guard: Duration,
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

impl Default for LocalResendConfig {
    fn default() -> Self {
        Self {
            from: ResendFrom::Link,
            tries: 3,
            guard: Duration::from_millis(50),
            keep_for: Duration::from_secs(2),
            max_bytes: Bytes(1 << 20),
            max_flow_packets: 1024,
            max_flows: 256,
            flow_seed: 0,
        }
    }
}

/// How often old copies are looked for.
const TICK: Duration = Duration::from_millis(100);

/// The station's half as a [`Mechanism`].
#[derive(Debug)]
pub struct LocalResend {
    config: LocalResendConfig,
    bounds: Bounds,
    flows: Flows<Copies>,
    /// When old copies are looked for next, while there are any.
    next_tick: Option<Instant>,
    metrics: Metrics,
}

impl LocalResend {
    /// A host that has seen nothing.
    #[must_use]
    pub fn new(config: &LocalResendConfig) -> Self {
        let LocalResendConfig { max_flow_packets: packets, max_bytes: bytes, keep_for: age, tries, .. } =
            *config;
        Self {
            config: *config,
            bounds: Bounds { packets, bytes, age, tries },
            flows: Flows::new(config.max_flows, config.flow_seed),
            next_tick: None,
            metrics: Metrics::default(),
        }
    }

    fn keep(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let Seen { value: copies, evicted, .. } = self.flows.see(now, packet.flow, Copies::default);
        if let Some((_, mut copies)) = evicted {
            self.metrics.flow_evictions += 1;
            self.metrics.count(copies.clear(out));
        }
        let verdict = copies.forward(now, packet, &self.bounds, &mut self.metrics, out);
        if matches!(verdict, Verdict::ForwardAndKeep(_)) {
            self.next_tick.get_or_insert(now + TICK);
        }
        verdict
    }
}

impl Mechanism for LocalResend {
    fn name(&self) -> &'static str {
        "local-resend"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        let tcp = packet.tcp;
        if tcp.flags.intersects(TcpFlags::RST | TcpFlags::SYN) && packet.direction == Direction::Uplink {
            // The host ends a connection or begins one: nothing of an old one under the same addresses counts
            // any more. The far end's word may be made up. If the host believes it, it sends no more, and
            // copies are let go of in time.
            if let Some(mut copies) = self.flows.remove(packet.flow) {
                self.metrics.count(copies.clear(out));
            }
            return Verdict::Forward(Rewrite::NONE);
        }
        match (self.config.from, packet.direction) {
            (ResendFrom::Link, Direction::Uplink) if tcp.payload_len > 0 => {
                return self.keep(now, packet, out);
            }
            (ResendFrom::Link, Direction::Downlink) if tcp.flags.contains(TcpFlags::ACK) => {
                if let Some(copies) =
                    self.flows.get_mut(packet.flow).filter(|copies| copies.sent_up_to(tcp.ack))
                {
                    self.metrics.count(copies.acknowledge(now, tcp.ack, out));
                }
            }
            (ResendFrom::Link | ResendFrom::Tcp, Direction::Uplink | Direction::Downlink) => {}
        }
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        if report.direction != Direction::Uplink {
            return false;
        }
        match self.config.from {
            ResendFrom::Tcp => {
                let command = SenderCommand::Missing { blocks: report.blocks };
                out.push(Action::Sender { flow: report.flow, command });
            }
            ResendFrom::Link => {
                if let Some(copies) = self.flows.get_mut(&report.flow) {
                    self.metrics.count(copies.acknowledge(now, report.next, out));
                    self.metrics.count(copies.received(now, report.blocks.as_slice(), out));
                    let guard = self.config.guard;
                    self.metrics.count(copies.repair(now, guard, guard, &self.bounds, out));
                }
            }
        }
        true
    }

    fn on_link(&mut self, _now: Instant, _event: LinkEvent, _out: &mut Actions) {}

    fn listens_to(&self, _kind: &LinkEventKind) -> bool {
        false
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        if self.next_tick.is_none_or(|due| due > now) {
            return;
        }
        let mut any = false;
        for (_, copies) in self.flows.iter_mut() {
            self.metrics.count(copies.tick(now, now, None, &self.bounds, out));
            any |= !copies.is_empty();
        }
        self.next_tick = any.then(|| now + TICK);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.next_tick
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        for (_, copies) in self.flows.iter_mut() {
            self.metrics.count(copies.clear(out));
        }
        self.next_tick = None;
    }

    fn metrics(&self) -> Metrics {
        Metrics { flows: self.flows.len() as u64, ..self.metrics }
    }
}
