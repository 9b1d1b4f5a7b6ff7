//! Names of nodes and places.

/// A node's number in its mesh, counted up from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

impl Node {
    /// The number as an index of a list.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A place on the plane, metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// East.
    pub x: f64,
    /// North.
    pub y: f64,
}

impl Point {
    /// How far another place is, metres.
    #[must_use]
    pub fn distance(self, other: Self) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }
}
