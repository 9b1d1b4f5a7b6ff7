//! A short run of the fuzz targets on the stable toolchain: their bodies get mutated seeds, the same in every
//! run. The long runs are `cargo +nightly fuzz run` with scenario, agent_config, trace, snr_trace, pu_log,
//! channel_log, packet, log, control, nfqueue, nl80211, sigmf or setdest.

#[path = "../../../fuzz/src/lib.rs"]
mod bodies;

use linkhold_core::action::{Actions, Rewrite, Verdict};
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::log::Recorder;
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment,
    TcpTimestamp,
};
use linkhold_core::time::Instant;
use linkhold_core::units::Seq;
use linkhold_wire::{DatagramSpec, PacketSpec, Payload, datagram_len, emit, emit_datagram, packet_len};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// One change to some bytes.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(Index, u8),
    Delete(Index, u8),
    Insert(Index, Vec<u8>),
    Repeat(Index, u8),
    Truncate(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        (any::<Index>(), 1u8..).prop_map(|(at, bits)| Mutation::Flip(at, bits)),
        (any::<Index>(), 1u8..32).prop_map(|(at, len)| Mutation::Delete(at, len)),
        (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, b)| Mutation::Insert(at, b)),
        (any::<Index>(), "[-0-9a-z\".=\\[\\]{}\n ]{1,12}")
            .prop_map(|(at, s)| Mutation::Insert(at, s.into_bytes())),
        (any::<Index>(), 1u8..64).prop_map(|(at, len)| Mutation::Repeat(at, len)),
        any::<Index>().prop_map(Mutation::Truncate),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    if bytes.is_empty() {
        return;
    }
    match mutation {
        Mutation::Flip(at, bits) => {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        Mutation::Delete(at, len) => {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + usize::from(*len)).min(bytes.len()));
        }
        Mutation::Insert(at, more) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more.iter().copied());
        }
        Mutation::Repeat(at, len) => {
            let at = at.index(bytes.len());
            let again = bytes[at..(at + usize::from(*len)).min(bytes.len())].to_vec();
            bytes.splice(at..at, again);
        }
        Mutation::Truncate(at) => bytes.truncate(at.index(bytes.len())),
    }
}

/// Hands `cases` mutated seeds, and as many random bytes, to a body.
fn smoke(seeds: &[Vec<u8>], cases: u32, body: fn(&[u8])) {
    for seed in seeds {
        body(seed);
    }
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let seeds = seeds.to_vec();
    let mutated =
        (any::<Index>(), proptest::collection::vec(mutation(), 1..6)).prop_map(move |(seed, mutations)| {
            let mut bytes = seeds[seed.index(seeds.len())].clone();
            mutations.iter().for_each(|mutation| apply(&mut bytes, mutation));
            bytes
        });
    let random = proptest::collection::vec(any::<u8>(), 0..512);
    runner
        .run(&(mutated, random), |(mutated, random)| {
            body(&mutated);
            body(&random);
            Ok(())
        })
        .expect("every input is answered");
}

#[test]
fn any_bytes_are_a_scenario_or_refused() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut seeds: Vec<Vec<u8>> = std::fs::read_dir(scenarios)
        .expect("the folder is part of the project")
        .map(|entry| entry.expect("an entry").path())
        // Traces of scenarios stand in folders beside them.
        .filter(|path| path.is_file())
        .map(|path| std::fs::read(path).expect("read"))
        .collect();
    seeds.sort();
    let with_override = [&seeds[0][..], b"\0router.limit=5pkt\0flows.*.station=all"].concat();
    seeds.push(with_override);
    smoke(&seeds, 2_000, bodies::scenario);
}

#[test]
fn any_bytes_are_an_agents_configuration_or_refused() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/agent.toml");
    let example = std::fs::read_to_string(example).expect("the example is part of the project");
    // The second seed also has the settings that the example comments out.
    let all = example.replace("\n# [", "\n[").replace(" = ", "=").replace("\n# ", "\n");
    smoke(&[example.into_bytes(), all.into_bytes()], 2_000, bodies::agent_config);
}

#[test]
fn any_bytes_are_a_trace_or_refused() {
    let seeds = [b"0\n0\n5\n17\n17\n100\n".to_vec(), b"1\r\n2\r\n4294967295".to_vec(), b"7".to_vec()];
    smoke(&seeds, 20_000, bodies::trace);
}

#[test]
fn any_bytes_are_a_mobility_file_or_refused() {
    let seed = "# nodes: 3\n$node_(0) set X_ 10.0\n$node_(0) set Y_ 20.0\n$node_(0) set Z_ 0.0\n\
        $node_(1) set X_ 100\n$node_(1) set Y_ 0\n$node_(2) set X_ 5e1\n$node_(2) set Y_ .5\n\
        $god_ set-dist 0 1 1\n$ns_ at 10.0 \"$node_(0) setdest 110.0 20.0 10.0\"\n\
        $ns_ at 14.5 \"$node_(0) setdest 50.0 60.0 4.0\"\n$ns_ at 1e3 \"$node_(2) setdest 0 60 .1\"\n";
    smoke(&[seed.as_bytes().to_vec()], 20_000, bodies::setdest);
}

#[test]
fn any_bytes_are_an_snr_trace_or_refused() {
    let seeds = [
        b"time,snr\n0,5\n1.5,-3\n2,7.25\n".to_vec(),
        b"note,snr,time\r\n\"a, b\",5,2025-01-21 09:41:58.93\r\n,6,2025-01-21T09:42:03Z\r\n".to_vec(),
        b"time,snr\n0,inf\n".to_vec(),
    ];
    smoke(&seeds, 20_000, bodies::snr_trace);
}

#[test]
fn any_bytes_are_a_pu_log_or_refused() {
    let seeds = [
        b"# two\n<1, 0, 5.5, 1, 0.28>\n<2, -3, 1e2, 3, 1>\n<1, 0, 1.5>\n<2, 1, 2>\n<1, 2, 3.000000001>\n"
            .to_vec(),
        b"1 0 0 1 1\r\n2 0 0 1 1\r\n1 1 2\r\n2 1.5 4\r\n1 2 3".to_vec(),
        b"9 0 0 1024 1\n9 0 1e9\n".to_vec(),
        b"1 0 0 1 1\n1 5 4\n".to_vec(),
    ];
    smoke(&seeds, 20_000, bodies::pu_log);
}

#[test]
fn any_bytes_are_a_channel_log_or_refused() {
    let seeds = [
        b"<1, 1, 1000000, 1e-12>\n<2, 1, 2e6, 0>\ninterval 0.5\n<1, 1, 2e-12>\n<1, 1, 3e-12>\n".to_vec(),
        b"1 1 1e6 0\r\n1 2 1e6 0 # other\r\ninterval 1\r\n1 1 0\r\n1 2 5".to_vec(),
        b"1 2 1e6 0\n".to_vec(),
    ];
    smoke(&seeds, 20_000, bodies::channel_log);
}

fn flow(v6: bool) -> FlowKey {
    let [correspondent, station] =
        if v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "198.51.100.2"] };
    let end = |addr: &str, port| Endpoint { addr: addr.parse().expect("an address"), port };
    FlowKey { correspondent: end(correspondent, 443), station: end(station, 40_000) }
}

fn segment(seq: u32, flags: TcpFlags, payload_len: u32) -> TcpSegment {
    TcpSegment {
        seq: Seq(seq),
        ack: Seq(77),
        flags,
        window: 500,
        payload_len,
        timestamp: Some(TcpTimestamp { value: seq, echo: 1 }),
        ..TcpSegment::default()
    }
}

#[test]
fn any_bytes_are_a_packet_or_refused() {
    let mut seeds = Vec::new();
    for v6 in [false, true] {
        for (flags, payload) in [(TcpFlags::SYN, 0), (TcpFlags::ACK, 0), (TcpFlags::ACK | TcpFlags::PSH, 40)]
        {
            let key = flow(v6);
            let spec = PacketSpec {
                src: key.correspondent,
                dst: key.station,
                tcp: segment(1, flags, payload),
                ecn: Ecn::Ect0,
            };
            let mut bytes = vec![0; packet_len(&spec)];
            let len = emit(&spec, Payload::Zeros, &mut bytes).expect("it fits");
            bytes.truncate(len);
            seeds.push(bytes);
        }
    }
    for v6 in [false, true] {
        let FlowKey { correspondent: src, station: dst } = flow(v6);
        let spec = DatagramSpec { src, dst, payload_len: 30, ecn: Ecn::NotEct };
        let mut bytes = vec![0; datagram_len(&spec)];
        emit_datagram(&spec, &mut bytes).expect("it fits");
        seeds.push(bytes);
    }
    smoke(&seeds, 20_000, bodies::packet);
}

/// `text` in pieces of `size` bytes, as the body of `control` reads them: a length, then as many bytes.
fn in_pieces(text: &str, size: usize) -> Vec<u8> {
    text.as_bytes()
        .chunks(size)
        .flat_map(|piece| std::iter::once(piece.len() as u8).chain(piece.iter().copied()))
        .collect()
}

#[test]
fn any_client_is_answered_or_cut_off() {
    let lines = concat!(
        r#"{"source":"hostapd","event":{"freeze":{"scope":"10.0.0.5","cause":"sensing","for_s":0.5}}}"#,
        "\n",
        r#"{"event":{"thaw":{}},"effective_in_s":-0.5,"detected_ago_s":1e-3}"#,
        "\r\n",
        r#"{"event":{"switch":{"capacity_bps":24000000,"efficiency":0.65}}}"#,
        "\n",
        r#"{"event":{"snr":{"station":"fd00::5","db":-3.5}}}"#,
        "\n",
        r#"{"event":{"sensing":{"period_s":1,"duration_s":0.1}}}"#,
        "\n",
        r#"{"query":"status"}"#,
        "\n",
    );
    let long = "x".repeat(10_000);
    let seeds = [in_pieces(lines, 255), in_pieces(lines, 7), in_pieces(&long, 255), in_pieces("\n\n\n", 1)];
    smoke(&seeds, 5_000, bodies::control);
}

#[test]
fn any_bytes_are_a_queued_packet_or_refused() {
    // A message is nlmsghdr, nfgenmsg and attributes. The attributes here are: packet header, both
    // interfaces, captured length, kind of checksum, first bytes of the packet.
    let attribute = |kind: u16, value: &[u8]| {
        let mut out = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    };
    let seeds: Vec<Vec<u8>> = [7u16, 8]
        .into_iter()
        .map(|queue| {
            let body = [
                attribute(1, &[0, 0, 0, 9, 8, 0, 2]),
                attribute(5, &3u32.to_be_bytes()),
                attribute(6, &4u32.to_be_bytes()),
                attribute(13, &1500u32.to_be_bytes()),
                attribute(14, &3u32.to_be_bytes()),
                attribute(10, &[0x45; 45]),
            ]
            .concat();
            let mut message = (20 + body.len() as u32).to_ne_bytes().to_vec();
            message.extend_from_slice(&0x0300u16.to_ne_bytes());
            message.extend_from_slice(&[0; 10]);
            message.extend_from_slice(&[2, 0]);
            message.extend_from_slice(&queue.to_be_bytes());
            message.extend_from_slice(&body);
            message
        })
        .collect();
    for seed in &seeds {
        assert!(linkhold_linux::datapath::nfqueue::parse_packet_message(seed, 7..11).is_some());
    }
    smoke(&seeds, 20_000, bodies::nfqueue);
}

#[test]
fn any_bytes_are_events_of_a_radio_or_refused() {
    // Seeds: a recorded minute of two radios, as it is and in halves, each datagram behind its length.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../linkhold-linux/src/agent/nl80211/recorded.txt");
    let text = std::fs::read_to_string(path).expect("the recording is part of the project");
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("hexadecimal") as u8;
    let datagrams: Vec<Vec<u8>> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit(' ').next())
        .map(|hex| hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
        .filter(|datagram: &Vec<u8>| datagram.len() < 256)
        .collect();
    assert!(datagrams.len() > 20);
    let framed = |datagrams: &[Vec<u8>]| -> Vec<u8> {
        datagrams.iter().flat_map(|datagram| [&[datagram.len() as u8], &datagram[..]].concat()).collect()
    };
    // The names of the interfaces come first, so that the rest concerns them.
    let (first, second) = datagrams.split_at(datagrams.len() / 2);
    let names: Vec<Vec<u8>> =
        datagrams.iter().filter(|datagram| datagram.windows(5).any(|w| w == b"wlan0")).cloned().collect();
    let behind_names = |datagrams: &[Vec<u8>]| framed(&[&names[..], datagrams].concat());
    let seeds = [framed(&datagrams), behind_names(&datagrams), behind_names(first), behind_names(second)];
    smoke(&seeds, 20_000, bodies::nl80211);
}

#[test]
fn any_bytes_are_a_recording_or_refused() {
    let meta = r#"{"global":{"core:datatype":"cf32_le","core:sample_rate":2e5,"core:num_channels":1,
        "core:trailing_bytes":0,"core:dataset":"x.iq"},"captures":[{"core:frequency":1e9,"core:header_bytes":0}]}"#;
    let recording = |datatype: &str, samples: &[u8]| {
        [meta.replace("cf32_le", datatype).as_bytes(), &[0], samples].concat()
    };
    let loud: Vec<u8> = (0..1600u32).map(|n| if n / 400 % 2 == 0 { 127 } else { (n * 89) as u8 }).collect();
    let floats: Vec<u8> = (0..200u32).flat_map(|n| ((n / 50 % 2) as f32).to_le_bytes()).collect();
    let seeds = [
        recording("cf32_le", &floats),
        recording("cu8", &loud),
        recording("ci8", &loud),
        recording("ci16_le", &loud),
        meta.as_bytes().to_vec(),
    ];
    for seed in &seeds {
        let text = seed.split(|&byte| byte == 0).next().unwrap_or_default();
        assert!(linkhold_sense::sigmf::Metadata::parse(text).is_ok());
    }
    smoke(&seeds, 10_000, bodies::sigmf);
}

#[test]
fn any_bytes_are_a_log_or_refused() {
    let config = DsaSyncConfig { max_flows: 16, ..DsaSyncConfig::default() };
    let mechanism = DsaSync::new(&config).expect("valid settings");
    let mut recorder = Recorder::new(mechanism, &config, Vec::new()).expect("a vector takes everything");
    let mut out = Actions::new();
    let key = flow(false);
    let silence = |ms, kind| LinkEvent::at(Instant::from_millis(ms), kind);
    let (scope, cause) = (Scope::Network, Cause::Sensing);
    let mut held = 0;
    for id in 0..6u64 {
        if id == 2 {
            let event = silence(id, LinkEventKind::FreezeStarted { scope, cause, expected: None });
            recorder.on_link(Instant::from_millis(id), event, &mut out);
        }
        let flags = if id == 0 { TcpFlags::SYN } else { TcpFlags::ACK };
        let tcp = segment(id as u32 * 1000, flags, if id == 0 { 0 } else { 1000 });
        let view = PacketView {
            id: PacketId(id),
            flow: &key,
            direction: Direction::Downlink,
            origin: Origin::Arrival,
            station: StationId(0),
            len: 1052,
            ecn: Ecn::NotEct,
            tcp: &tcp,
        };
        match recorder.on_packet(Instant::from_millis(id), &view, &mut out) {
            Verdict::Hold => held += 1,
            Verdict::Forward(rewrite) => {
                assert_eq!(rewrite, Rewrite { window: rewrite.window, ..Rewrite::NONE })
            }
            verdict @ (Verdict::ForwardAndKeep(_) | Verdict::Drop(_)) => panic!("{verdict:?}"),
        }
        out.clear();
    }
    assert!(held > 0, "the seed should hold packets");
    recorder.on_link(
        Instant::from_millis(9),
        silence(9, LinkEventKind::FreezeEnded { scope, cause }),
        &mut out,
    );
    let (_, bytes) = recorder.finish().expect("a vector takes everything");
    smoke(&[bytes], 10_000, bodies::log);
}
