//! The machine's network interfaces, as the kernel tells them (rtnetlink(7), RTM_GETLINK): which there are,
//! and which are ports of a bridge or of a bond.
//!
//! Asked by a socket, not read in /sys: /sys shows the network namespace in which it was mounted.

pub mod survey;

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoBridge, InfoData, InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Longest answer, bytes. An interface with its statistics takes about 2,000.
const ANSWER: usize = 64 * 1024;
/// The kernel answers at once.
const TIME_LIMIT_MS: i64 = 200;

/// What kind of interface it is, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bridge, with what of its own settings decides which packets it hands to the firewall.
    Bridge {
        /// IPv4 packets (`nf_call_iptables`).
        ipv4: bool,
        /// IPv6 packets (`nf_call_ip6tables`).
        ipv6: bool,
        /// Its ports belong to VLANs, and frames may have tags inside it (`vlan_filtering`).
        filters_vlans: bool,
    },
    /// A routing domain (VRF): the firewall sees what its ports forward as coming in by the VRF, and as going
    /// out by the port. Source: Linux, drivers/net/vrf.c (`vrf_ip_rcv`, `vrf_ip6_rcv`) and
    /// net/ipv4/ip_forward.c.
    Vrf,
    /// Something else.
    Other,
}

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index. No other interface of the namespace has it later: one that was made anew has another.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What kind it is.
    pub kind: Kind,
    /// Index of the interface whose port it is.
    pub controller: Option<u32>,
    /// The largest aggregate that it makes or takes, bytes. Source: Linux, if_link.h (`IFLA_GRO_MAX_SIZE`,
    /// `IFLA_GSO_MAX_SIZE` and both for IPv4).
    pub largest_aggregate: u32,
}

/// Where interfaces are looked up.
pub trait Lookup {
    /// The interface of this name.
    ///
    /// # Errors
    /// If the kernel does not tell; an interface that is not there is no error.
    fn named(&self, name: &str) -> io::Result<Option<Interface>>;

    /// The interface with this index.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    fn at(&self, index: u32) -> io::Result<Option<Interface>>;
}

/// Interfaces of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Kernel {
    socket: OwnedFd,
    buffer: RefCell<Vec<u8>>,
}

impl Kernel {
    /// Opens the socket.
    ///
    /// # Errors
    /// What the system answers.
    pub fn open() -> io::Result<Self> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::milliseconds(TIME_LIMIT_MS))?;
        Ok(Self { socket: fd, buffer: RefCell::new(vec![0; ANSWER]) })
    }

    fn ask(&self, link: LinkMessage) -> io::Result<Option<Interface>> {
        let bytes = request(RouteNetlinkMessage::GetLink(link), NLM_F_REQUEST);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut buffer = self.buffer.borrow_mut();
        let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let answer = buffer.get(..length).unwrap_or_default();
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(interface(link)),
            NetlinkPayload::Error(error) => match error.to_io() {
                error if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
                error => Err(error),
            },
            _ => Err(io::Error::other("the kernel's answer is about no interface")),
        }
    }
}

impl Lookup for Kernel {
    fn named(&self, name: &str) -> io::Result<Option<Interface>> {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.ask(link)
    }

    fn at(&self, index: u32) -> io::Result<Option<Interface>> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.ask(link)
    }
}

/// A question to the kernel as it goes over the socket.
fn request(question: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(question));
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn interface(link: LinkMessage) -> Option<Interface> {
    let index = link.header.index;
    let (mut name, mut controller, mut infos, mut largest_aggregate) = (None, None, Vec::new(), 0);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(told) => name = Some(told),
            LinkAttribute::Controller(index) => controller = (index > 0).then_some(index),
            LinkAttribute::LinkInfo(told) => infos = told,
            LinkAttribute::GroMaxSize(bytes)
            | LinkAttribute::GroIpv4MaxSize(bytes)
            | LinkAttribute::GsoMaxSize(bytes)
            | LinkAttribute::GsoIpv4MaxSize(bytes) => largest_aggregate = bytes.max(largest_aggregate),
            _ => {}
        }
    }
    let mut kind = Kind::Other;
    for info in infos {
        match (info, &mut kind) {
            (LinkInfo::Kind(InfoKind::Bridge), _) => {
                kind = Kind::Bridge { ipv4: false, ipv6: false, filters_vlans: false };
            }
            (LinkInfo::Kind(InfoKind::Vrf), _) => kind = Kind::Vrf,
            (LinkInfo::Data(InfoData::Bridge(settings)), Kind::Bridge { ipv4, ipv6, filters_vlans }) => {
                for setting in settings {
                    match setting {
                        InfoBridge::NfCallIpTables(on) => *ipv4 = on,
                        InfoBridge::NfCallIp6Tables(on) => *ipv6 = on,
                        InfoBridge::VlanFiltering(on) => *filters_vlans = on,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(Interface { index, name: name?, kind, controller, largest_aggregate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_its_loopback_and_no_other_name() {
        let kernel = Kernel::open().unwrap();
        let loopback = kernel.named("lo").unwrap().unwrap();
        assert_eq!((loopback.name.as_str(), &loopback.kind, loopback.controller), ("lo", &Kind::Other, None));
        assert_eq!(loopback.index, 1);
        assert_eq!(kernel.at(1).unwrap().map(|one| one.name), Some("lo".to_owned()));
        assert_eq!(kernel.named("linkhold-none").unwrap(), None);
        assert_eq!(kernel.at(u32::from(u16::MAX)).unwrap(), None);
    }
}
