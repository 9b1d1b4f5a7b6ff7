//! The results of runs, from the simulator or the testbed: into a folder, and onto standard output.

use linkhold_results::html::render_run;
use linkhold_results::table::run_table;
use linkhold_results::{ParquetFiles, RunReport, RunSeries};
use linkhold_scenario::Scenario;

use crate::Failure;
use crate::output::{OutputFolder, print, width};

/// How the kept scenario begins.
const WRITTEN_BY: &str = "# Written by ";

/// Writes the results into `folder`, if there is one, and prints them: `json` alone, or a table.
/// `command`: the subcommand with what the kept scenario does not say.
pub(super) fn deliver(
    scenario: &Scenario,
    command: &str,
    folder: Option<OutputFolder>,
    report: &RunReport,
    series: &[RunSeries],
    json: &str,
    json_only: bool,
) -> Result<(), Failure> {
    let written = match folder {
        Some(folder) => {
            write(scenario, command, &folder, report, series, json)?;
            Some(folder.finish()?)
        }
        None => None,
    };
    if json_only {
        return print(json);
    }
    print(&run_table(report, width()))?;
    match written {
        Some(folder) => print(&format!("\nReport: {}\n", folder.join("report.html").display())),
        None => Ok(()),
    }
}

/// A subcommand with its repetitions and what cases are compared with.
pub(super) fn command(name: &str, seeds: u32, baseline: Option<&str>) -> String {
    let baseline = baseline.map(|case| format!(" --baseline {case}")).unwrap_or_default();
    format!("{name} --seeds {seeds}{baseline}")
}

/// Writes every file of a folder of results except the captures.
fn write(
    scenario: &Scenario,
    command: &str,
    folder: &OutputFolder,
    report: &RunReport,
    series: &[RunSeries],
    json: &str,
) -> Result<(), Failure> {
    let fail = |error: linkhold_results::parquet::ParquetFailure| Failure::Failed(error.to_string());
    let mut parquet = ParquetFiles::create(folder.path(), &report.program).map_err(fail)?;
    for (run, series) in report.runs.iter().zip(series) {
        parquet.add(run, series).map_err(fail)?;
    }
    parquet.finish().map_err(fail)?;
    folder.write("run.json", json)?;
    // Keys that the file does not name have the defaults of the program that ran it. A file that an earlier
    // run kept names that one's.
    let ran = scenario.as_run();
    let ran = match ran.split_once('\n') {
        Some((first, rest)) if first.starts_with(WRITTEN_BY) => rest,
        Some(_) | None => ran,
    };
    folder.write("scenario.toml", &format!("{WRITTEN_BY}{}: {command}.\n{ran}", report.program))?;
    folder.write("report.html", &render_run(report, series, scenario.as_run()))
}
