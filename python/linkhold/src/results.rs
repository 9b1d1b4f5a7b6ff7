//! The results of a scenario's runs, in the forms that Python reads.

use std::path::PathBuf;

use linkhold_results::html::render_run;
use linkhold_results::stats::estimate;
use linkhold_results::table::run_table;
use linkhold_results::{DelayHistogram, Metric, ParquetFiles, RunReport, RunSeries};
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;

type Estimated = (usize, f64, f64, Option<(f64, f64)>);

/// The report and the series of one scenario.
#[pyclass(frozen, module = "linkhold._native")]
pub struct Run {
    report: RunReport,
    /// Empty if the caller did not want the series.
    series: Vec<RunSeries>,
    /// Text of the scenario file.
    toml: String,
}

impl Run {
    pub const fn new(report: RunReport, series: Vec<RunSeries>, toml: String) -> Self {
        Self { report, series, toml }
    }

    fn knows(&self, case: &str) -> PyResult<()> {
        let cases = self.report.cases();
        if cases.contains(&case) {
            return Ok(());
        }
        Err(PyKeyError::new_err(format!("there is no case {case:?}; there are {}", cases.join(", "))))
    }
}

#[pymethods]
impl Run {
    /// The object of the contract `linkhold.run/1`.
    fn report_json(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&self.report))
            .map_err(|error| PyRuntimeError::new_err(format!("cannot write the results as JSON: {error}")))
    }

    /// Writes `flows.parquet`, `series.parquet` and `silences.parquet` into a folder.
    fn write_parquet(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let mut files = ParquetFiles::create(&folder)?;
            for (run, series) in self.report.runs.iter().zip(&self.series) {
                files.add(run, series)?;
            }
            files.finish()
        })
        .map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Distribution of the one-way delays of a case over all its seeds: delays in s, and for each the share
    /// of segments that took no longer.
    fn delay_cdf(&self, case: &str, outside_silence: bool) -> PyResult<(Vec<f64>, Vec<f64>)> {
        self.knows(case)?;
        let mut delays = DelayHistogram::new();
        for run in self.series.iter().filter(|run| run.case == case) {
            delays.merge(if outside_silence { &run.delays_outside_silence } else { &run.delays });
        }
        Ok(delays.cdf().into_iter().unzip())
    }

    /// Number of seeds, mean, standard deviation and 95 % interval of a case's metric.
    fn estimate(&self, case: &str, metric: &str) -> PyResult<Estimated> {
        self.knows(case)?;
        let metric = Metric::ALL.into_iter().find(|known| known.name() == metric).ok_or_else(|| {
            let known: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
            PyKeyError::new_err(format!("there is no metric {metric:?}; there are {}", known.join(", ")))
        })?;
        let estimate = estimate(&self.report.runs, case, metric);
        Ok((estimate.n, estimate.mean, estimate.std, estimate.ci95.map(|[low, high]| (low, high))))
    }

    /// The command's table.
    fn table(&self) -> String {
        run_table(&self.report)
    }

    /// The command's HTML report.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| render_run(&self.report, &self.series, &self.toml))
    }
}
