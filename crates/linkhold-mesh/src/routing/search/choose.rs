//! The destination's joint choice of path and channel.
//!
//! The requests of one search came on several channels and over several paths, which meet at common nodes.
//! Each hop that some request went is an edge of its channel, with the delay that the request saw. The route
//! is the cheapest way through all of them, where a change of channel at a node costs the switching delay.
//! (The paper begins with the best path and improves it where paths meet; the cheapest way is what that aims
//! at. Our reading.)

use linkhold_core::time::{Duration, Instant};

use super::message::{Hop, Step};
use crate::Node;

/// A request that arrived: the nodes that it passed, and when it was there.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub path: Vec<Hop>,
    pub at: Instant,
}

/// A hop of some request.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: Node,
    to: Node,
    channel: u8,
    cost: Duration,
    anchor: bool,
    /// The cheapest way whose last hop this is: its cost, and the edge before.
    reached: Option<(Duration, Option<usize>)>,
    done: bool,
}

/// The cheapest way from `source` to `destination`; `None` if no request came from there.
pub(super) fn choose(
    source: Node,
    destination: Node,
    arrived: &[Arrived],
    switching: Duration,
) -> Option<Vec<Step>> {
    let mut edges = edges(destination, arrived);
    for edge in &mut edges {
        if edge.from == source {
            edge.reached = Some((edge.cost, None));
        }
    }
    // Dijkstra's algorithm over hops, so that the channel of the hop before is known. Ties go to the edge
    // that came first. Costs are above 0 and a change of channel obeys the triangle inequality, so no node
    // comes twice.
    loop {
        let open = edges.iter().enumerate().filter(|(_, edge)| !edge.done);
        let cheapest = open.filter_map(|(at, edge)| Some((edge.reached?.0, at))).min()?;
        let (cost, at) = cheapest;
        edges[at].done = true;
        let Edge { to, channel, .. } = edges[at];
        if to == destination {
            return Some(trace(&edges, at));
        }
        for edge in edges.iter_mut().filter(|edge| !edge.done && edge.from == to) {
            let change = if edge.channel == channel { Duration::ZERO } else { switching };
            let total = cost + change + edge.cost;
            if edge.reached.is_none_or(|(known, _)| total < known) {
                edge.reached = Some((total, Some(at)));
            }
        }
    }
}

fn edges(destination: Node, arrived: &[Arrived]) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for request in arrived {
        let ends = request.path.iter().skip(1).map(|hop| (hop.node, hop.at));
        let ends = ends.chain([(destination, request.at)]);
        for (hop, (to, at)) in request.path.iter().zip(ends) {
            // At least 1 us, so that a shorter path is cheaper.
            let cost = at.since(hop.at).max(Duration::from_micros(1));
            let same = |edge: &&mut Edge| (edge.from, edge.to, edge.channel) == (hop.node, to, hop.channel);
            match edges.iter_mut().find(same) {
                Some(edge) => {
                    edge.cost = if cost < edge.cost { cost } else { edge.cost };
                    edge.anchor |= hop.anchor;
                }
                None => edges.push(Edge {
                    from: hop.node,
                    to,
                    channel: hop.channel,
                    cost,
                    anchor: hop.anchor,
                    reached: None,
                    done: false,
                }),
            }
        }
    }
    edges
}

/// The way whose last hop is at a place of the list.
fn trace(edges: &[Edge], last: usize) -> Vec<Step> {
    let end = Step { node: edges[last].to, channel: edges[last].channel, anchor: false };
    let mut path = vec![end];
    let mut next = Some(last);
    while let Some(at) = next {
        let edge = &edges[at];
        path.push(Step { node: edge.from, channel: edge.channel, anchor: edge.anchor });
        next = edge.reached.and_then(|(_, before)| before);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;

    /// A request with the milliseconds at which each node sent it on; the last is its arrival.
    fn arrived(channel: u8, nodes: &[u32], millis: &[u64]) -> Arrived {
        let hop = |(&node, &at): (&u32, &u64)| Hop {
            node: Node(node),
            place: Point::default(),
            at: Instant::from_millis(at),
            channel,
            anchor: false,
        };
        let path = nodes.iter().zip(millis).map(hop).collect();
        Arrived { path, at: Instant::from_millis(millis[nodes.len()]) }
    }

    fn route(arrived: &[Arrived], switching: u64) -> Option<Vec<(u32, u8)>> {
        let path = choose(Node(0), Node(9), arrived, Duration::from_millis(switching))?;
        assert_eq!(path.last().map(|step| step.node), Some(Node(9)));
        Some(path[..path.len() - 1].iter().map(|step| (step.node.0, step.channel)).collect())
    }

    #[test]
    fn one_request_is_its_own_path() {
        assert_eq!(route(&[arrived(2, &[0, 4, 5], &[0, 5, 10, 15])], 10), Some(vec![(0, 2), (4, 2), (5, 2)]));
        assert_eq!(route(&[], 10), None);
        assert_eq!(route(&[arrived(2, &[3, 4], &[0, 5, 10])], 10), None, "from another source");
    }

    #[test]
    fn a_path_changes_its_channel_where_that_pays() {
        // Channel 0 is slow behind node 4, channel 1 before it.
        let both = [arrived(0, &[0, 4, 5], &[0, 2, 30, 60]), arrived(1, &[0, 3, 4, 6], &[0, 20, 40, 42, 44])];
        assert_eq!(route(&both, 10), Some(vec![(0, 0), (4, 1), (6, 1)]));
        // 44 ms without a change, 2 + 4 + 40 ms with one.
        assert_eq!(route(&both, 40), Some(vec![(0, 1), (3, 1), (4, 1), (6, 1)]));
    }
}
