//! What the command promises to its callers: exit codes, errors that name file, line and key, whole files or
//! none, and the same JSON for the same seed.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

const SCENARIO: &str = r#"schema = "linkhold.scenario/1"
name = "small"
duration = "2s"
[radio]
phy_rate = "24Mbit/s"
[radio.primary_user]
on_mean = "100ms"
off_mean = "400ms"
[[flows]]
direction = "downlink"
[[cases]]
name = "none"
[[cases]]
name = "dsasync"
mechanism = "dsasync"
"#;

/// The command with `folder` as its working folder.
fn linkhold(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("linkhold").expect("the binary was built for this test");
    command.current_dir(folder).args(args).env_remove("LINKHOLD_DATA");
    command
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Writes `scenario` as s.toml, runs it, and expects exit 2, `message` on standard error, and nothing
/// written.
#[track_caller]
fn refused(scenario: &str, files: &[(&str, &str)], args: &[&str], message: &str) {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), scenario).expect("written");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("written");
    }
    let before = names(folder.path());
    let output = linkhold(folder.path(), args).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(message), "should tell: {message}\nbut told:    {told}");
    assert!(output.stdout.is_empty(), "it printed {}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(names(folder.path()), before, "something was written");
}

const RUN: &[&str] = &["run", "s.toml"];

fn with_trace(down: &str) -> String {
    SCENARIO
        .replace(
            "phy_rate = \"24Mbit/s\"\n[radio.primary_user]\non_mean = \"100ms\"\noff_mean = \"400ms\"",
            "mac = \"trace\"\n[radio.trace]",
        )
        .replace("[radio.trace]", &format!("[radio.trace]\ndown = \"{down}\""))
}

#[test]
fn an_unknown_key_is_refused() {
    let text = SCENARIO.replace("phy_rate", "phyrate");
    refused(&text, &[], RUN, "s.toml:5:1: radio.phyrate: unknown key; did you mean `phy_rate`?");
}

#[test]
fn a_missing_unit_is_refused() {
    let text = SCENARIO.replace("\"100ms\"", "100");
    refused(&text, &[], RUN, "s.toml:7:11: radio.primary_user.on_mean: 100 has no unit");
}

#[test]
fn a_negative_rate_is_refused() {
    let text = SCENARIO.replace("24Mbit/s", "-24Mbit/s");
    refused(&text, &[], RUN, "s.toml:5:12: radio.phy_rate: \"-24Mbit/s\" is negative");
}

#[test]
fn alpha_min_above_one_is_refused() {
    let text =
        SCENARIO.replace("mechanism = \"dsasync\"", "mechanism = { name = \"dsasync\", alpha_min = 1.1 }");
    refused(&text, &[], RUN, "s.toml:15:45: cases[1].mechanism.alpha_min: 1.1 is not between 0 and 1");
}

#[test]
fn b_low_above_b_high_is_refused() {
    let table = "mechanism = { name = \"dsasync\", b_low = \"50MB\", b_high = \"40MB\" }";
    let text = SCENARIO.replace("mechanism = \"dsasync\"", table);
    refused(
        &text,
        &[],
        RUN,
        "s.toml:15:41: cases[1].mechanism.b_low: b_low (50.0 MB) must be below b_high (40.0 MB)",
    );
}

#[test]
fn an_empty_trace_is_refused() {
    let text = with_trace("empty.down");
    refused(
        &text,
        &[("empty.down", "")],
        RUN,
        "s.toml:7:8: radio.trace.down: empty.down:1: the trace is empty",
    );
}

#[test]
fn a_trace_that_is_not_sorted_is_refused() {
    let text = with_trace("t.down");
    let message = "s.toml:7:8: radio.trace.down: t.down:3: the trace is not sorted";
    refused(&text, &[("t.down", "1\n5\n4\n")], RUN, message);
}

#[test]
fn a_trace_of_snr_with_words_or_gaps_is_refused() {
    let text = SCENARIO.replace("24Mbit/s\"", "5.5Mbit/s\"\nsnr = { trace = \"snr.csv\" }");
    for (csv, message) in [
        ("time,snr\n0,5\n1,weak\n2,6\n", "snr.csv:3: "),
        ("time,snr\n0,5\n100,5\n", "snr.csv:3: there is a gap of 100s before this row (at most 60s)"),
        ("", "snr.csv"),
    ] {
        refused(&text, &[("snr.csv", csv)], RUN, message);
    }
}

#[test]
fn a_missing_scenario_file_is_refused() {
    refused(SCENARIO, &[], &["run", "other.toml"], "other.toml: cannot read the scenario file");
}

#[test]
fn an_output_folder_that_cannot_be_written_is_refused() {
    let in_a_file = ["run", "s.toml", "--out", "s.toml/out"];
    refused(SCENARIO, &[], &in_a_file, "--out s.toml/out: s.toml is not a folder");
    if cfg!(target_os = "linux") {
        let in_proc = ["run", "s.toml", "--out", "/proc/linkhold"];
        refused(SCENARIO, &[], &in_proc, "--out /proc/linkhold: the output folder is not writable");
    }
}

#[test]
fn quic_is_refused_by_the_simulator_with_what_to_do() {
    let text = SCENARIO.replace("direction = ", "transport = \"quic\"\ndirection = ");
    let message = "s.toml:10:13: flows[0].transport: case none: the simulator has no QUIC; run this scenario with \
                   `linkhold testbed`, or write transport = \"tcp\"";
    refused(&text, &[], RUN, message);
    let set = ["run", "s.toml", "--set", "flows.0.transport=quic"];
    refused(SCENARIO, &[], &set, "flows[0].transport: case none: the simulator has no QUIC");
    // It is valid all the same.
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), &text).expect("written");
    linkhold(folder.path(), &["scenario", "check", "s.toml"]).assert().success();
}

#[test]
fn a_seed_that_is_not_a_number_is_refused() {
    let text = SCENARIO.replace("duration", "seed = \"one\"\nduration");
    refused(&text, &[], RUN, "s.toml:3:8: seed: \"one\" is not a whole number");
    refused(
        SCENARIO,
        &[],
        &["run", "s.toml", "--set", "seed=one"],
        "--set seed=one: seed: \"one\" is not a whole number",
    );
    refused(SCENARIO, &[], &["run", "s.toml", "--seeds", "many"], "invalid value 'many' for '--seeds <N>'");
    refused(SCENARIO, &[], &["run", "s.toml", "--seeds", "-3"], "invalid value '-3' for '--seeds <N>'");
    for nonsense in ["many", "-3", "1.5", "9007199254740991"] {
        let args = ["reproduce", "cr-aware", "--first-seed", nonsense];
        refused(SCENARIO, &[], &args, &format!("invalid value '{nonsense}' for '--first-seed <N>'"));
    }
    // jq and most other readers of JSON cannot tell 2^53 and 2^53 + 1 apart.
    for seed in ["9007199254740991", "9007199254740993"] {
        let set = format!("seed={seed}");
        refused(SCENARIO, &[], &["run", "s.toml", "--set", &set], "seed: ");
    }
}

#[test]
fn a_negative_number_is_a_wrong_value_and_no_unknown_argument() {
    for (args, message) in [
        (&["testbed", "s.toml", "--jobs", "-1"][..], "invalid value '-1' for '--jobs <N>'"),
        (&["reproduce", "dsasync", "--jobs", "-1"], "invalid value '-1' for '--jobs <N>'"),
        (&["agent", "--config", "a.toml", "--record", "r", "--record-limit", "-5MB"], "\"-5MB\" is negative"),
        (&["host", "--config", "a.toml", "--record", "r", "--record-limit", "-5MB"], "\"-5MB\" is negative"),
        (&["pu-log", "generate", "--bands", "-1"], "invalid value '-1' for '--bands <B>'"),
        (&["pu-log", "generate", "--duration", "-10s"], "\"-10s\" is negative"),
        (&["pu-log", "check", "log.csv", "--bands", "-1"], "invalid value '-1' for '--bands <B>'"),
    ] {
        refused(SCENARIO, &[], args, message);
    }
}

#[test]
fn who_asks_for_one_seed_learns_where_it_is_set() {
    for command in ["run", "testbed"] {
        let args = [command, "s.toml", "--seed", "5"];
        refused(SCENARIO, &[], &args, "one seed is set by `--set seed=5`");
    }
}

#[test]
fn an_unknown_figure_is_refused() {
    refused(
        SCENARIO,
        &[],
        &["reproduce", "dsasync/fig99"],
        "no figure called `dsasync/fig99`; there are: dsasync/",
    );
}

#[test]
fn a_paper_that_cannot_run_against_a_kernel_is_refused_before_anything_is_made_ready() {
    for (args, message) in [
        (&["reproduce", "--stack", "kernel"][..], "[possible values: simulator, linux]"),
        (
            &["reproduce", "cr-aware", "--stack", "linux"],
            "cannot run against a kernel; these can: dsasync/overhead, dsasync/fig3",
        ),
        (&["reproduce", "dsasync/sensitivity", "--stack", "linux"], "it is no figure of the paper"),
        (
            &["reproduce", "dsasync", "--stack", "linux", "--figure", "fig4,fig9"],
            "no figure called `fig9`; there are: dsasync/",
        ),
        (&["reproduce", "--figure", "fig99"], "no figure called `fig99`; there are: dsasync/"),
        (&["reproduce", "dsasync", "--resume"], "--resume is for --stack linux"),
        (&["reproduce", "dsasync", "--jobs", "2"], "--jobs is for --stack linux"),
    ] {
        refused(SCENARIO, &[], args, message);
    }
}

#[test]
fn check_tells_every_problem_and_writes_nothing() {
    let text = SCENARIO.replace("phy_rate = \"24Mbit/s\"", "phy_rate = 24").replace("\"400ms\"", "\"0s\"");
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), text).expect("written");
    let output = linkhold(folder.path(), &["scenario", "check", "s.toml"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(
        lines[0].starts_with("s.toml:5:12: radio.phy_rate: ") && lines[1].starts_with("s.toml:8:12: "),
        "{told}"
    );
}

#[test]
fn check_says_what_a_scenario_comes_to() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let output = linkhold(folder.path(), &["scenario", "check", "s.toml"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.starts_with("s.toml: OK (small)\n") && told.contains("20.0 %"), "{told}");
}

/// A run's JSON without `wall_s`, the one number that may differ.
fn json(folder: &Path, args: &[&str]) -> serde_json::Value {
    let output = linkhold(folder, args).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    for run in report["runs"].as_array_mut().expect("runs") {
        let wall = run.as_object_mut().expect("a run").remove("wall_s");
        assert!(wall.is_some_and(|wall| wall.is_number()));
    }
    report
}

#[test]
fn one_seed_gives_one_result_on_any_number_of_threads_and_writes_nothing_with_json() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let run = |threads: &str| {
        json(folder.path(), &["run", "s.toml", "--seeds", "3", "--json", "--threads", threads])
    };
    let one = run("1");
    for threads in ["1", "2", "2", "4"] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
    assert_eq!(names(folder.path()), ["s.toml"]);
    assert_eq!(one["schema"], "linkhold.run/1");
    let order: Vec<_> = one["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| (run["case"].clone(), run["seed"].clone()))
        .collect();
    let expected: Vec<_> = ["none", "dsasync"]
        .iter()
        .flat_map(|case| (1..=3).map(move |seed| ((*case).into(), seed.into())))
        .collect();
    assert_eq!(order, expected);
    let other = json(folder.path(), &["run", "s.toml", "--seeds", "3", "--json", "--set", "seed=9"]);
    assert_ne!(other["runs"], one["runs"], "the seed must matter");
}

#[test]
fn a_run_writes_its_files_whole_and_replaces_older_ones_only() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let out = folder.path().join("a/b");
    fs::create_dir_all(&out).expect("made");
    fs::write(out.join("mine.txt"), "keep").expect("written");
    fs::write(out.join("run.json"), "old").expect("written");
    linkhold(folder.path(), &["run", "s.toml", "--pcap", "--out", "a/b"]).assert().success();
    let expected = [
        "dsasync-seed1.pcapng",
        "flows.parquet",
        "mine.txt",
        "none-seed1.pcapng",
        "report.html",
        "run.json",
        "scenario.toml",
        "series.parquet",
        "silences.parquet",
    ];
    assert_eq!(names(&out), expected);
    assert_eq!(names(folder.path()), ["a", "s.toml"], "a partial folder was left");
    assert_eq!(names(&folder.path().join("a")), ["b"], "a partial folder was left");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("run.json")).expect("read")).expect("JSON");
    assert_eq!(report["compare"][0]["baseline"], "none");
    let commit = report["program"]["commit"].as_str().expect("a commit");
    let version = env!("CARGO_PKG_VERSION");
    let written =
        |rest: &str| format!("# Written by linkhold {version} (commit {commit}): run --seeds {rest}.\n");
    let kept = fs::read_to_string(out.join("scenario.toml")).expect("read");
    assert_eq!(kept, format!("{}{SCENARIO}", written("1")));
    // What is kept of a kept one names its own program and command alone.
    let again = ["run", "a/b/scenario.toml", "--out", "again", "--seeds", "2", "--baseline", "dsasync"];
    linkhold(folder.path(), &again).assert().success();
    let kept = fs::read_to_string(folder.path().join("again/scenario.toml")).expect("read");
    assert_eq!(kept, format!("{}{SCENARIO}", written("2 --baseline dsasync")));
    fs::remove_dir_all(folder.path().join("again")).expect("it is there");
    assert_eq!(report["program"]["version"], env!("CARGO_PKG_VERSION"));
    let git = ["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short=12", "HEAD"];
    match std::process::Command::new("git").args(git).output() {
        Ok(head) if head.status.success() && std::env::var_os("LINKHOLD_COMMIT").is_none() => {
            assert_eq!(commit.trim_end_matches("-dirty"), String::from_utf8_lossy(&head.stdout).trim());
        }
        // Not in a checkout.
        Ok(_) | Err(_) => {}
    }
    let version = linkhold(folder.path(), &["--version"]).output().expect("it starts").stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    assert_eq!(version.trim(), format!("linkhold {} (commit {commit})", env!("CARGO_PKG_VERSION")));
    for (file, what) in [
        ("report.html", format!("linkhold {} (commit {commit})", env!("CARGO_PKG_VERSION"))),
        ("flows.parquet", format!("linkhold version {} (build {commit})", env!("CARGO_PKG_VERSION"))),
        ("none-seed1.pcapng", format!("(commit {commit})")),
    ] {
        let bytes = fs::read(out.join(file)).expect("read");
        assert!(bytes.windows(what.len()).any(|part| part == what.as_bytes()), "{file} lacks {what}");
    }
    let capture = fs::read(out.join("none-seed1.pcapng")).expect("read");
    assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a], "pcapng's section header");
    // Without --out the folder is named after the scenario, and the output says where the report is.
    let output = linkhold(folder.path(), &["run", "s.toml"]).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("out/small/report.html"));
    assert!(folder.path().join("out/small/report.html").is_file());
}

#[test]
fn the_scenario_beside_the_results_gives_the_same_results() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let set = ["--set", "wired.rtt=60ms", "--set", "cases.dsasync.mechanism.preset=paper", "--set", "seed=5"];
    let run = [&["run", "s.toml", "--out", "one"][..], &set].concat();
    linkhold(folder.path(), &run).assert().success();
    let of = |args: &[&str]| json(folder.path(), args)["runs"].clone();
    let with_set = of(&[&["run", "s.toml", "--json"][..], &set].concat());
    assert_eq!(of(&["run", "one/scenario.toml", "--json"]), with_set);
    let kept = fs::read_to_string(folder.path().join("one/scenario.toml")).expect("read");
    let program = format!("# Written by linkhold {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(kept.starts_with(&program) && kept.contains("# What linkhold ran: s.toml"), "{kept}");
    assert_ne!(of(&["run", "s.toml", "--json"]), with_set, "the overrides must matter");
    let report = fs::read_to_string(folder.path().join("one/report.html")).expect("read");
    assert!(report.contains("rtt = &quot;60ms&quot;"), "the report shows what was run");
}

#[test]
fn the_citation_names_this_version() {
    let citation = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CITATION.cff");
    let text = fs::read_to_string(citation).expect("part of the project");
    assert!(text.lines().any(|line| line == concat!("version: ", env!("CARGO_PKG_VERSION"))), "{text}");
}

#[test]
fn a_named_baseline_is_what_the_others_are_compared_with() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let report = json(folder.path(), &["run", "s.toml", "--seeds", "2", "--json", "--baseline", "dsasync"]);
    let rows = report["compare"].as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!((&row["baseline"], &row["case"]), (&"dsasync".into(), &"none".into()));
    }
    let wrong = ["run", "s.toml", "--baseline", "fifo"];
    refused(SCENARIO, &[], &wrong, "--baseline fifo: there is no such case; there are none, dsasync");
    // The demo compares with a router that queues, not with one that drops everything.
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml").display().to_string();
    let report =
        json(folder.path(), &["run", &demo, "--json", "--set", "duration=1s", "--set", "radio.switches=[]"]);
    assert_eq!(report["compare"][0]["baseline"], "fifo");
    let told = report["scenario"]["facts"].to_string();
    // It shows a usual base station, and says which case is an oracle.
    for wanted in [
        "told: quiet periods ahead, a primary user 20ms after its burst begins, its end at once; nobody tells the rate",
        "told: case oracle: quiet periods ahead, every other silence at its first moment, and the channel's exact rate",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
}

#[test]
fn a_scenario_can_come_from_standard_input() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let from_file = json(folder.path(), &["run", "s.toml", "--json"]);
    let piped =
        linkhold(folder.path(), &["run", "-", "--json"]).write_stdin(SCENARIO).output().expect("it starts");
    assert!(piped.status.success(), "{}", String::from_utf8_lossy(&piped.stderr));
    let piped: serde_json::Value = serde_json::from_slice(&piped.stdout).expect("JSON");
    assert_eq!(piped["runs"][1]["totals"], from_file["runs"][1]["totals"]);
    let wrong = SCENARIO.replace("phy_rate", "phyrate");
    let check =
        linkhold(folder.path(), &["scenario", "check", "-"]).write_stdin(wrong).output().expect("it starts");
    assert_eq!(check.status.code(), Some(2));
    let told = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(told.contains("<stdin>:5:1: radio.phyrate: unknown key"), "{told}");
}

#[test]
fn captures_of_a_run_whose_results_are_replaced_go_with_them() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let captures = || {
        let mut found = names(&folder.path().join("out"));
        found.retain(|name| name.ends_with(".pcapng"));
        found
    };
    let run = |more: &[&str]| {
        let args = [&["run", "s.toml", "--out", "out"][..], more].concat();
        linkhold(folder.path(), &args).assert().success();
    };
    run(&["--pcap", "--seeds", "2"]);
    assert_eq!(captures().len(), 4);
    fs::write(folder.path().join("out/mine.pcapng"), "kept").expect("written");
    run(&["--pcap"]);
    assert_eq!(captures(), ["dsasync-seed1.pcapng", "mine.pcapng", "none-seed1.pcapng"]);
    run(&[]);
    assert_eq!(captures(), ["mine.pcapng"]);
}

#[test]
fn a_signal_leaves_nothing_unfinished() {
    use std::process::Stdio;
    use std::time::{Duration, Instant};
    let folder = TempDir::new().expect("a temporary folder");
    let long = SCENARIO
        .replace("\"2s\"", "\"2000min\"")
        .replace("[radio]", "output.series_interval = \"10s\"\n[radio]");
    fs::write(folder.path().join("s.toml"), long).expect("written");
    let program = assert_cmd::cargo::cargo_bin("linkhold");
    // Three million bursts, so that the log takes seconds to write.
    let log =
        "pu-log generate --bands 100 --users-per-band 100 --alpha 1 --beta 1 --duration 600s --out pu.log";
    let run = "run s.toml --pcap";
    // All figures with twenty seeds, which take minutes.
    let reproduce = "reproduce dsasync --seeds 20 --out results";
    for (arguments, signal, status) in
        [run, log, reproduce].into_iter().flat_map(|command| [(command, "INT", 130), (command, "TERM", 143)])
    {
        // Who runs the tests may ignore SIGINT, as a shell in the background does, and so would the program.
        let mut child = std::process::Command::new("env")
            .args(["--default-signal=INT", "--"])
            .arg(&program)
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let begun = Instant::now();
        let partial = || names(folder.path()).iter().any(|name| name.starts_with(".linkhold-partial-"));
        while !partial() && begun.elapsed() < Duration::from_secs(20) {
            // Without a pause: the signal is to come as soon as there is something to remove.
            std::thread::yield_now();
        }
        assert!(partial(), "{arguments}: it began");
        let id = child.id().to_string();
        let sent =
            std::process::Command::new("kill").args(["-s", signal, &id]).status().expect("kill is there");
        assert!(sent.success());
        assert_eq!(child.wait().expect("it ended").code(), Some(status), "{arguments}: {signal}");
        assert_eq!(names(folder.path()), ["s.toml"], "{arguments}: {signal}");
    }
}

/// Waits up to 20 s.
#[track_caller]
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

fn send(signal: &str, child: &std::process::Child) {
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-s", signal, &id]).status();
    assert!(sent.expect("kill is there").success());
}

/// `nohup` and a script's `&` have signals ignored. Linux keeps one that is blocked all the same.
#[test]
fn a_signal_that_the_program_was_started_without_does_not_end_it() {
    let long = SCENARIO
        .replace("\"2s\"", "\"2000min\"")
        .replace("[radio]", "output.series_interval = \"10s\"\n[radio]");
    let program = assert_cmd::cargo::cargo_bin("linkhold");
    for ignored in ["HUP", "INT"] {
        let folder = TempDir::new().expect("a temporary folder");
        fs::write(folder.path().join("s.toml"), &long).expect("written");
        let script = format!("trap '' {ignored}; exec \"$0\" run s.toml --out results");
        let mut child = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(&program)
            .current_dir(folder.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        wait_until("it began", || names(folder.path()).len() > 1);
        send(ignored, &child);
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert_eq!(child.try_wait().expect("asked"), None, "{ignored} ended it");
        send("TERM", &child);
        assert_eq!(child.wait().expect("it ended").code(), Some(143), "{ignored}");
        assert_eq!(names(folder.path()), ["s.toml"], "{ignored}");
    }
}

/// Captures of an older run are many files to remove: a signal meanwhile leaves the old results or the new.
#[test]
fn a_signal_while_results_are_replaced_leaves_all_of_the_old_or_all_of_the_new() {
    use std::os::unix::fs::MetadataExt;
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let out = folder.path().join("out");
    fs::create_dir(&out).expect("made");
    fs::write(out.join("run.json"), "old").expect("written");
    let captures = 20_000;
    for seed in 0..captures {
        fs::write(out.join(format!("old-seed{seed}.pcapng")), "").expect("written");
    }
    let changed = || {
        let about = out.metadata().expect("there");
        (about.mtime(), about.mtime_nsec())
    };
    let untouched = changed();
    let mut child = std::process::Command::new("env")
        .args(["--default-signal=INT", "--"])
        .arg(assert_cmd::cargo::cargo_bin("linkhold"))
        .args(["run", "s.toml", "--out", "out"])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    // First by the hidden folder that is made in it, then by the results.
    wait_until("the hidden folder is made", || changed() != untouched);
    let made = changed();
    wait_until("the results are moved", || changed() != made);
    send("INT", &child);
    let status = child.wait().expect("it ended").code();
    assert!(matches!(status, Some(0 | 130)), "{status:?}");
    let left = names(&out);
    let old = left.iter().filter(|name| name.starts_with("old-seed")).count();
    if fs::read(out.join("run.json")).expect("there") == b"old" {
        assert_eq!(left.len(), captures + 1, "{old} old captures with old results");
    } else {
        assert_eq!(old, 0, "old captures with new results");
        let new = [
            "flows.parquet",
            "report.html",
            "run.json",
            "scenario.toml",
            "series.parquet",
            "silences.parquet",
        ];
        assert_eq!(left, new);
    }
}

/// Editors of Windows write a byte order mark before a text.
#[test]
fn a_scenario_with_a_byte_order_mark_is_kept_so_that_it_can_be_read() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), format!("\u{feff}{SCENARIO}")).expect("written");
    linkhold(folder.path(), &["run", "s.toml", "--out", "one"]).assert().success();
    let of = |file: &str| json(folder.path(), &["run", file, "--json"])["runs"].clone();
    assert_eq!(of("one/scenario.toml"), of("s.toml"));
    let kept = fs::read_to_string(folder.path().join("one/scenario.toml")).expect("read");
    assert!(kept.ends_with(SCENARIO) && !kept.contains('\u{feff}'), "{kept}");
    let wrong = format!("\u{feff}{}", SCENARIO.replace("phy_rate", "phyrate"));
    refused(&wrong, &[], RUN, "s.toml:5:1: radio.phyrate: unknown key");
}

/// A device that never ends, or a disk image by mistake, is refused before it takes all memory.
#[test]
fn what_is_too_large_or_no_text_is_refused() {
    let folder = TempDir::new().expect("a temporary folder");
    let sparse = |name: &str, length: u64| {
        fs::File::create(folder.path().join(name)).expect("made").set_len(length).expect("a sparse file");
    };
    sparse("large", 17 << 20);
    sparse("huge", (1 << 30) + 1);
    fs::write(folder.path().join("binary"), b"\xff").expect("written");
    let batch = |file| ["testbed", "--batch", file, "--out", "o"];
    for (args, message) in [
        (&["agent", "check", "large"][..], "large: it is larger than 16 MiB"),
        (&["agent", "check", "/dev/zero"], "/dev/zero: it is larger than 16 MiB"),
        (&["host", "check", "large"], "large: it is larger than 16 MiB"),
        (&["host", "check", "/dev/zero"], "/dev/zero: it is larger than 16 MiB"),
        (&["host", "check", "binary"], "binary:1:1: this is not text (UTF-8); save the file as UTF-8"),
        (&["agent", "check", "."], ".: it is a folder"),
        (&batch("large"), "large: cannot read it: it is larger than 16 MiB"),
        (&batch("/dev/zero"), "/dev/zero: cannot read it: it is larger than 16 MiB"),
        (&batch("binary"), "binary:1:1: this is not text (UTF-8); save the file as UTF-8"),
        (&["pu-log", "check", "huge"], "huge: cannot read it: it is larger than 1 GiB"),
    ] {
        let output = linkhold(folder.path(), args).timeout(std::time::Duration::from_secs(20)).output();
        let output = output.expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(message), "{args:?}: {told}");
    }
}

#[test]
fn a_batch_that_is_wrong_is_refused_with_its_place_its_key_and_what_is_right() {
    for (batch, message) in [
        ("{}", "b.json:1:1: expected a list, got an object; write one in brackets: [...]"),
        (
            r#"[{"name": "x", "scenario": "s.toml", "cc": "bbr"}]"#,
            r#"b.json:1:48: [0].cc: expected a list, got "bbr"; write ["bbr"]"#,
        ),
        (
            "[{\"name\": \"x\",\n\"scenaro\": \"s.toml\"}]",
            "b.json:2:9: [0].scenaro: unknown key `scenaro`; did you mean `scenario`?",
        ),
        (
            r#"[{"name": "x", "scenario": "s.toml", "seeds": 1.5}]"#,
            "[0].seeds: 1.5 is no whole number; write one from 0 to 4294967295",
        ),
        (r#"[{"name": "x"}]"#, "[0]: the key `scenario` is missing; write it"),
        (r#"[{"name": "x""#, "b.json:1:13: this is not JSON: EOF while parsing an object"),
    ] {
        let args = ["testbed", "--batch", "b.json", "--out", "o"];
        refused(SCENARIO, &[("b.json", batch)], &args, message);
    }
}

#[test]
fn what_a_wrong_argument_should_be_is_said() {
    let whole = |least: u64, most: u64| format!("write a whole number from {least} to {most}");
    let address = "\"foo\" is no IP address; write one such as 192.168.7.20";
    for (args, message) in [
        (&["signal", "freeze", "--station", "foo"][..], address.to_owned()),
        (&["signal", "snr", "foo", "17dB"], address.to_owned()),
        (&["signal", "grant", "foo", "1500B"], address.to_owned()),
        (&["signal", "room", "many", "1500B"], whole(0, u32::MAX.into())),
        (&["run", "s.toml", "--seeds", "1.5"], whole(1, 10_000)),
        (&["run", "s.toml", "--seeds", "10001"], whole(1, 10_000)),
        (&["run", "s.toml", "--threads", "0"], whole(1, 1024)),
        (&["testbed", "s.toml", "--seeds", "1e3"], whole(1, 10_000)),
        (&["reproduce", "dsasync", "--seeds", "0"], whole(1, 1000)),
        (&["reproduce", "dsasync", "--first-seed", "-1"], whole(0, (1 << 53) - 10_000)),
        (&["pu-log", "generate", "--seed", "-1"], whole(0, u64::MAX)),
        (
            &["agent", "replay", "s.toml"],
            "s.toml: this is no recording; make one with `linkhold agent --config FILE --record FILE`"
                .to_owned(),
        ),
    ] {
        refused(SCENARIO, &[], args, &message);
    }
}

#[test]
fn a_figure_that_is_nearly_right_is_suggested() {
    for (args, message) in [
        (
            &["reproduce", "dsasinc"][..],
            "no figure called `dsasinc`; did you mean `dsasync`? There are: dsasync/",
        ),
        (&["reproduce", "dsasinc/fig4"], "did you mean `dsasync/fig4`?"),
        (&["reproduce", "dsasync/fgi4"], "did you mean `dsasync/fig4`?"),
        // Another number is another figure, and no slip. Of a paper that is right, its figures are listed.
        (&["reproduce", "dsasync/fig99"], "fig7, dsasync/fig8, dsasync/sensitivity\n"),
        (&["reproduce", "dsasync", "--figure", "overhaed"], "did you mean `overhead`?"),
        (&["reproduce", "colour"], "no figure called `colour`; there are: dsasync/"),
    ] {
        refused(SCENARIO, &[], args, message);
    }
}

#[test]
fn a_log_goes_into_a_device_and_behind_a_link_and_replaces_neither() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = TempDir::new().expect("a temporary folder");
    let fifo = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    fs::write(folder.path().join("target.log"), "old").expect("written");
    symlink("target.log", folder.path().join("link.log")).expect("a link");
    let generate = |out: &str| {
        let args = ["pu-log", "generate", "--bands", "1", "--alpha", "1", "--beta", "1", "--duration", "2s"];
        linkhold(folder.path(), &[&args[..], &["--out", out]].concat()).assert().success();
    };
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).expect("a log")
    });
    generate("pipe");
    let read = reader.join().expect("it reads");
    assert!(read.starts_with("# linkhold "), "{read}");
    assert!(fs::symlink_metadata(&fifo).expect("it is there").file_type().is_fifo());
    generate("link.log");
    assert!(folder.path().join("link.log").is_symlink());
    assert_eq!(fs::read_to_string(folder.path().join("target.log")).expect("a log"), read);
    assert_eq!(names(folder.path()), ["link.log", "pipe", "target.log"]);
}

/// What is said on standard error may have nowhere to go.
#[test]
fn a_standard_error_that_takes_nothing_changes_no_result() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let status = |args: &[&str]| {
        let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        std::process::Command::new(assert_cmd::cargo::cargo_bin("linkhold"))
            .current_dir(folder.path())
            .args(args)
            .stdout(std::process::Stdio::null())
            .stderr(full)
            .status()
            .expect("it starts")
            .code()
    };
    // Of two stations one has no flow, which is a hint.
    assert_eq!(status(&["run", "s.toml", "--set", "radio.stations=2", "--out", "out"]), Some(0));
    assert!(folder.path().join("out/run.json").is_file());
    assert_eq!(status(&["scenario", "check", "nothing.toml"]), Some(2));
}

#[test]
fn estimates_end_when_nobody_reads_them() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("linkhold"))
        .arg("estimate")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut numbers = child.stdin.take().expect("a pipe");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    numbers.write_all(b"1 2 3\n").expect("it reads");
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer");
    drop(reader);
    // The pipe takes some lines before the command's end is seen.
    let refused = (0..1_000_000).any(|_| numbers.write_all(b"1 2 3\n").is_err());
    assert!(refused && child.wait().expect("it ended").success(), "{line}");
}

#[test]
fn tables_are_as_wide_as_columns_says() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let table = |columns: &str| {
        let output =
            linkhold(folder.path(), &["run", "s.toml"]).env("COLUMNS", columns).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let widest = |text: &str| {
        text.lines()
            .filter(|line| line.contains(['│', '─']))
            .map(|line| line.chars().count())
            .max()
            .expect("a table")
    };
    let (wide, narrow) = (table("200"), table("60"));
    let all = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let (before_the_report, _) = narrow.split_once("\nReport: ").expect("a report");
    assert!(all(before_the_report) <= Some(60), "{narrow}");
    assert!(narrow.contains("of limit") && narrow.contains("p99"), "{narrow}");
    assert!(widest(&wide) > 60 && wide.contains("RTOs") && !wide.contains("not shown"), "{wide}");
    assert!(widest(&narrow) <= 60 && narrow.contains("dsasync") && narrow.contains("not shown"), "{narrow}");
}

#[test]
fn idle_stations_are_pointed_out_and_nothing_else_changes() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO.replace("[radio]", "[radio]\nstations = 6"))
        .expect("written");
    for args in [&["scenario", "check", "s.toml"][..], &["run", "s.toml", "--json"]] {
        let output = linkhold(folder.path(), args).output().expect("it starts");
        assert!(output.status.success());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.starts_with("hint: 5 of 6 stations have no flow"), "{told}");
    }
}

#[test]
fn numbers_get_the_interval_of_the_reports() {
    let folder = TempDir::new().expect("a temporary folder");
    let ask =
        |text: &str| linkhold(folder.path(), &["estimate"]).write_stdin(text).output().expect("it starts");
    let output = ask("1 2 3 4 5 6 7 8 9 10\n7\n\n");
    let lines: Vec<serde_json::Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3);
    // t(0.975, 9) = 2.262157; s = 3.02765.
    let high = lines[0]["ci95"][1].as_f64().expect("an interval");
    assert!((high - 5.5 - 2.262_157 * 3.027_650_35 / 10_f64.sqrt()).abs() < 1e-5, "{high}");
    assert_eq!((&lines[1]["mean"], lines[1]["ci95"].is_null()), (&7.0.into(), true));
    assert!(lines[2]["mean"].is_null());
    // What is too large to compute with has a mean at most.
    let huge = ask("1e308 1e308\n1e308 -1e308\n");
    assert!(huge.status.success());
    for line in String::from_utf8_lossy(&huge.stdout).lines() {
        assert!(line.contains("\"ci95\":null"), "{line}");
    }
    let wrong = ask("1 2\n3 many\n");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("standard input:2: \"many\" is no finite number")
    );
}

#[test]
fn the_example_scenarios_are_valid() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut checked = 0;
    for entry in fs::read_dir(&scenarios).expect("the folder is part of the project") {
        let path = entry.expect("an entry").path();
        // Traces of scenarios stand in folders beside them.
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&path).expect("read");
        let mut command = linkhold(&scenarios, &["scenario", "check"]);
        command.arg(&path);
        if text.contains("${LINKHOLD_DATA}") {
            // A check needs some trace, no particular one.
            let data = TempDir::new().expect("a temporary folder");
            for link in ["ATT-LTE-driving-2016", "Verizon-LTE-short"] {
                for end in ["down", "up"] {
                    fs::write(data.path().join(format!("{link}.{end}")), "1\n2\n500\n").expect("written");
                }
            }
            command.env("LINKHOLD_DATA", data.path()).assert().success();
        } else {
            command.assert().success();
        }
        checked += 1;
    }
    assert!(checked >= 7, "{checked}");
}

const AGENT: &str = "wired = [\"eth0\"]\nradio = [\"wlan0\"]\n";

#[test]
fn an_agents_configuration_is_refused_with_file_line_and_key() {
    let broken = format!("{AGENT}[silence]\nmax = \"ten\"\n");
    for args in [&["agent", "--config", "a.toml"][..], &["agent", "check", "a.toml"]] {
        refused(SCENARIO, &[("a.toml", &broken)], args, "a.toml:4:7: silence.max: \"ten\" is not a duration");
    }
    for command in ["agent", "host"] {
        for args in [&[command, "--config", "none.toml"][..], &[command, "check", "none.toml"]] {
            let remedy =
                format!("none.toml: no such file; `linkhold {command} example > none.toml` writes one");
            refused(SCENARIO, &[], args, &remedy);
        }
    }
    refused(SCENARIO, &[], &["agent"], "--config <FILE>");
}

#[test]
fn a_configuration_comes_from_standard_input_too() {
    let folder = TempDir::new().expect("a temporary folder");
    for (command, text) in [("agent", AGENT), ("host", "radio = [\"wlan0\"]\n")] {
        let check = |text: &str| {
            let mut check = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin("linkhold"));
            check.args([command, "check", "-"]).current_dir(folder.path()).write_stdin(text);
            check.output().expect("it starts")
        };
        let good = check(text);
        assert!(good.status.success(), "{command}: {}", String::from_utf8_lossy(&good.stderr));
        let bad = check(&format!("{text}[silence]\nmax = \"ten\"\n"));
        let line = text.lines().count() + 2;
        let expected = format!("<stdin>:{line}:7: silence.max: \"ten\" is not a duration");
        let told = String::from_utf8_lossy(&bad.stderr).into_owned();
        assert!(bad.status.code() == Some(2) && told.contains(&expected), "{command}: {told}");
    }
}

#[test]
fn the_agents_example_is_a_valid_configuration() {
    let folder = TempDir::new().expect("a temporary folder");
    let example = linkhold(folder.path(), &["agent", "example"]).output().expect("it starts");
    assert!(example.status.success());
    fs::write(folder.path().join("agent.toml"), &example.stdout).expect("written");
    let check = linkhold(folder.path(), &["agent", "check", "agent.toml"]).output().expect("it starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn a_signal_that_makes_no_sense_is_refused_before_it_is_sent() {
    for (args, message) in [
        (&["freeze", "--for", "3"][..], "\"3\" has no unit; write a duration such as \"25ms\""),
        (&["freeze", "--for", "-5ms"], "\"-5ms\" is negative"),
        (&["--in", "-1s", "freeze"], "\"-1s\" is negative"),
        (&["switch", "-54Mbit/s"], "\"-54Mbit/s\" is negative"),
        (&["switch", "54Mbit/s", "--efficiency", "-1"], "above 0 and at most 1"),
        (&["freeze", "--cause", "boredom"], "no cause; write one of sensing"),
        (&["freeze", "--for", "1s", "--expected", "1s"], "cannot be used with"),
        (&["freeze", "--expected", "-1s"], "\"-1s\" is negative"),
        (&["room", "-5", "1kB"], "invalid value '-5' for '<PACKETS>'"),
        (&["thaw", "--station", "kitchen"], "is no IP address; write one such as 192.168.7.20"),
        (&["switch", "54Mbit/s", "--efficiency", "1.5"], "above 0 and at most 1"),
        (
            &["snr", "10.0.0.5", "loud"],
            "\"loud\" is not a number of decibels; write a number of decibels such as",
        ),
        (&["snr", "10.0.0.5", "500"], "\"500\" is no ratio of a radio; write one from -200dB to 200dB"),
        (&["snr", "10.0.0.5", "500dB"], "\"500dB\" is too large; at most 200dB"),
        (&["snr", "10.0.0.5", "nan"], "\"nan\" is no ratio of a radio"),
        (&["freeze", "--for", "0s"], "--for 0s is no silence"),
        (&["--in", "5ms", "freeze", "--ago", "5ms"], "--in and --ago together"),
        (&["--in", "5ms", "switch", "54Mbit/s"], "--in is for `freeze` and `thaw`"),
        (&["--in", "5ms", "snr", "10.0.0.5", "3dB"], "leave --in out, and say it at that time"),
        (&["sensing", "--period", "1s"], "--duration is missing: write how long each quiet period lasts"),
        (
            &["sensing", "--period", "1s", "--duration", "2s"],
            "a quiet period of 2s every 1s leaves no time to transmit; make --duration shorter than --period",
        ),
        (&["sensing", "--period", "1s", "--duration", "1s"], "leaves no time to transmit"),
    ] {
        refused(SCENARIO, &[], &[&["signal", "--socket", "none.sock"], args].concat(), message);
    }
}

#[test]
fn without_an_agent_signal_and_status_fail_and_say_what_to_do() {
    let folder = TempDir::new().expect("a temporary folder");
    for args in [&["signal", "freeze", "--for", "500ms"][..], &["status"], &["status", "--json"]] {
        let args = [args, &["--socket", "none.sock"]].concat();
        let output = linkhold(folder.path(), &args).output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("no agent listens on none.sock") && told.contains("linkhold agent --config"),
            "{told}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_signal_says_on_the_socket_what_its_arguments_say() {
    use std::io::{BufRead, BufReader, Write};
    let folder = TempDir::new().expect("a temporary folder");
    let socket = folder.path().join("a.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let agent = std::thread::spawn(move || {
        let mut stream = linkhold_testing::accept(&listener).expect("a client");
        let mut line = String::new();
        BufReader::new(stream.try_clone().expect("cloned")).read_line(&mut line).expect("a line");
        stream.write_all(b"{\"ok\":false,\"error\":\"not today\"}\n").expect("answered");
        line
    });
    let args = [
        "signal",
        "--radio",
        "wlan1",
        "--in",
        "80ms",
        "--socket",
        "a.sock",
        "freeze",
        "--for",
        "120ms",
        "--station",
        "10.0.0.5",
    ];
    let output = linkhold(folder.path(), &args).output().expect("it starts");
    let said: serde_json::Value = serde_json::from_str(&agent.join().expect("no panic")).expect("JSON");
    let expected = serde_json::json!({
        "source": "signal",
        "radio": "wlan1",
        "effective_in_s": 0.08,
        "event": {"freeze": {"scope": "10.0.0.5", "cause": "primary-user", "for_s": 0.12}},
    });
    assert_eq!(said, expected);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "the agent refuses: not today\n");
}

#[test]
fn the_help_is_the_manual() {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, args) in [
        ("help", &["--help"][..]),
        ("help_run", &["run", "--help"]),
        ("help_reproduce", &["reproduce", "--help"]),
        ("help_scenario_check", &["scenario", "check", "--help"]),
        ("help_agent", &["agent", "--help"]),
        ("help_signal", &["signal", "--help"]),
        ("help_signal_freeze", &["signal", "freeze", "--help"]),
        ("help_sense", &["sense", "--help"]),
        ("help_pu_log_generate", &["pu-log", "generate", "--help"]),
        ("help_status", &["status", "--help"]),
        ("help_doctor", &["doctor", "--help"]),
    ] {
        let output = linkhold(folder.path(), args).env("COLUMNS", "100").output().expect("it starts");
        assert!(output.status.success());
        insta::assert_snapshot!(name, String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_help_on_scenarios_lists_every_mechanism_with_its_settings() {
    let folder = TempDir::new().expect("a temporary folder");
    let output = linkhold(folder.path(), &["scenario", "--help"]).output().expect("it starts");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    // The help breaks long lists into lines, so single words are looked for.
    let words: Vec<&str> = help.split(|c: char| c.is_whitespace() || ",.:".contains(c)).collect();
    for entry in linkhold_core::registry::entries() {
        let presets = entry.presets.iter().map(|(name, _)| *name);
        for name in presets.chain(entry.keys.iter().map(|key| key.name)) {
            assert!(words.contains(&name), "{}: {name} is not in\n{help}", entry.name);
        }
    }
}

#[test]
fn completions_and_manual_pages_name_the_commands() {
    let folder = TempDir::new().expect("a temporary folder");
    for shell in ["bash", "zsh", "fish"] {
        let output = linkhold(folder.path(), &["completions", shell]).output().expect("it starts");
        assert!(String::from_utf8_lossy(&output.stdout).contains("reproduce"), "{shell}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = linkhold(folder.path(), &["completions", shell]).output().expect("it starts");
        let script = String::from_utf8_lossy(&output.stdout).into_owned();
        for word in ["primary-user", "channel-switch", "dsasync/fig4", "dsasync/sensitivity"] {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
        // Of `--figure`: names without their paper.
        let name = if shell == "fish" { "fig10\\t" } else { "fig10 fig2 fig3" };
        assert!(script.contains(name), "{shell} does not complete {name}");
    }
    let page = linkhold(folder.path(), &["man"]).output().expect("it starts").stdout;
    assert!(
        String::from_utf8_lossy(&page).starts_with(".ie")
            || String::from_utf8_lossy(&page).contains(".TH linkhold")
    );
    linkhold(folder.path(), &["man", "--out", "man"]).assert().success();
    let pages = names(&folder.path().join("man"));
    assert!(pages.contains(&"linkhold-run.1".to_owned()));
    // Every page that a page refers to is there.
    let mut referred = 0;
    for text in pages
        .iter()
        .map(|page| fs::read_to_string(folder.path().join("man").join(page)).expect("read"))
        .chain([String::from_utf8_lossy(&page).into_owned()])
    {
        for name in text.replace('\\', "").split("(1)").filter_map(|before| before.split_whitespace().last())
        {
            if name.starts_with("linkhold-") {
                assert!(pages.contains(&format!("{name}.1")), "there is no page {name}(1)");
                referred += 1;
            }
        }
    }
    assert!(referred >= 10, "{referred}");
}

#[test]
fn the_examples_of_the_help_select_what_there_is() {
    let folder = TempDir::new().expect("a temporary folder");
    fs::write(folder.path().join("s.toml"), SCENARIO).expect("written");
    let help = linkhold(folder.path(), &["run", "--help"]).output().expect("it starts").stdout;
    let help = String::from_utf8_lossy(&help).into_owned();
    let report = json(folder.path(), &["run", "s.toml", "--json"]);
    let metrics: Vec<&str> =
        help.split("select(.metric==\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(!metrics.is_empty(), "{help}");
    for metric in metrics {
        let rows = report["compare"].as_array().expect("rows");
        assert!(rows.iter().any(|row| row["metric"] == metric), "the example selects nothing: {metric}");
    }
}

/// An agent with several radios says which of them a signal was told to.
#[test]
fn a_signal_to_several_radios_says_so() {
    use std::io::{BufRead, BufReader, Write};
    let folder = TempDir::new().expect("a temporary folder");
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join("a.sock")).expect("a socket");
    let agent = std::thread::spawn(move || {
        for radios in [r#"["wlan0"]"#, r#"["wlan0","wlan1"]"#] {
            let mut stream = linkhold_testing::accept(&listener).expect("a client");
            BufReader::new(stream.try_clone().expect("cloned"))
                .read_line(&mut String::new())
                .expect("a line");
            stream.write_all(format!("{{\"ok\":true,\"radios\":{radios}}}\n").as_bytes()).expect("answered");
        }
    });
    for expected in ["", "told to wlan0 and wlan1\n"] {
        let output =
            linkhold(folder.path(), &["signal", "--socket", "a.sock", "thaw"]).output().expect("it starts");
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
    agent.join().expect("no panic");
}
