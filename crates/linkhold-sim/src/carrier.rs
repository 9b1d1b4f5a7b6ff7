//! The part of the network that carries packets and knows no mechanism: flows, hops, links, packets inside.

use std::collections::{HashMap, VecDeque};

use linkhold_core::action::Rewrite;
use linkhold_core::packet::{Direction, Ecn, FlowKey, PacketId};
use linkhold_core::time::Instant;
use linkhold_radio::{AirDrop, AirEvent, Frame, RadioId};

use crate::flow::{FlowIndex, FlowInfo};
use crate::link::{AirLink, Armed, Link};
use crate::path::{HopIndex, Hops, LinkId};
use crate::slab::{Packet, PacketSlab, Sending, SendingDatagram};
use crate::touched::Touched;

/// Packets that got lost inside the network, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// In a wire's DropTail queue.
    pub wired: u64,
    /// In a radio's transmit queue: full, in a silence, or by CoDel.
    pub queue: u64,
    /// On the air, or given up by the radio that was to send them.
    pub air: u64,
    /// In a mechanism, which drops with a reason of its own.
    pub mechanism: u64,
    /// Not lost, but marked congestion-experienced (RFC 3168) by a radio's transmit queue in the place of a
    /// drop, and arrived.
    pub marked: u64,
}

impl Losses {
    /// What was counted since `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            wired: self.wired - earlier.wired,
            queue: self.queue - earlier.queue,
            air: self.air - earlier.air,
            mechanism: self.mechanism - earlier.mechanism,
            marked: self.marked - earlier.marked,
        }
    }

    /// Dropped by any queue: a wire's, or a radio's.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.wired + self.queue
    }
}

/// Packets, flows, hops and links.
#[derive(Debug, Default)]
pub(crate) struct Carrier {
    pub(crate) slab: PacketSlab,
    pub(crate) flows: Vec<FlowInfo>,
    pub(crate) by_key: HashMap<FlowKey, FlowIndex>,
    pub(crate) hops: Hops,
    pub(crate) links: Vec<Armed>,
    /// Packets that have reached an end and wait for the engine to hand them over.
    pub(crate) arrived: VecDeque<PacketId>,
    pub(crate) losses: Losses,
    /// Links and taps whose next wake-up may have changed in this event.
    pub(crate) touched: Touched,
}

impl Carrier {
    /// Takes in a packet that stands at hop `at`.
    #[inline]
    pub(crate) fn admit(&mut self, now: Instant, at: HopIndex, sending: &Sending) -> PacketId {
        let info = &mut self.flows[sending.flow.get()];
        info.in_flight += 1;
        let packet = Packet::new(now, at, info, sending);
        self.slab.insert(packet)
    }

    /// Takes in a datagram that stands at hop `at`.
    pub(crate) fn admit_datagram(
        &mut self,
        now: Instant,
        at: HopIndex,
        sending: &SendingDatagram,
    ) -> PacketId {
        let info = &mut self.flows[sending.flow.get()];
        info.in_flight += 1;
        let packet = Packet::datagram(now, at, info, sending);
        self.slab.insert(packet)
    }

    /// Doubles a packet that a mechanism keeps: the copy is free to go.
    pub(crate) fn copy(&mut self, id: PacketId) -> PacketId {
        let packet = Packet { held: false, ..*self.slab.get(id) };
        self.flows[packet.flow.get()].in_flight += 1;
        self.slab.insert(packet)
    }

    /// Takes a packet out of the network.
    #[inline]
    pub(crate) fn forget(&mut self, id: PacketId) -> Packet {
        let packet = self.slab.remove(id);
        self.flows[packet.flow.get()].in_flight -= 1;
        packet
    }

    pub(crate) fn air(&self, link: LinkId) -> &AirLink {
        match &self.links[link.get()].link {
            Link::Air(air) => air,
            Link::Wire(_) => panic!("link {} is a wire and has no radio", link.0),
        }
    }

    pub(crate) fn air_mut(&mut self, link: LinkId) -> &mut AirLink {
        match &mut self.links[link.get()].link {
            Link::Air(air) => air,
            Link::Wire(_) => panic!("link {} is a wire and has no radio", link.0),
        }
    }

    /// Notes on data that goes up how it crossed the air `link`, which it has just left.
    #[inline]
    pub(crate) fn left_air(&mut self, now: Instant, link: LinkId, id: PacketId) {
        let packet = self.slab.get(id);
        if packet.direction == Direction::Downlink || packet.segment.payload_len == 0 {
            return;
        }
        let met = self.air(link).silences.met_since(packet.station, packet.sent_at);
        let packet = self.slab.get_mut(id);
        packet.left_air = now;
        packet.met_silence |= met;
    }

    /// Changes a packet's header as a mechanism wants it.
    #[inline]
    pub(crate) fn rewrite(&mut self, id: PacketId, rewrite: Rewrite) {
        if rewrite.is_none() {
            return;
        }
        let packet = self.slab.get_mut(id);
        rewrite.apply(&mut packet.segment, &mut packet.ecn);
    }

    /// Sends a packet over a wire.
    #[inline]
    pub(crate) fn send_wire(&mut self, now: Instant, id: PacketId, link: LinkId) {
        let len = self.slab.get(id).len;
        let Link::Wire(pipe) = &mut self.links[link.get()].link else {
            unreachable!("what a link is was looked up when the path was added")
        };
        self.touched.link(link);
        if pipe.enqueue(now, id, len).is_err() {
            self.losses.wired += 1;
            self.forget(id);
        }
    }

    /// Sends a packet over the air, from one radio to another.
    #[inline]
    pub(crate) fn send_air(&mut self, now: Instant, id: PacketId, link: LinkId, from: RadioId, to: RadioId) {
        let packet = self.slab.get(id);
        let flow = &self.flows[packet.flow.get()];
        let frame = Frame {
            packet: id,
            from,
            to,
            len: packet.len,
            headers: flow.ip_header + packet.kind.transport_header(),
            flow_hash: flow.hash,
            ecn_capable: matches!(packet.ecn, Ecn::Ect0 | Ecn::Ect1),
        };
        let Link::Air(air) = &mut self.links[link.get()].link else {
            unreachable!("what a link is was looked up when the path was added")
        };
        self.touched.link(link);
        air.air.enqueue(now, frame, &mut air.output);
        if !air.output.is_empty() {
            self.drop_refused(link);
        }
    }

    /// Frees the packets that an enqueue on `link` refused or pushed out of a queue.
    #[cold]
    fn drop_refused(&mut self, link: LinkId) {
        let mut output = std::mem::take(&mut self.air_mut(link).output);
        for event in output.drain() {
            match event {
                AirEvent::Dropped { frame, reason } => self.air_dropped(frame, reason),
                AirEvent::Delivered { .. }
                | AirEvent::Link(_)
                | AirEvent::Overheard { .. }
                | AirEvent::Transmitted(_) => {
                    unreachable!("the air delivers and reports in on_event, never in enqueue")
                }
            }
        }
        self.air_mut(link).output = output;
    }

    pub(crate) fn air_dropped(&mut self, frame: Frame, reason: AirDrop) {
        match reason {
            AirDrop::QueueFull | AirDrop::Silence | AirDrop::Codel => self.losses.queue += 1,
            AirDrop::RetryLimit
            | AirDrop::ChannelBusy
            | AirDrop::Lost
            | AirDrop::TooLong
            | AirDrop::Noise
            | AirDrop::NoGrant
            | AirDrop::NoRoute
            | AirDrop::HopLimit => self.losses.air += 1,
        }
        self.forget(frame.packet);
    }
}
