//! Maps of a mesh over time.

use linkhold_core::time::{Duration, Instant};
use linkhold_mesh::{MeshConfig, Node};
use linkhold_results::{MapFrame, MapUser, MeshMaps};

use crate::cell::AIR;
use crate::network::Network;
use crate::plan::Plan;

/// Most maps of a run. Once there are as many, every second one is dropped, and further ones are taken half
/// as often.
const MOST_FRAMES: usize = 64;
/// Most routes on a map.
const MOST_PAIRS: usize = 16;
/// Most nodes of a mesh that is drawn.
const MOST_NODES: usize = 2_000;

/// Takes a map of the mesh now and then.
#[derive(Clone, Debug)]
pub struct MapRecorder {
    maps: MeshMaps,
    every: Duration,
    next: Instant,
}

impl MapRecorder {
    /// A recorder, if the network is a mesh that can be drawn.
    #[must_use]
    pub fn new(plan: &Plan, network: &mut Network) -> Option<Self> {
        let map = network.mesh_map(Instant::ZERO)?;
        if map.nodes.len() > MOST_NODES {
            return None;
        }
        let users = map.users.iter().map(|user| MapUser {
            x: user.position.x,
            y: user.position.y,
            band: user.band,
            range_m: user.range,
        });
        let mesh = network.radio(AIR).air().mesh()?;
        let MeshConfig { area, reach, .. } = mesh.config();
        let maps = MeshMaps {
            width_m: area.width(),
            height_m: area.height(),
            transmission_range_m: reach.transmission,
            users: users.collect(),
            pairs: plan.pairs.iter().copied().take(MOST_PAIRS).collect(),
            frames: Vec::new(),
        };
        Some(Self { maps, every: Duration::from_secs(1), next: Instant::ZERO })
    }

    /// Takes a map if it is time.
    pub fn sample(&mut self, now: Instant, network: &mut Network) {
        if now < self.next {
            return;
        }
        self.next = now + self.every;
        let Some(map) = network.mesh_map(now) else { return };
        let Some(mesh) = network.radio(AIR).air().mesh() else { return };
        let path = |&(from, to): &(u32, u32)| {
            mesh.path(now, Node(from), Node(to)).into_iter().map(|node| node.0).collect()
        };
        self.maps.frames.push(MapFrame {
            t_s: now.as_secs_f64(),
            band: map.band,
            silent: map.silent,
            nodes: map.nodes.iter().map(|place| (place.x, place.y)).collect(),
            users_on: map.users.iter().map(|user| user.on).collect(),
            paths: self.maps.pairs.iter().map(path).collect(),
        });
        if self.maps.frames.len() >= MOST_FRAMES {
            let mut keep = false;
            self.maps.frames.retain(|_| {
                keep = !keep;
                keep
            });
            self.every = self.every * 2;
        }
    }

    /// The maps.
    #[must_use]
    pub fn into_maps(self) -> MeshMaps {
        self.maps
    }
}
