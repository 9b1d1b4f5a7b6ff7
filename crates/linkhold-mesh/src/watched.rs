//! Which sources have a route, for transports that want to know.
//!
//! Source: crahn, section 4, names TP-CRAHN, whose states include the failure of a route. Who tells its
//! sender how is our choice: the router of its own node, at the moment when it loses the route or has one
//! again. It learns that from the messages of the routing protocol, which are on the air, and from its own
//! MAC. So a sender hears of a break somewhere on the path when the error has come back, and not before.

use std::collections::VecDeque;

use crate::node::Node;

/// Most pairs that are watched.
const MAX_PAIRS: usize = 1024;
/// Most news that wait.
const MAX_NEWS: usize = 4096;

/// A source has lost its route, or has one again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteNews {
    /// The source.
    pub source: Node,
    /// The destination.
    pub destination: Node,
    /// There is a route.
    pub found: bool,
}

/// A pair of nodes.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ends: (Node, Node),
    /// Whether there was a route when it was last looked; `None`: there has not been one yet.
    had: Option<bool>,
}

/// The pairs between which data went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// By ends.
    pairs: Vec<Pair>,
    news: VecDeque<RouteNews>,
}

impl Watched {
    /// Watches a pair from now on; beyond [`MAX_PAIRS`], none.
    pub(crate) fn add(&mut self, ends: (Node, Node)) {
        if let Err(at) = self.pairs.binary_search_by_key(&ends, |pair| pair.ends)
            && self.pairs.len() < MAX_PAIRS
        {
            self.pairs.insert(at, Pair { ends, had: None });
        }
    }

    /// Looks at the pairs of a source. A destination to which the route is lost since it last did.
    pub(crate) fn look(&mut self, source: Node, has_route: impl Fn(Node) -> bool) -> Option<Node> {
        let first = self.pairs.partition_point(|pair| pair.ends.0 < source);
        let own = self.pairs.get_mut(first..).unwrap_or_default().iter_mut();
        for pair in own.take_while(|pair| pair.ends.0 == source) {
            let found = has_route(pair.ends.1);
            let before = pair.had;
            pair.had = if found { Some(true) } else { before.and(Some(false)) };
            if before.is_some_and(|had| had != found) {
                if self.news.len() < MAX_NEWS {
                    self.news.push_back(RouteNews { source, destination: pair.ends.1, found });
                }
                if !found {
                    return Some(pair.ends.1);
                }
            }
        }
        None
    }

    pub(crate) fn take(&mut self) -> Option<RouteNews> {
        self.news.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_told_of_when_it_is_lost_and_found_again_and_not_at_first() {
        let mut watched = Watched::default();
        let ends = (Node(2), Node(7));
        watched.add(ends);
        watched.add(ends);
        watched.add((Node(1), Node(7)));
        let look = |watched: &mut Watched, has: bool| {
            let lost = watched.look(Node(2), |_| has);
            let told = watched.take();
            assert_eq!(watched.take(), None);
            (lost, told.map(|news| (news.source, news.destination, news.found)))
        };
        let (source, destination) = ends;
        assert_eq!(look(&mut watched, false), (None, None), "it was never there");
        assert_eq!(look(&mut watched, true), (None, None));
        let lost = Some((source, destination, false));
        assert_eq!(look(&mut watched, false), (Some(destination), lost));
        assert_eq!(look(&mut watched, false), (None, None), "once");
        assert_eq!(look(&mut watched, true), (None, Some((source, destination, true))));
        for other in 0..5000 {
            watched.add((Node(other), Node(1)));
        }
        assert_eq!(watched.pairs.len(), MAX_PAIRS);
    }
}
