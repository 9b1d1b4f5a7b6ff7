//! A mesh of cognitive radios, sans-IO: nodes that move, find routes, share the air and leave it to primary users.
//!
//! Source: Di Felice, Chowdhury and Bononi, "Modeling and Performance Evaluation of TCP over Cognitive Radio Ad
//! Hoc Networks" (here: crahn).
#![forbid(unsafe_code)]

pub mod mobility;
pub mod node;
pub mod routing;

pub use node::{Node, Point};
