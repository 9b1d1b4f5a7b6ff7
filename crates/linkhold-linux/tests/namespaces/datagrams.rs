//! UDP across a silence, and QUIC over a radio that falls silent.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{IpAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use linkhold_linux::netns::NetNs;
use linkhold_linux::topology::{RADIO, ThreeHosts, WIRED};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::capture::Capture;
use crate::packets::{Datagram, datagrams};
use crate::radio::Radio;

const PORT: u16 = 6900;
/// Datagrams of the stream.
const COUNT: u32 = 1500;
/// The time between two of them.
const EVERY: Duration = Duration::from_millis(2);
/// Half of the silence: what came in the first half of it is too old at its end.
const MAX_AGE: Duration = Duration::from_millis(1000);
const SILENCE: Duration = Duration::from_millis(2000);

/// Waits until some have arrived.
pub fn wait_for_datagrams(arrived: &AtomicUsize) {
    let began = Instant::now();
    while arrived.load(Ordering::SeqCst) < 20 {
        assert!(began.elapsed() < Duration::from_secs(20), "{arrived:?} datagrams arrived in 20 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// So many numbered datagrams, with so much time between two of them, from the correspondent to the station;
/// and the numbers as they arrived. The station listens until nothing has come for `patience`.
pub fn stream(
    path: &ThreeHosts,
    to: IpAddr,
    (count, every): (u32, Duration),
    patience: Duration,
    arrived: &Arc<AtomicUsize>,
) -> impl FnOnce() -> Vec<u32> + use<> {
    let counter = Arc::clone(arrived);
    let (bound, ready) = std::sync::mpsc::channel();
    let receiver = path.sh.spawn("receiver", move || {
        let socket = UdpSocket::bind((to, PORT)).expect("bind");
        // What was held comes all at once.
        setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20)).expect("root may");
        socket.set_read_timeout(Some(patience)).expect("a timeout");
        bound.send(()).expect("somebody waits");
        let (mut got, mut buffer) = (Vec::new(), [0; 2048]);
        loop {
            let length = match socket.recv(&mut buffer) {
                Ok(length) => length,
                // Nothing has come for so long.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A machine that was stopped and goes on interrupts who waits with a limit, signal(7).
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("receive: {error}"),
            };
            let number: [u8; 4] = buffer[..length].first_chunk().copied().expect("a number");
            got.push(u32::from_be_bytes(number));
            counter.store(got.len(), Ordering::SeqCst);
        }
        got
    });
    let receiver = receiver.expect("start the receiver");
    ready.recv().expect("the receiver is bound");
    let sender = path.ch.spawn("sender", move || {
        let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        let socket = UdpSocket::bind((any, 0)).expect("bind");
        let mut datagram = [7; 400];
        for number in 0..count {
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            socket.send_to(&datagram, (to, PORT)).expect("sent");
            std::thread::sleep(every);
        }
    });
    let sender = sender.expect("start the sender");
    move || {
        sender.join().expect("the sender's thread").expect("enter");
        receiver.join().expect("the receiver's thread").expect("enter")
    }
}

/// What comes to the base station and what leaves it, at its own interfaces. A processor that the machine's
/// host stops may lose packets between two hosts: what came from them waits in its backlog, which has room
/// for 1000 (`net.core.netdev_max_backlog`, of the whole machine) and may be sent more than that at a
/// silence's end.
pub struct Crossing(Capture, Capture);

impl Crossing {
    pub fn start(path: &ThreeHosts) -> Self {
        Self(Capture::at(&path.bs, WIRED), Capture::at(&path.bs, RADIO))
    }

    /// The datagrams to the station that came and that left, after a look that the station got no other ones,
    /// and all in order.
    pub fn finish(self, to: IpAddr, got: &[u32]) -> (Vec<Datagram>, Vec<Datagram>) {
        let [came, left] = [self.0, self.1].map(|capture| datagrams(&capture.finish(), to));
        for packets in [&came, &left] {
            assert!(packets.is_sorted_by_key(|packet| packet.number), "datagrams to {to} overtook others");
        }
        assert!(got.is_sorted(), "datagrams to {to} overtook others on their way to the station");
        let sent: HashSet<u32> = left.iter().map(|packet| packet.number).collect();
        assert!(got.iter().all(|number| sent.contains(number)), "a datagram passed the radio by");
        (came, left)
    }
}

/// What comes in a silence is held, and leaves in order at its end; what is too old by then is dropped and
/// counted.
pub fn a_burst_in_a_silence() -> Outcome {
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(
        &path,
        &format!(
            "[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nname = \"dsasync\"\ndatagram_max_age = \"{}ms\"\n",
            MAX_AGE.as_millis()
        ),
    );
    for to in [ThreeHosts::SH_V4, ThreeHosts::SH_V6] {
        let (before, crossing) = (agent.status().packets, Crossing::start(&path));
        let arrived = Arc::new(AtomicUsize::new(0));
        let finish = stream(&path, to, (COUNT, EVERY), Duration::from_secs(4), &arrived);
        wait_for_datagrams(&arrived);
        agent.signal(r#"{"freeze":{}}"#);
        let frozen = SystemTime::now();
        std::thread::sleep(SILENCE);
        let (during, thawing) = (agent.status().packets, SystemTime::now());
        agent.signal(r#"{"thaw":{}}"#);
        let got = finish();
        let after = agent.status().packets;

        assert!(during.held > 100, "{during:?}");
        let (came, crossed) = crossing.finish(to, &got);
        let in_silence = crossed.iter().filter(|packet| (frozen..thawing).contains(&packet.at)).count();
        assert_eq!(in_silence, 0, "datagrams crossed in the silence to {to}");
        let too_old = after.dropped_too_old - before.dropped_too_old;
        let (seen, holds) =
            (after.datagrams - before.datagrams, after.datagram_holds - before.datagram_holds);
        println!(
            "to {to}: {} of {COUNT} came, {holds} held, {too_old} too old, {} arrived",
            came.len(),
            got.len()
        );
        assert_eq!((seen, crossed.len() as u64 + too_old), (came.len() as u64, came.len() as u64));
        assert!(holds > 100 && too_old > 50 && holds > too_old + 50, "{holds} held, {too_old} too old");
        // Those that are missing are the oldest of the silence: one gap.
        let went: HashSet<u32> = crossed.iter().map(|packet| packet.number).collect();
        let gaps = came.windows(2).filter(|pair| {
            let [before, after] = [pair[0], pair[1]].map(|packet| went.contains(&packet.number));
            before && !after
        });
        assert_eq!(gaps.count(), 1);
    }
    Ok(())
}

/// Environment variable: the Python that has aioquic.
const PYTHON: &str = "LINKHOLD_QUIC_PYTHON";
/// Environment variable: the file to which the downloads' numbers go, as JSON.
const OUT: &str = "LINKHOLD_QUIC_OUT";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/quic_transfer.py");
/// By how much the path is longer one way, ms, and bytes of a download.
const QUIC_PATHS: [(u32, u64); 3] = [(0, 40_000_000), (25, 20_000_000), (50, 10_000_000)];
const RUNS: usize = 5;
/// The radio is silent for 0.3 s of each second.
const SILENT: Duration = Duration::from_millis(300);
const ON_AIR: Duration = Duration::from_millis(700);

fn script(netns: &NetNs, python: &str, args: &[&str]) -> Command {
    let mut command = netns.command("chrt");
    // Not with this program's own priority: it is real traffic's other end, and others share the machine.
    command.args(["--other", "0", python, SCRIPT]).args(args).stdout(Stdio::piped());
    command
}

/// One download; its numbers.
fn download(
    path: &ThreeHosts,
    python: &str,
    agent: Option<&AgentProcess>,
    radio: &Radio,
    port: u16,
    (longer_ms, bytes): (u32, u64),
) -> Value {
    let (server_addr, port) = (ThreeHosts::CH_V4.to_string(), port.to_string());
    let longer = longer_ms.to_string();
    let mut args = vec!["serve", &server_addr, &port];
    if longer_ms > 0 {
        args.push(&longer);
    }
    let mut server: Child = script(&path.ch, python, &args).spawn().expect("start the server");
    let mut said = BufReader::new(server.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("the server says that it is ready");
    let done = AtomicBool::new(false);
    let (output, silences) = std::thread::scope(|scope| {
        let silences = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::SeqCst) {
                std::thread::sleep(ON_AIR);
                if let Some(agent) = agent {
                    agent.signal(r#"{"freeze":{}}"#);
                }
                radio.fall_silent();
                std::thread::sleep(SILENT);
                radio.come_back();
                if let Some(agent) = agent {
                    agent.signal(r#"{"thaw":{}}"#);
                }
                count += 1;
            }
            count
        });
        let args = ["fetch", &server_addr, &port, &bytes.to_string()];
        let output = script(&path.sh, python, &args).output().expect("run the client");
        done.store(true, Ordering::SeqCst);
        (output, silences.join().expect("the silences' thread"))
    });
    kill(Pid::from_raw(server.id().cast_signed()), Signal::SIGTERM).expect("end the server");
    let mut counts = String::new();
    said.read_to_string(&mut counts).expect("the server's counts");
    server.wait().expect("the server ends");
    let client: Value = serde_json::from_slice(&output.stdout).expect("the client's numbers");
    let server: Value = serde_json::from_str(counts.trim()).expect("the server's numbers");
    assert_eq!((&client["right"], &client["bytes"]), (&json!(true), &json!(bytes)), "every byte arrives");
    json!({
        "agent": agent.is_some(), "longer_ms": longer_ms, "bytes": bytes, "silences": silences, "client": client, "server": server,
    })
}

/// QUIC downloads with and without the agent, in turns. The agent is told the rate at which it paces, and
/// each silence's beginning and end as they happen.
pub fn quic_downloads() -> Outcome {
    let python = std::env::var(PYTHON).map_err(|_| format!("{PYTHON} names no Python with aioquic"))?;
    let path = ThreeHosts::build()?;
    let radio = Radio::replace_veth(&path)?;
    let mut runs = Vec::new();
    for (part, long) in QUIC_PATHS.into_iter().enumerate() {
        for run in 0..RUNS {
            for with_agent in [false, true] {
                let port = 7000 + (part * 100 + run * 2 + usize::from(with_agent)) as u16;
                let agent = with_agent.then(|| {
                    let channel = "[channel]\ncapacity = \"100Mbit/s\"\nefficiency = 1.0\n";
                    AgentProcess::start(&path, &format!("{channel}[mechanism]\nname = \"dsasync\"\n"))
                });
                let mut numbers = download(&path, &python, agent.as_ref(), &radio, port, long);
                if let Some(agent) = &agent {
                    let packets = agent.status().packets;
                    assert!(packets.datagram_holds > 0, "the agent held nothing: {}", agent.log());
                    numbers["holds"] = json!(packets.datagram_holds);
                    numbers["dropped"] = json!(packets.dropped());
                }
                println!("{numbers}");
                runs.push(numbers);
            }
        }
    }
    if let Ok(out) = std::env::var(OUT) {
        let text =
            json!({ "silent_s": SILENT.as_secs_f64(), "on_air_s": ON_AIR.as_secs_f64(), "runs": runs });
        std::fs::write(out, format!("{text}\n"))?;
    }
    Ok(())
}
