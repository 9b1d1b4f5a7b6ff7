//! The granted uplink against closed forms: lookahead's equation (2), and slotted ALOHA.

mod common;

use common::*;
use linkhold_core::time::Duration;
use linkhold_core::units::Fraction;
use linkhold_radio::grants::{Backoff, FRAMES_802_16, Requesting};
use linkhold_radio::grants_model::{
    AccessTimes, collision_probability, mean_access_delay, random_access_delay,
};
use linkhold_radio::{Frame, GrantsConfig, Mac};

fn requesting(codes: u32, subchannels: u32, slots: u32) -> Requesting {
    let backoff = Backoff::Paper;
    Requesting::Contention { codes, subchannels, slots, backoff, backoff_start: 0, backoff_end: 0 }
}

/// Mean time, s, from the start of the uplink subframe of a station's first try to the end of its burst's,
/// over `accesses` of a station alone; and the share of them that succeed.
fn simulated(grants: GrantsConfig, accesses: u64) -> (f64, f64) {
    let (frame, layout) = (grants.frame.as_nanos(), grants.layout());
    let mut driver = Driver::new(config(Mac::Grants(grants), 1), 1);
    // Longer than 2^tries frames and the access.
    let apart = frame * (2 << grants.max_tries);
    for id in 0..accesses {
        // A nanosecond before an uplink subframe starts, so that there is no wait.
        let wish = apart * id + layout.up_start.as_nanos() - 1;
        driver.put(linkhold_core::time::Instant::from_nanos(wish), Frame { len: 60, ..up(id, 0) });
    }
    driver.run(linkhold_core::time::Instant::from_nanos(apart * (accesses + 1)));
    assert_eq!(driver.delivered.len() + driver.dropped.len(), accesses as usize);
    let sum: u64 = driver
        .delivered
        .iter()
        .map(|(at, frame)| at.as_nanos() - (apart * frame.packet.0 + layout.up_start.as_nanos()))
        .sum();
    let delivered = driver.delivered.len() as f64;
    (sum as f64 / 1e9 / delivered, delivered / accesses as f64)
}

#[test]
fn the_mean_access_delay_is_within_2_percent_of_equation_2() {
    for us in FRAMES_802_16 {
        for (success, accesses) in [(1.0, 50), (0.9, 4000), (0.5, 40_000)] {
            let grants = GrantsConfig {
                frame: Duration::from_micros(us),
                requesting: requesting(16, 1, 3),
                success: Fraction::clamped(success),
                implementation_delay: 0,
                max_tries: 8,
                ..GrantsConfig::default()
            };
            let layout = grants.layout();
            let times = AccessTimes {
                success: grants.success,
                tries: grants.max_tries,
                frame: grants.frame,
                assignment: grants.frame * grants.assignment,
                transmit: layout.up_end.saturating_sub(layout.up_start),
            };
            let (mean, share) = simulated(grants, accesses);
            let printed = random_access_delay(&times).as_secs_f64();
            let of_successes = mean_access_delay(&times).as_secs_f64();
            println!(
                "{us} us, p_s {success}: simulated {:.4} ms, equation (2) {:.4} ms ({:+.2} %), of what succeeds \
                 {:.4} ms ({:+.2} %)",
                1e3 * mean,
                1e3 * printed,
                100.0 * (mean / printed - 1.0),
                1e3 * of_successes,
                100.0 * (mean / of_successes - 1.0)
            );
            assert!((mean / printed - 1.0).abs() < 0.02, "{us} us, {success}: {mean}, not {printed}");
            assert!(
                (mean / of_successes - 1.0).abs() < 0.02,
                "{us} us, {success}: {mean}, not {of_successes}"
            );
            assert!((share - (1.0 - (1.0 - success).powi(8))).abs() < 0.002, "{share}");
        }
    }
}

#[test]
fn with_the_papers_implementation_the_access_takes_eight_frames() {
    let grants = GrantsConfig { requesting: requesting(16, 1, 3), ..GrantsConfig::default() };
    let layout = grants.layout();
    let (mean, _) = simulated(grants, 10);
    // Seven frames to the start of the burst's subframe, which is the eighth.
    let transmit = layout.up_end.saturating_sub(layout.up_start);
    assert!((mean - (7.0 * 5e-3 + transmit.as_secs_f64())).abs() < 1e-9, "{mean}");
}

#[test]
fn collisions_are_within_3_percent_of_slotted_aloha() {
    // The last four have more than one ranging subchannel.
    for (codes, subchannels, slots) in
        [(1, 1, 2), (4, 1, 1), (4, 1, 3), (16, 1, 3), (1, 2, 1), (4, 2, 1), (2, 3, 2), (16, 4, 3)]
    {
        for stations in [2, 5, 10, 20, 50] {
            let requesting = requesting(codes, subchannels, slots);
            let grants = GrantsConfig { requesting, max_tries: 1, ..GrantsConfig::default() };
            let expected = collision_probability(stations, codes, subchannels, slots);
            // Enough requests that the closed form is met within 1 % (one deviation): collisions come in
            // pairs at the rarest. Who collides gives up, so that every round has the same stations.
            let rounds = (2e4 / (expected * f64::from(stations))).ceil().max(400.0) as u64;
            let mut driver = Driver::new(config(Mac::Grants(grants), stations), 7);
            for round in 0..rounds {
                for station in 0..stations {
                    let id = round * u64::from(stations) + u64::from(station);
                    driver.put(at(100 * round + 1), Frame { len: 60, ..up(id, station) });
                }
                driver.run(at(100 * (round + 1)));
                driver.delivered.clear();
                driver.dropped.clear();
                driver.links.clear();
            }
            let uplink = driver.air.uplink().expect("it grants");
            assert_eq!(uplink.requests, rounds * u64::from(stations), "one try each");
            let measured = uplink.collisions as f64 / uplink.requests as f64;
            println!(
                "{codes} codes, {subchannels} subchannels, {slots} slots, {stations} stations: {measured:.4}, closed form \
                 {expected:.4} ({:+.2} %)",
                100.0 * (measured / expected - 1.0)
            );
            assert!((measured / expected - 1.0).abs() < 0.03, "{measured}, not {expected}");
        }
    }
}
