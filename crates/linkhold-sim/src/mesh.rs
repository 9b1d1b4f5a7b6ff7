//! The network of a mesh: nodes, and nothing else. Each pair of nodes between which data goes has a route.
//!
//! ```text
//! down:  receiver ─ mesh ─► [taps] sender       up:  sender [taps] ─ mesh ─► receiver
//! ```
//! Data goes "up", from the node that sends it (the flow's station) to the node that stands where a cell has its
//! correspondent; the ACKs go "down". So a mechanism for stations stands at the node that sends, beside its TCP.

use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::StationId;
use linkhold_mesh::Mesh;

use crate::cell::AIR;
use crate::link::{AirLink, Link};
use crate::network::Network;
use crate::path::{Hop, NodeId, Onward, Route, TapId};
use crate::tap::Tap;

/// A network of a mesh of `nodes` nodes, with a route for each of `pairs` (sender, receiver). At each sender stand
/// the mechanisms that `make` makes, the last next to the radio.
///
/// # Errors
/// Whatever `make` fails with.
pub fn network<E>(
    mesh: Mesh,
    nodes: u32,
    pairs: &[(u32, u32)],
    make: impl Fn() -> Result<Vec<Box<dyn Mechanism>>, E>,
) -> Result<Network, E> {
    let mut network = Network::new();
    let air = network.add_link(Link::Air(Box::new(AirLink::new(mesh, nodes))));
    debug_assert_eq!(air, AIR, "the mesh is added first");
    let mut taps: Vec<Vec<TapId>> = vec![Vec::new(); nodes as usize];
    for &(from, to) in pairs {
        let (sender, receiver) = (NodeId::Station(StationId(from)), NodeId::Station(StationId(to)));
        // A mechanism is a node's, not a pair's.
        if taps[from as usize].is_empty() {
            for mechanism in make()? {
                taps[from as usize].push(network.add_tap(Tap::new(mechanism, sender, air)));
            }
        }
        let own = &taps[from as usize];
        let out = |node, tap| Hop { node, tap, onward: Onward::Out };
        let over = |node, tap| Hop { node, tap, onward: Onward::Link(air) };
        let here = |tap| Hop { node: sender, tap: Some(tap), onward: Onward::Here };
        let (last, before) = match own.split_last() {
            Some((last, before)) => (Some(*last), before),
            None => (None, &[][..]),
        };
        let mut up: Vec<Hop> = before.iter().copied().map(here).collect();
        up.extend([over(sender, last), out(receiver, None)]);
        let mut down = vec![over(receiver, None)];
        let (first, rest) = match own.split_first() {
            Some((first, rest)) => (Some(*first), rest),
            None => (None, &[][..]),
        };
        down.extend(rest.iter().rev().copied().map(here));
        down.push(out(sender, first));
        let (down, up) = (network.add_path(&down), network.add_path(&up));
        network.add_route(Route { down, up });
    }
    Ok(network)
}
