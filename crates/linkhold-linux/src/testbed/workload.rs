//! A scenario's flows as programs and threads to start.

use std::time::Duration as StdDuration;

use linkhold_core::packet::{Direction, Endpoint, FlowKey};
use linkhold_core::time::{Duration, Instant};
use linkhold_scenario::{FlowGroup, IpVersion, ResolvedScenario, Source, Transport};
use linkhold_sim::plan::udp_sender;
use linkhold_sim::slab::UDP_HEADER;

use super::clock::{after_start, instant};
use super::datagrams::{NUMBER_LEN, UDP_PORT, UdpFlow};
use super::error::{RunError, Unsupported};
use super::quic::{QUIC_PORT, QuicFlow};
use super::topology::{Family, ch_address, station_address};
use super::tun::MTU;

/// Port of the first iperf3 server; each client has one of its own, since a server takes one test at a time.
pub const IPERF_PORT: u16 = 5201;
/// Port of the server of sized flows.
pub const SIZED_PORT: u16 = 7001;
/// Most iperf3 clients: each needs a server with a port below those that the kernel hands out (32768 and up).
const MAX_CLIENTS: usize = 1000;
/// Most connections of one iperf3 client (`MAX_STREAMS`).
const MAX_STREAMS: u32 = 128;
/// Most UDP flows: each has a port and a thread of its own.
const MAX_UDP_FLOWS: usize = 256;
/// Most flows measured, iperf3's control connections among them. A run with more has no result.
pub const MAX_FLOWS: usize = 4096;
/// Most QUIC flows: each has a port and two threads of its own.
const MAX_QUIC_FLOWS: usize = 64;

/// One iperf3 client.
#[derive(Clone, Debug)]
pub struct Iperf {
    /// Number of its group in the scenario.
    pub group: usize,
    /// The station it runs on.
    pub station: u32,
    /// Which way the data goes.
    pub direction: Direction,
    /// Connections.
    pub count: u32,
    /// After the start of the run.
    pub start: StdDuration,
    /// How long it sends.
    pub duration: StdDuration,
    /// Whether its application stops before the run is over.
    pub stops: bool,
    /// Bits per second of each connection, and bytes of one write; `None`: as much as TCP takes.
    pub paced: Option<(u64, u64)>,
    /// Internet protocol.
    pub family: Family,
}

/// Flows of a given size on one station.
#[derive(Clone, Debug)]
pub struct SizedFlows {
    /// Number of their group in the scenario.
    pub group: usize,
    /// The station at the radio end.
    pub station: u32,
    /// Which way the data goes.
    pub direction: Direction,
    /// Size of each, bytes.
    pub bytes: u64,
    /// When each begins, after the start of the run; in order.
    pub starts: Vec<StdDuration>,
    /// Internet protocol.
    pub family: Family,
}

/// Congestion control of the senders, as the kernel calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// Of the correspondents.
    pub downlink: String,
    /// Of the stations.
    pub uplink: String,
}

impl Congestion {
    /// That of the hosts that send in a direction.
    #[must_use]
    pub fn of(&self, direction: Direction) -> &str {
        match direction {
            Direction::Downlink => &self.downlink,
            Direction::Uplink => &self.uplink,
        }
    }
}

impl From<&str> for Congestion {
    fn from(name: &str) -> Self {
        Self { downlink: name.to_owned(), uplink: name.to_owned() }
    }
}

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Congestion control of the senders of TCP.
    pub congestion: Congestion,
    /// The one that is asked for, which QUIC uses whatever TCP's senders have around theirs.
    pub asked: String,
    /// iperf3 clients.
    pub iperf: Vec<Iperf>,
    /// Flows of a given size.
    pub sized: Vec<SizedFlows>,
    /// UDP flows; their ports count up from [`UDP_PORT`].
    pub udp: Vec<UdpFlow>,
    /// QUIC flows; their ports count up from [`QUIC_PORT`].
    pub quic: Vec<QuicFlow>,
}

impl Workload {
    /// The flows of `scenario`, all of whose senders use `congestion`.
    ///
    /// # Errors
    /// [`RunError::Unsupported`] for what the testbed cannot start.
    pub fn new(scenario: &ResolvedScenario, seed: u64, congestion: &str) -> Result<Self, RunError> {
        let mut this =
            Self { congestion: congestion.into(), asked: congestion.to_owned(), ..Self::default() };
        for (number, group) in scenario.flows.iter().enumerate() {
            match group.transport {
                Transport::Tcp => {}
                Transport::Udp { datagram } => {
                    this.add_udp(group, number, datagram)?;
                    continue;
                }
                Transport::Quic { datagram } => {
                    this.add_quic(scenario, group, number, datagram, seed)?;
                    continue;
                }
            }
            match (group.source, group.arrivals) {
                (Source::Finite(bytes), arrivals) => {
                    for &station in &group.stations {
                        let starts = match arrivals {
                            Some(arrivals) => {
                                poisson(scenario, group, number, station, seed, arrivals.per_second)
                            }
                            None => {
                                staggered(group).filter(|one| one.0 == station).map(|one| one.1).collect()
                            }
                        };
                        this.sized.push(SizedFlows {
                            group: number,
                            station,
                            direction: group.direction,
                            bytes: bytes.0,
                            starts,
                            family: family(group.ip),
                        });
                    }
                }
                (Source::Bulk | Source::Paced { .. }, None) => this.add_iperf(scenario, group, number),
                (Source::Media(_), _) => return Err(unsupported_source(number, "media")),
                (Source::Web(_), _) => return Err(unsupported_source(number, "web")),
                (Source::Bulk | Source::Paced { .. }, Some(_)) => {
                    let what = "flows that arrive at random need a size";
                    return Err(Unsupported::new(
                        key(number, "source"),
                        what,
                        "write one, such as \"100kB\"",
                    )
                    .into());
                }
            }
        }
        if this.iperf.len() > MAX_CLIENTS {
            let what = format!("the scenario asks for {} iperf3 clients", this.iperf.len());
            return Err(Unsupported::new("flows", what, format!("use at most {MAX_CLIENTS}")).into());
        }
        if this.udp.len() > MAX_UDP_FLOWS {
            let what = format!("the scenario asks for {} UDP flows", this.udp.len());
            return Err(Unsupported::new("flows", what, format!("use at most {MAX_UDP_FLOWS}")).into());
        }
        if this.quic.len() > MAX_QUIC_FLOWS {
            let what = format!("the scenario asks for {} QUIC flows", this.quic.len());
            return Err(Unsupported::new("flows", what, format!("use at most {MAX_QUIC_FLOWS}")).into());
        }
        let made = this.connections();
        if made > MAX_FLOWS {
            let what = format!(
                "the scenario makes {made} connections, iperf3's own among them, and the testbed measures {MAX_FLOWS}"
            );
            let right = "use fewer flows, a lower rate of arrivals or a shorter run";
            return Err(Unsupported::new("flows", what, right).into());
        }
        Ok(this)
    }

    /// How many flows there will be, iperf3's control connections among them.
    fn connections(&self) -> usize {
        let iperf: usize = self.iperf.iter().map(|client| 1 + client.count as usize).sum();
        let sized: usize = self.sized.iter().map(|flows| flows.starts.len()).sum();
        iperf + sized + self.udp.len() + self.quic.len()
    }

    fn add_udp(&mut self, group: &FlowGroup, number: usize, datagram: u32) -> Result<(), RunError> {
        let media = match group.source {
            Source::Media(media) => Some(media),
            Source::Bulk | Source::Finite(_) | Source::Paced { .. } | Source::Web(_) => None,
        };
        let (direction, family) = (group.direction, family(group.ip));
        fits(number, datagram, family, ", or simulate it with `linkhold run`")?;
        for (station, start) in staggered(group) {
            let sender = udp_sender(group.source, datagram, instant(start));
            let least = sender.least_payload();
            if least < NUMBER_LEN as u64 {
                let what = format!(
                    "the last datagram of each chunk has {least} bytes, and the testbed writes a number of {NUMBER_LEN} \
                     into it"
                );
                let right = format!(
                    "choose datagram and chunk so that the rest is 0 or at least {NUMBER_LEN} bytes, or simulate it \
                     with `linkhold run`"
                );
                return Err(Unsupported::new(key(number, "source"), what, right).into());
            }
            let stop = group.stop.map(after_start);
            self.udp.push(UdpFlow { group: number, station, direction, sender, media, start, stop, family });
        }
        Ok(())
    }

    fn add_quic(
        &mut self,
        scenario: &ResolvedScenario,
        group: &FlowGroup,
        number: usize,
        datagram: u32,
        seed: u64,
    ) -> Result<(), RunError> {
        let (direction, family) = (group.direction, family(group.ip));
        fits(number, datagram, family, "")?;
        let bytes = match group.source {
            Source::Bulk => None,
            Source::Finite(bytes) => Some(bytes.0),
            Source::Paced { .. } => return Err(unsupported_source(number, "rate over QUIC")),
            Source::Media(_) => return Err(unsupported_source(number, "media over QUIC")),
            Source::Web(_) => return Err(unsupported_source(number, "web over QUIC")),
        };
        let starts: Vec<(u32, StdDuration)> = match group.arrivals {
            None => staggered(group).collect(),
            Some(arrivals) => {
                let at = |&station: &u32| {
                    let starts = poisson(scenario, group, number, station, seed, arrivals.per_second);
                    starts.into_iter().map(move |start| (station, start))
                };
                group.stations.iter().flat_map(at).collect()
            }
        };
        // What does not fit was refused, so the cast loses nothing.
        let datagram = datagram as u16;
        let stop = group.stop.map(after_start).filter(|_| bytes.is_none());
        self.quic.extend(starts.into_iter().map(|(station, start)| QuicFlow {
            group: number,
            station,
            direction,
            bytes,
            datagram,
            start,
            stop,
            family,
        }));
        Ok(())
    }

    /// The QUIC flows with their ends.
    pub fn quic_keys(&self) -> impl Iterator<Item = (FlowKey, &QuicFlow)> {
        (QUIC_PORT..).zip(&self.quic).map(|(port, flow)| (ends(flow.family, flow.station, port), flow))
    }

    /// The UDP flows with their ends.
    pub fn udp_keys(&self) -> impl Iterator<Item = (FlowKey, &UdpFlow)> {
        (UDP_PORT..).zip(&self.udp).map(|(port, flow)| (ends(flow.family, flow.station, port), flow))
    }

    fn add_iperf(&mut self, scenario: &ResolvedScenario, group: &FlowGroup, number: usize) {
        let stop = end_of(scenario, group);
        let stops = stop < Instant::ZERO + scenario.duration;
        let client = |station: u32, count: u32, start: StdDuration| Iperf {
            group: number,
            station,
            direction: group.direction,
            count,
            start,
            duration: after_start(stop).saturating_sub(start),
            stops,
            paced: match group.source {
                Source::Paced { rate, chunk } => Some((rate.as_bps(), chunk.0)),
                Source::Bulk | Source::Finite(_) | Source::Media(_) | Source::Web(_) => None,
            },
            family: family(group.ip),
        };
        if group.stagger == Duration::ZERO {
            let start = after_start(group.start);
            for &station in &group.stations {
                let parts = (0..group.count).step_by(MAX_STREAMS as usize);
                let parts = parts.map(|before| (group.count - before).min(MAX_STREAMS));
                self.iperf.extend(parts.map(|count| client(station, count, start)));
            }
        } else {
            self.iperf.extend(staggered(group).map(|(station, start)| client(station, 1, start)));
        }
    }

    /// True if there are flows of a given size.
    #[must_use]
    pub fn has_sized(&self) -> bool {
        !self.sized.is_empty() || self.quic.iter().any(|flow| flow.bytes.is_some())
    }

    /// The internet protocol of the first flow.
    #[must_use]
    pub fn family(&self) -> Family {
        let first = self.iperf.first().map(|client| client.family);
        let first = first.or(self.sized.first().map(|flows| flows.family));
        let first = first.or(self.udp.first().map(|flow| flow.family));
        first.or(self.quic.first().map(|flow| flow.family)).unwrap_or(Family::V4)
    }

    /// The iperf3 client whose server listens on `port`.
    #[must_use]
    pub fn client_of(&self, port: u16) -> Option<(usize, &Iperf)> {
        let index = usize::from(port.checked_sub(IPERF_PORT)?);
        self.iperf.get(index).map(|client| (index, client))
    }
}

/// The ends of a flow that has `port` at both of them.
fn ends(family: Family, station: u32, port: u16) -> FlowKey {
    let correspondent = Endpoint { addr: ch_address(family), port };
    let station = Endpoint { addr: station_address(family, station), port };
    FlowKey { correspondent, station }
}

/// Refuses datagrams of flow `number` that the testbed's packets have no room for; `or` is what else would
/// help.
fn fits(number: usize, datagram: u32, family: Family, or: &str) -> Result<(), RunError> {
    let most = u32::from(MTU) - family.ip_header() - UDP_HEADER;
    if datagram <= most {
        return Ok(());
    }
    let what = format!("{datagram} bytes do not fit into the testbed's packets of {MTU}");
    Err(Unsupported::new(key(number, "datagram"), what, format!("write at most {most}B{or}")).into())
}

/// Flow `number` has a source that the testbed cannot start.
fn unsupported_source(number: usize, source: &str) -> RunError {
    let what = format!("the testbed has no \"{source}\" yet");
    let right = "write a rate such as { rate = \"1Mbit/s\" }, or simulate it with `linkhold run`";
    Unsupported::new(key(number, "source"), what, right).into()
}

/// A key of flow `number`, as the scenario's reader writes it.
fn key(number: usize, name: &str) -> String {
    format!("flows[{number}].{name}")
}

/// When the application of a group stops: with the run at the latest.
fn end_of(scenario: &ResolvedScenario, group: &FlowGroup) -> Instant {
    let end = Instant::ZERO + scenario.duration;
    group.stop.unwrap_or(end).min(end)
}

const fn family(ip: IpVersion) -> Family {
    match ip {
        IpVersion::V4 => Family::V4,
        IpVersion::V6 => Family::V6,
    }
}

/// (station, start) of every connection of a group: round by round over the stations, as the simulator does.
fn staggered(group: &FlowGroup) -> impl Iterator<Item = (u32, StdDuration)> + '_ {
    let rounds = (0..group.count).flat_map(|_| group.stations.iter().copied());
    let starts = rounds.enumerate().map(|(index, station)| {
        let start = group.start.as_nanos() + group.stagger.as_nanos() * index as u64;
        (station, StdDuration::from_nanos(start))
    });
    // As in the simulator, a flow does not open once its application has stopped.
    let stop = group.stop.map(after_start);
    starts.take_while(move |(_, start)| stop.is_none_or(|stop| *start < stop))
}

/// Starts of a Poisson process, drawn from the simulator's stream: both stacks see the same arrivals.
fn poisson(
    scenario: &ResolvedScenario,
    group: &FlowGroup,
    number: usize,
    station: u32,
    seed: u64,
    per_second: f64,
) -> Vec<StdDuration> {
    let stop = end_of(scenario, group);
    let name = u64::from(station) << 32 | number as u64;
    let mut stream = linkhold_radio::rng::Stream::new(seed, "flow-arrivals", name);
    let mean = Duration::from_secs_f64(1.0 / per_second);
    let mut starts = Vec::new();
    let mut at = group.start + stream.exponential(mean);
    while at < stop {
        starts.push(after_start(at));
        at += stream.exponential(mean);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(flows: &str) -> Result<Workload, RunError> {
        let text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"20s\"\n[radio]\nphy_rate = \"24Mbit/s\"\nstations = 3\n{flows}"
        );
        let scenario = linkhold_scenario::Scenario::from_toml(&text, "t.toml", &[]).unwrap();
        Workload::new(&scenario.cases()[0].scenario, 1, "cubic")
    }

    #[test]
    fn bulk_flows_share_a_client_unless_they_start_apart() {
        let together =
            workload("[[flows]]\ndirection = \"downlink\"\nstation = \"all\"\ncount = 4\nstart = \"2s\"\n")
                .unwrap();
        let counts: Vec<_> = together.iperf.iter().map(|client| (client.station, client.count)).collect();
        assert_eq!(counts, [(0, 4), (1, 4), (2, 4)]);
        let many = workload("[[flows]]\ndirection = \"downlink\"\nstation = \"all\"\ncount = 129\n").unwrap();
        let counts: Vec<_> = many.iperf.iter().map(|client| (client.station, client.count)).collect();
        let wanted = [(0, 128), (0, 1), (1, 128), (1, 1), (2, 128), (2, 1)];
        assert_eq!(counts, wanted, "one iperf3 takes no more than 128");
        let stopped = workload(
            "[[flows]]\ndirection = \"downlink\"\ncount = 3\nstagger = \"4s\"\nstop = \"8s\"\n\
             [[flows]]\ndirection = \"uplink\"\nsource = \"100kB\"\ncount = 3\nstagger = \"4s\"\nstop = \"8s\"\n",
        )
        .unwrap();
        let starts: Vec<_> = stopped.iperf.iter().map(|client| client.start.as_secs()).collect();
        let sized: Vec<_> = stopped.sized[0].starts.iter().map(StdDuration::as_secs).collect();
        assert_eq!((starts, sized), (vec![0, 4], vec![0, 4]), "none opens once its application has stopped");
        assert_eq!(together.iperf[0].duration, StdDuration::from_secs(18));
        assert!(stopped.iperf.iter().all(|client| client.stops) && !together.iperf[0].stops);
        let apart =
            workload("[[flows]]\ndirection = \"downlink\"\nstation = \"all\"\ncount = 2\nstagger = \"1s\"\n")
                .unwrap();
        let starts: Vec<_> =
            apart.iperf.iter().map(|client| (client.station, client.start.as_secs())).collect();
        assert_eq!(starts, [(0, 0), (1, 1), (2, 2), (0, 3), (1, 4), (2, 5)]);
        assert_eq!(
            apart.client_of(IPERF_PORT + 4).map(|(index, client)| (index, client.station)),
            Some((4, 1))
        );
        assert!(apart.client_of(IPERF_PORT + 6).is_none() && apart.client_of(1).is_none());
    }

    #[test]
    fn what_the_testbed_cannot_start_is_refused_by_key_with_a_way_out() {
        for (flow, key) in [
            ("source = \"media\"\nmedia = { rate = \"1Mbit/s\" }\n", "flows[1].source: "),
            ("source = \"web\"\n", "flows[1].source: "),
            (
                "transport = \"udp\"\nsource = { rate = \"1Mbit/s\" }\ndatagram = \"1453B\"\nip = \"v6\"\n[tcp]\nmss = 2000\n",
                "flows[1].datagram: ",
            ),
            (
                "transport = \"udp\"\nsource = { rate = \"1Mbit/s\", chunk = \"1203B\" }\ndatagram = \"1200B\"\n",
                "flows[1].source: ",
            ),
        ] {
            let flows =
                format!("[[flows]]\ndirection = \"uplink\"\n[[flows]]\ndirection = \"downlink\"\n{flow}");
            let error = workload(&flows).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("linkhold run"), "{error}");
        }
    }

    #[test]
    fn each_udp_flow_has_a_port_and_a_sender_of_its_own() {
        let flows = workload(
            "[[flows]]\ndirection = \"downlink\"\ntransport = \"udp\"\nstation = \"all\"\ncount = 2\n\
             source = { rate = \"1Mbit/s\" }\ndatagram = \"1250B\"\nstart = \"1s\"\nstagger = \"1s\"\nstop = \"9s\"\n",
        )
        .unwrap();
        let starts: Vec<_> = flows.udp.iter().map(|flow| (flow.station, flow.start.as_secs())).collect();
        assert_eq!(starts, [(0, 1), (1, 2), (2, 3), (0, 4), (1, 5), (2, 6)]);
        let (key, third) = flows.udp_keys().nth(2).unwrap();
        assert_eq!(key.station, Endpoint { addr: "10.66.0.4".parse().unwrap(), port: UDP_PORT + 2 });
        assert_eq!((third.station, third.stop), (2, Some(StdDuration::from_secs(9))));
        // Ten milliseconds for each datagram of 1250 bytes.
        let mut sender = third.sender.clone();
        let sent = std::iter::from_fn(|| sender.poll(Instant::from_millis(3_020))).count();
        assert_eq!((sent, sender.next_send()), (3, Some(Instant::from_millis(3_030))));
        assert!(flows.iperf.is_empty() && flows.sized.is_empty());
    }

    #[test]
    fn each_quic_flow_has_a_port_of_its_own_and_keeps_its_size() {
        let flows = workload(
            "[[flows]]\ndirection = \"uplink\"\ntransport = \"quic\"\nstation = \"all\"\nstart = \"1s\"\nstop = \"9s\"\n\
             [[flows]]\ndirection = \"downlink\"\ntransport = \"quic\"\nip = \"v6\"\nsource = \"1MB\"\narrivals = \"1/s\"\n",
        )
        .unwrap();
        let of = |group: usize| flows.quic.iter().filter(move |flow| flow.group == group);
        let sent: Vec<_> = of(0).map(|flow| (flow.station, flow.bytes, flow.datagram, flow.stop)).collect();
        let stop = Some(StdDuration::from_secs(9));
        assert_eq!(sent, [0, 1, 2].map(|station| (station, None, 1472, stop)));
        assert!(
            of(1).count() > 5 && of(1).all(|flow| (flow.bytes, flow.datagram) == (Some(1_000_000), 1452))
        );
        assert!(of(1).map(|flow| flow.start).is_sorted() && flows.has_sized());
        let (key, fourth) = flows.quic_keys().nth(3).unwrap();
        assert_eq!((key.station.port, fourth.group, key.station.addr.is_ipv6()), (QUIC_PORT + 3, 1, true));
        assert!(flows.iperf.is_empty() && flows.sized.is_empty() && flows.udp.is_empty());
        let many = "[[flows]]\ndirection = \"uplink\"\ntransport = \"quic\"\ncount = 65\n";
        let error = workload(many).unwrap_err().to_string();
        assert_eq!(error, "flows: the scenario asks for 65 QUIC flows; use at most 64");
    }

    #[test]
    fn more_connections_than_are_measured_are_refused_with_the_limit() {
        let bulk = |count: usize| format!("[[flows]]\ndirection = \"uplink\"\ncount = {count}\n");
        // 32 clients, each with a control connection.
        let most = MAX_FLOWS - 32;
        assert_eq!(workload(&bulk(most)).unwrap().connections(), MAX_FLOWS);
        let many = workload(&bulk(most + 1)).unwrap_err().to_string();
        let arrivals = "[[flows]]\ndirection = \"downlink\"\nsource = \"1kB\"\narrivals = \"500/s\"\n";
        let random = workload(arrivals).unwrap_err().to_string();
        assert!(many.starts_with("flows: the scenario makes 4097 connections"), "{many}");
        assert!(many.contains("measures 4096; use fewer flows") && random.contains("arrivals"), "{random}");
    }

    #[test]
    fn arrivals_are_the_simulators() {
        let flows = workload(
            "[[flows]]\ndirection = \"downlink\"\nstation = 1\nsource = \"100kB\"\narrivals = \"2/s\"\n",
        );
        let starts = flows.unwrap().sized.remove(0).starts;
        assert!((20..70).contains(&starts.len()) && starts.is_sorted(), "{starts:?}");
    }
}
