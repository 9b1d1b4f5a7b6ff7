//! Writes a TCP segment as bytes: IPv4 (RFC 791) or IPv6 (RFC 8200) and TCP (RFC 9293) with correct
//! checksums; and UDP datagrams (RFC 768), whole or their headers.
//!
//! Options are packed so that the header is exactly [`TcpSegment::header_len`] bytes: NOPs first, then MSS,
//! window scale, SACK-permitted, timestamps, SACK. A signature (TCP-MD5, TCP-AO) is not written, for nobody
//! but the connection's ends can make one.

use core::net::{IpAddr, SocketAddrV4};

use linkhold_core::action::AckSpec;
use linkhold_core::packet::{Direction, Ecn, Endpoint, SynOptions, TcpFlags, TcpSegment};
use smoltcp::wire::{
    IPV4_HEADER_LEN, IPV6_HEADER_LEN, IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, TcpSeqNumber,
    UDP_HEADER_LEN, UdpPacket, checksum,
};

use crate::parse::{FLAGS_OFFSET, ecn_to_bits};

/// Time to live or hop limit of emitted packets (the value Linux uses).
const HOP_LIMIT: u8 = 64;

/// Longest headers that [`emit`] writes: IPv6 and TCP with 40 bytes of options.
pub const MAX_HEADER_LEN: usize = IPV6_HEADER_LEN + 60;

/// A packet to write, except its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSpec {
    /// Sender; its address family decides the IP version.
    pub src: Endpoint,
    /// Receiver, of the same family.
    pub dst: Endpoint,
    /// TCP header.
    pub tcp: TcpSegment,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}

/// A datagram of UDP to write. Its payload is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramSpec {
    /// Sender; its address family decides the IP version.
    pub src: Endpoint,
    /// Receiver, of the same family.
    pub dst: Endpoint,
    /// Bytes of payload.
    pub payload_len: u32,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}

/// A datagram of UDP over IPv4 with its payload, such as a message of a routing protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSpec<'a> {
    /// Sender.
    pub src: SocketAddrV4,
    /// Receiver.
    pub dst: SocketAddrV4,
    /// IP's time to live.
    pub ttl: u8,
    /// Payload.
    pub payload: &'a [u8],
}

/// What follows the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// `payload_len` zero bytes, which are written.
    Zeros,
    /// `payload_len` zero bytes, which count in lengths and checksum but are not written: for captures.
    Omitted,
    /// These bytes, of which there have to be `payload_len`.
    Bytes(&'a [u8]),
}

/// Why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// One end is IPv4, the other IPv6.
    #[error("the two ends are of different IP versions")]
    MixedFamilies,
    /// The options take more than the 40 bytes that a TCP header has for them.
    #[error("the options take more than 40 bytes")]
    TooManyOptions,
    /// The packet is longer than the IP length field can say.
    #[error("the packet is longer than 65535 bytes")]
    TooLong,
    /// The caller's buffer is shorter than the packet.
    #[error("the buffer is shorter than the packet's {0} bytes")]
    BufferTooSmall(usize),
    /// `Payload::Bytes` is not as long as `payload_len` says.
    #[error("the payload's length differs from payload_len")]
    PayloadLength,
}

/// Length of the packet on the wire, from the IP header on, bytes.
#[must_use]
pub fn packet_len(spec: &PacketSpec) -> usize {
    ip_header_len(spec.src.addr) + spec.tcp.header_len() as usize + spec.tcp.payload_len as usize
}

const fn ip_header_len(addr: IpAddr) -> usize {
    match addr {
        IpAddr::V4(_) => IPV4_HEADER_LEN,
        IpAddr::V6(_) => IPV6_HEADER_LEN,
    }
}

/// Writes the packet at the start of `buffer`; returns the number of bytes written.
///
/// # Errors
/// See [`EmitError`]; `buffer` may then hold part of the packet.
pub fn emit(spec: &PacketSpec, payload: Payload<'_>, buffer: &mut [u8]) -> Result<usize, EmitError> {
    let tcp_header_len = spec.tcp.header_len() as usize;
    if tcp_header_len > 60 {
        return Err(EmitError::TooManyOptions);
    }
    let ip_header_len = ip_header_len(spec.src.addr);
    let header_len = ip_header_len + tcp_header_len;
    let total = packet_len(spec);
    let ip_field = match spec.src.addr {
        IpAddr::V4(_) => total,
        IpAddr::V6(_) => total - IPV6_HEADER_LEN,
    };
    let ip_field = u16::try_from(ip_field).map_err(|_| EmitError::TooLong)?;
    let written = match payload {
        Payload::Omitted => header_len,
        Payload::Zeros | Payload::Bytes(_) => total,
    };
    let Some(out) = buffer.get_mut(..written) else { return Err(EmitError::BufferTooSmall(written)) };
    let (headers, body) = out.split_at_mut(header_len);
    match payload {
        Payload::Bytes(bytes) if bytes.len() != spec.tcp.payload_len as usize => {
            return Err(EmitError::PayloadLength);
        }
        Payload::Bytes(bytes) => body.copy_from_slice(bytes),
        Payload::Zeros | Payload::Omitted => body.fill(0),
    }
    headers.fill(0);
    let (ip, tcp) = headers.split_at_mut(ip_header_len);
    write_ip(
        &IpSpec {
            src: spec.src.addr,
            dst: spec.dst.addr,
            ecn: spec.ecn,
            protocol: IpProtocol::Tcp,
            hop_limit: HOP_LIMIT,
        },
        ip_field,
        ip,
    )?;
    write_tcp(spec, body, tcp);
    Ok(written)
}

/// Length of a datagram on the wire, from the IP header on, bytes.
#[must_use]
pub fn datagram_len(spec: &DatagramSpec) -> usize {
    ip_header_len(spec.src.addr) + UDP_HEADER_LEN + spec.payload_len as usize
}

/// Writes the headers of a datagram at the start of `buffer`, for captures: its payload counts in lengths and
/// checksum, as zeros. Returns the number of bytes written.
///
/// # Errors
/// See [`EmitError`]; `buffer` may then hold part of the headers.
pub fn emit_datagram(spec: &DatagramSpec, buffer: &mut [u8]) -> Result<usize, EmitError> {
    let ip_header_len = ip_header_len(spec.src.addr);
    let written = ip_header_len + UDP_HEADER_LEN;
    let too_long = |_| EmitError::TooLong;
    let udp_field = u16::try_from(UDP_HEADER_LEN + spec.payload_len as usize).map_err(too_long)?;
    let ip_field = match spec.src.addr {
        IpAddr::V4(_) => u16::try_from(datagram_len(spec)).map_err(too_long)?,
        IpAddr::V6(_) => udp_field,
    };
    let Some(out) = buffer.get_mut(..written) else { return Err(EmitError::BufferTooSmall(written)) };
    out.fill(0);
    let (ip, header) = out.split_at_mut(ip_header_len);
    let DatagramSpec { src, dst, ecn, .. } = *spec;
    let (from, to) = (src.addr, dst.addr);
    let protocol = IpProtocol::Udp;
    write_ip(&IpSpec { src: from, dst: to, ecn, protocol, hop_limit: HOP_LIMIT }, ip_field, ip)?;
    write_udp(src, dst, udp_field, &[], header);
    Ok(written)
}

/// Appends a datagram with its payload to `into`.
///
/// # Errors
/// [`EmitError::TooLong`]; nothing is appended then.
pub fn emit_udp(spec: &UdpSpec<'_>, into: &mut Vec<u8>) -> Result<(), EmitError> {
    let too_long = |_| EmitError::TooLong;
    let udp_field = u16::try_from(UDP_HEADER_LEN + spec.payload.len()).map_err(too_long)?;
    let ip_field = u16::try_from(IPV4_HEADER_LEN + usize::from(udp_field)).map_err(too_long)?;
    let mut headers = [0_u8; IPV4_HEADER_LEN + UDP_HEADER_LEN];
    let (ip, udp) = headers.split_at_mut(IPV4_HEADER_LEN);
    let end = |of: SocketAddrV4| Endpoint { addr: IpAddr::V4(*of.ip()), port: of.port() };
    let (src, dst) = (end(spec.src), end(spec.dst));
    let (from, to) = (src.addr, dst.addr);
    let (ecn, protocol, hop_limit) = (Ecn::NotEct, IpProtocol::Udp, spec.ttl);
    write_ip(&IpSpec { src: from, dst: to, ecn, protocol, hop_limit }, ip_field, ip)?;
    write_udp(src, dst, udp_field, spec.payload, udp);
    into.extend_from_slice(&headers);
    into.extend_from_slice(spec.payload);
    Ok(())
}

/// Writes a UDP header. `body` is the payload as written; an omitted one is all zeros.
fn write_udp(src: Endpoint, dst: Endpoint, length: u16, body: &[u8], header: &mut [u8]) {
    let mut udp = UdpPacket::new_unchecked(&mut *header);
    udp.set_src_port(src.port);
    udp.set_dst_port(dst.port);
    udp.set_len(length);
    let (from, to) = (IpAddress::from(src.addr), IpAddress::from(dst.addr));
    let sum = checksum::combine(&[
        checksum::pseudo_header(&from, &to, IpProtocol::Udp, u32::from(length)),
        checksum::data(udp.into_inner()),
        checksum::data(body),
    ]);
    // RFC 768: a checksum that comes out as zero is written as all ones.
    let field = if sum == u16::MAX { u16::MAX } else { !sum };
    UdpPacket::new_unchecked(header).set_checksum(field);
}

/// What an IP header says, but for the length.
struct IpSpec {
    src: IpAddr,
    dst: IpAddr,
    ecn: Ecn,
    protocol: IpProtocol,
    hop_limit: u8,
}

fn write_ip(spec: &IpSpec, length: u16, buffer: &mut [u8]) -> Result<(), EmitError> {
    match (spec.src, spec.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip = Ipv4Packet::new_unchecked(buffer);
            ip.set_version(4);
            ip.set_header_len(IPV4_HEADER_LEN as u8);
            ip.set_ecn(ecn_to_bits(spec.ecn));
            ip.set_total_len(length);
            ip.set_dont_frag(true);
            ip.set_hop_limit(spec.hop_limit);
            ip.set_next_header(spec.protocol);
            ip.set_src_addr(src);
            ip.set_dst_addr(dst);
            ip.fill_checksum();
            Ok(())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut ip = Ipv6Packet::new_unchecked(buffer);
            ip.set_version(6);
            ip.set_traffic_class(ecn_to_bits(spec.ecn));
            ip.set_payload_len(length);
            ip.set_next_header(spec.protocol);
            ip.set_hop_limit(spec.hop_limit);
            ip.set_src_addr(src);
            ip.set_dst_addr(dst);
            Ok(())
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => Err(EmitError::MixedFamilies),
    }
}

/// Writes the TCP header. `body` is the payload as written; an omitted one is all zeros, so the checksum is
/// the same without it.
fn write_tcp(spec: &PacketSpec, body: &[u8], buffer: &mut [u8]) {
    let length = buffer.len() as u32 + spec.tcp.payload_len;
    if let Some(flags) = buffer.get_mut(FLAGS_OFFSET) {
        *flags = spec.tcp.flags.0;
    }
    let mut tcp = TcpPacket::new_unchecked(&mut *buffer);
    tcp.set_src_port(spec.src.port);
    tcp.set_dst_port(spec.dst.port);
    tcp.set_seq_number(TcpSeqNumber(spec.tcp.seq.0 as i32));
    tcp.set_ack_number(TcpSeqNumber(spec.tcp.ack.0 as i32));
    tcp.set_header_len(spec.tcp.header_len() as u8);
    tcp.set_window_len(spec.tcp.window);
    write_options(&spec.tcp, tcp.options_mut());
    let sum = checksum::combine(&[
        pseudo_header(spec.src.addr, spec.dst.addr, length),
        checksum::data(tcp.into_inner()),
        checksum::data(body),
    ]);
    TcpPacket::new_unchecked(buffer).set_checksum(!sum);
}

/// Ones' complement sum of the pseudo header of a TCP segment of `length` bytes.
pub(crate) fn pseudo_header(src: IpAddr, dst: IpAddr, length: u32) -> u16 {
    checksum::pseudo_header(&IpAddress::from(src), &IpAddress::from(dst), IpProtocol::Tcp, length)
}

/// Writes the options at the end of `area` and fills the room before them with NOPs.
fn write_options(tcp: &TcpSegment, area: &mut [u8]) {
    let mut packed = [0_u8; 40];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        // The options always fit: `header_len` counted each of them, and `emit` checked the sum.
        if let Some(room) = packed.get_mut(len..len + bytes.len()) {
            room.copy_from_slice(bytes);
            len += bytes.len();
        }
    };
    if tcp.flags.contains(TcpFlags::SYN) {
        if let Some(mss) = tcp.syn.mss {
            let [high, low] = mss.to_be_bytes();
            put(&[2, 4, high, low]);
        }
        if let Some(shift) = tcp.syn.window_scale {
            put(&[3, 3, shift]);
        }
        if tcp.syn.sack_permitted {
            put(&[4, 2]);
        }
    }
    if let Some(timestamp) = tcp.timestamp {
        put(&[8, 10]);
        put(&timestamp.value.to_be_bytes());
        put(&timestamp.echo.to_be_bytes());
    }
    if !tcp.sack.is_empty() {
        put(&[5, 2 + 8 * tcp.sack.as_slice().len() as u8]);
        for block in tcp.sack.as_slice() {
            put(&block.left.0.to_be_bytes());
            put(&block.right.0.to_be_bytes());
        }
    }
    let start = area.len().saturating_sub(len);
    let (nops, options) = area.split_at_mut(start);
    nops.fill(1);
    for (byte, &value) in options.iter_mut().zip(&packed) {
        *byte = value;
    }
}

/// The TCP header of the acknowledgment that `spec` describes.
#[must_use]
pub fn ack_segment(spec: &AckSpec) -> TcpSegment {
    TcpSegment {
        seq: spec.seq,
        ack: spec.ack,
        payload_len: 0,
        window: spec.window,
        flags: if spec.ece { TcpFlags::ACK | TcpFlags::ECE } else { TcpFlags::ACK },
        timestamp: spec.timestamp,
        sack: Default::default(),
        syn: SynOptions::default(),
        signed: false,
    }
}

/// Writes the pure acknowledgment that a mechanism asked for; returns its length. The packet is not
/// ECN-capable (RFC 3168 section 6.1.4). A buffer of [`MAX_HEADER_LEN`] bytes is always long enough.
///
/// # Errors
/// [`EmitError::BufferTooSmall`], or [`EmitError::MixedFamilies`] if the flow's ends are of different IP
/// versions.
pub fn build_ack(spec: &AckSpec, buffer: &mut [u8]) -> Result<usize, EmitError> {
    let (src, dst) = match spec.direction {
        Direction::Downlink => (spec.flow.correspondent, spec.flow.station),
        Direction::Uplink => (spec.flow.station, spec.flow.correspondent),
    };
    let packet = PacketSpec { src, dst, tcp: ack_segment(spec), ecn: Ecn::NotEct };
    emit(&packet, Payload::Omitted, buffer)
}
