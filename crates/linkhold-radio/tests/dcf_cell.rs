//! `Mac::Dcf`: silences, channels, primary users, noise and energy of a cell whose radios contend.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::*;
use linkhold_core::link_event::Scope;
use linkhold_core::packet::{PacketId, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_radio::dcf::{DcfConfig, Phy};
use linkhold_radio::{
    AirConfig, AirConfigError, AirDrop, Columns, Curve, DcfFrame, DcfKind, Mac, MacFrame, PhyRate,
    PowerConfig, PrimaryUserConfig, ScriptedSwitch, SnrConfig, SnrReport, SnrSource, SnrTrace,
    StationSensing,
};

fn dcf(stations: u32) -> AirConfig {
    config(Mac::Dcf(DcfConfig::new(Phy::Ieee80211a)), stations)
}

fn us(count: u64) -> Instant {
    Instant::from_nanos(1000 * count)
}

#[test]
fn a_frame_on_an_idle_medium_arrives_without_backoff() {
    let mut driver = Driver::new(dcf(2), 1);
    driver.put(at(1), down(0, 0));
    driver.put(at(3), up(1, 1));
    driver.run(at(10));
    // 20 + 4 x ceil((22 + 8 x 1536) / 96) us; it is handed up before its ACK.
    let arrived: Vec<_> = driver.delivered.iter().map(|(at, frame)| (*at, frame.packet.0)).collect();
    assert_eq!(arrived, [(us(1536), 0), (us(3536), 1)]);
    assert_eq!(driver.air.frames_inside(), 0);
}

/// A saturated downlink: 614 us and a mean backoff of 67.5 us a frame.
#[test]
fn a_single_sender_gets_what_the_capacity_says() {
    let mut driver = Driver::new(dcf(1), 1);
    for id in 0..1000 {
        driver.put(at(0), down(id, 0));
    }
    driver.run(at(2000));
    let last = driver.delivered.last().expect("all arrive").0.as_secs_f64();
    let capacity = driver.air.accounting(at(1000)).capacity_mean();
    assert_eq!(capacity, BitRate(17_608_217));
    let got = 12_000.0 * driver.delivered.len() as f64 / last;
    assert!((got / capacity.as_bps() as f64 - 1.0).abs() < 0.01, "{got}");
}

/// Everybody saturated: each contender, the base station among them, has the same share.
#[test]
fn the_base_station_is_one_contender_of_many() {
    let mut config = dcf(4);
    config.router = linkhold_radio::QueueConfig::fifo(10_000);
    let mut driver = Driver::new(config, 3);
    for id in 0..1000 {
        driver.put(at(0), down(4 * id, (id % 4) as u32));
        for station in 0..4 {
            driver.put(at(0), up(1_000_000 + id, station));
        }
    }
    driver.run(at(1500));
    let count = |from: u32| driver.delivered.iter().filter(|(_, frame)| frame.from.0 == from).count() as f64;
    let total = driver.delivered.len() as f64;
    for radio in 0..5 {
        assert!((count(radio) / total - 0.2).abs() < 0.03, "radio {radio} has {} of {total}", count(radio));
    }
}

#[test]
fn nothing_starts_that_would_not_end_by_a_quiet_period() {
    let mut config = dcf(2);
    config.sensing = Some(sensing(100, 10, 50));
    let mut driver = Driver::new(config, 1);
    // An exchange takes 580 us.
    driver.put(us(49_420), down(0, 0));
    driver.run(at(55));
    assert_eq!(driver.delivered.len(), 1);
    driver.put(us(149_421), down(1, 0));
    driver.put(us(149_500), up(2, 1));
    driver.run(at(155));
    assert_eq!(driver.delivered.len(), 1);
    assert_eq!(driver.air.downlink_backlog().0, 1);
    assert_eq!(driver.reclaim(Scope::Network).len(), 1);
    driver.run(at(170));
    assert_eq!(driver.delivered.last().map(|(_, frame)| frame.packet.0), Some(2));
}

/// A station that senses holds up nobody else's downlink.
#[test]
fn a_stations_own_quiet_period_is_its_own() {
    let mut config = dcf(2);
    config.station_sensing = vec![StationSensing { station: StationId(0), sensing: sensing(100, 20, 10) }];
    let mut driver = Driver::new(config, 1);
    driver.put(us(9_600), down(0, 0));
    driver.put(us(9_600), down(1, 1));
    driver.put(us(9_700), up(2, 0));
    driver.run(at(29));
    assert_eq!(driver.deliveries().iter().map(|(_, id)| *id).collect::<Vec<_>>(), [1]);
    driver.run(at(40));
    let mut rest: Vec<u64> = driver.deliveries().iter().skip(1).map(|(_, id)| *id).collect();
    rest.sort_unstable();
    assert_eq!(rest, [0, 2]);
}

fn user(detection_delay: u64) -> PrimaryUserConfig {
    PrimaryUserConfig {
        on_mean: ms(50),
        off_mean: ms(50),
        fixed: true,
        detection_delay: ms(detection_delay),
        end_detection_delay: ms(0),
    }
}

#[test]
fn a_detected_user_stops_all_and_an_undetected_one_collides() {
    for delay in [0, 40] {
        let mut config = dcf(3);
        config.channels[0].primary_user = Some(user(delay));
        let mut driver = Driver::new(config, 1);
        for id in 0..900 {
            driver.put(at(0), down(id, (id % 3) as u32));
        }
        driver.run(at(3000));
        let mut silences = Vec::new();
        driver.air.take_silences(&mut silences);
        assert!(silences.len() > 5);
        for silence in &silences {
            assert!(driver.delivered.iter().all(|(at, _)| *at <= silence.start || *at > silence.end));
        }
        // In 40 ms a frame has its seven attempts, in none it has no failed one.
        let lost = driver.dropped.iter().filter(|(_, _, why)| *why == AirDrop::RetryLimit).count();
        assert_eq!(lost > 0, delay > 0, "{lost} lost");
        assert_eq!(lost, driver.dropped.len());
        assert_eq!(driver.delivered.len() + lost, 900);
        let order: Vec<u64> = driver.deliveries().iter().map(|(_, id)| *id).collect();
        assert!(order.is_sorted());
    }
}

#[test]
fn the_rate_is_that_of_the_channel() {
    let mut config = dcf(1);
    config.channels.push(linkhold_radio::ChannelConfig { phy_rate: BitRate::from_mbps(6), ..channel() });
    config.switching.delay = ms(5);
    config.switching.scripted = vec![ScriptedSwitch { at: at(10), to_channel: 1 }];
    let mut driver = Driver::new(config, 1);
    driver.put(at(1), down(0, 0));
    driver.put(at(20), down(1, 0));
    driver.run(at(30));
    let arrived: Vec<_> = driver.delivered.iter().map(|(at, _)| *at).collect();
    assert_eq!(arrived, [us(1536), us(20_000 + 2072)]);
}

#[test]
fn a_station_sends_data_and_acks_and_receives_both() {
    let mut config = dcf(2);
    config.power = Some(PowerConfig { transmit: 1.0, receive: 1.0, idle: 1.0 });
    let mut driver = Driver::new(config, 1);
    driver.put(at(1), down(0, 0));
    driver.put(at(3), up(1, 1));
    driver.run(at(10));
    let times = driver.air.station_times();
    let (data, ack) = (Duration::from_micros(536), Duration::from_micros(28));
    assert_eq!((times[0].receive, times[0].transmit), (data, ack));
    assert_eq!((times[1].receive, times[1].transmit), (ack, data));
}

/// Noise spoils an attempt with the chance of its curve, and a frame with that of all its attempts.
#[test]
fn noise_costs_attempts_and_then_the_frame() {
    let columns = Columns { time: "t", snr: "s", max_gap: Duration::from_secs(1000) };
    let trace = Arc::new(SnrTrace::parse("t,s\n0,3.5\n100,3.5\n", columns).expect("it is a trace"));
    let failure = Curve::of(PhyRate::Cck5).packet_error_rate(3.5, 8 * 1536);
    assert!((0.3..0.7).contains(&failure), "{failure}: a rate that a wrong one would miss");
    for limit in [1, 3] {
        let mut config = dcf(1);
        config.mac = Mac::Dcf(DcfConfig { short_retry_limit: limit, ..DcfConfig::new(Phy::Ieee80211a) });
        config.snr = Some(SnrConfig {
            source: SnrSource::Trace { trace: trace.clone(), random_start: false },
            rates: vec![PhyRate::Cck5],
            report: SnrReport { interval: ms(100), delay: ms(0), error_db: 0.0 },
        });
        let mut driver = Driver::new(config, 4);
        for id in 0..10_000 {
            driver.put(at(4 * id), if id % 2 == 0 { up(id, 0) } else { down(id, 0) });
        }
        driver.run(at(41_000));
        let share = driver.delivered.len() as f64 / 10_000.0;
        let expected = 1.0 - failure.powi(limit.into());
        assert!((share - expected).abs() < 0.02, "{limit}: {share} and {expected}");
        assert!(driver.dropped.iter().all(|(_, _, reason)| *reason == AirDrop::Noise));
        assert_eq!(driver.delivered.len() + driver.dropped.len(), 10_000);
    }
}

/// A frame goes down every 4 ms, the first after `first` us, over noise. A primary user comes every 100 ms,
/// the first time after 50, and is noticed 40 ms late. Also answers what was given up in bursts before they
/// were noticed: when the burst began, the frame, and why.
fn given_up_in_bursts(mac: DcfConfig, first: u64) -> (Driver, Vec<(Instant, PacketId, AirDrop)>) {
    let columns = Columns { time: "t", snr: "s", max_gap: Duration::from_secs(1000) };
    let trace = Arc::new(SnrTrace::parse("t,s\n0,3.5\n100,3.5\n", columns).expect("it is a trace"));
    let mut config = dcf(1);
    config.channels[0].primary_user = Some(user(40));
    config.mac = Mac::Dcf(mac);
    config.snr = Some(SnrConfig {
        source: SnrSource::Trace { trace, random_start: false },
        rates: vec![PhyRate::Cck5],
        report: SnrReport { interval: ms(100), delay: ms(0), error_db: 0.0 },
    });
    let mut driver = Driver::new(config, 1);
    assert!(driver.air.tell_transmissions());
    for id in 0..5000 {
        driver.put(us(first + 4000 * id), down(id, 0));
    }
    driver.run(at(20_000));
    let mut silences = Vec::new();
    driver.air.take_silences(&mut silences);
    // Who gives up has waited less than 0.2 ms for an answer to the last attempt.
    let patience = Duration::from_micros(200);
    let burst_of = |time: Instant| {
        let mut starts = silences.iter().map(|silence| silence.start);
        starts.find(|start| *start + patience <= time && time <= *start + ms(40))
    };
    let given_up = driver
        .dropped
        .iter()
        .filter(|(_, _, reason)| *reason != AirDrop::QueueFull)
        .filter_map(|(time, frame, reason)| Some((burst_of(*time)?, frame.packet, *reason)))
        .collect();
    (driver, given_up)
}

/// What is said of a frame that is given up is said of its last attempt.
#[test]
fn a_frame_whose_last_attempt_meets_a_primary_user_is_none_that_noise_took() {
    let mac = DcfConfig { short_retry_limit: 3, ..DcfConfig::new(Phy::Ieee80211a) };
    let (_, within) = given_up_in_bursts(mac, 0);
    assert!(within.len() > 50, "{} frames were given up in bursts", within.len());
    assert!(within.iter().all(|(_, _, reason)| *reason == AirDrop::RetryLimit), "{within:?}");
}

/// Noise took the data behind the first RTS, and a primary user the RTSs that followed.
#[test]
fn a_frame_whose_last_rts_meets_a_primary_user_is_none_that_noise_took() {
    let mac = DcfConfig { rts_threshold: 0, short_retry_limit: 3, ..DcfConfig::new(Phy::Ieee80211a) };
    // The data of a frame that came 0.75 ms before a burst ends before it, and the next RTS ends in it.
    let (driver, within) = given_up_in_bursts(mac, 1250);
    let last_data: BTreeMap<PacketId, Instant> =
        driver.transmitted.iter().filter_map(|(ended, told)| Some((told.packet?, *ended))).collect();
    let met_noise = within
        .iter()
        .filter(|(burst, packet, _)| last_data.get(packet).is_some_and(|ended| ended < burst))
        .count();
    assert!(met_noise > 20, "of {} frames noise took only the data of {met_noise}", within.len());
    assert!(within.iter().all(|(_, _, reason)| *reason == AirDrop::RetryLimit), "{within:?}");
}

#[test]
fn what_a_dcf_cannot_be_is_refused() {
    let refused = |change: &dyn Fn(&mut AirConfig, &mut DcfConfig)| {
        let (mut config, mut mac) = (dcf(1), DcfConfig::new(Phy::Ieee80211a));
        change(&mut config, &mut mac);
        config.mac = Mac::Dcf(mac);
        linkhold_radio::Air::new(config, 1).err()
    };
    assert_eq!(refused(&|_, _| {}), None);
    assert_eq!(
        refused(&|_, mac| mac.phy = Phy::Ieee80211b),
        Some(AirConfigError::NoSuchDcfRate(BitRate::from_mbps(24), Phy::Ieee80211b))
    );
    assert_eq!(
        refused(&|_, mac| mac.short_retry_limit = 0),
        Some(AirConfigError::DcfRange("short_retry_limit"))
    );
    assert_eq!(
        refused(&|_, mac| mac.long_retry_limit = 0),
        Some(AirConfigError::DcfRange("long_retry_limit"))
    );
    for threshold in [f64::NAN, -1.0, f64::INFINITY] {
        assert_eq!(
            refused(&|_, mac| mac.capture_threshold = threshold),
            Some(AirConfigError::DcfRange("capture_threshold"))
        );
    }
}

/// A frame of 1500 bytes takes 536 us, SIFS 16 us, the ACK 28 us.
#[test]
fn each_transmission_is_told_once_it_has_ended() {
    let run = |tells: bool| {
        let mut driver = Driver::new(dcf(1), 1);
        assert!(!tells || driver.air.tell_transmissions());
        driver.put(at(1), down(0, 0));
        driver.put(at(3), up(1, 0));
        driver.run(at(10));
        driver
    };
    let driver = run(true);
    let told: Vec<_> = (driver.transmitted.iter())
        .map(|(at, told)| {
            let MacFrame::Dcf(dcf) = told.mac else { panic!("{told:?}") };
            let DcfFrame { kind, sequence, retry, cut, rate, .. } = dcf;
            assert!(told.received && !cut && !retry && rate == BitRate::from_mbps(24), "{told:?}");
            let to = told.to.map(|to| to.0);
            (*at, told.since, kind, told.from.0, to, told.packet.map(|packet| packet.0), sequence)
        })
        .collect();
    let [data, ack] = [DcfKind::Data, DcfKind::Ack];
    let expected = [
        (us(1536), us(1000), data, 0, Some(1), Some(0), 0),
        (us(1580), us(1552), ack, 1, Some(0), None, 0),
        (us(3536), us(3000), data, 1, Some(0), Some(1), 0),
        (us(3580), us(3552), ack, 0, Some(1), None, 0),
    ];
    assert_eq!(told, expected);
    let silent = run(false);
    assert!(silent.transmitted.is_empty());
    assert_eq!(silent.delivered, driver.delivered);
}

/// A user comes while a frame is on the air, and cuts it off. The frame goes again after the user has left,
/// under its number, and says that it is a repetition.
#[test]
fn a_frame_that_was_cut_off_keeps_its_number() {
    let mut config = dcf(1);
    config.router = linkhold_radio::QueueConfig::fifo(100_000);
    config.channels[0].primary_user = Some(PrimaryUserConfig {
        on_mean: ms(5),
        off_mean: ms(20),
        fixed: false,
        detection_delay: Duration::ZERO,
        end_detection_delay: Duration::ZERO,
    });
    let mut driver = Driver::new(config, 1);
    assert!(driver.air.tell_transmissions());
    for id in 0..2000 {
        driver.put(at(0), down(id, 0));
    }
    driver.run(at(1000));
    let data: Vec<_> = (driver.transmitted.iter())
        .filter_map(|(_, told)| match told.mac {
            MacFrame::Dcf(dcf) if dcf.kind == DcfKind::Data => Some((dcf, told.packet)),
            MacFrame::Dcf(_) | MacFrame::Ieee802154 { .. } => None,
        })
        .collect();
    let mut cut = 0;
    for pair in data.windows(2) {
        let [(before, packet), (after, next)] = [pair[0], pair[1]];
        let again = packet == next;
        assert_eq!(after.retry, again, "{pair:?}");
        assert_eq!(after.sequence, (before.sequence + u16::from(!again)) % 4096, "{pair:?}");
        assert!(!before.cut || again, "what was cut off goes again: {pair:?}");
        cut += u32::from(before.cut);
    }
    assert!(cut > 10 && data.len() > 500, "{cut} of {} were cut off", data.len());
}
