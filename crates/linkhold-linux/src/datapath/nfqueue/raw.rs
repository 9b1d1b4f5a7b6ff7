//! Raw sockets: how packets of the agent's own go out (raw(7), IP_HDRINCL).
//!
//! Such packets pass OUTPUT and POSTROUTING, where a NAT on the router treats them like the flow's own if
//! they bear a header that conntrack knows (`conntrack.rs`). They never pass FORWARD, where the queue rule
//! is. They carry a mark for the operator's rules.

use std::net::{IpAddr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto, setsockopt,
    socket, sockopt,
};

/// One socket for each address family.
#[derive(Debug)]
pub(super) struct RawSockets {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl RawSockets {
    /// Opens sockets whose packets carry `mark` (SO_MARK). A machine without IPv6 gets only the IPv4 socket.
    pub(super) fn open(mark: u32) -> Result<Self, Errno> {
        let v4 = raw_socket(AddressFamily::Inet, mark)?;
        let v6 = raw_socket(AddressFamily::Inet6, mark)
            .inspect_err(|errno| {
                tracing::warn!(%errno, "no raw IPv6 socket: IPv6 flows get no injected acknowledgments");
            })
            .ok();
        Ok(Self { v4, v6 })
    }

    /// Sends a whole IP packet to the destination in its header, without waiting; to a link-local address by
    /// `bridge` (index of the interface), since each link may have its own host of that address (RFC 4007).
    pub(super) fn send(&self, packet: &[u8], bridge: u32) -> Result<(), Errno> {
        match destination(packet).ok_or(Errno::EINVAL)? {
            IpAddr::V4(addr) => {
                let to = SockaddrIn::from(SocketAddrV4::new(addr, 0));
                sendto(self.v4.as_raw_fd(), packet, &to, MsgFlags::MSG_DONTWAIT)
            }
            IpAddr::V6(addr) => {
                let to = SockaddrIn6::from(SocketAddrV6::new(addr, 0, 0, scope(addr, bridge)));
                let v6 = self.v6.as_ref().ok_or(Errno::EAFNOSUPPORT)?;
                sendto(v6.as_raw_fd(), packet, &to, MsgFlags::MSG_DONTWAIT)
            }
        }
        .map(|_| ())
    }
}

fn raw_socket(family: AddressFamily, mark: u32) -> Result<OwnedFd, Errno> {
    // IPPROTO_RAW means "the header is included" for both families (raw(7), net/ipv6/af_inet6.c).
    let fd = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
    setsockopt(&fd, sockopt::Mark, &mark)?;
    // Nothing is ever read: a receive buffer as small as can be.
    setsockopt(&fd, sockopt::RcvBuf, &0)?;
    Ok(fd)
}

/// The interface that a destination of IPv6 needs; 0: the routes say.
fn scope(addr: Ipv6Addr, bridge: u32) -> u32 {
    if addr.is_unicast_link_local() { bridge } else { 0 }
}

/// The destination in an IP header.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(16..20)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        6 => packet.get(24..40)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_is_read_from_either_family() {
        let mut v4 = [0u8; 20];
        v4[0] = 0x45;
        v4[16..20].copy_from_slice(&[10, 0, 0, 1]);
        assert_eq!(destination(&v4), Some(IpAddr::from([10, 0, 0, 1])));
        let mut v6 = [0u8; 40];
        v6[0] = 0x60;
        v6[39] = 1;
        assert_eq!(destination(&v6), "::1".parse().ok());
        assert_eq!(destination(&[0x60; 30]), None);
        assert_eq!(destination(&[]), None);
    }

    #[test]
    fn only_link_local_destinations_need_an_interface() {
        for (addr, wanted) in
            [("fe80::1", 7), ("febf::1", 7), ("fec0::1", 0), ("fd91:2::2", 0), ("2001:db8::1", 0)]
        {
            assert_eq!(scope(addr.parse().expect("an address"), 7), wanted, "{addr}");
        }
    }
}
