//! Frames sent on the delivery opportunities of a measured trace, as mahimahi's `link_queue.cc` does.
//!
//! Sees opportunities of 1500 bytes each; emits deliveries. What an opportunity has left after a frame serves
//! the next frames, and a frame may take several opportunities. What finds the queue empty is lost, be it a
//! whole opportunity or the rest of one. A frame that is queued at the very time of an opportunity is too
//! late for it.
//! States each way: idle (nothing to send) → waiting for the next opportunity → idle.
//! Deviations: mahimahi knows no silences beside the trace; here sensing and primary users may be laid over
//! it, and opportunities in them are lost. A primary user not yet detected loses them likewise, without
//! collisions. Stations share the uplink's opportunities in turns, a frame each.

use core::ops::Range;
use std::sync::Arc;

use linkhold_core::time::Instant;

use super::contenders::Pending;
use super::context::Context;
use crate::cell::station_of;
use crate::frame::RadioId;
use crate::trace::{OPPORTUNITY_BYTES, Trace, TraceCursor};

/// One direction.
#[derive(Clone, Debug)]
struct Way {
    cursor: TraceCursor,
    contenders: Range<usize>,
    turn: usize,
    /// A frame partly sent, and the bytes that it still needs.
    partial: Option<(Pending, u64)>,
    /// When the opportunity comes that it waits for; far future when idle.
    due: Instant,
}

impl Way {
    fn new(trace: Arc<Trace>, contenders: Range<usize>) -> Self {
        Self {
            cursor: TraceCursor::new(trace),
            turn: contenders.start,
            contenders,
            partial: None,
            due: Instant::FAR_FUTURE,
        }
    }

    /// Waits for the next opportunity if there is something to send. One at `now` itself counts only when a
    /// silence has just ended.
    fn arm(&mut self, now: Instant, keep_now: bool, context: &Context<'_>) {
        self.due = Instant::FAR_FUTURE;
        if unusable(context) {
            return;
        }
        let wanted =
            self.partial.is_some() || context.contenders.next_ready(&self.contenders, self.turn).is_some();
        if wanted {
            self.cursor.seek(now, keep_now);
            self.due = self.cursor.at();
        }
    }

    fn step(&mut self, context: &mut Context<'_>) {
        let now = self.due;
        let mut left = u64::from(self.cursor.opportunities()) * u64::from(OPPORTUNITY_BYTES);
        self.cursor.advance();
        while left > 0 {
            let Some((pending, needs)) = self.partial.take().or_else(|| self.take(now, context)) else {
                break;
            };
            let sent = needs.min(left);
            left -= sent;
            if sent == needs {
                context.out.delivered(pending.frame, pending.ce);
            } else {
                self.partial = Some((pending, needs - sent));
            }
        }
        // A lap's last stamp and the next lap's stamp 0 fall together; both are served.
        self.arm(now, true, context);
    }

    fn take(&mut self, now: Instant, context: &mut Context<'_>) -> Option<(Pending, u64)> {
        while let Some(contender) = context.contenders.next_ready(&self.contenders, self.turn) {
            if let Some(pending) = context.contenders.take(contender, now, context.out) {
                self.turn =
                    if contender + 1 == self.contenders.end { self.contenders.start } else { contender + 1 };
                return Some((pending, u64::from(pending.frame.len)));
            }
        }
        None
    }

    fn on_radio_change(&mut self, now: Instant, context: &mut Context<'_>) {
        // What was sent of a frame is lost when its station falls silent.
        let aborted = |pending: &Pending| {
            context.radio.stops_network() || context.contenders.is_blocked(station_of(&pending.frame))
        };
        if let Some((pending, _)) = self.partial.take_if(|(pending, _)| aborted(pending)) {
            context.contenders.put_back(pending);
        }
        // A silence that ends at the time of an opportunity leaves it usable; one already used is behind the
        // cursor.
        self.arm(now, true, context);
    }
}

fn unusable(context: &Context<'_>) -> bool {
    context.radio.stops_network() || context.radio.collides()
}

/// Both directions.
#[derive(Clone, Debug)]
pub(crate) struct TraceMac {
    down: Way,
    up: Way,
}

impl TraceMac {
    pub(crate) fn new(down: Arc<Trace>, up: Arc<Trace>, stations: u32) -> Self {
        Self { down: Way::new(down, 0..1), up: Way::new(up, 1..stations as usize + 1) }
    }

    pub(crate) fn next(&self) -> Instant {
        self.down.due.min(self.up.due)
    }

    pub(crate) fn step(&mut self, context: &mut Context<'_>) {
        if self.down.due <= self.up.due { self.down.step(context) } else { self.up.step(context) }
    }

    pub(crate) fn on_enqueue(&mut self, now: Instant, sender: RadioId, context: &Context<'_>) {
        let side = if sender == RadioId::BASE_STATION { &mut self.down } else { &mut self.up };
        if side.due == Instant::FAR_FUTURE {
            side.arm(now, false, context);
        }
    }

    pub(crate) fn on_radio_change(&mut self, now: Instant, context: &mut Context<'_>) {
        self.down.on_radio_change(now, context);
        self.up.on_radio_change(now, context);
    }

    pub(crate) fn on_air(&self) -> u64 {
        u64::from(self.down.partial.is_some()) + u64::from(self.up.partial.is_some())
    }
}
