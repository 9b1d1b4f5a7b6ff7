//! What the agent does to real traffic.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use linkhold_core::packet::{Direction, TcpFlags};
use linkhold_linux::netns::NetNs;
use linkhold_linux::topology::{HOST, Path};
use linkhold_wire::{parse_ip_tcp_headers, verify_checksums};

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::capture::{Capture, Captured};
use crate::transfer::{Amount, Transfer};

pub const MEGABYTE: u64 = 1_000_000;
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
