//! `[[flows]]`: which connections there are, over which transport, and what their applications do.

use std::collections::BTreeSet;

use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Bytes;
use linkhold_tcp::TcpConfig;

use crate::file::{self, File, Flows, MacName, TransportName};
use crate::ieee802154;
use crate::model::{
    Arrivals, FlowGroup, IpVersion, Media, ObjectCounts, ObjectSizes, Receiver, Source, Transport, Web,
};
use crate::read::{At, Reader, Spot};
use crate::scalar::{Ahead, MAX_COUNT, NodeOrDrawn, Stations};
use crate::source_value::SourceValue;
use crate::spots::{report_idle, station_in_range};

/// Lengths of headers without options, bytes.
const IPV4: u32 = 20;
const IPV6: u32 = 40;
const TCP: u32 = 20;
const UDP: u32 = 8;
/// Least payload that a datagram of QUIC must be able to have (RFC 9000 section 14).
const LEAST_QUIC: u32 = 1200;
/// Bytes that the timestamps' option takes from each segment's payload (RFC 7323 appendix A).
const TIMESTAMPS: u32 = 12;
/// Time of a frame of media, if the file does not say: 25 a second.
const FRAME: Duration = Duration::from_millis(40);

/// The groups of connections, whose ends have `tcp`.
pub(crate) fn flows(file: &File, tcp: &TcpConfig, reader: &Reader<'_>) -> Option<Vec<FlowGroup>> {
    let mut groups = Some(Vec::new());
    let mut total = 0.0;
    for flow in &file.flows {
        match flow_group(file, flow, tcp, reader) {
            Some(group) => {
                let per_station = match group.arrivals {
                    Some(arrivals) => arrivals.per_second * file.duration.as_secs_f64(),
                    None => f64::from(group.count),
                };
                total += per_station * group.stations.len().max(1) as f64;
                if let Some(groups) = &mut groups {
                    groups.push(group);
                }
            }
            None => groups = None,
        }
        if total > MAX_COUNT as f64 {
            let right =
                format!("a run takes at most {MAX_COUNT} connections: lower count, arrivals or duration");
            reader.report(&flow.spot, "that makes too many connections", right);
            return None;
        }
    }
    if file.flows.is_empty() && groups.is_some() && !reader.has_reported("flows") {
        let right = "write at least one [[flows]] with direction = \"downlink\" or \"uplink\"";
        reader.report(&Spot::root(), "there is no flow, so nothing would be measured", right);
        return None;
    }
    groups
}

fn flow_group(file: &File, flow: &At<Flows>, tcp: &TcpConfig, reader: &Reader<'_>) -> Option<FlowGroup> {
    let Ends { direction, stations, to } = match &file.mesh {
        None => ends_in_cell(file, flow, reader)?,
        Some(mesh) => ends_in_mesh(**mesh.nodes, flow, reader)?,
    };
    let mut fine = true;
    if *flow.start >= **file.duration {
        reader.report_between(
            &[&flow.start.spot, &file.duration.spot],
            format!("the flow starts at {}, but the run ends at {}", *flow.start, **file.duration),
            "start it earlier",
        );
        fine = false;
    }
    let connections = u64::from(**flow.count) * stations.len().max(1) as u64;
    let waits = flow.stagger.as_nanos().checked_mul(connections.saturating_sub(1));
    let last = waits.and_then(|waits| flow.start.as_nanos().checked_add(waits));
    if fine && flow.arrivals.is_none() && last.is_none_or(|last| last >= file.duration.as_nanos()) {
        let begins = last.map_or_else(|| "far later".to_owned(), |at| Duration::from_nanos(at).to_string());
        let end = **file.duration;
        reader.report_between(
            &[&flow.stagger.spot, &flow.count.spot, &flow.start.spot, &file.duration.spot],
            format!("the last of {connections} connections starts at {begins}, but the run ends at {end}"),
            "lower stagger or count, or start them earlier",
        );
        fine = false;
    }
    if let Some(stop) = &flow.stop
        && stop.0 <= *flow.start
    {
        let what = format!("the flow stops at {} and starts at {}", stop.0, *flow.start);
        reader.report_between(&[&stop.spot, &flow.start.spot], what, "stop it later");
        fine = false;
    }
    let transport = transport(file, flow, tcp, reader)?;
    let source = source(flow, transport, tcp, reader)?;
    if let Some(arrivals) = &flow.arrivals {
        report_idle(&[&flow.count.spot], "beside arrivals", "remove count, or arrivals", reader);
        report_idle(&[&flow.stagger.spot], "beside arrivals", "remove stagger, or arrivals", reader);
        if !matches!(source, Source::Finite(_)) {
            let right = "write source = \"100kB\"";
            reader.report(&arrivals.spot, "connections that arrive at random need an end", right);
            fine = false;
        }
    }
    fine.then(|| FlowGroup {
        direction,
        stations,
        to,
        count: **flow.count,
        start: Instant::ZERO + *flow.start,
        stagger: *flow.stagger,
        stop: flow.stop.as_ref().map(|stop| Instant::ZERO + stop.0),
        transport,
        source,
        arrivals: flow.arrivals.as_ref().map(|at| Arrivals { per_second: at.per_second }),
        ip: *flow.ip,
    })
}

/// Between whom a group's data goes.
struct Ends {
    direction: Direction,
    stations: Vec<u32>,
    to: Option<Receiver>,
}

fn ends_in_cell(file: &File, flow: &At<Flows>, reader: &Reader<'_>) -> Option<Ends> {
    let ends = [&flow.from, &flow.to].into_iter().flatten().map(|at| &at.spot);
    let right = "write station and direction, or [mesh]";
    report_idle(&ends.collect::<Vec<_>>(), "without mesh", right, reader);
    let stations: Vec<u32> = match &flow.station.value {
        Stations::All => (0..**file.radio.stations).collect(),
        Stations::Some(list) => list.clone(),
    };
    let mut fine = true;
    let mut seen = BTreeSet::new();
    for &station in &stations {
        fine &= station_in_range(station, &flow.station.spot, &file.radio.stations, reader);
        if !seen.insert(station) {
            let what = format!("station {station} is named twice");
            reader.report(&flow.station.spot, what, "name it once, and give it more flows with `count`");
            fine = false;
        }
    }
    let Some(direction) = &flow.direction else {
        if !reader.has_reported(&format!("{}.direction", flow.spot.key)) {
            let right = "direction: Which way the data flows";
            reader.report(&flow.spot, "the key `direction` is missing", right);
        }
        return None;
    };
    fine.then_some(Ends { direction: direction.value, stations, to: None })
}

/// Data in a mesh goes from a station "up" to the node that stands where a cell has its correspondent.
fn ends_in_mesh(nodes: u32, flow: &At<Flows>, reader: &Reader<'_>) -> Option<Ends> {
    let mut idle = vec![&flow.station.spot];
    idle.extend(flow.direction.iter().map(|at| &at.spot));
    report_idle(&idle, "in a mesh", "write from and to", reader);
    let (Some(from), Some(to)) = (&flow.from, &flow.to) else {
        if !reader.has_reported_below(&flow.spot.key) {
            let right = "write from = 0 and to = 1, or \"drawn\" for both";
            reader.report(&flow.spot, "a flow in a mesh needs both its ends", right);
        }
        return None;
    };
    let mut fine = true;
    for end in [from, to] {
        if let NodeOrDrawn::Node(node) = end.value
            && node >= nodes
        {
            let what = format!("there is no node {node}: the mesh has {nodes}");
            reader.report(&end.spot, what, format!("write at most {}, or raise mesh.nodes", nodes - 1));
            fine = false;
        }
    }
    let direction = Direction::Uplink;
    match (from.value, to.value) {
        (NodeOrDrawn::Node(from_node), NodeOrDrawn::Node(to_node)) => {
            if from_node == to_node {
                reader.report(&to.spot, "a node does not send to itself", "write another");
                return None;
            }
            fine.then(|| Ends { direction, stations: vec![from_node], to: Some(Receiver::Node(to_node)) })
        }
        (NodeOrDrawn::Drawn, NodeOrDrawn::Drawn) => {
            if let Some(arrivals) = &flow.arrivals {
                let what = "connections that arrive at random go between two nodes that are named";
                reader.report(&arrivals.spot, what, "write from = 0 and to = 1");
                return None;
            }
            Some(Ends { direction, stations: Vec::new(), to: Some(Receiver::Drawn) })
        }
        (NodeOrDrawn::Drawn, NodeOrDrawn::Node(_)) | (NodeOrDrawn::Node(_), NodeOrDrawn::Drawn) => {
            let what = "of the two ends one is drawn and one is not";
            reader.report_between(&[&from.spot, &to.spot], what, "write \"drawn\" for both, or for none");
            None
        }
    }
}

fn transport(file: &File, flow: &At<Flows>, tcp: &TcpConfig, reader: &Reader<'_>) -> Option<Transport> {
    match *flow.transport {
        TransportName::Tcp => {
            let datagram: Vec<&Spot> = flow.datagram.iter().map(|at| &at.spot).collect();
            report_idle(
                &datagram,
                "with transport = \"tcp\"",
                "write tcp.mss, or transport = \"udp\"",
                reader,
            );
            Some(Transport::Tcp)
        }
        TransportName::Udp => {
            let (most, room, right) = largest_datagram(file, *flow.ip, tcp);
            let datagram = asked_datagram(flow, most, &room, right, reader)?;
            Some(Transport::Udp { datagram })
        }
        TransportName::Quic => quic(file, flow, tcp, reader),
    }
}

/// The most payload of a flow's datagrams, of which `most` bytes have room.
fn asked_datagram(flow: &At<Flows>, most: u32, room: &str, right: &str, reader: &Reader<'_>) -> Option<u32> {
    let Some(datagram) = &flow.datagram else { return Some(most) };
    let bytes = datagram.0.0;
    let fitting = u32::try_from(bytes).ok().filter(|bytes| *bytes <= most);
    if fitting.is_none() {
        let what = format!("a datagram of {bytes} bytes does not fit: {room}");
        reader.report(&datagram.spot, what, format!("write at most {most}B{right}"));
    }
    fitting
}

fn quic(file: &File, flow: &At<Flows>, tcp: &TcpConfig, reader: &Reader<'_>) -> Option<Transport> {
    let spot = &flow.transport.spot;
    if file.mesh.is_some() {
        let what = "a mesh runs in the simulator, which has no QUIC";
        reader.report(spot, what, "write transport = \"tcp\" or \"udp\", or remove [mesh]");
        return None;
    }
    let (most, room, right) = largest_datagram(file, *flow.ip, tcp);
    if most < LEAST_QUIC {
        let what = format!("QUIC needs datagrams of {LEAST_QUIC} bytes (RFC 9000), and {most} fit: {room}");
        let right = format!("write transport = \"tcp\"{right}");
        reader.report(spot, what, right);
        return None;
    }
    let datagram = asked_datagram(flow, most, &room, right, reader)?;
    if datagram < LEAST_QUIC
        && let Some(at) = &flow.datagram
    {
        let what = format!("QUIC needs datagrams of {LEAST_QUIC} bytes (RFC 9000 section 14)");
        reader.report(&at.spot, what, format!("write at least {LEAST_QUIC}B"));
        return None;
    }
    Some(Transport::Quic { datagram })
}

/// Most payload of a datagram, why it is no more, and what else than a smaller one would help.
fn largest_datagram(file: &File, ip: IpVersion, tcp: &TcpConfig) -> (u32, String, &'static str) {
    let mss = tcp.mss;
    let packet = largest_packet(tcp);
    let headers = ip_header(ip) + UDP;
    let by_mss = packet.saturating_sub(headers).max(1);
    let room = format!("tcp.mss = {mss} makes packets of {packet} bytes, and {headers} of them are headers");
    let by_mss = (by_mss, room, ", or raise tcp.mss");
    match *file.radio.mac {
        MacName::Shared | MacName::Duplex | MacName::Trace | MacName::Dcf | MacName::Grants(_) => by_mss,
        MacName::Ieee802154 => {
            let mpdu = *file.radio.ieee802154.mpdu;
            let most = mpdu.saturating_sub(ieee802154::AROUND).max(1);
            let around = ieee802154::AROUND;
            let room = format!("of an MPDU of {mpdu} bytes {around} are headers and check sequence");
            if most < by_mss.0 { (most, room, "") } else { by_mss }
        }
    }
}

/// Length of a packet of TCP with a full segment. The scenario's MSS is IPv4's; IPv6's packets are as long.
fn largest_packet(tcp: &TcpConfig) -> u32 {
    u32::from(tcp.mss) + IPV4 + TCP
}

/// Most payload of a segment.
fn largest_segment(ip: IpVersion, tcp: &TcpConfig) -> u32 {
    let options = if tcp.timestamps { TIMESTAMPS } else { 0 };
    largest_packet(tcp).saturating_sub(ip_header(ip) + TCP + options).max(1)
}

const fn ip_header(ip: IpVersion) -> u32 {
    match ip {
        IpVersion::V4 => IPV4,
        IpVersion::V6 => IPV6,
    }
}

fn source(flow: &At<Flows>, transport: Transport, tcp: &TcpConfig, reader: &Reader<'_>) -> Option<Source> {
    let idle = |table: Option<&Spot>, source: &str| {
        let right = format!("write source = \"{source}\", or remove it");
        report_idle(
            &table.into_iter().collect::<Vec<_>>(),
            &format!("without source = \"{source}\""),
            &right,
            reader,
        );
    };
    if !matches!(flow.source.value, SourceValue::Media) {
        idle(flow.media.as_ref().map(|at| &at.spot), "media");
    }
    if !matches!(flow.source.value, SourceValue::Web) {
        idle(flow.web.as_ref().map(|at| &at.spot), "web");
    }
    let unpaced = |what: &str| {
        let right = "write source = { rate = \"1Mbit/s\" } or \"media\", or transport = \"tcp\"";
        reader.report_between(&[&flow.source.spot, &flow.transport.spot], what, right);
        None
    };
    let not_over_quic = |what: &str| {
        let right = "write source = \"bulk\" or an amount such as \"100kB\", or transport = \"tcp\"";
        reader.report_between(&[&flow.source.spot, &flow.transport.spot], what, right);
        None
    };
    match (flow.source.value, transport) {
        (SourceValue::Bulk, Transport::Tcp | Transport::Quic { .. }) => Some(Source::Bulk),
        (SourceValue::Bulk, Transport::Udp { .. }) => {
            unpaced("UDP has no window: a bulk source would send without bound")
        }
        (SourceValue::Finite(bytes), Transport::Tcp | Transport::Quic { .. }) => Some(Source::Finite(bytes)),
        (SourceValue::Finite(_), Transport::Udp { .. }) => {
            unpaced("UDP has no window: an amount needs a rate at which it goes")
        }
        (SourceValue::Paced { .. }, Transport::Quic { .. }) => {
            not_over_quic("a flow of QUIC has no rate of its own: its congestion control finds one")
        }
        (SourceValue::Media | SourceValue::Web, Transport::Quic { .. }) => {
            not_over_quic("media and the web do not run over QUIC here")
        }
        (SourceValue::Paced { rate, chunk }, Transport::Tcp) => {
            let one = u64::from(largest_segment(*flow.ip, tcp));
            Some(Source::Paced { rate, chunk: chunk.unwrap_or(Bytes(one)) })
        }
        (SourceValue::Paced { rate, chunk }, Transport::Udp { datagram }) => {
            Some(Source::Paced { rate, chunk: chunk.unwrap_or(Bytes(u64::from(datagram))) })
        }
        (SourceValue::Media, transport) => {
            let Some(table) = &flow.media else {
                if !reader.has_reported_below(&format!("{}.media", flow.spot.key)) {
                    let right = "write media = { rate = \"1Mbit/s\" }";
                    reader.report(&flow.source.spot, "media needs its rate", right);
                }
                return None;
            };
            media(table, transport, reader).map(Source::Media)
        }
        (SourceValue::Web, Transport::Tcp) => match &flow.web {
            None => Some(Source::Web(Web::default())),
            Some(table) => web(table, reader).map(Source::Web),
        },
        (SourceValue::Web, Transport::Udp { .. }) => {
            let right = "remove transport, or write source = \"media\"";
            reader.report(&flow.transport.spot, "the web runs over TCP", right);
            None
        }
    }
}

fn media(table: &At<file::Media>, transport: Transport, reader: &Reader<'_>) -> Option<Media> {
    let rate = **table.rate;
    let chunk = match (&table.interval, &table.chunk) {
        (Some(interval), Some(chunk)) => {
            let what = "a frame's size follows from its time, and its time from its size";
            reader.report_between(&[&chunk.spot, &interval.spot], what, "remove chunk, or interval");
            return None;
        }
        (_, Some(chunk)) => chunk.0,
        (interval, None) => rate.bytes_in(interval.as_ref().map_or(FRAME, |interval| interval.0)),
    };
    if chunk.0 == 0 {
        let spot = table.interval.as_ref().map_or(&table.rate.spot, |interval| &interval.spot);
        reader.report(spot, format!("a frame has no byte at {rate}"), "write a longer interval");
        return None;
    }
    let ahead = match *table.send_ahead {
        Ahead::Time(time) => time,
        Ahead::Bytes(bytes) => rate.time_for(bytes),
    };
    let ahead_rate = table.ahead_rate.as_ref().map(|at| at.0);
    match (&table.ahead_rate, transport) {
        (Some(at), _) if ahead.is_zero() => {
            let right = "write send_ahead, or remove it";
            reader.report(&at.spot, "does nothing for a live server", right);
        }
        (Some(at), _) if at.0 <= rate => {
            let what = format!("at {} a server never gets ahead of media of {rate}", at.0);
            reader.report_between(&[&at.spot, &table.rate.spot], what, "write a higher one");
            return None;
        }
        (None, Transport::Udp { .. }) if !ahead.is_zero() => {
            let right = format!("write ahead_rate, for example \"{}bit/s\"", rate.as_bps().saturating_mul(2));
            reader.report(&table.send_ahead.spot, "UDP needs the rate at which the server gets ahead", right);
            return None;
        }
        (Some(_) | None, _) => {}
    }
    let startup = *table.startup;
    Some(Media {
        rate,
        chunk,
        // At which the chunk has just the content's rate.
        interval: rate.time_for(chunk),
        ahead,
        ahead_rate,
        startup,
        resume: table.resume.as_ref().map_or(startup, |at| at.value),
    })
}

fn web(table: &At<file::Web>, reader: &Reader<'_>) -> Option<Web> {
    let default = Web::default();
    let main_object = sizes(table.main_object.as_ref(), default.main_object, reader);
    let embedded_object = sizes(table.embedded_object.as_ref(), default.embedded_object, reader);
    let embedded_objects = match &table.embedded_objects {
        None => default.embedded_objects,
        Some(law) => ObjectCounts { shape: law.shape.0, scale: law.scale.0, most: *law.most },
    };
    Some(Web {
        connection: *table.connection,
        request: **table.request,
        main_object: main_object?,
        embedded_object: embedded_object?,
        embedded_objects,
        parsing_time: *table.parsing_time,
        reading_time: *table.reading_time,
    })
}

fn sizes(
    table: Option<&At<file::ObjectSizes>>,
    default: ObjectSizes,
    reader: &Reader<'_>,
) -> Option<ObjectSizes> {
    let Some(table) = table else { return Some(default) };
    let (median, min, max) = (**table.median, **table.min, **table.max);
    if !(min..=max).contains(&median) {
        let what = format!("a median of {median} is not between {min} and {max}");
        reader.report_between(
            &[&table.median.spot, &table.min.spot, &table.max.spot],
            what,
            "write min below and max above it",
        );
        return None;
    }
    Some(ObjectSizes { median, sigma: table.sigma.0, min, max })
}
