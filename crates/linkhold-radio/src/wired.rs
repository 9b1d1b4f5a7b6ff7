//! The wired segment behind the base station, one direction: a rate, a one-way delay, a DropTail queue, and
//! the traffic of others that makes the delay vary.

use std::collections::VecDeque;

use linkhold_core::packet::PacketId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};

use crate::cross_traffic::CrossTraffic;

/// The pipe's queue was full; the packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the wired queue is full")]
pub struct WiredDrop;

/// A packet in the queue or on the wire.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    leaves: Instant,
    arrives: Instant,
    packet: PacketId,
}

/// One direction of a wire. Packets leave in the order they came; every operation is O(1) amortised.
#[derive(Clone, Debug)]
pub struct WiredPipe {
    rate: Option<BitRate>,
    delay: Duration,
    limit: u32,
    /// When the last packet accepted will have left the queue.
    busy_until: Instant,
    others: Option<CrossTraffic>,
    in_flight: VecDeque<InFlight>,
    /// How many of `in_flight`, from the front, have left the queue and are on the wire.
    departed: usize,
    /// Length of the last packet, and how long it takes at `rate`: most are of one length.
    last: (u32, Duration),
}

impl WiredPipe {
    /// A pipe of `rate` (`None`: unlimited, so nothing ever queues), one-way `delay`, and at most `limit`
    /// packets waiting or in transmission.
    #[must_use]
    pub fn new(rate: Option<BitRate>, delay: Duration, limit: u32) -> Self {
        let (busy_until, in_flight) = (Instant::ZERO, VecDeque::new());
        Self {
            rate,
            delay,
            limit,
            busy_until,
            others: None,
            in_flight,
            departed: 0,
            last: (0, Duration::ZERO),
        }
    }

    /// The same pipe with traffic of others on the wire: what leaves the queue waits behind it.
    #[must_use]
    pub fn with_cross_traffic(self, others: Option<CrossTraffic>) -> Self {
        Self { others, ..self }
    }

    /// Sends a packet of `len` bytes; answers when it will arrive.
    ///
    /// # Errors
    /// [`WiredDrop`] when `limit` packets are in the queue.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: PacketId, len: u32) -> Result<Instant, WiredDrop> {
        if let Some(rate) = self.rate {
            while let Some(&InFlight { leaves, .. }) = self.in_flight.get(self.departed)
                && leaves <= now
            {
                self.departed += 1;
            }
            if self.in_flight.len() - self.departed >= self.limit as usize {
                return Err(WiredDrop);
            }
            if self.last.0 != len {
                self.last = (len, rate.time_for(Bytes(u64::from(len))));
            }
            self.busy_until = self.busy_until.max(now) + self.last.1;
        } else {
            self.busy_until = now;
        }
        let leaves = self.busy_until;
        let wait = self.others.as_mut().map_or(Duration::ZERO, |others| others.wait(leaves));
        let arrives = leaves + wait + self.delay;
        self.in_flight.push_back(InFlight { leaves, arrives, packet });
        Ok(arrives)
    }

    /// When the next packet arrives at the far end.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.front().map(|first| first.arrives)
    }

    /// Takes out the next packet if it has arrived by `now`.
    pub fn pop(&mut self, now: Instant) -> Option<PacketId> {
        let &InFlight { arrives, packet, .. } = self.in_flight.front()?;
        if arrives > now {
            return None;
        }
        self.in_flight.pop_front();
        self.departed = self.departed.saturating_sub(1);
        Some(packet)
    }

    /// Packets queued or on the wire.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = Instant::from_millis;

    #[test]
    fn packets_are_serialised_one_after_the_other_and_then_delayed() {
        // 12 Mbit/s: 1500 bytes take 1 ms.
        let mut pipe = WiredPipe::new(Some(BitRate::from_mbps(12)), Duration::from_millis(10), 100);
        assert_eq!(pipe.enqueue(MS(0), PacketId(1), 1500), Ok(MS(11)));
        assert_eq!(pipe.enqueue(MS(0), PacketId(2), 1500), Ok(MS(12)));
        assert_eq!(pipe.enqueue(MS(5), PacketId(3), 1500), Ok(MS(16)));
        assert_eq!((pipe.pop(MS(10)), pipe.next_arrival()), (None, Some(MS(11))));
        assert_eq!(
            (pipe.pop(MS(12)), pipe.pop(MS(12)), pipe.pop(MS(12))),
            (Some(PacketId(1)), Some(PacketId(2)), None)
        );
        assert_eq!((pipe.pop(MS(16)), pipe.is_empty(), pipe.next_arrival()), (Some(PacketId(3)), true, None));
    }

    #[test]
    fn only_packets_that_have_not_left_count_against_the_limit() {
        let mut pipe = WiredPipe::new(Some(BitRate::from_mbps(12)), Duration::from_millis(50), 2);
        assert!(
            pipe.enqueue(MS(0), PacketId(1), 1500).is_ok() && pipe.enqueue(MS(0), PacketId(2), 1500).is_ok()
        );
        assert_eq!(pipe.enqueue(MS(0), PacketId(3), 1500), Err(WiredDrop));
        // After 1 ms the first is on the wire.
        assert_eq!(pipe.enqueue(MS(1), PacketId(4), 1500), Ok(MS(53)));
        assert_eq!(pipe.enqueue(MS(1), PacketId(5), 1500), Err(WiredDrop));
        assert_eq!(pipe.len(), 3);
    }

    #[test]
    fn the_limit_holds_after_packets_were_taken_out_late() {
        let mut pipe = WiredPipe::new(Some(BitRate::from_mbps(12)), Duration::ZERO, 1);
        for round in 0..100 {
            let now = MS(round * 10);
            assert!(pipe.enqueue(now, PacketId(round), 1500).is_ok());
            assert_eq!(pipe.enqueue(now, PacketId(999), 1500), Err(WiredDrop));
            assert_eq!(pipe.pop(MS(round * 10 + 1)), Some(PacketId(round)));
        }
    }

    /// Behind cross traffic packets keep their order, and what has left the queue does not count against its
    /// limit, however long it waits.
    #[test]
    fn behind_cross_traffic_packets_keep_their_order_and_leave_the_queue_in_time() {
        const DELAY: Duration = Duration::from_millis(10);
        let pipe = || WiredPipe::new(Some(BitRate::from_mbps(12)), DELAY, 1);
        let mut jittery = pipe().with_cross_traffic(CrossTraffic::new(Duration::from_millis(20), 7, 0));
        let mut plain = pipe();
        let (mut last, mut waited) = (Instant::ZERO, Duration::ZERO);
        for id in 0..10_000 {
            let now = MS(2 * id);
            let usual = plain.enqueue(now, PacketId(id), 1500).expect("the queue is empty");
            let arrival = jittery.enqueue(now, PacketId(id), 1500).expect("the queue is empty");
            assert!(arrival >= usual && arrival >= last, "packet {id}: {arrival}, {usual}, {last}");
            waited += arrival.since(usual);
            last = arrival;
            while let Some(first) = jittery.next_arrival().filter(|first| *first <= now) {
                assert!(jittery.pop(first).is_some());
            }
        }
        // 20 s are 85 relaxation times: the mean is known to a third or so.
        let mean = waited.as_secs_f64() / 10_000.0;
        assert!((0.012..0.028).contains(&mean), "mean wait {mean} s");
    }

    #[test]
    fn an_unlimited_pipe_only_delays() {
        let mut pipe = WiredPipe::new(None, Duration::from_millis(10), 1);
        for id in 0..1000 {
            assert_eq!(pipe.enqueue(MS(3), PacketId(id), 1500), Ok(MS(13)));
        }
    }
}
