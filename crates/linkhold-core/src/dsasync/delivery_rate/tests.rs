//! The samples by tables, the windows against a plain sum.

use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_millis(1000 + ms)
}

fn new() -> DeliveryRate {
    DeliveryRate::new(Duration::from_millis(80), Duration::from_millis(500))
}

/// So much is left under way, 20 ms from the station.
fn way(bytes: u64, dry: bool) -> UnderWay {
    UnderWay { bytes, unacknowledged: 0, dry, local: Duration::from_millis(20), few: 3000.0 }
}

/// A link that carries `rate` bytes/ms: a segment of 1000 bytes goes down each `1000 / rate` ms, and is
/// acknowledged 20 ms later, with `dry` said of every ACK.
fn steady(rate: &mut DeliveryRate, from: u64, to: u64, every: u64, dry: bool) {
    let (mut sent, mut acked) = (0u64, 0u64);
    for ms in from..to {
        if ms % every == 0 {
            sent += 1000;
            if sent - acked == 1000 {
                rate.begin_sample(at(ms));
            }
            rate.on_sent(at(ms), 1000, way(sent - acked - 1000, dry));
        }
        if ms >= from + 20 && (ms - 20) % every == 0 && acked < sent {
            acked += 1000;
            rate.on_acked(at(ms), 1000, 0, way(sent - acked, dry));
        }
    }
}

fn per_ms(rate: f64) -> f64 {
    rate * 1e6
}

#[test]
fn a_busy_link_is_measured_and_a_dry_one_only_if_it_is_faster() {
    let mut rate = new();
    // (from ms, to ms, ms for a segment, dry, slow rate afterwards, bytes/ms)
    let rows = [
        (0, 3000, 2, false, 500.0),
        (3000, 6000, 10, true, 500.0),
        (6000, 9000, 1, true, 1000.0),
        (9000, 12_000, 5, false, 200.0),
    ];
    for (from, to, every, dry, expected) in rows {
        steady(&mut rate, from, to, every, dry);
        let slow = per_ms(rate.rates.slow());
        assert!((slow / expected - 1.0).abs() < 0.06, "{slow} instead of {expected} after {to} ms");
    }
}

#[test]
fn a_rate_that_is_too_high_is_found_out_by_the_queue() {
    let mut rate = new();
    steady(&mut rate, 0, 2000, 1, false);
    // A tenth passes from now on, and 100 segments are always under way: less than passed in a round trip of
    // 113 ms at the old rate, and so nothing, by that.
    let passed = |rate: &mut DeliveryRate, from: u64, under_way: u64| {
        for ms in (from..from + 3000).step_by(10) {
            rate.on_sent(at(ms), 1000, way(under_way - 1000, true));
            rate.on_acked(at(ms + 1), 1000, 0, way(under_way, true));
        }
        per_ms(rate.rates.slow())
    };
    let slow = passed(&mut rate, 2000, 100_000);
    assert!((90.0..=120.0).contains(&slow), "{slow}");
    // With as much under way as passes in two round trips it may be the sender that is slow.
    let mut rate = new();
    steady(&mut rate, 0, 2000, 1, false);
    let slow = passed(&mut rate, 2000, 4000);
    assert!((900.0..=1100.0).contains(&slow), "{slow}");
}

#[test]
fn nothing_is_known_before_the_link_was_busy_and_then_the_senders_own_rate_does_not_count() {
    let mut rate = new();
    steady(&mut rate, 0, 1000, 10, true);
    assert!(!rate.is_filled());
    steady(&mut rate, 1000, 1100, 1, false);
    assert!(rate.is_filled());
    let slow = per_ms(rate.rates.slow());
    assert!((800.0..=1050.0).contains(&slow), "{slow}");
}

/// A flow of a segment each 2 ms has a tenth of the link; nobody acknowledges the rest.
#[test]
fn what_passes_beside_counts_but_for_the_part_that_is_lost() {
    // Every so many segments one is lost, and sent again.
    for (again, expected) in [(0, 5000.0), (2, 500.0 + 4500.0 * 2.0 / 3.0), (1, 500.0 + 4500.0 / 2.0)] {
        let mut rate = new();
        let under_way = UnderWay { unacknowledged: 40_000, ..way(20_000, false) };
        for ms in (0..3000).step_by(2) {
            rate.on_sent(at(ms), 1000, under_way);
            if again > 0 && ms % (2 * again) == 0 {
                rate.on_sent_again(1000);
            }
            rate.on_acked(at(ms), 1000, 9000, under_way);
        }
        let slow = per_ms(rate.rates.slow());
        assert!((slow / expected - 1.0).abs() < 0.05, "{slow} instead of {expected}");
    }
}

/// With a segment in more than a second the station is away, if nothing else passes.
#[test]
fn a_sparse_flow_measures_what_passes_between_its_segments() {
    for (beside, expected) in [(0, 500.0), (1_999_000, 1000.0)] {
        let mut rate = new();
        steady(&mut rate, 0, 1000, 2, false);
        for ms in (1000..20_000).step_by(2000) {
            rate.on_sent(at(ms), 1000, way(0, true));
            rate.on_acked(at(ms + 20), 1000, if ms > 1000 { beside } else { 0 }, way(0, true));
        }
        let slow = per_ms(rate.rates.slow());
        assert!((slow / expected - 1.0).abs() < 0.06, "{slow} instead of {expected}");
    }
}

#[test]
fn acks_that_come_together_do_not_make_a_link_faster() {
    // 1000 bytes each ms; ACKs are kept for 30 ms and come at once. Each sample has a whole number of bursts.
    let mut rate = new();
    let (mut sent, mut acked) = (0u64, 0u64);
    for ms in 0..3000 {
        sent += 1000;
        rate.on_sent(at(ms), 1000, way(sent - acked - 1000, false));
        if ms % 30 == 29 {
            while acked + 5000 < sent {
                acked += 1000;
                rate.on_acked(at(ms), 1000, 0, way(sent - acked, false));
            }
        }
    }
    let (fast, slow) = (per_ms(rate.rates.fast()), per_ms(rate.rates.slow()));
    assert!((900.0..=1100.0).contains(&fast) && (950.0..=1050.0).contains(&slow), "{fast} {slow}");
    // Two bunches, but no more than 40 ms of the rate.
    assert!((38_000..=42_000).contains(&rate.for_bunches(1.0)), "{}", rate.for_bunches(1.0));
    // A bunch is forgotten after many bytes: ACKs that come one by one at the link's rate are none, however
    // close.
    steady(&mut rate, 3000, 3200, 1, false);
    let before = rate.for_bunches(1.0);
    steady(&mut rate, 3200, 5000, 1, false);
    assert!(before > 4000, "forgotten after 200 kB: {before}");
    assert!(rate.for_bunches(1.0) < 4000, "single ACKs are no bunches: {}", rate.for_bunches(1.0));
}

/// Four flows that are sent a segment each in their turn, and acknowledge pairs: four ACKs follow each other,
/// and then none comes while four segments pass.
#[test]
fn pairs_of_several_flows_are_no_bunch() {
    let mut rate = new();
    let (mut sent, mut acked) = (15_000u64, 0u64);
    let micros = |micros: u64| Instant::from_nanos(1_000_000_000 + micros * 1000);
    for segment in 0..4000 {
        sent += 1500;
        rate.on_sent(micros(segment * 720), 1500, way(sent - acked - 1500, false));
        if segment % 8 >= 4 {
            acked += 3000;
            rate.on_acked(micros(segment * 720 + 700), 3000, 0, way(20_000, false));
        }
    }
    let (one, four) = (rate.for_bunches(1.0), rate.for_bunches(4.0));
    assert!(one > 10_000 && four < 3100, "{one} of one flow, {four} of four");
}

#[test]
fn a_silence_is_in_no_rate() {
    let mut rate = new();
    for round in 0..10 {
        steady(&mut rate, round * 1000, round * 1000 + 300, 1, false);
        rate.interrupt(at(round * 1000 + 300));
        rate.interrupt(at(round * 1000 + 1000));
    }
    let slow = per_ms(rate.rates.slow());
    assert!((950.0..=1050.0).contains(&slow), "{slow}");
}

#[test]
fn acks_that_were_kept_back_count_with_the_time_in_which_their_data_left() {
    // 1000 bytes each ms for 300 ms without an ACK, then all ACKs in 20 ms.
    let mut rate = new();
    steady(&mut rate, 0, 1000, 1, false);
    let mut left = 20_000;
    for ms in 1000..1300 {
        rate.on_sent(at(ms), 1000, way(left, false));
        left += 1000;
    }
    for ms in 1300..1320 {
        left -= 15_000;
        rate.on_acked(at(ms), 15_000, 0, way(left, false));
    }
    let fast = per_ms(rate.rates.fast());
    assert!((800.0..=1250.0).contains(&fast), "{fast}");
}

proptest! {
    #[test]
    fn a_window_is_the_sum_of_the_latest_spans(
        adds in prop::collection::vec((0u64..20_000, 1u64..60), 1..400),
    ) {
        let mut rates = Rates::new(Duration::from_millis(80), Duration::from_millis(500));
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (bytes, ms) in adds {
            rates.add(bytes, Duration::from_millis(ms), Duration::from_millis(ms));
            all.push((bytes, ms));
            for (rate, length) in [(rates.fast(), 80), (rates.slow(), 500)] {
                // Whatever the spans are, the rate lies between the slowest and the fastest of the latest.
                let mut time = 0;
                let latest: Vec<f64> = all.iter().rev().take_while(|(_, ms)| {
                    let within = time < length + 130;
                    time += ms;
                    within
                }).map(|(bytes, ms)| *bytes as f64 / *ms as f64).collect();
                let least = latest.iter().copied().fold(f64::MAX, f64::min);
                let most = latest.iter().copied().fold(0.0, f64::max);
                prop_assert!(per_ms(rate) >= least - 1e-6 && per_ms(rate) <= most + 1e-6,
                    "{} not in {least}..{most}", per_ms(rate));
            }
        }
    }

    #[test]
    fn no_events_make_it_panic_and_no_rate_is_above_what_came(
        events in prop::collection::vec((0u64..300, 0u32..6, 0u64..6000, 0u64..6000, any::<bool>()), 1..300),
    ) {
        let mut rate = new();
        let (mut now, mut sent, mut acked, mut others) = (0, 0u64, 0u64, 0u64);
        for (pause, kind, bytes, beside, dry) in events {
            now += pause;
            let way = |bytes| UnderWay { unacknowledged: beside, ..way(bytes, dry) };
            match kind {
                0 | 1 => {
                    rate.on_sent(at(now), bytes, way(sent - acked));
                    sent += bytes;
                }
                2 => {
                    let more = bytes.min(sent - acked);
                    acked += more;
                    others += beside;
                    rate.on_acked(at(now), more, beside, way(sent - acked));
                }
                3 => rate.begin_sample(at(now)),
                4 => rate.on_sent_again(bytes as u32),
                _ => rate.interrupt(at(now)),
            }
            prop_assert!(rate.rates.slow().is_finite() && rate.rates.fast().is_finite());
            let most = (sent + others) as f64;
            prop_assert!(per_ms(rate.rates.slow()) <= most, "no time is shorter than 1 ms");
        }
    }
}

#[test]
fn a_sender_that_does_not_use_its_window_says_nothing_of_another_that_does() {
    let mut rate = new();
    let span = Duration::from_millis(100);
    rate.saw_edge(at(0), 1, true, span);
    rate.saw_edge(at(10), 2, false, span);
    assert!(rate.used_up);
    rate.saw_edge(at(20), 2, true, span);
    rate.saw_edge(at(30), 1, false, span);
    assert!(rate.used_up, "the other took its place");
    rate.saw_edge(at(40), 2, false, span);
    assert!(!rate.used_up);
}
