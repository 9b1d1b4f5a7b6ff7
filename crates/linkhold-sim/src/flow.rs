//! What the network knows of a flow: its addresses, its station, its way through the network.

use std::net::IpAddr;

use linkhold_core::packet::{Direction, FlowKey, StationId};

use crate::path::{HopIndex, Route, RouteId};

/// A flow's number in the network, counted up from 0. A later flow may get the number of one that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowIndex(pub u32);

impl FlowIndex {
    /// The number as an index of a list.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// What the network knows of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowInfo {
    /// Addresses and ports.
    pub key: FlowKey,
    /// The station at its radio end; in a mesh, the node that sends its data.
    pub station: StationId,
    /// Its way through the network.
    pub route_id: RouteId,
    /// Bytes of IP header: 20 or 40.
    pub ip_header: u32,
    /// The hash by which `fq_codel` picks the flow's queue.
    pub(crate) hash: u32,
    /// Packets of the flow inside the network.
    pub(crate) in_flight: u32,
    route: Route,
}

impl FlowInfo {
    /// A flow with no packet yet.
    #[must_use]
    pub fn new(key: FlowKey, station: StationId, route_id: RouteId, route: Route) -> Self {
        let ip_header = if key.station.addr.is_ipv6() { 40 } else { 20 };
        Self { key, station, route_id, ip_header, hash: hash_of(&key), in_flight: 0, route }
    }

    /// Packets of the flow inside the network. The flow's number may be given to another flow only when this
    /// is 0.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Where a packet sent in `direction` enters the network.
    #[must_use]
    pub const fn entry(&self, direction: Direction) -> HopIndex {
        self.route.entry(direction)
    }
}

/// FNV-1a over addresses and ports, finished by a multiplicative mix: the same on every machine.
fn hash_of(key: &FlowKey) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut byte = |b: u8| hash = (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    for end in [key.correspondent, key.station] {
        match end.addr {
            IpAddr::V4(v4) => v4.octets().into_iter().for_each(&mut byte),
            IpAddr::V6(v6) => v6.octets().into_iter().for_each(&mut byte),
        }
        end.port.to_be_bytes().into_iter().for_each(&mut byte);
    }
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
