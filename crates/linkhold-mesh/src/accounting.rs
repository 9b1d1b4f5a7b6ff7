//! What a mesh's channel could have carried, and its silences.
//!
//! Source: crahn, equation (4): the efficiency of TCP is its throughput over the integral of the capacity
//! C(t). C(t) is the working channel's rate, and 0 while the nodes sense or change channel. Where each node
//! has its own channel, C(t) of a node is its home channel's, and that of the mesh is the mean over its
//! nodes: it counts what one node could send or receive at home, and not how many can at once.

use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_radio::{AirAccounting, Silence};

use crate::node::Node;

/// Silences kept until somebody takes them: bounds memory when nobody does.
const MAX_SILENCES: usize = 65_536;

/// The meters of a mesh.
#[derive(Clone, Debug)]
pub(crate) enum Meters {
    /// One for all nodes, which work on one channel.
    Common {
        /// The meter.
        meter: Meter,
        /// How many nodes there are.
        nodes: u32,
    },
    /// One for each node.
    Each {
        /// By node.
        meters: Vec<Meter>,
        /// How long all of them were silent at once.
        together: Together,
    },
}

/// How long all nodes were silent at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Together {
    silent: usize,
    since: Instant,
    total: Duration,
}

impl Meters {
    /// `node` falls silent (all do, if they work on one channel), or is silent for another cause.
    pub(crate) fn fall_silent(&mut self, node: Node, now: Instant, cause: Cause) {
        if let Self::Each { meters, together } = self
            && !meters[node.get()].is_silent()
        {
            together.silent += 1;
            together.since = now;
        }
        self.of(node).fall_silent(now, cause);
    }

    pub(crate) fn speak(&mut self, node: Node, now: Instant) {
        if let Self::Each { meters, together } = self
            && meters[node.get()].is_silent()
        {
            together.total += together.now(meters.len(), now);
            together.silent -= 1;
        }
        self.of(node).speak(now);
    }

    pub(crate) fn retune(&mut self, node: Node, now: Instant, channel: usize, rate: BitRate) {
        self.of(node).retune(now, channel, rate);
    }

    pub(crate) fn is_silent(&self, node: Node) -> bool {
        match self {
            Self::Common { meter, .. } => meter.is_silent(),
            Self::Each { meters, .. } => meters.get(node.get()).is_some_and(Meter::is_silent),
        }
    }

    /// True while every node is silent.
    pub(crate) fn are_all_silent(&self) -> bool {
        match self {
            Self::Common { meter, .. } => meter.is_silent(),
            Self::Each { meters, together } => together.silent == meters.len(),
        }
    }

    fn of(&mut self, node: Node) -> &mut Meter {
        match self {
            Self::Common { meter, .. } => meter,
            Self::Each { meters, .. } => &mut meters[node.get()],
        }
    }

    pub(crate) fn take_silences(&mut self, into: &mut Vec<Silence>) {
        match self {
            Self::Common { meter, .. } => meter.take_silences(into),
            Self::Each { meters, .. } => {
                let from = into.len();
                meters.iter_mut().for_each(|meter| meter.take_silences(into));
                // In the order of their ends, as a single meter tells them; at one instant by node.
                into[from..].sort_by_key(|silence| silence.end);
            }
        }
    }

    pub(crate) fn open_silences(&self, until: Instant, into: &mut Vec<Silence>) {
        match self {
            Self::Common { meter, .. } => into.extend(meter.open_silence(until)),
            Self::Each { meters, .. } => {
                into.extend(meters.iter().filter_map(|meter| meter.open_silence(until)));
            }
        }
    }

    pub(crate) fn snapshot(&self, until: Instant) -> AirAccounting {
        match self {
            Self::Common { meter, nodes } => meter.snapshot(until, *nodes),
            Self::Each { meters, together } => {
                let each: Vec<Meter> = meters.iter().map(|meter| meter.at(until)).collect();
                let nodes = each.len().max(1) as u64;
                let capacity: Vec<u64> = each.iter().map(Meter::bits).collect();
                let channels = each.first().map_or(0, |one| one.usable.len());
                let usable = |channel: usize| {
                    let of = |one: &Meter| one.usable.get(channel).map_or(0, |usable| usable.as_nanos());
                    Duration::from_nanos(each.iter().map(of).sum::<u64>() / nodes)
                };
                let end = each.iter().map(|one| one.until).max().unwrap_or(until);
                AirAccounting {
                    until: end,
                    network_silent: together.total + together.now(meters.len(), end),
                    station_silent: each.iter().map(|one| one.silent).collect(),
                    capacity_bits: capacity.iter().sum::<u64>() / nodes,
                    uplink_capacity_bits: capacity.iter().sum::<u64>() / nodes,
                    station_uplink_capacity_bits: capacity.clone(),
                    station_capacity_bits: capacity,
                    usable: (0..channels).map(usable).collect(),
                    station_usable: each.into_iter().map(|one| one.usable).collect(),
                    uplink_gap_time: Duration::ZERO,
                }
            }
        }
    }
}

impl Together {
    /// How long the silence of all `nodes` that goes on has lasted.
    fn now(&self, nodes: usize, until: Instant) -> Duration {
        if self.silent == nodes { until.since(self.since) } else { Duration::ZERO }
    }
}

/// Sums up silences and capacity.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    scope: Scope,
    rate: BitRate,
    channel: usize,
    /// The silence that goes on.
    silence: Option<(Instant, Cause)>,
    until: Instant,
    silent: Duration,
    /// Bits times nanoseconds: exact, so that totals do not depend on where they are cut.
    capacity: u128,
    usable: Vec<Duration>,
    finished: Vec<Silence>,
}

impl Meter {
    pub(crate) fn new(scope: Scope, channels: usize, channel: usize, rate: BitRate) -> Self {
        Self {
            scope,
            rate,
            channel,
            silence: None,
            until: Instant::ZERO,
            silent: Duration::ZERO,
            capacity: 0,
            usable: vec![Duration::ZERO; channels],
            finished: Vec::new(),
        }
    }

    fn advance(&mut self, now: Instant) {
        let length = now.since(self.until);
        self.until = self.until.max(now);
        if self.silence.is_some() {
            self.silent += length;
        } else {
            self.capacity += u128::from(self.rate.as_bps()) * u128::from(length.as_nanos());
            if let Some(usable) = self.usable.get_mut(self.channel) {
                *usable += length;
            }
        }
    }

    fn fall_silent(&mut self, now: Instant, cause: Cause) {
        self.speak(now);
        self.silence = Some((now, cause));
    }

    fn speak(&mut self, now: Instant) {
        self.advance(now);
        if let Some((start, cause)) = self.silence.take()
            && start < now
            && self.finished.len() < MAX_SILENCES
        {
            self.finished.push(Silence { start, end: now, scope: self.scope, cause });
        }
    }

    fn retune(&mut self, now: Instant, channel: usize, rate: BitRate) {
        self.advance(now);
        (self.channel, self.rate) = (channel, rate);
    }

    const fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    fn take_silences(&mut self, into: &mut Vec<Silence>) {
        into.append(&mut self.finished);
    }

    fn open_silence(&self, until: Instant) -> Option<Silence> {
        let (start, cause) = self.silence?;
        (start < until).then_some(Silence { start, end: until, scope: self.scope, cause })
    }

    /// As it will be at `until` if nothing changes, without the finished silences.
    fn at(&self, until: Instant) -> Self {
        let Self { scope, rate, channel, silence, until: since, silent, capacity, ref usable, .. } = *self;
        let (usable, finished) = (usable.clone(), Vec::new());
        let mut end =
            Self { scope, rate, channel, silence, until: since, silent, capacity, usable, finished };
        end.advance(until);
        end
    }

    /// The integral of the capacity, bits.
    fn bits(&self) -> u64 {
        u64::try_from(self.capacity / 1_000_000_000).unwrap_or(u64::MAX)
    }

    fn snapshot(&self, until: Instant, nodes: u32) -> AirAccounting {
        let end = self.at(until);
        let nodes = nodes as usize;
        let bits = end.bits();
        AirAccounting {
            until: end.until,
            network_silent: end.silent,
            station_silent: vec![end.silent; nodes],
            capacity_bits: bits,
            uplink_capacity_bits: bits,
            station_capacity_bits: vec![bits; nodes],
            station_uplink_capacity_bits: vec![bits; nodes],
            station_usable: vec![end.usable.clone(); nodes],
            usable: end.usable,
            uplink_gap_time: Duration::ZERO,
        }
    }
}
