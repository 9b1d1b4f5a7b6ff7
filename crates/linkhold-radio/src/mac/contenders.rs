//! Those who have something to send: the base station (contender 0) and each station (its id plus 1), their queues,
//! and the frames that go back to the head after a failed or postponed transmission.

use core::ops::Range;

use linkhold_core::link_event::Scope;
use linkhold_core::packet::{Direction, StationId};
use linkhold_core::time::Instant;

use crate::frame::{AirOutput, Frame};
use crate::queue::{Queue, QueueKind, is_blocked};
use crate::silence::Timeline;

/// The base station among the contenders.
pub(crate) const BASE_STATION: usize = 0;

/// A frame out of its queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) frame: Frame,
    /// The queue marked it congestion-experienced.
    pub(crate) ce: bool,
    /// Transmissions that collided.
    pub(crate) collisions: u32,
}

/// All queues of the cell.
#[derive(Clone, Debug)]
pub(crate) struct Contenders {
    down: Queue,
    up: Vec<Queue>,
    /// By station: a downlink frame to send before any queued one.
    down_heads: Vec<Option<Pending>>,
    down_heads_count: u32,
    /// By station: likewise uplink.
    up_heads: Vec<Option<Pending>>,
    /// By station: nothing to or from it is started now, because it is silent or a frame would not end before its
    /// next scheduled silence.
    blocked: Vec<bool>,
    /// By contender, 64 a word: it may have a frame that can start.
    ready: Vec<u64>,
}

impl Contenders {
    pub(crate) fn new(stations: u32, router: QueueKind, station_queue: QueueKind) -> Self {
        let count = stations as usize;
        Self {
            down: Queue::new(router),
            up: (0..count).map(|_| Queue::new(station_queue)).collect(),
            down_heads: vec![None; count],
            down_heads_count: 0,
            up_heads: vec![None; count],
            blocked: vec![false; count],
            ready: vec![0; (count + 1).div_ceil(64)],
        }
    }

    /// Queues a frame; answers its contender.
    pub(crate) fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) -> usize {
        let (queue, contender) = match frame.direction {
            Direction::Downlink => (&mut self.down, BASE_STATION),
            Direction::Uplink => {
                let station = frame.station.0 as usize;
                (&mut self.up[station], station + 1)
            }
        };
        queue.enqueue(now, frame, out);
        self.set_ready(contender);
        contender
    }

    /// The next frame that `contender` may start, if it has one.
    pub(crate) fn take(&mut self, contender: usize, now: Instant, out: &mut AirOutput) -> Option<Pending> {
        let taken = if contender == BASE_STATION {
            self.take_head_down().or_else(|| {
                let (frame, ce) = self.down.dequeue(now, &self.blocked, out)?;
                Some(Pending { frame, ce, collisions: 0 })
            })
        } else {
            self.take_up(contender - 1, now, out)
        };
        if taken.is_none() {
            self.ready[contender / 64] &= !(1 << (contender % 64));
        }
        taken
    }

    fn take_head_down(&mut self) -> Option<Pending> {
        if self.down_heads_count == 0 {
            return None;
        }
        let station = (0..self.down_heads.len())
            .find(|&station| self.down_heads[station].is_some() && !self.blocked[station])?;
        self.down_heads_count -= 1;
        self.down_heads[station].take()
    }

    fn take_up(&mut self, station: usize, now: Instant, out: &mut AirOutput) -> Option<Pending> {
        if self.blocked[station] {
            return None;
        }
        if let Some(pending) = self.up_heads[station].take() {
            return Some(pending);
        }
        let (frame, ce) = self.up[station].dequeue(now, &[], out)?;
        Some(Pending { frame, ce, collisions: 0 })
    }

    /// Puts a frame back to the head of its contender.
    pub(crate) fn put_back(&mut self, pending: Pending) {
        let station = pending.frame.station.0 as usize;
        let (head, contender) = match pending.frame.direction {
            Direction::Downlink => {
                self.down_heads_count += 1;
                (&mut self.down_heads[station], BASE_STATION)
            }
            Direction::Uplink => (&mut self.up_heads[station], station + 1),
        };
        debug_assert!(head.is_none(), "one frame a station and direction is out of its queue at a time");
        *head = Some(pending);
        self.set_ready(contender);
    }

    /// Starts nothing to or from `station` before the radio changes.
    pub(crate) fn block(&mut self, station: StationId) {
        if let Some(blocked) = self.blocked.get_mut(station.0 as usize) {
            *blocked = true;
        }
    }

    /// Takes over who is silent, and looks at every queue again.
    pub(crate) fn on_radio_change(&mut self, radio: &Timeline) {
        for (station, blocked) in (0..).zip(&mut self.blocked) {
            *blocked = radio.stops_station(StationId(station));
        }
        self.down.unblock();
        if self.down.packets() > 0 || self.down_heads_count > 0 {
            self.set_ready(BASE_STATION);
        }
        for station in 0..self.up.len() {
            if self.up[station].packets() > 0 || self.up_heads[station].is_some() {
                self.set_ready(station + 1);
            }
        }
    }

    pub(crate) fn is_blocked(&self, station: StationId) -> bool {
        is_blocked(&self.blocked, station)
    }

    fn set_ready(&mut self, contender: usize) {
        self.ready[contender / 64] |= 1 << (contender % 64);
    }

    /// The first contender of `among` at or after `from`, going round, that may have a frame to start.
    pub(crate) fn next_ready(&self, among: &Range<usize>, from: usize) -> Option<usize> {
        self.first_ready(from, among.end).or_else(|| self.first_ready(among.start, from))
    }

    fn first_ready(&self, from: usize, to: usize) -> Option<usize> {
        let mut at = from;
        while at < to {
            let word = self.ready[at / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros() as usize;
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Takes the scope's downlink frames out, in order of arrival.
    pub(crate) fn reclaim(&mut self, scope: Scope, into: &mut Vec<Frame>) {
        for (station, head) in (0..).zip(&mut self.down_heads) {
            if scope.covers(StationId(station))
                && let Some(pending) = head.take()
            {
                self.down_heads_count -= 1;
                into.push(pending.frame);
            }
        }
        self.down.reclaim(scope, into);
    }

    pub(crate) const fn downlink(&self) -> &Queue {
        &self.down
    }

    /// Downlink packets and bytes waiting, those put back included.
    pub(crate) fn downlink_backlog(&self) -> (u32, u64) {
        if self.down_heads_count == 0 {
            return (self.down.packets(), self.down.bytes());
        }
        let put_back: u64 =
            self.down_heads.iter().flatten().map(|pending| u64::from(pending.frame.len)).sum();
        (self.down.packets() + self.down_heads_count, self.down.bytes() + put_back)
    }

    /// Frames waiting in both directions.
    pub(crate) fn frames(&self) -> u64 {
        let up: u64 = self.up.iter().map(|queue| u64::from(queue.packets())).sum();
        let up_heads = self.up_heads.iter().flatten().count() as u64;
        u64::from(self.down.packets()) + u64::from(self.down_heads_count) + up + up_heads
    }
}
