//! The loop that estimate and window close through a sender and a radio.

use std::collections::VecDeque;

use super::*;
use crate::time::Instant;
use crate::units::Fraction;

/// The radio's own part of the round trip.
const LOCAL: u64 = 4;

/// A sender with a window and nothing else, a wired round trip of `wired` ms, and a radio that carries
/// `rate(ms)` bytes in each millisecond and acknowledges [`LOCAL`] ms later. Gives, of each second, the
/// radio's load, the mean queue in ms of the mean rate, and the slow rate over the true one of that second.
fn run(untold: &mut Untold, wired: usize, seconds: u64, rate: impl Fn(u64) -> u64) -> Vec<(f64, f64, f64)> {
    let ms = Duration::from_millis;
    let mut wire = VecDeque::from(vec![0u64; wired]);
    let mut acks = VecDeque::from(vec![0u64; LOCAL as usize]);
    let (mut edge, mut arrived, mut carried, mut acked) = (0u64, 0u64, 0u64, 0u64);
    let mut results = Vec::new();
    untold.rate.used_up = true;
    for second in 0..seconds {
        let (mut possible, before, mut queue) = (0, carried, 0);
        for step in 0..1000 {
            let at = second * 1000 + step;
            let now = Instant::from_millis(1000 + at);
            let under_way = arrived - acked;
            arrived = wire.pop_front().unwrap().max(arrived);
            if arrived > acked + under_way {
                let before = untold.under_way(under_way, 0, ms(LOCAL));
                untold.rate.on_sent(now, arrived - acked - under_way, before);
            }
            possible += rate(at);
            carried += rate(at).min(arrived - carried);
            queue += arrived - carried;
            acks.push_back(carried);
            let newly = acks.pop_front().unwrap() - acked;
            acked += newly;
            if newly > 0 {
                let under_way = untold.under_way(arrived - acked, 0, ms(LOCAL));
                untold.rate.on_acked(now, newly, 0, under_way);
                untold.look(now, under_way.dry);
                // What has no window yet is in slow start: ten segments, doubling each round trip.
                let free = (14_480u64 << (at / wired as u64).min(6)).min(1_000_000);
                let window = untold
                    .window(ms(wired as u64), ms(LOCAL), ms(0), 1448, Among::Alone)
                    .map_or(free, u64::from);
                edge = edge.max(acked + window);
            }
            edge = edge.max(14_480);
            wire.push_back(edge);
        }
        let mean = possible as f64 / 1000.0;
        results.push((
            (carried - before) as f64 / possible as f64,
            queue as f64 / 1000.0 / mean,
            untold.rate.rates.slow() * 1e6 / mean,
        ));
    }
    results
}

fn untold(dry_share: f64) -> Untold {
    let config = DsaSyncConfig { dry_share: Fraction::clamped(dry_share), ..DsaSyncConfig::default() };
    Untold::new(Limits::new(&config))
}

/// Between half and one and a half of the mean, in steps of 50 ms, by a linear congruential generator.
fn varied(mean: u64) -> impl Fn(u64) -> u64 {
    move |ms| {
        let drawn = (ms / 50).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        mean / 2 + (drawn >> 33) % (mean + 1)
    }
}

#[test]
fn a_steady_radio_is_filled_followed_and_has_a_short_queue() {
    // 8 Mb/s for 20 s, four times as much for 20 s, then a fifth of that for 40 s.
    let rate = |ms: u64| match ms / 1000 {
        0..20 => 1000,
        20..40 => 4000,
        _ => 800,
    };
    let seconds = run(&mut untold(0.1), 50, 80, rate);
    for (second, &(load, queue, estimate)) in seconds.iter().enumerate() {
        // In the seconds in which the rate rose or fell it is being found.
        let settled = !matches!(second, 0..2 | 20..24 | 40..42);
        if settled {
            assert!(load >= 0.97, "load {load} in second {second}: {seconds:?}");
            assert!((0.95..=1.03).contains(&estimate), "estimate {estimate} in second {second}");
        }
        if matches!(second, 15..20 | 35..40 | 75..80) {
            assert!(queue <= 25.0, "{queue} ms in second {second}: {seconds:?}");
        }
    }
}

#[test]
fn ten_minutes_of_a_radio_that_varies_lower_neither_estimate_nor_load() {
    for (wired, mean) in [(20, 600), (100, 600), (100, 150)] {
        let seconds = run(&mut untold(0.1), wired, 600, varied(mean));
        let minute = |of: usize, value: fn(&(f64, f64, f64)) -> f64| {
            seconds[60 * of..60 * (of + 1)].iter().map(value).sum::<f64>() / 60.0
        };
        let (first, last) = (minute(1, |second| second.0), minute(9, |second| second.0));
        assert!(first > 0.85 && last > first - 0.02, "{wired} ms, {mean}: load {first}, then {last}");
        let estimate = minute(9, |second| second.2);
        assert!((0.92..=1.08).contains(&estimate), "{wired} ms, {mean}: {estimate} of the rate");
    }
}

#[test]
fn a_low_estimate_does_not_confirm_itself() {
    // A thirtieth of the rate for a minute, then all of it.
    let seconds = run(&mut untold(0.1), 100, 120, |ms| if ms < 60_000 { 40 } else { 1200 });
    let after = seconds[60..].iter().position(|second| second.0 > 0.9).expect("the radio is filled again");
    assert!(after <= 12, "{after} s: {:?}", &seconds[60..]);
}

#[test]
fn the_radio_runs_dry_as_often_as_was_asked_for() {
    let mut queues = Vec::new();
    for share in [0.3, 0.1, 0.02] {
        let seconds = run(&mut untold(share), 100, 300, varied(600));
        let load = seconds[100..].iter().map(|second| second.0).sum::<f64>() / 200.0;
        // A radio that is dry still carries a part of what it could.
        assert!(1.0 - load < share + 0.02, "{share}: load {load}");
        queues.push(seconds[100..].iter().map(|second| second.1).sum::<f64>() / 200.0);
    }
    assert!(queues.is_sorted_by(|less, more| less < more), "less dry time is a longer queue: {queues:?}");
}

#[test]
fn a_sender_that_does_not_use_its_window_leaves_the_margin_alone() {
    let mut untold = untold(0.1);
    let _ = run(&mut untold, 50, 5, |_| 1000);
    let before = untold.margin.nanos;
    untold.rate.used_up = false;
    for ms in 0..10_000 {
        untold.look(Instant::from_millis(10_000 + ms), true);
    }
    assert!((untold.margin.nanos - before).abs() < 1.0);
    untold.rate.used_up = true;
    for ms in 0..100_000 {
        untold.look(Instant::from_millis(30_000 + ms), true);
    }
    assert!((untold.margin.nanos - 150e6).abs() < 1.0, "it has a limit: {}", untold.margin.nanos);
}

/// The margin, ms, after so many milliseconds of each load, one look each. `off`: how far the fast rate is
/// off the slow one.
fn margin_after(margin: &mut Margin, off: f64, loads: &[(Load, u64)]) -> f64 {
    let limits = Limits::new(&DsaSyncConfig::default());
    for &(load, millis) in loads {
        for _ in 0..millis {
            let now = margin.looked + Duration::from_millis(1);
            margin.look(now, load, off, &limits);
        }
    }
    margin.nanos / 1e6
}

#[test]
fn a_steady_rate_has_the_least_margin_within_a_second_and_a_varying_one_the_first_again() {
    let mut margin = Margin::NEW;
    assert_eq!(margin_after(&mut margin, 0.2, &[(Load::Busy, 1000)]), 5.0);
    // What a burst of a primary user leaves behind, 100 ms of three seconds, changes nothing for long.
    assert_eq!(margin_after(&mut margin, 0.2, &[(Load::Dry, 100), (Load::Busy, 2900)]), 5.0);
    // Time without anything to send says nothing.
    assert_eq!(margin_after(&mut margin, 0.2, &[(Load::Idle, 10_000)]), 5.0);
    assert!(matches!(margin.search, Search::Trial { dry, .. } if dry > 0.0));
    // Now it is dry for a fifth of the time, until the trial ends: after that the margin rises from 30 ms.
    let varied = [(Load::Dry, 40), (Load::Busy, 160)].repeat(5);
    let found = margin_after(&mut margin, 0.2, &varied);
    assert!((30.0..34.0).contains(&found) && margin.search == Search::Quantile, "{found} ms");
    // From then on it falls by 2 ms in a second.
    let fallen = margin_after(&mut margin, 0.2, &[(Load::Busy, 1000)]);
    assert!((found - fallen - 2.0).abs() < 0.01, "{found} and {fallen} ms");
}

#[test]
fn a_radio_that_is_dry_at_a_steady_rate_keeps_a_short_queue() {
    // As several connections leave it that start again after each silence: dry for a fifth of the time.
    let dry = [(Load::Dry, 40), (Load::Busy, 160)].repeat(100);
    let mut steady = Margin::NEW;
    assert!(margin_after(&mut steady, 0.05, &dry) < 6.0 && steady.search != Search::Quantile);
    // Neither are the first samples after a silence, however far off.
    let mut jumps = Margin::NEW;
    for look in 0..100 {
        let off = if look % 5 == 0 { 1e300 } else { 0.02 };
        let _ = margin_after(&mut jumps, off, &dry[..2]);
    }
    assert!(jumps.search != Search::Quantile, "{jumps:?}");
}

#[test]
fn the_window_is_forecast_and_margin_shared_by_the_stations_flows() {
    let ms = Duration::from_millis;
    let mut untold = untold(0.1);
    assert_eq!(
        (untold.window(ms(100), ms(4), ms(0), 1448, Among::Alone), untold.most_below(ms(4), 5000.0, None)),
        (None, None)
    );
    let _ = run(&mut untold, 100, 60, |_| 1000);
    let margin = untold.margin.nanos / 1e6;
    let window = f64::from(untold.window(ms(100), ms(4), ms(0), 1448, Among::Alone).unwrap());
    let expected = 1000.0 * (100.0 + 4.0 + margin) + 1448.0;
    assert!((window / expected - 1.0).abs() < 0.05, "{window} instead of {expected}");
    untold.shares.count = 4.0;
    let part = f64::from(untold.window(ms(100), ms(4), ms(0), 1448, Among::Alone).unwrap()) - 1448.0;
    assert!(((window - 1448.0) / part - 4.0).abs() < 0.01);
    let below = untold.most_below(ms(4), 5000.0, Some(f64::INFINITY)).unwrap();
    assert!((11_250..=22_250).contains(&below), "{below}");
    // Half of the rate, because another station waits: half of what is beside the queue and the packets. And
    // three flows less, half a packet each.
    let fair = untold.rate.rates.fast().max(untold.rate.rates.slow()) / 2.0;
    let half = untold.most_below(ms(4), 5000.0, Some(fair)).unwrap();
    assert!((below - 8750).abs_diff(2 * (half - 8750)) <= 4, "{half} of {below}");
    untold.shares.count = 1.0;
    assert_eq!(untold.most_below(ms(4), 5000.0, Some(f64::INFINITY)), Some(below - 2250));
}

#[test]
fn acks_that_come_together_add_to_what_lies_below_only_beyond_the_transmit_queues_time() {
    let mut most = Vec::new();
    // 1.5 MB/s, 2 ms away, of which `together` ms are acknowledged at once.
    for together in [1, 2, 10] {
        let mut untold = untold(0.1);
        let at = |ms: u64| Instant::from_millis(1000 + ms);
        for ms in 0..3000 {
            let under_way = UnderWay { dry: false, ..untold.under_way(20_000, 0, Duration::from_millis(2)) };
            untold.rate.on_sent(at(ms), 1500, under_way);
            if ms % together == together - 1 {
                untold.rate.on_acked(at(ms), 1500 * together, 0, under_way);
            }
        }
        most.push(untold.most_below(Duration::from_millis(2), 3000.0, None).expect("it is known"));
    }
    let [alone, pairs, bunches] = most[..] else { unreachable!("three rows") };
    // 3000 bytes of the round trip, as many of the transmit queue, and a packet.
    assert!((7000..8000).contains(&alone) && alone.abs_diff(pairs) < 500, "{most:?}");
    assert!(bunches > alone + 10_000, "{most:?}");
}

/// What is allowed for delayed ACKs lies in the router's queue while no ACK is delayed, so it is not allowed
/// for twice; a packet is there in any case.
#[test]
fn what_flows_may_withhold_stands_in_for_the_transmit_queues_time() {
    let mut untold = untold(0.1);
    let at = |ms: u64| Instant::from_millis(1000 + ms);
    for ms in 0..3000 {
        let under_way = UnderWay { dry: false, ..untold.under_way(20_000, 0, Duration::from_millis(2)) };
        untold.rate.on_sent(at(ms), 1500, under_way);
        untold.rate.on_acked(at(ms), 1500, 0, under_way);
    }
    // 3000 bytes of the round trip and a packet; half a packet for each further flow, of the queue's 6000.
    for (flows, expected) in [(1.0, 10_500), (3.0, 10_500), (7.0, 10_500), (9.0, 12_000), (17.0, 18_000)] {
        untold.shares.count = flows;
        let most = untold.most_below(Duration::from_millis(2), 6000.0, None).expect("it is known");
        assert!(most.abs_diff(expected) < 200, "{flows} flows: {most}");
    }
}
