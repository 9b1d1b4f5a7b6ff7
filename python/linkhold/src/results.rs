//! The results of a scenario's runs, in the forms that Python reads.

use std::borrow::Cow;
use std::path::PathBuf;

use linkhold_results::html::{case_table, render_run};
use linkhold_results::stats::estimate;
use linkhold_results::table::run_table;
use linkhold_results::{DelayHistogram, Metric, ParquetFiles, Program, RunReport, RunSeries};
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// This program, as reports name it.
pub fn program() -> Program {
    Program::new(env!("CARGO_PKG_VERSION"), env!("LINKHOLD_COMMIT"))
}

type Estimated = (usize, f64, f64, Option<(f64, f64)>);

/// The report and the series of one scenario.
#[pyclass(frozen, module = "linkhold._native")]
pub struct Run {
    report: RunReport,
    /// Empty if the caller did not want the series.
    series: Vec<RunSeries>,
    /// Text of the scenario as it was run.
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
            let mut files = ParquetFiles::create(&folder, &self.report.program)?;
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

    /// The command's table, at most `width` columns wide; as wide as it has to be without.
    #[pyo3(signature = (width=None))]
    fn table(&self, width: Option<u16>) -> String {
        run_table(&self.report, width)
    }

    /// The table of cases of the command's report, as HTML.
    fn html_table(&self) -> String {
        case_table(&self.report)
    }

    /// The scenario as it was run, overrides included.
    fn scenario_toml(&self) -> &str {
        &self.toml
    }

    /// What `pickle` calls to make this object again: report and scenario as text, series as bytes.
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (String, Cow<'static, [u8]>, String))> {
        let run = slf.get();
        let report = run.report_json(slf.py())?;
        let series = postcard::to_stdvec(&run.series)
            .map_err(|error| PyRuntimeError::new_err(format!("cannot write the series: {error}")))?;
        let restore = slf.get_type().getattr("_restore")?.unbind();
        Ok((restore, (report, series.into(), run.toml.clone())))
    }

    /// The counterpart of `__reduce__`.
    #[staticmethod]
    fn _restore(report: &str, series: &[u8], toml: String) -> PyResult<Self> {
        let broken = |what: String| PyValueError::new_err(format!("this is no pickled result: {what}"));
        let report = serde_json::from_str(report).map_err(|error| broken(error.to_string()))?;
        let series = postcard::from_bytes(series).map_err(|error| broken(error.to_string()))?;
        Ok(Self { report, series, toml })
    }

    /// The command's HTML report.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| render_run(&self.report, &self.series, &self.toml))
    }
}
