//! The agent as a service: privileges, unit, metrics, and what the doctor says.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use linkhold_linux::topology::ThreeHosts;
use nix::sys::signal::Signal;

use crate::Outcome;
use crate::agent_process::{AgentProcess, COMMIT, RECORD, RECORD_LIMIT, VERSION};
use crate::behaviour::{MEGABYTE, STEADY, mentions_us, rules};
use crate::transfer::{Amount, Transfer};

pub fn two_capabilities_are_enough() -> Outcome {
    // What packaging/linkhold-agent.service leaves the agent.
    const LEAVE: &str = "-all,+net_admin,+net_raw";
    let path = ThreeHosts::build()?;
    let bounding = format!("--bounding-set={LEAVE}");
    let wrapper = ["setpriv", bounding.as_str(), "--no-new-privs", "--"];
    let mut agent = AgentProcess::start_with(&path, "[channel]\ncapacity = \"1Gbit/s\"\n", &wrapper);
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V6, 6800, STEADY);
    transfer.wait_for(MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    agent.wait_until(|status| status.packets.held > 0);
    agent.signal(r#"{"thaw":{}}"#);
    let status = agent.wait_until(|status| !status.silent && status.packets.held == 0);
    transfer.stop_and_finish();
    assert!(status.packets.holds > 0 && status.windows.inject_errors == 0, "{status}");
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)));
    Ok(())
}

/// Settings of an agent whose numbers `scrape` reads.
pub const METRICS: &str = "[metrics]\nlisten = \"127.0.0.1:9464\"\n";

/// An agent's numbers for Prometheus, as the calling thread's network namespace serves them.
pub fn scrape() -> std::io::Result<String> {
    use std::io::Read;
    let mut client = std::net::TcpStream::connect("127.0.0.1:9464")?;
    client.set_read_timeout(Some(Duration::from_secs(5)))?;
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    client.read_to_string(&mut text)?;
    Ok(text)
}

pub fn metrics_are_served() -> Outcome {
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(&path, METRICS);
    // Nobody tells the rate: it is measured where the radio is the bottleneck.
    let slow = [
        "qdisc", "replace", "dev", "radio0", "root", "tbf", "rate", "20mbit", "burst", "15k", "limit", "150k",
    ];
    path.bs.run("tc", &slow)?;
    // A machine's own may be BBR, which leaves no queue here.
    path.ch.sysctl("net/ipv4/tcp_congestion_control", "reno")?;
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6810, STEADY);
    let status = agent.wait_until(|status| (5_000_000..40_000_000).contains(&status.measured_bps));
    assert_eq!(status.radios.iter().map(|radio| radio.measured_bps).sum::<u64>(), status.measured_bps);
    transfer.stop_and_finish();
    agent.signal(r#"{"freeze":{"for_s":0.05}}"#);
    // Twice: a counter must not be added to itself.
    path.bs.enter(scrape)??;
    let text = path.bs.enter(scrape)??;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for line in [
        r#"linkhold_silences_total{instance="test",radio="radio0"} 1"#,
        r#"linkhold_untracked_events_total{instance="test",radio="radio0"} 0"#,
        r#"linkhold_events_total{instance="test",source="test"} 1"#,
        r#"linkhold_mechanism_silences_total{instance="test",mechanism="dsasync"} 1"#,
        r#"linkhold_mechanism_held_packets{instance="test",mechanism="dsasync"} 0"#,
        "# TYPE linkhold_mechanism_silences_total counter",
        "# TYPE linkhold_mechanism_held_packets gauge",
        r#"linkhold_channel_capacity_bps{instance="test",radio="radio0"} 0"#,
        r#"linkhold_dropped_total{instance="test",radio="radio0",reason="buffer_full"} 0"#,
        r#"linkhold_held_bytes{instance="test",radio="radio0"} 0"#,
        r#"linkhold_measured_bps{instance="test",radio="radio0"} "#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    Ok(())
}

/// The verdict thread and its guardian stay on one processor, which can be chosen; a wrong choice is refused.
pub fn the_agent_stays_on_one_processor() -> Outcome {
    let path = ThreeHosts::build()?;
    let allowed_to = |process: u32| -> std::io::Result<String> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Ok(line.unwrap_or_default().trim().to_owned())
    };
    let here = allowed_to(std::process::id())?;
    for choice in ["\"auto\"", "0", "\"any\""] {
        let agent = AgentProcess::start(&path, &format!("[datapath]\nprocessor = {choice}\n"));
        let (agents, told) = (allowed_to(agent.id())?, agent.status().processor);
        println!("{choice}: {agents} of {here}, told {told:?}");
        match choice {
            "\"any\"" => assert_eq!((agents, told), (here.clone(), None)),
            "0" => assert_eq!((agents.as_str(), told), ("0", Some(0))),
            _ => assert_eq!(Some(agents), told.map(|number| number.to_string())),
        }
    }
    let mut agent = AgentProcess::spawn(&path, "[datapath]\nprocessor = 1000\n", &[]);
    assert!(!agent.listens());
    let log = agent.log();
    assert!(log.contains("processor 1000 is not there or not allowed here; allowed: "), "{log}");
    Ok(())
}

/// Metrics are not worth a router's silence: without their port the agent warns and works.
pub fn a_taken_metrics_port() -> Outcome {
    let path = ThreeHosts::build()?;
    let taken = path.bs.enter(|| std::net::TcpListener::bind("127.0.0.1:9464"))??;
    let agent = AgentProcess::start(&path, "[metrics]\nlisten = \"127.0.0.1:9464\"\n");
    Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6850, Amount::Bytes(MEGABYTE)).finish();
    let (status, log) = (agent.status(), agent.log());
    assert!(status.packets.seen > 10, "{status}");
    let told = "no metrics: cannot listen on 127.0.0.1:9464 (Address already in use";
    assert!(
        log.contains(told) && status.troubles.iter().any(|trouble| trouble.contains(told)),
        "{status}\n{log}"
    );
    drop(taken);
    Ok(())
}

pub fn doctor_finds_what_the_other_tests_use() -> Outcome {
    let report = linkhold_linux::doctor::doctor(None);
    assert!(report.agent_runs(), "{report}");
    let names: Vec<&str> = report.checks.iter().map(|check| check.name).collect();
    for name in [
        "privileges",
        "NFQUEUE",
        "nftables queue",
        "iptables NFQUEUE",
        "TUN devices",
        "reno",
        "cubic",
        "bbr",
        "iperf3",
        "flow offload",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!rules_of_this_namespace().to_lowercase().contains("linkhold-probe"), "the doctor left a chain");
    println!("{report}");
    Ok(())
}

/// The rules of the namespace that the tests themselves run in, which the doctor must leave alone.
fn rules_of_this_namespace() -> String {
    linkhold_linux::command::run("iptables", &["-w", "10", "-t", "mangle", "-S"]).unwrap_or_default()
}

pub fn packaged_unit() -> Outcome {
    if !linkhold_linux::command::is_installed("systemd-analyze") {
        return crate::skipped("`systemd-analyze` is not installed");
    }
    for name in ["linkhold-agent.service", "linkhold-host.service"] {
        let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        let unit = std::fs::read_to_string(packaging.join(name))?;
        // systemd-analyze wants the unit's program to be there.
        let program = std::env::current_exe()?;
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join(name);
        std::fs::write(&copy, unit.replace("/usr/bin/linkhold", &program.to_string_lossy()))?;
        let output =
            std::process::Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !told.contains("linkhold"), "{told}");
    }
    Ok(())
}

/// As under `Type=notify` and `WatchdogSec=`, a service manager hears that the agent is ready, alive, and
/// about to stop.
pub fn service_manager_is_told() -> Outcome {
    let path = ThreeHosts::build()?;
    let folder = tempfile::tempdir()?;
    let address = folder.path().join("notify");
    let manager = UnixDatagram::bind(&address)?;
    manager.set_read_timeout(Some(Duration::from_secs(15)))?;
    let hear = || -> std::io::Result<String> {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    let socket = format!("NOTIFY_SOCKET={}", address.display());
    let mut agent = AgentProcess::spawn(&path, "", &["env", &socket, "WATCHDOG_USEC=200000"]);
    assert_eq!(hear()?.trim(), "READY=1");
    // When the agent says that it is ready, a program that is started after it may signal.
    assert!(!agent.status().silent && mentions_us(&rules(&path.bs)));
    // What was told while the rules were read does not count: its time is not known. What is told from now on
    // is, however late it is heard.
    let started = Instant::now();
    manager.set_nonblocking(true)?;
    while hear().is_ok() {}
    manager.set_nonblocking(false)?;
    for _ in 0..5 {
        assert_eq!(hear()?.trim(), "WATCHDOG=1");
    }
    // Each comes half the limit after the one before.
    assert!(started.elapsed() > Duration::from_millis(350), "{:?}", started.elapsed());
    agent.send_signal(Signal::SIGTERM);
    let stopping = loop {
        let told = hear()?;
        if told.trim() != "WATCHDOG=1" {
            break told;
        }
    };
    assert_eq!(stopping.trim(), "STOPPING=1");
    assert!(agent.wait(), "{}", agent.log());
    Ok(())
}

/// What a router recorded replays: the mechanism, made again from the recording's head, gives every answer as
/// it gave it then. A recording that has its full size ends, and the agent goes on.
pub fn a_recording_replays() -> Outcome {
    let path = ThreeHosts::build()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("agent.log");
    let record = format!("{RECORD}={}", file.display());
    let mut agent = AgentProcess::start_with(
        &path,
        "[channel]\ncapacity = \"1Gbit/s\"\n[datapath]\naggregates = \"split\"\n",
        &["env", &record],
    );
    Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6860, Amount::Bytes(MEGABYTE)).finish();
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6861, STEADY);
    transfer.wait_for(MEGABYTE);
    agent.signal(r#"{"freeze":{"for_s":0.1}}"#);
    let silent = agent.wait_until(|status| status.packets.holds > 0);
    agent.wait_until(|status| !status.silent);
    // More than fits in the recording.
    transfer.wait_for(transfer.received() + 40 * MEGABYTE);
    transfer.stop_and_finish();
    let last = agent.status();
    assert_eq!((last.version.as_str(), last.commit.as_str()), (VERSION, COMMIT), "{last}");
    assert_eq!((last.packets.held, last.packets.verdict_errors), (0, 0), "{last}");
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    assert!(agent.log().contains("the recording ends here: it has its full size"), "{}", agent.log());

    let size = std::fs::metadata(&file)?.len();
    assert!(size > RECORD_LIMIT - 10_000 && size <= RECORD_LIMIT, "{size} bytes");
    let replayed = linkhold_linux::agent::record::replay(&file)?;
    println!("{replayed}, {} bytes each", size / replayed.records);
    // The first transfer and the silence are in it.
    assert!(
        replayed.records > silent.packets.seen && replayed.records < last.packets.seen,
        "{replayed}; {last}"
    );
    assert_eq!((replayed.mechanism.as_str(), replayed.radio.as_str()), ("dsasync", "radio0"));
    Ok(())
}

/// The end of one silence and the start of another are due at once, since the agent stood still meanwhile.
/// The mechanism is told of both, and time never runs back in the recording.
pub fn a_recording_of_things_due_at_once() -> Outcome {
    let path = ThreeHosts::build()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("agent.log");
    let record = format!("{RECORD}={}", file.display());
    let mut agent = AgentProcess::start_with(&path, "", &["env", &record]);
    agent.signal(r#"{"freeze":{"cause":"fade","for_s":0.2}}"#);
    agent.say(r#"{"effective_in_s":0.3,"event":{"freeze":{"cause":"grant","for_s":0.5}}}"#);
    agent.send_signal(Signal::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_millis(400));
    agent.send_signal(Signal::SIGCONT);
    agent.wait_until(|status| status.silences_timed == 2);
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    let replayed = linkhold_linux::agent::record::replay(&file)?;
    assert!(replayed.records >= 5, "{replayed}");
    Ok(())
}
