//! The network of a mesh: nodes, and nothing else. Each pair of nodes between which data goes has a route.
//!
//! ```text
//! down:  receiver ─ mesh ─► [taps] sender       up:  sender [taps] ─ mesh ─► receiver
//! ```
//! Data goes "up", from the node that sends it (the flow's station) to the node that stands where a cell has
//! its correspondent; the ACKs go "down". So a mechanism for stations stands at the node that sends, beside
//! its TCP.

use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::StationId;
use linkhold_mesh::Mesh;

use crate::cell::{AIR, push_hops};
use crate::link::{AirLink, Link};
use crate::network::Network;
use crate::path::{NodeId, Onward, Route, TapId};
use crate::tap::Tap;

/// The taps of a node that only receives.
const NO_TAP: std::iter::Empty<TapId> = std::iter::empty();

/// A network of a mesh of `nodes` nodes, with a route for each of `pairs` (sender, receiver). At each sender
/// stand the mechanisms that `make` makes, the last next to the radio.
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
        let own = taps[from as usize].iter().copied();
        let mut up = Vec::new();
        push_hops(&mut up, sender, own.clone(), Onward::Link(air));
        push_hops(&mut up, receiver, NO_TAP, Onward::Out);
        let mut down = Vec::new();
        push_hops(&mut down, receiver, NO_TAP, Onward::Link(air));
        push_hops(&mut down, sender, own.rev(), Onward::Out);
        let (down, up) = (network.add_path(&down), network.add_path(&up));
        network.add_route(Route { down, up });
    }
    Ok(network)
}
