//! The agent's time: nanoseconds since it started, and how the wall clock maps to it.

use std::time::{SystemTime, UNIX_EPOCH};

use linkhold_core::time::{Duration, Instant};

/// Time since the agent's start, from the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: std::time::Instant,
}

impl Clock {
    /// Starts at zero, now.
    #[must_use]
    pub fn start() -> Self {
        Self { epoch: std::time::Instant::now() }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Instant {
        // 64 bits of nanoseconds last 584 years.
        Instant::from_nanos(self.epoch.elapsed().as_nanos() as u64)
    }

    /// Time since 1 January 1970 UTC, by the wall clock; zero if it stands before that.
    #[must_use]
    pub fn wall() -> Duration {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}
