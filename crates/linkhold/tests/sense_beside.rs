//! `linkhold sense` beside a running agent and a running host, while a transfer runs: samples come in real
//! time, and the bursts in them become silences, each once, for the right cause and for as long as it lasts.
//!
//! The delays that it prints are from a burst's first sample to seeing the silence in the agent's status,
//! with the 5 ms in which samples are written, a pipe, a block, the control socket and the 2 ms between two
//! looks in them; of the end, T_idle besides.
//!
//! Needs root, for network namespaces; without, it says so and is skipped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_linux::agent::{self, ClientError, client, status::Status};
use linkhold_linux::netns::NetNs;
use linkhold_linux::topology::{self, ThreeHosts};
use linkhold_sense::synthetic::{Air, Burst};
use linkhold_sense::{Format, Sample};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Samples a second, and samples that are written at once (5 ms).
const RATE: u64 = 200_000;
const CHUNK: u64 = RATE / 200;
/// T_idle, s.
const IDLE_S: f64 = 0.05;
/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What runs beside.
#[derive(Clone, Copy, Debug)]
enum Seat {
    /// `linkhold agent` at the base station, for a download.
    Agent,
    /// `linkhold host` at the station, for an upload.
    Host,
}

/// A program of ours, ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        for _ in 0..500 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin("linkhold")
}

/// The agent or host, once it listens.
fn start(seat: Seat, line: &ThreeHosts, folder: &Path) -> Running {
    let socket = folder.join("a.sock");
    let control = format!("[control]\nsocket = {socket:?}\n");
    let (netns, config) = match seat {
        Seat::Agent => {
            let between = format!("wired = [{:?}]\nradio = [{:?}]\n", topology::WIRED, topology::RADIO);
            (&line.bs, format!("{between}radio_events = \"none\"\n{control}"))
        }
        Seat::Host => {
            let own =
                format!("radio = [{:?}]\nradio_events = \"none\"\nfreeze = \"window\"\n", topology::HOST);
            (&line.sh, format!("{own}{control}"))
        }
    };
    let file = folder.join("config.toml");
    std::fs::write(&file, config).expect("written");
    let word = match seat {
        Seat::Agent => "agent",
        Seat::Host => "host",
    };
    let log = std::fs::File::create(folder.join("log")).expect("a log");
    let child = netns
        .command(program().to_str().expect("a path in UTF-8"))
        .args([word, "--config"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("it starts");
    let running = Running(child);
    wait_for(&format!("{word} listens"), || agent::status(&socket).is_ok().then_some(()));
    running
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A transfer of 2 MB a second without end, and the bytes that have arrived.
struct Transfer {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Transfer {
    fn start(from: &NetNs, to: &NetNs, address: IpAddr) -> Self {
        let address = SocketAddr::new(address, 6000);
        let listener = to.enter(|| TcpListener::bind(address)).expect("enter").expect("listen");
        let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ended) = (Arc::clone(&received), Arc::clone(&stop));
        to.spawn("receiver", move || {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut bytes = [0; 1 << 16];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                count.fetch_add(length as u64, Ordering::Relaxed);
            }
        })
        .expect("a receiver");
        from.spawn("sender", move || {
            let Ok(mut stream) = TcpStream::connect(address) else { return };
            while !ended.load(Ordering::Relaxed) && stream.write_all(&[0; 10_000]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        })
        .expect("a sender");
        Self { received, stop }
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    fn goes_on(&self) {
        let before = self.received();
        wait_for("more bytes", || (self.received() > before + 100_000).then_some(()));
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// `linkhold sense` on standard input, fed in real time with noise and bursts (from, to; s).
struct Sensing {
    child: Child,
    /// When the first sample of each burst, and the first after it, was made.
    feeder: JoinHandle<Vec<(Instant, Instant)>>,
    /// What it has said on standard error so far.
    said: Arc<Mutex<String>>,
    listener: JoinHandle<()>,
}

impl Sensing {
    fn start(folder: &Path, bursts: &[(f64, f64)], length_s: f64) -> Self {
        let mut child = Command::new(program())
            .current_dir(folder)
            .args(["sense", "--format", "cu8", "--rate", "200kHz", "--signal", "a.sock", "--json"])
            .args(["--calibrate", "100ms", "--idle", "50ms"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = child.stdin.take().expect("a pipe");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            for line in errors.lines() {
                let mut said = heard.lock().expect("nobody panics with it");
                said.push_str(&line.expect("text"));
                said.push('\n');
            }
        });
        let at = |seconds: f64| (seconds * RATE as f64) as u64;
        let bursts: Vec<(u64, u64)> = bursts.iter().map(|&(from, to)| (at(from), at(to))).collect();
        let feeder = std::thread::spawn(move || {
            let burst = |&(from, to): &(u64, u64)| Burst {
                start: from,
                length: to - from,
                power: 1e-2,
                frequency: 0.1,
            };
            let mut air = Air::new(11, 1e-3, bursts.iter().map(burst).collect());
            let mut samples = vec![Sample::default(); CHUNK as usize];
            let started = Instant::now();
            for first in (0..at(length_s)).step_by(CHUNK as usize) {
                air.fill(&mut samples);
                let mut bytes = Vec::new();
                samples.iter().for_each(|&sample| Format::Cu8.encode(sample, &mut bytes));
                // When the last sample of the chunk is made.
                let due = Duration::from_secs_f64((first + CHUNK) as f64 / RATE as f64);
                std::thread::sleep(due.saturating_sub(started.elapsed()));
                input.write_all(&bytes).expect("it reads");
            }
            let made = |sample: u64| started + Duration::from_secs_f64(sample as f64 / RATE as f64);
            bursts.iter().map(|&(from, to)| (made(from), made(to))).collect()
        });
        Self { child, feeder, said, listener }
    }

    /// Whether it has said this on standard error by now.
    fn has_said(&self, words: &str) -> bool {
        self.said.lock().expect("nobody panics with it").contains(words)
    }

    /// The times of its bursts, what it printed, and what it said on standard error.
    fn finish(self, status: i32) -> (Vec<(Instant, Instant)>, String, String) {
        let made = self.feeder.join().expect("the feeder");
        let output = self.child.wait_with_output().expect("it ends");
        self.listener.join().expect("the listener");
        let out = String::from_utf8(output.stdout).expect("text");
        let said = self.said.lock().expect("nobody panics with it").clone();
        assert_eq!(output.status.code(), Some(status), "{said}");
        (made, out, said)
    }
}

/// The status at each change of `silent`, and when it was seen, until `until`.
fn watch(socket: PathBuf, until: Instant) -> JoinHandle<Vec<(Instant, Status)>> {
    std::thread::spawn(move || {
        let mut changes: Vec<(Instant, Status)> = Vec::new();
        while Instant::now() < until {
            if let Ok(status) = agent::status(&socket)
                && changes.last().map_or(status.silent, |(_, last)| last.silent != status.silent)
            {
                changes.push((Instant::now(), status));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        changes
    })
}

fn skipped() -> bool {
    let root = nix::unistd::geteuid().is_root();
    let missing =
        ["ip", "iptables"].into_iter().find(|program| !linkhold_linux::command::is_installed(program));
    if !root {
        linkhold_testing::skipped("network namespaces need root");
    } else if let Some(program) = missing {
        linkhold_testing::skipped(format_args!("`{program}` is not installed"));
    }
    !root || missing.is_some()
}

/// Tells the agent what another program would.
fn tell(socket: &Path, line: &str) -> Result<(), ClientError> {
    client::send(socket, &serde_json::from_str(line).expect("a message")).map(|_| ())
}

fn transfer_for(seat: Seat, line: &ThreeHosts) -> Transfer {
    let transfer = match seat {
        Seat::Agent => Transfer::start(&line.ch, &line.sh, ThreeHosts::SH_V4),
        Seat::Host => Transfer::start(&line.sh, &line.ch, ThreeHosts::CH_V4),
    };
    transfer.goes_on();
    transfer
}

/// From one to the other, ms.
fn ms(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e3
}

fn bursts_become_silences(seat: Seat) {
    const BURSTS: [(f64, f64); 3] = [(0.5, 0.9), (1.4, 1.9), (2.4, 2.7)];
    const LENGTH_S: f64 = 3.2;
    if skipped() {
        return;
    }
    let line = ThreeHosts::build().expect("namespaces");
    let folder = TempDir::new().expect("a folder");
    let socket = folder.path().join("a.sock");
    let _running = start(seat, &line, folder.path());
    let transfer = transfer_for(seat, &line);
    let sensing = Sensing::start(folder.path(), &BURSTS, LENGTH_S);
    let watcher = watch(socket.clone(), Instant::now() + Duration::from_secs_f64(LENGTH_S + 1.0));
    // In the first burst: a thaw for another cause ends nothing that sense began.
    wait_for("the first silence", || agent::status(&socket).ok().filter(|status| status.silent));
    tell(&socket, r#"{"source":"other","event":{"thaw":{"cause":"sensing"}}}"#).expect("taken note of");
    assert!(agent::status(&socket).expect("a status").silent, "ended for a cause that did not begin it");
    let (made, out, said) = sensing.finish(0);
    let changes = watcher.join().expect("the watcher");
    assert_eq!(said, "", "everything was told");
    let kinds: Vec<bool> = changes.iter().map(|(_, status)| status.silent).collect();
    assert_eq!(kinds, [true, false, true, false, true, false], "{out}");
    let mut delays = Vec::new();
    for ((start, end), pair) in made.iter().zip(changes.chunks(2)) {
        let (frozen, thawed) = (pair[0].0, pair[1].0);
        assert!(
            *start <= frozen && frozen < *end,
            "{seat:?}: seen {} ms after its start",
            ms(*start, frozen)
        );
        assert!(ms(*end, thawed) >= IDLE_S * 1e3, "{seat:?}: {} ms after its end", ms(*end, thawed));
        delays.push(format!("{:.1} and {:.1}", ms(*start, frozen), ms(*end, thawed)));
    }
    println!(
        "{seat:?}: freeze after a burst's start and thaw after its end, ms: {}; T_idle {} ms",
        delays.join("; "),
        IDLE_S * 1e3
    );
    let status = agent::status(&socket).expect("a status");
    assert_eq!((status.silences, status.silences_begun, status.silences_ended), (3, 3, 3), "{status}");
    assert_eq!((status.silences_overdue, status.silences_now), (0, 0), "{status}");
    match seat {
        Seat::Agent => {
            assert!(status.packets.holds > 0, "{status}");
            assert_eq!(status.packets.held, 0, "{status}");
            assert_eq!(status.packets.released + status.driver.discarded, status.packets.holds, "{status}");
        }
        Seat::Host => assert!(status.windows.closed > 0 && status.windows.closed_now == 0, "{status}"),
    }
    assert_eq!(status.packets.verdict_errors, 0, "{status}");
    transfer.goes_on();
}

#[test]
fn bursts_become_an_agents_silences() {
    bursts_become_silences(Seat::Agent);
}

#[test]
fn bursts_become_a_hosts_silences() {
    bursts_become_silences(Seat::Host);
}

/// The agent ends and starts again in a burst: the new one is told of it, and of its end.
#[test]
fn an_agent_that_starts_again_in_a_burst_is_told() {
    if skipped() {
        return;
    }
    let line = ThreeHosts::build().expect("namespaces");
    let folder = TempDir::new().expect("a folder");
    let socket = folder.path().join("a.sock");
    let first = start(Seat::Agent, &line, folder.path());
    let transfer = transfer_for(Seat::Agent, &line);
    // The burst goes on for long enough that agents may end and start at a busy machine's pace.
    let sensing = Sensing::start(folder.path(), &[(0.5, 12.5)], 13.0);
    wait_for("the silence", || agent::status(&socket).ok().filter(|status| status.silent));
    drop(first);
    wait_for("that sense finds nobody", || sensing.has_said("not told: ").then_some(()));
    let _second = start(Seat::Agent, &line, folder.path());
    let listening = Instant::now();
    let status =
        wait_for("the silence, again", || agent::status(&socket).ok().filter(|status| status.silent));
    println!("the agent that starts again knows of the burst after {:.0} ms", ms(listening, Instant::now()));
    assert_eq!(status.silences, 1);
    // Messages that nobody answered make the exit status 1.
    let (_, out, said) = sensing.finish(1);
    // Once, however often it was tried: nobody listened, or the agent ended without an answer.
    assert_eq!(said.matches("not told: ").count(), 1, "{said}");
    assert!(said.ends_with(" messages were not answered\n"), "{said}");
    assert!(out.contains("\"detections\":1"), "{out}");
    let status = agent::status(&socket).expect("a status");
    assert_eq!((status.silent, status.silences_ended, status.silences_overdue), (false, 1, 0), "{status}");
    transfer.goes_on();
}
