//! The agent's own packets where the router translates addresses: each must arrive as one of the flow's. At
//! FORWARD the agent sees a packet half translated, and what goes against the translation bears a header that
//! conntrack knows of no connection.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use linkhold_core::packet::TcpFlags;
use linkhold_linux::topology::{HOST, RADIO, ThreeHosts, WIRED};
use linkhold_wire::{ParsedPacket, parse_ip_tcp_headers, verify_checksums};

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::behaviour::{CLOSE_AT_ONCE, MEGABYTE, STEADY, silence_in_a_flow};
use crate::capture::{Capture, Captured};
use crate::transfer::Transfer;

/// Both families of a host, each with the port of its flow's far end.
const fn far_ends(addresses: [IpAddr; 2], port: u16) -> [(IpAddr, u16); 2] {
    [(addresses[0], port), (addresses[1], port + 1)]
}

/// True if a rule of iptables' listing has dropped packets: their number is in a rule's first column.
fn has_dropped(listing: &str) -> bool {
    listing.lines().any(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [packets, _, "DROP", ..] => packets != "0",
        _ => false,
    })
}

/// What came from the far ends. Each packet must have the port of its flow and a right checksum.
fn flows_own(captured: &[Captured], ends: [(IpAddr, u16); 2]) -> Vec<ParsedPacket> {
    let parsed = captured.iter().filter_map(|packet| {
        let parsed = parse_ip_tcp_headers(&packet.bytes).ok()?;
        let (addr, port) = ends.into_iter().find(|(addr, _)| *addr == parsed.src.addr)?;
        assert_eq!((addr, port), (parsed.src.addr, parsed.src.port), "not the flow's own: {parsed:?}");
        assert_eq!(verify_checksums(&packet.bytes), Ok(true), "{parsed:?}");
        Some(parsed)
    });
    parsed.collect()
}

/// A station behind a home router fetches: what a silence took before it was told goes to it again, from the
/// agent's copies.
pub fn copies_to_a_station() -> Outcome {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    path.masquerade(WIRED)?;
    let agent = AgentProcess::start(&path, "[channel]\ncapacity = \"200Mbit/s\"\n");
    let capture = Capture::start(&path.sh);
    let ends = far_ends([ThreeHosts::CH_V4, ThreeHosts::CH_V6], 6160);
    for (addr, port) in ends {
        let before = agent.status().packets.copies_sent;
        let flow = Transfer::fetch(&path.ch, &path.sh, addr, port, STEADY);
        flow.wait_for(MEGABYTE);
        // What the radio would lose, the station does not take.
        let firewall = if addr.is_ipv4() { "iptables" } else { "ip6tables" };
        let table = |args: &[&str]| path.sh.run(firewall, &[&["-w", "10", "-t", "raw"], args].concat());
        let deaf = |change| table(&[change, "PREROUTING", "-p", "tcp", "-j", "DROP"]);
        deaf("-A")?;
        // What the agent forwards from now on is lost too, until the freeze.
        let begun = Instant::now();
        while !has_dropped(&table(&["-L", "PREROUTING", "-n", "-v", "-x"])?) {
            assert!(begun.elapsed() < Duration::from_secs(20), "the station loses nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        agent.say(r#"{"effective_in_s":-0.02,"event":{"freeze":{}}}"#);
        deaf("-D")?;
        agent.signal(r#"{"thaw":{}}"#);
        agent.wait_until(|status| status.packets.copies_sent > before);
        flow.wait_for(flow.received() + MEGABYTE);
        flow.stop_and_finish();
    }
    let status = agent.status();
    let arrived = flows_own(&capture.finish(), ends);
    assert!(arrived.len() > 1000, "{} packets; {status}", arrived.len());
    assert_eq!(status.windows.inject_errors, 0, "{status}");
    Ok(())
}

/// A home sends by a radio that translates its address (a satellite's dish): the agent's acknowledgments go
/// back into the home.
pub fn acks_to_a_home() -> Outcome {
    let path = ThreeHosts::build()?;
    path.masquerade(RADIO)?;
    path.sh.set_checksum_offload(HOST, false)?;
    let agent = AgentProcess::start(&path, CLOSE_AT_ONCE);
    let capture = Capture::start(&path.ch);
    let ends = far_ends([ThreeHosts::SH_V4, ThreeHosts::SH_V6], 6170);
    for (addr, port) in ends {
        silence_in_a_flow(&agent, Transfer::start(&path.ch, &path.sh, addr, port, STEADY));
    }
    let status = agent.status();
    let arrived = flows_own(&capture.finish(), ends);
    for (addr, _) in ends {
        let closed = arrived.iter().filter(|packet| {
            packet.src.addr == addr && packet.tcp.window == 0 && !packet.tcp.flags.contains(TcpFlags::RST)
        });
        assert!(closed.count() > 0, "no zero window from {addr}: {status}");
    }
    assert_eq!(status.windows.inject_errors, 0, "{status}");
    Ok(())
}
