//! What the radio could have carried: silent time, and the integral of capacity while not silent.
//!
//! "Silent" here is any time in which no frame can get through: the radio's own silences, and the part of a
//! primary user's burst in which it is not yet detected and frames collide.

use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

/// One silence: an interval in which the stations of `scope` could not be served, for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// First instant without service.
    pub start: Instant,
    /// Service is possible again.
    pub end: Instant,
    /// Who was silent.
    pub scope: Scope,
    /// Why. Silences of different causes overlap freely.
    pub cause: Cause,
}

/// Totals from time 0 to `until`. Take two and subtract to leave a warm-up out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AirAccounting {
    /// End of the accounted time.
    pub until: Instant,
    /// Time in which the whole network was silent (union over causes).
    pub network_silent: Duration,
    /// By station: time in which it was silent, alone or with the network (union).
    pub station_silent: Vec<Duration>,
    /// Downlink: the integral of capacity times MAC efficiency while the network is not silent, bits; in trace
    /// mode the delivery opportunities outside silences, 12,000 bits each.
    pub capacity_bits: u64,
    /// Uplink likewise. Equal to `capacity_bits` but in trace mode; on the shared medium both directions draw on
    /// the same bits.
    pub uplink_capacity_bits: u64,
    /// By station: downlink bits while neither it nor the network is silent.
    pub station_capacity_bits: Vec<u64>,
    /// By station: uplink bits while neither it nor the network is silent.
    pub station_uplink_capacity_bits: Vec<u64>,
    /// Trace mode: time in gaps of the uplink trace above the threshold, which no link event tells.
    pub uplink_gap_time: Duration,
}

impl AirAccounting {
    /// Share of the time in which the whole network was silent; 0 before any time has passed.
    #[must_use]
    pub fn silent_fraction(&self) -> f64 {
        ratio(self.network_silent.as_secs_f64(), self.until.as_secs_f64())
    }

    /// Share of the time in which `station` was silent, alone or with the network.
    #[must_use]
    pub fn station_silent_fraction(&self, station: u32) -> f64 {
        let silent = self.station_silent.get(station as usize).map_or(0.0, |time| time.as_secs_f64());
        ratio(silent, self.until.as_secs_f64())
    }

    /// Mean of what was left for IP packets downlink, silences counted as zero.
    #[must_use]
    pub fn capacity_mean(&self) -> BitRate {
        BitRate(ratio(self.capacity_bits as f64, self.until.as_secs_f64()).round() as u64)
    }

    /// What happened between `earlier` and this snapshot (`until` becomes the length of that time).
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let durations = |now: &[Duration], then: &[Duration]| {
            now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect()
        };
        let bits = |now: &[u64], then: &[u64]| now.iter().zip(then).map(|(now, then)| now - then).collect();
        Self {
            until: Instant::ZERO + self.until.since(earlier.until),
            network_silent: self.network_silent.saturating_sub(earlier.network_silent),
            station_silent: durations(&self.station_silent, &earlier.station_silent),
            capacity_bits: self.capacity_bits - earlier.capacity_bits,
            uplink_capacity_bits: self.uplink_capacity_bits - earlier.uplink_capacity_bits,
            station_capacity_bits: bits(&self.station_capacity_bits, &earlier.station_capacity_bits),
            station_uplink_capacity_bits: bits(
                &self.station_uplink_capacity_bits,
                &earlier.station_uplink_capacity_bits,
            ),
            uplink_gap_time: self.uplink_gap_time.saturating_sub(earlier.uplink_gap_time),
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
