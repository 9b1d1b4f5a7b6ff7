//! `primary_user.log`: what it resolves to, and how a wrong log or a key beside it is refused; a key beside a
//! mesh's log.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use linkhold_core::time::{Duration, Instant};
use linkhold_scenario::{Files, ResolvedScenario, Scenario, json_schema};

struct Fake(BTreeMap<&'static str, &'static [u8]>);

impl Files for Fake {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = path.to_str().and_then(|path| self.0.get(path));
        bytes.map(|bytes| bytes.to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

/// Two users of band 1 whose bursts overlap, and one of band 2.
const GOOD: &str =
    "<1, 0, 0, 1, 1>\n<2, 9000, 0, 1, 1>\n<3, 0, 0, 2, 1>\n<1, 1, 3>\n<2, 2, 4>\n<3, 5, 6>\n<1, 7, 8>\n";

/// The log stands in line 7 and on.
fn read(radio: &str, log: &'static str) -> Result<Scenario, String> {
    let text = format!(
        "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"9s\"\n[[flows]]\n\
         direction = \"downlink\"\n[radio]\n{radio}\n"
    );
    let files = Fake(BTreeMap::from([("dir/pu.log", log.as_bytes())]));
    Scenario::parse(&text, "dir/s.toml", &[], &files).map_err(|error| error.to_string())
}

fn resolved(radio: &str) -> ResolvedScenario {
    read(radio, GOOD).expect("all is right").cases()[0].scenario.clone()
}

fn periods(scenario: &ResolvedScenario, channel: usize) -> Vec<(u64, u64)> {
    let measured = scenario.radio.measured_users[channel].clone().expect("the log has its users");
    let seconds = |at: Instant| at.as_nanos() / 1_000_000_000;
    (0..).map_while(|index| measured.period(index)).map(|(on, off)| (seconds(on), seconds(off))).collect()
}

const ONE: &str = "phy_rate = \"24Mbit/s\"\nprimary_user = { log = \"pu.log\", detection_delay = \"20ms\" }";

#[test]
fn the_only_channel_hears_all_users_of_band_one() {
    let scenario = resolved(ONE);
    assert_eq!(periods(&scenario, 0), [(1, 4), (7, 8)]);
    let user = scenario.radio.channels[0].primary_user.expect("there is one");
    assert_eq!((user.detection_delay, user.on_mean), (Duration::from_millis(20), Duration::from_secs(2)));
    let summary = read(ONE, GOOD).expect("all is right").summary();
    assert!(summary.contains("primary users of band 1 of a log: 2 times on, 50.0 % until 8s"), "{summary}");
}

#[test]
fn channel_i_hears_band_i_plus_1_by_one_key_or_one_for_each() {
    let channels = "[[radio.channels]]\nphy_rate = \"24Mbit/s\"\n[[radio.channels]]\nphy_rate = \"12Mbit/s\"\n\
                    [[radio.channels]]\nphy_rate = \"6Mbit/s\"\n";
    let all = resolved(&format!("primary_user = {{ log = \"pu.log\" }}\n{channels}"));
    assert_eq!(periods(&all, 0), [(1, 4), (7, 8)]);
    assert_eq!(periods(&all, 1), [(5, 6)]);
    assert_eq!(periods(&all, 2), [], "no user is on band 3");
    let own = resolved(
        "[[radio.channels]]\nphy_rate = \"6Mbit/s\"\n[[radio.channels]]\nphy_rate = \"24Mbit/s\"\n\
         primary_user = { log = \"pu.log\" }\n",
    );
    assert_eq!(periods(&own, 1), [(5, 6)]);
    assert!(own.radio.channels[0].primary_user.is_none() && own.radio.measured_users[0].is_none());
    let radio = "mac = \"802.15.4\"\nprimary_user = { log = \"pu.log\" }\n[tcp]\nmss = 94";
    assert_eq!(periods(&resolved(radio), 0), [(1, 4), (7, 8)]);
}

#[test]
fn without_a_log_nothing_is_measured() {
    let scenario =
        resolved("phy_rate = \"24Mbit/s\"\nprimary_user = { on_mean = \"1s\", off_mean = \"3s\" }");
    assert!(scenario.radio.measured_users.is_empty());
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_key() {
    let user = |keys: &str| format!("phy_rate = \"24Mbit/s\"\nprimary_user = {{ {keys} }}");
    for (radio, log, messages) in [
        (
            user("log = \"pu.log\", on_mean = \"1s\""),
            GOOD,
            &["dir/s.toml:8:", "radio.primary_user.on_mean: does nothing beside log"][..],
        ),
        (
            user("log = \"pu.log\", off_mean = \"1s\", fixed = true"),
            GOOD,
            &["radio.primary_user.off_mean: does nothing beside", "radio.primary_user.fixed: does nothing beside"],
        ),
        (user(""), GOOD, &["the key `on_mean` is missing", "the key `off_mean` is missing", "or write log ="]),
        (user("log = \"pu.log\""), "1 0 0 1 1\n1 4 3\n", &[
            "dir/s.toml:8:",
            "radio.primary_user.log: dir/pu.log:2: the departure is not after the arrival",
        ]),
        (user("log = \"pu.log\""), "1 0 0 1 1\n1 0 3\n1 2 4\n", &["dir/pu.log:3: the burst overlaps that of line 2"]),
        (user("log = \"other.log\""), GOOD, &["radio.primary_user.log: cannot read the PU log dir/other.log"]),
        (
            "primary_user = { log = \"pu.log\" }\n[[radio.channels]]\nphy_rate = \"6Mbit/s\"\n\
             primary_user = { on_mean = \"1s\", off_mean = \"1s\" }"
                .to_owned(),
            GOOD,
            &["radio.channels[0].primary_user: does nothing beside radio.primary_user.log"],
        ),
        (
            "primary_user = { on_mean = \"1s\", off_mean = \"1s\" }\n[[radio.channels]]\nphy_rate = \"6Mbit/s\"".to_owned(),
            GOOD,
            &["radio.primary_user: does nothing beside radio.channels"],
        ),
    ] {
        let told = read(&radio, log).expect_err("it is wrong");
        for message in messages {
            assert!(told.contains(message), "{radio}\nshould tell: {message}\nbut told:    {told}");
        }
    }
    let schema = serde_json::to_string(&json_schema()).expect("a schema is JSON");
    assert!(schema.contains("PU log with the users' bursts"));
}

#[test]
fn a_range_beside_the_log_of_a_mesh_is_refused() {
    let read = |more: &str| {
        let text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"9s\"\n[mesh]\nnodes = 2\n[mesh.spectrum]\n\
             detector = \"perfect\"\npu_log = \"pu.log\"\n{more}[[flows]]\nfrom = 0\nto = 1\n"
        );
        let files = Fake(BTreeMap::from([("dir/pu.log", GOOD.as_bytes())]));
        Scenario::parse(&text, "dir/s.toml", &[], &files).map_err(|error| error.to_string())
    };
    assert!(read("").is_ok(), "the default range is nobody's mistake");
    let told = read("user_range = \"300m\"\n").expect_err("it does nothing");
    let expected = "dir/s.toml:9:14: mesh.spectrum.user_range: does nothing beside pu_log; remove it";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn what_was_run_names_the_log_by_its_whole_path() {
    let scenario = read(ONE, GOOD).expect("all is right");
    let whole = std::path::absolute("dir/pu.log").expect("there is a working folder");
    let whole = whole.to_str().expect("it is text").to_owned();
    assert!(scenario.as_run().contains(&whole), "{}", scenario.as_run());
}
