//! Which connections a scenario opens, when, and under which addresses.
//!
//! Plans depend on the scenario's flow groups and the seed only, never on the case, so every case sees the
//! same arrivals and the same initial sequence numbers (common random numbers).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkhold_core::packet::{Direction, Endpoint, FlowKey, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{Bytes, Seq};
use linkhold_radio::rng::Stream;
use linkhold_scenario::{FlowGroup, IpVersion, Media, Receiver, ResolvedScenario, Source, Transport, Web};
use linkhold_tcp::{Schedule, TcpConfig};

use crate::error::SimError;
use crate::path::RouteId;
use crate::udp::UdpSender;

/// The correspondent host (RFC 5737 and RFC 3849 documentation addresses; all flows end on one host).
const CORRESPONDENT_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CORRESPONDENT_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1);
/// iperf's port, as in the paper's measurements.
const FIRST_CORRESPONDENT_PORT: u16 = 5001;
/// Stations' ports count up from here, this many of them; then the correspondent's port moves on by one.
const FIRST_STATION_PORT: u16 = 32_768;
const STATION_PORTS: u32 = 28_000;

/// The correspondent's ports of web connections count up from here, this many for each of four ranges of flow
/// numbers.
const FIRST_WEB_PORT: u16 = 8_000;
const WEB_PORTS: u32 = 14_000;

/// What a flow's sender does.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// TCP, written by an application at the sender's end.
    Tcp(linkhold_tcp::Source),
    /// UDP by a schedule.
    Udp {
        /// When which bytes go.
        schedule: Schedule,
        /// Most payload of a datagram, bytes.
        datagram: u32,
    },
    /// TCP, written by a user of the web and the server.
    Web(WebPlan),
}

/// A user of the web.
#[derive(Clone, Debug)]
pub struct WebPlan {
    /// What the user does.
    pub web: Web,
    /// The user's random numbers.
    pub stream: Stream,
    /// The user's connections after the first.
    pub connections: Connections,
}

/// Addresses and initial sequence numbers of one flow's further connections: each has a port of its own.
#[derive(Clone, Debug)]
pub struct Connections {
    id: u32,
    station: u32,
    to: Option<u32>,
    ip: IpVersion,
    iss: Stream,
    made: u32,
}

impl Connections {
    /// Addresses, ports and initial sequence numbers of the next connection.
    pub fn advance(&mut self) -> (FlowKey, [Seq; 2]) {
        let mut key = key_of(self.id, self.station, self.to, self.ip);
        // The station's port and the range tell flows apart, the place in the range a flow's connections.
        let place = (self.id / STATION_PORTS % 4) * WEB_PORTS + self.made % WEB_PORTS;
        key.correspondent.port = FIRST_WEB_PORT + place as u16;
        self.made += 1;
        let bits = self.iss.bits();
        (key, [Seq(bits as u32), Seq((bits >> 32) as u32)])
    }
}

/// A connection to open.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its number in the results.
    pub id: u32,
    /// Which way its data goes.
    pub direction: Direction,
    /// The station at its radio end; in a mesh, the node that sends.
    pub station: StationId,
    /// In a mesh, the node that receives.
    pub to: Option<u32>,
    /// Its way through the network.
    pub route: RouteId,
    /// Addresses and ports.
    pub key: FlowKey,
    /// When it opens.
    pub start: Instant,
    /// When its application stops writing for good.
    pub stop: Option<Instant>,
    /// What carries the data, and the application.
    pub traffic: Traffic,
    /// Bytes of a finite source.
    pub total: Option<u64>,
    /// What is streamed, for the player.
    pub media: Option<Media>,
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
    to: Option<u32>,
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
        opens(self.stop, self.next).then_some(self.next)
    }
}

/// True if a connection of a group that stops at `stop` opens at `start`: not once the application has
/// stopped.
fn opens(stop: Option<Instant>, start: Instant) -> bool {
    stop.is_none_or(|stop| start < stop)
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
    /// Connections that arrive at random.
    pub arrivals: Vec<ArrivalPlan>,
    /// Of a mesh: sender and receiver of each route, by its number.
    pub pairs: Vec<(u32, u32)>,
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
            pairs: Vec::new(),
            next_id: 0,
        };
        let mut ends = Ends::new(scenario.radio.stations, seed);
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
                    let to = receiver(group);
                    for station in &group.stations {
                        if let Some(to) = to {
                            plan.pair(*station, to);
                        }
                        let name = u64::from(*station) << 32 | index as u64;
                        let mut stream = Stream::new(seed, "flow-arrivals", name);
                        let next = group.start + stream.exponential(mean);
                        let stop = group.stop;
                        plan.arrivals.push(ArrivalPlan {
                            group: index,
                            station: *station,
                            to,
                            stream,
                            mean,
                            next,
                            stop,
                        });
                    }
                }
                None if group.to == Some(Receiver::Drawn) => plan.add_drawn(index, group, &mut ends),
                None => plan.add_fixed(index, group),
            }
        }
        Ok(plan)
    }

    fn add_fixed(&mut self, index: usize, group: &FlowGroup) {
        let to = receiver(group);
        let mut start = group.start;
        // Round by round over the stations, so that staggered starts spread over them.
        for _ in 0..group.count {
            for station in &group.stations {
                if !opens(group.stop, start) {
                    return;
                }
                let flow = self.open(index, *station, to, start);
                self.flows.push(flow);
                start += group.stagger;
            }
        }
    }

    /// As [`add_fixed`](Self::add_fixed), between nodes that the seed draws.
    fn add_drawn(&mut self, index: usize, group: &FlowGroup, ends: &mut Ends) {
        let mut start = group.start;
        for _ in 0..group.count {
            if !opens(group.stop, start) {
                return;
            }
            let (from, to) = ends.draw();
            let flow = self.open(index, from, Some(to), start);
            self.flows.push(flow);
            start += group.stagger;
        }
    }

    /// TCP of both ends of every connection, but for what the version of IP changes.
    #[must_use]
    pub const fn tcp(&self) -> &TcpConfig {
        &self.tcp
    }

    /// The connection that arrives now at the station of `arrivals[number]`.
    pub fn arrival(&mut self, number: usize) -> FlowPlan {
        let ArrivalPlan { group, station, to, next, .. } = self.arrivals[number];
        self.open(group, station, to, next)
    }

    /// The number of the route between two nodes of a mesh.
    fn pair(&mut self, from: u32, to: u32) -> RouteId {
        let known = self.pairs.iter().position(|&pair| pair == (from, to));
        let number = known.unwrap_or_else(|| {
            self.pairs.push((from, to));
            self.pairs.len() - 1
        });
        RouteId(number as u32)
    }

    fn open(&mut self, group: usize, station: u32, to: Option<u32>, start: Instant) -> FlowPlan {
        let route = to.map_or(RouteId(station), |to| self.pair(station, to));
        let id = self.next_id;
        self.next_id += 1;
        let group = &self.groups[group];
        let mut iss = Stream::new(self.seed, "iss", u64::from(id)).bits();
        let mut next_iss = || {
            let low = iss as u32;
            iss >>= 32;
            Seq(low)
        };
        let total = match group.source {
            Source::Finite(bytes) => Some(bytes.0),
            Source::Bulk | Source::Paced { .. } | Source::Media(_) | Source::Web(_) => None,
        };
        let media = match group.source {
            Source::Media(media) => Some(media),
            Source::Bulk | Source::Finite(_) | Source::Paced { .. } | Source::Web(_) => None,
        };
        let traffic = match (group.transport, group.source) {
            (_, Source::Web(web)) => Traffic::Web(WebPlan {
                web,
                stream: Stream::new(self.seed, "web", u64::from(id)),
                connections: Connections {
                    id,
                    station,
                    to,
                    ip: group.ip,
                    iss: Stream::new(self.seed, "web-iss", u64::from(id)),
                    made: 0,
                },
            }),
            (Transport::Udp { datagram }, source) => {
                Traffic::Udp { schedule: schedule(source, datagram), datagram }
            }
            // A plan with QUIC is never simulated (`check` refuses it): the testbed takes the limit from it.
            (Transport::Tcp | Transport::Quic { .. }, Source::Bulk) => {
                Traffic::Tcp(linkhold_tcp::Source::Bulk)
            }
            (Transport::Tcp | Transport::Quic { .. }, Source::Finite(bytes)) => {
                Traffic::Tcp(linkhold_tcp::Source::Finite(bytes))
            }
            (Transport::Tcp | Transport::Quic { .. }, Source::Paced { rate, chunk }) => {
                Traffic::Tcp(linkhold_tcp::Source::paced(rate, chunk))
            }
            (Transport::Tcp | Transport::Quic { .. }, Source::Media(media)) => {
                Traffic::Tcp(linkhold_tcp::Source::Scheduled(media_schedule(&media)))
            }
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
            to,
            route,
            key: key_of(id, station, to, group.ip),
            start,
            stop: group.stop,
            traffic,
            total,
            media,
            tcp,
            iss: [next_iss(), next_iss()],
        }
    }

    /// Every kind of flow, for the goodput limit.
    pub fn kinds(&self) -> impl Iterator<Item = FlowKind> + '_ {
        self.groups.iter().flat_map(|group| {
            let mut tcp = self.tcp.clone();
            let ip_header = match group.ip {
                IpVersion::V4 => 20,
                IpVersion::V6 => {
                    tcp.mss = tcp.mss.saturating_sub(20).max(1);
                    40
                }
            };
            // Where the seed draws the ends, any node may be the sender.
            let drawn = group.stations.is_empty().then_some(None);
            let stations = group.stations.iter().map(|station| Some(*station)).chain(drawn);
            stations.map(move |station| FlowKind {
                direction: group.direction,
                station,
                ip_header,
                transport: group.transport,
                mean_datagram: mean_datagram(group),
                tcp: tcp.clone(),
            })
        })
    }
}

/// Payload of a group's datagrams in the mean, bytes; 0 with TCP. Each write of the application is cut by
/// itself.
fn mean_datagram(group: &FlowGroup) -> f64 {
    let most = match group.transport {
        Transport::Tcp => return 0.0,
        Transport::Udp { datagram } | Transport::Quic { datagram } => u64::from(datagram.max(1)),
    };
    let chunk = match &group.source {
        Source::Paced { chunk, .. } => chunk.0,
        Source::Media(media) => media.chunk.0,
        Source::Bulk | Source::Finite(_) | Source::Web(_) => most,
    };
    chunk as f64 / chunk.div_ceil(most).max(1) as f64
}

/// What the goodput limit depends on in a flow.
#[derive(Clone, Debug)]
pub struct FlowKind {
    /// Which way its data goes.
    pub direction: Direction,
    /// The station at its radio end; `None` where the seed draws it.
    pub station: Option<u32>,
    /// Length of its IP header, bytes.
    pub ip_header: u32,
    /// What carries its data.
    pub transport: Transport,
    /// Payload of its datagrams in the mean, bytes, with UDP.
    pub mean_datagram: f64,
    /// Both ends' TCP.
    pub tcp: TcpConfig,
}

fn media_schedule(media: &Media) -> Schedule {
    let spacing = media.ahead_rate.map_or(Duration::ZERO, |rate| rate.time_for(media.chunk));
    Schedule::live(media.chunk, media.interval).sent_ahead(media.ahead, spacing)
}

/// The sender of a UDP flow that starts at `started`, for who drives it by another clock than the engine's.
#[must_use]
pub fn udp_sender(source: Source, datagram: u32, started: Instant) -> UdpSender {
    UdpSender::new(schedule(source, datagram), datagram, started)
}

/// The schedule of a source that UDP carries. A scenario has no other with UDP; one made by hand that does
/// sends a datagram a second.
fn schedule(source: Source, datagram: u32) -> Schedule {
    match source {
        Source::Paced { rate, chunk } => Schedule::live(chunk, rate.time_for(chunk)),
        Source::Media(media) => media_schedule(&media),
        Source::Bulk | Source::Finite(_) | Source::Web(_) => {
            debug_assert!(false, "UDP carries no {source:?}");
            Schedule::live(Bytes(u64::from(datagram)), Duration::from_secs(1))
        }
    }
}

/// The node of a mesh that a group sends to, if it is one for all.
fn receiver(group: &FlowGroup) -> Option<u32> {
    match group.to {
        Some(Receiver::Node(node)) => Some(node),
        Some(Receiver::Drawn) | None => None,
    }
}

/// Draws the ends of a mesh's connections.
struct Ends {
    nodes: u32,
    stream: Stream,
    /// Nodes that are no end yet, shuffled; drawn from the back.
    free: Vec<u32>,
}

impl Ends {
    fn new(nodes: u32, seed: u64) -> Self {
        Self { nodes, stream: Stream::new(seed, "flow-ends", 0), free: Vec::new() }
    }

    /// Draws two nodes; the mesh has at least two.
    fn draw(&mut self) -> (u32, u32) {
        if self.free.len() < 2 {
            self.free = (0..self.nodes).collect();
            // Fisher and Yates.
            for last in (1..self.free.len()).rev() {
                let other = (self.stream.unit() * (last + 1) as f64) as usize;
                self.free.swap(last, other.min(last));
            }
        }
        match (self.free.pop(), self.free.pop()) {
            (Some(from), Some(to)) => (from, to),
            _ => (0, self.nodes.saturating_sub(1)),
        }
    }
}

fn key_of(id: u32, station: u32, to: Option<u32>, ip: IpVersion) -> FlowKey {
    let own = station_address(station, ip);
    let correspondent: IpAddr = match (to, ip) {
        (Some(to), ip) => station_address(to, ip),
        (None, IpVersion::V4) => CORRESPONDENT_V4.into(),
        (None, IpVersion::V6) => CORRESPONDENT_V6.into(),
    };
    let correspondent_port = FIRST_CORRESPONDENT_PORT.wrapping_add((id / STATION_PORTS) as u16);
    FlowKey {
        correspondent: Endpoint { addr: correspondent, port: correspondent_port },
        station: Endpoint { addr: own, port: FIRST_STATION_PORT + (id % STATION_PORTS) as u16 },
    }
}

/// The address of a station, or of a node of a mesh: 10.0.0.2 and on, with room for 16 million.
pub(crate) const fn node_address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0002_u32.wrapping_add(node))
}

fn station_address(station: u32, ip: IpVersion) -> IpAddr {
    match ip {
        IpVersion::V4 => node_address(station).into(),
        IpVersion::V6 => {
            let net = Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 0).to_bits();
            Ipv6Addr::from_bits(net + 2 + u128::from(station)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_of_many_flows_differ() {
        let keys: HashSet<FlowKey> = (0..100_000).map(|id| key_of(id, id % 7, None, IpVersion::V4)).collect();
        assert_eq!(keys.len(), 100_000);
        assert_ne!(key_of(0, 0, None, IpVersion::V6), key_of(0, 1, None, IpVersion::V6));
    }

    #[test]
    fn connections_of_users_at_one_station_differ_from_each_other_and_from_other_flows() {
        let iss = Stream::new(1, "test", 0);
        let mut keys: HashSet<FlowKey> = HashSet::new();
        let mut total = 0;
        for id in [0, 1, 27_999, 28_000, 56_001, 99_999] {
            keys.insert(key_of(id, 0, None, IpVersion::V4));
            let mut of_one =
                Connections { id, station: 0, to: None, ip: IpVersion::V4, iss: iss.clone(), made: 0 };
            keys.extend((0..1_000).map(|_| of_one.advance().0));
            total += 1_001;
        }
        assert_eq!(keys.len(), total);
    }
}
