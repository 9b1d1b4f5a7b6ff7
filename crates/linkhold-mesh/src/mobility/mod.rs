//! Where the nodes are: they stand, walk at random, or follow a file.
//!
//! Source: crahn section 5.4 (25 nodes on 1000 x 1000 m2, speeds of 2.5 to 4.0 m/s, a mean pause of 3 s). The
//! paper names no model; ns-2's random waypoint fits what it tells (our reading).
//!
//! A node knows the leg that it is on and nothing else, so memory does not grow with time. Time does not run
//! backwards: a question about a time before the current leg gets the leg's start.

mod area;
mod leg;
pub mod setdest;
mod waypoint;

use linkhold_core::time::Instant;

use crate::{Node, Point};
pub use area::{Area, MAX_NODES, MAX_SIDE, MAX_SPEED, MIN_SIDE, MobilityError};
use setdest::{Script, SetdestError};
use waypoint::Waypoint;
pub use waypoint::WaypointConfig;

/// Where every node is.
#[derive(Clone, Debug)]
pub struct Mobility {
    area: Area,
    max_speed: f64,
    model: Model,
}

#[derive(Clone, Debug)]
enum Model {
    Standing(Box<[Point]>),
    Waypoint(Waypoint),
    Script(Script),
}

impl Mobility {
    /// Nodes that stand at these places.
    ///
    /// # Errors
    /// [`MobilityError`] for a place outside the area, or too many.
    pub fn standing(area: Area, places: Vec<Point>) -> Result<Self, MobilityError> {
        if places.len() > MAX_NODES {
            return Err(MobilityError::TooMany(places.len()));
        }
        if let Some((node, place)) = places.iter().enumerate().find(|(_, place)| !area.contains(**place)) {
            let (width, height) = (area.width(), area.height());
            return Err(MobilityError::Outside { node, x: place.x, y: place.y, width, height });
        }
        Ok(Self { area, max_speed: 0.0, model: Model::Standing(places.into()) })
    }

    /// Nodes that walk by the random waypoint model.
    ///
    /// # Errors
    /// [`MobilityError`] for speeds that are not above 0, or too many nodes.
    pub fn random_waypoint(config: &WaypointConfig, seed: u64) -> Result<Self, MobilityError> {
        let walk = Waypoint::new(config, seed)?;
        Ok(Self { area: config.area, max_speed: config.max_speed, model: Model::Waypoint(walk) })
    }

    /// `nodes` nodes that follow a file in ns-2's `setdest` format ([`setdest`]).
    ///
    /// # Errors
    /// [`SetdestError`] names the line, what is wrong with it and what would be right.
    pub fn setdest(text: &str, area: Area, nodes: usize) -> Result<Self, SetdestError> {
        let (script, max_speed) = Script::parse(text, area, nodes)?;
        Ok(Self { area, max_speed, model: Model::Script(script) })
    }

    /// The rectangle that no node leaves.
    #[must_use]
    pub const fn area(&self) -> Area {
        self.area
    }

    /// No node is ever faster, m/s. A grid of positions that is older than `slack / max_speed` seconds is
    /// wrong by more than `slack` metres.
    #[must_use]
    pub const fn max_speed(&self) -> f64 {
        self.max_speed
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        match &self.model {
            Model::Standing(places) => places.len(),
            Model::Waypoint(walk) => walk.nodes(),
            Model::Script(script) => script.nodes(),
        }
    }

    /// Where `node` is at `now`. Questions about one node must not go back in time: an earlier one is
    /// answered as if asked for the start of the current leg.
    ///
    /// # Panics
    /// If there is no such node, which is a fault of the caller.
    pub fn position(&mut self, node: Node, now: Instant) -> Point {
        match &mut self.model {
            Model::Standing(places) => places[node.get()],
            Model::Waypoint(walk) => walk.leg(node, now).position(now),
            Model::Script(script) => script.leg(node, now).position(now),
        }
    }

    /// Until when `node` goes on as at `now`: with the same velocity, or standing. The future for a node that
    /// stands for good.
    ///
    /// # Panics
    /// If there is no such node, which is a fault of the caller.
    pub fn next_turn(&mut self, node: Node, now: Instant) -> Instant {
        match &mut self.model {
            Model::Standing(_) => Instant::FAR_FUTURE,
            Model::Waypoint(walk) => walk.leg(node, now).next_turn(now),
            Model::Script(script) => script.leg(node, now).next_turn(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_nodes_stand_and_one_outside_is_refused() {
        let area = Area::new(100.0, 50.0).unwrap();
        let place = Point { x: 100.0, y: 50.0 };
        let mut mobility = Mobility::standing(area, vec![Point::default(), place]).unwrap();
        assert_eq!(mobility.position(Node(1), Instant::from_millis(5_000)), place);
        assert_eq!(mobility.next_turn(Node(1), Instant::ZERO), Instant::FAR_FUTURE);
        assert_eq!((mobility.nodes(), mobility.max_speed()), (2, 0.0));
        let outside = Mobility::standing(area, vec![place, Point { x: 1.0, y: 50.1 }]).unwrap_err();
        assert_eq!(
            outside.to_string(),
            "node 1 at (1, 50.1) is outside the area: x must be 0 to 100 m, y 0 to 50 m"
        );
    }
}
