//! The clamp: its rate told and measured, its shares, and the loop it closes through a sender.

use super::*;

#[test]
fn the_clamp_is_the_bandwidth_delay_product_and_the_standing_queue() {
    let ms = Duration::from_millis;
    let mut bdp = Bdp::new(ms(20));
    assert_eq!(bdp.clamp(ms(50), ms(0), 1448, 1.0), None);
    bdp.set_capacity(BitRate::from_mbps(24), Fraction::clamped(0.5));
    // 12 Mb/s × 70 ms / 8, and a segment
    assert_eq!(bdp.clamp(ms(48), ms(2), 1448, 1.0), Some(105_000 + 1448));
    // A quarter of what one of two stations has
    bdp.stations.count = 2.0;
    assert_eq!(bdp.clamp(ms(48), ms(2), 1448, 4.0), Some(105_000 / 8 + 1448));
    assert_eq!(bdp.clamp(ms(48), ms(2), 1448, 1000.0), Some(2896));
}

#[test]
fn the_rate_is_what_is_delivered_but_never_far_from_the_channels() {
    // (bytes acknowledged each millisecond, share of C·e believed)
    for (per_ms, share) in [(900, 0.9), (1200, 1.0), (100, 0.8)] {
        let mut bdp = Bdp::new(Duration::ZERO);
        bdp.set_capacity(BitRate::from_mbps(8), Fraction::ONE);
        assert!((bdp.rate().unwrap() - 0.001).abs() < 1e-9);
        for ms in 0..1000 {
            bdp.on_delivered(Instant::from_millis(ms), per_ms, 10_000);
        }
        let rate = bdp.rate().unwrap();
        assert!((rate / 0.001 - share).abs() < 0.03, "{per_ms}: {rate}");
    }
}

#[test]
fn a_rate_that_is_not_told_paces_and_clamps_nothing() {
    let ms = Duration::from_millis;
    let mut bdp = Bdp::new(ms(10));
    assert_eq!((bdp.clamp(ms(50), ms(0), 1448, 1.0), bdp.pace()), (None, None));
    for at in 0..300 {
        bdp.on_delivered(Instant::from_millis(at), 1000, 10_000);
    }
    assert_eq!(bdp.clamp(ms(50), ms(0), 1448, 1.0), None);
    assert!(bdp.pace().is_some_and(|pace| (9_900_000..10_300_000).contains(&pace.as_bps())));
    // Told, it counts as told; withdrawn, it is measured anew.
    bdp.set_capacity(BitRate::from_mbps(8), Fraction::ONE);
    assert_eq!((bdp.clamp(ms(50), ms(0), 1448, 1.0), bdp.pace()), (Some(60_000 + 1448), None));
    bdp.set_capacity(BitRate(0), Fraction::ONE);
    assert_eq!((bdp.clamp(ms(50), ms(0), 1448, 1.0), bdp.pace()), (None, None));
}

#[test]
fn the_time_before_the_first_ack_is_not_the_radios() {
    let mut bdp = Bdp::new(Duration::from_millis(20));
    // Ten segments went down to an empty radio, and the first of them is acknowledged.
    bdp.on_delivered(Instant::from_millis(150), 1448, 13_032);
    assert_eq!(bdp.pace(), None);
    for at in 151..300 {
        bdp.on_delivered(Instant::from_millis(at), 1448, 13_032);
    }
    assert!(bdp.pace().is_some_and(|pace| pace.as_bps() > 11_000_000), "{:?}", bdp.pace());
    // The same after a silence.
    bdp = Bdp::new(Duration::from_millis(20));
    bdp.restart_bin(Instant::from_millis(100), 0);
    bdp.on_delivered(Instant::from_millis(300), 1448, 13_032);
    assert_eq!(bdp.pace(), None);
}

#[test]
fn a_station_that_was_away_unannounced_does_not_stop_the_pace() {
    let mut bdp = Bdp::new(Duration::from_millis(20));
    for minute in 0..5 {
        bdp.on_delivered(Instant::from_millis(minute * 60_000), 1448, 10_000);
    }
    assert_eq!(bdp.pace(), Some(LEAST_PACE));
}

#[test]
fn a_time_without_enough_to_send_does_not_lower_the_rate() {
    let mut bdp = Bdp::new(Duration::ZERO);
    // 8 Mb/s for a second; then a tenth of it for a minute, with (true) and without the radio busy.
    for (busy, expected) in [(false, 0.001), (true, 0.0001)] {
        for at in 0..60_000 {
            let bytes = if at < 1000 { 1000 } else { 100 };
            let left = if busy || at < 1000 { 10_000 } else { 0 };
            bdp.on_delivered(Instant::from_millis(at), bytes, left);
        }
        let rate = bdp.fastest();
        assert!((rate / expected - 1.0).abs() < 0.05, "busy {busy}: {rate}");
        bdp = Bdp::new(Duration::ZERO);
    }
}

#[test]
fn the_trim_takes_back_what_queues_and_gives_all_again_once_the_radio_ran_dry() {
    let ms = Duration::from_millis;
    let mut bdp = Bdp::new(ms(10));
    bdp.set_capacity(BitRate::from_mbps(24), Fraction::ONE);
    bdp.note_base(ms(50), ms(1), ms(0));
    let mut at = 0;
    // (time in the radio, ms, the window's share after ten seconds of it)
    for (time, share) in [(30, 0.5), (11, 0.5), (1, 1.0), (11, 1.0), (12, 0.6)] {
        for _ in 0..1000 {
            at += 10;
            bdp.on_radio_time(Instant::from_millis(at), ms(time));
        }
        // 24 Mb/s × 61 ms
        let window = f64::from(bdp.clamp(ms(50), ms(1), 1448, 1.0).unwrap()) / 183_000.0;
        assert!((window - share).abs() < 0.02, "{window} after {time} ms");
    }
}
