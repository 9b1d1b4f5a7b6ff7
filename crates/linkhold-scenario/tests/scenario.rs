//! What the scenario file promises: each wrong file is refused with file, line, key and what would be right;
//! each right one resolves to what it says.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use linkhold_core::dsasync::{DsaSyncConfig, Mode};
use linkhold_core::mechanism::Place;
use linkhold_core::registry::{MechanismSettings, entries};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::{AirTimeModel, FqCodelConfig, Mac, QueueKind, SwitchPolicy};
use linkhold_scenario::{
    Files, HostFreeze, NoFiles, PlacedMechanism, Scenario, ScenarioError, Source, json_schema,
};
use linkhold_tcp::{Congestion, DelayedAck, Recovery, TcpConfig};

const BASE: &str = r#"schema = "linkhold.scenario/1"
name = "test"
duration = "20s"
[radio]
phy_rate = "24Mbit/s"
stations = 2
[[flows]]
direction = "downlink"
"#;

/// Files by path, and LINKHOLD_DATA if it is there.
struct Fake(BTreeMap<&'static str, &'static str>);

impl Files for Fake {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text = path.to_str().and_then(|path| self.0.get(path));
        text.map(|text| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }
}

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(text, "dir/s.toml", &[], &NoFiles)
}

fn with(more: &str) -> String {
    format!("{BASE}{more}")
}

#[track_caller]
fn refused(text: &str, files: &dyn Files) -> String {
    Scenario::parse(text, "dir/s.toml", &[], files).expect_err("the file is wrong").to_string()
}

#[test]
fn every_wrong_file_is_told_line_key_and_what_would_be_right() {
    // Appended to BASE, whose last line is 8: what is wrong, and the message.
    for (more, message) in [
        (
            "[router]\nlimitt = \"10pkt\"",
            "dir/s.toml:10:1: router.limitt: unknown key; did you mean `limit`?",
        ),
        (
            "[router]\nlimit = 10",
            "dir/s.toml:10:9: router.limit: 10 has no unit; write a number of packets such as \"100pkt\"",
        ),
        (
            "[router]\nlimit = \"10\"",
            "dir/s.toml:10:9: router.limit: \"10\" has no unit; write a number of packets",
        ),
        (
            "[router]\nqueue = \"fq-codel\"",
            "dir/s.toml:10:9: router.queue: \"fq-codel\" is not known here; did you mean \"fq_codel\"?",
        ),
        ("[router]\ntarget = \"5ms\"", "dir/s.toml:10:10: router.target: does nothing with queue = \"fifo\""),
        (
            "[station]\nvisible = false",
            "dir/s.toml:10:11: station.visible: a mechanism stands at the router and sees no station's queue; remove it, or write it under [router]",
        ),
        (
            "[wired]\nrate = \"-1Mbit/s\"",
            "dir/s.toml:10:8: wired.rate: \"-1Mbit/s\" is negative; write a bit rate",
        ),
        ("[wired]\nrate = -1", "dir/s.toml:10:8: wired.rate: -1 is negative"),
        (
            "[wired]\nrate = \"0Mbit/s\"",
            "dir/s.toml:10:8: wired.rate: \"0Mbit/s\" is zero; it must be above zero",
        ),
        (
            "[wired]\njitter = \"50us\"",
            "dir/s.toml:10:10: wired.jitter: a mean wait of 50us is too short; write 0ms or at least 100us",
        ),
        (
            "[wired]\nrate = \"99999Gbit/s\"",
            "dir/s.toml:10:8: wired.rate: \"99999Gbit/s\" is too large; at most",
        ),
        (
            "[dsasync]\nalpha_min = 1.5\n[[cases]]\nname = \"a\"\nmechanism = \"dsasync\"",
            "dir/s.toml:10:13: dsasync.alpha_min: 1.5 is not between 0 and 1",
        ),
        (
            "[[cases]]\nname = \"a\"\n[cases.mechanism]\nname = \"dsasync\"\nb_low = \"60MB\"\nb_high = \"40MB\"",
            "dir/s.toml:13:9: cases[0].mechanism.b_low: b_low (60.0 MB) must be below b_high (40.0 MB); write b_alloc > b_high > b_low",
        ),
        (
            "[[cases]]\nname = \"a\"\nmechanism = { name = \"dsasync\", b_high = \"80MB\" }",
            "dir/s.toml:11:42: cases[0].mechanism.b_high: b_high (80.0 MB) must be below b_alloc (64.0 MB)",
        ),
        (
            "[dsasync]\nb_alloc = \"8MB\"\n[[cases]]\nname = \"a\"\nmechanism = { name = \"dsasync\", b_high = \"80MB\" }\n\
             [[cases]]\nname = \"b\"\nmechanism = { name = \"dsasync\", preset = \"paper\", b_low = \"4MB\" }",
            "dir/s.toml:16:59: cases[1].mechanism.b_low: b_low (4.0 MB) must be below b_high (4.0 MB)",
        ),
        (
            "[[flows]]\ndirection = \"uplink\"\nstation = 2",
            "dir/s.toml:11:11: flows[1].station: station 2 does not exist: radio.stations is 2; write an index from 0 to 1",
        ),
        (
            "[[flows]]\nstation = 1",
            "dir/s.toml:9:1: flows[1]: the key `direction` is missing; direction: Which way the data flows",
        ),
        (
            "[[flows]]\ndirection = \"uplink\"\nstart = \"30s\"",
            "dir/s.toml:11:9: flows[1].start: the flow starts at 30s, but the run ends at 20s",
        ),
        (
            "[[flows]]\ndirection = \"uplink\"\ncount = 5\nstagger = \"5s\"",
            "dir/s.toml:12:11: flows[1].stagger: the last of 5 connections starts at 20s, but the run ends at 20s; \
             lower stagger or count, or start them earlier",
        ),
        (
            "[[flows]]\ndirection = \"uplink\"\narrivals = \"2/s\"",
            "dir/s.toml:11:12: flows[1].arrivals: connections that arrive at random need an end",
        ),
        (
            "[[flows]]\ndirection = \"uplink\"\nsource = \"10kB\"\narrivals = \"2/s\"\nstagger = \"1s\"",
            "dir/s.toml:13:11: flows[1].stagger: does nothing beside arrivals; remove stagger, or arrivals",
        ),
        (
            "[[flows]]\ndirection = \"uplink\"\ncount = 100000\nstation = \"all\"",
            "flows[1]: that makes too many connections",
        ),
        (
            "[[cases]]\nname = \"a\"\n[[cases]]\nname = \"a\"",
            "dir/s.toml:12:8: cases[1].name: there is a case `a` already",
        ),
        ("[[cases]]\nname = \"a b\"", "dir/s.toml:10:8: cases[0].name: \"a b\" cannot be a name"),
        (
            "[[cases]]\nname = \"a\"\nset = { \"router.limt\" = \"5pkt\" }",
            "dir/s.toml:11:9: router.limt: unknown key; did you mean `limit`?",
        ),
        (
            "[[cases]]\nname = \"a\"\nset = { name = \"b\" }",
            "cases[0].set.\"name\": a case cannot change `name`",
        ),
        (
            "[[cases]]\nname = \"a\"\nset = { seed = 7 }",
            "cases[0].set.\"seed\": a case cannot change `seed`; write seed at the top",
        ),
        (
            "[[cases]]\nname = \"a\"\nset = { warm_up = \"1s\" }",
            "cases[0].set.\"warm_up\": a case cannot change `warm_up`; write warm_up at the top",
        ),
        (
            "[tcp]\nprofile = \"linux\"\ncongestion = \"cubik\"",
            "dir/s.toml:11:14: tcp.congestion: \"cubik\" is not known here; did you mean \"cubic\"?",
        ),
        ("[tcp]\nmss = 20", "dir/s.toml:10:7: tcp.mss: an MSS of 20 is out of range"),
        (
            "[tcp]\nwindow_scale = 15",
            "dir/s.toml:10:16: tcp.window_scale: the shift is too large; write at most 14",
        ),
        (
            "[tcp]\nrto_min = \"200s\"",
            "dir/s.toml:10:11: tcp.rto_min: rto_min (200s) is above rto_max (120s)",
        ),
        ("[tcp]\ndelayed_ack = \"40\"", "dir/s.toml:10:15: tcp.delayed_ack: \"40\" has no unit"),
        ("[tcp]\nsack = false", "dir/s.toml:10:8: tcp.sack: the recovery works on SACK"),
        (
            "[tcp]\nprofile = \"linux-2009\"\nrecovery = \"newreno\"\nsack = false\nprr = true",
            "dir/s.toml:13:7: tcp.prr: does nothing without SACK; write tcp.sack = true, or remove it",
        ),
        ("[tcp]\nprofile = \"classic\"\nprr = true", "dir/s.toml:11:7: tcp.prr: does nothing without SACK"),
        (
            "[tcp]\nrecovery = \"newreno\"\nprr = true",
            "dir/s.toml:11:7: tcp.prr: does nothing where the recovery does not work on SACK",
        ),
        (
            "[tcp]\ncongestion = \"bbr\"\nprr = true",
            "dir/s.toml:11:7: tcp.prr: does nothing with congestion = \"bbr\", whose model says the window",
        ),
        (
            "[tcp]\nrecovery = \"newreno\"\nsack = false\ndsack_undo = true",
            "dir/s.toml:12:14: tcp.dsack_undo: does nothing without SACK",
        ),
        (
            "[tcp]\ntimestamps = false\ntimestamp_undo = true",
            "dir/s.toml:11:18: tcp.timestamp_undo: does nothing without timestamps; write tcp.timestamps = true",
        ),
        (
            "[tcp]\ncongestion = \"reno\"\nhystart = true",
            "dir/s.toml:11:11: tcp.hystart: does nothing without congestion = \"cubic\"",
        ),
        (
            "[tcp]\nprr = true\n[[cases]]\nname = \"a\"\nset = { \"tcp.sack\" = false, \"tcp.recovery\" = \"newreno\" }",
            "dir/s.toml:10:7: tcp.prr: does nothing without SACK",
        ),
        (
            "[radio.sensing]\nperiod = \"25ms\"\nduration = \"25ms\"",
            "dir/s.toml:11:12: radio.sensing.duration: a quiet period of 25ms every 25ms leaves no time",
        ),
        (
            "[radio.sensing]\nperiod = \"0s\"\nduration = \"25ms\"",
            "dir/s.toml:10:10: radio.sensing.period: \"0s\" is zero",
        ),
        (
            "[[flows]]\ndirection = \"uplink\"\nstation = [1, 0, 1]",
            "dir/s.toml:11:11: flows[1].station: station 1 is named twice; name it once",
        ),
        (
            "[[radio.station_sensing]]\nstation = 7\nperiod = \"1s\"\nduration = \"5ms\"",
            "radio.station_sensing[0].station: station 7 does not exist",
        ),
        (
            "[radio.primary_user]\non_mean = \"1s\"",
            "radio.primary_user: the key `off_mean` is missing; off_mean: Mean length of the pause",
        ),
        (
            "[[radio.switches]]\nat = \"5s\"\nto_channel = 1",
            "dir/s.toml:11:14: radio.switches[0].to_channel: channel 1 does not exist: there is 1",
        ),
        (
            "[[radio.channels]]\nphy_rate = \"12Mbit/s\"",
            "dir/s.toml:5:12: radio.phy_rate: does nothing beside radio.channels",
        ),
        ("[radio.trace]\ndown = \"x\"", "radio.trace: does nothing without mac = \"trace\""),
        (
            "[output]\nseries_interval = \"1fortnight\"",
            "output.series_interval: \"1fortnight\" has the unknown unit `fortnight`",
        ),
        ("[host]\ndelay = 3", "dir/s.toml:10:9: host.delay: 3 has no unit"),
        (
            "[mesh]\nnodes = 2\nretry_limit = 0",
            "mesh.retry_limit: a frame has at least one attempt; write 1 or more",
        ),
        (
            "[mesh]\nnodes = 2\n[host]\ndelay = \"1ms\"",
            "host.delay: the nodes of a mesh have no host of their own",
        ),
        (
            "[radio.sensing]\nperiod = 2026-01-01\nduration = true",
            "radio.sensing.period: expected a duration, got a date",
        ),
    ] {
        let told = refused(&with(more), &NoFiles);
        assert!(told.contains(message), "{more}\nshould tell: {message}\nbut told:    {told}");
    }
}

#[test]
fn what_is_wrong_at_the_top_is_told_too() {
    for (text, message) in [
        ("", "dir/s.toml: the key `schema` is missing"),
        (
            "schema = \"linkhold.scenario/2\"",
            "dir/s.toml:1:10: schema: \"linkhold.scenario/2\" is not a format this linkhold reads; write schema = \"linkhold.scenario/1\"",
        ),
        (&BASE.replace("\"20s\"", "20s"), "dir/s.toml:3:12: this is not TOML: string values must be quoted"),
        (
            &BASE.replace("duration = \"20s\"", "duration = \"20s\"\nseed = \"one\""),
            "dir/s.toml:4:8: seed: \"one\" is not a whole number",
        ),
        (
            &BASE.replace("duration = \"20s\"", "duration = \"20s\"\nseed = -1"),
            "dir/s.toml:4:8: seed: -1 is negative",
        ),
        (
            &BASE.replace(
                "duration = \"20s\"",
                "duration = \"20s\"\nseed = 99999999999999999999999999999999999999999",
            ),
            "seed: the number is too large",
        ),
        (
            &BASE.replace("duration = \"20s\"", "duration = \"20s\"\nwarm_up = \"20s\""),
            "dir/s.toml:4:11: warm_up: the warm-up of 20s leaves nothing of the 20s of the run",
        ),
        (&BASE.replace("phy_rate = \"24Mbit/s\"", ""), "radio: the radio has no rate"),
        (&BASE.replace("[[flows]]\ndirection = \"downlink\"", ""), "dir/s.toml: there is no flow"),
        (
            &BASE.replace("[[flows]]", "[flows]"),
            "flows: expected a list, got a table; write [[flows]] instead of [flows]",
        ),
        (
            &BASE.replace("[radio]", "[radio]\nmac = \"trace\""),
            "radio.phy_rate: does nothing with mac = \"trace\"",
        ),
        (
            &BASE.replace("[radio]", "[radio]\nmac = \"trace\"\nair_time = \"802.11a\""),
            "radio.air_time: does nothing with mac = \"trace\"",
        ),
        (
            &BASE.replace("phy_rate = \"24Mbit/s\"", "air_time = \"802.11a\"\nphy_rate = \"11Mbit/s\""),
            "dir/s.toml:6:12: radio.phy_rate: IEEE 802.11a has no rate of 11.00 Mbit/s; write 6, 9, 12, 18, 24, 36, 48 \
             or 54Mbit/s, or air_time = \"per-byte\"",
        ),
        (
            &BASE.replace("phy_rate = ", "air_time = \"802.11a\"\nmac_efficiency = 0.7\nphy_rate = "),
            "dir/s.toml:6:18: radio.mac_efficiency: does nothing with air_time = \"802.11a\"",
        ),
        (
            &BASE.replace(
                "phy_rate = \"24Mbit/s\"",
                "air_time = \"802.11a\"\nchannels = [{ phy_rate = \"6Mbit/s\", mac_efficiency = 1 }, { phy_rate = \"7Mbit/s\" }]",
            ),
            "radio.channels[0].mac_efficiency: does nothing with air_time = \"802.11a\"",
        ),
        (
            &BASE.replace("phy_rate = \"24Mbit/s\"", "air_time = \"802.11a\"\nchannels = [{ phy_rate = \"7Mbit/s\" }]"),
            "radio.channels[0].phy_rate: IEEE 802.11a has no rate of 7.00 Mbit/s",
        ),
    ] {
        let told = refused(text, &NoFiles);
        assert!(told.contains(message), "{text}\nshould tell: {message}\nbut told:    {told}");
    }
}

#[test]
fn all_problems_of_a_file_are_told_at_once_and_only_once() {
    let text = with(
        "[router]\nlimitt = \"10pkt\"\n[wired]\nrate = \"-1Mbit/s\"\n[[cases]]\nname = \"a\"\n\
         mechanism = { name = \"dsasync\", alpha_min = 2, b_low = \"60MB\", b_high = \"40MB\" }\n[[cases]]\nname = \"b\"\nset = { \"router.limit\" = 5 }\n",
    );
    let error = parse(&text).expect_err("five problems");
    let keys: Vec<&str> = error.problems().iter().map(|problem| problem.key.as_str()).collect();
    let expected = [
        "router.limitt",
        "wired.rate",
        "cases[0].mechanism.alpha_min",
        "cases[0].mechanism.b_low",
        "router.limit",
    ];
    assert_eq!(keys, expected, "{error}");
}

const TRACE: &str = r#"schema = "linkhold.scenario/1"
name = "trace"
duration = "20s"
[radio]
mac = "trace"
[radio.trace]
down = "${LINKHOLD_DATA}/lte.down"
up = "up.txt"
[[flows]]
direction = "downlink"
"#;

#[test]
fn a_trace_is_found_read_and_checked() {
    let files = Fake(BTreeMap::from([
        ("LINKHOLD_DATA", "/data"),
        ("/data/lte.down", "0\n1\n1\n9\n"),
        ("dir/up.txt", "5\n"),
    ]));
    let scenario = Scenario::parse(TRACE, "dir/s.toml", &[], &files).expect("both traces are fine");
    let resolved = &scenario.cases()[0].scenario;
    let Mac::Trace(link) = &resolved.radio.mac else { panic!("not a trace") };
    assert_eq!(link.down.opportunities(), 4);
    assert_eq!(resolved.traces.as_ref().map(|files| files.up.as_path()), Some(Path::new("dir/up.txt")));
    assert_eq!(link.silence_threshold, Duration::from_millis(100));

    for (down, up, message) in [
        ("", "5\n", "dir/s.toml:7:8: radio.trace.down: /data/lte.down:1: the trace is empty"),
        ("1\n", "5\n4\n", "dir/s.toml:8:6: radio.trace.up: dir/up.txt:2: the trace is not sorted"),
        ("1\n", "5\nx\n", "dir/s.toml:8:6: radio.trace.up: dir/up.txt:2: this is not a millisecond stamp"),
        ("1\n", "0\n", "dir/s.toml:8:6: radio.trace.up: dir/up.txt:1: the last stamp is 0"),
    ] {
        let files =
            Fake(BTreeMap::from([("LINKHOLD_DATA", "/data"), ("/data/lte.down", down), ("dir/up.txt", up)]));
        let told = refused(TRACE, &files);
        assert!(told.contains(message), "should tell: {message}\nbut told:    {told}");
    }
    let told = refused(TRACE, &NoFiles);
    assert!(
        told.contains("dir/s.toml:7:8: radio.trace.down: the environment variable LINKHOLD_DATA is not set"),
        "{told}"
    );
    assert!(told.contains("radio.trace.up: cannot read the trace file dir/up.txt: "), "{told}");
}

#[test]
fn a_case_says_how_linkhold_host_freezes() {
    let text = format!(
        "{BASE}[[cases]]\nname = \"plain\"\n[[cases]]\nname = \"ebpf\"\nmechanism = {{ name = \"cr-aware\", at = \
         \"stations\" }}\nset = {{ \"host.freeze\" = \"kernel\" }}\n"
    );
    let scenario = parse(&text).expect("valid");
    let freezes: Vec<_> = scenario.cases().iter().map(|case| case.scenario.host_freeze).collect();
    assert_eq!(freezes, [None, Some(HostFreeze::Kernel)]);
    let facts = scenario.facts();
    let said = facts.iter().filter(|(label, _)| *label == "case").map(|(_, text)| text.as_str());
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            "plain: plain router",
            "ebpf: cr-aware, preset recommended; on the testbed linkhold host freezes by \"kernel\""
        ]
    );
}

#[test]
fn what_a_case_changes_of_path_router_and_stack_is_said_where_the_first_cases_is() {
    let text = format!(
        "{BASE}[[cases]]\nname = \"drop\"\nset = {{ \"router.in_silence\" = \"drop\" }}\n[[cases]]\nname = \"queue\"\n\
         [[cases]]\nname = \"far\"\nset = {{ \"wired.rtt\" = \"100ms\", \"router.in_silence\" = \"drop\" }}\n"
    );
    let scenario = parse(&text).expect("valid");
    let said = |facts: Vec<(String, String)>, label: &str| -> Vec<String> {
        facts.into_iter().filter(|fact| fact.0 == label).map(|fact| fact.1).collect()
    };
    let router = said(scenario.facts(), "router");
    let queues = "case queue: fifo of 100 packets; queues in a silence";
    assert_eq!(router, ["fifo of 100 packets; drops what arrives in a silence", queues]);
    let wired = said(scenario.facts(), "wired");
    assert!(
        wired.len() == 2 && wired[1].starts_with("case far: ") && wired[1].contains("100ms"),
        "{wired:?}"
    );
    let tcp = |facts| said(facts, "tcp");
    assert!(tcp(scenario.facts())[0].starts_with("linux: cubic, rack-tlp, "), "{:?}", tcp(scenario.facts()));
    let under = tcp(scenario.facts_under("reno or bbr"));
    assert!(under.len() == 1 && under[0].starts_with("linux: reno or bbr, rack-tlp, "), "{under:?}");
}

#[test]
fn what_a_case_changes_of_the_radio_is_said_too() {
    let silent = "\"radio.sensing\" = { period = \"1s\", duration = \"100ms\" }";
    let text = format!(
        "{BASE}[[cases]]\nname = \"slow\"\nset = {{ {silent} }}\n\
         [[cases]]\nname = \"same\"\nmechanism = \"dsasync\"\nset = {{ {silent} }}\n\
         [[cases]]\nname = \"fast\"\nset = {{ {silent}, \"radio.phy_rate\" = \"48Mbit/s\", \"station.limit\" = \"20pkt\" }}\n\
         [[cases]]\nname = \"open\"\n"
    );
    let facts = parse(&text).expect("valid").facts();
    let of = |case: &str| -> Vec<String> {
        let own = facts.iter().filter(|(_, text)| text.starts_with(&format!("case {case}: ")));
        own.map(|(label, text)| format!("{label}: {text}")).collect()
    };
    assert!(of("slow").is_empty() && of("same").is_empty(), "{facts:?}");
    let fast = of("fast");
    assert_eq!(fast.len(), 2, "{facts:?}");
    assert!(fast[0].starts_with("channel 0: case fast: 48.00 Mbit/s"), "{fast:?}");
    assert!(fast[1].starts_with("station: case fast: fifo of 20 packets"), "{fast:?}");
    assert_eq!(of("open"), ["sensing: case open: none"]);
}

#[test]
fn fixed_bursts_are_said_to_be_fixed() {
    let text = BASE
        .replace("[radio]", "[radio]\nprimary_user = { on_mean = \"1s\", off_mean = \"3s\", fixed = true }");
    let scenario = parse(&text).expect("valid");
    assert!(scenario.cases()[0].scenario.radio.channels[0].primary_user.is_some_and(|user| user.fixed));
    let facts = scenario.facts();
    let shown = facts.iter().any(|(_, text)| text.contains("primary user 1s on, 3s off (fixed; 25.0 %)"));
    assert!(shown, "{facts:?}");
}

#[test]
fn a_missing_file_is_named() {
    let told = Scenario::load(Path::new("no/such.toml"), &[]).expect_err("no such file").to_string();
    assert!(told.starts_with("no/such.toml: cannot read the scenario file: "), "{told}");
}

#[test]
fn keys_left_out_take_the_documented_defaults() {
    let case = &parse(BASE).expect("valid").cases()[0];
    let s = &case.scenario;
    assert_eq!((case.name.as_str(), &s.mechanisms[..]), ("none", &[][..]));
    assert_eq!((s.seed, s.warm_up, s.duration), (1, Duration::ZERO, Duration::from_secs(20)));
    assert_eq!((s.wired.rate, s.wired.one_way_delay), (BitRate::from_mbps(100), Duration::from_micros(1500)));
    assert_eq!(s.radio.router.kind, QueueKind::Fifo { limit: 100 });
    assert!(!s.router_visible && !s.radio.rate_told, "no oracle");
    assert_eq!(s.tcp, TcpConfig::linux(Congestion::Cubic));
    assert_eq!((&s.radio.mac, &s.traces), (&Mac::Shared, &None));
    let policy = s.radio.switching.policy;
    assert_eq!((s.radio.channels.len(), s.radio.retry_limit, policy), (1, 7, SwitchPolicy::Scripted));
    assert_eq!(
        (s.flows[0].count, s.flows[0].stations.clone(), s.flows[0].source),
        (1, vec![0], Source::Bulk)
    );
}

#[test]
fn an_802_11a_cell_is_summed_up_by_what_full_size_packets_get() {
    let text = BASE.replace("phy_rate", "air_time = \"802.11a\"\nphy_rate");
    let scenario = parse(&text).expect("valid");
    assert_eq!(scenario.cases()[0].scenario.radio.air_time, AirTimeModel::Ieee80211a);
    let summary = scenario.summary();
    let line = "24.00 Mbit/s as IEEE 802.11a, 17.61 Mbit/s in full-size packets";
    assert!(summary.contains(line), "{summary}");
}

#[test]
fn tcp_keys_lie_on_top_of_the_profile() {
    let text = with(
        "[tcp]\nprofile = \"classic\"\nrecovery = \"sack\"\ncongestion = \"vegas\"\nreceive_buffer = \"1MiB\"\n\
         delayed_ack = \"heartbeat 200ms\"\nrto_min = \"200ms\"\nwindow_scale = \"off\"\ninitial_window = 4\n",
    );
    let tcp = parse(&text).expect("valid").cases()[0].scenario.tcp.clone();
    let expected = TcpConfig {
        receive_buffer: Bytes(1 << 20),
        delayed_ack: DelayedAck::Heartbeat(Duration::from_millis(200)),
        rto_min: Duration::from_millis(200),
        window_scale: None,
        initial_window_segments: Some(4),
        ..TcpConfig::classic(Recovery::Sack, Congestion::Vegas)
    };
    assert_eq!(tcp, expected);
}

#[test]
fn a_stated_receive_buffer_is_fixed_and_its_scale_follows() {
    let text = with("[tcp]\nreceive_buffer = \"16MiB\"\n");
    let tcp = parse(&text).expect("valid").cases()[0].scenario.tcp.clone();
    assert_eq!((tcp.receive_autotune, tcp.window_scale), (None, Some(9)));
}

#[test]
fn the_profiles_window_scale_is_a_floor_and_the_schema_says_so() {
    for (profile, floor) in [("linux", 7), ("linux-2009", 3), ("classic", 3)] {
        for (buffer, needed) in [("100kB", 1), ("1MiB", 5), ("16MiB", 9)] {
            let text = with(&format!("[tcp]\nprofile = \"{profile}\"\nreceive_buffer = \"{buffer}\"\n"));
            let tcp = parse(&text).expect("valid").cases()[0].scenario.tcp.clone();
            assert_eq!(tcp.window_scale, Some(needed.max(floor)), "{profile}, {buffer}");
        }
    }
    let schema = json_schema().to_string();
    let words = "Default: the profile's (7 with linux, 3 with the others), or the smallest that can express a \
                 stated receive buffer where that is larger.";
    assert!(schema.contains(words));
}

#[test]
fn the_schema_has_every_profiles_default_of_every_key_of_tcp() {
    let profiles = ["linux", "linux-2009", "classic"];
    let configs = profiles.map(|profile| {
        let text = with(&format!("[tcp]\nprofile = \"{profile}\"\n"));
        parse(&text).expect("valid").cases()[0].scenario.tcp.clone()
    });
    let size = |bytes: Bytes| match bytes.0 {
        whole if whole % (1 << 20) == 0 => format!("{}MiB", whole >> 20),
        other => format!("{}KiB", other >> 10),
    };
    let or_off = |value: Option<String>| value.unwrap_or_else(|| "off".to_owned());
    let delayed = |delayed: DelayedAck| match delayed {
        DelayedAck::Linux => "linux".to_owned(),
        DelayedAck::Timer(time) => time.to_string(),
        other => panic!("{other:?}"),
    };
    type Of<'a> = &'a dyn Fn(&TcpConfig) -> String;
    let keys: [(&str, Of<'_>); 18] = [
        ("mss", &|tcp| tcp.mss.to_string()),
        ("receive_buffer", &|tcp| size(tcp.receive_buffer)),
        ("receive_autotune", &|tcp| or_off(tcp.receive_autotune.map(size))),
        ("send_buffer", &|tcp| size(tcp.send_buffer)),
        ("sack", &|tcp| tcp.sack.to_string()),
        ("timestamps", &|tcp| tcp.timestamps.to_string()),
        ("ecn", &|tcp| tcp.ecn.to_string()),
        ("initial_window", &|tcp| or_off(tcp.initial_window_segments.map(|segments| segments.to_string()))),
        ("rto_min", &|tcp| tcp.rto_min.to_string()),
        ("rto_initial", &|tcp| tcp.rto_initial.to_string()),
        ("rto_max", &|tcp| tcp.rto_max.to_string()),
        ("delayed_ack", &|tcp| delayed(tcp.delayed_ack)),
        ("frto", &|tcp| tcp.frto.to_string()),
        ("timestamp_undo", &|tcp| tcp.timestamp_undo.to_string()),
        ("dsack_undo", &|tcp| tcp.dsack_undo.to_string()),
        ("prr", &|tcp| tcp.prr.to_string()),
        ("hystart", &|tcp| tcp.hystart.to_string()),
        ("accept_window_shrink_same_ack", &|tcp| tcp.accept_window_shrink_same_ack.to_string()),
    ];
    let schema = json_schema();
    let described = schema.pointer("/$defs/Tcp/properties").and_then(|keys| keys.as_object()).expect("there");
    // What says its default otherwise: by value, or in a sentence that another test has.
    let others = ["profile", "congestion", "recovery", "window_scale"];
    let mut all: Vec<&str> = keys.iter().map(|(key, _)| *key).chain(others).collect();
    all.sort_unstable();
    let mut there: Vec<&str> = described.keys().map(String::as_str).collect();
    there.sort_unstable();
    assert_eq!(there, all);
    for (key, of) in keys {
        let values = configs.each_ref().map(of);
        let mut different: Vec<&String> = Vec::new();
        values.iter().for_each(|value| {
            if !different.contains(&value) {
                different.push(value)
            }
        });
        let default = if let [only] = &different[..] {
            (*only).clone()
        } else {
            let of_value = |value: &&String| {
                let whose = profiles.iter().zip(&values).filter(|(_, own)| own == value);
                let whose: Vec<&str> = whose.map(|(profile, _)| *profile).collect();
                format!("{value} ({})", whose.join(", "))
            };
            different.iter().map(of_value).collect::<Vec<_>>().join(", ")
        };
        let text = described[key]["description"].as_str().expect("described");
        assert!(
            text.contains(&format!(" Default: {default}.")),
            "{key}: {default}\nbut the schema has: {text}"
        );
    }
}

/// The settings of a case's only mechanism.
fn dsasync(scenario: &Scenario, case: usize) -> DsaSyncConfig {
    match &scenario.cases()[case].scenario.mechanisms[..] {
        [PlacedMechanism { place: Place::BaseStation, settings: MechanismSettings::DsaSync(config) }] => {
            *config
        }
        other => panic!("not one DSASync at the base station: {other:?}"),
    }
}

#[test]
fn mechanisms_are_presets_with_settings_on_top() {
    let text = with(
        "[dsasync]\nalpha_min = 0.7\nwindow = \"5s\"\n\
         [[cases]]\nname = \"a\"\nmechanism = \"dsasync\"\npreset = \"paper\"\n\
         [[cases]]\nname = \"b\"\nmechanism = { name = \"dsasync\", mode = \"hold\", alpha_min = 0.9, b_alloc = \"8MB\" }\n\
         [[cases]]\nname = \"c\"\nmechanism = { name = \"dsasync\", preset = \"hold\" }\n\
         [[cases]]\nname = \"d\"\nmechanism = { name = \"dsasync\" }\npreset = \"freeze\"\n\
         [[cases]]\nname = \"e\"\nmechanisms = [{ name = \"dsasync\", preset = \"freeze+nudge\", at = \"base-station\" }]\n\
         [[cases]]\nname = \"f\"\n\
         [[cases]]\nname = \"g\"\nmechanism = \"none\"\n[[cases]]\nname = \"h\"\nmechanisms = []\n",
    );
    let scenario = parse(&text).expect("valid");
    let config = |index: usize| dsasync(&scenario, index);
    let mut paper = DsaSyncConfig::paper();
    paper.uplink.alpha_min = Fraction::clamped(0.7);
    paper.uplink.window = Duration::from_secs(5);
    paper.monitor.window = Duration::from_secs(5);
    assert_eq!(config(0), paper);
    assert_eq!(config(1).mode, Mode::Hold);
    assert_eq!(config(1).uplink.alpha_min, Fraction::clamped(0.9));
    assert_eq!(
        (config(1).b_alloc, config(1).b_high, config(1).b_low),
        (Bytes(8_000_000), Bytes(4_000_000), Bytes(2_000_000))
    );
    let modes = [config(2).mode, config(3).mode, config(4).mode];
    assert_eq!(modes, [Mode::Hold, Mode::Freeze, Mode::FreezeNudge]);
    for plain in 5..8 {
        assert_eq!(scenario.cases()[plain].scenario.mechanisms, []);
    }
}

#[test]
fn a_wrong_mechanism_is_told_with_what_there_is() {
    // Appended to BASE and a case's first two lines: its further lines start at line 11.
    for (more, message) in [
        (
            "mechanism = \"dsasink\"",
            "s.toml:11:13: cases[0].mechanism: \"dsasink\" is not known here; did you mean \"dsasync\"?",
        ),
        (
            "mechanism = \"snoop\"",
            "cases[0].mechanism: \"snoop\" is not known here; write one of \"none\", \"dsasync\"",
        ),
        (
            "mechanism = \"dsasync-paper\"",
            "s.toml:11:13: cases[0].mechanism: \"dsasync-paper\" is not known here; write \"dsasync\" with preset = \"paper\"",
        ),
        (
            "mechanism = \"dsasync-freeze-nudge\"",
            "\"dsasync-freeze-nudge\" is not known here; write \"dsasync\" with preset = \"freeze+nudge\"",
        ),
        ("mechanism = 7", "cases[0].mechanism: expected a mechanism, got the number 7"),
        ("mechanism = { preset = \"paper\" }", "cases[0].mechanism: the key `name` is missing"),
        (
            "mechanism = \"dsasync\"\npreset = \"papr\"",
            "s.toml:12:10: cases[0].preset: \"papr\" is not known here; did you mean \"paper\"?",
        ),
        (
            "mechanism = { name = \"dsasync\", preset = \"best\" }",
            "cases[0].mechanism.preset: \"best\" is not known here; write one of \"recommended\", \"paper\"",
        ),
        (
            "mechanism = { name = \"dsasync\", preset = \"hold\" }\npreset = \"hold\"",
            "s.toml:12:10: cases[0].preset: the mechanism's table has a preset already (dir/s.toml:11:42)",
        ),
        ("preset = \"paper\"", "cases[0].preset: does nothing without `mechanism`"),
        (
            "mechanism = \"none\"\npreset = \"paper\"",
            "cases[0].preset: does nothing with mechanism = \"none\"",
        ),
        (
            "mechanism = { name = \"none\", mode = \"hold\" }",
            "s.toml:11:30: cases[0].mechanism.mode: does nothing with name = \"none\"",
        ),
        (
            "mechanism = { name = \"dsasync\", clmp = \"off\" }",
            "cases[0].mechanism.clmp: unknown key; did you mean `clamp`?",
        ),
        (
            "mechanism = { name = \"dsasync\", at = \"correspondent\" }",
            "s.toml:11:38: cases[0].mechanism.at: dsasync cannot stand at \"correspondent\"; it can stand at \"base-station\"",
        ),
        (
            "mechanism = { name = \"dsasync\", at = \"moon\" }",
            "cases[0].mechanism.at: \"moon\" is not known here; write one of \"base-station\"",
        ),
        (
            "mechanism = \"dsasync\"\nmechanisms = [\"dsasync\"]",
            "s.toml:12:14: cases[0].mechanisms: stands beside `mechanism` (dir/s.toml:11:13); keep one of them",
        ),
        (
            "mechanisms = [\"dsasync\", { name = \"dsasync\" }]",
            "s.toml:11:26: cases[0].mechanisms[1]: dsasync stands at base-station already (dir/s.toml:11:15)",
        ),
        ("mechanisms = [\"none\"]", "cases[0].mechanisms[0]: \"none\" is no mechanism of a list"),
        ("mechanisms = \"dsasync\"", "cases[0].mechanisms: expected a list, got \"dsasync\""),
        (
            "mechanism = \"dsasync\"\nmode = \"hold\"",
            "cases[0].mode: unknown key; write it in the mechanism's own table: mechanism = { name = \"dsasync\", mode = ... }",
        ),
        (
            "mechanism = \"dsasync\"\ndsasync = { uplink = \"pooled\" }",
            "cases[0].dsasync: unknown key; write it in the mechanism's own table",
        ),
    ] {
        let told = refused(&with(&format!("[[cases]]\nname = \"a\"\n{more}\n")), &NoFiles);
        assert!(told.contains(message), "{more}\nshould tell: {message}\nbut told:    {told}");
    }
}

#[test]
fn overrides_reach_a_mechanisms_settings_however_it_is_written() {
    let text = with(
        "[[cases]]\nname = \"a\"\nmechanism = \"dsasync\"\n\
         [[cases]]\nname = \"b\"\nmechanism = { name = \"dsasync\", mode = \"freeze\" }\n\
         [[cases]]\nname = \"c\"\nmechanisms = [\"dsasync\"]\n",
    );
    let modes = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        let scenario = Scenario::parse(&text, "s.toml", &set, &NoFiles).expect("valid");
        [0, 1, 2].map(|case| dsasync(&scenario, case).mode)
    };
    use Mode::{Freeze, FreezeNudge, Hold};
    assert_eq!(modes(&[]), [FreezeNudge, Freeze, FreezeNudge]);
    assert_eq!(modes(&["dsasync.mode=hold"]), [Hold, Freeze, Hold]);
    assert_eq!(
        modes(&["cases.a.mechanism.mode=freeze", "cases.c.mechanisms.dsasync.mode=hold"]),
        [Freeze, Freeze, Hold]
    );
    assert_eq!(modes(&["cases.b.mechanism.mode=hold", "cases.a.preset=hold"]), [Hold, Hold, FreezeNudge]);
    let set = ["cases.a.mechanism.mode=melt".to_owned()];
    let told = Scenario::parse(&text, "s.toml", &set, &NoFiles).expect_err("wrong").to_string();
    let message = "--set cases.a.mechanism.mode=melt: cases[0].mechanism.mode: \"melt\" is not known here";
    assert!(told.contains(message), "{told}");
}

#[test]
fn overrides_and_case_settings_lie_on_top_of_the_file() {
    let text = with(
        "[router]\nlimit = \"10pkt\"\n[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\n\
         [[cases]]\nname = \"file\"\n[[cases]]\nname = \"own\"\nset = { \"router.limit\" = \"30pkt\", tcp.congestion = \"reno\", radio.primary_user = \"none\" }\n",
    );
    let set = [
        "router.limit=20pkt",
        "flows.0.direction=\"uplink\"",
        "wired.rtt=50ms",
        "cases.file.set={\"station.limit\"=\"5pkt\"}",
    ];
    let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
    let cases = Scenario::parse(&text, "s.toml", &set, &NoFiles).expect("valid").cases();
    let limit = |index: usize| cases[index].scenario.radio.router.kind;
    assert_eq!((limit(0), limit(1)), (QueueKind::Fifo { limit: 20 }, QueueKind::Fifo { limit: 30 }));
    assert_eq!(cases[0].scenario.radio.station_queue.kind, QueueKind::Fifo { limit: 5 });
    assert_eq!(cases[1].scenario.tcp.congestion, Congestion::Reno);
    assert_eq!(cases[0].scenario.wired.one_way_delay, Duration::from_millis(25));
    for (case, user) in [(0, true), (1, false)] {
        assert_eq!(cases[case].scenario.radio.channels[0].primary_user.is_some(), user);
    }
}

#[test]
fn a_wrong_override_is_named_as_the_user_wrote_it() {
    for (set, message) in [
        ("router.limit=ten", "--set router.limit=ten: router.limit: \"ten\" is not a number of packets"),
        ("router.limit", "--set router.limit: there is no `=` in it; write --set key=value"),
        ("seed=abc", "--set seed=abc: seed: \"abc\" is not a whole number"),
        ("flows.3.count=2", "--set flows.3.count=2: flows.3.count: `3` is not one of the 1 elements"),
        ("rooter.limit=1pkt", "--set rooter.limit=1pkt: rooter: unknown key; did you mean `router`?"),
    ] {
        let told =
            Scenario::parse(BASE, "s.toml", &[set.to_owned()], &NoFiles).expect_err("wrong").to_string();
        assert!(told.contains(message), "should tell: {message}\nbut told:    {told}");
    }
}

#[test]
fn switches_are_sorted_and_channels_kept() {
    let text = BASE.replace("phy_rate = \"24Mbit/s\"\n", "")
        + "[[radio.channels]]\nphy_rate = \"24Mbit/s\"\n[[radio.channels]]\nphy_rate = \"12Mbit/s\"\nmac_efficiency = 0.5\n\
           [[radio.switches]]\nat = \"9s\"\nto_channel = 0\n[[radio.switches]]\nat = \"5s\"\nto_channel = 1\n";
    let case = &parse(&text).expect("valid").cases()[0];
    let radio = &case.scenario.radio;
    assert_eq!(
        radio.switching.scripted.iter().map(|s| s.at).collect::<Vec<_>>(),
        [Instant::from_millis(5000), Instant::from_millis(9000)]
    );
    assert_eq!(radio.channels[1].efficiency, Fraction::clamped(0.5));
}

#[test]
fn the_summary_names_every_part() {
    let text = with(
        "[radio.sensing]\nperiod = \"500ms\"\nduration = \"25ms\"\n[[cases]]\nname = \"x\"\nmechanism = \"dsasync\"\n",
    );
    let summary = parse(&text).expect("valid").summary();
    for part in [
        "20s",
        "24.00 Mbit/s x 0.73 = 17.52 Mbit/s",
        "25ms every 500ms (5.0 %)",
        "fifo of 100 packets",
        "cubic",
        "x: dsasync",
    ] {
        assert!(summary.contains(part), "{part} is not in\n{summary}");
    }
}

#[test]
fn the_schema_documents_every_key() {
    let schema = json_schema();
    assert_eq!(schema["properties"]["schema"]["const"], "linkhold.scenario/1");
    let tables = schema["$defs"].as_object().expect("definitions");
    let mut keys = 0;
    for (name, table) in tables.iter().chain([(&"File".to_owned(), &schema)]) {
        assert_eq!(table["additionalProperties"], false, "{name}");
        for (key, property) in table["properties"].as_object().expect("a table has keys") {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "{name}.{key} has no description: {property}");
            keys += 1;
        }
    }
    assert!(keys > 80, "{keys}");
    for entry in entries() {
        assert!(schema["properties"].get(entry.name).is_some(), "{}", entry.name);
        let shared = tables[entry.name]["properties"].as_object().expect("keys");
        let own = tables[&format!("{}-mechanism", entry.name)]["properties"].as_object().expect("keys");
        for key in &entry.keys {
            assert!(shared.contains_key(key.name) && own.contains_key(key.name), "{}", key.name);
            // What the schema calls the default is read and changes nothing.
            let default = &own[key.name]["default"];
            let text = format!(
                "{BASE}[[cases]]\nname = \"a\"\nmechanism = {{ name = {:?}, {} = {default} }}\n",
                entry.name, key.name
            );
            let set = parse(&text).unwrap_or_else(|errors| panic!("{}: {errors}", key.name));
            assert_eq!(set.cases()[0].scenario.mechanisms[0].settings, entry.recommended(), "{}", key.name);
        }
        assert!(["name", "preset", "at"].iter().all(|key| own.contains_key(*key)));
    }
    assert_eq!(tables["Wired"]["properties"]["rate"]["default"], "100Mbit/s");
}

#[test]
fn a_summary_says_where_each_of_several_mechanisms_stands() {
    let text = format!(
        "{BASE}[[cases]]\nname = \"both\"\n\
         mechanisms = [\"dsasync\", {{ name = \"cr-aware\", at = \"stations\", preset = \"paper\" }}]\n"
    );
    let summary = parse(&text).expect("valid").summary();
    let expected = "both: dsasync at base-station, preset recommended; cr-aware at stations, preset paper";
    assert!(summary.contains(expected), "{summary}");
}

fn run_as(text: &str, file: &str, set: &[&str]) -> Scenario {
    let set: Vec<String> = set.iter().map(|&key| key.to_owned()).collect();
    Scenario::from_toml(text, file, &set).unwrap_or_else(|errors| panic!("{file}: {errors}"))
}

#[test]
fn the_text_that_was_run_gives_the_same_scenario_without_the_overrides() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sensed = ["seed=7", "radio.sensing={period=\"400ms\", duration=\"20ms\"}"];
    // A radio that has no quiet periods.
    let listening = ["seed=7", "radio.primary_user={on_mean=\"400ms\", off_mean=\"20ms\"}"];
    let in_a_mesh = ["seed=7", "mesh.walk={pause=\"1s\"}"];
    let mut checked = 0;
    for folder in ["scenarios", "reproductions/dsasync/fig4", "reproductions/dsasync/fig7"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("part of the project") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if path.extension().is_none_or(|end| end != "toml") || text.contains("${LINKHOLD_DATA}") {
                continue;
            }
            let set = match &text {
                text if text.contains("mac = \"802.15.4\"") => listening,
                text if text.contains("\n[mesh]\n") => in_a_mesh,
                _ => sensed,
            };
            let file = path.display().to_string();
            let plain = run_as(&text, &file, &[]);
            // A trace is named by its absolute path, so that the text can be run from elsewhere.
            assert!(plain.as_run() == text || text.contains("\ntrace = "), "nothing lay over {file}");
            let changed = run_as(&text, &file, &set);
            assert_ne!(changed, plain, "{file}");
            let again = run_as(changed.as_run(), "elsewhere/x.toml", &[]);
            assert_eq!(again, changed, "{file}:\n{}", changed.as_run());
            assert!(changed.as_run().contains("#   seed=7\n"), "{}", changed.as_run());
            assert_eq!(again.as_run(), changed.as_run(), "now it is the file's own text");
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[test]
fn an_override_of_a_cases_own_set_wins_and_does_so_when_its_text_is_read_again() {
    let text = with("[[cases]]\nname = \"x\"\nset = { \"wired.rtt\" = \"20ms\" }\n");
    // `wired` and `wired.rtt` both set the round trip, and the override wins however it is written.
    for (key, rtt_ms) in [
        ("cases.x.set.wired={rtt=\"70ms\"}", 70),
        ("cases.0.set.wired.rtt=50ms", 50),
        ("cases.0.set.\"wired.rtt\"=40ms", 40),
        ("cases.*.set={wired={rtt=\"30ms\"}}", 30),
        ("wired.rtt=60ms", 20),
    ] {
        let once = run_as(&text, "s.toml", &[key]);
        assert_eq!(run_as(once.as_run(), "s.toml", &[]), once, "{}", once.as_run());
        assert_eq!(once.cases()[0].scenario.wired.one_way_delay, Duration::from_millis(rtt_ms / 2), "{key}");
    }
}

#[test]
fn the_text_that_was_run_names_traces_so_that_it_runs_from_anywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, trace) in [("a.down", "1\n2\n50\n"), ("b.down", "1\n7\n90\n")] {
        std::fs::write(folder.path().join(name), trace).expect("written");
    }
    let text = "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"2s\"\n[radio]\nmac = \"trace\"\n\
                [radio.trace]\ndown = \"a.down\"\n[[flows]]\ndirection = \"downlink\"\n[[cases]]\nname = \"one\"\n\
                [[cases]]\nname = \"two\"\nset = { \"radio.trace.down\" = \"b.down\" }\n";
    let file = folder.path().join("s.toml").display().to_string();
    let scenario = run_as(text, &file, &[]);
    let again = run_as(scenario.as_run(), "another/folder/s.toml", &[]);
    assert_eq!(again, scenario, "{}", scenario.as_run());
    for name in ["a.down", "b.down"] {
        let full = folder.path().join(name).display().to_string();
        assert!(scenario.as_run().contains(&full), "{}", scenario.as_run());
    }
    // The folder of the environment variable is another one on another day.
    let text = text.replace("\"a.down\"", "\"${LINKHOLD_DATA}/a.down\"").replace("\"b.down\"", "\"a.down\"");
    let day = Fake(BTreeMap::from([
        ("LINKHOLD_DATA", "/day/1"),
        ("/day/1/a.down", "1\n2\n"),
        ("dir/a.down", "3\n"),
    ]));
    let scenario = Scenario::parse(&text, "dir/s.toml", &[], &day).expect("valid");
    assert!(scenario.as_run().contains("down = \"/day/1/a.down\""), "{}", scenario.as_run());
}

#[test]
fn a_scenario_can_come_through_a_pipe() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let to = pipe.clone();
    let writer = std::thread::spawn(move || std::fs::write(to, BASE).expect("written"));
    let scenario = Scenario::load(&pipe, &[]).expect("valid");
    writer.join().expect("written");
    assert_eq!((scenario.name(), scenario.as_run()), ("test", BASE));
    let error = Scenario::load(folder.path(), &[]).expect_err("a folder").to_string();
    assert!(error.contains("cannot read the scenario file: it is a folder"), "{error}");
    let endless = Scenario::load(Path::new("/dev/zero"), &[]).expect_err("endless").to_string();
    assert!(endless.contains("larger than 16 MiB"), "{endless}");
}

#[test]
fn stations_without_a_flow_get_a_hint() {
    let hints = |stations: &str, station: &str| {
        let text = BASE.replace("stations = 2", stations) + station;
        parse(&text).expect("valid").hints()
    };
    let [hint] = &hints("stations = 6", "")[..] else { panic!("one hint") };
    assert!(hint.starts_with("5 of 6 stations have no flow: write station = \"all\""), "{hint}");
    assert!(hints("stations = 6", "station = \"all\"\n").is_empty());
    assert!(hints("stations = 1", "").is_empty());
    assert!(hints("stations = 2", "")[0].starts_with("1 of 2 stations has no flow"));
}

#[test]
fn packets_that_fit_between_no_two_quiet_periods_get_a_hint() {
    let hints = |rate: &str, period: &str| {
        let text = BASE.replace("stations = 2", "stations = 1");
        let overrides = [
            format!("radio.phy_rate=\"{rate}\""),
            format!("radio.sensing={{ period = \"{period}\", duration = \"25ms\" }}"),
        ];
        let scenario = Scenario::parse(&text, "s.toml", &overrides, &NoFiles);
        scenario.unwrap_or_else(|error| panic!("{error}")).hints()
    };
    let [hint] = &hints("50kbit/s", "150ms")[..] else { panic!("one hint") };
    assert!(hint.starts_with("radio.sensing.period: a packet of 1500 B takes "), "{hint}");
    assert!(hint.contains("leave 125ms between"), "{hint}");
    assert_eq!(hints("24Mbit/s", "150ms"), Vec::<String>::new());
    // A station that is silent by itself so often.
    let own = "radio.station_sensing=[{ station = 0, period = \"20ms\", duration = \"10ms\" }]";
    let overrides = ["radio.phy_rate=1Mbit/s".to_owned(), own.to_owned()];
    let text = BASE.replace("stations = 2", "stations = 1");
    let hints = Scenario::parse(&text, "s.toml", &overrides, &NoFiles).expect("valid").hints();
    let [hint] = &hints[..] else { panic!("one hint: {hints:?}") };
    assert!(hint.starts_with("radio.station_sensing.period: a packet of 1500 B takes "), "{hint}");
}

#[test]
fn a_case_whose_name_is_a_number_is_meant_by_its_name() {
    let text = with("[[cases]]\nname = \"1\"\n[[cases]]\nname = \"2\"\n[[cases]]\nname = \"4\"\n");
    for (set, mechanisms) in [
        ("cases.1.mechanism=dsasync", [1, 0, 0]),
        ("cases.4.mechanism=dsasync", [0, 0, 1]),
        ("cases.0.mechanism=dsasync", [1, 0, 0]),
    ] {
        let cases = Scenario::parse(&text, "s.toml", &[set.to_owned()], &NoFiles).expect("valid").cases();
        assert_eq!([0, 1, 2].map(|case: usize| cases[case].scenario.mechanisms.len()), mechanisms, "{set}");
    }
}

#[test]
fn a_round_trip_longer_than_the_run_gets_a_hint() {
    let text = BASE.replace("stations = 2", "stations = 1");
    let hints = |rtt: &str| {
        let overrides = [format!("wired.rtt=\"{rtt}\"")];
        Scenario::parse(&text, "s.toml", &overrides, &NoFiles).expect("valid").hints()
    };
    assert_eq!(hints("1s"), Vec::<String>::new());
    assert!(
        hints("60s")[0].starts_with("wired.rtt: one round trip takes 60s, and the run lasts "),
        "{:?}",
        hints("60s")
    );
}

#[test]
fn settings_of_a_mechanism_that_no_case_has_get_a_hint() {
    let hints = |more: &str| {
        let text = BASE.replace("stations = 2", "stations = 1") + "[dsasync]\nmode = \"hold\"\n" + more;
        parse(&text).expect("valid").hints()
    };
    let [hint] = &hints("")[..] else { panic!("one hint") };
    let wanted =
        ": dsasync: no case has the mechanism dsasync, so its settings do nothing; write mechanism = ";
    assert!(hint.starts_with("dir/s.toml:9:") && hint.contains(wanted), "{hint}");
    assert_eq!(hints("[[cases]]\nname = \"x\"\nmechanism = \"cr-aware\"\n").len(), 1);
    let both = "[[cases]]\nname = \"none\"\n[[cases]]\nname = \"x\"\nmechanism = \"dsasync\"\n";
    assert_eq!(hints(both), Vec::<String>::new());
}

#[test]
fn a_switch_after_the_end_of_the_run_gets_a_hint() {
    let text = BASE.replace("stations = 2", "stations = 1");
    let hints = |at: &str| {
        let overrides = [format!("radio.switches=[{{ at = \"{at}\", to_channel = 0 }}]")];
        Scenario::parse(&text, "s.toml", &overrides, &NoFiles).expect("valid").hints()
    };
    assert_eq!(hints("19s"), Vec::<String>::new());
    let [hint] = &hints("20s")[..] else { panic!("one hint") };
    assert!(hint.starts_with("radio.switches: a switch comes at 20s, and the run ends at 20s: "), "{hint}");
}

#[test]
fn a_word_that_looks_like_a_number_needs_no_quotes_on_a_command_line() {
    let quoted = run_as(BASE, "s.toml", &["radio.mac=\"802.16\""]);
    let bare = run_as(BASE, "s.toml", &["radio.mac = 802.16"]);
    assert_eq!(bare, quoted);
    assert_eq!(run_as(bare.as_run(), "s.toml", &[]), quoted, "{}", bare.as_run());
    let text = with("[[cases]]\nname = \"x\"\n");
    let own = run_as(&text, "s.toml", &["cases.x.set.radio.mac=802.16"]);
    assert_eq!(run_as(own.as_run(), "s.toml", &[]), own, "{}", own.as_run());
    assert_eq!(own.cases()[0].scenario.radio.mac, quoted.cases()[0].scenario.radio.mac);
    let other = Scenario::parse(BASE, "s.toml", &["radio.mac=802.17".to_owned()], &NoFiles);
    let told = other.expect_err("no such MAC").to_string();
    assert!(told.starts_with("--set radio.mac=802.17: radio.mac: "), "{told}");
    let in_file = refused(&BASE.replace("stations", "mac = 802.16\nstations"), &NoFiles);
    assert!(in_file.contains("radio.mac: the number 802.16 is not known here"), "{in_file}");
}

#[test]
fn a_station_that_nobody_reports_to_gets_a_hint() {
    let hints = |mechanisms: &str| {
        let text = with(&format!("[[cases]]\nname = \"lonely\"\nmechanisms = [{mechanisms}]\n"));
        parse(&text).expect("valid").hints()
    };
    let alone = hints("{ name = \"local-resend\" }");
    assert!(alone.iter().any(|hint| hint.contains("in case lonely nobody reports")), "{alone:?}");
    let both = hints("{ name = \"local-recovery\" }, { name = \"local-resend\" }");
    assert!(!both.iter().any(|hint| hint.contains("nobody reports")), "{both:?}");
}

#[test]
fn the_summary_speaks_of_one_connection_from_the_start_and_of_what_is_told() {
    let plain = parse(BASE).expect("valid").summary();
    assert!(plain.contains("downlink, 1 connection on each of 1 station, bulk, IPv4, from 0s\n"), "{plain}");
    assert!(!plain.contains("1 connections") && !plain.contains("0.000000s"), "{plain}");
    assert!(!plain.contains("told"), "nobody is there to be told: {plain}");
    let timed = with("start = \"1500ms\"\nstop = \"12s\"\ncount = 3\n");
    let timed = parse(&timed).expect("valid").summary();
    assert!(timed.contains("3 connections on each of 1 station, bulk, IPv4, from 1.5s to 12s\n"), "{timed}");
    let told = |more: &str| {
        let text = with("[[cases]]\nname = \"x\"\nmechanism = \"dsasync\"\n") + more;
        parse(&text).expect("valid").summary()
    };
    let untold = told("");
    assert!(
        untold.contains("told        every silence at its first moment; nobody tells the rate\n"),
        "{untold}"
    );
    let far = with("[[cases]]\nname = \"x\"\nmechanism = { name = \"cr-aware\", at = \"correspondent\" }\n");
    let far = parse(&far).expect("valid").summary();
    assert!(far.contains("tells the rate; a correspondent is told one wired delay later\n"), "{far}");
    let late = told("[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\n");
    let noticed =
        "told        a primary user 20ms after its burst begins, its end at once; nobody tells the rate\n";
    assert!(late.contains(noticed), "{late}");
    let text = with("[[cases]]\nname = \"x\"\nmechanism = \"dsasync\"\n").replacen(
        "[radio]",
        "[radio]\nrate_told = true",
        1,
    );
    let once = parse(&text).expect("valid").summary();
    assert!(once.contains("every silence at its first moment, and the channel's exact rate\n"), "{once}");
}

#[test]
fn seeds_stay_where_readers_of_json_can_tell_them_apart() {
    let most = (1_u64 << 53) - 10_000;
    for (seed, valid) in [(most, true), (most + 1, false), ((1 << 53) + 1, false)] {
        let text = format!("seed = {seed}\n{BASE}");
        assert_eq!(parse(&text).is_ok(), valid, "{seed}");
    }
    let last = most + 9_999;
    assert_eq!((last as f64) as u64, last);
    assert_ne!(last as f64, (last - 1) as f64, "the last of 10,000 repetitions");
}

#[test]
fn a_queue_can_be_that_of_linux_wifi_and_every_parameter_can_be_another() {
    let router = |more: &str| {
        let scenario = parse(&with(&format!("[router]\n{more}\n"))).expect("the queue is fine");
        match scenario.cases()[0].scenario.radio.router.kind {
            QueueKind::FqCodel(config) => config,
            QueueKind::Fifo { .. } => panic!("{more} is no fifo"),
        }
    };
    let (ms, wifi) = (Duration::from_millis, FqCodelConfig::MAC80211);
    for (more, expected) in [
        ("queue = \"fq_codel\"", FqCodelConfig::default()),
        ("queue = \"mac80211\"", wifi),
        ("queue = \"mac80211-slow\"", FqCodelConfig::MAC80211_SLOW),
        ("queue = \"mac80211\"\ntarget = \"5ms\"", FqCodelConfig { target: ms(5), ..wifi }),
        ("queue = \"mac80211\"\ninterval = \"300ms\"", FqCodelConfig { interval: ms(300), ..wifi }),
        ("queue = \"mac80211\"\nquantum = \"1514B\"", FqCodelConfig { quantum: 1514, ..wifi }),
        ("queue = \"mac80211\"\nlimit = \"100pkt\"", FqCodelConfig { limit: 100, ..wifi }),
        ("queue = \"mac80211\"\nflows = 1024", FqCodelConfig { flows: 1024, ..wifi }),
        (
            "queue = \"mac80211\"\nmemory_limit = \"4MiB\"",
            FqCodelConfig { memory_limit: Bytes(4 << 20), ..wifi },
        ),
        ("queue = \"mac80211\"\necn = false", FqCodelConfig { ecn: false, ..wifi }),
    ] {
        assert_eq!(router(more), expected, "{more}");
    }
    assert_eq!((wifi.target, wifi.interval, wifi.quantum), (ms(20), ms(100), 300));
    let slow = router("queue = \"mac80211-slow\"");
    assert_eq!((slow.target, slow.interval, slow.ecn), (ms(50), ms(300), false));
    for (quantum, message) in [
        ("255B", "router.quantum: a quantum of 255 B is too small; write at least 256B"),
        ("2MiB", "router.quantum: a quantum of 2.1 MB is too large; write at most 1MiB"),
    ] {
        let told =
            refused(&with(&format!("[router]\nqueue = \"fq_codel\"\nquantum = \"{quantum}\"\n")), &NoFiles);
        assert!(told.contains(message), "{told}");
    }
    let told = refused(&with("[station]\nin_silence = \"flush\"\n"), &NoFiles);
    assert!(
        told.contains("station.in_silence: a station keeps what it has queued through a silence"),
        "{told}"
    );
    let told = refused(&with("[router]\ntarget = \"20ms\"\n"), &NoFiles);
    assert!(
        told.contains(
            "router.target: does nothing with queue = \"fifo\"; remove it, or write queue = \"fq_codel\""
        ),
        "{told}"
    );
}
