//! Scenarios with `radio.mac = "802.15.4"`: what they resolve to, what is said of them, and what is refused.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::{ExtendedAddress, HeardBy, Ieee802154Config, Mac, OverhearConfig};
use linkhold_scenario::{NoFiles, ResolvedScenario, Scenario, ScenarioError, json_schema};

const BASE: &str = r#"schema = "linkhold.scenario/1"
name = "test"
duration = "20s"
[tcp]
mss = 94
[[flows]]
direction = "uplink"
[radio]
mac = "802.15.4"
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(text, "dir/s.toml", &[], &NoFiles)
}

fn resolved(text: &str) -> ResolvedScenario {
    parse(text).unwrap_or_else(|error| panic!("{error}")).cases()[0].scenario.clone()
}

fn mac(scenario: &ResolvedScenario) -> &Ieee802154Config {
    let Mac::Ieee802154(mac) = &scenario.radio.mac else { panic!("{:?}", scenario.radio.mac) };
    mac
}

#[test]
fn defaults_are_the_standards_and_no_detector_is_perfect() {
    let plain = resolved(BASE);
    assert_eq!(mac(&plain), &Ieee802154Config::default(), "file and library have the same defaults");
    assert_eq!(plain.radio.channels.len(), 1);
    assert_eq!(plain.radio.channels[0].phy_rate, BitRate(250_000));
    let user = resolved(&format!("{BASE}primary_user = {{ on_mean = \"4s\", off_mean = \"4s\" }}\n"));
    let OverhearConfig { missed, delay, idle_time, false_alarms, .. } = mac(&user).overhearing;
    assert!(missed > Fraction::ZERO && !delay.is_zero() && false_alarms > 0.0);
    assert_eq!(idle_time, Duration::from_secs(1), "the paper's T_idle");
    assert_eq!(mac(&user).user_heard_by, HeardBy::All);
}

#[test]
fn every_key_reaches_the_radio() {
    let text = BASE.replace("mss = 94", "mss = 95")
        + r#"
[radio.ieee802154]
min_be = 2
max_be = 6
max_csma_backoffs = 5
max_frame_retries = 7
acknowledged = false
mpdu = 128
processing_time = "0s"
after_busy = "192us"
frame_loss = 0
[radio.primary_user]
on_mean = "4s"
off_mean = "3s"
heard_by = "base-station"
address = "02:00:00:01:00:00:AB:07"
[radio.primary_user.overhear]
address = "00:12:4b:00:01:02:03:04"
frame_interval = "6ms"
missed = 0.5
delay = "0s"
idle_time = "2s"
false_alarms = "off"
"#;
    let expected = Ieee802154Config {
        min_be: 2,
        max_be: 6,
        max_csma_backoffs: 5,
        max_frame_retries: 7,
        acknowledged: false,
        mpdu: 128,
        processing_time: Duration::ZERO,
        frame_loss: Fraction::ZERO,
        after_busy: Duration::from_micros(192),
        user_heard_by: HeardBy::BaseStation,
        user_address: ExtendedAddress([2, 0, 0, 1, 0, 0, 0xab, 7]),
        overhearing: OverhearConfig {
            address: ExtendedAddress([0, 0x12, 0x4b, 0, 1, 2, 3, 4]),
            frame_interval: Duration::from_millis(6),
            missed: Fraction::clamped(0.5),
            delay: Duration::ZERO,
            idle_time: Duration::from_secs(2),
            false_alarms: 0.0,
        },
        ..Ieee802154Config::default()
    };
    let scenario = resolved(&text);
    assert_eq!(mac(&scenario), &expected);
    assert_eq!(scenario.tcp.mss, 95);
    let user = scenario.radio.channels[0].primary_user.expect("there is one");
    assert_eq!((user.on_mean, user.off_mean), (Duration::from_secs(4), Duration::from_secs(3)));
    assert_eq!(user.detection_delay, Duration::ZERO, "`overhear` has the delays");
}

#[test]
fn what_this_radio_does_not_do_is_refused_with_what_would_be_right() {
    let user = "[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\n";
    let with_user = |more: &str| format!("{user}{more}");
    for (more, message) in [
        ("phy_rate = \"24Mbit/s\"", "dir/s.toml:10:12: radio.phy_rate: does nothing with mac = \"802.15.4\""),
        ("snr = { file = \"s.csv\" }", "radio.snr: does nothing with mac = \"802.15.4\""),
        ("retry_limit = 3", "radio.retry_limit: does nothing with mac = \"802.15.4\""),
        ("retry_limit = 3", "write radio.ieee802154.max_frame_retries"),
        ("switching_delay = \"1ms\"", "this radio has one channel"),
        ("sensing = { period = \"1s\", duration = \"1ms\" }", "radio.sensing: does nothing with mac"),
        ("[[radio.channels]]\nphy_rate = \"1Mbit/s\"", "radio.channels[0]: does nothing with mac"),
        ("[router]\nin_silence = \"drop\"", "router.in_silence: does nothing with mac"),
        (&with_user("detection_delay = \"5ms\""), "write radio.primary_user.overhear.delay"),
        (
            &with_user("overhear = { idle_time = \"0s\" }"),
            "radio.primary_user.overhear.idle_time: \"0s\" is zero",
        ),
        (&with_user("overhear = { missed = 1.5 }"), "radio.primary_user.overhear.missed"),
        (
            &with_user("overhear = { frame_interval = \"900us\" }"),
            "radio.primary_user.overhear.frame_interval: 900us is too short for a frame; write 928us or more",
        ),
        (
            &with_user("address = \"02:00:00:01:00:00:00\""),
            "radio.primary_user.address: \"02:00:00:01:00:00:00\" is no extended address; write eight octets such as",
        ),
        (&with_user("address = \"02:00:00:01:00:00:00:01:02\""), "is no extended address"),
        (&with_user("address = \"02:00:00:01:00:00:00:+1\""), "is no extended address"),
        (&with_user("address = \"02:00:00:00:00:00:00:01\""), "belongs to a radio of the cell"),
        (
            &with_user("overhear = { address = \"02:00:00:00:00:00:00:00\" }"),
            "radio.primary_user.overhear.address: 02:00:00:00:00:00:00:00 belongs to a radio of the cell",
        ),
        (&with_user("heard_by = \"nobody\""), "radio.primary_user.heard_by"),
        ("[radio.ieee802154]\nmin_be = 6", "radio.ieee802154.min_be: min_be (6) is above max_be (5)"),
        ("[radio.ieee802154]\nmax_csma_backoffs = 6", "IEEE 802.15.4 has 0 to 5"),
        ("[radio.ieee802154]\nmpdu = 129", "write 121 to 128; the standard's largest is 127"),
        (
            "[radio.ieee802154]\nmpdu = 126",
            "dir/s.toml:5:7: tcp.mss: a segment of 94 bytes does not fit: of an MPDU of 126 bytes 33 are headers",
        ),
        ("[radio.ieee802154]\nmpdu = 126", "write tcp.mss = 93, or less"),
    ] {
        let told = parse(&format!("{BASE}{more}\n")).expect_err("the file is wrong").to_string();
        assert!(told.contains(message), "{more}\nshould tell: {message}\nbut told:    {told}");
    }
    let unset = BASE.replace("mss = 94\n", "");
    let told = parse(&unset).expect_err("1460 bytes do not fit").to_string();
    assert!(
        told.contains("tcp.mss: a segment of 1460 bytes") && told.contains("write tcp.mss = 94"),
        "{told}"
    );
}

#[test]
fn what_only_this_radio_uses_is_refused_elsewhere() {
    let shared = BASE.replace("mac = \"802.15.4\"", "phy_rate = \"24Mbit/s\"");
    for more in [
        "ieee802154 = { mpdu = 127 }",
        "[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\nheard_by = \"stations\"",
        "[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\naddress = \"02:00:00:01:00:00:00:02\"",
        "[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\noverhear = { missed = 0.2 }",
    ] {
        let told = parse(&format!("{shared}{more}\n")).expect_err("it does nothing").to_string();
        assert!(told.contains("does nothing without mac = \"802.15.4\""), "{more}: {told}");
    }
}

#[test]
fn the_summary_says_who_is_told_what_and_how_late() {
    let case = "[[cases]]\nname = \"x\"\nmechanism = \"cr-aware\"\n";
    let told = |more: &str| parse(&format!("{BASE}{more}{case}")).expect("valid").summary();
    assert!(told("").contains("told        no silence: there is no primary user"), "{}", told(""));
    let user = "[radio.primary_user]\non_mean = \"4s\"\noff_mean = \"4s\"\n";
    let all = told(user);
    assert!(
        all.contains(
            "each radio's host: a primary user 10ms after the first of its frames that is overheard (10.0 % are \
             missed), its end 1s after the last; 0.001/s false alarms; nobody tells the rate"
        ),
        "{all}"
    );
    assert!(
        all.contains("BE 3 to 5, 4 backoffs, acknowledged, 3 retries; MPDU 127 B; 1ms to process"),
        "{all}"
    );
    let hidden = told(&format!("{user}heard_by = \"base-station\"\n"));
    assert!(hidden.contains("the base station (no station hears the primary user)"), "{hidden}");
    let unknown = told(&format!("{user}overhear = {{ address = \"02:00:00:01:00:00:00:02\" }}\n"));
    assert!(
        unknown.contains(
            "no true silence: the primary user sends from 02:00:00:01:00:00:00:01, and radios listen for \
             02:00:00:01:00:00:00:02; 0.001/s false alarms; nobody tells the rate"
        ),
        "{unknown}"
    );
}

#[test]
fn radios_listen_for_the_users_own_address_unless_they_are_told_another() {
    let user = "[radio.primary_user]\non_mean = \"4s\"\noff_mean = \"4s\"\n";
    let addresses = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|&key| key.to_owned()).collect();
        let scenario = Scenario::parse(&format!("{BASE}{user}"), "dir/s.toml", &set, &NoFiles);
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}")).cases()[0].scenario.clone();
        (mac(&scenario).user_address, mac(&scenario).overhearing.address)
    };
    let (first, second) = (ExtendedAddress::PRIMARY_USER, ExtendedAddress([2, 0, 0, 1, 0, 0, 0, 2]));
    assert_eq!(addresses(&[]), (first, first));
    assert_eq!(addresses(&["radio.primary_user.address=02:00:00:01:00:00:00:02"]), (second, second));
    let listen = "radio.primary_user.overhear.address=02:00:00:01:00:00:00:02";
    assert_eq!(addresses(&[listen]), (first, second));
}

#[test]
fn the_schema_knows_the_keys() {
    let schema = serde_json::to_string(&json_schema()).expect("a schema is JSON");
    for key in ["\"802.15.4\"", "\"ieee802154\"", "\"overhear\"", "\"heard_by\"", "\"idle_time\""] {
        assert!(schema.contains(key), "{key}");
    }
}
