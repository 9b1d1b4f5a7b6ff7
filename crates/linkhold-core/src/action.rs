//! What a mechanism answers: one verdict a packet, and a list of actions.

use serde::{Deserialize, Serialize};

use crate::link_event::Scope;
use crate::packet::{
    Direction, Ecn, FlowKey, PacketId, SackBlocks, StationId, TcpFlags, TcpSegment, TcpTimestamp,
};
use crate::units::{Bytes, Seq};

/// Changes to the header of a packet that passes. The driver mends the checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// New value of the window field (as on the wire, unscaled); never larger than the one it replaces.
    pub window: Option<u16>,
    /// Set the ECN-echo flag (only where the flow negotiated ECN).
    pub set_ece: bool,
    /// Mark the IP header congestion-experienced (only on an ECN-capable packet).
    pub mark_ce: bool,
}

impl Rewrite {
    /// The packet goes as it came.
    pub const NONE: Self = Self { window: None, set_ece: false, mark_ce: false };

    /// Only the window changes.
    #[must_use]
    pub const fn window(window: u16) -> Self {
        Self { window: Some(window), ..Self::NONE }
    }

    /// Changes the header fields of a packet that passes.
    #[inline]
    pub fn apply(self, tcp: &mut TcpSegment, ecn: &mut Ecn) {
        if let Some(window) = self.window {
            debug_assert!(window <= tcp.window, "a mechanism made a window larger");
            tcp.window = window;
        }
        if self.set_ece {
            tcp.flags = tcp.flags | TcpFlags::ECE;
        }
        if self.mark_ce {
            debug_assert!(*ecn != Ecn::NotEct, "a mechanism marked a packet that is not ECN-capable");
            *ecn = Ecn::Ce;
        }
    }

    /// These changes, and then those of `later`.
    #[must_use]
    pub const fn and_then(self, later: Self) -> Self {
        Self {
            window: if later.window.is_some() { later.window } else { self.window },
            set_ece: self.set_ece || later.set_ece,
            mark_ce: self.mark_ce || later.mark_ce,
        }
    }

    /// True if nothing changes.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.window.is_none() && !self.set_ece && !self.mark_ce
    }
}

/// Why a packet is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DropReason {
    /// The mechanism's buffer is full.
    BufferFull,
    /// A newer copy with the same sequence number took the packet's place (dsasync section IV-B a).
    Superseded,
    /// The packet's flow was evicted from the flow table.
    FlowEvicted,
    /// The packet waited longer than the queue policy allows.
    StandingQueue,
    /// A duplicate ACK, or a SACK, told of a loss that is being repaired from a copy kept here.
    RepairedHere,
    /// A datagram waited for so long that its receiver is thought to have no use for it any more.
    TooOld,
}

impl DropReason {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 6] = [
        Self::BufferFull,
        Self::Superseded,
        Self::FlowEvicted,
        Self::StandingQueue,
        Self::RepairedHere,
        Self::TooOld,
    ];
}

/// What becomes of the packet just handed in.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The packet goes on now, with these changes.
    Forward(Rewrite),
    /// The packet goes on now, with these changes, and the driver keeps a copy of it as it goes, under its
    /// id, until a later `Forget` names it.
    ForwardAndKeep(Rewrite),
    /// The driver keeps it until a later `Release` or `Discard` names it.
    Hold,
    /// The driver frees it.
    Drop(DropReason),
}

/// A pure acknowledgment for the driver to build and send. It repeats what the receiver last acknowledged;
/// only window and flags may differ, so end-to-end semantics hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckSpec {
    /// The connection.
    pub flow: FlowKey,
    /// Which way it travels: `Uplink` reaches the correspondent host.
    pub direction: Direction,
    /// Sequence number field.
    pub seq: Seq,
    /// Acknowledgment field: never beyond what the receiver acknowledged.
    pub ack: Seq,
    /// Window field, unscaled: never beyond what the receiver offered.
    pub window: u16,
    /// Timestamps option, if the flow uses it.
    pub timestamp: Option<TcpTimestamp>,
    /// ECN-echo flag.
    pub ece: bool,
}

/// What a mechanism at one end of a radio tells the one at the other end: which segments of a connection came
/// through (cr-aware section 4.2). It travels over the radio as a frame of its own, and can get lost. It says
/// nothing of what the receiver has: TCP never sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The connection.
    pub flow: FlowKey,
    /// Which way the data goes of which it speaks.
    pub direction: Direction,
    /// Everything before this has come through; this is missing.
    pub next: Seq,
    /// What has come through beyond it: up to three blocks, the latest first.
    pub blocks: SackBlocks,
}

/// What a sender on this host should do (mechanisms that run at the TCP sender: cr-aware).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SenderCommand {
    /// Stop sending; keep cwnd, ssthresh, RTT estimate and RTO as they are; timers stand still.
    Freeze,
    /// Go on from the frozen state: cwnd as it was, the timer anew with the frozen RTO.
    Thaw {
        /// What goes again at once, whether it was lost or not.
        resend: Resend,
    },
    /// The base station has missed segments of this sender, and has these blocks beyond them (up to three,
    /// cr-aware section 4.2). They say nothing of what the receiver has: the missing segments go again at
    /// once, and at every timeout while they are missing; nothing is acknowledged.
    Missing {
        /// What the base station has beyond the first hole.
        blocks: SackBlocks,
    },
}

/// What a sender sends again when it thaws.
///
/// The paper (cr-aware section 3) retransmits at once what waits for an acknowledgment, in the singular: it
/// can be the first segment or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resend {
    /// Nothing: ACKs, or the timer, tell.
    Nothing,
    /// The first segment that is not acknowledged: its ACK tells how far the receiver has come.
    #[default]
    First,
    /// All that is neither acknowledged nor reported received, as far as cwnd allows.
    All,
}

/// Something for the driver to do, in order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Send a held packet on its way: downlink to the transmit queue, uplink to the wire.
    Release {
        /// The held packet.
        packet: PacketId,
        /// Header changes.
        rewrite: Rewrite,
    },
    /// Send a held packet on its way as `Release` does, and keep a copy of it as it goes until a later
    /// `Forget` names it.
    ReleaseAndKeep {
        /// The held packet.
        packet: PacketId,
        /// Header changes.
        rewrite: Rewrite,
    },
    /// Free a held packet.
    Discard {
        /// The held packet.
        packet: PacketId,
        /// Why.
        reason: DropReason,
    },
    /// Send a kept copy once more on the packet's way. The driver goes on keeping it.
    SendCopy {
        /// The packet that was forwarded.
        packet: PacketId,
    },
    /// Free a kept copy.
    Forget {
        /// The packet that was forwarded.
        packet: PacketId,
    },
    /// Tell the mechanism at the other end of the radio what has come through. A driver that has none there
    /// ignores this.
    Report(Report),
    /// Build and send a pure ACK.
    InjectAck(AckSpec),
    /// Take every downlink packet of the scope's stations out of the transmit queue and hand each back to
    /// `on_packet` with [`Origin::TransmitQueue`](crate::packet::Origin::TransmitQueue), **last first**,
    /// right after the current call's actions are done. A driver without access to its queue ignores this.
    Reclaim {
        /// Whose packets.
        scope: Scope,
    },
    /// Ask the radio for leave to send uplink, ahead of the packet that will need it (lookahead section III).
    /// The medium access asks as it does for a packet; where a request is in progress it adds these bytes to
    /// that one. A driver whose radio grants nothing ignores this.
    RequestUplink {
        /// The station that will send.
        station: StationId,
        /// How much it will send, bytes on the wire.
        bytes: Bytes,
    },
    /// Command to a TCP sender on this host.
    Sender {
        /// The sender's connection.
        flow: FlowKey,
        /// The command.
        command: SenderCommand,
    },
}

/// The list of actions of one step. The driver makes one, drains it after every call and reuses it, so a step
/// does not allocate once the list has grown to its working size.
#[derive(Debug, Default)]
pub struct Actions {
    list: Vec<Action>,
}

impl Actions {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an action at the end.
    pub fn push(&mut self, action: Action) {
        self.list.push(action);
    }

    /// Moves all actions of another list to the end, in order; both lists keep their memory.
    pub fn append(&mut self, other: &mut Self) {
        self.list.append(&mut other.list);
    }

    /// The actions so far.
    #[must_use]
    pub fn as_slice(&self) -> &[Action] {
        &self.list
    }

    /// Takes all actions out, in order; the list keeps its memory.
    pub fn drain(&mut self) -> impl Iterator<Item = Action> + '_ {
        self.list.drain(..)
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets all actions.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}
