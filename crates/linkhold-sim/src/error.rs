//! Why a run cannot start.

use linkhold_mesh::MeshError;
use linkhold_radio::AirConfigError;

/// What a scenario asks for, and whoever is to run it (the simulator or the testbed) does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}{}{right}", if right.is_empty() { "" } else { "; " })]
pub struct Unsupported {
    /// The key that asks for it, as in `flows[0].source`.
    pub key: String,
    /// What is not there.
    pub what: String,
    /// What would be right; empty where `what` says it.
    pub right: String,
}

impl Unsupported {
    /// See the fields.
    #[must_use]
    pub fn new(key: impl Into<String>, what: impl Into<String>, right: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into(), right: right.into() }
    }
}

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
    /// The scenario asks for something that the simulator does not have.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
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
