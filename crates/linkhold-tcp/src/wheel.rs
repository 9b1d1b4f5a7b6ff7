//! When a timer of a kernel fires: never early, and the later the longer it waits.
//!
//! Source: Linux `kernel/time/timer.c` (`calc_wheel_index`, `calc_index`): eight levels of 64 buckets, each
//! level eight times as coarse as the one below, a timer rounded up to the next bucket. At 250 Hz that is up
//! to 4 ms late below 252 ms, 32 ms below 2 s, 256 ms below 16 s: a timeout of 300 ms comes after 300 to 332
//! ms.

use linkhold_core::time::{Duration, Instant};

/// Linux `LVL_CLK_SHIFT`: a level is eight times as coarse as the one below it.
const LEVEL_SHIFT: u32 = 3;
/// Linux `LVL_START (1)`: waits shorter than this many ticks are in the finest level.
const FINEST: u64 = 63;
/// Linux `LVL_DEPTH` at 250 Hz, less one.
const COARSEST: u32 = 8;

/// The tick of the kernels that are simulated, 250 Hz.
const USUAL_TICK: Duration = Duration::from_millis(4);

/// When a timer set at `now` for `at` fires.
pub(crate) fn fires_at(now: Instant, at: Instant, tick: Duration) -> Instant {
    // Both arms do the same. By a constant the compiler divides with a multiplication.
    if tick == USUAL_TICK {
        round_up(now, at, USUAL_TICK.as_nanos())
    } else {
        round_up(now, at, tick.as_nanos().max(1))
    }
}

#[inline(always)]
fn round_up(now: Instant, at: Instant, tick: u64) -> Instant {
    let now = now.as_nanos() / tick;
    // usecs_to_jiffies rounds up.
    let wait = at.as_nanos().saturating_sub(now * tick).div_ceil(tick);
    let mut shift = 0;
    while wait >= FINEST << shift && shift < COARSEST * LEVEL_SHIFT {
        shift += LEVEL_SHIFT;
    }
    let bucket = ((now + wait) >> shift) + 1;
    Instant::from_nanos((bucket << shift) * tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_wait_the_coarser_the_wheel() {
        let tick = Duration::from_millis(4);
        let late = |now: u64, wait: u64| {
            let at = Instant::from_millis(now + wait);
            let fires = fires_at(Instant::from_millis(now), at, tick);
            assert!(fires > at, "never early");
            fires.since(at).as_millis()
        };
        for now in 1000..1300 {
            assert!(late(now, 200) <= 8, "a tick for the rounding of the wait and one for the wheel");
            assert!(late(now, 300) <= 36);
            assert!(late(now, 3000) <= 260);
        }
        assert_eq!(late(1024, 320), 32, "1344 ms is a bucket's edge: the next one");
        assert_eq!(late(1024, 340), 12);
    }
}
