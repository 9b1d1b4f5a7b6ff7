//! One leg of a node's way: straight to a place at one speed, then standing there.

use linkhold_core::time::{Duration, Instant};

use crate::Point;

/// A leg. `start <= arrival <= end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub from: Point,
    pub to: Point,
    pub start: Instant,
    /// When the node is at `to`.
    pub arrival: Instant,
    /// When the node turns to its next leg; the future if there is none.
    pub end: Instant,
}

impl Leg {
    /// A node that stands at `place` from `start` until `end`.
    pub const fn standing(place: Point, start: Instant, end: Instant) -> Self {
        Self { from: place, to: place, start, arrival: start, end }
    }

    /// A way at `speed` m/s, above 0, without an end.
    pub fn going(from: Point, to: Point, start: Instant, speed: f64) -> Self {
        let arrival = start + Duration::from_secs_f64(from.distance(to) / speed);
        Self { from, to, start, arrival, end: Instant::FAR_FUTURE }
    }

    pub fn position(&self, now: Instant) -> Point {
        if now >= self.arrival {
            return self.to;
        }
        // Before the arrival, so the leg has a length of time.
        let share = now.since(self.start).as_secs_f64() / self.arrival.since(self.start).as_secs_f64();
        // A weighted mean of the ends never leaves the rectangle between them; the clamp takes rounding away.
        let between = |a: f64, b: f64| (a * (1.0 - share) + b * share).clamp(a.min(b), a.max(b));
        Point { x: between(self.from.x, self.to.x), y: between(self.from.y, self.to.y) }
    }

    pub fn next_turn(&self, now: Instant) -> Instant {
        if now < self.arrival { self.arrival.min(self.end) } else { self.end }
    }
}
