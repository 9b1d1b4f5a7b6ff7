//! One small run, number for number: whoever changes a number must mean to.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::time::Duration;
use linkhold_core::units::Bytes;
use linkhold_scenario::Source;
use linkhold_sim::run_case;
use linkhold_tcp::Congestion;

#[test]
fn a_small_run_gives_the_numbers_it_always_gave() {
    let mut scenario =
        common::quarter_silent(Congestion::Reno, Duration::from_millis(20), Duration::from_secs(3));
    scenario.flows[0].source = Source::Finite(Bytes(1_000_000));
    scenario.mechanisms = vec![DsaSyncConfig::default().into()];
    let (mut record, _) = run_case(&common::case("golden", scenario), 1).unwrap();
    record.wall_s = 0.0;
    insta::assert_snapshot!(serde_json::to_string_pretty(&record).unwrap());
}
