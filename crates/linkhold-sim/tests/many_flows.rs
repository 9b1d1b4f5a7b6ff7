//! The paper's large scale: 24 flows on 6 stations. A mechanism must not starve any flow when there are many.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::Duration;
use linkhold_radio::QueueConfig;
use linkhold_scenario::{PlacedMechanism, ResolvedScenario};
use linkhold_sim::run_case;
use linkhold_tcp::{Congestion, TcpConfig};

/// Plan: 4 flows to each of 6 stations, 20 s counted. Check: share of the limit and fairness.
fn twenty_four(
    mut scenario: ResolvedScenario,
    direction: Direction,
    mechanisms: Vec<PlacedMechanism>,
) -> (f64, f64) {
    scenario.radio.stations = 6;
    // With a queue that holds seconds of traffic, the run would be spent on the losses of one slow start.
    scenario.radio.station_queue = QueueConfig::fifo(100);
    let mut flows = common::bulk(direction);
    flows.stations = (0..6).collect();
    flows.count = 4;
    scenario.flows = vec![flows];
    scenario.warm_up = Duration::from_secs(2);
    scenario.mechanisms = mechanisms;
    let (record, _) = run_case(&common::case("many", scenario), 1).expect("the scenario is valid");
    (record.totals.limit_share, record.totals.jain_index)
}

#[test]
fn twenty_four_flows_fill_the_link_with_dsasync_as_without() {
    let dsasync: Vec<PlacedMechanism> = vec![DsaSyncConfig::default().into()];
    let mut failures = Vec::new();
    for direction in [Direction::Downlink, Direction::Uplink] {
        for (name, mechanisms, least) in [("none", Vec::new(), 0.95), ("dsasync", dsasync.clone(), 0.95)] {
            let tcp = TcpConfig::linux(Congestion::Cubic);
            for rtt_ms in [2, 50] {
                let (rtt, duration) = (Duration::from_millis(rtt_ms), Duration::from_secs(22));
                let (share, jain) =
                    twenty_four(common::clean(tcp.clone(), rtt, duration), direction, mechanisms.clone());
                println!("clean {direction:?} {rtt_ms} ms {name}: {share:.4}, Jain {jain:.3}");
                if share < least {
                    failures.push(format!("clean link, {direction:?}, {rtt_ms} ms, {name}: {share:.4}"));
                }
            }
        }
        for rtt_ms in [3, 50] {
            let (rtt, duration) = (Duration::from_millis(rtt_ms), Duration::from_secs(22));
            let silent = common::quarter_silent(Congestion::Cubic, rtt, duration);
            let (share, jain) = twenty_four(silent, direction, dsasync.clone());
            println!("silent {direction:?} {rtt_ms} ms dsasync: {share:.4}, Jain {jain:.3}");
            if share < 0.93 {
                failures.push(format!("a quarter silent, {direction:?}, {rtt_ms} ms: {share:.4}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
