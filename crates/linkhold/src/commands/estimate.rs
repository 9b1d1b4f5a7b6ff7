//! `linkhold estimate`: the statistics of every report, for scripts that make tables of their own.

use std::io::{BufRead, stdin};

use linkhold_results::Estimate;
use serde_json::json;

use crate::Failure;
use crate::output::print_to_reader;

/// Longest line of numbers, bytes.
const MAX_LINE: u64 = 1 << 20;

/// Answers each line of numbers on standard input with one line of JSON.
pub fn run() -> Result<(), Failure> {
    let mut input = stdin().lock();
    for number in 1_u64.. {
        let mut line = String::new();
        let read = std::io::Read::take(&mut input, MAX_LINE).read_line(&mut line);
        match read.map_err(|error| Failure::BadInput(format!("standard input:{number}: {error}")))? {
            0 => break,
            _ if line.len() as u64 == MAX_LINE => {
                return Err(Failure::BadInput(format!(
                    "standard input:{number}: the line is longer than 1 MiB"
                )));
            }
            _ if !print_to_reader(&answer(&line, number)?)? => break,
            _ => {}
        }
    }
    Ok(())
}

fn answer(line: &str, number: u64) -> Result<String, Failure> {
    let values = line
        .split_whitespace()
        .map(|text| match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(_) | Err(_) => Err(Failure::BadInput(format!(
                "standard input:{number}: {:?} is no finite number; write numbers with spaces between, a line for each estimate",
                linkhold_core::text::shorten(text)
            ))),
        })
        .collect::<Result<Vec<f64>, _>>()?;
    let Estimate { n, mean, std, ci95 } = Estimate::of(&values);
    let known = |value: f64| value.is_finite().then_some(value);
    Ok(format!("{}\n", json!({"n": n, "mean": known(mean), "std": known(std), "ci95": ci95})))
}
