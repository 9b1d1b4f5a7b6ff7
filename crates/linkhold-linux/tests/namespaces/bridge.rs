//! Routers on which an agent might see nothing: bridges, interfaces that are not there, offloaded flows. The
//! agent works, or says why not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use linkhold_linux::agent::AgentConfig;
use linkhold_linux::doctor::{Outcome as Checked, doctor};
use linkhold_linux::netns::{NetNs, NetNsError, veth};
use linkhold_linux::topology::{HOST, RADIO, ThreeHosts, WIRED};
use linkhold_wire::{parse_ip_tcp_headers, verify_checksums};
use nix::sys::signal::Signal;

use crate::agent_process::AgentProcess;
use crate::behaviour::{MEGABYTE, STEADY, mentions_us, rules};
use crate::capture::Capture;
use crate::packets::{data, story};
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, Unfinished, skipped};

/// Closes windows as soon as the radio is silent, so that the agent must send packets of its own.
const CLOSE_AT_ONCE: &str = "[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nname = \"dsasync\"\nmode = \"freeze\"\nclose_at = \"silence-start\"\n";
/// Addresses of the bridged network: of the correspondent host, the station and the bridge.
const CH: (IpAddr, IpAddr) =
    (IpAddr::V4(Ipv4Addr::new(10, 92, 0, 2)), IpAddr::V6(Ipv6Addr::new(0xfd92, 0, 0, 0, 0, 0, 0, 2)));
const SH: (IpAddr, IpAddr) =
    (IpAddr::V4(Ipv4Addr::new(10, 92, 0, 3)), IpAddr::V6(Ipv6Addr::new(0xfd92, 0, 0, 0, 0, 0, 0, 3)));
/// The station's on this link alone.
const SH_LINK_LOCAL: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x92, 3));
const BRIDGE: (IpAddr, IpAddr) =
    (IpAddr::V4(Ipv4Addr::new(10, 92, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd92, 0, 0, 0, 0, 0, 0, 1)));

/// Makes a path's base station a bridge between its two interfaces, with one network on both sides.
pub fn bridge_it(path: &ThreeHosts) -> Result<(), NetNsError> {
    path.bs.ip(&["link", "add", "br0", "type", "bridge"])?;
    // Without a link-local address the kernel looks for no IPv6 neighbour of a packet that is not from itself
    // (`ndisc_solicit`), and duplicate address detection takes a second.
    path.bs.sysctl("net/ipv6/conf/br0/accept_dad", "0")?;
    path.bs.ip(&["link", "set", "br0", "up"])?;
    for name in [WIRED, RADIO] {
        path.bs.ip(&["address", "flush", "dev", name])?;
        path.bs.ip(&["link", "set", name, "master", "br0"])?;
    }
    for (host, name, (v4, v6)) in [(&path.bs, "br0", BRIDGE), (&path.ch, HOST, CH), (&path.sh, HOST, SH)] {
        host.add_address(name, v4, 24)?;
        host.add_address(name, v6, 64)?;
    }
    path.sh.add_address(HOST, SH_LINK_LOCAL, 64)?;
    Ok(())
}

/// Switches whether bridged packets come past the firewall of the base station; false if the kernel has no
/// `br_netfilter`.
pub fn hand_bridged_packets_to_the_firewall(path: &ThreeHosts, on: bool) -> bool {
    let value = if on { "1" } else { "0" };
    ["iptables", "ip6tables"].iter().all(|which| {
        path.bs.run("sysctl", &["-qw", &format!("net.bridge.bridge-nf-call-{which}={value}")]).is_ok()
    })
}

/// A silence in a steady flow between `CH` and `SH`, both families and link-local addresses: nothing crosses,
/// windows are closed by right packets of the agent's own, and everything arrives.
fn silences_hold(path: &ThreeHosts, agent: &AgentProcess, port: u16) -> Outcome {
    path.set_offloads(false)?;
    for (number, addr) in [SH.0, SH.1, SH_LINK_LOCAL].into_iter().enumerate() {
        let captures = (Capture::start(&path.ch), Capture::at(&path.bs, RADIO));
        let flow = Transfer::start(&path.ch, &path.sh, addr, port + number as u16, STEADY);
        flow.wait_for(MEGABYTE);
        agent.signal(r#"{"freeze":{}}"#);
        // What the agent let pass before its answer has left by the radio by now, but may not be at the
        // station.
        let frozen = SystemTime::now();
        std::thread::sleep(Duration::from_millis(200));
        let during = agent.status();
        let thawing = SystemTime::now();
        agent.signal(r#"{"thaw":{}}"#);
        flow.wait_for(flow.received() + MEGABYTE);
        flow.stop_and_finish();
        assert!(during.windows.closed_now > 0, "{addr}: {during}\n{}", agent.log());
        let (heard, left) = (captures.0.finish(), captures.1.finish());
        let packets = data(&left, addr);
        let crossed = packets.iter().filter(|packet| (frozen..thawing).contains(&packet.at)).count();
        assert_eq!(crossed, 0, "data crossed in the silence\n{}", story(&left, frozen, 100));
        let zero_windows = heard.iter().filter(|packet| {
            let Ok(parsed) = parse_ip_tcp_headers(&packet.bytes) else { return false };
            let ours = parsed.src.addr == addr && parsed.tcp.window == 0;
            // Checksums of the station's own packets may be left to its interface.
            assert!(
                !ours || verify_checksums(&packet.bytes) == Ok(true),
                "{:02x?} {parsed:?}\n{}",
                packet.bytes,
                story(&heard, frozen, 40)
            );
            ours
        });
        let closed = zero_windows.count();
        assert!(closed > 0, "{addr}: no window was closed: {during}\n{}", story(&heard, frozen, 40));
    }
    let status = agent.status();
    assert_eq!((status.packets.held, status.windows.closed_now), (0, 0), "{status}");
    assert_eq!((status.windows.inject_errors, status.packets.verdict_errors), (0, 0), "{status}");
    Ok(())
}

pub fn a_bridged_radio_is_managed() -> Outcome {
    let path = ThreeHosts::build()?;
    bridge_it(&path)?;
    if !hand_bridged_packets_to_the_firewall(&path, true) {
        return skipped("this kernel has no br_netfilter");
    }
    let mut agent = AgentProcess::start(&path, CLOSE_AT_ONCE);
    assert_eq!(agent.status().troubles, Vec::<String>::new(), "{}", agent.log());
    silences_hold(&path, &agent, 7200)?;
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    Ok(())
}

/// A bridge floods broadcasts as clones, which the kernel drops in place of queueing them while conntrack has
/// not confirmed their connection, as of the first datagram from each port here.
pub fn a_broadcast_crosses_a_bridge_with_conntrack() -> Outcome {
    const PORT: u16 = 7240;
    const BROADCASTS: u64 = 10;
    let path = ThreeHosts::build()?;
    bridge_it(&path)?;
    if !hand_bridged_packets_to_the_firewall(&path, true) {
        return skipped("this kernel has no br_netfilter");
    }
    let invalid = ["-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP"];
    if path.bs.run("iptables", &invalid).is_err() {
        return skipped("this kernel has no conntrack match");
    }
    let agent = AgentProcess::start(&path, CLOSE_AT_ONCE);
    let heard = path.ch.enter(|| UdpSocket::bind(("0.0.0.0", PORT)))??;
    heard.set_read_timeout(Some(Duration::from_secs(20)))?;
    let send = |to: IpAddr, number: u64| {
        path.sh.enter(|| {
            let socket = UdpSocket::bind(("0.0.0.0", 0))?;
            socket.set_broadcast(true)?;
            socket.send_to(&number.to_be_bytes(), (to, PORT))
        })
    };
    let hear = || {
        let mut number = [0; 8];
        heard.recv(&mut number).map(|_| u64::from_be_bytes(number))
    };
    for number in 0..BROADCASTS {
        send(IpAddr::V4(Ipv4Addr::new(10, 92, 0, 255)), number)??;
        assert_eq!(hear().ok(), Some(number), "a broadcast is lost\n{}", agent.log());
    }
    assert_eq!(agent.status().packets.datagrams, 0, "broadcasts pass the agent by");
    // What has one receiver is the agent's all the same.
    send(CH.0, BROADCASTS)??;
    assert_eq!(hear().ok(), Some(BROADCASTS), "{}", agent.log());
    assert_eq!(agent.status().packets.datagrams, 1);
    Ok(())
}

/// The agent does not start, and says what hides the radio and what to change; so does the doctor.
pub fn a_hidden_radio_is_refused() -> Outcome {
    let path = ThreeHosts::build()?;
    let refused = |expected: &str| -> Outcome {
        let mut agent = AgentProcess::spawn(&path, "", &[]);
        assert!(!agent.listens(), "the agent runs\n{}", agent.log());
        let log = agent.log();
        assert!(log.contains("error: the agent would see nothing: ") && log.contains(expected), "{log}");
        assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
        let text = format!("wired = [\"{WIRED}\"]\nradio = [\"{RADIO}\"]\n");
        let config = AgentConfig::parse(std::path::Path::new("agent.toml"), &text)?;
        let report = path.bs.enter(|| doctor(Some(&config)))?;
        let check = report.checks.iter().find(|check| check.name == "interfaces").expect("it is looked at");
        assert!(check.outcome == Checked::Missing && check.detail.contains("bridge br0"), "{report}");
        assert!(!report.agent_runs(), "{report}");
        Ok(())
    };
    // The radio among the ports of a router's bridge.
    path.bs.ip(&["link", "add", "br0", "type", "bridge"])?;
    path.bs.ip(&["link", "set", RADIO, "master", "br0"])?;
    refused("take radio0 out of the bridge (`ip link set radio0 nomaster`)")?;
    // Both in one bridge, and nothing hands bridged packets to the firewall.
    path.bs.ip(&["link", "set", WIRED, "master", "br0"])?;
    if hand_bridged_packets_to_the_firewall(&path, false) {
        refused("modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-iptables=1")?;
    }
    path.bs.ip(&["link", "set", RADIO, "nomaster"])?;
    refused("write br0 in place of wired0 under `wired`")?;
    // nftables does not know a bridge's ports.
    path.bs.ip(&["link", "set", RADIO, "master", "br0"])?;
    if hand_bridged_packets_to_the_firewall(&path, true) {
        let mut agent = AgentProcess::spawn(&path, "[datapath]\nbackend = \"nftables\"\n", &[]);
        assert!(!agent.listens());
        assert!(agent.log().contains("a bridged radio needs iptables"), "{}", agent.log());
    }
    Ok(())
}

/// As hostapd does it, after the agent's start.
pub fn a_radio_put_into_a_bridge_later() -> Outcome {
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(&path, CLOSE_AT_ONCE);
    if !hand_bridged_packets_to_the_firewall(&path, true) {
        return skipped("this kernel has no br_netfilter");
    }
    bridge_it(&path)?;
    agent.wait_until(|_| rules(&path.bs).contains("--physdev-in"));
    silences_hold(&path, &agent, 7210)?;
    // Out of the bridge, the radio is routed again, and hidden where only the wired side is a port.
    path.bs.ip(&["link", "set", RADIO, "nomaster"])?;
    let status = agent.wait_until(|status| !status.troubles.is_empty());
    assert!(status.troubles[0].contains("write br0 in place of wired0 under `wired`"), "{status}");
    assert!(agent.log().contains("write br0 in place of wired0"), "{}", agent.log());
    Ok(())
}

/// A name that is not there is told in log and status, and managed as soon as it appears.
pub fn an_interface_that_is_not_there() -> Outcome {
    let path = ThreeHosts::build()?;
    path.bs.ip(&["link", "del", RADIO])?;
    let agent = AgentProcess::start(&path, "[channel]\ncapacity = \"1Gbit/s\"\n");
    let told = "there is no interface radio0 (yet)";
    let status = agent.status();
    assert!(status.troubles.iter().any(|trouble| trouble.contains(told)), "{status}");
    assert!(status.to_string().contains("TROUBLE     there is no interface radio0"), "{status}");
    assert!(agent.log().contains(told), "{}", agent.log());

    veth(&path.sh, HOST, &path.bs, RADIO)?;
    path.bs.add_address(RADIO, IpAddr::V4(Ipv4Addr::new(10, 91, 2, 1)), 24)?;
    path.sh.add_address(HOST, ThreeHosts::SH_V4, 24)?;
    path.sh.add_default_route(IpAddr::V4(Ipv4Addr::new(10, 91, 2, 1)))?;
    agent.wait_until(|status| status.troubles.is_empty());
    assert!(agent.log().contains("the interface is there now"), "{}", agent.log());
    Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 7220, Amount::Bytes(MEGABYTE)).finish();
    let status = agent.status();
    assert!(status.packets.seen > 10, "{status}");
    Ok(())
}

/// Rules by which the agent's own packets may leave otherwise than the flows' are told, until one is theirs.
pub fn routing_rules_are_told() -> Outcome {
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(&path, "");
    assert_eq!(agent.status().troubles, Vec::<String>::new());
    if path.bs.ip(&["rule", "add", "iif", RADIO, "lookup", "100"]).is_err() {
        return skipped("this kernel has no routing rules");
    }
    let status = agent.wait_until(|status| !status.troubles.is_empty());
    assert!(status.troubles[0].starts_with("`ip rule` has rules beyond the kernel's own"), "{status}");
    path.bs.ip(&["rule", "add", "fwmark", "27752", "lookup", "main"])?;
    agent.wait_until(|status| status.troubles.is_empty());
    path.bs.ip(&["-6", "rule", "add", "from", "fd91:2::/64", "lookup", "100"])?;
    let status = agent.wait_until(|status| !status.troubles.is_empty());
    assert!(status.troubles[0].starts_with("`ip -6 rule` has rules"), "{status}");
    Ok(())
}

/// An interface that may gather more than 64 KiB (BIG TCP) is told of by log, status and doctor where
/// aggregates come whole, and no more once it may not; where they are split, never.
pub fn aggregates_that_no_header_can_name() -> Outcome {
    let path = ThreeHosts::build()?;
    let told = "wired0 may have aggregates of 185000 bytes (BIG TCP)";
    let allow = |bytes: &str| path.bs.ip(&["link", "set", WIRED, "gro_max_size", bytes]);
    allow("185000")?;
    let whole = "[datapath]\naggregates = \"keep\"\n[mechanism]\nname = \"none\"\n";
    let split = "[datapath]\naggregates = \"split\"\n[mechanism]\nname = \"none\"\n";
    for (rest, expected) in [(whole, Checked::Limited), (split, Checked::Works)] {
        let text = format!("wired = [\"{WIRED}\"]\nradio = [\"{RADIO}\"]\n{rest}");
        let config = AgentConfig::parse(std::path::Path::new("agent.toml"), &text)?;
        let report = path.bs.enter(|| doctor(Some(&config)))?;
        let check = report.checks.iter().find(|check| check.name == "interfaces").expect("it is looked at");
        assert_eq!((check.outcome, check.detail.contains(told)), (expected, expected == Checked::Limited));
    }
    let agent = AgentProcess::start(&path, split);
    assert_eq!(agent.status().troubles, Vec::<String>::new());
    drop(agent);
    let agent = AgentProcess::start(&path, whole);
    let status = agent.status();
    assert!(status.troubles.iter().any(|trouble| trouble.contains(told)), "{status}");
    assert!(agent.log().contains("aggregates = \"split\""), "{}", agent.log());
    allow("65536")?;
    agent.wait_until(|status| status.troubles.is_empty());
    Ok(())
}

/// What nft 1.0.6 lists on Linux 6.1 where there is a flow table of `wired0` and `radio0`, and where there is
/// one of `lan7` only.
const RECORDED_OWN: &str = include_str!("../../src/datapath/crossing/recorded-own.json");
const RECORDED_ANOTHERS: &str = include_str!("../../src/datapath/crossing/recorded-anothers.json");

/// Flow tables of the base station: the kernel's own, or, where it has none, an `nft` that plays what the
/// real one printed on a kernel that has them.
struct FlowTables<'a> {
    netns: &'a NetNs,
    player: Option<tempfile::TempDir>,
}

impl<'a> FlowTables<'a> {
    fn of(netns: &'a NetNs) -> Result<Self, Unfinished> {
        let mut this = Self { netns, player: None };
        if let Err(refusal) = this.set("wired0, radio0", RECORDED_OWN) {
            println!("recorded listings are played, because there are no flow tables here: {refusal}");
            this.player = Some(tempfile::tempdir()?);
        }
        Ok(this)
    }

    /// Makes one of these devices the only flow table.
    fn set(&self, devices: &str, recorded: &str) -> Result<(), NetNsError> {
        let Some(folder) = &self.player else {
            let _ = self.netns.run("nft", &["delete", "table", "inet", "fw4"]);
            self.netns.run("nft", &["add", "table", "inet", "fw4"])?;
            let table = format!("{{ hook ingress priority 0; devices = {{ {devices} }}; }}");
            self.netns.run("nft", &["add", "flowtable", "inet", "fw4", "ft", &table])?;
            return Ok(());
        };
        let nft = folder.path().join("nft");
        let listing = folder.path().join("listing");
        let script =
            format!("#!/bin/sh\n[ \"$*\" = '-j list flowtables' ] && cat {} || exit 1\n", listing.display());
        std::fs::write(&listing, recorded).expect("written");
        std::fs::write(&nft, script).expect("written");
        std::fs::set_permissions(&nft, std::fs::Permissions::from_mode(0o755)).expect("runnable");
        Ok(())
    }

    /// Where programs are found.
    fn search(&self) -> String {
        let search = std::env::var("PATH").unwrap_or_default();
        match &self.player {
            Some(folder) => format!("{}:{search}", folder.path().display()),
            None => search,
        }
    }
}

/// Agent and doctor say that a flow table of their interfaces takes flows past them, and what to change; of
/// another's they say nothing.
pub fn a_flow_table_is_told() -> Outcome {
    let path = ThreeHosts::build()?;
    veth(&path.ch, "eth7", &path.bs, "lan7")?;
    let tables = FlowTables::of(&path.bs)?;
    let text = format!("wired = [\"{WIRED}\"]\nradio = [\"{RADIO}\"]\n");
    let config = AgentConfig::parse(std::path::Path::new("agent.toml"), &text)?;
    let told = "the flow table fw4/ft takes flows of ";
    for (devices, recorded, expected) in
        [("wired0, radio0", RECORDED_OWN, true), ("lan7", RECORDED_ANOTHERS, false)]
    {
        tables.set(devices, recorded)?;
        let search = tables.search();
        let agent = AgentProcess::start_with(&path, "", &["env", &format!("PATH={search}")]);
        let status = agent.status();
        let is_told = status
            .troubles
            .iter()
            .any(|trouble| trouble.contains(told) && trouble.contains(RADIO) && trouble.contains("uci set"));
        assert_eq!((is_told, agent.log().contains(told)), (expected, expected), "{status}\n{}", agent.log());
        let report = with_path(&search, || path.bs.enter(|| doctor(Some(&config))))?;
        let check = report.checks.iter().find(|check| check.name == "flow offload").expect("it is looked at");
        let remedy = check.remedy.as_deref().unwrap_or_default();
        let is_told = check.outcome == Checked::Missing
            && check.detail.contains(told)
            && remedy.contains("uci set firewall.@defaults[0].flow_offloading=0");
        assert_eq!((is_told, check.outcome == Checked::Works), (expected, !expected), "{report}");
        assert!(!expected || !report.agent_runs(), "{report}");
    }
    Ok(())
}

/// `work` with `search` in the place of PATH, for the programs that this process itself runs.
fn with_path<R>(search: &str, work: impl FnOnce() -> R) -> R {
    let before = std::env::var_os("PATH");
    // SAFETY: tests of this program run one at a time (`test_threads` in main.rs), and this one has no thread
    // of its own now but the one that `work` starts and waits for, so nobody reads the environment meanwhile.
    unsafe { std::env::set_var("PATH", search) };
    let answer = work();
    if let Some(before) = before {
        // SAFETY: as above; `work` is over.
        unsafe { std::env::set_var("PATH", before) };
    }
    answer
}
