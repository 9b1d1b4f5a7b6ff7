//! What is measured of a mesh: counters, and maps of it over time.

use serde::{Deserialize, Serialize};

/// What happened in a mesh, from the end of the warm-up on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshRecord {
    /// Packets that a node sent on for another, and that arrived at the next hop: each of these hops counts.
    pub forwarded: u64,
    /// Messages of the routing protocol that radios sent; where nodes have a channel each, also beacons, and
    /// each copy of a broadcast.
    pub route_messages: u64,
    /// Messages that a full queue did not take, likewise. Files of earlier versions do not have it.
    #[serde(default)]
    pub route_messages_dropped: u64,
    /// Frames that a radio gave up.
    pub frames_given_up: u64,
    /// Changes of the channel. A search for a free one that ends where it began is none.
    pub handoffs: u64,
    /// Transmissions on the air: frames, their repetitions, RTS, CTS and ACKs.
    pub transmissions: u64,
    /// How often a node noticed one: over `transmissions`, the mean number of nodes in carrier-sense range.
    pub noticed: u64,
}

/// A mesh over time, for a picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeshMaps {
    /// Width of the area, m.
    pub width_m: f64,
    /// Height of the area, m.
    pub height_m: f64,
    /// How far a frame can be read, m.
    pub transmission_range_m: f64,
    /// Primary users, who stand still.
    pub users: Vec<MapUser>,
    /// Sender and receiver of each route that is drawn.
    pub pairs: Vec<(u32, u32)>,
    /// The mesh at several times, ascending.
    pub frames: Vec<MapFrame>,
}

/// A primary user on a map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapUser {
    /// East, m.
    pub x: f64,
    /// North, m.
    pub y: f64,
    /// Its band, from 0.
    pub band: u32,
    /// How far it is detected, m.
    pub range_m: f64,
}

/// A mesh at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapFrame {
    /// When, s.
    pub t_s: f64,
    /// The band of the working channel, from 0.
    pub band: u32,
    /// The nodes sense, or change channel.
    pub silent: bool,
    /// By node: (east, north), m.
    pub nodes: Vec<(f64, f64)>,
    /// By primary user: it transmits.
    pub users_on: Vec<bool>,
    /// By pair: the nodes that a packet would pass, sender first, as far as routers know.
    pub paths: Vec<Vec<u32>>,
}
