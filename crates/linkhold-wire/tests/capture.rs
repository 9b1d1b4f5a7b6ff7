//! tshark opens the captures and finds nothing wrong with them.
// Helper functions outside #[test] may unwrap as the tests do.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::process::Command;

use linkhold_core::packet::{Ecn, Endpoint, SackBlock, SynOptions, TcpFlags, TcpSegment, TcpTimestamp};
use linkhold_core::time::Instant;
use linkhold_core::units::Seq;
use linkhold_testing::tshark;
use linkhold_wire::{PacketSpec, Payload, PcapngWriter, emit, packet_len};

fn end(addr: &str, port: u16) -> Endpoint {
    Endpoint { addr: addr.parse::<IpAddr>().unwrap(), port }
}

/// A handshake, data, a SACK and a FIN between two ends.
fn dialogue(a: Endpoint, b: Endpoint) -> Vec<PacketSpec> {
    let timestamp = Some(TcpTimestamp { value: 1, echo: 0 });
    let syn = SynOptions { mss: Some(1460), window_scale: Some(7), sack_permitted: true };
    let base = TcpSegment { window: 512, timestamp, ..TcpSegment::default() };
    let mut sack = linkhold_core::packet::SackBlocks::EMPTY;
    sack.push(SackBlock { left: Seq(3001), right: Seq(4449) });
    let forward = [
        TcpSegment { seq: Seq(1000), flags: TcpFlags::SYN, syn, ..base },
        TcpSegment { seq: Seq(1001), ack: Seq(5001), flags: TcpFlags::ACK, ..base },
        TcpSegment { seq: Seq(1001), ack: Seq(5001), flags: TcpFlags::ACK, payload_len: 1448, ..base },
        TcpSegment { seq: Seq(2449), ack: Seq(5001), flags: TcpFlags::ACK | TcpFlags::FIN, ..base },
    ];
    let back = [
        TcpSegment { seq: Seq(5000), ack: Seq(1001), flags: TcpFlags::SYN | TcpFlags::ACK, syn, ..base },
        TcpSegment { seq: Seq(5001), ack: Seq(2449), flags: TcpFlags::ACK, sack, ..base },
    ];
    let spec = |src, dst, tcp| PacketSpec { src, dst, tcp, ecn: Ecn::Ect0 };
    vec![
        spec(a, b, forward[0]),
        spec(b, a, back[0]),
        spec(a, b, forward[1]),
        spec(a, b, forward[2]),
        spec(b, a, back[1]),
        spec(a, b, forward[3]),
    ]
}

fn capture() -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "scenario 'test', case none, seed 1", 0).unwrap();
    let wire = writer.add_interface("wire", "between correspondent hosts and base station").unwrap();
    let air = writer.add_interface("air0", "station 0").unwrap();
    let flows = [("10.0.0.1", "10.0.1.1"), ("fd00::1", "fd00:1::1")];
    let mut nanos = 0;
    for (a, b) in flows {
        for spec in dialogue(end(a, 80), end(b, 4000)) {
            nanos += 1_000_000_001;
            let at = Instant::from_nanos(nanos);
            writer.segment(wire, at, &spec, (nanos % 2 == 0).then_some("held 25 ms")).unwrap();
            let mut bytes = vec![0; packet_len(&spec)];
            emit(&spec, Payload::Zeros, &mut bytes).unwrap();
            writer.packet(air, at, &bytes, None).unwrap();
        }
    }
    writer.finish().unwrap()
}

#[test]
fn equal_packets_are_equal_bytes_and_payload_is_left_out() {
    let bytes = capture();
    assert_eq!(bytes, capture());
    // 24 packets, of which 4 carry 1448 bytes of payload.
    assert!(bytes.len() < 24 * 200, "{} bytes", bytes.len());
}

#[test]
fn tshark_finds_no_malformed_packet_and_no_wrong_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pcapng");
    std::fs::write(&file, capture()).unwrap();
    let fields = [
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.interface_name",
        "-e",
        "tcp.checksum.status",
        "-e",
        "ip.checksum.status",
        "-e",
        "tcp.len",
        "-e",
        "frame.len",
        "-e",
        "tcp.options.mss_val",
        "-e",
        "frame.comment",
        "-e",
        "_ws.malformed",
    ];
    let Some(text) = tshark(&file, &fields) else { return };
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 24, "{text}");
    // Packet 4 of each flow carries the data.
    for (index, row) in rows.iter().enumerate() {
        let packet = index / 2;
        let [time, interface, tcp_sum, ip_sum, tcp_len, frame_len, mss, comment, malformed] = row[..] else {
            panic!("{row:?}")
        };
        let n = packet + 1;
        assert_eq!(time, format!("{n}.{n:09}"));
        assert_eq!(interface, if index % 2 == 0 { "wire" } else { "air0" });
        // tshark's checksum status: 1 is good; 2 is not checked, here because the payload is cut off.
        let whole = packet % 6 != 3;
        assert_eq!(tcp_sum, if whole { "1" } else { "2" }, "{row:?}");
        assert_eq!(ip_sum, if packet < 6 { "1" } else { "" }, "{row:?}");
        assert_eq!(tcp_len, if packet % 6 == 3 { "1448" } else { "0" });
        let ip = if packet < 6 { 20 } else { 40 };
        if packet % 6 == 3 {
            assert_eq!(frame_len, (ip + 32 + 1448).to_string());
        }
        assert_eq!(mss, if packet % 6 < 2 { "1460" } else { "" });
        assert_eq!(comment, if index % 2 == 0 && n % 2 == 0 { "held 25 ms" } else { "" });
        assert_eq!(malformed, "");
    }
    let errors =
        tshark(&file, &["-Y", "_ws.expert.severity >= 8388608", "-T", "fields", "-e", "_ws.expert.message"]);
    assert_eq!(errors.as_deref(), Some(""), "expert items of severity error");
}

#[test]
fn without_tshark_the_test_says_that_it_is_skipped() {
    let test = "tshark_finds_no_malformed_packet_and_no_wrong_checksum";
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).args(["--exact", test]).env("PATH", "").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told, format!("skipped: {test}: tshark is not installed\n"));
}
