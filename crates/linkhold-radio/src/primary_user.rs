//! A primary user (incumbent) on one channel: exponential ON and OFF times, seen with a detection delay.
//!
//! Source: dsasync section VI-A ("The incumbent produces ON/OFF patterns of random durations according to an
//! exponential distribution").

use linkhold_core::time::Duration;

/// A primary user's habits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryUserConfig {
    /// Mean length of a burst.
    pub on_mean: Duration,
    /// Mean length of the pause between bursts.
    pub off_mean: Duration,
    /// From a burst's start to its detection. Until then frames are sent and collide; 0 = silent at once.
    pub detection_delay: Duration,
    /// From a burst's end to the radio's resuming.
    pub end_detection_delay: Duration,
}
