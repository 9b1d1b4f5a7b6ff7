//! What is sent when a channel switch takes capacity away (Algorithm 5).
//!
//! Paper: `dsasync` section IV-B c, Algorithm 5. Sees the new channel's C and e, and each station's downlink
//! rate D_i^in; emits duplicate ACKs, or arms ECN-echo and the window clamp.
//!
//! Deviations: the algorithm runs only when C·e fell. The paper says that a rise needs nothing; and without a
//! fall, a burst above the channel's rate is no news. Flows without unacknowledged data get no duplicate ACK:
//! there is nothing to retransmit. [`CapacityResponse::Modern`] exists because a Linux sender with SACK does
//! not count duplicate ACKs without SACK blocks; ECE makes it halve once, and the clamp holds it to what the
//! channel carries.

use super::config::{CapacityResponse, Clamp, DsaSyncConfig};
use super::handshake::EcnEcho;
use super::per_station::PerStation;
use super::shared::Shared;
use crate::action::Actions;
use crate::packet::StationId;
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Fraction};

/// Duplicate ACKs sent: the fast retransmit threshold (RFC 5681 section 3.2).
const DUPLICATE_ACKS: u32 = 3;

/// A channel's raw rate C and efficiency e.
pub(super) type Channel = (BitRate, Fraction);

/// Rate that a channel leaves for IP packets, bit/s.
fn carried(channel: Channel) -> f64 {
    channel.0.as_bps() as f64 * channel.1.get()
}

/// Measures the stations' downlink rates and answers a loss of capacity.
#[derive(Debug)]
pub(super) struct Capacity {
    /// D_i^in.
    rates: PerStation<RateWindow>,
    window: Duration,
}

impl Capacity {
    pub fn new(config: &DsaSyncConfig) -> Self {
        Self { rates: PerStation::new(config.monitor.max_stations), window: config.rate_window }
    }

    /// A downlink packet of the station came.
    #[inline]
    pub fn on_arrival(&mut self, now: Instant, station: StationId, len: u32) {
        self.rates.at(station).add(now, self.window, len);
    }

    /// The station's number goes to another.
    pub fn forget_station(&mut self, station: StationId) {
        self.rates.forget(station);
    }

    /// Algorithm 5, once per switch and flow.
    pub fn on_switch(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        old: Option<Channel>,
        new: Channel,
        out: &mut Actions,
    ) {
        let limit = carried(new);
        if shared.config.capacity == CapacityResponse::Off || old.is_none_or(|old| carried(old) <= limit) {
            return;
        }
        for slot in 0..shared.flows.slot_count() {
            let Some(flow) = shared.flows.get(slot) else { continue };
            if !flow.has_data || flow.is_over() {
                continue;
            }
            // line 2: D_i^in > e·C
            let rate = self.rates.at(flow.station).rate(now, self.window);
            if rate.as_bps() as f64 <= limit {
                continue;
            }
            match shared.config.capacity {
                CapacityResponse::Off => {}
                CapacityResponse::DuplicateAcks => {
                    let unacknowledged =
                        flow.down_max.zip(flow.acked).is_some_and(|(end, acked)| end.after(acked));
                    // ACKs in the shaper have yet to tell the sender of `acked`.
                    if unacknowledged && flow.shaped == 0 && flow.kept.ack().is_none() {
                        let window = flow.passed.min(flow.offer);
                        for _ in 0..DUPLICATE_ACKS {
                            shared.inject(slot, window, out);
                        }
                    }
                }
                CapacityResponse::Modern => {
                    let clamps = shared.config.clamp != Clamp::Off;
                    let flow = shared.flows.at(slot);
                    flow.clamp_on = clamps;
                    if flow.handshake.ecn == EcnEcho::Idle {
                        flow.handshake.ecn = EcnEcho::Due;
                    }
                }
            }
        }
    }
}

/// Bytes over a moving window, in eight steps.
#[derive(Clone, Copy, Debug, Default)]
struct RateWindow {
    buckets: [u64; 8],
    sum: u64,
    step: u64,
    /// End of the present step.
    until: Instant,
}

impl RateWindow {
    #[cold]
    fn advance(&mut self, now: Instant, window: Duration) {
        let length = (window.as_nanos() / 8).max(1);
        let step = now.as_nanos() / length;
        if step >= self.step + 8 {
            *self = Self::default();
        } else {
            for expired in (self.step + 1)..=step {
                let bucket = &mut self.buckets[(expired % 8) as usize];
                self.sum -= *bucket;
                *bucket = 0;
            }
        }
        self.step = step;
        self.until = Instant::from_nanos((step + 1).saturating_mul(length));
    }

    #[inline]
    fn add(&mut self, now: Instant, window: Duration, len: u32) {
        if now >= self.until {
            self.advance(now, window);
        }
        self.buckets[(self.step % 8) as usize] += u64::from(len);
        self.sum += u64::from(len);
    }

    fn rate(&mut self, now: Instant, window: Duration) -> BitRate {
        if now >= self.until {
            self.advance(now, window);
        }
        BitRate((self.sum as f64 * 8.0 / window.as_secs_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_window() {
        let window = Duration::from_millis(800);
        let mut rate = RateWindow::default();
        for ms in 0..1600 {
            rate.add(Instant::from_millis(ms), window, 1000);
        }
        let full = rate.rate(Instant::from_millis(1600), window).as_bps();
        assert!((7_000_000..=8_000_000).contains(&full), "{full}");
        assert_eq!(rate.rate(Instant::from_millis(2500), window), BitRate(0));
    }
}
