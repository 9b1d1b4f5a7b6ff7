//! Scenarios with a granted uplink: what they resolve to, what is said of them, and what is refused.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::grants::{Backoff, Duplexing, Proactive, Requesting, SuccessChange, SuccessChanges};
use linkhold_radio::{GrantsConfig, Mac, Standard};
use linkhold_scenario::{NoFiles, ResolvedScenario, Scenario, ScenarioError, json_schema};

const BASE: &str = r#"schema = "linkhold.scenario/1"
name = "test"
duration = "20s"
[[flows]]
direction = "downlink"
[radio]
phy_rate = "6Mbit/s"
"#;

fn text(mac: &str, more: &str) -> String {
    format!("{BASE}mac = {mac:?}\n{more}\n")
}

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(text, "dir/s.toml", &[], &NoFiles)
}

fn resolved(mac: &str, more: &str) -> ResolvedScenario {
    parse(&text(mac, more)).unwrap_or_else(|error| panic!("{error}")).cases()[0].scenario.clone()
}

fn grants(mac: &str, more: &str) -> GrantsConfig {
    let scenario = resolved(mac, more);
    let Mac::Grants(grants) = scenario.radio.mac else { panic!("{:?}", scenario.radio.mac) };
    grants
}

#[test]
fn each_word_is_a_standards_set_of_parameters() {
    for (mac, standard) in
        [("802.16", Standard::Ieee80216), ("docsis", Standard::Docsis), ("5g", Standard::FiveG)]
    {
        let GrantsConfig { t3, .. } = grants(mac, "");
        assert_eq!(grants(mac, ""), GrantsConfig { t3, ..GrantsConfig::of(standard) }, "{mac}");
    }
    let scenario = resolved("802.16", "");
    assert_eq!(scenario.radio.channels[0].efficiency, Fraction::ONE, "the overheads are modelled");
    let written = resolved("802.16", "mac_efficiency = 0.9");
    assert_eq!(written.radio.channels[0].efficiency, Fraction::clamped(0.9));
}

#[test]
fn every_key_reaches_the_radio() {
    let all = r#"stations = 3
[radio.grants]
frame = "10ms"
duplexing = "tdd"
downlink_share = 0.5
ttg = "100us"
rtg = "50us"
maps = "200us"
contention = "300us"
uplink_rate = "3Mbit/s"
header = "12B"
codes = 64
subchannels = 2
slots = 5
success = 0.9
assignment = 2
implementation_delay = 3
t3 = "99ms"
backoff = "standard"
backoff_start = 1
backoff_end = 7
max_tries = 9
piggyback = false
proactive = "100B"
proactive_period = 4
tell_silences = true
success_changes = [{ at = "2s", success = 0.5 }, { at = "4s", success = 1 }]
"#;
    let mut success_changes = SuccessChanges::default();
    for (seconds, success) in [(2, 0.5), (4, 1.0)] {
        let at = Instant::ZERO + Duration::from_secs(seconds);
        assert!(success_changes.push(SuccessChange { at, success: Fraction::clamped(success) }));
    }
    let us = Duration::from_micros;
    let expected = GrantsConfig {
        frame: us(10_000),
        duplexing: Duplexing::Tdd { downlink_share: Fraction::clamped(0.5), ttg: us(100), rtg: us(50) },
        maps: us(200),
        contention: us(300),
        uplink_rate: Some(BitRate::from_mbps(3)),
        header: 12,
        requesting: Requesting::Contention {
            codes: 64,
            subchannels: 2,
            slots: 5,
            backoff: Backoff::Standard,
            backoff_start: 1,
            backoff_end: 7,
        },
        success: Fraction::clamped(0.9),
        success_changes,
        assignment: 2,
        implementation_delay: 3,
        t3: us(99_000),
        max_tries: 9,
        piggyback: false,
        proactive: Some(Proactive { bytes: Bytes(100), period: 4 }),
        tell_silences: true,
        ..GrantsConfig::of(Standard::Ieee80216)
    };
    assert_eq!(grants("802.16", all), expected);
    let five_g = grants("5g", "[radio.grants]\nduplexing = \"tdd\"\nrequest_period = 4\n");
    assert_eq!(five_g.frame, us(2500), "a pattern's period");
    assert_eq!(five_g.requesting, Requesting::Reserved { period: 4 });
    let slot = grants("5g", "[radio.grants]\nframe = \"500us\"\n");
    assert_eq!(slot.maps, us(500).mul_f64(2.0 / 14.0), "control symbols follow the slot");
}

#[test]
fn the_papers_cell_has_its_rates_and_its_eight_frames() {
    let more = "[radio.grants]\nuplink_rate = \"3.617Mbit/s\"\n";
    let paper = text("802.16", more).replace("6Mbit/s", "5.92Mbit/s");
    let scenario = parse(&paper).expect("it is valid");
    let Mac::Grants(grants) = scenario.cases()[0].scenario.radio.mac.clone() else { panic!("it grants") };
    let (down, up) = grants.data_shares();
    assert!((5.92 * down - 3.0).abs() < 0.01, "{}", 5.92 * down);
    assert!((3.617 * up - 1.0).abs() < 0.01, "{}", 3.617 * up);
    assert_eq!(grants.first_answer() + grants.second_answer() + 1, 8);
    let summary = scenario.summary();
    for fact in [
        "IEEE 802.16, 1 station",
        "5.92 Mbit/s x 1 = 5.92 Mbit/s in a burst",
        "TDD frames of 5ms: 3.111091ms down (576us of maps), 121.2us gap, 1.727309ms up (345.6us of contention)",
        "10 B around each packet",
        "16 codes x 1 subchannels x 3 slots; next try after 60ms and a window of 2^0 to 2^6 frames",
        "burst 7 frames after the request (assignment 1, implementation 4); piggybacked requests",
    ] {
        assert!(summary.contains(fact), "{fact} in\n{summary}");
    }
}

#[test]
fn every_frame_length_of_the_standard_fits_the_defaults() {
    for frame in ["2ms", "2.5ms", "4ms", "5ms", "8ms", "10ms", "12ms"] {
        let grants = grants("802.16", &format!("[radio.grants]\nframe = {frame:?}\n"));
        assert!(grants.t3 >= grants.frame * 12, "{frame}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_place_and_what_would_be_right() {
    for (mac, more, message) in [
        (
            "802.16",
            "frame = \"3ms\"",
            "dir/s.toml:10:9: radio.grants.frame: 802.16 has no frame of 3ms; it has 2, 2.5, 4, 5, 8, 10 and 12 ms",
        ),
        ("802.16", "codes = 257", "dir/s.toml:10:9: radio.grants.codes: there are 256 codes, not 257"),
        ("802.16", "codes = 257", "write 1 to 256"),
        ("802.16", "codes = 0", "radio.grants.codes: the number 0 is zero"),
        (
            "802.16",
            "maps = \"4ms\"",
            "radio.grants.maps: the downlink subframe of 3.111091ms has no room beside its 4ms of maps",
        ),
        (
            "802.16",
            "contention = \"2ms\"",
            "radio.grants.contention: the uplink subframe of 1.727309ms has no room",
        ),
        (
            "802.16",
            "downlink_share = 0.95",
            "radio.grants.downlink_share: the uplink subframe of 241.92us has no room",
        ),
        (
            "802.16",
            "ttg = \"3ms\"\nrtg = \"2ms\"",
            "radio.grants.ttg: the gaps of 5ms leave nothing of a frame of 5ms",
        ),
        (
            "802.16",
            "proactive = \"2kB\"",
            "radio.grants.proactive: 2000 B of grants do not fit into an uplink subframe of 1036 B",
        ),
        ("802.16", "uplink_rate = \"50kbit/s\"", "radio.grants.uplink_rate: 17 B of grants do not fit"),
        (
            "802.16",
            "t3 = \"10ms\"",
            "radio.grants.t3: a t3 of 10ms is over before the answer, which comes after 20ms",
        ),
        ("802.16", "t3 = \"10ms\"", "write t3 = \"20ms\", or more"),
        ("802.16", "assignment = 0\nimplementation_delay = 0", "write assignment = 1, or more"),
        ("802.16", "backoff_start = 7", "backoff_start is out of range"),
        ("802.16", "backoff_end = 16", "write at most 15"),
        ("802.16", "success = 0", "radio.grants.success"),
        (
            "802.16",
            "success_changes = [{ at = \"10s\", success = 0.5 }, { at = \"10s\", success = 1 }]",
            "radio.grants.success_changes[1].at: the change at 10s does not come after the one before it; write the \
             changes in the order of their times",
        ),
        (
            "802.16",
            "success_changes = [{ at = \"10s\", success = 0 }]",
            "radio.grants.success_changes[0].success",
        ),
        ("802.16", "success_changes = [{ at = \"10s\" }]", "radio.grants.success_changes[0]"),
        ("802.16", "success_changes = [{ success = 0.5 }]", "radio.grants.success_changes[0]"),
        ("5g", "frame = \"5ms\"", "5g has no frame of 5ms; it has slots of 1 ms, 500 us"),
        ("5g", "frame = \"0.7ms\"\nduplexing = \"tdd\"", "it has TDD periods of 0.5, 0.625, 1"),
        ("docsis", "frame = \"30ms\"", "it has MAP intervals from 0.1 to 20 ms"),
        ("docsis", "duplexing = \"tdd\"", "a cable has a medium for each direction"),
        // Keys that do nothing.
        ("5g", "codes = 3", "radio.grants.codes: does nothing with mac = \"5g\""),
        ("5g", "backoff = \"paper\"", "write request_period: each station has an opportunity of its own"),
        ("docsis", "codes = 3", "write slots: a request minislot has no codes"),
        ("802.16", "request_period = 3", "radio.grants.request_period: does nothing with mac = \"802.16\""),
        ("docsis", "ttg = \"1us\"", "radio.grants.ttg: does nothing with duplexing = \"fdd\""),
        ("802.16", "proactive_period = 3", "radio.grants.proactive_period: does nothing without `proactive`"),
        (
            "802.16",
            "backoff = \"paper\"\nt3 = \"1s\"",
            "radio.grants.t3: does nothing with backoff = \"paper\"",
        ),
    ] {
        let told = parse(&text(mac, &format!("[radio.grants]\n{more}"))).err();
        let told = told.unwrap_or_else(|| panic!("{more} should be refused")).to_string();
        assert!(told.contains(message), "{mac}, {more}\nshould tell: {message}\nbut told:    {told}");
    }
    for (more, message) in [
        ("air_time = \"802.11a\"", "radio.air_time: does nothing with mac = \"802.16\""),
        ("[radio.ieee802154]\nmpdu = 127", "does nothing without mac = \"802.15.4\""),
        ("[radio.trace]\ndown = \"x\"", "radio.trace: does nothing without mac = \"trace\""),
    ] {
        let told = parse(&text("802.16", more)).expect_err("it does nothing").to_string();
        assert!(told.contains(message), "{more}: {told}");
    }
    for mac in ["shared", "duplex"] {
        let told =
            parse(&text(mac, "grants = { frame = \"5ms\" }")).expect_err("it does nothing").to_string();
        assert!(told.contains("radio.grants: does nothing without mac = \"802.16\""), "{told}");
    }
}

#[test]
fn a_channel_too_slow_for_the_smallest_grant_is_named_by_its_own_rate() {
    let slow = text("802.16", "").replace("phy_rate = \"6Mbit/s\"", "phy_rate = \"50kbit/s\"");
    let told = parse(&slow).expect_err("nothing fits").to_string();
    assert!(told.contains("radio.phy_rate: an uplink subframe carries "), "{told}");
    assert!(told.contains("the smallest grant is of 17 B; write a higher rate"), "{told}");
}

#[test]
fn many_stations_share_the_room_for_unsolicited_grants() {
    let fifty = |period| {
        format!("stations = 50\n[radio.grants]\nproactive = \"100B\"\nproactive_period = {period}\n")
    };
    let told = parse(&text("802.16", &fifty(1))).expect_err("50 in one frame are too many").to_string();
    assert!(told.contains("5000 B of grants do not fit"), "{told}");
    assert_eq!(grants("802.16", &fifty(5)).proactive, Some(Proactive { bytes: Bytes(100), period: 5 }));
}

#[test]
fn a_chance_that_changes_is_said_and_more_than_eight_changes_are_refused() {
    let changes = |count: u32| {
        let all: Vec<String> = (1..=count).map(|n| format!("{{ at = \"{n}s\", success = 0.5 }}")).collect();
        text("802.16", &format!("[radio.grants]\nsuccess_changes = [{}]\n", all.join(", ")))
    };
    let summary = parse(&changes(2)).expect("it is valid").summary();
    assert!(summary.contains("requests received: 50.0 % from 1s on, 50.0 % from 2s on"), "{summary}");
    assert!(parse(&changes(8)).is_ok());
    let told = parse(&changes(9)).expect_err("they are too many").to_string();
    assert!(
        told.contains("radio.grants.success_changes[8]: there are at most 8 changes of the chance in a run"),
        "{told}"
    );
}

#[test]
fn the_schema_knows_the_keys() {
    let schema = serde_json::to_string(&json_schema()).expect("a schema is JSON");
    for key in [
        "\"802.16\"",
        "\"docsis\"",
        "\"5g\"",
        "\"implementation_delay\"",
        "\"request_period\"",
        "\"success_changes\"",
    ] {
        assert!(schema.contains(key), "{key}");
    }
}
