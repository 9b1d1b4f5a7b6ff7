//! Datagrams of UDP: held in a silence and paced beside segments, by age and by quota.
//!
//! Source: the paper's future work (`dsasync` section VII names flows other than TCP); the queues are those
//! of the [hold buffer](super::hold_buffer) (RFC 8290). Sees datagrams; emits `Hold`, `Drop`, `Release` and
//! `Discard`.
//!
//! A datagram that goes down: arrives → passes (radio works, nothing before it) | held → released | dropped.
//! It is dropped when its flow's queue stands outside silences (as segments are, `codel.rs`), when it has
//! waited for longer than [`DsaSyncConfig::datagram_max_age`], or when datagrams would weigh more than
//! [`DsaSyncConfig::datagram_quota`]: then the first of the longest queue goes, because the newest datagrams
//! are worth most. A datagram that goes up passes; it shows that its station takes part in the flow.
//!
//! Nothing can be said to the sender of a datagram, so there is no window, no clamp and no acknowledgment
//! here, and what is held closes nobody's window: space is low or ample without it. What a datagram takes of
//! the air does count: the pacer books it as it books a segment, and where nobody tells the rate it is below
//! until it has passed ([`Unacknowledged`](super::unacknowledged::Unacknowledged)). It does not count in the
//! shares by which windows are held down (`bdp.rs`, `shares.rs`). If it did, a sender that heeds nothing
//! would refill whatever the smaller windows left free, until nothing was left for them; the turns that
//! queues take give each its share instead.
//!
//! A flow is known by addresses and ports. A flow that its station has answered gets a queue of its own.
//! Flows that their station never answers (a flood, but also live video sent one way) share one queue a
//! station.
//!
//! Datagrams that QUIC sends are no exception: its receiver's window and its acknowledgments are encrypted
//! (RFC 9001), so of the sender's recovery (RFC 9002) nothing is seen or steered.
//!
//! [`DsaSyncConfig::datagram_max_age`]: super::config::DsaSyncConfig::datagram_max_age
//! [`DsaSyncConfig::datagram_quota`]: super::config::DsaSyncConfig::datagram_quota

use super::DsaSync;
use super::config::{Datagrams, Queues};
use super::downlink::{COMMON_PART, Downlink, MOST_DROPS};
use super::flow::Transport;
use super::held::HeldSegment;
use super::shared::Shared;
use crate::action::{Actions, DropReason, Rewrite, Verdict};
use crate::packet::{DatagramView, Direction, Origin, PacketView, TcpSegment};
use crate::time::Instant;
use crate::units::Seq;

/// What the hold buffer sees in place of a TCP header: it takes no sequence space and tells nothing.
static NO_SEGMENT: TcpSegment = TcpSegment {
    seq: Seq(0),
    ack: Seq(0),
    payload_len: 0,
    window: 0,
    flags: crate::packet::TcpFlags(0),
    timestamp: None,
    sack: crate::packet::SackBlocks::EMPTY,
    syn: crate::packet::SynOptions { mss: None, window_scale: None, sack_permitted: false },
    signed: false,
};

/// The datagram as the hold buffer takes packets.
fn as_packet<'a>(datagram: &DatagramView<'a>) -> PacketView<'a> {
    let DatagramView { id, direction, origin, station, flow, len, ecn } = *datagram;
    PacketView { id, direction, origin, station, flow, tcp: &NO_SEGMENT, len, ecn }
}

impl DsaSync {
    /// A datagram crosses the base station.
    pub(super) fn on_any_datagram(
        &mut self,
        now: Instant,
        datagram: &DatagramView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        self.shared.metrics.datagrams += u64::from(datagram.origin == Origin::Arrival);
        if self.shared.config.datagrams == Datagrams::Pass {
            return Verdict::Forward(Rewrite::NONE);
        }
        let DatagramView { flow, station, .. } = *datagram;
        let Some((slot, _)) = self.touch_or_add(now, Transport::Udp, flow, station, out) else {
            debug_assert!(false, "there is always a flow that can make room");
            return Verdict::Forward(Rewrite::NONE);
        };
        let verdict = match datagram.direction {
            Direction::Uplink => {
                self.shared.flows.at(slot).note_answer();
                Verdict::Forward(Rewrite::NONE)
            }
            Direction::Downlink => self.on_datagram_down(now, slot, datagram, out),
        };
        self.finish(now, out);
        verdict
    }

    fn on_datagram_down(
        &mut self,
        now: Instant,
        slot: u32,
        datagram: &DatagramView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        let packet = as_packet(datagram);
        let arrival = datagram.origin == Origin::Arrival;
        if !arrival {
            self.downlink.pacer.on_taken_back(now, datagram.len);
            self.round_trips.on_unacknowledged_back(datagram.len);
        }
        let silent = self.shared.monitor.tfp(datagram.station);
        if silent {
            self.shared.allot_more(now);
        }
        let waits = silent || self.waits(now, slot, &packet);
        if arrival && !waits {
            self.downlink.pacer.on_sent(now, datagram.len);
            self.round_trips.on_unacknowledged(now, datagram.len);
            return Verdict::Forward(Rewrite::NONE);
        }
        let verdict = self.downlink.hold_datagram(now, &mut self.shared, slot, &packet, out);
        self.relieve_cut(now, out);
        verdict
    }
}

impl Downlink {
    /// Holds a datagram, in the place of older ones if need be.
    fn hold_datagram(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        out: &mut Actions,
    ) -> Verdict {
        let arrival = packet.origin == Origin::Arrival;
        let mut drops = 0;
        while let Some(index) = match self.in_the_way(shared, slot, packet) {
            Room::Fits => None,
            // What was taken back is older than all that its own queue holds.
            Room::Without(index) if arrival || self.buffer.segment(index).slot != slot => Some(index),
            Room::Without(_) | Room::None => return shared.drop_packet(DropReason::BufferFull),
        } {
            if drops == MOST_DROPS {
                return shared.drop_packet(DropReason::BufferFull);
            }
            drops += 1;
            self.cut_off(shared, index, out);
        }
        self.enqueue(now, shared, slot, packet, false);
        shared.space.take_datagram(packet.len);
        shared.metrics.datagram_holds += 1;
        Verdict::Hold
    }

    /// Whether there is room for a datagram, or which packet has to go first.
    fn in_the_way(&self, shared: &mut Shared, slot: u32, packet: &PacketView<'_>) -> Room {
        let weight = self.buffer.weight(packet.len);
        let whole = shared.config.datagram_quota.0;
        // While not all of B_alloc is allotted, datagrams get twice their part of it: what comes at the
        // radio's rate is to fit, and no window is closed for them.
        let quota = shared.space.part(whole.saturating_mul(2)).min(whole);
        let full =
            !shared.space.fits(packet.len, 0) || self.buffer.packets() >= shared.config.max_held_packets;
        let flow = shared.flows.at(slot);
        let (queued, own) = self.buffer.weight_before(flow, slot, packet.station, false);
        let part = if own || shared.config.queues == Queues::Station { quota } else { quota / COMMON_PART };
        let victim = if queued + weight > part {
            self.buffer.first_of_own(flow, slot, packet.station)
        } else if self.buffer.datagrams() + weight > quota {
            self.buffer.first_of_longest(Transport::Udp)
        } else if full {
            // Datagrams are within their quota, so connections hold more than theirs.
            let tcp = self.buffer.first_of_longest(Transport::Tcp);
            tcp.or_else(|| self.buffer.first_of_longest(Transport::Udp))
        } else {
            return Room::Fits;
        };
        victim.map_or(Room::None, Room::Without)
    }

    /// True if a held datagram has waited for too long.
    pub(super) fn is_too_old(now: Instant, shared: &Shared, held: &HeldSegment) -> bool {
        let max_age = shared.config.datagram_max_age;
        !max_age.is_zero() && now.since(held.arrived) > max_age
    }
}

/// Whether a datagram can be held.
enum Room {
    Fits,
    /// Perhaps, once the packet with this index is gone.
    Without(u32),
    /// It cannot, whatever is dropped.
    None,
}
