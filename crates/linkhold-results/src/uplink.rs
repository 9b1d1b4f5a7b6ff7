//! What became of uplink requests and grants, where the medium access grants.

use serde::{Deserialize, Serialize};

use crate::finite;

/// Requests and grants of all stations, from the end of the warm-up on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UplinkRecord {
    /// Requests sent in contention, or on a station's own opportunity, repetitions included.
    pub requests: u64,
    /// Of these, those that collided with another.
    pub collisions: u64,
    /// Of these, those that met no other and were lost all the same.
    pub tries_lost: u64,
    /// Times a station waited for an answer in vain.
    pub t3_expiries: u64,
    /// Accesses given up after the last try, each with the packet that waited longest.
    pub given_up: u64,
    /// Requests that went in a granted burst.
    pub piggybacked: u64,
    /// Grants, those that nobody asked for included.
    pub grants: u64,
    /// Bytes granted, MAC headers included.
    pub granted_bytes: u64,
    /// Grants that ended with room left.
    pub unused_grants: u64,
    /// The room that was left, bytes.
    pub unused_bytes: u64,
    /// Random accesses that led to a burst.
    pub accesses: u64,
    /// Mean of their delays, from the wish to send to the burst's start, s; `null` if there was none.
    #[serde(with = "finite::option")]
    pub access_delay_mean_s: Option<f64>,
}
