//! The map of a mesh over time: an SVG for each case, and a script that shows one moment of it at a time.
//!
//! Everything that the script writes comes from here as finished strings (positions, lines, sentences), so
//! that the moment in the page's source, which is what a reader without JavaScript sees, is drawn by the same
//! code. Positions are whole numbers: the longer side of the area has 1000 units, finer than a screen shows.

mod draw;
mod moment;

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::moment::Map;
use super::escape;
use crate::series::RunSeries;

/// Most bytes of all cases together. The first case is drawn in any case; its own bounds limit it.
const MOST_BYTES: usize = 4_000_000;

pub(super) const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::moment::MOST_FRAMES;
    use super::*;
    use crate::html::render_run;
    use crate::mesh::{MapFrame, MapUser, MeshMaps};
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
            "no longer detected (180 m)",
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
