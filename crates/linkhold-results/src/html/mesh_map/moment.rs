//! The state of a mesh at each moment as the page needs it: positions, lines and sentences.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::html::numbers as format;
use crate::mesh::{MapFrame, MapUser, MeshMaps};

/// Bounds of what is drawn. A map with more nodes is left out, one with more moments is thinned; of users,
/// routes and nodes on a route, the first are drawn.
const MOST_NODES: usize = 2_000;
pub(super) const MOST_FRAMES: usize = 64;
const MOST_USERS: usize = 400;
const MOST_ROUTES: usize = 16;
const MOST_HOPS: usize = 64;
/// Most nodes whose numbers fit into their circles.
const MOST_NUMBERED: usize = 80;

/// Units of the longer side of the area.
const SIDE: f64 = 1000.0;
/// No position or length is beyond this many units.
const FAR: f64 = 100_000.0;

/// What is drawn of the maps of a run.
pub(super) struct Map<'a> {
    pub(super) maps: &'a MeshMaps,
    /// Units per metre.
    pub(super) scale: f64,
    /// Width and height of the area, units.
    pub(super) width: i32,
    pub(super) height: i32,
    /// At least one.
    pub(super) frames: Vec<&'a MapFrame>,
    /// The users that are drawn, by their numbers.
    pub(super) users: Vec<(usize, MapUser)>,
    pub(super) pairs: &'a [(u32, u32)],
}

/// What changes from one moment to the next, as the page needs it.
pub(super) struct Moment {
    /// The sentence below the map.
    pub(super) words: String,
    pub(super) silent: bool,
    /// By user that is drawn: one character, see [`user_code`].
    pub(super) users: String,
    /// By node: x and y, units.
    pub(super) nodes: Vec<(i32, i32)>,
    /// By route: the line as an SVG path, its nodes as words, and whether it reaches the receiver.
    pub(super) routes: Vec<(String, String, bool)>,
}

impl Moment {
    /// With short keys, because there are up to 64 moments for each case.
    pub(super) fn json(&self) -> Value {
        let nodes: Vec<i32> = self.nodes.iter().flat_map(|&(x, y)| [x, y]).collect();
        let routes: Vec<Value> =
            self.routes.iter().map(|(line, words, whole)| json!([line, words, u8::from(*whole)])).collect();
        json!({"t": self.words, "s": u8::from(self.silent), "u": self.users, "n": nodes, "r": routes})
    }
}

impl<'a> Map<'a> {
    /// What can be drawn of `maps`; `None` if there is no moment, too many nodes, or no area.
    pub(super) fn of(maps: &'a MeshMaps) -> Option<Self> {
        let side = maps.width_m.max(maps.height_m);
        let sound = |length: f64| length.is_finite() && (0.0..=1e9).contains(&length);
        let most = maps.frames.iter().map(|frame| frame.nodes.len()).max()?;
        if !sound(maps.width_m) || !sound(maps.height_m) || side <= 0.0 || most > MOST_NODES {
            return None;
        }
        let scale = SIDE / side;
        let each = maps.frames.len().div_ceil(MOST_FRAMES).max(1);
        let finite = |user: &&MapUser| user.x.is_finite() && user.y.is_finite() && user.range_m.is_finite();
        let users = maps.users.iter().enumerate().filter(|(_, user)| finite(user)).take(MOST_USERS);
        Some(Self {
            maps,
            scale,
            width: units(maps.width_m * scale),
            height: units(maps.height_m * scale),
            frames: maps.frames.iter().step_by(each).collect(),
            users: users.map(|(index, user)| (index, *user)).collect(),
            pairs: maps.pairs.get(..MOST_ROUTES).unwrap_or(&maps.pairs),
        })
    }

    /// The first of the moments at which most routes reach their receiver: it shows more than the start, when
    /// no router knows anything.
    pub(super) fn fullest(&self) -> usize {
        let whole = |frame: &MapFrame| {
            self.pairs.iter().zip(&frame.paths).filter(|((_, to), path)| path.last() == Some(to)).count()
        };
        // The last of equal maxima would win; reversed, that is the first.
        let best = self.frames.iter().enumerate().rev().max_by_key(|(_, frame)| whole(frame));
        best.map_or(0, |(index, _)| index)
    }

    /// A place in metres as one in units; north is up, and y grows downwards.
    pub(super) fn place(&self, x: f64, y: f64) -> (i32, i32) {
        (units(x * self.scale), units((self.maps.height_m - y) * self.scale))
    }

    /// Whether the nodes are so few that they have room for their numbers.
    pub(super) fn numbered(&self) -> bool {
        self.frames.iter().all(|frame| frame.nodes.len() <= MOST_NUMBERED)
    }

    pub(super) fn moment(&self, frame: &MapFrame) -> Moment {
        let nodes: Vec<(i32, i32)> = frame.nodes.iter().map(|&(x, y)| self.place(x, y)).collect();
        let users = self.users.iter().map(|(index, user)| {
            let on = frame.users_on.get(*index).copied().unwrap_or(false);
            user_code(on, user.band == frame.band)
        });
        let routes = self.pairs.iter().enumerate().map(|(index, &(_, to))| {
            let path = frame.paths.get(index).map_or(&[][..], Vec::as_slice);
            (line(path, &nodes), route_words(path, to), path.last() == Some(&to))
        });
        Moment {
            words: self.words(frame),
            silent: frame.silent,
            users: users.collect(),
            routes: routes.collect(),
            nodes,
        }
    }

    fn words(&self, frame: &MapFrame) -> String {
        let doing = if frame.silent { "are silent: they sense, or change channel" } else { "may transmit" };
        let on = self.maps.users.iter().zip(&frame.users_on).filter(|(_, on)| **on);
        let (all, here) =
            on.fold((0, 0), |(all, here), (user, _)| (all + 1, here + u32::from(user.band == frame.band)));
        format!(
            "At {} s: band {} is in use; the nodes {doing}. Primary users on the air: {all} of {}, {here} of them in band {}.",
            seconds(frame.t_s),
            frame.band,
            self.maps.users.len(),
            frame.band,
        )
    }
}

/// A length as a whole number of units; what is no number is 0.
pub(super) fn units(value: f64) -> i32 {
    value.round().clamp(-FAR, FAR) as i32
}

/// A time to a tenth of a second.
fn seconds(t: f64) -> String {
    let tenths = (t * 10.0).round() / 10.0;
    if tenths.is_finite() { (tenths + 0.0).to_string() } else { format::MISSING.to_owned() }
}

/// A user's state as one digit: 1 while it transmits, plus 2 if its band is the one in use.
fn user_code(on: bool, here: bool) -> char {
    match (on, here) {
        (false, false) => '0',
        (true, false) => '1',
        (false, true) => '2',
        (true, true) => '3',
    }
}

/// A route as an SVG path. Nodes that are nowhere are left out.
fn line(path: &[u32], nodes: &[(i32, i32)]) -> String {
    let places = path.iter().take(MOST_HOPS + 1).filter_map(|node| nodes.get(usize::try_from(*node).ok()?));
    let mut out = String::new();
    for (index, (x, y)) in places.enumerate() {
        let _ = write!(out, "{}{x} {y}", if index == 0 { "M" } else { "L" });
    }
    out
}

/// "3 → 5 → 12 (2 hops)", or how far the route is known.
fn route_words(path: &[u32], to: u32) -> String {
    if path.len() < 2 {
        return if path == [to] { "the same node".to_owned() } else { "no route known".to_owned() };
    }
    let nodes: Vec<String> = path.iter().take(MOST_HOPS + 1).map(u32::to_string).collect();
    let cut = if path.len() > nodes.len() { " → …" } else { "" };
    let hops = path.len() - 1;
    let end = match (path.last() == Some(&to), hops) {
        (false, _) => "breaks off there".to_owned(),
        (true, 1) => "1 hop".to_owned(),
        (true, hops) => format!("{hops} hops"),
    };
    format!("{}{cut} ({end})", nodes.join(" → "))
}
