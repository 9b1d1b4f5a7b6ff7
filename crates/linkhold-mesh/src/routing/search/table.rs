//! The routes of SEARCH: one for each pair of source and destination that this node relays or is.
//!
//! Architecture invariant: a route carries the number of the search that found it, and only a newer one
//! replaces it. A reply installs a route at a node after the next hop has it, so along a route the numbers
//! never decrease, and nodes with one number are on one path without a circle. So packets never go round.

use linkhold_core::time::{Duration, Instant};

use crate::Node;
use crate::routing::seqno::SeqNo;

/// A route through this node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Route {
    pub source: Node,
    pub destination: Node,
    pub id: SeqNo,
    pub next: Node,
    /// The channel to the next hop.
    pub channel: u8,
    /// The hop before; `None` at the source.
    pub before: Option<Node>,
    pub valid: bool,
    /// Valid until then; if invalid, remembered until then.
    pub expires: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Table {
    /// In the order of (source, destination).
    routes: Vec<Route>,
    max: usize,
    timeout: Duration,
}

impl Table {
    pub fn new(max: usize, timeout: Duration) -> Self {
        Self { routes: Vec::new(), max: max.max(1), timeout }
    }

    pub fn len(&self) -> usize {
        self.routes.len()
    }

    fn find(&self, source: Node, destination: Node) -> Result<usize, usize> {
        self.routes.binary_search_by_key(&(source, destination), |route| (route.source, route.destination))
    }

    /// A route that may be used.
    pub fn active(&self, now: Instant, source: Node, destination: Node) -> Option<&Route> {
        let route = &self.routes[self.find(source, destination).ok()?];
        (route.valid && route.expires > now).then_some(route)
    }

    /// The same; it is used now and so lives on, perhaps on another channel.
    pub fn use_route(&mut self, now: Instant, source: Node, destination: Node) -> Option<&mut Route> {
        let at = self.find(source, destination).ok()?;
        let route = &mut self.routes[at];
        if !route.valid || route.expires <= now {
            return None;
        }
        route.expires = now + self.timeout;
        Some(route)
    }

    /// Takes a route if none is known or the search is newer; false if not, or if the table is full of routes
    /// in use.
    pub fn install(&mut self, now: Instant, route: Route) -> bool {
        let (source, destination) = (route.source, route.destination);
        let route = Route { valid: true, expires: now + self.timeout, ..route };
        match self.find(source, destination) {
            Ok(at) if route.id.is_after(self.routes[at].id) => {
                self.routes[at] = route;
                return true;
            }
            Ok(_) => return false,
            Err(_) => {}
        }
        if self.routes.len() >= self.max || self.routes.len() == self.routes.capacity() {
            // A route is remembered for as long again as it lived without use.
            let keep = self.timeout;
            self.routes.retain(|route| route.expires + keep > now);
        }
        if self.routes.len() >= self.max
            && let Some(at) = self.routes.iter().position(|route| !route.valid || route.expires <= now)
        {
            self.routes.remove(at);
        }
        match self.find(source, destination) {
            Err(at) if self.routes.len() < self.max => {
                self.routes.insert(at, route);
                true
            }
            _ => false,
        }
    }

    /// Ends a route over `next`, if the one known is not newer than `id`. The route, as it was.
    pub fn invalidate(
        &mut self,
        now: Instant,
        (source, destination): (Node, Node),
        next: Node,
        id: Option<SeqNo>,
    ) -> Option<Route> {
        let at = self.find(source, destination).ok()?;
        let newer = id.is_some_and(|id| self.routes[at].id.is_after(id));
        if newer { None } else { self.invalidate_at(now, at, next) }
    }

    /// Ends the route at a place of the table if it goes over `next`.
    pub fn invalidate_at(&mut self, now: Instant, at: usize, next: Node) -> Option<Route> {
        let route = self.routes.get_mut(at).filter(|route| route.valid && route.next == next)?;
        let before = *route;
        route.valid = false;
        (before.expires > now).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(id: u32, next: u32) -> Route {
        Route {
            source: Node(0),
            destination: Node(9),
            id: SeqNo(id),
            next: Node(next),
            channel: 0,
            before: None,
            valid: true,
            expires: Instant::ZERO,
        }
    }

    #[test]
    fn only_a_newer_search_replaces_a_route_even_one_that_broke() {
        let mut table = Table::new(4, Duration::from_secs(6));
        let now = Instant::from_millis(1);
        assert!(table.install(now, route(5, 1)));
        assert!(!table.install(now, route(5, 2)) && !table.install(now, route(4, 2)));
        assert_eq!(table.invalidate(now, (Node(0), Node(9)), Node(1), Some(SeqNo(4))), None, "an old error");
        assert!(table.invalidate(now, (Node(0), Node(9)), Node(1), Some(SeqNo(5))).is_some());
        assert_eq!(table.active(now, Node(0), Node(9)), None);
        assert!(!table.install(now, route(5, 3)) && table.install(now, route(6, 3)));
        assert_eq!(table.active(now, Node(0), Node(9)).map(|route| route.next), Some(Node(3)));
    }

    #[test]
    fn a_full_table_gives_up_what_is_not_in_use() {
        let mut table = Table::new(2, Duration::from_secs(6));
        let other = |destination| Route { destination: Node(destination), ..route(1, 1) };
        assert!(table.install(Instant::ZERO, other(1)) && table.install(Instant::ZERO, other(2)));
        assert!(!table.install(Instant::ZERO, other(3)));
        assert!(table.install(Instant::from_millis(6000), other(3)));
        assert_eq!(table.len(), 2);
    }
}
