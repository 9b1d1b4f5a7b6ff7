//! What an endpoint with [`Congestion::TpCrahn`](crate::Congestion::TpCrahn) keeps of its path.

use linkhold_core::time::Instant;

use crate::path::{Path, Stance};

/// What an endpoint knows of its path, and what the sender was last told to do.
#[derive(Clone, Debug)]
pub(super) struct OnPath {
    pub(super) path: Path,
    pub(super) stance: Stance,
}

impl OnPath {
    pub fn next(&self) -> Option<Instant> {
        self.path.next()
    }
}
