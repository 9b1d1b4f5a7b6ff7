//! What is in a subframe: whole packets, a packet's fragment, and what becomes of them at its end.
//!
//! A packet is delivered when the subframe ends in which its last byte was sent. One that fails takes the
//! later ones of its station with it, so that packets never overtake each other; the repetition of all is
//! what an ARQ without a receive window does.

use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};

use crate::cell::station_of;
use crate::frame::AirDrop;
use crate::mac::contenders::Pending;
use crate::mac::context::Context;

/// A packet of which some bytes are still to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub(super) pending: Pending,
    pub(super) left: u32,
}

impl Partial {
    pub(super) const fn whole(pending: Pending) -> Self {
        Self { left: pending.frame.len, pending }
    }
}

/// A packet whose last byte is in the subframe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) pending: Pending,
    /// The middle of its burst, at which noise is looked at.
    pub(super) middle: Instant,
    /// What its bytes took.
    pub(super) took: Duration,
}

/// A subframe on the air.
#[derive(Clone, Debug, Default)]
pub(super) struct Subframe {
    pub(super) open: bool,
    /// A primary user that nobody has noticed transmitted in it.
    pub(super) collided: bool,
    pub(super) done: Vec<Done>,
    /// Scratch: what has to be sent again.
    pub(super) back: Vec<Pending>,
}

impl Subframe {
    pub(super) fn begin(&mut self, collided: bool) {
        self.open = true;
        self.collided = collided;
    }

    /// Cuts pieces of packets into a burst of `room` bytes, each with `header` around it, and returns what is
    /// left of it. `next` gives the packets; what was begun and not finished is in `partial`.
    pub(super) fn fill(
        &mut self,
        mut room: u64,
        header: u64,
        (middle, rate): (Instant, BitRate),
        partial: &mut Option<Partial>,
        mut next: impl FnMut() -> Option<Partial>,
    ) -> u64 {
        while room > header {
            let Some(mut part) = partial.take().or_else(&mut next) else { break };
            let piece = u64::from(part.left).min(room - header);
            room -= piece + header;
            part.left -= piece as u32;
            if part.left == 0 {
                let took = rate.time_for(Bytes(u64::from(part.pending.frame.len) + header));
                self.done.push(Done { pending: part.pending, middle, took });
            } else {
                *partial = Some(part);
            }
        }
        room
    }

    /// The subframe ends, or is cut for the stations that are `cut`. What arrives is delivered; what has to
    /// be sent again is left in `back`, in order.
    pub(super) fn settle(&mut self, cut: impl Fn(StationId) -> bool, context: &mut Context<'_>) {
        let (channel, collided) = (context.radio.channel(), self.collided);
        for Done { mut pending, middle, took } in self.done.drain(..) {
            let station = station_of(&pending.frame);
            if cut(station) || has(&self.back, station) {
                self.back.push(pending);
                continue;
            }
            if let Some(usage) = &mut context.usage {
                usage.note(&pending.frame, took);
            }
            let len = pending.frame.len;
            let reason = if collided {
                AirDrop::RetryLimit
            } else if context.losses.as_mut().is_some_and(|l| l.spoils(channel, station, len, middle)) {
                AirDrop::Noise
            } else {
                context.out.delivered(pending.frame, pending.ce);
                continue;
            };
            if pending.failures >= context.retry_limit {
                context.out.dropped(pending.frame, reason);
            } else {
                pending.failures += 1;
                self.back.push(pending);
            }
        }
        self.open = false;
        self.collided = false;
    }
}

/// Whether one of `back` is a packet to or from `station`.
pub(super) fn has(back: &[Pending], station: StationId) -> bool {
    back.iter().any(|pending| station_of(&pending.frame) == station)
}
