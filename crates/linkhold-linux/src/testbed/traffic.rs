//! The testbed's traffic: iperf3 for bulk and paced flows; our own small server for flows of a given size
//! ([`super::sized`]); for each UDP flow a thread that sends by the simulator's schedule, and at the other
//! end a socket that nobody reads, so that no host answers that the port is closed; for each end of a QUIC
//! flow a thread ([`super::quic`]).
//!
//! Stations are the clients: a downlink flow is iperf3's reverse mode, as a download is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_core::packet::Direction;
use linkhold_scenario::ResolvedScenario;
use linkhold_sim::udp::UdpSender;

use super::clock::{after_start, instant};
use super::datagrams::{NUMBER_LEN, UdpFlow};
use super::error::TrafficError;
use super::listening::wait_for_ports;
use super::quic::{Common, QuicEnd, QuicTraffic};
use super::sized::{Fault, LOOK, Threads, serve_one, set_congestion, transfer};
use super::topology::ch_address;
use super::tun::MTU;
use super::waits::{Waits, wait_of_thread, waits_of_program};
use super::workload::{IPERF_PORT, Iperf, SIZED_PORT, SizedFlows, Workload};
use crate::command::CommandError;
use crate::netns::NetNs;
use crate::punctual::{HOSTS_NICE as NICE, be_nice, finest_timers};

/// Most bytes that iperf3 writes at once (`MAX_BLOCKSIZE`).
const MAX_WRITE: u64 = 1 << 20;
/// How long the programs that have just been started get, so that their starts are over when the run begins.
const SETTLE: Duration = Duration::from_millis(300);
/// How long servers may take to open their ports. A busy machine is no error, but a server that has ended is.
const SERVER_START: Duration = Duration::from_secs(10);

/// One sized flow's end, as its application saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    /// Number of its group in the scenario.
    pub group: usize,
    /// Its station.
    pub station: u32,
    /// The station's port, whether or not its connection came about; 0 if it could not even ask for one.
    pub port: u16,
    /// Start, s after the start of the run.
    pub start_s: f64,
    /// From `connect` to the last byte, s; `None` if it did not end in time or its bytes were wrong.
    pub took_s: Option<f64>,
}

/// What is left of the traffic of a run.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Sized flows that began, by start.
    pub completions: Vec<Completion>,
    /// How many delivered wrong bytes.
    pub corrupt: u64,
    /// QUIC flows, in the order of the workload.
    pub quic: Vec<QuicEnd>,
}

/// An iperf3 client: a shell that waits for a line, and then becomes iperf3.
struct Client {
    station: u32,
    child: Child,
    /// When it is to start.
    start: Duration,
    /// When it may have ended.
    until: Duration,
    /// It is to be ended then, since the run goes on.
    stops: bool,
}

/// Running traffic. Dropping it ends every program and thread.
pub struct Traffic {
    servers: Vec<Child>,
    clients: Vec<Client>,
    began: Instant,
    threads: Vec<JoinHandle<()>>,
    /// The senders of datagrams, until they start.
    datagrams: Vec<DatagramSender>,
    /// Their threads, as the kernel calls them.
    senders: Vec<nix::unistd::Pid>,
    /// Where datagrams go.
    sinks: Vec<UdpSocket>,
    /// QUIC flows.
    quic: QuicTraffic,
    /// Why datagrams could not be sent.
    send_error: Arc<Mutex<Option<std::io::Error>>>,
    stop: Arc<AtomicBool>,
    completions: Arc<Mutex<Vec<Completion>>>,
    corrupt: Arc<AtomicU64>,
    /// The threads at the ends of sized flows.
    sized: Threads,
}

impl Traffic {
    /// Starts the servers and the clients' shells, and opens the sockets of UDP flows: what is slow is done
    /// before the run's time begins, since many programs that start at once would take the processor from
    /// each other.
    ///
    /// # Errors
    /// [`TrafficError`] if a program cannot start or a socket cannot be had.
    pub fn prepare(
        ch: &NetNs,
        stations: &[NetNs],
        workload: &Workload,
        scenario: &ResolvedScenario,
    ) -> Result<Self, TrafficError> {
        let common = Common::of(scenario, &workload.asked);
        let mut traffic = Self {
            servers: Vec::new(),
            clients: Vec::new(),
            began: Instant::now(),
            threads: Vec::new(),
            datagrams: Vec::new(),
            senders: Vec::new(),
            sinks: Vec::new(),
            quic: QuicTraffic::prepare(ch, stations, workload.quic_keys(), &common)?,
            send_error: Arc::default(),
            stop: Arc::new(AtomicBool::new(false)),
            completions: Arc::default(),
            corrupt: Arc::default(),
            sized: Threads::default(),
        };
        for index in 0..workload.iperf.len() {
            let port = (IPERF_PORT + index as u16).to_string();
            // The client's output tells what went wrong, too.
            let server = ch
                .command("nice")
                .args(["-n", &NICE.to_string(), "iperf3", "-s", "-1", "-p", &port])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            traffic.servers.push(server.map_err(|source| start_error("iperf3", source))?);
        }
        if !workload.sized.is_empty() {
            traffic.serve_sized_flows(ch, workload.congestion.of(Direction::Downlink))?;
        }
        for (index, client) in workload.iperf.iter().enumerate() {
            let congestion = workload.congestion.of(client.direction);
            traffic.spawn_client(stations, client, IPERF_PORT + index as u16, congestion)?;
        }
        for (key, flow) in workload.udp_keys() {
            let Some(station) = stations.get(flow.station as usize) else { continue };
            let [far, near] = [(ch, key.correspondent), (station, key.station)].map(|(netns, end)| {
                let address = SocketAddr::new(end.addr, end.port);
                netns.enter(|| UdpSocket::bind(address).map(|socket| (socket, address)))
            });
            // A socket stays in the namespace where it was made, whichever thread uses it.
            let (far, near) =
                (far?.map_err(TrafficError::Datagrams)?, near?.map_err(TrafficError::Datagrams)?);
            let (from, to) = match flow.direction {
                Direction::Downlink => (far, near),
                Direction::Uplink => (near, far),
            };
            let UdpFlow { sender, stop, .. } = flow.clone();
            traffic.datagrams.push(DatagramSender { socket: from.0, peer: to.1, sender, until: stop });
            traffic.sinks.push(to.0);
        }
        std::thread::sleep(SETTLE);
        // A client that finds no server would end the run.
        let ports: Vec<u16> = (IPERF_PORT..).take(workload.iperf.len()).collect();
        match wait_for_ports(ch, &ports, SERVER_START)? {
            Some(port) => Err(TrafficError::NotListening { port, limit_s: SERVER_START.as_secs() }),
            None => Ok(traffic),
        }
    }

    /// Starts the clients, each at its time after `began`.
    ///
    /// # Errors
    /// [`TrafficError`] if a program cannot start.
    pub fn start(
        &mut self,
        stations: &[NetNs],
        workload: &Workload,
        began: Instant,
    ) -> Result<(), TrafficError> {
        self.began = began;
        for datagrams in std::mem::take(&mut self.datagrams) {
            self.start_datagrams(datagrams)?;
        }
        self.senders.extend(self.quic.start(began, &self.stop)?);
        self.open_gates();
        for flows in &workload.sized {
            self.start_sized(stations, flows.clone(), workload.congestion.of(flows.direction))?;
        }
        Ok(())
    }

    /// Lets each client's shell go on when its time has come.
    fn open_gates(&mut self) {
        let gate = |client: &mut Client| Some((client.start, client.child.stdin.take()?));
        let mut gates: Vec<_> = self.clients.iter_mut().filter_map(gate).collect();
        gates.sort_by_key(|(start, _)| *start);
        let (began, stop) = (self.began, self.stop.clone());
        self.threads.push(std::thread::spawn(move || {
            be_nice(NICE);
            for (start, mut gate) in gates {
                if !sleep_until(began + start, &stop) {
                    return;
                }
                // A client that is no more is an error of `check`.
                let _ = gate.write_all(b"\n");
            }
        }));
    }

    fn spawn_client(
        &mut self,
        stations: &[NetNs],
        client: &Iperf,
        port: u16,
        congestion: &str,
    ) -> Result<(), TrafficError> {
        let Some(netns) = stations.get(client.station as usize) else { return Ok(()) };
        let server = ch_address(client.family).to_string();
        // Whole seconds, and never less than asked for: its stop or the run's end ends it.
        let seconds = client.duration.as_secs_f64().ceil().max(1.0).to_string();
        let (port, count) = (port.to_string(), client.count.to_string());
        let mut iperf = format!(
            "read _ && exec iperf3 -c {server} -p {port} -P {count} -C {congestion} -i 0 -t {seconds}"
        );
        if client.direction == Direction::Downlink {
            iperf.push_str(" -R");
        }
        if let Some((rate, chunk)) = client.paced {
            iperf.push_str(&format!(" -b {rate} -l {}", chunk.clamp(1, MAX_WRITE)));
        }
        // Every word above is a number or a name from this program; nothing of the scenario's text reaches
        // the shell but the congestion control, which `check_congestion` has found among the kernel's own
        // names.
        let child = netns
            .command("nice")
            .args(["-n", &NICE.to_string(), "sh", "-c", &iperf])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| start_error("iperf3", source))?;
        let (start, until) = (client.start, client.start + client.duration);
        self.clients.push(Client { station: client.station, child, start, until, stops: client.stops });
        Ok(())
    }

    /// When the next client is to be ended, after the start of the run; `None`: with the run.
    pub fn next_stop(&self) -> Option<Duration> {
        self.clients.iter().filter(|client| client.stops).map(|client| client.until).min()
    }

    /// Ends the clients whose time is over. iperf3 knows whole seconds only, and counts them from when its
    /// connections are made.
    fn end_stopped(&mut self) {
        let now = self.began.elapsed();
        for client in self.clients.iter_mut().filter(|client| client.stops && client.until <= now) {
            // One that has ended by itself needs no signal.
            let _ = client.child.kill();
            client.stops = false;
        }
    }

    /// Ends what is to stop by now. Fails if a client has ended before its time, or datagrams cannot be sent.
    ///
    /// # Errors
    /// [`TrafficError::Ended`] with what iperf3 said, [`TrafficError::Datagrams`] with what the system said,
    /// [`TrafficError::Quic`] if a connection was lost or brought wrong bytes.
    pub fn check(&mut self) -> Result<(), TrafficError> {
        if let Some(error) = self.send_error.lock().ok().and_then(|mut failed| failed.take()) {
            return Err(TrafficError::Datagrams(error));
        }
        self.quic.check()?;
        self.end_stopped();
        let now = self.began.elapsed();
        for client in self.clients.iter_mut().filter(|client| now < client.until) {
            if let Ok(Some(status)) = client.child.try_wait() {
                let mut message = String::new();
                if let Some(mut stderr) = client.child.stderr.take() {
                    let _ = stderr.read_to_string(&mut message);
                }
                return Err(TrafficError::Ended {
                    station: client.station,
                    status: status.to_string(),
                    message: message.trim().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// How long each thread of the hosts' programs, and each of our own that sends or receives, has waited
    /// for a processor so far.
    pub fn waits(&self) -> Waits {
        let clients = self.clients.iter().map(|client| client.child.id());
        let programs = self.servers.iter().map(Child::id).chain(clients);
        let own = self.senders.iter().map(|tid| tid.as_raw().unsigned_abs()).chain(self.sized.all());
        programs.flat_map(waits_of_program).chain(own.map(|tid| (tid, wait_of_thread(tid)))).collect()
    }

    fn serve_sized_flows(&mut self, ch: &NetNs, congestion: &str) -> Result<(), TrafficError> {
        let listen = || TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, SIZED_PORT));
        let listener = ch.enter(listen)?.map_err(TrafficError::Server)?;
        // The listener's connections inherit its congestion control. It is set by socket, since the sysctl
        // refuses congestion controls that this machine does not allow to everybody.
        set_congestion(&listener, congestion).map_err(TrafficError::Server)?;
        listener.set_nonblocking(true).map_err(TrafficError::Server)?;
        let (stop, threads) = (self.stop.clone(), self.sized.clone());
        self.threads.push(std::thread::spawn(move || {
            let _entered = threads.enter();
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (stop, threads) = (stop.clone(), threads.clone());
                        std::thread::spawn(move || {
                            let _entered = threads.enter();
                            serve_one(stream, &stop);
                        });
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }));
        Ok(())
    }

    fn start_sized(
        &mut self,
        stations: &[NetNs],
        flows: SizedFlows,
        congestion: &str,
    ) -> Result<(), TrafficError> {
        let Some(netns) = stations.get(flows.station as usize) else { return Ok(()) };
        let server = SocketAddr::new(ch_address(flows.family), SIZED_PORT);
        let (stop, completions, corrupt) =
            (self.stop.clone(), self.completions.clone(), self.corrupt.clone());
        let (began, congestion, threads) = (self.began, congestion.to_owned(), self.sized.clone());
        // Threads made inside a namespace's thread stay in that namespace.
        let work = move || {
            let _entered = threads.enter();
            std::thread::scope(|scope| {
                for &start in &flows.starts {
                    if !sleep_until(began + start, &stop) {
                        return;
                    }
                    let (stop, completions, corrupt, flows) = (&stop, &completions, &corrupt, &flows);
                    let (congestion, threads) = (&congestion, &threads);
                    scope.spawn(move || {
                        let _entered = threads.enter();
                        let mut port = 0;
                        let outcome = transfer(server, flows, congestion, stop, &mut port);
                        if matches!(outcome, Err(Fault::Corrupt)) {
                            corrupt.fetch_add(1, Ordering::Relaxed);
                        }
                        if let Ok(mut list) = completions.lock() {
                            list.push(Completion {
                                group: flows.group,
                                station: flows.station,
                                port,
                                start_s: start.as_secs_f64(),
                                took_s: outcome.ok().map(|took| took.as_secs_f64()),
                            });
                        }
                    });
                }
            });
        };
        let handle = netns.spawn("sized-flows", work)?;
        self.threads.push(std::thread::spawn(move || {
            let _ = handle.join();
        }));
        Ok(())
    }

    fn start_datagrams(&mut self, datagrams: DatagramSender) -> Result<(), TrafficError> {
        let (stop, began, failed) = (self.stop.clone(), self.began, self.send_error.clone());
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("datagrams".to_owned()).spawn(move || {
            let _ = tell.send(nix::unistd::gettid());
            if let (Err(error), Ok(mut failed)) = (datagrams.run(began, &stop), failed.lock()) {
                failed.get_or_insert(error);
            }
        });
        self.threads.push(thread.map_err(TrafficError::Datagrams)?);
        self.senders.extend(told.recv());
        Ok(())
    }

    /// Ends everything; answers what is left of it.
    pub fn finish(mut self) -> Finished {
        self.stop.store(true, Ordering::Relaxed);
        let quic = self.quic.finish();
        self.end();
        let mut list = self.completions.lock().map(|list| list.clone()).unwrap_or_default();
        list.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        Finished { completions: list, corrupt: self.corrupt.load(Ordering::Relaxed), quic }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let clients = self.clients.drain(..).map(|client| client.child);
        for mut child in clients.chain(self.servers.drain(..)) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.quic.finish();
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sleeps until `at`; false if the run was over before.
fn sleep_until(at: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let wait = at.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return true;
        }
        std::thread::sleep(wait.min(LOOK));
    }
}

fn start_error(program: &str, source: std::io::Error) -> CommandError {
    CommandError::Start { command: program.to_owned(), source }
}

/// The sending end of a UDP flow.
struct DatagramSender {
    socket: UdpSocket,
    peer: SocketAddr,
    sender: UdpSender,
    /// When its application stops, after the start of the run.
    until: Option<Duration>,
}

impl DatagramSender {
    /// Sends each datagram at its time after `began`.
    fn run(mut self, began: Instant, stop: &AtomicBool) -> std::io::Result<()> {
        be_nice(NICE);
        finest_timers();
        let until = self.until;
        let over = || stop.load(Ordering::Relaxed) || until.is_some_and(|until| began.elapsed() >= until);
        let mut payload = [0; MTU as usize];
        while let Some(next) = self.sender.next_send().filter(|_| !over()) {
            if !sleep_until(began + after_start(next), stop) {
                break;
            }
            let now = instant(began.elapsed());
            while let Some(datagram) = self.sender.poll(now).filter(|_| !over()) {
                let Some(payload) = payload.get_mut(..datagram.len as usize) else {
                    return Err(std::io::Error::other(format!("a datagram of {} bytes", datagram.len)));
                };
                if let Some(number) = payload.last_chunk_mut::<NUMBER_LEN>() {
                    *number = datagram.number.to_be_bytes();
                }
                match self.socket.send_to(payload, self.peer) {
                    Ok(_) => {}
                    // The host's queue has no room: the datagram is lost, as any other.
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
