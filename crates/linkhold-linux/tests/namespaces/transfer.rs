//! TCP transfers of known bytes between namespaces, checked byte by byte, bounded in time.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_linux::netns::{NetNs, NetNsError};
use linkhold_linux::topology::HOST;

/// A transfer that stands still for so long has failed.
const STALL: Duration = Duration::from_secs(20);
const CHUNK: usize = 64 * 1024;

/// Byte number `at` of every transfer.
fn expected(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// What to send.
#[derive(Clone, Copy)]
pub enum Amount {
    /// So many, checked byte by byte.
    Bytes(u64),
    /// As many as fit in a time. They are only counted, since computing them would be slower than the path.
    #[allow(dead_code)] // The benchmark's.
    For(Duration),
    /// So many a second until it is stopped, checked byte by byte.
    Rate(u64),
}

/// A transfer under way.
pub struct Transfer {
    sender: JoinHandle<Result<std::io::Result<u64>, NetNsError>>,
    receiver: JoinHandle<Result<std::io::Result<u64>, NetNsError>>,
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    started: Instant,
}

/// What a transfer was.
#[derive(Debug)]
pub struct Finished {
    pub bytes: u64,
    #[allow(dead_code)] // Measured by the benchmark, which shares this file.
    pub took: Duration,
}

/// An address as the calling thread's namespace has it: a link-local one belongs to the host's interface.
fn address(addr: IpAddr, port: u16) -> SocketAddr {
    match addr {
        IpAddr::V6(addr) if addr.is_unicast_link_local() => {
            let interface = nix::net::if_::if_nametoindex(HOST).expect("a host's interface");
            SocketAddrV6::new(addr, port, 0, interface).into()
        }
        _ => SocketAddr::new(addr, port),
    }
}

impl Transfer {
    /// Starts sending from `from` to `to`, which listens on `addr` and `port`.
    pub fn start(from: &NetNs, to: &NetNs, addr: IpAddr, port: u16, amount: Amount) -> Self {
        let listener = to.enter(|| TcpListener::bind(address(addr, port))).expect("enter").expect("listen");
        Self::between(
            (from, move || TcpStream::connect_timeout(&address(addr, port), STALL)),
            (to, move || linkhold_testing::accept(&listener)),
            amount,
        )
    }

    /// Starts sending from `from`, which listens on `addr` and `port`, to `to`, which connects to it.
    pub fn fetch(from: &NetNs, to: &NetNs, addr: IpAddr, port: u16, amount: Amount) -> Self {
        let listener = from.enter(|| TcpListener::bind(address(addr, port))).expect("enter").expect("listen");
        Self::between(
            (from, move || linkhold_testing::accept(&listener)),
            (to, move || TcpStream::connect_timeout(&address(addr, port), STALL)),
            amount,
        )
    }

    /// Starts sending on a connection whose ends the two closures open, each in its namespace.
    pub fn between(
        (from, sending): (&NetNs, impl FnOnce() -> std::io::Result<TcpStream> + Send + 'static),
        (to, receiving): (&NetNs, impl FnOnce() -> std::io::Result<TcpStream> + Send + 'static),
        amount: Amount,
    ) -> Self {
        let check = matches!(amount, Amount::Bytes(_) | Amount::Rate(_));
        let received = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let counter = Arc::clone(&received);
        let receiver =
            to.spawn("receiver", move || receive(receiving()?, &counter, check)).expect("start the receiver");
        let ended = Arc::clone(&stop);
        let sender =
            from.spawn("sender", move || send(sending()?, amount, &ended)).expect("start the sender");
        Self { sender, receiver, received, stop, started: Instant::now() }
    }

    /// Bytes that have arrived.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until more than `bytes` have arrived, however slowly they come: a busy machine is no failure.
    pub fn wait_for(&self, bytes: u64) {
        loop {
            let received = self.received();
            if received > bytes {
                return;
            }
            assert!(self.goes_beyond(received, STALL), "the transfer stands still at {received} bytes");
        }
    }

    /// How the transfer ended, if it did: the results of its sender and its receiver.
    pub fn end(self) -> Option<String> {
        (self.sender.is_finished() || self.receiver.is_finished()).then(|| {
            self.stop();
            let Self { sender, receiver, .. } = self;
            format!("sender: {:?}, receiver: {:?}", sender.join(), receiver.join())
        })
    }

    /// Waits until more than `bytes` have arrived; false if they have not within `limit`.
    pub fn goes_beyond(&self, bytes: u64, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.received() <= bytes {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Lets the sender end now.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Lets the sender end now, and waits for that.
    pub fn stop_and_finish(self) -> Finished {
        self.stop();
        self.finish()
    }

    /// Waits for its end. Every byte sent has arrived, and is right.
    pub fn finish(self) -> Finished {
        let sent = self.sender.join().expect("the sender's thread").expect("enter").expect("sending");
        let received =
            self.receiver.join().expect("the receiver's thread").expect("enter").expect("receiving");
        assert_eq!(sent, received);
        Finished { bytes: received, took: self.started.elapsed() }
    }
}

fn send(mut stream: TcpStream, amount: Amount, stop: &AtomicBool) -> std::io::Result<u64> {
    stream.set_write_timeout(Some(STALL))?;
    // The pattern has no short period that could be sent again and again, so the bytes are computed, a chunk
    // at a time.
    let mut chunk = vec![0u8; CHUNK];
    let plain = matches!(amount, Amount::For(_));
    let deadline = match amount {
        Amount::Bytes(_) | Amount::Rate(_) => None,
        Amount::For(duration) => Some(Instant::now() + duration),
    };
    let started = Instant::now();
    let mut sent = 0u64;
    loop {
        let left = match amount {
            Amount::Bytes(total) => total - sent,
            Amount::For(_) | Amount::Rate(_) => CHUNK as u64,
        };
        let over = deadline.is_some_and(|at| Instant::now() >= at) || stop.load(Ordering::Relaxed);
        if left == 0 || over {
            break;
        }
        let length = chunk.len().min(left as usize);
        if !plain {
            for (offset, byte) in chunk[..length].iter_mut().enumerate() {
                *byte = expected(sent + offset as u64);
            }
        }
        stream.write_all(&chunk[..length])?;
        sent += length as u64;
        if let Amount::Rate(rate) = amount {
            let due = Duration::from_secs_f64(sent as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // The receiver closes its side when everything has arrived.
    stream.set_read_timeout(Some(STALL))?;
    let _ = read(&mut stream, &mut chunk)?;
    Ok(sent)
}

/// Reads on after an interruption. A read with a timeout is interrupted even when its process was stopped and
/// goes on (signal(7)).
fn read(stream: &mut TcpStream, chunk: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(chunk) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn receive(mut stream: TcpStream, received: &AtomicU64, check: bool) -> std::io::Result<u64> {
    stream.set_read_timeout(Some(STALL))?;
    let mut chunk = vec![0u8; CHUNK];
    let mut total = 0u64;
    loop {
        let length = read(&mut stream, &mut chunk)?;
        if length == 0 {
            return Ok(total);
        }
        if check {
            for (offset, byte) in chunk[..length].iter().enumerate() {
                assert_eq!(*byte, expected(total + offset as u64), "byte {} is wrong", total + offset as u64);
            }
        }
        total += length as u64;
        received.store(total, Ordering::Relaxed);
    }
}
