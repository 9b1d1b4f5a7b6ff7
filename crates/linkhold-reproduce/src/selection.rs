//! Every figure of every paper by its name, and which of them are asked for.

use linkhold_core::text::did_you_mean;

use crate::figure::{FigureSpec, PaperSpec};
use crate::options::ReproduceError;
use crate::{activation, cr_aware, crahn, dsasync, lookahead};

/// Every paper.
const PAPERS: [&PaperSpec; 5] =
    [&dsasync::PAPER, &cr_aware::PAPER, &crahn::PAPER, &activation::PAPER, &lookahead::PAPER];

/// The name of a figure among those of all papers: `dsasync/fig4`.
pub(crate) fn id(paper: &PaperSpec, figure: &FigureSpec) -> String {
    format!("{}/{}", paper.name, figure.id)
}

/// Every figure with its paper, in the papers' order.
pub(crate) fn every() -> impl Iterator<Item = (&'static PaperSpec, &'static FigureSpec)> {
    PAPERS.into_iter().flat_map(|paper| paper.figures.iter().map(move |figure| (paper, figure)))
}

/// Ids of every figure that can be reproduced, in the papers' order.
#[must_use]
pub fn figure_ids() -> Vec<String> {
    every().map(|(paper, figure)| id(paper, figure)).collect()
}

/// What to measure: a paper (`dsasync`), one figure (`dsasync/fig4`), or everything; of that, some figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// The paper or the figure; `None`: everything.
    pub selector: Option<&'a str>,
    /// Names of figures (`fig4`, or `dsasync/fig4`); empty: all of them.
    pub figures: &'a [String],
}

/// The paper, or the figure of `known`, that `wanted` may be a slip of. Figures are named alone or after
/// their paper, and are looked for as `wanted` is written. Another number is no slip, but another figure.
fn near(wanted: &str, known: &[String]) -> Option<String> {
    let near = match wanted.split_once('/') {
        Some((paper, figure)) => {
            let paper = did_you_mean(paper, PAPERS.iter().map(|paper| paper.name))?;
            let of_paper = known.iter().filter_map(|id| id.strip_prefix(paper)?.strip_prefix('/'));
            format!("{paper}/{}", did_you_mean(figure, of_paper)?)
        }
        None => {
            let figures = known.iter().filter_map(|id| Some(id.split_once('/')?.1));
            let papers = PAPERS.iter().map(|paper| paper.name);
            did_you_mean(wanted, papers.chain(figures))?.to_owned()
        }
    };
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    (digits(&near) == digits(wanted)).then_some(near)
}

/// The figures that `selection` names, in the papers' order.
pub(crate) fn chosen(
    selection: &Selection<'_>,
) -> Result<Vec<(&'static PaperSpec, &'static FigureSpec)>, ReproduceError> {
    let of_selector = |paper: &PaperSpec, figure: &FigureSpec| match selection.selector {
        None => true,
        Some(selector) => selector == paper.name || selector == id(paper, figure),
    };
    let is_called =
        |name: &str, paper: &PaperSpec, figure: &FigureSpec| name == figure.id || name == id(paper, figure);
    let all: Vec<_> = every().filter(|(paper, figure)| of_selector(paper, figure)).collect();
    let unknown = |wanted: &str, known: Vec<String>| {
        let near = near(wanted, &known);
        Err(ReproduceError::Unknown { wanted: wanted.to_owned(), near, known: known.join(", ") })
    };
    if all.is_empty() {
        let wanted = selection.selector.unwrap_or_default();
        let paper = wanted.split_once('/').map_or("", |(paper, _)| paper);
        let (of_paper, every): (Vec<_>, Vec<_>) =
            figure_ids().into_iter().partition(|id| id.split_once('/').is_some_and(|(of, _)| of == paper));
        return unknown(wanted, if of_paper.is_empty() { every } else { of_paper });
    }
    if let Some(name) = selection
        .figures
        .iter()
        .find(|name| !all.iter().any(|(paper, figure)| is_called(name, paper, figure)))
    {
        return unknown(name, all.iter().map(|(paper, figure)| id(paper, figure)).collect());
    }
    let is_wanted = |paper: &PaperSpec, figure: &FigureSpec| {
        selection.figures.is_empty() || selection.figures.iter().any(|name| is_called(name, paper, figure))
    };
    Ok(all.into_iter().filter(|(paper, figure)| is_wanted(paper, figure)).collect())
}
