//! What is told of silences, event for event, and what holds of it whatever comes.

use proptest::prelude::*;

use super::*;
use crate::frame::AirEvent;

const MS: fn(u64) -> Duration = Duration::from_millis;
const AT: fn(u64) -> Instant = Instant::from_millis;

/// What a listener hears: "(" a start, ")" an end, at ms.
type Heard = Vec<(u64, char)>;

fn late(late: u64, end_late: u64) -> ToldConfig {
    ToldConfig { late: MS(late), end_late: MS(end_late), ..ToldConfig::EXACT }
}

struct Bench {
    signals: Signals,
    out: AirOutput,
    heard: Heard,
}

impl Bench {
    fn new(config: &SignalsConfig, seed: u64) -> Self {
        let signals = Signals::new(config, &[], 0, seed);
        Self { signals, out: AirOutput::new(), heard: Vec::new() }
    }

    fn note(&mut self) {
        for event in self.out.drain() {
            let AirEvent::Link(event) = event else { panic!("only link events") };
            let what = match event.kind {
                LinkEventKind::FreezeStarted { .. } => '(',
                LinkEventKind::FreezeEnded { .. } => ')',
                _ => 'r',
            };
            self.heard.push((event.detected_at.as_nanos() / 1_000_000, what));
        }
    }

    /// Tells everything due before `until`.
    fn run(&mut self, until: Instant) {
        while self.signals.next() < until {
            self.signals.step(&mut self.out);
            self.note();
        }
    }

    fn silence(&mut self, source: SilenceSource, start: u64, end: u64) {
        self.run(AT(start));
        self.signals.started(source, AT(start), AT(start), None, &mut self.out);
        self.note();
        self.run(AT(end));
        self.signals.ended(source, AT(end), AT(end), &mut self.out);
        self.note();
    }
}

/// What is heard of silences of a primary user until `until` ms, and the sums.
fn play(told: ToldConfig, seed: u64, silences: &[(u64, u64)], until: u64) -> (Heard, ToldAccounting) {
    let mut bench = Bench::new(&SignalsConfig { users: vec![told], ..SignalsConfig::default() }, seed);
    for &(start, end) in silences {
        bench.silence(SilenceSource::User, start, end);
    }
    bench.run(AT(until));
    (bench.heard, bench.signals.accounting())
}

#[test]
fn silences_are_told_late_and_what_overtakes_itself_is_one_or_none() {
    let far = 100_000;
    for (name, told, silences, heard, missed) in [
        ("exact", late(0, 0), &[(10, 20), (30, 31)][..], "10( 20) 30( 31)", 0),
        ("late alike: a pipeline", late(25, 25), &[(10, 20), (22, 30)], "35( 45) 47( 55)", 0),
        ("the start late", late(5, 0), &[(10, 20), (30, 33), (40, 50)], "15( 20) 45( 50)", 1),
        ("the start as late as the end", late(10, 0), &[(10, 20)], "", 1),
        ("the end late", late(0, 5), &[(10, 20), (22, 30), (40, 50)], "10( 22( 35) 40( 55)", 0),
        // The second is told before the first's end would be, and is over before its own start is.
        ("both", late(8, 12), &[(10, 20), (21, 31)], "18( 29( 43)", 0),
        ("no time at all", late(9, 10), &[(0, 10), (10, 10)], "9( 19( 20)", 0),
    ] {
        let (told_of, sum) = play(told, 1, silences, far);
        let text: Vec<String> = told_of.iter().map(|(at, what)| format!("{at}{what}")).collect();
        assert_eq!(text.join(" "), heard, "{name}");
        assert_eq!((sum.silences, sum.missed), (silences.len() as u64, missed), "{name}");
        assert_eq!(sum.told + sum.missed, sum.silences, "{name}");
    }
}

#[test]
fn each_silence_is_late_by_a_draw_of_its_own_from_the_spread() {
    let told = ToldConfig { late_spread: MS(40), end_late_spread: MS(20), ..late(10, 5) };
    let silences: Vec<(u64, u64)> = (0..2000).map(|n| (200 * n, 200 * n + 100)).collect();
    let lateness = |seed| {
        let (heard, sum) = play(told, seed, &silences, 1_000_000);
        assert_eq!((sum.told, sum.ends, heard.len()), (2000, 2000, 4000));
        let of = |what: char, from: u64| {
            let late = heard.iter().filter(move |(_, is)| *is == what).map(move |(at, _)| at % 200 - from);
            late.collect::<Vec<u64>>()
        };
        (of('(', 0), of(')', 100))
    };
    let (starts, ends) = lateness(1);
    let mean = |late: &[u64]| late.iter().sum::<u64>() as f64 / late.len() as f64;
    // Whole milliseconds, cut: half of one less. Four standard deviations of the means are 1.0 and 0.5 ms.
    assert!((mean(&starts) - 29.5).abs() < 1.0 && (mean(&ends) - 14.5).abs() < 0.5);
    assert!(
        starts.iter().all(|late| (10..50).contains(late)) && ends.iter().all(|late| (5..25).contains(late))
    );
    assert_eq!(lateness(1), (starts.clone(), ends.clone()));
    assert_ne!(lateness(2).0, starts);
}

#[test]
fn a_new_rate_is_told_with_the_end_of_its_switch_and_rates_keep_their_order() {
    // (from one switch to the next, how long it takes). The spread is 90 ms.
    for (apart, takes) in [(200, 10), (20, 10), (200, 0)] {
        let switching = ToldConfig { end_late_spread: MS(90), ..late(0, 5) };
        let mut bench = Bench::new(&SignalsConfig { switching, ..SignalsConfig::default() }, 3);
        for n in 0..50 {
            let end = 100 + apart * n;
            bench.run(AT(end - takes));
            if takes > 0 {
                let (source, start) = (SilenceSource::Switching, AT(end - takes));
                bench.signals.started(source, start, start, None, &mut bench.out);
                bench.run(AT(end));
            }
            bench.signals.rate(AT(end), LinkEventKind::GrantFrames { period: MS(5) }, &mut bench.out);
            if takes > 0 {
                bench.signals.ended(SilenceSource::Switching, AT(end), AT(end), &mut bench.out);
            }
            bench.note();
        }
        bench.run(AT(20_000));
        let told = |what: char| bench.heard.iter().filter(move |(_, is)| *is == what).map(|(at, _)| *at);
        let (rates, ends): (Vec<u64>, Vec<u64>) = (told('r').collect(), told(')').collect());
        assert!(bench.heard.is_sorted_by_key(|&(at, _)| at), "{:?}", bench.heard);
        assert_eq!(rates.len(), 50, "{apart} {takes}");
        if apart > 100 {
            let lateness: std::collections::BTreeSet<u64> =
                rates.iter().zip(0..).map(|(at, n)| at - 100 - apart * n).collect();
            assert!(lateness.len() > 20, "each has a draw of its own: {lateness:?}");
            assert!(takes == 0 || rates == ends, "{rates:?} {ends:?}");
        }
    }
}

#[test]
fn lateness_is_measured_from_what_happened_on_the_air() {
    let mut bench = Bench::new(&SignalsConfig { gaps: late(5, 2), ..SignalsConfig::default() }, 1);
    // The radio itself notices 20 ms late.
    bench.signals.started(SilenceSource::Gaps, AT(120), AT(100), None, &mut bench.out);
    bench.run(AT(320));
    bench.signals.ended(SilenceSource::Gaps, AT(320), AT(300), &mut bench.out);
    bench.run(AT(1000));
    assert_eq!(bench.heard, [(125, '('), (322, ')')]);
    let sum = bench.signals.accounting();
    assert_eq!((sum.mean_start_late(), sum.mean_end_late()), (Some(MS(25)), Some(MS(22))));
}

#[test]
fn since_when_is_told_or_not() {
    for (start_known, expected) in [(true, Some(AT(100))), (false, None)] {
        let sensing = ToldConfig { start_known, ..late(5, 5) };
        let mut bench = Bench::new(&SignalsConfig { sensing, ..SignalsConfig::default() }, 1);
        bench.signals.started(SilenceSource::Sensing, AT(100), AT(100), None, &mut bench.out);
        bench.signals.step(&mut bench.out);
        let [AirEvent::Link(event)] = bench.out.as_slice() else { panic!("one event") };
        assert_eq!((event.detected_at, event.effective_at), (AT(105), expected));
    }
}

#[test]
fn how_long_it_will_be_is_told_or_not() {
    for (length_known, told) in [(true, Some(MS(80))), (false, None)] {
        let sensing = ToldConfig { length_known, ..late(5, 5) };
        let mut bench = Bench::new(&SignalsConfig { sensing, ..SignalsConfig::default() }, 1);
        bench.signals.started(SilenceSource::Sensing, AT(100), AT(100), Some(MS(80)), &mut bench.out);
        bench.signals.step(&mut bench.out);
        let [AirEvent::Link(event)] = bench.out.as_slice() else { panic!("one event") };
        let LinkEventKind::FreezeStarted { expected, .. } = event.kind else { panic!("{event:?}") };
        assert_eq!(expected, told);
    }
}

#[test]
fn a_share_of_silences_is_missed_and_the_others_are_told_whole() {
    let silences: Vec<(u64, u64)> = (0..4000).map(|n| (n * 100 + 10, n * 100 + 50)).collect();
    let told = ToldConfig { missed: Fraction::clamped(0.1), ..late(20, 2) };
    let (heard, sum) = play(told, 3, &silences, 1_000_000);
    // Four standard deviations of 19.
    assert!((324..=476).contains(&sum.missed), "{}", sum.missed);
    assert_eq!(heard.len() as u64, 2 * sum.told);
    for pair in heard.chunks_exact(2) {
        assert_eq!((pair[0].1, pair[1].1, pair[1].0 - pair[0].0), ('(', ')', 22), "{pair:?}");
    }
    // The same silences with another latency: the same are missed.
    let (_, other) = play(ToldConfig { late: MS(0), ..told }, 3, &silences, 1_000_000);
    assert_eq!(other.missed, sum.missed);
}

#[test]
fn false_silences_come_at_their_rate_and_last_their_length() {
    let told = ToldConfig { false_per_minute: 6.0, false_length: MS(100), ..ToldConfig::EXACT };
    let (heard, sum) = play(told, 5, &[], 60_000_000);
    // 6000 expected, of which a hundredth merge; four standard deviations are 310.
    assert!((5630..6250).contains(&sum.false_silences), "{}", sum.false_silences);
    assert_eq!((sum.silences, sum.told, sum.missed), (0, 0, 0));
    for pair in heard.chunks_exact(2) {
        assert!(
            pair[0].1 == '(' && pair[1].1 == ')' && (100..400).contains(&(pair[1].0 - pair[0].0)),
            "{pair:?}"
        );
    }
}

#[test]
fn a_false_silence_and_a_true_one_are_one_to_the_listener() {
    // Find when the only false silence of the first seconds begins, then lay a true one across it.
    let told = ToldConfig { false_per_minute: 6.0, false_length: MS(1000), ..ToldConfig::EXACT };
    let (alone, _) = play(told, 8, &[], 30_000);
    let &[(begin, '('), (end, ')'), ..] = &alone[..] else { panic!("{alone:?}") };
    assert_eq!(end, begin + 1000);
    let (heard, sum) = play(told, 8, &[(begin + 500, begin + 1500)], begin + 2000);
    assert_eq!(heard, [(begin, '('), (begin + 500, '('), (begin + 1500, ')')]);
    assert_eq!((sum.told, sum.false_silences), (1, 1));
    let (heard, sum) = play(told, 8, &[(begin + 300, begin + 700)], begin + 2000);
    assert_eq!(heard, [(begin, '('), (begin + 300, '('), (begin + 1000, ')')]);
    assert_eq!((sum.told, sum.ends), (1, 1));
    // A false alarm in a true silence that was told adds nothing, or makes it longer.
    let (heard, sum) = play(told, 8, &[(begin - 500, begin + 500)], begin + 2000);
    assert_eq!(heard, [(begin - 500, '('), (begin + 1000, ')')]);
    assert_eq!(sum.false_silences, 0);
}

#[test]
fn each_channels_user_tells_in_its_own_way_and_a_rate_as_late_as_a_switch_ends() {
    let config = SignalsConfig {
        users: vec![late(1, 1), late(40, 2)],
        switching: late(3, 4),
        ..SignalsConfig::default()
    };
    let mut bench = Bench::new(&config, 1);
    let rate = LinkEventKind::GrantFrames { period: MS(5) };
    bench.signals.rate(Instant::ZERO, rate, &mut bench.out);
    bench.note();
    bench.silence(SilenceSource::User, 10, 60);
    bench.run(AT(99));
    bench.signals.work_on(1);
    bench.silence(SilenceSource::Switching, 100, 120);
    bench.signals.rate(AT(120), rate, &mut bench.out);
    bench.silence(SilenceSource::User, 200, 260);
    bench.run(AT(1000));
    let expected =
        [(0, 'r'), (11, '('), (61, ')'), (103, '('), (124, 'r'), (124, ')'), (240, '('), (262, ')')];
    assert_eq!(bench.heard, expected);
}

#[test]
fn a_start_that_went_on_with_a_silence_and_is_not_told_leaves_that_silence_its_end() {
    let config = SignalsConfig { users: vec![late(0, 50), late(30, 0)], ..SignalsConfig::default() };
    let mut bench = Bench::new(&config, 1);
    bench.silence(SilenceSource::User, 0, 10);
    bench.signals.work_on(1);
    // Its start would be told at 50, before the first one's end at 60, but after its own end.
    bench.silence(SilenceSource::User, 20, 40);
    bench.run(AT(1000));
    assert_eq!(bench.heard, [(0, '('), (40, ')')]);
    let sum = bench.signals.accounting();
    assert_eq!((sum.silences, sum.told, sum.missed, sum.ends), (2, 1, 1, 1));
}

proptest! {
    #[test]
    fn starts_and_ends_balance_and_nothing_is_told_of_silences_that_are_none(
        (late, end_late) in (0u64..80, 0u64..80),
        (spread, end_spread) in (prop_oneof![Just(0), 1u64..80], prop_oneof![Just(0), 1u64..80]),
        missed in 0.0f64..1.0,
        alarms in prop_oneof![Just(0.0), 0.0f64..600.0], length in 1u64..300, seed: u64,
        steps in prop::collection::vec((0u64..60, 0u64..60), 0..60),
    ) {
        let mut now = 0;
        let silences: Vec<(u64, u64)> = steps.iter().map(|&(pause, length)| {
            let start = now + pause;
            now = start + length;
            (start, now)
        }).collect();
        let told = ToldConfig {
            late: MS(late),
            end_late: MS(end_late),
            late_spread: MS(spread),
            end_late_spread: MS(end_spread),
            start_known: true,
            length_known: true,
            missed: Fraction::clamped(missed),
            false_per_minute: alarms,
            false_length: MS(length),
        };
        let (heard, sum) = play(told, seed, &silences, now + 1000);
        prop_assert!(heard.is_sorted_by_key(|&(at, _)| at), "{heard:?}");
        prop_assert_eq!(sum.told + sum.missed, sum.silences);
        prop_assert!(sum.ends <= sum.told);
        let mut silent = false;
        for &(at, what) in &heard {
            match what {
                '(' => {
                    silent = true;
                    let last = (end_late + end_spread).max(late + spread);
                    let since = |&(start, end): &(u64, u64)| start + late <= at && at <= end + last;
                    let true_one = silences.iter().any(since);
                    prop_assert!(true_one || alarms > 0.0, "{at}: {silences:?}");
                }
                // No end without a start.
                _ => prop_assert!(core::mem::take(&mut silent), "{heard:?}"),
            }
        }
        // Once it is over, and no alarm can stand, everybody knows.
        prop_assert!(!silent || alarms > 0.0, "{heard:?}");
    }
}
