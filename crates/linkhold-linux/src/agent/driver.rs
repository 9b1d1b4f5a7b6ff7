//! Between data path and mechanism: packets in, verdicts and actions out.
//!
//! The verdict on a packet is carried out before the actions of the same call, as in the simulator: an action
//! may name the packet just held.

use std::collections::HashMap;
use std::io;

use linkhold_core::action::{AckSpec, Action, Actions, Rewrite, Verdict};
use linkhold_core::link_event::LinkEvent;
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{Direction, Origin, PacketId, PacketView, TcpSegment};
use linkhold_core::time::Instant;
use linkhold_wire::{
    ParsedPacket, TcpChecksum, apply_rewrite, build_ack, fill_tcp_checksum, parse_ip_tcp_headers,
};
use serde::{Deserialize, Serialize};

use super::stations::Stations;
use crate::datapath::{Arrived, DataPath};

/// Held packets up to this length, bytes, are copied, so that they can leave rewritten. Every pure
/// acknowledgment is shorter.
const COPY_HELD_UP_TO: u32 = 160;
/// Room for an own acknowledgment, bytes. It says what a packet should have said that is longer than the data
/// path's copy and so cannot be rewritten.
const ACK_BUFFER: usize = 128;

/// What the driver counts beside mechanism and data path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DriverCounters {
    /// Packets that a mechanism cannot look at, since they are no TCP, fragments or damaged; they pass
    /// untouched.
    pub unparsed: u64,
    /// Rewrites that an own acknowledgment made behind the packet, because the packet was too long to be
    /// replaced.
    pub rewrites_by_ack: u64,
    /// Rewrites that neither way could make; the packet passed as it was.
    pub rewrites_skipped: u64,
    /// Actions that named a packet that is not held. Each is a bug of linkhold.
    pub unknown_packets: u64,
}

/// A held packet, as far as the agent needs it.
#[derive(Debug)]
struct HeldPacket {
    checksum: TcpChecksum,
    /// The whole packet, if it is short.
    bytes: Option<Box<[u8]>>,
}

/// Drives a mechanism with what a data path brings.
pub struct Driver<D> {
    datapath: D,
    mechanism: Box<dyn Mechanism>,
    stations: Stations,
    actions: Actions,
    held: HashMap<PacketId, HeldPacket, foldhash::fast::RandomState>,
    scratch: Vec<u8>,
    counters: DriverCounters,
}

impl<D: DataPath> Driver<D> {
    /// Joins a data path and a mechanism.
    #[must_use]
    pub fn new(datapath: D, mechanism: Box<dyn Mechanism>, stations: Stations) -> Self {
        Self {
            datapath,
            mechanism,
            stations,
            actions: Actions::new(),
            held: HashMap::default(),
            scratch: Vec::with_capacity(4096),
            counters: DriverCounters::default(),
        }
    }

    /// The data path.
    #[must_use]
    pub fn datapath(&self) -> &D {
        &self.datapath
    }

    /// The mechanism.
    #[must_use]
    pub fn mechanism(&self) -> &dyn Mechanism {
        &*self.mechanism
    }

    /// The stations' table.
    pub fn stations(&mut self) -> &mut Stations {
        &mut self.stations
    }

    /// How many stations were seen.
    #[must_use]
    pub fn station_count(&self) -> usize {
        self.stations.len()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> DriverCounters {
        self.counters
    }

    /// Handles up to `most` packets that wait; true if there may be more.
    ///
    /// # Errors
    /// When the data path is broken.
    pub fn handle_packets(&mut self, most: usize, now: impl Fn() -> Instant) -> io::Result<bool> {
        for _ in 0..most {
            let Some(arrived) = self.datapath.next_packet()? else {
                self.datapath.flush();
                return Ok(false);
            };
            self.handle_packet(now(), &arrived);
        }
        self.datapath.flush();
        Ok(true)
    }

    /// Tells the mechanism of the radio.
    pub fn handle_link(&mut self, now: Instant, event: LinkEvent) {
        self.mechanism.on_link(now, event, &mut self.actions);
        self.run_actions();
        self.datapath.flush();
    }

    /// Calls the mechanism if its time has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.mechanism.next_timeout().is_some_and(|at| at <= now) {
            self.mechanism.on_timeout(now, &mut self.actions);
            self.run_actions();
            self.datapath.flush();
        }
    }

    /// Lets everything go: nothing held, no window closed.
    pub fn let_go(&mut self, now: Instant) {
        self.mechanism.flush(now, &mut self.actions);
        self.run_actions();
        // If the mechanism forgot a packet, it leaves all the same, the oldest first.
        let mut forgotten: Vec<PacketId> = self.held.keys().copied().collect();
        forgotten.sort();
        for id in forgotten {
            self.counters.unknown_packets += 1;
            self.held.remove(&id);
            self.datapath.release(id);
        }
        self.datapath.flush();
    }

    /// Accepts what still waits for a verdict and what arrives from now on. It is the agent's last act.
    pub fn pass_everything(&mut self) {
        self.datapath.pass_everything();
    }

    fn handle_packet(&mut self, now: Instant, arrived: &Arrived) {
        let parsed = match parse_ip_tcp_headers(self.datapath.bytes()) {
            Ok(parsed) => parsed,
            Err(_) => {
                self.counters.unparsed += 1;
                self.datapath.accept(arrived.id);
                return;
            }
        };
        let flow = parsed.flow(arrived.direction);
        let view = PacketView {
            id: arrived.id,
            direction: arrived.direction,
            origin: Origin::Arrival,
            station: self.stations.id(flow.station.addr),
            flow: &flow,
            tcp: &parsed.tcp,
            len: arrived.len,
            ecn: parsed.ecn,
        };
        match self.mechanism.on_packet(now, &view, &mut self.actions) {
            Verdict::Forward(rewrite) if rewrite.is_none() => self.datapath.accept(arrived.id),
            Verdict::Forward(rewrite) => self.forward_rewritten(arrived, &parsed, rewrite),
            Verdict::Hold => self.hold(arrived),
            Verdict::Drop(_) => self.datapath.discard(arrived.id),
        }
        self.run_actions();
    }

    fn hold(&mut self, arrived: &Arrived) {
        let bytes = self.datapath.bytes();
        let whole = arrived.len <= COPY_HELD_UP_TO && bytes.len() == arrived.len as usize;
        let held = HeldPacket { checksum: checksum_state(arrived), bytes: whole.then(|| bytes.into()) };
        self.held.insert(arrived.id, held);
        self.datapath.hold(arrived.id);
    }

    fn forward_rewritten(&mut self, arrived: &Arrived, parsed: &ParsedPacket, rewrite: Rewrite) {
        let bytes = self.datapath.bytes();
        let whole = bytes.len() == arrived.len as usize && !arrived.aggregate;
        if whole {
            self.scratch.clear();
            self.scratch.extend_from_slice(bytes);
            if rewrite_whole(&mut self.scratch, checksum_state(arrived), rewrite) {
                self.datapath.replace(arrived.id, &self.scratch);
            } else {
                self.counters.rewrites_skipped += 1;
                self.datapath.accept(arrived.id);
            }
            return;
        }
        // Too long to be replaced: it passes, and an acknowledgment right behind it says what it should have
        // said. Its sequence number is newer, so every stack takes its window.
        self.datapath.accept(arrived.id);
        if rewrite.mark_ce || !parsed.tcp.flags.contains(linkhold_core::packet::TcpFlags::ACK) {
            self.counters.rewrites_skipped += 1;
            return;
        }
        self.counters.rewrites_by_ack += 1;
        self.inject(&ack_behind(&parsed.tcp, arrived.direction, parsed.flow(arrived.direction), rewrite));
    }

    fn run_actions(&mut self) {
        if self.actions.is_empty() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain() {
            match action {
                Action::Release { packet, rewrite } => self.release(packet, rewrite),
                Action::Discard { packet, reason: _ } => {
                    if self.held.remove(&packet).is_some() {
                        self.datapath.discard_held(packet);
                    } else {
                        self.counters.unknown_packets += 1;
                    }
                }
                Action::InjectAck(spec) => self.inject(&spec),
                // The radio's transmit queue is not the agent's: packets in it stay there.
                Action::Reclaim { scope: _ } => {}
                // The senders are other hosts: nobody here takes commands.
                Action::Sender { .. } => {}
            }
        }
        self.actions = actions;
    }

    fn release(&mut self, id: PacketId, rewrite: Rewrite) {
        let Some(held) = self.held.remove(&id) else {
            self.counters.unknown_packets += 1;
            return;
        };
        if rewrite.is_none() {
            self.datapath.release(id);
            return;
        }
        if let Some(mut bytes) = held.bytes
            && rewrite_whole(&mut bytes, held.checksum, rewrite)
        {
            self.datapath.replace_held(id, &bytes);
        } else {
            self.counters.rewrites_skipped += 1;
            self.datapath.release(id);
        }
    }

    fn inject(&mut self, spec: &AckSpec) {
        let mut buffer = [0; ACK_BUFFER];
        match build_ack(spec, &mut buffer) {
            Ok(length) => self.datapath.inject(&buffer[..length]),
            Err(error) => {
                self.counters.rewrites_skipped += 1;
                tracing::debug!(%error, "an acknowledgment could not be built");
            }
        }
    }
}

fn checksum_state(arrived: &Arrived) -> TcpChecksum {
    if arrived.checksum_ready { TcpChecksum::Complete } else { TcpChecksum::Partial }
}

/// Rewrites a whole packet and leaves its checksum complete, because the kernel takes a replaced packet's so.
fn rewrite_whole(bytes: &mut [u8], checksum: TcpChecksum, rewrite: Rewrite) -> bool {
    let completed = match checksum {
        TcpChecksum::Partial => fill_tcp_checksum(bytes).is_ok(),
        TcpChecksum::Complete => true,
    };
    completed && apply_rewrite(bytes, rewrite, TcpChecksum::Complete).is_ok()
}

/// The acknowledgment that says, right behind a segment, what the segment itself should have said.
fn ack_behind(
    tcp: &TcpSegment,
    direction: Direction,
    flow: linkhold_core::packet::FlowKey,
    rewrite: Rewrite,
) -> AckSpec {
    AckSpec {
        flow,
        direction,
        seq: tcp.seq_end(),
        ack: tcp.ack,
        window: rewrite.window.map_or(tcp.window, |window| window.min(tcp.window)),
        timestamp: tcp.timestamp,
        ece: rewrite.set_ece || tcp.flags.contains(linkhold_core::packet::TcpFlags::ECE),
    }
}

#[cfg(test)]
mod tests;
