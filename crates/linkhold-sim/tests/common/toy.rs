//! A mechanism and hosts that are simple enough to write down what the engine must do with them.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linkhold_core::action::{Action, Actions, Rewrite, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind, Scope};
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{Bytes, Seq};
use linkhold_sim::Hosts;
use linkhold_sim::flow::FlowIndex;
use linkhold_sim::network::Network;
use linkhold_sim::slab::{Packet, Sending};

/// Holds every downlink packet in a silence of the network, takes the queue back, and releases as room is
/// told.
#[derive(Debug, Default)]
pub struct HoldInSilence {
    silences: u32,
    held: VecDeque<PacketId>,
    room: u32,
    metrics: Metrics,
}

impl HoldInSilence {
    fn release(&mut self, out: &mut Actions) {
        while self.room > 0
            && let Some(packet) = self.held.pop_front()
        {
            self.room -= 1;
            self.metrics.released += 1;
            out.push(Action::Release { packet, rewrite: Rewrite::NONE });
        }
    }
}

impl Mechanism for HoldInSilence {
    fn name(&self) -> &'static str {
        "hold-in-silence"
    }

    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, _out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        if packet.direction == Direction::Uplink || (self.silences == 0 && self.held.is_empty()) {
            return Verdict::Forward(Rewrite::NONE);
        }
        match packet.origin {
            Origin::Arrival => self.held.push_back(packet.id),
            Origin::TransmitQueue => self.held.push_front(packet.id),
        }
        self.metrics.holds += 1;
        self.metrics.held_packets = self.held.len() as u64;
        Verdict::Hold
    }

    fn on_link(&mut self, _now: Instant, event: LinkEvent, out: &mut Actions) {
        match event.kind {
            LinkEventKind::FreezeStarted { .. } => {
                self.silences += 1;
                out.push(Action::Reclaim { scope: Scope::Network });
            }
            LinkEventKind::FreezeEnded { .. } => self.silences -= 1,
            LinkEventKind::TransmitRoom { packets, .. } => {
                // Some room is left for what is forwarded once nothing is held.
                self.room = packets.saturating_sub(10);
                if self.silences == 0 {
                    self.release(out);
                }
            }
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::StationLeft { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. } => {}
        }
    }

    fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        self.room = u32::MAX;
        self.release(out);
    }

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Only watches: asks for an uplink turn for each downlink segment that passes, as look-ahead does.
#[derive(Debug, Default)]
pub struct AskAhead {
    metrics: Metrics,
}

impl Mechanism for AskAhead {
    fn name(&self) -> &'static str {
        "ask-ahead"
    }

    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        if packet.direction == Direction::Downlink {
            self.metrics.uplink_requests += 1;
            out.push(Action::RequestUplink { station: packet.station, bytes: Bytes(40) });
        }
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, _now: Instant, event: LinkEvent, _out: &mut Actions) {
        if let LinkEventKind::FreezeStarted { .. } = event.kind {
            self.metrics.silences += 1;
        }
    }

    fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, _out: &mut Actions) {}

    fn metrics(&self) -> Metrics {
        self.metrics
    }
}

/// Lets everything pass, and counts how often it is asked for its next timeout.
#[derive(Debug, Default)]
pub struct CountAsked {
    pub asked: Arc<AtomicU64>,
}

impl Mechanism for CountAsked {
    fn name(&self) -> &'static str {
        "count-asked"
    }

    fn on_packet(&mut self, _now: Instant, _packet: &PacketView<'_>, _out: &mut Actions) -> Verdict {
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, _now: Instant, _event: LinkEvent, _out: &mut Actions) {}

    fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}

    fn next_timeout(&self) -> Option<Instant> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, _out: &mut Actions) {}

    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

/// Payload of a packet, bytes: packet n begins at sequence number n times this.
const PAYLOAD: u32 = 1460;

fn sending(flow: FlowIndex, direction: Direction, segment: TcpSegment) -> Sending {
    Sending { flow, direction, segment, ecn: Ecn::NotEct, retransmit: false }
}

pub fn key() -> FlowKey {
    let end = |addr: [u8; 4], port| Endpoint { addr: addr.into(), port };
    FlowKey { correspondent: end([192, 0, 2, 1], 5001), station: end([10, 0, 0, 2], 40_000) }
}

/// A correspondent that sends one numbered packet every `interval` until `stop`; a station that notes what
/// comes and answers every second one with an ACK.
#[derive(Debug)]
pub struct SteadyStream {
    pub interval: Duration,
    pub stop: Instant,
    pub flow: FlowIndex,
    pub sent: u32,
    pub received: Vec<u32>,
    pub acks: u32,
}

impl SteadyStream {
    pub fn new(interval: Duration, stop: Instant, network: &mut Network) -> Self {
        let flow = network.add_flow(key(), StationId(0));
        network.schedule(Instant::ZERO, 0);
        Self { interval, stop, flow, sent: 0, received: Vec::new(), acks: 0 }
    }
}

impl Hosts for SteadyStream {
    fn on_arrival(&mut self, now: Instant, _id: PacketId, packet: Packet, network: &mut Network) {
        match packet.direction {
            Direction::Downlink => {
                self.received.push(packet.segment.seq.0 / PAYLOAD);
                if self.received.len().is_multiple_of(2) {
                    let ack = TcpSegment {
                        ack: packet.segment.seq_end(),
                        flags: TcpFlags::ACK,
                        window: 1000,
                        ..TcpSegment::default()
                    };
                    network.send(now, &sending(self.flow, Direction::Uplink, ack));
                }
            }
            Direction::Uplink => self.acks += 1,
        }
    }

    fn on_wake(&mut self, at: Instant, token: u32, network: &mut Network) -> bool {
        let segment = TcpSegment {
            seq: Seq(self.sent * PAYLOAD),
            payload_len: PAYLOAD,
            flags: TcpFlags::ACK,
            window: 1000,
            ..TcpSegment::default()
        };
        self.sent += 1;
        network.send(at, &sending(self.flow, Direction::Downlink, segment));
        if at + self.interval < self.stop {
            network.schedule(at + self.interval, token);
        }
        true
    }
}
