//! What a perfect transport would deliver: `goodput_limit_bps`.
//!
//! The limit is the time integral of (capacity x MAC efficiency) while not silent, times the share of it that
//! is application payload:
//!
//! ```text
//! p  payload of a full segment = MSS - option bytes (12 with timestamps)
//! W  its length on the wire    = IP header + 20 + options + p
//! A  an ACK's length           = IP header + 20 + options
//! r  segments an ACK           = 2 with any delayed ACK, 1 without
//!
//! shared medium:  share = r p / (r W + A)      ACKs take air time from data
//! duplex, trace:  share = p / W                and where data flows both ways: r p / (r W + A) in each direction
//! ```
//! Flows of different kinds count by the mean of their shares. A direction can never carry more than the wire does:
//! its limit is at most rate x time x p / W there. If all flows belong to one station, its own sensing counts as
//! silence too; with several stations the air is lost only while the whole network is silent, since another
//! station can be served meanwhile.
//!
//! Counted from the end of a warm-up, goodput can exceed the limit a little: what stood in queues by then was
//! carried by capacity of the warm-up's.

use linkhold_core::packet::Direction;
use linkhold_core::units::BitRate;
use linkhold_radio::AirAccounting;
use linkhold_tcp::{DelayedAck, TcpConfig};

/// How the two directions share the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Both directions draw on one medium.
    Shared,
    /// Each direction has its own.
    Separate,
}

/// Lengths of one flow's packets.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    payload: f64,
    wire: f64,
    ack: f64,
    per_ack: f64,
}

/// Computes the limit from what the air could have carried.
#[derive(Clone, Debug)]
pub struct GoodputLimit {
    sharing: Sharing,
    wired: BitRate,
    /// By direction (downlink, uplink): the flows' lengths.
    flows: [Vec<Lengths>; 2],
    /// The one station with flows, if there is only one.
    station: Option<u32>,
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

impl GoodputLimit {
    /// A limit for no flow yet.
    #[must_use]
    pub fn new(sharing: Sharing, wired: BitRate) -> Self {
        Self { sharing, wired, flows: [Vec::new(), Vec::new()], station: None }
    }

    /// Counts a kind of flow in.
    pub fn add(&mut self, direction: Direction, station: u32, ip_header: u32, tcp: &TcpConfig) {
        let first = self.flows.iter().all(Vec::is_empty);
        self.station = if first || self.station == Some(station) { Some(station) } else { None };
        let options = if tcp.timestamps { 12.0 } else { 0.0 };
        let header = f64::from(ip_header) + 20.0;
        let payload = f64::from(tcp.mss) - options;
        let per_ack = match tcp.delayed_ack {
            DelayedAck::Off => 1.0,
            DelayedAck::Timer(_) | DelayedAck::Heartbeat(_) | DelayedAck::Linux => 2.0,
        };
        let lengths = Lengths { payload, wire: header + options + payload, ack: header + options, per_ack };
        self.flows[side(direction)].push(lengths);
    }

    /// Bits the air could have carried downlink and uplink.
    fn capacity(&self, air: &AirAccounting) -> [f64; 2] {
        let of = |all: u64, by_station: &[u64]| {
            let own = self.station.and_then(|station| by_station.get(station as usize));
            own.copied().unwrap_or(all) as f64
        };
        [
            of(air.capacity_bits, &air.station_capacity_bits),
            of(air.uplink_capacity_bits, &air.station_uplink_capacity_bits),
        ]
    }

    /// The limit over the time that `air` accounts for, bit/s; 0 without flows or time.
    #[must_use]
    pub fn bps(&self, air: &AirAccounting) -> f64 {
        let seconds = air.until.as_secs_f64();
        if seconds <= 0.0 {
            return 0.0;
        }
        let with_acks = |flow: &Lengths| flow.per_ack * flow.payload / (flow.per_ack * flow.wire + flow.ack);
        let alone = |flow: &Lengths| flow.payload / flow.wire;
        let wired = |direction: usize| {
            self.wired.as_bps() as f64 * seconds * mean(self.flows[direction].iter().map(alone))
        };
        let capacity = self.capacity(air);
        let bits = match self.sharing {
            Sharing::Shared => {
                let share = mean(self.flows.iter().flatten().map(with_acks));
                let wire: f64 = (0..2).filter(|&d| !self.flows[d].is_empty()).map(wired).sum();
                (capacity[0] * share).min(wire)
            }
            Sharing::Separate => {
                let both = self.flows.iter().all(|flows| !flows.is_empty());
                (0..2)
                    .filter(|&d| !self.flows[d].is_empty())
                    .map(|d| {
                        let flows = self.flows[d].iter();
                        let share = if both { mean(flows.map(with_acks)) } else { mean(flows.map(alone)) };
                        (capacity[d] * share).min(wired(d))
                    })
                    .sum()
            }
        };
        bits / seconds
    }

    /// Mean capacity over the same time, silences counted as zero, bit/s: of the direction that the flows use,
    /// downlink if both.
    #[must_use]
    pub fn capacity_mean_bps(&self, air: &AirAccounting) -> f64 {
        let seconds = air.until.as_secs_f64();
        let bits = if self.flows[0].is_empty() && !self.flows[1].is_empty() {
            air.uplink_capacity_bits
        } else {
            air.capacity_bits
        };
        if seconds > 0.0 { bits as f64 / seconds } else { 0.0 }
    }
}

const fn side(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => 0,
        Direction::Uplink => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkhold_core::time::Instant;
    use linkhold_tcp::Congestion;

    fn ten_seconds_of(bits: u64) -> AirAccounting {
        AirAccounting {
            until: Instant::from_millis(10_000),
            capacity_bits: bits,
            uplink_capacity_bits: bits,
            station_capacity_bits: vec![bits / 2, bits],
            station_uplink_capacity_bits: vec![bits / 2, bits],
            ..AirAccounting::default()
        }
    }

    #[test]
    fn acks_take_air_time_on_the_shared_medium_only() {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let air = ten_seconds_of(240_000_000);
        for (sharing, want) in [
            (Sharing::Shared, 24e6 * 2.0 * 1448.0 / (2.0 * 1500.0 + 52.0)),
            (Sharing::Separate, 24e6 * 1448.0 / 1500.0),
        ] {
            let mut limit = GoodputLimit::new(sharing, BitRate::from_mbps(100));
            limit.add(Direction::Downlink, 1, 20, &tcp);
            assert!((limit.bps(&air) - want).abs() < 1.0, "{sharing:?}: {}", limit.bps(&air));
        }
    }

    #[test]
    fn the_wire_bounds_it_and_one_stations_own_sensing_counts() {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let air = ten_seconds_of(240_000_000);
        let mut limit = GoodputLimit::new(Sharing::Separate, BitRate::from_mbps(10));
        limit.add(Direction::Downlink, 0, 20, &tcp);
        assert!((limit.bps(&air) - 10e6 * 1448.0 / 1500.0).abs() < 1.0);
        let mut limit = GoodputLimit::new(Sharing::Separate, BitRate::from_mbps(100));
        limit.add(Direction::Downlink, 0, 20, &tcp);
        assert!((limit.bps(&air) - 12e6 * 1448.0 / 1500.0).abs() < 1.0);
        limit.add(Direction::Downlink, 1, 20, &tcp);
        assert!((limit.bps(&air) - 24e6 * 1448.0 / 1500.0).abs() < 1.0);
    }

    #[test]
    fn without_flows_or_time_there_is_nothing_to_deliver() {
        let mut limit = GoodputLimit::new(Sharing::Shared, BitRate::from_mbps(100));
        assert_eq!(limit.bps(&ten_seconds_of(1)), 0.0);
        limit.add(Direction::Uplink, 0, 40, &TcpConfig::linux(Congestion::Reno));
        assert_eq!(limit.bps(&AirAccounting::default()), 0.0);
    }
}
