//! Whole runs over `radio.mac = "dcf"`.

use linkhold_results::RunRecord;
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sim::run_case;

const BASE: &str = r#"schema = "linkhold.scenario/1"
name = "dcf"
duration = "10s"
warm_up = "1s"
[radio]
mac = "dcf"
phy_rate = "24Mbit/s"
stations = 6
"#;

fn run(more: &str, seed: u64) -> RunRecord {
    let scenario = Scenario::parse(&format!("{BASE}{more}"), "s.toml", &[], &NoFiles)
        .unwrap_or_else(|error| panic!("{error}"));
    run_case(&scenario.cases()[0], seed).expect("it is valid").0
}

/// 1472 bytes of payload in a packet of 1500 each 681.5 us (issue 11's 17.28 Mbit/s), and that is the limit.
#[test]
fn one_station_sends_17_28_mbps_of_datagrams() {
    let record =
        run("[[flows]]\ndirection = \"uplink\"\ntransport = \"udp\"\nsource = { rate = \"40Mbit/s\" }\n", 1);
    let goodput = record.totals.goodput_bps / 1e6;
    assert!((goodput / 17.28 - 1.0).abs() < 0.003, "{goodput}");
    let limit = record.link.goodput_limit_bps / 1e6;
    assert!((limit / 17.279 - 1.0).abs() < 1e-3, "{limit}");
}

/// A downlink competes with its own ACKs: less than in turns, and far from nothing.
#[test]
fn tcp_gets_its_share_of_the_limit() {
    for (flow, least) in [("downlink", 0.85), ("uplink", 0.75)] {
        let flows = format!("[[flows]]\ndirection = {flow:?}\nstation = \"all\"\ncount = 4\n");
        let record = run(&flows, 3);
        let share = record.totals.limit_share;
        println!("{flow}: {:.2} Mbit/s, {share:.3} of the limit", record.totals.goodput_bps / 1e6);
        assert!((least..1.05).contains(&share), "{flow}: {share}");
        assert_eq!(run(&flows, 3).totals.goodput_bps, record.totals.goodput_bps);
    }
}
