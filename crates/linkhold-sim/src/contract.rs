//! Checks in debug builds that a mechanism keeps its contract: no acknowledgment the receiver did not send,
//! no window the receiver did not offer. (That each held packet is named once is checked on the packet
//! itself.)

use linkhold_core::action::AckSpec;
use linkhold_core::packet::{Direction, TcpFlags};
use linkhold_core::units::Seq;

use crate::flow::FlowIndex;
use crate::slab::Packet;

/// What the receiver at one end of a flow has said, as far as the mechanism has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// Highest acknowledgment.
    ack: Seq,
    /// Largest window field offered.
    largest_window: u16,
    /// True once the receiver has said something.
    any: bool,
}

/// The checks' memory; empty and idle in release builds.
#[derive(Debug, Default)]
pub struct ContractCheck {
    flows: Vec<[Said; 2]>,
}

const fn side(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => 0,
        Direction::Uplink => 1,
    }
}

impl ContractCheck {
    /// A flow begins.
    pub fn reset(&mut self, flow: FlowIndex) {
        if !cfg!(debug_assertions) {
            return;
        }
        if self.flows.len() <= flow.get() {
            self.flows.resize(flow.get() + 1, [Said::default(); 2]);
        }
        self.flows[flow.get()] = [Said::default(); 2];
    }

    /// The mechanism is about to see this packet.
    #[inline]
    pub fn seen(&mut self, packet: &Packet) {
        if !cfg!(debug_assertions) {
            return;
        }
        let segment = &packet.segment;
        if !segment.flags.contains(TcpFlags::ACK) {
            return;
        }
        // The window field of a SYN is not scaled; an ACK that repeats that window scales it (RFC 7323
        // section 2.2). Both ends scale here, or neither does.
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let shift = segment.syn.window_scale.filter(|_| is_syn).unwrap_or(0);
        let said = &mut self.flows[packet.flow.get()][side(packet.direction)];
        said.ack = if said.any { said.ack.max(segment.ack) } else { segment.ack };
        said.largest_window = said.largest_window.max(segment.window >> shift);
        said.any = true;
    }

    /// The mechanism injects an acknowledgment.
    pub fn injected(&self, flow: FlowIndex, spec: &AckSpec) {
        if !cfg!(debug_assertions) {
            return;
        }
        let said = &self.flows[flow.get()][side(spec.direction)];
        debug_assert!(said.any, "a mechanism acknowledged before the receiver did");
        debug_assert!(!spec.ack.after(said.ack), "a mechanism acknowledged what the receiver has not");
        debug_assert!(spec.window <= said.largest_window, "a mechanism offered what the receiver has not");
    }
}
