//! The radio's link: what differs by the kind of medium access.

use std::sync::Arc;

use linkhold_radio::spectrum::Occupancy;
use linkhold_radio::{ChannelConfig, Mac, SnrConfig, Switching, ToldConfig};

use crate::model::TraceFiles;

/// What of an [`AirConfig`](linkhold_radio::AirConfig) depends on the kind of its MAC.
pub(crate) struct Link {
    pub mac: Mac,
    pub channels: Vec<ChannelConfig>,
    pub measured_users: Vec<Option<Arc<Occupancy>>>,
    /// By channel: what is told of its primary user.
    pub users_told: Vec<ToldConfig>,
    pub initial_channel: usize,
    pub rate_told: bool,
    pub switching: Switching,
    pub retry_limit: u32,
    pub snr: Option<SnrConfig>,
    pub traces: Option<TraceFiles>,
}
