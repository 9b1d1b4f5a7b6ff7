//! `linkhold reproduce PAPER --quick --json`: what it says of every claim, as a golden file. A change that
//! turns a verdict shows here; whether the new one is right is for `make reproduction-tables` and the papers'
//! pages.
//!
//! Seeds are as many as run within seconds, so more claims are undecided here than on the pages.

use std::fmt::Write as _;

use assert_cmd::Command;
use serde_json::Value;

/// Each claim with its verdict, a line each.
fn verdicts(paper: &str, seeds: u32) -> String {
    let mut command = Command::cargo_bin("linkhold").expect("it is built");
    command.args(["reproduce", paper, "--quick", "--json", "--seeds", &seeds.to_string()]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["schema"], "linkhold.reproduce/1");
    let mut lines = String::new();
    for figure in report["figures"].as_array().expect("figures") {
        assert_eq!((&figure["seeds"], &figure["first_seed"]), (&seeds.into(), &1.into()), "{}", figure["id"]);
        for claim in figure["claims"].as_array().expect("claims") {
            let verdict = match claim["holds"].as_bool() {
                Some(true) => "yes",
                Some(false) => "no",
                None => "undecided",
            };
            let [id, text] = [&figure["id"], &claim["text"]].map(|name| name.as_str().expect("a text"));
            writeln!(lines, "{verdict:9} {id}: {text}").expect("a String takes all");
        }
    }
    lines
}

#[test]
fn cr_aware() {
    insta::assert_snapshot!(verdicts("cr-aware", 100));
}

#[test]
fn activation() {
    insta::assert_snapshot!(verdicts("activation", 10));
}

#[test]
fn crahn() {
    insta::assert_snapshot!(verdicts("crahn", 3));
}

#[test]
fn dsasync() {
    insta::assert_snapshot!(verdicts("dsasync", 3));
}

#[test]
fn lookahead() {
    insta::assert_snapshot!(verdicts("lookahead", 10));
}
