//! What the agent does to real traffic.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use linkhold_core::packet::{Direction, TcpFlags};
use linkhold_linux::netns::NetNs;
use linkhold_linux::topology::{HOST, Path};
use linkhold_wire::{parse_ip_tcp_headers, verify_checksums};
use nix::sys::signal::Signal;

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::capture::{Capture, Captured};
use crate::transfer::{Amount, Transfer};

const MEGABYTE: u64 = 1_000_000;
/// Between the agent's answer to a freeze and the last packet it let pass before: scheduling on a busy machine.
const SETTLE: Duration = Duration::from_millis(30);

/// The rules of the base station, as text.
pub fn rules(bs: &NetNs) -> String {
    let mut all = String::new();
    for (program, args) in [
        ("nft", &["list", "ruleset"][..]),
        ("iptables", &["-w", "10", "-t", "mangle", "-S"]),
        ("ip6tables", &["-w", "10", "-t", "mangle", "-S"]),
    ] {
        all.push_str(&bs.run(program, args).unwrap_or_default());
    }
    all
}

pub fn mentions_us(rules: &str) -> bool {
    rules.to_lowercase().contains("linkhold")
}

pub fn transfer_arrives_whole() -> Outcome {
    let path = Path::build()?;
    for mechanism in ["none", "dsasync"] {
        let agent = AgentProcess::start(&path, &format!("[mechanism]\nname = \"{mechanism}\"\n"));
        let ways: [(&NetNs, &NetNs, IpAddr); 4] = [
            (&path.ch, &path.sh, Path::SH_V4),
            (&path.ch, &path.sh, Path::SH_V6),
            (&path.sh, &path.ch, Path::CH_V4),
            (&path.sh, &path.ch, Path::CH_V6),
        ];
        for (number, (from, to, addr)) in ways.into_iter().enumerate() {
            let before = agent.status().packets.seen;
            Transfer::start(from, to, addr, 6000 + number as u16, Amount::Bytes(20 * MEGABYTE)).finish();
            let seen = agent.status().packets.seen - before;
            // 20 MB are at least 305 aggregates of 64 KiB; fewer would mean that the agent was passed by.
            assert!(seen > 300, "{mechanism} to {addr}: the agent saw only {seen} packets");
        }
        let status = agent.status();
        assert_eq!(status.packets.verdict_errors, 0, "{}", agent.log());
        assert_eq!(status.driver.unknown_packets, 0, "{}", agent.log());
        assert_eq!(status.packets.held, 0);
        assert!(status.stations >= 2, "{status}");
    }
    Ok(())
}

pub fn transfer_through_nat() -> Outcome {
    let path = Path::build()?;
    path.masquerade()?;
    let agent = AgentProcess::start(
        &path,
        "[channel]\ncapacity = \"2Gbit/s\"\n[mechanism]\nmode = \"freeze\"\nclose_at = \"silence-start\"\n",
    );
    // Downlink data on a connection that the station opened, as behind any home router.
    for (number, addr) in [Path::CH_V4, Path::CH_V6].into_iter().enumerate() {
        let transfer =
            Transfer::start(&path.sh, &path.ch, addr, 6100 + number as u16, Amount::Bytes(60 * MEGABYTE));
        transfer.wait_for(MEGABYTE);
        agent.signal(r#"{"freeze":{"for_s":0.2}}"#);
        transfer.finish();
    }
    let status = agent.status();
    assert!(status.silences >= 2, "{status}");
    assert_eq!(status.windows.inject_errors, 0, "{status}");
    Ok(())
}

/// Data packets to the station: when, and which sequence numbers.
fn data(captured: &[Captured], to: IpAddr) -> Vec<(Instant, u32, u32)> {
    captured
        .iter()
        .filter_map(|packet| {
            let parsed = parse_ip_tcp_headers(&packet.bytes).ok()?;
            let flow = parsed.flow(Direction::Downlink);
            (flow.station.addr == to && parsed.tcp.payload_len > 0).then_some((
                packet.at,
                parsed.tcp.seq.0,
                parsed.tcp.payload_len,
            ))
        })
        .collect()
}

pub fn silence_holds_and_releases_in_order() -> Outcome {
    let path = Path::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(
        &path,
        "[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\npreset = \"hold-only\"\n",
    );
    let capture = Capture::start(&path.sh);
    let transfer = Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6200, Amount::Bytes(300 * MEGABYTE));
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    let frozen = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    let during = agent.status();
    agent.signal(r#"{"thaw":{}}"#);
    let thawed = Instant::now();
    transfer.finish();
    let captured = capture.finish();
    let after = agent.status();

    assert!(during.silent && during.packets.held > 0, "{during}");
    assert!(!after.silent && after.packets.held == 0, "{after}");
    assert!(after.packets.released >= during.packets.held, "{after}");
    let packets = data(&captured, Path::SH_V4);
    let in_silence =
        packets.iter().filter(|(at, ..)| (frozen + SETTLE..thawed - SETTLE).contains(at)).count();
    assert_eq!(in_silence, 0, "data crossed in the silence");
    let first_after = packets.iter().find(|(at, ..)| *at > thawed - SETTLE).expect("data after the silence");
    let delay = first_after.0.saturating_duration_since(thawed);
    assert!(delay < Duration::from_millis(50), "first data {delay:?} after the silence");
    // What is new arrives in order; only what was sent before may come again (a retransmission).
    let mut next = packets[0].1;
    let mut gaps = 0;
    for (_, seq, len) in packets {
        if seq == next {
            next = next.wrapping_add(len);
        } else if (seq.wrapping_sub(next) as i32) > 0 {
            gaps += 1;
            next = seq.wrapping_add(len);
        }
    }
    assert_eq!(gaps, 0, "packets were lost or overtook others");
    Ok(())
}

pub fn closed_windows_have_right_checksums() -> Outcome {
    let path = Path::build()?;
    // Without offload every packet on the wired side carries its whole checksum, so a wrong one is ours.
    path.sh.set_checksum_offload(HOST, false)?;
    let agent = AgentProcess::start(
        &path,
        "[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nmode = \"freeze\"\nclose_at = \"silence-start\"\n",
    );
    let capture = Capture::start(&path.ch);
    for (number, addr) in [Path::SH_V4, Path::SH_V6].into_iter().enumerate() {
        let transfer =
            Transfer::start(&path.ch, &path.sh, addr, 6300 + number as u16, Amount::Bytes(100 * MEGABYTE));
        transfer.wait_for(MEGABYTE);
        agent.signal(r#"{"freeze":{"for_s":0.3}}"#);
        transfer.finish();
    }
    let status = agent.status();
    let captured = capture.finish();
    let (mut acks, mut zero_windows) = (0, 0);
    for packet in &captured {
        let Ok(parsed) = parse_ip_tcp_headers(&packet.bytes) else { continue };
        let from_station = [Path::SH_V4, Path::SH_V6].contains(&parsed.src.addr);
        if !from_station || !parsed.tcp.flags.contains(TcpFlags::ACK) {
            continue;
        }
        acks += 1;
        zero_windows += u32::from(parsed.tcp.window == 0);
        assert_eq!(verify_checksums(&packet.bytes), Ok(true), "{parsed:?}");
    }
    assert!(acks > 100 && zero_windows >= 2, "{acks} ACKs, {zero_windows} with window 0; {status}");
    assert!(status.windows.closed >= 2 && status.windows.acks_injected >= 2, "{status}");
    assert_eq!(status.windows.closed_now, 0, "{status}");
    Ok(())
}

pub fn scheduled_silence() -> Outcome {
    let path = Path::build()?;
    let agent = AgentProcess::start(
        &path,
        "[channel]\ncapacity = \"1Gbit/s\"\n[[schedule]]\nname = \"sensing\"\nperiod = \"200ms\"\nduration = \"50ms\"\n",
    );
    let transfer =
        Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6400, Amount::For(Duration::from_secs(10)));
    std::thread::sleep(Duration::from_millis(1500));
    let status = agent.status();
    transfer.stop();
    transfer.finish();
    assert!((6..=9).contains(&status.silences), "{status}");
    assert!(status.packets.holds > 0, "{status}");
    assert_eq!(status.silences_overdue, 0, "{status}");
    Ok(())
}

pub fn sigterm_lets_go() -> Outcome {
    let path = Path::build()?;
    let mut agent = AgentProcess::start(&path, "");
    assert!(mentions_us(&rules(&path.bs)));
    let transfer = Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6500, Amount::Bytes(300 * MEGABYTE));
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    std::thread::sleep(Duration::from_millis(100));
    let held = agent.status().packets.held;
    assert!(held > 0, "nothing was held");
    let received = transfer.received();
    agent.send_signal(Signal::SIGTERM);
    transfer.wait_for(received + MEGABYTE);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    assert!(!agent.socket.exists());
    transfer.finish();
    Ok(())
}

pub fn sigkill_in_a_silence() -> Outcome {
    let path = Path::build()?;
    let mut agent = AgentProcess::start(&path, "");
    let transfer = Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6600, Amount::Bytes(300 * MEGABYTE));
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    // Long enough for the sender's timeout to back off, if its flight were lost.
    std::thread::sleep(Duration::from_millis(700));
    let received = transfer.received();
    agent.send_signal(Signal::SIGKILL);
    let killed = Instant::now();
    transfer.wait_for(received);
    let idle = killed.elapsed();
    assert!(idle < Duration::from_millis(100), "traffic stood still for {idle:?} after the kill");
    assert!(!agent.wait());
    transfer.finish();
    assert!(mentions_us(&rules(&path.bs)), "a killed agent cannot remove its rules");

    let mut next = AgentProcess::start(&path, "");
    assert!(next.log().contains("removed rules that an earlier agent left"), "{}", next.log());
    Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6601, Amount::Bytes(5 * MEGABYTE)).finish();
    next.send_signal(Signal::SIGTERM);
    assert!(next.wait());
    assert!(!mentions_us(&rules(&path.bs)));
    Ok(())
}

pub fn hostile_clients() -> Outcome {
    use std::os::unix::net::UnixStream;
    let path = Path::build()?;
    let agent = AgentProcess::start(&path, "");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&agent.socket)?.permissions());
    assert_eq!(mode & 0o777, 0o600);
    let garbage: Vec<Vec<u8>> = vec![
        vec![0; 100_000],
        b"{".repeat(5000),
        b"\n".repeat(100_000),
        b"{\"event\":{\"freeze\":{\"for_s\":1e308}}}\n".repeat(500),
        b"{\"query\":\"status\"}\n".repeat(2000),
    ];
    for bytes in garbage {
        let mut client = UnixStream::connect(&agent.socket)?;
        client.set_write_timeout(Some(Duration::from_millis(500)))?;
        // It may cut us off in the middle: that is the point.
        let _ = client.write_all(&bytes);
    }
    // More clients than it takes, none of which says a word or leaves.
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(&agent.socket)).collect();
    Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6700, Amount::Bytes(20 * MEGABYTE)).finish();
    drop(idle);
    std::thread::sleep(Duration::from_millis(50));
    let status = agent.status();
    assert!(!status.silent && status.packets.seen > 300, "{status}");
    Ok(())
}

pub fn two_capabilities_are_enough() -> Outcome {
    // What packaging/linkhold-agent.service leaves the agent.
    const LEAVE: &str = "-all,+net_admin,+net_raw";
    let path = Path::build()?;
    let bounding = format!("--bounding-set={LEAVE}");
    let wrapper = ["setpriv", bounding.as_str(), "--no-new-privs", "--"];
    let mut agent = AgentProcess::start_with(&path, "[channel]\ncapacity = \"1Gbit/s\"\n", &wrapper);
    let transfer = Transfer::start(&path.ch, &path.sh, Path::SH_V6, 6800, Amount::Bytes(60 * MEGABYTE));
    transfer.wait_for(MEGABYTE);
    agent.signal(r#"{"freeze":{"for_s":0.1}}"#);
    transfer.finish();
    let status = agent.status();
    assert!(status.packets.holds > 0 && status.windows.inject_errors == 0, "{status}");
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)));
    Ok(())
}

pub fn metrics_are_served() -> Outcome {
    use std::io::Read;
    let path = Path::build()?;
    let agent = AgentProcess::start(&path, "[metrics]\nlisten = \"127.0.0.1:9464\"\n");
    agent.signal(r#"{"freeze":{"for_s":0.05}}"#);
    let scrape = || -> std::io::Result<String> {
        let mut client = std::net::TcpStream::connect("127.0.0.1:9464")?;
        client.set_read_timeout(Some(Duration::from_secs(5)))?;
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut text = String::new();
        client.read_to_string(&mut text)?;
        Ok(text)
    };
    // Twice: a counter must not be added to itself.
    path.bs.enter(scrape)??;
    let text = path.bs.enter(scrape)??;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for line in [
        r#"linkhold_silences_total{instance="test"} 1"#,
        r#"linkhold_events_total{instance="test",source="test"} 1"#,
        r#"linkhold_channel_capacity_bps{instance="test"} 0"#,
        r#"linkhold_dropped_total{instance="test",reason="buffer_full"} 0"#,
        r#"linkhold_held_bytes{instance="test"} 0"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    Ok(())
}

pub fn doctor_finds_what_the_other_tests_use() -> Outcome {
    let report = linkhold_linux::doctor::doctor();
    assert!(report.agent_runs(), "{report}");
    assert!(!rules_of_this_namespace().to_lowercase().contains("linkhold-probe"), "the doctor left a chain");
    println!("{report}");
    Ok(())
}

/// The rules of the namespace that the tests themselves run in, which the doctor must leave alone.
fn rules_of_this_namespace() -> String {
    linkhold_linux::command::run("iptables", &["-w", "10", "-t", "mangle", "-S"]).unwrap_or_default()
}

pub fn rivals() -> Outcome {
    let path = Path::build()?;
    let first = AgentProcess::start(&path, "");
    let installed = rules(&path.bs);
    for (instance, reason) in [
        ("test", "an agent called \"test\" runs here already"),
        ("other", "NFQUEUE 4710 is taken by another program"),
    ] {
        let mut second = AgentProcess::spawn_as(&path, instance, "", &[]);
        assert!(!second.wait(), "it ran");
        assert!(second.log().contains(reason), "{}", second.log());
    }
    assert_eq!(rules(&path.bs), installed);
    Transfer::start(&path.ch, &path.sh, Path::SH_V4, 6850, Amount::Bytes(5 * MEGABYTE)).finish();
    assert!(first.status().packets.seen > 0);
    Ok(())
}

pub fn packaged_unit() -> Outcome {
    if !linkhold_linux::command::is_installed("systemd-analyze") {
        println!("skipped: `systemd-analyze` is not installed");
        return Ok(());
    }
    let unit = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/linkhold-agent.service"),
    )?;
    // It wants a program that is there.
    let program = std::env::current_exe()?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("linkhold-agent.service");
    std::fs::write(&copy, unit.replace("/usr/bin/linkhold", &program.to_string_lossy()))?;
    let output =
        std::process::Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("linkhold"), "{told}");
    Ok(())
}
