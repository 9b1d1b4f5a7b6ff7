//! Parses IPv4 and IPv6 bytes to a TCP header, or to the addresses of a UDP datagram, as mechanisms see them
//! (RFC 791, RFC 8200, RFC 9293, RFC 768).
//!
//! The parser takes any bytes, returns a packet or a [`ParseError`], and never panics. It does not check
//! checksums: a packet on its way through a router may carry one that hardware has yet to fill in.
//!
//! A TCP option that is cut short ends the list; the options before it count. One whose length is not that of
//! its kind is stepped over. Linux does the same (`tcp_parse_options`), so linkhold sees the flow as its two
//! ends do.

use core::net::IpAddr;

use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, MAX_WINDOW_SHIFT, SackBlock, SackBlocks, SynOptions, TcpFlags,
    TcpSegment, TcpTimestamp,
};
use linkhold_core::units::Seq;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, TcpOption, TcpPacket};

/// IPv6 extension headers to step over before giving up. RFC 8200 section 4.1 expects at most four of the
/// kinds that can be stepped over: hop-by-hop options, routing, and destination options twice.
const MAX_EXTENSION_HEADERS: usize = 6;

/// Bytes of a UDP header (RFC 768).
const UDP_HEADER_LEN: usize = 8;

/// Option kind of SACK (RFC 2018 section 3).
const OPTION_SACK: u8 = 5;

/// Option kinds of signatures: TCP-MD5 (RFC 2385) and TCP-AO (RFC 5925 section 2.2).
const OPTION_MD5: u8 = 19;
const OPTION_AO: u8 = 29;

/// A TCP packet found in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedPacket {
    /// Sender.
    pub src: Endpoint,
    /// Receiver.
    pub dst: Endpoint,
    /// TCP header.
    pub tcp: TcpSegment,
    /// Length of the packet by the IP header, bytes; the rest of the buffer is padding.
    pub ip_len: u32,
    /// Offset of the TCP header: the length of the IP header with its options or extension headers, bytes.
    pub tcp_offset: usize,
    /// Length of the TCP header with options, bytes.
    pub tcp_header_len: usize,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}

impl ParsedPacket {
    /// Offset of the payload, bytes.
    #[must_use]
    pub const fn payload_offset(&self) -> usize {
        self.tcp_offset + self.tcp_header_len
    }

    /// The connection, if the packet travels in `direction`.
    #[must_use]
    pub const fn flow(&self, direction: Direction) -> FlowKey {
        flow_of(self.src, self.dst, direction)
    }
}

/// The flow of a packet from `src` to `dst` that travels in `direction`.
const fn flow_of(src: Endpoint, dst: Endpoint, direction: Direction) -> FlowKey {
    match direction {
        Direction::Downlink => FlowKey { correspondent: src, station: dst },
        Direction::Uplink => FlowKey { correspondent: dst, station: src },
    }
}

/// A UDP datagram found in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedDatagram {
    /// Sender.
    pub src: Endpoint,
    /// Receiver.
    pub dst: Endpoint,
    /// Length of the packet by the IP header, bytes; the rest of the buffer is padding.
    pub ip_len: u32,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}

impl ParsedDatagram {
    /// The flow, if the datagram travels in `direction`.
    #[must_use]
    pub const fn flow(&self, direction: Direction) -> FlowKey {
        flow_of(self.src, self.dst, direction)
    }
}

/// What a mechanism can be told of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A segment of TCP.
    Tcp(ParsedPacket),
    /// A datagram of UDP.
    Udp(ParsedDatagram),
}

/// Why the bytes are no packet for a mechanism. Such a packet is to be forwarded unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes end before the headers do, or before the length that the IP header states.
    #[error("the packet is cut short")]
    Truncated,
    /// The packet is neither IPv4 nor IPv6.
    #[error("IP version {0} is neither 4 nor 6")]
    Version(u8),
    /// A header has a length that cannot be.
    #[error("a header length is impossible")]
    BadHeader,
    /// The packet is a fragment: it lacks ports and flags, or its checksum covers more than its own bytes.
    #[error("the packet is a fragment")]
    Fragment,
    /// The packet is not TCP (nor UDP, where that is looked for too), or an extension header is before it
    /// that cannot be stepped over.
    #[error("the packet is not TCP")]
    NotTcp,
}

/// Parses a whole IP packet that carries TCP.
///
/// # Errors
/// See [`ParseError`].
pub fn parse_ip_tcp(bytes: &[u8]) -> Result<ParsedPacket, ParseError> {
    let located = locate(bytes)?;
    if bytes.len() < located.ip_len as usize {
        return Err(ParseError::Truncated);
    }
    parse_located(bytes, &located)
}

/// As [`parse_ip_tcp`], but the payload may be cut off, by a queue that hands over only the first bytes or by
/// a capture with a snap length. The payload's length is taken from the IP header.
///
/// # Errors
/// See [`ParseError`].
pub fn parse_ip_tcp_headers(bytes: &[u8]) -> Result<ParsedPacket, ParseError> {
    parse_located(bytes, &locate(bytes)?)
}

/// Parses an IP packet that carries TCP or UDP; its payload may be cut off, as in [`parse_ip_tcp_headers`].
///
/// # Errors
/// See [`ParseError`].
pub fn parse_ip_headers(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let located = locate_any(bytes)?;
    match located.transport {
        Transport::Tcp => parse_located(bytes, &located).map(Parsed::Tcp),
        Transport::Udp => parse_datagram(bytes, &located).map(Parsed::Udp),
    }
}

/// Which header follows that of IP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// Where the TCP or UDP header of a packet is.
pub(crate) struct Located {
    pub(crate) transport: Transport,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// Length of the packet by the IP header; `tcp_offset` is at most this.
    pub(crate) ip_len: u32,
    pub(crate) tcp_offset: usize,
    pub(crate) ecn: Ecn,
}

/// Finds the TCP header.
pub(crate) fn locate(bytes: &[u8]) -> Result<Located, ParseError> {
    locate_any(bytes).and_then(|located| match located.transport {
        Transport::Tcp => Ok(located),
        Transport::Udp => Err(ParseError::NotTcp),
    })
}

fn locate_any(bytes: &[u8]) -> Result<Located, ParseError> {
    match bytes.first().map(|first| first >> 4) {
        None => Err(ParseError::Truncated),
        Some(4) => locate_v4(bytes),
        Some(6) => locate_v6(bytes),
        Some(version) => Err(ParseError::Version(version)),
    }
}

fn locate_v4(bytes: &[u8]) -> Result<Located, ParseError> {
    // `new_unchecked`, because smoltcp's check wants the payload as well; the accessors used here read the
    // fixed 20 bytes only.
    if bytes.len() < smoltcp::wire::IPV4_HEADER_LEN {
        return Err(ParseError::Truncated);
    }
    let ip = Ipv4Packet::new_unchecked(bytes);
    let header_len = usize::from(ip.header_len());
    if header_len < smoltcp::wire::IPV4_HEADER_LEN || usize::from(ip.total_len()) < header_len {
        return Err(ParseError::BadHeader);
    }
    if bytes.len() < header_len {
        return Err(ParseError::Truncated);
    }
    if ip.more_frags() || ip.frag_offset() != 0 {
        return Err(ParseError::Fragment);
    }
    let transport = match ip.next_header() {
        IpProtocol::Tcp => Transport::Tcp,
        IpProtocol::Udp => Transport::Udp,
        _ => return Err(ParseError::NotTcp),
    };
    Ok(Located {
        transport,
        src: ip.src_addr().into(),
        dst: ip.dst_addr().into(),
        ip_len: u32::from(ip.total_len()),
        tcp_offset: header_len,
        ecn: ecn_from_bits(ip.ecn()),
    })
}

fn locate_v6(bytes: &[u8]) -> Result<Located, ParseError> {
    if bytes.len() < smoltcp::wire::IPV6_HEADER_LEN {
        return Err(ParseError::Truncated);
    }
    let ip = Ipv6Packet::new_unchecked(bytes);
    // A payload length of zero announces a jumbogram (RFC 2675). It is refused below, as too short for TCP.
    let ip_len = ip.total_len();
    let mut next = ip.next_header();
    let mut offset = smoltcp::wire::IPV6_HEADER_LEN;
    for _ in 0..=MAX_EXTENSION_HEADERS {
        match next {
            IpProtocol::Tcp | IpProtocol::Udp => {
                let transport = if next == IpProtocol::Tcp { Transport::Tcp } else { Transport::Udp };
                return if offset < ip_len {
                    Ok(Located {
                        transport,
                        src: ip.src_addr().into(),
                        dst: ip.dst_addr().into(),
                        ip_len: ip_len as u32,
                        tcp_offset: offset,
                        ecn: ecn_from_bits(ip.traffic_class() & 0b11),
                    })
                } else {
                    Err(ParseError::BadHeader)
                };
            }
            IpProtocol::Ipv6Frag => return Err(ParseError::Fragment),
            IpProtocol::HopByHop | IpProtocol::Ipv6Route | IpProtocol::Ipv6Opts => {
                let &[kind, length] = bytes.get(offset..offset + 2).ok_or(ParseError::Truncated)? else {
                    return Err(ParseError::Truncated);
                };
                next = IpProtocol::from(kind);
                offset += (usize::from(length) + 1) * 8;
            }
            _ => return Err(ParseError::NotTcp),
        }
    }
    Err(ParseError::NotTcp)
}

/// Of the UDP header only the ports and the length are read (RFC 768). A length that cannot be, which no
/// receiver accepts, is refused; zero is one of them: it announces a jumbogram (RFC 2675 section 4).
fn parse_datagram(bytes: &[u8], located: &Located) -> Result<ParsedDatagram, ParseError> {
    let end = bytes.len().min(located.ip_len as usize);
    let rest = bytes.get(located.tcp_offset..end).ok_or(ParseError::Truncated)?;
    let Some(&[s0, s1, d0, d1, l0, l1, _, _]) = rest.first_chunk::<UDP_HEADER_LEN>() else {
        return Err(ParseError::Truncated);
    };
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    if length < UDP_HEADER_LEN || located.tcp_offset + length > located.ip_len as usize {
        return Err(ParseError::BadHeader);
    }
    Ok(ParsedDatagram {
        src: Endpoint { addr: located.src, port: u16::from_be_bytes([s0, s1]) },
        dst: Endpoint { addr: located.dst, port: u16::from_be_bytes([d0, d1]) },
        ip_len: located.ip_len,
        ecn: located.ecn,
    })
}

fn parse_located(bytes: &[u8], located: &Located) -> Result<ParsedPacket, ParseError> {
    let end = bytes.len().min(located.ip_len as usize);
    let rest = bytes.get(located.tcp_offset..end).ok_or(ParseError::Truncated)?;
    if rest.len() < smoltcp::wire::TCP_HEADER_LEN {
        return Err(ParseError::Truncated);
    }
    let header_len = usize::from(TcpPacket::new_unchecked(rest).header_len());
    let payload_end = located.tcp_offset + header_len;
    if header_len < smoltcp::wire::TCP_HEADER_LEN || payload_end > located.ip_len as usize {
        return Err(ParseError::BadHeader);
    }
    let packet = TcpPacket::new_checked(rest).map_err(|_| ParseError::Truncated)?;
    let mut tcp = TcpSegment {
        seq: Seq(packet.seq_number().0 as u32),
        ack: Seq(packet.ack_number().0 as u32),
        payload_len: located.ip_len - payload_end as u32,
        window: packet.window_len(),
        flags: TcpFlags(rest.get(FLAGS_OFFSET).copied().unwrap_or(0)),
        ..TcpSegment::default()
    };
    read_options(packet.options(), &mut tcp);
    Ok(ParsedPacket {
        src: Endpoint { addr: located.src, port: packet.src_port() },
        dst: Endpoint { addr: located.dst, port: packet.dst_port() },
        tcp,
        ip_len: located.ip_len,
        tcp_offset: located.tcp_offset,
        tcp_header_len: header_len,
        ecn: located.ecn,
    })
}

/// Offset of the flags in the TCP header, bytes (RFC 9293 section 3.1).
pub(crate) const FLAGS_OFFSET: usize = 13;

fn read_options(mut options: &[u8], tcp: &mut TcpSegment) {
    let is_syn = tcp.flags.contains(TcpFlags::SYN);
    let mut syn = SynOptions::default();
    while !options.is_empty() {
        let Ok((rest, option)) = TcpOption::parse(options) else {
            options = step_over(options).unwrap_or_default();
            continue;
        };
        match option {
            TcpOption::EndOfList => break,
            TcpOption::MaxSegmentSize(mss) => syn.mss = Some(mss),
            TcpOption::WindowScale(shift) => syn.window_scale = Some(shift.min(MAX_WINDOW_SHIFT)),
            TcpOption::SackPermitted => syn.sack_permitted = true,
            TcpOption::TimeStamp { tsval, tsecr } => {
                tcp.timestamp = Some(TcpTimestamp { value: tsval, echo: tsecr });
            }
            // An option may have four blocks, of which smoltcp keeps three.
            TcpOption::SackRange(_) => tcp.sack = read_sack(options),
            TcpOption::Unknown { kind: OPTION_MD5 | OPTION_AO, .. } => tcp.signed = true,
            TcpOption::NoOperation | TcpOption::Unknown { .. } => {}
        }
        options = rest;
    }
    if is_syn {
        tcp.syn = syn;
    }
}

/// What follows the option at the start of `options` by its length; `None` if that is impossible.
fn step_over(options: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*options.get(1)?);
    if length < 2 { None } else { options.get(length..) }
}

/// The blocks of the SACK option at the start of `options`, which `TcpOption::parse` found well-formed.
fn read_sack(options: &[u8]) -> SackBlocks {
    let mut blocks = SackBlocks::EMPTY;
    if let [OPTION_SACK, length, rest @ ..] = options {
        let data = rest.get(..usize::from(*length).saturating_sub(2)).unwrap_or(&[]);
        for block in data.chunks_exact(8) {
            if let &[a, b, c, d, e, f, g, h] = block {
                let left = Seq(u32::from_be_bytes([a, b, c, d]));
                let right = Seq(u32::from_be_bytes([e, f, g, h]));
                if !blocks.push(SackBlock { left, right }) {
                    break;
                }
            }
        }
    }
    blocks
}

pub(crate) const fn ecn_from_bits(bits: u8) -> Ecn {
    match bits & 0b11 {
        0b00 => Ecn::NotEct,
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

pub(crate) const fn ecn_to_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0b00,
        Ecn::Ect1 => 0b01,
        Ecn::Ect0 => 0b10,
        Ecn::Ce => 0b11,
    }
}
