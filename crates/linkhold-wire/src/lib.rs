//! Converts packets between bytes and the types that mechanisms see.
//!
//! - [`parse`]: IPv4 or IPv6 bytes to [`ParsedPacket`]; safe on any bytes that an attacker may send.
//! - [`emit`](mod@emit): a [`TcpSegment`](linkhold_core::packet::TcpSegment) to bytes with correct checksums.
//! - [`rewrite`]: header changes in place, checksums updated incrementally (RFC 1624).
//! - [`ieee802154`]: a packet as the frame that carries it over an IEEE 802.15.4 radio.
//! - [`ieee80211`]: a packet as the frame that carries it over an IEEE 802.11 radio, as a monitor records it.
//! - [`aodv`]: the messages of AODV.
//! - [`capture`]: pcapng files for Wireshark and tshark.
#![forbid(unsafe_code)]

pub mod aodv;
pub mod capture;
pub mod emit;
pub mod ieee80211;
pub mod ieee802154;
pub mod parse;
pub mod rewrite;

pub use capture::PcapngWriter;
pub use emit::{
    DatagramSpec, EmitError, PacketSpec, Payload, UdpSpec, build_ack, datagram_len, emit, emit_datagram,
    emit_udp, packet_len,
};
pub use parse::{
    ParseError, Parsed, ParsedDatagram, ParsedPacket, parse_ip_headers, parse_ip_tcp, parse_ip_tcp_headers,
};
pub use rewrite::{
    RewriteError, TcpChecksum, apply_rewrite, fill_tcp_checksum, set_endpoints, verify_checksums,
};
