//! The eleven link parameters as one value.
//!
//! Paper: `dsasync` section IV-A, in the paper's order.

use crate::time::{Duration, Instant};

use super::history::{History, Interval};

/// Events per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Frequency(pub f64);

/// Where a frequency and duration come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provenance {
    /// Nothing was ever heard of it.
    #[default]
    Unknown,
    /// The radio announced it.
    Announced,
    /// From the history of freezes in the window; the duration of the last ones if the window is empty.
    Estimated,
}

/// Something that silences the radio again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recurrence {
    /// f(t): how often it begins.
    pub frequency: Frequency,
    /// t(t): how long it lasts each time, on average.
    pub duration: Duration,
    /// How both are known.
    pub provenance: Provenance,
}

/// The parameters of section IV-A for one station, as of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkParameters {
    /// 1 and 2: f_sense^DSAN and t_sense^DSAN, sensing in which the whole network takes part.
    pub sense_dsan: Recurrence,
    /// 3 and 4: f_sense^i and t_sense^i, further sensing by this station.
    pub sense_station: Recurrence,
    /// 5 and 6: f_switch^DSAN and t_switch^DSAN, channel switches and the silence each one costs.
    pub switch_dsan: Recurrence,
    /// 7: g_PU^ON, how long primary users stay on.
    pub pu_on_times: OnTimes,
    /// 8: S_DSAN, the network senses now.
    pub s_dsan: bool,
    /// 9: SW_DSAN, the network changes channel now.
    pub sw_dsan: bool,
    /// 10: S_i, this station senses now.
    pub s_station: bool,
    /// 11: PU_ON, a primary user is active on the present channel.
    pub pu_on: bool,
}

const SAMPLES: usize = 64;

/// The distribution of primary users' ON times, from the latest (at most 64) that ended in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnTimes {
    sorted: [Duration; SAMPLES],
    len: usize,
}

impl Default for OnTimes {
    fn default() -> Self {
        Self { sorted: [Duration::ZERO; SAMPLES], len: 0 }
    }
}

impl OnTimes {
    pub(crate) fn collect(history: &History, since: Instant) -> Self {
        let mut times = Self::default();
        for interval in history.newest_first().take_while(|interval| interval.end > since).take(SAMPLES) {
            times.sorted[times.len] = interval.len();
            times.len += 1;
        }
        times.sorted[..times.len].sort_unstable();
        times
    }

    /// How many ON times it is made of.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.len
    }

    /// Mean ON time.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.samples().iter().fold(0u64, |sum, time| sum.saturating_add(time.as_nanos()));
        nanos.checked_div(self.len as u64).map(Duration::from_nanos)
    }

    /// The ON time that a share `q` (0 to 1) of them does not exceed (nearest rank).
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (q.clamp(0.0, 1.0) * self.len as f64).ceil() as usize;
        self.samples().get(rank.max(1) - 1).copied()
    }

    /// The ON times, shortest first.
    #[must_use]
    pub fn samples(&self) -> &[Duration] {
        self.sorted.get(..self.len).unwrap_or(&[])
    }
}

/// Estimates a recurrence from what began in `window` and the mean of the latest lengths.
pub(crate) fn estimate(began: u32, mean: Option<Duration>, window: Interval) -> Recurrence {
    if began == 0 && mean.is_none() {
        return Recurrence::default();
    }
    let seconds = window.len().as_secs_f64();
    Recurrence {
        frequency: Frequency(if seconds > 0.0 { f64::from(began) / seconds } else { 0.0 }),
        duration: mean.unwrap_or(Duration::ZERO),
        provenance: Provenance::Estimated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_latest_on_times() {
        let mut history = History::new(256);
        for k in 0..100u64 {
            let start = Instant::from_millis(1000 * k);
            history.push(Interval { start, end: start + Duration::from_millis(k + 1) });
        }
        let times = OnTimes::collect(&history, Instant::ZERO);
        assert_eq!(times.count(), SAMPLES);
        assert_eq!(times.quantile(1.0), Some(Duration::from_millis(100)));
        assert_eq!(times.quantile(0.0), Some(Duration::from_millis(37)));
        assert_eq!(times.quantile(0.5), Some(Duration::from_millis(68)));
        assert_eq!(times.mean(), Some(Duration::from_micros(68_500)));
        let few = OnTimes::collect(&history, Instant::from_millis(97_500));
        assert_eq!(few.samples(), [Duration::from_millis(99), Duration::from_millis(100)]);
        assert_eq!(OnTimes::default().quantile(0.5), None);
        assert_eq!(OnTimes::default().mean(), None);
    }
}
