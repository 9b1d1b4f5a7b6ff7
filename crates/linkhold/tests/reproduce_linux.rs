//! `linkhold reproduce --stack linux`: one figure through this machine's kernel, from the command line to the
//! report.
//!
//! Needs root, iperf3 and /dev/net/tun; without them the test is skipped and says why. Its five runs go side
//! by side and take 20 s.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use assert_cmd::Command;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use linkhold_linux::testbed::cells::missing_requirement;
use serde_json::Value;

/// What is said of a run that the host gave too little of its processors, at every attempt; and of one that
/// is made again because of that.
const SLOW: &str = "Close other programs";
const AGAIN: &str = "; again, with at most";
/// What is told of progress once a run is done.
const RAN: &str = " of 5 cells, about";
/// Attempts of late runs included.
const PATIENCE: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = missing_requirement();
    if let Some(reason) = &missing {
        eprintln!("the test of reproduce --stack linux is skipped: {reason}");
    }
    let name = "a_figure_runs_through_the_kernel_and_stands_beside_the_simulators";
    let trial = Trial::ignorable_test(name, figure_7).with_ignored_flag(missing.is_some());
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

/// What the command left.
struct Reproduced {
    /// Missing if it failed.
    report: Option<Value>,
    /// Its words.
    told: String,
    /// It failed because this host had no time for the runs.
    gave_up: bool,
}

/// Figure 7 with one seed.
fn reproduce(out: &Path) -> Result<Reproduced, Failed> {
    let mut command = Command::cargo_bin("linkhold")?;
    command.args(["reproduce", "dsasync", "--figure", "fig7", "--stack", "linux", "--quick", "--seeds", "1"]);
    let output =
        command.args(["--jobs", "5", "--resume", "--json", "--out"]).arg(out).timeout(PATIENCE).output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success());
    // Either all attempts of a run were late, or late runs were made again until patience ended.
    let gave_up = String::from_utf8_lossy(&output.stdout).contains(SLOW);
    let killed = output.status.code().is_none() && told.contains(AGAIN);
    Ok(Reproduced { report, told, gave_up: gave_up || killed })
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn figure_7() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let Reproduced { report, told, gave_up } = reproduce(folder.path())?;
    let Some(report) = report else {
        if gave_up {
            return Ok(Completion::ignored_with("this host had no time for the runs"));
        }
        return Err(told.into());
    };
    check(&report)?;
    let html = std::fs::read_to_string(folder.path().join("report.html"))?;
    ensure(html.contains("regular (kernel)") && html.contains("regular (simulator)"), || {
        "the report lacks a curve".to_owned()
    })?;
    // What is finished is not run again, and measures nothing else.
    ensure(told.contains(RAN), || format!("no progress was told: {told}"))?;
    let Reproduced { report: again, told, .. } = reproduce(folder.path())?;
    ensure(!told.contains(RAN), || format!("--resume ran cells again: {told}"))?;
    let figures = |report: &Value| report["figures"].to_string();
    ensure(again.as_ref().is_some_and(|again| figures(again) == figures(&report)), || {
        format!("--resume gives another report: {told}")
    })?;
    Ok(Completion::Completed)
}

/// The kernel and the simulator see the same radio, so a flow that nothing disturbs carries the same on both.
fn check(report: &Value) -> Result<(), Failed> {
    ensure(report["schema"] == "linkhold.reproduce/1", || report["schema"].to_string())?;
    let kernel = &report["kernel"];
    ensure(kernel["runs"] == 5 && kernel["missing"].as_array().is_some_and(Vec::is_empty), || {
        kernel.to_string()
    })?;
    let figure = &report["figures"][0];
    ensure(figure["id"] == "dsasync/fig7" && figure["seeds"] == 1, || figure["id"].to_string())?;
    let claims = figure["claims"].as_array().ok_or("no claims")?;
    let number = |value: &Value| value["measured"].as_f64();
    for claim in claims {
        let both = number(claim).zip(number(&claim["simulated"]));
        ensure(both.is_some(), || format!("not measured on both stacks: {claim}"))?;
    }
    // Capacity halves, so goodput does, within what a second of recovery may cost.
    let dropped = claims.first().and_then(number).unwrap_or_default();
    ensure((40.0..60.0).contains(&dropped), || format!("goodput fell by {dropped} %"))?;
    let rows = figure["rows"].as_array().ok_or("no rows")?;
    for case in ["regular", "dsasync-paper", "dsasync"] {
        for second in [4.0, 19.0] {
            let at = |ran: &str| {
                let name = format!("{case} ({ran}) [linux, 3 ms]");
                let row = rows.iter().find(|row| row["case"] == *name && row["x"] == second);
                row.and_then(number).unwrap_or_default()
            };
            let (measured, simulated) = (at("kernel"), at("simulator"));
            let near = simulated > 1.0 && (measured / simulated - 1.0).abs() < 0.15;
            ensure(near, || {
                format!("{case} in second {second}: {measured} and simulated {simulated} Mbit/s")
            })?;
        }
    }
    Ok(())
}
