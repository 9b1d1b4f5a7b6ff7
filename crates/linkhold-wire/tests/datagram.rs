//! Headers of UDP datagrams, read back by smoltcp's parser and by tshark.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use linkhold_core::packet::{Ecn, Endpoint};
use linkhold_core::time::Instant;
use linkhold_wire::{DatagramSpec, EmitError, PcapngWriter, datagram_len, emit_datagram};
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
    let output = Command::new("tshark").arg("-r").arg(&file).args(fields).env("HOME", folder.path()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: tshark is not installed");
            return;
        }
        Err(error) => panic!("tshark does not start: {error}"),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "1008\t32768\t1028\t\n1008\t32768\t1048\t\n");
}
