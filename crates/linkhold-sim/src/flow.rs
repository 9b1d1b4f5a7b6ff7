//! What the network knows of a flow: its addresses, its station, its way through the network.

use std::net::IpAddr;

use linkhold_core::packet::{Direction, FlowKey, StationId};

use linkhold_radio::rng::mix;

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
    /// A flow with no packet yet. `hash_seed`: of the hash by which queues sort flows.
    #[must_use]
    pub fn new(key: FlowKey, station: StationId, route_id: RouteId, route: Route, hash_seed: u64) -> Self {
        let ip_header = if key.station.addr.is_ipv6() { 40 } else { 20 };
        Self { key, station, route_id, ip_header, hash: hash_of(&key, hash_seed), in_flight: 0, route }
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

/// FNV-1a over addresses and ports, then mixed: the same on every machine. `fq_codel` takes it modulo the
/// number of its queues, and FNV's bits alone put flows on neighbouring ports into the same queue. Seeded, as
/// RFC 8290 section 4.1.1 asks for, so that flows that share a queue in one repetition do not in the next.
fn hash_of(key: &FlowKey, seed: u64) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut byte = |b: u8| hash = (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    for end in [key.correspondent, key.station] {
        match end.addr {
            IpAddr::V4(v4) => v4.octets().into_iter().for_each(&mut byte),
            IpAddr::V6(v6) => v6.octets().into_iter().for_each(&mut byte),
        }
        end.port.to_be_bytes().into_iter().for_each(&mut byte);
    }
    (mix(hash ^ mix(seed)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::Endpoint;

    use super::*;

    #[test]
    fn flows_on_neighbouring_ports_seldom_share_a_queue_of_fq_codel() {
        let end = |last, port| Endpoint { addr: IpAddr::from([10, 0, 0, last]), port };
        let key = |n| FlowKey { correspondent: end(1, 5001), station: end(2, 32_768 + n) };
        let share = |flows: u16, seed| {
            let mut queues: Vec<u32> = (0..flows).map(|n| hash_of(&key(n), seed) % 1024).collect();
            queues.sort_unstable();
            queues.dedup();
            queues.len() < usize::from(flows)
        };
        // Of 1,000 seeds, by the birthday problem: 1 - exp(-n (n - 1) / 2 / 1024) is 0.027 and 0.236.
        for (flows, expected) in [(8, 15..45), (24, 190..285)] {
            let seeds = (0..1000).filter(|&seed| share(flows, seed)).count();
            assert!(expected.contains(&seeds), "{flows} flows: {seeds} of 1000");
        }
    }
}
