//! NFQUEUE: the kernel keeps the packets and asks for a verdict on each (linux/netfilter/nfnetlink_queue.h).
//!
//! The kernel keeps every held packet in its own queue. The agent sees only a packet's first bytes and names
//! the packet by its id later. So packets leave in the order of their verdicts, and holding one costs the
//! agent no memory, unless a copy of it is to be kept (`Driver::hold`).
//!
//! **Two queues for each radio**, downlink and uplink, all on one socket. The kernel finds a packet by
//! walking its queue from the oldest on, so neither acknowledgments nor another radio's packets may stand
//! behind tens of thousands of held data packets, nor find the queue full of them. Which radio a packet
//! belongs to is known by its queue: an interface that is made anew keeps its name, by which the rules know
//! it, but not its index. The two directions also copy different amounts: of downlink data the agent needs
//! only the headers, but it needs the whole of an uplink packet to rewrite it, since NFQUEUE replaces a
//! packet entirely or not at all.
//!
//! `nfqueue/message.rs` writes and reads the kernel's messages, `nfqueue/verdicts.rs` batches verdicts, and
//! `nfqueue/raw.rs` sends the agent's own packets, as `nfqueue/conntrack.rs` finds that NAT wants them. This
//! file has the netlink socket and its queues.
//!
//! Why not the `nfq` crate: a verdict there needs the whole received message, so every held
//! packet would pin a buffer of 4 kB and more; its descriptor cannot be polled; it panics on malformed
//! attributes; no batches.

mod conntrack;
mod message;
mod raw;
mod verdicts;

use core::ops::Range;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};

use linkhold_core::packet::PacketId;

use conntrack::Conntrack;
use message::{
    NFQA_CFG_CMD, NFQA_CFG_F_FAIL_OPEN, NFQA_CFG_F_GSO, NFQA_CFG_FLAGS, NFQA_CFG_MASK, NFQA_CFG_PARAMS,
    NFQA_CFG_QUEUE_MAXLEN, NFQNL_CFG_CMD_BIND, NFQNL_COPY_PACKET, NFQNL_MSG_CONFIG, NFQNL_MSG_PACKET,
    NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR, NLMSG_HEADER, message_type, native_i32, put_message,
};
pub use message::{accept_everything, parse_packet_message};
use raw::RawSockets;
use verdicts::Verdicts;

use super::{Arrived, DataPath, DataPathCounters};

/// Room for what surrounds a packet's bytes in a message; more than the kernel writes.
const METADATA: usize = 1024;
/// Bytes copied of a downlink packet: the longest headers (IPv6 with some extension headers, TCP with all
/// options).
const DOWNLINK_COPY: u32 = 192;
/// Bytes copied of an uplink packet: a usual MTU, because a packet whose window is rewritten must be whole.
const UPLINK_COPY: u32 = 2048;
/// Socket buffer for packets on their way to the agent, bytes; beyond it the kernel fails open.
const RECEIVE_BUFFER: usize = 8 << 20;
/// The guardian of an agent that was just killed holds the queue for a moment: the next agent waits for it.
const BIND_ATTEMPTS: u32 = 50;
const BIND_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
/// How far from a taken queue another number is proposed: far enough for an agent with five radios.
const QUEUES_APART: u16 = 10;

/// Settings of the queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfQueueConfig {
    /// Number of the first radio's downlink queue; its uplink queue has the next one, and each further radio
    /// the two after them.
    pub queue: u16,
    /// Most packets the kernel keeps per queue; more pass unseen.
    pub max_packets: u32,
    /// Mark of the agent's own packets (SO_MARK).
    pub mark: u32,
    /// Bring downlink packets whole, and not only their headers: a mechanism keeps copies.
    pub whole_downlink: bool,
    /// By radio, at least one: true to let the kernel cut aggregates (GSO, GRO) into packets of the wire's
    /// size before they come here.
    pub split_aggregates: Vec<bool>,
}

impl NfQueueConfig {
    /// Numbers of all queues.
    #[must_use]
    pub fn queue_numbers(&self) -> Range<u16> {
        let radios = u16::try_from(self.split_aggregates.len()).unwrap_or(u16::MAX);
        self.queue..self.queue.saturating_add(radios.saturating_mul(2))
    }
}

/// Why the queues cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NfQueueError {
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Another program reads this queue; what is told names a number that leaves room for it.
    #[error(
        "NFQUEUE {0} is taken, perhaps by another agent: set `datapath.queue` to a number with two free queues for each \
         radio, such as {other}, or stop the other program",
        other = elsewhere(*.0)
    )]
    QueueTaken(u16),
}

/// A number away from an agent's queues at `taken`, with room for as many after it.
const fn elsewhere(taken: u16) -> u16 {
    if taken <= u16::MAX - 2 * QUEUES_APART { taken + QUEUES_APART } else { taken - QUEUES_APART }
}

fn system(what: &'static str) -> impl FnOnce(Errno) -> NfQueueError {
    move |errno| NfQueueError::System { what, source: errno.into() }
}

/// The NFQUEUE data path.
#[derive(Debug)]
pub struct NfQueue {
    netlink: OwnedFd,
    max_packets: u32,
    whole_downlink: bool,
    split_aggregates: Vec<bool>,
    raw: RawSockets,
    conntrack: Conntrack,
    verdicts: Verdicts,
    buffer: Vec<u8>,
    /// Where in `buffer` the last packet's bytes are.
    payload: Range<usize>,
    counters: DataPathCounters,
}

impl NfQueue {
    /// Opens the sockets and binds the queues in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`NfQueueError`] without CAP_NET_ADMIN and CAP_NET_RAW, or if a queue is taken.
    pub fn open(config: &NfQueueConfig) -> Result<Self, NfQueueError> {
        let mut this = Self::unbound(config)?;
        this.bind()?;
        Ok(this)
    }

    /// Opens the sockets without binding the queues, for a caller that needs the descriptor before the first
    /// packet can be held.
    ///
    /// # Errors
    /// [`NfQueueError`] without CAP_NET_RAW.
    pub fn unbound(config: &NfQueueConfig) -> Result<Self, NfQueueError> {
        let netlink = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )
        .map_err(system("open a netfilter socket"))?;
        bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(system("bind the netfilter socket"))?;
        no_overrun_errors(&netlink)?;
        if let Err(errno) = setsockopt(&netlink, sockopt::RcvBufForce, &RECEIVE_BUFFER) {
            tracing::warn!(%errno, "the netfilter socket keeps its small receive buffer");
        }
        let raw =
            RawSockets::open(config.mark).map_err(system("open a raw IPv4 socket (needs CAP_NET_RAW)"))?;
        let conntrack = Conntrack::open(UPLINK_COPY as usize).map_err(system("open a netfilter socket"))?;
        Ok(Self {
            netlink,
            max_packets: config.max_packets,
            whole_downlink: config.whole_downlink,
            split_aggregates: config.split_aggregates.clone(),
            raw,
            conntrack,
            verdicts: Verdicts::new(config.queue_numbers()),
            buffer: vec![0; METADATA + UPLINK_COPY.max(DOWNLINK_COPY) as usize],
            payload: 0..0,
            counters: DataPathCounters::default(),
        })
    }

    /// Binds the queues: from now on packets that rules bring wait for a verdict.
    ///
    /// # Errors
    /// [`NfQueueError`] without CAP_NET_ADMIN, or if a queue is taken.
    pub fn bind(&mut self) -> Result<(), NfQueueError> {
        let downlink = if self.whole_downlink { UPLINK_COPY } else { DOWNLINK_COPY };
        let directions = [downlink, UPLINK_COPY].into_iter().cycle();
        for (index, (number, copy)) in self.queue_numbers().zip(directions).enumerate() {
            let split = self.split_aggregates.get(index / 2).copied().unwrap_or(false);
            self.configure(number, copy, split)?;
        }
        Ok(())
    }

    /// The descriptor that keeps the queues alive and may give verdicts.
    #[must_use]
    pub fn netlink(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }

    /// Numbers of the queues: downlink and uplink of every radio.
    #[must_use]
    pub fn queue_numbers(&self) -> Range<u16> {
        self.verdicts.queue_numbers()
    }

    fn configure(&mut self, queue: u16, copy: u32, split_aggregates: bool) -> Result<(), NfQueueError> {
        let command = [NFQNL_CFG_CMD_BIND, 0, 0, 0];
        let mut attempts = BIND_ATTEMPTS;
        loop {
            attempts -= 1;
            match self.request(queue, &[(NFQA_CFG_CMD, &command)]) {
                Ok(()) => break,
                Err(Errno::EBUSY | Errno::EEXIST | Errno::EPERM) if nix::unistd::geteuid().is_root() => {
                    if attempts == 0 {
                        return Err(NfQueueError::QueueTaken(queue));
                    }
                    std::thread::sleep(BIND_PAUSE);
                }
                Err(errno) => return Err(system("bind to an NFQUEUE (needs CAP_NET_ADMIN)")(errno)),
            }
        }
        let mut parameters = [0u8; 5];
        parameters[..4].copy_from_slice(&copy.to_be_bytes());
        parameters[4] = NFQNL_COPY_PACKET;
        self.request(queue, &[(NFQA_CFG_PARAMS, &parameters)]).map_err(system("set the copy range"))?;
        let all = NFQA_CFG_F_FAIL_OPEN | NFQA_CFG_F_GSO;
        let flags = if split_aggregates { NFQA_CFG_F_FAIL_OPEN } else { all };
        self.request(queue, &[(NFQA_CFG_FLAGS, &flags.to_be_bytes()), (NFQA_CFG_MASK, &all.to_be_bytes())])
            .map_err(system("set the queue's flags (fail-open, GSO)"))?;
        self.request(queue, &[(NFQA_CFG_QUEUE_MAXLEN, &self.max_packets.to_be_bytes())])
            .map_err(system("set the queue's length"))
    }

    /// Sends one configuration message and waits for the kernel's answer. Packets come before the rules exist
    /// only by rules that a dead agent left; these are accepted unseen.
    fn request(&mut self, queue: u16, attributes: &[(u16, &[u8])]) -> Result<(), Errno> {
        let mut message = Vec::with_capacity(64);
        put_message(&mut message, NFQNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK, queue, attributes, &[]);
        send(self.netlink.as_raw_fd(), &message, MsgFlags::empty())?;
        loop {
            let length = recv(self.netlink.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
            let Some(answer) = self.buffer.get(..length) else { return Err(Errno::EMSGSIZE) };
            match message_type(answer) {
                Some(NLMSG_ERROR) => {
                    return match native_i32(answer, NLMSG_HEADER) {
                        Some(0) => Ok(()),
                        Some(error) => Err(Errno::from_raw(-error)),
                        None => Err(Errno::EBADMSG),
                    };
                }
                Some(NFQNL_MSG_PACKET) => {
                    if let Some(arrived) = self.parse_packet(length) {
                        self.verdicts.accept(arrived.id);
                        self.flush();
                    }
                }
                Some(_) => {}
                None => return Err(Errno::EBADMSG),
            }
        }
    }

    /// Reads the message of `length` bytes in the buffer; `None` if it is no packet of ours.
    fn parse_packet(&mut self, length: usize) -> Option<Arrived> {
        let numbers = self.queue_numbers();
        let (arrived, payload) = parse_packet_message(self.buffer.get(..length)?, numbers)?;
        self.payload = payload;
        Some(arrived)
    }

    fn send_if_due(&mut self) {
        if self.verdicts.is_due() {
            self.send_verdicts();
        }
    }

    fn send_verdicts(&mut self) {
        let messages = self.verdicts.messages();
        if messages.is_empty() {
            return;
        }
        loop {
            match send(self.netlink.as_raw_fd(), messages, MsgFlags::empty()) {
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    // The packets stay in the kernel's queue; only a bug of ours or a lack of memory leads
                    // here.
                    self.counters.verdict_errors += 1;
                    tracing::error!(%errno, "the kernel took no verdicts");
                    break;
                }
            }
        }
        self.verdicts.clear();
    }
}

impl DataPath for NfQueue {
    fn name(&self) -> &'static str {
        "nfqueue"
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }

    fn next_packet(&mut self) -> io::Result<Option<Arrived>> {
        loop {
            match recv(self.netlink.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => {
                    if let Some(arrived) = self.parse_packet(length) {
                        self.counters.received += 1;
                        return Ok(Some(arrived));
                    }
                    if self.buffer.get(..length).and_then(message_type) == Some(NLMSG_ERROR) {
                        // The answer to a verdict: the packet was gone (its interface went down).
                        self.counters.verdict_errors += 1;
                    }
                }
                Err(Errno::EAGAIN) => return Ok(None),
                // NETLINK_NO_ENOBUFS is set, but a kernel under memory pressure may still report an overrun.
                Err(Errno::EINTR | Errno::ENOBUFS) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.payload.clone()).unwrap_or(&[])
    }

    fn accept(&mut self, id: PacketId) {
        self.counters.accepted += 1;
        self.verdicts.accept(id);
        self.send_if_due();
    }

    fn replace(&mut self, id: PacketId, packet: &[u8]) {
        self.counters.replaced += 1;
        self.verdicts.replace(id, packet);
        self.send_if_due();
    }

    fn discard(&mut self, id: PacketId) {
        self.counters.discarded += 1;
        self.verdicts.discard(id);
        self.send_if_due();
    }

    fn hold(&mut self, id: PacketId) {
        self.verdicts.hold(id);
    }

    fn release(&mut self, id: PacketId) {
        self.counters.accepted += 1;
        self.verdicts.release(id);
        self.send_if_due();
    }

    fn replace_held(&mut self, id: PacketId, packet: &[u8]) {
        self.counters.replaced += 1;
        self.verdicts.replace_held(id, packet);
        self.send_if_due();
    }

    fn discard_held(&mut self, id: PacketId) {
        self.counters.discarded += 1;
        self.verdicts.discard_held(id);
        self.send_if_due();
    }

    fn inject(&mut self, packet: &[u8], bridge: u32) {
        self.flush();
        let packet = self.conntrack.as_it_arrives(packet).unwrap_or(packet);
        match self.raw.send(packet, bridge) {
            Ok(()) => self.counters.injected += 1,
            Err(errno) => {
                self.counters.inject_errors += 1;
                tracing::debug!(%errno, "an own packet could not be sent");
            }
        }
    }

    fn flush(&mut self) {
        self.verdicts.settle_all();
        self.send_verdicts();
    }

    fn pass_everything(&mut self) {
        self.verdicts.accept_everything();
        self.send_verdicts();
    }

    fn counters(&self) -> DataPathCounters {
        self.counters
    }
}

/// NETLINK_NO_ENOBUFS: a full socket buffer is the kernel's matter (it fails open), not an error on `recv`.
fn no_overrun_errors(fd: &OwnedFd) -> Result<(), NfQueueError> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer leads to a c_int on this stack frame, and the length is its size.
    let answer = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_NO_ENOBUFS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(system("set NETLINK_NO_ENOBUFS")(Errno::last())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_queue_is_told_with_who_may_have_it_and_a_number_to_choose() {
        let told = NfQueueError::QueueTaken(4710).to_string();
        assert!(told.starts_with("NFQUEUE 4710 is taken, perhaps by another agent: "), "{told}");
        assert!(told.contains("two free queues for each radio, such as 4720, "), "{told}");
        for taken in [0, 4711, u16::MAX - 20, u16::MAX - 19, u16::MAX] {
            let other = elsewhere(taken);
            assert!(other.abs_diff(taken) == QUEUES_APART && other.checked_add(QUEUES_APART - 1).is_some());
        }
    }
}
