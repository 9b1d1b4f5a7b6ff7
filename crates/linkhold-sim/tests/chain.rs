//! A chain of mechanisms at one tap does what the same mechanisms do at taps of their own.

mod common;

use linkhold_core::chain::Chain;
use linkhold_core::mechanism::{Mechanism, Place};
use linkhold_core::time::Instant;
use linkhold_results::{FlowRecord, MechanismRecord, RunRecord};
use linkhold_scenario::{Case, NoFiles, Scenario};
use linkhold_sim::path::NodeId;
use linkhold_sim::run_case;

/// `scenarios/told-late.toml`'s radio and router: silences that are noticed 20 ms late.
fn told_late(flows: &str, mechanisms: &str, rate_told: bool) -> Case {
    let text = format!(
        r#"schema = "linkhold.scenario/1"
        name = "chain"
        duration = "15s"
        [wired]
        rtt = "50ms"
        [radio]
        phy_rate = "24Mbit/s"
        rate_told = {rate_told}
        stations = 2
        primary_user = {{ on_mean = "300ms", off_mean = "1200ms", detection_delay = "20ms" }}
        [router]
        limit = "100pkt"
        visible = false
        {flows}
        [[cases]]
        name = "both"
        mechanisms = {mechanisms}
        "#
    );
    let scenario =
        Scenario::parse(&text, "chain.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    scenario.cases().remove(0)
}

/// The same case with its mechanisms in one chain.
fn chained(case: &Case, seed: u64) -> (Vec<FlowRecord>, MechanismRecord) {
    let scenario = &case.scenario;
    let mechanisms: Vec<Box<dyn Mechanism>> =
        scenario.mechanisms.iter().map(|placed| placed.settings.build(0).expect("it is valid")).collect();
    let chain = Box::new(Chain::new(mechanisms, 0));
    let end = Instant::ZERO + scenario.duration;
    let (flows, _, network) = common::run_tapped(scenario, seed, NodeId::BaseStation, chain, end);
    let metrics = network.taps()[0].mechanism().metrics();
    (flows, MechanismRecord::new("chain", Place::BaseStation, &metrics))
}

fn at_taps(case: &Case, seed: u64) -> RunRecord {
    run_case(case, seed).expect("it is valid").0
}

#[test]
fn a_chain_does_what_taps_of_their_own_do() {
    let down = "[[flows]]\ndirection = \"downlink\"\nstation = \"all\"\n";
    let both_ways = format!("{down}[[flows]]\ndirection = \"uplink\"\nstation = 1\n");
    for flows in [down, &both_ways] {
        for mechanisms in [
            r#"[{ name = "dsasync", recover = false }, { name = "local-recovery" }]"#,
            r#"[{ name = "dsasync", preset = "paper" }, { name = "local-recovery" }]"#,
        ] {
            for (seed, rate_told) in (1..=3).flat_map(|seed| [(seed, true), (seed, false)]) {
                let case = told_late(flows, mechanisms, rate_told);
                let (taps, (records, sums)) = (at_taps(&case, seed), chained(&case, seed));
                assert_eq!(records, taps.flows, "{mechanisms} {seed} {rate_told}");
                for counter in ["holds", "released", "copies_sent", "acks_injected", "windows_clamped"] {
                    let sum: u64 = taps.mechanisms.iter().map(|one| one.counter(counter)).sum();
                    assert_eq!(sums.counter(counter), sum, "{counter}");
                }
                assert!(
                    sums.counter("copies_sent") > 0 && sums.counter("holds") > 0,
                    "both had something to do"
                );
            }
        }
    }
}
