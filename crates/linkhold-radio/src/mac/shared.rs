//! A medium that carries one frame at a time, shared in turns.
//!
//! Sees ready contenders; emits deliveries and retry-limit drops. A frame takes `len * 8 / (rate * efficiency)`.
//! States: idle → on the air → idle.
//! Simplifications:
//! - contenders take turns, a frame each. That stands for the equal chances of 802.11's DCF (as in dsasync section
//!   VI-A); backoff and collisions among contenders are in the MAC efficiency;
//! - a collision with a primary user is retried on the contender's next turn, up to `retry_limit` times;
//! - no frame starts that would not end by the next scheduled silence of its station (a sensing quiet period or a
//!   scripted switch), as 802.11's quiet element demands; it waits for its end. A frame on the air when a silence
//!   comes unscheduled (a detected primary user) is aborted and sent again first, not counted as a collision.

use core::ops::Range;

use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use super::{Cell, Pending};
use crate::frame::AirDrop;

/// A transmission.
#[derive(Clone, Copy, Debug)]
struct OnAir {
    pending: Pending,
    collided: bool,
}

/// The medium and those who contend for it.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    contenders: Range<usize>,
    /// Whose turn comes next.
    turn: usize,
    on_air: Option<OnAir>,
    /// When the transmission ends; far future when idle.
    ends_at: Instant,
}

impl Medium {
    pub(crate) fn new(contenders: Range<u32>) -> Self {
        let contenders = contenders.start as usize..contenders.end as usize;
        Self { turn: contenders.start, contenders, on_air: None, ends_at: Instant::FAR_FUTURE }
    }

    pub(crate) const fn next(&self) -> Instant {
        self.ends_at
    }

    pub(crate) const fn is_busy(&self) -> bool {
        self.on_air.is_some()
    }

    /// The transmission ends.
    pub(crate) fn step(&mut self, cell: &mut Cell<'_>) {
        let now = self.ends_at;
        self.ends_at = Instant::FAR_FUTURE;
        let Some(OnAir { mut pending, collided }) = self.on_air.take() else { return };
        if !collided {
            cell.out.delivered(pending.frame, pending.ce);
        } else if pending.collisions >= cell.retry_limit {
            cell.out.dropped(pending.frame, AirDrop::RetryLimit);
        } else {
            pending.collisions += 1;
            cell.contenders.put_back(pending);
        }
        self.start(now, cell);
    }

    /// Starts the next transmission if the medium is idle and the radio may send.
    pub(crate) fn start(&mut self, now: Instant, cell: &mut Cell<'_>) {
        if self.on_air.is_some() || cell.radio.stops_network() {
            return;
        }
        while let Some(contender) = cell.contenders.next_ready(&self.contenders, self.turn) {
            let Some(pending) = cell.contenders.take(contender, now, cell.out) else { continue };
            let station = pending.frame.station;
            let ends_at = now + cell.radio.rate().time_for(Bytes(u64::from(pending.frame.len)));
            // A channel without capacity never ends a transmission: nothing starts on it.
            if ends_at > cell.radio.quiet_at(station) || ends_at == Instant::FAR_FUTURE {
                cell.contenders.put_back(pending);
                cell.contenders.block(station);
                continue;
            }
            self.ends_at = ends_at;
            self.on_air = Some(OnAir { pending, collided: cell.radio.collides() });
            self.turn =
                if contender + 1 == self.contenders.end { self.contenders.start } else { contender + 1 };
            return;
        }
    }

    pub(crate) fn on_radio_change(&mut self, now: Instant, cell: &mut Cell<'_>) {
        if let Some(on_air) = &mut self.on_air {
            if cell.radio.stops_network() || cell.radio.stops_station(on_air.pending.frame.station) {
                cell.contenders.put_back(on_air.pending);
                self.on_air = None;
                self.ends_at = Instant::FAR_FUTURE;
            } else if cell.radio.collides() {
                on_air.collided = true;
            }
        }
        self.start(now, cell);
    }
}
