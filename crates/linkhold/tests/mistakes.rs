//! What the command says to what a stranger gets wrong at first: it is refused before anything is done, and
//! the message names what would be right.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const AGENT: &str = "wired = [\"eth0\"]\nradio = [\"wlan0\"]\n";
const HOST: &str = "radio = [\"wlan0\"]\n";

/// The command with `folder` as its working folder, and nothing to read.
fn linkhold(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("linkhold"));
    command.current_dir(folder).args(args).env_remove("LINKHOLD_DATA").stdin(Stdio::null());
    command
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("written");
    }
    folder
}

/// Expects this exit code and `message` on standard error.
#[track_caller]
fn tells(output: &Output, code: i32, message: &str) {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains(message), "should tell: {message}\nbut told:    {told}");
    assert_eq!(output.status.code(), Some(code), "{told}");
}

#[test]
fn a_recording_overwrites_neither_its_configuration_nor_another_file() {
    for (command, config) in [("agent", AGENT), ("host", HOST)] {
        let files = [("a.toml", config.as_bytes()), ("s.toml", b"schema = \"linkhold.scenario/1\"\n")];
        let folder = folder(&files);
        for (file, message) in [
            ("a.toml", "--record a.toml: this is the configuration; name another file"),
            ("s.toml", "--record s.toml: there is a file already that is no recording of linkhold"),
        ] {
            let args = [command, "--config", "a.toml", "--record", file];
            tells(&linkhold(folder.path(), &args).output().expect("it starts"), 2, message);
        }
        for (name, content) in files {
            assert_eq!(fs::read(folder.path().join(name)).expect("read"), content, "{name}");
        }
        let args = [command, "--config", "a.toml", "--record", "r", "--record-limit", "0B"];
        let output = linkhold(folder.path(), &args).output().expect("it starts");
        tells(&output, 2, "\"0B\" has no room for more than a recording's head; write at least 64kB");
    }
}

/// The command as somebody without rights, fed with `input`.
fn as_nobody(args: &[&str], input: &str) -> Output {
    let folder = TempDir::new().expect("a temporary folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("changed");
    let mut command = linkhold(folder.path(), args);
    if nix::unistd::geteuid().is_root() {
        // The folder of the build may be closed to others.
        let program = folder.path().join("linkhold");
        fs::copy(assert_cmd::cargo::cargo_bin("linkhold"), &program).expect("copied");
        command = Command::new(program);
        command.args(args).current_dir("/").uid(65534).gid(65534);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("it ends")
}

#[test]
fn who_lacks_rights_learns_so_and_what_helps() {
    for (command, config, needs) in [
        ("agent", AGENT, "linkhold agent needs CAP_NET_ADMIN and CAP_NET_RAW: run it with sudo\n"),
        (
            "host",
            HOST,
            "linkhold host needs CAP_NET_ADMIN and CAP_NET_RAW, and CAP_BPF and CAP_PERFMON for the congestion \
             controls: run it with sudo\n",
        ),
    ] {
        let config = format!("{config}[control]\nsocket = \"/nonexistent/agent.sock\"\n");
        let output = as_nobody(&[command, "--config", "-"], &config);
        tells(&output, 1, needs);
        assert_eq!(output.stderr.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
    let doctor = as_nobody(&["doctor", "agent"], "");
    tells(&doctor, 1, "the agent does not run here");
    let report = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let told: serde_json::Value =
        serde_json::from_slice(&as_nobody(&["doctor", "agent", "--json"], "").stdout).expect("JSON");
    let commit = &told["program"]["commit"];
    assert!(told["program"]["version"] == env!("CARGO_PKG_VERSION") && commit.is_string(), "{told}");
    assert!(told["schema"] == "linkhold.doctor/1" && told["checks"].is_array(), "{told}");
    let checks = told["checks"].as_array().expect("a list").iter();
    let needs: Vec<&str> = checks.filter_map(|check| check["need"].as_str()).collect();
    assert!(needs.iter().all(|need| ["agent", "agent-and-testbed"].contains(need)), "{needs:?}");
    assert!(told["runs"]["simulator"] == true && told["runs"]["agent"] == false, "{told}");
    for check in ["privileges", "NFQUEUE", "flow offload"] {
        let mut lines = report.lines().skip_while(|line| !line.contains(check));
        let told: Vec<&str> = lines.by_ref().take(2).collect();
        assert!(told.len() == 2 && told[1].ends_with("try: sudo linkhold doctor"), "{check}: {report}");
    }
}

#[test]
fn a_level_of_the_log_that_is_none_is_refused() {
    let folder = folder(&[("a.toml", AGENT.as_bytes()), ("h.toml", HOST.as_bytes())]);
    for (level, what) in [
        ("verbose", "\"verbose\" is no level"),
        ("info,foo", "\"foo\" is no level"),
        ("linkhold_linux=debugg", "\"debugg\" is no level"),
        ("linkhold_linux", "\"linkhold_linux\" is no level"),
        ("[=debug", "\"[=debug\" cannot be read"),
    ] {
        for args in [["agent", "--config", "a.toml"], ["host", "--config", "h.toml"]] {
            let output =
                linkhold(folder.path(), &args).env("LINKHOLD_LOG", level).output().expect("it starts");
            let told = format!("LINKHOLD_LOG: {what}; write error, warn, info, debug or MODULE=LEVEL\n");
            tells(&output, 2, &told);
        }
    }
}

/// What `linkhold signal` says on the socket, and what became of it when the agent answers so.
fn signal(args: &[&str], answer: &str) -> (serde_json::Value, Output) {
    let folder = folder(&[]);
    let listener = UnixListener::bind(folder.path().join("a.sock")).expect("a socket");
    let answer = format!("{answer}\n");
    let agent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        BufReader::new(stream.try_clone().expect("cloned")).read_line(&mut line).expect("a line");
        // Who never asked has gone by now.
        let _ = stream.write_all(answer.as_bytes());
        serde_json::from_str(&line).unwrap_or_default()
    });
    let args = [&["signal", "--socket", "a.sock"], args].concat();
    let output = linkhold(folder.path(), &args).output().expect("it starts");
    // Ends the waiting for a command that was refused before it asked.
    drop(UnixStream::connect(folder.path().join("a.sock")));
    (agent.join().expect("no panic"), output)
}

#[test]
fn a_signals_numbers_are_read_as_its_help_says() {
    for (text, db) in [("17.5", 17.5), ("10dB", 10.0), ("-5dB", -5.0), ("-3", -3.0)] {
        let (said, output) = signal(&["snr", "10.91.2.2", text], "{\"ok\":true}");
        assert_eq!(output.status.code(), Some(0), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(said["event"]["snr"]["db"].as_f64(), Some(db), "{text}");
    }
    let (said, output) = signal(&["sensing", "--period", "0s"], "{\"ok\":true}");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said["event"]["sensing"]["period_s"].as_f64(), Some(0.0));
}

#[test]
fn a_silence_longer_than_the_agent_allows_is_refused_in_the_commands_words() {
    let answer =
        "{\"ok\":false,\"error\":\"wlan1: `for_s` is longer than `silence.max` of the configuration, 10s\"}";
    let (_, output) = signal(&["freeze", "--radio", "wlan1", "--for", "60s"], answer);
    let told = "--for 60s is longer than silence.max (10s) of the agent's configuration; raise it there\n";
    tells(&output, 2, told);
}

#[test]
fn a_file_of_another_kind_is_called_by_its_name() {
    let host = format!("{HOST}freeze = \"window\"\n");
    let scenario = "schema = \"linkhold.scenario/1\"\nname = \"x\"\nduration = \"2s\"\n";
    let folder = folder(&[("my.toml", scenario.as_bytes()), ("host.toml", host.as_bytes())]);
    let told = "my.toml: this is a scenario (schema = \"linkhold.scenario/1\"); `linkhold scenario check` reads it\n";
    for args in [
        &["agent", "check", "my.toml"][..],
        &["agent", "--config", "my.toml"],
        &["host", "check", "my.toml"],
        &["doctor", "--config", "my.toml"],
    ] {
        let output = linkhold(folder.path(), args).output().expect("it starts");
        tells(&output, 2, told);
        assert_eq!(String::from_utf8_lossy(&output.stderr), told);
    }
    // A host's file has no `wired`, and an agent's no `freeze`.
    let output =
        linkhold(folder.path(), &["doctor", "host", "--config", "host.toml"]).output().expect("it starts");
    assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains("there is no interface wlan0"), "{report}");
    // It may run here or not, but with a radio that is not there it is not well.
    tells(&output, 1, "");
    let verdicts: Vec<&str> = report.lines().filter(|line| line.contains(" runs here: ")).collect();
    let is_all = verdicts.len() == 1 && verdicts[0].starts_with("host runs here: ");
    assert!(is_all && verdicts[0] != "host runs here:      yes" && !report.contains("iperf3"), "{report}");
    let output =
        linkhold(folder.path(), &["doctor", "agent", "--config", "host.toml"]).output().expect("it starts");
    tells(&output, 2, "the key `wired` is missing");
}

#[test]
fn a_routers_mechanism_on_a_host_is_told_where_it_can_stand() {
    let folder = folder(&[("host.toml", b"radio = [\"wlan0\"]\nmechanism = \"dsasync\"\n")]);
    let output = linkhold(folder.path(), &["host", "check", "host.toml"]).output().expect("it starts");
    let told = "host.toml:2:13: mechanism: dsasync would run at \"base-station\"; `linkhold host` runs on a host; \
                write at = \"stations\", as in mechanism = { name = \"dsasync\", at = \"stations\" }\n";
    tells(&output, 2, told);
}

const SCENARIO: &str = r#"schema = "linkhold.scenario/1"
name = "small"
duration = "2s"
[radio]
phy_rate = "5.5Mbit/s"
[[flows]]
direction = "downlink"
[[cases]]
name = "none"
[[cases]]
name = "dsasync"
mechanism = "dsasync"
"#;

#[test]
fn a_scenarios_first_mistakes_are_told_with_what_to_write() {
    for (text, told) in [
        (
            SCENARIO.replace("[[cases]]", "[cases]"),
            "s.toml:10:1: cases: the table [cases] stands in the file already; write [[cases]] over each, if they are a \
             list; else make them one\n",
        ),
        (
            SCENARIO.replace("schema = \"linkhold.scenario/1\"\n", ""),
            "s.toml: the key `schema` is missing; write schema = \"linkhold.scenario/1\"\n",
        ),
        (
            format!("{SCENARIO}[router]\nlimit = \"1.5pkt\"\n"),
            "s.toml:14:9: router.limit: \"1.5pkt\" is no whole number of packets; write a whole number such as \
             \"100pkt\"\n",
        ),
    ] {
        let folder = folder(&[("s.toml", text.as_bytes())]);
        let output = linkhold(folder.path(), &["scenario", "check", "s.toml"]).output().expect("it starts");
        tells(&output, 2, told);
        assert_eq!(String::from_utf8_lossy(&output.stderr), told);
    }
    let folder = folder(&[
        ("s.toml", SCENARIO.as_bytes()),
        ("latin.toml", b"name = \"x\"\ndescription = \"caf\xe9\"\n"),
    ]);
    let check = |args: &[&str]| {
        linkhold(folder.path(), &[&["scenario", "check"], args].concat()).output().expect("it starts")
    };
    tells(&check(&["latin.toml"]), 2, "latin.toml:2:19: this is not text (UTF-8); save the file as UTF-8\n");
    tells(&check(&["s.toml", "--set", "router.limit=1.5pkt"]), 2, "\"1.5pkt\" is no whole number of packets");
    assert!(check(&["s.toml", "--set", "router.limit=2.0pkt"]).status.success());
}

#[test]
fn an_snr_trace_of_a_spreadsheet_is_read_and_other_headings_are_named() {
    let rows = "0,20\n1,20\n2,20\n";
    for (heading, told) in [
        ("\u{feff}time,snr", None),
        ("t,dB", Some("there is no column `time`; there are t, dB; name yours with radio.snr.time_column")),
        (
            "time,dB",
            Some("there is no column `snr`; there are time, dB; name yours with radio.snr.time_column and "),
        ),
    ] {
        let trace = format!("{heading}\n{rows}");
        let text = SCENARIO.replace("5.5Mbit/s\"", "5.5Mbit/s\"\nsnr = { trace = \"a.csv\" }");
        let folder = folder(&[("s.toml", text.as_bytes()), ("a.csv", trace.as_bytes())]);
        let output = linkhold(folder.path(), &["scenario", "check", "s.toml"]).output().expect("it starts");
        match told {
            None => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Some(told) => tells(&output, 2, told),
        }
    }
}

#[test]
fn a_pu_log_goes_where_a_file_can_be_and_comes_from_standard_input_too() {
    let folder = folder(&[]);
    fs::create_dir(folder.path().join("dir")).expect("made");
    let generate =
        ["pu-log", "generate", "--bands", "1", "--alpha", "1", "--beta", "1", "--duration", "10s", "--out"];
    for (out, told) in [
        ("nodir/x", "--out nodir/x: there is no folder nodir; make it, or give a file in another\n"),
        ("dir", "--out dir: it is a folder; give a file in it, such as pu.log\n"),
    ] {
        tells(
            &linkhold(folder.path(), &[&generate[..], &[out]].concat()).output().expect("it starts"),
            2,
            told,
        );
    }
    let made = linkhold(folder.path(), &[&generate[..], &["dir/x"]].concat()).output().expect("it starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(fs::read_dir(folder.path().join("dir")).expect("a folder").count(), 1);
    let log = fs::File::open(folder.path().join("dir/x")).expect("opened");
    let check = linkhold(folder.path(), &["pu-log", "check", "-"]).stdin(log).output().expect("it starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    assert!(check.stdout.starts_with(b"<stdin>: OK\n"), "{}", String::from_utf8_lossy(&check.stdout));
    let check = linkhold(folder.path(), &["pu-log", "check", "-"]).output().expect("it starts");
    tells(&check, 2, "<stdin>:");
}

#[test]
fn what_is_known_of_a_kernel_is_asked_for_in_one_go() {
    let folder = folder(&[]);
    for (args, told) in [
        (&["--known"][..], "--known is for --stack linux; "),
        (&["--known", "--resume"], "--known is for --stack linux; "),
        (
            &["--known", "--stack", "linux"],
            "--known reports what commands with --resume have finished: give --resume, too",
        ),
    ] {
        let args = [&["reproduce", "dsasync/fig4"], args].concat();
        tells(&linkhold(folder.path(), &args).output().expect("it starts"), 2, told);
    }
}

const OF_A_BATCH: &str = "schema = \"linkhold.scenario/1\"\nname = \"s\"\nduration = \"1s\"\n\
                        [radio]\nphy_rate = \"24Mbit/s\"\n[[flows]]\ndirection = \"downlink\"\n";

#[test]
fn an_entry_of_a_batch_is_refused_as_its_options_are_and_named() {
    let x = |more: &str| format!("{{\"name\": \"x\", \"scenario\": \"s.toml\"{more}}}");
    for (entries, message) in [
        (x(", \"seeds\": 0"), "seeds: 0 is too few or too many; write 1 to 10000"),
        (x(", \"seeds\": 99999999"), "seeds: 99999999 is too few or too many; write 1 to 10000"),
        (x(", \"set\": [\"wired.rtt=x\"]"), "set wired.rtt=x: wired.rtt: \"x\" is not "),
        (x(", \"baseline\": \"zzz\""), "baseline zzz: there is no such case; there are none"),
        (x(", \"cc\": [\"zzz\"]"), "cc: this kernel has no congestion control \"zzz\""),
        (x("") + "," + &x(""), "there is an entry of that name already; give each a name of its own"),
    ] {
        let batch = format!("[{entries}]");
        let folder = folder(&[("s.toml", OF_A_BATCH.as_bytes()), ("b.json", batch.as_bytes())]);
        let args = ["testbed", "--batch", "b.json", "--out", "o"];
        let output = linkhold(folder.path(), &args).output().expect("it starts");
        tells(&output, 2, &format!("b.json: entry \"x\": {message}"));
        assert!(!folder.path().join("o").exists(), "{message}");
    }
}

#[test]
fn a_folder_in_the_place_of_a_result_is_named_before_any_file_is_moved() {
    let folder = folder(&[("s.toml", OF_A_BATCH.as_bytes())]);
    fs::create_dir_all(folder.path().join("d1/report.html")).expect("made");
    let output = linkhold(folder.path(), &["run", "s.toml", "--out", "d1"]).output().expect("it starts");
    tells(
        &output,
        1,
        "d1/report.html: a folder stands where a file of the results belongs, so none was written; ",
    );
    let left =
        fs::read_dir(folder.path().join("d1")).expect("there").map(|entry| entry.expect("one").file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["report.html"]);
}
