//! The windows that stations are told, where nobody tells the rate: the uplink's queue is at the station.
//!
//! Beside the paper (`dsasync`), whose section IV-B b delays ACKs instead. Sees the correspondent's ACKs on
//! their way down and the data that comes up; emits window rewrites, and ACKs that repeat what the
//! correspondent acknowledged.
//!
//! The base station sees what has left the radio, and lets the station send as far beyond that as
//! [`Untold::ahead`](super::untold::Untold::ahead) says, so the station's queue is short whatever the wired
//! round trip is. If the edge ought to be further than the station was told and no ACK passes that would tell
//! it, an ACK is made up that repeats the last one with a larger window: a window update, which no sender
//! takes for a duplicate (RFC 5681 section 2).
//!
//! A station is never told a window larger than the correspondent offered last, or a right edge below one
//! it was told before. Flows that are signed or whose window scale is unknown are left alone.

use core::cmp::Ordering;

use super::flow::Flow;
use super::round_trip::{PROBE_LIFE, RoundTrips};
use super::shared::Shared;
use super::shares::Tally;
use crate::action::{AckSpec, Action, Actions, Rewrite};
use crate::packet::{Direction, PacketView, TcpTimestamp};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// While ACKs pass down at least this often, none is made up.
const ACKS_PASS: Duration = Duration::from_millis(5);

/// What a station with uplink data is told of its correspondent's window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpWindow {
    /// The correspondent's latest window field, its shift if known, and its latest timestamp.
    pub offer: u16,
    pub shift: Option<u8>,
    pub timestamp: Option<TcpTimestamp>,
    /// Right edge of the windows that the station was told since its first data; `None`: it was told none.
    edge: Option<Seq>,
    /// When the station was last told a window.
    told: Instant,
    share: Tally,
    /// The newest timestamp that went down to the station, and one whose answer is still waited for.
    newest: Option<u32>,
    echo: Option<Echo>,
}

/// A timestamp that went down for the first time. Whatever the station sends after it came repeats it (RFC
/// 7323).
#[derive(Clone, Copy, Debug)]
struct Echo {
    value: u32,
    at: Instant,
    /// Silences of the station until then.
    silences: u64,
}

impl UpWindow {
    fn note(&mut self, now: Instant, ack: Seq, window: u16, shift: u8) {
        let edge = ack + (u32::from(window) << shift);
        self.edge = Some(self.edge.map_or(edge, |old| old.max(edge)));
        self.told = now;
    }

    /// The correspondent's newest timestamp goes down. If it went down before, an answer may be under way
    /// already, and none is waited for.
    fn begin_echo(&mut self, now: Instant, silences: u64) {
        let Some(TcpTimestamp { value, .. }) = self.timestamp else { return };
        let is_new = self.newest.is_none_or(|newest| (value.wrapping_sub(newest) as i32) > 0);
        if !is_new {
            return;
        }
        self.newest = Some(value);
        if self.echo.is_none_or(|echo| now.since(echo.at) > PROBE_LIFE) {
            self.echo = Some(Echo { value, at: now, silences });
        }
    }

    /// Data came up with this timestamp; the station has had `silences`. Returns the time since the timestamp
    /// that it repeats went down, if that is the one waited for and no silence lies between.
    fn end_echo(&mut self, now: Instant, timestamp: Option<TcpTimestamp>, silences: u64) -> Option<Duration> {
        let echo = self.echo?;
        let order = timestamp?.echo_against(echo.value);
        if order == Ordering::Less {
            return None;
        }
        self.echo = None;
        (order == Ordering::Equal && silences == echo.silences).then(|| now.since(echo.at))
    }
}

/// Right edge up to which the measured rate lets the station send; `None`: no limit.
fn wanted_edge(round_trips: &RoundTrips, flow: &Flow) -> Option<Seq> {
    let untold = round_trips.untold(flow.station)?;
    let (next, local) = (flow.up_next?, round_trips.uplink_radio_part(flow.station)?);
    let ahead = untold.ahead(local, flow.handshake.mss)?;
    Some(next + ahead)
}

/// The window field that tells this edge: rounded up, and no more than `offer`.
fn field(edge: Seq, ack: Seq, offer: u16, shift: u8) -> u16 {
    let bytes = u32::try_from(edge.minus(ack)).unwrap_or(0);
    let field = bytes.saturating_add((1 << shift) - 1) >> shift;
    u16::try_from(field).unwrap_or(u16::MAX).min(offer)
}

/// What becomes of the window of a segment that goes down now; `tells`: its ACK number and window.
#[inline]
pub(super) fn pass_downlink(
    now: Instant,
    shared: &mut Shared,
    round_trips: &RoundTrips,
    slot: u32,
    tells: Option<(Seq, u16)>,
) -> Rewrite {
    let Some((ack, offer)) = tells else { return Rewrite::NONE };
    let flow = shared.flows.at(slot);
    if flow.signed || flow.up.is_none() {
        return Rewrite::NONE;
    }
    let wanted = wanted_edge(round_trips, flow);
    let newest = flow.correspondent_acked().map_or(ack, |acked| acked.max(ack));
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
    up.begin_echo(now, shared.monitor.silences_of(flow.station));
    if window == offer {
        return Rewrite::NONE;
    }
    shared.metrics.windows_clamped += 1;
    Rewrite { window: Some(window), ..Rewrite::NONE }
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
    if packet.tcp.payload_len > 0 && !round_trips.bdp.is_told() && !shared.monitor.tfp(packet.station) {
        tell_how_far(now, shared, round_trips, slot, packet, out);
    }
}

/// As [`tell_station`], where nobody tells the rate.
#[inline(never)]
fn tell_how_far(
    now: Instant,
    shared: &mut Shared,
    round_trips: &mut RoundTrips,
    slot: u32,
    packet: &PacketView<'_>,
    out: &mut Actions,
) {
    let flow = shared.flows.at(slot);
    let up = flow.up.get_or_insert_with(Box::default);
    let silences = shared.monitor.silences_of(packet.station);
    if let Some(took) = up.end_echo(now, packet.tcp.timestamp, silences) {
        round_trips.on_echo(now, packet.station, took);
    }
    let local = round_trips.uplink_radio_part(packet.station).unwrap_or_default();
    let Some(untold) = round_trips.untold_at(packet.station) else { return };
    let allowed = match (up.edge, flow.up_next) {
        (Some(edge), Some(next)) => u64::try_from(edge.minus(next)).unwrap_or(0),
        (None, _) | (_, None) => u64::MAX,
    };
    untold.up_shares().add(now, packet.len, &mut up.share);
    if flow.sends_new {
        untold.on_came_up(now, u64::from(packet.tcp.payload_len), allowed, local);
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
        up.begin_echo(now, silences);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens at a time, ms.
    #[derive(Clone, Copy)]
    enum Step {
        /// An ACK with this timestamp goes down.
        Down(u32),
        /// Data comes up that repeats this one.
        Up(u32),
        Silence,
    }
    use Step::{Down, Silence, Up};

    #[test]
    fn a_local_round_trip_is_from_the_first_of_a_timestamp_to_its_first_answer() {
        const TOP: u32 = u32::MAX;
        type Row<'a> = (&'a [(u64, Step)], &'a [u64]);
        // (steps, times measured, ms)
        let rows: [Row<'_>; 7] = [
            (&[(0, Down(7)), (30, Up(7)), (31, Up(7)), (40, Down(9)), (65, Up(9))], &[30, 25]),
            // What repeats an older one was under way already.
            (&[(0, Down(7)), (5, Up(6)), (30, Up(7))], &[30]),
            // A second ACK with the same tick may be answered because of the first.
            (&[(0, Down(7)), (30, Up(7)), (31, Down(7)), (32, Up(7)), (33, Down(8)), (60, Up(8))], &[30, 27]),
            // Answered only with a later one: nothing is known of this one, and the next one is taken.
            (&[(0, Down(7)), (10, Down(8)), (35, Up(8)), (40, Down(9)), (60, Up(9))], &[20]),
            (&[(0, Down(7)), (10, Silence), (500, Up(7)), (600, Down(8)), (630, Up(8))], &[30]),
            // Never answered.
            (&[(0, Down(7)), (1500, Down(8)), (1530, Up(8))], &[30]),
            // Timestamps wrap around, and what is old comes again.
            (&[(0, Down(TOP)), (20, Up(TOP)), (30, Down(3)), (31, Down(TOP)), (50, Up(3))], &[20, 20]),
        ];
        for (number, (steps, expected)) in rows.iter().enumerate() {
            let (mut up, mut silences, mut measured) = (UpWindow::default(), 0, Vec::new());
            for &(ms, step) in *steps {
                let now = Instant::from_millis(1000 + ms);
                match step {
                    Down(value) => {
                        up.timestamp = Some(TcpTimestamp { value, echo: 0 });
                        up.begin_echo(now, silences);
                    }
                    Up(echo) => {
                        measured.extend(up.end_echo(now, Some(TcpTimestamp { value: 0, echo }), silences));
                    }
                    Silence => silences += 1,
                }
            }
            let expected: Vec<_> = expected.iter().map(|&ms| Duration::from_millis(ms)).collect();
            assert_eq!(measured, expected, "row {number}");
        }
    }
}
