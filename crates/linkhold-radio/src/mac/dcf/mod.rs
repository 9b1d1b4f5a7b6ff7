//! IEEE 802.11's distributed coordination function (DCF): every radio contends by CSMA/CA.
//!
//! [`Dcf`] is generic over an [`Environment`], which knows who hears whom. A cell, where everybody hears
//! everybody, is one; a mesh of moving nodes with channels and primary users is another. Per transmission the
//! work is that of its hearers, per backoff it is one wake-up, and nothing allocates once every radio has
//! sent.

mod cell;
mod config;
mod ear;
mod engine;
mod environment;
mod phy;

pub(crate) use cell::DcfCell;
pub use config::DcfConfig;
pub use engine::Dcf;
pub use environment::{Environment, Hearing, Kind, Mpdu, Sent, Told, Tuning};
pub use phy::{ACK, AROUND_IP, Phy, RTS};
