//! Which connections a scenario opens, when, and under which addresses.
//!
//! Plans depend on the scenario's flow groups and the seed only, never on the case, so every case sees the
//! same arrivals and the same initial sequence numbers (common random numbers).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkhold_core::packet::{Direction, Endpoint, FlowKey, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;
use linkhold_radio::rng::Stream;
use linkhold_scenario::{FlowGroup, IpVersion, ResolvedScenario, Source};
use linkhold_tcp::TcpConfig;

use crate::error::SimError;

/// The correspondent host (RFC 5737 and RFC 3849 documentation addresses; all flows end on one host).
const CORRESPONDENT_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CORRESPONDENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1);
/// iperf's port, as in the paper's measurements.
const FIRST_CORRESPONDENT_PORT: u16 = 5001;
/// Stations' ports count up from here, this many of them; then the correspondent's moves on by one.
const FIRST_STATION_PORT: u16 = 32_768;
const STATION_PORTS: u32 = 28_000;

/// A connection to open.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its number in the results.
    pub id: u32,
    /// Which way its data goes.
    pub direction: Direction,
    /// The station at its radio end.
    pub station: StationId,
    /// Addresses and ports.
    pub key: FlowKey,
    /// When it opens.
    pub start: Instant,
    /// When its application stops writing for good.
    pub stop: Option<Instant>,
    /// What the data sender's application does.
    pub source: linkhold_tcp::Source,
    /// Bytes of a finite source.
    pub total: Option<u64>,
    /// Both ends' TCP.
    pub tcp: TcpConfig,
    /// Initial sequence numbers of correspondent and station.
    pub iss: [Seq; 2],
}

/// Connections that arrive at one station at random.
#[derive(Clone, Debug)]
pub struct ArrivalPlan {
    group: usize,
    station: u32,
    stream: Stream,
    mean: Duration,
    /// When the next one opens.
    pub next: Instant,
    stop: Option<Instant>,
}

impl ArrivalPlan {
    /// Draws the time of the one after `next`; `None` when there will be no more.
    pub fn advance(&mut self) -> Option<Instant> {
        self.next += self.stream.exponential(self.mean);
        self.due()
    }

    /// When the next one opens, if there will be one.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.stop.is_none_or(|stop| self.next < stop).then_some(self.next)
    }
}

/// Everything a run will open.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The groups, as in the scenario.
    groups: Vec<FlowGroup>,
    tcp: TcpConfig,
    seed: u64,
    /// Connections known from the start, in the order of the scenario.
    pub flows: Vec<FlowPlan>,
    /// Those that arrive at random.
    pub arrivals: Vec<ArrivalPlan>,
    next_id: u32,
}

impl Plan {
    /// The plan of a scenario in the repetition with `seed`.
    ///
    /// # Errors
    /// [`SimError::NoSuchStation`].
    pub fn new(scenario: &ResolvedScenario, seed: u64) -> Result<Self, SimError> {
        let mut plan = Self {
            groups: scenario.flows.clone(),
            tcp: scenario.tcp.clone(),
            seed,
            flows: Vec::new(),
            arrivals: Vec::new(),
            next_id: 0,
        };
        for (index, group) in scenario.flows.iter().enumerate() {
            if let Some(station) = group.stations.iter().find(|s| **s >= scenario.radio.stations) {
                return Err(SimError::NoSuchStation {
                    group: index,
                    station: *station,
                    stations: scenario.radio.stations,
                });
            }
            match group.arrivals {
                Some(arrivals) => {
                    let mean = Duration::from_secs_f64(1.0 / arrivals.per_second);
                    for station in &group.stations {
                        let name = u64::from(*station) << 32 | index as u64;
                        let mut stream = Stream::new(seed, "flow-arrivals", name);
                        let next = group.start + stream.exponential(mean);
                        let stop = group.stop;
                        plan.arrivals.push(ArrivalPlan {
                            group: index,
                            station: *station,
                            stream,
                            mean,
                            next,
                            stop,
                        });
                    }
                }
                None => plan.add_fixed(index, group),
            }
        }
        Ok(plan)
    }

    fn add_fixed(&mut self, index: usize, group: &FlowGroup) {
        let mut start = group.start;
        // Round by round over the stations, so that staggered starts spread over them.
        for _ in 0..group.count {
            for station in &group.stations {
                let flow = self.open(index, *station, start);
                self.flows.push(flow);
                start += group.stagger;
            }
        }
    }

    /// The connection that arrives now at the station of `arrivals[number]`.
    pub fn arrival(&mut self, number: usize) -> FlowPlan {
        let ArrivalPlan { group, station, next, .. } = self.arrivals[number];
        self.open(group, station, next)
    }

    fn open(&mut self, group: usize, station: u32, start: Instant) -> FlowPlan {
        let id = self.next_id;
        self.next_id += 1;
        let group = &self.groups[group];
        let mut iss = Stream::new(self.seed, "iss", u64::from(id)).bits();
        let mut next_iss = || {
            let low = iss as u32;
            iss >>= 32;
            Seq(low)
        };
        let (source, total) = match group.source {
            Source::Bulk => (linkhold_tcp::Source::Bulk, None),
            Source::Finite(bytes) => (linkhold_tcp::Source::Finite(bytes), Some(bytes.0)),
            Source::Paced { rate, chunk } => (linkhold_tcp::Source::Paced { rate, chunk }, None),
        };
        let mut tcp = self.tcp.clone();
        if group.ip == IpVersion::V6 {
            // The scenario's MSS is IPv4's. IPv6's header is 20 bytes longer, and packets stay as long.
            tcp.mss = tcp.mss.saturating_sub(20).max(1);
        }
        FlowPlan {
            id,
            direction: group.direction,
            station: StationId(station),
            key: key_of(id, station, group.ip),
            start,
            stop: group.stop,
            source,
            total,
            tcp,
            iss: [next_iss(), next_iss()],
        }
    }

    /// One (direction, station, IP header length, TCP) for every kind of flow, for the goodput limit.
    pub fn kinds(&self) -> impl Iterator<Item = (Direction, u32, u32, TcpConfig)> + '_ {
        self.groups.iter().flat_map(|group| {
            let mut tcp = self.tcp.clone();
            let ip_header = match group.ip {
                IpVersion::V4 => 20,
                IpVersion::V6 => {
                    tcp.mss = tcp.mss.saturating_sub(20).max(1);
                    40
                }
            };
            group.stations.iter().map(move |station| (group.direction, *station, ip_header, tcp.clone()))
        })
    }
}

fn key_of(id: u32, station: u32, ip: IpVersion) -> FlowKey {
    let (correspondent, own): (IpAddr, IpAddr) = match ip {
        // 10.0.0.2 and on: room for 16 million stations.
        IpVersion::V4 => {
            (CORRESPONDENT_V4.into(), Ipv4Addr::from_bits(0x0a00_0002_u32.wrapping_add(station)).into())
        }
        IpVersion::V6 => {
            let net = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 0).to_bits();
            (CORRESPONDENT_V6.into(), Ipv6Addr::from_bits(net + 2 + u128::from(station)).into())
        }
    };
    let correspondent_port = FIRST_CORRESPONDENT_PORT.wrapping_add((id / STATION_PORTS) as u16);
    FlowKey {
        correspondent: Endpoint { addr: correspondent, port: correspondent_port },
        station: Endpoint { addr: own, port: FIRST_STATION_PORT + (id % STATION_PORTS) as u16 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_of_many_flows_differ() {
        let keys: HashSet<FlowKey> = (0..100_000).map(|id| key_of(id, id % 7, IpVersion::V4)).collect();
        assert_eq!(keys.len(), 100_000);
        assert_ne!(key_of(0, 0, IpVersion::V6), key_of(0, 1, IpVersion::V6));
    }
}
