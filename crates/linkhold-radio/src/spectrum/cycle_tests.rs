use proptest::prelude::*;

use super::*;
use crate::spectrum::decision::Policy;

const MS: fn(u64) -> Duration = Duration::from_millis;
const AT: fn(u64) -> Instant = Instant::from_millis;
const CONFIG: CycleConfig = CycleConfig {
    sensing: MS_200,
    transmitting: Duration::from_millis(600),
    switching_delay: Duration::from_millis(10),
};
const MS_200: Duration = Duration::from_millis(200);

fn cycle(channels: usize, odds: DetectionOdds) -> Cycle {
    let decision = Decision::new(Policy::RoundRobin, channels);
    Cycle::new(CONFIG, vec![odds; channels], decision, 0, Instant::ZERO, Stream::new(1, "cycle", 0)).unwrap()
}

/// Steps at the time it is due, with channels that are occupied all the time.
fn step(cycle: &mut Cycle, occupied: &[usize]) -> (u64, Vec<CycleEvent>) {
    let at = cycle.next();
    let events = cycle.step(|lookup| {
        assert_eq!((lookup.to, lookup.to.since(lookup.from)), (at, MS_200));
        occupied.contains(&lookup.channel)
    });
    (at.as_nanos() / 1_000_000, events.into_iter().collect())
}

#[test]
fn on_a_free_channel_sensing_and_transmitting_alternate() {
    use CycleEvent::{SensingBegan, SensingEnded, TransmittingBegan};
    let mut cycle = cycle(5, DetectionOdds::PERFECT);
    assert!(cycle.may_transmit());
    for start in [0, 800, 1600] {
        assert_eq!(step(&mut cycle, &[]), (start, vec![SensingBegan { channel: 0, lasting: MS_200 }]));
        assert!(!cycle.may_transmit());
        let ended = SensingEnded { channel: 0, is_on: false, detected: false };
        let expected = vec![ended, TransmittingBegan { channel: 0, lasting: MS(600) }];
        assert_eq!(step(&mut cycle, &[]), (start + 200, expected));
        assert_eq!(cycle.state(), CycleState::Transmitting { until: AT(start + 800) });
    }
}

#[test]
fn the_pseudocode_line_by_line_over_two_occupied_channels() {
    use CycleEvent::{
        HandoffBegan, HandoffEnded, SensingBegan, SensingEnded, SwitchBegan, SwitchEnded, TransmittingBegan,
    };
    let mut cycle = cycle(5, DetectionOdds::PERFECT);
    let sensing = |channel| SensingBegan { channel, lasting: MS_200 };
    let ended = |channel, on| SensingEnded { channel, is_on: on, detected: on };
    let switch = |from, to| SwitchBegan { from, to, lasting: MS(10) };
    let rows = [
        (0, vec![sensing(0)]),
        (200, vec![ended(0, true), HandoffBegan { from: 0 }, switch(0, 1)]),
        (210, vec![SwitchEnded { channel: 1 }, sensing(1)]),
        (410, vec![ended(1, true), switch(1, 2)]),
        (420, vec![SwitchEnded { channel: 2 }, sensing(2)]),
        (
            620,
            vec![
                ended(2, false),
                HandoffEnded { from: 0, to: 2, tries: 2, since: AT(200) },
                TransmittingBegan { channel: 2, lasting: MS(600) },
            ],
        ),
        (1220, vec![sensing(2)]),
        (1420, vec![ended(2, false), TransmittingBegan { channel: 2, lasting: MS(600) }]),
    ];
    for row in rows {
        assert_eq!(step(&mut cycle, &[0, 1]), row);
        assert_eq!(cycle.is_in_handoff(), (200..620).contains(&row.0), "{row:?}");
    }
}

#[test]
fn if_all_channels_are_occupied_the_search_goes_round_and_time_passes() {
    let mut cycle = cycle(3, DetectionOdds::PERFECT);
    let mut tried = Vec::new();
    while cycle.next() < AT(10_000) {
        step(&mut cycle, &[0, 1, 2]);
        assert!(!cycle.may_transmit());
        tried.push(cycle.channel());
    }
    // A try takes t_s and the delay: 47 of them, two steps each.
    assert!((94..=96).contains(&tried.len()), "{}", tried.len());
    let last = cycle.channel();
    // A channel that falls free ends it.
    let events = loop {
        let (_, events) = step(&mut cycle, &[]);
        if cycle.may_transmit() {
            break events;
        }
    };
    assert!(
        events
            .iter()
            .any(|event| matches!(event, CycleEvent::HandoffEnded { from: 0, to, .. } if *to == last))
    );
    // With a single channel it is left for itself.
    let mut alone = self::cycle(1, DetectionOdds::PERFECT);
    for _ in 0..10 {
        step(&mut alone, &[0]);
    }
    assert!(alone.is_in_handoff() && alone.channel() == 0);
}

#[test]
fn what_is_missed_and_mistaken_has_the_odds_within_binomial_bounds() {
    const TRIALS: u32 = 20_000;
    for (given_on, given_off) in [(0.9, 0.1), (0.62, 0.38), (0.99, 0.003)] {
        let mut cycle = cycle(4, DetectionOdds { detected_given_on: given_on, alarm_given_off: given_off });
        let mut count = [[0_u32; 2]; 2];
        let mut flip = Stream::new(9, "test", 0);
        while count[0].iter().chain(&count[1]).sum::<u32>() < TRIALS {
            let busy = flip.unit() < 0.5;
            for event in cycle.step(|_| busy) {
                if let CycleEvent::SensingEnded { is_on, detected, .. } = event {
                    assert_eq!(is_on, busy);
                    count[usize::from(is_on)][usize::from(detected)] += 1;
                }
            }
        }
        for (row, odds) in [(count[1], given_on), (count[0], given_off)] {
            let trials = f64::from(row[0] + row[1]);
            let bound = 4.0 * (odds * (1.0 - odds) / trials).sqrt();
            let rate = f64::from(row[1]) / trials;
            assert!((rate - odds).abs() < bound, "{rate} of {odds}, bound {bound}");
        }
    }
}

#[test]
fn a_cycle_that_cannot_run_is_refused() {
    let make = |config, channels, odds: usize, start| {
        let decision = Decision::new(Policy::RoundRobin, channels);
        let odds = vec![DetectionOdds::PERFECT; odds];
        Cycle::new(config, odds, decision, start, Instant::ZERO, Stream::new(1, "cycle", 0)).map(|_| ())
    };
    let zero = Duration::ZERO;
    assert_eq!(make(CycleConfig { sensing: zero, ..CONFIG }, 2, 2, 0), Err(CycleConfigError::NoSensing));
    assert_eq!(
        make(CycleConfig { transmitting: zero, ..CONFIG }, 2, 2, 0),
        Err(CycleConfigError::NoTransmitting)
    );
    for (channels, odds, start) in [(2, 1, 0), (2, 2, 2), (0, 0, 0)] {
        assert_eq!(
            make(CONFIG, channels, odds, start),
            Err(CycleConfigError::Channels { channels, odds, start })
        );
    }
    assert_eq!(make(CycleConfig { switching_delay: zero, ..CONFIG }, 2, 2, 1), Ok(()));
}

proptest! {
    #[test]
    fn time_goes_on_events_pair_up_and_silence_is_kept(
        on in prop::collection::vec(any::<bool>(), 1..80), channels in 1_usize..6, policy in 0_usize..3,
        pd in 0.0..=1.0, pf in 0.0..=1.0, delay in 0_u64..50,
    ) {
        let policy = [Policy::RoundRobin, Policy::LongestExpectedIdle, Policy::LeastRecentlyOccupied][policy];
        let odds = DetectionOdds { detected_given_on: pd, alarm_given_off: pf };
        let config = CycleConfig { switching_delay: MS(delay), ..CONFIG };
        let decision = Decision::new(policy, channels);
        let stream = Stream::new(4, "cycle", 0);
        let mut cycle = Cycle::new(config, vec![odds; channels], decision, 0, AT(5), stream).unwrap();
        let (mut sensing, mut switching, mut handoff) = (false, false, None);
        for is_on in on {
            let now = cycle.next();
            for event in cycle.step(|_| is_on) {
                match event {
                    CycleEvent::SensingBegan { channel, .. } => {
                        prop_assert!(!sensing && !switching && channel == cycle.channel());
                        sensing = true;
                    }
                    CycleEvent::SensingEnded { .. } => {
                        prop_assert!(sensing);
                        sensing = false;
                    }
                    CycleEvent::HandoffBegan { from } => prop_assert!(handoff.replace((from, now)).is_none()),
                    CycleEvent::SwitchBegan { from, to, .. } => {
                        prop_assert!(!switching && handoff.is_some());
                        prop_assert!(to < channels && (to != from || channels == 1));
                        switching = true;
                    }
                    CycleEvent::SwitchEnded { .. } => {
                        prop_assert!(switching);
                        switching = false;
                    }
                    CycleEvent::HandoffEnded { from, since, .. } => {
                        prop_assert_eq!(handoff.take(), Some((from, since)));
                    }
                    CycleEvent::TransmittingBegan { .. } => prop_assert!(!sensing && !switching && handoff.is_none()),
                }
            }
            prop_assert!(cycle.next() >= now);
            prop_assert_eq!(cycle.may_transmit(), !sensing && !switching);
            prop_assert_eq!(cycle.is_in_handoff(), handoff.is_some());
        }
    }
}
