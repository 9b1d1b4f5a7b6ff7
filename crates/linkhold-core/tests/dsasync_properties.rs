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
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::time::Duration;
use linkhold_core::units::{Bytes, Fraction};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use support::driver::{Driver, Shares, World};
use support::flow::FlowPlan;
use support::steps::{
    Forgery, Step, forgeries, plans, steps, steps_both_ways, steps_with_ghosts, steps_with_hogs,
    steps_with_losses, wild_steps,
};

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
        // More than 4 MB follows the silences.
        prop_oneof![Just(4_000_000u64), Just(64_000_000), 6_000u64..200_000],
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
                    recover: false,
                    transmit_queue: Duration::from_millis(if short { 2 } else { 0 }),
                    ..DsaSyncConfig::default().with_b_alloc(Bytes(b_alloc))
                }
            },
        )
}

/// The same with copies: so few that they are pushed out, or enough.
fn with_copies(config: DsaSyncConfig, few: bool) -> DsaSyncConfig {
    DsaSyncConfig { recover: true, copies: Bytes(if few { 6_000 } else { 4_000_000 }), ..config }
}

fn world(config: &DsaSyncConfig, queue: Option<usize>, lag: u64) -> World {
    let shares = Shares {
        quota: config.flow_quota.0,
        half: (config.b_alloc.0 - config.b_low.0) / 2,
        least: config.b_alloc.0 / u64::from(config.max_held_packets),
        only_space_closes: config.close_at == CloseAt::SpaceLow
            && config.uplink.mode == UplinkMode::Off
            && !config.keep_back,
    };
    World {
        b_alloc: config.b_alloc.0,
        most_kept: if config.recover { config.copies.0 } else { 0 },
        max_silence: config.monitor.max_silence,
        queue,
        lag,
        no_queue: false,
        shares: (config.queues == Queues::Flow).then_some(shares),
    }
}

/// The same with space for everything, and without what connections share by design.
fn ample(config: &DsaSyncConfig) -> DsaSyncConfig {
    let uplink = match config.uplink.mode {
        UplinkMode::Pooled => UplinkMode::PerStation,
        mode => mode,
    };
    DsaSyncConfig {
        clamp: Clamp::Off,
        transmit_queue: Duration::ZERO,
        uplink: UplinkConfig { mode: uplink, limit: Bytes(64_000_000), ..config.uplink },
        max_held_packets: 131_072,
        max_flows: 65_536,
        dynamic_buffer: false,
        ..config.with_b_alloc(Bytes(64_000_000))
    }
}

fn agent(config: &DsaSyncConfig) -> DsaSync {
    DsaSync::new(config).expect("a valid configuration")
}

fn drive(config: &DsaSyncConfig, world: World, plans: &[FlowPlan], steps: &[Step]) {
    drive_beside(config, world, plans, steps, &[], false);
}

/// As [`drive`], beside a third party that forges segments of one direction around the handshakes.
fn drive_beside(
    config: &DsaSyncConfig,
    world: World,
    plans: &[FlowPlan],
    steps: &[Step],
    forgeries: &[Forgery],
    down: bool,
) {
    let mut log = Vec::new();
    let mut recorder = Recorder::new(agent(config), config, &mut log).expect("a Vec takes all");
    let mut driver = Driver::new(&mut recorder, world, plans).beside(forgeries, down);
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
    fn the_contract_holds_with_copies(
        config in config(),
        few in prop::bool::weighted(0.2),
        queue in prop::option::of(1usize..60),
        lag in prop_oneof![3 => Just(0u64), 1 => 1u64..5_000],
        plans in plans(),
        steps in steps_with_losses(200),
    ) {
        let config = with_copies(config, few);
        drive(&config, world(&config, queue, lag), &plans, &steps);
    }

    #[test]
    fn the_contract_holds_with_copies_for_garbage_and_hogs_too(
        config in config(),
        few in prop::bool::weighted(0.2),
        queue in prop::option::of(1usize..60),
        plans in plans(),
        wild in wild_steps(100),
        hogs in steps_with_hogs(60),
        both_ways in steps_both_ways(60),
    ) {
        let config = with_copies(config, few);
        let steps: Vec<_> = wild.into_iter().chain(hogs).chain(both_ways).collect();
        drive(&config, world(&config, queue, 0), &plans, &steps);
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

    /// Beside senders that heed no window, at any rate and size, answered or not, a flow's window closes only
    /// for what that flow itself holds, and nobody holds more than its quota (the driver checks both).
    #[test]
    fn a_hog_takes_nothing_but_its_own(
        config in config(),
        b_alloc in 6_000u64..400_000,
        queue in prop::option::of(1usize..60),
        plans in plans(),
        steps in steps_with_hogs(100),
    ) {
        let fair = DsaSyncConfig {
            mode: if config.mode == Mode::Hold { Mode::FreezeNudge } else { config.mode },
            close_at: CloseAt::SpaceLow,
            queues: Queues::Flow,
            keep_back: false,
            uplink: UplinkConfig { mode: UplinkMode::Off, ..config.uplink },
            ..config.with_b_alloc(Bytes(b_alloc))
        };
        drive(&fair, world(&fair, queue, 0), &plans, &steps);
    }

    #[test]
    fn the_contract_holds_for_data_both_ways(
        config in config(),
        queue in prop::option::of(1usize..60),
        lag in prop_oneof![3 => Just(0u64), 1 => 1u64..5_000],
        plans in plans(),
        steps in steps_both_ways(150),
    ) {
        drive(&config, world(&config, queue, lag), &plans, &steps);
    }

    /// Requests, responses and copies of both: no sample of the wired round trip is below the true one, which
    /// would hold the window down for 10 s and more.
    #[test]
    fn the_wired_round_trip_is_never_taken_for_shorter_than_it_is(
        config in config(),
        plans in plans(),
        steps in steps_both_ways(200),
    ) {
        // Nobody can tell what of a forgotten connection is sent again.
        let config = DsaSyncConfig { max_flows: 65_536, ..config };
        let mut dsasync = agent(&config);
        let mut driver = Driver::new(&mut dsasync, world(&config, Some(30), 0), &plans);
        driver.run_checked(&steps, |_| true, |driver| {
            for (index, flow) in driver.flows.iter().enumerate().filter(|(_, flow)| !flow.reset) {
                let measured = driver.mechanism.wired_round_trip(&flow.key).unwrap_or(flow.plan.wire);
                assert!(measured >= flow.plan.wire, "flow {index}: {measured} of {}", flow.plan.wire);
            }
        });
    }

    /// Stations leave in the middle of downloads, and segments for them go on coming. A download of another
    /// station still gets a window that keeps the radio busy, and what is outstanding of the others is
    /// written off.
    #[test]
    fn a_station_that_left_costs_the_others_nothing(
        config in config(),
        // No offered window overflows it.
        queue in prop::option::of(50usize..100),
        mut plans in plans(),
        steps in steps_with_ghosts(60),
        told in any::<bool>(),
        wire in 40u64..150,
    ) {
        let (wire, radio, frame) = (Duration::from_millis(wire), Duration::from_millis(5), Duration::from_millis(6));
        plans[0] = FlowPlan { wire, tick: Duration::from_millis(1), handshake: true, ..plans[0] };
        // With less space the download closes its own window.
        let ample = DsaSyncConfig { max_held_packets: 131_072, ..config.with_b_alloc(Bytes(4_000_000)) };
        let mut dsasync = agent(&ample);
        let mut driver = Driver::new(&mut dsasync, world(&ample, queue, 0), &plans);
        driver.run(&steps, |_| true);
        driver.quieten();
        assert_eq!(driver.held_packets(), 0, "packets stay held though the radio works");
        // 2 Mbit/s.
        driver.step(&Step::Switch { mbps: if told { 2 } else { 0 }, efficiency: 1.0 });
        driver.download(0, 60_000, frame, radio, Duration::from_secs(5));
        let window = driver.flows[0].told.window;
        let needed = 250 * (wire + radio).as_millis();
        // The told rate is believed to 0.8 at least, the trim takes half of that at most (`bdp.rs`), and what
        // goes on arriving for the others takes a fifth of the air at most.
        prop_assert!(window * 10 >= needed * 3, "{} of {} bytes", window, needed);
        driver.idle(0, Duration::from_secs(4));
        driver.quieten();
        prop_assert_eq!(driver.mechanism.outstanding(), Bytes(0));
        prop_assert_eq!(driver.held_packets(), 0);
        prop_assert_eq!(driver.mechanism.next_timeout(), None);
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

    /// Around a handshake, a third party sends whatever it likes as one end of the connection: SYNs,
    /// SYN-ACKs, data, ACKs, FINs and resets with numbers that are not the connection's, before the SYN and
    /// between the SYN and its answer; and later SYNs and SYN-ACKs. Windows are told in the real scale (the
    /// driver checks every edge), and no copy of what was forged is sent.
    #[test]
    fn the_contract_holds_for_forged_handshakes(
        config in config(),
        few in prop::bool::weighted(0.2),
        queue in prop::option::of(1usize..60),
        plans in plans(),
        forgeries in forgeries(),
        down in any::<bool>(),
        steps in steps_with_losses(100),
    ) {
        let config = with_copies(config, few);
        drive_beside(&config, world(&config, queue, 0), &plans, &steps, &forgeries, down);
    }

    /// With ample space, what a connection meets is the same with the third party and without: verdicts,
    /// windows and the ACKs that are made up, each at its time. Without copies and nudges, because when these
    /// go depends on round trips, and of those what is forged may make one sample more or less.
    #[test]
    fn a_forged_handshake_changes_nothing_of_the_real_one(
        config in config(),
        plans in plans(),
        forgeries in forgeries(),
        down in any::<bool>(),
        steps in steps(100),
    ) {
        let ample = ample(&config);
        let ample = DsaSyncConfig {
            mode: if config.mode == Mode::FreezeNudge { Mode::Freeze } else { config.mode },
            // What is forged takes part in what a station's uplink carries, and in the downlink rate that a
            // new channel has to carry (Algorithm 5, line 2).
            uplink: UplinkConfig { mode: UplinkMode::Off, ..ample.uplink },
            capacity: CapacityResponse::Off,
            ..ample
        };
        let journals = [&forgeries[..], &[]].map(|forgeries| {
            let mut dsasync = agent(&ample);
            let world = World { no_queue: true, ..world(&ample, None, 0) };
            let mut driver = Driver::new(&mut dsasync, world, &plans).beside(forgeries, down);
            driver.writes_journal = true;
            driver.run(&steps, |_| true);
            driver.journal
        });
        for (flow, plan) in plans.iter().enumerate() {
            prop_assert_eq!(&journals[0][flow], &journals[1][flow], "flow {} ({:?})", flow, plan);
        }
    }

    /// With ample space, what a connection meets does not depend on connections of other stations. Left out
    /// because they share by design: the pooled shaper, the transmit queue that is kept short, the clamp
    /// (the channel is divided among stations), and space that is sized by the channel.
    #[test]
    fn connections_of_different_stations_share_nothing(
        config in config(),
        plans in plans(),
        steps in wild_steps(150),
        station in 0..support::steps::STATIONS,
    ) {
        let ample = ample(&config);
        let journals = [true, false].map(|others| {
            let mut dsasync = agent(&ample);
            let world = World { no_queue: true, ..world(&ample, None, 0) };
            let mut driver = Driver::new(&mut dsasync, world, &plans);
            driver.writes_journal = true;
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
    for _ in 0..400 {
        let (config, plans, steps) = worlds.new_tree(&mut runner).expect("a world").current();
        let config = with_copies(config, false);
        let mut dsasync = agent(&config);
        let mut driver = Driver::new(&mut dsasync, world(&config, Some(30), 0), &plans);
        driver.run(&steps, |_| true);
        driver.quieten();
        let metrics = driver.mechanism.metrics();
        total.holds += metrics.holds;
        total.copies_sent += metrics.copies_sent;
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
        ("copies sent", total.copies_sent),
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
        assert!(count >= 10, "{name}: {count} in 400 worlds: {counts:?}");
    }
}
