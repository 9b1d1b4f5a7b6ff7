//! The routing table of AODV: at most a fixed number of routes, found by their destination.
//!
//! Source: RFC 3561, sections 2 (precursors), 6.1 (sequence numbers), 6.2 (routes), 6.7 (which offer is
//! better), 6.11 (what becomes of the number of a route that ends).
//!
//! Architecture invariant: while a route is in the table, the pair (sequence number, fewer hops) only grows,
//! an invalid route counting as one with infinitely many hops; the one exception is below. The next hop's
//! pair for the same destination is greater, so routes cannot close a circle. Every change below keeps to it:
//!
//! - An offer is taken only if it is fresher, or as fresh and shorter, or as fresh and the route is invalid
//!   ([`Table::offer`]; used for routes from requests too). These are the RFC's (ii) to (iv) of section 6.7.
//!   By its (i) any offer replaces a number that is not valid, an older one as well; that offer may come from
//!   a node that sends over this one.
//! - A route to the neighbour itself may replace any other one, because a packet that follows it is there; it
//!   keeps the sequence number ([`Table::neighbour`]). The RFC leaves open whether the number is lost.
//! - A route that ends gets a greater number, also if a RERR names a smaller one, which the RFC would copy
//!   ([`Table::invalidate`]). R. van Glabbeek and others show loops for a copy that decreases ("Sequence
//!   Numbers Do Not Guarantee Loop Freedom", MSWiM 2013; from memory).
//! - That greater number is no longer one that the destination gave, but a floor ([`Number::Floor`]): an
//!   offer has to reach it. A neighbour's message that revives the route does not give a number (section
//!   6.2), so the floor stays one, and a revived route that ends again keeps it: only a valid number is
//!   incremented (section 6.11). Here the pair decreases, back to that of the route that had ended. This
//!   closes no circle, because nobody sends over this node with a number as great as its floor: the node
//!   tells others only numbers that the destination gave, and an offer with just the floor's number makes it
//!   a given one ([`Table::offer`]), which is incremented as any other.
//! - So a number here is above the destination's own by one at most. The destination's next request has a
//!   number that is greater by one, and every node can take it. (In section 6.6.1, too, the number that is
//!   asked of a destination is at most its own plus one.)
//! - A route is forgotten only after `DELETE_PERIOD` without a packet that asks for it, and without a request
//!   of its destination that is older than the route's number. The RFC counts from the moment when the route
//!   ended; then an upstream node that never heard of it, and still sends, could be taken for fresh; or one
//!   that took such a request, passed on by this node, for a way to its originator.
//!
//! Routes expire when they are looked at, so they need no timer. Precursors are kept as none, one or many: a
//! RERR goes to one neighbour or to all (section 6.11), so no list is needed.

use linkhold_core::time::{Duration, Instant};

use crate::Node;
use crate::routing::seqno::SeqNo;

/// Who sends packets along a route through this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precursors {
    None,
    One(Node),
    Many,
}

impl Precursors {
    pub fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, more) => more,
            (known, Self::None) => known,
            (Self::One(one), Self::One(two)) if one == two => self,
            _ => Self::Many,
        }
    }
}

/// What is known of a destination's sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// Nothing.
    Unknown,
    /// The destination gave it.
    Given(SeqNo),
    /// Some node made it when its route to the destination ended, and the destination has not given it yet,
    /// as far as this node knows. A valid route with such a number leads straight to the destination.
    Floor(SeqNo),
}

impl Number {
    /// The number that the destination gave: the only one that others may be told as a route's.
    pub const fn given(self) -> Option<SeqNo> {
        match self {
            Self::Given(seq) => Some(seq),
            Self::Unknown | Self::Floor(_) => None,
        }
    }

    /// The least number that an offer must have: what requests ask for and errors tell.
    pub const fn least(self) -> Option<SeqNo> {
        match self {
            Self::Given(seq) | Self::Floor(seq) => Some(seq),
            Self::Unknown => None,
        }
    }
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub destination: Node,
    pub next: Node,
    pub hops: u8,
    pub valid: bool,
    pub number: Number,
    /// Valid until then; if invalid, remembered until then.
    pub expires: Instant,
    pub precursors: Precursors,
}

#[derive(Clone, Debug)]
pub(super) struct Table {
    /// In the order of their destinations.
    routes: Vec<Route>,
    max: usize,
    delete_period: Duration,
}

impl Route {
    /// Ends a route whose time is over.
    fn settle(&mut self, now: Instant, delete_period: Duration) {
        if self.valid && self.expires <= now {
            let since = self.expires;
            self.end(since, None, delete_period);
        }
    }

    fn end(&mut self, since: Instant, told: Option<SeqNo>, delete_period: Duration) {
        self.valid = false;
        self.number = match (self.number, told) {
            (own, Some(told)) if own.least().is_none_or(|own| told.is_after(own)) => Number::Floor(told),
            (Number::Given(own), _) => Number::Floor(own.next()),
            (own, _) => own,
        };
        self.expires = since + delete_period;
        self.precursors = Precursors::None;
    }
}

impl Table {
    pub fn new(max: usize, delete_period: Duration) -> Self {
        Self { routes: Vec::new(), max: max.max(1), delete_period }
    }

    pub fn len(&self) -> usize {
        self.routes.len()
    }

    fn find(&self, destination: Node) -> Result<usize, usize> {
        self.routes.binary_search_by_key(&destination, |route| route.destination)
    }

    /// The route to `destination` if it may be used.
    pub fn active(&self, now: Instant, destination: Node) -> Option<&Route> {
        let route = &self.routes[self.find(destination).ok()?];
        (route.valid && route.expires > now).then_some(route)
    }

    /// The route, valid or not, if it is still remembered.
    pub fn known(&mut self, now: Instant, destination: Node) -> Option<&mut Route> {
        let at = self.find(destination).ok()?;
        let route = &mut self.routes[at];
        route.settle(now, self.delete_period);
        (route.expires > now).then_some(route)
    }

    /// True if some route is in use.
    pub fn any_active(&self, now: Instant) -> bool {
        self.routes.iter().any(|route| route.valid && route.expires > now)
    }

    /// Takes an offer of a route if it is better than what is known; in any case a route with this next hop
    /// lives until `until` at least. True if the offer was taken.
    pub fn offer(
        &mut self,
        now: Instant,
        destination: Node,
        seq: SeqNo,
        (next, hops): (Node, u8),
        until: Instant,
    ) -> bool {
        let delete_period = self.delete_period;
        let Some(route) = self.known(now, destination) else {
            return self.add(now, destination, Number::Given(seq), (next, hops), until);
        };
        let better = match route.number.least() {
            None => true,
            Some(own) if seq.is_after(own) => true,
            Some(own) => own == seq && (!route.valid || hops < route.hops),
        };
        if better {
            let (precursors, expires) = match route.valid {
                true => (route.precursors, route.expires.max(until)),
                false => (Precursors::None, until),
            };
            let number = Number::Given(seq);
            *route = Route { destination, next, hops, valid: true, number, expires, precursors };
        } else if !route.valid {
            // Who hears the message from here may take this node for the next hop, for as long as a way back
            // is kept.
            route.expires = route.expires.max(now + delete_period);
        } else {
            if route.number == Number::Floor(seq) {
                // The message that brought the offer may go on, and tell others this number.
                route.number = Number::Given(seq);
            }
            if route.next == next {
                route.expires = route.expires.max(until);
            }
        }
        better
    }

    /// A message came from `node` itself, so it is a neighbour (section 6.2). That gives no number.
    pub fn neighbour(&mut self, now: Instant, node: Node, until: Instant) {
        let Some(route) = self.known(now, node) else {
            self.add(now, node, Number::Unknown, (node, 1), until);
            return;
        };
        route.expires = if route.valid { route.expires.max(until) } else { until };
        (route.valid, route.next, route.hops) = (true, node, 1);
    }

    /// A packet uses the route: it lives until `until` at least. An invalid one is remembered for longer.
    pub fn refresh(&mut self, now: Instant, destination: Node, until: Instant) {
        let delete_period = self.delete_period;
        if let Some(route) = self.known(now, destination) {
            let until = if route.valid { until } else { now + delete_period };
            route.expires = route.expires.max(until);
        }
    }

    /// A packet went over the neighbour `next`, or came from it: a route to `destination` lives until `until`
    /// at least if it leads over that neighbour, which saw the packet, too; another next hop would not know
    /// that the route is used, and forget it. An ended one is remembered for longer, since others may lead
    /// over this node.
    pub fn refresh_along(&mut self, now: Instant, destination: Node, next: Node, until: Instant) {
        if self.known(now, destination).is_some_and(|route| !route.valid || route.next == next) {
            self.refresh(now, destination, until);
        }
    }

    /// `neighbour` sends along the route to `destination`.
    pub fn add_precursor(&mut self, now: Instant, destination: Node, neighbour: Node) {
        if let Some(route) = self.known(now, destination)
            && route.valid
        {
            route.precursors = route.precursors.with(Precursors::One(neighbour));
        }
    }

    /// As [`add_precursor`](Self::add_precursor), for all of a route that was repaired.
    pub fn add_precursors(&mut self, now: Instant, destination: Node, precursors: Precursors) {
        if let Some(route) = self.known(now, destination)
            && route.valid
        {
            route.precursors = route.precursors.with(precursors);
        }
    }

    /// Ends the route to `destination` if it goes over `next`. `told` is the number that the next hop gave.
    /// Its new number, and who should hear of it.
    pub fn invalidate(
        &mut self,
        now: Instant,
        destination: Node,
        next: Node,
        told: Option<SeqNo>,
    ) -> Option<(Option<SeqNo>, Precursors)> {
        let at = self.find(destination).ok()?;
        self.invalidate_at(now, at, next, told).map(|(_, seq, precursors)| (seq, precursors))
    }

    /// The same for the route at a place of the table, with its destination.
    pub fn invalidate_at(
        &mut self,
        now: Instant,
        at: usize,
        next: Node,
        told: Option<SeqNo>,
    ) -> Option<(Node, Option<SeqNo>, Precursors)> {
        let route = self.routes.get_mut(at)?;
        route.settle(now, self.delete_period);
        if !route.valid || route.next != next {
            return None;
        }
        let precursors = route.precursors;
        route.end(now, told, self.delete_period);
        Some((route.destination, route.number.least(), precursors))
    }

    /// Adds a route to a destination that is not known, or no longer; false if the table is full of routes in
    /// use.
    fn add(
        &mut self,
        now: Instant,
        destination: Node,
        number: Number,
        (next, hops): (Node, u8),
        expires: Instant,
    ) -> bool {
        let precursors = Precursors::None;
        let route = Route { destination, next, hops, valid: true, number, expires, precursors };
        if let Ok(at) = self.find(destination) {
            // Forgotten, and still in the list.
            self.routes[at] = route;
            return true;
        }
        if self.routes.len() >= self.max || self.routes.len() == self.routes.capacity() {
            self.forget(now);
        }
        match self.find(destination) {
            Err(at) if self.routes.len() < self.max => {
                self.routes.insert(at, route);
                true
            }
            _ => false,
        }
    }

    /// Drops what need not be remembered. If that makes no room in a full table, the invalid route that would
    /// be forgotten first goes.
    fn forget(&mut self, now: Instant) {
        let delete_period = self.delete_period;
        self.routes.retain_mut(|route| {
            route.settle(now, delete_period);
            route.expires > now
        });
        if self.routes.len() >= self.max {
            let ended = self.routes.iter().enumerate().filter(|(_, route)| !route.valid);
            if let Some((at, _)) = ended.min_by_key(|(_, route)| route.expires) {
                self.routes.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: Node = Node(9);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn table() -> Table {
        Table::new(8, Duration::from_secs(15))
    }

    #[test]
    fn an_offer_is_taken_if_it_is_fresher_or_shorter_or_the_route_has_ended() {
        // (number, hops, taken), one after another.
        let rows = [(5, 4, true), (5, 4, false), (5, 3, true), (4, 1, false), (6, 9, true), (5, 1, false)];
        let mut table = table();
        for (seq, hops, taken) in rows {
            assert_eq!(table.offer(at(0), D, SeqNo(seq), (Node(1), hops), at(1000)), taken, "{seq} {hops}");
        }
        table.invalidate(at(1), D, Node(1), None);
        assert_eq!(table.known(at(1), D).map(|route| route.number), Some(Number::Floor(SeqNo(7))));
        assert!(!table.offer(at(2), D, SeqNo(6), (Node(2), 1), at(1000)), "it ended with 7");
        assert!(table.offer(at(2), D, SeqNo(7), (Node(2), 20), at(1000)));
    }

    #[test]
    fn a_route_expires_with_a_greater_number_and_is_forgotten_later() {
        let mut table = table();
        table.offer(at(0), D, SeqNo(u32::MAX), (Node(1), 2), at(1000));
        assert!(table.active(at(999), D).is_some() && table.active(at(1000), D).is_none());
        let route = *table.known(at(1000), D).unwrap();
        assert_eq!((route.valid, route.number), (false, Number::Floor(SeqNo(0))));
        // A packet that asks for it at 15 s keeps it until 30 s.
        table.refresh(at(15_000), D, at(99_000));
        assert!(table.known(at(29_999), D).is_some() && table.known(at(30_000), D).is_none());
    }

    #[test]
    fn an_ended_route_is_remembered_for_as_long_as_others_may_follow_an_older_offer() {
        let mut table = table();
        table.offer(at(0), D, SeqNo(5), (Node(1), 1), at(1000));
        table.invalidate(at(1000), D, Node(1), None);
        assert!(!table.offer(at(15_000), D, SeqNo(5), (Node(2), 3), at(20_000)), "it ended with 6");
        assert!(table.known(at(29_999), D).is_some() && table.known(at(30_000), D).is_none());
    }

    #[test]
    fn a_message_makes_a_neighbour_and_keeps_the_number() {
        let mut table = table();
        table.offer(at(0), D, SeqNo(3), (Node(1), 4), at(1000));
        table.neighbour(at(1), D, at(500));
        let route = *table.active(at(1), D).unwrap();
        let number = Number::Given(SeqNo(3));
        assert_eq!((route.next, route.hops, route.number, route.expires), (D, 1, number, at(1000)));
    }

    #[test]
    fn a_route_that_its_destination_revives_does_not_outgrow_the_destinations_number() {
        let mut table = table();
        table.offer(at(0), D, SeqNo(5), (Node(1), 3), at(1000));
        for round in 1..10 {
            table.neighbour(at(2000 * round), D, at(2000 * round + 1000));
            assert!(table.active(at(2000 * round), D).is_some(), "{round}");
        }
        let route = *table.known(at(20_000), D).unwrap();
        assert_eq!((route.valid, route.number), (false, Number::Floor(SeqNo(6))));
        assert!(!table.offer(at(20_000), D, SeqNo(5), (Node(2), 2), at(30_000)), "it ended with 6");
        assert!(table.offer(at(20_000), D, SeqNo(6), (Node(2), 2), at(30_000)), "the next request's number");
    }

    #[test]
    fn a_floor_that_the_destination_gives_is_incremented_at_the_routes_end() {
        let mut table = table();
        table.offer(at(0), D, SeqNo(5), (Node(1), 3), at(1000));
        table.invalidate(at(1), D, Node(1), None);
        table.neighbour(at(2), D, at(1000));
        let route = *table.active(at(2), D).unwrap();
        assert_eq!((route.number.given(), route.number.least()), (None, Some(SeqNo(6))));
        // The destination's request, which came over another node. The direct way is the better one.
        assert!(!table.offer(at(3), D, SeqNo(6), (Node(2), 4), at(1000)));
        let route = *table.active(at(3), D).unwrap();
        assert_eq!((route.next, route.number), (D, Number::Given(SeqNo(6))));
        assert_eq!(table.invalidate(at(4), D, D, None), Some((Some(SeqNo(7)), Precursors::None)));
    }

    #[test]
    fn a_told_number_never_decreases_ours() {
        for (told, kept) in [(Some(9), 9), (Some(5), 6), (Some(2), 6), (None, 6)] {
            let mut table = table();
            table.offer(at(0), D, SeqNo(5), (Node(1), 4), at(1000));
            assert_eq!(table.invalidate(at(1), D, Node(2), told.map(SeqNo)), None, "over another next hop");
            let (seq, _) = table.invalidate(at(1), D, Node(1), told.map(SeqNo)).unwrap();
            assert_eq!(seq, Some(SeqNo(kept)), "{told:?}");
        }
    }

    #[test]
    fn precursors_are_none_one_or_many() {
        let mut table = table();
        table.offer(at(0), D, SeqNo(5), (Node(1), 4), at(1000));
        for (node, expected) in
            [(3, Precursors::One(Node(3))), (3, Precursors::One(Node(3))), (4, Precursors::Many)]
        {
            table.add_precursor(at(1), D, Node(node));
            assert_eq!(table.active(at(1), D).unwrap().precursors, expected);
        }
    }

    #[test]
    fn a_full_table_gives_up_what_has_ended_and_then_refuses() {
        let mut table = table();
        for node in 0..8 {
            assert!(table.offer(at(0), Node(node), SeqNo(1), (Node(1), 2), at(1000)));
        }
        assert!(!table.offer(at(1), D, SeqNo(1), (Node(1), 2), at(1000)), "all in use");
        table.invalidate(at(1), Node(3), Node(1), None);
        assert!(table.offer(at(1), D, SeqNo(1), (Node(1), 2), at(1000)));
        assert_eq!(table.len(), 8);
        assert!(table.known(at(1), Node(3)).is_none());
    }
}
