//! A granted uplink: one exchange to the nanosecond, what is asked for when, and what silences do to it.

mod common;

use common::*;
use linkhold_core::link_event::{Cause, LinkEventKind, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::grants::{Backoff, Duplexing, Proactive, Requesting, Steps};
use linkhold_radio::{
    AirConfig, AirConfigError, AirDrop, AirTimeModel, Frame, GrantsConfig, GrantsError, Mac,
    PrimaryUserConfig, UplinkAccounting,
};

const US: fn(u64) -> Duration = Duration::from_micros;

fn contention(codes: u32, slots: u32, backoff: Backoff) -> Requesting {
    Requesting::Contention { codes, subchannels: 1, slots, backoff, backoff_start: 0, backoff_end: 2 }
}

/// Frames of 5 ms without gaps: maps to 0.5 ms, downlink data to 2.5 ms, contention to 3 ms, bursts to 5 ms.
/// At 12 Mbit/s each direction has 3000 bytes a frame. An access takes 2 frames to its message, 1 more to its
/// burst.
fn exact() -> GrantsConfig {
    let duplexing =
        Duplexing::Tdd { downlink_share: Fraction::clamped(0.5), ttg: Duration::ZERO, rtg: Duration::ZERO };
    GrantsConfig {
        duplexing,
        maps: US(500),
        contention: US(500),
        header: 0,
        requesting: contention(16, 3, Backoff::Standard),
        implementation_delay: 0,
        t3: ms(20),
        ..GrantsConfig::default()
    }
}

fn cell(grants: GrantsConfig, stations: u32) -> AirConfig {
    config(Mac::Grants(grants), stations)
}

fn driver(grants: GrantsConfig, stations: u32) -> Driver {
    Driver::new(cell(grants, stations), 1)
}

fn of(frame: Frame, len: u32) -> Frame {
    Frame { len, ..frame }
}

fn micros(at: Instant) -> u64 {
    assert!(at.as_nanos().is_multiple_of(1000), "{at}");
    at.as_nanos() / 1000
}

/// (us, packet) of every delivery.
fn delivered(driver: &Driver) -> Vec<(u64, u64)> {
    driver.delivered.iter().map(|(at, frame)| (micros(*at), frame.packet.0)).collect()
}

/// (us when told, us of the burst, station, bytes) of every grant.
fn grants(driver: &Driver) -> Vec<(u64, u64, u32, u64)> {
    let told = driver.links.iter().filter_map(|event| match event.kind {
        LinkEventKind::Grant { station, at, bytes } => {
            Some((micros(event.detected_at), micros(at), station.0, bytes.0))
        }
        _ => None,
    });
    told.collect()
}

/// (us, station, bytes) of every grant with room left.
fn unused(driver: &Driver) -> Vec<(u64, u32, u64)> {
    let told = driver.links.iter().filter_map(|event| match event.kind {
        LinkEventKind::GrantUnused { station, bytes } => {
            Some((micros(event.detected_at), station.0, bytes.0))
        }
        _ => None,
    });
    told.collect()
}

fn counters(driver: &Driver) -> UplinkAccounting {
    driver.air.uplink().expect("this medium access grants")
}

#[test]
fn the_length_of_frames_is_told_first_and_then_the_downlinks_share_of_the_rate() {
    let mut driver = driver(exact(), 1);
    driver.run(at(10));
    assert_eq!(driver.links[0].kind, LinkEventKind::GrantFrames { period: ms(5) });
    // 24 Mbit/s at 0.5, of which the downlink has 2 ms in 5.
    let (capacity, efficiency) = (BitRate::from_mbps(24), Fraction::clamped(0.2));
    assert_eq!(driver.links[1].kind, LinkEventKind::ChannelSwitched { capacity, efficiency });
    assert_eq!(driver.air.next_event(), None, "an idle cell has no events");
    assert_eq!(driver.air.accounting(at(1000)).capacity_bits, 4_800_000);
}

#[test]
fn an_exchange_takes_code_message_and_burst() {
    // (implementation's delay, told at, burst, delivered), us; the wish comes at 1 ms, the code goes at 2.5
    // ms.
    for (implementation_delay, told, burst, end) in
        // Frames 0: code, 2: message, 3: burst.
        [
            (0, 15_500, 18_000, 20_000),
            // Frames 0, 4 and 7: heard one frame ahead.
            (4, 30_500, 38_000, 40_000),
            // Frames 0, 3 and 4: the rounded half comes before the message.
            (1, 20_500, 23_000, 25_000),
        ]
    {
        let mut driver = driver(GrantsConfig { implementation_delay, ..exact() }, 1);
        driver.put(at(1), up(1, 0));
        driver.run(at(100));
        assert_eq!(grants(&driver), [(told, burst, 0, 1500)]);
        assert_eq!(delivered(&driver), [(end, 1)]);
        let UplinkAccounting { requests, accesses, grants, granted_bytes, access_delay, .. } =
            counters(&driver);
        assert_eq!((requests, accesses, grants, granted_bytes), (1, 1, 1, 1500));
        assert_eq!(access_delay, US(burst - 1000));
        assert_eq!(driver.air.next_event(), None);
    }
}

#[test]
fn a_request_that_tells_the_bytes_needs_no_message() {
    // The uplink's frames of FDD start with the downlink's where there are no maps.
    let docsis = GrantsConfig {
        steps: Steps::One,
        duplexing: Duplexing::Fdd,
        maps: Duration::ZERO,
        assignment: 2,
        ..exact()
    };
    let mut driver = driver(docsis, 1);
    driver.put(at(1), up(1, 0));
    driver.run(at(100));
    // Request in frame 1 (5 ms), burst three frames later, behind its contention part.
    assert_eq!(grants(&driver), [(20_000, 20_500, 0, 1500)]);
    assert_eq!(delivered(&driver), [(25_000, 1)]);
}

#[test]
fn a_scheduling_request_waits_for_its_own_opportunity_and_meets_nobody() {
    let sr = GrantsConfig { requesting: Requesting::Reserved { period: 4 }, ..exact() };
    let mut driver = driver(sr, 3);
    for station in 0..3 {
        driver.put(at(1), up(u64::from(station), station));
    }
    driver.run(at(200));
    // Frames 0, 1 and 2; each burst three frames later.
    assert_eq!(delivered(&driver), [(20_000, 0), (25_000, 1), (30_000, 2)]);
    assert_eq!((counters(&driver).requests, counters(&driver).collisions), (3, 0));
}

#[test]
fn what_comes_before_the_message_is_in_it_and_what_comes_later_is_asked_for_in_the_burst() {
    for (piggyback, last) in [(true, 25_000), (false, 35_000)] {
        let mut driver = driver(GrantsConfig { piggyback, ..exact() }, 1);
        driver.put(at(1), of(up(1, 0), 500));
        // The message goes at 12.5 ms, the burst is filled at 17.5 ms.
        driver.put(at(12), of(up(2, 0), 600));
        driver.put(at(13), of(up(3, 0), 700));
        driver.run(at(100));
        assert_eq!(delivered(&driver), [(20_000, 1), (20_000, 2), (last, 3)], "piggyback {piggyback}");
        assert_eq!(grants(&driver)[0], (15_500, 18_000, 0, 1100));
        assert_eq!(counters(&driver).piggybacked, u64::from(piggyback));
        assert_eq!(counters(&driver).requests, if piggyback { 1 } else { 2 });
        assert!(unused(&driver).is_empty());
    }
}

#[test]
fn a_request_ahead_of_a_packet_takes_its_wait_away() {
    let mut driver = driver(exact(), 1);
    driver.ask(at(1), 0, 1500);
    // Just before the burst is filled.
    driver.put(at(17), up(1, 0));
    driver.run(at(100));
    assert_eq!(delivered(&driver), [(20_000, 1)]);
    assert_eq!((counters(&driver).requests, counters(&driver).unused_grants), (1, 0));
    assert_eq!(driver.air.next_event(), None);
}

#[test]
fn a_request_for_a_packet_that_does_not_come_is_a_grant_unused() {
    let mut driver = driver(GrantsConfig { header: 10, ..exact() }, 1);
    driver.ask(at(1), 0, 60);
    driver.run(at(100));
    assert_eq!(grants(&driver), [(15_500, 18_000, 0, 70)]);
    assert_eq!(unused(&driver), [(20_000, 0, 70)]);
    assert_eq!((counters(&driver).unused_grants, counters(&driver).unused_bytes), (1, 70));
    assert_eq!(driver.air.next_event(), None, "nothing is asked for it again");
    // A packet that comes later asks for itself.
    driver.put(at(101), of(up(1, 0), 60));
    driver.run(at(200));
    assert_eq!(delivered(&driver), [(120_000, 1)]);
}

#[test]
fn another_packet_uses_what_was_asked_for_ahead() {
    let mut driver = driver(exact(), 1);
    driver.ask(at(1), 0, 1000);
    // It fits in part: the rest is asked for in the burst.
    driver.put(at(14), up(1, 0));
    driver.run(at(100));
    assert_eq!(grants(&driver), [(15_500, 18_000, 0, 1000), (20_500, 23_000, 0, 500)]);
    assert_eq!(delivered(&driver), [(25_000, 1)]);
    assert_eq!((counters(&driver).requests, counters(&driver).piggybacked), (1, 1));
}

#[test]
fn a_downlink_burst_has_whole_packets_and_fragments_in_order() {
    let mut driver = driver(exact(), 2);
    for id in 0..5 {
        driver.put(at(1), of(down(id, (id % 2) as u32), 1400));
    }
    driver.run(at(100));
    // 3000 bytes a frame: two packets and 200 bytes of the third, then its rest and one more, 400 of the
    // fifth.
    assert_eq!(delivered(&driver), [(7500, 0), (7500, 1), (12_500, 2), (12_500, 3), (17_500, 4)]);
    assert_eq!(driver.air.next_event(), None);
}

#[test]
fn each_piece_costs_a_header() {
    let mut driver = driver(GrantsConfig { header: 100, ..exact() }, 1);
    for id in 0..3 {
        driver.put(at(1), of(down(id, 0), 1400));
    }
    driver.run(at(100));
    assert_eq!(delivered(&driver), [(7500, 0), (7500, 1), (12_500, 2)], "1500 each: two fill a frame");
}

#[test]
fn a_packet_at_the_very_start_of_a_frame_is_too_late_for_it() {
    let mut driver = driver(exact(), 1);
    driver.put(at(5), down(1, 0));
    driver.put(at(5) + US(2500), up(2, 0));
    driver.run(at(100));
    // The next downlink starts at 10 ms; the next uplink at 12.5 ms, whose access takes three frames more.
    assert_eq!(delivered(&driver), [(12_500, 1), (30_000, 2)]);
}

#[test]
fn a_large_request_goes_on_and_leaves_the_others_their_share() {
    let mut driver = driver(exact(), 3);
    for id in 0..6 {
        driver.put(at(1), up(id, 0));
    }
    driver.put(at(1), of(up(6, 1), 300));
    driver.put(at(1), of(up(7, 2), 300));
    driver.run(at(100));
    assert_eq!(counters(&driver).collisions, 0, "or the draw of this seed must be another");
    let told = grants(&driver);
    // Of 3000 bytes 300 go to each of two stations, the rest to the one that wants more.
    let first: Vec<(u32, u64)> = told
        .iter()
        .filter(|grant| grant.0 == 15_500)
        .map(|&(_, _, station, bytes)| (station, bytes))
        .collect();
    assert_eq!(first, [(0, 2400), (1, 300), (2, 300)]);
    // Bursts follow each other: 2400 bytes take 1600 us.
    assert_eq!(told[1].1, 18_000 + 1600);
    assert_eq!(told.iter().map(|grant| grant.3).sum::<u64>(), 9000 + 600);
    assert_eq!(driver.delivered.len(), 8);
}

#[test]
fn two_that_draw_the_same_collide_and_back_off_after_t3() {
    let mut driver = driver(GrantsConfig { requesting: contention(1, 1, Backoff::Standard), ..exact() }, 2);
    driver.put(at(1), up(1, 0));
    driver.put(at(1), up(2, 1));
    driver.run(at(1000));
    assert_eq!(driver.delivered.len(), 2);
    let counters = counters(&driver);
    assert!(counters.collisions >= 2 && counters.collisions.is_multiple_of(2), "{counters:?}");
    assert_eq!(counters.t3_expiries, counters.collisions);
    assert_eq!(counters.requests, counters.collisions + 2);
    // T3 of 20 ms is 4 frames: the second tries are made in frame 4 (window of 2) at the earliest.
    assert!(driver.delivered[0].0 >= at(5 * 8), "{}", driver.delivered[0].0);
}

#[test]
fn a_station_that_is_never_heard_gives_its_oldest_packet_up() {
    let deaf = GrantsConfig { success: Fraction::clamped(1e-12), max_tries: 3, ..exact() };
    let paper = GrantsConfig { requesting: contention(16, 3, Backoff::Paper), ..deaf };
    let mut driver = driver(paper, 1);
    driver.put(at(1), up(1, 0));
    driver.put(at(1), up(2, 0));
    driver.run(at(100));
    let dropped: Vec<_> =
        driver.dropped.iter().map(|&(at, frame, why)| (micros(at), frame.packet.0, why)).collect();
    // Tries in frames 0, 1 and 3; then anew in 4, 5 and 7.
    assert_eq!(dropped, [(20_000, 1, AirDrop::NoGrant), (40_000, 2, AirDrop::NoGrant)]);
    let UplinkAccounting { requests, tries_lost, given_up, t3_expiries, .. } = counters(&driver);
    assert_eq!((requests, tries_lost, given_up, t3_expiries), (6, 6, 2, 0));
    // By the standard, each try is followed by T3 and a window.
    let mut driver = self::driver(deaf, 1);
    driver.put(at(1), up(1, 0));
    driver.run(at(1000));
    let [(when, _, AirDrop::NoGrant)] = driver.dropped[..] else { panic!("{:?}", driver.dropped) };
    assert!(when >= at(12 * 5) && when <= at((12 + 2 + 4) * 5), "{when}");
    assert_eq!(counters_of(&driver), (3, 3));
}

fn counters_of(driver: &Driver) -> (u64, u64) {
    (counters(driver).requests, counters(driver).t3_expiries)
}

#[test]
fn nobody_asks_where_every_frame_has_a_grant() {
    let each_frame = Some(Proactive { bytes: Bytes(200), period: 1 });
    let mut driver = driver(GrantsConfig { proactive: each_frame, ..exact() }, 1);
    driver.put(at(7), of(up(1, 0), 60));
    driver.run(at(50) - US(1));
    assert_eq!(delivered(&driver), [(10_000, 1)]);
    assert_eq!(counters(&driver).requests, 0);
    // Nine frames have ended: eight grants of 200 bytes had no use, and 140 of one.
    assert_eq!((counters(&driver).grants, counters(&driver).granted_bytes), (10, 2000));
    assert_eq!(unused(&driver).iter().map(|&(_, _, bytes)| bytes).sum::<u64>(), 8 * 200 + 140);
    // More than a grant has: the rest is asked for in the burst, not in contention.
    driver.put(at(51), of(up(2, 0), 1000));
    driver.run(at(100));
    assert_eq!(driver.delivered.len(), 2);
    assert_eq!((counters(&driver).requests, counters(&driver).piggybacked), (0, 1));
}

#[test]
fn between_rare_grants_a_station_asks() {
    let rare = Some(Proactive { bytes: Bytes(200), period: 20 });
    let mut driver = driver(GrantsConfig { proactive: rare, ..exact() }, 1);
    driver.put(at(7), of(up(1, 0), 60));
    driver.run(at(60));
    assert_eq!(delivered(&driver), [(25_000, 1)]);
    assert_eq!((counters(&driver).requests, counters(&driver).grants), (1, 2));
}

#[test]
fn no_burst_is_granted_that_a_quiet_period_would_cut() {
    // Silent from 4 to 16 ms: of frames 0 to 3 only frame 0's downlink and its contention would fit.
    let mut config = cell(exact(), 1);
    config.sensing = Some(sensing(1000, 12, 4));
    let mut driver = Driver::new(config, 1);
    driver.put(at(1), up(1, 0));
    driver.put(at(1), down(2, 0));
    driver.run(at(100));
    // The uplink subframe of frame 0 would end at 5 ms. In frame 3, from 17.5 ms, the code; the burst in
    // frame 6.
    assert_eq!(delivered(&driver), [(22_500, 2), (35_000, 1)]);
    assert_eq!((counters(&driver).requests, counters(&driver).tries_lost), (1, 0));
}

/// A cell of which a primary user takes a third.
fn with_user(grants: GrantsConfig, detection: u64) -> AirConfig {
    let mut config = cell(grants, 2);
    config.channels[0].primary_user = Some(PrimaryUserConfig {
        on_mean: ms(30),
        off_mean: ms(60),
        detection_delay: ms(detection),
        end_detection_delay: Duration::ZERO,
        fixed: false,
    });
    config
}

#[test]
fn what_a_primary_user_cuts_is_sent_again_and_nothing_is_lost() {
    for detection in [0, 3] {
        let mut config = with_user(exact(), detection);
        config.retry_limit = 1000;
        let mut driver = Driver::new(config, 3);
        for id in 0..400 {
            let station = (id % 2) as u32;
            let frame = if id % 4 < 2 { up(id, station) } else { down(id, station) };
            driver.put(at(5 * id), frame);
        }
        driver.run(at(4000));
        assert_eq!((driver.delivered.len(), driver.dropped.len()), (400, 0), "detected after {detection} ms");
        assert_eq!(driver.air.frames_inside(), 0);
        let mut silences = Vec::new();
        driver.air.take_silences(&mut silences);
        assert!(silences.len() > 10);
        for (when, _) in &driver.delivered {
            assert!(silences.iter().all(|silence| !(silence.start < *when && *when < silence.end)), "{when}");
        }
    }
}

#[test]
fn a_burst_that_was_cut_is_granted_again_without_another_access() {
    // A user that is noticed at once, and first comes in the burst's part of an uplink subframe. The packet
    // comes three frames before, so that its burst is on the air then.
    let comes = |seed| {
        let mut driver = Driver::new(with_user(exact(), 0), seed);
        driver.run(at(2000));
        let told = driver.links.iter().find(|event| {
            matches!(event.kind, LinkEventKind::FreezeStarted { cause: Cause::PrimaryUser, .. })
        });
        told.expect("the user comes").detected_at
    };
    let fits = |start: Instant| start > at(25) && start.as_nanos() % 5_000_000 > 3_100_000;
    let (seed, start) = (0..100).map(|seed| (seed, comes(seed))).find(|told| fits(told.1)).expect("some fit");
    let mut driver = Driver::new(with_user(exact(), 0), seed);
    driver.put(at(5 * (start.as_nanos() / 5_000_000 - 3) + 1), up(1, 0));
    driver.run(at(3000));
    assert_eq!((driver.delivered.len(), counters(&driver).requests), (1, 1));
    assert!(driver.delivered[0].0 > start);
}

#[test]
fn a_grant_unasked_for_that_nobody_used_leaves_no_demand_when_it_is_cut() {
    for detection in [0, 3] {
        let each_frame = Some(Proactive { bytes: Bytes(200), period: 1 });
        let mut driver =
            Driver::new(with_user(GrantsConfig { proactive: each_frame, ..exact() }, detection), 1);
        driver.run(at(4000));
        // Nothing else tells of a demand of no bytes, which no grant ever meets.
        let left = format!("{:?}", driver.air).matches("Demand {").count();
        assert_eq!((left, counters(&driver).requests), (0, 0), "detected after {detection} ms");
    }
}

#[test]
fn waiting_and_the_downlinks_pause_are_told_if_asked_for() {
    let mut driver = driver(GrantsConfig { tell_silences: true, ..exact() }, 1);
    driver.put(at(1), up(1, 0));
    driver.run(at(24));
    let told: Vec<(u64, bool, bool)> = driver
        .links
        .iter()
        .filter_map(|event| match event.kind {
            LinkEventKind::FreezeStarted { scope, cause: Cause::Grant, .. } => {
                Some((micros(event.detected_at), true, scope == Scope::Network))
            }
            LinkEventKind::FreezeEnded { scope, cause: Cause::Grant } => {
                Some((micros(event.detected_at), false, scope == Scope::Network))
            }
            _ => None,
        })
        .collect();
    let station: Vec<_> = told.iter().filter(|told| !told.2).map(|&(at, begins, _)| (at, begins)).collect();
    assert_eq!(station, [(1000, true), (17_500, false)], "from the packet's arrival to its burst's subframe");
    let network: Vec<_> = told.iter().filter(|told| told.2).map(|&(at, begins, _)| (at, begins)).collect();
    let frames = (0..5).flat_map(|frame| [(5000 * frame, false), (5000 * frame + 2500, true)]);
    assert_eq!(network, frames.skip(1).take(9).collect::<Vec<_>>());
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refused = |config: AirConfig| linkhold_radio::Air::new(config, 1).expect_err("it does not fit");
    let frame = refused(cell(GrantsConfig { frame: ms(7), ..exact() }, 1));
    assert!(matches!(frame, AirConfigError::Grants(GrantsError::Frame { .. })), "{frame}");
    let mut timed = cell(exact(), 1);
    timed.air_time = AirTimeModel::Ieee80211a;
    assert_eq!(refused(timed), AirConfigError::GrantsPerByte);
    let too_much = Some(Proactive { bytes: Bytes(1001), period: 1 });
    assert_eq!(
        refused(cell(GrantsConfig { proactive: too_much, ..exact() }, 3)),
        AirConfigError::Grants(GrantsError::Grant { wanted: 3003, room: 3000 })
    );
}

#[test]
fn a_request_of_a_station_that_does_not_exist_is_nobodys() {
    let mut driver = driver(exact(), 1);
    driver.run(at(1));
    driver.air.request_uplink(at(1), StationId(7), Bytes(100));
    assert_eq!(driver.air.next_event(), None);
}
