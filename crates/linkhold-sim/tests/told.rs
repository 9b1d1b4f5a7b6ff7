//! Signals as they are: late, lost or false. The radio stays the same, the results say what was told, and a
//! mechanism that is told wrong goes on.

use linkhold_results::{RunRecord, ToldRecord};
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sim::run_case;
use proptest::prelude::*;

const HEAD: &str = "schema = \"linkhold.scenario/1\"\nname = \"told\"\n";
const CELL: &str = "[wired]\nrtt = \"40ms\"\n[router]\nvisible = true\n[radio]\nphy_rate = \"24Mbit/s\"\nrate_told = true\n\
    [radio.primary_user]\non_mean = \"200ms\"\noff_mean = \"1300ms\"\ndetection_delay = \"0s\"\n\
    [radio.sensing]\nperiod = \"500ms\"\nduration = \"25ms\"\n";

/// A run of the cell; `told` is the body of `[radio.told]`.
fn run(told: &str, flow: &str, mechanisms: &str, seed: u64) -> RunRecord {
    run_for(20, told, flow, mechanisms, seed)
}

fn run_for(seconds: u32, told: &str, flow: &str, mechanisms: &str, seed: u64) -> RunRecord {
    let text = format!(
        "{HEAD}duration = \"{seconds}s\"\n{CELL}[radio.told]\n{told}\n[[flows]]\ndirection = \"downlink\"\n{flow}\n[[cases]]\nname = \"case\"\n{mechanisms}\n"
    );
    let scenario = Scenario::parse(&text, "s.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    run_case(&scenario.cases()[0], seed).expect("the scenario is valid").0
}

fn told(record: &RunRecord) -> &ToldRecord {
    record.link.told.as_ref().expect("a cell says what it told")
}

const WRONG: &str = "late = \"20ms\"\nend_late = \"5ms\"\nlate_spread = \"30ms\"\nend_late_spread = \"10ms\"\nmissed = 0.3\n\
                     false_alarms = \"30/min\"\nfalse_length = \"150ms\"";

#[test]
fn whatever_is_told_the_radio_and_a_router_that_listens_to_nobody_are_the_same() {
    for seed in 1..4 {
        let mut exact = run("", "", "", seed);
        let mut wrong = run(WRONG, "", "", seed);
        assert_ne!(told(&exact), told(&wrong));
        assert!(told(&exact).is_exact() && !told(&wrong).is_exact());
        for record in [&mut exact, &mut wrong] {
            (record.wall_s, record.link.told) = (0.0, None);
            // The engine wakes up to tell; nothing else may differ.
            record.events = 0;
        }
        assert_eq!(exact, wrong, "seed {seed}");
    }
}

#[test]
fn the_results_say_what_was_told() {
    let exact = run("", "", "mechanism = \"dsasync\"", 1);
    let all = told(&exact);
    // 40 quiet periods in 20 s, and bursts.
    assert!(all.silences > 40 && all.told == all.silences, "{all:?}");
    let late = run("late = \"20ms\"\nend_late = \"2ms\"", "", "mechanism = \"dsasync\"", 1);
    let late = told(&late);
    assert_eq!((late.silences, late.false_silences), (all.silences, 0));
    // The quiet period that begins with the run's last moment is on its way to the mechanism.
    assert_eq!((late.told + late.missed + 1, late.start_late_mean_s), (late.silences, Some(0.02)));
    assert!(late.end_late_mean_s.is_some_and(|mean| (mean - 0.002).abs() < 1e-6), "{late:?}");
    let spread = run("late_spread = \"20ms\"\nend_late_spread = \"4ms\"", "", "mechanism = \"dsasync\"", 1);
    let mean = |late: Option<f64>| late.map_or(0, |mean| (mean * 1e3).round() as u64);
    let (start, end) = (told(&spread).start_late_mean_s, told(&spread).end_late_mean_s);
    // Half of each on average, over some 50 silences; a standard deviation is 0.8 and 0.16 ms.
    assert!((7..=13).contains(&mean(start)) && (1..=3).contains(&mean(end)), "{spread:?}");
    let none = run("missed = 1", "", "mechanism = \"dsasync\"", 1);
    let counter = |name: &str| none.mechanisms[0].counter(name);
    assert_eq!((told(&none).told, told(&none).missed), (0, all.silences));
    assert_eq!((counter("silences"), counter("windows_closed")), (0, 0), "nobody told it");
    let wrong = run(WRONG, "", "mechanism = \"dsasync\"", 1);
    let wrong = told(&wrong);
    // Ten a source expected, of two sources; a third of some 53 silences missed.
    assert!((5..40).contains(&wrong.false_silences) && (5..35).contains(&wrong.missed), "{wrong:?}");
}

/// Mechanisms that hear silences, where they stand.
const LISTENERS: [&str; 5] = [
    "mechanism = \"dsasync\"",
    "mechanism = { name = \"dsasync\", preset = \"paper\" }",
    "mechanism = \"local-recovery\"",
    "mechanisms = [{ name = \"dsasync\", recover = false }, { name = \"local-recovery\" }]",
    "mechanism = { name = \"cr-aware\", at = \"correspondent\" }",
];

#[test]
fn false_silences_cost_their_time_and_no_more() {
    // One a second on average from each of two sources, of 150 ms: a quarter of the time.
    let alarms = "false_alarms = \"1/s\"\nfalse_length = \"150ms\"";
    for mechanism in LISTENERS {
        let share = |told| run(told, "", mechanism, 1).totals.limit_share;
        let (exact, wrong) = (share(""), share(alarms));
        assert!(
            wrong > 0.5 * exact,
            "{mechanism}: {wrong:.3} of the limit with false silences, {exact:.3} without"
        );
    }
}

/// The recommended scenario, told in seven ways.
#[test]
fn the_scenario_as_told_has_one_radio_and_says_in_each_case_what_was_told() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/as-told.toml");
    let text = std::fs::read_to_string(path).expect("part of the project");
    let scenario = Scenario::parse(&text, "as-told.toml", &[], &NoFiles).unwrap_or_else(|e| panic!("{e}"));
    let runs: Vec<RunRecord> =
        scenario.cases().iter().map(|case| run_case(case, 1).expect("it is valid").0).collect();
    let of = |name: &str| runs.iter().find(|run| run.case == name).expect("a case of the file");
    let (oracle, real) = (told(of("oracle")), told(of("as-told")));
    assert!(oracle.is_exact() && oracle.told == oracle.silences, "{oracle:?}");
    // 2 switches, 8 scans of the access point; 11 of the station, of which nobody hears.
    assert_eq!((real.silences, real.told, real.missed, real.false_silences), (21, 10, 11, 0));
    assert!(real.start_late_mean_s.is_some_and(|late| (late - 0.003).abs() < 1e-6), "{real:?}");
    assert_eq!((told(of("untold")).told, told(of("late")).missed), (0, 11));
    let inexact = told(of("inexact"));
    assert!(inexact.false_silences > 0 && inexact.missed >= 11, "{inexact:?}");
    for run in &runs {
        let (link, first) = (&run.link, &runs[0].link);
        assert_eq!(
            (link.silences, link.silent_fraction, &link.station_silent_fraction),
            (first.silences, first.silent_fraction, &first.station_silent_fraction),
            "{}",
            run.case
        );
        println!(
            "{:9} {:.3} of the limit, queueing p50 {:.1} p95 {:.1} ms, {} sent again, timeouts: {:?}, {:?}",
            run.case,
            run.totals.limit_share,
            run.totals.queueing_delay_p50_s * 1e3,
            run.totals.queueing_delay_p95_s * 1e3,
            run.totals.retransmits,
            run.totals.rto_events,
            run.link.told
        );
        assert!(run.totals.limit_share > 0.5, "{}: {}", run.case, run.totals.limit_share);
    }
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(240).without_regressions())]
    #[test]
    fn a_download_ends_whatever_its_mechanism_is_told(
        (late, end_late, spread) in (0u32..120, 0u32..120, 0u32..120), missed in prop_oneof![Just(0.0), Just(1.0), 0.0f64..1.0],
        (alarms, length) in (1u32..60, 1u32..250), mechanism in prop::sample::select(LISTENERS.to_vec()), seed in 1u64..1000,
    ) {
        let told = format!(
            "late = \"{late}ms\"\nend_late = \"{end_late}ms\"\nlate_spread = \"{spread}ms\"\nend_late_spread = \"{spread}ms\"\nmissed = {missed}\nfalse_alarms = \"{alarms}/min\"\nfalse_length = \"{length}ms\""
        );
        // The worst that is drawn keeps the mechanism silent for two fifths of the time.
        let record = run_for(60, &told, "source = \"500kB\"", mechanism, seed);
        prop_assert_eq!(record.flows[0].bytes, 500_000, "{} told {}", mechanism, told);
        prop_assert!(record.flows[0].completion_s.is_some());
    }
}
