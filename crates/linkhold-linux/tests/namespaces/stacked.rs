//! Routers whose packets cross an interface that stands on the configured one: a VLAN, a macvlan interface.
//! The agent names it, and sees the packets once it is configured.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use linkhold_linux::agent::AgentConfig;
use linkhold_linux::doctor::{Check, Outcome as Checked, doctor};
use linkhold_linux::netns::NetNsError;
use linkhold_linux::topology::{HOST, RADIO, ThreeHosts, WIRED};

use crate::agent_process::AgentProcess;
use crate::behaviour::MEGABYTE;
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, Unfinished, skipped};

/// The interface above the configured one.
const UPPER: &str = "upper0";
const SETTINGS: &str = "[channel]\ncapacity = \"1Gbit/s\"\n";
/// The base station's address towards the correspondent host.
const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 91, 1, 1));

fn between(wired: &str) -> String {
    format!("wired = [\"{wired}\"]\nradio = [\"{RADIO}\"]\n")
}

/// What the doctor says of the interfaces.
fn examined(path: &ThreeHosts, wired: &str) -> Result<Vec<Check>, Unfinished> {
    let config = AgentConfig::parse(Path::new("agent.toml"), &between(wired))?;
    let report = path.bs.enter(|| doctor(Some(&config)))?;
    Ok(report.checks.into_iter().filter(|check| check.name == "interfaces").collect())
}

/// Sends data between the hosts, and answers how many packets the agent has seen.
fn seen(path: &ThreeHosts, agent: &AgentProcess, port: u16) -> u64 {
    Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, port, Amount::Bytes(MEGABYTE)).finish();
    agent.status().packets.seen
}

/// Moves the base station's wired address to the upper interface. The lower one keeps that of its link.
fn move_address(path: &ThreeHosts) -> Result<(), NetNsError> {
    path.bs.ip(&["address", "flush", "dev", WIRED, "scope", "global"])?;
    path.bs.up(UPPER)?;
    path.bs.add_address(UPPER, GATEWAY, 24)?;
    Ok(())
}

/// Agent and doctor say what the upper interface takes, and what to write; written, it is seen.
fn is_told_and_then_seen(path: &ThreeHosts, port: u16) -> Outcome {
    let told = format!("packets cross {UPPER} above it, which is not in the configuration");
    let remedy = format!("write {UPPER} in place of {WIRED} under `wired`");
    let checks = examined(path, WIRED)?;
    assert_eq!(checks.len(), 1, "{checks:?}");
    assert_eq!((checks[0].outcome, checks[0].remedy.as_deref()), (Checked::Missing, Some(remedy.as_str())));
    assert!(checks[0].detail.contains(&told), "{checks:?}");

    let agent = AgentProcess::start(path, SETTINGS);
    let status = agent.status();
    assert!(status.troubles.len() == 1 && status.troubles[0].contains(&told), "{status}");
    assert!(agent.log().contains(&told) && agent.log().contains(&remedy), "{}", agent.log());
    assert_eq!(seen(path, &agent, port), 0, "the warning is wrong");
    drop(agent);

    // Where both have addresses, that may be what is wanted.
    path.bs.add_address(WIRED, IpAddr::V4(Ipv4Addr::new(10, 91, 9, 1)), 24)?;
    let hint = format!("packets of {UPPER}, which stands on {WIRED}, are not seen");
    let checks = examined(path, WIRED)?;
    assert_eq!((checks.len(), checks[0].outcome), (1, Checked::Limited), "{checks:?}");
    assert_eq!(checks[0].detail, hint);
    let agent = AgentProcess::start(path, SETTINGS);
    assert_eq!(agent.status().troubles, Vec::<String>::new());
    assert!(agent.log().contains(&hint), "{}", agent.log());
    drop(agent);

    let checks = examined(path, UPPER)?;
    assert_eq!((checks.len(), checks[0].outcome), (1, Checked::Works), "{checks:?}");
    let agent = AgentProcess::start_between(path, &between(UPPER), SETTINGS);
    assert_eq!(agent.status().troubles, Vec::<String>::new(), "{}", agent.log());
    assert!(seen(path, &agent, port + 1) > 10, "{}", agent.status());
    Ok(())
}

pub fn a_macvlan_is_named() -> Outcome {
    let path = ThreeHosts::build()?;
    if let Err(refusal) = path.bs.ip(&["link", "add", "link", WIRED, "name", UPPER, "type", "macvlan"]) {
        return skipped(format!("this kernel has no macvlan: {refusal}"));
    }
    // By default the lower interface answers ARP requests for the upper one's address, too, and packets of
    // one direction may come in by it (Linux, Documentation/networking/ip-sysctl.rst, `arp_ignore`).
    path.bs.sysctl("net/ipv4/conf/all/arp_ignore", "1")?;
    move_address(&path)?;
    is_told_and_then_seen(&path, 7240)
}

pub fn a_vlan_is_named() -> Outcome {
    let path = ThreeHosts::build()?;
    for (host, lower) in [(&path.bs, WIRED), (&path.ch, HOST)] {
        let vlan = ["link", "add", "link", lower, "name", UPPER, "type", "vlan", "id", "10"];
        if let Err(refusal) = host.ip(&vlan) {
            return skipped(format!("this kernel has no VLANs: {refusal}"));
        }
    }
    move_address(&path)?;
    path.ch.ip(&["address", "flush", "dev", HOST])?;
    path.ch.up(UPPER)?;
    path.ch.add_address(UPPER, ThreeHosts::CH_V4, 24)?;
    path.ch.add_default_route(GATEWAY)?;
    is_told_and_then_seen(&path, 7250)
}
