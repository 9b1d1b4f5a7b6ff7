//! What must hold for DSASync whatever happens: random interleavings of packets of many connections, radio
//! events, timers and feedback from the transmit queue, for every mode. The driver in `support` checks each
//! answer.

mod support;

use linkhold_core::action::DropReason;
use linkhold_core::dsasync::uplink::{UplinkConfig, UplinkMode};
use linkhold_core::dsasync::{
    CapacityResponse, Clamp, CloseAt, DsaSync, DsaSyncConfig, Duplicates, Mode, Queues,
};
use linkhold_core::log::{Recorder, replay};
use linkhold_core::mechanism::Metrics;
use linkhold_core::time::Duration;
use linkhold_core::units::{Bytes, Fraction};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use support::driver::{Driver, World};
use support::flow::FlowPlan;
use support::steps::{Step, plans, steps, steps_with_hogs, wild_steps};

fn config() -> impl Strategy<Value = DsaSyncConfig> {
    (
        prop::sample::select(vec![Mode::Hold, Mode::Freeze, Mode::FreezeNudge]),
        prop::sample::select(vec![CloseAt::SpaceLow, CloseAt::UsedUp, CloseAt::SilenceStart]),
        prop::sample::select(vec![Duplicates::ReplaceOlder, Duplicates::Adaptive]),
        prop::sample::select(vec![
            CapacityResponse::Off,
            CapacityResponse::DuplicateAcks,
            CapacityResponse::Modern,
        ]),
        prop::sample::select(vec![Clamp::Off, Clamp::OnSwitch, Clamp::Always]),
        prop::sample::select(vec![UplinkMode::Off, UplinkMode::PerStation, UplinkMode::Pooled]),
        prop_oneof![Just(4_000_000u64), 6_000u64..200_000],
        any::<[bool; 4]>(),
        prop_oneof![Just(65_536u32), 1u32..6],
    )
        .prop_map(
            |(
                mode,
                close_at,
                duplicates,
                capacity,
                clamp,
                uplink,
                b_alloc,
                [keep_back, small, short, by_flow],
                max_flows,
            )| {
                DsaSyncConfig {
                    mode,
                    close_at,
                    duplicates,
                    capacity,
                    clamp,
                    uplink: UplinkConfig {
                        mode: uplink,
                        alpha_min: Fraction::clamped(0.5),
                        limit: Bytes(if small { 4_000 } else { 4_000_000 }),
                        ..UplinkConfig::default()
                    },
                    keep_back,
                    queues: if by_flow { Queues::Flow } else { Queues::Station },
                    max_held_packets: if small { 40 } else { 131_072 },
                    max_flows,
                    transmit_queue: Duration::from_millis(if short { 2 } else { 0 }),
                    ..DsaSyncConfig::default().with_b_alloc(Bytes(b_alloc))
                }
            },
        )
}

fn world(config: &DsaSyncConfig, queue: Option<usize>, lag: u64) -> World {
    World { b_alloc: config.b_alloc.0, max_silence: config.monitor.max_silence, queue, lag, no_queue: false }
}

fn agent(config: &DsaSyncConfig) -> DsaSync {
    DsaSync::new(config).expect("a valid configuration")
}

fn drive(config: &DsaSyncConfig, world: World, plans: &[FlowPlan], steps: &[Step]) {
    let mut log = Vec::new();
    let mut recorder = Recorder::new(agent(config), config, &mut log).expect("a Vec takes all");
    let mut driver = Driver::new(&mut recorder, world, plans);
    driver.run(steps, |_| true);
    assert!(driver.mechanism.metrics().flows <= u64::from(config.max_flows));
    driver.quieten();
    assert_eq!(driver.held_packets(), 0, "packets stay held though the radio works");
    if driver.mechanism.metrics().flow_evictions == 0 {
        driver.assert_windows_open();
    }
    driver.flush();
    recorder.finish().expect("a Vec takes all");
    let report = replay(&log[..], &mut agent(config)).expect("a good log");
    assert!(report.is_identical() && !report.truncated, "{:?}", report.divergence);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_contract_holds_for_real_connections(
        config in config(),
        queue in prop::option::of(1usize..60),
        lag in prop_oneof![3 => Just(0u64), 1 => 1u64..5_000],
        plans in plans(),
        steps in steps(200),
    ) {
        drive(&config, world(&config, queue, lag), &plans, &steps);
    }

    #[test]
    fn the_contract_holds_beside_hogs(
        config in config(),
        queue in prop::option::of(1usize..60),
        plans in plans(),
        steps in steps_with_hogs(100),
    ) {
        drive(&config, world(&config, queue, 0), &plans, &steps);
    }

    #[test]
    fn the_contract_holds_for_garbage_too(
        config in config(),
        queue in prop::option::of(1usize..60),
        plans in plans(),
        steps in wild_steps(200),
    ) {
        drive(&config, world(&config, queue, 0), &plans, &steps);
    }

    #[test]
    fn a_flush_in_the_middle_of_anything_leaves_nothing(
        config in config(),
        plans in plans(),
        steps in wild_steps(60),
    ) {
        let mut dsasync = agent(&config);
        let mut driver = Driver::new(&mut dsasync, world(&config, Some(30), 0), &plans);
        driver.run(&steps, |_| true);
        driver.flush();
        driver.advance(Duration::from_secs(1));
        assert_eq!(driver.held_packets(), 0);
    }

    /// With ample space, what a connection meets does not depend on connections of other stations. Left out
    /// because they share by design: the pooled shaper, the transmit queue that is kept short, and the clamp
    /// (the channel is divided among stations).
    #[test]
    fn connections_of_different_stations_share_nothing(
        config in config(),
        plans in plans(),
        steps in wild_steps(150),
        station in 0..support::steps::STATIONS,
    ) {
        let uplink = match config.uplink.mode {
            UplinkMode::Pooled => UplinkMode::PerStation,
            mode => mode,
        };
        let ample = DsaSyncConfig {
            clamp: Clamp::Off,
            transmit_queue: Duration::ZERO,
            uplink: UplinkConfig { mode: uplink, limit: Bytes(64_000_000), ..config.uplink },
            max_held_packets: 131_072,
            max_flows: 65_536,
            ..config.with_b_alloc(Bytes(64_000_000))
        };
        let journals = [true, false].map(|others| {
            let mut dsasync = agent(&ample);
            let world = World { no_queue: true, ..world(&ample, None, 0) };
            let mut driver = Driver::new(&mut dsasync, world, &plans);
            driver.run(&steps, |flow| others || flow.plan.station == station);
            driver.journal
        });
        for (flow, plan) in plans.iter().enumerate().filter(|(_, plan)| plan.station == station) {
            prop_assert_eq!(&journals[0][flow], &journals[1][flow], "flow {} ({:?})", flow, plan);
        }
    }
}

/// The random worlds must reach every part of the mechanism, or the properties above say nothing about it.
#[test]
fn the_worlds_reach_every_part() {
    let mut runner = TestRunner::deterministic();
    let worlds = (config(), plans(), steps_with_hogs(200));
    let mut total = Metrics::default();
    for _ in 0..200 {
        let (config, plans, steps) = worlds.new_tree(&mut runner).expect("a world").current();
        let mut dsasync = agent(&config);
        let mut driver = Driver::new(&mut dsasync, world(&config, Some(30), 0), &plans);
        driver.run(&steps, |_| true);
        driver.quieten();
        let metrics = driver.mechanism.metrics();
        total.holds += metrics.holds;
        total.released += metrics.released;
        for (sum, dropped) in total.dropped.iter_mut().zip(metrics.dropped) {
            *sum += dropped;
        }
        total.acks_injected += metrics.acks_injected;
        total.windows_closed += metrics.windows_closed;
        total.windows_reopened += metrics.windows_reopened;
        total.windows_clamped += metrics.windows_clamped;
        total.probes_answered += metrics.probes_answered;
        total.flow_evictions += metrics.flow_evictions;
        total.midstream_flows += metrics.midstream_flows;
        total.silences += metrics.silences;
    }
    let dropped = |reason: DropReason| total.dropped[reason as usize];
    let counts = [
        ("holds", total.holds),
        ("released", total.released),
        ("buffer full", dropped(DropReason::BufferFull)),
        ("superseded", dropped(DropReason::Superseded)),
        ("flow evicted", dropped(DropReason::FlowEvicted)),
        ("ACKs injected", total.acks_injected),
        ("windows closed", total.windows_closed),
        ("windows reopened", total.windows_reopened),
        ("windows clamped", total.windows_clamped),
        ("probes answered", total.probes_answered),
        ("flow evictions", total.flow_evictions),
        ("midstream flows", total.midstream_flows),
        ("silences", total.silences),
    ];
    for (name, count) in counts {
        assert!(count >= 10, "{name}: {count} in 200 worlds: {counts:?}");
    }
}
