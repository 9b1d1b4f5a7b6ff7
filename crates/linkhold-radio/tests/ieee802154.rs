//! IEEE 802.15.4: an exchange to the microsecond, what a primary user does to it, and what holds under any
//! traffic.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::*;
use linkhold_core::link_event::{Cause, LinkEventKind, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Fraction;
use linkhold_radio::{
    AirConfig, AirConfigError, AirDrop, ExtendedAddress, Frame, HeardBy, Ieee802154Config, Mac, MacFrame,
    OverhearConfig, PowerConfig, PrimaryUserConfig, RadioId, SwitchPolicy, UserFrames,
};
use proptest::prelude::*;

const US: fn(u64) -> Duration = Duration::from_micros;
const BASE: RadioId = RadioId::BASE_STATION;
const STATION: RadioId = RadioId(1);

/// The paper's frames on radios that never wait by chance, lose nothing and take no time.
fn exact() -> Ieee802154Config {
    Ieee802154Config {
        min_be: 0,
        mpdu: 128,
        clock_tolerance: 0.0,
        processing_time: Duration::ZERO,
        frame_loss: Fraction::ZERO,
        ..Ieee802154Config::default()
    }
}

fn cell(mac: Ieee802154Config, stations: u32) -> AirConfig {
    config(Mac::Ieee802154(mac), stations)
}

/// 95 bytes of data behind 40 of headers: an MPDU of 128 octets, 4288 us on the air.
fn full(frame: Frame) -> Frame {
    Frame { len: 135, ..frame }
}

fn driver(mac: Ieee802154Config, stations: u32) -> Driver {
    let mut driver = Driver::new(cell(mac, stations), 1);
    assert!(driver.air.tell_transmissions());
    driver
}

fn always_on() -> PrimaryUserConfig {
    user(1000, 0)
}

fn user(on: u64, off: u64) -> PrimaryUserConfig {
    PrimaryUserConfig {
        on_mean: ms(on),
        off_mean: ms(off),
        fixed: false,
        detection_delay: Duration::ZERO,
        end_detection_delay: Duration::ZERO,
    }
}

fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1000
}

/// (us, packet) of every delivery.
fn delivered(driver: &Driver) -> Vec<(u64, u64)> {
    driver.delivered.iter().map(|(at, frame)| (micros(*at), frame.packet.0)).collect()
}

fn dropped(driver: &Driver) -> Vec<(u64, u64, AirDrop)> {
    driver.dropped.iter().map(|&(at, frame, why)| (micros(at), frame.packet.0, why)).collect()
}

/// (start, end, acknowledgment, received) of every transmission, us.
fn transmissions(driver: &Driver) -> Vec<(u64, u64, bool, bool)> {
    let told = driver.transmitted.iter();
    told.map(|(at, t)| (micros(t.since), micros(*at), t.packet.is_none(), t.received)).collect()
}

#[test]
fn an_exchange_takes_what_the_standard_adds_up() {
    let mut driver = driver(exact(), 1);
    driver.put(at(0), full(up(1, 0)));
    driver.put(at(0), full(up(2, 0)));
    driver.run(at(100));
    // CCA 128, turnaround 192, frame 4288; turnaround 192, acknowledgment 352; LIFS 640; and again.
    assert_eq!(delivered(&driver), [(4608, 1), (10_400, 2)]);
    assert_eq!(
        transmissions(&driver),
        [
            (320, 4608, false, true),
            (4800, 5152, true, true),
            (6112, 10_400, false, true),
            (10_592, 10_944, true, true)
        ]
    );
    let sequence = driver.transmitted.iter().map(|(_, told)| match told.mac {
        MacFrame::Ieee802154 { sequence } => sequence,
        MacFrame::Dcf(_) => panic!("{told:?}"),
    });
    let sequence: Vec<u8> = sequence.collect();
    assert_eq!(sequence, [0, 0, 1, 1], "an acknowledgment repeats its frame's number");
}

#[test]
fn without_acknowledgments_the_next_frame_waits_for_the_spacing_only() {
    let mut driver = driver(Ieee802154Config { acknowledged: false, ..exact() }, 1);
    driver.put(at(0), full(up(1, 0)));
    driver.put(at(0), full(up(2, 0)));
    driver.run(at(100));
    assert_eq!(delivered(&driver), [(4608, 1), (4608 + 640 + 4608, 2)]);
    assert_eq!(driver.transmitted.len(), 2);
}

#[test]
fn processing_comes_before_the_backoff_and_runs_beside_the_spacing() {
    let mut driver = driver(Ieee802154Config { processing_time: ms(20), ..exact() }, 1);
    driver.put(at(0), full(up(1, 0)));
    driver.put(at(0), full(up(2, 0)));
    driver.run(at(100));
    assert_eq!(delivered(&driver), [(24_608, 1), (25_152 + 24_608, 2)]);
}

#[test]
fn a_first_backoff_is_uniform_over_eight_units() {
    let mut driver = driver(Ieee802154Config { min_be: 3, ..exact() }, 1);
    let mut drawn = [0; 8];
    for id in 0..8000 {
        let put = at(20 * id);
        driver.put(put, full(up(id, 0)));
        driver.run(put + ms(20));
        let (when, _) = driver.delivered.pop().expect("each frame arrives");
        let backoff = micros(when) - micros(put) - 4608;
        assert!(backoff.is_multiple_of(320), "{backoff} us");
        drawn[(backoff / 320) as usize] += 1;
    }
    // A thousand each, give or take four standard deviations.
    assert!(drawn.iter().all(|count| (882..1118).contains(count)), "{drawn:?}");
}

#[test]
fn a_frame_that_is_never_acknowledged_is_sent_four_times() {
    let mut driver = driver(Ieee802154Config { frame_loss: Fraction::ONE, ..exact() }, 1);
    driver.put(at(0), full(up(1, 0)));
    driver.run(at(100));
    // Four times CCA, turnaround, frame and macAckWaitDuration.
    assert_eq!(dropped(&driver), [(4 * (4608 + 864), 1, AirDrop::RetryLimit)]);
    assert_eq!(driver.transmitted.len(), 4);
    let mut driver =
        self::driver(Ieee802154Config { frame_loss: Fraction::ONE, acknowledged: false, ..exact() }, 1);
    driver.put(at(0), full(up(1, 0)));
    driver.run(at(100));
    assert_eq!(dropped(&driver), [(4608, 1, AirDrop::Lost)]);
}

#[test]
fn a_frame_whose_acknowledgment_is_lost_is_handed_up_once_and_is_no_loss() {
    let mut driver = driver(Ieee802154Config { frame_loss: Fraction::clamped(0.5), ..exact() }, 1);
    for id in 0..400 {
        driver.put(at(100 * id), full(up(id, 0)));
    }
    driver.run(at(50_000));
    let repeated = driver.transmitted.iter().filter(|(_, told)| told.packet.is_some()).count();
    let read = driver.transmitted.iter().filter(|(_, told)| told.packet.is_some() && told.received).count();
    assert!(repeated > 600 && read > driver.delivered.len() + 50, "{repeated} sent, {read} read");
    let ids: BTreeSet<u64> = driver.delivered.iter().map(|(_, frame)| frame.packet.0).collect();
    assert_eq!(ids.len(), driver.delivered.len());
    assert_eq!(ids.len() + driver.dropped.len(), 400);
    assert_eq!(driver.air.frames_inside(), 0);
}

#[test]
fn two_that_start_together_lose_both_frames() {
    let mut driver = driver(exact(), 2);
    driver.put(at(0), full(up(1, 0)));
    driver.put(at(0), full(up(2, 1)));
    driver.run(at(100));
    // Without a random backoff they meet again each time.
    assert_eq!(
        dropped(&driver),
        [(4 * (4608 + 864), 1, AirDrop::RetryLimit), (4 * (4608 + 864), 2, AirDrop::RetryLimit)]
    );
}

#[test]
fn a_cca_sees_what_is_on_the_air_but_not_who_is_turning_to_send() {
    // The other's CCA begins so many us after the first's; sent 320 us after the first's began.
    for (later, collides) in [(1, true), (191, true), (193, false), (4607, false)] {
        let mut driver = driver(exact(), 2);
        driver.put(at(0), full(up(1, 0)));
        driver.put(Instant::ZERO + US(later), full(up(2, 1)));
        driver.run(Instant::ZERO + US(5000));
        assert_eq!(driver.delivered.is_empty(), collides, "{later} us later");
    }
    // Between a frame and its acknowledgment the medium is idle for 192 us, which is room for a CCA of 128:
    // whoever looks then sends into the acknowledgment.
    let mut driver = driver(exact(), 2);
    driver.put(at(0), full(up(1, 0)));
    driver.put(Instant::ZERO + US(4620), full(up(2, 1)));
    driver.run(Instant::ZERO + US(5200));
    assert_eq!(transmissions(&driver), [(320, 4608, false, true), (4800, 5152, true, false)]);
}

#[test]
fn who_hears_the_primary_user_waits_and_who_does_not_sends_in_vain() {
    let run = |heard_by, frame: Frame| {
        let mut config = cell(Ieee802154Config { user_heard_by: heard_by, ..exact() }, 1);
        config.channels[0].primary_user = Some(always_on());
        let mut driver = Driver::new(config, 1);
        driver.air.tell_transmissions();
        driver.put(at(0), full(frame));
        driver.run(at(500));
        assert!(driver.delivered.is_empty());
        (driver.dropped[0].2, driver.transmitted.len())
    };
    let (waits, in_vain) = ((AirDrop::ChannelBusy, 0), (AirDrop::RetryLimit, 4));
    for (heard_by, uplink, downlink) in [
        (HeardBy::All, waits, waits),
        (HeardBy::Stations, waits, in_vain),
        (HeardBy::BaseStation, in_vain, waits),
    ] {
        assert_eq!(run(heard_by, up(1, 0)), uplink, "{heard_by:?}, uplink");
        assert_eq!(run(heard_by, down(1, 0)), downlink, "{heard_by:?}, downlink");
    }
}

#[test]
fn what_stations_send_and_receive_is_counted() {
    let mut config = cell(exact(), 2);
    config.power = Some(PowerConfig { transmit: 1.0, receive: 1.0, idle: 1.0 });
    let mut driver = Driver::new(config, 1);
    driver.put(at(0), full(up(1, 0)));
    driver.put(at(100), full(down(2, 1)));
    driver.run(at(200));
    assert_eq!(delivered(&driver).len(), 2);
    // An MPDU of 128 octets behind 6 of the PHY, and an acknowledgment of 5 behind as many, at 32 us each.
    let (data, ack) = (US(134 * 32), US(11 * 32));
    let times = driver.air.station_times();
    assert_eq!((times[0].transmit, times[0].receive), (data, ack));
    assert_eq!((times[1].transmit, times[1].receive), (ack, data));
}

#[test]
fn a_busy_medium_is_looked_at_five_times() {
    let mut config = cell(Ieee802154Config { after_busy: US(192), ..exact() }, 1);
    config.channels[0].primary_user = Some(always_on());
    let mut driver = Driver::new(config, 1);
    driver.put(at(0), full(up(1, 0)));
    driver.run(at(500));
    let [(when, 1, AirDrop::ChannelBusy)] = dropped(&driver)[..] else { panic!("{:?}", driver.dropped) };
    // Five CCAs of 128 us, each but the last followed by 192 us and a backoff of whole units: at most 1, 3, 7
    // and 15.
    let backoffs = when - 5 * 128 - 4 * 192;
    assert!(backoffs.is_multiple_of(320) && backoffs <= 26 * 320, "{backoffs} us");
}

#[test]
fn a_frame_that_does_not_fit_is_refused_and_the_next_is_sent() {
    let mut driver = driver(exact(), 1);
    driver.put(at(0), Frame { len: 136, ..up(1, 0) });
    // IPv6: 20 bytes more of headers, which are compressed away.
    driver.put(at(0), Frame { len: 155, headers: 60, ..up(2, 0) });
    driver.run(at(100));
    assert_eq!(dropped(&driver), [(0, 1, AirDrop::TooLong)]);
    assert_eq!(delivered(&driver), [(4608, 2)]);
}

#[test]
fn each_radio_that_hears_the_user_tells_of_it_for_itself() {
    let overhearing = OverhearConfig {
        missed: Fraction::ZERO,
        delay: ms(7),
        false_alarms: 0.0,
        ..OverhearConfig::default()
    };
    let run = |heard_by| {
        let mac = Ieee802154Config { user_heard_by: heard_by, overhearing, ..exact() };
        let mut config = cell(mac, 2);
        config.channels[0].primary_user = Some(always_on());
        let mut driver = Driver::new(config, 1);
        driver.run(at(5000));
        assert!(driver.links.iter().all(|event| matches!(event.kind, LinkEventKind::ChannelSwitched { .. })));
        let told = driver.overheard.iter().map(|&(by, event)| {
            let LinkEventKind::FreezeStarted { scope, cause: Cause::PrimaryUser, expected: None } =
                event.kind
            else {
                panic!("{event:?}")
            };
            // One frame of 5 ms, understood 7 ms after its end.
            assert_eq!((event.detected_at, event.effective_at), (at(12), Some(at(5))));
            (by.0, scope)
        });
        told.collect::<Vec<_>>()
    };
    let stations = [(1, Scope::Station(StationId(0))), (2, Scope::Station(StationId(1)))];
    assert_eq!(run(HeardBy::All), [[(0, Scope::Network)].as_slice(), &stations].concat());
    assert_eq!(run(HeardBy::Stations), stations);
    assert_eq!(run(HeardBy::BaseStation), [(0, Scope::Network)]);
}

#[test]
fn a_user_with_an_address_that_nobody_listens_for_takes_the_medium_and_is_not_detected() {
    let other = ExtendedAddress([2, 0, 0, 1, 0, 0, 0, 2]);
    let run = |user_address, address| {
        let overhearing = OverhearConfig { address, false_alarms: 0.0, ..OverhearConfig::default() };
        let mut config = cell(Ieee802154Config { user_address, overhearing, ..exact() }, 1);
        config.channels[0].primary_user = Some(always_on());
        let mut driver = Driver::new(config, 1);
        driver.put(at(0), full(up(1, 0)));
        driver.run(at(5000));
        assert_eq!(driver.dropped[0].2, AirDrop::ChannelBusy);
        driver.overheard.len()
    };
    let user = ExtendedAddress::PRIMARY_USER;
    assert_eq!([run(user, other), run(other, user)], [0, 0]);
    assert_eq!([run(user, user), run(other, other)], [2, 2], "base station and station, once each");
}

#[test]
fn the_users_frames_fill_the_bursts_that_the_air_has() {
    let mut config = cell(exact(), 1);
    config.channels[0].primary_user = Some(user(300, 200));
    for seed in 1..4 {
        let mut driver = Driver::new(config.clone(), seed);
        driver.run(at(60_000));
        let mut bursts = Vec::new();
        driver.air.take_silences(&mut bursts);
        driver.air.open_silences(at(60_000), &mut bursts);
        assert!(bursts.len() > 60, "{} bursts", bursts.len());
        let mut expected = Vec::new();
        for burst in &bursts {
            expected.extend((1..).map(|n| burst.start + ms(5) * n).take_while(|end| *end <= burst.end));
        }
        let mut frames = UserFrames::new(&config, seed).expect("the cell has a user");
        let (mut ends, mut mpdu) = (Vec::new(), Vec::new());
        while let Some(end) = frames.next_by(at(60_000), &mut mpdu) {
            assert_eq!(usize::from(mpdu[2]), ends.len() % 256, "sequence numbers count on");
            ends.push(end);
        }
        assert_eq!(ends, expected, "seed {seed}");
    }
    config.channels[0].primary_user = None;
    assert!(UserFrames::new(&config, 1).is_none());
}

#[test]
fn what_the_radios_do_not_do_is_refused() {
    let refused = |change: &dyn Fn(&mut AirConfig)| {
        let mut config = cell(exact(), 1);
        change(&mut config);
        linkhold_radio::Air::new(config, 1).expect_err("it is refused")
    };
    let not_with = AirConfigError::NotWithIeee802154;
    assert_eq!(refused(&|config| config.sensing = Some(sensing(500, 25, 0))), not_with);
    assert_eq!(refused(&|config| config.channels.push(channel())), not_with);
    assert_eq!(refused(&|config| config.switching.policy = SwitchPolicy::OnPrimaryUser), not_with);
    let range = |mac: Ieee802154Config| refused(&|config| config.mac = Mac::Ieee802154(mac));
    assert_eq!(range(Ieee802154Config { min_be: 6, ..exact() }), AirConfigError::Ieee802154Range("min_be"));
    let overhearing = OverhearConfig { idle_time: Duration::ZERO, ..OverhearConfig::default() };
    assert_eq!(
        range(Ieee802154Config { overhearing, ..exact() }),
        AirConfigError::Ieee802154Range("overhearing.idle_time")
    );
    // A frame of 17 octets and its spacing take 928 us.
    let overhearing = OverhearConfig { frame_interval: US(927), ..OverhearConfig::default() };
    assert_eq!(
        range(Ieee802154Config { overhearing, ..exact() }),
        AirConfigError::Ieee802154Range("overhearing.frame_interval")
    );
    let stations = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 1]);
    let overhearing = OverhearConfig { address: stations, ..OverhearConfig::default() };
    assert_eq!(
        range(Ieee802154Config { overhearing, ..exact() }),
        AirConfigError::Ieee802154Range("overhearing.address")
    );
    assert_eq!(
        range(Ieee802154Config { user_address: stations, ..exact() }),
        AirConfigError::Ieee802154Range("user_address")
    );
}

const STATIONS: u32 = 3;

fn any_heard_by() -> impl Strategy<Value = HeardBy> {
    prop_oneof![Just(HeardBy::All), Just(HeardBy::Stations), Just(HeardBy::BaseStation)]
}

fn any_config() -> impl Strategy<Value = AirConfig> {
    let mac = (0u8..4, 3u8..6, 0u8..5, 0u8..4, any::<bool>(), 0u64..8000, 0.0f64..0.4, any_heard_by());
    let overhear = (1u64..20, 0.0f64..1.0, 0u64..40, 1u64..300, 0.0f64..3.0);
    let bursts = prop::option::of((1u64..80, 1u64..200));
    (mac, overhear, bursts, 1u32..60).prop_map(
        |(
            (min_be, max_be, max_csma_backoffs, max_frame_retries, acknowledged, processing, loss, heard_by),
            (interval, missed, delay, idle, false_alarms),
            primary_user,
            limit,
        )| {
            let mac = Ieee802154Config {
                min_be,
                max_be,
                max_csma_backoffs,
                max_frame_retries,
                acknowledged,
                processing_time: US(processing),
                frame_loss: Fraction::clamped(loss),
                user_heard_by: heard_by,
                overhearing: OverhearConfig {
                    frame_interval: ms(interval),
                    missed: Fraction::clamped(missed),
                    delay: ms(delay),
                    idle_time: ms(idle),
                    false_alarms,
                    ..OverhearConfig::default()
                },
                ..exact()
            };
            let mut config = cell(mac, STATIONS);
            config.channels[0].primary_user = primary_user.map(|(on, off)| user(on, off));
            config.router = linkhold_radio::QueueConfig::fifo(limit);
            config.station_queue = linkhold_radio::QueueConfig::fifo(limit);
            config
        },
    )
}

/// (us to wait, station, uplink, length)
fn any_steps() -> impl Strategy<Value = Vec<(u64, u32, bool, u32)>> {
    prop::collection::vec((0u64..20_000, 0..STATIONS, any::<bool>(), 40u32..136), 0..150)
}

fn play(config: &AirConfig, seed: u64, steps: &[(u64, u32, bool, u32)]) -> Driver {
    let mut driver = Driver::new(config.clone(), seed);
    driver.air.tell_transmissions();
    let mut now = Instant::ZERO;
    for (id, &(wait, station, uplink, len)) in (0..).zip(steps) {
        now += US(wait);
        let frame = if uplink { up(id, station) } else { down(id, station) };
        driver.put(now, Frame { len, ..frame });
    }
    driver.run(at(10_000));
    driver
}

proptest! {
    #[test]
    fn every_frame_ends_exactly_once_and_in_order(config in any_config(), seed: u64, steps in any_steps()) {
        let driver = play(&config, seed, &steps);
        let mut ends = BTreeSet::new();
        let delivered = driver.delivered.iter().map(|(_, frame)| frame);
        for frame in delivered.chain(driver.dropped.iter().map(|(_, frame, _)| frame)) {
            prop_assert!(ends.insert(frame.packet), "{frame:?} ended twice");
        }
        // A saturated cell may not be through with all of them yet.
        prop_assert_eq!(ends.len() as u64 + driver.air.frames_inside(), steps.len() as u64);
        let mut last = BTreeMap::new();
        for (_, frame) in &driver.delivered {
            let before = last.insert((frame.from, frame.to), frame.packet);
            prop_assert!(before < Some(frame.packet), "{before:?} then {:?}", frame.packet);
        }
    }

    #[test]
    fn a_transmission_that_is_received_had_the_air_for_itself(
        config in any_config(), seed: u64, steps in any_steps(),
    ) {
        let driver = play(&config, seed, &steps);
        let told = &driver.transmitted;
        for (end, one) in told.iter().filter(|(_, one)| one.received) {
            let over = told.iter().filter(|(at, other)| other.since < *end && one.since < *at).count();
            prop_assert!(over == 1, "{one:?} until {end} among {over}");
        }
        // Each delivery is the first time that its frame was received.
        let received: BTreeSet<_> =
            told.iter().filter(|(_, one)| one.received).filter_map(|(_, one)| one.packet).collect();
        let delivered: BTreeSet<_> = driver.delivered.iter().map(|(_, frame)| frame.packet).collect();
        prop_assert_eq!(received, delivered);
    }

    #[test]
    fn nothing_is_sent_or_read_while_all_hear_the_user(config in any_config(), seed: u64, steps in any_steps()) {
        let mut config = config;
        if let Mac::Ieee802154(mac) = &mut config.mac {
            mac.user_heard_by = HeardBy::All;
        }
        let mut driver = play(&config, seed, &steps);
        let mut silences = Vec::new();
        driver.air.take_silences(&mut silences);
        driver.air.open_silences(at(10_000), &mut silences);
        for (end, told) in &driver.transmitted {
            let met = silences.iter().any(|silence| silence.start < *end && told.since < silence.end);
            prop_assert!(!(met && told.received), "{told:?} until {end}");
            // What was decided before the burst is sent: a frame 192 us later, an acknowledgment likewise.
            let into = silences
                .iter()
                .any(|silence| silence.start + US(192) < told.since && told.since < silence.end);
            prop_assert!(!into, "{told:?} in {silences:?}");
        }
    }

    #[test]
    fn the_radio_does_not_depend_on_traffic(config in any_config(), seed: u64, steps in any_steps()) {
        let (mut loaded, mut idle) = (play(&config, seed, &steps), play(&config, seed, &[]));
        prop_assert_eq!(&loaded.links, &idle.links);
        prop_assert_eq!(&loaded.overheard, &idle.overheard);
        prop_assert_eq!(loaded.air.accounting(at(10_000)), idle.air.accounting(at(10_000)));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        loaded.air.take_silences(&mut one);
        idle.air.take_silences(&mut other);
        prop_assert_eq!(one, other);
    }
}

#[test]
fn a_receiver_that_owes_an_acknowledgment_does_not_start_a_frame() {
    let mut driver = driver(exact(), 1);
    driver.put(at(0), full(up(1, 0)));
    // The base station's CCA falls between the frame and the acknowledgment that it owes.
    driver.put(Instant::ZERO + US(4620), full(down(2, 0)));
    driver.run(at(100));
    let first: Vec<_> =
        driver.transmitted.iter().take(2).map(|(_, told)| (told.from, told.received)).collect();
    assert_eq!(first, [(STATION, true), (BASE, true)]);
    assert_eq!(driver.delivered.len(), 2);
}
