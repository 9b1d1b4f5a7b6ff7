//! What the verifier refuses a congestion control in eBPF: the table of docs/host.md, tried again.
//!
//! The script that fills the page (`scripts/host_refusals.sh`) tries each statement, and the kernel's words
//! must be the page's. A refusal that is no longer one would let `cr_aware.bpf.c` come nearer to the paper.

use std::path::Path;
use std::process::Command;

use linkhold_linux::command::is_installed;

use crate::host::no_struct_ops;
use crate::{Outcome, skipped};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What the congestion controls write, and so must be allowed to.
const TAKEN: [&str; 3] = ["tp->snd_cwnd = 10", "tp->snd_ssthresh = 10", "tp->snd_cwnd_stamp = 1"];

/// A row of the page: what is tried, and the kernel's words.
type Row = (String, String);

/// The kernel that the page is of, and its table.
fn table(page: &str) -> Option<(String, Vec<Row>)> {
    let (_, measured) = page.split_once("<!-- measured refusals -->")?;
    let (measured, _) = measured.split_once("<!-- /measured -->")?;
    let kernel = measured.trim_start().strip_prefix("On Linux ")?.split_once(':')?.0.to_owned();
    let quoted = |cell: &str| cell.split('`').nth(1).map(str::to_owned);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        let [_, _, tried, refusal, _] = cells[..] else { return None };
        Some((quoted(tried)?, quoted(refusal)?))
    };
    Some((kernel, measured.lines().filter_map(row).collect()))
}

/// What the script says of a statement; the page shortens arguments to `(...)`.
fn answer<'a>(said: &'a str, tried: &str) -> Option<&'a str> {
    let start = tried.trim_end_matches("...)");
    let line = said.lines().find(|line| line.starts_with(start))?;
    let (_, answer) = line.split_once(';')?;
    Some(answer.trim().trim_start_matches("libbpf: "))
}

/// A kernel's words without what its configuration decides: where in a structure a member lies.
fn words(refusal: &str) -> &str {
    refusal.trim_end_matches(|last: char| last.is_ascii_digit())
}

/// In what the kernel's answers are not those of the page.
fn differences(rows: &[Row], said: &str) -> Vec<String> {
    let refused = rows.iter().filter_map(|(tried, refusal)| {
        let answer = answer(said, tried).unwrap_or("nothing");
        (words(answer) != words(refusal)).then(|| format!("{tried}: {answer}; the page: {refusal}"))
    });
    let taken = TAKEN.iter().filter_map(|tried| {
        let answer = answer(said, tried).unwrap_or("nothing");
        (!answer.starts_with("Registered")).then(|| format!("{tried}, which the programs need: {answer}"))
    });
    refused.chain(taken).collect()
}

/// "6.18" of "6.18.44-fc-v782".
fn series(release: &str) -> Vec<&str> {
    release.split('.').take(2).collect()
}

pub fn are_as_the_page_says() -> Outcome {
    if let Some(reason) = no_struct_ops() {
        return skipped(reason);
    }
    if let Some(program) = ["bpftool", "clang"].into_iter().find(|program| !is_installed(program)) {
        return skipped(format!("`{program}` is not installed"));
    }
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/host.md"))?;
    let Some((of, rows)) = table(&page) else { return Err("docs/host.md has no table of refusals".into()) };
    assert!(rows.len() >= 6, "{rows:?}");
    let output = Command::new(Path::new(ROOT).join("scripts/host_refusals.sh")).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    let differences = differences(&rows, &said);
    if differences.is_empty() {
        return Ok(());
    }
    let here = said.lines().next().unwrap_or_default();
    let told = differences.join("\n");
    if series(here) != series(&of) {
        return skipped(format!("the page is of Linux {of}, and {here} differs: {told}"));
    }
    Err(format!("Linux {here} answers otherwise than docs/host.md (of {of}) says:\n{told}").into())
}

/// The comparison itself, which needs neither root nor bpftool.
pub fn are_compared_by_their_words() -> Outcome {
    let page = "<!-- measured refusals -->\nOn Linux 6.18.44:\n\n| the paper wants | tried | refusal |\n|---|---|---|\n\
        | the RTO | `icsk->icsk_rto = 200` | `no write support to tcp_sock at off 1184` |\n\
        | the timer | `reset(...)` | `extern 'reset': not found` (it is inline) |\n<!-- /measured -->";
    let (of, rows) = table(page).expect("a table");
    assert_eq!((of.as_str(), rows.len(), series(&of)), ("6.18.44", 2, vec!["6", "18"]));
    let kept = "6.18.44-x\nicsk->icsk_rto = 200;   no write support to tcp_sock at off 1200\n\
        reset(sk, 1);   libbpf: extern 'reset': not found\n";
    let taken: String =
        TAKEN.iter().map(|tried| format!("{tried};  Registered tcp_congestion_ops id 1\n")).collect();
    let said = format!("{kept}{taken}");
    assert_eq!(differences(&rows, &said), Vec::<String>::new());
    let allowed =
        said.replace("no write support to tcp_sock at off 1200", "Registered tcp_congestion_ops id 1");
    assert_eq!(differences(&rows, &allowed).len(), 1);
    let missing = said.replace("reset(sk, 1)", "other(sk, 1)");
    assert_eq!(differences(&rows, &missing).len(), 1);
    let needed = said.replacen("Registered", "no write support", 1);
    assert_eq!(differences(&rows, &needed).len(), 1);
    Ok(())
}
