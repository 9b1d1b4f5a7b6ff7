//! What nodes with a channel each do with their queues: who can be reached now, on which channel, and who is
//! told what.
//!
//! The design is that of `homes.rs`; here is what it means for the frames of a node.
//!
//! - A frame for a neighbour goes to the home channel that the neighbour told last. If nothing fresh is
//!   known, to the channel that the router names, and else to the node's own.
//! - A frame whose receiver is expected to be silent before it would end waits until that is over. Meanwhile
//!   others go, but none for the same receiver, so that nothing overtakes.
//! - A frame that would not end before the node's own silence waits in front of its queue, as with a common
//!   channel.

use linkhold_core::packet::PacketId;
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::dcf::{Mpdu, Tuning};
use linkhold_radio::spectrum::{Heard, LinkQuality};

use super::{Cargo, LOOK, Nodes};
use crate::homes::{Expected, FRAME_HEADER, Homes};
use crate::node::Node;
use crate::routing::Message;
use crate::routing::message::Beacon;

impl Nodes {
    /// The home channel of a neighbour, as far as it is known.
    fn known_home(&self, now: Instant, node: Node, to: Node) -> Option<usize> {
        let keep = self.spectrum.homes()?.keep();
        self.repository.neighbour(node.get(), to.0)?.channel?.fresh(now, keep).copied()
    }

    /// The channel on which a packet is to be sent now.
    fn channel_for(&self, now: Instant, node: Node, id: PacketId) -> usize {
        let packet = self.packets.get(id);
        let told = packet.and_then(|packet| packet.to).and_then(|to| self.known_home(now, node, to));
        let named = || packet.and_then(|packet| packet.channel).map(usize::from);
        let named = || named().filter(|&channel| channel < self.spectrum.channels());
        told.or_else(named).unwrap_or_else(|| self.spectrum.channel(node))
    }

    pub(super) fn tuning_for(&self, now: Instant, node: Node, mpdu: &Mpdu) -> Tuning {
        let channel = self.channel_for(now, node, PacketId(mpdu.token));
        if channel == self.spectrum.tuned(node) {
            return Tuning::Here;
        }
        let retune = self.spectrum.homes().map_or(Duration::ZERO, Homes::retune_time);
        Tuning::Away { rate: self.spectrum.rate_of(channel), retune }
    }

    pub(super) fn retune_to(&mut self, now: Instant, node: Node, towards: Option<&Mpdu>) -> Duration {
        let channel = match towards {
            Some(mpdu) => self.channel_for(now, node, PacketId(mpdu.token)),
            None => self.spectrum.channel(node),
        };
        self.spectrum.homes_mut().map_or(Duration::ZERO, |homes| homes.retune(node, channel))
    }

    /// By when an exchange of `node` with a neighbour has to end, and when the neighbour is back if that is
    /// too soon; `None` if nothing fresh is known.
    pub(super) fn receiver_quiet(
        &self,
        now: Instant,
        node: Node,
        to: Option<Node>,
    ) -> Option<(Instant, Instant)> {
        let homes = self.spectrum.homes()?;
        let neighbour = self.repository.neighbour(node.get(), to?.0)?;
        let told = *neighbour.next_silence?.fresh(now, homes.keep())?;
        Some(match homes.expected(told, now) {
            Expected::Listening { until } => (until, until + homes.sensing()),
            Expected::Silent { until } => (Instant::ZERO, until),
        })
    }

    /// The next frame of a node whose receiver is not expected to be silent.
    pub(super) fn take_reachable(&mut self, now: Instant, node: Node) -> Option<Mpdu> {
        let state = self.states.get_mut(node.get())?;
        if let Some(waiting) = state.waiting.take() {
            return Some(waiting);
        }
        if let Some(at) = state.put_off.iter().position(|(_, until)| *until <= now) {
            return Some(state.put_off.remove(at).0);
        }
        loop {
            let state = &self.states[node.get()];
            let reachable = |id: &PacketId| self.is_reachable(now, node, *id);
            let (messages, data) =
                (state.messages.iter().position(reachable), state.data.iter().position(reachable));
            let state = &mut self.states[node.get()];
            let id = match (messages, data) {
                (Some(at), _) => state.messages.remove(at)?,
                (None, Some(at)) => state.data.remove(at)?,
                (None, None) => {
                    self.look_when_back(now, node);
                    return None;
                }
            };
            let packet = self.packets.get(id)?;
            let (len, to) = (packet.len(), packet.to);
            if packet.is_data() {
                state.queued_bytes -= u64::from(len);
            }
            if to.is_none() || self.may_send(now, node, id) {
                return Some(Mpdu::new(id.0, to.map(|to| to.0), len + FRAME_HEADER));
            }
            // It ends: each is one less in the queue, and routers answer with a bounded number of messages.
            self.give_up(now, node, id);
        }
    }

    /// Whether the receiver of a packet is not known to be silent, and no earlier frame waits for it.
    fn is_reachable(&self, now: Instant, node: Node, id: PacketId) -> bool {
        let Some(to) = self.packets.get(id).and_then(|packet| packet.to) else { return true };
        let waits = self.states[node.get()].put_off.iter().any(|(mpdu, _)| mpdu.to == Some(to.0));
        let silent = |(quiet, _): (Instant, Instant)| quiet == Instant::ZERO;
        !waits && !self.receiver_quiet(now, node, Some(to)).is_some_and(silent)
    }

    /// Whether the node did not just find a primary user where the packet is to be sent.
    fn may_send(&self, now: Instant, node: Node, id: PacketId) -> bool {
        let channel = self.channel_for(now, node, id);
        let usable = self.spectrum.homes().map_or(u64::MAX, |homes| homes.usable(node, now));
        channel == self.spectrum.channel(node) || usable >> channel.min(63) & 1 == 1
    }

    /// Looks at the queue of a node again as soon as one of the receivers in it is back.
    fn look_when_back(&mut self, now: Instant, node: Node) {
        let state = &self.states[node.get()];
        let waiting = state.put_off.iter().map(|(_, until)| *until);
        let queued = state.messages.iter().chain(&state.data).filter_map(|id| {
            let to = self.packets.get(*id)?.to?;
            self.receiver_quiet(now, node, Some(to)).map(|(_, back)| back)
        });
        if let Some(at) = waiting.chain(queued).min() {
            self.look_later(now, node, at);
        }
    }

    fn look_later(&mut self, now: Instant, node: Node, at: Instant) {
        if self.spectrum.homes_mut().is_some_and(|homes| homes.look_at(node, now, at)) {
            self.delayed_count += 1;
            self.delayed.push(std::cmp::Reverse((at, self.delayed_count, node.0, LOOK)));
        }
    }

    /// Keeps a frame whose exchange would not end before a silence, and looks for another one if the silence
    /// is the receiver's.
    pub(super) fn put_off(&mut self, now: Instant, node: Node, mpdu: Mpdu) -> Option<Mpdu> {
        let own = self.spectrum.quiet_at(node);
        match self.receiver_quiet(now, node, mpdu.to.map(Node)) {
            Some((quiet, back)) if quiet < own => {
                self.states[node.get()].put_off.push((mpdu, back));
                self.look_later(now, node, back);
                self.take_reachable(now, node)
            }
            Some(_) | None => {
                self.states[node.get()].waiting = Some(mpdu);
                None
            }
        }
    }

    /// A silence of `node` is over: its radio is at home, and its neighbours hear of what it found.
    pub(super) fn come_home(&mut self, now: Instant, node: Node) {
        let Some(homes) = self.spectrum.homes_mut() else { return };
        let after = homes.tune_home(node);
        let beacon = Message::Beacon(Beacon { free_channels: homes.clear(node, now) });
        let is_beacon = |id: &PacketId| {
            let cargo = self.packets.get(*id).map(|packet| &packet.cargo);
            matches!(cargo, Some(Cargo::Control(Message::Beacon(_))))
        };
        // Who has not even sent the last one has no time for another.
        if !self.states[node.get()].messages.iter().any(is_beacon) {
            self.broadcast(now, node, &beacon, after);
        }
    }

    /// Sends a copy of a message to all neighbours on each channel, at home first.
    pub(super) fn broadcast(&mut self, now: Instant, node: Node, message: &Message, after: Duration) {
        let Some(homes) = self.spectrum.homes() else { return };
        let (home, channels) = (homes.home(node), self.spectrum.channels());
        let usable = homes.usable(node, now);
        for step in 0..channels {
            let channel = (home + step) % channels;
            if channel == home || usable >> channel & 1 == 1 {
                let to = (None, u8::try_from(channel).ok());
                self.send_message(now, node, message.clone(), to, after);
            }
        }
    }

    /// The MAC and the PHY of `at` publish what a frame of `from` told, and how it came.
    pub(super) fn publish_frame(&mut self, now: Instant, at: Node, from: Node) {
        let Some(homes) = self.spectrum.homes() else { return };
        let (channel, next_silence) = (homes.home(from), homes.next_silence(from));
        let hearer = self.places.hearers(from, now).iter().find(|hearer| hearer.node == at);
        let power = hearer.map(|hearer| hearer.power);
        let disturbance = self.spectrum.disturbance(at, now, now, &mut self.places);
        // Without noise the ratio is infinite, as it would be.
        let quality = |power| LinkQuality { received_power: power, sinr: power / disturbance };
        let heard = Heard { channel, next_silence, quality: power.map(quality) };
        self.repository.publish_frame(at.get(), from.0, heard, now);
    }

    /// Takes a message that is no router's. True if it was one.
    pub(super) fn beacon_received(&mut self, now: Instant, at: Node, from: Node, id: PacketId) -> bool {
        let cargo = self.packets.get(id).map(|packet| &packet.cargo);
        let Some(Cargo::Control(Message::Beacon(Beacon { free_channels }))) = cargo else { return false };
        self.repository.publish_neighbour_free(at.get(), from.0, *free_channels, now);
        true
    }
}
