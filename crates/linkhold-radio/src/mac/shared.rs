//! A medium that carries one frame at a time, shared in turns.
//!
//! Sees ready contenders; emits deliveries, and drops of what failed too often. How long a frame takes stands
//! in `air_time.rs`.
//! States: idle → on the air → idle.
//! Simplifications:
//! - contenders take turns, a frame each. That stands for the equal chances of 802.11's DCF (as in dsasync
//!   section VI-A); collisions among contenders are in the MAC efficiency, or not modelled (`802.11a`);
//! - a frame that collided with a primary user, or that noise spoiled (`snr/losses.rs`), is sent again on
//!   the contender's next turn, up to `retry_limit` times. A receiver's ACK is never lost to noise;
//! - no frame starts that would not end by the next scheduled silence of its station (a sensing quiet period
//!   or a scripted switch), as 802.11's quiet element demands; it waits for its end. A frame on the air when
//!   a silence comes unscheduled (a detected primary user) is aborted and sent again first, not counted as a
//!   collision.

use core::ops::Range;

use linkhold_core::time::Instant;

use super::contenders::Pending;
use super::context::Context;
use crate::cell::station_of;
use crate::frame::AirDrop;
use crate::rng::Stream;

/// A transmission.
#[derive(Clone, Copy, Debug)]
struct OnAir {
    pending: Pending,
    collided: bool,
    /// Index of the channel that it is on.
    channel: usize,
    started_at: Instant,
}

impl OnAir {
    /// Counts the time for which its radios were busy; it ends or is aborted at `now`.
    #[inline]
    fn count(&self, now: Instant, context: &mut Context<'_>) {
        if let Some(usage) = &mut context.usage {
            usage.note(&self.pending.frame, now.since(self.started_at));
        }
    }

    /// Whether noise spoils it; it ends at `now`.
    #[inline]
    fn is_spoiled(&self, now: Instant, context: &mut Context<'_>) -> bool {
        let Some(losses) = &mut context.losses else { return false };
        let middle = self.started_at + now.since(self.started_at).mul_f64(0.5);
        losses.spoils(self.channel, station_of(&self.pending.frame), self.pending.frame.len, middle)
    }
}

/// The medium and those who contend for it.
#[derive(Clone, Debug)]
pub(crate) struct SharedMedium {
    contenders: Range<usize>,
    /// Whose turn comes next.
    turn: usize,
    on_air: Option<OnAir>,
    /// When the transmission ends; far future when idle.
    ends_at: Instant,
    /// For backoffs.
    stream: Stream,
}

impl SharedMedium {
    pub(crate) fn new(contenders: Range<u32>, stream: Stream) -> Self {
        let contenders = contenders.start as usize..contenders.end as usize;
        Self { turn: contenders.start, contenders, on_air: None, ends_at: Instant::FAR_FUTURE, stream }
    }

    pub(crate) const fn next(&self) -> Instant {
        self.ends_at
    }

    pub(crate) const fn is_busy(&self) -> bool {
        self.on_air.is_some()
    }

    /// The transmission ends.
    pub(crate) fn step(&mut self, context: &mut Context<'_>) {
        let now = self.ends_at;
        self.ends_at = Instant::FAR_FUTURE;
        let Some(on_air) = self.on_air.take() else { return };
        let OnAir { mut pending, collided, .. } = on_air;
        on_air.count(now, context);
        if !collided && !on_air.is_spoiled(now, context) {
            context.out.delivered(pending.frame, pending.ce);
        } else if pending.failures >= context.retry_limit {
            let reason = if collided { AirDrop::RetryLimit } else { AirDrop::Noise };
            context.out.dropped(pending.frame, reason);
        } else {
            pending.failures += 1;
            context.contenders.put_back(pending);
        }
        self.start(now, context);
    }

    /// Starts the next transmission if the medium is idle and the radio may send.
    #[inline]
    pub(crate) fn start(&mut self, now: Instant, context: &mut Context<'_>) {
        if self.on_air.is_none() && !context.radio.stops_network() {
            self.start_next(now, context);
        }
    }

    fn start_next(&mut self, now: Instant, context: &mut Context<'_>) {
        while let Some(contender) = context.contenders.next_ready(&self.contenders, self.turn) {
            let Some(pending) = context.contenders.take(contender, now, context.out) else { continue };
            let station = station_of(&pending.frame);
            let ends_at = now + context.radio.air_time().draw(pending.frame.len, &mut self.stream);
            // A channel without capacity never ends a transmission: nothing starts on it.
            if ends_at > context.radio.quiet_at(station) || ends_at == Instant::FAR_FUTURE {
                context.contenders.put_back(pending);
                context.contenders.block(station);
                continue;
            }
            context.contenders.note_taken(contender);
            self.ends_at = ends_at;
            self.on_air = Some(OnAir {
                pending,
                collided: context.radio.collides(),
                channel: context.radio.channel(),
                started_at: now,
            });
            self.turn =
                if contender + 1 == self.contenders.end { self.contenders.start } else { contender + 1 };
            return;
        }
    }

    pub(crate) fn on_radio_change(&mut self, now: Instant, context: &mut Context<'_>) {
        if let Some(on_air) = &mut self.on_air {
            if context.radio.stops_network() || context.radio.stops_station(station_of(&on_air.pending.frame))
            {
                on_air.count(now, context);
                context.contenders.put_back(on_air.pending);
                self.on_air = None;
                self.ends_at = Instant::FAR_FUTURE;
            } else if context.radio.collides() {
                on_air.collided = true;
            }
        }
        self.start(now, context);
    }
}
