//! A case's drawing: an SVG with primary users, routes and nodes, and the words around it.

use std::fmt::Write as _;

use super::moment::{Map, Moment, units};
use crate::html::{charts, escape, numbers as format};
use crate::mesh::MeshMaps;

/// Room around the area, and below it for the bars of lengths, in units.
const MARGIN: i32 = 30;
const FOOT: i32 = 90;

impl Map<'_> {
    /// A case's drawing at the moment `start`, with the sentence and the list of routes below it. All but the
    /// first case are hidden until they are picked.
    pub(super) fn panel(&self, index: usize, case: &str, start: usize) -> String {
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

    /// How far the primary users are detected: "500 m" or "300 to 500 m".
    fn ranges(&self) -> String {
        let ranges = || self.users.iter().map(|(_, user)| user.range_m);
        let (least, most) = (ranges().fold(f64::INFINITY, f64::min), ranges().fold(0.0, f64::max));
        let (least, most) = (format::number(least), format::number(most));
        if least == most { format!("{most} m") } else { format!("{least} to {most} m") }
    }

    pub(super) fn caption(&self, seed: u64, cases: usize) -> String {
        let MeshMaps { width_m, height_m, transmission_range_m, .. } = self.maps;
        let users = match (self.users.len(), self.maps.users.len()) {
            (_, 0) => "There are no primary users.".to_owned(),
            (drawn, all) => format!(
                "Large circles are primary users, a triangle each, and end where they are no longer detected ({}): dashed while they \
                 are off the air, filled while they transmit, red if their band is the one in use{}. They are cut off at the map's \
                 edge.",
                self.ranges(),
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
            if self.numbered() { " with their numbers" } else { "" },
            format::number(*transmission_range_m),
        )
    }
}

/// The greatest of 1, 2, 5 times a power of ten that is not above `most`.
fn round_length(most: f64) -> Option<f64> {
    if !most.is_finite() || most <= 0.0 {
        return None;
    }
    let decade = 10_f64.powf(most.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|part| part * decade).find(|length| *length <= most)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_round() {
        for (most, length) in [(175.0, 100.0), (250.0, 200.0), (99.0, 50.0), (0.5, 0.5)] {
            assert!((round_length(most).unwrap() - length).abs() < 1e-9, "{most}");
        }
        assert_eq!(round_length(0.0), None);
        assert_eq!(round_length(f64::NAN), None);
    }
}
