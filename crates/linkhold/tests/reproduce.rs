//! `linkhold reproduce PAPER --quick --json`: what it says of every claim, as a golden file, and beside that
//! as the papers' pages have it. A change that turns a verdict shows here; whether the new one is right is
//! for `make reproduction-tables`.
//!
//! Seeds are as many as run within seconds. Where those are fewer than the page has, more claims are
//! undecided here, and the page is not compared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// Each claim with its verdict, a line each; of some figures alone, if any are named.
fn verdicts(paper: &str, figures: &[&str], seeds: u32) -> String {
    let mut command = Command::cargo_bin("linkhold").expect("it is built");
    command.args(["reproduce", paper, "--quick", "--json", "--seeds", &seeds.to_string()]);
    command.args(figures.iter().map(|figure| format!("--figure={figure}")));
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

/// The same lines as the pages of these figures have them. The paper's page must have as many seeds.
fn on_the_pages(paper: &str, figures: &[&str], seeds: u32) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reproductions").join(paper);
    let read =
        |page: PathBuf| std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
    let summary = read(root.join("README.md"));
    assert!(
        summary.contains(&format!("({seeds} seeds;")),
        "{paper}: its page is of other seeds than {seeds}"
    );
    let mut lines = String::new();
    for figure in figures {
        let page = read(root.join(figure).join("README.md"));
        let head = "| claim | paper | measured | unit | holds if | holds |\n";
        let (_, claims) = page.split_once(head).unwrap_or_else(|| panic!("{figure}: no claims"));
        // The line below a table's head holds its alignment.
        for row in claims.lines().skip(1).take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [text, _, _, _, _, verdict] = cells[..] else { panic!("{figure}: {row}") };
            let verdict = verdict.trim_matches('*');
            writeln!(lines, "{verdict:9} {paper}/{figure}: {text}").expect("a String takes all");
        }
    }
    assert!(!lines.is_empty(), "{paper}: no claim on its pages");
    lines
}

/// What the program says of these figures' claims, which must be what their pages say; `others` have none.
fn as_on_the_pages(paper: &str, figures: &[&str], others: &[&str], seeds: u32) -> String {
    let measured = verdicts(paper, &[figures, others].concat(), seeds);
    let written = on_the_pages(paper, figures, seeds);
    assert_eq!(measured, written, "the pages (right) say otherwise: make reproduction-tables");
    measured
}

#[test]
fn cr_aware() {
    insta::assert_snapshot!(as_on_the_pages("cr-aware", &["fig3", "fig4"], &[], 100));
}

/// The paper's own claims: with fewer seeds than the page's most of them are undecided.
#[test]
fn activation_says_of_the_papers_claims_what_its_pages_say() {
    as_on_the_pages("activation", &["fig4", "fig5"], &[], 100);
}

#[test]
fn activation() {
    insta::assert_snapshot!(verdicts("activation", &[], 10));
}

#[test]
fn crahn() {
    insta::assert_snapshot!(verdicts("crahn", &[], 3));
}

#[test]
fn dsasync() {
    insta::assert_snapshot!(verdicts("dsasync", &[], 3));
}

#[test]
fn lookahead() {
    insta::assert_snapshot!(as_on_the_pages("lookahead", &["fig5"], &["fig3", "sweep", "today"], 10));
}
