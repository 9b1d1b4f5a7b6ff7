//! CR-aware TCP: freezes the senders of its own host while a primary user transmits.
//!
//! Paper: `cr-aware`, section 3. Sees the packets of its host, to learn the connections, and the radio's
//! silences; emits [`SenderCommand`]s, and no packet is held, changed or made.
//! What a frozen sender does (cancel the RTO, keep cwnd and RTO as they are, send nothing) and what it does
//! when it thaws (the timer anew with the frozen RTO, retransmission at once) stand with the endpoint:
//! `Endpoint::freeze` and `Endpoint::thaw` in linkhold-tcp.
//!
//! The host: sending → frozen → sending. One silence of several that overlap is enough to freeze it, and it
//! thaws when the last of them ends.
//!
//! Beyond the paper, because a radio's signal can get lost:
//! - a freeze that nobody ends or tells again is over after `max_freeze`;
//! - a connection that opens in a silence is frozen when its first packet passes, also where one on the same
//!   ports has ended before;
//! - a connection that is over gets no command, and one that ends in a silence is thawed then: its socket may
//!   be gone, and a late copy of a FIN must not wake anybody;
//! - the recommended settings freeze for every cause of silence, not for a primary user alone (preset
//!   `paper`);
//! - they send the first unacknowledged segment again at the end, not all of them. The paper's "packet whose
//!   acknowledgment is pending" can be read both ways. Over a base station that keeps what it got in a
//!   silence, all is too much: in scenarios/two-places.toml, beside dsasync, 2731 retransmissions a run and
//!   0.977 of the limit, where the first alone has 158 and 0.997 (5 seeds). Where a silence loses what is
//!   in flight (802.15.4), all is right: preset `paper`.

mod settings;

#[cfg(test)]
mod tests;

use crate::action::{Action, Actions, Resend, Rewrite, SenderCommand, Verdict};
use crate::connection::{Connection, Segment};
use crate::flows::{Flows, Seen};
use crate::host_silences::HostSilences;
use crate::later::Later;
use crate::link_event::{Cause, LinkEvent, LinkEventKind};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{PacketView, TcpFlags};
use crate::time::{Duration, Instant};

/// Which silences freeze the senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A primary user's transmissions, as in the paper.
    PrimaryUser,
    /// Every silence.
    AnySilence,
}

/// Settings of [`CrAware`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrAwareConfig {
    /// Which silences freeze the senders.
    pub trigger: Trigger,
    /// What goes again at once when the senders thaw.
    pub resend: Resend,
    /// A freeze that nobody ended after this long is over.
    pub max_freeze: Duration,
    /// Most connections known; the longest idle one makes room.
    pub max_flows: u32,
    /// Seed of the connection table's hash.
    pub flow_seed: u64,
}

impl Default for CrAwareConfig {
    fn default() -> Self {
        Self {
            trigger: Trigger::AnySilence,
            resend: Resend::First,
            max_freeze: Duration::from_secs(10),
            max_flows: 1024,
            flow_seed: 0,
        }
    }
}

/// Whether the host's senders send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Senders {
    Sending,
    /// Frozen, at the latest until this time.
    Frozen {
        until: Instant,
    },
}

/// CR-aware TCP as a [`Mechanism`].
#[derive(Debug)]
pub struct CrAware {
    config: CrAwareConfig,
    senders: Senders,
    silences: HostSilences,
    later: Later,
    flows: Flows<Connection>,
    metrics: Metrics,
}

impl CrAware {
    /// A host that has seen nothing.
    #[must_use]
    pub fn new(config: &CrAwareConfig) -> Self {
        Self {
            config: *config,
            senders: Senders::Sending,
            silences: HostSilences::default(),
            later: Later::default(),
            flows: Flows::new(config.max_flows, config.flow_seed),
            metrics: Metrics::default(),
        }
    }

    fn is_frozen(&self) -> bool {
        matches!(self.senders, Senders::Frozen { .. })
    }

    /// A silence begins, or is told again: `max_freeze` counts from the last word, here and at the senders,
    /// which are told again, too.
    fn freeze(&mut self, now: Instant, out: &mut Actions) {
        self.metrics.silences += u64::from(!self.is_frozen());
        self.senders = Senders::Frozen { until: now + self.config.max_freeze };
        command_all(&self.flows, SenderCommand::Freeze, out);
    }

    fn thaw(&mut self, out: &mut Actions) {
        self.silences = HostSilences::default();
        if self.is_frozen() {
            self.senders = Senders::Sending;
            command_all(&self.flows, self.thawing(), out);
        }
    }

    const fn thawing(&self) -> SenderCommand {
        SenderCommand::Thaw { resend: self.config.resend }
    }

    /// When a silence that nobody ends is over.
    fn thaws_at(&self) -> Option<Instant> {
        match self.senders {
            Senders::Sending => None,
            Senders::Frozen { until } => Some(until),
        }
    }

    fn triggers(&self, cause: Cause) -> bool {
        match self.config.trigger {
            Trigger::AnySilence => true,
            Trigger::PrimaryUser => cause == Cause::PrimaryUser,
        }
    }
}

/// Commands every connection that is not over.
fn command_all(flows: &Flows<Connection>, command: SenderCommand, out: &mut Actions) {
    for (&flow, connection) in flows.iter() {
        if !connection.is_over() {
            out.push(Action::Sender { flow, command });
        }
    }
}

impl Mechanism for CrAware {
    fn name(&self) -> &'static str {
        "cr-aware"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        let (frozen, thawing) = (self.is_frozen(), self.thawing());
        let mut tell = |flow, command| {
            if frozen {
                out.push(Action::Sender { flow, command });
            }
        };
        if packet.tcp.flags.contains(TcpFlags::RST) {
            if let Some(connection) = self.flows.get_mut(packet.flow) {
                let was_live = !connection.is_over();
                // One that is not believed ends nothing.
                if connection.pass(packet.direction, packet.tcp) != Segment::Doubted {
                    self.flows.remove(packet.flow);
                    if was_live {
                        tell(*packet.flow, thawing);
                    }
                }
            }
            return Verdict::Forward(Rewrite::NONE);
        }
        let Seen { value: connection, is_new, evicted } =
            self.flows.see(now, packet.flow, Connection::default);
        let was_live = !is_new && !connection.is_over();
        connection.pass(packet.direction, packet.tcp);
        let is_live = !connection.is_over();
        if let Some((flow, evicted)) = evicted {
            self.metrics.flow_evictions += 1;
            if !evicted.is_over() {
                tell(flow, thawing);
            }
        }
        match (was_live, is_live) {
            (false, true) => tell(*packet.flow, SenderCommand::Freeze),
            (true, false) => tell(*packet.flow, thawing),
            (true, true) | (false, false) => {}
        }
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        if self.later.keep(now, &event) {
            return;
        }
        match event.kind {
            LinkEventKind::FreezeStarted { scope, cause, .. } if self.triggers(cause) => {
                self.silences.started(scope, cause);
                self.freeze(now, out);
            }
            LinkEventKind::FreezeEnded { scope, cause } => {
                if !self.silences.lasts(scope, cause) {
                    self.later.withdraw(&event.kind);
                }
                self.silences.ended(scope, cause);
                if self.silences.none() {
                    self.thaw(out);
                }
            }
            LinkEventKind::FreezeStarted { .. }
            | LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::TransmitRoom { .. }
            | LinkEventKind::StationLeft { .. } => {}
        }
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        matches!(
            *kind,
            LinkEventKind::FreezeStarted { cause, .. } | LinkEventKind::FreezeEnded { cause, .. } if self.triggers(cause)
        )
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        if self.thaws_at().is_some_and(|due| due <= now) {
            self.thaw(out);
        }
        while let Some(event) = self.later.due(now) {
            self.on_link(now, event, out);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.thaws_at().into_iter().chain(self.later.next()).min()
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        self.thaw(out);
    }

    fn metrics(&self) -> Metrics {
        Metrics { flows: self.flows.len() as u64, ..self.metrics }
    }
}
