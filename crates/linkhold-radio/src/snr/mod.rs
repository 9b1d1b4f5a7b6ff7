//! The SNR of a cell's stations, the frames that it costs, and what is told of it.
//!
//! Paper: `activation` sections 3.1, 4.1 and 4.2.
//!
//! ```text
//! trace or walk ─► SNR of a station at a time
//!                    ├─► packet error rate of a frame ─► lost or not
//!                    └─► a sample every 100 ms, late and with an error ─► mechanisms
//! ```

pub mod config;
pub mod curve;
pub mod fading;
pub(crate) mod losses;
pub mod per;
pub(crate) mod reports;
pub(crate) mod signal;
pub mod trace;
pub mod walk;
