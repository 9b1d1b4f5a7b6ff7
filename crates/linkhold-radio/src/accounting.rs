//! What the radio could have carried: silent time, and the integral of capacity while not silent.
//!
//! "Silent" here is any time in which no frame can get through: the radio's own silences, and that part of a
//! primary user's burst before its detection, in which frames collide.

use std::collections::VecDeque;
use std::sync::Arc;

use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

use crate::change::{Change, ChangeKind};
use crate::trace::{NANOS_PER_MS, OPPORTUNITY_BYTES, Trace};

/// Silences kept between two calls of `take_silences`: bounds memory when nobody takes them.
const MAX_SILENCES: usize = 65_536;

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
    /// Downlink: the integral of the working channel's effective rate ([`AirTime`](crate::AirTime)) while the
    /// network is not silent, bits; where the uplink is granted, of what frames leave of it for data; in
    /// trace mode the delivery opportunities outside silences, 12,000 bits each.
    pub capacity_bits: u64,
    /// The same uplink. It differs from `capacity_bits` in trace mode and where the uplink is granted. On the
    /// shared medium both directions draw on the same bits.
    pub uplink_capacity_bits: u64,
    /// By station: downlink bits while neither it nor the network is silent.
    pub station_capacity_bits: Vec<u64>,
    /// By station: uplink bits while neither it nor the network is silent.
    pub station_uplink_capacity_bits: Vec<u64>,
    /// By channel: time on it while the network is not silent; empty in trace mode.
    pub usable: Vec<Duration>,
    /// By station, for each by channel: time on it while neither the station nor the network is silent.
    pub station_usable: Vec<Vec<Duration>>,
    /// Trace mode: time in those gaps of the uplink trace that are longer than the threshold. No link event
    /// tells of them.
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

    /// What happened between `earlier` and this snapshot. `until` becomes the length of that time.
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
            usable: durations(&self.usable, &earlier.usable),
            station_usable: (self.station_usable.iter().zip(&earlier.station_usable))
                .map(|(now, then)| durations(now, then))
                .collect(),
            uplink_gap_time: self.uplink_gap_time.saturating_sub(earlier.uplink_gap_time),
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Bits times nanoseconds. They are exact for any rate and time, so that totals do not depend on where they
/// are cut.
type BitNanos = u128;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// What the working channel can do between two changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// Its index.
    pub(crate) channel: usize,
    /// The rate of full-size packets downlink, in the mean of a frame where there are frames.
    pub(crate) rate: BitRate,
    /// The same uplink.
    pub(crate) uplink_rate: BitRate,
}

/// What the air could carry, by time.
#[derive(Clone, Debug)]
enum Capacity {
    /// The working channel's rate.
    Rate,
    /// Delivery opportunities.
    Trace {
        down: Arc<Trace>,
        up: Arc<Trace>,
        /// Gaps of the uplink trace above the threshold, ms in a lap.
        up_gaps: Vec<(u32, u32)>,
    },
}

#[derive(Clone, Debug, Default)]
struct Totals {
    until: Instant,
    network_silent: Duration,
    /// By station: its own silence while the network is not silent.
    station_alone: Vec<Duration>,
    down: BitNanos,
    up: BitNanos,
    /// By station: (down, up) that passed while only it was silent.
    station_missed: Vec<(BitNanos, BitNanos)>,
    /// By channel: time on it that was not silent.
    usable: Vec<Duration>,
    /// By station and then by channel: what of it passed while only that station was silent.
    station_missed_time: Vec<Duration>,
    /// Opportunities passed, (down, up).
    passed: (u64, u64),
}

/// Sums up what the timeline goes through.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    capacity: Capacity,
    totals: Totals,
    /// By cause, in the order of [`Cause::ALL`]: start of the network's silence.
    network: [Option<Instant>; Cause::ALL.len()],
    /// The stations in a silence of their own (they sense), with its start and cause.
    stations: Vec<(StationId, Cause, Instant)>,
    finished: VecDeque<Silence>,
}

impl Meter {
    pub(crate) fn for_channels(stations: u32, channels: usize) -> Self {
        Self::new(Capacity::Rate, stations, channels)
    }

    pub(crate) fn for_trace(stations: u32, down: Arc<Trace>, up: Arc<Trace>, threshold: Duration) -> Self {
        let up_gaps = up.gaps(threshold);
        Self::new(Capacity::Trace { down, up, up_gaps }, stations, 0)
    }

    fn new(capacity: Capacity, stations: u32, channels: usize) -> Self {
        let count = stations as usize;
        let totals = Totals {
            until: Instant::ZERO,
            network_silent: Duration::ZERO,
            station_alone: vec![Duration::ZERO; count],
            down: 0,
            up: 0,
            station_missed: vec![(0, 0); count],
            usable: vec![Duration::ZERO; channels],
            station_missed_time: vec![Duration::ZERO; count * channels],
            passed: (0, 0),
        };
        Self {
            capacity,
            totals,
            network: [None; Cause::ALL.len()],
            stations: Vec::new(),
            finished: VecDeque::new(),
        }
    }

    /// Sums up to a change that is about to be made; `service` stood since the last.
    pub(crate) fn advance(&mut self, change: Change, service: Service) {
        let mut totals = core::mem::take(&mut self.totals);
        self.extend(&mut totals, change, service);
        self.totals = totals;
    }

    fn extend(&self, totals: &mut Totals, change: Change, service: Service) {
        let length = change.at.since(totals.until);
        totals.until = totals.until.max(change.at);
        let (down, up) = match &self.capacity {
            Capacity::Rate => {
                let bits = |rate: BitRate| u128::from(rate.as_bps()) * u128::from(length.as_nanos());
                (bits(service.rate), bits(service.uplink_rate))
            }
            Capacity::Trace { down, up, .. } => {
                // Opportunities at the very time of a change: usable if a silence ends or before one starts.
                let included = change.kind == ChangeKind::Stop;
                let taken = |trace: &Trace, passed: &mut u64| {
                    let now = trace.opportunities_until(change.at, included).max(*passed);
                    let count = now - core::mem::replace(passed, now);
                    u128::from(count) * u128::from(OPPORTUNITY_BYTES) * 8 * NANOS_PER_SECOND
                };
                (taken(down, &mut totals.passed.0), taken(up, &mut totals.passed.1))
            }
        };
        if self.network.iter().any(Option::is_some) {
            totals.network_silent += length;
        } else {
            for (station, _, _) in &self.stations {
                if let Some(alone) = totals.station_alone.get_mut(station.0 as usize) {
                    *alone += length;
                }
            }
        }
        // A gap of the downlink trace holds no downlink opportunity by nature, and the uplink goes on in it.
        let stopped = Cause::ALL
            .iter()
            .zip(&self.network)
            .any(|(&cause, since)| since.is_some() && (cause != Cause::Fade));
        if !stopped {
            totals.down += down;
            totals.up += up;
            let channels = totals.usable.len();
            if let Some(usable) = totals.usable.get_mut(service.channel) {
                *usable += length;
            }
            for (station, _, _) in &self.stations {
                let station = station.0 as usize;
                if let Some(missed) = totals.station_missed.get_mut(station) {
                    missed.0 += down;
                    missed.1 += up;
                }
                if let Some(missed) = totals.station_missed_time.get_mut(station * channels + service.channel)
                {
                    *missed += length;
                }
            }
        }
    }

    /// A silence starts (or goes on, if it is open already).
    pub(crate) fn start(&mut self, at: Instant, scope: Scope, cause: Cause) {
        match scope {
            Scope::Network => {
                self.network[slot(cause)].get_or_insert(at);
            }
            Scope::Station(station) => {
                if !self.stations.iter().any(|open| (open.0, open.1) == (station, cause)) {
                    self.stations.push((station, cause, at));
                }
            }
        }
    }

    /// A silence ends.
    pub(crate) fn end(&mut self, at: Instant, scope: Scope, cause: Cause) {
        let start = match scope {
            Scope::Network => self.network[slot(cause)].take(),
            Scope::Station(station) => self
                .stations
                .iter()
                .position(|open| (open.0, open.1) == (station, cause))
                .map(|index| self.stations.remove(index).2),
        };
        if let Some(start) = start
            && start < at
            && self.finished.len() < MAX_SILENCES
        {
            self.finished.push_back(Silence { start, end: at, scope, cause });
        }
    }

    #[inline]
    pub(crate) fn take_silences(&mut self, into: &mut Vec<Silence>) {
        if !self.finished.is_empty() {
            into.extend(self.finished.drain(..));
        }
    }

    pub(crate) fn open_silences(&self, until: Instant, into: &mut Vec<Silence>) {
        let network = Cause::ALL.iter().zip(&self.network).filter_map(|(&cause, start)| {
            start.map(|start| Silence { start, end: until, scope: Scope::Network, cause })
        });
        let stations = self.stations.iter().map(|&(station, cause, start)| Silence {
            start,
            end: until,
            scope: Scope::Station(station),
            cause,
        });
        into.extend(network.chain(stations).filter(|silence| silence.start < until));
    }

    pub(crate) fn snapshot(&self, until: Instant, service: Service) -> AirAccounting {
        let mut totals = self.totals.clone();
        self.extend(&mut totals, Change { at: until, kind: ChangeKind::Stop }, service);
        let bits = |sum: BitNanos| u64::try_from(sum / NANOS_PER_SECOND).unwrap_or(u64::MAX);
        AirAccounting {
            until: totals.until,
            network_silent: totals.network_silent,
            station_silent: totals.station_alone.iter().map(|&alone| alone + totals.network_silent).collect(),
            capacity_bits: bits(totals.down),
            uplink_capacity_bits: bits(totals.up),
            station_capacity_bits: totals
                .station_missed
                .iter()
                .map(|missed| bits(totals.down - missed.0))
                .collect(),
            station_uplink_capacity_bits: totals
                .station_missed
                .iter()
                .map(|missed| bits(totals.up - missed.1))
                .collect(),
            station_usable: by_station(&totals),
            usable: totals.usable,
            uplink_gap_time: self.uplink_gap_time(totals.until),
        }
    }

    fn uplink_gap_time(&self, until: Instant) -> Duration {
        let Capacity::Trace { up, up_gaps, .. } = &self.capacity else { return Duration::ZERO };
        let lap = u64::from(up.lap_ms()) * NANOS_PER_MS;
        let (laps, rest) = (until.as_nanos() / lap, until.as_nanos() % lap);
        let up_to = |limit: u64| -> u64 {
            up_gaps
                .iter()
                .map(|&(start, end)| (u64::from(start) * NANOS_PER_MS, u64::from(end) * NANOS_PER_MS))
                .map(|(start, end)| end.min(limit).saturating_sub(start))
                .sum()
        };
        Duration::from_nanos(laps.saturating_mul(up_to(lap)) + up_to(rest))
    }
}

/// By station and channel: the usable time less what the station alone missed.
fn by_station(totals: &Totals) -> Vec<Vec<Duration>> {
    let usable = &totals.usable;
    let of_station = |missed: &[Duration]| {
        usable.iter().zip(missed).map(|(all, missed)| all.saturating_sub(*missed)).collect()
    };
    totals.station_missed_time.chunks_exact(usable.len().max(1)).map(of_station).collect()
}

fn slot(cause: Cause) -> usize {
    cause as usize
}
