//! DSASync's worst runs of very many: a table of three to ten seeds does not show what happens in one of 60.
//!
//! Plan: the scenarios below, over the round trips named, one run for each seed; the base station hears of
//! bursts 20 ms late, and knows the rate of told-late.toml but in the last. Check, set after
//! measuring: every run has 0.9 of the limit and more, and a 99th percentile of the delay outside silences of
//! at most 60 ms beyond the path's own. Faults that were found this way miss it:
//!
//! - Without copies of a connection's first window, six of the 300 runs of told-late.toml over 100 ms had
//!   0.40 to 0.52 of the limit.
//! - With a lateness of the path (`lateness.rs` in core) that one late segment can feign, demo.toml's seed 60
//!   had 101 ms; with one that a sender that never waits keeps for ever, 3 of 100 runs over 3 ms had 75 to
//!   114.
//! - With rates of stations that keep what each had when it was alone, six stations over 20 ms had 60 ms in
//!   the mean and 155 at most, and over 100 ms seconds.

use linkhold_scenario::Scenario;
use linkhold_sim::run_case;

const LEAST_SHARE: f64 = 0.9;
const MOST_BEYOND_MS: f64 = 60.0;

/// Every seed from 1 to `seeds` of the scenario's case `dsasync`, over a round trip of `rtt_ms` and with what
/// `set` says.
fn no_run_is_bad(text: &str, rtt_ms: u64, set: &[&str], seeds: u64) {
    let mut all = vec![format!("wired.rtt={rtt_ms}ms")];
    all.extend(set.iter().map(ToString::to_string));
    let scenario = Scenario::from_toml(text, "tails", &all).unwrap_or_else(|error| panic!("{error}"));
    let cases = scenario.cases();
    let case = cases.iter().find(|case| case.name == "dsasync").expect("the scenario has it");
    let (mut least, mut most) = ((f64::INFINITY, 0), (0.0, 0));
    for seed in 1..=seeds {
        let (record, _) = run_case(case, seed).expect("it is valid");
        let beyond = record.totals.delay_p99_outside_silence_s * 1e3 - rtt_ms as f64 / 2.0;
        if record.totals.limit_share < least.0 {
            least = (record.totals.limit_share, seed);
        }
        if beyond > most.0 {
            most = (beyond, seed);
        }
    }
    println!("{rtt_ms} ms: least {:.3} of the limit (seed {})", least.0, least.1);
    println!("{rtt_ms} ms: most {:.1} ms beyond the path's own (seed {})", most.0, most.1);
    assert!(least.0 >= LEAST_SHARE, "seed {}: {:.3} of the limit", least.1, least.0);
    assert!(most.0 <= MOST_BEYOND_MS, "seed {}: {:.1} ms beyond the path's own", most.1, most.0);
}

const DEMO: &str = include_str!("../../../scenarios/demo.toml");
const TOLD_LATE: &str = include_str!("../../../scenarios/told-late.toml");

#[test]
fn bursts_and_quiet_periods_over_a_short_path() {
    no_run_is_bad(DEMO, 20, &[], 60);
}

const RATE: &str = "radio.rate_told=true";

#[test]
fn bursts_told_late_over_a_long_path() {
    no_run_is_bad(TOLD_LATE, 100, &["duration=13s", RATE], 300);
}

#[test]
fn bursts_told_late_over_a_short_path() {
    no_run_is_bad(TOLD_LATE, 20, &["duration=13s", RATE], 300);
}

#[test]
fn several_downloads_whose_senders_seldom_wait_for_a_window() {
    no_run_is_bad(TOLD_LATE, 3, &["duration=13s", RATE, "flows.0.count=4"], 100);
}

#[test]
fn several_stations_whose_rate_nobody_tells() {
    let stations = ["duration=13s", "radio.stations=6", "flows.0.station=all"];
    no_run_is_bad(TOLD_LATE, 20, &stations, 40);
}
