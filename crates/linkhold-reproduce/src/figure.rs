//! A paper and its figures: scenarios, what varies in them, and how rows and claims come from the runs.

use linkhold_results::stats::Estimate;
use linkhold_results::{Claim, Figure, FigureRow, RunRecord};
use linkhold_scenario::Case;

use crate::finding::Finding;
use crate::grid::{Grid, Point, Variant};
use crate::options::{Options, Progress, ReproduceError};
use crate::paper::{Paper, PaperFigure};

/// One paper.
pub(crate) struct PaperSpec {
    /// Its short name, which is also its folder's.
    pub name: &'static str,
    /// Its numbers, the text of `paper.toml`.
    pub numbers: &'static str,
    /// Its figures, in its order.
    pub figures: &'static [FigureSpec],
    /// Repetitions of every point unless others are asked for: so many that its claims can be decided, in
    /// some minutes.
    pub seeds: u32,
    /// How they run against a kernel's TCP, if they can.
    pub kernel: Option<&'static KernelSpec>,
}

/// One figure: its scenario, what varies in it, and how its rows and claims come from the runs.
pub(crate) struct FigureSpec {
    pub id: &'static str,
    pub scenario: &'static str,
    pub x_label: &'static str,
    pub variants: fn(quick: bool) -> Vec<Variant>,
    pub rows: fn(&Grid) -> Vec<FigureRow>,
    pub claim: fn(&Grid, claim: &str) -> Option<Finding>,
}

/// How a paper's figures run against a kernel's TCP.
pub(crate) struct KernelSpec {
    /// The stack, of the variants', on which claims are judged.
    pub stack: &'static str,
    /// What varies in a figure there.
    pub variants: fn(&FigureSpec, quick: bool) -> Vec<Variant>,
    /// Why a kernel's TCP cannot be what a case asks for; `None` if it can.
    pub refuses: fn(&Case) -> Option<String>,
    /// Figures that do not run there, each with the reason.
    pub left_out: &'static [(&'static str, &'static str)],
    /// What the mechanism is told, and what differs from paper and simulator, for the report.
    pub told: &'static [&'static str],
    /// Parts of metrics' names, and what they are there.
    pub renamed: &'static [(&'static str, &'static str)],
}

/// Runs `figure` and puts the paper's claims about it to the test.
pub(crate) fn measure(
    of: &PaperSpec,
    figure: &FigureSpec,
    paper: &Paper,
    options: Options,
    progress: &dyn Progress,
) -> Result<Figure, ReproduceError> {
    let printed = paper.figure(figure.id)?;
    let id = format!("{}/{}", of.name, figure.id);
    let seeds = options.seeds(of.seeds);
    let grid = Grid::run(&id, figure.scenario, (figure.variants)(options.quick), seeds.clone(), progress)?;
    Ok(Figure {
        title: options.title(&printed.full_title(), of.seeds),
        id,
        seeds: seeds.end - seeds.start,
        x_label: figure.x_label.to_owned(),
        rows: (figure.rows)(&grid),
        claims: judged(figure, printed, &grid),
    })
}

/// The paper's claims about `figure`, each with what `grid` says of it.
pub(crate) fn judged(figure: &FigureSpec, printed: &PaperFigure, grid: &Grid) -> Vec<Claim> {
    let claims = printed.claim.iter();
    claims
        .map(|claim| {
            let finding = (figure.claim)(grid, &claim.id);
            Claim {
                text: format!("{} ({})", claim.text, claim.source),
                paper: claim.paper,
                measured: finding.as_ref().map(|finding| finding.measured),
                ci95: finding.as_ref().and_then(|finding| finding.ci95),
                unit: claim.unit.clone(),
                // What was not measured is not denied.
                holds: finding.as_ref().and_then(|finding| finding.holds(claim.paper)),
                criterion: match &finding {
                    Some(finding) => format!("{}; in {}", finding.criterion(claim.paper), claim.unit),
                    None => format!("not measured; in {}", claim.unit),
                },
                simulated: None,
            }
        })
        .collect()
}

/// A row with the mean of `value` over the seeds and its interval.
pub(crate) fn row(
    variant: &Variant,
    point: &Point,
    metric: &str,
    unit: &str,
    value: impl Fn(&RunRecord) -> f64,
) -> FigureRow {
    row_of(variant, point, metric, unit, &point.values(value))
}

/// Retransmission timeouts of all connections; not-a-number where they were not measured.
pub(crate) fn timeouts(run: &RunRecord) -> f64 {
    linkhold_results::stats::Metric::RtoEvents.of(&run.totals)
}

/// A row with the mean of what was measured by seed, and its interval.
pub(crate) fn row_of(
    variant: &Variant,
    point: &Point,
    metric: &str,
    unit: &str,
    values: &[f64],
) -> FigureRow {
    let estimate = Estimate::of(values);
    FigureRow {
        case: format!("{} [{}]", point.case, variant.stack),
        metric: format!("{} {metric}", variant.direction),
        unit: unit.to_owned(),
        x: variant.x,
        paper: None,
        // Adding zero turns a negative zero into a positive one.
        measured: estimate.mean + 0.0,
        ci95: estimate.ci95,
    }
}

/// A row with what the runs of all seeds say together, as a claim's verdict would.
pub(crate) fn row_of_finding(
    variant: &Variant,
    case: &str,
    metric: &str,
    unit: &str,
    finding: &Finding,
) -> FigureRow {
    FigureRow {
        case: format!("{case} [{}]", variant.stack),
        metric: format!("{} {metric}", variant.direction),
        unit: unit.to_owned(),
        x: variant.x,
        paper: None,
        measured: finding.measured,
        ci95: finding.ci95,
    }
}

/// A metric of a run: name, unit, value; not a number where a run has none.
pub(crate) type Metric = (&'static str, &'static str, fn(&RunRecord) -> f64);

/// A row of each metric that all of the point's runs have.
pub(crate) fn metric_rows(variant: &Variant, point: &Point, metrics: &[Metric]) -> Vec<FigureRow> {
    let rows = metrics.iter().map(|&(name, unit, metric)| {
        let values = point.values(metric);
        values.iter().all(|value| value.is_finite()).then(|| row_of(variant, point, name, unit, &values))
    });
    rows.flatten().collect()
}

pub(crate) fn rows_of(grid: &Grid, make: impl Fn(&Variant, &Point) -> Vec<FigureRow>) -> Vec<FigureRow> {
    grid.points
        .iter()
        .filter_map(|point| grid.variants.get(point.variant).map(|variant| make(variant, point)))
        .flatten()
        .collect()
}

/// What every paper's pages must have.
#[cfg(test)]
pub(crate) fn check_pages(paper: &PaperSpec) {
    let name = paper.name;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reproductions").join(name);
    let numbers = Paper::parse(paper.numbers).expect("it is right");
    let summary = std::fs::read_to_string(root.join("README.md")).expect("it is there");
    for FigureSpec { id, .. } in paper.figures {
        assert!(numbers.figure(id).is_ok(), "{id}");
        let readme = std::fs::read_to_string(root.join(id).join("README.md")).expect("it is there");
        assert!(readme.contains(&format!("linkhold reproduce {name}/{id}")), "{id}: how to run it");
        assert!(summary.contains(&format!("({id}/README.md)")), "{id}: linked from the summary");
    }
}
