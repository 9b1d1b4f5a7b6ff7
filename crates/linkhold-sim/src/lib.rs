//! The linkhold simulator: scenario case in, results out, in virtual time.
//!
//! [`run_case`] is the entry point. [`engine::Engine`] takes events in order from a [`queue::EventQueue`];
//! [`network::Network`] carries packets over links (wires, the air) along paths, and drives the mechanisms
//! that tap them; [`cell::CellBuilder`] puts one together. [`endpoints::Endpoints`] are the ends of TCP and
//! UDP flows, with their applications ([`apps`]) and measurements. Engine and network know no clock and no
//! TCP, so the testbed drives the same ones on a real clock, with TUN ports in place of the endpoints.
//!
//! One scenario and one seed give one result, byte for byte. Memory does not grow with simulated time:
//! packets live in a slab, statistics stream, series thin out.
#![forbid(unsafe_code)]

pub mod apps;
pub mod build;
pub mod capture;
mod carrier;
pub mod cell;
mod contract;
pub mod endpoints;
pub mod engine;
pub mod error;
pub mod flow;
pub mod limit;
pub mod link;
pub mod maps;
pub mod medium;
pub mod mesh;
pub mod meter;
pub mod monitor;
pub mod network;
pub mod observer;
mod on_wire;
pub mod path;
pub mod path_news;
pub mod plan;
pub mod queue;
pub mod recorder;
pub mod report;
pub mod run;
pub mod series;
pub mod silence_tracker;
pub mod slab;
pub mod tap;
mod touched;
pub mod udp;
mod watcher;

pub use capture::Capture;
pub use cell::CellBuilder;
pub use engine::{Engine, Hosts};
pub use error::{SimError, Unsupported};
pub use observer::{NoObserver, Observer, SeenAt};
pub use report::scenario_info;
pub use run::{Simulation, check, mechanism_record, run_case, run_case_observed};
