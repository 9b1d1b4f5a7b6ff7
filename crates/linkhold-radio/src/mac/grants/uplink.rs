//! The uplink subframe: granted bursts, messages that tell bytes, and requests in contention.

use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use super::Grants;
use super::burst::{Partial, has};
use super::config::{Backoff, Requesting, Steps};
use super::contention::below;
use super::in_flight::{Allocation, LEAST_SHARE, Message, Try};
use super::station::{Access, Attempt, Demand};
use crate::cell::station_of;
use crate::frame::AirDrop;
use crate::mac::context::Context;

impl Grants {
    // ---- what a station wants ----

    /// Bytes that a station has to send or expects to, and has not asked for. If there are any, at least what
    /// makes a burst worth its header: two that are too short each would never send what one could.
    fn unasked(&self, index: usize, context: &Context<'_>) -> u64 {
        let station = &self.stations[index];
        let header = u64::from(self.config.header);
        let (packets, bytes) = context.contenders.backlog(index + 1);
        let waits = bytes + u64::from(packets) * header + station.held_bytes(header);
        match (waits + station.ahead).saturating_sub(station.asked) {
            0 => 0,
            unasked => unasked.max(waits.min(LEAST_SHARE + header)),
        }
    }

    /// A packet of `bytes` was queued: if it was asked for ahead, it is what was expected.
    pub(super) fn arrived(&mut self, index: usize, bytes: u64) {
        let station = &mut self.stations[index];
        station.ahead = station.ahead.saturating_sub(bytes + u64::from(self.config.header));
    }

    /// Starts an access if the station has something to ask for.
    pub(super) fn want(&mut self, now: Instant, index: usize, at_once: bool, context: &Context<'_>) {
        if matches!(self.stations[index].access, Access::Idle) && self.unasked(index, context) > 0 {
            self.begin_access(now, index, at_once);
        }
    }

    /// Starts an access unless one goes on, or a burst is to come that can carry the request.
    pub(super) fn begin_access(&mut self, now: Instant, index: usize, at_once: bool) {
        let station = &self.stations[index];
        if !matches!(station.access, Access::Idle) || (self.config.piggyback && station.asked > 0) {
            return;
        }
        let mut first = self.first_up(now, at_once);
        match self.config.requesting {
            Requesting::Contention { backoff: Backoff::Standard, backoff_start, .. } if backoff_start > 0 => {
                first += below(&mut self.stream, 1 << backoff_start);
            }
            Requesting::Contention { .. } => {}
            Requesting::Reserved { period } => first = opportunity(first, period, index),
        }
        let attempt = Attempt { since: now, first, tries: 0 };
        self.stations[index].access = Access::Contending { attempt, frame: first };
        self.next_access = self.next_access.min(first);
        if !self.silent {
            self.timers.up = self.timers.up.min(self.up_start(first));
        }
    }

    // ---- the subframe ----

    /// Uplink frame `frame` starts. True if accesses may have changed.
    pub(super) fn send_up(&mut self, now: Instant, frame: u64, context: &mut Context<'_>) -> bool {
        let ends = self.frame_start(frame) + self.layout.up_end;
        let mut sends = false;
        while let Some(&allocation) = self.allocations.front()
            && allocation.frame <= frame
        {
            self.allocations.pop_front();
            let id = StationId(allocation.station as u32);
            if allocation.frame < frame
                || context.radio.stops_station(id)
                || ends > context.radio.quiet_at(id)
            {
                self.grant_again(allocation, frame);
            } else {
                self.fill_burst(now, allocation, context);
                sends = true;
            }
        }
        let asks = self.next_access <= frame;
        for (index, id) in (0..self.stations.len()).zip((0..).map(StationId)).filter(|_| asks) {
            if self.stations[index].access.frame().is_none_or(|at| at > frame) {
                continue;
            }
            if !context.radio.stops_station(id) && ends <= context.radio.quiet_at(id) {
                self.access(now, index, frame, context);
            }
        }
        if sends || !self.tries.is_empty() || !self.messages.is_empty() {
            self.up.begin(context.radio.collides());
            self.timers.up_end = ends;
        }
        self.tell_waiting(now, context);
        asks
    }

    fn fill_burst(&mut self, now: Instant, allocation: Allocation, context: &mut Context<'_>) {
        let Allocation { station: index, at, bytes, asked, since, .. } = allocation;
        let header = u64::from(self.config.header);
        let rate = self.uplink_rate(context);
        let middle = at + rate.time_for(Bytes(bytes)).mul_f64(0.5);
        let station = &mut self.stations[index];
        let mut partial = station.partial.take();
        let again = &mut station.again;
        let (contenders, out) = (&mut *context.contenders, &mut *context.out);
        let next = || {
            let pending = again.pop_front().or_else(|| contenders.take(index + 1, now, out))?;
            Some(Partial::whole(pending))
        };
        let left = self.up.fill(bytes, header, (middle, rate), &mut partial, next);
        station.partial = partial;
        if !station.in_burst {
            station.in_burst = true;
            self.served.push(index);
        }
        station.asked = station.asked.saturating_sub(asked);
        if left > 0 {
            station.ahead = station.ahead.saturating_sub(left);
            self.unused.push((StationId(index as u32), Bytes(left)));
            self.counters.unused_grants += 1;
            self.counters.unused_bytes += left;
        }
        if let Some(since) = since {
            self.counters.accesses += 1;
            self.counters.access_delay += at.since(since);
        }
        let more = self.unasked(index, context);
        if self.config.piggyback && more > 0 {
            self.stations[index].asked += more;
            self.counters.piggybacked += 1;
            self.messages.push(Message { station: index, bytes: more, since: None });
        }
    }

    /// Does what a station's access has to do in uplink frame `frame`.
    fn access(&mut self, now: Instant, index: usize, frame: u64, context: &mut Context<'_>) {
        let bytes = self.unasked(index, context);
        let (mut attempt, mut due) = match self.stations[index].access {
            Access::Idle | Access::OnAir => return,
            Access::Assigned { since, .. } => {
                self.stations[index].access = Access::Idle;
                if bytes > 0 {
                    self.stations[index].asked += bytes;
                    self.messages.push(Message { station: index, bytes, since: Some(since) });
                }
                return;
            }
            Access::Contending { attempt, .. } => (attempt, frame),
            Access::Unanswered { attempt, .. } => {
                self.counters.t3_expiries += 1;
                if attempt.tries >= self.config.max_tries {
                    self.give_up(now, index, context);
                    return;
                }
                (attempt, frame + self.backoff(attempt))
            }
        };
        if bytes == 0 {
            self.stations[index].access = Access::Idle;
            return;
        }
        if let Requesting::Reserved { period } = self.config.requesting {
            due = opportunity(due, period, index);
        }
        if due > frame {
            self.stations[index].access = Access::Contending { attempt, frame: due };
            return;
        }
        if attempt.tries == 0 {
            attempt.first = frame;
        }
        attempt.tries += 1;
        self.counters.requests += 1;
        let opportunity = match self.config.requesting {
            Requesting::Contention { .. } => Some(self.opportunities.draw(&mut self.stream)),
            Requesting::Reserved { .. } => None,
        };
        let bytes = match self.config.steps {
            Steps::One => bytes,
            Steps::Two => 0,
        };
        let station = &mut self.stations[index];
        station.asked += bytes;
        station.access = Access::OnAir;
        self.tries.push(Try { station: index, attempt, opportunity, bytes });
    }

    /// Frames that a station waits after T3.
    fn backoff(&mut self, attempt: Attempt) -> u64 {
        match self.config.requesting {
            Requesting::Contention { backoff: Backoff::Standard, backoff_start, backoff_end, .. } => {
                let exponent = attempt.tries.saturating_add(u32::from(backoff_start));
                below(&mut self.stream, 1 << exponent.min(u32::from(backoff_end)))
            }
            Requesting::Contention { backoff: Backoff::Paper, .. } | Requesting::Reserved { .. } => 0,
        }
    }

    /// The station has made its last try.
    fn give_up(&mut self, now: Instant, index: usize, context: &mut Context<'_>) {
        self.counters.given_up += 1;
        let station = &mut self.stations[index];
        station.access = Access::Idle;
        let held = station.take_held().map(|partial| partial.pending);
        match held.or_else(|| context.contenders.take(index + 1, now, context.out)) {
            Some(pending) => context.out.dropped(pending.frame, AirDrop::NoGrant),
            // What was expected has not come, and is not waited for any longer.
            None => station.ahead = 0,
        }
    }

    /// The subframe ends, or is cut by a silence of the whole network.
    pub(super) fn end_up(&mut self, now: Instant, cut: bool, context: &mut Context<'_>) {
        // The frame in which it was sent; one that is cut ends early.
        let frame = self.next_up.saturating_sub(1);
        let second = u64::from(self.config.second_answer());
        let header = u64::from(self.config.header);
        let collided = self.up.collided;
        let stations = &self.stations;
        self.up.settle(|station| cut || stations[station.0 as usize].cut, context);
        for &index in &self.served {
            let (station, id) = (&mut self.stations[index], StationId(index as u32));
            station.in_burst = false;
            let back = self.up.back.iter().filter(|pending| station_of(&pending.frame) == id);
            let lost = cut || collided || station.cut || has(&self.up.back, id);
            if lost {
                let bytes = station.give_back(back.copied(), header);
                // A burst that carried nothing (a grant unasked for, a packet dropped meanwhile) is not
                // wanted again; a demand of no bytes would never be met.
                if bytes > 0 {
                    station.asked += bytes;
                    station.demands.push_back(Demand { bytes, frame: frame + second, since: None });
                    self.demanded = true;
                }
            }
        }
        self.up.back.clear();
        for (station, bytes) in self.unused.drain(..) {
            context.out.link(LinkEvent::at(now, LinkEventKind::GrantUnused { station, bytes }));
        }
        let mut messages = core::mem::take(&mut self.messages);
        for Message { station: index, bytes, since } in messages.drain(..) {
            let station = &mut self.stations[index];
            if !cut && !collided && !station.cut {
                station.demands.push_back(Demand { bytes, frame: frame + second, since });
                self.demanded = true;
                continue;
            }
            station.asked = station.asked.saturating_sub(bytes);
            if let Some(since) = since {
                let attempt = Attempt { since, first: frame + 1, tries: 0 };
                station.access = Access::Contending { attempt, frame: frame + 1 };
            }
        }
        self.messages = messages;
        let mut tries = core::mem::take(&mut self.tries);
        for &made in &tries {
            self.answer(now, made, frame, cut || collided, context);
        }
        for opportunity in tries.drain(..).filter_map(|made| made.opportunity) {
            self.opportunities.clear(opportunity);
        }
        self.tries = tries;
        for index in self.served.drain(..) {
            self.stations[index].cut = false;
        }
        self.tell_waiting(now, context);
    }

    /// What became of a request that was sent in uplink frame `frame`.
    fn answer(&mut self, now: Instant, made: Try, frame: u64, lost: bool, context: &mut Context<'_>) {
        let Try { station: index, attempt, opportunity, bytes } = made;
        let collided = opportunity.is_some_and(|drawn| self.opportunities.collided(drawn));
        let received = !lost
            && !collided
            && !self.stations[index].cut
            && self.stream.unit() < self.config.success_at(now).get();
        let station = &mut self.stations[index];
        if received {
            let frame = frame + u64::from(self.config.first_answer());
            match self.config.steps {
                Steps::One => {
                    station.demands.push_back(Demand { bytes, frame, since: Some(attempt.since) });
                    self.demanded = true;
                    station.access = Access::Idle;
                }
                Steps::Two => station.access = Access::Assigned { since: attempt.since, frame },
            }
            return;
        }
        if collided {
            self.counters.collisions += 1;
        } else {
            self.counters.tries_lost += 1;
        }
        station.asked = station.asked.saturating_sub(bytes);
        let paper = matches!(self.config.requesting, Requesting::Contention { backoff: Backoff::Paper, .. });
        if !paper {
            station.access = Access::Unanswered { attempt, frame: frame + self.config.t3_frames() };
        } else if attempt.tries < self.config.max_tries {
            // The next try, number tries + 1, is over 2^tries frames after the first was due.
            let frame = attempt.first + (1 << attempt.tries.min(62)) - 1;
            station.access = Access::Contending { attempt, frame };
        } else {
            self.give_up(now, index, context);
        }
    }

    // ---- silences ----

    /// A burst did not take place, and the base station knows: it grants it in a later frame.
    fn grant_again(&mut self, allocation: Allocation, frame: u64) {
        let Allocation { station, asked: bytes, since, .. } = allocation;
        if bytes > 0 {
            self.stations[station].demands.push_front(Demand { bytes, frame, since });
            self.demanded = true;
        }
    }

    /// The network is silent: none of the bursts to come takes place.
    pub(super) fn take_back_allocations(&mut self, now: Instant) {
        let frame = self.first_up(now, true);
        while let Some(allocation) = self.allocations.pop_back() {
            self.grant_again(allocation, frame);
        }
        self.untold = 0;
    }
}

/// A station's first opportunity of its own in uplink frame `from` or later. Stations follow each other.
const fn opportunity(from: u64, period: u32, station: usize) -> u64 {
    let period = period as u64;
    let own = station as u64 % period;
    from + (own + period - from % period) % period
}
