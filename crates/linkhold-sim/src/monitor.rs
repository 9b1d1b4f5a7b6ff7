//! What a monitor beside radios of IEEE 802.11 records: each transmission as the bytes of its frame.
//!
//! The monitor hears every radio without error. The formats are those of [`linkhold_wire::ieee80211`].
//!
//! - A packet is written as it is when its frame is first told. A repetition repeats those bytes, whatever
//!   became of the packet since then. IP's time to live stays what the sender wrote, over all hops of a mesh.
//! - Messages of AODV are those of RFC 3561, from the node that sends them. They go to the next hop, or to
//!   everybody.
//! - Messages of SEARCH have no format that we know of (see `linkhold_mesh::routing::search`). They are
//!   datagrams of their length to port [`SEARCH_PORT`]. The payload names the kind of message, and is zeros
//!   behind the name.
//! - A beacon of a node with a home channel is a datagram to port [`BEACON_PORT`]: the set of free channels,
//!   8 bytes. What each data frame of such a node carries besides (its home channel and next silence) is in
//!   its time on the air and not in its bytes here.

use std::net::{Ipv4Addr, SocketAddrV4};

use linkhold_core::packet::FlowKey;
use linkhold_mesh::routing::Message;
use linkhold_mesh::routing::message::HEADERS;
use linkhold_mesh::routing::search::message::SearchMessage;
use linkhold_radio::dcf::Phy;
use linkhold_radio::{DcfFrame, DcfKind, RadioId};
use linkhold_wire::ieee80211::{Band, Carried, Frame, Reception, frame, msdu};
use linkhold_wire::{EmitError, UdpSpec, aodv};

use crate::network::Sent;
use crate::on_wire;
use crate::plan::node_address;
use crate::slab::PacketKind;

/// The port of SEARCH's messages: the first that nobody can be assigned (RFC 6335's dynamic ports).
pub const SEARCH_PORT: u16 = 49_152;

/// The port of beacons of nodes with a channel each: the next one.
pub const BEACON_PORT: u16 = SEARCH_PORT + 1;

/// The most that is kept of a frame, bytes. Its headers are 158 at most: radiotap 22, MAC header 24, LLC and
/// SNAP 8, IPv6 40, TCP 60, FCS 4. Frames with a little payload, and all messages of AODV, are kept whole.
pub(crate) const SNAP_LEN: u32 = 256;

/// How radios' numbers become those of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// The base station is 0, and station k is k + 1.
    Cell,
    /// Node k is k.
    Mesh,
}

/// The last data frame of a radio.
#[derive(Debug, Default)]
struct Last {
    sequence: Option<u16>,
    msdu: Vec<u8>,
}

/// Writes transmissions as the bytes of frames.
#[derive(Debug)]
pub(crate) struct Monitor {
    phy: Phy,
    numbers: Numbers,
    /// By radio.
    last: Vec<Last>,
    /// The frame that was written last.
    frame: Vec<u8>,
    /// Scratch.
    payload: Vec<u8>,
}

impl Monitor {
    pub(crate) const fn new(phy: Phy, numbers: Numbers) -> Self {
        Self { phy, numbers, last: Vec::new(), frame: Vec::new(), payload: Vec::new() }
    }

    /// The bytes of a transmission.
    ///
    /// # Errors
    /// [`EmitError`] if its packet has no form on the wire.
    pub(crate) fn record(
        &mut self,
        sent: &Sent,
        dcf: &DcfFrame,
        flow: Option<&FlowKey>,
    ) -> Result<&[u8], EmitError> {
        if dcf.kind == DcfKind::Data {
            self.keep(sent, dcf, flow)?;
        }
        let transmission = &sent.transmission;
        let from = self.number(transmission.from);
        let to = transmission.to.map(|to| self.number(to));
        let receiver = to.unwrap_or_default();
        let of = match dcf.kind {
            DcfKind::Rts => Frame::Rts { to: receiver, from },
            DcfKind::Cts => Frame::Cts { to: receiver },
            DcfKind::Ack => Frame::Ack { to: receiver },
            DcfKind::Data => {
                let last = self.last.get(transmission.from.0 as usize);
                let msdu = last.map_or(&[][..], |last| &last.msdu);
                Frame::Data { to, from, sequence: dcf.sequence, retry: dcf.retry, msdu }
            }
        };
        let reception = Reception {
            first_bit: transmission.since + self.phy.head(),
            rate: dcf.rate,
            band: match self.phy {
                Phy::Ieee80211b => Band::Dsss,
                Phy::Ieee80211a => Band::Ofdm,
            },
            channel: dcf.channel,
            whole: !dcf.cut,
        };
        self.frame.clear();
        frame(&reception, &of, dcf.reserved, &mut self.frame);
        Ok(&self.frame)
    }

    /// Makes the sender's `last` what this data frame carries.
    fn keep(&mut self, sent: &Sent, dcf: &DcfFrame, flow: Option<&FlowKey>) -> Result<(), EmitError> {
        let radio = sent.transmission.from;
        let node = self.number(radio);
        let index = radio.0 as usize;
        if self.last.len() <= index {
            self.last.resize_with(index + 1, Last::default);
        }
        let Some(last) = self.last.get_mut(index) else { return Ok(()) };
        if dcf.retry && last.sequence == Some(dcf.sequence) {
            return Ok(());
        }
        last.sequence = Some(dcf.sequence);
        last.msdu.clear();
        match (&sent.packet, flow, &sent.message) {
            (Some(packet), Some(flow), _) => match packet.kind {
                PacketKind::Segment | PacketKind::Report => {
                    msdu(Carried::Segment(&on_wire::segment(flow, packet)), &mut last.msdu)
                }
                PacketKind::Datagram => {
                    msdu(Carried::Datagram(&on_wire::datagram(flow, packet)), &mut last.msdu)
                }
            },
            (_, _, Some(message)) => {
                let port = write(message, &mut self.payload);
                let to = sent.transmission.to.and_then(RadioId::station);
                let to = to.map_or(Ipv4Addr::BROADCAST, |next| node_address(next.0));
                let udp = UdpSpec {
                    src: SocketAddrV4::new(node_address(node), port),
                    dst: SocketAddrV4::new(to, port),
                    ttl: message.ttl(),
                    payload: &self.payload,
                };
                msdu(Carried::Udp(&udp), &mut last.msdu)
            }
            // The packet has left the network, and the frame is not the one that this radio sent last:
            // nothing is known of what it carries.
            (_, _, None) => Ok(()),
        }
    }

    const fn number(&self, radio: RadioId) -> u32 {
        match self.numbers {
            Numbers::Cell => radio.0,
            Numbers::Mesh => radio.0.saturating_sub(1),
        }
    }
}

/// Writes a message of a routing protocol; returns its port.
fn write(message: &Message, into: &mut Vec<u8>) -> u16 {
    into.clear();
    match message {
        Message::Request(request) => {
            let request = aodv::RouteRequest {
                hops: request.hops,
                id: request.id,
                destination: node_address(request.destination.0),
                destination_seq: request.destination_seq.map(|seq| seq.0),
                originator: node_address(request.originator.0),
                originator_seq: request.originator_seq.0,
                gratuitous: request.gratuitous,
                destination_only: request.destination_only,
            };
            request.emit(into);
            aodv::PORT
        }
        Message::Reply(reply) => {
            let reply = aodv::RouteReply {
                hops: reply.hops,
                destination: node_address(reply.destination.0),
                destination_seq: reply.destination_seq.0,
                originator: node_address(reply.originator.0),
                lifetime: reply.lifetime,
            };
            reply.emit(into);
            aodv::PORT
        }
        Message::Error(error) => {
            let gone = error.unreachable().iter().map(|one| (node_address(one.destination.0), one.seq.0));
            aodv::route_error(error.no_delete, gone, into);
            aodv::PORT
        }
        Message::Search(search) => {
            let name: &[u8] = match search {
                SearchMessage::Request(_) => b"SEARCH request",
                SearchMessage::Reply(_) => b"SEARCH reply",
                SearchMessage::Error(_) => b"SEARCH error",
            };
            into.extend_from_slice(name);
            into.resize(message.len().saturating_sub(HEADERS) as usize, 0);
            SEARCH_PORT
        }
        Message::Beacon(beacon) => {
            into.extend_from_slice(&beacon.free_channels.to_be_bytes());
            BEACON_PORT
        }
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::PacketId;
    use linkhold_core::time::{Duration, Instant};
    use linkhold_core::units::BitRate;
    use linkhold_mesh::Node;
    use linkhold_mesh::routing::SeqNo;
    use linkhold_mesh::routing::message::{Beacon, RouteError, RouteReply, RouteRequest, Unreachable};
    use linkhold_mesh::routing::search::message::SearchError;
    use linkhold_radio::{MacFrame, Transmission};

    use super::*;

    fn dcf(retry: bool, sequence: u16) -> DcfFrame {
        let rate = BitRate::from_mbps(1);
        DcfFrame {
            kind: DcfKind::Data,
            retry,
            cut: false,
            sequence,
            channel: 0,
            rate,
            reserved: Duration::ZERO,
        }
    }

    fn sent(dcf: DcfFrame, packet: Option<PacketId>, message: Option<Message>) -> Sent {
        let transmission = Transmission {
            since: Instant::from_millis(5),
            from: RadioId(3),
            to: None,
            packet,
            received: true,
            mac: MacFrame::Dcf(dcf),
        };
        Sent { at: Instant::from_millis(6), transmission, packet: None, message }
    }

    fn messages() -> [Message; 5] {
        let request = RouteRequest {
            ttl: 5,
            hops: 1,
            id: 9,
            destination: Node(1),
            destination_seq: None,
            originator: Node(0),
            originator_seq: SeqNo(4),
            gratuitous: true,
            destination_only: false,
        };
        let reply = RouteReply {
            ttl: 1,
            hops: 0,
            destination: Node(1),
            destination_seq: SeqNo(3),
            originator: Node(0),
            lifetime: Duration::from_secs(3),
        };
        let mut error = RouteError::new();
        assert!(error.push(Unreachable { destination: Node(1), seq: SeqNo(8) }));
        let search = SearchError { source: Node(0), destination: Node(1), id: None };
        [
            Message::Request(request),
            Message::Reply(reply),
            Message::Error(error),
            Message::Search(SearchMessage::Error(search)),
            Message::Beacon(Beacon { free_channels: 0b101 }),
        ]
    }

    #[test]
    fn a_message_is_as_long_as_the_mesh_says() {
        let mut bytes = Vec::new();
        for message in messages() {
            write(&message, &mut bytes);
            assert_eq!(bytes.len() as u32 + HEADERS, message.len(), "{message:?}");
        }
    }

    #[test]
    fn a_repetition_repeats_the_bytes_and_only_the_retry_bit_differs() {
        let mut monitor = Monitor::new(Phy::Ieee80211b, Numbers::Mesh);
        let [request, ..] = messages();
        let record = |monitor: &mut Monitor, dcf: DcfFrame, message: Option<&Message>| {
            let sent = sent(dcf, None, message.cloned());
            monitor.record(&sent, &dcf, None).expect("it fits").to_vec()
        };
        let first = record(&mut monitor, dcf(false, 7), Some(&request));
        // The first bit of the MAC header follows the preamble and header of 192 us.
        assert_eq!(first[8..16], 5192_u64.to_le_bytes());
        assert_eq!((first[32 + 5], first[32 + 4]), (2, 0), "node 2 sends, which is radio 3");
        let mut again = record(&mut monitor, dcf(true, 7), None);
        assert_eq!((first[23], again[23]), (0, 8));
        again[23] = 0;
        let end = first.len() - 4;
        assert_eq!((first.len(), &first[..end]), (again.len(), &again[..end]));
        let other = record(&mut monitor, dcf(true, 8), None);
        assert_eq!((other[22], other.len()), (0x48, 22 + 24 + 4), "nothing is known of what it carries");
    }
}
