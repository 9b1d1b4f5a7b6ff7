//! Nodes that choose a channel each: every node runs the cycle of section 4.3 for itself.
//!
//! Source: crahn sections 3 (one transceiver, which can be tuned to any channel) and 4.3, whose pseudocode is
//! a single node's. How neighbours on different channels meet is open there; what follows is our design:
//!
//! - **A home channel.** A node senses its home channel, alone and with a phase of its own, and leaves it for
//!   another when it finds a primary user there. Outside of silences it listens there. A sender tunes to the
//!   receiver's home for one attempt and returns (`dcf/engine/visits.rs`); it is deaf at home meanwhile.
//! - **A place of its own.** Equations (1) and (2) are asked at the node's own place, and it errs with draws
//!   of its own. A sender that visits has not sensed there: it relies on its receiver, which has. But where
//!   it found a primary user itself less than a cycle ago, it sends nothing: a frame for a neighbour there
//!   counts as given up.
//! - **What neighbours know of each other** is what the last frame of the other said that they read: its home
//!   channel and when its next silence begins, in [`FRAME_HEADER`] bytes more of each data frame; and, in
//!   beacons, which channels were free of primary users lately. It goes to the cross-layer repository with
//!   its time and is believed for [`KEEP_CYCLES`] cycles. A neighbour is expected to go on in its cycle. One
//!   that hands off comes back on another channel and with another phase: until a frame of it was read,
//!   attempts fail and count as all others that do.
//! - **Beacons** go out once between two sensings: at once from a node that has changed channel, else at a
//!   time drawn from all of T_p. (All cycles are equally long: who always beaconed right after sensing would
//!   never be heard by a neighbour that always senses then.) One copy on each channel on which the node did
//!   not just find a primary user. Every other broadcast does the same, because the sender cannot know who
//!   listens where. What that costs in time is on the air.
//! - A channel is heard on its neighbours in the same band with the overlap factors of section 3; nothing
//!   sent there can be read.
//!
//! The first homes are drawn by the seed, if the scenario does not give them.

use linkhold_core::link_event::Scope;
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::dcf::Hearing;
use linkhold_radio::rng::Stream;
use linkhold_radio::spectrum::{Cycle, Decision};
use linkhold_radio::wakeups::Wakeups;

use crate::config::{MeshConfig, MeshError, OwnChannels, SpectrumConfig};
use crate::licensed::{Change, Licensed, changes, until_silent};
use crate::node::Node;
use crate::places::{Hearer, Places};

/// What a data frame tells of its sender, bytes: an element's header 2, home channel 2, time to its next
/// silence 4.
pub(crate) const FRAME_HEADER: u32 = 8;
/// For how many cycles of t_s and T_p a node believes what it knows of a neighbour.
const KEEP_CYCLES: u32 = 3;

/// What a node does by its own cycle.
#[derive(Clone, Debug)]
struct Radio {
    cycle: Cycle,
    /// The channel that it is tuned to.
    tuned: usize,
    /// The channel that it retunes to.
    bound: usize,
    /// When its queue is looked at again, because a receiver is back then; time 0 if not.
    look: Instant,
    /// It has changed channel since its last beacon.
    moved: bool,
    /// When in T_p it beacons.
    beacons: Stream,
}

/// What a neighbour is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// It listens, and falls silent then.
    Listening {
        /// When.
        until: Instant,
    },
    /// It senses.
    Silent {
        /// When it is back.
        until: Instant,
    },
}

/// All nodes' home channels.
#[derive(Clone, Debug)]
pub(crate) struct Homes {
    licensed: Licensed,
    radios: Vec<Radio>,
    wakeups: Wakeups,
    /// t_s.
    sensing: Duration,
    /// t_s + T_p.
    period: Duration,
    retune: Duration,
    memory: Duration,
}

impl Homes {
    pub(crate) fn new(
        config: &MeshConfig,
        spectrum: &SpectrumConfig,
        own: &OwnChannels,
        seed: u64,
    ) -> Result<Self, MeshError> {
        let licensed = Licensed::new(config, spectrum, seed)?;
        let channels = licensed.channels().bands().channels();
        let odds = vec![spectrum.sensing.odds(spectrum.cycle.sensing); channels];
        let (sensing, period) =
            (spectrum.cycle.sensing, spectrum.cycle.sensing + spectrum.cycle.transmitting);
        let mut wakeups = Wakeups::new(config.nodes as usize);
        let radio = |node: u32| {
            let mut first = Stream::new(seed, "home", u64::from(node));
            let start = Instant::ZERO + period.mul_f64(first.unit());
            let drawn = (first.unit() * channels as f64) as usize;
            let home = own.homes.get(node as usize).map_or(drawn, |&home| home as usize);
            let decision = Decision::new(spectrum.policy, channels);
            let stream = Stream::new(seed, "node-sensing", u64::from(node));
            let cycle = Cycle::new(spectrum.cycle, odds.clone(), decision, home, start, stream)?;
            wakeups.set(node as usize, start, 0);
            let beacons = Stream::new(seed, "beacon", u64::from(node));
            Ok(Radio { cycle, tuned: home, bound: home, look: Instant::ZERO, moved: false, beacons })
        };
        let radios = (0..config.nodes).map(radio).collect::<Result<_, MeshError>>()?;
        let (retune, memory) = (own.retune, own.memory);
        Ok(Self { licensed, radios, wakeups, sensing, period, retune, memory })
    }

    pub(crate) const fn licensed(&self) -> &Licensed {
        &self.licensed
    }

    /// When [`step`](Self::step) is due.
    pub(crate) fn next(&self) -> Instant {
        self.wakeups.next()
    }

    /// Lets the node go on whose cycle is due.
    pub(crate) fn step(&mut self, places: &mut Places, into: &mut Vec<Change>) -> Option<Node> {
        let (slot, _) = self.wakeups.first()?;
        let Self { licensed, radios, wakeups, .. } = self;
        let node = Node(slot as u32);
        let cycle = &mut radios.get_mut(slot)?.cycle;
        let handing_off = cycle.is_in_handoff();
        let events = cycle.step(|lookup| {
            let place = places.position(node, lookup.to);
            licensed.is_on(lookup, |signal| signal.is_noticed_at(place))
        });
        wakeups.set(slot, cycle.next(), 0);
        changes(events, Scope::Station(StationId(node.0)), handing_off, into);
        Some(node)
    }

    /// The home channel, from 0 over all bands.
    #[inline]
    pub(crate) fn home(&self, node: Node) -> usize {
        self.radios[node.get()].cycle.channel()
    }

    /// The channel that its radio is tuned to.
    #[inline]
    pub(crate) fn tuned(&self, node: Node) -> usize {
        self.radios[node.get()].tuned
    }

    #[inline]
    pub(crate) fn is_away(&self, node: Node) -> bool {
        self.tuned(node) != self.home(node)
    }

    pub(crate) const fn retune_time(&self) -> Duration {
        self.retune
    }

    /// The radio begins to retune.
    pub(crate) fn retune(&mut self, node: Node, channel: usize) -> Duration {
        self.radios[node.get()].bound = channel;
        self.retune
    }

    /// The radio has arrived on the channel that it retuned to.
    pub(crate) fn retuned(&mut self, node: Node) {
        let radio = &mut self.radios[node.get()];
        radio.tuned = radio.bound;
    }

    /// `node` works on another channel now: after its next silence its beacon goes out at once.
    pub(crate) fn moved(&mut self, node: Node) {
        self.radios[node.get()].moved = true;
    }

    /// `node` listens at home again after a silence. Returns the time until its beacon.
    pub(crate) fn tune_home(&mut self, node: Node) -> Duration {
        let transmitting = self.period.saturating_sub(self.sensing);
        let radio = &mut self.radios[node.get()];
        radio.tuned = radio.cycle.channel();
        radio.bound = radio.tuned;
        let drawn = transmitting.mul_f64(radio.beacons.unit());
        if std::mem::take(&mut radio.moved) { Duration::ZERO } else { drawn }
    }

    /// Nothing of `node` starts that would not end by then: its next silence, less the way home.
    pub(crate) fn quiet_at(&self, node: Node) -> Instant {
        let until = until_silent(&self.radios[node.get()].cycle);
        let way = if self.is_away(node) { self.retune } else { Duration::ZERO };
        Instant::from_nanos(until.as_nanos().saturating_sub(way.as_nanos()))
    }

    /// When the next silence of `node` begins, as its frames tell.
    pub(crate) fn next_silence(&self, node: Node) -> Instant {
        until_silent(&self.radios[node.get()].cycle)
    }

    /// What a neighbour does at `now` whose silence was to begin at `told`.
    pub(crate) fn expected(&self, told: Instant, now: Instant) -> Expected {
        if now < told {
            return Expected::Listening { until: told };
        }
        // The period is not zero: its part t_s is not.
        let into = now.since(told).as_nanos() % self.period.as_nanos();
        let left = |of: Duration| Duration::from_nanos(of.as_nanos() - into);
        if into < self.sensing.as_nanos() {
            Expected::Silent { until: now + left(self.sensing) }
        } else {
            Expected::Listening { until: now + left(self.period) }
        }
    }

    /// t_s.
    pub(crate) const fn sensing(&self) -> Duration {
        self.sensing
    }

    /// How old what is known of a neighbour may be.
    pub(crate) fn keep(&self) -> Duration {
        self.period * KEEP_CYCLES
    }

    /// The channels that `node` may send on: bit `c` for channel `c`. Not those where it found a primary user
    /// less than a cycle ago and has not looked again. What it found is believed for as long as a free
    /// channel is, on which it sends for T_p without another look.
    pub(crate) fn usable(&self, node: Node, now: Instant) -> u64 {
        let history = self.radios[node.get()].cycle.decision().history();
        let found = |channel| history.last_occupied(channel).is_some_and(|at| now.since(at) < self.period);
        set(history.channels(), |channel| !(history.is_occupied(channel) && found(channel)))
    }

    /// The channels on which it found none for longer than its memory.
    pub(crate) fn clear(&self, node: Node, now: Instant) -> u64 {
        let history = self.radios[node.get()].cycle.decision().history();
        let found = |channel| history.last_occupied(channel).is_some_and(|at| now.since(at) < self.memory);
        set(history.channels(), |channel| !found(channel))
    }

    /// How `hearer` hears `from` on the channels that both are tuned to; `None` if it does not notice it.
    /// `least` is the power that it takes to be noticed, W.
    #[inline]
    pub(crate) fn hearing(&self, least: f64, from: Node, hearer: &Hearer) -> Option<Hearing> {
        let (sent, heard) = (self.tuned(from), self.tuned(hearer.node));
        if sent == heard {
            return Some(Hearing::new(hearer.node.0, hearer.power, hearer.reads));
        }
        let power = hearer.power * self.licensed.channels().bands().overlap_between(sent, heard);
        (power > 0.0 && power >= least).then(|| Hearing::new(hearer.node.0, power, false))
    }

    /// `node` is to look at its queue at `at`. True if that is news.
    pub(crate) fn look_at(&mut self, node: Node, now: Instant, at: Instant) -> bool {
        let look = &mut self.radios[node.get()].look;
        let is_news = *look <= now || at < *look;
        if is_news {
            *look = at;
        }
        is_news
    }
}

/// The set of those of the first 64 channels that `has` names.
fn set(channels: usize, has: impl Fn(usize) -> bool) -> u64 {
    (0..channels.min(64)).filter(|&channel| has(channel)).fold(0, |set, channel| set | 1 << channel)
}
