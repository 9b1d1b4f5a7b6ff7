//! CR-aware TCP: freezes the senders of its own host while a primary user transmits.
//!
//! Paper: `cr-aware`, section 3. Sees the packets of its host, to learn the connections, and the radio's
//! silences; emits [`SenderCommand`]s, and no packet is held, changed or made.
//! What a frozen sender does (cancel the RTO, keep cwnd and RTO as they are, send nothing) and what it does
//! when it thaws stand with the endpoint: `Endpoint::freeze` and `Endpoint::thaw` in linkhold-tcp.
//!
//! The host: sending → frozen → sending. One silence of several that overlap is enough to freeze it, and it
//! thaws when the last of them ends.
//!
//! Beyond the paper, because a radio's signal can get lost:
//! - a freeze that nobody ends is over after `max_freeze`;
//! - a connection that opens in a silence is frozen when its first packet passes;
//! - the recommended settings freeze for every cause of silence, not for a primary user alone (preset
//!   `paper`).

mod settings;

#[cfg(test)]
mod tests;

use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::action::{Action, Actions, Rewrite, SenderCommand, Verdict};
use crate::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{FlowKey, PacketView, TcpFlags};
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

/// The silences that go on, a bit for each cause, of the whole network and of the own station.
#[derive(Clone, Copy, Debug, Default)]
struct Silences {
    network: u8,
    station: u8,
}

impl Silences {
    fn of(&mut self, scope: Scope) -> &mut u8 {
        match scope {
            Scope::Network => &mut self.network,
            Scope::Station(_) => &mut self.station,
        }
    }

    const fn none(self) -> bool {
        self.network == 0 && self.station == 0
    }
}

/// A bit of [`Silences`].
const fn bit(cause: Cause) -> u8 {
    1 << cause as u8
}

/// CR-aware TCP as a [`Mechanism`].
#[derive(Debug)]
pub struct CrAware {
    config: CrAwareConfig,
    senders: Senders,
    silences: Silences,
    flows: Flows,
    metrics: Metrics,
}

impl CrAware {
    /// A host that has seen nothing.
    #[must_use]
    pub fn new(config: &CrAwareConfig) -> Self {
        Self {
            config: *config,
            senders: Senders::Sending,
            silences: Silences::default(),
            flows: Flows::new(config.max_flows, config.flow_seed),
            metrics: Metrics::default(),
        }
    }

    fn is_frozen(&self) -> bool {
        matches!(self.senders, Senders::Frozen { .. })
    }

    fn freeze(&mut self, now: Instant, out: &mut Actions) {
        self.senders = Senders::Frozen { until: now + self.config.max_freeze };
        self.metrics.silences += 1;
        command_all(&self.flows, SenderCommand::Freeze, out);
    }

    fn thaw(&mut self, out: &mut Actions) {
        self.silences = Silences::default();
        if self.is_frozen() {
            self.senders = Senders::Sending;
            command_all(&self.flows, SenderCommand::Thaw, out);
        }
    }

    fn triggers(&self, cause: Cause) -> bool {
        match self.config.trigger {
            Trigger::AnySilence => true,
            Trigger::PrimaryUser => cause == Cause::PrimaryUser,
        }
    }
}

fn command_all(flows: &Flows, command: SenderCommand, out: &mut Actions) {
    for flow in &flows.known {
        out.push(Action::Sender { flow: flow.key, command });
    }
}

impl Mechanism for CrAware {
    fn name(&self) -> &'static str {
        "cr-aware"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        if packet.tcp.flags.contains(TcpFlags::RST) {
            if self.flows.remove(packet.flow) && self.is_frozen() {
                out.push(Action::Sender { flow: *packet.flow, command: SenderCommand::Thaw });
            }
        } else if let Seen::New { evicted } = self.flows.see(now, packet.flow) {
            if let Some(flow) = evicted {
                self.metrics.flow_evictions += 1;
                if self.is_frozen() {
                    out.push(Action::Sender { flow, command: SenderCommand::Thaw });
                }
            }
            if self.is_frozen() {
                out.push(Action::Sender { flow: *packet.flow, command: SenderCommand::Freeze });
            }
        }
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        match event.kind {
            LinkEventKind::FreezeStarted { scope, cause, .. } if self.triggers(cause) => {
                *self.silences.of(scope) |= bit(cause);
                if !self.is_frozen() {
                    self.freeze(now, out);
                }
            }
            LinkEventKind::FreezeEnded { scope, cause } => {
                *self.silences.of(scope) &= !bit(cause);
                if self.silences.none() {
                    self.thaw(out);
                }
            }
            LinkEventKind::FreezeStarted { .. }
            | LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::TransmitRoom { .. }
            | LinkEventKind::StationLeft { .. } => {}
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.thaw(out);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match self.senders {
            Senders::Sending => None,
            Senders::Frozen { until } => Some(until),
        }
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        self.thaw(out);
    }

    fn metrics(&self) -> Metrics {
        Metrics { flows: self.flows.known.len() as u64, ..self.metrics }
    }
}

/// A connection of the host.
#[derive(Clone, Copy, Debug)]
struct Flow {
    key: FlowKey,
    last_seen: Instant,
}

/// The connections of the host, found by a seeded hash and walked in a fixed order.
#[derive(Debug)]
struct Flows {
    known: Vec<Flow>,
    index: HashTable<u32>,
    hasher: FixedState,
    max: usize,
}

/// What [`Flows::see`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Known,
    New {
        /// The connection that made room.
        evicted: Option<FlowKey>,
    },
}

impl Flows {
    fn new(max: u32, seed: u64) -> Self {
        Self {
            known: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            max: max.max(1) as usize,
        }
    }

    fn hash(&self, key: &FlowKey) -> u64 {
        self.hasher.hash_one(key)
    }

    fn find(&self, key: &FlowKey) -> Option<usize> {
        let same = |&slot: &u32| self.known.get(slot as usize).is_some_and(|flow| flow.key == *key);
        self.index.find(self.hash(key), same).map(|&slot| slot as usize)
    }

    fn see(&mut self, now: Instant, key: &FlowKey) -> Seen {
        if let Some(flow) = self.find(key).and_then(|slot| self.known.get_mut(slot)) {
            flow.last_seen = now;
            return Seen::Known;
        }
        let evicted = if self.known.len() >= self.max { self.evict() } else { None };
        let (hash, slot) = (self.hash(key), self.known.len() as u32);
        self.known.push(Flow { key: *key, last_seen: now });
        let Self { index, known, hasher, .. } = self;
        index.insert_unique(hash, slot, |&slot| {
            known.get(slot as usize).map_or(0, |flow| hasher.hash_one(flow.key))
        });
        Seen::New { evicted }
    }

    /// Takes the longest idle connection out. A walk over all, only when a full table meets a new connection.
    fn evict(&mut self) -> Option<FlowKey> {
        let oldest = self.known.iter().min_by_key(|flow| flow.last_seen)?.key;
        self.remove(&oldest);
        Some(oldest)
    }

    fn remove(&mut self, key: &FlowKey) -> bool {
        let Some(slot) = self.find(key) else { return false };
        let hash = self.hash(key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other as usize == slot) {
            entry.remove();
        }
        self.known.swap_remove(slot);
        // The last connection has moved to the free slot.
        if let Some(moved) = self.known.get(slot) {
            let (hash, from) = (self.hash(&moved.key), self.known.len());
            if let Some(place) = self.index.find_mut(hash, |&other| other as usize == from) {
                *place = slot as u32;
            }
        }
        true
    }
}
