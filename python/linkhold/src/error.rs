//! The package's exceptions.

use linkhold_scenario::{Location, Problem, ScenarioError as Problems};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

create_exception!(
    linkhold,
    ScenarioError,
    PyValueError,
    "A scenario is wrong. The text has a line for every problem: file:line:column: key: what is wrong; what would be \
     right.\n\n`problems` has the same as a list of dicts with the keys file, line, column, set, key, what and right: \
     `set` is the override at fault, otherwise None; line and column count from 1 and are None if the whole file or an \
     override is meant."
);
create_exception!(
    linkhold,
    RunError,
    PyRuntimeError,
    "A run could not start. The text names its case and seed."
);

/// The exception that names all of `problems`.
pub fn scenario_error(py: Python<'_>, problems: &Problems) -> PyErr {
    error_of(py, problems.to_string(), problems.problems())
}

/// The exception for a scenario that is valid and asks for what the simulator does not have.
pub fn unsupported_error(py: Python<'_>, problem: &Problem) -> PyErr {
    error_of(py, problem.to_string(), std::slice::from_ref(problem))
}

fn error_of(py: Python<'_>, text: String, problems: &[Problem]) -> PyErr {
    let error = ScenarioError::new_err(text);
    let told = problems.iter().map(|problem| describe(py, problem)).collect::<PyResult<Vec<_>>>();
    match told.and_then(|told| error.value(py).setattr("problems", PyList::new(py, told)?)) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn describe<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let (file, at, set) = match &problem.location {
        Location::File { file } => (Some(file), None, None),
        Location::Line { file, line, column } => (Some(file), Some((*line, *column)), None),
        Location::Override { text, .. } => (None, None, Some(text)),
    };
    let dict = PyDict::new(py);
    dict.set_item("file", file)?;
    dict.set_item("line", at.map(|(line, _)| line))?;
    dict.set_item("column", at.map(|(_, column)| column))?;
    dict.set_item("set", set)?;
    dict.set_item("key", &problem.key)?;
    dict.set_item("what", &problem.what)?;
    dict.set_item("right", &problem.right)?;
    Ok(dict)
}
