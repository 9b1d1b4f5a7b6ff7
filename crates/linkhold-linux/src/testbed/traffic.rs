//! The testbed's traffic: iperf3 for bulk, paced and finite flows; our own small server for short flows that arrive
//! at random, where every transfer is checked byte by byte.
//!
//! Stations are the clients: a downlink flow is iperf3's reverse mode, as a download is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_core::packet::Direction;

use super::topology::{Family, ch_address};
use crate::command::CommandError;
use crate::netns::{NetNs, NetNsError};

/// Port of the first iperf3 server; each client has one of its own, since a server takes one test at a time.
pub const IPERF_PORT: u16 = 5201;
/// Port of the server of short flows.
pub const SHORT_PORT: u16 = 7001;
/// Largest short flow, bytes.
const MAX_SHORT: u64 = 1 << 30;

/// One iperf3 client.
#[derive(Clone, Debug)]
pub struct Iperf {
    /// The station it runs on.
    pub station: u32,
    /// Which way the data goes.
    pub direction: Direction,
    /// Connections.
    pub count: u32,
    /// After the start of the run.
    pub start: Duration,
    /// How long it sends.
    pub duration: Duration,
    /// Congestion control of the sender.
    pub congestion: String,
    /// Bits per second of each connection; `None`: as much as TCP takes.
    pub rate_bps: Option<u64>,
    /// Bytes of each connection; `None`: until `duration`.
    pub bytes: Option<u64>,
    /// Socket buffers (iperf3's `-w`), bytes; `None`: the kernel tunes them.
    pub window: Option<u64>,
    /// Internet protocol.
    pub family: Family,
}

/// Short flows arriving at random on one station.
#[derive(Clone, Debug)]
pub struct ShortFlows {
    /// The station that downloads.
    pub station: u32,
    /// Size of each download, bytes.
    pub bytes: u64,
    /// When each begins, after the start of the run; in order.
    pub starts: Vec<Duration>,
    /// Internet protocol.
    pub family: Family,
}

/// One short flow's end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    /// Start, s after the start of the run.
    pub start_s: f64,
    /// From `connect` to the last byte, s; `None` if it did not end in time or its bytes were wrong.
    pub took_s: Option<f64>,
}

/// Why traffic could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A program did not start.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The server of short flows.
    #[error("server of short flows: {0}")]
    Server(std::io::Error),
}

/// Running traffic. Dropping it ends every program and thread.
pub struct Traffic {
    children: Vec<Child>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    completions: Arc<Mutex<Vec<Completion>>>,
    corrupt: Arc<AtomicU64>,
}

impl Traffic {
    /// Starts servers at once and clients at their times.
    ///
    /// # Errors
    /// [`TrafficError`] if a program cannot start.
    pub fn start(
        ch: &NetNs,
        stations: &[NetNs],
        iperf: &[Iperf],
        short: &[ShortFlows],
    ) -> Result<Self, TrafficError> {
        let mut traffic = Self {
            children: Vec::new(),
            threads: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
            completions: Arc::default(),
            corrupt: Arc::default(),
        };
        for index in 0..iperf.len() {
            let port = (IPERF_PORT + index as u16).to_string();
            traffic.spawn(ch, "iperf3", &["-s", "-1", "-p", &port])?;
        }
        if !short.is_empty() {
            traffic.serve_short_flows(ch)?;
        }
        // Servers listen within a few milliseconds; a client that finds none would end the test.
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        for (index, client) in iperf.iter().enumerate() {
            traffic.spawn_client(stations, client, IPERF_PORT + index as u16)?;
        }
        for flows in short {
            traffic.download(stations, flows.clone(), began)?;
        }
        Ok(traffic)
    }

    fn spawn(&mut self, netns: &NetNs, program: &str, args: &[&str]) -> Result<(), TrafficError> {
        let child = netns
            .command(program)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| CommandError::Start { command: program.to_owned(), source })?;
        self.children.push(child);
        Ok(())
    }

    fn spawn_client(&mut self, stations: &[NetNs], client: &Iperf, port: u16) -> Result<(), TrafficError> {
        let Some(netns) = stations.get(client.station as usize) else { return Ok(()) };
        let server = ch_address(client.family).to_string();
        let seconds = client.duration.as_secs_f64().ceil().max(1.0).to_string();
        let (port, count) = (port.to_string(), client.count.to_string());
        let mut iperf = format!("exec iperf3 -c {server} -p {port} -P {count} -C {} -i 0", client.congestion);
        match client.bytes {
            Some(bytes) => iperf.push_str(&format!(" -n {bytes}")),
            None => iperf.push_str(&format!(" -t {seconds}")),
        }
        if client.direction == Direction::Downlink {
            iperf.push_str(" -R");
        }
        if let Some(rate) = client.rate_bps {
            iperf.push_str(&format!(" -b {rate}"));
        }
        if let Some(window) = client.window {
            iperf.push_str(&format!(" -w {window}"));
        }
        // Every word above is a number or a name from this program; nothing of the scenario's text reaches the shell
        // but the congestion control, which `check_congestion` has found among the kernel's own names.
        let script = format!("sleep {}; {iperf}", client.start.as_secs_f64());
        self.spawn(netns, "sh", &["-c", &script])
    }

    fn serve_short_flows(&mut self, ch: &NetNs) -> Result<(), TrafficError> {
        let listen = || TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, SHORT_PORT));
        let listener = ch.enter(listen)?.map_err(TrafficError::Server)?;
        listener.set_nonblocking(true).map_err(TrafficError::Server)?;
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        std::thread::spawn(move || serve_one(stream));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }));
        Ok(())
    }

    fn download(
        &mut self,
        stations: &[NetNs],
        flows: ShortFlows,
        began: Instant,
    ) -> Result<(), TrafficError> {
        let Some(netns) = stations.get(flows.station as usize) else { return Ok(()) };
        let server = SocketAddr::new(ch_address(flows.family), SHORT_PORT);
        let (stop, completions, corrupt) =
            (self.stop.clone(), self.completions.clone(), self.corrupt.clone());
        // Threads made inside a namespace's thread stay in that namespace.
        let work = move || {
            std::thread::scope(|scope| {
                for start in flows.starts {
                    let wait = start.saturating_sub(began.elapsed());
                    std::thread::sleep(wait);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (stop, completions, corrupt) = (&stop, &completions, &corrupt);
                    scope.spawn(move || {
                        let outcome = fetch(server, flows.bytes, stop);
                        if matches!(outcome, Err(Fault::Corrupt)) {
                            corrupt.fetch_add(1, Ordering::Relaxed);
                        }
                        if let Ok(mut list) = completions.lock() {
                            list.push(Completion {
                                start_s: start.as_secs_f64(),
                                took_s: outcome.ok().map(|took| took.as_secs_f64()),
                            });
                        }
                    });
                }
            });
        };
        let handle = netns.spawn("short-flows", work)?;
        self.threads.push(std::thread::spawn(move || {
            let _ = handle.join();
        }));
        Ok(())
    }

    /// Ends everything; answers the short flows that began, by start, and how many delivered wrong bytes.
    pub fn finish(mut self) -> (Vec<Completion>, u64) {
        self.end();
        let mut list = self.completions.lock().map(|list| list.clone()).unwrap_or_default();
        list.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        (list, self.corrupt.load(Ordering::Relaxed))
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.children.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}

/// Byte `index` of every short flow: a pattern with a period that no segment size divides.
const fn pattern(index: u64) -> u8 {
    (index % 251) as u8
}

/// Answers one request: eight bytes of length, big-endian; then that much of the pattern.
fn serve_one(mut stream: TcpStream) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(60)));
    let mut request = [0_u8; 8];
    if stream.read_exact(&mut request).is_err() {
        return;
    }
    let wanted = u64::from_be_bytes(request).min(MAX_SHORT);
    let mut sent = 0;
    while sent < wanted {
        let chunk: Vec<u8> = (sent..wanted.min(sent + 16_384)).map(pattern).collect();
        if stream.write_all(&chunk).is_err() {
            return;
        }
        sent += chunk.len() as u64;
    }
}

enum Fault {
    Network,
    Corrupt,
}

fn fetch(server: SocketAddr, bytes: u64, stop: &AtomicBool) -> Result<Duration, Fault> {
    let network = |_| Fault::Network;
    let began = Instant::now();
    let mut stream = TcpStream::connect_timeout(&server, Duration::from_secs(60)).map_err(network)?;
    stream.write_all(&bytes.to_be_bytes()).map_err(network)?;
    stream.set_read_timeout(Some(Duration::from_millis(200))).map_err(network)?;
    let mut buffer = [0_u8; 16_384];
    let mut got = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => {
                let right = buffer[..len].iter().zip(got..).all(|(&byte, index)| byte == pattern(index));
                if !right {
                    return Err(Fault::Corrupt);
                }
                got += len as u64;
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                if stop.load(Ordering::Relaxed) {
                    return Err(Fault::Network);
                }
            }
            Err(_) => return Err(Fault::Network),
        }
    }
    if got == bytes { Ok(began.elapsed()) } else { Err(Fault::Network) }
}
