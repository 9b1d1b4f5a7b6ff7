//! Headers of UDP datagrams, read back by smoltcp's parser and by tshark.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkhold_core::packet::{Direction, Ecn, Endpoint};
use linkhold_core::time::Instant;
use linkhold_testing::tshark;
use linkhold_wire::{
    DatagramSpec, EmitError, ParseError, Parsed, PcapngWriter, datagram_len, emit_datagram, parse_ip_headers,
    parse_ip_tcp_headers,
};
use proptest::prelude::*;
use smoltcp::wire::{IpAddress, Ipv4Packet, Ipv6Packet, UdpPacket};

const V4: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 2)),
];

fn spec([src, dst]: [IpAddr; 2], ports: [u16; 2], payload_len: u32) -> DatagramSpec {
    DatagramSpec {
        src: Endpoint { addr: src, port: ports[0] },
        dst: Endpoint { addr: dst, port: ports[1] },
        payload_len,
        ecn: Ecn::NotEct,
    }
}

proptest! {
    #[test]
    fn a_parser_reads_back_what_was_written_with_its_zeros(
        v6: bool,
        ports in prop::array::uniform2(1_u16..),
        payload_len in 0_u32..1500,
    ) {
        let ends = if v6 { V6 } else { V4 };
        let spec = spec(ends, ports, payload_len);
        let mut buffer = vec![0xaa; 100];
        let written = emit_datagram(&spec, &mut buffer).unwrap();
        buffer.truncate(written);
        buffer.resize(written + payload_len as usize, 0);
        prop_assert_eq!(buffer.len(), datagram_len(&spec));
        let payload = if v6 {
            let packet = Ipv6Packet::new_checked(&buffer[..]).unwrap();
            prop_assert_eq!(IpAddr::from(packet.src_addr()), ends[0]);
            packet.payload()
        } else {
            let packet = Ipv4Packet::new_checked(&buffer[..]).unwrap();
            prop_assert!(packet.verify_checksum());
            prop_assert_eq!(packet.total_len() as usize, buffer.len());
            packet.payload()
        };
        let udp = UdpPacket::new_checked(payload).unwrap();
        prop_assert!(udp.checksum() != 0, "zero would mean that there is none");
        prop_assert!(udp.verify_checksum(&IpAddress::from(ends[0]), &IpAddress::from(ends[1])));
        prop_assert_eq!([udp.src_port(), udp.dst_port()], ports);
        prop_assert_eq!(udp.payload().len(), payload_len as usize);
        // Our own parser needs the headers only.
        for bytes in [&buffer[..], &buffer[..written]] {
            let Ok(Parsed::Udp(parsed)) = parse_ip_headers(bytes) else { panic!("{bytes:?}") };
            prop_assert_eq!((parsed.src, parsed.dst, parsed.ecn), (spec.src, spec.dst, spec.ecn));
            prop_assert_eq!(parsed.ip_len as usize, buffer.len());
            let (down, up) = (parsed.flow(Direction::Downlink), parsed.flow(Direction::Uplink));
            prop_assert_eq!((down.station, up.station), (spec.dst, spec.src));
        }
        prop_assert_eq!(parse_ip_tcp_headers(&buffer), Err(ParseError::NotTcp));
    }

    #[test]
    fn damaged_datagrams_never_panic_and_lengths_stay_inside(
        v6: bool,
        payload_len in 0_u32..200,
        edits in proptest::collection::vec((0_usize..60, any::<u8>()), 0..6),
        cut in 0_usize..260,
    ) {
        let mut bytes = datagram(v6, payload_len);
        for (at, value) in edits {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(cut);
        if let Ok(Parsed::Udp(parsed)) = parse_ip_headers(&bytes) {
            prop_assert!(parsed.ip_len >= 28 && bytes.len() >= 28);
        }
    }
}

/// A whole datagram.
fn datagram(v6: bool, payload_len: u32) -> Vec<u8> {
    let spec = spec(if v6 { V6 } else { V4 }, [443, 5000], payload_len);
    let mut bytes = vec![0; datagram_len(&spec)];
    emit_datagram(&spec, &mut bytes).expect("a datagram that fits");
    bytes
}

#[test]
fn fragments_other_protocols_and_impossible_lengths_are_refused() {
    let edited = |v6, edits: &[(usize, u8)]| {
        let mut bytes = datagram(v6, 20);
        edits.iter().for_each(|&(at, value)| bytes[at] = value);
        parse_ip_headers(&bytes)
    };
    assert!(edited(false, &[]).is_ok() && edited(true, &[]).is_ok());
    // More fragments; a later fragment; the fragment header of IPv6 (44).
    assert_eq!(edited(false, &[(6, 0x20)]), Err(ParseError::Fragment));
    assert_eq!(edited(false, &[(7, 3)]), Err(ParseError::Fragment));
    assert_eq!(edited(true, &[(6, 44)]), Err(ParseError::Fragment));
    // ICMP, such as an error about a datagram; ICMPv6.
    assert_eq!(edited(false, &[(9, 1)]), Err(ParseError::NotTcp));
    assert_eq!(edited(true, &[(6, 58)]), Err(ParseError::NotTcp));
    // UDP lengths: shorter than the header, zero, and longer than the packet.
    for (at, v6) in [(24, false), (44, true)] {
        for length in [[0, 7], [0, 0], [0, 29], [255, 255]] {
            assert_eq!(edited(v6, &[(at, length[0]), (at + 1, length[1])]), Err(ParseError::BadHeader));
        }
        // Shorter than the packet: the rest is padding.
        assert!(edited(v6, &[(at, 0), (at + 1, 12)]).is_ok());
    }
    for cut in 0..28 {
        assert!(parse_ip_headers(&datagram(false, 20)[..cut]).is_err());
    }
}

#[test]
fn what_has_no_form_on_the_wire_is_refused() {
    let mut buffer = [0; 100];
    let mixed = spec([V4[0], V6[1]], [1, 2], 10);
    assert_eq!(emit_datagram(&mixed, &mut buffer), Err(EmitError::MixedFamilies));
    assert_eq!(emit_datagram(&spec(V4, [1, 2], 65_508), &mut buffer), Err(EmitError::TooLong));
    assert_eq!(emit_datagram(&spec(V4, [1, 2], 65_507), &mut buffer), Ok(28));
    assert_eq!(emit_datagram(&spec(V6, [1, 2], 10), &mut buffer[..20]), Err(EmitError::BufferTooSmall(48)));
}

#[test]
fn tshark_reads_the_length_and_finds_nothing_malformed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pcapng");
    let mut writer = PcapngWriter::new(Vec::new(), "datagrams", 64).unwrap();
    let interface = writer.add_interface("wire", "the wire").unwrap();
    for ends in [V4, V6] {
        writer
            .datagram(interface, Instant::from_millis(1), &spec(ends, [5001, 32_768], 1_000), None)
            .unwrap();
    }
    std::fs::write(&file, writer.finish().unwrap()).unwrap();
    let fields =
        ["-T", "fields", "-e", "udp.length", "-e", "udp.dstport", "-e", "frame.len", "-e", "_ws.malformed"];
    let Some(text) = tshark(&file, &fields) else { return };
    assert_eq!(text, "1008\t32768\t1028\t\n1008\t32768\t1048\t\n");
}
