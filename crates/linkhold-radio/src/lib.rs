//! What the air does between a base station and its stations, sans-IO: silences, channels, queues, delivery.
//!
//! [`Air`] is handed frames and the time and answers with deliveries, drops and link events ([`AirOutput`]). It
//! knows neither TCP nor whose clock it runs on, so the simulator (virtual clock) and the testbed (real clock,
//! TUN ports) drive the same code. [`WiredPipe`] is the wired segment behind the base station.
//!
//! The radio's own events (primary users, sensing, channel switches, trace gaps) form a timeline that no
//! traffic can influence: one seed, one radio, whatever case runs over it (common random numbers).
#![forbid(unsafe_code)]

pub mod accounting;
pub mod air;
pub mod channel;
pub mod frame;
pub mod mac;
pub mod primary_user;
pub mod queue;
pub mod rng;
pub mod sensing;
mod silence;
pub mod trace;
pub mod wired;

pub use accounting::{AirAccounting, Silence};
pub use air::{Air, AirConfig, AirConfigError};
pub use channel::{ChannelConfig, ScriptedSwitch, SwitchPolicy, Switching};
pub use frame::{AirDrop, AirEvent, AirOutput, Frame};
pub use mac::Mac;
pub use primary_user::PrimaryUserConfig;
pub use queue::fq_codel::FqCodelConfig;
pub use queue::{InSilence, QueueConfig, QueueKind};
pub use sensing::{SensingConfig, StationSensing};
pub use trace::{Trace, TraceError, TraceErrorKind};
pub use wired::{WiredDrop, WiredPipe};
