//! The engine's time and the operating system's: both count from the start of a run.

use std::time::Duration as StdDuration;

use linkhold_core::time::Instant;

/// The engine's instant `after_start` of the run.
#[must_use]
pub fn instant(after_start: StdDuration) -> Instant {
    Instant::from_nanos(u64::try_from(after_start.as_nanos()).unwrap_or(u64::MAX))
}

/// How long after the start of the run it is at `instant`.
#[must_use]
pub const fn after_start(instant: Instant) -> StdDuration {
    StdDuration::from_nanos(instant.as_nanos())
}
