//! What a run leaves behind: the JSON contract, statistics, the terminal table, Parquet files and the HTML report.
//!
//! - [`record`]: the objects that `--json` prints, key for key.
//! - [`series`]: what changes over time; goes to Parquet and the charts, never into the JSON.
//! - [`delay`]: one-way delays in buckets of fixed relative width, so memory does not grow with the run.
//! - [`stats`]: means, 95 % intervals, and cases compared in pairs by seed.
//! - [`table`], [`html`], [`parquet`]: the same results for a terminal, a browser and a notebook.
#![forbid(unsafe_code)]

pub mod delay;
mod finite;
pub mod format;
pub mod html;
pub mod parquet;
pub mod record;
#[doc(hidden)]
pub mod sample;
pub mod series;
pub mod stats;
pub mod table;

pub use delay::DelayHistogram;
pub use parquet::ParquetFiles;
pub use record::{
    Claim, CompareRow, Figure, FigureRow, FlowDirection, FlowRecord, LinkRecord, MechanismRecord,
    ReproduceReport, RunRecord, RunReport, RunTotals, ScenarioInfo, Stack,
};
pub use series::{FlowSeries, RouterSeries, RunSeries, SilenceRecord};
pub use stats::{Estimate, Metric, compare};
