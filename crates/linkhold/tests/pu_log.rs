//! `linkhold pu-log`: what it makes it checks, and a wrong log is told by file and line.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

fn pu_log(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("linkhold").expect("cargo built it");
    command.current_dir(folder).arg("pu-log").args(arguments).output().expect("it starts")
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const GENERATE: [&str; 9] =
    ["generate", "--bands", "2", "--alpha", "0.5,2", "--beta", "0.5", "--duration", "600s"];

#[test]
fn a_log_that_is_made_is_checked_and_the_same_for_one_seed() {
    let folder = tempfile::tempdir().expect("there is room");
    let made =
        pu_log(folder.path(), &[&GENERATE[..], &["--users-per-band", "3", "--out", "pu.log"]].concat());
    assert!(made.status.success() && made.stdout.is_empty(), "{}", told(&made.stderr));
    let again = pu_log(folder.path(), &[&GENERATE[..], &["--users-per-band", "3"]].concat());
    assert_eq!(
        told(&again.stdout),
        fs::read_to_string(folder.path().join("pu.log")).expect("it was written")
    );
    let other = pu_log(folder.path(), &[&GENERATE[..], &["--users-per-band", "3", "--seed", "2"]].concat());
    assert_ne!(other.stdout, again.stdout);
    let version = Command::cargo_bin("linkhold").expect("cargo built it").arg("--version").output();
    let version = told(&version.expect("it starts").stdout);
    assert!(version.contains(" (commit "), "{version}");
    assert_eq!(told(&again.stdout).lines().next(), Some(format!("# {}", version.trim_end()).as_str()));
    let checked = pu_log(folder.path(), &["check", "pu.log"]);
    let text = told(&checked.stdout);
    assert!(checked.status.success(), "{}", told(&checked.stderr));
    assert!(text.starts_with("pu.log: OK\n6 PUs on 2 bands, "), "{text}");
    // Three users of 50 % occupy 1 - 1/8 of the time; three of 20 %, 1 - 0.8^3.
    for (line, share, on) in [(2, 87.5, 2.0), (3, 48.8, 0.5)] {
        let line = text.lines().nth(line).expect("a line for the band");
        let number = |before: &str, after: &str| -> f64 {
            let rest = line.split_once(before).unwrap_or_else(|| panic!("{line}")).1;
            rest.split_once(after).unwrap_or_else(|| panic!("{line}")).0.parse().expect("it is a number")
        };
        assert!(line.contains(": 3 PUs, "), "{line}");
        assert!((number("occupied ", " %") - share).abs() < 6.0, "{line}");
        assert!((number("is on for ", " s") / on - 1.0).abs() < 0.2, "{line}");
        assert!((number("off for ", " s") / 2.0 - 1.0).abs() < 0.2, "{line}");
    }
}

#[test]
fn ten_thousand_users_and_a_million_bursts_are_made_and_checked() {
    let folder = tempfile::tempdir().expect("there is room");
    // A user is on and off for a second each, so that it has 100 bursts in 200 s, and a few more or less.
    let arguments = ["generate", "--bands", "100", "--alpha", "1", "--beta", "1", "--duration", "202s"];
    let made =
        pu_log(folder.path(), &[&arguments[..], &["--users-per-band", "100", "--out", "pu.log"]].concat());
    assert!(made.status.success(), "{}", told(&made.stderr));
    let log = fs::read(folder.path().join("pu.log")).expect("it was written");
    let entries = log.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"<")).count();
    assert!((1_010_000..1_040_000).contains(&entries), "{entries}");
    let checked = pu_log(folder.path(), &["check", "pu.log", "--bands", "100"]);
    let text = told(&checked.stdout);
    assert!(checked.status.success(), "{}", told(&checked.stderr));
    let bursts = entries - 10_000;
    assert!(
        text.starts_with(&format!("pu.log: OK\n10000 PUs on 100 bands, {bursts} bursts until ")),
        "{text}"
    );
    assert_eq!(text.lines().filter(|line| line.contains(": 100 PUs, occupied ")).count(), 100, "{text}");
}

#[test]
fn users_stand_where_they_are_told_to() {
    let folder = tempfile::tempdir().expect("there is room");
    let made = pu_log(
        folder.path(),
        &[&GENERATE[..], &["--place", "10,20.5", "--place=-3,4", "--power", "0.28"]].concat(),
    );
    let text = told(&made.stdout);
    assert!(
        text.contains("\n<1, 10, 20.5, 1, 0.28>\n<2, -3, 4, 2, 0.28>\n"),
        "{text} {}",
        told(&made.stderr)
    );
}

#[test]
fn what_is_wrong_is_told_and_ends_with_exit_code_2() {
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("bad.log"), "<1, 0, 0, 1, 1>\n<1, 5, 4>\n").expect("it is written");
    fs::write(folder.path().join("high.log"), "<1, 0, 0, 7, 1>\n").expect("it is written");
    for (arguments, message) in [
        (&["check", "bad.log"][..], "bad.log:2: the departure is not after the arrival"),
        (&["check", "high.log", "--bands", "5"], "high.log:1: there is no band 7; the bands are 1 to 5"),
        (&["check", "none.log"], "none.log: cannot read it"),
        (&[&GENERATE[..], &["--place", "1,2"]].concat(), "there are 1 places for 2 PUs"),
        (&[&GENERATE[..], &["--power", "-1"]].concat(), "transmit power of -1 W is out of range"),
        (&[&GENERATE[..], &["--area", "10"]].concat(), "as in 300x200"),
        (
            &["generate", "--bands", "3", "--alpha", "1,2", "--beta", "1", "--duration", "1s"],
            "--alpha: there are 2 rates for 3 bands",
        ),
        (
            &["generate", "--bands", "1", "--alpha", "0", "--beta", "1", "--duration", "1s"],
            "alpha 0 and beta 1 are rates",
        ),
        (
            &["generate", "--bands", "1", "--alpha", "1", "--beta", "1", "--duration", "0s"],
            "a log covers more than 0 s",
        ),
    ] {
        let output = pu_log(folder.path(), arguments);
        let text = told(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}\nshould tell: {message}\nbut told:    {text}");
    }
    let nowhere = pu_log(folder.path(), &[&GENERATE[..], &["--out", "no/such/pu.log"]].concat());
    assert_eq!(nowhere.status.code(), Some(2), "{}", told(&nowhere.stderr));
}
