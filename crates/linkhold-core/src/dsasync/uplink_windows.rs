//! The windows that stations are told: the uplink's queue is at the station.
//!
//! Beside the paper (`dsasync`), whose section IV-B b delays ACKs instead. Sees the correspondent's ACKs on
//! their way down and the data that comes up; emits window rewrites, and ACKs that repeat what the
//! correspondent acknowledged.
//!
//! The base station sees what has left the radio, and lets the station send as far beyond that as
//! [`UplinkRate::ahead`](super::uplink_rate::UplinkRate::ahead) says. So the station's queue is short
//! whatever the wired round trip is. If the edge ought to be further than the station was told and no ACK
//! passes that could tell it so, an ACK is made up that repeats the last one with a larger window: a window
//! update, which no sender takes for a duplicate (RFC 5681 section 2).
//!
//! A station is never told a window larger than the correspondent offered last, or a right edge before one
//! it was told earlier. Flows that are signed or whose window scale is unknown are left alone.

use super::flow::Flow;
use super::round_trip::RoundTrips;
use super::shared::Shared;
use super::up_window::UpWindow;
use crate::action::{AckSpec, Action, Actions, Rewrite};
use crate::packet::{Direction, PacketView, TcpFlags, TcpTimestamp};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// While ACKs pass down at least this often, none is made up.
const ACKS_PASS: Duration = Duration::from_millis(5);

/// Right edge up to which the measured rate lets the station send; `None`: no limit.
fn wanted_edge(round_trips: &RoundTrips, flow: &Flow) -> Option<Seq> {
    let uplink = round_trips.uplink(flow.station)?;
    let (next, local) = (flow.up_next?, round_trips.uplink_radio_part(flow.station)?);
    let ahead = uplink.ahead(local, flow.handshake.mss)?;
    Some(next + ahead)
}

/// The window field that tells this edge: rounded up, and no more than `offer`.
fn field(edge: Seq, ack: Seq, offer: u16, shift: u8) -> u16 {
    let bytes = u32::try_from(edge.minus(ack)).unwrap_or(0);
    let field = bytes.saturating_add((1 << shift) - 1) >> shift;
    u16::try_from(field).unwrap_or(u16::MAX).min(offer)
}

/// What becomes of the window of a segment that goes down now; `tells`: its ACK number and window; `tick`:
/// its timestamp.
#[inline]
pub(super) fn pass_downlink(
    now: Instant,
    shared: &mut Shared,
    round_trips: &RoundTrips,
    slot: u32,
    tells: Option<(Seq, u16)>,
    tick: Option<u32>,
) -> Rewrite {
    let Some((ack, offer)) = tells else { return Rewrite::NONE };
    let flow = shared.flows.at(slot);
    if flow.signed || flow.up.is_none() {
        return Rewrite::NONE;
    }
    let Some(newest) = flow.correspondent_acked().filter(|acked| !ack.after(*acked)) else {
        return clamp_unbelieved(shared, slot, ack, offer);
    };
    let wanted = wanted_edge(round_trips, flow);
    let Some(up) = &mut flow.up else { return Rewrite::NONE };
    let Some(shift) = up.shift else { return Rewrite::NONE };
    let mut window = offer;
    // While no told edge is known, a smaller window might take one back.
    if let (Some(wanted), Some(told)) = (wanted, up.edge) {
        window = field(told.max(wanted), ack, offer, shift);
    }
    // What went down before anything was noted told all of the correspondent's windows, and this one may have
    // come back from the transmit queue.
    let told = if up.edge.is_none() { newest } else { ack };
    up.note(now, told, window, shift);
    up.begin_echo(now, tick, shared.monitor.silences_of(flow.station));
    clamp(shared, window, offer)
}

/// Tells this window in place of the one that is offered.
#[inline]
fn clamp(shared: &mut Shared, window: u16, offer: u16) -> Rewrite {
    if window == offer {
        return Rewrite::NONE;
    }
    shared.metrics.windows_clamped += 1;
    Rewrite { window: Some(window), ..Rewrite::NONE }
}

/// An acknowledgment of what the station has not sent, as far as is known, may be made up, or of what went
/// past us. It moves nothing, and tells the station no more than it has been told.
#[cold]
fn clamp_unbelieved(shared: &mut Shared, slot: u32, ack: Seq, offer: u16) -> Rewrite {
    let told = shared.flows.at(slot).up.as_ref().and_then(|up| up.edge.zip(up.shift));
    let Some((edge, shift)) = told else { return Rewrite::NONE };
    clamp(shared, field(edge, ack, offer, shift), offer)
}

/// A segment came up from the station: its rate is measured, and the station is told how far it may send now.
#[inline]
pub(super) fn tell_station(
    now: Instant,
    shared: &mut Shared,
    round_trips: &mut RoundTrips,
    slot: u32,
    packet: &PacketView<'_>,
    out: &mut Actions,
) {
    if !round_trips.measures() {
        return;
    }
    if packet.tcp.flags.contains(TcpFlags::SYN)
        && let Some(TcpTimestamp { value, .. }) = packet.tcp.timestamp
    {
        round_trips.on_stations_syn(now, packet.station, shared.flows.id(slot), value);
    }
    if packet.tcp.payload_len > 0 && !shared.monitor.tfp(packet.station) {
        tell_how_far(now, shared, round_trips, slot, packet, out);
    }
}

/// As [`tell_station`], where windows are held down.
#[inline(never)]
fn tell_how_far(
    now: Instant,
    shared: &mut Shared,
    round_trips: &mut RoundTrips,
    slot: u32,
    packet: &PacketView<'_>,
    out: &mut Actions,
) {
    let id = shared.flows.id(slot);
    let flow = shared.flows.at(slot);
    let up = flow.up.get_or_insert_with(|| {
        let mut up = Box::<UpWindow>::default();
        if let Some((at, value)) = round_trips.syn_of(packet.station, id) {
            up.one_way.begin(at, value);
        }
        up
    });
    let silences = shared.monitor.silences_of(packet.station);
    let took = up.end_echo(now, packet.tcp.timestamp, silences);
    let waited = up.one_way.on_segment(now, packet.tcp.timestamp);
    if let Some(took) = took {
        round_trips.on_echo(now, packet.station, took);
    }
    if let Some(waited) = waited {
        round_trips.on_data_waited(now, packet.station, waited, took);
    }
    let local = round_trips.uplink_radio_part(packet.station).unwrap_or_default();
    let Some(uplink) = round_trips.uplink_at(packet.station) else { return };
    let allowed = match (up.edge, flow.up_next) {
        (Some(edge), Some(next)) => u64::try_from(edge.minus(next)).unwrap_or(0),
        (None, _) | (_, None) => u64::MAX,
    };
    uplink.shares.add(now, packet.len, &mut up.share);
    if flow.sends_new {
        uplink.on_came_up(now, u64::from(packet.tcp.payload_len), allowed, local);
    }
    let (told_at, told, offer, shift, timestamp) = (up.told, up.edge, up.offer, up.shift, up.timestamp);
    if flow.signed || flow.is_over() || now.since(told_at) < ACKS_PASS {
        return;
    }
    let (Some(told), Some(wanted)) = (told, wanted_edge(round_trips, flow)) else { return };
    let (Some(ack), Some(seq), Some(shift)) = (flow.correspondent_acked(), flow.down_max, shift) else {
        return;
    };
    let segment = flow.handshake.mss.clamp(536, 9000);
    if wanted.minus(told) < 2 * segment as i32 {
        return;
    }
    let window = field(wanted, ack, offer, shift);
    if !(ack + (u32::from(window) << shift)).after(told) {
        return;
    }
    let key = flow.key;
    if let Some(up) = &mut flow.up {
        up.note(now, ack, window, shift);
        up.begin_echo(now, timestamp.map(|timestamp| timestamp.value), silences);
    }
    out.push(Action::InjectAck(AckSpec {
        flow: key,
        direction: Direction::Downlink,
        seq,
        ack,
        window,
        timestamp,
        ece: false,
    }));
    shared.metrics.acks_injected += 1;
}
