//! The engine: takes events in order and hands arrivals to the hosts. It has no clock of its own.
//!
//! A driver asks [`Engine::next_event_at`] and calls [`Engine::advance`]. On the virtual clock it calls at
//! once; on a real clock it waits first. What stands at the ends of the paths are [`Hosts`]: simulated TCP
//! endpoints here, TUN ports on the testbed. Every event is handled at the time it was due, also when a real
//! clock calls late.

use linkhold_core::link_event::LinkEvent;
use linkhold_core::packet::PacketId;
use linkhold_core::time::Instant;
use linkhold_mesh::RouteNews;

use crate::network::{Event, HostCommand, Network, Sent};
use crate::queue::Wakeup;
use crate::slab::Packet;

/// What stands at the ends of the paths.
pub trait Hosts {
    /// A packet has left the network at the node of its hop; `id` is the token that it had inside.
    fn on_arrival(&mut self, now: Instant, id: PacketId, packet: Packet, network: &mut Network);

    /// The hosts' own event `token` is due at `at`. False if it turned out to be stale.
    fn on_wake(&mut self, at: Instant, token: u32, network: &mut Network) -> bool;

    /// A mechanism commands the sender of a flow at its own node.
    fn on_command(&mut self, _now: Instant, _command: HostCommand, _network: &mut Network) {}

    /// A radio reports an event. Called only if the hosts asked for it with [`Network::report_links`].
    fn on_link(&mut self, _event: &LinkEvent, _network: &mut Network) {}

    /// A node of a mesh has lost a route, or has one again. Called only if the hosts asked for reports, and
    /// the mesh tells of routes.
    fn on_route(&mut self, _now: Instant, _news: RouteNews, _network: &mut Network) {}

    /// A transmission on an air has ended. Called only if the hosts asked for it with
    /// [`Network::tell_transmissions`].
    fn on_transmission(&mut self, _sent: &Sent, _network: &mut Network) {}
}

impl Network {
    /// Calls the hosts with `token` at `at`.
    pub fn schedule(&mut self, at: Instant, token: u32) {
        self.queue.push(at, Event::Host(token));
    }

    /// Makes sure that the hosts are called with `token` at `deadline` or before; see [`Wakeup`].
    #[inline]
    pub fn arm(&mut self, wakeup: &mut Wakeup, deadline: Option<Instant>, token: u32) {
        wakeup.arm(&mut self.queue, deadline, Event::Host(token));
    }
}

/// A network with its hosts, driven by a clock of the caller's.
#[derive(Debug)]
pub struct Engine<H> {
    network: Network,
    hosts: H,
    now: Instant,
    events: u64,
}

impl<H: Hosts> Engine<H> {
    /// An engine at time 0.
    pub fn new(network: Network, hosts: H) -> Self {
        Self { network, hosts, now: Instant::ZERO, events: 0 }
    }

    /// When [`advance`](Self::advance) has something to do next.
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        self.network.queue.next_at()
    }

    /// Handles every event due at `until` or before, each at its own time.
    pub fn advance(&mut self, until: Instant) {
        while let Some((at, event)) = self.network.queue.pop_due(until) {
            // A mechanism may ask to be called at a time that has already passed.
            self.now = self.now.max(at);
            self.network.settle_airs(self.now);
            let live = match event {
                Event::Host(token) => self.hosts.on_wake(at, token, &mut self.network),
                Event::Link(_) | Event::Tap(_) => self.network.on_event(at, self.now, event),
            };
            self.events += u64::from(live);
            self.settle();
        }
        self.now = self.now.max(until);
    }

    /// Handles all events due by `now`, then lets the caller act on the hosts (on a real clock: on packets
    /// that came in from a port).
    pub fn with_hosts<T>(&mut self, now: Instant, act: impl FnOnce(&mut H, &mut Network) -> T) -> T {
        self.advance(now);
        let result = act(&mut self.hosts, &mut self.network);
        self.settle();
        result
    }

    /// Hands over what the network has for the hosts, until there is no more.
    #[inline]
    fn settle(&mut self) {
        loop {
            while let Some((id, packet)) = self.network.pop_arrived() {
                self.hosts.on_arrival(self.now, id, packet, &mut self.network);
            }
            if !self.network.has_news() || !self.hand_over_news() {
                break;
            }
        }
        self.network.rearm();
    }

    /// Hands over the next of what the network has for the hosts beside packets. False if there is nothing.
    #[inline(never)]
    fn hand_over_news(&mut self) -> bool {
        if let Some(command) = self.network.pop_command() {
            self.hosts.on_command(self.now, command, &mut self.network);
        } else if let Some(event) = self.network.pop_report() {
            self.hosts.on_link(&event, &mut self.network);
        } else if let Some(news) = self.network.pop_route_news() {
            self.hosts.on_route(self.now, news, &mut self.network);
        } else if let Some(sent) = self.network.pop_transmission() {
            self.hosts.on_transmission(&sent, &mut self.network);
        } else {
            return false;
        }
        true
    }

    /// The time reached.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Events handled. A stale one, overtaken by an earlier wake-up of the same component, is not counted.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The network.
    #[must_use]
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The network, to change.
    pub const fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The hosts.
    #[must_use]
    pub const fn hosts(&self) -> &H {
        &self.hosts
    }

    /// The hosts, to change what concerns no packet.
    pub const fn hosts_mut(&mut self) -> &mut H {
        &mut self.hosts
    }

    /// The network and its hosts, for the end of a run.
    #[must_use]
    pub fn into_parts(self) -> (Network, H) {
        (self.network, self.hosts)
    }
}
