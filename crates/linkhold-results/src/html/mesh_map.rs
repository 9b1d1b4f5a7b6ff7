//! The map of a mesh over time: an SVG for each case, and a script that shows one moment of it at a time.
//!
//! Everything that the script writes comes from here as finished strings (positions, lines, sentences), so that
//! the moment in the page's source, which is what a reader without JavaScript sees, is drawn by the same code.
//! Positions are whole numbers: the longer side of the area has 1000 units, finer than a screen shows.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{charts, escape, numbers as format};
use crate::mesh::{MapFrame, MapUser, MeshMaps};
use crate::series::RunSeries;

/// Bounds of what is drawn. A map beyond the first two is left out or thinned; of users, routes and nodes on a
/// route, the first are drawn.
const MOST_NODES: usize = 2_000;
const MOST_FRAMES: usize = 64;
const MOST_USERS: usize = 400;
const MOST_ROUTES: usize = 16;
const MOST_HOPS: usize = 64;
/// Most bytes of all cases together. The first case is drawn in any case; its own bounds limit it.
const MOST_BYTES: usize = 4_000_000;
/// Most nodes whose numbers fit into their circles.
const MOST_NUMBERED: usize = 80;

/// Units of the longer side of the area.
const SIDE: f64 = 1000.0;
/// Room around the area, and below it for the bars of lengths, in units.
const MARGIN: i32 = 30;
const FOOT: i32 = 90;
/// No position or length is beyond this many units.
const FAR: f64 = 100_000.0;

pub(super) const STYLE: &str = include_str!("mesh_map.css");
const SCRIPT: &str = include_str!("mesh_map.js");

/// The map as HTML with its script: a panel for each case that has maps. `None` if no case has any.
pub(super) fn mesh_map(series: &[(usize, &RunSeries)]) -> Option<String> {
    let with_maps: Vec<(&RunSeries, Map<'_>)> =
        series.iter().filter_map(|(_, run)| Some((*run, Map::of(run.mesh.as_ref()?)?))).collect();
    let (first_run, first) = with_maps.first()?;
    let start = first.fullest();
    let (mut panels, mut data, mut options) = (String::new(), Vec::new(), String::new());
    let mut bytes = 0;
    for (index, (run, map)) in with_maps.iter().enumerate() {
        let frames = Value::from(map.frames.iter().map(|frame| map.moment(frame).json()).collect::<Vec<_>>());
        let panel = map.panel(index, &run.case, start);
        bytes += frames.to_string().len() + panel.len();
        if index > 0 && bytes > MOST_BYTES {
            break;
        }
        panels.push_str(&panel);
        data.push(frames);
        let _ = write!(options, "<option value=\"{index}\">{}</option>", escape(&run.case));
    }
    let pick = if data.len() > 1 {
        format!("<label>Case <select class=\"mesh-pick\">{options}</select></label>")
    } else {
        String::new()
    };
    let drawn = data.len();
    let left_out = match with_maps.len() - data.len() {
        0 => String::new(),
        n => format!(" {n} more {} not drawn.", if n == 1 { "case is" } else { "cases are" }),
    };
    // Inside a script element only `</` and `<!--` could end or change it.
    let data = json!({"start": start, "cases": data}).to_string().replace('<', "\\u003c");
    Some(format!(
        "<figure id=\"mesh-map\">\n<div class=\"mesh-controls\" hidden>{pick}\
         <button type=\"button\" class=\"mesh-play\">Play</button>\
         <label class=\"mesh-time\">Time <input type=\"range\" class=\"mesh-slider\" min=\"0\" max=\"{}\" value=\"{start}\" step=\"1\"></label>\
         </div>\n<noscript><p>Without JavaScript the map shows one moment of the first case.</p></noscript>\n{panels}\
         <figcaption>{}{left_out}</figcaption>\n\
         <script type=\"application/json\" id=\"mesh-map-data\">{data}</script>\n<script>{SCRIPT}</script></figure>",
        first.frames.len() - 1,
        first.caption(first_run.seed, drawn),
    ))
}

/// What is drawn of the maps of a run.
struct Map<'a> {
    maps: &'a MeshMaps,
    /// Units per metre.
    scale: f64,
    /// Width and height of the area, units.
    width: i32,
    height: i32,
    /// At least one.
    frames: Vec<&'a MapFrame>,
    /// The users that are drawn, by their numbers.
    users: Vec<(usize, MapUser)>,
    pairs: &'a [(u32, u32)],
}

/// What changes from one moment to the next, as the page needs it.
struct Moment {
    /// The sentence below the map.
    words: String,
    silent: bool,
    /// By user that is drawn: one character, see [`user_class`].
    users: String,
    /// By node: x and y, units.
    nodes: Vec<(i32, i32)>,
    /// By route: the line as an SVG path, its nodes as words, and whether it reaches the receiver.
    routes: Vec<(String, String, bool)>,
}

impl Moment {
    /// With short keys, because there are up to 64 moments for each case.
    fn json(&self) -> Value {
        let nodes: Vec<i32> = self.nodes.iter().flat_map(|&(x, y)| [x, y]).collect();
        let routes: Vec<Value> =
            self.routes.iter().map(|(line, words, whole)| json!([line, words, u8::from(*whole)])).collect();
        json!({"t": self.words, "s": u8::from(self.silent), "u": self.users, "n": nodes, "r": routes})
    }
}

impl<'a> Map<'a> {
    /// What can be drawn of `maps`; `None` if there is no moment, too many nodes, or no area.
    fn of(maps: &'a MeshMaps) -> Option<Self> {
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
    fn fullest(&self) -> usize {
        let whole = |frame: &MapFrame| {
            self.pairs.iter().zip(&frame.paths).filter(|((_, to), path)| path.last() == Some(to)).count()
        };
        // The last of equal maxima would win; reversed, that is the first.
        let best = self.frames.iter().enumerate().rev().max_by_key(|(_, frame)| whole(frame));
        best.map_or(0, |(index, _)| index)
    }

    /// A place in metres as one in units; north is up, and y grows downwards.
    fn place(&self, x: f64, y: f64) -> (i32, i32) {
        (units(x * self.scale), units((self.maps.height_m - y) * self.scale))
    }

    /// Whether the nodes are so few that they have room for their numbers.
    fn numbered(&self) -> bool {
        self.frames.iter().all(|frame| frame.nodes.len() <= MOST_NUMBERED)
    }

    fn moment(&self, frame: &MapFrame) -> Moment {
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

    /// A case's drawing at the moment `start`, with the sentence and the list of routes below it. All but the
    /// first case are hidden until they are picked.
    fn panel(&self, index: usize, case: &str, start: usize) -> String {
        let frame = self.frames.get(start).or(self.frames.last());
        let now = frame.map(|frame| self.moment(frame));
        let Some(now) = now else { return String::new() };
        let mut out = format!(
            "<div class=\"mesh-case\"{}>\n<svg viewBox=\"{} {} {} {}\" role=\"img\" aria-label=\"Map of the mesh, case {}; \
             the text below says what it shows\"{}>\n",
            if index == 0 { "" } else { " hidden" },
            -MARGIN,
            -MARGIN,
            self.width + 2 * MARGIN,
            self.height + 2 * MARGIN + FOOT,
            escape(case),
            match (self.numbered(), now.silent) {
                (true, false) => "",
                (true, true) => " class=\"silent\"",
                (false, false) => " class=\"small\"",
                (false, true) => " class=\"small silent\"",
            },
        );
        self.draw_users(&mut out, &now);
        let _ = writeln!(out, "<rect class=\"area\" width=\"{}\" height=\"{}\"/>", self.width, self.height);
        for (index, (line, _, whole)) in now.routes.iter().enumerate() {
            let _ = writeln!(
                out,
                "<path class=\"route{}\" stroke=\"{}\" stroke-width=\"{}\" d=\"{line}\"/>",
                if *whole { "" } else { " broken" },
                charts::colour(index),
                self.route_width(index),
            );
        }
        self.draw_nodes(&mut out, &now);
        self.draw_lengths(&mut out);
        let _ = writeln!(
            out,
            "</svg>\n<p class=\"mesh-words\">{}</p>\n<ul class=\"mesh-routes\">",
            escape(&now.words)
        );
        for (index, ((from, to), (_, words, _))) in self.pairs.iter().zip(&now.routes).enumerate() {
            let _ = writeln!(
                out,
                "<li><span class=\"mesh-swatch\" style=\"background:{}\"></span>Node {from} to node {to}: <span class=\"mesh-route\">{}</span></li>",
                charts::colour(index),
                escape(words),
            );
        }
        out.push_str("</ul></div>\n");
        out
    }

    /// Draws the users in a drawing of their own, whose edge cuts their circles off.
    fn draw_users(&self, out: &mut String, now: &Moment) {
        let (width, height) = (self.width + 2 * MARGIN, self.height + 2 * MARGIN);
        let _ = writeln!(
            out,
            "<svg x=\"{0}\" y=\"{0}\" width=\"{width}\" height=\"{height}\" viewBox=\"{0} {0} {width} {height}\">",
            -MARGIN,
        );
        for ((number, user), code) in self.users.iter().zip(now.users.chars()) {
            let (x, y) = self.place(user.x, user.y);
            let _ = writeln!(
                out,
                "<g class=\"{}\"><circle cx=\"{x}\" cy=\"{y}\" r=\"{}\"/><path d=\"M{x} {}l11 19h-22z\"/>\
                 <text x=\"{x}\" y=\"{}\">band {}</text><title>Primary user {number}, band {}, range {} m</title></g>",
                user_class(code),
                units(user.range_m * self.scale).max(0),
                y - 12,
                y + 27,
                user.band,
                user.band,
                format::number(user.range_m),
            );
        }
        out.push_str("</svg>\n");
    }

    fn draw_nodes(&self, out: &mut String, now: &Moment) {
        let numbered = self.numbered();
        let radius = if numbered { 15 } else { 5 };
        for (number, (x, y)) in now.nodes.iter().enumerate() {
            let _ = write!(out, "<g class=\"node\" transform=\"translate({x} {y})\">");
            for (index, &(from, to)) in self.pairs.iter().enumerate() {
                // Marks of several routes at one node lie around each other.
                let half = radius + 3 + self.route_width(index) / 2;
                let colour = charts::colour(index);
                if usize::try_from(from) == Ok(number) {
                    let _ = write!(
                        out,
                        "<rect x=\"-{half}\" y=\"-{half}\" width=\"{0}\" height=\"{0}\" fill=\"{colour}\"/>",
                        2 * half
                    );
                }
                if usize::try_from(to) == Ok(number) {
                    let _ = write!(out, "<circle class=\"end\" r=\"{}\" stroke=\"{colour}\"/>", half + 2);
                }
            }
            let text = if numbered { format!("<text y=\"6\">{number}</text>") } else { String::new() };
            let _ = writeln!(out, "<circle r=\"{radius}\"/>{text}</g>");
        }
    }

    /// Bars below the area: a round number of metres, and how far a frame can be read, if that fits.
    fn draw_lengths(&self, out: &mut String) {
        let top = self.height + MARGIN;
        let mut bar = |row: i32, metres: f64, words: &str| {
            let length = units(metres * self.scale);
            if (1..=self.width).contains(&length) {
                let y = top + 22 + 36 * row;
                let _ = writeln!(
                    out,
                    "<path class=\"bar\" d=\"M0 {}v12m0 -6h{length}m0 -6v12\"/><text class=\"bar\" x=\"{}\" y=\"{}\">{words}</text>",
                    y - 6,
                    length + 12,
                    y + 7,
                );
            }
        };
        if let Some(metres) = round_length(self.maps.width_m / 4.0) {
            bar(0, metres, &format!("{metres} m"));
        }
        let range = self.maps.transmission_range_m;
        bar(1, range, &format!("{} m: a frame can be read so far", format::number(range)));
    }

    /// The first routes are the widest, so that those above them do not hide them.
    fn route_width(&self, index: usize) -> i32 {
        const TOGETHER: usize = 5;
        let above = self.pairs.len().min(TOGETHER) as i32 - 1 - (index % TOGETHER) as i32;
        let step = if self.numbered() { 4 } else { 2 };
        step + step * above.max(0)
    }

    fn caption(&self, seed: u64, cases: usize) -> String {
        let MeshMaps { width_m, height_m, transmission_range_m, .. } = self.maps;
        let users = match (self.users.len(), self.maps.users.len()) {
            (_, 0) => "There are no primary users.".to_owned(),
            (drawn, all) => format!(
                "Large circles are primary users (a triangle each) and reach as far as they are detected (m): thin and dashed while \
                 they are off the air, filled while they transmit, with a thick red edge if their band is the one in use{}. They are cut off \
                 at the map's edge.",
                if drawn < all { format!("; the first {drawn} of {all} are drawn") } else { String::new() },
            ),
        };
        let routes = if self.maps.pairs.len() > self.pairs.len() {
            format!(" The first {} of {} routes are drawn.", self.pairs.len(), self.maps.pairs.len())
        } else {
            String::new()
        };
        format!(
            "<b>The mesh over time</b>, seed {seed}{}. The area is {} m by {} m, north is up; times count in s from the start of the run. \
             Small circles are nodes{}, grey while they are silent; a frame can be read {} m away. Coloured lines are \
             the routes of the flows as the routers know them at that moment, from sender (square) to receiver (ring), dashed where the route breaks \
             off before the receiver.{routes} {users} Nodes, users and bands are numbered from 0. Move the slider with the mouse or the arrow keys.",
            if cases > 1 { " of each case" } else { "" },
            format::number(*width_m),
            format::number(*height_m),
            if self.frames.iter().all(|frame| frame.nodes.len() <= MOST_NUMBERED) {
                " with their numbers"
            } else {
                ""
            },
            format::number(*transmission_range_m),
        )
    }
}

/// A length as a whole number of units; what is no number is 0.
fn units(value: f64) -> i32 {
    value.round().clamp(-FAR, FAR) as i32
}

/// A time to a tenth of a second.
fn seconds(t: f64) -> String {
    let tenths = (t * 10.0).round() / 10.0;
    if tenths.is_finite() { (tenths + 0.0).to_string() } else { format::MISSING.to_owned() }
}

/// The greatest of 1, 2, 5 times a power of ten that is not above `most`.
fn round_length(most: f64) -> Option<f64> {
    if !most.is_finite() || most <= 0.0 {
        return None;
    }
    let decade = 10_f64.powf(most.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|part| part * decade).find(|length| *length <= most)
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

/// The class that draws a state of [`user_code`]; the script has the same list.
fn user_class(code: char) -> &'static str {
    match code {
        '1' => "user on",
        '2' => "user here",
        '3' => "user on here",
        _ => "user",
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::html::render_run;
    use crate::sample;

    fn meshes(seeds: u64, nodes: u32, frames: u32) -> Vec<RunSeries> {
        let (_, mut series) = sample::run(seeds);
        sample::with_mesh(&mut series, nodes, frames);
        series
    }

    fn map_of(series: &[RunSeries]) -> Option<String> {
        mesh_map(&series.iter().enumerate().collect::<Vec<_>>())
    }

    /// The data that the script reads.
    fn data(html: &str) -> Value {
        let (_, rest) = html.split_once("id=\"mesh-map-data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn a_report_of_a_mesh_has_a_map_of_the_first_seed_of_each_case() {
        let (report, mut series) = sample::run(2);
        assert!(!render_run(&report, &series, "").contains("mesh-map"), "no mesh, no map");
        sample::with_mesh(&mut series, 15, 40);
        let page = render_run(&report, &series, "");
        assert_eq!(page.matches("<div class=\"mesh-case\"").count(), 3);
        assert_eq!(page.matches("<div class=\"mesh-case\" hidden>").count(), 2);
        for wanted in [
            "<option value=\"2\">dsasync</option>",
            "seed 1 of each case",
            "700 m by 500 m",
            "times count in s",
            "type=\"range\"",
            "class=\"mesh-play\"",
            "#mesh-map .area",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn the_drawing_in_the_source_is_the_moment_at_which_the_script_begins() {
        let html = map_of(&meshes(1, 15, 40)).unwrap();
        let data = data(&html);
        // At the start no router knows a route, afterwards each does.
        assert_eq!(data["start"], 1);
        assert_eq!(data["cases"].as_array().unwrap().len(), 3);
        let first = &data["cases"][0][1];
        let (panel, _) = html.split_once("</div>\n<div class=\"mesh-case\" hidden>").unwrap();
        assert!(panel.contains(&format!("<p class=\"mesh-words\">{}</p>", first["t"].as_str().unwrap())));
        for pair in first["n"].as_array().unwrap().chunks(2) {
            assert!(panel.contains(&format!("translate({} {})", pair[0], pair[1])));
        }
        for route in first["r"].as_array().unwrap() {
            assert!(panel.contains(&format!("d=\"{}\"", route[0].as_str().unwrap())), "{route}");
            assert!(panel.contains(route[1].as_str().unwrap()) && route[2] == 1, "{route}");
        }
        let on = first["u"].as_str().unwrap().chars().filter(|code| "13".contains(*code)).count();
        assert_eq!(panel.matches("class=\"user on").count(), on);
        assert_eq!(panel.matches("class=\"node\"").count(), 15);
    }

    fn small() -> MeshMaps {
        MeshMaps {
            width_m: 500.0,
            height_m: 250.0,
            transmission_range_m: 100.0,
            users: vec![
                MapUser { x: 50.0, y: 50.0, band: 0, range_m: 100.0 },
                MapUser { x: 100.0, y: 0.0, band: 1, range_m: 100.0 },
            ],
            pairs: vec![(0, 2)],
            frames: vec![
                MapFrame {
                    t_s: 3.0,
                    band: 1,
                    silent: true,
                    nodes: vec![(0.0, 0.0), (250.0, 125.0), (500.0, 250.0)],
                    users_on: vec![true, false],
                    paths: vec![vec![0, 1]],
                },
                MapFrame {
                    t_s: 4.04,
                    band: 1,
                    silent: false,
                    nodes: vec![(0.0, 0.0), (250.0, 125.0), (500.0, 250.0)],
                    users_on: vec![true, true],
                    paths: vec![vec![0, 1, 2]],
                },
            ],
        }
    }

    #[test]
    fn metres_become_units_with_north_up() {
        let maps = small();
        let map = Map::of(&maps).unwrap();
        assert_eq!((map.width, map.height, map.fullest()), (1000, 500, 1));
        let moments: Vec<Value> = map.frames.iter().map(|frame| map.moment(frame).json()).collect();
        assert_eq!(
            moments[0],
            json!({
                "t": "At 3 s: band 1 is in use; the nodes are silent: they sense, or change channel. \
                      Primary users on the air: 1 of 2, 0 of them in band 1.",
                "s": 1, "u": "12", "n": [0, 500, 500, 250, 1000, 0],
                "r": [["M0 500L500 250", "0 → 1 (breaks off there)", 0]]
            })
        );
        assert_eq!(moments[1]["u"], "13");
        assert_eq!(moments[1]["r"], json!([["M0 500L500 250L1000 0", "0 → 1 → 2 (2 hops)", 1]]));
        assert!(
            moments[1]["t"]
                .as_str()
                .unwrap()
                .starts_with("At 4 s: band 1 is in use; the nodes may transmit.")
        );
        let panel = map.panel(0, "none", 0);
        for wanted in [
            "class=\"silent\"",
            "class=\"user on\"><circle cx=\"100\" cy=\"400\" r=\"200\"",
            "class=\"user here\"><circle cx=\"200\" cy=\"500\"",
            "class=\"route broken\"",
            "range 100 m",
            ">100 m</text>",
        ] {
            assert!(panel.contains(wanted), "{wanted} in {panel}");
        }
    }

    #[test]
    fn many_nodes_are_small_and_without_numbers() {
        let (few, many) = (map_of(&meshes(1, 80, 3)).unwrap(), map_of(&meshes(1, 81, 3)).unwrap());
        let number = "<circle r=\"15\"/><text y=\"6\">79</text>";
        assert!(few.contains(number) && few.contains("Small circles are nodes with their numbers"));
        assert!(!many.contains("<text y=\"6\">") && many.contains("<circle r=\"5\"/>"));
        assert!(many.contains("class=\"small") && !few.contains("class=\"small"));
    }

    #[test]
    fn one_case_needs_no_selector() {
        let html = map_of(&meshes(1, 3, 5)[..1]).unwrap();
        assert!(!html.contains("<select"));
    }

    #[test]
    fn the_map_asks_for_nothing_from_elsewhere() {
        let html = map_of(&meshes(1, 15, 40)).unwrap();
        for forbidden in ["http:", "https:", "src=", "@import", "url(", "href"] {
            assert!(!html.contains(forbidden) && !STYLE.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn nothing_of_a_case_becomes_markup() {
        let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'";
        let mut series = meshes(1, 5, 5);
        series.iter_mut().for_each(|run| run.case = hostile.into());
        let html = map_of(&series).unwrap();
        let own = html.replace(SCRIPT, "");
        assert!(!own.contains("<script>alert") && !own.contains("<img") && !own.contains("\"'"));
        assert_eq!(html.matches("</script>").count(), 2, "one of the data, one of the script");
    }

    #[test]
    fn the_map_is_bounded() {
        assert!(map_of(&meshes(1, 2_001, 1)).is_none(), "too many nodes to tell apart");
        let mut series = meshes(1, 2_000, 200);
        for run in &mut series {
            let maps = run.mesh.as_mut().unwrap();
            maps.pairs = (0..100).map(|node| (node, 1_999)).collect();
            for frame in &mut maps.frames {
                frame.paths = (0..100).map(|from| (from..from + 1_000).collect()).collect();
            }
        }
        let html = map_of(&series).unwrap();
        let data = data(&html);
        let cases = data["cases"].as_array().unwrap();
        assert!(!cases.is_empty() && cases.len() < 3, "{} cases, {} bytes", cases.len(), html.len());
        assert!(html.contains("not drawn"), "the caption says so");
        assert!(html.contains("The first 16 of 100 routes are drawn"));
        assert!(cases[0].as_array().unwrap().len() <= MOST_FRAMES);
        assert!(html.len() < MOST_BYTES + 100_000, "{}", html.len());
    }

    #[test]
    fn lengths_are_round() {
        for (most, length) in [(175.0, 100.0), (250.0, 200.0), (99.0, 50.0), (0.5, 0.5)] {
            assert!((round_length(most).unwrap() - length).abs() < 1e-9, "{most}");
        }
        assert_eq!(round_length(0.0), None);
        assert_eq!(round_length(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn any_map_is_drawn_or_left_out(
            sides in (any::<f64>(), any::<f64>(), any::<f64>()),
            users in proptest::collection::vec((any::<f64>(), any::<f64>(), any::<u32>(), any::<f64>()), 0..5),
            pairs in proptest::collection::vec((0_u32..6, any::<u32>()), 0..20),
            frames in proptest::collection::vec((
                any::<f64>(), 0_u32..3, any::<bool>(),
                proptest::collection::vec((any::<f64>(), any::<f64>()), 0..6),
                proptest::collection::vec(any::<bool>(), 0..8),
                proptest::collection::vec(proptest::collection::vec(0_u32..8, 0..80), 0..20),
            ), 0..5),
            sound in any::<bool>(),
        ) {
            let (width_m, height_m, transmission_range_m) = if sound { (300.0, 0.0, sides.2) } else { sides };
            let maps = MeshMaps {
                width_m, height_m, transmission_range_m, pairs,
                users: users.into_iter().map(|(x, y, band, range_m)| MapUser { x, y, band, range_m }).collect(),
                frames: frames.into_iter().map(|(t_s, band, silent, nodes, users_on, paths)| {
                    MapFrame { t_s, band, silent, nodes, users_on, paths }
                }).collect(),
            };
            let drawable = sound && !maps.frames.is_empty();
            let run = RunSeries { mesh: Some(maps), ..RunSeries::default() };
            let html = map_of(&[run]);
            prop_assert!(html.is_some() || !drawable);
            if let Some(html) = html {
                prop_assert!(!html.contains("NaN") && !html.contains("inf"), "{}", html);
                data(&html);
            }
        }
    }
}
