//! The way of an uplink packet through the shaper (Algorithms 3 and 4).
//!
//! Paper: `dsasync` section IV-B b ("buffers the inbound ACKs"); the algorithms are in `uplink.rs`. Sees
//! uplink packets; emits verdicts and `Release`. A packet: arrived → shaped → passed on, with the window that
//! is right when it leaves.

use super::flow_table::FlowId;
use super::round_trip::{RoundTrips, probe_wired};
use super::shared::Shared;
use super::uplink::{UplinkConfig, UplinkMode, UplinkShaper, UplinkVerdict};
use super::windows::Windows;
use crate::action::{Action, Actions, DropReason, Rewrite, Verdict};
use crate::packet::{PacketId, PacketView, StationId, TcpFlags};
use crate::time::Instant;
use crate::units::Seq;

/// An uplink packet in the shaper. The shaper knows it by its index in [`UplinkPath::shaped`].
#[derive(Clone, Copy, Debug)]
struct Shaped {
    packet: PacketId,
    flow: FlowId,
    len: u32,
    ack: Seq,
    window: u16,
    /// ACK and window mean something (not on a RST, nor on what is not believed).
    tells: bool,
    /// The correspondent heeds the window: not on a segment sent again.
    counts: bool,
    /// Its header is signed: it leaves as it came, whatever becomes of its flow meanwhile.
    signed: bool,
    /// Shift of `window`; `None` where it is unknown, and in a SYN, whose window is never held down.
    shift: Option<u8>,
    /// What was decided when it came.
    rewrite: Rewrite,
}

/// The shaper and the packets in it.
#[derive(Debug)]
pub(super) struct UplinkPath {
    shaper: UplinkShaper,
    shaped: Vec<Shaped>,
    /// Unused places of `shaped`.
    free: Vec<u32>,
    /// What the shaper has let go and is to be released. Empty between calls; its memory is kept.
    due: Vec<PacketId>,
}

impl UplinkPath {
    pub fn new(config: &UplinkConfig) -> Self {
        Self { shaper: UplinkShaper::new(config), shaped: Vec::new(), free: Vec::new(), due: Vec::new() }
    }

    /// True while packets are held that a packet of this station must queue behind.
    pub fn has(&self, station: StationId) -> bool {
        self.shaper.has(station)
    }

    /// Packets held.
    pub fn packets(&self) -> u64 {
        self.shaper.held_packets()
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.shaper.next_timeout()
    }

    /// Hands an uplink packet to the shaper.
    #[expect(clippy::too_many_arguments, reason = "two of them are other parts that it reads")]
    #[inline(never)]
    pub fn shape(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        slot: u32,
        packet: &PacketView<'_>,
        rewrite: Rewrite,
        believed: bool,
        out: &mut Actions,
    ) -> Verdict {
        let alpha = match shared.config.uplink.mode {
            UplinkMode::Off => return Verdict::Forward(rewrite),
            UplinkMode::PerStation => shared.monitor.alpha(now, packet.station),
            UplinkMode::Pooled => shared.monitor.alpha_network(now),
        };
        let is_syn = packet.tcp.flags.contains(TcpFlags::SYN);
        let tells =
            believed && packet.tcp.flags.contains(TcpFlags::ACK) && !packet.tcp.flags.contains(TcpFlags::RST);
        let entry = Shaped {
            packet: packet.id,
            flow: shared.flows.id(slot),
            len: packet.len,
            ack: packet.tcp.ack,
            window: packet.tcp.window,
            tells,
            counts: tells && shared.flows.at(slot).counts,
            signed: packet.tcp.signed,
            shift: shared.flows.at(slot).handshake.shift_of(packet.tcp).filter(|_| !is_syn),
            rewrite,
        };
        if !shared.space.fits(packet.len, 0) {
            // B_alloc bounds both directions; what waits here goes first, in order.
            self.flush(now, shared, windows, round_trips, out);
            return Verdict::Forward(leaving(now, shared, windows, round_trips, &entry));
        }
        let index = self.free.pop().unwrap_or(self.shaped.len() as u32);
        match self.shaped.get_mut(index as usize) {
            Some(place) => *place = entry,
            None => self.shaped.push(entry),
        }
        let id = PacketId(u64::from(index));
        let mut rewrite = rewrite;
        let mut verdict = self.shaper.on_packet(now, packet.station, id, packet.len, alpha);
        if verdict == UplinkVerdict::Full {
            self.shaper.make_room(now, packet.len, |id| self.due.push(id));
            self.release_due(now, shared, windows, round_trips, out);
            // ACKs released since have told the correspondent more than when `rewrite` was decided.
            rewrite = leaving(now, shared, windows, round_trips, &entry);
            verdict = self.shaper.on_packet(now, packet.station, id, packet.len, alpha);
        }
        match verdict {
            UplinkVerdict::Hold => {
                shared.flows.at(slot).shaped += u32::from(entry.counts);
                shared.space.take(packet.len);
                shared.metrics.holds += 1;
                Verdict::Hold
            }
            UplinkVerdict::Forward => {
                self.free.push(index);
                if believed {
                    probe_wired(now, shared.flows.at(slot), packet.tcp);
                }
                Verdict::Forward(rewrite)
            }
            UplinkVerdict::Full => {
                self.free.push(index);
                shared.drop_packet(DropReason::BufferFull)
            }
        }
    }

    /// Releases what is due.
    pub fn on_timeout(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        out: &mut Actions,
    ) {
        let (monitor, due) = (&shared.monitor, &mut self.due);
        match shared.config.uplink.mode {
            UplinkMode::Off => {}
            UplinkMode::PerStation => {
                self.shaper.on_timeout(now, |station| monitor.alpha(now, station), |id| due.push(id));
            }
            UplinkMode::Pooled => {
                self.shaper.on_timeout(now, |_| monitor.alpha_network(now), |id| due.push(id));
            }
        }
        self.release_due(now, shared, windows, round_trips, out);
    }

    /// Releases everything, in order.
    pub fn flush(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        out: &mut Actions,
    ) {
        self.shaper.flush(|id| self.due.push(id));
        self.release_due(now, shared, windows, round_trips, out);
    }

    /// Releases what the shaper has let go, with the window that is right now.
    fn release_due(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        out: &mut Actions,
    ) {
        for id in self.due.drain(..) {
            let index = id.0 as u32;
            let entry = self.shaped[index as usize];
            self.free.push(index);
            shared.space.give_back(entry.len);
            let rewrite = if shared.flows.by_id(entry.flow).is_some() {
                shared.flows.at(entry.flow.slot).shaped -= u32::from(entry.counts);
                leaving(now, shared, windows, round_trips, &entry)
            } else {
                // The flow is forgotten, and what was decided when this ACK came with it: by now the
                // correspondent may know of a further edge. The station's own window never falls short of it.
                Rewrite { window: None, ..entry.rewrite }
            };
            shared.metrics.released += 1;
            out.push(Action::Release { packet: entry.packet, rewrite });
        }
    }
}

/// What becomes of an ACK that leaves now, whatever was decided when it came: ACKs released since have told
/// the correspondent more.
fn leaving(
    now: Instant,
    shared: &mut Shared,
    windows: &mut Windows,
    round_trips: &RoundTrips,
    entry: &Shaped,
) -> Rewrite {
    let mut rewrite = entry.rewrite;
    if !entry.tells {
        return rewrite;
    }
    let slot = entry.flow.slot;
    if entry.window > 0 && !entry.signed && shared.flows.at(slot).has_data {
        rewrite.window =
            windows.on_leaving_shaper(now, shared, round_trips, slot, entry.ack, entry.window, entry.shift);
    }
    shared.flows.at(slot).passed = rewrite.window.unwrap_or(entry.window);
    rewrite
}
