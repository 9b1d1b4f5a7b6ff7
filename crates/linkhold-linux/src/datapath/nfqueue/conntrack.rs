//! The header under which conntrack knows a packet, asked of the kernel
//! (linux/netfilter/nfnetlink_conntrack.h).
//!
//! At FORWARD, where the agent sees packets, destinations are translated already and sources not yet. A
//! packet of the agent's own bears such a header, too, and passes LOCAL_OUT, where conntrack looks it up. If
//! its destination was translated (the answers to a masqueraded connection; the packets of a forwarded port),
//! that header is none of the connection's two: conntrack takes the packet for a new connection, which
//! clashes with the one that is there, and gives it another source port. The far end then takes it for a
//! stranger's.
//!
//! So the agent asks conntrack just before it sends a packet. If the header is one of a connection's two, or
//! none is known in either direction, the packet goes as it is. If only the opposite header is known, the
//! packet gets the header with which a packet of its direction arrives at the router, and the kernel
//! translates it as it does the flow's own (`nf_nat_ipv4_local_fn` translates the destination and routes
//! anew, POSTROUTING the source).
//!
//! Why not send such packets untracked (`CT --notrack`): that takes a rule in the table `raw` for each
//! backend, a second mark, and this question all the same, since a packet of the other direction that is
//! untracked leaves with a private address. Why not `NFQA_CFG_F_CONNTRACK`: it adds the answer to every
//! packet that crosses the router, while the agent's own are few.
//!
//! Where source and destination are both translated (a port forwarded and masqueraded as well), neither
//! header is known, and the packet goes as it is. So it does where the kernel lacks `nf_conntrack_netlink`,
//! with a warning at the first packet. If the connection ends between question and sending, the packet is the
//! router's own business, as any late packet is.

use core::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use linkhold_core::packet::Endpoint;
use linkhold_wire::{parse_ip_tcp_headers, set_endpoints};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

use super::message::{
    ATTRIBUTE_HEADER, NFGEN_HEADER, NLA_TYPE_MASK, NLM_F_REQUEST, NLMSG_ERROR, NLMSG_HEADER, begin_message,
    end_message, message_type, native_i32, put_attribute,
};

// linux/netfilter/nfnetlink.h and nfnetlink_conntrack.h
const NFNL_SUBSYS_CTNETLINK: u16 = 1;
const IPCTNL_MSG_CT_NEW: u16 = NFNL_SUBSYS_CTNETLINK << 8;
const IPCTNL_MSG_CT_GET: u16 = NFNL_SUBSYS_CTNETLINK << 8 | 1;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const NLA_F_NESTED: u16 = 0x8000;

/// Room for the kernel's answer about one connection, bytes; more than it writes.
const ANSWER: usize = 4096;
/// Messages that are read until the answer comes. There is one of each question, and one more if an answer
/// was too late.
const MOST_READS: usize = 4;

/// What conntrack knows a packet by: its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuple {
    src: Endpoint,
    dst: Endpoint,
}

impl Tuple {
    const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src }
    }
}

/// The socket on which conntrack is asked.
#[derive(Debug)]
pub(super) struct Conntrack {
    socket: OwnedFd,
    /// The kernel can be asked, as far as is known.
    answers: bool,
    message: Vec<u8>,
    packet: Vec<u8>,
}

impl Conntrack {
    /// Opens the socket in the calling thread's network namespace, for packets of up to `longest` bytes.
    pub(super) fn open(longest: usize) -> Result<Self, Errno> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        let (message, packet) = (Vec::with_capacity(ANSWER), Vec::with_capacity(longest));
        Ok(Self { socket, answers: true, message, packet })
    }

    /// The packet as the kernel must be given it, where that is not as it is.
    pub(super) fn as_it_arrives(&mut self, packet: &[u8]) -> Option<&[u8]> {
        let parsed = parse_ip_tcp_headers(packet).ok()?;
        let Tuple { src, dst } = self.arriving(Tuple { src: parsed.src, dst: parsed.dst })?;
        self.packet.clear();
        self.packet.extend_from_slice(packet);
        set_endpoints(&mut self.packet, src, dst).ok()?;
        Some(&self.packet)
    }

    /// The header with which packets of this direction arrive, if conntrack knows the connection by the
    /// header of the opposite direction only.
    fn arriving(&mut self, forwarded: Tuple) -> Option<Tuple> {
        if !self.answers || self.ask(forwarded)?.is_some() {
            return None;
        }
        let opposite = forwarded.reversed();
        let [original, reply] = self.ask(opposite)??;
        if original == opposite { Some(reply) } else { Some(original) }
    }

    /// The tuples, original and reply, of the connection that has this one; `Some(None)` if there is no such
    /// connection, `None` if there is no answer.
    fn ask(&mut self, tuple: Tuple) -> Option<Option<[Tuple; 2]>> {
        self.message.clear();
        put_question(&mut self.message, tuple);
        send(self.socket.as_raw_fd(), &self.message, MsgFlags::MSG_DONTWAIT).ok()?;
        // The kernel answers while it takes the question.
        for _ in 0..MOST_READS {
            self.message.resize(ANSWER, 0);
            let length = recv(self.socket.as_raw_fd(), &mut self.message, MsgFlags::MSG_DONTWAIT).ok()?;
            let answer = self.message.get(..length)?;
            match read_answer(answer) {
                Answer::Connection(tuples) if tuples.contains(&tuple) => return Some(Some(tuples)),
                Answer::Error(errno) if errno == libc::ENOENT => return Some(None),
                // It passes: the next packet asks again.
                Answer::Error(libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN | libc::EBUSY | libc::EINTR) => {
                    return None;
                }
                Answer::Error(errno) => {
                    let error = Errno::from_raw(errno);
                    tracing::warn!(
                        %error,
                        "conntrack cannot be asked (module nf_conntrack_netlink): if this router translates addresses, \
                         copies and acknowledgments that go to the translated side are not taken for their flow's"
                    );
                    self.answers = false;
                    return None;
                }
                Answer::Connection(_) | Answer::Other => {}
            }
        }
        None
    }
}

/// A message of the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// A connection's original and reply tuples.
    Connection([Tuple; 2]),
    /// The question was refused with this error.
    Error(i32),
    Other,
}

fn put_question(out: &mut Vec<u8>, tuple: Tuple) {
    let family = if tuple.src.addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let start = begin_message(out, IPCTNL_MSG_CT_GET, NLM_F_REQUEST, family as u8, 0);
    put_nested(out, CTA_TUPLE_ORIG, |out| {
        put_nested(out, CTA_TUPLE_IP, |out| {
            for (addr, v4, v6) in [
                (tuple.src.addr, CTA_IP_V4_SRC, CTA_IP_V6_SRC),
                (tuple.dst.addr, CTA_IP_V4_DST, CTA_IP_V6_DST),
            ] {
                match addr {
                    IpAddr::V4(addr) => put_attribute(out, v4, &addr.octets()),
                    IpAddr::V6(addr) => put_attribute(out, v6, &addr.octets()),
                }
            }
        });
        put_nested(out, CTA_TUPLE_PROTO, |out| {
            put_attribute(out, CTA_PROTO_NUM, &[libc::IPPROTO_TCP as u8]);
            put_attribute(out, CTA_PROTO_SRC_PORT, &tuple.src.port.to_be_bytes());
            put_attribute(out, CTA_PROTO_DST_PORT, &tuple.dst.port.to_be_bytes());
        });
    });
    end_message(out, start);
}

fn put_nested(out: &mut Vec<u8>, kind: u16, inner: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put_attribute(out, kind | NLA_F_NESTED, &[]);
    inner(out);
    let length = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&length.to_ne_bytes());
}

fn read_answer(message: &[u8]) -> Answer {
    match message_type(message) {
        Some(NLMSG_ERROR) => native_i32(message, NLMSG_HEADER)
            .and_then(i32::checked_neg)
            .filter(|errno| *errno > 0)
            .map_or(Answer::Other, Answer::Error),
        Some(IPCTNL_MSG_CT_NEW) => {
            let body = message.get(NLMSG_HEADER + NFGEN_HEADER..).unwrap_or(&[]);
            let tuple = |kind| attribute(body, kind).and_then(read_tuple);
            match (tuple(CTA_TUPLE_ORIG), tuple(CTA_TUPLE_REPLY)) {
                (Some(original), Some(reply)) => Answer::Connection([original, reply]),
                _ => Answer::Other,
            }
        }
        Some(_) | None => Answer::Other,
    }
}

fn read_tuple(bytes: &[u8]) -> Option<Tuple> {
    let (ip, proto) = (attribute(bytes, CTA_TUPLE_IP)?, attribute(bytes, CTA_TUPLE_PROTO)?);
    let addr = |v4, v6| match attribute(ip, v4) {
        Some(octets) => octets.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        None => attribute(ip, v6)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
    };
    let port = |kind| attribute(proto, kind)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    Some(Tuple {
        src: Endpoint { addr: addr(CTA_IP_V4_SRC, CTA_IP_V6_SRC)?, port: port(CTA_PROTO_SRC_PORT)? },
        dst: Endpoint { addr: addr(CTA_IP_V4_DST, CTA_IP_V6_DST)?, port: port(CTA_PROTO_DST_PORT)? },
    })
}

/// The value of the first attribute of this kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let header = bytes.first_chunk::<ATTRIBUTE_HEADER>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        if u16::from_ne_bytes([header[2], header[3]]) & NLA_TYPE_MASK == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endpoint(addr: &str, port: u16) -> Endpoint {
        Endpoint { addr: addr.parse().unwrap(), port }
    }

    /// What the kernel answers: as a question, with the reply's tuple behind the original's.
    fn connection(original: Tuple, reply: Tuple) -> Vec<u8> {
        let mut out = Vec::new();
        put_question(&mut out, original);
        let second = out.len();
        let mut other = Vec::new();
        put_question(&mut other, reply);
        out.extend_from_slice(&other[NLMSG_HEADER + NFGEN_HEADER..]);
        out[second + 2..second + 4].copy_from_slice(&(CTA_TUPLE_REPLY | NLA_F_NESTED).to_ne_bytes());
        out[4..6].copy_from_slice(&IPCTNL_MSG_CT_NEW.to_ne_bytes());
        out
    }

    #[test]
    fn a_question_has_the_kernels_layout() {
        let mut out = Vec::new();
        let tuple = Tuple { src: endpoint("10.0.0.1", 0x0102), dst: endpoint("10.0.0.2", 443) };
        put_question(&mut out, tuple);
        assert_eq!(native_i32(&out, 0), Some(out.len() as i32));
        assert_eq!((message_type(&out), out[16]), (Some(0x0101), libc::AF_INET as u8));
        // Header of the tuple; IP part with two addresses; protocol part with three values of 8 bytes each.
        assert_eq!(out.len(), 20 + 4 + (4 + 8 + 8) + (4 + 8 + 8 + 8));
        assert_eq!(&out[20..24], [52, 0, 1, 0x80]);
        assert_eq!(&out[28..36], [8, 0, 1, 0, 10, 0, 0, 1]);
        assert_eq!(&out[56..64], [6, 0, 2, 0, 1, 2, 0, 0]);
    }

    #[test]
    fn an_answer_is_a_connection_or_an_error() {
        for hosts in [["10.0.0.1", "10.0.0.2", "192.0.2.1"], ["fd00::1", "fd00::2", "2001:db8::1"]] {
            let [station, server, router] = hosts.map(|addr| endpoint(addr, 4000));
            let (original, reply) = (Tuple { src: station, dst: server }, Tuple { src: server, dst: router });
            assert_eq!(read_answer(&connection(original, reply)), Answer::Connection([original, reply]));
        }
        let mut error = vec![0; 36];
        error[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert_eq!(read_answer(&error), Answer::Other, "an acknowledgment");
        error[16..20].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        assert_eq!(read_answer(&error), Answer::Error(libc::ENOENT));
    }

    proptest! {
        #[test]
        fn no_message_makes_the_reader_panic(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            cut: prop::sample::Index,
        ) {
            let tuple = Tuple { src: endpoint("10.0.0.1", 1), dst: endpoint("10.0.0.2", 2) };
            let mut message = connection(tuple, tuple.reversed());
            for (at, byte) in changes {
                let at = at.index(message.len());
                message[at] = byte;
            }
            message.truncate(cut.index(message.len() + 1));
            let _ = read_answer(&message);
        }
    }
}
