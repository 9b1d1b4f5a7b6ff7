//! What captures of cells with a DCF and of meshes hold, read back from their bytes.

use std::collections::BTreeMap;

use linkhold_core::time::Duration;
use linkhold_core::units::BitRate;
use linkhold_radio::dcf::Phy;
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sim::{Capture, run_case, run_case_observed};
use linkhold_testing::tshark;
use linkhold_wire::ieee80211::{FCS_LEN, LLC_LEN, MAC_HEADER_LEN, RADIOTAP_LEN};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

/// A cell of three stations with RTS before long frames, collisions, and a primary user that cuts frames off.
const CELL: &str = r#"schema = "linkhold.scenario/1"
name = "cell"
duration = "3s"
warm_up = "1s"
[radio]
mac = "dcf"
phy_rate = "24Mbit/s"
stations = 3
[radio.dcf]
rts_threshold = "500B"
[radio.primary_user]
on_mean = "20ms"
off_mean = "100ms"
detection_delay = "1ms"
[[flows]]
direction = "uplink"
station = "all"
[[flows]]
direction = "downlink"
station = "all"
[[flows]]
direction = "uplink"
ip = "v6"
transport = "udp"
source = { rate = "1Mbit/s" }
"#;

/// A line of four nodes that sense, with a flow from one end to the other.
const LINE: &str = r#"schema = "linkhold.scenario/1"
name = "line"
duration = "20s"
warm_up = "1s"
[mesh]
nodes = 4
places = [{ x = "100m", y = "500m" }, { x = "300m", y = "500m" }, { x = "500m", y = "500m" }, { x = "700m", y = "500m" }]
routing = "aodv"
[mesh.spectrum]
bands = 3
capacity = "1Mbit/s"
differentiation = 0.2
sensing_time = "50ms"
transmitting_time = "450ms"
users = { alpha = "0.5/s", beta = "0.5/s" }
[tcp]
mss = 1000
[[flows]]
from = 0
to = 3
"#;

fn capture(text: &str, set: &[String]) -> Vec<u8> {
    let scenario = Scenario::parse(text, "s.toml", set, &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    let case = scenario.cases()[0].clone();
    let phy = phy(text);
    let mut capture = match &case.scenario.mesh {
        Some(mesh) => {
            assert_eq!(mesh.dcf.phy, phy);
            Capture::of_mesh(Vec::new(), "a test", phy)
        }
        None => Capture::of_dcf(Vec::new(), "a test", phy),
    }
    .expect("memory can be written");
    let (seen, _) = run_case_observed(&case, 1, &mut capture).expect("the scenario is valid");
    let (unseen, _) = run_case(&case, 1).expect("the scenario is valid");
    assert_eq!(seen.flows, unseen.flows, "watching changes nothing");
    assert_eq!(seen.events, unseen.events);
    capture.finish().expect("memory can be written")
}

/// As the scenarios here have it.
fn phy(text: &str) -> Phy {
    if text.contains("[mesh]") { Phy::Ieee80211b } else { Phy::Ieee80211a }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Rts,
    Cts,
    Ack,
}

/// A frame as a reader of the file sees it.
#[derive(Clone, Debug)]
struct Frame {
    /// When it ended, ns.
    end: u64,
    /// When its first bit was on the air, us.
    tsft: u64,
    /// Bit/s.
    rate: u64,
    frequency: u16,
    kind: Kind,
    retry: bool,
    /// us.
    duration: u16,
    /// Last octets of addresses; `None` is everybody.
    to: Option<u8>,
    from: Option<u8>,
    sequence: u16,
    /// Octets on the air, FCS included.
    octets: usize,
    /// What stands behind the MAC header, as far as it is kept; without FCS.
    body: Vec<u8>,
    received: bool,
    cut: bool,
}

const EVERYBODY: [u8; 6] = [255; 6];

/// The frames on the air in a capture.
fn frames(file: &[u8]) -> Vec<Frame> {
    let mut reader = PcapNgReader::new(file).expect("a pcapng file");
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a good block")
            && packet.interface_id == 1
        {
            let comment = packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                _ => None,
            });
            let whole = packet.original_len as usize == packet.data.len();
            assert!(whole || packet.data.len() == 256, "{} octets are kept", packet.data.len());
            let end = packet.timestamp.as_nanos() as u64;
            frames.push(read(end, packet.original_len as usize, &packet.data, comment.as_deref()));
        }
    }
    frames
}

fn read(end: u64, len: usize, bytes: &[u8], comment: Option<&str>) -> Frame {
    let (radiotap, mac) = bytes.split_at(RADIOTAP_LEN);
    let u16_at = |of: &[u8], at: usize| u16::from_le_bytes([of[at], of[at + 1]]);
    assert_eq!(radiotap[..8], [0, 0, 22, 0, 0x0f, 0, 0, 0]);
    let cut = comment == Some("cut off before its end");
    assert_eq!(radiotap[16], if cut { 0 } else { 0x10 }, "what was cut off has no FCS");
    let fcs = if cut { 0 } else { FCS_LEN };
    if bytes.len() == len && !cut {
        let (covered, fcs) = mac.split_at(mac.len() - FCS_LEN);
        assert_eq!(crc32fast::hash(covered).to_le_bytes(), fcs);
    }
    let address = |at: usize| {
        let of: [u8; 6] = mac[at..at + 6].try_into().expect("six octets");
        (of != EVERYBODY).then(|| {
            assert_eq!(of[..5], [2, 0, 0, 0, 0], "locally administered");
            of[5]
        })
    };
    let (kind, header) = match mac[0] {
        0x08 => (Kind::Data, MAC_HEADER_LEN),
        0xb4 => (Kind::Rts, 16),
        0xc4 => (Kind::Cts, 10),
        0xd4 => (Kind::Ack, 10),
        other => panic!("frame control {other:#x}"),
    };
    assert_eq!(mac[1] & !8, 0, "only the retry bit is ever set");
    let is_data = kind == Kind::Data;
    let kept = if bytes.len() == len { mac.len() - fcs } else { mac.len() };
    Frame {
        end,
        tsft: u64::from_le_bytes(radiotap[8..16].try_into().expect("eight octets")),
        rate: u64::from(radiotap[17]) * 500_000,
        frequency: u16_at(radiotap, 18),
        kind,
        retry: mac[1] & 8 != 0,
        duration: u16_at(mac, 2),
        to: address(4),
        from: if header > 10 { address(10) } else { None },
        sequence: if is_data { u16_at(mac, 22) >> 4 } else { 0 },
        octets: len - RADIOTAP_LEN + FCS_LEN - fcs,
        body: mac[header..kept].to_vec(),
        received: comment != Some("not received"),
        cut,
    }
}

/// What holds of every file: times that frames take, numbers, retry bits, and answers.
fn check(frames: &[Frame], phy: Phy, exact_rates: bool) {
    let mut last: BTreeMap<u8, &Frame> = BTreeMap::new();
    for (index, frame) in frames.iter().enumerate() {
        let octets = frame.octets as u32;
        let expected = phy.frame(octets, BitRate(frame.rate)).saturating_sub(phy.head());
        let took = Duration::from_nanos(frame.end.saturating_sub(frame.tsft * 1000));
        if frame.cut {
            assert!(took < expected + Duration::from_micros(1), "{frame:?}");
        } else if exact_rates {
            // The radiotap header counts whole microseconds.
            let late = took.saturating_sub(expected);
            assert!(took >= expected && late < Duration::from_micros(1), "{took} {expected} {frame:?}");
        }
        match frame.kind {
            Kind::Data => {
                let from = frame.from.expect("data names its sender");
                if let Some(before) = last.insert(from, frame) {
                    if frame.retry {
                        assert_eq!((frame.sequence, &frame.body), (before.sequence, &before.body));
                        assert_eq!(frame.to, before.to);
                    } else {
                        assert_eq!(frame.sequence, (before.sequence + 1) % 4096, "{frame:?}");
                    }
                } else {
                    assert!(!frame.retry && frame.sequence == 0, "{frame:?}");
                }
                let nav = if frame.to.is_some() { sifs_and_ack(phy, frame.rate) } else { 0 };
                assert_eq!(u64::from(frame.duration), nav, "{frame:?}");
            }
            Kind::Ack | Kind::Cts => {
                assert!(!frame.retry);
                // It answers the frame that ended a SIFS before it began.
                let asked = if frame.kind == Kind::Ack { Kind::Data } else { Kind::Rts };
                let began = frame.tsft - phy.head().as_nanos() / 1000;
                let before = frames[..index].iter().rev().take(20).find(|other| {
                    let gap = phy.sifs().as_nanos() / 1000;
                    other.kind == asked && other.from == frame.to && other.end / 1000 + gap == began
                });
                let before = before.unwrap_or_else(|| panic!("an answer to nobody: {frame:?}"));
                assert!(before.received, "{before:?} was answered");
                if frame.kind == Kind::Ack {
                    assert_eq!(frame.duration, 0);
                } else {
                    let spent = (frame.octets as u32, BitRate(frame.rate));
                    let spent = (phy.sifs() + phy.frame(spent.0, spent.1)).as_nanos() / 1000;
                    assert_eq!(u64::from(frame.duration) + spent, u64::from(before.duration));
                }
            }
            Kind::Rts => assert!(!frame.retry && frame.duration > 0),
        }
    }
}

fn sifs_and_ack(phy: Phy, rate: u64) -> u64 {
    let ack = phy.frame(14, phy.control_rate(BitRate(rate)));
    (phy.sifs() + ack).as_nanos() / 1000
}

fn count(frames: &[Frame], which: impl Fn(&Frame) -> bool) -> usize {
    frames.iter().filter(|frame| which(frame)).count()
}

#[test]
fn a_cell_s_frames_are_what_its_radios_sent() {
    // One station: a frame that goes back to a queue in a silence is the next that its sender sends.
    let frames = frames(&capture(CELL, &["radio.stations=1".to_owned()]));
    check(&frames, Phy::Ieee80211a, true);
    for (kind, least) in [(Kind::Data, 1000), (Kind::Ack, 1000), (Kind::Rts, 500), (Kind::Cts, 500)] {
        assert!(count(&frames, |frame| frame.kind == kind) > least, "{kind:?}");
    }
    assert!(count(&frames, |frame| frame.retry) > 20);
    assert!(count(&frames, |frame| frame.cut) > 0);
    assert!(count(&frames, |frame| !frame.received) > 20);
    // RTS goes before each frame of more than 500 octets, and before no other.
    for frame in frames.iter().filter(|frame| frame.kind == Kind::Data) {
        let began = frame.tsft - 20;
        let cts = frames
            .iter()
            .any(|cts| cts.kind == Kind::Cts && cts.to == frame.from && cts.end / 1000 + 16 == began);
        assert_eq!(cts, frame.octets > 500, "{frame:?}");
        assert_eq!((frame.rate, frame.frequency), (24_000_000, 5180));
    }
}

#[test]
fn packets_of_both_versions_and_kinds_stand_in_the_frames_of_a_cell() {
    let mut kinds: BTreeMap<(u16, u8), usize> = BTreeMap::new();
    for frame in frames(&capture(CELL, &[])).iter().filter(|frame| frame.kind == Kind::Data) {
        assert_eq!(frame.body[..6], [0xaa, 0xaa, 3, 0, 0, 0]);
        let ethertype = u16::from_be_bytes([frame.body[6], frame.body[7]]);
        let ip = &frame.body[LLC_LEN..];
        let (protocol, length) = match ethertype {
            0x0800 => (ip[9], usize::from(u16::from_be_bytes([ip[2], ip[3]]))),
            0x86dd => (ip[6], 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]))),
            other => panic!("{other:#x}"),
        };
        assert_eq!(frame.octets, MAC_HEADER_LEN + LLC_LEN + length + FCS_LEN);
        assert!(frame.to == Some(0) || frame.from == Some(0), "one end is the base station");
        *kinds.entry((ethertype, protocol)).or_default() += 1;
    }
    assert!(kinds[&(0x0800, 6)] > 1000 && kinds[&(0x86dd, 17)] > 50, "{kinds:?}");
    assert_eq!(kinds.len(), 2, "{kinds:?}");
}

#[test]
fn a_mesh_s_frames_tell_of_routes_and_hops() {
    let frames = frames(&capture(LINE, &[]));
    // The rates of the bands are none of radiotap's, so times cannot be told from them.
    check(&frames, Phy::Ieee80211b, false);
    let mut messages: BTreeMap<u8, usize> = BTreeMap::new();
    let mut hops: BTreeMap<(u8, u8), usize> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.kind == Kind::Data) {
        let from = frame.from.expect("data names its sender");
        let ip = &frame.body[LLC_LEN..];
        if ip[9] == 6 {
            let to = frame.to.expect("data goes to one node");
            // TCP's ends are the nodes at both ends of the line; those of the frame are neighbours.
            let mut ends = [ip[15], ip[19]];
            ends.sort_unstable();
            assert_eq!((ends, from.abs_diff(to)), ([2, 5], 1), "{frame:?}");
            *hops.entry((from, to)).or_default() += 1;
            continue;
        }
        assert_eq!((ip[9], &ip[20..24]), (17, &[0x02, 0x8e, 0x02, 0x8e][..]), "UDP, port 654");
        assert_eq!(ip[12..16], [10, 0, 0, 2 + from], "a message is of the node that sends it");
        let to: [u8; 4] = frame.to.map_or([255; 4], |to| [10, 0, 0, 2 + to]);
        assert_eq!(ip[16..20], to);
        let message = &ip[28..];
        let length = match message[0] {
            1 => 24,
            2 => 20,
            3 => 4 + 8 * usize::from(message[3]),
            other => panic!("type {other}"),
        };
        assert_eq!(message.len(), length);
        if message[0] == 1 {
            assert!(frame.to.is_none() && matches!(message[16..20], [10, 0, 0, 2 | 5]), "an end seeks");
        }
        *messages.entry(message[0]).or_default() += 1;
    }
    assert!(messages[&1] >= 4 && messages[&2] >= 3, "{messages:?}");
    for hop in [(0, 1), (1, 2), (2, 3), (3, 2), (2, 1), (1, 0)] {
        assert!(hops[&hop] > 20, "{hops:?}");
    }
    let frequencies: std::collections::BTreeSet<u16> = frames.iter().map(|frame| frame.frequency).collect();
    assert!(frequencies.len() > 1 && frequencies.iter().all(|f| [2412, 2417, 2422].contains(f)));
}

#[test]
fn tshark_finds_nothing_wrong_with_the_frames() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.pcapng");
    let search = ["mesh.routing=search".to_owned()];
    for (text, set, wanted) in [
        (CELL, &[][..], &["llc:ip:tcp", "llc:ipv6:udp:data", "wlan"][..]),
        (LINE, &[], &["llc:ip:tcp", "llc:ip:udp:aodv", "wlan"]),
        (LINE, &search, &["llc:ip:tcp", "llc:ip:udp:data", "wlan"]),
    ] {
        std::fs::write(&file, capture(text, set)).expect("it can be written");
        #[rustfmt::skip]
        let fields = [
            "-o", "wlan.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
            "-Y", "wlan", "-T", "fields", "-e", "frame.protocols", "-e", "wlan.fcs.status", "-e", "wlan.fc.retry",
            "-e", "_ws.malformed", "-e", "frame.len", "-e", "frame.cap_len", "-e", "frame.comment",
            "-e", "udp.checksum.status", "-e", "wlan.fc.type_subtype",
        ];
        let Some(rows) = tshark(&file, &fields) else { return };
        let (mut good, mut retries) = (0, 0);
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows.lines() {
            let [protocols, fcs, retry, malformed, len, kept, comment, udp, kind] =
                row.split('\t').collect::<Vec<_>>()[..]
            else {
                panic!("{row:?}")
            };
            assert!(malformed.is_empty(), "{row:?}");
            // Wireshark's check status: 0 is bad, 1 good, 2 not checked.
            let whole = len == kept && !comment.starts_with("cut off");
            assert!(if whole { fcs == "1" } else { matches!(fcs, "" | "2") }, "{row:?}");
            assert!(udp != "0", "{row:?}");
            good += u32::from(whole);
            retries += u32::from(matches!(retry, "1" | "True"));
            let above = protocols.trim_start_matches("radiotap:wlan_radio:").trim_start_matches("wlan:");
            *seen.entry(above.to_owned()).or_default() += 1;
            assert!(!kind.is_empty());
        }
        assert!(good > 500 && retries > 10, "{good} {retries}");
        for protocols in wanted {
            assert!(seen.contains_key(*protocols), "{protocols}: {seen:?}");
        }
        let errors = tshark(
            &file,
            &["-Y", "_ws.expert.severity >= 8388608", "-T", "fields", "-e", "_ws.expert.message"],
        );
        assert_eq!(errors.as_deref(), Some(""), "expert items of severity error");
    }
}
