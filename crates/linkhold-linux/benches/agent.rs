//! What the agent costs, measured between namespaces with and without it in turns:
//! `cargo bench -p linkhold-linux --bench agent`.
//!
//! - At 24 Mb/s, on packets of one MTU: goodput of a bulk flow through a token bucket with a queue of 100
//!   packets, and the round trip of one-byte messages beside a flow of 20 Mb/s, which leaves that queue
//!   empty; and beside that flow the processor time of the agent, with and without copies (`recover`).
//! - At full rate, with segmentation offload: what the kernel forwards between two namespaces.
//! - What a flow of one station loses while packets of another, silent station are held.
//!
//! Every line gives the median and the range over the rounds. The environment may set `ROUNDS` and the
//! `SECONDS` that a measurement takes; `ONLY=24`, `full` or `station` chooses one part. Without cargo's
//! `--bench` argument (`cargo test --bench agent`) every part runs for one short round, which shows only that
//! it works. Without root or the programs it needs, it says why and does nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use linkhold_core::packet::{Ecn, Endpoint, TcpFlags, TcpSegment};
use linkhold_core::units::Seq;
use linkhold_linux::command::is_installed;
use linkhold_linux::topology::{RADIO, ThreeHosts};
use linkhold_wire::{PacketSpec, Payload, emit};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

#[allow(dead_code)] // The tests use more of it.
#[path = "../tests/namespaces/agent_process.rs"]
mod agent_process;
#[allow(dead_code)]
#[path = "../tests/namespaces/standstill.rs"]
mod standstill;
#[allow(dead_code)]
#[path = "../tests/namespaces/transfer.rs"]
mod transfer;

use agent_process::AgentProcess;
use transfer::{Amount, Transfer};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), Failure>;

const AT_24: &str = "[channel]\ncapacity = \"24Mbit/s\"\n";
const FAST: &str = "[channel]\ncapacity = \"100Gbit/s\"\n";
const NO_COPIES: &str = "[mechanism]\nname = \"dsasync\"\nrecover = false\n";
/// Pairs of round trips for each round of the other measurements. Each takes a third of the time.
const PAIRS_A_ROUND: usize = 4;
/// Beside the messages, bytes per second: 20 Mb/s.
const BESIDE: u32 = 2_500_000;

fn main() -> Outcome {
    if let Some(config) = std::env::var_os(agent_process::ROLE) {
        let _ = agent_process::be_the_agent(std::path::Path::new(&config));
        return Ok(());
    }
    let has = |word: &str| std::env::args().any(|arg| arg == word);
    if has("--list") {
        return Ok(());
    }
    if let Some(reason) = missing_requirement() {
        println!("agent: skipped: {reason}");
        return Ok(());
    }
    // cargo passes it to what `cargo bench` runs, and not to what `cargo test` runs.
    let extent = if has("--bench") { whole() } else { SHORT };
    let only = std::env::var("ONLY").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only == name;
    if wanted("24") {
        at_24_mbps(&extent)?;
    }
    if wanted("full") {
        at_full_rate(&extent)?;
    }
    if wanted("station") {
        station_silence(&extent)?;
    }
    Ok(())
}

/// How long and how often is measured.
struct Extent {
    rounds: usize,
    /// Of one measurement.
    time: Duration,
    /// How many packets of the silent station are held.
    held: &'static [u32],
}

/// What `cargo test` tries.
const SHORT: Extent = Extent { rounds: 1, time: Duration::from_millis(200), held: &[0, 1_000] };

/// What `cargo bench` measures.
fn whole() -> Extent {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    Extent {
        rounds: number("ROUNDS", 5).max(1) as usize,
        time: Duration::from_secs(number("SECONDS", 3)),
        held: &[0, 1_000, 10_000, 50_000],
    }
}

fn missing_requirement() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("it needs root".to_owned());
    }
    let is_missing = |program: &&str| !is_installed(program);
    if let Some(program) = ["ip", "tc"].into_iter().find(is_missing) {
        return Some(format!("`{program}` is not installed"));
    }
    ["nft", "iptables"].iter().all(is_missing).then(|| "neither `nft` nor `iptables` is installed".to_owned())
}

/// Median, least and greatest.
fn summary(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1])
}

fn line(name: &str, unit: &str, values: &[f64]) {
    let (median, low, high) = summary(values);
    println!("{name:52} {median:9.3} {unit:5} ({low:.3} to {high:.3})");
}

/// Runs `measure` with an agent of these settings, which ends in order.
fn with_agent<R>(path: &ThreeHosts, settings: &str, measure: impl FnOnce() -> R) -> R {
    let mut agent = AgentProcess::start(path, settings);
    let result = measure();
    end(&mut agent);
    result
}

/// Ends an agent in order that has seen packets.
fn end(agent: &mut AgentProcess) {
    let status = agent.status();
    assert!(status.packets.seen > 0, "the agent was passed by");
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
}

/// Processor time that all threads of an agent have had, s.
fn processor_time(agent: &AgentProcess) -> Result<f64, Failure> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", agent.id()))? {
        let told = std::fs::read_to_string(task?.path().join("schedstat"))?;
        total += told.split_whitespace().next().ok_or("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(total as f64 * 1e-9)
}

/// With an agent of these settings: goodput Mb/s, round trip beside 20 Mb/s ms, and the share of one
/// processor that the agent needed beside 20 Mb/s, %.
fn managed_at_24(
    path: &ThreeHosts,
    settings: &str,
    time: Duration,
    goodput: impl Fn() -> f64,
) -> Result<[f64; 3], Failure> {
    let mut agent = AgentProcess::start(path, settings);
    let carried = goodput();
    let (began, before) = (Instant::now(), processor_time(&agent)?);
    let trip = round_trip(path, time)?;
    let share = (processor_time(&agent)? - before) / began.elapsed().as_secs_f64() * 100.0;
    end(&mut agent);
    Ok([carried, trip, share])
}

fn at_24_mbps(&Extent { rounds, time, .. }: &Extent) -> Outcome {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    path.bs.run(
        "tc",
        &["qdisc", "add", "dev", RADIO, "root", "tbf", "rate", "24mbit", "burst", "3kb", "limit", "151400"],
    )?;
    let goodput = || {
        let finished =
            Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 5001, Amount::For(time)).finish();
        finished.bytes as f64 * 8.0 / finished.took.as_secs_f64() / 1e6
    };
    let (mut plain, mut managed, mut cost) = (Vec::new(), Vec::new(), Vec::new());
    let (mut plain_trip, mut managed_trip, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let (mut share, mut bare_share, mut bare_goodput) = (Vec::new(), Vec::new(), Vec::new());
    let no_copies = format!("{AT_24}{NO_COPIES}");
    for _ in 0..rounds {
        let (a, trip_a) = (goodput(), round_trip(&path, time)?);
        let [b, trip_b, share_b] = managed_at_24(&path, AT_24, time, goodput)?;
        let [c, _, share_c] = managed_at_24(&path, &no_copies, time, goodput)?;
        plain.push(a);
        managed.push(b);
        cost.push((1.0 - b / a) * 100.0);
        plain_trip.push(trip_a);
        managed_trip.push(trip_b);
        added.push((trip_b - trip_a) / 2.0);
        share.push(share_b);
        bare_share.push(share_c);
        bare_goodput.push(c);
    }
    println!("\nAt 24 Mb/s, {rounds} rounds of {time:?} each way, in turns:");
    line("goodput, plain router", "Mb/s", &plain);
    line("goodput, agent", "Mb/s", &managed);
    line("cost in goodput, of each pair", "%", &cost);
    line("round trip beside 20 Mb/s, plain router", "ms", &plain_trip);
    line("round trip beside 20 Mb/s, agent", "ms", &managed_trip);
    line("added delay one way, of each pair", "ms", &added);
    line("goodput, agent without copies", "Mb/s", &bare_goodput);
    line("processor of the agent beside 20 Mb/s", "%", &share);
    line("processor of the agent without copies", "%", &bare_share);
    added_delay(&path, rounds, time / 3)
}

/// Pairs of round trips without and with the agent, in turns: enough of them for an interval of their mean.
fn added_delay(path: &ThreeHosts, rounds: usize, time: Duration) -> Outcome {
    let with_it = || {
        let mut agent = AgentProcess::start(path, AT_24);
        let trip = round_trip(path, time);
        end(&mut agent);
        trip
    };
    let mut added = Vec::new();
    for pair in 0..rounds * PAIRS_A_ROUND {
        // Each is first in turn, so that what a pair's first half leaves behind counts for neither.
        let (plain, managed) = if pair % 2 == 0 {
            let plain = round_trip(path, time)?;
            (plain, with_it()?)
        } else {
            let managed = with_it()?;
            (round_trip(path, time)?, managed)
        };
        added.push(format!("{:.4}", (managed - plain) / 2.0));
    }
    println!("added delay one way in pairs of {time:?}, ms: {}", added.join(" "));
    Ok(())
}

/// Median round trip of one-byte messages beside a paced flow, ms.
fn round_trip(path: &ThreeHosts, time: Duration) -> Result<f64, Failure> {
    let beside = paced(path, time)?;
    let address = SocketAddr::new(ThreeHosts::SH_V4, 5010);
    let listener = path.sh.enter(|| TcpListener::bind(address))??;
    let echo = path.sh.spawn("echo", move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0];
        while stream.read(&mut byte)? == 1 {
            stream.write_all(&byte)?;
        }
        Ok(())
    })?;
    let mut stream = path.ch.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(5)))??;
    stream.set_nodelay(true)?;
    let mut trips = Vec::new();
    let began = Instant::now();
    while began.elapsed() < time {
        let sent = Instant::now();
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
        trips.push(sent.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    echo.join().map_err(|_| "the echo's thread panicked")???;
    beside.join().map_err(|_| "the sender's thread panicked")??;
    Ok(summary(&trips).0)
}

type Sender = std::thread::JoinHandle<Outcome>;

/// A flow downlink that TCP itself paces (SO_MAX_PACING_RATE).
fn paced(path: &ThreeHosts, time: Duration) -> Result<Sender, Failure> {
    let address = SocketAddr::new(ThreeHosts::SH_V4, 5011);
    let listener = path.sh.enter(|| TcpListener::bind(address))??;
    let sink = path.sh.spawn("sink", move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut chunk = vec![0; 65_536];
        while stream.read(&mut chunk)? > 0 {}
        Ok(())
    })?;
    let mut stream = path.ch.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(5)))??;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let rate = BESIDE;
    // SAFETY: the pointer leads to a u32 that lives through the call, and the length is its size.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of_val(&rate) as libc::socklen_t,
        )
    };
    if answer != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(std::thread::spawn(move || {
        let began = Instant::now();
        while began.elapsed() < time {
            stream.write_all(&[0; 16_384])?;
        }
        drop(stream);
        sink.join().map_err(|_| "the sink's thread panicked")???;
        Ok(())
    }))
}

fn at_full_rate(&Extent { rounds, time, .. }: &Extent) -> Outcome {
    let path = ThreeHosts::build()?;
    let rate = || {
        let finished =
            Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 5002, Amount::For(time)).finish();
        finished.bytes as f64 * 8.0 / finished.took.as_secs_f64() / 1e9
    };
    let (mut plain, mut passing, mut managed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut passing_share, mut managed_share) = (Vec::new(), Vec::new());
    let (mut copying, mut copying_share) = (Vec::new(), Vec::new());
    let (mut bare, mut bare_share) = (Vec::new(), Vec::new());
    let no_copies = format!("{FAST}{NO_COPIES}");
    for _ in 0..rounds {
        let before = rate();
        let b = with_agent(&path, "[mechanism]\nname = \"none\"\n", rate);
        let c = with_agent(&path, FAST, rate);
        let d = with_agent(&path, "[mechanism]\nname = \"local-recovery\"\n", rate);
        let e = with_agent(&path, &no_copies, rate);
        let a = f64::midpoint(before, rate());
        plain.push(a);
        passing.push(b);
        managed.push(c);
        passing_share.push(b / a);
        managed_share.push(c / a);
        copying.push(d);
        copying_share.push(d / a);
        bare.push(e);
        bare_share.push(e / a);
    }
    println!("\nAt full rate, one flow with segmentation offload, {rounds} rounds of {time:?}:");
    line("plain forwarding", "Gb/s", &plain);
    line("agent, mechanism none", "Gb/s", &passing);
    line("agent, DSASync", "Gb/s", &managed);
    line("agent, local recovery", "Gb/s", &copying);
    line("agent, DSASync without copies", "Gb/s", &bare);
    line("share of plain, mechanism none", "", &passing_share);
    line("share of plain, DSASync", "", &managed_share);
    line("share of plain, local recovery", "", &copying_share);
    line("share of plain, DSASync without copies", "", &bare_share);
    Ok(())
}

/// One station's packets are held while another's pass: the kernel walks its queue past the held ones at each
/// verdict.
fn station_silence(&Extent { rounds, held, .. }: &Extent) -> Outcome {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let second = "10.91.2.3".parse()?;
    path.sh.add_address(linkhold_linux::topology::HOST, second, 24)?;
    println!("\nOne station silent, another's flow passing, packets of one MTU, {rounds} rounds:");
    for &target in held {
        let (mut held_packets, mut rates, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let settings = "[channel]\ncapacity = \"10Gbit/s\"\n[silence]\nmax = \"60s\"\n[mechanism]\nname = \"dsasync\"\npreset = \"hold\"\nb_alloc = \"500MB\"\n";
            let mut agent = AgentProcess::start(&path, settings);
            agent.signal(r#"{"freeze":{"scope":"10.91.2.2"}}"#);
            flood(&path, target)?;
            std::thread::sleep(Duration::from_millis(100));
            let before = agent.status().packets.seen;
            let finished =
                Transfer::start(&path.ch, &path.sh, second, 5003, Amount::For(Duration::from_secs(1)))
                    .finish();
            rates.push(finished.bytes as f64 * 8.0 / finished.took.as_secs_f64() / 1e9);
            let status = agent.status();
            held_packets.push(status.packets.held as f64);
            seen.push((status.packets.seen - before) as f64 / 1e3);
            agent.signal(r#"{"thaw":{"scope":"10.91.2.2"}}"#);
            agent.send_signal(Signal::SIGTERM);
            assert!(agent.wait(), "{}", agent.log());
        }
        let (count, _, _) = summary(&held_packets);
        line(&format!("passing flow while {count:.0} packets are held"), "Gb/s", &rates);
        line("    its packets that the agent saw, thousands", "", &seen);
    }
    Ok(())
}

/// Sends so many data packets of a connection that does not exist to the silent station, by a raw socket.
fn flood(path: &ThreeHosts, packets: u32) -> Outcome {
    path.ch.enter(|| -> Outcome {
        let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
        let to = SockaddrIn::from(std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(10, 91, 2, 2), 0));
        let mut spec = PacketSpec {
            src: Endpoint { addr: ThreeHosts::CH_V4, port: 7 },
            dst: Endpoint { addr: ThreeHosts::SH_V4, port: 9 },
            tcp: TcpSegment { flags: TcpFlags::ACK, payload_len: 1000, ..TcpSegment::default() },
            ecn: Ecn::NotEct,
        };
        let mut buffer = [0; 1500];
        for number in 0..packets {
            spec.tcp.seq = Seq(number * 1000);
            let length = emit(&spec, Payload::Zeros, &mut buffer)?;
            sendto(raw.as_raw_fd(), &buffer[..length], &to, MsgFlags::empty())?;
            if number % 64 == 0 {
                // The veth's backlog is finite, and the agent shares two cores with us.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    })?
}
