//! `[radio.snr]`: what it resolves to, and how a wrong file, trace or value is refused.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use linkhold_core::registry::MechanismSettings;
use linkhold_core::snr_gate::{Rule, SnrGateConfig};
use linkhold_core::time::Duration;
use linkhold_radio::{Fading, PhyRate, SnrSource, WalkConfig};
use linkhold_scenario::{Files, Scenario, json_schema};

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

const GOOD: &str = "time,snr\n0,5\n1,7\n";

fn text(radio: &str, more: &str) -> String {
    format!(
        "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"9s\"\n[[flows]]\n\
         direction = \"uplink\"\n[radio]\n{radio}\n{more}"
    )
}

fn read(radio: &str, file: &'static [u8], more: &str) -> Result<Scenario, String> {
    let files = Fake(BTreeMap::from([("dir/a.csv", file)]));
    Scenario::parse(&text(radio, more), "dir/s.toml", &[], &files).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(radio: &str, file: &'static [u8]) -> String {
    read(radio, file, "").expect_err("the file is wrong")
}

const TRACE: &str = "phy_rate = \"5.5Mbit/s\"\nsnr = { trace = \"a.csv\" }";

#[test]
fn a_trace_is_read_and_the_modulation_follows_from_the_rate() {
    let scenario = read(TRACE, GOOD.as_bytes(), &gate("preset = \"paper\"")).expect("all is right");
    let snr = scenario.cases()[0].scenario.radio.snr.clone().expect("there is one");
    assert_eq!(snr.rates, [PhyRate::Cck5]);
    let SnrSource::Trace { trace, random_start: false } = &snr.source else { panic!("{:?}", snr.source) };
    assert_eq!((trace.rows(), trace.range_db()), (2, (5.0, 7.0)));
    // Nothing is told at once or exactly unless the file says so.
    assert_eq!(
        (snr.report.interval, snr.report.delay),
        (Duration::from_millis(100), Duration::from_millis(50))
    );
    assert_eq!(snr.report.error_db, 1.0);
    let told = scenario.summary();
    assert!(told.contains("the SNR every 100ms, 50ms late, with an error of 1 dB"), "{told}");
    assert!(told.contains("5 to 7 dB, measured (2 rows, 1s long); error rates of cck-5.5"), "{told}");
}

#[test]
fn a_walk_resolves_to_what_it_says() {
    let radio = "phy_rate = \"24Mbit/s\"\n[radio.snr]\nrate = \"ofdm-6\"\nerror = \"0dB\"\n[radio.snr.walk]\n\
                 snr_at_1m = \"45.5dB\"\nexponent = 2\nnear = \"2m\"\nfar = \"150cm\"\nspeed = \"1.5m/s\"\n\
                 fading = \"rician\"\nk_factor = \"-3dB\"\ndoppler = \"500mHz\"";
    let error = read(radio, b"", "").expect_err("far is nearer than near");
    assert!(error.contains("radio.snr.walk.far: the farthest point is nearer than the nearest"), "{error}");
    let scenario = read(&radio.replace("150cm", "30m"), b"", "").expect("all is right");
    let snr = scenario.cases()[0].scenario.radio.snr.clone().expect("there is one");
    let expected = WalkConfig {
        snr_at_1m: 45.5,
        exponent: 2.0,
        near: 2.0,
        far: 30.0,
        speed: 1.5,
        fading: Fading::Rician(-3.0),
        doppler: Some(0.5),
        random_start: true,
    };
    assert_eq!(snr.source, SnrSource::Walk(expected));
    assert_eq!((snr.rates, snr.report.error_db), (vec![PhyRate::Ofdm6], 0.0));
}

#[test]
fn a_trace_that_cannot_be_played_is_refused_with_its_own_line() {
    let cases: [(&'static [u8], &str); 8] = [
        (b"", "dir/a.csv:1: the file is empty; an SNR trace is a CSV file with a heading"),
        (b"time,db\n0,5\n", "dir/a.csv:1: there is no column `snr`; there are time, db"),
        (b"time,snr\n0,5\n", "dir/a.csv:2: an SNR trace needs at least two rows"),
        (b"time,snr\n0,5\n1,\n2,5\n", "dir/a.csv:3: the row has no value in the column `snr`"),
        (b"time,snr\n0,5\n1,weak\n", "dir/a.csv:3: \"weak\" is not an SNR in dB"),
        (b"time,snr\n1,5\n0,5\n", "dir/a.csv:3: the time is not after that of the row before"),
        (b"time,snr\n0,5\n100,5\n", "dir/a.csv:3: there is a gap of 100s before this row (at most 60s)"),
        (b"time,snr\n0,5\n1,\xff\n", "dir/a.csv:3: this is not text (UTF-8)"),
    ];
    for (file, message) in cases {
        let told = refused(TRACE, file);
        assert!(told.starts_with("dir/s.toml:8:") && told.contains(message), "{message}: {told}");
        assert!(told.contains("radio.snr.trace: "), "{told}");
    }
    let told = refused(&TRACE.replace("a.csv", "b.csv"), b"");
    assert!(told.contains("cannot read the SNR trace dir/b.csv"), "{told}");
}

#[test]
fn what_is_wrong_in_the_table_is_told_by_key() {
    for (radio, message) in [
        ("phy_rate = \"5.5Mbit/s\"\nsnr = {}", "radio.snr: nothing says how strong the signal is"),
        ("phy_rate = \"7Mbit/s\"\nsnr = { trace = \"a.csv\" }", "radio.snr: no modulation is known for 7"),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { trace = \"a.csv\", walk = { snr_at_1m = \"9dB\" } }",
            "radio.snr.walk: stands beside radio.snr.trace",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { trace = \"a.csv\", error = \"-1dB\" }",
            "radio.snr.error: a standard deviation cannot be negative",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { trace = \"a.csv\", error = 1 }",
            "radio.snr.error: 1 has no unit",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { trace = \"a.csv\", interval = \"0s\" }",
            "radio.snr.interval: \"0s\" is zero",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { trace = \"a.csv\", rate = \"cck-5\" }",
            "radio.snr.rate: \"cck-5\" is not known here",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { max_gap = \"1s\", walk = { snr_at_1m = \"9dB\" } }",
            "radio.snr.max_gap: does nothing without radio.snr.trace",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { walk = { snr_at_1m = \"9dB\", near = \"10cm\" } }",
            "radio.snr.walk.near: the path loss is that from one metre on",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { walk = { snr_at_1m = \"9dB\", exponent = 0 } }",
            "radio.snr.walk.exponent: the number 0 is no path-loss exponent",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { walk = { snr_at_1m = \"9dB\", k_factor = \"6dB\" } }",
            "radio.snr.walk.k_factor: does nothing without fading = \"rician\"",
        ),
        (
            "phy_rate = \"5.5Mbit/s\"\nsnr = { walk = { snr_at_1m = \"9dB\", speed = \"3km/h\" } }",
            "radio.snr.walk.speed: \"3km/h\" has the unknown unit",
        ),
        ("phy_rate = \"5.5Mbit/s\"\nsnr = { walk = {} }", "radio.snr.walk: the key `snr_at_1m` is missing"),
    ] {
        let told = refused(radio, GOOD.as_bytes());
        assert!(told.contains(message), "{message}: {told}");
        assert_eq!(told.lines().count(), 1, "one problem: {told}");
    }
    let told = refused(
        "mac = \"trace\"\ntrace = { down = \"a.csv\" }\nsnr = { trace = \"a.csv\" }",
        GOOD.as_bytes(),
    );
    assert!(told.contains("radio.snr: does nothing with mac = \"trace\""), "{told}");
}

fn gate(more: &str) -> String {
    format!("[[cases]]\nname = \"gate\"\nmechanism = {{ name = \"snr-gate\", {more} }}")
}

#[test]
fn a_gate_stands_at_the_stations_with_the_settings_that_the_case_states() {
    let case = gate("preset = \"paper\", threshold = \"-1.5dB\", lost_signal = \"2s\"");
    let scenario = read(TRACE, GOOD.as_bytes(), &case).expect("all is right");
    let [placed] = &scenario.cases()[0].scenario.mechanisms[..] else { panic!("one mechanism") };
    assert_eq!(placed.place.name(), "stations");
    let MechanismSettings::SnrGate(settings) = &placed.settings else { panic!("{placed:?}") };
    let lost_signal = Duration::from_secs(2);
    assert_eq!(*settings, SnrGateConfig { threshold: -1.5, lost_signal, ..SnrGateConfig::paper() });
    assert_eq!(settings.rule, Rule::Threshold);
    for (more, message) in [
        ("at = \"base-station\"", "snr-gate cannot stand at \"base-station\"; it can stand at \"stations\""),
        ("threshold = 5", "threshold: 5 has no unit; write a number of decibels such as \"5dB\""),
        ("margin = \"-1dB\"", "margin: a margin of -1 dB is negative; write 0dB or more"),
        ("least = \"9dB\", most = \"3dB\"", "least (9 dB) is above most (3 dB)"),
        ("averaged = 65", "averaged: 65 is out of range; write a whole number from 1 to 64"),
    ] {
        let told = read(TRACE, GOOD.as_bytes(), &gate(more)).expect_err("the setting is wrong");
        assert!(told.contains(message), "{message}: {told}");
    }
}

#[test]
fn a_gate_that_can_never_work_is_hinted_at() {
    let hints =
        |radio: &str, more: &str| read(radio, GOOD.as_bytes(), &gate(more)).expect("it is valid").hints();
    assert_eq!(hints(TRACE, "threshold = \"6dB\""), Vec::<String>::new());
    let above = hints(TRACE, "threshold = \"7dB\"");
    assert!(above.len() == 1 && above[0].contains("above every SNR of the trace"), "{above:?}");
    let deaf = hints("phy_rate = \"24Mbit/s\"", "threshold = \"6dB\"");
    assert!(deaf.len() == 1 && deaf[0].contains("hears no SNR"), "{deaf:?}");
    let told = |every: &str, more: &str| {
        let radio = TRACE.replace(" }", &format!(", interval = \"{every}\" }}"));
        hints(&radio, &format!("threshold = \"6dB\", {more}"))
    };
    for (every, more, hint) in [
        ("333ms", "window = \"1s\"", None),
        (
            "334ms",
            "window = \"1s\"",
            Some("tells motion by 4 samples in 1s, but one comes every 334ms: it never shuts"),
        ),
        ("10ms", "window = \"640ms\"", None),
        ("10ms", "window = \"1s\"", Some("keeps 64 samples, which come every 10ms: motion is told in 640ms")),
        ("1s", "window = \"5s\"", Some("takes the signal for lost 1s after a sample")),
        ("334ms", "rule = \"hysteresis\"", None),
        (
            "1s",
            "rule = \"hysteresis\", lost_signal = \"1s\"",
            Some("takes the signal for lost 1s after a sample"),
        ),
    ] {
        let told = told(every, more);
        let as_expected = match hint {
            None => told.is_empty(),
            Some(hint) => told.len() == 1 && told[0].contains(hint),
        };
        assert!(as_expected, "{every}, {more}: {told:?}");
    }
}

#[test]
fn the_text_that_was_run_names_the_trace_so_that_it_runs_from_anywhere() {
    let scenario = read(TRACE, GOOD.as_bytes(), "").expect("all is right");
    let absolute = std::path::absolute("dir/a.csv").expect("a path").display().to_string();
    assert!(scenario.as_run().contains(&absolute), "{}", scenario.as_run());
}

#[test]
fn the_schema_knows_decibels() {
    let schema = json_schema().to_string();
    assert!(schema.contains("snr_at_1m") && schema.contains("Written as a number of decibels"));
}

#[test]
fn a_trace_in_which_rows_are_missing_is_valid_and_gets_a_hint() {
    let hints = |file| read(TRACE, file, "").expect("it is valid").hints();
    let gap = hints(b"time,snr\n0,5\n0.1,7\n0.2,6\n20,4\n20.1,5\n");
    let [hint] = &gap[..] else { panic!("one hint: {gap:?}") };
    assert!(hint.starts_with("radio.snr.trace: rows are 100ms apart, and in one place 19.8s"), "{hint}");
    assert!(hint.ends_with("radio.snr.max_gap refuses longer gaps"), "{hint}");
    assert!(hints(b"time,snr\n0,5\n0.1,7\n0.3,6\n0.9,4\n").is_empty(), "uneven rows are no gap");
}
