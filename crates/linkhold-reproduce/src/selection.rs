//! Every figure of every paper by its name, and which of them are asked for.

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
        Err(ReproduceError::Unknown { wanted: wanted.to_owned(), known: known.join(", ") })
    };
    if all.is_empty() {
        return unknown(selection.selector.unwrap_or_default(), figure_ids());
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
