//! What cognitive radios know of the licensed spectrum and do about it, sans-IO.
//!
//! Source: Di Felice, Chowdhury and Bononi, "Modeling and Performance Evaluation of TCP over Cognitive Radio
//! Ad Hoc Networks" (here: crahn), sections 3 and 4. One block of its figure 1 is one file here:
//!
//! | block | file |
//! |---|---|
//! | PU activity, the PU log (section 4.1) | [`pu_log`], its merged view [`occupancy`], its generator [`generate`] |
//! | channels, the channel log (section 4.2) | [`bands`], [`channel_log`] |
//! | spectrum sensing (section 3 and 4.3) | [`propagation`], [`energy_detector`] |
//! | spectrum management (section 4.3) | [`decision`], [`cycle`] |
//! | cross-layer repository | [`repository`] |

pub mod bands;
pub mod channel_log;
pub mod cycle;
pub mod decision;
pub mod energy_detector;
mod fields;
pub mod generate;
pub mod occupancy;
pub mod propagation;
pub mod pu_log;
mod pu_log_read;
pub mod repository;

pub use bands::{Band, Bands, BandsError};
pub use channel_log::{ChannelLog, ChannelLogError, ChannelLogErrorKind};
pub use cycle::{Cycle, CycleConfig, CycleConfigError, CycleEvent, CycleEvents, CycleState, Lookup};
pub use decision::{ChannelHistory, Decision, Policy};
pub use energy_detector::{DetectionOdds, EnergyDetector, PuActivity, SensingModel};
pub use generate::{GenerateError, Generator, Places};
pub use occupancy::Occupancy;
pub use propagation::Propagation;
pub use pu_log::{Burst, PuLog, PuLogError, PuLogErrorKind, User};
pub use repository::{Aged, Heard, LinkQuality, Neighbour, Repository};
