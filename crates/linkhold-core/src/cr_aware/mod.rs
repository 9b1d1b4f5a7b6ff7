//! CR-aware TCP: freezes the senders of its own host while a primary user transmits.
//!
//! Paper: `cr-aware`, section 3. Sees the packets of its host, to learn the connections, and the radio's
//! silences; emits [`SenderCommand`]s, and no packet is held, changed or made.
//! What a frozen sender does (cancel the RTO, keep cwnd and RTO as they are, send nothing) and what it does
//! when it thaws (the timer anew with the frozen RTO, retransmission at once) stand with the endpoint:
//! `Endpoint::freeze` and `Endpoint::thaw` in linkhold-tcp.
//!
//! A sender: sending → frozen → sending. It is frozen while the whole network is silent, or the station at
//! the radio's end of its connection. One silence of several that overlap is enough to freeze it, and it
//! thaws when the last of them ends. A driver at a station names that one station only, so all of its host's
//! senders freeze as one; at the correspondent those of a silent station do, and no others. A driver that
//! cannot tell stations apart there names all of them by one number (`linkhold host`), and then the silence
//! of one freezes every sender.
//!
//! Beyond the paper, because a radio's signal can get lost:
//! - a freeze that nobody ends or tells again is over after `max_freeze`, each station's and each cause's by
//!   itself;
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
use crate::link_event::{Cause, LinkEvent, LinkEventKind};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{FlowKey, PacketView, StationId, TcpFlags};
use crate::silences::{Silences, Told};
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
    /// Most connections known; of those that are not frozen, the longest idle one makes room.
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

/// A connection of the host, with what its sender was told.
#[derive(Clone, Debug)]
struct Sender {
    connection: Connection,
    station: StationId,
    frozen: bool,
}

impl Sender {
    fn new(station: StationId) -> Self {
        Self { connection: Connection::default(), station, frozen: false }
    }

    /// Tells it what holds now, if that is another thing than it was told.
    #[inline]
    fn tell(&mut self, flow: FlowKey, freeze: bool, thawing: SenderCommand, out: &mut Actions) {
        if freeze != self.frozen {
            self.frozen = freeze;
            let command = if freeze { SenderCommand::Freeze } else { thawing };
            out.push(Action::Sender { flow, command });
        }
    }
}

/// CR-aware TCP as a [`Mechanism`].
#[derive(Debug)]
pub struct CrAware {
    config: CrAwareConfig,
    silences: Silences,
    flows: Flows<Sender>,
    metrics: Metrics,
}

impl CrAware {
    /// A host that has seen nothing.
    #[must_use]
    pub fn new(config: &CrAwareConfig) -> Self {
        Self {
            config: *config,
            silences: Silences::new(config.max_freeze),
            flows: Flows::new(config.max_flows, config.flow_seed),
            metrics: Metrics::default(),
        }
    }

    /// Commands the senders that a silence's beginning or end concerns.
    fn command(&mut self, told: Told, out: &mut Actions) {
        let thawing = self.thawing();
        let (scope, again) = match told {
            Told::Nothing => return,
            // `max_freeze` counts from the last word, here and at the senders, which are told again, too.
            Told::Begun { scope, is_new } => {
                self.metrics.silences += u64::from(is_new);
                (scope, true)
            }
            Told::Over { scope, is_last } => {
                if !is_last {
                    return;
                }
                (scope, false)
            }
        };
        for (&flow, sender) in self.flows.iter_mut() {
            if !scope.covers(sender.station) {
                continue;
            }
            let freeze = self.silences.covers(sender.station) && !sender.connection.is_over();
            if freeze && sender.frozen && again {
                out.push(Action::Sender { flow, command: SenderCommand::Freeze });
            }
            sender.tell(flow, freeze, thawing, out);
        }
    }

    const fn thawing(&self) -> SenderCommand {
        SenderCommand::Thaw { resend: self.config.resend }
    }

    fn triggers(&self, cause: Cause) -> bool {
        match self.config.trigger {
            Trigger::AnySilence => true,
            Trigger::PrimaryUser => cause == Cause::PrimaryUser,
        }
    }
}

impl Mechanism for CrAware {
    fn name(&self) -> &'static str {
        "cr-aware"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        let thawing = self.thawing();
        if packet.tcp.flags.contains(TcpFlags::RST) {
            if let Some(sender) = self.flows.get_mut(packet.flow)
                // One that is not believed ends nothing.
                && sender.connection.pass(packet.direction, packet.tcp) != Segment::Doubted
            {
                sender.tell(*packet.flow, false, thawing, out);
                self.flows.remove(packet.flow);
            }
            return Verdict::Forward(Rewrite::NONE);
        }
        let silent = self.silences.covers(packet.station);
        // One that is frozen makes no room: thawed, it would send into the silence, be new itself, and thaw
        // the next.
        let seen = self.flows.see_unless_full(
            now,
            packet.flow,
            |sender| sender.frozen,
            || Sender::new(packet.station),
        );
        let Some(Seen { value: sender, evicted }) = seen else {
            return Verdict::Forward(Rewrite::NONE);
        };
        self.metrics.flow_evictions += u64::from(evicted.is_some());
        sender.connection.pass(packet.direction, packet.tcp);
        // The number of a station that left may be another one's by now.
        sender.station = packet.station;
        sender.tell(*packet.flow, silent && !sender.connection.is_over(), thawing, out);
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        if self.listens_to(&event.kind) {
            let told = self.silences.on_event(now, &event);
            self.command(told, out);
        }
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        match *kind {
            LinkEventKind::FreezeStarted { cause, .. } | LinkEventKind::FreezeEnded { cause, .. } => {
                self.triggers(cause)
            }
            LinkEventKind::StationLeft { .. } => true,
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::TransmitRoom { .. } => false,
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        while let Some(told) = self.silences.on_timeout(now) {
            self.command(told, out);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.silences.next_timeout()
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        let thawing = self.thawing();
        self.silences = Silences::new(self.config.max_freeze);
        for (&flow, sender) in self.flows.iter_mut() {
            sender.tell(flow, false, thawing, out);
        }
    }

    fn metrics(&self) -> Metrics {
        let untracked_events = self.silences.untracked();
        Metrics { flows: self.flows.len() as u64, untracked_events, ..self.metrics }
    }
}
