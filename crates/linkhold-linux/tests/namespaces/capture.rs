//! What arrives at an interface, as a packet socket sees it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_linux::netns::{NetNs, NetNsError};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// A packet from the IP header on, and when it was seen.
pub struct Captured {
    pub at: Instant,
    pub bytes: Vec<u8>,
}

/// A capture under way.
pub struct Capture {
    thread: JoinHandle<Result<Vec<Captured>, NetNsError>>,
    stop: Arc<AtomicBool>,
}

impl Capture {
    /// Captures everything on every interface of a namespace (both ways).
    pub fn start(netns: &NetNs) -> Self {
        let socket = netns.enter(open).expect("enter").expect("a packet socket");
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = netns.spawn("capture", move || collect(&socket, &ended)).expect("start the capture");
        Self { thread, stop }
    }

    /// Ends it.
    pub fn finish(self) -> Vec<Captured> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the capture's thread").expect("enter")
    }
}

fn open() -> nix::Result<OwnedFd> {
    // Datagram: without the Ethernet header.
    let fd = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    setsockopt(&fd, sockopt::RcvBufForce, &(32 << 20))?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20))?;
    Ok(fd)
}

fn collect(socket: &OwnedFd, stop: &AtomicBool) -> Vec<Captured> {
    let mut buffer = vec![0u8; 65_536];
    let mut all = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
        if let Ok(length) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            all.push(Captured { at: Instant::now(), bytes: buffer[..length].to_vec() });
        }
    }
    all
}
