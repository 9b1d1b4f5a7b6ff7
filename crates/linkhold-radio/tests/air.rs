//! The air as a dialogue: what goes in, what comes out, when.

mod common;

use std::sync::Arc;

use common::*;
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::{
    AirConfig, AirConfigError, AirDrop, AirTimeModel, ChannelConfig, FqCodelConfig, Frame, InSilence, Mac,
    PrimaryUserConfig, QueueConfig, QueueKind, ScriptedSwitch, Silence, StationSensing, SwitchPolicy,
    Switching, Trace, TraceLink,
};

const NETWORK: Scope = Scope::Network;

fn trace(text: &str) -> Arc<Trace> {
    Arc::new(Trace::parse(text.as_bytes()).expect("a good trace"))
}

fn started(cause: Cause, expected: Option<Duration>) -> LinkEventKind {
    LinkEventKind::FreezeStarted { scope: NETWORK, cause, expected }
}

fn ended(cause: Cause) -> LinkEventKind {
    LinkEventKind::FreezeEnded { scope: NETWORK, cause }
}

/// Link events after the opening ones, as (ms detected, ms effective, kind).
fn changes(driver: &Driver) -> Vec<(u64, u64, LinkEventKind)> {
    let millis = |at: Instant| at.as_nanos() / 1_000_000;
    driver
        .links
        .iter()
        .filter(|event| event.detected_at > Instant::ZERO)
        .map(|event| {
            (millis(event.detected_at), millis(event.effective_at.expect("the radio knows when")), event.kind)
        })
        .collect()
}

fn busy_user(on: u64, off: u64, delay: u64) -> PrimaryUserConfig {
    PrimaryUserConfig {
        on_mean: ms(on),
        off_mean: ms(off),
        fixed: false,
        detection_delay: ms(delay),
        end_detection_delay: ms(delay),
    }
}

#[test]
fn the_first_event_tells_the_channel_and_the_schedules() {
    let mut config = config(Mac::Shared, 2);
    config.sensing = Some(sensing(500, 25, 100));
    config.station_sensing = vec![StationSensing { station: StationId(1), sensing: sensing(300, 10, 50) }];
    let mut driver = Driver::new(config, 1);
    assert_eq!(driver.air.next_event(), Some(Instant::ZERO));
    driver.run(Instant::ZERO);
    let schedule = |scope, period, duration, next| LinkEventKind::SensingSchedule {
        scope,
        period: ms(period),
        duration: ms(duration),
        next: at(next),
    };
    let expected = [
        LinkEventKind::ChannelSwitched {
            capacity: BitRate::from_mbps(24),
            efficiency: Fraction::clamped(0.5),
        },
        schedule(NETWORK, 500, 25, 100),
        schedule(Scope::Station(StationId(1)), 300, 10, 50),
    ];
    assert_eq!(driver.links, expected.map(|kind| LinkEvent::at(Instant::ZERO, kind)));
}

#[test]
fn the_shared_medium_serves_contenders_in_turns() {
    let mut driver = Driver::new(config(Mac::Shared, 2), 1);
    for id in 0..3 {
        driver.put(at(0), down(id, 0));
        driver.put(at(0), up(10 + id, 0));
        driver.put(at(0), up(20 + id, 1));
    }
    driver.run(at(100));
    let order: Vec<u64> = driver.delivered.iter().map(|(_, frame)| frame.packet.0).collect();
    assert_eq!(order, [0, 10, 20, 1, 11, 21, 2, 12, 22]);
    assert_eq!(driver.delivered.last().map(|last| last.0), Some(at(9)));
}

#[test]
fn a_duplex_pair_sends_both_ways_at_once() {
    let mut driver = Driver::new(config(Mac::Duplex, 2), 1);
    for id in 0..2 {
        driver.put(at(0), down(id, 0));
        driver.put(at(0), up(10 + id, 0));
        driver.put(at(0), up(20 + id, 1));
    }
    driver.run(at(100));
    assert_eq!(driver.deliveries(), [(1.0, 0), (1.0, 10), (2.0, 1), (2.0, 20), (3.0, 11), (4.0, 21)]);
}

#[test]
fn a_frame_that_cannot_end_before_a_scheduled_silence_waits_for_its_end() {
    let mut config = config(Mac::Shared, 1);
    config.sensing = Some(sensing(100, 10, 50));
    let mut driver = Driver::new(config, 1);
    driver.put(Instant::from_nanos(48_500_000), down(0, 0));
    driver.put(at(49), down(1, 0));
    driver.run(at(200));
    // The first ends at 49.5 ms; the second would end at 50.5 ms.
    assert_eq!(driver.deliveries(), [(49.5, 0), (61.0, 1)]);
    let quiet = |start| {
        [
            (start, start, started(Cause::Sensing, Some(ms(10)))),
            (start + 10, start + 10, ended(Cause::Sensing)),
        ]
    };
    assert_eq!(changes(&driver), [quiet(50), quiet(150)].concat());
}

#[test]
fn a_frame_that_ends_as_the_silence_starts_is_delivered() {
    let mut config = config(Mac::Shared, 1);
    config.sensing = Some(sensing(100, 10, 50));
    let mut driver = Driver::new(config, 1);
    driver.put(at(49), down(0, 0));
    driver.run(at(60));
    assert_eq!(driver.deliveries(), [(50.0, 0)]);
}

#[test]
fn a_silent_station_stops_only_its_own_frames() {
    for kind in [QueueKind::Fifo { limit: 100 }, QueueKind::FqCodel(FqCodelConfig::default())] {
        let mut config = config(Mac::Shared, 2);
        config.router.kind = kind;
        config.station_sensing =
            vec![StationSensing { station: StationId(0), sensing: sensing(1000, 50, 10) }];
        let mut driver = Driver::new(config, 1);
        for (id, station) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            driver.put(at(20), down(id, station));
        }
        driver.put(at(20), up(4, 0));
        driver.put(at(20), up(5, 1));
        assert!(driver.air.is_silent(StationId(0)) && !driver.air.is_silent(StationId(1)));
        driver.run(at(100));
        assert_eq!(
            driver.deliveries(),
            [(21.0, 2), (22.0, 5), (23.0, 3), (61.0, 4), (62.0, 0), (63.0, 1)],
            "{kind:?}"
        );
    }
}

#[test]
fn a_queue_that_drops_in_silences_drops_what_arrives_in_one_and_keeps_what_was_there() {
    let mut config = config(Mac::Shared, 2);
    config.router.in_silence = InSilence::Drop;
    config.station_sensing = vec![StationSensing { station: StationId(0), sensing: sensing(1000, 50, 10) }];
    config.sensing = Some(sensing(1000, 50, 500));
    let mut driver = Driver::new(config, 1);
    for (id, station) in [(0, 1), (1, 0)] {
        driver.put(Instant::from_nanos(8_500_000), down(id, station));
    }
    driver.put(at(20), down(2, 0));
    driver.put(at(20), down(3, 1));
    driver.put(at(20), up(4, 0));
    driver.put(at(520), down(5, 1));
    assert_eq!(driver.air.room(), (0, Bytes::ZERO));
    driver.run(at(600));
    let dropped: Vec<_> = driver.dropped.iter().map(|(_, frame, reason)| (frame.packet.0, *reason)).collect();
    assert_eq!(dropped, [(2, AirDrop::Silence), (5, AirDrop::Silence)]);
    // Frame 1 would not have ended before the station's silence; the uplink queue does not drop.
    assert_eq!(driver.deliveries(), [(9.5, 0), (21.0, 3), (61.0, 4), (62.0, 1)]);
    assert_eq!(driver.air.room(), (1000, Bytes(u64::MAX)));
}

#[test]
fn a_queue_that_is_flushed_in_silences_loses_what_was_there_too() {
    let mut config = config(Mac::Shared, 1);
    config.router.in_silence = InSilence::Flush;
    config.sensing = Some(sensing(1000, 50, 10));
    let mut driver = Driver::new(config, 1);
    for id in 0..12 {
        driver.put(at(0), down(id, 0));
    }
    driver.put(at(0), up(20, 0));
    driver.put(at(30), down(12, 0));
    driver.put(at(100), down(13, 0));
    driver.run(at(200));
    let delivered: Vec<_> = driver.deliveries().iter().map(|(_, id)| *id).collect();
    let dropped: Vec<_> = driver.dropped.iter().map(|(_, frame, reason)| (frame.packet.0, *reason)).collect();
    assert!(
        dropped.len() >= 2 && dropped.iter().all(|(_, reason)| *reason == AirDrop::Silence),
        "{dropped:?}"
    );
    assert!(
        dropped.iter().any(|(id, _)| *id == 11) && dropped.iter().any(|(id, _)| *id == 12),
        "{dropped:?}"
    );
    assert!(!dropped.iter().any(|(id, _)| *id == 20 || *id == 13), "{dropped:?}");
    assert_eq!(dropped.len() + delivered.len(), 15);
}

#[test]
fn a_scripted_switch_silences_the_radio_and_changes_its_rate() {
    let mut config = config(Mac::Shared, 1);
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(12), ..channel() });
    config.switching.delay = ms(20);
    config.switching.scripted = vec![ScriptedSwitch { at: at(10), to_channel: 1 }];
    let mut driver = Driver::new(config, 1);
    for id in 0..12 {
        driver.put(at(0), down(id, 0));
    }
    driver.run(at(100));
    let switched = LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(12),
        efficiency: Fraction::clamped(0.5),
    };
    assert_eq!(
        changes(&driver),
        [
            (10, 10, started(Cause::ChannelSwitch, Some(ms(20)))),
            (30, 30, switched),
            (30, 30, ended(Cause::ChannelSwitch)),
        ]
    );
    // Ten frames of 1 ms, then two of 2 ms.
    assert_eq!(driver.deliveries()[9..], [(10.0, 9), (32.0, 10), (34.0, 11)]);
    // 10 ms at 12 Mbit/s and 70 ms at 6 Mbit/s.
    let accounting = driver.air.accounting(at(100));
    assert_eq!(accounting.capacity_bits, 120_000 + 420_000);
    assert_eq!(accounting.network_silent, ms(20));
}

#[test]
fn a_rate_that_nobody_tells_stays_untold_at_the_start_and_after_a_switch() {
    let mut config = config(Mac::Shared, 1);
    config.rate_told = false;
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(12), ..channel() });
    config.switching.delay = ms(20);
    config.switching.scripted = vec![ScriptedSwitch { at: at(10), to_channel: 1 }];
    let mut driver = Driver::new(config, 1);
    driver.run(at(100));
    let rates = changes(&driver);
    assert_eq!(rates.len(), 2, "the silence begins and ends: {rates:?}");
    assert!(!rates.iter().any(|(.., kind)| matches!(kind, LinkEventKind::ChannelSwitched { .. })));
}

#[test]
fn a_switch_without_delay_only_changes_the_rate() {
    let mut config = config(Mac::Shared, 1);
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(12), ..channel() });
    config.switching.scripted = vec![ScriptedSwitch { at: at(10), to_channel: 1 }];
    let mut driver = Driver::new(config, 1);
    driver.run(at(100));
    assert!(matches!(changes(&driver)[..], [(10, 10, LinkEventKind::ChannelSwitched { .. })]));
    assert_eq!(driver.air.accounting(at(100)).network_silent, Duration::ZERO);
}

#[test]
fn a_new_switch_while_retuning_moves_the_end() {
    let mut config = config(Mac::Shared, 1);
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(12), ..channel() });
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(6), ..channel() });
    config.switching.delay = ms(20);
    config.switching.scripted =
        vec![ScriptedSwitch { at: at(20), to_channel: 2 }, ScriptedSwitch { at: at(10), to_channel: 1 }];
    let mut driver = Driver::new(config, 1);
    driver.run(at(100));
    let switched = LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(6),
        efficiency: Fraction::clamped(0.5),
    };
    assert_eq!(
        changes(&driver),
        [
            (10, 10, started(Cause::ChannelSwitch, Some(ms(20)))),
            (20, 20, started(Cause::ChannelSwitch, Some(ms(20)))),
            (40, 40, switched),
            (40, 40, ended(Cause::ChannelSwitch)),
        ]
    );
    let mut silences = Vec::new();
    driver.air.take_silences(&mut silences);
    assert_eq!(
        silences,
        [Silence { start: at(10), end: at(40), scope: NETWORK, cause: Cause::ChannelSwitch }]
    );
}

/// Times (ms) of the primary user's (start, end), from the told events.
fn bursts(driver: &Driver) -> Vec<(Instant, Instant, Instant)> {
    let mut bursts = Vec::new();
    let mut open = None;
    for event in &driver.links {
        match event.kind {
            LinkEventKind::FreezeStarted { cause: Cause::PrimaryUser, .. } => {
                assert_eq!(
                    open.replace((event.effective_at.expect("the radio knows when"), event.detected_at)),
                    None
                );
            }
            LinkEventKind::FreezeEnded { cause: Cause::PrimaryUser, .. } => {
                let (began, told) = open.take().expect("it began");
                bursts.push((began, told, event.detected_at));
            }
            _ => {}
        }
    }
    bursts
}

#[test]
fn a_detected_primary_user_aborts_the_frame_on_the_air_and_it_is_sent_first_afterwards() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(busy_user(50, 50, 0));
    let mut driver = Driver::new(config, 3);
    for id in 0..900 {
        driver.put(at(0), down(id, 0));
    }
    driver.run(at(2000));
    // In order, none lost, none ended in a burst, and the channel busy all the time between bursts.
    let ids: Vec<u64> = driver.deliveries().iter().map(|(_, id)| *id).collect();
    assert_eq!(ids, (0..900).collect::<Vec<_>>());
    assert!(driver.dropped.is_empty());
    let bursts = bursts(&driver);
    assert!(bursts.len() > 10);
    for (began, told, ended) in &bursts {
        assert_eq!(began, told);
        assert!(!driver.delivered.iter().any(|(at, _)| began < at && at <= ended));
        if ended < &driver.delivered[899].0 {
            assert!(driver.delivered.iter().any(|(at, _)| *at == *ended + ms(1)));
        }
    }
}

#[test]
fn frames_collide_until_a_primary_user_is_detected_and_are_retried_to_the_limit() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(busy_user(100, 100, 20));
    config.retry_limit = 7;
    config.router = QueueConfig::fifo(10_000);
    let mut driver = Driver::new(config, 3);
    for id in 0..10_000 {
        driver.put(at(0), down(id, 0));
    }
    driver.run(at(10_000));
    let bursts: Vec<_> = bursts(&driver).into_iter().filter(|burst| burst.1 > Instant::ZERO).collect();
    assert!(bursts.len() >= 10, "{bursts:?}");
    for (began, told, ended) in &bursts {
        assert_eq!(*told, *began + ms(20));
        assert!(!driver.delivered.iter().any(|(at, _)| began < at && at <= ended));
    }
    // A frame is sent 8 times of 1 ms, so 20 ms of collisions lose two frames (the third is aborted).
    let retry = driver.dropped.iter().all(|(_, _, reason)| *reason == AirDrop::RetryLimit);
    assert!(retry && !driver.dropped.is_empty());
    for (began, told, _) in &bursts {
        let lost = driver.dropped.iter().filter(|(at, ..)| began < at && at <= told).count();
        assert_eq!(lost, 2);
    }
}

#[test]
fn the_policy_leaves_an_occupied_channel_for_the_best_free_one() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(busy_user(300, 300, 0));
    // The best is always taken; of the two free ones the third has more capacity.
    config.channels.push(ChannelConfig {
        phy_rate: BitRate::from_mbps(54),
        primary_user: Some(PrimaryUserConfig { off_mean: ms(0), ..busy_user(300, 0, 0) }),
        ..channel()
    });
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(6), ..channel() });
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(12), ..channel() });
    config.switching = Switching { delay: ms(10), policy: SwitchPolicy::OnPrimaryUser, scripted: vec![] };
    // A seed whose first channel is free at time 0.
    let seed = (0..).find(|&seed| {
        let mut driver = Driver::new(config.clone(), seed);
        driver.run(at(0));
        driver.links.len() == 1
    });
    let mut driver = Driver::new(config, seed.unwrap());
    driver.run(at(20_000));
    let changes = changes(&driver);
    let begins = changes[0].0;
    let switched = LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(12),
        efficiency: Fraction::clamped(0.5),
    };
    assert_eq!(changes[0].2, started(Cause::ChannelSwitch, Some(ms(10))));
    assert_eq!((changes[1].0, changes[1].2), (begins + 10, switched));
    assert_eq!((changes[2].0, changes[2].2), (begins + 10, ended(Cause::ChannelSwitch)));
    // It stays: the new channel has no primary user.
    assert_eq!(changes.len(), 3);
}

#[test]
fn a_user_that_is_noticed_and_left_is_told_since_its_burst_began() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(busy_user(300, 300, 20));
    config.channels.push(ChannelConfig { phy_rate: BitRate::from_mbps(12), ..channel() });
    config.switching = Switching { delay: ms(10), policy: SwitchPolicy::OnPrimaryUser, scripted: vec![] };
    let seed = (0..).find(|&seed| {
        let mut driver = Driver::new(config.clone(), seed);
        driver.run(at(0));
        driver.links.len() == 1
    });
    let mut driver = Driver::new(config, seed.unwrap());
    driver.run(at(20_000));
    // A burst of less than 20 ms is over before it is noticed. The first that is not makes the radio leave
    // for good.
    let (begins, since, kind) = changes(&driver)[0];
    assert_eq!((since, kind), (begins - 20, started(Cause::ChannelSwitch, Some(ms(10)))));
    let told = driver.air.told().expect("the radio has silences");
    assert_eq!((told.told, told.silences - told.missed), (1, 1), "{told:?}");
}

#[test]
fn the_policy_waits_while_every_channel_is_occupied() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(PrimaryUserConfig { off_mean: ms(0), ..busy_user(100, 0, 0) });
    config.channels.push(ChannelConfig { primary_user: Some(busy_user(100, 100, 0)), ..channel() });
    config.switching = Switching { delay: ms(10), policy: SwitchPolicy::OnPrimaryUser, scripted: vec![] };
    for seed in 0..20 {
        let mut driver = Driver::new(config.clone(), seed);
        driver.run(at(5_000));
        // Every freeze of one cause ends before it starts again, and silence is never broken by an order of
        // events in which the last open freeze ends before the next starts.
        let mut open = Vec::new();
        for event in &driver.links {
            match event.kind {
                LinkEventKind::FreezeStarted { cause, .. } => {
                    assert!(!open.contains(&cause));
                    open.push(cause);
                }
                LinkEventKind::FreezeEnded { cause, .. } => {
                    assert!(open.contains(&cause));
                    open.retain(|other| *other != cause);
                }
                _ => {}
            }
        }
        let first =
            driver.links.iter().find(|event| matches!(event.kind, LinkEventKind::FreezeStarted { .. }));
        assert_eq!(first.map(|event| event.detected_at), Some(Instant::ZERO));
    }
}

#[test]
fn a_delivery_opportunity_carries_several_small_frames_and_part_of_a_large_one() {
    let mac = Mac::Trace(TraceLink {
        down: trace("10\n20\n30\n30\n40\n"),
        up: trace("5\n40\n"),
        silence_threshold: ms(1000),
        detection_delay: ms(0),
        random_start: false,
    });
    let mut driver = Driver::new(config(mac, 1), 1);
    driver.run(at(1));
    for (id, len) in [(0, 500), (1, 500), (2, 1000), (3, 1500), (4, 1500)] {
        driver.put(at(1), Frame { len, ..down(id, 0) });
    }
    driver.put(at(5), up(9, 0));
    driver.run(at(100));
    // 10 ms: 0, 1 and half of 2; 20 ms: rest of 2 and 1000 of 3; 30 ms (two): rest of 3, 4. The uplink frame
    // came at 5 ms, too late for that opportunity.
    assert_eq!(driver.deliveries(), [(10.0, 0), (10.0, 1), (20.0, 2), (30.0, 3), (30.0, 4), (40.0, 9)]);
}

#[test]
fn a_trace_wraps_around() {
    let mac = Mac::Trace(TraceLink {
        down: trace("3\n10\n"),
        up: trace("10\n"),
        silence_threshold: ms(1000),
        detection_delay: ms(0),
        random_start: false,
    });
    let mut driver = Driver::new(config(mac, 1), 1);
    for id in 0..5 {
        driver.put(at(0), down(id, 0));
    }
    driver.put(at(1_000_004), down(9, 0));
    driver.run(at(1_000_100));
    assert_eq!(driver.deliveries(), [(3.0, 0), (10.0, 1), (13.0, 2), (20.0, 3), (23.0, 4), (1_000_010.0, 9)]);
}

#[test]
fn a_gap_above_the_threshold_is_told_after_the_detection_delay() {
    let mac = |delay| {
        Mac::Trace(TraceLink {
            down: trace("10\n60\n160\n170\n400\n"),
            up: trace("10\n"),
            silence_threshold: ms(100),
            detection_delay: ms(delay),
            random_start: false,
        })
    };
    // Only 170..400 is longer than 100 ms.
    for delay in [0, 30] {
        let mut driver = Driver::new(config(mac(delay), 1), 1);
        driver.run(at(809));
        let accounting = driver.air.accounting(at(809));
        assert_eq!(accounting.network_silent, ms(460));
        assert_eq!(accounting.capacity_bits, 10 * 12_000);
        assert!((accounting.silent_fraction() - 460.0 / 809.0).abs() < 1e-12);
        driver.run(at(900));
        let expected: Vec<_> = [(170, false), (400, true), (570, false), (800, true)]
            .map(|(at, end)| {
                (at + delay, at, if end { ended(Cause::Fade) } else { started(Cause::Fade, None) })
            })
            .into();
        assert_eq!(changes(&driver), expected);
    }
}

#[test]
fn a_gap_in_the_downlink_does_not_stop_the_uplink() {
    let mac = Mac::Trace(TraceLink {
        down: trace("10\n400\n"),
        up: trace("1\n2\n3\n4\n5\n"),
        silence_threshold: ms(100),
        detection_delay: ms(0),
        random_start: false,
    });
    let mut driver = Driver::new(config(mac, 1), 1);
    driver.put(at(50), down(0, 0));
    driver.put(at(50), up(1, 0));
    assert!(driver.air.is_silent(StationId(0)));
    driver.run(at(500));
    assert_eq!(driver.deliveries(), [(51.0, 1), (400.0, 0)]);
}

#[test]
fn sensing_laid_over_a_trace_loses_the_opportunities_in_it() {
    let stamps: String = (1..=100).map(|stamp| format!("{stamp}\n")).collect();
    let mac = Mac::Trace(TraceLink {
        down: trace(&stamps),
        up: trace("100\n"),
        silence_threshold: ms(50),
        detection_delay: ms(0),
        random_start: false,
    });
    let mut config = config(mac, 1);
    config.sensing = Some(sensing(100, 10, 20));
    let mut driver = Driver::new(config, 1);
    for id in 0..60 {
        driver.put(at(0), down(id, 0));
    }
    driver.run(at(100));
    let times: Vec<u64> = driver.delivered.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    // The opportunities on both edges count: 20 ms as the silence starts, 30 ms as it ends.
    assert_eq!(times, (1..=20).chain(30..=69).collect::<Vec<_>>());
    assert_eq!(driver.air.accounting(at(100)).capacity_bits, 91 * 12_000);
}

#[test]
fn reclaim_takes_what_waits_and_leaves_what_is_on_the_air() {
    for kind in [QueueKind::Fifo { limit: 100 }, QueueKind::FqCodel(FqCodelConfig::default())] {
        let mut config = config(Mac::Shared, 2);
        config.router.kind = kind;
        let mut driver = Driver::new(config, 1);
        for (id, station) in [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)] {
            driver.put(at(1), down(id, station));
        }
        driver.put(at(1), up(9, 0));
        assert_eq!(driver.air.downlink_backlog(), (4, Bytes(6000)));
        let taken = |frames: Vec<Frame>| frames.iter().map(|frame| frame.packet.0).collect::<Vec<_>>();
        assert_eq!(taken(driver.reclaim(Scope::Station(StationId(1)))), [1, 3]);
        assert_eq!(taken(driver.reclaim(Scope::Network)), [2, 4]);
        driver.run(at(50));
        assert_eq!(driver.deliveries(), [(2.0, 0), (3.0, 9)]);
        assert_eq!(driver.air.frames_inside(), 0);
    }
}

#[test]
fn an_aborted_frame_is_reclaimed_first() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(busy_user(50, 50, 0));
    // A seed whose channel is free at time 0.
    let (mut driver, onset) = (0..)
        .find_map(|seed| {
            let mut driver = Driver::new(config.clone(), seed);
            driver.run(at(0));
            let onset = driver.air.next_event().unwrap();
            (driver.links.len() == 1 && onset > at(2)).then_some((driver, onset))
        })
        .unwrap();
    let start = onset - Duration::from_micros(500);
    for id in 0..3 {
        driver.put(start, down(id, 0));
    }
    driver.run(onset);
    assert_eq!(driver.air.downlink_backlog(), (3, Bytes(4500)));
    let ids: Vec<u64> = driver.reclaim(NETWORK).iter().map(|frame| frame.packet.0).collect();
    assert_eq!((ids, driver.air.frames_inside()), (vec![0, 1, 2], 0));
}

#[test]
fn silent_time_is_a_union_and_capacity_is_what_is_left() {
    let mut config = config(Mac::Shared, 2);
    config.sensing = Some(sensing(100, 10, 0));
    config.station_sensing = vec![StationSensing { station: StationId(1), sensing: sensing(100, 20, 5) }];
    let mut driver = Driver::new(config, 1);
    driver.run(at(1000));
    let accounting = driver.air.accounting(at(1000));
    assert_eq!(accounting.network_silent, ms(100));
    assert_eq!(accounting.station_silent, [ms(100), ms(250)]);
    // 12 Mbit/s for 900 and 750 ms.
    assert_eq!(accounting.capacity_bits, 10_800_000);
    assert_eq!(accounting.station_capacity_bits, [10_800_000, 9_000_000]);
    assert_eq!(accounting.capacity_mean(), BitRate(10_800_000));
    assert_eq!(accounting.station_silent_fraction(1), 0.25);
    // In the middle of a silence, and as a difference.
    let middle = driver.air.accounting(at(1000) + ms(5));
    assert_eq!(middle.network_silent, ms(105));
    assert_eq!(middle.since(&accounting).network_silent, ms(5));
    assert_eq!(middle.since(&accounting).capacity_bits, 0);
    // One channel.
    assert_eq!(
        (accounting.usable, accounting.station_usable),
        (vec![ms(900)], vec![vec![ms(900)], vec![ms(750)]])
    );
    assert_eq!(middle.since(&driver.air.accounting(at(1000))).usable, [ms(0)]);
    let mut silences = Vec::new();
    driver.air.open_silences(at(1005), &mut silences);
    let open = Silence { start: at(1000), end: at(1005), scope: NETWORK, cause: Cause::Sensing };
    assert_eq!(silences, [open]);
    silences.clear();
    driver.air.take_silences(&mut silences);
    assert_eq!(silences.len(), 20);
    driver.air.take_silences(&mut silences);
    assert_eq!(silences.len(), 20);
}

#[test]
fn the_silent_share_of_a_primary_user_converges_to_its_duty_cycle() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(busy_user(200, 800, 0));
    let mut driver = Driver::new(config, 11);
    driver.run(at(5_000_000));
    let accounting = driver.air.accounting(at(5_000_000));
    assert!((accounting.silent_fraction() - 0.2).abs() < 0.01, "{}", accounting.silent_fraction());
    let expected = 12e6 * (1.0 - accounting.silent_fraction()) * 5000.0;
    assert!((accounting.capacity_bits as f64 / expected - 1.0).abs() < 1e-9);
}

#[test]
fn undetected_collisions_count_as_silence() {
    let with = |delay, end_delay| {
        let mut config = config(Mac::Shared, 1);
        let user = busy_user(200, 800, delay);
        config.channels[0].primary_user =
            Some(PrimaryUserConfig { end_detection_delay: ms(end_delay), ..user });
        let mut driver = Driver::new(config, 11);
        driver.run(at(100_000));
        driver.air.accounting(at(100_000)).network_silent
    };
    assert_eq!(with(50, 0), with(0, 0));
    assert!(with(0, 20) > with(0, 0));
}

#[test]
fn usable_time_is_counted_by_channel() {
    let mut config = config(Mac::Shared, 1);
    config.channels.push(channel());
    config.switching.delay = ms(20);
    config.switching.scripted = vec![ScriptedSwitch { at: at(300), to_channel: 1 }];
    let mut driver = Driver::new(config, 1);
    driver.run(at(1000));
    assert_eq!(driver.air.accounting(at(1000)).usable, [ms(300), ms(680)]);
}

/// 24 Mbit/s, every frame an exchange of IEEE 802.11a.
fn ieee80211a(mac: Mac, stations: u32) -> AirConfig {
    AirConfig { air_time: AirTimeModel::Ieee80211a, ..config(mac, stations) }
}

#[test]
fn a_saturated_802_11a_station_gets_what_its_exchanges_leave() {
    for (mac, seed) in [(Mac::Shared, 1), (Mac::Duplex, 2)] {
        let mut driver = Driver::new(ieee80211a(mac, 1), seed);
        for id in 0..1000 {
            driver.put(at(0), up(id, 0));
        }
        driver.run(at(10_000));
        let end = driver.delivered.last().map(|last| last.0.as_secs_f64()).expect("a frame");
        // 1500 x 8 bits each 681.5 us, the backoff being 67.5 us on average.
        let rate = 1000.0 * 12_000.0 / end;
        assert!((rate / (12_000.0 / 681.5e-6) - 1.0).abs() < 0.01, "{rate} bit/s");
    }
}

#[test]
fn an_802_11a_radio_tells_the_effective_rate_of_full_size_packets() {
    let mut driver = Driver::new(ieee80211a(Mac::Shared, 1), 1);
    driver.run(at(0));
    let [LinkEvent { kind: LinkEventKind::ChannelSwitched { capacity, efficiency }, .. }] = driver.links[..]
    else {
        panic!("{:?}", driver.links)
    };
    assert_eq!(capacity.mul_f64(efficiency.get()), BitRate(17_608_217));
    assert_eq!(driver.air.accounting(at(1000)).capacity_bits, 17_608_217);
}

#[test]
fn an_802_11a_frame_that_cannot_end_before_a_scheduled_silence_waits_for_its_end() {
    let mut config = ieee80211a(Mac::Shared, 1);
    config.sensing = Some(sensing(100, 10, 50));
    let mut driver = Driver::new(config, 1);
    // The shortest exchange takes 614 us, so one that starts 600 us before the silence never ends in time.
    driver.put(Instant::from_nanos(49_400_000), down(0, 0));
    driver.run(at(100));
    let (when, _) = driver.deliveries()[0];
    assert!((60.614..=60.749).contains(&when), "{when} ms");
}

#[test]
fn a_channel_without_capacity_holds_its_frames() {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].efficiency = Fraction::ZERO;
    config.channels.push(channel());
    config.switching.scripted = vec![ScriptedSwitch { at: at(10), to_channel: 1 }];
    let mut driver = Driver::new(config, 1);
    driver.put(at(1), down(0, 0));
    driver.run(at(100));
    assert_eq!(driver.deliveries(), [(11.0, 0)]);
}

#[test]
fn a_configuration_that_names_what_is_not_there_is_refused() {
    let refused = |change: fn(&mut AirConfig)| {
        let mut config = config(Mac::Shared, 2);
        change(&mut config);
        linkhold_radio::Air::new(config, 1).err()
    };
    assert_eq!(refused(|config| config.stations = 0), Some(AirConfigError::NoStation));
    assert_eq!(refused(|config| config.initial_channel = 3), Some(AirConfigError::NoChannel(3)));
    assert_eq!(
        refused(|config| config.switching.scripted = vec![ScriptedSwitch { at: at(1), to_channel: 1 }]),
        Some(AirConfigError::NoChannel(1))
    );
    assert_eq!(
        refused(|config| {
            config.station_sensing =
                vec![StationSensing { station: StationId(2), sensing: sensing(100, 10, 0) }];
        }),
        Some(AirConfigError::NoSuchStation(2))
    );
    assert_eq!(
        refused(|config| {
            config.station_sensing =
                vec![StationSensing { station: StationId(1), sensing: sensing(100, 10, 0) }; 2];
        }),
        Some(AirConfigError::TwoSchedules(1))
    );
    assert_eq!(
        refused(|config| {
            config.air_time = AirTimeModel::Ieee80211a;
            config.channels[0].phy_rate = BitRate::from_mbps(11);
        }),
        Some(AirConfigError::NoSuchRate(BitRate::from_mbps(11)))
    );
    assert_eq!(refused(|config| config.router = QueueConfig::fifo(1)), None);
}
