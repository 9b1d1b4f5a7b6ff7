//! All interfaces of the calling thread's network namespace at once (rtnetlink(7), dumps): which stand on
//! which, and which carry IP.
//!
//! A dump of all routes may be long, so the kernel is asked for those of one interface only. It filters where
//! the socket asks for strict checks, since Linux 4.20 (net/ipv4/fib_frontend.c, `ip_valid_fib_dump_req`);
//! older kernels refuse the option, and then nothing is found out.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, parse_u32};
use netlink_packet_route::address::{AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::{ANSWER, Kind, TIME_LIMIT_MS, interface, request};

/// What an interface's frames are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// Ethernet, which Wi-Fi interfaces show, too (`ARPHRD_ETHER`).
    Ethernet,
    /// A PPP session (`ARPHRD_PPP`).
    Ppp,
    /// Something else.
    #[default]
    Other,
}

/// One of the namespace's interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What kind it is.
    pub kind: Kind,
    /// What its frames are.
    pub medium: Medium,
    /// True if it is switched on.
    pub is_up: bool,
    /// Index of the interface whose port it is.
    pub controller: Option<u32>,
    /// Index of the interface of this namespace that it stands on, and whose packets it takes over.
    pub lower: Option<u32>,
    /// True if it has an IPv4 address, or an IPv6 address beyond the one of its link.
    pub has_address: bool,
}

/// All interfaces.
///
/// # Errors
/// If the kernel does not tell.
pub fn members() -> io::Result<Vec<Member>> {
    let mut addressed = BTreeSet::new();
    dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |answer| {
        if let RouteNetlinkMessage::NewAddress(address) = answer
            && counts(address)
        {
            addressed.insert(address.header.index);
        }
        ControlFlow::Continue(())
    })?;
    let mut question = LinkMessage::default();
    question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    let mut all = Vec::new();
    dump(RouteNetlinkMessage::GetLink(question), |answer| {
        if let RouteNetlinkMessage::NewLink(link) = answer {
            let has_address = addressed.contains(&link.header.index);
            all.extend(member(link.clone(), has_address));
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// True if a route leads out by the interface, in whichever table, to more than the link itself.
///
/// # Errors
/// As [`members`].
pub fn has_route(index: u32) -> io::Result<bool> {
    let mut found = false;
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut question = RouteMessage::default();
        question.header.address_family = family;
        question.header.kind = RouteType::Unicast;
        question.attributes.push(RouteAttribute::Oif(index));
        dump(RouteNetlinkMessage::GetRoute(question), |answer| match answer {
            RouteNetlinkMessage::NewRoute(route) if leads_beyond_the_link(route) => {
                found = true;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
    }
    Ok(found)
}

/// The rules by which routes are looked up (`ip rule`), of one address family.
///
/// # Errors
/// As [`members`]; also where the kernel has no such rules, or not this family.
pub fn routing_rules(ipv6: bool) -> io::Result<Vec<RuleMessage>> {
    let mut question = RuleMessage::default();
    question.header.family = if ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let mut all = Vec::new();
    dump(RouteNetlinkMessage::GetRule(question), |answer| {
        if let RouteNetlinkMessage::NewRule(rule) = answer {
            all.push(rule.clone());
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

fn counts(address: &AddressMessage) -> bool {
    address.header.family == AddressFamily::Inet || address.header.scope != AddressScope::Link
}

/// False for what every IPv6 interface has: the routes to its link and to groups.
fn leads_beyond_the_link(route: &RouteMessage) -> bool {
    !route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet6(to)) => {
            to.is_unicast_link_local() || to.is_multicast()
        }
        _ => false,
    })
}

fn member(link: LinkMessage, has_address: bool) -> Option<Member> {
    let index = link.header.index;
    let is_up = link.header.flags.contains(LinkFlags::Up);
    let medium = match link.header.link_layer_type {
        LinkLayerType::Ether => Medium::Ethernet,
        LinkLayerType::Ppp => Medium::Ppp,
        _ => Medium::Other,
    };
    let lower = lower(&link);
    let own = interface(link)?;
    Some(Member {
        index,
        name: own.name,
        kind: own.kind,
        medium,
        is_up,
        controller: own.controller,
        lower,
        has_address,
    })
}

/// Index of the interface that this one stands on. `IFLA_LINK` says it, but a veth's names its peer and a
/// tunnel's the interface for its outer packets, so the kind decides. If the other interface is in another
/// namespace, its index means nothing here. Source: Linux, net/core/rtnetlink.c (`nla_put_iflink`,
/// `rtnl_fill_link_netnsid`).
fn lower(link: &LinkMessage) -> Option<u32> {
    let (mut lower, mut is_stacked) = (None, false);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Link(index) => lower = Some(*index),
            LinkAttribute::LinkNetNsId(_) => return None,
            LinkAttribute::LinkInfo(infos) => {
                is_stacked = infos.iter().any(|info| matches!(info, LinkInfo::Kind(kind) if stands(kind)));
            }
            _ => {}
        }
    }
    lower.filter(|_| is_stacked)
}

/// True if interfaces of this kind stand on another one.
fn stands(kind: &InfoKind) -> bool {
    matches!(
        kind,
        InfoKind::Vlan
            | InfoKind::MacVlan
            | InfoKind::MacVtap
            | InfoKind::IpVlan
            | InfoKind::IpVtap
            | InfoKind::MacSec
            | InfoKind::Ipoib
            | InfoKind::VirtWifi
            | InfoKind::Dsa
            | InfoKind::RmNet
    )
}

/// Asks for all of something, and hands over each answer until `take` has enough.
fn dump(
    question: RouteNetlinkMessage,
    mut take: impl FnMut(&RouteNetlinkMessage) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    // Connected to the kernel, the socket takes nothing from other processes.
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.set_netlink_get_strict_chk(true)?;
    // SAFETY: the descriptor is the socket's, which outlives this borrow.
    let descriptor = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
    setsockopt(&descriptor, sockopt::ReceiveTimeout, &TimeVal::milliseconds(TIME_LIMIT_MS))?;
    socket.send(&request(question, NLM_F_REQUEST | NLM_F_DUMP), 0)?;
    let mut buffer = vec![0; ANSWER];
    loop {
        let length = socket.recv(&mut buffer.as_mut_slice(), 0)?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((answer, after)) = split(rest) {
            rest = after;
            let answer = match NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer) {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(%error, "one of the kernel's answers cannot be read");
                    continue;
                }
            };
            match answer.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(inner) if take(&inner).is_break() => return Ok(()),
                _ => {}
            }
        }
    }
}

/// The first message of a datagram and what follows it; messages begin at multiples of four bytes
/// (`NLMSG_ALIGN`).
fn split(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = parse_u32(datagram.get(..4)?).ok()? as usize;
    let message = datagram.get(..length).filter(|message| !message.is_empty())?;
    Some((message, datagram.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(kind: Option<InfoKind>, attributes: &[LinkAttribute]) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName("one".to_owned()));
        link.attributes.extend(attributes.iter().cloned());
        link.attributes.extend(kind.map(|kind| LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)])));
        link
    }

    #[test]
    fn an_interface_stands_on_the_one_that_its_kind_says_in_the_same_namespace() {
        let on_7 = || LinkAttribute::Link(7);
        for (kind, attributes, expected) in [
            (Some(InfoKind::Vlan), vec![on_7()], Some(7)),
            (Some(InfoKind::MacVlan), vec![on_7()], Some(7)),
            (Some(InfoKind::MacVlan), vec![on_7(), LinkAttribute::LinkNetNsId(0)], None),
            (Some(InfoKind::Vlan), vec![], None),
            (Some(InfoKind::Veth), vec![on_7()], None),
            (Some(InfoKind::GreTap), vec![on_7()], None),
            (None, vec![on_7()], None),
        ] {
            let told = member(link(kind.clone(), &attributes), false).unwrap();
            assert_eq!(told.lower, expected, "{kind:?} {attributes:?}");
        }
    }

    #[test]
    fn an_address_or_a_route_of_the_link_alone_does_not_count() {
        let address = |family, scope| {
            let mut address = AddressMessage::default();
            (address.header.family, address.header.scope) = (family, scope);
            counts(&address)
        };
        assert!(address(AddressFamily::Inet, AddressScope::Link));
        assert!(address(AddressFamily::Inet6, AddressScope::Universe));
        assert!(!address(AddressFamily::Inet6, AddressScope::Link));
        let route = |to: Option<&str>| {
            let mut route = RouteMessage::default();
            let to = to.map(|to| RouteAddress::from(to.parse::<std::net::IpAddr>().unwrap()));
            route.attributes.extend(to.map(RouteAttribute::Destination));
            leads_beyond_the_link(&route)
        };
        assert!(route(None) && route(Some("10.0.0.0")) && route(Some("fd00::")));
        assert!(!route(Some("fe80::")) && !route(Some("ff00::")));
    }

    #[test]
    fn the_kernel_lists_its_loopback_and_its_routes() {
        let all = members().unwrap();
        let loopback = all.iter().find(|one| one.index == 1).unwrap();
        assert_eq!((loopback.name.as_str(), loopback.medium, loopback.lower), ("lo", Medium::Other, None));
        assert!(!has_route(u32::from(u16::MAX)).unwrap());
    }

    #[test]
    fn broken_lengths_end_a_datagram() {
        let message = |length: u32| [&length.to_ne_bytes()[..], &[1; 4]].concat();
        assert_eq!(split(&message(5)).map(|(one, rest)| (one.len(), rest.len())), Some((5, 0)));
        assert_eq!(split(&message(4)).map(|(one, rest)| (one.len(), rest.len())), Some((4, 4)));
        for length in [0, 9, u32::MAX] {
            assert_eq!(split(&message(length)), None, "{length}");
        }
        assert_eq!(split(&[8, 0]), None);
    }
}
