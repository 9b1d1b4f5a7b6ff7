//! A paper's numbers, read from `reproductions/<paper>/paper.toml`.

use serde::Deserialize;

/// A paper's figures and claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    #[allow(dead_code, reason = "names the source for whoever reads the file; not used by code")]
    paper: Source,
    figure: Vec<PaperFigure>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "see above")]
struct Source {
    short: String,
    title: String,
    authors: String,
}

/// One figure as the paper has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperFigure {
    pub id: String,
    pub title: String,
    pub source: String,
    #[serde(default)]
    pub claim: Vec<PaperClaim>,
}

/// One claim as the paper makes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperClaim {
    /// The name by which the figure's function in `claims` knows the claim.
    pub id: String,
    pub text: String,
    pub source: String,
    /// The paper's number, where its text gives one.
    pub paper: Option<f64>,
    pub unit: String,
}

/// The compiled-in numbers are not what this program expects.
#[derive(Debug, thiserror::Error)]
#[error("paper.toml: {0}")]
pub struct PaperError(String);

impl PaperFigure {
    /// What the figure shows, and where it stands in the paper.
    pub(crate) fn full_title(&self) -> String {
        format!("{} ({})", self.title, self.source)
    }
}

impl Paper {
    pub(crate) fn parse(text: &str) -> Result<Self, PaperError> {
        toml::from_str(text).map_err(|error| PaperError(error.to_string()))
    }

    pub(crate) fn figure(&self, id: &str) -> Result<&PaperFigure, PaperError> {
        self.figure
            .iter()
            .find(|figure| figure.id == id)
            .ok_or_else(|| PaperError(format!("no figure `{id}`")))
    }
}
