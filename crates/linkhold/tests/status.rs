//! `linkhold status` against an agent that answers from a script: the output for other tools
//! (`linkhold.status/1`), and the output for people.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An agent's whole answer.
fn status() -> Value {
    json!({
        "schema": "linkhold.status/1", "version": "0.1.0", "commit": "abc1234", "instance": "roof", "mechanism": "dsasync",
        "datapath": "nfqueue", "rules": "iptables", "uptime_s": 12.5, "silent": true, "silences_now": 1,
        "silences": 5, "silences_begun": 7, "silences_announced": 0, "silences_ended": 1, "silences_timed": 3,
        "silences_overdue": 2,
        "channel": { "capacity_bps": 24_000_000, "efficiency": 0.65 }, "measured_bps": 0,
        "flows": 3, "stations": 2,
        "packets": {
            "seen": 1000, "held": 9, "held_bytes": 13_500, "held_bytes_peak": 20_000, "held_bytes_limit": 1_500_000, "holds": 40, "released": 31,
            "rewritten": 5, "dropped_buffer_full": 1, "dropped_superseded": 2, "dropped_flow_evicted": 0,
            "dropped_standing_queue": 0, "dropped_repaired_here": 0, "dropped_too_old": 0, "datagrams": 7, "datagram_holds": 2, "kept_bytes": 0, "copies_sent": 0,
            "verdict_errors": 0
        },
        "windows": {
            "closed_now": 1, "closed": 4, "reopened": 3, "clamped": 6, "probes_answered": 0, "acks_injected": 8,
            "inject_errors": 0
        },
        "events": { "hostapd": 5, "timer": 6 },
        "nl80211": { "lost": 0, "interfaces": [
            { "name": "wlan0", "index": 3, "serving": true, "events": 12 },
            { "name": "wlan1", "serving": false, "events": 0 }
        ] },
        "driver": { "unparsed": 0, "rewrites_by_ack": 0, "rewrites_skipped": 0, "unknown_packets": 0, "copies_missing": 0, "discarded": 3 },
        "untracked_events": 0, "processor": 1, "troubles": [],
        "mechanisms": [{ "name": "dsasync", "dropped": { "buffer_full": 1 }, "holds": 40 }], "radios": []
    })
}

/// Runs `linkhold status` with an agent that gives this reply.
fn ask(args: &[&str], reply: &Value) -> Output {
    let folder = TempDir::new().expect("a temporary folder");
    let listener = UnixListener::bind(folder.path().join("a.sock")).expect("a socket");
    let line = format!("{reply}\n");
    let agent = std::thread::spawn(move || {
        let mut stream = linkhold_testing::accept(&listener).expect("a client");
        let mut question = String::new();
        BufReader::new(&stream).read_line(&mut question).expect("a line");
        stream.write_all(line.as_bytes()).expect("answered");
        question
    });
    let output = run(folder.path(), args);
    let question: Value = serde_json::from_str(&agent.join().expect("the agent")).expect("JSON");
    assert_eq!(question, json!({ "query": "status" }));
    output
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("linkhold").expect("the program");
    command.current_dir(folder).args(["status", "--socket", "a.sock"]).args(args).output().expect("it starts")
}

#[test]
fn json_is_what_the_agent_answered() {
    let output = ask(&["--json"], &json!({ "ok": true, "status": status() }));
    assert!(output.status.success());
    let printed: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(printed, status());
}

#[test]
fn text_says_what_matters() {
    let output = ask(&[], &json!({ "ok": true, "status": status() }));
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "linkhold roof (dsasync), up 12 s, nfqueue by iptables: silent",
        "24   Mbit/s, 65 % of it",
        "9   packets now, 13500 bytes (peak 20000 bytes, room for 1500000)",
        "1   closed now; 4 closed, 3 reopened, 6 made smaller so far",
        "7   begun (overlapping ones make one: 5 on the air); 1 under way, 0 announced, 1 ended by events, 3 by the clock, 2 that nobody ended",
        "40 held so far, 5 rewritten, 3 dropped",
        "hostapd 5, timer 6",
        "0   events lost; wlan0: 12 events, serves stations; wlan1: 0 events, no wireless interface",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// Several radios are told one by one, and what is wrong stands before them.
#[test]
fn several_radios_and_troubles_are_told() {
    let mut several = status();
    let radio = |name: &str, silent: bool, capacity: Option<u64>| {
        json!({
            "name": name, "silent": silent, "silences_now": u8::from(silent), "silences": 4, "silences_overdue": 1,
            "channel": capacity.map(|bps| json!({ "capacity_bps": bps, "efficiency": 0.5 })),
            "flows": 2, "stations": 1, "untracked_events": 0,
            "packets": several["packets"], "windows": several["windows"]
        })
    };
    let mut measured = radio("wlan2", false, None);
    measured["measured_bps"] = json!(18_400_000);
    let radios = json!([radio("wlan0", false, Some(54_000_000)), radio("wlan1", true, None), measured]);
    several["radios"] = radios;
    several["troubles"] = json!(["there is no interface wlan1"]);
    let output = ask(&[], &json!({ "ok": true, "status": several }));
    let text = String::from_utf8(output.stdout).expect("text");
    for part in [
        "TROUBLE     there is no interface wlan1\n",
        "wlan0                 54   Mbit/s, 50 % of it for IP packets\n",
        "on air; 1000 packets seen, 9 held now; 4 silences, 1 that nobody ended; 2 flows, 1 station\n",
        "wlan1           not told   `[channel]` or `linkhold signal switch` tells its rate\n",
        "wlan2               18.4   Mbit/s, measured by what passed; nobody tells the rate\n",
        "silent; 1000 packets seen",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// A mechanism without a limit of what it holds has room for as much as comes.
#[test]
fn no_limit_is_no_room_for_nothing() {
    let mut without = status();
    without["packets"]["held_bytes_limit"] = json!(0);
    let output = ask(&[], &json!({ "ok": true, "status": without }));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("packets now, 13500 bytes (peak 20000 bytes)\n"), "{text}");
}

#[test]
fn an_answer_without_a_status_is_a_failure() {
    let output = ask(&["--json"], &json!({ "ok": true }));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("its reply holds no status"));
}
