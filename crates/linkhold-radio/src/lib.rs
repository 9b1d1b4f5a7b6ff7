//! What the air does between a base station and its stations, sans-IO: silences, channels, queues, delivery.
//!
//! [`Air`] is handed frames and the time, and answers with deliveries, drops and link events ([`AirOutput`]).
//! It knows neither TCP nor whose clock it runs on, so the simulator (virtual clock) and the testbed (real
//! clock, TUN ports) drive the same code. [`WiredPipe`] is the wired segment behind the base station.
//!
//! The radio's own events (primary users, sensing, channel switches, trace gaps) form a timeline that no
//! traffic can influence: with one seed every case runs over the same radio (common random numbers). What
//! does depend on traffic, such as a MAC's backoffs, draws from random streams of its own.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod air;
pub mod cell;
mod change;
pub mod channel;
mod config;
pub mod cross_traffic;
pub mod detector;
pub mod energy;
pub mod frame;
mod gaps;
mod mac;
pub mod primary_user;
mod queue;
pub mod rng;
pub mod sensing;
pub mod signals;
pub mod snr;
pub mod spectrum;
mod timeline;
pub mod trace;
pub mod wakeups;
pub mod wired;

pub use accounting::{AirAccounting, Silence};
pub use air::Air;
pub use channel::{ChannelConfig, ScriptedSwitch, SwitchPolicy, Switching};
pub use config::{AirConfig, AirConfigError};
pub use cross_traffic::{CrossTraffic, LEAST_JITTER};
pub use detector::OverhearConfig;
pub use energy::{PowerConfig, StationTime};
pub use frame::{AirDrop, AirEvent, AirOutput, DcfFrame, DcfKind, Frame, MacFrame, RadioId, Transmission};
pub use mac::air_time::AirTime;
pub use mac::config::{AirTimeModel, Mac, TraceLink};
pub use mac::dcf;
pub use mac::grants::accounting::UplinkAccounting;
pub use mac::grants::config::{self as grants, GrantsConfig, GrantsError, Standard};
pub use mac::grants::model as grants_model;
pub use mac::ieee802154::config::{self as ieee802154, HeardBy, Ieee802154Config};
pub use mac::ieee802154::header::ExtendedAddress;
pub use mac::ieee802154::user_frames::UserFrames;
pub use primary_user::PrimaryUserConfig;
pub use queue::config::{FqCodelConfig, InSilence, QueueConfig, QueueKind};
pub use sensing::{SensingConfig, StationSensing};
pub use signals::{SignalsConfig, ToldAccounting, ToldConfig};
pub use snr::config::{SnrConfig, SnrReport, SnrSource};
pub use snr::curve::Curve;
pub use snr::fading::Fading;
pub use snr::per::PhyRate;
pub use snr::trace::{Columns, SnrTrace, SnrTraceError, SnrTraceErrorKind};
pub use snr::walk::WalkConfig;
pub use trace::{Trace, TraceError, TraceErrorKind};
pub use wired::{WiredDrop, WiredPipe};
