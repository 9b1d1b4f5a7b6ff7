//! TCP Vegas: keeps a few segments of its own in the path's queue, judged by the RTT.
//!
//! Source: Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC
//! 13(8), 1995, with the parameters and the once-per-RTT form of Linux `tcp_vegas.c` (alpha 2, beta 4, gamma
//! 1 segments).
//! Sees RTT samples; slow start -> (diff > gamma) -> avoidance: cwnd +1, 0 or -1 a round trip.
//! Deviations: slow start doubles every round trip, not every other, as Linux's. Losses are found by the
//! sender's recovery, as in Linux: the paper's own retransmission rules (a fine-grained timeout that the
//! first duplicate ACKs check, and a decrease by a quarter) are not here.

use linkhold_core::time::Duration;

use super::reno::{Reno, halve, slow_start};
use super::{AckSample, Window};

/// Fewest segments in the queue.
const ALPHA: f64 = 2.0;
/// Most segments in the queue.
const BETA: f64 = 4.0;
/// Segments in the queue that end slow start.
const GAMMA: f64 = 1.0;
/// Samples without which a round trip says nothing (delayed ACKs blur a single one).
const SAMPLES: u32 = 3;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vegas {
    base_rtt: Option<Duration>,
    /// Smallest RTT in this round trip.
    round_min: Option<Duration>,
    samples: u32,
    /// The round trip ends when this offset is acknowledged.
    round_end: u64,
    reno: Reno,
}

impl Vegas {
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if ack.una >= self.round_end {
            self.end_round(window, ack);
        } else if window.in_slow_start() && ack.cwnd_limited {
            slow_start(window, ack.acked);
        }
    }

    fn end_round(&mut self, window: &mut Window, ack: &AckSample) {
        let judged = self.samples >= SAMPLES;
        if let (true, Some(base), Some(rtt)) = (judged, self.base_rtt, self.round_min) {
            let mss = window.mss as f64;
            let segments = window.cwnd as f64 / mss;
            // Diff = (cwnd / BaseRTT - cwnd / RTT) * BaseRTT: the segments that stand in the queue.
            let target = segments * base.as_secs_f64() / rtt.as_secs_f64();
            let diff = segments - target;
            if window.in_slow_start() && diff > GAMMA {
                // The queue builds: leave slow start with what the path carries.
                window.cwnd = window.cwnd.min(((target + 1.0) * mss) as u64).max(2 * window.mss);
                window.ssthresh = window.ssthresh.min(window.cwnd - window.mss).max(2 * window.mss);
            } else if window.in_slow_start() {
                if ack.cwnd_limited {
                    slow_start(window, ack.acked);
                }
            } else if diff > BETA {
                window.cwnd = (window.cwnd - window.mss).max(2 * window.mss);
                window.ssthresh = window.ssthresh.min(window.cwnd - window.mss).max(2 * window.mss);
            } else if diff < ALPHA && ack.cwnd_limited {
                window.cwnd += window.mss;
            }
        } else if ack.cwnd_limited {
            // Too few samples to judge: as Reno.
            if window.in_slow_start() {
                slow_start(window, ack.acked);
            } else {
                self.reno.avoid(window, ack.acked);
            }
        }
        self.round_end = ack.nxt;
        self.round_min = None;
        self.samples = 0;
    }

    pub fn on_congestion(&mut self, window: &Window, basis: u64) -> u64 {
        self.round_min = None;
        self.samples = 0;
        halve(window, basis)
    }

    pub fn on_timeout(&mut self) {
        self.round_min = None;
        self.samples = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::reno::tests::sample;
    use super::*;

    /// One round trip of ten ACKs at `rtt_ms`.
    fn round(vegas: &mut Vegas, w: &mut Window, at: &mut u64, rtt_ms: u64) {
        for _ in 0..10 {
            *at += 1000;
            let ack = AckSample {
                rtt: Some(Duration::from_millis(rtt_ms)),
                una: *at,
                nxt: *at + 10_000,
                ..sample(1000)
            };
            vegas.on_ack(w, &ack);
        }
    }

    #[test]
    fn the_window_moves_by_one_segment_a_round_trip_towards_two_to_four_queued() {
        let mut vegas = Vegas::default();
        let mut at = 0;
        let mut w = Window { cwnd: 20_000, ssthresh: 10_000, mss: 1000 };
        round(&mut vegas, &mut w, &mut at, 100);
        let start = w.cwnd;
        // Nothing queued: up. 3 of 21 queued (RTT 100 * 21/18): still. 6 queued: down.
        round(&mut vegas, &mut w, &mut at, 100);
        assert!(w.cwnd > start);
        // The first ACK of a round judges the round before it.
        round(&mut vegas, &mut w, &mut at, 117);
        w.cwnd = 21_000;
        round(&mut vegas, &mut w, &mut at, 117);
        assert_eq!(w.cwnd, 21_000);
        round(&mut vegas, &mut w, &mut at, 140);
        assert_eq!(w.cwnd, 21_000);
        round(&mut vegas, &mut w, &mut at, 140);
        assert!(w.cwnd < 21_000);
    }

    #[test]
    fn a_building_queue_ends_slow_start() {
        let mut vegas = Vegas::default();
        let mut at = 0;
        let mut w = Window { cwnd: 10_000, ssthresh: u64::MAX, mss: 1000 };
        round(&mut vegas, &mut w, &mut at, 100);
        round(&mut vegas, &mut w, &mut at, 130);
        round(&mut vegas, &mut w, &mut at, 130);
        assert!(!w.in_slow_start(), "{w:?}");
    }
}
