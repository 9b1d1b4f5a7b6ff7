//! A mesh of cognitive radios, sans-IO: nodes that move, find routes, share the air and leave it to primary
//! users.
//!
//! Source: Di Felice, Chowdhury and Bononi, "Modeling and Performance Evaluation of TCP over Cognitive Radio
//! Ad Hoc Networks" (here: crahn).
#![forbid(unsafe_code)]

mod accounting;
pub mod config;
mod homes;
mod licensed;
mod local;
pub mod map;
pub mod mesh;
pub mod mobility;
pub mod node;
mod packets;
pub mod places;
pub mod routing;
mod spectrum;
mod watched;

pub use config::{MeshConfig, MeshError};
pub use mesh::{Counters, Mesh};
pub use node::{Node, Point};
pub use watched::RouteNews;
