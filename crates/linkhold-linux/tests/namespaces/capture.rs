//! What crosses an interface, as a packet socket sees it, with the kernel's own time of each packet, since
//! when this thread reads a packet depends on the host's load (socket(7), SO_TIMESTAMPNS; packet(7)).

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linkhold_linux::netns::{NetNs, NetNsError};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal, TimeValLike};

/// linux/if_packet.h
const PACKET_STATISTICS: libc::c_int = 6;

/// Packets sent to see whether the kernel stamps them, a millisecond apart.
const MOST_LOOKS: u32 = 10_000;

/// A packet from the IP header on, and when it crossed (the kernel's wall clock).
pub struct Captured {
    pub at: SystemTime,
    pub bytes: Vec<u8>,
}

/// A capture under way; it ends when dropped.
pub struct Capture {
    thread: Option<JoinHandle<Result<Vec<Captured>, NetNsError>>>,
    stop: Arc<AtomicBool>,
}

impl Capture {
    /// Captures everything on every interface of a namespace (both ways).
    pub fn start(netns: &NetNs) -> Self {
        Self::on(netns, None)
    }

    /// Captures everything on one interface of a namespace (both ways). A packet that leaves by it is stamped
    /// while its sender sends it; one that comes in, when a processor takes it from the backlog, which on a
    /// busy host is much later than when it was sent.
    pub fn at(netns: &NetNs, interface: &'static str) -> Self {
        Self::on(netns, Some(interface))
    }

    fn on(netns: &NetNs, interface: Option<&'static str>) -> Self {
        let socket = netns.enter(move || open(interface)).expect("enter").expect("a packet socket");
        netns.enter(wait_for_timestamps).expect("enter").expect("the kernel stamps packets");
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = netns.spawn("capture", move || collect(&socket, &ended)).expect("start the capture");
        Self { thread: Some(thread), stop }
    }

    /// Ends the capture once everything that has crossed by now is read.
    pub fn finish(mut self) -> Vec<Captured> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("a capture is finished once");
        thread.join().expect("the capture's thread").expect("enter")
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn open(interface: Option<&str>) -> nix::Result<OwnedFd> {
    // Datagram: without the Ethernet header.
    let fd = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    if let Some(interface) = interface {
        bind(&fd, nix::net::if_::if_nametoindex(interface)?)?;
    }
    setsockopt(&fd, sockopt::RcvBufForce, &(64 << 20))?;
    setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20))?;
    Ok(fd)
}

/// Leaves a packet socket only what crosses one interface; what has come from others before is thrown away.
fn bind(fd: &OwnedFd, interface: libc::c_uint) -> nix::Result<()> {
    // SAFETY: all zeros is a valid address of this family.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface as libc::c_int;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer leads to this stack frame, and the length is the address's.
    Errno::result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
    let mut byte = [0; 1];
    while nix::sys::socket::recv(fd.as_raw_fd(), &mut byte, MsgFlags::MSG_DONTWAIT).is_ok() {}
    Ok(())
}

/// Waits until the kernel stamps packets as they cross. The kernel begins some time after the first socket
/// asked for stamps: `net_enable_timestamp` leaves that to a worker, which may have to wait for a processor.
/// A packet that crossed before then bears the time at which it is read (`__sock_recv_timestamp`), and would
/// seem to have crossed late.
fn wait_for_timestamps() -> nix::Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(errno)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    let own = socket.local_addr().map_err(errno)?;
    let mut buffer = [0; 1];
    for _ in 0..MOST_LOOKS {
        socket.send_to(&[0], own).map_err(errno)?;
        let sent = SystemTime::now();
        std::thread::sleep(Duration::from_millis(1));
        if receive(&socket, &mut buffer)?.is_some_and(|packet| packet.at <= sent) {
            return Ok(());
        }
    }
    Err(Errno::ETIME)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

fn collect(socket: &OwnedFd, stop: &AtomicBool) -> Vec<Captured> {
    let mut buffer = vec![0u8; 65_536];
    let mut all = Vec::new();
    loop {
        // The flag is read before the socket, so that everything is read that crossed before the flag was
        // set.
        let ending = stop.load(Ordering::Relaxed);
        match receive(socket, &mut buffer) {
            Ok(Some(packet)) => all.push(packet),
            Ok(None) if ending => break,
            Ok(None) => {}
            Err(errno) => panic!("the capture broke: {errno}"),
        }
    }
    assert_eq!(lost(socket), 0, "the capture was too slow, and lost packets");
    all
}

/// The next packet; `None` if none came for a while.
fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> nix::Result<Option<Captured>> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty()) {
        Ok(message) => message,
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let at = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(at) => Some(UNIX_EPOCH + Duration::from(at)),
        _ => None,
    });
    let at = at.expect("SO_TIMESTAMPNS is set");
    let length = message.bytes;
    Ok(Some(Captured { at, bytes: buffer[..length].to_vec() }))
}

/// How many packets found no room in the socket.
fn lost(socket: &OwnedFd) -> libc::c_uint {
    // struct tpacket_stats: packets seen, packets lost.
    let mut statistics: [libc::c_uint; 2] = [0; 2];
    let mut length = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: the pointers lead to this stack frame, and the length is the buffer's.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            statistics.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(answer, 0, "PACKET_STATISTICS: {}", std::io::Error::last_os_error());
    statistics[1]
}
