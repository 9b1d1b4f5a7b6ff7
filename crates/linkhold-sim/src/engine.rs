//! The engine: takes events in order and hands arrivals to the edge of the cell. It has no clock of its own.
//!
//! A driver asks [`Engine::next_event_at`] and calls [`Engine::advance`]. On the virtual clock it jumps there; on a
//! real clock it waits first. What stands at the two ends of the cell is an [`Edge`]: simulated TCP endpoints
//! here, TUN ports on the testbed.

use linkhold_core::time::Instant;

use crate::network::{Event, Network};
use crate::queue::Wakeup;
use crate::slab::Packet;

/// What stands at the ends of the cell.
pub trait Edge {
    /// A packet has reached its end: the station if it went downlink, the correspondent if uplink.
    fn on_arrival(&mut self, now: Instant, packet: Packet, network: &mut Network);

    /// The edge's own event `token` is due at `at`. False if it turned out to be stale.
    fn on_wake(&mut self, at: Instant, token: u32, network: &mut Network) -> bool;
}

impl Network {
    /// Calls the edge with `token` at `at`.
    pub fn schedule(&mut self, at: Instant, token: u32) {
        self.queue.push(at, Event::Edge(token));
    }

    /// Makes sure that the edge is called with `token` at `deadline` or before; see [`Wakeup`].
    #[inline]
    pub fn arm(&mut self, wakeup: &mut Wakeup, deadline: Option<Instant>, token: u32) {
        wakeup.arm(&mut self.queue, deadline, Event::Edge(token));
    }
}

/// A cell with its edge, driven by a clock of the caller's.
#[derive(Debug)]
pub struct Engine<E> {
    network: Network,
    edge: E,
    now: Instant,
    events: u64,
}

impl<E: Edge> Engine<E> {
    /// An engine at time 0.
    pub fn new(network: Network, edge: E) -> Self {
        Self { network, edge, now: Instant::ZERO, events: 0 }
    }

    /// When [`advance`](Self::advance) has something to do next.
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        self.network.queue.next_at()
    }

    /// Handles every event due at `until` or before, each at its own time.
    pub fn advance(&mut self, until: Instant) {
        while let Some((at, event)) = self.network.queue.pop_due(until) {
            // A real clock may call late, after the edge has already acted at a later time.
            let at_or_now = at.max(self.now);
            self.now = at_or_now;
            self.network.settle_air(at_or_now);
            let live = match event {
                Event::Edge(token) => self.edge.on_wake(at, token, &mut self.network),
                Event::Air | Event::WiredDown | Event::WiredUp | Event::Mechanism => {
                    self.network.on_event(at, at_or_now, event)
                }
            };
            self.events += u64::from(live);
            self.settle();
        }
        self.now = self.now.max(until);
    }

    /// Lets the caller act on the edge at `now` (a real driver: packets came in from a port).
    pub fn with_edge<T>(&mut self, now: Instant, act: impl FnOnce(&mut E, &mut Network) -> T) -> T {
        self.now = self.now.max(now);
        self.network.settle_air(self.now);
        let result = act(&mut self.edge, &mut self.network);
        self.settle();
        result
    }

    #[inline]
    fn settle(&mut self) {
        while let Some(packet) = self.network.pop_arrived() {
            self.edge.on_arrival(self.now, packet, &mut self.network);
        }
        self.network.rearm();
    }

    /// The time reached.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Events handled; one overtaken by an earlier wake-up of the same component is not counted.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The cell.
    #[must_use]
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The cell, to change.
    pub const fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The edge.
    #[must_use]
    pub const fn edge(&self) -> &E {
        &self.edge
    }

    /// The cell and its edge, for the end of a run.
    #[must_use]
    pub fn into_parts(self) -> (Network, E) {
        (self.network, self.edge)
    }
}
