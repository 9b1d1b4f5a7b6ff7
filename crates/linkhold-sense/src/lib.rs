//! From a radio's samples to the start and end of a primary user's transmission.
//!
//! ```text
//! bytes ─► Blocks (samples, a block at a time) ─► EnergyMeter (power in the band)
//!       ─► Detector (threshold, T_idle) ─► Event
//! ```
//!
//! The software radio of cr-aware (section 3 and 4) tells its TCP when a primary user begins to transmit, and
//! when nothing was heard for T_idle. Its prototype finds the primary user by the address in 802.15.4 frames
//! (section 4.2), "so that sensing does not affect TCP"; this crate does what a radio without knowledge of
//! the primary user's frames can do: it compares the energy in a band with a calibrated noise floor (Urkowitz
//! 1967).
//!
//! Everything here is sans-IO but for [`Blocks`], which reads from a [`std::io::Read`] that it is given, and
//! [`sigmf::Recording::open`]. Time is counted in samples; nothing reads a clock.

pub mod decibel;
pub mod detector;
pub mod energy;
pub mod floor;
pub mod frequency;
pub mod law;
pub mod marcum;
pub mod sample;
pub mod sensor;
pub mod settings;
pub mod sigmf;
pub mod stream;
pub mod synthetic;

pub use decibel::{from_db, to_db};
pub use detector::{Change, Detector};
pub use energy::EnergyMeter;
pub use sample::{Format, Sample};
pub use sensor::{Calibrated, Event, SampleError, Sensor, Summary};
pub use settings::{FloorSource, Plan, Settings, SettingsError, Window};
pub use stream::{Blocks, ReadError};
