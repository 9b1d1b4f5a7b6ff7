//! What captured packets tell: which data crossed when, and what never arrived.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use linkhold_wire::{Parsed, parse_ip_headers, parse_ip_tcp_headers};

use crate::capture::Captured;

/// A packet with data.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// When it crossed (the kernel's wall clock).
    pub at: SystemTime,
    pub seq: u32,
    pub len: u32,
    /// Value of its timestamp option: tells a packet from its retransmission.
    stamp: Option<u32>,
}

impl Data {
    /// Sequence number behind it.
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

/// Data packets to an address, in the order in which they crossed.
pub fn data(captured: &[Captured], to: IpAddr) -> Vec<Data> {
    captured
        .iter()
        .filter_map(|packet| {
            let parsed = parse_ip_tcp_headers(&packet.bytes).ok()?;
            (parsed.dst.addr == to && parsed.tcp.payload_len > 0).then_some(Data {
                at: packet.at,
                seq: parsed.tcp.seq.0,
                len: parsed.tcp.payload_len,
                stamp: parsed.tcp.timestamp.map(|timestamp| timestamp.value),
            })
        })
        .collect()
}

/// Bytes of UDP's header (RFC 768).
const UDP_HEADER: usize = 8;

/// A datagram of UDP.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// When it crossed (the kernel's wall clock).
    pub at: SystemTime,
    /// The first four bytes of what it carries.
    pub number: u32,
}

/// Datagrams of UDP to an address, in the order in which they crossed. IP headers are taken to have no
/// options.
pub fn datagrams(captured: &[Captured], to: IpAddr) -> Vec<Datagram> {
    let ip_header = if to.is_ipv4() { 20 } else { 40 };
    let numbered = captured.iter().filter_map(|packet| match parse_ip_headers(&packet.bytes) {
        Ok(Parsed::Udp(datagram)) if datagram.dst.addr == to => {
            let number = packet.bytes.get(ip_header + UDP_HEADER..)?.first_chunk()?;
            Some(Datagram { at: packet.at, number: u32::from_be_bytes(*number) })
        }
        _ => None,
    });
    numbered.collect()
}

/// The packets that crossed from `from` on, a line each, for a test that failed: time from then, ms; source,
/// flags, sequence number and length, ACK and window.
pub fn story(captured: &[Captured], from: SystemTime, most: usize) -> String {
    let lines = captured.iter().filter(|packet| packet.at >= from).filter_map(|packet| {
        let parsed = parse_ip_tcp_headers(&packet.bytes).ok()?;
        let ms = packet.at.duration_since(from).ok()?.as_secs_f64() * 1e3;
        let tcp = parsed.tcp;
        Some(format!(
            "{ms:9.3} {} {:?} {}+{} ack {} win {}\n",
            parsed.src.addr, tcp.flags, tcp.seq.0, tcp.payload_len, tcp.ack.0, tcp.window
        ))
    });
    lines.take(most).collect()
}

/// True if sequence number `a` is behind `b`.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// How often new data came before older data had: what is new arrives in order, only what was sent before may
/// come again (a retransmission).
pub fn gaps(packets: &[Data]) -> usize {
    let mut next = packets[0].seq;
    let mut gaps = 0;
    for packet in packets {
        gaps += usize::from(is_after(packet.seq, next));
        if is_after(packet.end(), next) {
            next = packet.end();
        }
    }
    gaps
}

/// Packets that were sent and did not arrive, counting copies apart.
pub fn lost(sent: &[Data], arrived: &[Data]) -> Vec<Data> {
    let key = |packet: &Data| (packet.seq, packet.len, packet.stamp);
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for packet in arrived {
        *counts.entry(key(packet)).or_default() += 1;
    }
    let mut lost = Vec::new();
    for packet in sent {
        match counts.get_mut(&key(packet)) {
            Some(count) if *count > 0 => *count -= 1,
            Some(_) | None => lost.push(*packet),
        }
    }
    lost
}

/// The first packet at or after `from`.
pub fn first_from(packets: &[Data], from: SystemTime) -> Data {
    *packets.iter().find(|packet| packet.at >= from).expect("data after that time")
}

/// The longest time from `from` on in which nothing crossed.
pub fn longest_pause(packets: &[Data], from: SystemTime) -> Duration {
    let after: Vec<SystemTime> = packets.iter().map(|packet| packet.at).filter(|at| *at >= from).collect();
    let starts = std::iter::once(from).chain(after.iter().copied());
    let pauses = starts.zip(&after).map(|(start, end)| end.duration_since(start).unwrap_or_default());
    pauses.max().expect("data after that time")
}

/// The first packet at or after `from` with data that had never crossed before it.
pub fn first_new_from(packets: &[Data], from: SystemTime) -> Data {
    let mut next = packets[0].seq;
    for packet in packets {
        if is_after(packet.end(), next) {
            if packet.at >= from {
                return *packet;
            }
            next = packet.end();
        }
    }
    panic!("no new data after that time");
}
