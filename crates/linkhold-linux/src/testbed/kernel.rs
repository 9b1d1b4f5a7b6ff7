//! What the kernel tells of its own TCP: the counters of a namespace and the windows of its sockets.
//!
//! Source: /proc/net/netstat and /proc/net/snmp (the counters `nstat` prints), sock_diag(7) (what `ss -ti`
//! reads).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::netns::{NetNs, NetNsError};

/// Counters that tell what a silence did to a sender.
pub const COUNTERS: [&str; 15] = [
    "RetransSegs",
    "TCPTimeouts",
    "TCPSpuriousRTOs",
    "TCPSpuriousRtxHostQueues",
    "TCPLossProbes",
    "TCPLossProbeRecovery",
    "TCPRenoRecovery",
    "TCPSackRecovery",
    "TCPLostRetransmit",
    "TCPFullUndo",
    "TCPPartialUndo",
    "TCPDSACKUndo",
    "TCPLossUndo",
    "TCPFromZeroWindowAdv",
    "TCPWinProbe",
];

/// The counters of [`COUNTERS`] by name.
pub type Counters = BTreeMap<String, u64>;

/// The kernel's release, as `uname -r` has it.
#[must_use]
pub fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Reads a namespace's counters.
///
/// # Errors
/// [`NetNsError`] if the namespace cannot be entered.
pub fn counters(netns: &NetNs) -> Result<Counters, NetNsError> {
    netns.enter(|| {
        // `thread-self`: `/proc/net` itself shows the namespace of the process's first thread.
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let mut all = parse_counters(&read("netstat"));
        all.extend(parse_counters(&read("snmp")));
        all.retain(|name, _| COUNTERS.contains(&name.as_str()));
        all
    })
}

/// What was counted between two readings.
#[must_use]
pub fn difference(before: &Counters, after: &Counters) -> Counters {
    after
        .iter()
        .map(|(name, value)| (name.clone(), value.saturating_sub(before.get(name).copied().unwrap_or(0))))
        .collect()
}

/// Pairs of lines: names, then values, under the same first word.
fn parse_counters(text: &str) -> Counters {
    let mut counters = Counters::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
            if let Ok(value) = value.parse() {
                counters.insert(name.to_owned(), value);
            }
        }
    }
    counters
}

/// One TCP connection of a sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// Local address; `None` if it could not be read.
    pub local: Option<IpAddr>,
    /// Remote address.
    pub peer: Option<IpAddr>,
    /// Local port.
    pub local_port: u16,
    /// Remote port.
    pub peer_port: u16,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` while infinite.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time, us.
    pub rtt_us: u32,
    /// Retransmission timeout, us.
    pub rto_us: u32,
    /// Segments in flight.
    pub unacked: u32,
    /// Receive window last heard from the peer, bytes; kernels before 5.17 do not tell.
    pub send_window: Option<u32>,
    /// Retransmission timeouts since the connection was opened, of the handshake too, but without those while
    /// the peer's window was zero (`tcp_retransmit_timer`); kernels before 6.7 do not tell.
    pub timeouts: Option<u16>,
}

/// Reads the connections of a namespace as `ss -ti` does, without starting a program for each look.
pub struct Sockets {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// NETLINK_SOCK_DIAG's one request (linux/sock_diag.h).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// End of a dump, and an error (linux/netlink.h).
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
/// Request, and dump: NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH.
const DUMP: u16 = 0x301;
/// The attribute with `struct tcp_info` (linux/inet_diag.h).
const INET_DIAG_INFO: u16 = 2;
/// The states in which a connection may have data to send again (net/tcp_states.h): TCP_ESTABLISHED,
/// TCP_FIN_WAIT1, TCP_CLOSE_WAIT, TCP_LAST_ACK and TCP_CLOSING. A server that has written everything closes
/// its end while the last of it is under way.
const SENDING: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
/// Lengths of `nlmsghdr`, `inet_diag_req_v2`, `inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
/// Answers come in pieces of at most this many bytes.
const PIECE: usize = 32 * 1024;

impl Sockets {
    /// Opens a netlink socket in `netns`.
    ///
    /// # Errors
    /// [`NetNsError`] if the namespace cannot be entered or has no socket diagnostics.
    pub fn open(netns: &NetNs) -> Result<Self, NetNsError> {
        netns.enter(Self::open_here)?.map_err(|errno| NetNsError::System {
            what: "open socket diagnostics".to_owned(),
            source: errno.into(),
        })
    }

    fn open_here() -> nix::Result<Self> {
        use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            Some(SockProtocol::NetlinkSockDiag),
        )?;
        Ok(Self { socket, buffer: vec![0; PIECE] })
    }

    /// The connections that may send data now, of both families.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&mut self) -> std::io::Result<Vec<Socket>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            self.dump(family, &mut found)?;
        }
        Ok(found)
    }

    fn dump(&mut self, family: u8, found: &mut Vec<Socket>) -> std::io::Result<()> {
        use nix::sys::socket::{MsgFlags, recv, send};
        let mut request = [0_u8; HEADER + REQUEST];
        request[0..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
        request[HEADER] = family;
        request[HEADER + 1] = libc::IPPROTO_TCP as u8;
        request[HEADER + 2] = 1 << (INET_DIAG_INFO - 1);
        request[HEADER + 4..HEADER + 8].copy_from_slice(&SENDING.to_ne_bytes());
        send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
        loop {
            let len = recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
            if !parse_dump(self.buffer.get(..len).unwrap_or_default(), found) {
                return Ok(());
            }
        }
    }
}

/// Adds the connections in one piece of a dump to `found`; answers whether more pieces follow.
fn parse_dump(mut piece: &[u8], found: &mut Vec<Socket>) -> bool {
    while let (Some(len), Some(kind)) = (u32_at(piece, 0), u16_at(piece, 4)) {
        if kind == NLMSG_DONE || kind == NLMSG_ERROR {
            return false;
        }
        let len = len as usize;
        let Some(body) = piece.get(HEADER..len) else { return false };
        found.extend(parse_message(body));
        let Some(rest) = piece.get(len.next_multiple_of(4)..) else { return true };
        piece = rest;
    }
    true
}

/// `struct inet_diag_msg`, then attributes.
fn parse_message(message: &[u8]) -> Option<Socket> {
    let port = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let (local_port, peer_port) = (port(4)?, port(6)?);
    let (v4, v6) = (libc::AF_INET as u8, libc::AF_INET6 as u8);
    let address = |at: usize| match message.first() {
        Some(&family) if family == v4 => Some(IpAddr::from(*message.get(at..)?.first_chunk::<4>()?)),
        // A listener on both families has the connections of IPv4 as mapped addresses of IPv6.
        Some(&family) if family == v6 => {
            Some(IpAddr::from(*message.get(at..)?.first_chunk::<16>()?).to_canonical())
        }
        _ => None,
    };
    let mut attributes = message.get(MESSAGE..)?;
    while let (Some(len), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let len = usize::from(len).max(4);
        if kind == INET_DIAG_INFO {
            let info = attributes.get(4..len)?;
            // Offsets in `struct tcp_info` (linux/tcp.h); it only ever grows at its end.
            let field = |at: usize| u32_at(info, at);
            return Some(Socket {
                local: address(8),
                peer: address(24),
                local_port,
                peer_port,
                cwnd: field(80)?,
                // 0x7fffffff is the kernel's infinity.
                ssthresh: field(76).filter(|&segments| segments < 0x7fff_ffff),
                rtt_us: field(68)?,
                rto_us: field(8)?,
                unacked: field(24)?,
                send_window: field(228),
                timeouts: u16_at(info, 240),
            });
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_pairs_of_lines() {
        let text =
            "TcpExt: SyncookiesSent TCPTimeouts TCPSpuriousRTOs\nTcpExt: 0 7 3\nIpExt: InOctets\nIpExt: 99\n";
        let counters = parse_counters(text);
        assert_eq!(counters["TCPTimeouts"], 7);
        assert_eq!(counters["InOctets"], 99);
        let later = parse_counters("TcpExt: TCPTimeouts\nTcpExt: 9\n");
        assert_eq!(difference(&counters, &later)["TCPTimeouts"], 2);
    }

    #[test]
    fn a_connections_window_is_read_from_the_kernel() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, peer) = (client.local_addr().unwrap().port(), listener.local_addr().unwrap().port());
        let all = Sockets::open_here().unwrap().read().unwrap();
        let socket = all.iter().find(|s| (s.local_port, s.peer_port) == (local, peer)).unwrap();
        // RFC 6928's initial window; nothing was lost yet.
        assert_eq!((socket.cwnd, socket.ssthresh, socket.unacked), (10, None, 0));
        assert!(socket.rto_us >= 200_000 && socket.send_window.is_none_or(|window| window > 10_000));
        assert!(socket.timeouts.is_none_or(|timeouts| timeouts == 0), "{socket:?}");
        let loopback = Some(IpAddr::from([127, 0, 0, 1]));
        assert_eq!((socket.local, socket.peer), (loopback, loopback));
    }

    #[test]
    fn a_connection_of_ipv4_at_a_listener_on_both_families_has_its_own_address() {
        let Ok(listener) = std::net::TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, 0)) else { return };
        let server = listener.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, server)).unwrap();
        let (served, _) = listener.accept().unwrap();
        let all = Sockets::open_here().unwrap().read().unwrap();
        let ports = (served.local_addr().unwrap().port(), client.local_addr().unwrap().port());
        let socket = all.iter().find(|s| (s.local_port, s.peer_port) == ports).unwrap();
        assert_eq!(socket.peer, Some(IpAddr::from([127, 0, 0, 1])));
    }

    #[test]
    fn a_connection_whose_sender_has_closed_is_still_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, _) = listener.accept().unwrap();
        let ports = (client.local_addr().unwrap().port(), listener.local_addr().unwrap().port());
        // The receiver does not read. So the end of the stream waits in the sender, which is closed.
        client.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut &client, &[0; 65_536]).is_ok() {}
        drop(client);
        let all = Sockets::open_here().unwrap().read().unwrap();
        assert!(all.iter().any(|s| (s.local_port, s.peer_port) == ports), "{all:?}");
        drop(served);
    }

    #[test]
    fn a_broken_answer_is_no_socket() {
        let mut found = Vec::new();
        assert!(!parse_dump(&[255; 40], &mut found) && found.is_empty());
        assert!(parse_dump(&[], &mut found) && parse_message(&[0; 71]).is_none());
        assert_eq!(parse_message(&[0; 80]), None, "an attribute of length 0 must not stop the reader");
    }
}
