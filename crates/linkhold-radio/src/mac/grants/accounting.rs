//! What became of requests and grants.

use linkhold_core::time::Duration;

/// Totals from time 0 on. Take two and subtract to leave a warm-up out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UplinkAccounting {
    /// Requests sent in contention or on a station's own opportunity, repetitions included.
    pub requests: u64,
    /// Of these, those that collided.
    pub collisions: u64,
    /// Of these, those that met no other and were lost all the same.
    pub tries_lost: u64,
    /// Times T3 ran out.
    pub t3_expiries: u64,
    /// Accesses given up after the last try.
    pub given_up: u64,
    /// Requests that went in a granted burst.
    pub piggybacked: u64,
    /// Grants, unsolicited ones included.
    pub grants: u64,
    /// Bytes granted.
    pub granted_bytes: u64,
    /// Grants that had room left.
    pub unused_grants: u64,
    /// The room that was left, bytes.
    pub unused_bytes: u64,
    /// Random accesses that led to a burst.
    pub accesses: u64,
    /// Sum over them of the time from the wish to send to the burst's start.
    pub access_delay: Duration,
}

impl UplinkAccounting {
    /// Mean time from the wish to send to the start of the burst, without what was piggybacked; `None` if
    /// there was no random access.
    #[must_use]
    pub fn access_delay_mean(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.access_delay.as_nanos().checked_div(self.accesses)?))
    }

    /// What happened between `earlier` and this snapshot.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            collisions: self.collisions - earlier.collisions,
            tries_lost: self.tries_lost - earlier.tries_lost,
            t3_expiries: self.t3_expiries - earlier.t3_expiries,
            given_up: self.given_up - earlier.given_up,
            piggybacked: self.piggybacked - earlier.piggybacked,
            grants: self.grants - earlier.grants,
            granted_bytes: self.granted_bytes - earlier.granted_bytes,
            unused_grants: self.unused_grants - earlier.unused_grants,
            unused_bytes: self.unused_bytes - earlier.unused_bytes,
            accesses: self.accesses - earlier.accesses,
            access_delay: self.access_delay.saturating_sub(earlier.access_delay),
        }
    }
}
