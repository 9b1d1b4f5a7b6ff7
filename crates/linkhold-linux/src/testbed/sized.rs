//! The ends of flows of a given size: a small server and its clients, where every transfer is checked byte by
//! byte.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linkhold_core::packet::Direction;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};

use super::pattern::{is_pattern, pattern};
use super::workload::SizedFlows;
use crate::punctual::{HOSTS_NICE, be_nice};

/// Largest sized flow, bytes.
const MAX_SIZE: u64 = 1 << 40;
/// Longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a waiting transfer looks whether the run is over.
pub(super) const LOOK: Duration = Duration::from_millis(LOOK_MS as u64);
const LOOK_MS: u16 = 200;

/// The threads at the ends of sized flows, as the kernel calls them: hosts as iperf3's programs are, and
/// whose waits for a processor count as theirs do.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(Arc<Mutex<BTreeSet<u32>>>);

impl Threads {
    /// The calling thread is one of them until the answer is dropped.
    pub fn enter(&self) -> Entered {
        be_nice(HOSTS_NICE);
        let tid = nix::unistd::gettid().as_raw().unsigned_abs();
        self.lock().insert(tid);
        Entered { threads: self.clone(), tid }
    }

    /// Those there are now.
    pub fn all(&self) -> BTreeSet<u32> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's place among [`Threads`].
pub(super) struct Entered {
    threads: Threads,
    tid: u32,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.threads.lock().remove(&self.tid);
    }
}

/// What a client asks for: one byte for the direction, eight of length, big-endian.
const REQUEST: usize = 9;
const DOWNLOAD: u8 = b'd';
const UPLOAD: u8 = b'u';
/// The byte with which the server answers an upload whose bytes were right.
const RIGHT: u8 = b'!';

/// Why a transfer has no end.
pub(super) enum Fault {
    /// It was cut off.
    Network,
    /// Its bytes were wrong.
    Corrupt,
}

/// Answers one request.
pub(super) fn serve_one(mut stream: TcpStream, stop: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let mut request = [0_u8; REQUEST];
    let mut got = 0;
    while let Some(rest) = request.get_mut(got..).filter(|rest| !rest.is_empty()) {
        match read_some(&mut stream, rest, stop) {
            Ok(len) => got += len,
            Err(_) => return,
        }
    }
    let [way, length @ ..] = request;
    let bytes = u64::from_be_bytes(length).min(MAX_SIZE);
    match way {
        DOWNLOAD => {
            let _ = send_pattern(&mut stream, bytes, stop);
        }
        UPLOAD if receive_pattern(&mut stream, bytes, stop).is_ok() => {
            let _ = stream.write_all(&[RIGHT]);
        }
        _ => {}
    }
}

/// Asks for one flow and takes part in it; answers how long it took, and tells its port as soon as there is
/// one.
pub(super) fn transfer(
    server: SocketAddr,
    flows: &SizedFlows,
    congestion: &str,
    stop: &AtomicBool,
    port: &mut u16,
) -> Result<Duration, Fault> {
    let network = |_| Fault::Network;
    let began = Instant::now();
    let mut stream = connect(server, stop, port)?;
    set_congestion(&stream, congestion).map_err(network)?;
    let way = match flows.direction {
        Direction::Downlink => DOWNLOAD,
        Direction::Uplink => UPLOAD,
    };
    let mut request = [way; REQUEST];
    request[1..].copy_from_slice(&flows.bytes.to_be_bytes());
    stream.write_all(&request).map_err(network)?;
    match flows.direction {
        Direction::Downlink => receive_pattern(&mut stream, flows.bytes, stop)?,
        Direction::Uplink => {
            send_pattern(&mut stream, flows.bytes, stop)?;
            let mut answer = [0];
            read_some(&mut stream, &mut answer, stop)?;
            if answer[0] != RIGHT {
                return Err(Fault::Corrupt);
            }
        }
    }
    Ok(began.elapsed())
}

/// Connects as `connect_timeout` does, but looks meanwhile whether the run is over: in a silence the answer
/// may never come. Tells the port before there is an answer: what was asked for is a flow that carried
/// nothing if there is none.
fn connect(server: SocketAddr, stop: &AtomicBool, port: &mut u16) -> Result<TcpStream, Fault> {
    let family = if server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, SockType::Stream, flags, None).map_err(|_| Fault::Network)?;
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(server)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(_) => return Err(Fault::Network),
    }
    let stream = TcpStream::from(socket);
    *port = stream.local_addr().map_err(|_| Fault::Network)?.port();
    let patient_until = Instant::now() + PATIENCE;
    loop {
        let mut fds = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, PollTimeout::from(LOOK_MS)) {
            Ok(0) | Err(Errno::EINTR) if stop.load(Ordering::Relaxed) || Instant::now() >= patient_until => {
                return Err(Fault::Network);
            }
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => break,
            Err(_) => return Err(Fault::Network),
        }
    }
    let failed = stream.take_error().map_err(|_| Fault::Network)?;
    stream.set_nonblocking(false).map_err(|_| Fault::Network)?;
    failed.map_or(Ok(stream), |_| Err(Fault::Network))
}

fn send_pattern(stream: &mut TcpStream, bytes: u64, stop: &AtomicBool) -> Result<(), Fault> {
    stream.set_write_timeout(Some(LOOK)).map_err(|_| Fault::Network)?;
    let (mut sent, mut chunk) = (0, Vec::with_capacity(16_384));
    while sent < bytes {
        chunk.clear();
        chunk.extend((sent..bytes.min(sent + 16_384)).map(pattern));
        match stream.write(&chunk) {
            Ok(0) => return Err(Fault::Network),
            Ok(len) => sent += len as u64,
            Err(error) if is_passing(&error) && !stop.load(Ordering::Relaxed) => {}
            Err(_) => return Err(Fault::Network),
        }
    }
    Ok(())
}

fn receive_pattern(stream: &mut TcpStream, bytes: u64, stop: &AtomicBool) -> Result<(), Fault> {
    let mut buffer = vec![0_u8; 16_384];
    let mut got = 0;
    while got < bytes {
        let room = usize::try_from(bytes - got).unwrap_or(usize::MAX).min(buffer.len());
        let part = &mut buffer[..room];
        let len = read_some(stream, part, stop)?;
        if !is_pattern(&part[..len], got) {
            return Err(Fault::Corrupt);
        }
        got += len as u64;
    }
    Ok(())
}

/// Reads at least one byte, or tells why there is none.
fn read_some(stream: &mut TcpStream, buffer: &mut [u8], stop: &AtomicBool) -> Result<usize, Fault> {
    stream.set_read_timeout(Some(LOOK)).map_err(|_| Fault::Network)?;
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(Fault::Network),
            Ok(len) => return Ok(len),
            Err(error) if is_passing(&error) && !stop.load(Ordering::Relaxed) => {}
            Err(_) => return Err(Fault::Network),
        }
    }
}

/// Gives a socket a congestion control.
pub(super) fn set_congestion(socket: &impl AsFd, name: &str) -> std::io::Result<()> {
    let name = std::ffi::OsString::from(name);
    nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::TcpCongestion, &name).map_err(Into::into)
}

/// True for a timeout or an interruption. A read with a timeout is interrupted even when its process was
/// stopped and goes on (signal(7)).
fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::super::topology::Family;
    use super::*;

    /// Runs both ends over loopback; the client's outcome, and what the network between them changed.
    fn over_loopback(direction: Direction, bytes: u64, spoil: bool) -> Result<Duration, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            if spoil {
                let mut request = [0; REQUEST];
                stream.read_exact(&mut request).unwrap();
                let _ = stream.write_all(&vec![7; 1000]);
            } else {
                serve_one(stream, &AtomicBool::new(false));
            }
        });
        let flows =
            SizedFlows { group: 0, station: 0, direction, bytes, starts: Vec::new(), family: Family::V4 };
        let outcome = transfer(server, &flows, "reno", &stop, &mut 0);
        thread.join().unwrap();
        outcome
    }

    #[test]
    fn transfers_of_any_size_and_direction_are_checked_byte_by_byte() {
        for direction in [Direction::Downlink, Direction::Uplink] {
            for bytes in [1, 250, 251, 100_000, 3_000_001] {
                assert!(over_loopback(direction, bytes, false).is_ok(), "{direction:?} {bytes}");
            }
        }
        assert!(matches!(over_loopback(Direction::Downlink, 1000, true), Err(Fault::Corrupt)));
    }

    #[test]
    fn a_thread_of_a_sized_flow_is_listed_while_it_runs_and_as_nice_as_the_programs() {
        let threads = Threads::default();
        let (listed, nice) = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _entered = threads.enter();
                let told = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
                // After the name in brackets: state is the first word, the nice value the 17th (proc(5)).
                let nice = told.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().to_owned();
                (threads.all().contains(&nix::unistd::gettid().as_raw().unsigned_abs()), nice)
            });
            thread.join().unwrap()
        });
        assert!(listed && threads.all().is_empty(), "{threads:?}");
        let privileged = std::thread::spawn(|| be_nice(HOSTS_NICE)).join().unwrap();
        assert!(!privileged || nice == HOSTS_NICE.to_string(), "{nice}");
    }

    #[test]
    fn a_flow_whose_connection_is_not_answered_ends_with_the_run() {
        // A listener with room for one connection drops the SYNs of others.
        let flags = SockFlag::SOCK_CLOEXEC;
        let listener = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        let any = SockaddrStorage::from("127.0.0.1:0".parse::<SocketAddr>().unwrap());
        socket::bind(listener.as_raw_fd(), &any).unwrap();
        socket::listen(&listener, socket::Backlog::new(0).unwrap()).unwrap();
        let listener = TcpListener::from(listener);
        let server = listener.local_addr().unwrap();
        let full = || TcpStream::connect_timeout(&server, LOOK);
        let _waiting: Vec<TcpStream> = std::iter::from_fn(|| full().ok()).take(8).collect();
        assert!(full().is_err(), "it has room");
        let direction = Direction::Downlink;
        let flows =
            SizedFlows { group: 0, station: 0, direction, bytes: 1, starts: Vec::new(), family: Family::V4 };
        let (stop, began, mut port) = (AtomicBool::new(false), Instant::now(), 0);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(LOOK);
                stop.store(true, Ordering::Relaxed);
            });
            transfer(server, &flows, "reno", &stop, &mut port)
        });
        assert!(matches!(outcome, Err(Fault::Network)) && began.elapsed() < PATIENCE / 4);
        assert!(port != 0, "its SYNs are nobody's");
        drop(listener);
        let refused = connect(server, &AtomicBool::new(false), &mut 0);
        assert!(matches!(refused, Err(Fault::Network)), "nobody listens");
    }
}
