//! How much a flow needs in flight: base round trip, share of the radio, and the window clamp made of them.
//!
//! Beside the paper (`dsasync`), whose section IV-B c leaves windows alone. "The goodput of a deep buffer with the
//! delay of a short one": a window of one base round trip plus a short standing queue keeps the radio busy, and a
//! sender held to it cannot fill the router's queue, nor the hold buffer in a silence.
//!
//! - **Base round trip** = wired part (an uplink packet passes → the correspondent's answer passes) + radio part (a
//!   segment goes down to an empty radio → its ACK comes up). The standing queue sits before the radio, so it is in
//!   neither: an estimate taken end to end would count its own queue, grow the window by it, and so on.
//! - **Rate**: what stations acknowledge at most in 200 ms, between 0.8 and 1 times C·e. On a shared medium
//!   the ACKs take airtime too, and C·e alone would leave that tenth of the base round trip standing as a queue.
//! - **Share**: `clamp = rate · (base + standing queue) / n`, where `n = bytes of all flows / bytes of the
//!   largest` over a short epoch. For n equal flows that is n; thin flows beside a bulk one hardly count, so the bulk flow
//!   keeps what they leave.

use crate::time::{Duration, Instant};
use crate::units::{BitRate, Fraction};

/// Least of the last one to two half-windows, microseconds; survives a time without samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinFilter {
    current: u32,
    previous: u32,
    since: Instant,
}

/// Half of the window of a [`MinFilter`]: long against silences, short against route changes (Linux BBR takes
/// 10 s, `bbr_min_rtt_win_sec`).
const HALF_WINDOW: Duration = Duration::from_secs(10);

impl Default for MinFilter {
    fn default() -> Self {
        Self { current: u32::MAX, previous: u32::MAX, since: Instant::ZERO }
    }
}

impl MinFilter {
    /// Adds a sample.
    pub fn add(&mut self, now: Instant, sample: Duration) {
        let micros = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX - 1);
        if now.since(self.since) > HALF_WINDOW {
            self.previous = self.current;
            self.current = micros;
            self.since = now;
        } else {
            self.current = self.current.min(micros);
        }
    }

    /// The least sample, if there was one.
    pub fn get(&self) -> Option<Duration> {
        let least = self.current.min(self.previous);
        (least != u32::MAX).then(|| Duration::from_micros(u64::from(least)))
    }
}

/// Shortest epoch over which shares are measured, and the fewest bytes that say something about shares.
const EPOCH: Duration = Duration::from_millis(500);
const EPOCH_BYTES: u64 = 32 * 1500;

/// Time over which the delivered rate is measured, and the least share of C·e that it is believed: below it the radio
/// has simply not been busy.
const BIN: Duration = Duration::from_millis(200);
const LEAST_SHARE: f64 = 0.8;

/// The clamp's cell-wide part.
#[derive(Debug)]
pub(super) struct Bdp {
    bytes_per_ns: f64,
    standing: Duration,
    epoch: u32,
    epoch_start: Instant,
    total: u64,
    largest: u64,
    share_of: f64,
    bin_start: Instant,
    bin_bytes: u64,
    /// Highest delivered rate of this and of the previous half-window, bytes/ns, and this one's start.
    fastest: [f64; 2],
    fastest_since: Instant,
}

impl Bdp {
    pub fn new(standing: Duration) -> Self {
        Self {
            bytes_per_ns: 0.0,
            standing,
            epoch: 1,
            epoch_start: Instant::ZERO,
            total: 0,
            largest: 0,
            share_of: 1.0,
            bin_start: Instant::ZERO,
            bin_bytes: 0,
            fastest: [0.0; 2],
            fastest_since: Instant::ZERO,
        }
    }

    /// A station acknowledged this much.
    pub fn on_delivered(&mut self, now: Instant, bytes: u64) {
        self.bin_bytes += bytes;
        let time = now.since(self.bin_start);
        if time < BIN {
            return;
        }
        let rate = self.bin_bytes as f64 / time.as_nanos() as f64;
        if now.since(self.fastest_since) > HALF_WINDOW {
            self.fastest = [rate, self.fastest[0]];
            self.fastest_since = now;
        } else {
            self.fastest[0] = self.fastest[0].max(rate);
        }
        self.restart_bin(now);
    }

    /// A silence begins or ends: what was delivered across it says nothing of the radio's rate.
    pub fn restart_bin(&mut self, now: Instant) {
        self.bin_start = now;
        self.bin_bytes = 0;
    }

    /// Payload bytes/ns that the radio carries.
    fn rate(&self) -> f64 {
        let fastest = self.fastest[0].max(self.fastest[1]);
        if fastest > 0.0 {
            fastest.clamp(LEAST_SHARE * self.bytes_per_ns, self.bytes_per_ns)
        } else {
            self.bytes_per_ns
        }
    }

    /// The channel's rate and efficiency became known or changed.
    pub fn set_capacity(&mut self, capacity: BitRate, efficiency: Fraction) {
        self.bytes_per_ns = capacity.as_bps() as f64 * efficiency.get() / 8e9;
        self.fastest = [0.0; 2];
    }

    /// Counts a flow's bytes on their way down; `flow_epoch` and `flow_bytes` are the flow's own tally.
    pub fn on_sent(&mut self, now: Instant, len: u32, flow_epoch: &mut u32, flow_bytes: &mut u64) {
        if now.since(self.epoch_start) >= EPOCH && self.total >= EPOCH_BYTES {
            let shares = self.total as f64 / self.largest.max(1) as f64;
            // Half the old value: one epoch is often one burst of one flow.
            self.share_of = f64::midpoint(self.share_of, shares).max(1.0);
            self.epoch = self.epoch.wrapping_add(1);
            self.epoch_start = now;
            self.total = 0;
            self.largest = 0;
        }
        if *flow_epoch != self.epoch {
            *flow_epoch = self.epoch;
            *flow_bytes = 0;
        }
        *flow_bytes += u64::from(len);
        self.total += u64::from(len);
        self.largest = self.largest.max(*flow_bytes);
    }

    /// The window, bytes, for a flow with this base round trip; `None` while the capacity is unknown. At least two
    /// segments, so that a delayed ACK never stops the flow.
    pub fn clamp(&self, wired: Duration, radio: Duration, mss: u32) -> Option<u32> {
        if self.bytes_per_ns <= 0.0 {
            return None;
        }
        let nanos = (wired + radio + self.standing).as_nanos() as f64;
        let bytes = (self.rate() * nanos / self.share_of) as u32;
        Some(bytes.max(2 * mss.clamp(536, 9000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_forgets_an_old_minimum_but_not_its_last_sample() {
        let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
        let ms = Duration::from_millis;
        let mut filter = MinFilter::default();
        assert_eq!(filter.get(), None);
        for (time, sample, least) in [(0, 30, 30), (1, 10, 10), (2, 40, 10), (12, 40, 10), (23, 40, 40)] {
            filter.add(at(time), ms(sample));
            assert_eq!(filter.get(), Some(ms(least)), "at {time} s");
        }
        assert_eq!(filter.get(), Some(ms(40)));
    }

    #[test]
    fn the_clamp_is_the_bandwidth_delay_product_and_the_standing_queue() {
        let ms = Duration::from_millis;
        let mut bdp = Bdp::new(ms(20));
        assert_eq!(bdp.clamp(ms(50), ms(0), 1448), None);
        bdp.set_capacity(BitRate::from_mbps(24), Fraction::clamped(0.5));
        // 12 Mb/s × 70 ms / 8
        assert_eq!(bdp.clamp(ms(48), ms(2), 1448), Some(105_000));
        assert_eq!(Bdp { share_of: 1000.0, ..bdp }.clamp(ms(48), ms(2), 1448), Some(2896));
    }

    #[test]
    fn the_rate_is_what_is_delivered_but_never_far_from_the_channels() {
        // (bytes acknowledged each millisecond, share of C·e believed)
        for (per_ms, share) in [(900, 0.9), (1200, 1.0), (100, 0.8)] {
            let mut bdp = Bdp::new(Duration::ZERO);
            bdp.set_capacity(BitRate::from_mbps(8), Fraction::ONE);
            assert!((bdp.rate() - 0.001).abs() < 1e-9);
            for ms in 0..1000 {
                bdp.on_delivered(Instant::from_millis(ms), per_ms);
            }
            assert!((bdp.rate() / 0.001 - share).abs() < 0.03, "{per_ms}: {}", bdp.rate());
        }
    }

    #[test]
    fn equal_flows_share_equally_and_thin_ones_hardly_count() {
        // (bytes of each flow per round, share)
        for (flows, expected) in [(vec![1500; 4], 4.0), (vec![15_000, 150, 150, 150], 1.03)] {
            let mut bdp = Bdp::new(Duration::ZERO);
            let mut tallies = vec![(0u32, 0u64); flows.len()];
            for round in 0..2000u64 {
                for (len, (epoch, bytes)) in flows.iter().zip(&mut tallies) {
                    bdp.on_sent(Instant::from_millis(10 * round), *len, epoch, bytes);
                }
            }
            assert!((bdp.share_of - expected).abs() < 0.05, "{} for {flows:?}", bdp.share_of);
        }
    }
}
