//! The silences of a run summed up.

use linkhold_results::stats::percentile;
use serde::{Deserialize, Serialize};

use super::silence_story::{SilenceStory, Woken};

/// All silences of a run together. Times as in [`SilenceStory`], medians.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SilenceSummary {
    /// Silences told of.
    pub silences: u32,
    /// The sender was woken by an acknowledgment of new data.
    pub woken_by_acknowledgment: u32,
    /// By a window update or a repeated acknowledgment.
    pub woken_by_nudge: u32,
    /// By its own timer.
    pub woken_by_timer: u32,
    /// It had not stopped.
    pub went_on: u32,
    /// Nobody knows: a `linkhold host` runs beside it.
    #[serde(default)]
    pub woken_unknown: u32,
    /// Silences with a timeout. `None` beside a `linkhold host`, as the next three.
    pub with_timeout: Option<u32>,
    /// Silences with a spurious one.
    pub with_spurious: Option<u32>,
    /// Timeouts in all.
    pub timeouts: Option<u32>,
    /// Probes in all.
    pub probes: Option<u32>,
    /// Silences whose congestion window before and after is known.
    pub with_cwnd: u32,
    /// Of them, those after which it was restored.
    pub restored: u32,
    /// Silences in which the sender was told of a closed window.
    pub with_zero_window: u32,
    /// When, s from the start.
    pub zero_window_p50_s: Option<f64>,
    /// First heard.
    pub first_heard_p50_s: Option<f64>,
    /// First data sent.
    pub woken_p50_s: Option<f64>,
    /// Packets held, in all.
    pub held: u64,
    /// The first one left.
    pub held_first_p50_s: Option<f64>,
    /// The last one left.
    pub held_last_p50_s: Option<f64>,
    /// First delivery.
    pub first_delivery_p50_s: Option<f64>,
    /// First new data.
    pub first_new_p50_s: Option<f64>,
    /// First new data, the slowest.
    pub first_new_max_s: Option<f64>,
}

impl SilenceSummary {
    /// Sums `stories` up.
    #[must_use]
    pub fn new(stories: &[SilenceStory]) -> Self {
        let count = |holds: &dyn Fn(&SilenceStory) -> bool| {
            u32::try_from(stories.iter().filter(|story| holds(story)).count()).unwrap_or(u32::MAX)
        };
        let quantile = |q: f64, get: &dyn Fn(&SilenceStory) -> Option<f64>| {
            let mut values: Vec<f64> = stories.iter().filter_map(get).collect();
            Some(percentile(&mut values, q)).filter(|value| value.is_finite())
        };
        let known = stories.iter().all(|story| story.timeouts.is_some());
        Self {
            silences: count(&|_| true),
            woken_by_acknowledgment: count(&|s| s.woken == Some(Woken::Acknowledgment)),
            woken_by_nudge: count(&|s| s.woken == Some(Woken::Nudge)),
            woken_by_timer: count(&|s| s.woken == Some(Woken::Timer)),
            went_on: count(&|s| s.woken == Some(Woken::WentOn)),
            woken_unknown: count(&|s| s.woken.is_none() && s.woken_s.is_some()),
            with_timeout: known.then(|| count(&|s| s.timeouts > Some(0))),
            with_spurious: known.then(|| count(&|s| s.spurious == Some(true))),
            timeouts: stories.iter().map(|story| story.timeouts).sum(),
            probes: stories.iter().map(|story| story.probes).sum(),
            with_cwnd: count(&|s| s.restored.is_some()),
            restored: count(&|s| s.restored == Some(true)),
            with_zero_window: count(&|s| s.zero_window_s.is_some()),
            zero_window_p50_s: quantile(0.5, &|s| s.zero_window_s),
            first_heard_p50_s: quantile(0.5, &|s| s.first_heard_s),
            woken_p50_s: quantile(0.5, &|s| s.woken_s),
            held: stories.iter().map(|story| u64::from(story.held)).sum(),
            held_first_p50_s: quantile(0.5, &|s| s.held_first_s),
            held_last_p50_s: quantile(0.5, &|s| s.held_last_s),
            first_delivery_p50_s: quantile(0.5, &|s| s.first_delivery_s),
            first_new_p50_s: quantile(0.5, &|s| s.first_new_s),
            first_new_max_s: quantile(1.0, &|s| s.first_new_s),
        }
    }
}
