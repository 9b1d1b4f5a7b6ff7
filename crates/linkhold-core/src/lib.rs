//! The mechanisms of linkhold as pure state machines.
//!
//! A mechanism ([`mechanism::Mechanism`]) never reads a clock, a socket or a random source: it is handed
//! `now` and an [`mechanism::Input`], and answers with a [`action::Verdict`] per packet and a list of
//! [`action::Action`]s. The simulator, the testbed and the agents drive the same code.
#![forbid(unsafe_code)]

pub mod action;
pub mod chain;
pub mod closed_window;
pub mod connection;
pub(crate) mod copies;
pub mod cr_aware;
pub mod dsasync;
pub(crate) mod ending;
pub(crate) mod flows;
pub mod link_event;
pub mod link_monitor;
pub mod local_recovery;
pub mod log;
pub mod look_ahead;
pub mod mechanism;
pub mod metrics;
pub(crate) mod mirror;
pub(crate) mod opening;
pub mod packet;
pub mod quantity;
pub mod registry;
pub mod settings;
pub(crate) mod silences;
pub mod snr_gate;
pub mod text;
pub mod time;
pub mod units;
