//! IEEE 802.15.4 frames as bytes, for captures: data frames that carry the cr-aware paper's transport header,
//! and acknowledgments.
//!
//! Sources: IEEE Std 802.15.4-2015, clause 7 (formats); cr-aware section 5.1 (lengths). The paper gives its
//! MAC header 19 octets and says no more of it. Of the address forms of the standard only one has that
//! length: frame control 2, sequence number 1, two extended addresses of 8 octets and no PAN identifier,
//! which frame version 2 allows (table 7-2, PAN ID compression with two extended addresses).
//!
//! ```text
//! frame control │ sequence │ destination 8 │ source 8 │ RTT 8 │ number 4 │ TCP options, data │ FCS 2
//! ```
//! The paper's transport header is a sequence number of 4 octets and an RTT of 8, in no stated order and
//! form. The RTT stands first here, as the time of sending in nanoseconds, with 0001 in its uppermost four
//! bits. So the first octet is 0x10, which RFC 4944 (section 5.1) reserves for what is no LoWPAN frame, and
//! which is no frame control of Atmel's Lightweight Mesh either: Wireshark guesses at both, and would find
//! them malformed. Octets go in network order, those of the MAC in little-endian order.
//!
//! Deviation: an acknowledgment is the short form that every version knows (5 octets). A radio of the
//! 2015 edition would answer a frame of version 2 with an enhanced one, which the paper's radios predate.

use linkhold_core::time::Instant;
use smoltcp::wire::{
    Ieee802154Address, Ieee802154Frame, Ieee802154FrameType, Ieee802154FrameVersion, Ieee802154Pan,
    Ieee802154Repr,
};

use crate::emit::{EmitError, MAX_HEADER_LEN, PacketSpec, Payload, emit};

/// Octets of the MAC header.
pub const MAC_HEADER_LEN: usize = 19;
/// Octets of the transport header.
pub const TRANSPORT_HEADER_LEN: usize = 12;
/// Octets of the frame check sequence.
pub const FCS_LEN: usize = 2;
/// Octets of an acknowledgment.
pub const ACK_LEN: usize = 5;

/// Set above the time of sending, which stays below it for 36 years.
const MARK: u64 = 1 << 60;

/// The MAC header as smoltcp writes it, with a PAN identifier behind the sequence number.
const WITH_PAN: usize = MAC_HEADER_LEN + PAN;
const PAN: usize = 2;
const SEQUENCE_END: usize = 3;

/// A data frame to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFrame<'a> {
    /// Sender, as a number of the cell.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// The MAC's sequence number.
    pub sequence: u8,
    /// Whether the receiver is to acknowledge it.
    pub ack_request: bool,
    /// When the packet was sent.
    pub sent_at: Instant,
    /// What it carries.
    pub carried: Carried<'a>,
}

/// What a data frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried<'a> {
    /// A TCP packet. Its IP header and the fixed part of its TCP header are left out.
    Segment(&'a PacketSpec),
    /// A datagram of UDP, without IP and UDP header. (Not in the paper: it has the transport header of TCP's
    /// packets, with its number.)
    Datagram {
        /// Its number in its flow.
        number: u32,
        /// Bytes of payload.
        payload_len: u32,
    },
}

/// A radio's extended address: locally administered, with the radio's number. No primary user may have an
/// address of this form (`linkhold_radio::ExtendedAddress::is_of_the_cell`).
fn address(radio: u32) -> Ieee802154Address {
    let [a, b, c, d] = radio.to_be_bytes();
    Ieee802154Address::Extended([2, 0, 0, 0, a, b, c, d])
}

/// Appends a data frame to `into`, its payload as zeros.
///
/// # Errors
/// [`EmitError`] if the packet has no form on the wire.
pub fn data_frame(frame: &DataFrame<'_>, into: &mut Vec<u8>) -> Result<(), EmitError> {
    let repr = Ieee802154Repr {
        frame_type: Ieee802154FrameType::Data,
        security_enabled: false,
        frame_pending: false,
        ack_request: frame.ack_request,
        sequence_number: Some(frame.sequence),
        pan_id_compression: true,
        frame_version: Ieee802154FrameVersion::Ieee802154,
        dst_pan_id: Some(Ieee802154Pan(0)),
        dst_addr: Some(address(frame.to)),
        src_pan_id: None,
        src_addr: Some(address(frame.from)),
    };
    let mut header = [0_u8; WITH_PAN];
    repr.emit(&mut Ieee802154Frame::new_unchecked(&mut header[..]));
    let start = into.len();
    let (control, addresses) = header.split_at(SEQUENCE_END);
    into.extend_from_slice(control);
    into.extend_from_slice(addresses.get(PAN..).unwrap_or_default());
    let number = match frame.carried {
        Carried::Segment(PacketSpec { tcp, .. }) => {
            let carries = tcp.payload_len > 0 || tcp.flags.contains(linkhold_core::packet::TcpFlags::SYN);
            if carries { tcp.seq.0 } else { tcp.ack.0 }
        }
        Carried::Datagram { number, .. } => number,
    };
    let time = frame.sent_at.as_nanos() & (MARK - 1) | MARK;
    into.extend_from_slice(&time.to_be_bytes());
    into.extend_from_slice(&number.to_be_bytes());
    let payload_len = match frame.carried {
        Carried::Segment(packet) => {
            let mut headers = [0_u8; MAX_HEADER_LEN];
            let written = emit(packet, Payload::Omitted, &mut headers)?;
            let options = packet.tcp.header_len().saturating_sub(20) as usize;
            into.extend_from_slice(headers.get(written.saturating_sub(options)..written).unwrap_or_default());
            packet.tcp.payload_len
        }
        Carried::Datagram { payload_len, .. } => payload_len,
    };
    into.resize(into.len() + payload_len as usize, 0);
    append_fcs(start, into);
    Ok(())
}

/// Appends the acknowledgment of the frame with number `sequence` to `into`.
pub fn ack_frame(sequence: u8, into: &mut Vec<u8>) {
    let repr = Ieee802154Repr {
        frame_type: Ieee802154FrameType::Acknowledgement,
        security_enabled: false,
        frame_pending: false,
        ack_request: false,
        sequence_number: Some(sequence),
        pan_id_compression: false,
        frame_version: Ieee802154FrameVersion::Ieee802154_2003,
        dst_pan_id: None,
        dst_addr: None,
        src_pan_id: None,
        src_addr: None,
    };
    let mut header = [0_u8; SEQUENCE_END];
    repr.emit(&mut Ieee802154Frame::new_unchecked(&mut header[..]));
    let start = into.len();
    into.extend_from_slice(&header);
    append_fcs(start, into);
}

/// Appends the frame check sequence of what stands in `into` from `start` on.
fn append_fcs(start: usize, into: &mut Vec<u8>) {
    let fcs = fcs(into.get(start..).unwrap_or_default());
    into.extend_from_slice(&fcs.to_le_bytes());
}

/// The 16-bit ITU-T CRC (IEEE Std 802.15.4-2006, clause 7.2.1.9): x^16 + x^12 + x^5 + 1, least significant
/// bit first, from zero.
#[must_use]
pub fn fcs(bytes: &[u8]) -> u16 {
    const REFLECTED: u16 = 0x8408;
    bytes.iter().fold(0, |crc, byte| {
        (0..8)
            .fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ REFLECTED } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::{Ecn, Endpoint, TcpFlags, TcpSegment};
    use linkhold_core::units::Seq;

    use super::*;

    fn packet(tcp: TcpSegment) -> PacketSpec {
        let end = |last, port| Endpoint { addr: [10, 0, 0, last].into(), port };
        PacketSpec { src: end(2, 4000), dst: end(1, 5001), tcp, ecn: Ecn::NotEct }
    }

    fn bytes(tcp: TcpSegment) -> Vec<u8> {
        let packet = packet(tcp);
        let sent_at = Instant::from_millis(7);
        let mut frame = Vec::new();
        data_frame(
            &DataFrame {
                from: 3,
                to: 0,
                sequence: 9,
                ack_request: true,
                sent_at,
                carried: Carried::Segment(&packet),
            },
            &mut frame,
        )
        .expect("it fits");
        frame
    }

    /// The example of IEEE Std 802.15.4-2006, clause 7.2.1.9: an acknowledgment with sequence number 0x56.
    #[test]
    fn the_fcs_is_the_standards() {
        assert_eq!(fcs(b"123456789"), 0x2189, "the check value of CRC-16/KERMIT");
        let mut ack = Vec::new();
        ack_frame(0x56, &mut ack);
        assert_eq!(ack[..3], [0x02, 0x00, 0x56]);
        assert_eq!(ack.len(), ACK_LEN);
        // A frame with its own FCS leaves no remainder.
        assert_eq!(fcs(&ack), 0);
    }

    #[test]
    fn smoltcp_reads_a_data_frame_back() {
        let segment =
            TcpSegment { seq: Seq(77), flags: TcpFlags::ACK, payload_len: 95, ..TcpSegment::default() };
        let frame = bytes(segment);
        assert_eq!(frame.len(), 128, "the paper's MPDU");
        assert_eq!(fcs(&frame), 0);
        let parsed = Ieee802154Frame::new_checked(&frame[..126]).expect("it is well formed");
        let repr = Ieee802154Repr::parse(&parsed).expect("it is well formed");
        assert_eq!(repr.frame_type, Ieee802154FrameType::Data);
        assert_eq!((repr.sequence_number, repr.ack_request), (Some(9), true));
        assert_eq!((repr.dst_addr, repr.src_addr), (Some(address(0)), Some(address(3))));
        assert_eq!((repr.dst_pan_id, repr.src_pan_id), (None, None));
        let payload = parsed.payload().expect("a data frame has one");
        assert_eq!(payload.len(), TRANSPORT_HEADER_LEN + 95);
        assert_eq!(payload[..12], [0x10, 0, 0, 0, 0, 0x6a, 0xcf, 0xc0, 0, 0, 0, 77]);
    }

    #[test]
    fn an_acknowledging_segment_carries_its_acknowledgment_number_and_its_options() {
        let mut segment = TcpSegment { seq: Seq(1), ack: Seq(0x1234), ..TcpSegment::default() };
        segment.flags = TcpFlags::ACK;
        assert_eq!(bytes(segment).len(), MAC_HEADER_LEN + TRANSPORT_HEADER_LEN + FCS_LEN);
        segment.timestamp = Some(linkhold_core::packet::TcpTimestamp { value: 5, echo: 6 });
        let frame = bytes(segment);
        assert_eq!(frame.len(), MAC_HEADER_LEN + TRANSPORT_HEADER_LEN + 12 + FCS_LEN);
        assert_eq!(frame[27..31], [0, 0, 0x12, 0x34]);
        assert_eq!(frame[33..35], [8, 10], "a timestamp option behind two NOPs");
    }
}
