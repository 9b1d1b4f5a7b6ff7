//! The rules that bring packets to the agent: what the kernel and its programs say of them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linkhold_core::packet::TcpFlags;
use linkhold_linux::command::{CommandError, is_installed};
use linkhold_linux::datapath::rules::{Backend, RuleSet, Rules, Traffic, lost, replace};
use linkhold_linux::datapath::shared_table::{TABLE, Turn, take_out};
use linkhold_linux::netns::NetNs;
use linkhold_linux::topology::{RADIO, ThreeHosts, WIRED};
use linkhold_wire::parse_ip_tcp_headers;
use nix::sys::signal::Signal;

use crate::agent_process::AgentProcess;
use crate::behaviour::{MEGABYTE, STEADY, mentions_us, rules};
use crate::capture::Capture;
use crate::service::{METRICS, scrape};
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, skipped};

/// The rules of a router for TCP and UDP, with nothing bridged.
fn routed(instance: &str) -> RuleSet {
    RuleSet {
        datagrams: true,
        instance: instance.to_owned(),
        wired: vec![WIRED.to_owned()],
        radio: vec![RADIO.to_owned()],
        queue: 4710,
        traffic: Traffic::Forwarded,
        bridged: BTreeSet::new(),
    }
}

/// A radio is put into a bridge while the rules are nftables', which knows no bridge's ports: iptables joins
/// in for what crosses the bridge, and is taken out with the rest. Where all is bridged, nftables' own chain
/// is empty, so this runs on a kernel without nftables' `queue`.
pub fn iptables_joins_nftables_for_a_bridge() -> Outcome {
    if !["nft", "iptables", "ip6tables"].into_iter().all(is_installed) {
        return skipped("`nft`, `iptables` and `ip6tables` are not all installed");
    }
    let netns = NetNs::create("join")?;
    let bridged = BTreeSet::from([(WIRED.to_owned(), RADIO.to_owned())]);
    let set = RuleSet { bridged, ..routed("join") };
    let both = Backend::Both { ipv6: true };
    netns.enter(|| -> Outcome {
        let mut rules = Rules::install(&set, Backend::Nftables)?;
        assert_eq!(lost(&set, Backend::Nftables), Vec::<&str>::new());
        let backend = replace(&set, Backend::Nftables)?;
        assert_eq!((backend, lost(&set, backend)), (both, vec![]));
        rules.note_backend(backend);
        // Again, as when another radio follows.
        assert_eq!(replace(&set, backend)?, both);
        let standing = mangle(&netns)?;
        for program in ["iptables", "ip6tables"] {
            let rules = standing.iter().filter(|(of, line)| *of == program && line.contains("--physdev-in"));
            assert_eq!(rules.count(), 4, "TCP and UDP, each way: {standing:?}");
            let jumps =
                standing.iter().filter(|(of, line)| *of == program && line == "-A FORWARD -j LINKHOLD-join");
            assert_eq!(jumps.count(), 1, "{standing:?}");
        }
        netns.run("ip6tables", &["-t", "mangle", "-F", "LINKHOLD-join"])?;
        assert_eq!(lost(&set, backend), ["ip6tables"]);
        drop(rules);
        assert!(!mangle(&netns)?.iter().any(|(_, line)| line.contains("LINKHOLD")), "{:?}", mangle(&netns)?);
        assert!(netns.run("nft", &["list", "table", "inet", TABLE]).is_err(), "the table is gone");

        // What iptables refuses is not in by half.
        let long = RuleSet { radio: vec!["a-name-that-is-too-long".to_owned()], ..set.clone() };
        let bridged = long.radio.iter().map(|radio| (WIRED.to_owned(), radio.clone())).collect();
        let long = RuleSet { bridged, ..long };
        let rules = Rules::install(&long, Backend::Nftables)?;
        assert!(replace(&long, Backend::Nftables).is_err());
        assert!(!mangle(&netns)?.iter().any(|(_, line)| line.contains("LINKHOLD")), "{:?}", mangle(&netns)?);
        drop(rules);
        Ok(())
    })?
}

/// The mangle tables' lines, each with its program.
fn mangle(netns: &NetNs) -> Result<Vec<(&'static str, String)>, CommandError> {
    let mut lines = Vec::new();
    for program in ["iptables", "ip6tables"] {
        let listing = netns.run(program, &["-t", "mangle", "-S"])?;
        lines.extend(listing.lines().map(|line| (program, line.trim().to_owned())));
    }
    Ok(lines)
}

/// nft reads the rules as they are meant. The kernel takes them, except for `queue` itself where it has none.
pub fn nftables_reads_the_rules() -> Outcome {
    if !is_installed("nft") {
        return skipped("`nft` is not installed");
    }
    let netns = NetNs::create("nft")?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("rules.nft");
    let file = script.to_str().expect("a path in UTF-8");
    let set = routed("test");
    let text = set.nft_script();

    std::fs::write(&script, &text)?;
    let output = netns.command("nft").args(["--debug=netlink", "--check", "-f", file]).output()?;
    let (compiled, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for queue in ["[ queue num 4710 bypass ]", "[ queue num 4711 bypass ]"] {
        assert!(compiled.contains(queue), "{queue} is not in\n{compiled}\n{told}");
    }
    if output.status.success() {
        println!("this kernel has nftables' queue");
    } else {
        let marks_queue = told.lines().zip(told.lines().skip(1)).any(|(rule, mark)| {
            let at = mark.find('^').unwrap_or(usize::MAX);
            rule.get(at..).is_some_and(|rest| rest.starts_with("queue flags bypass"))
        });
        assert!(told.contains("Could not process rule") && marks_queue, "{told}");
        println!("this kernel has no nftables' queue: {}", told.lines().next().unwrap_or_default());
    }

    let without_queue = |text: &str| {
        text.replace("queue flags bypass to 4710", "accept").replace("queue flags bypass to 4711", "accept")
    };
    std::fs::write(&script, without_queue(&text))?;
    netns.run("nft", &["-f", file])?;
    // A table that is made anew has another handle, and in one table no handle is given twice.
    let listing = |of: &[&str]| -> Result<Vec<String>, CommandError> {
        let text = netns.run("nft", &["-a", "list", "table", "inet", TABLE])?;
        let wanted = |line: &&str| of.iter().any(|what| line.contains(what));
        Ok(text.lines().filter(wanted).map(str::to_owned).collect())
    };
    let hook = ["table inet", "chain forward {"];
    let (hooks, rules) = (listing(&hook)?, listing(&["accept # handle"])?);
    std::fs::write(&script, without_queue(&set.nft_replacement()))?;
    netns.run("nft", &["-f", file])?;
    let (kept, replaced) = (listing(&hook)?, listing(&["accept # handle"])?);
    let costs = "a hook that is taken out costs what waits in the queues";
    assert_eq!((hooks.len(), &kept), (2, &hooks), "{costs}");
    assert_eq!((rules.len(), replaced.len()), (2, 2), "{replaced:?}");
    assert!(rules.iter().all(|rule| !replaced.contains(rule)), "{rules:?} {replaced:?}");

    // Another agent starts, and the first one ends.
    let other = RuleSet { instance: "other".to_owned(), queue: 4710, ..set };
    std::fs::write(&script, without_queue(&other.nft_trial()))?;
    netns.run("nft", &["--check", "-f", file])?;
    std::fs::write(&script, without_queue(&other.nft_script()))?;
    netns.run("nft", &["-f", file])?;
    assert_eq!((listing(&hook)?, listing(&["accept # handle"])?.len()), (hooks.clone(), 4), "{costs}");
    assert!(netns.enter(|| take_out("test"))??, "its rules were there");
    let left = netns.run("nft", &["list", "table", "inet", TABLE])?;
    assert_eq!(
        (listing(&hook)?, left.contains("_test"), left.contains("jump forward_other")),
        (hooks, false, true)
    );
    assert_eq!(listing(&["accept # handle"])?.len(), 2);
    assert!(!netns.enter(|| take_out("test"))??, "they are gone already");
    // The last to hold rules deletes the table, whatever is left in it.
    let stands = || netns.run("nft", &["list", "table", "inet", TABLE]).is_ok();
    let turn = netns.enter(Turn::take)?;
    let (one, last) = netns.enter(|| (turn.hold("one"), turn.hold("last")))?;
    netns.enter(|| turn.let_go(one))?;
    assert!(stands(), "another agent lives");
    netns.enter(|| turn.let_go(last))?;
    assert!(!stands(), "nobody does");
    Ok(())
}

/// `auto` takes what works and says why that is not nftables. With `nftables`, the agent says why it cannot
/// run.
pub fn a_backend_is_chosen_by_trying() -> Outcome {
    let path = ThreeHosts::build()?;
    let mut insisting = AgentProcess::spawn(&path, "[datapath]\nbackend = \"nftables\"\n", &[]);
    let nftables_works = insisting.listens();
    let log = insisting.log();
    drop(insisting);
    let agent = AgentProcess::start(&path, "");
    if nftables_works {
        assert_eq!(agent.status().rules, "nftables");
        return Ok(());
    }
    assert!(
        log.contains("error: neither nftables' queue") && log.contains("iptables: not asked for"),
        "{log}"
    );
    // In words, not in nft's.
    assert!(log.contains("this kernel has no `queue` statement") && !log.contains("/dev/stdin"), "{log}");
    assert!(agent.status().rules.starts_with("iptables"), "{}", agent.status());
    assert!(agent.log().contains("nftables cannot queue packets here, iptables can"), "{}", agent.log());
    Ok(())
}

/// A firewall that flushes everything takes the agent's rules away: what it holds leaves all the same, the
/// rest passes unmanaged, the agent says so, and its end is clean.
pub fn flushed_rules_block_nothing() -> Outcome {
    let path = ThreeHosts::build()?;
    let mut agent = AgentProcess::start(&path, METRICS);
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6900, STEADY);
    transfer.wait_for(MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    agent.wait_until(|status| status.packets.held > 0);
    for (program, args) in [
        ("nft", &["flush", "ruleset"][..]),
        ("iptables", &["-t", "mangle", "-F"]),
        ("ip6tables", &["-t", "mangle", "-F"]),
    ] {
        if is_installed(program) {
            path.bs.run(program, args)?;
        }
    }
    agent.signal(r#"{"thaw":{}}"#);
    agent.wait_until(|status| !status.silent && status.packets.held == 0);
    // What was in the agent's queue before the flush is seen after it.
    let last = Cell::new(None);
    let seen = agent.wait_until(|status| {
        std::thread::sleep(Duration::from_millis(50));
        last.replace(Some(status.packets.seen)) == Some(status.packets.seen)
    });
    let seen = seen.packets.seen;
    transfer.wait_for(transfer.received() + 2 * MEGABYTE);
    assert_eq!(agent.status().packets.seen, seen, "no rule leads to the agent any more");
    transfer.stop_and_finish();
    let told = "the agent's rules are gone";
    let status = agent.wait_until(|status| !status.troubles.is_empty());
    assert!(status.troubles.iter().any(|trouble| trouble.starts_with(told)), "{status}");
    assert!(agent.log().contains(told), "{}", agent.log());
    let text = path.bs.enter(scrape)??;
    assert!(text.contains("linkhold_troubles{instance=\"test\"} 1"), "{text}");
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!agent.log().contains("could not remove"), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    Ok(())
}

/// A router that already clamps the segment size of what it forwards goes on doing so, with an agent that
/// runs and with one that was killed.
pub fn rules_that_were_there_first_go_on() -> Outcome {
    const CLAMPED: u16 = 1000;
    let path = ThreeHosts::build()?;
    let clamp = ["-j", "TCPMSS", "--set-mss", &CLAMPED.to_string()];
    let rule = ["-w", "10", "-t", "mangle", "-A", "FORWARD", "-p", "tcp", "--tcp-flags", "SYN,RST", "SYN"];
    if let Err(error) = path.bs.run("iptables", &[&rule[..], &clamp[..]].concat()) {
        return skipped(format!("no TCPMSS target: {error}"));
    }
    let mut agent = AgentProcess::start(&path, "");
    let capture = Capture::start(&path.sh);
    let connect =
        |port| Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, port, Amount::Bytes(1)).finish();
    connect(6950);
    assert!(agent.status().packets.seen > 0, "{}", agent.status());
    agent.send_signal(Signal::SIGKILL);
    assert!(!agent.wait());
    assert!(mentions_us(&rules(&path.bs)), "a killed agent cannot remove its rules");
    connect(6951);
    let captured = capture.finish();
    let sizes: BTreeMap<u16, BTreeSet<Option<u16>>> = captured
        .iter()
        .filter_map(|packet| parse_ip_tcp_headers(&packet.bytes).ok())
        .filter(|parsed| parsed.dst.addr == ThreeHosts::SH_V4 && parsed.tcp.flags.contains(TcpFlags::SYN))
        .fold(BTreeMap::new(), |mut sizes, parsed| {
            // A SYN may come again.
            sizes.entry(parsed.dst.port).or_default().insert(parsed.tcp.syn.mss);
            sizes
        });
    let wanted = [6950, 6951].map(|port| (port, BTreeSet::from([Some(CLAMPED)])));
    assert_eq!(sizes, BTreeMap::from(wanted), "the router clamps the SYNs of both connections");
    Ok(())
}
