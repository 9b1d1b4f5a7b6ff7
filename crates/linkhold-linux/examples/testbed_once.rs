//! Runs every case of a scenario once on the testbed and prints what it found:
//! `testbed_once SCENARIO CC [key=value ...]`.

use std::path::Path;
use std::sync::Arc;

use linkhold_linux::testbed::run::{Options, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    linkhold_linux::netns::clean_up_on_signals()?;
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(congestion)) = (args.next(), args.next()) else {
        return Err("usage: testbed_once SCENARIO CC [key=value ...]".into());
    };
    let set: Vec<String> = args.collect();
    let scenario = linkhold_scenario::Scenario::load(Path::new(&file), &set)?;
    let program = std::env::var_os("LINKHOLD").unwrap_or_else(|| "target/release/linkhold".into()).into();
    let options =
        Options { program, version: String::new(), congestion, capture: None, stop: Arc::default() };
    for case in scenario.cases() {
        match run(&case, case.scenario.seed, &options) {
            Ok(outcome) => {
                let (totals, linux) = (&outcome.record.totals, &outcome.linux);
                println!(
                    "{:24} goodput {:6.2} Mbit/s = {:.3} of limit; delay p50/p99 outside silences {:.1}/{:.1} ms; \
                     resume {:.1} ms; edges late p99 {:.3} ms, the rest {:.3} ms; transit p50/p99 {:.3}/{:.3} ms; {:?}",
                    outcome.record.case,
                    totals.goodput_bps / 1e6,
                    totals.limit_share,
                    totals.delay_p50_outside_silence_s * 1e3,
                    totals.delay_p99_outside_silence_s * 1e3,
                    linux.resume_p50_s.unwrap_or(f64::NAN) * 1e3,
                    linux.edge_late_p99_s * 1e3,
                    linux.event_late_p99_s * 1e3,
                    linux.transit_p50_s.unwrap_or(f64::NAN) * 1e3,
                    linux.transit_p99_s.unwrap_or(f64::NAN) * 1e3,
                    linux.counters.iter().filter(|(_, count)| **count > 0).collect::<Vec<_>>(),
                );
            }
            Err(error) => println!("{:24} {error}", case.name),
        }
    }
    Ok(())
}
