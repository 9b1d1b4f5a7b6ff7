//! Finds a policer: a rate that two stretches between losses agree on.
//!
//! Source: Linux `tcp_bbr.c` (`bbr_lt_bw_sampling`); the draft has no such part. A token bucket lets bursts
//! pass, which the bandwidth filter takes for the path's rate, and then drops. Where two stretches of 4 to 16
//! round trips, each ended by a loss and with a fifth of their packets lost, carried the same rate, that rate
//! is used for 48 round trips.

use linkhold_core::time::{Duration, Instant};

/// Fewest round trips of a stretch; four times as many are its most.
const MIN_ROUNDS: u32 = 4;
/// Lost for each delivered, from which on a stretch is suspect (Linux has 50/256).
const LOSS: f64 = 50.0 / 256.0;
/// Two rates agree that differ by at most this part...
const LIKENESS: f64 = 1.0 / 8.0;
/// ... or by this, bytes a second (4 kbit/s).
const LIKENESS_BYTES: f64 = 500.0;
/// How long the rate is used, round trips.
const USE_ROUNDS: u32 = 48;

/// The connection's totals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    /// Bytes delivered so far, and when that last grew.
    pub delivered: u64,
    pub delivered_at: Instant,
    /// Bytes taken for lost so far.
    pub lost: u64,
}

/// What has become of the suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unchanged,
    /// There is a policer: its rate is used from now on.
    Found,
    /// It is used no longer.
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No loss yet.
    Waiting,
    /// A stretch runs; `rate` is that of the one before it.
    Sampling { rate: Option<f64>, since: Totals, rounds: u32 },
    /// The rate in use, bytes a second, for how many round trips so far.
    Used { rate: f64, rounds: u32 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Policer {
    phase: Phase,
}

impl Policer {
    pub const fn new() -> Self {
        Self { phase: Phase::Waiting }
    }

    /// The policer's rate, bytes a second, if there is one.
    pub fn rate(&self) -> Option<f64> {
        match self.phase {
            Phase::Used { rate, .. } => Some(rate),
            Phase::Waiting | Phase::Sampling { .. } => None,
        }
    }

    pub fn reset(&mut self) {
        self.phase = Phase::Waiting;
    }

    /// An ACK, or a timeout. `lost`: it tells of losses; `probing`: BBR is in ProbeBW.
    pub fn on_ack(
        &mut self,
        totals: Totals,
        round_start: bool,
        lost: bool,
        app_limited: bool,
        probing: bool,
    ) -> Verdict {
        let began = Phase::Sampling { rate: None, since: totals, rounds: 0 };
        match &mut self.phase {
            Phase::Used { rounds, .. } => {
                if probing && round_start {
                    *rounds += 1;
                    if *rounds >= USE_ROUNDS {
                        self.phase = Phase::Waiting;
                        return Verdict::Over;
                    }
                }
                return Verdict::Unchanged;
            }
            // The first loss says that the bucket is empty: what passed before was a burst.
            Phase::Waiting if !lost => return Verdict::Unchanged,
            Phase::Waiting => self.phase = began,
            Phase::Sampling { .. } => {}
        }
        let Phase::Sampling { rate, since, rounds } = &mut self.phase else { return Verdict::Unchanged };
        if app_limited {
            self.phase = Phase::Waiting;
            return Verdict::Unchanged;
        }
        *rounds += u32::from(round_start);
        if *rounds < MIN_ROUNDS {
            return Verdict::Unchanged;
        }
        if *rounds > 4 * MIN_ROUNDS {
            self.phase = Phase::Waiting;
            return Verdict::Unchanged;
        }
        // A stretch ends with a loss, so that the bucket is as empty at its end as at its beginning.
        let delivered = (totals.delivered - since.delivered) as f64;
        if !lost || delivered == 0.0 || ((totals.lost - since.lost) as f64) < LOSS * delivered {
            return Verdict::Unchanged;
        }
        let time = totals.delivered_at.since(since.delivered_at);
        if time < Duration::from_millis(1) {
            return Verdict::Unchanged;
        }
        let found = delivered / time.as_secs_f64();
        if let Some(before) = *rate {
            let apart = (found - before).abs();
            if apart <= LIKENESS * before || apart <= LIKENESS_BYTES {
                self.phase = Phase::Used { rate: f64::midpoint(found, before), rounds: 0 };
                return Verdict::Found;
            }
        }
        self.phase = Phase::Sampling { rate: Some(found), since: totals, rounds: 0 };
        Verdict::Unchanged
    }

    /// The sender's clock stood still for `by`.
    pub fn shift_times(&mut self, by: Duration) {
        if let Phase::Sampling { since, .. } = &mut self.phase {
            since.delivered_at += by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 10 ms with 10 kB delivered in each and so many bytes lost.
    fn rounds(policer: &mut Policer, from: u64, to: u64, lost_each: u64) -> Vec<Verdict> {
        let round = |n: u64| Totals {
            delivered: n * 10_000,
            delivered_at: Instant::from_millis(10 * n),
            lost: n * lost_each,
        };
        (from..to).map(|n| policer.on_ack(round(n), true, lost_each > 0, false, true)).collect()
    }

    #[test]
    fn two_lossy_stretches_of_one_rate_are_a_policer_for_48_rounds() {
        let mut policer = Policer::new();
        let found = rounds(&mut policer, 0, 20, 2_500);
        let at = found.iter().position(|&verdict| verdict == Verdict::Found).unwrap();
        assert!(at <= 8, "two stretches of four rounds: {at}");
        assert!((policer.rate().unwrap() - 1e6).abs() < 1.0);
        let over = rounds(&mut policer, 20, 80, 2_500);
        assert!(over.contains(&Verdict::Over));
    }

    #[test]
    fn losses_below_a_fifth_are_none() {
        let mut policer = Policer::new();
        let found = rounds(&mut policer, 0, 60, 1_900);
        assert!(found.iter().all(|&verdict| verdict == Verdict::Unchanged) && policer.rate().is_none());
    }

    #[test]
    fn what_the_application_limits_tells_of_no_policer() {
        let mut policer = Policer::new();
        rounds(&mut policer, 0, 6, 2_500);
        let idle = Totals { delivered: 60_000, delivered_at: Instant::from_millis(60), lost: 15_000 };
        policer.on_ack(idle, true, true, true, true);
        let found = rounds(&mut policer, 7, 11, 2_500);
        assert!(found.iter().all(|&verdict| verdict == Verdict::Unchanged), "it begins anew: {found:?}");
    }
}
