//! A picture of a mesh at one time: where everybody is, and who is silent.

use crate::node::Point;

/// A mesh at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The band of the working channel, from 0.
    pub band: u32,
    /// The nodes sense or change channel.
    pub silent: bool,
    /// By node: where it is.
    pub nodes: Vec<Point>,
    /// Primary users.
    pub users: Vec<MapUser>,
}

/// A primary user on a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapUser {
    /// Where it is.
    pub position: Point,
    /// Its band, from 0.
    pub band: u32,
    /// It transmits.
    pub on: bool,
    /// How far it is detected, metres.
    pub range: f64,
}
