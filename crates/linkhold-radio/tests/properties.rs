//! What holds on any radio under any traffic.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::*;
use linkhold_core::link_event::{Cause, LinkEventKind, Scope};
use linkhold_core::packet::{Direction, StationId};
use linkhold_core::time::Instant;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::cell::{direction_of, station_of};
use linkhold_radio::dcf::{DcfConfig, Phy};
use linkhold_radio::grants::{Backoff, Proactive, Requesting};
use linkhold_radio::{
    AirConfig, AirTimeModel, ChannelConfig, FqCodelConfig, Frame, GrantsConfig, InSilence, Mac,
    PrimaryUserConfig, QueueConfig, QueueKind, ScriptedSwitch, SignalsConfig, Standard, StationSensing,
    SwitchPolicy, ToldConfig, Trace, TraceLink,
};
use proptest::prelude::*;

const STATIONS: u32 = 3;

fn any_mac() -> impl Strategy<Value = Mac> {
    let trace = prop::collection::vec(0u32..60, 2..40).prop_map(|steps| {
        let mut stamp = 1;
        let lines: String = steps
            .iter()
            .map(|step| {
                stamp += step;
                format!("{stamp}\n")
            })
            .collect();
        Arc::new(Trace::parse(lines.as_bytes()).expect("stamps ascend"))
    });
    prop_oneof![
        2 => Just(Mac::Shared),
        2 => Just(Mac::Duplex),
        1 => (trace.clone(), trace, 0u64..30).prop_map(|(down, up, delay)| Mac::Trace(TraceLink {
            down,
            up,
            silence_threshold: ms(30),
            detection_delay: ms(delay), random_start: false })),
        2 => (prop::sample::select(vec![0, 600, DcfConfig::NO_RTS]), 1u8..5, 1u8..5).prop_map(
            |(rts_threshold, short_retry_limit, long_retry_limit)| {
                let config = DcfConfig::new(Phy::Ieee80211a);
                Mac::Dcf(DcfConfig { rts_threshold, short_retry_limit, long_retry_limit, ..config })
            }
        ),
        3 => any_grants().prop_map(Mac::Grants),
    ]
}

/// A granted uplink of any standard, with losses, unsolicited grants and a retry limit that is soon reached.
fn any_grants() -> impl Strategy<Value = GrantsConfig> {
    let standard = prop::sample::select(vec![Standard::Ieee80216, Standard::Docsis, Standard::FiveG]);
    let proactive = prop::option::of((20u64..100, 1u32..5));
    (standard, any::<[bool; 4]>(), 1u32..5, 0.3..1.0, proactive, 0u32..9).prop_map(
        |(
            standard,
            [piggyback, paper, tell_silences, fast],
            codes,
            success,
            proactive,
            implementation_delay,
        )| {
            let grants = GrantsConfig::of(standard);
            let requesting = match grants.requesting {
                Requesting::Contention { .. } => Requesting::Contention {
                    codes,
                    subchannels: 1,
                    slots: 1,
                    backoff: if paper { Backoff::Paper } else { Backoff::Standard },
                    backoff_start: 0,
                    backoff_end: 3,
                },
                Requesting::Reserved { .. } => Requesting::Reserved { period: codes },
            };
            GrantsConfig {
                requesting,
                piggyback,
                tell_silences,
                implementation_delay,
                uplink_rate: fast.then(|| BitRate::from_mbps(20)),
                success: Fraction::clamped(success),
                t3: ms(30),
                max_tries: codes,
                proactive: proactive.map(|(bytes, period)| Proactive { bytes: Bytes(bytes), period }),
                ..grants
            }
        },
    )
}

fn any_queue() -> impl Strategy<Value = QueueConfig> {
    let fq_codel = FqCodelConfig { limit: 30, flows: 4, ..FqCodelConfig::default() };
    let kind = prop_oneof![
        2 => (1u32..40).prop_map(|limit| QueueKind::Fifo { limit }),
        1 => Just(QueueKind::FqCodel(fq_codel)),
    ];
    let in_silence = prop_oneof![3 => Just(InSilence::Queue), 1 => Just(InSilence::Drop)];
    (kind, in_silence).prop_map(|(kind, in_silence)| QueueConfig { kind, in_silence })
}

fn any_config() -> impl Strategy<Value = AirConfig> {
    let user = prop::option::of((1u64..80, 1u64..200, 0u64..15, 0u64..15)).prop_map(|user| {
        user.map(|(on, off, delay, end_delay)| PrimaryUserConfig {
            on_mean: ms(on),
            off_mean: ms(off),
            fixed: false,
            detection_delay: ms(delay),
            end_detection_delay: ms(end_delay),
        })
    });
    let rate = prop::sample::select(vec![6u64, 9, 12, 18, 24, 36, 48, 54]);
    let channels = prop::collection::vec((user, rate), 1..4);
    let air_time = prop_oneof![Just(AirTimeModel::PerByte), Just(AirTimeModel::Ieee80211a)];
    let schedule = || prop::option::of((20u64..200, 1u64..30, 0u64..100));
    let switches = prop::collection::vec((1u64..600, any::<prop::sample::Index>()), 0..4);
    let switching = (0u64..20, any::<bool>(), switches);
    ((any_mac(), air_time), channels, schedule(), schedule(), switching, any_queue(), any_queue(), 0u32..4)
        .prop_map(
            |(
                (mac, air_time),
                channels,
                network,
                own,
                (delay, leaves, switches),
                router,
                station_queue,
                retry_limit,
            )| {
                let mut config = config(mac, STATIONS);
                config.air_time =
                    if matches!(config.mac, Mac::Grants(_)) { AirTimeModel::PerByte } else { air_time };
                config.channels = channels
                    .into_iter()
                    .map(|(primary_user, mbps)| ChannelConfig {
                        phy_rate: BitRate::from_mbps(mbps),
                        primary_user,
                        ..channel()
                    })
                    .collect();
                config.sensing = network.map(|(period, duration, phase)| sensing(period, duration, phase));
                config.station_sensing = own
                    .map(|(period, duration, phase)| StationSensing {
                        station: StationId(1),
                        sensing: sensing(period, duration, phase),
                    })
                    .into_iter()
                    .collect();
                config.switching.delay = ms(delay);
                config.switching.policy =
                    if leaves { SwitchPolicy::OnPrimaryUser } else { SwitchPolicy::Scripted };
                config.switching.scripted = switches
                    .into_iter()
                    .map(|(when, to)| ScriptedSwitch {
                        at: at(when),
                        to_channel: to.index(config.channels.len()),
                    })
                    .collect();
                config.router = router;
                config.station_queue = station_queue;
                config.retry_limit = retry_limit;
                config
            },
        )
}

fn any_told() -> impl Strategy<Value = ToldConfig> {
    let spreads = (prop_oneof![Just(0), 1u64..60], prop_oneof![Just(0), 1u64..60]);
    (0u64..60, 0u64..60, spreads, 0.0f64..1.0, 0.0f64..600.0, 1u64..100).prop_map(
        |(late, end_late, (spread, end_spread), missed, false_per_minute, length)| ToldConfig {
            late: ms(late),
            end_late: ms(end_late),
            late_spread: ms(spread),
            end_late_spread: ms(end_spread),
            start_known: late % 2 == 0,
            length_known: end_late % 2 == 0,
            missed: Fraction::clamped(missed),
            false_per_minute,
            false_length: ms(length),
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// After so many microseconds, a frame.
    Put { wait: u64, station: u32, uplink: bool, flow: u32, len: u32, ecn: bool },
    /// A reclaim of one station, or of all.
    Reclaim { station: Option<u32> },
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let put = (0u64..4000, 0..STATIONS, any::<bool>(), 0u32..6, 40u32..1501, any::<bool>()).prop_map(
        |(wait, station, uplink, flow, len, ecn)| Step::Put { wait, station, uplink, flow, len, ecn },
    );
    let reclaim = prop::option::of(0..STATIONS).prop_map(|station| Step::Reclaim { station });
    prop::collection::vec(prop_oneof![30 => put, 1 => reclaim], 0..300)
}

/// Runs the steps and then a while on; answers the driver, what was put and what was reclaimed.
fn play(config: &AirConfig, seed: u64, steps: &[Step]) -> (Driver, Vec<Frame>, Vec<Frame>) {
    let mut driver = Driver::new(config.clone(), seed);
    let (mut put, mut reclaimed) = (Vec::new(), Vec::new());
    let mut now = Instant::ZERO;
    for step in steps {
        match *step {
            Step::Put { wait, station, uplink, flow, len, ecn } => {
                now += linkhold_core::time::Duration::from_micros(wait);
                let id = put.len() as u64;
                let frame = if uplink { up(id, station) } else { down(id, station) };
                let frame = Frame { len, flow_hash: station * 6 + flow, ecn_capable: ecn, ..frame };
                driver.put(now, frame);
                put.push(frame);
            }
            Step::Reclaim { station } => {
                let scope = station.map_or(Scope::Network, |id| Scope::Station(StationId(id)));
                let taken = driver.reclaim(scope);
                // A frame put back after an aborted transmission comes first, whatever its flow; each flow is
                // in order.
                let mut last = BTreeMap::new();
                assert!(
                    taken.iter().all(|frame| last.insert(frame.flow_hash, frame.packet) < Some(frame.packet))
                );
                assert!(taken.iter().all(|frame| {
                    direction_of(frame) == Direction::Downlink && scope.covers(station_of(frame))
                }));
                reclaimed.extend(taken);
            }
        }
    }
    driver.run(at(1500));
    (driver, put, reclaimed)
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::at_least(300))]

    #[test]
    fn every_frame_ends_exactly_once(config in any_config(), seed: u64, steps in any_steps()) {
        let (mut driver, put, reclaimed) = play(&config, seed, &steps);
        let mut ends = BTreeSet::new();
        let delivered = driver.delivered.iter().map(|(_, frame)| *frame);
        let dropped = driver.dropped.iter().map(|(_, frame, _)| *frame);
        for frame in delivered.chain(dropped).chain(reclaimed) {
            prop_assert!(ends.insert(frame.packet), "{frame:?} ended twice");
            prop_assert_eq!(put[frame.packet.0 as usize], frame);
        }
        prop_assert_eq!(ends.len() as u64 + driver.air.frames_inside(), put.len() as u64);
        let (packets, bytes) = driver.air.downlink_backlog();
        let rest = driver.reclaim(Scope::Network);
        prop_assert_eq!(rest.len(), packets as usize);
        prop_assert_eq!(rest.iter().map(|frame| u64::from(frame.len)).sum::<u64>(), bytes.0);
        for frame in rest {
            prop_assert!(ends.insert(frame.packet));
        }
        prop_assert_eq!(driver.air.downlink_backlog().0, 0);
    }

    #[test]
    fn each_flow_keeps_its_order(config in any_config(), seed: u64, steps in any_steps()) {
        let (driver, _, _) = play(&config, seed, &steps);
        let fifo = |queue: &QueueConfig| matches!(queue.kind, QueueKind::Fifo { .. });
        let mut last = BTreeMap::new();
        for (_, frame) in &driver.delivered {
            let downlink = direction_of(frame) == Direction::Downlink;
            let queue = if downlink { &config.router } else { &config.station_queue };
            // A FIFO keeps the order of a station, fq_codel that of a flow.
            let flow = if fifo(queue) { 0 } else { frame.flow_hash };
            let before = last.insert((downlink, station_of(frame), flow), frame.packet);
            prop_assert!(before < Some(frame.packet), "{before:?} then {:?}", frame.packet);
        }
    }

    #[test]
    fn nothing_is_delivered_in_a_silence(config in any_config(), seed: u64, steps in any_steps()) {
        let (mut driver, _, _) = play(&config, seed, &steps);
        let mut silences = Vec::new();
        driver.air.take_silences(&mut silences);
        driver.air.open_silences(at(1500), &mut silences);
        for (when, frame) in &driver.delivered {
            let broken = silences.iter().find(|silence| {
                let covers = silence.scope.covers(station_of(frame))
                    && (silence.cause != Cause::Fade || direction_of(frame) == Direction::Downlink);
                covers && silence.start < *when && *when < silence.end
            });
            prop_assert!(broken.is_none(), "{frame:?} at {when} in {broken:?}");
        }
    }

    #[test]
    fn the_radio_does_not_depend_on_traffic(config in any_config(), seed: u64, steps in any_steps()) {
        let (mut loaded, _, _) = play(&config, seed, &steps);
        let (mut idle, _, _) = play(&config, seed, &[]);
        // Grants are what a radio says of traffic.
        for driver in [&mut loaded, &mut idle] {
            driver.links.retain(|event| !matches!(
                event.kind,
                LinkEventKind::Grant { .. }
                    | LinkEventKind::GrantUnused { .. }
                    | LinkEventKind::FreezeStarted { cause: Cause::Grant, .. }
                    | LinkEventKind::FreezeEnded { cause: Cause::Grant, .. }
            ));
        }
        prop_assert_eq!(&loaded.links, &idle.links);
        prop_assert_eq!(loaded.air.accounting(at(1500)), idle.air.accounting(at(1500)));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        loaded.air.take_silences(&mut one);
        idle.air.take_silences(&mut other);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn what_is_told_changes_nothing_on_the_air(
        config in any_config(), told in any_told(), seed: u64, steps in any_steps(),
    ) {
        let radio = |signals: SignalsConfig| {
            let config = AirConfig { signals, ..config.clone() };
            let (mut driver, _, reclaimed) = play(&config, seed, &steps);
            let mut silences = Vec::new();
            driver.air.take_silences(&mut silences);
            driver.air.open_silences(at(1500), &mut silences);
            let told = driver.air.told().expect("no radio overhears by itself");
            let accounting = driver.air.accounting(at(1500));
            ((driver.delivered, driver.dropped, reclaimed, silences, accounting), driver.links, told)
        };
        let (truth, _, exact) = radio(SignalsConfig::default());
        let signals = SignalsConfig {
            sensing: told,
            station_sensing: vec![(StationId(1), told)],
            switching: told,
            gaps: told,
            users: vec![told; 2],
        };
        let (same, links, sum) = radio(signals);
        prop_assert_eq!(truth, same);
        prop_assert_eq!(exact.silences, sum.silences);
        prop_assert!(sum.told + sum.missed <= sum.silences);
        prop_assert!(links.is_sorted_by_key(|event| event.detected_at));
    }

    #[test]
    fn silences_do_not_depend_on_the_air_time(config in any_config(), seed: u64, steps in any_steps()) {
        // A granted uplink knows one model only.
        if matches!(config.mac, Mac::Grants(_)) {
            return Ok(());
        }
        let silences = |model| {
            let config = AirConfig { air_time: model, ..config.clone() };
            let (mut driver, _, _) = play(&config, seed, &steps);
            let mut silences = Vec::new();
            driver.air.take_silences(&mut silences);
            driver.air.open_silences(at(1500), &mut silences);
            let accounting = driver.air.accounting(at(1500));
            (silences, accounting.network_silent, accounting.usable, accounting.station_usable)
        };
        prop_assert_eq!(silences(AirTimeModel::PerByte), silences(AirTimeModel::Ieee80211a));
    }

    #[test]
    fn a_granted_uplink_comes_to_rest(
        grants in any_grants(),
        user in (1u64..80, 50u64..300, 0u64..15),
        quiet in prop::option::of((60u64..200, 1u64..30)),
        seed: u64,
        steps in any_steps(),
        ahead in prop::collection::vec((0u64..90, 0..STATIONS, 1u64..3000), 0..20),
    ) {
        let (on, off, delay) = user;
        let mut config = config(Mac::Grants(grants), STATIONS);
        config.channels[0].primary_user = Some(PrimaryUserConfig {
            on_mean: ms(on),
            off_mean: ms(off),
            detection_delay: ms(delay),
            end_detection_delay: ms(delay / 2),
            fixed: false,
        });
        config.station_sensing = quiet
            .map(|(period, duration)| StationSensing {
                station: StationId(1),
                sensing: sensing(period, duration, 0),
            })
            .into_iter()
            .collect();
        let (mut driver, put, reclaimed) = play(&config, seed, &steps);
        let mut now = at(1500);
        for (wait, station, bytes) in ahead {
            now += ms(wait);
            driver.ask(now, station, bytes);
        }
        driver.run(now + ms(10_000));
        prop_assert_eq!(driver.air.frames_inside(), 0, "nothing waits for a turn that never comes");
        prop_assert_eq!(driver.delivered.len() + driver.dropped.len() + reclaimed.len(), put.len());
        let uplink = driver.air.uplink().expect("it grants");
        prop_assert!(uplink.unused_bytes <= uplink.granted_bytes && uplink.requests >= uplink.collisions);
    }

    #[test]
    fn the_totals_are_the_union_of_the_listed_silences(config in any_config(), seed: u64) {
        let (mut driver, _, _) = play(&config, seed, &[]);
        let mut silences = Vec::new();
        driver.air.take_silences(&mut silences);
        driver.air.open_silences(at(1500), &mut silences);
        let accounting = driver.air.accounting(at(1500));
        for station in 0..STATIONS {
            let covers = |scope: Scope| scope.covers(StationId(station));
            let spans = silences.iter().filter(|s| covers(s.scope)).map(|s| (s.start, s.end)).collect();
            prop_assert_eq!(union(spans), accounting.station_silent[station as usize].as_nanos());
        }
        let spans = silences.iter().filter(|s| s.scope == Scope::Network).map(|s| (s.start, s.end)).collect();
        prop_assert_eq!(union(spans), accounting.network_silent.as_nanos());
    }
}

fn union(mut spans: Vec<(Instant, Instant)>) -> u64 {
    spans.sort_unstable();
    let (mut total, mut reached) = (0, Instant::ZERO);
    for (start, end) in spans {
        total += end.since(start.max(reached)).as_nanos();
        reached = reached.max(end);
    }
    total
}
