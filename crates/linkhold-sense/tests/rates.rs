//! Error rates and delays on generated recordings, against the closed forms. Every bound is five standard
//! deviations of a count or a mean, so that a right detector fails once in two million seeds; seeds are
//! fixed. Where the form is an approximation, its error's bound is added, and derived where it is.

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
    let least = calibrated.false_alarm_exact - 5.0 * (calibrated.false_alarm_exact / trials as f64).sqrt();
    assert!(least > 0.0 && share >= least, "{share}, at least {least}, of {calibrated:?}");
    // Bursts in a tenth of the stretch raise the lower quartile by 0.09 deviations of a block at most.
    assert!((calibrated.floor.power / NOISE - 1.0).abs() < 0.02, "{calibrated:?}");
}

/// A tone in the band's middle, from the first sample on. 13 of 64 bins is 203 kHz: it lies on a bin, so that
/// all of it is in the band, under either window.
fn tone(power: f64) -> Burst {
    Burst { start: 0, length: u64::MAX / 2, power, frequency: 13.0 / 64.0 }
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
            let signal = tone(from_db(snr_db) * NOISE * share);
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

/// Under a Hann window P_d is that of as many independent samples as have the same deviation. It has the true
/// mean and deviation, and not the true skewness, of which the first term of Edgeworth's series tells what it
/// costs: |P_d - true| ≤ Δγ/6·max|x² - 1|·φ(x) = 0.0665·Δγ.
///
/// With a tone in the middle of a wide band the cumulants of a block of n bins times frames are, by those of
/// the squared window's weights (their means 3/8, 35/128 and 231/1024), κ₂ = 1.944·(1 + 2·SNR)/n and
/// κ₃ = 4.278·(2 + 6·SNR)/n². The law that is used instead has 1.944² = 3.781 for 4.278, so
/// Δγ = 0.497/1.944^1.5·(2 + 6·SNR)/(1 + 2·SNR)^1.5/√n, which is at most 0.367/√n.
#[test]
fn under_a_hann_window_signals_are_found_nearly_as_often_as_stated() {
    const BINS_AND_FRAMES: f64 = 16.0 * 2.0;
    let skewness = 0.0665 * 0.367 / BINS_AND_FRAMES.sqrt();
    let trials = 200_000;
    let mut most: f64 = 0.0;
    for snr_db in [-9.0, -4.0, 0.0, 2.0] {
        let settings = Settings { false_alarm: 1e-3, ..exact(BAND, Window::Hann) };
        let signal = tone(from_db(snr_db) * NOISE * 0.25);
        let sensor = run(&settings, &mut Air::new(22, NOISE, vec![signal]), trials);
        let ratio = sensor.law().ratio_passed_with(1e-3);
        let stated = sensor.law().detection(ratio, from_db(snr_db));
        let (_, summary) = sensor.finish();
        let found = summary.above as f64 / trials as f64;
        let deviation = (found * (1.0 - found) / trials as f64).sqrt();
        println!(
            "a band under a Hann window, SNR {snr_db} dB: {} of {trials}, {:.1} ± {:.1} stated; off by {:.5}",
            summary.above,
            stated * trials as f64,
            deviation * trials as f64,
            found - stated
        );
        assert!(
            (found - stated).abs() <= skewness + 5.0 * deviation,
            "{snr_db} dB: {found}, {stated} stated"
        );
        most = most.max((found - stated).abs());
    }
    println!(
        "P_d under a Hann window is off by {:.2} points at most, {:.2} allowed",
        1e2 * most,
        1e2 * skewness
    );
}

/// What a sensor of everything makes of bursts in noise, one at a time in 600 blocks of 128 samples.
struct Heard {
    sensor: Sensor,
    /// From the start of each burst to its first `Busy`, blocks.
    delays: Vec<f64>,
    /// From the last block that held a signal to `Idle`, samples.
    late: Vec<u64>,
}

const BURSTS: u64 = 600;

/// Bursts of 400 blocks, the first of which begins `offset` samples into a block.
fn hear(snr_db: f64, seed: u64, mut offset: impl FnMut() -> u64) -> Heard {
    let settings =
        Settings { false_alarm: 1e-6, idle: Duration::from_micros(1280), ..exact(None, Window::Hann) };
    let (period, length) = (600u64, 400u64);
    let plan: Vec<Burst> = (0..BURSTS)
        .map(|n| Burst {
            start: n * period * 128 + offset(),
            length: length * 128,
            power: from_db(snr_db) * NOISE,
            frequency: 0.11,
        })
        .collect();
    let mut sensor = Sensor::new(&settings).expect("settings are right");
    let mut noise = Noise::new(seed);
    let mut block = vec![Sample::default(); 128];
    let (mut delays, mut late) = (Vec::new(), Vec::new());
    let mut heard_first = None;
    for index in 0..BURSTS * period {
        // One burst at a time: `Air` would look at all of them for every block.
        let burst = plan[(index / period) as usize];
        noise.fill(&mut block, NOISE);
        let amplitude = burst.power.sqrt() as f32;
        for (at, slot) in (index * 128..).zip(&mut block) {
            if (burst.start..burst.start + burst.length).contains(&at) {
                let turn = std::f64::consts::TAU * burst.frequency * (at % 128) as f64;
                *slot += Sample::from_polar(amplitude, turn as f32);
            }
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
    assert!(delays.len() as u64 >= BURSTS - 1, "found {} of {BURSTS}", delays.len());
    Heard { sensor, delays, late }
}

/// Asserts that the mean of `delays` is `expected`, of one that deviates by `deviation`.
#[track_caller]
fn mean_is(what: &str, delays: &[f64], expected: f64, deviation: f64) {
    let (count, mean) = (delays.len() as f64, delays.iter().sum::<f64>() / delays.len() as f64);
    let deviation = deviation / count.sqrt();
    println!("{what}, delay {mean:.3} blocks, {expected:.3} ± {deviation:.3} expected, {count} bursts");
    assert!((mean - expected).abs() <= 5.0 * deviation + 1e-6, "{what}: {mean}, {expected} expected");
}

/// The first block that finds a signal is geometric: L/P_d on average from the start of a burst on a block's
/// edge.
#[test]
fn the_mean_delay_is_that_of_the_geometric_law() {
    for snr_db in [-6.0, -4.0, 0.0] {
        let Heard { sensor, delays, late } = hear(snr_db, 31, || 0);
        let law = sensor.law();
        let found = law.detection(law.ratio_passed_with(1e-6), from_db(snr_db));
        mean_is(&format!("{snr_db} dB: P_d {found:.4}"), &delays, 1.0 / found, (1.0 - found).sqrt() / found);
        // T_idle is ten blocks, and is counted from the last block that held a signal.
        assert!(late.iter().all(|&samples| samples == 1280), "{late:?}");
    }
}

/// A burst begins anywhere in a block. Its first block then holds a share u of a block's signal, and finds it
/// with P_d(u·SNR), u blocks after the start; if it does not, the whole blocks behind it are geometric. On
/// average the delay is E[u + (1 - P_d(u·SNR))/P_d]: half a block and 1/P_d, less what the first blocks find.
#[test]
fn from_anywhere_in_a_block_the_delay_is_half_a_block_longer_less_what_the_first_block_finds() {
    for snr_db in [-4.0, 0.0, 6.0] {
        let mut offsets = Noise::new(33);
        // The phase of noise is even; so is where a burst begins.
        let offset = || {
            let sample = offsets.sample(1.0);
            let turns = f64::from(sample.im.atan2(sample.re)) / std::f64::consts::TAU + 0.5;
            ((turns * 128.0) as u64).min(127)
        };
        let Heard { sensor, delays, late } = hear(snr_db, 32, offset);
        let law = sensor.law();
        let ratio = law.ratio_passed_with(1e-6);
        let found = law.detection(ratio, from_db(snr_db));
        let (mut first, mut second, mut at_once) = (0.0, 0.0, 0.0);
        for offset in 0..128 {
            let share = 1.0 - f64::from(offset) / 128.0;
            let in_it = law.detection(ratio, share * from_db(snr_db));
            let rest = 1.0 / found;
            let rest_squared = (2.0 - found) / found.powi(2);
            first += share + (1.0 - in_it) * rest;
            second += share.powi(2) + (1.0 - in_it) * (2.0 * share * rest + rest_squared);
            at_once += in_it;
        }
        let (first, second, at_once) = (first / 128.0, second / 128.0, at_once / 128.0);
        mean_is(
            &format!("from anywhere, {snr_db} dB: P_d {found:.4}, {at_once:.4} in the first block"),
            &delays,
            first,
            (second - first.powi(2)).sqrt(),
        );
        // An aligned burst's delay and half a block bound it from above; 1/256 is that of whole samples.
        assert!(first <= 1.0 / found + 0.5 + 1.0 / 256.0, "{first}, {found}");
        assert!(late.iter().all(|&samples| samples == 1280), "{late:?}");
    }
}

/// A burst is taken for over, and told again, when k blocks of it in a row are missed, T_idle being k blocks:
/// of its blocks above the threshold each is followed by such a gap with probability (1 - P_d)^k.
#[test]
fn a_burst_splits_as_often_as_its_gaps_are_as_long_as_t_idle() {
    for (snr_db, gap) in [(-6.0, 3), (-6.0, 10), (-4.0, 1), (-4.0, 2), (-4.0, 5), (-2.0, 1)] {
        let settings = Settings {
            false_alarm: 1e-3,
            idle: Duration::from_micros(gap * 128),
            ..exact(None, Window::Hann)
        };
        let signal = tone(from_db(snr_db) * NOISE);
        let sensor = run(&settings, &mut Air::new(61, NOISE, vec![signal]), 50_000);
        let law = sensor.law();
        let found = law.detection(law.ratio_passed_with(1e-3), from_db(snr_db));
        let (_, summary) = sensor.finish();
        // The first time that it is told is no split.
        let splits = summary.detections - 1;
        let name = format!("splits, SNR {snr_db} dB, T_idle {gap} blocks");
        binomial(&name, splits, summary.above, (1.0 - found).powi(gap as i32));
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
    // Integers that are read as floats look like this: numbers, and no samples.
    for settings in [exact(BAND, Window::Hann), exact(None, Window::Rectangular)] {
        let mut sensor = Sensor::new(&settings).expect("right");
        block[5].re = 1e12;
        sensor.on_block(&block).expect("the largest");
        (block[5].re, block[70].im) = (0.0, -1e13);
        let error = sensor.on_block(&block).expect_err("beyond 1e12");
        assert!(error.to_string().starts_with("sample 198 is no number (or beyond 1e12)"), "{error}");
        block[70].im = 0.0;
    }
}
