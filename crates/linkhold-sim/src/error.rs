//! Why a run cannot start.

use linkhold_mesh::MeshError;
use linkhold_radio::AirConfigError;

/// Why a run cannot start. A run that has started does not fail.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The radio's description names something that is not there.
    #[error("the radio cannot be built: {0}")]
    Air(#[from] AirConfigError),
    /// The mesh's description does not fit together.
    #[error("the mesh cannot be built: {0}")]
    Mesh(#[from] MeshError),
    /// A mechanism's settings contradict each other.
    #[error("mechanism {mechanism} cannot be built: {reason}")]
    Mechanism {
        /// The mechanism's name.
        mechanism: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A flow names a station that does not exist.
    #[error("flow group {group} names station {station}, but there are {stations}")]
    NoSuchStation {
        /// Number of the group in the scenario, from 0.
        group: usize,
        /// The station.
        station: u32,
        /// How many stations there are.
        stations: u32,
    },
}
