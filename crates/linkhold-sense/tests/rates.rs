//! Error rates and delays on generated recordings, against the closed forms. Every bound is five standard
//! deviations of a binomial count, so that a right detector fails once in two million seeds; seeds are fixed.

use linkhold_core::time::Duration;
use linkhold_sense::synthetic::{Air, Burst, Noise};
use linkhold_sense::{Event, FloorSource, Sample, Sensor, Settings, Window, from_db, to_db};

/// Noise power of every recording.
const NOISE: f64 = 1e-4;

/// 1 MS/s with the floor given as it is, and no uncertainty: what the closed forms are for.
fn exact(band: Option<(f64, f64)>, window: Window) -> Settings {
    let share = band.map_or(1.0, |_| 16.0 / 64.0);
    Settings {
        band,
        window,
        fft: 64,
        block: Duration::from_micros(128),
        idle: Duration::from_micros(128),
        uncertainty_db: 0.0,
        floor: FloorSource::Given(to_db(NOISE * share)),
        ..Settings::at(1e6)
    }
}

/// A band of 16 of 64 bins.
const BAND: Option<(f64, f64)> = Some((100_000.0, 350_000.0));

/// That many blocks of `air`.
fn run(settings: &Settings, air: &mut Air, blocks: u64) -> Sensor {
    let mut sensor = Sensor::new(settings).expect("settings are right");
    let mut block = vec![Sample::default(); sensor.block()];
    for _ in 0..blocks {
        air.fill(&mut block);
        sensor.on_block(&block).expect("samples are numbers");
    }
    sensor
}

/// Asserts that `count` of `trials` is what `probability` gives.
#[track_caller]
fn binomial(what: &str, count: u64, trials: u64, probability: f64) {
    let (trials, mean) = (trials as f64, trials as f64 * probability);
    let deviation = (trials * probability * (1.0 - probability)).sqrt();
    println!("{what}: {count} of {trials}, {mean:.1} ± {deviation:.1} expected");
    assert!(
        (count as f64 - mean).abs() <= 5.0 * deviation,
        "{what}: {count} of {trials}, {mean:.1} expected"
    );
}

#[test]
fn noise_alone_raises_as_many_alarms_as_stated() {
    for (name, band, window) in [
        ("everything", None, Window::Hann),
        ("a band without a window", BAND, Window::Rectangular),
        ("a band under a Hann window", BAND, Window::Hann),
    ] {
        for false_alarm in [0.1, 1e-2, 1e-3] {
            let settings = Settings { false_alarm, ..exact(band, window) };
            let trials = 30_000;
            let (_, summary) = run(&settings, &mut Air::new(11, NOISE, Vec::new()), trials).finish();
            assert_eq!(summary.decisions, trials);
            binomial(&format!("{name}, P_fa {false_alarm}"), summary.above, trials, false_alarm);
        }
    }
}

/// With the floor from a calibration, which bursts disturb, the share lies in the stated range of the exact
/// and the worst one.
#[test]
fn a_calibrated_floor_keeps_to_the_range_that_it_states() {
    let settings = Settings {
        false_alarm: 1e-2,
        floor: FloorSource::Calibrate(Duration::from_millis(512)),
        uncertainty_db: 0.1,
        ..exact(None, Window::Hann)
    };
    // A tenth of the 4000 blocks of the calibration holds a burst.
    let bursts =
        (0..10).map(|n| Burst { start: n * 51_200, length: 5_120, power: NOISE, frequency: 0.2 }).collect();
    let trials = 20_000;
    let (_, summary) = run(&settings, &mut Air::new(12, NOISE, bursts), 4000 + trials).finish();
    let calibrated = summary.calibrated.expect("the stretch was long enough");
    assert_eq!(summary.decisions, trials);
    let share = summary.above as f64 / trials as f64;
    let spread = 5.0 * (calibrated.false_alarm / trials as f64).sqrt();
    println!("{share} of {calibrated:?}");
    assert!(calibrated.false_alarm_exact < 1e-2 && calibrated.false_alarm_worst > 1e-2);
    assert!(share <= calibrated.false_alarm_worst + spread, "{share} of {calibrated:?}");
    // Bursts in a tenth of the stretch raise the lower quartile by 0.09 deviations of a block at most.
    assert!((calibrated.floor.power / NOISE - 1.0).abs() < 0.02, "{calibrated:?}");
}

/// P_d is Q_M(√(2·M·SNR), √λ): Digham et al. 2007, eq. (5).
#[test]
fn signals_are_found_as_often_as_marcums_function_says() {
    let trials = 4_000;
    let mut seen = Vec::new();
    for (name, band, window, share) in [
        ("everything", None, Window::Hann, 1.0),
        ("a band without a window", BAND, Window::Rectangular, 0.25),
    ] {
        for snr_db in [-9.0, -6.0, -4.0, -2.0, 0.0] {
            let settings = Settings { false_alarm: 1e-3, ..exact(band, window) };
            // 13 of 64 bins is 203 kHz: the tone lies on a bin, so that all of it is in the band.
            let power = from_db(snr_db) * NOISE * share;
            let signal = Burst { start: 0, length: u64::MAX / 2, power, frequency: 13.0 / 64.0 };
            let sensor = run(&settings, &mut Air::new(21, NOISE, vec![signal]), trials);
            let ratio = sensor.law().ratio_passed_with(1e-3);
            let expected = sensor.law().detection(ratio, from_db(snr_db));
            let (_, summary) = sensor.finish();
            binomial(&format!("{name}, SNR {snr_db} dB"), summary.above, trials, expected);
            seen.push(expected);
        }
    }
    // The table reaches from "rarely" to "always", so that it can fail.
    assert!(seen.iter().any(|&p| p < 0.1) && seen.iter().any(|&p| p > 0.9), "{seen:?}");
}

/// The first block that finds a signal is geometric: L/P_d on average from the start of a burst on a block's
/// edge.
#[test]
fn the_mean_delay_is_that_of_the_geometric_law() {
    for snr_db in [-6.0, -4.0, 0.0] {
        let settings =
            Settings { false_alarm: 1e-6, idle: Duration::from_micros(1280), ..exact(None, Window::Hann) };
        let (bursts, period, length) = (600u64, 600u64, 400u64);
        let plan: Vec<Burst> = (0..bursts)
            .map(|n| Burst {
                start: n * period * 128,
                length: length * 128,
                power: from_db(snr_db) * NOISE,
                frequency: 0.11,
            })
            .collect();
        let mut sensor = Sensor::new(&settings).expect("settings are right");
        let law = sensor.law();
        let found = law.detection(law.ratio_passed_with(1e-6), from_db(snr_db));
        let mut noise = Noise::new(31);
        let mut block = vec![Sample::default(); 128];
        let (mut delays, mut late) = (Vec::new(), Vec::new());
        let mut heard_first = None;
        for index in 0..bursts * period {
            // One burst at a time: `Air` would look at all of them for every block.
            let burst = plan[(index / period) as usize];
            noise.fill(&mut block, NOISE);
            let start = index * 128;
            if start >= burst.start && start < burst.start + burst.length {
                let amplitude = burst.power.sqrt() as f32;
                block.iter_mut().enumerate().for_each(|(n, slot)| {
                    let turn = std::f64::consts::TAU * burst.frequency * n as f64;
                    *slot += Sample::from_polar(amplitude, turn as f32);
                });
            }
            match sensor.on_block(&block).expect("numbers") {
                Some(Event::Busy { at, .. }) if heard_first != Some(burst.start) => {
                    heard_first = Some(burst.start);
                    delays.push((at - burst.start) as f64 / 128.0);
                }
                Some(Event::Idle { at, heard, .. }) => late.push(at - heard),
                _ => {}
            }
        }
        let (expected, deviation) = (1.0 / found, (1.0 - found).sqrt() / found);
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        println!(
            "{snr_db} dB: P_d {found:.4}, delay {mean:.3} blocks, {expected:.3} expected, {} bursts",
            delays.len()
        );
        assert!(delays.len() as u64 >= bursts - 1, "found {} of {bursts}", delays.len());
        assert!(
            (mean - expected).abs() <= 5.0 * deviation / (bursts as f64).sqrt() + 1e-6,
            "{mean}, {expected}"
        );
        // T_idle is ten blocks, and is counted from the last block that held a signal.
        assert!(late.iter().all(|&samples| samples == 1280), "{late:?}");
    }
}

/// A neighbour 40 dB above the noise, outside the band: a Hann window keeps it out, and without one it is
/// heard.
#[test]
fn a_strong_neighbour_is_kept_out_by_the_window() {
    let neighbour = |window| {
        let settings = Settings { false_alarm: 1e-3, ..exact(BAND, window) };
        let tone = Burst { start: 0, length: u64::MAX / 2, power: 1e4 * NOISE, frequency: -12.4 / 64.0 };
        run(&settings, &mut Air::new(41, NOISE, vec![tone]), 2_000).finish().1.above
    };
    let (hann, rectangular) = (neighbour(Window::Hann), neighbour(Window::Rectangular));
    println!("alarms by a neighbour in 2000 blocks: {hann} with Hann's window, {rectangular} without");
    assert!(hann <= 12, "{hann} of 2000, 2 expected of noise alone");
    assert!(rectangular > 1000, "{rectangular} of 2000");
}

#[test]
fn an_open_detection_ends_with_the_input() {
    let settings = exact(None, Window::Hann);
    let signal = Burst { start: 1280, length: u64::MAX / 2, power: 10.0 * NOISE, frequency: 0.1 };
    let (event, summary) = run(&settings, &mut Air::new(51, NOISE, vec![signal]), 30).finish();
    assert_eq!(event, Some(Event::Idle { at: 3840, since: 1408, heard: 3840, input_over: true }));
    assert_eq!((summary.detections, summary.above, summary.busy), (1, 20, 19 * 128));
}

#[test]
fn a_sample_that_is_no_number_is_named() {
    let mut sensor = Sensor::new(&exact(BAND, Window::Hann)).expect("right");
    let mut block = vec![Sample::new(0.01, 0.0); 128];
    sensor.on_block(&block).expect("numbers");
    block[5].re = f32::INFINITY;
    let error = sensor.on_block(&block).expect_err("infinite");
    assert!(error.to_string().starts_with("sample 133 is no number"), "{error}");
}
