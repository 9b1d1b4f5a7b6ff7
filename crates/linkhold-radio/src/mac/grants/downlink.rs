//! The downlink subframe: filled from the base station's queue, in its order, and delivered at its end.

use linkhold_core::link_event::Scope;
use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;

use super::burst::{Partial, has};
use super::{Grants, tell_silence};
use crate::cell::station_of;
use crate::mac::context::Context;

impl Grants {
    /// Fills the subframe of the frame that starts now.
    pub(super) fn fill_down(&mut self, now: Instant, context: &mut Context<'_>) {
        if self.tells_pauses() {
            self.timers.down_end = now + self.layout.down_end;
        }
        let ends = now + self.layout.down_end;
        let rate = context.radio.air_time().effective_rate();
        let (room, header) = (rate.bytes_in(self.layout.down_data()).0, u64::from(self.config.header));
        if room <= header {
            return;
        }
        // A burst's place in the subframe is the base station's business; noise is looked at in the middle.
        let middle = now + self.layout.data + self.layout.down_data().mul_f64(0.5);
        let radio = context.radio;
        let (contenders, out) = (&mut *context.contenders, &mut *context.out);
        if let Some(partial) = self.down_partial
            && ends > radio.quiet_at(station_of(&partial.pending.frame))
        {
            // It would have to wait over a silence. Nobody else waits for it: it starts anew.
            self.down_partial = None;
            contenders.give_back_down(partial.pending);
            contenders.block(station_of(&partial.pending.frame));
        }
        let next = || {
            loop {
                let pending = contenders.take(0, now, out)?;
                let station = station_of(&pending.frame);
                if ends <= radio.quiet_at(station) {
                    return Some(Partial::whole(pending));
                }
                contenders.give_back_down(pending);
                contenders.block(station);
            }
        };
        let left = self.down.fill(room, header, (middle, rate), &mut self.down_partial, next);
        if left < room {
            self.down.begin(radio.collides());
            self.timers.down_end = ends;
        }
    }

    /// The downlink's pause is over: what a mechanism releases now is still in time for the frame.
    pub(super) fn resume_down(&mut self, now: Instant, context: &mut Context<'_>) {
        self.paused = false;
        tell_silence(now, Scope::Network, false, None, context);
    }

    pub(super) fn end_down(&mut self, now: Instant, context: &mut Context<'_>) {
        self.settle_down(|_| false, context);
        if self.tells_pauses() && !self.paused {
            self.paused = true;
            let pause = self.config.frame.saturating_sub(self.layout.down_end);
            tell_silence(now, Scope::Network, true, Some(pause), context);
        }
    }

    /// Takes what goes to stations that are silent now off the air.
    pub(super) fn cut_down(&mut self, context: &mut Context<'_>) {
        let radio = context.radio;
        let cut = |station: StationId| radio.stops_network() || radio.stops_station(station);
        let done = &mut self.down.done;
        let mut back = core::mem::take(&mut self.down.back);
        done.retain(|done| {
            let stays = !cut(station_of(&done.pending.frame));
            if !stays {
                back.push(done.pending);
            }
            stays
        });
        self.down.back = back;
        let partial = self.down_partial.take_if(|partial| cut(station_of(&partial.pending.frame)));
        self.down.back.extend(partial.map(|partial| partial.pending));
        self.give_back(context);
        if radio.stops_network() {
            self.down.open = false;
        }
    }

    fn settle_down(&mut self, cut: impl Fn(StationId) -> bool, context: &mut Context<'_>) {
        let collided = self.down.collided;
        self.down.settle(cut, context);
        let back = &self.down.back;
        let spoiled = |partial: &mut Partial| collided || has(back, station_of(&partial.pending.frame));
        if let Some(mut partial) = self.down_partial.take_if(spoiled) {
            partial.pending.failures += u32::from(collided);
            self.down.back.push(partial.pending);
        }
        self.give_back(context);
    }

    fn give_back(&mut self, context: &mut Context<'_>) {
        for pending in self.down.back.drain(..).rev() {
            context.contenders.give_back_down(pending);
        }
    }
}
