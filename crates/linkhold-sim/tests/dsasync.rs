//! The promise of issue 1: `dsasync` keeps 97 % of what a perfect transport would deliver, on a radio
//! that is silent a quarter of the time.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::time::Duration;
use linkhold_sim::run_case;
use linkhold_tcp::Congestion;

/// Plan: one downlink bulk flow, `linux` profile, shared 24 Mb/s, primary user 20 % of the time in bursts of
/// 0.2 s, 25 ms of sensing every 0.5 s, 3 seeds of 30 s. Check: the mean share of the limit.
fn share_of_the_limit(congestion: Congestion, rtt_ms: u64) -> f64 {
    let mut shares = 0.0;
    for seed in 1..=3 {
        let mut scenario =
            common::quarter_silent(congestion, Duration::from_millis(rtt_ms), Duration::from_secs(32));
        scenario.warm_up = Duration::from_secs(2);
        scenario.mechanisms = vec![DsaSyncConfig::default().into()];
        let (record, _) = run_case(&common::case("dsasync", scenario), seed).expect("the scenario is valid");
        assert!((0.15..0.35).contains(&record.link.silent_fraction), "{}", record.link.silent_fraction);
        shares += record.totals.limit_share;
    }
    shares / 3.0
}

#[test]
fn dsasync_keeps_97_percent_of_the_limit_at_lan_and_internet_round_trips() {
    let mut failures = Vec::new();
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        for rtt_ms in [3, 50, 100] {
            let share = share_of_the_limit(congestion, rtt_ms);
            println!("{congestion:?} {rtt_ms} ms: {share:.4}");
            if share < 0.97 {
                failures.push(format!("{congestion:?} at {rtt_ms} ms: {share:.4}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
