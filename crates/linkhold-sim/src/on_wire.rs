//! A packet of the simulator as one that can be written down.

use linkhold_core::packet::{Direction, Endpoint, FlowKey};
use linkhold_wire::{DatagramSpec, PacketSpec};

use crate::slab::Packet;

/// Sender and receiver of a packet.
fn ends(flow: &FlowKey, packet: &Packet) -> (Endpoint, Endpoint) {
    match packet.direction {
        Direction::Downlink => (flow.correspondent, flow.station),
        Direction::Uplink => (flow.station, flow.correspondent),
    }
}

/// A segment, or a report in the form of one.
pub(crate) fn segment(flow: &FlowKey, packet: &Packet) -> PacketSpec {
    let (src, dst) = ends(flow, packet);
    PacketSpec { src, dst, tcp: packet.segment, ecn: packet.ecn }
}

/// A datagram of UDP.
pub(crate) fn datagram(flow: &FlowKey, packet: &Packet) -> DatagramSpec {
    let (src, dst) = ends(flow, packet);
    DatagramSpec { src, dst, payload_len: packet.segment.payload_len, ecn: packet.ecn }
}
