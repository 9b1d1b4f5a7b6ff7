//! The radios of a cell that have something to send, their queues, and the frames that go back to the head
//! after a failed or postponed transmission.

use core::ops::Range;
use std::collections::VecDeque;

use linkhold_core::link_event::Scope;
use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;

use crate::cell::station_of;
use crate::frame::{AirOutput, Frame, RadioId};
use crate::queue::Queue;
use crate::queue::blocked::is_blocked;
use crate::queue::config::QueueKind;
use crate::timeline::Timeline;

/// A frame out of its queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) frame: Frame,
    /// The queue marked it congestion-experienced.
    pub(crate) ce: bool,
    /// Transmissions that failed: they collided, or noise spoiled them.
    pub(crate) failures: u32,
}

/// All queues of the cell.
#[derive(Clone, Debug)]
pub(crate) struct Contenders {
    /// By radio: what it has to send.
    queues: Vec<Queue>,
    /// By receiver: a frame that the base station sends to it before any queued one.
    down_heads: Vec<Option<Pending>>,
    /// Frames that came back several at a time, from a MAC that sends them so; oldest first. Such a MAC uses
    /// no `down_heads`.
    down_again: VecDeque<Pending>,
    /// Frames in `down_heads` and `down_again`.
    down_heads_count: u32,
    /// By sender: a frame that a station sends before any queued one.
    up_heads: Vec<Option<Pending>>,
    /// By radio: nothing to or from it is started now, because its station is silent or a frame would not end
    /// before the station's next scheduled silence.
    blocked: Vec<bool>,
    /// By radio, 64 a word: it may have a frame that can start.
    ready: Vec<u64>,
}

const BASE_STATION: usize = RadioId::BASE_STATION.0 as usize;

impl Contenders {
    pub(crate) fn new(stations: u32, router: QueueKind, station_queue: QueueKind) -> Self {
        let radios = stations as usize + 1;
        let station_queues = (1..radios).map(|_| Queue::new(station_queue));
        Self {
            queues: core::iter::once(Queue::new(router)).chain(station_queues).collect(),
            down_heads: vec![None; radios],
            down_again: VecDeque::new(),
            down_heads_count: 0,
            up_heads: vec![None; radios],
            blocked: vec![false; radios],
            ready: vec![0; radios.div_ceil(64)],
        }
    }

    /// Queues a frame at the radio that sends it.
    pub(crate) fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) {
        let sender = frame.from.0 as usize;
        self.queues[sender].enqueue(now, frame, out);
        self.set_ready(sender);
    }

    /// The next frame that `sender` may start, if it has one.
    #[inline]
    pub(crate) fn take(&mut self, sender: usize, now: Instant, out: &mut AirOutput) -> Option<Pending> {
        let taken = if sender == BASE_STATION {
            self.take_head_down().or_else(|| {
                let (frame, ce) = self.queues[BASE_STATION].dequeue(now, &self.blocked, out)?;
                Some(Pending { frame, ce, failures: 0 })
            })
        } else {
            self.take_up(sender, now, out)
        };
        if taken.is_none() {
            self.ready[sender / 64] &= !(1 << (sender % 64));
        }
        taken
    }

    /// A station's frame was taken: nothing of it is ready if that was its last.
    #[inline]
    pub(crate) fn note_taken(&mut self, sender: usize) {
        if sender != BASE_STATION && self.up_heads[sender].is_none() && self.queues[sender].is_at_rest() {
            self.ready[sender / 64] &= !(1 << (sender % 64));
        }
    }

    #[inline]
    fn take_head_down(&mut self) -> Option<Pending> {
        if self.down_heads_count == 0 { None } else { self.take_put_back_down() }
    }

    #[cold]
    fn take_put_back_down(&mut self) -> Option<Pending> {
        let free = |pending: &Pending| !is_blocked(&self.blocked, pending.frame.to);
        if let Some(index) = self.down_again.iter().position(free) {
            self.down_heads_count -= 1;
            return self.down_again.remove(index);
        }
        let receiver = (0..self.down_heads.len())
            .find(|&receiver| self.down_heads[receiver].is_some() && !self.blocked[receiver])?;
        self.down_heads_count -= 1;
        self.down_heads[receiver].take()
    }

    fn take_up(&mut self, sender: usize, now: Instant, out: &mut AirOutput) -> Option<Pending> {
        if self.blocked[sender] {
            return None;
        }
        if let Some(pending) = self.up_heads[sender].take() {
            return Some(pending);
        }
        let (frame, ce) = self.queues[sender].dequeue(now, &[], out)?;
        Some(Pending { frame, ce, failures: 0 })
    }

    /// Puts a frame back to the head of its sender's queue.
    pub(crate) fn put_back(&mut self, pending: Pending) {
        let (sender, receiver) = (pending.frame.from.0 as usize, pending.frame.to.0 as usize);
        let head = if sender == BASE_STATION {
            self.down_heads_count += 1;
            &mut self.down_heads[receiver]
        } else {
            &mut self.up_heads[sender]
        };
        debug_assert!(head.is_none(), "one frame a station and direction is out of its queue at a time");
        *head = Some(pending);
        self.set_ready(sender);
    }

    /// Gives a downlink frame back, to be sent before all others. Of several, the youngest is given back
    /// first.
    pub(crate) fn give_back_down(&mut self, pending: Pending) {
        self.down_heads_count += 1;
        self.down_again.push_front(pending);
        self.set_ready(BASE_STATION);
    }

    /// Packets and bytes in the queue of `sender`.
    pub(crate) fn backlog(&self, sender: usize) -> (u32, u64) {
        let queue = &self.queues[sender];
        (queue.packets(), queue.bytes())
    }

    /// Starts nothing to or from `station` before the radio changes.
    pub(crate) fn block(&mut self, station: StationId) {
        if let Some(blocked) = self.blocked.get_mut(RadioId::from(station).0 as usize) {
            *blocked = true;
        }
    }

    /// Takes over who is silent, and looks at every queue again.
    pub(crate) fn on_radio_change(&mut self, radio: &Timeline) {
        for (station, blocked) in (0..).zip(&mut self.blocked[BASE_STATION + 1..]) {
            *blocked = radio.stops_station(StationId(station));
        }
        self.queues[BASE_STATION].unblock();
        for sender in 0..self.queues.len() {
            let put_back = if sender == BASE_STATION {
                self.down_heads_count > 0
            } else {
                self.up_heads[sender].is_some()
            };
            if put_back || self.queues[sender].packets() > 0 {
                self.set_ready(sender);
            }
        }
    }

    pub(crate) fn is_blocked(&self, station: StationId) -> bool {
        is_blocked(&self.blocked, station.into())
    }

    fn set_ready(&mut self, sender: usize) {
        self.ready[sender / 64] |= 1 << (sender % 64);
    }

    /// The first radio of `among` at or after `from`, going round, that may have a frame to start.
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

    /// Takes the downlink frames of the scope's stations out, in order of arrival.
    pub(crate) fn reclaim(&mut self, scope: Scope, into: &mut Vec<Frame>) {
        let wanted = |frame: &Frame| scope.covers(station_of(frame));
        self.down_again.retain(|pending| {
            let taken = wanted(&pending.frame);
            if taken {
                self.down_heads_count -= 1;
                into.push(pending.frame);
            }
            !taken
        });
        for head in &mut self.down_heads {
            if let Some(pending) = head.take_if(|pending| wanted(&pending.frame)) {
                self.down_heads_count -= 1;
                into.push(pending.frame);
            }
        }
        self.queues[BASE_STATION].reclaim(wanted, into);
    }

    /// The base station's queue.
    pub(crate) fn downlink(&self) -> &Queue {
        &self.queues[BASE_STATION]
    }

    /// Downlink packets and bytes waiting, those put back included.
    pub(crate) fn downlink_backlog(&self) -> (u32, u64) {
        let queue = self.downlink();
        if self.down_heads_count == 0 {
            return (queue.packets(), queue.bytes());
        }
        let put_back = self.down_heads.iter().flatten().chain(&self.down_again);
        let put_back: u64 = put_back.map(|pending| u64::from(pending.frame.len)).sum();
        (queue.packets() + self.down_heads_count, queue.bytes() + put_back)
    }

    /// Frames waiting in both directions.
    pub(crate) fn frames(&self) -> u64 {
        let queued: u64 = self.queues.iter().map(|queue| u64::from(queue.packets())).sum();
        let up_heads = self.up_heads.iter().flatten().count() as u64;
        queued + u64::from(self.down_heads_count) + up_heads
    }
}
