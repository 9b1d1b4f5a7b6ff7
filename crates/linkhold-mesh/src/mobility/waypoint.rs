//! The random waypoint model: a node goes straight to a place at a speed, pauses there, and takes the next
//! place.
//!
//! Source: Johnson and Maltz, "Dynamic Source Routing in Ad Hoc Wireless Networks" (1996), from memory; the
//! numbers are crahn's (section 5.4). Places are uniform on the area, speeds uniform from the least to the
//! most, pauses exponential with the mean that the paper gives (the law is our reading). Nodes start at
//! uniform places and go at once, so the first seconds have more movement than the rest of a run.

use linkhold_core::time::{Duration, Instant};
use linkhold_radio::rng::Stream;

use super::area::{Area, MAX_NODES, MAX_SPEED, MobilityError};
use super::leg::Leg;
use crate::{Node, Point};

/// A random walk's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaypointConfig {
    /// Where the nodes walk.
    pub area: Area,
    /// How many there are.
    pub nodes: usize,
    /// Least speed, m/s, above 0. (A model whose speeds begin at 0 slows down for ever.)
    pub min_speed: f64,
    /// Highest speed, m/s.
    pub max_speed: f64,
    /// Mean pause; zero for none.
    pub pause: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Waypoint {
    config: WaypointConfig,
    walkers: Box<[Walker]>,
}

#[derive(Clone, Debug)]
struct Walker {
    leg: Leg,
    stream: Stream,
}

impl Waypoint {
    pub fn new(config: &WaypointConfig, seed: u64) -> Result<Self, MobilityError> {
        let (min, max) = (config.min_speed, config.max_speed);
        if !(min > 0.0 && min <= max && max <= MAX_SPEED) {
            return Err(MobilityError::Speed { min, max });
        }
        if config.nodes > MAX_NODES {
            return Err(MobilityError::TooMany(config.nodes));
        }
        let walker = |index| {
            let mut stream = Stream::new(seed, "random-waypoint", index);
            let place = draw_place(&mut stream, config.area);
            let leg = draw_leg(&mut stream, config, place, Instant::ZERO);
            Walker { leg, stream }
        };
        Ok(Self { config: *config, walkers: (0..config.nodes as u64).map(walker).collect() })
    }

    pub fn nodes(&self) -> usize {
        self.walkers.len()
    }

    /// The leg on which `node` is at `now`.
    pub fn leg(&mut self, node: Node, now: Instant) -> &Leg {
        let Walker { leg, stream } = &mut self.walkers[node.get()];
        while leg.end <= now && leg.end < Instant::FAR_FUTURE {
            *leg = draw_leg(stream, &self.config, leg.to, leg.end);
        }
        leg
    }
}

fn draw_place(stream: &mut Stream, area: Area) -> Point {
    Point { x: stream.unit() * area.width(), y: stream.unit() * area.height() }
}

fn draw_leg(stream: &mut Stream, config: &WaypointConfig, from: Point, start: Instant) -> Leg {
    let to = draw_place(stream, config.area);
    let speed = config.min_speed + stream.unit() * (config.max_speed - config.min_speed);
    let leg = Leg::going(from, to, start, speed);
    let pause = if config.pause.is_zero() { Duration::ZERO } else { stream.exponential(config.pause) };
    // At least 1 ns, so that a walk always moves on.
    let end = (leg.arrival + pause).max(start + Duration::from_nanos(1));
    Leg { end, ..leg }
}

#[cfg(test)]
mod tests {
    use super::super::Mobility;
    use super::*;
    use proptest::prelude::*;

    fn paper(nodes: usize) -> WaypointConfig {
        let area = Area::new(1000.0, 1000.0).unwrap();
        WaypointConfig { area, nodes, min_speed: 2.5, max_speed: 4.0, pause: Duration::from_secs(3) }
    }

    #[test]
    fn the_papers_walk_has_its_speeds_and_pauses() {
        let mut walk = Waypoint::new(&paper(4), 1).unwrap();
        let (mut speeds, mut pauses) = (Vec::new(), Vec::new());
        for node in 0..4 {
            let mut now = Instant::ZERO;
            for _ in 0..1000 {
                let leg = *walk.leg(Node(node), now);
                speeds.push(leg.from.distance(leg.to) / leg.arrival.since(leg.start).as_secs_f64());
                pauses.push(leg.end.since(leg.arrival).as_secs_f64());
                now = leg.end;
            }
        }
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        assert!(speeds.iter().all(|speed| (2.4999..4.0001).contains(speed)));
        // 4000 draws: five standard errors are 0.034 m/s and 0.24 s.
        assert!((mean(&speeds) - 3.25).abs() < 0.034, "{}", mean(&speeds));
        assert!((mean(&pauses) - 3.0).abs() < 0.24, "{}", mean(&pauses));
    }

    #[test]
    fn speeds_must_be_above_zero_and_in_order() {
        for (min, max) in [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::NAN), (1.0, 1e9)]
        {
            let config = WaypointConfig { min_speed: min, max_speed: max, ..paper(1) };
            assert!(Mobility::random_waypoint(&config, 1).is_err(), "{min} {max}");
        }
    }

    #[test]
    fn a_question_about_the_past_gets_the_legs_start() {
        let mut mobility = Mobility::random_waypoint(&paper(1), 3).unwrap();
        let late = Instant::from_millis(10_000_000);
        mobility.position(Node(0), late);
        let past = mobility.position(Node(0), Instant::ZERO);
        assert!(mobility.area().contains(past));
    }

    proptest! {
        #[test]
        fn a_walk_stays_inside_keeps_to_its_speed_and_repeats(
            seed in any::<u64>(),
            (width, height) in (1.0..2000.0f64, 1.0..2000.0f64),
            (min, more) in (0.1..50.0f64, 0.0..50.0f64),
            pause in 0..10_000u64,
            steps in proptest::collection::vec(0..30_000_000_000u64, 1..60),
        ) {
            let area = Area::new(width, height).unwrap();
            let pause = Duration::from_millis(pause);
            let config = WaypointConfig { area, nodes: 3, min_speed: min, max_speed: min + more, pause };
            let mut one = Mobility::random_waypoint(&config, seed).unwrap();
            let mut other = Mobility::random_waypoint(&config, seed).unwrap();
            let mut now = Instant::ZERO;
            let mut last = one.position(Node(1), now);
            for step in steps {
                let next = now + Duration::from_nanos(step);
                let place = one.position(Node(1), next);
                prop_assert!(area.contains(place));
                let most = one.max_speed() * next.since(now).as_secs_f64();
                prop_assert!(place.distance(last) <= most + 1e-3, "{} > {most}", place.distance(last));
                // Another node's questions, and a question in between, shift nothing.
                other.position(Node(0), next);
                other.position(Node(1), now + Duration::from_nanos(step / 2));
                prop_assert_eq!(other.position(Node(1), next), place);
                prop_assert!(one.next_turn(Node(1), next) > next);
                (now, last) = (next, place);
            }
        }
    }
}
