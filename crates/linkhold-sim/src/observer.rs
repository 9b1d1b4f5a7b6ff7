//! Who watches a run as it goes: packet captures, progress bars, streams of silences.

use linkhold_core::packet::FlowKey;
use linkhold_core::time::Instant;
use linkhold_radio::Silence;

use crate::network::Sent;
use crate::slab::Packet;

/// Where a packet was seen: as a capture on that host would see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenAt {
    /// At the correspondent host.
    Correspondent,
    /// At the station.
    Station,
}

/// Watches a run. Every method has a default that does nothing.
pub trait Observer {
    /// Asked once: are [`on_packet`](Self::on_packet) calls wanted?
    fn wants_packets(&self) -> bool {
        false
    }

    /// A packet left (`packet.sent_at == now`) or reached a host.
    fn on_packet(&mut self, _now: Instant, _seen_at: SeenAt, _flow: &FlowKey, _packet: &Packet) {}

    /// Asked once: are [`on_transmission`](Self::on_transmission) calls wanted?
    fn wants_transmissions(&self) -> bool {
        false
    }

    /// A transmission on the air has ended; `flow` is that of its packet, if the packet is known. Only a
    /// radio whose medium access has single transmissions tells them (IEEE 802.15.4, a DCF, a mesh).
    fn on_transmission(&mut self, _sent: &Sent, _flow: Option<&FlowKey>) {}

    /// A silence is over, or the end of the run cut it. Silences come in the order of their end.
    fn on_silence(&mut self, _silence: &Silence) {}

    /// Another series interval of simulated time has passed.
    fn on_progress(&mut self, _now: Instant) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
