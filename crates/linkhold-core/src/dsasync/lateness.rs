//! How much later than after the least wired round trip a sender's data usually comes: the path's jitter.
//!
//! Beside the paper (`dsasync`). Sees samples of the wired round trip; answers the time that windows allow for.
//!
//! A window of the least round trip lets the radio run dry whenever its data comes later. The standing queue
//! covers a few milliseconds of that; traffic of others on the path takes more. So windows allow for the mean
//! lateness and four mean deviations, as a retransmission timeout does (RFC 6298 section 2: K = 4), less the
//! standing queue. On a path whose round trip does not vary, that is nothing.
//!
//! Only a sender that waited for the window says how late the path is: the answer to an ACK that moved the
//! edge is then the segment just below that edge. A sender that had nothing to send answers late, too, but
//! with data from further below.
//!
//! Deviation from RFC 6298: means are taken over 32 samples, not 8 and 4. A timeout is armed anew by every
//! ACK, but what a window allows for must last through times in which the path is quick.

use crate::time::Duration;

/// Samples over which means are taken, after as many.
const SAMPLES: u8 = 32;

/// Mean deviations that are allowed for (RFC 6298: K).
const DEVIATIONS: u64 = 4;

/// The most that a sample counts, and that is allowed for: more than this is no queue but an outage, which no
/// window can cover.
const MOST: Duration = Duration::from_millis(100);

/// Resolution of the means: a flow's record has two bytes for each. They stand still within 31 ticks of the
/// truth, which is little beside the standing queue.
const TICK_NANOS: u64 = 2000;

/// Mean lateness of a flow's data, and its mean deviation, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    mean: u16,
    deviation: u16,
    samples: u8,
}

impl Lateness {
    /// Data came so much later than after the least round trip.
    pub fn add(&mut self, late: Duration) {
        self.samples = (self.samples + 1).min(SAMPLES);
        let weight = i32::from(self.samples);
        // At most 50,000 ticks, so that both means fit into their 16 bits.
        let late = (late.min(MOST).as_nanos() / TICK_NANOS) as i32;
        let (mean, deviation) = (i32::from(self.mean), i32::from(self.deviation));
        let off = late - mean;
        self.mean = (mean + off / weight) as u16;
        self.deviation = (deviation + (off.abs() - deviation) / weight) as u16;
    }

    /// What windows allow for beyond `standing`, the queue that they leave at the radio.
    pub fn beyond(&self, standing: Duration) -> Duration {
        let ticks = u64::from(self.mean) + DEVIATIONS * u64::from(self.deviation);
        Duration::from_nanos(ticks * TICK_NANOS).min(MOST).saturating_sub(standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: &[u64]) -> u64 {
        let mut late = Lateness::default();
        for &micros in samples {
            late.add(Duration::from_micros(micros));
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
    fn one_outage_is_forgotten_after_some_hundred_samples() {
        let mut samples = vec![500; 100];
        samples.push(80_000);
        let at_once = after(&samples);
        samples.extend([500; 150]);
        assert!(at_once > 5000 && after(&samples) == 0, "{at_once} us, then {}", after(&samples));
    }
}
