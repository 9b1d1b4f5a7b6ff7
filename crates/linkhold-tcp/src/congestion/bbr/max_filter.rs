//! The greatest value of the last rounds, with three samples remembered.
//!
//! Source: the windowed filter of Kathleen Nichols that Linux has as `lib/win_minmax.c`. Besides the best
//! value it keeps the best of those that came after it, and the best of those after that, so that an old best
//! is followed by what was good in the meantime and not by the value of the moment.

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    round: u32,
    value: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    /// Best, second and third, each later than the one before it.
    best: [Sample; 3],
}

impl MaxFilter {
    pub fn get(&self) -> f64 {
        self.best[0].value
    }

    /// A value in `round`, of the last `window` rounds.
    pub fn update(&mut self, window: u32, round: u32, value: f64) {
        let now = Sample { round, value };
        if value >= self.best[0].value || round.wrapping_sub(self.best[2].round) > window {
            self.best = [now; 3];
            return;
        }
        if value >= self.best[1].value {
            self.best[1] = now;
            self.best[2] = now;
        } else if value >= self.best[2].value {
            self.best[2] = now;
        }
        let age = round.wrapping_sub(self.best[0].round);
        if age > window {
            // The best is too old: the others move up, twice if the second is too.
            self.best = [self.best[1], self.best[2], now];
            if round.wrapping_sub(self.best[0].round) > window {
                self.best = [self.best[1], self.best[2], now];
            }
        } else if self.best[1].round == self.best[0].round && age > window / 4 {
            // A quarter of the window has passed without another: take the second from this one.
            self.best[1] = now;
            self.best[2] = now;
        } else if self.best[2].round == self.best[1].round && age > window / 2 {
            self.best[2] = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_best_value_lasts_for_the_window_and_is_followed_by_the_best_since() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 100.0);
        for round in 1..=10 {
            filter.update(10, round, if round == 6 { 80.0 } else { 50.0 });
            assert_eq!(filter.get(), 100.0, "round {round}");
        }
        filter.update(10, 11, 50.0);
        assert_eq!(filter.get(), 80.0, "the best of the rounds since");
        filter.update(10, 17, 50.0);
        assert_eq!(filter.get(), 50.0);
    }

    #[test]
    fn a_greater_value_counts_at_once() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 1.0);
        filter.update(10, 0, 3.0);
        assert_eq!(filter.get(), 3.0);
    }

    #[test]
    fn after_a_long_pause_only_the_newest_counts() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 9.0);
        filter.update(10, 40, 2.0);
        assert_eq!(filter.get(), 2.0);
    }
}
