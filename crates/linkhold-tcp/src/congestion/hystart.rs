//! HyStart: slow start ends before it loses, when a round trip's delay rises, or when its ACKs have come
//! without a gap for half a round trip.
//!
//! Source: Ha and Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55(9), 2011, as Linux
//! `tcp_cubic.c` has it (`hystart_update`), not RFC 9406.
//! Sees ACKs in slow start; answers when it should end. Whether trains of ACKs are judged says `linux.rs`.

use linkhold_core::time::{Duration, Instant};

use super::{AckSample, Window};

/// Linux `hystart_low_window`: below this many segments slow start is left alone.
const LOW_WINDOW: u64 = 16;
/// Linux `HYSTART_MIN_SAMPLES`.
const SAMPLES: u32 = 8;
/// Linux `HYSTART_DELAY_MIN` and `_MAX`: bounds of the threshold min_rtt / 8.
const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(16);
/// Linux `hystart_ack_delta_us`: ACKs no further apart are one train.
const ACK_DELTA: Duration = Duration::from_millis(2);
/// Linux `hystart_ack_delay`: what aggregation may add to a train, at rates of up to 2 Gbit/s.
const ACK_DELAY: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    trains: bool,
    round_end: u64,
    round_start: Instant,
    /// The train's last ACK.
    last_ack: Instant,
    round_min: Option<Duration>,
    samples: u32,
    min_rtt: Option<Duration>,
    /// Slow start's end was found. As with Linux's `found`, only a timeout lets HyStart look again: a slow
    /// start after an idle time ends at the ssthresh that is known.
    found: bool,
}

impl HyStart {
    pub fn new(trains: bool) -> Self {
        Self { trains, ..Self::default() }
    }

    /// After a timeout. Linux `bictcp_reset` forgets the smallest RTT too.
    pub fn restart(&mut self) {
        let min_rtt = if self.trains { None } else { self.min_rtt };
        *self = Self { trains: self.trains, min_rtt, ..Self::default() };
    }

    /// True when slow start should end.
    pub fn on_ack(&mut self, window: &Window, ack: &AckSample) -> bool {
        if !self.found {
            self.found = self.finds(window, ack);
            return self.found;
        }
        false
    }

    fn finds(&mut self, window: &Window, ack: &AckSample) -> bool {
        if ack.una >= self.round_end {
            self.round_end = ack.nxt;
            self.round_start = ack.now;
            self.last_ack = ack.now;
            self.round_min = None;
            self.samples = 0;
        }
        let Some(rtt) = ack.rtt else { return false };
        let min_rtt = self.min_rtt.map_or(rtt, |min| min.min(rtt));
        self.min_rtt = Some(min_rtt);
        let wide = window.cwnd >= LOW_WINDOW * window.mss;
        if self.trains && wide && ack.now.since(self.last_ack) <= ACK_DELTA {
            self.last_ack = ack.now;
            // The round's ACKs have come without a gap for half a round trip: the path is half full.
            let half = Duration::from_nanos((min_rtt + ACK_DELAY).as_nanos() / 2);
            if ack.now.since(self.round_start) > half {
                return true;
            }
        }
        // hystart_update: the smallest of the round's first samples, judged from then on.
        let round_min = self.round_min.map_or(rtt, |min| min.min(rtt));
        self.round_min = Some(round_min);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let eighth = Duration::from_nanos(min_rtt.as_nanos() / 8);
        wide && round_min > min_rtt + eighth.clamp(DELAY_MIN, DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reno::tests::sample;
    use super::*;

    const MSS: u64 = 1000;

    /// One round of 80 ACKs `gap_us` apart on a path of 100 ms; answers after how many slow start should end.
    fn round(trains: bool, gap_us: u64) -> Option<u64> {
        let mut hystart = HyStart::new(trains);
        round_of(&mut hystart, gap_us)
    }

    fn round_of(hystart: &mut HyStart, gap_us: u64) -> Option<u64> {
        let window = Window { cwnd: 80 * MSS, ssthresh: u64::MAX, mss: MSS };
        (0..80).find(|&i| {
            let ack = AckSample {
                now: Instant::from_nanos(1_000_000_000 + i * gap_us * 1000),
                rtt: Some(Duration::from_millis(100)),
                una: i * MSS,
                nxt: if i == 0 { 80 * MSS } else { 100 * MSS },
                ..sample(MSS)
            };
            hystart.on_ack(&window, &ack)
        })
    }

    #[test]
    fn a_train_of_acks_half_a_round_trip_long_ends_slow_start() {
        // (100 ms + 1 ms) / 2 = 50.5 ms: the 51st ACK, 1 ms apart.
        assert_eq!(round(true, 1000), Some(51));
        assert_eq!(round(true, 2500), None, "2.5 ms apart they are no train");
        assert_eq!(round(false, 1000), None, "and without Linux's details there is no train");
    }

    #[test]
    fn slow_start_after_an_idle_time_is_left_alone_until_a_timeout() {
        let mut hystart = HyStart::new(true);
        assert_eq!(round_of(&mut hystart, 1000), Some(51));
        assert_eq!(round_of(&mut hystart, 1000), None, "its end is known");
        hystart.restart();
        assert_eq!(round_of(&mut hystart, 1000), Some(51));
    }
}
