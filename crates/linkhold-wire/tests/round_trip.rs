//! Emission, parsing and rewriting agree with each other on any packet.
// Helper functions outside #[test] may unwrap as the tests do.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkhold_core::action::{AckSpec, Rewrite};
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, SackBlock, SackBlocks, SynOptions, TcpFlags, TcpSegment, TcpTimestamp,
};
use linkhold_core::units::Seq;
use linkhold_wire::{
    EmitError, PacketSpec, ParseError, Payload, RewriteError, TcpChecksum, apply_rewrite, build_ack, emit,
    fill_tcp_checksum, packet_len, parse_ip_tcp, parse_ip_tcp_headers, set_endpoints, verify_checksums,
};
use proptest::prelude::*;

fn v4(last: u8, port: u16) -> Endpoint {
    Endpoint { addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port }
}

fn v6(last: u16, port: u16) -> Endpoint {
    Endpoint { addr: IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last)), port }
}

fn ecn() -> impl Strategy<Value = Ecn> {
    prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)]
}

fn sack(most: usize) -> impl Strategy<Value = SackBlocks> {
    proptest::collection::vec((any::<u32>(), any::<u32>()), 0..=most).prop_map(|blocks| {
        let mut sack = SackBlocks::EMPTY;
        for (left, right) in blocks {
            assert!(sack.push(SackBlock { left: Seq(left), right: Seq(right) }));
        }
        sack
    })
}

prop_compose! {
    fn segment()(
        seq: u32, ack: u32, payload_len in 0_u32..3000, window: u16, flags: u8,
        timestamp in proptest::option::of((any::<u32>(), any::<u32>())),
        four in sack(4), three in sack(3),
        mss in proptest::option::of(any::<u16>()), window_scale in proptest::option::of(0_u8..=14),
        sack_permitted: bool,
    ) -> TcpSegment {
        let flags = TcpFlags(flags);
        let syn = flags.contains(TcpFlags::SYN);
        let timestamp = timestamp.map(|(value, echo)| TcpTimestamp { value, echo });
        // 40 bytes of options hold four SACK blocks, or three beside a timestamp. A SYN has none.
        let sack = match (syn, timestamp) {
            (true, _) => SackBlocks::EMPTY,
            (false, Some(_)) => three,
            (false, None) => four,
        };
        TcpSegment {
            seq: Seq(seq), ack: Seq(ack), payload_len, window, flags, timestamp, sack,
            syn: if syn { SynOptions { mss, window_scale, sack_permitted } } else { SynOptions::default() },
            signed: false,
        }
    }
}

prop_compose! {
    fn packet()(tcp in segment(), ecn in ecn(), is_v6: bool, a: u8, b: u8, ports: (u16, u16)) -> PacketSpec {
        let (src, dst) = if is_v6 {
            (v6(u16::from(a), ports.0), v6(u16::from(b), ports.1))
        } else {
            (v4(a, ports.0), v4(b, ports.1))
        };
        PacketSpec { src, dst, tcp, ecn }
    }
}

fn bytes_of(spec: &PacketSpec) -> Vec<u8> {
    let mut buffer = vec![0xaa; packet_len(spec)];
    let payload: Vec<u8> = (0..spec.tcp.payload_len).map(|i| (i * 7) as u8).collect();
    assert_eq!(emit(spec, Payload::Bytes(&payload), &mut buffer), Ok(buffer.len()));
    buffer
}

proptest! {
    #[test]
    fn what_is_emitted_parses_to_the_same_packet(spec in packet()) {
        let bytes = bytes_of(&spec);
        let parsed = parse_ip_tcp(&bytes).unwrap();
        prop_assert_eq!((parsed.src, parsed.dst, parsed.ecn), (spec.src, spec.dst, spec.ecn));
        prop_assert_eq!(parsed.tcp, spec.tcp);
        prop_assert_eq!(parsed.ip_len as usize, bytes.len());
        prop_assert_eq!(parsed.tcp_header_len, spec.tcp.header_len() as usize);
        prop_assert_eq!(parsed.payload_offset() + spec.tcp.payload_len as usize, bytes.len());
        prop_assert!(verify_checksums(&bytes).unwrap());
        let smoltcp_agrees = smoltcp::wire::TcpPacket::new_checked(&bytes[parsed.tcp_offset..])
            .unwrap()
            .verify_checksum(&spec.src.addr.into(), &spec.dst.addr.into());
        prop_assert!(smoltcp_agrees);
    }

    #[test]
    fn headers_of_an_omitted_payload_are_those_of_zeros(spec in packet()) {
        let mut whole = vec![0xaa; packet_len(&spec)];
        emit(&spec, Payload::Zeros, &mut whole).unwrap();
        prop_assert!(verify_checksums(&whole).unwrap());
        let mut headers = [0xaa; 100];
        let written = emit(&spec, Payload::Omitted, &mut headers).unwrap();
        prop_assert_eq!(&headers[..written], &whole[..written]);
        prop_assert_eq!(parse_ip_tcp_headers(&headers[..written]), parse_ip_tcp(&whole));
        if spec.tcp.payload_len > 0 {
            prop_assert_eq!(parse_ip_tcp(&headers[..written]), Err(ParseError::Truncated));
        }
    }

    #[test]
    fn a_rewrite_changes_what_it_says_and_keeps_the_checksums_right(
        spec in packet(), window: u16, change_window: bool, set_ece: bool, mark_ce: bool,
    ) {
        let rewrite = Rewrite {
            window: change_window.then_some(window.min(spec.tcp.window)),
            set_ece,
            mark_ce: mark_ce && spec.ecn != Ecn::NotEct,
        };
        let before = bytes_of(&spec);
        let mut after = before.clone();
        apply_rewrite(&mut after, rewrite, TcpChecksum::Complete).unwrap();
        prop_assert!(verify_checksums(&after).unwrap());

        let parsed = parse_ip_tcp(&after).unwrap();
        let mut expected = spec.tcp;
        expected.window = rewrite.window.unwrap_or(expected.window);
        if set_ece {
            expected.flags = expected.flags | TcpFlags::ECE;
        }
        prop_assert_eq!(parsed.tcp, expected);
        prop_assert_eq!(parsed.ecn, if rewrite.mark_ce { Ecn::Ce } else { spec.ecn });
        prop_assert_eq!(&after[parsed.payload_offset()..], &before[parsed.payload_offset()..]);
    }

    #[test]
    fn a_packet_with_other_ends_is_the_packet_that_these_ends_would_send(spec in packet(), other in packet()) {
        let mut bytes = bytes_of(&spec);
        let before = bytes.clone();
        let same_family = spec.src.addr.is_ipv4() == other.src.addr.is_ipv4();
        let set = set_endpoints(&mut bytes, other.src, other.dst);
        prop_assert_eq!(set.is_ok(), same_family);
        let expected = if same_family { bytes_of(&PacketSpec { src: other.src, dst: other.dst, ..spec }) } else { before };
        prop_assert_eq!(&bytes, &expected);
        // Of a packet that is not whole nothing is changed.
        bytes.pop();
        let cut = bytes.clone();
        prop_assert!(set_endpoints(&mut bytes, spec.src, spec.dst).is_err());
        prop_assert_eq!(bytes, cut);
    }

    #[test]
    fn a_partial_checksum_completed_after_a_rewrite_is_right(spec in packet(), window: u16) {
        let mut bytes = bytes_of(&spec);
        let parsed = parse_ip_tcp(&bytes).unwrap();
        let field = parsed.tcp_offset + 16;
        bytes[field..field + 2].copy_from_slice(&0x1234_u16.to_be_bytes());
        let rewrite = Rewrite { window: Some(window.min(spec.tcp.window)), set_ece: true, mark_ce: false };
        apply_rewrite(&mut bytes, rewrite, TcpChecksum::Partial).unwrap();
        prop_assert_eq!(&bytes[field..field + 2], &0x1234_u16.to_be_bytes());
        fill_tcp_checksum(&mut bytes).unwrap();
        prop_assert!(verify_checksums(&bytes).unwrap());
    }

    #[test]
    fn an_ack_is_built_as_asked(
        seq: u32, ack: u32, window: u16, ece: bool, is_v6: bool, uplink: bool,
        timestamp in proptest::option::of((any::<u32>(), any::<u32>())),
    ) {
        let flow = if is_v6 {
            FlowKey { correspondent: v6(1, 80), station: v6(2, 4000) }
        } else {
            FlowKey { correspondent: v4(1, 80), station: v4(2, 4000) }
        };
        let direction = if uplink { Direction::Uplink } else { Direction::Downlink };
        let timestamp = timestamp.map(|(value, echo)| TcpTimestamp { value, echo });
        let spec = AckSpec { flow, direction, seq: Seq(seq), ack: Seq(ack), window, timestamp, ece };
        let mut buffer = [0; 100];
        let len = build_ack(&spec, &mut buffer).unwrap();
        let parsed = parse_ip_tcp(&buffer[..len]).unwrap();
        prop_assert!(verify_checksums(&buffer[..len]).unwrap());
        prop_assert!(parsed.tcp.is_pure_ack());
        prop_assert_eq!(parsed.flow(direction), flow);
        prop_assert_eq!((parsed.tcp.seq, parsed.tcp.ack, parsed.tcp.window), (Seq(seq), Seq(ack), window));
        prop_assert_eq!((parsed.tcp.timestamp, parsed.ecn), (timestamp, Ecn::NotEct));
        prop_assert_eq!(parsed.tcp.flags.contains(TcpFlags::ECE), ece);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0_u8..3) {
        // Two inputs of three start like IPv4 or IPv6; otherwise the version would end nearly all.
        if let (Some(first), 1..) = (bytes.first_mut(), version) {
            *first = if version == 1 { 0x45 } else { 0x60 };
        }
        let _ = (parse_ip_tcp(&bytes), parse_ip_tcp_headers(&bytes), verify_checksums(&bytes));
        let _ = apply_rewrite(&mut bytes, Rewrite { window: Some(0), set_ece: true, mark_ce: true }, TcpChecksum::Complete);
        let _ = fill_tcp_checksum(&mut bytes);
    }

    #[test]
    fn mutated_packets_never_panic_and_lengths_stay_inside(
        spec in packet(), edits in proptest::collection::vec((0_usize..120, any::<u8>()), 0..6), cut in 0_usize..3200,
    ) {
        let mut bytes = bytes_of(&spec);
        for (at, value) in edits {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(cut);
        if let Ok(parsed) = parse_ip_tcp(&bytes) {
            prop_assert!(parsed.ip_len as usize <= bytes.len());
            prop_assert_eq!(parsed.payload_offset() + parsed.tcp.payload_len as usize, parsed.ip_len as usize);
        }
        let _ = (parse_ip_tcp_headers(&bytes), verify_checksums(&bytes));
        let _ = apply_rewrite(&mut bytes, Rewrite { window: Some(0), set_ece: true, mark_ce: true }, TcpChecksum::Complete);
        let _ = fill_tcp_checksum(&mut bytes);
    }
}

fn plain_v6() -> PacketSpec {
    let tcp = TcpSegment { payload_len: 10, flags: TcpFlags::ACK, window: 500, ..TcpSegment::default() };
    PacketSpec { src: v6(1, 80), dst: v6(2, 4000), tcp, ecn: Ecn::Ect0 }
}

/// `packet` with extension headers of these kinds, 8 bytes each, before TCP.
fn with_extensions(packet: &[u8], kinds: &[u8]) -> Vec<u8> {
    let mut out = packet[..40].to_vec();
    out[6] = kinds[0];
    for (i, _) in kinds.iter().enumerate() {
        out.extend([kinds.get(i + 1).copied().unwrap_or(6), 0, 1, 4, 0, 0, 0, 0]);
    }
    out.extend(&packet[40..]);
    let payload = (out.len() - 40) as u16;
    out[4..6].copy_from_slice(&payload.to_be_bytes());
    out
}

#[test]
fn ipv6_extension_headers_are_stepped_over_up_to_a_bound() {
    let plain = bytes_of(&plain_v6());
    for kinds in [&[0_u8][..], &[43], &[60], &[0, 60, 43, 60]] {
        let bytes = with_extensions(&plain, kinds);
        let parsed = parse_ip_tcp(&bytes).unwrap();
        assert_eq!((parsed.tcp_offset, parsed.tcp.payload_len), (40 + 8 * kinds.len(), 10), "{kinds:?}");
        let mut rewritten = bytes.clone();
        apply_rewrite(&mut rewritten, Rewrite::window(0), TcpChecksum::Complete).unwrap();
        assert!(verify_checksums(&rewritten).unwrap());
    }
    assert_eq!(parse_ip_tcp(&with_extensions(&plain, &[60; 7])), Err(ParseError::NotTcp));
    assert_eq!(parse_ip_tcp(&with_extensions(&plain, &[44])), Err(ParseError::Fragment));
    assert_eq!(parse_ip_tcp(&with_extensions(&plain, &[51])), Err(ParseError::NotTcp));
}

#[test]
fn what_is_no_whole_tcp_packet_is_refused_with_the_reason() {
    let good = bytes_of(&PacketSpec { src: v4(1, 1), dst: v4(2, 2), ..plain_v6() });
    let edited = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        parse_ip_tcp(&bytes)
    };
    assert!(parse_ip_tcp(&good).is_ok());
    assert_eq!(parse_ip_tcp(&[]), Err(ParseError::Truncated));
    assert_eq!(parse_ip_tcp(&good[..30]), Err(ParseError::Truncated));
    assert_eq!(parse_ip_tcp(&good[..good.len() - 1]), Err(ParseError::Truncated));
    assert_eq!(edited(0, 0x55), Err(ParseError::Version(5)));
    assert_eq!(edited(0, 0x44), Err(ParseError::BadHeader), "IHL below 5");
    assert_eq!(edited(3, 10), Err(ParseError::BadHeader), "total length below the header's");
    assert_eq!(edited(6, 0x20), Err(ParseError::Fragment), "more fragments");
    assert_eq!(edited(7, 1), Err(ParseError::Fragment), "fragment offset");
    assert_eq!(edited(9, 17), Err(ParseError::NotTcp), "UDP");
    assert_eq!(edited(32, 0x40), Err(ParseError::BadHeader), "data offset below 5");
    assert_eq!(edited(32, 0xf0), Err(ParseError::BadHeader), "data offset beyond the packet");
}

#[test]
fn bytes_behind_the_packet_are_padding() {
    let mut bytes = bytes_of(&PacketSpec { src: v4(1, 1), dst: v4(2, 2), ..plain_v6() });
    let parsed = parse_ip_tcp(&bytes).unwrap();
    bytes.extend([0xff; 6]);
    assert_eq!(parse_ip_tcp(&bytes).unwrap(), parsed);
    assert!(verify_checksums(&bytes).unwrap());
}

#[test]
fn a_broken_option_ends_the_list_and_keeps_what_came_before() {
    let mut spec = plain_v6();
    spec.tcp.timestamp = Some(TcpTimestamp { value: 7, echo: 8 });
    spec.tcp.sack.push(SackBlock { left: Seq(1), right: Seq(2) });
    let mut bytes = bytes_of(&spec);
    let sack = 40 + 20 + 10;
    assert_eq!(bytes[sack..sack + 2], [5, 10]);
    bytes[sack + 1] = 200;
    let parsed = parse_ip_tcp(&bytes).unwrap();
    assert_eq!(parsed.tcp.timestamp, spec.tcp.timestamp);
    assert!(parsed.tcp.sack.is_empty());
}

/// Bytes of a SYN with these options, padded.
fn syn_with(options: &[u8]) -> Vec<u8> {
    let mut bytes =
        bytes_of(&PacketSpec { tcp: TcpSegment { payload_len: 0, ..plain_v6().tcp }, ..plain_v6() });
    bytes.truncate(40 + 20);
    let length = options.len().next_multiple_of(4);
    bytes.extend(options);
    bytes.resize(40 + 20 + length, 0);
    bytes[4..6].copy_from_slice(&(20 + length as u16).to_be_bytes());
    bytes[40 + 12] = ((20 + length) as u8 / 4) << 4;
    bytes[40 + 13] = TcpFlags::SYN.0;
    bytes
}

#[test]
fn an_option_of_another_length_than_its_kinds_hides_none_behind_it() {
    let wrong: [&[u8]; 6] = [&[2, 3, 0], &[2, 2], &[3, 2], &[4, 3, 0], &[5, 2], &[8, 4, 0, 0]];
    let signature = [[19, 18].as_slice(), &[7; 16]].concat();
    for wrong in wrong {
        let parse =
            |behind: &[u8]| parse_ip_tcp(&syn_with(&[wrong, behind].concat())).expect("a segment").tcp;
        assert_eq!(parse(&[3, 3, 7]).syn.window_scale, Some(7), "{wrong:?}");
        assert!(parse(&signature).signed, "{wrong:?}");
    }
    // Of these nobody knows where the next one begins.
    let endless: [&[u8]; 3] = [&[2, 1], &[5, 0], &[8, 255]];
    for endless in endless {
        let tcp = parse_ip_tcp(&syn_with(&[endless, &[3, 3, 7]].concat())).expect("a segment").tcp;
        assert_eq!(tcp.syn.window_scale, None, "{endless:?}");
    }
}

#[test]
fn a_refused_rewrite_leaves_the_packet_as_it_was() {
    let spec = PacketSpec { ecn: Ecn::NotEct, ..plain_v6() };
    let before = bytes_of(&spec);
    let mut bytes = before.clone();
    assert_eq!(
        apply_rewrite(&mut bytes, Rewrite::window(501), TcpChecksum::Complete),
        Err(RewriteError::WindowGrows { have: 500, want: 501 })
    );
    let mark = Rewrite { window: Some(0), set_ece: true, mark_ce: true };
    assert_eq!(apply_rewrite(&mut bytes, mark, TcpChecksum::Complete), Err(RewriteError::NotEcnCapable));
    assert_eq!(bytes, before);
}

#[test]
fn what_has_no_wire_form_is_not_emitted() {
    let spec = plain_v6();
    let mut buffer = vec![0; 70_000];
    let mixed = PacketSpec { src: v4(1, 1), ..spec };
    assert_eq!(emit(&mixed, Payload::Zeros, &mut buffer), Err(EmitError::MixedFamilies));
    let long = PacketSpec { tcp: TcpSegment { payload_len: 65_536, ..spec.tcp }, ..spec };
    assert_eq!(emit(&long, Payload::Zeros, &mut buffer), Err(EmitError::TooLong));
    assert_eq!(emit(&spec, Payload::Bytes(&[1]), &mut buffer), Err(EmitError::PayloadLength));
    assert_eq!(emit(&spec, Payload::Zeros, &mut [0; 69]), Err(EmitError::BufferTooSmall(70)));
    let mut tcp = TcpSegment { timestamp: Some(TcpTimestamp { value: 1, echo: 2 }), ..spec.tcp };
    while tcp.sack.push(SackBlock::default()) {}
    assert_eq!(
        emit(&PacketSpec { tcp, ..spec }, Payload::Zeros, &mut buffer),
        Err(EmitError::TooManyOptions)
    );
}

/// Two SACK blocks take as many bytes as a TCP-MD5 option, so that a change of the kind makes one of them.
#[test]
fn a_signature_is_told() {
    let mut sack = SackBlocks::EMPTY;
    for n in [1, 3] {
        assert!(sack.push(SackBlock { left: Seq(n), right: Seq(n + 1) }));
    }
    let timestamp = Some(TcpTimestamp { value: 7, echo: 8 });
    let tcp = TcpSegment { flags: TcpFlags::ACK, sack, timestamp, ..TcpSegment::default() };
    let spec = PacketSpec { src: v4(1, 1), dst: v4(2, 2), tcp, ecn: Ecn::NotEct };
    let bytes = bytes_of(&spec);
    assert!(!parse_ip_tcp(&bytes).unwrap().tcp.signed);
    let kind = bytes.windows(2).rposition(|pair| pair == [5, 18]).unwrap();
    for signature in [19, 29] {
        let mut bytes = bytes.clone();
        bytes[kind] = signature;
        let parsed = parse_ip_tcp(&bytes).unwrap().tcp;
        assert_eq!((parsed.signed, parsed.sack, parsed.timestamp), (true, SackBlocks::EMPTY, timestamp));
        // One that is cut short ends the options, as it does on Linux.
        bytes[kind + 1] = 60;
        assert!(!parse_ip_tcp(&bytes).unwrap().tcp.signed);
    }
}
