//! What a run leaves behind: the JSON contract, statistics, the terminal table, Parquet files and the HTML report.
//!
//! - [`record`]: the objects that `--json` prints, key for key.
//! - [`series`]: what changes over time; goes to Parquet and the charts, never into the JSON.
//! - [`delay`]: one-way delays in buckets of fixed relative width, so memory does not grow with the run.
#![forbid(unsafe_code)]

pub mod delay;
mod finite;
pub mod record;
pub mod series;

pub use delay::DelayHistogram;
pub use record::{
    Claim, CompareRow, Figure, FigureRow, FlowDirection, FlowRecord, LinkRecord, MechanismRecord,
    ReproduceReport, RunRecord, RunReport, RunTotals, ScenarioInfo, Stack,
};
pub use series::{FlowSeries, RouterSeries, RunSeries, SilenceRecord};
