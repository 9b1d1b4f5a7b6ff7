//! The testbed's ends of the network: TUN ports into the hosts' kernels.
//!
//! A packet that leaves the simulator's [`Network`] here enters a kernel: at the correspondents, at a
//! station, or in the base station, whose kernel forwards it from the wire to the air and back, through the
//! agent if one runs. A mechanism that only watches stands in the network, in a station's radio. The network
//! keeps a packet's header and where it stands; its bytes lie here, beside the network's record.

use std::io;

use linkhold_core::action::Rewrite;
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::packet::{Direction, Ecn, FlowKey, PacketId};
use linkhold_core::time::Instant;
use linkhold_results::DelayHistogram;
use linkhold_sim::Hosts;
use linkhold_sim::cell::AIR;
use linkhold_sim::flow::FlowIndex;
use linkhold_sim::network::Network;
use linkhold_sim::path::{HopIndex, NodeId, Route};
use linkhold_sim::slab::{Packet, PacketKind, Sending, SendingDatagram};
use linkhold_wire::{ParsedPacket, TcpChecksum, apply_rewrite, parse_ip_tcp};

use super::clock::instant;
use super::crossed::Crossed;
use super::datagrams::Numbered;
use super::flowlog::FlowLog;
use super::packets::Packets;
use super::topology::{Tuns, station_of};
use super::tun::Tun;

/// Most packets inside the network at once (192 MB of buffers).
const MAX_PACKETS: usize = 1 << 17;
/// Most connections that a run may open.
const MAX_FLOWS: usize = 1 << 16;

/// Hears what the radio reports, at once: the way to the daemons.
pub trait LinkSink: Send {
    /// The radio reports.
    fn link_event(&mut self, event: &LinkEvent);
}

/// Where captured packets go, by the place they were seen.
pub trait Capture: Send {
    /// A packet left or reached a host on the given side.
    fn packet(&mut self, now: Instant, side: Side, bytes: &[u8]);
}

/// A side of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the correspondent hosts.
    Correspondent,
    /// At a station.
    Station(u32),
}

/// A port that packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The correspondents' side of the wire.
    Far,
    /// The base station's side of the wire.
    BsWire,
    /// The base station's side of the air.
    BsRadio,
    /// A station.
    Station(u32),
}

impl Port {
    const fn direction(self) -> Direction {
        match self {
            Self::Far | Self::BsRadio => Direction::Downlink,
            Self::BsWire | Self::Station(_) => Direction::Uplink,
        }
    }

    /// The side whose hosts send through this port; `None` for the base station, which only forwards.
    const fn side(self) -> Option<Side> {
        match self {
            Self::Far => Some(Side::Correspondent),
            Self::Station(station) => Some(Side::Station(station)),
            Self::BsWire | Self::BsRadio => None,
        }
    }
}

/// How late and how lossy the testbed itself was.
#[derive(Default)]
pub struct Faults {
    /// How late edges of silences were handled.
    pub edge_lateness: DelayHistogram,
    /// How late everything else was handled: arrivals over the wire, frames over the air.
    pub event_lateness: DelayHistogram,
    /// Packets no buffer was left for, or that a port could not take.
    pub overruns: u64,
    /// The first error of a port.
    pub error: Option<io::Error>,
}

/// The ports, and what is measured at them.
pub struct Ports {
    /// The devices.
    pub tuns: Tuns,
    /// Flow accounting.
    pub log: FlowLog,
    /// How late and how lossy the testbed was.
    pub faults: Faults,
    /// The route over the wire, the same for all flows.
    wire: Route,
    packets: Packets,
    sink: Box<dyn LinkSink>,
    capture: Option<Box<dyn Capture>>,
    began: std::time::Instant,
}

impl Ports {
    /// Ports whose time 0 is `began`.
    #[must_use]
    pub fn new(
        tuns: Tuns,
        wire: Route,
        log: FlowLog,
        sink: Box<dyn LinkSink>,
        capture: Option<Box<dyn Capture>>,
        began: std::time::Instant,
    ) -> Self {
        Self { tuns, log, faults: Faults::default(), wire, packets: Packets::default(), sink, capture, began }
    }

    /// The time on the real clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        instant(self.began.elapsed())
    }

    /// The device of a port, if there is such a station.
    #[must_use]
    pub fn tun(&self, port: Port) -> Option<&Tun> {
        match port {
            Port::Far => Some(&self.tuns.far),
            Port::BsWire => Some(&self.tuns.bs_wire),
            Port::BsRadio => Some(&self.tuns.bs_radio),
            Port::Station(station) => self.tuns.stations.get(station as usize),
        }
    }

    /// Lets a packet that came from `port` by `now` into the network, which has done what was due before.
    pub fn accept(&mut self, now: Instant, port: Port, bytes: &[u8], network: &mut Network) {
        // Only TCP and the run's own flows over UDP cross: neighbour discovery and the like have no business
        // on a point-to-point radio.
        let id = match parse_ip_tcp(bytes) {
            Ok(parsed) => self.accept_segment(now, port, bytes, &parsed, network),
            Err(_) => match self.log.numbered(bytes, port.direction(), port.side().is_some()) {
                Some(datagram) => self.accept_datagram(now, port, bytes, &datagram, network),
                None => return,
            },
        };
        let Some(id) = id else { return };
        // A packet refused at once has left its slot; the next one overwrites what is kept there now.
        if !self.packets.keep(id, bytes) {
            self.faults.overruns += 1;
        }
    }

    fn accept_segment(
        &mut self,
        now: Instant,
        port: Port,
        bytes: &[u8],
        parsed: &ParsedPacket,
        network: &mut Network,
    ) -> Option<PacketId> {
        let direction = port.direction();
        if let Some(side) = port.side() {
            self.log.on_sent(now, parsed, direction);
            self.capture(now, side, bytes);
        }
        if port == Port::BsRadio {
            self.log.on_base_station_out(now, parsed);
        }
        let flow = self.flow(parsed.flow(direction), network)?;
        let sending = Sending { flow, direction, segment: parsed.tcp, ecn: parsed.ecn, retransmit: false };
        Some(network.send_from(now, self.entry(port, flow, network), &sending))
    }

    fn accept_datagram(
        &mut self,
        now: Instant,
        port: Port,
        bytes: &[u8],
        datagram: &Numbered,
        network: &mut Network,
    ) -> Option<PacketId> {
        let direction = port.direction();
        let key = datagram.packet.flow(direction);
        if let Some(side) = port.side() {
            self.log.on_datagram_sent(now, datagram, direction, network.radio(AIR).silences());
            self.capture(now, side, bytes);
        } else {
            self.log.on_datagram_base_station_out(datagram, direction);
        }
        let flow = self.flow(key, network)?;
        let Numbered { number, payload_len, .. } = *datagram;
        let sending = SendingDatagram { flow, direction, number, payload_len };
        Some(network.send_datagram_from(now, self.entry(port, flow, network), &sending))
    }

    /// Where a flow's packets from `port` enter the network.
    fn entry(&self, port: Port, flow: FlowIndex, network: &Network) -> HopIndex {
        match port {
            Port::Far => self.wire.down,
            Port::BsWire => self.wire.up,
            Port::BsRadio | Port::Station(_) => network.flow(flow).entry(port.direction()),
        }
    }

    fn capture(&mut self, now: Instant, side: Side, bytes: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.packet(now, side, bytes);
        }
    }

    /// The flow of a packet, made if need be; `None` if it is no station's, or there are too many flows or
    /// packets.
    fn flow(&mut self, key: FlowKey, network: &mut Network) -> Option<FlowIndex> {
        if network.packets_inside() >= MAX_PACKETS {
            self.faults.overruns += 1;
            return None;
        }
        if let Some(flow) = network.flow_of(&key) {
            return Some(flow);
        }
        let station =
            station_of(key.station.addr).filter(|&station| (station as usize) < self.tuns.stations.len())?;
        if network.flow_count() >= MAX_FLOWS {
            self.faults.overruns += 1;
            return None;
        }
        Some(network.add_flow(key, linkhold_core::packet::StationId(station)))
    }
}

impl Hosts for Ports {
    fn on_arrival(&mut self, due: Instant, id: PacketId, packet: Packet, network: &mut Network) {
        let now = self.now();
        self.faults.event_lateness.record(now.since(due));
        let bytes = self.packets.bytes_mut(id);
        if packet.ecn == Ecn::Ce {
            let marked = Rewrite { mark_ce: true, ..Rewrite::NONE };
            // The packet is marked only if its IP header said that it could be.
            let _ = apply_rewrite(bytes, marked, TcpChecksum::Complete);
        }
        let bytes = &*bytes;
        let (port, side) = match (network.node(packet.hop), packet.direction) {
            (NodeId::BaseStation, Direction::Downlink) => (Some(&self.tuns.bs_wire), None),
            (NodeId::BaseStation, Direction::Uplink) => (Some(&self.tuns.bs_radio), None),
            (NodeId::Correspondent, _) => (Some(&self.tuns.far), Some(Side::Correspondent)),
            (NodeId::Station(station), _) => {
                (self.tuns.stations.get(station.0 as usize), Some(Side::Station(station.0)))
            }
        };
        let silences = network.radio(AIR).silences();
        let crossed = Crossed { at: packet.left_air, met_silence: packet.met_silence };
        match packet.kind {
            PacketKind::Segment => {
                if let Ok(parsed) = parse_ip_tcp(bytes) {
                    match side {
                        Some(_) => self.log.on_received(now, &parsed, packet.direction, silences),
                        None if packet.direction == Direction::Downlink => {
                            self.log.on_base_station_in(now, &parsed);
                        }
                        None => self.log.on_crossed(&parsed, crossed),
                    }
                }
            }
            PacketKind::Datagram => match (self.log.numbered(bytes, packet.direction, false), side) {
                (Some(datagram), Some(_)) => {
                    self.log.on_datagram_received(now, &datagram, packet.direction, silences);
                }
                (Some(datagram), None) => {
                    let crossed = Some(crossed).filter(|_| packet.direction == Direction::Uplink);
                    self.log.on_datagram_base_station_in(&datagram, packet.direction, crossed);
                }
                (None, _) => {}
            },
            PacketKind::Report => {}
        }
        if let (Some(side), Some(capture)) = (side, &mut self.capture) {
            capture.packet(now, side, bytes);
        }
        if let Some(port) = port {
            write(port, bytes, &mut self.faults);
        }
    }

    fn on_wake(&mut self, _at: Instant, _token: u32, _network: &mut Network) -> bool {
        false
    }

    fn on_link(&mut self, event: &LinkEvent, _network: &mut Network) {
        match event.kind {
            LinkEventKind::FreezeStarted { .. } | LinkEventKind::FreezeEnded { .. } => {
                self.faults.edge_lateness.record(self.now().since(event.detected_at));
            }
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::TransmitRoom { .. }
            | LinkEventKind::StationLeft { .. } => {}
        }
        self.sink.link_event(event);
    }
}

/// A port without room is the kernel's drop, not the radio's. What is written goes straight up the kernel's
/// stack.
fn write(port: &Tun, bytes: &[u8], faults: &mut Faults) {
    match port.write(bytes) {
        Ok(true) => {}
        Ok(false) => faults.overruns += 1,
        Err(error) => {
            faults.error.get_or_insert(error);
        }
    }
}
