//! The clamp: its filter, its rate told and measured, its shares, and the loop it closes through a sender.

use super::*;

#[test]
fn the_filter_forgets_an_old_minimum_but_not_its_last_sample() {
    let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
    let ms = Duration::from_millis;
    let mut filter = MinFilter::default();
    assert_eq!(filter.get(), None);
    for (time, sample, least) in [(0, 30, 30), (1, 10, 10), (2, 40, 10), (12, 40, 10), (23, 40, 40)] {
        filter.add(at(time), ms(sample));
        assert_eq!(filter.get(), Some(ms(least)), "at {time} s");
    }
    assert_eq!(filter.get(), Some(ms(40)));
}

#[test]
fn the_clamp_is_the_bandwidth_delay_product_and_the_standing_queue() {
    let ms = Duration::from_millis;
    let mut bdp = Bdp::new(ms(20));
    assert_eq!(bdp.clamp(ms(50), ms(0), 1448), None);
    bdp.set_capacity(BitRate::from_mbps(24), Fraction::clamped(0.5));
    // 12 Mb/s × 70 ms / 8, and a segment
    assert_eq!(bdp.clamp(ms(48), ms(2), 1448), Some(105_000 + 1448));
    assert_eq!(Bdp { share_of: 1000.0, ..bdp }.clamp(ms(48), ms(2), 1448), Some(2896));
}

#[test]
fn the_rate_is_what_is_delivered_but_never_far_from_the_channels() {
    // (bytes acknowledged each millisecond, share of C·e believed)
    for (per_ms, share) in [(900, 0.9), (1200, 1.0), (100, 0.8)] {
        let mut bdp = Bdp::new(Duration::ZERO);
        bdp.set_capacity(BitRate::from_mbps(8), Fraction::ONE);
        assert!((bdp.rate().unwrap().0 - 0.001).abs() < 1e-9);
        for ms in 0..1000 {
            bdp.on_delivered(Instant::from_millis(ms), per_ms, 10_000);
        }
        let (rate, gain) = bdp.rate().unwrap();
        assert!((rate / 0.001 - share).abs() < 0.03 && gain == 1.0, "{per_ms}: {rate}");
    }
}

#[test]
fn equal_flows_share_equally_and_thin_ones_hardly_count() {
    // (bytes of each flow per round, share)
    for (flows, expected) in [(vec![1500; 4], 4.0), (vec![15_000, 150, 150, 150], 1.03)] {
        let mut bdp = Bdp::new(Duration::ZERO);
        let mut tallies = vec![(0u32, 0u64); flows.len()];
        for round in 0..2000u64 {
            for (len, (epoch, bytes)) in flows.iter().zip(&mut tallies) {
                bdp.on_sent(Instant::from_millis(10 * round), *len, epoch, bytes);
            }
        }
        assert!((bdp.share_of - expected).abs() < 0.05, "{} for {flows:?}", bdp.share_of);
    }
}

#[test]
fn a_rate_that_is_not_told_is_measured_and_given_twice() {
    let ms = Duration::from_millis;
    let mut bdp = Bdp::new(ms(10));
    assert_eq!((bdp.clamp(ms(50), ms(0), 1448), bdp.pace()), (None, None));
    for at in 0..300 {
        bdp.on_delivered(Instant::from_millis(at), 1000, 10_000);
    }
    // 8 Mb/s × 60 ms × 2, and a segment
    let window = bdp.clamp(ms(50), ms(0), 1448).unwrap() - 1448;
    assert!((118_000..=123_000).contains(&window), "{window}");
    assert!(bdp.pace().is_some_and(|pace| (9_900_000..10_300_000).contains(&pace.as_bps())));
    // Told, it counts as told; withdrawn, it is measured anew.
    bdp.set_capacity(BitRate::from_mbps(8), Fraction::ONE);
    assert_eq!((bdp.clamp(ms(50), ms(0), 1448), bdp.pace()), (Some(60_000 + 1448), None));
    bdp.set_capacity(BitRate(0), Fraction::ONE);
    assert_eq!(bdp.clamp(ms(50), ms(0), 1448), None);
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
        let (rate, _) = bdp.rate().unwrap();
        assert!((rate / expected - 1.0).abs() < 0.05, "busy {busy}: {rate}");
        bdp = Bdp::new(Duration::ZERO);
    }
}

/// A sender that always fills the window it is told, a wired round trip of 50 ms, and a radio with a queue of
/// any length, in steps of 1 ms. Gives, of each second, the radio's load and the shortest queue, ms.
fn closed_loop(bdp: &mut Bdp, rates: &[u64]) -> Vec<(f64, u64)> {
    const WIRED: usize = 50;
    let ms = Duration::from_millis;
    let mut wire = std::collections::VecDeque::from([0u64; WIRED]);
    let (mut sent, mut acked, mut queue) = (0u64, 0u64, std::collections::VecDeque::new());
    let (mut queued, mut at, mut results) = (0u64, 0u64, Vec::new());
    bdp.note_base(ms(WIRED as u64), ms(1));
    for &rate in rates {
        let (mut carried, mut shortest) = (0, u64::MAX);
        for _ in 0..1000 {
            at += 1;
            let now = Instant::from_millis(at);
            // What has no window yet is in slow start: ten segments, doubling each round trip, at most 1 MB.
            let free = (14_480u64 << (at / WIRED as u64).min(6)).min(1_000_000);
            let window =
                bdp.clamp(ms(WIRED as u64), ms(1), 1448).map_or(free, |clamp| free.min(u64::from(clamp)));
            let more = window.saturating_sub(sent - acked);
            sent += more;
            wire.push_back(more);
            let arrived = wire.pop_front().unwrap();
            queued += arrived;
            queue.push_back((at, arrived));
            let mut room = rate.min(queued);
            (queued, carried) = (queued - room, carried + room);
            acked += room;
            bdp.on_delivered(now, room, queued);
            while let Some((since, bytes)) = queue.front_mut() {
                let part = room.min(*bytes);
                (room, *bytes) = (room - part, *bytes - part);
                if *bytes > 0 {
                    break;
                }
                shortest = shortest.min(at - *since);
                if part > 0 {
                    bdp.on_radio_time(now, ms(at - *since + 1));
                }
                queue.pop_front();
            }
        }
        results.push((carried as f64 / (1000 * rate) as f64, shortest));
    }
    results
}

#[test]
fn a_measured_rate_fills_the_radio_follows_it_upwards_and_leaves_a_short_queue() {
    // 8 Mb/s for 20 s, four times as much for 20 s, then a fifth of that for 40 s.
    let rates: Vec<u64> = [vec![1000; 20], vec![4000; 20], vec![800; 40]].concat();
    let seconds = closed_loop(&mut Bdp::new(Duration::from_millis(10)), &rates);
    for (second, &(load, _)) in seconds.iter().enumerate() {
        // In the second in which the rate has risen a few round trips pass until it is found.
        let least = if second == 0 || second == 20 { 0.5 } else { 0.99 };
        assert!(load >= least, "{load} in second {second}: {seconds:?}");
    }
    for second in [19, 39, 79] {
        let (_, shortest) = seconds[second];
        assert!((5..=20).contains(&shortest), "{shortest} ms in second {second}: {seconds:?}");
    }
}

#[test]
fn the_trim_takes_back_what_queues_and_gives_all_again_once_the_radio_ran_dry() {
    let ms = Duration::from_millis;
    let mut bdp = Bdp::new(ms(10));
    bdp.set_capacity(BitRate::from_mbps(24), Fraction::ONE);
    bdp.note_base(ms(50), ms(1));
    let mut at = 0;
    // (time in the radio, ms, the window's share after ten seconds of it)
    for (time, share) in [(30, 0.5), (11, 0.5), (1, 1.0), (11, 1.0), (12, 0.6)] {
        for _ in 0..1000 {
            at += 10;
            bdp.on_radio_time(Instant::from_millis(at), ms(time));
        }
        // 24 Mb/s × 61 ms
        let window = f64::from(bdp.clamp(ms(50), ms(1), 1448).unwrap()) / 183_000.0;
        assert!((window - share).abs() < 0.02, "{window} after {time} ms");
    }
}
