//! DSASync beside a radio that senses at times it announced: nothing arrives in a quiet period, so what comes
//! after it waits for nothing.
//!
//! Plan: one flow, 100 ms from its correspondent; 25 ms of sensing every 0.5 s and bursts of a primary user,
//! told at once or 20 ms late, the rate told or not (the cell of the front page). Check: the 99th percentile
//! of the delay of what met no silence is at most 25 ms beyond that of fq_codel alone, which the project set
//! itself before; without foresight it is at least 15 ms higher than with it; and foresight costs at most
//! half a per cent of the limit. The same behind cross traffic on the wire, where data comes later than it
//! could, but for the 15 ms: there foresight has to cost nothing.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::Duration;
use linkhold_core::units::Fraction;
use linkhold_radio::{FqCodelConfig, QueueConfig, QueueKind, SensingConfig};
use linkhold_scenario::ResolvedScenario;
use linkhold_sim::run_case;
use linkhold_tcp::Congestion;

const SEEDS: u64 = 5;

fn sensing(late: Duration, rate_told: bool, announced: bool) -> ResolvedScenario {
    let mut scenario =
        common::quarter_silent(Congestion::Cubic, Duration::from_millis(100), Duration::from_secs(23));
    scenario.warm_up = Duration::from_secs(3);
    scenario.flows = vec![common::bulk(Direction::Downlink)];
    scenario.radio.rate_told = rate_told;
    scenario.radio.sensing = Some(SensingConfig {
        period: Duration::from_millis(500),
        duration: Duration::from_millis(25),
        phase: Duration::from_millis(230),
        announced,
    });
    scenario.radio.channels[0].efficiency = Fraction::clamped(0.73);
    scenario.radio.channels[0].primary_user = Some(common::bursts(300, 1200, late));
    scenario.radio.router =
        QueueConfig { kind: QueueKind::FqCodel(FqCodelConfig::default()), ..QueueConfig::fifo(100) };
    scenario.router_visible = false;
    scenario
}

/// Means over the seeds: share of the limit, and 99th percentile of the delay outside silences, ms.
fn carried(scenario: &ResolvedScenario, mechanism: Option<DsaSyncConfig>) -> (f64, f64) {
    let mut scenario = scenario.clone();
    scenario.mechanisms = mechanism.into_iter().map(Into::into).collect();
    let (mut share, mut delay) = (0.0, 0.0);
    for seed in 1..=SEEDS {
        let (record, _) = run_case(&common::case("sensing", scenario.clone()), seed).expect("it is valid");
        share += record.totals.limit_share / SEEDS as f64;
        delay += record.totals.delay_p99_outside_silence_s * 1e3 / SEEDS as f64;
    }
    (share, delay)
}

/// The same over fq_codel alone, with DSASync that foresees nothing, and with foresight.
fn three(scenario: &ResolvedScenario) -> [(f64, f64); 3] {
    let blind = DsaSyncConfig { foresee: false, ..DsaSyncConfig::default() };
    [None, Some(blind), Some(DsaSyncConfig::default())].map(|mechanism| carried(scenario, mechanism))
}

#[test]
fn what_comes_after_announced_sensing_waits_for_nothing() {
    for (late, rate_told) in [(0, true), (20, true), (0, false), (20, false)] {
        let scenario = sensing(Duration::from_millis(late), rate_told, true);
        let [(_, router), (usual, before), (share, after)] = three(&scenario);
        println!(
            "{late} ms late, rate told: {rate_told}; p99 {router:.1} ms over fq_codel alone, {before:.1} without foresight, {after:.1} with it; shares {usual:.3} and {share:.3}"
        );
        assert!(after <= router + 25.0, "{late} ms late, {rate_told}: {after:.1} ms, fq_codel {router:.1}");
        assert!(after <= before - 15.0, "{late} ms late, {rate_told}: {after:.1} ms, {before:.1} without");
        assert!(share >= usual - 0.005, "{late} ms late, {rate_told}: {share:.3}, {usual:.3} without");
    }
}

#[test]
fn sensing_that_nobody_announced_changes_nothing() {
    let scenario = sensing(Duration::ZERO, true, false);
    let blind = DsaSyncConfig { foresee: false, ..DsaSyncConfig::default() };
    assert_eq!(carried(&scenario, Some(blind)), carried(&scenario, Some(DsaSyncConfig::default())));
}

/// Criteria fixed before measuring.
#[test]
fn on_a_path_with_jitter_foresight_costs_nothing() {
    for (jitter, late, rate_told) in [(2, 0, true), (2, 20, false), (10, 0, true), (10, 20, false)] {
        let mut scenario = sensing(Duration::from_millis(late), rate_told, true);
        scenario.wired.jitter = Duration::from_millis(jitter);
        let [(alone, router), (usual, before), (share, after)] = three(&scenario);
        println!(
            "jitter {jitter} ms, {late} ms late, rate told: {rate_told}; p99 {router:.1} ms over fq_codel alone, {before:.1} without foresight, {after:.1} with it; shares {alone:.3}, {usual:.3} and {share:.3}"
        );
        assert!(
            share >= usual - 0.005,
            "{jitter} ms, {late} ms late, {rate_told}: {share:.3}, {usual:.3} without"
        );
        assert!(
            after <= before + 1.0,
            "{jitter} ms, {late} ms late, {rate_told}: {after:.1} ms, {before:.1} without"
        );
    }
}
