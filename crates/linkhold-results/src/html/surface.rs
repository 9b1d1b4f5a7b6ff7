//! Heat maps with contour lines, for figures with two parameters.
//!
//! Such a figure comes as curves: one parameter is x, the other stands as a number in the curves' names, as
//! in `newreno [T_p 0.6 s]`. plotly.js finds the contour lines: marching squares over the grid, linear
//! between measured points (`line.smoothing` 0). An axis whose values span a factor of ten or more is
//! logarithmic. Its positions are the logarithms, so that interpolation is linear in what the reader sees.

use serde_json::{Value, json};

use super::{charts, escape, numbers as format};
use crate::record::Figure;

/// Fewest curves that make a surface, and fewest points of each.
const LEAST_CURVES: usize = 4;
const LEAST_POINTS: usize = 2;
/// Most curves of a figure that are looked at, and most points of each: more could not be told apart.
const MOST_CURVES: usize = 256;
const MOST_POINTS: usize = 256;
/// Most surfaces of a figure.
const MOST_SURFACES: usize = 8;
/// At most about as many contour lines are drawn.
const LEVELS: f64 = 12.0;
/// Most numbers along an axis.
const MOST_TICKS: usize = 12;
/// From low to high. Light enough throughout that dark lines and labels stand out; after `ColorBrewer`'s
/// "Blues".
const SCALE: [(f64, &str); 5] =
    [(0.0, "#f7fbff"), (0.25, "#d0e1f2"), (0.5, "#a6cde4"), (0.75, "#6baed6"), (1.0, "#3f8fc5")];
const INK: &str = "#1b1f24";

/// One metric over two parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Surface {
    /// The curves' common name, with an ellipsis in place of the number.
    pub(super) name: String,
    metric: String,
    unit: String,
    x_label: String,
    y_label: String,
    seeds: u64,
    /// Ascending.
    x: Vec<f64>,
    /// The numbers in the curves' names, ascending.
    y: Vec<f64>,
    /// By y, then by x; `None` where nothing could be measured.
    z: Vec<Vec<Option<f64>>>,
}

/// Points of one curve: (x, measured), by x.
struct Curve<'a> {
    name: &'a str,
    points: Vec<(f64, Option<f64>)>,
}

/// A number in a curve's name, and the name before and behind it.
struct NumberIn<'a> {
    before: &'a str,
    value: f64,
    behind: &'a str,
}

impl Surface {
    /// The surfaces of a figure's first metric: of each set of at least [`LEAST_CURVES`] curves whose names
    /// differ in one number only, if all have the same x.
    pub(super) fn of(figure: &Figure) -> Vec<Self> {
        let Some(first) = figure.rows.first().filter(|row| row.x.is_some()) else { return Vec::new() };
        let Some(curves) = curves(figure, &first.metric, &first.unit) else { return Vec::new() };
        let mut groups: Vec<Vec<(NumberIn<'_>, &Curve<'_>)>> = Vec::new();
        for curve in &curves {
            for number in numbers_in(curve.name) {
                let same = |group: &&mut Vec<(NumberIn<'_>, &Curve<'_>)>| {
                    group
                        .first()
                        .is_some_and(|(one, _)| one.before == number.before && one.behind == number.behind)
                };
                match groups.iter_mut().find(same) {
                    Some(group) => group.push((number, curve)),
                    None => groups.push(vec![(number, curve)]),
                }
            }
        }
        let surfaces = groups.into_iter().filter_map(|mut group| {
            group.sort_by(|(one, _), (other, _)| one.value.total_cmp(&other.value));
            let (number, model) = group.first()?;
            let x: Vec<f64> = model.points.iter().map(|(x, _)| *x).collect();
            let like_model = |curve: &Curve<'_>| curve.points.iter().map(|(x, _)| x).eq(&x);
            let ascending = |values: &[f64]| values.windows(2).all(|pair| pair[0] < pair[1]);
            let y: Vec<f64> = group.iter().map(|(number, _)| number.value).collect();
            let is_grid = group.iter().all(|(_, curve)| like_model(curve)) && ascending(&x) && ascending(&y);
            let z: Vec<Vec<Option<f64>>> =
                group.iter().map(|(_, curve)| curve.points.iter().map(|(_, z)| *z).collect()).collect();
            let measured = z.iter().flatten().any(Option::is_some);
            (is_grid && measured && y.len() >= LEAST_CURVES && x.len() >= LEAST_POINTS).then(|| Self {
                name: format!("{}…{}", number.before, number.behind),
                metric: first.metric.clone(),
                unit: first.unit.clone(),
                x_label: figure.x_label.clone(),
                y_label: number.label(),
                seeds: figure.seeds,
                x,
                y,
                z,
            })
        });
        surfaces.take(MOST_SURFACES).collect()
    }

    /// The chart.
    pub(super) fn chart(&self) -> Value {
        let (x, y) = (Axis::new(&self.x), Axis::new(&self.y));
        let label = charts::label_of(&self.metric, &self.unit);
        let mut contours = json!({"coloring": "heatmap", "showlines": false});
        if let Some((start, end, size)) = self.levels() {
            contours = json!({"coloring": "heatmap", "showlabels": true, "start": start, "end": end, "size": size,
                "labelfont": {"size": 12, "color": INK}});
        }
        let surface = json!({"type": "contour", "x": x.positions, "y": y.positions, "z": self.z,
            "colorscale": SCALE, "contours": contours, "autocontour": false, "connectgaps": false, "hoverinfo": "skip",
            "line": {"color": INK, "width": 1, "smoothing": 0},
            "colorbar": {"title": {"text": label, "side": "right"}, "thickness": 18, "outlinewidth": 0}});
        let mut dots = (Vec::new(), Vec::new(), Vec::new());
        for (row, (y, y_at)) in self.z.iter().zip(self.y.iter().zip(&y.positions)) {
            for (z, (x, x_at)) in row.iter().zip(self.x.iter().zip(&x.positions)) {
                let Some(z) = z else { continue };
                dots.0.push(*x_at);
                dots.1.push(*y_at);
                dots.2.push(escape(&format!(
                    "{}, {}: {}",
                    named(&self.x_label, *x),
                    named(&self.y_label, *y),
                    format::with_unit(*z, &self.unit)
                )));
            }
        }
        let mut data = vec![
            surface,
            json!({"type": "scatter", "mode": "markers", "x": dots.0, "y": dots.1, "text": dots.2,
            "name": "measured", "hovertemplate": "%{text}<extra></extra>",
            "marker": {"size": 4, "color": INK}}),
        ];
        if let Some((row, column, _)) = self.best() {
            data.push(json!({"type": "scatter", "mode": "markers", "x": [x.positions[column]], "y": [y.positions[row]],
                "name": self.best_word(), "hoverinfo": "skip",
                "marker": {"symbol": "star", "size": 19, "color": "#D55E00", "line": {"color": "#ffffff", "width": 1.5}}}));
        }
        let mut out = charts::figure(data, x.drawn(&self.x_label), y.drawn(&self.y_label), 460);
        charts::set(&mut out, "/layout/hovermode", json!("closest"));
        charts::set(&mut out, "/layout/showlegend", json!(false));
        charts::set(&mut out, "/layout/margin/t", json!(40));
        out
    }

    /// The caption as HTML.
    pub(super) fn caption(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", escape(&self.unit)) };
        let logarithmic = [(&self.x, &self.x_label), (&self.y, &self.y_label)]
            .into_iter()
            .filter(|(values, _)| Axis::new(values).logarithmic)
            .map(|(_, label)| escape(label))
            .collect::<Vec<_>>();
        let logarithmic = if logarithmic.is_empty() {
            String::new()
        } else {
            format!(" Logarithmic: {}.", logarithmic.join(", "))
        };
        let best = self.best().map_or_else(String::new, |(row, column, best)| {
            format!(
                " Star: the {} measured value, {} at {}, {}.",
                self.best_word(),
                escape(&format::with_unit(best, &self.unit)),
                escape(&named(&self.x_label, self.x[column])),
                escape(&named(&self.y_label, self.y[row])),
            )
        });
        format!(
            "<b>{}</b> over two parameters, {}: mean of {} {}. Colour and the numbers on the lines: {}{unit}. Dots: where it was \
             measured; between them colours and lines are interpolated linearly.{logarithmic}{best}",
            escape(&self.metric),
            escape(&self.name),
            self.seeds,
            if self.seeds == 1 { "seed" } else { "seeds" },
            escape(&self.metric),
        )
    }

    /// A sentence for readers who cannot see the chart; plain text.
    pub(super) fn spoken(&self) -> String {
        format!("Heat map of {} over {} and {}, {}", self.metric, self.x_label, self.y_label, self.name)
    }

    /// Place (row, column) and value of the best point, the first of several equal ones.
    fn best(&self) -> Option<(usize, usize, f64)> {
        let less = smaller_is_better(&self.metric);
        let mut best: Option<(usize, usize, f64)> = None;
        for (row, values) in self.z.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let Some(value) = *value else { continue };
                if best.is_none_or(|(_, _, best)| if less { value < best } else { value > best }) {
                    best = Some((row, column, value));
                }
            }
        }
        best
    }

    fn best_word(&self) -> &'static str {
        if smaller_is_better(&self.metric) { "least" } else { "greatest" }
    }

    /// First and last contour line and their distance: 1, 2 or 5 times a power of ten. `None` if the surface
    /// is flat.
    fn levels(&self) -> Option<(f64, f64, f64)> {
        let values = || self.z.iter().flatten().flatten().copied();
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        let step = step_of((most - least) / LEVELS)?;
        let (start, end) = ((least / step).floor() * step + step, (most / step).floor() * step);
        let distinct = start + step > start && start.is_finite() && end.is_finite();
        distinct.then_some((start, end, step))
    }
}

/// The least of 1, 2, 5 times a power of ten that is not below `raw`; `None` unless `raw` is above zero.
fn step_of(raw: f64) -> Option<f64> {
    if !raw.is_finite() || raw <= 0.0 {
        return None;
    }
    let decade = 10_f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|part| part * decade).find(|step| *step >= raw * 0.999_999)?;
    (step.is_finite() && step > 0.0).then_some(step)
}

/// Whether less of a metric is better. All of the papers' other metrics are throughputs, efficiencies and
/// gains.
fn smaller_is_better(metric: &str) -> bool {
    ["timeout", "delay", "round-trip", "retransmi", "silent", "loss", "lost", "stall"]
        .iter()
        .any(|word| metric.contains(word))
}

/// The curves of a metric, in the rows' order; `None` if there are too many.
fn curves<'a>(figure: &'a Figure, metric: &str, unit: &str) -> Option<Vec<Curve<'a>>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for row in figure.rows.iter().filter(|row| row.metric == metric && row.unit == unit) {
        let Some(x) = row.x.filter(|x| x.is_finite()) else { continue };
        let point = (x, row.measured.is_finite().then_some(row.measured));
        match curves.iter_mut().find(|curve| curve.name == row.case) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name: &row.case, points: vec![point] }),
        }
        if curves.len() > MOST_CURVES || curves.last().is_some_and(|curve| curve.points.len() > MOST_POINTS) {
            return None;
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    }
    Some(curves)
}

/// The words of a curve's name that are numbers.
fn numbers_in(name: &str) -> impl Iterator<Item = NumberIn<'_>> {
    let is_edge = |c: char| c.is_whitespace() || "[](),".contains(c);
    let mut end = 0;
    name.split_inclusive(is_edge).filter_map(move |part| {
        let start = end;
        end += part.len();
        let word = part.trim_end_matches(is_edge);
        // Infinities and not-a-number are words too, but no places on an axis.
        let value = word.parse().ok().filter(|value: &f64| value.is_finite())?;
        Some(NumberIn { before: &name[..start], value, behind: &name[start + word.len()..] })
    })
}

impl NumberIn<'_> {
    /// The axis's label: the words around the number up to the next bracket or comma; those behind it are
    /// its unit.
    fn label(&self) -> String {
        let name = self.before.rsplit(['[', '(', ',']).next().unwrap_or("").trim();
        let unit = self.behind.split([']', ')', ',']).next().unwrap_or("").trim();
        match (name, unit) {
            ("", "") => "number in the curve's name".to_owned(),
            ("", unit) => unit.to_owned(),
            (name, "") => name.to_owned(),
            (name, unit) => format!("{name} ({unit})"),
        }
    }
}

/// "sensing time = 0.2 s" from the label "sensing time (s)".
fn named(label: &str, value: f64) -> String {
    match label.rsplit_once(" (").and_then(|(name, unit)| Some((name, unit.strip_suffix(')')?))) {
        Some((name, unit)) => format!("{name} = {}\u{a0}{unit}", plain(value)),
        None => format!("{label} = {}", plain(value)),
    }
}

/// A parameter as it was set, not rounded.
fn plain(value: f64) -> String {
    if value == 0.0 || (1e-4..1e7).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

/// Where an axis's values stand.
struct Axis<'a> {
    values: &'a [f64],
    positions: Vec<f64>,
    logarithmic: bool,
}

impl<'a> Axis<'a> {
    fn new(values: &'a [f64]) -> Self {
        let logarithmic = match values {
            [first, .., last] => *first > 0.0 && last / first >= 10.0,
            _ => false,
        };
        let positions = values.iter().map(|value| if logarithmic { value.log10() } else { *value }).collect();
        Self { values, positions, logarithmic }
    }

    fn drawn(&self, label: &str) -> Value {
        let mut out = charts::axis(&escape(label));
        let each = self.values.len().div_ceil(MOST_TICKS).max(1);
        let shown: Vec<f64> = self.positions.iter().step_by(each).copied().collect();
        let texts: Vec<String> = self.values.iter().step_by(each).map(|value| plain(*value)).collect();
        out["tickvals"] = json!(shown);
        out["ticktext"] = json!(texts);
        if let [first, .., last] = self.positions[..] {
            // Room for the marks at the edges.
            let room = (last - first) * 0.03;
            out["range"] = json!([first - room, last + room]);
        }
        out["showgrid"] = json!(false);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::FigureRow;
    use crate::sample;

    #[test]
    fn curves_that_differ_in_one_number_make_a_surface() {
        let figure = sample::surface();
        let [surface] = &Surface::of(&figure)[..] else { panic!("one surface") };
        assert_eq!(surface.name, "newreno [T_p … s]");
        assert_eq!((surface.x_label.as_str(), surface.y_label.as_str()), ("sensing time (s)", "T_p (s)"));
        // The sample's rows come in no order.
        assert_eq!(surface.x, [0.025, 0.05, 0.1, 0.2, 0.5, 1.0]);
        assert_eq!(surface.y, [0.2, 0.6, 1.0, 2.0, 3.0]);
        for (row, y) in surface.z.iter().zip(&surface.y) {
            for (z, x) in row.iter().zip(&surface.x) {
                let case = format!("newreno [T_p {y} s]");
                let of = |row: &&FigureRow| row.case == case && row.x == Some(*x) && row.unit == "kbit/s";
                assert_eq!(*z, figure.rows.iter().find(of).map(|row| row.measured), "{case} at {x}");
            }
        }
        let (row, column, best) = surface.best().unwrap();
        assert_eq!((surface.x[column], surface.y[row]), (0.2, 0.6), "{best}");
    }

    #[test]
    fn the_star_and_the_caption_name_the_best_point_with_units() {
        let surface = &Surface::of(&sample::surface())[0];
        let caption = surface.caption();
        assert!(caption.contains("Star: the greatest measured value"), "{caption}");
        assert!(caption.contains("at sensing time = 0.2\u{a0}s, T_p = 0.6\u{a0}s"), "{caption}");
        let chart = surface.chart();
        assert_eq!(chart["data"][0]["type"], "contour");
        assert_eq!(chart["data"][0]["colorbar"]["title"]["text"], "mesh throughput (kbit/s)");
        assert_eq!(chart["data"][1]["x"].as_array().unwrap().len(), 30, "a dot for each point");
        let star = &chart["data"][2];
        assert_eq!(star["marker"]["symbol"], "star");
        assert!((star["x"][0].as_f64().unwrap() - 0.2_f64.log10()).abs() < 1e-12, "{star}");
        assert_eq!(chart["layout"]["xaxis"]["ticktext"][0], "0.025");
    }

    #[test]
    fn less_is_better_for_timeouts() {
        let mut figure = sample::surface();
        figure.rows.iter_mut().for_each(|row| row.metric = "mesh timeouts".into());
        let surface = &Surface::of(&figure)[0];
        let (_, _, best) = surface.best().unwrap();
        assert!(surface.z.iter().flatten().flatten().all(|z| *z >= best));
        assert!(surface.caption().contains("the least measured value"));
    }

    #[test]
    fn other_figures_make_none() {
        for figure in &sample::reproduce().figures {
            assert_eq!(Surface::of(figure), [], "{}", figure.id);
        }
        let whole = sample::surface();
        let without = |what: &dyn Fn(&FigureRow) -> bool| {
            let rows = whole.rows.iter().filter(|row| !what(row)).cloned().collect();
            Surface::of(&Figure { rows, ..whole.clone() }).len()
        };
        assert_eq!(without(&|_| false), 1);
        assert_eq!(without(&|row| row.case.contains("3 s")), 1, "four curves are enough");
        assert_eq!(without(&|row| row.case.contains("3 s") || row.case.contains("2 s")), 0, "three are not");
        assert_eq!(without(&|row| row.case.contains("3 s") && row.x == Some(0.2)), 0, "another x");
        let mut twice = whole.clone();
        twice.rows.push(whole.rows[0].clone());
        assert_eq!(Surface::of(&twice).len(), 0, "two values at one point");
        let mut trace = whole.clone();
        trace.rows.insert(0, FigureRow { x: None, ..whole.rows[0].clone() });
        assert_eq!(Surface::of(&trace).len(), 0, "the first metric has no x");
    }

    #[test]
    fn two_kinds_of_curves_make_two_surfaces() {
        let mut figure = sample::surface();
        let other =
            figure.rows.iter().cloned().map(|row| FigureRow { case: row.case.replace("new", ""), ..row });
        let other: Vec<_> = other.collect();
        figure.rows.extend(other);
        let names: Vec<_> = Surface::of(&figure).into_iter().map(|surface| surface.name).collect();
        assert_eq!(names, ["newreno [T_p … s]", "reno [T_p … s]"]);
    }

    #[test]
    fn a_number_is_a_word_of_its_own() {
        let values = |name| numbers_in(name).map(|number| number.value).collect::<Vec<_>>();
        assert_eq!(values("newreno [T_p 0.6 s]"), [0.6]);
        assert_eq!(values("none [linux-2009, 3 ms]"), [3.0]);
        assert_eq!(values("x2 y-3 -4 (5) nan inf 1e999"), [-4.0, 5.0]);
        assert_eq!(values(""), [0.0; 0]);
    }

    #[test]
    fn levels_are_round_and_within_the_surface() {
        let mut surface = Surface::of(&sample::surface()).remove(0);
        let (start, end, size) = surface.levels().unwrap();
        let values: Vec<f64> = surface.z.iter().flatten().flatten().copied().collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        assert!(least < start && end <= most && ((end - start) / size) < LEVELS, "{start} {end} {size}");
        surface.z.iter_mut().flatten().for_each(|z| *z = Some(7.0));
        assert_eq!(surface.levels(), None, "flat");
        assert_eq!(surface.chart()["data"][0]["contours"]["showlines"], false);
    }

    #[test]
    fn what_was_not_measured_is_a_hole() {
        let mut figure = sample::surface();
        figure.rows[2].measured = f64::NAN;
        let surface = &Surface::of(&figure)[0];
        assert_eq!(surface.z.iter().flatten().filter(|z| z.is_none()).count(), 1);
        assert_eq!(surface.chart()["data"][1]["x"].as_array().unwrap().len(), 29);
        figure.rows.iter_mut().for_each(|row| row.measured = f64::INFINITY);
        assert_eq!(Surface::of(&figure).len(), 0);
    }

    proptest! {
        #[test]
        fn any_name_and_number_is_survived(
            rows in proptest::collection::vec(("[ -~é\u{2028}]{0,12}", any::<f64>(), any::<f64>()), 0..40),
            before in "\\PC{0,4}",
        ) {
            let rows = rows.into_iter().enumerate().map(|(index, (name, x, measured))| FigureRow {
                case: if index % 2 == 0 { format!("{before} {} [{name}", index / 8) } else { name },
                x: Some(x), measured, ..FigureRow::default()
            });
            let figure = Figure { rows: rows.collect(), ..Figure::default() };
            for surface in Surface::of(&figure) {
                prop_assert!(surface.y.len() >= LEAST_CURVES);
                surface.chart();
                prop_assert!(!surface.caption().contains("<s"));
            }
        }

        #[test]
        fn any_range_has_few_levels(values in proptest::collection::vec(any::<f64>(), 8)) {
            let mut figure = Figure::default();
            for (index, measured) in values.into_iter().enumerate() {
                figure.rows.push(FigureRow {
                    case: format!("curve {}", index / 2), x: Some((index % 2) as f64), measured, ..FigureRow::default()
                });
            }
            for surface in Surface::of(&figure) {
                surface.chart();
                if let Some((start, end, size)) = surface.levels() {
                    prop_assert!(size > 0.0 && (end - start) / size < 2.0 * LEVELS, "{} {} {}", start, end, size);
                }
            }
        }
    }
}
