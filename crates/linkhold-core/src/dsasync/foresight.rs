//! Windows that let nothing arrive in a quiet period that was announced.
//!
//! Beside the paper (`dsasync`), which knows of announced sensing only in α_i. Sees the schedules that the
//! link monitor has, and silences; makes windows smaller, and emits ACKs that repeat what the station
//! acknowledged, with a larger window.
//!
//! What a window lets go at t arrives at t + R, where R is the wired round trip. So the window that keeps the
//! radio busy and leaves a queue of `standing` is
//!
//! ```text
//! W(t) = rate · (R + radio part + standing − quiet time in (t, t + R])
//! ```
//!
//! Without the last term, what the radio would have carried in a quiet period arrives in that period. It
//! waits here, and what comes later waits behind it, until a round trip after the period's beginning: that
//! costs delay and brings nothing.
//! - From R before a quiet period on the window shrinks as fast as ACKs come: its right edge stands still for
//!   the length of the period, and never recedes.
//! - In a quiet period no ACK comes that could move the edge, so we move it, every [`LOOK`], as far as the
//!   radio will carry afterwards.
//! - In a silence that no schedule explains (a primary user) nobody knows when the radio will be back. Then
//!   the whole window is given at once: what is missing from it would be missing when the radio is back.
//! - R is the least wired round trip. Where data comes later, the radio would run dry after each quiet
//!   period. So the term is smaller by as much as data was late, which is watched after each period: if the
//!   radio has nothing when data comes, that data was late. What happens after one period only is chance.
//!
//! A schedule counts as long as its quiet periods come when they are due
//! (`LinkMonitor::silent_within`): a radio that does not keep to it would stand still for them.
//!
//! Between silences: nothing to do → looking (a silence begins, and somebody announced one) → nothing to do.

use super::edge::{LOOK, clamped, foresees, quiet_ahead, tell_window};
use super::round_trip::RoundTrips;
use super::shared::Shared;
use crate::action::Actions;
use crate::link_event::Scope;
use crate::packet::StationId;
use crate::time::{Duration, Instant};

/// How late data comes is watched for this time after a quiet period.
const WATCH: Duration = Duration::from_millis(100);

/// For so long after a silence that was not announced, senders may have other reasons to be late.
const SETTLED: Duration = Duration::from_millis(500);

/// The part by which the lateness that is allowed for shrinks after each quiet period in which the radio did
/// not run dry.
const FORGET: f64 = 0.125;

/// What is to be done in quiet periods.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    /// The next look at the windows, and the last one.
    looks: Option<(Instant, Instant)>,
    /// End of the quiet period that lasts, as it was announced.
    quiet: Option<Instant>,
    /// When the latest quiet period ended, until it is known if data was late.
    watch: Option<Instant>,
    /// By how much data was late after the quiet period that was watched last.
    was_late: Duration,
    /// When the latest silence ended that was not announced.
    disturbed: Option<Instant>,
}

impl Foresight {
    /// A silence begins.
    #[inline]
    pub fn silence_began(&mut self, now: Instant, shared: &Shared, scope: Scope) {
        if !foresees(&shared.config) || !shared.monitor.has_schedules() {
            return;
        }
        // The network's schedule covers a station that does not exist, too.
        let station = match scope {
            Scope::Network => StationId(u32::MAX),
            Scope::Station(station) => station,
        };
        let quiet = shared.monitor.quiet_until(now + LOOK, station);
        (self.quiet, self.watch) = (quiet, None);
        let until = quiet.unwrap_or(now);
        let last = self.looks.map_or(until, |(_, last)| last.max(until));
        self.looks = Some((now, last));
    }

    /// A silence has ended.
    #[inline]
    pub fn silence_ended(&mut self, now: Instant) {
        let as_announced =
            self.quiet.take().is_some_and(|until| until.since(now).max(now.since(until)) <= LOOK);
        if !as_announced {
            self.disturbed = Some(now);
        } else if self.disturbed.is_none_or(|at| now.since(at) > SETTLED) {
            self.watch = Some(now);
        }
    }

    /// True while [`on_data`](Self::on_data) wants to be called.
    #[inline]
    pub fn watches(&self) -> bool {
        self.watch.is_some()
    }

    /// Data comes; `idle`: nothing is held, and stations have acknowledged all that went down.
    #[inline]
    pub fn on_data(&mut self, now: Instant, shared: &mut Shared, idle: bool) {
        if let Some(ended) = self.watch {
            let after = now.since(ended);
            if after > WATCH {
                shared.late_data = shared.late_data.mul_f64(1.0 - FORGET);
                (self.was_late, self.watch) = (Duration::ZERO, None);
            } else if idle {
                shared.late_data = (shared.late_data + after.min(self.was_late)).min(WATCH);
                (self.was_late, self.watch) = (after, None);
            }
        }
    }

    /// When the windows are looked at next.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.looks.map(|(next, _)| next)
    }

    /// Tells the senders of silent stations how far they may go by now.
    #[inline]
    pub fn on_timeout(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        out: &mut Actions,
    ) {
        if let Some((next, last)) = self.looks
            && next <= now
        {
            self.looks = (now + LOOK <= last).then_some((now + LOOK, last));
            look(now, shared, round_trips, out);
        }
    }
}

/// Moves the edges that have to move by a segment or more.
#[cold]
fn look(now: Instant, shared: &mut Shared, round_trips: &RoundTrips, out: &mut Actions) {
    for slot in 0..shared.flows.slot_count() {
        let Some(flow) = shared.flows.get(slot) else { continue };
        let silenced = flow.has_data && !flow.window.is_closed() && shared.monitor.tfp(flow.station);
        if !silenced || flow.signed || flow.is_over() || flow.shaped > 0 {
            continue;
        }
        let (Some(acked), Some(shift), Some(edge)) = (flow.acked, flow.offer_shift, flow.told_edge) else {
            continue;
        };
        let quiet = quiet_ahead(now, shared, slot);
        let window = clamped(shared.config.clamp, round_trips, flow, quiet, acked, flow.offer, shift);
        let segment = flow.handshake.mss.clamp(536, 9000);
        if (acked + (u32::from(window) << shift)).after(edge + (segment - 1)) {
            tell_window(now, shared, round_trips, slot, out);
        }
    }
}
