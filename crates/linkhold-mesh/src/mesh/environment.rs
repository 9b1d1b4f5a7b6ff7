//! What the radios ask of the nodes above them.

use linkhold_core::packet::PacketId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_radio::dcf::{Environment, Hearing, Mpdu, Sent, Told, Tuning};

use super::Nodes;
use crate::node::Node;
use crate::packets::{Cargo, Packet};

impl Environment for Nodes {
    fn take(&mut self, now: Instant, radio: u32) -> Option<Mpdu> {
        if self.spectrum.homes().is_some() {
            return self.take_reachable(now, Node(radio));
        }
        let state = self.states.get_mut(radio as usize)?;
        if let Some(waiting) = state.waiting.take() {
            return Some(waiting);
        }
        let id = match state.messages.pop_front() {
            Some(message) => message,
            None => state.data.pop_front()?,
        };
        let packet = self.packets.get(id)?;
        let len = packet.len();
        if packet.is_data() {
            state.queued_bytes -= u64::from(len);
        }
        Some(Mpdu::new(id.0, packet.to.map(|node| node.0), len))
    }

    fn received(&mut self, now: Instant, at: u32, from: u32, mpdu: &Mpdu) {
        let (at, from, id) = (Node(at), Node(from), PacketId(mpdu.token));
        self.states[at.get()].router.on_heard(now, from);
        if self.spectrum.homes().is_some() {
            self.publish_frame(now, at, from);
        } else {
            // Nobody reads this. Links were once published here, and the list is made anew at the same
            // moments as then, so that all that was measured stays as it is.
            let _ = self.places.hearers(from, now);
        }
        match self.packets.get(id).map(|packet| &packet.cargo) {
            Some(Cargo::Data(_)) => self.data_received(now, at, from, id),
            Some(Cargo::Control(_)) => self.message_received(now, at, from, id),
            None => {}
        }
    }

    fn sent(&mut self, now: Instant, radio: u32, mpdu: Mpdu, outcome: Sent) {
        let (node, id) = (Node(radio), PacketId(mpdu.token));
        let is_message = self.packets.get(id).is_some_and(|packet| !packet.is_data());
        self.counters.route_messages += u64::from(is_message);
        match outcome {
            Sent::Acknowledged | Sent::Broadcast => {
                if let Some(Packet { to: Some(to), .. }) = self.packets.remove(id) {
                    self.states[node.get()].router.on_heard(now, to);
                }
            }
            Sent::GaveUp { .. } => {
                self.give_up(now, node, id);
            }
        }
    }

    fn hearers(&mut self, now: Instant, from: u32, into: &mut Vec<Hearing>) {
        let hearers = self.places.hearers(Node(from), now).iter();
        self.counters.transmissions += 1;
        self.counters.noticed += hearers.len() as u64;
        if let Some(homes) = self.spectrum.homes() {
            let least = self.places.least_noticed();
            let hearers = self.places.hearers(Node(from), now).iter();
            into.extend(hearers.filter_map(|hearer| homes.hearing(least, Node(from), hearer)));
            return;
        }
        into.extend(hearers.map(|hearer| Hearing::new(hearer.node.0, hearer.power, hearer.reads)));
    }

    fn hearing(&mut self, now: Instant, from: u32, at: u32) -> Option<Hearing> {
        let hearer = *self.places.hearers(Node(from), now).iter().find(|hearer| hearer.node.0 == at)?;
        if let Some(homes) = self.spectrum.homes() {
            return homes.hearing(self.places.least_noticed(), Node(from), &hearer);
        }
        Some(Hearing::new(at, hearer.power, hearer.reads))
    }

    /// The frame waits in front of its queue: nothing of this node would end in time, or something shorter
    /// would overtake it.
    fn postponed(&mut self, now: Instant, radio: u32, mpdu: Mpdu) -> Option<Mpdu> {
        if self.spectrum.homes().is_some() {
            return self.put_off(now, Node(radio), mpdu);
        }
        if let Some(state) = self.states.get_mut(radio as usize) {
            state.waiting = Some(mpdu);
        }
        None
    }

    fn interference(&mut self, at: u32, since: Instant, until: Instant) -> f64 {
        self.spectrum.disturbance(Node(at), since, until, &mut self.places)
    }

    fn rate(&self, radio: u32) -> BitRate {
        self.spectrum.rate(Node(radio))
    }

    fn quiet_at(&self, now: Instant, radio: u32, to: Option<u32>) -> Instant {
        let own = self.spectrum.quiet_at(Node(radio));
        if self.spectrum.homes().is_none() {
            return own;
        }
        self.receiver_quiet(now, Node(radio), to.map(Node)).map_or(own, |(quiet, _)| own.min(quiet))
    }

    fn tuning(&self, now: Instant, radio: u32, mpdu: &Mpdu) -> Tuning {
        if self.spectrum.homes().is_none() { Tuning::Here } else { self.tuning_for(now, Node(radio), mpdu) }
    }

    fn is_away(&self, radio: u32) -> bool {
        self.spectrum.homes().is_some_and(|homes| homes.is_away(Node(radio)))
    }

    fn retune(&mut self, now: Instant, radio: u32, towards: Option<&Mpdu>) -> Duration {
        self.retune_to(now, Node(radio), towards)
    }

    fn retuned(&mut self, _now: Instant, radio: u32) {
        if let Some(homes) = self.spectrum.homes_mut() {
            homes.retuned(Node(radio));
        }
    }

    #[inline]
    fn transmitted(&mut self, _now: Instant, told: Told) {
        if self.tells_transmissions {
            self.tell(&told);
        }
    }
}
