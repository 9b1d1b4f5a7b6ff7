//! Changes headers in place and updates their checksums incrementally (RFC 1624, equation 3).
//!
//! **Checksums that hardware is to fill in.** A packet from a local socket or out of GSO/GRO may carry a
//! *partial* TCP checksum: the field holds only the sum of the pseudo header, and the device that sends the
//! packet adds the rest (Linux `CHECKSUM_PARTIAL`; `VIRTIO_NET_HDR_F_NEEDS_CSUM` on a TUN device;
//! `NFQA_SKB_CSUMNOTREADY` on NFQUEUE). Window and flags are not in the pseudo header, so a change to them
//! must leave that field as it is; an incremental update would make it wrong. Linux does the same in
//! `inet_proto_csum_replace4`. Where the partial state is lost on the way (NFQUEUE hands a packet with a
//! changed payload on as `CHECKSUM_NONE`), call [`fill_tcp_checksum`] first.

use core::net::IpAddr;
use linkhold_core::action::Rewrite;

use linkhold_core::packet::{Ecn, Endpoint, TcpFlags};
use smoltcp::wire::{Ipv4Packet, Ipv6Packet, TCP_HEADER_LEN, TcpPacket, checksum};

use crate::emit::pseudo_header;
use crate::parse::{FLAGS_OFFSET, Located, ParseError, ecn_to_bits, locate};

/// What the TCP checksum field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpChecksum {
    /// The checksum of the whole segment.
    Complete,
    /// The pseudo header's sum only; hardware or a later layer adds the rest.
    Partial,
}

/// Why a packet was not rewritten. The packet is then unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The bytes are no TCP packet.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The new window is larger than the one that it replaces, so the receiver never offered it.
    #[error("window {want} is larger than the {have} it would replace")]
    WindowGrows {
        /// The window in the packet.
        have: u16,
        /// The window that was asked for.
        want: u16,
    },
    /// A congestion mark was asked for on a packet whose transport does not use ECN.
    #[error("the packet is not ECN-capable")]
    NotEcnCapable,
}

/// Changes window, ECN-echo flag and the IP header's ECN field as `rewrite` says: all of them or, after an
/// error, none.
///
/// # Errors
/// See [`RewriteError`].
pub fn apply_rewrite(
    bytes: &mut [u8],
    rewrite: Rewrite,
    tcp_checksum: TcpChecksum,
) -> Result<(), RewriteError> {
    if rewrite.is_none() {
        return Ok(());
    }
    let located = locate(bytes)?;
    let header = tcp_header(bytes, &located)?;
    let tcp = TcpPacket::new_unchecked(&header[..]);
    let (have, old_sum) = (tcp.window_len(), tcp.checksum());
    if let Some(want) = rewrite.window
        && want > have
    {
        return Err(RewriteError::WindowGrows { have, want });
    }
    if rewrite.mark_ce && located.ecn == Ecn::NotEct {
        return Err(RewriteError::NotEcnCapable);
    }

    let mut sum = old_sum;
    if let Some(window) = rewrite.window {
        sum = updated(sum, have, window);
        TcpPacket::new_unchecked(&mut header[..]).set_window_len(window);
    }
    if rewrite.set_ece {
        // Data offset and flags share a 16-bit word, the unit of the checksum.
        let [.., offset, flags] = &mut header[..=FLAGS_OFFSET] else {
            return Err(ParseError::Truncated.into());
        };
        let new_flags = *flags | TcpFlags::ECE.0;
        sum = updated(sum, u16::from_be_bytes([*offset, *flags]), u16::from_be_bytes([*offset, new_flags]));
        *flags = new_flags;
    }
    match tcp_checksum {
        TcpChecksum::Complete => TcpPacket::new_unchecked(&mut header[..]).set_checksum(sum),
        TcpChecksum::Partial => {}
    }
    if rewrite.mark_ce && located.ecn != Ecn::Ce {
        mark_ce(bytes);
    }
    Ok(())
}

/// The fixed part of the TCP header.
fn tcp_header<'a>(
    bytes: &'a mut [u8],
    located: &Located,
) -> Result<&'a mut [u8; TCP_HEADER_LEN], RewriteError> {
    bytes
        .get_mut(located.tcp_offset..)
        .and_then(|rest| rest.first_chunk_mut::<TCP_HEADER_LEN>())
        .ok_or(RewriteError::Parse(ParseError::Truncated))
}

/// RFC 1624 equation 3: HC' = ~(~HC + ~m + m').
fn updated(sum: u16, old: u16, new: u16) -> u16 {
    !checksum::combine(&[!sum, !old, new])
}

/// Sets the ECN field to CE; `bytes` are a packet that [`locate`] accepted.
fn mark_ce(bytes: &mut [u8]) {
    let [first, second, ..] = bytes else { return };
    let old = u16::from_be_bytes([*first, *second]);
    if *first >> 4 == 4 {
        *second |= ecn_to_bits(Ecn::Ce);
        let new = u16::from_be_bytes([*first, *second]);
        let mut ip = Ipv4Packet::new_unchecked(bytes);
        let sum = updated(ip.checksum(), old, new);
        ip.set_checksum(sum);
    } else {
        // The traffic class straddles the first two bytes; its last two bits are bits 5 and 4 of the second.
        *second |= ecn_to_bits(Ecn::Ce) << 4;
    }
}

/// Computes the TCP checksum of a whole packet and writes it.
///
/// # Errors
/// [`ParseError`] if the bytes are not a whole TCP packet.
pub fn fill_tcp_checksum(bytes: &mut [u8]) -> Result<(), ParseError> {
    let located = locate(bytes)?;
    let segment = bytes.get_mut(located.tcp_offset..located.ip_len as usize).ok_or(ParseError::Truncated)?;
    if segment.len() < TCP_HEADER_LEN {
        return Err(ParseError::BadHeader);
    }
    TcpPacket::new_unchecked(&mut *segment).set_checksum(0);
    let length = segment.len() as u32;
    let sum = checksum::combine(&[pseudo_header(located.src, located.dst, length), checksum::data(segment)]);
    TcpPacket::new_unchecked(segment).set_checksum(!sum);
    Ok(())
}

/// Gives a whole packet other ends, of its own address family, and both checksums anew.
///
/// # Errors
/// [`ParseError`] if the bytes are not a whole TCP packet of that family. The packet is then unchanged.
pub fn set_endpoints(bytes: &mut [u8], src: Endpoint, dst: Endpoint) -> Result<(), ParseError> {
    let located = locate(bytes)?;
    let whole = bytes.get_mut(..located.ip_len as usize).ok_or(ParseError::Truncated)?;
    let (header, segment) = whole.split_at_mut_checked(located.tcp_offset).ok_or(ParseError::BadHeader)?;
    if segment.len() < TCP_HEADER_LEN {
        return Err(ParseError::BadHeader);
    }
    match (located.src, src.addr, dst.addr) {
        (IpAddr::V4(_), IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip = Ipv4Packet::new_unchecked(header);
            ip.set_src_addr(src);
            ip.set_dst_addr(dst);
            ip.fill_checksum();
        }
        (IpAddr::V6(_), IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut ip = Ipv6Packet::new_unchecked(header);
            ip.set_src_addr(src);
            ip.set_dst_addr(dst);
        }
        _ => return Err(ParseError::BadHeader),
    }
    let mut tcp = TcpPacket::new_unchecked(segment);
    tcp.set_src_port(src.port);
    tcp.set_dst_port(dst.port);
    fill_tcp_checksum(bytes)
}

/// True if the TCP checksum and, on IPv4, the header checksum of a whole packet are correct.
///
/// # Errors
/// [`ParseError`] if the bytes are not a whole TCP packet.
pub fn verify_checksums(bytes: &[u8]) -> Result<bool, ParseError> {
    let located = locate(bytes)?;
    let segment = bytes.get(located.tcp_offset..located.ip_len as usize).ok_or(ParseError::Truncated)?;
    let sum = checksum::combine(&[
        pseudo_header(located.src, located.dst, segment.len() as u32),
        checksum::data(segment),
    ]);
    let ip_right = !located.src.is_ipv4()
        || bytes.get(..located.tcp_offset).is_some_and(|header| checksum::data(header) == !0);
    Ok(sum == !0 && ip_right)
}
