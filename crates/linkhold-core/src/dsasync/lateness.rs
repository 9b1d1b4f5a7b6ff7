//! How much later a sender's data usually comes than after the least wired round trip: the path's jitter.
//!
//! Beside the paper (`dsasync`). Sees samples of the wired round trip; answers the time that windows allow
//! for.
//!
//! A window of the least round trip lets the radio run dry whenever its data comes later. The standing queue
//! covers a few milliseconds of that; traffic of others on the path takes more. So windows allow for the mean
//! lateness and four mean deviations, as a retransmission timeout does (RFC 6298 section 2: K = 4), less the
//! standing queue. On a path whose round trip does not vary, that is nothing.
//!
//! Only a sender that waited for the window says how late the path is: the answer to an ACK that moved the
//! edge is then the segment just before that edge. A sender that had nothing to send answers late, too,
//! but with data that ends well before it. Now and then what a sender's timer sends after an outage
//! happens to end just before the edge. That comes once, where a queue is long several times in a row, so
//! a sample above [`MOST`] counts only after another one. In one of 60 runs of 30 s (scenarios/demo.toml,
//! seed 60, 20 ms) one such sample, the first of all, made the window longer by 100 ms for half of the
//! run.
//!
//! A sender that never uses its window up, because its own congestion window is less, gives no samples, and
//! what was seen before would stand for ever: in a run of told-late.toml over 3 ms, one late segment kept
//! 80 ms of queue all along. So data that comes on time although its sender did not wait for the window makes
//! what was seen forgotten.
//!
//! Deviation from RFC 6298: means are taken over 3 s, not over 8 and 4 samples. A timeout is armed anew by
//! every ACK, but what a window allows for must last through times in which the path is quick.

use crate::time::Duration;

/// Means are taken over this time: several times as long as a queue of cross traffic with bursts of 10 ms
/// remembers.
const MEMORY: Duration = Duration::from_secs(3);

/// Mean deviations that are allowed for (RFC 6298: K).
const DEVIATIONS: u64 = 4;

/// The most that a sample counts, and that is allowed for: a window that covers more is no better than a deep
/// buffer.
const MOST: Duration = Duration::from_millis(100);

/// Resolution of the means: a flow's record has two bytes for each.
const TICK_NANOS: u64 = 2000;

/// Resolution of the time that they are taken over, and [`MEMORY`] in it.
const UNIT_NANOS: u64 = 100_000;
const MEMORY_UNITS: u64 = MEMORY.as_nanos() / UNIT_NANOS;

/// Data comes on time if it is late by no more than the mean lateness, divided by this.
const ON_TIME: u64 = 4;

/// Added to the time that means are of while the latest sample was above [`MOST`]: a flow's record has no
/// byte left for it.
const ABOVE: u16 = 1 << 15;

const _: () = assert!(MEMORY_UNITS < ABOVE as u64);

/// Mean lateness of a flow's data, and its mean deviation, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    mean: u16,
    deviation: u16,
    /// Time that the means are of, up to [`MEMORY`], in units; and [`ABOVE`].
    seen: u16,
}

impl Lateness {
    /// Data came after `took`, of which the path takes `least` at least. A sample counts for the time that it
    /// took: there is one at a time, so that a quick path gives more of them.
    pub fn add(&mut self, took: Duration, least: Duration) {
        let late = took.saturating_sub(least);
        let above = if late > MOST { ABOVE } else { 0 };
        if above > self.seen & ABOVE {
            self.seen |= ABOVE;
            return;
        }
        let time = units(took);
        let seen = (u64::from(self.seen & !ABOVE) + time).min(MEMORY_UNITS);
        // At most 30,000 units and 50,000 ticks: all fit into 16 bits.
        self.seen = seen as u16 | above;
        let late = (late.min(MOST).as_nanos() / TICK_NANOS) as u16;
        let off = late.abs_diff(self.mean);
        self.mean = towards(self.mean, late, time, seen);
        self.deviation = towards(self.deviation, off, time, seen);
    }

    /// Data came after `took`, though its sender had not waited for the window. If it came on time, what was
    /// seen is forgotten after as much of such time as it was seen in.
    pub fn forget(&mut self, took: Duration, least: Duration) {
        let late = took.saturating_sub(least).as_nanos() / TICK_NANOS;
        if ON_TIME * late > u64::from(self.mean) {
            return;
        }
        let time = units(took) as u16;
        if self.seen & !ABOVE <= time {
            *self = Self::default();
        } else {
            self.seen -= time;
        }
    }

    /// What windows allow for beyond `standing`, the queue that they leave at the radio.
    pub fn beyond(&self, standing: Duration) -> Duration {
        let ticks = u64::from(self.mean) + DEVIATIONS * u64::from(self.deviation);
        Duration::from_nanos(ticks * TICK_NANOS).min(MOST).saturating_sub(standing)
    }
}

/// The time of a sample, in units: at most 30,000.
fn units(took: Duration) -> u64 {
    (took.as_nanos() / UNIT_NANOS).clamp(1, MEMORY_UNITS)
}

/// `mean` moved to the sample by `time / seen` of the way, and by a tick at least: rounded down it would
/// stand still close to the sample.
fn towards(mean: u16, sample: u16, time: u64, seen: u64) -> u16 {
    let way = mean.abs_diff(sample);
    let step = ((u64::from(way) * time / seen) as u16).max(u16::from(way > 0));
    if sample > mean { mean + step } else { mean - step }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(100);

    fn after(samples: &[u64]) -> u64 {
        let mut late = Lateness::default();
        for &micros in samples {
            late.add(LEAST + Duration::from_micros(micros), LEAST);
        }
        late.beyond(Duration::from_millis(5)).as_micros()
    }

    #[test]
    fn four_deviations_beyond_the_mean_are_allowed_for_less_the_standing_queue() {
        assert_eq!(after(&[]), 0);
        // A path that does not vary, or varies by less than the standing queue.
        assert_eq!((after(&[0; 100]), after(&[900; 100])), (0, 0));
        // The first sample is its own deviation.
        assert_eq!(after(&[4000]), 4000 + 4 * 4000 - 5000);
        // Half of them 0 and half of them 20 ms: mean and deviation are 10 ms.
        let swings: Vec<u64> = (0..1000).map(|n| 20_000 * (n % 2)).collect();
        let allowed = after(&swings);
        assert!((43_000..47_000).contains(&allowed), "{allowed} us");
        // However late: no more than 100 ms.
        assert_eq!(after(&[900_000; 3]), 95_000);
    }

    #[test]
    fn more_than_is_ever_allowed_for_counts_from_the_second_time_in_a_row() {
        assert_eq!((after(&[126_000]), after(&[126_000, 500, 900_000])), (0, 0));
        assert_eq!(after(&[126_000, 126_000]), 95_000);
        // 100 ms are not above the most.
        assert_eq!(after(&[100_000]), 95_000);
    }

    #[test]
    fn data_on_time_from_a_sender_that_did_not_wait_makes_it_forgotten() {
        let allowed = |late: &Lateness| late.beyond(Duration::from_millis(5)).as_micros();
        let took = |micros| LEAST + Duration::from_micros(micros);
        let mut late = Lateness::default();
        for _ in 0..10 {
            late.add(took(24_000), LEAST);
        }
        // 1.24 s of samples: as much of answers within a quarter of the mean, each of which takes 0.1 s.
        let before = allowed(&late);
        for _ in 0..30 {
            late.forget(took(7000), LEAST);
        }
        assert_eq!(allowed(&late), before, "what comes late itself tells nothing");
        for n in 1..=13 {
            late.forget(took(0), LEAST);
            assert_eq!(allowed(&late), if n < 13 { before } else { 0 }, "{n}");
        }
        // A sample above the most was the last before: the next one is the first again.
        late.add(took(126_000), LEAST);
        late.forget(took(0), LEAST);
        late.add(took(126_000), LEAST);
        assert_eq!(allowed(&late), 0);
    }

    #[test]
    fn one_outage_is_forgotten_after_some_hundred_samples() {
        let mut samples = vec![500; 100];
        samples.push(80_000);
        let at_once = after(&samples);
        samples.extend([500; 150]);
        assert!(at_once > 5000 && after(&samples) == 0, "{at_once} us, then {}", after(&samples));
    }
}
