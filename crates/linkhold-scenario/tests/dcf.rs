//! Scenarios with `radio.mac = "dcf"`: what they resolve to, what is said of them, and what is refused.

use linkhold_radio::Mac;
use linkhold_radio::dcf::{DcfConfig, Phy};
use linkhold_scenario::{NoFiles, ResolvedScenario, Scenario, ScenarioError, json_schema};

const BASE: &str = r#"schema = "linkhold.scenario/1"
name = "test"
duration = "20s"
[[flows]]
direction = "uplink"
[radio]
mac = "dcf"
phy_rate = "24Mbit/s"
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(text, "dir/s.toml", &[], &NoFiles)
}

fn resolved(text: &str) -> ResolvedScenario {
    parse(text).unwrap_or_else(|error| panic!("{error}")).cases()[0].scenario.clone()
}

fn refused(text: &str) -> String {
    parse(text).err().unwrap_or_else(|| panic!("accepted:\n{text}")).to_string()
}

#[test]
fn defaults_are_the_standards() {
    let expected = Mac::Dcf(DcfConfig::new(Phy::Ieee80211a));
    assert_eq!(resolved(BASE).radio.mac, expected, "file and library have the same defaults");
}

#[test]
fn every_key_reaches_the_radio() {
    let text = BASE.replace("24Mbit/s", "11Mbit/s")
        + r#"
[radio.dcf]
phy = "802.11b"
rts_threshold = "500B"
short_retry_limit = 5
long_retry_limit = 3
"#;
    let expected = DcfConfig {
        rts_threshold: 500,
        short_retry_limit: 5,
        long_retry_limit: 3,
        ..DcfConfig::new(Phy::Ieee80211b)
    };
    assert_eq!(resolved(&text).radio.mac, Mac::Dcf(expected));
}

/// 12,000 bits in 681.5 us, as with `air_time = "802.11a"`; with RTS in 88 us more.
#[test]
fn the_summary_says_what_a_sender_alone_gets() {
    let summary = |more: &str| {
        let scenario = parse(&format!("{BASE}{more}")).unwrap_or_else(|error| panic!("{error}"));
        scenario.summary()
    };
    let plain = summary("");
    assert!(plain.contains("IEEE 802.11a DCF, 1 station"), "{plain}");
    assert!(plain.contains("17.61 Mbit/s in full-size packets from a sender alone"), "{plain}");
    assert!(plain.contains("a frame has 7 attempts; no RTS"), "{plain}");
    let asking = summary("dcf = { rts_threshold = \"1000B\" }\n");
    assert!(asking.contains("15.59 Mbit/s in full-size packets from a sender alone"), "{asking}");
    assert!(asking.contains("longer than 1000 B it goes behind RTS and CTS"), "{asking}");
}

#[test]
fn what_does_not_fit_is_told_with_its_line() {
    let channels = "[[radio.channels]]\nphy_rate = \"7Mbit/s\"\nmac_efficiency = 0.5\n";
    for (more, what) in [
        (
            "dcf = { phy = \"802.11b\" }",
            "dir/s.toml:8:12: radio.phy_rate: IEEE 802.11b has no rate of 24.00 Mbit/s",
        ),
        ("air_time = \"802.11a\"", "dir/s.toml:9:12: radio.air_time: does nothing with mac = \"dcf\""),
        ("mac_efficiency = 0.5", "radio.mac_efficiency: does nothing with mac = \"dcf\""),
        ("retry_limit = 3", "radio.retry_limit: does nothing with mac = \"dcf\""),
        ("dcf = { short_retry_limit = 0 }", "radio.dcf.short_retry_limit: a frame has at least one attempt"),
        ("dcf = { long_retry_limit = 0 }", "radio.dcf.long_retry_limit: a frame has at least one attempt"),
        ("dcf = { long_retry_limit = 256 }", "radio.dcf.long_retry_limit: "),
        ("dcf = { rts_threshold = \"3000B\" }", "radio.dcf.rts_threshold: "),
        ("dcf = { rts_threshold = \"5GB\" }", "radio.dcf.rts_threshold: "),
        ("dcf = { phy = \"802.11n\" }", "radio.dcf.phy: "),
        ("dcf = { cw_min = 3 }", "radio.dcf.cw_min: "),
        ("[radio.ieee802154]\nmpdu = 127", "does nothing without mac = \"802.15.4\""),
        ("[radio.grants]\nt3 = \"20ms\"", "radio.grants: does nothing without"),
        ("[radio.trace]\ndown = \"x\"", "radio.trace: does nothing without mac = \"trace\""),
        (channels, "radio.channels[0].phy_rate: IEEE 802.11a has no rate of 7.00 Mbit/s"),
        (channels, "radio.channels[0].mac_efficiency: does nothing with mac = \"dcf\""),
    ] {
        let told = refused(&format!("{BASE}{more}\n"));
        assert!(told.contains(what), "{more}:\n{told}");
    }
    for mac in ["shared", "duplex", "802.16"] {
        let text = BASE.replace("\"dcf\"", &format!("{mac:?}")) + "[radio.dcf]\nshort_retry_limit = 3\n";
        let told = refused(&text);
        assert!(told.contains("radio.dcf: does nothing without mac = \"dcf\""), "{told}");
    }
}

#[test]
fn the_schema_has_its_keys() {
    let schema = serde_json::to_string(&json_schema()).expect("a schema is JSON");
    for text in [
        "rts_threshold",
        "short_retry_limit",
        "dot11LongRetryLimit",
        "802.11b",
        "contend by IEEE 802.11's DCF",
    ] {
        assert!(schema.contains(text), "{text}");
    }
}
