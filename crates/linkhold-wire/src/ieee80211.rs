//! IEEE 802.11 frames as bytes, as a monitor records them: behind a radiotap header.
//!
//! Sources: IEEE Std 802.11-2012, clauses 8.2 and 8.3 (formats; from memory, not checked against its text),
//! RFC 1042 (LLC and SNAP), radiotap.org's list of defined fields.
//!
//! ```text
//! radiotap │ RTS   control 2 │ duration 2 │ receiver 6 │ sender 6                                   │ FCS 4
//! radiotap │ CTS   control 2 │ duration 2 │ receiver 6                                              │ FCS 4
//! radiotap │ ACK   control 2 │ duration 2 │ receiver 6                                              │ FCS 4
//! radiotap │ data  control 2 │ duration 2 │ receiver 6 │ sender 6 │ BSSID 6 │ seq 2 │ LLC, SNAP, IP │ FCS 4
//! ```
//! Octets go in little-endian order, but for addresses, LLC, SNAP and what follows them.
//!
//! Choices:
//! - the radios are those of an ad hoc network (IBSS): To DS and From DS are zero. In a cell the base station
//!   is no access point either, for nobody associates with it and it sends no beacons;
//! - addresses are locally administered, 02:00 and the radio's number. The BSSID is 02:6c:69:6e:6b:68;
//! - radiotap's rate counts 500 kbit/s: another rate (the `crahn` paper's bands have such) is rounded to the
//!   nearest;
//! - channel n, counted from 0, is 2412 + 5n MHz with DSSS (channels 1 to 13 of 802.11b) and 5180 + 20n MHz
//!   with OFDM. Simulated bands are many and wherever they are: the frequency only tells them apart;
//! - a frame that was cut off on the air never had its FCS sent, so it stands without, and radiotap says so;
//! - data without a packet is the standard's frame for that, type Null.

use core::net::IpAddr;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

use crate::emit::{
    DatagramSpec, EmitError, MAX_HEADER_LEN, PacketSpec, Payload, UdpSpec, emit, emit_datagram, emit_udp,
};

/// Octets of the radiotap header.
pub const RADIOTAP_LEN: usize = 22;
/// Octets of the MAC header of data.
pub const MAC_HEADER_LEN: usize = 24;
/// Octets of LLC and SNAP headers.
pub const LLC_LEN: usize = 8;
/// Octets of the frame check sequence.
pub const FCS_LEN: usize = 4;

/// Radiotap's fields that are present: TSFT, flags, rate, channel (bits 0 to 3).
const PRESENT: u32 = 0b1111;
/// Radiotap's flag: the frame has its FCS.
const HAS_FCS: u8 = 0x10;
/// Radiotap's flags of a channel: CCK and 2 GHz; OFDM and 5 GHz.
const CCK_2_GHZ: u16 = 0x0020 | 0x0080;
const OFDM_5_GHZ: u16 = 0x0040 | 0x0100;

/// Frame control's first octet: version 0, type, subtype.
const DATA: u8 = 0x08;
const NULL: u8 = 0x48;
const RTS: u8 = 0xb4;
const CTS: u8 = 0xc4;
const ACK: u8 = 0xd4;
/// Frame control's second octet: the frame was sent before.
const RETRY: u8 = 0x08;

const BROADCAST: [u8; 6] = [0xff; 6];
const BSSID: [u8; 6] = [0x02, b'l', b'i', b'n', b'k', b'h'];
/// The Duration field's most (clause 8.2.4.2).
const MAX_DURATION: u64 = 32_767;

/// DSAP and SSAP of SNAP, unnumbered information, and RFC 1042's organization code.
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// What the radios send with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// 802.11b: DSSS and CCK at 2.4 GHz.
    Dsss,
    /// 802.11a: OFDM at 5 GHz.
    Ofdm,
}

/// How a frame was received: what radiotap tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// When the first bit of the MAC header was on the air.
    pub first_bit: Instant,
    /// The rate of its octets.
    pub rate: BitRate,
    /// What it was sent with.
    pub band: Band,
    /// Its channel, from 0.
    pub channel: u32,
    /// It was sent to its end.
    pub whole: bool,
}

/// A frame. Radios have numbers, of which addresses are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Request to send.
    Rts {
        /// Receiver.
        to: u32,
        /// Sender.
        from: u32,
    },
    /// Clear to send; it does not name its sender.
    Cts {
        /// Receiver.
        to: u32,
    },
    /// Acknowledgment; it does not name its sender.
    Ack {
        /// Receiver.
        to: u32,
    },
    /// Data.
    Data {
        /// Receiver; `None`: everybody.
        to: Option<u32>,
        /// Sender.
        from: u32,
        /// Sequence number, modulo 4096.
        sequence: u16,
        /// It was sent before.
        retry: bool,
        /// What [`msdu`] made; empty if it carries nothing that is known.
        msdu: &'a [u8],
    },
}

/// A packet that data carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried<'a> {
    /// A TCP packet; its payload is zeros.
    Segment(&'a PacketSpec),
    /// A datagram of UDP; its payload is zeros.
    Datagram(&'a DatagramSpec),
    /// A datagram of UDP with its payload.
    Udp(&'a UdpSpec<'a>),
}

/// Appends LLC and SNAP headers and the packet to `into`.
///
/// # Errors
/// [`EmitError`] if the packet has no form on the wire; `into` is as before then.
pub fn msdu(carried: Carried<'_>, into: &mut Vec<u8>) -> Result<(), EmitError> {
    let start = into.len();
    let (source, payload) = match carried {
        Carried::Segment(packet) => (packet.src.addr, packet.tcp.payload_len),
        Carried::Datagram(datagram) => (datagram.src.addr, datagram.payload_len),
        Carried::Udp(udp) => (IpAddr::V4(*udp.src.ip()), 0),
    };
    into.extend_from_slice(&SNAP);
    let ethertype = match source {
        IpAddr::V4(_) => ETHERTYPE_IPV4,
        IpAddr::V6(_) => ETHERTYPE_IPV6,
    };
    into.extend_from_slice(&ethertype.to_be_bytes());
    let mut headers = [0_u8; MAX_HEADER_LEN];
    let written = match carried {
        Carried::Segment(packet) => emit(packet, Payload::Omitted, &mut headers),
        Carried::Datagram(datagram) => emit_datagram(datagram, &mut headers),
        Carried::Udp(udp) => emit_udp(udp, into).map(|()| 0),
    };
    match written {
        Ok(written) => {
            into.extend_from_slice(headers.get(..written).unwrap_or_default());
            into.resize(into.len() + payload as usize, 0);
            Ok(())
        }
        Err(error) => {
            into.truncate(start);
            Err(error)
        }
    }
}

/// Appends a frame behind its radiotap header to `into`. `reserved` is how long everybody else leaves the
/// medium alone from its end on.
pub fn frame(reception: &Reception, frame: &Frame<'_>, reserved: Duration, into: &mut Vec<u8>) {
    radiotap(reception, into);
    let start = into.len();
    let (control, flags, to) = match *frame {
        Frame::Rts { to, .. } => (RTS, 0, address(to)),
        Frame::Cts { to } => (CTS, 0, address(to)),
        Frame::Ack { to } => (ACK, 0, address(to)),
        Frame::Data { to, retry, msdu, .. } => {
            let control = if msdu.is_empty() { NULL } else { DATA };
            (control, if retry { RETRY } else { 0 }, to.map_or(BROADCAST, address))
        }
    };
    into.extend_from_slice(&[control, flags]);
    into.extend_from_slice(&duration_field(reserved).to_le_bytes());
    into.extend_from_slice(&to);
    match *frame {
        Frame::Rts { from, .. } => into.extend_from_slice(&address(from)),
        Frame::Cts { .. } | Frame::Ack { .. } => {}
        Frame::Data { from, sequence, msdu, .. } => {
            into.extend_from_slice(&address(from));
            into.extend_from_slice(&BSSID);
            // The fragment number is below it, and always 0.
            into.extend_from_slice(&(sequence << 4).to_le_bytes());
            into.extend_from_slice(msdu);
        }
    }
    if reception.whole {
        let fcs = crc32fast::hash(into.get(start..).unwrap_or_default());
        into.extend_from_slice(&fcs.to_le_bytes());
    }
}

fn radiotap(reception: &Reception, into: &mut Vec<u8>) {
    let Reception { first_bit, rate, band, channel, whole } = *reception;
    let (first, spacing, flags) = match band {
        Band::Dsss => (2412, 5, CCK_2_GHZ),
        Band::Ofdm => (5180, 20, OFDM_5_GHZ),
    };
    let frequency = channel.saturating_mul(spacing).saturating_add(first);
    let half_megabits = (rate.as_bps().saturating_add(250_000) / 500_000).max(1);
    into.extend_from_slice(&[0, 0]);
    into.extend_from_slice(&(RADIOTAP_LEN as u16).to_le_bytes());
    into.extend_from_slice(&PRESENT.to_le_bytes());
    into.extend_from_slice(&(first_bit.as_nanos() / 1000).to_le_bytes());
    into.push(if whole { HAS_FCS } else { 0 });
    into.push(u8::try_from(half_megabits).unwrap_or(u8::MAX));
    into.extend_from_slice(&u16::try_from(frequency).unwrap_or(u16::MAX).to_le_bytes());
    into.extend_from_slice(&flags.to_le_bytes());
}

/// Microseconds, a fraction rounded up (clause 8.2.5).
fn duration_field(reserved: Duration) -> u16 {
    u16::try_from(reserved.as_nanos().div_ceil(1000).min(MAX_DURATION)).unwrap_or_default()
}

/// The address of a radio: locally administered, with its number.
fn address(radio: u32) -> [u8; 6] {
    let [a, b, c, d] = radio.to_be_bytes();
    [2, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, SocketAddrV4};

    use linkhold_core::packet::{Ecn, Endpoint, TcpFlags, TcpSegment};
    use linkhold_core::units::Seq;
    use proptest::prelude::*;

    use super::*;

    /// CRC-32 over anything and its own CRC, in little-endian order.
    const RESIDUE: u32 = 0x2144_df1c;

    fn reception() -> Reception {
        Reception {
            first_bit: Instant::from_nanos(1_234_567),
            rate: BitRate(5_500_000),
            band: Band::Dsss,
            channel: 5,
            whole: true,
        }
    }

    fn bytes(of: &Frame<'_>, reserved: Duration) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame(&reception(), of, reserved, &mut bytes);
        bytes
    }

    fn segment(payload_len: u32) -> PacketSpec {
        let end = |last, port| Endpoint { addr: [10, 0, 0, last].into(), port };
        let tcp = TcpSegment { seq: Seq(77), flags: TcpFlags::ACK, payload_len, ..TcpSegment::default() };
        PacketSpec { src: end(2, 4000), dst: end(1, 5001), tcp, ecn: Ecn::NotEct }
    }

    #[test]
    fn radiotap_tells_time_rate_and_channel() {
        #[rustfmt::skip]
        let expected = [
            0, 0, 22, 0, 0x0f, 0, 0, 0,   // version, length, present
            0xd2, 4, 0, 0, 0, 0, 0, 0,    // 1234 us
            0x10, 11, 0x85, 9, 0xa0, 0,   // with FCS; 5.5 Mbit/s; 2437 MHz, CCK at 2 GHz
        ];
        assert_eq!(bytes(&Frame::Ack { to: 0 }, Duration::ZERO)[..22], expected);
        let tail = |more: Reception| {
            let mut bytes = Vec::new();
            radiotap(&more, &mut bytes);
            bytes.split_off(16)
        };
        let ofdm = Reception { band: Band::Ofdm, rate: BitRate::from_mbps(54), channel: 0, ..reception() };
        assert_eq!(tail(ofdm), [0x10, 108, 0x3c, 0x14, 0x40, 1], "5180 MHz, OFDM at 5 GHz");
        let odd = Reception { rate: BitRate(1_160_000), channel: 0, whole: false, ..reception() };
        assert_eq!(tail(odd), [0, 2, 0x6c, 9, 0xa0, 0], "nearest to 1.16 Mbit/s, channel 1, no FCS");
        let far = Reception { rate: BitRate(u64::MAX), channel: u32::MAX, ..reception() };
        assert_eq!(tail(far)[1..4], [255; 3]);
    }

    #[test]
    fn headers_are_the_standards() {
        let us = Duration::from_micros;
        let msdu = [0x11, 0x22];
        let data = |to, retry| Frame::Data { to, from: 0x0102, sequence: 0xabc, retry, msdu: &msdu };
        #[rustfmt::skip]
        let table: [(Frame<'_>, Duration, &[u8]); 6] = [
            (Frame::Rts { to: 1, from: 0x0a0b_0c0d }, us(1000),
                &[0xb4, 0, 0xe8, 3, 2, 0, 0, 0, 0, 1, 2, 0, 0x0a, 0x0b, 0x0c, 0x0d]),
            (Frame::Cts { to: 2 }, us(300), &[0xc4, 0, 0x2c, 1, 2, 0, 0, 0, 0, 2]),
            (Frame::Ack { to: 3 }, us(0), &[0xd4, 0, 0, 0, 2, 0, 0, 0, 0, 3]),
            (data(Some(1), false), Duration::from_nanos(43_001),
                &[0x08, 0, 44, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 2, 2, 0x6c, 0x69, 0x6e, 0x6b, 0x68, 0xc0, 0xab, 0x11, 0x22]),
            (data(Some(1), true), us(44),
                &[0x08, 8, 44, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 2, 2, 0x6c, 0x69, 0x6e, 0x6b, 0x68, 0xc0, 0xab, 0x11, 0x22]),
            (data(None, false), us(0),
                &[0x08, 0, 0, 0, 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 1, 2, 2, 0x6c, 0x69, 0x6e, 0x6b, 0x68, 0xc0, 0xab, 0x11, 0x22]),
        ];
        for (frame, reserved, expected) in table {
            let bytes = bytes(&frame, reserved);
            let (mac, fcs) = bytes[RADIOTAP_LEN..].split_at(expected.len());
            assert_eq!((mac, fcs.len()), (expected, FCS_LEN), "{frame:?}");
            assert_eq!(crc32fast::hash(&bytes[RADIOTAP_LEN..]), RESIDUE, "{frame:?}");
        }
        assert_eq!(duration_field(Duration::MAX), 0x7fff, "bit 15 means something else");
        let nothing = Frame::Data { to: Some(1), from: 2, sequence: 0, retry: true, msdu: &[] };
        assert_eq!(bytes(&nothing, us(0))[RADIOTAP_LEN..][..2], [0x48, 8]);
    }

    #[test]
    fn data_carries_llc_and_snap_and_a_packet() {
        let mut carried = Vec::new();
        msdu(Carried::Segment(&segment(1000)), &mut carried).expect("it fits");
        assert_eq!(carried[..LLC_LEN], [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        assert_eq!(carried.len(), LLC_LEN + 1040);
        let parsed = crate::parse_ip_tcp(&carried[LLC_LEN..]).expect("a packet");
        assert_eq!((parsed.tcp.seq, parsed.tcp.payload_len), (Seq(77), 1000));
        let whole = bytes(
            &Frame::Data { to: Some(0), from: 1, sequence: 0, retry: false, msdu: &carried },
            Duration::ZERO,
        );
        assert_eq!(whole.len(), RADIOTAP_LEN + MAC_HEADER_LEN + LLC_LEN + 1040 + FCS_LEN);

        let six = |port| Endpoint { addr: IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, port]), port };
        let datagram = DatagramSpec { src: six(1), dst: six(2), payload_len: 12, ecn: Ecn::NotEct };
        carried.clear();
        msdu(Carried::Datagram(&datagram), &mut carried).expect("it fits");
        assert_eq!((&carried[6..9], carried.len()), (&[0x86, 0xdd, 0x60][..], LLC_LEN + 40 + 8 + 12));
    }

    #[test]
    fn a_datagram_with_its_payload_has_a_right_checksum() {
        let end = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
        let udp = UdpSpec { src: end(2, 654), dst: end(3, 654), ttl: 5, payload: &[1, 2, 3] };
        let mut carried = Vec::new();
        msdu(Carried::Udp(&udp), &mut carried).expect("it fits");
        let ip = smoltcp::wire::Ipv4Packet::new_checked(&carried[LLC_LEN..]).expect("a packet");
        assert!(ip.verify_checksum());
        assert_eq!((ip.hop_limit(), ip.total_len()), (5, 31));
        let datagram = smoltcp::wire::UdpPacket::new_checked(ip.payload()).expect("a datagram");
        assert!(datagram.verify_checksum(&ip.src_addr().into(), &ip.dst_addr().into()));
        assert_eq!((datagram.src_port(), datagram.payload()), (654, &[1, 2, 3][..]));
        let long = UdpSpec { payload: &[0; 65_536], ..udp };
        let before = carried.clone();
        assert_eq!(msdu(Carried::Udp(&long), &mut carried), Err(EmitError::TooLong));
        assert_eq!(carried, before, "nothing is appended");
    }

    proptest! {
        /// Whatever it is made of, a whole frame checks, and one that is cut has no FCS.
        #[test]
        fn every_frame_has_its_length_and_checks(
            (to, from, sequence, retry, kind) in any::<(Option<u32>, u32, u16, bool, u8)>(),
            (nanos, bps, channel, whole, dsss, reserved) in any::<(u64, u64, u32, bool, bool, u64)>(),
            msdu in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let receiver = to.unwrap_or(0);
            let (of, length) = match kind % 4 {
                0 => (Frame::Rts { to: receiver, from }, 16),
                1 => (Frame::Cts { to: receiver }, 10),
                2 => (Frame::Ack { to: receiver }, 10),
                _ => (Frame::Data { to, from, sequence, retry, msdu: &msdu }, MAC_HEADER_LEN + msdu.len()),
            };
            let band = if dsss { Band::Dsss } else { Band::Ofdm };
            let reception =
                Reception { first_bit: Instant::from_nanos(nanos), rate: BitRate(bps), band, channel, whole };
            let mut bytes = Vec::new();
            frame(&reception, &of, Duration::from_nanos(reserved), &mut bytes);
            let mac = &bytes[RADIOTAP_LEN..];
            prop_assert_eq!(mac.len(), length + if whole { FCS_LEN } else { 0 });
            prop_assert_eq!(crc32fast::hash(mac) == RESIDUE, whole);
            prop_assert!(mac[3] < 0x80);
        }
    }
}
