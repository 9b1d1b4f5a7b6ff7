//! A scenario as Python gives it: a path, or a text.

use std::path::Path;

use linkhold_results::ScenarioInfo;
use linkhold_scenario::{Scenario, ScenarioError, json_schema};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::scenario_error;

/// Stands in messages for the file name of a scenario that was given as a text.
const NAMELESS: &str = "<scenario text>";

/// Where a scenario comes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path as the user gave it; `None` for a text without a file.
    file: Option<String>,
    /// The text, if it is not to be read from the file.
    text: Option<String>,
}

impl Source {
    pub const fn new(file: Option<String>, text: Option<String>) -> Self {
        Self { file, text }
    }

    /// Reads and checks the scenario, with the overrides `set`.
    pub fn load(&self, set: &[String]) -> Result<Scenario, ScenarioError> {
        let file = self.file.as_deref().unwrap_or(NAMELESS);
        match &self.text {
            Some(text) => Scenario::from_toml(text, file, set),
            None => Scenario::load(Path::new(file), set),
        }
    }

    /// The scenario in short, as in the command's report.
    pub fn info(&self, scenario: &Scenario, set: &[String]) -> ScenarioInfo {
        linkhold_sim::scenario_info(scenario, self.file.as_deref().unwrap_or_default(), set)
    }
}

type Checked = (String, String, Vec<String>, Vec<(String, String)>, String, Vec<String>);

/// Name, description, cases, facts, summary and hints of a scenario.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    file: Option<String>,
    text: Option<String>,
    set: Vec<String>,
) -> PyResult<Checked> {
    let scenario = Source::new(file, text).load(&set).map_err(|problems| scenario_error(py, &problems))?;
    let cases = scenario.cases().into_iter().map(|case| case.name).collect();
    Ok((
        scenario.name().to_owned(),
        scenario.description().to_owned(),
        cases,
        scenario.facts(),
        scenario.summary(),
        scenario.hints(),
    ))
}

/// The JSON Schema of the scenario file, as JSON text.
#[pyfunction]
pub fn schema() -> PyResult<String> {
    serde_json::to_string(&json_schema())
        .map_err(|error| PyRuntimeError::new_err(format!("cannot write the schema as JSON: {error}")))
}
