//! Where nodes are and who hears whom, with what power.
//!
//! Source: crahn section 4.3, equation (2) ([`Propagation`]). A node can read a signal within the
//! transmission range and notices one within the carrier-sense range (Table 1: 250 m; ns-2's default of 550
//! m).
//!
//! Cost: a node's list of hearers is made anew only after nodes may have moved by [`STEP`], from candidates
//! that are found with a grid. So a transmission costs its hearers, and neither the square of the nodes nor
//! their number.

use linkhold_core::time::{Duration, Instant};

use linkhold_radio::spectrum::Propagation;

use crate::mobility::Mobility;
use crate::node::{Node, Point};

/// How far a node may have moved since its list of hearers was made, metres. A place is known no better in
/// any model of fading, and at 250 m the power changes by 0.8 % over it.
const STEP: f64 = 1.0;
/// How far a node may have moved since the candidates were found, metres.
const MARGIN: f64 = 50.0;

/// What the air does with power, and what radios notice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// A node's transmit power, W.
    pub power: f64,
    /// How signals fade with the distance.
    pub propagation: Propagation,
    /// How far a frame can be read where nothing disturbs it, metres.
    pub transmission: f64,
    /// How far it keeps others from sending, metres; not below `transmission`.
    pub carrier_sense: f64,
}

impl Reach {
    /// Power of a node's signal at a distance in metres, W.
    #[must_use]
    pub fn received(&self, distance: f64) -> f64 {
        self.propagation.received(self.power, distance, 1.0)
    }

    /// The least power of a signal that can be read, W; also the P_th of equation (1), from which on a
    /// primary user is noticed.
    #[must_use]
    pub fn sensitivity(&self) -> f64 {
        self.received(self.transmission)
    }
}

/// Who hears a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hearer {
    /// The node that hears.
    pub node: Node,
    /// With this power, W.
    pub power: f64,
    /// It can read what it hears.
    pub reads: bool,
}

#[derive(Clone, Debug, Default)]
struct Around {
    /// Nodes that may have come within carrier-sense range since the grid was made.
    candidates: Vec<Node>,
    hearers: Vec<Hearer>,
    /// Until when `hearers` stand.
    until: Instant,
}

/// All nodes' places.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    mobility: Mobility,
    reach: Reach,
    /// Power of a signal at the end of the carrier-sense range, W.
    least_noticed: f64,
    around: Vec<Around>,
    /// How long lists of hearers, and candidates, stand; `None`: nobody moves.
    fresh: Option<(Duration, Duration)>,
    candidates_until: Instant,
    grid: Grid,
}

impl Places {
    pub(crate) fn new(mobility: Mobility, nodes: u32, reach: Reach) -> Self {
        let speed = mobility.max_speed();
        let time = |metres: f64| Duration::from_secs_f64(metres / (2.0 * speed));
        Self {
            mobility,
            reach,
            least_noticed: reach.received(reach.carrier_sense),
            around: vec![Around::default(); nodes as usize],
            fresh: (speed > 0.0).then(|| (time(STEP), time(MARGIN))),
            candidates_until: Instant::ZERO,
            grid: Grid::default(),
        }
    }

    pub(crate) const fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The least power that keeps others from sending, W.
    pub(crate) const fn least_noticed(&self) -> f64 {
        self.least_noticed
    }

    pub(crate) fn position(&mut self, node: Node, now: Instant) -> Point {
        self.mobility.position(node, now)
    }

    /// True if `is` holds for any node's place.
    pub(crate) fn any(&mut self, now: Instant, mut is: impl FnMut(Point) -> bool) -> bool {
        (0..self.around.len() as u32).any(|node| is(self.mobility.position(Node(node), now)))
    }

    /// Those who hear `node`, in the order of their numbers.
    #[inline]
    pub(crate) fn hearers(&mut self, node: Node, now: Instant) -> &[Hearer] {
        if self.around[node.get()].until <= now {
            self.listen_anew(node, now);
        }
        &self.around[node.get()].hearers
    }

    fn listen_anew(&mut self, node: Node, now: Instant) {
        if self.candidates_until <= now {
            self.find_candidates(now);
        }
        let own = self.mobility.position(node, now);
        let Around { candidates, mut hearers, .. } = std::mem::take(&mut self.around[node.get()]);
        hearers.clear();
        for &other in &candidates {
            let distance = own.distance(self.mobility.position(other, now));
            if distance <= self.reach.carrier_sense {
                let reads = distance <= self.reach.transmission;
                hearers.push(Hearer { node: other, power: self.reach.received(distance), reads });
            }
        }
        let until = self.fresh.map_or(Instant::FAR_FUTURE, |(list, _)| now + list).min(self.candidates_until);
        self.around[node.get()] = Around { candidates, hearers, until };
    }

    /// Finds for every node who can come within its carrier-sense range soon.
    fn find_candidates(&mut self, now: Instant) {
        self.candidates_until = self.fresh.map_or(Instant::FAR_FUTURE, |(_, all)| now + all);
        let within = self.reach.carrier_sense + MARGIN;
        let nodes = self.around.len() as u32;
        let points: Vec<Point> = (0..nodes).map(|node| self.mobility.position(Node(node), now)).collect();
        self.grid.fill(&points, within);
        for (node, around) in self.around.iter_mut().enumerate() {
            around.candidates.clear();
            self.grid.near(points[node], |other| {
                if other != node && points[node].distance(points[other]) <= within {
                    around.candidates.push(Node(other as u32));
                }
            });
            around.candidates.sort_unstable();
        }
    }
}

/// Points sorted into squares.
#[derive(Clone, Debug, Default)]
struct Grid {
    side: f64,
    low: Point,
    columns: usize,
    rows: usize,
    /// By square: where its points begin in `points`; one more at the end.
    starts: Vec<u32>,
    points: Vec<u32>,
}

/// Most squares along one side: bounds the memory of a few nodes far apart.
const MOST_SQUARES: f64 = 256.0;

impl Grid {
    fn fill(&mut self, points: &[Point], side: f64) {
        let fold = |pick: fn(Point) -> f64, start: f64, least: fn(f64, f64) -> f64| {
            points.iter().map(|&point| pick(point)).fold(start, least)
        };
        self.low =
            Point { x: fold(|p| p.x, f64::INFINITY, f64::min), y: fold(|p| p.y, f64::INFINITY, f64::min) };
        let wide = fold(|p| p.x, f64::NEG_INFINITY, f64::max) - self.low.x;
        let high = fold(|p| p.y, f64::NEG_INFINITY, f64::max) - self.low.y;
        self.side = side.max(wide / MOST_SQUARES).max(high / MOST_SQUARES);
        self.columns = (wide / self.side) as usize + 1;
        self.rows = (high / self.side) as usize + 1;
        self.starts.clear();
        self.starts.resize(self.columns * self.rows + 1, 0);
        for &point in points {
            let square = self.square(point);
            self.starts[square + 1] += 1;
        }
        for square in 1..self.starts.len() {
            self.starts[square] += self.starts[square - 1];
        }
        self.points.clear();
        self.points.resize(points.len(), 0);
        let mut next = self.starts.clone();
        for (number, &point) in points.iter().enumerate() {
            let place = &mut next[self.square(point)];
            self.points[*place as usize] = number as u32;
            *place += 1;
        }
    }

    fn column_and_row(&self, point: Point) -> (usize, usize) {
        let index = |at: f64, low: f64, count: usize| (((at - low) / self.side) as usize).min(count - 1);
        (index(point.x, self.low.x, self.columns), index(point.y, self.low.y, self.rows))
    }

    fn square(&self, point: Point) -> usize {
        let (column, row) = self.column_and_row(point);
        row * self.columns + column
    }

    /// Calls `each` with every point of the square of `point` and of those around it.
    fn near(&self, point: Point, mut each: impl FnMut(usize)) {
        let (column, row) = self.column_and_row(point);
        for row in row.saturating_sub(1)..(row + 2).min(self.rows) {
            let first = row * self.columns + column.saturating_sub(1);
            let last = row * self.columns + (column + 1).min(self.columns - 1);
            let (from, to) = (self.starts[first] as usize, self.starts[last + 1] as usize);
            for &number in &self.points[from..to] {
                each(number as usize);
            }
        }
    }
}
