//! The results of a run: the JSON contract, statistics, the terminal table, Parquet files and the HTML
//! report.
//!
//! - [`record`]: the objects that `--json` prints, key for key; [`kernel`]: what they say of a kernel beside
//!   the simulator.
//! - [`series`]: values over time, for Parquet and the charts; they are no part of the JSON.
//! - [`delay`]: a histogram of one-way delays, whose memory does not grow with the run.
//! - [`stats`]: means, 95 % intervals, and comparisons of cases, paired by seed.
//! - [`traffic`]: what UDP, media and web flows count beyond that.
//! - [`table`], [`claims`], [`html`], [`parquet`]: the results for a terminal, a browser and a notebook.
#![forbid(unsafe_code)]

pub mod claims;
mod columns;
pub mod delay;
mod finite;
pub mod format;
pub mod html;
pub mod kernel;
pub mod mesh;
mod offer;
pub mod parquet;
pub mod record;
#[doc(hidden)]
pub mod sample;
pub mod series;
pub mod stats;
pub mod table;
mod told;
pub mod traffic;
mod uplink;

pub use delay::{DelayHistogram, PooledDelays};
pub use kernel::{KernelPart, Simulated};
pub use mesh::{MapFrame, MapUser, MeshMaps, MeshRecord};
pub use parquet::ParquetFiles;
pub use record::{
    Claim, CompareRow, EnergyRecord, Figure, FigureRow, FlowDirection, FlowRecord, LinkRecord,
    MechanismRecord, Program, ReproduceReport, RunRecord, RunReport, RunTotals, ScenarioInfo, Stack,
};
pub use series::{FlowSeries, RouterSeries, RunSeries, SilenceRecord};
pub use stats::{Estimate, Metric, compare};
pub use told::ToldRecord;
pub use traffic::{FlowTransport, MediaRecord, QuicRecord, UdpRecord, WebRecord};
pub use uplink::UplinkRecord;
