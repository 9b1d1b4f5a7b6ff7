//! How far a sender may go: the right edge of the window that it is told.
//!
//! Beside the paper (`dsasync`). Sees what round trips and rates are measured, and what quiet periods were
//! announced; answers windows, and emits ACKs that repeat what the station acknowledged.
//!
//! Where the wired round trip varies, a window lasts for what data is usually late as well (`lateness.rs`).
//!
//! An edge never recedes, and a window is never above the station's offer. What part of a window
//! announced quiet periods take is explained in `foresight.rs`.

use super::config::{Clamp, DsaSyncConfig, Mode};
use super::flow::Flow;
use super::round_trip::RoundTrips;
use super::shared::Shared;
use crate::action::Actions;
use crate::link_monitor::LinkMonitor;
use crate::packet::StationId;
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// How much later than the least wired round trip the data may come that a window lets go.
const EDGE_SLACK: Duration = Duration::from_millis(20);

/// Time between two looks at the windows in a quiet period, half the standing queue: what an edge lets go at
/// once is a short burst beside it.
pub(super) const LOOK: Duration = Duration::from_micros(2500);

/// Tells the sender the station's last offer, held down to the clamp. False if that is zero or not known.
pub(super) fn tell_window(
    now: Instant,
    shared: &mut Shared,
    round_trips: &RoundTrips,
    slot: u32,
    out: &mut Actions,
) -> bool {
    let quiet = quiet_ahead(now, shared, slot);
    let flow = shared.flows.known(slot);
    let window = match (flow.acked, flow.offer_shift) {
        (Some(acked), Some(shift)) => {
            clamped(shared.config.clamp, round_trips, flow, quiet, acked, flow.offer, shift)
        }
        (Some(_), None) => flow.offer,
        (None, _) => 0,
    };
    if window == 0 || !shared.inject(slot, window, out) {
        return false;
    }
    let flow = shared.flows.at(slot);
    if let (Some(acked), Some(shift)) = (flow.acked, flow.offer_shift) {
        flow.note_edge(acked, window, shift);
    }
    true
}

/// Looks whether what was told a wired round trip ago has come. If not, the sender does not use its window
/// up, and a radio that runs dry says nothing of the window.
pub(super) fn look_at_edge(now: Instant, round_trips: &mut RoundTrips, flow: &mut Flow) {
    let (Some(edge), Some(newest), Some(wired)) = (flow.told_edge, flow.down_max, flow.wired.get()) else {
        return;
    };
    let late = round_trips.allows(flow);
    let Some(watched) = &mut flow.watched else { return };
    if let Some((old, due)) = watched.edge_due {
        if now < due {
            return;
        }
        let used_up = flow.handshake.ends_at(newest, old);
        if let Some(untold) = round_trips.untold_at(flow.station) {
            untold.rate.saw_edge(now, flow.slot, used_up, (wired + late + EDGE_SLACK) * 2);
        }
    }
    watched.edge_due = Some((edge, now + wired + late + EDGE_SLACK));
}

/// A window held down to the clamp: never more than `window`, never short of an edge already told. `quiet`:
/// how long the radio is silent in the wired round trip to come ([`quiet_ahead`]).
pub(super) fn clamped(
    clamp: Clamp,
    round_trips: &RoundTrips,
    flow: &Flow,
    quiet: Duration,
    ack: Seq,
    window: u16,
    shift: u8,
) -> u16 {
    let wanted = match clamp {
        Clamp::Off => false,
        Clamp::OnSwitch => flow.clamp_on,
        Clamp::Always => true,
    };
    if !wanted || !flow.has_data {
        return window;
    }
    // What was not measured is not taken for nothing: the window would be too small by it.
    let (Some(wired), Some(radio)) = (flow.wired.get(), round_trips.radio_part(flow.station)) else {
        return window;
    };
    let wired = wired.saturating_sub(quiet) + round_trips.allows(flow);
    let told = round_trips.told_window(flow, wired, radio);
    let Some(bytes) = told.or_else(|| round_trips.measured_window(flow, wired)) else { return window };
    // Both are rounded up: the told edge so that it never recedes, the clamp so that its least of two
    // segments stays two. With one and a bit a sender sends one and waits for the delayed ACK.
    let told = flow.told_edge.map_or(0, |edge| u32::try_from(edge.minus(ack)).unwrap_or(0));
    let field = bytes.max(told).saturating_add((1 << shift) - 1) >> shift;
    u16::try_from(field.max(1)).unwrap_or(u16::MAX).min(window)
}

/// True where windows are held down, and may change because of a silence.
#[inline]
pub(super) fn foresees(config: &DsaSyncConfig) -> bool {
    config.foresee && config.clamp != Clamp::Off && config.mode != Mode::Hold
}

/// Quiet time that was announced for the flow's next wired round trip: in this part of it the radio will not
/// carry what is let go from now on.
#[inline]
pub(super) fn quiet_ahead(now: Instant, shared: &Shared, slot: u32) -> Duration {
    let flow = shared.flows.known(slot);
    match flow.wired.get() {
        Some(wired) if foresees(&shared.config) => {
            let quiet = quiet_within(now + LOOK, wired, &shared.monitor, flow.station);
            quiet.saturating_sub(shared.late_data)
        }
        Some(_) | None => Duration::ZERO,
    }
}

fn quiet_within(from: Instant, wired: Duration, monitor: &LinkMonitor, station: StationId) -> Duration {
    let quiet = monitor.silent_within(from, wired, station);
    let is_explained = || !monitor.tfp(station) || monitor.quiet_until(from, station).is_some();
    if quiet.is_zero() || is_explained() { quiet } else { Duration::ZERO }
}
