//! The native half of the Python package `linkhold`: it takes scenarios and returns results. The rest is
//! Python.
//!
//! This crate computes nothing that the command does not compute too: records, comparison, tables and Parquet
//! come from `linkhold-results`, runs from `linkhold-sim`. Python gets records as the JSON text of the
//! contract, and long tables as Parquet files.

mod error;
mod results;
mod simulate;
mod source;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::error::{RunError, ScenarioError};
    #[pymodule_export]
    use crate::results::Run;
    #[pymodule_export]
    use crate::simulate::{check_simulated, run_points};
    #[pymodule_export]
    use crate::source::{check, schema};

    /// Version and commit, as in reports.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let program = crate::results::program();
        module.add("__version__", program.version)?;
        module.add("__commit__", program.commit)
    }
}
