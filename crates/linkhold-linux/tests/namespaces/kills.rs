//! SIGKILL at random times under load: no transfer stops, no byte is wrong, nothing stays behind.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use linkhold_linux::netns::NetNs;
use linkhold_linux::testbed::host_load::HostMeter;
use linkhold_linux::topology::ThreeHosts;
use nix::sys::signal::Signal;

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::behaviour::{mentions_us, rules, tcp_counter};
use crate::standstill;
use crate::transfer::{Amount, Transfer};

/// Each flow's load, bytes per second. Eight such flows leave two cores the time to compute and check every
/// byte.
const RATE: u64 = 4_000_000;
const SETTINGS: &str = "[channel]\ncapacity = \"1Gbit/s\"\n[silence]\nmax = \"2s\"\n";
/// Every flow must go on within this time after a kill, unless the machine stood still for what it took more.
/// It allows for late scheduling on a loaded machine, but not for an RTO that backed off.
const IDLE_LIMIT: Duration = Duration::from_millis(1000);
/// After this time without new data, the test looks at the flow while it stands still.
const STANDSTILL: Duration = Duration::from_secs(5);

pub fn a_few() -> Outcome {
    survive(3, 1)
}

pub fn fifty() -> Outcome {
    survive(50, 2)
}

/// Random numbers that are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    fn pause(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_micros(self.below(most_ms * 1000 + 1)));
    }
}

/// How long after `since` each flow has got something new; the longest.
fn idle(path: &ThreeHosts, transfers: &mut Vec<Transfer>, received: &[u64], since: Instant) -> Duration {
    let standing = |(transfer, before): (&Transfer, &u64)| !transfer.goes_beyond(*before, STANDSTILL);
    if let Some(number) = transfers.iter().zip(received).position(standing) {
        let transfer = transfers.swap_remove(number);
        let state = standstill::of(path);
        let received = transfer.received();
        let end = transfer.end().unwrap_or_else(|| "both ends wait".to_owned());
        panic!("transfer {number} stands still at {received} bytes; {end}\n{state}");
    }
    since.elapsed()
}

fn survive(kills: u32, seed: u64) -> Outcome {
    let path = ThreeHosts::build()?;
    let mut random = Random(seed);
    let ways: [(&NetNs, &NetNs, IpAddr); 4] = [
        (&path.ch, &path.sh, ThreeHosts::SH_V4),
        (&path.ch, &path.sh, ThreeHosts::SH_V6),
        (&path.sh, &path.ch, ThreeHosts::CH_V4),
        (&path.sh, &path.ch, ThreeHosts::CH_V6),
    ];
    let mut transfers: Vec<Transfer> = (0..8u16)
        .map(|number| {
            let (from, to, addr) = ways[usize::from(number) % ways.len()];
            Transfer::start(from, to, addr, 6900 + number, Amount::Rate(RATE))
        })
        .collect();
    let (mut in_silence, mut while_starting) = (0, 0);
    let (mut idles, mut stood_still) = (Vec::new(), Vec::new());
    for number in 1..=kills {
        let mut agent = AgentProcess::spawn(&path, SETTINGS, &[]);
        let when = if number % 4 == 2 {
            // While it opens its queue and puts its rules in.
            while_starting += 1;
            random.pause(80);
            "while starting"
        } else {
            agent.wait_until_it_listens();
            random.pause(150);
            if random.below(10) < 7 {
                agent.signal(r#"{"freeze":{"for_s":0.4}}"#);
            }
            random.pause(500);
            let silent = agent.status().silent;
            in_silence += u32::from(silent);
            if silent { "in a silence" } else { "on air" }
        };
        let timeouts_before = timeouts(&path);
        let received: Vec<u64> = transfers.iter().map(Transfer::received).collect();
        agent.send_signal(Signal::SIGKILL);
        let (host, killed) = (HostMeter::start(), Instant::now());
        assert!(!agent.wait());
        let idle = idle(&path, &mut transfers, &received, killed);
        let host = host.load();
        // Tells a kill that cost packets from a host that scheduled late.
        let timeouts = timeouts(&path) - timeouts_before;
        println!(
            "kill {number:2}: {when}, every flow went on after {idle:?}, {timeouts} retransmission timeouts; {host}"
        );
        idles.push(idle);
        if idle >= IDLE_LIMIT && !host.explains_delay(idle - IDLE_LIMIT) {
            stood_still.push(format!("{idle:?} after kill {number} ({when}); {host}"));
        }
        random.pause(100);
    }
    idles.sort();
    println!(
        "{kills} kills, {in_silence} in a silence, {while_starting} while starting; until every flow went on: median {:?}, \
         longest {:?}",
        idles[idles.len() / 2],
        idles[idles.len() - 1]
    );
    for transfer in &transfers {
        transfer.stop();
    }
    for transfer in transfers {
        // Every byte was checked as it came, and all that were sent have come.
        assert!(transfer.finish().bytes > 0);
    }
    // The next agent's start cleans up, and its end leaves nothing behind.
    let mut last = AgentProcess::start(&path, SETTINGS);
    last.send_signal(Signal::SIGTERM);
    assert!(last.wait(), "{}", last.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !processes(&path.bs).is_empty() {
        assert!(Instant::now() < deadline, "left in the base station: {}", processes(&path.bs));
        std::thread::sleep(Duration::from_millis(10));
    }
    let names = [&path.ch, &path.bs, &path.sh].map(|netns| netns.name().to_owned());
    drop(path);
    let left = linkhold_linux::command::run("ip", &["netns", "list"])?;
    assert!(names.iter().all(|name| !left.contains(name.as_str())), "{left}");
    assert!(stood_still.is_empty(), "a flow stood still for longer than {IDLE_LIMIT:?}: {stood_still:?}");
    Ok(())
}

/// Retransmission timeouts of both hosts so far (TcpExt TCPTimeouts).
fn timeouts(path: &ThreeHosts) -> u64 {
    [&path.ch, &path.sh].into_iter().map(|host| tcp_counter(host, "netstat", "TcpExt: ", "TCPTimeouts")).sum()
}

/// Ids of the processes in a namespace.
fn processes(netns: &NetNs) -> String {
    linkhold_linux::command::run("ip", &["netns", "pids", netns.name()]).unwrap_or_default()
}
