//! Dialogues with the link monitor: events in, TFP changes and estimates out.

use super::*;
use crate::units::Bytes;

const A: StationId = StationId(0);
const B: StationId = StationId(1);
const NET: Scope = Scope::Network;
const STA: Scope = Scope::Station(A);

fn ms(t: u64) -> Instant {
    Instant::from_millis(t)
}

fn len(t: u64) -> Duration {
    Duration::from_millis(t)
}

fn start(m: &mut LinkMonitor, t: u64, scope: Scope, cause: Cause) -> TfpChange {
    let kind = LinkEventKind::FreezeStarted { scope, cause, expected: None };
    m.on_event(ms(t), &LinkEvent::at(ms(t), kind))
}

fn end(m: &mut LinkMonitor, t: u64, scope: Scope, cause: Cause) -> TfpChange {
    m.on_event(ms(t), &LinkEvent::at(ms(t), LinkEventKind::FreezeEnded { scope, cause }))
}

/// `kind`, detected at `detected` and on the air at `effective`.
fn told(m: &mut LinkMonitor, detected: u64, effective: u64, kind: LinkEventKind) -> TfpChange {
    let event = LinkEvent { detected_at: ms(detected), effective_at: Some(ms(effective)), kind };
    m.on_event(ms(detected), &event)
}

fn monitor() -> LinkMonitor {
    LinkMonitor::new(&LinkMonitorConfig::default())
}

fn near(got: Fraction, want: f64) {
    assert!((got.get() - want).abs() < 1e-9, "got {}, want {want}", got.get());
}

#[test]
fn overlapping_causes_are_one_silence() {
    let mut m = monitor();
    assert_eq!(start(&mut m, 10, NET, Cause::PrimaryUser), TfpChange::NetworkBegan);
    assert_eq!(start(&mut m, 20, NET, Cause::Sensing), TfpChange::None);
    assert_eq!(end(&mut m, 30, NET, Cause::PrimaryUser), TfpChange::None);
    assert!(m.tfp(A) && m.tfp(StationId(u32::MAX)) && m.network_tfp());
    assert_eq!(end(&mut m, 40, NET, Cause::Sensing), TfpChange::NetworkEnded);
    assert!(!m.any_tfp());
    assert_eq!(m.silences(), 1);
}

#[test]
fn changes_are_of_the_effective_state() {
    let mut m = monitor();
    assert_eq!(start(&mut m, 1, STA, Cause::Sensing), TfpChange::StationBegan(A));
    assert!(m.tfp(A) && !m.tfp(B) && !m.network_tfp() && m.any_tfp());
    assert_eq!(start(&mut m, 2, NET, Cause::PrimaryUser), TfpChange::NetworkBegan);
    // Hidden by the network's silence:
    assert_eq!(start(&mut m, 3, Scope::Station(B), Cause::Fade), TfpChange::None);
    assert_eq!(end(&mut m, 4, STA, Cause::Sensing), TfpChange::None);
    assert_eq!(end(&mut m, 5, NET, Cause::PrimaryUser), TfpChange::NetworkEnded);
    assert!(!m.tfp(A) && m.tfp(B), "B stays silent by its own cause");
    assert_eq!(end(&mut m, 6, Scope::Station(B), Cause::Fade), TfpChange::StationEnded(B));
    assert!(!m.any_tfp());
}

#[test]
fn unmatched_ends_and_repeated_starts_change_nothing() {
    let mut m = monitor();
    assert_eq!(end(&mut m, 1, NET, Cause::Sensing), TfpChange::None);
    assert_eq!(start(&mut m, 2, NET, Cause::Sensing), TfpChange::NetworkBegan);
    assert_eq!(start(&mut m, 3, NET, Cause::Sensing), TfpChange::None);
    assert_eq!(end(&mut m, 4, NET, Cause::PrimaryUser), TfpChange::None);
    assert_eq!(end(&mut m, 5, NET, Cause::Sensing), TfpChange::NetworkEnded);
    assert_eq!(end(&mut m, 6, NET, Cause::Sensing), TfpChange::None);
}

#[test]
fn an_announced_freeze_starts_and_ends_by_the_timer() {
    let mut m = monitor();
    let freeze = LinkEventKind::FreezeStarted { scope: NET, cause: Cause::Grant, expected: Some(len(20)) };
    assert_eq!(told(&mut m, 0, 100, freeze), TfpChange::None);
    assert_eq!(m.next_announced_silence(ms(5), A), Some((ms(100), len(20))));
    assert_eq!(m.next_timeout(), Some(ms(100)));
    let over = LinkEventKind::FreezeEnded { scope: NET, cause: Cause::Grant };
    assert_eq!(told(&mut m, 50, 130, over), TfpChange::None);
    assert_eq!(m.on_timeout(ms(99)), TfpChange::None);
    assert_eq!(m.on_timeout(ms(100)), TfpChange::NetworkBegan);
    assert_eq!(m.expected_end(A), Some(ms(130)));
    assert_eq!(m.next_timeout(), Some(ms(130)));
    assert_eq!(m.on_timeout(ms(131)), TfpChange::NetworkEnded);
    assert_eq!(m.next_timeout(), None);
    assert_eq!(m.timed_out_freezes(), 0);
}

#[test]
fn an_announced_freeze_can_be_withdrawn() {
    let mut m = monitor();
    let freeze = LinkEventKind::FreezeStarted { scope: NET, cause: Cause::Sensing, expected: None };
    assert_eq!(told(&mut m, 0, 100, freeze), TfpChange::None);
    assert_eq!(end(&mut m, 50, NET, Cause::Sensing), TfpChange::None);
    assert_eq!(m.next_timeout(), None);
    near(m.alpha(ms(10_000), A), 1.0);
}

/// A freeze of the network by the primary user, told at one time for another, of so many ms.
fn announced(m: &mut LinkMonitor, now: u64, at: u64, length: u64) -> TfpChange {
    let (cause, expected) = (Cause::PrimaryUser, Some(len(length)));
    told(m, now, at, LinkEventKind::FreezeStarted { scope: NET, cause, expected })
}

#[test]
fn a_freeze_announced_while_another_lasts_is_one_of_its_own() {
    let mut m = monitor();
    assert_eq!(start(&mut m, 100, NET, Cause::PrimaryUser), TfpChange::NetworkBegan);
    assert_eq!(announced(&mut m, 110, 200, 50), TfpChange::None);
    assert_eq!(m.next_announced_silence(ms(110), A), Some((ms(200), len(50))));
    assert_eq!(end(&mut m, 150, NET, Cause::PrimaryUser), TfpChange::NetworkEnded);
    assert_eq!(m.on_timeout(ms(200)), TfpChange::NetworkBegan);
    assert_eq!(end(&mut m, 250, NET, Cause::PrimaryUser), TfpChange::NetworkEnded);
    assert_eq!(m.next_timeout(), None);
}

#[test]
fn a_freeze_that_begins_while_another_of_its_cause_lasts_goes_on_with_that_one() {
    let mut m = monitor();
    assert_eq!(start(&mut m, 100, NET, Cause::PrimaryUser), TfpChange::NetworkBegan);
    assert_eq!(announced(&mut m, 110, 200, 50), TfpChange::None);
    assert_eq!(m.on_timeout(ms(200)), TfpChange::None);
    assert_eq!(m.expected_end(A), Some(ms(250)));
    assert_eq!(end(&mut m, 240, NET, Cause::PrimaryUser), TfpChange::NetworkEnded);
    // Nor does anybody send in between where the first one's end is told late.
    assert_eq!(start(&mut m, 300, NET, Cause::PrimaryUser), TfpChange::NetworkBegan);
    assert_eq!(announced(&mut m, 310, 400, 50), TfpChange::None);
    let over = LinkEventKind::FreezeEnded { scope: NET, cause: Cause::PrimaryUser };
    assert_eq!(told(&mut m, 410, 390, over), TfpChange::None);
    assert_eq!(end(&mut m, 450, NET, Cause::PrimaryUser), TfpChange::NetworkEnded);
    assert_eq!((m.next_timeout(), m.timed_out_freezes()), (None, 0));
}

#[test]
fn two_freezes_announced_are_two_unless_they_overlap() {
    let mut m = monitor();
    for (at, length) in [(300, 50), (100, 50), (120, 60)] {
        assert_eq!(announced(&mut m, 0, at, length), TfpChange::None);
    }
    let over = LinkEventKind::FreezeEnded { scope: NET, cause: Cause::PrimaryUser };
    for (at, end) in [(120, 180), (300, 340)] {
        assert_eq!(told(&mut m, at - 20, end, over), TfpChange::None);
        assert_eq!(m.next_timeout(), Some(ms(at)));
        assert_eq!(m.on_timeout(ms(at)), TfpChange::NetworkBegan);
        assert_eq!(m.on_timeout(ms(end)), TfpChange::NetworkEnded);
    }
    assert_eq!(m.next_timeout(), None);
}

#[test]
fn a_freeze_that_nobody_ends_is_ended_by_the_limit() {
    let mut m = monitor();
    assert_eq!(start(&mut m, 1_000, STA, Cause::Fade), TfpChange::StationBegan(A));
    assert_eq!(start(&mut m, 5_000, NET, Cause::PrimaryUser), TfpChange::NetworkBegan);
    // The source repeats itself, so it is alive: the limit starts anew.
    assert_eq!(start(&mut m, 10_000, NET, Cause::PrimaryUser), TfpChange::None);
    assert_eq!(m.next_timeout(), Some(ms(31_000)));
    assert_eq!(m.on_timeout(ms(45_000)), TfpChange::None, "hidden by the network's silence");
    assert_eq!(m.on_timeout(ms(45_000)), TfpChange::NetworkEnded);
    assert_eq!(m.timed_out_freezes(), 2);
    assert_eq!(m.next_timeout(), None);
}

#[test]
fn alpha_counts_overlaps_once_and_the_printed_sum_twice() {
    let form = |alpha_form| {
        let mut m = LinkMonitor::new(&LinkMonitorConfig { alpha_form, ..LinkMonitorConfig::default() });
        for second in 0..20 {
            let t = second * 1000;
            let _ = start(&mut m, t, NET, Cause::PrimaryUser);
            let _ = start(&mut m, t + 100, NET, Cause::Sensing);
            let _ = start(&mut m, t + 150, STA, Cause::Sensing);
            let _ = end(&mut m, t + 200, NET, Cause::PrimaryUser);
            let _ = end(&mut m, t + 250, NET, Cause::Sensing);
            let _ = end(&mut m, t + 350, STA, Cause::Sensing);
        }
        m.learn_station(B);
        m
    };
    let m = form(AlphaForm::Union);
    near(m.alpha(ms(20_000), A), 0.65);
    near(m.alpha(ms(20_000), B), 0.75);
    near(m.alpha_network(ms(20_000)), 0.70);
    let m = form(AlphaForm::Sum);
    near(m.alpha(ms(20_000), A), 1.0 - 0.2 - 0.15 - 0.2);
    near(m.alpha(ms(20_000), B), 1.0 - 0.2 - 0.15);
}

#[test]
fn the_window_moves_on() {
    let mut m = monitor();
    let _ = start(&mut m, 0, NET, Cause::PrimaryUser);
    let _ = end(&mut m, 5_000, NET, Cause::PrimaryUser);
    near(m.alpha(ms(10_000), A), 0.5);
    near(m.alpha(ms(12_500), A), 0.75);
    near(m.alpha(ms(15_000), A), 1.0);
    near(m.alpha_network(ms(12_500)), 0.75);
}

#[test]
fn a_silence_that_lasts_counts_up_to_now() {
    let mut m = monitor();
    let _ = start(&mut m, 15_000, NET, Cause::PrimaryUser);
    near(m.alpha(ms(20_000), A), 0.5);
    near(m.alpha(ms(25_000), A), 0.0);
}

#[test]
fn one_silence_at_the_very_start_is_not_taken_for_silence_for_ever() {
    let mut m = monitor();
    let _ = start(&mut m, 0, NET, Cause::Sensing);
    let _ = end(&mut m, 250, NET, Cause::Sensing);
    near(m.alpha(ms(250), A), 0.906_25); // 234.375 ms (grid of ΔT/256) of a quarter of ΔT
}

#[test]
fn a_silence_detected_late_counts_from_when_it_began() {
    let mut m = monitor();
    let began = LinkEventKind::FreezeStarted { scope: NET, cause: Cause::PrimaryUser, expected: None };
    assert_eq!(told(&mut m, 10_500, 10_000, began), TfpChange::NetworkBegan);
    let ended = LinkEventKind::FreezeEnded { scope: NET, cause: Cause::PrimaryUser };
    assert_eq!(told(&mut m, 11_500, 11_000, ended), TfpChange::NetworkEnded);
    near(m.alpha(ms(20_000), A), 0.9);
}

#[test]
fn more_silences_than_the_memory_holds_do_not_distort_alpha() {
    let mut m = monitor();
    for k in 0..5_000u64 {
        let _ = start(&mut m, 4 * k, NET, Cause::Sensing);
        let _ = end(&mut m, 4 * k + 1, NET, Cause::Sensing);
    }
    assert!((m.alpha(ms(20_000), A).get() - 0.75).abs() < 0.01);
}

#[test]
fn the_eleven_parameters_come_from_announcements_and_history() {
    let mut m = monitor();
    let schedule =
        LinkEventKind::SensingSchedule { scope: NET, period: len(500), duration: len(25), next: ms(100) };
    assert_eq!(told(&mut m, 0, 0, schedule), TfpChange::None);
    for k in 0..10 {
        let t = 1_000 * k;
        let _ = start(&mut m, t, STA, Cause::Sensing);
        let _ = end(&mut m, t + 10, STA, Cause::Sensing);
        let _ = start(&mut m, t + 100, NET, Cause::PrimaryUser);
        let _ = end(&mut m, t + 200 + 10 * k, NET, Cause::PrimaryUser);
    }
    let _ = start(&mut m, 9_700, NET, Cause::ChannelSwitch);
    let _ = end(&mut m, 9_720, NET, Cause::ChannelSwitch);
    let _ = start(&mut m, 9_990, STA, Cause::Sensing);
    let p = m.parameters(ms(10_000), A);
    assert_eq!(p.sense_dsan.provenance, Provenance::Announced);
    assert_eq!(p.sense_dsan.frequency, Frequency(2.0));
    assert_eq!(p.sense_dsan.duration, len(25));
    assert_eq!(p.sense_station.provenance, Provenance::Estimated);
    assert!((p.sense_station.frequency.0 - 1.1).abs() < 1e-9);
    assert_eq!(p.sense_station.duration, len(10));
    assert!((p.switch_dsan.frequency.0 - 0.1).abs() < 1e-9);
    assert_eq!(p.switch_dsan.duration, len(20));
    assert_eq!(p.pu_on_times.count(), 10);
    assert_eq!(p.pu_on_times.mean(), Some(len(145)));
    assert_eq!(p.pu_on_times.quantile(0.9), Some(len(180)));
    assert!(p.s_station && !p.s_dsan && !p.sw_dsan && !p.pu_on);
    assert!(!m.parameters(ms(10_000), B).s_station);
    assert_eq!(m.parameters(ms(10_000), B).sense_station.provenance, Provenance::Unknown);
    let withdrawn = LinkEventKind::SensingSchedule {
        scope: NET,
        period: Duration::ZERO,
        duration: Duration::ZERO,
        next: ms(0),
    };
    assert_eq!(told(&mut m, 10_000, 10_000, withdrawn), TfpChange::None);
    assert_eq!(m.parameters(ms(10_000), A).sense_dsan.provenance, Provenance::Unknown);
    assert_eq!(m.next_announced_silence(ms(10_000), A), None);
}

#[test]
fn an_end_not_told_is_estimated_from_the_past() {
    let mut m = monitor();
    assert_eq!(start(&mut m, 0, NET, Cause::PrimaryUser), TfpChange::NetworkBegan);
    assert_eq!(m.expected_end(A), None, "nothing is known yet");
    let _ = end(&mut m, 200, NET, Cause::PrimaryUser);
    let _ = start(&mut m, 1_000, NET, Cause::PrimaryUser);
    assert_eq!(m.expected_end(A), Some(ms(1_200)));
    let sensing =
        LinkEventKind::FreezeStarted { scope: STA, cause: Cause::Sensing, expected: Some(len(500)) };
    assert_eq!(told(&mut m, 1_100, 1_100, sensing), TfpChange::None);
    assert_eq!(m.expected_end(A), Some(ms(1_600)));
    assert_eq!(m.expected_end(B), Some(ms(1_200)));
}

#[test]
fn the_next_silence_is_the_soonest_announced() {
    let mut m = monitor();
    for (scope, next) in [(NET, 300), (STA, 200)] {
        let kind =
            LinkEventKind::SensingSchedule { scope, period: len(500), duration: len(25), next: ms(next) };
        assert_eq!(told(&mut m, 0, 0, kind), TfpChange::None);
    }
    assert_eq!(m.next_announced_silence(ms(0), A), Some((ms(200), len(25))));
    assert_eq!(m.next_announced_silence(ms(0), B), Some((ms(300), len(25))));
    assert_eq!(m.next_announced_silence(ms(250), A), Some((ms(300), len(25))));
}

#[test]
fn the_table_of_stations_is_bounded() {
    let mut m = monitor();
    let far = Scope::Station(StationId(u32::MAX));
    assert_eq!(start(&mut m, 1, far, Cause::Fade), TfpChange::None);
    m.learn_station(StationId(u32::MAX));
    assert!(!m.tfp(StationId(u32::MAX)) && !m.any_tfp());
    assert_eq!(m.untracked_events(), 1);
    assert!(m.stations.is_empty());
}

#[test]
fn events_of_no_concern_change_nothing_but_capacity_is_kept() {
    let mut m = monitor();
    let switched = LinkEventKind::ChannelSwitched {
        capacity: BitRate::from_mbps(12),
        efficiency: Fraction::clamped(0.65),
    };
    assert_eq!(told(&mut m, 1, 1, switched), TfpChange::None);
    let room = LinkEventKind::TransmitRoom { packets: 3, bytes: Bytes(4_500) };
    assert_eq!(told(&mut m, 2, 2, room), TfpChange::None);
    assert_eq!(m.capacity(), Some((BitRate::from_mbps(12), Fraction::clamped(0.65))));
}

mod against_a_naive_model {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const WINDOW_MS: u64 = 2_560; // a grid step of α is 10 ms

    /// Scope 0 is the network, n + 1 is station n.
    fn scope(number: u32) -> Scope {
        if number == 0 { NET } else { Scope::Station(StationId(number - 1)) }
    }

    proptest! {
        #[test]
        fn state_changes_and_alpha_agree(
            events in prop::collection::vec((0u64..200, 0u32..4, 0usize..5, any::<bool>()), 1..120),
        ) {
            let config =
                LinkMonitorConfig { window: len(WINDOW_MS), ..LinkMonitorConfig::default() };
            let mut m = LinkMonitor::new(&config);
            for id in 0..3 {
                m.learn_station(StationId(id));
            }
            let mut active: BTreeSet<(u32, usize)> = BTreeSet::new();
            let silent = |active: &BTreeSet<(u32, usize)>, station: u32| {
                active.iter().any(|(scope, _)| *scope == 0 || *scope == station + 1)
            };
            // For each millisecond so far, who was silent.
            let mut past: Vec<[bool; 3]> = Vec::new();
            for (wait, number, cause, starts) in events {
                past.extend((0..wait).map(|_| [0, 1, 2].map(|id| silent(&active, id))));
                let now = past.len() as u64;
                let before = [0, 1, 2].map(|id| silent(&active, id));
                let network_before = active.iter().any(|(scope, _)| *scope == 0);
                let change = if starts {
                    active.insert((number, cause));
                    start(&mut m, now, scope(number), Cause::ALL[cause])
                } else {
                    active.remove(&(number, cause));
                    end(&mut m, now, scope(number), Cause::ALL[cause])
                };
                let after = [0, 1, 2].map(|id| silent(&active, id));
                let network_after = active.iter().any(|(scope, _)| *scope == 0);
                let expected = match (network_before, network_after) {
                    (false, true) => TfpChange::NetworkBegan,
                    (true, false) => TfpChange::NetworkEnded,
                    (true, true) => TfpChange::None,
                    (false, false) => match (0..3).find(|id| before[*id] != after[*id]) {
                        Some(id) if after[id] => TfpChange::StationBegan(StationId(id as u32)),
                        Some(id) => TfpChange::StationEnded(StationId(id as u32)),
                        None => TfpChange::None,
                    },
                };
                prop_assert_eq!(change, expected);
                prop_assert_eq!(m.any_tfp(), after.contains(&true));
                prop_assert_eq!(m.network_tfp(), network_after);
                let at = (now / 10 * 10) as usize;
                let from = at.saturating_sub(WINDOW_MS as usize);
                let observed = (at - from).max(WINDOW_MS as usize / 4) as f64;
                let mut sum = 0.0;
                for id in 0..3 {
                    prop_assert_eq!(m.tfp(StationId(id as u32)), after[id]);
                    let quiet = past[from..at].iter().filter(|silent| silent[id]).count() as f64;
                    let alpha = m.alpha(ms(now), StationId(id as u32)).get();
                    prop_assert!((alpha - (1.0 - quiet / observed)).abs() < 1e-9, "station {} at {}: {}", id, now, alpha);
                    sum += alpha;
                }
                prop_assert!((m.alpha_network(ms(now)).get() - sum / 3.0).abs() < 1e-9);
            }
        }

        /// A radio that tells of each silence before the one before is over, and ends every one itself: it is
        /// silent in these and in nothing else.
        #[test]
        fn silences_each_announced_ahead_are_those_that_come(
            // Pause before a silence, its length, and how long before its start it is told, ms.
            silences in prop::collection::vec((1u64..50, 1u64..50, 0u64..120), 1..40),
            told_how_long: bool,
        ) {
            let mut m = monitor();
            // Start and end of the last four; four are announced at once at most, or one if the radio does
            // not say how long.
            let mut last = [(0, 0); 4];
            // Time, what happens first of what happens at one time, silence's start, its length.
            let mut events = Vec::new();
            for &(pause, length, ahead) in &silences {
                let at = last[3].1 + pause;
                let earliest = if told_how_long { last[0].1 } else { last[3].0 };
                events.push((at.saturating_sub(ahead).max(earliest), 1, at, length));
                events.push((at + length, 0, at, length));
                last.rotate_left(1);
                last[3] = (at, at + length);
            }
            events.sort_unstable();
            let mut changes = Vec::new();
            for (now, kind, start, length) in events {
                while let Some(due) = m.next_timeout().filter(|due| *due <= ms(now)) {
                    changes.push((due, m.on_timeout(due)));
                }
                let change = if kind == 0 {
                    end(&mut m, now, NET, Cause::PrimaryUser)
                } else {
                    let expected = told_how_long.then(|| len(length));
                    told(&mut m, now, start, LinkEventKind::FreezeStarted { scope: NET, cause: Cause::PrimaryUser, expected })
                };
                changes.push((ms(now), change));
            }
            changes.retain(|(_, change)| *change != TfpChange::None);
            let mut expected = Vec::new();
            let mut at = 0;
            for (pause, length, _) in silences {
                expected.push((ms(at + pause), TfpChange::NetworkBegan));
                expected.push((ms(at + pause + length), TfpChange::NetworkEnded));
                at += pause + length;
            }
            prop_assert_eq!(changes, expected);
            prop_assert_eq!(m.next_timeout(), None);
        }

        #[test]
        fn nothing_makes_it_panic_or_stay_silent_for_ever(
            events in prop::collection::vec(
                (0u64..20_000, any::<u32>(), 0usize..5, 0u8..3, any::<Option<u64>>(), any::<Option<u64>>(), any::<u64>()),
                1..100,
            ),
        ) {
            let mut m = monitor();
            let mut now = Instant::ZERO;
            for (wait, id, cause, kind, effective, expected, detected) in events {
                now += len(wait);
                while m.next_timeout().is_some_and(|due| due <= now) {
                    let _ = m.on_timeout(now);
                }
                let scope = if id % 2 == 0 { NET } else { Scope::Station(StationId(id % 5_000)) };
                let cause = Cause::ALL[cause];
                let kind = match kind {
                    0 => LinkEventKind::FreezeStarted { scope, cause, expected: expected.map(Duration::from_nanos) },
                    1 => LinkEventKind::FreezeEnded { scope, cause },
                    _ => LinkEventKind::SensingSchedule {
                        scope,
                        period: Duration::from_nanos(detected),
                        duration: Duration::from_nanos(expected.unwrap_or(0)),
                        next: Instant::from_nanos(effective.unwrap_or(0)),
                    },
                };
                let event = LinkEvent {
                    detected_at: Instant::from_nanos(detected),
                    effective_at: effective.map(Instant::from_nanos),
                    kind,
                };
                let _ = m.on_event(now, &event);
                for station in [A, StationId(id % 5_000)] {
                    let _ = m.parameters(now, station);
                    let _ = (m.expected_end(station), m.next_announced_silence(now, station));
                    let alpha = m.alpha(now, station).get();
                    prop_assert!((0.0..=1.0).contains(&alpha));
                }
            }
            // Whatever was said, a started silence ends by itself.
            let last = now + LinkMonitorConfig::default().max_silence;
            while m.next_timeout().is_some_and(|due| due <= last) {
                let _ = m.on_timeout(last);
            }
            let may_be = m.next_timeout().is_some();
            prop_assert!(!m.any_tfp() || may_be, "silent with no timer");
        }
    }
}

/// A number that is given back starts anew with the station that gets it next.
#[test]
fn a_station_that_left_leaves_nothing_under_its_number() {
    let mut m = monitor();
    let left = LinkEventKind::StationLeft { station: A };
    assert_eq!(start(&mut m, 10, STA, Cause::Fade), TfpChange::StationBegan(A));
    let schedule =
        LinkEventKind::SensingSchedule { scope: STA, period: len(100), duration: len(10), next: ms(50) };
    let _ = told(&mut m, 11, 11, schedule);
    assert!(m.next_timeout().is_some() && m.next_announced_silence(ms(20), A).is_some());
    assert_eq!(told(&mut m, 20, 20, left), TfpChange::StationEnded(A));
    assert!(!m.tfp(A) && !m.any_tfp());
    assert_eq!((m.next_timeout(), m.next_announced_silence(ms(20), A)), (None, None));
    near(m.alpha(ms(5000), A), 1.0);
    // It may leave twice, in a silence of all, or without ever having been known.
    assert_eq!(told(&mut m, 21, 21, left), TfpChange::None);
    let _ = start(&mut m, 22, STA, Cause::Fade);
    let _ = start(&mut m, 23, NET, Cause::Sensing);
    assert_eq!(told(&mut m, 24, 24, left), TfpChange::None);
    assert!(m.tfp(A));
    assert_eq!(end(&mut m, 25, NET, Cause::Sensing), TfpChange::NetworkEnded);
    assert!(!m.any_tfp());
    let unknown = LinkEventKind::StationLeft { station: StationId(u32::MAX) };
    assert_eq!(told(&mut m, 26, 26, unknown), TfpChange::None);
}

#[test]
fn an_event_of_a_station_with_too_high_a_number_is_counted() {
    let mut m = monitor();
    let beyond = Scope::Station(StationId(MAX_STATIONS));
    assert_eq!(start(&mut m, 1, beyond, Cause::Fade), TfpChange::None);
    assert_eq!((m.untracked_events(), m.any_tfp()), (1, false));
    let last = StationId(MAX_STATIONS - 1);
    assert_eq!(start(&mut m, 2, Scope::Station(last), Cause::Fade), TfpChange::StationBegan(last));
}

#[test]
fn an_end_that_comes_late_calls_off_no_freeze_that_follows() {
    let mut m = monitor();
    let (begins, ends) = (
        LinkEventKind::FreezeStarted { scope: NET, cause: Cause::Fade, expected: Some(len(200)) },
        LinkEventKind::FreezeEnded { scope: NET, cause: Cause::Fade },
    );
    assert_eq!(start(&mut m, 0, NET, Cause::Fade), TfpChange::NetworkBegan);
    assert_eq!(told(&mut m, 10, 100, ends), TfpChange::None);
    assert_eq!(told(&mut m, 20, 500, begins), TfpChange::None);
    assert_eq!(m.on_timeout(ms(101)), TfpChange::NetworkEnded);
    assert_eq!(told(&mut m, 102, 100, ends), TfpChange::None, "the end that was carried out already");
    assert_eq!(m.next_timeout(), Some(ms(500)));
    assert_eq!(told(&mut m, 103, 103, ends), TfpChange::None);
    assert_eq!(m.next_timeout(), None, "one that is of no other calls it off");
}

#[test]
fn an_end_announced_for_before_any_freeze_begins_calls_the_first_off() {
    let mut m = monitor();
    let (begins, ends) = (
        LinkEventKind::FreezeStarted { scope: NET, cause: Cause::Fade, expected: Some(len(200)) },
        LinkEventKind::FreezeEnded { scope: NET, cause: Cause::Fade },
    );
    for (detected, effective, kind) in [(0, 500, begins), (0, 1500, begins), (10, 400, ends)] {
        assert_eq!(told(&mut m, detected, effective, kind), TfpChange::None);
    }
    assert_eq!(m.next_timeout(), Some(ms(1500)));
}
