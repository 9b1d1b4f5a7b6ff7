//! An air with noise: what gets lost, what is sent again, and what is told of the SNR.

mod common;

use std::sync::Arc;

use common::{Driver, at, config, down, ms, up};
use linkhold_core::link_event::LinkEventKind;
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_radio::{
    Air, AirConfig, AirConfigError, AirDrop, Columns, Curve, Fading, Mac, PhyRate, PowerConfig, SnrConfig,
    SnrReport, SnrSource, SnrTrace, StationTime, Trace, TraceLink, WalkConfig,
};

const REPORT: SnrReport =
    SnrReport { interval: Duration::from_millis(100), delay: Duration::ZERO, error_db: 0.0 };
/// Bits of a 1500-byte packet with what the MAC puts around it.
const BITS: u32 = 8 * 1536;

/// A source with one SNR for all time.
fn steady(db: f64) -> SnrSource {
    ramp(db, db)
}

/// A source that goes from one SNR to another within 100 s.
fn ramp(from: f64, to: f64) -> SnrSource {
    let columns = Columns { time: "t", snr: "s", max_gap: Duration::from_secs(1000) };
    let trace = SnrTrace::parse(&format!("t,s\n0,{from}\n100,{to}\n"), columns).expect("it is a trace");
    SnrSource::Trace { trace: Arc::new(trace), random_start: false }
}

/// A cell at CCK 5.5 without retransmissions.
fn noisy(mac: Mac, source: SnrSource, report: SnrReport) -> AirConfig {
    let mut config = config(mac, 1);
    config.snr = Some(SnrConfig { source, rates: vec![PhyRate::Cck5], report });
    config.retry_limit = 0;
    config
}

/// Sends `count` frames one after the other; what arrived, and the driver.
fn send(config: AirConfig, count: u64) -> (f64, Driver) {
    let mut driver = Driver::new(config, 4);
    for id in 0..count {
        driver.put(at(2 * id), if id % 2 == 0 { up(id, 0) } else { down(id, 0) });
    }
    driver.run(at(2 * count + 1000));
    (driver.delivered.len() as f64 / count as f64, driver)
}

#[test]
fn frames_are_lost_as_often_as_the_curve_says_and_counted_as_noise() {
    let expected = 1.0 - Curve::of(PhyRate::Cck5).packet_error_rate(3.5, BITS);
    assert!((0.3..0.7).contains(&expected), "{expected}: a rate that a wrong one would miss");
    for mac in [Mac::Shared, Mac::Duplex] {
        let (share, driver) = send(noisy(mac, steady(3.5), REPORT), 20_000);
        assert!((share - expected).abs() < 0.015, "{share} and {expected}");
        assert!(driver.dropped.iter().all(|(_, _, reason)| *reason == AirDrop::Noise));
        assert_eq!(driver.delivered.len() + driver.dropped.len(), 20_000);
    }
}

#[test]
fn the_retry_limit_sends_again_what_noise_spoiled() {
    let failure = Curve::of(PhyRate::Cck5).packet_error_rate(3.5, BITS);
    for retries in [1, 3] {
        let mut config = noisy(Mac::Shared, steady(3.5), REPORT);
        config.retry_limit = retries;
        let (share, _) = send(config, 20_000);
        let expected = 1.0 - failure.powi(retries as i32 + 1);
        assert!((share - expected).abs() < 0.015, "{retries}: {share} and {expected}");
    }
}

#[test]
fn a_good_signal_loses_nothing_and_an_awful_one_everything() {
    assert_eq!(send(noisy(Mac::Shared, steady(20.0), REPORT), 2_000).0, 1.0);
    assert_eq!(send(noisy(Mac::Shared, steady(-10.0), REPORT), 2_000).0, 0.0);
}

/// The samples told: (when told, ms; when taken, ms; dB).
fn samples(config: AirConfig, seed: u64) -> Vec<(f64, f64, f32)> {
    let mut driver = Driver::new(config, seed);
    driver.run(at(50_000));
    let sample = |event: &linkhold_core::link_event::LinkEvent| match event.kind {
        LinkEventKind::Snr { station: StationId(0), db } => {
            let taken = event.effective_at.expect("a sample has its time");
            Some((event.detected_at.as_secs_f64() * 1e3, taken.as_secs_f64() * 1e3, db))
        }
        _ => None,
    };
    driver.links.iter().filter_map(sample).collect()
}

#[test]
fn samples_are_told_every_interval_late_by_the_delay() {
    let report = SnrReport { delay: ms(30), ..REPORT };
    let told = samples(noisy(Mac::Shared, ramp(10.0, 0.0), report), 1);
    assert_eq!(told.len(), 500);
    for (index, &(told_at, taken, db)) in told.iter().enumerate() {
        let expected = index as f64 * 100.0;
        assert!((taken - expected).abs() < 1e-6 && (told_at - expected - 30.0).abs() < 1e-6);
        // 10 dB in 100 s.
        assert!((f64::from(db) - (10.0 - taken / 10_000.0)).abs() < 1e-5, "{taken} {db}");
    }
}

#[test]
fn a_samples_error_has_the_deviation_asked_for_and_is_no_oracle() {
    let report = SnrReport { error_db: 2.0, ..REPORT };
    let told = samples(noisy(Mac::Shared, steady(5.0), report), 1);
    let errors: Vec<f64> = told.iter().map(|(_, _, db)| f64::from(*db) - 5.0).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let deviation = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
    assert!(mean.abs() < 0.3 && (deviation - 2.0).abs() < 0.2, "{mean} {deviation}");
    assert_ne!(told, samples(noisy(Mac::Shared, steady(5.0), report), 2), "another seed, other errors");
}

#[test]
fn traffic_changes_no_sample() {
    let walk = WalkConfig {
        snr_at_1m: 45.0,
        exponent: 3.0,
        near: 5.0,
        far: 25.0,
        speed: 1.5,
        fading: Fading::Rician(6.0),
        doppler: None,
        random_start: true,
    };
    let report = SnrReport { error_db: 1.0, delay: ms(20), ..REPORT };
    let quiet = noisy(Mac::Shared, SnrSource::Walk(walk), report);
    let (_, busy) = send(quiet.clone(), 5_000);
    let of_busy: Vec<_> = busy.links.iter().filter(|event| event.detected_at <= at(10_000)).collect();
    let mut driver = Driver::new(quiet, 4);
    driver.run(at(10_000));
    assert_eq!(driver.links.iter().collect::<Vec<_>>(), of_busy);
    assert!(busy.delivered.len() < 5_000 && busy.delivered.len() > 500, "{}", busy.delivered.len());
}

#[test]
fn a_radio_without_snr_tells_none_and_loses_nothing() {
    let mut driver = Driver::new(config(Mac::Shared, 1), 4);
    driver.put(at(0), up(0, 0));
    driver.run(at(10_000));
    assert_eq!(driver.delivered.len(), 1);
    assert!(!driver.links.iter().any(|event| matches!(event.kind, LinkEventKind::Snr { .. })));
}

#[test]
fn an_snr_needs_a_modulation_for_each_channel_and_no_trace() {
    let mut missing = noisy(Mac::Shared, steady(5.0), REPORT);
    missing.channels.push(common::channel());
    assert_eq!(Air::new(missing, 1).err(), Some(AirConfigError::NoModulation(1)));
    let trace = Arc::new(Trace::parse(b"1\n").expect("a trace"));
    let link = TraceLink {
        down: trace.clone(),
        up: trace,
        silence_threshold: ms(100),
        detection_delay: Duration::ZERO,
        random_start: false,
    };
    let beside = noisy(Mac::Trace(link), steady(5.0), REPORT);
    assert_eq!(Air::new(beside, 1).err(), Some(AirConfigError::SnrBesideTrace));
}

#[test]
fn the_channel_that_a_frame_is_sent_on_decides_its_modulation() {
    let mut config = noisy(Mac::Shared, steady(6.0), REPORT);
    config.channels.push(common::channel());
    if let Some(snr) = &mut config.snr {
        // At 6 dB CCK 5.5 works and 54 Mbit/s does not.
        snr.rates.push(PhyRate::Ofdm54);
    }
    let half = Instant::from_millis(1000);
    config.switching.scripted = vec![linkhold_radio::ScriptedSwitch { at: half, to_channel: 1 }];
    let (_, driver) = send(config, 1_000);
    assert!(driver.delivered.iter().all(|(time, _)| *time <= half));
    assert!(driver.delivered.len() > 480);
    assert_eq!(PhyRate::of(BitRate::from_mbps(54)), Some(PhyRate::Ofdm54));
}

#[test]
fn a_station_is_busy_for_as_long_as_its_frames_are_on_the_air_lost_or_not() {
    for db in [20.0, -10.0] {
        let mut config = noisy(Mac::Shared, steady(db), REPORT);
        config.power = Some(PowerConfig { transmit: 1.0, receive: 1.0, idle: 1.0 });
        // A frame takes 1 ms; 60 of 100 go up.
        let mut driver = Driver::new(config, 1);
        for id in 0..100 {
            driver.put(at(2 * id), if id % 5 < 3 { up(id, 0) } else { down(id, 0) });
        }
        driver.run(at(1000));
        let expected = StationTime { transmit: ms(60), receive: ms(40) };
        assert_eq!(driver.air.station_times(), [expected]);
    }
    let uncounted = Driver::new(config(Mac::Shared, 1), 1);
    assert_eq!(uncounted.air.station_times(), []);
}
