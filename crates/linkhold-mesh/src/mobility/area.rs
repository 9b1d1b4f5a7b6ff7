//! The rectangle of a mesh, its limits, and what is no mobility.

use crate::Point;

/// Longest side of an area, metres. It keeps squares and travel times far from the limits of their types.
pub const MAX_SIDE: f64 = 1e7;
/// Shortest side of an area, metres. It keeps the legs of a walk from becoming points.
pub const MIN_SIDE: f64 = 1.0;
/// Highest speed of a node, m/s.
pub const MAX_SPEED: f64 = 1e4;
/// Most nodes.
pub const MAX_NODES: usize = 1 << 20;

/// The rectangle from (0, 0) in which the nodes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    width: f64,
    height: f64,
}

/// What cannot be a mesh's mobility.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum MobilityError {
    /// A side is not a length that an area may have.
    #[error("an area of {width} x {height} m cannot be used: each side must be {MIN_SIDE} to {MAX_SIDE} m")]
    Area {
        /// Along x, metres.
        width: f64,
        /// Along y, metres.
        height: f64,
    },
    /// A node would stand outside.
    #[error("node {node} at ({x}, {y}) is outside the area: x must be 0 to {width} m, y 0 to {height} m")]
    Outside {
        /// Its number.
        node: usize,
        /// East, metres.
        x: f64,
        /// North, metres.
        y: f64,
        /// The area's width, metres.
        width: f64,
        /// The area's height, metres.
        height: f64,
    },
    /// The speeds of a walk are no interval above 0.
    #[error("speeds of {min} to {max} m/s cannot be used: 0 < least <= most <= {MAX_SPEED} must hold")]
    Speed {
        /// The least, m/s.
        min: f64,
        /// The most, m/s.
        max: f64,
    },
    /// More nodes than a mesh may have.
    #[error("{0} nodes are too many: at most {MAX_NODES}")]
    TooMany(usize),
}

impl Area {
    /// A rectangle.
    ///
    /// # Errors
    /// [`MobilityError::Area`] for a side that is too short, too long or no number.
    pub fn new(width: f64, height: f64) -> Result<Self, MobilityError> {
        let fits = |side: f64| (MIN_SIDE..=MAX_SIDE).contains(&side);
        if fits(width) && fits(height) {
            Ok(Self { width, height })
        } else {
            Err(MobilityError::Area { width, height })
        }
    }

    /// Along x, metres.
    #[must_use]
    pub const fn width(self) -> f64 {
        self.width
    }

    /// Along y, metres.
    #[must_use]
    pub const fn height(self) -> f64 {
        self.height
    }

    /// True for a place inside, the border included. A place that is not a number is not inside.
    #[must_use]
    pub fn contains(self, place: Point) -> bool {
        (0.0..=self.width).contains(&place.x) && (0.0..=self.height).contains(&place.y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_has_finite_sides() {
        for side in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e8] {
            assert!(Area::new(side, 10.0).is_err() && Area::new(10.0, side).is_err(), "{side}");
        }
    }
}
