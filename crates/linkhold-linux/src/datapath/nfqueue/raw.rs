//! Raw sockets: how packets of the agent's own go out (raw(7)).

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt};

pub(super) fn raw_socket(family: AddressFamily, mark: u32) -> Result<OwnedFd, Errno> {
    // IPPROTO_RAW means "the header is included" for both families (raw(7), net/ipv6/af_inet6.c).
    let fd = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
    setsockopt(&fd, sockopt::Mark, &mark)?;
    // Nothing is ever read: a receive buffer as small as can be.
    setsockopt(&fd, sockopt::RcvBuf, &0)?;
    Ok(fd)
}

/// The destination in an IP header.
pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
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
}
