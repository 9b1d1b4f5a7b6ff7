//! What is under way between stations and base station: requests, messages, and bursts that a map has
//! granted.

use linkhold_core::time::Instant;

use super::station::Attempt;

/// A burst below this, beside a packet's header, is not worth its grant: an ACK fits. Bytes.
pub(super) const LEAST_SHARE: u64 = 64;

/// A request on the air.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    pub(super) station: usize,
    pub(super) attempt: Attempt,
    /// What it drew, in contention.
    pub(super) opportunity: Option<usize>,
    /// The bytes it tells, where one step does.
    pub(super) bytes: u64,
}

/// Bytes told to the base station: in a message of their own, or in a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) station: usize,
    pub(super) bytes: u64,
    /// Since when the access has lasted; `None` in a burst.
    pub(super) since: Option<Instant>,
}

/// A station's burst in a coming uplink frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocation {
    pub(super) station: usize,
    pub(super) frame: u64,
    /// The burst's start.
    pub(super) at: Instant,
    pub(super) bytes: u64,
    /// How many of the bytes had been asked for.
    pub(super) asked: u64,
    /// Since when the access had lasted that led to it.
    pub(super) since: Option<Instant>,
}

/// What one station may get in the map that is being written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) unsolicited: u64,
    pub(super) wanted: u64,
    pub(super) given: u64,
}
