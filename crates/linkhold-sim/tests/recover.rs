//! DSASync with copies, where a primary user is noticed late: what is sent into a burst collides and is given
//! up.
//!
//! Plan: one flow, 100 ms from its correspondent, bursts of 0.3 s, a MAC that tries eight times, and routers
//! as they are: a fifo, fq_codel, and one that drops what arrives in a silence. The mechanism is told each
//! burst so much late, is told the channel's rate or has to measure it, and neither sees the router's queue
//! nor gets packets back. Check: the shares of the limit that the project set itself before they were
//! measured, 0.97 at 20 ms and 0.95 at 50 ms; copies that were not needed are no more than 2 % of the
//! packets; and where silences are told at once nothing is sent twice, and fq_codel drops nothing.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::Duration;
use linkhold_radio::{FqCodelConfig, InSilence, PrimaryUserConfig, QueueConfig, QueueKind};
use linkhold_results::RunRecord;
use linkhold_scenario::ResolvedScenario;
use linkhold_sim::run_case;
use linkhold_tcp::Congestion;

const SEEDS: [u64; 3] = [1, 2, 3];

fn late(
    congestion: Congestion,
    millis: u64,
    router: QueueConfig,
    mechanism: DsaSyncConfig,
) -> ResolvedScenario {
    let mut scenario =
        common::quarter_silent(congestion, Duration::from_millis(100), Duration::from_secs(23));
    scenario.warm_up = Duration::from_secs(3);
    scenario.flows = vec![common::bulk(Direction::Downlink)];
    scenario.radio.sensing = None;
    scenario.radio.channels[0].efficiency = linkhold_core::units::Fraction::clamped(0.73);
    scenario.radio.channels[0].primary_user = Some(PrimaryUserConfig {
        on_mean: Duration::from_millis(300),
        off_mean: Duration::from_millis(1200),
        fixed: false,
        detection_delay: Duration::from_millis(millis),
        end_detection_delay: Duration::ZERO,
    });
    scenario.radio.router = router;
    scenario.router_visible = false;
    scenario.mechanisms = vec![mechanism.into()];
    scenario
}

fn run(scenario: &ResolvedScenario, seed: u64) -> RunRecord {
    run_case(&common::case("late", scenario.clone()), seed).expect("the scenario is valid").0
}

fn with_copies() -> DsaSyncConfig {
    DsaSyncConfig::default()
}

fn without_copies() -> DsaSyncConfig {
    DsaSyncConfig { recover: false, ..DsaSyncConfig::default() }
}

fn routers() -> [QueueConfig; 3] {
    let fifo = QueueConfig::fifo(100);
    [
        fifo,
        QueueConfig { kind: QueueKind::FqCodel(FqCodelConfig::default()), ..fifo },
        QueueConfig { in_silence: InSilence::Drop, ..fifo },
    ]
}

/// What the runs of one share have in common.
#[derive(Clone, Copy, Debug)]
struct Cell {
    congestion: Congestion,
    /// How late bursts are told, ms, and the aim there.
    late: (u64, f64),
    rate_told: bool,
    /// Which of [`routers`].
    router: usize,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        for late in [(5, 0.97), (20, 0.97), (50, 0.95)] {
            for rate_told in [true, false] {
                cells.extend((0..3).map(|router| Cell { congestion, late, rate_told, router }));
            }
        }
    }
    cells
}

#[test]
fn a_download_keeps_the_limit_though_every_burst_is_noticed_late() {
    let mut failures = Vec::new();
    for cell in cells() {
        let Cell { congestion, late: (millis, aim), rate_told, router } = cell;
        let (mut sum, mut dropped) = (0.0, 0);
        for seed in SEEDS {
            let mut scenario = late(congestion, millis, routers()[router], with_copies());
            scenario.radio.rate_told = rate_told;
            let run = run(&scenario, seed);
            sum += run.totals.limit_share;
            dropped += run.link.queue_drops;
            let copies = run.mechanisms[0].counter("copies_sent");
            let needless = copies.saturating_sub(run.link.air_losses);
            let packets = run.flows[0].bytes / 1448;
            if needless * 50 > packets {
                failures.push(format!("{cell:?}: {needless} needless copies of {packets} packets"));
            }
        }
        let share = sum / SEEDS.len() as f64;
        println!("{cell:?}: {share:.4} of the limit, the router dropped {dropped} packets");
        if share < aim {
            failures.push(format!("{cell:?}: {share:.3} of the limit"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The same without copies loses most of it: what is measured above is the copies' doing.
#[test]
fn without_copies_it_does_not() {
    for seed in SEEDS {
        let run = run(&late(Congestion::Cubic, 20, QueueConfig::fifo(100), without_copies()), seed);
        assert!(run.totals.limit_share < 0.8, "{:.3}", run.totals.limit_share);
    }
}

#[test]
fn where_silences_are_told_at_once_nothing_is_sent_twice() {
    for (router, rate_told) in routers().into_iter().flat_map(|router| [(router, true), (router, false)]) {
        for seed in SEEDS {
            let [with, without] = [with_copies(), without_copies()].map(|mechanism| {
                let mut scenario = late(Congestion::Cubic, 0, router, mechanism);
                scenario.radio.rate_told = rate_told;
                run(&scenario, seed)
            });
            // The queue waits at the mechanism: what lies in the router's is nothing to CoDel.
            if matches!(router.kind, QueueKind::FqCodel(_)) {
                assert_eq!(with.link.queue_drops, 0, "rate told: {rate_told}, seed {seed}");
            }
            assert_eq!(with.mechanisms[0].counter("copies_sent"), 0);
            // A word that is waited for may take a release along, no more.
            let ratio = with.totals.goodput_bps / without.totals.goodput_bps;
            assert!(ratio > 0.999, "{ratio}");
            assert_eq!(with.totals.retransmits, without.totals.retransmits);
        }
    }
}
