//! The linkhold simulator: scenario case in, results out, in virtual time.
//!
//! [`run_case`] is the door. Inside, [`engine::Engine`] takes events in order from a [`queue::EventQueue`];
//! [`network::Network`] is the cell (wired pipes, mechanism, router queue, air); [`endpoints::Endpoints`] are the
//! TCP ends and their measurements. Engine and network know no clock and no TCP, so the testbed drives the same
//! ones on a real clock with ports in place of endpoints.
//!
//! One scenario and one seed give one result, byte for byte. Memory does not grow with simulated time: packets
//! live in a slab, statistics stream, series thin out.
#![forbid(unsafe_code)]

pub mod build;
pub mod capture;
mod contract;
pub mod endpoints;
pub mod engine;
pub mod error;
pub mod limit;
pub mod meter;
pub mod network;
pub mod observer;
pub mod plan;
pub mod queue;
pub mod recorder;
pub mod report;
pub mod run;
pub mod series;
pub mod silence;
pub mod slab;

pub use capture::Capture;
pub use engine::{Edge, Engine};
pub use error::SimError;
pub use observer::{NoObserver, Observer, Tap};
pub use report::scenario_info;
pub use run::{Simulation, run_case, run_case_observed};
