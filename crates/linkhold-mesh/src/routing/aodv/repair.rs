//! Local repairs under way: what is remembered of a route while a node on the way seeks another one.
//!
//! Source: RFC 3561, section 6.12.

use super::table::Precursors;
use crate::Node;

/// A route that is being repaired. Its request is a discovery like any other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    pub destination: Node,
    /// Hops of the route that broke.
    pub hops: u8,
    /// Who sends along it: they hear of it if it is not repaired, or is longer now.
    pub precursors: Precursors,
}

/// All of a node's, at most one for each discovery.
#[derive(Clone, Debug, Default)]
pub(super) struct Repairs {
    list: Vec<Repair>,
}

impl Repairs {
    pub fn begin(&mut self, repair: Repair) {
        self.list.push(repair);
    }

    /// Ends the repair of the route to `destination`, if there is one.
    pub fn take(&mut self, destination: Node) -> Option<Repair> {
        let at = self.list.iter().position(|repair| repair.destination == destination)?;
        Some(self.list.swap_remove(at))
    }

    /// True if the route to `destination` is being repaired.
    pub fn has(&self, destination: Node) -> bool {
        self.list.iter().any(|repair| repair.destination == destination)
    }

    /// The same; `from` sends along it.
    pub fn is_used_by(&mut self, destination: Node, from: Node) -> bool {
        let repair = self.list.iter_mut().find(|repair| repair.destination == destination);
        repair.map(|repair| repair.precursors = repair.precursors.with(Precursors::One(from))).is_some()
    }
}
