use proptest::prelude::*;

use super::*;
use crate::spectrum::occupancy::Occupancy;

fn user(id: u32, band: u16) -> User {
    User { id, x: f64::from(id), y: 0.5, band: Band::new(band).unwrap(), power: 0.25 }
}

fn burst(user: u32, arrival: u64, departure: u64, line: u32) -> Burst {
    let (arrival, departure) = (Instant::from_nanos(arrival), Instant::from_nanos(departure));
    Burst { user, arrival, departure, line }
}

const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn on_band_one(log: &PuLog, from: u64, to: u64) -> Vec<(u32, u64, u64)> {
    let mut found = Vec::new();
    log.for_each_on(Band::new(1).unwrap(), at(from), at(to), |user, arrival, departure| {
        found.push((log.users()[user].id, arrival.as_nanos(), departure.as_nanos()));
    });
    found
}

#[test]
fn a_look_up_finds_the_bursts_of_its_band_and_time() {
    let users = vec![user(7, 1), user(3, 1), user(5, 2)];
    let bursts = vec![burst(0, 10, 20, 1), burst(1, 15, 30, 2), burst(0, 40, 50, 3), burst(2, 0, 99, 4)];
    let log = PuLog::new(users, bursts, 4).unwrap();
    assert_eq!((log.bands(), log.bursts(), log.end()), (4, 4, at(99)));
    assert_eq!(on_band_one(&log, 0, 10), []);
    assert_eq!(on_band_one(&log, 0, 11), [(7, 10, 20)]);
    assert_eq!(on_band_one(&log, 15, 15), [(7, 10, 20), (3, 15, 30)]);
    assert_eq!(on_band_one(&log, 20, 40), [(3, 15, 30)]);
    assert_eq!(on_band_one(&log, 30, 40), []);
    assert_eq!(on_band_one(&log, 0, 1000), [(7, 10, 20), (3, 15, 30), (7, 40, 50)]);
    let one = Band::new(1).unwrap();
    assert!(log.any_on(one, at(16), at(16), |user| user.id == 3));
    assert!(!log.any_on(one, at(12), at(13), |user| user.id == 3));
    assert!(!log.any_on(Band::new(4).unwrap(), at(0), at(1000), |_| true));
    assert!(!log.any_on(Band::new(9).unwrap(), at(0), at(1000), |_| true), "a band past the last is empty");
    let changes: Vec<u64> =
        [0, 10, 15, 20, 30, 40].map(|now| log.next_change(one, at(now)).unwrap().as_nanos()).into();
    assert_eq!(changes, [10, 15, 20, 30, 40, 50]);
    assert_eq!(log.next_change(one, at(50)), None);
}

#[test]
fn one_users_bursts_are_found_by_time() {
    let users = vec![user(7, 1), user(3, 1)];
    let log =
        PuLog::new(users, vec![burst(0, 40, 50, 1), burst(0, 10, 20, 2), burst(1, 0, 9, 3)], 1).unwrap();
    // Users are sorted by identifier: 7 is the second.
    assert_eq!(log.bursts_of(1).collect::<Vec<_>>(), [(at(10), at(20)), (at(40), at(50))]);
    assert_eq!(log.bursts_of(2).count(), 0);
    for (now, until) in [(9, None), (10, Some(20)), (19, Some(20)), (20, None), (45, Some(50)), (50, None)] {
        assert_eq!(log.on_until(1, at(now)), until.map(at), "{now}");
    }
    assert_eq!(log.on_until(2, at(0)), None);
}

#[test]
fn bursts_that_cannot_be_are_refused_with_the_line_that_shows_it() {
    let users = || vec![user(7, 1), user(3, 1)];
    let refused = |bursts| PuLog::new(users(), bursts, 1).unwrap_err();
    let error = refused(vec![burst(0, 10, 20, 4), burst(1, 10, 20, 5), burst(0, 19, 25, 6)]);
    assert_eq!(error, PuLogError { line: 6, kind: PuLogErrorKind::Overlap(7, 4) });
    // A burst that holds another one entirely, named later.
    let error = refused(vec![burst(0, 12, 13, 4), burst(0, 10, 20, 9)]);
    assert_eq!(error, PuLogError { line: 9, kind: PuLogErrorKind::Overlap(7, 4) });
    assert_eq!(refused(vec![burst(0, 10, 10, 4)]).kind, PuLogErrorKind::NotAfter);
    assert_eq!(refused(vec![burst(2, 10, 20, 4)]).kind, PuLogErrorKind::UnknownUser(2));
    let doubled = PuLog::new(vec![user(7, 1), user(7, 1)], Vec::new(), 1).unwrap_err();
    assert!(matches!(doubled.kind, PuLogErrorKind::Doubled(7, _)));
    assert!(PuLog::new(users(), vec![burst(0, 10, 20, 1), burst(0, 20, 30, 2)], 1).is_ok(), "they may touch");
}

/// Users of two bands with bursts that do not overlap, as steps from one to the next.
fn logs() -> impl Strategy<Value = (Vec<User>, Vec<Burst>)> {
    let steps = prop::collection::vec((0_u64..50, 1_u64..50), 0..12);
    prop::collection::vec((1_u16..=2, steps), 1..8).prop_map(|list| {
        let mut bursts = Vec::new();
        let users = (0..).zip(&list).map(|(index, (band, steps))| {
            let mut now = 0;
            for (pause, length) in steps {
                bursts.push(burst(index, now + pause, now + pause + length, bursts.len() as u32 + 1));
                now += pause + length;
            }
            user(100 - index, *band)
        });
        (users.collect(), bursts)
    })
}

proptest! {
    #[test]
    fn look_ups_agree_with_looking_through_the_whole_list(
        (users, bursts) in logs(), from in 0_u64..600, length in 0_u64..60,
    ) {
        let log = PuLog::new(users.clone(), bursts.clone(), 2).unwrap();
        let (one, to) = (Band::new(1).unwrap(), (from + length).max(from + 1));
        let on_band = |burst: &&Burst| users[burst.user as usize].band == one;
        let mut expected: Vec<_> = bursts
            .iter()
            .filter(on_band)
            .map(|burst| (users[burst.user as usize].id, burst.arrival.as_nanos(), burst.departure.as_nanos()))
            .filter(|&(_, arrival, departure)| arrival < to && departure > from)
            .collect();
        let mut found = on_band_one(&log, from, from + length);
        prop_assert!(found.is_sorted_by_key(|&(_, arrival, _)| arrival));
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(log.any_on(one, at(from), at(from + length), |_| true), !expected.is_empty());
        let merged = Occupancy::of(&log, one, |_| true);
        prop_assert_eq!(merged.is_on_within(at(from), at(from + length)), !expected.is_empty());
        let times = bursts.iter().filter(on_band).flat_map(|burst| [burst.arrival, burst.departure]);
        prop_assert_eq!(log.next_change(one, at(from)), times.filter(|&time| time > at(from)).min());
        for index in 0..users.len() {
            let until = log.bursts_of(index).find(|&(start, end)| start <= at(from) && at(from) < end);
            prop_assert_eq!(log.on_until(index, at(from)), until.map(|(_, end)| end));
            let within = log.bursts_of(index).any(|(start, end)| start < at(to) && at(from) < end);
            prop_assert_eq!(log.is_on_within(index, at(from), at(from + length)), within);
            let changes = log.bursts_of(index).flat_map(|(start, end)| [start, end]);
            prop_assert_eq!(log.next_change_of(index, at(from)), changes.filter(|&time| time > at(from)).min());
        }
    }

    #[test]
    fn the_order_of_bursts_does_not_matter((users, bursts) in logs(), turn in 0_usize..100) {
        let mut turned = bursts.clone();
        if !turned.is_empty() {
            let by = turn % turned.len();
            turned.rotate_left(by);
        }
        prop_assert_eq!(PuLog::new(users.clone(), turned, 2), PuLog::new(users, bursts, 2));
    }

    #[test]
    fn a_log_that_is_written_is_read_again((users, bursts) in logs()) {
        let log = PuLog::new(users, bursts, 2).unwrap();
        prop_assert_eq!(PuLog::parse(log.to_string().as_bytes(), Some(2)), Ok(log));
    }
}
