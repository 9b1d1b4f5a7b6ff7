//! Positions from a file in the format of ns-2's `setdest` generator.
//!
//! Source: ns-2 manual, chapter on mobile networking, and files that `setdest` writes (format from memory).
//! Lines:
//!
//! ```text
//! # a comment
//! $node_(0) set X_ 12.3
//! $node_(0) set Y_ 45.6
//! $node_(0) set Z_ 0.0
//! $god_ set-dist 0 1 1
//! $ns_ at 10.0 "$node_(0) setdest 100.0 200.0 2.5"
//! ```
//!
//! From 10 s on the node goes towards (100, 200) at 2.5 m/s, and stands once it is there. An order that comes
//! while it still goes takes it from where it is. Orders of one node may stand in any order; of two at one
//! time the later line holds. Lines of `$god_`, which is an oracle of ns-2, and comments are skipped.
//!
//! A file is refused whole for: a line of another form, a place outside the area, a height (the mesh lies on
//! a plane), an unknown node, a node without a place or with two, a speed that is not above 0.

use linkhold_core::time::Instant;

use super::area::{Area, MAX_NODES, MAX_SPEED};
use super::leg::Leg;
use crate::{Node, Point};

/// Most orders of a file: bounds memory on hostile input.
pub const MAX_ORDERS: usize = 1 << 22;
/// Latest time of an order, seconds.
const MAX_TIME: f64 = 1e9;
/// What an error quotes of a line, in characters.
const QUOTED: usize = 40;

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct SetdestError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: SetdestErrorKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetdestErrorKind {
    /// None of the forms of a line.
    #[error(
        "{0:?} is no line of a setdest file: `$node_(0) set X_ 1.5` and \
         `$ns_ at 10.0 \"$node_(0) setdest 100.0 200.0 2.5\"` are"
    )]
    Form(String),
    /// Not a finite number.
    #[error("{0:?} is not a number")]
    NotANumber(String),
    /// The mesh has fewer nodes.
    #[error("there is no node {node:?}: the mesh has nodes 0 to {last}")]
    UnknownNode {
        /// What stands in the file.
        node: String,
        /// The highest number.
        last: usize,
    },
    /// A coordinate lies outside.
    #[error("{axis} = {value} m is outside the area: it must be 0 to {most} m")]
    Outside {
        /// The coordinate.
        axis: char,
        /// Its value, metres.
        value: f64,
        /// The area's side, metres.
        most: f64,
    },
    /// A height other than 0.
    #[error("Z_ = {0} m: it must be 0, because the mesh lies on a plane")]
    Height(f64),
    /// A speed that no node has.
    #[error("a speed of {0} m/s: it must be above 0 and at most {MAX_SPEED} m/s")]
    Speed(f64),
    /// A time that no run reaches.
    #[error("a time of {0} s: it must be 0 to {MAX_TIME} s")]
    Time(f64),
    /// The coordinate was set before.
    #[error("{axis}_ of node {node} was set before: it must be set once")]
    Twice {
        /// The coordinate.
        axis: char,
        /// The node.
        node: usize,
    },
    /// The file ends and a node has no place.
    #[error("{axis}_ of node {node} is missing: `$node_({node}) set {axis}_ 1.5` sets it")]
    NoPlace {
        /// The coordinate.
        axis: char,
        /// The node.
        node: usize,
    },
    /// More orders than may be.
    #[error("the file has too many orders (at most {MAX_ORDERS})")]
    TooLong,
    /// More nodes than may be.
    #[error("a mesh of {0} nodes is too large (at most {MAX_NODES})")]
    TooManyNodes(usize),
}

/// A node's orders, and where it is on its way through them.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// By node: which orders are its own, and the leg that it is on.
    followers: Box<[Follower]>,
    /// By node, then by time.
    orders: Box<[Order]>,
}

#[derive(Clone, Copy, Debug)]
struct Follower {
    leg: Leg,
    /// Its next order.
    next: usize,
    /// The end of its orders.
    end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    node: usize,
    at: Instant,
    to: Point,
    speed: f64,
}

/// Coordinates that the file has set so far.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    x: Option<f64>,
    y: Option<f64>,
    z: Option<f64>,
}

impl Script {
    /// The script, and the highest speed in it, m/s.
    pub fn parse(text: &str, area: Area, nodes: usize) -> Result<(Self, f64), SetdestError> {
        if nodes > MAX_NODES {
            return Err(SetdestError { line: 1, kind: SetdestErrorKind::TooManyNodes(nodes) });
        }
        let mut reader = Reader { area, starts: vec![Start::default(); nodes], orders: Vec::new() };
        let mut last = 1;
        for (line, number) in text.lines().zip(1..) {
            reader.read(line).map_err(|kind| SetdestError { line: number, kind })?;
            last = number;
        }
        let Reader { starts, mut orders, .. } = reader;
        // Stable, so that of two orders at one time the later line comes last and holds.
        orders.sort_by_key(|order| (order.node, order.at));
        let mut followers = Vec::with_capacity(nodes);
        let mut next = 0;
        for (node, start) in starts.iter().enumerate() {
            let missing = |axis| SetdestError { line: last, kind: SetdestErrorKind::NoPlace { axis, node } };
            let place =
                Point { x: start.x.ok_or_else(|| missing('X'))?, y: start.y.ok_or_else(|| missing('Y'))? };
            let end = next + orders[next..].partition_point(|order| order.node <= node);
            let until = orders[next..end].first().map_or(Instant::FAR_FUTURE, |order| order.at);
            followers.push(Follower { leg: Leg::standing(place, Instant::ZERO, until), next, end });
            next = end;
        }
        let max_speed = orders.iter().map(|order| order.speed).fold(0.0, f64::max);
        Ok((Self { followers: followers.into(), orders: orders.into() }, max_speed))
    }

    pub fn nodes(&self) -> usize {
        self.followers.len()
    }

    /// The leg on which `node` is at `now`.
    pub fn leg(&mut self, node: Node, now: Instant) -> &Leg {
        let Follower { leg, next, end } = &mut self.followers[node.get()];
        // A leg has an end only where an order follows; the future is the end of the last one.
        while leg.end <= now && *next < *end {
            let (order, behind) = (self.orders[*next], *next + 1);
            let until = if behind < *end { self.orders[behind].at } else { Instant::FAR_FUTURE };
            *leg = Leg { end: until, ..Leg::going(leg.position(order.at), order.to, order.at, order.speed) };
            *next = behind;
        }
        leg
    }
}

struct Reader {
    area: Area,
    starts: Vec<Start>,
    orders: Vec<Order>,
}

impl Reader {
    fn read(&mut self, line: &str) -> Result<(), SetdestErrorKind> {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') || is_god(text) {
            return Ok(());
        }
        let form = || SetdestErrorKind::Form(shortened(text));
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "$ns_" {
            let (Some("at"), Some(time)) = (words.next(), words.next()) else { return Err(form()) };
            let quote = text.find('"').ok_or_else(form)?;
            let (head, command) = text.split_at(quote);
            let command =
                command.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or_else(form)?;
            if head.split_whitespace().count() != 3 {
                return Err(form());
            }
            let command = command.trim();
            if is_god(command) {
                return Ok(());
            }
            let mut words = command.split_whitespace();
            let node = words.next().and_then(index).ok_or_else(form)?;
            let (Some("setdest"), Some(x), Some(y), Some(speed), None) =
                (words.next(), words.next(), words.next(), words.next(), words.next())
            else {
                return Err(form());
            };
            return self.order(node, time, (x, y), speed);
        }
        let node = index(first).ok_or_else(form)?;
        let (Some("set"), Some(what), Some(value), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(form());
        };
        let axis = match what {
            "X_" => 'X',
            "Y_" => 'Y',
            "Z_" => 'Z',
            _ => return Err(form()),
        };
        self.start(node, axis, value)
    }

    fn start(&mut self, node: &str, axis: char, value: &str) -> Result<(), SetdestErrorKind> {
        let node = self.node(node)?;
        let value = number(value)?;
        let value = match axis {
            'X' => inside('x', value, self.area.width())?,
            'Y' => inside('y', value, self.area.height())?,
            _ if value == 0.0 => value,
            _ => return Err(SetdestErrorKind::Height(value)),
        };
        let start = &mut self.starts[node];
        let slot = match axis {
            'X' => &mut start.x,
            'Y' => &mut start.y,
            _ => &mut start.z,
        };
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(SetdestErrorKind::Twice { axis, node }),
        }
    }

    fn order(&mut self, node: &str, at: &str, to: (&str, &str), speed: &str) -> Result<(), SetdestErrorKind> {
        let node = self.node(node)?;
        let (at, speed) = (number(at)?, number(speed)?);
        let x = inside('x', number(to.0)?, self.area.width())?;
        let y = inside('y', number(to.1)?, self.area.height())?;
        if !(0.0..=MAX_TIME).contains(&at) {
            return Err(SetdestErrorKind::Time(at));
        }
        // Slower than a nanometre a second is a speed whose travel time no clock holds.
        if !(1e-9..=MAX_SPEED).contains(&speed) {
            return Err(SetdestErrorKind::Speed(speed));
        }
        if self.orders.len() == MAX_ORDERS {
            return Err(SetdestErrorKind::TooLong);
        }
        self.orders.push(Order { node, at: Instant::from_secs_f64(at), to: Point { x, y }, speed });
        Ok(())
    }

    fn node(&self, text: &str) -> Result<usize, SetdestErrorKind> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let known = text.parse::<usize>().ok().filter(|node| plain && *node < self.starts.len());
        known.ok_or_else(|| SetdestErrorKind::UnknownNode {
            node: shortened(text),
            last: self.starts.len().saturating_sub(1),
        })
    }
}

/// True for what `setdest` writes for ns-2's oracle.
fn is_god(text: &str) -> bool {
    text.starts_with("$god_") || text.starts_with("set god_")
}

/// What stands between the brackets of `$node_(…)`.
fn index(word: &str) -> Option<&str> {
    word.strip_prefix("$node_(")?.strip_suffix(')')
}

fn inside(axis: char, value: f64, most: f64) -> Result<f64, SetdestErrorKind> {
    if (0.0..=most).contains(&value) {
        Ok(value)
    } else {
        Err(SetdestErrorKind::Outside { axis, value, most })
    }
}

fn number(text: &str) -> Result<f64, SetdestErrorKind> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| SetdestErrorKind::NotANumber(shortened(text)))
}

fn shortened(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Mobility;
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "#\n# nodes: 2, pause: 2.00, max speed: 10.00\n#\n\
        $node_(0) set X_ 10.0\n$node_(0) set Y_ 20.0\n$node_(0) set Z_ 0.000000000000\n\
        $node_(1) set X_ 100\n$node_(1) set Y_ 0\n\n$god_ set-dist 0 1 1\n\
        $ns_ at 10.0 \"$node_(0) setdest 110.0 20.0 10.0\"\r\n\
        $ns_ at 12.0 \"$god_ set-dist 0 1 2\"\n\
        $ns_ at 14.0 \"$node_(0) setdest 50.0 60.0 4.0\"\n\
        $ns_ at 100.0 \"$node_(0) setdest 0.0 60.0 1.0\"\n";

    fn area() -> Area {
        Area::new(200.0, 100.0).unwrap()
    }

    #[test]
    fn nodes_go_as_the_file_says_and_turn_from_where_they_are() {
        let mut mobility = Mobility::setdest(FILE, area(), 2).unwrap();
        assert_eq!(mobility.max_speed(), 10.0);
        let rows = [
            (0, (10.0, 20.0)),
            (10_000, (10.0, 20.0)),
            (12_000, (30.0, 20.0)),
            // At 14 s it is at (50, 20) and turns north.
            (14_000, (50.0, 20.0)),
            (19_000, (50.0, 40.0)),
            (24_000, (50.0, 60.0)),
            (99_000, (50.0, 60.0)),
            (110_000, (40.0, 60.0)),
            (900_000, (0.0, 60.0)),
        ];
        for (millis, (x, y)) in rows {
            let place = mobility.position(Node(0), Instant::from_millis(millis));
            assert!(place.distance(Point { x, y }) < 1e-6, "{millis} ms: {place:?}");
            assert_eq!(mobility.position(Node(1), Instant::from_millis(millis)), Point { x: 100.0, y: 0.0 });
        }
        let mut again = Mobility::setdest(FILE, area(), 2).unwrap();
        let turns = [(0, 10_000), (10_000, 14_000), (14_000, 24_000), (24_000, 100_000), (100_000, 150_000)];
        for (at, turn) in turns {
            let next = again.next_turn(Node(0), Instant::from_millis(at));
            assert_eq!(next, Instant::from_millis(turn), "{at}");
        }
        assert_eq!(again.next_turn(Node(0), Instant::from_millis(150_000)), Instant::FAR_FUTURE);
    }

    #[test]
    fn of_two_orders_at_one_time_the_later_line_holds() {
        let text = "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n\
            $ns_ at 5 \"$node_(0) setdest 0 50 1\"\n$ns_ at 5 \"$node_(0) setdest 50 0 1\"\n\
            $ns_ at 1 \"$node_(0) setdest 0 1 100\"\n";
        let mut mobility = Mobility::setdest(text, area(), 1).unwrap();
        assert_eq!(mobility.position(Node(0), Instant::from_millis(2_000)), Point { x: 0.0, y: 1.0 });
        assert!(mobility.position(Node(0), Instant::from_millis(15_000)).x > 9.9);
    }

    #[test]
    fn a_bad_line_is_named_with_what_would_be_right() {
        let start = "$node_(0) set X_ 1\n$node_(0) set Y_ 1\n";
        let rows = [
            ("$node_(0) set X_ 300", "x = 300 m is outside the area: it must be 0 to 200 m"),
            ("$node_(0) set Y_ -1", "y = -1 m is outside the area: it must be 0 to 100 m"),
            ("$node_(0) set Z_ 2", "Z_ = 2 m: it must be 0, because the mesh lies on a plane"),
            ("$node_(0) set X_ 3", "X_ of node 0 was set before: it must be set once"),
            ("$node_(1) set X_ 3", "there is no node \"1\": the mesh has nodes 0 to 0"),
            ("$node_(-0) set X_ 3", "there is no node \"-0\": the mesh has nodes 0 to 0"),
            ("$node_(99999999999999999999) set X_ 3", "there is no node \"99999999999999999999\""),
            ("$node_(0) set X_ nan", "\"nan\" is not a number"),
            ("$node_(0) set V_ 3", "is no line of a setdest file"),
            ("$node_(0) set X_", "is no line of a setdest file"),
            ("hello", "\"hello\" is no line of a setdest file"),
            ("$ns_ at 1 \"$node_(0) setdest 1 1 0\"", "a speed of 0 m/s: it must be above 0"),
            ("$ns_ at 1 \"$node_(0) setdest 1 1 -2\"", "a speed of -2 m/s"),
            ("$ns_ at -1 \"$node_(0) setdest 1 1 2\"", "a time of -1 s: it must be 0 to"),
            ("$ns_ at 1 \"$node_(0) setdest 1 101 2\"", "y = 101 m is outside the area"),
            ("$ns_ at 1 \"$node_(7) setdest 1 1 2\"", "there is no node \"7\""),
            ("$ns_ at 1 \"$node_(0) setdest 1 1\"", "is no line of a setdest file"),
            ("$ns_ at 1 \"$node_(0) setdest 1 1 2", "is no line of a setdest file"),
            ("$ns_ at 1 2 \"$node_(0) setdest 1 1 2\"", "is no line of a setdest file"),
        ];
        for (line, told) in rows {
            let error = Mobility::setdest(&format!("{start}{line}\n"), area(), 1).unwrap_err().to_string();
            assert!(error.starts_with("line 3: ") && error.contains(told), "{line}: {error}");
        }
    }

    #[test]
    fn a_node_without_a_place_is_an_error_and_no_nodes_are_none() {
        let error = Mobility::setdest("$node_(0) set X_ 1\n", area(), 1).unwrap_err().to_string();
        assert_eq!(error, "line 1: Y_ of node 0 is missing: `$node_(0) set Y_ 1.5` sets it");
        assert_eq!(Mobility::setdest("", area(), 0).unwrap().nodes(), 0);
        assert!(Mobility::setdest("", area(), usize::MAX).is_err());
    }

    proptest! {
        #[test]
        fn a_script_stays_inside_and_keeps_to_its_speed(
            orders in proptest::collection::vec((0.0..100.0f64, 0.0..200.0f64, 0.0..100.0f64, 0.01..40.0f64), 0..20),
            steps in proptest::collection::vec(0..20_000u64, 1..40),
        ) {
            let mut text = "$node_(0) set X_ 7\n$node_(0) set Y_ 8\n".to_owned();
            for (at, x, y, speed) in orders {
                text += &format!("$ns_ at {at} \"$node_(0) setdest {x} {y} {speed}\"\n");
            }
            let mut mobility = Mobility::setdest(&text, area(), 1).unwrap();
            let mut now = Instant::ZERO;
            let mut last = mobility.position(Node(0), now);
            for step in steps {
                let next = Instant::from_nanos(now.as_nanos() + step * 1_000_000);
                let place = mobility.position(Node(0), next);
                prop_assert!(area().contains(place));
                let most = mobility.max_speed() * next.since(now).as_secs_f64();
                prop_assert!(place.distance(last) <= most + 1e-3);
                prop_assert!(mobility.next_turn(Node(0), next) > next);
                (now, last) = (next, place);
            }
        }
    }
}
