//! Packets that wait for a route: a bounded queue, the oldest dropped first. And how full all tables are.

use std::collections::VecDeque;

use super::action::{Data, RouteAction, RouteDrop};
use crate::Node;

/// How full a router's tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Routes, valid or not.
    pub routes: usize,
    /// Requests that are remembered: with AODV their originators, with SEARCH each copy.
    pub seen: usize,
    /// Destinations that are sought.
    pub discoveries: usize,
    /// Packets that wait.
    pub held: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    queue: VecDeque<Data>,
    max: usize,
}

impl Held {
    /// A queue of at most `max` packets, at least one.
    pub fn new(max: usize) -> Self {
        let max = max.max(1);
        Self { queue: VecDeque::with_capacity(max.min(64)), max }
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Holds a packet; in a full queue the oldest makes room.
    pub fn push(&mut self, data: Data, out: &mut Vec<RouteAction>) {
        if self.queue.len() == self.max
            && let Some(oldest) = self.queue.pop_front()
        {
            out.push(RouteAction::Drop { packet: oldest.packet, reason: RouteDrop::BufferFull });
        }
        self.queue.push_back(data);
    }

    /// Takes out every packet for `destination`, oldest first.
    pub fn take(&mut self, destination: Node, mut each: impl FnMut(Data)) {
        self.queue.retain(|data| {
            let wanted = data.destination == destination;
            if wanted {
                each(*data);
            }
            !wanted
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkhold_core::packet::PacketId;
    use linkhold_core::time::Instant;

    #[test]
    fn the_oldest_makes_room_and_packets_leave_in_order() {
        let mut held = Held::new(3);
        let mut out = Vec::new();
        for (packet, destination) in [(0, 1), (1, 2), (2, 1), (3, 1)] {
            let data = Data {
                packet: PacketId(packet),
                source: Node(0),
                destination: Node(destination),
                since: Instant::ZERO,
            };
            held.push(data, &mut out);
        }
        assert_eq!(out, [RouteAction::Drop { packet: PacketId(0), reason: RouteDrop::BufferFull }]);
        let mut taken = Vec::new();
        held.take(Node(1), |data| taken.push(data.packet.0));
        assert_eq!((taken, held.len()), (vec![2, 3], 1));
    }
}
