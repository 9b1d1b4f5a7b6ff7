//! What the agent does to real traffic.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linkhold_core::packet::TcpFlags;
use linkhold_linux::netns::NetNs;
use linkhold_linux::testbed::host_load::HostMeter;
use linkhold_linux::topology::{HOST, RADIO, ThreeHosts, WIRED};
use linkhold_wire::{parse_ip_tcp_headers, verify_checksums};

use crate::agent_process::AgentProcess;
use crate::attempts::{By, Late, Timed, in_time};
use crate::capture::Capture;
use crate::packets::{data, first_from, gaps, story};
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, Unfinished, skipped};

pub const MEGABYTE: u64 = 1_000_000;
/// A steady flow, bytes per second. It lasts as long as a test needs, and a capture keeps up with it.
pub const STEADY: Amount = Amount::Rate(20 * MEGABYTE);

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

/// Otherwise the hosts' own backlogs would change the order of packets.
pub fn hosts_receive_on_one_processor() -> Outcome {
    let path = ThreeHosts::build()?;
    let (ch, bs, sh) = (&path.ch, &path.bs, &path.sh);
    for (host, interface) in [(ch, HOST), (bs, WIRED), (bs, RADIO), (sh, HOST)] {
        let script = format!("cat /sys/class/net/{interface}/queues/rx-*/rps_cpus");
        let masks = host.run("sh", &["-c", &script])?;
        let steered = |mask: &str| u64::from_str_radix(&mask.replace(',', ""), 16) == Ok(1);
        assert!(masks.lines().count() > 0 && masks.lines().all(steered), "{interface}: {masks}");
    }
    Ok(())
}

/// A shared table is large, and each look at a host's connections would go through all of it.
pub fn hosts_have_tables_of_their_own() -> Outcome {
    if !std::path::Path::new("/proc/sys/net/ipv4/tcp_child_ehash_entries").exists() {
        return skipped("Linux before 6.1 has one table of connections");
    }
    let path = ThreeHosts::build()?;
    for host in [&path.ch, &path.bs, &path.sh] {
        // Negative: that of the initial namespace (ip-sysctl).
        let buckets: i64 = host.run("cat", &["/proc/sys/net/ipv4/tcp_ehash_entries"])?.trim().parse()?;
        assert!((1..=4096).contains(&buckets), "{}: {buckets} buckets", host.name());
    }
    Ok(())
}

pub fn transfer_arrives_whole() -> Outcome {
    let path = ThreeHosts::build()?;
    for mechanism in ["none", "dsasync"] {
        let settings = format!("[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nname = \"{mechanism}\"\n");
        let agent = AgentProcess::start(&path, &settings);
        let ways: [(&NetNs, &NetNs, IpAddr); 4] = [
            (&path.ch, &path.sh, ThreeHosts::SH_V4),
            (&path.ch, &path.sh, ThreeHosts::SH_V6),
            (&path.sh, &path.ch, ThreeHosts::CH_V4),
            (&path.sh, &path.ch, ThreeHosts::CH_V6),
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
        // The mechanism makes windows smaller in passing, and no receiver finds a wrong checksum.
        assert_eq!(status.packets.rewritten > 0, mechanism == "dsasync", "{status}");
        assert_eq!(status.driver.rewrites_skipped, 0, "{status}");
        for host in [&path.ch, &path.sh] {
            assert_eq!(tcp_counter(host, "snmp", "Tcp: ", "InCsumErrors"), 0, "{mechanism}: {}", host.name());
        }
        assert!(status.stations >= 2, "{status}");
    }
    Ok(())
}

/// On a radio of 20 Mbit/s, an aggregate of 64 KiB takes 26 ms, but no more than 2 ms are to stand in the
/// router's queue. Without copies, which need packets of the wire's size on any radio.
pub fn aggregates_are_split() -> Outcome {
    let path = ThreeHosts::build()?;
    // Bytes of data for each packet that the agent sees, ACKs and all.
    let each = |aggregates: &str| {
        let settings = format!(
            "[channel]\ncapacity = \"20Mbit/s\"\nefficiency = 1.0\n[datapath]\naggregates = \"{aggregates}\"\n\
             [mechanism]\nname = \"dsasync\"\nrecover = false\n"
        );
        let agent = AgentProcess::start(&path, &settings);
        Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6100, Amount::Bytes(4 * MEGABYTE)).finish();
        let status = agent.status();
        let each = 4 * MEGABYTE / status.packets.seen;
        println!("{aggregates}: {each} bytes of data a packet");
        each
    };
    let (auto, split) = (each("auto"), each("split"));
    for (aggregates, bytes) in [("auto", auto), ("split", split)] {
        assert!((400..1461).contains(&bytes), "{aggregates}: {bytes} bytes of data a packet");
    }
    // How much the kernel gathers into one packet depends on when its processors get to it, so the most of
    // three transfers counts.
    let keep = (0..3).map(|_| each("keep")).max().unwrap_or_default();
    assert!(5 * keep > 6 * split, "keep: {keep} bytes of data a packet, and with split {split}");
    Ok(())
}

/// A counter of a host's kernel, in a file of /proc/net with a line of names and a line of values.
pub fn tcp_counter(host: &NetNs, file: &str, prefix: &str, name: &str) -> u64 {
    let text = host.run("cat", &[&format!("/proc/net/{file}")]).expect("counters");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut columns = names.split(' ').zip(values.split(' '));
    let (_, value) = columns.find(|(column, _)| *column == name).expect("the counter");
    value.parse().expect("a number")
}

/// Closes windows as soon as the radio is silent.
pub const CLOSE_AT_ONCE: &str = "[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nname = \"dsasync\"\nmode = \"freeze\"\nclose_at = \"silence-start\"\n";

/// Downlink data on a connection that the station opened, as behind any home router: the agent's own
/// acknowledgments, too, must come from the router's address, or the correspondent host would not take them
/// for the flow's.
pub fn transfer_through_nat() -> Outcome {
    let path = ThreeHosts::build()?;
    path.masquerade(WIRED)?;
    path.sh.set_checksum_offload(HOST, false)?;
    let agent = AgentProcess::start(&path, CLOSE_AT_ONCE);
    let capture = Capture::start(&path.ch);
    let router: [IpAddr; 2] = ["10.91.1.1".parse()?, "fd91:1::1".parse()?];
    for (number, addr) in [ThreeHosts::CH_V4, ThreeHosts::CH_V6].into_iter().enumerate() {
        silence_in_a_flow(&agent, Transfer::fetch(&path.ch, &path.sh, addr, 6100 + number as u16, STEADY));
    }
    let status = agent.status();
    let mut zero_windows = [0; 2];
    for packet in capture.finish() {
        let Ok(parsed) = parse_ip_tcp_headers(&packet.bytes) else { continue };
        if [ThreeHosts::CH_V4, ThreeHosts::CH_V6].contains(&parsed.src.addr) {
            continue;
        }
        let family = router.iter().position(|addr| *addr == parsed.src.addr);
        let family = family.unwrap_or_else(|| panic!("an address from behind the NAT: {parsed:?}"));
        assert_eq!(verify_checksums(&packet.bytes), Ok(true), "{parsed:?}");
        let is_ack = parsed.tcp.flags.contains(TcpFlags::ACK) && !parsed.tcp.flags.contains(TcpFlags::RST);
        zero_windows[family] += u32::from(is_ack && parsed.tcp.window == 0);
    }
    assert!(zero_windows.iter().all(|count| *count > 0), "{zero_windows:?}; {status}");
    assert_eq!((status.silences, status.windows.closed_now), (2, 0), "{status}");
    assert_eq!(status.windows.inject_errors, 0, "{status}");
    Ok(())
}

/// A silence of 0.2 s in the middle of a steady flow, which goes on after it.
pub fn silence_in_a_flow(agent: &AgentProcess, flow: Transfer) {
    flow.wait_for(MEGABYTE);
    agent.signal(r#"{"freeze":{"for_s":0.2}}"#);
    agent.wait_until(|status| !status.silent);
    flow.wait_for(flow.received() + MEGABYTE);
    flow.stop_and_finish();
}

/// How late the start or the end of a silence may show at the radio.
const LATE: Duration = Duration::from_millis(50);

pub fn silence_holds_and_releases_in_order() -> Outcome {
    in_time(|_| hold_and_release())
}

fn hold_and_release() -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(
        &path,
        "[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nname = \"dsasync\"\npreset = \"hold\"\n",
    );
    let captures = [Capture::at(&path.bs, WIRED), Capture::at(&path.bs, RADIO)];
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6200, STEADY);
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    // The agent's answer comes after its verdicts, and what it let pass leaves by the radio before the call
    // that gives the verdict is over.
    let frozen = SystemTime::now();
    std::thread::sleep(Duration::from_millis(300));
    let during = agent.status();
    let (host, thawing) = (HostMeter::start(), SystemTime::now());
    agent.signal(r#"{"thaw":{}}"#);
    let thawed = SystemTime::now();
    transfer.wait_for(transfer.received() + MEGABYTE);
    transfer.stop_and_finish();
    let host = host.load();
    let [came, captured] = captures.map(Capture::finish);
    let after = agent.status();

    assert!(during.silent && during.packets.held > 0, "{during}");
    assert!(!after.silent && after.packets.held == 0, "{after}");
    assert!(after.packets.released >= during.packets.held, "{after}");
    let packets = data(&captured, ThreeHosts::SH_V4);
    let in_silence = packets.iter().filter(|packet| (frozen..thawing).contains(&packet.at)).count();
    assert_eq!(in_silence, 0, "data crossed in the silence\n{}", story(&captured, frozen, 100));
    let delay = first_from(&packets, thawing).at.duration_since(thawed).unwrap_or_default();
    let before = gaps(&data(&came, ThreeHosts::SH_V4));
    assert!(gaps(&packets) <= before, "packets were lost or overtook others");
    let late = Late::if_beyond(delay, LATE, || format!("first data {delay:?} after the silence"));
    Ok(Timed { late, host })
}

pub fn closed_windows_have_right_checksums() -> Outcome {
    let path = ThreeHosts::build()?;
    // Without offload every packet on the wired side carries its whole checksum, so a wrong one is ours.
    path.sh.set_checksum_offload(HOST, false)?;
    let agent = AgentProcess::start(&path, CLOSE_AT_ONCE);
    let capture = Capture::start(&path.ch);
    for (number, addr) in [ThreeHosts::SH_V4, ThreeHosts::SH_V6].into_iter().enumerate() {
        silence_in_a_flow(&agent, Transfer::start(&path.ch, &path.sh, addr, 6300 + number as u16, STEADY));
    }
    let status = agent.status();
    let captured = capture.finish();
    let (mut acks, mut zero_windows) = (0, 0);
    for packet in &captured {
        let Ok(parsed) = parse_ip_tcp_headers(&packet.bytes) else { continue };
        let from_station = [ThreeHosts::SH_V4, ThreeHosts::SH_V6].contains(&parsed.src.addr);
        if !from_station || !parsed.tcp.flags.contains(TcpFlags::ACK) {
            continue;
        }
        acks += 1;
        zero_windows += u32::from(parsed.tcp.window == 0);
        assert_eq!(verify_checksums(&packet.bytes), Ok(true), "{parsed:?}");
    }
    // Aggregates of 64 KiB are acknowledged about one by one: 4 MB are at least 60.
    assert!(acks > 50 && zero_windows >= 2, "{acks} ACKs, {zero_windows} with window 0; {status}");
    assert!(status.windows.closed >= 2 && status.windows.acks_injected >= 2, "{status}");
    assert_eq!(status.windows.closed_now, 0, "{status}");
    Ok(())
}

pub fn scheduled_silence() -> Outcome {
    in_time(|_| hold_by_the_clock())
}

fn hold_by_the_clock() -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(
        &path,
        "[channel]\ncapacity = \"1Gbit/s\"\n[[schedule]]\nname = \"sensing\"\nperiod = \"400ms\"\nduration = \"200ms\"\n",
    );
    // The agent may miss the start of the first silence, and such a silence does not count.
    agent.wait_until(|status| status.silences >= 1);
    let (host, capture) = (HostMeter::start(), Capture::at(&path.bs, RADIO));
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6400, STEADY);
    let status = agent.wait_until(|status| status.silences >= 5);
    transfer.stop_and_finish();
    let host = host.load();
    let most = status.uptime_s / 0.4 + 1.0;
    assert!(status.silences as f64 <= most, "{status}");
    assert!(status.packets.holds > 0, "{status}");
    assert_eq!(status.silences_overdue, 0, "{status}");
    // The schedule is one event when it is announced and one at every start; the agent's timer ends the
    // silences.
    assert_eq!(status.events.get("sensing"), Some(&(status.silences + 1)), "{status}");
    assert!(status.events.get("timer").is_some_and(|ends| *ends + 1 >= status.silences), "{status}");
    // On the wall clock: silent in the first half of every period.
    let into_period =
        |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() % 400_000;
    let packets = data(&capture.finish(), ThreeHosts::SH_V4);
    let silent = LATE.as_micros()..199_000;
    let crossed: Vec<u128> =
        packets.iter().map(|packet| into_period(packet.at)).filter(|into| silent.contains(into)).collect();
    assert!(packets.len() > 1000, "{} packets crossed", packets.len());
    let late = crossed.iter().max().map(|&last| Late {
        what: format!("{} of {} in scheduled silences", crossed.len(), packets.len()),
        by: By::Delay(Duration::from_micros(u64::try_from(last).unwrap_or(u64::MAX)).saturating_sub(LATE)),
    });
    Ok(Timed { late, host })
}

/// A silence is announced before it begins: traffic flows until the silence begins.
pub fn announced_silence() -> Outcome {
    in_time(|_| hold_when_announced())
}

fn hold_when_announced() -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(&path, "[channel]\ncapacity = \"1Gbit/s\"\n");
    let capture = Capture::at(&path.bs, RADIO);
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6450, STEADY);
    transfer.wait_for(MEGABYTE);
    let ahead = Duration::from_millis(300);
    let (host, telling) = (HostMeter::start(), SystemTime::now());
    agent.say(r#"{"source":"driver","effective_in_s":0.3,"event":{"freeze":{"cause":"grant","for_s":0.3}}}"#);
    let told = SystemTime::now();
    let status = agent.status();
    let asked = SystemTime::now();
    assert!(!status.silent || asked >= telling + ahead, "{status}");
    let status = agent.wait_until(|status| status.silences == 1 && !status.silent);
    let host = host.load();
    transfer.wait_for(transfer.received() + MEGABYTE);
    transfer.stop_and_finish();
    assert_eq!(status.events.get("driver"), Some(&1), "{status}");
    let packets = data(&capture.finish(), ThreeHosts::SH_V4);
    let count = |from: SystemTime, to: SystemTime| {
        packets.iter().filter(|packet| (from..to).contains(&packet.at)).count()
    };
    let (before, within) = (count(told, telling + ahead), count(told + ahead + LATE, telling + 2 * ahead));
    let last = packets.iter().map(|packet| packet.at).filter(|at| *at < telling + 2 * ahead).max();
    let into = last.and_then(|last| last.duration_since(told + ahead + LATE).ok()).unwrap_or_default();
    let late = (before <= 100 || within > 0).then(|| Late {
        what: format!("{before} packets crossed before the silence, {within} in it"),
        by: By::Delay(if within > 0 { into } else { LATE }),
    });
    Ok(Timed { late, host })
}
