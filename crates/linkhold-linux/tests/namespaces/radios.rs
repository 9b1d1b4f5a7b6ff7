//! A router with two radios: what happens on one is nothing to the other.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use linkhold_linux::agent::stations::MAX_STATIONS;
use linkhold_linux::netns::{NetNs, NetNsError, veth};
use linkhold_linux::testbed::host_load::HostMeter;
use linkhold_linux::topology::{HOST, RADIO, ThreeHosts, WIRED};
use linkhold_wire::parse_ip_tcp_headers;

use crate::agent_process::AgentProcess;
use crate::attempts::{By, Late, Timed, in_time};
use crate::behaviour::{MEGABYTE, rules};
use crate::bridge::hand_bridged_packets_to_the_firewall;
use crate::capture::{Capture, Captured};
use crate::datagrams::{Crossing, stream, wait_for_datagrams};
use crate::packets::{Data, data, gaps};
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, Unfinished, skipped};

/// The second radio of the base station.
const RADIO_1: &str = "radio1";
const BOTH: &str = "wired = [\"wired0\"]\nradio = [\"radio0\", \"radio1\"]";
/// The station behind the second radio.
const SH_1: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 91, 3, 2));
const RATE: u64 = 5 * MEGABYTE;
/// Length of each part of the test.
const PART: Duration = Duration::from_secs(1);

/// A path and a second radio with a station of its own.
fn two_radios() -> Result<(ThreeHosts, NetNs), NetNsError> {
    let path = ThreeHosts::build()?;
    let station = NetNs::create("sh1")?;
    veth(&station, HOST, &path.bs, RADIO_1)?;
    let gateway = IpAddr::V4(Ipv4Addr::new(10, 91, 3, 1));
    path.bs.add_address(RADIO_1, gateway, 24)?;
    station.add_address(HOST, SH_1, 24)?;
    station.add_default_route(gateway)?;
    path.set_offloads(false)?;
    station.set_offloads(HOST, false)?;
    path.bs.set_offloads(RADIO_1, false)?;
    Ok((path, station))
}

/// Payload bytes of what left by a radio in a part of the test, and how long its packets took across the
/// router (the 90th percentile).
fn goodput_and_delay(sent: &[Data], crossed: &[Data], from: SystemTime, to: SystemTime) -> (u64, Duration) {
    let began: HashMap<u32, SystemTime> = sent.iter().rev().map(|packet| (packet.seq, packet.at)).collect();
    let within: Vec<&Data> = crossed.iter().filter(|packet| (from..to).contains(&packet.at)).collect();
    let mut delays: Vec<Duration> =
        within.iter().filter_map(|packet| packet.at.duration_since(*began.get(&packet.seq)?).ok()).collect();
    delays.sort();
    let bytes = within.iter().map(|packet| u64::from(packet.len)).sum();
    (bytes, delays.get(delays.len() * 9 / 10).copied().unwrap_or(Duration::MAX))
}

/// A radar's silence and a slow channel of one radio stop or slow its own flow, and leave the other radio's
/// goodput and delay as they were.
pub fn two_radios_do_not_disturb_each_other() -> Outcome {
    in_time(|_| silent_and_slow_beside_another())
}

fn silent_and_slow_beside_another() -> Result<Timed, Unfinished> {
    let (path, station) = two_radios()?;
    let agent = AgentProcess::start_between(&path, BOTH, "[channel]\ncapacity = \"1Gbit/s\"\n");
    // At the radios: a station may take from its backlog in the silence what left before it.
    let captures = [Capture::start(&path.ch), Capture::at(&path.bs, RADIO), Capture::at(&path.bs, RADIO_1)];
    let flows = [(&path.sh, ThreeHosts::SH_V4, 7000), (&station, SH_1, 7001)]
        .map(|(host, addr, port)| Transfer::start(&path.ch, host, addr, port, Amount::Rate(RATE)));
    flows.iter().for_each(|flow| flow.wait_for(MEGABYTE));

    let (host, mut parts) = (HostMeter::start(), Vec::new());
    let mut part = || {
        let from = SystemTime::now();
        std::thread::sleep(PART);
        parts.push((from, SystemTime::now()));
    };
    part();
    agent.say(r#"{"radio":"radio1","event":{"freeze":{"cause":"primary-user"}}}"#);
    part();
    let during = agent.status();
    agent.say(r#"{"radio":"radio1","event":{"thaw":{"cause":"primary-user"}}}"#);
    agent.say(r#"{"radio":"radio1","event":{"switch":{"capacity_bps":4000000}}}"#);
    // What the silence held back is behind the rate's first moment.
    flows[1].wait_for(flows[1].received() + MEGABYTE / 10);
    part();
    let (slow, host) = (agent.status(), host.load());
    agent.say(r#"{"radio":"radio1","event":{"switch":{"capacity_bps":1000000000}}}"#);
    flows[1].wait_for(flows[1].received() + RATE);
    for flow in flows {
        flow.stop_and_finish();
    }
    let [at_sender, at_0, at_1] = captures.map(Capture::finish);
    let measure = |addr, captured: &[_]| {
        let (sent, crossed) = (data(&at_sender, addr), data(captured, addr));
        parts.iter().map(|(from, to)| goodput_and_delay(&sent, &crossed, *from, *to)).collect::<Vec<_>>()
    };
    let (first, second) = (measure(ThreeHosts::SH_V4, &at_0), measure(SH_1, &at_1));
    println!("calm, silence, slow: radio0 {first:?}, radio1 {second:?}");

    assert!(during.silent && during.radios[1].silent && !during.radios[0].silent, "{during}");
    assert_eq!((during.radios[0].silences, during.radios[1].silences), (0, 1), "{during}");
    assert_eq!(during.radios[0].packets.held, 0, "{during}");
    assert!(during.radios[1].packets.held > 0, "{during}");
    let capacity = |number: usize| slow.radios[number].channel.map(|channel| channel.capacity_bps);
    assert_eq!((capacity(0), capacity(1)), (Some(1_000_000_000), Some(4_000_000)), "{slow}");

    assert_eq!(second[1].0, 0, "data crossed radio1 in its silence: {second:?}");
    // 4 Mbit/s are half a megabyte a second.
    assert!(second[2].0 < RATE / 4, "radio1 is not slow: {second:?}");
    let (calm, others) = (first[0], [first[1], first[2]]);
    let [silent, slow] = others.map(|(bytes, delay): (u64, Duration)| {
        let later = delay.as_secs_f64() - calm.1.as_secs_f64();
        format!("{:.3} of its goodput, {:+.2} ms", bytes as f64 / calm.0 as f64, later * 1e3)
    });
    println!("radio0 beside a silent radio1: {silent}; beside a slow one: {slow}");
    let is_as_calm = |(bytes, delay): (u64, Duration)| {
        bytes as f64 > 0.9 * calm.0 as f64 && delay < calm.1 + Duration::from_millis(5)
    };
    let lost = |(bytes, delay): (u64, Duration)| {
        let share = (0.9 - bytes as f64 / calm.0 as f64).max(0.0);
        PART.mul_f64(share) + delay.saturating_sub(calm.1 + Duration::from_millis(5))
    };
    let late = (!others.into_iter().all(is_as_calm)).then(|| Late {
        what: format!("goodput or delay of radio0, calm and then beside radio1's: {first:?}"),
        by: By::Loss(others.into_iter().map(lost).sum()),
    });
    Ok(Timed { late, host })
}

/// Interfaces of a bridge that comes and goes: both have nothing to do with the first radio.
const BRIDGED: [&str; 2] = ["wired1", RADIO_1];
const TWO_WIRED: &str = "wired = [\"wired0\", \"wired1\"]\nradio = [\"radio0\", \"radio1\"]";
/// Longer than the agent takes to see that a bridge has changed.
const OLD_DATAGRAMS: &str =
    "[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nname = \"dsasync\"\ndatagram_max_age = \"10s\"\n";

/// Segments among these from `from` to `to`.
fn segments(captured: &[Captured], from: IpAddr, to: IpAddr) -> u64 {
    let headers = captured.iter().filter_map(|packet| parse_ip_tcp_headers(&packet.bytes).ok());
    headers.filter(|parsed| (parsed.src.addr, parsed.dst.addr) == (from, to)).count() as u64
}

/// The second radio comes into a bridge and leaves it, and the agent's rules with it. Of the first radio the
/// agent sees every packet meanwhile, and what it holds is overtaken by nothing.
pub fn a_bridge_of_one_radio() -> Outcome {
    let (path, station) = two_radios()?;
    veth(&station, "eth1", &path.bs, BRIDGED[0])?;
    path.bs.ip(&["link", "add", "br1", "type", "bridge"])?;
    path.bs.up("br1")?;
    if !hand_bridged_packets_to_the_firewall(&path, true) {
        return skipped("this kernel has no br_netfilter");
    }
    let agent = AgentProcess::start_between(&path, TWO_WIRED, OLD_DATAGRAMS);
    if agent.status().rules == "nftables" {
        return skipped("rules of nftables follow no bridge");
    }
    let bridge = |into: bool| -> Outcome {
        for name in BRIDGED {
            let to = if into { &["master", "br1"][..] } else { &["nomaster"] };
            path.bs.ip(&[&["link", "set", name], to].concat())?;
        }
        agent.wait_until(|_| rules(&path.bs).contains("--physdev-in") == into);
        Ok(())
    };

    // Rules change beside a flow that goes on.
    let captures = [Capture::at(&path.bs, WIRED), Capture::at(&path.bs, RADIO)];
    let flow = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 7020, Amount::Rate(RATE));
    flow.wait_for(MEGABYTE);
    for into in [true, false, true, false] {
        bridge(into)?;
    }
    flow.wait_for(flow.received() + MEGABYTE);
    flow.stop_and_finish();
    // The last ACK is on its way when both ends are done.
    std::thread::sleep(Duration::from_millis(100));
    let [at_wire, at_radio] = captures.map(Capture::finish);
    let came = segments(&at_wire, ThreeHosts::CH_V4, ThreeHosts::SH_V4)
        + segments(&at_radio, ThreeHosts::SH_V4, ThreeHosts::CH_V4);
    let status = agent.status();
    println!("{came} segments came, the agent saw {}", status.radios[0].packets.seen);
    assert_eq!(status.radios[0].packets.seen, came, "segments passed the agent by: {status}");
    let [came, crossed] = [&at_wire, &at_radio].map(|packets| gaps(&data(packets, ThreeHosts::SH_V4)));
    assert!(crossed <= came, "data overtook data {crossed} times, {came} times before the base station");

    // Rules change while packets of the first radio are held, and more of them come.
    const COUNT: u32 = 4_000;
    let counter = Arc::new(AtomicUsize::new(0));
    let every = Duration::from_millis(1);
    // The silence lasts until the agent has looked at its interfaces, every 2 s.
    let crossing = Crossing::start(&path);
    let finish = stream(&path, ThreeHosts::SH_V4, (COUNT, every), Duration::from_secs(6), &counter);
    wait_for_datagrams(&counter);
    agent.say(r#"{"radio":"radio0","event":{"freeze":{}}}"#);
    let frozen = SystemTime::now();
    bridge(true)?;
    let (during, thawing) = (agent.status(), SystemTime::now());
    agent.say(r#"{"radio":"radio0","event":{"thaw":{}}}"#);
    let got = finish();
    assert!(during.radios[0].packets.held > 100, "{during}");
    let (came, crossed) = crossing.finish(ThreeHosts::SH_V4, &got);
    println!(
        "{} of {COUNT} datagrams came, {} held, {} crossed, {} arrived",
        came.len(),
        during.packets.held,
        crossed.len(),
        got.len()
    );
    let in_silence = crossed.iter().filter(|packet| (frozen..thawing).contains(&packet.at)).count();
    assert_eq!(in_silence, 0, "datagrams crossed in the silence");
    let status = agent.status();
    assert_eq!((crossed.len(), status.packets.datagrams), (came.len(), came.len() as u64), "{status}");
    assert_eq!(status.packets.verdict_errors, 0, "{status}");
    Ok(())
}

/// Which radios a signal is told to, and that a signal that would do nothing is refused.
pub fn a_signal_names_its_radio() -> Outcome {
    let (path, station) = two_radios()?;
    let agent = AgentProcess::start_between(&path, BOTH, "[silence]\nmax = \"60s\"\n");
    let told = |message: &str| match agent.ask(message) {
        Ok(reply) => reply.radios.join(" "),
        Err(error) => error.to_string(),
    };
    assert_eq!(told(r#"{"event":{"freeze":{}}}"#), "radio0 radio1");
    let status = agent.status();
    assert!(status.radios.iter().all(|radio| radio.silent), "{status}");
    assert_eq!(told(r#"{"radio":"radio0","event":{"thaw":{}}}"#), "radio0");
    let status = agent.status();
    assert!(!status.radios[0].silent && status.radios[1].silent, "{status}");
    assert_eq!(told(r#"{"event":{"thaw":{}}}"#), "radio0 radio1");
    // A thaw that ends nothing is no error, since an end may be told twice, but it says so.
    agent.say(r#"{"radio":"radio1","event":{"freeze":{"cause":"channel-switch"}}}"#);
    let note = |message: &str| agent.ask(message).expect("it is understood").note;
    let other = note(r#"{"event":{"thaw":{}}}"#).expect("nothing was thawed");
    let wanted = "no silence of cause primary-user could be ended there; causes of the silences under way: channel-switch";
    assert_eq!(other, wanted);
    assert_eq!(note(r#"{"event":{"thaw":{"cause":"channel-switch"}}}"#), None);
    let none = note(r#"{"event":{"thaw":{"cause":"channel-switch"}}}"#).expect("it is over");
    assert!(none.ends_with("under way: none"), "{none}");
    let unknown = told(r#"{"radio":"wlan7","event":{"freeze":{}}}"#);
    assert!(unknown.contains("no radio \"wlan7\" here; this agent has radio0, radio1"), "{unknown}");

    let of_station = r#"{"event":{"freeze":{"scope":"10.91.3.2"}}}"#;
    let unseen = told(of_station);
    assert!(unseen.contains("no radio has seen 10.91.3.2 yet; name its radio"), "{unseen}");
    assert_eq!(agent.status().silences_now, 0);
    Transfer::start(&path.ch, &station, SH_1, 7010, Amount::Bytes(MEGABYTE)).finish();
    assert_eq!(told(of_station), "radio1");
    let status = agent.status();
    assert_eq!((status.radios[0].silences_now, status.radios[1].silences_now), (0, 1), "{status}");

    // One of the two has no room for another silence. What was done at the other one can be ended.
    for number in 0..MOST_SILENCES {
        let addr = Ipv4Addr::from(0x0a00_0000 + number);
        let freeze = format!(r#"{{"radio":"radio1","event":{{"freeze":{{"scope":"{addr}"}}}}}}"#);
        if agent.ask(&freeze).is_err() {
            break;
        }
    }
    let half = agent.ask(r#"{"event":{"freeze":{"cause":"sensing"}}}"#).expect("one of two");
    let note = half.note.unwrap_or_default();
    assert_eq!(half.radios, ["radio0"], "{note}");
    assert!(note.starts_with("radio1: ") && note.contains("silences are under way already"), "{note}");
    assert!(agent.status().radios[0].silent);
    agent.say(r#"{"radio":"radio0","event":{"thaw":{"cause":"sensing"}}}"#);
    assert!(!agent.status().radios[0].silent);
    Ok(())
}

/// More than the agent keeps of one radio.
const MOST_SILENCES: u32 = 2000;

/// A signal that the mechanism does not listen to is no error, since a radio may tell more than is used, but
/// the answer says so. It counts as no silence and uses up no station's number.
pub fn a_signal_that_nobody_listens_to() -> Outcome {
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(&path, SCHEDULED_TURNS);
    let done = "nothing was done: dsasync does not listen to ";
    for (message, what) in [
        (
            r#"{"event":{"freeze":{"scope":"10.0.0.7","cause":"grant","for_s":0.08}}}"#,
            "silences of cause grant of one station that last 80ms",
        ),
        (r#"{"event":{"freeze":{"cause":"grant","for_s":0.005}}}"#, "silences of cause grant that last 5ms"),
        (r#"{"event":{"snr":{"station":"10.0.0.8","db":3.0}}}"#, "signal-to-noise samples"),
        (r#"{"event":{"grant":{"station":"10.0.0.9","bytes":1500}}}"#, "uplink grants"),
    ] {
        let reply = agent.ask(message).expect("it is understood");
        assert_eq!((reply.radios, reply.note), (vec![], Some(format!("{done}{what}"))), "{message}");
    }
    let status = agent.status();
    assert_eq!((status.silences_begun, status.silences, status.stations), (0, 0, 0), "{status}");
    assert_eq!(status.events.get("socket"), Some(&4), "{status}");
    assert!(agent.log().contains("the schedule does nothing: dsasync does not listen"), "{}", agent.log());

    // Nor does the end of what never began use up a number.
    let ended = agent.ask(r#"{"event":{"thaw":{"scope":"10.0.0.77"}}}"#).expect("understood");
    let none =
        "no silence of cause primary-user could be ended there; causes of the silences under way: none";
    assert_eq!((ended.radios.len(), ended.note.as_deref()), (1, Some(none)));
    assert_eq!(agent.status().stations, 0);

    let heard = agent.ask(r#"{"event":{"freeze":{"scope":"10.0.0.7","for_s":0.08}}}"#).expect("understood");
    assert_eq!((heard.radios.len(), heard.note), (1, None));
    let status = agent.status();
    assert_eq!((status.silences_begun, status.stations), (1, 1), "{status}");
    Ok(())
}

/// Turns of the medium access that are told by the clock.
const SCHEDULED_TURNS: &str =
    "[[schedule]]\nname = \"turns\"\ncause = \"grant\"\nperiod = \"20ms\"\nduration = \"5ms\"\n";

/// Stations beyond those that are told apart take no signal of their own: such a signal is refused and
/// counted, and not answered as if it had done something.
pub fn a_signal_that_would_do_nothing_is_refused() -> Outcome {
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(&path, "");
    for number in 0..MAX_STATIONS {
        let addr = Ipv4Addr::from(0x0a00_0000 + number);
        let sensing = format!(r#"{{"scope":"{addr}","period_s":0.0,"duration_s":0.0}}"#);
        agent.say(&format!(r#"{{"event":{{"sensing":{sensing}}}}}"#));
    }
    let known = r#"{"event":{"freeze":{"scope":"10.0.0.7","for_s":0.1}}}"#;
    assert!(agent.ask(known).is_ok());
    let refusal = agent.ask(r#"{"event":{"freeze":{"scope":"10.99.0.1"}}}"#);
    let refusal = refusal.expect_err("no number is left").to_string();
    assert!(refusal.contains("nothing was done: 4096 stations were active in the last 60s"), "{refusal}");
    let status = agent.status();
    assert_eq!((status.silences, status.untracked_events, status.stations), (1, 1, 4096), "{status}");
    Ok(())
}
