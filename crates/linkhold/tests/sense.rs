//! What `linkhold sense` promises: events at the time at which they were put into a recording, freezes and
//! thaws on the socket, and for bad input exit 2 with a message and no output.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command as Process, Output, Stdio};

use assert_cmd::Command;
use linkhold_linux::agent::protocol::parse_line;
use linkhold_sense::synthetic::{Air, Burst};
use linkhold_sense::{Format, Sample};
use serde_json::{Value, json};
use tempfile::TempDir;

const RATE: u64 = 200_000;
const META: &str = r#"{"global":{"core:datatype":"cf32_le","core:sample_rate":200000,"core:version":"1.2.0"},
    "captures":[{"core:sample_start":0,"core:frequency":2.1e9}]}"#;
/// Short calibration, T_idle of 50 ms.
const QUICK: [&str; 4] = ["--calibrate", "100ms", "--idle", "50ms"];

/// One second of noise with bursts of 10 dB SNR from 0.3 s to 0.4 s and from 0.6 s to 0.7 s.
fn samples(format: Format) -> Vec<u8> {
    let burst = |start| Burst { start, length: RATE / 10, power: 1e-2, frequency: 0.1 };
    let mut out = vec![Sample::default(); RATE as usize];
    Air::new(7, 1e-3, vec![burst(3 * RATE / 10), burst(6 * RATE / 10)]).fill(&mut out);
    let mut bytes = Vec::new();
    out.iter().for_each(|&sample| format.encode(sample, &mut bytes));
    bytes
}

/// A folder with the recording `r`, its metadata changed by `change`.
fn recording(format: Format, change: impl Fn(String) -> String) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    let meta = change(META.replace("cf32_le", format.datatype()));
    fs::write(folder.path().join("r.sigmf-meta"), meta).expect("written");
    fs::write(folder.path().join("r.sigmf-data"), samples(format)).expect("written");
    folder
}

fn sense(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("linkhold").expect("the binary was built for this test");
    command.current_dir(folder).arg("sense").args(args);
    command
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Asserts that the lines tell of both bursts, each at its time.
#[track_caller]
fn both_bursts(lines: &[Value]) {
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(kinds, ["calibrated", "busy", "idle", "busy", "idle", "summary"], "{lines:?}");
    for (line, expected) in lines[1..5].iter().zip([0.301, 0.45, 0.601, 0.75]) {
        // A block is 1 ms, and the bursts begin and end on blocks' edges.
        assert!((number(&line["at_s"]) - expected).abs() < 1.1e-3, "{line}");
    }
    assert_eq!(lines[2]["reason"], "t-idle");
    let summary = &lines[5];
    assert_eq!((&summary["detections"], &summary["samples"]), (&json!(2), &json!(RATE)));
    assert!((number(&summary["busy_s"]) - 0.298).abs() < 3e-3, "{summary}");
}

#[test]
fn bursts_are_found_at_their_time_in_every_form() {
    for (name, format) in Format::ALL {
        let folder = recording(format, |meta| meta);
        let output =
            sense(folder.path(), &["r.sigmf-meta", "--json"]).args(QUICK).output().expect("it starts");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let told = lines(&output);
        both_bursts(&told);
        assert_eq!((&told[0]["schema"], &told[0]["center_hz"]), (&json!("linkhold.sense/1"), &json!(2.1e9)));
        assert_eq!(told[0]["program"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(told[0]["program"]["commit"].is_string(), "{}", told[0]);
        // Noise of power 1e-3 is -30 dBFS; a byte's steps add 0.04 dB.
        assert!((number(&told[0]["floor_dbfs"]) + 30.0).abs() < 0.1, "{name}: {}", told[0]);
        let piped = sense(folder.path(), &["--format", name, "--rate", "200kHz", "--json"])
            .args(QUICK)
            .write_stdin(samples(format))
            .output()
            .expect("it starts");
        both_bursts(&lines(&piped));
    }
}

#[test]
fn a_band_is_sensed_and_others_are_not() {
    let folder = recording(Format::Cf32, |meta| meta);
    let run = |args: &[&str]| {
        let output =
            sense(folder.path(), &["r", "--json"]).args(QUICK).args(args).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines(&output)
    };
    // The bursts are 20 kHz above the centre. Transforms of 32 samples make blocks of 192, 0.96 ms.
    let there = run(&["--band", "10kHz..30kHz", "--fft", "32"]);
    assert_eq!(there.last().map(|summary| &summary["detections"]), Some(&json!(2)));
    let on_air = run(&["--on-air", "2.10001GHz..2.10003GHz", "--fft", "32"]);
    assert_eq!(on_air[1..5], there[1..5]);
    let elsewhere = run(&["--band", "-60kHz..-20kHz", "--fft", "32"]);
    assert_eq!(elsewhere.last().map(|summary| &summary["detections"]), Some(&json!(0)));
}

#[test]
fn text_says_what_was_seen() {
    let folder = recording(Format::Cf32, |meta| meta);
    let output = sense(folder.path(), &["r"]).args(QUICK).output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "    0.100000 s  floor  -",
        " dBFS (±0.0",
        "false alarms: at most 1.0e-6 a block of 1.000 ms, 1.0e-3 a second, while the noise stays within 0.5 dB",
        "below -6.4 dB no block is long enough",
        "    0.301000 s  busy   1",
        "    0.450000 s  idle   T_idle; busy for 0.149000 s, last heard at 0.400000 s\n",
        "200000 samples, 1.000000 s: 2 detections, busy 33.1 % of the time",
        "200 of 900 blocks above the threshold (22.2 %); 0 samples",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// Runs a recording that is no good, and expects exit 2, the message, and nothing printed.
#[track_caller]
fn refused(folder: &Path, args: &[&str], input: &[u8], message: &str) {
    let before = fs::read_dir(folder).expect("a folder").count();
    let output = sense(folder, args).write_stdin(input).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(message), "should tell: {message}\nbut told:    {told}");
    assert!(output.stdout.is_empty(), "it printed {}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(fs::read_dir(folder).expect("a folder").count(), before, "something was written");
}

#[test]
fn bad_recordings_are_refused() {
    let folder = recording(Format::Cf32, |meta| meta);
    let here = folder.path();
    let write = |name: &str, bytes: &[u8]| fs::write(here.join(name), bytes).expect("written");
    refused(here, &["none"], b"", "none.sigmf-meta: No such file or directory");
    refused(here, &["none"], b"", "a SigMF recording needs its metadata");
    refused(here, &["r", "--format", "cu8", "--rate", "1MHz"], b"", "--format: a recording's metadata say");
    refused(here, &["r", "--center", "2GHz"], b"", "--center: the recording's metadata say 2100000000 Hz");
    let data = samples(Format::Cf32);
    write("r.sigmf-data", &data[..data.len() - 3]);
    refused(here, &["r"], b"", "r.sigmf-data: truncated, or not cf32_le: 1599997 bytes are no whole number");
    write("r.sigmf-data", b"");
    refused(here, &["r"], b"", "r.sigmf-data: there is no sample in it");
    // The bad sample comes after the first burst, whose line must not be printed.
    let mut bad = data.clone();
    bad[8 * 100_000..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    write("r.sigmf-data", &bad);
    refused(here, &["r", "--calibrate", "100ms"], b"", "r: sample 100000 is no number");
    write("r.sigmf-data", &data[..8 * 1000]);
    refused(here, &["r"], b"", "r: its 0.005 s end within the calibration (1s)");
    write("r.sigmf-data", &vec![0; data.len()]);
    refused(here, &["r", "--calibrate", "100ms"], b"", "r: the calibration found no noise");
    write("r.sigmf-meta", META.replace("cf32_le", "ri8").as_bytes());
    refused(
        here,
        &["r"],
        b"",
        "r.sigmf-meta: global.core:datatype: \"ri8\" cannot be read; convert to one of",
    );
    fs::remove_file(here.join("r.sigmf-meta")).expect("removed");
    refused(here, &["r.sigmf-data"], b"", "r.sigmf-meta: No such file");
}

#[test]
fn bad_arguments_are_refused() {
    let folder = recording(Format::Cf32, |meta| meta.replace(",\"core:frequency\":2.1e9", ""));
    let here = folder.path();
    for (args, message) in [
        (&["--idle", "0s"][..], "--idle: T_idle is 0; give a time above 0"),
        (&["--idle", "1us"], "--idle: T_idle, 1us, is shorter than a block"),
        (&["--idle", "-1s"], "is negative"),
        (&["--band", "0kHz..150kHz"], "--band: 0 Hz to 150000 Hz is not within"),
        (&["--band", "50kHz"], "\"50kHz\" is no band"),
        (&["--on-air", "2.1GHz..2.2GHz"], "--on-air: the input's centre frequency is not known"),
        (&["--fft", "100", "--band", "0Hz..50kHz"], "--fft: 100 is no size of a transform"),
        (&["--fft", "64"], "--fft: all that was sampled is sensed without Fourier transforms; give the band"),
        (&["--window", "none"], "--window: all that was sampled is sensed without Fourier transforms"),
        (&["--false-alarm", "0"], "--false-alarm: 0 is no probability"),
        (&["--calibrate", "10ms"], "--calibrate: 10ms is 10 blocks of 1ms; give 40"),
        (&["--calibrate", "5s"], "r: its 1 s end within the calibration (5s)"),
        (&["--block", "1ns"], "--block: 1ns is"),
    ] {
        refused(here, &[&["r"], args].concat(), b"", message);
    }
    refused(here, &[], b"", "standard input: raw samples do not say what they are; give --format and --rate");
    let raw = ["--format", "cu8", "--rate", "1MHz"];
    refused(here, &raw, b"", "standard input: it is empty");
    refused(here, &raw, &[127; 4096], "standard input: its 0.002 s end within the calibration");
    refused(here, &["--format", "cu8", "--rate", "0"], b"", "--rate: 0 Hz is no sample rate");
}

#[test]
fn a_recording_without_its_centre_frequency_is_given_it() {
    let folder = recording(Format::Cf32, |meta| meta.replace(",\"core:frequency\":2.1e9", ""));
    let on_air = ["r", "--on-air", "2.09998GHz..2.10002GHz", "--center", "2.1GHz", "--json"];
    let output = sense(folder.path(), &on_air).args(QUICK).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!lines(&output).is_empty());
}

/// A floor that leaves the threshold above all that the samples can hold is taken, and said to be deaf; one
/// below, and any floor for floats, are taken without a word.
#[test]
fn a_threshold_above_full_scale_is_hinted_at() {
    let told = |name: &str, format: Format, floor: &str| {
        let folder = TempDir::new().expect("a temporary folder");
        let args = ["--format", name, "--rate", "200kHz", "--json", "--floor", floor, "--idle", "50ms"];
        let output = sense(folder.path(), &args).write_stdin(samples(format)).output().expect("it starts");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let detections = lines(&output).last().map(|summary| summary["detections"].clone());
        (String::from_utf8_lossy(&output.stderr).into_owned(), detections)
    };
    for (name, format) in Format::ALL {
        // Blocks of 200 samples and an uncertainty of 0.5 dB put the threshold 2.0 dB above the floor.
        for (floor, above) in [("90", true), ("2dB", true), ("0", false), ("-30dBFS", false)] {
            let (text, detections) = told(name, format, floor);
            if !above || format == Format::Cf32 {
                assert_eq!(text, "", "{name}, {floor} dBFS");
                continue;
            }
            let hint = format!("is above full scale: a sample of {} has 3.0 dBFS at most", format.datatype());
            assert!(text.starts_with("hint: the threshold, ") && text.contains(&hint), "{name}: {text}");
            assert_eq!((text.lines().count(), detections), (1, Some(json!(0))), "{name}, {floor}: {text}");
        }
    }
}

/// An agent that takes note of `count` messages, a freeze told again being the same, and answers with
/// `reply`.
fn agent(folder: &Path, count: usize, reply: &'static str) -> std::thread::JoinHandle<Vec<Value>> {
    let listener = UnixListener::bind(folder.join("a.sock")).expect("a socket");
    std::thread::spawn(move || {
        let mut messages: Vec<Value> = Vec::new();
        while messages.len() < count {
            let mut stream = linkhold_testing::accept(&listener).expect("a client");
            let mut line = String::new();
            // The first connection only looks whether somebody listens.
            if BufReader::new(&stream).read_line(&mut line).expect("readable") > 0 {
                // The agent itself would understand it.
                parse_line(line.trim_end().as_bytes()).expect("a message of the protocol");
                let message: Value = serde_json::from_str(&line).expect("JSON");
                if messages.last().is_none_or(|last| event(last) != event(&message)) {
                    messages.push(message);
                }
                stream.write_all(reply.as_bytes()).expect("answered");
            }
        }
        messages
    })
}

fn event(message: &Value) -> &str {
    message["event"].as_object().and_then(|event| event.keys().next()).map_or("none", String::as_str)
}

#[test]
fn bursts_freeze_and_thaw_whoever_listens() {
    let folder = recording(Format::Cu8, |meta| meta);
    let agent = agent(folder.path(), 4, "{\"ok\":true,\"radios\":[\"wlan0\"]}\n");
    let args = ["r", "--json", "--signal", "a.sock", "--radio", "wlan0"];
    let output = sense(folder.path(), &args).args(QUICK).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = lines(&output);
    both_bursts(&told);
    assert_eq!((&told[5]["told"], &told[5]["told_failed"]), (&json!(4), &json!(0)));
    let messages = agent.join().expect("the agent");
    assert_eq!(messages.iter().map(event).collect::<Vec<_>>(), ["freeze", "thaw", "freeze", "thaw"]);
    assert_eq!((&messages[0]["source"], &messages[0]["radio"]), (&json!("sense"), &json!("wlan0")));
    assert_eq!(messages[0]["event"]["freeze"]["cause"], "primary-user");
    assert!(number(&messages[0]["detected_ago_s"]) >= 0.0);
}

/// The input ends within a burst: the freeze under way is thawed, and it is said.
#[test]
fn the_end_of_the_input_thaws() {
    let folder = TempDir::new().expect("a temporary folder");
    let agent = agent(folder.path(), 2, "{\"ok\":true}\n");
    let bytes = samples(Format::Ci8);
    let output =
        sense(folder.path(), &["--format", "ci8", "--rate", "200kHz", "--json", "--signal", "a.sock"])
            .args(QUICK)
            .write_stdin(&bytes[..2 * 65_000 + 1])
            .output()
            .expect("it starts");
    assert!(output.status.success());
    let told = lines(&output);
    assert_eq!((&told[2]["event"], &told[2]["reason"]), (&json!("idle"), &json!("input-over")));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("hint: the input ended within a sample (1 bytes")
    );
    assert_eq!(agent.join().expect("the agent").iter().map(event).collect::<Vec<_>>(), ["freeze", "thaw"]);
}

/// A sample that is no number ends a stream: the freeze under way is thawed before the error.
#[test]
fn a_bad_sample_of_a_stream_thaws() {
    let folder = TempDir::new().expect("a temporary folder");
    let agent = agent(folder.path(), 2, "{\"ok\":true}\n");
    let mut bytes = samples(Format::Cf32);
    bytes[8 * 70_000..][..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let output = sense(folder.path(), &["--format", "cf32", "--rate", "200kHz", "--signal", "a.sock"])
        .args(QUICK)
        .write_stdin(bytes)
        .output()
        .expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("thawed: the freeze under way was ended\n"), "{told}");
    assert!(told.contains("standard input: sample 70000 is no number"), "{told}");
    assert_eq!(agent.join().expect("the agent").iter().map(event).collect::<Vec<_>>(), ["freeze", "thaw"]);
}

#[test]
fn without_anybody_on_the_socket_nothing_is_sensed() {
    let folder = recording(Format::Cu8, |meta| meta);
    let output = sense(folder.path(), &["r", "--signal", "no.sock"]).args(QUICK).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no agent listens on no.sock"));
}

#[test]
fn a_refusal_is_said() {
    let folder = recording(Format::Cu8, |meta| meta);
    let agent = agent(folder.path(), 1, "{\"ok\":false,\"error\":\"there is no radio wlan9\"}\n");
    let output = sense(folder.path(), &["r", "--signal", "a.sock"]).args(QUICK).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the agent refuses: there is no radio wlan9"));
    agent.join().expect("the agent");
}

/// `linkhold sense … | head`: without a reader, and nobody to be told, it does not go on for ever.
#[test]
fn a_stream_ends_when_its_reader_has_gone() {
    let program = Command::cargo_bin("linkhold").expect("the program").get_program().to_owned();
    let mut child: Child = Process::new(program)
        .args(["sense", "--format", "cu8", "--rate", "200kHz"])
        .args(QUICK)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("a pipe");
    let samples = samples(Format::Cu8);
    let refused = (0..1000).find_map(|_| input.write_all(&samples).err()).expect("it ends before its input");
    assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// A stream that hangs while a freeze is under way: SIGTERM thaws and ends the program.
#[test]
fn sigterm_thaws_although_the_input_hangs() {
    let folder = TempDir::new().expect("a temporary folder");
    let agent = agent(folder.path(), 2, "{\"ok\":true}\n");
    let program = Command::cargo_bin("linkhold").expect("the program").get_program().to_owned();
    let mut child: Child = Process::new(program)
        .current_dir(folder.path())
        .args(["sense", "--format", "cu8", "--rate", "200kHz", "--signal", "a.sock"])
        .args(QUICK)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    input.write_all(&samples(Format::Cu8)[..2 * 65_000]).expect("written");
    let busy = output.lines().map_while(Result::ok).find(|line| line.contains("busy"));
    assert!(busy.is_some_and(|line| line.contains("0.301000 s")));
    // Samples are left behind the block that was busy. Only once they are sensed does the input hang; before,
    // the signal would end it in order.
    std::thread::sleep(std::time::Duration::from_secs(1));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .expect("it runs");
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(128 + 15));
    let mut told = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut told).expect("text");
    assert!(told.contains("thawed"), "{told}");
    assert_eq!(agent.join().expect("the agent").iter().map(event).collect::<Vec<_>>(), ["freeze", "thaw"]);
    drop(input);
}

/// The first telling of a freeze goes unanswered, as while an agent starts anew: the second is counted, and
/// says when the primary user was detected.
#[test]
fn a_freeze_that_is_heard_at_the_second_try_is_counted_with_its_true_age() {
    let folder = recording(Format::Cu8, |meta| meta);
    // The second burst goes on to the end: there is time for a second try.
    let mut bytes = vec![Sample::default(); RATE as usize];
    let burst = Burst { start: 3 * RATE / 10, length: 7 * RATE / 10, power: 1e-2, frequency: 0.1 };
    Air::new(7, 1e-3, vec![burst]).fill(&mut bytes);
    let mut data = Vec::new();
    bytes.iter().for_each(|&sample| Format::Cu8.encode(sample, &mut data));
    fs::write(folder.path().join("r.sigmf-data"), data).expect("written");
    let listener = UnixListener::bind(folder.path().join("a.sock")).expect("a socket");
    let agent = std::thread::spawn(move || {
        let mut messages: Vec<Value> = Vec::new();
        while messages.last().is_none_or(|last| event(last) != "thaw") {
            let mut stream = linkhold_testing::accept(&listener).expect("a client");
            let mut line = String::new();
            if BufReader::new(&stream).read_line(&mut line).expect("readable") > 0 {
                messages.push(serde_json::from_str(&line).expect("JSON"));
                if messages.len() > 1 {
                    stream.write_all(b"{\"ok\":true}\n").expect("answered");
                }
            }
        }
        messages
    });
    let args = ["r", "--json", "--signal", "a.sock"];
    let begun = std::time::Instant::now();
    let output = sense(folder.path(), &args).args(QUICK).output().expect("it starts");
    let summary = lines(&output).pop().expect("a summary");
    assert_eq!((&summary["told"], &summary["told_failed"]), (&json!(2), &json!(1)), "{summary}");
    let messages = agent.join().expect("the agent");
    assert_eq!(messages.iter().map(event).collect::<Vec<_>>(), ["freeze", "freeze", "thaw"]);
    let age = number(&messages[1]["detected_ago_s"]);
    assert!((0.2..begun.elapsed().as_secs_f64()).contains(&age), "{age}");
}

/// Starts sensing, with signals as a shell in the foreground has them, and ends it by `signal`. A stream goes
/// on after that, so that the program is not kept waiting for it.
fn stopped(folder: &Path, args: &[&str], signal: &str, ready: impl FnOnce(&mut Child)) -> Output {
    let program = Command::cargo_bin("linkhold").expect("the program").get_program().to_owned();
    let mut child: Child = Process::new("env")
        .args(["--default-signal=INT", "--"])
        .arg(program)
        .arg("sense")
        .args(args)
        .args(QUICK)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    ready(&mut child);
    let sent = Process::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    std::thread::sleep(std::time::Duration::from_millis(100));
    let _ = child.stdin.take().expect("a pipe").write_all(&[127; 4_000]);
    child.wait_with_output().expect("it ends")
}

/// A summary of half a recording would pass for one of the whole.
/// Waits until the process has blocked SIGINT, which it then waits for.
fn listens_for_signals(process: u32) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
        if u64::from_str_radix(blocked.trim(), 16).expect("hexadecimal") & 2 != 0 {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "it does not wait for signals");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_recording_that_is_stopped_has_no_summary() {
    let folder = recording(Format::Cu8, |meta| meta);
    // A hole of many gigabytes is sensed for minutes.
    let data = fs::File::options().write(true).open(folder.path().join("r.sigmf-data")).expect("there");
    data.set_len(200_000_000_000).expect("a sparse file");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let wait = |child: &mut Child| listens_for_signals(child.id());
        let output = stopped(folder.path(), &["r"], signal, wait);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(told.starts_with(&format!("stopped by SIG{signal} after ")), "{told}");
    }
    // At its own pace its lines come at once, and the freeze under way is thawed.
    let listener = agent(folder.path(), 2, "{\"ok\":true}\n");
    let busy = |child: &mut Child| {
        let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("\"busy\"")));
    };
    let output = stopped(folder.path(), &["r", "--json", "--signal", "a.sock"], "INT", busy);
    assert_eq!(output.status.code(), Some(130));
    assert!(lines(&output).iter().all(|line| line["event"] != "summary"), "{output:?}");
    assert_eq!(listener.join().expect("the agent").iter().map(event).collect::<Vec<_>>(), ["freeze", "thaw"]);
}

#[test]
fn a_stream_that_is_stopped_is_summed_up_and_says_so() {
    let folder = TempDir::new().expect("a temporary folder");
    let raw = ["--format", "cu8", "--rate", "200kHz"];
    for (more, expected) in [("--block=1ms", "stopped by SIGINT: "), ("--json", "\"stopped\":\"SIGINT\"")] {
        let output = stopped(folder.path(), &[&raw[..], &[more]].concat(), "INT", |child| {
            child.stdin.as_mut().expect("a pipe").write_all(&samples(Format::Cu8)).expect("written");
            let lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
            assert!(lines.map_while(Result::ok).any(|line| line.contains("busy") && line.contains("0.601")));
        });
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(expected) && text.contains("detections"), "{text}");
    }
    // Before there is a noise floor there is nothing to sum up, and the input is not to blame.
    let early = stopped(folder.path(), &raw, "TERM", |child| listens_for_signals(child.id()));
    let told = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(early.status.success() && early.stdout.is_empty(), "{early:?}");
    assert_eq!(told, "stopped by SIGTERM before a block was judged, so nothing was sensed\n");
    // One that ends by itself does not.
    let output = sense(folder.path(), &["--format", "cu8", "--rate", "200kHz", "--json"])
        .args(QUICK)
        .write_stdin(samples(Format::Cu8))
        .output()
        .expect("it starts");
    assert_eq!(lines(&output).pop().expect("a summary")["stopped"], Value::Null);
}
