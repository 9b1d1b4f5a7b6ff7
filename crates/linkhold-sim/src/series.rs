//! Time series in bounded memory: a series halves its resolution whenever it is full.
//!
//! A run of a thousand seconds keeps no more points than one of a hundred, so memory does not grow with
//! simulated time, and a chart has as many points as a screen can show.

use linkhold_core::time::Duration;

/// Most points a series keeps.
pub const MAX_POINTS: usize = 512;

/// How two neighbouring points of a series become one when it thins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinning {
    /// Means over the interval (a rate): the mean of the two.
    Mean,
    /// Readings at the end of the interval (a gauge): the later one.
    Last,
}

/// One number every interval, in at most [`MAX_POINTS`] points: when full, neighbours merge and the interval
/// doubles.
#[derive(Clone, Debug)]
pub struct Series {
    thinning: Thinning,
    interval: Duration,
    points: Vec<f64>,
    /// How many samples make one point: 1, 2, 4, ...
    stride: u32,
    /// Samples waiting to make a point.
    pending: u32,
    pending_sum: f64,
}

impl Series {
    /// An empty series of one sample every `interval`.
    #[must_use]
    pub fn new(interval: Duration, thinning: Thinning) -> Self {
        Self { thinning, interval, points: Vec::new(), stride: 1, pending: 0, pending_sum: 0.0 }
    }

    /// Takes in the next interval's number.
    pub fn push(&mut self, value: f64) {
        self.pending += 1;
        match self.thinning {
            Thinning::Mean => self.pending_sum += value,
            Thinning::Last => self.pending_sum = value,
        }
        if self.pending < self.stride {
            return;
        }
        let point = match self.thinning {
            Thinning::Mean => self.pending_sum / f64::from(self.stride),
            Thinning::Last => self.pending_sum,
        };
        self.points.push(point);
        (self.pending, self.pending_sum) = (0, 0.0);
        if self.points.len() == MAX_POINTS {
            self.thin();
        }
    }

    /// True if every sample has become part of a point.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.pending == 0
    }

    fn thin(&mut self) {
        for index in 0..self.points.len() / 2 {
            let (first, second) = (self.points[2 * index], self.points[2 * index + 1]);
            self.points[index] = match self.thinning {
                Thinning::Mean => (first + second) / 2.0,
                Thinning::Last => second,
            };
        }
        self.points.truncate(self.points.len() / 2);
        self.stride *= 2;
    }

    /// Time between two points.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval * self.stride
    }

    /// The end of every point's interval, s from the series' start.
    #[must_use]
    pub fn times_s(&self) -> Vec<f64> {
        let interval = self.interval().as_secs_f64();
        (1..=self.points.len()).map(|point| point as f64 * interval).collect()
    }

    /// The points alone.
    #[must_use]
    pub fn into_points(self) -> Vec<f64> {
        self.points
    }

    /// The points; point `i` covers the time from `i` to `i + 1` intervals.
    #[must_use]
    pub fn points(&self) -> &[f64] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_thins_and_keeps_its_mean() {
        let mut rate = Series::new(Duration::from_secs(1), Thinning::Mean);
        let mut gauge = Series::new(Duration::from_secs(1), Thinning::Last);
        for second in 0..4096u32 {
            rate.push(f64::from(second));
            gauge.push(f64::from(second));
            assert!(rate.points().len() < MAX_POINTS);
        }
        assert_eq!((rate.points().len(), rate.interval()), (256, Duration::from_secs(16)));
        assert_eq!(rate.points()[0], f64::from((0..16).sum::<u32>()) / 16.0);
        assert_eq!(gauge.points()[0], 15.0);
        assert_eq!(rate.times_s()[255], 4096.0);
    }
}
