//! Local recovery at the radio, in both directions, where a primary user is noticed late: what is sent into a
//! burst collides and is given up.
//!
//! Plan: one flow, CUBIC, 50 ms from its correspondent; bursts of 0.3 s, each told 20 ms late, and a MAC that
//! tries eight times. Check: with local recovery the sender hears of fewer losses and carries more; what it
//! carries is what was sent.

mod common;

use linkhold_core::cr_aware::CrAwareConfig;
use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::local_recovery::{LocalRecoveryConfig, LocalResendConfig, ResendFrom};
use linkhold_core::mechanism::Place;
use linkhold_core::packet::Direction;
use linkhold_core::time::Duration;
use linkhold_radio::QueueConfig;
use linkhold_results::RunRecord;
use linkhold_scenario::{PlacedMechanism, ResolvedScenario};
use linkhold_sim::run_case;
use linkhold_tcp::Congestion;

fn late(direction: Direction, mechanisms: Vec<PlacedMechanism>) -> ResolvedScenario {
    let mut scenario =
        common::quarter_silent(Congestion::Cubic, Duration::from_millis(50), Duration::from_secs(30));
    scenario.flows = vec![common::bulk(direction)];
    scenario.radio.station_queue = QueueConfig::fifo(100);
    scenario.radio.sensing = None;
    scenario.radio.channels[0].primary_user = Some(common::bursts(300, 1200, Duration::from_millis(20)));
    // As over most drivers: the mechanism neither sees the queue nor gets packets back.
    scenario.router_visible = false;
    scenario.mechanisms = mechanisms;
    scenario
}

fn run(direction: Direction, mechanisms: Vec<PlacedMechanism>) -> RunRecord {
    run_case(&common::case("late", late(direction, mechanisms)), 1).expect("the scenario is valid").0
}

/// What its flow carries in twenty runs with different bursts, bit/s.
fn carried(direction: Direction, mechanisms: &[PlacedMechanism]) -> f64 {
    let case = common::case("late", late(direction, mechanisms.to_vec()));
    let run = |seed| run_case(&case, seed).expect("the scenario is valid").0.flows[0].goodput_bps;
    (1..=20).map(run).sum::<f64>() / 20.0
}

fn placed(settings: impl Into<PlacedMechanism>, place: Place) -> PlacedMechanism {
    PlacedMechanism { place, ..settings.into() }
}

fn base_station(settings: impl Into<PlacedMechanism>) -> PlacedMechanism {
    placed(settings, Place::BaseStation)
}

#[test]
fn downlink_losses_of_a_burst_told_late_are_repaired_before_the_sender_reduces() {
    let dsasync = || base_station(DsaSyncConfig { recover: false, ..DsaSyncConfig::default() });
    let plain = run(Direction::Downlink, vec![dsasync()]);
    let repaired = run(Direction::Downlink, vec![dsasync(), base_station(LocalRecoveryConfig::default())]);
    let local = &repaired.mechanisms[1];
    assert_eq!(local.name, "local-recovery");
    assert!(local.counter("copies_sent") > 100, "{local:?}");
    let (plain, repaired) = (&plain.flows[0], &repaired.flows[0]);
    assert!(
        repaired.goodput_bps > 1.5 * plain.goodput_bps,
        "{} and {}",
        repaired.goodput_bps,
        plain.goodput_bps
    );
}

#[test]
fn uplink_losses_are_reported_and_sent_again_by_the_link_or_by_tcp() {
    let plain = carried(Direction::Uplink, &[]);
    for from in [ResendFrom::Link, ResendFrom::Tcp] {
        let station = LocalResendConfig { from, ..LocalResendConfig::default() };
        let mechanisms = vec![base_station(LocalRecoveryConfig::default()), placed(station, Place::Stations)];
        let with = carried(Direction::Uplink, &mechanisms);
        let repaired = run(Direction::Uplink, mechanisms);
        let [reports, resent] = &repaired.mechanisms[..] else { panic!("{:?}", repaired.mechanisms) };
        assert!(reports.counter("reports") > 10, "{reports:?}");
        let copies = resent.counter("copies_sent");
        assert_eq!(copies > 10, from == ResendFrom::Link, "TCP sends from its own buffer: {resent:?}");
        println!("{from:?}: {with:.0} and {plain:.0} bit/s");
        assert!(with > 1.1 * plain, "{from:?}: {with} and {plain}");
    }
}

#[test]
fn a_thaw_and_local_recovery_go_together_at_one_station() {
    let station = LocalResendConfig { from: ResendFrom::Tcp, ..LocalResendConfig::default() };
    let mechanisms = vec![
        base_station(LocalRecoveryConfig::default()),
        placed(CrAwareConfig::default(), Place::Stations),
        placed(station, Place::Stations),
    ];
    let run = run(Direction::Uplink, mechanisms);
    assert_eq!(run.mechanisms.len(), 3);
    assert!(run.flows[0].goodput_bps > 1e6, "{}", run.flows[0].goodput_bps);
}
