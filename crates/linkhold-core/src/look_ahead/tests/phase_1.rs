//! The host's timer: found, followed, lost and found again.

use super::*;

/// A synthetic receiver: segments each `spacing`, acknowledged by `style`; `beat(n)` is the time of the nth
/// beat of the host's timer. Returns how many ACKs there were.
fn receive(station: &mut Station, style: Style, spacing: f64, beats: u32, beat: impl Fn(u32) -> f64) -> u32 {
    let (mut next, mut acks, mut owing) = (spacing * 0.37, 0, 0);
    for n in 1..=beats {
        while next < beat(n) {
            station.data(next);
            owing += 1;
            if style == Style::EverySecond && owing == 2 {
                station.ack(next);
                (owing, acks) = (0, acks + 1);
            }
            next += spacing;
        }
        if owing > 0 {
            station.ack(beat(n));
            (owing, acks) = (0, acks + 1);
        }
    }
    acks
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Only the timer sends ACKs, as in the paper's figure 3.
    TimerOnly,
    /// Every second segment at once, an odd one at the beat.
    EverySecond,
}

fn with(lock: Lock) -> LookAheadConfig {
    LookAheadConfig { lock, ..paper() }
}

fn steady(n: u32) -> f64 {
    f64::from(n) * 200.0
}

#[test]
fn more_than_k_acks_on_the_beat_lock() {
    for k in [1, 3, 7] {
        let mut station = Station::new(LookAheadConfig { k, ..paper() });
        // The first ACK is saved; each later one counts.
        station.beats(1, k + 1);
        assert!(!station.look.beats.is_locked(), "k = {k}");
        station.beats(k + 2, 1);
        assert!(station.look.beats.is_locked(), "k = {k}");
    }
}

#[test]
fn the_printed_form_follows_the_timers_own_acks_only_and_the_modulo_form_every_receivers() {
    // Segments each 23 ms, 50 beats: which part of the beats with an ACK owing is asked for?
    for (lock, style, least, most) in [
        (Lock::Printed, Style::TimerOnly, 43, 45),
        (Lock::Beats, Style::TimerOnly, 43, 45),
        (Lock::Printed, Style::EverySecond, 0, 0),
        (Lock::Beats, Style::EverySecond, 30, 45),
    ] {
        let mut station = Station::new(with(lock));
        receive(&mut station, style, 23.0, 50, steady);
        let asked = station.times();
        assert!((least..=most).contains(&asked.len()), "{lock:?}: {} requests: {asked:?}", asked.len());
        assert!(asked.iter().all(|ms| (ms + 40.0) % 200.0 < 0.001), "{lock:?}: {asked:?}");
        let locked = station.look.beats.is_locked();
        assert_eq!(locked, most > 0, "{lock:?}");
    }
}

#[test]
fn two_connections_at_one_beat_reset_the_printed_form_only() {
    for (lock, locks) in [(Lock::Printed, false), (Lock::Beats, true)] {
        let mut station = Station::new(with(lock));
        for beat in 1..20 {
            let beat = f64::from(beat) * 200.0;
            station.data_of(beat - 90.0, 1).data_of(beat - 80.0, 2).ack_of(beat, 1).ack_of(beat + 0.2, 2);
        }
        assert_eq!(station.look.beats.is_locked(), locks, "{lock:?}");
    }
}

#[test]
fn beats_without_anything_to_acknowledge_do_not_lose_the_lock() {
    let mut station = Station::new(with(Lock::Beats));
    for beat in [1, 2, 4, 5, 9, 12, 30] {
        station.beats(beat, 1);
    }
    station.times();
    station.beats(300, 1);
    assert_eq!(station.times(), [59_960.0]);
}

#[test]
fn a_clock_that_drifts_by_50_parts_in_a_million_is_followed() {
    for drift in [-50e-6, 50e-6] {
        let beat = |n: u32| f64::from(n) * 200.0 * (1.0 + drift);
        let mut station = Station::new(with(Lock::Beats));
        // 20 minutes: the timer is 60 ms from where it began.
        receive(&mut station, Style::TimerOnly, 51.0, 6_000, beat);
        let asked = station.times();
        assert!(asked.len() >= 5_990, "{}", asked.len());
        let last = asked.last().expect("some") + 40.0;
        assert!((last - beat(6_000)).abs() < 0.1, "{last} for {}", beat(6_000));
        assert_eq!(station.wrong(), 0);
    }
}

#[test]
fn a_pause_in_which_the_clock_drifts_further_than_the_tolerance_is_followed_by_a_new_lock() {
    let mut station = Station::new(with(Lock::Beats));
    // 50 parts in a million of five minutes are 15 ms.
    let beat = |n: u32| if n <= 10 { f64::from(n) * 200.0 } else { f64::from(n) * 200.0 + 300_015.0 };
    receive(&mut station, Style::TimerOnly, 51.0, 10, beat);
    assert!(station.look.beats.is_locked());
    station.times();
    for n in 11..30 {
        station.data(beat(n) - 100.0).ack(beat(n));
    }
    let asked = station.times();
    let right = asked.iter().filter(|ms| (*ms + 40.0 - 300_015.0) % 200.0 < 0.001).count();
    // K + 1 ACKs off the beat, K + 1 that count, and all after them.
    assert_eq!((asked.len() - right, right), (4, 11), "{asked:?}");
}

#[test]
fn a_jump_of_the_phase_is_followed_by_a_new_lock() {
    for (lock, lost) in [(Lock::Beats, 8), (Lock::Printed, 5)] {
        let mut station = Station::new(with(lock));
        station.beats(1, 10);
        station.times();
        let mut hits = 0;
        for n in 0..20 {
            let beat = 2_273.0 + 200.0 * f64::from(n);
            station.data(beat - 100.0).ack(beat);
            hits += station.times().iter().filter(|ms| (*ms + 40.0 - beat).abs() < 0.1).count();
        }
        assert_eq!(hits, 20 - lost, "{lock:?}");
    }
}

#[test]
fn acks_that_shake_within_the_tolerance_keep_the_lock() {
    let mut station = Station::new(with(Lock::Beats));
    for n in 1..100 {
        // 0 to 4 ms late, as a kernel's tick makes them.
        let late = f64::from(n * 7 % 5);
        station.data(f64::from(n) * 200.0 - 90.0).ack(f64::from(n) * 200.0 + late);
    }
    let asked = station.times();
    assert_eq!(asked.len(), 94);
    assert!(asked.iter().all(|ms| (ms + 40.0) % 200.0 < 4.001), "{asked:?}");
}

#[test]
fn acks_at_random_times_do_not_lock() {
    let mut station = Station::new(with(Lock::Beats));
    let (mut state, mut ms, mut locked) = (1u64, 0.0, 0);
    for _ in 0..2_000 {
        // A generator of Knuth's (MMIX).
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ms += 60.0 + (state >> 33) as f64 / f64::from(1 << 31) * 400.0;
        station.data(ms - 50.0).ack(ms);
        locked += u32::from(station.look.beats.is_locked());
    }
    // One ACK in ten is on a beat by chance, so a run of four is one in 10,000, and 40 ACKs long at most.
    assert!(locked < 100, "locked for {locked} of 2000 ACKs");
}
