//! Runs over IEEE 802.15.4: what passes, who is told of the primary user, and what a capture holds.

use linkhold_core::link_event::Cause;
use linkhold_radio::ieee802154::{FCS, MAC_HEADER, TRANSPORT_HEADER};
use linkhold_radio::{ExtendedAddress, UserFrames};
use linkhold_results::{RunRecord, RunSeries};
use linkhold_scenario::{Case, NoFiles, Scenario};
use linkhold_sim::{Capture, run_case, run_case_observed};
use linkhold_testing::tshark;
use linkhold_wire::ieee802154::{ACK_LEN, fcs};
use pcap_file::pcapng::{Block, PcapNgReader};
use smoltcp::wire::{Ieee802154Address, Ieee802154Frame, Ieee802154FrameType, Ieee802154Pan, Ieee802154Repr};

const BASE: &str = r#"schema = "linkhold.scenario/1"
name = "ieee802154"
duration = "60s"
[wired]
rtt = "1ms"
[tcp]
profile = "classic"
congestion = "reno"
mss = 95
[radio]
mac = "802.15.4"
[radio.ieee802154]
mpdu = 128
"#;

fn case(more: &str) -> Case {
    let text = format!("{BASE}{more}");
    let scenario = Scenario::parse(&text, "s.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    scenario.cases()[0].clone()
}

fn run(more: &str) -> RunRecord {
    run_case(&case(more), 1).expect("the scenario is valid").0
}

const CR_AWARE: &str =
    "[[flows]]\ndirection = \"uplink\"\n[[cases]]\nname = \"cr\"\nmechanism = \"cr-aware\"\n";

#[test]
fn one_sender_on_a_clear_medium_comes_close_to_the_limit() {
    for (direction, least) in [("uplink", 0.7), ("downlink", 0.7)] {
        let record = run(&format!("frame_loss = 0\n[[flows]]\ndirection = \"{direction}\"\n"));
        // The ACKs contend with the data, and collide with some of it.
        let share = record.totals.limit_share;
        assert!((least..=1.0).contains(&share), "{direction}: {share} of {}", record.link.goodput_limit_bps);
    }
}

#[test]
fn no_number_of_senders_passes_the_limit() {
    for stations in [2, 5, 10] {
        let text = "frame_loss = 0\nprocessing_time = \"0s\"\n[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"3s\"\n\
             [[flows]]\ndirection = \"uplink\"\nstation = \"all\"\n";
        let scenario =
            format!("{BASE}{text}").replace("[radio]\n", &format!("[radio]\nstations = {stations}\n"));
        let scenario = Scenario::parse(&scenario, "s.toml", &[], &NoFiles).expect("it is valid");
        let share = run_case(&scenario.cases()[0], 1).expect("it is valid").0.totals.limit_share;
        assert!(share > 0.1 && share <= 1.0, "{stations} stations: {share}");
    }
}

#[test]
fn a_station_is_told_what_its_own_radio_hears_and_no_more() {
    let silences = |heard_by: &str, alarms: &str| {
        let record = run(&format!(
            "[radio.primary_user]\non_mean = \"2s\"\noff_mean = \"3s\"\nheard_by = \"{heard_by}\"\n\
             overhear = {{ false_alarms = \"{alarms}\" }}\n{CR_AWARE}"
        ));
        assert!(record.link.silent_fraction > 0.2, "whoever hears the user, nobody can work beside it");
        record.mechanisms[0].counter("silences")
    };
    assert_eq!(silences("base-station", "off"), 0, "the station cannot know of a user that it does not hear");
    assert!(silences("all", "off") > 4);
    assert_eq!(silences("all", "off"), silences("stations", "off"));
    assert!(silences("base-station", "0.5/s") > 4, "a false alarm freezes as a true one does");
}

/// The primary user's frames are read as ever, but they are not those of the user that the radios know.
#[test]
fn nobody_freezes_for_a_user_whose_address_is_not_the_one_listened_for() {
    let silences = |addresses: &str| {
        let record = run(&format!(
            "[radio.primary_user]\non_mean = \"2s\"\noff_mean = \"3s\"\n{addresses}\n\
             overhear.false_alarms = \"off\"\n{CR_AWARE}"
        ));
        assert!(record.link.silent_fraction > 0.2, "it takes the medium all the same");
        record.mechanisms[0].counter("silences")
    };
    let (first, second) = ("\"02:00:00:01:00:00:00:01\"", "\"02:00:00:01:00:00:00:02\"");
    let known = silences("");
    assert!(known > 4, "{known}");
    assert_eq!(silences(&format!("address = {second}")), known, "radios know the address that it is given");
    assert_eq!(silences(&format!("overhear.address = {first}")), known);
    assert_eq!(silences(&format!("overhear.address = {second}")), 0);
    assert_eq!(silences(&format!("address = {second}\noverhear.address = {first}")), 0);
}

#[test]
fn what_radios_give_up_is_counted() {
    // TCP sends little where a frame in five is lost, and much where the MAC repeats it.
    let lossy = run("acknowledged = false\nframe_loss = 0.2\n[[flows]]\ndirection = \"uplink\"\n");
    assert!(lossy.link.air_losses > 10, "{}", lossy.link.air_losses);
    let repeated = run("frame_loss = 0.2\n[[flows]]\ndirection = \"uplink\"\n");
    assert!(repeated.totals.goodput_bps > 10.0 * lossy.totals.goodput_bps, "{:?}", repeated.totals);
}

/// A primary user sends for half a minute at a time. As the paper has it, only the radio ends a freeze, so
/// that the sender's timer does not back off meanwhile.
#[test]
fn with_the_papers_preset_a_freeze_lasts_as_long_as_the_primary_user() {
    let goodput = |most: &str| {
        run(&format!(
            "acknowledged = false\nframe_loss = 0\n[radio.primary_user]\nfixed = true\non_mean = \"30s\"\n\
             off_mean = \"10s\"\noverhear = {{ false_alarms = \"off\" }}\n[[flows]]\ndirection = \"uplink\"\n\
             [[cases]]\nname = \"x\"\nmechanism = {{ name = \"cr-aware\", preset = \"paper\"{most} }}\n"
        ))
        .totals
        .goodput_bps
    };
    let (whole, cut_short) = (goodput(""), goodput(", max_freeze = \"10s\""));
    assert!(whole > 1.5 * cut_short, "{whole} beside {cut_short} bit/s");
}

/// A run with losses, repetitions and a primary user, captured.
fn capture(more: &str) -> Vec<u8> {
    capture_with(more, "")
}

/// The same with more flows or mechanisms.
fn capture_with(more: &str, rest: &str) -> Vec<u8> {
    let text = format!(
        "frame_loss = 0.2\n{more}[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"2s\"\n\
         [[flows]]\ndirection = \"uplink\"\n[[flows]]\ndirection = \"downlink\"\nip = \"v6\"\n{rest}"
    );
    captured(&text, !more.contains("acknowledged = false")).0
}

/// A run, captured, and what it recorded over time.
fn captured(text: &str, acknowledged: bool) -> (Vec<u8>, RunSeries) {
    let case = case(text);
    let user = UserFrames::new(&case.scenario.radio, 1);
    let mut capture =
        Capture::of_ieee802154(Vec::new(), "a test", acknowledged, user).expect("memory can be written");
    let (seen, series) = run_case_observed(&case, 1, &mut capture).expect("the scenario is valid");
    let (unseen, _) = run_case(&case, 1).expect("the scenario is valid");
    assert_eq!(seen.flows, unseen.flows, "watching changes nothing");
    assert_eq!(seen.events, unseen.events, "and costs no event");
    (capture.finish().expect("memory can be written"), series)
}

/// The frames on the air in a capture, each with its end, s.
fn timed_frames(file: &[u8]) -> Vec<(f64, Vec<u8>)> {
    let mut reader = PcapNgReader::new(file).expect("a pcapng file");
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a good block")
            && packet.interface_id == 1
        {
            assert_eq!(packet.original_len as usize, packet.data.len(), "frames are kept whole");
            frames.push((packet.timestamp.as_secs_f64(), packet.data.to_vec()));
        }
    }
    assert!(frames.is_sorted_by_key(|(end, _)| *end), "frames come in the order of their ends");
    frames
}

/// The frames of the cell's own radios in a capture.
fn frames(file: &[u8]) -> Vec<Vec<u8>> {
    let frames = timed_frames(file).into_iter().map(|(_, frame)| frame);
    frames.filter(|frame| !is_a_users(frame, ExtendedAddress::PRIMARY_USER)).collect()
}

/// Whether the source address of a frame with its check sequence is this one. Acknowledgments have none.
fn is_a_users(frame: &[u8], address: ExtendedAddress) -> bool {
    if frame.len() == ACK_LEN {
        return false;
    }
    let parsed = Ieee802154Frame::new_checked(&frame[..frame.len() - FCS as usize]).expect("well formed");
    parsed.src_addr() == Some(Ieee802154Address::Extended(address.0))
}

#[test]
fn smoltcp_reads_every_frame_of_a_run() {
    let (mut data, mut acks, mut repeated) = (0, 0, 0);
    let mut last: Vec<Option<Vec<u8>>> = vec![None; 2];
    for frame in frames(&capture("")) {
        assert_eq!(fcs(&frame), 0, "a frame with its check sequence leaves no remainder");
        if frame.len() == 5 {
            let parsed = Ieee802154Frame::new_checked(&frame[..]).expect("well formed");
            assert_eq!(parsed.frame_type(), Ieee802154FrameType::Acknowledgement);
            acks += 1;
            continue;
        }
        let parsed = Ieee802154Frame::new_checked(&frame[..frame.len() - FCS as usize]).expect("well formed");
        let repr = Ieee802154Repr::parse(&parsed).expect("well formed");
        assert_eq!(repr.frame_type, Ieee802154FrameType::Data);
        assert!(repr.ack_request);
        assert_eq!(parsed.mac_header().len(), MAC_HEADER as usize);
        let Some(Ieee802154Address::Extended(source)) = repr.src_addr else { panic!("{repr:?}") };
        assert!(ExtendedAddress(source).is_of_the_cell(), "no primary user may have such an address");
        let payload = parsed.payload().expect("data has one");
        assert!((TRANSPORT_HEADER..=TRANSPORT_HEADER + 95).contains(&(payload.len() as u32)));
        let sender = usize::from(source[7]);
        repeated += u32::from(last[sender].as_ref() == Some(&frame));
        last[sender] = Some(frame);
        data += 1;
    }
    assert!(data > 1000 && acks > 500 && repeated > 100, "{data} frames, {acks} ACKs, {repeated} again");
    assert!(frames(&capture("acknowledged = false\n")).iter().all(|frame| frame.len() > 5));
}

#[test]
fn a_capture_shows_who_silences_the_radio() {
    const INTERVAL: f64 = 0.005;
    let address = ExtendedAddress([2, 0, 0, 1, 0, 0, 0, 7]);
    let text = format!(
        "[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"2s\"\naddress = \"{address}\"\n\
         [[flows]]\ndirection = \"uplink\"\n"
    );
    let (file, series) = captured(&text, true);
    let frames = timed_frames(&file);
    assert!(frames.iter().any(|(_, frame)| !is_a_users(frame, address)), "the cell's frames are there, too");
    let mut users = frames.into_iter().filter(|(_, frame)| is_a_users(frame, address));
    let (mut bursts, mut sent) = (0, 0);
    for burst in series.silences.iter().filter(|silence| silence.cause == Cause::PrimaryUser) {
        bursts += 1;
        for n in 1..=((burst.end_s - burst.start_s) / INTERVAL) as u32 {
            let (end, frame) = users.next().expect("a frame for each interval that the burst has");
            let expected = burst.start_s + f64::from(n) * INTERVAL;
            assert!((end - expected).abs() < 1e-6, "{end} s instead of {expected} s in {burst:?}");
            assert_eq!((frame.len(), fcs(&frame)), (127, 0), "the longest frame, with a good check sequence");
            let parsed = Ieee802154Frame::new_checked(&frame[..125]).expect("well formed");
            let repr = Ieee802154Repr::parse(&parsed).expect("well formed");
            assert_eq!((repr.frame_type, repr.ack_request), (Ieee802154FrameType::Data, false));
            assert_eq!(repr.sequence_number, Some((sent % 256) as u8));
            assert_eq!(repr.dst_pan_id, Some(Ieee802154Pan::BROADCAST));
            assert_eq!(repr.dst_addr, Some(Ieee802154Address::BROADCAST));
            assert_eq!(repr.src_addr, Some(Ieee802154Address::Extended(address.0)));
            let payload = parsed.payload().expect("data has one");
            assert_eq!((payload.len(), &payload[1..13]), (110, &b"primary user"[..]));
            sent += 1;
        }
    }
    assert_eq!(users.next(), None, "it sends nothing between its bursts");
    assert!(bursts > 5 && sent > 500, "{sent} frames in {bursts} bursts");
}

/// Beside segments: the base station's reports of holes, with SACK options, and datagrams.
const REPORTS_AND_DATAGRAMS: &str = "[[flows]]\ndirection = \"uplink\"\ntransport = \"udp\"\nsource = { rate = \"2kbit/s\" }\n\
    [[cases]]\nname = \"x\"\nmechanisms = [{ name = \"local-recovery\", preset = \"paper\" }, \
    { name = \"local-resend\", preset = \"phy-lr\" }]\n";

#[test]
fn smoltcp_reads_reports_and_datagrams_too() {
    let mut lengths = std::collections::BTreeMap::new();
    for frame in frames(&capture_with("acknowledged = false\n", REPORTS_AND_DATAGRAMS)) {
        assert_eq!(fcs(&frame), 0, "a frame with its check sequence leaves no remainder");
        let parsed = Ieee802154Frame::new_checked(&frame[..frame.len() - FCS as usize]).expect("well formed");
        assert_eq!(
            Ieee802154Repr::parse(&parsed).expect("well formed").frame_type,
            Ieee802154FrameType::Data
        );
        *lengths.entry(parsed.payload().expect("data has one").len()).or_insert(0) += 1;
    }
    let of = |lengths: &std::collections::BTreeMap<usize, u32>, range| -> u32 {
        lengths.range(range).map(|(_, count)| count).sum()
    };
    let (header, full) = (TRANSPORT_HEADER as usize, TRANSPORT_HEADER as usize + 95);
    let (reports, datagrams) = (of(&lengths, header + 1..=header + 28), of(&lengths, header + 29..=full - 1));
    assert!(reports >= 5 && datagrams >= 3 && of(&lengths, full..=full) > 50, "{lengths:?}");
}

#[test]
fn tshark_finds_nothing_wrong_with_the_frames() {
    finds_nothing_wrong(&capture(""), [1001, 501]);
    finds_nothing_wrong(&capture_with("acknowledged = false\n", REPORTS_AND_DATAGRAMS), [100, 0]);
}

/// At least so many frames of data and acknowledgments.
fn finds_nothing_wrong(capture: &[u8], least: [usize; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.pcapng");
    std::fs::write(&file, capture).expect("it can be written");
    #[rustfmt::skip]
    let fields = [
        "-Y", "wpan", "-T", "fields", "-e", "wpan.frame_type", "-e", "wpan.fcs_ok", "-e", "frame.protocols",
        "-e", "wpan.src64", "-e", "_ws.malformed", "-e", "_ws.expert.severity",
    ];
    let Some(text) = tshark(&file, &fields) else { return };
    let (mut types, mut users) = ([0; 2], 0);
    let user = ExtendedAddress::PRIMARY_USER.to_string();
    for row in text.lines() {
        let columns = row.split('\t').collect::<Vec<_>>();
        let [frame_type, fcs_ok, protocols, source, malformed, severity] = columns[..] else {
            panic!("{row:?}")
        };
        users += usize::from(source == user);
        assert!(matches!(fcs_ok, "1" | "True"), "{row:?}");
        // 0x100000 is the severity of our own comments: on the primary user's frames, and on those that were
        // not received.
        assert!(malformed.is_empty() && matches!(severity, "" | "1048576"), "{row:?}");
        let (kind, expected) = if frame_type == "0x0002" { (1, "wpan") } else { (0, "wpan:data") };
        assert_eq!(protocols, expected, "{row:?}");
        types[kind] += 1;
    }
    assert!(types[0] >= least[0] + users && types[1] >= least[1], "{types:?}, {users} of the primary user");
    assert!(users > 500, "{users} frames of the primary user");
    let errors =
        tshark(&file, &["-Y", "_ws.expert.severity >= 8388608", "-T", "fields", "-e", "_ws.expert.message"]);
    assert_eq!(errors.as_deref(), Some(""), "expert items of severity error");
}
