//! The silences as the link monitor has them.

use proptest::prelude::*;

use super::*;
use crate::link_event::Cause;
use crate::link_monitor::{LinkMonitor, LinkMonitorConfig};

const SCOPE: Scope = Scope::Network;
const CAUSE: Cause = Cause::PrimaryUser;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn start(told: u64, ms: u64, length: Option<u64>) -> LinkEvent {
    let expected = length.map(Duration::from_millis);
    let kind = LinkEventKind::FreezeStarted { scope: SCOPE, cause: CAUSE, expected };
    LinkEvent { detected_at: at(told), effective_at: Some(at(ms)), kind }
}

fn end(told: u64, ms: u64) -> LinkEvent {
    let kind = LinkEventKind::FreezeEnded { scope: SCOPE, cause: CAUSE };
    LinkEvent { detected_at: at(told), effective_at: Some(at(ms)), kind }
}

/// What takes effect, and when, ms, if the events are told when they were detected.
fn all(events: &[LinkEvent]) -> Vec<(bool, u64)> {
    let mut silences = Silences::without_limit();
    let mut found = Vec::new();
    let mut note = |now: Instant, told| match told {
        Told::Nothing => {}
        Told::Begun { .. } => found.push((true, now.since(Instant::ZERO).as_millis())),
        Told::Over { .. } => found.push((false, now.since(Instant::ZERO).as_millis())),
    };
    for event in events {
        while let Some(due) = silences.next_timeout().filter(|due| *due <= event.detected_at) {
            note(due, silences.on_timeout(due).expect("its time has come"));
        }
        note(event.detected_at, silences.on_event(event.detected_at, event));
    }
    while let Some(due) = silences.next_timeout() {
        note(due, silences.on_timeout(due).expect("its time has come"));
    }
    found
}

#[test]
fn silences_that_do_not_overlap_are_kept_each_and_one_told_again_moves() {
    let told = [start(0, 500, Some(200)), start(0, 1200, Some(200)), start(100, 600, Some(200))];
    assert_eq!(all(&told), [(true, 600), (true, 1200)], "the first, a little later");
}

#[test]
fn one_whose_length_nobody_tells_is_followed_by_no_other_but_behind_its_end() {
    assert_eq!(all(&[start(0, 500, None), start(0, 1200, Some(200))]), [(true, 1200)]);
    let ended = [start(0, 500, None), end(0, 650), start(0, 1200, Some(200))];
    assert_eq!(all(&ended), [(true, 500), (false, 650), (true, 1200)]);
}

#[test]
fn one_that_begins_at_once_without_a_length_is_not_the_announced_one() {
    let told = [start(0, 1200, Some(200)), start(100, 100, None), end(300, 300)];
    assert_eq!(all(&told), [(true, 100), (false, 300), (true, 1200)]);
}

#[test]
fn an_end_that_was_planned_is_none_once_the_silence_is_told_again() {
    let told = [start(0, 0, None), end(0, 5000), start(3000, 3000, None)];
    assert_eq!(all(&told), [(true, 0), (true, 3000)]);
}

#[test]
fn an_end_calls_off_the_first_silence_with_its_end_and_no_other() {
    let told =
        [start(0, 500, Some(200)), end(0, 700), start(0, 1200, Some(200)), end(0, 1400), end(100, 100)];
    assert_eq!(all(&told), [(true, 1200), (false, 1400)]);
}

#[test]
fn a_station_takes_memory_while_it_has_a_silence_and_not_longer() {
    let mut silences = Silences::without_limit();
    let of = |number| Scope::Station(StationId(number));
    let tell = |silences: &mut Silences, kind| silences.on_event(at(0), &LinkEvent::at(at(0), kind));
    let began = |scope| LinkEventKind::FreezeStarted { scope, cause: CAUSE, expected: None };
    let ended = |scope| LinkEventKind::FreezeEnded { scope, cause: CAUSE };
    for number in 0..=MAX_STATIONS {
        tell(&mut silences, began(of(7 * number)));
    }
    assert_eq!((silences.stations.len(), silences.untracked()), (MAX_STATIONS as usize, 1));
    assert!(silences.covers(StationId(7)) && !silences.covers(StationId(8)));
    for number in 0..MAX_STATIONS {
        assert_eq!(
            tell(&mut silences, ended(of(7 * number))),
            Told::Over { scope: of(7 * number), is_last: true }
        );
    }
    assert!(silences.stations.is_empty() && !silences.covers(StationId(7)));
    tell(&mut silences, began(of(7)));
    let left = tell(&mut silences, LinkEventKind::StationLeft { station: StationId(7) });
    assert_eq!(left, Told::Over { scope: of(7), is_last: true });
}

proptest! {
    /// What is silent, and when, is what the link monitor has, whatever is told: announced, told again,
    /// called off, ended before or after its time, and never ended.
    #[test]
    fn whoever_keeps_no_link_monitor_has_its_silences(
        story in proptest::collection::vec((0u8..2, 0u32..3, 0usize..2, 0u64..400, 0u64..900, proptest::option::of(1u64..500)), 1..60)
    ) {
        let config = LinkMonitorConfig { max_silence: Duration::from_millis(800), ..Default::default() };
        let (mut monitor, mut silences) = (LinkMonitor::new(&config), Silences::new(config.max_silence));
        let mut now = 0;
        let agree = |monitor: &LinkMonitor, silences: &Silences, now: u64| {
            for station in [0, 1].map(StationId) {
                assert_eq!(monitor.tfp(station), silences.covers(station), "{station:?} at {now} ms");
            }
            assert_eq!(monitor.next_timeout(), silences.next_timeout(), "at {now} ms");
        };
        for (what, whom, cause, pause, ahead, length) in story {
            let until = at(now + pause);
            while let Some(due) = monitor.next_timeout().filter(|due| *due <= until) {
                let _ = monitor.on_timeout(due);
                prop_assert!(silences.on_timeout(due).is_some());
                agree(&monitor, &silences, now);
            }
            now += pause;
            let scope = if whom == 2 { Scope::Network } else { Scope::Station(StationId(whom)) };
            let cause = Cause::ALL[cause];
            let expected = length.map(Duration::from_millis);
            let kind = match what {
                0 => LinkEventKind::FreezeStarted { scope, cause, expected },
                _ => LinkEventKind::FreezeEnded { scope, cause },
            };
            // Half of them are told as they happen.
            let effective = at(now + ahead.saturating_sub(450));
            let event = LinkEvent { detected_at: at(now), effective_at: Some(effective), kind };
            let _ = monitor.on_event(at(now), &event);
            silences.on_event(at(now), &event);
            agree(&monitor, &silences, now);
        }
    }
}
