//! How packets that cross the router reach the agent and leave it again.
//!
//! A [`DataPath`] hands over one packet at a time, keeps those that are held, and carries out what became of
//! each. NFQUEUE ([`nfqueue`]) is the first; the trait is small so that an eBPF path can stand beside it.

pub mod crossing;
pub mod nfqueue;
pub mod offload;
pub mod policy;
pub mod rules;
pub mod shared_table;
pub mod stacked;

use std::io;
use std::os::fd::BorrowedFd;

use linkhold_core::packet::{Direction, PacketId};

/// A packet that has just arrived. [`DataPath::bytes`] has its first bytes until the next packet is asked
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The data path's token; stays valid while the packet is held.
    pub id: PacketId,
    /// Index of the radio that it comes from or goes to, in the order in which the data path was told of
    /// them.
    pub radio: usize,
    /// Which way it crosses the router.
    pub direction: Direction,
    /// Whole length from the IP header on, bytes; up to 64 KiB when the kernel hands over aggregates.
    pub len: u32,
    /// Index of the interface it came in by.
    pub in_interface: u32,
    /// Index of the interface it will go out by.
    pub out_interface: u32,
    /// False if its TCP checksum field holds only the pseudo header's sum (checksum offload).
    pub checksum_ready: bool,
    /// True if it stands for several packets on the wire (GSO, GRO).
    pub aggregate: bool,
}

/// What a data path counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataPathCounters {
    /// Packets handed over.
    pub received: u64,
    /// Packets that went their way unchanged.
    pub accepted: u64,
    /// Packets that went their way with another header.
    pub replaced: u64,
    /// Packets thrown away.
    pub discarded: u64,
    /// Packets of our own sent.
    pub injected: u64,
    /// Own packets that could not be sent.
    pub inject_errors: u64,
    /// Verdicts that the kernel refused.
    pub verdict_errors: u64,
}

/// How packets reach the agent and leave it again.
///
/// # Calling contract
/// Every packet from [`next_packet`](Self::next_packet) gets exactly one of `accept`, `replace`, `discard` or
/// `hold` before the next one is asked for; a held one gets exactly one of `release`, `replace_held` or
/// `discard_held` later. Verdicts take effect in the order they are given, at [`flush`](Self::flush) or
/// before.
pub trait DataPath {
    /// The data path's name in logs and in the status.
    fn name(&self) -> &'static str;

    /// The descriptor to poll: it is readable while a packet waits.
    fn readable(&self) -> BorrowedFd<'_>;

    /// The next packet, or `None` if none waits.
    ///
    /// # Errors
    /// When the path is broken; the agent ends then.
    fn next_packet(&mut self) -> io::Result<Option<Arrived>>;

    /// The first bytes of the packet that `next_packet` returned last, from the IP header on; the whole
    /// packet if it is short.
    fn bytes(&self) -> &[u8];

    /// The last packet goes on as it is.
    fn accept(&mut self, id: PacketId);

    /// The last packet goes on as `packet`, a whole IP packet with complete checksums.
    fn replace(&mut self, id: PacketId, packet: &[u8]);

    /// The last packet is thrown away.
    fn discard(&mut self, id: PacketId);

    /// The last packet stays until it is named again.
    fn hold(&mut self, id: PacketId);

    /// A held packet goes on as it is.
    fn release(&mut self, id: PacketId);

    /// A held packet goes on as `packet`.
    fn replace_held(&mut self, id: PacketId, packet: &[u8]);

    /// A held packet is thrown away.
    fn discard_held(&mut self, id: PacketId);

    /// Sends a packet of our own, after the verdicts given so far. It does not come back as an arrival.
    /// `bridge`: index of the interface to which a destination belongs that tells none itself (a link-local
    /// IPv6 address); 0 where no packet between such addresses crosses.
    fn inject(&mut self, packet: &[u8], bridge: u32);

    /// Carries out all verdicts given so far.
    fn flush(&mut self);

    /// Accepts everything that still waits, seen or not, and everything that arrives from now on. It is the
    /// last call before the end.
    fn pass_everything(&mut self);

    /// Counters so far.
    fn counters(&self) -> DataPathCounters;
}
